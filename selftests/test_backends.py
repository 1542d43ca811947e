"""The built-in backends, against stand-ins for the devices that this machine lacks.

What a stand-in replaces must exist in PyTorch, so a misspelt name cannot survive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import devices
from devices import _graphs
from devices.cuda import Cuda
from devices.cuda import driver as nvidia_driver
from devices.mps import Mps
from devices.privateuse1 import PrivateUse1
from devices.xpu import Xpu
from selftests.fake_device import ONE, plugin


def properties(kind: str, **values: Any) -> SimpleNamespace:
    """Device properties of a C++ class, whose attributes its type stub lists."""
    stub = (Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text()
    body = re.search(rf"^class {kind}:\n((?:    .*\n)+)", stub, re.MULTILINE)
    assert body is not None
    known = set(re.findall(r"^    (\w+):", body.group(1), re.MULTILINE))
    assert set(values) <= known
    return SimpleNamespace(**values)


def stand_in(monkeypatch: pytest.MonkeyPatch, kind: str, module: Any, **functions: Any) -> None:
    """Replace functions that the module has (else this raises)."""
    for name, function in functions.items():
        monkeypatch.setattr(module, name, function)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(module, name, lambda *args, n=name: calls.append((kind, n, args)))


calls: list[tuple[str, str, tuple[Any, ...]]] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def gpus(monkeypatch: pytest.MonkeyPatch, hip: str | None, **facts: Any) -> None:
    # not a device that an earlier test of this process has enabled
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")
    cuda = None if hip else "13.0"
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    found = properties("_CudaDeviceProperties", total_memory=80 * 2**30, **facts)
    stand_in(
        monkeypatch,
        "cuda",
        torch.cuda,
        is_available=lambda: True,
        device_count=lambda: 2,
        get_device_properties=lambda device: found if device.type == "cuda" else None,
    )


def test_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, None, name="NVIDIA H100 80GB HBM3", major=9, minor=0)
    monkeypatch.setattr("devices.cuda.driver", lambda: "580.65.06")
    found = devices.discover()
    assert [t.id for t in devices.select("cuda:*", found)] == ["cuda:0", "cuda:1"]
    assert [t.id for t in devices.select(None, found)] == ["cuda:0"]
    cuda = found["cuda"]
    facts = cuda.describe("cuda:1")
    assert facts["name"] == "NVIDIA H100 80GB HBM3"
    assert (facts["chip"], facts["memory"], facts["capability"]) == ("H100", "80.0 GiB", "9.0")
    assert re.match(r"cuda 13\.0, cusolver ", facts["libraries"])
    assert cuda.traits("cuda:0")[:2] == ("chip:H100", "driver:580")
    assert cuda.torch_device("cuda:1") == torch.device("cuda:1")
    assert cuda.svd_drivers("cuda:0") == ("gesvd", "gesvdj", "gesvda")
    assert [cuda.jacobi_svd(d) for d in (None, "gesvd", "gesvdj")] == [False, False, True]
    cuda.synchronize("cuda:1")
    cuda.cleanup("cuda:1")
    assert [call[:2] for call in calls] == [("cuda", "synchronize"), ("cuda", "empty_cache")]
    assert calls[0][2] == (torch.device("cuda:1"),)


def test_rocm_is_not_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, "7.1", name="AMD Instinct MI300X", gcnArchName="gfx942:sramecc+:xnack-")
    found = devices.discover()
    assert [t.id for t in devices.select("rocm:1", found)] == ["rocm:1"]
    assert [t.id for t in devices.select(None, found)] == ["rocm:0"]
    with pytest.raises(devices.DeviceError, match=r"built for ROCm 7\.1: ask for rocm"):
        devices.select("cuda", found)
    rocm = found["rocm"]
    facts = rocm.describe("rocm:1")
    assert (facts["chip"], facts["libraries"]) == ("gfx942", "rocm 7.1")
    assert rocm.torch_device("rocm:1") == torch.device("cuda:1")
    assert rocm.svd_drivers("rocm:0") == ()
    rocm.synchronize("rocm:1")
    assert calls == [("cuda", "synchronize", (torch.device("cuda:1"),))]


def test_cuda_is_not_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, None, name="NVIDIA H100", major=9, minor=0)
    with pytest.raises(devices.DeviceError, match="not built for ROCm"):
        devices.select("rocm", devices.discover())


def test_cuda_says_why_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert Cuda().absent() == "this PyTorch is built without CUDA"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no driver was found" in str(Cuda().absent())


def test_the_nvidia_driver_is_asked_where_the_kernel_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"
    monkeypatch.setattr(Path, "read_text", lambda self: line)
    assert nvidia_driver() == "580.65.06"

    def missing(*_: Any, **options: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr("subprocess.run", lambda *a, **k: SimpleNamespace(stdout="535.1\n535.1\n"))
    assert nvidia_driver() == "535.1"
    monkeypatch.setattr("subprocess.run", missing)
    assert nvidia_driver() == ""


@pytest.mark.parametrize("double", [True, False])
def test_xpu(monkeypatch: pytest.MonkeyPatch, double: bool) -> None:
    found = properties(
        "_XpuDeviceProperties",
        name="Intel(R) Arc(TM) B580 Graphics",
        total_memory=12 * 2**30,
        driver_version="1.6.33578",
        platform_name="Intel(R) oneAPI Unified Runtime over Level-Zero",
        has_fp64=double,
    )
    stand_in(
        monkeypatch,
        "xpu",
        torch.xpu,
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_properties=lambda device: found,
    )
    monkeypatch.setattr(torch.version, "xpu", "20250201")
    assert [t.id for t in devices.select("xpu:0", devices.discover())] == ["xpu:0"]
    xpu = Xpu()
    assert xpu.absent() is None
    facts = xpu.describe("xpu:0")
    assert (facts["chip"], facts["memory"], facts["driver"]) == (
        "Arc-B580",
        "12.0 GiB",
        "1.6.33578",
    )
    assert ("float64" in xpu.dtypes_on("xpu:0")) is double
    xpu.synchronize("xpu:0")
    assert calls == [("xpu", "synchronize", (torch.device("xpu:0"),))]


def test_xpu_says_why_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: False)
    assert Xpu().absent() == "this PyTorch is built without XPU"
    monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: True)
    assert Xpu().absent() == "no device or no driver was found"


def test_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    stand_in(monkeypatch, "mps", torch.mps, recommended_max_memory=lambda: 48 * 2**30)
    monkeypatch.setattr(torch.backends.mps, "get_name", lambda: "Apple M4 Max", raising=False)
    monkeypatch.setattr("platform.mac_ver", lambda: ("26.1", ("", "", ""), "arm64"))
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    assert [t.id for t in devices.select("mps:0", devices.discover())] == ["mps"]
    mps = Mps()
    facts = mps.describe("mps")
    assert (facts["chip"], facts["memory"]) == ("M4-Max", "48.0 GiB")
    assert facts["fallback"] == "allowed"
    assert mps.traits("mps") == ("chip:M4-Max", "driver:26", "driver:26.1")
    assert mps.dtypes_on("mps") == ("float32", "complex64")
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.13.0"))
    assert not mps.jacobi_svd(None)
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.14.1+cpu"))
    assert mps.jacobi_svd(None)
    mps.synchronize("mps")
    mps.cleanup("mps")
    assert calls == [("mps", "synchronize", ()), ("mps", "empty_cache", ())]


def test_mps_says_why_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: False)
    assert Mps().absent() == "this PyTorch is built without MPS"
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    assert "macOS is too old" in str(Mps().absent())


def test_an_out_of_tree_backend_answers_to_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "npu")
    assert PrivateUse1().name == "npu"
    assert "registered no module" in str(PrivateUse1().absent())
    module = SimpleNamespace(
        __version__="2.9.0",
        device_count=lambda: 2,
        is_available=lambda: True,
        get_device_properties=lambda device: SimpleNamespace(name="Ascend", total_memory=2**35),
        synchronize=lambda device: calls.append(("npu", "synchronize", (device,))),
    )
    monkeypatch.setattr(torch, "npu", module, raising=False)
    npu = devices.discover()["npu"]
    assert npu.devices() == ["npu:0", "npu:1"]
    assert npu.absent() is None
    monkeypatch.setattr(PrivateUse1, "torch_device", lambda self, device: device)
    assert npu.describe("npu:1") == {"name": "Ascend", "libraries": "2.9.0", "memory": "32.0 GiB"}
    npu.synchronize("npu:1")
    assert calls == [("npu", "synchronize", ("npu:1",))]
    module.is_available = lambda: False
    assert npu.absent() == "torch.npu finds no device"


def test_a_plugin_for_an_out_of_tree_device_replaces_the_generic_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "one")
    assert isinstance(devices.discover()["one"], PrivateUse1)
    found = devices.discover([plugin(tmp_path, ONE, "replaces.py")])
    assert type(found["one"]).__name__ == "One"


# --- device graphs


class Stream:
    """A stream of a device module that notes what is asked of it."""

    def __init__(self, device: object = None) -> None:
        calls.append(("stream", "new", (device,)))

    def wait_stream(self, other: object) -> None:
        calls.append(("stream", "wait", ()))


class Graph:
    """A graph class with the methods that PyTorch's have in common."""

    def capture_begin(self) -> None:
        calls.append(("graph", "begin", ()))

    def capture_end(self) -> None:
        calls.append(("graph", "end", ()))

    def replay(self) -> None:
        calls.append(("graph", "replay", ()))

    def reset(self) -> None:
        calls.append(("graph", "reset", ()))


