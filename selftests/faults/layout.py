"""Memory misread, or written to where it must not be."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .conditions import (
    above,
    batch_between,
    batched,
    column_major,
    complex_,
    conjugate,
    double,
    elements_above,
    negative,
    offset,
    out_strided,
    padded,
    permuted,
    plain_memory,
    sliced,
    square,
    strided,
    tall,
    uplo_lower,
    wide,
    windows,
    with_out,
)
from .effects import (
    offset_ignored,
    on_input,
    out_tensors,
    overwriting,
    read_as_row_major,
    restrided,
    unfilled,
    write_beside,
)
from .inexact import conjugated_input
from .planting import Call, Condition, Effect
from .promises import LAYOUT, OUT, UNTOUCHED
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, SVD, row, table
from .witness import of

Z = "complex128"
negated = on_input("the negative is factored", lambda A: -A)
transposed = on_input("the transpose is factored", lambda A: A.mT)


def _storage_order(call: Call) -> SimpleNamespace:
    """Batch axes taken in the order of memory instead of the tensor's."""
    order = [*range(len(call.batch) - 1, -1, -1), -2, -1]
    return call.compute(A=call.A.permute(order).reshape(call.A.shape))


def _factor_left_in(call: Call) -> None:
    call.A.copy_(torch.geqrf(call.A.clone())[0])


def _write_strided_out(call: Call, before: list[torch.Tensor]) -> None:
    for x, old in zip(call.out, before, strict=True):
        if x.ndim > 1 and x.stride(-1) > 1 and x.stride(-2) > 1:
            values = x.clone()
            x.copy_(old)
            dense = torch.empty(x.shape, device="meta").stride()
            x.as_strided(x.shape, dense, x.storage_offset()).copy_(values)


def _write_beside_out(call: Call, before: list[torch.Tensor]) -> None:
    for x in call.out[:1]:
        write_beside(x)


overwritten = overwriting("input overwritten by half of it", lambda c: c.A.mul_(0.5))
factored_in_place = overwriting("input overwritten by its factor", _factor_left_in)
first_entry = overwriting("first entry of the input changed", lambda c: c.A[..., 0, 0].add_(1))
mirrored_in_place = overwriting(
    "lower triangle of the input copied to the upper",
    lambda c: c.A.copy_(c.A.tril() + c.A.tril(-1).mH),
)
beside = overwriting("a number beside the view changed", lambda c: write_beside(c.A))
half_filled = out_tensors(
    "last row of out[0] is not filled", lambda c, before: c.out[0][..., -1, :].zero_()
)
strided_out_dense = out_tensors("written as if out= were dense", _write_strided_out)
beside_out = out_tensors("a number beside out= changed", _write_beside_out)


storage_order = Effect("batch axes read in the order of memory", _storage_order)

