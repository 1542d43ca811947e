"""``explain``, ``report`` and ``compare``: what they say of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.captures import CAPTURES
from conformance.cases import Case
from conformance.naming import faults
from conformance.record import Measured, Outcome
from conformance.session import every_case_id
from conformance.summary import Summary
from selftests import records
from selftests.commands import command

CASE = records.case(7)
LIMITS = """\
[ceiling]
values = "9 * n"
[default.svd]
values = "3 * sqrt(n)"
[cpu.svd]
values = { limit = 2, reason = "measured", source = "https://example.org", date = 2026-11-30 }
[cpu."chip:Some*".svd.float32]
values = 1.5
"""


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    path = tmp_path / "limits.toml"
    path.write_text(LIMITS)
    return path


# --- explain ----------------------------------------------------------------------------------


def test_explain_case(limits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(CASE, "pass", (Measured("values", 0.6, 2.0),))
    run = records.write(tmp_path / "run.xml", [outcome])
    options = ("--tolerances", limits, "--measure", "values")
    assert command("explain", CASE, run, *options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{CASE} on cpu, chip:Some CPU, driver:MKL 2024.2"
    assert lines[1:] == [
        "  values",
        "      8.49 = 3 * sqrt(n)  limits.toml:4 default.svd.values",
        "      2  limits.toml:6 cpu.svd.values",
        "          reason: measured",
        "          source: https://example.org",
        "          date: 2026-11-30",
        '    > 1.5  limits.toml:8 cpu."chip:Some*".svd.float32.values',
        "      ceiling 72 = 9 * n  limits.toml:2 ceiling.values",
        f"      measured 0.6, margin 0.3 of 2  {CASE}  (run.xml)",
    ]
    assert command("explain", CASE, *options) == 0
    assert "    > 2  limits.toml:6 cpu.svd.values" in capsys.readouterr().out


def test_explain_operation(limits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--backend", "mps", "--operation", "svd", "--tolerances", limits)
    assert command("explain", *options) == 0
    text = capsys.readouterr().out
    assert text.count("    > 3 * sqrt(n)  limits.toml:4 default.svd.values") == 4
    assert "  reconstruction: no limit" in text
    assert command("explain", *options, "--dtype", "float32", "--measure", "values") == 0
    assert capsys.readouterr().out.startswith("svd float32 on mps\n  values\n")


def test_explain_known_issue(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("explain", "mps/svd.full/float32/zero/64x64/2/row-major/eager") == 0
    assert "known issue https://github.com/pytorch/pytorch/issues/195937" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [[], ["--backend", "mps"], ["no/case"], [CASE.replace("svd", "inv")], ["no.xml", CASE]],
)
def test_explain_what(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command("explain", *arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("null-space", "null-spaec", "no family is called 'null-spaec'; near it are null-space"),
        ("svd.full", "svd.thin", "no variant of svd is called 'thin'; there are reduced, full"),
        ("svd.full", "svd.full+", "no variant of svd is called 'full+'; near it are full"),
        ("svd.full", "qr.r+gesvd", "no variant of qr is called 'r+gesvd'; there are reduced"),
        ("svd.full", "svdd.full", "no operation is called 'svdd'; near it are svd"),
        ("float32", "float23", "no dtype is called 'float23'; near it are float32"),
        ("row-major", "rowmajor", "no layout is called 'rowmajor'; near it are row-major"),
        ("eager", "eeger", "no capture is called 'eeger'; near it are eager"),
        ("8x8", "8x8x8", "8x8x8 is no shape of a matrix"),
        ("null-space", "correlation", "correlation has no general matrices, as svd takes them"),
        ("svd.full/float32/null-space/8x8", "eigh.lower/float32/zero/8x9", "as eigh needs it"),
        ("svd.full/float32/null-space/8x8", "geqrf.packed/float32/zero/8x", "is no shape"),
        (
            "svd.full/float32/null-space/8x8",
            "householder_product.plain/float32/zero/8x9",
            "8x9 is wide, and householder_product needs m >= n",
        ),
        ("cpu/", "npu/", "there is no backend 'npu', only cpu, cuda"),
    ],
)
def test_explain_names_what_is_wrong(
    old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in CASE
    assert command("explain", CASE.replace(old, new)) == 2
    assert message in capsys.readouterr().err


def test_every_case_is_well_named() -> None:
    cases = [case for case in map(Case.parse, set(every_case_id())) if case.capture in CAPTURES]
    assert len(cases) > 10_000
    assert not [(str(case), fault) for case in cases for fault in faults(case)]


def test_explain_with_a_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files that the plug-in ships count, after the suite's own."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from pathlib import Path\n"
        "from devices.base import Backend\n"
        "class Mine(Backend):\n"
        "    name = 'mine'\n"
        "    def devices(self):\n"
        "        return ['mine:0']\n"
        "    def tolerances(self):\n"
        "        return Path(__file__).with_name('mine.toml')\n"
    )
    (tmp_path / "mine.toml").write_text("[mine]\nvalues = 7\n")
    options = ("--device-plugin", plugin, "--measure", "values")
    case = CASE.replace("cpu/", "mine:0/")
    assert command("explain", case, *options) == 0
    assert "    > 7  mine.toml:2 mine.values\n" in capsys.readouterr().out
    assert command("explain", "--backend", "mine", "--operation", "svd", *options) == 0
    assert capsys.readouterr().out.count("    > 7  mine.toml:2 mine.values\n") == 4
    assert command("explain", case, "--device-plugin", tmp_path / "no.py") == 2


# --- report -----------------------------------------------------------------------------------

MIXED = [
    Outcome(records.case(1), "pass", (Measured("values", 3.0, 30.0), Measured("order", 0, 0))),
    Outcome(records.case(2), "pass", (Measured("values", 6.0, 30.0),)),
    Outcome(
        records.case(3), "fail", (Measured("values", math.nan, 30.0, 5),), reason="wrong\nat length"
    ),
    Outcome(records.case(4, operation="qr.r"), "unsupported", reason="no complex"),
    Outcome(records.case(5), "crash", reason="worker died"),
    Outcome(records.case(6), "known", (Measured("values", 99.0, 30.0),), reason="as said"),
]


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The closing table of the run, then its failures as the run told them."""
    properties = records.PROPERTIES | {"conformance": "false"}
    told = "case      x\npromise   U is orthonormal."
    outcomes = [*MIXED, Outcome(records.case(8), "fixed", text=f"\n{told}\n")]
    run = records.write(tmp_path / "run.xml", outcomes, properties)
    assert command("report", run) == 1
    text = capsys.readouterr().out
    assert "torch 2.14.1, profile standard, seed 0" in text
    assert "not a conformance run" in text
    summary = Summary()
    for outcome in outcomes:
        summary.take(outcome)
    assert "\n".join(["", *summary.lines(), ""]) in text
    assert "  known x 1: as said\n" in text
    assert text.endswith(f"\n\n{told}\n\n")
    assert (
        f"\n\ncase      {records.case(3)} (test_svd: fail)\nreason    wrong\n"
        "measure   values = nan, limit 30 at matrix 5 of the batch\n\n" in text
    )
    assert command("report", run, "--failures", 1) == 1
    assert capsys.readouterr().out.endswith("\n\nand 2 more failures: --failures N shows more\n\n")


