"""Formulas of the shape: ``2 * sqrt(n)`` as a limit, ``batch * m * n > 8192`` as a condition.

The text is parsed to Python's syntax tree and only the node types listed here are translated to
closures. Nothing is ever evaluated as code, there are no powers and no attribute access, and the
length is bounded, so a hostile formula costs microseconds and ends in a :class:`FormulaError`.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Numbers = Mapping[str, float]
Term = Callable[[Numbers], float]

LONGEST = 200  # characters

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, tuple[int, int, Callable[..., float]]] = {
    "sqrt": (1, 1, math.sqrt),
    "log2": (1, 1, math.log2),
    "min": (2, 4, min),
    "max": (2, 4, max),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class FormulaError(ValueError):
    """A formula outside the grammar, or one without a value for the shape it is asked for."""


@dataclass(frozen=True)
class Formula:
    """A limit as a function of the matrix shape m x n."""

    text: str
    term: Term = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Read an arithmetic expression over ``m`` and ``n``."""
        return cls(text, _number(_tree(text), frozenset("mn")))

    def __call__(self, m: int, n: int) -> float:
        """The value for a shape; a dimension of 0 counts as 1, so that ``1 / n`` has a value."""
        return _value(self.text, self.term, {"m": float(max(m, 1)), "n": float(max(n, 1))})


@dataclass(frozen=True)
class Condition:
    """A yes or no about shape and batch, as in ``batch * m * n > 8192 and n <= 32``."""

    text: str
    term: Callable[[Numbers], bool] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read comparisons over ``m``, ``n`` and ``batch`` (matrices) joined by and / or."""
        return cls(text, _truth(_tree(text), frozenset(("m", "n", "batch"))))

    def __call__(self, m: int, n: int, batch: int) -> bool:
        """Whether it holds."""
        numbers = {"m": float(m), "n": float(n), "batch": float(batch)}
        return bool(_value(self.text, self.term, numbers))


def rescaled(text: str, factor: float) -> str:
    """The formula text times a factor: a leading coefficient is replaced, else one is put in front.

    ``rescaled("2 * sqrt(n)", 1.5)`` is ``"3 * sqrt(n)"``. The coefficient is rounded up.
    """
    tree = _tree(text)
    left = tree
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult | ast.Div):
        left = left.left
    match left:
        case ast.Constant(value=int() | float() as number, col_offset=0) if left is not tree:
            return f"{rounded_up(number * factor, 3):g}{text.strip()[left.end_col_offset :]}"
    return f"{rounded_up(factor, 3):g} * ({text.strip()})"


def rounded_up(value: float, digits: int = 2) -> float:
    """The next number with so many significant digits that is not smaller."""
    if value <= 0 or not math.isfinite(value):
        return value
    places = digits - 1 - math.floor(math.log10(value))
    text = f"{math.ceil(round(value * 10.0**places, 6))}e{-places}"
    return float(text)


def _tree(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise FormulaError(f"formula of {len(text)} characters, at most {LONGEST} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "'int' object is not callable" and the like
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"not a formula: {text!r}") from error


def _value(text: str, term: Term, numbers: Numbers) -> float:
    try:
        return term(numbers)
    except (ArithmeticError, ValueError) as error:
        at = ", ".join(f"{name} = {number:g}" for name, number in numbers.items())
        raise FormulaError(f"{text!r} has no value at {at}") from error


def _number(node: ast.expr, names: frozenset[str]) -> Term:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            constant = _finite(number)
            return lambda numbers: constant
        case ast.Name(id=name) if name in names:
            return lambda numbers: numbers[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            negated = _number(inner, names)
            return lambda numbers: -negated(numbers)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            apply = _ARITHMETIC[type(op)]
            first, second = _number(left, names), _number(right, names)
            return lambda numbers: apply(first(numbers), second(numbers))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            least, most, function = _FUNCTIONS[name]
            if not least <= len(args) <= most:
                raise FormulaError(f"{name} with {len(args)} arguments")
            terms = [_number(arg, names) for arg in args]
            return lambda numbers: function(*(term(numbers) for term in terms))
    raise FormulaError(_refusal(node, names))


def _truth(node: ast.expr, names: frozenset[str]) -> Callable[[Numbers], bool]:
    match node:
        case ast.BoolOp(op=op, values=values):
            every = isinstance(op, ast.And)
            parts = [_truth(value, names) for value in values]
            return lambda numbers: (all if every else any)(part(numbers) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=rights) if all(
            type(op) in _COMPARISONS for op in ops
        ):
            terms = [_number(term, names) for term in (left, *rights)]
            tests = [_COMPARISONS[type(op)] for op in ops]
            return lambda numbers: all(
                test(first(numbers), second(numbers))
                for test, first, second in zip(tests, terms, terms[1:], strict=False)
            )
    raise FormulaError(f"{ast.unparse(node)!r} is not a comparison such as 'n > 32'")


def _finite(number: float) -> float:
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise FormulaError("a number too large for a float")
    return value


def _refusal(node: ast.expr, names: frozenset[str]) -> str:
    return (
        f"{ast.unparse(node)[:60]!r} is not allowed: a formula has numbers, "
        f"{', '.join(sorted(names))}, + - * /, and {', '.join(_FUNCTIONS)}"
    )
