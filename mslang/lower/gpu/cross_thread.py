"""Reductions over loops of threads: which there are, along which loops, and how the threads exchange their parts.

Decisions may have no values: the memory that an exchange takes is then an expression over them, and putting numbers in
gives what the exchange allocates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mslang.ir import arith
from mslang.ir.atomics import is_atomic
from mslang.ir.expr import FALSE, TRUE, ZERO, Binary, Const, Expr, Select, dtype_of
from mslang.ir.find import all_buffers, block_paths, loops_of, used_names
from mslang.ir.program import Block, Buffer, For, If, Let, Program, While
from mslang.ir.reducers import at_once
from mslang.ir.visit import Path, free_vars, fresh, loads_of, substitute, walk
from mslang.lower.gpu.axes import BLOCK_AXES, BLOCK_SHARED, THREAD_AXES, WARP, bound_threads
from mslang.transform.analysis.carried_dependence import reaches
from mslang.transform.analysis.position import block_at


class CrossThread(NamedTuple):
    """A block that reduces over loops of threads: its path, the loops of the reduction, the threads of the launch."""

    path: Path
    reduced: tuple[For, ...]
    launch: Mapping[str, Expr]

    @property
    def block(self) -> Block:
        """The block."""
        return block_at(self.path)

    @property
    def threads(self) -> tuple[For, ...]:
        """The loops of threads among those of the reduction."""
        return tuple(s for s in self.reduced if s.kind in THREAD_AXES)

    @property
    def first(self) -> int:
        """Where the outermost loop of the reduction is on the path."""
        return next(k for k, s in enumerate(self.path) if s is self.reduced[0])

    @property
    def kept(self) -> tuple[For, ...]:
        """The loops inside of that one that count elements of the result."""
        inside = self.path[self.first : -1]
        return tuple(s for s in inside if isinstance(s, For) and not any(s is r for r in self.reduced))

    @property
    def serial(self) -> tuple[For, ...]:
        """Those that each thread runs itself."""
        return tuple(s for s in self.kept if s.kind not in THREAD_AXES)

    @property
    def around(self) -> tuple[str, ...]:
        """The axes of threads that the block is in loops of: along others its parts are computed once."""
        kinds = {s.kind for s in self.path if isinstance(s, For)}
        return tuple(a for a in THREAD_AXES if a in kinds)


def cross_thread(program: Program) -> list[CrossThread]:
    """The reductions of a program that threads share out, in order."""
    return [
        cross_thread_at(path)
        for path in block_paths(program.body)
        if any(
            isinstance(s, For) and s.kind in THREAD_AXES and reaches(s.var, a.binding, path)
            for a in block_at(path).axes
            if a.kind == "reduce"
            for s in path
        )
    ]


def cross_thread_at(path: Path) -> CrossThread:
    """What a path leads to, which is a block that reduces over loops of threads."""
    block, loops = block_at(path), loops_of(path)
    # blocks combine by atomic updates what the threads of each have
    own = next((k for k in range(len(loops), 0, -1) if loops[k - 1].kind in BLOCK_AXES), 0)
    terms = frozenset[str]().union(*(free_vars(a.binding) for a in block.axes if a.kind == "reduce"))
    shared_out = loops[own:] if is_atomic(block) else loops
    return CrossThread(path, tuple(s for s in shared_out if s.var in terms), bound_threads(walk(path[:1])))


# ------------------------------------------------------------------ how threads exchange
def by_one_warp(r: CrossThread, buffers: Mapping[str, Buffer]) -> Expr:
    """The condition under which shuffles among the lanes of a warp combine all parts."""
    if not _along_x(r):
        return FALSE
    lanes = r.launch["threadIdx.x"]
    whole = Binary("==", lanes, Const(WARP))
    return arith.simplify(whole if _rows_part(r, buffers) else Binary("==", Binary("%", Const(WARP), lanes), ZERO))


def by_warps(r: CrossThread) -> Expr:
    """The condition under which shuffles combine what each warp has, if more than one has parts."""
    if not _along_x(r):
        return FALSE
    return arith.simplify(Binary("==", Binary("%", r.launch["threadIdx.x"], Const(WARP)), ZERO))


def _along_x(r: CrossThread) -> bool:
    return [s.kind for s in r.threads] == ["threadIdx.x"]


def _rows_part(r: CrossThread, buffers: Mapping[str, Buffer]) -> bool:
    """May a condition or a loop around the reduction be another one for other rows of threads? All lanes of a warp
    must take part in a shuffle, and short rows share a warp."""
    differ: set[str] = set()

    def differs(e: Expr) -> bool:
        return not differ.isdisjoint(free_vars(e)) or any(
            buffers[x.buffer].scope not in BLOCK_SHARED for x in loads_of(e)
        )

    for s in r.path[: r.first]:
        match s:
            case For(var=v, kind=kind, start=start, extent=extent):
                if differs(extent):
                    return True
                if kind in THREAD_AXES or differs(start):
                    differ.add(v)
            case If(condition=e) | While(condition=e) if differs(e):
                return True
            case Let(name=n, value=v) if differs(v):
                differ.add(n)
            case Block(axes=axes, predicate=p):
                own = {a.name for a in axes if differs(a.binding)}
                bindings = {a.name: a.binding for a in axes}
                if differs(substitute(p, bindings)):
                    return True
                differ = own | (differ - bindings.keys())
    return False


# ------------------------------------------------------------------ what it takes
def exchanged(program: Program) -> list[tuple[For, tuple[Buffer, ...]]]:
    """For each reduction that threads share out its outermost loop and the memory that the exchange takes there.

    A thread keeps a partial result for each element that it has a part of. Beyond one warp, the threads exchange them
    through shared memory: one of each warp, or one of each thread.
    """
    buffers, taken = all_buffers(program), set(used_names(program))
    found = []
    for r in cross_thread(program):
        if not r.threads or any(free_vars(s.extent) for s in (*r.reduced, *r.kept)):
            continue  # lowering refuses it
        own = arith.size_product(s.extent for s in r.serial)
        made = [
            Buffer(_fresh(f"{s.buffer}_{what}", taken), dtype_of(s.value), (n,), scope)
            for s in at_once(r.block.body)
            for what, n, scope in (("partial", own, "local"), ("partial_shared", _staged(r, own, buffers), "shared"))
        ]
        found.append((r.reduced[0], tuple(made)))
    return found


def _fresh(wanted: str, taken: set[str]) -> str:
    name = fresh(wanted, taken)
    taken.add(name)
    return name


def _staged(r: CrossThread, own: Expr, buffers: Mapping[str, Buffer]) -> Expr:
    """How many elements the threads of a block exchange through shared memory."""
    whole = arith.size_product((own, *(r.launch[a] for a in r.around)))
    one, several = by_one_warp(r, buffers), by_warps(r)
    if several == FALSE:
        return _choice(one, ZERO, whole)
    rest = arith.size_product((own, *(r.launch[a] for a in r.around if a != "threadIdx.x")))
    warps = arith.mul(rest, arith.floordiv(r.launch["threadIdx.x"], Const(WARP)))
    return _choice(one, ZERO, _choice(several, warps, whole))


def _choice(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    return then if condition == TRUE else otherwise if condition == FALSE else Select(condition, then, otherwise)
