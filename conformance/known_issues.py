"""Defects that are already reported: ``known_issues.toml``, its validation and its matching.

An issue says where it happens (backend; ranges of torch, driver, chip and system), to which cases
(glob patterns over the parts of the case id) and measures, and what happens. One that is strict is
an expected failure: a case that it covers and that passes is *fixed*, and the entry has to go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from conformance.cases import Case, format_shape
from conformance.formulas import Condition, FormulaError
from conformance.record import Measured
from conformance.tolerances import MEASURES
from conformance.tomlfiles import ConfigError, KeyPath, TomlFile, read

DEFAULT_FILE = Path(__file__).resolve().parent.parent / "known_issues.toml"

WHAT = ("wrong", "refused", "crash")
PARTS = ("device", "operation", "variant", "dtype", "family", "shape", "batch", "layout", "capture")
PATTERNS = frozenset((*PARTS, "test", "when"))
RANGES = ("torch", "driver", "chip", "os", "libraries")
REQUIRED = ("url", "backend", "what", "cases")
TEXTS = frozenset(("url", "what", "note", *RANGES))
SWITCHES = ("report_only", "nan")
LONGEST = 100  # characters of a note that are told of a case
KEYS = TEXTS | {"backend", "cases", "measures", *SWITCHES}


@dataclass(frozen=True)
class Range:
    """A pattern and version bounds in one text: ``>=2.13,<2.15``, ``macOS >=26``, ``*H100*``."""

    text: str
    pattern: str
    versions: SpecifierSet

    @classmethod
    def parse(cls, text: str) -> Range:
        """Split at the first comparison; ``ValueError`` where the bounds are no PEP 440 ones."""
        found = re.search(r"[<>=!~]", text)
        start = found.start() if found else len(text)
        pattern = text[:start].strip()
        try:
            versions = SpecifierSet(text[start:])
        except InvalidSpecifier:
            raise ValueError(f"{text[start:]!r} is not a PEP 440 version range") from None
        return cls(text, pattern + "*" * bool(found) if pattern else "*", versions)

    def holds(self, actual: str) -> bool:
        """Whether the text of a version or a name is inside; an unknown (empty) one is not."""
        if not fnmatchcase(actual.lower(), self.pattern.lower()):
            return False
        if not self.versions:
            return True
        version = _version(actual)
        return version is not None and self.versions.contains(version, prereleases=True)


@dataclass(frozen=True)
class Pattern:
    """Cases, by glob patterns for parts of the id and a condition on the size."""

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    test: tuple[str, ...] = ()
    when: Condition | None = None

    def covers(self, case: str, test: str = "") -> bool:
        """Whether every given part matches one of its globs. An unnamed test matches any."""
        parts, (m, n), matrices = _parts(case)
        for name, globs in self.parts:
            if not any(fnmatchcase(parts[name], glob) for glob in globs):
                return False
        if self.test and test and not any(fnmatchcase(test, glob) for glob in self.test):
            return False
        return self.when is None or self.when(m, n, matrices)


@dataclass(frozen=True)
class KnownIssue:
    """One entry of the file."""

    url: str
    backends: tuple[str, ...]
    what: str  # wrong | refused | crash (such a case is not run)
    cases: tuple[Pattern, ...]
    measures: frozenset[str] = frozenset()  # empty: any
    ranges: tuple[tuple[str, Range], ...] = ()
    note: str = ""
    nan: bool = False  # explains measures that are NaN, no others
    strict: bool = True  # False: the versions are not established; reported, never asserted
    source: str = ""  # known_issues.toml:12

    def concerns(self, backend: str) -> bool:
        """Whether it is about this backend, in whatever version."""
        return any(fnmatchcase(backend, glob) for glob in self.backends)

    def active(self, backend: str, versions: dict[str, str]) -> bool:
        """Whether it concerns a backend with these versions (keys: `RANGES`)."""
        return self.concerns(backend) and all(
            bounds.holds(versions.get(name, "")) for name, bounds in self.ranges
        )

    def covers(self, case: str, test: str = "") -> bool:
        """Whether one of its patterns matches the case."""
        return any(pattern.covers(case, test) for pattern in self.cases)

    def excuses(self, failing: Collection[Measured]) -> bool:
        """Whether it explains a case that fails in exactly these measures."""
        named = not self.measures or self.measures.issuperset(m.name for m in failing)
        return (
            self.what == "wrong" and named and all(m.value != m.value for m in failing if self.nan)
        )

    def __str__(self) -> str:
        """What a reader of the closing table needs: the gist of the note, and where more is."""
        gist = shorten(self.note.partition(". ")[0].rstrip("."), LONGEST, placeholder=" ...")
        return f"{gist}: {self.url} ({self.source})" if gist else f"{self.url} ({self.source})"


class _Where(NamedTuple):
    backend: str
    torch: str
    driver: str
    chip: str
    os: str
    libraries: str


class KnownIssues:
    """All entries of one or more files."""

    def __init__(self, files: Sequence[TomlFile]) -> None:
        self.files = tuple(files)
        self.issues = [issue for file in files for issue in _issues(file)]
        self._active: dict[_Where, list[KnownIssue]] = {}

    @classmethod
    def load(cls, paths: Sequence[Path | str] = (DEFAULT_FILE,)) -> KnownIssues:
        """Read and validate; :class:`ConfigError` names file, line and key of the first fault."""
        return cls([read(Path(path)) for path in paths])

    def matches(
        self,
        case: str,
        *,
        backend: str,
        torch: str,
        driver: str = "",
        chip: str = "",
        os: str = "",
        libraries: str = "",
        test: str = "",
    ) -> list[KnownIssue]:
        """The issues that cover a case on this device, in the order of the file.

        ``torch`` is ``torch.__version__``, ``os`` like ``macOS 15.3`` or ``Linux 6.8``; ``chip``,
        ``driver`` and ``libraries`` (``mkl 2024.2``) are what the backend says of the device,
        ``test`` is the name of the test function.
        """
        where = _Where(backend, torch, driver, chip, os, libraries)
        active = self._active.get(where)
        if active is None:
            active = [i for i in self.issues if i.active(backend, where._asdict())]
            self._active[where] = active
        return [issue for issue in active if issue.covers(case, test)] if active else []


@lru_cache(maxsize=65536)
def _parts(case: str) -> tuple[dict[str, str], tuple[int, int], int]:
    """The texts in a case id by the names of `PARTS`, the matrix's size, and how many there are."""
    found = Case.parse(case)
    texts = {name: getattr(found, name) for name in PARTS}
    texts |= {"shape": format_shape(found.shape), "batch": format_shape(found.batch) or "single"}
    m, n = (*found.shape, 1, 1)[:2]
    return texts, (m, n), math.prod(found.batch)


