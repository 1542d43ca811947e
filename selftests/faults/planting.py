"""Plant one fault in the running process, underneath every path through ``torch.linalg``.

How: the CPU kernels of the handful of ``aten`` operators that all of ``torch.linalg``'s
factorizations end in (``OPERATORS``) are overridden with ``torch.library.Library``, and the
original kernel, fetched beforehand with ``torch.library.get_kernel``, is called underneath.
Leaving the context destroys the library, which puts the original kernels back.

Why not a ``TorchDispatchMode``: an active mode changes what is computed. ``svdvals`` and
``eigvalsh`` ask for vectors whenever a mode is on (the input might be a subclass that needs
gradients), so the values-only kernels would never be met and the control would not be
bit-identical. A mode is also local to its thread. An override is met by eager calls,
``out=`` calls, compiled and exported graphs, calls from any thread, and by the operations
that are built on these (``pinv``, ``matrix_rank``, ...), and it is not met by tracing.

What the kernel sees: the strides, storage and offset of the user's tensor; conjugate and
negative views have been materialised by then, so a second override at the ``Conjugate`` and
``Negative`` keys takes a note and passes the call on. Calls that a kernel makes to another
hooked operator (``cholesky_inverse`` calls ``cholesky_inverse.out``) go straight to the
original, so a fault strikes once.

What it costs: 10 to 15 us per call of a hooked operation, 0.4 ms to plant.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .witness import Witness

Results = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Operator:
    """An ``aten`` operator: its ``out=`` overload, its matrix argument, its results' names."""

    name: str
    out: str
    matrix: str
    results: tuple[str, ...]


OPERATORS: dict[str, Operator] = {
    "svd": Operator("_linalg_svd", "U", "A", ("U", "S", "Vh")),
    "eigh": Operator("_linalg_eigh", "eigenvalues", "A", ("w", "V")),
    "qr": Operator("linalg_qr", "out", "A", ("Q", "R")),
    "cholesky": Operator("linalg_cholesky_ex", "L", "self", ("L", "info")),
    "cholesky_solve": Operator("cholesky_solve", "out", "input2", ("X",)),
    "cholesky_inverse": Operator("cholesky_inverse", "out", "self", ("X",)),
    "geqrf": Operator("geqrf", "a", "self", ("a", "tau")),
    "householder_product": Operator("linalg_householder_product", "out", "input", ("Q",)),
    "ormqr": Operator("ormqr", "out", "self", ("C",)),
    "check_errors": Operator("_linalg_check_errors", "", "info", ()),
}
"""What ``torch.linalg`` calls; ``cholesky`` raises through ``check_errors`` after the fact."""

SHARED = {"svdvals": "svd", "eigvalsh": "eigh", "cholesky_ex": "cholesky"}
"""Operations that share another one's operator."""


@dataclass
class Past:
    """What has happened since the fault was planted."""

    calls: Counter[str] = field(default_factory=Counter)
    shapes: set[tuple[Any, ...]] = field(default_factory=set)
    previous: dict[str, Any] = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    active: int = 0

    def record(self, call: Call, results: Any, failed: bool) -> None:
        """Take note of a call that is over."""
        info = results[1] if call.operation == "cholesky" and not failed else None
        self.calls[call.operation] += 1
        self.shapes.add((call.operation, call.A.shape, call.A.dtype))
        self.previous = {
            "operation": call.operation,
            "shape": call.A.shape,
            "dtype": call.A.dtype,
            "failed": failed,
            "info": info,
        }


