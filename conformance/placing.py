"""Operands and results on the device: placing, guarding the memory around them, metadata."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A host array on the device: its base buffer there, the view of it, and the host's copy."""

    base: torch.Tensor
    view: torch.Tensor
    host: Array

    def touched(self, backend: Backend) -> bool:
        """Have the bits of the base buffer changed, inside or around the view?"""
        return backend.fetch(self.base.detach()).numpy().tobytes() != self.host.tobytes()


def place(array: Array, layout: Layout, backend: Backend, device: str, batch: int) -> Placed:
    """Send ``array`` to the device and view it in ``layout``.

    Only matrices have layouts: an array with one axis besides its ``batch`` axes goes contiguous.
    """
    if array.ndim != batch + 2:
        layout = LAYOUTS["row-major"]
    host = layout.store(array).reshape(array.shape) if array.ndim == 0 else layout.store(array)
    base = backend.send(torch.from_numpy(host.copy()), device)
    return Placed(base, layout.view(base, array.shape), host)


@dataclass(frozen=True)
class Receiver:
    """Preallocated results (``out=``), filled with a sentinel so that nothing stays unwritten."""

    placed: tuple[Placed, ...]
    metadata: tuple[Metadata, ...]

    @classmethod
    def like(
        cls, results: Sequence[torch.Tensor], layout: str, backend: Backend, device: str
    ) -> Receiver:
        """Room for results of these shapes and dtypes, laid out as ``layout`` says."""
        placed = []
        for result in results:
            dtype = numpy_dtype(result.dtype)
            nothing = np.nan if dtype.kind in "fc" else -77
            sentinel = np.full(tuple(result.shape), nothing, dtype=dtype)
            kind = LAYOUTS[layout if result.ndim >= 2 else "row-major"]
            placed.append(place(sentinel, kind, backend, device, result.ndim - 2))
        return cls(tuple(placed), tuple(metadata(p.view) for p in placed))

    @property
    def views(self) -> tuple[torch.Tensor, ...]:
        """What is passed as ``out``."""
        return tuple(p.view for p in self.placed)

    def overwritten(self, backend: Backend, layout: str) -> bool:
        """Has memory around the views changed? Judged after the views were read."""
        for placed in self.placed:
            if layout != "sliced" or placed.view.ndim < 2:
                continue
            seen = backend.fetch(placed.base).numpy().copy()
            seen[..., ::2, ::2] = placed.host[..., ::2, ::2]
            if seen.tobytes() != placed.host.tobytes():
                return True
        return False


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """NumPy's name for a torch dtype."""
    return np.dtype(str(dtype).removeprefix("torch."))


Metadata = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, str]


def metadata(tensor: torch.Tensor, strided: bool = True) -> Metadata:
    """Shape, strides, dtype and device type. A stride that steps nowhere counts as 0."""
    shape, empty = tuple(tensor.shape), tensor.numel() == 0
    if not strided:
        return shape, (), tensor.dtype, tensor.device.type
    strides = tuple(
        0 if empty or size == 1 else stride
        for size, stride in zip(shape, tensor.stride(), strict=True)
    )
    return shape, strides, tensor.dtype, tensor.device.type


def predicted(call: Any, operands: Sequence[torch.Tensor], strided: bool = True) -> list[Metadata]:
    """What FakeTensor says the results of ``call`` look like on the operands' device.

    A compiler plans memory by this prediction. A bare meta tensor would not do: it has no device
    and predicts other strides for Vh. Where strides mean nothing, shapes and dtypes are the CPU's.
    """
    with _fake_mode():
        if strided:
            return [metadata(result) for result in call(*map(_fake, operands))]
        on_cpu = [torch.empty(tuple(t.shape), dtype=t.dtype) for t in operands]
        kind = operands[0].device.type
        return [(*metadata(result, False)[:3], kind) for result in call(*on_cpu)]


@cache
def _fake_mode() -> Any:
    """One mode for the whole process: setting one up costs more than a prediction."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without data, like ``tensor`` in shape, strides, dtype, device and lazy bits."""
    fake = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    fake = torch._neg_view(fake) if tensor.is_neg() else fake
    return fake.conj() if tensor.is_conj() else fake
