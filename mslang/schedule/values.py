"""The values of the schedule language: sizes and their arithmetic, locations, holes, index maps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import msgspec

from mslang.brevity import brief
from mslang.diagnostics import ScheduleError, problem
from mslang.ir.arith import simplify
from mslang.ir.arith.operations import SCALAR
from mslang.ir.dtype import INDEX
from mslang.ir.expr import COMPARISONS, Binary, Const, Expr, Unary, Var, dtype_of
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.program import Program
from mslang.ir.visit import walk_expr
from mslang.target.description import Target

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

Scalar = bool | int | float | str


# ------------------------------------------------------------------ handles and sizes
class Arithmetic:
    """The operators of sizes in Python: arithmetic and comparisons give sizes again.

    `&`, `|` and `~` are the language's `and`, `or` and `not`.
    """

    __slots__ = ()

    def __add__(self, other: object) -> Size | int:
        return sized("+", self, other)

    def __radd__(self, other: object) -> Size | int:
        return sized("+", other, self)

    def __sub__(self, other: object) -> Size | int:
        return sized("-", self, other)

    def __rsub__(self, other: object) -> Size | int:
        return sized("-", other, self)

    def __mul__(self, other: object) -> Size | int:
        return sized("*", self, other)

    def __rmul__(self, other: object) -> Size | int:
        return sized("*", other, self)

    def __floordiv__(self, other: object) -> Size | int:
        return sized("//", self, other)

    def __rfloordiv__(self, other: object) -> Size | int:
        return sized("//", other, self)

    def __mod__(self, other: object) -> Size | int:
        return sized("%", self, other)

    def __rmod__(self, other: object) -> Size | int:
        return sized("%", other, self)

    def __neg__(self) -> Size | int:
        return sized("-", 0, self)

    def __le__(self, other: object) -> Size | bool:
        return _asked(combine("<=", unwrap(self), unwrap(other)))

    def __lt__(self, other: object) -> Size | bool:
        return _asked(combine("<", unwrap(self), unwrap(other)))

    def __ge__(self, other: object) -> Size | bool:
        return _asked(combine(">=", unwrap(self), unwrap(other)))

    def __gt__(self, other: object) -> Size | bool:
        return _asked(combine(">", unwrap(self), unwrap(other)))


class Handle(Arithmetic, msgspec.Struct, frozen=True):
    """An opaque handle. `kind` is "loop", "block" or "buffer"; `name` is the referent's name at its creation.

    In arithmetic and comparisons with numbers and sizes, the handle of a loop stands for the loop's value in an
    iteration, for the condition of a `specialize` inside it: `s.specialize(s.axis(b, "j"), s.axis(b, "i") < 3)`.
    """

    number: int
    kind: str
    name: str

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"

    def __eq__(self, other: object) -> Size | bool:  # type: ignore[override]
        if self is other:
            return True
        if isinstance(other, Handle):
            return (self.number, self.kind, self.name) == (other.number, other.kind, other.name)
        return _asked(combine("==", self, unwrap(other))) if self._compares_with(other) else NotImplemented

    def __ne__(self, other: object) -> Size | bool:  # type: ignore[override]
        if isinstance(other, Handle):
            return not self == other
        return _asked(combine("!=", self, unwrap(other))) if self._compares_with(other) else NotImplemented

    def _compares_with(self, other: object) -> bool:
        return self.kind == "loop" and isinstance(other, int | Size) and not isinstance(other, bool)

    def __hash__(self) -> int:
        return hash((self.number, self.kind, self.name))


class Size(Arithmetic, msgspec.Struct, frozen=True):
    """A size, or a condition on sizes and loops, that depends on decisions or iterations."""

    expr: Expr

    def __eq__(self, other: object) -> Size | bool:  # type: ignore[override]
        return _asked(combine("==", self.expr, unwrap(other)))

    def __ne__(self, other: object) -> Size | bool:  # type: ignore[override]
        return _asked(combine("!=", self.expr, unwrap(other)))

    def __and__(self, other: object) -> Size | bool:
        return _asked(both("and", self.expr, unwrap(other)))

    def __or__(self, other: object) -> Size | bool:
        return _asked(both("or", self.expr, unwrap(other)))

    def __invert__(self) -> Size | bool:
        return _asked(invert(self.expr))

    def __hash__(self) -> int:
        return hash(self.expr)

    def __bool__(self) -> bool:
        raise ScheduleError(
            problem(
                "MS203",
                "this condition depends on decisions or loops: it is neither true nor false yet",
                help="ask `schedule.branch(condition)`, which makes the answer on decisions part of the structure",
            )
        )


SizeLike = int | Size
Tile = tuple[Size | int | None, ...]


def wrap(value: object) -> object:
    """A value in Python's form: expressions as `Size`."""
    match value:
        case Expr():
            return Size(value)
        case tuple():
            return tuple(wrap(x) for x in value)
    return value


def unwrap(value: object) -> object:
    """A value in the language's form: `Size` as expressions."""
    match value:
        case Size(expr=e):
            return e
        case IndexMap(params=params, results=results):
            return index_map(params, results)
        case tuple() | list():
            return tuple(unwrap(x) for x in value)
    return value


