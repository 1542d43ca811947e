"""What is wrong with the files of limits and known issues beyond what loading them refuses.

Each function yields findings, one line each: ``file:line: key: what``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import product

from conformance.cases import Case
from conformance.known_issues import KnownIssue, KnownIssues, Pattern
from conformance.plans import PLANS
from conformance.precision import PRECISIONS
from conformance.tolerances import (
    CEILING,
    DEFAULT,
    RECORDED,
    VOCABULARY,
    Entry,
    Place,
    Tolerances,
)

OLDEST_TORCH = (2, 9)
"""The oldest release that the suite supports; an issue that ended before it is past."""


def tolerance_findings(tolerances: Tolerances, backends: Collection[str]) -> Iterator[str]:
    """Entries that never apply, are shadowed or repeat another; reasons without source; gaps."""
    for entry in tolerances.entries.values():
        section = entry.place.section
        if section not in (DEFAULT, CEILING) and section not in backends:
            yield _at(entry, f"never applies: there is no backend {section!r}")
        elif _shadowed(entry, tolerances):
            yield _at(entry, "never applies: more particular entries of its section cover it")
        if entry.fields.get("reason") and not entry.fields.get("source"):
            yield _at(entry, "has a reason but no source")
    below: dict[Place, list[Entry]] = {}
    for entry, overridden in tolerances.overrides():
        below.setdefault(entry.place, []).append(overridden)
    for place, others in below.items():
        entry = tolerances.entries[place]
        if all(other.limit == entry.limit for other in others):
            yield _at(entry, f"repeats {others[0].source}")
    files = ", ".join(str(file.path) for file in tolerances.files)
    for operation, measures in VOCABULARY.items():
        for measure, dtype in product(measures, PRECISIONS):
            if not tolerances.chain(DEFAULT, operation, measure, dtype):
                yield f"{files}: no [default] limit for {measure} of {operation} {dtype}"
            elif not tolerances.ceiling(operation, measure, dtype) and measure not in RECORDED:
                yield f"{files}: no ceiling for {measure} of {operation} {dtype}"


#: The dtypes of cases: those that are factored, and those that are to be refused.
_DTYPES = frozenset(PRECISIONS).union(*(plan.dtypes for plan in PLANS.values()))


def issue_findings(
    known: KnownIssues, backends: Collection[str], ids: Iterable[str] | None = None
) -> Iterator[str]:
    """Ranges that have passed, patterns of no effect; with ``ids``, those that match no case."""
    cases = None if ids is None else list(dict.fromkeys(ids))
    seen: dict[tuple[object, ...], KnownIssue] = {}
    for issue in known.issues:
        where = f"{issue.source}: {issue.url}"
        if not any(issue.concerns(backend) for backend in backends):
            yield f"{where}: there is no backend {' or '.join(issue.backends)}"
        if _passed(issue):
            oldest = ".".join(map(str, OLDEST_TORCH))
            yield f"{where}: its torch range has passed (the suite supports {oldest} and later)"
        if not issue.strict and not issue.note:
            yield f"{where}: report_only, but no note says what is not established"
        twin = seen.setdefault((issue.url, issue.backends, issue.ranges, issue.cases), issue)
        if twin is not issue:
            yield f"{where}: repeats {twin.source}"
        for pattern in issue.cases:
            yield from (f"{where}: {what}" for what in _pattern(issue, pattern))
            if cases is not None and not _met(issue, pattern, cases, backends):
                yield f"{where}: a pattern matches no case"


def _shadowed(entry: Entry, tolerances: Tolerances) -> bool:
    """Whether for all it stands for a more particular entry of the same section decides."""
    place = entry.place
    operations = [
        name
        for name, measures in VOCABULARY.items()
        if place.measure in measures and place.operation in ("", name)
    ]
    for operation, dtype in product(operations, [place.dtype] if place.dtype else PRECISIONS):
        covered = (
            Place(place.section, place.trait, op, kind, place.measure)
            for op, kind in ((operation, dtype), (operation, ""), ("", dtype))
        )
        first = next((p for p in covered if p in tolerances.entries), place)
        if first == place:
            return False
    return True


def _passed(issue: KnownIssue) -> bool:
    """Whether no release from the oldest supported one on is in the torch range."""
    bounds = dict(issue.ranges).get("torch")
    if bounds is None:
        return False
    major, minor = OLDEST_TORCH
    releases = product((major, major + 1), range(60), range(6))
    later = (f"{x}.{y}.{z}" for x, y, z in releases if (x, y) >= (major, minor))
    return not any(bounds.holds(version) for version in later)


def _pattern(issue: KnownIssue, pattern: Pattern) -> Iterator[str]:
    """Parts of a pattern that no operation, dtype or measure answers to."""
    parts = dict(pattern.parts)
    operations = set(VOCABULARY)
    for name, vocabulary in (("operation", operations), ("dtype", _DTYPES)):
        for glob in parts.get(name, ()):
            if not any(fnmatchcase(word, glob) for word in vocabulary):
                yield f"no {name} matches {glob!r}"
    globs = parts.get("operation", ("*",))
    matched = {o for o in operations if any(fnmatchcase(o, glob) for glob in globs)}
    measured = {measure for operation in matched for measure in VOCABULARY[operation]}
    for measure in sorted(issue.measures - measured):
        yield f"{measure} is no measure of {', '.join(sorted(matched)) or 'these operations'}"


def _met(
    issue: KnownIssue, pattern: Pattern, cases: Iterable[str], backends: Collection[str]
) -> bool:
    """Whether the pattern matches a case; its device is that of the issue's backend."""
    concerned = [backend for backend in backends if issue.concerns(backend)]
    for case in cases:
        _, _, rest = str(Case.parse(case)).partition("/")
        if any(pattern.covers(f"{backend}/{rest}") for backend in concerned):
            return True
    return False


def _at(entry: Entry, message: str) -> str:
    return str(entry.error(message))
