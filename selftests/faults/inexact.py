"""What faults do to accuracy: coarser arithmetic, worse algorithms, and results slightly off."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from .conditions import null
from .effects import edit, floating, on_input
from .planting import Call, Effect

LOWER = {torch.float64: torch.float32, torch.complex128: torch.complex64}


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


def _through_inverse(call: Call) -> SimpleNamespace:
    """X = inv(A) B: the error grows with the condition where the solution does not."""
    r, upper = call.compute(), bool(call.arguments["upper"])
    eye = torch.eye(call.n, dtype=call.A.dtype).expand(call.A.shape).contiguous()
    inverse = torch.linalg.solve_triangular(call.A, eye, upper=upper)
    inverse = inverse @ inverse.mH if upper else inverse.mH @ inverse
    r.X.copy_(inverse @ call.arguments["self"])
    return r


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


through_inverse = Effect("through the explicit inverse", _through_inverse)
early_svd = Effect("one-sided Jacobi stops a sweep early", _early_svd)
early_eigh = edit(
    "Jacobi stops a sweep early: pairs off by sqrt(eps)",
    lambda c, r: r.V.copy_(_rotate(r.V, c.eps**0.5)),
)
