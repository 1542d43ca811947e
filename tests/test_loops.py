"""Iterations around a factorization, as users write them, in a compiled ``while_loop``."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from conformance import measures
from conformance.captures.control_flow import looping
from conformance.promises import untouched
from conformance.trial import Trial

POWER, STEPS = 4, 9


@pytest.mark.cases("qr", plan="loops")
def test_orthogonal_iteration(trial: Trial) -> None:
    """k steps give A^k = Q S, S the product of all R; Q is orthonormal, S upper triangular."""
    Q, S = iterated(trial, orthogonal, POWER - 1, start=start_of_powers)
    power = np.linalg.matrix_power(trial.A, POWER)
    trial.judge(
        reconstruction=measures.qr_reconstruction(power, Q, S, **trial.units),
        orthonormality=measures.orthonormality(Q, eps=trial.eps),
        triangle=measures.triangle(S),
        untouched=untouched(trial),
    )


@pytest.mark.cases("qr", plan="loops")
def test_newton_for_the_polar_factor(trial: Trial) -> None:
    """X <- (X + X^-H) / 2 converges to the unitary factor of A, which is SciPy's U V^H."""
    (X,) = iterated(trial, newton, STEPS, start=lambda A: (A.contiguous(),))
    U, _, Vh = np.linalg.svd(trial.A)
    trial.judge(
        orthonormality=measures.orthonormality(X, eps=trial.eps),
        factor=measures.agreement(X, U @ Vh, trial.n, **trial.units) / trial.cond,
        untouched=untouched(trial),
    )


Step = Callable[..., tuple[torch.Tensor, ...]]


def orthogonal(A: torch.Tensor, Q: torch.Tensor, S: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One step of orthogonal iteration."""
    Q, R = torch.linalg.qr(A @ Q)
    return Q, R @ S


def start_of_powers(A: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Q and S of the first power."""
    Q, R = torch.linalg.qr(A)
    return Q, R.contiguous()


def newton(A: torch.Tensor, X: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One step of Newton's method for the polar factor; the inverse adjoint is Q R^-H."""
    Q, R = torch.linalg.qr(X)
    inverse = torch.linalg.solve_triangular(R.mH, Q, upper=False, left=False)
    return (((X + inverse) / 2).contiguous(),)


def run(trial: Trial, loop: Step, start: Step) -> tuple[torch.Tensor, ...]:
    """The loop on the matrices of a trial."""
    (A,) = (p.view for p in trial.operands)
    begun = start(A)
    return trial.watched(lambda: loop(A, *begun))


def iterated(trial: Trial, step: Step, times: int, start: Step) -> tuple[np.ndarray, ...]:
    """What the captured loop makes of the case's matrices: arrays (B, n, n), in wide precision.

    It is compiled on others.
    """
    loop = looping(trial.case.capture, step, times)
    begun = time.perf_counter()
    run(trial.sibling(1), loop, start)
    trial.compile_seconds = time.perf_counter() - begun
    results = run(trial, loop, start)
    n = trial.n
    return tuple(
        trial.backend.fetch(result).numpy().reshape(-1, n, n).astype(trial.precision.wide)
        for result in results
    )
