"""NVIDIA GPUs. ROCm builds answer to ``torch.cuda`` too and are told apart by their build."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from devices._errors import BREAKAGES, FATALITIES, chain
from devices._facts import chip, gibibytes
from devices.base import Backend

#: cudaError_t values (hipError_t where it has them) after which the process must be relaunched, as
#: CUDA's driver_types.h says of each, and those for memory (214) and context (709) beyond repair.
STICKY = frozenset({214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})


class TorchCuda(Backend):
    """What CUDA and ROCm share: they are one device type in PyTorch."""

    captures = ("device-graph", "native-graph")
    streams = True
    fatalities = (*FATALITIES, r"context is destroyed|CUDA_ERROR_(ASSERT|ILLEGAL)")

    @property
    def type(self) -> str:
        return "cuda"

    def built(self) -> str | None:
        """Why this PyTorch cannot have such a device, or None if it can."""
        raise NotImplementedError

    def devices(self) -> list[str]:
        if self.built() is not None or not torch.cuda.is_available():
            return []
        return [f"{self.name}:{index}" for index in range(torch.cuda.device_count())]

    def absent(self) -> str | None:
        reason = self.built()
        if reason is not None:
            return reason
        return None if self.devices() else "built for it, but no device or no driver was found"

    def setup(self) -> None:
        """Prefer one library where CONFORMANCE_LINALG says so: cusolver, hipsolver, magma.

        For the operations that PyTorch has it for; PyTorch has a variable for cuSOLVER only.
        """
        library = os.environ.get("CONFORMANCE_LINALG")
        if library:
            torch.backends.cuda.preferred_linalg_library(library)

    def fatal(self, error: BaseException) -> bool:
        codes = {getattr(link, "error_code", None) for link in chain(error)}
        return bool(codes & STICKY) or super().fatal(error)


class Cuda(TorchCuda):
    """CUDA: cuSOLVER, cuBLAS and, where linked, MAGMA."""

    name = "cuda"
    breakages = (*BREAKAGES, r"(cusolver|cublas|magma) error|CUSOLVER_STATUS|CUBLAS_STATUS")

    def built(self) -> str | None:
        if torch.version.hip is not None:
            return f"this PyTorch is built for ROCm {torch.version.hip}: ask for rocm"
        if torch.version.cuda is None:
            return "this PyTorch is built without CUDA"
        return None

    def describe(self, device: str) -> dict[str, str]:
        where = self.torch_device(device)
        properties = torch.cuda.get_device_properties(where)
        facts = {
            "name": properties.name,
            "chip": chip(properties.name),
            "capability": f"{properties.major}.{properties.minor}",
            "memory": gibibytes(properties.total_memory),
            "driver": driver(),
            "libraries": f"cuda {torch.version.cuda}, cusolver {cusolver()}",
            "linalg": str(torch.backends.cuda.preferred_linalg_library()).split(".")[-1].lower(),
            "magma": "yes" if torch.cuda.has_magma else "no",
        }
        return {key: value for key, value in facts.items() if value}

    def svd_drivers(self, device: str) -> tuple[str, ...]:
        return ("gesvd", "gesvdj", "gesvda")

    def jacobi_svd(self, driver: str | None) -> bool:
        return driver == "gesvdj"


def driver() -> str:
    """The kernel driver's version, as the system or else nvidia-smi tells it."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
        found = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", text)
        if found:
            return found.group(1)
    except OSError:
        pass
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return ""
    return lines[0] if lines else ""


def cusolver() -> str:
    """The version of the cuSOLVER package that PyTorch's wheel brought; else unknown."""
    major = str(torch.version.cuda).split(".")[0]
    for package in ("nvidia-cusolver", f"nvidia-cusolver-cu{major}"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "unknown"
