"""Right when called eagerly, wrong when captured: defects of what compiles, traces and replays.

They are planted on top of a capture instead of underneath ``torch.linalg``: what it prepares is
wrapped by a function that goes wrong. Only the cases of that capture are hunted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from conformance.captures import CAPTURES, Call, Function
from conformance.captures.kept import forget

from .table import CHOLESKY, EIGH, FACTORS

Tensors = tuple[torch.Tensor, ...]
Spoil = Callable[[Call, Function], Function]


@dataclass(frozen=True)
class CapturedFault:
    """A defect of some captures: ``spoil`` gets what is captured and the captured function."""

    name: str
    captures: tuple[str, ...]
    operations: tuple[str, ...]
    trigger: str
    corruption: str
    spoil: Spoil
    report: str = ""
    kind: str = "captured"


@contextmanager
def miscaptured(fault: CapturedFault) -> Iterator[None]:
    """Switch the fault on for its captures."""
    right = {name: CAPTURES[name] for name in fault.captures}
    forget()
    try:
        for name, capture in right.items():
            CAPTURES[name] = replace(capture, prepare=_spoilt(fault, capture.prepare))
        yield
    finally:
        CAPTURES.update(right)
        forget()


def _spoilt(
    fault: CapturedFault, prepare: Callable[[Call], Function]
) -> Callable[[Call], Function]:
    def spoilt(call: Call) -> Function:
        function = prepare(call)
        function(*call.operands)  # compiled, lest it be noticed by that nothing is
        return fault.spoil(call, function)

    return spoilt


# --- what goes wrong --------------------------------------------------------------------------


def _edited(edit: Callable[[Tensors], Tensors]) -> Spoil:
    """The results are changed on their way out."""
    return lambda call, function: lambda *operands, **way: tuple(edit(function(*operands, **way)))


def _fed(feed: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    """The matrix is changed on its way in; computed without the capture, which has guards."""

    def spoil(call: Call, function: Function) -> Function:
        return lambda *operands, **way: call.function(feed(operands[0]), *operands[1:])

    return spoil


def _constant(call: Call, function: Function) -> Function:
    baked = call.function(*call.operands)
    return lambda *operands, **way: tuple(result.clone() for result in baked)


def _stale(call: Call, function: Function) -> Function:
    """The input buffer is filled by the first call on new data and never again."""
    held: list[Tensors] = []

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        if operands[0] is not call.operands[0] and not held:
            held.append(tuple(operand.clone() for operand in operands))
        same = held and all(a.shape == b.shape for a, b in zip(held[0], operands, strict=True))
        return call.function(*(held[0] if same else operands))

    return captured


def _second_wrong(call: Call, function: Function) -> Function:
    calls = 0

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        nonlocal calls
        calls += 1
        results = function(*operands, **way)
        return results if calls <= 2 else tuple(result * (1 + 2**-20) for result in results)

    return captured


def _reused(call: Call, function: Function) -> Function:
    """All calls on one shape write into the same results."""
    held: dict[Any, Tensors] = {}

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        results = function(*operands, **way)
        kept = held.setdefault(tuple(result.shape for result in results), results)
        for mine, result in zip(kept, results, strict=True):
            mine.copy_(result)
        return kept

    return captured


def _frozen_batch(call: Call, function: Function) -> Function:
    """No more matrices are factored than there were in the example."""
    count = call.operands[0].shape[0] if call.batch else 0

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        results = function(*operands, **way)
        for result in results if call.batch else ():
            result[count:] = 0
        return results

    return captured


def _frozen_size(call: Call, function: Function) -> Function:
    """Rows beyond those of the example are taken for zero."""
    m = call.operands[0].shape[-2]

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        A = operands[0].clone()
        A[..., m:, :] = 0
        return call.function(A)

    return captured


def _dropped_check(call: Call, function: Function) -> Function:
    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        try:
            return function(*operands, **way)
        except torch.linalg.LinAlgError:
            return tuple(torch.zeros_like(operands[0]) for _ in range(1))

    return captured


def _only_first_checked(call: Call, function: Function) -> Function:
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


def _error_again(call: Call, function: Function) -> Function:
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


def _unwritten_after_error(call: Call, function: Function) -> Function:
    """The results of the call after one that raised are left unwritten."""
    raised = False

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        nonlocal raised
        before, raised = raised, True
        results = function(*operands, **way)
        raised = False
        return tuple(torch.zeros_like(result) for result in results) if before else results

    return captured


def _offset_baked_in(call: Call, function: Function) -> Function:
    """The operand is looked for where the example began in its storage."""
    start = call.operands[0].storage_offset()

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        A = operands[0]
        return function(A.as_strided(A.shape, A.stride(), start), **way)

    return captured


def _random(call: Call, function: Function) -> Function:
    """Random numbers are drawn from the generator that is the user's."""

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        torch.rand(1)
        return function(*operands, **way)

    return captured


def _branch(taken: int, instead: int) -> Spoil:
    """Where the branch ``taken`` is asked for, the operands of another one are used."""

    def spoil(call: Call, function: Function) -> Function:
        def captured(*operands: torch.Tensor, way: int = 0) -> Tensors:
            if way == taken:
                return call.function(*call.further(instead))
            return function(*operands, way=way)

        return captured

    return spoil


def _overwritten(call: Call, function: Function) -> Function:
    """The operand's memory is taken for scratch."""

    def captured(*operands: torch.Tensor, **way: Any) -> Tensors:
        results = function(*operands, **way)
        if operands[0].numel() and 0 not in operands[0].stride():
            operands[0].view(operands[0].shape)[..., 0, :] = 0
        return results

    return captured


