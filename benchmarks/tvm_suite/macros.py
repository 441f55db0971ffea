"""Python functions of a test file that its programs call: carried out on expressions, as TVM's parser does.

An argument that is not a literal is its own text; what the function does to it gives a text, which takes the call's
place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from mslang.interop.tvmscript.names import their_type
from mslang.ir.expr import Const


class Anything:
    """The type of an argument: it is whatever a function asks for."""

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _operator(kind: ast.operator, *, swapped: bool) -> Callable[[Text, Any], Text]:
    def made(a: Text, b: Any) -> Text:
        left, right = (plain(b), a.of) if swapped else (a.of, plain(b))
        return Text(ast.BinOp(left, kind, right))

    return made


class Text:
    """An argument, or what was made of some."""

    def __init__(self, of: ast.expr) -> None:
        self.of = of
        self.ty = Anything()

    def astype(self, dtype: str) -> Text:
        """The conversion, which is none where it has the type."""
        return Text(ast.Call(ast.Attribute(self.of, "astype", ast.Load()), [ast.Constant(dtype)], []))

    __add__ = _operator(ast.Add(), swapped=False)
    __radd__ = _operator(ast.Add(), swapped=True)
    __sub__ = _operator(ast.Sub(), swapped=False)
    __rsub__ = _operator(ast.Sub(), swapped=True)
    __mul__ = _operator(ast.Mult(), swapped=False)
    __rmul__ = _operator(ast.Mult(), swapped=True)
    __floordiv__ = _operator(ast.FloorDiv(), swapped=False)
    __rfloordiv__ = _operator(ast.FloorDiv(), swapped=True)
    __mod__ = _operator(ast.Mod(), swapped=False)
    __rmod__ = _operator(ast.Mod(), swapped=True)
    __lshift__ = _operator(ast.LShift(), swapped=False)
    __rlshift__ = _operator(ast.LShift(), swapped=True)
    __rshift__ = _operator(ast.RShift(), swapped=False)
    __rrshift__ = _operator(ast.RShift(), swapped=True)
    __and__ = _operator(ast.BitAnd(), swapped=False)
    __rand__ = _operator(ast.BitAnd(), swapped=True)
    __or__ = _operator(ast.BitOr(), swapped=False)
    __ror__ = _operator(ast.BitOr(), swapped=True)
    __xor__ = _operator(ast.BitXor(), swapped=False)
    __rxor__ = _operator(ast.BitXor(), swapped=True)


def plain(value: Any) -> ast.expr:
    """A value as it is written."""
    match value:
        case Text(of=of):
            return of
        case Const(value=v, dtype=d):
            return ast.parse(f"T.{their_type(d)}({v!r})", mode="eval").body
    return ast.Constant(value)


def called(name: str, *args: Any) -> Text:
    """A call in TVM's namespace."""
    function = ast.Attribute(ast.Name("T", ast.Load()), name, ast.Load())
    return Text(ast.Call(function, [plain(x) for x in args], []))


def expanded(tree: ast.Module, names: Mapping[str, object]) -> ast.Module:
    """A program in which calls of a file's own functions have become what these give."""
    made = _Calls(names).visit(tree)
    assert isinstance(made, ast.Module)
    return ast.fix_missing_locations(made)


class _Calls(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        inner: ast.expr = node
        while isinstance(inner, ast.Call):
            inner = inner.func
        if isinstance(inner, ast.Name) and isinstance(self.names.get(inner.id), FunctionType):
            made = self._value(node)
            if isinstance(made, Text):
                return made.of
        return node

    def _value(self, e: ast.expr) -> Any:
        match e:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if isinstance(self.names.get(name), FunctionType):
                return self.names[name]
            case ast.Call(func=func, args=args, keywords=given) if not isinstance(func, ast.Attribute):
                named = {k.arg: self._value(k.value) for k in given if k.arg is not None}
                return self._value(func)(*map(self._value, args), **named)
        return Text(e)
