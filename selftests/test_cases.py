"""Case ids, covering arrays, plans and the named cases of public reports."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from conformance.captures import CAPTURES
from conformance.cases import Case
from conformance.covering import covering_array, interactions
from conformance.layouts import LAYOUTS
from conformance.matrices import FAMILIES
from conformance.matrix import Abilities, plan_cases
from conformance.operations import OPERATIONS
from conformance.plans import PLANS
from conformance.precision import PRECISIONS
from conformance.profiles import BULK, DERIVED, HEAVY, PROFILES, SIMILAR
from conformance.reports import load, named_cases, owner
from conformance.suite import marked_tests
from conformance.tolerances import VOCABULARY

CAN = Abilities(tuple(PRECISIONS), ("gesvd", "gesvdj"))
ID = "cuda:1/svd.full+gesvdj/complex64/null-space/8x5/2x3/column-major/eager"


def test_id_is_parsed_back() -> None:
    case = Case.parse(ID)
    assert case.device == "cuda:1"
    assert (case.operation, case.variant) == ("svd", "full+gesvdj")
    assert (case.shape, case.batch) == ((8, 5), (2, 3))
    assert str(case) == ID
    assert Case.parse(f"tests/test_svd.py::test_svd[{ID}]") == case
    assert Case.parse(ID.replace("2x3", "single")).batch == ()


@pytest.mark.parametrize(
    "text", ["", "cpu/svd", ID.replace("8x5", "8by5"), ID.replace(".full", "")]
)
def test_malformed_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"no case id|no shape"):
        Case.parse(text.replace("+gesvdj", ""))


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_covering_array_covers(strength: int) -> None:
    levels = (3, 4, 7, 2, 5)
    allowed = {(0, 2): np.ones((3, 7), bool)}
    allowed[0, 2][1, 5] = False
    wanted = interactions(len(levels), strength, 0)
    rows = covering_array(levels, wanted, allowed)
    assert all(len(row) == len(levels) for row in rows)
    assert not any(row[0] == 1 and row[2] == 5 for row in rows)
    for axes in wanted:
        met = {tuple(row[a] for a in axes) for row in rows}
        for values in product(*(range(levels[a]) for a in axes)):
            forbidden = dict(zip(axes, values, strict=True))
            if not (forbidden.get(0) == 1 and forbidden.get(2) == 5):
                assert values in met


def test_profiles_are_as_large_as_promised() -> None:
    counts = {
        name: sum(len(plan_cases("matrix", o, name, "cpu", CAN)) for o in OPERATIONS)
        for name in PROFILES
    }
    assert counts["quick"] >= 2000
    assert counts["standard"] >= 12000


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o not in DERIVED])
def test_quick_meets_every_pair(operation: str) -> None:
    cases = plan_cases("matrix", operation, "quick", "cpu", CAN)
    assert len(set(cases)) == len(cases)
    fields = ("variant", "dtype", "family", "batch", "layout")
    for first, second in combinations(fields, 2):
        met = {(getattr(c, first), getattr(c, second)) for c in cases}
        for a, b in product({m[0] for m in met}, {m[1] for m in met}):
            if not _forbidden({first: a, second: b}):
                assert (a, b) in met, (first, second)


def _forbidden(values: dict[str, object]) -> bool:
    """Pairs that cannot stand together: by the dtype, or by the batch."""
    real = str(values.get("dtype", "complex")).startswith("float")
    layout = LAYOUTS.get(str(values.get("layout")))
    family = FAMILIES.get(str(values.get("family")))
    if real and ((layout and layout.needs == "complex") or (family and "complex" in family.traits)):
        return True
    batch = values.get("batch", (2,))
    return bool(layout) and layout.needs.startswith("batch") and (batch == () or 0 in batch)  # type: ignore[union-attr,operator]


def test_every_family_and_layout_is_run_by_standard() -> None:
    cases = {
        case
        for _, operations, plan in marked_tests()
        for operation in operations
        for added in (plan, *(p.name for p in PLANS.values() if p.adds == plan))
        for case in plan_cases(added, operation, "standard", "cpu", CAN)
    }
    assert {case.family for case in cases} == FAMILIES.keys()
    assert {case.layout for case in cases} == LAYOUTS.keys()
    assert {case.operation for case in cases} == OPERATIONS.keys() == VOCABULARY.keys()


def test_names_in_tables_are_known() -> None:
    assert FAMILIES.keys() >= BULK | HEAVY | SIMILAR
    assert OPERATIONS.keys() >= DERIVED
    asked = {plan for _, _, plan in marked_tests()}
    assert asked == {plan.name for plan in PLANS.values() if not plan.adds}
    assert asked >= {plan.adds for plan in PLANS.values() if plan.adds}


def test_every_report_in_scope_has_a_case_that_is_run() -> None:
    tests = {test.__name__: operations for test, operations, _ in marked_tests()}
    later = []
    for report in load():
        if report.scope == "out":
            assert report.reason
            continue
        assert report.cases
        assert report.measures or report.must_pass
        for text in report.cases:
            case = Case.parse(f"cpu/{text}")
            if case.capture not in CAPTURES:
                later.append(report.id)
                continue
            OPERATIONS[case.operation].variant(case.variant)
            assert case.family in FAMILIES
            assert case.layout in LAYOUTS
            name = owner(report, case)
            assert case.operation in tests[name], report.id
            assert case in named_cases(name, report.profile, "cpu"), report.id
    assert len(load()) == 145
    assert len(set(later)) <= 5
