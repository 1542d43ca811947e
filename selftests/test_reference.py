"""The references against multi-precision arithmetic, and their behaviour at the limits."""

from __future__ import annotations

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from conformance import reference
from conformance.matrices import FAMILIES, sample
from conformance.precision import PRECISIONS

F32, F64 = PRECISIONS["float32"], PRECISIONS["float64"]
C64, C128 = PRECISIONS["complex64"], PRECISIONS["complex128"]
EPS = F64.eps


def exact_svdvals(A: np.ndarray) -> np.ndarray:
    """Singular values of one matrix in 120 digits, rounded at the end."""
    with mpmath.workdps(120):
        M = mpmath.matrix(A.tolist())
        values = (
            mpmath.svd_c(M, compute_uv=False)
            if np.iscomplexobj(A)
            else mpmath.svd_r(M, compute_uv=False)
        )
        return np.sort([float(v) for v in values])[::-1]


def one(family: str, kind: str, shape: tuple[int, int], p=F64) -> np.ndarray:  # type: ignore[no-untyped-def]
    return sample(family, kind, shape, (), p, seed=1).distinct


@pytest.mark.parametrize("p", [F32, F64, C128], ids=lambda p: p.name)
@pytest.mark.parametrize("family", ["hilbert", "geometric", "graded-rows", "scaled-up", "huge"])
def test_svdvals_are_right_to_the_norm(family: str, p) -> None:  # type: ignore[no-untyped-def]
    A = one(family, "general", (6, 5), p)
    exact = exact_svdvals(A[0])
    assert np.abs(reference.svdvals(A)[0] - exact).max() <= 40 * EPS * exact[0]


@pytest.mark.parametrize("p", [F32, F64, C64, C128], ids=lambda p: p.name)
@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
@pytest.mark.parametrize("shape", [(6, 6), (7, 5), (5, 7), (1, 1)])
def test_relative_values_are_right_to_every_digit(order, shape, p) -> None:  # type: ignore[no-untyped-def]
    A = one(f"column-scaled-{order}", "general", shape, p)
    exact = exact_svdvals(A[0])
    computed = reference.svdvals_relative(A)
    assert computed is not None
    assert (np.abs(computed[0] - exact) <= 40 * EPS * exact).all()


@pytest.mark.parametrize("family", ["hilbert", "graded-both", "tiny", "huge", "wilkinson"])
def test_eigvalsh(family: str) -> None:
    A = one(family, "hermitian", (6, 6), C128)
    with mpmath.workdps(60):
        exact = np.sort([float(v) for v in mpmath.eigh(mpmath.matrix(A[0].tolist()))[0]])
    assert np.abs(reference.eigvalsh(A)[0] - exact).max() <= 40 * EPS * np.abs(exact).max()


@pytest.mark.parametrize("family", ["hilbert", "graded-both", "graded-up", "huge", "tiny"])
def test_cholesky(family: str) -> None:
    A = one(family, "definite", (6, 6), C64)
    with mpmath.workdps(60):
        L = mpmath.cholesky(mpmath.matrix(A[0].tolist()))
        exact = np.array([[complex(L[i, j]) for j in range(6)] for i in range(6)])
    error = np.abs(reference.cholesky(A)[0] - exact).max()
    assert error <= EPS * reference.condition(A)[0] * np.abs(exact).max()
    assert reference.cholesky_info(A)[0] == 0


@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7), (1, 1)])
@pytest.mark.parametrize("family", ["moderate", "huge", "tiny", "random"])
def test_qr_r_is_unique(family: str, shape: tuple[int, int]) -> None:
    A = one(family, "general", shape, C128)
    R = reference.qr_r(A)
    diagonal = np.diagonal(R, axis1=-2, axis2=-1)
    assert (diagonal.imag == 0).all()
    assert (diagonal.real > 0).all()
    scale = np.abs(A).max()
    gram, expected = (np.matmul(X.conj().swapaxes(-1, -2), X) for X in (R / scale, A / scale))
    np.testing.assert_allclose(gram, expected, atol=1e-13)
    assert (np.tril(R, -1) == 0).all()


@pytest.mark.parametrize("p", [F64, C128], ids=lambda p: p.name)
@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7), (3, 1), (1, 3), (0, 3), (3, 0)])
def test_geqrf_and_householder_product_make_a_qr(shape, p) -> None:  # type: ignore[no-untyped-def]
    m, n = shape
    A = sample("huge", "general", shape, (2,), p, seed=1).distinct
    factored, tau = reference.geqrf(A)
    k = min(m, n)
    assert factored.shape == A.shape
    assert tau.shape == (2, k)
    Q = reference.householder_product(factored[:, :, :k], tau)
    np.testing.assert_allclose(Q.conj().swapaxes(-1, -2) @ Q, np.stack([np.eye(k)] * 2), atol=1e-14)
    scale = np.abs(A).max(initial=1e-300)
    R = np.triu(factored[:, :k])
    np.testing.assert_allclose(Q @ (R / scale), A / scale, atol=1e-14)


