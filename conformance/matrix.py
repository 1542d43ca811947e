"""The conformance matrix: the cases of a plan, an operation and a profile on a device.

A covering array over variant, dtype, family, shape, batch, layout and capture. In `quick` every
pair of values that can stand together meets in some case, in `standard` and `full` also every
triple with the dtype in it, but for those in ``_NOT_WANTED``. Operations that share the kernels of
another (`DERIVED`) get pairs only, without family x shape and family x layout. Costly shapes and
batches are run on a few values of the other axes (``_RULES``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from conformance.captures import CAPTURES
from conformance.cases import Case
from conformance.covering import covering_array, interactions
from conformance.layouts import LAYOUTS
from conformance.matrices import FAMILIES
from conformance.operations import OPERATIONS, Operation
from conformance.plans import PLANS, Plan, plain
from conformance.precision import PRECISIONS
from conformance.profiles import (
    BULK,
    COMPACT,
    DERIVED,
    DERIVED_QUICK,
    FIRST,
    HEAVIEST,
    HEAVY,
    PROFILES,
    REGIMES,
    REGIMES_QUICK,
    SIMILAR,
    SIMPLE,
    TINY,
    Profile,
    Shape,
)


@dataclass(frozen=True)
class Abilities:
    """What a device offers: dtypes, SVD drivers, captures, streams.

    ``missing`` are layouts, and the plan ``out`` where there is no ``out=``; ``uncaptured`` are the
    captures that cannot be had there.
    """

    dtypes: tuple[str, ...]
    drivers: tuple[str, ...] = ()
    captures: tuple[str, ...] = ("eager",)
    streams: bool = False
    missing: tuple[str, ...] = ()
    uncaptured: tuple[str, ...] = ()

    def offers(self, plan: Plan) -> bool:
        """Whether the device has what every case of the plan asks for."""
        return (self.streams or not plan.streams) and plan.name not in self.missing

    def run(self, case: Case) -> bool:
        """Can the device be asked for this case? Any dtype may be asked for to be refused."""
        driver = case.variant.partition("+")[2]
        known = case.dtype not in PRECISIONS or case.dtype in self.dtypes
        captures = (*self.captures, *self.uncaptured)
        there = case.layout not in self.missing and case.capture in captures
        return known and there and (not driver or driver in self.drivers)


@cache
def plan_cases(
    plan_name: str, operation_name: str, profile_name: str, device: str, abilities: Abilities
) -> tuple[Case, ...]:
    """The cases of one plan for one operation on one device, in the order they are run."""
    plan, profile = PLANS[plan_name], PROFILES[profile_name]
    operation = OPERATIONS[operation_name]
    if profile_name not in plan.profiles or not abilities.offers(plan):
        return ()
    if plan.captured and operation_name not in plan.captured:
        return ()
    axes = _axes(plan, profile, operation, abilities)
    allowed = {(i, j): _mask(axes[i], axes[j], _RULES[i, j], profile) for i, j in _RULES}
    strength = profile.strength if plan.name == "matrix" else profile.strength - 1
    if operation_name in DERIVED:
        strength = min(strength, 2)
    wanted = set(interactions(len(axes), strength, _DTYPE)) - _NOT_WANTED
    if operation_name in DERIVED:
        wanted -= {(_FAMILY, _SHAPE), (_FAMILY, _LAYOUT)}
    if plan.more_families:
        wanted = {axes for axes in wanted if _FAMILY not in axes}
    if not plan.every_dtype:
        wanted -= {(_DTYPE, _CAPTURE)}
    rows = covering_array([len(axis) for axis in axes], sorted(wanted), allowed)
    cases = [
        Case(device, operation_name, *(axis[i] for axis, i in zip(axes, row, strict=True)))
        for row in rows
    ]
    if plan.name == "matrix":
        cases += _regimes(operation, device, abilities, profile)
    if plan.captured:
        if profile.conformance:
            cases = list(_on_more_families(cases, axes[_FAMILY], plan.more_families))
        if plan.name == "captured":
            cases += _lazily_negative(operation, device, axes[_CAPTURE], abilities)
            cases += _many_mapped(operation, device, axes[_CAPTURE], abilities)
            cases += _uncaptured(operation, device, abilities) if profile.conformance else []
        if plan.name == "captured-indefinite" and profile.conformance:
            cases += _failing_later(operation, device, axes[_CAPTURE], abilities)
        cases.sort(key=_compiled_together)
    return tuple(dict.fromkeys(cases))


def _regimes(
    operation: Operation, device: str, abilities: Abilities, profile: Profile
) -> Iterator[Case]:
    """The sizes that kernels are chosen by: each once, on a plain matrix, for every dtype.

    quick takes fewer, and for each of them another dtype.
    """
    variants = [variant.name for variant in operation.variants if plain(variant.name)]
    family = "moderate" if operation.kind == "definite" else "random"
    heaviest = [(HEAVIEST, ())] if operation.name in DERIVED else []
    regimes = [*REGIMES, *heaviest] if profile.conformance else REGIMES_QUICK
    for number, (shape, batch) in enumerate(regimes):
        if operation.kind != "general" and shape[0] != shape[-1]:
            continue
        if operation.tall and shape[0] < shape[-1]:
            continue
        one = abilities.dtypes[number % len(abilities.dtypes)]
        for dtype in abilities.dtypes if profile.conformance else (one,):
            variant = variants[number % len(variants)]
            yield Case(device, operation.name, variant, dtype, family, shape, batch)


def _on_more_families(cases: Sequence[Case], families: Sequence[str], more: int) -> Iterator[Case]:
    """Each case and the same of more families: what was compiled for one serves the others."""
    for case in cases:
        yield case
        at = families.index(case.family)
        for step in range(1, more + 1):
            other = families[(at + step * (len(families) // 3 or 1)) % len(families)]
            if _dtype_family(case.dtype, other, PROFILES["standard"]):
                yield replace(case, family=other)


def _lazily_negative(
    operation: Operation, device: str, captures: Sequence[str], abilities: Abilities
) -> Iterator[Case]:
    """A lazy negative view of each real dtype in turn: compilers take another way with complex."""
    real = [dtype for dtype in abilities.dtypes if dtype.startswith("float")]
    if not real or "negative" in abilities.missing:
        return
    family = "moderate" if operation.kind == "definite" else "random"
    for number, name in enumerate(captures):
        batch = (7,) if CAPTURES[name].needs == "batch" else ()
        variant, dtype = operation.variants[0].name, real[number % len(real)]
        yield Case(device, operation.name, variant, dtype, family, (8, 8), batch, "negative", name)


def _many_mapped(
    operation: Operation, device: str, captures: Sequence[str], abilities: Abilities
) -> Iterator[Case]:
    """More matrices than a vector has lanes, for each dtype, where a batch is mapped over."""
    family = "moderate" if operation.kind == "definite" else "random"
    for name in captures:
        if CAPTURES[name].needs == "batch":
            for number, dtype in enumerate(abilities.dtypes):
                variant = operation.variants[number % len(operation.variants)].name
                call = (device, operation.name, variant, dtype, family)
                yield Case(*call, (5, 5), (65,), "row-major", name)


def _failing_later(
    operation: Operation, device: str, captures: Sequence[str], abilities: Abilities
) -> Iterator[Case]:
    """A batch whose first matrix does not fail, for each capture, on each dtype in turn."""
    variants = [v.name for v in operation.variants if v.name in ("lower", "lower-checked")]
    for number, name in enumerate(captures):
        dtype = abilities.dtypes[number % len(abilities.dtypes)]
        for variant in variants:
            call = (device, operation.name, variant, dtype)
            yield Case(*call, "some-fail", (8, 8), (7,), capture=name)


def _compiled_together(case: Case) -> tuple[Any, ...]:
    """What orders cases so that those that share a captured function are neighbours."""
    sizes: tuple[Any, ...] = (case.shape, case.batch)
    if CAPTURES[case.capture].dynamic:
        few = tuple(min(size, 2) for size in (*case.shape, *case.batch))
        sizes = (few, np.sign(case.shape[0] - case.shape[1]))
    return (case.capture, case.variant, case.dtype, case.layout, len(case.batch), sizes)


def _uncaptured(operation: Operation, device: str, abilities: Abilities) -> Iterator[Case]:
    """One case for each capture that cannot be had, so that the run says so."""
    family = "moderate" if operation.kind == "definite" else "random"
    for name in abilities.uncaptured:
        batch = (7,) if CAPTURES[name].needs == "batch" else ()
        variant, dtype = operation.variants[0].name, abilities.dtypes[0]
        yield Case(device, operation.name, variant, dtype, family, (8, 8), batch, "row-major", name)


_VARIANT, _DTYPE, _FAMILY, _SHAPE, _BATCH, _LAYOUT, _CAPTURE = range(7)
# Triples that would double the matrix and that no known defect needed.
_NOT_WANTED = {(_DTYPE, _FAMILY, axis) for axis in (_SHAPE, _BATCH, _LAYOUT)}
_NOT_WANTED |= {(_DTYPE, _SHAPE, _BATCH), (_DTYPE, _SHAPE, _LAYOUT)}


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
            and (profile.conformance or operation.name not in DERIVED or shape in DERIVED_QUICK)
        ],
        [b for b in profile.batches if not b or plan.batches(b)],
        [
            name
            for name, layout in LAYOUTS.items()
            if plan.layouts(name)
            and name not in abilities.missing
            and layout.needs != ("content" if len(operation.inputs) > 1 else "operands")
            and (profile.conformance or layout.common)
        ],
        [
            name
            for name in abilities.captures
            if (name != "eager") == bool(plan.captured)
            and plan.captures(name)
            and (profile.conformance or name == "eager" or CAPTURES[name].common)
        ],
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
    if _heavy_shape(shape):
        return family in HEAVY
    return family not in SIMILAR or shape in SIMPLE


def _family_batch(family: str, batch: Shape, profile: Profile) -> bool:
    return not _heavy_batch(batch) or family in HEAVY


def _shape_batch(shape: Shape, batch: Shape, profile: Profile) -> bool:
    if _heavy_batch(batch):
        return 0 < _size(shape) <= TINY
    if _heavy_shape(shape):
        return batch == () or (batch == (1,) and not _heaviest_shape(shape))
    few = 1 if not profile.conformance else 5 if _size(batch) <= 7 else 1
    return _size(batch) <= 2 or _size(batch) * _size(shape) <= few * profile.elements


def _shape_layout(shape: Shape, layout: str, profile: Profile) -> bool:
    if _heaviest_shape(shape):
        return layout == "row-major"
    return not _heavy_shape(shape) or layout in COMPACT


def _variant_shape(variant: str, shape: Shape, profile: Profile) -> bool:
    if _heaviest_shape(shape):
        return variant.partition("+")[0] in FIRST or (shape == HEAVIEST and plain(variant))
    return True


def _variant_batch(variant: str, batch: Shape, profile: Profile) -> bool:
    return not _heavy_batch(batch) or plain(variant)


def _dtype_family(dtype: str, family: str, profile: Profile) -> bool:
    return dtype.startswith("complex") or "complex" not in FAMILIES[family].traits


def _dtype_layout(dtype: str, layout: str, profile: Profile) -> bool:
    return LAYOUTS[layout].needs != ("content" if dtype.startswith("complex") else "complex")


def _batch_layout(batch: Shape, layout: str, profile: Profile) -> bool:
    if _heavy_batch(batch) and layout not in COMPACT:
        return False
    axes = {"batch": 1, "batches": 2}.get(LAYOUTS[layout].needs, 0)
    return not axes or (len(batch) >= axes and _size(batch) > 0)


def _batch_capture(batch: Shape, capture: str, profile: Profile) -> bool:
    needed = CAPTURES[capture].needs != "batch" or len(batch) > 0
    return needed and all(size >= CAPTURES[capture].smallest for size in batch)


def _shape_capture(shape: Shape, capture: str, profile: Profile) -> bool:
    return all(size >= CAPTURES[capture].smallest for size in shape)


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
    (_SHAPE, _CAPTURE): _shape_capture,
    (_BATCH, _CAPTURE): _batch_capture,
}


def _mask(
    first: Sequence, second: Sequence, rule: Callable[..., bool], profile: Profile
) -> np.ndarray:
    return np.array([[rule(a, b, profile) for b in second] for a in first], dtype=bool).reshape(
        len(first), len(second)
    )
