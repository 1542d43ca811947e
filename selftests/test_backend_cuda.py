"""CUDA and ROCm, which PyTorch calls by one name, against a stand-in for ``torch.cuda``."""

from __future__ import annotations

import subprocess
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import devices
from devices.cuda import Cuda, TorchCuda, cusolver
from devices.cuda import driver as nvidia_driver
from devices.rocm import Rocm
from devices.rocm import driver as amd_driver
from selftests.stand_ins import calls, properties, stand_in


def gpus(monkeypatch: pytest.MonkeyPatch, hip: str | None, **facts: Any) -> None:
    # not a device that an earlier test of this process has enabled
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")
    cuda = None if hip else "13.0"
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    found = properties("_CudaDeviceProperties", total_memory=80 * 2**30, **facts)
    stand_in(
        monkeypatch,
        "cuda",
        torch.cuda,
        is_available=lambda: True,
        device_count=lambda: 2,
        get_device_properties=lambda device: found if device.type == "cuda" else None,
    )


def test_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, None, name="NVIDIA H100 80GB HBM3", major=9, minor=0)
    monkeypatch.setattr("devices.cuda.driver", lambda: "580.65.06")
    monkeypatch.setattr("devices.cuda.cusolver", lambda: "12.0.4")
    found = devices.discover()
    assert [t.id for t in devices.select("cuda:*", found)] == ["cuda:0", "cuda:1"]
    assert [t.id for t in devices.select(None, found)] == ["cuda:0"]
    cuda = found["cuda"]
    facts = {
        "name": "NVIDIA H100 80GB HBM3",
        "chip": "H100",
        "capability": "9.0",
        "memory": "80.0 GiB",
        "driver": "580.65.06",
        "libraries": "cuda 13.0, cusolver 12.0.4",
        "linalg": "default",
        "magma": "yes",
    }
    monkeypatch.setattr(torch.cuda, "has_magma", True)
    assert cuda.describe("cuda:1") == facts
    monkeypatch.setattr(torch.cuda, "has_magma", False)
    monkeypatch.setattr("devices.cuda.driver", lambda: "")
    del facts["driver"]
    assert cuda.describe("cuda:1") == {**facts, "magma": "no"}
    assert cuda.torch_device("cuda:1") == torch.device("cuda:1")
    assert cuda.svd_drivers("cuda:0") == ("gesvd", "gesvdj", "gesvda")
    assert cuda.streams
    assert cuda.captures == ("device-graph", "native-graph")
    assert [cuda.jacobi_svd(d) for d in (None, "gesvd", "gesvdj")] == [False, False, True]
    cuda.synchronize("cuda:1")
    cuda.cleanup("cuda:1")
    assert [call[:2] for call in calls] == [("cuda", "synchronize"), ("cuda", "empty_cache")]
    assert calls[0][2] == (torch.device("cuda:1"),)


def test_rocm_is_not_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, "7.1", name="AMD Instinct MI300X", gcnArchName="gfx942:sramecc+:xnack-")
    monkeypatch.setattr("devices.rocm.driver", lambda: "6.16.13")
    found = devices.discover()
    assert [t.id for t in devices.select("rocm:1", found)] == ["rocm:1"]
    assert [t.id for t in devices.select("rocm:*", found)] == ["rocm:0", "rocm:1"]
    assert [t.id for t in devices.select(None, found)] == ["rocm:0"]
    with pytest.raises(devices.DeviceError, match=r"built for ROCm 7\.1: ask for rocm"):
        devices.select("cuda", found)
    rocm = found["rocm"]
    facts = {
        "name": "AMD Instinct MI300X",
        "chip": "gfx942",
        "memory": "80.0 GiB",
        "driver": "6.16.13",
        "libraries": "rocm 7.1",
        "linalg": "default",
        "magma": "yes",
    }
    monkeypatch.setattr(torch.cuda, "has_magma", True)
    assert rocm.describe("rocm:1") == facts
    monkeypatch.setattr(torch.cuda, "has_magma", False)
    monkeypatch.setattr("devices.rocm.driver", lambda: "")
    del facts["driver"]
    assert rocm.describe("rocm:1") == {**facts, "magma": "no"}
    assert rocm.torch_device("rocm:1") == torch.device("cuda:1")
    assert rocm.svd_drivers("rocm:0") == ()
    rocm.synchronize("rocm:1")
    assert calls == [("cuda", "synchronize", (torch.device("cuda:1"),))]


