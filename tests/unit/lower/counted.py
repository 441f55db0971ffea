"""Accesses of a lowered kernel, counted one by one: what a summary's numbers are held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mslang.ir.arith import evaluate
from mslang.ir.expr import Binary, Expr, Load, Select, children
from mslang.kernel import Body, Evaluate, For, If, Let, Stmt, Store
from mslang.kernel.visit import bodies


class Event(NamedTuple):
    """One execution of one statement: its number in program order, the loops' values, what it accesses."""

    statement: int
    loops: tuple[int, ...]
    elements: tuple[tuple[str, tuple[int, ...]], ...]


def events(body: Body) -> list[Event]:
    """Every execution of every store, in order. Conditions depend on no data."""
    numbers: dict[int, int] = {}
    _number(body, numbers)
    return list(_run(body, {}, (), numbers))


def _number(body: Body, numbers: dict[int, int]) -> None:
    for s in body:
        if isinstance(s, Store | Evaluate):
            numbers[id(s)] = len(numbers)
        for b in bodies(s):
            _number(b, numbers)


def _run(body: Body, env: Mapping[str, int], loops: tuple[int, ...], numbers: dict[int, int]) -> Iterator[Event]:
    for s in body:
        match s:
            case For(var=v, start=start, extent=extent):
                first = int(evaluate(start, env))
                for k in range(int(evaluate(extent, env))):
                    yield from _run(s.body, {**env, v: first + k}, (*loops, k), numbers)
            case If(condition=c):
                yield from _run(s.then if evaluate(c, env) else s.otherwise, env, loops, numbers)
            case Let(name=n, value=v):
                yield from _run(s.body, {**env, n: int(evaluate(v, env))}, loops, numbers)
            case _:
                if id(s) in numbers:
                    yield Event(numbers[id(s)], loops, tuple(_elements(s, env)))
                for b in bodies(s):
                    yield from _run(b, env, loops, numbers)


def _elements(s: Stmt, env: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    assert isinstance(s, Store)
    yield s.buffer, tuple(int(evaluate(i, env)) for i in s.indices)
    yield from _loads(s.value, env)


def _loads(e: Expr, env: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    match e:
        case Select(condition=c, then=t, otherwise=o):
            yield from _loads(t if evaluate(c, env) else o, env)
            return
        case Binary(op="and" | "or"):
            raise AssertionError("conditions on data are not counted")
        case Load(buffer=b, indices=xs):
            yield b, tuple(int(evaluate(i, env)) for i in xs)
    for x in children(e):
        yield from _loads(x, env)
