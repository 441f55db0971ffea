"""Nests of one block: element-wise, in place, scattered, gathered, padded, with bodies of several statements."""

from __future__ import annotations

from tests.property.instances.scene import Dim, Scene
from tests.property.instances.sites import Axis, Lines, Site

PREDICATE = 0.35
NAMES = "ijk"


def spatial(scene: Scene, shape: tuple[Dim, ...]) -> list[Axis]:
    """One spatial axis a dimension."""
    return [Axis(NAMES[k], d) for k, d in enumerate(shape)]


def shape(scene: Scene) -> tuple[Dim, ...]:
    """A shape of one or two dimensions."""
    return tuple(scene.dim() for _ in range(scene.rng.choice([1, 2, 2])))


def predicate(scene: Scene, site: Site, chance: float = PREDICATE) -> list[str]:
    """Sometimes a predicate: about axes, data, or a flag alone."""
    if not scene.coin(chance):
        return []
    return [scene.flag() if scene.coin(0.3) else scene.condition(site.names)]


def written_at(scene: Scene, axes: list[Axis]) -> tuple[tuple[Dim, ...], str]:
    """A shape and indices such that each instance of the axes has an element of its own."""
    order = list(axes)
    if scene.coin(0.2):
        scene.rng.shuffle(order)
    at = [f"{a.dim} - 1 - {a.name}" if scene.coin(0.06) else a.name for a in order]
    return tuple(a.dim for a in order), ", ".join(at)


def mapped(scene: Scene) -> Lines:
    """Every element by a formula of others."""
    axes = spatial(scene, shape(scene))
    site = Site(scene, "b", axes)
    where = predicate(scene, site)
    dims, at = written_at(scene, axes)
    dtype = scene.dtype if scene.coin(0.9) else scene.rng.choice(["i32", "bool", "u8"])
    value, bound = scene.value(dtype, site.names)
    whole = site.whole and not where
    target = scene.target(dims, whole, dtype)
    store = [f"{target.name}[{at}] = {value}"]
    if scene.coin(0.1):
        store = [f"let v = {dtype}({value})", f"{target.name}[{at}] = v"]
    elif target.whole and scene.coin(0.15):
        other, more = scene.value(dtype, site.names, 1)
        bound = max(bound, more)
        store = [f"if {scene.condition(site.names)} {{ {store[0]} }} else {{ {target.name}[{at}] = {other} }}"]
        if scene.coin(0.5):
            store = [store[0].split(" else ")[0]]
    target.whole, target.bound = True, max(bound, target.bound)
    return site.lines(store, where=where)


def chained(scene: Scene) -> Lines:
    """A formula of a buffer that is itself a formula of others, element by element."""
    axes = spatial(scene, shape(scene))
    first = Site(scene, "b", axes, short=scene.coin(0.7) or None)
    dims, at = written_at(scene, axes)
    value, bound = scene.value(scene.dtype, first.names, 1)
    middle = scene.new(dims, "alloc" if first.whole else "inout")
    middle.whole = middle.read = True
    middle.bound = max(middle.bound, bound)
    second = Site(scene, "d", axes, short=scene.coin(0.7) or None)
    where = predicate(scene, second, 0.2)
    dims, to = written_at(scene, axes)
    load, p = scene.small(scene.dtype, (f"{middle.name}[{at}]", middle.bound))
    leaf, q = scene.small(scene.dtype, scene.leaf(scene.dtype, second.names))
    target = scene.target(dims, second.whole and not where)
    if target is middle or f"{target.name}[" in leaf or f"{middle.name}[" in leaf:
        target, leaf, q = scene.new(dims, "inout"), scene.literal(scene.dtype, 1), 1
    target.whole, target.bound = True, max(target.bound, p + q)
    joined = "!=" if scene.dtype == "bool" else scene.rng.choice(["+", "-"])
    text = f"{load} {joined} ({leaf})"
    lines = first.lines([f"{middle.name}[{at}] = {value}"])
    return [*lines, *second.lines([f"{target.name}[{to}] = {text}"], where=where)]


