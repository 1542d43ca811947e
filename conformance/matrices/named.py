"""Families 40-67: named and structured matrices, most of them from the literature.

Real builders suffice: in complex dtypes the table's user multiplies by unitary diagonals.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.matrices.draw import (
    Array,
    Draw,
    adjoint,
    geometric,
    grid,
    log2,
    powers,
    shifted,
    symmetric,
)
from conformance.matrices.family import family

# ---- Plain ---------------------------------------------------------------------------------


@family(40, "random", "gh")
def random(draw: Draw) -> Array:
    """Independent entries, uniform in (-1, 1) or the square: what most tests elsewhere use."""
    return symmetric(draw, draw.dense(draw.m, draw.n))


@family(41, "positive", "g")
def positive(draw: Draw) -> Array:
    """Independent entries in (0, 1): one value far above all others."""
    return draw.rng.random((draw.k, draw.m, draw.n))


@family(42, "integer", "ghd", "integer")
def integer(draw: Draw) -> Array:
    """Small integers; a dominant diagonal where definite."""
    A = symmetric(draw, draw.integers(-9, 9, draw.m, draw.n))
    if draw.kind == "definite":
        A = A + np.eye(draw.n) * (18.0 * draw.n + 1)
    return A


@family(43, "ones", "gh", "integer rank-deficient")
def ones(draw: Draw) -> Array:
    """All ones: rank one, exactly."""
    return np.ones((draw.m, draw.n))


@family(44, "signed-zeros", "gh", "integer")
def signed_zeros(draw: Draw) -> Array:
    """+0 and -0 in random places, one entry in four -1 or 1."""
    entries = draw.integers(1, 4, draw.m, draw.n) == 4
    return np.copysign(entries.astype(np.float64), draw.signs(draw.m, draw.n))


@family(45, "permutation", "gh", "exact integer full-rank")
def permutation(draw: Draw) -> Array:
    """A permutation with signs, or powers of i (Hermitian: one that is its own inverse)."""
    A = np.zeros((draw.k, draw.m, draw.n), draw.precision.wide)
    re, im = draw.quarters(draw.p, 1)
    phase = re + 1j * im if draw.precision.complex else re - im
    for a, q in zip(A, phase, strict=True):
        rows, columns = draw.rng.permutation(draw.m), draw.rng.permutation(draw.n)
        if draw.kind == "general":
            a[rows[: draw.p], columns[: draw.p]] = q
            continue
        half = draw.n // 2
        first, second, fixed = rows[:half], rows[half : 2 * half], rows[2 * half :]
        a[first, second], a[second, first] = q[:half], q[:half].conj()
        a[fixed, fixed] = 1
    return A


@family(46, "hadamard", "gh", "integer")
def hadamard(draw: Draw) -> Array:
    """Entries +-1 in Sylvester's pattern: all values equal when the order is a power of two."""
    parity = np.arange(draw.m)[:, None] & np.arange(draw.n)
    for shift in (16, 8, 4, 2, 1):
        parity = parity ^ (parity >> shift)
    return 1.0 - 2.0 * (parity & 1)


# ---- Rank ----------------------------------------------------------------------------------


@family(47, "low-rank-integer", "gh", "integer rank-deficient")
def low_rank_integer(draw: Draw) -> Array:
    """A product of integer factors: exactly half of full rank."""
    rank = draw.p // 2
    X = draw.integers(-2, 2, draw.m, rank)
    Y = X if draw.kind == "hermitian" else draw.integers(-2, 2, draw.n, rank)
    return np.matmul(X * draw.signs(1, rank), Y.swapaxes(-1, -2))


@family(48, "dependent-column", "g", "integer rank-deficient")
def dependent_column(draw: Draw) -> Array:
    """Integers; the last column is the sum of the first two, the last row of the first two."""
    A = draw.integers(-9, 9, draw.m, draw.n)
    if draw.n > 1:
        A[:, :, -1] = A[:, :, :2].sum(-1) if draw.n > 2 else A[:, :, 0]
    if draw.m > 1:
        A[:, -1] = A[:, :2].sum(-2) if draw.m > 2 else A[:, 0]
    return A


