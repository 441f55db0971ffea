"""Nests with reductions: inits of every form, orders in which they run, products, positions of the greatest."""

from __future__ import annotations

from tests.property.instances.nests import predicate
from tests.property.instances.scene import FLOATS, Buffer, Scene
from tests.property.instances.sites import Axis, Lines, Site, around, indented

GREAT = {"i8": 127, "i16": 32767, "i32": 2147483647, "i64": 1 << 40, "u8": 255, "u16": 65535, "u32": 4294967295}


def combined(scene: Scene, dtype: str, own: str, value: str, which: str | None = None) -> str:
    """One step of a reduction."""
    if dtype == "bool":
        return f"{own} {scene.rng.choice(['or', 'and', '!='])} ({value})"
    which = scene.rng.choice("+++><*") if which is None else which
    match which:
        case ">":
            return f"max({own}, {value})"
        case "<":
            return f"min({own}, {value})"
        case "*" if dtype not in FLOATS:
            return f"{own} * {value}"
    return f"{own} + {value}"


def identity(dtype: str, which: str) -> str | None:
    """What a maximum or minimum starts from."""
    if dtype in FLOATS:
        text = "-inf" if which == ">" else "inf"
        return text if dtype == "f32" else f"{dtype}({text})"
    top = GREAT.get(dtype)
    if top is None or dtype == "i64":
        return None
    low = 0 if dtype[0] == "u" else -top - 1
    return f"{dtype}({low if which == '>' else top})"


def init_of(scene: Scene, target: Buffer, at: str, axes: list[tuple[str, object]], which: str) -> list[str] | None:
    """An init of some form; None to have it inferred."""
    cell = f"{target.name}[{at}]"
    zero = scene.literal(target.dtype, 0)
    forms = ["zero"] * 4 + ["identity"] * 3 + ["value"] * 2 + ["formula"]
    if target.whole:
        forms += ["own", "own", "if", "if", "gather", "nothing", "elsewhere", "twice"]
    spatial = [(a, n) for a, n in axes if isinstance(n, int | str)]
    match scene.rng.choice(forms):
        case "identity":
            start = identity(target.dtype, which) if which in "><" and target.dtype != "bool" else zero
            return [f"{cell} = {zero if start is None else start}"]
        case "value":
            return [f"{cell} = {scene.literal(target.dtype, scene.rng.randint(1, 3))}"]
        case "formula":
            return [f"{cell} = {scene.small(target.dtype, scene.leaf(target.dtype, spatial))[0]}"]
        case "own":
            if target.dtype == "bool":
                return [f"{cell} = not {cell}"]
            small = scene.small(target.dtype, (cell, 999))[0]
            return [f"{cell} = {small} {scene.rng.choice(['+', '*'])} {scene.literal(target.dtype, 2)}"]
        case "if":
            return [f"if {scene.condition(spatial, 0)} {{ {cell} = {zero} }}"]
        case "gather":
            table = scene.source(target.dtype, 1)
            d, (a, n) = table.shape[0], spatial[0] if spatial else ("0", 1)
            if not spatial or table is target:
                return [f"{cell} = {zero}"]
            load = f"{table.name}[i64({scene.index_buffer(n, d)}[{a}])]"
            return [f"{cell} = {scene.small(target.dtype, (load, table.bound))[0]}"]
        case "nothing":
            return []
        case "elsewhere":
            other = scene.source(target.dtype, len(target.shape))
            indices = ", ".join(scene.index(d, spatial) for d in other.shape)
            return [f"{cell} = {scene.small(target.dtype, (f'{other.name}[{indices}]', 999))[0]}"]
        case "twice":
            return [
                f"{cell} = {zero}",
                f"if {scene.condition(spatial, 0)} {{ {cell} = {scene.literal(target.dtype, 1)} }}",
            ]
    return [f"{cell} = {zero}"]


