"""Constants of a file, read without running it: numbers, strings, and lists of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from mslang.interop.tvmscript.call_arguments import dotted
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.names import our_type
from mslang.interop.tvmscript.scope import Macro, Options, Scope, Unknown, Unnamed, Value
from mslang.interop.tvmscript.source import Refusal

_MACROS = frozenset({"inline", "macro"})
_SCRIPTS = frozenset({"tir", "tirx", "s_tir"})
_COMMENTED = re.compile(r"^#\s*from tvm\.script import (tirx?) as (\w+)", re.MULTILINE)
"""The line that `.script()` prints in front of a program."""


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


def older_aliases_of(tree: ast.Module, text: str) -> frozenset[str]:
    """A file's names of the namespace as versions before `tirx` had it, also where only a comment imports it."""
    named = set(_COMMENTED.findall(text))
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("tvm"):
                named |= {(a.name, a.asname or a.name) for a in names if a.name in _SCRIPTS}
            case ast.Import(names=names):
                named |= {(a.name.split(".")[-1], a.asname) for a in names if a.asname}
    newer = {alias for script, alias in named if script == "tirx"}
    return frozenset(alias for script, alias in named if script == "tir" and alias not in newer)


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
            case ast.FunctionDef(name=name) if is_macro(s, read.aliases):
                several = Unknown(f"`{name}` is defined several times")
                scope.names[name] = several if name in seen else macro_of(s, scope, read)
                seen.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if name in scope.names:
                    scope.names[name] = Unknown(f"`{name}` is defined several times")
                seen.add(name)
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                for name in _imported(imported, scope.names):
                    scope.names[name] = Unknown(f"`{name}` is imported")
                    seen.add(name)
            case _:
                for name in _assigned(s):
                    scope.names[name] = Unknown(f"`{name}` changes while the file runs")
                    seen.add(name)
    return scope.names


def _imported(aliases: Iterable[ast.alias], known: Iterable[str]) -> Iterator[str]:
    """The names that an import binds; `*` may bind any of those that are known."""
    for a in aliases:
        yield from [*known] if a.name == "*" else [a.asname or a.name.partition(".")[0]]


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
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                yield from _imported(imported, ())
        waiting += ast.iter_child_nodes(node)


def is_macro(f: ast.FunctionDef, aliases: frozenset[str]) -> bool:
    """Whether a function is marked as one whose statements stand where it is called."""
    return any(dotted(d.func if isinstance(d, ast.Call) else d, aliases) in _MACROS for d in f.decorator_list)


def macro_of(f: ast.FunctionDef, scope: Scope, read: Expressions) -> Macro | Unknown:
    """A macro that is defined in a scope. One that is not hygienic uses the names in scope at its calls."""
    said = [k.value for d in f.decorator_list if isinstance(d, ast.Call) for k in d.keywords if k.arg == "hygienic"]
    defaults = {n: value_of(e, scope, read) for n, e in defaults_of(f)}
    match said:
        case [] | [ast.Constant(value=True)]:
            return Macro(f, scope.names, defaults)
        case [ast.Constant(value=False)]:
            return Macro(f, None, defaults)
    return Unknown(f"whether the macro `{f.name}` is hygienic is computed when the file runs")


def defaults_of(f: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a function with a default, and the default."""
    positional = [a.arg for a in (*f.args.posonlyargs, *f.args.args)]
    yield from zip(positional[len(positional) - len(f.args.defaults) :], f.args.defaults, strict=True)
    for a, e in zip(f.args.kwonlyargs, f.args.kw_defaults, strict=True):
        if e is not None:
            yield a.arg, e


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