def condensed(scene: Scene) -> Lines:
    """A formula, and another of some of its elements, each once: of every few the first ones, or those that come first
    where the two dimensions are rows of another length."""
    rows, columns = scene.constant(), scene.constant()
    loads, shape = _condensed_rows(scene, rows, columns) if scene.coin() else _condensed_steps(scene, rows, columns)
    axes = spatial(scene, tuple(shape))
    first = Site(scene, "b", axes, short=scene.coin(0.7) or None)
    value, bound = scene.value(scene.dtype, first.names, 1)
    middle = scene.new(shape, "alloc" if first.whole else "inout")
    middle.whole, middle.read, middle.bound = True, True, max(middle.bound, bound)
    second = Site(scene, "d", [Axis("i", rows), Axis("j", columns)], short=scene.coin(0.7) or None)
    load, p = scene.small(scene.dtype, (f"{middle.name}[{loads}]", middle.bound))
    target = scene.new((rows, columns), "out" if second.whole else "inout")
    target.whole, target.bound = True, max(target.bound, p + 1)
    joined = "!=" if scene.dtype == "bool" else "+"
    lines = first.lines([f"{middle.name}[{', '.join(NAMES[: len(shape)])}] = {value}"])
    return [*lines, *second.lines([f"{target.name}[i, j] = {load} {joined} {scene.literal(scene.dtype, 1)}"])]


def inlined(scene: Scene) -> Lines:
    """A formula of a buffer that is itself a formula, of all its elements or of some."""
    return condensed(scene) if scene.coin(0.25) else chained(scene)


