"""TVM's JSON object graph: nodes in a list that refer to each other by position.

Three generations are read, and the newest is written. The newest has a type and its fields a node,
`{"type": "ir.Var", "data": {…}}`; the one before it is the same with other type names; the oldest has
`{"type_key": "tir.Var", "attrs": {…}}`, in which every value is a string. `Node` is what they have in common.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from mslang.diagnostics import MsError, problem

VERSION = "0.27.0"
"""The version of TVM whose graphs are written."""


class Node(msgspec.Struct, frozen=True):
    """One object: the last part of its type's name, and its fields."""

    kind: str
    type: str
    data: object

    @property
    def fields(self) -> Mapping[str, object]:
        """The fields by name; none for lists and literals."""
        return self.data if isinstance(self.data, dict) else {}


def unreadable(why: str) -> MsError:
    """The error of a malformed graph."""
    return MsError(problem("MS741", "this is not a program that TVM has written", why=why))


@contextmanager
def reading() -> Iterator[None]:
    """Raise MS741 where a damaged graph is read: it may contain arbitrary references, even cycles."""
    try:
        yield
    except RecursionError as failure:
        raise unreadable("it is nested too deeply, or refers to itself") from failure
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as failure:
        raise unreadable(f"{type(failure).__name__}: {failure}") from failure


class Graph:
    """A graph that was read. References are positions; other values are stored directly."""

    def __init__(self, text: str | bytes) -> None:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as failure:
            raise unreadable(f"no JSON: {failure}") from failure
        if not isinstance(data, dict) or not isinstance(data.get("nodes"), list):
            raise unreadable("there is no list of nodes in it")
        self.old = any(isinstance(n, dict) and "type_key" in n for n in data["nodes"][:4])
        self.nodes = [self._node(n) for n in data["nodes"]]
        root = data.get("root" if self.old else "root_index")
        if not isinstance(root, int) or not 0 <= root < len(self.nodes):
            raise unreadable("it has no root")
        self.root = root

    def _node(self, data: object) -> Node:
        fields = data if isinstance(data, dict) else {}
        name = fields.get("type_key" if self.old else "type")
        if not isinstance(name, str):
            raise unreadable("a node has no type")
        if name in ("", "None"):
            return Node("None", "None", None)
        if not self.old:
            return Node(_short(name), name, fields.get("data"))
        value = fields.get("attrs", fields.get("data", fields.get("repr_str", _EMPTY.get(_short(name)))))
        if "keys" in fields:
            if not isinstance(fields["keys"], list) or not isinstance(fields.get("data", []), list):
                raise unreadable("a map has no list of keys and values")
            value = [x for pair in zip(fields["keys"], fields.get("data", ()), strict=False) for x in pair]
        return Node(_short(name), name, value)

    def node(self, ref: object) -> Node:
        """The node of a reference."""
        if isinstance(ref, str) and self.old and ref.lstrip("-").isdecimal():
            ref = int(ref)
        if isinstance(ref, bool) or not isinstance(ref, int) or not 0 <= ref < len(self.nodes):
            raise unreadable(f"{ref!r} refers to nothing")
        return self.nodes[ref]

    def key(self, ref: object) -> int:
        """The position of a reference, which identifies shared nodes."""
        self.node(ref)
        return int(ref)  # type: ignore[call-overload,no-any-return]

    def within(self, ref: object) -> frozenset[int]:
        """The positions of all nodes reachable from a node."""
        seen: set[int] = set()
        waiting = [self.key(ref)]
        while waiting:
            key = waiting.pop()
            if key not in seen:
                seen.add(key)
                waiting += self._references(key)
        return frozenset(seen)

    def _references(self, key: int) -> list[int]:
        """The positions of the nodes that a node refers to directly."""
        data = self.nodes[key].data
        fields = (v for k, v in data.items() if k not in _NUMBERS) if isinstance(data, dict) else ()
        found = data if isinstance(data, list) else fields
        texts = (int(x) if isinstance(x, str) and self.old and x.isdecimal() else x for x in found)
        return [x for x in texts if isinstance(x, int) and not isinstance(x, bool) and 0 <= x < len(self.nodes)]

    def field(self, node: Node, name: str) -> object:
        """A field's raw reference or value.

        Raises:
            MsError: MS741, the field is missing.
        """
        if name not in node.fields:
            raise unreadable(f"a {node.type} has no `{name}`")
        return node.fields[name]

    def at(self, node: Node, name: str) -> Node:
        """The node that a field refers to."""
        return self.node(self.field(node, name))

    def has(self, node: Node, name: str) -> bool:
        """Whether a field is present and not null."""
        return name in node.fields and self.node(node.fields[name]).kind != "None"

    def items(self, ref: object) -> list[object]:
        """The references in a list."""
        node = self.node(ref)
        if node.kind == "None":
            return []
        if node.kind != "Array" or not isinstance(node.data, list):
            raise unreadable(f"a list is needed, not a {node.type}")
        return node.data

    def pairs(self, ref: object) -> Iterator[tuple[object, object]]:
        """The references to keys and values of a map; in the oldest graphs keys are plain strings."""
        node = self.node(ref)
        if node.kind == "None":
            return iter(())
        if node.kind not in ("Map", "StrMap") or not isinstance(node.data, list) or len(node.data) % 2:
            raise unreadable(f"a map is needed, not a {node.type}")
        return zip(node.data[::2], node.data[1::2], strict=True)

    def text(self, ref: object) -> str:
        """A string, in place or in a node of its own."""
        if isinstance(ref, str) and not (self.old and ref.isdecimal()):
            return ref
        node = self.node(ref)
        if node.kind != "String" or not isinstance(node.data, str):
            raise unreadable(f"a text is needed, not a {node.type}")
        return node.data

    def number(self, value: object) -> int:
        """An integer that stands in place (a kind, a flag, an alignment)."""
        if isinstance(value, str) and self.old and value.lstrip("-").isdecimal():
            return int(value)
        if isinstance(value, int):
            return int(value)
        raise unreadable(f"a number is needed, not {value!r}")


