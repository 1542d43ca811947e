"""``python -m selftests.seeds``: many seeds of a profile on the CPU, without a false alarm.

Runs the tests of ``tests/`` as pytest does, without pytest around them, one seed per process at a
time, and leaves a record of each that ``python -m conformance tune`` reads. The exit code is 0
when no case of any seed failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from conformance.record import Outcome
from conformance.session import Session
from conformance.suite import expected
from selftests.records import write


def run(
    job: tuple[str, int, int, str, str | None, Path | None],
) -> tuple[int, Counter[str], int, float, list[str]]:
    """One seed: verdicts, number of measures, CPU seconds and the failures, a line each."""
    profile, seed, threads, device, captures, folder = job
    started = time.process_time()
    session = Session(device=device, profile=profile, seed=seed, threads=threads, captures=captures)
    outcomes: list[Outcome] = []
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())  # MKL tells there of every NaN
    for test, case in expected(session):
        node = f"{test.__module__.replace('.', '/')}.py::{test.__name__}[{case}]"
        outcome, text = session.perform(test, session.trial(case), node)
        name = f"{test.__module__}::{test.__name__}"
        outcomes.append(replace(outcome, test=name, text=text))
    if folder:
        whole = {"conformance": str(session.profile.conformance and not captures).lower()}
        write(folder / f"{profile}-{seed}.xml", outcomes, session.properties() | whole)
    failures = [
        f"{o.case}: {', '.join(f'{m.name} {m.value:.3g}' for m in o.failing)} {o.reason}"
        for o in outcomes
        if o.verdict in ("fail", "fixed")
    ]
    measures = sum(len(outcome.measures) for outcome in outcomes)
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    return seed, verdicts, measures, time.process_time() - started, failures


def stop(*_: object) -> None:
    """End the workers as well."""
    for child in multiprocessing.active_children():
        child.kill()
    sys.exit(143)


def main() -> int:
    """Run the seeds and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m selftests.seeds", description=__doc__)
    parser.add_argument("--profile", default="standard")
    parser.add_argument("--seeds", default="0-4", help="first-last")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--captures", help="only these, as pytest's option")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="where to leave the records")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
    common = (arguments.threads, arguments.device, arguments.captures, arguments.folder)
    jobs = [(arguments.profile, seed, *common) for seed in seeds]
    failed = measured = 0
    signal.signal(signal.SIGTERM, stop)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, fresh, max_tasks_per_child=1) as pool:
        for seed, verdicts, measures, seconds, failures in pool.map(run, jobs):
            measured += measures
            failed += len(failures)
            told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
            print(f"seed {seed}: {measures} measures, {told}, {seconds:.0f} CPU s", flush=True)
            for line in failures:
                print(f"  {line}", flush=True)
    print(f"{len(seeds)} seeds, {measured} measures, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
