"""Which cases a run has: profiles, plans and the covering array behind them.

A *plan* says what one test function varies (families, shapes, batches, layouts); a *profile* says
how much of it is run. Every pair of axis values (`standard` and `full`: every triple with the
dtype in it, but for family x shape) meets in some case. Named cases, the inputs of public defect
reports, are added to the plan of their test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from conformance.captures import CAPTURES
from conformance.cases import Case, parse_shape
from conformance.covering import covering_array, interactions
from conformance.layouts import LAYOUTS
from conformance.matrices import FAMILIES, Family
from conformance.operations import OPERATIONS, Operation
from conformance.precision import PRECISIONS

Shape = tuple[int, ...]


def _shapes(text: str) -> tuple[Shape, ...]:
    """Shapes from text: "3" is 3 x 3, "3x5" is 3 x 5."""
    return tuple(parse_shape(word if "x" in word else f"{word}x{word}") for word in text.split())


def _batches(text: str) -> tuple[Shape, ...]:
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
    "320x32 32x320 1000x3 3x1000 255 256 257 512 513 1023 1024 1025"
)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "quick",
            "a smoke test, not a conformance run: every pair of axis values",
            conformance=False,
            strength=2,
            shapes=_shapes("8 5x3 33 3x5 3 1 2 17 50x5 17x65 1x7 0 0x3 129"),
            batches=_batches("single 7 3x2 64 1 0 911"),
            elements=9_000,
        ),
        Profile(
            "standard",
            "the conformance run: every pair, and every triple with the dtype",
            conformance=True,
            strength=3,
            shapes=_shapes(_STANDARD_SHAPES),
            batches=_batches("single 7 3x2 1 2 0 64 65 513 910 911 1025 65535 65536 65537"),
            elements=20_000,
        ),
        Profile(
            "full",
            "nightly: standard, with big sizes, big batches and every family on them",
            conformance=True,
            strength=3,
            shapes=_shapes(_STANDARD_SHAPES + " 2047 2048 2049 4096x8 8x4096 2895 65536x8"),
            batches=_batches(
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
# standard asks for pairs, not triples.
DERIVED = frozenset(
    [
        *("svdvals", "eigvalsh", "cholesky_ex", "cholesky_solve", "cholesky_inverse"),
        *("geqrf", "householder_product", "ormqr"),
    ]
)
# Families that quick leaves out, since it runs a similar one.
SIMILAR = frozenset(
    [
        *("one-large", "arithmetic", "log-uniform", "random-values", "geometric-reversed"),
        *("scaled-up", "scaled-down", "kahan", "vandermonde", "frank", "companion"),
        *("toeplitz", "arrow", "bidiagonal", "lower-triangular", "graded-rows", "graded-up"),
        *("column-scaled-descending", "column-scaled-random", "correlation", "matern-kernel"),
        *("noise-tail", "diagonal-sorted", "nearly-diagonal", "well-conditioned", "one-small"),
        *("diagonal-repeated", "hadamard", "dependent-column", "zero-rows", "lauchli", "positive"),
        *("tridiagonal", "block-diagonal", "upper-triangular", "exchange", "saddle-point"),
    ]
)
# What the heaviest cases are run with.
_COMPACT = ("row-major", "column-major")
_FIRST = ("reduced", "values", "lower", "packed", "plain", "left-plain")
_DERIVED_QUICK = _shapes("8 5x3 33 3x5 1 0")  # what quick runs derived operations on
_TINY = 9  # elements of a matrix in a heavy batch, at most


@dataclass(frozen=True)
class Plan:
    """What a test function varies. ``families`` selects them, the rest narrows the profile.

    ``dtypes`` and ``exactly`` (shapes), where given, stand instead of the device's and profile's.
    ``streams`` says that it needs a device with streams.
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


def _ordinary(family: Family, kind: str) -> bool:
    return kind in family.kinds and "nonfinite" not in family.traits


def _one_of(*names: str) -> Callable[[Family, str], bool]:
    return lambda family, kind: family.name in names and kind in family.kinds


def _single(batch: Shape) -> bool:
    return not batch


def _row_major(layout: str) -> bool:
    return layout == "row-major"


def _plain(variant: str) -> bool:
    return "-" not in variant or variant.startswith(("left", "right"))


def _small(limit: int) -> Callable[[Shape], bool]:
    return lambda shape: 0 < np.prod(shape, dtype=int) <= limit


PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan("matrix", "every finite family on every shape, batch and layout", _ordinary),
        Plan(
            "nonfinite",
            "NaN and Inf in every position class",
            lambda family, kind: kind in family.kinds and "nonfinite" in family.traits,
            shapes=lambda shape: shape in _shapes("1 2 3 5x3 3x5 8 33"),
            batches=_small(70),
            layouts=lambda layout: layout in ("row-major", "column-major", "sliced"),
        ),
        Plan(
            "indefinite",
            "Cholesky must fail, at a known leading minor",
            lambda family, kind: "indefinite" in family.kinds,
            shapes=lambda shape: shape in _shapes("2 3 4 8 16 17 33 65 129"),
            batches=_small(66),
            layouts=lambda layout: layout in ("row-major", "column-major", "sliced", "out"),
        ),
        Plan(
            "scaling",
            "powers of two times ordinary matrices",
            _one_of("moderate", "random", "null-space", "integer", "graded-both", "clustered"),
            shapes=lambda shape: shape in _shapes("1 2 5x3 3x5 8 33 65x33"),
            batches=_small(8),
            layouts=_row_major,
        ),
        Plan(
            "history",
            "ordinary matrices among other calls",
            _one_of("moderate", "mixed"),
            exactly=((5, 5), (16, 16), (33, 33)),
            batches=_small(8),
            layouts=_row_major,
            variants=_plain,
        ),
        Plan(
            "many-calls",
            "a small matrix, called more often than 16 bits can count",
            _one_of("moderate"),
            exactly=((3, 3),),
            batches=_single,
            layouts=_row_major,
            variants=_plain,
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
            variants=_plain,
            streams=True,
        ),
        Plan(
            "first-call",
            "the first call of a process, and its first calls from several threads",
            _one_of("moderate"),
            exactly=((3, 3),),
            batches=_single,
            layouts=_row_major,
            variants=lambda variant: variant in _FIRST,
            dtypes=("float32", "complex128"),
            profiles=("standard", "full"),
        ),
        Plan(
            "out",
            "small matrices for which ``out`` does not fit",
            _one_of("moderate"),
            exactly=((4, 4),),
            batches=_small(8),
            layouts=_row_major,
            variants=_plain,
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
            "non-square",
            "where a square matrix is needed",
            _one_of("identity"),
            exactly=((3, 4), (4, 3)),
            batches=_single,
            layouts=_row_major,
        ),
    )
}


@dataclass(frozen=True)
class Abilities:
    """What a device offers to the matrix: dtypes, SVD drivers and captures to try."""

    dtypes: tuple[str, ...]
    drivers: tuple[str, ...] = ()
    captures: tuple[str, ...] = ("eager",)
    streams: bool = False

    def run(self, case: Case) -> bool:
        """Can the device be asked for this case? Any dtype may be asked for to be refused."""
        driver = case.variant.partition("+")[2]
        known = case.dtype not in PRECISIONS or case.dtype in self.dtypes
        return known and (not driver or driver in self.drivers) and case.capture in self.captures


@cache
def plan_cases(
    plan_name: str, operation_name: str, profile_name: str, device: str, abilities: Abilities
) -> tuple[Case, ...]:
    """The cases of one plan for one operation on one device, in the order they are run."""
    plan, profile = PLANS[plan_name], PROFILES[profile_name]
    operation = OPERATIONS[operation_name]
    if profile_name not in plan.profiles or (plan.streams and not abilities.streams):
        return ()
    axes = _axes(plan, profile, operation, abilities)
    allowed = {(i, j): _mask(axes[i], axes[j], _RULES[i, j], profile) for i, j in _RULES}
    strength = profile.strength if plan.name == "matrix" else profile.strength - 1
    if operation_name in DERIVED:
        strength = min(strength, 2)
    wanted = set(interactions(len(axes), strength, _DTYPE)) - _NOT_WANTED
    if operation_name in DERIVED:
        wanted -= {(_FAMILY, _SHAPE)}
    rows = covering_array([len(axis) for axis in axes], sorted(wanted), allowed)
    return tuple(
        Case(device, operation_name, *(axis[i] for axis, i in zip(axes, row, strict=True)))
        for row in rows
    )


_VARIANT, _DTYPE, _FAMILY, _SHAPE, _BATCH, _LAYOUT, _CAPTURE = range(7)
# Triples that would double the matrix and that no known defect needed.
_NOT_WANTED = {(_DTYPE, _FAMILY, axis) for axis in (_SHAPE, _BATCH, _LAYOUT)}


