"""Which stages of a program are attention: scores, their maximum, exponentials, sums, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import msgspec

from mslang.ir.expr import Const
from mslang.ir.program import Block, Program
from mslang.ir.reduction import is_maximum
from mslang.schedule.rules.gpu.nests import tiled_axes
from mslang.schedule.rules.nests import leaf_blocks
from mslang.transform.analysis.dependence import storages_read, storages_written


class Chain(msgspec.Struct, frozen=True):
    """The stages of attention.

    `before` gives the elements of the `maximum`, a product first; `exponentials` of the differences to it are summed in
    `sums`, a product among them; `after` computes on the sums. `products` has the axes of a row and a column of each
    stage that is a product.
    """

    before: tuple[str, ...]
    maximum: str
    exponentials: tuple[str, ...]
    sums: tuple[str, ...]
    after: tuple[str, ...]
    products: Mapping[str, tuple[str, str]]

    @property
    def stages(self) -> tuple[str, ...]:
        """All stages."""
        return (*self.before, self.maximum, *self.exponentials, *self.sums, *self.after)


def chain_of(program: Program, names: Sequence[str], maximum: str) -> Chain | None:
    """The stages of attention around a maximum; None if there are none.

    Args:
        program: where they are.
        names: the blocks that may be among them, in program order.
        maximum: the block that gives one maximum for each row, along one axis.
    """
    blocks = {b.name: b for b in leaf_blocks(program) if b.name in names}
    if maximum not in blocks or not _has_rows(blocks[maximum]):
        return None
    products = {n: axes[:2] for n, b in blocks.items() if (axes := tiled_axes(program, b)) is not None}
    at = names.index(maximum)
    before = _before(program, [blocks[n] for n in names[: at + 1]], products)
    exponentials, sums, after = _after(program, [blocks[n] for n in names[at:]])
    if not before or not products.keys() & set(sums):
        return None
    own = {n: axes for n, axes in products.items() if n in (*before, *sums)}
    return Chain(before, maximum, exponentials, sums, after, own)


def score_count(program: Program, chain: Chain) -> int:
    """How many scores there are."""
    maximum = next(b for b in leaf_blocks(program) if b.name == chain.maximum)
    return prod(int(a.extent.value) for a in maximum.axes if isinstance(a.extent, Const))


def _has_rows(block: Block) -> bool:
    """Whether a block reduces to a maximum for each row, along one axis, all of known extent."""
    kinds = [a.kind for a in block.axes]
    known = all(isinstance(a.extent, Const) for a in block.axes)
    return is_maximum(block) and known and kinds.count("reduce") == 1 and kinds.count("spatial") == len(kinds) - 1 > 0


def _before(program: Program, blocks: Sequence[Block], products: Mapping[str, object]) -> tuple[str, ...]:
    """What computes the elements of the maximum, the last of some blocks, from the products that it goes back to."""
    *earlier, maximum = blocks
    wanted = set(storages_read(program, maximum))
    leading: list[Block] = []
    for block in reversed(earlier):
        if not storages_written(program, block) & wanted:
            continue
        if block.name in products:
            leading.append(block)
        elif block.init is None:
            leading.append(block)
            wanted |= storages_read(program, block)
    made = set[str]()
    found: list[str] = []
    for block in reversed(leading):
        if block.name in products or storages_read(program, block) & made:
            found.append(block.name)
            made |= storages_written(program, block)
    return tuple(found)


def _after(program: Program, blocks: Sequence[Block]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The exponentials, the sums, and what computes on these, after the maximum, the first of some blocks.

    What needs a block that is none of them is none of them, either.
    """
    maximum, *later = blocks
    terms = set(storages_written(program, maximum))
    results, outside = set[str](), set[str]()
    exponentials, sums, after = list[str](), list[str](), list[str]()
    for block in later:
        read, written = storages_read(program, block), storages_written(program, block)
        if not read & (terms | results | outside):
            continue
        if read & outside or (block.init is not None and (read & results or not read & terms)):
            outside |= written
        elif block.init is not None:
            sums.append(block.name)
            results |= written
        elif read & results:
            after.append(block.name)
            results |= written
        else:
            exponentials.append(block.name)
            terms |= written
    return tuple(exponentials), tuple(sums), tuple(after)
