"""Runs a test function on a trial and settles the verdict; explains it when it is not a pass."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from conformance.known_issues import KnownIssue, KnownIssues
from conformance.promises import misshapen, recovered
from conformance.record import Measured, Outcome
from conformance.trial import NonConformance, Refused, Trial
from devices.base import Backend

Test = Callable[[Trial], None]


@dataclass(frozen=True)
class Known:
    """The known issues, and where this run stands: what an entry's ranges are matched against."""

    issues: KnownIssues
    os: str

    def matches(self, trial: Trial, test: str) -> list[KnownIssue]:
        """The entries that cover the case on this device, torch, driver, chip and system."""
        facts = _facts(trial.backend, trial.device)
        return self.issues.matches(
            str(trial.case),
            backend=trial.backend.name,
            torch=torch.__version__,
            driver=facts.get("driver", ""),
            chip=facts.get("chip", ""),
            os=self.os,
            libraries=facts.get("libraries", ""),
            test=test,
        )


@cache
def _facts(backend: Backend, device: str) -> dict[str, str]:
    return backend.describe(device)


def perform(test: Test, trial: Trial, known: Known | None = None) -> Outcome:
    """Run the test on the trial; the outcome holds every measure and the reason of a non-pass.

    An exception that is neither a clean refusal nor judged by the test breaks the promise that the
    call works: the measure ``error``.
    """
    issues = known.matches(trial, test.__name__) if known else []
    for issue in issues:
        if issue.what == "crash" and issue.strict:
            trial.conclude("known", reason=f"not run: {issue}")
            return _outcome(trial)
    refusal = ""
    try:
        test(trial)
    except NonConformance:
        pass
    except Refused as refused:
        refusal = str(refused)
    except Exception as error:
        _failed(trial, error)
    if refusal:
        _refused(trial, refusal)
    outcome = trial.outcome
    if outcome and any(m.name == "metadata" for m in outcome.failing) and (told := _told(trial)):
        trial.outcome = replace(outcome, reason=told)
    return _settled(_outcome(trial), issues)


def _refused(trial: Trial, reason: str) -> None:
    """Unsupported, unless a refused capture has left the eager call other than it was."""
    try:
        if trial.captured and "eager" in vars(trial):
            trial.judge(**recovered(trial))
        trial.conclude("unsupported", reason=reason)
    except NonConformance:
        pass
    except Exception as error:
        _failed(trial, error)


def _failed(trial: Trial, error: Exception) -> None:
    """An error; but results that could not be measured for their metadata are wrong in those."""
    trial.error = error
    shape_is_it = not trial.captured and _told(trial)
    broken = trial.measured("metadata", np.inf) if shape_is_it else _broken()
    trial.conclude("fail", (broken,), f"{type(error).__name__}: {error}")


def _told(trial: Trial) -> str:
    """What is wrong with the metadata of results that are there, in words; empty if nothing is."""
    with contextlib.suppress(Exception):
        if "results" in vars(trial):
            return "; ".join(misshapen(trial))
    return ""


def _outcome(trial: Trial) -> Outcome:
    if trial.outcome is None:
        raise RuntimeError(f"{trial.case}: the test judged nothing")
    return trial.outcome


def _broken() -> Measured:
    return Measured("error", float("inf"), 0.0)


def _settled(outcome: Outcome, issues: Sequence[KnownIssue]) -> Outcome:
    """The outcome in the light of the known issues: ``known``, ``fixed`` or as it was."""
    for issue in issues:
        wrong = outcome.verdict == "fail" and issue.excuses(outcome.failing)
        refused = outcome.verdict == "unsupported" and issue.what == "refused"
        if wrong or refused:
            told = f"{issue} {_first_line(outcome.reason)}".strip()
            return replace(outcome, verdict="known", reason=told)
    strict = [issue for issue in issues if issue.strict and issue.what != "crash"]
    if outcome.verdict == "pass" and strict:
        reason = f"passes now: delete the entry {strict[0]}"
        return replace(outcome, verdict="fixed", reason=reason)
    return outcome


def explanation(outcome: Outcome, trial: Trial, node: str) -> str:
    """The block a reader sees below a case that failed: what, by how much, where, and how again."""
    case, family, sample = trial.case, trial.family, trial.sample_or_none
    lines = [f"case      {outcome.case}", f"promise   {_first_line(trial.promise)}"]
    if outcome.reason:
        lines.append(f"reason    {outcome.reason}")
    for m in outcome.failing:
        where = f" at matrix {m.index} of the batch" if case.batch else ""
        limit = f"limit {m.limit:.4g} ({m.source})" if m.source else f"limit {m.limit:.4g}"
        lines.append(f"measure   {m.name} = {m.value:.4g}, {limit}{where}")
    lines.append(f"input     family {family.number} {family.name}: {family.doc}")
    if sample is not None:
        lines.append(f"digest    {sample.digest} (seed {trial.seed})")
    again = ["python", "-m", "pytest", "-n", "0", node, *_options(trial)]
    lines.append(f"again     {shlex.join(again)}")
    return "\n".join(lines)


def _options(trial: Trial) -> list[str]:
    """What the run was asked for beyond the defaults, as pytest takes it."""
    asked = trial.options
    found = [f"--device={trial.case.device}"]
    found += [f"--device-plugin={file}" for file in asked.get("plugins") or ()]
    if asked.get("threads", 1) != 1:
        found.append(f"--threads={asked['threads']}")
    if trial.seed:
        found.append(f"--seed={trial.seed}")
    found += [f"--tolerances={file}" for file in asked.get("tolerance_files") or ()]
    found += [f"--known-issues={file}" for file in asked.get("known_issue_files") or ()]
    return found


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
