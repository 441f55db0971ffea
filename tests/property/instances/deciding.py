"""Nests in which data decide what runs, how often and in which order: conditions on what was combined before, bounds of
loops that others write, predicates of neighbours; and names that mislead: axes called like loops, views beside what
they look at."""

from __future__ import annotations

from tests.property.instances.scene import FLOATS, Dim, Scene
from tests.property.instances.sites import Axis, Lines, Site, around


def _whole_numbers(scene: Scene) -> str:
    """A type of whole numbers, so that what is combined in order is exact however great it becomes."""
    return "i32" if scene.dtype == "bool" or scene.dtype in FLOATS else scene.dtype


def _value(scene: Scene, dtype: str, site: Site, *but: str) -> str:
    """A value that does not read some buffers."""
    value, _ = scene.leaf(dtype, site.names)
    return scene.literal(dtype, 1) if any(f"{b}[" in value for b in but) else value


def _count(scene: Scene, dtype: str, text: str, most: Dim) -> str:
    """A number of iterations that a value tells, at most some."""
    least = text if dtype[0] == "u" else f"max({text}, {scene.literal(dtype, 0)})"
    return f"min(i64({least}), {most})"


def continued(scene: Scene) -> Lines:
    """A reduction that depends on what it has combined so far, or does not but looks like it."""
    n, dtype = scene.dim(), _whole_numbers(scene)
    target, other = scene.target((n,), False, dtype), scene.new((n,), "inout", dtype)
    site = Site(scene, "y", [Axis("i", n), Axis("k", scene.dim(), "reduce")])
    value = _value(scene, dtype, site, target.name, other.name)
    own, more = f"{target.name}[i]", f"{other.name}[i]"
    asked = own if scene.coin(0.7) else value
    step, test = f"{own} = {own} + {value}", f"{asked} < {scene.literal(dtype, 2)}"
    view = scene.name("V")
    window = f"view {view}: {dtype}[1] = {target.name}[i .. i + 1]"
    forms = [
        ([f"if {test} {{ {step} }}"], []),
        ([step], [test]),
        ([f"let v = {dtype}({asked})", f"{more} = {more} + v", step], []),
        ([f"{own} = {own} + {asked} * {value}"], []),
        (
            [
                f"for q in 0..{_count(scene, dtype, more, 3)} {{ {step} }}",
                f"{more} = {more} + {scene.literal(dtype, 1)}",
            ],
            [],
        ),
        ([window, f"{view}[0] = {view}[0] * {scene.literal(dtype, 2)} + {value}"], []),
        ([window, f"{view}[0] = {view}[0] + {value}"], []),
    ]
    body, where = scene.rng.choice(forms)
    return site.lines(body, [], where)


def hiding(scene: Scene) -> Lines:
    """Axes that are called like loops which they do not follow, and predicates about them."""
    i, j, k = (scene.name("l") for _ in range(3))
    if scene.coin(0.4):
        n, m = scene.dim(), scene.dim()
        triangle = n == m or scene.coin(0.3)
        m = n if triangle else m
        target, block = scene.target((n, m), False), scene.name("h")
        axes = Axis(j, n, at=i), Axis(i, m, at=j)
        site = Site(scene, block, axes)
        value = _value(scene, scene.dtype, site, target.name)
        where = [f"{scene.rng.choice([i, j])} < {scene.rng.randint(1, 4)}"]
        store = f"{target.name}[{j}, {i}] = {value}"
        span = f"0..{i} + 1" if triangle else f"0..{m}"
        return around(i, f"0..{n}", around(j, span, site.lines([store], where=where)))
    n, t, w = scene.rng.choice([2, 3]), scene.rng.choice([2, 3]), scene.rng.choice([2, 3])
    step = t * w - scene.rng.choice([0, 1, 1])
    hidden = [Axis(j, t, at="0"), Axis(k, w, at="0")] if scene.coin(0.6) else []
    reach = (n - 1) * step + (t * w if hidden else step)
    dtype = _whole_numbers(scene)
    target, r = scene.target((reach,), False, dtype), scene.name("l")
    sums = [Axis("r", scene.constant(), "reduce", r)] if scene.coin() else []
    site = Site(scene, "h", [Axis("x", reach, at=f"{i} * {step} + {j} * {w} + {k}"), *hidden, *sums])
    value = _value(scene, dtype, site, target.name)
    own = f"{target.name}[x]"
    body = f"{own} = {own} + {value}" if sums else f"{own} = {value}"
    init = [f"{own} = {scene.literal(dtype, 0)}"] if sums else None
    lines = site.lines([body], init, [f"{j} * {w} + {k} < {step}"])
    for var, span in (*((r, f"0..{a.dim}") for a in sums), (k, f"0..{w}"), (j, f"0..{t}"), (i, f"0..{n}")):
        lines = around(var, span, lines)
    return lines


