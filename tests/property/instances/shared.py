"""Nests of several blocks under one loop: what one iteration leaves behind, the next finds."""

from __future__ import annotations

from tests.property.instances import nests, reductions
from tests.property.instances.nests import predicate
from tests.property.instances.reductions import combined, init_of
from tests.property.instances.scene import Buffer, Dim, Scene
from tests.property.instances.sites import Axis, Lines, Site, around


class Shared:
    """A loop over an axis `x` that several blocks are bound to."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.n = scene, scene.dim()
        self.var = scene.name("l")
        self.at = self.var if scene.coin(0.85) else f"{self.n} - 1 - {self.var}"
        self.passed: list[Buffer] = []

    def x(self, kind: str = "spatial") -> Axis:
        """The axis of the loop."""
        return Axis("x", self.n, kind, self.at)

    def refill(self) -> Lines:
        """Fill a buffer anew."""
        scene, d = self.scene, self.scene.dim()
        loop = scene.name("l")
        site = Site(scene, "a", [self.x("opaque"), Axis("y", d, "spatial", loop)])
        value, bound = scene.value(scene.dtype, site.names, 1)
        target = scene.new((d,), "alloc")
        if f"{target.name}[" in value:
            value, bound = scene.literal(scene.dtype, 2), 2
        target.whole, target.bound = True, max(bound, target.bound)
        self.passed.append(target)
        return around(loop, f"0..{d}", site.lines([f"{target.name}[y] = {value}"]))

    def part(self) -> Lines:
        """Write a row of its own."""
        scene, d = self.scene, self.scene.dim()
        loop = scene.name("l")
        site = Site(scene, "a", [self.x(), Axis("y", d, "spatial", loop)])
        value, bound = scene.value(scene.dtype, site.names, 1)
        target = scene.new((self.n, d), "alloc")
        target.whole, target.bound = True, bound
        self.passed.append(target)
        return around(loop, f"0..{d}", site.lines([f"{target.name}[x, y] = {value}"]))

    def use(self) -> Lines:
        """Read what was written in this iteration."""
        scene = self.scene
        source = scene.rng.choice(self.passed) if self.passed else scene.source(scene.dtype)
        last: Dim = source.shape[-1]
        loop = scene.name("l")
        site = Site(scene, "w", [self.x(), Axis("y", last, "spatial", loop)])
        rows = ["x"] if source in self.passed and len(source.shape) == 2 else None
        if rows is None and len(source.shape) == 2:
            rows = [scene.index(source.shape[0], [("x", self.n)])]
        reads = [scene.read(source, (), ", ".join([*(rows or []), scene.index(last, [("y", last)])])) for _ in range(2)]
        joined = "!=" if scene.dtype == "bool" else "+"
        where = predicate(scene, site, 0.15)
        target = scene.target((self.n, last), not where)
        if target is source or target in self.passed:
            target = scene.new((self.n, last), "inout")
        target.whole, target.bound = True, max(8, target.bound)
        return around(
            loop, f"0..{last}", site.lines([f"{target.name}[x, y] = {reads[0][0]} {joined} {reads[1][0]}"], where=where)
        )

    def update(self) -> Lines:
        """Reduce into one element."""
        scene, d = self.scene, self.scene.dim()
        loop = scene.name("l")
        target = self.kept()
        reverse = scene.coin(0.2)
        at = f"{d} - 1 - {loop}" if reverse else loop
        site = Site(scene, "u", [self.x(), Axis("k", d, "reduce", at)])
        value, _ = scene.small(scene.dtype, scene.leaf(scene.dtype, site.names))
        own, _ = scene.small(scene.dtype, (f"{target.name}[x]", 999))
        if f"{target.name}[" in value:
            value = scene.literal(scene.dtype, 1)
        init = init_of(scene, target, "x", [("x", self.n)], "+")
        target.bound = max(target.bound, 81)
        body = [f"{target.name}[x] = {combined(scene, scene.dtype, own, value, '+')}"]
        return around(loop, f"0..{d}", site.lines(body, init, predicate(scene, site, 0.15)))

    def kept(self) -> Buffer:
        """A buffer of one element an iteration, which holds something before."""
        return self.scene.target((self.n,), False)

    def peek(self) -> Lines:
        """Copy an element as it stands."""
        scene, source = self.scene, self.kept()
        target = scene.new((self.n,), "out")
        site = Site(scene, "v", [self.x()])
        other = scene.index(self.n, [("x", self.n)]) if scene.coin(0.3) else "x"
        source.read, target.whole, target.bound = True, True, source.bound
        return site.lines([f"{target.name}[x] = {source.name}[{other}]"])

    def step(self) -> Lines:
        """Change an element in place."""
        scene, target = self.scene, self.kept()
        site = Site(scene, "t", [self.x()])
        own, _ = scene.small(scene.dtype, (f"{target.name}[x]", 999))
        value, _ = scene.small(scene.dtype, scene.leaf(scene.dtype, site.names))
        joined = "!=" if scene.dtype == "bool" else scene.rng.choice(["+", "-"])
        if f"{target.name}[" in value:
            value = scene.literal(scene.dtype, 1)
        target.bound = max(target.bound, 8)
        return site.lines([f"{target.name}[x] = {own} {joined} {value}"], where=predicate(scene, site, 0.25))


def side_by_side(scene: Scene) -> Lines:
    """Two or three statements under one loop."""
    made = Shared(scene)
    kinds = [made.refill, made.part, made.use, made.use, made.update, made.peek, made.step]
    parts: list[Lines] = []
    if scene.coin(0.5):
        parts = [scene.rng.choice([made.refill, made.part])(), made.use()]
    elif scene.coin(0.5):
        parts = [made.peek(), scene.rng.choice([made.update, made.update, made.step])()]
    while len(parts) < 2 or (len(parts) < 3 and scene.coin(0.4)):
        parts.append(scene.rng.choice(kinds)())
    return around(made.var, f"0..{made.n}", *parts)


def inlined(scene: Scene) -> Lines:
    """What may be put into its producer, sometimes under a loop that reads it at other places, too."""
    return in_turn(scene, summed=False) if scene.coin(0.2) else nests.inlined(scene)


def followed(scene: Scene) -> Lines:
    """What follows a reduction, sometimes under a loop that reads it at other places, too."""
    return in_turn(scene, summed=True) if scene.coin(0.2) else reductions.followed(scene)


def chained(scene: Scene) -> Lines:
    """What may move to its producer, sometimes to one whose loops are fused and taken apart."""
    return by_digits(scene) if scene.coin(0.2) else nests.chained(scene)


def by_digits(scene: Scene) -> Lines:
    """A buffer filled in the order of two loops that are fused, either of them outside, and a sum along it."""
    n, d = scene.rng.choice([2, 3, 4]), scene.rng.choice([2, 3, 5])
    dtype = "i32" if scene.dtype == "bool" else scene.dtype
    outer, inner, step = scene.name("l"), scene.name("l"), scene.rng.choice([n, d])
    at = f"({outer} * {step} + {inner})"
    row, column = (f"{at} % {n}", f"{at} // {n}") if scene.coin() else (f"{at} // {d}", f"{at} % {d}")
    first = Site(scene, "r", [Axis("i", n, "spatial", row), Axis("j", d, "spatial", column)])
    value, bound = scene.small(dtype, scene.leaf(dtype, first.names), 1 if dtype == "bf16" else 4)
    source = scene.new((n, d), "alloc", dtype)
    lines = first.lines([f"{source.name}[i, j] = {value}"])
    spans = [(inner, f"0..{step}"), (outer, f"0..{n * d // step}")]
    for var, span in spans if scene.coin() else reversed(spans):
        lines = around(var, span, lines)
    target = scene.new((d,), "out", dtype)
    own = f"{target.name}[x]"
    last = Site(scene, "u", [Axis("x", d), Axis("k", n, "reduce")], short=True)
    body = [f"{own} = {combined(scene, dtype, own, f'{source.name}[k, x]', '+')}"]
    source.whole, source.bound, source.read = True, bound, True
    target.whole, target.bound = True, bound * n
    return [*lines, *last.lines(body, [f"{own} = {scene.literal(dtype, 0)}"])]


def in_turn(scene: Scene, *, summed: bool) -> Lines:
    """A buffer, and a loop that stores what is made of its rows, one after the other, and reads the rows there are."""
    made = Shared(scene)
    n, d = made.n, scene.dim()
    dtype = "i32" if scene.dtype == "bool" else scene.dtype
    source, target = scene.new((n, d), "alloc", dtype), scene.new((n, d), "inout", dtype)
    sums = [Axis("k", scene.dim(), "reduce")] if summed else []
    first = Site(scene, "r", [Axis("i", n), Axis("j", d), *sums], short=True)
    value, bound = scene.small(dtype, scene.leaf(dtype, first.names), 1 if dtype == "bf16" else 4)
    own = f"{source.name}[i, j]"
    lines = first.lines([f"{own} = {own} + {value}" if summed else f"{own} = {value}"])
    column = scene.name("l")
    store = Site(scene, "w", [made.x(), Axis("y", d, "spatial", column)])
    load, _ = scene.small(dtype, (f"{source.name}[x, y]", bound * 9))
    leaf, q = scene.small(dtype, scene.leaf(dtype, store.names))
    if f"{source.name}[" in leaf or f"{target.name}[" in leaf:
        leaf, q = scene.literal(dtype, 1), 1
    if summed:
        load = f"{source.name}[x, y]"
    stored = around(column, f"0..{d}", store.lines([f"{target.name}[x, y] = {load} + {leaf}"]))
    column = scene.name("l")
    reader = Site(scene, "v", [made.x(), Axis("y", d, "spatial", column)])
    copy = scene.new((n, d), "out", dtype)
    at = f"{scene.index(n, reader.names)}, {scene.index(d, reader.names)}"
    read = around(column, f"0..{d}", reader.lines([f"{copy.name}[x, y] = {target.name}[{at}]"]))
    for b, reach in ((source, bound * 9), (target, max(target.bound, bound * 9 + q)), (copy, max(4, bound * 9 + q))):
        b.whole, b.bound = True, reach
    source.read = target.read = True
    return [*lines, *around(made.var, f"0..{n}", stored, read)]


def halo(scene: Scene) -> Lines:
    """A producer computed, iteration by iteration, as far as a window that moves over it needs."""
    n, w, s = scene.rng.choice([4, 5, 6, 8]), scene.rng.choice([2, 3, 3]), scene.rng.choice([1, 1, 1, 2])
    width: Dim | None = scene.dim() if scene.coin(0.4) else None
    length = (n - 1) * s + w
    tail = "" if width is None else ", j"
    dims: tuple[Dim, ...] = (length,) if width is None else (length, width)
    rest = [] if width is None else [Axis("j", width)]
    source, temp, out = scene.new(dims, "in"), scene.new(dims, "alloc"), scene.new((n, *dims[1:]), "out")
    one = scene.literal(scene.dtype, 1)
    joined = "or" if scene.dtype == "bool" else "+"
    i, d, j, q = (scene.name("l") for _ in range(4))
    reads = f" {joined} ".join(
        f"{temp.name}[i * {s} + {k}{tail}]" if s > 1 else f"{temp.name}[i + {k}{tail}]" for k in range(w)
    )
    make, use = f"{temp.name}[x{tail}] = {source.name}[x{tail}] {joined} {one}", f"{out.name}[i{tail}] = {reads}"
    source.read = temp.read = temp.whole = out.whole = True
    temp.bound, out.bound = 5, 20
    if scene.coin(0.5):
        first = Site(scene, "h", [Axis("x", length), *rest], short=True).lines([make])
        return [*first, *Site(scene, "g", [Axis("i", n), *rest], short=True).lines([use])]
    first = Site(
        scene, "h", [Axis("x", length, "spatial", f"{i} * {s} + {d}"), *(Axis("j", a.dim, "spatial", j) for a in rest)]
    )
    second = Site(scene, "g", [Axis("i", n, "spatial", i), *(Axis("j", a.dim, "spatial", q) for a in rest)])
    one_row, two_row = first.lines([make]), second.lines([use])
    if width is not None:
        one_row, two_row = around(j, f"0..{width}", one_row), around(q, f"0..{width}", two_row)
    return around(i, f"0..{n}", around(d, f"0..{w}", one_row), two_row)


def staged(scene: Scene) -> Lines:
    """A tile copied under a loop, and used there."""
    count, t = scene.rng.choice([2, 3, 4]), scene.rng.choice([2, 3, 4])
    n = count * t
    source, temp, out = scene.new((n,), "in"), scene.new((n,), "alloc"), scene.new((n,), "out")
    k, a, b = (scene.name("l") for _ in range(3))
    copy = Site(scene, "d", [Axis("x", n, "spatial", f"{k} * {t} + {a}")]).lines([f"{temp.name}[x] = {source.name}[x]"])
    one = scene.literal(scene.dtype, 1)
    value = f"{temp.name}[y] {'!=' if scene.dtype == 'bool' else '+'} {one}"
    use = Site(scene, "y", [Axis("y", n, "spatial", f"{k} * {t} + {b}")]).lines([f"{out.name}[y] = {value}"])
    source.read = temp.read = temp.whole = out.whole = True
    temp.bound, out.bound = 4, 5
    return around(k, f"0..{count}", around(a, f"0..{t}", copy), around(b, f"0..{t}", use))