def _condensed_rows(scene: Scene, rows: int, columns: int) -> tuple[str, tuple[Dim, ...]]:
    """The indices at which `i, j` load from rows of another length, and a shape that has them."""
    width = scene.rng.randint(1, 9)
    flat = f"i * {columns} + j"
    return f"({flat}) // {width}, ({flat}) % {width}", (-(-rows * columns // width), width)


def _condensed_steps(scene: Scene, rows: int, columns: int) -> tuple[str, tuple[Dim, ...]]:
    """The index at which `i, j` load from one dimension, of which elements are left out, and a shape that has it."""
    step = columns + scene.rng.randint(0, 3)
    return f"i * {step} + j", (rows * step,)


def in_place(scene: Scene) -> Lines:
    """Every element of a buffer by itself and others."""
    axes = spatial(scene, shape(scene))
    site = Site(scene, "p", axes)
    dims, at = written_at(scene, axes)
    target = scene.target(dims, False)
    self_value, p = scene.small(scene.dtype, (f"{target.name}[{at}]", target.bound))
    value, q = scene.value(scene.dtype, site.names, 1)
    if f"{target.name}[" in value:
        value, q = scene.literal(scene.dtype, 2), 2
    if scene.dtype == "bool":
        text = f"{self_value} != ({value})"
    else:
        text = scene.rng.choice([f"{self_value} + {value}", f"{value} - {self_value}", f"max({self_value}, {value})"])
    target.bound = max(target.bound, p + q)
    return site.lines([f"{target.name}[{at}] = {text}"], where=predicate(scene, site))


def scanned(scene: Scene) -> Lines:
    """Each element by the one before, along a scan or an opaque axis."""
    n = scene.dim()
    rest = [Axis("j", scene.dim())] if scene.coin(0.4) else []
    site = Site(scene, "s", [Axis("i", n, scene.rng.choice(["scan", "scan", "opaque"])), *rest])
    target = scene.target((n, *(a.dim for a in rest)), False)
    tail = ", j" if rest else ""
    before = scene.rng.choice(["max(i - 1, 0)", "max(i - 1, 0)", f"min(i + 1, {n} - 1)"])
    last, _ = scene.small(scene.dtype, (f"{target.name}[{before}{tail}]", 999))
    value, q = scene.small(scene.dtype, scene.leaf(scene.dtype, site.names))
    text = f"{last} != {value}" if scene.dtype == "bool" else f"{last} + {value}"
    if scene.coin(0.4):
        text = f"select(i == 0, {value}, {text})"
    target.bound = max(target.bound, q + 4)
    return site.lines([f"{target.name}[i{tail}] = {text}"], where=predicate(scene, site))


def shifted(scene: Scene) -> Lines:
    """Elements copied within one buffer, one after the other: to where later ones are read, or beyond all of them."""
    n = scene.constant()
    write, read = scene.rng.choice([(0, 1), (1, 0), (0, n), (n, 0), (2, 0), (n - 1, 0), (0, 0)])
    target = scene.target((2 * n + 2,), False)
    site = Site(scene, "m", [Axis("i", n, scene.rng.choice(["opaque", "scan"]))])
    return site.lines([f"{target.name}[i + {write}] = {target.name}[i + {read}]"])


def scattered(scene: Scene) -> Lines:
    """Elements whose place is loaded: stored or added to, one after the other."""
    n, d = scene.dim(), scene.dim()
    kind = scene.rng.choice(["opaque", "reduce"])
    target = scene.target((d,), False)
    axes = [Axis("i", n, kind)]
    if kind == "reduce" and scene.coin(0.3):
        axes.insert(0, Axis("j", 1))
    site = Site(scene, "c", axes)
    at = f"i64({scene.index_buffer(n, d)}[i])" if scene.coin(0.85) else scene.index(d, [("i", n)])
    value, q = scene.small(scene.dtype, scene.leaf(scene.dtype, [("i", n)]))
    if scene.dtype != "bool" and scene.coin(0.6):
        own, p = scene.small(scene.dtype, (f"{target.name}[{at}]", 999))
        value, q = f"{own} + {value}", p + q
    target.bound = max(target.bound, q)
    init: list[str] | None = [] if kind == "reduce" and scene.coin(0.5) else None
    return site.lines([f"{target.name}[{at}] = {value}"], init, predicate(scene, site, 0.2))


def padded(scene: Scene) -> Lines:
    """A constant around what is copied."""
    n, m, lo, hi = scene.constant(), scene.dim(), scene.rng.randint(0, 2), scene.rng.randint(0, 2)
    deep = scene.coin(0.5)
    source = scene.source(scene.dtype, 2 if deep else 1)
    size = source.shape[0]
    if not isinstance(size, int):
        source = scene.new((n, m) if deep else (n,), "in")
        size = n
    total = size + lo + hi
    site = Site(scene, "pad", [Axis("i", total), *([Axis("j", source.shape[1])] if deep else [])])
    tail = ", j" if deep else ""
    dims = tuple(a.dim for a in site.axes)
    target = scene.target(dims, site.whole)
    tests = [f"{lo} <= i"] * (lo > 0) + [f"i < {lo + size}"] * (hi > 0 or lo == 0)
    inside = f"{source.name}[i - {lo}{tail}]" if lo else f"{source.name}[i{tail}]"
    if source.bound == 0 or scene.coin(0.6) or scene.dtype == "bool":
        text = inside
    else:
        text = f"{inside} + {scene.literal(scene.dtype, 1)}"
    fill = scene.literal(scene.dtype, scene.rng.choice([0, 0, 1]))
    target.whole, target.bound, source.read = True, max(target.bound, source.bound + 1, 1), True
    return site.lines([f"{target.name}[i{tail}] = select({' and '.join(tests)}, {text}, {fill})"])


def indexed(scene: Scene) -> Lines:
    """Loads whose indices repeat a formula."""
    n = scene.constant()
    site = Site(scene, "x", [Axis("i", n), Axis("j", scene.dim())])
    formula = scene.rng.choice(["(i * 3 + 1) // 4", "(i + 1) // 2", f"(i + 2) % {n}", "i * i % 4", "i * 2 + 1"])
    a, c = (scene.new((3 * n + 2,), "in") for _ in range(2))
    dims, at = written_at(scene, list(site.axes))
    target = scene.target(dims, site.whole)
    a.read = c.read = True
    other = scene.rng.choice([formula, f"({formula}) + 1", "i"])
    joined = "!=" if scene.dtype == "bool" else scene.rng.choice(["+", "-"])
    target.whole, target.bound = True, max(target.bound, 8)
    return site.lines([f"{target.name}[{at}] = {a.name}[{formula}] {joined} {c.name}[{other}]"])


def several(scene: Scene) -> Lines:
    """One block that writes two buffers, or runs loops and branches of its own."""
    n = scene.dim()
    site = Site(scene, "m", [Axis("i", n)])
    where = predicate(scene, site, 0.2)
    whole = site.whole and not where
    first, second = scene.target((n,), whole), scene.target((n,), whole)
    (a, p), (b, q) = scene.value(scene.dtype, site.names, 1), scene.value(scene.dtype, site.names, 1)
    first.bound, second.bound = max(first.bound, p), max(second.bound, q)
    first.whole = second.whole = True
    if first is second or first.name in b or second.name in a:
        return site.lines([f"{first.name}[i] = {scene.literal(scene.dtype, 1)}"], where=where)
    if scene.coin(0.4) and isinstance(n, int):
        d = scene.constant()
        table = scene.new((n, d), "inout")
        value, _ = scene.small(scene.dtype, scene.leaf(scene.dtype, [*site.names, ("q", d)]))
        if table.name not in value:
            loop = f"for q in 0..{d} {{ {table.name}[i, q] = {value} }}"
            return site.lines([f"{first.name}[i] = {a}", loop], where=where)
    return site.lines([f"{first.name}[i] = {a}", f"{second.name}[i] = {b}"], where=where)


def viewed(scene: Scene) -> Lines:
    """A block that reads through a view, and stands around another."""
    n, m = scene.dim(), scene.dim()
    source, target = scene.source(scene.dtype, 2), scene.target((n, m), True)
    if source is target:
        source = scene.new((n, m), "in")
    row = scene.index(source.shape[0], [("i", n)])
    outer, inner = scene.name("o"), scene.name("n")
    i, j = scene.name("l"), scene.name("l")
    width = source.shape[1]
    at = scene.index(width, [("y", m)])
    source.read, target.whole, target.bound = True, True, max(target.bound, source.bound)
    view = scene.name("V")
    return [
        f"for {i} in 0..{n} {{",
        f"    block {outer}[i: {n} = {i}] {{",
        f"        view {view}: {scene.dtype}[{width}] = {source.name}[{row}, 0..{width}]",
        f"        for {j} in 0..{m} {{",
        f"            block {inner}[x: {n} = i, y: {m} = {j}] {{ {target.name}[x, y] = {view}[{at}] }}",
        "        }",
        "    }",
        "}",
    ]


def ragged(scene: Scene) -> Lines:
    """Rows of different lengths, whose ends are loaded."""
    n, count, d = scene.constant(), scene.rng.choice([4, 6, 9]), scene.constant()
    rows, column = scene.pointers(n, count + 1), scene.index_buffer(count, d)
    values, table = scene.new((count,), "in"), scene.source(scene.dtype, 1)
    if table.shape != (d,):
        table = scene.new((d,), "in")
    site = Site(scene, "k", [Axis("i", n)])
    target = scene.target((n,), False)
    if target is table:
        table = scene.new((d,), "in")
    values.read = table.read = True
    own, x = f"{target.name}[i]", scene.small(scene.dtype, (f"{table.name}[i64({column}[p])]", table.bound), 2)[0]
    v = scene.small(scene.dtype, (f"{values.name}[p]", 4), 2)[0]
    if scene.dtype == "bool":
        step = f"{own} = {own} or {v} and {x}"
    else:
        step = f"{own} = {scene.small(scene.dtype, (own, 999))[0]} + {v} * {x}"
    target.bound = max(target.bound, 40)
    loop = f"for p in i64({rows}[i])..i64({rows}[i + 1]) {{ {step} }}"
    return site.lines([loop], where=predicate(scene, site, 0.2))


def filled(scene: Scene) -> Lines:
    """A buffer set to a number."""
    axes = spatial(scene, shape(scene))
    site = Site(scene, "f", axes, short=True)
    target = scene.target(tuple(a.dim for a in axes), True)
    at = ", ".join(a.name for a in axes)
    target.whole, target.bound = True, max(target.bound, 3)
    return site.lines([f"{target.name}[{at}] = {scene.literal(scene.dtype, scene.rng.randint(-3, 3))}"])