def test_report_shows_one_of_each_kind_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def failed(number: int, operation: str, measure: str) -> Outcome:
        measured = (Measured(measure, 99.0, 30.0),)
        return Outcome(records.case(number, operation=operation), "fail", measured)

    many = [failed(number, "svd.full", "values") for number in range(30)]
    late = [failed(30, "svd.full", "order"), failed(31, "qr.r", "triangle")]
    run = records.write(tmp_path / "run.xml", [*many, *late])
    assert command("report", run, "--failures", 4) == 1
    text = capsys.readouterr().out
    shown = [line.split()[1] for line in text.splitlines() if line.startswith("case ")]
    assert shown == [many[0].case, late[0].case, late[1].case, many[1].case]
    assert "and 28 more failures" in text


def test_report_good_and_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = records.write(tmp_path / "good.xml", MIXED[:2])
    assert command("report", good) == 0
    assert "not a conformance run" not in capsys.readouterr().out
    empty = records.write(tmp_path / "empty.xml", [])
    assert command("report", good, empty) == 1
    assert "no case at all" in capsys.readouterr().out
    refused = records.write(tmp_path / "refused.xml", MIXED[3:4])
    assert command("report", refused) == 1
    assert "NOT ONE CASE COULD BE JUDGED" in capsys.readouterr().out
    assert command("report", tmp_path / "no.xml") == 2


