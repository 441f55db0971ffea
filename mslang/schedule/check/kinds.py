"""Static knowledge of a value: its kind; for blocks and lists also axes, element and length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Span
from mslang.ops.signature import Kind
from mslang.syntax.tree import AnyItem


class Static(msgspec.Struct, frozen=True):
    """What is known of a value. `axes` are a block's (None: not known; if `more_axes`, it may have gained
    others), `element` and `length` a list's; `item` is the program, rule, schedule, … that a name denotes;
    `fields` are a target's, `cases` a fork's."""

    kind: Kind
    axes: tuple[str, ...] | None = None
    more_axes: bool = False
    element: Static | None = None
    length: int | None = None
    item: AnyItem | None = None
    fields: tuple[str, ...] | None = None
    cases: tuple[str, ...] | None = None


ANY = Static(Kind.ANY)
LOOP = Static(Kind.LOOP)
BLOCK = Static(Kind.BLOCK)
BUFFER = Static(Kind.BUFFER)
SIZE = Static(Kind.SIZE)
FLOAT = Static(Kind.FLOAT)
BOOL = Static(Kind.BOOL)
STR = Static(Kind.STR)
SCOPE = Static(Kind.SCOPE)
AXIS = Static(Kind.AXIS)
TAIL = Static(Kind.TAIL)
ACCESS = Static(Kind.ACCESS)
DTYPE = Static(Kind.DTYPE)
LOCATION = Static(Kind.LOCATION)
INDEX_MAP = Static(Kind.INDEX_MAP)
NOTHING = Static(Kind.NOTHING)
HOLE = Static(Kind.FACTORS)


def list_of(element: Static, length: int | None = None) -> Static:
    """A list of elements of this kind."""
    return Static(Kind.VALUES, element=element, length=length)


def of_kind(kind: Kind) -> Static:
    """The value of an operation whose result has this kind."""
    match kind:
        case Kind.LOOPS:
            return list_of(LOOP)
        case Kind.BLOCKS:
            return list_of(BLOCK)
        case Kind.BUFFERS:
            return list_of(BUFFER)
        case Kind.SIZES:
            return list_of(SIZE)
        case Kind.VALUES:
            return list_of(ANY)
    return Static(kind)


_ACCEPTED: Mapping[Kind, frozenset[Kind]] = MappingProxyType(
    {
        Kind.LOOP_OR_BLOCK: frozenset({Kind.LOOP, Kind.BLOCK}),
        Kind.INT: frozenset({Kind.SIZE}),
        Kind.SIZE: frozenset({Kind.INT, Kind.BOOL}),
        Kind.FLOAT: frozenset({Kind.SIZE, Kind.INT}),
        Kind.FACTORS: frozenset({Kind.TILE, Kind.VALUES}),
        Kind.SIZES: frozenset({Kind.TILE, Kind.VALUES}),
        Kind.VALUES: frozenset({Kind.TILE, Kind.LOOPS, Kind.BLOCKS}),
        Kind.LOOPS: frozenset({Kind.VALUES}),
        Kind.BLOCKS: frozenset({Kind.VALUES}),
        Kind.PADDING: frozenset({Kind.SIZE, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.INDEX_MAP}),
        Kind.REGION_MAP: frozenset({Kind.INDEX_MAP}),
        Kind.SCOPE: frozenset({Kind.STR}),
        Kind.AXIS: frozenset({Kind.STR}),
        Kind.TAIL: frozenset({Kind.STR}),
        Kind.ACCESS: frozenset({Kind.STR}),
        Kind.DTYPE: frozenset({Kind.STR}),
        Kind.BUFFERS: frozenset({Kind.VALUES}),
        Kind.CONDITION: frozenset({Kind.BOOL, Kind.SIZE}),
        Kind.LOOP_OR_BLOCKS: frozenset({Kind.LOOP, Kind.BLOCKS, Kind.VALUES}),
        Kind.LOCATION: frozenset({Kind.LOOP}),
    }
)


_ELEMENTS: Mapping[Kind, Kind] = MappingProxyType(
    {
        Kind.LOOPS: Kind.LOOP,
        Kind.BLOCKS: Kind.BLOCK,
        Kind.BUFFERS: Kind.BUFFER,
        Kind.LOOP_OR_BLOCKS: Kind.BLOCK,
    }
)


def accepts(wanted: Kind, given: Static) -> bool:
    """Whether a parameter of kind `wanted` accepts the value, as far as the value is known."""
    if Kind.ANY in (wanted, given.kind) or wanted in (given.kind, Kind.VALUE):
        return given.kind is not Kind.NOTHING or wanted is Kind.ANY
    if given.kind not in _ACCEPTED.get(wanted, frozenset()):
        return False
    inner = _ELEMENTS.get(wanted) if given.kind is Kind.VALUES else None
    return inner is None or given.element is None or accepts(inner, given.element)


def describe(value: Static) -> str:
    """A kind as messages name it."""
    match value:
        case Static(kind=Kind.NOTHING):
            return "nothing"
        case Static(kind=Kind.VALUES, element=Static(kind=inner)) if inner is not Kind.ANY:
            return f"a list of {inner.value}s"
        case Static(kind=Kind.VALUES):
            return "a list"
    return value.kind.with_article


class Outcomes(msgspec.Struct, frozen=True):
    """Some outcomes of a fork, which is known by where its name is bound."""

    fork: Span
    cases: frozenset[str]


class Death(msgspec.Struct, frozen=True):
    """Why a handle may not be used: where it was consumed, by what, the names of its replacements, and whether
    it was consumed on every path; if not, and a fork decides, for which of the fork's outcomes."""

    span: Span
    by: str
    into: tuple[str, ...] = ()
    certain: bool = True
    outcomes: Outcomes | None = None


