"""What a device lacks, or wants to have in force, is respected by every test of the suite."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from conformance.cases import Case
from conformance.placing import metadata, predicted
from conformance.runner import perform
from conformance.session import Session
from conformance.trial import Trial
from devices import Target
from selftests.fake_device import Fake
from tests import test_history, test_out, test_refusals, test_svd

CASE = "odd:0/svd.reduced/float32/random/4x3/2/sliced/eager"


class Nowhere(Exception):
    """How the device says that it has no such operation."""


class Seen(TorchFunctionMode):
    """Notes what is called while the device is active."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: set[tuple[int, Any]] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.add((threading.get_ident(), func))
        if func is torch.geqrf:
            raise Nowhere("aten::geqrf")
        return func(*args, **(kwargs or {}))


class Odd(Fake):
    """The CPU, usable inside a ``with`` only."""

    name = "odd"
    strides = negative = out = False
    keeps = 2
    refusing = Fake.refusing | {"Nowhere"}

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        self.cleaned = 0

    @contextmanager
    def active(self, device: str) -> Iterator[None]:
        self.seen.append(Seen())
        with self.seen[-1]:
            yield

    def torch_device(self, device: str) -> torch.device:
        return torch.device("cpu")

    def cleanup(self, device: str) -> None:
        self.cleaned += 1

    @property
    def calls(self) -> set[tuple[int, Any]]:
        return set().union(*(seen.calls for seen in self.seen))


@pytest.fixture
def odd(session: Session) -> Odd:
    backend = Odd()
    session.targets["odd:0"] = Target(backend, "odd:0")
    return backend


@pytest.fixture
def session() -> Session:
    return Session(device="cpu", profile="quick")


def trial(session: Session, case: str) -> Trial:
    return session.trial(Case.parse(case))


def test_calls_and_views_are_made_while_it_is_active(session: Session, odd: Odd) -> None:
    assert perform(test_svd.test_svd, trial(session, CASE)).verdict == "pass"
    called = {function for _, function in odd.calls}
    assert {torch.linalg.svd, torch.Tensor.__getitem__, torch.Tensor.to} <= called
    assert torch.empty not in called  # the prediction is not the device's


def test_it_is_active_in_every_thread(session: Session, odd: Odd) -> None:
    case = trial(session, CASE.replace("sliced", "row-major"))
    assert perform(test_history.test_threads, case).verdict == "pass"
    callers = {thread for thread, function in odd.calls if function is torch.linalg.svd}
    assert len(callers) >= test_history.THREADS


def test_operands_are_overwritten_and_refused_while_it_is_active(
    session: Session, odd: Odd
) -> None:
    case = CASE.replace("sliced", "row-major")
    assert perform(test_history.test_overwritten_operand, trial(session, case)).verdict == "pass"
    assert any(function is torch.Tensor.copy_ for _, function in odd.calls)
    vector = trial(session, "odd:0/geqrf.packed/float32/identity/3/single/row-major/eager")
    assert perform(test_refusals.test_refused_vector, vector).verdict == "pass"


@pytest.mark.parametrize("test", [test_history.test_many_calls, test_history.test_streams])
def test_calls_that_are_not_waited_for_are_made_while_it_is_active(
    session: Session, odd: Odd, test: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_history, "MANY_CALLS", 2 * test_history.CHECKED)
    monkeypatch.setattr(torch, "Stream", lambda device: nullcontext())
    function, unseen = Trial.function, []

    def watched(self: Trial, *operands: torch.Tensor, **out: Any) -> Any:
        if self.device == "odd:0" and not isinstance(_get_current_function_mode(), Seen):
            unseen.append(self.case)
        return function(self, *operands, **out)

    monkeypatch.setattr(Trial, "function", watched)
    case = trial(session, "odd:0/svd.reduced/float32/random/3x3/single/row-major/eager")
    assert perform(test, case).verdict == "pass"
    assert not unseen


def test_side_streams_are_for_devices_that_have_them() -> None:
    session, odd = Session(device="cpu", profile="standard"), Odd()
    session.targets["odd:0"] = Target(odd, "odd:0")
    assert not session.cases("svd", plan="streams", test="test_streams")
    odd.streams = True
    cases = session.cases("svd", plan="streams", test="test_streams")
    assert {case.device for case in cases} == {"odd:0"}
    assert {case.family for case in cases} >= {"moderate", "random"}  # a plan's, a report's


class Single(Fake):
    """A device without float64, as MPS is."""

    name = "single"
    dtypes = ("float32", "complex64")

    def torch_device(self, device: str) -> torch.device:
        return torch.device("cpu")

    def send(self, host: torch.Tensor, device: str) -> torch.Tensor:
        if host.dtype in (torch.float64, torch.complex128):
            raise TypeError("Cannot convert a tensor to float64: no such dtype here")
        return super().send(host, device)


@pytest.mark.parametrize(
    "test", [test_refusals.test_refused_operands, test_history.test_after_other_calls]
)
@pytest.mark.parametrize("operation", ["cholesky_solve.lower", "ormqr.left-plain"])
def test_no_dtype_is_asked_for_that_is_not_there(
    session: Session, test: Any, operation: str
) -> None:
    session.targets["single:0"] = Target(Single(), "single:0")
    family = "identity" if "solve" in operation else "moderate"
    case = trial(session, f"single:0/{operation}/float32/{family}/4x4/single/row-major/eager")
    assert perform(test, case).verdict == "pass"


def test_an_error_class_of_its_own_is_a_refusal(session: Session, odd: Odd) -> None:
    outcome = perform(
        test_svd.test_svd, trial(session, CASE.replace("svd.reduced", "geqrf.packed"))
    )
    assert (outcome.verdict, outcome.reason) == ("unsupported", "Nowhere: aten::geqrf")


@pytest.mark.parametrize("test", [test_history.test_after_other_batches, test_history.test_threads])
def test_calls_that_come_first_are_refused_with_the_case(
    session: Session, odd: Odd, test: Any
) -> None:
    case = trial(session, "odd:0/geqrf.packed/float32/moderate/5x5/single/row-major/eager")
    assert perform(test, case).verdict == "unsupported"


def test_what_it_lacks_is_left_out_and_said(session: Session, odd: Odd) -> None:
    layouts = {case.layout for case in session.cases("svd", plan="matrix") if case.device != "cpu"}
    assert "column-major" in layouts
    assert not [name for name in layouts if name.startswith("out") or "negative" in name]
    plan = session.cases("svd", plan="out", test=test_out.test_out_resized.__name__)
    assert {case.device for case in plan} == {"cpu"}
    assert session.facts["odd:0"]["without"] == "lazy negation, strides, out="
    assert "without" not in session.facts["cpu"]


def test_it_is_cleaned_up_after_so_many_cases(session: Session, odd: Odd) -> None:
    for _ in range(5):
        session.perform(test_svd.test_svd, trial(session, CASE), "node")
    assert odd.cleaned == 2


def test_without_strides_the_rest_of_the_metadata_is_predicted() -> None:
    A = torch.randn(2, 3, 4, dtype=torch.complex64).mT
    expected = [metadata(result, strided=False) for result in torch.linalg.svd(A)]
    assert predicted(torch.linalg.svd, [A], strided=False) == expected
    assert all(len(parts) == 3 for parts in expected)
