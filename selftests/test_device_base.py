"""What every backend inherits: transfers, traits, and telling errors and fallbacks apart."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import devices
from devices._errors import chain
from devices._facts import chip
from devices.base import Backend, Fallback
from devices.cpu import Cpu
from devices.cuda import Cuda
from devices.mps import Mps
from devices.rocm import Rocm
from devices.xpu import Xpu
from selftests.fake_device import Fake


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
    with pytest.raises(NotImplementedError, match="fake has no device-graphs"):
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
    """As odd as a device may be: subclass tensors, lazy, enabled late, unknown to torch."""

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