_NUMBERS = frozenset({"span", "data_alignment", "offset_factor", "ndim", "kind", "iter_type", "buffer_type"})
"""Fields whose numbers are not positions, and source locations."""
_EMPTY: Mapping[str, object] = {"Array": [], "Map": []}


def _short(name: str) -> str:
    """`s_tir.SBlockRealize` and `tir.BlockRealize` are one kind; other renamed types are treated likewise."""
    last = name.rpartition(".")[2]
    return _RENAMED.get(last, last)


_RENAMED: Mapping[str, str] = {
    "SBlock": "Block",
    "SBlockRealize": "BlockRealize",
    "TensorLoad": "BufferLoad",
    "TensorRegion": "BufferRegion",
    "LetStmt": "Let",
    "SizeVar": "Var",
}


class GraphWriter:
    """A graph being written; equal leaves are shared, objects are not."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, object]] = [{"type": "None"}]
        self._shared: dict[str, int] = {}

    def add(self, type: str, data: object) -> int:
        """Add a new node; returns its position."""
        self.nodes.append({"type": type, "data": data})
        return len(self.nodes) - 1

    def share(self, type: str, data: object) -> int:
        """Add a node unless an equal one exists; returns its position."""
        key = f"{type} {json.dumps(data, sort_keys=True)}"
        if key not in self._shared:
            self._shared[key] = self.add(type, data)
        return self._shared[key]

    def string(self, text: str) -> int:
        """A string."""
        return self.share("ffi.String", text)

    def array(self, refs: list[int]) -> int:
        """A list."""
        return self.add("ffi.Array", refs)

    def map(self, pairs: list[tuple[int, int]]) -> int:
        """A map."""
        return self.add("ffi.Map", [x for pair in pairs for x in pair])

    def done(self, root: int) -> str:
        """The graph as text."""
        return json.dumps(
            {"root_index": root, "nodes": self.nodes, "metadata": {"tvm_version": VERSION}}, separators=(",", ":")
        )
