"""Operands and results on the device: placing, guarding the memory around them, metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from conformance.layouts import LAYOUTS, Layout
from devices.base import Backend

Array = np.ndarray


@dataclass(frozen=True)
class Placed:
    """A host array on the device: its base buffer there, the view of it, and the host's copy.

    ``window`` turns a base buffer, of the device or of the host, into what is seen of it;
    ``version`` is autograd's count of writes to it.
    """

    base: torch.Tensor
    view: torch.Tensor
    host: Array
    window: Callable[[torch.Tensor], torch.Tensor]
    version: int

    @property
    def written(self) -> bool:
        """Has autograd seen a write? A later backward refuses, though the old bits are back."""
        return self.view._version != self.version

    def touched(self, backend: Backend) -> bool:
        """Have the bits of the base buffer changed, inside or around the view?"""
        return backend.fetch(self.base.detach()).numpy().tobytes() != self.host.tobytes()

    def overrun(self, backend: Backend) -> bool:
        """Have they changed around the view? What is inside may have been written."""
        seen = torch.from_numpy(backend.fetch(self.base.detach()).numpy().copy())
        self.window(seen).copy_(self.window(torch.from_numpy(self.host.copy())))
        return seen.numpy().tobytes() != self.host.tobytes()


def place(array: Array, layout: Layout, backend: Backend, device: str, batch: int) -> Placed:
    """Send ``array`` with ``batch`` batch axes to the device and view it in ``layout``.

    A vector lies there as a matrix of one column does; a number is contiguous.
    """
    if array.ndim == batch:
        base = backend.send(torch.from_numpy(array.copy()), device)
        return Placed(base, base, array, lambda t: t, base._version)
    vector = array.ndim == batch + 1
    matrix = array[..., None] if vector else array
    host = layout.store(matrix)
    base = backend.send(torch.from_numpy(host.copy()), device)

    def window(t: torch.Tensor) -> torch.Tensor:
        view = layout.view(t, matrix.shape)
        return view[..., 0] if vector else view

    view = window(base)
    return Placed(base, view, host, window, view._version)


@dataclass(frozen=True)
class Receiver:
    """Preallocated results (``out=``), filled with a sentinel so that nothing stays unwritten."""

    placed: tuple[Placed, ...]
    metadata: tuple[Metadata, ...]

    @classmethod
    def like(
        cls,
        results: Sequence[torch.Tensor],
        cores: Sequence[int],
        layout: str,
        backend: Backend,
        device: str,
    ) -> Receiver:
        """Room for results of these shapes and dtypes, laid out as ``layout`` says.

        ``cores`` tells how many axes of each are not batch axes.
        """
        placed = []
        for result, core in zip(results, cores, strict=True):
            dtype = numpy_dtype(result.dtype)
            nothing = np.nan if dtype.kind in "fc" else -77
            sentinel = np.full(tuple(result.shape), nothing, dtype=dtype)
            placed.append(
                place(sentinel, LAYOUTS[layout], backend, device, max(0, result.ndim - core))
            )
        return cls(tuple(placed), tuple(metadata(p.view, backend.strides) for p in placed))

    @property
    def views(self) -> tuple[torch.Tensor, ...]:
        """What is passed as ``out``."""
        return tuple(p.view for p in self.placed)

    def overrun(self, backend: Backend) -> bool:
        """Has memory around the views changed? Judged after the views were read."""
        return any(placed.overrun(backend) for placed in self.placed)


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """NumPy's name for a torch dtype."""
    return np.dtype(str(dtype).removeprefix("torch."))


Metadata = tuple[Any, ...]


def metadata(tensor: torch.Tensor, strided: bool = True) -> Metadata:
    """Shape, dtype, device type, and, if ``strided``, strides and whether a view is lazy.

    A stride that steps nowhere counts as 0.
    """
    shape, empty = tuple(tensor.shape), tensor.numel() == 0
    if not strided:
        return shape, tensor.dtype, tensor.device.type
    strides = tuple(
        0 if empty or size == 1 else stride
        for size, stride in zip(shape, tensor.stride(), strict=True)
    )
    lazy = tensor.is_conj(), tensor.is_neg()
    return shape, tensor.dtype, tensor.device.type, strides, lazy


def memory(tensors: Iterable[torch.Tensor]) -> set[int]:
    """Where the tensors live, but for those without any memory."""
    return {t.untyped_storage().data_ptr() for t in tensors} - {0}


def unlike(got: Sequence[Metadata], expected: Sequence[Metadata], whose: str = "") -> list[str]:
    """What of the metadata is not what was expected, in words."""
    if got == expected:
        return []
    if len(got) != len(expected):
        return [f"{len(got)} results instead of {whose}{len(expected)}"]
    names = ("shape", "dtype", "device", "strides", "lazy bits (conjugate, negative)")
    return [
        f"result {number}: {name} {ours[at]} instead of {whose}{theirs[at]}"
        for number, (ours, theirs) in enumerate(zip(got, expected, strict=True))
        for at, name in enumerate(names[: len(theirs)])
        if ours[at] != theirs[at]
    ]


def predicted(call: Any, operands: Sequence[torch.Tensor], strided: bool = True) -> list[Metadata]:
    """What FakeTensor says the results of ``call`` look like on the operands' device.

    A compiler plans memory by this prediction. A bare meta tensor would not do: it has no device
    and predicts other strides for Vh. Where strides mean nothing, shapes and dtypes are the CPU's.
    """
    mode = _fake_mode()
    if strided:
        fakes = [_fake(operand, mode) for operand in operands]
        with mode:
            return [metadata(result) for result in call(*fakes)]
    with mode:
        on_cpu = [torch.empty(tuple(t.shape), dtype=t.dtype) for t in operands]
        kind = operands[0].device.type
        return [(*metadata(result, False)[:2], kind) for result in call(*on_cpu)]


@cache
def _fake_mode() -> Any:
    """One mode for the whole process: setting one up costs more than a prediction.

    Its cache of predictions costs more than it saves: no call is predicted twice.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    mode.cache_enabled = False
    return mode


def _fake(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    """A tensor without data, like ``tensor`` in shape, strides, dtype, device and lazy bits."""
    from torch._subclasses.fake_tensor import FakeTensor

    bare = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    fake: torch.Tensor = FakeTensor(mode, bare, tensor.device)
    with mode:
        fake = torch._neg_view(fake) if tensor.is_neg() else fake
        return fake.conj() if tensor.is_conj() else fake
