"""Device graphs: work recorded once on a stream, then replayed on what its inputs hold by then.

There are two ways: ``device-graph`` is PyTorch's one class for every accelerator, ``native-graph``
the class that the backend's own module has.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

WAYS = ("device-graph", "native-graph")
NATIVE = {"cuda": "CUDAGraph", "xpu": "XPUGraph"}  # other modules call theirs Graph


class NoGraphs(NotImplementedError):
    """This PyTorch, or this device, has no graphs of that kind: nothing was captured."""


def record(
    way: str, kind: str, device: torch.device, call: Callable[[], Any]
) -> tuple[Any, Callable[[], None]]:
    """Capture a call on a stream of its own: its results, and a function that replays it.

    If the call fails, the capture is ended and its graph destroyed before the error goes on, so
    that the stream and the allocator stay usable. `NoGraphs` if there is none to be had.
    """
    module = torch.get_device_module(kind)
    graph = new_graph(way, kind)
    with module.device(device):
        stream = module.Stream(device)
        stream.wait_stream(module.current_stream(device))
        with module.stream(stream):
            for _ in range(2):  # libraries set themselves up and allocate on first use
                call()
        module.synchronize(device)
        with module.stream(stream), _no_collection():
            graph.capture_begin()
            try:
                results = call()
            except BaseException:
                _abandon(graph)
                raise
            graph.capture_end()
        module.current_stream(device).wait_stream(stream)

    def replay() -> None:
        with module.device(device):
            graph.replay()

    return results, replay


def new_graph(way: str, kind: str) -> Any:
    """An empty graph of the class that goes by this way; `NoGraphs` if it is not there."""
    if way == "device-graph":
        name, module = "torch.accelerator.Graph", torch.accelerator
    else:
        name, module = f"torch.{kind}.{NATIVE.get(kind, 'Graph')}", torch.get_device_module(kind)
    found = getattr(module, name.rpartition(".")[2], None)
    if found is None:
        raise NoGraphs(f"PyTorch {torch.__version__} has no {name}")
    try:
        return found()
    except RuntimeError as error:  # the class is everybody's, the graphs are not
        raise NoGraphs(str(error)) from error


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage that is freed during a capture, an old graph among it, would break the capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _abandon(graph: Any) -> None:
    """End a failed capture; what it has to say adds nothing to the error that broke it."""
    for step in (graph.capture_end, graph.reset):
        try:
            step()
        except Exception:
            continue
