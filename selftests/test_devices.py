"""Backends are found, named and chosen as documented, and each mistake is named to the user."""

from __future__ import annotations

import importlib.metadata
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import devices
from conformance.__main__ import main
from devices import _graphs
from devices._errors import chain
from devices._facts import chip
from devices.base import Backend, Fallback
from devices.cpu import Cpu
from devices.cuda import Cuda
from devices.cuda import driver as nvidia_driver
from devices.mps import Mps
from devices.privateuse1 import PrivateUse1
from devices.rocm import Rocm
from devices.xpu import Xpu

BUILT_IN = {"cpu", "cuda", "mps", "rocm", "xpu"}


class Fake(Backend):
    """A backend of two devices that are the CPU in truth."""

    name = "fake"
    count = 2

    @property
    def type(self) -> str:
        return "cpu"

    def __init__(self) -> None:
        self.enabled = 0

    def devices(self) -> list[str]:
        return [f"{self.name}:{index}" for index in range(self.count)]

    def setup(self) -> None:
        self.enabled += 1


def plugin(folder: Path, text: str, name: str = "plugin.py") -> Path:
    file = folder / name
    file.write_text("from devices.base import Backend\n" + text)
    return file


ONE = """
class One(Backend):
    name = "one"
    def devices(self):
        return ["one:0"]
"""


# --- discovery


def test_the_folder_is_the_list() -> None:
    found = devices.discover()
    assert set(found) >= BUILT_IN
    assert all(backend.name == name for name, backend in found.items())


def test_every_backend_says_what_is_there_or_why_nothing_is() -> None:
    for backend in devices.discover().values():
        assert bool(backend.devices()) is (backend.absent() is None)
        for device in backend.devices():
            devices.set_up(backend)
            assert backend.describe(device)["name"]
            assert all(":" in trait for trait in backend.traits(device))
            backend.synchronize(device)
            backend.cleanup(device)


def test_a_plugin_file_adds_a_backend(tmp_path: Path) -> None:
    found = devices.discover([plugin(tmp_path, ONE)])
    assert set(found) >= BUILT_IN | {"one"}
    assert [t.id for t in devices.select("one", found)] == ["one:0"]


def test_a_plugin_file_is_run_once(tmp_path: Path) -> None:
    file = plugin(tmp_path, ONE, "once.py")
    first = devices.discover([file])["one"]
    assert type(devices.discover([file])["one"]) is type(first)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named"),
        ("def :", "SyntaxError"),
        ("raise KeyError('driver')", "KeyError: 'driver'"),
        ("x = 1", "no subclass of devices.base.Backend"),
        (ONE.replace('"one"', '"a b"', 1), "a backend's name is a word, not 'a b'"),
        (ONE.replace('"one"', '"all"', 1), "'all' means every device"),
        (ONE.replace('"one"', '"cpu"', 1), "two backends are named 'cpu'"),
        (ONE + "    def __init__(self):\n        raise OSError('no bus')", "One cannot be made"),
    ],
)
def test_a_bad_plugin_file_is_named_with_its_error(tmp_path: Path, text: str, message: str) -> None:
    file = plugin(tmp_path, text)
    with pytest.raises(devices.DeviceError, match=re.escape(message)) as caught:
        devices.discover([file])
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_plugin_file_is_named() -> None:
    with pytest.raises(devices.DeviceError, match=r"plug-in nowhere\.py: no such file"):
        devices.discover(["nowhere.py"])


def entry_point(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = importlib.metadata.EntryPoint("mine", value, devices.GROUP)

    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        return [point] if group == devices.GROUP else []

    monkeypatch.setattr(devices, "entry_points", entry_points)


def test_entry_points_name_a_class_or_a_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugin(tmp_path, ONE, "an_installed_plugin.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    for value in ("an_installed_plugin:One", "an_installed_plugin"):
        entry_point(monkeypatch, value)
        assert "one" in devices.discover()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nothing_of_that_name:X", "cannot be loaded: ModuleNotFoundError"),
        ("math:pi", "neither a module nor a subclass of Backend"),
        ("math", "no subclass of devices.base.Backend"),
    ],
)
def test_a_bad_entry_point_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    entry_point(monkeypatch, value)
    with pytest.raises(devices.DeviceError, match=re.escape(message)) as caught:
        devices.discover()
    assert f"entry point mine = {value}" in str(caught.value)