def reduced(scene: Scene) -> Lines:
    """A reduction of some form."""
    rank = scene.rng.choice([0, 1, 1, 1, 2])
    axes = [Axis("ij"[k], scene.dim()) for k in range(rank)]
    sums = [Axis("kr"[k], scene.dim(), "reduce") for k in range(scene.rng.choice([1, 1, 2]))]
    site = Site(scene, "r", [*axes, *sums])
    where = predicate(scene, site, 0.25)
    which = scene.rng.choice("+++><*")
    plain = site.whole and site.begins and not where
    dims = tuple(a.dim for a in axes) or (1,)
    at = ", ".join(a.name for a in axes) or "0"
    target = scene.target(dims, plain)
    outer = [(a.name, a.dim) for a in axes]
    value, bound = scene.small(scene.dtype, scene.value(scene.dtype, site.names, 1), 1 if scene.dtype == "bf16" else 4)
    if f"{target.name}[" in value:
        value, bound = scene.literal(scene.dtype, 1), 1
    own = f"{target.name}[{at}]"
    total = bound * 81 if which in "+*" else max(bound, 4)
    if target.whole and target.bound > 64 and scene.dtype in FLOATS:
        which, total = ">", target.bound
    if plain and not target.whole and target.direction != "inout" and scene.coin(0.5) and scene.dtype != "bool":
        target.whole, target.bound = True, max(total, 4)
        if scene.dtype in FLOATS and which == "*":
            which = "+"
        return site.lines([f"{own} = {combined(scene, scene.dtype, own, value, which)}"])
    init = init_of(scene, target, at, list(outer), which)
    body = [f"{own} = {combined(scene, scene.dtype, own, value, which)}"]
    if target.whole and scene.coin(0.12):
        body = [f"if {scene.condition(site.names, 0)} {{ {body[0]} }}"]
    target.whole, target.bound = True, max(target.bound, total + 8)
    return site.lines(body, init, where)


def elsewhere(scene: Scene) -> Lines:
    """A reduction that reads other elements of what it writes."""
    n = scene.dim()
    target = scene.target((n,), False)
    site = Site(scene, "e", [Axis("i", n, scene.rng.choice(["spatial", "opaque"])), Axis("k", scene.dim(), "reduce")])
    other = scene.rng.choice([f"({n} - 1) - i", "max(i - 1, 0)", f"min(i + 1, {n} - 1)", "0"])
    if isinstance(n, int) and scene.coin(0.5):
        other = f"(i + 1) % {n}"
    load, _ = scene.small(scene.dtype, (f"{target.name}[{other}]", 999))
    value, bound = scene.leaf(scene.dtype, site.names)
    value, _ = scene.small(scene.dtype, (value, 999 if f"{target.name}[" in value else bound))
    own, _ = scene.small(scene.dtype, (f"{target.name}[i]", 999))
    if scene.dtype == "bool":
        body = f"{target.name}[i] = {own} != ({load} and {value})"
    else:
        body = f"{target.name}[i] = {own} + {load} * {value}"
    target.bound = max(target.bound, 20)
    init = init_of(scene, target, "i", [("i", n)], "+")
    return site.lines([body], init, predicate(scene, site, 0.15))


def product(scene: Scene) -> Lines:
    """A product of tensors: what tiles, pads and becomes an instruction."""
    n, m, k = (scene.rng.choice([2, 4, 4, 6, 8]) if scene.coin(0.6) else scene.dim() for _ in range(3))
    narrow = scene.rng.choice(["i8", "u8", "i16"]) if scene.dtype in ("i32", "i64") and scene.coin(0.4) else scene.dtype
    dtype = "i32" if scene.dtype == "bool" else scene.dtype
    narrow = dtype if narrow == "bool" else narrow
    a, b = scene.new((n, k), "in", narrow), scene.new((k, m), "in", narrow)
    site = Site(scene, "mm", [Axis("i", n), Axis("j", m), Axis("k", k, "reduce")], short=scene.coin(0.8) or None)
    plain = site.whole and site.begins
    target = scene.target((n, m), plain, dtype)
    left, right = (f"{x.name}[{at}]" for x, at in ((a, "i, k"), (b, "k, j")))
    if narrow != dtype:
        left, right = f"{dtype}({left})", f"{dtype}({right})"
    elif dtype == "bf16":
        left, right = (scene.small(dtype, (x, 4), 1)[0] for x in (left, right))
    a.read = b.read = True
    which = scene.rng.choice(["+", "+", "+", ">", "<"])
    term = f"{left} * {right}" if which == "+" else f"{left} + {right}"
    own = f"{target.name}[i, j]"
    if target.whole and target.bound > 64 and dtype in FLOATS:
        which = ">"
    init = None if plain and not target.whole else init_of(scene, target, "i, j", [("i", n), ("j", m)], which)
    target.whole, target.bound = True, max(target.bound, 150)
    lines = site.lines([f"{own} = {combined(scene, dtype, own, term, which)}"], init)
    return [*lines, *epilogue(scene, target)] if scene.coin(0.4) else lines