@family(49, "equal-norm-columns", "gh", "integer rank-deficient")
def equal_norm_columns(draw: Draw) -> Array:
    """Columns equal in pairs, as in [[1, 1], [2, 2]]: correlated, of equal norm, half the rank."""
    A = draw.integers(1, 9, draw.m, draw.n)
    A[:, :, 1::2] = A[:, :, 0::2][:, :, : draw.n // 2]
    if draw.kind == "hermitian":
        A = A + A.swapaxes(-1, -2)
        A[:, :, 1::2] = A[:, :, 0::2][:, :, : draw.n // 2]
        A[:, 1::2] = A[:, 0::2][:, : draw.n // 2]
    return A


@family(50, "zero-columns", "gh", "rank-deficient")
def zero_columns(draw: Draw) -> Array:
    """Every third column is zero, the first included, the last row too (Hermitian: likewise)."""
    A = symmetric(draw, draw.dense(draw.m, draw.n))
    A[:, :, ::3] = 0
    A[:, -1:] = 0
    if draw.kind == "hermitian":
        A[:, ::3] = 0
        A[:, :, -1:] = 0
    return A


@family(51, "zero-rows", "g", "rank-deficient")
def zero_rows(draw: Draw) -> Array:
    """Every other row is zero, the first included; the last column too."""
    A = draw.dense(draw.m, draw.n)
    A[:, ::2] = 0
    A[:, :, -1:] = 0
    return A


@family(52, "wide-range-rank-one", "gh", "rank-deficient")
def wide_range_rank_one(draw: Draw) -> Array:
    """The outer product t th of numbers from 1 to eps: a gradient's covariance."""
    orders = -log2(draw.eps)
    t = draw.log_uniform(orders, draw.m, 1) * draw.signs(draw.m, 1)
    u = t if draw.kind == "hermitian" else draw.log_uniform(orders, draw.n, 1)
    return t * u.swapaxes(-1, -2)


# ---- Textbook ------------------------------------------------------------------------------


@family(53, "hilbert", "ghd")
def hilbert(draw: Draw) -> Array:
    """1/(i + j + 1), shifted just enough where definite."""
    i, j = grid(draw)
    A = 1 / (i + j + 1)
    return shifted(draw, A) if draw.kind == "definite" else A


@family(54, "kahan", "g", "triangular")
def kahan(draw: Draw) -> Array:
    """Kahan's triangle: its smallest value is far below every diagonal entry."""
    i, j = grid(draw)
    cosine, sine = 0.28, 0.96
    return powers(sine, draw.m)[:, None] * np.where(i == j, 1.0, np.where(i < j, -cosine, 0.0))


@family(55, "lauchli", "g")
def lauchli(draw: Draw) -> Array:
    """A row of ones above sqrt(eps)/2 times I: squaring it loses the rank."""
    i, j = grid(draw)
    mu = 2.0 ** (log2(draw.eps) // 2 - 1)
    return np.where(i == 0, 1.0, np.where(i == j + 1, mu, 0.0))


@family(56, "vandermonde", "g")
def vandermonde(draw: Draw) -> Array:
    """Powers of m equally spaced nodes in [-1, 1]."""
    nodes = np.arange(1 - draw.m, draw.m, 2, dtype=np.float64) / max(draw.m - 1, 1)
    A = np.ones((draw.m, draw.n))
    A[:, 1:] = nodes[:, None]
    return np.multiply.accumulate(A, axis=1)


@family(57, "toeplitz", "ghd")
def toeplitz(draw: Draw) -> Array:
    """Constant along diagonals: random, or 2^-|i-j| where definite."""
    i, j = grid(draw)
    offset = (i - j).astype(np.int64)
    if draw.kind == "definite":
        return powers(0.5, draw.n)[np.abs(offset)]
    if draw.kind == "hermitian":
        return draw.uniform(draw.n)[:, np.abs(offset)]
    return draw.uniform(draw.m + draw.n)[:, offset + draw.n - 1]


@family(58, "frank", "g", "integer")
def frank(draw: Draw) -> Array:
    """Frank's upper Hessenberg integers, ill-conditioned with determinant 1 when square."""
    i, j = grid(draw)
    return np.where(j >= i - 1, max(draw.m, draw.n) - np.maximum(i, j), 0.0)


@family(59, "companion", "g")
def companion(draw: Draw) -> Array:
    """Of the truncated exponential series: n!/k! (at most eps^-4) over a subdiagonal of ones."""
    i, j = grid(draw)
    falling = np.multiply.accumulate(np.minimum(np.arange(draw.n, 0, -1.0), 2.0**10))
    top = np.minimum(falling, draw.eps**-4)
    return np.where(i == 0, -top, np.where(i == j + 1, 1.0, 0.0))


@family(60, "wilkinson", "gh")
def wilkinson(draw: Draw) -> Array:
    """W+: |i - c| on the diagonal, ones beside it; pairs of values agree to many digits."""
    i, j = grid(draw)
    return np.where(i == j, np.abs(i - (draw.p - 1) / 2), np.where(np.abs(i - j) == 1, 1.0, 0.0))


@family(61, "upper-triangular", "g", "full-rank triangular")
def upper_triangular(draw: Draw) -> Array:
    """A random upper triangle with a dominant diagonal."""
    A = np.triu(draw.dense(draw.m, draw.n), 1) * (1 / max(draw.p, 1))
    index = np.arange(draw.p)
    A[:, index, index] = 1.5 + draw.uniform(draw.p) / 2
    return A


@family(62, "lower-triangular", "g", "full-rank triangular")
def lower_triangular(draw: Draw) -> Array:
    """A random lower triangle with a dominant diagonal."""
    turned = replace(draw, m=draw.n, n=draw.m)
    return adjoint(upper_triangular(turned))


@family(63, "nearly-degenerate", "g", "full-rank triangular")
def nearly_degenerate(draw: Draw) -> Array:
    """Upper triangular, I plus a few eps: all values nearly equal, none quite."""
    i, j = grid(draw)
    noise = np.where(i <= j, draw.uniform(draw.m, draw.n), 0.0)
    return np.eye(draw.m, draw.n) + noise * (4 * draw.eps)


@family(64, "tridiagonal", "ghd")
def tridiagonal(draw: Draw) -> Array:
    """Three random diagonals, or -1, 2, -1 (shifted) where definite."""
    i, j = grid(draw)
    if draw.kind == "definite":
        return shifted(draw, np.where(i == j, 2.0, np.where(np.abs(i - j) == 1, -1.0, 0.0)))
    return symmetric(draw, np.where(np.abs(i - j) <= 1, draw.uniform(draw.m, draw.n), 0.0))


@family(65, "bidiagonal", "g", "triangular")
def bidiagonal(draw: Draw) -> Array:
    """Ones on the diagonal and next to it, graded by columns: a case for xBDSQR alone."""
    i, j = grid(draw)
    scale = geometric(draw.n, 1 / draw.eps) * (1 + draw.uniform(draw.n) / 8)
    return np.where((i == j) | (i == j - 1), 1.0, 0.0) * scale[:, None, :]


@family(66, "block-diagonal", "ghd")
def block_diagonal(draw: Draw) -> Array:
    """Dense blocks of order up to 3 on the diagonal: it splits."""
    i, j = grid(draw)
    A = np.where(i // 3 == j // 3, symmetric(draw, draw.dense(draw.m, draw.n)), 0.0)
    return A + np.eye(draw.n) * 12.0 if draw.kind == "definite" else A


@family(67, "arrow", "ghd")
def arrow(draw: Draw) -> Array:
    """A diagonal, a first row and a first column; a secular equation to solve."""
    i, j = grid(draw)
    A = np.where((i == 0) | (j == 0), symmetric(draw, draw.dense(draw.m, draw.n)), 0.0)
    spread = np.where(i == j, 1 + i / max(draw.p, 1), 0.0)
    if draw.kind == "definite":
        A, spread = A / (4 * max(draw.n, 1)), spread + 1
    return A + spread