# --- selection


def backends(*more: Backend) -> dict[str, Backend]:
    return {backend.name: backend for backend in (Cpu(), *more)}


@pytest.mark.parametrize(
    ("spec", "ids"),
    [
        (None, ["fake:0"]),
        ("fake", ["fake:0"]),
        ("fake:1", ["fake:1"]),
        ("fake:*", ["fake:0", "fake:1"]),
        ("fake,cpu", ["fake:0", "cpu"]),
        ("cpu, fake:1", ["cpu", "fake:1"]),
        ("fake:0,fake", ["fake:0"]),
        ("cpu:0", ["cpu"]),
        ("all", ["cpu", "fake:0", "fake:1"]),
    ],
)
def test_selection(spec: str | None, ids: list[str]) -> None:
    assert [target.id for target in devices.select(spec, backends(Fake()))] == ids


def test_without_an_accelerator_the_default_is_the_cpu() -> None:
    nothing = Fake()
    nothing.count = 0
    assert [target.id for target in devices.select(None, backends(nothing))] == ["cpu"]


def test_a_torch_device_type_names_the_one_backend_that_has_it() -> None:
    found: dict[str, Backend] = {"fake": Fake()}
    assert [target.id for target in devices.select("cpu:1", found)] == ["fake:1"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpu", "unknown device 'gpu'. Present: cpu, fake:0, fake:1. Known names: cpu, fake."),
        ("fake:2", "device 'fake:2' is not there. Present: cpu, fake:0, fake:1."),
        ("fake:x", "device 'fake:x' is not there."),
        ("fake:", "device 'fake:' is not there."),
        ("cpu:1", "device 'cpu:1' is not there."),
        ("cpu,,fake", "a name is missing"),
        ("", "a name is missing"),
    ],
)
def test_what_is_not_there_is_an_error_that_lists_what_is(spec: str, message: str) -> None:
    with pytest.raises(devices.DeviceError, match=re.escape(message)):
        devices.select(spec, backends(Fake()))


def test_an_absent_backend_is_an_error_with_the_reason() -> None:
    nothing = Fake()
    nothing.count = 0
    with pytest.raises(devices.DeviceError, match="'fake:0' is not there: no fake device found"):
        devices.select("fake:0", backends(nothing))


def test_no_device_at_all_is_an_error() -> None:
    with pytest.raises(devices.DeviceError, match="no device at all"):
        devices.select(None, {})


def test_a_backend_is_set_up_once_and_only_if_chosen() -> None:
    chosen, other = Fake(), Fake()
    other.name = "other"
    for _ in range(2):
        devices.select("fake:*", backends(chosen, other))
    assert (chosen.enabled, other.enabled) == (1, 0)


def test_a_failing_setup_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def setup(self: Fake) -> None:
        raise OSError("firmware too old\nsecond line")

    monkeypatch.setattr(Fake, "setup", setup)
    message = r"'fake' cannot be set up: OSError: firmware too old$"
    with pytest.raises(devices.DeviceError, match=message):
        devices.select("fake", backends(Fake()))


# --- the base


def test_fetch_takes_the_bits_off_before_the_transfer() -> None:
    A = torch.tensor([[1 + 2j, 3 - 4j]])
    for view in (A.conj(), torch._neg_view(A), torch._neg_view(A.conj()), A.conj().imag):
        host = Cpu().fetch(view)
        assert not host.is_conj()
        assert not host.is_neg()
        assert torch.equal(host, view.resolve_conj().resolve_neg())


