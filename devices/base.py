"""What the suite asks of a device: one small class.

How do I add a device?

1. Write a module with one subclass of ``Backend``. Only ``name`` and ``devices()`` must be given.
   Every other attribute says what the device can do and defaults to what a plain PyTorch device
   does: override what differs.
2. Make it known, whichever suits: put the file into this folder; or install a package with an
   entry point in the group ``linalg_conformance.devices`` that names the class or its module; or
   pass ``--device-plugin=FILE``.
3. ``python -m conformance devices`` shows it, ``pytest --device NAME`` runs on it, and the table
   ``[NAME]`` of ``tolerances.toml`` is its own.

A backend knows no operation. It may be odd, and each oddity has its place:

- enabled late: ``setup``, once per process; or only inside a ``with``: ``active``, in each thread;
- lazily executed: ``synchronize`` must force the work of all results that are still alive;
- tensor subclasses, with transfers of their own: ``send``, ``fetch`` and ``active``;
- no strides that mean anything (``strides``), no views (``strided``), no lazy negation
  (``negative``), no ``out=``, no gradients: attributes, and the cases that need them are left out;
- no float64, no complex numbers: ``dtypes``, or ``dtypes_on`` where its devices differ;
- operations that do not exist: whatever error says so. ``NotImplementedError`` is always taken for
  a clean refusal, other errors if ``refusing`` has their class or ``refusals`` their words. The
  case is then reported as unsupported, with the reason.
- results in a tuple of its own: any sequence of tensors in the documented order will do.

``examples/plugins/`` has plug-ins for such devices.

Importing a backend's module must be harmless on a machine without the device: ``absent`` says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from devices import _errors, _graphs, _traces
from devices._errors import chain, first_line, matches
from devices._graphs import NoGraphs

ALL_DTYPES = ("float32", "float64", "complex64", "complex128")


@dataclass
class Fallback:
    """What was noticed, while it was open, of work done by the CPU instead of the device."""

    device: torch.device | None
    notices: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.notices)

    @property
    def reason(self) -> str:
        """All notices in one line; empty if the device did the work as far as can be told."""
        return "; ".join(dict.fromkeys(self.notices))

    def read(self, caught: Sequence[warnings.WarningMessage], patterns: Sequence[str]) -> None:
        """Note the fallback warnings among those that someone else has caught."""
        for warning in caught:
            text = str(warning.message)
            if matches(patterns, text):
                self.notices.append(text.strip().splitlines()[0])

    def results(self, tensors: Sequence[torch.Tensor]) -> None:
        """Note each result that does not live on the device it was asked for."""
        for number, tensor in enumerate(tensors):
            if self.device is not None and not same_device(tensor.device, self.device):
                self.notices.append(f"result {number} lives on {tensor.device}, not {self.device}")


def same_device(one: torch.device, other: torch.device) -> bool:
    """Equal devices; no index means the first one."""
    return one.type == other.type and (one.index or 0) == (other.index or 0)


class Backend:
    """One kind of device. Attributes are capabilities; a method gets the device's id."""

    name: str = ""
    """What users type after ``--device``; the table in ``tolerances.toml``. Required."""

    accelerator: bool = True
    """Chosen when no device is asked for. Only the CPU says no."""

    generic: bool = False
    """Stands for devices nobody wrote a plug-in for, and steps aside where somebody did."""

    dtypes: tuple[str, ...] = ALL_DTYPES
    """The dtypes that factorizations are promised for; the others' cases are unsupported."""

    captures: tuple[str, ...] = ()
    """Ways to record and replay work: ``device-graph`` (``torch.accelerator.Graph``) and
    ``native-graph`` (the graph class of the device's own module); see ``record``."""

    compilers: tuple[str, ...] = ("inductor", "aot_eager")
    """The backends of ``torch.compile`` that have code generation for this device."""

    streams: bool = False
    """Work can be put on side streams (``torch.Stream``)."""

    strided: bool = True
    """Operands can be views: slices, transposes, blocks of larger tensors, expanded ones."""

    negative: bool = True
    """There are lazy negative views (``torch._neg_view``; the imaginary part of a conjugate)."""

    out: bool = True
    """Operations take ``out=``."""

    autograd: bool = True
    """Tensors can ask for gradients."""

    strides: bool = True
    """Strides of results equal what ``FakeTensor`` predicts. Without, only their shape, dtype and
    device have to: where a tensor reports strides that it does not have, or has no memory of its
    own that has an address."""

    deterministic: bool = False
    """The same call on the same bits gives the same bits (promised, not merely usual)."""

    subnormals: bool = True
    """Subnormal numbers are kept, not flushed to zero."""

    keeps: int = 0
    """Clean up (``cleanup``) after so many cases: for devices that keep something of every call,
    such as code compiled for its shapes. 0 is never."""

    fallback_warnings: tuple[str, ...] = _errors.FALLBACKS
    """Regular expressions of the warnings by which a CPU fallback announces itself."""

    fallback_traces: tuple[str, ...] = ()
    """Dispatcher calls that only a CPU fallback makes, such as ``aten::_to_cpu``. Looked for with
    PyTorch's profiler, which costs 0.1 ms for each call; () costs nothing."""

    refusals: tuple[str, ...] = _errors.REFUSALS
    """Regular expressions of the messages of a clean "not supported"."""

    refusing: frozenset[str] = _errors.REFUSING
    """Names of the error classes that are a clean "not supported" whatever their message says."""

    breakages: tuple[str, ...] = _errors.BREAKAGES
    """Regular expressions of messages that are never a clean refusal, whatever else they say."""

    fatalities: tuple[str, ...] = _errors.FATALITIES
    """Regular expressions of the messages after which this process must not go on."""

    # --- what is there

    @property
    def type(self) -> str:
        """The type of its ``torch.device``: ``cuda`` for ROCm; the name for most."""
        return self.name

    def devices(self) -> list[str]:
        """The ids of the devices that are there, ``['cuda:0', 'cuda:1']``. Required.

        Empty where there are none. Must not raise and must not initialise a device.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say which devices it has")

    def absent(self) -> str | None:
        """Why there is no such device here, or None where there is one. Must not raise."""
        return None if self.devices() else f"no {self.name} device found"

    def setup(self) -> None:
        """Enable the backend. Called once, before the first use; its error is the user's."""

    def active(self, device: str) -> AbstractContextManager[object]:
        """What has to be in force while tensors of the device are made, viewed and computed with.

        Entered in the thread that does so, for each transfer and each call, and left before
        the suite goes on with work of its own: a mode that catches host tensors too does no harm.
        """
        return nullcontext()

    def lacks(self) -> str:
        """What such devices do not have, so that no case asks for it: for the report's reader."""
        missing = {
            "views": self.strided,
            "lazy negation": self.negative,
            "strides": self.strides,
            "out=": self.out,
            "gradients": self.autograd,
        }
        return ", ".join(name for name, there in missing.items() if not there)

    def describe(self, device: str) -> dict[str, str]:
        """What a reader of a report wants to know of the device.

        Keys in use: ``name``, ``chip``, ``memory``, ``driver``, ``libraries``. Any other is shown.
        Limits and known issues may be for a chip, a driver or libraries.
        """
        return {"name": device}

    def dtypes_on(self, device: str) -> tuple[str, ...]:
        """The dtypes that this device has, where devices of one backend differ."""
        return self.dtypes

    def svd_drivers(self, device: str) -> tuple[str, ...]:
        """The values that ``torch.linalg.svd(driver=)`` takes on this device besides None."""
        return ()

    def jacobi_svd(self, driver: str | None) -> bool:
        """Whether that driver promises small singular values to high relative accuracy."""
        return False

    # --- tensors there and back

    def torch_device(self, device: str) -> torch.device:
        """The ``torch.device`` behind an id."""
        _, _, index = device.partition(":")
        return torch.device(self.type, int(index)) if index else torch.device(self.type)

    def send(self, host: torch.Tensor, device: str) -> torch.Tensor:
        """A copy of a host tensor on the device; dense strides are kept where there are strides."""
        return host.to(self.torch_device(device), copy=True)

    def fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the tensor on the host: a plain CPU tensor without conj or neg bits.

        The bits are taken off before the transfer and applied on the host: not by the device.
        """
        plain = tensor.detach()
        negative, conjugate = plain.is_neg(), plain.is_conj()
        plain = torch._neg_view(plain) if negative else plain
        plain = plain.conj() if conjugate else plain
        host = plain.to("cpu", copy=True)
        host = host.conj().resolve_conj() if conjugate else host
        return -host if negative else host

    def synchronize(self, device: str) -> None:
        """Return when all work is done; errors of that work are raised here at the latest."""
        synchronize = getattr(getattr(torch, self.type, None), "synchronize", None)
        if synchronize is not None:
            synchronize(self.torch_device(device))

    def random_state(self) -> bytes:
        """The states of the random number generators of the host and of the current device."""
        get = getattr(getattr(torch, self.type, None), "get_rng_state", None)
        states = [torch.get_rng_state(), *([get()] if get else [])]
        return b"".join(state.numpy().tobytes() for state in states)

    def record(
        self, device: str, call: Callable[[], Any], way: str = "device-graph"
    ) -> tuple[Any, Callable[[], None]]:
        """Capture a call natively: its results, and a function that runs it again into them.

        Inputs keep their addresses: new data is copied into them before a replay. ``way`` is one
        of ``captures``. `NoGraphs` where it cannot be had; any other error is the call's, or says
        that it cannot be captured, and later calls and captures must work all the same.
        """
        if way not in self.captures:
            raise NoGraphs(f"{self.name} has no {way}s")
        return _graphs.record(way, self.type, self.torch_device(device), call)

    # --- when things go wrong

    @contextmanager
    def fallback(self, device: str) -> Iterator[Fallback]:
        """Watch a call for work that the CPU does instead. Put nothing but the call inside.

        Other warnings are passed on afterwards. A warning caught inside is not seen: hand it to
        ``Fallback.read``. Hand the results to ``Fallback.results``.
        """
        notice = Fallback(self._home(device))
        always = torch.is_warn_always_enabled()
        torch.set_warn_always(True)  # else only the first fallback of the process is announced
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught, self._traced(notice):
                warnings.simplefilter("always")
                yield notice
        finally:
            torch.set_warn_always(always)
            notice.read(caught, self.fallback_warnings)
            for warning in caught:
                if not matches(self.fallback_warnings, str(warning.message)):
                    warnings.warn_explicit(
                        warning.message, warning.category, warning.filename, warning.lineno
                    )

    def _home(self, device: str) -> torch.device | None:
        """Where results belong; None if PyTorch knows no such device."""
        try:
            return self.torch_device(device)
        except RuntimeError:
            return None

    @contextmanager
    def _traced(self, notice: Fallback) -> Iterator[None]:
        """Look for the calls that only a silent fallback makes."""
        if not self.fallback_traces:
            yield
            return
        with _traces.calls() as names:
            yield
        for name in self.fallback_traces:
            if name in names:
                notice.notices.append(f"the call went through {name}")

    def refusal(self, error: BaseException) -> str | None:
        """The reason, if the error is a clean "not supported here"; None if something broke."""
        for link in chain(error):
            if matches(_errors.UNCAPTURABLE, str(link)):  # clean, although it says "CUDA error"
                return first_line(link)
        for link in chain(error):
            broken = matches(self.breakages, str(link))
            if broken or isinstance(link, torch.linalg.LinAlgError):
                return None
        for link in chain(error):
            named = isinstance(link, NotImplementedError) or type(link).__name__ in self.refusing
            plain = isinstance(link, RuntimeError | TypeError | ValueError)
            if named or (plain and matches(self.refusals, str(link))):
                return first_line(link)
        return None

    def exhausted(self, error: BaseException) -> bool:
        """Whether the device, or the host, ran out of memory."""
        return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
            isinstance(error, RuntimeError) and matches(_errors.EXHAUSTIONS, str(error))
        )

    def fatal(self, error: BaseException) -> bool:
        """Whether the error has poisoned this process: the device cannot be used again in it."""
        return any(matches(self.fatalities, str(link)) for link in chain(error))

    def cleanup(self, device: str) -> None:
        """Give cached memory back: after a case that found none left, and every ``keeps`` cases."""
        empty_cache = getattr(getattr(torch, self.type, None), "empty_cache", None)
        if empty_cache is not None:
            empty_cache()

    # --- files a plug-in may ship

    def tolerances(self) -> Path | None:
        """A fragment of ``tolerances.toml`` to be read after the suite's own."""
        return None

    def known_issues(self) -> Path | None:
        """A fragment of ``known_issues.toml`` to be read after the suite's own."""
        return None
