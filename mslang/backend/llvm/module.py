"""A kernel as an LLVM module: the function that does the work, one for each parallel loop, and the entries.

Every entry takes one array of 64-bit words: workspace, the launcher of parallel loops (0: there is none) and its
state, the place where a failed check is reported, then the parameters' addresses, then the dynamic sizes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from mslang.backend.llvm.aliases import Aliases
from mslang.backend.llvm.function import Declarations, FunctionWriter
from mslang.backend.llvm.guard import BoundsGuard
from mslang.backend.llvm.scope import Memory, Scope
from mslang.backend.llvm.source_lines import SourceLines
from mslang.backend.llvm.streaming import fence
from mslang.backend.llvm.triple import processor_of, triple_of
from mslang.backend.llvm.types import Value
from mslang.diagnostics import MsError, problem
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.arith.linear import Form, Interval, Linear, interval
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, DynamicRange, Expr
from mslang.ir.program import Buffer
from mslang.kernel.names import key_of
from mslang.kernel.nodes import For, Module
from mslang.lower.analysis import accesses
from mslang.lower.layout import row_major
from mslang.runtime.signature import FIRST_ARGUMENT, symbol
from mslang.sema.evaluation_limits import BYTES
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.backend.llvm.statement import StatementWriter


class _Task(NamedTuple):
    """A parallel loop's function and what it is given, apart from its range."""

    number: int
    captured: tuple[str, ...]


