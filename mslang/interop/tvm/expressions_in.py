"""Expressions of TVM's object graphs as ours.

TVM counts with `int32` or `int64` variables; ours are all `i64`. So an expression of TVM's is read in one of two ways:
as an *index*, where every integer is an `i64`, or as a *value*, which has the element type that TVM gives it, an
index in it converted.
"""

from __future__ import annotations

from collections.abc import Callable

from mslang.diagnostics import MsError, problem
from mslang.interop.complement import complement
from mslang.interop.tvm import words
from mslang.interop.tvm.graph import Graph, Node, unreadable
from mslang.ir.arith import simplify
from mslang.ir.dtype import INDEX, is_integer
from mslang.ir.expr import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    dtype_of,
)
from mslang.ir.fixed_point import q_multiply_shift, q_multiply_shifted
from mslang.ir.functions import FUNCTIONS, of_c_library
from mslang.ir.program import Buffer

_SELECT = ("condition", "true_value", "false_value")
_COUNTS = ("i32", "i64")
"""The types of TVM's loops and axes: a conversion to another one may wrap around."""


def unsupported(what: str) -> MsError:
    """The error of a TVM feature that mslang lacks."""
    return MsError(problem("MS745", f"mslang has no equal of {what}"))


class Expressions:
    """Reads expressions; `variables` are our names of the graph's variables, by position."""

    def __init__(self, graph: Graph, buffer: Callable[[object], Buffer]) -> None:
        self.graph = graph
        self.buffer = buffer
        self.variables: dict[int, Expr] = {}

    # ------------------------------------------------------------------ types
    def dtype(self, ref: object) -> str:
        """An element type, as a text or as a type of its own."""
        text = ref
        if not isinstance(ref, str):
            node = self.graph.node(ref)
            text = node.fields.get("dtype", node.data)
        found = words.dtype_in(text) if isinstance(text, str) else None
        if found is None:
            raise unsupported(f"the element type `{text}`")
        return found

    def dtype_of(self, node: Node) -> str:
        """The element type of an expression."""
        if "ty" in node.fields:
            return self.dtype(node.fields["ty"])
        if "dtype" in node.fields:
            return self.dtype(node.fields["dtype"])
        match node.kind:
            case "BufferLoad":
                return self.buffer(node.fields["buffer"]).dtype
            case kind if words.OPERATORS.get(kind) in COMPARISONS | LOGICAL or kind == "Not":
                return "bool"
            case kind if kind in words.OPERATORS:
                return self.dtype_of(self.graph.at(node, "a"))
            case "Select":
                return self.dtype_of(self.graph.at(node, "true_value"))
        raise unreadable(f"a {node.type} has no type")

    def is_index(self, ref: object) -> bool:
        """Whether an expression is an index: integers made of index variables and literals."""
        g = self.graph
        node = g.node(ref)
        match node.kind:
            case "Var":
                known = self.variables.get(g.key(ref))
                return known is not None and dtype_of(known) == INDEX
            case "IntImm":
                return self.dtype_of(node) != "bool"
            case "Cast":
                return self.dtype_of(node) in _COUNTS and self.is_index(g.field(node, "value"))
            case kind if words.OPERATORS.get(kind, "==") not in COMPARISONS | LOGICAL:
                return self.is_index(g.field(node, "a")) and self.is_index(g.field(node, "b"))
            case "Select":
                return self.is_index(g.field(node, "true_value")) and self.is_index(g.field(node, "false_value"))
            case "Call":
                args = self._args(node)
                match self._called(node):
                    case "if_then_else":
                        return all(self.is_index(x) for x in args[1:])
                    case "likely":
                        return self.is_index(args[0])
        return False

    # ------------------------------------------------------------------ indices
    def size(self, ref: object) -> Expr:
        """A size: a number, or a size known only at the call."""
        return simplify(self.index(ref))

    def index(self, ref: object) -> Expr:
        """An index expression, as an `i64`."""
        g = self.graph
        node = g.node(ref)
        match node.kind:
            case "IntImm":
                return Const(self._integer(node))
            case "int":
                return Const(g.number(node.data))
            case "Var":
                return self._variable(ref, node)
            case "Cast" if self.is_index(ref):
                return self.index(g.field(node, "value"))
            case "Div" | "Mod":
                raise unsupported(f"`{node.type}` of integers, which rounds towards 0")
            case kind if words.OPERATORS.get(kind, "==") not in COMPARISONS | LOGICAL:
                return Binary(words.OPERATORS[kind], self.index(g.field(node, "a")), self.index(g.field(node, "b")))
            case "Select":
                return self._select([g.field(node, n) for n in _SELECT], self.index)
            case "Call" if self._called(node) == "if_then_else":
                return self._select(self._args(node), self.index)
            case "Call" if self._called(node) == "likely":
                return self.index(self._args(node)[0])
        return _cast(INDEX, self.value(ref))

    def _variable(self, ref: object, node: Node) -> Expr:
        known = self.variables.get(self.graph.key(ref))
        if known is None:
            raise unreadable(f"nothing binds the variable `{self.graph.text(node.fields.get('name', ''))}`")
        return known

    def _integer(self, node: Node) -> int:
        value = self.graph.field(node, "value")
        if "ty" in node.fields:
            value = self.graph.node(value).data
        return self.graph.number(value)

    # ------------------------------------------------------------------ values
    def value(self, ref: object) -> Expr:
        """An expression of the type that TVM gives it."""
        g = self.graph
        node = g.node(ref)
        match node.kind:
            case "IntImm":
                dtype = self.dtype_of(node)
                number = self._integer(node)
                return Const(bool(number), dtype) if dtype == "bool" else Const(number, dtype)
            case "FloatImm":
                return Const(float(g.field(node, "value")), self.dtype_of(node))  # type: ignore[arg-type]
            case "Cast" if g.at(node, "value").kind == "IntImm" and self.is_index(g.field(node, "value")):
                # TVM folds what its users write; a conversion that it has kept is kept, as in TVMScript.
                return Cast(self.dtype_of(node), self.index(g.field(node, "value")))
            case _ if self.is_index(ref):
                return _cast(self.dtype_of(node), self.index(ref))
            case "Var":
                return self._variable(ref, node)
            case "BufferLoad":
                return self._load(node)
            case "Cast":
                inner = g.field(node, "value")
                operand = self.index(inner) if self.is_index(inner) else self.value(inner)
                return _cast(self.dtype_of(node), operand)
            case "BitwiseNot":
                return complement(self.value(g.field(node, "a")), self.dtype_of(node))
            case "Not":
                return Unary("not", self.value(g.field(node, "a")))
            case "Select":
                return self._select([g.field(node, n) for n in _SELECT], self.value)
            case "Mod":
                raise unsupported("the remainder of a division that rounds towards 0")
            case kind if kind in words.OPERATORS:
                return self._binary(words.OPERATORS[kind], g.field(node, "a"), g.field(node, "b"))
            case "Call":
                return self._call(node)
        raise unsupported(f"the expression `{node.type}`")

    def _load(self, node: Node) -> Expr:
        g = self.graph
        source = self.buffer(g.field(node, "source" if "source" in node.fields else "buffer"))
        return Load(source.name, tuple(self.index(x) for x in g.items(g.field(node, "indices"))), source.dtype)

    def _binary(self, op: str, a: object, b: object) -> Expr:
        if op in COMPARISONS and self.is_index(a) and self.is_index(b):
            return Binary(op, self.index(a), self.index(b))
        left, right = self.value(a), self.value(b)
        if op == "*" and isinstance(left, Const) and left.value == -1:
            # TVM has no negation, and writes it as this difference.
            return Unary("-", right)
        if op == "/" and is_integer(dtype_of(left)):
            raise unsupported("the division of integers that rounds towards 0")
        return Binary(op, left, right)

    def _select(self, of: list[object], read: Callable[[object], Expr]) -> Expr:
        condition, then, otherwise = of
        return Select(self.value(condition), read(then), read(otherwise))

    def _called(self, node: Node) -> str:
        op = self.graph.at(node, "op")
        name = op.data if op.kind == "Op" else op.fields.get("name_hint", "")
        full = name if isinstance(name, str) else self.graph.text(name)
        return full if full in words.OTHER_CALLS else full.rpartition(".")[2]

    def _args(self, node: Node) -> list[object]:
        return self.graph.items(self.graph.field(node, "args"))

    def _call(self, node: Node) -> Expr:
        name, args, dtype = self._called(node), self._args(node), self.dtype_of(node)
        if name == "if_then_else":
            return self._select(args, self.value)
        if name == "likely":
            return self.value(args[0])
        if name in words.CALL_OPERATORS:
            return self._binary(words.CALL_OPERATORS[name], *args)
        if name == "bitwise_not":
            return complement(self.value(args[0]), dtype)
        if name in words.CALLS:
            return _called_in(words.CALLS[name], tuple(self.value(x) for x in args), dtype)
        if name == "q_multiply_shift":
            return self._fixed_point(args)
        if name == "q_multiply_shift_per_axis":
            return self._fixed_point_per_axis(args)
        if name in ("call_extern", "call_pure_extern"):
            called = self.graph.node(args[0])
            text = called.fields.get("value") if called.kind == "StringImm" else args[0]
            function = of_c_library(self.graph.text(text))
            if function is None:
                raise unsupported(f"the function `{self.graph.text(text)}` of another library")
            return Call(function, tuple(self.value(x) for x in args[1:]), dtype)
        raise unsupported(f"the function `{name}`")

    def _fixed_point(self, args: list[object]) -> Expr:
        x, y, q, s = (self.value(a) for a in args)
        match q, s:
            case Const(value=int() as bits), Const(value=int() as left) if 1 <= bits - left <= 62:
                return q_multiply_shift(x, y, bits, -left)
        raise unsupported("`q_multiply_shift` by other than 1 to 62 bits")

    def _fixed_point_per_axis(self, args: list[object]) -> Expr:
        x, y, left, right, q, shifted, _ = (self.value(a) for a in args)
        by: Expr = Select(shifted, left, Const(0, "i32"))
        match shifted:
            case Const(value=v):
                by = left if v else Const(0, "i32")
        return q_multiply_shifted(x, y, q, by, right)


def _called_in(name: str, args: tuple[Expr, ...], dtype: str) -> Expr:
    """A function call; in TVM its result may have another type (`clz` returns an `int32`)."""
    return _cast(dtype, Call(name, args, FUNCTIONS[name].result(dtype_of(args[0]))))


def _cast(dtype: str, e: Expr) -> Expr:
    match e:
        case Cast(operand=Call(name="clz") as counted) if counted.dtype == dtype:
            return counted
    return e if dtype_of(e) == dtype else Cast(dtype, e)
