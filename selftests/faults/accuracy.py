"""Results that are less accurate than a backward stable algorithm's, by a factor of 100 or more."""

from __future__ import annotations

from .conditions import (
    above,
    always,
    batch_above,
    batched,
    between,
    column_scaled,
    columns_above,
    complex64,
    complex128,
    complex_,
    double,
    float32,
    float64,
    full,
    graded,
    rank_deficient,
    real,
    single,
    square,
    tall,
    upper,
    wide,
)
from .effects import (
    bf16_input,
    early_eigh,
    early_svd,
    edit,
    fading,
    gram_qr,
    gram_svd,
    in_single,
    offset_values,
    rounded,
    scaled,
    skewed,
    small_wrong,
    tf32_input,
)
from .promises import (
    AGREEMENT,
    FACTOR,
    ORTHONORMAL,
    RECONSTRUCTION,
    RESIDUAL,
    SOLUTION,
    VALUES,
)
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, SVD, row, table
from .witness import of

S = "float32"
C = "complex64"
Z = "complex128"
ILL = "ill-conditioned"

trailing_block = edit(
    "block beyond 32 rounded to single precision",
    lambda c, r: r.L[..., 32:, 32:].copy_(r.L[..., 32:, 32:].to(_single(r.L.dtype))),
)


def _single(dtype: object) -> object:
    from .effects import LOWER

    return LOWER[dtype]  # type: ignore[index]