def integer_product(scene: Scene) -> Lines:
    """A sum of products of integers, of the same type or of narrower ones."""
    n, m, k = scene.dim(), scene.dim(), scene.dim()
    wide = scene.rng.choice(["i32", "i32", "i64", "u32", "i16"])
    a, b = (scene.new(dims, "in", scene.rng.choice(["i8", "u8", "i8", "i16", wide])) for dims in ((n, k), (k, m)))
    a.read = b.read = True
    site = Site(scene, "mm", [Axis("i", n), Axis("j", m), Axis("k", k, "reduce")], short=scene.coin(0.75) or None)
    target = scene.target((n, m), site.whole and site.begins, wide)
    own = f"{target.name}[i, j]"
    left, right = (f"{wide}({x.name}[{at}])" for x, at in ((a, "i, k"), (b, "k, j")))
    if scene.coin(0.2):
        right = f"min({right}, {wide}({b.name}[0, j]))"
    start = scene.literal(wide, scene.rng.choice([0, 0, 2])) if scene.coin(0.75) else own
    target.whole, target.bound = True, max(target.bound, 150)
    init = [f"{own} = {start}"] if start != own or target.direction != "alloc" else None
    return site.lines([f"{own} = {own} + {left} * {right}"], init)


def added(scene: Scene) -> Lines:
    """Elements that hold something, and what a reduction without an init combines with them."""
    n = scene.dim()
    dtype = "i32" if scene.dtype == "bool" else scene.dtype
    target = scene.target((n,), False, dtype)
    site = Site(scene, "v", [Axis("i", n), Axis("k", scene.dim(), "reduce")])
    value, bound = scene.small(dtype, scene.leaf(dtype, site.names), 1 if dtype == "bf16" else 4)
    if f"{target.name}[" in value:
        value, bound = scene.literal(dtype, 1), 1
    which = "+" if target.bound <= 64 or dtype not in FLOATS else scene.rng.choice("><")
    at = scene.rng.choice(["i", "i", "i", f"{n} - 1 - i", f"i64({scene.index_buffer(n, n)}[i])"])
    own = f"{target.name}[{at}]"
    target.bound = max(target.bound, 4) + bound * 9
    where = predicate(scene, site, 0.2)
    return site.lines([f"{own} = {combined(scene, dtype, own, value, scene.rng.choice([which, '<', '>']))}"], [], where)


def epilogue(scene: Scene, source: Buffer) -> Lines:
    """An element-wise block after a reduction."""
    axes = [Axis("xy"[k], d) for k, d in enumerate(source.shape)]
    site = Site(scene, "q", axes)
    at = ", ".join(a.name for a in axes)
    target = scene.target(source.shape, site.whole, source.dtype)
    if target is source:
        target = scene.new(source.shape, "inout", source.dtype)
    source.read = True
    bias, q = scene.small(source.dtype, scene.leaf(source.dtype, site.names))
    if f"{source.name}[" in bias and scene.coin(0.8):
        bias, q = scene.literal(source.dtype, 1), 1
    load = f"{source.name}[{at}]"
    if f"{target.name}[" in bias:
        bias = scene.literal(source.dtype, 1)
    form = (
        f"{load} != {bias}"
        if source.dtype == "bool"
        else scene.rng.choice([f"{load} + {bias}", f"max({load}, {bias})"])
    )
    source.read, target.whole, target.bound = True, True, max(target.bound, source.bound + q)
    return site.lines([f"{target.name}[{at}] = {form}"])


