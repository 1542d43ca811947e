"""From a family's name to a batch of matrices: seeded, rounded once, digested."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conformance.matrices.draw import Array, Draw, rotate_phases, scaled
from conformance.matrices.family import FAMILIES, KINDS, Family, family
from conformance.precision import Precision

#: A batch holds at most this many different matrices, so that references stay cheap.
DISTINCT = 64


@dataclass(frozen=True)
class Sample:
    """A batch of input matrices.

    ``distinct``: ``(k, m, n)`` in float64 or complex128, every entry a number of the precision.
    ``index``: which of them each of the B batch elements is, ``(B,)``; neighbours differ.
    ``digest``: 16 hex digits of the SHA-256 of the rounded bytes, the same on every machine.
    """

    distinct: Array
    index: NDArray[np.int64]
    batch: tuple[int, ...]
    digest: str

    @cached_property
    def matrix(self) -> Array:
        """All of them, ``batch + (m, n)``."""
        return self.distinct[self.index].reshape(self.batch + self.distinct.shape[1:])


def sample(
    family: str,
    kind: str,
    shape: tuple[int, int],
    batch: tuple[int, ...],
    precision: Precision,
    seed: int,
) -> Sample:
    """The batch of matrices that these arguments stand for: the same at every call, anywhere.

    Raises ``KeyError`` for an unknown family and ``ValueError`` for a kind, shape or precision
    that the family does not have.
    """
    chosen, (m, n) = FAMILIES[family], shape
    _check(chosen, kind, m, n, precision)
    total = int(np.prod(batch, dtype=np.int64))
    rng = _generator(family, kind, shape, batch, precision.name, seed)
    k = min(total, DISTINCT)
    with np.errstate(all="ignore"):
        wide = realise(chosen, Draw(rng, kind, k, m, n, precision))
        rounded = np.ascontiguousarray(wide).astype(precision.numpy)
        distinct = rounded.astype(precision.wide)
    index = _assignment(rng, total, k)
    return Sample(distinct, index, tuple(batch), _digest(rounded, index, batch))


def realise(family: Family, draw: Draw) -> Array:
    """What the builder made as ``(k, m, n)`` of the draw's kind, not yet rounded.

    Matrix i is scaled by ``1 + i/64``, lest two of a family with few members be the same (by a
    power of 4 where a pivot must stay exactly zero). Real matrices are made complex by unitary
    diagonals where the precision is complex, Hermitian ones are made so exactly.
    """
    A = np.broadcast_to(family.build(draw), (draw.k, draw.m, draw.n))
    if draw.k > 1:
        each = np.arange(draw.k, dtype=np.intc)
        scale = np.ldexp(1.0, 2 * (each % 8)) if draw.kind == "indefinite" else 1 + each / DISTINCT
        A = scaled(A, scale[:, None, None])
    if draw.precision.complex and A.dtype.kind != "c" and "real" not in family.traits:
        A = _made_complex(family, draw, A)
    return A if draw.kind == "general" else _hermitian(A)


def _check(family: Family, kind: str, m: int, n: int, precision: Precision) -> None:
    if kind not in family.kinds:
        raise ValueError(f"family {family.name} has no kind {kind!r}, only {sorted(family.kinds)}")
    if m != n and (kind != "general" or "square" in family.traits):
        raise ValueError(f"family {family.name}, {kind}: {m} x {n} is not square")
    if min(m, n) < 0:
        raise ValueError(f"{m} x {n} is not a shape")
    if "complex" in family.traits and not precision.complex:
        raise ValueError(f"family {family.name} is complex, {precision.name} is not")


def _generator(*key: object) -> np.random.Generator:
    seed = hashlib.sha256(repr(key).encode()).digest()[:16]
    return np.random.Generator(np.random.Philox(key=int.from_bytes(seed, "little")))


def _assignment(rng: np.random.Generator, total: int, k: int) -> NDArray[np.int64]:
    """The k matrices in order, then at random, no two neighbours the same."""
    steps = np.ones(total, np.int64)
    if total > k > 1:
        steps[k:] = rng.integers(1, k, total - k)
    return (np.add.accumulate(steps) - 1) % max(k, 1)


def _made_complex(family: Family, draw: Draw, A: Array) -> Array:
    """``D1 A D2`` (Hermitian: ``D A Dh``) with unitary diagonals, exact ones for exact families."""
    exact = not family.traits.isdisjoint(("exact", "integer", "subnormal"))
    left = draw.quarters(draw.m, 1) if exact else draw.phases(draw.m)
    if draw.kind != "general":
        right = (left[0], -left[1])
    else:
        right = draw.quarters(draw.n, 0) if exact else draw.phases(draw.n)
    once = rotate_phases(A, left)
    return rotate_phases(once.swapaxes(-1, -2), right).swapaxes(-1, -2)


def _hermitian(A: Array) -> Array:
    """The lower triangle of A, mirrored, with a real diagonal."""
    n = A.shape[-1]
    if A.dtype.kind != "c":
        return np.where(_lower(n), A, A.swapaxes(-1, -2))
    A = np.where(_lower(n), A, A.swapaxes(-1, -2).conj())
    A.imag[:, range(n), range(n)] = 0
    return A


def _lower(n: int) -> NDArray[np.bool_]:
    return np.arange(n)[:, None] >= np.arange(n)


def _digest(rounded: Array, index: NDArray[np.int64], batch: tuple[int, ...]) -> str:
    hashed = hashlib.sha256(repr((rounded.shape, rounded.dtype.name, tuple(batch))).encode())
    hashed.update(rounded.astype(rounded.dtype.newbyteorder("<"), copy=False).tobytes())
    hashed.update(index.astype("<i8", copy=False).tobytes())
    return hashed.hexdigest()[:16]


# ---- A batch of several families -----------------------------------------------------------

_MIXTURE = {
    "general": ("null-space", "random", "zero", "geometric", "identity", "ones", "graded-columns"),
    "hermitian": ("null-space", "random", "zero", "geometric", "identity", "ones", "wilkinson"),
    "definite": ("geometric", "identity", "graded-both", "moderate", "integer", "hilbert"),
}


@family(120, "mixed", "ghd")
def mixed(draw: Draw) -> Array:
    """Neighbours of different families, so that what leaks between batch elements is seen."""
    return _alternating(draw, _MIXTURE[draw.kind])


@family(121, "some-fail", "i", "fails")
def some_fail(draw: Draw) -> Array:
    """Every other matrix is definite, and the first one unless it is alone."""
    out = _alternating(draw, ("indefinite-last", "singular-row", "indefinite-integer"))
    if draw.k > 1:
        sound = replace(draw, kind="definite", k=(draw.k + 1) // 2)
        out[::2] = realise(FAMILIES["moderate"], sound)
    return out


def _alternating(draw: Draw, names: tuple[str, ...]) -> Array:
    out = np.empty((draw.k, draw.m, draw.n), draw.precision.wide)
    for first, name in enumerate(names[: draw.k]):
        count = len(range(first, draw.k, len(names)))
        out[first :: len(names)] = realise(FAMILIES[name], replace(draw, k=count))
    return out


def families_table() -> str:
    """The families as a Markdown table, for the documentation."""
    rows = ["| no. | family | kinds | traits | what it is |", "|---:|---|---|---|---|"]
    for each in sorted(FAMILIES.values(), key=lambda f: f.number):
        kinds = " ".join(kind for kind in KINDS if kind in each.kinds)
        traits = " ".join(sorted(each.traits))
        doc = each.doc.replace("|", r"\|")
        rows.append(f"| {each.number} | `{each.name}` | {kinds} | {traits} | {doc} |")
    return "\n".join(rows) + "\n"


__all__ = ["DISTINCT", "Sample", "families_table", "realise", "sample"]
