"""What a user sees of a run: usage errors, the record, crashes, hangs, a poisoned device."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from pathlib import Path

import junitparser
import pytest
from lxml import etree

from conformance.cases import Case
from selftests.commands import command
from selftests.runs import ROOT, Finished, broken_device, run
from selftests.sim import Sim

needs_sim = pytest.mark.skipif(Sim().absent() is not None, reason=str(Sim().absent()))
SMALL = (
    "tests/test_qr.py",
    "--profile",
    "quick",
    "-k",
    "test_ormqr and /5x3/",
    "-p",
    "no:warnings",
)
SIM = ("--device", "sim", "--device-plugin", str(ROOT / "selftests" / "sim.py"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A small run on the CPU by two workers."""
    return run(tmp_path_factory.mktemp("whole"), *SMALL, "--device", "cpu", "-n", "2")


# --- usage errors: status 4 (pytest's for usage), one clear line ------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--device", "mps"), "device 'mps' is not there"),
        (("--device", "nonsense"), "unknown device 'nonsense'"),
        (("--device", "cpu:7"), "device 'cpu:7' is not there"),
        (("--profile", "nonsense"), "unknown profile 'nonsense'"),
        (("--captures", "nonsense", "-q", "-n", "0"), "no capture is called 'nonsense'"),
        (("--threads", "0"), "--threads must be at least 1"),
        (("--tolerances={folder}/bad.toml",), "bad.toml:2"),
        (("--tolerances={folder}/missing.toml",), "missing.toml"),
        (("--known-issues={folder}/bad.toml",), "bad.toml:2"),
        (("--device-plugin={folder}/raises.py",), "raises.py"),
        (("--device-plugin={folder}/missing.py",), "missing.py"),
    ],
)
def test_usage_error(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    (tmp_path / "bad.toml").write_text("[default]\nvalues = = 3\n")
    (tmp_path / "raises.py").write_text("raise RuntimeError('no such library')\n")
    done = run(tmp_path, *(a.format(folder=tmp_path) for a in arguments))
    assert done.status == pytest.ExitCode.USAGE_ERROR, done.output
    errors = [line for line in done.output.splitlines() if line.startswith("ERROR:")]
    assert len(errors) == 1, done.output
    assert text in errors[0]
    assert "Traceback" not in done.output


def test_nothing_collected_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, "--profile", "quick", "-k", "nothing-is-called-so", "-n", "0")
    assert done.status == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_run_without_a_case_is_an_error(tmp_path: Path) -> None:
    """quick compiles nothing: that its tests are there must not make it a success."""
    done = run(tmp_path, "--profile", "quick", "--captures", "inductor", "-n", "0")
    assert done.status == pytest.ExitCode.NO_TESTS_COLLECTED


# --- the record -------------------------------------------------------------------------------


def test_record_holds_every_case(whole: Finished) -> None:
    assert whole.status == 0, whole.output
    assert len(whole.outcomes) > 5
    for outcome in whole.outcomes:
        assert str(Case.parse(outcome.case)) == outcome.case
        assert outcome.verdict == "pass"
        assert len(outcome.digest) == 16
        assert {"product", "metadata", "untouched"} <= {m.name for m in outcome.measures}


def test_record_describes_the_run(whole: Finished) -> None:
    assert whole.record is not None
    facts = whole.record.properties
    assert facts["profile"] == "quick"
    assert facts["conformance"] == "false"
    assert facts["device.cpu.backend"] == "cpu"
    assert int(facts["count.pass"]) == len(whole.outcomes)
    assert {"torch", "numpy", "scipy", "python", "os", "blas", "seed", "threads"} <= facts.keys()


def test_record_is_junit(whole: Finished) -> None:
    assert whole.record is not None
    path = str(whole.record.path)
    schema = etree.XMLSchema(etree.parse(ROOT / "selftests" / "junit.xsd"))
    schema.assertValid(etree.parse(path))
    suites = list(junitparser.JUnitXml.fromfile(path))
    assert sum(suite.tests for suite in suites) == len(whole.outcomes)
    case = next(iter(suites[0]))
    assert "verdict" in {each.get("name") for each in case._elem.iter("property")}


def test_workers_and_order_do_not_matter(whole: Finished, tmp_path: Path) -> None:
    alone = run(tmp_path, *SMALL, "--device", "cpu", "-n", "0")
    digests = {o.case: o.digest for o in alone.outcomes}
    assert digests == {o.case: o.digest for o in whole.outcomes}
    values = {o.case: o.measures for o in alone.outcomes}
    assert values == {o.case: o.measures for o in whole.outcomes}


