"""From the measures of many runs to limits: pooling, the tail of the maxima, a proposal.

Measures are pooled for each backend, operation, measure and dtype. What decides about a false alarm
is the largest value of a run, so an extreme-value distribution is fitted to such maxima, and the
probability that the next run of a correct device exceeds a limit is read off its tail.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conformance.cases import Case
from conformance.formulas import Formula, rescaled, rounded_up
from conformance.record import Measured, Outcome, RecordError, Run, stream
from conformance.tails import Fit, fit_maxima
from conformance.tolerances import EXACT, PROBES, Entry, Place, Tolerances, fits, traits_of

COUNTED = frozenset(("pass", "fail", "fixed"))
"""Verdicts whose measures say something of the device. `fallback` was computed elsewhere, and a
`known` defect must not widen a limit."""

PARTS = 32  # a run's measures are dealt to so many parts, for when there are few runs
FEWEST_BLOCKS = 40  # maxima that a fit needs
FEWEST_IN_BLOCK = 4  # measures that a block needs for its maximum to be one

TOO_LITTLE = "too little data"

SAFETY = 2.0  # a proposal is at least this multiple of the largest value measured
REACH = 5.0  # where more than this multiple of it would be needed, there is too little data to say
FLOOR = 1.0  # no limit is proposed below one unit: that would measure one machine's rounding
FALSE_ALARM = 1e-3  # probability of a false alarm in one run that proposals aim at, in all
HYSTERESIS = 0.8  # a limit is tightened only if the proposal is below this part of it
IDLE = 20.0  # a limit more than so many times above anything measured costs detection


class Key(NamedTuple):
    """What a pool of measures is for; ``trait`` is the section that decides, of a chip, say."""

    backend: str
    operation: str
    measure: str
    dtype: str
    trait: str

    @property
    def place(self) -> Place:
        """Where a limit for it is written."""
        return Place(self.backend, self.trait, self.operation, self.dtype, self.measure)


class Met(NamedTuple):
    """Where a measure was met."""

    case: str
    run: Run


class Worst(NamedTuple):
    """The largest measure of a pool, and where it was met."""

    value: float = -1.0  # in the measure's own units
    ratio: float = -1.0  # as a multiple of the limit's formula; the value itself for a number
    case: str = ""
    run: Run | None = None


NOTHING = Worst()


@dataclass
class Pool:
    """All measures of one key. A limit that is a formula is taken as a multiple of itself."""

    key: Key
    entry: Entry  # the limit in force
    ceiling: Entry | None = None
    values: array[float] = field(default_factory=lambda: array("d"))
    blocks: list[np.ndarray] = field(default_factory=list)  # of each run: PARTS maxima
    counts: list[np.ndarray] = field(default_factory=list)  # and how many measures each is of
    worst: Worst = NOTHING
    broken: int = 0  # NaN and inf: defects, not tolerances
    smallest_unit: float = math.inf

    @property
    def formula(self) -> bool:
        """Whether the limit is a formula, so that ``values`` are multiples of it."""
        return isinstance(self.entry.limit, Formula)

    @property
    def limit(self) -> float:
        """The limit in force, in the units of ``values``."""
        return 1.0 if isinstance(self.entry.limit, Formula) else self.entry.limit

    def unit(self, m: int, n: int) -> float:
        """What the values of an m x n case are multiples of: the formula, or 1."""
        return self.entry.at(m, n) if isinstance(self.entry.limit, Formula) else 1.0

    @property
    def exact(self) -> bool:
        """Whether the measure is 0 or inf, so that there is nothing to tune."""
        return self.key.measure in EXACT

    def open_block(self) -> int:
        """Begin another run; its number."""
        self.blocks.append(np.full(PARTS, -math.inf))
        self.counts.append(np.zeros(PARTS, int))
        return len(self.blocks) - 1

    def add(self, block: int, part: int, measured: Measured, case: Case, met: Met) -> None:
        """Take in one measure of a run; non-finite ones are only counted."""
        unit = self.unit(*(*case.shape, 1, 1)[:2])
        ratio = measured.value / unit if unit else math.inf
        if not math.isfinite(ratio):
            self.broken += 1
            return
        self.values.append(ratio)
        self.smallest_unit = min(self.smallest_unit, unit)
        self.counts[block][part] += 1
        self.blocks[block][part] = max(self.blocks[block][part], ratio)
        if ratio > self.worst.ratio:
            self.worst = Worst(measured.value, ratio, *met)


@dataclass(frozen=True)
class Proposal:
    """What the runs say about the limit of one pool."""

    pool: Pool
    verdict: str  # keep | tighten | loosen | exact | recorded | above ceiling | TOO_LITTLE
    limit: float | None = None  # in the pool's units
    fit: Fit | None = None

    @property
    def text(self) -> float | str | None:
        """The proposed limit as it is written to the file."""
        if self.limit is None:
            return None
        current = self.pool.entry.limit
        if isinstance(current, Formula):
            return rescaled(current.text, self.limit)
        return self.limit

    @property
    def exceeded(self) -> bool:
        """Whether the runs have measures above the limit in force."""
        return not self.pool.exact and self.pool.worst.ratio > self.pool.limit

    @property
    def idle(self) -> bool:
        """Whether the limit in force is so far above all measures that it detects little."""
        pool = self.pool
        if pool.exact or not pool.values or not math.isfinite(pool.limit):
            return False
        return pool.limit > IDLE * max(pool.worst.ratio, FLOOR / pool.smallest_unit / IDLE)


def gather(
    runs: Iterable[Run],
    tolerances: Tolerances,
    backend: str = "",
    into: str = "",
    progress: Callable[[Path, int], object] | None = None,
) -> dict[Key, Pool]:
    """Read the runs and pool their measures, or those of one backend.

    Each device of a record is a run of its own. ``into`` is the trait, ``libraries:mkl*``, that
    limits are to be for; otherwise they are for whatever the limit in force is for.
    """
    pools: dict[Key, Pool] = {}
    for number, run in enumerate(runs):
        told = None if progress is None else partial(progress, run.path)
        reader = _Reader(run, number, tolerances, pools, backend, into)
        for outcome in stream(run, told):
            if outcome.verdict in COUNTED:
                reader.take(outcome)
        reader.finish()
    return pools


class _Reader:
    """Deals the outcomes of one record to the pools."""

    def __init__(
        self,
        run: Run,
        number: int,
        tolerances: Tolerances,
        pools: dict[Key, Pool],
        only: str,
        into: str,
    ) -> None:
        self.run, self.number, self.only, self.into = run, number, only, into
        self.tolerances, self.pools = tolerances, pools
        self.backends: dict[str, str] = {}  # of each device seen
        self.opened: dict[tuple[str, ...], tuple[Pool, int]] = {}

    def take(self, outcome: Outcome) -> None:
        try:
            case = Case.parse(outcome.case)
        except ValueError as error:
            raise RecordError(f"{self.run.path}: {error}") from error
        if case.device not in self.backends:
            self.backends[case.device] = self.run.backend(case.device)
        if self.only in ("", self.backends[case.device]):
            met = Met(outcome.case, self.run)
            part = blake2b(f"{self.number} {outcome.case}".encode(), digest_size=1).digest()[0]
            for measured in outcome.measures:
                if math.isinf(measured.limit):
                    continue  # recorded, not promised by the algorithm that ran
                pool, block = self._pool(case, measured.name)
                pool.add(block, part % PARTS, measured, case, met)

    def finish(self) -> None:
        """The backends were looked up before the whole file was read: see that they hold."""
        for device, name in self.backends.items():
            if self.run.backend(device) != name:
                raise RecordError(f"{self.run.path}: properties of {device} stand after its cases")

    def _pool(self, case: Case, measure: str) -> tuple[Pool, int]:
        """The pool of a measure, and which of its blocks belongs to this device and run."""
        of = (case.device, case.operation, measure, case.dtype)
        if of not in self.opened:
            question = (case.operation, measure, case.dtype)
            backend, traits = self.backends[case.device], traits_of(self.run.facts(case.device))
            if self.into and not any(fits(trait, self.into) for trait in traits):
                raise RecordError(f"{self.run.path}: no {self.into}; {case.device} is {traits}")
            entry = self.tolerances.entry(backend, *question, traits)
            key = Key(backend, *question, self.into or entry.place.trait)
            if key not in self.pools:
                self.pools[key] = Pool(key, entry, self.tolerances.ceiling(*question))
            self.opened[of] = self.pools[key], self.pools[key].open_block()
        return self.opened[of]


def propose(pools: Sequence[Pool], false_alarm: float = FALSE_ALARM) -> list[Proposal]:
    """A proposal for each pool; ``false_alarm`` is shared out evenly among those to be tuned."""
    tuned = sum(not pool.exact for pool in pools)
    return [_propose(pool, false_alarm / max(tuned, 1)) for pool in pools]


def _propose(pool: Pool, probability: float) -> Proposal:
    """A limit that a correct device exceeds in one run with at most this probability."""
    if pool.exact:
        return Proposal(pool, "exact")
    if math.isinf(pool.limit):
        return Proposal(pool, "recorded")
    fitted = fit(pool)
    if fitted is None:
        return Proposal(pool, TOO_LITTLE)
    worst, floor = pool.worst.ratio, FLOOR / pool.smallest_unit
    needed = fitted.quantile(probability)
    if needed > REACH * max(worst, floor):
        return Proposal(pool, TOO_LITTLE)
    wanted = rounded_up(max(needed, SAFETY * worst, floor))
    # The probability is extrapolated: alone, without a value near the limit, it loosens nothing.
    near = SAFETY * worst > pool.limit and fitted.exceeded(pool.limit) > 10 * probability
    if wanted > pool.limit and (worst > pool.limit or near):
        verdict = "above ceiling" if _above_ceiling(pool, wanted) else "loosen"
        return Proposal(pool, verdict, wanted, fitted)
    if wanted < HYSTERESIS * pool.limit:
        return Proposal(pool, "tighten", wanted, fitted)
    return Proposal(pool, "keep", fit=fitted)


def _above_ceiling(pool: Pool, wanted: float) -> bool:
    if pool.ceiling is None:
        return False
    return any(wanted * pool.unit(m, n) > pool.ceiling.at(m, n) for m, n in PROBES)


def fit(pool: Pool) -> Fit | None:
    """The distribution of a pool's maxima; None where there are too few.

    With 40 runs or more the maxima are those of the runs, else each run is dealt at random to 2,
    4, ... 32 blocks.
    """
    runs = len(pool.blocks)
    blocks = 1
    while blocks < PARTS and runs * blocks < FEWEST_BLOCKS:
        blocks *= 2
    if runs * blocks < FEWEST_BLOCKS:
        return None
    maxima = np.array(pool.blocks).reshape(runs * blocks, -1).max(axis=1)
    counts = np.array(pool.counts).reshape(runs * blocks, -1).sum(axis=1)
    if np.median(counts) < FEWEST_IN_BLOCK or counts.min() == 0:
        return None
    return fit_maxima(maxima, blocks)
