"""What a drawn program consists of so far: its buffers and sizes, and expressions over them that stay in bounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

Dim = int | str
"""The extent of a dimension, an axis or a loop: a number, or the name of a size known only at the call."""

Axes = Sequence[tuple[str, Dim]]
"""The axes that an expression may name, with their extents."""

Term = tuple[str, int]
"""The text of a value, and the greatest magnitude that it can have if its type is a float."""

FLOATS = ("f16", "bf16", "f32", "f64")
DTYPES = ("i32",) * 7 + ("f32",) * 4 + ("i8", "u8", "i16", "u16", "u32", "i64", "u64", "f16", "bf16", "f64", "bool")
EXACT = {"f16": 1024, "bf16": 128, "f32": 1 << 22, "f64": 1 << 40}
"""Whole numbers up to here, and sums of them, are exact, so that sums may be taken in any order."""


class Buffer(msgspec.Struct):
    """A buffer: `whole` says that every element holds a value, `bound` how great it can be in magnitude, `held` that
    only the nest that made it writes it for now."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    direction: str
    whole: bool
    bound: int = 0
    read: bool = False
    scope: str = ""
    held: bool = False

    @property
    def written(self) -> bool:
        """Whether the program may write it."""
        return self.direction != "in"


class Scene:
    """The buffers, sizes and names of a program while it is drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(DTYPES)
        self.buffers: list[Buffer] = []
        self.indices: dict[str, Dim] = {}
        self.ranges: dict[str, str] = {}
        self.sizes: dict[str, tuple[int, int, int]] = {}
        self.compared: set[str] = set()
        self.counts: dict[str, int] = {}
        self.dims: tuple[Dim, ...] = tuple(rng.sample([2, 3, 4, 4, 5, 6, 7, 8], 3))
        if rng.random() < 0.06:
            self.dims = (1, *self.dims[1:])
        if rng.random() < 0.3:
            self.sizes["M"] = rng.choice([(1, 9, 1), (1, 9, 1), (2, 8, 2), (1, 100, 1)])
            self.dims = ("M", "M", *self.dims[1:])
            if rng.random() < 0.3:
                self.sizes["N"] = (1, 7, 1)
                self.dims = ("N", *self.dims)

    # ------------------------------------------------------------------ names and buffers
    def name(self, stem: str) -> str:
        """`stem` with a number that no other name of it has."""
        self.counts[stem] = self.counts.get(stem, -1) + 1
        return f"{stem}{self.counts[stem]}"

    def coin(self, chance: float = 0.5) -> bool:
        """True as often as `chance` says."""
        return self.rng.random() < chance

    def dim(self) -> Dim:
        """One of the program's few extents."""
        return self.rng.choice(self.dims)

    def constant(self) -> int:
        """One of its extents that is a number."""
        return self.rng.choice([d for d in self.dims if isinstance(d, int)])

    def new(self, shape: Sequence[Dim], direction: str, dtype: str | None = None) -> Buffer:
        """One more buffer."""
        dtype = self.dtype if dtype is None else dtype
        given = direction in ("in", "inout")
        stem = {"in": "X", "inout": "U", "out": "O", "alloc": "T"}[direction]
        bound = 4 if given else 0
        scope = self.rng.choice(["", "", "", " @ local"]) if direction == "alloc" else ""
        made = Buffer(self.name(stem), dtype, tuple(shape), direction, given, bound, scope=scope)
        self.buffers.append(made)
        return made

    def target(self, shape: Sequence[Dim], whole: bool, dtype: str | None = None) -> Buffer:
        """A buffer of a shape to write: where not all of it is written, one that holds something already."""
        dtype = self.dtype if dtype is None else dtype
        free = [b for b in self.buffers if b.written and b.whole and not b.held]
        fits = [b for b in free if (b.shape, b.dtype) == (tuple(shape), dtype)]
        if fits and self.coin(0.25 if whole else 0.7):
            return self.rng.choice(fits)
        if not whole:
            return self.new(shape, "inout", dtype)
        return self.new(shape, self.rng.choice(["alloc", "alloc", "alloc", "out", "inout"]), dtype)

    def source(self, dtype: str, rank: int | None = None) -> Buffer:
        """A buffer to read, with a value in every element; often one that nobody reads yet."""
        fits = [b for b in self.buffers if b.whole and b.dtype == dtype and rank in (None, len(b.shape))]
        unread = [b for b in fits if not b.read and b.direction == "alloc"]
        if unread and self.coin(0.7):
            fits = unread
        if not fits or self.coin(0.15):
            shape = [self.dim() for _ in range(self.rng.choice([1, 2]) if rank is None else rank)]
            fits = [self.new(shape, "in", dtype)]
        found = self.rng.choice(fits)
        found.read = True
        return found

    def index_buffer(self, length: Dim, below: Dim) -> str:
        """A parameter of `length` indices of a dimension of `below` elements."""
        fits = [b for b in self.buffers if self.indices.get(b.name) == below and b.shape == (length,)]
        if not fits:
            made = Buffer(self.name("I"), self.rng.choice(["i64", "i64", "i32"]), (length,), "in", True)
            self.indices[made.name] = below
            if self.coin(0.4):
                self.ranges[made.name] = f" in 0..{below}"
            self.buffers.append(made)
            fits = [made]
        return fits[0].name

    def pointers(self, rows: int, below: int) -> str:
        """A parameter that says, in order, where each row begins."""
        made = Buffer(self.name("P"), "i32", (rows + 1,), "in", True)
        self.indices[made.name] = below
        self.ranges[made.name] = f" in 0..{below} sorted"
        self.buffers.append(made)
        return made.name

    # ------------------------------------------------------------------ indices
    def index(self, dim: Dim, axes: Axes) -> str:
        """An index within a dimension, made of axes, or loaded."""
        picks: list[str] = ["0", f"{dim} - 1"]
        for a, n in axes:
            picks += self._about(a, n, dim)
        same = [a for a, n in axes if n == dim]
        if same and self.coin(0.5):
            return self.rng.choice(same)
        return self.rng.choice(picks) if len(picks) < 3 or self.coin(0.1) else self.rng.choice(picks[2:])

    def _about(self, a: str, n: Dim, dim: Dim) -> list[str]:
        gathered = f"i64({self.index_buffer(n, dim)}[{a}])" if self.coin(0.15) else a
        if n == dim:
            some = [a, a, f"{dim} - 1 - {a}", f"min({a} + 1, {dim} - 1)", f"max({a} - 1, 0)", gathered]
            return [*some, f"({a} + 1) % {dim}"] if isinstance(dim, int) else some
        if isinstance(n, int) and isinstance(dim, int):
            if n > dim:
                return [f"{a} % {dim}", f"{a} // {-(-n // dim)}", f"min({a}, {dim - 1})"]
            some = [a, f"{a} + {dim - n}", f"{dim - 1} - {a}", *([gathered] if gathered != a else [])]
            return [*some, f"{a} * {(dim - 1) // (n - 1)}"] if n > 1 else some
        return [f"min({a}, {dim} - 1)", f"{a} % {dim}"]

    # ------------------------------------------------------------------ values
    def literal(self, dtype: str, value: int) -> str:
        """A number of a type."""
        if dtype == "bool":
            return "true" if value > 0 else "false"
        if dtype[0] == "u":
            value = abs(value)
        if dtype == "i32":
            return str(value) if value >= 0 else f"(0 - {-value})"
        if dtype == "f32":
            return f"{value}.0" if value >= 0 else f"(-{-value}.0)"
        return f"{dtype}({value}.0)" if dtype in FLOATS else f"{dtype}({value})"

    def read(self, buffer: Buffer, axes: Axes, indices: str | None = None) -> Term:
        """A load; a float that may be great is clamped, so that what is made of it stays exact."""
        buffer.read = True
        at = ", ".join(self.index(d, axes) for d in buffer.shape) if indices is None else indices
        return self.small(buffer.dtype, (f"{buffer.name}[{at}]", buffer.bound))

    def small(self, dtype: str, term: Term, most: int = 4) -> Term:
        """A value clamped to `most` in magnitude, if it is a float and not known to be."""
        text, bound = term
        if dtype not in FLOATS or bound <= most:
            return term
        return f"max(min({text}, {self.literal(dtype, most)}), {self.literal(dtype, -most)})", most

    def leaf(self, dtype: str, axes: Axes) -> Term:
        """A load, a number, or an axis as a value."""
        roll = self.rng.random()
        if roll < 0.12:
            value = self.rng.randint(-3, 3)
            return self.literal(dtype, value), abs(value)
        if roll < 0.2 and axes and dtype != "bool":
            a, n = self.rng.choice(list(axes))
            if isinstance(n, int):
                return f"{dtype}({a})", max(n - 1, 0)
        if roll < 0.27 and dtype in ("i32", "f32", "i16", "f64", "i64"):
            other = self.rng.choice(["i8", "u8", "bool"])
            return f"{dtype}({self.read(self.source(other), axes)[0]})", 256
        return self.read(self.source(dtype), axes)

    def value(self, dtype: str, axes: Axes, depth: int = 2) -> Term:
        """A value of a type."""
        if depth == 0 or self.coin(0.25):
            return self.leaf(dtype, axes)
        if dtype == "bool":
            return self.condition(axes, depth - 1), 1
        if self.coin(0.15):
            return self._selected(dtype, axes, depth)
        if self.coin(0.1):
            return self._function(dtype, axes, depth)
        (a, p), (b, q) = self.value(dtype, axes, depth - 1), self.value(dtype, axes, depth - 1)
        if dtype in FLOATS:
            most = int(EXACT[dtype] ** 0.5) // 2
            (a, p), (b, q) = self.small(dtype, (a, p), most), self.small(dtype, (b, q), most)
        match self.rng.choice("++-**><"):
            case "+":
                return f"({a} + {b})", p + q
            case "-":
                return f"({a} - {b})", p + q
            case "*":
                return f"{a} * {b}", p * q
            case ">":
                return f"max({a}, {b})", max(p, q)
        return f"min({a}, {b})", max(p, q)

    def _selected(self, dtype: str, axes: Axes, depth: int) -> Term:
        (a, p), (b, q) = self.value(dtype, axes, depth - 1), self.leaf(dtype, axes)
        return f"select({self.condition(axes, 0)}, {a}, {b})", max(p, q)

    def _function(self, dtype: str, axes: Axes, depth: int) -> Term:
        """A function that is exact."""
        (a, p), (b, q) = self.value(dtype, axes, depth - 1), self.leaf(dtype, axes)
        if dtype in FLOATS:
            return f"{self.rng.choice(['abs', 'floor', 'ceil', 'trunc', 'round'])}({a})", p
        picks = [f"popcount({a})", f"clz({a})", f"bit_xor({a}, {b})", f"bit_and({a}, {b})", f"bit_or({a}, {b})"]
        return self.rng.choice(picks), p + q

    # ------------------------------------------------------------------ conditions
    def flag(self) -> str:
        """A condition about data in which no axis occurs."""
        found = next((b for b in self.buffers if b.name.startswith("F")), None)
        if found is None:
            found = Buffer(self.name("F"), self.rng.choice(["i32", "bool", "u8"]), (2,), "in", True)
            self.buffers.append(found)
        at = f"{found.name}[{self.rng.randint(0, 1)}]"
        return at if found.dtype == "bool" else f"{at} > {'u8(1)' if found.dtype == 'u8' else '0'}"

    def condition(self, axes: Axes, depth: int = 1) -> str:
        """A condition about axes, data, or both."""
        if depth > 0 and self.coin(0.3):
            return f"({self.condition(axes, 0)} {self.rng.choice(['and', 'or'])} {self.condition(axes, 0)})"
        makers: list[Callable[[Axes], str]] = [self.about_data, lambda _: self.flag()]
        return self.rng.choice([*makers, *([self.about_axes] * 2 if axes else [])])(axes)

    def about_axes(self, axes: Axes) -> str:
        """A condition about one axis, or two."""
        a, n = self.rng.choice(list(axes))
        b = self.rng.choice(list(axes))[0]
        most = n - 1 if isinstance(n, int) else 3
        picks = [f"{a} < {self.rng.randint(1, max(most, 1))}", f"{a} >= {self.rng.randint(0, max(most - 1, 0))}"]
        picks += [f"{a} % 2 == {self.rng.randint(0, 1)}", f"{a} != {self.rng.randint(0, max(most, 0))}"]
        return self.rng.choice([*picks, f"{a} <= {b}"] if a != b else picks)

    def about_data(self, axes: Axes) -> str:
        """A condition about what is loaded."""
        dtype = self.rng.choice([self.dtype, self.dtype, "i32"])
        left = self.read(self.source(dtype), axes)[0]
        if dtype == "bool":
            return self.rng.choice([left, f"not {left}"])
        if dtype in FLOATS and self.coin(0.2):
            return f"{self.rng.choice(['isnan', 'isinf'])}({left})"
        return f"{left} {self.rng.choice(['>', '<=', '=='])} {self.literal(dtype, self.rng.randint(0, 1))}"


__all__ = ["EXACT", "FLOATS", "Axes", "Buffer", "Dim", "Scene", "Term"]
