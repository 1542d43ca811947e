"""Ways to run a call: eager, compiled, exported, traced, replayed; ``base`` says how to add one."""

from __future__ import annotations

from conformance.captures import eager, graphs
from conformance.captures.base import Call, Capture, Function

__all__ = ["CAPTURES", "Call", "Capture", "Function"]

CAPTURES: dict[str, Capture] = {
    capture.name: capture for module in (eager, graphs) for capture in module.CAPTURES
}
