"""The table of faults in the documentation, and what is read from it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from selftests.faults import CATALOGUE, EVERY
from selftests.faults.hunt import Catch, Hunt
from selftests.faults.page import nodes, table

PAGE = Path(__file__).parents[1] / "docs" / "faults.md"
CASE = "cpu/svd.reduced/float32/random/8x8/64/row-major/eager"


def test_a_table_is_read_as_it_was_written() -> None:
    page = table([Catch("svd-tf32", CASE, "test_svd", ("values",)), Catch("qr-gram")])
    assert nodes(page) == {"svd-tf32": f"test_svd[{CASE}]"}
    assert "**not caught**" in page


def test_the_documentation_has_the_whole_catalogue() -> None:
    assert nodes(PAGE.read_text(encoding="utf-8")).keys() == EVERY.keys()


@pytest.fixture(scope="module")
def quick() -> Hunt:
    return Hunt("quick")


def test_the_case_that_caught_a_fault_goes_first(quick: Hunt) -> None:
    fault = CATALOGUE["svd-tf32"]
    found = quick.run(fault)
    assert found.caught
    again = quick.run(fault, f"{found.test}[{found.case}]")
    assert (again.case, again.tried) == (found.case, 1)


@pytest.mark.parametrize("node", [f"test_svd[{CASE.replace('8x8', '9x9')}]", f"test_none[{CASE}]"])
def test_a_case_that_is_not_in_the_profile_counts_for_nothing(quick: Hunt, node: str) -> None:
    assert quick.recalled(node) == []
