"""AMD GPUs. PyTorch calls them ``cuda``; only the build tells (``torch.version.hip``)."""

from __future__ import annotations

from pathlib import Path

import torch

from devices._errors import BREAKAGES
from devices._facts import gibibytes
from devices.cuda import TorchCuda


class Rocm(TorchCuda):
    """ROCm: hipSOLVER, rocSOLVER and, where linked, MAGMA."""

    name = "rocm"
    breakages = (*BREAKAGES, r"(hipsolver|rocsolver|hipblas|rocblas|cusolver|magma) error")

    def built(self) -> str | None:
        if torch.version.hip is None:
            return "this PyTorch is not built for ROCm"
        return None

    def describe(self, device: str) -> dict[str, str]:
        properties = torch.cuda.get_device_properties(self.torch_device(device))
        facts = {
            "name": properties.name,
            "chip": properties.gcnArchName.split(":")[0],
            "memory": gibibytes(properties.total_memory),
            "driver": driver(),
            "libraries": f"rocm {torch.version.hip}",
            "linalg": str(torch.backends.cuda.preferred_linalg_library()).split(".")[-1].lower(),
            "magma": "yes" if torch.cuda.has_magma else "no",
        }
        return {key: value for key, value in facts.items() if value}


def driver() -> str:
    """The kernel driver's version, where the system tells (its own module, or the kernel's)."""
    try:
        return Path("/sys/module/amdgpu/version").read_text().strip()
    except OSError:
        return ""
