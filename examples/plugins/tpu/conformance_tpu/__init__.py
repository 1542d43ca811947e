"""TPUs as PyTorch devices, through torch_tpu; any PJRT plug-in library can stand for a TPU.

torch_tpu registers the device when PyTorch is imported, if there is a TPU. Without one it has to
be told to, and given another library: ``TPU_LIBRARY_PATH``.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch

from devices.base import Backend

HERE = Path(__file__).parent


class Tpu(Backend):
    """The one TPU that a process has. Each call is compiled for its shapes, once."""

    name = "tpu"
    compilers = ("aot_eager",)  # Inductor is refused; torch_tpu has a compiler of its own
    subnormals = False  # XLA flushes them
    fallback_traces = ("aten::_to_cpu",)

    def devices(self) -> list[str]:
        return [] if self.absent() else ["tpu:0"]

    def absent(self) -> str | None:
        if not find_spec("torch_tpu"):
            return "torch_tpu is not installed"
        registered = torch._C._get_privateuse1_backend_name() == "tpu"
        if registered or library().name not in ("", "libtpu.so"):
            return None
        return "no TPU is attached, and TPU_LIBRARY_PATH names no library in its place"

    def setup(self) -> None:
        """Register the device, where PyTorch's import has not done so, and start its runtime."""
        from torch_tpu._loader import _init_device

        _init_device("tpu")
        torch.zeros(1).to("tpu")

    def describe(self, device: str) -> dict[str, str]:
        kind = torch.tpu._get_local_device_attributes()["device_kind"]  # type: ignore[attr-defined]
        return {
            "name": f"{kind} through {library().name}",
            "chip": kind,
            "libraries": f"torch_tpu {version('torch_tpu')}",
        }

    def synchronize(self, device: str) -> None:
        """As everybody is told to: ``torch.tpu.synchronize`` is for PyTorch's own use."""
        torch.accelerator.synchronize(self.torch_device(device))

    def random_state(self) -> bytes:
        """The states of the host's generator and of the device's."""
        own = torch.tpu.default_generators[0].get_state()  # type: ignore[attr-defined]
        return b"".join(state.numpy().tobytes() for state in (torch.get_rng_state(), own))

    def tolerances(self) -> Path:
        return HERE / "tolerances.toml"

    def known_issues(self) -> Path:
        return HERE / "known_issues.toml"


def library() -> Path:
    """The PJRT plug-in library that torch_tpu runs; it sets libtpu's where none is named."""
    return Path(os.environ.get("TPU_LIBRARY_PATH", ""))