def test_cuda_is_not_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, None, name="NVIDIA H100", major=9, minor=0)
    with pytest.raises(devices.DeviceError, match=r"this PyTorch is not built for ROCm\. "):
        devices.select("rocm", devices.discover())
    assert Rocm().devices() == []


def test_cuda_says_why_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert Cuda().absent() == "this PyTorch is built without CUDA"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Cuda().absent() == "built for it, but no device or no driver was found"
    assert Cuda().devices() == []
    with pytest.raises(NotImplementedError):
        TorchCuda().built()


def test_the_library_that_the_environment_asks_for_is_preferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    gpus(monkeypatch, None, name="NVIDIA H100", major=9, minor=0)

    def prefer(name: str | None = None) -> str:
        asked.extend([name] if name else [])
        return f"_LinalgBackend.{(asked or ['default'])[-1].title()}"

    monkeypatch.setattr(torch.backends.cuda, "preferred_linalg_library", prefer)
    monkeypatch.delenv("CONFORMANCE_LINALG", raising=False)
    Cuda().setup()
    assert asked == []
    monkeypatch.setenv("CONFORMANCE_LINALG", "magma")
    Cuda().setup()
    Rocm().setup()
    assert asked == ["magma", "magma"]
    assert Cuda().describe("cuda:0")["linalg"] == "magma"


def test_an_unknown_library_is_an_error_that_names_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus(monkeypatch, None, name="NVIDIA H100", major=9, minor=0)
    monkeypatch.setenv("CONFORMANCE_LINALG", "lapack")
    with pytest.raises(devices.DeviceError, match=r"cannot be set up: .*default.*cusolver.*magma"):
        devices.select("cuda", devices.discover())


def test_the_version_of_cusolver_is_its_package_s(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"nvidia-cusolver": "12.0", "nvidia-cusolver-cu12": "11.7"}

    def version(package: str) -> str:
        try:
            return there[package]
        except KeyError:
            raise PackageNotFoundError(package) from None

    monkeypatch.setattr("devices.cuda.version", version)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert cusolver() == "12.0"
    del there["nvidia-cusolver"]
    assert cusolver() == "11.7"
    monkeypatch.setattr(torch.version, "cuda", "11.8")
    assert cusolver() == "unknown"


def test_the_nvidia_driver_is_asked_where_the_kernel_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    told = {
        "open": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build",
        "closed": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19",
    }
    text = told["open"]

    def read(self: Path) -> str:
        seen.append(str(self))
        return text

    monkeypatch.setattr(Path, "read_text", read)
    assert nvidia_driver() == "580.65.06"
    text = told["closed"]
    assert nvidia_driver() == "535.104.05"
    assert set(seen) == {"/proc/driver/nvidia/version"}

    def run(*arguments: Any, **options: Any) -> SimpleNamespace:
        seen.append((arguments, options))
        return SimpleNamespace(stdout=stdout)

    def missing(*_: Any, **options: Any) -> str:
        raise FileNotFoundError

    def late(*_: Any, **options: Any) -> str:
        raise subprocess.TimeoutExpired("nvidia-smi", 20)

    monkeypatch.setattr("subprocess.run", run)
    stdout, text = "535.1\n535.1\n", "no version in it"
    assert nvidia_driver() == "535.1"
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    assert seen[-1] == ((command,), {"capture_output": True, "text": True, "timeout": 20})
    monkeypatch.setattr(Path, "read_text", missing)
    assert nvidia_driver() == "535.1"
    stdout = ""
    assert nvidia_driver() == ""
    for fails in (missing, late):
        monkeypatch.setattr("subprocess.run", fails)
        assert nvidia_driver() == ""


def test_the_amd_driver_is_the_kernel_module_s(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    def read(self: Path) -> str:
        paths.append(str(self))
        if len(paths) > 1:
            raise FileNotFoundError
        return "6.16.13\n"

    monkeypatch.setattr(Path, "read_text", read)
    assert [amd_driver(), amd_driver()] == ["6.16.13", ""]
    assert set(paths) == {"/sys/module/amdgpu/version"}
