"""A problem: the matrices of a case as they are on the host, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from conformance import reference
from conformance.cases import Case
from conformance.layouts import LAYOUTS
from conformance.matrices import FAMILIES, Family, Sample, sample
from conformance.operations import OPERATIONS, Operation, Variant
from conformance.precision import PRECISIONS, Precision
from devices.base import Backend

Array = np.ndarray

# Above this much arithmetic (batch x m x n x min(m, n), 300^3) the promises that need further
# calls of the same size (batch, layout, repeat, agreement) are left to smaller cases.
_THOROUGH = 27_000_000
_MANY = 10_000  # nor are batches of more matrices called again


class Problem:
    """The operands of one case: distinct matrices, where in the batch they stand, their units."""

    def __init__(self, case: Case, backend: Backend, seed: int = 0) -> None:
        self.case, self.backend, self.seed = case, backend, seed
        self.operation: Operation = OPERATIONS[case.operation]
        self.variant: Variant = self.operation.variant(case.variant)
        self.layout = LAYOUTS[case.layout]

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

    def batch_axes(self, operand: int, axes: int) -> int:
        """How many batch axes the operand has: what is shared is broadcast, from one or none."""
        return min(axes, 1) if operand == self.variant.shared else axes

    def arrays(self, position: int | None = None) -> tuple[Array, ...]:
        """The host operands in the dtype of the case: batch + (...), or one matrix's alone."""
        batch = self.case.batch if position is None else ()
        arrays = []
        for number, stack in enumerate(self.stacks):
            chosen, shape = self.index if position is None else self.index[position], batch
            if number == self.variant.shared and len(self.index):
                chosen, shape = self.index[0], (1,) * self.batch_axes(number, len(batch))
            array = stack[chosen].reshape(*shape, *stack.shape[1:])
            arrays.append(array.astype(self.precision.numpy))
        return tuple(arrays)
