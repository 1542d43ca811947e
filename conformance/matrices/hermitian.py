"""Families 80-99: Hermitian and definite matrices, and those that Cholesky must refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.matrices.draw import (
    Array,
    Draw,
    Floats,
    geometric,
    powers,
    shifted,
    short,
    with_spectrum,
)
from conformance.matrices.family import add, family

# ---- Kernels and covariances ---------------------------------------------------------------


def _points(draw: Draw) -> Floats:
    """n different integers in increasing order, ``(k, n)``."""
    return np.add.accumulate(draw.integers(1, 2, draw.n), axis=1)


def _distances(draw: Draw) -> Floats:
    points = _points(draw)
    return np.abs(points[:, :, None] - points[:, None, :])


@family(80, "gaussian-kernel", "hd", "full-rank")
def gaussian_kernel(draw: Draw) -> Array:
    """exp(-d^2/8) of points on a line plus I/2: entries underflow away from the diagonal."""
    square = np.minimum(_distances(draw) ** 2, 6000).astype(np.int64)
    return powers(short(np.exp(-1 / 8)), 6001)[square] + np.eye(draw.n) / 2


@family(81, "matern-kernel", "hd")
def matern_kernel(draw: Draw) -> Array:
    """Matern 3/2, (1 + r) exp(-r), of close points: at the limit of definiteness, safely inside."""
    distance = _distances(draw)
    decay = powers(short(np.exp(-1 / 16)), 2 * draw.n + 1)
    K = (1 + distance / 16) * decay[distance.astype(np.int64)]
    return shifted(draw, K)


@family(82, "correlation", "hd", "full-rank")
def correlation(draw: Draw) -> Array:
    """A covariance of condition 10 scaled to a unit diagonal."""
    s = geometric(draw.n, 10)
    A = with_spectrum(replace(draw, kind="definite"), s)
    scale = 1 / np.sqrt(np.diagonal(A, axis1=-2, axis2=-1).real)
    A = A * scale[:, :, None] * scale[:, None, :]
    A[:, range(draw.n), range(draw.n)] = 1
    return A


@family(83, "tiny-imaginary", "ghd", "complex")
def tiny_imaginary(draw: Draw) -> Array:
    """Real but for imaginary parts of a few eps, as rounding leaves behind."""
    real = replace(draw, precision=replace(draw.precision, complex=False))
    noise = draw.uniform(draw.m, draw.n) * (4 * draw.eps)
    out = with_spectrum(real, geometric(draw.p, 10)).astype(np.complex128)
    out.imag = noise if draw.kind == "general" else noise - noise.swapaxes(-1, -2)
    return out


@family(84, "exchange", "h", "exact integer full-rank real")
def exchange(draw: Draw) -> Array:
    """Ones on the anti-diagonal: eigenvalues +-1 only, zeros on the diagonal."""
    return np.eye(draw.n)[::-1]


@family(85, "saddle-point", "h", "full-rank")
def saddle_point(draw: Draw) -> Array:
    """Half of the eigenvalues positive, half negative, far apart in size."""
    s = geometric(draw.n, 10)
    return with_spectrum(draw, np.where(np.arange(draw.n) < draw.n // 2, s, -s / 1024), True)


@family(86, "one-negative", "h", "full-rank")
def one_negative(draw: Draw) -> Array:
    """All eigenvalues near 1 but one of -1, the one of largest modulus by a hair."""
    s = geometric(draw.n, 2)
    return with_spectrum(draw, np.where(np.arange(draw.n) == 0, -s - draw.eps, s), True)


# ---- Refused by Cholesky at a known order --------------------------------------------------


def _sound(draw: Draw) -> Array:
    """A definite matrix of condition 10."""
    return with_spectrum(replace(draw, kind="definite"), geometric(draw.n, 10))


def _negated(draw: Draw, where: str) -> Array:
    """Definite but for one diagonal entry, whose sign is turned: that pivot is negative."""
    A, n = _sound(draw), draw.n
    if n:
        at = {"first": 0, "middle": n // 2, "last": n - 1}.get(where, -1)
        index = draw.rng.integers(0, n, draw.k) if at < 0 else np.full(draw.k, at)
        A[np.arange(draw.k), index, index] *= -1
    return A


_MINORS = (
    (87, "first", "the first, order 1"),
    (88, "middle", "the middle one, order n // 2 + 1"),
    (89, "last", "the last, order n"),
    (90, "random", "one at random"),
)
for _number, _where, _text in _MINORS:
    add(
        _number,
        f"indefinite-{_where}",
        f"Condition 10 but for one negative entry on the diagonal: {_text}.",
        "i",
        "fails",
        lambda draw, where=_where: _negated(draw, where),  # type: ignore[misc]
    )


def _integer_ldl(draw: Draw, pivot: float) -> Array:
    """``L D Lh``, L unit lower of integers -1, 0, 1, D = I but for one ``pivot`` past the first."""
    L = np.tril(draw.integers(-1, 1, draw.n, draw.n), -1) + np.eye(draw.n)
    L[:, 1:, :1] = 1
    D = np.ones((draw.k, draw.n))
    if draw.n:
        D[np.arange(draw.k), draw.rng.integers(min(1, draw.n - 1), draw.n, draw.k)] = pivot
    return np.matmul(L * D[:, None, :], L.swapaxes(-1, -2))


@family(91, "indefinite-integer", "i", "fails integer")
def indefinite_integer(draw: Draw) -> Array:
    """Integers, every pivot exactly 1 but one of exactly -1; no diagonal entry is negative."""
    return _integer_ldl(draw, -1)


@family(92, "singular-integer", "i", "fails integer rank-deficient")
def singular_integer(draw: Draw) -> Array:
    """Integers, every pivot exactly 1 but one of exactly 0."""
    return _integer_ldl(draw, 0)


@family(93, "singular-row", "i", "fails rank-deficient")
def singular_row(draw: Draw) -> Array:
    """Condition 10 with a random row and column of zeros: that pivot is exactly 0."""
    A = _sound(draw)
    if draw.n:
        at, each = draw.rng.integers(0, draw.n, draw.k), np.arange(draw.k)
        A[each, at] = 0
        A[each, :, at] = 0
    return A


@family(94, "negative-definite", "i", "fails")
def negative_definite(draw: Draw) -> Array:
    """Minus a definite matrix: the first minor already fails."""
    return -_sound(draw)


@family(95, "ones-and-twos", "i", "fails integer")
def ones_and_twos(draw: Draw) -> Array:
    """Ones on the diagonal and twos off it, as in [[1, 2], [2, 1]]: the second minor is -3."""
    A = 2 - np.eye(draw.n) if draw.n > 1 else -np.eye(draw.n)
    return A * (1 + np.arange(draw.k) / 64)[:, None, None]


@family(96, "zero-diagonal", "i", "fails integer rank-deficient")
def zero_diagonal(draw: Draw) -> Array:
    """The zero matrix: the first pivot is exactly 0."""
    return np.zeros((draw.n, draw.n))
