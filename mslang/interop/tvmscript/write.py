"""Writing TVMScript."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from mslang.interop.annotations import CONSTANTS
from mslang.interop.block_names import ATTRIBUTE as RENAMED
from mslang.interop.block_names import tvm_names
from mslang.interop.directions import DIRECTIONS, derived
from mslang.interop.sizes import ANY_SIZE
from mslang.interop.tvmscript.names import (
    FUNCTION_ATTRIBUTE,
    SIZES,
    THEIR_LOOPS,
    THEIR_SCOPES,
    UNUSED_POINTERS,
    their_type,
)
from mslang.interop.tvmscript.patterns import TVM
from mslang.interop.tvmscript.spelling import (
    Identifiers,
    Names,
    element,
    expression,
    is_wide,
    listed,
    notes_text,
    refused,
    region,
    text,
    tuple_of,
)
from mslang.ir.arith import simplify
from mslang.ir.dtype import INDEX
from mslang.ir.expr import TRUE, ZERO, DynamicRange, Expr, Symbol, Var, dtype_of
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.intrin import PLACEHOLDER, intrin_of, recorded
from mslang.ir.program import (
    Annotations,
    AttrValue,
    Axis,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Program,
    Range,
    Stmt,
    Store,
    View,
    While,
)
from mslang.ir.symbols import buffer_exprs, symbols_of
from mslang.ir.visit import free_vars, substitute, walk_expr
from mslang.kernel.nodes import AUTO_VECTORIZE
from mslang.lower.layout import row_major

Dialect = Literal["tirx", "tir"]
INDENT = "    "


class _Words(msgspec.Struct, frozen=True):
    """The names in one of the two spellings in use."""

    module: str
    decorator: str
    block: str
    alloc: str
    attr: str
    no_alias: str
    let: str


_WORDS = {
    "tirx": _Words(
        "tirx",
        "@T.prim_func(s_tir=True)",
        "T.sblock",
        "T.sblock_alloc_buffer",
        "T.sblock_attr",
        "tirx.noalias",
        "T.let[T.{}]",
    ),
    "tir": _Words("tir", "@T.prim_func", "T.block", "T.alloc_buffer", "T.block_attr", "tir.noalias", "T.{}"),
}


def print_script(*programs: Program, dialect: Dialect = "tirx") -> str:
    """Programs as TVMScript, which `parse` reads back: one as a function, several as the functions of a module.

    As in what TVM prints, the imports are comments: `tvm.script.from_source` takes the text as it is, a Python file
    needs them as statements.

    Args:
        programs: the programs to print. Their sizes are numbers or dynamic.
        dialect: `tirx` for the spelling in use (`T.sblock`), `tir` for the one before (`T.block`).

    Raises:
        MsError: MS737, a program has decisions without a value, or another feature that TVMScript cannot express.

    >>> from mslang.sema.program import parse_program
    >>> double = parse_program("program double(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] * 2.0 } }")
    >>> print(print_script(double))
    # from tvm.script import tirx as T
    <BLANKLINE>
    @T.prim_func(s_tir=True)
    def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i in range(8):
            with T.sblock("b"):
                i_1 = T.axis.remap("S", [i])
                T.reads(A[i_1])
                T.writes(B[i_1])
                B[i_1] = A[i_1] * T.float32(2.0)
    <BLANKLINE>
    """
    words = _WORDS[dialect]
    head = [f"# from tvm.script import {words.module} as T", ""]
    if len(programs) == 1:
        return "\n".join((*head, *_Writer(programs[0], words).function(), ""))
    names = Identifiers()
    lines = ["# from tvm.script import ir as I", *head, "@I.ir_module", "class Module:"]
    for k, p in enumerate(programs):
        written = _Writer(msgspec.structs.replace(p, name=names.take(p.name)), words).function()
        lines += [*([""] if k else []), *_indented(written)]
    return "\n".join((*lines, ""))


def _indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line if line else "" for line in lines]


class _Writer:
    """Writes one program. Names of buffers and sizes are kept where Python allows it; no name is used twice."""

    def __init__(self, program: Program, words: _Words) -> None:
        self.program = program
        self.words = words
        self.identifiers = Identifiers()
        self.instructions = recorded(program)
        self.blocks = tvm_names(program)
        """TVM's names of renamed blocks."""
        self.loops: dict[str, For] = {}
        """The loops written so far."""
        for s in symbols_of(program):
            if not isinstance(s.domain, DynamicRange):
                raise refused(
                    f"`{s.text}` has no value yet",
                    "TVMScript has numbers for the sizes that a schedule decides",
                    "give the decisions values first",
                )
        named = [*(s.name for s in symbols_of(program)), *all_buffers(program)]
        told = {x for q in program.params for e in buffer_exprs(q.buffer) for x in walk_expr(e)}
        self.given = [s.name for s in symbols_of(program) if s not in told]
        """The sizes that occur in no parameter's shape: they become parameters."""
        self.names: Names = {n: self.identifiers.take(n) for n in named}

    # -------------------------------------------------------------- functions
    def function(self) -> list[str]:
        """The lines of the function."""
        p = self.program
        handles = {q.buffer.name: self.identifiers.take(f"var_{q.buffer.name}") for q in p.params if _dynamic(q.buffer)}
        params = [
            f"{handles[b.name]}: T.handle" if b.name in handles else f"{self.names[b.name]}: T.Buffer({self.shape(b)})"
            for b in (q.buffer for q in p.params)
        ]
        params += [f"{self.names[n]}: T.int32" for n in self.given]
        for k, name in self.unused_pointers():
            params.insert(k, f"{self.identifiers.take(name)}: T.handle")
        head = f"def {Identifiers().take(p.name)}({', '.join(params)}):"
        if len(head) > 110:
            head = "\n".join((head[: head.index("(") + 1], *(f"{INDENT}{x}," for x in params), "):"))
        inside = [f"T.func_attr({notes_text(self.attributes(), self.names)})"]
        inside += [f"{self.names[n]} = T.int32()" for n in (s.name for s in symbols_of(p)) if n not in self.given]
        for q in p.params:
            b = q.buffer
            if b.name in handles:
                inside.append(f"{self.names[b.name]} = T.match_buffer({handles[b.name]}, {self.shape(b)})")
        own = tuple(
            (k, v)
            for k, v in p.annotations
            if not k.startswith(FUNCTION_ATTRIBUTE) and k not in (RENAMED, AUTO_VECTORIZE)
        )
        body = [self.alloc(b) for b in p.allocs]
        if own:
            body.append(f"{self.words.attr}({notes_text(own, self.names)})")
        body += self.body(p.body, self.names)
        if own or (len(p.body) == 1 and isinstance(p.body[0], Block) and not p.body[0].axes):
            # TVM takes a function with a single block without axes for its own root block.
            body = [f"with {self.words.block}({text('root')}):", *_indented(["T.reads()", "T.writes()", *body])]
        return [self.words.decorator, *head.split("\n"), *_indented([*inside, *body])]

    def unused_pointers(self) -> list[tuple[int, str]]:
        """The parameters that are pointers which the program does not use, by their positions."""
        found: list[tuple[int, str]] = []
        match dict(self.program.annotations).get(UNUSED_POINTERS):
            case tuple() as said:
                for pair in said:
                    match pair:
                        case (int() as k, str() as name):
                            found.append((k, name))
        return sorted(found)

    def places(self) -> list[int]:
        """The position of each parameter among those of the function."""
        others = {k for k, _ in self.unused_pointers()}
        given = len(self.program.params) + len(others)
        return [k for k in range(given) if k not in others]

    def attributes(self) -> Annotations:
        """The attributes of the function: its annotations, and facts that its text does not imply."""
        p = self.program
        notes: list[tuple[str, AttrValue]] = [(self.words.no_alias, True)]
        notes += [
            (k.removeprefix(FUNCTION_ATTRIBUTE), v)
            for k, v in p.annotations
            if k.startswith(FUNCTION_ATTRIBUTE) and k != UNUSED_POINTERS
        ]
        ranges = [(self.names[s.name], s.domain) for s in p.dynamic if isinstance(s, Symbol)]
        sizes = tuple((n, d.lo, d.hi, d.multiple) for n, d in ranges if isinstance(d, DynamicRange) and d != ANY_SIZE)
        if sizes:
            notes.append((SIZES, sizes))
        directions = tuple(q.direction for q in p.params)
        if derived(p) != directions:
            notes.append((DIRECTIONS, directions))
        constants = tuple(k for k, q in zip(self.places(), p.params, strict=True) if q.constant)
        if constants:
            notes.append((CONSTANTS, constants))
        return tuple(notes)

    # -------------------------------------------------------------- buffers
    def shape(self, b: Buffer) -> str:
        """The arguments that declare a buffer."""
        said = [tuple_of(b.shape, self.names), text(their_type(b.dtype))]
        if b.strides is not None:
            said.append(f"strides=[{listed(b.strides, self.names)}]")
        if b.offset is not None:
            said.append(f"elem_offset={expression(b.offset, self.names)}")
        if b.scope != "global":
            if b.scope not in THEIR_SCOPES:
                raise refused(f"TVM has no scope `{b.scope}`")
            said.append(f"scope={text(THEIR_SCOPES[b.scope])}")
        if b.align is not None:
            said.append(f"align={b.align}")
        return ", ".join(said)

    def alloc(self, b: Buffer) -> str:
        """An allocation."""
        return f"{self.names[b.name]} = {self.words.alloc}({self.shape(b)})"

    def view(self, v: View, names: Names) -> str:
        """A `match_buffer`. With an offset factor the buffer may begin anywhere."""
        said = f"{region(v.source, names)}, {self.shape(v.buffer)}, offset_factor=1"
        return f"{names[v.buffer.name]} = T.match_buffer({said})"

    # -------------------------------------------------------------- statements
    def body(self, body: tuple[Stmt, ...], names: Names) -> list[str]:
        """The statements of a body; Python requires at least one."""
        return [line for s in body for line in self.statement(s, names)] or ["T.evaluate(0)"]

    def statement(self, s: Stmt, names: Names) -> list[str]:
        """The lines of a statement."""
        match s:
            case Store(buffer=b, indices=xs, value=v):
                return [f"{element(b, xs, names)} = {expression(v, names)}"]
            case Let(name=n, value=v, body=inner):
                own = self.identifiers.take(n)
                kind = self.words.let.format(their_type(_loop_type(v)))
                rest = self.body(inner, {**names, n: own}) if inner else []
                return [f"{own}: {kind} = {expression(v, names)}", *rest]
            case If(condition=c, then=t, otherwise=o):
                lines = [f"if {expression(c, names)}:", *_indented(self.body(t, names))]
                return [*lines, "else:", *_indented(self.body(o, names))] if o else lines
            case While(condition=c, body=inner):
                return [f"while {expression(c, names)}:", *_indented(self.body(inner, names))]
            case Evaluate(value=v):
                return [f"T.evaluate({expression(v, names)})"]
            case For():
                return self.loop(s, names)
            case Block():
                return self.block(s, names)
        raise TypeError(f"not a statement: {s!r}")

    def loop(self, s: For, names: Names) -> list[str]:
        """A loop; independent nested plain loops become one `T.grid`."""
        nest, names = [s], {**names, s.var: self.identifiers.take(s.var)}
        while _plain(s) and len(s.body) == 1 and isinstance(inner := s.body[0], For) and _plain(inner):
            if free_vars(inner.extent) & {x.var for x in nest}:
                break
            nest.append(inner)
            names[inner.var] = self.identifiers.take(inner.var)
            s = inner
        self.loops |= {x.var: x for x in nest}
        body = _indented(self.body(s.body, names))
        variables = ", ".join(names[x.var] for x in nest)
        if len(nest) > 1:
            return [f"for {variables} in T.grid({listed((x.extent for x in nest), names)}):", *body]
        return [f"for {variables} in {self.header(s, names)}:", *body]

    def header(self, s: For, names: Names) -> str:
        """The range of a loop."""
        between = [expression(Range(s.start, s.extent).stop, names)]
        if s.start != ZERO or s.annotations or s.kind not in ("serial", "parallel", "vectorized", "unrolled"):
            between = [expression(s.start, names), *between]
        if s.annotations:
            between.append(f"annotations={notes_text(s.annotations, names)}")
        if s.kind == "serial" and not s.annotations:
            return f"range({', '.join(between)})"
        if s.kind in THEIR_LOOPS:
            return f"T.{THEIR_LOOPS[s.kind]}({', '.join(between)})"
        between.insert(2, f"thread={text('vthread.x' if s.kind == 'vthread' else s.kind)}")
        return f"T.thread_binding({', '.join(between)})"

    def block(self, b: Block, names: Names) -> list[str]:
        """A block."""
        outside = names
        names = dict(names)
        for a in b.axes:
            names[a.name] = self.identifiers.inside(a.name, (*outside.values(), *names.values()))
        inside = self.axes(b.axes, outside, names)
        if b.predicate != TRUE:
            # In TVM the predicate is outside of the block: it uses loops, not axes.
            condition = substitute(b.predicate, {a.name: a.binding for a in b.axes})
            inside.append(f"T.where({expression(condition, outside)})")
        inside += [self.alloc(x) for x in b.allocs]
        inside.append(f"T.reads({', '.join(region(r, names) for r in b.reads)})")
        inside.append(f"T.writes({', '.join(region(r, names) for r in b.writes)})")
        if b.annotations:
            inside.append(f"{self.words.attr}({notes_text(b.annotations, names)})")
        inside += [self.view(v, names) for v in b.views]
        if b.init is not None:
            inside += ["with T.init():", *_indented(self.body(b.init, names))]
        call = self.called(b, names)
        inside += self.body(b.body, names) if call is None else [f"T.evaluate({call})"]
        return [f"with {self.words.block}({text(self.blocks.get(b.name, b.name))}):", *_indented(inside)]

    def called(self, b: Block, names: Names) -> str | None:
        """The call for a block that is an instruction with a call in TVM."""
        known = self.instructions.get(intrin_of(b) or "")
        if known is None or TVM not in known.texts:
            return None
        views = dict(zip((p.name for p in known.params), b.views[len(b.views) - len(known.params) :], strict=True))

        def operand(found: re.Match[str]) -> str:
            view = views[found[1]]
            if not found[2]:
                return names[view.buffer.name]
            rank = len(view.buffer.shape)
            return expression(simplify(self.strides(view.source.buffer)[-rank:][int(found[3] or 0)]), names)

        return PLACEHOLDER.sub(operand, known.texts[TVM])

    def strides(self, name: str) -> tuple[Expr, ...]:
        """The distances of the elements of a buffer along its dimensions; those of a view are those of its source."""
        b = all_buffers(self.program)[name]
        source = next((v.source.buffer for x in blocks_of(self.program.body) for v in x.views if v.buffer == b), None)
        if source is not None:
            return self.strides(source)[-len(b.shape) :]
        return b.strides if b.strides is not None else row_major(b.shape)

    def axes(self, axes: tuple[Axis, ...], outside: Names, names: Names) -> list[str]:
        """The axes, in one `remap` where each is bound to a loop of its own extent."""
        if axes and all(self.remaps(a) for a in axes) and len({a.binding for a in axes}) == len(axes):
            kinds = "".join("S" if a.kind == "spatial" else "R" for a in axes)
            bindings = listed((a.binding for a in axes), outside)
            return [f"{', '.join(names[a.name] for a in axes)} = T.axis.remap({text(kinds)}, [{bindings}])"]
        return [
            f"{names[a.name]} = T.axis.{a.kind}({expression(a.extent, names)}, {expression(a.binding, outside)})"
            for a in axes
        ]

    def remaps(self, a: Axis) -> bool:
        """Whether an axis is bound to a plain loop of its own extent."""
        loop = self.loops.get(a.binding.name) if isinstance(a.binding, Var) else None
        return a.kind in ("spatial", "reduce") and loop is not None and (loop.start, loop.extent) == (ZERO, a.extent)


def _plain(s: For) -> bool:
    return s.kind == "serial" and s.start == ZERO and not s.annotations


def _dynamic(b: Buffer) -> bool:
    return any(isinstance(x, Symbol) for e in buffer_exprs(b) for x in walk_expr(e))


def _loop_type(e: Expr) -> str:
    """`i32` for an expression over indices alone, which have 32 bits there; else the type that it has."""
    return dtype_of(e) if dtype_of(e) != INDEX or is_wide(e) else "i32"