def counted(scene: Scene) -> Lines:
    """Loops that run as often as a buffer says, which a block beside them writes."""
    n, d = scene.constant(), scene.constant()
    counts, target = scene.new((n + 1,), "inout", "i32"), scene.new((n, d), "inout")
    var = scene.name("l")
    row = Axis("x", n, at=var)

    def run(*stores: tuple[str, Axis]) -> list[Lines]:
        made: list[Lines] = []
        for store, axis in stores:
            loop = axis.at or ""
            site = Site(scene, "k", [row, axis] if "x" in store else [axis])
            made.append(around(loop, f"0..{_count(scene, 'i32', f'{counts.name}[{var}]', d)}", site.lines([store])))
        return made

    axes = [Axis("y", d, at=scene.name("l")) for _ in range(2)]
    ahead = scene.rng.choice(["x", "x + 1"])
    other = Site(scene, "c", [row])
    write = other.lines([f"{counts.name}[{ahead}] = {_value(scene, 'i32', other, counts.name)}"])
    value = _value(scene, scene.dtype, Site(scene, "k", [axes[0]]), target.name)
    if scene.coin(0.4):
        temp, given = scene.new((d,), "alloc"), scene.new((d,), "in")
        temp.whole = temp.read = given.read = True
        fill = Site(scene, "f", [Axis("y", d)], short=True).lines([f"{temp.name}[y] = {scene.literal(scene.dtype, 1)}"])
        parts = run((f"{temp.name}[y] = {given.name}[y]", axes[0]), (f"{target.name}[x, y] = {temp.name}[y]", axes[1]))
        parts.insert(scene.rng.choice([0, 1, 2]), write)
        temp.bound = 4
        return [*fill, *around(var, f"0..{n}", *parts)]
    parts = [*run((f"{target.name}[x, y] = {value}", axes[0])), write]
    scene.rng.shuffle(parts)
    target.bound = max(target.bound, 300)
    return around(var, f"0..{n}", *parts)


def watched(scene: Scene) -> Lines:
    """A padding or a reduction under a loop, with a block that asks, before or after it, what stands there."""
    n, d, dtype = scene.constant(), scene.constant(), _whole_numbers(scene)
    var, loop = scene.name("l"), scene.name("l")
    row, counts = Axis("x", n, at=var), scene.new((n + 1,), "inout", dtype)
    target, source = scene.new((n, d), "inout", dtype), scene.new((n, d), "in", dtype)
    source.read = True
    zero, own = scene.literal(dtype, 0), f"{target.name}[x, y]"
    where = [f"{counts.name}[x] < {scene.literal(dtype, 2)}"] if scene.coin(0.3) else []
    if scene.coin():
        site = Site(scene, "pad", [row, Axis("y", d, at=loop)])
        bound = scene.rng.choice([f"x < {max(n - 1, 1)}", "x >= 1", f"y < {max(d - 1, 1)}"])
        made = site.lines([f"{own} = select({bound}, {source.name}[x, y], {zero})"], where=where)
    else:
        k = scene.name("l")
        site = Site(scene, "r", [row, Axis("y", d, at=loop), Axis("k", d, "reduce", k)])
        made = site.lines([f"{own} = {own} + {source.name}[x, k]"], [f"{own} = {zero}"], where)
        made = around(k, f"0..{d}", made)
    parts = [around(loop, f"0..{d}", made)]
    asks = Site(scene, "q", [row])
    seen = f"{target.name}[{scene.rng.choice(['x', 'x', f'min(x + 1, {n} - 1)', 'max(x - 1, 0)'])}, 0]"
    copy = scene.new((n,), "inout", dtype)
    if scene.coin(0.6):
        test = f"{seen} < {scene.literal(dtype, 1)}"
        asked = asks.lines([f"{copy.name}[x] = {target.name}[x, 0]"], where=[test])
    else:
        asked = asks.lines([f"{copy.name}[x] = {seen}"])
    parts.insert(scene.rng.choice([0, 1, 1]), asked)
    if scene.coin(0.5):
        change = Site(scene, "c", [row])
        at = scene.rng.choice(["x", "x + 1"])
        parts.insert(scene.rng.choice([0, 1]), change.lines([f"{counts.name}[{at}] = {scene.literal(dtype, 3)}"]))
    return around(var, f"0..{n}", *parts)


def bounded(scene: Scene) -> Lines:
    """A block that stores under conditions that bound one axis several times."""
    n = scene.constant()
    site = Site(scene, "i", [Axis("i", n)])
    target = scene.target((n,), False)
    value = _value(scene, scene.dtype, site, target.name)
    tests = [f"i < {scene.rng.randint(1, n)}" for _ in range(scene.rng.choice([1, 2, 2, 3]))]
    target.bound = max(target.bound, 300)
    return site.lines([f"if {' and '.join(tests)} {{ {target.name}[i] = {value} }}"])


def aliased(scene: Scene) -> Lines:
    """A block that accesses a buffer by its name and as a view of the block around it."""
    n = scene.constant()
    target, copy = scene.new((n,), "inout"), scene.new((n,), "out")
    copy.whole = True
    copy.bound = target.bound
    outer, inner, view = scene.name("o"), scene.name("n"), scene.name("V")
    i, j = scene.name("l"), scene.name("l")
    one = scene.literal(scene.dtype, 1)
    first, second = (f"{view}[x]", f"{target.name}[x]") if scene.coin() else (f"{target.name}[x]", f"{view}[x]")
    body = scene.rng.choice(
        [
            f"{first} = {one} {copy.name}[x] = {second}",
            f"{first} = {one} {copy.name}[x] = {first}",
            f"{first} = {one} {second} = {scene.literal(scene.dtype, 2)} {copy.name}[x] = {one}",
        ]
    )
    return [
        f"for {i} in 0..1 {{",
        f"    block {outer}[z: 1 = {i}] {{",
        f"        view {view}: {scene.dtype}[{n}] = {target.name}[0..{n}]",
        f"        for {j} in 0..{n} {{",
        f"            block {inner}[x: {n} = {j}] {{ {body} }}",
        "        }",
        "    }",
        "}",
    ]


__all__ = ["aliased", "bounded", "continued", "counted", "hiding", "watched"]
