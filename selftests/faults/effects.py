"""What faults do: effects built from the original kernel's results, with a phrase each.

Effects edit the fresh results in place wherever they can, so strides stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from .conditions import null
from .planting import Call, Effect

Edit = Callable[[Call, SimpleNamespace], Any]

LOWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}


def edit(text: str, change: Edit) -> Effect:
    """Change the original results in place."""

    def apply(call: Call) -> SimpleNamespace:
        results = call.compute()
        change(call, results)
        return results

    return Effect(text, apply)


def on_input(text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Factor something else than the matrix that was given."""
    return Effect(text, lambda call: call.compute(A=change(call.A)))


def given(text: str, **arguments: Any) -> Effect:
    """Compute with another value of an argument."""
    return Effect(text, lambda call: call.compute(**arguments))


def floating(results: SimpleNamespace) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and tensors of the results that hold numbers."""
    for name, x in vars(results).items():
        if x.numel() and (x.is_floating_point() or x.is_complex()):
            yield name, x


# --- accuracy --------------------------------------------------------------------------------


def _parts(x: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Apply ``change`` to real and imaginary parts."""
    if x.is_complex():
        return torch.view_as_complex(change(torch.view_as_real(x.resolve_conj().contiguous())))
    return change(x)


def _tf32(x: torch.Tensor) -> torch.Tensor:
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def _bf16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().to(x.dtype)


def _truncated(x: torch.Tensor) -> torch.Tensor:
    return (x.contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32)


tf32_input = on_input("input rounded to TF32", lambda A: _parts(A, _tf32))
bf16_input = on_input("input rounded to bf16", lambda A: _parts(A, _bf16))
truncated_input = on_input("input cut to the bits of bf16", lambda A: _parts(A, _truncated))
imaginary_dropped = on_input("imaginary part of the input dropped", lambda A: A.real.to(A.dtype))
conjugated_input = on_input("the conjugate is factored", lambda A: A.conj().resolve_conj())


def _lower(call: Call) -> SimpleNamespace:
    def down(x: Any) -> Any:
        return x.to(LOWER.get(x.dtype, x.dtype)) if isinstance(x, torch.Tensor) else x

    results = call.compute(**{name: down(x) for name, x in call.arguments.items()})
    for name, x in floating(results):
        setattr(results, name, x.to(torch.promote_types(x.dtype, torch.float64)))
    return results


in_single = Effect("computed in single precision", _lower)


def rounded(*names: str) -> Effect:
    """Some results rounded to single precision."""

    def change(call: Call, r: SimpleNamespace) -> None:
        for name in names:
            x = getattr(r, name)
            x.copy_(x.to(LOWER[x.dtype]))

    return edit(f"{' and '.join(names)} rounded to single precision", change)


def skewed(name: str, factor: float = 200, rows: bool = False) -> Effect:
    """Orthogonality lost: a little of the first vector in the second, ``factor`` n eps."""

    def change(call: Call, r: SimpleNamespace) -> None:
        Q = getattr(r, name).mT if rows else getattr(r, name)
        if Q.shape[-1] > 1:
            Q[..., 1] += factor * Q.shape[-2] * call.eps * Q[..., 0]

    return edit(f"{name}: second vector leans {factor:g} n eps towards the first", change)


def fading(name: str, factor: float = 200, rows: bool = False) -> Effect:
    """Orthogonality lost slowly: every vector leans on its predecessor, more and more."""

    def change(call: Call, r: SimpleNamespace) -> None:
        Q = getattr(r, name).mT if rows else getattr(r, name)
        n = Q.shape[-1]
        lean = torch.linspace(0, 1, n, dtype=torch.float64).to(Q.dtype)[1:]
        Q[..., 1:] += factor * Q.shape[-2] * call.eps * lean * Q[..., :-1].clone()

    return edit(
        f"{name}: vectors lean ever more on their predecessors, to {factor:g} n eps", change
    )


def offset_values(name: str, index: int = -1, factor: float = 300) -> Effect:
    """One value wrong by ``factor`` n eps times the largest."""

    def change(call: Call, r: SimpleNamespace) -> None:
        s = getattr(r, name)
        s[..., index] -= factor * max(call.m, call.n) * call.eps * s.abs().amax(-1)
        if name == "S":
            s.abs_()

    return edit(f"{name}[{index}] wrong by {factor:g} n eps {name}max", change)


def scaled(name: str, factor: float = 300) -> Effect:
    """A result wrong by a relative ``factor`` n eps."""
    return edit(
        f"{name} scaled by 1 + {factor:g} n eps",
        lambda c, r: getattr(r, name).mul_(1 + factor * max(c.m, c.n) * c.eps),
    )


def _small_wrong(call: Call, r: SimpleNamespace) -> None:
    s = r.S if hasattr(r, "S") else r.w
    top = s.abs().amax(-1, keepdim=True)
    noise = 500 * max(call.m, call.n) * call.eps * top
    s.copy_(torch.where(s.abs() < 1e-3 * top, s + noise, s))
    if hasattr(r, "w"):
        s.copy_(s.sort(-1).values)


