"""The four floating-point types a factorization can be asked for, seen from NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Precision:
    """The numbers of one dtype that matrices, references and measures need.

    ``eps`` is the spacing at 1 (``torch.finfo(dtype).eps``), ``tiny`` the smallest normal,
    ``smallest`` the smallest subnormal and ``max`` the largest finite number of the real part.
    """

    name: str
    eps: float
    tiny: float
    smallest: float
    max: float
    complex: bool

    @property
    def numpy(self) -> np.dtype:
        """The dtype itself."""
        return np.dtype(self.name)

    @property
    def real(self) -> np.dtype:
        """The dtype of real and imaginary part."""
        return np.zeros(0, self.name).real.dtype

    @property
    def wide(self) -> np.dtype:
        """Where inputs are built and errors measured: float64 or complex128."""
        return np.dtype(np.complex128 if self.complex else np.float64)


def _precision(name: str) -> Precision:
    info = np.finfo(name)
    return Precision(
        name=name,
        eps=float(info.eps),
        tiny=float(info.tiny),
        smallest=float(info.smallest_subnormal),
        max=float(info.max),
        complex=name.startswith("complex"),
    )


PRECISIONS: dict[str, Precision] = {
    name: _precision(name) for name in ("float32", "float64", "complex64", "complex128")
}
