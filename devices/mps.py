"""Apple silicon. float32 and complex64 only; large or rare cases may run on the CPU, silently."""

from __future__ import annotations

import os
import platform

import torch

from devices._errors import BREAKAGES, FALLBACKS, FATALITIES
from devices._facts import gibibytes
from devices.base import Backend


class Mps(Backend):
    """Metal. The one device has no number."""

    name = "mps"
    dtypes = ("float32", "complex64")
    subnormals = False
    fallback_warnings = (*FALLBACKS, r"not (currently )?supported on the MPS backend")
    fallback_traces = ("aten::_to_cpu",)
    breakages = (*BREAKAGES, r"Metal|XPC_ERROR|MTL[A-Z]\w+|threadgroup")
    fatalities = (
        *FATALITIES,
        r"[Cc]ommand buffer.*(error|fail|abort)|kIOGPUCommandBuffer",
        r"XPC_ERROR_CONNECTION|Compiler encountered an internal error",
    )

    def devices(self) -> list[str]:
        return ["mps"] if torch.backends.mps.is_available() else []

    def absent(self) -> str | None:
        if self.devices():
            return None
        if not torch.backends.mps.is_built():
            return "this PyTorch is built without MPS"
        return "no Metal device was found, or macOS is too old"

    def describe(self, device: str) -> dict[str, str]:
        name = name_of_gpu()
        return {
            "name": name,
            "chip": name.removeprefix("Apple ").replace(" ", "-"),
            "memory": gibibytes(torch.mps.recommended_max_memory()),
            "driver": platform.mac_ver()[0] or platform.release(),
            "libraries": f"macOS {platform.mac_ver()[0]}",
            "fallback": "allowed" if fallback_allowed() else "off",
        }

    def jacobi_svd(self, driver: str | None) -> bool:
        """The native kernel of PyTorch 2.14 is a one-sided Jacobi method; earlier ones are not."""
        return torch.__version__ >= "2.14"

    def synchronize(self, device: str) -> None:
        torch.mps.synchronize()


def name_of_gpu() -> str:
    """Metal's name of the GPU, which PyTorch tells since 2.10."""
    get_name = getattr(torch.backends.mps, "get_name", None)
    return get_name() if get_name is not None else f"Apple GPU ({platform.machine()})"


def fallback_allowed() -> bool:
    """Whether PYTORCH_ENABLE_MPS_FALLBACK lets missing operations run on the CPU."""
    return os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", "0") not in ("", "0")
