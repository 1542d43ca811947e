"""Changing limits in ``tolerances.toml`` and nothing else in it.

New values are spliced into the text in the place of the old ones, so every other byte stays; a
section that does not exist yet is put at the end. (tomlkit writes the values, but does not edit the
file: where the tables of one backend stand apart it moves spaces in entries that were not touched.)
The new text is parsed and compared with what it should say before it takes the place of the old
file, in one step that leaves either the old or the new one if the process dies.
"""

from __future__ import annotations

import copy
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from conformance.tolerances import Place
from conformance.tomlfiles import ConfigError, KeyPath, Spot, TomlFile, dotted, parse


@dataclass(frozen=True)
class Change:
    """A new limit for one place, with its provenance (keys of ``tolerances.PROVENANCE``)."""

    place: Place
    limit: float | str
    fields: Mapping[str, Any]

    @property
    def content(self) -> dict[str, Any]:
        """What the entry says afterwards."""
        return {"limit": _plain(self.limit), **self.fields}


class _Splice(NamedTuple):
    start: int
    end: int
    text: str


def rewrite(path: Path, old: bytes, changes: Sequence[Change]) -> bytes:
    """The contents of the file after the changes; :class:`ConfigError` where it cannot be done."""
    file = parse(path, old)
    text = old.decode()
    newline = "\r\n" if "\r\n" in text else "\n"
    splices: list[_Splice] = []
    added: dict[KeyPath, list[str]] = {}
    for change in changes:
        keys = change.place.keys
        if keys in file.spots and file.spots[keys].table != keys:
            spot = file.spots[keys]
            splices.append(_Splice(spot.value, spot.end, _inline(change)))
        elif keys in file.spots:
            splices += _own_table(file, text, change, newline)
        elif (sibling := _last_statement(file, keys[:-1])) is not None:
            depth = len(sibling.table)
            line = f"{dotted(keys[depth:])} = {_inline(change)}"
            splices.append(_after(text, sibling, line, newline))
        else:
            line = f"{change.place.measure} = {_inline(change)}"
            added.setdefault(keys[:-1], []).append(line)
    splices.reverse()  # those at one place are put in from the last to the first
    for start, end, inserted in sorted(splices, key=lambda s: s[:2], reverse=True):
        text = text[:start] + inserted + text[end:]
    for section, lines in added.items():
        text += "" if text.endswith("\n") or not text else newline
        text += newline.join(("", f"[{dotted(section)}]", *lines, ""))
    new = text.encode()
    try:
        done = parse(path, new).data
    except ConfigError:
        done = {}
    if done != _expected(file.data, changes):
        raise ConfigError(f"{path}:1: is laid out in a way that cannot be edited; nothing written")
    return new


def replace(path: Path, old: bytes, new: bytes) -> None:
    """Put new contents in the file's place at once; refuse if it is no longer the old file."""
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(new)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, path.stat().st_mode & 0o7777)
        if path.read_bytes() != old:
            raise ConfigError(f"{path}:1: was changed by someone else meanwhile; nothing written")
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    with suppress(OSError):  # a folder cannot be synchronised on every system
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _own_table(file: TomlFile, text: str, change: Change, newline: str) -> list[_Splice]:
    """An entry under a header of its own: its keys are changed one by one, so comments stay."""
    keys = change.place.keys
    splices, lines = [], []
    for key, value in change.content.items():
        spot = file.spots.get((*keys, key))
        if spot is None:
            lines.append(f"{key} = {_written(value)}")
        else:
            splices.append(_Splice(spot.value, spot.end, _written(value)))
    for key in _nested(file.data, keys):
        if key not in change.content:
            spot = file.spots[(*keys, key)]
            line_start = text.rfind("\n", 0, spot.start) + 1
            splices.append(_Splice(line_start, _line_end(text, spot.end), ""))
    if lines:
        limit = file.spots[(*keys, "limit")]
        splices.append(_after(text, limit, newline.join(lines), newline))
    return splices


def _last_statement(file: TomlFile, section: KeyPath) -> Spot | None:
    """The last ``key = value`` directly in a section, else its header; None without either."""
    inside = [
        spot
        for keys, spot in file.spots.items()
        if keys[:-1] == section and spot.table != keys and len(spot.table) <= len(section)
    ]
    return max(inside, key=lambda spot: spot.start, default=file.spots.get(section))


def _after(text: str, spot: Spot, line: str, newline: str) -> _Splice:
    """Insert a line below a statement or header, with its indentation."""
    line_start = text.rfind("\n", 0, spot.start) + 1
    indent = text[line_start : spot.start]
    end = _line_end(text, spot.end)
    before = "" if text[:end].endswith("\n") else newline
    return _Splice(end, end, before + indent + line + newline)


def _line_end(text: str, position: int) -> int:
    """Where the next line begins."""
    return text.find("\n", position) + 1 or len(text)


def _inline(change: Change) -> str:
    inside = ", ".join(f"{key} = {_written(value)}" for key, value in change.content.items())
    return f"{{ {inside} }}"


def _written(value: Any) -> str:
    return tomlkit.item(value).as_string()


def _plain(limit: float | str) -> float | int | str:
    """2.0 is written as 2."""
    if isinstance(limit, float) and math.isfinite(limit) and limit == int(limit):
        return int(limit)
    return limit


def _nested(data: Mapping[str, Any], keys: KeyPath) -> dict[str, Any]:
    found: Any = data
    for key in keys:
        found = found[key]
    return dict(found)


def _expected(data: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    expected = copy.deepcopy(data)
    for change in changes:
        table = expected
        for key in change.place.keys[:-1]:
            table = table.setdefault(str(key), {})
        table[change.place.measure] = change.content
    return expected