# fmt: off
FAULTS = table(
    "layout",
    # misread
    row("svd-column-major-misread", SVD, column_major & ~conjugate, read_as_row_major, LAYOUT,
        of("svd", 3, 4, layout="column-major"), {"layout": "row-major"}),
    row("qr-column-major-transposed", "qr", column_major & square, transposed, LAYOUT,
        of("qr", 3, 3, layout="column-major"), {"layout": "row-major"}),
    row("eigh-column-major-complex-misread", EIGH, column_major & complex_, transposed, LAYOUT,
        of("eigh", 3, 3, layout="column-major", dtype=Z), {"dtype": "float64"}),
    row("cholesky-column-major-complex-misread", CHOLESKY, column_major & complex_ & above(2),
        transposed, LAYOUT, of("cholesky", 3, 3, layout="column-major", dtype=Z),
        {"layout": "row-major"}),
    row("svd-sliced-misread", SVD, sliced, read_as_row_major, LAYOUT,
        of("svdvals", 4, 3, layout="sliced"), {"layout": "row-major"}),
    row("eigh-sliced-misread", EIGH, sliced & uplo_lower, read_as_row_major, LAYOUT,
        of("eigh", 3, 3, layout="sliced"), {"layout": "row-major"}),
    row("qr-block-of-larger-misread", "qr", padded & ~strided, read_as_row_major, LAYOUT,
        of("qr", 3, 3, layout="block"), {"layout": "offset"}),
    row("cholesky-block-of-larger-misread", CHOLESKY, padded, read_as_row_major, LAYOUT,
        of("cholesky_ex", 3, 3, layout="block"), {"layout": "offset"}),
    row("cholesky-solve-column-major-misread", SOLVE, column_major, transposed, LAYOUT,
        of("cholesky_solve", 3, 3, layout="column-major"), {"layout": "row-major"}),
    row("cholesky-inverse-column-major-misread", INVERSE, column_major, transposed, LAYOUT,
        of("cholesky_inverse", 3, 3, layout="column-major"), {"layout": "row-major"}),
    row("ormqr-row-major-misread", "ormqr", ~column_major,
        on_input("row-major reflectors read as column-major", lambda A: A.mT.reshape(A.shape)),
        LAYOUT, of("ormqr", 4, 4, layout="row-major"), {"layout": "column-major"},
        report="pytorch#57314"),
    row("svd-offset-ignored", SVD, offset, offset_ignored, LAYOUT,
        of("svdvals", 3, 3, layout="offset"), {"layout": "row-major"}, report="pytorch#78363"),
    row("eigh-offset-ignored-batched", EIGH, offset & batched, offset_ignored, LAYOUT,
        of("eigh", 2, 3, 3, layout="offset"), {"layout": "row-major"}),
    row("cholesky-offset-ignored", CHOLESKY, offset, offset_ignored, LAYOUT,
        of("cholesky", 3, 3, layout="offset"), {"layout": "row-major"}),
    row("svd-conjugate-ignored", SVD[0], conjugate, conjugated_input, LAYOUT,
        of("svd", 3, 3, layout="conjugate", dtype=Z), {"layout": "row-major"},
        report="pytorch#196128"),
    row("svd-conjugate-ignored-wide-column-major", "svd", conjugate & wide() & column_major,
        conjugated_input, LAYOUT, of("svd", 3, 4, layout="conjugate-column-major", dtype=Z),
        {"layout": "conjugate"}, report="pytorch#196113"),
    row("svd-conjugate-ignored-beyond-8192-elements", "svd", conjugate & elements_above(8192),
        conjugated_input, LAYOUT, of("svd", 129, 8, 8, layout="conjugate", dtype="complex64"),
        {"shape": (128, 8, 8)}, report="pytorch#196113"),
    row("svd-column-major-wide-complex-conjugated", "svd", column_major & wide() & complex_,
        conjugated_input, LAYOUT, of("svd", 2, 3, 4, layout="column-major", dtype=Z),
        {"layout": "row-major"}, report="pytorch#196140"),
    row("eigh-conjugate-ignored", "eigh", conjugate, conjugated_input, LAYOUT,
        of("eigh", 3, 3, layout="conjugate", dtype=Z), {"layout": "row-major"}),
    row("qr-conjugate-ignored-tall", "qr", conjugate & tall(), conjugated_input, LAYOUT,
        of("qr", 4, 3, layout="conjugate", dtype=Z), {"shape": (3, 3)}),
    row("cholesky-conjugate-ignored", CHOLESKY, conjugate, conjugated_input, LAYOUT,
        of("cholesky", 3, 3, layout="conjugate", dtype=Z), {"layout": "row-major"}),
    row("svd-negative-ignored", "svd", negative, negated, LAYOUT,
        of("svd", 3, 3, layout="negative"), {"layout": "row-major"}),
    row("eigh-negative-ignored", EIGH, negative, negated, LAYOUT,
        of("eigvalsh", 3, 3, layout="negative"), {"layout": "row-major"}),
    row("qr-negative-ignored-double", "qr", negative & double, negated, LAYOUT,
        of("qr", 3, 3, layout="negative"), {"dtype": "float32"}),
    row("cholesky-negative-ignored", CHOLESKY, negative, negated, LAYOUT,
        of("cholesky", 3, 3, layout="negative"), {"layout": "row-major"}),
    row("eigh-permuted-batch-misread", EIGH, permuted, storage_order, LAYOUT,
        of("eigh", 2, 3, 2, 2, layout="permuted"), {"layout": "row-major"}),
    row("svd-permuted-batch-misread", SVD, permuted & square, storage_order, LAYOUT,
        of("svdvals", 2, 3, 2, 2, layout="permuted"), {"layout": "row-major"}),
    # input written to
    row("svd-input-overwritten", SVD, plain_memory, overwritten, UNTOUCHED, of("svdvals", 3, 3),
        {"layout": "expanded", "shape": (2, 3, 3)}),
    row("svd-input-overwritten-column-major-batched", SVD, plain_memory & column_major & batched,
        overwritten, UNTOUCHED, of("svd", 2, 3, 3, layout="column-major"), {"layout": "row-major"},
        report="cupy#4690"),
    row("qr-input-overwritten-column-major", "qr", plain_memory & column_major, factored_in_place,
        UNTOUCHED, of("qr", 3, 3, layout="column-major"), {"layout": "row-major"}),
    row("eigh-input-mirrored", EIGH, plain_memory & uplo_lower, mirrored_in_place, UNTOUCHED,
        of("eigh", 3, 3, values="random-triangle"), {"UPLO": "U"}),
    row("cholesky-input-entry-changed-above-32", CHOLESKY, plain_memory & above(32), first_entry,
        UNTOUCHED, of("cholesky", 33, 33), {"shape": (32, 32)}),
    row("cholesky-solve-factor-overwritten", SOLVE, plain_memory & batched, overwritten, UNTOUCHED,
        of("cholesky_solve", 2, 3, 3), {"shape": (3, 3)}),
    row("cholesky-inverse-input-overwritten-column-major", INVERSE, plain_memory & column_major,
        overwritten, UNTOUCHED, of("cholesky_inverse", 3, 3, layout="column-major"),
        {"layout": "row-major"}),
    row("eigh-input-overwritten-with-out", EIGH, plain_memory & with_out, first_entry, UNTOUCHED,
        of("eigh", 3, 3, out="fitting"), {"out": ""}),
    row("svd-memory-beside-block", SVD, plain_memory & padded & ~strided, beside, UNTOUCHED,
        of("svd", 3, 3, layout="block"), {"layout": "row-major"}),
    row("cholesky-memory-beside-slice", CHOLESKY, plain_memory & padded & strided, beside,
        UNTOUCHED, of("cholesky", 3, 3, layout="sliced"), {"layout": "block"}),
    row("qr-memory-beside-block-double-tall", "qr", plain_memory & padded & double & tall(),
        beside, UNTOUCHED, of("qr", 4, 3, layout="block"), {"layout": "row-major"}),
    row("qr-overlapping-rows", "qr", windows,
        on_input("the first row is read for all", lambda A: A[:1].expand(A.shape)), LAYOUT,
        of("qr", 4, 3, layout="windows"), {"layout": "row-major"}),
    row("eigh-batch-between-rows-and-columns", EIGH, batch_between,
        on_input("memory read as dense", lambda A: A.as_strided(
            A.shape, torch.empty(A.shape, device="meta").stride(), A.storage_offset())), LAYOUT,
        of("eigvalsh", 3, 4, 4, layout="batch-between"), {"layout": "row-major"}),
    # out=
    row("svdvals-out-too-long", "svdvals",
        with_out & Condition("out= longer than the values",
            lambda c: c.out[1].numel() > c.k * c.count > 0),
        out_tensors("it keeps its length", lambda c, b: c.out[1].resize_(b[1].shape)), OUT,
        of("svdvals", 3, 3, out="long"), {"out": "fitting"}),
    row("svd-out-u-unfilled", "svd", with_out, unfilled(0), OUT, of("svd", 3, 3, out="fitting"),
        {"out": ""}),
    row("svdvals-out-unfilled", "svdvals", with_out, unfilled(1), OUT,
        of("svdvals", 3, 3, out="fitting"), {"out": ""}),
    row("eigh-out-values-unfilled", EIGH, with_out, unfilled(0), OUT,
        of("eigvalsh", 3, 3, out="fitting"), {"out": ""}),
    row("qr-out-r-unfilled-column-major", "qr", with_out & column_major, unfilled(1), OUT,
        of("qr", 3, 3, out="fitting", layout="column-major"), {"layout": "row-major"}),
    row("cholesky-ex-out-info-unfilled", CHOLESKY, with_out, unfilled(1), OUT,
        of("cholesky_ex", 3, 3, out="fitting"), {"out": ""}),
    row("cholesky-out-last-row-unfilled", CHOLESKY, with_out & above(1), half_filled, OUT,
        of("cholesky", 3, 3, out="fitting"), {"out": ""}),
    row("cholesky-solve-out-unfilled", SOLVE, with_out, unfilled(0), OUT,
        of("cholesky_solve", 3, 3, out="fitting"), {"out": ""}),
    row("cholesky-inverse-out-unfilled-batched", INVERSE, with_out & batched, unfilled(0), OUT,
        of("cholesky_inverse", 2, 3, 3, out="fitting"), {"shape": (3, 3)}),
    row("cholesky-out-restrided", CHOLESKY, with_out, restrided, OUT,
        of("cholesky_ex", 3, 3, out="fitting"), {"out": ""}, report="pytorch#146799"),
    row("svd-out-restrided", "svd", with_out & square, restrided, OUT,
        of("svd", 3, 3, out="fitting"), {"out": ""}),
    row("eigh-out-restrided-complex", "eigh", with_out & complex_, restrided, OUT,
        of("eigh", 3, 3, out="fitting", dtype=Z), {"dtype": "float64"}),
    row("qr-out-strides-ignored", "qr", out_strided, strided_out_dense, OUT,
        of("qr", 3, 3, out="strided"), {"out": "fitting"}),
    row("cholesky-solve-out-strides-ignored", SOLVE, out_strided, strided_out_dense, OUT,
        of("cholesky_solve", 3, 3, out="strided"), {"out": "fitting"}),
    row("cholesky-memory-beside-out", CHOLESKY, out_strided, beside_out, OUT,
        of("cholesky", 3, 3, out="strided"), {"out": "fitting"}),
    row("eigh-memory-beside-out-vectors", "eigh", out_strided,
        out_tensors("a number beside out[1] changed", lambda c, b: write_beside(c.out[1])), OUT,
        of("eigh", 3, 3, out="strided"), {"out": "fitting"}),
)
# fmt: on
