"""Right when called eagerly, wrong when captured: defects of what compiles, traces and replays.

They are planted on top of a capture instead of underneath ``torch.linalg``: what it prepares is
wrapped by a function that goes wrong. Only the cases of that capture are hunted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from conformance.captures import CAPTURES, Call, Function
from conformance.captures.kept import forget

from . import spoiling as spoil
from .spoiling import Spoil
from .table import CHOLESKY, EIGH, FACTORS


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


# fmt: off
FAULTS: tuple[CapturedFault, ...] = (
    CapturedFault("export-constant-folded", ("export",), FACTORS, "any call",
        "the example's results are a constant", spoil.constant),
    CapturedFault("make-fx-constant-folded", ("make-fx", "make-fx-fake"), ("svdvals",), "any call",
        "the example's results are a constant", spoil.constant),
    CapturedFault("aot-eager-stale-input", ("aot-eager",), FACTORS, "after the first call",
        "the first operand is used again", spoil.stale),
    CapturedFault("export-saved-second-replay-wrong", ("export-saved",), ("qr",),
        "the second replay", "all entries are off by 1e-6", spoil.second_wrong),
    CapturedFault("inductor-output-reused", ("inductor",), ("eigh",), "the next call",
        "writes into the results of the last", spoil.reused),
    CapturedFault("inductor-strides-row-major", ("inductor",), ("svd",), "any call",
        "results are row-major, unlike what eager returns", spoil.edited(spoil.row_major),
        report="pytorch#156658"),
    CapturedFault("aot-eager-check-dropped", ("aot-eager",), ("cholesky",), "not positive definite",
        "no error is raised", spoil.dropped_check, report="pytorch#182965"),
    CapturedFault("export-dynamic-batch-frozen", ("export-dynamic",), ("svd", "svdvals"),
        "a larger batch than the example's", "the rest of the batch is zero", spoil.frozen_batch),
    CapturedFault("make-fx-symbolic-size-frozen", ("make-fx-symbolic",), ("qr",),
        "a larger matrix than the example's", "the rest of the rows is zero", spoil.frozen_size),
    CapturedFault("spec-compile-size-frozen", ("spec-compile",), EIGH,
        "a larger matrix than the example's", "the rest of the rows is zero", spoil.frozen_size),
    CapturedFault("vmap-wrong-axis", ("vmap",), FACTORS, "two batch axes",
        "one is taken for the other", spoil.fed(spoil.swapped)),
    CapturedFault("vmap-last-matrix-axis", ("vmap-last",), ("cholesky",), "any batch",
        "the matrices are transposed", spoil.fed(lambda A: A.mT.contiguous())),
    CapturedFault("cond-wrong-branch", ("cond",), ("svd",), "the predicate is false",
        "the other branch is taken", spoil.branch(1, 0)),
    CapturedFault("switch-neighbour", ("switch",), ("qr",), "index 2",
        "the branch before is taken", spoil.branch(2, 1)),
    CapturedFault("switch-index-from-the-end", ("switch",), ("eigh",), "a negative index",
        "counts from the end instead of being clamped", spoil.branch(4, 3)),
    CapturedFault("switch-index-wraps", ("switch",), ("svdvals",), "an index beyond the last",
        "wraps around instead of being clamped", spoil.branch(5, 1)),
    CapturedFault("export-loses-uplo", ("export",), EIGH, "any call",
        "the other triangle is read", spoil.fed(lambda A: A.mH)),
    CapturedFault("export-saved-loses-full-matrices", ("export-saved",), ("svd",),
        "full_matrices=True", "U and Vh are reduced", spoil.edited(spoil.reduced)),
    CapturedFault("make-fx-loses-upper", ("make-fx",), CHOLESKY, "any call",
        "the adjoint factor is returned",
        spoil.edited(lambda results: (results[0].mH.clone(), *results[1:]))),
    CapturedFault("inductor-widens", ("inductor",), ("svdvals",), "single precision",
        "results come in double precision", spoil.edited(spoil.widened)),
    CapturedFault("export-narrows", ("export-dynamic",), ("eigvalsh",), "double precision",
        "computed in single precision", spoil.fed(spoil.narrow)),
    CapturedFault("make-fx-operand-as-scratch", ("make-fx",), ("qr",), "any call",
        "the operand is overwritten", spoil.overwritten),
    CapturedFault("aot-eager-conjugate-lost", ("aot-eager",), ("eigh", "qr"), "a conjugate view",
        "the conjugate bit is dropped", spoil.fed(spoil.without_conjugate),
        report="pytorch#196113"),
    CapturedFault("inductor-dynamic-nan-to-zero", ("inductor-dynamic",), ("svd", "qr"),
        "NaN or Inf", "is replaced by a number", spoil.fed(torch.nan_to_num)),
    CapturedFault("export-checks-first-only", ("export",), ("cholesky",),
        "the first matrix of the batch does not fail", "no error is raised",
        spoil.only_first_checked),
    CapturedFault("aot-eager-error-again", ("aot-eager",), ("cholesky",), "after an error",
        "every call raises", spoil.error_again),
    CapturedFault("make-fx-unwritten-after-error", ("make-fx-symbolic",), ("cholesky",),
        "after an error", "results are zero", spoil.unwritten_after_error),
    CapturedFault("inductor-offset-baked-in", ("inductor",), ("svdvals",),
        "an operand elsewhere in its storage", "it is read where the example was",
        spoil.offset_baked_in),
    CapturedFault("export-strides-baked-in", ("export",), ("svdvals", "eigvalsh"),
        "an operand that is laid out otherwise", "it is read as the example lay",
        spoil.strides_baked_in),
    CapturedFault("make-fx-strides-baked-in", ("make-fx",), ("qr",),
        "an operand that is laid out otherwise", "it is read as the example lay",
        spoil.strides_baked_in),
    CapturedFault("vmap-lanes", ("vmap",), ("eigvalsh", "cholesky"), "more than 8 matrices",
        "the rest is zero", spoil.edited(spoil.first_lanes)),
    CapturedFault("inductor-flushes-subnormals", ("inductor",), ("svdvals", "qr"),
        "subnormal entries", "are taken for zero", spoil.fed(spoil.without_subnormals)),
    CapturedFault("aot-eager-strides-baked-in", ("aot-eager",), ("svdvals", "qr"),
        "an operand that is laid out otherwise", "it is read as the example lay",
        spoil.strides_baked_in),
    CapturedFault("export-dynamic-batch-of-one-squeezed", ("export-dynamic",), ("cholesky", "qr"),
        "a batch of one", "its axis is lost", spoil.batch_of_one),
    CapturedFault("export-draws-random-numbers", ("export",), ("svdvals",), "any call",
        "the state of the generator changes", spoil.random),
)
# fmt: on
