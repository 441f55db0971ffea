"""What a reduction block starts from and how it updates: the shape that rfactor and its like ask for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mslang.ir import arith
from mslang.ir.expr import Const, Expr, Load, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, Let, Program, Stmt, Store
from mslang.ir.reducers import Extreme, Match, Reducer, identity_of, match_reducer
from mslang.ir.visit import free_vars, loads_of
from mslang.transform.analysis.formula import formula_of
from mslang.transform.outcome import refuse

CONDITIONS = (
    "its init is one or several stores",
    "its init stores to different buffers",
    "its body has one `let` for each store of the init, or is one store",
    "the `let`s of its body have different names",
    "what follows the `let`s are stores",
    "its body stores as often as its init",
    "what it stores are the values of its `let`s",
    "it stores different `let`s",
    "it stores to different buffers",
    "its body and its init store to the same buffers",
    "the buffers that it stores to have one shape",
    "all its stores are at the same indices",
)
"""What the shape of a reduction must be to be taken apart, in the order in which it is checked."""


class Updates(msgspec.Struct, frozen=True):
    """A reduction block's stores, meant to happen at once (`let`s put in), and what each buffer starts from."""

    stores: tuple[Store, ...]
    starts: tuple[Expr, ...]


def updates_of(program: Program, block: Block, primitive: str) -> Updates:
    """The updates of a reduction block.

    Raises:
        ScheduleError: MS369, the block has another shape (the condition that fails is named).
    """
    init = _init_of(block, primitive)
    updates = _body_of(block, len(init), primitive)
    if {s.buffer for s in updates} != {s.buffer for s in init}:
        raise _shapeless(block, 10, primitive)
    buffers = all_buffers(program)
    first = updates[0]
    for s in (*updates, *init):
        shape = buffers[s.buffer].shape
        if not _same(shape, buffers[first.buffer].shape):
            raise _shapeless(block, 11, primitive)
        if not _same(s.indices, first.indices):
            raise _shapeless(block, 12, primitive)
    starts = {s.buffer: s.value for s in init}
    return Updates(updates, tuple(starts[s.buffer] for s in updates))


def reduction_of(block: Block, updates: Updates, reducers: Sequence[Reducer], primitive: str) -> Match:
    """The reducer that a block's updates are of.

    Raises:
        ScheduleError: MS370, they are of none that is known, or start from something else than it asks for.
    """
    found = match_reducer(updates.stores, reducers)
    if found is None:
        raise refuse(
            "MS370",
            primitive,
            f"no known reducer combines as block `{block.name}` does",
            why="only what may be combined in parts can be taken apart",
            help=f"known are {', '.join(dict.fromkeys(r.name for r in reducers))}; packages can register more",
        )
    if len(updates.stores) == 1:
        return found
    for k, start in enumerate(updates.starts):
        dtype = all_dtypes(updates)[k]
        allowed = {identity_of(found.reducer, k, dtype), *_finite(found.reducer, k, dtype)}
        if start not in allowed:
            raise refuse(
                "MS370",
                primitive,
                f"block `{block.name}` does not start `{updates.stores[k].buffer}` from the identity of its reducer",
                why=f"{found.reducer.name} of several buffers starts from "
                f"{', '.join(str(getattr(x, 'value', x)) for x in found.reducer.identity)}",
            )
    return found


def all_dtypes(updates: Updates) -> tuple[str, ...]:
    """The element types of the buffers."""
    return tuple(load.dtype for load in own_loads(updates))


def own_loads(updates: Updates) -> tuple[Load, ...]:
    """The loads of what is updated."""
    return tuple(
        next(x for s in updates.stores for x in loads_of(s.value) if (x.buffer, x.indices) == (u.buffer, u.indices))
        for u in updates.stores
    )


def _finite(reducer: Reducer, k: int, dtype: str) -> tuple[Const, ...]:
    """The finite ends of a floating type: they do as well as the infinite ones, for what they are combined with is
    combined with them already. Where the last of equals wins they do not: a part in which nothing was found would win
    over an equal number that was."""
    identity = reducer.identity[k]
    if reducer.ordered and not reducer.keeps_first:
        return ()
    limit = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}
    if dtype not in limit or not isinstance(identity, Extreme):
        return ()
    return (Const(limit[dtype] if identity is Extreme.HIGHEST else -limit[dtype], dtype),)


def _init_of(block: Block, primitive: str) -> tuple[Store, ...]:
    stores = tuple(s for s in block.init or () if isinstance(s, Store))
    if not stores or len(stores) != len(block.init or ()):
        raise _shapeless(block, 1, primitive)
    if len({s.buffer for s in stores}) != len(stores):
        raise _shapeless(block, 2, primitive)
    return stores


def _body_of(block: Block, n: int, primitive: str) -> tuple[Store, ...]:
    single = formula_of(block)
    if single is not None and n == 1:
        return (single,)
    lets: dict[str, Expr] = {}
    body: tuple[Stmt, ...] = block.body
    while len(body) == 1 and isinstance(body[0], Let):
        if body[0].name in lets:
            raise _shapeless(block, 4, primitive)
        lets[body[0].name] = body[0].value
        body = body[0].body
    plain = tuple(s for s in body if isinstance(s, Store))
    if not lets and len(plain) == len(body) == n and _independent(plain):
        return plain
    if len(lets) != n or any(isinstance(s, Let) for s in body):
        raise _shapeless(block, 3, primitive)
    if len(plain) != len(body):
        raise _shapeless(block, 5, primitive)
    if len(plain) != n:
        raise _shapeless(block, 6, primitive)
    stored = [s.value.name for s in plain if isinstance(s.value, Var) and s.value.name in lets]
    if len(stored) != n:
        raise _shapeless(block, 7, primitive)
    if len(set(stored)) != n:
        raise _shapeless(block, 8, primitive)
    if len({s.buffer for s in plain}) != n:
        raise _shapeless(block, 9, primitive)
    by_let = dict(zip(stored, plain, strict=True))
    ordered = tuple(Store(by_let[name].buffer, by_let[name].indices, value) for name, value in lets.items())
    if any(free_vars(s.value) & lets.keys() for s in ordered):
        raise _shapeless(block, 7, primitive)
    return ordered


def _independent(stores: Sequence[Store]) -> bool:
    """Does no store read what another writes, and are they to different buffers?"""
    written = [s.buffer for s in stores]
    return len(set(written)) == len(written) and not any(
        x.buffer in written and x.buffer != s.buffer for s in stores for x in loads_of(s.value)
    )


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(arith.equal(x, y) for x, y in zip(a, b, strict=True))


def _shapeless(block: Block, condition: int, primitive: str) -> Exception:
    return refuse(
        "MS369",
        primitive,
        f"the reduction of block `{block.name}` has a shape that cannot be taken apart",
        why=f"condition {condition} fails: {CONDITIONS[condition - 1]}",
    )
