"""torch.compile, static and dynamic in shape, by code generation and without."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from conformance.captures.base import Call, Capture, Function, switched_off
from devices.base import Backend


def compiled(compiler: str, dynamic: bool) -> Callable[[Call], Function]:
    """Compile the whole call as one graph: a graph break is an error."""

    def prepare(call: Call) -> Function:
        return torch.compile(call.function, dynamic=dynamic, **options(compiler))

    return prepare


def options(compiler: str) -> dict[str, Any]:
    """How torch.compile is called. Graphs of other processes must not stand in for this one's."""
    fresh = {"options": {"fx_graph_cache": False}} if compiler == "inductor" else {}
    return {"backend": compiler, "fullgraph": True, **fresh}


def compiles(compiler: str) -> Callable[[Backend, str], str]:
    """Missing where the backend has no such compiler, or torch.compile would only call eagerly."""

    def missing(backend: Backend, device: str) -> str:
        if compiler not in backend.compilers:
            return f"torch.compile's {compiler} generates no code for {backend.name}"
        off = switched_off("torch.compile", TORCHDYNAMO_DISABLE="1", TORCH_COMPILE_DISABLE="1")
        return off or (unwritable() if compiler == "inductor" else "")

    return missing


def unwritable() -> str:
    """Says so where Inductor cannot store the code that it generates, else ""."""
    folder = ""
    try:
        folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir()
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"Inductor cannot write its code into {folder or 'a folder'}: {error.strerror}"


def _capture(name: str, compiler: str, dynamic: bool) -> Capture:
    shape = "dynamic in shape" if dynamic else "one shape"
    return Capture(
        name,
        f"torch.compile, {compiler}, {shape}",
        compiled(compiler, dynamic),
        compiles(compiler),
        dynamic=dynamic,
        compiles=True,
    )


CAPTURES = (
    _capture("inductor", "inductor", dynamic=False),
    _capture("inductor-dynamic", "inductor", dynamic=True),
    _capture("aot-eager", "aot_eager", dynamic=False),
    _capture("aot-eager-dynamic", "aot_eager", dynamic=True),
)
