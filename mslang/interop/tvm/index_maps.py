"""Index maps in TVM's traces: the JSON of an object graph."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mslang.interop.tvm import words
from mslang.interop.tvm.expressions_in import Expressions, unsupported
from mslang.interop.tvm.graph import Graph, GraphWriter, reading, unreadable
from mslang.ir.expr import Binary, Const, Expr, Symbol, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Buffer

_NODES = {op: kind for kind, op in words.OPERATORS.items()}


class MapText(msgspec.Struct, frozen=True):
    """An index map before it is read."""

    text: str


def read_map(text: MapText, variables: Mapping[str, Expr]) -> IndexMap:
    """The map in a text; `variables` are the values of other names in it.

    Raises:
        MsError: MS741, the text is not an index map; MS745, it uses a feature that mslang lacks.
    """
    with reading():
        return _map_in(Graph(text.text), variables)


def _map_in(graph: Graph, variables: Mapping[str, Expr]) -> IndexMap:
    root = graph.node(graph.root)
    if root.kind != "IndexMap":
        raise unreadable(f"an index map is needed, not a {root.type}")
    expressions = Expressions(graph, _no_buffer)
    params = []
    for ref in graph.items(graph.field(root, "initial_indices")):
        name = graph.text(graph.field(graph.node(ref), "name"))
        while name in params:
            name += "_"
        params.append(name)
        expressions.variables[graph.key(ref)] = Var(name)
    for k, node in enumerate(graph.nodes):
        if node.kind == "Var" and k not in expressions.variables:
            known = variables.get(graph.text(graph.field(node, "name")))
            if known is not None:
                expressions.variables[k] = known
    results = graph.items(graph.field(root, "final_indices"))
    return IndexMap(tuple(params), tuple(_result(expressions, graph, x) for x in results))


def _result(expressions: Expressions, graph: Graph, ref: object) -> Expr:
    node = graph.node(ref)
    return expressions.value(ref) if node.kind == "FloatImm" else expressions.index(ref)


def _no_buffer(ref: object) -> Buffer:
    raise unsupported("an index map that reads a buffer")


def write_map(map: IndexMap, numbers: Mapping[str, int], dtype: str = "int32") -> MapText:
    """A map as TVM's JSON; `numbers` are the values of its decisions by their text (`ti[2]`)."""
    writer = GraphWriter()
    ty = writer.share("ir.PrimType", {"span": 0, "dtype": dtype})
    known = {p: writer.add("ir.Var", {"span": 0, "ty": ty, "name": writer.string(p)}) for p in map.params}

    def literal(value: object, of: int) -> int:
        return writer.add("ir.IntImm", {"span": 0, "ty": of, "value": writer.share("int", value)})

    def put(e: Expr) -> int:
        match e:
            case Const(dtype="i64", value=v):
                return literal(v, ty)
            case Const(dtype=d, value=v):
                of = writer.share("ir.PrimType", {"span": 0, "dtype": words.dtype_out(d)})
                return writer.add("ir.FloatImm", {"span": 0, "ty": of, "value": v}) if d[0] in "fb" else literal(v, of)
            case Symbol():
                return literal(numbers[e.text], ty)
            case Var(name=name):
                return known[name]
            case Binary(op=op, left=a, right=b) if op in _NODES:
                return writer.add(f"prim.{_NODES[op]}", {"span": 0, "ty": ty, "a": put(a), "b": put(b)})
        raise unsupported(f"an index map with {type(e).__name__}")

    results = [put(e) for e in map.results]
    root = writer.add(
        "tirx.IndexMap",
        {
            "initial_indices": writer.array([known[p] for p in map.params]),
            "final_indices": writer.array(results),
            "inverse_index_map": 0,
        },
    )
    return MapText(writer.done(root))
