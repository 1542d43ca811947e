"""Families 1-39: a prescribed spectrum, as LAPACK's xLATMS has, and nearly solved ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from conformance.matrices.draw import (
    Array,
    Draw,
    Floats,
    diagonal,
    geometric,
    grid,
    lifted,
    log2,
    symmetric,
    with_spectrum,
)
from conformance.matrices.family import add, family

Spectrum = Callable[[Draw], Floats]


def spectrum(
    number: int, name: str, kinds: str = "ghd", traits: str = "full-rank"
) -> Callable[[Spectrum], Spectrum]:
    """Register the dense matrices whose values a function gives, positive, (p,) or (k, p)."""

    def register(values: Spectrum) -> Spectrum:
        def build(draw: Draw) -> Array:
            return with_spectrum(draw, values(draw))

        add(number, name, values.__doc__ or "", kinds, traits, build)
        return values

    return register


# ---- Dense matrices of a spectrum ----------------------------------------------------------


def _steep(draw: Draw) -> float:
    """The condition of an ill-conditioned matrix of full rank."""
    return 0.1 / draw.eps


def _exponent(x: float) -> int:
    return int(np.frexp(x)[1])


@spectrum(1, "well-conditioned")
def well_conditioned(draw: Draw) -> Floats:
    """Condition 2, equal ratios."""
    return geometric(draw.p, 2)


@spectrum(2, "moderate")
def moderate(draw: Draw) -> Floats:
    """Condition 10, equal ratios."""
    return geometric(draw.p, 10)


@spectrum(3, "one-large")
def one_large(draw: Draw) -> Floats:
    """xLATMS mode 1: one value is 1, the rest 10 eps."""
    return np.where(np.arange(draw.p) == 0, 1.0, 1 / _steep(draw))


@spectrum(4, "one-small")
def one_small(draw: Draw) -> Floats:
    """xLATMS mode 2: all values are 1 but one of 10 eps."""
    return np.where(np.arange(1, draw.p + 1) == max(draw.p, 2), 1 / _steep(draw), 1.0)


@spectrum(5, "geometric")
def geometric_values(draw: Draw) -> Floats:
    """xLATMS mode 3: from 1 to 10 eps at equal ratios."""
    return geometric(draw.p, _steep(draw))


@spectrum(6, "arithmetic")
def arithmetic(draw: Draw) -> Floats:
    """xLATMS mode 4: from 1 to 10 eps in equal steps."""
    return 1 - np.arange(draw.p) / max(draw.p - 1, 1) * (1 - 1 / _steep(draw))


@spectrum(7, "log-uniform")
def log_uniform(draw: Draw) -> Floats:
    """xLATMS mode 5: random in every binary order from 1 to 16 eps."""
    return draw.log_uniform(-_exponent(draw.eps) - 3, draw.p)


@spectrum(8, "random-values", traits="")
def random_values(draw: Draw) -> Floats:
    """xLATMS mode 6: values random in (0, 1)."""
    return draw.rng.random((draw.k, draw.p))


@spectrum(9, "geometric-reversed")
def geometric_reversed(draw: Draw) -> Floats:
    """xLATMS mode -3: from 10 eps up to 1."""
    return geometric_values(draw)[::-1]


@spectrum(10, "scaled-up", traits="full-rank extreme")
def scaled_up(draw: Draw) -> Floats:
    """Mode 4 times sqrt(overflow)/4: squares nearly overflow."""
    return arithmetic(draw) * 2.0 ** (_exponent(draw.precision.max) // 2 - 2)


@spectrum(11, "scaled-down", traits="full-rank extreme")
def scaled_down(draw: Draw) -> Floats:
    """Mode 4 times 4 sqrt(underflow): most squares underflow."""
    return arithmetic(draw) * 2.0 ** (_exponent(draw.precision.tiny) // 2 + 2)


@spectrum(12, "huge", traits="full-rank extreme")
def huge(draw: Draw) -> Floats:
    """Condition 10, the largest value 2^-8 of overflow."""
    return moderate(draw) * 2.0 ** (_exponent(draw.precision.max) - 8)


@spectrum(13, "tiny", traits="full-rank extreme")
def tiny(draw: Draw) -> Floats:
    """Condition 10, the largest value the smallest normal number over eps."""
    return moderate(draw) * (draw.precision.tiny / draw.eps)


@spectrum(14, "null-space", "gh", "rank-deficient")
def null_space(draw: Draw) -> Floats:
    """Half of the values are zero, the rest have condition 10."""
    return moderate(draw) * (np.arange(draw.p) < (draw.p + 1) // 2)


@spectrum(15, "rank-one", "gh", "rank-deficient")
def rank_one(draw: Draw) -> Floats:
    """One value is 1, all others are zero."""
    return (np.arange(draw.p) == 0).astype(np.float64)


@spectrum(16, "noise-tail", "gh", "rank-deficient")
def noise_tail(draw: Draw) -> Floats:
    """Numerically rank-deficient: the last third of the values lie below eps."""
    s = moderate(draw)
    return np.where(3 * np.arange(draw.p) < 2 * draw.p, s, s * draw.eps / 4)


@spectrum(17, "clustered")
def clustered(draw: Draw) -> Floats:
    """Three clusters, at 1, 1/2 and about sqrt(eps), of values 2 eps apart."""
    centre = np.array([1.0, 0.5, 2.0 ** (_exponent(draw.eps) // 2)])
    index = np.arange(draw.p)
    return centre[index * 3 // max(draw.p, 1)] * (1 - 2 * draw.eps * (index % 5))


@spectrum(18, "repeated")
def repeated(draw: Draw) -> Floats:
    """Values 4, 2 and 1, each repeated."""
    return np.array([4.0, 2.0, 1.0])[np.arange(draw.p) * 3 // max(draw.p, 1)]


@spectrum(19, "orthogonal")
def orthogonal(draw: Draw) -> Floats:
    """A dense unitary matrix: all singular values are 1."""
    return np.ones(draw.p)


@family(20, "plus-minus-pairs", "h", "full-rank")
def plus_minus_pairs(draw: Draw) -> Array:
    """Eigenvalues in pairs +-s, so that eigenvalues of equal modulus must be told apart."""
    s = np.repeat(geometric((draw.p + 1) // 2, 10), 2)[: draw.p]
    return with_spectrum(draw, s * np.where(np.arange(draw.p) % 2, -1, 1), signed=True)


@family(21, "golub-kahan", "gh")
def golub_kahan(draw: Draw) -> Array:
    """[[0, B], [Bh, 0]] of condition 10: values in pairs, and no diagonal block to start from."""
    m, n = draw.m // 2, draw.n // 2
    out = np.zeros((draw.k, draw.m, draw.n), draw.precision.wide)
    corner = replace(draw, kind="general", m=m, n=draw.n - n)
    block = with_spectrum(corner, geometric(corner.p, 10))
    out[:, :m, n:] = block
    if draw.kind == "hermitian":
        out[:, m:, :m] = 0
        out[:, n:, :m] = block.conj().swapaxes(-1, -2)
    else:
        other = replace(draw, m=draw.m - m, n=n)
        out[:, m:, :n] = with_spectrum(other, geometric(other.p, 10))
    return out


# ---- Diagonals: the answer is known without any arithmetic ---------------------------------


@family(22, "zero", "gh", "exact integer rank-deficient real")
def zero(draw: Draw) -> Array:
    """All zeros, which must be factored exactly."""
    return np.zeros((draw.m, draw.n))


@family(23, "identity", "ghd", "exact integer full-rank real")
def identity(draw: Draw) -> Array:
    """Ones on the diagonal."""
    return np.eye(draw.m, draw.n)


@family(24, "diagonal-sorted", "ghd", "exact full-rank")
def diagonal_sorted(draw: Draw) -> Array:
    """A descending positive diagonal with random steps."""
    return diagonal(np.sort(1 + draw.uniform(draw.p) / 2)[:, ::-1], draw.m, draw.n)


@family(25, "diagonal-unsorted", "ghd", "exact full-rank")
def diagonal_unsorted(draw: Draw) -> Array:
    """A diagonal in random order, of both signs unless definite."""
    s = 1 + draw.uniform(draw.p) / 2
    return diagonal(s if draw.kind == "definite" else s * draw.signs(draw.p), draw.m, draw.n)


@family(26, "diagonal-repeated", "ghd", "exact integer full-rank")
def diagonal_repeated(draw: Draw) -> Array:
    """A diagonal of few integers in random order, each repeated."""
    return diagonal(draw.integers(1, 3, draw.p), draw.m, draw.n)


@family(27, "diagonal-graded", "ghd", "exact")
def diagonal_graded(draw: Draw) -> Array:
    """An ascending diagonal from eps^2 to 1: sorting, and no rotation, is all it takes."""
    s = geometric(draw.p, draw.eps**-2)[::-1] * np.ones((draw.k, 1))
    return diagonal(s * (1 + draw.uniform(draw.p) / 8), draw.m, draw.n)


@family(28, "diagonal-with-zeros", "gh", "exact integer rank-deficient")
def diagonal_with_zeros(draw: Draw) -> Array:
    """A diagonal of integers whose every other entry is zero, the first included."""
    s = draw.integers(1, 9, draw.p) * draw.signs(draw.p) * (np.arange(draw.p) % 2)
    return diagonal(s, draw.m, draw.n)


@family(29, "nearly-diagonal", "ghd", "full-rank")
def nearly_diagonal(draw: Draw) -> Array:
    """A diagonal graded down to 100 n eps plus noise of relative size eps."""
    s = lifted(draw, geometric(draw.p, 0.1 / draw.eps))
    noise = draw.dense(draw.m, draw.n)
    if draw.kind != "general":
        noise = noise + noise.conj().swapaxes(-1, -2)
    return diagonal(s[None], draw.m, draw.n) + noise * (draw.eps / 2)


@family(30, "nearly-triangular", "g", "full-rank")
def nearly_triangular(draw: Draw) -> Array:
    """Upper triangular but for entries from sqrt(eps) to 1/8 below a positive diagonal: a
    reflector that does not mind its sign cancels."""
    i, j = grid(draw)
    A = draw.dense(draw.m, draw.n) * (1 / max(draw.p, 1))
    steps = draw.integers(3, -log2(draw.eps) // 2, draw.m, draw.n)
    A = np.where(i > j, np.ldexp(1.0, -steps.astype(np.intc)) * A, A)
    index = np.arange(draw.p)
    A[:, index, index] = 1.5 + draw.uniform(draw.p) / 2
    return A


@family(31, "two-blocks", "ghd")
def two_blocks(draw: Draw) -> Array:
    """Two dense halves on the diagonal: what is divided in two is conquered without a coupling."""
    i, j = grid(draw)
    half = max(1, -(-draw.n // 2))
    A = np.where(i // half == j // half, symmetric(draw, draw.dense(draw.m, draw.n)), 0.0)
    return A + np.eye(draw.n) * (4.0 * half) if draw.kind == "definite" else A
