"""The function that C calls: checks its arguments, chooses code for the processor, gives it memory and threads."""

from __future__ import annotations

import msgspec

from mslang.backend.aot.processor import WORDS, masks, processor_ir
from mslang.backend.aot.threads import LAUNCH, LIMIT, STATE, WORKERS
from mslang.backend.aot.tiles import REQUEST, tiles_ir
from mslang.diagnostics import MsError, problem
from mslang.ir.buckets import Bucket
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, DynamicRange, Expr, Symbol
from mslang.runtime.signature import FIRST_ARGUMENT, Parameter, Signature

OK, NO_MEMORY, BAD_ARGUMENT, UNSUPPORTED = 0, 1, 2, 3
"""What the function returns."""

ON_STACK = 16 * 1024
"""Bytes of workspace up to which it lies on the caller's stack."""


class Variant(msgspec.Struct, frozen=True):
    """Code for one target: its entry's symbol, the features that it needs, and what it needs of memory and threads.

    `bucket`: the sizes that it serves instead of the code for all sizes, which stands before it.
    """

    entry: str
    features: tuple[str, ...]
    signature: Signature
    bucket: Bucket | None = None


class Entry(msgspec.Struct, frozen=True):
    """A C function: its name, what its arguments are held against, and the code to choose from, the best first.

    All variants take the same arguments; of arrays that are packed ahead of time `signature` has the largest.
    """

    name: str
    signature: Signature
    variants: tuple[Variant, ...]


def entries_ir(entries: tuple[Entry, ...], *, triple: str, threads: bool, asks: bool) -> str:
    """The functions of a library and what they need.

    Args:
        entries: the functions; the variants of each are for the same targets in the same order.
        triple: the system and processor family.
        threads: whether there is a pool of threads.
        asks: whether the processor can be asked what it has; else the only variant is what runs.
    """
    parts = [f"declare i32 @{v.entry}(ptr)" for e in entries for v in e.variants]
    if asks:
        working = _on_tiles(entries[0].variants)
        parts += [processor_ir(), *((tiles_ir(triple),) if working else ()), _chooser(entries[0].variants, working)]
    for e in entries:
        parallel = threads and any(v.signature.parallel for v in e.variants)
        parts.append(_Writer(e.signature).function(e.name, e.variants, parallel, asks))
        if parallel:
            parts.append(_LIMITER.format(name=e.name, limit=LIMIT))
    return "\n".join((*parts, "declare ptr @aligned_alloc(i64, i64)", "declare void @free(ptr)", ""))


_LIMITER = """define i32 @{name}_set_threads(i32 %n) nounwind {{
  %fine = icmp sgt i32 %n, 0
  %wide = zext i32 %n to i64
  %old = load atomic i64, ptr @{limit} monotonic, align 8
  %new = select i1 %fine, i64 %wide, i64 %old
  store atomic i64 %new, ptr @{limit} monotonic, align 8
  %code = select i1 %fine, i32 0, i32 2
  ret i32 %code
}}
"""


def _on_tiles(variants: tuple[Variant, ...]) -> frozenset[int]:
    """The places of the variants for all sizes that work on matrix tiles, or of which one for a bucket does."""
    found, whole = set(), 0
    for k, v in enumerate(variants):
        whole = k if v.bucket is None else whole
        if v.signature.tiles:
            found.add(whole)
    return frozenset(found)


