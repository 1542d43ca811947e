"""``out=``: what does not fit is resized with the documented warning, or refused."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from conformance.operations import OPERATIONS
from conformance.promises import difference, untouched
from conformance.trial import Trial

RESIZED = "An output with one or more elements was resized"
# Shapes that do not fit, made from the right one, and whether resizing them is told.
MISFITS: tuple[tuple[Callable[[torch.Size], tuple[int, ...]], bool], ...] = (
    (lambda shape: (0,), False),
    (lambda shape: (3,), True),
    (lambda shape: tuple(size + 1 for size in shape), True),
)


@pytest.mark.cases(*OPERATIONS, plan="out")
def test_out_resized(trial: Trial) -> None:
    """A wrong shape is resized, with a warning unless it is empty; the results are right."""
    worst = np.zeros(len(trial.index))
    warned = True
    for misfit, warns in MISFITS:
        out = received(trial, lambda t, misfit=misfit: t.new_empty(misfit(t.shape)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = trial.attempt(functools.partial(called, trial, out))
        warned &= warns == any(RESIZED in str(w.message) for w in caught)
        worst = np.maximum(worst, difference(trial, trial.raw, trial.fetched(results)))
    trial.judge(layout=worst, error=0.0 if warned else np.inf)


@pytest.mark.cases(*OPERATIONS, plan="out")
def test_out_wrong_dtype(trial: Trial) -> None:
    """Results are not cast to an integer ``out``: RuntimeError, and the operand is untouched."""
    out = received(trial, lambda t: t.new_empty(t.shape, dtype=torch.int16))
    trial.judge(error=trial.refuses(lambda: called(trial, out)), untouched=untouched(trial))


@pytest.mark.cases(*OPERATIONS, plan="out")
def test_out_wrong_device(trial: Trial) -> None:
    """An ``out`` on another device is refused: RuntimeError."""
    elsewhere = "cpu" if trial.backend.accelerator else "meta"
    out = received(trial, lambda t: torch.empty(t.shape, dtype=t.dtype, device=elsewhere))
    trial.judge(error=trial.refuses(lambda: called(trial, out)), untouched=untouched(trial))


def received(trial: Trial, make) -> tuple[torch.Tensor, ...]:  # type: ignore[no-untyped-def]
    """Preallocated results made from the functional ones."""
    return tuple(make(t.detach()) for t in trial.results)


def called(trial: Trial, out: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The case's call with ``out``."""
    views = [placed.view for placed in trial.operands]
    return trial.function(*views, out=out if len(out) > 1 else out[0])
