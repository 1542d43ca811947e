"""A captured call: prepared on one set of matrices, judged on another, replayed on a third.

    prepare on examples -> call on the case's operands -> call on others -> on the case's again

What was baked in at capture shows in the first call, what goes stale or is reused in the others.
Where the capture is dynamic in shape, the others have another shape. The eager call goes first: a
captured call must end as it does, with an error where it raises one, and work again after that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from conformance.captures import Call, Function
from conformance.captures.kept import compilations, prepared
from conformance.placing import Metadata, metadata

if TYPE_CHECKING:
    from conformance.trial import Trial

Tensors = tuple[torch.Tensor, ...]
Arrays = tuple[np.ndarray, ...]
_SHAPES = {-1: (5, 7), 0: (5, 5), 1: (7, 5)}  # by the sign of m - n: wide, square, tall
_BATCH = (2, 3, 4)
_OTHERS, _EXAMPLES = 1, 2  # seeds, from that of the case


class Unlike(AssertionError):
    """The captured call does not end as the eager one: one raises and the other does not."""


@dataclass(frozen=True)
class Other:
    """A further replay: an eager trial of other matrices, and what the captured call made of it."""

    trial: Trial
    raw: Arrays
    metadata: list[Metadata]


@dataclass(frozen=True)
class Replays:
    """What a captured call gave.

    ``results`` are those of the first call on the case's operands and ``raw`` the same on the host,
    fetched before the next call, ``later`` fetched after one on others; ``eager`` those of the
    plain call; ``again`` the later ones on the same operands.
    """

    results: Tensors
    raw: Arrays
    later: Arrays
    eager: Tensors
    again: tuple[Arrays, ...]
    other: Other


def replayed(trial: Trial) -> Replays:
    """Capture the call of the trial and run it on its operands and on others.

    Raises what the eager call raises, and leaves `Trial.later` then; `Unlike` where only one of
    them raises.
    """
    views = tuple(p.view for p in trial.operands)
    eager, error = trial.eager
    function = _captured(trial)
    ways: list[dict[str, Any]] = [{}]
    if trial.capture.ways > 1:
        ways = [{"way": way} for way in range(trial.capture.ways)]
    compiled = compilations()
    try:
        results = trial.watched(lambda: function(*views, **ways[0]))
    except torch.linalg.LinAlgError as raised:
        if error is None:
            raise Unlike(f"only the captured call raises {raised}") from raised
        trial.later = _after_error(trial, function, ways[-1])
        raise
    if error is not None or eager is None:
        raise Unlike(f"the captured call does not raise {type(error).__name__}: {error}")
    raw = trial.fetched(results)
    other = _other(trial, function, ways[-1])
    later = trial.fetched(results)

    def once_more(way: dict[str, Any]) -> Arrays:
        return trial.fetched(trial.attempt(lambda: function(*views, **way)))

    again = tuple(once_more(way) for way in ways[1:] or ways)
    trial.recompiled = compilations() - compiled
    return Replays(results, raw, later, eager, again, other)


def plain(trial: Trial) -> tuple[Tensors | None, Exception | None]:
    """What the plain call on the trial's operands gives, or the numerical error that it raises."""
    views = tuple(p.view for p in trial.operands)
    try:
        return trial.attempt(lambda: trial.function(*views), refusable=True), None
    except torch.linalg.LinAlgError as error:
        return None, error


def _captured(trial: Trial) -> Function:
    """The captured function, prepared on examples unless a case before has left it."""
    case = trial.case
    sizes = _example_sizes(trial) if trial.capture.dynamic else {}
    shape, batch = sizes.get("shape", case.shape), sizes.get("batch", case.batch)
    key = replace(case, family="", shape=shape, batch=batch)

    def call() -> Call:
        def further(number: int) -> Tensors:
            example = _plain(trial, _EXAMPLES + number, **sizes)
            return tuple(p.view for p in example.operands)

        function = trial.operation.bound(trial.variant)
        more = lambda number: further(1 + number)  # noqa: E731
        return Call(function, further(0), trial.backend, trial.device, more, len(batch))

    function, trial.compile_seconds = trial.attempt(
        lambda: prepared(trial.capture, key, call), refusable=True
    )
    return function


def _other(trial: Trial, function: Function, way: dict[str, Any]) -> Other:
    """The captured call on other matrices."""
    other = _plain(trial, _OTHERS, **_other_sizes(trial), **_other_layout(trial))
    views = tuple(p.view for p in other.operands)
    results = trial.attempt(lambda: function(*views, **way))
    told = [metadata(result, trial.backend.strides) for result in results]
    return Other(other, other.fetched(results), told)


def _other_sizes(trial: Trial) -> dict[str, Any]:
    """Another shape, if the capture is dynamic, and a batch of one if that is none to compile."""
    shape, batch = trial.case.shape, trial.case.batch
    if not trial.capture.dynamic:
        return {}
    return {
        "shape": _grown(shape),
        "batch": _ones(batch) if trial.capture.relaid else _grown(batch),
    }


def _other_layout(trial: Trial) -> dict[str, str]:
    """Elsewhere in the storage, with other strides where the capture takes them.

    torch.compile takes them as well, and compiles anew: once will do.
    """
    case, capture = trial.case, trial.capture
    if 0 in (*case.shape, *case.batch) or not trial.backend.strided:
        return {}  # strides of nothing are anyone's guess
    if case.layout == "row-major":
        return {"layout": "sliced" if capture.relaid else "offset"}
    return {"layout": "sliced"} if case.layout == "offset" and capture.compiles else {}


def _after_error(trial: Trial, function: Function, way: dict[str, Any]) -> Other:
    try:
        return _other(trial, function, way)
    except torch.linalg.LinAlgError as error:
        raise Unlike(f"after an error the captured call raises again: {error}") from error


def _plain(trial: Trial, seed: int, **parts: Any) -> Trial:
    """An eager trial of the same call on ordinary matrices, in the same layout unless told."""
    family = "moderate" if trial.operation.kind == "definite" else "random"
    return trial.sibling(seed, family=family, capture="eager", **parts)


def _example_sizes(trial: Trial) -> dict[str, Any]:
    """The sizes that stand for all of their kind; 0 and 1, which compilers single out, for none."""
    m, n = trial.case.shape
    if min(m, n, *trial.case.batch) < 2:
        return {}
    return {"shape": _SHAPES[int(np.sign(m - n))], "batch": _BATCH[: len(trial.case.batch)]}


def _ones(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * len(sizes)


def _grown(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size + 1 if size > 1 else size for size in sizes)