class Binding(msgspec.Struct, frozen=True):
    """A name in scope: its value, where it was bound (None: elsewhere), and how it died."""

    value: Static
    span: Span | None = None
    death: Death | None = None


Environment = Mapping[str, Binding]
EMPTY: Environment = MappingProxyType({})


def may_be_made(name: str, names: Environment) -> bool:
    """Whether a block or buffer created by an operation may have this name: `A_pad`, `mm_tail`, `C_local_1`."""
    things = (n for n, b in names.items() if b.value.kind in (Kind.BLOCK, Kind.BUFFER))
    return any(name.startswith(f"{n}_") for n in things)


def with_more_axes(names: Environment) -> Environment:
    """The names after an operation that may have changed the axes of blocks."""
    return {n: _with_more_axes(b) if b.value.axes is not None else b for n, b in names.items()}


def _with_more_axes(bound: Binding) -> Binding:
    return msgspec.structs.replace(bound, value=msgspec.structs.replace(bound.value, more_axes=True))


def join(before: Environment, ends: Sequence[Environment]) -> Environment:
    """The environment after branches: the names from before, and those bound to the same value on every path. A name
    consumed on some paths only is marked as uncertain."""
    joined: dict[str, Binding] = {}
    for name in dict.fromkeys(n for e in ends for n in e):
        found = [e[name] for e in ends if name in e]
        if name not in before and len(found) < len(ends):
            continue
        deaths = [b.death for b in found if b.death is not None]
        value = found[0].value if all(b.value == found[0].value for b in found) else ANY
        death = None
        if deaths:
            certain = len(deaths) == len(ends) and all(d.certain for d in deaths)
            outcomes = deaths[0].outcomes if all(d.outcomes == deaths[0].outcomes for d in deaths) else None
            death = msgspec.structs.replace(deaths[0], certain=certain, outcomes=outcomes)
        joined[name] = Binding(value, found[0].span, death)
    return MappingProxyType(joined)


def join_cases(before: Environment, fork: Span, ends: Mapping[str, Environment]) -> Environment:
    """The environment after the cases of a fork: a name consumed in some of them is known to live in the others."""
    joined = dict(join(before, tuple(ends.values())))
    for name, bound in joined.items():
        if bound.death is None or bound.death.certain or (name in before and before[name].death is not None):
            continue
        deaths = {case: e[name].death for case, e in ends.items() if name in e}
        if all(d is None or d.certain for d in deaths.values()):
            outcomes = Outcomes(fork, frozenset(case for case, d in deaths.items() if d is not None))
            joined[name] = msgspec.structs.replace(bound, death=msgspec.structs.replace(bound.death, outcomes=outcomes))
    return MappingProxyType(joined)


def where_outcome(names: Environment, among: Outcomes) -> Environment:
    """The environment where a fork has one of these outcomes: names that those consume are dead, names that only others
    consume live."""
    return MappingProxyType({n: _where_outcome(b, among) for n, b in names.items()})


def _where_outcome(bound: Binding, among: Outcomes) -> Binding:
    death = bound.death
    if death is None or death.outcomes is None or death.outcomes.fork != among.fork:
        return bound
    deadly = among.cases & death.outcomes.cases
    left = None if not deadly else msgspec.structs.replace(death, certain=deadly == among.cases)
    return msgspec.structs.replace(bound, death=left)