def _swapped(A: torch.Tensor) -> torch.Tensor:
    """Two batch axes taken for each other."""
    return A.transpose(0, 1).reshape(A.shape) if A.ndim > 3 else A


def _row_major(results: Tensors) -> Tensors:
    return tuple(result.contiguous() for result in results)


def _widened(results: Tensors) -> Tensors:
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    return tuple(result.to(wide.get(result.dtype, result.dtype)) for result in results)


def _narrow(A: torch.Tensor) -> torch.Tensor:
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    return A.to(narrow.get(A.dtype, A.dtype)).to(A.dtype)


def _without_conjugate(A: torch.Tensor) -> torch.Tensor:
    return A.conj() if A.is_conj() else A


def _reduced(results: Tensors) -> Tensors:
    U, S, Vh = results
    k = S.shape[-1]
    return U[..., :k], S, Vh[..., :k, :]


# fmt: off
FAULTS: tuple[CapturedFault, ...] = (
    CapturedFault("export-constant-folded", ("export",), FACTORS, "any call",
        "the example's results are a constant", _constant),
    CapturedFault("make-fx-constant-folded", ("make-fx", "make-fx-fake"), ("svdvals",), "any call",
        "the example's results are a constant", _constant),
    CapturedFault("aot-eager-stale-input", ("aot-eager",), FACTORS, "after the first call",
        "the first operand is used again", _stale),
    CapturedFault("export-saved-second-replay-wrong", ("export-saved",), ("qr",),
        "the second replay", "all entries are off by 1e-6", _second_wrong),
    CapturedFault("inductor-output-reused", ("inductor",), ("eigh",), "the next call",
        "writes into the results of the last", _reused),
    CapturedFault("inductor-strides-row-major", ("inductor",), ("svd",), "any call",
        "results are row-major, unlike what eager returns", _edited(_row_major),
        report="pytorch#156658"),
    CapturedFault("aot-eager-check-dropped", ("aot-eager",), ("cholesky",), "not positive definite",
        "no error is raised", _dropped_check, report="pytorch#182965"),
    CapturedFault("export-dynamic-batch-frozen", ("export-dynamic",), ("svd", "svdvals"),
        "a larger batch than the example's", "the rest of the batch is zero", _frozen_batch),
    CapturedFault("make-fx-symbolic-size-frozen", ("make-fx-symbolic",), ("qr",),
        "a larger matrix than the example's", "the rest of the rows is zero", _frozen_size),
    CapturedFault("spec-compile-size-frozen", ("spec-compile",), EIGH,
        "a larger matrix than the example's", "the rest of the rows is zero", _frozen_size),
    CapturedFault("vmap-wrong-axis", ("vmap",), FACTORS, "two batch axes",
        "one is taken for the other", _fed(_swapped)),
    CapturedFault("vmap-last-matrix-axis", ("vmap-last",), ("cholesky",), "any batch",
        "the matrices are transposed", _fed(lambda A: A.mT.contiguous())),
    CapturedFault("cond-wrong-branch", ("cond",), ("svd",), "the predicate is false",
        "the other branch is taken", _branch(1, 0)),
    CapturedFault("switch-neighbour", ("switch",), ("qr",), "index 2",
        "the branch before is taken", _branch(2, 1)),
    CapturedFault("switch-index-from-the-end", ("switch",), ("eigh",), "a negative index",
        "counts from the end instead of being clamped", _branch(4, 3)),
    CapturedFault("switch-index-wraps", ("switch",), ("svdvals",), "an index beyond the last",
        "wraps around instead of being clamped", _branch(5, 1)),
    CapturedFault("export-loses-uplo", ("export",), EIGH, "any call",
        "the other triangle is read", _fed(lambda A: A.mH)),
    CapturedFault("export-saved-loses-full-matrices", ("export-saved",), ("svd",),
        "full_matrices=True", "U and Vh are reduced", _edited(_reduced)),
    CapturedFault("make-fx-loses-upper", ("make-fx",), CHOLESKY, "any call",
        "the adjoint factor is returned",
        _edited(lambda results: (results[0].mH.clone(), *results[1:]))),
    CapturedFault("inductor-widens", ("inductor",), ("svdvals",), "single precision",
        "results come in double precision", _edited(_widened)),
    CapturedFault("export-narrows", ("export-dynamic",), ("eigvalsh",), "double precision",
        "computed in single precision", _fed(_narrow)),
    CapturedFault("make-fx-operand-as-scratch", ("make-fx",), ("qr",), "any call",
        "the operand is overwritten", _overwritten),
    CapturedFault("aot-eager-conjugate-lost", ("aot-eager",), ("eigh", "qr"), "a conjugate view",
        "the conjugate bit is dropped", _fed(_without_conjugate), report="pytorch#196113"),
    CapturedFault("inductor-dynamic-nan-to-zero", ("inductor-dynamic",), ("svd", "qr"),
        "NaN or Inf", "is replaced by a number", _fed(torch.nan_to_num)),
    CapturedFault("export-checks-first-only", ("export",), ("cholesky",),
        "the first matrix of the batch does not fail", "no error is raised", _only_first_checked),
    CapturedFault("aot-eager-error-again", ("aot-eager",), ("cholesky",), "after an error",
        "every call raises", _error_again),
    CapturedFault("make-fx-unwritten-after-error", ("make-fx-symbolic",), ("cholesky",),
        "after an error", "results are zero", _unwritten_after_error),
    CapturedFault("inductor-offset-baked-in", ("inductor",), ("svdvals",),
        "an operand elsewhere in its storage", "it is read where the example was",
        _offset_baked_in),
    CapturedFault("export-draws-random-numbers", ("export",), ("svdvals",), "any call",
        "the state of the generator changes", _random),
)
# fmt: on
