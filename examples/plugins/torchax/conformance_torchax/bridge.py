"""Import torchax under a PyTorch that no longer has all the operators that it registers.

torchax 0.0.13 was written for PyTorch 2.9. Its tables name overloads that PyTorch 2.13 has dropped
(those for named tensors, then ``aten.cholesky`` and ``aten.qr``), so that its import ends in an
``AttributeError``. Nobody can call an overload that does not exist: an entry for it in a table of
torchax does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch._ops import OpOverloadPacket, _OpNamespace


@dataclass(frozen=True)
class Missing:
    """Stands in a table for an operator, or an overload of one, that PyTorch does not have."""

    name: str

    def __getattr__(self, overload: str) -> Missing:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return Missing(f"{self.name}.{overload}")


@contextmanager
def missing_overloads() -> Iterator[None]:
    """Answer with a `Missing` where ``torch.ops.aten`` would say that it has no such operator."""
    saved = {kind: kind.__getattr__ for kind in (OpOverloadPacket, _OpNamespace)}
    for kind, lookup in saved.items():
        kind.__getattr__ = _lenient(lookup)
    try:
        yield
    finally:
        for kind, lookup in saved.items():
            kind.__getattr__ = lookup


def _lenient(lookup: Any) -> Any:
    def find(owner: Any, name: str) -> Any:
        try:
            return lookup(owner, name)
        except AttributeError:
            if name.startswith("__") or not _of_aten(owner):
                raise
            return Missing(f"{owner}.{name}")

    return find


def _of_aten(owner: Any) -> bool:
    packet = isinstance(owner, OpOverloadPacket)
    return owner._qualified_op_name.startswith("aten::") if packet else owner.name == "aten"
