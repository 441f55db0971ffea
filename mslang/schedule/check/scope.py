"""The initial names of a schedule item: blocks and buffers of its program, items of its module, built-in words."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ir.program import SCOPES
from mslang.ops.signature import Kind
from mslang.ops.words import ACCESSES, COPIES, ELEMENT_TYPES, TAILS
from mslang.schedule.check.kinds import (
    ACCESS,
    ANY,
    AXIS,
    BLOCK,
    BOOL,
    BUFFER,
    DTYPE,
    FLOAT,
    LOOP,
    NOTHING,
    SCOPE,
    SIZE,
    STR,
    TAIL,
    Binding,
    Static,
    list_of,
)
from mslang.sema.consteval import NUMBERS
from mslang.sema.native import Native
from mslang.syntax import tree

_AXES = ("blockIdx", "threadIdx", "vthread")

PARAM_KINDS = {
    "int": SIZE,
    "size": SIZE,
    "float": Static(Kind.FLOAT),
    "bool": BOOL,
    "str": STR,
    "block": BLOCK,
    "loop": LOOP,
    "buffer": BUFFER,
    "scope": SCOPE,
    "intrin": Static(Kind.INTRIN),
    "program": Static(Kind.PROGRAM),
    "loops": list_of(LOOP),
    "blocks": list_of(BLOCK),
    "list": list_of(ANY),
    "sizes": list_of(SIZE),
    "tile": Static(Kind.TILE),
    "location": Static(Kind.LOCATION),
    "any": ANY,
    "target": Static(Kind.ANY),
}
"""The types that a parameter of a schedule, rule or fn may have."""


def builtin_names() -> dict[str, Binding]:
    """Words with a meaning in every schedule: scopes, thread axes, tails, `none`, `inf`."""
    names = {s: Binding(SCOPE) for s in SCOPES if "." not in s}
    # `wmma.a` and `threadIdx.x` are written with a dot: the first part is a name, the checker follows the rest.
    names |= {s.partition(".")[0]: Binding(SCOPE) for s in SCOPES if "." in s and s.partition(".")[0] not in names}
    names |= {a: Binding(AXIS) for a in _AXES}
    names |= {t: Binding(TAIL) for t in TAILS}
    names |= {a: Binding(ACCESS) for a in ACCESSES}
    names |= {d: Binding(DTYPE) for d in ELEMENT_TYPES}
    names |= {c: Binding(STR) for c in COPIES}
    names |= {n: Binding(FLOAT) for n in NUMBERS} | {"none": Binding(NOTHING)}
    return names | {w: Binding(Static(Kind.LOCATION)) for w in ("root", "inline")}


def program_names(program: tree.Program) -> dict[str, Binding]:
    """The blocks and buffers of a program, and its sizes."""
    names: dict[str, Binding] = {p.name.text: Binding(BUFFER) for p in program.params}
    names |= {s.name.text: Binding(SIZE) for s in program.sizes}
    for statement in _statements(program.body):
        match statement:
            case tree.Block(name=name, axes=axes):
                known = None if axes is None else tuple(a.name.text for a in axes)
                names[name.text] = Binding(Static(Kind.BLOCK, axes=known))
            case tree.Alloc(name=name) | tree.View(name=name):
                names[name.text] = Binding(BUFFER)
    return names


def _statements(body: tree.Body) -> Iterator[tree.Stmt]:
    for s in body.statements:
        yield s
        match s:
            case tree.For(body=inner) | tree.While(body=inner) | tree.Block(body=inner) | tree.Init(body=inner):
                yield from _statements(inner)
            case tree.If(body=inner, otherwise=other):
                yield from _statements(inner)
                if other is not None:
                    yield from _statements(other)


_ITEM_KINDS: tuple[tuple[type, Kind], ...] = (
    (tree.Program, Kind.PROGRAM),
    (tree.Rule, Kind.RULE),
    (tree.Schedule, Kind.SPACE),
    (tree.Space, Kind.SPACE),
    (tree.Intrin, Kind.INTRIN),
)


def item_value(item: tree.AnyItem) -> Static:
    """The value of an item's name in a schedule."""
    if isinstance(item, tree.Const):
        return ANY
    if isinstance(item, tree.Target):
        return Static(Kind.ANY, item=item, fields=None)
    kind = next((k for t, k in _ITEM_KINDS if isinstance(item, t)), Kind.ANY)
    return Static(kind, item=item)


def params_of(params: tuple[tree.Param, ...]) -> dict[str, Binding]:
    """The parameters of a schedule, rule or fn."""
    return {p.name.text: Binding(PARAM_KINDS.get(p.type.name.text, ANY), p.name.span) for p in params}


def native_value(thing: object) -> Static:
    """The value of a name of a native library."""
    if isinstance(thing, Native):
        match thing.role:
            case "rule":
                return Static(Kind.RULE)
            case "target":
                return ANY
    return ANY
