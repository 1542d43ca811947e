"""Families 100-119: NaN and infinity in each class of position.

Kind ``definite`` is a definite matrix *before* the value is planted. Kind ``hermitian`` and
``definite`` hold the value in both triangles, so it is always read.
"""

from __future__ import annotations

import numpy as np

from conformance.matrices.draw import Array, Draw, geometric, with_spectrum
from conformance.matrices.family import add

_POSITIONS = {
    "first": "in the first entry",
    "diagonal": "on the diagonal, in the middle",
    "off-diagonal": "in the middle row, first column",
    "last": "in the last entry",
    "row": "in the whole middle row",
    "all": "everywhere",
}


def _plant(A: Array, m: int, n: int, where: str, value: float) -> None:
    """Write the value into each matrix; tiny sizes fall back to the nearest entry there is."""
    middle = min(m, n) // 2
    row = min(max(middle, 1), m - 1)
    if where == "all":
        A[:] = value
    elif where == "row":
        A[:, row] = value
    else:
        i, j = {
            "first": (0, 0),
            "diagonal": (middle, middle),
            "off-diagonal": (row, 0),
            "last": (m - 1, n - 1),
        }[where]
        A[:, i, j] = value


def _build(draw: Draw, where: str, value: float) -> Array:
    A = with_spectrum(draw, geometric(draw.p, 10))
    if not A.size:
        return A
    spoilt = A[::2]  # every other one, so that neighbours in a batch are finite
    _plant(spoilt, draw.m, draw.n, where, value)
    if draw.kind != "general":
        _plant(spoilt.swapaxes(-1, -2), draw.m, draw.n, where, value)
    return A


for _offset, (_name, _value) in enumerate((("nan", np.nan), ("inf", np.inf))):
    for _i, (_where, _text) in enumerate(_POSITIONS.items()):
        add(
            100 + 10 * _offset + _i,
            f"{_name}-{_where}",
            f"Condition 10 with {_name} {_text}, in every other matrix of a batch.",
            "ghd",
            "nonfinite",
            lambda draw, where=_where, value=_value: _build(draw, where, value),  # type: ignore[misc]
        )
