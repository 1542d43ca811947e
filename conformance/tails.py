"""The tail of the largest values: an extreme-value distribution fitted to block maxima."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

HEAVIEST = -0.5  # the heaviest tail that is believed; beyond it the variance is infinite


class Fit(NamedTuple):
    """An extreme-value distribution of block maxima, ``blocks`` of which make one run."""

    shape: float
    location: float
    scale: float
    blocks: int  # in one run
    maxima: int  # that were fitted

    def exceeded(self, limit: float) -> float:
        """The probability that the largest value of one run is above the limit."""
        one = stats.genextreme.logcdf(limit, self.shape, self.location, self.scale)
        return float(-np.expm1(self.blocks * one))

    def quantile(self, probability: float) -> float:
        """The limit that one run exceeds with this probability."""
        one = -np.expm1(np.log1p(-probability) / self.blocks)
        return float(stats.genextreme.isf(one, self.shape, self.location, self.scale))


def fit_maxima(maxima: np.ndarray, blocks: int) -> Fit:
    """Fit the maxima of blocks, so many of which make one run.

    So few maxima are not believed when they say that the tail ends (a shape on the light side of
    Gumbel's) or has no variance: the shape is held between.
    """
    shape, location, scale = _parameters(maxima)
    return Fit(shape, location, scale, blocks, len(maxima))


def _parameters(maxima: np.ndarray) -> tuple[float, float, float]:
    """Shape (as SciPy has it), location and scale."""
    middle, spread = float(np.mean(maxima)), float(np.std(maxima))
    if spread <= 1e-9 * abs(middle):
        return 0.0, middle, max(1e-3 * abs(middle), 1e-12)  # the same in every run
    scale = spread * math.sqrt(6) / math.pi
    location = middle - np.euler_gamma * scale
    found = stats.genextreme.fit(maxima, -0.1, loc=location, scale=scale)
    shape = min(max(float(found[0]), HEAVIEST), 0.0) if np.all(np.isfinite(found)) else 0.0
    if shape != found[0]:
        found = stats.genextreme.fit(maxima, f0=shape, loc=location, scale=scale)
    if not (np.all(np.isfinite(found)) and 0 < found[2] < 10 * spread):
        found = shape, location, scale  # the search went astray: moments
    return shape, float(found[1]), float(found[2])
