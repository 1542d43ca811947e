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

    ``mode='r'`` returns an empty Q and the R of the reduced form.
    """
    Q, R = trial.outputs
    found = {"triangle": measures.triangle(R), **r_factor(trial, R)}
    if trial.case.variant == "r":
        found["reconstruction"] = measures.gram(trial.A, R, **trial.units)
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


def agreement(trial: Trial, R: np.ndarray) -> dict[str, np.ndarray]:
    """The R of another mode is the same, for matrices of full rank."""
    if not (trial.thorough and trial.full_rank):
        return {}
    other = "reduced" if trial.case.variant == "r" else "r"
    _, R_other = trial.also("qr", other)
    R_other = reference.positive_diagonal(R_other)
    rows = R[:, : R_other.shape[1]]
    return {"agreement": measures.r_factor(rows, R_other, trial.cond, trial.n, **trial.units)}
