"""Implementations of instructions in CUDA text: statements, and lines that say what else they need.

`#include <mma.h>` names a header. `#fragment dst[16, 16] TYPE` says how an operand in a fragment's scope is held: one
`TYPE` for each 16 by 16 elements of the buffer. A `TYPE` that ends in `[4]` is an array: the registers of one thread.
`#aligned src 16` says that an operand, and each of its rows, begins at a multiple of 16 bytes, `#contiguous src[8, 8]`
that there is nothing between the last 8 by 8 elements. `#shared word[1] u64` asks for an element in shared memory that
each thread which runs the text has to itself; lowering makes it an operand. `#barrier` says that all threads of the
block wait in the text for one another.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.intrin import has_barrier, scratch_of

_INCLUDE = re.compile(r"#include <([\w./]+)>")
_FRAGMENT = re.compile(r"#fragment (\w+)\[([\d, ]+)\] (.+)")
_ALIGNED = re.compile(r"#aligned (\w+) (\d+)")
_CONTIGUOUS = re.compile(r"#contiguous (\w+)\[([\d, ]+)\]")


class FragmentType(msgspec.Struct, frozen=True):
    """How the tiles of an operand are held: `type` for each `tile` of elements."""

    tile: tuple[int, ...]
    type: str

    def declared(self, name: str, count: int) -> str:
        """The declaration of so many of them."""
        element, bracket, registers = self.type.partition("[")
        return f"{element.rstrip()} {name}[{count}]{bracket}{registers};"


class CudaText(msgspec.Struct, frozen=True):
    """A text taken apart: its headers, the types of its fragments by operand, the bytes to which operands are aligned,
    the tiles of operands that are in one piece, and its statements."""

    headers: tuple[str, ...]
    fragments: dict[str, FragmentType]
    aligned: dict[str, int]
    contiguous: dict[str, tuple[int, ...]]
    statements: str


@lru_cache(maxsize=256)
def read_text(name: str, text: str) -> CudaText:
    """The text of the instruction `name`, taken apart.

    Raises:
        MsError: MS441, a line begins with `#` and is none of those that a text may have.
    """
    headers: list[str] = []
    fragments: dict[str, FragmentType] = {}
    aligned: dict[str, int] = {}
    contiguous: dict[str, tuple[int, ...]] = {}
    rest: list[str] = []
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped.startswith("#"):
            rest.append(line)
        elif (header := _INCLUDE.fullmatch(stripped)) is not None:
            headers.append(header[1])
        elif (found := _FRAGMENT.fullmatch(stripped)) is not None:
            fragments[found[1]] = FragmentType(_numbers(found[2]), found[3].strip())
        elif (bytes_ := _ALIGNED.fullmatch(stripped)) is not None:
            aligned[bytes_[1]] = int(bytes_[2])
        elif (piece := _CONTIGUOUS.fullmatch(stripped)) is not None:
            contiguous[piece[1]] = _numbers(piece[2])
        elif scratch_of(stripped) or has_barrier(stripped):
            continue
        else:
            raise MsError(
                problem(
                    "MS441",
                    f"the text of `{name}` has the line `{stripped}`",
                    why="only lines `#include <header>`, `#fragment operand[n, m] type`, `#aligned operand bytes`, "
                    "`#contiguous operand[n, m]`, `#shared name[n] dtype` and `#barrier` begin with `#`",
                )
            )
    return CudaText(tuple(headers), fragments, aligned, contiguous, "\n".join(rest).strip("\n"))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(","))
