"""What an array is declared to hold: `at: i32[N] in 0..V sorted`."""

from __future__ import annotations

from mslang.diagnostics import MsError
from mslang.ir.dtype import is_float, is_integer
from mslang.ir.expr import Const
from mslang.ir.program import Buffer, Within
from mslang.sema.expressions import index, typed
from mslang.sema.report import failure, unknown
from mslang.sema.scope import Scope
from mslang.syntax import tree

WORDS = ("sorted", "unique")


def within(e: tree.Within, buffer: Buffer, direction: str, scope: Scope) -> Within:
    """The declared range of a parameter's elements.

    Raises:
        MsError: MS129, it is not a range, an empty one, or stands at an output; MS104, a bound is of another type.
    """
    name, dtype = buffer.name, buffer.dtype
    if direction == "out":
        raise failure("MS129", e, f"`{name}` is an output", why="a range declares what the caller gives")
    if not (is_integer(dtype) or is_float(dtype)):
        raise failure("MS129", e, f"`{name}` holds `{dtype}`, of which there are no ranges")
    if not isinstance(e.range, tree.Binary) or e.range.op != "..":
        raise failure(
            "MS129",
            e.range,
            f"the values of `{name}` are not a range",
            why="`low .. high` holds what is at least `low` and less than `high`",
            help=f"write `{name}: {dtype}[…] in 0..N`",
        )
    if is_float(dtype):
        low, high = typed(e.range.left, scope, dtype), typed(e.range.right, scope, dtype)
    else:
        low, high = index(e.range.left, scope), index(e.range.right, scope)
    if isinstance(low, Const) and isinstance(high, Const) and not low.value < high.value:
        raise failure("MS129", e.range, f"no value is at least {low.value} and less than {high.value}")
    words = [w.text for w in e.words]
    for k, word in enumerate(e.words):
        if word.text not in WORDS or word.text in words[:k]:
            raise _refusal(word)
    return Within(low, high, "sorted" in words, "unique" in words)


def _refusal(word: tree.Name) -> MsError:
    """A word after a range that is unknown, or stands there twice."""
    if word.text in WORDS:
        return failure("MS129", word, f"`{word.text}` stands twice")
    help = "after a range may stand `sorted` and `unique`"
    return MsError(unknown("MS129", word, "property of an array", word.text, WORDS, help=help))
