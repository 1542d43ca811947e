"""The call as a branch of ``cond`` and ``switch``, and as the body of a ``while_loop``.

Each branch gets operands of its own: the case's for the branch that is to be taken, example
operands for the others, so that the result of another branch is never right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.captures.base import Call, Capture, Function, Tensors, find
from conformance.captures.compiled import compiles, options
from conformance.captures.kept import forget
from devices.base import Backend

_PREDICATES = (True, False)
_INDICES = (0, 1, 2, 3, -1, 2**33 + 1)  # out of range: clamped, as switch's documentation says
_BRANCHES = 4
_TURNS = 3
_COND = ("torch.cond",)
_SWITCH = ("torch.switch", "torch._higher_order_ops.switch")
_LOOP = ("torch.while_loop", "torch._higher_order_ops.while_loop")


def _choosing(
    choose: Callable[[], Callable[..., Tensors]],
    ways: Sequence[bool | int],
    slot: Callable[[int], int],
    slots: int,
) -> Callable[[str], Callable[[Call], Function]]:
    """A captured choice between ``slots`` branches, called with each of ``ways`` in turn."""

    def by(compiler: str) -> Callable[[Call], Function]:
        def prepare(call: Call) -> Function:
            choice, count = choose(), len(call.operands)
            examples = [call.further(i) for i in range(slots)]  # cond wants no memory shared

            def chosen(selector: torch.Tensor, *operands: torch.Tensor) -> Tensors:
                branches = [_branch(call.function, i * count, count) for i in range(slots)]
                return choice(selector, branches, operands)

            compiled = torch.compile(chosen, **options(compiler))
            home = call.backend.torch_device(call.device)
            selectors = [torch.tensor(way).to(home) for way in ways]

            def function(*operands: torch.Tensor, way: int = 0) -> Tensors:
                every = [operands if i == slot(way) else examples[i] for i in range(slots)]
                return compiled(selectors[way], *(t for each in every for t in each))

            return function

        return prepare

    return by


def _branch(function: Function, start: int, count: int) -> Function:
    def branch(*operands: torch.Tensor) -> Tensors:
        return function(*operands[start : start + count])

    return branch


def _cond(predicate: torch.Tensor, branches: list[Function], operands: Tensors) -> Tensors:
    return torch.cond(predicate, branches[0], branches[1], operands)


_by_cond = _choosing(lambda: _cond, _PREDICATES, lambda way: way, 2)
_by_switch = _choosing(
    lambda: _found(*_SWITCH),
    _INDICES,
    lambda way: min(max(_INDICES[way], 0), _BRANCHES - 1),
    _BRANCHES,
)


def _looped(compiler: str) -> Callable[[Call], Function]:
    """The call again and again in a loop that carries operands and results.

    What is carried must keep its strides, so room for the results is laid out like them.
    """

    def prepare(call: Call) -> Function:
        while_loop = _found(*_LOOP)
        like = call.function(*call.operands)
        count = len(call.operands)

        def looped(turn: torch.Tensor, *carried: torch.Tensor) -> Tensors:
            def more(turn: torch.Tensor, *carried: torch.Tensor) -> torch.Tensor:
                return turn < _TURNS

            def body(turn: torch.Tensor, *carried: torch.Tensor) -> Tensors:
                operands = carried[:count]
                kept = tuple(operand.clone() for operand in operands)
                return (turn + 1, *kept, *call.function(*operands))

            return while_loop(more, body, (turn, *carried))[1 + count :]

        compiled = torch.compile(looped, **options(compiler))
        zero = torch.tensor(0).to(call.backend.torch_device(call.device))

        def function(*operands: torch.Tensor) -> Tensors:
            dense = (operand.clone() for operand in operands)
            return compiled(zero, *dense, *(torch.zeros_like(result) for result in like))

        return function

    return prepare


def looping(capture: str, step: Function, times: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """``step`` again and again, captured as that capture does it.

    The loop takes an operand and what is carried; ``step`` makes of these what is carried next,
    with the same shapes, strides and dtypes.
    """
    forget()
    while_loop = _found(*_LOOP)

    def looped(A: torch.Tensor, turn: torch.Tensor, *carried: torch.Tensor) -> Tensors:
        def more(turn: torch.Tensor, *carried: torch.Tensor) -> torch.Tensor:
            return turn < times

        def body(turn: torch.Tensor, *carried: torch.Tensor) -> Tensors:
            return (turn + 1, *step(A, *carried))

        return while_loop(more, body, (turn, *carried))[1:]

    compiled = torch.compile(looped, **options(_COMPILERS[capture]))

    def loop(A: torch.Tensor, *carried: torch.Tensor) -> Tensors:
        return compiled(A, torch.zeros((), dtype=torch.int64, device=A.device), *carried)

    return loop


def _found(*names: str) -> Any:
    """The first of these that torch has; None without any."""
    return next((found for found in map(find, names) if found is not None), None)


def _needing(compiler: str, *names: str) -> Callable[[Backend, str], str]:
    def missing(backend: Backend, device: str) -> str:
        if _found(*names) is None:
            return f"PyTorch {torch.__version__} has no {names[0]}"
        return compiles(compiler)(backend, device)

    return missing


_COMPILERS = {"while-loop": "aot_eager", "while-loop-inductor": "inductor"}

CAPTURES = tuple(
    Capture(
        name + ("" if compiler == "aot_eager" else f"-{compiler}"),
        f"{what}, {compiler}",
        prepare(compiler),
        _needing(compiler, *names),
        ways=ways,
        compiles=True,
    )
    for compiler in ("aot_eager", "inductor")
    for name, what, prepare, names, ways in (
        ("cond", "both branches of torch.cond", _by_cond, _COND, len(_PREDICATES)),
        ("switch", "each branch of switch, by a tensor", _by_switch, _SWITCH, len(_INDICES)),
        ("while-loop", "the body of while_loop", _looped, _LOOP, 1),
    )
)