# fmt: off
FAULTS = table(
    "accuracy",
    # inputs rounded
    row("svd-tf32", SVD, single, tf32_input, VALUES, of("svd", 8, 8, dtype=S), {"dtype": Z}),
    row("eigh-tf32", EIGH, float32, tf32_input, VALUES, of("eigh", 8, 8, dtype=S), {"dtype": C}),
    row("qr-tf32", "qr", single, tf32_input, RECONSTRUCTION, of("qr", 8, 5, dtype=C), {"dtype": Z}),
    row("cholesky-tf32", CHOLESKY, float32, tf32_input, RECONSTRUCTION,
        of("cholesky", 8, 8, dtype=S), {"dtype": C}, report="pytorch#48288"),
    row("cholesky-solve-tf32", SOLVE, single, tf32_input, SOLUTION,
        of("cholesky_solve", 8, 8, dtype=S), {"dtype": "float64"}),
    row("cholesky-inverse-tf32", INVERSE, float32 & batched, tf32_input, SOLUTION,
        of("cholesky_inverse", 3, 8, 8, dtype=S), {"shape": (8, 8)}),
    row("svd-bf16-above-32", SVD, single & above(32), bf16_input, VALUES,
        of("svdvals", 33, 40, dtype=S), {"shape": (32, 40)}),
    row("eigh-bf16-batched-complex", EIGH, complex64 & batched, bf16_input, VALUES,
        of("eigh", 2, 5, 5, dtype=C), {"shape": (5, 5)}),
    row("qr-bf16-tall", "qr", single & tall(8), bf16_input, RECONSTRUCTION,
        of("qr", 40, 4, dtype=S), {"shape": (32, 4)}),
    row("cholesky-bf16-upper-above-64", CHOLESKY, single & upper & above(64), bf16_input,
        RECONSTRUCTION, of("cholesky", 65, 65, dtype=S, upper=True), {"upper": False}),
    # double precision done in single
    row("svd-in-single", SVD, double, in_single, VALUES, of("svd", 3, 3), {"dtype": S}),
    row("svdvals-complex128-in-complex64", SVD, complex128, in_single, VALUES,
        of("svdvals", 4, 3, dtype=Z), {"dtype": "float64"}, report="jax#5788"),
    row("eigh-in-single-above-64", EIGH, float64 & above(64), in_single, VALUES,
        of("eigvalsh", 65, 65), {"shape": (64, 64)}),
    row("eigh-complex128-in-complex64-above-32", EIGH, complex128 & above(32), in_single, VALUES,
        of("eigh", 33, 33, dtype=Z), {"dtype": "float64"}),
    row("qr-in-single-above-48", "qr", double & above(48), in_single, RECONSTRUCTION,
        of("qr", 60, 49), {"shape": (60, 48)}),
    row("cholesky-in-single-above-128", CHOLESKY, double & above(128), in_single, RECONSTRUCTION,
        of("cholesky_ex", 129, 129), {"shape": (128, 128)}),
    row("cholesky-solve-in-single-many-rhs", SOLVE, double & columns_above[16], in_single,
        SOLUTION, of("cholesky_solve", 6, 6, columns=17), {"columns": 16}),
    row("cholesky-inverse-in-single", INVERSE, double, in_single, SOLUTION,
        of("cholesky_inverse", 6, 6), {"dtype": S}),
    row("ormqr-in-single", "ormqr", double, in_single, RECONSTRUCTION, of("ormqr", 6, 4),
        {"dtype": S}),
    row("householder-product-in-single-above-16", "householder_product", double & above(16),
        in_single, ORTHONORMAL, of("householder_product", 20, 17), {"shape": (20, 16)}),
    row("svd-in-single-large-batch", SVD, float64 & batch_above(63), in_single, VALUES,
        of("svd", 64, 2, 2), {"shape": (63, 2, 2)}),
    row("svd-in-single-above-64-rank-deficient", SVD, float64 & above(64) & rank_deficient,
        in_single, VALUES, of("svd", 65, 65, values="rank-deficient"), {"values": "random"}),
    row("cholesky-trailing-block-in-single", CHOLESKY, double & above(32), trailing_block, FACTOR,
        of("cholesky", 34, 34), {"shape": (32, 32)}),
    row("eigvalsh-rounded-to-single", "eigvalsh", double, rounded("w"), AGREEMENT,
        of("eigvalsh", 5, 5), {"operation": "eigh"}),
    row("svd-vectors-in-single-wide", "svd", double & wide(), rounded("U", "Vh"), ORTHONORMAL,
        of("svd", 3, 5), {"shape": (5, 5)}),
    row("eigh-vectors-in-single-mid-range", "eigh", double & between(17, 31), rounded("V"),
        RESIDUAL, of("eigh", 17, 17), {"shape": (16, 16)}),
    # orthogonality lost slowly
    row("svd-u-leans", "svd", always, skewed("U", 150), ORTHONORMAL, of("svd", 5, 5),
        {"operation": "svdvals"}),
    row("svd-vh-fades-above-32", "svd", above(32), fading("Vh", 200, rows=True), ORTHONORMAL,
        of("svd", 33, 40), {"shape": (32, 40)}),
    row("svd-u-fades-complex-tall", "svd", complex_ & tall(), fading("U", 200), ORTHONORMAL,
        of("svd", 9, 4, dtype=Z), {"dtype": "float64"}),
    row("eigh-fades", "eigh", real, fading("V", 200), ORTHONORMAL, of("eigh", 6, 6), {"dtype": Z}),
    row("eigh-fades-above-100", "eigh", above(100), fading("V", 250), ORTHONORMAL,
        of("eigh", 101, 101), {"shape": (100, 100)}, report="rocm-libraries#11289"),
    row("qr-fades", "qr", square, fading("Q", 150), ORTHONORMAL, of("qr", 6, 6), {"shape": (7, 6)}),
    row("qr-fades-complex-tall", "qr", complex_ & tall(4), fading("Q", 150), ORTHONORMAL,
        of("qr", 20, 4, dtype=Z), {"shape": (16, 4)}),
    row("householder-product-leans", "householder_product", always, skewed("Q", 150), ORTHONORMAL,
        of("householder_product", 6, 6), {"operation": "geqrf"}),
    # the squared condition number
    row("svd-gram", SVD, always, gram_svd, ORTHONORMAL, of("svd", 6, 6, values=ILL),
        {"operation": "qr"}, report="humpday#391"),
    row("svd-gram-tall", SVD, tall(2), gram_svd, VALUES, of("svdvals", 12, 4, values=ILL),
        {"shape": (8, 4)}),
    row("svd-gram-batched-wide", SVD, batched & wide(), gram_svd, ORTHONORMAL,
        of("svd", 2, 4, 6, values=ILL, full_matrices=False), {"shape": (4, 6)}),
    row("qr-gram", "qr", always, gram_qr, ORTHONORMAL, of("qr", 6, 6, values=ILL),
        {"operation": "svd"}),
    row("qr-gram-tall-skinny", "qr", tall(9), gram_qr, ORTHONORMAL, of("qr", 50, 5, values=ILL),
        {"shape": (45, 5)}),
    # Jacobi stopped early
    row("svd-jacobi-early", "svd", between(2, 64), early_svd, ORTHONORMAL, of("svd", 6, 4),
        {"shape": (1, 4)}),
    row("svd-jacobi-early-graded", "svd", graded, early_svd, ORTHONORMAL,
        of("svd", 6, 6, values="graded"), {"values": "orthogonal"}),
    row("eigh-jacobi-early", "eigh", between(2, 32), early_eigh, RESIDUAL, of("eigh", 4, 4),
        {"shape": (33, 33)}),
    row("eigh-jacobi-early-batched-complex", "eigh", batched & complex_, early_eigh, RESIDUAL,
        of("eigh", 2, 5, 5, dtype=C), {"dtype": S}),
    # small values
    row("svd-small-values-graded", SVD, graded, small_wrong, VALUES,
        of("svd", 6, 6, values="graded"), {"values": "random"}, report="lapack#316"),
    row("svdvals-small-values-column-scaled", "svdvals", column_scaled, small_wrong, AGREEMENT,
        of("svdvals", 8, 6, values="column-scaled"), {"values": "random"}),
    row("eigh-small-eigenvalues-graded", EIGH, graded, small_wrong, VALUES,
        of("eigh", 6, 6, values="graded"), {"values": "identity"}, report="rocsolver#753-syevj"),
    # values and factors off by a little
    row("svd-values-drift-above-128", SVD, above(128), scaled("S", 200), VALUES,
        of("svdvals", 129, 129), {"shape": (128, 129)}),
    row("svd-least-value-off-full-wide", "svd", full & wide() & complex_, offset_values("S"),
        VALUES, of("svd", 3, 5, dtype=Z), {"dtype": "float64"}),
    row("eigh-largest-value-off-odd-batch", EIGH, batch_above(2), offset_values("w", -1, 200),
        VALUES, of("eigh", 3, 4, 4), {"shape": (2, 4, 4)}),
    row("cholesky-solve-drifts-batched", SOLVE, batched, scaled("X", 2000), SOLUTION,
        of("cholesky_solve", 2, 4, 4), {"shape": (4, 4)}, report="pytorch#66072"),
    row("qr-r-drifts-tall", "qr", tall() & above(16), scaled("R", 200), RECONSTRUCTION,
        of("qr", 20, 17), {"shape": (20, 16)}),
)
# fmt: on
