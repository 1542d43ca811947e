"""The families hold what their kinds and traits promise, and are the same everywhere."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg

from conformance import reference
from conformance.matrices import FAMILIES, KINDS, TRAITS, Family, families_table, sample
from conformance.precision import PRECISIONS, Precision

P, C = PRECISIONS["float32"], PRECISIONS["complex64"]
SQUARE = [(0, 0), (1, 1), (2, 2), (3, 3), (5, 5), (8, 8), (17, 17)]
OBLONG = [(0, 3), (3, 0), (1, 5), (5, 1), (8, 7), (7, 8), (20, 2), (2, 20)]
BATCHES: list[tuple[int, ...]] = [(), (2, 3), (0,)]
PAIRS = [(family, p) for family in FAMILIES.values() for p in PRECISIONS.values()
         if p.complex or "complex" not in family.traits]  # fmt: skip


def shapes(kind: str) -> list[tuple[int, int]]:
    return SQUARE + OBLONG if kind == "general" else SQUARE


def with_trait(trait: str) -> list[str]:
    return [name for name, family in FAMILIES.items() if trait in family.traits]


@pytest.mark.parametrize(("family", "p"), PAIRS, ids=lambda x: x.name)
def test_every_sample_is_what_it_says(family: Family, p: Precision) -> None:
    for kind in family.kinds:
        for shape in shapes(kind):
            for batch in BATCHES:
                s = sample(family.name, kind, shape, batch, p, seed=0)
                A = s.distinct
                assert s.matrix.shape == batch + shape
                assert s.matrix.dtype == p.wide
                assert np.array_equal(A.astype(p.numpy).astype(p.wide), A, equal_nan=True)
                assert np.isfinite(A).all() == ("nonfinite" not in family.traits or not A.size)
                if kind != "general" and np.isfinite(A).all():
                    assert np.array_equal(A, A.conj().swapaxes(-1, -2))


@pytest.mark.parametrize("p", PRECISIONS.values(), ids=PRECISIONS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33, 128])
def test_definite_matrices_have_a_margin(n: int, p: Precision) -> None:
    """Cholesky in the dtype itself succeeds, and would with a hundred times its rounding errors."""
    for family in FAMILIES.values():
        if "definite" not in family.kinds or "nonfinite" in family.traits:
            continue
        if "complex" in family.traits and not p.complex:
            continue
        A = sample(family.name, "definite", (n, n), (2,), p, seed=1).distinct
        for a in A.astype(p.numpy):
            scipy.linalg.cholesky(a, lower=True)
        # Diagonal scaling changes nothing for Cholesky, so the margin is that of the scaled matrix.
        d = np.sqrt(np.diagonal(A, axis1=-2, axis2=-1).real)
        scaled = A / d[:, :, None] / d[:, None, :]
        w = np.linalg.eigvalsh(scaled)
        assert (w[:, 0] > 10 * n * p.eps).all(), family.name


@pytest.mark.parametrize("n", [2, 3, 8, 17, 64])
@pytest.mark.parametrize("p", PRECISIONS.values(), ids=PRECISIONS)
def test_cholesky_must_fail_on_the_indefinite(n: int, p: Precision) -> None:
    for family in FAMILIES.values():
        if "indefinite" in family.kinds:
            A = sample(family.name, "indefinite", (n, n), (4,), p, seed=1).distinct
            orders = reference.cholesky_info(A)
            assert "fails" in family.traits
            fails = [False, True] * 2 if family.name == "some-fail" else [True] * 4
            assert (orders > 0).tolist() == fails, family.name
            for a, order in zip(A, orders, strict=True):
                if order:
                    scipy.linalg.cholesky(a[: order - 1, : order - 1].astype(p.numpy))
                    with pytest.raises(np.linalg.LinAlgError):
                        scipy.linalg.cholesky(a[:order, :order].astype(p.numpy))


@pytest.mark.parametrize("name", with_trait("full-rank"))
def test_full_rank(name: str) -> None:
    for kind in FAMILIES[name].kinds:
        for n in (1, 2, 8, 33, 64):
            A = sample(name, kind, (n, n), (2,), C, seed=0).distinct
            assert (reference.condition(A) < 0.2 / C.eps).all(), (kind, n)


@pytest.mark.parametrize("name", with_trait("rank-deficient"))
def test_rank_deficient(name: str) -> None:
    for kind in FAMILIES[name].kinds:
        for shape in [(8, 8), (33, 33)] + ([(9, 6), (6, 9)] if kind == "general" else []):
            A = sample(name, kind, shape, (2,), C, seed=0).distinct
            rank = reference.numerical_rank(reference.svdvals(A), *shape, C.eps)
            assert (rank < min(shape)).all(), (kind, shape)


def test_column_scaled_families_keep_their_condition() -> None:
    for name in with_trait("column-scaled"):
        for shape in [(8, 8), (9, 5), (5, 9)]:
            A = sample(name, "general", shape, (2,), C, seed=0).distinct
            if shape[0] < shape[1]:
                A = A.swapaxes(-1, -2)
            B = A / np.linalg.norm(A, axis=1, keepdims=True)
            assert (reference.condition(B) < 20).all(), (name, shape)
            assert (reference.condition(A) > 1 / C.eps).all(), (name, shape)


def test_complex_families_are_complex() -> None:
    """A lost conjugate must show: A differs from its conjugate."""
    for family in FAMILIES.values():
        if family.traits & {"real", "nonfinite"}:
            continue
        for kind in family.kinds:
            if kind != "general" and family.name.startswith(("diagonal", "zero")):
                continue  # a Hermitian diagonal is real
            A = sample(family.name, kind, (8, 8), (), C, seed=0).distinct
            assert (A.conj() != A).any(), (family.name, kind)


def test_nothing_overflows_in_the_dtype() -> None:
    for family in FAMILIES.values():
        if "nonfinite" in family.traits or "complex" in family.traits:
            continue
        for kind in family.kinds:
            A = sample(family.name, kind, (33, 33), (3,), P, seed=0).distinct
            frobenius = np.sqrt((np.abs(A / 2.0**100) ** 2).sum((-2, -1))) * 2.0**100
            assert (frobenius < P.max / 4).all(), (family.name, kind)


def test_neighbours_in_a_batch_differ() -> None:
    for family in FAMILIES.values():
        if family.traits & {"nonfinite", "complex"} or family.name.startswith("zero"):
            continue
        for kind in family.kinds:
            s = sample(family.name, kind, (5, 5), (70,), P, seed=0)
            assert len(s.distinct) == 64
            assert s.index[:64].tolist() == list(range(64))
            same = (s.matrix[1:] == s.matrix[:-1]).all((-2, -1))
            zero = (s.matrix[1:] == 0).all((-2, -1))
            assert not (same & ~zero).any(), (family.name, kind)


def test_the_seed_and_every_argument_matter() -> None:
    base = ("random", "general", (4, 4), (2,), P, 0)
    digests = {sample(*base).digest}
    for position, other in enumerate(["positive", "hermitian", (4, 5), (3,), C, 1]):
        arguments = list(base)
        arguments[position] = other
        digests.add(sample(*arguments).digest)  # type: ignore[arg-type]
    assert len(digests) == 7


def all_digests(names: list[str]) -> dict[str, str]:
    return {
        f"{name} {kind} {p.name}": sample(name, kind, (5, 5), (3,), p, seed=7).digest
        for name in names
        for kind in sorted(FAMILIES[name].kinds)
        for p in PRECISIONS.values()
        if p.complex or "complex" not in FAMILIES[name].traits
    }


def test_digests_are_the_same_in_another_process_and_order() -> None:
    program = (
        "from selftests.test_matrices import all_digests, FAMILIES\n"
        "for item in all_digests(list(FAMILIES)[::-1]).items(): print(*item)"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    other = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert other == all_digests(list(FAMILIES))


def test_digests_are_those_of_every_machine() -> None:
    """Recorded once: a change of these is a change of the suite's inputs."""
    recorded = {
        ("geometric", "general", "float64"): "af83b7e2777d5e9c",
        ("mixed", "hermitian", "complex64"): "1d75a849aec98eeb",
        ("matern-kernel", "definite", "float32"): "6d2ce209dfce3010",
    }
    for (name, kind, p), digest in recorded.items():
        assert sample(name, kind, (9, 9), (5,), PRECISIONS[p], seed=0).digest == digest


def test_wrong_requests_are_errors() -> None:
    with pytest.raises(KeyError):
        sample("no-such-family", "general", (2, 2), (), P, 0)
    with pytest.raises(ValueError, match="no kind 'definite'"):
        sample("zero", "definite", (2, 2), (), P, 0)
    with pytest.raises(ValueError, match="not square"):
        sample("identity", "hermitian", (2, 3), (), P, 0)
    with pytest.raises(ValueError, match="is complex"):
        sample("tiny-imaginary", "hermitian", (2, 2), (), P, 0)


def test_the_table_lists_every_family() -> None:
    table = families_table()
    assert len(FAMILIES) >= 60
    for name, family in FAMILIES.items():
        assert f"| {family.number} | `{name}` |" in table
        assert family.kinds <= set(KINDS)
        assert family.traits <= TRAITS.keys()
    numbers = [family.number for family in FAMILIES.values()]
    assert numbers == sorted(set(numbers))
