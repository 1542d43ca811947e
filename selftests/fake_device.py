"""A backend and a plug-in for the tests of the device layer."""

from __future__ import annotations

from pathlib import Path

from devices.base import Backend


class Fake(Backend):
    """A backend of two devices that are the CPU in truth."""

    name = "fake"
    count = 2

    @property
    def type(self) -> str:
        return "cpu"

    def __init__(self) -> None:
        self.enabled = 0

    def devices(self) -> list[str]:
        return [f"{self.name}:{index}" for index in range(self.count)]

    def setup(self) -> None:
        self.enabled += 1


def plugin(folder: Path, text: str, name: str = "plugin.py") -> Path:
    file = folder / name
    file.write_text("from devices.base import Backend\n" + text)
    return file


ONE = """
class One(Backend):
    name = "one"
    def devices(self):
        return ["one:0"]
"""
