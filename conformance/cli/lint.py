"""Check the files of limits and known issues, and those that plug-ins ship.

Found are entries that never apply, are shadowed or repeat another, reasons without a source, known
issues whose versions have passed, and patterns that match no case. The cases are those of all
profiles, where torch is installed, or those given by --cases (records of runs, lists of case ids).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance.cli._common import (
    TORCH,
    USAGE,
    add_device_plugins,
    add_known_issues,
    add_tolerances,
    found_backends,
    known_issue_files,
    told,
    tolerance_files,
)
from conformance.known_issues import KnownIssues
from conformance.linting import issue_findings, tolerance_findings
from conformance.record import RecordError, Run, stream
from conformance.tolerances import Tolerances

help = "check tolerances.toml and known_issues.toml"

DEVICES = Path(__file__).resolve().parents[2] / "devices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="NAME",
        help="a backend that a plug-in brings which is not here; may be repeated",
    )
    add_device_plugins(parser)
    parser.add_argument(
        "--cases",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a record (.xml), or a list of case ids, one a line; may be repeated",
    )
    add_tolerances(parser)
    add_known_issues(parser)


@told
def run(arguments: argparse.Namespace) -> int:
    """Status 0; 1 with findings; 2 for a file that cannot be loaded."""
    try:
        found = found_backends(arguments.device_plugin)
    except ValueError as error:  # DeviceError
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    tolerances = Tolerances.load(tolerance_files(arguments, found.values()))
    known = KnownIssues.load(known_issue_files(arguments, found.values()))
    backends = [*own_backends(), *arguments.backend, *found]
    ids = list(case_ids(arguments.cases)) if arguments.cases else own_cases()
    findings = [
        *tolerance_findings(tolerances, backends),
        *issue_findings(known, backends, ids),
    ]
    for finding in findings:
        print(finding)
    entries, issues = len(tolerances.entries), len(known.issues)
    checked = "" if ids is None else f", {len(ids)} cases"
    print(f"{len(findings)} findings in {entries} limits and {issues} known issues{checked}")
    return 1 if findings else 0


def own_backends() -> list[str]:
    """The backends of this project, by the names of their files (nothing is imported)."""
    names = sorted(path.stem for path in DEVICES.glob("*.py"))
    return [name for name in names if not name.startswith("_") and name != "base"]


def own_cases() -> list[str] | None:
    """The ids of all profiles; None where torch, which the matrix is made for, is missing."""
    if not TORCH:
        return None
    from conformance.session import every_case_id

    return list(every_case_id())


def case_ids(paths: Sequence[Path]) -> Iterator[str]:
    """The case ids in records and lists."""
    for path in paths:
        if path.suffix == ".xml":
            yield from (outcome.case for outcome in stream(Run(path)))
            continue
        try:
            yield from filter(None, map(str.strip, path.read_text().splitlines()))
        except OSError as error:
            raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
