"""What goes wrong in a captured call: its operands, its results, or what it remembers.

Each takes what is captured and the captured function, and gives one that goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.captures import Call, Function

Tensors = tuple[torch.Tensor, ...]
Spoil = Callable[[Call, Function], Function]


def edited(edit: Callable[[Tensors], Tensors]) -> Spoil:
    """The results are changed on their way out."""
    return lambda call, function: lambda *operands, **way: tuple(edit(function(*operands, **way)))


def fed(feed: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    """The matrix is changed on its way in; computed without the capture, which has guards."""

    def spoil(call: Call, function: Function) -> Function:
        return lambda *operands, **way: call.function(feed(operands[0]), *operands[1:])

    return spoil


def constant(call: Call, function: Function) -> Function:
    baked = call.function(*call.operands)
    return lambda *operands, **way: tuple(result.clone() for result in baked)


def stale(call: Call, function: Function) -> Function:
    """The input buffer is filled by the first call on new data and never again."""
    held: list[Tensors] = []

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        if operands[0] is not call.operands[0] and not held:
            held.append(tuple(operand.clone() for operand in operands))
        same = held and all(a.shape == b.shape for a, b in zip(held[0], operands, strict=True))
        return call.function(*(held[0] if same else operands))

    return captured


def second_wrong(call: Call, function: Function) -> Function:
    calls = 0

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        nonlocal calls
        calls += 1
        results = function(*operands, **way)
        return results if calls <= 2 else tuple(result * (1 + 2**-20) for result in results)

    return captured


def reused(call: Call, function: Function) -> Function:
    """All calls on one shape write into the same results."""
    held: dict[Any, Tensors] = {}

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        results = function(*operands, **way)
        kept = held.setdefault(tuple(result.shape for result in results), results)
        for mine, result in zip(kept, results, strict=True):
            mine.copy_(result)
        return kept

    return captured


def frozen_batch(call: Call, function: Function) -> Function:
    """No more matrices are factored than there were in the example."""
    count = call.operands[0].shape[0] if call.batch else 0

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        results = function(*operands, **way)
        for result in results if call.batch else ():
            result[count:] = 0
        return results

    return captured


def batch_of_one(call: Call, function: Function) -> Function:
    """Where the example had more than one matrix, one matrix loses its batch axis."""
    many = call.batch and call.operands[0].shape[0] > 1

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        one = many and operands[0].shape[0] == 1
        return tuple(r.squeeze(0) if one else r for r in function(*operands, **way))

    return captured


def frozen_size(call: Call, function: Function) -> Function:
    """Rows beyond those of the example are taken for zero."""
    m = call.operands[0].shape[-2]

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        A = operands[0].clone()
        A[..., m:, :] = 0
        return call.function(A)

    return captured


def dropped_check(call: Call, function: Function) -> Function:
    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        try:
            return function(*operands, **way)
        except torch.linalg.LinAlgError:
            return tuple(torch.zeros_like(operands[0]) for _ in range(1))

    return captured


def only_first_checked(call: Call, function: Function) -> Function:
    """Only the first matrix of a batch can make it raise."""

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        try:
            return function(*operands, **way)
        except torch.linalg.LinAlgError:
            L, info = torch.linalg.cholesky_ex(operands[0])
            if info.flatten()[0]:
                raise
            return (L,)

    return captured


def error_again(call: Call, function: Function) -> Function:
    """What was raised once is raised by every later call."""
    raised: list[Exception] = []

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        if raised:
            raise raised[0]
        try:
            return function(*operands, **way)
        except torch.linalg.LinAlgError as error:
            raised.append(error)
            raise

    return captured


def unwritten_after_error(call: Call, function: Function) -> Function:
    """The results of the call after one that raised are left unwritten."""
    raised = False

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        nonlocal raised
        before, raised = raised, True
        results = function(*operands, **way)
        raised = False
        return tuple(torch.zeros_like(result) for result in results) if before else results

    return captured


def offset_baked_in(call: Call, function: Function) -> Function:
    """The operand is looked for where the example began in its storage."""
    start = call.operands[0].storage_offset()

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        A = operands[0]
        return function(A.as_strided(A.shape, A.stride(), start), **way)

    return captured


def strides_baked_in(call: Call, function: Function) -> Function:
    """The entries of a matrix are looked for at the strides of the example."""
    strides = call.operands[0].stride()

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        A = operands[0]
        return function(A.as_strided(A.shape, strides), **way)

    return captured


def random(call: Call, function: Function) -> Function:
    """Random numbers are drawn from the generator that is the user's."""

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        torch.rand(1)
        return function(*operands, **way)

    return captured


def branch(taken: int, instead: int) -> Spoil:
    """Where the branch ``taken`` is asked for, the operands of another one are used."""

    def spoil(call: Call, function: Function) -> Function:
        def captured(*operands: torch.Tensor, way: int = 0) -> Tensors:
            if way == taken:
                return call.function(*call.further(instead))
            return function(*operands, way=way)

        return captured

    return spoil


def overwritten(call: Call, function: Function) -> Function:
    """The operand's memory is taken for scratch."""

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        results = function(*operands, **way)
        if operands[0].numel() and 0 not in operands[0].stride():
            operands[0].view(operands[0].shape)[..., 0, :] = 0
        return results

    return captured


def swapped(A: torch.Tensor) -> torch.Tensor:
    """Two batch axes taken for each other."""
    return A.transpose(0, 1).reshape(A.shape) if A.ndim > 3 else A


def row_major(results: Tensors) -> Tensors:
    return tuple(result.contiguous() for result in results)


def widened(results: Tensors) -> Tensors:
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    return tuple(result.to(wide.get(result.dtype, result.dtype)) for result in results)


def narrow(A: torch.Tensor) -> torch.Tensor:
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    return A.to(narrow.get(A.dtype, A.dtype)).to(A.dtype)


def without_conjugate(A: torch.Tensor) -> torch.Tensor:
    return A.conj() if A.is_conj() else A


def without_subnormals(A: torch.Tensor) -> torch.Tensor:
    return torch.where(A.abs() < torch.finfo(A.dtype).tiny, 0, A)


def first_lanes(results: Tensors) -> Tensors:
    """Matrices beyond the eighth are left as zeros."""
    for result in results:
        result[8:] = 0
    return results


def reduced(results: Tensors) -> Tensors:
    U, S, Vh = results
    k = S.shape[-1]
    return U[..., :k], S, Vh[..., :k, :]
