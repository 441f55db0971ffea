"""Statements to instructions: loops, branches, buffers; the body of a parallel loop becomes a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from mslang.backend.llvm import instruction, memory
from mslang.backend.llvm.expression import ExpressionWriter
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.functions import Functions, Task, allocated_bytes
from mslang.backend.llvm.scope import Memory, Scope
from mslang.backend.llvm.streaming import fence
from mslang.backend.llvm.types import Value
from mslang.ir.arith.linear import Form, Interval, Linear, add, interval
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Allocate, Body, Evaluate, For, If, Invoke, Let, Prefetch, Stmt, Store, While, Within
from mslang.lower.analysis import accesses
from mslang.lower.layout import row_major

IN_REGISTERS = 2048
"""Bytes of the largest buffer that the vector registers of a target hold: 32 of 64 bytes."""


class StatementWriter:
    """Emits lowered statements into one function. `high` counts the bytes of workspace that they need."""

    def __init__(
        self, functions: Functions, fn: FunctionWriter, in_parallel: bool = False, loops: tuple[str, ...] = ()
    ) -> None:
        self.functions = functions
        self.loops = loops
        self.fn = fn
        self.expressions = ExpressionWriter(fn, functions.guard)
        self.in_parallel = in_parallel
        self.high = 0
        self._taken: dict[str, tuple[int, int]] = {}
        self._shared: dict[tuple[str, str], str] = {}

    def body(self, body: Body, scope: Scope) -> None:
        """Emit statements in order."""
        for s in body:
            with self.fn.at(self._place(s)):
                self._statement(s, scope)

    def _place(self, s: Stmt) -> str | None:
        """The debug location of a statement, where there are any."""
        lines, function = self.functions.lines, self.fn.debug
        return None if lines is None or function is None else lines.place(function, self.loops, s)

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
            case Prefetch():
                memory.prefetch(self.expressions, s, scope)
            case Within(body=b):
                self.body(b, scope._replace(within=s))
            case Invoke(meaning=b) if self.functions.guard is not None:
                self.body(b, scope)
            case Invoke():
                instruction.emit(self.expressions, s, scope)
            case _:
                raise TypeError(f"not a lowered statement: {s!r}")

    # -------------------------------------------------------------- loops
    def _loop(self, s: For, scope: Scope) -> None:
        start, extent = self._bound(s.start, scope), self._bound(s.extent, scope)
        if s.kind == "parallel" and not self.in_parallel:
            self._parallel(s, start, extent, scope)
        else:
            self.counted(s, start, extent, scope)

    def _bound(self, e: Expr, scope: Scope) -> Linear:
        form = self.expressions.affine(e, scope)
        assert form is not None
        return form

    def counted(
        self,
        s: For,
        start: Linear,
        extent: Linear,
        scope: Scope,
        known: Interval | None = None,
    ) -> None:
        """A loop at run time; its variable stays in `known`, where that is narrower than its bounds imply."""
        ex = self.expressions
        first = ex.scalar(start)
        last = ex.scalar(add(start, extent))
        trips, over = interval(extent, ex.ranges), interval(start, ex.ranges)
        if known is None and trips is not None and over is not None:
            known = (over[0], over[1] + max(trips[1], 1) - 1)

        def inside(var: str) -> None:
            outer, self.loops = self.loops, (*self.loops, s.var)
            self.body(s.body, scope.bind(s.var, Form(0, {var: 1})))
            self.loops = outer

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
            # From -1 to 0 an unsigned sum overflows: with `nuw` the loop would have no defined end.
            flags = "nuw nsw" if known is not None and known[0] >= 0 else "nsw"
            step = fn.op(f"add {flags} i64 {var}, 1")
            fn.branch(fn.op(f"icmp slt i64 {step}, {last}"), top, after)
            fn.fill(phi, f"{var} = phi i64 [ {first}, %{before} ], [ {step}, %{fn.block} ]")
        fn.start(after)

    # -------------------------------------------------------------- parallel loops
    def _parallel(self, loop: For, start: Linear, extent: Linear, scope: Scope) -> None:
        """Emit the loop as a function of its own over a part of its range, and a launch of it here."""
        number = len(self.functions.tasks)
        used = {a.buffer for a in accesses(loop.body)}
        buffers = [place for name, place in scope.memory.items() if name in used]
        values: list[Value] = [Value(place.pointer, "ptr") for place in buffers]
        params = ["ptr %ctx", "ptr noalias align 64 %arena", *(f"ptr noalias %b{k}" for k in range(len(buffers)))]
        inner: dict[str, Linear | Value] = {}
        ranges: dict[str, Interval] = {}
        for k, (name, bound) in enumerate(scope.variables.items()):
            if isinstance(bound, Form) and not bound.terms:
                inner[name] = bound
                continue
            ref = f"%v{k}"
            if isinstance(bound, Form):
                known = interval(bound, self.expressions.ranges)
                if known is not None:
                    ranges[ref] = known
                values.append(self.expressions.scalar(bound))
                inner[name] = Form(0, {ref: 1})
            else:
                values.append(bound)
                inner[name] = Value(ref, bound.dtype)
            params.append(f"{values[-1].type} {ref}")
        captured = tuple("ptr" if v.dtype == "ptr" else v.type for v in values)
        self.functions.tasks.append(Task(number, captured))

        params += ["i64 %begin", "i64 %end"]
        fn = self.functions.begin(f"mslang.parallel{number}", tuple(params))
        writer = StatementWriter(self.functions, fn, in_parallel=True, loops=self.loops)
        writer.expressions.ranges |= ranges
        places = {p.buffer.name: p._replace(pointer=f"%b{k}", tag="") for k, p in enumerate(buffers)}
        over = interval(start, self.expressions.ranges)
        trips = interval(extent, self.expressions.ranges)
        if over is not None and trips is not None:
            writer.expressions.ranges["%begin"] = over
        count = fn.op("sub i64 %end, %begin")
        if over is not None and trips is not None:
            writer.expressions.ranges[count] = (1, max(1, trips[1]))
        begin, length = Form(0, {"%begin": 1}), Form(0, {count: 1})
        known_loop = (over[0], over[1] + max(1, trips[1]) - 1) if over is not None and trips is not None else None
        writer.counted(loop, begin, length, Scope(inner, places, within=scope.within), known_loop)
        fence(fn)
        fn.do("ret i32 0")
        self.functions.worker_workspace = max(self.functions.worker_workspace, writer.high)
        self.functions.texts.append(fn.text)
        self._launch(number, values, captured, start, extent)

    def _launch(
        self,
        number: int,
        values: list[Value],
        captured: tuple[str, ...],
        start: Linear,
        extent: Linear,
    ) -> None:
        fn = self.fn
        fence(fn)
        slots = len(values) + 2
        closure = fn.alloca(f"alloca [{slots} x i64], align 64", "closure")
        fn.do(f"store ptr %ctx, ptr {closure}")
        first = self.expressions.scalar(start)
        fn.do(f"store {first.typed}, ptr {_slot(fn, closure, 1)}")
        for k, (v, kind) in enumerate(zip(values, captured, strict=True)):
            fn.do(f"store {kind} {v.ref}, ptr {_slot(fn, closure, k + 2)}")
        count = self.expressions.scalar(extent)
        failed = fn.op(f"call i32 @mslang.launch(ptr %ctx, ptr @mslang.task{number}, ptr {closure}, {count.typed})")
        if self.functions.guard is not None:
            good, bad = fn.fresh("fine"), fn.fresh("failed")
            fn.branch(fn.op(f"icmp eq i32 {failed}, 0"), good, bad)
            fn.start(bad)
            fn.do("ret i32 1")
            fn.start(good)

    # -------------------------------------------------------------- branches
    def _if(self, s: If, scope: Scope) -> None:
        fn = self.fn
        condition = self.expressions.value(s.condition, scope)
        if condition.ref in ("true", "false"):
            self.body(s.then if condition.ref == "true" else s.otherwise, scope)
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
        strides = buffer.strides or row_major(buffer.shape)
        if buffer.scope == "local":
            self.body(body, _with_memory(scope, Memory(buffer, self._on_stack(buffer), strides)))
            return
        size = allocated_bytes(buffer)
        top, room = self._taken.get(buffer.name, (0, -1))
        if size > room:
            top = self.high
            self.high = -(-(top + size) // 64) * 64
            self._taken[buffer.name] = (top, size)
        pointer = self.fn.pure(f"getelementptr inbounds i8, ptr %arena, i64 {top}")
        tag = self.functions.aliases.tag(self.fn.name, top)
        self.body(body, _with_memory(scope, Memory(buffer, pointer, strides, tag)))

    def _on_stack(self, buffer: Buffer) -> str:
        """Memory on the stack; copies of a loop's body, which run one after another, share what is no register."""
        count = prod(int(n.value) for n in buffer.shape if isinstance(n, Const))
        what = f"alloca [{count} x {memory.base_type(buffer.dtype)}], align 64"
        if count * size_of(buffer.dtype) <= IN_REGISTERS:
            return self.fn.alloca(what, "local")
        key = (buffer.name, what)
        if key not in self._shared:
            self._shared[key] = self.fn.alloca(what, "local")
        return self._shared[key]


def _slot(fn: FunctionWriter, closure: str, k: int) -> str:
    return fn.pure(f"getelementptr i64, ptr {closure}, i64 {k}")


def _with_memory(scope: Scope, place: Memory) -> Scope:
    places: Mapping[str, Memory] = {**scope.memory, place.buffer.name: place}
    return scope._replace(memory=places)
