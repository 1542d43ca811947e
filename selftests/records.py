"""Records made up for the tests of their readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from conformance.record import Measured, Outcome

PROPERTIES = {
    "torch": "2.14.1",
    "profile": "standard",
    "seed": "0",
    "conformance": "true",
    "device.cpu.name": "Some CPU",
    "device.cpu.chip": "Some CPU",
    "device.cpu.driver": "MKL 2024.2",
    "device.cpu.backend": "cpu",
}
BAD = ("fail", "crash", "timeout", "fixed")


def write(
    path: Path, outcomes: Iterable[Outcome], properties: Mapping[str, str] = PROPERTIES
) -> Path:
    """A record as pytest writes it: the suite's properties, then a test case for each outcome."""
    with path.open("w") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite name="pytest">')
        file.write(_properties(properties.items()))
        for outcome in outcomes:
            test = outcome.test or "tests.test_svd::test_svd"
            classname, _, name = test.partition("::")
            name = quoteattr(f"{name}[{outcome.case}]")
            file.write(f'<testcase classname="{classname}" name={name} time="0.01">')
            file.write(_properties(outcome.properties()))
            if outcome.verdict in BAD:
                text = escape(outcome.text or "at great length")
                file.write(f'<failure message="does not conform">{text}</failure>')
            file.write("</testcase>\n")
        file.write("</testsuite></testsuites>\n")
    return path


def case(number: int = 0, operation: str = "svd.full", dtype: str = "float32", **parts: str) -> str:
    """A case id; cases of different numbers differ in shape or batch."""
    names = {"device": "cpu", "family": "null-space", "shape": f"{number % 97 + 1}x8"}
    names |= {"batch": str(number // 97 + 1), "layout": "row-major", "capture": "eager"} | parts
    return (
        f"{names['device']}/{operation}/{dtype}/{names['family']}/{names['shape']}/"
        f"{names['batch']}/{names['layout']}/{names['capture']}"
    )


def healthy(
    seed: int, count: int = 200, limit: float = 50.0, scale: float = 1.0, **parts: str
) -> list[Outcome]:
    """A run of a correct device: the measures are gamma-distributed, the largest near 1."""
    rng = np.random.default_rng(seed)
    values = scale * rng.gamma(4.0, 0.06, (count, 2))
    return [
        Outcome(
            case(number, **parts),
            "pass",
            (
                Measured("reconstruction", float(values[number, 0]), limit),
                Measured("values", float(values[number, 1]), limit),
                Measured("order", 0.0, 0.0),
            ),
            digest="0123456789abcdef",
        )
        for number in range(count)
    ]


def _properties(pairs: Iterable[tuple[str, str]]) -> str:
    inside = "".join(
        f"<property name={quoteattr(name)} value={quoteattr(value)} />" for name, value in pairs
    )
    return f"<properties>{inside}</properties>"
