"""Where a block stands: its loops, and how its axes are bound to them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tests.property.instances.scene import Dim, Scene

Lines = list[str]


class Axis(msgspec.Struct, frozen=True):
    """An axis to be bound: its kind, and its binding if it is given."""

    name: str
    dim: Dim
    kind: str = "spatial"
    at: str | None = None


class Loop(msgspec.Struct, frozen=True):
    """A loop over `start..stop`, and the loop that its bounds name."""

    var: str
    span: str
    after: str | None = None


class Bound(msgspec.Struct, frozen=True):
    """An axis bound: its loops, what they leave out of its domain, and whether they begin at its start."""

    text: str
    loops: tuple[Loop, ...]
    where: str | None = None
    whole: bool = True
    begins: bool = True


def bound(scene: Scene, axis: Axis, others: Sequence[Loop] = ()) -> Bound:
    """An axis with a binding of some form."""
    kind = "" if axis.kind == "spatial" else f" @ {axis.kind}"
    head = f"{axis.name}: {axis.dim}{kind}"
    if axis.at is not None:
        return Bound(f"{head} = {axis.at}", ())
    n, v = axis.dim, scene.name("l")
    same = [s for s in others if s.span == f"0..{n}"]
    form = scene.rng.choices(
        ["plain", "reversed", "tiled", "shifted", "behind", "strided", "rotated", "fixed", "below", "none"],
        [52, 12, 10, 5, 4, 5, 4, 3, 16 if same else 0, 1],
    )[0]
    one = (Loop(v, f"0..{n}"),)
    match form, n:
        case "reversed", _:
            return Bound(f"{head} = {n} - 1 - {v}", one, begins=n == 1)
        case "tiled", _:
            w, t = scene.name("l"), scene.rng.choice([2, 3, 4])
            count = -(-n // t) if isinstance(n, int) else f"({n} + {t - 1}) // {t}"
            where = None if isinstance(n, int) and n % t == 0 else f"{v} * {t} + {w} < {n}"
            return Bound(f"{head} = {v} * {t} + {w}", (Loop(v, f"0..{count}"), Loop(w, f"0..{t}")), where)
        case "shifted", int() if n > 1:
            return Bound(f"{head} = {v} + 1", (Loop(v, f"0..{n - 1}"),), whole=False, begins=False)
        case "behind", _ if n != 1:
            return Bound(f"{head} = {v}", (Loop(v, f"1..{n}"),), whole=False, begins=False)
        case "strided", int() if n > 1:
            at = scene.rng.choice([0, 0, 1]) if n % 2 == 0 else 0
            count = n // 2 if at else -(-n // 2)
            return Bound(f"{head} = {v} * 2{' + 1' if at else ''}", (Loop(v, f"0..{count}"),), None, False, not at)
        case "rotated", int() if n > 1:
            return Bound(f"{head} = ({v} + 1) % {n}", one, begins=False)
        case "fixed", int():
            at = scene.rng.randrange(n) if n else 0
            return Bound(f"{head} = {at}", (), whole=n == 1, begins=at == 0)
        case "below", _:
            u = scene.rng.choice(same).var
            stop = f"{u} + 1" if isinstance(n, int) else scene.rng.choice([f"{u} + 1", f"min({u} + 1, {n})"])
            return Bound(f"{head} = {v}", (Loop(v, f"0..{stop}", u),), whole=False)
        case "none", _:
            return Bound(f"{head} = {v}", (Loop(v, "0..0"),), whole=False, begins=False)
    return Bound(f"{head} = {v}", one)


class Site:
    """A block under loops of its own, in the short form or the long one."""

    def __init__(self, scene: Scene, name: str, axes: Sequence[Axis], *, short: bool | None = None) -> None:
        self.scene, self.block, self.axes = scene, scene.name(name), tuple(axes)
        given = any(a.at is not None for a in axes)
        self.short = not given and (scene.coin(0.45) if short is None else short)
        self.bounds: list[Bound] = []
        loops: list[Loop] = []
        for a in () if self.short else axes:
            self.bounds.append(bound(scene, a, loops))
            loops += self.bounds[-1].loops
        self.loops = self._ordered(loops)
        self.wheres = [b.where for b in self.bounds if b.where is not None]

    def _ordered(self, loops: list[Loop]) -> list[Loop]:
        if self.scene.coin(0.3):
            self.scene.rng.shuffle(loops)
        done: list[Loop] = []
        while loops:
            ready = next(s for s in loops if s.after is None or any(d.var == s.after for d in done))
            loops.remove(ready)
            done.append(ready)
        return done

    @property
    def names(self) -> list[tuple[str, Dim]]:
        """The axes and their extents."""
        return [(a.name, a.dim) for a in self.axes]

    @property
    def whole(self) -> bool:
        """Whether every value of the axes is run."""
        return all(b.whole for b in self.bounds)

    @property
    def begins(self) -> bool:
        """Whether reduction axes begin where the init runs."""
        return all(b.begins for b, a in zip(self.bounds, self.axes, strict=False) if a.kind == "reduce")

    def lines(self, body: Sequence[str], init: Sequence[str] | None = None, where: Sequence[str] = ()) -> Lines:
        """The nest as text."""
        found = [f"where {' and '.join(w)}"] if (w := [*self.wheres, *where]) else []
        if init is not None:
            found.append(f"init {{ {' '.join(init)} }}")
        inside = [*found, *body]
        if self.short:
            texts = [f"{a.name}: {a.dim}{'' if a.kind == 'spatial' else f' @ {a.kind}'}" for a in self.axes]
        else:
            texts = [b.text for b in self.bounds]
        lines = [f"block {self.block}[{', '.join(texts)}] {{", *indented(inside), "}"]
        for s in reversed(self.loops):
            lines = [f"for {s.var} in {s.span} {{", *indented(lines), "}"]
        return lines


def indented(lines: Sequence[str]) -> Lines:
    """The lines one level deeper."""
    return [f"    {line}" for line in lines]


def around(var: str, span: str, *bodies: Sequence[str]) -> Lines:
    """A loop around several statements."""
    return [f"for {var} in {span} {{", *(x for body in bodies for x in indented(body)), "}"]
