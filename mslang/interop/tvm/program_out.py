"""Programs as TVM's object graphs: an `IRModule` with one function, as TVM 0.27 reads it."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.interop.annotations import BUFFERS, CONSTANTS, buffers_of
from mslang.interop.block_names import ATTRIBUTE, tvm_names
from mslang.interop.directions import DIRECTIONS, derived
from mslang.interop.tvm import words
from mslang.interop.tvm.expressions_in import unsupported
from mslang.interop.tvm.expressions_out import ExpressionsOut
from mslang.interop.tvm.graph import GraphWriter
from mslang.ir.expr import ZERO, Const, dtype_of
from mslang.ir.program import (
    Annotations,
    AttrValue,
    Axis,
    Block,
    Buffer,
    For,
    If,
    Let,
    Program,
    Range,
    Region,
    Stmt,
    Store,
    While,
)
from mslang.ir.visit import substitute
from mslang.kernel.nodes import AUTO_VECTORIZE

_KINDS = {name: number for number, name in words.LOOP_KINDS.items()}
_AXES = {name: number for number, name in words.AXIS_KINDS.items()}


def to_graph(program: Program, function: str = "main") -> str:
    """The program as the text of an object graph, which TVM's `ir.load_json` reads.

    Args:
        program: the program; all of its sizes must be numbers.
        function: its name in TVM's module.

    Raises:
        MsError: MS745, it uses a feature that TVM lacks.
    """
    return _Writer().module(program, function)


class _Writer:
    def __init__(self) -> None:
        self.graph = GraphWriter()
        self.expressions = ExpressionsOut(self.graph)
        self.buffers: dict[str, tuple[int, Buffer]] = {}
        self.blocks: Mapping[str, str] = {}
        """TVM's names of renamed blocks."""

    # ------------------------------------------------------------------ the module
    def module(self, p: Program, function: str) -> str:
        g = self.graph
        if p.dynamic:
            raise unsupported("a size known only at the call, in what is written for TVM,")
        self.blocks = tvm_names(p)
        params = [self._buffer(q.buffer) for q in p.params]
        notes = tuple((k, v) for k, v in p.annotations if k not in (ATTRIBUTE, AUTO_VECTORIZE))
        root = self._realize(Block("root", (), (), (), p.body, allocs=p.allocs, annotations=notes), "root")
        directions = tuple(q.direction for q in p.params)
        attrs = [("global_symbol", g.string(function)), ("s_tir", self._true()), ("tirx.noalias", self._true())]
        if directions != derived(p):
            attrs.append((DIRECTIONS, g.array([g.string(d) for d in directions])))
        constants = [g.share("int", k) for k, q in enumerate(p.params) if q.constant]
        if constants:
            attrs.append((CONSTANTS, g.array(constants)))
        ty = g.add("ir.Type", {"span": 0})
        main = g.add(
            "tirx.PrimFunc",
            {
                "span": 0,
                "ty": ty,
                "attrs": self._dict(attrs),
                "params": g.array(params),
                "ret_type": g.add("ir.TupleType", {"span": 0, "fields": g.array([])}),
                "body": root,
            },
        )
        name = g.string(function)
        symbol = g.add("ir.GlobalVar", {"span": 0, "ty": ty, "name_hint": name})
        return g.done(
            g.add(
                "ir.IRModule",
                {
                    "functions": g.map([(symbol, main)]),
                    "global_var_map_": g.map([(name, symbol)]),
                    "source_map": g.add("ir.SourceMap", {"source_map": g.map([])}),
                    "attrs": self._dict([]),
                    "global_infos": g.map([]),
                },
            )
        )

    def _true(self) -> int:
        return self.graph.share("bool", True)

    def _dict(self, pairs: list[tuple[str, int]]) -> int:
        g = self.graph
        return g.add("ir.DictAttrs", {"__dict__": g.map([(g.string(k), v) for k, v in pairs])})

    # ------------------------------------------------------------------ buffers
    def _buffer(self, b: Buffer) -> int:
        g, e = self.graph, self.expressions
        strides = [e.index(x) for x in b.strides or ()]
        ty = g.add(
            "tirx.BufferType",
            {
                "span": 0,
                "dtype": e.type(b.dtype),
                "storage_scope": g.string(words.scope_out(b.scope)),
                "shape": g.array([e.index(x) for x in b.shape]),
                "strides": g.array(strides),
                "elem_offset": e.index(b.offset or ZERO),
                "data_alignment": b.align or 64,
                "offset_factor": 1,
                "layout": 0,
                "allocated_addr": g.array([]),
            },
        )
        made = g.add("ir.Var", {"span": 0, "ty": ty, "name": g.string(b.name)})
        e.buffers[b.name] = made
        return made

    def _range(self, r: Range) -> int:
        e = self.expressions
        return self.graph.add("ir.Range", {"min": e.index(r.start), "extent": e.index(r.extent), "span": 0})

    def _region(self, r: Region) -> int:
        g = self.graph
        ty = g.share("tirx.BufferRegionType", {"span": 0})
        ranges = g.array([self._range(x) for x in r.ranges])
        return g.add(
            "ir.TensorRegion", {"span": 0, "ty": ty, "source": self.expressions.buffers[r.buffer], "region": ranges}
        )

    # ------------------------------------------------------------------ statements
    def _body(self, body: tuple[Stmt, ...]) -> int:
        g = self.graph
        parts = [x for s in body for x in self._statement(s)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            zero = self.expressions.literal(0, "i32")
            return g.add("tirx.Evaluate", {"span": 0, "value": zero})
        return g.add("tirx.SeqStmt", {"span": 0, "seq": g.array(parts)})

    def _statement(self, s: Stmt) -> list[int]:
        g, e = self.graph, self.expressions
        match s:
            case Store(buffer=b, indices=xs, value=v):
                value = e.value(v)
                indices = g.array([e.index(x) for x in xs])
                return [
                    g.add("tirx.BufferStore", {"span": 0, "buffer": e.buffers[b], "value": value, "indices": indices})
                ]
            case For():
                return [self._loop(s)]
            case Block():
                return [self._realize(s, self.blocks.get(s.name, words.block_out(s.name)))]
            case If(condition=c, then=then, otherwise=otherwise):
                fields = {
                    "span": 0,
                    "condition": e.condition(c),
                    "then_case": self._body(then),
                    "else_case": self._body(otherwise) if otherwise else 0,
                }
                return [g.add("tirx.IfThenElse", fields)]
            case While(condition=c, body=body):
                return [g.add("tirx.While", {"span": 0, "condition": e.condition(c), "body": self._body(body)})]
            case Let(name=n, value=v, body=body):
                counts = e.counts(v)
                value = e.index(v) if counts else e.value(v)
                var = e.bind(n) if counts else e.bind(n, dtype_of(v))
                bind = g.add("tirx.Bind", {"span": 0, "var": var, "value": value})
                return [bind, *(x for t in body for x in self._statement(t))]
        raise unsupported(f"a `{type(s).__name__}` statement, in what is written for TVM,")

    def _loop(self, s: For) -> int:
        g, e = self.graph, self.expressions
        start, extent = e.index(s.start), e.index(s.extent)
        var = e.bind(s.var)
        thread = 0
        if s.kind not in _KINDS:
            domain = g.add("ir.Range", {"min": e.index(s.start), "extent": e.index(s.extent), "span": 0})
            thread = self._iter(domain, e.bind(s.kind), 1, s.kind)
            e.bind(s.var, known=var)
        return g.add(
            "tirx.For",
            {
                "span": 0,
                "loop_var": var,
                "min": start,
                "extent": extent,
                "kind": _KINDS.get(s.kind, words.THREAD_BINDING),
                "body": self._body(s.body),
                "thread_binding": thread,
                "annotations": self._annotations(s.annotations),
                "step": 0,
            },
        )

    def _iter(self, domain: int, var: int, kind: int, tag: str = "") -> int:
        fields = {"dom": domain, "var": var, "iter_type": kind, "thread_tag": self.graph.string(tag), "span": 0}
        return self.graph.add("tirx.IterVar", fields)

    def _axis(self, a: Axis) -> int:
        return self._iter(self._range(Range(ZERO, a.extent)), self.expressions.bind(a.name), _AXES[a.kind])

    def _realize(self, s: Block, name: str) -> int:
        with self.expressions.scope():
            return self._realized(s, name)

    def _realized(self, s: Block, name: str) -> int:
        g, e = self.graph, self.expressions
        bindings = [e.index(a.binding) for a in s.axes]
        predicate = e.condition(substitute(s.predicate, {a.name: a.binding for a in s.axes}))
        axes = [self._axis(a) for a in s.axes]
        allocs = [self._buffer(b) for b in s.allocs]
        views = []
        for v in s.views:
            source = self._region(v.source)
            views.append(g.add("tirx.MatchBufferRegion", {"buffer": self._buffer(v.buffer), "source": source}))
        block = g.add(
            "s_tir.SBlock",
            {
                "span": 0,
                "iter_vars": g.array(axes),
                "reads": g.array([self._region(r) for r in s.reads]),
                "writes": g.array([self._region(r) for r in s.writes]),
                "name_hint": g.string(name),
                "alloc_buffers": g.array(allocs),
                "match_buffers": g.array(views),
                "annotations": self._annotations(s.annotations),
                "init": self._body(s.init) if s.init is not None else 0,
                "body": self._body(s.body),
            },
        )
        return g.add(
            "s_tir.SBlockRealize",
            {"span": 0, "iter_values": g.array(bindings), "predicate": predicate, "block": block},
        )

    # ------------------------------------------------------------------ annotations
    def _annotations(self, notes: Annotations) -> int:
        g = self.graph
        return g.map([(g.string(k), self._noted(k, v)) for k, v in notes])

    def _noted(self, key: str, value: AttrValue) -> int:
        if key == BUFFERS:
            return self.graph.array(buffers_of(value, self.expressions.buffers))
        return self._attribute(value)

    def _attribute(self, value: AttrValue) -> int:
        g = self.graph
        match value:
            case bool():
                return g.share("bool", value)
            case int():
                return g.share("int", value)
            case float():
                return g.share("float", value)
            case str():
                return g.string(value)
            case tuple():
                return g.array([self._attribute(x) for x in value])
            case Const(value=v):
                return self._attribute(v)
        raise unsupported("an annotation that depends on a decision, in what is written for TVM,")
