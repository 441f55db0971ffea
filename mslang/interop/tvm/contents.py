"""Contents of an object graph: the blocks of a function in order, the variables of an expression."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.interop.tvm.graph import Graph


def block_order(g: Graph, root: int) -> list[int]:
    """The positions of the blocks at or under a statement, outer before inner, an init before its body."""
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
                for name in ("init", "body"):
                    if g.has(g.node(inner), name):
                        visit(g.key(g.field(g.node(inner), name)))
            case "SeqStmt":
                for x in g.items(g.field(node, "seq")):
                    visit(g.key(x))
            case _:
                for name in ("body", "then_case", "else_case"):
                    if name in node.fields and g.has(node, name):
                        visit(g.key(node.fields[name]))

    visit(root)
    return order


def variables(g: Graph, ref: object) -> Iterator[object]:
    """The references to variables in an expression of sizes."""
    node = g.node(ref)
    if node.kind == "Var":
        yield ref
    for name in ("a", "b", "value"):
        if name in node.fields and node.kind not in ("IntImm", "FloatImm"):
            yield from variables(g, node.fields[name])
