"""Software pipelining with asynchronous copies: shared memory is filled for later iterations while threads compute.

A loop annotated with `pipeline.stages` = S and `pipeline.copy` = cp_async becomes

    for k in 0..S-1 { copies(k)  commit }
    for k in 0..n { wait(S - 2)  if k + S - 1 < n { copies(k + S - 1) }  commit  rest(k) }

where each buffer that the copies fill has S versions, which iterations take in turn. A commit ends a group of copies,
and a wait lets at most so many groups be under way: those of iteration k are complete. Copies of other widths than 4, 8
and 16 bytes, and those that compute something, stay loads and stores.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.annotations import COPY, STAGES
from mslang.ir.dtype import size_of
from mslang.ir.expr import ZERO, Binary, Call, Const, Expr, Load, Ramp, Var
from mslang.ir.program import Buffer, Range
from mslang.ir.visit import substitute
from mslang.kernel import Allocate, Body, Evaluate, For, Function, If, Module, Stmt, Store
from mslang.kernel.visit import bodies, map_deep, map_functions, walk, with_bodies
from mslang.lower.fold import fold
from mslang.lower.gpu.accesses import CP_ASYNC, CP_ASYNC_WAIT
from mslang.lower.gpu.axes import axis_ranges, extents_of
from mslang.lower.gpu.indices import multiple_of
from mslang.lower.gpu.vectors import in_lanes
from mslang.lower.layout import row_major
from mslang.lower.pipeline import in_version, minus, opened, pipelined, split, versions
from mslang.target.description import Target

COMMIT = "cp_async_commit"
"""The call that ends a group of copies."""

WIDTHS = (4, 8, 16)
"""The bytes that an asynchronous copy moves."""

ALIGNED = 16
"""Bytes to which every buffer is aligned."""

SHARED = ("shared", "shared.dyn")


def staged(module: Module, target: Target) -> Module:
    """The module with the loops pipelined that are to be: by asynchronous copies where these are asked for."""
    if why_no_async(target) is None:
        scopes = {b.name: b for f in module.functions for b in f.params}
        functions = tuple(
            replace(f, body=_Staging(scopes | _allocated(f), axis_ranges(extents_of(f.launch))).body(f.body))
            for f in module.functions
        )
        module = replace(module, functions=functions)
    return map_functions(module, pipelined)


def why_no_async(target: Target) -> str | None:
    """None if a target has asynchronous copies: from compute capability 8.0 on, or if nothing is known of it."""
    digits = "".join(c for c in str(target.fields.get("arch", "")) if c.isdigit())
    number = target.fields.get("sm", int(digits) if digits else None)
    if not isinstance(number, int | float) or number >= _FIRST:
        return None
    return f"asynchronous copies need compute capability {_FIRST}; the target has {number}"


_FIRST = 80


def _allocated(f: Function) -> dict[str, Buffer]:
    return {s.buffer.name: s.buffer for s in walk(f.body) if isinstance(s, Allocate)}


def _call(name: str, *args: Expr) -> Evaluate:
    return Evaluate(Call(name, args, "i64"))


class _Staging:
    """Pipelines the loops of one function."""

    def __init__(self, buffers: Mapping[str, Buffer], ranges: Mapping[str, Range]) -> None:
        self.buffers, self.ranges = buffers, ranges

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            made = with_bodies(s, tuple(self.body(b) for b in bodies(s)))
            notes = dict(made.annotations) if isinstance(made, For) else {}
            stages = notes.get(STAGES)
            if isinstance(made, For) and notes.get(COPY) == CP_ASYNC and isinstance(stages, int) and stages > 1:
                out.extend(self.loop(made, stages))
            else:
                out.append(made)
        return tuple(out)

    def loop(self, s: For, stages: int) -> Body:
        """The loop with its copies under way for later iterations."""
        inside = opened(s.body)
        copies, versioned = split(inside)
        filled = [b for b in inside.buffers if b.name in versioned]
        if not filled or s.kind != "serial" or any(b.scope not in SHARED for b in filled):
            return (s,)
        slot = fold(Binary("%", minus(Var(s.var), s.start), Const(stages)))
        rest = in_version(tuple(x for k, x in enumerate(inside.stmts) if k not in copies), versioned, slot)
        for b in inside.buffers:
            if b.name not in versioned:
                rest = (Allocate(b, rest),)
        own = {b.name: versions(b, stages) for b in filled}
        copying = _Copying({**self.buffers, **own}, self.ranges)
        plain = in_version(tuple(inside.stmts[k] for k in copies), versioned, slot)
        filling = copying.body(plain)
        if not copying.converted:
            return (s,)
        later = {s.var: Binary("+", Var(s.var), Const(stages - 1))}
        next_filling = map_deep(filling, lambda e: fold(substitute(e, later)))
        end = fold(Binary("+", s.start, s.extent))
        within = Binary("<", later[s.var], end)
        notes = tuple(a for a in s.annotations if a[0] not in (STAGES, COPY))
        short = not isinstance(s.extent, Const) or s.extent.value < stages - 1
        first = (If(Binary("<", Var(s.var), end), filling),) if short else filling
        made: Body = (
            replace(s, extent=Const(stages - 1), body=(*first, _call(COMMIT)), annotations=notes),
            replace(
                s,
                body=(_call(CP_ASYNC_WAIT, Const(stages - 2)), If(within, next_filling), _call(COMMIT), *rest),
                annotations=notes,
            ),
        )
        for b in own.values():
            made = (Allocate(b, made),)
        return made


class _Copying:
    """Turns loads and stores into asynchronous copies where they are ones."""

    def __init__(self, buffers: Mapping[str, Buffer], ranges: Mapping[str, Range]) -> None:
        self.buffers, self.ranges = buffers, ranges
        self.converted = False

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            out.extend(self.statement(s))
        return tuple(out)

    def statement(self, s: Stmt) -> Body:
        match s:
            case For(kind="vectorized"):
                made = in_lanes(s, self.ranges)
                found = [self.copied(x) for x in made]
                if all(x is not None for x in found):
                    self.converted = True
                    return tuple(x for x in found if x is not None)
                return (replace(s, body=self.body(s.body), kind="unrolled"),)
            case Store():
                copied = self.copied(s)
                self.converted |= copied is not None
                return (s if copied is None else copied,)
        return (with_bodies(s, tuple(self.body(b) for b in bodies(s))),)

    def copied(self, s: Stmt) -> Stmt | None:
        """A store as an asynchronous copy, if it is one from global to shared memory of a width that there is."""
        match s:
            case Store(buffer=b, indices=to, value=Load(buffer=a, indices=source, dtype=d), mask=None) if (
                self.buffers[b].scope in SHARED and self.buffers[a].scope == "global" and self.buffers[b].dtype == d
            ):
                lanes = {x.lanes for x in (*to, *source) if isinstance(x, Ramp)} or {1}
                size = max(lanes) * size_of(d)
                starts = self.start(b, to, size), self.start(a, source, size)
                if len(lanes) > 1 or size not in WIDTHS or starts[0] is None or starts[1] is None:
                    return None
                return _call(CP_ASYNC, Load(b, starts[0], d), Load(a, starts[1], d), Const(size))
        return None

    def start(self, buffer: str, indices: tuple[Expr, ...], size: int) -> tuple[Expr, ...] | None:
        """The first element of neighbours that provably start at a multiple of their size."""
        if not indices:
            return ()
        *others, last = indices
        if any(isinstance(x, Ramp) for x in others) or (isinstance(last, Ramp) and last.stride != 1):
            return None
        b = self.buffers[buffer]
        strides = b.strides or row_major(b.shape)
        if isinstance(last, Ramp) and strides[-1] != Const(1):
            return None
        first = (*others, last.base if isinstance(last, Ramp) else last)
        flat: Expr = b.offset if b.offset is not None and b.scope == "global" else ZERO
        for i, stride in zip(first, strides, strict=True):
            flat = arith.add(flat, arith.mul(i, stride))
        bytes_ = multiple_of(arith.simplify(flat, self.ranges)) * size_of(b.dtype)
        return first if bytes_ % size == 0 and ALIGNED % size == 0 else None
