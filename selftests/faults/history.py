"""Right on its own, wrong because of what came before or beside it."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .conditions import (
    above,
    after_calls,
    after_failure,
    after_larger,
    after_other_batch,
    after_other_dtype,
    after_other_operation,
    batched,
    complex64,
    complex_,
    concurrent,
    double,
    every,
    first_call,
    first_of_shape,
    third_on_same,
    upper,
)
from .effects import all_nan, all_zero, edit, elements, flip_sign, floating, raising
from .inexact import skewed
from .planting import Call
from .promises import HISTORY, REPEAT, THREADS
from .table import CHOLESKY, EIGH, INVERSE, SOLVE, SVD, row, table
from .witness import of

S = "float32"
C = "complex64"


def _last_bit(call: Call, r: SimpleNamespace) -> None:
    """The last entry of each result moves to the next floating-point number."""
    for _, x in floating(r):
        flat = (torch.view_as_real(x) if x.is_complex() else x)[..., -1]
        flat.copy_(torch.nextafter(flat, torch.full_like(flat, torch.inf)))


def _stale_triangle(call: Call, r: SimpleNamespace) -> None:
    r.X.add_(0.125 * torch.ones_like(r.X).triu(1))


def _leftover(call: Call, r: SimpleNamespace) -> None:
    """The last row of each result still holds numbers of the previous call."""
    for _, x in floating(r):
        x[..., -1].mul_(0.75)


last_bit = edit("last bits differ", _last_bit)
leftover = edit("the end of each result belongs to the call before", _leftover)
stale_triangle = edit("an unwritten triangle of the workspace gets in", _stale_triangle)
last_element_stale = elements(
    "the last gets its predecessor's result", lambda i, c: i.clamp(max=max(c.count - 2, 0))
)
first_element_stale = elements(
    "the first gets the last's result", lambda i, c: i.where(i > 0, c.count - 1)
)

# fmt: off
FAULTS = table(
    "history",
    # the first call
    row("svd-first-call-zero", SVD, first_call, all_zero, HISTORY, of("svd", 3, 3),
        {"before": (of("svd", 3, 3),)}, report="pytorch#82473"),
    row("eigh-first-call-nan", EIGH, first_call, all_nan, HISTORY, of("eigvalsh", 3, 3),
        {"before": (of("eigvalsh", 2, 2),)}),
    row("cholesky-first-call-refused", CHOLESKY, first_call,
        raising("lazy wrapper should be called at most once"), HISTORY, of("cholesky", 3, 3),
        {"before": (of("cholesky", 2, 2),)}, report="pytorch#90613"),
    row("qr-first-call-of-a-shape", "qr", first_of_shape & above(2), flip_sign("Q", 0), HISTORY,
        of("qr", 3, 3), {"before": (of("qr", 3, 3),)}),
    row("svd-first-call-of-a-shape-complex", "svd", first_of_shape & complex_, skewed("U", 1e6),
        HISTORY, of("svd", 3, 3, dtype=C), {"before": (of("svd", 3, 3, dtype=C),)}),
    # every k-th call
    row("svd-every-3", SVD, every(3), all_zero, HISTORY, of("svdvals", 3, 3, calls=3),
        {"calls": 2}),
    row("eigh-every-4", EIGH, every(4) & above(1), leftover, HISTORY, of("eigh", 3, 3, calls=4),
        {"calls": 3}),
    row("qr-every-5", "qr", every(5), flip_sign("R", 0, rows=True), HISTORY,
        of("qr", 3, 3, calls=5), {"calls": 4}),
    row("cholesky-every-7", CHOLESKY, every(7), leftover, HISTORY, of("cholesky", 3, 3, calls=7),
        {"calls": 6}),
    row("cholesky-solve-every-3-batched", SOLVE, every(3) & batched, leftover, HISTORY,
        of("cholesky_solve", 2, 3, 3, calls=3), {"shape": (3, 3)}),
    row("cholesky-inverse-every-4", INVERSE, every(4), leftover, HISTORY,
        of("cholesky_inverse", 3, 3, calls=4), {"calls": 3}),
    row("eigh-every-11-complex-batched", EIGH, every(11) & complex_ & batched, leftover, HISTORY,
        of("eigh", 2, 3, 3, dtype=C, calls=11), {"dtype": "float64"}),
    row("cholesky-solve-after-65535-calls", SOLVE, after_calls(65535), leftover, HISTORY,
        of("cholesky_solve", 1, 1, columns=1,
            before=(of("cholesky_solve", 1, 1, columns=1, calls=65535),)), {"before": ()},
        report="pytorch#185557"),
    # the same input again
    row("eigh-third-call-on-same-tensor", EIGH, third_on_same & complex64 & batched, leftover,
        HISTORY, of("eigh", 2, 3, 3, dtype=C, calls=3), {"calls": 2}, report="pytorch#192483"),
    row("qr-third-call-on-same-tensor", "qr", third_on_same, skewed("Q", 1e6), HISTORY,
        of("qr", 3, 3, calls=3), {"calls": 2}, report="oneMath#748"),
    # after something else
    row("svd-after-other-batch", SVD, after_other_batch & batched, last_element_stale, HISTORY,
        of("svdvals", 3, 2, 2, before=(of("svdvals", 2, 2, 2),)),
        {"before": (of("svdvals", 3, 2, 2),)}),
    row("eigh-after-other-batch", EIGH, after_other_batch, leftover, HISTORY,
        of("eigh", 2, 3, 3, before=(of("eigh", 3, 3),)), {"before": ()}),
    row("cholesky-after-other-batch-upper", CHOLESKY, after_other_batch & upper & batched,
        first_element_stale, HISTORY,
        of("cholesky", 2, 3, 3, upper=True, before=(of("cholesky", 3, 3, 3),)), {"upper": False}),
    row("qr-after-larger", "qr", after_larger, leftover, HISTORY,
        of("qr", 3, 3, before=(of("qr", 5, 5),)), {"before": (of("qr", 2, 2),)}),
    row("cholesky-inverse-after-larger", INVERSE, after_larger, stale_triangle, HISTORY,
        of("cholesky_inverse", 3, 3, before=(of("cholesky_inverse", 4, 4),)), {"before": ()},
        report="rocm#6629"),
    row("svd-after-larger-values-only", "svdvals", after_larger, leftover, HISTORY,
        of("svdvals", 3, 3, before=(of("svdvals", 6, 6),)), {"before": ()}),
    row("cholesky-after-failure", CHOLESKY, after_failure, leftover, HISTORY,
        of("cholesky", 3, 3, before=(of("cholesky_ex", 3, 3, values="indefinite"),)),
        {"before": ()}),
    row("cholesky-info-sticks-after-failure", CHOLESKY, after_failure,
        edit("info stays 1", lambda c, r: r.info.fill_(1)), HISTORY,
        of("cholesky", 3, 3, before=(of("cholesky_ex", 3, 3, values="indefinite"),)),
        {"before": (of("cholesky_ex", 3, 3),)}),
    row("svd-after-failure", SVD, after_failure, all_nan, HISTORY,
        of("svd", 3, 3, before=(of("svd", 3, 3, values="nan"),)), {"before": ()}),
    row("eigh-after-failure-batched", EIGH, after_failure & batched, all_zero, HISTORY,
        of("eigh", 2, 3, 3, before=(of("eigh", 3, 3, values="nan"),)), {"before": ()}),
    row("qr-after-other-dtype", "qr", after_other_dtype, leftover, HISTORY,
        of("qr", 3, 3, before=(of("qr", 3, 3, dtype=S),)), {"before": ()}),
    row("svd-vectors-after-values-only", "svd", after_other_operation, leftover, HISTORY,
        of("svd", 3, 3, before=(of("svdvals", 3, 3),)), {"before": (of("svd", 3, 3),)}),
    # threads
    row("svd-two-threads", SVD, concurrent, leftover, THREADS, of("svd", 3, 3, threads=2, calls=5),
        {"threads": 1}, report="openblas#1071"),
    row("eigh-two-threads", EIGH, concurrent & above(2), all_zero, THREADS,
        of("eigvalsh", 3, 3, threads=2, calls=5), {"shape": (2, 2)}),
    row("cholesky-two-threads-refused", CHOLESKY, concurrent,
        raising("lazy wrapper should be called at most once"), THREADS,
        of("cholesky", 3, 3, threads=2, calls=5), {"threads": 1}, report="pytorch#90613"),
    row("qr-two-threads-double", "qr", concurrent & double, leftover, THREADS,
        of("qr", 3, 3, threads=2, calls=5), {"dtype": S}, report="openblas#1071"),
    # repeatability
    row("svd-last-bits-differ", SVD, every(2), last_bit, REPEAT, of("svd", 3, 3, calls=2),
        {"calls": 1}, report="rocsolver#502"),
    row("eigh-last-bits-differ-above-16", EIGH, every(2) & above(16), last_bit, REPEAT,
        of("eigvalsh", 17, 17, calls=2), {"shape": (16, 16)}),
    row("qr-last-bits-differ-every-3", "qr", every(3), last_bit, REPEAT, of("qr", 3, 3, calls=3),
        {"calls": 2}),
    row("cholesky-last-bits-differ", CHOLESKY, every(2), last_bit, REPEAT,
        of("cholesky", 3, 3, calls=2), {"calls": 1}),
    row("cholesky-solve-last-bits-differ", SOLVE, every(2), last_bit, REPEAT,
        of("cholesky_solve", 3, 3, calls=2), {"calls": 1}),
)
# fmt: on
