"""One run of the suite: its devices, profile, limits, known issues, and what it says of itself."""

from __future__ import annotations

import fnmatch
import os
import platform
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import scipy
import threadpoolctl
import torch

from conformance import known_issues, tolerances
from conformance.captures import CAPTURES
from conformance.cases import Case
from conformance.known_issues import KnownIssues
from conformance.layouts import LAYOUTS
from conformance.matrix import Abilities, plan_cases
from conformance.operations import OPERATIONS
from conformance.plans import PLANS
from conformance.precision import PRECISIONS
from conformance.profiles import PROFILES
from conformance.record import Measured, Outcome
from conformance.reports import load, named_cases
from conformance.runner import Known, Test, explanation, perform
from conformance.tolerances import Tolerances
from conformance.tomlfiles import ConfigError
from conformance.trial import Trial
from devices import Backend, DeviceError, Target, discover, select


class SetupError(ValueError):
    """The run cannot start; the message is one line for the user."""


class Session:
    """What a run was asked for. Raises `SetupError` where that cannot be had."""

    def __init__(
        self,
        *,
        device: str | None = None,
        plugins: Sequence[str] = (),
        profile: str = "standard",
        captures: str | None = None,
        seed: int = 0,
        threads: int = 1,
        tolerance_files: Sequence[str] | None = None,
        known_issue_files: Sequence[str] | None = None,
    ) -> None:
        self.options = {
            "device": device,
            "plugins": plugins,
            "profile": profile,
            "captures": captures,
            "seed": seed,
            "threads": threads,
            "tolerance_files": tolerance_files,
            "known_issue_files": known_issue_files,
        }
        if profile not in PROFILES:
            raise SetupError(f"unknown profile '{profile}'; there are {', '.join(PROFILES)}")
        if threads < 1 or seed < 0:
            raise SetupError("--threads must be at least 1, --seed at least 0")
        self.profile, self.seed, self.threads = PROFILES[profile], seed, threads
        self.captures = _selected(captures)
        self.own_files = not tolerance_files and not known_issue_files
        self.started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.poisoned = False
        self.performed = 0
        self.files: list[str] = []
        torch.set_num_threads(threads)
        threadpoolctl.threadpool_limits(threads)
        try:
            self.targets = {t.id: t for t in select(device, discover(plugins))}
            self.tolerances = Tolerances.load(
                self._files(tolerance_files, tolerances.DEFAULT_FILE, "tolerances")
            )
            issues = KnownIssues.load(
                self._files(known_issue_files, known_issues.DEFAULT_FILE, "known_issues")
            )
        except (DeviceError, ConfigError) as error:
            raise SetupError(str(error)) from error
        system = platform.mac_ver()[0]
        self.os = f"macOS {system}" if system else f"{platform.system()} {platform.release()}"
        self.known = Known(issues, self.os)

    def _files(self, given: Sequence[str] | None, own: Path, fragment: str) -> list[Path]:
        """The files asked for, or the suite's own, then those that the plug-ins ship."""
        files = [Path(name) for name in given] if given else [own]
        backends = dict.fromkeys(target.backend for target in self.targets.values())
        shipped = [getattr(backend, fragment)() for backend in backends]
        files += [path for path in shipped if path is not None]
        self.files += [path.name for path in files]
        return files

    # --- cases

    def cases(self, *operations: str, plan: str, test: str = "") -> list[Case]:
        """The cases of a plan for every device and operation; first those named by reports."""
        plans = [plan, *(p.name for p in PLANS.values() if p.adds == plan)]
        found: dict[Case, None] = {}
        for target in self.targets.values():
            can = self._abilities(target)
            for case in named_cases(test, self.profile.name, target.id):
                if case.operation in operations and can.offers(PLANS[plan]) and can.run(case):
                    found[case] = None
            for name in plans:
                for operation in operations:
                    found |= dict.fromkeys(
                        plan_cases(name, operation, self.profile.name, target.id, can)
                    )
        return [case for case in found if case.capture in self.captures]

    def _abilities(self, target: Target) -> Abilities:
        backend, device = target.backend, target.device
        lacking = {c.name for c in CAPTURES.values() if c.missing(backend, device)}
        return Abilities(
            backend.dtypes_on(device),
            backend.svd_drivers(device),
            captures=tuple(name for name in CAPTURES if name not in lacking),
            streams=backend.streams,
            missing=tuple(name for name in LAYOUTS if not _offered(backend, name)),
            uncaptured=tuple(name for name in CAPTURES if name in lacking),
        )

    def trial(self, case: Case) -> Trial:
        """The case on its device."""
        target = self.targets[case.device]
        trial = Trial(case, target.backend, target.device, self.tolerances, self.seed)
        trial.options = self.options
        return trial

    def perform(self, test: Test, trial: Trial, node: str) -> tuple[Outcome, str]:
        """Run the test; its outcome, and the text that explains a failure."""
        trial.promise = test.__doc__ or ""
        outcome = perform(test, trial, self.known)
        if trial.error is not None and trial.backend.fatal(trial.error):
            self.poisoned = True
        self.performed += 1
        backend = trial.backend
        full = backend.keeps and self.performed % backend.keeps == 0
        if full or (trial.error is not None and backend.exhausted(trial.error)):
            backend.cleanup(trial.device)
        return outcome, explanation(outcome, trial, node)

    # --- what is said of the run

    @cached_property
    def facts(self) -> dict[str, dict[str, str]]:
        """What each device says of itself."""
        return {
            t.id: {
                **t.backend.describe(t.device),
                **({"without": t.backend.lacks()} if t.backend.lacks() else {}),
                "backend": t.backend.name,
            }
            for t in self.targets.values()
        }

    @cached_property
    def blas(self) -> str:
        """The BLAS libraries in this process: the reference's, and torch's where it shows."""
        pools = [p for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
        names = [f"{p['internal_api']} {p['version'] or ''}".strip() for p in pools]
        return ", ".join(sorted(set(names))) or "unknown"

    @property
    def captured(self) -> str:
        """The names of the captures asked for, in their order."""
        return ", ".join(name for name in CAPTURES if name in self.captures)

    def header(self) -> list[str]:
        """The lines above a run."""
        profile = self.profile
        lines = [
            f"linalg-conformance {suite_version()}: profile {profile.name} ({profile.doc}), "
            f"seed {self.seed}, {self.threads} thread(s) per worker",
            f"torch {torch.__version__}, reference: scipy {scipy.__version__}, "
            f"numpy {np.__version__}, BLAS {self.blas}",
        ]
        for device, facts in self.facts.items():
            told = ", ".join(f"{k} {v}" for k, v in facts.items() if k != "backend" and v)
            lines.append(f"device {device} ({facts['backend']}): {told}")
        if len(self.captures) < len(CAPTURES):
            lines.append(f"captures: only {self.captured}; NOT A CONFORMANCE RUN")
        if not profile.conformance:
            lines.append(f"'{profile.name}' IS NOT A CONFORMANCE RUN; 'standard' is")
        return lines

    def properties(self) -> dict[str, str]:
        """The properties of the suite in the XML."""
        found = {
            "suite": f"linalg-conformance {suite_version()}",
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
            "os": self.os,
            "cpu": platform.processor() or platform.machine(),
            "cores": str(os.cpu_count()),
            "blas": self.blas,
            "profile": self.profile.name,
            "captures": self.captured,
            "seed": str(self.seed),
            "threads": str(self.threads),
            "files": ", ".join(map(str, self.files)),
            "started": self.started,
        }
        for device, facts in self.facts.items():
            found |= {f"device.{device}.{name}": value for name, value in facts.items()}
        return found


def _selected(patterns: str | None) -> frozenset[str]:
    """The captures that comma-separated names and patterns stand for; all of them without any."""
    chosen: set[str] = set()
    for pattern in (patterns or "*").split(","):
        found = fnmatch.filter(CAPTURES, pattern.strip())
        if not found:
            raise SetupError(f"no capture is called '{pattern}'; there are {', '.join(CAPTURES)}")
        chosen.update(found)
    return frozenset(chosen)


def _offered(backend: Backend, layout: str) -> bool:
    """Can the device have operands, or results, in this layout?"""
    if LAYOUTS[layout].out:
        return backend.out
    if layout == "requires-grad":
        return backend.autograd
    if "negative" in layout and not backend.negative:
        return False
    return backend.strided or layout == "row-major"


def every_case_id() -> Iterator[str]:
    """The ids of all cases of all profiles on a device that has every dtype and SVD driver."""
    drivers = ("gesvd", "gesvdj", "gesvda")
    can = Abilities(tuple(PRECISIONS), drivers, tuple(CAPTURES), streams=True)
    for profile in PROFILES:
        for plan in PLANS:
            for operation in OPERATIONS:
                yield from map(str, plan_cases(plan, operation, profile, "any", can))
    for report in load():
        yield from (f"any/{case}" for case in report.cases)


def crash_outcome(case: str, seconds: float, limit: float) -> Outcome:
    """The outcome of a case whose process died: ``timeout`` if its time was up, else ``crash``."""
    late = limit > 0 and seconds >= limit
    return Outcome(
        case=case,
        verdict="timeout" if late else "crash",
        measures=(Measured("error", float("inf"), 0.0),),
        reason=f"no answer within {limit:g} s" if late else "the process died",
        seconds=seconds,
    )


def suite_version() -> str:
    """The installed version of the suite, or that of a bare checkout."""
    try:
        return version("linalg-conformance")
    except PackageNotFoundError:
        return "(not installed)"
