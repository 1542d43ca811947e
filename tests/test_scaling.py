"""Powers of two: f(2^k A) = 2^k f(A), for the values and for the factors that are unique."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.promises import difference
from conformance.trial import Trial

# k is even, so that a Cholesky factor scales by a power of two as well.
EXPONENTS = (-60, 60)
POWER_OF_RESULT = {"S": 1.0, "w": 1.0, "R": 1.0, "L": 0.5}


OPERATIONS = ("svd", "svdvals", "eigh", "eigvalsh", "qr", "cholesky")


@pytest.mark.cases(*OPERATIONS, plan="scaling")
def test_scaling(trial: Trial) -> None:
    """Scaled by 2^-60 and 2^60 a matrix has results scaled alike, up to rounding."""
    plain = trial.raw
    worst = np.zeros(len(trial.index))
    for k in EXPONENTS:
        back = scaled(trial, np.full(trial.case.batch, float(k)))
        worst = np.maximum(worst, difference(trial, plain, back))
    trial.judge(scaling=worst)


@pytest.mark.cases(*OPERATIONS, plan="scales")
def test_scales_in_a_batch(trial: Trial) -> None:
    """A matrix has the same results, up to rounding, in a batch of larger and smaller ones."""
    k = np.resize([EXPONENTS[0], 0.0, EXPONENTS[1]], len(trial.index)).reshape(trial.case.batch)
    trial.judge(scaling=difference(trial, trial.raw, scaled(trial, k)))


def scaled(trial: Trial, k: np.ndarray) -> list[np.ndarray]:
    """The results for the matrices times 2^k, scaled back; ``k`` has the shape of the batch."""
    (A,) = trial.arrays()
    results = trial.call([A * (2.0 ** k[..., None, None]).astype(A.real.dtype)])
    back = []
    for name, result in zip(trial.operation.results, results, strict=True):
        power = -k.ravel() * POWER_OF_RESULT.get(name, 0.0)
        factor = (2.0**power).reshape(-1, *(1,) * (result.ndim - 1))
        back.append(result * factor.astype(result.real.dtype))
    return back
