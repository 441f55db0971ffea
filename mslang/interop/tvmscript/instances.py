"""Programs inside of Python functions with parameters: the sets of values that a file gives to the parameters.

The file is not run. A parameter has the values of the calls of its function in the file, those of
`pytest.mark.parametrize` and of `tvm.testing.parameter`, or its default. Each set of them makes its own programs; one
with a value known only when the file runs makes a diagnostic, if the programs depend on the value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from mslang.interop.tvmscript.constants import collect, defaults_of, value_of
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.scope import Options, Scope, Unknown, Value

Function = ast.FunctionDef | ast.AsyncFunctionDef
Names = Mapping[str, Value]
MOST = 32
"""Sets of values that are read of one function."""
_DEEPEST = 3
"""Callers of callers that are followed."""


class Instances:
    """The calls of a file's functions."""

    def __init__(self, tree: ast.Module, read: Expressions) -> None:
        self.read = read
        self.calls: dict[str, list[tuple[ast.Call, tuple[Function, ...]]]] = {}
        """The calls of each name, with the functions around each, outermost first."""
        self._find(tree, ())

    def _find(self, node: ast.AST, around: tuple[Function, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)):
                    self.calls.setdefault(name, []).append((child, around))
            self._find(child, (*around, child) if isinstance(child, Function) else around)

    def of(self, f: Function, around: tuple[Function, ...], names: Names) -> list[dict[str, Value]]:
        """The names in scope in a function, once for each set of values of its parameters that matters to its programs.

        Args:
            f: the function.
            around: the functions around it, outermost first.
            names: the names in scope around it.
        """
        return self._of(f, around, names, _DEEPEST, _used(f))

    def _of(
        self, f: Function, around: tuple[Function, ...], names: Names, depth: int, used: frozenset[str]
    ) -> list[dict[str, Value]]:
        every = [a.arg for a in _parameters(f)]
        unknown = {a: Unknown(f"`{a}` is a parameter of `{f.name}`") for a in every}
        found: list[dict[str, Value]] = []
        for given in self._given(f, around, names, depth):
            one = {**names, **unknown, **{k: v for k, v in given.items() if k in used}}
            if one not in found:
                found.append(one)
            if len(found) == MOST:
                break
        # Sets that are known in full come first.
        found.sort(key=lambda one: any(isinstance(one[a], Unknown) for a in every if a in used))
        return found or [{**names, **unknown}]

    def _given(self, f: Function, around: tuple[Function, ...], names: Names, depth: int) -> Iterator[Names]:
        """Values of parameters."""
        defaults = dict(_defaults(f, names, self.read))
        lists = [*_parametrized(f, names, self.read), *_options(f, names)]
        if lists:
            for several in product(*lists):
                yield {**defaults, **{k: v for one in several for k, v in one.items()}}
            return
        called = False
        for call, inside in self.calls.get(f.name, ()) if depth else ():
            if inside[: len(around)] != around or f in inside:
                continue
            for scope in self._inside(inside, around, names, depth - 1):
                called = True
                yield {**defaults, **_arguments(f, call, scope, self.read)}
        if not called:
            yield defaults

    def _inside(
        self, inside: tuple[Function, ...], around: tuple[Function, ...], names: Names, depth: int
    ) -> Iterator[Names]:
        """The names in scope in the innermost of the functions around a call, for each set of values. `around` are the
        outer ones, in whose innermost `names` are in scope."""
        scopes: Sequence[Names] = [names]
        for k in range(len(around), len(inside)):
            own = inside[k]
            all_of_them = frozenset(a.arg for a in _parameters(own))
            every = [one for s in scopes for one in self._of(own, inside[:k], s, depth, all_of_them)]
            scopes = [collect(own.body, one, self.read) for one in every[:MOST]]
        yield from scopes


def _parameters(f: Function) -> list[ast.arg]:
    a = f.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *(x for x in (a.vararg, a.kwarg) if x is not None)]


def _used(f: Function) -> frozenset[str]:
    """The names that programs in a function may depend on."""
    found: set[str] = set()
    for s in f.body:
        if not isinstance(s, ast.Expr | ast.Return | ast.Assert):
            found |= {x.id for x in ast.walk(s) if isinstance(x, ast.Name)}
    return frozenset(found)


def _defaults(f: Function, names: Names, read: Expressions) -> Iterator[tuple[str, Value]]:
    return ((name, value_of(e, Scope(names), read)) for name, e in defaults_of(f))


def _arguments(f: Function, call: ast.Call, names: Names, read: Expressions) -> dict[str, Value]:
    """The values of the arguments of a call."""
    positional = [a.arg for a in (*f.args.posonlyargs, *f.args.args)]
    if positional[:1] in (["self"], ["cls"]):
        positional = positional[1:]
    if any(isinstance(x, ast.Starred) for x in call.args):
        return {}
    scope = Scope(names)
    given = {a: value_of(e, scope, read) for a, e in zip(positional, call.args, strict=False)}
    return {**given, **{k.arg: value_of(k.value, scope, read) for k in call.keywords if k.arg is not None}}


def _parametrized(f: Function, names: Names, read: Expressions) -> Iterator[list[Names]]:
    """The sets of values of each `pytest.mark.parametrize`."""
    for d in f.decorator_list:
        match d:
            case ast.Call(
                func=ast.Attribute(attr="parametrize"), args=[said, ast.List(elts=rows) | ast.Tuple(elts=rows), *_]
            ):
                targets = _names(said)
                yield [dict(zip(targets, _row(r, len(targets), names, read), strict=False)) for r in rows]


def _names(e: ast.expr) -> list[str]:
    match e:
        case ast.Constant(value=str() as text):
            return [x.strip() for x in text.split(",") if x.strip()]
        case ast.List(elts=xs) | ast.Tuple(elts=xs):
            return [x.value for x in xs if isinstance(x, ast.Constant) and isinstance(x.value, str)]
    return []


def _row(e: ast.expr, width: int, names: Names, read: Expressions) -> Iterable[Value]:
    """The values of one set: `("float32", 4)`, `pytest.param("float32", 4)`, or one value."""
    scope = Scope(names)
    match e:
        case ast.Call(func=ast.Attribute(attr="param"), args=args):
            pass
        case ast.Tuple(elts=args) | ast.List(elts=args) if width > 1:
            pass
        case _:
            args = [e]
    return [value_of(x, scope, read) for x in args]


def _options(f: Function, names: Names) -> Iterator[list[Names]]:
    """The sets of values of parameters that `tvm.testing.parameter` gives values by their names."""
    for a in _parameters(f):
        options = names.get(a.arg)
        if isinstance(options, Options):
            yield [{a.arg: v} for v in options.values]
