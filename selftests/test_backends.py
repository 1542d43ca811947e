"""XPU, MPS and device graphs, against stand-ins for the devices that this machine lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import devices
from devices import _graphs
from devices.cuda import Cuda
from devices.mps import Mps
from devices.xpu import Xpu
from selftests.stand_ins import calls, properties, stand_in


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


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
        get_device_properties=lambda device: found if device == torch.device("xpu:0") else None,
    )
    monkeypatch.setattr(torch.version, "xpu", "20250201")
    assert [t.id for t in devices.select("xpu:*", devices.discover())] == ["xpu:0"]
    xpu = Xpu()
    assert xpu.absent() is None
    assert xpu.describe("xpu:0") == {
        "name": "Intel(R) Arc(TM) B580 Graphics",
        "chip": "Arc-B580",
        "memory": "12.0 GiB",
        "driver": "1.6.33578",
        "libraries": "Intel(R) oneAPI Unified Runtime over Level-Zero, xpu 20250201",
    }
    dtypes = ("float32", "float64", "complex64", "complex128")
    assert xpu.dtypes_on("xpu:0") == (dtypes if double else ("float32", "complex64"))
    xpu.synchronize("xpu:0")
    xpu.cleanup("xpu:0")
    assert calls == [
        ("xpu", "synchronize", (torch.device("xpu:0"),)),
        ("xpu", "empty_cache", ()),
    ]
    assert xpu.streams
    assert xpu.captures == ("device-graph", "native-graph")
    assert xpu.fallback_traces == ("aten::_to_cpu",)
    found.driver_version = ""
    assert "driver" not in xpu.describe("xpu:0")


def test_xpu_says_why_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: False)
    assert Xpu().absent() == "this PyTorch is built without XPU"
    monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: True)
    assert Xpu().absent() == "no device or no driver was found"
    assert Xpu().devices() == []
    monkeypatch.delattr(torch, "xpu")
    assert Xpu().absent() == "this PyTorch is built without XPU"
    assert Xpu().devices() == []


def test_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    stand_in(monkeypatch, "mps", torch.mps, recommended_max_memory=lambda: 48 * 2**30)
    monkeypatch.setattr(torch.backends.mps, "get_name", lambda: "Apple M4 Max", raising=False)
    monkeypatch.setattr("platform.mac_ver", lambda: ("26.1", ("", "", ""), "arm64"))
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    assert [t.id for t in devices.select("mps:0", devices.discover())] == ["mps"]
    mps = Mps()
    facts = {
        "name": "Apple M4 Max",
        "chip": "M4-Max",
        "memory": "48.0 GiB",
        "driver": "26.1",
        "libraries": "macOS 26.1",
        "fallback": "allowed",
    }
    assert mps.describe("mps") == facts
    assert mps.dtypes_on("mps") == ("float32", "complex64")
    assert not mps.subnormals
    assert mps.fallback_traces == ("aten::_to_cpu",)
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.13.0"))
    assert not mps.jacobi_svd(None)
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.14.0"))
    assert mps.jacobi_svd(None)
    mps.synchronize("mps")
    mps.cleanup("mps")
    assert calls == [("mps", "synchronize", ()), ("mps", "empty_cache", ())]


def test_mps_says_why_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: False)
    assert Mps().absent() == "this PyTorch is built without MPS"
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    assert Mps().absent() == "no Metal device was found, or macOS is too old"


def test_mps_is_described_where_less_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch before 2.10, and a platform that does not know macOS."""
    assert hasattr(torch.backends.mps, "get_name")
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 2**33)
    monkeypatch.delattr(torch.backends.mps, "get_name")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("platform.mac_ver", lambda: ("", ("", "", ""), ""))
    monkeypatch.setattr("platform.release", lambda: "25.1.0")
    facts = Mps().describe("mps")
    assert (facts["name"], facts["driver"]) == ("Apple GPU (arm64)", "25.1.0")


@pytest.mark.parametrize(
    ("value", "said"), [(None, "off"), ("", "off"), ("0", "off"), ("1", "allowed")]
)
def test_mps_says_whether_the_cpu_may_step_in(
    monkeypatch: pytest.MonkeyPatch, value: str | None, said: str
) -> None:
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 2**33)
    monkeypatch.setattr("devices.mps.name_of_gpu", lambda: "Apple M1")
    monkeypatch.delenv("PYTORCH_ENABLE_MPS_FALLBACK", raising=False)
    if value is not None:
        monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", value)
    assert Mps().describe("mps")["fallback"] == said


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
