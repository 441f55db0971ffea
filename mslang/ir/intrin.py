"""Intrinsics: what an instruction means, where it exists, and how it is written for back ends.

A program that uses an intrinsic carries all of it: the block keeps the meaning as its body, with the operands as its
last views, and an annotation that names the intrinsic; the program's annotations hold the back ends' texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import SCALARS
from mslang.ir.expr import Const
from mslang.ir.print import print_program
from mslang.ir.program import AttrValue, Block, Program
from mslang.syntax.literals import quote

KEY = "intrin"
"""The annotation of a block that is an intrinsic: its name. `intrin.<name>`, of the program, describes it."""

PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)(?:\.(stride(\d*))|\[(\d+(?:, *\d+)*)\])?\}")
"""`{a}`, `{a.stride}`, `{a.stride1}`, `{a[8, 0]}` in the text of an implementation."""


_SHARED = re.compile(rf"#shared (\w+)\[([1-9]\d*)\] ({'|'.join(SCALARS)})")


class Scratch(msgspec.Struct, frozen=True):
    """`#shared name[count] dtype` in a CUDA text: elements in shared memory that each thread which runs the text has to
    itself, as `{name}`. What they hold at its start is not defined."""

    name: str
    count: int
    dtype: str


def scratch_of(text: str) -> tuple[Scratch, ...]:
    """The scratch memory that a text declares.

    >>> scratch_of("#shared arrived[1] u64")
    (Scratch(name='arrived', count=1, dtype='u64'),)
    """
    if "#shared" not in text:
        return ()
    found = (_SHARED.fullmatch(line.strip()) for line in text.split("\n"))
    return tuple(Scratch(m[1], int(m[2]), m[3]) for m in found if m is not None)


def has_barrier(text: str) -> bool:
    """Whether a text declares, by `#barrier`, that all threads of a block wait in it for one another."""
    return any(line.strip() == "#barrier" for line in text.split("\n")) if "#barrier" in text else False


class Guard(msgspec.Struct, frozen=True):
    """`on kind(condition, …)`: the kind of target that has the instruction, and what it must have besides."""

    kind: str
    conditions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As it is written."""
        return self.kind + (f"({', '.join(self.conditions)})" if self.conditions else "")


class Intrin(msgspec.Struct, frozen=True):
    """An intrinsic. `desc` is its meaning, `program` an implementation as a program, `texts` those of back ends.

    `address` is how a module finds it (`std.cpu.dot.u8s8_vnni`); empty for one that was given as text.
    """

    name: str
    desc: Program
    guard: Guard | None = None
    program: Program | None = None
    texts: tuple[tuple[str, str], ...] = ()
    address: str = ""

    @property
    def text(self) -> str:
        """A complete `intrin` item."""
        head = print_program(self.desc).split("\n")
        end = next(k for k, line in enumerate(head) if line.endswith(") {"))
        first = "\n".join((*head[:end], head[end][: -len(" {")])).replace("program", "intrin", 1)
        on = f" on {self.guard.text}" if self.guard is not None else ""
        impls = [] if self.program is None else [f"impl {{\n{_body(self.program)}\n}}"]
        impls += [f"impl {backend} {quote(text)}" for backend, text in self.texts]
        return f"{first}{on} {{\ndesc {{\n{_body(self.desc)}\n}}\n" + "\n".join(impls) + "\n}\n"


def _body(p: Program) -> str:
    lines = print_program(p).rstrip("\n").split("\n")
    start = next(k for k, line in enumerate(lines) if line.endswith(") {"))
    return "\n".join(lines[start + 1 : -1])


class Formal(msgspec.Struct, frozen=True):
    """What an instruction relies on of an operand: its element type, and its strides (none: the last is 1)."""

    name: str
    dtype: str
    strides: tuple[int, ...] = ()


class Recorded(msgspec.Struct, frozen=True):
    """What a program carries of an intrinsic that it uses. `emulated`: the block's body may run in its place."""

    name: str
    params: tuple[Formal, ...]
    guard: Guard | None
    emulated: bool
    texts: Mapping[str, str]


def with_record(program: Program, intrin: Intrin) -> tuple[Program, str]:
    """The program with what it must carry of an intrinsic, and the name that stands for it there."""
    guard = () if intrin.guard is None else (intrin.guard.kind, *intrin.guard.conditions)
    params = tuple(
        (b.name, b.dtype, tuple(int(x.value) for x in b.strides or () if isinstance(x, Const)))
        for b in (p.buffer for p in intrin.desc.params)
    )
    value: AttrValue = (params, guard, intrin.program is not None, *((b, t) for b, t in intrin.texts))
    notes = dict(program.annotations)
    name, k = intrin.name, 0
    while notes.get(f"{KEY}.{name}", value) != value:
        k += 1
        name = f"{intrin.name}_{k}"
    if f"{KEY}.{name}" in notes:
        return program, name
    return replace(program, annotations=(*program.annotations, (f"{KEY}.{name}", value))), name


def recorded(program: Program) -> dict[str, Recorded]:
    """The intrinsics that a program carries, by the names that its blocks use."""
    found: dict[str, Recorded] = {}
    for key, value in program.annotations:
        prefix, _, name = key.partition(".")
        if prefix != KEY or not name:
            continue
        match value:
            case (tuple() as params, tuple() as guard, bool() as emulated, *texts):
                kind = Guard(str(guard[0]), tuple(str(c) for c in guard[1:])) if guard else None
                written = {str(t[0]): str(t[1]) for t in texts if isinstance(t, tuple) and len(t) == 2}
                found[name] = Recorded(name, tuple(_formal(p) for p in params), kind, emulated, written)
    return found


def _formal(value: AttrValue) -> Formal:
    match value:
        case (str() as name, str() as dtype, tuple() as strides):
            return Formal(name, dtype, tuple(x for x in strides if isinstance(x, int)))
    raise MsError(problem("MS419", f"an operand of an instruction is recorded as {value!r}, which names no operand"))


def intrin_of(block: Block) -> str | None:
    """The name of the intrinsic that a block is, if it is one."""
    value = dict(block.annotations).get(KEY)
    return value if isinstance(value, str) else None
