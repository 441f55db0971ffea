"""Nests that read, in a loop, what its later iterations write again: finished only where the loop has ended."""

from __future__ import annotations

from collections.abc import Sequence

from tests.property.instances.scene import Scene
from tests.property.instances.shared import Shared
from tests.property.instances.sites import Axis, Lines, Site, around


def refilled(scene: Scene) -> Lines:
    """A buffer that is cleared, a loop that fills it while it makes another one, and a block that reads both."""
    made = Shared(scene)
    n, summed = made.n, scene.coin(0.4)
    dtype = "i32" if scene.dtype == "bool" else scene.dtype
    filled = scene.new((n,), scene.rng.choice(["alloc", "out", "inout"]), dtype)
    temp, out = scene.new((n,), "alloc", dtype), scene.new((n,), "out", dtype)
    clear = Site(scene, "z", [Axis("x", n)], short=True).lines([f"{filled.name}[x] = {scene.literal(dtype, 1)}"])
    fill = _made(scene, Site(scene, "f", [made.x()]), filled.name, dtype, ())
    make = _beside(scene, made, temp.name, dtype, summed)
    last = Site(scene, "v", [Axis("x", n)], short=True)
    at = scene.rng.choice(["x", f"{n} - 1 - x", scene.index(n, [("x", n)])])
    use = last.lines([f"{out.name}[x] = {temp.name}[x] + {filled.name}[{at}]"])
    for b in (filled, temp, out):
        b.whole, b.bound, b.read = True, 40, True
    inside = [fill, make] if scene.coin(0.8) else [make, fill]
    if scene.coin(0.15):
        under = Site(scene, "v", [made.x()]).lines([f"{out.name}[x] = {temp.name}[x] + {filled.name}[x]"])
        return [*clear, *around(made.var, f"0..{n}", *inside, under)]
    return [*clear, *around(made.var, f"0..{n}", *inside), *use]


def _beside(scene: Scene, made: Shared, target: str, dtype: str, summed: bool) -> Lines:
    """What makes the other buffer: an element an iteration, perhaps in another order, or all of them in each."""
    n, whole, var = made.n, scene.coin(0.3), scene.name("l")
    at = var if whole else scene.rng.choice([made.at, f"{n} - 1 - {made.var}"])
    sums = [Axis("k", scene.constant(), "reduce", scene.name("l"))] if summed else []
    lines = _made(scene, Site(scene, "m", [Axis("x", n, "spatial", at), *sums]), target, dtype, sums)
    for k in sums:
        lines = around(str(k.at), f"0..{k.dim}", lines)
    return around(var, f"0..{n}", lines) if whole else lines


def _made(scene: Scene, site: Site, target: str, dtype: str, sums: Sequence[Axis]) -> Lines:
    value, _ = scene.small(dtype, scene.leaf(dtype, site.names), 1 if dtype == "bf16" else 4)
    if f"{target}[" in value:
        value = scene.literal(dtype, 2)
    own = f"{target}[x]"
    if not sums:
        return site.lines([f"{own} = {value}"])
    return site.lines([f"{own} = {own} + {value}"], [f"{own} = {scene.literal(dtype, 0)}"])


__all__ = ["refilled"]
