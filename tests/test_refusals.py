"""What must be refused: low-precision and integer dtypes, vectors, non-square matrices."""

from __future__ import annotations

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
