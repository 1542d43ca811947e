"""What is promised of any call, whatever the operation: a measure for each promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance import measures, reference
from conformance.placing import Metadata, memory, metadata, predicted, unlike
from conformance.problem import Array
from conformance.replays import Other, plain
from conformance.trial import Trial, widened


def common(trial: Trial) -> dict[str, Array | float]:
    """The measures that hold for any call: metadata, untouched, layout, batch, repeat.

    A captured call is held against the eager one instead, of which the last three are known.
    """
    found: dict[str, Array | float] = {"metadata": metadata_kept(trial)}
    if trial.captured:
        found |= captured(trial)
    elif trial.thorough and len(trial.index):
        if trial.layout.name != "row-major":
            found["layout"] = _against_row_major(trial)
        if trial.case.batch:
            found["batch"] = _against_single(trial)
        if trial.backend.deterministic and not trial.layout.out:
            found["repeat"] = _against_repetition(trial)
    found["untouched"] = np.maximum(untouched(trial), _kept(trial))
    if trial.backend.strided:
        found["untouched"] = np.maximum(found["untouched"], _shared(trial))
    return found


def recovered(trial: Trial) -> dict[str, Array]:
    """After a refused capture the eager call gives, or raises, what it did before."""
    (before, error), (later, later_error) = trial.eager, plain(trial)
    if before is None or later is None:
        return {"error": np.array(0.0 if type(error) is type(later_error) else np.inf)}
    return {"capture": difference(trial, trial.fetched(later), trial.fetched(before))}


def captured(trial: Trial) -> dict[str, Array | float]:
    """What is promised of a captured call: it is the eager one, also on other data, and again."""
    replays = trial.replays
    apart = difference(trial, replays.raw, trial.fetched(replays.eager))
    elsewhere = _from_eager(replays.other)
    later = [_again(trial, replays.raw, again) for again in replays.again]
    return {
        "capture": np.maximum(apart, elsewhere.max(initial=0.0)),
        "replay": _worst(later),
    }


def after_failure(trial: Trial) -> dict[str, Array]:
    """A captured call that has failed, as it should, is the eager one on the next matrices."""
    if not trial.captured:
        return {}
    return {"capture": _from_eager(trial.later or trial.replays.other)}


def _from_eager(other: Other) -> Array:
    return difference(other.trial, other.raw, other.trial.raw)


def metadata_kept(trial: Trial) -> float:
    """0 when shape, strides, dtype and device are FakeTensor's, or those of ``out``.

    Those of a captured call are also the eager call's, on every shape it was run on.
    """
    return np.inf if misshapen(trial) else 0.0


def misshapen(trial: Trial) -> list[str]:
    """What is wrong with the metadata of the results, in words."""
    strides = trial.backend.strides
    got = [metadata(t, strides) for t in trial.results]
    wrong = unlike(got, expected_metadata(trial))
    if trial.captured:
        replays, other = trial.replays, trial.replays.other
        wrong += unlike(got, [metadata(t, strides) for t in replays.eager], "the eager call's ")
        elsewhere = [metadata(t, strides) for t in other.trial.results]
        wrong += unlike(other.metadata, elsewhere, f"the eager call's on {other.trial.case} ")
    elif trial.receiver:
        returned = zip(trial.results, trial.receiver.views, strict=True)
        wrong += ["what is returned is not out"] * (not all(a is b for a, b in returned))
    elif strides and any(t.storage_offset() for t in trial.results):
        wrong.append("a result starts within its storage: it is a view of something larger")
    return wrong


def expected_metadata(trial: Trial) -> list[Metadata]:
    """What the metadata of the results must be."""
    if trial.receiver:
        return list(trial.receiver.metadata)
    views = [p.view for p in trial.operands]
    key = (trial.case.operation, trial.case.variant, *map(metadata, views))
    if key not in _PREDICTIONS:
        _PREDICTIONS[key] = predicted(trial.function, views, trial.backend.strides)
    return _PREDICTIONS[key]


def untouched(trial: Trial) -> float:
    """0 when the operands, the memory around them and around ``out``, and the states of the random
    number generators kept their bits, and an eager call left the operands' versions, too."""
    spoilt = trial.disturbed or any(p.touched(trial.backend) for p in trial.operands)
    spoilt |= not trial.captured and any(p.written for p in trial.operands)
    if trial.receiver:
        spoilt |= trial.receiver.overrun(trial.backend)
    return np.inf if spoilt else 0.0


