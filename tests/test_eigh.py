"""Hermitian eigenvalue problem: ``torch.linalg.eigh`` and ``torch.linalg.eigvalsh``."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import measures, reference
from conformance.promises import common
from conformance.trial import Trial


@pytest.mark.cases("eigh")
def test_eigh(trial: Trial) -> None:
    """A V = V diag(w); V orthonormal; w real, ascending and LAPACK's; one triangle is read."""
    w, V = trial.outputs
    trial.judge(
        residual=measures.eigh_residual(trial.A, w, V, **trial.units),
        orthonormality=measures.orthonormality(V, eps=trial.eps),
        **eigenvalues(trial, w),
        **agreement(trial, w),
        **common(trial),
    )


@pytest.mark.cases("eigvalsh")
def test_eigvalsh(trial: Trial) -> None:
    """w is real, ascending and LAPACK's; one triangle is read."""
    (w,) = trial.outputs
    trial.judge(**eigenvalues(trial, w), **common(trial))


def eigenvalues(trial: Trial, w: np.ndarray) -> dict[str, np.ndarray]:
    """Values and their order."""
    w_ref = trial.referred(reference.eigvalsh)
    return {
        "values": measures.values(w, w_ref, trial.n, **trial.units),
        "order": measures.ascending(w),
    }


def agreement(trial: Trial, w: np.ndarray) -> dict[str, np.ndarray]:
    """eigvalsh gives the same w; where both triangles are there, so does the other ``UPLO``."""
    if not trial.thorough:
        return {}
    (alone,) = trial.also("eigvalsh", trial.case.variant)
    found = measures.agreement(w, alone, trial.n, **trial.units)
    if trial.variant.unused == "mirror":
        w_other, _ = trial.also("eigh", "lower" if trial.variant.read == "U" else "upper")
        found = np.maximum(found, measures.agreement(w, w_other, trial.n, **trial.units))
    return {"agreement": found}
