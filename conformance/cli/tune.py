"""Propose limits from the measures of many runs, and write them on request.

For each backend, operation, measure and dtype: how many measures there are, the 99.9th percentile
and the largest, the limit in force, a proposed limit, and for both the chance that a correct device
exceeds it in one run. Take runs of different seeds: those of one seed have the same matrices.
Without --write nothing changes. Looser limits are written only with --allow-looser, --reason and
--source, and never above the ceiling. `report RUN.xml --tolerances FILE` holds further runs
against what was written.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from conformance.cli._common import (
    USAGE,
    Progress,
    add_tolerances,
    number,
    table,
    told,
    tolerance_files,
)
from conformance.record import Run
from conformance.rewriting import Change, replace, rewrite
from conformance.tolerances import TRAITS, Tolerances
from conformance.tomlfiles import parse, read
from conformance.tuning import FALSE_ALARM, IDLE, TOO_LITTLE, Pool, Proposal, Worst, gather, propose

help = "propose limits from measured runs, and write them with --write"

COLUMNS = (
    *("measure", "dtype", "count", "p99.9", "largest"),
    *("limit", "chance", "proposed", "chance", ""),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.xml", help="records of runs")
    parser.add_argument("--backend", default="", help="only this one")
    parser.add_argument(
        "--into",
        type=_trait,
        metavar="KIND:PATTERN",
        help="set limits for devices of this chip, driver or libraries only: 'libraries:mkl*'",
    )
    parser.add_argument(
        "--all", action="store_true", help="show the measures with too little data, too"
    )
    parser.add_argument("--write", action="store_true", help="edit the file of limits in place")
    parser.add_argument(
        "--partial", action="store_true", help="let runs that left cases out set limits, too"
    )
    parser.add_argument("--allow-looser", action="store_true", help="write looser limits, too")
    parser.add_argument("--reason", default="", help="why a limit may be looser")
    parser.add_argument("--source", default="", metavar="URL", help="and where that is shown")
    parser.add_argument(
        "--false-alarm",
        type=_probability,
        default=FALSE_ALARM,
        metavar="P",
        help=f"aimed probability of any false alarm in one run (default: {FALSE_ALARM:g})",
    )
    add_tolerances(parser)


@told
def run(arguments: argparse.Namespace) -> int:
    """Status 0; 1 when limits are too tight and were not written; 2 for a file of no use."""
    if arguments.allow_looser and not (
        arguments.reason and arguments.source.startswith(("https://", "http://"))
    ):
        print("error: --allow-looser needs --reason TEXT and --source URL", file=sys.stderr)
        return USAGE
    files = tolerance_files(arguments)
    tolerances = Tolerances.load(files)
    paths = {path.resolve(): path for path in arguments.runs}  # one given twice is one run
    runs = [Run(path) for path in paths.values()]
    pools = gather(runs, tolerances, arguments.backend, arguments.into or "", Progress())
    if not pools:
        only = f" of backend {arguments.backend}" if arguments.backend else ""
        print(f"error: no measures{only} in {_names(runs)}", file=sys.stderr)
        return USAGE
    partial = [run for run in runs if run.properties.get("conformance") == "false"]
    if arguments.write and partial and not arguments.partial:
        print(
            f"error: {_names(partial)}: not a conformance run, cases were left out; limits that "
            "are set by the others alone may be too tight for them (--partial lets them)",
            file=sys.stderr,
        )
        return USAGE
    proposals = propose([pools[key] for key in sorted(pools)], arguments.false_alarm)
    _show(proposals, arguments.all)
    _remark(
        "cases were left out, for which limits set by these records may be too tight",
        [str(run.path) for run in partial],
    )
    _remark("the same matrices again and again, which says little of others", _repeated(runs))
    looser = [p for p in proposals if p.verdict == "loosen"]
    chosen = [p for p in proposals if p.verdict == "tighten"]
    chosen += looser if arguments.allow_looser else []
    _write(arguments, files, [_change(p, arguments) for p in chosen])
    if looser and not arguments.allow_looser:
        print(
            f"\ntoo tight for these runs: {len(looser)}; limits are loosened only with "
            "--allow-looser --reason TEXT --source URL"
        )
        return 1 if arguments.write else 0
    return 0


def _show(proposals: Sequence[Proposal], every: bool) -> None:
    for of, group in groupby(proposals, key=lambda p: p.pool.key[:2]):
        _operation(" ".join(of), list(group), every)
    exact = [p for p in proposals if p.verdict == "exact"]
    if exact:
        values = sum(len(p.pool.values) for p in exact)
        print(f"{len(exact)} of exact measures (0 or inf, {values} values), not to be tuned\n")
    print("probability of any false alarm in one run, for the limits with data enough to say")
    print(f"  limits in force: {_total(proposals, _in_force)}")
    print(f"  limits proposed: {_total(proposals, _proposed)}")
    _remark(
        "NaN or inf, which no limit covers (look for the defect)",
        [f"{_name(p.pool)}: {p.pool.broken}" for p in proposals if p.pool.broken],
    )
    _remark(
        "exceeded in these runs",
        [
            f"{_name(p.pool)} = {number(p.pool.worst.value)} {p.pool.worst.case}"
            for p in proposals
            if p.exceeded
        ],
    )
    _remark(
        f"limits more than {IDLE:g} times above anything measured (they cost detection)",
        [f"{_name(p.pool)} = {p.pool.entry.text}" for p in proposals if p.idle],
    )
    _remark(
        "would have to be above the ceiling (a defect, not a tolerance)",
        [f"{_name(p.pool)} = {p.text}" for p in proposals if p.verdict == "above ceiling"],
    )


def _operation(title: str, proposals: Sequence[Proposal], every: bool) -> None:
    """The table of one operation on one backend, and the cases that set its largest measures."""
    tuned = [p for p in proposals if p.verdict not in ("exact", "recorded")]
    few = [p for p in tuned if p.verdict == TOO_LITTLE]
    shown = tuned if every else [p for p in tuned if p.verdict != TOO_LITTLE]
    if not tuned:
        return
    print(f"{title}, {max(len(p.pool.blocks) for p in tuned)} runs")
    if shown:
        print(table([COLUMNS, *(_row(p) for p in shown)], "  "))
        print(table([("largest", "", "case"), *_largest(shown, every)], "  "))
    if few and not every:
        measures = ", ".join(dict.fromkeys(p.pool.key.measure for p in few))
        print(f"  too little data for {len(few)} more: {measures}")
    print()


def _largest(proposals: Sequence[Proposal], every: bool) -> list[tuple[str, ...]]:
    """The case that set the largest value of each measure: of all dtypes together, or of each."""
    found: dict[tuple[str, ...], Worst] = {}
    for pool in (p.pool for p in proposals):
        of = pool.key[2:] if every else (pool.key.measure,)
        found[of] = max(pool.worst, found.get(of, pool.worst), key=lambda worst: worst.ratio)
    return [(of[0], number(worst.value), worst.case) for of, worst in found.items()]


def _remark(title: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"\n{title}:")
        print("\n".join(f"  {line}" for line in lines))


def _row(proposal: Proposal) -> tuple[str, ...]:
    pool, fit, limit = proposal.pool, proposal.fit, proposal.limit
    values = np.frombuffer(pool.values) if pool.values else np.zeros(0)
    seen = [number(np.percentile(values, 99.9)), number(values.max())] if len(values) else ["-"] * 2
    remarks = ["x formula"] * pool.formula + [f"[{pool.key.trait}]"] * bool(pool.key.trait)
    return (
        *pool.key[2:4],
        str(len(values)),
        *seen,
        number(pool.limit),
        _chance(fit.exceeded(pool.limit)) if fit else "-",
        number(limit) if limit is not None else "-",
        _chance(fit.exceeded(limit)) if fit and limit is not None else "-",
        " ".join([proposal.verdict, *remarks]),
    )


def _chance(probability: float) -> str:
    return "<1e-9" if probability < 1e-9 else f"{probability:.0e}".replace("e-0", "e-")


def _in_force(proposal: Proposal) -> float:
    return proposal.pool.limit


def _proposed(proposal: Proposal) -> float:
    return proposal.pool.limit if proposal.limit is None else proposal.limit


def _total(proposals: Sequence[Proposal], limit: Any) -> str:
    fitted = [p for p in proposals if p.fit is not None]
    if not fitted:
        return "too little data to say"
    passing = np.prod([1 - p.fit.exceeded(limit(p)) for p in fitted if p.fit is not None])
    unsaid = sum(p.verdict == TOO_LITTLE for p in proposals)
    text = _chance(float(1 - passing))
    return text + (f" (without {unsaid} for which there is too little data)" if unsaid else "")


def _name(pool: Pool) -> str:
    return " ".join(part for part in pool.key if part)


def _names(runs: Sequence[Run]) -> str:
    return ", ".join(str(run.path) for run in runs)


def _repeated(runs: Sequence[Run]) -> list[str]:
    """The seeds that several runs have."""
    seeds = Counter(run.properties.get("seed", "") for run in runs)
    return [f"seed {seed}: {count} runs" for seed, count in seeds.items() if seed and count > 1]


def _change(proposal: Proposal, arguments: argparse.Namespace) -> Change:
    """The new entry: its limit, and where it comes from."""
    pool, worst = proposal.pool, proposal.pool.worst
    assert worst.run is not None
    assert proposal.text is not None
    device = worst.case.partition("/")[0]
    stated = worst.run.properties.get
    fields: dict[str, Any] = {}
    if proposal.verdict == "loosen":
        fields |= {"reason": arguments.reason, "source": arguments.source}
    elif pool.entry.place == pool.key.place:
        fields |= {k: v for k, v in pool.entry.fields.items() if k in ("reason", "source")}
    fields |= {
        "date": datetime.date.today(),
        "torch": stated("torch", ""),
        "device": stated(f"device.{device}.name", device),
        "driver": stated(f"device.{device}.driver") or stated(f"device.{device}.libraries", ""),
        "runs": len(pool.blocks),
        "measured": len(pool.values),
        "worst": float(number(worst.value)),
        "case": worst.case,
    }
    return Change(pool.key.place, proposal.text, {k: v for k, v in fields.items() if v != ""})


def _write(arguments: argparse.Namespace, files: Sequence[Path], changes: list[Change]) -> None:
    """Show the difference, and make it where --write says so: in the last of the files."""
    if not changes:
        print("\nnothing to change")
        return
    path = files[-1]
    old = path.read_bytes()
    new = rewrite(path, old, changes)
    Tolerances([*map(read, files[:-1]), parse(path, new)])
    print()
    print("".join(_diff(path, old, new)), end="")
    if arguments.write:
        replace(path, old, new)
        print(f"\n{path}: {len(changes)} limits written")
    else:
        print(f"\n{path}: not changed; --write would change {len(changes)} limits")


def _diff(path: Path, old: bytes, new: bytes) -> list[str]:
    before, after = old.decode().splitlines(True), new.decode().splitlines(True)
    return list(difflib.unified_diff(before, after, str(path), str(path), n=1))


def _trait(text: str) -> str:
    kind, _, pattern = text.partition(":")
    if kind not in TRAITS or not pattern:
        raise argparse.ArgumentTypeError(f"one of {', '.join(f'{k}:PATTERN' for k in TRAITS)}")
    return text


def _probability(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError("a probability is between 0 and 1")
    return value
