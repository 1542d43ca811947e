"""``python -m selftests.faults``: which fault is caught by which case and which measure."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median

from selftests.faults import CATALOGUE
from selftests.faults.hunt import Catch, hunt


def table(catches: list[Catch]) -> str:
    """The catalogue and what caught it, as Markdown."""
    rows = [
        "| fault | kind | operations | trigger | corruption | report | caught by | measures |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for catch in catches:
        fault = CATALOGUE[catch.fault]
        caught = f"`{catch.test}[{catch.case}]`" if catch.caught else "**not caught**"
        rows.append(
            f"| {fault.name} | {fault.kind} | {', '.join(fault.operations)} | {fault.trigger} | "
            f"{fault.corruption} | {fault.report} | {caught} | {', '.join(catch.measures)} |"
        )
    return "\n".join(rows) + "\n"


def main() -> int:
    """The exit code is 0 when every fault is caught."""
    parser = argparse.ArgumentParser(prog="python -m selftests.faults", description=__doc__)
    parser.add_argument("--profile", default="standard", help="quick, standard or full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of faults to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--write", metavar="FILE", help="write the table to a Markdown file")
    arguments = parser.parse_args()
    names = [name for name in CATALOGUE if fnmatchcase(name, arguments.only)]
    jobs = [(name, arguments.profile, arguments.seed) for name in names]
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.jobs) as pool:
        catches = []
        for catch in pool.imap(hunt, jobs):
            catches.append(catch)
            print(
                f"{'caught' if catch.caught else 'MISSED':7} {catch.fault:45} "
                f"{catch.tried:6} cases {catch.seconds:7.2f} s  {catch.test} {catch.case} "
                f"{', '.join(catch.measures)}",
                flush=True,
            )
    caught = [catch for catch in catches if catch.caught]
    print(
        f"{len(caught)} of {len(catches)} faults caught by '{arguments.profile}'; "
        f"median {median(c.seconds for c in caught):.2f} CPU s to the first failing case"
        if caught
        else "none caught"
    )
    if arguments.write:
        Path(arguments.write).write_text(table(catches), encoding="utf-8")
    return 0 if len(caught) == len(catches) else 1


if __name__ == "__main__":
    sys.exit(main())
