"""pytest wiring: options, device x case parametrization, verdicts, XML properties, summary.

What a case is, how it is run and how it is judged is in ``conformance``; this file knows no
backend and no operation by name.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Generator
from typing import Any

import pytest

from conformance.captures import CAPTURES
from conformance.cases import Case
from conformance.session import Session, SetupError
from conformance.suite import died, expected
from conformance.summary import Summary, stopped
from conformance.trial import Trial

_session = pytest.StashKey[Session]()


# --- options and start ------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("linalg-conformance")
    group.addoption(
        "--device",
        metavar="NAMES",
        help="devices to test: mps, cuda:1, 'cuda,cpu', all; default: every accelerator "
        "present, else the CPU (python -m conformance devices lists them)",
    )
    group.addoption(
        "--device-plugin",
        metavar="FILE",
        action="append",
        default=[],
        help="a Python file with a further devices.base.Backend; may be repeated",
    )
    group.addoption(
        "--profile",
        default="standard",
        metavar="NAME",
        help="quick (a smoke test), standard (the conformance run, the default) or full (nightly)",
    )
    group.addoption(
        "--captures",
        metavar="NAMES",
        help="only these ways to run a call: eager, 'inductor*,export*'; default: all of the "
        "profile's (docs/matrix.md lists them)",
    )
    group.addoption("--seed", type=int, default=0, help="seed of the matrices; default 0")
    group.addoption(
        "--threads", type=int, default=1, help="BLAS and torch threads per worker; default 1"
    )
    group.addoption(
        "--tolerances", metavar="FILE", action="append", help="instead of tolerances.toml"
    )
    group.addoption(
        "--known-issues", metavar="FILE", action="append", help="instead of known_issues.toml"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "cases(*operations, plan='matrix'): run the test on the plan's cases of these operations",
    )
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "conformance-recorder")


def session_of(config: pytest.Config) -> Session:
    """The session of this run, set up at the first call. pytest.UsageError if that fails."""
    if _session not in config.stash:
        option = config.option
        try:
            config.stash[_session] = Session(
                device=option.device,
                plugins=option.device_plugin,
                profile=option.profile,
                captures=option.captures,
                seed=option.seed,
                threads=option.threads,
                tolerance_files=option.tolerances,
                known_issue_files=option.known_issues,
            )
        except SetupError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_session]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker for each accelerator; on the CPU one for each core."""
    targets = session_of(config).targets.values()
    return sum(target.backend.accelerator for target in targets) or None


def pytest_report_header(config: pytest.Config) -> list[str]:
    return session_of(config).header()


def pytest_sessionstart(session: pytest.Session) -> None:
    """What was asked for and is not there ends the run before anything is collected."""
    session_of(session.config)


# --- cases ------------------------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test without a case is left out: were it skipped, a run of nothing would be a success."""
    items[:] = [item for item in items if not item.name.endswith("[NOTSET]")]


def pytest_collection_finish() -> None:
    """Modules and cases stay to the end: the garbage collector need not look at them again."""
    gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("cases")
    if marker is None:
        return
    session = session_of(metafunc.config)
    plan, test = marker.kwargs.get("plan", "matrix"), metafunc.function.__name__
    cases = session.cases(*marker.args, plan=plan, test=test)
    cases += [case for case in _asked_for(metafunc.config.args, test) if case not in set(cases)]
    metafunc.parametrize("trial", cases, ids=map(str, cases), indirect=True)


