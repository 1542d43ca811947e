"""What the right answer is: NumPy's and SciPy's LAPACK on the host, in float64 or complex128.

Every function takes a stack of wide matrices ``(k, m, n)`` that are exactly the rounded input of
the device under test. A matrix is first scaled by a power of two, which is exact, so that the
reference neither overflows nor underflows where the device must not. Non-finite input is the
caller's matter: it must not come here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Array = NDArray[Any]
Floats = NDArray[np.float64]

_LARGE = 64  # matrices above this size go through LAPACK's blocked routine


def svdvals(A: Array) -> Floats:
    """Singular values, descending, ``(k, p)`` with ``p = min(m, n)``; xGESDD."""
    k, m, n = A.shape
    if not A.size:
        return np.zeros((k, min(m, n)))
    A, exponent = _scaled(A)
    return np.ldexp(np.linalg.svd(A, compute_uv=False), exponent[:, None])


def eigvalsh(A: Array) -> Floats:
    """Eigenvalues of Hermitian matrices, ascending, ``(k, n)``; xSYEVD and xHEEVD."""
    if not A.size:
        return np.zeros(A.shape[:2])
    A, exponent = _scaled(A)
    return np.ldexp(np.linalg.eigvalsh(A), exponent[:, None])


def qr_r(A: Array) -> Array:
    """The factor R, ``(k, p, n)``, made unique by a real non-negative diagonal; xGEQRF."""
    k, m, n = A.shape
    if not A.size:
        return np.zeros((k, min(m, n), n), A.dtype)
    A, exponent = _scaled(A)
    R: Array = np.asarray(np.linalg.qr(A, mode="r"))
    diagonal = np.diagonal(R, axis1=-2, axis2=-1)
    size = np.abs(diagonal)
    phase = np.where(size == 0, 1, np.conj(diagonal) / np.where(size == 0, 1, size))
    R = R * phase[:, :, None]
    index = np.arange(diagonal.shape[1])
    R[:, index, index] = size
    return _ldexp(R, exponent)


def geqrf(A: Array) -> tuple[Array, Array]:
    """Householder form of QR as LAPACK stores it: ``(k, m, n)`` and tau ``(k, p)``; xGEQRF."""
    k, m, n = A.shape
    if not A.size:
        return A.copy(), np.zeros((k, min(m, n)), A.dtype)
    A, exponent = _scaled(A)
    transposed, tau = np.linalg.qr(A, mode="raw")
    factored = transposed.swapaxes(-1, -2)
    upper = np.arange(m)[:, None] <= np.arange(n)
    return np.where(upper, _ldexp(factored, exponent), factored), tau


def householder_product(reflectors: Array, tau: Array) -> Array:
    """The first n columns of ``H_1 H_2 ... H_r``, ``(k, m, n)``, from n vectors and r taus.

    ``H_i = I - tau_i v_i v_i^H``, where v_i is 0 above row i, 1 at row i and column i of
    ``reflectors`` below it; the definition of xORGQR.
    """
    k, m, n = reflectors.shape
    if min(m, n) > _LARGE:
        return _orgqr(reflectors, tau)
    Q = np.zeros((k, m, n), reflectors.dtype)
    Q[:, np.arange(n), np.arange(n)] = 1
    for i in reversed(range(tau.shape[1])):
        v = reflectors[:, i:, i : i + 1].copy()
        v[:, 0] = 1
        row = np.matmul(v.conj().swapaxes(-1, -2), Q[:, i:, i:])
        Q[:, i:, i:] -= (tau[:, i, None, None] * v) * row
    return Q


def _orgqr(reflectors: Array, tau: Array) -> Array:
    """The same by LAPACK's blocked xORGQR or xUNGQR, for large matrices."""
    orgqr = lapack.zungqr if reflectors.dtype.kind == "c" else lapack.dorgqr
    upper = np.arange(reflectors.shape[1])[:, None] <= np.arange(reflectors.shape[2])
    Q = np.empty_like(reflectors)
    for i, V in enumerate(np.where(upper, 0, reflectors)):
        Q[i], _, info = orgqr(V, tau[i], lwork=64 * V.shape[1])
        if info:
            raise ValueError(f"xORGQR: argument {-info} is illegal")
    return Q