def _chooser(variants: tuple[Variant, ...], on_tiles: frozenset[int]) -> str:
    """`@mslang.choose`: the number of the first variant that this processor and its system run, from 1, or 0. Both are
    asked once."""
    lines = [
        "@mslang.chosen = internal global i64 -1, align 8",
        "define internal i64 @mslang.choose() {",
        "entry:",
        "  %known = load atomic i64, ptr @mslang.chosen monotonic, align 8",
        "  %first = icmp slt i64 %known, 0",
        "  br i1 %first, label %ask, label %done",
        "ask:",
        f"  %words = alloca [{WORDS} x i32], align 4",
        "  call void @mslang.processor_words(ptr %words)",
    ]
    result = "0"
    for k, v in reversed(list(enumerate(variants))):
        fits = "true"
        for word, mask in masks(v.features).items():
            at = f"{k}.{word}"
            lines += [
                f"  %p{at} = getelementptr i32, ptr %words, i64 {word}",
                f"  %w{at} = load i32, ptr %p{at}",
                f"  %m{at} = and i32 %w{at}, {mask - (1 << 32) if mask >> 31 else mask}",
                f"  %e{at} = icmp eq i32 %m{at}, {mask - (1 << 32) if mask >> 31 else mask}",
                f"  %f{at} = and i1 {fits}, %e{at}",
            ]
            fits = f"%f{at}"
        if k in on_tiles:
            lines.append(f"  %tiles{k} = call i1 @{REQUEST}(i1 {fits})")
            fits = f"%tiles{k}"
        lines.append(f"  %c{k} = select i1 {fits}, i64 {k + 1}, i64 {result}")
        result = f"%c{k}"
    return "\n".join(
        [
            *lines,
            f"  store atomic i64 {result}, ptr @mslang.chosen monotonic, align 8",
            f"  ret i64 {result}",
            "done:",
            "  ret i64 %known",
            "}",
            "",
        ]
    )


