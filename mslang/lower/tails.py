"""Guards that end a loop: where nothing runs beyond an edge, the loop is as long as what is left of its tile.

`for y in 0..16 { for x in 0..64 { if t * 16 + y < 1022 { … } } }` runs `min(16, 1022 - t * 16)` iterations, without a
branch inside. The other way, to cut the loop over `t`, writes the whole body out once more for the last tile. It is the
better one where a number of iterations that is known when compiling is worth that: in innermost loops, in loops that
are written out, and in those over registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from mslang.ir.arith import linear
from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.visit import conjuncts
from mslang.kernel.nodes import Allocate, Body, For, If, Let, Within
from mslang.kernel.visit import walk
from mslang.lower.analysis import indexes
from mslang.lower.fold import fold


def bounding(body: Body, registers: frozenset[str]) -> frozenset[Binary]:
    """The guards in a body that may end loops of it.

    Args:
        body: statements.
        registers: buffers of which each index is to be a number: loops over them keep their length.
    """
    return frozenset(guard for s in walk(body) if isinstance(s, For) for guard in ends_of(s, registers))


def ends_of(s: For, registers: frozenset[str]) -> tuple[Binary, ...]:
    """The guards beyond which nothing runs in a loop, where its length need not be known when compiling."""
    if s.kind != "serial" or s.annotations or not _has_loops(s.body, registers) or indexes(s, registers):
        return ()
    return tuple(guard for guard in _around(s.body) if _is_end(guard, s.var))


def ended(s: For, guards: tuple[Binary, ...], assume: Callable[[Binary, Body], Body]) -> For:
    """A loop that ends where the first of these guards fails; `assume` puts a guard that holds into its body."""
    extent, body = s.extent, s.body
    for guard in guards:
        form = linear.condition(guard)
        assert form is not None
        # v + rest < 0 holds below -rest.
        rest = linear.Linear(form.form.constant, {v: c for v, c in form.form.terms.items() if v != s.var})
        left = Binary("-", linear.expression(linear.scale(rest, -1)), s.start)
        extent, body = Binary("min", extent, left), assume(guard, body)
    return replace(s, extent=fold(extent), body=body)


def _has_loops(body: Body, registers: frozenset[str]) -> bool:
    """Whether a loop is left in a body once vectors are, and what is to be written out is."""
    return any(isinstance(x, For) and _stays(x, registers) for x in walk(body))


def _stays(s: For, registers: frozenset[str]) -> bool:
    once = isinstance(s.extent, Const) and s.extent.value == 1
    return s.kind in ("serial", "parallel") and not once and not indexes(s, registers)


def _is_end(guard: Binary, var: str) -> bool:
    form = linear.condition(guard)
    return form is not None and form.relation == "<" and form.form.terms.get(var) == 1 and len(form.form.terms) > 1


def _around(body: Body) -> tuple[Binary, ...]:
    """The linear comparisons of what is outside of the body that all of it waits for."""
    found: tuple[Binary, ...] | None = None
    for s in body:
        match s:
            case If(condition=c, then=then, otherwise=()):
                own = (*_comparisons(c), *_around(then))
            case For(var=name, body=inner) | Let(name=name, body=inner):
                own = tuple(g for g in _around(inner) if not _mentions(g, name))
            case Allocate(body=inner) | Within(body=inner):
                own = _around(inner)
            case _:
                return ()
        found = own if found is None else tuple(g for g in found if g in own)
    return tuple(dict.fromkeys(found or ()))


def _comparisons(condition: Expr) -> Iterator[Binary]:
    for part in conjuncts(condition):
        if isinstance(part, Binary) and linear.condition(part) is not None:
            yield part


def _mentions(guard: Binary, name: str) -> bool:
    form = linear.condition(guard)
    return form is None or name in form.form.terms
