"""Covering arrays: few rows in which every wanted combination of axis values meets.

A greedy one-row-at-a-time construction (Cohen, Dalal, Fredman, Patton: *The AETG system*, IEEE
TSE 23(7), 1997) over tables of the combinations still missing, so that the value that covers most
is one NumPy sum. The library ``covertable`` gives arrays of the same size but takes half a second
for 600 rows, which every worker would pay for every operation at every start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


def interactions(axes: int, strength: int, axis: int) -> list[tuple[int, ...]]:
    """Each value (strength 1), every pair (2), every pair and every triple with ``axis`` (3)."""
    if strength == 1:
        return [(i,) for i in range(axes)]
    pairs: list[tuple[int, ...]] = list(combinations(range(axes), 2))
    if strength == 2:
        return pairs
    return pairs + [tuple(sorted((axis, *pair))) for pair in pairs if axis not in pair]


def covering_array(
    levels: Sequence[int],
    wanted: Sequence[tuple[int, ...]],
    allowed: Mapping[tuple[int, int], Mask],
) -> list[tuple[int, ...]]:
    """Rows of level numbers in which every feasible wanted combination occurs.

    ``levels[i]`` is the number of values of axis ``i``; ``wanted`` lists tuples of ascending axis
    numbers; ``allowed[i, j]`` (``i < j``, missing means all) is a ``levels[i] x levels[j]`` mask
    of the value pairs that may stand in one row. Deterministic.
    """
    missing = {axes: _feasible(axes, levels, allowed) for axes in wanted}
    used = [np.zeros(n) for n in levels]
    rows: list[tuple[int, ...]] = []
    for axes in sorted(wanted, key=lambda axes: -int(missing[axes].sum())):
        # A fixed shuffle: neighbouring rows differ, so the first rows already say a lot.
        seeds = np.argwhere(missing[axes])
        seeds = seeds[np.random.default_rng(len(seeds)).permutation(len(seeds))]
        for seed in seeds:
            if not missing[axes][tuple(seed)]:
                continue
            row = _complete(dict(zip(axes, seed.tolist(), strict=True)), missing, used, allowed)
            missing[axes][tuple(seed)] = False
            if row is None:
                continue
            for covered, table in missing.items():
                table[tuple(row[a] for a in covered)] = False
            for axis, value in enumerate(row):
                used[axis][value] += 1
            rows.append(row)
    return rows


def _feasible(
    axes: tuple[int, ...], levels: Sequence[int], allowed: Mapping[tuple[int, int], Mask]
) -> Mask:
    """The combinations of ``axes`` in which every pair is allowed."""
    table = np.ones([levels[a] for a in axes], dtype=bool)
    for (p, i), (q, j) in combinations(enumerate(axes), 2):
        if (i, j) in allowed:
            shape = [1] * len(axes)
            shape[p], shape[q] = levels[i], levels[j]
            table &= allowed[i, j].reshape(shape)
    return table


def _complete(
    row: dict[int, int],
    missing: Mapping[tuple[int, ...], Mask],
    used: Sequence[npt.NDArray[np.float64]],
    allowed: Mapping[tuple[int, int], Mask],
) -> tuple[int, ...] | None:
    """Fill the open axes of ``row``, largest first, each with the value that covers most.

    Ties go to the value used least so far. None when the pairs allowed leave no value.
    """
    for axis in sorted(range(len(used)), key=lambda a: -len(used[a])):
        if axis in row:
            continue
        possible = np.ones(len(used[axis]), dtype=bool)
        for other, value in row.items():
            if (axis, other) in allowed:
                possible &= allowed[axis, other][:, value]
            elif (other, axis) in allowed:
                possible &= allowed[other, axis][value]
        if not possible.any():
            return None
        score = -used[axis] / (1.0 + used[axis].sum())
        for axes, table in missing.items():
            if axis in axes and all(a in row or a == axis for a in axes):
                score = score + table[tuple(row.get(a, slice(None)) for a in axes)]
        row[axis] = int(np.argmax(np.where(possible, score, -np.inf)))
    return tuple(row[axis] for axis in range(len(used)))