def test_householder_product_takes_fewer_reflectors_than_columns() -> None:
    A = one("random", "general", (6, 4), C128)
    factored, tau = reference.geqrf(A)
    Q = reference.householder_product(factored, tau[:, :2])
    assert Q.shape == (1, 6, 4)
    np.testing.assert_allclose(Q[:, :, :2], reference.householder_product(factored, tau)[:, :, :2])
    gram = Q.conj().swapaxes(-1, -2) @ Q
    np.testing.assert_allclose(gram[0], np.eye(4), atol=1e-14)


INDEFINITE = [name for name, family in FAMILIES.items() if "indefinite" in family.kinds]


def exact_info(A: np.ndarray) -> int:
    """The first leading minor that is not positive definite, by exact elimination."""
    n = len(A)
    with mpmath.workdps(80):
        M = mpmath.matrix(A.tolist())
        for j in range(n):
            if mpmath.re(M[j, j]) <= mpmath.mpf(10) ** -40 * abs(mpmath.mpf(abs(A).max())):
                return j + 1
            for i in range(j + 1, n):
                factor = M[i, j] / M[j, j]
                for col in range(j, n):
                    M[i, col] -= factor * M[j, col]
    return 0


@pytest.mark.parametrize("p", PRECISIONS.values(), ids=PRECISIONS)
@pytest.mark.parametrize("family", INDEFINITE)
def test_cholesky_info_is_the_exact_order(family: str, p) -> None:  # type: ignore[no-untyped-def]
    A = sample(family, "indefinite", (7, 7), (6,), p, seed=0).distinct
    assert reference.cholesky_info(A).tolist() == [exact_info(a) for a in A]


def test_cholesky_info_of_known_minors() -> None:
    for name, order in (("first", 1), ("middle", 5), ("last", 9)):
        A = sample(f"indefinite-{name}", "indefinite", (9, 9), (3,), F32, seed=0).distinct
        assert (reference.cholesky_info(A) == order).all()
    with pytest.raises(np.linalg.LinAlgError):
        reference.cholesky(A)


def test_condition_and_rank() -> None:
    assert reference.condition(one("zero", "general", (3, 3)))[0] == np.inf
    assert reference.condition(one("identity", "general", (3, 3)))[0] == 1
    assert reference.condition(np.zeros((2, 0, 3))).tolist() == [1, 1]
    assert reference.condition(one("moderate", "general", (9, 5)))[0] == pytest.approx(10)
    s = np.array([[1, 1e-3, 1e-20], [0, 0, 0]])
    assert reference.numerical_rank(s, 3, 3, EPS).tolist() == [2, 0]
    assert reference.numerical_rank(np.zeros((1, 0)), 0, 3, EPS).tolist() == [0]


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("n", [0, 1])
def test_empty(k: int, n: int) -> None:
    A = np.ones((k, n, n))
    assert reference.svdvals(A).shape == (k, n)
    assert reference.eigvalsh(A).shape == (k, n)
    assert reference.qr_r(A).shape == (k, n, n)
    assert reference.cholesky(A).shape == (k, n, n)
    assert reference.cholesky_info(A).shape == (k,)
    assert reference.condition(A).shape == (k,)
    relative = reference.svdvals_relative(A)
    assert relative is not None
    assert relative.shape == (k, n)


def test_conditions_that_ignore_scaling_or_the_last_columns() -> None:
    A = np.array([[[1.0, 0, 5], [0, 2.0**-40, 7]]])
    assert reference.condition_leading(A)[0] == pytest.approx(np.linalg.norm(A[0], 2) * 2.0**40)
    assert reference.condition_leading(A[:, :, :2])[0] == 2.0**40
    assert reference.condition_leading(np.zeros((1, 2, 3)))[0] == np.inf
    for name in ("ascending", "descending", "random"):
        for shape in ((8, 8), (9, 5), (5, 9)):
            B = one(f"column-scaled-{name}", "general", shape, C64)
            assert reference.condition_scaled(B)[0] < 20 < 1e6 < reference.condition(B)[0]


def test_small_helpers() -> None:
    A = one("random", "general", (5, 4), C128)
    R = np.asarray(np.linalg.qr(A, mode="r"))
    np.testing.assert_allclose(reference.positive_diagonal(R), reference.qr_r(A), atol=1e-14)
    padded = reference.square(A)
    assert padded.shape == (1, 5, 5)
    assert np.array_equal(padded[:, :, :4], A)
    assert (padded[:, :, 4] == 0).all()
