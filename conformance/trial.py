"""A trial runs one case and judges it.

    case -> input on host -> tensor on device in its layout -> call under its capture
         -> arrays on host -> measures -> margins -> verdict

A test function asks a trial for its matrices and results, and hands it the measures of its
operation; the trial adds the promises that hold for every operation (`Trial.common`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from conformance import reference
from conformance.captures import CAPTURES, Call
from conformance.cases import Case
from conformance.layouts import LAYOUTS
from conformance.matrices import FAMILIES, Family, Sample, sample
from conformance.operations import OPERATIONS, Operation, Variant
from conformance.placing import Placed, Receiver, place
from conformance.precision import PRECISIONS, Precision
from conformance.record import Measured, Outcome
from conformance.tolerances import Tolerances
from devices.base import Backend, matches

Array = np.ndarray
Tensors = tuple[torch.Tensor, ...]

# Above this much arithmetic (batch x m x n x min(m, n), 300^3) the promises that need further
# calls of the same size (batch, layout, repeat, agreement) are left to smaller cases.
_THOROUGH = 27_000_000
_MANY = 10_000  # nor are batches of more matrices called again


class NonConformance(AssertionError):
    """The case does not conform; the text says which measures fail and by how much."""


class Refused(Exception):
    """The device refuses the call with a clean, documented error."""


@dataclass(frozen=True)
class Recorded:
    """A measure that nobody promises: it is recorded, not judged."""

    value: Array


class Trial:
    """One case on one device."""

    def __init__(
        self, case: Case, backend: Backend, device: str, tolerances: Tolerances, seed: int = 0
    ) -> None:
        self.case, self.backend, self.device = case, backend, device
        self.tolerances, self.seed = tolerances, seed
        self.operation: Operation = OPERATIONS[case.operation]
        self.variant: Variant = self.operation.variant(case.variant)
        self.layout = LAYOUTS[case.layout]
        self.seconds = 0.0
        self.fallback = ""
        self.receiver: Receiver | None = None
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self.promise = ""
        self.options: dict[str, Any] = {}

    # --- input ------------------------------------------------------------------------------

    @cached_property
    def precision(self) -> Precision:
        """The numbers of the case's dtype."""
        return PRECISIONS[self.case.dtype]

    @property
    def eps(self) -> float:
        """The spacing at 1 of the case's dtype."""
        return self.precision.eps

    @property
    def n(self) -> int:
        """The larger dimension of the matrices, at least 1."""
        return max(1, *self.case.shape)

    @property
    def family(self) -> Family:
        """The family of the matrices."""
        return FAMILIES[self.case.family]

    @property
    def jacobi(self) -> bool:
        """Does the SVD driver of the case promise every value to high relative accuracy?"""
        return self.backend.jacobi_svd(self.variant.arguments.get("driver"))

    @cached_property
    def sample(self) -> Sample:
        """The matrices of the case, rounded to its dtype."""
        kind = self.operation.kind
        if kind not in FAMILIES[self.case.family].kinds:
            kind = "indefinite"
        case = self.case
        m, n = case.shape
        return sample(case.family, kind, (m, n), case.batch, self.precision, self.seed)

    @property
    def sample_or_none(self) -> Sample | None:
        """The sample, if the case has got as far as that."""
        return self.__dict__.get("sample")

    @cached_property
    def index(self) -> Array:
        """Which of the distinct matrices stands at each place of the batch, shape (B,)."""
        batch = self.case.batch
        index = self.sample.index.reshape(batch)
        first = (slice(0, 1),) * self.layout.shared(len(batch))
        return np.broadcast_to(index[first], batch).ravel()

    @cached_property
    def stacks(self) -> tuple[Array, ...]:
        """The distinct operands, in wide precision: each of shape (k, ...)."""
        rng = np.random.default_rng(int(self.sample.digest, 16) ^ self.seed)
        return self.operation.operands(self.sample.distinct, self.variant, self.precision, rng)

    @cached_property
    def A(self) -> Array:  # noqa: N802
        """The matrices to be factored, shape (B, m, n), in wide precision."""
        return self.sample.distinct[self.index]

    def of(self, operand: int) -> Array:
        """The operand with this number for every matrix of the batch, shape (B, ...)."""
        shared = operand == self.variant.shared
        return self.stacks[operand][np.zeros_like(self.index) if shared else self.index]

    @property
    def readable(self) -> tuple[Array, ...]:
        """The stacks, with zeros for what must not be read: a reference may look at it."""
        return tuple(np.nan_to_num(stack) for stack in self.stacks)

    def referred(self, function: Callable[..., Array], *operands: Array) -> Array:
        """``function`` of the distinct matrices (or stacks), for every matrix of the batch."""
        return function(*(operands or (self.sample.distinct,)))[self.index]

    @cached_property
    def cond(self) -> Array:
        """The condition number of every matrix, shape (B,): of its leading columns if wide."""
        cond = self.referred(reference.condition_leading)
        return cond if self.variant.shared is None else np.full_like(cond, cond.max(initial=1))

    @property
    def full_rank(self) -> bool:
        """Are the matrices safely of full rank in the dtype of the case?"""
        limit = 1.0 / (100 * self.precision.eps * max(1, *self.case.shape))
        return bool(np.all(self.cond < limit))

    @property
    def units(self) -> dict[str, float]:
        """What the measures are scaled by."""
        subnormals = self.backend.subnormals
        smallest = self.precision.smallest if subnormals else self.precision.tiny
        return {"eps": self.eps, "smallest": smallest}

    @property
    def thorough(self) -> bool:
        """Is the case small enough to be called again and again?"""
        return self.work <= _THOROUGH and len(self.index) <= _MANY

    @property
    def work(self) -> int:
        """Batch x m x n x min(m, n)."""
        return len(self.index) * int(np.prod(self.case.shape)) * min(self.case.shape)

    # --- call -------------------------------------------------------------------------------

    def arrays(self, position: int | None = None) -> tuple[Array, ...]:
        """The host operands in the dtype of the case: batch + (...), or one matrix's alone."""
        batch = self.case.batch if position is None else ()
        arrays = []
        for number, stack in enumerate(self.stacks):
            chosen, shape = self.index if position is None else self.index[position], batch
            if number == self.variant.shared and len(self.index):
                chosen, shape = self.index[0], (1,) * len(batch)
            array = stack[chosen].reshape(*shape, *stack.shape[1:])
            arrays.append(array.astype(self.precision.numpy))
        return tuple(arrays)

    def placed(
        self, arrays: Sequence[Array], layout: str = "row-major", batch: int = 0
    ) -> tuple[Placed, ...]:
        """Host operands with ``batch`` batch axes on the device, in a layout."""
        first = LAYOUTS[layout]
        others = LAYOUTS[first.others or layout]
        layouts = (first, *(others for _ in arrays[1:]))
        with self.backend.active(self.device):
            return tuple(
                place(array, kind, self.backend, self.device, batch)
                for array, kind in zip(arrays, layouts, strict=True)
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

    @cached_property
    def results(self) -> Tensors:
        """The results on the device, computed once, under the capture of the case."""
        views = tuple(p.view for p in self.operands)
        self.receiver = self._receiver(views)
        out = {"out": _out(self.receiver.views)} if self.receiver else {}
        capture = CAPTURES[self.case.capture]
        missing = capture.missing(self.backend, self.device)
        if missing:
            raise Refused(missing)
        with self.backend.active(self.device):
            function = capture.prepare(Call(self.function, views, self.backend, self.device))
        started = time.perf_counter()
        with self.backend.fallback(self.device) as watch:
            results = self.attempt(lambda: function(*views, **out), refusable=True)
        self.seconds = time.perf_counter() - started
        watch.results(results)
        self.fallback = watch.reason
        return results

    def _receiver(self, views: Tensors) -> Receiver | None:
        if not self.layout.out:
            return None
        like = self.attempt(lambda: self.function(*views), refusable=True)
        return Receiver.like(like, self._cores, self.layout.out, self.backend, self.device)

    def attempt(self, call: Callable[[], Tensors], refusable: bool = False) -> Tensors:
        """Call and wait. A clean refusal of the case's own call becomes `Refused`.

        Any other error is the caller's, and so is the refusal of a call that only checks the case.
        """
        try:
            with self.backend.active(self.device):
                results = call()
                self.backend.synchronize(self.device)
        except Exception as error:
            reason = self.backend.refusal(error) if refusable else None
            if reason:
                raise Refused(reason) from error
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
        return self.fetched(self.results)

    @cached_property
    def outputs(self) -> tuple[Array, ...]:
        """The results on the host, in wide precision: one array of shape (B, ...) each."""
        return tuple(map(widened, self.raw))

    def also(self, operation: str, variant: str) -> tuple[Array, ...]:
        """The results of another operation on the very same operands."""
        other = Trial(
            Case(**{**vars(self.case), "operation": operation, "variant": variant}),
            self.backend,
            self.device,
            self.tolerances,
            self.seed,
        )
        views = tuple(p.view for p in self.operands)
        return tuple(map(widened, other.fetched(self.attempt(lambda: other.function(*views)))))

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
        )


@cache
def _traits(backend: Backend, device: str) -> tuple[str, ...]:
    return backend.traits(device)


def widened(array: Array) -> Array:
    kind = array.dtype.kind
    return array.astype({"f": np.float64, "c": np.complex128}.get(kind, array.dtype))


def _out(views: Tensors) -> Any:
    return views if len(views) > 1 else views[0]
