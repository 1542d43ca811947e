"""The simulated accelerator behaves as a device: it can be trusted to test the suite's own path."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from selftests import sim

BACKEND = sim.Sim()
DEVICE = "sim:0"
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)

pytestmark = pytest.mark.skipif(BACKEND.absent() is not None, reason=str(BACKEND.absent()))


@pytest.fixture(autouse=True)
def device() -> sim.Device:
    module = sim.enable()
    module.calls.clear()
    assert not module.plants
    return module


def matrix(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(*shape, dtype=dtype, generator=generator)


def definite(A: torch.Tensor) -> torch.Tensor:
    return A.mH @ A + torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)


def leaves(results: Any) -> list[torch.Tensor]:
    return [results] if isinstance(results, torch.Tensor) else list(results)


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conjugate": lambda A: A.conj(),
    "adjoint": lambda A: A.mH,
    "negative": lambda A: torch._neg_view(A),
    "imaginary": lambda A: A.conj().imag,
    "pairs": lambda A: torch.view_as_real(A),
    "every other": lambda A: A[::2, 1::3],
    "block": lambda A: A[2:5, 3:6],
    "strided": lambda A: A.as_strided((2, 3), (1, 8), 2),
    "expanded": lambda A: A[0].expand(3, 8),
    "permuted": lambda A: A.reshape(2, 3, 8).permute(1, 0, 2),
    "row": lambda A: A[3:4].mT,
    "empty": lambda A: A[:0],
}

OPERATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "svd": torch.linalg.svd,
    "reduced svd": lambda A: torch.linalg.svd(A, full_matrices=False),
    "svdvals": torch.linalg.svdvals,
    "qr": torch.linalg.qr,
    "complete qr": lambda A: torch.linalg.qr(A, mode="complete"),
    "r only": lambda A: torch.linalg.qr(A, mode="r"),
    "eigh": lambda A: torch.linalg.eigh(definite(A)),
    "eigvalsh": lambda A: torch.linalg.eigvalsh(definite(A), UPLO="U"),
    "cholesky": lambda A: torch.linalg.cholesky(definite(A), upper=True),
    "cholesky_ex": lambda A: torch.linalg.cholesky_ex(definite(A)),
    "solve": lambda A: torch.cholesky_solve(A.mH, torch.linalg.cholesky(definite(A))),
    "inverse": lambda A: torch.cholesky_inverse(torch.linalg.cholesky(definite(A))),
    "geqrf": torch.geqrf,
    "householder": lambda A: torch.linalg.householder_product(*torch.geqrf(A)),
    "ormqr": lambda A: torch.ormqr(*torch.geqrf(A), A),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_transfer_both_ways_keeps_values_and_strides(dtype: torch.dtype) -> None:
    host = matrix(2, 5, 3, dtype=dtype).mT
    there = BACKEND.send(host, DEVICE)
    assert there.device == torch.device(DEVICE)
    assert type(there) is torch.Tensor
    assert there.stride() == host.stride()
    assert torch.equal(BACKEND.fetch(there), host)


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_those_of_the_cpu(view: str) -> None:
    host = matrix(6, 8)
    here, there = VIEWS[view](host), VIEWS[view](BACKEND.send(host, DEVICE))
    assert there.device == torch.device(DEVICE)
    assert (there.stride(), there.storage_offset()) == (here.stride(), here.storage_offset())
    assert (there.is_conj(), there.is_neg()) == (here.is_conj(), here.is_neg())
    back = BACKEND.fetch(there)
    assert not back.is_conj()
    assert not back.is_neg()
    assert torch.equal(back, here.resolve_conj().resolve_neg())
    if view != "pairs":
        assert torch.equal(BACKEND.fetch(torch.linalg.svdvals(there)), torch.linalg.svdvals(here))


def test_views_share_memory() -> None:
    there = BACKEND.send(matrix(4, 4), DEVICE)
    there[1:3].mT.zero_()
    assert BACKEND.fetch(there)[1:3].abs().max() == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_agree_with_the_cpu_and_with_fake_tensors(
    operation: str, dtype: torch.dtype
) -> None:
    run = OPERATIONS[operation]
    host = matrix(2, 5, 3, dtype=dtype)
    there = BACKEND.send(host, DEVICE)
    results = leaves(run(there))
    with FakeTensorMode():
        empty = torch.empty_strided(there.size(), there.stride(), dtype=dtype, device=DEVICE)
        predicted = leaves(run(empty))
    for result, expected, fake in zip(results, leaves(run(host)), predicted, strict=True):
        assert torch.equal(BACKEND.fetch(result), expected)
        assert result.stride() == expected.stride() == fake.stride()
        assert result.dtype == expected.dtype == fake.dtype
        assert result.device == fake.device == torch.device(DEVICE)


def test_fake_tensors_can_be_made_from_it() -> None:
    mode = FakeTensorMode()
    fake = mode.from_tensor(BACKEND.send(matrix(5, 3).mT, DEVICE))
    assert fake.device == torch.device(DEVICE)
    assert fake.stride() == (1, 3)


@pytest.mark.parametrize("start", [(5, 3), (0,), (2, 2)])
def test_out_is_filled_and_resized_as_on_the_cpu(start: tuple[int, ...]) -> None:
    host = matrix(5, 3)
    there = BACKEND.send(host, DEVICE)
    given = [torch.zeros(start, dtype=host.dtype, device=d) for d in ("cpu", DEVICE)]
    seen = []
    for A, out in zip((host, there), given, strict=True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            R = torch.empty(0, dtype=A.dtype, device=A.device)
            result = torch.linalg.qr(A, out=(out, R))
        assert result[0].data_ptr() == out.data_ptr()
        seen.append([w.category for w in caught])
    assert seen[0] == seen[1]
    assert given[0].stride() == given[1].stride()
    assert torch.equal(BACKEND.fetch(given[1]), given[0])


def test_out_of_another_device_or_dtype_is_refused() -> None:
    there = BACKEND.send(matrix(3, 3), DEVICE)
    with pytest.raises(RuntimeError, match="same device"):
        torch.linalg.svdvals(there, out=torch.empty(3))
    with pytest.raises(RuntimeError, match="dtype"):
        torch.linalg.svdvals(there, out=torch.empty(3, dtype=torch.int32, device=DEVICE))


def test_gradients_flow() -> None:
    there = BACKEND.send(matrix(3, 3, dtype=torch.float64), DEVICE).requires_grad_()
    torch.linalg.svdvals(there).sum().backward()
    assert there.grad is not None
    assert there.grad.device == torch.device(DEVICE)


def test_an_error_leaves_the_operation_as_on_the_cpu() -> None:
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        torch.linalg.cholesky(BACKEND.send(-torch.eye(3), DEVICE))


def test_synchronisation_is_counted_and_raises_late_errors(device: sim.Device) -> None:
    before = device.synchronized
    BACKEND.synchronize(DEVICE)
    assert device.synchronized == before + 1
    sim.later(RuntimeError("sim error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError) as caught:
        BACKEND.synchronize(DEVICE)
    assert BACKEND.fatal(caught.value)
    BACKEND.synchronize(DEVICE)


def test_planted_functions_decide_the_result(device: sim.Device) -> None:
    there = BACKEND.send(matrix(4, 4, dtype=torch.float32), DEVICE)
    seen = []

    def double(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        results = compute(*args, **kwargs)
        if op != "_linalg_svd":
            return results
        seen.append(args[0].device)
        U, S, Vh = results
        return U.contiguous(), 2 * S, Vh

    _, right, _ = torch.linalg.svd(BACKEND.fetch(there))
    values = torch.linalg.svdvals(BACKEND.fetch(there))
    with sim.plant(double):
        U, S, _ = torch.linalg.svd(there)
        out = torch.linalg.svdvals(there, out=torch.empty(4, device=DEVICE))
    assert torch.equal(BACKEND.fetch(S), 2 * right)
    assert torch.equal(BACKEND.fetch(out), 2 * values)
    assert U.stride() == (4, 1)  # the device decides over its strides; PyTorch promises (1, 4)
    assert seen == [torch.device("cpu")] * 2
    assert torch.equal(BACKEND.fetch(torch.linalg.svdvals(there)), values)
    assert device.calls["_linalg_svd"] == 3


def test_planted_functions_stack() -> None:
    there = BACKEND.send(torch.ones(1, 1), DEVICE)

    def plus(number: int) -> sim.Plant:
        def function(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
            results = compute(*args, **kwargs)
            return results * 2 + number if op == "exp" else results

        return function

    with sim.plant(plus(1)), sim.plant(plus(3)):
        assert BACKEND.fetch(there.exp()).item() == pytest.approx((torch.e * 2 + 1) * 2 + 3)
    assert BACKEND.fetch(there.exp()).item() == pytest.approx(torch.e)


@pytest.mark.parametrize("silent", [False, True])
def test_a_fallback_is_noticed(silent: bool) -> None:
    there = BACKEND.send(matrix(3, 3), DEVICE)
    for _ in range(2):  # not only the first of the process
        with sim.fall_back("linalg_qr", silent=silent), BACKEND.fallback(DEVICE) as notice:
            torch.linalg.qr(there)
        assert notice
        assert "aten::_to_cpu" in notice.reason
        assert ("'aten::linalg_qr'" in notice.reason) is not silent
    with BACKEND.fallback(DEVICE) as notice:
        notice.results(list(torch.linalg.qr(there)))
    assert not notice


def test_a_refusal_is_told_from_a_breakage() -> None:
    there = BACKEND.send(matrix(3, 3), DEVICE)
    with sim.refuse("linalg_qr"), pytest.raises(NotImplementedError) as caught:
        torch.linalg.qr(there)
    assert "aten::linalg_qr" in str(BACKEND.refusal(caught.value))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_can_be_compiled(backend: str, device: sim.Device) -> None:
    compiled = torch.compile(torch.linalg.svdvals, backend=backend, fullgraph=True)
    for seed in (1, 2):
        host = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        result = compiled(BACKEND.send(host, DEVICE))
        torch.testing.assert_close(BACKEND.fetch(result), torch.linalg.svdvals(host))
    assert device.calls["_linalg_svd"] == 2


def test_it_is_absent_where_pytorch_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sim.backend_registration, "_setup_privateuseone_for_python_backend")
    assert "cannot set up a device in Python" in str(BACKEND.absent())
    assert BACKEND.devices() == []


def test_it_is_absent_where_another_backend_has_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "npu")
    assert "taken by npu" in str(BACKEND.absent())
