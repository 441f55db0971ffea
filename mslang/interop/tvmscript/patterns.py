"""Calls of instructions as patterns: an implementation's call, with holes for its operands."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from mslang.interop.tvmscript.source import refuse, text_of
from mslang.ir.intrin import PLACEHOLDER
from mslang.ir.program import Program

TVM = "tvm"
"""The back end whose text of an intrinsic is a call in TVMScript: `{a}` is an operand, `{a.stride}` one of its
strides."""

_HOLE = "operand_of_an_instruction_"
_OPERATORS: Mapping[str, type[ast.operator]] = {
    "floordiv": ast.FloorDiv,
    "FloorDiv": ast.FloorDiv,
    "floormod": ast.Mod,
    "FloorMod": ast.Mod,
}


def matched(text: str, e: ast.expr) -> dict[str, str] | None:
    """The name of each operand if `e` matches the call in a text, otherwise None. Casts, types and operators' spellings
    are ignored."""
    found: dict[str, str] = {}
    return found if _same(_pattern(text), _plain(e), found) else None


@lru_cache(maxsize=256)
def _pattern(text: str) -> ast.expr:
    holes = PLACEHOLDER.sub(lambda m: f"{_HOLE}{m[1]}.strides[{m[3] or 0}]" if m[2] else f"{_HOLE}{m[1]}", text)
    return _plain(ast.parse(holes, mode="eval").body)


def _same(pattern: object, e: object, found: dict[str, str]) -> bool:
    match pattern, e:
        case ast.Name(id=hole), ast.Name(id=name) if hole.startswith(_HOLE):
            return found.setdefault(hole.removeprefix(_HOLE), name) == name
        case ast.AST(), ast.AST():
            fields = [f for f in pattern._fields if f not in ("ctx", "kind")]
            return type(pattern) is type(e) and all(
                _same(getattr(pattern, f, None), getattr(e, f, None), found) for f in fields
            )
        case list(), list():
            return len(pattern) == len(e) and all(_same(a, b, found) for a, b in zip(pattern, e, strict=True))
    return pattern == e


def _plain(e: ast.expr) -> ast.expr:
    """A call without its result type, `T.evaluate` and integer literals' types; operators as such."""
    made = _Plain().visit(ast.parse(ast.unparse(e), mode="eval").body)
    assert isinstance(made, ast.expr)
    return made


class _Plain(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords = [k for k in node.keywords if k.arg != "dtype"]
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[a, b]) if name in _OPERATORS:
                return ast.BinOp(a, _OPERATORS[name](), b)
            case ast.Call(func=ast.Attribute(attr="int32" | "int64"), args=[ast.Constant() as value]):
                return value
            case ast.Call(func=ast.Attribute(attr="evaluate"), args=[value]):
                return value
        return node


def implementation(f: ast.FunctionDef, desc: Program) -> str:
    """The text of a function's only call, with holes for the function's parameters, in the order of `desc`'s.

    Raises:
        Refusal: the function does more than the call, or has other parameters.
    """
    calls = _calls(f.body)
    if len(calls) != 1:
        raise refuse("MS731", f, f"`{f.name}` is not one call of an instruction", help="give the call alone")
    names = _parameters(f)
    if len(names) != len(desc.params):
        raise refuse("MS733", f, f"`{f.name}` has {len(names)} operands, its description {len(desc.params)}")
    holes = {n: q.buffer.name for n, q in zip(names, desc.params, strict=True)}
    used = {x.id for x in ast.walk(calls[0]) if isinstance(x, ast.Name)}
    if set(holes) - used:
        raise refuse("MS731", f, f"`{text_of(calls[0])}` does not name all of its operands")
    made = _Holes(holes).visit(ast.parse(ast.unparse(calls[0]), mode="eval").body)
    text = ast.unparse(made)
    for name in holes.values():
        text = text.replace(f"{_HOLE}{name}_", f"{{{name}}}")
    return text


class _Holes(ast.NodeTransformer):
    def __init__(self, holes: Mapping[str, str]) -> None:
        self.holes = holes

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(f"{_HOLE}{self.holes[node.id]}_", ast.Load()) if node.id in self.holes else node


def _calls(body: list[ast.stmt]) -> list[ast.expr]:
    """The calls in a body that are not declarations."""
    found: list[ast.expr] = []
    for s in body:
        match s:
            case ast.With(body=inner):
                found += _calls(inner)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="evaluate"), args=[inner])):
                found.append(inner)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name)) as call) if name not in _DECLARATIONS:
                found.append(call)
            case ast.For() | ast.While() | ast.If() | ast.AugAssign():
                raise refuse("MS731", s, "an instruction must be a single call here")
            case ast.Assign(targets=[ast.Subscript()]):
                raise refuse("MS731", s, "an instruction must be a single call here")
    return found


_DECLARATIONS = frozenset({"reads", "writes", "sblock_attr", "block_attr", "func_attr", "where"})


def _parameters(f: ast.FunctionDef) -> list[str]:
    """The names of the buffers of a function's parameters, in their order."""
    names = {a.arg: a.arg for a in f.args.args}
    for s in ast.walk(f):
        match s:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="match_buffer"), args=[ast.Name(id=of), *_]),
            ) if of in names:
                names[of] = name
    return list(names.values())
