"""Primitives for concurrent updates: atomic."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.annotations import ATOMIC
from mslang.ir.atomics import atomic_update, is_atomic
from mslang.ir.find import all_buffers
from mslang.ir.program import Program
from mslang.ir.visit import loads_of
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.analysis.position import block_at, block_path
from mslang.transform.outcome import BlockRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put


@primitive(family="reductions")
def atomic(program: Program, block: BlockRef) -> Outcome:
    """Make the updates of a block atomic.

    Then `bind` may give iterations that update the same elements to different blocks and threads of a GPU.
    What the updates start from must be computed before, in a launch of its own: `decompose_reduction` at the outermost
    loop. Threads of a block that share out the reduction first combine what they have, and one of them updates.

    Sums of floats are rounded in the order in which updates happen to arrive, which differs from run to run: results
    are not reproducible to the last bit. Integers, minima and maxima are exact.

    Before:
        for k in 0..64 {
            block s[| y: 64 = k] {
                init {}
                S[0] += A[y]
            }
        }

    After:
        # s.atomic()
        for k in 0..64 {
            block s[| y: 64 = k] {
                init {}
                attr "atomic" = true
                S[0] += A[y]
            }
        }

    Rejects:
        - a block with an init
        - a block that does anything but one update of one element: `x += value`, or `x = min(x, value)`, or `max`
        - a value or an index that depends on the buffer that is updated
        - a buffer that is a view, or in memory that threads do not share

    Source: Halide Func::atomic
    """
    path = block_path(program, block, "atomic")
    old = block_at(path)
    if is_atomic(old):
        return Outcome(program)
    if old.init is not None:
        raise refuse(
            "MS322",
            "atomic",
            f"the updates of block `{old.name}` cannot be atomic",
            why="the block has an init, which must come before all updates, and blocks of a launch do not wait "
            "for one another",
            help="`decompose_reduction` at its outermost loop first: the init then is a launch of its own",
        )
    found = atomic_update(old)
    if found is None:
        raise refuse(
            "MS322",
            "atomic",
            f"the updates of block `{old.name}` cannot be atomic",
            why="it does not only combine a value with one element by `+`, `min` or `max`",
            help="`fission` what else it does into a block of its own",
        )
    store, update = found
    loads = (x for e in (update.value, *store.indices, old.predicate) for x in loads_of(e))
    if any(storage_of(program, x.buffer) == storage_of(program, store.buffer) for x in loads):
        raise refuse(
            "MS322",
            "atomic",
            f"the updates of block `{old.name}` cannot be atomic",
            why=f"it reads what it updates, `{store.buffer}`, through a view",
        )
    buffer = all_buffers(program)[store.buffer]
    if storage_of(program, store.buffer) != store.buffer or buffer.scope not in ("global", "shared", "shared.dyn"):
        raise refuse(
            "MS322",
            "atomic",
            f"the updates of block `{old.name}` cannot be atomic",
            why=f"`{store.buffer}` is a view, or lies in memory that threads do not share",
            help='update a buffer in "global" or "shared" memory',
        )
    return Outcome(put(program, path, replace(old, annotations=(*old.annotations, (ATOMIC, True)))))
