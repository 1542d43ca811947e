"""Error measures: the mathematical definition of what every operation promises.

Each function takes stacked arrays, ``(k, m, n)`` for matrices and ``(k, p)`` for values, in
float64 or complex128, and returns one non-negative float per matrix, ``(k,)``: 0 when perfect,
O(1) for a backward stable algorithm, NaN or inf when broken.

* ``|X|`` is the 1-norm (largest column sum of absolute values), as in LAPACK's TESTING.
* ``eps`` is the spacing at 1 of the dtype under test, ``smallest`` its smallest subnormal: no
  result can be better than that grid, so an error is divided by ``n max(eps |A|, smallest)``.
* 0/0 is 0 and x/0 is inf: a zero matrix must be factored exactly.
* NaN anywhere in a result gives NaN or inf. Nothing is dropped: maxima propagate NaN.
* Where entries are huge or tiny both sides are first scaled by the same power of two, which is
  exact, so the measure itself neither overflows nor underflows.
* Shapes that do not fit raise ``ValueError``; empty matrices measure 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Exponents = NDArray[np.intc]  # what ldexp takes on every platform

#: Entries within these bounds can be multiplied and summed without any scaling.
_SAFE_LOW, _SAFE_HIGH = 2.0**-200, 2.0**200


# ---- The operations ------------------------------------------------------------------------


def svd_reconstruction(
    A: Array, U: Array, S: Array, Vh: Array, *, eps: float, smallest: float
) -> Floats:
    """``|A - U diag(S) Vh| / (max(m, n) eps |A|)``; LAPACK xBDT01.

    U may be full ``(k, m, m)`` or reduced ``(k, m, p)``, Vh likewise, with ``p = min(m, n)``.
    """
    k, m, n = _stack(A, "A")
    p = min(m, n)
    _shape(U, "U", (k, m, p), (k, m, m))
    _shape(S, "S", (k, p))
    _shape(Vh, "Vh", (k, p, n), (k, n, n))
    with np.errstate(all="ignore"):
        A, S, grid = _scaled(A, smallest, S)
        product = np.matmul(U[:, :, :p] * S[:, None, :], Vh[:, :p])
        return _ratio(_norm(A - product), max(m, n), eps * _norm(A), grid)


def orthonormality(Q: Array, *, eps: float) -> Floats:
    """``|QhQ - I| / (m eps)``: the columns of Q, ``(k, m, n)``, are orthonormal; LAPACK xORT01."""
    _, m, n = _stack(Q, "Q")
    with np.errstate(all="ignore"):
        gram = np.matmul(_adjoint(Q), Q)
        gram[:, range(n), range(n)] -= 1
        return _norm(gram) / (max(m, 1) * eps)


def values(computed: Array, reference: Array, n: int, *, eps: float, smallest: float) -> Floats:
    """``max |s - s_ref| / (n eps max |s_ref|)`` for singular values or eigenvalues, ``(k, p)``.

    ``n`` is the larger dimension of the matrix. The bound of Weyl; LAPACK xCHKBD test 7, xSTECH.
    """
    _same(computed, reference, 2)
    with np.errstate(all="ignore"):
        unit = _unit(eps, _largest(reference))
        return _ratio(_largest(computed - reference), n, unit, smallest)


def relative_values(
    computed: Array, reference: Array, cond: Floats | float, *, eps: float, smallest: float
) -> Floats:
    """``max |s_i - s_ref_i| / (s_ref_i p eps cond)``: high relative accuracy of every value.

    ``cond`` is the condition of B for ``A = B D``: Demmel and Veselic, "Jacobi's method is more
    accurate than QR", SIAM J. Matrix Anal. Appl. 13 (1992).
    """
    _, p = _same(computed, reference, 2)
    with np.errstate(all="ignore"):
        size = np.abs(reference)
        unit = np.where(size == 0, 0, np.maximum(eps * size, smallest))
        error = np.abs(computed - reference)
        quotient = np.where(error == 0, 0, error / unit)
        return _largest(quotient) / (max(p, 1) * np.asarray(cond, dtype=np.float64))


def descending(S: Array) -> Floats:
    """0 if S, ``(k, p)``, is real, non-negative and descending, else inf; LAPACK xCHKBD test 4."""
    _same(S, S, 2)
    real = _real(S)
    return _verdict((real >= 0).all(-1) & (real[:, 1:] <= real[:, :-1]).all(-1))


def ascending(w: Array) -> Floats:
    """0 if w, ``(k, n)``, is real and ascending, else inf."""
    _same(w, w, 2)
    real = _real(w)
    return _verdict((real[:, 1:] >= real[:, :-1]).all(-1) & (real == real).all(-1))


def eigh_residual(A: Array, w: Array, V: Array, *, eps: float, smallest: float) -> Floats:
    """``|A V - V diag(w)| / (n eps |A|)``; LAPACK xSYT21 and xHET21 (both triangles of A count)."""
    k, n = _square(A, "A")
    _shape(w, "w", (k, n))
    _shape(V, "V", (k, n, n))
    with np.errstate(all="ignore"):
        A, w, grid = _scaled(A, smallest, w)
        return _ratio(_norm(np.matmul(A, V) - V * w[:, None, :]), n, eps * _norm(A), grid)


def qr_reconstruction(A: Array, Q: Array, R: Array, *, eps: float, smallest: float) -> Floats:
    """``|A - Q R| / (max(m, n) eps |A|)``; LAPACK xQRT01. Reduced or complete Q and R."""
    k, m, n = _stack(A, "A")
    p = min(m, n)
    _shape(Q, "Q", (k, m, p), (k, m, m))
    _shape(R, "R", (k, Q.shape[2], n))
    with np.errstate(all="ignore"):
        A, R, grid = _scaled(A, smallest, R)
        return _ratio(_norm(A - np.matmul(Q, R)), max(m, n), eps * _norm(A), grid)


def gram(A: Array, R: Array, *, eps: float, smallest: float) -> Floats:
    """``|AhA - RhR| / (max(m, n) eps |A|_1 |A|_inf)``: what R alone, ``(k, p, n)``, must be."""
    k, m, n = _stack(A, "A")
    _shape(R, "R", (k, min(m, n), n), (k, m, n))
    with np.errstate(all="ignore"):
        A, R, grid = _scaled(A, smallest, R)
        error = _norm(np.matmul(_adjoint(A), A) - np.matmul(_adjoint(R), R))
        return _residual(error, max(m, n), _norm(_adjoint(A)), eps * _norm(A), grid)


def triangle(X: Array, *, upper: bool = True) -> Floats:
    """0 if the other triangle of X, ``(k, m, n)``, holds exact zeros only, else inf."""
    _, m, n = _stack(X, "X")
    rows, columns = np.arange(m)[:, None], np.arange(n)
    other = rows > columns if upper else rows < columns
    return _verdict((X[:, other] == 0).all(-1))


def real_diagonal(R: Array) -> Floats:
    """0 if the diagonal of R, ``(k, p, n)``, is exactly real, else inf; NaN where it has NaN.

    The promise of ``torch.linalg.qr``.
    """
    _stack(R, "R")
    imaginary = np.diagonal(R, axis1=-2, axis2=-1).imag
    return np.where(np.isnan(imaginary).any(-1), np.nan, _verdict((imaginary == 0).all(-1)))


def r_factor(
    R: Array, reference: Array, cond: Floats | float, n: int, *, eps: float, smallest: float
) -> Floats:
    """``|D R - R_ref| / (n eps cond |R_ref|)``, D the unitary diagonal that matches the phases.

    R and R_ref are ``(k, p, n)``, R_ref with a real non-negative diagonal; ``n`` is the larger
    dimension of A, ``cond`` its condition. For full rank only. Higham, "Accuracy and Stability of
    Numerical Algorithms", section 19.9.
    """
    _same(R, reference, 3)
    with np.errstate(all="ignore"):
        reference, R, grid = _scaled(reference, smallest, R)
        diagonal = np.diagonal(R, axis1=-2, axis2=-1)
        size = np.abs(diagonal)
        phase = np.where(size == 0, 1, np.conj(diagonal) / size)
        error = _norm(R[:, : phase.shape[1]] * phase[:, :, None] - reference)
        return _ratio(error, n * np.asarray(cond), eps * _norm(reference), grid)


def cholesky_reconstruction(A: Array, L: Array, *, eps: float, smallest: float) -> Floats:
    """``|A - L Lh| / (n eps |A|)``; LAPACK xPOT01. For an upper factor pass its adjoint."""
    k, n = _square(A, "A")
    _shape(L, "L", (k, n, n))
    with np.errstate(all="ignore"):
        exponent = _exponent(A)
        if exponent is not None:
            exponent = 2 * (exponent // 2)
            A, L = _ldexp(A, -exponent), _ldexp(L, -exponent // 2)
        grid = _grid(smallest, exponent)
        return _ratio(_norm(A - np.matmul(L, _adjoint(L))), n, eps * _norm(A), grid)


def cholesky_diagonal(L: Array) -> Floats:
    """0 if the diagonal of L, ``(k, n, n)``, is exactly real and positive, else inf."""
    _square(L, "L")
    return _verdict((_real(np.diagonal(L, axis1=-2, axis2=-1)) > 0).all(-1))


def cholesky_factor(
    L: Array, reference: Array, cond: Floats | float, *, eps: float, smallest: float
) -> Floats:
    """``|L - L_ref| / (n eps cond |L_ref|)``, cond that of A; Higham, section 10.3.1."""
    _, n, _ = _same(L, reference, 3)
    with np.errstate(all="ignore"):
        reference, L, grid = _scaled(reference, smallest, L)
        cond = np.asarray(cond)
        return _ratio(_norm(L - reference), n * cond, eps * _norm(reference), grid)


def info(computed: NDArray[np.integer], reference: NDArray[np.integer]) -> Floats:
    """0 if equal, else inf: the order of the first minor that is not definite, ``(k,)``."""
    computed, reference = np.asarray(computed), np.asarray(reference)
    _same(computed, reference, 1)
    return _verdict(computed == reference)


def solve_residual(A: Array, X: Array, B: Array, *, eps: float, smallest: float) -> Floats:
    """``max_j |b_j - A x_j| / (n eps |A| |x_j|)``; LAPACK xPOT02.

    A ``(k, n, n)``, X and B ``(k, n, r)``; every right-hand side by itself.
    """
    k, n = _square(A, "A")
    _same(X, B, 3)
    r = X.shape[2]
    _shape(X, "X", (k, n, r))
    with np.errstate(all="ignore"):
        (A, a), (columns, x) = _normalised(A), _normalised(_columns(X))
        B = _ldexp(_columns(B), -np.repeat(a, r) - x).reshape(k, r, n)
        X = columns.reshape(k, r, n)
        error = np.add.reduce(np.abs(B - np.matmul(X, A.swapaxes(1, 2))), axis=-1)
        unit = eps * np.add.reduce(np.abs(X), axis=-1)
        grid = np.ldexp(smallest, -x).reshape(k, r)
        return _largest(_residual(error, n, _norm(A)[:, None], unit, grid))


def inverse_residual(A: Array, X: Array, *, eps: float, smallest: float) -> Floats:
    """``|A X - I| / (n eps |A| |X|)``; LAPACK xPOT03. A and X ``(k, n, n)``."""
    k, n = _square(A, "A")
    _shape(X, "X", (k, n, n))
    with np.errstate(all="ignore"):
        (A, a), (X, x) = _normalised(A), _normalised(X)
        error = np.matmul(A, X)
        error[:, range(n), range(n)] -= np.ldexp(1.0, -a - x)[:, None]
        return _residual(_norm(error), n, _norm(A), eps * _norm(X), np.ldexp(smallest, -x))


def hermitian(X: Array, *, eps: float, smallest: float) -> Floats:
    """``|X - Xh| / (n eps |X|)`` for X ``(k, n, n)``."""
    _, n = _square(X, "X")
    with np.errstate(all="ignore"):
        X, _, grid = _scaled(X, smallest, X)
        return _ratio(_norm(X - _adjoint(X)), n, eps * _norm(X), grid)


def product(
    computed: Array, reference: Array, order: int, *, eps: float, smallest: float
) -> Floats:
    """``|C - C_ref| / (order eps |C_ref|)`` for ``(k, m, n)``: reflectors times C.

    ``order`` is that of the reflectors, whatever the shape of C: LAPACK's test xQRT03.
    """
    _same(computed, reference, 3)
    with np.errstate(all="ignore"):
        reference, computed, grid = _scaled(reference, smallest, computed)
        return _ratio(_norm(computed - reference), max(1, order), eps * _norm(reference), grid)


# ---- One result against another ------------------------------------------------------------


def agreement(
    x: Array, y: Array, n: int, scale: Floats | float | None = None, *, eps: float, smallest: float
) -> Floats:
    """``max |x - y| / (n eps scale)`` for two results of the same matrix, ``(k, ...)``.

    ``scale``, ``(k,)``, is the size that the results' errors are relative to (the norm of the
    result); without one, the largest entry of ``y``. ``n`` is the larger dimension of the matrix.
    """
    if x.shape != y.shape:
        raise ValueError(f"two results of shapes {x.shape} and {y.shape} cannot be compared")
    x, y = (v.reshape(len(v), -1) if v.size else v.reshape(len(v), 0) for v in (x, y))
    with np.errstate(all="ignore"):
        size = _largest(y) if scale is None else np.asarray(scale, dtype=np.float64)
        return _ratio(_largest(x - y), n, _unit(eps, size), smallest)


def bitwise(x: NDArray, y: NDArray) -> Floats:
    """0 if x and y, ``(k, ...)``, are equal bit for bit (any NaN equals any NaN), else inf.

    Arrays of the dtype under test, not widened. -0 differs from +0.
    """
    if x.shape != y.shape or x.dtype != y.dtype:
        raise ValueError(f"{x.dtype}{x.shape} and {y.dtype}{y.shape} cannot be compared bitwise")
    if x.dtype.kind == "c":
        parts = (bitwise(x.real, y.real), bitwise(x.imag, y.imag))
        return np.maximum(*parts)
    same = x == y
    if x.dtype.kind == "f":
        same &= np.signbit(x) == np.signbit(y)
        same |= (x != x) & (y != y)
    return _verdict(same.reshape(len(x), -1).all(-1) if x.size else np.ones(len(x), bool))


# ---- Small parts ---------------------------------------------------------------------------


def _norm(X: Array) -> Floats:
    """The 1-norm of each matrix, ``(k,)``; 0 for an empty one."""
    sums: Floats = np.maximum.reduce(np.add.reduce(np.abs(X), axis=-2), axis=-1, initial=0.0)
    return sums


def _largest(x: Array) -> Floats:
    """The largest absolute value along the last axis, NaN if there is one, 0 if empty."""
    return np.asarray(np.maximum.reduce(np.abs(x), axis=-1, initial=0.0))


def _unit(eps: float, size: Floats) -> Floats:
    """``eps size``, which is not zero where the size is not, however small that is."""
    return np.where(size == 0, 0.0, np.maximum(eps * size, np.finfo(np.float64).smallest_subnormal))


def _ratio(error: Floats, n: float | Floats, unit: Floats, grid: float | Floats) -> Floats:
    """``error / (n max(unit, grid))``; an exact zero is demanded where ``unit`` is zero."""
    bound = np.where(unit == 0, 0.0, np.maximum(unit, grid))
    return np.where(error == 0, 0.0, error / (n * bound))


def _residual(error: Floats, n: int, a: Floats, unit: Floats, grid: float | Floats) -> Floats:
    """``error / (n a max(unit, grid))``, whose denominator must not underflow."""
    return np.where(error == 0, 0.0, error / np.maximum(unit, grid) / (n * a))


def _verdict(good: Any) -> Floats:
    return np.where(good, 0.0, np.inf)


def _adjoint(X: Array) -> Array:
    X = X.swapaxes(-1, -2)
    return X.conj() if X.dtype.kind == "c" else X


def _real(x: Array) -> Floats:
    """The real part, or NaN where the imaginary part is not exactly zero."""
    return x if x.dtype.kind != "c" else np.where(x.imag == 0, x.real, np.nan)


def _exponent(A: Array) -> Exponents | None:
    """The binary exponent of each matrix's largest entry, or None where no scaling is needed."""
    if not A.size:
        return None
    size = np.maximum.reduce(np.abs(A), axis=(-2, -1))
    if ((size < _SAFE_HIGH) & ((size > _SAFE_LOW) | (size == 0))).all():
        return None
    return np.where(np.isfinite(size), np.frexp(size)[1], 0).astype(np.intc)


