"""The record of a run: what is written is read back, and hostile files are refused."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import record
from conformance.record import Measured, Outcome, RecordError, Run
from conformance.summary import Summary
from conformance.tolerances import traits_of
from selftests import records

MEASURED = Measured("reconstruction", 0.532, 30.0, 3)


def test_written_and_read(tmp_path: Path) -> None:
    outcomes = [
        Outcome(records.case(1), "pass", (MEASURED,), digest="00ff", seconds=0.25),
        Outcome(
            records.case(2),
            "fail",
            (Measured("values", math.nan, 30.0), Measured("order", math.inf, 0.0, 7)),
            reason='one < "two" & ünïcode',
        ),
        Outcome(records.case(3), "unsupported", reason="refuses complex"),
    ]
    run = record.read(records.write(tmp_path / "run.xml", outcomes))
    assert run.properties == records.PROPERTIES
    assert run.backend("cpu") == "cpu"
    assert run.backend("cuda:1") == "cuda"
    assert traits_of(run.facts("cpu")) == ("chip:Some CPU", "driver:MKL 2024.2")
    assert [o.properties() for o in run.outcomes] == [o.properties() for o in outcomes]
    assert run.outcomes[0].test == "tests.test_svd::test_svd"
    assert run.outcomes[1].failing == run.outcomes[1].measures


def test_pytest_itself(tmp_path: Path) -> None:
    """What pytest writes is what is read; a failed test that is no case is a stray."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('case', ['cpu/qr.r/float32/zero/3x3/single/row-major/eager'])\n"
        "def test_qr(case, record_property, record_testsuite_property):\n"
        "    record_testsuite_property('torch', '2.14.1')\n"
        "    record_property('case', case)\n"
        "    record_property('verdict', 'fail')\n"
        "    record_property('measure.factor', 'nan 30 2')\n"
        "    assert False, '<&>'\n"
        "def test_other():\n    raise RuntimeError\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=run.xml", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    run = record.read(tmp_path / "run.xml")
    assert run.properties["torch"] == "2.14.1"
    (outcome,) = run.outcomes
    assert outcome.test == "test_it::test_qr"
    assert outcome.measures[0].index == 2
    assert run.strays == ["test_it::test_other"]


@pytest.mark.parametrize(
    ("value", "limit", "margin"),
    [(15.0, 30.0, 0.5), (0.0, 0.0, 0.0), (1.0, 0.0, math.inf), (1e9, math.inf, 0.0)],
)
def test_margin(value: float, limit: float, margin: float) -> None:
    measured = Measured("values", value, limit)
    assert measured.margin == margin
    assert measured.conforms == (margin <= 1)


@pytest.mark.parametrize("limit", [0.0, 30.0, math.inf])
def test_nan_never_conforms(limit: float) -> None:
    measured = Measured("values", math.nan, limit)
    assert math.isnan(measured.margin)
    assert not measured.conforms
    assert (
        Outcome("x", "fail", (MEASURED, measured, Measured("order", math.inf, 0))).worst is measured
    )


@pytest.mark.parametrize("value", [30.000001, 29.999999, 30.0])
def test_rounding_keeps_the_verdict(value: float) -> None:
    written = str(Measured("values", value, 30.0)).split()
    assert (float(written[0]) <= float(written[1])) == (value <= 30.0)


BOMB = (
    """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa">"""
    + "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(12))
    + """]><testsuites><testsuite name="&m;"/></testsuites>"""
)

GOOD = (
    '<testsuite><testcase classname="t" name="t"><properties><property name="case" '
    'value="cpu/qr.r/float32/zero/3x3/single/row-major/eager"/>{}</properties></testcase></testsuite>'
)


def with_properties(**properties: str) -> str:
    return GOOD.format(
        "".join(f'<property name="{k}" value="{v}"/>' for k, v in properties.items())
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated XML"),
        ("not xml", "not valid XML"),
        ("<testsuites><testsuite><testcase>", "truncated XML"),
        ("<html/>", "not a JUnit file"),
        (BOMB, "DOCTYPE"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>', "DOCTYPE"),
        ("<testsuite>" * 100_000, "nested"),
        ('<testsuite><property name="' + "x" * (9 << 20), "a tag of more than 4 MB"),
        (
            "<testsuite>" + "".join(f'<property name="{i}"/>' for i in range(20_000)),
            "more than 10000 properties",
        ),
        (with_properties(verdict="splendid"), "no verdict is called 'splendid'"),
        (with_properties(), "no verdict is called ''"),
        (with_properties(verdict="pass", **{"measure.values": "1 2"}), "measure.values is '1 2'"),
        (with_properties(verdict="pass", **{"measure.values": "a b c"}), "not 'value limit index'"),
        (with_properties(verdict="pass", seconds="soon"), "soon"),
    ],
)
def test_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.xml"
    path.write_text(text)
    with pytest.raises(RecordError, match=message) as refused:
        record.read(path)
    assert str(refused.value).startswith(f"{path}:")
    assert "\n" not in str(refused.value)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        record.read(tmp_path / "no.xml")


def test_no_case_is_no_outcome(tmp_path: Path) -> None:
    path = tmp_path / "run.xml"
    path.write_text('<testsuites><testsuite><testcase name="other"/></testsuite></testsuites>')
    assert record.read(path).outcomes == []


HUGE = """
import resource, sys, time
from pathlib import Path
from conformance.record import Run, stream
started, cases = time.monotonic(), sum(1 for _ in stream(Run(Path(sys.argv[1]))))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(cases, round(time.monotonic() - started, 1), round(peak))
"""


@pytest.mark.skipif("CONFORMANCE_SLOW" not in os.environ, reason="set CONFORMANCE_SLOW to run it")
def test_200_megabytes(tmp_path: Path) -> None:
    """A record of 200 MB is streamed in bounded memory."""
    path, outcomes = tmp_path / "run.xml", records.healthy(0, 1000)
    with path.open("w") as file:
        block = records.write(tmp_path / "part.xml", outcomes).read_text()
        head, _, rest = block.partition("<testcase")
        body, _, tail = rest.rpartition("</testcase>")
        file.write(head)
        written = 0
        while written < 200_000_000:
            written += file.write(f"<testcase{body}</testcase>")
        file.write(tail)
    done = subprocess.run(
        [sys.executable, "-c", HUGE, str(path)], capture_output=True, text=True, check=True
    )
    cases, seconds, megabytes = map(float, done.stdout.split())
    print(f"{os.path.getsize(path) / 1e6:.0f} MB: {cases:.0f} cases, {seconds} s, {megabytes} MB")
    assert cases > 100_000
    assert megabytes < 200


def test_streaming_tells_progress(tmp_path: Path) -> None:
    path = records.write(tmp_path / "run.xml", records.healthy(0, 1000))
    seen: list[int] = []
    for _ in record.stream(Run(path), seen.append):
        pass
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size
    assert len(seen) > 3


def test_nan_is_the_worst_in_any_order() -> None:
    nan, small, large = (Measured("values", value, 50.0) for value in (math.nan, 1.0, 60.0))
    for order in ((nan, small, large), (small, nan, large), (large, small, nan)):
        summary = Summary()
        for number, measured in enumerate(order):
            case = f"cpu/svd.full/float32/random/{number}x8/single/row-major/eager"
            summary.take(Outcome(case, "fail", (measured,)))
        ((worst, _),) = summary.worst.values()
        assert math.isnan(worst.value)
