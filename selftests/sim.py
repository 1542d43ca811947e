"""A simulated accelerator, ``sim``: a device that is not the CPU, for machines that have no other.

PyTorch takes its tensors for those of an out-of-tree backend (PrivateUse1). They have device
``sim:0``, their own storage, strides and views; only that their memory is host memory, and each
operation is computed by the CPU kernel on an alias of it. So the whole path of a real device is
walked: transfers, dispatch, metadata, ``out=``, refusals, CPU fallbacks, errors that show at the
next synchronisation, graphs (``sim_graphs.py``). What the device does can be made wrong::

    with sim.plant(lambda op, args, kwargs, compute: ...):   # see ``plant``
    with sim.fall_back("_linalg_svd"):                       # computed by the CPU, with a warning
    with sim.fall_back("_linalg_svd", silent=True):          # ... without one
    with sim.refuse("linalg_qr"):                            # not implemented

It is a plug-in: ``pytest --device=sim --device-plugin=selftests/sim.py``. A plug-in file of your
own with a subclass of ``Sim`` whose ``setup`` calls ``plant`` is a broken device.

Operations are named as the dispatcher names them, without ``aten::`` and without overload:
``_linalg_svd``, ``_linalg_eigh``, ``linalg_qr``, ``linalg_cholesky_ex``; functional and ``out=``
calls alike.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils import backend_registration

from devices.privateuse1 import UNREGISTERED, PrivateUse1
from selftests import accelerator_graph, sim_graphs
from selftests.sim_graphs import Recorder, Step

NAME = "sim"
CPU = torch.device("cpu")
CPU_KERNELS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

#: What a planted function is: the operation's name, its arguments as host tensors that alias the
#: device's memory, and the right computation. It returns the results that the device shall give.
Plant = Callable[[str, tuple[Any, ...], dict[str, Any], Callable[..., Any]], Any]


class Sim(PrivateUse1):
    """The plug-in."""

    name = NAME
    generic = False
    compilers = ("aot_eager",)
    captures = ("device-graph", "native-graph")

    @property
    def type(self) -> str:
        return NAME

    def devices(self) -> list[str]:
        return [f"{self.name}:0"] if self.absent() is None else []

    def absent(self) -> str | None:
        if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
            return f"PyTorch {torch.__version__} cannot set up a device in Python (2.13 can)"
        registered = torch._C._get_privateuse1_backend_name()
        if registered not in (UNREGISTERED, NAME):
            return f"PyTorch's one place for an out-of-tree backend is taken by {registered}"
        return None

    def setup(self) -> None:
        enable()
        accelerator_graph.register(sim_graphs.Graph)

    def describe(self, device: str) -> dict[str, str]:
        return {"name": "simulated accelerator", "chip": "sim", "driver": "1.0"}


class Device:
    """The module ``torch.sim``: what PyTorch asks of a device's module, and the switches."""

    __version__ = "1.0"

    def __init__(self) -> None:
        self.plants: list[Plant] = []
        self.calls: Counter[str] = Counter()
        self.synchronized = 0
        self.pending: BaseException | None = None
        self.libraries: list[torch.library.Library] = []
        self.recorder = Recorder()

    Stream, Graph = sim_graphs.Stream, sim_graphs.Graph

    def current_stream(self, device: object = None) -> sim_graphs.Stream:
        return self.recorder.current

    def stream(self, stream: sim_graphs.Stream) -> AbstractContextManager[None]:
        """Within, work goes to this stream."""
        return self.recorder.on(stream)

    def device(self, device: object) -> AbstractContextManager[None]:
        """There is one device only."""
        return nullcontext()

    def synchronize(self, device: object = None) -> None:
        """Count the call; raise what an earlier operation left behind (see ``later``)."""
        self.recorder.waits("synchronize")
        self.synchronized += 1
        error, self.pending = self.pending, None
        if error is not None:
            raise error

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Random numbers come from the CPU's generator."""


class Planted:
    """A planted function: in force until ``remove`` or the end of its ``with`` block."""

    def __init__(self, plants: list[Plant], plant: Plant) -> None:
        self._plants, self._plant = plants, plant
        plants.append(plant)

    def remove(self) -> None:
        """Take it out; a second time does nothing."""
        if self._plant in self._plants:
            self._plants.remove(self._plant)

    def __enter__(self) -> Planted:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def plant(function: Plant) -> Planted:
    """Let a function compute in the device's place: ``function(op, args, kwargs, compute)``.

    It may return ``compute(*args, **kwargs)`` as it is, or changed, or raise. Results keep the
    strides that it gives them. Of several, the latest is called first.
    """
    return Planted(enable().plants, function)


