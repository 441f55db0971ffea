"""Random steps of the primitives on loops: tails of split, parts, merging and taking apart, copies, pipelines."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Const, Symbol
from mslang.ir.find import path_to_loop
from mslang.ir.operators import maximum, minimum
from mslang.ir.program import Block, For, Program, Stmt
from mslang.ir.visit import bodies, walk
from mslang.ops.words import TAILS
from mslang.transform.analysis.position import leaves
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.registry import IMPLEMENTATIONS
from mslang.transform.rewriting.split_tails import why_not_repeatable
from tests.property.steps import Family, Step, Steps, apply, loops


# ------------------------------------------------------------------ steps
def _likely(steps: Steps, p: Program, found: list[Step]) -> Step | None:
    """Mostly a step that is accepted, if there is one."""
    steps.rng.shuffle(found)
    if steps.rng.random() < 0.85:
        found = [x for x in found if apply(p, x) is not None] or found
    return found[0] if found else None


def _split(steps: Steps, p: Program) -> Step:
    rng = steps.rng
    tail = rng.choices(TAILS, [5, 1, 2, 2])[0]
    found = loops(p)
    local = {b.name for b in p.allocs}
    if tail == "pad" and rng.random() < 0.8:
        within = [s for s in found if all(r.buffer in local for b in leaves(s) for r in b.writes)]
        found = within or found
    if tail == "shift" and rng.random() < 0.8:
        found = [s for s in found if why_not_repeatable(p, path_to_loop(p, s.var) or ()) is None] or found
    loop = rng.choice(found)
    given: dict[str, Any] = {} if tail == "guard" and rng.random() < 0.5 else {"tail": tail}
    if rng.random() < 0.1:
        given["disable_predication"] = True
    return "split", (LoopRef(loop.var), steps.factors(p, loop)), given


def _loop_partition(steps: Steps, p: Program) -> Step | None:
    rng = steps.rng
    found = [s for s in loops(p) if isinstance(s.extent, Const) and int(s.extent.value) > 1]
    if not found:
        return None
    loop = rng.choice(found)
    n = int(loop.extent.value) if isinstance(loop.extent, Const) else 2
    parts = [steps.size(n - 1)] if n < 4 or rng.random() < 0.6 else [steps.size((n - 1) // 2) for _ in range(2)]
    if rng.random() < 0.7:
        parts.insert(rng.randint(0, len(parts)), None)
    return "loop_partition", (LoopRef(loop.var), parts), {}


def _lists(p: Program) -> list[tuple[Stmt, ...]]:
    """The statement lists of the program's scope and of its loops."""
    return [p.body, *(b for s in walk(p.body) if isinstance(s, For | Block) for b in bodies(s))]


def _merge(steps: Steps, p: Program) -> Step | None:
    found = [
        (a, b)
        for body in _lists(p)
        for a, b in pairwise([s for s in body if isinstance(s, For)])
        if a.extent == b.extent
    ]
    pairs: list[Step] = []
    for a, b in found:
        pairs.append(("merge", ([LoopRef(a.var), LoopRef(b.var)],), {}))
        while len(a.body) == len(b.body) == 1:
            match a.body[0], b.body[0]:
                case For() as c, For() as d if c.extent == d.extent:
                    a, b = c, d
                case _:
                    break
            pairs.append(("merge", ([LoopRef(a.var), LoopRef(b.var)],), {}))
    return _likely(steps, p, pairs)


def _fission(steps: Steps, p: Program) -> Step | None:
    found: list[Step] = []
    for loop in loops(p):
        inside = [s for s in walk(loop.body[:-1], into_blocks=False) if isinstance(s, For | Block)]
        for s in inside if len(loop.body) > 1 else ():
            after = LoopRef(s.var) if isinstance(s, For) else BlockRef(s.name)
            found.append(("fission", (LoopRef(loop.var), after), {}))
    return _likely(steps, p, found)