class ModuleWriter:
    """Writes one kernel. After `text`, `workspace` and `worker_workspace` say how many bytes it needs; with `lines`,
    instructions know the statement that they come from."""

    def __init__(self, kernel: Module, target: Target, lines: bool = False) -> None:
        self.kernel = kernel
        self.lines = SourceLines() if lines else None
        self.target = target
        self.guard = BoundsGuard() if kernel.checked else None
        self.declarations = Declarations()
        self.aliases = Aliases()
        self.workspace = 0
        self.worker_workspace = 0
        self._functions: list[str] = []
        self._tasks: list[_Task] = []

    @property
    def has_parallel(self) -> bool:
        """Whether any loop runs in parallel."""
        return bool(self._tasks)

    def text(self) -> str:
        """The module."""
        self._core()
        parts = [*self._functions, *(self._trampoline(t) for t in self._tasks), self._entries()]
        if self._tasks:
            parts.append(_LAUNCH)
        if self.guard is not None:
            parts.append(self.guard.report)
        metadata = [*self.aliases.lines(), *(() if self.lines is None else self.lines.text())]
        return "\n".join((*parts, *self.declarations.lines, *metadata, _attributes(self.target)))

    def _function(self, name: str, params: tuple[str, ...]) -> FunctionWriter:
        debug = None if self.lines is None else self.lines.function(name)
        return FunctionWriter(
            name,
            params,
            self.declarations,
            nan_free=self.target.nan_free,
            scales=self.target.has("avx512f"),
            fused=self.kernel.auto_vectorize,
            processor=processor_of(triple_of(self.target)),
            debug=debug,
        )

    # -------------------------------------------------------------- the work
    def _core(self) -> None:
        from mslang.backend.llvm.statement import StatementWriter

        kernel = self.kernel
        names = [f"%p{k}" for k in range(len(kernel.params))]
        sizes = [f"%s{k}" for k in range(len(kernel.dynamic))]
        arrays, scalars = (f"ptr noalias {n}" for n in names), (f"i64 {s}" for s in sizes)
        params = ("ptr %ctx", "ptr noalias align 64 %arena", *arrays, *scalars)
        fn = self._function(_core_name(kernel), params)
        writer = StatementWriter(self, fn)
        variables: dict[str, Linear | Value] = {}
        for ref, size in zip(sizes, kernel.dynamic, strict=True):
            variables[key_of(size)] = Form(0, {ref: 1})
            if isinstance(size.domain, DynamicRange):
                writer.expressions.ranges[ref] = (size.domain.lo, size.domain.hi)
        places = {
            p.buffer.name: Memory(p.buffer, ref, p.buffer.strides or row_major(p.buffer.shape))
            for p, ref in zip(kernel.params, names, strict=True)
        }
        writer.body(kernel.body, Scope(variables, places))
        fence(fn)
        fn.do("ret i32 0")
        self.workspace = writer.high
        self._functions.append(fn.text)

    def parallel(self, outer: StatementWriter, loop: For, start: Linear, extent: Linear, scope: Scope) -> None:
        """Emit the loop as a function of its own over a part of its range, and a launch of it here."""
        from mslang.backend.llvm.statement import StatementWriter

        number = len(self._tasks)
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
                known = interval(bound, outer.expressions.ranges)
                if known is not None:
                    ranges[ref] = known
                values.append(outer.expressions.scalar(bound))
                inner[name] = Form(0, {ref: 1})
            else:
                values.append(bound)
                inner[name] = Value(ref, bound.dtype)
            params.append(f"{values[-1].type} {ref}")
        captured = tuple("ptr" if v.dtype == "ptr" else v.type for v in values)
        self._tasks.append(_Task(number, captured))

        params += ["i64 %begin", "i64 %end"]
        fn = self._function(f"mslang.parallel{number}", tuple(params))
        writer = StatementWriter(self, fn, in_parallel=True, loops=outer.loops)
        writer.expressions.ranges |= ranges
        places = {p.buffer.name: p._replace(pointer=f"%b{k}", tag="") for k, p in enumerate(buffers)}
        over = interval(start, outer.expressions.ranges)
        trips = interval(extent, outer.expressions.ranges)
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
        self.worker_workspace = max(self.worker_workspace, writer.high)
        self._functions.append(fn.text)
        self._launch(outer, number, values, captured, start, extent)

    def _launch(
        self,
        outer: StatementWriter,
        number: int,
        values: list[Value],
        captured: tuple[str, ...],
        start: Linear,
        extent: Linear,
    ) -> None:
        fn = outer.fn
        fence(fn)
        slots = len(values) + 2
        closure = fn.alloca(f"alloca [{slots} x i64], align 64", "closure")
        fn.do(f"store ptr %ctx, ptr {closure}")
        first = outer.expressions.scalar(start)
        fn.do(f"store {first.typed}, ptr {_slot(fn, closure, 1)}")
        for k, (v, kind) in enumerate(zip(values, captured, strict=True)):
            fn.do(f"store {kind} {v.ref}, ptr {_slot(fn, closure, k + 2)}")
        count = outer.expressions.scalar(extent)
        failed = fn.op(f"call i32 @mslang.launch(ptr %ctx, ptr @mslang.task{number}, ptr {closure}, {count.typed})")
        if self.guard is not None:
            good, bad = fn.fresh("fine"), fn.fresh("failed")
            fn.branch(fn.op(f"icmp eq i32 {failed}, 0"), good, bad)
            fn.start(bad)
            fn.do("ret i32 1")
            fn.start(good)

    def _trampoline(self, task: _Task) -> str:
        """What a worker calls: unpacks the closure; iterations are counted from 0 there."""
        lines = [
            f"define internal void @mslang.task{task.number}(ptr %closure, i64 %from, i64 %to, i64 %worker) #0 {{",
            "entry:",
            "  %ctx = load ptr, ptr %closure",
            "  %first.p = getelementptr i64, ptr %closure, i64 1",
            "  %first = load i64, ptr %first.p",
            "  %begin = add i64 %from, %first",
            "  %end = add i64 %to, %first",
            "  %base = load ptr, ptr %ctx",
            f"  %own = mul i64 %worker, {_aligned(self.worker_workspace)}",
            f"  %skip = add i64 %own, {_aligned(self.workspace)}",
            "  %arena = getelementptr i8, ptr %base, i64 %skip",
        ]
        args = ["ptr %ctx", "ptr %arena"]
        for k, kind in enumerate(task.captured):
            lines.append(f"  %q{k} = getelementptr i64, ptr %closure, i64 {k + 2}")
            lines.append(f"  %c{k} = load {kind}, ptr %q{k}")
            args.append(f"{kind} %c{k}")
        call = ", ".join((*args, "i64 %begin", "i64 %end"))
        lines += [f"  %code = call i32 @mslang.parallel{task.number}({call})", "  ret void", "}", ""]
        return "\n".join(lines)

    def _entries(self) -> str:
        kernel = self.kernel
        lines = ["  %arena = load ptr, ptr %ctx"]
        args = ["ptr %ctx", "ptr %arena"]
        kinds = ["ptr"] * len(kernel.params) + ["i64"] * len(kernel.dynamic)
        for k, kind in enumerate(kinds):
            lines.append(f"  %q{k} = getelementptr i64, ptr %ctx, i64 {k + FIRST_ARGUMENT}")
            lines.append(f"  %a{k} = load {kind}, ptr %q{k}")
            args.append(f"{kind} %a{k}")
        load, call = "\n".join(lines), ", ".join(args)
        return _ENTRIES.format(name=symbol(kernel.name), core=_core_name(kernel), load=load, call=call)

    # -------------------------------------------------------------- buffers
    def allocated_bytes(self, buffer: Buffer) -> int:
        """The most bytes that a buffer takes over all dynamic sizes.

        Raises:
            MsError: MS408, there is no most; MS141, it is more than any machine has.
        """
        shape = tuple(_largest(e) for e in buffer.shape)
        elements = prod(shape)
        if buffer.strides is not None:
            strides = [_largest(e) for e in buffer.strides]
            elements = 1 + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        if elements * size_of(buffer.dtype) > BYTES:
            raise MsError(
                problem(
                    "MS141",
                    f"`{buffer.name}` may have more than {BYTES} bytes (1 TiB)",
                    why="its workspace is allocated for the largest sizes that a call may have",
                    help="make the ranges of the dynamic sizes smaller",
                )
            )
        return elements * size_of(buffer.dtype)


