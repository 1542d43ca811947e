"""The CPU: the device every machine has, and the path every other device is compared with."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import torch

from devices._facts import gibibytes
from devices.base import Backend


class Cpu(Backend):
    """Host LAPACK through ATen: MKL, OpenBLAS, Accelerate, as PyTorch was built."""

    name = "cpu"
    accelerator = False
    deterministic = True

    def devices(self) -> list[str]:
        return ["cpu"]

    def describe(self, device: str) -> dict[str, str]:
        facts = {
            "name": processor(),
            "chip": platform.machine(),
            "memory": memory(),
            "libraries": lapack(),
            "threads": str(torch.get_num_threads()),
            "vectors": torch.backends.cpu.get_cpu_capability(),
        }
        return {key: value for key, value in facts.items() if value}

    def synchronize(self, device: str) -> None:
        """Nothing is left undone when a CPU call returns."""

    def cleanup(self, device: str) -> None:
        """The allocator keeps no cache of its own."""


def processor() -> str:
    """The processor's own name, where the system tells."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def memory() -> str:
    """Physical memory, where the system tells."""
    try:
        return gibibytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return ""


def lapack() -> str:
    """The library behind torch.linalg on the CPU, with its version if known: ``mkl 2024.2``."""
    text = torch.__config__.show()
    mkl = re.search(r"Math Kernel Library Version ([\d.]+)", text)
    if mkl:
        return f"mkl {mkl.group(1)}"
    named = re.search(r"LAPACK_INFO=(\w+)|BLAS_INFO=(\w+)", text)
    if named:
        return (named.group(1) or named.group(2)).lower()
    return "lapack" if torch._C.has_lapack else "none"
