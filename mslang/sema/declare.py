"""The names that a program declares: claimed once, each with its span, and what is written so far."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from mslang.diagnostics import Diagnostic, MsError, Note, Span
from mslang.ir.program import Buffer
from mslang.ir.visit import fresh
from mslang.sema.buffers import buffer
from mslang.sema.report import failure
from mslang.sema.scope import Broken, BufferName, Meaning, Scope, SizeName, Variable
from mslang.syntax import tree


class Declarations:
    """What is declared in one program while it is made.

    Names of buffers, blocks and loops are unique in a program; a second loop of a name gets a number.
    `written` holds, for each buffer, the first block that writes it; `scopes`, for each block, every name that its body
    has anywhere.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.blocks: dict[str, Span] = {}
        self.loops: dict[str, Span] = {}
        self.buffers: dict[str, Span] = {}
        self.axes: dict[tuple[str, str], Span] = {}
        self.types: dict[str, Buffer] = {}
        self.written: dict[str, Span] = {}
        self.scopes: dict[str, Scope] = {}
        self.complete = True
        self._taken: set[str] = set(reserved)

    def report(self, error: MsError) -> None:
        """Keep what was found; the program lacks what could not be made."""
        self.complete = False
        self.diagnostics.extend(error.diagnostics)

    def buffer(
        self,
        name: tree.Name,
        type: tree.Type,
        scope: Scope,
        direction: str,
        view_of: BufferName | None = None,
    ) -> tuple[Scope, Buffer | None]:
        """The scope with a buffer in it, and the buffer (None if its declaration is faulty, which is reported)."""
        meaning: Meaning = Broken()
        made = None
        try:
            made = buffer(name, type, scope, "global" if view_of is None else view_of.buffer.scope)
            self.claim(name, scope)
            meaning = BufferName(made, direction, made.name if view_of is None else view_of.root)
            self.types[made.name] = made
            self.buffers[made.name] = name.span
        except MsError as e:
            self.report(e)
        return scope.with_name(name.text, meaning, name.span), made

    def block(self, name: tree.Name, scope: Scope) -> None:
        """Declare a block."""
        try:
            self.claim(name, scope)
        except MsError as e:
            self.report(e)
        self.blocks[name.text] = name.span

    def loop(self, name: tree.Name) -> str:
        """Declare a loop; its variable's name in the program."""
        var = fresh(name.text, self._taken)
        self._taken.add(var)
        self.loops[var] = name.span
        return var

    def claim(self, name: tree.Name, scope: Scope) -> None:
        """Refuse a name that another block or buffer of the program has, or that has a meaning here."""
        before = self.buffers.get(name.text) or self.blocks.get(name.text)
        if before is not None:
            raise failure(
                "MS102",
                name,
                f"`{name.text}` is declared twice",
                why="names of buffers and blocks are unique in a program",
                notes=(Note("first declared here", before),),
            )
        refuse_shadow(name, scope)
        self._taken.add(name.text)

    def see(self, scope: Scope) -> None:
        """Remember the names of a scope for the block it is in."""
        if scope.block is not None:
            before = self.scopes.get(scope.block, scope)
            self.scopes[scope.block] = Scope(MappingProxyType({**before.names, **scope.names}), scope.block)

    def root(self, name: str, scope: Scope) -> str:
        """The buffer that `name` is, or views at last."""
        meaning = scope.get(name)
        return meaning.root if isinstance(meaning, BufferName) else name

    def writer(self, name: str, scope: Scope) -> Span | None:
        """The first block so far that writes a buffer."""
        return self.written.get(self.root(name, scope))

    def write(self, names: Iterable[str], scope: Scope, by: Span) -> None:
        """Record that a block writes buffers."""
        for name in names:
            self.written.setdefault(self.root(name, scope), by)


def refuse_shadow(name: tree.Name, scope: Scope, allowed: tuple[str, ...] = ()) -> None:
    """Refuse a name that already means something at a place; variables of the `allowed` roles may be hidden."""
    declared = scope.names.get(name.text)
    if declared is None:
        return
    match declared.meaning:
        case Variable(role=role):
            if role in allowed:
                return
            what = "an axis" if role == "axis" else f"a {role}"
        case BufferName():
            what = "a buffer"
        case SizeName():
            what = "a size"
        case _:
            return
    notes = () if declared.span is None else (Note("declared here", declared.span),)
    raise failure("MS103", name, f"`{name.text}` is already {what} here", notes=notes, help="choose another name")
