"""Where the statements of a kernel come from: the blocks of its program, as they are written in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mslang.ir.program import Block, For, Program, Stmt
from mslang.ir.visit import bodies


class Origin(msgspec.Struct, frozen=True):
    """An innermost block of a scheduled program: where it is written (empty: the schedule made it), the loops around
    it, and what it writes."""

    place: str
    loops: tuple[str, ...]
    buffers: tuple[str, ...]


def origins(program: Program, lines: Mapping[str, str]) -> tuple[Origin, ...]:
    """The innermost blocks of a scheduled program.

    Args:
        program: the program after its schedule.
        lines: where the blocks of the program before its schedule are written: `gemm.ms:12` by block.
    """
    return tuple(_origins(program.body, (), lines))


def line_of(block: str, lines: Mapping[str, str]) -> str | None:
    """Where a block is written, or the one that it was made of: `mm_update` is part of `mm`.

    >>> line_of("mm_update", {"mm": "gemm.ms:8"})
    'gemm.ms:8'
    """
    made_of = _longest_of(block, lines)
    return None if made_of is None else lines[made_of]


def places(found: Sequence[Origin], loops: Sequence[str], buffer: str | None = None) -> tuple[str, ...]:
    """Where the blocks are written that a statement of the kernel may come from; each place once, in order.

    Args:
        found: the blocks.
        loops: the loops of the kernel around the statement, of which some may be made of those of the program: with
            parts of their iterations, or in vectors.
        buffer: what the statement stores to, if anything.

    >>> one, two = Origin("a.ms:3", ("i", "k"), ("m",)), Origin("a.ms:4", ("i", "j"), ("B",))
    >>> places((one, two), ("i", "k_vector"), "k_lanes"), places((one, two), ("i",), "B"), places((one, two), ("i",))
    (('a.ms:3',), ('a.ms:4',), ('a.ms:3', 'a.ms:4'))
    """
    known = {v for o in found for v in o.loops}
    around = {made_of for v in loops if (made_of := _longest_of(v, known)) is not None}
    inside = [o for o in found if around <= set(o.loops)]
    # The lanes of a reduction are a buffer that is named for their loop.
    lanes = None if buffer is None else _longest_of(buffer, known)
    stores = [o for o in inside if buffer in o.buffers] or [o for o in inside if lanes in o.loops] or inside
    return tuple(dict.fromkeys(o.place for o in stores if o.place))


def _origins(body: tuple[Stmt, ...], loops: tuple[str, ...], lines: Mapping[str, str]) -> Iterator[Origin]:
    for s in body:
        inner = (*loops, s.var) if isinstance(s, For) else loops
        inside = [o for b in bodies(s) for o in _origins(b, inner, lines)]
        if isinstance(s, Block) and not inside:
            yield Origin(line_of(s.name, lines) or "", inner, tuple(r.buffer for r in s.writes))
        yield from inside


def _longest_of(name: str, known: Mapping[str, object] | set[str]) -> str | None:
    """The longest of the known names that a name is, or is made of."""
    return max((k for k in known if name == k or name.startswith(f"{k}_")), key=len, default=None)
