"""The operations under test: one table.

Each row says which ``torch`` function is called, with which named argument variants, on which kind
of matrix, what its operands are and what its results are called. Operands are built on the host
from the sampled matrices, by NumPy and SciPy, never by torch (design rule 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from conformance import reference
from conformance.precision import Precision

Array = np.ndarray
Operands = Callable[[Array, "Variant", Precision, np.random.Generator], tuple[Array, ...]]


@dataclass(frozen=True)
class Variant:
    """One way to call an operation.

    ``arguments`` are the keyword arguments. ``read`` is the triangle of a Hermitian operand that
    the call may read ("L", "U" or "" for all of it), ``unused`` what the other one holds: its
    mirror image, "nan" or "other" (finite numbers that belong to another matrix). ``shared`` is
    the number of an operand that is one matrix for the whole batch, broadcast; ``halved`` gives
    half as many reflectors as columns.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    read: str = ""
    unused: str = "mirror"
    shared: int | None = None
    halved: bool = False


@dataclass(frozen=True)
class Operation:
    """A function of ``torch.linalg`` (or ``torch``) and how to test it.

    ``kind`` is the kind of matrices it takes (see ``matrices.Family.kinds``), ``results`` and
    ``inputs`` are the names of its results and operands in order, ``operands`` makes the host
    arrays it is called with from a stack of matrices, ``tall`` says that it needs m >= n.
    ``drivers`` says that it takes a ``driver`` argument where the backend has several.
    """

    name: str
    function: Callable[..., Any]
    kind: str
    results: tuple[str, ...]
    variants: tuple[Variant, ...]
    operands: Operands
    inputs: tuple[str, ...] = ("A",)
    tall: bool = False
    drivers: bool = False

    def variant(self, name: str) -> Variant:
        """The variant called ``name``, drivers included: "full+gesvdj". KeyError if unknown."""
        base, _, driver = name.partition("+")
        for variant in self.variants:
            if variant.name == base:
                if not driver:
                    return variant
                return Variant(name, {**variant.arguments, "driver": driver})
        raise KeyError(f"{self.name} has no variant {name!r}")

    def variant_names(self, drivers: tuple[str, ...] = ()) -> list[str]:
        """Every variant, and each of them with every SVD driver of the backend."""
        names = [variant.name for variant in self.variants]
        if not self.drivers:
            return names
        return names + [f"{name}+{driver}" for driver in drivers for name in names]

    def call(self, operands: tuple[torch.Tensor, ...], variant: Variant, **out: Any) -> Any:
        """Call the function; the results are always a tuple."""
        results = self.function(*operands, **variant.arguments, **out)
        return (results,) if isinstance(results, torch.Tensor) else tuple(results)

    def bound(self, variant: Variant) -> Callable[..., tuple[torch.Tensor, ...]]:
        """The call as a plain function of its operands, which is what captures are made of."""
        function, arguments = self.function, dict(variant.arguments)

        def call(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
            results = function(*operands, **arguments)
            return (results,) if isinstance(results, torch.Tensor) else tuple(results)

        return call


def _triangles(argument: str, lower: Any, upper: Any, **more: Any) -> tuple[Variant, ...]:
    """Both triangles, each with a mirrored, a NaN and a foreign unused triangle."""
    return tuple(
        Variant(name + suffix, {argument: value, **more}, read, unused)
        for name, value, read in (("lower", lower, "L"), ("upper", upper, "U"))
        for suffix, unused in (("", "mirror"), ("-nan", "nan"), ("-other", "other"))
    )


def poison(A: Array, read: str, unused: str, rng: np.random.Generator, p: Precision) -> Array:
    """A copy of the stack ``A`` whose triangle that must not be read holds something else."""
    if not read or unused == "mirror":
        return A
    hidden = np.tri(A.shape[-1], k=-1, dtype=bool)
    hidden = hidden.T if read == "L" else hidden
    if unused == "nan":
        foreign = np.full(A.shape, np.nan, dtype=A.dtype)
    else:
        largest = np.abs(A).max(axis=(-2, -1), keepdims=True, initial=0.0)
        foreign = _round(rng.uniform(-3, 3, A.shape) * np.minimum(largest, p.max / 4), p)
    return np.where(hidden, foreign, A)


def _round(values: Array, p: Precision) -> Array:
    """Round once to the dtype of the case and widen again."""
    return values.astype(p.numpy).astype(p.wide)


def _random(shape: tuple[int, ...], p: Precision, rng: np.random.Generator) -> Array:
    values = rng.standard_normal(shape)
    return _round(values + 1j * rng.standard_normal(shape) if p.complex else values, p)


def _whole(A: Array, variant: Variant, p: Precision, rng: np.random.Generator) -> tuple[Array, ...]:
    return (poison(A, variant.read, variant.unused, rng, p),)


def _factor(A: Array, variant: Variant, p: Precision, rng: np.random.Generator) -> Array:
    """The Cholesky factor of ``A`` in the triangle the variant names, rounded to the dtype.

    The other triangle is not read, as LAPACK's xPOTRS and xPOTRI say: it may be poisoned.
    """
    L = _round(reference.cholesky(A), p)
    L = np.conj(np.swapaxes(L, -1, -2)) if variant.read == "U" else L
    return poison(L, variant.read, variant.unused, rng, p)


def _factored(A: Array, variant: Variant, p: Precision, rng: np.random.Generator) -> tuple[Array]:
    return (_factor(A, variant, p, rng),)


def _right_hand_sides(
    A: Array, variant: Variant, p: Precision, rng: np.random.Generator
) -> tuple[Array, ...]:
    """Random ones, whose solutions are large, and every other that of a random solution.

    Where A is ill-conditioned only the latter tell a solver from a product with the inverse.
    """
    columns = int(rng.choice((0, 1, 2, 3, 17, 65)))
    B, X = (_random((*A.shape[:-1], columns), p, rng) for _ in range(2))
    with np.errstate(over="ignore"):
        AX = _round(np.matmul(A, X), p)
    B[..., 1::2] = np.where(np.isfinite(AX), AX, B)[..., 1::2]
    B[..., 2:3] = 0  # a system that somebody padded
    return B, _factor(A, variant, p, rng)


def _reflectors(
    A: Array, variant: Variant, p: Precision, rng: np.random.Generator
) -> tuple[Array, ...]:
    """Householder reflectors and their scales; what lies above them must not be read."""
    V, tau = reference.geqrf(A)
    V, tau = _round(V, p), _round(tau, p)
    above = np.triu(np.ones(V.shape[-2:], dtype=bool))
    if variant.unused == "nan":
        V = np.where(above, np.nan, V)
    elif variant.unused == "other":
        V = np.where(above, _random(V.shape, p, rng), V)
    return V, tau[:, : tau.shape[1] // 2] if variant.halved else tau


def _reflected(
    A: Array, variant: Variant, p: Precision, rng: np.random.Generator
) -> tuple[Array, ...]:
    V, tau = reference.geqrf(A)
    m, others = A.shape[-2], A.shape[-1] % 5
    C = _random((len(A), *((m, others) if variant.arguments["left"] else (others, m))), p, rng)
    return _round(V, p), _round(tau, p), C


# The factor's other triangle holds zeros ("mirror" leaves it as it is) or is poisoned.
_UPPER = _triangles("upper", False, True)
_SIDES = tuple(
    Variant(f"{side}-{how}", {"left": side == "left", "transpose": how == "adjoint"})
    for side in ("left", "right")
    for how in ("plain", "adjoint")
)

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation(
            "svd",
            torch.linalg.svd,
            "general",
            ("U", "S", "Vh"),
            (
                Variant("reduced", {"full_matrices": False}),
                Variant("full", {"full_matrices": True}),
            ),
            _whole,
            drivers=True,
        ),
        Operation(
            "svdvals",
            torch.linalg.svdvals,
            "general",
            ("S",),
            (Variant("values"),),
            _whole,
            drivers=True,
        ),
        Operation(
            "eigh",
            torch.linalg.eigh,
            "hermitian",
            ("w", "V"),
            _triangles("UPLO", "L", "U"),
            _whole,
        ),
        Operation(
            "eigvalsh",
            torch.linalg.eigvalsh,
            "hermitian",
            ("w",),
            _triangles("UPLO", "L", "U"),
            _whole,
        ),
        Operation(
            "qr",
            torch.linalg.qr,
            "general",
            ("Q", "R"),
            tuple(Variant(mode, {"mode": mode}) for mode in ("reduced", "complete", "r")),
            _whole,
        ),
        Operation(
            "cholesky",
            torch.linalg.cholesky,
            "definite",
            ("L",),
            _triangles("upper", False, True),
            _whole,
        ),
        Operation(
            "cholesky_ex",
            torch.linalg.cholesky_ex,
            "definite",
            ("L", "info"),
            (
                *_triangles("upper", False, True),
                Variant("lower-checked", {"upper": False, "check_errors": True}, "L", "nan"),
                Variant("upper-checked", {"upper": True, "check_errors": True}, "U", "nan"),
            ),
            _whole,
        ),
        Operation(
            "cholesky_solve",
            torch.cholesky_solve,
            "definite",
            ("X",),
            (
                *_UPPER,
                Variant("lower-broadcast", {"upper": False}, "L", shared=1),
                Variant("upper-broadcast", {"upper": True}, "U", shared=0),
            ),
            _right_hand_sides,
            inputs=("B", "L"),
        ),
        Operation(
            "cholesky_inverse",
            torch.cholesky_inverse,
            "definite",
            ("X",),
            _UPPER,
            _factored,
        ),
        Operation("geqrf", torch.geqrf, "general", ("a", "tau"), (Variant("packed"),), _whole),
        Operation(
            "householder_product",
            torch.linalg.householder_product,
            "general",
            ("Q",),
            (
                Variant("plain"),
                Variant("nan-above", unused="nan"),
                Variant("other-above", unused="other"),
                Variant("halved", halved=True),
            ),
            _reflectors,
            inputs=("V", "tau"),
            tall=True,
        ),
        Operation(
            "ormqr",
            torch.ormqr,
            "general",
            ("C",),
            _SIDES,
            _reflected,
            inputs=("V", "tau", "C"),
        ),
    )
}
