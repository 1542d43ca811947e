"""Trials and verdicts: what an outcome is in the light of errors, refusals and known issues."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest
import torch

from conformance.cases import Case
from conformance.known_issues import KnownIssues
from conformance.layouts import LAYOUTS
from conformance.operations import OPERATIONS
from conformance.placing import Receiver, metadata, place, predicted
from conformance.promises import common, metadata_kept
from conformance.record import Measured, Outcome
from conformance.runner import Known, perform
from conformance.session import Session, crash_outcome
from conformance.trial import Recorded, Refused, Trial
from devices.cpu import Cpu

CASE = "cpu/svd.reduced/float32/random/4x3/single/row-major/eager"
CPU = Cpu()


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(device="cpu", profile="quick")


@pytest.fixture
def trial(session: Session) -> Trial:
    return session.trial(Case.parse(CASE))


def passes(trial: Trial) -> None:
    trial.judge(values=np.array([1.0]), relative_values=Recorded(np.array([1e9])))


def fails(trial: Trial) -> None:
    trial.judge(values=np.array([1.0, 70.0]), order=0.0)


def known(folder: Path, text: str) -> Known:
    file = folder / "known.toml"
    file.write_text(
        '[[issue]]\nurl = "https://example.org/1"\nbackend = "cpu"\ntorch = ">=2.0"\n'
        f'cases = {{ operation = "svd" }}\n{text}\n'
    )
    return Known(KnownIssues.load([file]), "Linux")


def test_pass_and_fail(trial: Trial, session: Session) -> None:
    assert perform(passes, trial).verdict == "pass"
    outcome = perform(fails, session.trial(trial.case))
    assert outcome.verdict == "fail"
    assert [(m.name, m.index) for m in outcome.failing] == [("values", 1)]


@pytest.mark.parametrize("value", [np.nan, np.inf, 50.01])
def test_what_does_not_conform_fails(trial: Trial, value: float) -> None:
    def test(trial: Trial) -> None:
        trial.judge(values=np.array([0.0, value, 3.0]))

    outcome = perform(test, trial)
    assert outcome.verdict == "fail"
    assert outcome.failing[0].index == 1


def test_error_is_a_failure(trial: Trial) -> None:
    def test(trial: Trial) -> None:
        raise torch.linalg.LinAlgError("did not converge")

    outcome = perform(test, trial)
    assert outcome.verdict == "fail"
    assert [m.name for m in outcome.failing] == ["error"]
    assert "did not converge" in outcome.reason


def test_a_result_of_another_shape_is_wrong_in_its_metadata(trial: Trial) -> None:
    """And not an error of the device, though nothing else can be measured of it."""

    def test(trial: Trial) -> None:
        trial.results = tuple(result.unsqueeze(-1) for result in trial.results)
        raise ValueError("operands could not be broadcast together")

    shape = tuple(trial.results[0].shape)
    outcome = perform(test, trial)
    assert [m.name for m in outcome.failing] == ["metadata"]
    assert outcome.reason.startswith(f"result 0: shape {(*shape, 1)} instead of {shape}")


def test_the_reason_of_another_process_stays(trial: Trial) -> None:
    """Its results are not here to be looked at."""

    def test(trial: Trial) -> None:
        trial.adopt(Outcome(str(trial.case), "fail", (Measured("metadata", np.inf, 0.0),), "seen"))

    assert perform(test, trial).reason == "seen"


def test_refusal_is_unsupported(trial: Trial) -> None:
    def refuse() -> tuple[torch.Tensor, ...]:
        raise NotImplementedError("not on this device")

    def test(trial: Trial) -> None:
        with pytest.raises(NotImplementedError):
            trial.attempt(refuse)
        with pytest.raises(Refused):
            trial.attempt(refuse, refusable=True)
        trial.attempt(refuse, refusable=True)

    outcome = perform(test, trial)
    assert outcome.verdict == "unsupported"
    assert "not on this device" in outcome.reason


def test_a_test_must_judge(trial: Trial) -> None:
    with pytest.raises(RuntimeError, match="judged nothing"):
        perform(lambda trial: None, trial)


def test_known_issue(session: Session, tmp_path: Path) -> None:
    wrong = known(tmp_path, 'what = "wrong"\nmeasures = ["values"]')
    case = Case.parse(CASE)
    assert perform(fails, session.trial(case), wrong).verdict == "known"
    assert perform(passes, session.trial(case), wrong).verdict == "fixed"
    other = known(tmp_path, 'what = "wrong"\nmeasures = ["order"]')
    assert perform(fails, session.trial(case), other).verdict == "fail"
    told = known(tmp_path, 'what = "wrong"\nreport_only = true\nnote = "n"')
    assert perform(passes, session.trial(case), told).verdict == "pass"


def test_what_is_known_is_told_in_a_line(session: Session, tmp_path: Path) -> None:
    def test(trial: Trial) -> None:
        def broken() -> tuple[torch.Tensor, ...]:
            raise RuntimeError("lowering failed\nframe #0: where nobody looks")

        trial.attempt(broken)

    outcome = perform(test, session.trial(Case.parse(CASE)), known(tmp_path, 'what = "wrong"'))
    assert outcome.verdict == "known"
    assert outcome.reason.endswith("RuntimeError: lowering failed")


def test_an_issue_of_a_chip_is_known_on_that_chip_only(session: Session, tmp_path: Path) -> None:
    case = Case.parse(CASE)
    here = known(tmp_path, f'what = "wrong"\nchip = "{platform.machine()}"')
    assert perform(fails, session.trial(case), here).verdict == "known"
    elsewhere = known(tmp_path, 'what = "wrong"\nchip = "H100"')
    assert perform(fails, session.trial(case), elsewhere).verdict == "fail"


def test_known_crash_is_not_run(session: Session, tmp_path: Path) -> None:
    def test(trial: Trial) -> None:
        raise AssertionError("was run")

    crash = known(tmp_path, 'what = "crash"')
    assert perform(test, session.trial(Case.parse(CASE)), crash).verdict == "known"


def test_crash_or_timeout() -> None:
    assert crash_outcome(CASE, 3.0, 120.0).verdict == "crash"
    assert crash_outcome(CASE, 120.5, 120.0).verdict == "timeout"
    assert crash_outcome(CASE, 500.0, 0.0).verdict == "crash"


# --- operands in their layouts ----------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_layout_holds_the_matrix(name: str, batch: tuple[int, ...]) -> None:
    layout = LAYOUTS[name]
    if layout.needs.startswith("batch") and not batch:
        pytest.skip("needs a batch")
    dtype = np.complex64 if layout.needs == "complex" else np.float32
    rng = np.random.default_rng(1)
    A = rng.standard_normal((*batch, 4, 3)).astype(dtype)
    if layout.needs == "content":  # what the windows of a vector have, and what one place holds
        A[:] = 1 if name == "matrix-expanded" else np.add.outer(np.arange(4), np.arange(1, 4))
    if dtype == np.complex64:
        A = A + 1j * rng.standard_normal(A.shape).astype(np.float32)
    placed = place(A, layout, CPU, "cpu", len(batch))
    first = (slice(0, 1),) * layout.shared(len(batch))
    expected = np.broadcast_to(A[first], A.shape)
    assert np.array_equal(placed.view.detach().resolve_conj().resolve_neg().numpy(), expected)
    assert not placed.touched(CPU)
    with torch.no_grad():
        placed.base.view(-1)[-1] = 5
    assert placed.touched(CPU)


@pytest.mark.parametrize("name", ["column-major", "sliced", "conjugate", "offset"])
def test_layout_holds_the_vector(name: str) -> None:
    tau = np.arange(8, dtype=np.complex64).reshape(2, 4) + 1j
    view = place(tau, LAYOUTS[name], CPU, "cpu", 1).view
    assert np.array_equal(view.resolve_conj().numpy(), tau)
    assert view.stride(-1) == (4 if name == "sliced" else 1)


def test_each_operand_has_its_own_layout(session: Session) -> None:
    case = Case("cpu", "ormqr", "left-plain", "float32", "random", (5, 4), (), "others-sliced")
    V, tau, C = (placed.view for placed in session.trial(case).operands)
    assert (V.stride(), tau.stride(), C.stride()[-1]) == ((1, 5), (4,), 2)


def test_a_batch_seen_twice(session: Session) -> None:
    """Along the first axis, or along both, the reference and the operand repeat alike."""
    for layout, distinct in (("partly-expanded", 2), ("expanded", 1)):
        case = Case("cpu", "svd", "full", "float32", "mixed", (3, 3), (3, 2), layout)
        trial = session.trial(case)
        assert len({A.tobytes() for A in trial.A}) == distinct
        assert np.array_equal(trial.operands[0].view.reshape(6, 3, 3).numpy(), trial.A)


def test_a_result_in_the_memory_of_an_operand_is_not_untouched(session: Session) -> None:
    trial = session.trial(Case("cpu", "qr", "r", "float32", "moderate", (3, 3), ()))
    assert common(trial)["untouched"] == 0
    trial.results = (trial.results[0], trial.operands[0].view)
    del trial.raw  # read anew: nothing has been written into it since
    assert common(trial)["untouched"] == np.inf


@pytest.mark.parametrize(("size", "core"), [((3, 3), 2), ((3,), 1)])
def test_memory_around_out_is_guarded(size: tuple[int, ...], core: int) -> None:
    receiver = Receiver.like([torch.zeros(size)], [core], "sliced", CPU, "cpu")
    assert metadata(receiver.views[0]) == receiver.metadata[0]
    receiver.views[0].fill_(1)
    assert not receiver.overrun(CPU)
    receiver.placed[0].base[0, 0] = 1
    assert receiver.overrun(CPU)


def test_prediction_is_what_eager_does() -> None:
    A = torch.randn(2, 3, 4, dtype=torch.complex64).conj()
    for function in (torch.linalg.svd, torch.linalg.qr):
        assert predicted(function, [A]) == [metadata(result) for result in function(A)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_unused_triangle_does_not_reach_the_reference(session: Session, operation: str) -> None:
    for variant in OPERATIONS[operation].variants:
        family = "moderate"
        case = Case("cpu", operation, variant.name, "complex64", family, (4, 4), (2,))
        trial = session.trial(case)
        assert np.isfinite(trial.A).all()
        poisoned = [not np.isfinite(stack).all() for stack in trial.stacks]
        assert any(poisoned) == (variant.unused == "nan")


def test_a_call_that_draws_random_numbers_is_not_untouched(session: Session) -> None:
    trial = session.trial(Case("cpu", "qr", "reduced", "float32", "moderate", (3, 3), ()))
    plain = trial.function
    vars(trial)["function"] = lambda *operands: (torch.rand(1), plain(*operands))[1]
    assert common(trial)["untouched"] == np.inf


@pytest.mark.parametrize("spoil", ["conjugate", "offset"])
def test_a_result_that_is_a_view_breaks_its_metadata(session: Session, spoil: str) -> None:
    """Who reads its memory through a pointer reads something else."""
    trial = session.trial(Case("cpu", "cholesky", "lower", "complex64", "moderate", (3, 3), ()))
    (L,) = trial.results
    room = torch.zeros(10, dtype=L.dtype)
    moved = room[1:].view(3, 3).mT.copy_(L)
    trial.results = (L.conj() if spoil == "conjugate" else moved,)
    assert moved.stride() == L.stride()
    assert metadata_kept(trial) == np.inf
