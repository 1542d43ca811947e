"""What several commands share: options, tables, progress, and how errors are told."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from conformance import known_issues, tolerances
from conformance.record import RecordError
from conformance.tomlfiles import ConfigError

TORCH = importlib.util.find_spec("torch") is not None  # imported only here and there: it is slow
USAGE = 2  # exit status of a command that could not do its work

Command = Callable[[argparse.Namespace], int]


def told(command: Command) -> Command:
    """Tell a broken file in one line on stderr and end with status 2."""

    @functools.wraps(command)
    def run(arguments: argparse.Namespace) -> int:
        try:
            return command(arguments)
        except (ConfigError, RecordError) as error:
            print(f"error: {error}", file=sys.stderr)
            return USAGE

    return run


def add_tolerances(
    parser: argparse.ArgumentParser,
    default: str = f"{tolerances.DEFAULT_FILE.name} of this project",
) -> None:
    """``--tolerances FILE``, repeatable; later files override earlier ones."""
    parser.add_argument(
        "--tolerances",
        action="append",
        type=Path,
        metavar="FILE",
        help="the file of limits; repeated, later files override earlier ones "
        f"(default: {default})",
    )


def add_device_plugins(parser: argparse.ArgumentParser) -> None:
    """The option that names files with further backends."""
    parser.add_argument(
        "--device-plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with one more backend; may be repeated",
    )


def found_backends(plugins: Sequence[str]) -> dict[str, Any]:
    """The backends, which may ship files; none where torch, which they are made for, is missing."""
    if not TORCH:
        return {}
    from devices import discover

    return dict(discover(plugins))


def tolerance_files(arguments: argparse.Namespace, backends: Iterable[Any] = ()) -> list[Path]:
    """The files that ``--tolerances`` names, or the project's own; then what backends ship."""
    named = arguments.tolerances or [tolerances.DEFAULT_FILE]
    return _with_shipped(named, (backend.tolerances() for backend in backends))


def add_known_issues(parser: argparse.ArgumentParser) -> None:
    """``--known-issues FILE``, repeatable."""
    parser.add_argument(
        "--known-issues",
        action="append",
        type=Path,
        metavar="FILE",
        help=f"the file of known issues (default: {known_issues.DEFAULT_FILE.name})",
    )


def known_issue_files(arguments: argparse.Namespace, backends: Iterable[Any] = ()) -> list[Path]:
    """The files that ``--known-issues`` names, or the project's own; then what backends ship."""
    named = arguments.known_issues or [known_issues.DEFAULT_FILE]
    return _with_shipped(named, (backend.known_issues() for backend in backends))


def _with_shipped(named: Sequence[Path], shipped: Iterable[Path | None]) -> list[Path]:
    """All of them, each once."""
    every = [*named, *(path for path in shipped if path)]
    return list({path.resolve(): path for path in every}.values())


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Rows as aligned columns; a cell that is a number stands to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        padded = [
            cell.rjust(width) if _numeric(cell) else cell.ljust(width)
            for cell, width in zip(cells, widths, strict=True)
        ]
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits are enough to look at."""
    return f"{value:.3g}"


class Progress:
    """One line on stderr now and then while long files are read; nothing for short ones."""

    def __init__(self, every: float = 2.0) -> None:
        self.every = every
        self.last = time.monotonic()

    def of(self, path: Path) -> Callable[[int], None]:
        """The progress of one file, as `record.stream` tells it."""
        return functools.partial(self, path)

    def __call__(self, path: Path, read: int) -> None:
        """Tell how far a file has been read, at most every so many seconds."""
        now = time.monotonic()
        if now - self.last >= self.every:
            self.last = now
            size = os.path.getsize(path)
            print(f"{path}: {read / 1e6:.0f} of {size / 1e6:.0f} MB read", file=sys.stderr)


def _numeric(cell: str) -> bool:
    try:
        float(cell.lstrip("<>"))
    except ValueError:
        return False
    return True
