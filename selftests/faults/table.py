"""How a table of faults is written: one row each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .planting import Condition, Effect, Fault
from .witness import Witness

SVD = ("svd", "svdvals")
EIGH = ("eigh", "eigvalsh")
CHOLESKY = ("cholesky", "cholesky_ex")
SOLVE = ("cholesky_solve",)
INVERSE = ("cholesky_inverse",)
FACTORS = ("svd", "eigh", "qr", *CHOLESKY)


def row(
    name: str,
    operations: str | tuple[str, ...],
    when: Condition,
    effect: Effect,
    promise: str,
    shows: Witness,
    silent: dict[str, Any],
    **more: Any,
) -> Fault:
    """A fault of a kind yet to be named; ``silent`` is what differs from ``shows``."""
    names = (operations,) if isinstance(operations, str) else operations
    return Fault(name, "", names, when, effect, promise, shows, shows.but(**silent), **more)


def table(kind: str, *rows: Fault) -> tuple[Fault, ...]:
    """All faults of a kind."""
    return tuple(replace(fault, kind=kind) for fault in rows)
