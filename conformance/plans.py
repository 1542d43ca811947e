"""Plans: what one test function varies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conformance.matrices import Family
from conformance.profiles import FIRST, Shape, shapes_of


@dataclass(frozen=True)
class Plan:
    """What a test function varies. ``families`` selects them, the rest narrows the profile.

    ``dtypes`` and ``exactly`` (shapes), where given, stand instead of the device's and profile's.
    ``streams`` says that it needs a device with streams. A plan of captured calls has ``captured``
    operations, and ``captures`` selects the ways; it ``adds`` its cases to the tests of another
    plan, if it has no test of its own. With ``more_families`` the family is no axis of the covering
    array: so many others follow each case, for which what was compiled for it serves. Without
    ``every_dtype`` not every pair of dtype and capture is met.
    """

    name: str
    doc: str
    families: Callable[[Family, str], bool]
    shapes: Callable[[Shape], bool] = lambda shape: True
    batches: Callable[[Shape], bool] = lambda batch: True
    layouts: Callable[[str], bool] = lambda layout: True
    variants: Callable[[str], bool] = lambda variant: True
    dtypes: tuple[str, ...] = ()
    exactly: tuple[Shape, ...] = ()
    profiles: tuple[str, ...] = ("quick", "standard", "full")
    streams: bool = False
    adds: str = ""
    captured: tuple[str, ...] = ()
    captures: Callable[[str], bool] = lambda capture: True
    more_families: int = 0
    every_dtype: bool = True


_FAILING = ("indefinite-random", "singular-integer", "negative-definite", "some-fail")
# The layouts that a compiler has to tell apart; ``out`` and gradients are the eager call's.
_OPERANDS = (
    *("row-major", "column-major", "sliced", "offset", "batch-permuted", "expanded"),
    *("conjugate", "adjoint", "negative"),
)
# What is captured: the factorizations that users compile.
CAPTURED = ("svd", "svdvals", "eigh", "eigvalsh", "qr", "cholesky", "cholesky_ex")


def _ordinary(family: Family, kind: str) -> bool:
    apart = "nonfinite" in family.traits or family.name == "huge-and-tiny"  # which have plans
    return kind in family.kinds and not apart


def _one_of(*names: str) -> Callable[[Family, str], bool]:
    return lambda family, kind: family.name in names and kind in family.kinds


def _single(batch: Shape) -> bool:
    return not batch


def _row_major(layout: str) -> bool:
    return layout == "row-major"


def _ordinary_layout(layout: str) -> bool:
    return layout not in ("matrix-expanded", "windows", "batch-between")  # which have plans


def plain(variant: str) -> bool:
    """Is the variant one without a poisoned or shared operand?"""
    return "-" not in variant or variant.startswith(("left", "right"))


def _small(limit: int) -> Callable[[Shape], bool]:
    return lambda shape: 0 < np.prod(shape, dtype=int) <= limit


PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan(
            "matrix",
            "every finite family on every shape, batch and layout",
            _ordinary,
            layouts=_ordinary_layout,
        ),
        Plan(
            "constant",
            "constant matrices that a single place in memory holds",
            _one_of("zero", "ones"),
            shapes=lambda shape: shape in shapes_of("1 3 5x3 3x5 8 33"),
            batches=_small(8),
            layouts=lambda layout: layout == "matrix-expanded",
            variants=plain,
            profiles=("standard", "full"),
            adds="matrix",
        ),
        Plan(
            "windows",
            "Hankel matrices that lie in memory as overlapping windows",
            lambda family, kind: family.name == "hilbert" and kind in ("general", "hermitian"),
            shapes=lambda shape: shape in shapes_of("2 3 5x3 3x5 8 17 33"),
            batches=_small(8),
            layouts=lambda layout: layout == "windows",
            variants=plain,
            adds="matrix",
        ),
        Plan(
            "batch-between",
            "batches that lie between rows and columns",
            _one_of("random", "moderate", "integer", "null-space"),
            shapes=lambda shape: shape in shapes_of("1 2 3 5x3 3x5 8 33"),
            batches=_small(65),
            layouts=lambda layout: layout == "batch-between",
            adds="matrix",
        ),
        Plan(
            "extremes",
            "huge and tiny entries in one matrix",
            _one_of("huge-and-tiny"),
            shapes=lambda shape: shape in shapes_of("2 3 5x3 3x5 8 33"),
            batches=_small(8),
            layouts=lambda layout: layout in ("row-major", "column-major"),
            variants=plain,
            adds="matrix",
        ),
        Plan(
            "captured",
            "captured calls on few families, shapes and batches, in every layout of an operand",
            _one_of(
                *("random", "moderate", "null-space", "zero", "identity", "clustered"),
                *("graded-both", "integer", "scaled-up", "scaled-down", "diagonal-repeated"),
                *("subnormal",),
            ),
            shapes=lambda shape: shape in shapes_of("1 2 5x3 3x5 8 33 50x5 17x65 129"),
            batches=lambda batch: batch in ((7,), (3, 2)),
            layouts=lambda layout: layout in _OPERANDS,
            adds="matrix",
            captured=CAPTURED,
            more_families=2,
        ),
        Plan(
            "captured-empty",
            "captured calls without elements; apart, lest pairs of other values meet there only",
            _one_of("moderate"),
            shapes=lambda shape: shape in shapes_of("0 0x3 3x0 3"),
            batches=lambda batch: batch in ((7,), (0,)),
            layouts=_row_major,
            variants=plain,
            adds="matrix",
            captured=CAPTURED,
        ),
        Plan(
            "loops",
            "iterations around a factorization, in a captured loop",
            _one_of("moderate"),
            exactly=((3, 3), (5, 5), (16, 16)),
            batches=lambda batch: batch in ((7,), (3, 2)),
            layouts=lambda layout: layout in ("row-major", "column-major", "sliced"),
            variants=lambda variant: variant == "reduced",
            profiles=("standard", "full"),
            captured=("qr",),
            captures=lambda capture: capture.startswith("while-loop"),
        ),
        Plan(
            "captured-nonfinite",
            "captured calls on NaN and Inf: they end as the eager ones",
            _one_of("nan-first", "nan-all", "inf-diagonal", "inf-off-diagonal"),
            shapes=lambda shape: shape in shapes_of("3 8"),
            batches=lambda batch: batch == (7,),
            layouts=_row_major,
            variants=plain,
            adds="nonfinite",
            captured=CAPTURED,
            more_families=1,
            every_dtype=False,
        ),
        Plan(
            "captured-indefinite",
            "captured calls of Cholesky must fail as the eager ones",
            lambda family, kind: "indefinite" in family.kinds and family.name in _FAILING,
            shapes=lambda shape: shape in shapes_of("3 8 33"),
            batches=lambda batch: batch == (7,),
            layouts=lambda layout: layout in ("row-major", "column-major", "sliced"),
            variants=lambda variant: not variant.endswith(("-nan", "-other")),
            adds="indefinite",
            captured=CAPTURED,
            more_families=1,
            every_dtype=False,
        ),
        Plan(
            "nonfinite",
            "NaN and Inf in every position class",
            lambda family, kind: kind in family.kinds and "nonfinite" in family.traits,
            shapes=lambda shape: shape in shapes_of("1 2 3 5x3 3x5 8 33"),
            batches=_small(70),
            layouts=lambda layout: layout in ("row-major", "column-major", "sliced"),
        ),
        Plan(
            "indefinite",
            "Cholesky must fail, at a known leading minor",
            lambda family, kind: "indefinite" in family.kinds,
            shapes=lambda shape: shape in shapes_of("2 3 4 8 16 17 33 65 129 257"),
            batches=_small(1025),
            layouts=lambda layout: layout in ("row-major", "column-major", "sliced", "out"),
        ),
        Plan(
            "scaling",
            "powers of two times ordinary matrices",
            _one_of("moderate", "random", "null-space", "integer", "graded-both", "clustered"),
            shapes=lambda shape: shape in shapes_of("1 2 5x3 3x5 8 33 65x33"),
            batches=_small(8),
            layouts=_row_major,
        ),
        Plan(
            "scales",
            "batches of matrices that are powers of two apart in size",
            _one_of("moderate", "random", "null-space", "integer"),
            exactly=((2, 2), (8, 8), (33, 33)),
            batches=lambda batch: 2 <= np.prod(batch, dtype=int) <= 8 and batch != (),
            layouts=_row_major,
            variants=plain,
        ),
        Plan(
            "history",
            "ordinary matrices among other calls",
            _one_of("moderate", "mixed"),
            exactly=((5, 5), (16, 16), (33, 33)),
            batches=_small(8),
            layouts=_row_major,
            variants=plain,
        ),
        Plan(
            "many-calls",
            "a small matrix, called more often than 16 bits can count",
            _one_of("moderate"),
            exactly=((3, 3),),
            batches=_single,
            layouts=_row_major,
            variants=plain,
            dtypes=("float32", "complex64"),
            profiles=("full",),
        ),
        Plan(
            "streams",
            "side streams, on devices that have them",
            _one_of("moderate"),
            exactly=((16, 16), (64, 64)),
            batches=_small(8),
            layouts=_row_major,
            variants=plain,
            streams=True,
        ),
        Plan(
            "first-call",
            "the first call of a process, and its first calls from several threads",
            _one_of("moderate"),
            exactly=((3, 3),),
            batches=_single,
            layouts=_row_major,
            variants=lambda variant: variant in FIRST,
            dtypes=("float32",),
            profiles=("standard", "full"),
        ),
        Plan(
            "out",
            "small matrices for which ``out`` does not fit",
            _one_of("moderate"),
            exactly=((4, 4),),
            batches=_small(8),
            layouts=_row_major,
            variants=plain,
        ),
        Plan(
            "refused-dtype",
            "dtypes that no factorization takes",
            _one_of("identity", "ones"),
            exactly=((3, 3),),
            batches=_single,
            layouts=_row_major,
            dtypes=("float16", "bfloat16", "int32", "int64", "uint8", "bool"),
        ),
        Plan(
            "vector",
            "a 1-D tensor",
            _one_of("identity"),
            exactly=((3,),),
            batches=_single,
            layouts=_row_major,
        ),
        Plan(
            "wrong-argument",
            "an argument of an unknown value, and operands that do not fit each other",
            _one_of("identity"),
            exactly=((4, 4),),
            batches=_single,
            layouts=_row_major,
            variants=lambda variant: variant in FIRST,
        ),
        Plan(
            "non-square",
            "where a square matrix is needed",
            _one_of("identity"),
            exactly=((3, 4), (4, 3)),
            batches=_single,
            layouts=_row_major,
        ),
    )
}
