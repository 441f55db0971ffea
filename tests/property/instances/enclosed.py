"""What reading found that no nest had: reductions under branches and values, axes of all kinds beside each other, data
that grow while they bound, buffers by other names, and elements of a block's own that lie over those of others."""

from __future__ import annotations

from collections.abc import Callable

from tests.property.instances.scene import Scene
from tests.property.instances.sites import Axis, Lines, Site, around


def _summed(scene: Scene, kind: str = "spatial") -> tuple[Site, str, str, Lines, str]:
    """A reduction `S[x] += A[x, y]` over two loops: its site, these, its body, and what it reduces into."""
    n, m = scene.constant(), scene.constant()
    i, k = scene.name("l"), scene.name("l")
    source, target = scene.new((n, m), "in", "i32"), scene.new((n,), "inout", "i32")
    source.read = True
    axes = [Axis("x", n, at=i if kind == "spatial" else "0"), Axis("y", m, "reduce", k)]
    if kind != "spatial":
        axes.insert(1, Axis("o", n, kind, i))
    row = "x" if kind == "spatial" else "o"
    start = scene.rng.choice(["0", "0", "1"])
    body = [
        f"init {{ {target.name}[x] = {start} }}",
        f"{target.name}[x] = {target.name}[x] + {source.name}[{row}, y]",
    ]
    site = Site(scene, "e", axes)
    return site, f"{i} in 0..{n}", f"{k} in 0..{m}", body, target.name


def _headed(head: str, lines: Lines) -> Lines:
    return [f"{head} {{", *(f"    {x}" for x in lines), "}"]


def under(scene: Scene) -> Lines:
    """A reduction under a branch, a `while` loop that runs once, or a value, between its loops."""
    site, outer, inner, body, _ = _summed(scene)
    n = site.axes[0].dim
    i = outer.partition(" ")[0]
    flags = scene.new((n,), "inout", "i32")
    flags.read, flags.bound = True, 4
    nest = _headed(f"for {inner}", site.lines(body))
    form = scene.rng.choice(["if", "if", "else", "let", "while"])
    match form:
        case "if":
            nest = _headed(f"if {flags.name}[{i}] > 0", nest)
        case "else":
            nest = [*_headed(f"if {flags.name}[{i}] > 0", nest)[:-1], "} else {", f"    {flags.name}[{i}] = 1", "}"]
        case "let":
            nest = [f"let {scene.name('q')} = {flags.name}[{i}]", *nest]
        case "while":
            flags.held = True
            done = Site(scene, "f", [Axis("x", n, "opaque", i)]).lines([f"{flags.name}[x] = 0"])
            nest = _headed(f"while {flags.name}[{i}] > 0", [*nest, *done])
            flags.held = False
    return _headed(f"for {outer}", nest)


def repeated(scene: Scene) -> Lines:
    """A reduction that an opaque axis or a scan starts again and again."""
    site, outer, inner, body, _ = _summed(scene, scene.rng.choice(["opaque", "scan"]))
    loops = [outer, inner]
    scene.rng.shuffle(loops)
    return _headed(f"for {loops[0]}", _headed(f"for {loops[1]}", site.lines(body)))


def growing(scene: Scene) -> Lines:
    """A nest whose bounds or bindings are loaded from what a block beside it increases."""
    n, m = scene.constant(), scene.constant()
    i, j = scene.name("l"), scene.name("l")
    source, target = scene.new((m,), "in", "i32"), scene.new((n, m), "inout", "i32")
    count = scene.new((1,), "inout", "i32")
    source.read, count.bound = True, 300
    data = f"min(i64(max({count.name}[0], 0)), {m})"
    if scene.coin():
        site = Site(scene, "g", [Axis("x", n, at=i), Axis("y", m, at=j)])
        used = _headed(f"for {j} in 0..{data}", site.lines([f"{target.name}[x, y] = {source.name}[y] * 2"]))
    else:
        place = f"min(i64(max({count.name}[0], 0)), {m - 1})"
        site = Site(scene, "g", [Axis("x", n, at=i), Axis("y", m, at=j), Axis("q", m, "opaque", place)])
        at = scene.rng.choice(["q", f"(q * 3) % {m}"])
        used = _headed(f"for {j} in 0..{m}", site.lines([f"{target.name}[x, y] = {source.name}[{at}] * 2"]))
    more = Site(scene, "h", [Axis("u", n, "opaque", i)]).lines([f"{count.name}[0] = {count.name}[0] + 1"])
    parts = [used, more] if scene.coin(0.7) else [more, used]
    return around(i, f"0..{n}", *parts)


