"""TVM's names of a program's blocks where they differ from ours.

Names are unique here, across blocks, buffers and loops; in TVM a block and a buffer may share one. A reader renames the
block and records this with `with_names`; readers and writers of TVM's formats look names up here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mslang.ir.find import blocks_of
from mslang.ir.program import Program

ATTRIBUTE = "mslang.blocks"
"""The key of a program's annotation that lists renamed blocks, as pairs of TVM's name and the name here."""


def other_name(name: str) -> str:
    """The first alternative name for a block whose own name is taken."""
    return f"{name}_block"


def guess(name: str, blocks: Iterable[str], buffers: Iterable[str]) -> str | None:
    """The block that TVM calls `name`, inferred from names alone; None if there is none or more than one.

    It is used for programs without recorded names: written by hand, or imported before names were recorded.

    >>> guess("C", ["C_block", "D"], ["A", "C"])
    'C_block'
    """
    blocks = list(blocks)
    if name in blocks:
        return name
    if name not in set(buffers):
        return None
    if other_name(name) in blocks:
        return other_name(name)
    found = [n for n in blocks if re.fullmatch(rf"{re.escape(name)}_(block_)?\d+", n)]
    return found[0] if len(found) == 1 else None


def with_names(program: Program, here: Mapping[str, str]) -> Program:
    """The program with TVM's names of its blocks recorded where they differ.

    Args:
        program: the program.
        here: the name of each block here, by its name in TVM.
    """
    pairs = tuple((there, name) for there, name in here.items() if there != name)
    if not pairs:
        return program
    return replace(program, annotations=(*program.annotations, (ATTRIBUTE, pairs)))


def tvm_names(program: Program) -> Mapping[str, str]:
    """TVM's names of the renamed blocks that the program still has, by their names here."""
    listed = dict(program.annotations).get(ATTRIBUTE, ())
    pairs = [p for p in listed if isinstance(p, tuple) and len(p) == 2] if isinstance(listed, tuple) else []
    blocks = {b.name for b in blocks_of(program.body)}
    said = {str(here): str(there) for there, here in pairs if here in blocks}
    kept = blocks - said.keys()
    return {here: there for here, there in said.items() if there not in kept}
