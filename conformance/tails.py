"""The tail of the largest values: an extreme-value distribution fitted to block maxima."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special, stats

HEAVIEST = 0.5  # the heaviest tail that is believed; beyond it the variance is infinite
CONFIDENCE = 1.28  # standard errors that the tail is taken heavier than it looks: 90 % one-sided


class Fit(NamedTuple):
    """An extreme-value distribution of block maxima, ``blocks`` of which make one run."""

    shape: float  # 0 is Gumbel's, larger is heavier (SciPy has the opposite sign)
    location: float
    scale: float
    blocks: int  # in one run
    maxima: int  # that were fitted

    def exceeded(self, limit: float) -> float:
        """The probability that the largest value of one run is above the limit."""
        one = stats.genextreme.logcdf(limit, -self.shape, self.location, self.scale)
        return float(-np.expm1(self.blocks * one))

    def quantile(self, probability: float) -> float:
        """The limit that one run exceeds with this probability."""
        one = -np.expm1(np.log1p(-probability) / self.blocks)
        return float(stats.genextreme.isf(one, -self.shape, self.location, self.scale))


def fit_maxima(maxima: np.ndarray, blocks: int) -> Fit:
    """Fit the maxima of blocks, so many of which make one run.

    L-moments are used, which few maxima determine better than the likelihood does (Hosking, Wallis
    and Wood, Technometrics 27, 1985). The tail is then taken as heavy as the maxima may have it:
    one that seems to end (a shape below 0) counts as Gumbel's, and to the shape its standard error
    is added, so that a limit far beyond the data is exceeded no more often than the fit says.
    """
    mean, spread, skew = (float(x) for x in stats.lmoment(maxima, [1, 2, 3], standardize=False))
    if spread <= 1e-9 * abs(mean):
        return Fit(0.0, mean, max(1e-3 * abs(mean), 1e-12), blocks, len(maxima))  # always the same
    bend = 2 / (3 + skew / spread) - math.log(2) / math.log(3)
    seen = -(7.8590 * bend + 2.9554 * bend**2)
    error = math.sqrt(0.5633 / len(maxima))
    shape = min(max(seen, 0.0) + CONFIDENCE * error, HEAVIEST)
    gamma = special.gamma(1 - shape)
    scale = spread * shape / ((2**shape - 1) * gamma)
    return Fit(shape, mean - scale * (gamma - 1) / shape, scale, blocks, len(maxima))
