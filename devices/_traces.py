"""Which operations a call reached, the ones called inside kernels included.

PyTorch's dispatcher reports every call to its profilers. The oldest of them does no more than
listen: 0.1 ms for each use, and it prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._C import _profiler


@contextmanager
def calls() -> Iterator[set[str]]:
    """Names of the operations called inside, such as ``aten::_to_cpu``; filled in at the end."""
    names: set[str] = set()
    options = (False, False, False, False, False)  # shapes, memory, stacks, flops, modules
    config = _profiler.ProfilerConfig(
        _profiler.ProfilerState.CPU, *options, _profiler._ExperimentalConfig()
    )
    torch._C._autograd._enable_profiler_legacy(config)
    try:
        yield names
    finally:
        events = torch._C._autograd._disable_profiler_legacy()
        names.update(event.name() for thread in events for event in thread)
