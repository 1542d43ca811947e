"""Factors that miss a property which they always have, whatever the rounding."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .conditions import (
    above,
    always,
    argument,
    batched,
    complex_,
    diagonal,
    double,
    functional,
    has_zero_column,
    lower,
    odd,
    ragged,
    real,
    square,
    tall,
    upper,
    wide,
)
from .effects import (
    conjugated,
    edit,
    fill_above,
    fill_below,
    flip_sign,
    null_vectors,
    on_input,
    parallel,
    returned,
    trailing,
)
from .inexact import imaginary_dropped
from .planting import Call, Effect
from .promises import (
    AGREEMENT,
    DIAGONAL,
    ORDER,
    ORTHONORMAL,
    RECONSTRUCTION,
    RESIDUAL,
    SOLUTION,
    TRIANGLE,
)
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, SVD, row, table
from .witness import of

Z = "complex128"


def _last_like_first(X: torch.Tensor) -> torch.Tensor:
    return X[..., :1].expand(X.shape)


def _halves(X: torch.Tensor) -> None:
    X.div_(2)


def _repeat_first(X: torch.Tensor) -> None:
    X.copy_(X[..., :1].clone().expand(X.shape))


def _ascending(call: Call, r: SimpleNamespace) -> None:
    r.S.copy_(r.S.flip(-1))
    if r.U.numel():
        r.U[..., : call.k] = r.U[..., : call.k].flip(-1)
        r.Vh[..., : call.k, :] = r.Vh[..., : call.k, :].flip(-2)


def _swap_last(call: Call, r: SimpleNamespace) -> None:
    vectors = (r.U, r.Vh.mT) if r.U.numel() else ()
    if call.k > 1:
        i, j = call.k - 2, call.k - 1
        for x in (r.S, *vectors):
            x[..., [i, j]] = x[..., [j, i]]


def _reorder_eigh(order: torch.Tensor, r: SimpleNamespace) -> None:
    r.w.copy_(r.w.gather(-1, order))
    if r.V.numel():
        r.V.copy_(r.V.gather(-1, order.unsqueeze(-2).expand(r.V.shape)))


def _shortcut(call: Call) -> SimpleNamespace:
    """SVD of a Hermitian matrix from its eigenvalues, forgetting their signs."""
    r = call.compute()
    if call.m == call.n and torch.equal(call.A, call.A.mH) and r.U.numel():
        w, V = torch.linalg.eigh(call.A)
        order = w.abs().argsort(-1, descending=True)
        V = V.gather(-1, order.unsqueeze(-2).expand(V.shape))
        r.U.copy_(V)
        r.Vh.copy_(V.mH)
    return r


def _negative_value(call: Call, r: SimpleNamespace) -> None:
    r.S[..., -1].neg_()
    if r.U.numel():
        r.U[..., call.k - 1].neg_()


def _last_phase(call: Call, r: SimpleNamespace) -> None:
    r.R[..., call.k - 1, :] *= 0.6 + 0.8j
    if r.Q.numel():
        r.Q[..., call.k - 1] *= 0.6 - 0.8j


ascending = edit("everything in ascending order", _ascending)
swap_last = edit("the last two triplets swapped", _swap_last)
descending = edit(
    "everything in descending order", lambda c, r: _reorder_eigh((-r.w).argsort(-1), r)
)
by_magnitude = edit(
    "eigenvalues ordered by magnitude", lambda c, r: _reorder_eigh(r.w.abs().argsort(-1), r)
)
negative_value = edit("least singular value negative, U to match", _negative_value)
shortcut = Effect("through eigh, signs of eigenvalues lost in U", _shortcut)


def _leave_reflectors(call: Call, r: SimpleNamespace) -> None:
    a = torch.geqrf(call.A)[0]
    k = min(call.m, r.R.shape[-2])
    r.R[..., :k, :] += a[..., :k, :].tril(-1)


keep_reflectors = edit("Householder vectors left below the diagonal of R", _leave_reflectors)
unit_diagonal = edit(
    "R has ones on its diagonal", lambda c, r: r.R.diagonal(dim1=-2, dim2=-1).fill_(1)
)
negative_column = edit(
    "last column of the factor negative",
    lambda c, r: r.L[..., -1, :].neg_() if c.arguments["upper"] else r.L[..., -1].neg_(),
)
phase_column = edit("last column of L times i", lambda c, r: r.L[..., -1].mul_(1j))
unsorted = edit(
    "values in the order of the diagonal, vectors to match",
    lambda c, r: _reorder_eigh(c.A.diagonal(dim1=-2, dim2=-1).real.argsort(-1).argsort(-1), r),
)
one = lambda X: torch.ones_like(X)  # noqa: E731
whisper = lambda X: torch.full_like(X, 1e-30)  # noqa: E731

# fmt: off
FAULTS = table(
    "structure",
    # null spaces
    row("svd-null-u-zero", "svd", always, null_vectors("U", "zero", torch.zeros_like), ORTHONORMAL,
        of("svd", 4, 4, values="rank-deficient"), {"values": "random"}, report="pytorch#196139"),
    row("svd-null-u-parallel", "svd", always,
        null_vectors("U", "like the first", _last_like_first), ORTHONORMAL,
        of("svd", 5, 4, values="low-rank"), {"values": "random"}, report="pytorch#196112"),
    row("svd-null-vh-zero-wide", "svd", wide(), null_vectors("Vh", "zero", torch.zeros_like),
        ORTHONORMAL, of("svd", 3, 5, values="rank-deficient"), {"values": "random"}),
    row("svd-null-u-short-zero-column", "svd", has_zero_column,
        null_vectors("U", "not of unit length", lambda X: X / 2), ORTHONORMAL,
        of("svd", 4, 4, values="zero-column"), {"values": "rank-deficient"},
        report="pytorch#196139"),
    row("svd-null-u-zero-complex-batched-tall", "svd", complex_ & batched & tall(),
        null_vectors("U", "zero", torch.zeros_like), ORTHONORMAL,
        of("svd", 2, 5, 3, values="rank-deficient", dtype=Z), {"dtype": "float64"}),
    # repeated values
    row("svd-repeated-parallel", "svd", always, parallel("U", "Vh"), ORTHONORMAL,
        of("svd", 4, 4, values="orthogonal"), {"values": "random"}),
    row("svd-repeated-parallel-vh-only-tall", "svd", tall(), parallel("Vh"), ORTHONORMAL,
        of("svd", 6, 4, values="repeated"), {"values": "random"}),
    row("eigh-repeated-parallel", "eigh", always, parallel("V"), ORTHONORMAL,
        of("eigh", 4, 4, values="repeated"), {"values": "random"}),
    row("eigh-repeated-parallel-above-16-double", "eigh", above(16) & double, parallel("V"),
        ORTHONORMAL, of("eigh", 17, 17, values="repeated"), {"shape": (16, 16)}),
    # imaginary parts
    row("svd-imaginary-dropped", SVD, complex_, imaginary_dropped, RECONSTRUCTION,
        of("svd", 3, 3, dtype=Z), {"dtype": "float64"}),
    row("svd-vh-conjugated", "svd", complex_, conjugated("Vh"), RECONSTRUCTION,
        of("svd", 2, 2, dtype=Z), {"dtype": "float64"}, report="pytorch#51012"),
    row("svd-u-conjugated-wide-batched", "svd", complex_ & wide() & batched, conjugated("U"),
        RECONSTRUCTION, of("svd", 2, 2, 3, dtype=Z), {"shape": (2, 3)}),
    row("eigh-imaginary-dropped", EIGH, complex_, imaginary_dropped, RESIDUAL,
        of("eigvalsh", 3, 3, dtype=Z), {"dtype": "float64"}),
    row("eigh-vectors-conjugated", "eigh", complex_, conjugated("V"), RESIDUAL,
        of("eigh", 3, 3, dtype=Z), {"operation": "eigvalsh"}),
    row("eigh-vectors-transposed", "eigh", real & above(2),
        edit("V transposed", lambda c, r: r.V.copy_(r.V.mT.clone())), RESIDUAL, of("eigh", 3, 3),
        {"shape": (2, 2)}),
    row("qr-r-conjugated", "qr", complex_, conjugated("R"), RECONSTRUCTION,
        of("qr", 4, 3, dtype=Z), {"dtype": "float64"}),
    row("cholesky-imaginary-dropped", CHOLESKY, complex_, imaginary_dropped, RECONSTRUCTION,
        of("cholesky", 3, 3, dtype=Z), {"dtype": "float64"}, report="pytorch#191836"),
    row("cholesky-conjugated-upper", CHOLESKY, complex_ & upper, conjugated("L"), RECONSTRUCTION,
        of("cholesky_ex", 3, 3, dtype=Z, upper=True), {"upper": False}),
    row("cholesky-solve-transposed-not-conjugated", SOLVE, complex_,
        on_input("L conjugated", lambda A: A.conj().resolve_conj()), SOLUTION,
        of("cholesky_solve", 3, 3, dtype=Z), {"dtype": "float64"}),
    row("cholesky-inverse-conjugated", INVERSE, complex_, conjugated("X"), SOLUTION,
        of("cholesky_inverse", 3, 3, dtype=Z), {"dtype": "float64"}),
    # order
    row("svd-ascending", SVD, always, ascending, ORDER, of("svd", 3, 3), {"operation": "qr"}),
    row("svd-last-two-swapped-above-8", SVD, above(8), swap_last, ORDER, of("svdvals", 9, 9),
        {"shape": (8, 9)}),
    row("svd-last-two-swapped-complex-tall", "svd", complex_ & tall(2), swap_last, ORDER,
        of("svd", 9, 4, dtype=Z), {"shape": (8, 4)}),
    row("eigh-descending", EIGH, always, descending, ORDER, of("eigvalsh", 3, 3),
        {"operation": "svd"}),
    row("eigh-by-magnitude", EIGH, always, by_magnitude, ORDER, of("eigh", 5, 5),
        {"operation": "eigvalsh", "values": "identity"}),
    row("eigh-diagonal-unsorted", EIGH, diagonal, unsorted, ORDER,
        of("eigh", 4, 4, values="descending-diagonal"), {"values": "random"}),
    # sign
    row("svd-negative-value", SVD, odd & square, negative_value, ORDER, of("svd", 3, 3),
        {"shape": (4, 4)}),
    row("svd-hermitian-shortcut", "svd", square, shortcut, RECONSTRUCTION,
        of("svd", 4, 4, values="negative"), {"values": "random"}, report="pytorch#185954"),
    row("cholesky-negative-column", CHOLESKY, always, negative_column, DIAGONAL,
        of("cholesky", 3, 3), {"operation": "qr"}),
    row("cholesky-complex-phase", CHOLESKY, complex_ & lower & above(4), phase_column, DIAGONAL,
        of("cholesky", 5, 5, dtype=Z), {"shape": (4, 4)}),
    row("svd-u-sign-alone", "svd", above(2), flip_sign("U", 1), RECONSTRUCTION, of("svd", 3, 3),
        {"shape": (2, 2)}),
    row("svd-vh-sign-alone-wide-odd", "svd", wide() & odd, flip_sign("Vh", 0, rows=True),
        RECONSTRUCTION, of("svd", 3, 4), {"shape": (2, 4)}),
    row("qr-q-sign-alone-last-column", "qr", above(7) & functional, flip_sign("Q", -1),
        RECONSTRUCTION, of("qr", 9, 8), {"shape": (9, 7)}),
    row("qr-r-row-sign-alone-complex", "qr", complex_, flip_sign("R", 0, rows=True),
        RECONSTRUCTION, of("qr", 3, 3, dtype=Z), {"dtype": "float64"}),
    row("eigh-entry-sign", "eigh", ragged(4),
        edit("last entry of the last vector changes sign", lambda c, r: r.V[..., -1, -1].neg_()),
        RESIDUAL, of("eigh", 5, 5), {"shape": (8, 8)}),
    # full factors
    row("svd-full-u-zero", "svd", tall(), trailing("U", "zero", torch.Tensor.zero_), ORTHONORMAL,
        of("svd", 5, 3), {"full_matrices": False}),
    row("svd-full-u-parallel", "svd", tall(2), trailing("U", "parallel", _repeat_first),
        ORTHONORMAL, of("svd", 9, 3), {"shape": (6, 3)}),
    row("svd-full-vh-short-wide", "svd", wide(),
        trailing("Vh", "of length 1/2", _halves, rows=True), ORTHONORMAL, of("svd", 3, 5),
        {"full_matrices": False}),
    row("svd-full-vh-zero-complex-very-wide", "svd", wide(4) & complex_,
        trailing("Vh", "zero", torch.Tensor.zero_, rows=True), ORTHONORMAL,
        of("svd", 2, 9, dtype=Z), {"dtype": "float64"}),
    row("qr-complete-q-zero", "qr", argument("mode", "complete"),
        trailing("Q", "zero", torch.Tensor.zero_), ORTHONORMAL, of("qr", 5, 3, mode="complete"),
        {"mode": "reduced"}),
    row("qr-complete-q-parallel-batched", "qr", batched & tall(),
        trailing("Q", "parallel", _repeat_first), ORTHONORMAL, of("qr", 2, 6, 3, mode="complete"),
        {"shape": (6, 3)}),
    row("householder-product-trailing-zero", "householder_product", tall() & above(3),
        edit("last column zero", lambda c, r: r.Q[..., -1].zero_()), ORTHONORMAL,
        of("householder_product", 6, 4), {"shape": (6, 3)}),
    # modes
    row("qr-last-diagonal-not-real", "qr", complex_ & square,
        edit("the last reflector is left out: R ends in a complex number", _last_phase), DIAGONAL,
        of("qr", 3, 3, dtype="complex128"), {"dtype": "float64"}),
    row("qr-mode-r-keeps-reflectors", "qr", argument("mode", "r"), keep_reflectors, TRIANGLE,
        of("qr", 4, 3, mode="r"), {"mode": "reduced"}),
    row("qr-mode-r-differs-wide", "qr", argument("mode", "r") & wide(),
        edit("last column of R doubled", lambda c, r: r.R[..., -1].mul_(2)), AGREEMENT,
        of("qr", 3, 5, mode="r"), {"shape": (5, 5)}),
    row("qr-mode-r-unreduced", "qr", argument("mode", "r") & tall() & functional,
        returned("R", "has m rows", lambda R: torch.cat([R, R[..., :1, :] * 0], -2)), AGREEMENT,
        of("qr", 4, 3, mode="r"), {"shape": (3, 3)}),
    # triangles
    row("qr-reflectors-below-r", "qr", tall(), keep_reflectors, TRIANGLE, of("qr", 5, 3),
        {"shape": (3, 3)}),
    row("qr-noise-below-r-complete", "qr", argument("mode", "complete"),
        fill_below("R", "1e-30", whisper), TRIANGLE, of("qr", 5, 3, mode="complete"),
        {"mode": "reduced"}),
    row("qr-unit-diagonal-above-64", "qr", above(64), unit_diagonal, RECONSTRUCTION,
        of("qr", 65, 65), {"shape": (64, 64)}, report="pytorch#1481"),
    row("cholesky-input-above-l", CHOLESKY, lower,
        edit("A's entries above the diagonal of L", lambda c, r: r.L.add_(c.A.triu(1))), TRIANGLE,
        of("cholesky", 3, 3), {"upper": True}),
    row("cholesky-noise-above-l-batched", CHOLESKY, lower & batched,
        fill_above("L", "1e-30", whisper), TRIANGLE, of("cholesky_ex", 2, 3, 3), {"shape": (3, 3)}),
    row("cholesky-ones-below-u", CHOLESKY, upper, fill_below("L", "ones", one), TRIANGLE,
        of("cholesky", 3, 3, upper=True), {"upper": False}),
    row("cholesky-inverse-one-triangle-only", INVERSE, above(2),
        edit("upper triangle left zero", lambda c, r: r.X.tril_()), SOLUTION,
        of("cholesky_inverse", 3, 3), {"shape": (2, 2)}),
    row("geqrf-last-tau-zero", "geqrf", tall(),
        edit("last tau zero", lambda c, r: r.tau[..., -1].zero_()), RECONSTRUCTION,
        of("geqrf", 5, 3), {"shape": (3, 3)}),
)
# fmt: on
