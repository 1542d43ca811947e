"""What is wrong with a case that someone typed: names that nothing has, shapes that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from conformance.captures import CAPTURES
from conformance.cases import Case, format_shape
from conformance.layouts import LAYOUTS
from conformance.matrices import FAMILIES
from conformance.operations import OPERATIONS
from conformance.plans import PLANS
from conformance.precision import PRECISIONS


def faults(case: Case) -> Iterator[str]:
    """Each part of the case that no case can have, with what is near; nothing if it can be run."""
    if case.operation not in OPERATIONS:
        yield _unknown("operation", case.operation, OPERATIONS)
        return
    operation = OPERATIONS[case.operation]
    base, plus, driver = case.variant.partition("+")
    variants = operation.variant_names()
    if base not in variants or (plus and not (operation.drivers and driver)):
        yield _unknown(f"variant of {operation.name}", case.variant, variants)
    dtypes = dict.fromkeys(PRECISIONS)
    for plan in PLANS.values():
        dtypes |= dict.fromkeys(plan.dtypes)  # those that have to be refused
    for part, names in (
        ("dtype", dtypes),
        ("family", FAMILIES),
        ("layout", LAYOUTS),
        ("capture", CAPTURES),
    ):
        if getattr(case, part) not in names:
            yield _unknown(part, getattr(case, part), names)
    yield from _misshapen(case)


def _misshapen(case: Case) -> Iterator[str]:
    operation, family = OPERATIONS[case.operation], FAMILIES.get(case.family)
    shape = format_shape(case.shape)
    if any(case.shape in plan.exactly for plan in PLANS.values()):
        pass  # some are there to be refused
    elif len(case.shape) != 2:
        yield f"{shape} is no shape of a matrix, rows x columns: 8x8, say"
    elif operation.kind != "general" and case.shape[0] != case.shape[1]:
        yield f"{shape} is not square, as {operation.name} needs it"
    elif operation.tall and case.shape[0] < case.shape[1]:
        yield f"{shape} is wide, and {operation.name} needs m >= n"
    if family is not None and family.kinds.isdisjoint((operation.kind, "indefinite")):
        yield f"{family.name} has no {operation.kind} matrices, as {operation.name} takes them"


def _unknown(part: str, word: str, names: Collection[str]) -> str:
    near = get_close_matches(word, names, 3)
    there = f"near it are {', '.join(near)}" if near else f"there are {', '.join(names)}"
    return f"no {part} is called {word!r}; {there}"
