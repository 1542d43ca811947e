"""Run the suite's own tests against a planted fault until one of them fails.

The tests are those of ``tests/``, called on trials as pytest calls them, without pytest around
them: the catalogue is run in one process or a few, in minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from conformance.cases import Case
from conformance.operations import OPERATIONS
from conformance.record import Outcome
from conformance.runner import Test, perform
from conformance.session import Session
from conformance.suite import marked_tests
from devices._graphs import WAYS
from selftests import sim
from selftests.faults import CONTROL, EVERY, GRAPHS, GraphFault
from selftests.faults.captured import CapturedFault, miscaptured
from selftests.faults.planting import Fault, planted


@dataclass(frozen=True)
class Catch:
    """What became of a fault: the first case that failed, after how many and how long."""

    fault: str
    case: str = ""
    test: str = ""
    measures: tuple[str, ...] = ()
    tried: int = 0
    seconds: float = 0.0

    @property
    def caught(self) -> bool:
        """Did any case fail?"""
        return bool(self.case)


class Hunt:
    """A profile of the suite, ready to be run against one fault after another."""

    def __init__(
        self,
        profile: str,
        seed: int = 0,
        device: str = "cpu",
        threads: int = 1,
        plugins: tuple[str, ...] = (),
    ) -> None:
        self.session = Session(
            device=device, plugins=plugins, profile=profile, seed=seed, threads=threads
        )
        self.tests = [entry for entry in marked_tests() if entry[2] != "first-call"]

    def cases(
        self, operations: frozenset[str], captures: tuple[str, ...] = ("eager",)
    ) -> Iterator[tuple[Test, Case]]:
        """The cases that call one of these operations so, a case of each test in turn."""
        queues = []
        for test, called, plan in self.tests:
            for operation in called:
                if operation in operations:
                    name = test.__name__
                    cases = self.session.cases(operation, plan=plan, test=name)
                    queues.append([(test, case) for case in cases if case.capture in captures])
        for turn in zip_longest(*queues):
            yield from (entry for entry in turn if entry is not None)

    def recalled(self, node: str) -> list[tuple[Test, Case]]:
        """The case ``test[id]`` that caught a fault before, where the profile still has it."""
        name, _, _ = node.partition("[")
        entries = [entry for entry in self.tests if entry[0].__name__ == name]
        if not entries:
            return []
        test, operations, plan = entries[0]
        case = Case.parse(node)
        there = case.operation in operations and case in self.session.cases(
            case.operation, plan=plan, test=name
        )
        return [(test, case)] if there else []

    def run(self, fault: Fault | CapturedFault | GraphFault, node: str = "") -> Catch:
        """The first case that fails with the fault planted; the one called ``node`` goes first.

        A fault of captures is looked for in their cases only, any other in the eager ones.
        """
        started, tried = time.process_time(), 0
        if isinstance(fault, CapturedFault):
            planting: AbstractContextManager[object] = miscaptured(fault)
            cases = self.cases(frozenset(fault.operations), fault.captures)
        elif isinstance(fault, GraphFault):
            planting, cases = fault.plant(), self.cases(frozenset(fault.operations), WAYS)
        else:
            planting, cases = planted(fault), self.cases(concerned(fault))
        with planting:
            for test, case in chain(self.recalled(node), cases):
                tried += 1
                outcome = self.outcome(test, case)
                if outcome.verdict == "fail":
                    failing = tuple(m.name for m in outcome.failing)
                    seconds = time.process_time() - started
                    return Catch(fault.name, str(case), test.__name__, failing, tried, seconds)
        return Catch(fault.name, tried=tried, seconds=time.process_time() - started)

    def outcome(self, test: Test, case: Case) -> Outcome:
        """The outcome of one case."""
        return perform(test, self.session.trial(case), self.session.known)


def concerned(fault: Fault) -> frozenset[str]:
    """The operations whose tests meet the fault: its own, and those that call them.

    The control, which names none, concerns them all.
    """
    if not fault.operations:
        return frozenset(OPERATIONS)
    callers = {"svdvals": "svd", "eigvalsh": "eigh"}
    named = set(fault.operations)
    if "check_errors" in fault.operators:
        named |= {"cholesky", "cholesky_ex"}
    return frozenset(named | {callers[name] for name in named if name in callers})


SIMULATED: dict[str, Any] = {"device": sim.NAME, "plugins": (str(sim.__file__),)}
_hunts: dict[tuple[Any, ...], Hunt] = {}


def hunt(job: tuple[str, str, int, str]) -> Catch:
    """Run one fault (name, profile, seed, case to go first); a process prepares a profile once.

    Those of graphs are hunted on the simulated device.
    """
    name, profile, seed, node = job
    key = (profile, seed, name in GRAPHS)
    if key not in _hunts:
        _hunts[key] = Hunt(profile, seed, **SIMULATED if name in GRAPHS else {})
    return _hunts[key].run(EVERY.get(name, CONTROL), node)
