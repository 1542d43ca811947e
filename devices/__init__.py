"""Which devices there are, and which of them a run asks for.

Backends are found in this folder, through entry points of the group ``linalg_conformance.devices``
and in the files given by ``--device-plugin``. ``devices/base.py`` says how to write one.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from devices._errors import first_line
from devices.base import Backend

__all__ = ["GROUP", "Backend", "DeviceError", "Target", "discover", "select", "set_up"]

#: The entry point group of installed plug-ins.
GROUP = "linalg_conformance.devices"


class DeviceError(ValueError):
    """A usage error about devices or plug-ins; the message is for the user, as it stands."""


@dataclass(frozen=True)
class Target:
    """One device of one backend: what a case runs on."""

    backend: Backend
    device: str

    @property
    def id(self) -> str:
        """The device's name in case ids and reports: ``cpu``, ``cuda:0``, ``rocm:1``."""
        return self.device


def discover(plugin_files: Iterable[str | Path] = ()) -> dict[str, Backend]:
    """All backends by name, whether a device of theirs is present or not.

    Raises:
        DeviceError: a plug-in cannot be loaded, holds no backend, or takes a name that is taken.
    """
    found = _from_entry_points()
    found += [pair for file in plugin_files for pair in _from_file(Path(file))]
    found += _from_folder()
    claimed = {backend.type for _, backend in found if not backend.generic}
    backends: dict[str, Backend] = {}
    origins: dict[str, str] = {}
    for origin, backend in found:
        name = _checked_name(origin, backend)
        if backend.generic and name in claimed:
            continue
        if name in backends and type(backend) is type(backends[name]):
            continue  # a plug-in that is installed, and given as a file as well
        if name in backends:
            raise DeviceError(f"two backends are named '{name}': {origins[name]} and {origin}")
        backends[name], origins[name] = backend, origin
    return dict(sorted(backends.items()))


def select(spec: str | None, backends: Mapping[str, Backend]) -> list[Target]:
    """The devices that ``--device`` asks for, set up and ready, each once.

    ``cuda`` is the first CUDA device, ``cuda:1`` the second, ``cuda:*`` every one, ``cuda,cpu``
    both and ``all`` every device of every backend. None is the first device of each accelerator
    that is present, or the CPU where there is none.

    Raises:
        DeviceError: a name is unknown, a device is not there, or it cannot be set up.
    """
    if spec is None:
        present = [b for b in backends.values() if b.accelerator and b.absent() is None]
        targets = [Target(b, b.devices()[0]) for b in present]
        targets = targets or [t for b in backends.values() if not b.accelerator for t in _all(b)]
    else:
        words = [word.strip() for word in spec.split(",")]
        if not all(words):
            raise DeviceError(f"--device '{spec}': a name is missing. {present_devices(backends)}")
        targets = [target for word in words for target in _named(word, backends)]
    targets = list(dict.fromkeys(targets))
    if not targets:
        raise DeviceError(f"no device at all. {present_devices(backends)}")
    for backend in dict.fromkeys(target.backend for target in targets):
        set_up(backend)
    return targets


def present_devices(backends: Mapping[str, Backend]) -> str:
    """A sentence that lists the devices that are there."""
    return f"Present: {', '.join(t.id for b in backends.values() for t in _all(b)) or 'none'}."


def _all(backend: Backend) -> list[Target]:
    return [Target(backend, device) for device in backend.devices()]


def _named(word: str, backends: Mapping[str, Backend]) -> list[Target]:
    if word == "all":
        return [target for backend in backends.values() for target in _all(backend)]
    name, colon, index = word.partition(":")
    backend = backends.get(name) or _by_type(name, backends)
    if backend is None:
        known = ", ".join(backends)
        raise DeviceError(
            f"unknown device '{word}'. {present_devices(backends)} Known names: {known}."
        )
    reason = backend.absent()
    if reason is not None:
        raise DeviceError(f"device '{word}' is not there: {reason}. {present_devices(backends)}")
    devices = backend.devices()
    if index == "*":
        return _all(backend)
    wanted = f"{backend.name}:{index}" if colon else devices[0]
    if wanted == f"{backend.name}:0" and devices == [backend.name]:
        wanted = backend.name  # a device without a number is also number 0
    if wanted not in devices:
        raise DeviceError(f"device '{word}' is not there. {present_devices(backends)}")
    return [Target(backend, wanted)]


def _by_type(name: str, backends: Mapping[str, Backend]) -> Backend | None:
    """The one present backend of that PyTorch device type."""
    found = [b for b in backends.values() if b.type == name and b.absent() is None]
    return found[0] if len(found) == 1 else None


_ready: set[int] = set()


def set_up(backend: Backend) -> None:
    """Enable a backend, once per process.

    Raises:
        DeviceError: it cannot be enabled; the message says why.
    """
    if id(backend) not in _ready:
        try:
            backend.setup()
        except Exception as error:
            raise DeviceError(
                f"device '{backend.name}' cannot be set up: {first_line(error)}"
            ) from error
        _ready.add(id(backend))


def _checked_name(origin: str, backend: Backend) -> str:
    name = backend.name
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise DeviceError(f"{origin}: a backend's name is a word, not {name!r}")
    if name == "all":
        raise DeviceError(f"{origin}: 'all' means every device and names no backend")
    return name


def _from_folder() -> list[tuple[str, Backend]]:
    found = []
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.stem != "base" and not file.stem.startswith("_"):
            module = importlib.import_module(f"{__name__}.{file.stem}")
            found += _of_module(f"devices/{file.name}", module)
    return found


def _from_entry_points() -> list[tuple[str, Backend]]:
    found = []
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        origin = f"entry point {point.name} = {point.value}"
        try:
            loaded = point.load()
            if isinstance(loaded, ModuleType):
                found += _of_module(origin, loaded)
            elif isinstance(loaded, type) and issubclass(loaded, Backend):
                found.append((origin, loaded()))
            else:
                raise DeviceError(f"{origin}: neither a module nor a subclass of Backend")
        except DeviceError:
            raise
        except Exception as error:
            raise DeviceError(f"{origin} cannot be loaded: {first_line(error)}") from error
    return found


def _from_file(file: Path) -> list[tuple[str, Backend]]:
    origin = f"plug-in {file}"
    if not file.is_file():
        raise DeviceError(f"{origin}: no such file")
    path = file.resolve()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"linalg_conformance_plugin_{path.stem}_{digest}"
    try:
        module = _imported(path) or _import(name, path)
    except Exception as error:
        raise DeviceError(f"{origin} cannot be loaded: {first_line(error)}") from error
    return _of_module(origin, module)


def _imported(path: Path) -> ModuleType | None:
    """The module of that file, if the process has it already: it is not to be run twice."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and Path(file).name == path.name and Path(file).resolve() == path:
            return module
    return None


def _import(name: str, path: Path) -> ModuleType:
    """Import a file once per process, under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _of_module(origin: str, module: ModuleType) -> list[tuple[str, Backend]]:
    """One instance of each backend that the module defines itself, not of those it imports."""
    found: list[tuple[str, Backend]] = []
    for value in vars(module).values():
        own = isinstance(value, type) and value.__module__ == module.__name__
        if own and issubclass(value, Backend) and value.name and not inspect.isabstract(value):
            try:
                found.append((origin, value()))
            except Exception as error:
                raise DeviceError(
                    f"{origin}: {value.__name__} cannot be made: {first_line(error)}"
                ) from error
    if not found:
        raise DeviceError(f"{origin}: no subclass of devices.base.Backend with a name in it")
    return found
