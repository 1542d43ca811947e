"""What every backend inherits: transfers, and telling errors and fallbacks apart."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch._C import _profiler

import devices
from devices import _traces
from devices.base import Backend, Fallback
from devices.cpu import Cpu
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


def test_without_graphs_record_is_a_refusal() -> None:
    with pytest.raises(NotImplementedError, match="fake has no device-graphs"):
        Fake().record("fake:0", lambda: None)


def test_a_trace_only_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes, memory, stacks, flops and modules cost time and are not asked for."""
    asked: list[Any] = []
    config = _profiler.ProfilerConfig

    def spied(state: Any, *options: Any) -> Any:
        asked.append((state, options[:5]))
        return config(state, *options)

    monkeypatch.setattr(_profiler, "ProfilerConfig", spied)
    with _traces.calls() as names:
        torch.ones(2).exp()
    assert "aten::exp" in names
    assert asked == [(_profiler.ProfilerState.CPU, (False,) * 5)]


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
    strided = out = autograd = strides = False
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
