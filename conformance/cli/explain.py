"""Say which limits apply to a case, or to an operation on a backend, and where they come from.

Every entry that speaks of a measure is shown with its file, line, key and provenance, from the most
general to the one that decides (marked with ">"). Records of runs add the margins measured. The
files that a plug-in ships count as they do in a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.cases import Case
from conformance.cli._common import (
    TORCH,
    USAGE,
    Progress,
    add_device_plugins,
    add_known_issues,
    add_tolerances,
    found_backends,
    known_issue_files,
    number,
    told,
    tolerance_files,
)
from conformance.known_issues import KnownIssues
from conformance.precision import PRECISIONS
from conformance.record import Measured, Run, larger, stream
from conformance.tolerances import VOCABULARY, Entry, Tolerances, traits_of

help = "each limit of a case or an operation, where it comes from, and what was measured"


class Question(NamedTuple):
    """What is asked for; an empty case means any shape."""

    backend: str
    operation: str
    dtype: str
    case: str = ""
    traits: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """What the answer is headed with."""
        return self.case or f"{self.operation} {self.dtype}"

    def key(self, measure: str) -> tuple[str, ...]:
        """What a measure of it is filed under."""
        return self.backend, self.operation, measure, self.dtype, self.case

    @property
    def shape(self) -> tuple[int, int] | None:
        """Rows and columns of the case."""
        if not self.case:
            return None
        m, n = (*Case.parse(self.case).shape, 1, 1)[:2]
        return m, n


class Seen(NamedTuple):
    """The largest value of a measure in some runs."""

    measured: Measured
    case: str
    run: Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument(
        "about", nargs="*", metavar="CASE-ID | RUN.xml", help="a case id, and records of runs"
    )
    parser.add_argument("--backend", default="", help="instead of the one that a case id names")
    parser.add_argument("--operation", default="", choices=["", *VOCABULARY], metavar="NAME")
    parser.add_argument("--dtype", default="", choices=["", *PRECISIONS], metavar="NAME")
    parser.add_argument("--measure", default="", metavar="NAME", help="only this one")
    parser.add_argument(
        "--trait",
        action="append",
        default=[],
        metavar="chip:NAME",
        help="the device's chip, driver or libraries, where no record says it; may be repeated",
    )
    add_device_plugins(parser)
    add_tolerances(parser)
    add_known_issues(parser)


@told
def run(arguments: argparse.Namespace) -> int:
    """Status 0, or 2 for a question that cannot be answered."""
    records = [Path(text) for text in arguments.about if text.endswith(".xml")]
    cases = [text for text in arguments.about if not text.endswith(".xml")]
    if not (cases or (arguments.backend and arguments.operation)):
        print("error: name a case id, or --backend and --operation", file=sys.stderr)
        return USAGE
    runs = [Run(path) for path in records]
    worst = _measured(runs)
    try:
        backends = found_backends(arguments.device_plugin)
        questions = [*_of_cases(cases, runs, arguments), *_of_operation(arguments)]
        for question in questions:
            if backends and question.backend not in backends:
                raise ValueError(
                    f"there is no backend {question.backend!r}, only {', '.join(backends)}; "
                    "--device-plugin FILE brings one"
                )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    for question in questions:
        own = [backends[question.backend]] if question.backend in backends else []
        tolerances = Tolerances.load(tolerance_files(arguments, own))
        known = KnownIssues.load(known_issue_files(arguments, own))
        print(f"{question.about} on {', '.join((question.backend, *question.traits))}")
        for measure in VOCABULARY[question.operation]:
            if arguments.measure in ("", measure):
                _limits(question, measure, tolerances)
                _margin(worst.get(question.key(measure)))
        _issues(question, known)
    return 0


def _faults(case: Case) -> Iterator[str]:
    """What no case can be; without torch only an unknown operation is seen."""
    if TORCH:
        from conformance.naming import faults

        yield from faults(case)
    elif case.operation not in VOCABULARY:
        yield f"no operation is called {case.operation!r}"


def _of_cases(
    cases: Sequence[str], runs: Sequence[Run], arguments: argparse.Namespace
) -> Iterator[Question]:
    for text in cases:
        case = Case.parse(text)
        for fault in _faults(case):
            raise ValueError(f"{text!r}: {fault}")
        stated = next((r for r in runs if f"device.{case.device}.name" in r.properties), None)
        backend = arguments.backend or (stated or Run(Path())).backend(case.device)
        traits = tuple(arguments.trait) or (traits_of(stated.facts(case.device)) if stated else ())
        yield Question(backend, case.operation, case.dtype, str(case), traits)


def _of_operation(arguments: argparse.Namespace) -> Iterator[Question]:
    if not (arguments.backend and arguments.operation):
        return
    for dtype in [arguments.dtype] if arguments.dtype else PRECISIONS:
        yield Question(arguments.backend, arguments.operation, dtype, traits=tuple(arguments.trait))


def _measured(runs: Sequence[Run]) -> dict[tuple[str, ...], Seen]:
    """The worst by backend, operation, measure, dtype and case, and (case "") of all cases."""
    worst: dict[tuple[str, ...], Seen] = {}
    progress = Progress()
    for run in runs:
        for outcome in stream(run, progress.of(run.path)):
            case = Case.parse(outcome.case)
            backend = run.backend(case.device)
            for measured in outcome.measures:
                seen = Seen(measured, outcome.case, run)
                for name in (outcome.case, ""):
                    key = (backend, case.operation, measured.name, case.dtype, name)
                    if key not in worst or larger(measured.value, worst[key].measured.value):
                        worst[key] = seen
    return worst


def _limits(question: Question, measure: str, tolerances: Tolerances) -> None:
    asked = (question.operation, measure, question.dtype)
    chain = tolerances.chain(question.backend, *asked, question.traits)
    print(f"  {measure}" + ("" if chain else ": no limit"))
    for entry in chain:
        mark = ">" if entry is chain[-1] else " "
        print(f"    {mark} {_limit(entry, question.shape)}  {entry.source}")
        for key, value in entry.fields.items():
            if key != "limit":
                print(f"          {key}: {value}")
    ceiling = tolerances.ceiling(*asked)
    if ceiling is not None:
        print(f"      ceiling {_limit(ceiling, question.shape)}  {ceiling.source}")


def _margin(seen: Seen | None) -> None:
    if seen is not None:
        m = seen.measured
        text = f"measured {number(m.value)}, margin {number(m.margin)} of {number(m.limit)}"
        print(f"      {text}  {seen.case}  ({seen.run.path.name})")


def _limit(entry: Entry, shape: tuple[int, int] | None) -> str:
    if shape is None or entry.text == number(entry.at(*shape)):
        return entry.text
    return f"{number(entry.at(*shape))} = {entry.text}"


def _issues(question: Question, known: KnownIssues) -> None:
    for issue in known.issues:
        if question.case and issue.concerns(question.backend) and issue.covers(question.case):
            ranges = ", ".join(f"{name} {bounds.text}" for name, bounds in issue.ranges)
            where = f"known issue {issue.url} ({issue.source})"
            print(f"{where} {issue.what}: {ranges or 'any version'}. {issue.note}")
