"""Limits: lookup from the general to the particular, formulas, and every error with its place."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.formulas import Condition, Formula, FormulaError, rescaled
from conformance.precision import PRECISIONS
from conformance.tolerances import EXACT, VOCABULARY, Limit, Tolerances
from conformance.tomlfiles import ConfigError, locate

Load = Callable[..., Tolerances]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(*texts: str) -> Tolerances:
        paths = []
        for number, text in enumerate(texts):
            paths.append(tmp_path / f"{number}.toml")
            paths[-1].write_text(text)
        return Tolerances.load(paths)

    return loaded


def limit(tolerances: Tolerances, **keys: Any) -> Limit:
    asked = {"backend": "cuda", "operation": "svd", "measure": "values", "dtype": "float32"}
    return tolerances.limit(**{"m": 9, "n": 4, **asked, **keys})


LAYERS = """
[default]
values = 90
[default.float32]
values = 80
[default.svd]
values = 70
[default.svd.float32]
values = 60
[cuda]
values = 50
[cuda.svd]
values = 40
[cuda.svd.float32]
values = 30
[cuda."chip:*H100*"]
values = 20
[cuda."driver:13.*".svd.float32]
values = "min(19, 2 * sqrt(n) + m)"
"""
H100 = ("chip:NVIDIA H100 80GB HBM3",)


@pytest.mark.parametrize(
    ("keys", "value", "source"),
    [
        (
            {"backend": "mps", "operation": "eigh", "dtype": "float64"},
            90,
            "0.toml:3 default.values",
        ),
        ({"backend": "mps", "operation": "eigh"}, 80, "0.toml:5 default.float32.values"),
        ({"backend": "mps", "dtype": "complex64"}, 70, "0.toml:7 default.svd.values"),
        ({"backend": "mps"}, 60, "0.toml:9 default.svd.float32.values"),
        ({"operation": "eigh"}, 50, "0.toml:11 cuda.values"),
        ({"dtype": "float64"}, 40, "0.toml:13 cuda.svd.values"),
        ({}, 30, "0.toml:15 cuda.svd.float32.values"),
        ({"traits": ("chip:NVIDIA A100",)}, 30, "0.toml:15 cuda.svd.float32.values"),
        ({"traits": H100}, 20, '0.toml:17 cuda."chip:*H100*".values'),
        ({"traits": (*H100, "driver:13.1")}, 13, '0.toml:19 cuda."driver:13.*".svd.float32.values'),
    ],
)
def test_most_particular_wins(load: Load, keys: dict[str, Any], value: float, source: str) -> None:
    assert limit(load(LAYERS), **keys) == (value, source)


def test_later_file_replaces(load: Load) -> None:
    tolerances = load(LAYERS, "[cuda.svd.float32]\nvalues = 29\n")
    assert limit(tolerances) == (29, "1.toml:2 cuda.svd.float32.values")
    looser = "[cuda.svd.float32]\nvalues = 31\n"
    with pytest.raises(ConfigError, match=r"1\.toml:2: .*looser than 30 \(0\.toml:15"):
        load(LAYERS, looser)


def test_empty_shape_has_a_limit(load: Load) -> None:
    tolerances = load('[default]\nvalues = "30 / min(m, n)"\n')
    assert limit(tolerances, m=0, n=3).value == 30


def test_nothing_found(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"no limit for order of svd \(float32\) on cuda"):
        limit(load(LAYERS), measure="order")


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls, of Python and of C: its cost, the same on every machine."""
    made = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


def test_lookup_is_fast(load: Load) -> None:
    tolerances = load(LAYERS)
    first = calls(lambda: limit(tolerances, traits=H100))
    again = calls(lambda: limit(tolerances, traits=H100))
    assert again < 20 < first  # what was looked up once is remembered


