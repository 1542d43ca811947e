"""What faults do: effects built from the original kernel's results, with a phrase each.

Effects edit the fresh results in place wherever they can, so strides stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from .conditions import null
from .planting import Call, Effect

Edit = Callable[[Call, SimpleNamespace], Any]


def edit(text: str, change: Edit) -> Effect:
    """Change the original results in place."""

    def apply(call: Call) -> SimpleNamespace:
        results = call.compute()
        change(call, results)
        return results

    return Effect(text, apply)


def on_input(text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Factor something else than the matrix that was given."""
    return Effect(text, lambda call: call.compute(A=change(call.A)))


def given(text: str, **arguments: Any) -> Effect:
    """Compute with another value of an argument."""
    return Effect(text, lambda call: call.compute(**arguments))


def floating(results: SimpleNamespace) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and tensors of the results that hold numbers."""
    for name, x in vars(results).items():
        if x.numel() and (x.is_floating_point() or x.is_complex()):
            yield name, x


# --- structure -------------------------------------------------------------------------------


def null_vectors(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Replace the vectors of U or Vh that belong to zero singular values."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = r.U if name == "U" else r.Vh.mT
        if X.numel():
            mask = null(call, r.S).unsqueeze(-2)
            X[..., : call.k] = torch.where(mask, change(X[..., : call.k]), X[..., : call.k])

    return edit(f"null-space vectors of {name} {text}", apply)


def trailing(
    name: str, text: str, change: Callable[[torch.Tensor], Any], rows: bool = False
) -> Effect:
    """Change, in place, the trailing columns (rows) of a full factor."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name).mT if rows else getattr(r, name)
        if X.shape[-1] > call.k:
            change(X[..., call.k :])

    return edit(f"trailing vectors of the full {name} {text}", apply)


def parallel(*names: str) -> Effect:
    """Vectors of equal neighbouring values made parallel."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        s = r.S if hasattr(r, "S") else r.w
        close = (s[..., 1:] - s[..., :-1]).abs() <= 8 * call.k * call.eps * s.abs().amax(-1)[
            ..., None
        ]
        for name in names:
            X = r.Vh.mT if name == "Vh" else getattr(r, name)
            if X.numel():
                first, second = X[..., : call.k - 1], X[..., 1 : call.k]
                second.copy_(torch.where(close.unsqueeze(-2), first.clone(), second))

    return edit(f"{' and '.join(names)}: vectors of equal values parallel", apply)


def flip_sign(name: str, index: int = -1, rows: bool = False) -> Effect:
    """One vector of one factor changes sign, the other factors stay."""
    text = f"{'row' if rows else 'column'} {index} of {name} changes sign, alone"
    return edit(
        text, lambda c, r: (getattr(r, name).mT if rows else getattr(r, name))[..., index].neg_()
    )


def swapped_columns(name: str, i: int, j: int) -> Effect:
    """Two vectors exchange places, their values do not."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name)
        X[..., [i, j]] = X[..., [j, i]]

    return edit(f"columns {i} and {j} of {name} exchanged, values not", apply)


def fill_below(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Garbage below the diagonal of an upper triangular result."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name)
        X.add_(change(X).tril(-1))

    return edit(f"{text} below the diagonal of {name}", apply)


def fill_above(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Garbage above the diagonal of a lower triangular result."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name)
        X.add_(change(X).triu(1))

    return edit(f"{text} above the diagonal of {name}", apply)


def conjugated(name: str) -> Effect:
    """A result comes back conjugated."""
    return edit(f"{name} conjugated", lambda c, r: getattr(r, name).copy_(getattr(r, name).conj()))


# --- values everywhere -----------------------------------------------------------------------


def everything(text: str, value: float) -> Effect:
    """All numbers of the results replaced."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        for _, x in floating(r):
            x.fill_(value)

    return edit(text, apply)


all_zero = everything("results are zero", 0.0)
all_nan = everything("results are NaN", float("nan"))


def raising(text: str) -> Effect:
    """Refuse valid input."""

    def apply(call: Call) -> SimpleNamespace:
        raise RuntimeError(f"refused: {text}")

    return Effect(f"refused: {text}", apply)


# --- batch -----------------------------------------------------------------------------------


def elements(text: str, index: Callable[[torch.Tensor, Call], torch.Tensor]) -> Effect:
    """Element ``i`` of the batch gets the result of element ``index(i)``."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        source = index(torch.arange(call.count), call)
        for x in vars(r).values():
            if x.numel():
                call.stacked(x).copy_(call.stacked(x)[source])

    return edit(text, apply)


def spoiled_elements(text: str, mask: Callable[[torch.Tensor, Call], torch.Tensor]) -> Effect:
    """The results of some elements of the batch halved."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        chosen = mask(torch.arange(call.count), call).nonzero().flatten()
        for _, x in floating(r):
            stack = call.stacked(x)
            stack[chosen] = stack[chosen] / 2

    return edit(text, apply)


# --- memory ----------------------------------------------------------------------------------


def _memory(x: torch.Tensor) -> torch.Tensor:
    """The whole storage of a tensor."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


def raw(A: torch.Tensor) -> torch.Tensor:
    """What a kernel sees that takes the memory for row-major."""
    strides = torch.empty(A.shape, device="meta").stride()
    return A.as_strided(A.shape, strides, A.storage_offset())


read_as_row_major = on_input("memory read as if it were row-major", raw)
offset_ignored = on_input("storage offset ignored", lambda A: A.as_strided(A.shape, A.stride(), 0))


def overwriting(text: str, change: Callable[[Call], Any]) -> Effect:
    """Right results, and the caller's input changed."""

    def apply(call: Call) -> SimpleNamespace:
        results = call.compute()
        change(call)
        return results

    return Effect(text, apply)


def write_beside(x: torch.Tensor) -> None:
    """Replace the number in memory right after the first row of a padded or sliced view.

    Replaced, not added to: what lies there may be NaN.
    """
    place = x.storage_offset() + (x.shape[-1] - 1) * x.stride(-1) + 1
    _memory(x)[place] = 12345


def out_tensors(text: str, change: Callable[[Call, list[torch.Tensor]], Any]) -> Effect:
    """Run the original ``out=`` kernel; then change the tensors, given what they held before."""

    def apply(call: Call) -> None:
        before = [x.clone() for x in call.out]
        call.finish()
        change(call, before)

    return Effect(text, apply)


def unfilled(index: int) -> Effect:
    """One tensor of ``out=`` keeps what it held (zeros where it had to be resized)."""

    def change(call: Call, before: list[torch.Tensor]) -> None:
        x, old = call.out[index], before[index]
        if x.shape == old.shape:
            x.copy_(old)
        else:
            x.zero_()

    return out_tensors(f"out[{index}] is not filled", change)


def _restride(call: Call, before: list[torch.Tensor]) -> None:
    for x in call.out:
        if x.ndim > 1 and x.shape[-1] == x.shape[-2] > 1:
            values = x.clone()
            x.transpose_(-2, -1)
            x.copy_(values)


restrided = out_tensors("strides of out= swapped", _restride)


# --- metadata --------------------------------------------------------------------------------


def returned(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """A result replaced by one of other type, strides, shape or device."""
    return edit(f"{name} {text}", lambda c, r: setattr(r, name, change(getattr(r, name))))


def row_major(name: str) -> Effect:
    """A matrix comes back row-major instead of column-major."""
    return returned(name, "row-major", lambda x: x.contiguous())
