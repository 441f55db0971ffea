"""Go to definition: where the name at the cursor is declared, in this file, in one it uses, or in the library."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import Span
from mslang.ide.declarations import Name, Role, declarations, visible
from mslang.ide.findings import checked
from mslang.ide.imports import used_module
from mslang.ide.snapshot import Snapshot
from mslang.ide.static import program_of
from mslang.ops.infos import info_of
from mslang.schedule.check import Mention
from mslang.sema.module import Found, Module, Thing, Whole, member
from mslang.syntax import tree
from mslang.syntax.query import item_at, node_path, token_at

__all__ = ["Location", "Target", "definition", "target_at"]


class Location(msgspec.Struct, frozen=True):
    """A place in a file; offsets count from the file's start."""

    path: str
    span: Span


class Target(msgspec.Struct, frozen=True, eq=False):
    """The meaning of the word at the cursor: its place in the file, and one of: a declaration in a program (with the
    program), a mention in a schedule, an item."""

    text: str
    span: Span
    module: Module
    placed: tree.PlacedItem
    program: Found | None = None
    name: Name | None = None
    mention: Mention | None = None
    thing: Thing | None = None


def definition(snapshot: Snapshot, path: str, offset: int) -> Location | None:
    """Where the name at an offset is declared; None if it is not declared in any file.

    Raises:
        MsError: the file cannot be read.
    """
    target = target_at(snapshot, path, offset)
    if target is None:
        return None
    if target.mention is not None and target.mention.bound is not None:
        return Location(path, target.mention.bound.shifted(target.placed.start))
    if target.name is not None:
        owner = target.program
        home, start = (path, target.placed.start) if owner is None else (owner.module.path, owner.placed.start)
        return Location(home, target.name.span.shifted(start))
    if target.thing is None:
        return None
    known = info_of(target.thing, target.text)
    return None if known.path is None else Location(known.path, known.span or Span(0, 0))


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
    match item:
        case tree.Use():
            return _used(base, item, snapshot)
        case tree.Program() | tree.Intrin():
            return _in_program(base, item, offset - placed.start)
    return _in_schedule(base, item, span.shifted(-placed.start))


def _used(base: Target, item: tree.Use, snapshot: Snapshot) -> Target | None:
    names = {n.text for n in item.names or ()}
    if base.text in names or (item.alias is not None and item.alias.text == base.text):
        return msgspec.structs.replace(base, thing=base.module.find(base.text))
    source = f'"{item.file.value}"' if item.file is not None else ".".join(n.text for n in item.path)
    return msgspec.structs.replace(base, thing=used_module(base.module.path, source, snapshot.read))


def _in_program(base: Target, item: tree.Program | tree.Intrin, offset: int) -> Target | None:
    own = next((n for n in declarations(item) if n.span.start <= offset <= n.span.end), None)
    found = own or visible(item, offset).get(base.text)
    if found is not None:
        return msgspec.structs.replace(base, name=found)
    return msgspec.structs.replace(base, thing=base.module.find(base.text))


def _in_schedule(base: Target, item: tree.AnyItem, span: Span) -> Target | None:
    """A binder or a mention; a block, buffer or axis of the program; an item."""
    program = program_of(base.module, item)
    path = node_path(base.module.file, base.span.start)
    member_of = next((n for n in reversed(path) if isinstance(n, tree.Member) and n.name.span == span), None)
    if member_of is not None and isinstance(member_of.base, tree.Ref):
        axis = _axis(base, program, member_of.base.name.text)
        if axis is not None:
            return axis
        whole = base.module.find(member_of.base.name.text)
        inside = member(whole, base.text) if isinstance(whole, Whole) else None
        if inside is not None:
            return msgspec.structs.replace(base, thing=inside)
    pin = next((n for n in reversed(path) if isinstance(n, tree.Pin)), None)
    if pin is not None and pin.span.start == span.start:
        return _pinned(base, item)
    mentions = checked(base.module, base.placed).mentions
    at = next((m for m in mentions if m.span == span), None)
    # A parameter, a case or a size is bound but not mentioned where it is written.
    at = at or next((m for m in mentions if m.bound == span), None)
    if at is not None and (at.binds or at.bound is not None):
        return msgspec.structs.replace(base, mention=at)
    if program is not None and member_of is None:
        assert isinstance(program.item, tree.Program)
        name = next((n for n in declarations(program.item) if n.text == base.text and n.block is None), None)
        if name is not None:
            return msgspec.structs.replace(base, program=program, name=name, mention=at)
    thing = base.module.find(base.text) if member_of is None else None
    return msgspec.structs.replace(base, mention=at, thing=thing)


def _axis(base: Target, program: Found | None, block: str) -> Target | None:
    if program is None or not isinstance(program.item, tree.Program):
        return None
    name = next((n for n in declarations(program.item) if n.text == base.text and n.block == block), None)
    return None if name is None else msgspec.structs.replace(base, program=program, name=name)


def _pinned(base: Target, item: tree.AnyItem) -> Target | None:
    """The decision of the schedule that a pin is for."""
    if not isinstance(item, tree.Schedule) or item.source is None:
        return None
    callee = item.source.callee if isinstance(item.source, tree.Call) else item.source
    source = base.module.find(callee.name.text) if isinstance(callee, tree.Ref) else None
    if not isinstance(source, Found) or not isinstance(source.item, tree.Schedule) or source.item.body is None:
        return None
    name = _decision(source.item.body, base.text)
    return None if name is None else msgspec.structs.replace(base, program=source, name=name)


def _decision(body: tree.Body, address: str) -> Name | None:
    for s in body.statements:
        match s:
            case tree.Sample(name=name) if address == (name.text if s.address is None else s.address.value):
                return Name(address, Role.LET, name.span, s, body.span)
            case tree.Fork(name=tree.Name() as name) if name.text == address:
                return Name(address, Role.LET, name.span, s, body.span)
            case tree.Fork(cases=cases):
                inner = next(
                    (n for c in cases if isinstance(c, tree.Case) if (n := _decision(c.body, address)) is not None),
                    None,
                )
                if inner is not None:
                    return inner
    return None
