"""Ways to run a call. Eager is the first; compiled, exported and replayed ones plug in here.

A capture is told the function and operands like those it will be judged on, and returns something
that is called with the real ones: that keeps a constant baked in at capture time visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Function = Callable[..., tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Capture:
    """``prepare(function, operands)`` returns the captured function; ``missing()`` why it cannot.

    ``operands`` are other data of the same shape, dtype, device and layout as the case's own.
    """

    name: str
    doc: str
    prepare: Callable[[Function, tuple[Any, ...]], Function]
    missing: Callable[[], str] = lambda: ""


CAPTURES: dict[str, Capture] = {
    capture.name: capture
    for capture in (
        Capture("eager", "the plain call", prepare=lambda function, operands: function),
    )
}
