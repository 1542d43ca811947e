"""Captures: each is prepared, replayed, refused and recorded as the suite says."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance.captures import CAPTURES, Call, Capture, Function
from conformance.captures.kept import forget
from conformance.cases import Case
from conformance.matrix import plan_cases
from conformance.plans import CAPTURED
from conformance.record import Outcome
from conformance.runner import perform
from conformance.session import Session, SetupError
from conformance.suite import marked_tests
from conformance.trial import Trial
from devices.cpu import Cpu
from selftests.faults import CAPTURED as FAULTS
from selftests.faults.hunt import Hunt

ROOT = Path(__file__).parent.parent
TESTS = {test.__name__: test for test, _, _ in marked_tests()}
CPU = Cpu()
OFFERED = [name for name, c in CAPTURES.items() if not c.missing(CPU, "cpu")]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(device="cpu", profile="standard")


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    forget()


def judged(session: Session, text: str, test: str = "") -> Outcome:
    """The outcome of a case, without regard to known issues."""
    case = Case.parse(text)
    return perform(TESTS[test or f"test_{case.operation}"], session.trial(case))


def planted(monkeypatch: pytest.MonkeyPatch, name: str, prepare: Any, **more: Any) -> None:
    """Replace a capture's ``prepare``."""
    monkeypatch.setitem(CAPTURES, name, replace(CAPTURES[name], prepare=prepare, **more))


# --- what they are ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", OFFERED)
def test_every_capture_runs(session: Session, name: str) -> None:
    batch = "7" if CAPTURES[name].needs == "batch" else "single"
    for call in ("svd.full", "eigh.upper-nan", "cholesky_ex.upper"):
        case = f"cpu/{call}/complex64/moderate/5x5/{batch}/row-major/{name}"
        assert judged(session, case).verdict == "pass", case


def test_a_capture_says_what_is_missing() -> None:
    class Plain(Cpu):
        compilers = ()

    for name in ("inductor", "aot-eager", "cond"):
        assert "generates no code for cpu" in CAPTURES[name].missing(Plain(), "cpu")
    assert CAPTURES["export"].missing(Plain(), "cpu") == ""