def test_seed_changes_the_matrices(whole: Finished, tmp_path: Path) -> None:
    other = run(tmp_path, *SMALL, "--device", "cpu", "-n", "0", "--seed", "1")
    before = {o.case: o.digest for o in whole.outcomes}
    changed = [o for o in other.outcomes if o.digest != before[o.case]]
    assert len(changed) > len(before) / 2


def test_the_screen_says_what_was_run(whole: Finished) -> None:
    for text in (
        "profile quick",
        "IS NOT A CONFORMANCE RUN",
        "device cpu (cpu)",
        "worst margin",
        f"{len(whole.outcomes)} cases",
    ):
        assert text in whole.output


# --- a device that is not the CPU, right and broken --------------------------------------------


@needs_sim
def test_simulated_accelerator_conforms(tmp_path: Path) -> None:
    done = run(
        tmp_path, "--profile", "quick", *SIM, "-k", "(/5x5/ or /5x3/) and not subnormal", "-n", "2"
    )
    assert done.status == 0, done.output
    assert {"pass"} <= done.verdicts().keys() <= {"pass", "unsupported"}
    assert all(o.case.startswith("sim:0/") for o in done.outcomes)


def reported(folder: Path, done: Finished) -> None:
    """``report`` tells what pytest told: the same closing table, each failure in full."""
    with contextlib.redirect_stdout(io.StringIO()) as told:
        assert command("report", folder / "record.xml", "--failures", 999) == done.status
    closing = done.output.partition(" conformance ===")[2].partition("\n")[2].partition("\n===")[0]
    closing, total, _ = closing.partition(" measures: ")
    assert total
    assert closing in told.getvalue()
    for outcome in done.outcomes:
        if outcome.verdict not in ("pass", "unsupported", "known", "fallback"):
            assert outcome.text.startswith(f"case      {outcome.case}\npromise   ")
            assert outcome.text in told.getvalue()
            assert all(line in done.output for line in outcome.text.splitlines())


@needs_sim
def test_failure_explains_itself(tmp_path: Path) -> None:
    plugin = broken_device(tmp_path, "if op == 'ormqr': return compute(*args, **kwargs) * 1.01")
    done = run(tmp_path, *SMALL, "--device=sim", f"--device-plugin={plugin}", "-n", "0")
    assert done.status == 1
    assert done.verdicts().keys() <= {"fail", "pass"}  # an empty batch passes
    case = next(o.case for o in done.outcomes if o.verdict == "fail")
    for text in (
        case,
        "promise   C is multiplied",
        "measure   product = ",
        "digest    ",
        "limit 30",
    ):
        assert text in done.output
    again = next(line for line in done.output.splitlines() if line.startswith("again "))
    assert again.count("tests/test_qr.py::test_ormqr[sim:0/") == 1
    reported(tmp_path, done)


