"""Random steps: blocks made of loops and of blocks, and instructions in the place of tiles.

The instructions are made from the program itself: the description of a tile of it, with the same as a program, or, of
copies and fills, as LLVM text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from mslang.diagnostics import ScheduleError
from mslang.ir import arith
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Const, Expr, Load, Symbol, Var
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.intrin import Intrin
from mslang.ir.program import Axis, Block, Buffer, For, Param, Program, Range, Stmt, Store
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, free_vars, map_expr, substitute, walk_expr, walk_paths
from mslang.transform.analysis.position import axis_ranges, leaves
from mslang.transform.analysis.unify import Mismatch, side
from mslang.transform.outcome import BlockRef, LoopRef
from mslang.transform.primitives.blockize import blockize
from tests.property.steps import Family, Step, Steps

ELEMENTS = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "i8": "i8", "u8": "i8", "i16": "i16"}

MOST_ELEMENTS = 64


def _chain(s: Stmt) -> Block | None:
    """The one block that a statement leads to through loops alone."""
    while isinstance(s, For) and len(s.body) == 1:
        s = s.body[0]
    return s if isinstance(s, Block) else None


def _single(p: Program) -> list[str]:
    """The loops under which one block stands."""
    return [q[-1].var for q in walk_paths(p.body) if isinstance(q[-1], For) and _chain(q[-1]) is not None]


def _bodies(p: Program) -> Iterator[Sequence[Stmt]]:
    yield p.body
    for q in walk_paths(p.body):
        if isinstance(q[-1], For | Block):
            yield q[-1].body


def _blockize(m: Steps, p: Program) -> Step | None:
    if m.rng.random() < 0.3:
        runs = [tuple(_chain(s) for s in body) for body in _bodies(p) if len(body) > 1]
        found: list[tuple[BlockRef, ...]] = []
        for run in runs:
            for k, first in enumerate(run[:-1]):
                second = run[k + 1]
                if first is not None and second is not None:
                    found.append((BlockRef(first.name), BlockRef(second.name)))
        if found:
            return "blockize", ([*m.rng.choice(found)],), {}
    loops = _single(p)
    return ("blockize", (LoopRef(m.rng.choice(loops)),), {}) if loops else None


# ------------------------------------------------------------------ instructions
def _tensorize(m: Steps, p: Program) -> Step | None:
    paths = [q for q in walk_paths(p.body) if isinstance(q[-1], For) and _chain(q[-1]) is not None]
    m.rng.shuffle(paths)
    for path in paths[:4]:
        loop = path[-1]
        assert isinstance(loop, For)
        made = described(p, loop, m.rng)
        if made is not None:
            return "tensorize", (LoopRef(loop.var), made), {}
    blocks = [q[-1].name for q in walk_paths(p.body) if isinstance(q[-1], Block) and _holds_blocks(q[-1])]
    if not blocks:
        return None
    name = m.rng.choice(blocks)
    made = _of_block(p, path_to_block(p, name) or (), m.rng)
    return None if made is None else ("tensorize", (BlockRef(name), made), {})


def _holds_blocks(b: Block) -> bool:
    return bool(leaves(*b.body))


def described(p: Program, loop: For, rng: random.Random) -> Intrin | None:
    """An intrinsic that does what stands under a loop, if that can be a block."""
    try:
        done = blockize(p, LoopRef(loop.var))
    except ScheduleError:
        return None
    return _of_block(done.program, path_to_block(done.program, done.handles[0].name) or (), rng)


def _of_block(p: Program, path: Path, rng: random.Random) -> Intrin | None:
    block = path[-1]
    assert isinstance(block, Block)
    ranges, buffers = axis_ranges(block), all_buffers(p)
    try:
        tile = side(block.body, buffers, ranges, "tile")
    except Mismatch:
        return None
    nest: list[For] = []
    body = tile.body
    while len(body) == 1 and isinstance(s := body[0], For):
        nest.append(s)
        body = s.body
    stores = [s for s in body if isinstance(s, Store)]
    if len(stores) != len(body) or any(not isinstance(s.extent, Const) or s.start != Const(0) for s in nest):
        return None
    operands: dict[str, tuple[Param, tuple[Expr, ...]]] = {}
    for write, regions in ((True, block.writes), (False, block.reads)):
        for r in regions:
            shape = [d.extent for d in r.ranges]
            if not all(isinstance(n, Const) for n in shape):
                return None
            direction = "inout" if write else "in"
            own = Buffer(f"o{len(operands)}", buffers[r.buffer].dtype, tuple(shape))
            operands.setdefault(r.buffer, (Param(own, direction), tuple(d.start for d in r.ranges)))
    inner = {s.var for s in nest}
    names = {s.var: f"l{k}" for k, s in enumerate(nest)}

    def moved(buffer: str, indices: tuple[Expr, ...]) -> tuple[str, tuple[Expr, ...]] | None:
        if buffer not in operands:
            return None
        param, starts = operands[buffer]
        here = tuple(arith.simplify(arith.sub(i, a), tile_ranges) for i, a in zip(indices, starts, strict=True))
        if any(free_vars(e) - inner for e in here):
            return None
        return param.buffer.name, tuple(substitute(e, {v: Var(f"a{n[1:]}") for v, n in names.items()}) for e in here)

    tile_ranges = {**ranges, **{s.var: Range(s.start, s.extent) for s in nest}}
    made: list[Stmt] = []
    for s in stores:
        target = moved(s.buffer, s.indices)
        failed = False

        def load(e: Expr) -> Expr | None:
            nonlocal failed
            if not isinstance(e, Load):
                return None
            at = moved(e.buffer, e.indices)
            failed = failed or at is None
            return e if at is None else Load(at[0], at[1], e.dtype)

        value = map_expr(s.value, load)
        if target is None or failed or free_vars(value) & {*ranges, *inner} or _symbols(value):
            return None
        made.append(Store(target[0], target[1], value))
    if not nest or any(len(tile.kinds.get(s.var, ())) != 1 for s in nest):
        return None
    axes = tuple(Axis(f"a{k}", s.extent, *tile.kinds[s.var], Var(f"l{k}")) for k, s in enumerate(nest))
    over = {a.name: Range(Const(0), a.extent) for a in axes if a.kind == "spatial"}
    if not all(_apart(s, over) for s in made if isinstance(s, Store)):
        return None
    params = tuple(q for q, _ in operands.values())
    own = {q.buffer.name: q.buffer for q in params}
    small = Block("tile", axes, (), (), tuple(made))
    reads, writes = infer_regions(small, own)
    stmt: Stmt = replace(small, reads=reads, writes=writes)
    for k, s in reversed(list(enumerate(nest))):
        stmt = For(f"l{k}", s.extent, (stmt,))
    desc = Program("made", params, (stmt,))
    text = _text(desc, nest, made, own) if rng.random() < 0.6 else None
    name = f"made_{rng.randrange(3)}"
    if text is not None:
        return Intrin(name, replace(desc, name=name), None, None, (("llvm", text),))
    return Intrin(name, replace(desc, name=name), None, replace(desc, name=name))


def _apart(s: Store, axes: dict[str, Range]) -> bool:
    """Does a store write another element for each value of the spatial axes, as they promise?"""
    found = arith.detect(s.indices, axes)
    return isinstance(found, arith.IterMap) and found.level != "affine"


def _symbols(e: Expr) -> bool:
    return any(isinstance(x, Symbol) for x in walk_expr(e))


def _text(desc: Program, nest: Sequence[For], body: Sequence[Stmt], own: dict[str, Buffer]) -> str | None:
    """LLVM text of a tile that copies or fills, element by element."""
    if len(body) != 1 or not isinstance(s := body[0], Store):
        return None
    if not isinstance(s.value, Load | Const) or own[s.buffer].dtype not in ELEMENTS:
        return None
    indices = (*s.indices, *(s.value.indices if isinstance(s.value, Load) else ()))
    if any(isinstance(x, Load) for e in indices for x in walk_expr(e)):
        # The addresses are written out as numbers, which are not known before the program runs.
        return None
    element = ELEMENTS[own[s.buffer].dtype]
    points: list[dict[str, int]] = [{}]
    for k, loop in enumerate(nest):
        points = [{**at, f"a{k}": n} for at in points for n in range(int(loop.extent.value))]
    if len(points) > MOST_ELEMENTS:
        return None
    lines: list[str] = []

    def address(buffer: str, indices: tuple[Expr, ...], at: dict[str, int], tag: str) -> str:
        total = "0"
        for d, e in enumerate(indices):
            index = arith.evaluate(e, at)
            lines.append(f"%{tag}m{d} = mul i64 {{{buffer}.stride{d}}}, {index}")
            lines.append(f"%{tag}s{d} = add i64 {total}, %{tag}m{d}")
            total = f"%{tag}s{d}"
        lines.append(f"%{tag}p = getelementptr {element}, ptr {{{buffer}}}, i64 {total}")
        return f"%{tag}p"

    for n, at in enumerate(points):
        if isinstance(s.value, Load):
            where = address(s.value.buffer, s.value.indices, at, f"r{n}_")
            lines.append(f"%v{n} = load {element}, ptr {where}, align 1")
            value = f"%v{n}"
        elif element in ("float", "double"):
            value = f"{float(s.value.value):e}" if s.value.value in (0, 1, -1, 0.5, 2) else ""
        else:
            value = str(int(s.value.value))
        if not value:
            return None
        lines.append(f"store {element} {value}, ptr {address(s.buffer, s.indices, at, f'w{n}_')}, align 1")
    return "\n".join(lines)


# ------------------------------------------------------------------ programs
def tiles(rng: random.Random) -> Program:
    """A product or an element-wise step of sizes that tile, with a copy before it."""
    n, k = rng.choice([4, 8]), rng.choice([4, 8, 6])
    b = ProgramBuilder("tiles")
    a, w = b.input("A", (n, k)), b.input("B", (k, n))
    c, t = b.output("C", (n, n)), b.alloc("T", (n, k))
    with b.block("copy", spatial("x", n), spatial("y", k)) as (x, y):
        t[x, y] = a[x, y] if rng.random() < 0.7 else a[x, y] + 1.0
    if rng.random() < 0.7:
        with b.block("mm", spatial("x", n), spatial("y", n), reduce("z", k)) as (x, y, z):
            c[x, y] += t[x, z] * w[z, y]
    else:
        with b.block("add", spatial("x", n), spatial("y", n)) as (x, y):
            c[x, y] = w[x % k, y] + 2.0
    return b.finish()


FAMILY = Family(
    steps={"blockize": _blockize, "tensorize": _tensorize},
    weights={"blockize": 3, "tensorize": 3},
    programs=(tiles,),
)
