"""What an item is called with and what is said of it: for checker, hover and completion."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mslang.diagnostics import MsError, Span
from mslang.ops.library import LIBRARY
from mslang.ops.signature import REQUIRED, Group, Kind, Param, Signature
from mslang.sema.consteval import evaluate
from mslang.sema.module import Found, Module, Thing, Whole
from mslang.sema.native import Native
from mslang.sema.targets import field_names
from mslang.syntax import tree
from mslang.target.description import GENERIC

PARAM_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "int": Kind.INT,
        "float": Kind.FLOAT,
        "bool": Kind.BOOL,
        "str": Kind.STR,
        "size": Kind.SIZE,
        "sizes": Kind.SIZES,
        "factors": Kind.FACTORS,
        "values": Kind.VALUES,
        "value": Kind.VALUE,
        "loop": Kind.LOOP,
        "loops": Kind.LOOPS,
        "block": Kind.BLOCK,
        "blocks": Kind.BLOCKS,
        "buffer": Kind.BUFFER,
        "scope": Kind.SCOPE,
        "axis": Kind.AXIS,
        "location": Kind.LOCATION,
        "intrin": Kind.INTRIN,
        "program": Kind.PROGRAM,
        "rule": Kind.RULE,
        "space": Kind.SPACE,
        "tile": Kind.TILE,
        "tail": Kind.TAIL,
        "access": Kind.ACCESS,
        "dtype": Kind.DTYPE,
        "buffers": Kind.BUFFERS,
        "index_map": Kind.INDEX_MAP,
        "condition": Kind.CONDITION,
        "list": Kind.VALUES,
        "target": Kind.ANY,
        "any": Kind.ANY,
    }
)
"""The types that parameters of schedules, rules and fns may have."""


class ItemInfo(msgspec.Struct, frozen=True):
    """What is known of a name: `header` is how the item begins, `signature` how it is called (None: it is not).

    `sizes` are a program's size parameters, `buffers` its parameters; `program` and `target` are what a schedule or
    space is for; `fields` are a target's. `path` and `span` say where the name is declared (None: in no file).
    """

    name: str
    role: str
    header: str
    doc: str = ""
    signature: Signature | None = None
    sizes: tuple[tree.SizeParam, ...] = ()
    buffers: tuple[tree.Param, ...] = ()
    program: str | None = None
    target: str | None = None
    fields: tuple[str, ...] = ()
    path: str | None = None
    span: Span | None = None


def info(module: Module, name: str) -> ItemInfo | None:
    """What is known of a name as a module uses it, or None if it means nothing there."""
    thing = module.find(name)
    return None if thing is None else info_of(thing, name)


def info_of(thing: Thing, name: str) -> ItemInfo:
    """What is known of what `name` means."""
    match thing:
        case Native(doc=doc, role=role, address=address):
            s = LIBRARY.get(address)
            fields = tuple(GENERIC.fields) if role == "target" else ()
            return ItemInfo(name, role, f"{role} {address}" if s is None else s.text, doc, s, fields=fields)
        case Whole(module=m):
            return ItemInfo(name, "module", f"module {name}", path=None if m is None else m.path)
        case Found():
            return _of_item(thing)


def _of_item(found: Found) -> ItemInfo:
    item = found.item
    span = item.name.span.shifted(found.placed.start)
    made = ItemInfo(
        item.name.text, found.role, header_of(found), item.doc, signature_of(item), path=found.module.path, span=span
    )
    match item:
        case tree.Program(sizes=sizes, params=params):
            return msgspec.structs.replace(made, sizes=sizes, buffers=params)
        case tree.Schedule(program=program, target=target) | tree.Space(program=program, target=target):
            return msgspec.structs.replace(
                made,
                program=None if program is None else ".".join(n.text for n in program),
                target=None if target is None else _source(found, target),
            )
        case tree.Target():
            return msgspec.structs.replace(made, fields=field_names(found.module, item.name.text))
    return made


def signature_of(item: tree.AnyItem) -> Signature | None:
    """How a schedule, rule or fn is called; None for items that are not."""
    match item:
        case tree.Schedule() | tree.Rule() | tree.Fn():
            params = tuple(_param(p) for p in item.params)
            return Signature(item.name.text, Group.FUNCTION, params, (), family=type(item).__name__.lower())
    return None


def _param(p: tree.Param) -> Param:
    return Param(p.name.text, PARAM_KINDS.get(p.type.name.text, Kind.ANY), _default(p))


def _default(p: tree.Param) -> object:
    if p.default is None:
        return REQUIRED
    try:
        return evaluate(p.default)
    except MsError:
        return p.default


def _source(found: Found, node: tree.Node) -> str:
    return found.placed.parsed.text[node.span.start : node.span.end]


def header_of(found: Found) -> str:
    """The text of an item up to its body, on one line."""
    item = found.item
    text = found.placed.parsed.text
    end = item.span.end
    match item:
        case tree.Program(body=tree.Body(span=s)) | tree.Rule(body=tree.Body(span=s)) | tree.Fn(body=tree.Body(span=s)):
            end = s.start
        case tree.Schedule(body=tree.Body(span=s)) | tree.Intrin(desc=tree.Body(span=s)):
            end = s.start
        case tree.Schedule(source=tree.Node(span=s)):
            end = s.end
        case tree.Target(kind=kind) if kind:
            end = kind[-1].span.end
    start = item.attributes[-1].span.end if item.attributes else item.span.start
    shown = " ".join(text[start:end].split()).replace("( ", "(").replace(" )", ")")
    return shown.removesuffix("{ desc").rstrip()
