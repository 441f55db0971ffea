"""Programs drawn: a few nests over shared buffers, as text that parses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mslang.ir.program import Program
from mslang.sema.program import parse_program
from tests.property.instances import branched, deciding, enclosed, misleading, nests, reductions, shared, unfinished
from tests.property.instances.scene import Buffer, Dim, Scene
from tests.property.instances.sites import Lines, indented

KINDS: Mapping[Callable[[Scene], Lines], int] = {
    nests.mapped: 14,
    nests.chained: 8,
    nests.condensed: 2,
    nests.in_place: 6,
    nests.scanned: 5,
    nests.scattered: 5,
    nests.padded: 6,
    nests.indexed: 4,
    nests.several: 4,
    nests.viewed: 2,
    nests.ragged: 3,
    nests.filled: 3,
    reductions.reduced: 20,
    reductions.elsewhere: 6,
    reductions.product: 8,
    reductions.followed: 6,
    reductions.positions: 4,
    reductions.nested: 3,
    reductions.running: 4,
    shared.side_by_side: 16,
    shared.halo: 5,
    shared.staged: 4,
    deciding.continued: 3,
    deciding.hiding: 3,
    deciding.counted: 3,
    deciding.watched: 4,
    deciding.bounded: 1,
    deciding.aliased: 1,
}
"""The kinds of nests, and how often each is drawn."""

FOR: Mapping[str, Callable[[Scene], Lines]] = {
    "rolling_buffer": shared.halo,
    "decompose_padding": nests.padded,
    "cache_index": nests.indexed,
    "compute_inline": nests.chained,
    "reverse_compute_inline": shared.inlined,
    "compute_at": nests.chained,
    "reverse_compute_at": shared.chained,
    "merge": nests.chained,
    "pipeline": shared.staged,
    "tensorize": lambda scene: nests.shifted(scene) if scene.coin(0.3) else reductions.product(scene),
    "pad_einsum": reductions.product,
    "change_signedness": reductions.product,
    "fuse_reduction_epilogue": shared.followed,
    "rfactor": reductions.reduced,
    "decompose_reduction": reductions.reduced,
    "rolling_update": reductions.relative,
    "atomic": reductions.reduced,
    "cache_inplace": nests.in_place,
    "fission": shared.side_by_side,
    "read_at": shared.side_by_side,
    "write_at": shared.side_by_side,
}
"""The kind of nest that has what a primitive is for."""


ALSO: Mapping[str, Callable[[Scene], Lines]] = {
    "change_signedness": reductions.integer_product,
    "atomic": reductions.added,
    "rolling_buffer": shared.halo,
    "rolling_update": reductions.relative,
}
"""Primitives that hardly any other nest has a place for, and the nest that has."""


UNUSUAL = 0.12
"""How often a program has one nest more, of those that few programs have: three times."""


class Drawn(msgspec.Struct, frozen=True):
    """A program; which parameters hold indices, and below what; the ranges of its sizes; and the buffers in which the
    position of the greatest or least element is sought."""

    program: Program
    text: str
    indices: Mapping[str, Dim]
    sizes: Mapping[str, tuple[int, int, int]]
    compared: frozenset[str] = frozenset()


def draw(rng: random.Random, focus: str = "", also: str = "") -> Drawn:
    """A program of one to three nests; of those, one has what the primitive `focus` is for. One more is for `also`."""
    scene = Scene(rng)
    lines: Lines = []
    wanted = rng.choice([1, 1, 2, 2, 2, 3])
    special = rng.randrange(wanted) if focus in FOR else -1
    for k in range(wanted):
        kind = FOR[focus] if k == special else rng.choices(list(KINDS), list(KINDS.values()))[0]
        lines += kind(scene)
    if also:
        lines += ALSO[also](scene)
    lines += _unusual(scene, random.Random("\n".join(["unusual", *lines])), (*misleading.KINDS, *branched.KINDS))
    lines += _unusual(scene, random.Random("\n".join(["enclosed", *lines])), enclosed.KINDS)
    lines += _unusual(scene, random.Random("\n".join(["unfinished", *lines])), (unfinished.refilled,))
    _spread(scene, random.Random("\n".join(lines)))
    text = _text(scene, lines)
    return Drawn(parse_program(text), text, scene.indices, scene.sizes, frozenset(scene.compared))


def _unusual(scene: Scene, rng: random.Random, kinds: Sequence[Callable[[Scene], Lines]]) -> Lines:
    """One nest more of some kinds, or none; from a source of its own: pairs without stay what they were."""
    if rng.random() >= UNUSUAL:
        return []
    before, scene.rng = scene.rng, rng
    lines = rng.choice(kinds)(scene)
    scene.rng = before
    return lines


def _spread(scene: Scene, rng: random.Random) -> None:
    """Strides and offsets for some of the parameters: gaps between rows and elements, and columns side by side."""
    if rng.random() >= 0.2:
        return
    for b in scene.buffers:
        if b.direction == "alloc" or rng.random() < 0.5:
            continue
        columns = rng.random() < 0.25
        step = str(rng.choice([1, 1, 2]))
        found: list[str] = []
        for d in b.shape if columns else reversed(b.shape):
            found.append(step)
            gap = rng.choice(["", "", " + 2"])
            step = f"{step} * {d}{gap}" if "+" not in step else f"({step}) * {d}{gap}"
        given = [f"strides = [{', '.join(found if columns else reversed(found))}]"]
        if rng.random() < 0.4:
            given.append(f"offset = {rng.choice([0, 3, 8])}")
        b.scope = f" @ global({', '.join(given)})"


def _text(scene: Scene, lines: Lines) -> str:
    """The program. What it computes for nobody becomes a result."""
    for b in scene.buffers:
        if b.direction == "alloc" and not b.read:
            b.direction, b.scope = "out", ""
    used = [b for b in scene.buffers if any(f"{b.name}[" in line for line in lines)]
    if not any(b.written and b.direction != "alloc" for b in used):
        last = next(b for b in reversed(used) if b.written)
        last.direction, last.scope = "out", ""
    told = {d for b in used if b.direction != "alloc" for d in b.shape}
    params = ", ".join(
        [
            *(_declared(b) + scene.ranges.get(b.name, "") for b in used if b.direction != "alloc"),
            *(f"S{n}: i8[{n}]" for n in scene.sizes if n not in told),
        ]
    )
    sizes = ", ".join(
        f"{n}: dyn({lo}..{hi}{f', multiple = {m}' if m > 1 else ''})" for n, (lo, hi, m) in scene.sizes.items()
    )
    allocs = [f"alloc {b.name}: {b.dtype}[{_shape(b)}]{b.scope}" for b in used if b.direction == "alloc"]
    head = f"program t{f'[{sizes}]' if sizes else ''}({params}) {{"
    return "\n".join([head, *indented([*allocs, *lines]), "}"]) + "\n"


def _declared(b: Buffer) -> str:
    direction = "" if b.direction == "in" else f"{b.direction} "
    return f"{direction}{b.name}: {b.dtype}[{_shape(b)}]{b.scope}"


def _shape(b: Buffer) -> str:
    return ", ".join(str(d) for d in b.shape)
