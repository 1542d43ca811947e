"""Summarise the record of a run: what was run, the verdicts, the worst margins, the failures."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from conformance.cases import Case
from conformance.cli._common import Progress, number, table, told
from conformance.record import VERDICTS, Measured, Outcome, Run, rank, stream

help = "what a run found: verdicts, worst margins, failures"

BAD = ("fail", "crash", "timeout", "fixed")
HEADER = ("torch", "python", "os", "cpu", "blas", "profile", "seed", "started")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.xml", help="records of runs")
    parser.add_argument(
        "--failures", type=int, default=20, metavar="N", help="show at most so many (default: 20)"
    )


@told
def run(arguments: argparse.Namespace) -> int:
    """Status 0; 1 when a run has failures or no case; 2 for a file that is no record."""
    good = True
    progress = Progress()
    for path in arguments.runs:
        summary = Summary(Run(path))
        for outcome in stream(summary.run, progress.of(path)):
            summary.add(outcome, arguments.failures)
        print(summary.text())
        good = good and summary.good
    return 0 if good else 1


class Summary:
    """What is kept of the cases while they stream by."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.verdicts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.worst: dict[tuple[str, str, str], tuple[Measured, str]] = {}
        self.bad: list[Outcome] = []

    @property
    def good(self) -> bool:
        """Whether the run has cases and none of them is bad."""
        found = sum(self.verdicts.values())
        return bool(found) and not self.run.strays and not any(self.verdicts[v] for v in BAD)

    def add(self, outcome: Outcome, keep: int) -> None:
        """Count one case."""
        self.verdicts[outcome.verdict] += 1
        if outcome.verdict == "unsupported":
            self.reasons[outcome.reason or "no reason given"] += 1
        if outcome.verdict in BAD and len(self.bad) < keep:
            self.bad.append(outcome)
        worst = outcome.worst
        if worst is not None:
            case = Case.parse(outcome.case)
            key = (case.device, case.operation, case.dtype)
            if key not in self.worst or rank(worst) > rank(self.worst[key][0]):
                self.worst[key] = worst, outcome.case

    def text(self) -> str:
        """The summary, ready to print."""
        properties = self.run.properties
        stated = [f"{name} {properties[name]}" for name in HEADER if properties.get(name)]
        lines = [f"{self.run.path}: " + (", ".join(stated) or "no properties")]
        if properties.get("conformance") != "true":
            lines.append("This is not a conformance run: cases were left out.")
        lines += [f"  {name}: {value}" for name, value in properties.items() if _device(name)]
        counts = [f"{self.verdicts[v]} {v}" for v in VERDICTS if self.verdicts[v]]
        lines.append(", ".join(counts) or "no case at all")
        if self.worst:
            lines += ["", "worst margins", self._margins()]
        if self.reasons:
            lines += ["", "unsupported", table(_counted(self.reasons), "  ")]
        if self.bad:
            left = sum(self.verdicts[v] for v in BAD) - len(self.bad)
            lines += ["", "failures", *map(_failure, self.bad)]
            lines += [f"  and {left} more"] if left else []
        if self.run.strays:
            lines += ["", "failed, but not a case", *(f"  {name}" for name in self.run.strays)]
        return "\n".join([*lines, ""])

    def _margins(self) -> str:
        rows: list[Sequence[str]] = [
            (*key, number(m.margin), m.name, number(m.value), number(m.limit), case)
            for key, (m, case) in sorted(self.worst.items())
            if m.margin != 0  # refusals and other exact promises that hold
        ]
        head = ("device", "operation", "dtype", "margin", "measure", "value", "limit", "case")
        exact = len(self.worst) - len(rows)
        return table([head, *rows], "  ") + (f"\n  and 0 for {exact} others" if exact else "")


def _device(name: str) -> bool:
    return name.startswith("device.")


def _counted(reasons: Counter[str]) -> list[tuple[str, str]]:
    return [
        (str(count), reason.partition("\n")[0][:160]) for reason, count in reasons.most_common(20)
    ]


def _failure(outcome: Outcome) -> str:
    lines = [f"  {outcome.verdict}: {outcome.test.rpartition('::')[2]}[{outcome.case}]"]
    if outcome.reason:
        lines.append(f"    {outcome.reason.partition(chr(10))[0][:300]}")
    lines += [
        f"    {m.name} {number(m.value)}, limit {number(m.limit)}, matrix {m.index}"
        for m in outcome.failing
    ]
    return "\n".join(lines)
