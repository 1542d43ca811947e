"""Intel GPUs. Operations without a kernel run on the CPU, announced once per process at most."""

from __future__ import annotations

import torch

from devices._errors import BREAKAGES, FATALITIES
from devices._facts import chip, gibibytes
from devices.base import Backend


class Xpu(Backend):
    """SYCL and oneMKL."""

    name = "xpu"
    captures = ("device-graph", "native-graph")
    streams = True
    fallback_traces = ("aten::_to_cpu",)
    breakages = (*BREAKAGES, r"[Oo]ne(API )?MKL.*(exception|error)|mkl::.*exception")
    fatalities = (*FATALITIES, r"(UR|PI|ZE)_(RESULT_)?ERROR_(DEVICE_LOST|OUT_OF_RESOURCES|UNKNOWN)")

    def devices(self) -> list[str]:
        if not hasattr(torch, "xpu") or not torch.xpu.is_available():
            return []
        return [f"xpu:{index}" for index in range(torch.xpu.device_count())]

    def absent(self) -> str | None:
        if self.devices():
            return None
        built = hasattr(torch, "xpu") and torch.xpu._is_compiled()
        return "no device or no driver was found" if built else "this PyTorch is built without XPU"

    def dtypes_on(self, device: str) -> tuple[str, ...]:
        """Client GPUs before the B series compute in single precision only."""
        properties = torch.xpu.get_device_properties(self.torch_device(device))
        return self.dtypes if properties.has_fp64 else ("float32", "complex64")

    def describe(self, device: str) -> dict[str, str]:
        properties = torch.xpu.get_device_properties(self.torch_device(device))
        facts = {
            "name": properties.name,
            "chip": chip(properties.name),
            "memory": gibibytes(properties.total_memory),
            "driver": properties.driver_version,
            "libraries": f"{properties.platform_name}, xpu {torch.version.xpu}",
        }
        return {key: value for key, value in facts.items() if value}