@lru_cache(maxsize=1024)
def _version(text: str) -> Version | None:
    """The version in a text, without a local part: 2.14.1+cu130 is 2.14.1, macOS 15.3 is 15.3."""
    found = re.search(r"\d[\w.]*", text)
    if found is None:
        return None
    try:
        return Version(found[0].rstrip("."))
    except InvalidVersion:
        numbers = re.match(r"\d+(\.\d+)*", found[0])
        return Version(numbers[0]) if numbers else None


def _issues(file: TomlFile) -> list[KnownIssue]:
    for key in file.data:
        if key != "issue":
            raise file.error((key,), "unknown key; the file holds [[issue]] tables")
    tables = file.data.get("issue", [])
    if not isinstance(tables, list):
        raise file.error(("issue",), "expected [[issue]], not [issue]")
    return [_issue(file, ("issue", i), table) for i, table in enumerate(tables)]


def _issue(file: TomlFile, at: KeyPath, table: dict[str, Any]) -> KnownIssue:
    for key, value in table.items():
        if key not in KEYS:
            raise file.error((*at, key), f"unknown key; expected {', '.join(sorted(KEYS))}")
        if key in TEXTS and not isinstance(value, str):
            raise file.error((*at, key), f"expected a string, not {value!r}")
    for key in REQUIRED:
        if not table.get(key):
            raise file.error(at, f"has no {key}")
    if not re.match(r"https?://\S+$", table["url"]):
        raise file.error((*at, "url"), f"not a public URL: {table['url']!r}")
    if table["what"] not in WHAT:
        raise file.error((*at, "what"), f"expected {', '.join(WHAT)}, not {table['what']!r}")
    for key in SWITCHES:
        if not isinstance(table.get(key, False), bool):
            raise file.error((*at, key), "expected true or false")
    report_only = table.get("report_only", False)
    if not report_only and not table.get("torch"):
        raise file.error(at, "has no torch range; without one it can only be report_only = true")
    return KnownIssue(
        url=table["url"],
        backends=_globs(file, (*at, "backend"), table["backend"]),
        what=table["what"],
        cases=_cases(file, (*at, "cases"), table["cases"]),
        measures=_measures(file, (*at, "measures"), table.get("measures", [])),
        ranges=_ranges(file, at, table),
        note=table.get("note", ""),
        nan=table.get("nan", False),
        strict=not report_only,
        source=f"{file.path.name}:{file.line(at)}",
    )


def _ranges(file: TomlFile, at: KeyPath, table: dict[str, Any]) -> tuple[tuple[str, Range], ...]:
    found = []
    for name in RANGES:
        if name in table:
            try:
                found.append((name, Range.parse(table[name])))
            except ValueError as error:
                raise file.error((*at, name), str(error)) from error
    return tuple(found)


def _globs(file: TomlFile, at: KeyPath, value: Any) -> tuple[str, ...]:
    globs = [value] if isinstance(value, str) else value
    if not isinstance(globs, list) or not globs or not all(isinstance(g, str) for g in globs):
        raise file.error(at, f"expected a pattern or a list of patterns, not {value!r}")
    return tuple(globs)


def _measures(file: TomlFile, at: KeyPath, value: Any) -> frozenset[str]:
    names = _globs(file, at, value) if value else ()
    for name in names:
        if name not in MEASURES:
            raise file.error(at, f"no measure is called {name!r}")
    return frozenset(names)


def _cases(file: TomlFile, at: KeyPath, value: Any) -> tuple[Pattern, ...]:
    tables = [value] if isinstance(value, dict) else value
    if not isinstance(tables, list) or not all(isinstance(t, dict) and t for t in tables):
        raise file.error(at, "expected a table of patterns or a list of them")
    return tuple(_pattern(file, at, table) for table in tables)


def _pattern(file: TomlFile, at: KeyPath, table: dict[str, Any]) -> Pattern:
    for key in table:
        if key not in PATTERNS:
            raise file.error(at, f"unknown part {key!r}; expected {', '.join((*PARTS, 'test'))}")
    when = table.get("when")
    try:
        condition = None if when is None else Condition.parse(when)
    except (FormulaError, TypeError, AttributeError) as error:
        raise file.error(at, f"when: {error}") from error
    return Pattern(
        parts=tuple((name, _globs(file, at, table[name])) for name in PARTS if name in table),
        test=_globs(file, at, table["test"]) if "test" in table else (),
        when=condition,
    )


__all__ = ["ConfigError", "KnownIssue", "KnownIssues", "Pattern", "Range"]