def sized(op: str, a: object, b: object) -> Size | int:
    """An operator applied to sizes in Python's form."""
    found = wrap(combine(op, unwrap(a), unwrap(b)))
    if not isinstance(found, Size | int):
        raise mismatch(op, a, b)
    return found


def _asked(value: object) -> Size | bool:
    found = wrap(value)
    assert isinstance(found, Size | bool)
    return found


def variable_of(loop: Handle) -> Var:
    """The variable of a loop in a condition about it: its name is in no program, and tells `loops_in` the handle."""
    return Var(f"{loop.name}#{loop.number}")


def loops_in(e: Expr) -> dict[str, Handle]:
    """The loops that a condition is about, in order, by the names of their variables in it."""
    found: dict[str, Handle] = {}
    for x in walk_expr(e):
        if isinstance(x, Var):
            name, mark, number = x.name.rpartition("#")
            if mark and number.isdecimal():
                found[x.name] = Handle(int(number), "loop", name)
    return found


# ------------------------------------------------------------------ other values
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
"""The operators that take numbers."""

_ORDERED = COMPARISONS | {"+", "min", "max"}
"""The operators that take two texts or two lists."""


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


def _operand(value: object) -> Expr | None:
    """A size, or the variable of a loop, as an expression; None if the value is neither."""
    return variable_of(value) if isinstance(value, Handle) and value.kind == "loop" else lift(value)


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
    if size is None or dtype_of(size) != INDEX or loops_in(size):
        raise ScheduleError(problem("MS203", f"an index map gives indices, not {describe(x)}"))
    return simplify(size)


def combine(op: str, left: object, right: object) -> object:
    """`left op right` for numbers, strings, lists, sizes that may be symbolic, and loops in a condition.

    Raises:
        ScheduleError: MS203, the operator does not accept the operands.
    """
    if isinstance(left, Expr) or isinstance(right, Expr) or _about_loops(op, left, right):
        return _symbolic(op, left, right)
    if op in ("==", "!="):
        same = _equal(left, right)
        return same if op == "==" else invert(same)
    if op == "/" and isinstance(left, int) and isinstance(right, int):
        raise mismatch(op, left, right, help="sizes divide by `//`")
    numbers = all(isinstance(x, int | float) for x in (left, right))
    known = _NUMERIC if numbers else _ORDERED if type(left) is type(right) and isinstance(left, str | tuple) else ()
    if op not in known:
        raise mismatch(op, left, right)
    try:
        return SCALAR[op](left, right)
    except (TypeError, ArithmeticError) as failure:
        raise mismatch(op, left, right, why=str(failure)) from failure


def _equal(left: object, right: object) -> object:
    """Whether two values other than sizes are equal: a condition for lists in which sizes are open."""
    match left, right:
        case tuple(), tuple():
            if len(left) != len(right):
                return False
            each = [combine("==", *(None if x is HOLE else x for x in pair)) for pair in zip(left, right)]
            open_ones = [x for x in each if not isinstance(x, bool)]
            return all(x for x in each if isinstance(x, bool)) and (not open_ones or reduce(_and, open_ones))
        case Location(loop=Handle() as a), Location(loop=Handle() as b):
            return a == b
        case Location(label=a), Location(label=b):
            return a == b
    return left == right


def _and(left: object, right: object) -> object:
    return both("and", left, right)


def _about_loops(op: str, left: object, right: object) -> bool:
    """Whether an operator is meant of the values of loops: two handles are equal if they are of one loop."""
    handles = [isinstance(x, Handle) for x in (left, right)]
    return any(handles) and not (all(handles) and op in ("==", "!=")) and None not in (_operand(left), _operand(right))


def _symbolic(op: str, left: object, right: object) -> object:
    a, b = _operand(left), _operand(right)
    if a is None or b is None or (op not in _ARITHMETIC and op not in COMPARISONS):
        if op in ("==", "!="):
            return op == "!="
        raise mismatch(op, left, right)
    if op not in COMPARISONS and not (dtype_of(a) == dtype_of(b) == INDEX):
        raise mismatch(op, left, right)
    if op in ("//", "%") and b == Const(0):
        raise mismatch(op, left, right, why="division by zero")
    if op in COMPARISONS:
        a, b = simplify(a), simplify(b)
        if op in ("==", "!=") and isinstance(a, Var) and isinstance(b, Var):
            # between two handles `==` asks whether they are of one loop
            a, b = simplify(Binary("-", a, b)), Const(0)
        # as Python, which asks the right side if the left one is a number
        flipped = isinstance(a, Const) and not isinstance(b, Const)
        return condition(Binary(_FLIPPED[op], b, a) if flipped else Binary(op, a, b))
    return settle(Binary(op, a, b))


def negate(value: object) -> object:
    """`-value`."""
    match value:
        case Expr():
            return settle(Unary("-", value))
        case Handle(kind="loop"):
            return settle(Unary("-", variable_of(value)))
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
        case Expr() if loops := loops_in(value):
            what = "a condition" if dtype_of(value) == "bool" else "an expression"
            return f"{what} about {' and '.join(f'loop `{h.name}`' for h in loops.values())}"
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