def _ldexp(x: Array, exponent: Exponents) -> Array:
    """``x 2^exponent`` with one exponent per matrix; exact, in two steps so that none overflows."""
    if not exponent.any():
        return x
    exponent = exponent.reshape((-1,) + (1,) * (x.ndim - 1))
    half = exponent // 2
    if x.dtype.kind != "c":
        return np.ldexp(np.ldexp(x, half), exponent - half)
    out = np.empty_like(x)
    out.real, out.imag = (np.ldexp(np.ldexp(v, half), exponent - half) for v in (x.real, x.imag))
    return out


def _grid(smallest: float, exponent: Exponents | None) -> float | Floats:
    return smallest if exponent is None else np.ldexp(smallest, -exponent)


def _scaled(A: Array, smallest: float, x: Array) -> tuple[Array, Array, float | Floats]:
    """A, x and the grid, all scaled by the power of two that brings A to O(1), if need be."""
    exponent = _exponent(A)
    if exponent is None:
        return A, x, smallest
    return _ldexp(A, -exponent), _ldexp(x, -exponent), _grid(smallest, exponent)


def _normalised(A: Array) -> tuple[Array, Exponents]:
    """``(A 2^-e, e)`` with the largest entry of each matrix in [1/2, 1)."""
    exponent = _exponent(A)
    if exponent is None:
        return A, np.zeros(len(A), np.intc)
    return _ldexp(A, -exponent), exponent


def _columns(X: Array) -> Array:
    """``(k, n, r)`` as a stack of its columns, ``(k r, n, 1)``."""
    k, n, r = X.shape
    return X.swapaxes(1, 2).reshape(k * r, n, 1)


def _shape(x: Array, name: str, *allowed: tuple[int, ...]) -> None:
    if x.shape not in allowed:
        raise ValueError(f"{name} has shape {x.shape}, expected {' or '.join(map(str, allowed))}")


def _stack(A: Array, name: str) -> tuple[int, int, int]:
    if A.ndim != 3:
        raise ValueError(f"{name} has shape {A.shape}, expected a stack (k, m, n)")
    return A.shape


def _square(A: Array, name: str) -> tuple[int, int]:
    k, m, n = _stack(A, name)
    if m != n:
        raise ValueError(f"{name} has shape {A.shape}, expected a stack (k, n, n)")
    return k, n


def _same(computed: Array, reference: Array, ndim: int) -> tuple[int, ...]:
    if computed.ndim != ndim or computed.shape != reference.shape:
        raise ValueError(
            f"computed {computed.shape} and reference {reference.shape} must be equal shapes"
            f" of {ndim} axes"
        )
    return computed.shape
