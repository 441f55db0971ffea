"""Programs from TVM's object graphs: an `IRModule` or a `PrimFunc` as one of ours, nothing executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mslang.interop.block_names import other_name, with_names
from mslang.interop.tvm import words
from mslang.interop.tvm.expressions_in import Expressions, unsupported
from mslang.interop.tvm.graph import Graph, Node, unreadable
from mslang.interop.tvm.words import block_in
from mslang.ir.expr import ONE, TRUE, ZERO, Const, Var, dtype_of
from mslang.ir.program import (
    Annotations,
    AttrValue,
    Axis,
    Block,
    Buffer,
    For,
    If,
    Let,
    Param,
    Program,
    Range,
    Region,
    Stmt,
    Store,
    View,
    While,
)
from mslang.ir.verify import RESERVED, verify
from mslang.ir.visit import fresh, walk

DIRECTIONS = "mslang.directions"
"""The attribute of a function that holds its parameters' directions, where they are not told by its body."""


def programs(text: str | bytes) -> dict[str, Program]:
    """The programs of a graph, by the names that TVM's module gives its functions.

    Raises:
        MsError: MS741, this is no such graph; MS745, a program has what mslang has not.
    """
    graph = Graph(text)
    found: dict[str, Program] = {}
    try:
        for name, function in functions(graph):
            found[name] = _verified(Reader(graph, name).program(function))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as failure:
        # A damaged graph may refer to anything anywhere, to itself too.
        raise unreadable(f"{type(failure).__name__}: {failure}") from failure
    if not found:
        raise unreadable("it holds no function of tensors")
    return found


def _verified(program: Program) -> Program:
    faults = verify(program)
    if faults:
        raise unreadable(f"the program `{program.name}` is not well-formed: {faults[0].message}")
    return program


def functions(graph: Graph) -> Iterator[tuple[str, Node]]:
    """The functions over tensors of a module, or the one that the graph is."""
    root = graph.node(graph.root)
    match root.kind:
        case "PrimFunc":
            yield "main", root
        case "IRModule":
            for key, value in graph.pairs(graph.field(root, "functions")):
                function = graph.node(value)
                if function.kind == "PrimFunc":
                    yield graph.text(graph.field(graph.node(key), "name_hint")), function
        case _:
            raise unreadable(f"it holds a {root.type}")


