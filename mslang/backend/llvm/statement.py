"""Statements to instructions: loops, branches, unrolling, vector loops; parallel loops are handed to the module."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mslang.backend.llvm import arithmetic, instruction, memory
from mslang.backend.llvm.affine import Affine, Interval, add, interval
from mslang.backend.llvm.expression import ExpressionWriter
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.module import ModuleWriter
from mslang.backend.llvm.scope import Mask, Memory, Scope
from mslang.backend.llvm.types import vector
from mslang.backend.llvm.vector import Chunk, chunks, native_lanes, vectorizable
from mslang.ir.annotations import MAX_STEPS
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Allocate, Body, Evaluate, For, If, Invoke, Let, Stmt, Store, While, Within
from mslang.kernel.visit import bodies, walk
from mslang.lower.analysis import accesses, mentions, weight
from mslang.lower.fold import fold
from mslang.lower.layout import row_major

MAX_UNROLLED = 1024
"""Statements that unrolling may make of one loop; a loop beyond stays a loop."""

REGISTER_BYTES = 64 * 1024
"""A local buffer up to this size is put on the stack, where it may become registers."""

STACK_BYTES = 256 * 1024
"""All buffers of a function on the stack together: threads may have little of it."""

SMALL_BYTES = 64
"""Any buffer up to this size is: a running sum, a row's maximum."""


