"""The values of the schedule language: sizes and their arithmetic, locations, holes, index maps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mslang.brevity import brief
from mslang.diagnostics import ScheduleError, problem
from mslang.ir.arith import simplify
from mslang.ir.arith.operations import SCALAR
from mslang.ir.dtype import INDEX
from mslang.ir.expr import COMPARISONS, Binary, Const, Expr, Unary, dtype_of
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.program import Program
from mslang.schedule.handles import Handle
from mslang.target.description import Target

Scalar = bool | int | float | str


class Hole(msgspec.Struct, frozen=True):
    """`_` as an argument."""


HOLE = Hole()


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a fork: `label`, one of `cases`. It compares with the names of its cases."""

    label: str
    cases: tuple[str, ...]


class Location(msgspec.Struct, frozen=True):
    """The outcome of `compute_location`. `label` is "inline", "root" or "at(loop)"; `loop` is that loop's handle;
    `name` is the name of the draw in the trace (None for a hand-written location)."""

    label: str
    loop: Handle | None = None
    name: str | None = None


_ARITHMETIC = frozenset({"+", "-", "*", "//", "%", "min", "max"})
_NUMERIC = _ARITHMETIC | COMPARISONS | {"/"}
"""The operators that take numbers, and texts or lists where these have them too."""


def lift(value: object) -> Expr | None:
    """A size as an expression; None if the value is not a size."""
    match value:
        case Expr():
            return value
        case bool():
            return Const(value, "bool")
        case int():
            return Const(value)
    return None


def settle(e: Expr) -> Expr | int | bool:
    """A size in canonical form; a plain number if constant."""
    simple = simplify(e)
    match simple:
        case Const(value=bool() as v) | Const(value=int() as v):
            return v
    return simple


def condition(e: Expr) -> Expr | bool:
    """A condition with its sides as written, or its truth value where the symbols decide it."""
    simple = simplify(e)
    return bool(simple.value) if isinstance(simple, Const) else e


def index_map(params: Sequence[str], results: Sequence[object]) -> IndexMap:
    """An index map whose results are in canonical form.

    Raises:
        ScheduleError: MS203, a parameter occurs twice, or a result is not an index.
    """
    twice = next((p for k, p in enumerate(params) if p in params[:k]), None)
    if twice is not None:
        raise ScheduleError(problem("MS203", f"the index map has two parameters `{twice}`"))
    made: list[Expr] = []
    for x in results:
        match x:
            case (low, high) | Binary(op="..", left=low, right=high):
                made.append(Binary(TO, _index(low), _index(high)))
            case _:
                made.append(_index(x))
    return IndexMap(tuple(params), tuple(made))


def _index(x: object) -> Expr:
    size = None if isinstance(x, bool) else lift(x)
    if size is None or dtype_of(size) != INDEX:
        raise ScheduleError(problem("MS203", f"an index map gives indices, not {describe(x)}"))
    return simplify(size)


def combine(op: str, left: object, right: object) -> object:
    """`left op right` for numbers, strings, lists and sizes that may be symbolic.

    Raises:
        ScheduleError: MS203, the operator does not accept the operands.
    """
    if isinstance(left, Expr) or isinstance(right, Expr):
        return _symbolic(op, left, right)
    if op in ("==", "!="):
        return (left == right) is (op == "==")
    if op == "/" and isinstance(left, int) and isinstance(right, int):
        raise mismatch(op, left, right, help="sizes divide by `//`")
    same = all(isinstance(x, int | float) for x in (left, right)) or (type(left) is type(right))
    if not same or op not in _NUMERIC or isinstance(left, Handle):
        raise mismatch(op, left, right)
    try:
        return SCALAR[op](left, right)
    except (TypeError, ArithmeticError) as failure:
        raise mismatch(op, left, right, why=str(failure)) from failure


def _symbolic(op: str, left: object, right: object) -> object:
    a, b = lift(left), lift(right)
    if a is None or b is None or (op not in _ARITHMETIC and op not in COMPARISONS):
        if op in ("==", "!="):
            return op == "!="
        raise mismatch(op, left, right)
    if op not in COMPARISONS and not (dtype_of(a) == dtype_of(b) == INDEX):
        raise mismatch(op, left, right)
    if op in ("//", "%") and b == Const(0):
        raise mismatch(op, left, right, why="division by zero")
    if op in COMPARISONS:
        return condition(Binary(op, simplify(a), simplify(b)))
    return settle(Binary(op, a, b))


def negate(value: object) -> object:
    """`-value`."""
    match value:
        case Expr():
            return settle(Unary("-", value))
        case bool():
            pass
        case int() | float():
            return -value
    raise ScheduleError(problem("MS203", f"`-` does not apply to {describe(value)}"))


def invert(value: object) -> object:
    """`not value`."""
    match value:
        case bool():
            return not value
        case Expr() if dtype_of(value) == "bool":
            return condition(Unary("not", value))
    raise ScheduleError(problem("MS203", f"`not` does not apply to {describe(value)}"))


def both(op: str, left: object, right: object) -> object:
    """`left and right`, `left or right`, of truth values that may be symbolic."""
    match left, right:
        case bool(), bool():
            return (left and right) if op == "and" else (left or right)
    a, b = lift(left), lift(right)
    if a is None or b is None or dtype_of(a) != "bool" or dtype_of(b) != "bool":
        raise mismatch(op, left, right)
    return condition(Binary(op, a, b))


def mismatch(op: str, left: object, right: object, *, why: str | None = None, help: str | None = None) -> ScheduleError:
    """The error of operands that an operator does not accept."""
    return ScheduleError(
        problem(
            "MS203",
            f"`{op}` does not apply to {describe(left)} and {describe(right)}",
            why=why,
            help=help,
        )
    )


def describe(value: object) -> str:
    """The description of a value in messages."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {brief(value)}"
        case str():
            return f'"{brief(value)}"'
        case Expr():
            return "a truth value" if dtype_of(value) == "bool" else "a size"
        case Handle(kind=kind, name=name):
            return f"the {kind} `{name}`"
        case Outcome(label=label):
            return f"the case `{label}`"
        case Location(label=label):
            return f"the location {label}"
        case IndexMap():
            return "an index map"
        case Hole():
            return "`_`"
        case tuple():
            return f"a list of {len(value)}"
        case Intrin(name=name):
            return f"the intrinsic `{name}`"
        case Target(name=name):
            return f"the target `{name}`"
        case Program(name=name):
            return f"the program `{name}`"
    return brief(value)
