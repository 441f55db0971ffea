"""What TVM's methods are given, as this project's are: element types, sizes, index maps, regions, remarks."""

from __future__ import annotations

import inspect
from typing import Any

from benchmarks.tvm_suite.reading import NotPortable
from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.index_map import TO, IndexMap
from mslang.schedule.values import Size

_LETTERS = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}


def dtype_of(name: str) -> str:
    """An element type by TVM's name."""
    letters = name.rstrip("0123456789")
    return _LETTERS[letters] + name[len(letters) :]


def size_of(value: Any) -> Any:
    """A number that may be one of TVM's constants."""
    return value.value if isinstance(value, Const) else value


def remark_of(value: Any) -> Any:
    """The value of an annotation; a dictionary is a list of pairs."""
    match value:
        case dict():
            return [[key, remark_of(inner)] for key, inner in value.items()]
        case list() | tuple():
            return [remark_of(inner) for inner in value]
    return size_of(value)


def map_of(given: Any, count: int) -> IndexMap:
    """An index map from a function of `count` indices.

    Raises:
        NotPortable: it has axis separators.
    """
    if isinstance(given, IndexMap):
        return given
    params = inspect.signature(given).parameters.values()
    several = any(p.kind is p.VAR_POSITIONAL for p in params)
    names = [f"i{k}" for k in range(count)] if several else [p.name for p in params]
    keywords = [p.name for p in params if p.kind is p.KEYWORD_ONLY]
    plain = [Size(Var(n)) for n in names if n not in keywords][: len(names) - (len(keywords) if several else 0)]
    found = given(*plain, **{n: Size(Var(n)) for n in keywords})
    names = [*(str(s.expr.name) for s in plain if isinstance(s.expr, Var)), *keywords]
    results: list[Expr] = []
    for x in found if isinstance(found, list | tuple) else [found]:
        if not isinstance(x, Size | int):
            raise NotPortable("axis separators")
        results.append(_expr(x))
    return IndexMap(tuple(names), tuple(results))


def region_of(given: Any, names: tuple[str, ...]) -> IndexMap:
    """A region from a function of a block's axes: an index, or a begin and an end, for each dimension."""
    return IndexMap(names, tuple(_range(x) for x in given(*(Size(Var(n)) for n in names))))


def _range(given: Any) -> Expr:
    if not isinstance(given, tuple | list):
        return _expr(given)
    begin, end = given
    return Binary(TO, _expr(begin), _expr(end))


def _expr(given: Any) -> Expr:
    return given.expr if isinstance(given, Size) else Const(int(given))
