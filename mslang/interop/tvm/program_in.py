"""Programs from TVM's object graphs: an `IRModule` or a `PrimFunc` as one of ours, nothing executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from mslang.interop import closed
from mslang.interop.annotations import CONSTANTS, with_constants
from mslang.interop.block_names import other_name, with_names
from mslang.interop.closed import Outer
from mslang.interop.directions import DIRECTIONS, directed
from mslang.interop.sizes import ANY_SIZE, is_empty, iterations
from mslang.interop.tvm import words
from mslang.interop.tvm.contents import block_order, variables
from mslang.interop.tvm.expressions_in import Expressions, unsupported
from mslang.interop.tvm.graph import Graph, Node, reading, unreadable
from mslang.interop.tvm.words import block_in
from mslang.ir.dtype import is_integer
from mslang.ir.expr import ONE, TRUE, ZERO, Const, Expr, Symbol, Var, dtype_of
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
from mslang.ir.visit import fresh
from mslang.transform.rewriting.rewrite import substitute_loops


def programs(text: str | bytes) -> dict[str, Program]:
    """The programs of a graph, by the names that TVM's module gives its functions.

    Raises:
        MsError: MS741, this is not such a graph; MS745, a program uses a feature that mslang lacks.
    """
    found: dict[str, Program] = {}
    with reading():
        graph = Graph(text)
        for name, function in functions(graph):
            found[name] = _verified(Reader(graph, name).program(function))
    if not found:
        raise unreadable("it holds no function of tensors")
    return found


def _verified(program: Program) -> Program:
    faults = verify(program)
    if faults:
        raise unreadable(f"the program `{program.name}` is not well-formed: {faults[0].message}")
    return program


def functions(graph: Graph) -> Iterator[tuple[str, Node]]:
    """The functions over tensors of a module, or the single function of the graph."""
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
    """Reads one function. Loops, blocks and buffers get unique names: parameters and the function's buffers keep theirs
    first (TVM names the copies of a buffer after it), then blocks, whose names in TVM are recorded."""

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
        self.outer: dict[str, Outer] = {}
        """The enclosing loops, axes and `let`s of the current statement."""
        self.keys: dict[int, str] = {}
        """Their names by the positions of their variables."""
        self.sizes: list[Expr] = []
        """The sizes known only at the call."""

    # ------------------------------------------------------------------ the function
    def program(self, function: Node) -> Program:
        """The function as a program."""
        g = self.graph
        old = (
            {g.key(k): v for k, v in g.pairs(function.fields["buffer_map"])} if "buffer_map" in function.fields else {}
        )
        given = [old.get(g.key(ref), ref) for ref in g.items(g.field(function, "params"))]
        for ref in given:
            self._sizes(ref)
        params = [self.buffer(ref) for ref in given if self._is_buffer(ref)]
        root = g.at(function, "body")
        allocs: tuple[Buffer, ...] = ()
        notes: Annotations = ()
        outermost = root.kind == "BlockRealize" and not g.items(g.field(g.at(root, "block"), "iter_vars"))
        if outermost:
            allocs = self._allocs(g.at(root, "block"))
        self._name_blocks(g.key(g.field(function, "body")))
        if outermost:
            block = g.at(root, "block")
            notes = self.annotations(g.field(block, "annotations"))
            body = self.body(g.field(block, "body"))
        else:
            body = self.body(g.field(function, "body"))
        places = [k for k, ref in enumerate(given) if self._is_buffer(ref)]
        bare = Program(self.name, tuple(map(Param, params)), body, allocs, tuple(self.sizes), notes)
        program = directed(bare, self._directions(function))
        constants = self._said(function, CONSTANTS)
        if constants is not None:
            program = with_constants(program, self.attribute(constants), places)
        return with_names(program, self.here)

    def _directions(self, function: Node) -> tuple[str, ...]:
        """The parameters' directions, where our own writer has recorded them."""
        found = self._said(function, DIRECTIONS)
        return () if found is None else tuple(self.graph.text(x) for x in self.graph.items(found))

    def _said(self, function: Node, attribute: str) -> object | None:
        """The value of an attribute of the function; None if it has none."""
        g = self.graph
        attrs = g.at(function, "attrs") if g.has(function, "attrs") else None
        if attrs is None or "__dict__" not in attrs.fields:
            return None
        return next((v for k, v in g.pairs(attrs.fields["__dict__"]) if g.text(k) == attribute), None)

    def _sizes(self, param: object) -> None:
        """The sizes known only at the call: integer parameters, and variables in the shapes of buffers."""
        g = self.graph
        node = g.node(param)
        if not self._is_buffer(param):
            if not is_integer(self.expressions.dtype_of(node)):
                raise unsupported(f"the parameter `{g.text(g.field(node, 'name'))}`, which is not a buffer")
            self._size(param)
            return
        typed = g.at(node, "ty") if node.kind == "Var" else node
        for ref in (*g.items(g.field(typed, "shape")), *g.items(g.field(typed, "strides"))):
            for x in variables(g, ref):
                self._size(x)

    def _size(self, ref: object) -> None:
        g, known = self.graph, self.expressions.variables
        if g.key(ref) not in known:
            name = self._fresh(g.text(g.field(g.node(ref), "name")))
            known[g.key(ref)] = Symbol(name, ANY_SIZE)
            self.sizes.append(known[g.key(ref)])

    def _is_buffer(self, ref: object) -> bool:
        node = self.graph.node(ref)
        return node.kind == "Buffer" or (self.graph.has(node, "ty") and self.graph.at(node, "ty").kind == "BufferType")

    def _fresh(self, name: str) -> str:
        clean = name.replace("`", "'").replace("\n", " ") or "x"
        made = fresh(clean, self.taken)
        self.taken.add(made)
        return made

    def _name_blocks(self, root: int) -> None:
        """Name the blocks before loops, because blocks are found by name."""
        g = self.graph
        order = block_order(g, root)
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
        """The buffer of a node."""
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
        if is_empty(shape):
            raise unsupported(f"the buffer `{g.text(g.field(node, 'name'))}`, which has no elements")
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
        found = Range(index(self.graph.field(node, "min")), index(self.graph.field(node, "extent")))
        if isinstance(found.extent, Const) and found.extent.value < 0:
            raise unreadable(f"a region has {found.extent.value} elements")
        return found

    # ------------------------------------------------------------------ statements
    def body(self, ref: object) -> tuple[Stmt, ...]:
        """A statement, or the statements of a sequence."""
        node = self.graph.node(ref)
        if node.kind == "SeqStmt":
            return self._sequence(self.graph.items(self.graph.field(node, "seq")))
        if node.kind == "Evaluate":
            # Read only to refuse functions without a counterpart; the others have no effect.
            self.expressions.value(self.graph.field(node, "value"))
            return ()
        return (self._statement(node),)

    def _sequence(self, refs: list[object]) -> tuple[Stmt, ...]:
        found: list[Stmt] = []
        for k, ref in enumerate(refs):
            node = self.graph.node(ref)
            if node.kind == "Bind":
                # The binding is visible in all following statements.
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
        with self._inside({g.key(var): (name, closed.Let(bound))}):
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
        start, extent = e.index(g.field(node, "min")), iterations(e.index(g.field(node, "extent")))
        name = self._fresh(g.text(g.field(g.node(var), "name")))
        e.variables[g.key(var)] = Var(name)
        notes = self.annotations(g.field(node, "annotations"))
        with self._inside({g.key(var): (name, closed.Loop(start, extent, "opaque"))}):
            return For(name, extent, self.body(g.field(node, "body")), binding, start, notes)

    def _block(self, node: Node) -> Stmt:
        g, e = self.graph, self.expressions
        ref = g.field(node, "block")
        block = g.node(ref)
        bindings = [e.index(x) for x in g.items(g.field(node, "iter_values"))]
        predicate = e.value(g.field(node, "predicate"))
        axes = []
        inside: dict[int, tuple[str, closed.Outer]] = {}
        names = self._mentioned(ref)
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
            inside[g.key(var)] = (name, closed.Loop(ZERO, axes[-1].extent, kind))
        allocs = self._allocs(block)
        views = tuple(
            View(self.buffer(g.field(v, "buffer")), self._region(g.field(v, "source")))
            for v in map(g.node, g.items(g.field(block, "match_buffers")))
        )
        key = g.key(ref)
        if key in self.read:
            raise unsupported("one block that stands in two places")
        self.read.add(key)
        with self._inside(inside):
            init = self._init(g.field(block, "init"), axes) if g.has(block, "init") else None
            body = self.body(g.field(block, "body"))
        made = Block(
            self.block_names[key],
            tuple(axes),
            tuple(self._region(x) for x in g.items(g.field(block, "reads"))),
            tuple(self._region(x) for x in g.items(g.field(block, "writes"))),
            body,
            init,
            predicate if predicate != Const(1, "bool") else TRUE,
            allocs,
            views,
            self.annotations(g.field(block, "annotations")),
        )
        taken = {*names, *(a.name for a in axes), *self._buffer_names, *self.outer}
        return closed.closed(made, self.outer, lambda wanted: fresh(wanted, taken))

    @contextmanager
    def _inside(self, found: Mapping[int, tuple[str, Outer]]) -> Iterator[None]:
        """A scope in which these variables are visible, by their positions."""
        outer, keys = dict(self.outer), dict(self.keys)
        for key, (name, what) in found.items():
            self.outer.pop(name, None)
            self.outer[name] = what
            self.keys[key] = name
        yield
        self.outer, self.keys = outer, keys

    def _mentioned(self, ref: object) -> set[str]:
        """The names of outer variables used in a block: its axes must have other names."""
        within = self.graph.within(ref) if self.keys else frozenset()
        return {name for key, name in self.keys.items() if key in within}

    def _init(self, ref: object, axes: list[Axis]) -> tuple[Stmt, ...]:
        """The init, which runs where all reduction axes are 0."""
        return substitute_loops(self.body(ref), {a.name: ZERO for a in axes if a.kind == "reduce"}, None)

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