def test_fetch_and_send_copy() -> None:
    A = torch.ones(2, 2)
    sent, fetched = Cpu().send(A, "cpu"), Cpu().fetch(A)
    A.zero_()
    assert sent.sum() == fetched.sum() == 4


def test_traits_are_coarse_first() -> None:
    class Facts(Fake):
        def describe(self, device: str) -> dict[str, str]:
            return {"name": device, "chip": "H100", "driver": "580.65.06"}

    assert Facts().traits("fake:0") == (
        "chip:H100",
        "driver:580",
        "driver:580.65",
        "driver:580.65.06",
    )
    assert Fake().traits("fake:0") == ()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("Intel(R) Arc(TM) B580 Graphics", "Arc-B580"),
        ("Intel(R) Data Center GPU Max 1550", "Max-1550"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_chips_have_short_names(name: str, short: str) -> None:
    assert chip(name) == short


FALLBACK_WARNINGS = [
    "The operator 'aten::linalg_qr' is not currently supported on the MPS backend and will fall "
    "back to run on the CPU. This may have performance implications.",
    "Aten Op fallback from XPU to CPU happends. This may have performance implications.",
    "The operator 'aten::geqrf on the XPU backend is falling back to run on the CPU.",
    "linalg.svd: the matrix does not fit, falling back to CPU",
]


@pytest.mark.parametrize("text", FALLBACK_WARNINGS)
def test_a_fallback_warning_is_noticed_and_kept_from_the_user(text: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Fake().fallback("fake:0") as notice:
            warnings.warn(text, stacklevel=1)
            warnings.warn("An output with one or more elements was resized", stacklevel=1)
    assert notice
    assert notice.reason == text
    assert [str(w.message)[:9] for w in caught] == ["An output"]
    assert not torch.is_warn_always_enabled()


def test_a_fallback_is_noticed_though_the_call_fails() -> None:
    notices = []

    def call() -> None:
        with Fake().fallback("fake:0") as notice:
            notices.append(notice)
            warnings.warn(FALLBACK_WARNINGS[0], stacklevel=1)
            raise KeyError

    with pytest.raises(KeyError):
        call()
    assert notices[0]


def test_a_result_elsewhere_is_noticed() -> None:
    notice = Fallback(torch.device("cpu"))
    notice.results([torch.ones(1), torch.ones(1, device="meta")])
    assert notice.reason == "result 1 lives on meta, not cpu"


def test_a_silent_fallback_is_seen_in_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fake, "fallback_traces", ("aten::_to_cpu",))
    with Fake().fallback("fake:0") as notice:
        torch.ones(2).exp()
    assert not notice
    with Fake().fallback("fake:0") as notice:
        torch._to_cpu([torch.ones(1)])
    assert notice.reason == "the call went through aten::_to_cpu"


REFUSED = [
    NotImplementedError("The operator 'aten::geqrf' is not currently implemented for the device"),
    RuntimeError("\"geqrf_cpu\" not implemented for 'Half'"),
    RuntimeError("linalg.svd: keyword argument `driver=` is only supported on CUDA inputs"),
    RuntimeError("linalg.svd: Expected a floating point or complex tensor as input. Got Int"),
    RuntimeError("linalg.qr: Low precision dtypes not supported. Got Half"),
    TypeError("Cannot convert a MPS Tensor to float64 dtype as it doesn't support float64."),
    RuntimeError("Calling torch.linalg.qr requires compiling PyTorch with LAPACK"),
    RuntimeError("CUDA error: operation not permitted when stream is capturing"),
    type("Unsupported", (RuntimeError,), {})("call_function args"),
]
BROKEN = [
    RuntimeError("DispatchStub: missing kernel for mps INTERNAL ASSERT FAILED, not supported"),
    RuntimeError("cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `gesvdj`"),
    RuntimeError("Failed to create Metal pipeline: this option is not supported"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
    torch.linalg.LinAlgError("linalg.svd: not supported: the algorithm failed to converge"),
    torch.OutOfMemoryError("CUDA out of memory. This size is not supported."),
    KeyError("not supported"),
]


@pytest.mark.parametrize("error", REFUSED, ids=str)
def test_refusals(error: Exception) -> None:
    reason = Fake().refusal(error)
    assert reason is not None
    assert reason.startswith(f"{type(error).__name__}: ")
    assert not Fake().fatal(error)


@pytest.mark.parametrize("error", BROKEN, ids=str)
def test_breakages_are_no_refusals(error: Exception) -> None:
    assert Fake().refusal(error) is None


def test_the_wrapped_error_counts() -> None:
    def raised(inner: Exception) -> Exception:
        try:
            raise RuntimeError("backend='inductor' raised") from inner
        except RuntimeError as outer:
            return outer

    assert Fake().refusal(raised(REFUSED[0])) == f"NotImplementedError: {REFUSED[0]}"
    assert Fake().refusal(raised(BROKEN[0])) is None
    assert Fake().fatal(raised(BROKEN[3]))
    loop = RuntimeError("loop")
    loop.__cause__ = loop
    assert list(chain(loop)) == [loop]


FATAL = [
    (Cuda(), "CUDA error: an illegal memory access was encountered"),
    (Cuda(), "CUDA error: device-side assert triggered"),
    (Cuda(), "CUDA error: unspecified launch failure"),
    (Cuda(), "CUDA error: uncorrectable ECC error encountered"),
    (Rocm(), "HIP error: an illegal memory access was encountered"),
    (Rocm(), "HIP error: unspecified launch failure"),
    (Xpu(), "Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)"),
    (Mps(), "Error: command buffer exited with error status."),
    (Mps(), "Metal pipeline state could not be created (XPC_ERROR_CONNECTION_INTERRUPTED)"),
]


@pytest.mark.parametrize(("backend", "text"), FATAL, ids=lambda value: getattr(value, "name", None))
def test_fatal_errors(backend: Backend, text: str) -> None:
    assert backend.fatal(RuntimeError(text))
    assert backend.refusal(RuntimeError(text)) is None


def test_sticky_error_codes_are_fatal_whatever_they_say() -> None:
    error = RuntimeError("CUDA error: something new")
    assert not Cuda().fatal(error)
    error.error_code = 719  # type: ignore[attr-defined]
    assert Cuda().fatal(error)
    error.error_code = 2  # type: ignore[attr-defined]
    assert not Cuda().fatal(error)


def test_running_out_of_memory_is_not_fatal() -> None:
    for error in (
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        MemoryError(),
    ):
        assert all(b.exhausted(error) and not b.fatal(error) for b in devices.discover().values())
    assert not Fake().exhausted(RuntimeError("no memory of that"))


def test_without_graphs_record_is_a_refusal() -> None:
    with pytest.raises(NotImplementedError, match="fake has no device graphs"):
        Fake().record("fake:0", lambda: None)


class Promise(torch.Tensor):
    """A tensor of a lazy device: it knows its shape; its values come when they are asked for."""

    work: Any
    value: torch.Tensor | None

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is not torch.linalg.svdvals:
            raise NotImplementedError(f"lazy has no {func.__name__}")
        return promise(lambda: func(force(args[0])))


def promise(work: Any) -> Promise:
    empty = torch.empty(0).as_subclass(Promise)
    empty.work, empty.value = work, None
    QUEUE.append(empty)
    return empty


def force(tensor: Promise) -> torch.Tensor:
    if tensor.value is None:
        tensor.value = tensor.work()
    return tensor.value


QUEUE: list[Promise] = []


class Lazy(Backend):
    """As odd as a device may be: subclass tensors, lazily executed, enabled late, unknown to torch."""

    name = "lazy"
    dtypes = ("float32",)
    compilers = ()
    strided = out = autograd = metadata = False
    ready = False

    def devices(self) -> list[str]:
        return ["lazy:0"]

    def setup(self) -> None:
        self.ready = True

    def send(self, host: torch.Tensor, device: str) -> torch.Tensor:
        assert self.ready
        copy = host.clone()
        return promise(lambda: copy)

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        assert isinstance(tensor, Promise)
        return force(tensor).clone()

    def synchronize(self, device: str) -> None:
        while QUEUE:
            force(QUEUE.pop(0))


def test_an_odd_device_needs_few_lines() -> None:
    [target] = devices.select("lazy", {"lazy": Lazy()})
    lazy, device = target.backend, target.device
    A = torch.eye(3) * 2
    with lazy.fallback(device) as notice:
        there = lazy.send(A, device)
        values = torch.linalg.svdvals(there)
        lazy.synchronize(device)
    assert not QUEUE
    assert not notice
    assert torch.equal(lazy.fetch(values), torch.full((3,), 2.0))
    with pytest.raises(NotImplementedError) as caught:
        torch.linalg.qr(there)
    assert lazy.refusal(caught.value) == "NotImplementedError: lazy has no linalg_qr"
    lazy.cleanup(device)
    assert lazy.describe(device) == {"name": "lazy:0"}


# --- devices this machine lacks, against stand-ins whose attribute names are PyTorch's


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


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def entered(*_: object) -> Iterator[None]:
        yield

    stand_in(
        monkeypatch,
        "cuda",
        torch.cuda,
        Stream=Stream,
        stream=entered,
        device=entered,
        current_stream=Stream,
    )
    monkeypatch.delattr(torch.accelerator, "Graph", raising=False)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)


@pytest.mark.usefixtures("graphs")
def test_a_call_is_warmed_up_captured_and_replayed() -> None:
    results, replay = Cuda().record("cuda:1", lambda: calls.append(("call", "", ())))
    assert results is None
    replay()
    steps = [f"{what} {step}".strip() for what, step, _ in calls if what in ("call", "graph")]
    assert steps == ["call", "call", "graph begin", "call", "graph end", "graph replay"]
    assert ("cuda", "synchronize", (torch.device("cuda:1"),)) in calls


@pytest.mark.usefixtures("graphs")
def test_a_failed_capture_is_ended_before_its_error_goes_on() -> None:
    def call() -> None:
        calls.append(("call", "", ()))
        if ("graph", "begin", ()) in calls:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted") as caught:
        Cuda().record("cuda:0", call)
    assert [step for what, step, _ in calls if what == "graph"] == ["begin", "end", "reset"]
    assert Cuda().refusal(caught.value) is not None


def test_graph_classes_are_pytorch_s(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner in (torch.cuda.CUDAGraph, getattr(torch.xpu, "XPUGraph", torch.cuda.CUDAGraph)):
        assert all(hasattr(owner, name) for name in vars(Graph) if not name.startswith("_"))
    monkeypatch.setattr(torch.accelerator, "Graph", Graph, raising=False)
    assert isinstance(_graphs._new_graph("xpu"), Graph)
    monkeypatch.delattr(torch.accelerator, "Graph")
    monkeypatch.delattr(torch.xpu, "XPUGraph", raising=False)
    with pytest.raises(NotImplementedError, match="no graphs for xpu"):
        _graphs._new_graph("xpu")


# --- the command


def test_the_command_shows_what_is_there_and_why_the_rest_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = ONE.replace("one", "two") + "    def describe(self, device):\n        1 / 0\n"
    file, other = plugin(tmp_path, ONE, "shown.py"), plugin(tmp_path, broken, "broken.py")
    assert main(["devices", "--device-plugin", str(file), "--device-plugin", str(other)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("device ")
    assert any(line.startswith("cpu ") and "float32 float64" in line for line in lines)
    assert any(line.startswith("one:0 ") for line in lines)
    assert any(line.startswith("two:0 ") and "ZeroDivisionError" in line for line in lines)
    below = lines[lines.index("absent:") :]
    assert any(re.match(r"  rocm +this PyTorch is not built for ROCm", line) for line in below)


def test_the_command_reports_a_bad_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--device-plugin", "nowhere.py"]) == 2
    assert "error: plug-in nowhere.py: no such file" in capsys.readouterr().err
