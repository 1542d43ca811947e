"""A family of input matrices, and the decorator that puts a builder into the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.matrices.draw import Builder

KINDS = ("general", "hermitian", "definite", "indefinite")

TRAITS = {
    "square": "only m == n",
    "complex": "complex dtypes only",
    "full-rank": "the numerical rank is min(m, n), with a condition below 0.1/eps",
    "rank-deficient": "the exact or numerical rank is less than min(m, n), sizes 0 and 1 apart",
    "column-scaled": "A = B D, B with condition 10, D diagonal (A = D B where m < n)",
    "integer": "integers times a scale: sums of products are exact",
    "exact": "a closed form for every factor: diagonal, identity, permutation, ...",
    "real": "stays real in complex dtypes",
    "nonfinite": "holds NaN or inf",
    "extreme": "near overflow or underflow",
    "subnormal": "holds subnormal numbers by intent",
    "triangular": "upper or lower triangular",
    "fails": "Cholesky fails, at a leading minor of certain order (some-fail: every other matrix)",
}


@dataclass(frozen=True)
class Family:
    """A numbered family: ``build`` takes a Draw and returns ``(k, m, n)``, or ``(m, n)`` when the
    family has one matrix per shape. Entries are wide; they are rounded afterwards."""

    number: int
    name: str
    doc: str
    kinds: frozenset[str]
    traits: frozenset[str]
    build: Builder


FAMILIES: dict[str, Family] = {}


def family(number: int, name: str, kinds: str, traits: str = "") -> Callable[[Builder], Builder]:
    """Register a builder; its docstring is the family's. Kinds by initial: g, h, d, i."""

    def register(build: Builder) -> Builder:
        add(number, name, build.__doc__ or "", kinds, traits, build)
        return build

    return register


def add(number: int, name: str, doc: str, kinds: str, traits: str, build: Builder) -> None:
    """Put one family into the table; numbers and names are unique, kinds and traits known."""
    chosen = frozenset(kind for kind in KINDS if kind[0] in kinds)
    listed = frozenset(traits.split())
    taken = {other.number: other.name for other in FAMILIES.values()}
    if name in FAMILIES:
        raise ValueError(f"there is a family {name!r} already, number {FAMILIES[name].number}")
    if number in taken:
        free = max(130, *taken) + 1 if max(taken) >= 130 else 130
        raise ValueError(f"family {name!r}: {number} is {taken[number]!r}; {free} is free")
    if len(chosen) != len(kinds) or not listed <= TRAITS.keys() or not doc.strip():
        raise ValueError(f"family {name}: kinds {kinds!r}, traits {traits!r} or its doc is wrong")
    FAMILIES[name] = Family(number, name, " ".join(doc.split()), chosen, listed, build)
