"""Hover: an explanation of the word at the cursor."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import MsError, Span
from mslang.ide.declarations import BUFFERS, Name, Role
from mslang.ide.dynamic_size import explained, size_facts
from mslang.ide.facts import block_facts, buffer_facts, loop_facts
from mslang.ide.findings import findings
from mslang.ide.pages import code_page, operation_page
from mslang.ide.program_at import ProgramAt
from mslang.ide.snapshot import Snapshot
from mslang.ide.target import Target, target_at
from mslang.ir.functions import FUNCTIONS
from mslang.ir.program import Program
from mslang.ops.infos import info_of
from mslang.ops.signature import Group, Kind
from mslang.schedule.check.kinds import describe
from mslang.sema.program import consts_of, elaborated
from mslang.syntax import tree
from mslang.syntax.query import item_at, node_path
from mslang.transform.registries import registry_of


class Hover(msgspec.Struct, frozen=True):
    """Markdown, and the word that it explains. `runs` means that running the schedule gives more facts: pass the
    `ProgramAt` of this place to `with_run`."""

    span: Span
    text: str
    name: str
    runs: bool = False


def hover(snapshot: Snapshot, path: str, offset: int) -> Hover | None:
    """The explanation of the word at an offset, or None.

    Raises:
        MsError: the file cannot be read.
    """
    target = target_at(snapshot, path, offset)
    faults = _faults(snapshot, path, offset)
    if target is None:
        called = _function(snapshot, path, offset) if faults is None else None
        return called if faults is None else Hover(faults[0], faults[1], "")
    text = "\n\n".join(x for x in (_operation(target) or _text(target), "" if faults is None else faults[1]) if x)
    if not text:
        return _function(snapshot, path, offset)
    kind = None if target.mention is None else target.mention.value.kind
    runs = (
        target.mention is not None
        and target.mention.bound is not None
        and kind in (Kind.LOOP, Kind.BLOCK, Kind.TILE, Kind.SIZE, Kind.VALUES, Kind.ANY)
    )
    return Hover(target.span, text, target.text, runs)


def with_run(found: Hover, answer: ProgramAt | None) -> Hover:
    """The hover with facts about a handle or a decision from a run of the schedule."""
    if answer is None:
        return found
    lines = [f"{'consumed here' if h.text == 'consumed' else h.text}" for h in answer.handles if h.name == found.name]
    for d in answer.decisions:
        if d.address == found.name:
            lines.append(f"decision `{d.address}` ~ {d.text}\n\nthis draw: `{d.value}`")
    return found if not lines else msgspec.structs.replace(found, text="\n\n".join((*lines, found.text)))


def _faults(snapshot: Snapshot, path: str, offset: int) -> tuple[Span, str] | None:
    """The explanations of the diagnostics at an offset, and the span of the first."""
    found = {
        d.code: d.span
        for d in findings(snapshot.module(path))
        if d.span is not None and d.path == path and d.span.start <= offset <= d.span.end
    }
    pages = {code: page for code in found if (page := code_page(code)) is not None}
    if not pages:
        return None
    texts = (f"**{code}**: {page.title}\n\n{_first_paragraph(page.text)}" for code, page in pages.items())
    return found[next(iter(pages))], "\n\n".join(texts)


def _first_paragraph(page: str) -> str:
    return page.split("\n\n")[1] if "\n\n" in page else ""


def _function(snapshot: Snapshot, path: str, offset: int) -> Hover | None:
    """A function of programs where it is called, or `dyn` in the declaration of a size."""
    file = snapshot.module(path).file
    placed = item_at(file, offset)
    nodes = node_path(file, offset)
    if placed is None or not nodes or not isinstance(nodes[0], tree.Program | tree.Intrin):
        return None
    if (size := explained(nodes, offset - placed.start)) is not None:
        return Hover(size[0].shifted(placed.start), size[1], "dyn")
    for call in nodes:
        match call:
            case tree.Call(callee=tree.Ref(name=tree.Name(text=text, span=span))) if text in FUNCTIONS:
                if span.start <= offset - placed.start <= span.end:
                    f = FUNCTIONS[text]
                    args = ("y, x" if text == "atan2" else "x, y") if f.arity == 2 else "x"
                    gives = "a bool" if f.truth else "the same type"
                    body = f"```mslang\n{text}({args})\n```\n\n{f.summary}\n\nof {f.domain}, gives {gives}"
                    return Hover(span.shifted(placed.start), body, text)
    return None


def _operation(target: Target) -> str:
    """An operation where it is called."""
    registry = registry_of(target.module)
    signature = registry.find(target.text)
    bound = target.mention is not None and target.mention.bound is not None
    if signature is None or target.name is not None or bound:
        return ""
    path = node_path(target.module.file, target.span.start)
    called = any(isinstance(n, tree.Call) for n in path)
    if not called and signature.group is not Group.SAMPLER:
        return ""
    page = operation_page(target.text, registry)
    return "" if page is None else page.text.partition("\n\n")[2]


def _text(target: Target) -> str:
    if target.name is not None:
        return _declared(target, target.name)
    if target.thing is not None:
        known = info_of(target.thing, target.text)
        return f"```mslang\n{known.header}\n```" + (f"\n\n{known.doc}" if known.doc else "")
    if target.mention is not None:
        value = target.mention.value
        length = f" of {value.length}" if value.length is not None else ""
        return f"`{target.text}`: {describe(value)}{length}"
    return ""


def _declared(target: Target, name: Name) -> str:
    if isinstance(name.node, tree.Sample | tree.Fork):
        return f"decision `{name.text}`"
    owner = target.program
    module, placed = (target.module, target.placed) if owner is None else (owner.module, owner.placed)
    program = None
    if isinstance(placed.item, tree.Program):
        try:
            program = elaborated(placed.item, (), consts_of(module, placed.item)).program
        except MsError:
            program = None
    return (_facts(program, name) if program is not None else "") or f"{name.role.value} `{name.text}`"


def _facts(program: Program, name: Name) -> str:
    match name.role:
        case role if role in BUFFERS:
            buffer = buffer_facts(program, name.text)
            return "" if buffer is None else buffer.text
        case Role.BLOCK:
            block = block_facts(program, name.text)
            return "" if block is None else block.text
        case Role.LOOP:
            loop = loop_facts(program, name.text)
            return "" if loop is None else loop.text
        case Role.AXIS:
            return _axis(program, name)
        case Role.SIZE:
            return size_facts(program, name.text)
    return ""


def _axis(program: Program, name: Name) -> str:
    block = block_facts(program, name.block or "")
    mine = () if block is None else tuple(a for a in block.axes if a.startswith(f"`{name.text}:"))
    return f"axis {mine[0]} of block `{name.block}`" if mine else ""
