"""A trial in a fresh process: what the very first call of a process returns."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

from conformance.cases import Case
from conformance.record import Outcome
from conformance.runner import Test, perform
from conformance.session import Session
from conformance.trial import Trial

_SECONDS = 120  # setting up an accelerator can take long; a hang is charged to the case


def in_fresh_process(test: Test, trial: Trial) -> Outcome:
    """Run the test on the same case in a process that has called no operation yet.

    The process is forked from a server that has imported torch and initialised nothing.

    Raises:
        RuntimeError: the process died or gave no answer in time.
    """
    here, there = _context().Pipe()
    process = _context().Process(target=_work, args=(there, test, trial.case, trial.options))
    process.start()
    there.close()
    try:
        if not here.poll(_SECONDS):
            raise RuntimeError(f"the first call of a process gave no answer in {_SECONDS} s")
        outcome: Outcome = here.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the first call killed its process ({process.exitcode})") from None
    finally:
        process.kill()
        process.join()
    return outcome


def _context() -> Any:
    methods = multiprocessing.get_all_start_methods()
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["conformance.session", "torch._subclasses.fake_tensor"])
    return context


def _work(connection: Connection, test: Test, case: Case, options: dict[str, Any]) -> None:
    connection.send(perform(test, Session(**options).trial(case)))
