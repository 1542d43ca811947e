"""Wrong only at some sizes."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .conditions import (
    above,
    batched,
    between,
    column_major,
    complex_,
    double,
    elements_above,
    exactly,
    float32,
    full,
    lower,
    odd,
    ragged,
    rows_above,
    square,
    tall,
    upper,
    wide,
)
from .effects import edit, flip_sign, floating, raising, swapped_columns
from .inexact import offset_values, skewed
from .planting import Call, Condition, Effect
from .promises import (
    FACTOR,
    ORTHONORMAL,
    RECONSTRUCTION,
    RESIDUAL,
    SOLUTION,
    VALUES,
)
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, SVD, row, table
from .witness import of

C = "complex64"
Z = "complex128"
single_row = Condition("m = 1", lambda c: c.m == 1 < c.n)
single_column = Condition("n = 1", lambda c: c.n == 1 < c.m)
nearly_square = Condition("m = n + 1", lambda c: c.m == c.n + 1)
power_of_two = Condition("k a power of two above 8", lambda c: c.k > 8 and c.k & (c.k - 1) == 0)


def _last_number(call: Call, r: SimpleNamespace) -> None:
    """The numbers from flat position 8192 on are lost."""
    for _, x in floating(r):
        if x.numel() > 8192:
            x.copy_(torch.where(torch.arange(x.numel()).view(x.shape) >= 8192, 0.5 * x, x))


def _remainder(block: int, name: str) -> Effect:
    """Columns of the last, incomplete block halved."""

    def change(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name)
        if X.numel():
            X[..., call.k // block * block : call.k] *= 1 + 2.0**-9

    return edit(f"{name}: columns of the incomplete last block off by 2**-9", change)


beyond_8192_numbers = edit("numbers of a result from the 8192nd on halved", _last_number)
not_rooted = edit("the entry instead of its root", lambda c, r: r.L.copy_(c.A))
v_is_two = edit("V is 2", lambda c, r: r.Vh.fill_(2))
short_u = edit("U half as long", lambda c, r: r.U.div_(2))
zero_column = edit("last vector zero", lambda c, r: r.V[..., -1].zero_())
squared = edit("sums of squares without the root", lambda c, r: r.S.square_())


def l_off(index: int) -> Effect:
    """An entry in the first column of L off by a little, for double precision."""
    return edit(
        f"L[{index}, 0] off by 2**-12",
        lambda c, r: (r.L.mT if c.arguments["upper"] else r.L)[..., index, 0].mul_(1 + 2.0**-12),
    )


def l_row(index: int) -> Effect:
    """A row of L, left of the diagonal, off by a half."""
    return edit(
        f"row {index} of L halved left of the diagonal",
        lambda c, r: (r.L.mT if c.arguments["upper"] else r.L)[..., index, :index].mul_(0.5),
    )


# fmt: off
FAULTS = table(
    "size",
    # the smallest
    row("svd-1x1-v", "svd", exactly(1) & square, v_is_two, RECONSTRUCTION, of("svd", 1, 1),
        {"shape": (2, 2)}, report="rocsolver#197"),
    row("svd-one-row", SVD, single_row, squared, VALUES, of("svdvals", 1, 4), {"shape": (2, 4)}),
    row("svd-one-column-u", "svd", single_column, short_u, ORTHONORMAL, of("svd", 4, 1),
        {"shape": (4, 2)}),
    row("eigh-1x1-vector-zero", "eigh", exactly(1), zero_column, ORTHONORMAL, of("eigh", 1, 1),
        {"shape": (2, 2)}),
    row("qr-1x1-q-zero-batched", "qr", exactly(1) & batched,
        edit("Q zero", lambda c, r: r.Q.zero_()), ORTHONORMAL, of("qr", 2, 1, 1),
        {"shape": (1, 1)}),
    row("cholesky-1x1-not-rooted", CHOLESKY, exactly(1), not_rooted, FACTOR, of("cholesky", 1, 1),
        {"shape": (2, 2)}, report="pytorch#87402"),
    row("eigh-2x2", EIGH, exactly(2), offset_values("w", 0, 1000), VALUES, of("eigh", 2, 2),
        {"shape": (3, 3)}),
    row("svd-3x3-batched", "svd", exactly(3) & batched, skewed("U", 1000), ORTHONORMAL,
        of("svd", 2, 3, 3), {"shape": (3, 3)}),
    row("qr-one-row", "qr", single_row, flip_sign("R", 0, rows=True), RECONSTRUCTION,
        of("qr", 1, 3), {"shape": (2, 3)}),
    # exactly one size
    row("svd-33", SVD, exactly(33), offset_values("S", -1, 500), VALUES, of("svdvals", 33, 33),
        {"shape": (34, 34)}),
    row("eigh-33", "eigh", exactly(33), skewed("V", 500), ORTHONORMAL, of("eigh", 33, 33),
        {"shape": (32, 32)}),
    row("qr-33", "qr", exactly(33), flip_sign("Q", 32), RECONSTRUCTION, of("qr", 35, 33),
        {"shape": (35, 34)}),
    row("cholesky-33-double", CHOLESKY, exactly(33) & double, l_off(32), FACTOR,
        of("cholesky", 33, 33), {"shape": (32, 32)}),
    row("cholesky-17-upper-double", CHOLESKY, exactly(17) & upper & double, l_off(16), FACTOR,
        of("cholesky", 17, 17, upper=True), {"upper": False}),
    row("qr-65-complex", "qr", exactly(65) & complex_, flip_sign("R", 64, rows=True),
        RECONSTRUCTION, of("qr", 65, 65, dtype=C), {"shape": (64, 64)}),
    row("cholesky-256", CHOLESKY, exactly(256), l_row(255), FACTOR, of("cholesky", 256, 256),
        {"shape": (255, 255)}),
    row("eigh-power-of-two", "eigh", power_of_two, swapped_columns("V", 0, 1), RESIDUAL,
        of("eigh", 16, 16), {"shape": (17, 17)}),
    # a range
    row("svd-49-to-63", SVD, between(49, 63), offset_values("S", 3, 500), VALUES,
        of("svdvals", 49, 49), {"shape": (48, 48)}),
    row("eigh-49-to-63-complex", "eigh", between(49, 63) & complex_, skewed("V", 500), ORTHONORMAL,
        of("eigh", 63, 63, dtype=C), {"shape": (64, 64)}),
    row("svd-20-to-52", "svd", between(20, 52) & float32, swapped_columns("U", 0, 1),
        RECONSTRUCTION, of("svd", 20, 20, dtype="float32"), {"dtype": "float64"},
        report="rocm-libraries#3171"),
    row("qr-100-to-130-batched", "qr", between(100, 130) & batched, skewed("Q", 500), ORTHONORMAL,
        of("qr", 2, 100, 100), {"shape": (100, 100)}),
    # above
    row("svd-above-32", "svd", above(32), skewed("U", 300), ORTHONORMAL, of("svd", 33, 33),
        {"shape": (32, 33)}, report="pytorch#192802"),
    row("svd-above-64-wide", SVD, above(64) & wide(), offset_values("S", 0), VALUES,
        of("svdvals", 65, 70), {"shape": (65, 65)}),
    row("svd-above-128-v", "svd", above(128), flip_sign("Vh", 128, rows=True), RECONSTRUCTION,
        of("svd", 129, 129), {"shape": (128, 129)}),
    row("eigh-above-32-last-vector", "eigh", above(32),
        edit("last vector zero", lambda c, r: r.V[..., -1].zero_()), ORTHONORMAL,
        of("eigh", 33, 33), {"shape": (32, 32)}),
    row("eigh-above-128-values", EIGH, above(128), offset_values("w", 64), VALUES,
        of("eigvalsh", 129, 129), {"shape": (128, 128)}),
    row("qr-above-64-reflector", "qr", above(64), skewed("Q", 400), ORTHONORMAL, of("qr", 66, 65),
        {"shape": (66, 64)}, report="pytorch#173972"),
    row("qr-above-127", "qr", above(127), flip_sign("R", 127, rows=True), RECONSTRUCTION,
        of("qr", 128, 128), {"shape": (127, 127)}, report="openblas#1191"),
    row("cholesky-above-64-block", CHOLESKY, above(64) & double, l_off(64), FACTOR,
        of("cholesky", 65, 65), {"shape": (64, 64)}),
    row("cholesky-above-512", CHOLESKY, above(512), l_row(512), FACTOR,
        of("cholesky", 513, 513, dtype="float32"), {"shape": (512, 512)}),
    row("eigvalsh-above-512", EIGH, above(512), offset_values("w", 5), VALUES,
        of("eigvalsh", 513, 513, dtype="float32"), {"shape": (65, 65)}, report="numpy#6896"),
    row("qr-above-512", "qr", above(512), flip_sign("Q", 512), RECONSTRUCTION,
        of("qr", 513, 513, dtype="float32"), {"shape": (512, 32)}),
    row("cholesky-above-1024", CHOLESKY, above(1024), l_row(1024), FACTOR,
        of("cholesky", 1025, 1025, dtype="float32"), {"shape": (64, 64)},
        report="rocm-libraries#10909"),
    row("qr-above-1024", "qr", above(1024), flip_sign("R", 1024, rows=True), RECONSTRUCTION,
        of("qr", 1025, 1025, dtype="float32"), {"shape": (1025, 8)}),
    row("cholesky-solve-above-128", SOLVE, above(128),
        edit("last unknown off by 2**-8", lambda c, r: r.X[..., -1, :].mul_(1 + 2.0**-8)),
        SOLUTION, of("cholesky_solve", 129, 129), {"shape": (128, 128)}),
    row("cholesky-inverse-above-64", INVERSE, above(64),
        edit("last diagonal entry off by 2**-8", lambda c, r: r.X[..., -1, -1].mul_(1 + 2.0**-8)),
        SOLUTION, of("cholesky_inverse", 65, 65), {"shape": (64, 64)}, report="openblas#410"),
    # not a multiple of the block
    row("svd-not-multiple-of-16", "svd", ragged(16), _remainder(16, "U"), ORTHONORMAL,
        of("svd", 17, 17), {"shape": (32, 32)}),
    row("eigh-not-multiple-of-16", "eigh", ragged(16), _remainder(16, "V"), ORTHONORMAL,
        of("eigh", 18, 18), {"shape": (16, 16)}),
    row("qr-not-multiple-of-16-tall", "qr", ragged(16) & tall(), _remainder(16, "Q"), ORTHONORMAL,
        of("qr", 40, 17), {"shape": (40, 32)}),
    row("cholesky-not-multiple-of-16", CHOLESKY, ragged(16), _remainder(16, "L"), FACTOR,
        of("cholesky", 17, 17), {"shape": (32, 32)}),
    row("cholesky-not-multiple-of-8-lower-complex", CHOLESKY, ragged(8) & lower & complex_,
        _remainder(8, "L"), FACTOR, of("cholesky", 9, 9, dtype=Z), {"dtype": "float64"}),
    row("eigvalsh-odd-size-column-major", "eigvalsh", odd & column_major & above(4),
        offset_values("w", 0, 500), VALUES, of("eigvalsh", 5, 5, layout="column-major"),
        {"layout": "row-major"}),
    # shape
    row("svd-tall-skinny", SVD, tall(32), offset_values("S", 0, 200), VALUES,
        of("svdvals", 100, 3), {"shape": (96, 3)}),
    row("svd-very-wide-complex", "svd", wide(16) & complex_, skewed("Vh", 300, rows=True),
        ORTHONORMAL, of("svd", 2, 40, dtype=Z), {"dtype": "float64"}),
    row("svd-full-tall-10-to-1", "svd", full & tall(9), skewed("U", 500), ORTHONORMAL,
        of("svd", 20, 2), {"full_matrices": False}),
    row("qr-tall-skinny", "qr", tall(64), skewed("Q", 200), ORTHONORMAL, of("qr", 200, 3),
        {"shape": (192, 3)}, report="pytorch#187567"),
    row("qr-tall-above-512-rows-refused", "qr", rows_above(512) & tall(50),
        raising("invalid buffer size"), RECONSTRUCTION, of("qr", 1000, 3), {"shape": (150, 3)},
        report="pytorch#107222"),
    row("qr-wide", "qr", wide(),
        edit("last column of R doubled", lambda c, r: r.R[..., -1].mul_(2)), RECONSTRUCTION,
        of("qr", 3, 5), {"shape": (5, 5)}),
    row("qr-nearly-square", "qr", nearly_square, skewed("Q", 500), ORTHONORMAL, of("qr", 6, 5),
        {"shape": (7, 5)}),
    row("svd-nearly-square-double", "svd", nearly_square & double, flip_sign("U", 0),
        RECONSTRUCTION, of("svd", 5, 4), {"dtype": "float32"}),
    # total size
    row("cholesky-numbers-beyond-8192", CHOLESKY, elements_above(8192), beyond_8192_numbers,
        RECONSTRUCTION, of("cholesky", 91, 91), {"shape": (90, 90)}),
    row("qr-numbers-beyond-8192-batched", "qr", elements_above(8192) & batched,
        beyond_8192_numbers, RECONSTRUCTION, of("qr", 33, 16, 16), {"shape": (32, 16, 16)}),
)
# fmt: on
