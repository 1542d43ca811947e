"""Ways to run a call: eager, compiled, exported, traced, replayed; ``base`` says how to add one."""

from __future__ import annotations

from conformance.captures import (
    compiled,
    control_flow,
    dynamic_spec,
    eager,
    exported,
    graphs,
    traced,
    vmapped,
)
from conformance.captures.base import Call, Capture, Function

__all__ = ["CAPTURES", "Call", "Capture", "Function"]

_MODULES = (eager, compiled, exported, traced, dynamic_spec, control_flow, vmapped, graphs)

CAPTURES: dict[str, Capture] = {
    capture.name: capture for module in _MODULES for capture in module.CAPTURES
}
