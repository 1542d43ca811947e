"""Traces of one run: make_fx with real, symbolic and fake tensors, and TorchScript's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch

from conformance.captures.base import Call, Capture, Function, switched_off
from devices.base import Backend


def _traced(mode: Literal["real", "fake", "symbolic"]) -> Callable[[Call], Function]:
    def prepare(call: Call) -> Function:
        from torch.fx.experimental.proxy_tensor import make_fx

        return make_fx(call.function, tracing_mode=mode)(*call.operands)

    return prepare


def scripted(call: Call) -> Function:
    """torch.jit.trace. That it is deprecated must be told, by a warning that Python shows.

    RuntimeError where it is not.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function = torch.jit.trace(call.function, call.operands, check_trace=False)
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    hidden = DeprecationWarning, PendingDeprecationWarning
    told = [w for w in caught if "deprecated" in str(w.message)]
    if DEPRECATED and not any(not issubclass(w.category, hidden) for w in told):
        raise RuntimeError("torch.jit.trace does not say visibly that it is deprecated")
    return function


def _not_scripted(backend: Backend, device: str) -> str:
    return switched_off("TorchScript", PYTORCH_JIT="0")


DEPRECATED = torch.__version__ >= (2, 14)  # type: ignore[operator] # TorchVersion takes tuples

CAPTURES = (
    Capture(
        "make-fx", "make_fx, traced with real tensors", _traced("real"), common=True, relaid=True
    ),
    Capture("make-fx-fake", "make_fx, traced with fake tensors", _traced("fake"), relaid=True),
    Capture(
        "make-fx-symbolic",
        "make_fx, traced with symbolic sizes",
        _traced("symbolic"),
        dynamic=True,
        smallest=2,
        relaid=True,
    ),
    Capture(
        "jit-trace",
        "TorchScript's trace, deprecated and saying so",
        scripted,
        _not_scripted,
        relaid=True,
    ),
)
