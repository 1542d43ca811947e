"""``explain``, ``report`` and ``compare``: what they say of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.record import Measured, Outcome
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


# --- report -----------------------------------------------------------------------------------

MIXED = [
    Outcome(records.case(1), "pass", (Measured("values", 3.0, 30.0), Measured("order", 0, 0))),
    Outcome(records.case(2), "pass", (Measured("values", 6.0, 30.0),)),
    Outcome(
        records.case(3), "fail", (Measured("values", math.nan, 30.0, 5),), reason="wrong\nat length"
    ),
    Outcome(records.case(4, operation="qr.r"), "unsupported", reason="no complex"),
    Outcome(records.case(5), "crash", reason="worker died"),
]


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    properties = records.PROPERTIES | {"conformance": "false"}
    run = records.write(tmp_path / "run.xml", MIXED, properties)
    assert command("report", run) == 1
    text = capsys.readouterr().out
    assert "torch 2.14.1, profile standard, seed 0" in text
    assert "not a conformance run" in text
    assert "2 pass, 1 fail, 1 unsupported, 1 crash" in text
    row = next(line.split() for line in text.splitlines() if "float32" in line and "nan" in line)
    assert row[:7] == ["cpu", "svd", "float32", "nan", "values", "nan", "30"]
    assert (
        f"fail: test_svd[{records.case(3)}]\n    wrong\n    values nan, limit 30, matrix 5" in text
    )
    assert "1  no complex" in text
    assert command("report", run, "--failures", 1) == 1
    assert "and 1 more" in capsys.readouterr().out


def test_report_good_and_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = records.write(tmp_path / "good.xml", MIXED[:2])
    assert command("report", good) == 0
    assert "not a conformance run" not in capsys.readouterr().out
    empty = records.write(tmp_path / "empty.xml", [])
    assert command("report", good, empty) == 1
    assert "no case at all" in capsys.readouterr().out
    assert command("report", tmp_path / "no.xml") == 2


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
    assert "no longer there: 1" in capsys.readouterr().out
    assert compare(tmp_path, MIXED, MIXED[1:], seed="1") == 0
    assert "so that is no loss" in capsys.readouterr().out
    assert compare(tmp_path, MIXED[:1], MIXED[:2]) == 0
    assert "1 cases are new, 0 of them fail" in capsys.readouterr().out
    assert compare(tmp_path, MIXED[:2], MIXED[:3]) == 1
    assert compare(tmp_path, MIXED, [*MIXED[:-1], replace(MIXED[-1], test="other")]) == 1


def test_compare_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = records.write(tmp_path / "good.xml", MIXED)
    assert command("compare", good, tmp_path / "no.xml") == 2
    assert "cannot be read" in capsys.readouterr().err
