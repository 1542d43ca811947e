"""Device graphs, on the simulated device: recorded by its own class and by PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.captures import CAPTURES, Call
from conformance.captures.graphs import Poisoned, Shared
from conformance.cases import Case
from conformance.plans import CAPTURED
from devices.base import Backend, NoGraphs
from devices.cpu import Cpu
from devices.cuda import Cuda
from devices.rocm import Rocm
from devices.xpu import Xpu
from selftests import accelerator_graph, sim
from selftests.faults import GRAPHS, GraphFault
from selftests.faults.hunt import SIMULATED, Hunt, hunt

BACKEND = sim.Sim()
DEVICE = "sim:0"
WAYS = ("device-graph", "native-graph")

pytestmark = pytest.mark.skipif(BACKEND.absent() is not None, reason=str(BACKEND.absent()))


@pytest.fixture(autouse=True)
def device() -> sim.Device:
    module = sim.enable()
    assert not module.plants
    assert module.recorder.recording is None
    return module


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, device: sim.Device) -> str:
    name: str = request.param
    if name == "device-graph":
        reason = accelerator_graph.register(sim.Device.Graph)
        if reason:
            pytest.skip(reason)
    return name


def matrices(seed: int, *shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def definite(A: torch.Tensor) -> torch.Tensor:
    return A.mH @ A + torch.eye(A.shape[-1], dtype=A.dtype)


def several(function: Callable[..., Any]) -> Callable[..., tuple[torch.Tensor, ...]]:
    def call(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = function(*operands)
        return (results,) if isinstance(results, torch.Tensor) else tuple(results)

    return call


def captured(
    function: Callable[..., Any], example: torch.Tensor, backend: Backend, device: str
) -> Call:
    return Call(
        function=several(function),
        operands=(example,),
        further=lambda number: (example.clone(),),
        backend=backend,
        device=device,
    )


def prepared(way: str, function: Callable[..., Any], example: torch.Tensor) -> Any:
    return CAPTURES[way].prepare(captured(function, example, BACKEND, DEVICE))


OPERATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "svd": torch.linalg.svd,
    "reduced svd": lambda A: torch.linalg.svd(A, full_matrices=False),
    "svdvals": torch.linalg.svdvals,
    "qr": torch.linalg.qr,
    "eigh": torch.linalg.eigh,
    "eigvalsh": torch.linalg.eigvalsh,
    "cholesky_ex": torch.linalg.cholesky_ex,
    "solve": lambda A: torch.cholesky_solve(A.conj(), A),
    "inverse": torch.cholesky_inverse,
    "geqrf": torch.geqrf,
    "householder": lambda A: torch.linalg.householder_product(*torch.geqrf(A)),
}

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "row-major": lambda A: A,
    "column-major": lambda A: A.mT,
    "sliced": lambda A: A[..., ::2, ::2],
    "conjugate": lambda A: A.conj(),
    "negative": lambda A: torch._neg_view(A),
    "expanded": lambda A: A[0].expand(3, *A.shape[1:]),
    "permuted": lambda A: A.transpose(0, 1).unsqueeze(0).transpose(1, 2),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_replays_are_right_on_new_data(way: str, operation: str) -> None:
    function = several(OPERATIONS[operation])
    hosts = [definite(matrices(seed, 3, 4, 4)) for seed in range(4)]
    run = prepared(way, OPERATIONS[operation], BACKEND.send(hosts[0], DEVICE))
    replays = [run(BACKEND.send(host, DEVICE)) for host in hosts[1:]]
    for host, results in zip(hosts[1:], replays, strict=True):  # the first after the last replay
        for result, expected in zip(results, function(host), strict=True):
            assert torch.equal(BACKEND.fetch(result), expected)
            assert result.stride() == expected.stride()
            assert result.dtype == expected.dtype


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_kept(way: str, layout: str) -> None:
    view = LAYOUTS[layout]
    hosts = [matrices(seed, 3, 4, 4) for seed in range(3)]
    run = prepared(way, torch.linalg.svdvals, view(BACKEND.send(hosts[0], DEVICE)))
    for host in hosts[1:]:
        (result,) = run(view(BACKEND.send(host, DEVICE)))
        assert torch.equal(BACKEND.fetch(result), torch.linalg.svdvals(view(host)))


def test_out_is_written_by_the_replay(way: str) -> None:
    out = torch.zeros(3, device=DEVICE)
    A = BACKEND.send(matrices(0, 4, 3, dtype=torch.float32), DEVICE)
    _, replay = BACKEND.record(DEVICE, lambda: torch.linalg.svdvals(A, out=out), way)
    host = matrices(1, 4, 3, dtype=torch.float32)
    A.copy_(BACKEND.send(host, DEVICE))
    replay()
    assert torch.equal(BACKEND.fetch(out), torch.linalg.svdvals(host))


def test_nothing_is_computed_before_the_first_replay(way: str) -> None:
    A = BACKEND.send(definite(matrices(0, 3, 3)), DEVICE)
    (L, info), replay = BACKEND.record(DEVICE, lambda: torch.linalg.cholesky_ex(A), way)
    assert BACKEND.fetch(L).isnan().all()
    assert BACKEND.fetch(info) != 0
    replay()
    assert BACKEND.fetch(info) == 0


def test_a_call_whose_error_is_read_by_the_host_is_refused(way: str) -> None:
    host = definite(matrices(0, 3, 3))
    A = BACKEND.send(host, DEVICE)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing") as caught:
            prepared(way, torch.linalg.cholesky, A)
        assert BACKEND.refusal(caught.value)
        assert torch.equal(BACKEND.fetch(torch.linalg.cholesky(A)), torch.linalg.cholesky(host))


@pytest.mark.parametrize("touch", ["transfer", "synchronize"])
def test_what_else_the_host_waits_for_is_refused(way: str, touch: str, device: sim.Device) -> None:
    def call(A: torch.Tensor) -> torch.Tensor:
        if touch == "transfer":
            return torch.linalg.svdvals(A) * A.cpu().abs().max()
        device.synchronize()
        return torch.linalg.svdvals(A)

    with pytest.raises(RuntimeError, match="not permitted"):
        prepared(way, call, BACKEND.send(matrices(0, 3, 3), DEVICE))


def test_an_error_while_replaying_is_raised(way: str) -> None:
    run = prepared(way, torch.linalg.svdvals, BACKEND.send(matrices(0, 3, 3), DEVICE))
    with pytest.raises(torch.linalg.LinAlgError, match="failed to converge"):
        run(BACKEND.send(torch.full((3, 3), torch.nan, dtype=torch.complex64), DEVICE))


def test_a_result_in_the_operand_s_memory_is_noticed(way: str) -> None:
    with pytest.raises(Shared, match="lies in the memory"):
        prepared(way, lambda A: A.mT, BACKEND.send(matrices(0, 3, 3), DEVICE))


def test_an_operand_that_a_replay_changes_is_noticed(way: str) -> None:
    run = prepared(way, lambda A: A.mul_(2) + 1, BACKEND.send(matrices(0, 3, 3), DEVICE))
    with pytest.raises(Shared, match="changed the operand"):
        run(BACKEND.send(matrices(1, 3, 3), DEVICE))


def test_a_device_that_cannot_capture_after_a_refusal_is_poisoned(
    way: str, device: sim.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device.recorder, "reads", {"_local_scalar_dense", "add"})
    with pytest.raises(Poisoned, match="a later capture fails") as caught:
        prepared(way, torch.linalg.cholesky, BACKEND.send(torch.eye(3), DEVICE))
    assert BACKEND.refusal(caught.value) is None

    def wrong(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        return compute(*args, **kwargs) * (2 if op == "add" else 1)

    monkeypatch.undo()
    with sim.plant(wrong), pytest.raises(Poisoned, match="wrong results"):
        prepared(way, torch.linalg.cholesky, BACKEND.send(torch.eye(3), DEVICE))


def test_a_graph_replays_only_what_it_has_captured(device: sim.Device) -> None:
    graph = sim.Device.Graph()
    with pytest.raises(RuntimeError, match="without a capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="not being captured"):
        graph.capture_end()
    with device.stream(sim.Device.Stream()):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="under way"):
            sim.Device.Graph().capture_begin()
        graph.capture_end()
        graph.replay()
        with pytest.raises(RuntimeError, match="captured already"):
            graph.capture_begin()
        graph.reset()
        graph.capture_begin()
        graph.capture_end()


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: operation not permitted when stream is capturing",
        "CUDA error: operation failed due to a previous error during capture",
        "HIP error: operation would make the legacy stream depend on a capturing blocking stream",
        "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor "
        "is pinned.",
        "wait cannot be called for a queue which is recording to a command graph.",
        "wait method cannot be used for an event associated with a command graph.",
    ],
)
def test_what_vendors_say_of_an_uncapturable_call_is_a_refusal(message: str) -> None:
    for backend in (Cuda(), Rocm(), Xpu()):
        assert backend.refusal(RuntimeError(message)) is not None
        assert not backend.fatal(RuntimeError(message))


def test_no_graph_class_is_no_refused_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sim.Device, "Graph")
    with pytest.raises(NoGraphs, match=r"has no torch\.sim\.Graph"):
        prepared("native-graph", torch.linalg.svdvals, torch.ones(1, 1, device=DEVICE))


def test_what_inductor_returns_is_copied_out() -> None:
    """Where there are no graphs to be recorded, all else is the same."""
    hosts = [matrices(seed, 4, 3, dtype=torch.float32) for seed in range(3)]
    capture = CAPTURES["reduce-overhead"]
    assert capture.missing(Cpu(), "cpu") == "cpu has no native-graphs"
    assert "inductor" in capture.missing(BACKEND, DEVICE)
    run = capture.prepare(captured(torch.linalg.svdvals, hosts[0], Cpu(), "cpu"))
    replays = [run(host) for host in hosts[1:]]
    for host, (result,) in zip(hosts[1:], replays, strict=True):
        torch.testing.assert_close(result, torch.linalg.svdvals(host))


def test_without_a_compiler_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    register = accelerator_graph.register.__wrapped__
    monkeypatch.setattr(accelerator_graph, "FOLDER", tmp_path)
    monkeypatch.setenv("CXX", "/nowhere/c++")
    assert "/nowhere/c++" in register(sim.Device.Graph)
    monkeypatch.setenv("CXX", "false")
    assert "no graph class could be compiled" in register(sim.Device.Graph)
    monkeypatch.delattr(torch.accelerator, "Graph", raising=False)
    assert "has no torch.accelerator.Graph" in register(sim.Device.Graph)


# --- the suite, on a device with graphs

NOTICED = {
    "graph-result-in-operand": "error",
    "graph-eigh-overwrites-operand": "error",
    "graph-error-check-dropped": "error",
    "graph-refusal-breaks-stream": "error",
    "graph-refusal-breaks-captures": "error",
}


def test_a_right_device_passes() -> None:
    hunter = Hunt("quick", **SIMULATED)
    cases = list(hunter.cases(frozenset(CAPTURED), WAYS))
    outcomes = [hunter.outcome(test, case) for test, case in cases]
    assert {o.verdict for o in outcomes} == {"pass", "unsupported"}
    refused = {Case.parse(o.case).operation for o in outcomes if o.verdict == "unsupported"}
    assert refused == {"cholesky"}
    assert len(outcomes) > 30


@pytest.mark.parametrize("fault", GRAPHS.values(), ids=lambda fault: fault.name)
def test_every_fault_of_graphs_is_caught(fault: GraphFault) -> None:
    catch = hunt((fault.name, "standard", 0, ""))
    assert catch.caught
    if fault.name in NOTICED:
        assert NOTICED[fault.name] in catch.measures
    elif fault.name != "graph-refusal-leaves-recording":  # an error that is no longer raised, too
        assert "error" not in catch.measures