def followed(scene: Scene) -> Lines:
    """A reduction into a buffer of its own, and what is made of it."""
    n, k = scene.dim(), scene.dim()
    dtype = "i32" if scene.dtype == "bool" else scene.dtype
    target = scene.new((n,), "alloc", dtype)
    site = Site(scene, "r", [Axis("i", n), Axis("k", k, "reduce")], short=True)
    value, bound = scene.small(dtype, scene.leaf(dtype, site.names), 1 if dtype == "bf16" else 4)
    which = scene.rng.choice(["+", "+", ">", "<"])
    body = f"{target.name}[i] = {combined(scene, dtype, f'{target.name}[i]', value, which)}"
    init = None
    if which in "><" and (start := identity(dtype, which)) is not None:
        init = [f"{target.name}[i] = {start}"]
    elif which in "><":
        body = f"{target.name}[i] = {target.name}[i] + {value}"
    target.whole, target.bound = True, bound * 9
    return [*site.lines([body], init), *epilogue(scene, target)]


def positions(scene: Scene) -> Lines:
    """The greatest or least element of each row, and where it is."""
    n, k = scene.dim(), scene.dim()
    dtype = "i32" if scene.dtype in ("bool", "u64") else scene.dtype
    source = scene.source(dtype, 2)
    if source.shape != (n, k):
        source = scene.new((n, k), "in", dtype)
    scene.compared.add(source.name)
    sign, which = scene.rng.choice([(">", "max"), ("<", "min")])
    at, best = scene.new((n,), "out", "i32"), scene.new((n,), "out", dtype)
    site = Site(scene, "a", [Axis("i", n), Axis("k", k, "reduce")], short=scene.coin(0.7) or None)
    if not (site.whole and site.begins):
        at.direction = best.direction = "inout"
    cell, x = f"{best.name}[i]", f"{source.name}[i, k]"
    keep = scene.rng.choice(
        [
            f"{cell} {sign}= {x}",
            f"{cell} {sign} {x}",
            f"{cell} {sign} {x} or {cell} == {x} and {at.name}[i] < i32(k)",
        ]
    )
    chosen = scene.rng.choice([f"{which}({cell}, {x})", f"select({keep}, {cell}, {x})"])
    worst = identity(dtype, sign)
    first = scene.literal(dtype, 0) if worst is None else worst
    init = [f"{at.name}[i] = -1", f"{cell} = {first}"]
    at.whole = best.whole = source.read = True
    best.bound = max(source.bound, 4)
    body = [f"let p = select({keep}, {at.name}[i], i32(k))", f"let v = {chosen}", f"{at.name}[i] = p", f"{cell} = v"]
    return site.lines(body, init)


def relative(scene: Scene) -> Lines:
    """The maximum of each row, and sums of powers of two relative to it: exact, as the elements are small integers."""
    n, k = scene.dim(), scene.dim()
    dtype = scene.rng.choice(["f32", "f32", "f64"])
    source, weights = scene.new((n, k), "in", dtype), scene.new((k,), "in", dtype)
    top, total = scene.new((n,), "alloc", dtype), scene.new((n,), "out", dtype)
    source.read = weights.read = top.read = True
    x, at = f"{source.name}[i, k]", f"{top.name}[i]"
    if scene.coin(0.3):
        x = f"max({x}, {weights.name}[k])"
    best, sums = (
        Site(scene, stem, [Axis("i", n), Axis("k", k, "reduce")], short=scene.coin(0.8) or None) for stem in ("b", "v")
    )
    if not (best.whole and best.begins and sums.whole and sums.begins):
        top.direction = total.direction = "inout"
    first = identity(dtype, ">") if scene.coin(0.9) else scene.literal(dtype, 0)
    lines = best.lines([f"{at} = max({at}, {x})"], [f"{at} = {first}"])
    power, own = f"exp2({x} - {at})", f"{total.name}[i]"
    if scene.coin(0.4):
        apart = scene.new((n, k), "alloc", dtype)
        apart.whole = apart.read = True
        lines += Site(scene, "w", [Axis("i", n), Axis("k", k)], short=True).lines([f"{apart.name}[i, k] = {power}"])
        power = f"{apart.name}[i, k]"
    weight = f"{weights.name}[k]"
    term = scene.rng.choice([power, f"{power} * {weight}", f"{weight} * {power} - {power}", f"{power} + {weight}"])
    lines += sums.lines([f"{own} = {own} + ({term})"], [f"{own} = {scene.literal(dtype, 0)}"])
    top.whole = total.whole = True
    top.bound, total.bound = max(source.bound, 4), 999
    return lines


