"""Debug locations: which statement of the kernel an instruction comes from."""

from __future__ import annotations

import msgspec

from mslang.brevity import brief
from mslang.ir.origins import Origin, places
from mslang.kernel.nodes import Atomic, Evaluate, For, If, Invoke, Prefetch, Stmt, Store, While
from mslang.kernel.print import print_body
from mslang.kernel.visit import walk

LONGEST = 72
"""Characters of a statement that are shown."""

_FIRST = 1 << 20
"""The number of the first metadata node: above those of everything else."""


class SourceLine(msgspec.Struct, frozen=True):
    """A statement of the lowered kernel: the loops around it, outermost first, and its text. Of a loop, `loops` ends
    with its own variable. `place` is where the block is written that it comes from; empty if that is not known."""

    loops: tuple[str, ...]
    text: str
    place: str = ""


class SourceLines:
    """The statements of a kernel as lines of an imaginary file, for LLVM's debug metadata.

    Line `n` of the metadata is `lines[n - 1]`.

    Source: LLVM, Source Level Debugging; Language Reference, DILocation.
    """

    def __init__(self, origins: tuple[Origin, ...] = ()) -> None:
        self._origins = origins
        self.lines: list[SourceLine] = []
        self._numbers: dict[SourceLine, int] = {}
        self._nodes: list[str] = []
        self._file = self._node('!DIFile(filename: "kernel", directory: "")')
        language = "language: DW_LANG_C, emissionKind: LineTablesOnly, isOptimized: true"
        self._unit = self._node(f"distinct !DICompileUnit({language}, file: {self._file})")
        self._version = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        types = self._node("!{null}")
        self._type = self._node(f"!DISubroutineType(types: {types})")
        self._places: dict[tuple[str, int], str] = {}

    def function(self, name: str) -> str:
        """The metadata of a function."""
        what = f'name: "{name}", file: {self._file}, line: 0, type: {self._type}, unit: {self._unit}'
        return self._node(f"distinct !DISubprogram({what}, spFlags: DISPFlagDefinition)")

    def place(self, function: str, loops: tuple[str, ...], s: Stmt) -> str | None:
        """The location of a statement in a function, which is given by its metadata; None if it is not a line."""
        if not isinstance(s, Store | Evaluate | Invoke | Atomic | Prefetch | For | If | While):
            return None
        text = print_body((s,)).partition("\n")[0].removesuffix(" {")
        line = SourceLine(
            (*loops, s.var) if isinstance(s, For) else loops, brief(text, LONGEST), self._written(loops, s)
        )
        number = self._numbers.get(line)
        if number is None:
            self.lines.append(line)
            number = self._numbers[line] = len(self.lines)
        key = (function, number)
        if key not in self._places:
            self._places[key] = self._node(f"!DILocation(line: {number}, scope: {function})")
        return self._places[key]

    def _written(self, loops: tuple[str, ...], s: Stmt) -> str:
        """Where the block is written that a statement comes from, if it stores anything."""
        found = (places(self._origins, loops, buffer) for buffer in _stored(s))
        return ", ".join(dict.fromkeys(place for each in found for place in each))

    def text(self) -> list[str]:
        """The metadata, once all is written."""
        nodes = [f"!{_FIRST + k} = {text}" for k, text in enumerate(self._nodes)]
        return [*nodes, f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{self._version}}}"]

    def _node(self, text: str) -> str:
        self._nodes.append(text)
        return f"!{_FIRST + len(self._nodes) - 1}"


def _stored(s: Stmt) -> tuple[str, ...]:
    """What a statement stores to, apart from statements inside."""
    match s:
        case Store(buffer=buffer) | Atomic(buffer=buffer):
            return (buffer,)
        case Invoke(meaning=meaning):
            return tuple(dict.fromkeys(x.buffer for x in walk(meaning) if isinstance(x, Store)))
    return ()
