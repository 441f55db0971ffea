"""Sizes in Python: numbers that depend on decisions."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Expr
from mslang.ir.index_map import IndexMap
from mslang.schedule import values


class Size(msgspec.Struct, frozen=True):
    """A size, or a condition on sizes, that depends on decisions: arithmetic and comparisons give sizes again.

    `&`, `|` and `~` are the language's `and`, `or` and `not`.
    """

    expr: Expr

    def __add__(self, other: object) -> Size | int:
        return combine("+", self, other)

    def __radd__(self, other: object) -> Size | int:
        return combine("+", other, self)

    def __sub__(self, other: object) -> Size | int:
        return combine("-", self, other)

    def __rsub__(self, other: object) -> Size | int:
        return combine("-", other, self)

    def __mul__(self, other: object) -> Size | int:
        return combine("*", self, other)

    def __rmul__(self, other: object) -> Size | int:
        return combine("*", other, self)

    def __floordiv__(self, other: object) -> Size | int:
        return combine("//", self, other)

    def __rfloordiv__(self, other: object) -> Size | int:
        return combine("//", other, self)

    def __mod__(self, other: object) -> Size | int:
        return combine("%", self, other)

    def __rmod__(self, other: object) -> Size | int:
        return combine("%", other, self)

    def __le__(self, other: object) -> Size | bool:
        return _compare("<=", self, other)

    def __lt__(self, other: object) -> Size | bool:
        return _compare("<", self, other)

    def __ge__(self, other: object) -> Size | bool:
        return _compare(">=", self, other)

    def __gt__(self, other: object) -> Size | bool:
        return _compare(">", self, other)

    def __eq__(self, other: object) -> Size | bool:  # type: ignore[override]
        return _compare("==", self, other)

    def __ne__(self, other: object) -> Size | bool:  # type: ignore[override]
        return _compare("!=", self, other)

    def __and__(self, other: object) -> Size | bool:
        return _both("and", self, other)

    def __or__(self, other: object) -> Size | bool:
        return _both("or", self, other)

    def __invert__(self) -> Size | bool:
        return _condition(values.invert(self.expr))

    def __neg__(self) -> Size | int:
        return combine("-", 0, self)

    def __hash__(self) -> int:
        return hash(self.expr)

    def __bool__(self) -> bool:
        raise ScheduleError(
            problem(
                "MS203",
                "this condition depends on decisions: it is neither true nor false yet",
                help="ask `schedule.branch(condition)`, which makes the answer part of the structure",
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
            return values.index_map(params, results)
        case tuple() | list():
            return tuple(unwrap(x) for x in value)
    return value


def combine(op: str, a: object, b: object) -> Size | int:
    """An operator applied to sizes."""
    found = wrap(values.combine(op, unwrap(a), unwrap(b)))
    if not isinstance(found, Size | int):
        raise values.mismatch(op, a, b)
    return found


def _compare(op: str, a: object, b: object) -> Size | bool:
    return _condition(values.combine(op, unwrap(a), unwrap(b)))


def _both(op: str, a: object, b: object) -> Size | bool:
    return _condition(values.both(op, unwrap(a), unwrap(b)))


def _condition(value: object) -> Size | bool:
    found = wrap(value)
    assert isinstance(found, Size | bool)
    return found
