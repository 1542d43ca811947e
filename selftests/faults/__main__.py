"""``python -m selftests.faults``: which fault is caught by which case and which measure."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median

from selftests.faults import CONTROL, EVERY, GRAPHS
from selftests.faults.hunt import hunt
from selftests.faults.page import nodes, table
from selftests.sim import Sim


def main() -> int:
    """The exit code is 0 when enough faults are caught: every one, unless told otherwise."""
    parser = argparse.ArgumentParser(prog="python -m selftests.faults", description=__doc__)
    parser.add_argument("--profile", default="standard", help="quick, standard or full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of faults to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--control", action="store_true", help="plant nothing: no case may fail")
    parser.add_argument(
        "--at-least", type=float, default=100, metavar="PERCENT", help="caught, or the exit is 1"
    )
    parser.add_argument(
        "--recall",
        metavar="FILE",
        help="try the case first that a table says caught the fault: minutes become seconds",
    )
    parser.add_argument("--write", metavar="FILE", help="write the table to a Markdown file")
    arguments = parser.parse_args()
    names = [name for name in EVERY if fnmatchcase(name, arguments.only)]
    absent = Sim().absent()
    if absent:
        print(f"the faults of graphs are left out: {absent}")
        names = [name for name in names if name not in GRAPHS]
    if arguments.control:
        catch = hunt((CONTROL.name, arguments.profile, arguments.seed, ""))
        told = f"FAILED {catch.case}" if catch.caught else "none failed"
        print(f"control: {catch.tried} cases, {told}")
        return int(catch.caught)
    page = Path(arguments.recall).read_text(encoding="utf-8") if arguments.recall else ""
    known = nodes(page)
    jobs = [(name, arguments.profile, arguments.seed, known.get(name, "")) for name in names]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the workers, too
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
    return 0 if 100 * len(caught) >= arguments.at_least * len(catches) else 1


if __name__ == "__main__":
    sys.exit(main())
