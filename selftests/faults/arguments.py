"""Arguments misread, info and errors misreported, values-only paths that differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from .conditions import (
    above,
    always,
    argument,
    batched,
    complex_,
    double,
    full,
    functional,
    has_nan,
    lower,
    real,
    square,
    tall,
    uplo_lower,
    uplo_upper,
    upper,
    wide,
)
from .effects import edit, given, on_input
from .inexact import offset_values, scaled
from .planting import Call, Condition, Effect
from .promises import AGREEMENT, ARGUMENT, ERRORS, INFO, NONFINITE, ONE_TRIANGLE
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, row, table
from .witness import of

Z = "complex128"
OTHER = "random-triangle"
NAN = "nan-triangle"


def _averaged(A: torch.Tensor) -> torch.Tensor:
    return (A + A.mH) / 2


def _other_times_zero(call: Call) -> SimpleNamespace:
    """The triangle that must not be read multiplied by zero: NaN and Inf get through."""
    is_upper = call.arguments.get("upper") or call.arguments.get("UPLO") == "U"
    unread = call.A.tril(-1) if is_upper else call.A.triu(1)
    return call.compute(A=call.A + 0 * (unread + unread.mH))


def _mirrored(call: Call) -> SimpleNamespace:
    """The other triangle is read: what lies there, mirrored, replaces what was asked for."""
    return call.compute(A=call.A.mH.resolve_conj())


averaged = on_input("both triangles averaged", _averaged)
times_zero = Effect("unread triangle multiplied by zero and added", _other_times_zero)
other_triangle = Effect("the other triangle is read", _mirrored)
whole_factor = edit(
    "the other triangle of the factor is used too",
    lambda c, r: r.X.copy_(torch.linalg.solve(c.A @ c.A.mH, torch.eye(c.n, dtype=c.A.dtype))),
)


def _upper_ignored(call: Call, r: SimpleNamespace) -> None:
    r.L.copy_(r.L.mH.clone())


upper_ignored = edit("L comes back for upper=True", _upper_ignored)
upper_transposed = edit(
    "transposed, not conjugated", lambda c, r: r.L.copy_(r.L.conj().resolve_conj())
)


def info(text: str, change: Any) -> Effect:
    """Another info."""
    return edit(text, lambda c, r: r.info.copy_(change(r.info, c)))


silent_errors = Effect("no error raised", lambda c: SimpleNamespace())
info_zero = info("info is 0", lambda x, c: torch.zeros_like(x))
not_from_cholesky = Condition(
    "linalg.cholesky", lambda c: c.arguments["api_name"] == "linalg.cholesky"
)
several_infos = Condition("batch", lambda c: c.A.ndim > 0)
from_eigh_or_svd = Condition(
    "linalg.svd or linalg.eigh", lambda c: c.arguments["api_name"] in ("linalg.svd", "linalg.eigh")
)


def _raise_at_once(call: Call) -> SimpleNamespace:
    r = call.compute()
    torch.ops.aten._linalg_check_errors(r.info, "linalg.cholesky_ex", is_matrix=call.A.ndim == 2)
    return r


def _transposed_back(call: Call) -> SimpleNamespace:
    return call.compute(transpose=not call.arguments["transpose"])


# fmt: off
FAULTS = table(
    "arguments",
    # triangles
    row("eigh-uplo-ignored", EIGH, uplo_upper, given("lower triangle is read", UPLO="L"),
        ONE_TRIANGLE, of("eigh", 4, 4, values=OTHER, UPLO="U"), {"UPLO": "L"}),
    row("eigh-averaged", EIGH, real, averaged, ONE_TRIANGLE, of("eigvalsh", 3, 3, values=OTHER),
        {"dtype": Z}, report="jax#9473"),
    row("eigh-averaged-upper-complex", EIGH, uplo_upper & complex_, averaged, ONE_TRIANGLE,
        of("eigh", 3, 3, values=OTHER, dtype=Z, UPLO="U"), {"UPLO": "L"}, report="jax#12687"),
    row("eigh-unread-triangle-times-zero", EIGH, always, times_zero, ONE_TRIANGLE,
        of("eigh", 4, 4, values=NAN), {"values": "random"}, report="jax#32641"),
    row("eigvalsh-other-triangle-batched", "eigvalsh", batched & uplo_lower,
        given("upper triangle is read", UPLO="U"), ONE_TRIANGLE,
        of("eigvalsh", 2, 4, 4, values=OTHER), {"shape": (4, 4)}),
    row("cholesky-other-triangle", CHOLESKY, lower, other_triangle, ONE_TRIANGLE,
        of("cholesky", 4, 4, values=NAN), {"upper": True}, report="torch-xpu-ops#3234"),
    row("cholesky-averaged-above-8", CHOLESKY, above(8), averaged, ONE_TRIANGLE,
        of("cholesky_ex", 9, 9, values=OTHER), {"shape": (8, 8)}),
    row("cholesky-unread-triangle-times-zero-upper", CHOLESKY, upper, times_zero, ONE_TRIANGLE,
        of("cholesky", 4, 4, values=NAN, upper=True), {"upper": False}),
    row("cholesky-batched-upper-reads-lower", CHOLESKY, batched & upper, other_triangle,
        ONE_TRIANGLE, of("cholesky", 2, 3, 3, values="zero-triangle", upper=True),
        {"shape": (3, 3)}, report="pytorch#57032"),
    row("cholesky-solve-other-triangle-times-zero", SOLVE, lower, times_zero, ONE_TRIANGLE,
        of("cholesky_solve", 4, 4, values=NAN), {"upper": True}),
    row("cholesky-inverse-whole-factor", INVERSE, lower, whole_factor, ONE_TRIANGLE,
        of("cholesky_inverse", 4, 4, values=OTHER), {"upper": True}, report="rocm#6629"),
    row("cholesky-inverse-other-triangle-times-zero-batched", INVERSE, batched, times_zero,
        ONE_TRIANGLE, of("cholesky_inverse", 2, 3, 3, values=NAN), {"shape": (3, 3)}),
    # upper
    row("cholesky-upper-ignored", CHOLESKY, upper, upper_ignored, ARGUMENT,
        of("cholesky", 3, 3, upper=True), {"upper": False}),
    row("cholesky-upper-not-conjugated", CHOLESKY, upper & complex_, upper_transposed, ARGUMENT,
        of("cholesky", 3, 3, dtype=Z, upper=True), {"dtype": "float64"}),
    row("cholesky-solve-upper-ignored", SOLVE, upper, given("upper ignored", upper=False),
        ARGUMENT, of("cholesky_solve", 3, 3, upper=True), {"upper": False}),
    row("cholesky-solve-upper-ignored-batched-complex", SOLVE, upper & batched & complex_,
        given("upper ignored", upper=False), ARGUMENT,
        of("cholesky_solve", 2, 3, 3, dtype=Z, upper=True), {"dtype": "float64"}),
    row("cholesky-inverse-upper-ignored", INVERSE, upper, given("upper ignored", upper=False),
        ARGUMENT, of("cholesky_inverse", 3, 3, upper=True), {"upper": False}),
    # other arguments
    row("svd-full-matrices-ignored", "svd", full & tall() & functional,
        given("full_matrices ignored", full_matrices=False), ARGUMENT, of("svd", 4, 3),
        {"full_matrices": False}),
    row("svd-full-matrices-ignored-wide-batched", "svd", full & wide() & batched & functional,
        given("full_matrices ignored", full_matrices=False), ARGUMENT, of("svd", 2, 3, 4),
        {"shape": (3, 4)}, report="cupy#4690"),
    row("qr-complete-ignored", "qr", argument("mode", "complete") & tall() & functional,
        given("mode ignored", mode="reduced"), ARGUMENT, of("qr", 4, 3, mode="complete"),
        {"mode": "reduced"}),
    row("qr-unknown-mode-accepted", "qr",
        Condition("mode='raw'", lambda c: c.arguments["mode"] == "raw"),
        given("taken for 'reduced'", mode="reduced"), ERRORS, of("qr", 3, 3, mode="raw"),
        {"mode": "reduced"}),
    row("ormqr-transpose-ignored", "ormqr", argument("transpose", True),
        given("transpose ignored", transpose=False), ARGUMENT, of("ormqr", 4, 4, transpose=True),
        {"transpose": False}),
    row("ormqr-left-ignored", "ormqr", argument("left", False) & square,
        given("left ignored", left=True), ARGUMENT, of("ormqr", 4, 4, left=False), {"left": True}),
    # info
    row("cholesky-info-zero", CHOLESKY, always, info_zero, INFO,
        of("cholesky_ex", 3, 3, values="indefinite"), {"values": "random"}, report="mlx#3028"),
    row("cholesky-info-zero-based", CHOLESKY, above(1),
        info("info counts from 0", lambda x, c: (x - 1).clamp(min=0)), INFO,
        of("cholesky_ex", 4, 4, values="last-indefinite"), {"values": "random"}),
    row("cholesky-info-is-one", CHOLESKY, always,
        info("info is 1 for any failure", lambda x, c: x.clamp(max=1)), INFO,
        of("cholesky_ex", 4, 4, values="last-indefinite"), {"values": "first-indefinite"}),
    row("cholesky-info-is-n", CHOLESKY, above(16),
        info("info is n for any failure", lambda x, c: torch.where(x > 0, c.n, x)), INFO,
        of("cholesky_ex", 17, 17, values="first-indefinite"), {"shape": (16, 16)}),
    row("cholesky-info-first-element-only", CHOLESKY, batched, info(
            "info of the first matrix only", lambda x,
            c: x * (x.flatten().cumsum(0).view_as(x) == x)), INFO,
        of("cholesky_ex", 4, 2, 2, values="mixed"), {"shape": (2, 2, 2)}, report="oneMath#773"),
    row("cholesky-info-of-first-for-all", CHOLESKY, batched,
        info("info of the first matrix for all", lambda x, c: x.flatten()[0].expand(x.shape)),
        INFO, of("cholesky_ex", 3, 2, 2, values="mixed"), {"values": "random"}),
    row("cholesky-info-negative-complex", CHOLESKY, complex_,
        info("info negated", lambda x, c: -x), INFO,
        of("cholesky_ex", 3, 3, values="indefinite", dtype=Z), {"dtype": "float64"}),
    row("cholesky-info-zero-for-nan", CHOLESKY, has_nan, info_zero, NONFINITE,
        of("cholesky_ex", 2, 2, values="nan"), {"values": "indefinite"}, report="pytorch#64818"),
    row("cholesky-info-zero-large-batch", CHOLESKY, Condition("B > 8", lambda c: c.count > 8),
        info_zero, INFO, of("cholesky_ex", 9, 2, 2, values="mixed"), {"shape": (8, 2, 2)}),
    # errors
    row("cholesky-error-swallowed", "cholesky", not_from_cholesky, silent_errors, ERRORS,
        of("cholesky", 3, 3, values="indefinite"),
        {"operation": "cholesky_ex", "options": (("check_errors", True),)},
        report="pytorch#182965", at=("check_errors",)),
    row("cholesky-error-swallowed-batched", "cholesky", not_from_cholesky & several_infos,
        silent_errors, ERRORS, of("cholesky", 2, 3, 3, values="indefinite"), {"shape": (3, 3)},
        report="pytorch#16780", at=("check_errors",)),
    row("cholesky-ex-check-errors-ignored", "cholesky_ex", argument("check_errors", True),
        given("check_errors ignored", check_errors=False), ERRORS,
        of("cholesky_ex", 3, 3, values="indefinite", check_errors=True), {"check_errors": False}),
    row("cholesky-error-swallowed-complex", CHOLESKY, complex_, info_zero, ERRORS,
        of("cholesky", 3, 3, values="indefinite", dtype=Z), {"dtype": "float64"},
        report="tensorflow#61916"),
    row("cholesky-singular-accepted", CHOLESKY, Condition("an exactly singular matrix",
            lambda c: bool(((c.A[..., :1, :1] == c.A).all(-1).all(-1)).any()) and c.n > 1),
        info_zero, ERRORS, of("cholesky", 2, 2, values="singular"), {"values": "indefinite"},
        report="pytorch#16780"),
    row("cholesky-ex-raises", "cholesky_ex", argument("check_errors", False) & batched,
        Effect("raises though it should report", _raise_at_once), ERRORS,
        of("cholesky_ex", 2, 2, 2, values="indefinite"), {"shape": (2, 2)}),
    # values alone
    row("svdvals-differ", "svdvals", always, offset_values("S", 0), AGREEMENT, of("svdvals", 4, 4),
        {"operation": "svd"}),
    row("svdvals-differ-wide-double", "svdvals", wide() & double, offset_values("S", -1, 400),
        AGREEMENT, of("svdvals", 3, 5), {"shape": (5, 3)}),
    row("eigvalsh-differ-above-32", "eigvalsh", above(32), scaled("w", 300), AGREEMENT,
        of("eigvalsh", 33, 33), {"shape": (32, 32)}),
    row("eigvalsh-ignore-uplo", "eigvalsh", uplo_upper, given("lower triangle is read", UPLO="L"),
        AGREEMENT, of("eigvalsh", 3, 3, values=OTHER, UPLO="U"), {"operation": "eigh"}),
    row("svdvals-of-square-symmetrised", "svdvals", square & real & above(2), averaged, AGREEMENT,
        of("svdvals", 3, 3), {"operation": "svd"}),
)
# fmt: on
