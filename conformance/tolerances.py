"""Limits of the measures: ``tolerances.toml``, its vocabulary, its validation and its lookup.

A section is ``default``, a backend, or one of its chips, drivers or libraries, by a pattern:
``[cuda."chip:*H100*".svd]``.
In a section a limit stands for every operation (``[default] batch = 30``), for one (``[cpu.svd]``)
or for one dtype (``[cpu.float32]``, ``[cpu.svd.float32]``). The most particular one wins: first by
section, then by operation, then by dtype. ``[ceiling]`` has the same shape and bounds them all.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from conformance.formulas import Formula, FormulaError
from conformance.precision import PRECISIONS
from conformance.tomlfiles import ConfigError, KeyPath, TomlFile, dotted, read

COMMON = (
    *("batch", "layout", "metadata", "untouched", "repeat", "scaling", "finite", "error"),
    *("capture", "replay"),
)
_CHOLESKY = ("reconstruction", "triangle", "diagonal", "factor")

VOCABULARY: dict[str, tuple[str, ...]] = {
    operation: measures + COMMON
    for operation, measures in {
        "svd": (
            *("reconstruction", "orthonormality_u", "orthonormality_vh"),
            *("values", "order", "agreement", "relative_values"),
        ),
        "svdvals": ("values", "order", "agreement", "relative_values"),
        "eigh": ("residual", "orthonormality", "values", "order", "agreement"),
        "eigvalsh": ("values", "order", "agreement"),
        "qr": (
            *("reconstruction", "orthonormality", "triangle", "diagonal"),
            *("values", "factor", "agreement"),
        ),
        "geqrf": ("reconstruction", "orthonormality", "factor"),
        "householder_product": ("product", "orthonormality"),
        "ormqr": ("product",),
        "cholesky": _CHOLESKY,
        "cholesky_ex": (*_CHOLESKY, "info"),
        "cholesky_solve": ("residual",),
        "cholesky_inverse": ("residual", "hermitian"),
    }.items()
}
"""The measures of each operation. A new operation or measure is entered here first."""

MEASURES = frozenset(measure for measures in VOCABULARY.values() for measure in measures)

EXACT = frozenset(
    ("order", "triangle", "diagonal", "info", "metadata", "untouched", "repeat", "finite", "error")
)
"""Measures that are 0 or inf; their limit is 0."""

RECORDED = frozenset(("relative_values",))
"""Measures whose limit may be ``inf``: written down where the algorithm does not promise them."""

DEFAULT, CEILING = "default", "ceiling"
TRAITS = ("chip", "driver", "libraries")
DEFAULT_FILE = Path(__file__).resolve().parent.parent / "tolerances.toml"

PROVENANCE: dict[str, type | tuple[type, ...]] = {
    "reason": str,
    "source": str,
    "date": (str, datetime.date),
    "torch": str,
    "device": str,
    "driver": str,
    "runs": int,
    "measured": int,
    "worst": (int, float),
    "case": str,
}
"""What an entry may say besides its ``limit``, and of which type."""

PROBES = ((1, 1), (2, 2), (7, 5), (32, 32), (129, 129), (1000, 3), (3, 1000), (4096, 4096))
"""Shapes at which formulas are compared with each other and with the ceiling."""


def traits_of(facts: Mapping[str, str]) -> tuple[str, ...]:
    """What limits may depend on, of what a device states: ``('chip:H100', 'driver:580')``."""
    return tuple(f"{kind}:{facts[kind]}" for kind in TRAITS if facts.get(kind))


def fits(trait: str, pattern: str) -> bool:
    """Whether a section for ``pattern`` is for devices with the trait, whatever the case."""
    return fnmatchcase(trait.lower(), pattern.lower())


class Place(NamedTuple):
    """What a limit stands for; empty operation, dtype or trait stand for all."""

    section: str
    trait: str
    operation: str
    dtype: str
    measure: str

    @property
    def keys(self) -> KeyPath:
        """Where the entry stands in the file."""
        return tuple(part for part in self if part)


@dataclass(frozen=True)
class Entry:
    """One limit as the file states it, with its provenance and where it stands."""

    place: Place
    limit: float | Formula
    fields: Mapping[str, Any]
    file: TomlFile = field(repr=False, compare=False)

    def at(self, m: int, n: int) -> float:
        """The limit for an m x n matrix; :class:`ConfigError` where it is no limit."""
        if not isinstance(self.limit, Formula):
            return self.limit
        try:
            value = self.limit(m, n)
        except FormulaError as error:
            raise self.error(str(error)) from error
        if not 0 <= value < math.inf:
            raise self.error(f"{self.limit.text!r} is {value:g} for a {m} x {n} matrix")
        return value

    def exceeds(self, other: Entry) -> bool:
        """Whether this limit is larger than another for some shape."""
        return any(self.at(m, n) > other.at(m, n) for m, n in PROBES)

    @property
    def text(self) -> str:
        """The limit as the file spells it."""
        return self.limit.text if isinstance(self.limit, Formula) else f"{self.limit:g}"

    @property
    def source(self) -> str:
        """File, line and key: ``tolerances.toml:12 cpu.svd.values``."""
        keys = self.place.keys
        return f"{self.file.path.name}:{self.file.line(keys)} {dotted(keys)}"

    def error(self, message: str) -> ConfigError:
        """The complaint about this entry."""
        return self.file.error(self.place.keys, message)


class Limit(NamedTuple):
    """A limit found for one case, and where it comes from."""

    value: float
    source: str


class Tolerances:
    """All limits of one or more files; a later file replaces entries of an earlier one."""

    def __init__(self, files: Sequence[TomlFile]) -> None:
        self.files = tuple(files)
        self.entries: dict[Place, Entry] = {}
        self._found: dict[tuple[Any, ...], Limit] = {}
        replaced: list[tuple[Entry, Entry]] = []
        for file in files:
            for entry in _entries(file):
                if (earlier := self.entries.get(entry.place)) is not None:
                    replaced.append((entry, earlier))
                self.entries[entry.place] = entry
        self._traits: dict[str, list[str]] = {}
        for place in self.entries:
            known = self._traits.setdefault(place.section, [])
            if place.trait and place.trait not in known:
                known.append(place.trait)
        for entry, overridden in (*replaced, *self.overrides()):
            _check_loosening(entry, overridden)
        self._check_ceilings()

    @classmethod
    def load(cls, paths: Sequence[Path | str] = (DEFAULT_FILE,)) -> Tolerances:
        """Read and validate; :class:`ConfigError` names file, line and key of the first fault."""
        return cls([read(Path(path)) for path in paths])

    def limit(
        self,
        *,
        backend: str,
        operation: str,
        measure: str,
        dtype: str,
        m: int,
        n: int,
        traits: tuple[str, ...] = (),
    ) -> Limit:
        """The limit of a measure for one m x n case; ``ConfigError`` where the files have none.

        ``traits`` are those of the device, see :func:`traits_of`.
        """
        key = (backend, traits, operation, measure, dtype, m, n)
        found = self._found.get(key)
        if found is None:
            entry = self.entry(backend, operation, measure, dtype, traits)
            found = self._found[key] = Limit(entry.at(m, n), entry.source)
        return found

    def entry(
        self, backend: str, operation: str, measure: str, dtype: str, traits: Sequence[str] = ()
    ) -> Entry:
        """The entry that decides; ``ConfigError`` where there is none."""
        chain = self.chain(backend, operation, measure, dtype, traits)
        if not chain:
            names = ", ".join(str(file.path) for file in self.files) or "no file"
            raise ConfigError(
                f"{names}: no limit for {measure} of {operation} ({dtype}) on {backend}; "
                f"add [{DEFAULT}.{operation}] {measure} = ..."
            )
        return chain[-1]

    def chain(
        self, backend: str, operation: str, measure: str, dtype: str, traits: Sequence[str] = ()
    ) -> list[Entry]:
        """Every entry that applies, the most general first; the last one decides."""
        matching = [
            pattern
            for pattern in self._traits.get(backend, ())
            if any(fits(trait, pattern) for trait in traits)
        ]
        sections = [(DEFAULT, ""), (backend, ""), *((backend, trait) for trait in matching)]
        return self._stack(sections, operation, measure, dtype)

    def ceiling(self, operation: str, measure: str, dtype: str) -> Entry | None:
        """The largest limit that theory allows, None where the file states none."""
        chain = self._stack([(CEILING, "")], operation, measure, dtype)
        return chain[-1] if chain else None

    def overrides(self) -> Iterator[tuple[Entry, Entry]]:
        """Every pair (entry, the entry that it overrides) for some operation and dtype, once."""
        seen: set[tuple[Place, Place]] = set()
        for chain in self.chains():
            for overridden, entry in pairwise(chain):
                pair = (entry.place, overridden.place)
                if pair not in seen:
                    seen.add(pair)
                    yield entry, overridden

    def chains(self) -> Iterator[list[Entry]]:
        """The chain of each section, operation, measure and dtype that the files speak of."""
        sections = [
            (section, trait)
            for section, traits in self._traits.items()
            if section != CEILING
            for trait in ("", *traits)
        ]
        for section, trait in sections:
            levels = dict.fromkeys(((DEFAULT, ""), (section, ""), (section, trait)))
            for operation, measures in VOCABULARY.items():
                for measure in measures:
                    for dtype in PRECISIONS:
                        yield self._stack(list(levels), operation, measure, dtype)

    def _stack(
        self, sections: list[tuple[str, str]], operation: str, measure: str, dtype: str
    ) -> list[Entry]:
        places = (
            Place(section, trait, op, kind, measure)
            for section, trait in sections
            for op in ("", operation)
            for kind in ("", dtype)
        )
        return [self.entries[place] for place in places if place in self.entries]

    def _check_ceilings(self) -> None:
        """No limit may exceed the ceiling of any operation and dtype that it stands for."""
        for entry in self.entries.values():
            place = entry.place
            if place.section == CEILING or entry.limit == math.inf:
                continue
            for operation, measures in VOCABULARY.items():
                if place.measure not in measures or place.operation not in ("", operation):
                    continue
                for dtype in (place.dtype,) if place.dtype else PRECISIONS:
                    ceiling = self.ceiling(operation, place.measure, dtype)
                    if ceiling is not None and entry.exceeds(ceiling):
                        raise entry.error(
                            f"{entry.text} is above the ceiling {ceiling.text} ({ceiling.source})"
                        )


def _entries(file: TomlFile) -> Iterator[Entry]:
    for section, table in file.data.items():
        if not isinstance(table, dict):
            raise file.error((section,), "expected a section: default, ceiling or a backend")
        yield from _section(file, Place(section, "", "", "", ""), table)


def _section(file: TomlFile, place: Place, table: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of one table; ``place`` says which, its measure still being empty."""
    measures = VOCABULARY[place.operation] if place.operation else MEASURES
    for key, value in table.items():
        inner = None
        if key in measures:
            yield _entry(file, place._replace(measure=key), value)
            continue
        if key in PRECISIONS and not place.dtype:
            inner = place._replace(dtype=key)
        elif key in VOCABULARY and not place.operation and not place.dtype:
            inner = place._replace(operation=key)
        elif key.partition(":")[0] in TRAITS and ":" in key and place == _bare(place):
            inner = place._replace(trait=key)
        if inner is None:
            raise file.error((*place.keys, key), _unknown(place))
        if not isinstance(value, dict):
            raise file.error((*place.keys, key), f"expected a table, not {value!r}")
        yield from _section(file, inner, value)


