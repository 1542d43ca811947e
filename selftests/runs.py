"""Runs pytest on the suite in a process of its own, for the tests of what a user sees."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from conformance.record import Outcome, Run, read

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Finished:
    """A run that is over: exit status, what it printed, and its record."""

    status: int
    output: str
    record: Run | None

    @property
    def outcomes(self) -> list[Outcome]:
        """The cases in the record."""
        assert self.record is not None, self.output
        return self.record.outcomes

    def verdicts(self) -> dict[str, int]:
        """How many cases there are of each verdict."""
        found: dict[str, int] = {}
        for outcome in self.outcomes:
            found[outcome.verdict] = found.get(outcome.verdict, 0) + 1
        return found


def run(folder: Path, *arguments: str, timeout: float = 240) -> Finished:
    """``pytest ARGUMENTS`` in the root of the suite, with the record in ``folder``."""
    xml = folder / "record.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={xml}"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    return Finished(done.returncode, done.stdout, read(xml) if xml.exists() else None)


def broken_device(folder: Path, plant: str, name: str = "broken.py") -> Path:
    """A plug-in: the simulated accelerator with the body of a plant (op, args, kwargs, compute)."""
    body = "\n".join("            " + line for line in plant.strip().splitlines())
    file = folder / name
    file.write_text(
        "import os, time\n"
        "from selftests import sim\n"
        "\n"
        "class Broken(sim.Sim):\n"
        "    def setup(self):\n"
        "        super().setup()\n"
        "        def plant(op, args, kwargs, compute):\n"
        f"{body}\n"
        "            return compute(*args, **kwargs)\n"
        "        sim.plant(plant)\n",
        encoding="utf-8",
    )
    return file
