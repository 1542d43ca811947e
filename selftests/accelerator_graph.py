"""Lets ``torch.accelerator.Graph`` drive the simulated device's graphs, where a compiler is there.

PyTorch takes a backend's graphs from C++ only. ``accelerator_graph.cpp`` is the smallest such
class: it hands each step to a Python function. It is compiled once for each PyTorch, in two
seconds, into ``__pycache__``; it needs no headers but PyTorch's own.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

SOURCE = Path(__file__).with_suffix(".cpp")
FOLDER = SOURCE.parent / "__pycache__"
STEP = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_char_p)
_served: list[Any] = []  # what C++ calls must not be collected


@cache
def register(new: Callable[[], Any]) -> str:
    """Let ``torch.accelerator.Graph`` be made of ``new()``; why it cannot, or "".

    The device must have its name by now. Once per process.
    """
    if not hasattr(torch.accelerator, "Graph"):
        return f"PyTorch {torch.__version__} has no torch.accelerator.Graph"
    try:
        library = ctypes.CDLL(str(compiled()))
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return f"no graph class could be compiled: {said.strip().splitlines()[0]}"
    graphs: dict[int, Any] = {}

    @STEP
    def step(number: int, name: bytes) -> None:
        try:
            if name == b"new":
                graphs[number] = new()
            elif name == b"delete":
                graphs.pop(number, None)
            else:
                getattr(graphs[number], name.decode())()
        except Exception as error:
            text = str(error) or type(error).__name__
            library.fail(text.encode(), isinstance(error, torch.linalg.LinAlgError))

    library.serve.argtypes, library.fail.argtypes = [STEP], [ctypes.c_char_p, ctypes.c_bool]
    library.serve(step)
    _served.append(step)
    atexit.register(library.serve, STEP())  # graphs that are still there then have nobody to ask
    return ""


def compiled() -> Path:
    """The shared library for this PyTorch, compiled if need be. OSError or SubprocessError."""
    command = _command()
    key = hashlib.sha256(SOURCE.read_bytes() + repr((torch.__version__, command)).encode())
    library = FOLDER / f"{SOURCE.stem}.{key.hexdigest()[:16]}.so"
    if not library.exists():
        FOLDER.mkdir(exist_ok=True)
        own = library.with_suffix(f".{os.getpid()}")  # workers may compile at the same time
        subprocess.run(
            [*command, "-o", own], check=True, capture_output=True, text=True, timeout=90
        )
        own.replace(library)
    return library


def _command() -> list[str]:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None or sys.platform == "win32":
        raise FileNotFoundError("no C++ compiler (c++, g++ or $CXX) was found")
    torch_home = Path(torch.__file__).parent
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    return [
        *(compiler, "-std=c++20", "-O0", "-fPIC", "-shared", *undefined),
        *(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", "-w"),
        *(f"-I{torch_home / 'include'}", str(SOURCE)),
        *(f"-L{torch_home / 'lib'}", "-ltorch_cpu", "-lc10"),
    ]