def cholesky(A: Array) -> Array:
    """The lower factor, ``(k, n, n)``; xPOTRF. Raises ``LinAlgError`` if one is not definite."""
    if not A.size:
        return A.copy()
    A, exponent = _scaled(A, even=True)
    return _ldexp(np.linalg.cholesky(A), exponent // 2)


def cholesky_info(A: Array) -> NDArray[np.int64]:
    """Order of the first leading minor that is not positive definite, 0 if none, ``(k,)``; xPOTRF.

    Certain only where the failing pivot has a margin, as in the families of kind ``indefinite``.
    """
    if not A.size:
        return np.zeros(len(A), np.int64)
    A, _ = _scaled(A, even=True)  # keeps the roots of perfect squares exact
    potrf = lapack.zpotrf if A.dtype.kind == "c" else lapack.dpotrf
    return np.array([potrf(a, lower=1)[1] for a in A], np.int64)


def condition(A: Array) -> Floats:
    """The condition in the 2-norm, ``(k,)``: inf when singular, 1 when empty."""
    return condition_of(svdvals(A))


def condition_of(s: Floats) -> Floats:
    """The same from descending singular values ``(k, p)``."""
    if not s.shape[1]:
        return np.ones(len(s))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(s[:, -1] == 0, np.inf, s[:, 0] / s[:, -1])


def condition_leading(A: Array) -> Floats:
    """``|A| / smallest singular value of the first min(m, n) columns``, ``(k,)``.

    The condition of A where ``m >= n``; it is what R depends on for wide matrices too.
    """
    _, m, n = A.shape
    if m >= n or not m:
        return condition(A)
    first = svdvals(A[:, :, :m])[:, -1]
    with np.errstate(all="ignore"):
        return np.where(first == 0, np.inf, svdvals(A)[:, 0] / first)


def condition_scaled(A: Array) -> Floats:
    """The condition of A with its columns (``m < n``: its rows) scaled to length 1, ``(k,)``.

    Within sqrt(n) of the smallest that any column scaling reaches; van der Sluis, Numer. Math. 14
    (1969).
    """
    if A.shape[1] < A.shape[2]:
        A = A.conj().swapaxes(-1, -2)
    with np.errstate(all="ignore"):
        largest = np.abs(A).max(axis=-2, keepdims=True, initial=0.0)
        A = A / np.where(largest == 0, 1, largest)
        length = np.sqrt((np.abs(A) ** 2).sum(axis=-2, keepdims=True))
        return condition(A / np.where(length == 0, 1, length))


def positive_diagonal(R: Array) -> Array:
    """R, ``(k, p, n)``, with its rows turned so that the diagonal is real and not negative."""
    out = np.array(R)
    if not R.size or not np.isfinite(R).all():
        return out
    diagonal = np.diagonal(_scaled(R)[0], axis1=-2, axis2=-1)
    size = np.abs(diagonal)
    phase = np.where(size == 0, 1, np.conj(diagonal) / np.where(size == 0, 1, size))
    out[:, : phase.shape[1]] *= phase[:, :, None]
    return out


def square(V: Array) -> Array:
    """The reflectors V, ``(k, m, n)`` with ``n <= m``, with zero columns up to ``(k, m, m)``."""
    k, m, n = V.shape
    return np.concatenate([V, np.zeros((k, m, m - n), V.dtype)], axis=2)


def numerical_rank(s: Floats, m: int, n: int, eps: float) -> NDArray[np.int64]:
    """How many of the descending singular values ``(k, p)`` exceed ``max(m, n) eps s[0]``."""
    if not s.shape[1]:
        return np.zeros(len(s), np.int64)
    return (s > max(m, n) * eps * s[:, :1]).sum(-1)


def svdvals_relative(A: Array) -> Floats | None:
    """Every singular value to high relative accuracy for ``A = B D``, ``(k, p)``; xGEJSV.

    D is diagonal and B well conditioned (for ``m < n``: ``A = D B``). LAPACK's preconditioned
    one-sided Jacobi; Drmac and Veselic, "New fast and accurate Jacobi SVD algorithm", LAPACK
    Working Notes 169 and 170. SciPy has it for real types, so a complex matrix goes through
    ``[[Re, -Im], [Im, Re]]``, which keeps the column scaling and doubles every value. None where
    it did not converge or the values leave the range of float64: no reference is available.
    """
    k, m, n = A.shape
    p = min(m, n)
    if not A.size:
        return np.zeros((k, p))
    A, exponent = _scaled(A)
    if m < n:
        A = A.conj().swapaxes(-1, -2)
    step = 2 if A.dtype.kind == "c" else 1
    if step == 2:
        A = np.concatenate(
            [np.concatenate([A.real, -A.imag], axis=2), np.concatenate([A.imag, A.real], axis=2)],
            axis=1,
        )
    s = np.empty((k, p))
    for i, matrix in enumerate(A):
        every = _gejsv(matrix)
        if every is None:
            return None
        s[i] = every[::step]
    return np.ldexp(s, exponent[:, None])


def _gejsv(A: Floats) -> Floats | None:
    """Singular values of one real matrix, ``m >= n``; accuracy unspoiled by column scaling."""
    sva, _, _, work, _, info = lapack.dgejsv(A, joba=0, jobu=3, jobv=3, jobr=0, jobt=0, jobp=0)
    if info or not np.isfinite(sva).all():
        return None
    return sva * (work[0] / work[1])


def _scaled(A: Array, even: bool = False) -> tuple[Array, NDArray[np.intc]]:
    """``(A 2^-e, e)`` with the largest entry of each matrix near 1; exact but for underflow."""
    exponent = np.frexp(np.abs(A).max(axis=(-2, -1)))[1]
    if even:
        exponent = 2 * (exponent // 2)
    return _ldexp(A, -exponent), exponent


def _ldexp(A: Array, exponent: NDArray[np.intc]) -> Array:
    """``A 2^exponent``, one exponent per matrix, without an overflowing intermediate."""
    exponent = exponent[:, None, None]
    if A.dtype.kind != "c":
        return np.ldexp(A, exponent)
    out = np.empty_like(A)
    out.real, out.imag = np.ldexp(A.real, exponent), np.ldexp(A.imag, exponent)
    return out
