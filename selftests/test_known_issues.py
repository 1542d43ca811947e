"""Known issues: which cases they cover, in which versions, and every error with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.known_issues import KnownIssue, KnownIssues, Range
from conformance.record import Measured
from conformance.tomlfiles import ConfigError
from selftests import records

URL = "https://github.com/pytorch/pytorch/issues/196112"
HEAD = f'[[issue]]\nurl = "{URL}"\nbackend = "mps"\n'
ISSUE = HEAD + 'torch = ">=2.14,<2.15"\nwhat = "wrong"\n'
CASE = records.case(7, device="mps", family="null-space")  # 8x8, batch 1

Load = Callable[[str], KnownIssues]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(text: str) -> KnownIssues:
        path = tmp_path / "known.toml"
        path.write_text(text)
        return KnownIssues.load([path])

    return loaded


def matches(known: KnownIssues, case: str = CASE, **where: str) -> list[KnownIssue]:
    found: Any = {"backend": "mps", "torch": "2.14.1", **where}
    return known.matches(case, **found)


@pytest.mark.parametrize(
    ("cases", "covered"),
    [
        ('{ operation = "svd" }', True),
        ('{ operation = "svd*", dtype = ["float32", "complex64"], family = "null-space" }', True),
        ('{ operation = "svdvals" }', False),
        ('{ operation = "svd", variant = "full" }', True),
        ('{ operation = "svd.full" }', False),
        (
            '{ shape = "8x8", batch = "1", layout = "row-*", capture = "eager", device = "mps" }',
            True,
        ),
        ('{ dtype = "float" }', False),
        ('{ when = "batch * m * n > 63 and m == n" }', True),
        ('{ when = "batch * m * n > 64" }', False),
        ('[{ dtype = "float64" }, { dtype = "float32" }]', True),
        ('{ test = "test_svd" }', True),
        ('{ test = "test_scaling" }', False),
    ],
)
def test_cases(load: Load, cases: str, covered: bool) -> None:
    known = load(f"{ISSUE}cases = {cases}\n")
    assert bool(matches(known, test="test_svd")) == covered


@pytest.mark.parametrize(
    ("where", "covered"),
    [
        ({}, True),
        ({"backend": "cuda"}, False),
        ({"torch": "2.14.0"}, True),
        ({"torch": "2.14.1+cpu"}, True),
        ({"torch": "2.13.0"}, False),
        ({"torch": "2.15.0"}, False),
        ({"torch": "2.15.0.dev20261101+cu130"}, False),
        ({"torch": "2.14.0a0+git703500c"}, False),
        ({"torch": "unknown"}, False),
    ],
)
def test_versions(load: Load, where: dict[str, str], covered: bool) -> None:
    known = load(ISSUE + 'cases = { operation = "svd" }\n')
    assert bool(matches(known, **where)) == covered


@pytest.mark.parametrize(
    ("text", "actual", "holds"),
    [
        ("macOS >=26", "macOS 26.5.1", True),
        ("macOS >=26", "macOS 15.3", False),
        ("macOS >=26", "Linux 6.8.0-45-generic", False),
        ("macOS*", "macOS 15.3", True),
        ("*H100*", "NVIDIA H100 80GB HBM3", True),
        ("*H100*", "NVIDIA A100", False),
        (">=550,<560", "550.54.15", True),
        (">=550", "", False),
        (">=6.8", "Linux 6.8.0-45-generic", True),
    ],
)
def test_ranges(text: str, actual: str, holds: bool) -> None:
    assert Range.parse(text).holds(actual) == holds


def test_chip_and_driver(load: Load) -> None:
    text = 'chip = "*Paravirtual*"\nos = "macOS >=26"\ncases = { operation = "svd" }\n'
    known = load(ISSUE + text)
    assert not matches(known)
    assert matches(known, chip="Paravirtual-device", os="macOS 26.1")


def test_measures_and_strictness(load: Load) -> None:
    known = load(
        ISSUE + 'cases = { operation = "svd" }\nmeasures = ["values"]\n'
        + HEAD + 'what = "refused"\ncases = { operation = "svd" }\nreport_only = true\nnote = "n"\n'
    )  # fmt: skip
    strict, told = matches(known)
    assert strict.strict
    values, order = Measured("values", 60.0, 50.0), Measured("order", float("inf"), 0.0)
    assert strict.excuses([values])
    assert not strict.excuses([values, order])
    assert not told.strict
    assert not told.excuses([values])
    assert matches(known, torch="2.13") == [told]
    assert strict.source == "known.toml:1"


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("", f"{URL} (known.toml:1)"),
        ("Wrong.", f"Wrong: {URL} (known.toml:1)"),
        ("V is off in 2.14.1. Range not established.", f"V is off in 2.14.1: {URL} (known.toml:1)"),
        ("word " * 50, f"{'word ' * 19}...: {URL} (known.toml:1)"),
    ],
)
def test_gist(load: Load, note: str, told: str) -> None:
    (issue,) = load(ISSUE + f'note = "{note}"\ncases = {{ operation = "svd" }}\n').issues
    assert str(issue) == told


CASES = 'cases = { operation = "svd" }\n'


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[[issue]\n", 1, "not valid TOML"),
        ("[issue]\n", 1, r"expected \[\[issue\]\]"),
        ("\n[other]\n", 2, "unknown key"),
        (ISSUE, 1, "has no cases"),
        ("# c\n" + CASES.join(["[[issue]]\n", ""]), 2, "has no url"),
        (ISSUE + CASES + "reason = 3\n", 7, "unknown key"),
        (ISSUE + CASES + "note = 3\n", 7, "expected a string"),
        (ISSUE + "cases = 3\n", 6, "a table of patterns"),
        (ISSUE + "cases = {}\n", 1, "has no cases"),
        (ISSUE + 'cases = { op = "svd" }\n', 6, "unknown part 'op'"),
        (ISSUE + "cases = { operation = 3 }\n", 6, "expected a pattern"),
        (ISSUE + 'cases = { when = "n ** 2 > 3" }\n', 6, "when: .*not allowed"),
        (ISSUE + "cases = { when = 3 }\n", 6, "when: "),
        (ISSUE + CASES + 'measures = ["value"]\n', 7, "no measure is called 'value'"),
        (ISSUE + CASES + "report_only = 1\n", 7, "true or false"),
        (ISSUE.replace("wrong", "odd") + CASES, 5, "expected wrong, refused, crash"),
        (ISSUE.replace(">=2.14,", ">>2.14,") + CASES, 4, "not a PEP 440 version range"),
        (ISSUE.replace("https://", "") + CASES, 2, "not a public URL"),
        (HEAD + 'what = "wrong"\n' + CASES, 1, "has no torch range"),
    ],
)
def test_errors_name_the_place(load: Load, text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        load(text)
    assert f"known.toml:{line}: " in str(refused.value)


def test_nan_explains_nothing_else(load: Load) -> None:
    known = load(ISSUE + 'cases = { operation = "svd" }\nnan = true\n')
    (issue,) = matches(known)
    nan, large = Measured("values", float("nan"), 50.0), Measured("values", 60.0, 50.0)
    assert issue.excuses([nan])
    assert not issue.excuses([nan, large])


def test_shipped_file() -> None:
    known = KnownIssues.load()
    assert known.issues
    case = "mps/svd.full/float32/rank-one/32x32/8/row-major/eager"
    assert any(
        i.excuses([Measured("error", float("inf"), 0.0)])
        for i in known.matches(case, backend="mps", torch="2.14.0")
    )
    assert not known.matches(case, backend="mps", torch="2.13.0")
    assert not known.matches(case.replace("/8/", "/7/"), backend="mps", torch="2.14.0")
