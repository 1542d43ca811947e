"""The parts of a case id, for readers of records: no torch, no table of operations.

``cpu/svd.full/float32/null-space/8x8/2x3/row-major/eager`` is
device/operation.variant/dtype/family/shape/batch/layout/capture.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple


class CaseParts(NamedTuple):
    """A case id taken apart; every part is the text that stands in the id."""

    device: str
    operation: str
    variant: str
    dtype: str
    family: str
    shape: str
    batch: str
    layout: str
    capture: str

    @property
    def backend(self) -> str:
        """The device without its index; a record's suite properties may know better (ROCm)."""
        return self.device.partition(":")[0]

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        m, _, n = self.shape.partition("x")
        return int(m), int(n)

    @property
    def matrices(self) -> int:
        """How many matrices the batch holds; 1 where there is no batch."""
        if self.batch == "single":
            return 1
        return math.prod(int(axis) for axis in self.batch.split("x"))


@lru_cache(maxsize=65536)
def split(case: str) -> CaseParts:
    """Take an id apart; ``ValueError`` where it is none."""
    parts = case.split("/")
    if len(parts) != 8:
        raise ValueError(f"{case[:200]!r} is not a case id: it has {len(parts)} parts, not 8")
    operation, _, variant = parts[1].partition(".")
    found = CaseParts(parts[0], operation, variant, *parts[2:])
    try:
        _ = found.size, found.matrices
    except ValueError:
        raise ValueError(f"{case[:200]!r} is not a case id: shape or batch is no size") from None
    return found
