"""What was called before must not matter: dirty workspaces, failures, threads, first calls."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from conformance import measures
from conformance.fresh import in_fresh_process
from conformance.placing import Placed, memory
from conformance.plans import plain
from conformance.promises import difference
from conformance.trial import Trial
from tests import test_cholesky, test_eigh, test_qr, test_svd

JUDGES: dict[str, Callable[[Trial], None]] = {
    "svd": test_svd.test_svd,
    "svdvals": test_svd.test_svdvals,
    "eigh": test_eigh.test_eigh,
    "eigvalsh": test_eigh.test_eigvalsh,
    "qr": test_qr.test_qr,
    "geqrf": test_qr.test_geqrf,
    "householder_product": test_qr.test_householder_product,
    "ormqr": test_qr.test_ormqr,
    "cholesky": test_cholesky.test_cholesky,
    "cholesky_ex": test_cholesky.test_cholesky_ex,
    "cholesky_solve": test_cholesky.test_cholesky_solve,
    "cholesky_inverse": test_cholesky.test_cholesky_inverse,
}
CALLS = 40  # more than any small ring of buffers or streams
MANY_CALLS = 70_000  # more than 65536
CHECKED = 1000  # of the many calls every thousandth is compared
THREADS = 4


@pytest.mark.cases(*JUDGES, plan="history")
def test_after_poison(trial: Trial) -> None:
    """After calls on NaN of the same and of other sizes, whose workspaces stay dirty."""
    for arrays in (trial.arrays(), bigger(trial, 7)):
        with contextlib.suppress(torch.linalg.LinAlgError):
            trial.call([np.full_like(array, np.nan) for array in arrays])
    JUDGES[trial.case.operation](trial)


@pytest.mark.cases(*JUDGES, plan="history")
def test_after_other_batches(trial: Trial) -> None:
    """After calls on batches of other sizes, larger and smaller."""
    for size in (5, 1, 67, 2, 3):
        trial.call(bigger(trial, size))
    JUDGES[trial.case.operation](trial)


@pytest.mark.cases(*JUDGES, plan="history")
def test_after_other_calls(trial: Trial) -> None:
    """Right after a call of any other dtype and variant on the same shape the results are the same:
    nothing is kept of that one."""
    worst = np.zeros(len(trial.index))
    arrays = trial.arrays()
    for dtype in trial.backend.dtypes_on(trial.device):
        for variant in trial.operation.variants:
            if plain(variant.name):
                other = trial.sibling(dtype=dtype, variant=variant.name)
                other.call(other.arrays())
                worst = np.maximum(worst, difference(trial, trial.raw, trial.call(arrays)))
    trial.judge(layout=worst)


@pytest.mark.cases(*JUDGES, plan="history")
def test_results_stay(trial: Trial) -> None:
    """Results are the caller's: a call on the same operands gives others, that live elsewhere, and
    calls on other matrices of the same shape leave them."""
    before = trial.raw
    views = [placed.view for placed in trial.operands]
    again = trial.attempt(lambda: trial.function(*views))
    for number in (1, 2):
        trial.call(others(trial, number))
    after = trial.fetched(trial.results)
    same = [measures.bitwise(a, b) for a, b in zip(before, after, strict=True)]
    shared = trial.backend.strides and memory(again) & memory(trial.results)
    trial.judge(untouched=np.max(same, axis=0) if not shared else np.inf)


@pytest.mark.cases(*JUDGES, plan="history")
def test_every_call(trial: Trial) -> None:
    """Forty calls in a row give the same results, the first and the last included."""
    worst = np.zeros(len(trial.index))
    arrays = trial.arrays()
    for _ in range(CALLS):
        worst = np.maximum(worst, difference(trial, trial.raw, trial.call(arrays)))
    trial.judge(layout=worst)


@pytest.mark.cases(*JUDGES, plan="many-calls")
def test_many_calls(trial: Trial) -> None:
    """Seventy thousand calls in one process, more than fit in 16 bits, give the same results."""
    worst = np.zeros(len(trial.index))
    views = [placed.view for placed in trial.operands]
    for call in range(MANY_CALLS):
        with trial.backend.active(trial.device):
            results = trial.function(*views)
        if call % CHECKED == CHECKED - 1:
            trial.backend.synchronize(trial.device)
            worst = np.maximum(worst, difference(trial, trial.raw, trial.fetched(results)))
    trial.judge(layout=worst)


@pytest.mark.cases(*JUDGES, plan="history")
def test_overwritten_operand(trial: Trial) -> None:
    """After the operands are overwritten in place, a call gives the results of the new values."""
    placed = trial.placed(trial.arrays())
    trial.attempt(lambda: trial.function(*(p.view for p in placed)))
    new = scaled(trial, 2)
    trial.attempt(lambda: overwritten(trial, placed, new))
    results = trial.fetched(trial.attempt(lambda: trial.function(*(p.view for p in placed))))
    trial.judge(layout=difference(trial, trial.call(new), results))


@pytest.mark.cases(*JUDGES, plan="history")
def test_threads(trial: Trial) -> None:
    """Four threads that call at once, each on matrices of its own, get what one alone gets."""
    own = [scaled(trial, 2**number) for number in range(THREADS)]
    start = threading.Barrier(THREADS)
    found: list[tuple[int, tuple[np.ndarray, ...] | Exception]] = []

    def work(number: int) -> None:
        start.wait()
        try:
            for _ in range(CALLS // THREADS):
                found.append((number, trial.call(own[number])))
        except Exception as error:
            found.append((number, error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = [trial.call(arrays) for arrays in own]
    worst = np.zeros(len(trial.index))
    for number, each in found:
        if isinstance(each, Exception):
            raise each
        worst = np.maximum(worst, difference(trial, alone[number], each))
    trial.judge(layout=worst)


@pytest.mark.cases(*JUDGES, plan="streams")
def test_streams(trial: Trial) -> None:
    """On side streams, each with operands made there right before, the results are the same."""
    device = trial.backend.torch_device(trial.device)
    own = [scaled(trial, 2**number) for number in range(THREADS)]
    alone = [trial.call(arrays) for arrays in own]
    worst = np.zeros(len(trial.index))
    for _ in range(CALLS // THREADS):
        pending = []
        for arrays in own:
            with trial.backend.active(trial.device), torch.Stream(device):
                views = [placed.view * 1 for placed in trial.placed(arrays)]
                pending.append(trial.function(*views))
        trial.backend.synchronize(trial.device)
        for expected, results in zip(alone, pending, strict=True):
            worst = np.maximum(worst, difference(trial, expected, trial.fetched(results)))
    trial.judge(layout=worst)


@pytest.mark.cases(*JUDGES, plan="first-call")
def test_first_call(trial: Trial) -> None:
    """The first call of a fresh process is right."""
    trial.adopt(in_fresh_process(JUDGES[trial.case.operation], trial))


@pytest.mark.cases(*JUDGES, plan="first-call")
def test_first_threads(trial: Trial) -> None:
    """The first calls of a fresh process, from four threads at once, are right."""
    trial.adopt(in_fresh_process(test_threads, trial))


def overwritten(
    trial: Trial, placed: Sequence[Placed], new: Sequence[np.ndarray]
) -> tuple[torch.Tensor, ...]:
    """The operands, now holding the new values."""
    return tuple(
        old.view.copy_(trial.backend.send(torch.from_numpy(array), trial.device))
        for old, array in zip(placed, new, strict=True)
    )


def bigger(trial: Trial, size: int) -> list[np.ndarray]:
    """The operands of the first matrix, ``size`` times, along a new batch axis."""
    return [np.stack([array] * size) for array in trial.arrays(0)]


def others(trial: Trial, number: int) -> Sequence[np.ndarray]:
    """Operands of the same shapes with other values."""
    if "tau" in trial.operation.inputs:
        return trial.sibling(number).arrays()
    return scaled(trial, 2**number)


def scaled(trial: Trial, factor: int) -> list[np.ndarray]:
    """The host operands times a power of two: other matrices, as good as the first.

    Reflectors and their scales would be none any more; they stay as they are.
    """
    kept = {"householder_product": 2, "ormqr": 2}.get(trial.case.operation, 0)
    arrays = trial.arrays()
    return [*arrays[:kept], *(a * a.real.dtype.type(factor) for a in arrays[kept:])]
