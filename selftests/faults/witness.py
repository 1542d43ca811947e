"""Small demonstrations: an input on which a fault shows, and one on which it must not.

They guard the catalogue, not the suite: inputs are made with torch, and a result counts as
changed when any bit, stride, dtype, device, error or warning of it does.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Witness:
    """An operation, its input, and how often and from how many threads it is called.

    ``shape`` includes the batch. ``before`` are calls made earlier whose results do not count.
    """

    operation: str
    shape: tuple[int, ...]
    dtype: str = "float64"
    values: str = "random"
    layout: str = "row-major"
    options: tuple[tuple[str, Any], ...] = ()
    out: str = ""
    calls: int = 1
    threads: int = 1
    before: tuple[Witness, ...] = ()
    columns: int = 2
    rhs_batch: tuple[int, ...] | None = None

    def but(self, **changes: Any) -> Witness:
        """The same with something different; unknown names are options of the operation."""
        known = {k: v for k, v in changes.items() if k in self.__dataclass_fields__}
        options = {k: v for k, v in changes.items() if k not in known}
        if options:
            known["options"] = tuple({**dict(self.options), **options}.items())
        return replace(self, **known)


def of(operation: str, *shape: int, **changes: Any) -> Witness:
    """A witness: an operation, its shape, and whatever is not plain about it."""
    return Witness(operation, shape).but(**changes)


# --- values ----------------------------------------------------------------------------------


def _symmetric(A: torch.Tensor) -> torch.Tensor:
    """Hermitian, from the lower triangle; zeros keep their signs."""
    A = torch.where(torch.ones(A.shape[-2:], dtype=torch.bool).triu(1), A.mH, A)
    if A.is_complex():
        A.diagonal(dim1=-2, dim2=-1).imag.zero_()
    return A


def _spectrum(A: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    U, _, Vh = torch.linalg.svd(A, full_matrices=False)
    return (U * s.to(U.dtype)) @ Vh


def _eigenvalues(A: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    V = torch.linalg.eigh(A + A.mH)[1]
    return _symmetric((V * w.to(V.dtype)) @ V.mH)


def _spread(A: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Eigenvalues ``w`` in a square matrix, singular values ``w`` in any other."""
    return _eigenvalues(A, w) if A.shape[-2] == A.shape[-1] else _spectrum(A, w.abs())


def _entry(A: torch.Tensor, value: float) -> torch.Tensor:
    A[..., 0, 0] = value
    return A


def _k(A: torch.Tensor) -> int:
    return min(A.shape[-2:])


def _steps(A: torch.Tensor) -> torch.Tensor:
    return torch.arange(_k(A), 0, -1, dtype=torch.float64)