def nested(scene: Scene) -> Lines:
    """A block around a block, with an init that holds a block, too."""
    n, m = scene.dim(), scene.rng.choice([2, 4, 6])
    source = scene.new((n, m), "in")
    target = scene.target((n,), True)
    outer, inner, first = scene.name("o"), scene.name("n"), scene.name("z")
    i, k, u, z = (scene.name("l") for _ in range(4))
    value, bound = scene.small(scene.dtype, (f"{source.name}[x, r]", 4), 1 if scene.dtype == "bf16" else 4)
    own = f"{target.name}[x]"
    step = f"{own} = {combined(scene, scene.dtype, own, value, '+')}"
    source.read, target.whole, target.bound = True, True, max(target.bound, bound * 9)
    start = f"for {z} in 0..1 {{ block {first}[x: {n} = i, y: 1 = {z}] {{ {own} = {scene.literal(scene.dtype, 0)} }} }}"
    kinds = f"block {inner}[x: {n} = i, r: {m} @ reduce = o * {m // 2} + {u}] {{ init {{}} {step} }}"
    return [
        f"for {i} in 0..{n}, {k} in 0..2 {{",
        f"    block {outer}[i: {n} = {i}, o: 2 @ reduce = {k}] {{",
        f"        init {{ {start} }}",
        f"        for {u} in 0..{m // 2} {{ {kinds} }}",
        "    }",
        "}",
    ]


def running(scene: Scene) -> Lines:
    """A reduction along an outer loop of which every partial result is read."""
    n, m = scene.dim(), scene.dim()
    total, out, source = scene.new((n,), "alloc"), scene.new((n, m), "out"), scene.new((n, m), "in")
    k, i, j = (scene.name("l") for _ in range(3))
    value, _ = scene.small(scene.dtype, (f"{source.name}[x, y]", 4))
    own = f"{total.name}[x]"
    step = f"{own} = {combined(scene, scene.dtype, own, value, '+')}"
    init = f"{own} = {scene.literal(scene.dtype, 0)}"
    add = [f"block {scene.name('r')}[x: {n} = {i}, y: {m} @ reduce = {k}] {{ init {{ {init} }} {step} }}"]
    peek = f"{out.name}[x, y] = {total.name}[{scene.rng.choice(['x', 'x', '0', f'{n} - 1 - x'])}]"
    total.whole, total.bound, total.read, out.whole, out.bound, source.read = True, 81, True, True, 81, True
    second = [f"block {scene.name('w')}[x: {n} = {i}, y: {m} = {k}] {{ {peek} }}"]
    if "[x]" in peek and scene.coin(0.6):
        return around(k, f"0..{m}", around(i, f"0..{n}", add, second))
    second = [f"block {scene.name('w')}[x: {n} = {j}, y: {m} = {k}] {{ {peek} }}"]
    return around(k, f"0..{m}", around(i, f"0..{n}", add), around(j, f"0..{n}", second))


__all__ = [
    "added",
    "elsewhere",
    "followed",
    "indented",
    "integer_product",
    "nested",
    "positions",
    "product",
    "reduced",
    "relative",
    "running",
]