def _kept(trial: Trial) -> Array:
    """0 where the results still are what they were: no later call has written into them."""
    now = trial.replays.later if trial.captured else trial.fetched(trial.results)
    return _worst([measures.bitwise(a, b) for a, b in zip(trial.raw, now, strict=True)])


def _shared(trial: Trial) -> float:
    """0 when no result lives in the memory of an operand, which belongs to the caller."""
    if not trial.backend.strides:  # nor a memory that could be looked at
        return 0.0
    theirs = memory(p.base for p in trial.operands)
    return np.inf if memory(trial.results) & theirs else 0.0


def _against_row_major(trial: Trial) -> Array:
    return difference(trial, trial.raw, trial.call(trial.arrays()))


def _against_single(trial: Trial) -> Array:
    """The last matrix of the batch, and one in the middle, alone."""
    worst = np.zeros(len(trial.index))
    for position in {len(trial.index) - 1, len(trial.index) // 2}:
        alone = trial.call(trial.arrays(position))
        inside = tuple(output[[position]] for output in trial.raw)
        worst[position] = difference(trial, inside, alone, [position])[0]
    return worst


def _against_repetition(trial: Trial) -> Array:
    views = tuple(p.view for p in trial.operands)
    return _again(trial, trial.raw, trial.fetched(trial.attempt(lambda: trial.function(*views))))


def _again(trial: Trial, first: Sequence[Array], again: Sequence[Array]) -> Array:
    """Two results of the same call on the same bits: the same, where the device promises that."""
    if not trial.backend.deterministic:
        return difference(trial, first, again)
    return _worst([measures.bitwise(a, b) for a, b in zip(first, again, strict=True)])


def difference(
    trial: Trial, ours: Sequence[Array], theirs: Sequence[Array], positions: Any = slice(None)
) -> Array:
    """How far two results for the same matrices lie apart, in units of the last place.

    Only what is unique is compared: values, and factors of full-rank matrices, whose
    sensitivity, the condition number, is divided out.
    """
    n = max(1, *trial.case.shape)
    found = [np.zeros(len(ours[0]))]
    for name, x, y in zip(
        trial.operation.results, map(widened, ours), map(widened, theirs), strict=True
    ):
        if name == "info":
            found.append(measures.info(x, y))
        elif name in ("S", "w"):
            found.append(measures.agreement(x, y, n=n, **trial.units))
        elif name in ("L", "X", "R") and trial.full_rank:
            cond = trial.cond[positions]
            if name == "R":
                x, y = reference.positive_diagonal(x), reference.positive_diagonal(y)
            found.append(measures.agreement(x, y, n=n, **trial.units) / cond)
        found.append(measures.bitwise(np.isfinite(x), np.isfinite(y)))
    found += _composed_difference(trial, tuple(map(widened, ours)), tuple(map(widened, theirs)))
    return _worst(found)


def _composed_difference(
    trial: Trial, ours: Sequence[Array], theirs: Sequence[Array]
) -> list[Array]:
    """How far the products of the factors lie apart, and how far their vectors from orthonormal.

    Single vectors are free in sign, phase and, for equal values, in their basis.
    """
    compose = COMPOSED.get(trial.case.operation)
    if compose is None or not all(x.size for x in theirs):
        return []
    x, y = compose(*ours), compose(*theirs)
    n, units = max(1, *trial.case.shape), trial.units
    apart = measures.agreement(x, y, n=n, **units)
    vectors = [v for name, v in zip(trial.operation.results, theirs, strict=True) if name in "UVQ"]
    return [apart, *(measures.orthonormality(v, eps=trial.eps) for v in vectors)]


def _svd_product(U: Array, S: Array, Vh: Array) -> Array:
    p = S.shape[1]
    return (U[:, :, :p] * S[:, None, :]) @ Vh[:, :p]


COMPOSED: dict[str, Callable[..., Array]] = {
    "svd": _svd_product,
    "eigh": lambda w, V: (V * w[:, None, :]) @ np.conj(np.swapaxes(V, -1, -2)),
    "qr": lambda Q, R: Q @ R,
}


_PREDICTIONS: dict[Any, list[Metadata]] = {}


def _worst(found: Sequence[Array]) -> Array:
    """The largest of several measures for each matrix; NaN stays NaN."""
    return np.maximum.reduce(list(found))
