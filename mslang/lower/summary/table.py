"""A summary as text: for each statement a table with a row a loop and columns for its accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import fields

from mslang.ir.arith import simplify
from mslang.ir.expr import ONE, ZERO, Const, Expr
from mslang.ir.text import print_expr
from mslang.lower.summary.values import Access, Allocated, Nest, Statement, Summary


def print_summary(summary: Summary) -> str:
    """The summary as tables; ends with a newline.

    A row is a loop: its trip count, and the iterations, bytes and cache lines of one run of it with all loops inside.
    Under a buffer stand the stride from one iteration to the next and the elements of one such run; `<=` marks upper
    bounds. The last row is one iteration of the statement.
    """
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield f"summary of {summary.name} (cache lines of {summary.line} bytes)"
    for b in summary.buffers:
        if b.nest < 0:
            yield f"  {_buffer(b)}"
    for k, nest in enumerate(summary.nests):
        yield ""
        yield f"nest {k}, loop {nest.name}: {', '.join(_facts(nest))}" if nest.name else f"nest {k}"
        for b in summary.buffers:
            if b.nest == k and b.bytes != ZERO:
                yield f"  {_buffer(b)}"
        for s in summary.statements:
            if s.nest == k:
                yield ""
                yield from (f"  {line}" for line in _statement(s))


def _buffer(b: Allocated) -> str:
    shape = ", ".join(map(_text, b.shape))
    inside = f", in loop {b.loops[-1]}" if b.loops else ""
    return f"buffer {b.name}: {b.dtype}[{shape}] @ {b.scope}, {_text(b.bytes)} bytes{inside}"


def _facts(nest: Nest) -> list[str]:
    named = {
        "blocks": _axes(nest.grid),
        "threads": _axes(nest.block),
        "vthreads": _unless(nest.vthreads, ONE),
        "shared bytes": _unless(nest.shared, ZERO),
        "local bytes": _unless(nest.local, ZERO),
        "registers": _text(nest.registers),
        "instructions": _text(nest.code),
    }
    return [f"{name} {text}" for name, text in named.items() if text]


def _axes(extents: tuple[Expr, Expr, Expr]) -> str:
    return " x ".join(map(_text, extents)) if any(e != ONE for e in extents) else ""


def _unless(e: Expr, neutral: Expr) -> str:
    return "" if e == neutral else _text(e)


def _statement(s: Statement) -> Iterator[str]:
    under = ", under a condition" if s.guarded else ""
    part = f", part of {s.instruction}" if s.instruction else ""
    yield f"{s.buffer or 'call'}: runs {_text(s.trips)} times{under}{part}"
    counts = [(f.name, getattr(s.arithmetic, f.name)) for f in fields(s.arithmetic)]
    found = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts if n) or "no arithmetic"
    yield f"  an iteration: {found}"
    yield (
        f"  lanes {_text(s.lanes)}, copies {_text(s.copies)}, accumulators {_text(s.accumulators)}, "
        f"operands {_text(s.operands)}"
    )
    for a in s.accesses:
        if a.reuse_trips != ONE:
            yield (
                f"  {a.buffer}: each element {_text(a.reuse_trips)} times, "
                f"{_text(a.reuse_iterations)} iterations and {_text(a.reuse_bytes)} bytes apart"
            )
    yield from (f"  {line}" for line in _aligned(_rows(s)))


def _rows(s: Statement) -> list[list[str]]:
    head = ["loop", "kind", "trips", "iterations", "bytes", "lines"]
    rows = [head + [_title(a) for a in s.accesses]]
    for k in range(len(s.loops) + 1):
        if k < len(s.loops):
            loop = s.loops[k]
            first = [loop.var, loop.kind, _text(loop.extent)]
        else:
            first = ["", "", ""]
        row = [*first, _text(s.iterations[k]), _text(s.bytes[k]), _text(s.lines[k])]
        rows.append(row + [_cell(a, k) for a in s.accesses])
    return rows


def _title(a: Access) -> str:
    return f"{a.buffer} ({'+'.join(w for w, n in (('load', a.loads), ('store', a.stores)) if n)})"


def _cell(a: Access, k: int) -> str:
    elements = f"{'' if a.exact else '<= '}{_text(a.elements[k])}"
    if k == len(a.strides):
        return elements
    stride = a.strides[k]
    return f"stride {'?' if stride is None else _text(stride)}: {elements}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _text(e: Expr) -> str:
    return print_expr(e if isinstance(e, Const) else simplify(e))
