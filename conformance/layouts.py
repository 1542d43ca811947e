"""How a tensor lies in memory: each layout stores a matrix in a base buffer and views it there.

``store`` runs on the host (NumPy): it returns the base buffer, the memory around the view filled
with NaN, so that a kernel that ignores strides reads something it cannot hide. ``view`` runs on
the device: it turns the base tensor into the operand with ordinary view operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

Array = np.ndarray
Shape = tuple[int, ...]

_OFFSET = 3  # elements before the matrix; odd, so that no vector load is aligned


def _surrounded(A: Array, shape: Shape, place: tuple[slice, slice]) -> Array:
    """``A`` placed inside a NaN-filled buffer whose last two axes are ``shape``."""
    nothing = np.nan if A.dtype.kind in "fc" else -99
    base = np.full((*A.shape[:-2], *shape), nothing, dtype=A.dtype)
    base[(..., *place)] = A
    return base


_EVERY_OTHER = (slice(1, None, 2), slice(1, None, 2))


def _every_other_matrix(A: Array) -> Array:
    base = np.full((*A.shape[:-3], 2 * A.shape[-3], *A.shape[-2:]), np.nan, dtype=A.dtype)
    base[..., ::2, :, :] = A
    return base


def _transposed(A: Array) -> Array:
    return np.ascontiguousarray(np.swapaxes(A, -1, -2))


def _shifted(A: Array) -> Array:
    base = np.full(A.size + _OFFSET + 2, np.nan, dtype=A.dtype)
    base[_OFFSET : _OFFSET + A.size] = A.ravel()
    return base


def _block(m: int, n: int) -> tuple[slice, slice]:
    return slice(1, m + 1), slice(2, n + 2)


def _batch_last(A: Array) -> Array:
    """The batch axes, reversed, behind the matrix axes."""
    batch = range(A.ndim - 2)
    return np.ascontiguousarray(A.transpose(A.ndim - 2, A.ndim - 1, *reversed(batch)))


def _batch_between(A: Array) -> Array:
    """The batch axes between rows and columns."""
    return np.ascontiguousarray(np.moveaxis(A, -2, 0))


def _windowed(A: Array) -> Array:
    """The vector whose windows the rows are: the first row, and the ends of the others."""
    return np.concatenate([A[..., 0, :], A[..., 1:, -1]], axis=-1)


def _batch_first(t: torch.Tensor) -> torch.Tensor:
    return t.permute(*reversed(range(2, t.ndim)), 0, 1)


@dataclass(frozen=True)
class Layout:
    """A way to lay out an operand, or (``out``) to receive the results.

    ``store(A)`` gives the base buffer of a host array ``A`` of shape ``batch + (m, n)``;
    ``view(base, shape)`` gives the operand of shape ``batch + (m, n)``. ``needs`` is "complex",
    "content" (real matrices whose entries repeat as the layout does; with complex dtypes they have
    phases), "batch", "batches" (two batch axes), "operands" (several) or "". ``shared(axes)`` is
    how many of the leading batch axes step over one matrix again and again. ``others`` names the
    layout of all operands but the first, ``out`` that of preallocated results. One that is not
    ``common`` is left out by `quick`.
    """

    name: str
    doc: str
    store: Callable[[Array], Array] = np.ascontiguousarray
    view: Callable[[torch.Tensor, Shape], torch.Tensor] = lambda t, shape: t
    needs: str = ""
    shared: Callable[[int], int] = lambda axes: 0
    others: str = ""
    out: str = ""
    common: bool = True


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("row-major", "contiguous, C order"),
        Layout(
            "column-major",
            "contiguous, Fortran order, as LAPACK wants it",
            _transposed,
            lambda t, shape: t.mT,
        ),
        Layout(
            "sliced",
            "every other row and column of a larger matrix, from the second on",
            lambda A: _surrounded(A, (2 * A.shape[-2], 2 * A.shape[-1]), _EVERY_OTHER),
            lambda t, shape: t[(..., *_EVERY_OTHER)],
        ),
        Layout(
            "offset",
            "contiguous, but not at the start of its storage",
            _shifted,
            lambda t, shape: t[_OFFSET : t.numel() - 2].view(shape),
        ),
        Layout(
            "offset-column-major",
            "column-major, but not at the start of its storage",
            lambda A: _shifted(_transposed(A)),
            lambda t, shape: t[_OFFSET : t.numel() - 2].view(*shape[:-2], *shape[:-3:-1]).mT,
            common=False,
        ),
        Layout(
            "block",
            "a block of a larger matrix",
            lambda A: _surrounded(A, (A.shape[-2] + 3, A.shape[-1] + 5), _block(*A.shape[-2:])),
            lambda t, shape: t[(..., *_block(*shape[-2:]))],
        ),
        Layout(
            "block-column-major",
            "a block of a larger column-major matrix: a leading dimension above m",
            lambda A: _surrounded(
                _transposed(A), (A.shape[-1] + 5, A.shape[-2] + 3), _block(*A.shape[:-3:-1])
            ),
            lambda t, shape: t[(..., *_block(*shape[:-3:-1]))].mT,
            common=False,
        ),
        Layout(
            "every-other-matrix",
            "every other matrix of a larger batch",
            _every_other_matrix,
            lambda t, shape: t[..., ::2, :, :],
            needs="batch",
            common=False,
        ),
        Layout(
            "batch-permuted",
            "batch axes reversed and innermost",
            _batch_last,
            lambda t, shape: _batch_first(t),
            needs="batch",
        ),
        Layout(
            "batch-between",
            "batch axes between rows and columns",
            _batch_between,
            lambda t, shape: t.movedim(0, -2),
            needs="batch",
        ),
        Layout(
            "expanded",
            "one matrix seen as a batch, stride 0",
            lambda A: A[(0,) * (A.ndim - 2)].copy(),
            lambda t, shape: t.expand(shape),
            needs="batch",
            shared=lambda axes: axes,
        ),
        Layout(
            "partly-expanded",
            "a batch seen again along its first axis, stride 0",
            lambda A: A[0].copy(),
            lambda t, shape: t.expand(shape),
            needs="batches",
            shared=lambda axes: 1,
            common=False,
        ),
        Layout(
            "matrix-expanded",
            "a constant matrix seen in one place of memory, strides 0",
            lambda A: A[..., :1, :1].copy(),
            lambda t, shape: t.expand(shape),
            needs="content",
            common=False,
        ),
        Layout(
            "windows",
            "rows that are overlapping windows of a vector: a Hankel matrix",
            _windowed,
            lambda t, shape: t.unfold(-1, shape[-1], 1),
            needs="content",
        ),
        Layout(
            "conjugate",
            "a lazy conjugate view",
            lambda A: np.conj(A),
            lambda t, shape: t.conj(),
            needs="complex",
        ),
        Layout(
            "adjoint",
            "a lazy conjugate transpose, column-major",
            lambda A: _transposed(np.conj(A)),
            lambda t, shape: t.mH,
            needs="complex",
        ),
        Layout(
            "negative",
            "a lazy negative view",
            lambda A: -A,
            lambda t, shape: torch._neg_view(t),
        ),
        Layout(
            "conjugate-negative",
            "a lazy negative view of a lazy conjugate view",
            lambda A: -np.conj(A),
            lambda t, shape: torch._neg_view(t.conj()),
            needs="complex",
            common=False,
        ),
        Layout(
            "others-column-major",
            "the first operand row-major, the others column-major",
            needs="operands",
            others="column-major",
        ),
        Layout(
            "others-sliced",
            "the first operand column-major, the others every other row and column",
            _transposed,
            lambda t, shape: t.mT,
            needs="operands",
            others="sliced",
            common=False,
        ),
        Layout(
            "others-negative",
            "the first operand row-major, the others lazy negative views",
            needs="operands",
            others="negative",
            common=False,
        ),
        Layout(
            "requires-grad",
            "a leaf that requires a gradient",
            view=lambda t, shape: t.requires_grad_(),
        ),
        Layout("out", "results written to fitting, contiguous tensors", out="row-major"),
        Layout(
            "out-column-major",
            "operand and preallocated results column-major: nothing needs to be copied",
            _transposed,
            lambda t, shape: t.mT,
            out="column-major",
        ),
        Layout(
            "out-transposed",
            "row-major operand, preallocated results column-major",
            out="column-major",
            common=False,
        ),
        Layout(
            "out-sliced",
            "results written to every other row and column of larger ones",
            out="sliced",
        ),
    )
}
