"""Right numbers in a tensor of the wrong dtype, device, shape or strides."""

from __future__ import annotations

import torch

from .conditions import (
    above,
    batched,
    complex128,
    complex_,
    double,
    float64,
    full,
    functional,
    reduced,
    square,
    tall,
    upper,
    wide,
)
from .effects import returned, row_major
from .planting import Condition, Effect
from .promises import METADATA, ORDER
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, SVD, row, table
from .witness import of

S = "float32"
C = "complex64"
Z = "complex128"


def _every_other(x: torch.Tensor) -> torch.Tensor:
    wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    return wide[..., ::2].copy_(x)


def _column_major(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous().mT


def as_type(name: str, dtype: torch.dtype) -> Effect:
    """A result of another dtype."""
    return returned(name, f"as {str(dtype).removeprefix('torch.')}", lambda x: x.to(dtype))


def elsewhere(name: str) -> Effect:
    """A result on another device."""
    return returned(name, "on another device", lambda x: x.to("meta"))


gappy = {name: returned(name, "with gaps in memory", _every_other) for name in ("S", "w")}
as_column = {name: returned(name, "as a column", lambda x: x.unsqueeze(-1)) for name in ("S", "w")}
batch_innermost = returned(
    "L", "with the batch innermost", lambda x: x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
)
F = functional

# fmt: off
FAULTS = table(
    "metadata",
    # dtype
    row("svd-values-float32", SVD, F & float64, as_type("S", torch.float32), METADATA,
        of("svdvals", 3, 3), {"dtype": S}),
    row("eigh-values-float32-for-complex128", EIGH, F & complex128, as_type("w", torch.float32),
        METADATA, of("eigvalsh", 3, 3, dtype=Z), {"dtype": "float64"}),
    row("cholesky-float32-above-64", CHOLESKY, F & float64 & above(64),
        as_type("L", torch.float32), METADATA, of("cholesky", 65, 65), {"shape": (64, 64)}),
    row("qr-r-float32-batched", "qr", F & float64 & batched, as_type("R", torch.float32), METADATA,
        of("qr", 2, 3, 3), {"shape": (3, 3)}),
    row("cholesky-solve-float32", SOLVE, F & float64, as_type("X", torch.float32), METADATA,
        of("cholesky_solve", 3, 3), {"dtype": Z}),
    row("svd-values-complex", SVD, F & complex_ & double, as_type("S", torch.complex128), ORDER,
        of("svdvals", 3, 3, dtype=Z), {"dtype": C}),
    row("eigh-values-complex", EIGH, F & complex_, as_type("w", torch.complex64), ORDER,
        of("eigh", 3, 3, dtype=C), {"dtype": S}),
    row("svd-values-float64-for-float32", SVD,
        F & Condition("float32", lambda c: c.A.dtype == torch.float32),
        as_type("S", torch.float64), METADATA, of("svd", 3, 3, dtype=S), {"dtype": "float64"}),
    row("cholesky-info-int64", CHOLESKY, F, as_type("info", torch.int64), METADATA,
        of("cholesky_ex", 3, 3), {"out": "fitting"}),
    # device
    row("svd-values-elsewhere", SVD, F & wide(), elsewhere("S"), METADATA, of("svdvals", 3, 4),
        {"shape": (4, 4)}, report="ipex#566"),
    row("eigh-vectors-elsewhere", "eigh", F & complex_, elsewhere("V"), METADATA,
        of("eigh", 3, 3, dtype=C), {"dtype": S}),
    row("cholesky-info-elsewhere", "cholesky_ex", F & batched, elsewhere("info"), METADATA,
        of("cholesky_ex", 2, 3, 3), {"shape": (3, 3)}),
    # strides
    row("svd-u-row-major", "svd", F, row_major("U"), METADATA, of("svd", 3, 3), {"out": "fitting"}),
    row("svd-vh-column-major-to-row-major-reduced", "svd", F & reduced, row_major("Vh"), METADATA,
        of("svd", 3, 5, full_matrices=False), {"full_matrices": True}),
    row("svd-u-row-major-full-tall-batched", "svd", F & full & tall() & batched, row_major("U"),
        METADATA, of("svd", 2, 4, 3), {"shape": (4, 3)}),
    row("eigh-vectors-row-major", "eigh", F, row_major("V"), METADATA, of("eigh", 3, 3),
        {"operation": "svd"}),
    row("eigh-vectors-row-major-complex-above-8", "eigh", F & complex_ & above(8), row_major("V"),
        METADATA, of("eigh", 9, 9, dtype=Z), {"shape": (8, 8)}),
    row("qr-q-row-major", "qr", F, row_major("Q"), METADATA, of("qr", 4, 3), {"out": "fitting"}),
    row("qr-r-row-major-wide", "qr", F & wide(), row_major("R"), METADATA, of("qr", 3, 4),
        {"shape": (4, 4)}),
    row("cholesky-row-major", CHOLESKY, F, row_major("L"), METADATA, of("cholesky", 3, 3),
        {"out": "fitting"}, report="pytorch#156658"),
    row("cholesky-row-major-upper-batched", CHOLESKY, F & upper & batched, row_major("L"),
        METADATA, of("cholesky", 2, 3, 3, upper=True), {"upper": False}),
    row("cholesky-solve-row-major", SOLVE, F, row_major("X"), METADATA, of("cholesky_solve", 3, 3),
        {"out": "fitting"}, report="pytorch#197236"),
    row("cholesky-inverse-row-major", INVERSE, F & square, row_major("X"), METADATA,
        of("cholesky_inverse", 3, 3), {"out": "fitting"}),
    row("householder-product-row-major", "householder_product", F, row_major("Q"), METADATA,
        of("householder_product", 4, 3), {"out": "fitting"}),
    row("svd-values-with-gaps", SVD, F & batched, gappy["S"], METADATA, of("svdvals", 2, 3, 3),
        {"shape": (3, 3)}),
    row("cholesky-batch-innermost", CHOLESKY,
        F & batched & Condition("one batch axis", lambda c: len(c.batch) == 1), batch_innermost,
        METADATA, of("cholesky_ex", 2, 3, 3), {"shape": (2, 2, 3, 3)}),
    # shape
    row("eigh-values-as-column", EIGH, F & batched, as_column["w"], METADATA,
        of("eigvalsh", 2, 3, 3), {"shape": (3, 3)}),
    row("cholesky-info-not-a-scalar", CHOLESKY, F & Condition("no batch", lambda c: not c.batch),
        returned("info", "as a vector of one", lambda x: x.reshape(1)), METADATA,
        of("cholesky_ex", 3, 3), {"shape": (2, 3, 3)}),
)
# fmt: on
