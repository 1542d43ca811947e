"""Reading the TOML files that maintainers edit, with the line of every key.

``tomllib`` checks the file but forgets where things were; :func:`read` scans the text once more for
the lines, so that every later complaint can name file, line and key.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

KeyPath = tuple[str | int, ...]

LARGEST_FILE = 4_000_000  # bytes; a file that a person edits is a thousand times smaller

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[ \t]*(?:("(?:[^"\\\n]|\\.)*")|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*""")
_VALUE_PART = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' + r"|'''.*?'{3,5}" + r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'|\#[^\n]*|[\[\]{}\n]|[^\"'\#\[\]{}\n]+",
    re.DOTALL,
)


class ConfigError(ValueError):
    """A file that cannot be used; the message is one line and begins with ``file:line:``."""


class Spot(NamedTuple):
    """Where ``key = value`` stands in the text, as offsets; for a table header, the header."""

    line: int  # from 1
    table: KeyPath  # the header it stands under; of a header, the table itself
    start: int  # of the key
    value: int  # of the value; of a header, its end
    end: int  # of the value


@dataclass(frozen=True)
class TomlFile:
    """A parsed file: its data, and where every table header and key stands."""

    path: Path
    data: dict[str, Any]
    spots: dict[KeyPath, Spot] = field(repr=False)

    def line(self, keys: KeyPath) -> int:
        """The line of a key, or of the nearest table around it."""
        while keys and keys not in self.spots:
            keys = keys[:-1]
        return self.spots[keys].line if keys else 1

    def error(self, keys: KeyPath, message: str) -> ConfigError:
        """The complaint about one key, ready to raise."""
        return ConfigError(f"{self.path}:{self.line(keys)}: {dotted(keys)}: {message}")


def read(path: Path) -> TomlFile:
    """Parse a file; raise :class:`ConfigError` for one that is missing or malformed."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise ConfigError(f"{path}:1: larger than {LARGEST_FILE // 1_000_000} MB")
    except OSError as error:
        raise ConfigError(f"{path}:1: cannot be read: {error.strerror or error}") from error
    return parse(path, raw)


def parse(path: Path, raw: bytes) -> TomlFile:
    """The same for the contents of a file that is not (yet) on disk."""
    try:
        text = raw.decode()
        data = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_malformed(path, text, str(error))) from error
    except RecursionError as error:
        raise ConfigError(f"{path}:1: nested too deeply") from error
    return TomlFile(path, data, locate(text))


def dotted(keys: KeyPath) -> str:
    """A key path as TOML spells it: ``cuda."chip:*H100*".svd``, ``issue[2].torch``."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", key)
            text += ("." if text else "") + (key if bare else f'"{key}"')
    return text


def locate(text: str) -> dict[KeyPath, Spot]:
    """Where each table header and each ``key =`` of valid TOML stands.

    The tables of ``[[issue]]`` are counted from 0. Keys inside an inline table are not listed.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    spots: dict[KeyPath, Spot] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    position = _end(_BLANK, text, 0)
    while position < len(text):
        line, start = bisect_right(starts, position), position
        if text[position] == "[":
            many = text.startswith("[[", position)
            keys, position = _keys(text, position + 1 + many)
            if many:
                plain = (*_indexed(keys[:-1], counts), keys[-1])
                counts[plain] = counts.get(plain, 0) + 1
            table = _indexed(keys, counts)
            position += 1 + many
            spots[table] = Spot(line, table, start, position, position)
        else:
            keys, position = _keys(text, position)
            value, end, position = _value(text, position + 1)
            spot = Spot(line, table, start, value, end)
            for depth in range(1, len(keys)):
                spots.setdefault(table + keys[:depth], spot)
            spots[table + keys] = spot
        position = _end(_BLANK, text, position)
    return spots


def _malformed(path: Path, text: str, message: str) -> str:
    """tomllib says where at the end of its message: ``... (at line 3, column 5)``."""
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    line = int(found[1]) if found else text.count("\n") + 1
    what = re.sub(r"\s*\(at [^)]*\)$", "", message)
    return f"{path}:{line}: not valid TOML: {what}"


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _keys(text: str, position: int) -> tuple[tuple[str, ...], int]:
    """A dotted key and the position after it."""
    keys: list[str] = []
    while match := _KEY.match(text, position):
        quoted, literal, bare = match.groups()
        if quoted is not None:
            keys.append(next(iter(tomllib.loads(f"{quoted} = 0"))))
        else:
            keys.append(bare if literal is None else literal)
        position = match.end()
        if not text.startswith(".", position):
            break
        position += 1
    return tuple(keys), position


def _indexed(keys: tuple[str, ...], counts: dict[KeyPath, int]) -> KeyPath:
    """The keys with the index of the newest element after each array of tables."""
    path: KeyPath = ()
    for key in keys:
        path = (*path, key)
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _value(text: str, position: int) -> tuple[int, int, int]:
    """Start and end of the value after ``=``, and where its line, or comment, ends."""
    start = end = position = _end(_SPACE, text, position)
    depth = 0
    while match := _VALUE_PART.match(text, position):
        part, position = match[0], match.end()
        if part == "\n" and depth == 0:
            break
        depth += (part in ("[", "{")) - (part in ("]", "}"))
        if not part.isspace() and not part.startswith("#"):
            end = match.start() + len(part.rstrip())
    return start, end, position
