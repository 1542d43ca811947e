"""Stand-ins for the modules of devices that this machine lacks.

What a stand-in replaces must exist in PyTorch, so a misspelt name cannot survive.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

#: What the stand-ins were asked to do: the device's kind, the function, its arguments.
calls: list[tuple[str, str, tuple[Any, ...]]] = []


def properties(kind: str, **values: Any) -> SimpleNamespace:
    """Device properties of a C++ class, whose attributes its type stub lists."""
    stub = (Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text()
    body = re.search(rf"^class {kind}:\n((?:    .*\n)+)", stub, re.MULTILINE)
    assert body is not None
    known = set(re.findall(r"^    (\w+):", body.group(1), re.MULTILINE))
    assert set(values) <= known
    return SimpleNamespace(**values)


def stand_in(monkeypatch: pytest.MonkeyPatch, kind: str, module: Any, **functions: Any) -> None:
    """Replace functions that the module has (else this raises); note calls of two of them."""
    calls.clear()
    for name, function in functions.items():
        monkeypatch.setattr(module, name, function)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(module, name, lambda *args, n=name: calls.append((kind, n, args)))
