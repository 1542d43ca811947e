"""The oracle, checked by hand: classic mistakes fail, and the report says what and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from conformance.cases import Case
from conformance.record import Outcome
from conformance.runner import explanation, perform
from conformance.session import Session
from selftests import sim
from selftests.runs import ROOT
from tests.test_cholesky import test_cholesky as cholesky_test
from tests.test_eigh import test_eigh as eigh_test
from tests.test_svd import test_svd as svd_test

pytestmark = pytest.mark.skipif(sim.Sim().absent() is not None, reason=str(sim.Sim().absent()))

NULL_SPACE = "sim:0/svd.reduced/float32/null-space/8x8/single/row-major/eager"
BATCH = "sim:0/svd.reduced/float64/random/8x8/7/row-major/eager"


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(device="sim", plugins=[str(ROOT / "selftests" / "sim.py")])


def judged(
    session: Session, case: str, test: Callable[[Any], None], plant: sim.Plant | None = None
) -> tuple[Outcome, str]:
    """The outcome of a case on the simulated device with a plant, and its explanation."""
    trial = session.trial(Case.parse(case))
    trial.promise = test.__doc__ or ""
    if plant is None:
        outcome = perform(test, trial)
    else:
        with sim.plant(plant):
            outcome = perform(test, trial)
    return outcome, explanation(outcome, trial, f"tests/{case}")


def failing(outcome: Outcome) -> set[str]:
    assert outcome.verdict == "fail"
    return {measured.name for measured in outcome.failing}


def on_svd(change: Callable[[Any, Any, Any], tuple[Any, Any, Any]]) -> sim.Plant:
    """A plant that changes the results of the SVD kernel where vectors are asked for."""

    def plant(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        results = compute(*args, **kwargs)
        if op != "_linalg_svd" or not results[0].numel():
            return results
        return change(*(result.clone() for result in results))

    return plant


@pytest.mark.parametrize(
    ("case", "test"), [(NULL_SPACE, svd_test), (BATCH, svd_test)], ids=["null-space", "batch"]
)
def test_right_results_pass(session: Session, case: str, test: Callable[[Any], None]) -> None:
    assert judged(session, case, test)[0].verdict == "pass"


def test_zeroed_null_space(session: Session) -> None:
    """The defect that PyTorch 2.14.0 shipped: the product is right, U is not orthonormal."""

    def change(U: Any, S: Any, Vh: Any) -> tuple[Any, Any, Any]:
        return U * (1e-5 * S.max() < S), S, Vh

    outcome, text = judged(session, NULL_SPACE, svd_test, on_svd(change))
    assert failing(outcome) == {"orthonormality_u"}
    assert "measure   orthonormality_u" in text
    assert "family 14 null-space" in text


def test_v_for_vh(session: Session) -> None:
    plant = on_svd(lambda U, S, Vh: (U, S, Vh.mT.contiguous().mT.mT))
    outcome, _ = judged(session, NULL_SPACE, svd_test, plant)
    assert "reconstruction" in failing(outcome)


def test_one_bad_matrix_in_the_middle(session: Session) -> None:
    def change(U: Any, S: Any, Vh: Any) -> tuple[Any, Any, Any]:
        if S.ndim == 2 and len(S) == 7:
            S[3, 0] *= 1.001
        return U, S, Vh

    outcome, text = judged(session, BATCH, svd_test, on_svd(change))
    assert {"reconstruction", "values", "batch"} <= failing(outcome)
    assert {measured.index for measured in outcome.failing} == {3}
    assert "at matrix 3 of the batch" in text


def test_nan_in_one_vector(session: Session) -> None:
    def change(U: Any, S: Any, Vh: Any) -> tuple[Any, Any, Any]:
        U[..., 2, 5] = torch.nan
        return U, S, Vh

    outcome, _ = judged(session, NULL_SPACE, svd_test, on_svd(change))
    assert {"reconstruction", "orthonormality_u"} <= failing(outcome)


@pytest.mark.parametrize(
    ("case", "test", "op"),
    [
        (
            "sim:0/eigh.lower-other/float64/random/8x8/single/row-major/eager",
            eigh_test,
            "_linalg_eigh",
        ),
        ("sim:0/eigh.lower-nan/complex64/random/8x8/7/row-major/eager", eigh_test, "_linalg_eigh"),
        (
            "sim:0/cholesky.lower-other/float64/moderate/8x8/single/row-major/eager",
            cholesky_test,
            "linalg_cholesky_ex",
        ),
    ],
)
def test_wrong_triangle(session: Session, case: str, test: Callable[[Any], None], op: str) -> None:
    def plant(name: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        return compute(args[0].mH, *args[1:], **kwargs) if name == op else compute(*args, **kwargs)

    assert judged(session, case, test)[0].verdict == "pass"
    assert judged(session, case, test, plant)[0].verdict == "fail"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    if hasattr(torch, "sim"):
        torch.sim.plants.clear()