def _specialize(steps: Steps, p: Program) -> Step:
    value = steps.size(5)
    if isinstance(value, int | Const):
        condition: Any = Const(steps.rng.random() < 0.5, "bool")
    elif isinstance(value, Symbol):
        condition = Binary(steps.rng.choice(["<", "==", ">="]), value, Const(2))
    else:
        condition = steps.rng.choice([value % 2 == 0, value < 3, value == 1])
    return "specialize", (steps.loop(p), condition), {}


def _pipeline(steps: Steps, p: Program) -> Step | None:
    named = {"stages": steps.rng.choice([2, 2, 3, 4])} | steps.rng.choice([{}, {"copy": "cp_async"}])
    found: list[Step] = [("pipeline", (LoopRef(s.var),), named) for s in loops(p) if len(s.body) > 1]
    return _likely(steps, p, found)


# ------------------------------------------------------------------ programs
def stages_program(rng: random.Random) -> Program:
    """Stages over one shape, each reading what is before it: nests that can be merged."""
    n, m = rng.choice([3, 5, 6, 8]), rng.choice([2, 4, 7])
    b = ProgramBuilder("stages")
    a, w = b.input("A", (n, m)), b.input("W", (m,))
    count = rng.randint(2, 4)
    last = a
    for k in range(count):
        out = b.output("B", (n, m)) if k == count - 1 else b.alloc(f"T{k}", (n, m))
        kind = rng.choice(["scale", "shift", "behind", "ahead", "row"])
        with b.block(f"s{k}", spatial(f"i{k}", n), spatial(f"j{k}", m)) as (i, j):
            match kind:
                case "scale":
                    out[i, j] = last[i, j] * 2
                case "shift":
                    out[i, j] = last[i, j] + w[j]
                case "behind":
                    out[i, j] = last[i, j] + last[maximum(i - 1, 0), j]
                case "ahead":
                    out[i, j] = last[minimum(i + 1, n - 1), j] - w[j]
                case "row":
                    out[i, j] = last[i, 0] - last[i, j]
        last = out
    return _merged(rng, b.finish())


def _merged(rng: random.Random, p: Program) -> Program:
    steps = Steps(rng, symbolic=False)
    for _ in range(rng.randint(0, 3)):
        step = _merge(steps, p)
        done = apply(p, step) if step is not None else None
        p = p if done is None else done.program
    return p


def staged_program(rng: random.Random) -> Program:
    """A contraction, or a sum by pieces, whose operands are staged under a loop."""
    n, m, k = rng.choice([2, 4, 5]), rng.choice([3, 4]), rng.choice([5, 6, 8, 9])
    b = ProgramBuilder("staged")
    a, w, c = b.input("A", (n, k)), b.input("W", (k, m)), b.output("C", (n, m))
    with b.block("mm", spatial("i", n), spatial("j", m), reduce("k", k)) as (x, y, z):
        c[x, y] += a[x, z] * w[z, y]
    p = b.finish()
    if rng.random() < 0.5:
        p = IMPLEMENTATIONS["cache_write"](p, BlockRef("mm"), BufferRef("C"), "local").program
    loop = rng.choice(["i", "k", "k"])
    out = IMPLEMENTATIONS["split"](p, LoopRef(loop), [None, Const(rng.choice([2, 3]))])
    p, outer = out.program, out.handles[0]
    if loop == "k":
        inner = out.handles[1]
        p = IMPLEMENTATIONS["reorder"](p, [outer, LoopRef("i"), LoopRef("j"), inner]).program
    for buffer in rng.choice([("A",), ("W",), ("A", "W")]):
        made = IMPLEMENTATIONS["cache_read"](p, BlockRef("mm"), BufferRef(buffer), rng.choice(["local", "global"]))
        moved = apply(made.program, ("compute_at", (made.handles[0], outer), {}))
        p = p if moved is None else moved.program
    assert path_to_loop(p, outer.name) is not None
    return p


FAMILY = Family(
    steps={
        "split": _split,
        "loop_partition": _loop_partition,
        "merge": _merge,
        "fission": _fission,
        "specialize": _specialize,
        "pipeline": _pipeline,
    },
    weights={"split": 7, "loop_partition": 2, "merge": 3, "fission": 3, "specialize": 2, "pipeline": 5},
    programs=(stages_program, staged_program, staged_program),
)
