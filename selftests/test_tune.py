"""Tuning: pools, tails and proposals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from conformance.formulas import rounded_up
from conformance.record import Measured, Outcome, RecordError, Run
from conformance.tails import Fit, fit_maxima
from conformance.tolerances import Tolerances
from conformance.tuning import (
    FALSE_ALARM,
    REACH,
    SAFETY,
    TOO_LITTLE,
    Proposal,
    gather,
    propose,
)
from selftests import records

LIMITS = """
[ceiling]
values = 500
reconstruction = 500
[default]
order = 0
values = 50
reconstruction = 50
"""


def proposals(
    folder: Path, runs: Sequence[Sequence[Outcome]], limits: str = LIMITS
) -> dict[str, Proposal]:
    """What is proposed for these runs, by measure."""
    (folder / "limits.toml").write_text(limits)
    paths = [records.write(folder / f"{i}.xml", run) for i, run in enumerate(runs)]
    pools = gather(map(Run, paths), Tolerances.load([folder / "limits.toml"]))
    return {p.pool.key.measure: p for p in propose(list(pools.values()))}


def test_tightened_limits_let_further_runs_pass(tmp_path: Path) -> None:
    found = proposals(tmp_path, [records.healthy(seed) for seed in range(20)])
    assert {name: p.verdict for name, p in found.items()} == {
        "reconstruction": "tighten",
        "values": "tighten",
        "order": "exact",
    }
    for name in ("reconstruction", "values"):
        proposal = found[name]
        assert proposal.limit is not None
        assert proposal.pool.worst.value * 2 <= proposal.limit <= 5
        assert proposal.idle
        for seed in range(20, 220):
            for outcome in records.healthy(seed):
                (value,) = (m.value for m in outcome.measures if m.name == name)
                assert value <= proposal.limit


def test_proposals_keep_to_the_aim(tmp_path: Path) -> None:
    """What is proposed is exceeded with at most the aimed probability, shared by all measures."""
    for scale in (1.0, 28.0, 70.0):
        runs = [records.healthy(seed, scale=scale) for seed in range(20)]
        for proposal in proposals(tmp_path, runs).values():
            if proposal.limit is not None:
                assert proposal.fit is not None
                assert proposal.fit.exceeded(proposal.limit) <= FALSE_ALARM / 2


def test_estimated_probability_is_on_the_safe_side(tmp_path: Path) -> None:
    """Gamma-distributed measures have a known tail."""
    found = proposals(tmp_path, [records.healthy(seed) for seed in range(40)])
    fit = found["values"].fit
    assert fit is not None
    assert (fit.blocks, fit.maxima) == (1, 40)
    for limit in (0.9, 1.0, 1.2):
        truth = -math.expm1(200 * stats.gamma.logcdf(limit, 4.0, scale=0.06))
        assert truth / 3 < fit.exceeded(limit) < 1000 * truth
        assert fit.exceeded(fit.quantile(truth)) == pytest.approx(truth)


TAILS = {
    "uniform": stats.uniform(),
    "half normal": stats.halfnorm(),
    "gamma": stats.gamma(4),
    "exponential": stats.expon(),
    "lognormal": stats.lognorm(1),
    "student": stats.t(4),
    "pareto": stats.pareto(3),
}
LIGHT = ("uniform", "half normal", "gamma", "exponential")


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("aim", [1e-3, 4e-6])
def test_claims_hold_in_fresh_draws(name: str, aim: float) -> None:
    """Limits from the maxima of 40 blocks of 150 draws, two of which make a run.

    A limit is proposed where the fit does not reach too far. On average over many repetitions it is
    exceeded no more often than aimed for, by the heaviest tails some times as often; and for light
    tails there mostly is a proposal.
    """
    truth, rng, repetitions = TAILS[name], np.random.default_rng(0), 400
    limits = []
    for maxima in truth.ppf(rng.random((repetitions, 40)) ** (1 / 150)):
        needed, largest = fit_maxima(maxima, blocks=2).quantile(aim), maxima.max()
        if needed <= REACH * largest:
            limits.append(max(needed, SAFETY * largest))
    exceeded = -np.expm1(2 * 150 * truth.logcdf(limits)).sum() / repetitions
    assert exceeded <= aim * (1 if name in LIGHT else 8)
    if name in LIGHT:
        assert len(limits) > 0.4 * repetitions


def test_few_runs_are_dealt_to_blocks(tmp_path: Path) -> None:
    found = proposals(tmp_path, [records.healthy(seed, 1000) for seed in range(2)])
    fit = found["values"].fit
    assert fit is not None
    assert (fit.blocks, fit.maxima) == (32, 64)
    truth = -math.expm1(1000 * stats.gamma.logcdf(1.1, 4.0, scale=0.06))
    assert truth / 3 < fit.exceeded(1.1) < truth * 100


def test_tail_that_reaches_too_far(tmp_path: Path) -> None:
    """Twenty runs of a heavy tail do not say where one in a million ends."""
    rng = np.random.default_rng(0)
    runs = [
        [
            Outcome(records.case(i), "pass", (Measured("values", 0.1 * rng.pareto(1.5), 50.0),))
            for i in range(200)
        ]
        for _ in range(20)
    ]
    found = proposals(tmp_path, runs)["values"]
    assert (found.verdict, found.limit, found.fit) == (TOO_LITTLE, None, None)


@pytest.mark.parametrize(("runs", "count"), [(1, 500), (2, 100), (19, 3)])
def test_too_little_data(tmp_path: Path, runs: int, count: int) -> None:
    found = proposals(tmp_path, [records.healthy(seed, count) for seed in range(runs)])
    assert found["values"].verdict == TOO_LITTLE
    assert found["values"].limit is None


def test_equal_maxima(tmp_path: Path) -> None:
    """A device that gives the same in every run is not fitted, but has a limit."""
    found = proposals(tmp_path, [records.healthy(0)] * 20)
    assert found["values"].verdict == "tighten"
    found = proposals(tmp_path, [records.healthy(s, scale=0.0) for s in range(20)])
    assert found["values"].limit == 1


def test_too_tight_limit_is_loosened_and_never_above_the_ceiling(tmp_path: Path) -> None:
    runs = [records.healthy(seed, scale=70) for seed in range(20)]
    found = proposals(tmp_path, runs)
    assert found["values"].verdict == "loosen"
    assert 100 < (found["values"].limit or 0) < 500
    found = proposals(tmp_path, [records.healthy(seed, scale=400) for seed in range(20)])
    assert found["values"].verdict == "above ceiling"


def test_limit_that_fits_is_kept(tmp_path: Path) -> None:
    runs = [records.healthy(seed, scale=28) for seed in range(20)]
    assert proposals(tmp_path, runs)["values"].verdict == "keep"


def test_formula_is_rescaled(tmp_path: Path) -> None:
    limits = LIMITS.replace("values = 500\n", "")
    limits = limits.replace("values = 50\n", 'values = "50 * sqrt(min(m, n))"\n')
    found = proposals(tmp_path, [records.healthy(seed) for seed in range(20)], limits)
    text = found["values"].text
    assert isinstance(text, str)
    assert text.endswith(" * sqrt(min(m, n))")
    assert 1 <= float(text.split()[0]) < 10


def test_what_is_not_the_devices_is_left_out(tmp_path: Path) -> None:
    """Known defects, fallbacks, recorded measures and NaN do not move a limit."""
    bad = Measured("values", 40.0, 50.0)
    others = [
        Outcome(records.case(1), "known", (bad,)),
        Outcome(records.case(2), "fallback", (bad,)),
        Outcome(records.case(3), "pass", (Measured("values", 40.0, math.inf),)),
        Outcome(records.case(4), "fail", (Measured("values", math.nan, 50.0),)),
        Outcome(records.case(5), "fail", (Measured("values", math.inf, 50.0),)),
    ]
    pool = proposals(tmp_path, [records.healthy(0) + others])["values"].pool
    assert pool.worst.value < 2
    assert pool.broken == 2


def test_devices_of_one_run_and_their_traits(tmp_path: Path) -> None:
    properties = {
        "device.cuda:0.backend": "rocm",
        "device.cuda:0.chip": "MI300X",
        "device.cuda:1.backend": "rocm",
        "device.cuda:1.chip": "MI250",
    }
    outcomes = [o for d in "01" for o in records.healthy(int(d), 50, device=f"cuda:{d}")]
    path = records.write(tmp_path / "run.xml", outcomes, properties)
    (tmp_path / "limits.toml").write_text(LIMITS + '[rocm."chip:MI300X"]\nvalues = 30\n')
    pools = gather([Run(path), Run(path)], Tolerances.load([tmp_path / "limits.toml"]))
    blocks = {(*key[:3], key.trait): len(pool.blocks) for key, pool in pools.items()}
    assert blocks == {
        ("rocm", "svd", "values", "chip:MI300X"): 2,
        ("rocm", "svd", "values", ""): 2,
        ("rocm", "svd", "reconstruction", ""): 4,
        ("rocm", "svd", "order", ""): 4,
    }


def test_limits_for_some_devices_only(tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text(LIMITS)
    tolerances = Tolerances.load([tmp_path / "limits.toml"])
    run = Run(records.write(tmp_path / "run.xml", records.healthy(0, 50)))
    pools = gather([run], tolerances, into="driver:mkl*")
    assert {key.trait for key in pools} == {"driver:mkl*"}
    assert {pool.entry.place.trait for pool in pools.values()} == {""}
    with pytest.raises(RecordError, match=r"no driver:13; cpu is .*MKL 2024\.2"):
        gather([run], tolerances, into="driver:13")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.234, 1.3), (1.2, 1.2), (0.0101, 0.011), (99.1, 100), (150, 150), (12345, 13000), (0, 0)],
)
def test_rounded_up(value: float, expected: float) -> None:
    assert rounded_up(value) == expected


def test_fit_is_exact_far_out() -> None:
    fit = Fit(0.0, 1.0, 0.1, 1, 20)
    assert fit.exceeded(4.0) == pytest.approx(math.exp(-30), rel=1e-6)
    assert fit.quantile(1e-12) == pytest.approx(1 + 0.1 * 12 * math.log(10), rel=1e-6)
