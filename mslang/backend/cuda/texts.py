"""Implementations of instructions in CUDA text: statements, and lines that say what else they need.

`#include <mma.h>` names a header. `#fragment dst[16, 16] TYPE` says how an operand in a fragment's scope is held: one
`TYPE` for each 16 by 16 elements of the buffer. A `TYPE` that ends in `[4]` is an array: the registers of one thread.
`#aligned src 16` says that an operand, and each of its rows, begins at a multiple of 16 bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from mslang.diagnostics import MsError, problem

_INCLUDE = re.compile(r"#include <([\w./]+)>")
_FRAGMENT = re.compile(r"#fragment (\w+)\[([\d, ]+)\] (.+)")
_ALIGNED = re.compile(r"#aligned (\w+) (\d+)")


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
    and its statements."""

    headers: tuple[str, ...]
    fragments: dict[str, FragmentType]
    aligned: dict[str, int]
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
    rest: list[str] = []
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped.startswith("#"):
            rest.append(line)
        elif (header := _INCLUDE.fullmatch(stripped)) is not None:
            headers.append(header[1])
        elif (found := _FRAGMENT.fullmatch(stripped)) is not None:
            fragments[found[1]] = FragmentType(tuple(int(n) for n in found[2].split(",")), found[3].strip())
        elif (bytes_ := _ALIGNED.fullmatch(stripped)) is not None:
            aligned[bytes_[1]] = int(bytes_[2])
        else:
            raise MsError(
                problem(
                    "MS441",
                    f"the text of `{name}` has the line `{stripped}`",
                    why="only lines `#include <header>`, `#fragment operand[n, m] type` and `#aligned operand bytes` "
                    "begin with `#`",
                )
            )
    return CudaText(tuple(headers), fragments, aligned, "\n".join(rest).strip("\n"))