REASON = 'reason = "r", source = "https://example.org"'


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[default]\nvalues = \n", 2, "not valid TOML"),
        ("[default]\nvalues = 1\nvalues = 2\n", 3, "not valid TOML"),
        ("# c\n\n[default\n", 3, "not valid TOML"),
        ("[default]\nvalues = 1\n[default]\n", 3, "not valid TOML"),
        ("values = 3\n", 1, "expected a section"),
        ("[default]\nvalue = 3\n", 2, "unknown key; expected a measure, a dtype, an operation"),
        ("[default.svdd]\nvalues = 3\n", 1, "unknown key"),
        ("[default.svd]\n\nresidual = 3\n", 3, "unknown key; expected a measure of svd"),
        ("[default.svd.float16]\nvalues = 3\n", 1, "unknown key"),
        ("[default.svd.float32.float64]\nvalues = 3\n", 1, "unknown key"),
        ("[default.float32.svd]\nvalues = 3\n", 1, "unknown key"),
        ('[default."chip:x"]\nvalues = 3\n', 1, "unknown key"),
        ('[cuda.svd."chip:x"]\nvalues = 3\n', 1, "unknown key"),
        ("[default]\nsvd = 3\n", 2, "expected a table"),
        ("[default]\nvalues = nan\n", 2, "not NaN"),
        ("[default]\nvalues = -1\n", 2, "not negative"),
        ("[default]\nvalues = inf\n", 2, "finite"),
        ("[default]\nvalues = true\n", 2, "a number or a formula"),
        ("[default]\nvalues = [1]\n", 2, "a number or a formula"),
        ('[default]\nvalues = "n - 2"\n', 2, "'n - 2' is -1 for a 1 x 1 matrix"),
        ('[default]\nvalues = "1 / (n - 1)"\n', 2, "has no value at m = 1, n = 1"),
        ("[default]\nvalues = \"__import__('os')\"\n", 2, "not allowed"),
        ('[default]\nvalues = "9**9**9"\n', 2, "not allowed"),
        ('[default]\nvalues = { reason = "" }\n', 2, "has no limit"),
        ('[default]\nvalues = { limit = 3, because = "" }\n', 2, "unknown key 'because'"),
        ("[default]\nvalues = { limit = 3, reason = 3 }\n", 2, "reason has the wrong type"),
        ("[default]\nvalues = { limit = 3, runs = true }\n", 2, "runs has the wrong type"),
        ("[ceiling]\nvalues = 3\n[default]\nvalues = 4\n", 4, "above the ceiling 3"),
        ('[ceiling]\nvalues = "n"\n[default.svd]\nvalues = "2 * n"\n', 4, "above the ceiling n"),
        ("[default]\nvalues = 3\n[cpu]\nvalues = 4\n", 4, "no reason and no source"),
        (
            '[default]\nvalues = 3\n[cpu.svd]\n# c\nvalues = { limit = 4, reason = "r" }\n',
            5,
            "looser than 3 .* has no source",
        ),
        (
            '[default]\nvalues = 3\n[cpu]\nvalues = { limit = 4, reason = "r", source = "me" }\n',
            4,
            "is a URL",
        ),
        ('[default]\nvalues = 3\n[cpu]\nvalues = "sqrt(m)"\n', 4, "sqrt.m. is looser than 3"),
    ],
)
def test_errors_name_the_place(load: Load, text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        load(text)
    assert f"0.toml:{line}: " in str(refused.value)
    assert "\n" not in str(refused.value)


def test_looser_with_reason_and_source(load: Load) -> None:
    load(f"[default]\nvalues = 3\n[cpu]\nvalues = {{ limit = 4, {REASON} }}\n")


def test_recorded_only(load: Load) -> None:
    text = f"[ceiling]\nrelative_values = 9\n[cpu]\nrelative_values = {{ limit = inf, {REASON} }}"
    assert math.isinf(limit(load(text), backend="cpu", measure="relative_values").value)


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Tolerances.load([tmp_path / "no.toml"])
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# ok\n# \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.toml:2: not UTF-8"):
        Tolerances.load([path])
    path.write_bytes(b"#" * 5_000_000)
    with pytest.raises(ConfigError, match="larger than 4 MB"):
        Tolerances.load([path])
    path.write_text("x = " + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"latin\.toml:1: "):
        Tolerances.load([path])


def test_lines_of_keys() -> None:
    text = (
        "# [not.a.table]\n"
        'a = """\n[x]\ny = 1\n"""\n'
        "b.c = [ # ]\n  1,\n '#' ]\n"
        "[ \"q.t\" . 'u' ]\r\n"
        'd = { e = "}" } # f = 3\n'
        "[[i]]\nk = 1\n[[i]]\nk = 2\n[i.sub]\nz = 1979-05-27T07:32:00Z"
    )
    spots = locate(text)
    lines = {keys: spot.line for keys, spot in spots.items()}
    assert lines == {
        ("a",): 2,
        ("b",): 6,
        ("b", "c"): 6,
        ("q.t", "u"): 9,
        ("q.t", "u", "d"): 10,
        ("i", 0): 11,
        ("i", 0, "k"): 12,
        ("i", 1): 13,
        ("i", 1, "k"): 14,
        ("i", 1, "sub"): 15,
        ("i", 1, "sub", "z"): 16,
    }
    values = {keys: text[spot.value : spot.end] for keys, spot in spots.items()}
    assert values["b", "c"] == "[ # ]\n  1,\n '#' ]"
    assert values["q.t", "u", "d"] == '{ e = "}" }'
    assert values["i", 1, "sub", "z"] == "1979-05-27T07:32:00Z"


def test_shipped_file_is_complete() -> None:
    """Every measure has a limit on any backend; exact ones have limit 0."""
    tolerances = Tolerances.load()
    for operation, measures in VOCABULARY.items():
        for measure in measures:
            for dtype in PRECISIONS:
                found = limit(
                    tolerances, backend="npu", operation=operation, measure=measure, dtype=dtype
                )
                assert (found.value == 0) == (measure in EXACT)
                assert tolerances.ceiling(operation, measure, dtype) is not None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30", 30),
        ("2 * sqrt(n)", 6),
        ("-1 + max(m, n, 1.5) / min(m, n) - log2(8)", 16 / 9 - 4),
        ("((m))", 16),
        (" 1e1 * m ", 160),
    ],
)
def test_formula(text: str, value: float) -> None:
    assert Formula.parse(text)(16, 9) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "k",
        "m.real",
        "m if n else 1",
        "[m][0]",
        "sqrt(m, n)",
        "sqrt(*m)",
        "max(m)",
        "min(key=m)",
        "print(m)",
        "9**9**9",
        "1 << 99",
        "True",
        "1j",
        "'m' * 9",
        "m < n",
        "lambda: m",
        "(m := 3)",
        "__import__('os').system('true')",
        "m; n",
        "m\nn",
        "9" * 201,
        "1" + "0" * 150 + " * 1e309",
        "(" * 99 + "m" + ")" * 99 + "(",
        "-" * 199 + "m(",
        "\0",
    ],
)
def test_hostile_formula(text: str) -> None:
    def refuse() -> None:
        with pytest.raises(FormulaError):
            Formula.parse(text)

    assert calls(refuse) < 10_000


