"""The measures are O(1) for LAPACK's own results on every family, and huge for planted errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from conformance import measures, reference
from conformance.matrices import FAMILIES, sample
from conformance.precision import PRECISIONS, Precision

FINITE = [name for name, family in FAMILIES.items() if "nonfinite" not in family.traits]
SHAPES = [(0, 0), (1, 1), (2, 2), (3, 3), (8, 8), (33, 33)]
OBLONG = [(0, 3), (3, 0), (1, 5), (5, 1), (9, 4), (4, 9), (33, 16)]
# LAPACK's own results stay below this. Values other than the SVD's stay below 10; xBDSQR takes an
# off-diagonal entry of up to 90 units of roundoff for zero in float64, which 3 x 3 matrices show.
SOUND = 30.0

Results = dict[str, np.ndarray]


def units(p: Precision) -> dict[str, float]:
    return {"eps": p.eps, "smallest": p.smallest}


def widened(p: Precision, *results: Any) -> list[np.ndarray]:
    return [x.astype(p.wide if x.dtype.kind == "c" else np.float64) for x in results]


def lapack(p: Precision, function: Callable[..., Any], A: np.ndarray, **options: Any) -> list:
    """SciPy's results in the precision itself, stacked and widened; NumPy's are double always."""
    results = [function(a, **options) for a in A.astype(p.numpy)]
    several = [r if isinstance(r, tuple) else (r,) for r in results]
    return widened(p, *(np.stack(each) for each in zip(*several, strict=True)))


def worst(measured: Results) -> str:
    """The measures that are not sound, as text; empty when all are."""
    return "; ".join(f"{k} {v}" for k, v in measured.items() if not (v <= SOUND).all())


def adjoint(A: np.ndarray) -> np.ndarray:
    return A.conj().swapaxes(-1, -2)


def svd(A: np.ndarray, p: Precision) -> Results:
    U, S, Vh = lapack(p, scipy.linalg.svd, A)
    n = max(A.shape[1:])
    return {
        "reconstruction": measures.svd_reconstruction(A, U, S, Vh, **units(p)),
        "U": measures.orthonormality(U, eps=p.eps),
        "V": measures.orthonormality(adjoint(Vh), eps=p.eps),
        "values": measures.values(S, reference.svdvals(A), n, **units(p)),
        "order": measures.descending(S),
    }


def qr(A: np.ndarray, p: Precision) -> Results:
    Q, R = lapack(p, scipy.linalg.qr, A, mode="economic")
    out = {
        "reconstruction": measures.qr_reconstruction(A, Q, R, **units(p)),
        "Q": measures.orthonormality(Q, eps=p.eps),
        "triangle": measures.triangle(R),
    }
    cond = reference.condition(A)
    if (cond < 0.1 / p.eps).all() and A.shape[1] >= A.shape[2]:
        R_ref = reference.qr_r(A)
        out["factor"] = measures.r_factor(R, R_ref, cond, max(A.shape[1:]), **units(p))
    return out


def eigh(A: np.ndarray, p: Precision) -> Results:
    w, V = lapack(p, scipy.linalg.eigh, A, driver="evd")
    return {
        "residual": measures.eigh_residual(A, w, V, **units(p)),
        "V": measures.orthonormality(V, eps=p.eps),
        "values": measures.values(w, reference.eigvalsh(A), A.shape[1], **units(p)),
        "order": measures.ascending(w),
    }


def cholesky(A: np.ndarray, p: Precision) -> Results:
    (L,) = lapack(p, scipy.linalg.cholesky, A, lower=True)
    cond = reference.condition(A)
    return {
        "reconstruction": measures.cholesky_reconstruction(A, L, **units(p)),
        "triangle": measures.triangle(L, upper=False),
        "diagonal": measures.cholesky_diagonal(L),
        "factor": measures.cholesky_factor(L, reference.cholesky(A), cond, **units(p)),
        "info": measures.info(reference.cholesky_info(A), np.zeros(len(A), np.int64)),
    }


OPERATIONS: list[tuple[str, Callable[[np.ndarray, Precision], Results], str]] = [
    ("svd", svd, "general"),
    ("qr", qr, "general"),
    ("eigh", eigh, "hermitian"),
    ("cholesky", cholesky, "definite"),
]


PAIRS = [
    (name, p)
    for name in FINITE
    for p in PRECISIONS.values()
    if p.complex or "complex" not in FAMILIES[name].traits
]


@pytest.mark.parametrize(("family", "precision"), PAIRS, ids=lambda x: getattr(x, "name", x))
def test_lapack_is_sound_on_every_family(family: str, precision: Precision) -> None:
    unsound = []
    for name, operation, kind in OPERATIONS:
        if kind not in FAMILIES[family].kinds:
            continue
        for shape in SHAPES + (OBLONG if kind == "general" else []):
            A = sample(family, kind, shape, (2,), precision, seed=3).distinct
            bad = worst(operation(A, precision))
            unsound += [f"{name} {shape}: {bad}"] if bad else []
    assert not unsound, "\n".join(unsound)


# ---- Planted errors: every measure must see what it is there for ---------------------------

P = PRECISIONS["float32"]
C = PRECISIONS["complex64"]
LARGE = 1e3


def seen(measured: np.ndarray, *expected: bool) -> None:
    """Exactly the matrices where an error was planted measure badly, NaN included."""
    bad = ~(measured <= SOUND)
    assert bad.tolist() == list(expected), measured
    assert not (measured[bad] <= LARGE).any(), measured


def general(name: str, p: Precision = P, shape: tuple[int, int] = (8, 8)) -> np.ndarray:
    return sample(name, "general", shape, (3,), p, seed=0).distinct


def definite(p: Precision = P) -> np.ndarray:
    return sample("moderate", "definite", (8, 8), (3,), p, seed=0).distinct


def test_zeroed_null_space_columns_are_seen_although_they_reconstruct() -> None:
    A = general("null-space")
    U, S, Vh = np.linalg.svd(A)
    U[1, :, 4:] = 0
    assert (measures.svd_reconstruction(A, U, S, Vh, **units(P)) < SOUND).all()
    seen(measures.orthonormality(U, eps=P.eps), False, True, False)


def test_zero_vectors_are_seen_although_their_residual_is_zero() -> None:
    A = definite()
    w, V = np.linalg.eigh(A)
    V[2] = 0
    assert (measures.eigh_residual(A, w, V, **units(P)) < SOUND).all()
    seen(measures.orthonormality(V, eps=P.eps), False, False, True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (7, 7), (3, 4)])
def test_one_bad_number_is_never_dropped(value: float, place: tuple[int, int]) -> None:
    A, H = general("moderate"), definite()
    U, S, Vh = np.linalg.svd(A)
    w, V = np.linalg.eigh(H)
    Q, R = np.linalg.qr(A)
    L = np.linalg.cholesky(H)
    X = np.linalg.inv(H)

    def bad(X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X[(1, *place)[: X.ndim]] = value
        return X

    one = 1.0
    for measured in (
        measures.svd_reconstruction(A, bad(U), S, Vh, **units(P)),
        measures.svd_reconstruction(A, U, bad(S), Vh, **units(P)),
        measures.svd_reconstruction(A, U, S, bad(Vh), **units(P)),
        measures.orthonormality(bad(U), eps=P.eps),
        measures.values(bad(S), S, 8, **units(P)),
        measures.relative_values(bad(S), S, one, **units(P)),
        measures.eigh_residual(H, bad(w), V, **units(P)),
        measures.eigh_residual(H, w, bad(V), **units(P)),
        measures.qr_reconstruction(A, bad(Q), R, **units(P)),
        measures.qr_reconstruction(A, Q, bad(R), **units(P)),
        measures.r_factor(bad(R), reference.qr_r(A), one, 8, **units(P)),
        measures.cholesky_reconstruction(H, bad(L), **units(P)),
        measures.cholesky_factor(bad(L), L, one, **units(P)),
        measures.solve_residual(H, bad(X), A, **units(P)),
        measures.inverse_residual(H, bad(X), **units(P)),
        measures.hermitian(bad(H), **units(P)),
        measures.product(bad(Q), Q, Q.shape[-2], **units(P)),
        measures.agreement(bad(S), S, 8, **units(P)),
        measures.agreement(S, bad(S), 8, **units(P)),
        measures.bitwise(bad(S), S),
    ):
        assert not measured[1] <= LARGE, measured
    if np.isnan(value):
        seen(measures.descending(bad(S)), False, True, False)
        seen(measures.ascending(bad(w)), False, True, False)


def test_a_conjugate_too_many_or_too_few_is_seen() -> None:
    A, H = general("moderate", C), definite(C)
    U, S, Vh = np.linalg.svd(A)
    w, V = np.linalg.eigh(H)
    Q, R = np.linalg.qr(A)
    L = np.linalg.cholesky(H)
    every = (True, True, True)
    seen(measures.svd_reconstruction(A, U, S, Vh.conj(), **units(C)), *every)
    seen(measures.svd_reconstruction(A, U.conj(), S, Vh.conj(), **units(C)), *every)
    seen(measures.eigh_residual(H, w, V.conj(), **units(C)), *every)
    seen(measures.qr_reconstruction(A, Q, R.conj(), **units(C)), *every)
    seen(measures.cholesky_reconstruction(H, L.conj(), **units(C)), *every)
    seen(measures.hermitian(np.tril(H) + np.tril(H, -1).swapaxes(-1, -2), **units(C)), *every)


def test_signs_phases_and_bases_are_free() -> None:
    A = general("repeated", C)
    U, S, Vh = np.linalg.svd(A)
    phase = np.exp(1j * np.arange(8))
    turned = measures.svd_reconstruction(A, U * phase, S, phase.conj()[:, None] * Vh, **units(C))
    assert (turned < SOUND).all()
    R = np.linalg.qr(general("moderate", C), mode="r")
    R_ref = reference.qr_r(general("moderate", C))
    assert (measures.r_factor(R * phase[:, None], R_ref, 10.0, 8, **units(C)) < SOUND).all()


def test_full_and_reduced_vectors_fit() -> None:
    A = general("moderate", shape=(9, 4))
    for full in (True, False):
        U, S, Vh = np.linalg.svd(A, full_matrices=full)
        assert (measures.svd_reconstruction(A, U, S, Vh, **units(P)) < SOUND).all()
    for mode in ("reduced", "complete"):
        Q, R = np.linalg.qr(A, mode=mode)
        assert (measures.qr_reconstruction(A, Q, R, **units(P)) < SOUND).all()


def test_order() -> None:
    S = np.array([[3.0, 2, 2], [2, 3, 1], [1, 0, -1], [1, 0, -0.0], [2, np.nan, 1]])
    seen(measures.descending(S), False, True, True, False, True)
    seen(measures.ascending(S[:, ::-1]), False, True, False, False, True)
    seen(measures.descending(S[:2] + np.array([[0], [1j]])), False, True)


def test_triangle_and_diagonal_are_exact() -> None:
    R = np.triu(np.ones((3, 4, 3)))
    R[1, 3, 0], R[2, 2, 1] = 1e-300, np.nan
    seen(measures.triangle(R), False, True, True)
    L = np.stack([np.eye(3) + 0j] * 4)
    L[1, 0, 0], L[2, 2, 2], L[3, 1, 1] = -1, 1 + 1e-300j, 0
    seen(measures.cholesky_diagonal(L), False, True, True, True)


def test_a_zero_matrix_must_be_factored_exactly() -> None:
    A, identity = np.zeros((2, 3, 3)), np.stack([np.eye(3)] * 2)
    S = np.zeros((2, 3))
    S[1, 2] = P.smallest
    seen(measures.svd_reconstruction(A, identity, S, identity, **units(P)), False, True)
    seen(measures.values(S, np.zeros((2, 3)), 3, **units(P)), False, True)
    seen(measures.relative_values(S, np.zeros((2, 3)), 1.0, **units(P)), False, True)


@pytest.mark.parametrize("power", [-900, -500, 0, 500, 900])
def test_a_power_of_four_changes_no_measure(power: int) -> None:
    A, H = general("moderate", C), definite(C)
    B = general("random", C)
    U, S, Vh = lapack(C, scipy.linalg.svd, A)
    w, V = lapack(C, scipy.linalg.eigh, H, driver="evd")
    Q, R = lapack(C, scipy.linalg.qr, A)
    (L,) = lapack(C, scipy.linalg.cholesky, H, lower=True)
    X, Y = np.linalg.solve(H, B) * (1 + 1e-6), np.linalg.inv(H) * (1 + 1e-6)
    L_ref, R_ref = reference.cholesky(H), reference.qr_r(A)

    def all_measures(e: int) -> list[np.ndarray]:
        unit: dict[str, float] = {"eps": C.eps, "smallest": 0.0}
        s, r = 2.0**e, 2.0 ** (e // 2)
        return [
            measures.svd_reconstruction(A * s, U, S * s, Vh, **unit),
            measures.values(S * s, S * s * (1 + 1e-7), 8, **unit),
            measures.relative_values(S * s, S * s * (1 + 1e-7), 1.0, **unit),
            measures.eigh_residual(H * s, w * s, V, **unit),
            measures.qr_reconstruction(A * s, Q, R * s, **unit),
            measures.r_factor(R * s, R_ref * s, 10.0, 8, **unit),
            measures.cholesky_reconstruction(H * s, L * r, **unit),
            measures.cholesky_factor(L * r, L_ref * r, 10.0, **unit),
            measures.solve_residual(H * s, X, B * s, **unit),
            measures.inverse_residual(H * s, Y / s, **unit),
            measures.hermitian((H + 1e-7j) * s, **unit),
        ]

    for scaled, plain in zip(all_measures(power), all_measures(0), strict=True):
        np.testing.assert_allclose(scaled, plain, rtol=1e-6)


def test_rounding_to_the_subnormal_grid_is_fair() -> None:
    A = sample("subnormal", "general", (8, 8), (3,), P, seed=0).distinct
    U, S, Vh = np.linalg.svd(A)
    rounded = S.astype("float32").astype("float64")
    assert (measures.svd_reconstruction(A, U, rounded, Vh, **units(P)) < SOUND).all()
    seen(measures.svd_reconstruction(A, U, 0 * S, Vh, eps=P.eps, smallest=0), True, True, True)


def test_solve_and_inverse() -> None:
    A, B = definite(), general("random", shape=(8, 3))
    X = np.linalg.solve(A, B)
    X[1] *= 1.01
    seen(measures.solve_residual(A, X, B, **units(P)), False, True, False)
    Y = np.linalg.inv(A)
    Y[2, 0, 0] += 1
    seen(measures.inverse_residual(A, Y, **units(P)), False, False, True)


def test_a_subnormal_solution_beside_a_large_one_is_held_to_the_grid() -> None:
    D = PRECISIONS["float64"]
    A = np.array([[[2.0**1000]]])
    X = np.array([[[D.smallest * 1000, 1.5]]])
    B = np.array([[[2.0**1000 * D.smallest * 1000.4, 1.5 * 2.0**1000]]])
    np.testing.assert_allclose(measures.solve_residual(A, X, B, **units(D)), 0.4, rtol=1e-6)
    X[..., 0] = 0
    np.testing.assert_allclose(measures.solve_residual(A, X, B, **units(D)), 1000, rtol=1e-3)


def test_each_right_hand_side_is_held_to_its_own_size() -> None:
    A = np.eye(3)[None]
    X = np.array([[[1e6, 1.0], [1e6, 1.0], [1e6, 1.0]]])
    B = X.copy()
    B[..., 1] += 100 * P.eps  # nothing beside the first column
    expected = 100 / 3  # the error, 3 times 100 eps, over n = 3, eps and |x| = 3
    np.testing.assert_allclose(measures.solve_residual(A, X, B, **units(P)), expected, rtol=1e-6)


def test_real_diagonal() -> None:
    R = np.triu(np.ones((4, 2, 3), complex))
    R[1, 0, 1] = 1j  # off the diagonal
    R[2, 1, 1] = 1 + 1e-300j
    R[3, 0, 0] = complex(1, np.nan)
    np.testing.assert_array_equal(measures.real_diagonal(R), [0, 0, np.inf, np.nan])
    np.testing.assert_array_equal(measures.real_diagonal(R.real), [0, 0, 0, 0])


def test_info_and_bits() -> None:
    info = np.array([0, 3, 2], np.int32)
    seen(measures.info(info, np.array([0, 3, 4])), False, False, True)
    x = np.array([[0.0, np.nan], [0.0, 1], [1, np.nan]], np.float32)
    y = np.array([[0.0, -np.nan], [-0.0, 1], [1, 1]], np.float32)
    seen(measures.bitwise(x, y), False, True, True)
    seen(measures.bitwise(x + 0j, x + 0j), False, False, False)
    with pytest.raises(ValueError, match="bitwise"):
        measures.bitwise(x, y.astype(np.float64))


def test_agreement_is_in_units_of_eps_times_the_scale() -> None:
    x = np.array([[[1.0, 2], [3, 4]]])
    y = x + P.eps
    assert measures.agreement(x, y, 2, **units(P)) == pytest.approx(1 / 8, rel=1e-3)
    assert measures.agreement(x, y, 2, np.array([100.0]), **units(P)) == pytest.approx(1 / 200)
    assert measures.agreement(x[:0], y[:0], 2, **units(P)).shape == (0,)


def test_wrong_shapes_are_errors() -> None:
    A, U, S = np.zeros((2, 3, 4)), np.zeros((2, 3, 3)), np.zeros((2, 3))
    with pytest.raises(ValueError, match=r"Vh has shape \(2, 3, 3\), expected \(2, 3, 4\)"):
        measures.svd_reconstruction(A, U, S, U, **units(P))
    with pytest.raises(ValueError, match="S has shape"):
        measures.svd_reconstruction(A, U, np.zeros((2, 4)), A, **units(P))
    with pytest.raises(ValueError, match="stack"):
        measures.orthonormality(U[0], eps=P.eps)
    with pytest.raises(ValueError, match="equal shapes"):
        measures.values(S, S[:1], 3, **units(P))
    with pytest.raises(ValueError, match=r"\(k, n, n\)"):
        measures.eigh_residual(A, S, U, **units(P))
    with pytest.raises(ValueError, match="R has shape"):
        measures.qr_reconstruction(A, U, U, **units(P))
    with pytest.raises(ValueError, match="cannot be compared"):
        measures.agreement(S, U, 3, **units(P))


@pytest.mark.parametrize("power", [-140, -900, 0, 900])
def test_gram_judges_r_alone(power: int) -> None:
    """Even where A is near the subnormal numbers of float32: R = 0 is no factor."""
    A = general("moderate", C, (9, 4)) * 2.0**power
    R = np.asarray(np.linalg.qr(A, mode="r"))
    R[1] = 0
    R[2, 0, 3] = np.nan
    smallest = C.smallest if power == -140 else 0.0
    measured = measures.gram(A, R, eps=2.0**-10, smallest=smallest)
    assert measured[0] < 1 < 10 < measured[1]
    assert np.isnan(measured[2])
    zero = np.zeros((2, 3, 3))
    seen(measures.gram(zero, zero + np.array([[[0]], [[1]]]), **units(C)), False, True)


def test_a_product_is_measured_by_the_order_of_its_reflectors() -> None:
    """One row times 256 reflectors is no less exact than 256 rows: the shape of C says nothing."""
    rng = np.random.default_rng(0)
    C = rng.standard_normal((1, 256, 256))
    wrong = C * (1 + 100 * P.eps)
    whole = measures.product(wrong, C, 256, **units(P))
    row = measures.product(wrong[:, :1], C[:, :1], 256, **units(P))
    assert row == pytest.approx(whole, rel=0.1)
    assert whole == pytest.approx([100 / 256], rel=0.1)
