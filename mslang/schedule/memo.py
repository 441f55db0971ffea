"""A memo of primitives' results: the same call on the same program has the same outcome.

Replaying a sketch with other decisions, or a schedule of which the end was edited, repeats calls on existing
programs. Programs are compared by identity, and numbers by type as well: `1`, `true` and `1.0` are equal, as are `0.0`
and `-0.0`, yet they are not the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.find import contents_of, without_elements
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.transform.outcome import Outcome

Answer = TypeVar("Answer")

KEPT = 1 << 11
"""The number of outcomes kept; programs share unchanged parts."""


class _Call:
    """A primitive applied to a program, or a query about it."""

    __slots__ = ("arguments", "hash", "key", "primitive", "program")

    def __init__(self, primitive: Callable[..., Any], program: Program, arguments: Mapping[str, object]) -> None:
        self.primitive, self.program, self.arguments = primitive, program, arguments
        self.key = tuple([(name, exact(value)) for name, value in arguments.items()])
        self.hash = hash((primitive, id(program), self.key))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Call)
            and self.program is other.program
            and self.primitive is other.primitive
            and self.key == other.key
        )


def exact(value: object) -> object:
    """A value such that numbers of different types, and zeros of different signs, are not equal."""
    match value:
        case bool() | int() | float():
            return type(value), repr(value)
        case tuple() | list():
            return tuple(exact(x) for x in value)
        case dict():
            return tuple((exact(k), exact(v)) for k, v in value.items())
    return value


def outcome(primitive: Callable[..., Outcome], program: Program, arguments: Mapping[str, object]) -> Outcome:
    """The result of a primitive on a program with arguments by name, from the memo if present.

    Raises:
        ScheduleError: the primitive refuses, or MS398, an enclosing block would not declare an access inside it;
            refusals are not kept.
    """
    made: Outcome = _outcome(_Call(primitive, program, arguments))
    return made


@lru_cache(maxsize=KEPT)
def _outcome(call: _Call) -> Outcome:
    made: Outcome = call.primitive(call.program, **call.arguments)
    _require_elements(call.program, made.program)
    if made.program is not call.program and contents_of(made.program.body).nested:
        _require_well_formed(made.program)
    return made


def answer(query: Callable[..., Answer], program: Program, arguments: Mapping[str, object]) -> Answer:
    """What a pure query says of a program, from the memo if present.

    Raises:
        MsError: as the query does; that is not kept.
    """
    found: Answer = _answer(_Call(query, program, arguments))
    return found


@lru_cache(maxsize=KEPT)
def _answer(call: _Call) -> Any:
    return call.primitive(call.program, **call.arguments)


def _require_elements(before: Program, after: Program) -> None:
    """Require that new buffers have elements (MS321)."""
    if after is before:
        return
    known = {b.name for b in before.allocs}
    made = (b for b in after.allocs if b.name not in known)
    empty = (*without_elements(made), *contents_of(after.body).empty)
    if empty:
        raise ScheduleError(
            problem(
                "MS321",
                f"the new buffer `{empty[0]}` would have no elements",
                why="an axis or a loop that gives it a dimension has no values",
                help="leave this step out: what it would stage never runs",
            )
        )


def _require_well_formed(program: Program) -> None:
    """Require that enclosing blocks still declare all accesses inside them, which a rewrite may extend (MS398)."""
    faults = verify(program)
    if faults:
        raise ScheduleError(
            problem(
                "MS398",
                "cannot prove that the enclosing blocks' declared regions cover these accesses",
                why=faults[0].message,
                help="do this before `blockize`, or declare the region by `annotate_buffer_access`",
            )
        )


def forget() -> None:
    """Empty the memo, for measurements."""
    _outcome.cache_clear()
    _answer.cache_clear()
