"""What must be refused: dtypes, vectors, shapes, arguments, operands that do not fit together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch

from conformance.operations import OPERATIONS
from conformance.trial import Trial

SQUARE = [name for name, operation in OPERATIONS.items() if operation.kind != "general"]


@pytest.mark.cases(*OPERATIONS, plan="refused-dtype")
def test_refused_dtype(trial: Trial) -> None:
    """float16, bfloat16 and integers: RuntimeError that names the dtype or says what is needed."""
    trial.judge(error=refused(trial, getattr(torch, trial.case.dtype)))


@pytest.mark.cases(*OPERATIONS, plan="vector")
def test_refused_vector(trial: Trial) -> None:
    """A 1-D tensor is no matrix: RuntimeError."""
    trial.judge(error=refused(trial))


@pytest.mark.cases(*SQUARE, plan="non-square")
def test_refused_non_square(trial: Trial) -> None:
    """A Hermitian matrix is square: RuntimeError."""
    trial.judge(error=refused(trial))


WRONG_ARGUMENTS: dict[str, tuple[dict[str, str], ...]] = {
    "svd": ({"driver": "gesvdx"}, {"driver": ""}),
    "svdvals": ({"driver": "gesvdx"}, {"driver": ""}),
    "eigh": ({"UPLO": "X"}, {"UPLO": ""}),
    "eigvalsh": ({"UPLO": "X"}, {"UPLO": ""}),
    "qr": ({"mode": "raw"}, {"mode": "full"}, {"mode": ""}),
}
# Shapes of the operands, each with one too many or too few somewhere.
MISFITS: dict[str, tuple[tuple[tuple[int, ...], ...], ...]] = {
    "cholesky_solve": (((5, 2), (4, 4)), ((2, 4, 2), (3, 4, 4)), ((4, 2), (4, 3))),
    "householder_product": (((4, 5), (4,)), ((5, 4), (5,)), ((2, 5, 4), (3, 4))),
    "ormqr": (((5, 4), (4,), (4, 2)), ((5, 4), (5,), (5, 2)), ((2, 5, 4), (3, 4), (2, 5, 2))),
}
FITTING = {
    "cholesky_solve": ((4, 2), (4, 4)),
    "householder_product": ((5, 4), (4,)),
    "ormqr": ((5, 4), (4,), (5, 2)),
}


@pytest.mark.cases(*WRONG_ARGUMENTS, plan="wrong-argument")
def test_refused_argument(trial: Trial) -> None:
    """A value that the documentation does not list: RuntimeError."""
    (A,) = (placed.view for placed in trial.operands)
    calls = (
        partial(trial.operation.function, A, **wrong)
        for wrong in WRONG_ARGUMENTS[trial.case.operation]
    )
    trial.judge(error=max(map(trial.refuses, calls)))


@pytest.mark.cases(*MISFITS, plan="wrong-argument")
def test_refused_operands(trial: Trial) -> None:
    """Operands of shapes, batches or dtypes that do not fit each other: RuntimeError."""
    own = trial.case.dtype
    others = [dtype for dtype in trial.backend.dtypes_on(trial.device) if dtype != own]
    asked = [(shapes, own) for shapes in MISFITS[trial.case.operation]]
    asked += [(FITTING[trial.case.operation], other) for other in others]
    trial.judge(error=max(misfit(trial, shapes, last) for shapes, last in asked))


def misfit(trial: Trial, shapes: Sequence[tuple[int, ...]], last: str) -> float:
    """0 if operands of these shapes, the last of them of another dtype perhaps, are refused."""
    dtypes = [trial.case.dtype] * (len(shapes) - 1) + [last]
    with trial.backend.active(trial.device):
        operands = [
            trial.backend.send(torch.ones(shape, dtype=getattr(torch, dtype)), trial.device)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
    return trial.refuses(lambda: trial.function(*operands))


def refused(trial: Trial, dtype: torch.dtype | None = None) -> float:
    """0 if the call on ones of the case's shape is refused with a message, inf otherwise."""
    dtype = dtype or getattr(torch, trial.case.dtype)
    with trial.backend.active(trial.device):
        ones = trial.backend.send(torch.ones(trial.case.shape, dtype=dtype), trial.device)
        vector = trial.backend.send(torch.ones(trial.case.shape[-1:], dtype=dtype), trial.device)
    operands = {
        "cholesky_solve": (ones, ones),
        "householder_product": (ones, vector),
        "ormqr": (ones, vector, ones),
    }.get(trial.case.operation, (ones,))
    return trial.refuses(lambda: trial.function(*operands))