def _bare(place: Place) -> Place:
    """The place of the section itself, if traits may stand in it."""
    allowed = place.section not in (DEFAULT, CEILING)
    return Place(place.section if allowed else "", "", "", "", "")


def _unknown(place: Place) -> str:
    expected = f"a measure of {place.operation}" if place.operation else "a measure"
    if not place.dtype:
        expected += ", a dtype"
        if not place.operation:
            expected += ", an operation"
            if place == _bare(place):
                expected += ", or " + ", ".join(f"'{kind}:PATTERN'" for kind in TRAITS)
    names = VOCABULARY[place.operation] if place.operation else sorted(MEASURES)
    return f"unknown key; expected {expected} (measures: {', '.join(names)})"


def _entry(file: TomlFile, place: Place, value: Any) -> Entry:
    fields: Mapping[str, Any] = value if isinstance(value, dict) else {"limit": value}
    for name, content in fields.items():
        if name == "limit":
            continue
        if name not in PROVENANCE:
            raise file.error(
                place.keys, f"unknown key {name!r}; expected limit, {', '.join(PROVENANCE)}"
            )
        if not isinstance(content, PROVENANCE[name]) or isinstance(content, bool):
            raise file.error(place.keys, f"{name} has the wrong type: {content!r}")
    if "limit" not in fields:
        raise file.error(place.keys, "has no limit")
    entry = Entry(place, _limit(file, place, fields["limit"]), fields, file)
    for m, n in PROBES:
        entry.at(m, n)
    return entry


def _limit(file: TomlFile, place: Place, value: Any) -> float | Formula:
    if isinstance(value, str):
        try:
            return Formula.parse(value)
        except FormulaError as error:
            raise file.error(place.keys, str(error)) from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise file.error(place.keys, f"a limit is a number or a formula, not {value!r}")
    if math.isnan(value) or value < 0:
        raise file.error(place.keys, f"a limit is not negative and not NaN, this one is {value}")
    if math.isinf(value) and place.measure not in RECORDED:
        raise file.error(place.keys, "a limit is finite")
    return float(value)


def _check_loosening(entry: Entry, overridden: Entry) -> None:
    if not entry.exceeds(overridden):
        return
    missing = [name for name in ("reason", "source") if not entry.fields.get(name)]
    if missing:
        raise entry.error(
            f"{entry.text} is looser than {overridden.text} ({overridden.source}) "
            f"and has no {' and no '.join(missing)}"
        )
    if not str(entry.fields["source"]).startswith(("https://", "http://")):
        raise entry.error("the source of a looser limit is a URL")
