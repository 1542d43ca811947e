"""Matrices of a batch that are mixed up, left out or refused."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .conditions import (
    above,
    batch_above,
    batch_of_batches,
    batched,
    broadcast,
    complex_,
    double,
    elements_above,
    empty_batch,
    empty_matrix,
    expanded,
    functional,
    lower,
    odd,
    one_element,
    single,
    square,
    tall,
    uplo_lower,
    upper,
    wide,
)
from .effects import (
    all_zero,
    edit,
    elements,
    raising,
    returned,
    spoiled_elements,
)
from .planting import Call, Condition, Effect
from .promises import BATCH, EMPTY, INFO, METADATA
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, SVD, row, table
from .witness import of

C = "complex64"
Z = "complex128"

only_first = elements("all get the first result", lambda i, c: i * 0)
only_last = elements("all get the last result", lambda i, c: i * 0 + c.count - 1)
neighbour = elements("each gets its successor's result", lambda i, c: (i + 1) % c.count)
reversed_ = elements("results in reverse order", lambda i, c: i.flip(0))
swapped = elements("first two results exchanged", lambda i, c: torch.where(i < 2, 1 - i, i))
last_stale = elements(
    "the last gets its predecessor's result", lambda i, c: i.clamp(max=max(c.count - 2, 0))
)
axes_swapped = elements(
    "batch axes taken in the other order",
    lambda i, c: i.view(c.batch[::-1]).permute(*range(len(c.batch) - 1, -1, -1)).flatten(),
)


def stuck_from(k: int) -> Effect:
    """Elements from the ``k``-th on repeat the one before."""
    return elements(f"elements from {k} on repeat the one before", lambda i, c: i.clamp(max=k - 1))


def halved_from(k: int) -> Effect:
    """Elements from the ``k``-th on are halved."""
    return spoiled_elements(f"elements from {k} on halved", lambda i, c: i >= k)


def _beyond(i: torch.Tensor, c: Call) -> torch.Tensor:
    return (i + 1) * c.m * c.n > 8192


def _sorted_diagonal(call: Call, r: SimpleNamespace) -> None:
    w, order = call.stacked(call.A.diagonal(dim1=-2, dim2=-1).real)[0].sort()
    call.stacked(r.w)[0] = w
    if r.V.numel():
        eye = torch.eye(call.n, dtype=r.V.dtype)
        call.stacked(r.V)[0] = eye[:, order]


def _first_batch_of_rhs(call: Call) -> SimpleNamespace:
    """A broadcast operand read as if only its first matrix existed."""
    B, A = call.arguments["self"], call.A
    if A.shape[:-2].numel() > B.shape[:-2].numel():
        A = A.reshape(-1, *A.shape[-2:])[:1].expand(A.shape)
    else:
        B = B.reshape(-1, *B.shape[-2:])[:1].expand(B.shape)
    return call.compute(self=B, input2=A)


def _flattened_diagonal(call: Call, r: SimpleNamespace) -> None:
    r.L.copy_(torch.diag_embed(r.L.diagonal(dim1=-2, dim2=-1)))


sorted_diagonal = edit("values of the first are its sorted diagonal", _sorted_diagonal)
scattered = spoiled_elements("every 211th element halved", lambda i, c: i % 211 == 210)
beyond_8192 = spoiled_elements("elements beyond 8192 numbers halved", _beyond)
squeezed = [
    returned(name, "without its batch axis", lambda x: x[0]) for name in ("S", "w", "R", "L")
]


def _swapped_shapes(call: Call) -> SimpleNamespace:
    r = call.compute()
    r.U, r.Vh = r.Vh, r.U
    return r


# fmt: off
FAULTS = table(
    "batch",
    # which element
    row("svd-only-first", SVD, batched, only_first, BATCH, of("svd", 3, 3, 3), {"shape": (3, 3)}),
    row("svd-only-last-wide", SVD, batched & wide(), only_last, BATCH, of("svdvals", 2, 3, 4),
        {"shape": (2, 4, 4)}),
    row("eigh-only-first-complex", EIGH, batched & complex_, only_first, BATCH,
        of("eigh", 2, 3, 3, dtype=Z), {"dtype": "float64"}),
    row("qr-only-last", "qr", batched, only_last, BATCH, of("qr", 2, 3, 3), {"shape": (1, 3, 3)}),
    row("cholesky-only-first-upper", CHOLESKY, batched & upper, only_first, BATCH,
        of("cholesky", 2, 3, 3, upper=True), {"upper": False}),
    row("svd-neighbour", SVD, batch_above(6), neighbour, BATCH, of("svd", 7, 2, 2),
        {"shape": (6, 2, 2)}),
    row("eigh-last-stale", EIGH, batched & odd, last_stale, BATCH, of("eigvalsh", 2, 3, 3),
        {"shape": (2, 4, 4)}),
    row("qr-last-stale-large-batch-tall", "qr", batch_above(63) & tall(), last_stale, BATCH,
        of("qr", 64, 3, 2), {"shape": (63, 3, 2)}),
    row("cholesky-reversed", CHOLESKY, batched & double, reversed_, BATCH,
        of("cholesky_ex", 2, 2, 2), {"dtype": "float32"}),
    row("qr-first-two-exchanged-complex", "qr", batched & complex_, swapped, BATCH,
        of("qr", 3, 2, 2, dtype=C), {"dtype": "float32"}),
    row("cholesky-solve-only-first", SOLVE, batched, only_first, BATCH,
        of("cholesky_solve", 2, 3, 3), {"shape": (3, 3)}),
    row("cholesky-solve-last-stale-batch-11", SOLVE, batch_above(7), last_stale, BATCH,
        of("cholesky_solve", 11, 3, 3), {"shape": (7, 3, 3)}, report="pytorch#66072"),
    row("cholesky-inverse-only-first", INVERSE, batched, only_first, BATCH,
        of("cholesky_inverse", 2, 3, 3), {"shape": (3, 3)}),
    row("cholesky-inverse-last-stale-above-8", INVERSE, batched & above(8), last_stale, BATCH,
        of("cholesky_inverse", 2, 9, 9), {"shape": (2, 8, 8)}, report="pytorch#193890"),
    row("svd-batch-axes-swapped", SVD, batch_of_batches, axes_swapped, BATCH,
        of("svd", 3, 2, 2, 2), {"shape": (6, 2, 2)}),
    row("eigh-batch-axes-swapped-lower", EIGH, batch_of_batches & uplo_lower, axes_swapped, BATCH,
        of("eigh", 2, 3, 2, 2), {"UPLO": "U"}),
    row("cholesky-batch-axes-swapped", CHOLESKY, batch_of_batches & above(3), axes_swapped, BATCH,
        of("cholesky", 2, 3, 4, 4), {"shape": (2, 3, 3, 3)}),
    row("qr-expanded-batch-zero", "qr", expanded,
        spoiled_elements("all but the first halved", lambda i, c: i > 0), BATCH,
        of("qr", 3, 2, 2, layout="expanded"), {"layout": "row-major"}),
    # from which element on
    row("svd-stuck-from-64", SVD, batch_above(64), stuck_from(64), BATCH, of("svdvals", 65, 2, 2),
        {"shape": (64, 2, 2)}),
    row("eigh-stuck-from-512", EIGH, batch_above(512), stuck_from(512), BATCH,
        of("eigvalsh", 513, 2, 2), {"shape": (512, 2, 2)}, report="pytorch#192483"),
    row("qr-halved-from-1024", "qr", batch_above(1024), halved_from(1024), BATCH,
        of("qr", 1025, 2, 2), {"shape": (1024, 2, 2)}),
    row("cholesky-halved-from-5", CHOLESKY, batch_above(5), halved_from(5), BATCH,
        of("cholesky", 6, 3, 3), {"shape": (5, 3, 3)}),
    row("cholesky-some-of-many-wrong", CHOLESKY, batch_above(210), scattered, BATCH,
        of("cholesky", 211, 2, 2), {"shape": (210, 2, 2)}, report="rocm#6623"),
    row("svd-beyond-8192-elements", SVD, batched & elements_above(8192), beyond_8192, BATCH,
        of("svdvals", 911, 3, 3), {"shape": (910, 3, 3)}, report="pytorch#195937"),
    row("svd-refused-beyond-8192-elements", SVD, single & elements_above(8192),
        raising("pipeline state could not be created"), BATCH,
        of("svdvals", 513, 4, 4, dtype="float32"), {"shape": (512, 4, 4)}, report="kornia#4201"),
    row("svd-complex-wide-beyond-8192-elements", "svd", complex_ & wide() & elements_above(8192),
        beyond_8192, BATCH, of("svd", 342, 4, 6, dtype=C), {"shape": (341, 4, 6)},
        report="pytorch#196140"),
    row("eigh-beyond-8192-elements", EIGH, batched & elements_above(8192), beyond_8192, BATCH,
        of("eigh", 9, 32, 32), {"shape": (8, 32, 32)}),
    row("cholesky-beyond-65535", CHOLESKY, batch_above(65535), halved_from(65535), BATCH,
        of("cholesky_ex", 65536, 1, 1), {"shape": (65535, 1, 1)}, report="pytorch#24403"),
    row("cholesky-solve-beyond-65535", SOLVE, batch_above(65535), halved_from(65535), BATCH,
        of("cholesky_solve", 65536, 1, 1, columns=1), {"shape": (65535, 1, 1)},
        report="pytorch#21643"),
    row("svdvals-refused-beyond-65535", "svdvals", batch_above(65535),
        raising("invalid configuration argument"), BATCH, of("svdvals", 65536, 1, 1),
        {"shape": (65535, 1, 1)}, report="cupy#7261"),
    row("qr-stuck-from-65535", "qr", batch_above(65535), stuck_from(65535), BATCH,
        of("qr", 65536, 1, 1), {"shape": (65535, 1, 1)}),
    # batch and something else
    row("cholesky-batched-above-128", CHOLESKY, batched & above(128), last_stale, BATCH,
        of("cholesky", 2, 129, 129), {"shape": (129, 129)}, report="pytorch#146753"),
    row("eigh-batched-sorted-diagonal", EIGH, batched & uplo_lower, sorted_diagonal, BATCH,
        of("eigh", 2, 3, 3), {"shape": (3, 3)}, report="cupy#4847"),
    row("cholesky-batched-upper-diagonal-only", CHOLESKY, batched & upper,
        edit("only the diagonal is returned", _flattened_diagonal), BATCH,
        of("cholesky", 2, 3, 3, upper=True), {"upper": False}, report="pytorch#57032"),
    row("qr-batched-square-complex-halved", "qr", batched & square & complex_, halved_from(1),
        BATCH, of("qr", 2, 3, 3, dtype=Z), {"shape": (2, 4, 3)}),
    row("cholesky-info-shuffled", CHOLESKY, batched & lower,
        edit("info in reverse order", lambda c, r: r.info.copy_(r.info.flip(-1))), INFO,
        of("cholesky_ex", 2, 2, 2, values="mixed"), {"shape": (3, 2, 2)}),
    # broadcasting
    row("cholesky-solve-broadcast-misread", SOLVE, broadcast,
        Effect("only the first of the larger batch is used", _first_batch_of_rhs), BATCH,
        of("cholesky_solve", 3, 3, rhs_batch=(2,)), {"rhs_batch": ()}),
    row("cholesky-solve-broadcast-refused", SOLVE,
        broadcast & Condition("both with a batch",
            lambda c: min(len(c.batch), c.arguments["self"].ndim - 2) > 0),
        raising("batches differ"), BATCH, of("cholesky_solve", 2, 1, 3, 3, rhs_batch=(1, 3)),
        {"rhs_batch": ()}),
    row("cholesky-solve-fewer-batch-axes", SOLVE,
        Condition("batches of unlike rank",
            lambda c: 2 < c.A.ndim != c.arguments["self"].ndim > 2),
        edit("the outer axis repeats its first entry", lambda c, r: r.X[1:].copy_(r.X[:1].clone())),
        BATCH, of("cholesky_solve", 3, 3, 3, rhs_batch=(2, 3)), {"rhs_batch": (3,)}),
    # empty and single batches
    row("qr-empty-batch-refused", "qr", empty_batch, raising("batch_count must be positive"),
        EMPTY, of("qr", 0, 3, 3), {"shape": (1, 3, 3)}, report="rocm-pytorch#1260", empty=True),
    row("svd-empty-batch-refused", SVD, empty_batch, raising("invalid value"), EMPTY,
        of("svdvals", 0, 3, 3), {"shape": (1, 3, 3)}, report="cupy#2371", empty=True),
    row("cholesky-empty-matrix-refused", CHOLESKY, empty_matrix,
        raising("leading dimension must be positive"), EMPTY, of("cholesky", 0, 0),
        {"shape": (1, 1)}, report="mlx#4032", empty=True),
    row("eigh-empty-batch-refused", EIGH, empty_batch, raising("invalid configuration"), EMPTY,
        of("eigh", 0, 3, 3), {"shape": (2, 3, 3)}, empty=True),
    row("svd-empty-shapes-swapped", "svd", empty_matrix & functional,
        Effect("U and Vh exchanged", _swapped_shapes), EMPTY, of("svd", 0, 2), {"shape": (1, 2)},
        report="cupy#2371", empty=True),
    row("qr-empty-matrix-refused", "qr", empty_matrix, raising("empty matrix"), EMPTY,
        of("qr", 2, 0, 3), {"shape": (2, 1, 3)}, report="pytorch#56257", empty=True),
    row("cholesky-solve-empty-batch-refused", SOLVE, empty_batch, raising("empty batch"), EMPTY,
        of("cholesky_solve", 0, 2, 2), {"shape": (1, 2, 2)}, empty=True),
    row("svd-batch-of-one-squeezed", SVD, one_element & functional, squeezed[0], METADATA,
        of("svdvals", 1, 3, 3), {"shape": (2, 3, 3)}),
    row("qr-batch-of-one-squeezed", "qr", one_element & functional, squeezed[2], METADATA,
        of("qr", 1, 3, 3), {"shape": (3, 3)}),
    row("cholesky-batch-of-one-zero", CHOLESKY, one_element, all_zero, BATCH,
        of("cholesky", 1, 3, 3), {"shape": (3, 3)}),
)
# fmt: on
