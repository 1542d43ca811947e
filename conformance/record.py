"""The record of a run: JUnit properties, written by pytest and read back here.

The XML file is all that is kept of a run, so everything that tuning, comparing and reporting need
is in it. One test case holds ``case``, ``verdict``, ``digest``, ``reason``, ``seconds``, for a
captured call ``compile_seconds`` and ``recompiled``, and for each measure ``measure.NAME`` =
``value limit index``; the index is that of the worst matrix in the flattened batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any, TypeVar
from xml.parsers import expat

N = TypeVar("N", int, float)
VERDICTS = ("pass", "fail", "unsupported", "fallback", "known", "fixed", "crash", "timeout")
MEASURE = "measure."

CHUNK = 1 << 16  # bytes read at a time
LONGEST_TAG = 4 << 20  # bytes of one tag with its attributes
DEEPEST = 16  # nested elements; JUnit needs 5
MOST_PROPERTIES = 10_000  # of one test case or suite
LONGEST_TEXT = 10_000  # characters that are kept of what a failure tells


class RecordError(ValueError):
    """A file that is not the record of a run; the message is one line and names the file."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of one case: its worst value over the batch, and the limit it was held to."""

    name: str
    value: float
    limit: float
    index: int = 0
    source: str = ""  # where the limit comes from; not written to the XML

    @property
    def margin(self) -> float:
        """value / limit: at most 1 conforms, NaN does not. 0/0 is 0 and x/0 is inf."""
        if self.limit == 0:
            return self.value if self.value == 0 or math.isnan(self.value) else math.inf
        if math.isinf(self.limit):
            return math.nan if math.isnan(self.value) else 0.0  # recorded, not asserted
        return self.value / self.limit

    @property
    def conforms(self) -> bool:
        """Whether the margin is at most 1; false for NaN."""
        return self.margin <= 1

    def __str__(self) -> str:
        value, limit = f"{self.value:.6g}", f"{self.limit:.6g}"
        if (float(value) <= float(limit)) != (self.value <= self.limit):
            value, limit = repr(self.value), repr(self.limit)  # rounding must not turn a verdict
        return f"{value} {limit} {self.index}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case: the verdict and every measure that was taken."""

    case: str
    verdict: str
    measures: tuple[Measured, ...] = ()
    reason: str = ""
    digest: str = ""
    seconds: float = 0.0
    compile_seconds: float | None = None  # of a captured call; 0 where another case has paid
    recompiled: int | None = None  # graphs that torch.compile had to compile after that
    test: str = ""  # the test function, ``tests.test_svd::test_svd``; known after reading
    text: str = ""  # what the run told of a failure, likewise

    def properties(self) -> list[tuple[str, str]]:
        """The JUnit properties of the test case, in the order in which they are written."""
        found = [("case", self.case), ("verdict", self.verdict)]
        found += [(MEASURE + measured.name, str(measured)) for measured in self.measures]
        found += [(name, text) for name in ("digest", "reason") if (text := getattr(self, name))]
        found.append(("seconds", f"{self.seconds:.6g}"))
        if self.compile_seconds is not None:
            found.append(("compile_seconds", f"{self.compile_seconds:.6g}"))
        if self.recompiled is not None:
            found.append(("recompiled", str(self.recompiled)))
        return found

    @property
    def worst(self) -> Measured | None:
        """The measure with the largest margin, NaN being larger than anything; None without any."""
        return max(self.measures, key=rank, default=None)

    @property
    def failing(self) -> tuple[Measured, ...]:
        """The measures that do not conform."""
        return tuple(measured for measured in self.measures if not measured.conforms)


@dataclass
class Run:
    """One record: the suite's properties, its cases, and the failed tests that are no case."""

    path: Path
    properties: dict[str, str] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    def backend(self, device: str) -> str:
        """The backend of a device as the run stated it, else the device's name without index."""
        return self.properties.get(f"device.{device}.backend") or device.partition(":")[0]

    @property
    def left(self) -> int:
        """How many cases it has not got to: it ended before."""
        text = self.properties.get("count.left", "")
        return int(text) if text.isdecimal() else 0

    def facts(self, device: str) -> dict[str, str]:
        """What the run stated of a device: its name, chip, driver, libraries and so on."""
        prefix = f"device.{device}."
        stated = self.properties.items()
        return {key.removeprefix(prefix): text for key, text in stated if key.startswith(prefix)}


def read(path: Path | str) -> Run:
    """Read a record whole; raise :class:`RecordError` where it is truncated, hostile or none."""
    run = Run(Path(path))
    run.outcomes.extend(stream(run))
    return run


def stream(run: Run, progress: Callable[[int], object] | None = None) -> Iterator[Outcome]:
    """Yield the outcomes of ``run.path`` one by one, in bounded memory.

    ``run.properties`` and ``run.strays`` are filled on the way and complete at the end.
    ``progress`` is told the number of bytes read so far.
    """
    reader = _Reader(run)
    try:
        with run.path.open("rb") as file:
            read = 0
            while chunk := file.read(CHUNK):
                read += len(chunk)
                reader.feed(chunk)
                yield from reader.take()
                if progress is not None:
                    progress(read)
            reader.close()
            yield from reader.take()
    except OSError as error:
        raise RecordError(f"{run.path}: cannot be read: {error.strerror or error}") from error


