"""The measures are O(1) for LAPACK's own results on every family, and huge for planted errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance import measures, reference
from conformance.matrices import FAMILIES, sample
from conformance.precision import PRECISIONS, Precision

FINITE = [name for name, family in FAMILIES.items() if "nonfinite" not in family.traits]
SHAPES = [(0, 0), (1, 1), (2, 2), (3, 3), (8, 8), (33, 33)]
OBLONG = [(0, 3), (3, 0), (1, 5), (5, 1), (9, 4), (4, 9), (33, 16)]
SOUND = 10.0  # LAPACK's own results stay below this, the suite's limits are 30 to 60

Results = dict[str, np.ndarray]


def units(p: Precision) -> dict[str, float]:
    return {"eps": p.eps, "smallest": p.smallest}


def widened(p: Precision, *results: Any) -> list[np.ndarray]:
    return [x.astype(p.wide if x.dtype.kind == "c" else np.float64) for x in results]


def worst(measured: Results) -> str:
    """The measures that are not sound, as text; empty when all are."""
    return "; ".join(f"{k} {v}" for k, v in measured.items() if not (v <= SOUND).all())


def adjoint(A: np.ndarray) -> np.ndarray:
    return A.conj().swapaxes(-1, -2)


def svd(A: np.ndarray, p: Precision) -> Results:
    U, S, Vh = widened(p, *np.linalg.svd(A.astype(p.numpy)))
    n = max(A.shape[1:])
    return {
        "reconstruction": measures.svd_reconstruction(A, U, S, Vh, **units(p)),
        "U": measures.orthonormality(U, eps=p.eps),
        "V": measures.orthonormality(adjoint(Vh), eps=p.eps),
        "values": measures.values(S, reference.svdvals(A), n, **units(p)),
        "order": measures.descending(S),
    }


def qr(A: np.ndarray, p: Precision) -> Results:
    Q, R = widened(p, *np.linalg.qr(A.astype(p.numpy)))
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
    w, V = widened(p, *np.linalg.eigh(A.astype(p.numpy)))
    return {
        "residual": measures.eigh_residual(A, w, V, **units(p)),
        "V": measures.orthonormality(V, eps=p.eps),
        "values": measures.values(w, reference.eigvalsh(A), A.shape[1], **units(p)),
        "order": measures.ascending(w),
    }


def cholesky(A: np.ndarray, p: Precision) -> Results:
    (L,) = widened(p, np.linalg.cholesky(A.astype(p.numpy)))
    cond = reference.condition(A)
    return {
        "reconstruction": measures.cholesky_reconstruction(A, L, **units(p)),
        "triangle": measures.triangle(L, upper=False),
        "diagonal": measures.cholesky_diagonal(L),
        "factor": measures.cholesky_factor(L, reference.cholesky(A), cond, **units(p)),
        "info": measures.info(reference.cholesky_info(A), np.zeros(len(A))),
    }


OPERATIONS: list[tuple[str, Callable[[np.ndarray, Precision], Results], str]] = [
    ("svd", svd, "general"),
    ("qr", qr, "general"),
    ("eigh", eigh, "hermitian"),
    ("cholesky", cholesky, "definite"),
]


@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)
@pytest.mark.parametrize("family", FINITE)
def test_lapack_is_sound_on_every_family(family: str, precision: Precision) -> None:
    if "complex" in FAMILIES[family].traits and not precision.complex:
        pytest.skip("a complex family")
    unsound = []
    for name, operation, kind in OPERATIONS:
        if kind not in FAMILIES[family].kinds:
            continue
        for shape in SHAPES + (OBLONG if kind == "general" else []):
            A = sample(family, kind, shape, (2,), precision, seed=3).distinct
            bad = worst(operation(A, precision))
            unsound += [f"{name} {shape}: {bad}"] if bad else []
    assert not unsound, "\n".join(unsound)
