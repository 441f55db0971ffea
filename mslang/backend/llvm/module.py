"""A kernel as an LLVM module: the function that does the work, one for each parallel loop, and the entries.

Every entry takes one array of 64-bit words: workspace, the launcher of parallel loops (0: there is none) and its
state, the place where a failed check is reported, then the parameters' addresses, then the dynamic sizes.
"""

from __future__ import annotations

from mslang.backend.llvm.functions import Functions, Task
from mslang.backend.llvm.scope import Memory, Scope
from mslang.backend.llvm.source_lines import SourceLines
from mslang.backend.llvm.statement import StatementWriter
from mslang.backend.llvm.streaming import fence
from mslang.backend.llvm.types import Value
from mslang.ir.arith.linear import Form, Linear
from mslang.ir.expr import DynamicRange
from mslang.kernel.names import key_of
from mslang.kernel.nodes import Module
from mslang.lower.layout import row_major
from mslang.runtime.signature import FIRST_ARGUMENT, symbol
from mslang.target.description import Target


class ModuleWriter:
    """Writes one kernel. After `text`, `functions` are those written, and `workspace` says how many bytes of memory the
    kernel needs beside that of its workers; with `lines`, instructions know the statement that they come from."""

    def __init__(self, kernel: Module, target: Target, lines: SourceLines | None = None) -> None:
        self.kernel = kernel
        self.target = target
        self.workspace = 0
        self.functions = Functions(kernel, target, lines)

    def text(self) -> str:
        """The module."""
        self._core()
        made = self.functions
        parts = [*made.texts, *(self._trampoline(t) for t in made.tasks), self._entries()]
        if made.tasks:
            parts.append(_LAUNCH)
        if made.guard is not None:
            parts.append(made.guard.report)
        metadata = [*made.aliases.lines(), *(() if made.lines is None else made.lines.text())]
        return "\n".join((*parts, *made.declarations.lines, *metadata, _attributes(self.target)))

    # -------------------------------------------------------------- the work
    def _core(self) -> None:
        kernel = self.kernel
        names = [f"%p{k}" for k in range(len(kernel.params))]
        sizes = [f"%s{k}" for k in range(len(kernel.dynamic))]
        arrays, scalars = (f"ptr noalias {n}" for n in names), (f"i64 {s}" for s in sizes)
        params = ("ptr %ctx", "ptr noalias align 64 %arena", *arrays, *scalars)
        fn = self.functions.begin(_core_name(kernel), params)
        writer = StatementWriter(self.functions, fn)
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
        self.functions.texts.append(fn.text)

    def _trampoline(self, task: Task) -> str:
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
            f"  %own = mul i64 %worker, {_aligned(self.functions.worker_workspace)}",
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