def test_what_is_missing_is_one_unsupported_case_each(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(CAPTURES["make-fx"], missing=lambda backend, device: "not in this release")
    monkeypatch.setitem(CAPTURES, "make-fx", absent)
    session = Session(device="cpu", profile="standard", captures="make-fx")
    (case,) = session.cases("svd", plan="matrix", test="test_svd")
    outcome = perform(TESTS["test_svd"], session.trial(case))
    assert (outcome.verdict, outcome.reason) == ("unsupported", "not in this release")


def test_trace_tells_that_it_is_deprecated() -> None:
    call = Call(lambda A: (A + 1,), (torch.zeros(2, 2),), CPU, "cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        CAPTURES["jit-trace"].prepare(call)
    if torch.__version__ >= (2, 14):  # type: ignore[operator]
        assert any("deprecated" in str(warning.message) for warning in caught)


# --- which cases ------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", CAPTURED)
def test_every_capture_meets_every_dtype_layout_and_variant(
    session: Session, operation: str
) -> None:
    cases = [c for c in session.cases(operation, plan="matrix") if c.capture != "eager"]
    assert {case.capture for case in cases} == CAPTURES.keys() - {"eager"}
    for name in OFFERED[1:]:
        own = [case for case in cases if case.capture == name]
        assert len({case.dtype for case in own}) == 4
        assert len({case.family for case in own}) >= 5
        layouts = {case.layout for case in own if 0 not in (*case.shape, *case.batch)}
        assert layouts >= {"row-major", "column-major", "sliced", "conjugate", "negative"}


def test_cases_that_share_a_captured_function_are_neighbours(session: Session) -> None:
    (can,) = {session._abilities(target) for target in session.targets.values()}
    cases = plan_cases("captured", "svd", "standard", "cpu", can)
    names = [case.capture for case in cases if case.capture in OFFERED]
    assert sum(a != b for a, b in pairwise(names)) == len(set(names)) - 1


def test_eager_cases_are_as_without_captures(session: Session) -> None:
    (can,) = {session._abilities(target) for target in session.targets.values()}
    plain = plan_cases("matrix", "svd", "standard", "cpu", replace(can, captures=("eager",)))
    assert plain == plan_cases("matrix", "svd", "standard", "cpu", can)


# --- how they are judged ----------------------------------------------------------------------


def test_prepared_on_other_data_and_called_on_three(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def prepare(call: Call) -> Function:
        def captured(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
            seen.append(operands[0].clone())
            return call.function(*operands)

        return captured

    planted(monkeypatch, "make-fx", prepare)
    case = "cpu/svdvals.values/float64/random/4x3/single/row-major/make-fx"
    assert judged(session, case).verdict == "pass"
    example, mine, other, again = seen
    assert torch.equal(mine, again)
    assert not torch.equal(mine, example)
    assert not torch.equal(mine, other)
    assert not torch.equal(example, other)


def test_compiled_once_for_many_cases(session: Session) -> None:
    first, second, third = (
        judged(session, f"cpu/svdvals.values/float64/{family}/{shape}/single/row-major/{name}")
        for family, shape, name in (
            ("random", "6x4", "export-dynamic"),
            ("zero", "9x3", "export-dynamic"),
            ("zero", "9x3", "export"),
        )
    )
    assert first.compile_seconds
    assert second.compile_seconds == 0.0
    assert third.compile_seconds
    assert first.recompiled == second.recompiled == 0
    names = [name for name, _ in first.properties()]
    assert names[-3:] == ["seconds", "compile_seconds", "recompiled"]


def test_a_recompilation_is_counted(session: Session) -> None:
    """Sizes below 2 are compiled for themselves, even where all are dynamic."""
    case = "cpu/svdvals.values/float64/random/{}/single/row-major/aot-eager-dynamic"
    assert judged(session, case.format("6x4")).recompiled == 0
    trial = session.trial(Case.parse(case.format("6x4")))
    function = torch.compile(trial.function, backend="aot_eager", dynamic=True)
    function(torch.ones(6, 4))

    def prepare(call: Call) -> Function:
        return torch.compile(call.function, backend="aot_eager", dynamic=False)

    with pytest.MonkeyPatch.context() as patch:
        planted(patch, "aot-eager-dynamic", prepare)
        forget()
        assert judged(session, case.format("7x4")).recompiled == 2


def test_an_eager_case_has_no_compile_time(session: Session) -> None:
    outcome = judged(session, "cpu/svdvals.values/float64/random/3x3/single/row-major/eager")
    assert "compile_seconds" not in dict(outcome.properties())


@pytest.mark.parametrize("eager_raises", [True, False])
def test_it_must_end_as_the_eager_call(
    session: Session, monkeypatch: pytest.MonkeyPatch, eager_raises: bool
) -> None:
    def prepare(call: Call) -> Function:
        calls = iter(range(9))

        def captured(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
            if not eager_raises and next(calls):
                raise torch.linalg.LinAlgError("made up")
            return (torch.linalg.cholesky_ex(*operands)[0],)

        return captured

    planted(monkeypatch, "make-fx", prepare)
    family = "negative-definite" if eager_raises else "nan-all"
    call = "cholesky.lower" if eager_raises else "qr.reduced"
    case = f"cpu/{call}/float64/{family}/3x3/single/row-major/make-fx"
    test = "test_cholesky_indefinite" if eager_raises else "test_nonfinite"
    outcome = judged(session, case, test)
    assert outcome.verdict == "fail"
    assert "Unlike" in outcome.reason


# --- refusals ---------------------------------------------------------------------------------


def refusing(error: Exception) -> Any:
    def prepare(call: Call) -> Function:
        raise error

    return prepare


CASE = "cpu/svdvals.values/float64/random/4x3/single/row-major/make-fx"


def test_a_clean_refusal_is_unsupported_and_later_calls_work(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, "make-fx", refusing(NotImplementedError("reads info on the host")))
    outcome = judged(session, CASE)
    assert outcome.verdict == "unsupported"
    assert "reads info on the host" in outcome.reason
    monkeypatch.undo()
    assert judged(session, CASE).verdict == "pass"


def test_a_refusal_that_poisons_eager_calls_is_a_failure(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Trial.function

    def prepare(call: Call) -> Function:
        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("the stream is still capturing")

        monkeypatch.setattr(Trial, "function", broken)
        raise NotImplementedError("cannot be captured")

    planted(monkeypatch, "make-fx", prepare)
    outcome = judged(session, CASE)
    assert Trial.function is not plain
    assert outcome.verdict == "fail"
    assert "still capturing" in outcome.reason


def test_a_graph_break_is_a_failure(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(call: Call) -> Function:
        def breaking(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
            torch._dynamo.graph_break()
            return call.function(*operands)

        return torch.compile(breaking, backend="aot_eager", fullgraph=True)

    planted(monkeypatch, "aot-eager", prepare)
    outcome = judged(session, CASE.replace("make-fx", "aot-eager"))
    assert outcome.verdict == "fail"
    assert [m.name for m in outcome.failing] == ["error"]


def test_an_eager_call_is_no_captured_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, "aot-eager", lambda call: call.function)
    outcome = judged(session, CASE.replace("make-fx", "aot-eager"))
    assert outcome.verdict == "fail"
    assert "NotCaptured: torch.compile has compiled nothing" in outcome.reason


@pytest.mark.parametrize(
    ("name", "value", "captures"),
    [
        ("TORCHDYNAMO_DISABLE", "1", [n for n in OFFERED if CAPTURES[n].compiles]),
        ("TORCH_COMPILE_DISABLE", "1", [n for n in OFFERED if CAPTURES[n].compiles]),
        ("PYTORCH_JIT", "0", ["jit-trace"]),
    ],
)
def test_what_is_switched_off_is_missing(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, captures: list[str]
) -> None:
    monkeypatch.setenv(name, value)
    absent = {capture for capture in OFFERED if CAPTURES[capture].missing(CPU, "cpu")}
    assert absent == set(captures)
    assert CAPTURES[captures[0]].missing(CPU, "cpu").endswith(f"is switched off by {name}={value}")


def test_inductor_needs_room_for_its_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(taken / "cache"))
    told = CAPTURES["inductor"].missing(CPU, "cpu")
    assert told.startswith(f"Inductor cannot write its code into {taken}/cache: ")
    assert not CAPTURES["aot-eager"].missing(CPU, "cpu")


def test_a_compiler_that_is_not_there_is_unsupported(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.exc import InductorError, InvalidCxxCompiler

    error = InductorError(InvalidCxxCompiler(), None)
    planted(monkeypatch, "make-fx", refusing(error))
    outcome = judged(session, CASE)
    assert outcome.verdict == "unsupported"
    assert "No working C++ compiler" in outcome.reason


def test_a_failed_capture_is_not_kept(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, "make-fx", refusing(ValueError("broken")))
    assert judged(session, CASE).verdict == "fail"
    monkeypatch.undo()
    assert judged(session, CASE).verdict == "pass"


# --- the option -------------------------------------------------------------------------------


def test_captures_are_chosen_by_name_and_pattern() -> None:
    assert Session(device="cpu").captures == CAPTURES.keys()
    session = Session(device="cpu", profile="quick", captures="eager, make-fx*")
    assert session.captures == {"eager", "make-fx", "make-fx-fake", "make-fx-symbolic"} | (
        session.captures & {"make-fx-spec"}
    )
    cases = session.cases("svd", plan="matrix", test="test_svd")
    assert {case.capture for case in cases} == {"eager", "make-fx"}
    assert "NOT A CONFORMANCE RUN" in "".join(session.header())
    with pytest.raises(SetupError, match=r"no capture is called 'no-such'; there are eager, "):
        Session(device="cpu", captures="eager,no-such")


def test_a_run_of_some_captures_is_no_conformance_run(tmp_path: Path) -> None:
    node = "tests/test_svd.py::test_svd[cpu/svd.full/float32/zero/3x3/single/row-major/make-fx]"
    file = tmp_path / "run.xml"
    command = [sys.executable, "-m", "pytest", "-n", "0", node, "--junitxml", str(file)]
    asked = [*command, "--captures", "make-fx", "-p", "no:cacheprovider"]
    subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, timeout=300)
    text = file.read_text()
    assert 'name="conformance" value="false"' in text
    assert 'name="captures" value="make-fx"' in text
    assert 'name="compile_seconds"' in text


# --- the faults it is held against ------------------------------------------------------------


@pytest.fixture(scope="module")
def hunt() -> Hunt:
    return Hunt("standard")


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_of_a_capture_is_caught(hunt: Hunt, name: str) -> None:
    fault = FAULTS[name]
    if any(CAPTURES[c].missing(CPU, "cpu") for c in fault.captures):
        pytest.skip("the capture cannot be had here")
    assert hunt.run(fault).caught


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= 15
    assert {c for fault in FAULTS.values() for c in fault.captures} <= CAPTURES.keys()
    assert isinstance(CAPTURES["eager"], Capture)