def fall_back(*operations: str, silent: bool = False) -> Planted:
    """Let the CPU compute these operations, as PyTorch's own fallback does."""

    def function(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        if op in operations:
            if not silent:
                warnings.warn(
                    f"The operator 'aten::{op}' is not currently supported on the {NAME} backend "
                    "and will fall back to run on the CPU. This may have performance implications.",
                    stacklevel=2,
                )
            torch._to_cpu([leaf for leaf in pytree.tree_leaves(args) if _is_tensor(leaf)])
        return compute(*args, **kwargs)

    return plant(function)


def refuse(*operations: str) -> Planted:
    """Let these operations not exist on the device."""

    def function(op: str, args: Any, kwargs: Any, compute: Callable[..., Any]) -> Any:
        if op in operations:
            raise NotImplementedError(f"The operator 'aten::{op}' is not implemented for sim.")
        return compute(*args, **kwargs)

    return plant(function)


def later(error: BaseException) -> None:
    """Raise the error at the next synchronisation, as asynchronous devices do."""
    enable().pending = error


def enable() -> Device:
    """Register the device with PyTorch, once per process; its module."""
    module: Device | None = getattr(torch, NAME, None)
    if module is None:
        module = Device()
        backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=module)
        module.libraries = _register()
        torch.serialization.register_package(5, lambda storage: None, _loaded)
    return module


# --- memory


def on_device(host: torch.Tensor) -> torch.Tensor:
    """The host tensor's memory as a tensor of the device, strides and all; it takes ownership."""
    flat = torch.empty(0, dtype=host.dtype).set_(host.untyped_storage())
    capsule = torch._C._to_dlpack(flat)
    address = _pointer(capsule, b"dltensor")
    # DLTensor: data (8 bytes), then the device type: kDLExtDev, which PyTorch reads as PrivateUse1
    ctypes.c_int32.from_address(address + 8).value = 12
    flat = torch._C._from_dlpack(capsule)
    return _as_strided(flat, host.size(), host.stride(), host.storage_offset())


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A host tensor that aliases the device tensor's memory while that lives."""
    memory = tensor.untyped_storage()
    alias = torch._C._construct_storage_from_data_pointer(memory.data_ptr(), CPU, memory.nbytes())
    host = torch.empty(0, dtype=tensor.dtype)
    host.set_(alias, tensor.storage_offset(), tensor.size(), tensor.stride())
    torch._C._set_conj(host, tensor.is_conj())
    torch._C._set_neg(host, tensor.is_neg())
    return host


def _loaded(storage: Any, location: str) -> torch.UntypedStorage | None:
    """What was saved from the device goes back to it: its memory is the host's."""
    if location.partition(":")[0] != NAME:
        return None
    return on_device(torch.empty(0, dtype=torch.uint8).set_(storage)).untyped_storage()


def _as_strided(tensor: torch.Tensor, size: Any, stride: Any, offset: Any) -> torch.Tensor:
    as_strided = torch.ops.aten.as_strided.default
    return as_strided.redispatch(CPU_KERNELS, tensor, size, stride, offset)


def _reshaped(tensor: torch.Tensor, size: Any, stride: Any) -> torch.Tensor:
    """The device tensor itself with another shape, and with more memory if that needs it."""
    wanted = torch.empty_strided(size, stride, dtype=tensor.dtype)
    memory, offset = tensor.untyped_storage(), tensor.storage_offset()
    if memory.nbytes() < wanted.untyped_storage().nbytes() + offset * tensor.element_size():
        memory, offset = on_device(wanted).untyped_storage(), 0
    set_ = torch.ops.aten.set_.source_Storage_storage_offset
    set_.redispatch(CPU_KERNELS, tensor, memory, offset, size, stride)
    return tensor


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


# --- dispatch

#: PyTorch composes the functional form of these from shape inference and ``out=``; a device that
#: brings kernels of its own decides over its results' strides itself.
OWN_KERNELS = (
    "_linalg_svd", "_linalg_eigh", "linalg_qr", "linalg_cholesky_ex",
)  # fmt: skip


