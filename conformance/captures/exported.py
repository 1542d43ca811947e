"""torch.export: one shape, every shape, and after a round trip through a file."""

from __future__ import annotations

import io
from typing import Any

import torch

from conformance.captures.base import Call, Capture, Function, Tensors


class Module(torch.nn.Module):
    """The call as the module that export asks for."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: torch.Tensor) -> Tensors:
        return self.function(*operands)


def _static(call: Call) -> Function:
    return torch.export.export(Module(call.function), call.operands).module()


def _dynamic(call: Call) -> Function:
    shapes: Any = tuple(dict.fromkeys(range(t.ndim), torch.export.Dim.AUTO) for t in call.operands)
    module = Module(call.function)
    exported = torch.export.export(module, call.operands, dynamic_shapes={"operands": shapes})
    return exported.module()


def _saved(call: Call) -> Function:
    file = io.BytesIO()
    torch.export.save(torch.export.export(Module(call.function), call.operands), file)
    file.seek(0)
    return torch.export.load(file).module()


CAPTURES = (
    Capture("export", "torch.export, one shape", _static, relaid=True),
    Capture(
        "export-dynamic",
        "torch.export, dynamic in shape",
        _dynamic,
        dynamic=True,
        smallest=2,
        relaid=True,
    ),
    Capture("export-saved", "torch.export, saved, loaded and run", _saved, relaid=True),
)
