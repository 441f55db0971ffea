"""Nests that mislead lowering: data that change while they are still asked for, names that are given twice, and
comparisons whose sides overflow."""

from __future__ import annotations

from collections.abc import Callable

from tests.property.instances.scene import Buffer, Scene
from tests.property.instances.sites import Axis, Lines, Site, around


def _place(scene: Scene, below: int) -> Buffer:
    """A parameter that holds one index, and may be written."""
    made = Buffer(scene.name("I"), scene.rng.choice(["i64", "i32"]), (1,), "inout", True)
    scene.indices[made.name] = below
    scene.buffers.append(made)
    return made


def compared(scene: Scene) -> Lines:
    """Conditions about 64-bit data, whose sums and differences wrap round."""
    n, dtype = scene.constant(), scene.rng.choice(["i64", "i64", "u64"])
    target, left, right = scene.target((n,), False), scene.new((n,), "in", dtype), scene.new((n,), "in", dtype)
    left.read = right.read = True
    site = Site(scene, "c", [Axis("i", n)])
    value, _ = scene.leaf(scene.dtype, site.names)
    one, axis = scene.literal(dtype, 1), "i" if dtype == "i64" else "u64(i)"
    a, b = f"{left.name}[i]", f"{right.name}[i]"
    first = scene.rng.choice([a, f"{a} + {b}", f"{a} - {b}", f"{a} * {scene.literal(dtype, 3)}", f"{a} + {one}"])
    second = scene.rng.choice([b, axis, f"{axis} + {one}", f"{b} - {one}", one, scene.literal(dtype, 0)])
    test = f"{first} {scene.rng.choice(['<', '<=', '>', '>=', '==', '!='])} {second}"
    if scene.coin(0.3):
        test = f"not ({test})"
    store = f"{target.name}[i] = {scene.literal(scene.dtype, 1) if f'{target.name}[' in value else value}"
    return site.lines([f"if {test} {{ {store} }}"]) if scene.coin() else site.lines([store], where=[test])


def renamed(scene: Scene) -> Lines:
    """A value in a block that has the name of the loop around it."""
    n, loop = scene.dim(), scene.name("l")
    site = Site(scene, "n", [Axis("i", n, at=loop)])
    target = scene.target((n,), False)
    value, bound = scene.leaf(scene.dtype, site.names)
    if f"{target.name}[" in value:
        value, bound = scene.literal(scene.dtype, 1), 1
    used = f"{loop}, {scene.literal(scene.dtype, 1)}"
    target.bound = max(target.bound, bound, 1)
    value = value if scene.dtype == "bool" else f"{scene.dtype}({value})"
    body = [f"let {loop} = {value}", f"{target.name}[i] = {scene.rng.choice(['max', 'min'])}({used})"]
    if scene.dtype == "bool":
        body[1] = f"{target.name}[i] = {loop}"
    return around(loop, f"0..{n}", site.lines(body))


def rebounded(scene: Scene) -> Lines:
    """Loops in a block that change how often they, or loops in them, are to run."""
    n, most, dtype = scene.constant(), scene.rng.choice([2, 3, 5]), "i32"
    counts, target = scene.new((n,), "inout", dtype), scene.new((n, most), "inout", dtype)
    site = Site(scene, "k", [Axis("x", n)])
    span = f"min(i64(max({counts.name}[x], 0)), {most})"
    store, change = (
        f"{target.name}[x, q] = {target.name}[x, q] + 1",
        f"{counts.name}[x] = {scene.rng.choice([0, 1, 5])}",
    )
    begin = scene.rng.choice(["0", "0", f"min(i64(max({counts.name}[x], 0)), 1)"])
    steps = [store, change]
    scene.rng.shuffle(steps)
    kind = scene.rng.choice(["", "", " @ unrolled"])
    if scene.coin():
        return site.lines([f"for q in {begin}..{span}{kind} {{ {'  '.join(steps)} }}"])
    inner = f"for q in 0..{span}{kind} {{ {'  '.join(steps)} }}"
    return site.lines([f"for p in 0..{scene.rng.choice([2, 3])} {{ {inner} }}"])


def moving(scene: Scene) -> Lines:
    """A block whose axis is what data say, which it changes."""
    n, turns, dtype = scene.constant(), scene.rng.choice([2, 3, 4]), "i32"
    at, target = _place(scene, n), scene.new((n,), "inout", dtype)
    loop = scene.name("l")
    new = scene.rng.choice([f"{n - 1} - i", f"(i + 1) % {n}", "0", f"min(i + 1, {n - 1})"])
    view = scene.name("V")
    window, stored = scene.rng.choice([(f"view {view}: {at.dtype}[1] = {at.name}[0..1]", view), ("", at.name)])
    steps = [f"{stored}[0] = {at.dtype}({new})", f"{target.name}[i] = {target.name}[i] + 1"]
    scene.rng.shuffle(steps)
    site = Site(scene, "m", [Axis("i", n, "opaque", f"i64({at.name}[0])")])
    where = [f"i < {scene.rng.randint(1, n)}"] if scene.coin(0.4) else []
    return around(loop, f"0..{turns}", site.lines([line for line in (window, *steps) if line], where=where))


def remembered(scene: Scene) -> Lines:
    """A temporary in a block, indexed by data that change between its uses."""
    n, room, dtype = scene.constant(), scene.rng.choice([4, 8]), "i32"
    target, temp, at = scene.target((n,), True, dtype), scene.name("t"), scene.name("a")
    target.whole, target.bound = True, 300
    site = Site(scene, "u", [Axis("i", n)], short=True)
    first, second = scene.rng.sample(range(room), 2)
    index = scene.rng.choice(["i64", "i32"])
    here = f"{temp}[{at}[0]]" if index == "i64" else f"{temp}[i64({at}[0])]"

    def go(to: int) -> str:
        return f"{at}[0] = {index}({to})"

    read = "" if scene.coin() else f"{target.name}[i] = {here}"
    body = [
        f"alloc {temp}: {dtype}[{room}]",
        f"alloc {at}: {index}[1]",
        go(first),
        f"{here} = {dtype}(i)",
        go(second),
        f"{here} = 7",
        *([read] if read else []),
        go(first),
        f"{target.name}[i] = {here}" if not read else f"{target.name}[i] = {target.name}[i] + {here}",
    ]
    return site.lines(body)


KINDS: tuple[Callable[[Scene], Lines], ...] = (compared, renamed, rebounded, moving, remembered)

__all__ = ["KINDS"]
