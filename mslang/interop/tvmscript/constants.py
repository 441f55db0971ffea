"""Constants of a file, read without running it: numbers, strings, and lists of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from mslang.interop.tvmscript.call_arguments import dotted
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.names import our_type
from mslang.interop.tvmscript.scope import Macro, Options, Scope, Unknown, Unnamed, Value
from mslang.interop.tvmscript.source import Refusal

_MACROS = frozenset({"inline", "macro"})
_SCRIPTS = frozenset({"tir", "tirx", "s_tir"})


def aliases_of(tree: ast.Module) -> frozenset[str]:
    """A file's names of TVM's TensorIR namespace; `T` if it imports none."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("tvm"):
                found |= {a.asname or a.name for a in names if a.name in _SCRIPTS}
            case ast.Import(names=names):
                found |= {a.asname for a in names if a.asname and a.name.split(".")[-1] in _SCRIPTS}
    return frozenset(found | {"T"})


def collect(statements: Iterable[ast.stmt], names: Mapping[str, Value], read: Expressions) -> dict[str, Value]:
    """The names known after statements; names assigned several times, or to other values, are unknown."""
    scope = Scope(names)
    seen: set[str] = set()
    for s in statements:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                scope.names[name] = (
                    Unknown(f"`{name}` is assigned several times") if name in seen else value_of(value, scope, read)
                )
                seen.add(name)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                values = value_of(value, scope, read)
                for k, t in enumerate(targets):
                    if isinstance(t, ast.Name):
                        known = isinstance(values, tuple) and len(values) == len(targets) and t.id not in seen
                        scope.names[t.id] = (
                            values[k] if known and isinstance(values, tuple) else Unknown(f"`{t.id}` is computed")
                        )
                        seen.add(t.id)
            case ast.FunctionDef() if is_macro(s, read.aliases):
                scope.names[s.name] = Macro(s, scope.names)
            case ast.FunctionDef() | ast.ClassDef():
                pass
            case _:
                for name in _assigned(s):
                    scope.names[name] = Unknown(f"`{name}` changes while the file runs")
                    seen.add(name)
    return scope.names


def value_of(e: ast.expr, scope: Scope, read: Expressions) -> Value:
    """The value of a constant; what only running the file gives is unknown."""
    match e:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="testing"), attr="parameter"), args=values):
            return Options(tuple(value_of(x, scope, read) for x in values))
        case ast.Call(func=ast.Name(id="TypeVar") | ast.Attribute(attr="TypeVar")):
            return Unnamed("i32")
    try:
        return read.value(e, scope)
    except Refusal:
        return Unknown(f"its value `{_short(e)}` is computed when the file runs")


def _short(e: ast.expr) -> str:
    text = ast.unparse(e).replace("\n", " ")
    return text if len(text) <= 40 else text[:37] + "…"


def bodies(s: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly inside a statement, for all of its branches."""
    for _, field in ast.iter_fields(s):
        match field:
            case [ast.stmt(), *_]:
                yield field
            case [ast.ExceptHandler() | ast.match_case(), *_]:
                yield from (part.body for part in field)


def _assigned(s: ast.stmt) -> Iterator[str]:
    """The names that a statement assigns, including its branches."""
    waiting: list[ast.AST] = [s]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
        waiting += ast.iter_child_nodes(node)


def is_macro(f: ast.FunctionDef, aliases: frozenset[str]) -> bool:
    """Whether a function is marked as one whose statements stand where it is called."""
    return any(dotted(d.func if isinstance(d, ast.Call) else d, aliases) in _MACROS for d in f.decorator_list)


def is_program(f: ast.AST) -> bool:
    """Whether a function is marked as `prim_func`."""
    if not isinstance(f, ast.FunctionDef):
        return False
    for d in f.decorator_list:
        of = d.func if isinstance(d, ast.Call) else d
        if (isinstance(of, ast.Attribute) and of.attr == "prim_func") or (
            isinstance(of, ast.Name) and of.id == "prim_func"
        ):
            return True
    return False


def size_type(e: ast.expr | None, aliases: frozenset[str]) -> str | None:
    """The type of a parameter that is a number (`n: T.int32`), or None."""
    name = None if e is None else dotted(e.func if isinstance(e, ast.Call) else e, aliases)
    return None if name is None else our_type({"boolean": "bool"}.get(name, name))