def _register() -> list[torch.library.Library]:
    """Take over PyTorch's PrivateUse1 key; in force as long as what is returned lives."""
    every = torch.library.Library("_", "IMPL")
    every.fallback(_call, "PrivateUse1")
    some = torch.library.Library("aten", "IMPL")
    for name in OWN_KERNELS:
        op = getattr(torch.ops.aten, name).default
        some.impl(name, functools.partial(_call, op), "PrivateUse1")
    for key in ("Conjugate", "Negative"):  # else a transfer would resolve them by a transfer ...
        some.impl("_copy_from", torch.library.fallthrough_kernel, key)
    return [every, some]


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _is_ours(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def _call(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Every operation of the device that PyTorch does not compose of others arrives here."""
    name = op._schema.name.removeprefix("aten::")
    device = torch.get_device_module(NAME)
    device.calls[name] += 1
    device.recorder.computes(name)
    if op.is_view or name == "set_":
        return op.redispatch(CPU_KERNELS, *args, **kwargs)
    if name in ("_copy_from", "_copy_from_and_resize"):
        return _copy(name, *args)
    if name == "resize_":
        strides = torch.empty(args[1], device="meta").stride()
        return _reshaped(args[0], args[1], strides)
    return _compute(op, name, args, kwargs)


def _copy(name: str, source: torch.Tensor, target: torch.Tensor, *_: Any) -> torch.Tensor:
    """A transfer, in either direction or within the device."""
    if name == "_copy_from_and_resize" and target.shape != source.shape:
        target.resize_(source.shape)
    recorder = torch.get_device_module(NAME).recorder
    if not (_is_ours(source) and _is_ours(target)):
        recorder.waits("a transfer")
    from_, to = (on_host(t) if _is_ours(t) else t for t in (source, target))
    to.copy_(from_)
    recorder.note(Step(lambda: [from_], [to], (source, target)))
    return target


def _compute(op: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the CPU's kernel on aliases of the arguments, and take its results to the device."""
    _check_devices(name, (args, kwargs))
    outs = {a.name: kwargs[a.name] for a in op._schema.arguments if a.is_out and a.name in kwargs}
    elsewhere = kwargs.get("device") is not None and torch.device(kwargs["device"]).type != NAME
    ours: dict[int, torch.Tensor] = {}

    def to_host(value: Any) -> Any:
        if isinstance(value, torch.device):
            return CPU if value.type == NAME else value
        if not _is_ours(value):
            return value
        host = on_host(value)
        ours[id(host)] = value
        return host

    host_args = pytree.tree_map(to_host, args)
    host_kwargs = {k: pytree.tree_map(to_host, v) for k, v in kwargs.items() if k not in outs}
    recorder = torch.get_device_module(NAME).recorder
    if outs:

        def fill() -> list[torch.Tensor]:
            own = {key: _owned(out) for key, out in outs.items()}
            results = _planted(name, op, host_args, {**host_kwargs, **own})
            _store(results, list(own.values()), list(outs.values()))
            return []

        fill()
        recorder.note(Step(fill, [], (args, kwargs)))
        return tuple(outs.values()) if len(outs) > 1 else next(iter(outs.values()))
    borrowed = {host.untyped_storage().data_ptr() for host in map(on_host, ours.values())}

    def is_new(value: Any) -> bool:
        return _is_tensor(value) and not elsewhere and id(value) not in ours

    def to_device(value: Any) -> Any:
        if not is_new(value):
            return ours.get(id(value), value)
        value = value.resolve_conj().resolve_neg()
        if value.untyped_storage().data_ptr() in borrowed:
            value = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype).copy_(
                value
            )
        return on_device(value)

    def work() -> list[torch.Tensor]:
        leaves = pytree.tree_leaves(_planted(name, op, host_args, host_kwargs))
        return [leaf for leaf in leaves if is_new(leaf)]

    computed = _planted(name, op, host_args, host_kwargs)
    results = pytree.tree_map(to_device, computed)
    if recorder.recording is not None:
        pairs = zip(pytree.tree_leaves(computed), pytree.tree_leaves(results), strict=True)
        targets = [on_host(result) for value, result in pairs if is_new(value)]
        recorder.note(Step(work, targets, (args, kwargs, results)))
    return results


def _check_devices(name: str, arguments: Any) -> None:
    """Refuse host tensors among device tensors, as real devices do; host scalars are welcome."""
    for leaf in pytree.tree_leaves(arguments):
        if isinstance(leaf, torch.Tensor) and not _is_ours(leaf) and leaf.dim() > 0:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{NAME}:0 and {leaf.device}! (in aten::{name})"
            )


def _planted(name: str, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the planted functions, the latest first, and the CPU's kernel last."""
    stack: Iterator[Plant] = reversed(list(torch.get_device_module(NAME).plants))

    def compute(*args: Any, **kwargs: Any) -> Any:
        function = next(stack, None)
        return op(*args, **kwargs) if function is None else function(name, args, kwargs, compute)

    return compute(*args, **kwargs)


def _owned(out: torch.Tensor) -> torch.Tensor:
    """A host copy of an ``out=`` argument that may be resized."""
    return torch.empty_strided(out.size(), out.stride(), dtype=out.dtype).copy_(on_host(out))


def _store(results: Any, own: list[torch.Tensor], outs: list[torch.Tensor]) -> None:
    """Bring computed ``out=`` arguments, or what a planted function returned instead, home."""
    given = [results] if _is_tensor(results) else list(results)
    for result, host, out in zip(given, own, outs, strict=True):
        if (host.shape, host.stride()) != (out.shape, out.stride()):
            _reshaped(out, host.size(), host.stride())
        on_host(out).copy_(result)
