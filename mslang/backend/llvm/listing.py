"""Machine code for people: without directives, each instruction next to the statement that it comes from and the
line of its block, and what an iteration of each innermost loop costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from mslang.backend.llvm.source_lines import SourceLine
from mslang.backend.llvm.throughput import estimate
from mslang.target.description import Target

COLUMN = 56
"""Where the statements stand."""

_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_LABEL = re.compile(r"([\w.$\"]+):")
_JUMP = re.compile(r"(?:j\w+|b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+(\.\w+)$")
_SECTION = re.compile(r"\s*\.(?:section|text|data|bss)\b")


class Instruction(msgspec.Struct, frozen=True):
    """An instruction, with the number of its statement (0: none); or a label, which ends with a colon."""

    text: str
    line: int = 0

    @property
    def is_label(self) -> bool:
        """Whether it is a label."""
        return self.text.endswith(":")


class InnerLoop(msgspec.Struct, frozen=True):
    """A loop without another inside: from its label, at `first`, to the jump back, at `last`."""

    first: int
    last: int


def listing(assembly: str, lines: Sequence[SourceLine], target: Target) -> str:
    """The functions of an assembly text, commented; ends with a newline.

    Args:
        assembly: what LLVM prints, with `.loc` directives for the statements.
        lines: the statements.
        target: the machine.
    """
    code = tuple(instructions(assembly))
    heads = {x.first: x for x in innermost(code)}
    out: list[str] = []
    shown, place = 0, ""
    for k, x in enumerate(code):
        if k in heads:
            inner = heads[k]
            out += ["", *_head(code, inner, lines, target)]
        if x.is_label:
            out += [x.text] if x.text.startswith(".") else ["", x.text]
            shown, place = 0, ""
            continue
        statement = lines[x.line - 1] if 0 < x.line <= len(lines) and x.line != shown else None
        note = "" if statement is None else _note(statement, place)
        shown, place = x.line, place if statement is None else statement.place or place
        text = "    " + x.text.replace("\t", " ")
        out.append(f"{text.ljust(COLUMN - 1)} # {note}" if note else text)
    return "\n".join(out).strip("\n") + "\n"


def instructions(assembly: str) -> Iterator[Instruction]:
    """The labels and instructions of the functions, directives and data left out."""
    line, in_code = 0, True
    for raw in assembly.splitlines():
        located = _LOCATION.match(raw)
        text = raw.partition("#")[0].strip()
        if located is not None:
            line = int(located[1])
        elif _SECTION.match(raw):
            in_code = text.startswith(".text") or ".text" in text
        elif _LABEL.fullmatch(text):
            if in_code and not text.startswith((".Lfunc_", ".Ltmp")):
                line = line if text.startswith(".") else 0
                yield Instruction(text)
        elif text and in_code and not text.startswith("."):
            yield Instruction(text, line)


def innermost(code: Sequence[Instruction]) -> list[InnerLoop]:
    """The loops that have no other inside: from a label to the last jump back to it."""
    places = {x.text[:-1]: k for k, x in enumerate(code) if x.is_label}
    ends: dict[int, int] = {}
    for k, x in enumerate(code):
        jump = _JUMP.match(x.text)
        if jump and places.get(jump[1], k) < k:
            ends[places[jump[1]]] = k
    return [
        InnerLoop(first, last)
        for first, last in ends.items()
        if not any(first < other and end <= last for other, end in ends.items())
    ]


def _head(code: Sequence[Instruction], loop: InnerLoop, lines: Sequence[SourceLine], target: Target) -> Iterator[str]:
    """What is said above an innermost loop: where it stands, and what an iteration costs."""
    known = [lines[x.line - 1] for x in code[loop.first : loop.last + 1] if 0 < x.line <= len(lines)]
    around = _loops(known)
    places = ", ".join(dict.fromkeys(s.place for s in known if s.loops == around and s.place))
    yield f"# innermost loop{': ' + ' > '.join(around) if around else ''}{f' ({places})' if places else ''}"
    body = [x.text for x in code[loop.first + 1 : loop.last + 1]]
    yield from (f"#   {said}" for said in estimate(body, target))


def _loops(statements: Sequence[SourceLine]) -> tuple[str, ...]:
    """The loops of the kernel around all statements of a loop of the code."""
    known = [s.loops for s in statements]
    # Addresses of what stands outside may be computed inside: most statements decide.
    return max(known, key=lambda loops: (known.count(loops), len(loops)), default=())


def _note(statement: SourceLine, before: str) -> str:
    """A statement as it stands beside its instructions, after the line of its block unless that was shown before."""
    named = statement.place and statement.place != before
    return f"{statement.place}: {statement.text}" if named else statement.text
