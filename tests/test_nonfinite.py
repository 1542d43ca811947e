"""NaN and Inf: an error or a non-finite result, never a plausible finite answer, never a hang."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conformance.operations import OPERATIONS
from conformance.promises import after_failure, difference, untouched
from conformance.trial import Trial

FACTORIZATIONS = [
    name for name in OPERATIONS if name in ("svd", "svdvals", "eigh", "eigvalsh", "qr", "geqrf")
] + ["cholesky", "cholesky_ex"]


@pytest.mark.cases(*FACTORIZATIONS, plan="nonfinite")
def test_nonfinite(trial: Trial) -> None:
    """A matrix with NaN or Inf where it is read raises, or has a NaN or Inf in its results.

    A non-zero ``info`` is an error too. The finite neighbours in its batch are not spoilt.
    """
    try:
        outputs = trial.outputs
    except torch.linalg.LinAlgError:
        trial.judge(untouched=untouched(trial), **after_failure(trial))
        return
    poisoned = ~np.isfinite(trial.A).all(axis=(1, 2))
    spoilt = np.zeros(len(poisoned), dtype=bool)
    for name, output in zip(trial.operation.results, outputs, strict=True):
        each = output.reshape(len(output), -1) if output.size else np.zeros((len(poisoned), 0))
        spoilt |= (each != 0).any(1) if name == "info" else ~np.isfinite(each).all(1)
    trial.judge(
        finite=np.where(spoilt == poisoned, 0.0, np.inf),
        untouched=untouched(trial),
        **after_failure(trial),
    )


@pytest.mark.cases("cholesky_solve", plan="history")
def test_nonfinite_right_hand_side(trial: Trial) -> None:
    """NaN in one right-hand side spoils its solution, and no other's."""
    B, L = trial.arrays()
    spoilt = B.copy()
    spoilt[..., :1] = np.nan
    (X,), (Y,) = trial.raw, trial.call([spoilt, L])
    trial.judge(
        finite=np.where(np.isnan(Y[..., :1]).all((1, 2)), 0.0, np.inf),
        layout=difference(trial, [X[..., 1:]], [Y[..., 1:]]),
    )
