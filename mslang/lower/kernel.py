"""What lowering makes and back ends emit: loops, branches and stores over buffers with a place; no blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from mslang.ir.expr import Expr, Symbol
from mslang.ir.intrin import Formal
from mslang.ir.program import Buffer, Evaluate, For, If, Let, Param, Stmt, Store, While

Body = tuple[Stmt, ...]


AUTO_VECTORIZE = "llvm.auto_vectorize"
"""The attribute of a program whose serial loops LLVM may unroll and vectorize, as it does for TVM."""


class Allocate(Stmt, frozen=True, cache_hash=True):
    """`buffer` exists while `body` runs; what it holds at the start is not defined."""

    buffer: Buffer
    body: Body


class Invoke(Stmt, frozen=True, cache_hash=True):
    """An instruction: the text of a back end, over operands, each the first element of a view.

    `params` are the operands as the text names them and relies on them, `ranks` how many of the last dimensions each
    has. `meaning` is what the instruction does: it determines what is accessed, and runs where every access is checked.
    """

    name: str
    text: str
    params: tuple[Formal, ...]
    ranks: tuple[int, ...]
    operands: tuple[Expr, ...]
    meaning: Body


class Within(Stmt, frozen=True, cache_hash=True):
    """`body` is that of the block `block`; `axes` are its axes with their values. For reports: it changes nothing."""

    block: str
    axes: tuple[tuple[str, Expr], ...]
    body: Body


class Kernel(msgspec.Struct, frozen=True):
    """A lowered program.

    Loops are serial, parallel, vectorized or unrolled; conditions are the guards that could not be proved.
    Buffers keep their dimensions (so that accesses can be checked) and have explicit strides.
    """

    name: str
    params: tuple[Param, ...]
    body: Body
    dynamic: tuple[Symbol, ...] = ()
    auto_vectorize: bool = False
    """Whether the code generator may unroll and vectorize loops of which the schedule says nothing."""


def bodies(s: Stmt) -> tuple[Body, ...]:
    """The statement lists directly inside a lowered statement."""
    match s:
        case For(body=b) | While(body=b) | Let(body=b) | Allocate(body=b) | Within(body=b):
            return (b,)
        case If(then=t, otherwise=o):
            return (t, o)
        case Invoke(meaning=b):
            return (b,)
    return ()


def with_bodies(s: Stmt, parts: tuple[Body, ...]) -> Stmt:
    """The same statement over other statement lists; itself if they are the same objects."""
    if all(a is b for a, b in zip(bodies(s), parts, strict=True)):
        return s
    match s:
        case For() | While() | Let() | Allocate() | Within():
            return replace(s, body=parts[0])
        case If():
            return replace(s, then=parts[0], otherwise=parts[1])
        case Invoke():
            return replace(s, meaning=parts[0])
    return s


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in a lowered statement."""
    match s:
        case Store(indices=xs, value=v):
            return (*xs, v)
        case Let(value=v) | Evaluate(value=v):
            return (v,)
        case If(condition=c) | While(condition=c):
            return (c,)
        case For(start=a, extent=e):
            return (a, e)
        case Invoke(operands=xs):
            return xs
        case Within(axes=axes):
            return tuple(e for _, e in axes)
    return ()


def walk(body: Body) -> Iterator[Stmt]:
    """Every lowered statement, outer before inner, in order."""
    for s in body:
        yield s
        for b in bodies(s):
            yield from walk(b)


def map_expressions(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """The statement with the expressions directly in it rebuilt; bodies stay."""
    match s:
        case Store(buffer=b, indices=xs, value=v):
            indices, value = tuple(f(x) for x in xs), f(v)
            same = value is v and all(a is c for a, c in zip(indices, xs, strict=True))
            return s if same else Store(b, indices, value)
        case Let(value=v) | Evaluate(value=v):
            value = f(v)
            return s if value is v else replace(s, value=value)
        case If(condition=c) | While(condition=c):
            condition = f(c)
            return s if condition is c else replace(s, condition=condition)
        case For(start=a, extent=e):
            start, extent = f(a), f(e)
            return s if start is a and extent is e else replace(s, start=start, extent=extent)
        case Invoke(operands=xs):
            operands = tuple(f(x) for x in xs)
            return s if all(a is c for a, c in zip(operands, xs, strict=True)) else replace(s, operands=operands)
        case Within(axes=axes):
            return replace(s, axes=tuple((n, f(e)) for n, e in axes))
    return s


def map_deep(body: Body, f: Callable[[Expr], Expr]) -> Body:
    """Statements with every expression in them, at any depth, rebuilt by `f`."""
    return tuple(map_expressions(with_bodies(s, tuple(map_deep(b, f) for b in bodies(s))), f) for s in body)
