"""JAX as a PyTorch device: torchax, whose tensors report the device ``jax``.

torchax brings no kernels that PyTorch could call. Its tensors are a subclass that wraps a
``jax.Array``, and two modes, which are in force only where they are entered, send every call on
them to JAX.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conformance_torchax.bridge import missing_overloads
from devices.base import Backend

HERE = Path(__file__).parent


class Jax(Backend):
    """JAX's default device: the first one of its default platform (``JAX_PLATFORMS``)."""

    name = "jax"
    compilers = ()  # torch.compile refuses to work under the modes of torchax
    negative = False
    subnormals = False  # XLA flushes them on the CPU
    strides = False  # a jax.Array has none; its tensor reports those of a contiguous one
    out = False
    keeps = 200  # cases, whose compiled code takes 4 MB each
    refusing = Backend.refusing | {"OperatorNotFound"}

    def devices(self) -> list[str]:
        return ["jax"] if find_spec("torchax") and find_spec("jax") else []

    def absent(self) -> str | None:
        return None if self.devices() else "torchax or jax is not installed"

    def setup(self) -> None:
        """Import torchax; let JAX keep 64-bit numbers and multiply with all their digits."""
        with missing_overloads():
            import torchax

            torchax.default_env()
        torchax.enable_accuracy_mode()

    def active(self, device: str) -> AbstractContextManager[Any]:
        """The modes of torchax, which it keeps for each thread."""
        import torchax

        return torchax.default_env()

    def describe(self, device: str) -> dict[str, str]:
        import jax

        platform = jax.devices()[0]
        libraries = {name: _version(name) for name in ("torchax", "jax", "jaxlib")}
        return {
            "name": f"{platform.device_kind} ({platform.platform})",
            "chip": platform.device_kind,
            "libraries": ", ".join(f"{name} {number}" for name, number in libraries.items()),
        }

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        """A host copy of the ``jax.Array`` behind a tensor or a view."""
        return torch.from_numpy(np.array(tensor.jax()))  # type: ignore[attr-defined]

    def synchronize(self, device: str) -> None:
        """Wait for every array that JAX is still computing."""
        import jax

        jax.block_until_ready(jax.live_arrays())

    def random_state(self) -> bytes:
        """The state of the host's generator, and the key that torchax splits for each draw."""
        import jax
        import torchax

        key = jax.random.key_data(torchax.default_env().prng_key)
        return torch.get_rng_state().numpy().tobytes() + np.array(key).tobytes()

    def cleanup(self, device: str) -> None:
        """Forget what was compiled: 4 MB for every case."""
        import jax

        jax.clear_caches()

    def tolerances(self) -> Path:
        return HERE / "tolerances.toml"

    def known_issues(self) -> Path:
        return HERE / "known_issues.toml"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
