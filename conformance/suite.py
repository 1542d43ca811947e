"""The tests of the suite, as the files in ``tests/`` mark them: function, operations, plan."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import tests
from conformance.cases import Case
from conformance.record import Outcome
from conformance.runner import Test, explanation
from conformance.session import Session, crash_outcome


def marked_tests() -> list[tuple[Test, tuple[str, ...], str]]:
    """Every test with cases: the function, its operations and its plan, in pytest's order."""
    found = []
    for info in sorted(pkgutil.iter_modules(tests.__path__), key=lambda each: each.name):
        module = importlib.import_module(f"tests.{info.name}")
        for name, function in vars(module).items():
            for mark in getattr(function, "pytestmark", []) if name.startswith("test_") else []:
                if mark.name == "cases":
                    found.append((function, mark.args, mark.kwargs.get("plan", "matrix")))
    return found


def expected(session: Session) -> Iterator[tuple[Test, Case]]:
    """Every test and case that a whole run of the session's profile consists of."""
    for test, operations, plan in marked_tests():
        for case in session.cases(*operations, plan=plan, test=test.__name__):
            yield test, case


def died(session: Session, node: str, seconds: float, limit: float) -> tuple[Outcome, str]:
    """The outcome of a test whose process died after so many seconds, and its explanation."""
    name, _, case = node.rpartition("]")[0].partition("[")
    outcome, trial = crash_outcome(case, seconds, limit), session.trial(Case.parse(case))
    docs = {test.__name__: test.__doc__ or "" for test, _, _ in marked_tests()}
    trial.promise = docs.get(name.rpartition("::")[2], "")
    return outcome, explanation(outcome, trial, node)
