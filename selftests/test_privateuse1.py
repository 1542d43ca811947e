"""Out-of-tree devices are found under whatever name they registered, or it is said why not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor.codegen import common

import devices
from conformance.__main__ import main
from devices.privateuse1 import PrivateUse1
from selftests.fake_device import ONE, plugin
from selftests.runs import ROOT

Register = Callable[..., SimpleNamespace]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Registers a name and, with any functions, a module ``torch.NAME`` that has them."""

    def register(name: str, **functions: Any) -> SimpleNamespace:
        monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: name)
        module = SimpleNamespace(**functions)
        if functions:
            monkeypatch.setattr(torch, name, module, raising=False)
        # torch.device() knows the names that are registered in truth
        monkeypatch.setattr(PrivateUse1, "torch_device", lambda self, device: f"<{device}>")
        return module

    return register


@pytest.mark.parametrize("name", ["npu", "my_chip", "hpu2"])
def test_any_name_is_found(register: Register, name: str) -> None:
    register(name, device_count=lambda: 2)
    found = devices.discover()
    assert "privateuse1" not in found
    assert (found[name].name, found[name].type) == (name, name)
    assert [target.id for target in devices.select(f"{name}:*", found)] == [
        f"{name}:0",
        f"{name}:1",
    ]
    assert [target.id for target in devices.select(None, found)] == [f"{name}:0"]
    assert found[name].describe(f"{name}:1") == {"name": f"{name}:1"}


def test_its_module_is_asked(register: Register) -> None:
    calls = []
    module = register(
        "npu",
        __version__="2.9.0",
        device_count=lambda: 1,
        is_available=lambda: True,
        get_device_properties=lambda device: SimpleNamespace(name=device, total_memory=2**35),
        synchronize=lambda device: calls.append(device),
    )
    npu = devices.discover()["npu"]
    assert npu.devices() == ["npu:0"]
    assert npu.absent() is None
    facts = {"name": "<npu:0>", "libraries": "2.9.0", "memory": "32.0 GiB"}
    assert npu.describe("npu:0") == facts
    npu.synchronize("npu:0")
    assert calls == ["<npu:0>"]
    module.get_device_properties = lambda device: SimpleNamespace()
    assert npu.describe("npu:0") == {"name": "npu:0", "libraries": "2.9.0"}


ABSENT: list[tuple[dict[str, Any], str]] = [
    ({}, "torch.npu is missing: no such module; was its package imported?"),
    ({"is_available": lambda: True}, "torch.npu has no device_count(): how many devices there are"),
    ({"device_count": lambda: 0}, "torch.npu finds no device"),
    ({"device_count": lambda: 2, "is_available": lambda: False}, "torch.npu finds no device"),
]


@pytest.mark.parametrize(("functions", "reason"), ABSENT, ids=lambda value: ",".join(value))
def test_why_it_is_absent(register: Register, functions: dict[str, Any], reason: str) -> None:
    register("npu", **functions)
    npu = devices.discover()["npu"]
    assert npu.devices() == []
    assert npu.absent() == reason
    with pytest.raises(devices.DeviceError, match=r"'npu' is not there: torch\.npu "):
        devices.select("npu", {"npu": npu})


def test_a_name_registered_after_discovery_is_found_by_the_next(register: Register) -> None:
    register("privateuseone")
    early = devices.discover()["privateuse1"]
    assert early.type == "privateuseone"
    assert early.absent() == "no out-of-tree backend has registered itself with PyTorch"
    register("npu", device_count=lambda: 1)
    assert early.devices() == []
    assert early.absent() == "registered as npu after the devices were listed: ask for that"
    assert devices.discover()["npu"].devices() == ["npu:0"]


def test_a_silent_fallback_is_looked_for() -> None:
    assert PrivateUse1().fallback_traces == ("aten::_to_cpu",)


def test_inductor_compiles_for_it_where_it_was_told_how(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("npu", device_count=lambda: 1)
    asked = []
    monkeypatch.setattr(common, "init_backend_registration", lambda: asked.append(True))
    npu = PrivateUse1()
    assert npu.compilers == ("aot_eager",)
    monkeypatch.setattr(common, "device_codegens", dict(common.device_codegens))
    common.register_backend_for_device("npu", lambda scheduler: None, lambda *args: None)  # type: ignore[arg-type,return-value]
    assert npu.compilers == ("inductor", "aot_eager")
    assert asked == [True, True]


# --- plug-ins for such a device replace the generic one

OWN = """
from devices.privateuse1 import PrivateUse1
class Own(PrivateUse1):
    dtypes = ("float32",)
"""
OWN_NAME = OWN.replace("Own", "Named") + "    name = 'one'\n"


@pytest.mark.parametrize(("text", "kind"), [(ONE, "One"), (OWN, "Own"), (OWN_NAME, "Named")])
def test_a_plugin_replaces_the_generic_one(
    register: Register, tmp_path: Path, text: str, kind: str
) -> None:
    register("one", device_count=lambda: 1)
    assert type(devices.discover()["one"]) is PrivateUse1
    found = devices.discover([plugin(tmp_path, text, f"{kind}.py")])
    assert type(found["one"]).__name__ == kind
    assert found["one"].devices() == ["one:0"]


def test_a_plugin_keeps_the_name_it_has(register: Register, tmp_path: Path) -> None:
    register("other", device_count=lambda: 1)
    found = devices.discover([plugin(tmp_path, OWN_NAME, "keeps.py")])
    assert {"one", "other"} <= set(found)
    with pytest.raises(devices.DeviceError, match="two backends are named 'one'"):
        devices.discover([tmp_path / "keeps.py", plugin(tmp_path, ONE, "second.py")])


REGISTERING = """
import torch
from types import SimpleNamespace
from devices.privateuse1 import PrivateUse1
torch.utils.rename_privateuse1_backend("one")
torch._register_device_module("one", SimpleNamespace(device_count=lambda: 2))
class Own(PrivateUse1):
    name = "one"
"""


def test_a_plugin_that_registers_the_name_itself(tmp_path: Path) -> None:
    """In a process of its own: PyTorch takes one name, once."""
    file = plugin(tmp_path, REGISTERING, "registering.py")
    command = [sys.executable, "-m", "conformance", "devices", f"--device-plugin={file}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line]
    assert [line[:2] for line in lines if line[0].startswith("one")] == [
        ["one:0", "one:0"],
        ["one:1", "one:1"],
    ]
    assert not [line for line in lines if "privateuse1" in line]


def test_the_command_says_why_none_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    if torch._C._get_privateuse1_backend_name() != "privateuseone":
        pytest.skip("this process has an out-of-tree device")
    assert main(["devices"]) == 0
    assert "privateuse1  no out-of-tree backend has registered" in capsys.readouterr().out