def _largest(e: Expr) -> int:
    top = int(e.value) if isinstance(e, Const) else limits(read_size(e))[1]
    if top is None:
        raise MsError(
            problem(
                "MS408",
                "the size of a buffer has no upper bound",
                why="its workspace is allocated before the kernel runs",
                help="make the buffer's shape depend on the program's sizes only",
            )
        )
    return top


def _slot(fn: FunctionWriter, closure: str, k: int) -> str:
    return fn.pure(f"getelementptr i64, ptr {closure}, i64 {k}")


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def _core_name(kernel: Module) -> str:
    return f"{symbol(kernel.name)}.core"


def _attributes(target: Target) -> str:
    width = f' "prefer-vector-width"="{target.vector_bits}"' if target.vector_bits >= 256 else ""
    tune = f' "tune-cpu"="{target.cpu}"' if target.cpu not in ("", "x86-64") else ""
    return f"attributes #0 = {{ nounwind noinline{width}{tune} }}\n"


_ENTRIES = """define i32 @{name}(ptr %ctx) nounwind {{
entry:
{load}
  %code = call i32 @{core}({call})
  ret i32 %code
}}

define i32 @{name}.bench(ptr %ctx, i64 %times) nounwind {{
entry:
{load}
  br label %again
again:
  %k = phi i64 [ 0, %entry ], [ %next, %again ]
  %code = call i32 @{core}({call})
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %again, label %done
done:
  ret i32 %code
}}
"""

_LAUNCH = """define internal i32 @mslang.launch(ptr %ctx, ptr %task, ptr %closure, i64 %count) nounwind noinline {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %choose, label %done
choose:
  %launcher.p = getelementptr i64, ptr %ctx, i64 1
  %launcher = load ptr, ptr %launcher.p
  %none = icmp eq ptr %launcher, null
  br i1 %none, label %serial, label %pool
serial:
  call void %task(ptr %closure, i64 0, i64 %count, i64 0)
  br label %check
pool:
  %state.p = getelementptr i64, ptr %ctx, i64 2
  %state = load ptr, ptr %state.p
  call void %launcher(ptr %state, ptr %task, ptr %closure, i64 %count)
  br label %check
check:
  %status.p = getelementptr i64, ptr %ctx, i64 3
  %status = load ptr, ptr %status.p
  %code = load i64, ptr %status
  %bad = icmp ne i64 %code, 0
  %result = zext i1 %bad to i32
  ret i32 %result
done:
  ret i32 0
}
"""