class Reader:
    """Reads one function. Loops, blocks and buffers get names of their own: a parameter keeps its name, then blocks."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.taken: set[str] = set(RESERVED)
        self.buffers: dict[int, Buffer] = {}
        self.expressions = Expressions(graph, self.buffer)
        self.block_names: dict[int, str] = {}
        self.here: dict[str, str] = {}
        """What blocks are called here, by TVM's names; without names that several have, by which TVM finds none."""
        self.read: set[int] = set()

    # ------------------------------------------------------------------ the function
    def program(self, function: Node) -> Program:
        """The function as a program."""
        g = self.graph
        old = (
            {g.key(k): v for k, v in g.pairs(function.fields["buffer_map"])} if "buffer_map" in function.fields else {}
        )
        params = []
        for ref in g.items(g.field(function, "params")):
            holder = old.get(g.key(ref), ref)
            if holder is ref and not self._is_buffer(ref):
                raise unsupported(f"the parameter `{g.text(g.field(g.node(ref), 'name'))}`, which is no buffer")
            params.append(self.buffer(holder))
        root = g.at(function, "body")
        self._name_blocks(g.key(g.field(function, "body")))
        allocs: tuple[Buffer, ...] = ()
        notes: Annotations = ()
        if root.kind == "BlockRealize" and not g.items(g.field(g.at(root, "block"), "iter_vars")):
            block = g.at(root, "block")
            allocs = self._allocs(block)
            notes = self.annotations(g.field(block, "annotations"))
            body = self.body(g.field(block, "body"))
        else:
            body = self.body(g.field(function, "body"))
        said = self._directions(function)
        told = said if len(said) == len(params) else [direction(b.name, body) for b in params]
        program = Program(
            self.name,
            tuple(Param(b, d) for b, d in zip(params, told, strict=True)),
            body,
            allocs,
            annotations=notes,
        )
        return with_names(program, self.here)

    def _directions(self, function: Node) -> list[str]:
        """The parameters' directions, where our own writer has said them."""
        g = self.graph
        attrs = g.at(function, "attrs") if g.has(function, "attrs") else None
        if attrs is None or "__dict__" not in attrs.fields:
            return []
        found = next((v for k, v in g.pairs(attrs.fields["__dict__"]) if g.text(k) == DIRECTIONS), None)
        return [] if found is None else [g.text(x) for x in g.items(found)]

    def _is_buffer(self, ref: object) -> bool:
        node = self.graph.node(ref)
        return node.kind == "Buffer" or (self.graph.has(node, "ty") and self.graph.at(node, "ty").kind == "BufferType")

    def _fresh(self, name: str) -> str:
        clean = name.replace("`", "'").replace("\n", " ") or "x"
        made = fresh(clean, self.taken)
        self.taken.add(made)
        return made

    def _name_blocks(self, root: int) -> None:
        """Blocks are found by name, so they get theirs before loops and allocated buffers do."""
        g = self.graph
        seen: set[int] = set()
        order: list[int] = []

        def visit(key: int) -> None:
            if key in seen:
                return
            seen.add(key)
            node = g.node(key)
            match node.kind:
                case "BlockRealize":
                    inner = g.key(g.field(node, "block"))
                    if inner not in order:
                        order.append(inner)
                    visit(g.key(g.field(g.node(inner), "body")))
                case "SeqStmt":
                    for x in g.items(g.field(node, "seq")):
                        visit(g.key(x))
                case _:
                    for name in ("body", "then_case", "else_case"):
                        if name in node.fields and g.has(node, name):
                            visit(g.key(node.fields[name]))

        visit(root)
        shared: set[str] = set()
        for key in order[1:] if g.node(root).kind == "BlockRealize" else order:
            hint = g.text(g.field(g.node(key), "name_hint"))
            name = block_in(hint)
            self.block_names[key] = self._fresh(other_name(name) if name in self.taken else name)
            if hint in self.here:
                shared.add(hint)
            self.here[hint] = self.block_names[key]
        self.here = {t: n for t, n in self.here.items() if t not in shared and n != block_in(t)}

    # ------------------------------------------------------------------ buffers
    def buffer(self, ref: object) -> Buffer:
        """The buffer that a node stands for."""
        g = self.graph
        key = g.key(ref)
        if key not in self.buffers:
            node = g.node(ref)
            typed = g.at(node, "ty") if node.kind == "Var" else node
            if typed.kind not in ("BufferType", "Buffer"):
                raise unreadable(f"a buffer is needed, not a {typed.type}")
            self.buffers[key] = self._buffer(node, typed)
        return self.buffers[key]

    def _buffer(self, node: Node, typed: Node) -> Buffer:
        g = self.graph
        index = self.expressions.size
        scope = "global"
        if "storage_scope" in typed.fields:
            scope = words.scope_in(g.text(typed.fields["storage_scope"]))
        elif g.has(typed, "data") and "type_annotation" in g.at(typed, "data").fields:
            pointer = g.at(g.at(typed, "data"), "type_annotation")
            scope = words.scope_in(g.text(pointer.fields.get("storage_scope", "global")))
        shape = tuple(index(x) for x in g.items(g.field(typed, "shape")))
        strides = tuple(index(x) for x in g.items(g.field(typed, "strides")))
        offset = index(typed.fields["elem_offset"]) if g.has(typed, "elem_offset") else ZERO
        align = g.number(typed.fields.get("data_alignment", 64))
        return Buffer(
            self._fresh(g.text(g.field(node, "name"))),
            self.expressions.dtype(typed.fields["dtype"]),
            shape,
            scope,
            strides or None,
            None if offset == ZERO else offset,
            None if align in (0, -1, 64, 128) else align,
        )

    def _allocs(self, block: Node) -> tuple[Buffer, ...]:
        return tuple(self.buffer(x) for x in self.graph.items(self.graph.field(block, "alloc_buffers")))

    def _region(self, ref: object) -> Region:
        g = self.graph
        node = g.node(ref)
        source = g.field(node, "source" if "source" in node.fields else "buffer")
        return Region(self.buffer(source).name, tuple(self._range(x) for x in g.items(g.field(node, "region"))))

    def _range(self, ref: object) -> Range:
        node = self.graph.node(ref)
        index = self.expressions.index
        return Range(index(self.graph.field(node, "min")), index(self.graph.field(node, "extent")))

    # ------------------------------------------------------------------ statements
    def body(self, ref: object) -> tuple[Stmt, ...]:
        """A statement, or the statements of a sequence."""
        node = self.graph.node(ref)
        if node.kind == "SeqStmt":
            return self._sequence(self.graph.items(self.graph.field(node, "seq")))
        if node.kind == "Evaluate":
            # Read, so that a function without a counterpart is refused; nothing that is left has an effect.
            self.expressions.value(self.graph.field(node, "value"))
            return ()
        return (self._statement(node),)

    def _sequence(self, refs: list[object]) -> tuple[Stmt, ...]:
        found: list[Stmt] = []
        for k, ref in enumerate(refs):
            node = self.graph.node(ref)
            if node.kind == "Bind":
                # What it binds holds for all that comes after it.
                return (*found, self._let(node, partial(self._sequence, refs[k + 1 :])))
            found += self.body(ref)
        return tuple(found)

    def _statement(self, node: Node) -> Stmt:
        g, e = self.graph, self.expressions
        match node.kind:
            case "BufferStore":
                buffer = self.buffer(g.field(node, "buffer"))
                indices = tuple(e.index(x) for x in g.items(g.field(node, "indices")))
                return Store(buffer.name, indices, e.value(g.field(node, "value")))
            case "For":
                return self._loop(node)
            case "BlockRealize":
                return self._block(node)
            case "IfThenElse":
                otherwise = self.body(g.field(node, "else_case")) if g.has(node, "else_case") else ()
                return If(e.value(g.field(node, "condition")), self.body(g.field(node, "then_case")), otherwise)
            case "While":
                return While(e.value(g.field(node, "condition")), self.body(g.field(node, "body")))
            case "Let" | "Bind":
                return self._let(node, lambda: self.body(g.field(node, "body")) if "body" in node.fields else ())
        raise unsupported(f"the statement `{node.type}`")

    def _let(self, node: Node, body: Callable[[], tuple[Stmt, ...]]) -> Stmt:
        g, e = self.graph, self.expressions
        var, value = g.field(node, "var"), g.field(node, "value")
        name = self._fresh(g.text(g.field(g.node(var), "name")))
        bound = e.index(value) if e.is_index(value) else e.value(value)
        e.variables[g.key(var)] = Var(name, dtype_of(bound))
        return Let(name, bound, body())

    def _loop(self, node: Node) -> Stmt:
        g, e = self.graph, self.expressions
        kind = g.number(g.field(node, "kind"))
        binding = words.LOOP_KINDS.get(kind)
        if kind == words.THREAD_BINDING:
            binding = g.text(g.field(g.at(node, "thread_binding"), "thread_tag"))
        if binding is None or (g.has(node, "step") and e.index(node.fields["step"]) != ONE):
            raise unsupported(f"a loop of kind {kind} or with a step")
        var = g.field(node, "loop_var")
        start, extent = e.index(g.field(node, "min")), e.index(g.field(node, "extent"))
        name = self._fresh(g.text(g.field(g.node(var), "name")))
        e.variables[g.key(var)] = Var(name)
        notes = self.annotations(g.field(node, "annotations"))
        return For(name, extent, self.body(g.field(node, "body")), binding, start, notes)

    def _block(self, node: Node) -> Stmt:
        g, e = self.graph, self.expressions
        ref = g.field(node, "block")
        block = g.node(ref)
        bindings = [e.index(x) for x in g.items(g.field(node, "iter_values"))]
        predicate = e.value(g.field(node, "predicate"))
        axes = []
        names: set[str] = set()
        for x, binding in zip(g.items(g.field(block, "iter_vars")), bindings, strict=True):
            iterator = g.node(x)
            domain, var = g.at(iterator, "dom"), g.field(iterator, "var")
            if e.index(g.field(domain, "min")) != ZERO:
                raise unsupported("a block axis that does not begin at 0")
            kind = words.AXIS_KINDS.get(g.number(g.field(iterator, "iter_type")))
            if kind is None:
                raise unsupported("a block axis of a kind that stands on loops only")
            name = fresh(g.text(g.field(g.node(var), "name")), names | RESERVED | self._buffer_names)
            names.add(name)
            e.variables[g.key(var)] = Var(name)
            axes.append(Axis(name, e.index(g.field(domain, "extent")), kind, binding))
        allocs = self._allocs(block)
        views = tuple(
            View(self.buffer(g.field(v, "buffer")), self._region(g.field(v, "source")))
            for v in map(g.node, g.items(g.field(block, "match_buffers")))
        )
        key = g.key(ref)
        if key in self.read:
            raise unsupported("one block that stands in two places")
        self.read.add(key)
        return Block(
            self.block_names[key],
            tuple(axes),
            tuple(self._region(x) for x in g.items(g.field(block, "reads"))),
            tuple(self._region(x) for x in g.items(g.field(block, "writes"))),
            self.body(g.field(block, "body")),
            self.body(g.field(block, "init")) if g.has(block, "init") else None,
            predicate if predicate != Const(1, "bool") else TRUE,
            allocs,
            views,
            self.annotations(g.field(block, "annotations")),
        )

    @property
    def _buffer_names(self) -> set[str]:
        return {b.name for b in self.buffers.values()}

    # ------------------------------------------------------------------ annotations
    def annotations(self, ref: object) -> Annotations:
        """The annotations of a loop or block."""
        return tuple((self.graph.text(k), self.attribute(v)) for k, v in self.graph.pairs(ref))

    def attribute(self, ref: object) -> AttrValue:
        """The value of an annotation."""
        g = self.graph
        node = g.node(ref)
        match node.kind, node.data:
            case "String", str() as text:
                return text
            case (("int" | "bool" | "float"), (bool() | int() | float()) as number):
                return number
            case "Array", list() as inside:
                return tuple(self.attribute(x) for x in inside)
            case "Map", list():
                return tuple((g.text(k), self.attribute(v)) for k, v in g.pairs(ref))
            case (("Var" | "Buffer"), _) if self._is_buffer(ref):
                return self.buffer(ref).name
            case (("IntImm" | "FloatImm"), _):
                value = self.expressions.value(ref)
                assert isinstance(value, Const)
                return value.value
        raise unsupported(f"an annotation that holds a {node.type}")


def direction(buffer: str, body: tuple[Stmt, ...]) -> str:
    """What a parameter is: read only; written before anything reads it; or both."""
    written = False
    for s in walk(body, into_blocks=False):
        match s:
            case Block(reads=reads, writes=writes):
                if any(r.buffer == buffer for r in reads):
                    return "inout" if written or _writes(buffer, body) else "in"
                written = any(r.buffer == buffer for r in writes)
            case Store(buffer=b):
                written = b == buffer
        if written:
            return "out"
    return "in"


def _writes(buffer: str, body: tuple[Stmt, ...]) -> bool:
    return any(
        (isinstance(s, Block) and any(r.buffer == buffer for r in s.writes))
        or (isinstance(s, Store) and s.buffer == buffer)
        for s in walk(body)
    )
