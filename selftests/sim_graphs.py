"""The simulated accelerator's streams, and its graphs: computations recorded, then done again.

Work is done at once on every stream. What a graph makes visible is kept all the same: a replay
reads and writes the memory that was there at the capture, results hold nothing (NaN) before the
first replay, and what the host would have to wait for is refused during a capture, which then
cannot be ended in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

#: Operations whose result the host reads: they cannot be captured.
READS = frozenset({"_local_scalar_dense"})


class Stream:
    """A stream, which only knows who it is."""

    def __init__(self, device: object = None) -> None:
        self.device = device

    def wait_stream(self, other: Stream) -> None:
        """Nothing to wait for: all work is done."""

    def synchronize(self) -> None:
        """The same."""


@dataclass
class Step:
    """One recorded computation: ``work`` gives host results, written to ``targets``.

    ``targets`` alias memory of the device; ``keeps`` are the device's tensors that own memory.
    """

    work: Callable[[], list[torch.Tensor]]
    targets: list[torch.Tensor]
    keeps: Any

    def again(self) -> None:
        """Compute from what the arguments hold now, into where the results were put."""
        for target, value in zip(self.targets, self.work(), strict=True):
            target.copy_(value)

    def forget(self) -> None:
        """Leave nothing in the results: during a capture nothing is computed."""
        for target in self.targets:
            target.fill_(torch.nan if target.is_floating_point() or target.is_complex() else -77)


@dataclass
class Recorder:
    """The part of ``torch.sim`` that streams and graphs share."""

    default: Stream = field(default_factory=Stream)
    current: Stream = field(default_factory=Stream)
    recording: Graph | None = None
    replaying: Graph | None = None
    reads: set[str] = field(default_factory=lambda: set(READS))

    def __post_init__(self) -> None:
        self.current = self.default

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        """Within, work goes to this stream."""
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def note(self, step: Step) -> None:
        """Add a computation to the graph that is being captured, if there is one."""
        if self.recording is not None:
            self.recording.steps.append(step)

    def waits(self, what: str) -> None:
        """The host waits for the device here: an error, and the capture broken, in a capture."""
        if self.recording is not None:
            self.recording.broken = True
            raise RuntimeError(
                f"sim error: operation not permitted when stream is capturing: {what}"
            )

    def computes(self, name: str) -> None:
        """An operation is called."""
        if self.recording is not None and self.recording.broken:
            raise RuntimeError("sim error: operation failed due to a previous error during capture")
        if name in self.reads:
            self.waits(name)


class Graph:
    """``torch.sim.Graph``, with the methods that the graph classes of PyTorch have in common."""

    def __init__(self) -> None:
        self.recorder: Recorder = torch.get_device_module("sim").recorder
        self.steps: list[Step] = []
        self.broken = False
        self.ready = False

    def capture_begin(self) -> None:
        """Record what is called from now on, on a stream other than the default one."""
        if self.recorder.current is self.recorder.default:
            raise RuntimeError("sim graphs must be captured on a non-default stream")
        if self.recorder.recording is not None or self.ready:
            raise RuntimeError("a capture is under way, or this graph has been captured already")
        self.recorder.recording = self

    def capture_end(self) -> None:
        """Stop recording; an error if something was called that cannot be recorded."""
        if self.recorder.recording is not self:
            raise RuntimeError("this graph is not being captured")
        self.recorder.recording = None
        if self.broken:
            self.steps.clear()
            raise RuntimeError("sim error: operation failed due to a previous error during capture")
        for step in self.steps:
            step.forget()
        self.ready = True

    def replay(self) -> None:
        """Do the recorded computations again."""
        if not self.ready:
            raise RuntimeError("replay without a capture that was ended in order")
        self.recorder.replaying = self
        try:
            for step in self.steps:
                step.again()
        finally:
            self.recorder.replaying = None

    def reset(self) -> None:
        """Forget the recorded computations."""
        self.steps.clear()
        self.broken = self.ready = False
