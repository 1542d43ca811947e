"""What a capture is.

How do I add a capture?

1. Write ``prepare(call)`` in a module of this package, one idea per module. It gets the function
   and example operands, like those it will be judged on in shape, dtype, layout and device, but
   other data: a constant baked in at capture time must not go unseen. It returns a function that is
   called with the real operands, again and again, and returns fresh tensors each time. What can be
   done before the real operands are there (tracing, compiling, warming up) is done in ``prepare``,
   which is timed apart.
2. Say in ``missing`` why it cannot be had: an older torch, a backend without it. Its cases are then
   ``unsupported`` with that reason. Touch nothing at import that torch 2.9 lacks.
3. Name it in the module's ``CAPTURES`` and list the module in this package's ``__init__``.

It joins the captured plans (``conformance/plans.py``) and is judged like the eager call. An error
that refuses the call cleanly (``Backend.refusal``) is ``unsupported``, any other is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from devices.base import Backend

Tensors = tuple[torch.Tensor, ...]
Function = Callable[..., Tensors]


@dataclass(frozen=True)
class Call:
    """What is captured: a function of tensors, example operands for it, and where they live.

    ``further(k)`` are more such operands, which share no memory with any. ``batch`` is the number
    of batch axes.
    """

    function: Function
    operands: Tensors
    backend: Backend
    device: str
    further: Callable[[int], Tensors] = lambda number: ()
    batch: int = 0


def nothing(backend: Backend, device: str) -> str:
    """Nothing is missing."""
    return ""


@dataclass(frozen=True)
class Capture:
    """A way to run a call.

    ``missing(backend, device)`` says why it cannot be had there, "" if it can. ``dynamic``: one
    captured function takes every shape with the same number of axes and sizes of at least
    ``smallest``. ``needs`` is "batch" or "". With several ``ways`` (branches, say) the captured
    function takes the number of one as ``way``. ``compiles`` says that torch.compile has to have
    compiled something. ``relaid``: what was captured for one layout takes any other, without being
    captured again. One that is not ``common`` is left out by `quick`: all that compile, for
    setting the compiler up costs seconds.
    """

    name: str
    doc: str
    prepare: Callable[[Call], Function]
    missing: Callable[[Backend, str], str] = nothing
    dynamic: bool = False
    smallest: int = 0
    ways: int = 1
    needs: str = ""
    compiles: bool = False
    relaid: bool = False
    common: bool = False


def switched_off(what: str, **switches: str) -> str:
    """Says so where an environment variable has the value that turns ``what`` off, else ""."""
    for name, value in switches.items():
        if os.environ.get(name) == value:
            return f"{what} is switched off by {name}={value}"
    return ""


def find(name: str) -> Any:
    """What the dotted name stands for in torch, or None where this torch does not have it."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute, None)
    except ImportError:
        return None
