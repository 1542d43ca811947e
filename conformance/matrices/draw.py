"""What the builders are made of: random numbers, unitary mixing, spectra, diagonal phases.

Inputs must be the same bits on every machine, so nothing here calls BLAS, LAPACK or a vectorised
``exp``, ``sin`` or ``pow``: only ``+ - * / sqrt`` on real numbers (IEEE exact), sums in a fixed
order, powers of two, and products of integers small enough to be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.precision import Precision

Array = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Draw:
    """One request to a builder: k matrices of m x n of a kind, rounded later to a precision."""

    rng: np.random.Generator
    kind: str
    k: int
    m: int
    n: int
    precision: Precision

    @property
    def p(self) -> int:
        """The number of singular values."""
        return min(self.m, self.n)

    @property
    def eps(self) -> float:
        """Spacing at 1 of the precision."""
        return self.precision.eps

    @property
    def floor(self) -> float:
        """Smallest eigenvalue over the largest that Cholesky is sure to survive."""
        return min(0.5, 100 * max(self.n, 1) * self.eps)

    def uniform(self, *shape: int) -> Floats:
        """Real numbers in (-1, 1), ``(k, *shape)``."""
        return 2 * self.rng.random((self.k, *shape)) - 1

    def dense(self, *shape: int) -> Array:
        """Numbers in the unit square or (-1, 1), complex where the precision is."""
        if not self.precision.complex:
            return self.uniform(*shape)
        out = np.empty((self.k, *shape), np.complex128)
        out.real, out.imag = self.uniform(*shape), self.uniform(*shape)
        return out

    def integers(self, low: int, high: int, *shape: int) -> Floats:
        """Integers from low to high, both included, ``(k, *shape)``, as floats."""
        return self.rng.integers(low, high + 1, (self.k, *shape)).astype(np.float64)

    def signs(self, *shape: int) -> Floats:
        """-1 or 1."""
        return 2 * self.integers(0, 1, *shape) - 1

    def log_uniform(self, orders: int, *shape: int) -> Floats:
        """Positive numbers from ``2^-orders`` to 1, every binary order as likely."""
        exponent = -self.rng.integers(0, max(1, orders), (self.k, *shape)).astype(np.intc)
        return np.ldexp(0.5 + 0.5 * self.rng.random((self.k, *shape)), exponent)

    def phases(self, n: int) -> tuple[Floats, Floats]:
        """Real and imaginary part of n random numbers on the unit circle, ``(k, n)``."""
        t = self.uniform(n)
        scale, quadrant = 1 / (1 + t * t), self.signs(n)
        return (1 - t * t) * scale * quadrant, 2 * t * scale * quadrant

    def quarters(self, n: int, first: int) -> tuple[Floats, Floats]:
        """The same from {1, i, -1, -i}: exact. Neighbours always differ by an odd power of i."""
        power = (np.arange(n) + first + 2 * self.rng.integers(0, 2, (self.k, n))) % 4
        return np.array([1.0, 0, -1, 0])[power], np.array([0.0, 1, 0, -1])[power]


# ---- Unitary matrices ----------------------------------------------------------------------


class Mixer:
    """k random unitary matrices: a Householder reflector and O(log n) layers of plane rotations.

    Applying one costs O(n log n) per column and leaves no part of the matrix untouched; a few
    reflectors alone would leave it near the identity.
    """

    def __init__(self, draw: Draw, n: int) -> None:
        depth, half = max(n - 1, 0).bit_length(), n // 2
        t = 0.25 + 0.75 * draw.rng.random((depth, draw.k, half, 1))
        scale = 1 / (1 + t * t)
        self.cosine, self.sine = np.ones((depth, draw.k, n, 1)), np.zeros((depth, draw.k, n, 1))
        self.cosine[:, :, :half] = self.cosine[:, :, half : 2 * half] = (1 - t * t) * scale
        self.sine[:, :, :half] = 2 * t * scale
        self.sine[:, :, half : 2 * half] = -self.sine[:, :, :half]
        self.order = draw.rng.random((depth, n)).argsort(axis=1)
        partner = np.arange(n)
        partner[:half], partner[half : 2 * half] = partner[half : 2 * half], partner[:half].copy()
        self.partner = self.order[:, partner]
        self.reflector = (1.25 + 0.75 * draw.uniform(n, 1)) if n > 1 else np.zeros((draw.k, n, 1))
        square = np.add.reduce(self.reflector * self.reflector, axis=1, keepdims=True)
        self.reflected = self.reflector * (2 / np.where(square == 0, 1, square))
        self.phases = [draw.phases(n) for _ in range(2)] if draw.precision.complex else []

    def __call__(self, A: Array) -> Array:
        """The unitary matrices times A, ``(k, n, columns)``."""
        A = rotate_phases(A, self.phases[0]) if self.phases else A
        wide = A.view(np.float64) if A.dtype.kind == "c" else A
        sums = np.add.reduce(self.reflector * wide, axis=1, keepdims=True)
        wide = wide - self.reflected * sums
        layers = zip(self.cosine, self.sine, self.order, self.partner, strict=True)
        for cosine, sine, order, partner in layers:
            other = wide.take(partner, axis=1)
            wide = wide.take(order, axis=1)
            wide *= cosine
            other *= sine
            wide += other
        A = wide.view(np.complex128) if A.dtype.kind == "c" else wide
        return rotate_phases(A, self.phases[1]) if self.phases else A


def rotate_phases(A: Array, phase: tuple[Floats, Floats]) -> Array:
    """``diag(phase) A`` for A ``(k, n, columns)``, real or complex."""
    re, im = phase[0][:, :, None], phase[1][:, :, None]
    out = np.empty(A.shape, np.complex128)
    if A.dtype.kind == "c":
        out.real, out.imag = re * A.real - im * A.imag, re * A.imag + im * A.real
    else:
        out.real, out.imag = re * A, im * A
    return out


def scaled(A: Array, factor: Floats) -> Array:
    """A times real factors, part by part: inf stays inf and -0 stays -0 in complex numbers too."""
    if A.dtype.kind != "c":
        return A * factor
    out = np.empty(A.shape, np.complex128)
    out.real, out.imag = A.real * factor, A.imag * factor
    return out


def adjoint(A: Array) -> Array:
    """The conjugate transpose of a stack, contiguous."""
    return np.ascontiguousarray(A.swapaxes(-1, -2).conj())


def diagonal(s: Array, m: int, n: int) -> Array:
    """``(k, m, n)`` with ``s``, ``(k, p)``, on the diagonal."""
    A = np.zeros((len(s), m, n), s.dtype)
    index = np.arange(s.shape[1])
    A[:, index, index] = s
    return A


def grid(draw: Draw) -> tuple[Floats, Floats]:
    """Row and column numbers as floats, to be broadcast."""
    return np.arange(draw.m, dtype=np.float64)[:, None], np.arange(draw.n, dtype=np.float64)


def log2(power_of_two: float) -> int:
    """Exact, unlike ``np.log2`` on some machines."""
    return int(np.frexp(power_of_two)[1]) - 1


def symmetric(draw: Draw, A: Array) -> Array:
    """``A + Ah`` where a Hermitian matrix is asked for, else A."""
    return A if draw.kind == "general" else A + A.conj().swapaxes(-1, -2)


# ---- Matrices of a spectrum ----------------------------------------------------------------


def with_spectrum(draw: Draw, s: Floats, signed: bool = False) -> Array:
    """A dense matrix of the draw's kind with the values s, ``(p,)`` or ``(k, p)``.

    General: ``U diag(s) V``. Hermitian: ``Q diag(+-s) Qh``, with the signs of s if ``signed``,
    else random ones. Definite: ``Q diag(s) Qh`` with s lifted to the floor.
    """
    s = np.broadcast_to(s, (draw.k, draw.p)).astype(np.float64)
    if draw.kind == "general":
        left = Mixer(draw, draw.m)(diagonal(s, draw.m, draw.n))
        return adjoint(Mixer(draw, draw.n)(adjoint(left)))
    if draw.kind == "definite":
        s = lifted(draw, s)
    elif not signed:
        s = s * draw.signs(draw.p)
    mixer = Mixer(draw, draw.n)
    return mixer(adjoint(mixer(diagonal(s, draw.n, draw.n))))


def lifted(draw: Draw, s: Floats) -> Floats:
    """The positive values s, none less than the floor times the largest."""
    return np.maximum(s, draw.floor * s.max(axis=-1, keepdims=True, initial=0))


def shifted(draw: Draw, A: Array) -> Array:
    """A positive semidefinite A plus the multiple of I that makes its Cholesky certain."""
    out: Array = np.array(A)
    index = np.arange(draw.n)
    bound = np.abs(A).sum(axis=-2).max(axis=-1, initial=0)
    out[..., index, index] += draw.floor * np.asarray(bound)[..., None]
    return out


def powers(ratio: float, n: int) -> Floats:
    """``1, r, r^2, ...``, by repeated multiplication."""
    factors = np.full(n, ratio)
    factors[:1] = 1
    return np.multiply.accumulate(factors)


def short(x: float) -> float:
    """x to 24 bits, so that the last bit of the machine's ``pow`` cannot be seen."""
    return float(np.float32(x))


def geometric(n: int, cond: float) -> Floats:
    """n values from 1 down to 1/cond at equal ratios."""
    return powers(short(cond ** (-1 / max(n - 1, 1))), n)


Builder = Callable[[Draw], Array]
