"""What stands above blocks besides loops: branches, loops that run while something holds, values; and indices that
blocks change."""

from __future__ import annotations

from collections.abc import Callable

from tests.property.instances import deciding, nests, reductions, shared
from tests.property.instances.scene import Scene
from tests.property.instances.sites import Axis, Lines, Site, around, indented

INSIDE: tuple[Callable[[Scene], Lines], ...] = (
    nests.mapped,
    nests.chained,
    nests.in_place,
    nests.filled,
    reductions.reduced,
    reductions.followed,
    shared.side_by_side,
    deciding.counted,
)
"""What is put under a branch."""


def _braced(head: str, *bodies: Lines) -> Lines:
    return [f"{head} {{", *(x for body in bodies for x in indented(body)), "}"]


def _some(scene: Scene) -> Lines:
    return scene.rng.choice(INSIDE)(scene)


def asked(scene: Scene) -> Lines:
    """A branch around nests, on a number that what is in it may change."""
    flag = scene.new((1,), "inout", "i32")
    flag.bound = 300
    change = Site(scene, "s", []).lines([f"{flag.name}[0] = {scene.rng.choice(['0', '1', f'{flag.name}[0] - 1'])}"])
    then = [_some(scene)]
    if scene.coin(0.7):
        then.insert(scene.rng.choice([0, 1]), change)
    test = scene.rng.choice([f"{flag.name}[0] > 0", f"{flag.name}[0] <= 0", scene.flag()])
    lines = _braced(f"if {test}", *then)
    if scene.coin(0.4):
        lines[-1] = "} else {"
        lines += [*indented(_some(scene)), "}"]
    return around(scene.name("l"), f"0..{scene.rng.choice([1, 2, 3])}", lines) if scene.coin(0.4) else lines


def lasting(scene: Scene) -> Lines:
    """A loop that runs while a counter is below a number; what is in it may ask for the counter."""
    count, turns = scene.new((1,), "alloc", "i32"), scene.rng.choice([0, 1, 2, 3])
    count.whole = count.read = True
    count.bound = 4
    # Seed 30, pair 3444: a sum into the counter made it smaller in each turn, until it wrapped round.
    count.held = True
    start = Site(scene, "z", []).lines([f"{count.name}[0] = 0"])
    step = Site(scene, "s", []).lines([f"{count.name}[0] = {count.name}[0] + 1"])
    n, loop = scene.dim(), scene.name("l")
    target = scene.new((n,), "inout", "i32")
    site = Site(scene, "w", [Axis("i", n, at=loop)])
    own = around(loop, f"0..{n}", site.lines([f"{target.name}[i] = {target.name}[i] + {count.name}[0]"]))
    parts = [own, step]
    if scene.coin(0.4):
        parts.insert(scene.rng.choice([0, 1, 2]), _some(scene))
    count.held = False
    return [*start, *_braced(f"while {count.name}[0] < {turns}", *parts)]


def told(scene: Scene) -> Lines:
    """A value between a loop and a block, which an axis is bound to."""
    n, loop, value = scene.constant(), scene.name("l"), scene.name("q")
    given = scene.new((n,), scene.rng.choice(["in", "inout"]), "i32")
    given.read = True
    data = f"min(i64(max({given.name}[{loop}], 0)), {n - 1})"
    at = scene.rng.choice([f"{n - 1} - {loop}", f"({loop} + 1) % {n}", data, data])
    kind = "opaque" if at == data else "spatial"
    site = Site(scene, "t", [Axis("x", n, at=loop), Axis("i", n, kind, value)])
    target = scene.new((n,), "inout", "i32")
    body = [f"{target.name}[i] = {target.name}[i] + {scene.rng.choice(['1', 'i32(x)', f'{given.name}[x]'])}"]
    if given.written:
        place = scene.rng.choice(["x", f"({scene.rng.choice(['x', 'i'])} + 1) % {n}"])
        body.insert(scene.rng.choice([0, 1]), f"{given.name}[{place}] = {scene.rng.randint(0, n)}")
    inside = [f"let {value} = {at}", *site.lines(body)]
    if scene.coin(0.3):
        inside = _braced(f"if {loop} < {scene.rng.randint(1, n)}", inside)
    return around(loop, f"0..{n}", inside)


def redirected(scene: Scene) -> Lines:
    """Elements whose place is loaded from what the block, or one beside it, changes."""
    n, loop, dtype = scene.constant(), scene.name("l"), "i32"
    places, target = scene.new((n,), "inout", "i32"), scene.new((n,), "inout", dtype)
    place = f"min(i64(max({places.name}[x], 0)), {n - 1})"
    other = scene.rng.choice(["x", "x", f"(x + 1) % {n}", f"{n - 1} - x"])
    change = f"{places.name}[{other}] = {scene.rng.choice(['0', '1', f'{places.name}[x] + 1', f'{target.name}[x]'])}"
    use = scene.rng.choice(
        [
            f"{target.name}[{place}] = {target.name}[{place}] + 1",
            f"{target.name}[x] = {target.name}[{place}] + 1",
            f"{target.name}[{place}] = i32(x)",
        ]
    )
    site = Site(scene, "d", [Axis("x", n, scene.rng.choice(["opaque", "scan", "spatial"]), loop)])
    if scene.coin(0.6):
        steps = [use, change]
        scene.rng.shuffle(steps)
        return around(loop, f"0..{n}", site.lines(steps))
    beside = Site(scene, "e", [Axis("x", n, at=loop)])
    parts = [site.lines([use]), beside.lines([change])]
    scene.rng.shuffle(parts)
    return around(loop, f"0..{n}", *parts)


KINDS: tuple[Callable[[Scene], Lines], ...] = (asked, lasting, told, redirected)

__all__ = ["KINDS"]