def test_formula_without_value() -> None:
    for text in ("sqrt(0 - m)", "m / (n - n)", "log2(0)", "1e300 * 1e300 / (1e-300 * 1e-300)"):
        formula = Formula.parse(text)
        with pytest.raises(FormulaError, match="has no value at m = 3, n = 2"):
            formula(3, 2)


def test_condition() -> None:
    condition = Condition.parse("batch * m * n > 8192 and (n <= 32 or 1 < m < 9)")
    assert condition(3, 3, 911)
    assert not condition(3, 3, 910)
    assert not condition(64, 64, 64)
    for text in ("batch", "n > 'x'", "not m > 1", "m in n", "m is n", "all(m)"):
        with pytest.raises(FormulaError):
            Condition.parse(text)


@pytest.mark.parametrize(
    ("text", "factor", "result"),
    [
        ("2 * sqrt(n)", 1.5, "3 * sqrt(n)"),
        ("sqrt(n)", 1.5, "1.5 * (sqrt(n))"),
        ("2 + n", 2, "2 * (2 + n)"),
        ("4 * m / n", 0.5, "2 * m / n"),
        ("3", 2, "2 * (3)"),
    ],
)
def test_rescaled(text: str, factor: float, result: str) -> None:
    assert rescaled(text, factor) == result
    assert Formula.parse(result)(7, 5) == pytest.approx(factor * Formula.parse(text)(7, 5))


def test_rescaled_is_rounded_up() -> None:
    assert rescaled("3.33 * n", 1.2) == "4 * n"
    assert rescaled("n", 1.001) == "1.01 * (n)"


def test_empty_dimension_counts_as_one() -> None:
    assert Formula.parse("6 / m + 1 / n")(0, 0) == 7
