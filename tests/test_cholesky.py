"""Cholesky: ``torch.linalg.cholesky``, ``cholesky_ex``, and what is solved with the factor."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from conformance import measures, reference
from conformance.promises import after_failure, common, metadata_kept, untouched
from conformance.trial import Trial


@pytest.mark.cases("cholesky")
def test_cholesky(trial: Trial) -> None:
    """A = L Lh (or Uh U), exactly triangular, real positive diagonal; one triangle is read."""
    (L,) = trial.outputs
    trial.judge(**factor(trial, L), **common(trial))


@pytest.mark.cases("cholesky_ex")
def test_cholesky_ex(trial: Trial) -> None:
    """As cholesky, and info is 0."""
    L, info = trial.outputs
    trial.judge(
        **factor(trial, L),
        info=measures.info(info, np.zeros(len(L), dtype=int)),
        **common(trial),
    )


@pytest.mark.cases("cholesky_ex", plan="indefinite")
def test_cholesky_ex_indefinite(trial: Trial) -> None:
    """info is the order of the first leading minor that is not positive definite, 0 elsewhere.

    The factor of a matrix that failed is unspecified; that of a good neighbour is not.
    ``check_errors=True`` raises as ``cholesky`` does.
    """
    expected = trial.referred(reference.cholesky_info)
    if trial.variant.arguments.get("check_errors") and expected.any():
        error = raised(trial, expected)
        trial.judge(error=error, untouched=untouched(trial), **after_failure(trial))
        return
    L, info = trial.outputs
    L, good = lower(trial, L), expected == 0
    trial.judge(
        info=measures.info(info, expected),
        reconstruction=np.where(
            good, measures.cholesky_reconstruction(trial.A, L, **trial.units), 0.0
        ),
        triangle=np.where(good, measures.triangle(L, upper=False), 0.0),
        diagonal=np.where(good, measures.cholesky_diagonal(L), 0.0),
        untouched=untouched(trial),
        metadata=metadata_kept(trial),
        **after_failure(trial),
    )


@pytest.mark.cases("cholesky", plan="indefinite")
def test_cholesky_indefinite(trial: Trial) -> None:
    """LinAlgError names the first matrix of the batch that fails and its leading minor."""
    error = raised(trial, trial.referred(reference.cholesky_info))
    trial.judge(error=error, untouched=untouched(trial), **after_failure(trial))


@pytest.mark.cases("cholesky_solve")
def test_cholesky_solve(trial: Trial) -> None:
    """X solves L Lh X = B."""
    (X,) = trial.outputs
    L = stored(trial, trial.of(1))
    trial.judge(
        residual=measures.solve_residual(product(L), X, trial.of(0), **trial.units),
        **common(trial),
    )


@pytest.mark.cases("cholesky_inverse")
def test_cholesky_inverse(trial: Trial) -> None:
    """X is the inverse of L Lh, and Hermitian."""
    (X,) = trial.outputs
    L = stored(trial, trial.of(0))
    trial.judge(
        residual=measures.inverse_residual(product(L), X, **trial.units),
        hermitian=measures.hermitian(X, **trial.units),
        **common(trial),
    )


def factor(trial: Trial, L: np.ndarray) -> dict[str, np.ndarray]:
    """What makes L the Cholesky factor of A."""
    L = lower(trial, L)
    found = {
        "reconstruction": measures.cholesky_reconstruction(trial.A, L, **trial.units),
        "triangle": measures.triangle(L, upper=False),
        "diagonal": measures.cholesky_diagonal(L),
    }
    if trial.thorough:  # else the reconstruction has to do: the condition costs an SVD
        L_ref = trial.referred(reference.cholesky)
        found["factor"] = measures.cholesky_factor(L, L_ref, trial.cond, **trial.units)
    return found


def lower(trial: Trial, L: np.ndarray) -> np.ndarray:
    """The lower factor, whichever triangle the variant asks for."""
    return np.conj(np.swapaxes(L, -1, -2)) if trial.variant.read == "U" else L


def stored(trial: Trial, L: np.ndarray) -> np.ndarray:
    """The lower factor in an operand, without what its other triangle holds."""
    return np.tril(lower(trial, L))


def product(L: np.ndarray) -> np.ndarray:
    """L Lh."""
    return L @ np.conj(np.swapaxes(L, -1, -2))


def raised(trial: Trial, expected: np.ndarray) -> float:
    """0 if the call raises LinAlgError that names the first failing matrix and its minor."""
    at = int(np.flatnonzero(expected)[0])
    try:
        trial.results  # noqa: B018 - the call is the test
    except torch.linalg.LinAlgError as error:
        numbers = list(map(int, re.findall(r"\d+", str(error))))
        named = [at, int(expected[at])] if trial.case.batch else [int(expected[at])]
        return 0.0 if numbers[: len(named)] == named else np.inf
    return np.inf