class _Writer:
    """Writes the function, instruction by instruction."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.lines: list[str] = []
        self._count = 0
        self._sizes = {s.text: f"%s{k}" for k, s in enumerate(signature.dynamic)}

    def op(self, text: str) -> str:
        self._count += 1
        self.lines.append(f"  %t{self._count} = {text}")
        return f"%t{self._count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def require(self, condition: str, otherwise: str) -> None:
        """Go on if a condition holds, else to a label."""
        self._count += 1
        self.do(f"br i1 {condition}, label %go{self._count}, label %{otherwise}")
        self.lines.append(f"go{self._count}:")

    def function(self, name: str, variants: tuple[Variant, ...], parallel: bool, asks: bool) -> str:
        params = [f"ptr %a{k}" for k in range(len(self.signature.parameters))]
        params += [f"i64 %s{k}" for k in range(len(self.signature.dynamic))]
        self.lines = [f"define i32 @{name}({', '.join(params)}) nounwind {{", "entry:"]
        slots = FIRST_ARGUMENT + len(params)
        context = self.op(f"alloca [{slots} x i64], align 8")
        status = self.op("alloca [4 x i64], align 8")
        team = self.op("alloca [2 x i64], align 8")
        small = self.op(f"alloca [{ON_STACK} x i8], align 64")
        self.do(f"store i64 0, ptr {status}")
        self._check_arguments()
        chosen = self.op("call i64 @mslang.choose()") if asks else "1"
        if asks:
            self.require(self.op(f"icmp ne i64 {chosen}, 0"), "unsupported")
        chosen = self._for_sizes(variants, chosen)
        state = self.op(f"call ptr @{STATE}()") if parallel else "null"
        workers = self.op(f"call i64 @{WORKERS}(ptr {state})") if parallel else "1"
        self.do(f"store ptr {state}, ptr {team}")
        self.do(f"store i64 {workers}, ptr {self.op(f'getelementptr i64, ptr {team}, i64 1')}")
        needed = self._bytes(variants, chosen, workers)
        fits = self.op(f"icmp ule i64 {needed}, {ON_STACK}")
        self.do(f"br i1 {fits}, label %stack, label %heap")
        self.lines.append("heap:")
        taken = self.op(f"call ptr @aligned_alloc(i64 64, i64 {needed})")
        self.do(f"br i1 {self.op(f'icmp eq ptr {taken}, null')}, label %nomemory, label %ready")
        self.lines += ["stack:", "  br label %ready", "ready:"]
        memory = self.op(f"phi ptr [ {small}, %stack ], [ {taken}, %heap ]")
        freed = self.op(f"phi ptr [ null, %stack ], [ {taken}, %heap ]")
        launcher = (
            self.op(f"select i1 {self.op(f'icmp eq ptr {state}, null')}, ptr null, ptr @{LAUNCH}")
            if parallel
            else "null"
        )
        words = [("ptr", memory), ("ptr", launcher), ("ptr", team), ("ptr", status)]
        words += [(kind, ref) for kind, _, ref in (p.partition(" ") for p in params)]
        for k, (kind, word) in enumerate(words):
            self.do(f"store {kind} {word}, ptr {self.op(f'getelementptr i64, ptr {context}, i64 {k}')}")
        self._call(variants, chosen, context)
        self.lines += ["end:", f"  call void @free(ptr {freed})", f"  ret i32 {OK}"]
        self.lines += ["nomemory:", f"  ret i32 {NO_MEMORY}", "bad:", f"  ret i32 {BAD_ARGUMENT}"]
        self.lines += ["unsupported:", f"  ret i32 {UNSUPPORTED}"] if asks else []
        return "\n".join((*self.lines, "}", ""))

    def _for_sizes(self, variants: tuple[Variant, ...], chosen: str) -> str:
        """The number of the code that serves the sizes of the call, of the target that was chosen."""
        number, whole = chosen, 0
        for k, v in enumerate(variants):
            if v.bucket is None:
                whole = k
                continue
            held = self.op(f"icmp eq i64 {chosen}, {whole + 1}")
            for name, r in v.bucket.ranges:
                for relation, bound in (("sge", r.lo), ("sle", r.hi)):
                    inside = self.op(f"icmp {relation} i64 {self._sizes[name]}, {bound}")
                    held = self.op(f"and i1 {held}, {inside}")
            number = self.op(f"select i1 {held}, i64 {k + 1}, i64 {number}")
        return number

    def _call(self, variants: tuple[Variant, ...], chosen: str, context: str) -> None:
        cases = " ".join(f"i64 {k + 1}, label %run{k}" for k in range(len(variants)))
        self.do(f"switch i64 {chosen}, label %end [ {cases} ]")
        for k, v in enumerate(variants):
            self.lines += [f"run{k}:", f"  %code{k} = call i32 @{v.entry}(ptr {context})", "  br label %end"]

    def _bytes(self, variants: tuple[Variant, ...], chosen: str, workers: str) -> str:
        """The bytes of workspace that the chosen variant needs, a multiple of 64."""
        total = "0"
        for k, v in enumerate(variants):
            own = _rounded(v.signature.workspace)
            each = self.op(f"mul i64 {workers}, {_rounded(v.signature.worker_workspace)}")
            needed = self.op(f"add i64 {each}, {own}")
            total = self.op(f"select i1 {self.op(f'icmp eq i64 {chosen}, {k + 1}')}, i64 {needed}, i64 {total}")
        return total

    # ------------------------------------------------------------------ arguments
    def _check_arguments(self) -> None:
        """Go to `bad` if a size is outside of its range, a pointer is null or not aligned to its elements, or an output
        overlaps another array, or itself."""
        for size, ref in zip(self.signature.dynamic, self._sizes.values(), strict=True):
            self._check_size(size, ref)
        extents: list[tuple[Parameter, str, str]] = []
        for k, p in enumerate(self.signature.parameters):
            start = self.op(f"ptrtoint ptr %a{k} to i64")
            extent = self._extent(p)
            empty = self.op(f"icmp eq i64 {extent}, 0")
            there = self.op(f"icmp ne i64 {start}, 0")
            self.require(self.op(f"or i1 {empty}, {there}"), "bad")
            low = self.op(f"and i64 {start}, {max(size_of(p.dtype), p.align) - 1}")
            self.require(self.op(f"icmp eq i64 {low}, 0"), "bad")
            self._check_strides(p)
            extents.append((p, start, self.op(f"add i64 {start}, {extent}")))
        for k, (p, start, end) in enumerate(extents):
            for j, (q, other, last) in enumerate(extents):
                if j == k or p.direction == "in" or (q.direction != "in" and j < k):
                    continue
                before = self.op(f"icmp ule i64 {end}, {other}")
                after = self.op(f"icmp ule i64 {last}, {start}")
                self.require(self.op(f"or i1 {before}, {after}"), "bad")

    def _check_strides(self, p: Parameter) -> None:
        """Go to `bad` if elements of what is written share a place: each stride is above all that those reach that are
        no greater."""
        if p.strides is None or p.direction == "in" or all(isinstance(e, Const) for e in (*p.strides, *p.given)):
            return
        steps = [self.value(e) for e in p.strides]
        lasts = [self.op(f"sub i64 {self.value(e)}, 1") for e in p.given]
        for d, step in enumerate(steps):
            reach = "0"
            for j, other in enumerate(steps):
                if j != d:
                    own = self.op(f"mul i64 {other}, {lasts[j]}")
                    within = self.op(f"icmp sle i64 {other}, {step}")
                    reach = self.op(f"add i64 {reach}, {self.op(f'select i1 {within}, i64 {own}, i64 0')}")
            single, above = self.op(f"icmp sle i64 {lasts[d]}, 0"), self.op(f"icmp sgt i64 {step}, {reach}")
            self.require(self.op(f"or i1 {single}, {above}"), "bad")

    def _check_size(self, size: Symbol, ref: str) -> None:
        domain = size.domain
        if not isinstance(domain, DynamicRange):
            return
        low = self.op(f"icmp sge i64 {ref}, {domain.lo}")
        high = self.op(f"icmp sle i64 {ref}, {domain.hi}")
        self.require(self.op(f"and i1 {low}, {high}"), "bad")
        if domain.multiple > 1:
            remainder = self.op(f"srem i64 {ref}, {domain.multiple}")
            self.require(self.op(f"icmp eq i64 {remainder}, 0"), "bad")

    def _extent(self, p: Parameter) -> str:
        """Bytes from the first element to the end of the last one."""
        elements = "1"
        if p.strides is None:
            for e in p.given:
                elements = self.op(f"mul i64 {elements}, {self.value(e)}")
        else:
            for e, stride in zip(p.given, p.strides, strict=True):
                last = self.op(f"sub i64 {self.value(e)}, 1")
                elements = self.op(f"add i64 {elements}, {self.op(f'mul i64 {last}, {self.value(stride)}')}")
        return self.op(f"mul i64 {elements}, {size_of(p.dtype)}")

    def value(self, e: Expr) -> str:
        """A size at the call."""
        match e:
            case Const(value=v):
                return str(int(v))
            case Symbol(text=text) if text in self._sizes:
                return self._sizes[text]
            case Binary(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                match op:
                    case "+":
                        return self.op(f"add i64 {a}, {b}")
                    case "-":
                        return self.op(f"sub i64 {a}, {b}")
                    case "*":
                        return self.op(f"mul i64 {a}, {b}")
                    case "//" | "%":
                        return self._floored(op, a, b)
                    case "min" | "max":
                        less = self.op(f"icmp {'slt' if op == 'min' else 'sgt'} i64 {a}, {b}")
                        return self.op(f"select i1 {less}, i64 {a}, i64 {b}")
        raise MsError(problem("MS451", f"a size of {self.signature.name} cannot be computed from its arguments: {e!r}"))

    def _floored(self, op: str, a: str, b: str) -> str:
        """A quotient rounded down, or its remainder: LLVM's are rounded towards 0."""
        rest = self.op(f"srem i64 {a}, {b}")
        apart = self.op(f"icmp slt i64 {self.op(f'xor i64 {rest}, {b}')}, 0")
        inexact = self.op(f"and i1 {apart}, {self.op(f'icmp ne i64 {rest}, 0')}")
        if op == "%":
            return self.op(f"add i64 {rest}, {self.op(f'select i1 {inexact}, i64 {b}, i64 0')}")
        return self.op(f"sub i64 {self.op(f'sdiv i64 {a}, {b}')}, {self.op(f'zext i1 {inexact} to i64')}")


def _rounded(size: int) -> int:
    return -(-size // 64) * 64