def _asked_for(arguments: list[str], test: str) -> list[Case]:
    """The cases of a test whose ids stand on the command line: any can be run, in any profile."""
    found = []
    for argument in arguments:
        if f"::{test}[" in argument:
            with contextlib.suppress(ValueError):
                found.append(Case.parse(argument))
    return found


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> Any:
    """One case on one device, ready to be run and judged."""
    return session_of(request.config).trial(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that has a trial, settle its verdict and tell pytest."""
    trial = pyfuncitem.funcargs.get("trial")
    if not isinstance(trial, Trial) or pyfuncitem.get_closest_marker("cases") is None:
        return None
    session = session_of(pyfuncitem.config)
    outcome, text = session.perform(pyfuncitem.obj, trial, pyfuncitem.nodeid)
    pyfuncitem.user_properties.extend(outcome.properties())
    if outcome.verdict in ("fail", "fixed"):
        raise pytest.fail.Exception(text, pytrace=False)
    if outcome.verdict == "unsupported":
        pytest.skip(outcome.reason)
    if outcome.verdict == "known":
        pytest.xfail(outcome.reason)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """The report says whether the worker will leave after it."""
    report = yield
    report.poisoned = session_of(item.config).poisoned
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """After an error that poisons the process nothing more may run in it.

    The worker dies before it takes another case, so that xdist charges this one and starts afresh.
    """
    done = yield
    if session_of(item.config).poisoned:
        if hasattr(item.config, "workerinput"):
            time.sleep(0.5)  # let the report of the case get out
            os._exit(70)
        item.session.shouldstop = f"the device cannot be used after {item.nodeid}"
    return done


# --- the record -------------------------------------------------------------------------------


class Recorder:
    """Controller side: verdicts into the summary and into the XML, at the end the counts."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.summary = Summary()
        self.started: dict[str, float] = {}
        self.latest: dict[object, pytest.TestReport] = {}  # of each worker
        self.repeated: pytest.TestReport | None = None
        self.reported: set[tuple[str, str]] = set()
        self.collected: set[str] = set()
        self.run: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """What every worker has collected."""
        self.collected.update(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected.update(item.nodeid for item in session.items)

    @property
    def left(self) -> int:
        """How many of the collected tests the run has not got to."""
        return 0 if self.config.option.collectonly else len(self.collected - self.run)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.started[nodeid] = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """A worker died: the case it was running is charged, as a timeout if its time was up.

        One that had told its verdict, and left because the device was poisoned, is not charged.
        """
        if "[" not in crashitem:
            return
        told = self.latest.get(report.node)
        if told is not None and told.nodeid == crashitem and vars(told)["poisoned"]:
            report.when, report.outcome, report.longrepr = "setup", "passed", None
            self.repeated = report
            return
        seconds = time.monotonic() - self.started.get(crashitem, time.monotonic())
        limit = float(self.config.getoption("timeout", None) or 0)
        outcome, text = died(session_of(self.config), crashitem, seconds, limit)
        report.user_properties, report.longrepr = [*outcome.properties()], text

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        crashed = report.when not in ("setup", "call", "teardown")
        self.run.add(report.nodeid)
        if report.when == "call":
            self.latest[getattr(report, "node", None)] = report
        if report.when == "call" or crashed:
            self.summary.add(report.user_properties)
            node, _, case = report.nodeid.partition("[")
            self.reported.add((node.rpartition("::")[2], case.rpartition("]")[0]))
        xml = _log_xml(self.config)
        if crashed and xml is not None:
            for name, value in report.user_properties:
                xml.node_reporter(report).add_property(name, value)
        elif report is self.repeated and xml is not None:  # keep the XML from opening it again
            xml.node_reporters_ordered.remove(xml.node_reporter(report))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        idle = self.summary.idle()
        if idle and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        xml = _log_xml(self.config)
        if xml is not None:
            for name, value in self.properties().items():
                xml.add_global_property(name, value)

    def properties(self) -> dict[str, str]:
        """The properties of the suite."""
        session = session_of(self.config)
        return {
            **session.properties(),
            "conformance": str(self.whole(session)).lower(),
            **self.summary.properties(),
            "count.left": str(self.left),
        }

    def whole(self, session: Session) -> bool:
        """Is this a conformance run: a profile that is one, its files, and every case of it?"""
        if not (session.profile.conformance and session.own_files):
            return False
        if len(session.captures) < len(CAPTURES):
            return False
        return all((test.__name__, str(case)) in self.reported for test, case in expected(session))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = list(self.summary.lines())
        if self.left and self.run:
            lines.append(stopped(self.left))
        if lines:
            terminalreporter.section("conformance")
            for line in lines:
                terminalreporter.write_line(line)


def _log_xml(config: pytest.Config) -> Any:
    from _pytest.junitxml import xml_key

    return config.stash.get(xml_key, None)