GRAPHS = [(kind, way) for kind in ("cuda", "xpu") for way in _graphs.WAYS]


@pytest.fixture(params=GRAPHS, ids="-".join)
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``record`` of a backend with stand-ins for its streams and for the one graph class."""
    kind, way = request.param
    module = getattr(torch, kind)
    if way == "native-graph" and not hasattr(module, _graphs.NATIVE[kind]):
        pytest.skip(f"PyTorch {torch.__version__} has no torch.{kind}.{_graphs.NATIVE[kind]}")

    @contextmanager
    def entered(*_: object) -> Iterator[None]:
        yield

    stand_in(
        monkeypatch,
        kind,
        module,
        Stream=Stream,
        stream=entered,
        device=entered,
        current_stream=Stream,
    )
    monkeypatch.delattr(torch.accelerator, "Graph", raising=False)
    if way == "device-graph":
        monkeypatch.setattr(torch.accelerator, "Graph", Graph, raising=False)
    else:
        monkeypatch.setattr(module, _graphs.NATIVE[kind], Graph)
    backend = {"cuda": Cuda, "xpu": Xpu}[kind]()
    return lambda call: backend.record(f"{kind}:1", call, way)


def test_a_call_is_warmed_up_captured_and_replayed(recorder: Any) -> None:
    results, replay = recorder(lambda: calls.append(("call", "", ())))
    assert results is None
    replay()
    steps = [f"{what} {step}".strip() for what, step, _ in calls if what in ("call", "graph")]
    assert steps == ["call", "call", "graph begin", "call", "graph end", "graph replay"]
    assert [args[0].index for what, name, args in calls if name == "synchronize"] == [1]


def test_a_failed_capture_is_ended_before_its_error_goes_on(recorder: Any) -> None:
    def call() -> None:
        calls.append(("call", "", ()))
        if ("graph", "begin", ()) in calls:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted") as caught:
        recorder(call)
    assert [step for what, step, _ in calls if what == "graph"] == ["begin", "end", "reset"]
    assert Cuda().refusal(caught.value) is not None


def test_graph_classes_are_pytorch_s(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner in (torch.cuda.CUDAGraph, getattr(torch.xpu, "XPUGraph", torch.cuda.CUDAGraph)):
        assert all(hasattr(owner, name) for name in vars(Graph) if not name.startswith("_"))
    monkeypatch.setattr(torch.accelerator, "Graph", Graph, raising=False)
    assert isinstance(_graphs.new_graph("device-graph", "xpu"), Graph)
    monkeypatch.delattr(torch.accelerator, "Graph")
    monkeypatch.delattr(torch.xpu, "XPUGraph", raising=False)
    with pytest.raises(NotImplementedError, match=r"has no torch.accelerator.Graph"):
        _graphs.new_graph("device-graph", "xpu")
    with pytest.raises(NotImplementedError, match=r"has no torch.xpu.XPUGraph"):
        _graphs.new_graph("native-graph", "xpu")
