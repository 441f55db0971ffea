"""Descriptions of the loops, blocks, buffers and decisions of a program."""

from __future__ import annotations

from math import prod

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.dtype import INDEX, size_of
from mslang.ir.expr import Const, Domain, Expr
from mslang.ir.find import all_buffers, blocks_of, path_to_block, path_to_loop
from mslang.ir.program import Block, Buffer, For, Program
from mslang.ir.text import declared, domain_text, print_expr, region_text, within_text
from mslang.ir.visit import free_vars
from mslang.ir.work import operations
from mslang.schedule import distribution
from mslang.schedule.distribution import Values


class LoopFacts(msgspec.Struct, frozen=True):
    """A loop: its name, extent and kind, the axes that it binds, and the blocks in its body."""

    name: str
    extent: str
    kind: str
    axes: tuple[str, ...]
    blocks: tuple[str, ...]

    @property
    def text(self) -> str:
        """One line."""
        over = f", iterates {', '.join(self.axes)}" if self.axes else f", around {', '.join(self.blocks)}"
        return f"loop `{self.name}`: extent {self.extent}, {self.kind}{over}"


class BlockFacts(msgspec.Struct, frozen=True):
    """A block: its axes as text, its regions, its work and its footprint (None: unknown)."""

    name: str
    axes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    operations: int | None
    bytes: int | None

    @property
    def text(self) -> str:
        """Several lines of Markdown."""
        lines = [
            f"block `{self.name}`",
            f"- axes: {', '.join(self.axes) or 'none'}",
            f"- reads {', '.join(self.reads) or 'nothing'}",
            f"- writes {', '.join(self.writes) or 'nothing'}",
        ]
        if self.operations is not None:
            lines.append(f"- {amount(self.operations, 1000, ('FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP'))}")
        if self.bytes is not None:
            lines.append(f"- accesses {bytes_text(self.bytes)}")
        return "\n".join(lines)


class BufferFacts(msgspec.Struct, frozen=True):
    """A buffer: its declaration and its size in bytes (None: known only at the call)."""

    name: str
    declaration: str
    bytes: int | None

    @property
    def text(self) -> str:
        """One line."""
        return f"buffer `{self.declaration}`" + ("" if self.bytes is None else f", {bytes_text(self.bytes)}")


def loop_facts(program: Program, name: str) -> LoopFacts | None:
    """A loop of a program by name."""
    path = path_to_loop(program, name)
    if path is None or not isinstance(path[-1], For):
        return None
    loop = path[-1]
    blocks = blocks_of((loop,), into_blocks=False)
    axes = [f"`{b.name}.{a.name}` ({a.kind})" for b in blocks for a in b.axes if name in free_vars(a.binding)]
    return LoopFacts(name, print_expr(loop.extent, INDEX), loop.kind, tuple(axes), tuple(f"`{b.name}`" for b in blocks))


def block_facts(program: Program, name: str) -> BlockFacts | None:
    """A block of a program by name."""
    path = path_to_block(program, name)
    if path is None or not isinstance(path[-1], Block):
        return None
    block = path[-1]
    buffers = all_buffers(program)
    axes = tuple(f"`{a.name}: {print_expr(a.extent, INDEX)}` ({a.kind})" for a in block.axes)
    touched = {r.buffer for r in (*block.reads, *block.writes)}
    sizes = [buffer_bytes(buffers[b]) for b in touched if b in buffers]
    once = operations(replace(program, body=block.body))
    times = [a.extent.value if isinstance(a.extent, Const) else None for a in block.axes]
    work = None if once is None or None in times else once * prod(int(t) for t in times if t is not None)
    return BlockFacts(
        name,
        axes,
        tuple(f"`{region_text(r)}`" for r in block.reads),
        tuple(f"`{region_text(r)}`" for r in block.writes),
        work,
        None if None in sizes else sum(s for s in sizes if s is not None),
    )


def buffer_facts(program: Program, name: str) -> BufferFacts | None:
    """A buffer of a program by name."""
    buffer = all_buffers(program).get(name)
    if buffer is None:
        return None
    param = next((q for q in program.params if q.buffer.name == name), None)
    held = None if param is None else param.within
    word = "const " if param is not None and param.constant else ""
    text = word + declared(buffer) + ("" if held is None else within_text(held, buffer.dtype))
    return BufferFacts(name, text, buffer_bytes(buffer))


def buffer_bytes(buffer: Buffer) -> int | None:
    """The bytes that a buffer takes, or None if its shape is not all numbers."""
    if not all(isinstance(x, Const) for x in buffer.shape):
        return None
    return size_of(buffer.dtype) * prod(int(x.value) for x in buffer.shape if isinstance(x, Const))


def decision_text(domain: Domain, values: Values) -> str:
    """The domain of a decision and the number of its candidates."""
    text = f"`{domain_text(domain)}`"
    try:
        return f"{text}, {distribution.count(domain, values):,} values"
    except (KeyError, MsError):
        # The extent hangs on a decision whose value is not known here.
        return text


def bytes_text(count: int) -> str:
    """A number of bytes for reading."""
    return amount(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def amount(value: float, step: int, units: tuple[str, ...]) -> str:
    """A quantity with the unit that keeps it short: `2.1 MFLOP`."""
    k = 0
    while value >= step and k + 1 < len(units):
        value /= step
        k += 1
    return f"{value:.4g} {units[k]}"


def size_text(e: Expr) -> str:
    """A size or extent as text."""
    return print_expr(e, INDEX)
