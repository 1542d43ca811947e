"""Dynamic dimensions declared once, by ``torch.fx.experimental.dynamic_spec`` (PyTorch 2.14).

The same declaration is given to torch.compile, torch.export and make_fx: a square matrix has one
size twice, every other size is its own. Declared sizes are unbacked: nothing is specialised for
0 and 1, but nothing may be asked of them either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from conformance.captures.base import Call, Capture, Function, Tensors
from conformance.captures.compiled import compiles, options
from devices.base import Backend

_MODULE = "torch.fx.experimental.dynamic_spec"


def declared(operands: Tensors) -> Any:
    """The declaration for the operands: the sizes of a square matrix are one variable."""
    from torch.fx.experimental import dynamic_spec

    def spec(operand: torch.Tensor) -> Any:
        *batch, m, n = operand.shape
        axes = [dynamic_spec.ShapeVar(f"batch{i}") for i in range(len(batch))]
        rows = dynamic_spec.ShapeVar("m")
        columns = rows if m == n else dynamic_spec.ShapeVar("n")
        return dynamic_spec.TensorSpec([*axes, rows, columns])

    return dynamic_spec.ParamsSpec({"*args": [spec(operand) for operand in operands]})


def _compiled(call: Call) -> Function:
    spec: Any = {"dynamic_shapes": declared(call.operands)}
    return torch.compile(call.function, **options("aot_eager"), **spec)


def _exported(call: Call) -> Function:
    class Module(torch.nn.Module):
        def forward(self, *operands: torch.Tensor) -> Tensors:
            return call.function(*operands)

    spec = declared(call.operands)
    return torch.export.export(Module(), call.operands, dynamic_shapes=spec).module()


def _traced(call: Call) -> Function:
    from torch.fx.experimental.proxy_tensor import make_fx

    spec: Any = {"dynamic_shapes": declared(call.operands)}
    return make_fx(call.function, tracing_mode="fake", **spec)(*call.operands)


def _missing(backend: Backend, device: str) -> str:
    if "dynamic_shapes" in inspect.signature(torch.compile).parameters:
        return ""  # the three of them came together
    return f"PyTorch {torch.__version__} takes no {_MODULE}"


def _not_compiled(backend: Backend, device: str) -> str:
    return _missing(backend, device) or compiles("aot_eager")(backend, device)


def _capture(name: str, what: str, prepare: Callable[[Call], Function]) -> Capture:
    told = f"{what}, dimensions declared by dynamic_spec"
    return Capture(name, told, prepare, _missing, dynamic=True, smallest=2, relaid=True)


CAPTURES = (
    replace(
        _capture("spec-compile", "torch.compile, aot_eager", _compiled),
        missing=_not_compiled,
        compiles=True,
        relaid=False,
    ),
    _capture("spec-export", "torch.export", _exported),
    _capture("spec-make-fx", "make_fx", _traced),
)
