"""XLA devices, through torch_xla: ``PJRT_DEVICE`` says which (``CPU``, ``TPU``, ``CUDA``).

Calls are recorded, not executed: what is asked for is compiled for its shapes when somebody wants
to see it, or at ``torch_xla.sync``.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from devices.base import Backend

HERE = Path(__file__).parent


class Xla(Backend):
    """The first XLA device. What XLA cannot do, torch_xla has the CPU do, without a word."""

    name = "xla"
    compilers = ()  # torch.compile(backend="openxla") runs what the lazy tensors run
    strides = False  # tensors report those of contiguous ones
    subnormals = False  # XLA flushes them on the CPU
    fallback_traces = ("aten::_to_cpu",)
    # What could not be lowered stays recorded, and every later synchronisation trips over it.
    fatalities = (*Backend.fatalities, "Error while lowering", "Check failed: tensor_data")

    def devices(self) -> list[str]:
        return ["xla:0"] if find_spec("torch_xla") else []

    def absent(self) -> str | None:
        return None if self.devices() else "torch_xla is not installed"

    def setup(self) -> None:
        """Make the device. Code for 256 shapes is kept, not for 2048: each takes a megabyte."""
        os.environ.setdefault("XLA_COMPILATION_CACHE_SIZE", "256")
        import torch_xla

        torch_xla.device()

    def describe(self, device: str) -> dict[str, str]:
        import torch_xla.runtime as runtime

        kind = runtime.device_type() or os.environ.get("PJRT_DEVICE", "")
        return {
            "name": f"{kind} through PJRT",
            "chip": kind,
            "libraries": f"torch_xla {version('torch_xla')}",
        }

    def synchronize(self, device: str) -> None:
        """Compile and run what was recorded for the tensors that are alive, and wait for it."""
        import torch_xla

        torch_xla.sync(wait=True)

    def tolerances(self) -> Path:
        return HERE / "tolerances.toml"

    def known_issues(self) -> Path:
        return HERE / "known_issues.toml"
