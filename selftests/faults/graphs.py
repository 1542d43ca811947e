"""Right when called, wrong when recorded and replayed: faults of a device's graphs.

No CPU has graphs, so these are planted in the simulated device (``selftests/sim.py``) and hunted
there, on the cases that replay graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils._pytree import tree_leaves

from selftests import sim
from selftests.sim_graphs import Graph

from .promises import ERRORS, GRAPH, INFO, REFUSAL, UNTOUCHED

Results = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class GraphFault:
    """A defect of the simulated device's graphs; ``plant`` switches it on."""

    name: str
    operations: tuple[str, ...]
    trigger: str
    corruption: str
    promise: str
    plant: Callable[[], AbstractContextManager[None]]
    kind: str = "graphs"
    report: str = ""


@dataclass
class Replay:
    """A factorization that is done again: what it had and gave at the capture, and since."""

    captured: torch.Tensor
    results: Results
    last: torch.Tensor | None = None
    before: Results = ()


Compute = Callable[[torch.Tensor], Results]
Effect = Callable[[Replay, torch.Tensor, Compute], Results]

FACTORS = {
    "svd": "_linalg_svd",
    "svdvals": "_linalg_svd",
    "eigh": "_linalg_eigh",
    "eigvalsh": "_linalg_eigh",
    "qr": "linalg_qr",
    "cholesky_ex": "linalg_cholesky_ex",
}
EVERY = tuple(FACTORS)


