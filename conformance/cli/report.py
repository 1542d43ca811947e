"""Tell again what a run found: what was run, the closing table, and each failure in full.

With --tolerances the measures are held against the limits of that file instead of those of the
run: which cases would fail under limits that are only proposed, without running them again.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conformance.cases import Case
from conformance.cli._common import Progress, add_tolerances, told
from conformance.record import Measured, Outcome, Run, stream
from conformance.summary import Summary, stopped
from conformance.tolerances import Tolerances, traits_of

help = "what a run found: verdicts, worst margins, failures"

BAD = ("fail", "crash", "timeout", "fixed")
HEADER = ("torch", "python", "os", "cpu", "blas", "profile", "seed", "started")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.xml", help="records of runs")
    parser.add_argument(
        "--failures",
        type=int,
        default=20,
        metavar="N",
        help="show at most so many, first one of each operation and failing measures (default: 20)",
    )
    add_tolerances(parser, "those of the run")


@told
def run(arguments: argparse.Namespace) -> int:
    """Status 0; 1 when a run has failures or judged nothing; 2 for a file that is no record."""
    progress = Progress()
    limits = Tolerances.load(arguments.tolerances) if arguments.tolerances else None
    good = [_report(path, limits, arguments.failures, progress) for path in arguments.runs]
    return 0 if all(good) else 1


def _report(path: Path, limits: Tolerances | None, most: int, progress: Progress) -> bool:
    """Print the report of one run; whether the run is good."""
    run, summary = Run(path), Summary()
    first: dict[tuple[str, ...], str] = {}  # of each kind
    others: list[str] = []
    for outcome in stream(run, progress.of(path)):
        if limits is not None:
            outcome = _judged(outcome, run, limits)
        summary.take(outcome)
        if outcome.verdict in BAD:
            failing = (m.name for m in outcome.failing)
            kind = (Case.parse(outcome.case).operation, outcome.verdict, *failing)
            if kind not in first:
                first[kind] = _failure(outcome)
            elif len(others) < most:
                others.append(_failure(outcome))
    failures = [*first.values(), *others][:most]
    bad = sum(summary.verdicts[verdict] for verdict in BAD)
    lines = [*_header(run)]
    if limits is not None:
        lines.append(f"judged by {', '.join(str(file.path) for file in limits.files)}")
    lines += ["", *(summary.lines() if summary.verdicts else ["no case at all"])]
    for text in failures:
        lines += ["", text]
    if bad > len(failures):
        lines += ["", f"and {bad - len(failures)} more failures: --failures N shows more"]
    if run.strays:
        lines += ["", "failed, but not a case:", *(f"  {name}" for name in run.strays)]
    print("\n".join([*lines, ""]))
    return bool(summary.verdicts) and not (bad or run.strays or summary.idle())


def _header(run: Run) -> Iterator[str]:
    stated = [f"{name} {run.properties[name]}" for name in HEADER if run.properties.get(name)]
    yield f"{run.path}: " + (", ".join(stated) or "no properties")
    if run.properties.get("conformance") != "true":
        yield "This is not a conformance run: cases were left out."
    if run.left:
        yield stopped(run.left)
    for name, text in run.properties.items():
        if name.startswith("device."):
            yield f"  {name}: {text}"


def _judged(outcome: Outcome, run: Run, limits: Tolerances) -> Outcome:
    """The outcome under other limits; what was only recorded stays so."""
    if outcome.verdict not in ("pass", "fail"):
        return outcome
    case = Case.parse(outcome.case)
    m, n = (*case.shape, 1, 1)[:2]
    backend, traits = run.backend(case.device), traits_of(run.facts(case.device))

    def held(measured: Measured) -> Measured:
        if math.isinf(measured.limit):
            return measured
        of = {"operation": case.operation, "measure": measured.name, "dtype": case.dtype}
        limit = limits.limit(backend=backend, traits=traits, m=m, n=n, **of)
        return replace(measured, limit=limit.value, source=limit.source)

    judged = replace(outcome, measures=tuple(map(held, outcome.measures)), text="")
    return replace(judged, verdict="fail" if judged.failing else "pass")


def _failure(outcome: Outcome) -> str:
    """What the run told of it; of a record that says nothing, what can be told without."""
    text = outcome.text.strip()
    if text.startswith("case "):
        return text
    lines = [f"case      {outcome.case} ({outcome.test.rpartition('::')[2]}: {outcome.verdict})"]
    lines += [f"reason    {reason}" for reason in outcome.reason.splitlines()[:1]]
    for m in outcome.failing:
        limit = f"limit {m.limit:.4g}" + (f" ({m.source})" if m.source else "")
        lines.append(
            f"measure   {m.name} = {m.value:.4g}, {limit} at matrix {m.index} of the batch"
        )
    return "\n".join(lines)
