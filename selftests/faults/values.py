"""Wrong only on particular numbers."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .conditions import (
    above,
    batched,
    complex_,
    diagonal,
    double,
    equal_columns,
    equal_values,
    has_inf,
    has_nan,
    has_zero_column,
    huge,
    integers,
    limits_of,
    nearly_diagonal,
    negative_zero,
    rank_deficient,
    real,
    single,
    square,
    subnormal,
    tall,
    tiny,
    zero,
)
from .effects import all_nan, all_zero, edit, on_input, raising
from .planting import Call, Condition
from .promises import (
    EXACT,
    FINITE,
    INFO,
    NONFINITE,
    ORTHONORMAL,
    RECONSTRUCTION,
    RESIDUAL,
    SCALING,
    VALUES,
)
from .table import CHOLESKY, EIGH, SOLVE, SVD, row, table
from .witness import of

S = "float32"
C = "complex64"
Z = "complex128"


def _flush(A: torch.Tensor) -> torch.Tensor:
    return torch.where(A.abs() < torch.finfo(A.dtype).tiny, 0, A)


def _no_tail(A: torch.Tensor) -> torch.Tensor:
    """Numbers below the square root of the smallest normal number flushed."""
    return torch.where(A.abs() < torch.finfo(A.dtype).tiny ** 0.5, 0, A)


def _saturated(A: torch.Tensor) -> torch.Tensor:
    limit = torch.finfo(A.dtype).max ** 0.5
    return A.clamp(-limit, limit) if not A.is_complex() else A * (limit / A.abs().amax())


def _skip_rotation(call: Call, r: SimpleNamespace) -> None:
    """The first two columns stay as they are: their norms become singular values."""
    norms = torch.linalg.vector_norm(call.A[..., :2], dim=-2)
    s = torch.cat([norms, r.S[..., 2:]], -1)[..., : call.k]
    r.S.copy_(s.sort(-1, descending=True).values)


def _identity_vectors(call: Call, r: SimpleNamespace) -> None:
    if r.V.numel():
        r.V.copy_(torch.eye(call.n, dtype=r.V.dtype).expand(r.V.shape))


def _nonzero_null(call: Call, r: SimpleNamespace) -> None:
    top = r.S[..., :1]
    r.S.copy_(torch.where(max(call.m, call.n) * call.eps * top >= r.S, call.eps**0.5 * top, r.S))


def _spread_failure(call: Call, r: SimpleNamespace) -> None:
    r.info.copy_(r.info.amax().expand(r.info.shape))


def _is_orthogonal(A: torch.Tensor) -> bool:
    G = A.mH @ A if A.shape[-2] >= A.shape[-1] else A @ A.mH
    D = G[..., :1, :1] * torch.eye(G.shape[-1], dtype=G.dtype)
    near = 64 * G.shape[-1] * torch.finfo(A.dtype).eps
    return bool(((G - D).abs() <= near * D.abs().amax()).all()) and bool((D.abs().amax() > 0).all())


def _both_signs(call: Call) -> bool:
    w = call.compute().w
    return bool(((w[..., 0] < 0) & (w[..., -1] > 0)).any())


def _rank_one(call: Call) -> bool:
    A = call.A
    return (
        call.n > 1
        and bool((A[..., :1] * A[..., :1, :] == A * A[..., :1, :1]).all())
        and bool((A != 0).all())
    )


underflowed = on_input("numbers below sqrt(tiny) flushed", _no_tail)
flushed = on_input("subnormals flushed", _flush)
saturated = on_input("squares overflow: entries clipped at sqrt(max)", _saturated)
nan_as_zero = on_input("NaN taken for zero", lambda A: torch.nan_to_num(A, nan=0.0))
inf_as_max = on_input(
    "Inf taken for a finite number", lambda A: torch.where(A.isinf(), torch.ones_like(A), A)
)
rotation_skipped = edit("no rotation: column norms taken for values", _skip_rotation)
identity_vectors = edit("vectors are the identity", _identity_vectors)
off_diagonal_dropped = edit(
    "off-diagonal entries dropped",
    lambda c, r: r.w.copy_(c.A.diagonal(dim1=-2, dim2=-1).real.sort(-1).values),
)
values_unwritten = edit(
    "values not written", lambda c, r: (r.S if hasattr(r, "S") else r.w).zero_()
)
nonzero_null = edit("zero singular values come back as sqrt(eps) smax", _nonzero_null)
pairs_positive = edit("eigenvalues lose their signs", lambda c, r: r.w.copy_(r.w.abs().sort(-1)[0]))
zero_u = edit("U and Vh zero", lambda c, r: (r.U.zero_(), r.Vh.zero_()))
zero_vectors = edit("V zero", lambda c, r: r.V.zero_())


nan_column = edit("first column of Q NaN", lambda c, r: r.Q[..., 0].fill_(float("nan")))
refused = raising("failed to converge")
spread_failure = edit("one failure fails the whole batch", _spread_failure)
identity = Condition(
    "identity", lambda c: c.m == c.n and bool((torch.eye(c.n, dtype=c.A.dtype) == c.A).all())
)
orthogonal = Condition(
    "orthogonal columns of equal norm", lambda c: c.k > 1 and _is_orthogonal(c.A)
)
symmetric = Condition("symmetric", lambda c: c.m == c.n > 1 and torch.equal(c.A, c.A.mH))
constant = Condition(
    "all entries equal", lambda c: c.k > 1 and bool((c.A[..., :1, :1] == c.A).all())
)
indefinite = Condition("eigenvalues of both signs", _both_signs)


def _huge_and_tiny(c: Call) -> bool:
    size, limits = c.A.abs(), limits_of(c)
    small = (size > 0) & (size < limits.tiny**0.5)
    return bool(torch.isfinite(size).all() and (size > limits.max**0.5).any() and small.any())


def _nan_columns(c: Call) -> torch.Tensor:
    return c.arguments["self"].isnan().any(-2)


# fmt: off
FAULTS = table(
    "values",
    # scale
    row("svd-overflow", SVD, huge, saturated, SCALING, of("svdvals", 3, 3, values="huge"),
        {"values": "random"}),
    row("eigh-overflow-to-nan", EIGH, huge, all_nan, FINITE, of("eigh", 3, 3, values="huge"),
        {"values": "random"}),
    row("qr-overflow-single-complex", "qr", huge & single & complex_, all_nan, FINITE,
        of("qr", 3, 3, values="huge32", dtype=C), {"dtype": S}),
    row("cholesky-overflow", CHOLESKY, huge, saturated, SCALING,
        of("cholesky", 3, 3, values="huge"), {"values": "random"}),
    row("svd-underflow", SVD, tiny, all_zero, SCALING, of("svdvals", 3, 3, values="tiny"),
        {"values": "random"}, report="rocsolver#495"),
    row("eigh-underflow", EIGH, tiny, underflowed, SCALING, of("eigh", 3, 3, values="tiny"),
        {"values": "random"}, report="rocsolver#495"),
    row("qr-underflow-tall-single", "qr", tiny & tall() & single, underflowed, SCALING,
        of("qr", 4, 3, values="tiny32", dtype=S), {"shape": (3, 3)}),
    row("cholesky-underflow", CHOLESKY, tiny, all_zero, SCALING,
        of("cholesky", 3, 3, values="tiny32", dtype=S), {"values": "random"}),
    row("svd-subnormals-flushed", SVD, subnormal & real, flushed, SCALING,
        of("svdvals", 3, 3, values="subnormal"), {"values": "tiny"}),
    row("eigh-subnormals-flushed", EIGH, subnormal & real, flushed, SCALING,
        of("eigvalsh", 3, 3, values="subnormal"), {"values": "tiny"}),
    row("qr-subnormals-flushed", "qr", subnormal & real, flushed, SCALING,
        of("qr", 3, 3, values="subnormal"), {"values": "tiny"}),
    # zero
    row("svd-zero-to-nan", SVD, zero, all_nan, EXACT, of("svd", 3, 3, values="zero"),
        {"values": "random"}, report="pytorch#136085"),
    row("svd-zero-no-vectors", "svd", zero & square, zero_u, ORTHONORMAL,
        of("svd", 3, 3, values="zero"), {"shape": (4, 3)}),
    row("eigh-zero-no-vectors", "eigh", zero, zero_vectors, ORTHONORMAL,
        of("eigh", 3, 3, values="zero"), {"values": "identity"}),
    row("qr-zero-to-nan", "qr", zero, all_nan, EXACT, of("qr", 4, 3, values="zero"),
        {"values": "identity"}),
    row("qr-zero-column-to-nan-batched", "qr", has_zero_column & batched, nan_column, FINITE,
        of("qr", 2, 3, 3, values="zero-column"), {"shape": (3, 3)}),
    row("svdvals-zero-refused", "svdvals", zero & batched, refused, EXACT,
        of("svdvals", 2, 2, 2, values="zero"), {"shape": (2, 2)}, report="cytnx#831"),
    # diagonal
    row("eigh-diagonal-unwritten", EIGH, diagonal, values_unwritten, VALUES,
        of("eigvalsh", 3, 3, values="diagonal"), {"values": "random"}, report="rocsolver#495"),
    row("svd-diagonal-unwritten-above-4", SVD, diagonal & above(4), values_unwritten, VALUES,
        of("svdvals", 5, 5, values="diagonal"), {"values": "random"}),
    row("eigh-diagonal-vectors-identity", "eigh", diagonal, identity_vectors, RESIDUAL,
        of("eigh", 3, 3, values="descending-diagonal"), {"values": "random"}),
    row("eigh-nearly-diagonal-dropped", "eigh", nearly_diagonal, identity_vectors, RESIDUAL,
        of("eigh", 4, 4, values="nearly-diagonal"), {"values": "random"}, report="jax#1628"),
    row("eigh-nearly-diagonal-to-nan-above-16", EIGH, nearly_diagonal & above(16), all_nan, FINITE,
        of("eigh", 17, 17, values="nearly-diagonal"), {"shape": (16, 16)}, report="jax#1628"),
    row("svd-identity-to-zero", SVD, identity, values_unwritten, VALUES,
        of("svdvals", 2, 2, values="identity"), {"values": "diagonal"}, report="tinygrad#11495"),
    row("qr-diagonal-keeps-input", "qr", diagonal & square & above(8),
        edit("Q holds the input's diagonal", lambda c, r: r.Q.copy_(c.A)), ORTHONORMAL,
        of("qr", 9, 9, values="diagonal"), {"shape": (8, 8)}, report="oneMath#748"),
    row("cholesky-diagonal-not-rooted-batched", CHOLESKY, diagonal & batched,
        edit("the diagonal itself", lambda c, r: r.L.copy_(c.A)), RECONSTRUCTION,
        of("cholesky", 2, 3, 3, values="diagonal"), {"shape": (3, 3)}),
    # equal norms and values
    row("svd-equal-columns-rotation-skipped", SVD, equal_columns, rotation_skipped, VALUES,
        of("svdvals", 2, 2, values="equal-columns"), {"values": "random"}, report="tinygrad#13945"),
    row("svd-equal-columns-rotation-skipped-tall-batched", SVD, equal_columns & tall() & batched,
        rotation_skipped, VALUES, of("svd", 2, 4, 3, values="equal-columns"), {"shape": (4, 3)}),
    row("svd-constant-rank-two", SVD, constant & double, nonzero_null, VALUES,
        of("svdvals", 2, 2, values="ones"), {"values": "identity"}, report="mlx#2107"),
    row("svd-null-values-noise", SVD, rank_deficient, nonzero_null, VALUES,
        of("svdvals", 3, 3, values="rank-deficient"), {"values": "random"}, report="humpday#391"),
    row("svd-orthogonal-u-zero", "svd", orthogonal, zero_u, RECONSTRUCTION,
        of("svd", 4, 4, values="orthogonal"), {"values": "random"}),
    row("eigh-plus-minus-pairs", EIGH,
        indefinite & Condition("even order", lambda c: c.n % 2 == 0), pairs_positive, VALUES,
        of("eigvalsh", 4, 4, values="plus-minus"), {"values": "identity"}),
    row("eigh-integer-rounded", EIGH, integers & above(2),
        edit("eigenvalues rounded to integers", lambda c, r: r.w.round_()), VALUES,
        of("eigvalsh", 3, 3, values="integer"), {"values": "random"}),
    row("eigh-identity-vectors-zero", "eigh", identity, zero_vectors, ORTHONORMAL,
        of("eigh", 3, 3, values="identity"), {"values": "diagonal"}),
    row("eigh-rank-one-zero", EIGH, Condition("rank one", _rank_one), values_unwritten, VALUES,
        of("eigvalsh", 3, 3, values="ones"), {"values": "random"}, report="pytorch#145801"),
    row("svd-repeated-values-refused", SVD, equal_values & above(2) & double, refused, FINITE,
        of("svd", 4, 4, values="orthogonal"), {"values": "random"}, report="scipy#23220"),
    row("svd-huge-and-tiny", SVD, Condition("entries above sqrt(max) and below sqrt(tiny)",
        _huge_and_tiny), all_nan, FINITE, of("svdvals", 3, 3, values="huge-and-tiny"),
        {"values": "huge"}),
    # signed zeros
    row("svd-signed-zero-to-nan", SVD, negative_zero, all_nan, FINITE,
        of("svdvals", 3, 3, values="signed-zero"), {"values": "diagonal"}),
    row("qr-signed-zero-first-reflector", "qr", negative_zero, nan_column, FINITE,
        of("qr", 3, 3, values="signed-zero"), {"values": "diagonal"}),
    row("eigh-signed-zero-sign-lost", EIGH, negative_zero & double, values_unwritten, VALUES,
        of("eigh", 3, 3, values="signed-zero"), {"values": "diagonal"}),
    # NaN and Inf
    row("svd-nan-as-zero", SVD, has_nan, nan_as_zero, NONFINITE, of("svdvals", 3, 3, values="nan"),
        {"values": "random"}, report="pytorch#187759"),
    row("eigh-nan-as-zero", EIGH, has_nan, nan_as_zero, NONFINITE, of("eigh", 3, 3, values="nan"),
        {"values": "random"}),
    row("qr-nan-as-zero", "qr", has_nan, nan_as_zero, NONFINITE, of("qr", 3, 3, values="nan"),
        {"values": "random"}),
    row("cholesky-nan-as-zero-batched", CHOLESKY, has_nan & batched,
        on_input("NaN taken for one", lambda A: torch.nan_to_num(A, nan=1.0)), NONFINITE,
        of("cholesky_ex", 2, 3, 3, values="nan"), {"shape": (3, 3)}),
    row("svd-inf-as-finite", SVD, has_inf, inf_as_max, NONFINITE,
        of("svdvals", 3, 3, values="inf"), {"values": "random"}, report="pytorch#190283"),
    row("eigh-inf-as-finite-single", EIGH, has_inf & single, inf_as_max, NONFINITE,
        of("eigvalsh", 3, 3, values="inf", dtype=S), {"dtype": "float64"}),
    row("qr-inf-as-finite", "qr", has_inf, inf_as_max, NONFINITE, of("qr", 3, 3, values="inf"),
        {"values": "random"}),
    row("cholesky-solve-nan-column-spreads", SOLVE, Condition("NaN in some columns of B",
        lambda c: bool(_nan_columns(c).any() and not _nan_columns(c).all())),
        edit("all of X is NaN", lambda c, r: r.X.fill_(torch.nan)), FINITE,
        of("cholesky_solve", 3, 3, values="nan-column"), {"values": "random"}),
    row("cholesky-one-failure-fails-all", "cholesky_ex", batched, spread_failure, INFO,
        of("cholesky_ex", 3, 2, 2, values="mixed"), {"values": "random"}),
)
# fmt: on
