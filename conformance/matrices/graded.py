"""Families 68-79: graded, scaled by columns, and at the edge of the subnormal numbers."""

from __future__ import annotations

import numpy as np

from conformance.matrices.draw import (
    Array,
    Draw,
    Floats,
    geometric,
    grid,
    log2,
    scaled,
    symmetric,
    with_spectrum,
)
from conformance.matrices.family import family


def _grades(draw: Draw, n: int) -> Floats:
    """Powers of two from 1 down to about eps."""
    steps = np.arange(n) * -log2(draw.eps) // max(n - 1, 1)
    return np.ldexp(1.0, (-steps).astype(np.intc))


@family(68, "graded-rows", "g")
def graded_rows(draw: Draw) -> Array:
    """D B: rows from 1 down to eps."""
    return draw.dense(draw.m, draw.n) * _grades(draw, draw.m)[:, None]


@family(69, "graded-columns", "g")
def graded_columns(draw: Draw) -> Array:
    """B D: columns from eps up to 1."""
    return draw.dense(draw.m, draw.n) * _grades(draw, draw.n)[::-1]


@family(70, "graded-both", "ghd")
def graded_both(draw: Draw) -> Array:
    """D B D from 1 down to eps^2, B of condition 10: Cholesky succeeds whatever D is."""
    B = with_spectrum(draw, geometric(draw.p, 10))
    return B * _grades(draw, draw.m)[:, None] * _grades(draw, draw.n)


@family(71, "graded-up", "hd")
def graded_up(draw: Draw) -> Array:
    """D B D from eps^2 up to 1: the large entries come last."""
    B = with_spectrum(draw, geometric(draw.p, 10))
    grades = _grades(draw, draw.n)[::-1]
    return B * grades[:, None] * grades


def _column_scaled(draw: Draw, order: str) -> Array:
    """B D with B of condition 10 and D from 1 down to eps^2; ``D B`` where ``m < n``."""
    p = draw.p
    exponents = np.arange(p) * -2 * log2(draw.eps) // max(p - 1, 1)
    D = np.ldexp(1.0, (-exponents).astype(np.intc))
    scale = {"descending": D, "ascending": D[::-1], "random": draw.rng.permutation(D)}[order]
    B = with_spectrum(draw, geometric(p, 10))
    return B * scale[:, None] if draw.m < draw.n else B * scale


@family(72, "column-scaled-descending", "g", "column-scaled")
def column_scaled_descending(draw: Draw) -> Array:
    """B D, B of condition 10, D from 1 down to eps^2; Jacobi gets every value to full accuracy."""
    return _column_scaled(draw, "descending")


@family(73, "column-scaled-ascending", "g", "column-scaled")
def column_scaled_ascending(draw: Draw) -> Array:
    """B D as above, the small columns first."""
    return _column_scaled(draw, "ascending")


@family(74, "column-scaled-random", "g", "column-scaled")
def column_scaled_random(draw: Draw) -> Array:
    """B D as above, the columns in random order."""
    return _column_scaled(draw, "random")


@family(75, "subnormal", "gh", "subnormal extreme integer")
def subnormal(draw: Draw) -> Array:
    """Integers up to 1000 times the smallest subnormal."""
    A = draw.integers(-500, 500, draw.m, draw.n)
    return symmetric(draw, A) * draw.precision.smallest


@family(76, "partly-subnormal", "ghd", "subnormal")
def partly_subnormal(draw: Draw) -> Array:
    """Condition 10 plus entries off the diagonal, a fifth of them, that are subnormal."""
    i, j = grid(draw)
    A = with_spectrum(draw, geometric(draw.p, 10))
    replaced = ((i + j) % 5 == 3) & (i != j)
    if draw.kind == "definite":
        A = A + np.eye(draw.n) * 2.0 * max(draw.n, 1)
    return np.where(replaced, 37 * draw.precision.smallest, A)


@family(79, "huge-and-tiny", "gh", "extreme")
def huge_and_tiny(draw: Draw) -> Array:
    """Entries at three quarters of the exponents of overflow and of underflow, by turns."""
    i, j = grid(draw)
    A = symmetric(draw, draw.dense(draw.m, draw.n))
    highest, lowest = (log2(x) for x in (draw.precision.max, draw.precision.tiny))
    exponents = np.where((i + j) % 2 == 0, 3 * highest // 4, 3 * lowest // 4)
    return scaled(A, np.ldexp(1.0, exponents))
