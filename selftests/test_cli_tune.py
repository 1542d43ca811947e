"""``tune``: what it shows, what it writes, and what it refuses to write."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.cli import _common
from conformance.record import Measured, Outcome
from conformance.tolerances import Tolerances
from selftests import records
from selftests.commands import command

LIMITS = """\
# The limits.
[ceiling]
values = 500    # theory
[default]
order = 0
values = 50
reconstruction  =  50   # LAPACK's
batch = 9
"""

Tune = Callable[..., int]


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    path = tmp_path / "limits.toml"
    path.write_text(LIMITS)
    return path


@pytest.fixture
def tune(tmp_path: Path, limits: Path) -> Tune:
    def run(*arguments: object, scale: float = 1.0) -> int:
        runs = [
            records.write(tmp_path / f"{seed}.xml", records.healthy(seed, scale=scale))
            for seed in range(20)
        ]
        return command("tune", *runs, "--tolerances", limits, *arguments)

    return run


def test_shows_and_changes_nothing(
    tune: Tune, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune() == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    start = lines.index("cpu svd, 20 runs")
    header, first, second, cases, *largest = (line.split() for line in lines[start + 1 : start + 7])
    assert header[:5] == ["measure", "dtype", "count", "p99.9", "largest"]
    assert header[5:] == ["limit", "chance", "proposed", "chance"]
    for row, measure in ((first, "reconstruction"), (second, "values")):
        assert row[:3] == [measure, "float32", "4000"]
        assert 0 < float(row[3]) < float(row[4]) < float(row[7]) < float(row[5]) == 50
        assert float(row[8]) <= 5e-4
        assert row[9:] == ["tighten"]
    assert cases == ["largest", "case"]
    assert [row[0] for row in largest] == ["reconstruction", "values"]
    assert largest[0][1] == first[4]
    assert largest[0][2].startswith("cpu/svd.full/float32/null-space/")
    assert max(map(len, lines[start : start + 7])) <= 100
    assert "1 of exact measures (0 or inf, 4000 values), not to be tuned" in text
    assert "too little data" not in text
    assert "more than 20 times above" in text
    assert "+[cpu.svd.float32]" in text
    assert "--write would change 2 limits" in text
    assert "probability of any false alarm in one run" in text
    assert limits.read_text() == LIMITS


def test_writes_with_provenance(tune: Tune, limits: Path) -> None:
    assert tune("--write") == 0
    after = limits.read_text()
    assert after.startswith(LIMITS)
    tolerances = Tolerances.load([limits])
    entry = tolerances.entry("cpu", "svd", "values", "float32")
    assert entry.at(8, 8) < 3
    assert entry.fields["date"] == datetime.date.today()
    assert entry.fields["torch"] == "2.14.1"
    assert entry.fields["device"] == "Some CPU"
    assert entry.fields["driver"] == "MKL 2024.2"
    assert (entry.fields["runs"], entry.fields["measured"]) == (20, 4000)
    assert entry.fields["case"].startswith("cpu/svd.full/float32/null-space/")
    assert entry.fields["worst"] * 2 <= entry.at(8, 8)
    assert tune("--write") == 0  # nothing is left to change
    assert limits.read_text() == after


def test_writes_limits_for_some_devices_only(tune: Tune, limits: Path) -> None:
    assert tune("--into", "driver:mkl*", "--write") == 0
    after = limits.read_text()
    assert '[cpu."driver:mkl*".svd.float32]' in after
    tolerances = Tolerances.load([limits])
    of = {"backend": "cpu", "operation": "svd", "measure": "values", "dtype": "float32"}
    assert tolerances.limit(**of, m=8, n=8, traits=("driver:MKL 2024.2",)).value < 3
    assert tolerances.limit(**of, m=8, n=8, traits=("driver:OpenBLAS",)).value == 50
    assert tune("--write") == 0  # the section that decides now is the one to be tuned
    assert limits.read_text() == after
    assert tune("--into", "driver:13") == 2
    for wrong in ("mkl", "maker:mkl", "driver:"):
        with pytest.raises(SystemExit):
            tune("--into", wrong)


def test_too_little_data_is_told_in_a_line(
    tmp_path: Path, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [records.write(tmp_path / f"{i}.xml", records.healthy(i, 3)) for i in range(2)]
    assert command("tune", *runs, "--tolerances", limits) == 0
    text = capsys.readouterr().out
    assert "cpu svd, 2 runs\n  too little data for 2 more: reconstruction, values\n\n" in text
    assert "limits proposed: too little data to say" in text
    assert text.endswith("\nnothing to change\n")
    assert command("tune", *runs, "--tolerances", limits, "--all") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    (row,) = (r for r in rows if r[:2] == ["values", "float32"])
    assert row[5:] == ["50", "-", "-", "-", "too", "little", "data"]


def test_exceeded_limit_is_told(
    tmp_path: Path, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However little data there is."""
    bad = Outcome(records.case(1), "fail", (Measured("values", 70.0, 50.0),))
    run = records.write(tmp_path / "run.xml", [bad])
    assert command("tune", run, "--tolerances", limits) == 0
    text = capsys.readouterr().out
    assert f"exceeded in these runs:\n  cpu svd values float32 = 70 {bad.case}\n" in text