class _Reader:
    """Expat with handlers for the few elements of JUnit that a record uses."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ready: list[Outcome] = []
        self.depth = 0
        self.fed = 0
        self.bad = self.telling = False
        self.test = self.text = ""
        self.properties: dict[str, str] | None = None  # of the open test case
        parser = self.parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._tell
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._doctype

    def feed(self, chunk: bytes) -> None:
        try:
            self.parser.Parse(chunk, False)
        except expat.ExpatError as error:
            raise self._error(f"not valid XML: {expat.ErrorString(error.code)}") from error
        self.fed += len(chunk)
        if self.fed - max(self.parser.CurrentByteIndex, 0) > LONGEST_TAG:
            raise self._error(f"a tag of more than {LONGEST_TAG >> 20} MB")

    def close(self) -> None:
        try:
            self.parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise self._error(f"truncated XML: {expat.ErrorString(error.code)}") from error

    def take(self) -> list[Outcome]:
        ready, self.ready = self.ready, []
        return ready

    def _error(self, message: str) -> RecordError:
        return RecordError(f"{self.run.path}:{self.parser.CurrentLineNumber}: {message}")

    def _doctype(self, *_: Any) -> None:
        raise self._error("has a DOCTYPE, which no record has; refused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if self.depth == 0 and tag not in ("testsuites", "testsuite"):
            raise self._error(f"not a JUnit file: it begins with <{tag[:40]}>")
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._error(f"elements nested more than {DEEPEST} deep")
        if tag == "testcase":
            name = attributes.get("name", "").partition("[")[0]
            self.test = intern(f"{attributes.get('classname', '')}::{name}")
            self.properties, self.bad, self.text = {}, False, ""
        elif tag in ("failure", "error"):
            self.bad = self.telling = True
        elif tag == "property":
            into = self.run.properties if self.properties is None else self.properties
            into[attributes.get("name", "")] = attributes.get("value", "")
            if len(into) > MOST_PROPERTIES:
                raise self._error(f"more than {MOST_PROPERTIES} properties in one place")

    def _tell(self, text: str) -> None:
        if self.telling:
            self.text += text[: LONGEST_TEXT - len(self.text)]

    def _end(self, tag: str) -> None:
        self.depth -= 1
        self.telling = False
        if tag != "testcase" or self.properties is None:
            return
        properties, self.properties = self.properties, None
        if "case" in properties:
            self.ready.append(self._outcome(properties))
        elif self.bad and len(self.run.strays) < MOST_PROPERTIES:
            self.run.strays.append(self.test)

    def _outcome(self, properties: dict[str, str]) -> Outcome:
        try:
            outcome = outcome_of(properties, self.test, self.text)
        except ValueError as error:
            raise self._error(f"{properties['case'][:200]}: {error}") from error
        assert outcome is not None  # the caller has seen a case
        return outcome


def outcome_of(properties: Mapping[str, str], test: str = "", text: str = "") -> Outcome | None:
    """The outcome that the properties of one test tell; None if the test is no case.

    Raises:
        ValueError: they are no properties that :meth:`Outcome.properties` writes.
    """
    if "case" not in properties:
        return None
    verdict = properties.get("verdict", "")
    if verdict not in VERDICTS:
        raise ValueError(f"no verdict is called {verdict[:40]!r}")
    return Outcome(
        case=properties["case"],
        verdict=intern(verdict),
        measures=tuple(
            _measured(name, text) for name, text in properties.items() if name.startswith(MEASURE)
        ),
        reason=properties.get("reason", ""),
        digest=properties.get("digest", ""),
        seconds=float(properties.get("seconds") or 0),
        compile_seconds=_number(properties, "compile_seconds", float),
        recompiled=_number(properties, "recompiled", int),
        test=test,
        text=text,
    )


def _number(properties: Mapping[str, str], name: str, kind: Callable[[str], N]) -> N | None:
    return kind(properties[name]) if name in properties else None


def _measured(name: str, text: str) -> Measured:
    try:
        value, limit, index = text.split()
        return Measured(intern(name.removeprefix(MEASURE)), float(value), float(limit), int(index))
    except ValueError:
        raise ValueError(f"{name[:60]} is {text[:60]!r}, not 'value limit index'") from None


def larger(one: float, other: float) -> bool:
    """Whether one value is worse than another: larger, or NaN where the other is none."""
    return one > other or (math.isnan(one) and not math.isnan(other))


def rank(measured: Measured) -> tuple[bool, float]:
    """What orders measures by their margin, NaN above everything."""
    margin = measured.margin
    return (True, math.inf) if math.isnan(margin) else (False, margin)