def _axes(
    plan: Plan, profile: Profile, operation: Operation, abilities: Abilities
) -> tuple[Sequence, ...]:
    square = operation.kind != "general"
    return (
        [name for name in operation.variant_names(abilities.drivers) if plan.variants(name)],
        plan.dtypes or abilities.dtypes,
        [
            f.name
            for f in FAMILIES.values()
            if plan.families(f, operation.kind) and _included(f.name, plan, profile, operation)
        ],
        plan.exactly
        or [
            shape
            for shape in profile.shapes
            if plan.shapes(shape)
            and not (square and shape[0] != shape[1])
            and not (operation.tall and shape[0] < shape[1])
            and not (operation.name in DERIVED and _heaviest_shape(shape))
            and (profile.conformance or operation.name not in DERIVED or shape in _DERIVED_QUICK)
        ],
        [b for b in profile.batches if not b or plan.batches(b)],
        [name for name in LAYOUTS if plan.layouts(name)],
        [name for name in abilities.captures if name in CAPTURES],
    )


def _included(family: str, plan: Plan, profile: Profile, operation: Operation) -> bool:
    """Does the profile run the family? quick leaves some out of the matrix."""
    if profile.conformance or plan.name != "matrix":
        return True
    return family in BULK if operation.name in DERIVED else family not in SIMILAR


def _size(shape: Iterable[int]) -> int:
    return int(np.prod(tuple(shape), dtype=np.int64))


def _heavy_shape(shape: Shape) -> bool:
    return max(shape, default=0) >= 500


def _heaviest_shape(shape: Shape) -> bool:
    return min(shape, default=0) >= 1000


def _heavy_batch(batch: Shape) -> bool:
    return _size(batch) > 10_000


def _family_shape(family: str, shape: Shape, profile: Profile) -> bool:
    if "square" in FAMILIES[family].traits and shape[0] != shape[-1]:
        return False
    return not _heavy_shape(shape) or family in HEAVY


def _family_batch(family: str, batch: Shape, profile: Profile) -> bool:
    return not _heavy_batch(batch) or family in HEAVY


def _shape_batch(shape: Shape, batch: Shape, profile: Profile) -> bool:
    if _heavy_batch(batch):
        return 0 < _size(shape) <= _TINY
    if _heavy_shape(shape):
        return batch == () or (batch == (1,) and not _heaviest_shape(shape))
    few = 1 if not profile.conformance else 5 if _size(batch) <= 7 else 1
    return _size(batch) <= 2 or _size(batch) * _size(shape) <= few * profile.elements


def _shape_layout(shape: Shape, layout: str, profile: Profile) -> bool:
    if _heaviest_shape(shape):
        return layout == "row-major"
    return not _heavy_shape(shape) or layout in _COMPACT


def _variant_shape(variant: str, shape: Shape, profile: Profile) -> bool:
    if _heaviest_shape(shape):
        return variant.partition("+")[0] in _FIRST
    return not _heavy_shape(shape) or _plain(variant)


def _variant_batch(variant: str, batch: Shape, profile: Profile) -> bool:
    return not _heavy_batch(batch) or _plain(variant)


def _dtype_family(dtype: str, family: str, profile: Profile) -> bool:
    return dtype.startswith("complex") or "complex" not in FAMILIES[family].traits


def _dtype_layout(dtype: str, layout: str, profile: Profile) -> bool:
    return dtype.startswith("complex") or LAYOUTS[layout].needs != "complex"


def _batch_layout(batch: Shape, layout: str, profile: Profile) -> bool:
    if _heavy_batch(batch) and layout not in _COMPACT:
        return False
    return LAYOUTS[layout].needs != "batch" or _size(batch) * len(batch) > 0


_RULES: dict[tuple[int, int], Callable[..., bool]] = {
    (_VARIANT, _SHAPE): _variant_shape,
    (_VARIANT, _BATCH): _variant_batch,
    (_DTYPE, _FAMILY): _dtype_family,
    (_DTYPE, _LAYOUT): _dtype_layout,
    (_FAMILY, _SHAPE): _family_shape,
    (_FAMILY, _BATCH): _family_batch,
    (_SHAPE, _BATCH): _shape_batch,
    (_SHAPE, _LAYOUT): _shape_layout,
    (_BATCH, _LAYOUT): _batch_layout,
}


def _mask(
    first: Sequence, second: Sequence, rule: Callable[..., bool], profile: Profile
) -> np.ndarray:
    return np.array([[rule(a, b, profile) for b in second] for a in first], dtype=bool).reshape(
        len(first), len(second)
    )
