"""A catalogue of defective backends: small faults that the suite must catch.

``with planted(fault):`` switches one on underneath ``torch.linalg``; ``CATALOGUE`` holds them by
name, ``CONTROL`` hooks every operator and changes nothing. See ``planting`` for how it works.
``CAPTURED`` holds the faults of captures, which ``with miscaptured(fault):`` switches on, and
``GRAPHS`` those of a device's graphs, planted in the simulated device.
"""

from __future__ import annotations

from . import (
    accuracy,
    arguments,
    batch,
    captured,
    history,
    layout,
    metadata,
    size,
    structure,
    values,
)
from .captured import CapturedFault, miscaptured
from .graphs import FAULTS as GRAPH_FAULTS
from .graphs import GraphFault
from .planting import OPERATORS, Call, Condition, Effect, Fault, planted
from .witness import of

__all__ = [
    "CAPTURED",
    "CATALOGUE",
    "CONTROL",
    "EVERY",
    "GRAPHS",
    "KINDS",
    "Call",
    "CapturedFault",
    "Fault",
    "GraphFault",
    "miscaptured",
    "planted",
]

_TABLES = (accuracy, structure, arguments, batch, layout, size, values, history, metadata)

KINDS: tuple[str, ...] = tuple(table.__name__.rpartition(".")[2] for table in _TABLES)

CATALOGUE: dict[str, Fault] = {fault.name: fault for table in _TABLES for fault in table.FAULTS}

CAPTURED: dict[str, CapturedFault] = {
    fault.name: fault for module in (captured,) for fault in module.FAULTS
}

GRAPHS: dict[str, GraphFault] = {fault.name: fault for fault in GRAPH_FAULTS}

EVERY: dict[str, Fault | CapturedFault | GraphFault] = {**CATALOGUE, **CAPTURED, **GRAPHS}

CONTROL = Fault(
    name="control",
    kind="control",
    operations=(),
    when=Condition("never", lambda call: False),
    effect=Effect("nothing", Call.compute),
    promise="",
    shows=of("svd", 1, 1),
    silent=of("svd", 1, 1),
    at=tuple(OPERATORS),
)
