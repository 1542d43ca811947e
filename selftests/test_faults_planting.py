"""The catalogue itself: faults strike on their trigger, are silent off it, the control always."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from selftests.faults import CATALOGUE, CONTROL, KINDS, Fault, planted
from selftests.faults.planting import OPERATORS, SHARED
from selftests.faults.witness import Witness, of, prepare

REPORTS = Path(__file__).parent.parent / "conformance" / "reports.toml"
DTYPES = ("float32", "float64", "complex64", "complex128")
LAYOUTS = ("row-major", "column-major", "sliced", "offset", "block")
PLAIN = ("svd", "svdvals", "eigh", "eigvalsh", "qr", "cholesky", "cholesky_ex")
BUILT = ("cholesky_solve", "cholesky_inverse", "geqrf", "householder_product", "ormqr")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Results of LAPACK are compared bit by bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _controls() -> list[Witness]:
    """Every operation in every layout and dtype, ``out=``, options, errors, warnings."""
    plain = [
        of(operation, 2, 3, 3, dtype=dtype, layout=layout)
        for operation in (*PLAIN, *BUILT)
        for dtype in DTYPES
        for layout in LAYOUTS
    ]
    views = [
        of(operation, 3, 3, dtype="complex64", layout=layout)
        for operation in PLAIN
        for layout in ("conjugate", "conjugate-column-major", "negative")
    ]
    outs = [
        of(operation, 3, 3, dtype=dtype, out=out)
        for operation in (*PLAIN, *BUILT)
        for dtype in ("float64", "complex64")
        for out in ("fitting", "column-major", "strided", "resized")
    ]
    options = [
        of("svd", 3, 5, full_matrices=False),
        of("svd", 5, 3),
        of("eigh", 3, 3, UPLO="U", values="nan-triangle"),
        of("qr", 5, 3, mode="complete"),
        of("qr", 5, 3, mode="r"),
        of("cholesky", 3, 3, upper=True),
        of("ormqr", 4, 4, left=False, transpose=True),
        of("cholesky_solve", 2, 3, 3, rhs_batch=()),
    ]
    errors = [
        of("cholesky", 2, 3, 3, values="indefinite"),
        of("cholesky_ex", 3, 3, values="indefinite"),
        of("cholesky_ex", 3, 3, values="indefinite", check_errors=True),
        of("svd", 3, 3, values="nan"),
        of("eigh", 3, 3, values="inf"),
        of("svd", 3, 3, driver="gesvd"),
        of("qr", 3, 3, mode="no such mode"),
        of("eigh", 3, 4),
    ]
    return [*plain, *views, *outs, *options, *errors, *(of(op, 0, 2, 2) for op in PLAIN)]


def _observe(witness: Witness) -> list[Any]:
    return prepare(witness).observe()


def _accidents(seen: list[Any]) -> list[Any]:
    """Errors that no fault raises on purpose."""
    meant = re.compile(r"_LinAlgError|RuntimeError: refused")
    calls = [call for call in seen if isinstance(call, tuple)]
    errors = [f"{c[0][0]}: {c[0][1]}" for c in calls if c[0] and isinstance(c[0][0], str)]
    return [error for error in errors if not meant.match(error)]


@pytest.mark.parametrize("fault", CATALOGUE.values(), ids=lambda fault: fault.name)
def test_strikes_on_its_trigger_only(fault: Fault) -> None:
    shows, silent = prepare(fault.shows), prepare(fault.silent)
    expected_silent = _observe(fault.silent)
    with planted(fault):
        struck = shows.observe()
    with planted(fault):
        unstruck = silent.observe()
    assert not _accidents(struck), "the effect itself is broken"
    strikes, stays_silent = struck != _observe(fault.shows), unstruck == expected_silent
    assert strikes, "no bit changes on the trigger"
    assert stays_silent, "something changes off the trigger"


def test_control_changes_nothing() -> None:
    witnesses = _controls()
    inputs = [prepare(w) for w in witnesses]
    plain = [_observe(w) for w in witnesses]
    with planted(CONTROL):
        hooked = [ready.observe() for ready in inputs]
    changed = [w for w, a, b in zip(witnesses, plain, hooked, strict=True) if a != b]
    assert not changed


def test_leaving_restores_the_kernels() -> None:
    A = torch.randn(3, 3, dtype=torch.float64)
    before = torch.linalg.svdvals(A)
    fault = CATALOGUE["svd-first-call-zero"]
    for _ in range(2):
        with planted(fault):
            assert not torch.linalg.svdvals(A).any()
            assert torch.equal(torch.linalg.svdvals(A), before)
        assert torch.equal(torch.linalg.svdvals(A), before)


def test_a_fault_reaches_what_is_built_on_the_operation() -> None:
    A = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    with planted(CATALOGUE["svd-offset-ignored"]):
        assert torch.equal(torch.linalg.svd(A)[1], torch.linalg.svd(A.detach().clone())[1])
    with planted(CATALOGUE["svd-identity-to-zero"]):
        assert torch.linalg.matrix_rank(torch.eye(3)) == 0


def test_a_fault_is_met_by_compiled_calls() -> None:
    compiled = torch.compile(torch.linalg.svdvals, backend="aot_eager", fullgraph=True)
    A = torch.eye(3)
    assert torch.equal(compiled(A), torch.ones(3))
    with planted(CATALOGUE["svd-identity-to-zero"]):
        assert not compiled(A).any()
    with planted(CONTROL):
        assert torch.equal(torch.compile(torch.linalg.cholesky, backend="aot_eager")(A), A)


def test_names_and_fields() -> None:
    reports = {report["id"] for report in tomllib.loads(REPORTS.read_text())["reports"]}
    known = set(OPERATORS) | set(SHARED)
    for name, fault in CATALOGUE.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert fault.name == name
        assert fault.kind in KINDS
        assert set(fault.operations) <= known
        assert fault.trigger
        assert fault.corruption
        assert fault.promise
        assert not fault.report or fault.report in reports


def test_names_are_unique() -> None:
    tables = [sys.modules[f"selftests.faults.{kind}"] for kind in KINDS]
    assert sum(len(table.FAULTS) for table in tables) == len(CATALOGUE)


def test_size_of_the_catalogue() -> None:
    kinds = [fault.kind for fault in CATALOGUE.values()]
    assert len(CATALOGUE) >= 180
    assert all(kinds.count(kind) >= 10 for kind in KINDS)
    assert sum(fault.when.parts > 1 for fault in CATALOGUE.values()) >= 30