def large(scene: Scene) -> Lines:
    """A value that may be any number of 64 bits, in indices or in the bindings below it."""
    n, loop, value = scene.constant(), scene.name("l"), scene.name("q")
    data, source, target = (
        scene.new((n,), "in", "i64"),
        scene.new((n,), "in", "i32"),
        scene.new((n, n), "inout", "i32"),
    )
    data.read = source.read = True
    part = scene.rng.choice([f"({value} * 4) // 4", f"({value} + {value}) // 2", f"max({value} + 1, {value})"])
    place = f"min(max({part}, 0), {n - 1})"
    if scene.coin():
        site = Site(scene, "v", [Axis("x", n), Axis("y", n)])
        return site.lines([f"let {value} = {data.name}[x]", f"{target.name}[x, y] = {source.name}[{place}]"])
    inner = scene.name("l")
    site = Site(scene, "v", [Axis("x", n, at=loop), Axis("y", n, at=inner), Axis("z", n, "opaque", place)])
    nest = _headed(f"for {inner} in 0..{n}", site.lines([f"{target.name}[x, y] = {source.name}[z]"]))
    return around(loop, f"0..{n}", [f"let {value} = {data.name}[{loop}]", *nest])


def viewed(scene: Scene) -> Lines:
    """A reduction in a block with a view, which asks for what it updates by that name."""
    n, m, outer, view = scene.constant(), scene.constant(), scene.name("o"), scene.name("V")
    i, k = scene.name("l"), scene.name("l")
    source, target = scene.new((n, m), "in", "i32"), scene.new((n,), "inout", "i32")
    source.read = True
    other = f"{view}[(y + 1) % {n}]"
    where = scene.rng.choice(["", "", f"where {view}[({k} + 1) % {n}] > 0"])
    value = f"{source.name}[x, y]" if where else scene.rng.choice([other, f"min({source.name}[x, y], {other})"])
    site = Site(scene, "n", [Axis("x", n, at=i), Axis("y", m, "reduce", k)])
    start = scene.rng.choice(["", f"init {{ {target.name}[x] = 0 }}", "init {}"])
    body = [x for x in (where, start, f"{target.name}[x] = {target.name}[x] + {value}") if x]
    nest = _headed(f"for {i} in 0..{n}, {k} in 0..{m}", site.lines(body))
    head = [
        f"reads {source.name}[0..{n}, 0..{m}], {target.name}[0..{n}]",
        f"writes {target.name}[0..{n}]",
        f"view {view}: i32[{n}] = {target.name}[0..{n}]",
    ]
    return _headed(f"block {outer}[z: 1]", [*head, *nest])


def own(scene: Scene) -> Lines:
    """A block with memory of its own, at places that move with its axis and over those of others."""
    n, temp = scene.constant(), scene.name("t")
    source, target = scene.new((n, 4), "in", "i32"), scene.new((n, 4), "inout", "i32")
    source.read = True
    at = scene.rng.choice(["x", "x", f"{n - 1} - x", "x * 2", "0"])
    site = Site(scene, "w", [Axis("x", n)], short=True)
    if scene.coin():
        first, second = (f"{temp}[{at} + p]", f"{temp}[{at} + q]")
        steps = [
            f"for p in 0..4 {{ {first} = {source.name}[x, p] }}",
            f"for q in 0..4 {{ {target.name}[x, q] = {second} }}",
        ]
    else:
        steps = [
            f"{temp}[{at}] = {source.name}[x, 0]",
            f"{temp}[{at} + 1] = {source.name}[x, 1] + 1",
            f"{target.name}[x, 2] = {temp}[{at}] + {temp}[{at} + 1]",
        ]
    lines = site.lines([f"alloc {temp}: i32[{2 * n + 4}]", *steps])
    return around(scene.name("l"), f"0..{scene.rng.choice([1, 2])}", lines) if scene.coin(0.3) else lines


KINDS: tuple[Callable[[Scene], Lines], ...] = (under, repeated, growing, large, viewed, own)

__all__ = ["KINDS"]