def test_report_under_other_limits(
    tmp_path: Path, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The chip of the record decides; what was only recorded and what is no pass stay."""
    outcomes = [
        Outcome(records.case(1), "pass", (Measured("values", 1.6, 30.0, 4),)),
        Outcome(records.case(2), "pass", (Measured("values", 1.4, 30.0),)),
        Outcome(records.case(3, dtype="float64"), "pass", (Measured("values", 1.6, 30.0),)),
        Outcome(records.case(4), "pass", (Measured("values", 99.0, math.inf),)),
        Outcome(records.case(5), "known", (Measured("values", 99.0, 30.0),), reason="as said"),
        Outcome(records.case(6), "fail", (Measured("values", 1.0, 0.5),), text="case  of old"),
    ]
    run = records.write(tmp_path / "run.xml", outcomes)
    assert command("report", run, "--tolerances", limits, "--tolerances", limits) == 1
    text = capsys.readouterr().out
    assert f"\njudged by {limits}, {limits}\n" in text
    assert "6 cases, 6 measures: 4 pass, 1 fail, 1 known\n" in text
    assert text.endswith(
        f"\n\ncase      {records.case(1)} (test_svd: fail)\n"
        'measure   values = 1.6, limit 1.5 (limits.toml:8 cpu."chip:Some*".svd.float32.values) '
        "at matrix 4 of the batch\n\n"
    )
    assert command("report", run, "--tolerances", tmp_path / "no.toml") == 2


# --- compare ----------------------------------------------------------------------------------


def compare(
    folder: Path, before: Sequence[Outcome], after: Sequence[Outcome], **changed: str
) -> int:
    first = records.write(folder / "before.xml", before)
    second = records.write(folder / "after.xml", after, records.PROPERTIES | changed)
    return command("compare", first, second)


def test_compare_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(tmp_path, MIXED, MIXED) == 0
    assert capsys.readouterr().out.endswith("nothing got worse\n")


@pytest.mark.parametrize(
    ("verdict", "status", "title"),
    [
        ("fail", 1, "got worse: 1"),
        ("timeout", 1, "got worse: 1"),
        ("unsupported", 1, "newly unsupported: 1"),
        ("fallback", 1, "got worse: 1"),
        ("known", 1, "got worse: 1"),
        ("fixed", 0, "nothing got worse"),
    ],
)
def test_compare_verdicts(
    tmp_path: Path, verdict: str, status: int, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = [replace(MIXED[0], verdict=verdict), *MIXED[1:]]
    assert compare(tmp_path, MIXED, changed, torch="2.15.0") == status
    text = capsys.readouterr().out
    assert title in text
    assert "2.14.1" in text
    assert "2.15.0" in text
    assert compare(tmp_path, changed, MIXED) == 0
    assert ("got better: 1" in capsys.readouterr().out) == bool(status)


@pytest.mark.parametrize(
    ("value", "status"), [(6.1, 0), (11.9, 0), (12.1, 1), (math.inf, 1), (math.nan, 1)]
)
def test_compare_measures(tmp_path: Path, value: float, status: int) -> None:
    after = [MIXED[0], replace(MIXED[1], measures=(Measured("values", value, 1e9),))]
    assert compare(tmp_path, MIXED[:2], after) == status


def test_compare_small_growth_is_rounding(tmp_path: Path) -> None:
    before, after = (
        [Outcome(CASE, "pass", (Measured("values", value, 30.0),))] for value in (0.01, 0.9)
    )
    assert compare(tmp_path, before, after) == 0


def test_compare_missing_and_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(tmp_path, MIXED, MIXED[1:]) == 1
    text = capsys.readouterr().out
    assert "no longer there: 1\n" in text
    assert f"left out: 1 cases that are only in {tmp_path / 'before.xml'}\n" in text
    assert compare(tmp_path, MIXED, MIXED[1:], seed="1") == 0
    assert "no longer there" not in capsys.readouterr().out
    assert compare(tmp_path, MIXED[:1], MIXED[:2]) == 0
    text = capsys.readouterr().out
    assert "compared: 1 cases that are in both\n" in text
    assert f"left out: 1 cases that are only in {tmp_path / 'after.xml'}\n" in text
    assert compare(tmp_path, MIXED[:2], MIXED[:3]) == 1
    assert f"new and failing: 1\n  test_svd[{MIXED[2].case}]" in capsys.readouterr().out
    assert compare(tmp_path, MIXED, [*MIXED[:-1], replace(MIXED[-1], test="other")]) == 1


@pytest.mark.parametrize(("value", "status"), [(3.0, 0), (90.0, 1)])
def test_compare_full_and_partial(
    tmp_path: Path, value: float, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only one run has does not hide, nor make, a change of the cases of both."""
    small, large = (
        Outcome(records.case(i), "pass", (Measured("values", x, 100.0),))
        for i, x in ((1, 3.0), (2, 50.0))
    )
    changed = replace(small, measures=(Measured("values", value, 100.0),))
    failing = replace(large, verdict="fail")
    assert compare(tmp_path, [small, large], [changed], conformance="false") == status
    assert compare(tmp_path, [small], [changed, failing], profile="full") == status
    assert ("measures that got worse: 1" in capsys.readouterr().out) == bool(status)


def test_compare_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = records.write(tmp_path / "good.xml", MIXED)
    assert command("compare", good, tmp_path / "no.xml") == 2
    assert "cannot be read" in capsys.readouterr().err
