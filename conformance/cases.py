"""A case: one point of the conformance matrix, and its readable id.

``cpu/svd.full/float32/null-space/8x8/2x3/row-major/eager`` is the operation variant ``svd.full`` in
float32 on a batch of 2 x 3 matrices of 8 x 8 from the family ``null-space``, contiguous, called
eagerly on the device ``cpu``. A single matrix, without batch axes, is written ``single``.
"""

from __future__ import annotations

from dataclasses import dataclass

_FIELDS = ("device", "operation", "dtype", "family", "shape", "batch", "layout", "capture")


@dataclass(frozen=True)
class Case:
    """One point of the matrix. ``batch`` is () for a single matrix."""

    device: str
    operation: str
    variant: str
    dtype: str
    family: str
    shape: tuple[int, ...]
    batch: tuple[int, ...]
    layout: str = "row-major"
    capture: str = "eager"

    def __str__(self) -> str:
        parts = (
            self.device,
            f"{self.operation}.{self.variant}",
            self.dtype,
            self.family,
            format_shape(self.shape),
            format_shape(self.batch) or "single",
            self.layout,
            self.capture,
        )
        return "/".join(parts)

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case with this id; also takes a whole pytest node id. ValueError if malformed."""
        inside = text.partition("[")[2].rpartition("]")[0] or text
        parts = inside.split("/")
        if len(parts) != len(_FIELDS):
            raise ValueError(f"{text!r} is no case id: expected {'/'.join(_FIELDS)}")
        device, call, dtype, family, shape, batch, layout, capture = parts
        operation, dot, variant = call.partition(".")
        if not dot:
            raise ValueError(f"{text!r} is no case id: {call!r} is not operation.variant")
        sizes = parse_shape(shape), () if batch == "single" else parse_shape(batch)
        return cls(device, operation, variant, dtype, family, *sizes, layout, capture)


def format_shape(shape: tuple[int, ...]) -> str:
    """(2, 3) is "2x3", (7,) is "7", () is ""."""
    return "x".join(map(str, shape))


def parse_shape(text: str) -> tuple[int, ...]:
    """The inverse of `format_shape`; ValueError for anything that is not sizes."""
    sizes = text.split("x")
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"{text!r} is no shape: expected sizes such as 8x8")
    return tuple(map(int, sizes))