class Call:
    """One call of a hooked kernel, as conditions and effects see it.

    ``A`` is the matrix argument (the factor in ``cholesky_solve``), ``arguments`` all of them
    by the names of the schema, ``out`` the tensors of ``out=`` or nothing, ``views`` what kind
    of view ``A`` was (``"conjugate"``, ``"negative"``) before it was materialised.
    """

    def __init__(
        self,
        operation: str,
        operator: Operator,
        arguments: dict[str, Any],
        out: tuple[torch.Tensor, ...],
        views: set[str],
        past: Past,
        kernel: Callable[..., Any],
        finish: Callable[[], Any],
    ) -> None:
        self.operation = operation
        self.operator = operator
        self.arguments = arguments
        self.out = out
        self.views = views
        self.past = past
        self.A: torch.Tensor = arguments[operator.matrix]
        self._kernel = kernel
        self.finish = finish
        """Run the original ``out=`` kernel (or the functional one) on the original arguments."""

    @property
    def m(self) -> int:
        """Rows."""
        return self.A.shape[-2]

    @property
    def n(self) -> int:
        """Columns."""
        return self.A.shape[-1]

    @property
    def k(self) -> int:
        """The smaller of the two."""
        return min(self.A.shape[-2:])

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return tuple(self.A.shape[:-2])

    @property
    def count(self) -> int:
        """Number of matrices."""
        return prod(self.batch)

    @property
    def eps(self) -> float:
        """Spacing at 1 of the dtype."""
        return torch.finfo(self.A.dtype).eps

    def compute(self, /, **changes: Any) -> SimpleNamespace:
        """Fresh results of the original kernel, some arguments changed (``A=`` the matrix)."""
        if "A" in changes:
            changes[self.operator.matrix] = changes.pop("A")
        results = self._kernel({**self.arguments, **changes})
        return SimpleNamespace(**dict(zip(self.operator.results, results, strict=True)))

    def stacked(self, x: torch.Tensor) -> torch.Tensor:
        """A view of the result ``x`` with the batch flattened into one leading dimension."""
        batch = len(self.batch)
        return x.flatten(0, batch - 1) if batch > 1 else x if batch else x[None]


@dataclass(frozen=True)
class Condition:
    """When a fault strikes: a phrase and a predicate; ``&``, ``|`` and ``~`` combine them."""

    text: str
    holds: Callable[[Call], bool]
    parts: int = 1

    def __and__(self, other: Condition) -> Condition:
        return Condition(
            f"{self.text}, {other.text}",
            lambda call: self.holds(call) and other.holds(call),
            self.parts + other.parts,
        )

    def __or__(self, other: Condition) -> Condition:
        return Condition(
            f"{self.text} or {other.text}",
            lambda call: self.holds(call) or other.holds(call),
            max(self.parts, other.parts),
        )

    def __invert__(self) -> Condition:
        return Condition(f"not {self.text}", lambda call: not self.holds(call), self.parts)


@dataclass(frozen=True)
class Effect:
    """What a fault does: a phrase and a function.

    The function returns the operation's results in the order of ``Operator.results``; they are
    copied into the tensors of ``out=`` where there are some. One that returns None has called
    ``call.finish()`` and has dealt with ``call.out`` itself.
    """

    text: str
    apply: Callable[[Call], SimpleNamespace | None]


@dataclass(frozen=True)
class Fault:
    """A small defect of a backend.

    ``shows`` is an input on which the result changes, ``silent`` one on which no bit of it does.
    ``empty`` lets it strike on inputs without elements. ``at`` names the hooked operator
    where that is not the operation's own.
    """

    name: str
    kind: str
    operations: tuple[str, ...]
    when: Condition
    effect: Effect
    promise: str
    shows: Witness
    silent: Witness
    report: str = ""
    empty: bool = False
    at: tuple[str, ...] = ()

    @property
    def trigger(self) -> str:
        """When it strikes, as a phrase."""
        return self.when.text

    @property
    def corruption(self) -> str:
        """What it does, as a phrase."""
        return self.effect.text

    @property
    def operators(self) -> frozenset[str]:
        """Keys of ``OPERATORS`` that it needs hooked."""
        return frozenset(self.at or (SHARED.get(name, name) for name in self.operations))

    def strikes(self, call: Call) -> bool:
        """Does this call meet the trigger?"""
        names = self.at or self.operations
        alias = {"cholesky_ex"} if call.operation == "cholesky" else set()
        concerned = bool({call.operation, *alias} & set(names))
        matrix = call.A.ndim >= (0 if self.at else 2) and (self.empty or call.A.numel() > 0)
        return concerned and matrix and self.when.holds(call)


class _Local(threading.local):
    inside = False
    views: set[str] = set()  # noqa: RUF012 - replaced, never mutated


_local = _Local()