def replaying(effect: Effect, operations: tuple[str, ...] = EVERY) -> Callable[[], Any]:
    """``effect(replay, A, compute)`` gives the results of every replayed factorization."""
    names = {FACTORS[operation] for operation in operations}

    def planted() -> sim.Planted:
        known: WeakKeyDictionary[Graph, Replay] = WeakKeyDictionary()

        def plant(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
            recorder = sim.enable().recorder
            if op not in names:
                return compute(*args, **kwargs)
            if recorder.recording is not None:
                results = compute(*args, **kwargs)
                known[recorder.recording] = Replay(args[0].clone(), copies(results))
                return results
            replay = known.get(recorder.replaying) if recorder.replaying is not None else None
            if replay is None:
                return compute(*args, **kwargs)
            given = args[0].clone()
            results = effect(replay, args[0], lambda A: tuple(compute(A, *args[1:], **kwargs)))
            replay.last, replay.before = given, copies(results)
            return results

        return sim.plant(plant)

    return planted


def copies(results: Any) -> Results:
    return tuple(result.clone() for result in results)


# --- what a replay does wrong


def stale(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    return compute(replay.captured)


def stale_from_the_second(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    return compute(A if replay.last is None else replay.last)


def scale_baked_in(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    now, then = (x.abs().amax() if x.numel() else torch.ones(()) for x in (A, replay.captured))
    return compute(A * (then / now).to(A.dtype))


def imaginary_part_baked_in(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    return compute(torch.complex(A.real, replay.captured.imag) if A.is_complex() else A)


def first_of_batch_only(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    results = compute(A)
    if A.ndim < 3 or not A.numel():
        return results
    kept = copies(replay.results)
    first = (0,) * (A.ndim - 2)
    for new, old in zip(results, kept, strict=True):
        if new.numel():
            old[first] = new[first]
    return kept


def info_sticks(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    L, info = compute(A)
    before = (replay.before or replay.results)[1]
    return L, torch.where(info > 0, info, before)


def added_up(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    results = compute(A)
    if not replay.before:
        return results
    return tuple(new + old for new, old in zip(results, replay.before, strict=True))


def dense(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    return compute(A.as_strided(A.shape, torch.empty(A.shape, device="meta").stride()))


def overwriting(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    results = compute(A)
    A.zero_()
    return results


def info_of_the_capture(replay: Replay, A: torch.Tensor, compute: Compute) -> Results:
    L, _ = compute(A)
    return L, replay.results[1]


# --- what a device does wrong around a graph


@contextmanager
def check_dropped() -> Iterator[None]:
    """What the host would read is taken for right while a graph is recorded."""
    recorder = sim.enable().recorder
    before, recorder.reads = recorder.reads, set()
    try:
        yield
    finally:
        recorder.reads = before


@contextmanager
def after_refusal(then: Callable[..., Any], begin: bool = False) -> Iterator[None]:
    """``then`` computes, or begins captures, once a capture has been refused."""
    original, original_begin = Graph.capture_end, Graph.capture_begin
    refused: list[bool] = []

    def capture_end(self: Graph) -> None:
        refused.extend([True] * self.broken)
        original(self)

    def capture_begin(self: Graph) -> None:
        if refused and begin:
            then()
        original_begin(self)

    def plant(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        eager = sim.enable().recorder.recording is None
        strikes = refused and not begin and eager and op in FACTORS.values()
        return then(compute(*args, **kwargs)) if strikes else compute(*args, **kwargs)

    with ExitStack() as stack:
        stack.callback(setattr, Graph, "capture_end", original)
        stack.callback(setattr, Graph, "capture_begin", original_begin)
        Graph.capture_end, Graph.capture_begin = capture_end, capture_begin  # type: ignore[method-assign]
        stack.enter_context(sim.plant(plant))
        yield


def broken_stream(*results: Any) -> Any:
    raise RuntimeError("operation failed due to a previous error during capture")


def recorded_not_computed(results: Any) -> Any:
    for result in results:
        result.zero_()
    return results


@contextmanager
def memory_given_away() -> Iterator[None]:
    """New tensors are put where the results of the last replay lie."""
    original = Graph.replay
    last: list[Graph] = []

    def replay(self: Graph) -> None:
        original(self)
        last[:] = [self]

    def plant(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        recorder = sim.enable().recorder
        if last and recorder.recording is None and recorder.replaying is None:
            last.pop().steps[-1].forget()
        return compute(*args, **kwargs)

    with ExitStack() as stack:
        stack.callback(setattr, Graph, "replay", original)
        Graph.replay = replay  # type: ignore[method-assign]
        stack.enter_context(sim.plant(plant))
        yield


@contextmanager
def in_place() -> Iterator[None]:
    """A result as large as its operand is put into the operand's memory."""
    original = Graph.capture_end

    def capture_end(self: Graph) -> None:
        original(self)
        for step in self.steps:
            results = [t for t in tree_leaves(step.keeps[2:]) if isinstance(t, torch.Tensor)]
            operands = [t for t in tree_leaves(step.keeps[:1]) if isinstance(t, torch.Tensor)]
            for number, result in enumerate(results if operands else ()):
                memory = operands[0].untyped_storage()
                if result.numel() and memory.nbytes() == result.untyped_storage().nbytes():
                    result.set_(memory, 0, result.size(), result.stride())
                    step.targets[number] = sim.on_host(result)

    with ExitStack() as stack:
        stack.callback(setattr, Graph, "capture_end", original)
        Graph.capture_end = capture_end  # type: ignore[method-assign]
        yield


REFUSED = ("cholesky",)

# fmt: off
FAULTS: tuple[GraphFault, ...] = (
    GraphFault("graph-stale-input", EVERY, "replay",
        "the matrix of the capture is factored again", GRAPH, replaying(stale)),
    GraphFault("graph-second-replay-stale", EVERY, "from the second replay on",
        "the matrix of the replay before is factored again", GRAPH,
        replaying(stale_from_the_second)),
    GraphFault("graph-scale-baked-in", EVERY, "replay",
        "the matrix is scaled by what was its largest entry at the capture", GRAPH,
        replaying(scale_baked_in)),
    GraphFault("graph-imaginary-part-baked-in", EVERY, "replay, complex",
        "the imaginary part is that of the capture", GRAPH, replaying(imaginary_part_baked_in)),
    GraphFault("graph-first-of-batch-only", EVERY, "replay, batch",
        "all but the first matrix keep the results of the capture", GRAPH,
        replaying(first_of_batch_only)),
    GraphFault("graph-qr-adds-up", ("qr",), "from the second replay on",
        "results are added to those of the replay before", GRAPH, replaying(added_up, ("qr",))),
    GraphFault("graph-svd-strides-forgotten", ("svd", "svdvals"), "replay, not row-major",
        "memory is read as if it were row-major", GRAPH, replaying(dense, ("svd", "svdvals"))),
    GraphFault("graph-eigh-overwrites-operand", ("eigh", "eigvalsh"), "replay",
        "the operand is used as workspace", UNTOUCHED,
        replaying(overwriting, ("eigh", "eigvalsh"))),
    GraphFault("graph-result-in-operand", EVERY, "capture, a result as large as the operand",
        "it lies in the operand's memory", UNTOUCHED, in_place),
    GraphFault("graph-cholesky-info-of-capture", ("cholesky_ex",), "replay",
        "info is that of the capture", INFO, replaying(info_of_the_capture, ("cholesky_ex",))),
    GraphFault("graph-cholesky-info-sticks", ("cholesky_ex",), "after a replay that failed",
        "info stays", INFO, replaying(info_sticks, ("cholesky_ex",))),
    GraphFault("graph-results-given-away", EVERY, "new tensor after a replay",
        "it gets the memory of the graph's results", GRAPH, memory_given_away),
    GraphFault("graph-error-check-dropped", REFUSED, "capture",
        "what the host must read is captured as if all were well", ERRORS, check_dropped),
    GraphFault("graph-refusal-breaks-stream", REFUSED, "after a refused capture",
        "eager calls fail", REFUSAL, lambda: after_refusal(broken_stream)),
    GraphFault("graph-refusal-leaves-recording", REFUSED, "after a refused capture",
        "eager calls are recorded, not computed", REFUSAL,
        lambda: after_refusal(recorded_not_computed)),
    GraphFault("graph-refusal-breaks-captures", REFUSED, "after a refused capture",
        "later captures fail", REFUSAL, lambda: after_refusal(broken_stream, begin=True)),
)