small_wrong = edit("values below 1e-3 of the largest off by 500 n eps of it", _small_wrong)


def _complete(U: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Append an orthonormal completion when ``like`` has more columns than ``U``."""
    k = U.shape[-1]
    if like.shape[-1] == k:
        return U
    return torch.cat([U, torch.linalg.qr(U, mode="complete")[0][..., k:]], -1)


def _gram_svd(call: Call) -> SimpleNamespace:
    r = call.compute()
    A = call.A if call.m >= call.n else call.A.mH
    w, V = torch.linalg.eigh(A.mH @ A)
    s = w.clamp(min=0).sqrt().flip(-1)
    V = V.flip(-1)
    r.S.copy_(s)
    if r.U.numel():
        U = A @ V / torch.where(s > 0, s, 1).unsqueeze(-2)
        left, right = (U, V) if call.m >= call.n else (V, U)
        r.U.copy_(_complete(left, r.U))
        r.Vh.copy_(_complete(right, r.Vh.mH).mH)
    return r


def _gram_qr(call: Call) -> SimpleNamespace:
    r = call.compute()
    L, info = torch.linalg.cholesky_ex(call.A.mH @ call.A)
    if call.m >= call.n and not bool(info.any()):
        r.R[..., : call.n, :] = L.mH
        if r.Q.numel():
            Q = torch.linalg.solve_triangular(L.mH, call.A, upper=True, left=False)
            r.Q[..., : call.n] = Q
    return r


gram_svd = Effect("through the Gram matrix: condition squared", _gram_svd)
gram_qr = Effect("Cholesky of the Gram matrix: condition squared", _gram_qr)


def _rotate(V: torch.Tensor, angle: float) -> torch.Tensor:
    """Neighbouring columns rotated in pairs by a small angle."""
    pairs = V.shape[-1] // 2 * 2
    a, b = V[..., 0:pairs:2].clone(), V[..., 1:pairs:2].clone()
    W = V.clone()
    c, s = (1 - angle**2) ** 0.5, angle
    W[..., 0:pairs:2], W[..., 1:pairs:2] = c * a + s * b, c * b - s * a
    return W


def _early_svd(call: Call) -> SimpleNamespace:
    r = call.compute()
    if r.U.numel() == 0:
        return r
    k = call.k
    keep = ~null(call, r.S).unsqueeze(-2)
    V = _rotate(r.Vh.mH[..., :k], call.eps**0.5)
    AV = call.A @ V
    norms = torch.linalg.vector_norm(AV, dim=-2, keepdim=True)
    U = AV / torch.where(norms > 0, norms, 1)
    r.U[..., :k] = torch.where(keep, U, r.U[..., :k])
    r.Vh[..., :k, :] = torch.where(keep, V, r.Vh.mH[..., :k]).mH
    return r


early_svd = Effect("one-sided Jacobi stops a sweep early", _early_svd)
early_eigh = edit(
    "Jacobi stops a sweep early: pairs off by sqrt(eps)",
    lambda c, r: r.V.copy_(_rotate(r.V, c.eps**0.5)),
)

# --- structure -------------------------------------------------------------------------------


def null_vectors(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Replace the vectors of U or Vh that belong to zero singular values."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = r.U if name == "U" else r.Vh.mT
        if X.numel():
            mask = null(call, r.S).unsqueeze(-2)
            X[..., : call.k] = torch.where(mask, change(X[..., : call.k]), X[..., : call.k])

    return edit(f"null-space vectors of {name} {text}", apply)


def trailing(
    name: str, text: str, change: Callable[[torch.Tensor], Any], rows: bool = False
) -> Effect:
    """Change, in place, the trailing columns (rows) of a full factor."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name).mT if rows else getattr(r, name)
        if X.shape[-1] > call.k:
            change(X[..., call.k :])

    return edit(f"trailing vectors of the full {name} {text}", apply)


def parallel(*names: str) -> Effect:
    """Vectors of equal neighbouring values made parallel."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        s = r.S if hasattr(r, "S") else r.w
        close = (s[..., 1:] - s[..., :-1]).abs() <= 8 * call.k * call.eps * s.abs().amax(-1)[
            ..., None
        ]
        for name in names:
            X = r.Vh.mT if name == "Vh" else getattr(r, name)
            if X.numel():
                first, second = X[..., : call.k - 1], X[..., 1 : call.k]
                second.copy_(torch.where(close.unsqueeze(-2), first.clone(), second))

    return edit(f"{' and '.join(names)}: vectors of equal values parallel", apply)


def flip_sign(name: str, index: int = -1, rows: bool = False) -> Effect:
    """One vector of one factor changes sign, the other factors stay."""
    text = f"{'row' if rows else 'column'} {index} of {name} changes sign, alone"
    return edit(
        text, lambda c, r: (getattr(r, name).mT if rows else getattr(r, name))[..., index].neg_()
    )


def swapped_columns(name: str, i: int, j: int) -> Effect:
    """Two vectors exchange places, their values do not."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name)
        X[..., [i, j]] = X[..., [j, i]]

    return edit(f"columns {i} and {j} of {name} exchanged, values not", apply)


def fill_below(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Garbage below the diagonal of an upper triangular result."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name)
        X.add_(change(X).tril(-1))

    return edit(f"{text} below the diagonal of {name}", apply)


def fill_above(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """Garbage above the diagonal of a lower triangular result."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        X = getattr(r, name)
        X.add_(change(X).triu(1))

    return edit(f"{text} above the diagonal of {name}", apply)


def conjugated(name: str) -> Effect:
    """A result comes back conjugated."""
    return edit(f"{name} conjugated", lambda c, r: getattr(r, name).copy_(getattr(r, name).conj()))


# --- values everywhere -----------------------------------------------------------------------


def everything(text: str, value: float) -> Effect:
    """All numbers of the results replaced."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        for _, x in floating(r):
            x.fill_(value)

    return edit(text, apply)


all_zero = everything("results are zero", 0.0)
all_nan = everything("results are NaN", float("nan"))


def raising(text: str) -> Effect:
    """Refuse valid input."""

    def apply(call: Call) -> SimpleNamespace:
        raise RuntimeError(f"refused: {text}")

    return Effect(f"refused: {text}", apply)


# --- batch -----------------------------------------------------------------------------------


def elements(text: str, index: Callable[[torch.Tensor, Call], torch.Tensor]) -> Effect:
    """Element ``i`` of the batch gets the result of element ``index(i)``."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        source = index(torch.arange(call.count), call)
        for x in vars(r).values():
            if x.numel():
                call.stacked(x).copy_(call.stacked(x)[source])

    return edit(text, apply)


def spoiled_elements(text: str, mask: Callable[[torch.Tensor, Call], torch.Tensor]) -> Effect:
    """The results of some elements of the batch halved."""

    def apply(call: Call, r: SimpleNamespace) -> None:
        chosen = mask(torch.arange(call.count), call).nonzero().flatten()
        for _, x in floating(r):
            stack = call.stacked(x)
            stack[chosen] = stack[chosen] / 2

    return edit(text, apply)


# --- memory ----------------------------------------------------------------------------------


def _memory(x: torch.Tensor) -> torch.Tensor:
    """The whole storage of a tensor."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


def raw(A: torch.Tensor) -> torch.Tensor:
    """What a kernel sees that takes the memory for row-major."""
    strides = torch.empty(A.shape, device="meta").stride()
    return A.as_strided(A.shape, strides, A.storage_offset())


read_as_row_major = on_input("memory read as if it were row-major", raw)
offset_ignored = on_input("storage offset ignored", lambda A: A.as_strided(A.shape, A.stride(), 0))


def overwriting(text: str, change: Callable[[Call], Any]) -> Effect:
    """Right results, and the caller's input changed."""

    def apply(call: Call) -> SimpleNamespace:
        results = call.compute()
        change(call)
        return results

    return Effect(text, apply)


def write_beside(x: torch.Tensor) -> None:
    """Replace the number in memory right after the first row of a padded or sliced view.

    Replaced, not added to: what lies there may be NaN.
    """
    place = x.storage_offset() + (x.shape[-1] - 1) * x.stride(-1) + 1
    _memory(x)[place] = 12345


def out_tensors(text: str, change: Callable[[Call, list[torch.Tensor]], Any]) -> Effect:
    """Run the original ``out=`` kernel; then change the tensors, given what they held before."""

    def apply(call: Call) -> None:
        before = [x.clone() for x in call.out]
        call.finish()
        change(call, before)

    return Effect(text, apply)


def unfilled(index: int) -> Effect:
    """One tensor of ``out=`` keeps what it held (zeros where it had to be resized)."""

    def change(call: Call, before: list[torch.Tensor]) -> None:
        x, old = call.out[index], before[index]
        if x.shape == old.shape:
            x.copy_(old)
        else:
            x.zero_()

    return out_tensors(f"out[{index}] is not filled", change)


def _restride(call: Call, before: list[torch.Tensor]) -> None:
    for x in call.out:
        if x.ndim > 1 and x.shape[-1] == x.shape[-2] > 1:
            values = x.clone()
            x.transpose_(-2, -1)
            x.copy_(values)


restrided = out_tensors("strides of out= swapped", _restride)


# --- metadata --------------------------------------------------------------------------------


def returned(name: str, text: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Effect:
    """A result replaced by one of other type, strides, shape or device."""
    return edit(f"{name} {text}", lambda c, r: setattr(r, name, change(getattr(r, name))))


def row_major(name: str) -> Effect:
    """A matrix comes back row-major instead of column-major."""
    return returned(name, "row-major", lambda x: x.contiguous())
