"""The prepared callable that is in use: compiling costs more than calling, so cases share one.

Cases that share one are run one after the other (``matrix``), so one is kept and no more: what the
compilers have cached for the last one goes with it, and no case meets another one's leftovers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable

import torch

from conformance.captures.base import Call, Capture, Function

_kept: dict[Hashable, Function] = {}


class NotCaptured(RuntimeError):
    """What should run the captured call runs the eager one, which proves nothing."""


def prepared(capture: Capture, key: Hashable, call: Callable[[], Call]) -> tuple[Function, float]:
    """The captured function and the seconds that preparing it took: 0 if it was there already.

    It has been called once, on the example operands, so that what compiles late has compiled.
    """
    if key in _kept:
        return _kept[key], 0.0
    forget()
    example = call()
    started, compiled = time.perf_counter(), compilations()
    function = capture.prepare(example)
    function(*example.operands)
    example.backend.synchronize(example.device)
    if capture.compiles and compilations() == compiled:
        raise NotCaptured("torch.compile has compiled nothing: the call was run eagerly")
    _kept[key] = function
    return function, time.perf_counter() - started


def forget() -> None:
    """Give up the callable, and what torch.compile has cached for it."""
    _kept.clear()
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def compilations() -> int:
    """How many graphs torch.compile has compiled in this process."""
    if "torch._dynamo" not in sys.modules:
        return 0
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])
