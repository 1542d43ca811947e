"""Compare two runs: what got worse, what got better, what is newly unsupported or missing.

A case is the same in both when test and case id are, and only cases of both are compared; how many
are left out is said. Measures are compared by value, because limits may have changed between the
runs, and by the worst of each operation, measure and dtype. Runs of another seed have other
matrices: there only verdicts count. A case that is missing is a loss, and a new one counts, where
both runs are of one plan: the same profile, seed and suite, both whole or both partial.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.cases import Case
from conformance.cli._common import Progress, number, table, told
from conformance.record import Measured, Outcome, Run, larger, stream
from conformance.summary import stopped

help = "what got worse or better from one run to another"

BADNESS = {
    verdict: rank
    for rank, group in enumerate(
        (
            ("pass", "fixed"),
            ("fallback",),
            ("unsupported",),
            ("known",),
            ("fail",),
            ("timeout", "crash"),
        )
    )
    for verdict in group
}
"""How bad a verdict is; a larger number is worse. (A `fixed` case does pass.)"""

Name = tuple[str, str]  # test, case
Group = tuple[str, str, str, str]  # device, operation, measure, dtype


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("before", type=Path, metavar="BEFORE.xml")
    parser.add_argument("after", type=Path, metavar="AFTER.xml")
    parser.add_argument(
        "--factor",
        type=float,
        default=2.0,
        metavar="X",
        help="a measure got worse when its largest value grew by more than this (default: 2)",
    )
    parser.add_argument(
        "--show", type=int, default=20, metavar="N", help="cases shown of each kind (default: 20)"
    )


@told
def run(arguments: argparse.Namespace) -> int:
    """Status 0; 1 when anything got worse or is missing; 2 for a file that is no record."""
    progress = Progress()
    before = _digest(arguments.before, progress)
    after = _digest(arguments.after, progress, before)
    missing = sorted(before.verdicts.keys() - after.verdicts.keys())
    added = sorted(after.verdicts.keys() - before.verdicts.keys())
    if missing:
        before = _digest(arguments.before, progress, after)
    _differences(before.run, after.run)
    _left_out(before, after, len(missing), len(added))
    changes = _changes(before, after)
    worse = [c for c in changes if BADNESS[c.after] > BADNESS[c.before]]
    unsupported = [c for c in worse if c.after == "unsupported"]
    _list("got worse", [c for c in worse if c.after != "unsupported"], arguments.show)
    _list("newly unsupported", unsupported, arguments.show)
    better = [c for c in changes if BADNESS[c.after] < BADNESS[c.before]]
    _list("got better", better, arguments.show)
    comparable = _same(before.run, after.run, "seed", "suite")
    grown = _grown(before, after, arguments.factor)
    other = "" if comparable else " (other matrices, so that is not counted)"
    _measures("measures that got worse" + other, grown)
    _measures("measures that got better", _grown(after, before, arguments.factor), turned=True)
    bad = bool(worse or after.run.strays or after.run.left or (comparable and grown))
    if _same(before.run, after.run, "profile", "seed", "suite", "conformance"):
        failing = [name for name in added if BADNESS[after.verdicts[name]] >= BADNESS["fail"]]
        _names("no longer there", missing, arguments.show)
        _names("new and failing", failing, arguments.show)
        bad = bad or bool(missing or failing)
    print("worse" if bad else "nothing got worse")
    return 1 if bad else 0


@dataclass
class Digest:
    """What is kept of a run."""

    run: Run
    verdicts: dict[Name, str] = field(default_factory=dict)
    worst: dict[Group, tuple[Measured, str]] = field(default_factory=dict)

    def add(self, outcome: Outcome, other: Digest | None) -> None:
        """Take in one case; its measures only where another run has the case, too."""
        name = outcome.test, outcome.case
        self.verdicts[name] = outcome.verdict
        if other is not None and name not in other.verdicts:
            return
        case = Case.parse(outcome.case)
        for m in outcome.measures:
            group = (case.device, case.operation, m.name, case.dtype)
            if math.isinf(m.limit):
                continue  # recorded, not promised
            if group not in self.worst or larger(m.value, self.worst[group][0].value):
                self.worst[group] = m, outcome.case


@dataclass(frozen=True)
class Change:
    """One case whose verdict changed."""

    name: Name
    before: str
    after: str


def _digest(path: Path, progress: Progress, other: Digest | None = None) -> Digest:
    digest = Digest(Run(path))
    for outcome in stream(digest.run, progress.of(path)):
        digest.add(outcome, other)
    return digest


def _changes(before: Digest, after: Digest) -> list[Change]:
    return [
        Change(name, was, after.verdicts[name])
        for name, was in before.verdicts.items()
        if name in after.verdicts and after.verdicts[name] != was
    ]


def _grown(
    before: Digest, after: Digest, factor: float
) -> list[tuple[Group, Measured, Measured, str]]:
    """Groups whose largest value grew; below one unit, and for equal NaN or inf, it did not."""
    found = []
    for group, (now, case) in sorted(after.worst.items()):
        if group in before.worst:
            was = before.worst[group][0]
            if not _finite(now) and not _finite(was):
                continue
            if not now.value <= max(factor * was.value, 1.0) and not math.isnan(was.value):
                found.append((group, was, now, case))
    return found


def _finite(measured: Measured) -> bool:
    return math.isfinite(measured.value)


def _same(before: Run, after: Run, *names: str) -> bool:
    """Whether both runs state the same of themselves."""
    return all(before.properties.get(name) == after.properties.get(name) for name in names)


def _differences(before: Run, after: Run) -> None:
    ignored = ("started", "count.")
    names = dict.fromkeys((*before.properties, *after.properties))
    rows = [("", str(before.path), str(after.path))]
    for name in names:
        pair = before.properties.get(name, "-"), after.properties.get(name, "-")
        if pair[0] != pair[1] and not name.startswith(ignored):
            rows.append((name, *pair))
    print(table(rows))
    print()


def _list(title: str, changes: Sequence[Change], show: int) -> None:
    if changes:
        print(f"{title}: {len(changes)}")
        rows = [(c.before, "->", c.after, _named(c.name)) for c in changes[:show]]
        print(table(rows, "  "))
        _more(len(changes) - show)


def _measures(
    title: str, found: Iterable[tuple[Group, Measured, Measured, str]], turned: bool = False
) -> None:
    rows = [
        (*group, *map(number, (m.value for m in ((now, was) if turned else (was, now)))), case)
        for group, was, now, case in found
    ]
    if rows:
        head = ("device", "operation", "measure", "dtype", "before", "after", "case")
        print(f"{title}: {len(rows)}")
        print(table([head, *rows], "  "))
        print()


def _left_out(before: Digest, after: Digest, missing: int, added: int) -> None:
    print(f"compared: {len(after.verdicts) - added} cases that are in both")
    for digest, count in ((before, missing), (after, added)):
        if count:
            print(f"left out: {count} cases that are only in {digest.run.path}")
        if digest.run.left:
            print(f"{digest.run.path}: {stopped(digest.run.left)}")
    print()


def _names(title: str, names: Sequence[Name], show: int) -> None:
    if names:
        print(f"{title}: {len(names)}")
        print("\n".join(f"  {_named(name)}" for name in names[:show]))
        _more(len(names) - show)


def _more(left: int) -> None:
    print(f"  and {left} more\n" if left > 0 else "")


def _named(name: Name) -> str:
    test, case = name
    return f"{test.rpartition('::')[2]}[{case}]"
