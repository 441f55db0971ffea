"""Parameters and results of TVMScript's functions that are numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def is_data(f: ast.FunctionDef, name: str) -> bool:
    """Whether an integer parameter is a value to compute with, not a size: it is used, and only in stored and returned
    values and in conditions."""
    every = sum(isinstance(x, ast.Name) and x.id == name for x in ast.walk(f))
    values = [x for v in _values(f) for x in _outside_of_indices(v) if x.id == name]
    return 0 < every == len(values)


def results(f: ast.FunctionDef) -> list[ast.expr]:
    """The values that a function returns."""
    return [
        s.value
        for s in ast.walk(f)
        if isinstance(s, ast.Return)
        and s.value is not None
        and not (isinstance(s.value, ast.Constant) and s.value.value is None)
    ]


def _values(f: ast.FunctionDef) -> Iterator[ast.expr]:
    for s in ast.walk(f):
        match s:
            case ast.Assign(targets=[ast.Subscript()], value=v) | ast.Return(value=ast.expr() as v) | ast.If(test=v):
                yield v


def _outside_of_indices(e: ast.AST) -> Iterator[ast.Name]:
    """The names in an expression that are not parts of indices."""
    match e:
        case ast.Name():
            yield e
        case ast.Subscript(value=of):
            yield from _outside_of_indices(of)
        case _:
            for child in ast.iter_child_nodes(e):
                yield from _outside_of_indices(child)
