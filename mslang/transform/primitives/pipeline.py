"""The primitive `pipeline`: copies of later iterations of a loop run ahead of the rest of earlier ones."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.ir.annotations import COPY, STAGES
from mslang.ir.program import Evaluate, Program, Stmt, While
from mslang.ir.visit import Path, walk
from mslang.ops.words import COPIES
from mslang.transform.analysis.carried_dependence import why_unplaced
from mslang.transform.analysis.dependence import storages_read, storages_written
from mslang.transform.analysis.position import leaves, loop_at, loop_path
from mslang.transform.outcome import LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.cloning import private_buffers
from mslang.transform.rewriting.loop_nest import called
from mslang.transform.rewriting.rewrite import put


@primitive(family="loop kinds")
def pipeline(program: Program, loop: LoopRef, *, stages: int, copy: str | None = None) -> Outcome:
    """Run the copies of a loop's later iterations ahead of the rest of earlier ones.

    The copies are the statements right under the loop that fill buffers which each iteration has to itself, out of what
    the loop does not write: what `cache_read` makes, moved there with `compute_at`. With n stages the copies of
    iteration i + n - 1 run before the rest of iteration i, and each buffer that they fill has n versions. The program
    is only annotated (`pipeline.stages`, `pipeline.copy`); lowering does it, on every back end.

    `copy = cp_async` asks for the asynchronous copies of a GPU; a CPU copies as always.

    Before:
        for k in 0..8 {
            for a in 0..16 { block S[x: 128 = k * 16 + a] { T[x] = A[x] } }
            for b in 0..16 { block s[x: 128 = k * 16 + b] { B[x] = T[x] * 2.0 } }
        }

    After:
        # k.pipeline(stages = 2)
        for k in 0..8 @ serial("pipeline.stages" = 2) {
            for a in 0..16 { block S[x: 128 = k * 16 + a] { T[x] = A[x] } }
            for b in 0..16 { block s[x: 128 = k * 16 + b] { B[x] = T[x] * 2.0 } }
        }

    Rejects:
        - fewer than two stages, or a way to copy that there is not
        - a loop that is not serial, or that is pipelined already
        - statements under the loop that stand in no block
        - a loop under which nothing copies ahead: each statement reads what the loop writes, or writes something that
          outlives the iteration or is read before it is filled
        - a loop under which everything copies: nothing is left to overlap with

    Source: not in TVM, which has it as an annotation that lowering obeys unchecked
    """
    path = loop_path(program, loop, "pipeline")
    old = loop_at(path)
    if stages < 2:
        raise refuse("MS303", "pipeline", f"{stages} stages are too few", why="with two, one copy runs ahead")
    if copy is not None and copy not in COPIES:
        raise refuse("MS303", "pipeline", f"there is no way to copy `{copy}`", help=f"one of {', '.join(COPIES)}")
    if old.kind != "serial":
        raise refuse("MS305", "pipeline", f"loop `{old.var}` is {old.kind}", why="its iterations have no order")
    if STAGES in dict(old.annotations):
        raise refuse("MS305", "pipeline", f"loop `{old.var}` is pipelined already", help="`unannotate` it first")
    stray = why_unplaced(old.body, f"loop `{old.var}`")
    if stray is not None:
        raise refuse("MS359", "pipeline", f"loop `{old.var}` cannot be pipelined", why=stray)
    reasons = _why_no_copies(program, path)
    if all(r is not None for r in reasons):
        raise refuse(
            "MS359",
            "pipeline",
            f"nothing under loop `{old.var}` can be copied ahead",
            why=reasons[0],
            help=f"stage what it reads: `cache_read`, then `compute_at` loop `{old.var}`",
        )
    if all(r is None for r in reasons):
        raise refuse(
            "MS359",
            "pipeline",
            f"there is nothing but copies under loop `{old.var}`",
            why="nothing is left that copies could run ahead of",
        )
    notes = (*old.annotations, (STAGES, stages), *(() if copy is None else ((COPY, copy),)))
    return Outcome(put(program, path, replace(old, annotations=notes)))


class _Touched(msgspec.Struct, frozen=True):
    """What a statement reads and writes."""

    stmt: Stmt
    reads: frozenset[str]
    writes: frozenset[str]


def _why_no_copies(program: Program, path: Path) -> list[str | None]:
    """For each statement under the loop at the end of a path None if it is a copy, or why it is none."""
    touched = [
        _Touched(
            s,
            frozenset[str]().union(*(storages_read(program, b) for b in leaves(s))),
            frozenset[str]().union(*(storages_written(program, b) for b in leaves(s))),
        )
        for s in loop_at(path).body
    ]
    own = {b.name for b in private_buffers(program, path)}
    reasons = [_why_no_copy(t, touched, own) for t in touched]
    while True:
        spoiled = {
            name
            for name in own
            if any(
                (name in t.writes and reasons[k] is not None and name in filled)
                or (name in t.reads and any(name in x.writes for x in touched[k:]))
                for filled in (
                    frozenset[str]().union(*(t.writes for t, r in zip(touched, reasons, strict=True) if r is None)),
                )
                for k, t in enumerate(touched)
            )
        }
        if not spoiled:
            return reasons
        own -= spoiled
        reasons = [_why_no_copy(t, touched, own) for t in touched]


def _why_no_copy(t: _Touched, others: list[_Touched], own: set[str]) -> str | None:
    written = frozenset[str]().union(*(x.writes for x in others))
    if any(isinstance(s, Evaluate | While) for b in leaves(t.stmt) for s in walk(b.body)):
        return f"what {called(t.stmt)} does is not known from what it reads and writes"
    if t.reads & written:
        return f"{called(t.stmt)} reads `{min(t.reads & written)}`, which the loop writes"
    if not t.writes or t.writes - own:
        what = f"`{min(t.writes - own)}`" if t.writes else "nothing"
        return f"{called(t.stmt)} writes {what}, not a buffer that each iteration fills for itself before it is read"
    return None
