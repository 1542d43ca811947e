"""Any out-of-tree backend that registered itself with PyTorch under a name of its own.

Such a package is imported with PyTorch (entry point ``torch.backends``), or by a plug-in that
imports it and subclasses ``PrivateUse1`` with what the defaults do not fit, or ``Backend``: this
one then steps aside.
"""

from __future__ import annotations

from typing import Any

import torch

from devices._facts import gibibytes
from devices.base import Backend

UNREGISTERED = "privateuseone"  # PyTorch's name of the device type until a package gives it one
UNNAMED = "privateuse1"  # and ours


class PrivateUse1(Backend):
    """The device behind PyTorch's PrivateUse1 key, under the name that it was given."""

    name = UNNAMED
    fallback_traces = ("aten::_to_cpu",)

    def __init__(self) -> None:
        registered = torch._C._get_privateuse1_backend_name()
        if self.name == UNNAMED and registered != UNREGISTERED:
            self.name = registered

    @property
    def generic(self) -> bool:  # type: ignore[override]
        """A subclass is somebody's plug-in."""
        return type(self) is PrivateUse1

    @property
    def type(self) -> str:
        return UNREGISTERED if self.name == UNNAMED else self.name

    @property
    def compilers(self) -> tuple[str, ...]:  # type: ignore[override]
        """Inductor generates code for out-of-tree devices that have told it how."""
        from torch._inductor.codegen import common

        common.init_backend_registration()  # asks the backend's module, once per process
        known = common.get_scheduling_for_device(self.type) is not None
        return ("inductor", "aot_eager") if known else ("aot_eager",)

    @property
    def module(self) -> Any:
        """``torch.NAME``, where the package registered one."""
        return getattr(torch, self.type, None)

    def devices(self) -> list[str]:
        count, available = (getattr(self.module, n, None) for n in ("device_count", "is_available"))
        if count is None or (available is not None and not available()):
            return []
        return [f"{self.name}:{index}" for index in range(count())]

    def absent(self) -> str | None:
        if self.devices():
            return None
        if self.type == UNREGISTERED:
            registered = torch._C._get_privateuse1_backend_name()
            if registered != UNREGISTERED:
                return f"registered as {registered} after the devices were listed: ask for that"
            return "no out-of-tree backend has registered itself with PyTorch"
        if self.module is None:
            return f"torch.{self.type} is missing: no such module; was its package imported?"
        if not hasattr(self.module, "device_count"):
            return f"torch.{self.type} has no device_count(): how many devices there are"
        return f"torch.{self.type} finds no device"

    def describe(self, device: str) -> dict[str, str]:
        facts = {"name": device, "libraries": str(getattr(self.module, "__version__", ""))}
        ask = getattr(self.module, "get_device_properties", None)
        if ask is not None:
            properties = ask(self.torch_device(device))
            facts["name"] = str(getattr(properties, "name", device))
            memory = getattr(properties, "total_memory", None)
            facts["memory"] = gibibytes(memory) if memory else ""
        return {key: value for key, value in facts.items() if value}