def _operation(operator: str, arguments: dict[str, Any]) -> str:
    """Tell the values-only operations from the others."""
    if operator == "svd" and not arguments["compute_uv"]:
        return "svdvals"
    if operator == "eigh" and not arguments["compute_v"]:
        return "eigvalsh"
    return operator


def _fill(out: torch.Tensor, result: torch.Tensor) -> None:
    if out.shape != result.shape:
        out.resize_(result.shape)
    out.copy_(result)


def _hook(key: str, overload: str, fault: Fault, past: Past) -> Callable[..., Any]:
    """The kernel that replaces one overload of an operator."""
    operator = OPERATORS[key]
    packet = getattr(torch.ops.aten, operator.name)
    original = torch.library.get_kernel(getattr(packet, overload), "CPU")
    functional = torch.library.get_kernel(packet.default, "CPU")
    schema = getattr(packet, overload)._schema.arguments
    outs = [a.name for a in schema if a.is_out]
    names = [a.name for a in schema if not a.is_out]
    keyword_only = [a.name for a in schema if a.kwarg_only and not a.is_out]
    defaults = {a.name: a.default_value for a in schema if not a.is_out}

    def hook(keys: torch.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        if _local.inside:
            return original.call_boxed(keys, *args, **kwargs)
        views, _local.views = _local.views, set()
        arguments = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        out = tuple(arguments.pop(name) for name in outs)

        def kernel(arguments: dict[str, Any]) -> tuple[torch.Tensor, ...]:
            positional = [arguments[name] for name in names if name not in keyword_only]
            results = functional.call_boxed(
                keys, *positional, **{name: arguments[name] for name in keyword_only}
            )
            return (results,) if isinstance(results, torch.Tensor) else tuple(results or ())

        def finish() -> Any:
            return original.call_boxed(keys, *args, **kwargs)

        operation = _operation(key, arguments)
        call = Call(operation, operator, arguments, out, views, past, kernel, finish)
        results: Any = None
        failed = True
        _local.inside = True
        try:
            results = finish() if not fault.strikes(call) else _strike(fault, call)
            failed = False
        finally:
            _local.inside = False
            past.record(call, results, failed)
        return results

    return hook


def _strike(fault: Fault, call: Call) -> Any:
    """The results of the defective kernel, in the tensors of ``out=`` where there are some."""
    spoiled = fault.effect.apply(call)
    if spoiled is None:
        results: Any = call.out
    else:
        results = tuple(getattr(spoiled, name) for name in call.operator.results)
        if call.out:
            call.finish()
            for out, result in zip(call.out, results, strict=True):
                _fill(out, result)
            results = call.out
    return None if not results else results[0] if len(results) == 1 else results


def _note(key: str, overload: str, view: str) -> Callable[..., Any]:
    """Note that the matrix is a conjugate or negative view, then let it be materialised."""
    operator = OPERATORS[key]
    packet = getattr(torch.ops.aten, operator.name)
    original = torch.library.get_kernel(getattr(packet, overload), view)
    position = [a.name for a in packet.default._schema.arguments].index(operator.matrix)

    def note(keys: torch.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        A = args[position] if position < len(args) else kwargs[operator.matrix]
        if A.is_conj() if view == "Conjugate" else A.is_neg():
            _local.views = _local.views | {view.lower()}
        try:
            return original.call_boxed(keys, *args, **kwargs)
        finally:
            _local.views = set()

    return note


@contextmanager
def planted(fault: Fault) -> Iterator[Past]:
    """Switch a fault on in all threads of the process.

    Its history starts afresh. Only one may be planted at a time.
    """
    past = Past()
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Warning only once for all operators")
            for key in sorted(fault.operators):
                for overload in ("default", OPERATORS[key].out):
                    if overload:
                        _install(library, key, overload, fault, past)
        yield past
    finally:
        library._destroy()


def _install(
    library: torch.library.Library, key: str, overload: str, fault: Fault, past: Past
) -> None:
    name = OPERATORS[key].name + ("" if overload == "default" else f".{overload}")
    library.impl(name, _hook(key, overload, fault, past), "CPU", with_keyset=True)
    if key != "check_errors":
        for view in ("Conjugate", "Negative"):
            library.impl(name, _note(key, overload, view), view, with_keyset=True)
