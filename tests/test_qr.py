"""QR: ``torch.linalg.qr``, and its parts ``geqrf``, ``householder_product`` and ``ormqr``."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import measures, reference
from conformance.promises import common
from conformance.trial import Trial


@pytest.mark.cases("qr")
def test_qr(trial: Trial) -> None:
    """A = Q R; Q orthonormal; R exactly upper triangular and, for full rank, unique but for phases.

    Its diagonal is real, also in the complex case. ``mode='r'`` returns an empty Q and the R of the
    reduced form, whose singular values are those of A.
    """
    Q, R = trial.outputs
    found = {
        "triangle": measures.triangle(R),
        "diagonal": measures.real_diagonal(R),
        **r_factor(trial, R),
    }
    if trial.case.variant == "r":
        found["reconstruction"] = measures.gram(trial.A, R, **trial.units)
        if trial.thorough:
            found["values"] = r_values(trial, R)
    else:
        found["reconstruction"] = measures.qr_reconstruction(trial.A, Q, R, **trial.units)
        found["orthonormality"] = measures.orthonormality(Q, eps=trial.eps)
    trial.judge(**found, **agreement(trial, R), **common(trial))


@pytest.mark.cases("geqrf")
def test_geqrf(trial: Trial) -> None:
    """The reflectors' product is orthonormal, and with R in the upper triangle gives A back."""
    a, tau = trial.outputs
    R = np.triu(a)[:, : min(a.shape[1:])]
    Q = reference.householder_product(a[:, :, : tau.shape[-1]], tau)
    trial.judge(
        reconstruction=measures.qr_reconstruction(trial.A, Q, R, **trial.units),
        orthonormality=measures.orthonormality(Q, eps=trial.eps),
        **r_factor(trial, R),
        **common(trial),
    )


@pytest.mark.cases("householder_product")
def test_householder_product(trial: Trial) -> None:
    """Q is the product of the reflectors, which alone are read."""
    (Q,) = trial.outputs
    Q_ref = trial.referred(reference.householder_product, *trial.readable)
    trial.judge(
        product=measures.product(Q, Q_ref, trial.case.shape[0], **trial.units),
        orthonormality=measures.orthonormality(Q, eps=trial.eps),
        **common(trial),
    )


@pytest.mark.cases("ormqr")
def test_ormqr(trial: Trial) -> None:
    """C is multiplied by Q or its adjoint, from the left or the right."""
    (computed,) = trial.outputs
    expected = trial.referred(multiplied(trial), *trial.stacks)
    trial.judge(
        product=measures.product(computed, expected, trial.case.shape[0], **trial.units),
        **common(trial),
    )


def multiplied(trial: Trial):  # type: ignore[no-untyped-def]
    """The function that multiplies C by the square Q of the case, on the host."""
    left, adjoint = (trial.variant.arguments[name] for name in ("left", "transpose"))

    def product(V: np.ndarray, tau: np.ndarray, C: np.ndarray) -> np.ndarray:
        Q = reference.householder_product(reference.square(V[:, :, : tau.shape[-1]]), tau)
        Q = np.conj(np.swapaxes(Q, -1, -2)) if adjoint else Q
        return Q @ C if left else C @ Q

    return product


def r_factor(trial: Trial, R: np.ndarray) -> dict[str, np.ndarray]:
    """R against LAPACK's, for matrices of full rank."""
    if not (trial.thorough and trial.full_rank):
        return {}
    R_ref = trial.referred(reference.qr_r)
    rows = R[:, : R_ref.shape[1]]
    return {"factor": measures.r_factor(rows, R_ref, trial.cond, trial.n, **trial.units)}


def r_values(trial: Trial, R: np.ndarray) -> np.ndarray:
    """The singular values of R against those of A: R alone must be that of some orthonormal Q.

    A factor of AhA, whose error is eps cond(A), passes where both are only compared with R.
    """
    if not np.isfinite(R).all():
        return np.full(len(R), np.nan)
    S = trial.referred(reference.svdvals)
    return measures.values(reference.svdvals(R), S, max(trial.case.shape), **trial.units)


def agreement(trial: Trial, R: np.ndarray) -> dict[str, np.ndarray]:
    """The R of another mode is the same, for matrices of full rank."""
    if not (trial.thorough and trial.full_rank):
        return {}
    other = "reduced" if trial.case.variant == "r" else "r"
    _, R_other = trial.also("qr", other)
    R_other = reference.positive_diagonal(R_other)
    rows = R[:, : R_other.shape[1]]
    return {"agreement": measures.r_factor(rows, R_other, trial.cond, trial.n, **trial.units)}
