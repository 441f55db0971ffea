"""Limits of what evaluating constants and running schedules may take, so that every text ends in good time.

The limits are far above what schedules use. They count work, not time: the same text ends the same way everywhere.
Those on programs and arguments hold for schedules from Python, too; there, how many steps are made is up to Python.
"""

from __future__ import annotations

from collections.abc import Iterator

from mslang.diagnostics import Diagnostic, problem
from mslang.ir.expr import Expr, children

STEPS = 50_000
"""Work that running one item may take: an expression or statement is one step."""

STEPS_OF_SYMBOLIC = 50
"""Arithmetic on decisions and sizes that are not known yet."""

STEPS_OF_PRIMITIVE = 20

ELEMENTS = 16_384
"""Numbers, texts and handles in a list, lists inside it included."""

CHARACTERS = 65_536
"""Characters of a text that is put together."""

BITS = 128
"""Bits of a whole number."""

NODES = 512
"""Nodes of a symbolic size."""

LOOPS = 128
"""Loops around one statement."""

UNROLLED = 65_536
"""Copies of a loop's body that `unroll` may ask for."""

BYTES = 1 << 40
"""Bytes of one buffer."""

DEPTH = 64
"""How deep fns, rules and spaces may call each other."""

CODE = "MS140"


def excess(value: object) -> str | None:
    """What about a value is over the limits, or None."""
    match value:
        case bool():
            return None
        case int():
            return f"a number of more than {BITS} bits" if value.bit_length() > BITS else None
        case str():
            return f"a text of more than {CHARACTERS} characters" if len(value) > CHARACTERS else None
        case tuple():
            return f"a list of more than {ELEMENTS} elements" if elements(value) > ELEMENTS else None
        case Expr():
            return f"a size of more than {NODES} terms and operators" if _nodes(value) > NODES else None
    return None


def flat(value: object) -> Iterator[object]:
    """A value, and its elements if it is a list or tuple of no more than allowed."""
    whole = tuple(value) if isinstance(value, list) else value
    yield whole
    if isinstance(whole, tuple) and elements(whole) <= ELEMENTS:
        for x in whole:
            if isinstance(x, tuple | list):
                yield from flat(x)
            else:
                yield x


def elements(value: object) -> int:
    """How many elements a value has, lists inside it included, counted up to one more than `ELEMENTS`."""
    count, rest = 0, [value]
    while rest and count <= ELEMENTS:
        top = rest.pop()
        if isinstance(top, tuple):
            count += len(top)
            rest.extend(x for x in top[: ELEMENTS + 1] if isinstance(x, tuple))
    return count


def _nodes(e: Expr) -> int:
    count, rest = 0, [e]
    while rest and count <= NODES:
        top = rest.pop()
        count += 1
        rest.extend(children(top))
    return count


def too_much(what: str) -> Diagnostic:
    """The error of an evaluation that goes over a limit."""
    return problem(
        CODE,
        f"evaluation limit exceeded: {what}",
        why="constants and schedules are evaluated within fixed limits, so that checking always ends",
        help="use a shorter list or range, a smaller number, or fewer calls",
    )


class Meter:
    """Counts the steps of one evaluation."""

    def __init__(self, most: int = STEPS) -> None:
        self._most = most
        self._left = most

    def spend(self, steps: int = 1) -> Diagnostic | None:
        """Take steps; the error if there are no more."""
        self._left -= steps
        return too_much(f"more than {self._most} steps") if self._left < 0 else None
