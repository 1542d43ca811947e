"""Device graphs: the call is recorded once, then replayed on what its operands' memory holds.

The example operands are the graph's own memory. For each replay the real operands are copied into
them, and the results, which the next replay overwrites, are copied out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from conformance.captures.base import Call, Capture, Function, Tensors
from conformance.captures.compiled import compiles
from devices.base import Backend, NoGraphs


class Poisoned(RuntimeError):
    """A refused capture left something behind: a later, ordinary capture does not work."""


class Shared(RuntimeError):
    """A graph's results lie in, or were written to, its operands' memory."""


def graph(call: Call, way: str) -> Function:
    """The call recorded on its example operands; a refusal must leave everything usable."""
    buffers = call.operands
    with recovering(call, way):
        results, replay = call.backend.record(call.device, lambda: call.function(*buffers), way)
    check_memory(results, buffers)

    def replayed(*operands: torch.Tensor) -> Tensors:
        for buffer, operand in zip(buffers, operands, strict=True):
            fill(buffer, operand)
        replay()
        other_work = [torch.full_like(result, -1) for result in results]
        copies = tuple(map(copied, results))
        del other_work  # it must not have got the memory of the results
        for buffer, operand in zip(buffers, operands, strict=True):
            if bits(call.backend, buffer) != bits(call.backend, operand):
                raise Shared("the replay has changed the operand that it was given")
        return copies

    return replayed


def reduced(call: Call) -> Function:
    """The call compiled into graphs that Inductor records and replays, on addresses of its own."""
    compiled = torch.compile(call.function, mode="reduce-overhead", fullgraph=True, dynamic=False)

    def run(*operands: torch.Tensor) -> Tensors:
        torch.compiler.cudagraph_mark_step_begin()  # what was returned before may be overwritten
        return tuple(map(copied, compiled(*operands)))

    with recovering(call, "native-graph"):
        for _ in range(3):  # warms up, records, replays
            run(*call.operands)
    return run


@contextmanager
def recovering(call: Call, way: str) -> Iterator[None]:
    """Within, a capture may be refused, but then it must leave everything usable."""
    try:
        yield
    except NoGraphs:
        raise
    except Exception as error:
        if call.backend.refusal(error) is not None:
            check_recovery(call.backend, call.device, way)
        raise


def check_recovery(backend: Backend, device: str, way: str) -> None:
    """After a refused capture, another graph can be recorded and replays on new data.

    Raises `Poisoned`, and not what went wrong, which may read like a refusal.
    """
    try:
        buffer = backend.send(torch.arange(3.0), device)
        result, replay = backend.record(device, lambda: buffer + 1, way)
        buffer.copy_(backend.send(torch.arange(5.0, 8.0), device))
        replay()
        right = torch.equal(backend.fetch(result), torch.arange(6.0, 9.0))
    except Exception as error:
        raise Poisoned(f"a later capture fails: {type(error).__name__}") from None
    if not right:
        raise Poisoned("a later capture gives wrong results")


def check_memory(results: Tensors, operands: Tensors) -> None:
    """Results have memory of their own, or the next operands would overwrite them."""
    owned = {operand.untyped_storage().data_ptr() for operand in operands if operand.numel()}
    if any(result.untyped_storage().data_ptr() in owned for result in results if result.numel()):
        raise Shared("a result lies in the memory of an operand")


def fill(buffer: torch.Tensor, operand: torch.Tensor) -> None:
    """Copy into memory where several elements may share a place (stride 0)."""
    with torch.no_grad():
        for axis, (size, stride) in enumerate(zip(buffer.shape, buffer.stride(), strict=True)):
            if size > 1 and stride == 0:
                buffer, operand = buffer.narrow(axis, 0, 1), operand.narrow(axis, 0, 1)
        buffer.copy_(operand)


def copied(result: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of the original."""
    like = torch.empty_strided(
        result.size(), result.stride(), dtype=result.dtype, device=result.device
    )
    return like.copy_(result.detach())


def bits(backend: Backend, tensor: torch.Tensor) -> bytes:
    """What the tensor holds."""
    return backend.fetch(tensor).numpy().tobytes()


def _without(way: str) -> Callable[[Backend, str], str]:
    def missing(backend: Backend, device: str) -> str:
        return "" if way in backend.captures else f"{backend.name} has no {way}s"

    return missing


def _no_reduced(backend: Backend, device: str) -> str:
    return compiles("inductor")(backend, device) or _without("native-graph")(backend, device)


CAPTURES = (
    Capture(
        "device-graph",
        "recorded and replayed by ``torch.accelerator.Graph``",
        partial(graph, way="device-graph"),
        _without("device-graph"),
        common=True,
    ),
    Capture(
        "native-graph",
        "... by the graph class of the device's own module, such as ``torch.cuda.CUDAGraph``",
        partial(graph, way="native-graph"),
        _without("native-graph"),
    ),
    Capture(
        "reduce-overhead",
        'torch.compile with ``mode="reduce-overhead"``: compiled, then recorded and replayed',
        reduced,
        _no_reduced,
        compiles=True,
    ),
)
