"""Powers of two: f(2^k A) = 2^k f(A), for the values and for the factors that are unique."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.promises import difference
from conformance.trial import Trial

# k is even, so that a Cholesky factor scales by a power of two as well.
EXPONENTS = (-60, 60)
POWER_OF_RESULT = {"S": 1.0, "w": 1.0, "R": 1.0, "L": 0.5}


@pytest.mark.cases("svd", "svdvals", "eigh", "eigvalsh", "qr", "cholesky", plan="scaling")
def test_scaling(trial: Trial) -> None:
    """Scaled by 2^-60 and 2^60 a matrix has results scaled alike, up to rounding."""
    plain = trial.raw
    worst = np.zeros(len(trial.index))
    for k in EXPONENTS:
        results = trial.call([array * array.real.dtype.type(2.0**k) for array in trial.arrays()])
        back = [
            result * result.real.dtype.type(2.0 ** (-k * POWER_OF_RESULT.get(name, 0.0)))
            for name, result in zip(trial.operation.results, results, strict=True)
        ]
        worst = np.maximum(worst, difference(trial, plain, back))
    trial.judge(scaling=worst)