class StatementWriter:
    """Emits lowered statements into one function. `high` counts the bytes of workspace that they need."""

    def __init__(self, module: ModuleWriter, fn: FunctionWriter, in_parallel: bool = False) -> None:
        self.module = module
        self.fn = fn
        self.expressions = ExpressionWriter(fn, module.guard)
        self.in_parallel = in_parallel
        self.high = 0
        self._stack = 0
        self._taken: dict[str, tuple[int, int]] = {}

    def body(self, body: Body, scope: Scope) -> None:
        """Emit statements in order."""
        for s in body:
            self._statement(s, scope)

    def _statement(self, s: Stmt, scope: Scope) -> None:
        match s:
            case Store():
                memory.store(self.expressions, s, scope)
            case For():
                self._loop(s, scope)
            case If():
                self._if(s, scope)
            case Let(name=name, value=v, body=b):
                form = self.expressions.affine_known(v, scope)
                self.body(b, scope.bind(name, self.expressions.value(v, scope) if form is None else form))
            case Allocate(buffer=buffer, body=b):
                self._allocate(buffer, b, scope)
            case While(condition=c, body=b):
                self._while(c, b, scope)
            case Evaluate(value=v):
                self.expressions.value(v, scope)
            case Within(body=b):
                self.body(b, scope._replace(within=s))
            case Invoke(meaning=b) if self.module.guard is not None:
                self.body(b, scope)
            case Invoke():
                instruction.emit(self.expressions, s, scope)
            case _:
                raise TypeError(f"not a lowered statement: {s!r}")

    # -------------------------------------------------------------- loops
    def _loop(self, s: For, scope: Scope) -> None:
        start = self._scalar_form(s.start, scope)
        extent = self._scalar_form(s.extent, scope)
        trips = extent.constant if extent.is_constant else None
        if trips is not None and trips <= 1:
            if trips == 1:
                self.body(s.body, scope.bind(s.var, start))
            return
        match s.kind:
            case "parallel" if not self.in_parallel and scope.lanes == 1:
                self.module.parallel(self, s, start, extent, scope)
                return
            case "vectorized" if self._vectorizes(s, scope):
                if trips is None:
                    self._open_vector_loop(s, start, extent, scope)
                else:
                    self._vector_loop(s, start, trips, scope)
                return
        if trips is not None and self._unrolls(s, trips, scope):
            for k in range(trips):
                self.body(s.body, scope.bind(s.var, start._replace(constant=start.constant + k)))
            return
        self.counted(s, start, extent, scope)

    def _scalar_form(self, e: Expr, scope: Scope) -> Affine:
        form = self.expressions.affine(e, scope)
        if form is None or form.lane:
            raise AssertionError("a loop whose bounds differ between lanes is not vectorizable")
        return form

    def _vectorizes(self, s: For, scope: Scope) -> bool:
        return scope.lanes == 1 and self.module.guard is None and vectorizable(s)

    def _unrolls(self, s: For, trips: int, scope: Scope) -> bool:
        if self.module.guard is not None:
            return False
        if s.kind == "unrolled":
            return trips <= _max_steps(s) and trips * weight(s.body) <= MAX_UNROLLED
        registers = {name for name, place in scope.memory.items() if place.row}
        return bool(registers) and indexes(s, registers) and trips * _written_out(s.body, registers) <= _IN_REGISTERS

    def counted(
        self,
        s: For,
        start: Affine,
        extent: Affine,
        scope: Scope,
        known: Interval | None = None,
    ) -> None:
        """A loop at run time; its variable stays in `known`, where that is narrower than its bounds imply."""
        ex = self.expressions
        first = ex.scalar(start)
        last = ex.scalar(add(start, extent))
        trips, over = interval(extent, ex.ranges, 1), interval(start, ex.ranges, 1)
        if known is None and trips is not None and over is not None:
            known = (over[0], over[1] + max(trips[1], 1) - 1)

        def inside(var: str) -> None:
            self.body(s.body, scope.bind(s.var, Affine(0, ((var, 1),))))

        self._repeat(first.ref, last.ref, trips is not None and trips[0] > 0, known, inside)

    def _repeat(self, first: str, last: str, runs: bool, known: Interval | None, inside: Callable[[str], None]) -> None:
        """A loop from `first` below `last`, tested at the bottom; at the top too unless it provably `runs`."""
        fn = self.fn
        top, after = fn.fresh("loop"), fn.fresh("after")
        if runs:
            fn.jump(top)
        else:
            fn.branch(fn.op(f"icmp slt i64 {first}, {last}"), top, after)
        before = fn.block
        fn.start(top)
        with fn.nested():
            var = "%" + fn.fresh("i")
            phi = fn.placeholder()
            if known is not None:
                self.expressions.ranges[var] = known
            inside(var)
            step = fn.op(f"add nuw nsw i64 {var}, 1")
            fn.branch(fn.op(f"icmp slt i64 {step}, {last}"), top, after)
            fn.fill(phi, f"{var} = phi i64 [ {first}, %{before} ], [ {step}, %{fn.block} ]")
        fn.start(after)

    def _vector_loop(self, s: For, start: Affine, trips: int, scope: Scope) -> None:
        native = native_lanes(s.body, self.module.target)
        inner = any(isinstance(x, For | While) for x in walk(s.body))
        pieces = chunks(trips, native, wide=inner, masks=self.module.target.has("avx512f"))
        whole = [p for p in pieces if p.active == pieces[0].lanes]
        if len(whole) > _UNROLLED_CHUNKS and not self._keeps_registers(s, scope):
            # Equal chunks become a loop of their own.
            self._chunk_loop(s, start, whole, scope)
            pieces = pieces[len(whole) :]
        for piece in pieces:
            self._chunk(s, start, piece, scope)

    def _open_vector_loop(self, s: For, start: Affine, extent: Affine, scope: Scope) -> None:
        """A vector loop whose length is known at run time only: whole vectors, then one by one."""
        fn, ex = self.fn, self.expressions
        width = native_lanes(s.body, self.module.target)
        count = ex.scalar(extent)
        trips = interval(extent, ex.ranges, 1)
        whole = fn.pure(f"sdiv {count.typed}, {width}")
        top = (max(trips[1], 0) // width) if trips is not None else None

        def inside(var: str) -> None:
            self._chunk(s, add(start, Affine(0, ((var, width),))), Chunk(0, width, width), scope)

        self._repeat("0", whole, False, None if top is None else (0, max(top - 1, 0)), inside)
        done = Affine(0, ((whole, width),))
        self.counted(s, add(start, done), add(extent, done, -1), scope)

    def _keeps_registers(self, s: For, scope: Scope) -> bool:
        return indexes(s, {name for name, place in scope.memory.items() if place.row})

    def _chunk_loop(self, s: For, start: Affine, whole: list[Chunk], scope: Scope) -> None:
        width = whole[0].lanes

        def inside(var: str) -> None:
            self._chunk(s, add(start, Affine(0, ((var, width),))), Chunk(0, width, width), scope)

        self._repeat("0", str(len(whole)), True, (0, len(whole) - 1), inside)

    def _chunk(self, s: For, start: Affine, piece: Chunk, scope: Scope) -> None:
        at = Affine(start.constant + piece.start, start.terms, 1)
        if piece.lanes == 1:
            self.body(s.body, scope.bind(s.var, at._replace(lane=0)))
            return
        mask = None
        if piece.active < piece.lanes:
            mask = Mask(vector([int(k < piece.active) for k in range(piece.lanes)], "bool"), piece.active)
        self.body(s.body, scope.bind(s.var, at)._replace(lanes=piece.lanes, mask=mask))

    # -------------------------------------------------------------- branches
    def _if(self, s: If, scope: Scope) -> None:
        fn = self.fn
        condition = self.expressions.value(s.condition, scope)
        if condition.ref in ("true", "false"):
            self.body(s.then if condition.ref == "true" else s.otherwise, scope)
            return
        if condition.lanes > 1:
            self.body(s.then, self.expressions.masked(scope, condition))
            if s.otherwise:
                self.body(s.otherwise, self.expressions.masked(scope, arithmetic.invert(fn, condition)))
            return
        yes, no, done = fn.fresh("then"), fn.fresh("else"), fn.fresh("done")
        fn.branch(condition.ref, yes if s.then else done, no if s.otherwise else done)
        for label, part in ((yes, s.then), (no, s.otherwise)):
            if part:
                fn.start(label)
                with fn.nested():
                    self.body(part, scope)
                    fn.jump(done)
        fn.start(done)

    def _while(self, condition: Expr, body: Body, scope: Scope) -> None:
        fn = self.fn
        test, inside, after = fn.fresh("while"), fn.fresh("inside"), fn.fresh("after")
        fn.jump(test)
        fn.start(test)
        with fn.nested():
            fn.branch(self.expressions.value(condition, scope).ref, inside, after)
            fn.start(inside)
            self.body(body, scope)
            fn.jump(test)
        fn.start(after)

    # -------------------------------------------------------------- buffers
    def _allocate(self, buffer: Buffer, body: Body, scope: Scope) -> None:
        sizes = [e.value if isinstance(e, Const) else None for e in buffer.shape]
        constants = [int(v) for v in sizes if v is not None]
        place = None
        if len(constants) == len(sizes) and buffer.strides is None:
            limit = REGISTER_BYTES if buffer.scope == "local" else SMALL_BYTES
            place = self._on_stack(buffer, constants, limit)
        if place is not None:
            self.body(body, _with_memory(scope, place))
            return
        size = self.module.allocated_bytes(buffer)
        top, room = self._taken.get(buffer.name, (0, -1))
        if size > room:
            top = self.high
            self.high = -(-(top + size) // 64) * 64
            self._taken[buffer.name] = (top, size)
        pointer = self.fn.pure(f"getelementptr inbounds i8, ptr %arena, i64 {top}")
        strides = buffer.strides or row_major(buffer.shape)
        tag = self.module.aliases.tag(self.fn.name, top)
        self.body(body, _with_memory(scope, Memory(buffer, pointer, strides, tag=tag)))

    def _on_stack(self, buffer: Buffer, sizes: list[int], limit: int) -> Memory | None:
        native = max(1, self.module.target.vector_bits // 8 // size_of(buffer.dtype))
        row = -(-sizes[-1] // native) * native if sizes and sizes[-1] > native // 2 else (sizes[-1] if sizes else 1)
        count = row
        for n in sizes[:-1]:
            count *= n
        size = count * size_of(buffer.dtype)
        if size > limit or self._stack + size > STACK_BYTES:
            return None
        self._stack += size
        element = memory.base_type(buffer.dtype)
        pointer = self.fn.alloca(f"alloca [{count} x {element}], align 64", "local")
        padded = tuple(map(Const, [*sizes[:-1], row])) if sizes else ()
        return Memory(buffer, pointer, row_major(padded), row)


_UNROLLED_CHUNKS = 8


def _with_memory(scope: Scope, place: Memory) -> Scope:
    places: Mapping[str, Memory] = {**scope.memory, place.buffer.name: place}
    return scope._replace(memory=places)


def _max_steps(s: For) -> int:
    """How many iterations the schedule lets be written out."""
    limit = dict(s.annotations).get(MAX_STEPS, MAX_UNROLLED)
    if isinstance(limit, Expr):
        limit = fold(limit)
    return int(limit.value) if isinstance(limit, Const) else limit if isinstance(limit, int) else MAX_UNROLLED


_IN_REGISTERS = MAX_UNROLLED // 2
"""Statements that a loop over registers, and those in it, may become."""


def _written_out(body: Body, registers: set[str]) -> int:
    """How many statements a body is once its loops over registers are unrolled, too."""
    total = 0
    for s in body:
        inner = sum(_written_out(b, registers) for b in bodies(s))
        match s:
            case For(kind="serial", extent=Const(value=n)) if n * inner <= _IN_REGISTERS and indexes(s, registers):
                total += int(n) * inner
            case _:
                total += max(inner, weight((s,)))
    return total


def indexes(s: For, buffers: set[str]) -> bool:
    """Whether the loop's variable occurs in an index of one of the buffers."""
    return any(a.buffer in buffers and any(mentions(e, s.var) for e in a.indices) for a in accesses(s.body))
