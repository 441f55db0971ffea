"""What primitives gave, kept: the same call on the same program has the same outcome.

Replaying a sketch with other decisions, or a schedule of which the end was edited, repeats calls on programs that are
there already. Programs are told apart by identity, and numbers by type: `1`, `true` and `1.0` are equal, as are `0.0`
and `-0.0`, and are not the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.program import Block, Program
from mslang.ir.verify import verify
from mslang.ir.visit import blocks_of, contents
from mslang.transform.outcome import Outcome

KEPT = 1 << 11
"""How many outcomes are kept; programs share what did not change."""


class _Call:
    """A primitive applied to a program."""

    __slots__ = ("arguments", "hash", "key", "primitive", "program")

    def __init__(self, primitive: Callable[..., Outcome], program: Program, arguments: Mapping[str, object]) -> None:
        self.primitive, self.program, self.arguments = primitive, program, arguments
        self.key = tuple((name, _exact(value)) for name, value in arguments.items())
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


def _exact(value: object) -> object:
    match value:
        case bool() | int() | float():
            return type(value), repr(value)
        case tuple() | list():
            return tuple(_exact(x) for x in value)
        case dict():
            return tuple((_exact(k), _exact(v)) for k, v in value.items())
    return value


def outcome(primitive: Callable[..., Outcome], program: Program, arguments: Mapping[str, object]) -> Outcome:
    """What a primitive gives for a program and its arguments by name, from memory if it is there.

    Raises:
        ScheduleError: the primitive refuses, or MS398, a block of blocks would not declare what is touched in it;
            refusals are not kept.
    """
    return _outcome(_Call(primitive, program, arguments))


@lru_cache(maxsize=KEPT)
def _outcome(call: _Call) -> Outcome:
    made = call.primitive(call.program, **call.arguments)
    if made.program is not call.program and any(_holds_blocks(b) for b in blocks_of(made.program.body)):
        _require_well_formed(made.program)
    return made


def _holds_blocks(block: Block) -> bool:
    return any(contents(s).blocks for s in block.body)


def _require_well_formed(program: Program) -> None:
    """Blocks of blocks declare what all inside of them touch, which a change inside may exceed (MS398)."""
    faults = verify(program)
    if faults:
        raise ScheduleError(
            problem(
                "MS398",
                "the blocks around are not known to cover what would be touched",
                why=faults[0].message,
                help="do this before `blockize`, or declare the region by `annotate_buffer_access`",
            )
        )


def forget() -> None:
    """Keep nothing: for measuring."""
    _outcome.cache_clear()
