"""torch.func.vmap over each batch axis of a call on a single matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.captures.base import Call, Capture, Function, Tensors


def mapped(axis: int) -> Callable[[Call], Function]:
    """Move each batch axis from the front to ``axis`` and map over it there."""

    def prepare(call: Call) -> Function:
        function = call.function
        for _ in range(call.batch):
            function = _over(function, axis)
        return function

    return prepare


def _over(function: Function, axis: int) -> Function:
    mapped = torch.func.vmap(function, in_dims=axis)

    def call(*operands: torch.Tensor) -> Tensors:
        return mapped(*(operand.movedim(0, axis) for operand in operands))

    return call


CAPTURES = (
    Capture("vmap", "torch.func.vmap over the batch", mapped(0), needs="batch", common=True),
    Capture(
        "vmap-last", "torch.func.vmap over a batch axis that is last", mapped(-1), needs="batch"
    ),
)
