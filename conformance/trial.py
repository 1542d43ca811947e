"""A trial runs one case and judges it.

    case -> input on host -> tensor on device in its layout -> call under its capture
         -> arrays on host -> measures -> margins -> verdict

A test function asks a trial for its matrices and results, and hands it the measures of its
operation; the trial adds the promises that hold for every operation (`Trial.common`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from conformance.captures import CAPTURES, Capture
from conformance.cases import Case
from conformance.layouts import LAYOUTS
from conformance.placing import Placed, Receiver, place
from conformance.problem import Array, Problem
from conformance.record import Measured, Outcome
from conformance.replays import Other, Replays, plain, replayed
from conformance.tolerances import Tolerances, traits_of
from devices.base import Backend, chain, matches

Tensors = tuple[torch.Tensor, ...]
T = TypeVar("T")


class NonConformance(AssertionError):
    """The case does not conform; the text says which measures fail and by how much."""


class Refused(Exception):
    """The device refuses the call with a clean, documented error."""


@dataclass(frozen=True)
class Recorded:
    """A measure that nobody promises: it is recorded, not judged."""

    value: Array


class Trial(Problem):
    """One case on one device."""

    def __init__(
        self, case: Case, backend: Backend, device: str, tolerances: Tolerances, seed: int = 0
    ) -> None:
        super().__init__(case, backend, seed)
        self.device, self.tolerances = device, tolerances
        self.seconds = 0.0
        self.compile_seconds: float | None = None
        self.recompiled: int | None = None
        self.fallback = ""
        self.disturbed = False
        self.later: Other | None = None  # after a captured call that raised as it should
        self.receiver: Receiver | None = None
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self.promise = ""
        self.options: dict[str, Any] = {}

    # --- call -------------------------------------------------------------------------------

    def placed(
        self, arrays: Sequence[Array], layout: str = "row-major", batch: int = 0
    ) -> tuple[Placed, ...]:
        """Host operands with ``batch`` batch axes on the device, in a layout."""
        first = LAYOUTS[layout]
        others = LAYOUTS[first.others or layout]
        layouts = (first, *(others for _ in arrays[1:]))
        with self.backend.active(self.device):
            return tuple(
                place(array, kind, self.backend, self.device, self.batch_axes(number, batch))
                for number, (array, kind) in enumerate(zip(arrays, layouts, strict=True))
            )

    def call(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The raw results of the case's call on other, contiguous host operands."""
        views = [p.view for p in self.placed(arrays)]
        return self.fetched(self.attempt(lambda: self.function(*views)))

    @cached_property
    def operands(self) -> tuple[Placed, ...]:
        """The operands of the case, on the device, in its layout."""
        return self.placed(self.arrays(), self.case.layout, len(self.case.batch))

    def function(self, *operands: torch.Tensor, **out: Any) -> Tensors:
        """The call of the case: operation with its variant's arguments."""
        return self.operation.call(operands, self.variant, **out)

    @property
    def capture(self) -> Capture:
        """How the call is run."""
        return CAPTURES[self.case.capture]

    @property
    def captured(self) -> bool:
        """Is the call run in another way than eagerly?"""
        return self.case.capture != "eager"

    @cached_property
    def replays(self) -> Replays:
        """What the captured call gave, again and again; `Refused` where it cannot be captured."""
        missing = self.capture.missing(self.backend, self.device)
        if missing:
            raise Refused(missing)
        return replayed(self)

    @cached_property
    def eager(self) -> tuple[Tensors | None, Exception | None]:
        """What the plain call gives, or the numerical error that it raises."""
        return plain(self)

    @cached_property
    def results(self) -> Tensors:
        """The results on the device, computed once, under the capture of the case."""
        if self.captured:
            return self.replays.results
        views = tuple(p.view for p in self.operands)
        self.receiver = self._receiver(views)
        out = {"out": _out(self.receiver.views)} if self.receiver else {}
        return self.watched(lambda: self.function(*views, **out))

    def watched(self, call: Callable[[], Tensors]) -> Tensors:
        """The case's own call: timed, and watched for a fallback to the CPU and random numbers."""
        state = self.backend.random_state()
        started = time.perf_counter()
        with self.backend.fallback(self.device) as watch:
            results = self.attempt(call, refusable=True)
        self.seconds = time.perf_counter() - started
        self.disturbed = self.backend.random_state() != state
        watch.results(results)
        self.fallback = watch.reason
        return results

    def _receiver(self, views: Tensors) -> Receiver | None:
        if not self.layout.out:
            return None
        like = self.attempt(lambda: self.function(*views), refusable=True)
        return Receiver.like(like, self._cores, self.layout.out, self.backend, self.device)

    def attempt(self, call: Callable[[], T], refusable: bool = False) -> T:
        """Call and wait. A clean refusal of the case's own call becomes `Refused`.

        Any other error is the caller's, and so is the refusal of a call that only checks the case,
        unless the case's own call is refused as well.
        """
        try:
            with self.backend.active(self.device):
                results = call()
                self.backend.synchronize(self.device)
        except Exception as error:
            reason = None if graph_break(error) else self.backend.refusal(error)
            if reason and refusable:
                raise Refused(reason) from error
            if reason and not self.captured:
                _ = self.results  # raises Refused where the case's own call is refused as well
            raise
        return results

    def fetched(self, results: Sequence[torch.Tensor]) -> tuple[Array, ...]:
        """Results on the host as they are, batch axes flattened: (B, ...)."""
        arrays = []
        for tensor, core in zip(results, self._cores, strict=True):
            array = self.backend.fetch(tensor.detach()).numpy()
            batch = array.shape[: max(0, array.ndim - core)]
            arrays.append(array.reshape(int(np.prod(batch, dtype=int)), *array.shape[len(batch) :]))
        if "mode" in self.variant.arguments and arrays[0].ndim < 3:  # qr's mode r has no Q
            arrays[0] = np.zeros((len(arrays[-1]), 0, 0), arrays[0].dtype)
        return tuple(arrays)

    @property
    def _cores(self) -> tuple[int, ...]:
        """Axes of each result without the batch: S, w and tau are vectors, info is a number."""
        return tuple(
            {"S": 1, "w": 1, "tau": 1, "info": 0}.get(r, 2) for r in self.operation.results
        )

    @cached_property
    def raw(self) -> tuple[Array, ...]:
        """The results on the host, in the dtype they came in: one array (B, ...) each."""
        return self.replays.raw if self.captured else self.fetched(self.results)

    @cached_property
    def outputs(self) -> tuple[Array, ...]:
        """The results on the host, in wide precision: one array of shape (B, ...) each."""
        return self.wide(self.raw)

    def also(self, operation: str, variant: str) -> tuple[Array, ...]:
        """The results of another operation on the very same operands."""
        other = self.sibling(operation=operation, variant=variant)
        views = tuple(p.view for p in self.operands)
        return self.wide(other.fetched(self.attempt(lambda: other.function(*views))))

    def wide(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Results in wide precision. To a device that flushes subnormal numbers they are zeros."""
        wide = tuple(map(widened, arrays))
        if self.backend.subnormals:
            return wide
        return tuple(np.where(np.abs(array) < self.precision.tiny, 0, array) for array in wide)

    def sibling(self, seed: int = 0, **parts: Any) -> Trial:
        """A trial whose case differs in these parts, its matrices drawn with a seed further on."""
        case = replace(self.case, **parts)
        return Trial(case, self.backend, self.device, self.tolerances, self.seed + seed)

    def refuses(self, call: Callable[[], Any]) -> float:
        """0 if the call ends in a RuntimeError that has something to say, inf otherwise.

        So does what the device itself declares to be a clean refusal, of whatever class. An error
        that says that something broke, or that memory ran out, is raised.
        """
        try:
            with self.backend.active(self.device):
                call()
                self.backend.synchronize(self.device)
        except Exception as error:
            text = str(error)
            if not isinstance(error, RuntimeError) and self.backend.refusal(error) is None:
                raise
            if self.backend.exhausted(error) or self.backend.fatal(error):
                raise
            return np.inf if not text or matches(self.backend.breakages, text) else 0.0
        return np.inf

    # --- verdict ------------------------------------------------------------------------------

    def judge(self, **found: Array | float | Recorded) -> None:
        """Hold the measures against their limits; raise NonConformance if any is exceeded."""
        judged = tuple(self.measured(name, value) for name, value in found.items())
        failed = [m for m in judged if not m.margin <= 1]
        verdict = "fail" if failed else "fallback" if self.fallback else "pass"
        self.conclude(verdict, judged, self.fallback)
        if failed:
            raise NonConformance("; ".join(m.name for m in failed))

    def adopt(self, outcome: Outcome) -> None:
        """Take over what the same case came to elsewhere; raise NonConformance if it failed."""
        self.outcome = outcome
        if outcome.verdict == "fail":
            raise NonConformance(outcome.reason)

    def measured(self, name: str, value: Array | float | Recorded) -> Measured:
        """The worst of a measure over the batch, with its limit: infinite if only recorded."""
        values = np.atleast_1d(value.value if isinstance(value, Recorded) else value)
        worst, at = 0.0, 0
        if values.size:
            ranked = np.where(np.isnan(values), np.inf, values)
            at = int(np.argmax(ranked))
            worst = float(values[at])
        if isinstance(value, Recorded):
            return Measured(name, worst, np.inf, at, "recorded, not promised")
        m, n = (*self.case.shape, 1, 1)[:2]
        limit = self.tolerances.limit(
            backend=self.backend.name,
            traits=_traits(self.backend, self.device),
            operation=self.case.operation,
            measure=name,
            dtype=self.case.dtype,
            m=m,
            n=n,
        )
        return Measured(name, worst, limit.value, at, limit.source)

    def conclude(self, verdict: str, judged: tuple[Measured, ...] = (), reason: str = "") -> None:
        """Note the outcome of the case."""
        self.outcome = Outcome(
            case=str(self.case),
            verdict=verdict,
            measures=judged,
            reason=reason,
            digest=self.sample_or_none.digest if self.sample_or_none else "",
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            recompiled=self.recompiled,
        )


@cache
def _traits(backend: Backend, device: str) -> tuple[str, ...]:
    return traits_of(backend.describe(device))


def graph_break(error: BaseException) -> bool:
    """Is that torch.compile's way to say that it cannot take the call as one graph?

    That is no refusal by the device: the call can be traced, as the CPU shows.
    """
    return any(type(link).__name__ == "Unsupported" for link in chain(error))


def widened(array: Array) -> Array:
    kind = array.dtype.kind
    return array.astype({"f": np.float64, "c": np.complex128}.get(kind, array.dtype))


def _out(views: Tensors) -> Any:
    return views if len(views) > 1 else views[0]
