"""quick, then standard, on one device inside ten minutes, for a machine that is only lent.

    python scripts/ten_minutes.py [--device cuda] [--results FOLDER] [--wheels FOLDER] [-n N] ...

Further options are pytest's. It installs nothing and needs no network; what Python lacks it says at
once, and takes from a folder of wheels. Each run leaves NAME.xml (the record) and NAME.txt (what it
printed) in the folder of results. On CUDA and ROCm quick is repeated with each library for linear
algebra; every SVD driver and the device graphs belong to the profiles. A run that its time limit
stops leaves a record of what it got to, which does not call itself a conformance run.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = {"cuda": ("cusolver", "magma"), "rocm": ("hipsolver", "magma")}
GRACE = 20  # seconds from the interrupt of a run to the last line of its record


class Run(NamedTuple):
    """One run of pytest: the name of its files, the profile, and the library it prefers."""

    name: str
    profile: str
    library: str = ""
    share: float = 1.0  # of the time that is left


def plan(device: str) -> Iterator[Run]:
    """The runs for a device, the conformance run last: it takes the time that the others leave."""
    libraries = LIBRARIES.get(device.partition(":")[0], ())
    share = 0.3 / (1 + len(libraries))
    yield Run("quick", "quick", share=share)
    for library in libraries:
        yield Run(f"quick-{library}", "quick", library, share)
    yield Run("standard", "standard")


def missing(requirements: Iterable[str]) -> list[str]:
    """Those of the requirements that Python cannot find, whatever their version."""
    return [text for text in requirements if not _found(re.split(r"[^\w-]", text)[0])]


def _found(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def required() -> list[str]:
    """What the suite needs: its dependencies, and torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["torch"]]


def unpack(wheels: Path, site: str) -> None:
    """Make a folder of wheels importable, here and in what is started from here."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", site, *sorted(wheels.glob("*.whl"))], check=True)
    sys.path.insert(0, site)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH")]))


def perform(run: Run, seconds: float, results: Path, options: list[str]) -> int:
    """Run pytest, at most so long; its exit status, 124 if its time was up."""
    started = time.monotonic()
    # An interrupted run writes its record, a killed one does not.
    command = ["timeout", "--foreground", "--signal=INT", f"--kill-after={GRACE}"]
    command += [f"{seconds - GRACE:.0f}", sys.executable, "-m", "pytest", *options]
    command += [f"--profile={run.profile}", f"--junitxml={results / run.name}.xml"]
    environment = os.environ | ({"CONFORMANCE_LINALG": run.library} if run.library else {})
    log = results / f"{run.name}.txt"
    with log.open("w") as file:
        status = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=file, stderr=file, check=False
        ).returncode
    last = log.read_text().strip().rpartition("\n")[2].strip("= ")
    print(f"{run.name}: status {status}, {time.monotonic() - started:.0f} s, {last}", flush=True)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="what pytest --device takes")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER")
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER", help="what Python lacks, if it does"
    )
    parser.add_argument(
        "--minutes", type=float, default=10, help="for all runs together; default 10"
    )
    parser.add_argument("-n", default=str(min(8, os.cpu_count() or 1)), help="workers; default 8")
    arguments, options = parser.parse_known_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs may ignore it
    end = time.monotonic() + 60 * arguments.minutes
    results = arguments.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    options = [f"--device={arguments.device}", f"-n{arguments.n}", "--timeout=60", *options]
    with tempfile.TemporaryDirectory() as site:
        if arguments.wheels:
            unpack(arguments.wheels, site)
        if lacking := missing(required()):
            print(f"error: not installed: {', '.join(lacking)}; see --wheels", file=sys.stderr)
            return 2
        statuses = [
            perform(run, run.share * (end - time.monotonic()), results, options)
            for run in plan(arguments.device)
        ]
    print(f"the records are in {results}: python -m conformance report FILE")
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
