"""The meaning of a word of a file: the declaration, handle, item or word of the language that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mslang.diagnostics import Span
from mslang.ide.addresses import part_at, parts_of, written_addresses
from mslang.ide.declarations import ADDRESSABLE, Name, Role, declarations, visible
from mslang.ide.findings import checked
from mslang.ide.handles import binders
from mslang.ide.imports import used_module
from mslang.ide.snapshot import Snapshot
from mslang.ide.static import program_of
from mslang.ops.signature import Kind
from mslang.schedule.check import Mention
from mslang.schedule.check.kinds import ANY
from mslang.schedule.check.scope import builtin_names
from mslang.sema.module import NAMED, Found, Module, Thing, Whole, member
from mslang.sema.refer import dotted_name, nodes
from mslang.syntax import tree
from mslang.syntax.query import item_at, node_path, token_at
from mslang.transform.registries import registry_of
from mslang.transform.registry import OPERATIONS


class Target(msgspec.Struct, frozen=True, eq=False):
    """The meaning of a word: its place in the file, and one of: a declaration of a program or another item (`program`,
    None: the word's own item), a mention in a schedule, an item. `plain` says that it can name nothing that is
    declared: it is an operation, a scope, a type, a keyword argument of an operation."""

    text: str
    span: Span
    module: Module
    placed: tree.PlacedItem
    program: Found | None = None
    name: Name | None = None
    mention: Mention | None = None
    thing: Thing | None = None
    plain: bool = False


def target_at(snapshot: Snapshot, path: str, offset: int) -> Target | None:
    """What the word at an offset means.

    Raises:
        MsError: the file cannot be read.
    """
    module = snapshot.module(path)
    placed = item_at(module.file, offset)
    token = token_at(module.file, offset)
    if placed is None or token is None:
        return None
    text, span = token.text.strip("`"), Span(token.start, token.end)
    if token.kind == "STRING":
        text = token.text.strip('"')
    elif not token.text[0].isidentifier() and token.text[0] != "`":
        return None
    base = Target(text, span, module, placed)
    item = placed.item
    if isinstance(item, tree.Use):
        return _used(base, item, snapshot)
    path_to = node_path(module.file, span.start)
    own = span.shifted(-placed.start)
    if isinstance(item, NAMED) and item.name.span == own:
        return msgspec.structs.replace(base, thing=Found(module, placed))
    if isinstance(item, tree.Program | tree.Intrin):
        return _in_program(base, item, path_to, own)
    return _in_schedule(base, item, path_to, own, offset - placed.start)


def _used(base: Target, item: tree.Use, snapshot: Snapshot) -> Target | None:
    """A name that is imported, or given; else the module of the part of the path up to the word."""
    own = base.span.shifted(-base.placed.start)
    last = item.path[-1:] if item.names is None and item.alias is None else ()
    if any(n.span == own for n in (*(item.names or ()), *(x for x in (item.alias,) if x is not None), *last)):
        return msgspec.structs.replace(base, thing=base.module.find(base.text))
    if item.file is not None:
        source = f'"{item.file.value}"'
    else:
        source = ".".join(n.text for n in item.path if n.span.end <= own.end)
    return msgspec.structs.replace(base, thing=used_module(base.module.path, source, snapshot.read), plain=True)


# ------------------------------------------------------------------ the place of a name in the tree
_PLAIN = (tree.Place, tree.Type, tree.Attribute, tree.Impl, tree.Within, tree.Field, tree.Case)
"""The nodes whose own names are words of the language, of a target or of a fork."""


def _is_plain(around: tuple[tree.Node, ...], own: Span) -> bool:
    """Whether the word is not a name at all, or one of a kind that nothing declares."""
    if not around or not isinstance(around[-1], tree.Name) or around[-1].span != own:
        return True
    parent = around[-2] if len(around) > 1 else None
    return isinstance(parent, _PLAIN) or (isinstance(parent, tree.Fork) and parent.pinned == around[-1])


def _is_text(around: tuple[tree.Node, ...]) -> bool:
    """Whether the word is all of a string that may stand for a name: not a title, and not the reason of a condition."""
    parent = around[-2] if len(around) > 1 else None
    return bool(around) and isinstance(around[-1], tree.String) and not isinstance(parent, _TITLED)


_TITLED = (tree.Test, tree.Require, tree.Check)


def _called(around: tuple[tree.Node, ...]) -> bool:
    """Whether the name is that of a call: `f` of `f(x)` or of `x.f()`."""
    return len(around) > 2 and isinstance(call := around[-3], tree.Call) and call.callee == around[-2]


def _in_program(
    base: Target, item: tree.Program | tree.Intrin, around: tuple[tree.Node, ...], own: Span
) -> Target | None:
    declared = next((n for n in declarations(item) if n.span == own), None)
    if declared is not None:
        return msgspec.structs.replace(base, name=declared)
    parent = around[-2] if len(around) > 1 else None
    keyword = isinstance(parent, tree.Arg) and parent.name == around[-1]
    if keyword or _is_plain(around, own):
        return msgspec.structs.replace(base, plain=not _is_text(around))
    if isinstance(parent, tree.Member) and parent.name == around[-1]:
        whole = dotted_name(parent)
        return msgspec.structs.replace(base, thing=None if whole is None else base.module.find(whole), plain=True)
    found = None if _called(around) else visible(item, own.start).get(base.text)
    if found is not None:
        return msgspec.structs.replace(base, name=found)
    thing = base.module.find(base.text)
    return msgspec.structs.replace(base, thing=thing, plain=thing is None and _called(around))


def _in_schedule(
    base: Target, item: tree.AnyItem, around: tuple[tree.Node, ...], own: Span, offset: int
) -> Target | None:
    """A binder or a mention; a block, buffer or axis of the program; a decision in its address; an item."""
    written = next((w for w in written_addresses(base.module, base.placed) if _within(w.span, own)), None)
    if written is not None:
        part = part_at(base.module, written, offset)
        if part is None:
            return msgspec.structs.replace(base, plain=parts_of(base.module, written) == ())
        span = part.span.shifted(written.span.start + base.placed.start)
        return msgspec.structs.replace(base, text=part.name.text, span=span, program=part.owner, name=part.name)
    binder = next((b for b in binders(base.placed) if b.span == own), None)
    if binder is None and _is_plain(around, own):
        return msgspec.structs.replace(base, plain=not _is_text(around))
    mentions = checked(base.module, base.placed).mentions
    at = next((m for m in mentions if m.span == own), None)
    if binder is not None:
        return msgspec.structs.replace(base, mention=at or Mention(own, base.text, ANY, own, binds=True))
    parent = around[-2] if len(around) > 1 else None
    if isinstance(parent, tree.Arg) and parent.name == around[-1]:
        return _keyword(base, around)
    if isinstance(parent, tree.Member) and parent.name == around[-1]:
        return _member(base, item, parent, _called(around), mentions, at)
    if at is not None and at.bound is not None and not (_called(around) and base.text in OPERATIONS):
        return msgspec.structs.replace(base, mention=at)
    operation = _called(around) and base.text in OPERATIONS
    if not operation and not _in_head(item, parent, own):
        found = _of_program(base, item)
        if found is not None:
            return msgspec.structs.replace(found, mention=at)
    if operation or (isinstance(parent, tree.Ref) and not _called(around) and base.text in _WORDS):
        return msgspec.structs.replace(base, mention=at, plain=True)
    whole = _path_to(item, own)
    thing = base.module.find(base.text if whole is None else whole)
    own_primitive = thing is None and registry_of(base.module).find(base.text) is not None
    return msgspec.structs.replace(base, mention=at, thing=thing, plain=own_primitive)


_WORDS: Mapping[str, object] = {**builtin_names(), "machine": None}


def _in_head(item: tree.AnyItem, parent: tree.Node | None, own: Span) -> bool:
    """Whether a name is that of the program or the target that an item is for, where no block or buffer is meant."""
    target = item.target if isinstance(item, tree.Schedule | tree.Space) else None
    return isinstance(parent, tree.Item) or (target is not None and _within(own, target.span))


def _within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _path_to(item: tree.AnyItem, own: Span) -> str | None:
    """The dotted name that a name of an item's head ends or begins: `m.p` of `schedule s for m.p`."""
    paths: list[tuple[tree.Name, ...]] = []
    match item:
        case tree.Schedule(program=tuple() as path) | tree.Space(program=tuple() as path) | tree.Target(kind=path):
            paths.append(path)
    for path in paths:
        for k, n in enumerate(path):
            if n.span == own:
                return ".".join(x.text for x in path[: k + 1])
    return None


def programs_of(module: Module, item: tree.AnyItem) -> Iterator[Found]:
    """The programs whose blocks, buffers and sizes an item may name: its own; in a test all of the file."""
    if isinstance(item, tree.Test):
        yield from (Found(module, module.items[n]) for n in module.programs)
    elif (program := program_of(module, item)) is not None:
        yield program


def _of_program(base: Target, item: tree.AnyItem) -> Target | None:
    """A block, buffer or size of the program; None if there is none or several are called so."""
    found = [
        (program, n)
        for program in programs_of(base.module, item)
        if isinstance(program.item, tree.Program)
        for n in declarations(program.item)
        if n.text == base.text and n.role in ADDRESSABLE
    ]
    return None if len(found) != 1 else msgspec.structs.replace(base, program=found[0][0], name=found[0][1])


def _keyword(base: Target, around: tuple[tree.Node, ...]) -> Target:
    """The name of an argument: a parameter of the fn, rule or schedule that is called."""
    call = around[-3] if len(around) > 2 else None
    if not isinstance(call, tree.Call):
        return msgspec.structs.replace(base, plain=True)
    callee = call.callee
    last = callee.name.text if isinstance(callee, tree.Ref | tree.Member) else ""
    whole = dotted_name(callee)
    if last in OPERATIONS:
        return msgspec.structs.replace(base, plain=True)
    thing = None if whole is None else base.module.find(whole)
    thing = base.module.find(last) if thing is None else thing
    if not isinstance(thing, Found):
        return msgspec.structs.replace(base, plain=thing is not None or registry_of(base.module).find(last) is not None)
    params = getattr(thing.item, "params", ())
    at = next((p for p in params if p.name.text == base.text), None)
    if at is None:
        return base
    return msgspec.structs.replace(
        base, program=thing, name=Name(base.text, Role.LET, at.name.span, at, thing.item.span)
    )


def _member(
    base: Target,
    item: tree.AnyItem,
    found: tree.Member,
    called: bool,
    mentions: tuple[Mention, ...],
    at: Mention | None,
) -> Target:
    """`x.f` of a call, an axis of a block, an item of a module."""
    whole = dotted_name(found)
    thing = None if whole is None else base.module.find(whole)
    head = _head(found)
    local = head is not None and any(m.span == head.span and m.bound is not None for m in mentions)
    if thing is not None and not local:
        return msgspec.structs.replace(base, mention=at, thing=thing)
    if called:
        thing = None if base.text in OPERATIONS else base.module.find(base.text)
        return msgspec.structs.replace(base, mention=at, thing=thing, plain=thing is None)
    if head is None or not isinstance(found.base, tree.Ref):
        return base
    if not local:
        axis = _axis(base, item, head.text)
        if axis is not None:
            return axis
        known = base.module.find(head.text)
        inside = member(known, base.text) if isinstance(known, Whole) else None
        return msgspec.structs.replace(
            base, mention=at, thing=inside, plain=head.text in _WORDS or isinstance(known, Found)
        )
    head_mention = next(m for m in mentions if m.span == head.span)
    if head_mention.value.kind not in (Kind.BLOCK, Kind.ANY):
        return msgspec.structs.replace(base, mention=at, plain=True)
    of = _origin(base, item, head_mention.bound)
    axis = None if of is None else _axis(base, item, of)
    return _derived_axis(base, item, at) if axis is None else msgspec.structs.replace(axis, mention=at)


def _origin(base: Target, item: tree.AnyItem, bound: Span | None) -> str | None:
    """The block of the program whose axes a handle's block has under their names: `zero` of
    `let zero = mm.decompose_reduction(k)`. None if it is not known."""
    let = next((n for n in nodes(item) if isinstance(n, tree.Let) and any(b.span == bound for b in n.binders)), None)
    match let:
        case tree.Let(
            binders=(_,),
            value=tree.Call(callee=tree.Member(base=tree.Ref(name=block), name=tree.Name(text="decompose_reduction"))),
        ):
            mention = next((m for m in checked(base.module, base.placed).mentions if m.span == block.span), None)
            return block.text if mention is not None and mention.bound is None else None
    return None


def _head(e: tree.Expr) -> tree.Name | None:
    while isinstance(e, tree.Member):
        e = e.base
    return e.name if isinstance(e, tree.Ref) else None


def _axis(base: Target, item: tree.AnyItem, block: str) -> Target | None:
    """The axis of a block of the program."""
    found = [
        (p, n)
        for p in programs_of(base.module, item)
        if isinstance(p.item, tree.Program)
        for n in declarations(p.item)
        if n.text == base.text and n.block == block
    ]
    return None if len(found) != 1 else msgspec.structs.replace(base, program=found[0][0], name=found[0][1])


def _derived_axis(base: Target, item: tree.AnyItem, at: Mention | None) -> Target:
    """An axis of a block that an operation made. It is called like the axis or the loop that it stands for; where more
    than one has that name, it is not known which."""
    axes = [
        (p, n)
        for p in programs_of(base.module, item)
        if isinstance(p.item, tree.Program)
        for n in declarations(p.item)
        if n.text == base.text and n.role is Role.AXIS
    ]
    lets = [b for b in binders(base.placed) if b.text == base.text]
    match axes, lets:
        case [(program, name)], []:
            return msgspec.structs.replace(base, program=program, name=name, mention=at)
        case [], [binder]:
            value = ANY if at is None else at.value
            return msgspec.structs.replace(base, mention=Mention(base.span, base.text, value, binder.span))
        case [], [] if at is not None:
            return msgspec.structs.replace(base, mention=at)
    return msgspec.structs.replace(base, mention=at)
