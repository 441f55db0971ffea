"""The primitive `loop_partition`: a loop as consecutive loops over parts of its range."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.expr import ZERO, Binary, Expr, Var
from mslang.ir.print import print_expr
from mslang.ir.program import For, Program
from mslang.ir.visit import free_vars, fresh
from mslang.transform.analysis.plain_loops import require_plain
from mslang.transform.analysis.position import loop_at, loop_path, taken_names
from mslang.transform.outcome import Gone, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.cloning import Part, parted


@primitive(family="loops", gives=(LoopRef,), many=True, consumes=("loop",))
def loop_partition(program: Program, loop: LoopRef, sizes: Sequence[Expr | None]) -> Outcome:
    """Cut a loop into consecutive loops of given sizes.

    One size may be a hole: it becomes the rest of the extent. Without a hole a last loop runs what is left.

    The new loops are `i_0`, `i_1`, …, each over a copy of the body, and are returned in order; the old handle is dead.
    The first copy keeps the names of the loops and blocks below; those of the others end in the number of the loop
    (`b_1`, `j_1`), and so does a buffer that each iteration has to itself. In all copies but the first a reduction that
    is cut goes on with what the first began: its block says that it reads what it updates, and has no init where that
    provably never runs. No block is put around the parts: they are loops like others.

    Before:
        for i in 0..100 {
            block b[x: 100 = i] { B[x] = A[x] }
        }

    After:
        # let i0, i1 = i.loop_partition([64, _])
        for i0 in 0..64 {
            block b[x: 100 = i0] { B[x] = A[x] }
        }
        for i1 in 0..36 {
            block b_1[x: 100 = i1 + 64] { B[x] = A[x] }
        }

    Rejects:
        - a loop that is not serial, or that is annotated
        - no size at all, or more than one hole
        - a size that is not provably positive, or that depends on a loop
        - sizes that do not provably leave at least one iteration for the rest
        - a concurrent loop below, if its iterations would share a buffer

    Source: TVM loop_partition
    """
    path = loop_path(program, loop, "loop_partition")
    old = loop_at(path)
    require_plain(old, "loop_partition")
    extents = _extents(old, sizes)
    taken = taken_names(program)
    parts: list[Part] = []
    start: Expr = old.start
    for k, extent in enumerate(extents):
        name = fresh(f"{old.var}_{k}", taken)
        taken.add(name)
        value = arith.simplify(arith.add(start, Var(name)))
        parts.append(Part((For(name, extent, ()),), value, str(k) if k else ""))
        start = arith.add(start, extent)
    made = tuple(LoopRef(p.loops[0].var) for p in parts)
    result = parted(program, path, parts, "loop_partition")
    return Outcome(result, made, {loop: Gone("loop_partition", made)})


def _extents(loop: For, sizes: Sequence[Expr | None]) -> list[Expr]:
    given = [s for s in sizes if s is not None]
    if not sizes:
        raise refuse("MS303", "loop_partition", "no sizes are given", help="give one for each part; one may be `_`")
    if len(sizes) - len(given) > 1:
        raise refuse("MS303", "loop_partition", "only one size may be `_`", why="two unknown sizes have many solutions")
    for s in given:
        if free_vars(s):
            raise refuse(
                "MS306",
                "loop_partition",
                f"a size depends on `{min(free_vars(s))}`",
                why="a size is one number in all iterations",
            )
        if not arith.proved(Binary("<", ZERO, s)):
            raise refuse(
                "MS306",
                "loop_partition",
                f"the size `{print_expr(s)}` is not provably positive",
                help="a size is a number above 0 or `_`",
            )
    total: Expr = ZERO
    for s in given:
        total = arith.add(total, s)
    if not arith.proved(Binary("<", total, loop.extent)):
        raise refuse(
            "MS306",
            "loop_partition",
            f"the sizes do not provably leave anything of loop `{loop.var}`",
            why=f"their sum, {print_expr(total)}, must be below the extent, {print_expr(loop.extent)}: "
            "the rest is a part of its own",
        )
    rest = arith.simplify(arith.sub(loop.extent, total))
    return [rest if s is None else s for s in (sizes if len(given) < len(sizes) else [*sizes, None])]
