"""Singular value decomposition: ``torch.linalg.svd`` and ``torch.linalg.svdvals``."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import measures, reference
from conformance.promises import common
from conformance.trial import Recorded, Trial


@pytest.mark.cases("svd")
def test_svd(trial: Trial) -> None:
    """A = U diag(S) Vh; U and V orthonormal; S real, non-negative, descending and LAPACK's."""
    U, S, Vh = trial.outputs
    trial.judge(
        reconstruction=measures.svd_reconstruction(trial.A, U, S, Vh, **trial.units),
        orthonormality_u=measures.orthonormality(U, eps=trial.eps),
        orthonormality_vh=measures.orthonormality(adjoint(Vh), eps=trial.eps),
        **singular_values(trial, S),
        **agreement(trial, S),
        **common(trial),
    )


@pytest.mark.cases("svdvals")
def test_svdvals(trial: Trial) -> None:
    """S is real, non-negative, descending and LAPACK's."""
    (S,) = trial.outputs
    trial.judge(**singular_values(trial, S), **common(trial))


def singular_values(trial: Trial, S: np.ndarray) -> dict[str, np.ndarray | Recorded]:
    """Values and their order; on A = B D every single value, where a Jacobi method promises it."""
    S_ref = trial.referred(reference.svdvals)
    found: dict[str, np.ndarray | Recorded] = {
        "values": measures.values(S, S_ref, trial.n, **trial.units),
        "order": measures.descending(S),
    }
    if "column-scaled" in trial.family.traits and trial.thorough:
        precise = reference.svdvals_relative(trial.sample.distinct)
        if precise is not None:
            error = measures.relative_values(
                S, precise[trial.index], trial.referred(reference.condition_scaled), **trial.units
            )
            found["relative_values"] = error if trial.jacobi else Recorded(error)
    return found


def agreement(trial: Trial, S: np.ndarray) -> dict[str, np.ndarray]:
    """svdvals, and the other ``full_matrices``, give the same S."""
    if not trial.thorough:
        return {}
    form, plus, driver = trial.case.variant.partition("+")
    other = "reduced" if form == "full" else "full"
    (alone,) = trial.also("svdvals", f"values{plus}{driver}")
    _, S_other, _ = trial.also("svd", f"{other}{plus}{driver}")
    return {
        "agreement": np.maximum(
            measures.agreement(S, alone, trial.n, **trial.units),
            measures.agreement(S, S_other, trial.n, **trial.units),
        )
    }


def adjoint(X: np.ndarray) -> np.ndarray:
    """The conjugate transpose of every matrix of a stack."""
    return np.conj(np.swapaxes(X, -1, -2))
