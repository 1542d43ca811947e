"""Device graphs: work recorded once on a stream, then replayed on what its inputs hold by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def record(
    kind: str, device: torch.device, call: Callable[[], Any]
) -> tuple[Any, Callable[[], None]]:
    """Capture a call on a stream of its own: its results, and a function that replays it.

    If the call fails, the capture is ended and its graph destroyed before the error goes on, so
    that the stream and the allocator stay usable.
    """
    module = torch.get_device_module(kind)
    with module.device(device):
        stream = module.Stream(device)
        stream.wait_stream(module.current_stream(device))
        with module.stream(stream):
            for _ in range(2):  # libraries set themselves up and allocate on first use
                call()
        module.synchronize(device)
        graph = _new_graph(kind)
        with module.stream(stream):
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


def _new_graph(kind: str) -> Any:
    """``torch.accelerator.Graph``, or the backend's own class before PyTorch had that one."""
    if hasattr(torch.accelerator, "Graph"):
        return torch.accelerator.Graph()
    name = {"cuda": "CUDAGraph", "xpu": "XPUGraph"}.get(kind, "Graph")
    graph = getattr(torch.get_device_module(kind), name, None)
    if graph is None:
        raise NotImplementedError(f"PyTorch {torch.__version__} has no graphs for {kind}")
    return graph()


def _abandon(graph: Any) -> None:
    """End a failed capture; what it has to say adds nothing to the error that broke it."""
    for step in (graph.capture_end, graph.reset):
        try:
            step()
        except Exception:
            continue