@needs_sim
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_run_that_stops_early_says_so(
    tmp_path: Path, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = broken_device(tmp_path, "if op == 'ormqr': return compute(*args, **kwargs) * 1.01")
    device = ("--device=sim", f"--device-plugin={plugin}")
    done = run(tmp_path, *SMALL, *device, "-n", workers, "--maxfail=1")
    assert done.status != 0
    assert done.record is not None
    text = f"STOPPED EARLY: {done.record.left} cases were not run"
    assert done.record.left > 0
    assert text in done.output
    assert command("report", tmp_path / "record.xml") == 1
    assert text in capsys.readouterr().out
    assert command("compare", tmp_path / "record.xml", tmp_path / "record.xml") == 1
    assert f"record.xml: {text}" in capsys.readouterr().out


@needs_sim
@pytest.mark.parametrize(
    ("plant", "batches", "options", "verdict", "deaths"),
    [  # more deaths than xdist would bear by itself, 4 for each worker
        ("os.abort()", "/64/ or /7/", (), "crash", 5),
        ("time.sleep(60)", "/64/", ("--timeout=5",), "timeout", 1),
    ],
)
def test_death_is_charged_to_its_case(
    tmp_path: Path, plant: str, batches: str, options: tuple[str, ...], verdict: str, deaths: int
) -> None:
    chosen = f"ormqr and (/5x3/ or /1x1/) and ({batches})"
    few = ("tests/test_qr.py", "--profile", "quick", "-k", chosen)
    plugin = broken_device(tmp_path, f"if op == 'ormqr' and args[0].shape[-1] == 3: {plant}")
    done = run(tmp_path, *few, *options, "--device=sim", f"--device-plugin={plugin}", "-n1")
    assert done.status == 1
    died = [o for o in done.outcomes if o.verdict == verdict]
    lived = [o for o in done.outcomes if o.verdict == "pass"]
    assert len(died) >= deaths
    assert {Case.parse(o.case).shape for o in died} == {(5, 3)}
    assert {Case.parse(o.case).shape for o in lived} == {(1, 1)}
    assert len(died) + len(lived) == len(done.outcomes) == len({o.case for o in done.outcomes})
    for text in ("promise   C is multiplied", "input     family ", "again     python -m pytest"):
        assert all(text in o.text for o in died)
    reported(tmp_path, done)


POISON = """
if os.environ.get("POISONED"):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")
if op == "ormqr" and args[0].shape[-1] == 3:
    os.environ["POISONED"] = "1"
    raise RuntimeError("CUDA error: an illegal memory access was encountered")
"""
FEW = ("tests/test_qr.py", "--profile", "quick", "-k", "ormqr and (/5x3/ or /1x1/) and /64/")


@needs_sim
def test_poisoned_device_is_left(tmp_path: Path) -> None:
    """After a fatal error every call fails in that process; a new worker takes over."""
    plugin = broken_device(tmp_path, POISON)
    done = run(tmp_path, *FEW, "--device=sim", f"--device-plugin={plugin}", "-n", "1")
    verdicts = {(Case.parse(o.case).shape, o.verdict) for o in done.outcomes}
    assert verdicts == {((5, 3), "fail"), ((1, 1), "pass")}
    assert len(done.outcomes) == len({o.case for o in done.outcomes})
    reported(tmp_path, done)


@needs_sim
def test_poison_that_is_known_is_told_once(tmp_path: Path) -> None:
    plugin, known = broken_device(tmp_path, POISON), tmp_path / "known.toml"
    known.write_text(
        '[[issue]]\nurl = "https://example.org"\nbackend = "sim"\nwhat = "wrong"\n'
        'cases = [{ operation = "ormqr", shape = "5x3" }]\nmeasures = ["error"]\n'
        "report_only = true\n"
    )
    options = ("--device=sim", f"--device-plugin={plugin}", f"--known-issues={known}")
    done = run(tmp_path, *FEW, *options, "-n", "1")
    assert done.status == 0, done.output
    assert {(Case.parse(o.case).shape, o.verdict) for o in done.outcomes} == {
        ((5, 3), "known"),
        ((1, 1), "pass"),
    }
    assert len(done.outcomes) == len({o.case for o in done.outcomes})


def test_a_worker_that_dies_after_its_verdict_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dies.py").write_text(
        "import os, time\n\n\ndef pytest_runtest_teardown(item):\n"
        "    if '/5x3/' in item.nodeid and hasattr(item.config, 'workerinput'):\n"
        "        time.sleep(0.5)\n        os._exit(1)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run(tmp_path, *FEW, "-p", "dies", "--device=cpu", "-n", "1")
    assert done.status == 1
    crashed = {Case.parse(o.case).shape for o in done.outcomes if o.verdict == "crash"}
    assert crashed == {(5, 3)}


@needs_sim
def test_without_workers_a_poisoned_device_ends_the_run(tmp_path: Path) -> None:
    plugin = broken_device(tmp_path, POISON)
    done = run(tmp_path, *FEW, "--device=sim", f"--device-plugin={plugin}", "-n", "0")
    assert done.status == pytest.ExitCode.INTERRUPTED
    assert "the device cannot be used after" in done.output
    assert "promise   C is multiplied" in done.output


@needs_sim
def test_fallback_and_refusal_are_told(tmp_path: Path) -> None:
    plant = """
if op == "ormqr" and args[0].shape[-1] == 3:
    raise NotImplementedError("ormqr is not implemented for 3 columns")
"""
    plugin = broken_device(tmp_path, plant)
    done = run(tmp_path, *FEW, "--device=sim", f"--device-plugin={plugin}", "-n", "1")
    assert done.status == 0, done.output
    counts = Counter((Case.parse(o.case).shape, o.verdict) for o in done.outcomes)
    assert set(counts) == {((5, 3), "unsupported"), ((1, 1), "pass")}
    assert "not implemented for 3 columns" in done.output