@pytest.mark.parametrize("told", [False, True], ids=["left-out", "told"])
def test_partial_run_sets_limits_only_when_told(
    tmp_path: Path, limits: Path, capsys: pytest.CaptureFixture[str], told: bool
) -> None:
    runs: list[Path | str] = [
        records.write(
            tmp_path / f"{i}.xml",
            records.healthy(i),
            records.PROPERTIES | {"seed": str(i), "conformance": "false" if i == 7 else "true"},
        )
        for i in range(20)
    ]
    assert command("tune", *runs, "--tolerances", limits) == 0
    assert f"may be too tight:\n  {runs[7]}\n" in capsys.readouterr().out
    assert command("tune", *runs, "--tolerances", limits, "--write") == 2
    assert f"{runs[7]}: not a conformance run" in capsys.readouterr().err
    assert limits.read_text() == LIMITS
    if told:
        runs.append("--partial")
    else:
        del runs[7]
    assert command("tune", *runs, "--tolerances", limits, "--write") == 0
    text = capsys.readouterr().out
    assert "same matrices" not in text
    assert "2 limits written" in text


def test_runs_of_one_seed_are_pointed_out(tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune() == 0
    assert "seed 0: 20 runs" in capsys.readouterr().out


def test_only_one_backend(tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--backend", "mps", "--write") == 2
    assert "no measures of backend mps" in capsys.readouterr().err


def test_loosening_is_refused_without_being_allowed(
    tune: Tune, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune("--write", scale=80) == 1
    assert limits.read_text() == LIMITS
    assert "--allow-looser --reason TEXT --source URL" in capsys.readouterr().out
    assert tune(scale=80) == 0
    for missing in ([], ["--reason", "r"], ["--reason", "r", "--source", "somewhere"]):
        assert tune("--write", "--allow-looser", *missing, scale=80) == 2
        assert limits.read_text() == LIMITS


def test_loosening_is_written_with_its_reason(
    tune: Tune, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = ("--reason", "this chip flushes", "--source", "https://example.org/1")
    assert tune("--write", "--allow-looser", *why, scale=80) == 0
    assert "+values = {" in capsys.readouterr().out
    entry = Tolerances.load([limits]).entry("cpu", "svd", "values", "float32")
    assert 100 < entry.at(8, 8) <= 500
    assert entry.fields["reason"] == "this chip flushes"
    assert entry.fields["source"] == "https://example.org/1"


def test_never_above_the_ceiling(
    tune: Tune, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = ("--reason", "r", "--source", "https://example.org/1")
    assert tune("--write", "--allow-looser", *why, scale=500) == 0
    assert "a defect, not a tolerance" in capsys.readouterr().out
    entry = Tolerances.load([limits]).entry("cpu", "svd", "values", "float32")
    assert entry.at(8, 8) == 50


@pytest.mark.parametrize("text", ["<testsuite>", "<!DOCTYPE x><testsuite/>", "no xml"])
def test_broken_record(limits: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = limits.parent / "bad.xml"
    path.write_text(text)
    assert command("tune", path, "--tolerances", limits) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}:1: ")


def test_broken_limits(limits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits.write_text(LIMITS + "[cpu]\nvalues = 1e9\n")
    assert command("tune", "run.xml", "--tolerances", limits) == 2
    assert f"{limits}:10: cpu.values: " in capsys.readouterr().err


def test_progress_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = records.write(tmp_path / "run.xml", [])
    _common.Progress(every=0).of(path)(50)
    _common.Progress(every=60).of(path)(50)
    assert capsys.readouterr().err == f"{path}: 0 of 0 MB read\n"
