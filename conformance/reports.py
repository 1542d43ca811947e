"""Public defect reports and the named cases that meet their triggers: ``reports.toml``.

Each report in scope names cases (ids without the device) and the measures that its symptom breaks.
The cases are added to the plan of their test, ahead of the others, in the profile that can pay for
them. A device that lacks the dtype, driver or capture leaves the case out.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conformance.cases import Case

FILE = Path(__file__).with_name("reports.toml")
_COST = ("quick", "standard", "full")


@dataclass(frozen=True)
class Report:
    """One public report. ``reason`` says why it is out of scope; else it has cases and measures.

    ``must_pass`` marks what another suite called a defect and is none.
    """

    id: str
    url: str
    scope: str
    reason: str = ""
    operations: tuple[str, ...] = ()
    test: str = ""
    cases: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    profile: str = "standard"
    must_pass: bool = False
    note: str = ""


@cache
def load() -> tuple[Report, ...]:
    """All reports. TypeError for an unknown key, ValueError for a case that is malformed."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))["reports"]
    reports = tuple(_report(table) for table in tables)
    for report in reports:
        for case in report.cases:
            Case.parse(f"device/{case}")
    return reports


def _report(table: dict[str, Any]) -> Report:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return Report(**values)


def owner(report: Report, case: Case) -> str:
    """The test function that a case of the report belongs to.

    A report on one operation may name cases of another that shares the kernel; each goes to the
    test of its own operation.
    """
    own = {f"test_{operation}" for operation in (*report.operations, case.operation)}
    return f"test_{case.operation}" if report.test in own else report.test


@cache
def named_cases(test: str, profile: str, device: str) -> tuple[Case, ...]:
    """The cases of public reports that a test function runs in a profile, on a device."""
    affordable = _COST[: _COST.index(profile) + 1]
    return tuple(
        dict.fromkeys(
            case
            for report in load()
            if report.profile in affordable
            for case in (Case.parse(f"{device}/{text}") for text in report.cases)
            if owner(report, case) == test
        )
    )
