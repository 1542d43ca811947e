"""Profiles: how much is run. Sizes, batches, and what the costly ones are restricted to."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.cases import parse_shape

Shape = tuple[int, ...]


def shapes_of(text: str) -> tuple[Shape, ...]:
    """Shapes from text: "3" is 3 x 3, "3x5" is 3 x 5."""
    return tuple(parse_shape(word if "x" in word else f"{word}x{word}") for word in text.split())


def batches_of(text: str) -> tuple[Shape, ...]:
    """Batches from text: "3x2" is 3 x 2, "single" is no batch at all."""
    return tuple(() if word == "single" else parse_shape(word) for word in text.split())


@dataclass(frozen=True)
class Profile:
    """How much is run. ``conformance`` is False for a mere smoke test.

    ``elements`` bounds batch x m x n, but for heavy batches, which are of tiny matrices.
    """

    name: str
    doc: str
    conformance: bool
    strength: int
    shapes: tuple[Shape, ...]
    batches: tuple[Shape, ...]
    elements: int


_STANDARD_SHAPES = (
    "8 3 5x3 3x5 33 16 65x64 64 1 2 17 32 31 4 5 7 15 63 64x65 65 127 128 129 0 "
    "0x3 3x0 1x7 7x1 129x1 1x129 8x7 4x5 16x17 33x32 32x16 16x32 65x130 130x65 50x5 5x50 "
    "320x32 32x320 1000x3 3x1000 255 256 257 512 513 1024 1025"
)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "quick",
            "a smoke test, not a conformance run: every pair of axis values",
            conformance=False,
            strength=2,
            shapes=shapes_of("8 5x3 33 3x5 3 1 2 17 50x5 17x65 1x7 0 0x3 129"),
            batches=batches_of("single 7 3x2 64 1 0 911"),
            elements=9_000,
        ),
        Profile(
            "standard",
            "the conformance run: every pair, and the triples with the dtype that matter",
            conformance=True,
            strength=3,
            shapes=shapes_of(_STANDARD_SHAPES),
            batches=batches_of("single 7 3x2 1 2 0 64 65 513 910 911 1025 65535 65536 65537"),
            elements=20_000,
        ),
        Profile(
            "full",
            "nightly: standard, with bigger sizes and batches, and 70,000 calls in a row",
            conformance=True,
            strength=3,
            shapes=shapes_of(_STANDARD_SHAPES + " 2047 2048 2049 4096x8 8x4096 2895 65536x8"),
            batches=batches_of(
                "single 7 3x2 1 2 0 64 65 513 910 911 1025 65535 65536 65537 262145 524281"
            ),
            elements=200_000,
        ),
    )
}
# The families that quick runs derived operations on.
BULK = frozenset(
    {"random", "mixed", "null-space", "moderate", "clustered", "integer", "one-negative"}
)
# The families that are run on heavy shapes and batches: each costs as much as a hundred others.
HEAVY = frozenset({"random", "null-space", "moderate"})
# Operations that share the kernels of another: quick runs them on the families of BULK only, and
# standard asks for pairs without family x shape, not for triples.
DERIVED = frozenset(
    [
        *("svdvals", "eigvalsh", "cholesky_ex", "cholesky_solve", "cholesky_inverse"),
        *("geqrf", "householder_product", "ormqr"),
    ]
)
# Families that quick leaves out, since it runs a similar one; the others run them on SIMPLE shapes.
SIMILAR = frozenset(
    [
        *("one-large", "arithmetic", "log-uniform", "random-values", "geometric-reversed"),
        *("scaled-up", "scaled-down", "kahan", "vandermonde", "frank", "companion"),
        *("toeplitz", "arrow", "bidiagonal", "lower-triangular", "graded-rows", "graded-up"),
        *("column-scaled-descending", "column-scaled-random", "correlation", "matern-kernel"),
        *("noise-tail", "diagonal-sorted", "nearly-diagonal", "well-conditioned", "one-small"),
        *("diagonal-repeated", "hadamard", "dependent-column", "zero-rows", "lauchli", "positive"),
        *("tridiagonal", "block-diagonal", "upper-triangular", "exchange", "saddle-point"),
        *("nearly-triangular", "two-blocks"),
    ]
)
# Sizes between and beyond those that everything is crossed with, and batches of middling matrices.
REGIMES = (
    *((shape, ()) for shape in shapes_of("6 10 14 18 30 50 98 190 200 300 384 700 321x40 40x321")),
    *((shape, ()) for shape in shapes_of("700x90 90x700")),
    *((shape, (64,)) for shape in shapes_of("32 33 24x40 40x24")),
    *((shape, (16,)) for shape in shapes_of("8 65 66x20")),
    *((shape, (100,)) for shape in shapes_of("16 18 5x9")),
    *((shape, (2, 1, 3)) for shape in shapes_of("5 17x6")),
    *((shape, (2, 0)) for shape in shapes_of("3")),
    *((shape, (4096,)) for shape in shapes_of("4 6x5")),
    *((shape, (4,)) for shape in shapes_of("400x3 130")),
    *((shape, (2,)) for shape in shapes_of("512")),
)
REGIMES_QUICK = (
    *((shape, ()) for shape in shapes_of("513 65 256 100 600x8 8x600 65x130 100x90 50 64x63 6x5")),
    *((shape, ()) for shape in shapes_of("7x1")),
    *((shape, (7,)) for shape in shapes_of("130")),
)
# What the heaviest cases are run with.
COMPACT = ("row-major", "column-major")
FIRST = ("reduced", "values", "lower", "packed", "plain", "left-plain")
DERIVED_QUICK = shapes_of("8 5x3 33 3x5 1 0")  # what quick runs derived operations on
SIMPLE = shapes_of("8 33 5x3 3x5 3 2 17 65 50x5 5x50 16 64")
HEAVIEST = (1025, 1025)  # of the heaviest shapes the one that every plain variant is run on
TINY = 9  # elements of a matrix in a heavy batch, at most
