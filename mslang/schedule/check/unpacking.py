"""The value of each name of a `let` whose names unpack the right side."""

from __future__ import annotations

from collections.abc import Callable

from mslang.diagnostics import Diagnostic
from mslang.ops.signature import Kind
from mslang.schedule.check.kinds import ANY, SIZE, Static, describe, list_of
from mslang.sema.report import fault
from mslang.syntax import tree

Report = Callable[[Diagnostic], None]


def unpacked(s: tree.Let, results: Static | tuple[Static, ...], report: Report) -> tuple[Static, ...]:
    """The values of the binders of a `let`, one for each, in order; mismatches are reported."""
    values = results if isinstance(results, tuple) else (results,)
    if len(s.binders) == 1 and not s.binders[0].star:
        return (values[0] if len(values) == 1 else list_of(values[0], len(values)),)
    if len(values) != 1:
        return _spread(s, values, report)
    # One value for several binders is a list to unpack.
    whole = values[0]
    if whole.kind not in (Kind.VALUES, Kind.TILE, Kind.LOOPS, Kind.BLOCKS, Kind.ANY):
        if any(b.star for b in s.binders):
            return _spread(s, values, report)
        report(
            fault(
                "MS206",
                s,
                f"{len(s.binders)} names for one value",
                why=f"the right side gives {describe(whole)}",
            )
        )
    element = whole.element or (SIZE if whole.kind is Kind.TILE else ANY)
    if whole.length is None:
        return (element,) * len(s.binders)
    return _spread(s, (element,) * whole.length, report)


def _spread(s: tree.Let, values: tuple[Static, ...], report: Report) -> tuple[Static, ...]:
    binders = len(s.binders)
    stars = [k for k, b in enumerate(s.binders) if b.star]
    if not stars and len(values) != binders:
        report(
            fault(
                "MS206",
                s.binders[0].span.to(s.binders[-1].span),
                f"{binders} names for {len(values)} values",
                help="`_` discards a value, `*rest` takes all that remain",
            )
        )
        return tuple(values[k] if k < len(values) else ANY for k in range(binders))
    if not stars:
        return values
    if len(values) < binders - 1:
        report(fault("MS206", s, f"at least {binders - 1} values are needed, the right side gives {len(values)}"))
        return (ANY,) * binders
    at, after = stars[0], binders - stars[0] - 1
    middle = values[at : len(values) - after]
    rest = list_of(middle[0] if middle else ANY, len(middle))
    return (*values[:at], rest, *values[len(values) - after :])