def _eye(A: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    D = torch.zeros(A.shape, dtype=A.dtype)
    D.diagonal(dim1=-2, dim2=-1).copy_(d)
    return D


def _equal_columns(A: torch.Tensor) -> torch.Tensor:
    A = A.clone()
    A[..., 1] = A[..., 0]
    return A


def _zero_column(A: torch.Tensor) -> torch.Tensor:
    A = A.clone()
    A[..., -1] = 0
    return A


def _logspace(A: torch.Tensor, decades: float) -> torch.Tensor:
    return torch.logspace(0, -decades, _k(A), dtype=torch.float64)


VALUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "random": lambda A: A,
    "zero": torch.zeros_like,
    "ones": torch.ones_like,
    "identity": lambda A: _eye(A, torch.ones(_k(A))),
    "diagonal": lambda A: _eye(A, _steps(A).flip(0)),
    "descending-diagonal": lambda A: _eye(A, _steps(A)),
    "signed-zero": lambda A: _eye(A, _steps(A)).masked_fill(torch.eye(*A.shape[-2:]) == 0, -0.0),
    "nearly-diagonal": lambda A: _eye(A, _steps(A)) + 1e-7 * A,
    "orthogonal": lambda A: _spectrum(A, torch.ones(_k(A))),
    "rank-deficient": lambda A: _spectrum(A, _steps(A) - 1),
    "low-rank": lambda A: _spectrum(A, (_steps(A) - _k(A) // 2).clamp(min=0)),
    "rank-one": lambda A: _spectrum(A, (_steps(A) == _k(A)).double()),
    "zero-column": _zero_column,
    "repeated": lambda A: _spread(A, (_steps(A) + 1).div(2, rounding_mode="floor")),
    "plus-minus": lambda A: _spread(A, _steps(A).roll(1) * (-1) ** torch.arange(_k(A))),
    "negative": lambda A: _spread(A, -_steps(A)),
    "graded": lambda A: _spread(A, _logspace(A, 10)),
    "ill-conditioned": lambda A: _spread(A, _logspace(A, 5)),
    "column-scaled": lambda A: A * torch.logspace(0, -8, A.shape[-1], dtype=torch.float64),
    "equal-columns": _equal_columns,
    "huge": lambda A: A * 1e200,
    "huge32": lambda A: A * 1e30,
    "tiny": lambda A: A * 1e-200,
    "tiny32": lambda A: A * 1e-30,
    "subnormal": lambda A: A * 1e-310,
    "subnormal32": lambda A: A * 1e-40,
    "nan": lambda A: _entry(A.clone(), float("nan")),
    "inf": lambda A: _entry(A.clone(), float("inf")),
    "integer": lambda A: (3 * A).round(),
    "huge-and-tiny": lambda A: _eye(A, torch.tensor([1e200, 1, 1e-200], dtype=torch.float64)),
}

DEFINITE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "indefinite": lambda A: A - 2 * _eye(A, A.diagonal(dim1=-2, dim2=-1)),
    "first-indefinite": lambda A: _entry(A, -1.0),
    "last-indefinite": lambda A: _last(A, -1.0),
    "mixed": lambda A: _every_other(A, -1.0),
    "singular": torch.ones_like,
    "nan": lambda A: _entry(A, float("nan")),
    "diagonal": VALUES["diagonal"],
    "identity": VALUES["identity"],
    "zero": torch.zeros_like,
    "huge": lambda A: A * 1e200,
    "tiny": lambda A: A * 1e-200,
    "tiny32": lambda A: A * 1e-30,
    "subnormal": lambda A: A * 1e-310,
    "graded": lambda A: _eigenvalues(A, _logspace(A, 10)),
}


def _last(A: torch.Tensor, value: float) -> torch.Tensor:
    A[..., -1, -1] = value
    return A


def _every_other(A: torch.Tensor, value: float) -> torch.Tensor:
    A[1::2, -1, -1] = value
    return A


# --- input -----------------------------------------------------------------------------------


def _wide(w: Witness) -> torch.dtype:
    return torch.complex128 if w.dtype.startswith("complex") else torch.float64


def _random(w: Witness, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=_wide(w), generator=generator)


def _matrix(w: Witness) -> torch.Tensor:
    """The matrix that is factored, in float64 or complex128."""
    A = _random(w, w.shape, 0)
    if w.operation.startswith("eig") and w.shape[-1] == w.shape[-2]:
        return _spoil(w, _symmetric(VALUES.get(w.values, VALUES["random"])(_symmetric(A))))
    if w.operation.startswith("cholesky"):
        A = A @ A.mH / w.shape[-1] + _eye(A, torch.ones(_k(A)))
        return _spoil(w, _symmetric(DEFINITE.get(w.values, lambda A: A)(A)))
    return VALUES[w.values](A)


def _spoil(w: Witness, A: torch.Tensor) -> torch.Tensor:
    """NaN, or other numbers, in the triangle that must not be read."""
    if w.values not in ("nan-triangle", "random-triangle", "zero-triangle"):
        return A
    upper = dict(w.options).get("upper") or dict(w.options).get("UPLO") == "U"
    unread = torch.ones(A.shape[-2:], dtype=torch.bool)
    unread = unread.tril(-1) if upper else unread.triu(1)
    other = {"nan": torch.full_like(A, torch.nan), "random": 7 * A + 1, "zero": 0 * A}
    return torch.where(unread, other[w.values.removesuffix("-triangle")], A)


def lay(A: torch.Tensor, layout: str) -> torch.Tensor:
    """The same matrices, lying differently in memory."""
    if layout == "row-major":
        return A.contiguous()
    if layout == "column-major":
        return A.mT.contiguous().mT
    if layout == "conjugate":
        return A.conj().resolve_conj().conj()
    if layout == "conjugate-column-major":
        return A.mH.contiguous().mH
    if layout == "negative":
        return torch._neg_view(-A)
    if layout == "expanded":
        return A[:1].expand(A.shape)
    if layout == "permuted":
        order = [*range(A.ndim - 3, -1, -1), A.ndim - 2, A.ndim - 1]
        return A.permute(order).contiguous().permute(order)
    if layout == "windows":
        return torch.cat([A[..., 0, :], A[..., 1:, -1]], -1).unfold(-1, A.shape[-1], 1)
    if layout == "batch-between":
        return A.movedim(0, -2).contiguous().movedim(-2, 0)
    big = torch.full((*A.shape[:-2], 2 * A.shape[-2] + 1, 2 * A.shape[-1] + 1), 0.5, dtype=A.dtype)
    m, n = A.shape[-2:]
    view = {
        "sliced": big[..., : 2 * m : 2, : 2 * n : 2],
        "offset": big.flatten()[5 : 5 + A.numel()].view(A.shape),
        "block": big[..., 1 : 1 + m, 1 : 1 + n],
    }[layout]
    return view.copy_(A)


def build(w: Witness) -> Tensors:
    """Input tensors of a witness."""
    A = _matrix(w)
    dtype = getattr(torch, w.dtype)
    if w.operation in ("cholesky_solve", "cholesky_inverse"):
        upper = bool(dict(w.options).get("upper"))
        plain = "random" if w.values.endswith("-triangle") else w.values
        L = torch.linalg.cholesky(_matrix(replace(w, values=plain)), upper=upper)
        A = _spoil(w, L)
    tensors: Tensors = (lay(A.to(dtype), w.layout),)
    if w.operation == "cholesky_solve":
        batch = w.shape[:-2] if w.rhs_batch is None else w.rhs_batch
        B = _random(w, (*batch, w.shape[-1], w.columns), 1).to(dtype)
        B[..., 0] = torch.nan if w.values == "nan-column" else B[..., 0]
        tensors = (B, *tensors)
    if w.operation in ("householder_product", "ormqr"):
        a, tau = torch.geqrf(A.to(dtype))
        tensors = (lay(a, w.layout), tau)
    if w.operation == "ormqr":
        tensors = (*tensors, _random(w, (*w.shape[:-1], w.shape[-2]), 1).to(dtype))
    return tensors


# --- call ------------------------------------------------------------------------------------


def _function(name: str) -> Callable[..., Any]:
    return getattr(torch.linalg, name, None) or getattr(torch, name)


def _out(w: Witness, plain: Tensors) -> Tensors:
    """Tensors for ``out=``: fitting, column-major, in memory with a margin, too short or long."""

    def blank(x: torch.Tensor) -> torch.Tensor:
        if w.out == "resized":
            return torch.empty(0, dtype=x.dtype)
        if w.out == "long":
            return torch.empty([size + 1 for size in x.shape], dtype=x.dtype)
        if x.ndim == 0:
            return torch.full_like(x, 3)
        full = torch.full((*x.shape[:-1], 2 * x.shape[-1] + 1), 3, dtype=x.dtype)
        if w.out == "strided":
            return full[..., : 2 * x.shape[-1] : 2]
        full = full[..., : x.shape[-1]].clone()
        return full.mT.contiguous().mT if w.out == "column-major" and x.ndim > 1 else full

    return tuple(blank(x) for x in plain)


def _memory(x: torch.Tensor) -> bytes:
    x = x.detach()
    if x.device.type != "cpu":
        return b""
    flat = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _describe(x: torch.Tensor) -> tuple[Any, ...]:
    content = b""
    if x.device.type == "cpu" and x.numel():
        content = x.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    return (x.device.type, x.dtype, tuple(x.shape), x.stride(), content)


def _observe_once(w: Witness, inputs: Tensors, out: Tensors) -> tuple[Any, ...]:
    call = partial(_function(w.operation), *inputs, **dict(w.options))
    if w.out:
        call = partial(call, out=out if len(out) > 1 else out[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results = call()
        except Exception as error:
            seen: Any = (type(error).__name__, str(error))
        else:
            results = (results,) if isinstance(results, torch.Tensor) else tuple(results)
            seen = tuple(_describe(x) for x in results)
            if w.out and not all(
                r.data_ptr() == o.data_ptr() for r, o in zip(results, out, strict=False)
            ):
                seen = ("not the tensors of out=", seen)
    memory = tuple(_memory(x) for x in (*inputs, *out))
    return seen, memory, tuple(str(c.message) for c in caught)


@dataclass(frozen=True)
class Prepared:
    """A witness with its input, made before anything is planted."""

    witness: Witness
    inputs: Tensors
    out: Tensors
    before: tuple[Prepared, ...]

    def run(self) -> None:
        """Make the calls, whatever comes of them."""
        function, options = _function(self.witness.operation), dict(self.witness.options)
        for _ in range(self.witness.calls):
            with suppress(RuntimeError):
                function(*self.inputs, **options)

    def observe(self) -> list[Any]:
        """Everything a caller can tell about the results of all calls."""
        for earlier in self.before:
            earlier.run()
        w = self.witness
        if w.threads == 1:
            return [_observe_once(w, self.inputs, self.out) for _ in range(w.calls)]
        seen: list[list[Any]] = [[] for _ in range(w.threads)]
        barrier = threading.Barrier(w.threads)

        def work(mine: list[Any]) -> None:
            barrier.wait()
            mine.extend(_observe_once(w, self.inputs, ()) for _ in range(w.calls))

        workers = [threading.Thread(target=work, args=(mine,)) for mine in seen]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return list(seen)


def prepare(w: Witness) -> Prepared:
    """Build the input of a witness and of what goes before it."""
    inputs = build(w)
    out: Tensors = ()
    if w.out:
        plain = _function(w.operation)(*inputs, **dict(w.options))
        plain = (plain,) if isinstance(plain, torch.Tensor) else tuple(plain)
        out = _out(w, plain)
    return Prepared(w, inputs, out, tuple(prepare(b) for b in w.before))
