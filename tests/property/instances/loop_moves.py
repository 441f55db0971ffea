"""Moves of loops: taken apart, joined, ordered, marked."""

from __future__ import annotations

from itertools import pairwise

from mslang.ir.program import Block, For
from tests.property.instances.moves import Board, Call, Proposal


def split(t: Board) -> Call | None:
    s = t.loop(lambda s: s.kind == "serial" or t.coin(0.1))
    if s is None:
        return None
    tail = t.rng.choices(["guard", "peel", "shift", "pad"], [5, 3, 3, 1])[0]
    named = {} if tail == "guard" and t.coin() else {"tail": tail}
    if t.coin(0.05):
        named = {"disable_predication": True}
    return Call((t.handle(s), list(t.factors(s))), named)


def chain(t: Board, count: int) -> list[For] | None:
    """Loops directly inside each other."""
    s = t.loop(lambda s: len(s.body) == 1 and isinstance(s.body[0], For))
    if s is None:
        return None
    found = [s]
    while len(found) < count and len(found[-1].body) == 1 and isinstance(inner := found[-1].body[0], For):
        found.append(inner)
    return found


def fuse(t: Board) -> Call | None:
    found = chain(t, t.rng.choice([2, 2, 3]))
    return None if found is None else Call(tuple(t.handle(s) for s in found))


def reorder(t: Board) -> Call | None:
    found = chain(t, t.rng.choice([2, 2, 3, 4]))
    if found is None:
        return None
    handles = [t.handle(s) for s in found]
    if len(handles) > 1 and t.coin(0.25):
        return Call(tuple(t.decided("permute", lambda name: t.schedule.permute(handles, name=name))))
    t.rng.shuffle(handles)
    if len(handles) > 2 and t.coin(0.3):
        handles.pop()
    return Call(tuple(handles))


def add_unit_loop(t: Board) -> Call | None:
    thing = t.loop() if t.coin() else t.block()
    return None if thing is None else Call((t.handle(thing),))


def loop_partition(t: Board) -> Call | None:
    s = t.loop(lambda s: s.kind == "serial")
    if s is None:
        return None
    n = t.extent(s)
    parts = [t.size(max((n or 4) - 1, 1)) for _ in range(t.rng.choice([1, 1, 2]))]
    if t.coin(0.7):
        parts.insert(t.rng.randint(0, len(parts)), None)
    return Call((t.handle(s), parts))


def merge(t: Board) -> Call | None:
    pairs: list[tuple[For, For]] = []
    for body in t.lists():
        for a, b in pairwise([s for s in body if isinstance(s, For)]):
            while a.extent == b.extent and a.start == b.start:
                pairs.append((a, b))
                if not (len(a.body) == len(b.body) == 1):
                    break
                match a.body[0], b.body[0]:
                    case For() as c, For() as d:
                        a, b = c, d
                    case _:
                        break
    return Call(tuple(t.handle(s) for s in t.rng.choice(pairs))) if pairs else None


def fission(t: Board) -> Call | None:
    s = t.loop(lambda s: len(s.body) > 1)
    if s is None:
        return None
    ends = [x for x in s.body[:-1] if isinstance(x, For | Block)]
    return Call((t.handle(s), t.handle(t.rng.choice(ends)))) if ends else None


def specialize(t: Board) -> Call | None:
    s = t.loop()
    return None if s is None else Call((t.handle(s), t.condition(s)))


def parallel(t: Board) -> Call | None:
    s = t.loop(lambda s: not t.serves(s, "reduce"))
    return None if s is None else Call((t.handle(s),))


def vectorize(t: Board) -> Call | None:
    if t.coin(0.2):
        s = t.loop(lambda s: t.serves(s, "reduce"))
        return None if s is None else Call((t.handle(s),), {"reduction": True})
    s = t.loop(lambda s: not t.serves(s, "reduce") and (t.coin(0.4) or isinstance(s.body[0], Block)))
    return None if s is None else Call((t.handle(s),), {"reduction": True} if t.coin(0.1) else {})


def unroll(t: Board) -> Call | None:
    s = t.loop()
    if s is None:
        return None
    return Call((t.handle(s),), {} if t.coin(0.4) else {"max_steps": t.size(16)})


def bind(t: Board) -> Call | None:
    s = t.loop()
    axis = t.rng.choice(["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread.x"])
    return None if s is None else Call((t.handle(s), axis))


def pipeline(t: Board) -> Call | None:
    s = t.loop(lambda s: len(s.body) > 1 and s.kind == "serial")
    if s is None:
        return None
    return Call((t.handle(s),), {"stages": t.rng.choice([2, 2, 3, 4]), **t.rng.choice([{}, {"copy": "cp_async"}])})


def annotate(t: Board) -> Call | None:
    thing = t.loop() if t.coin() else t.block()
    return None if thing is None else Call((t.handle(thing), t.rng.choice(["note", "mark"]), t.size(9)))


def unannotate(t: Board) -> Call | None:
    things = [(x, k) for x in (*t.blocks, *t.loops) for k, _ in x.annotations if k in ("note", "mark")]
    if not things:
        thing = t.block()
        if thing is None:
            return None
        t.schedule.apply("annotate", t.handle(thing), "note", t.rng.randint(0, 9))
        return Call((t.handle(thing), "note"))
    thing, key = t.rng.choice(things)
    return Call((t.handle(thing), key))


LOOP_MOVES: dict[str, Proposal] = {
    f.__name__: f
    for f in (
        split,
        fuse,
        reorder,
        add_unit_loop,
        loop_partition,
        merge,
        fission,
        specialize,
        parallel,
        vectorize,
        unroll,
        bind,
        pipeline,
        annotate,
        unannotate,
    )
}
