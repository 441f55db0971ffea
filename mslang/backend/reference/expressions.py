"""From expressions to Python source, each access with its checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from mslang.backend.reference.faults import Site
from mslang.backend.reference.numeric import limits, literal, rounded, wrapped
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import INDEX, bits, is_float
from mslang.ir.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Symbol,
    Unary,
    Var,
    dtype_of,
)
from mslang.ir.functions import FUNCTIONS, Domain
from mslang.ir.program import Block, Region
from mslang.ir.region import hidden
from mslang.ir.visit import walk_expr


class Name(msgspec.Struct, frozen=True):
    """What stands for a variable: source text, its values `lo <= v <= hi` where they are known, and whether it is made
    of data, whose sums wrap around."""

    text: str
    lo: int | None = None
    hi: int | None = None
    data: bool = False

    def within(self, extent: int) -> bool:
        """Whether it is provably an index of a dimension of this extent."""
        return self.lo is not None and self.hi is not None and self.lo >= 0 and self.hi < extent


class Storage(msgspec.Struct, frozen=True):
    """A buffer that holds data: a list of elements `text`, a shadow `text_s` if `raced`, owners `text_o`."""

    text: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    fresh: bool
    raced: bool
    level: int
    """How many blocks are around the place where it is allocated."""


class Window(msgspec.Struct, frozen=True):
    """A view: where it starts in each dimension of what it views, and how many of these it drops in front."""

    source: str
    starts: tuple[str, ...]
    dropped: int
    shape: tuple[int, ...]
    level: int


class Level(msgspec.Struct, frozen=True):
    """A block around the place being generated. `box` gives the source of a region's bounds, computed on entry.

    `once`: no instance runs twice in one iteration of the `while` loops around. `own` are the axes' Python names,
    `around` those of the block around and the counters of these loops.
    """

    block: Block
    box: Callable[[Region, int], tuple[str, str]]
    once: bool
    around: tuple[str, ...]
    own: tuple[str, ...]


class Scope(msgspec.Struct, frozen=True):
    """What is in scope: variables, buffers, views, the blocks around, the loops inside the innermost of them, and the
    counters of the `while` loops around."""

    names: Mapping[str, Name] = MappingProxyType({})
    buffers: Mapping[str, Storage | Window] = MappingProxyType({})
    levels: tuple[Level, ...] = ()
    loops: tuple[str, ...] = ()
    whiles: tuple[str, ...] = ()

    def viewed(self, buffer: str) -> str:
        """The buffer whose memory a name stands for."""
        found = self.buffers.get(buffer)
        return self.viewed(found.source) if isinstance(found, Window) else buffer

    @property
    def block(self) -> str | None:
        """The innermost block's name."""
        return self.levels[-1].block.name if self.levels else None

    def under(self, loops: Mapping[str, Name]) -> Scope:
        """The scope inside these loops."""
        return Scope({**self.names, **loops}, self.buffers, self.levels, (*self.loops, *loops), self.whiles)


def unsupported(what: str) -> MsError:
    """The error for what the interpreter gives no meaning to."""
    return MsError(problem("MS488", f"the reference interpreter cannot run {what}"))


def no_value(name: str) -> MsError:
    """The error for a size or decision that has no value."""
    return MsError(problem("MS487", f"the size `{name}` has no value", help=f"give it: sizes={{'{name}': …}}"))


class Expressions:
    """Generates expressions; numbers temporaries and sites."""

    def __init__(self, check: bool) -> None:
        self.check = check
        self.sites: list[Site] = []
        self._count = 0

    def temporary(self, stem: str = "t") -> str:
        """A new Python name."""
        self._count += 1
        return f"_{stem}{self._count}"

    def site(self, buffer: str, write: bool, scope: Scope) -> int:
        """The number of a new access."""
        self.sites.append(Site(buffer, write, scope.block))
        return len(self.sites) - 1

    # -------------------------------------------------------------- operators
    def expr(self, e: Expr, scope: Scope) -> str:
        """Source of the value of `e`: a Python int, float or bool."""
        match e:
            case Const(value=v, dtype=d):
                return literal(v, d)
            case Var(name=n):
                found = scope.names.get(n)
                if found is None:
                    raise MsError(
                        problem(
                            "MS151", f"`{n}` is not in scope" + (f" in block `{scope.block}`" if scope.block else "")
                        )
                    )
                return found.text
            case Symbol():
                raise no_value(e.name)
            case Load():
                return self.load(e, scope)
            case Select(condition=c, then=t, otherwise=o):
                return f"({self.expr(t, scope)} if {self.expr(c, scope)} else {self.expr(o, scope)})"
            case Cast(dtype=d, operand=x):
                return _cast(self.expr(x, scope), dtype_of(x), d)
            case Unary(op="not", operand=x):
                return f"(not {self.expr(x, scope)})"
            case Unary(operand=x):
                return _arithmetic(f"(-{self.expr(x, scope)})", e, self._wraps(e, scope))
            case Binary(op=op, left=a, right=b):
                return self._binary(op, self.expr(a, scope), self.expr(b, scope), e, self._wraps(e, scope))
            case Call(name=n, args=xs, dtype=d):
                return _call(n, tuple(self.expr(x, scope) for x in xs), dtype_of(xs[0]) if xs else d)
        raise TypeError(f"not an expression: {e!r}")

    def stored(self, e: Expr, scope: Scope) -> str:
        """Source of a value for memory: what is computed from indices must fit there."""
        text = self.expr(e, scope)
        computed = dtype_of(e) == INDEX and isinstance(e, Binary | Unary | Select | Call | Var)
        return f"index({text})" if computed else text

    def _binary(self, op: str, a: str, b: str, e: Binary, wraps: bool) -> str:
        dtype = dtype_of(e.left)
        if op in COMPARISONS:
            return f"({a} {op} {b})"
        match op:
            case "and":
                return f"({a} and {b})"
            case "or":
                return f"({a} or {b})"
            case "&" | "|" | "^":
                return f"({a} {op} {b})"
            case "min" | "max":
                return f"{op}imum({a}, {b})" if is_float(dtype) else f"{op}({b}, {a})"
            case "<<":
                return wrapped(f"shift_left({a}, {b}, {bits(dtype)})", dtype)
            case ">>":
                return f"shift_right({a}, {b}, {bits(dtype)})"
            case "/" if is_float(dtype):
                return rounded(f"divide({a}, {b})", dtype)
        if op == "/" or (op in ("//", "%") and is_float(dtype)):
            raise unsupported(f"`{op}` of `{dtype}`")
        return _arithmetic(f"({a} {op} {b})", e, wraps)

    def _wraps(self, e: Expr, scope: Scope) -> bool:
        """Whether a result wraps around at the width of its type: all but those of indices, which are exact."""
        return dtype_of(e) != INDEX or self.from_data(e, scope)

    def from_data(self, e: Expr, scope: Scope) -> bool:
        """Whether a value is made of data: of what is loaded, here or by a `let`."""
        return any(
            isinstance(x, Load) or (isinstance(x, Var) and x.name in scope.names and scope.names[x.name].data)
            for x in walk_expr(e)
        )

    # -------------------------------------------------------------- accesses
    def load(self, e: Load, scope: Scope) -> str:
        """Source of a load with its checks."""
        checks, flat, storage = self.access(e.buffer, e.indices, scope, False)
        value = f"{storage.text}[{flat}]"
        if not self.check:
            return value
        site = len(self.sites) - 1
        if storage.raced or storage.fresh:
            at = self.temporary()
            value = f"{storage.text}[{at}]"
            if storage.raced:
                checks.append(
                    f"({storage.text}_s.reader[({at} := {flat})] == _ctx"
                    f" or _k.read({storage.text}_s, {at}, _ctx, _levels, {site}))"
                )
            first = at if storage.raced else f"({at} := {flat})"
            if storage.fresh:
                v = self.temporary("v")
                checks.append(
                    f"(({v} := {storage.text}[{first}]) is not None or _k.unset({site}, {at}, {storage.shape}))"
                )
                value = v
        return f"({' and '.join((*checks, value))})" if checks else value

    def access(
        self, buffer: str, indices: tuple[Expr, ...], scope: Scope, write: bool
    ) -> tuple[list[str], str, Storage]:
        """The checks of an access, source of the element's number, and the storage that holds it.

        The checks are to be evaluated in order before the number is.
        """
        site = self.site(buffer, write, scope)
        checks: list[str] = []
        found = self._buffer(buffer, scope)
        if len(found.shape) != len(indices):
            raise MsError(
                problem("MS105", f"`{buffer}` has {len(found.shape)} dimensions, but {len(indices)} are indexed")
            )
        exprs: tuple[Expr | None, ...] = indices
        texts = [self._index(d, x, found.shape[d], scope, site, checks) for d, x in enumerate(indices)]
        level = len(scope.levels)
        updates = False
        while True:
            for around in reversed(scope.levels[found.level : level]):
                if buffer in hidden(around.block, "write" if write else "read"):
                    break  # the blocks further out cannot know of it
                updates = updates or _starts(around.block, buffer)
                self._region(around, buffer, exprs, texts, scope, write, updates, site, checks)
            level = found.level
            if isinstance(found, Storage):
                return checks, _flat(texts, found.shape), found
            texts = [
                *found.starts[: found.dropped],
                *(f"({s} + {x})" for s, x in zip(found.starts[found.dropped :], texts, strict=True)),
            ]
            exprs, buffer = (None,) * len(texts), found.source
            found = self._buffer(buffer, scope)
            if self.check:
                texts = [
                    self._bounded(x, d, n, site, checks)
                    for d, (x, n) in enumerate(zip(texts, found.shape, strict=True))
                ]

    def _buffer(self, name: str, scope: Scope) -> Storage | Window:
        found = scope.buffers.get(name)
        if found is None:
            raise MsError(problem("MS152", f"there is no buffer `{name}`"))
        return found

    def _index(self, d: int, e: Expr, extent: int, scope: Scope, site: int, checks: list[str]) -> str:
        text = self.expr(e, scope)
        if not self.check:
            return text
        if isinstance(e, Var) and scope.names[e.name].within(extent):
            return text
        if isinstance(e, Const) and 0 <= e.value < extent:
            return text
        return self._bounded(text, d, extent, site, checks)

    def _bounded(self, text: str, d: int, extent: int, site: int, checks: list[str]) -> str:
        t = self.temporary()
        checks.append(f"(0 <= ({t} := {text}) < {extent} or _k.bounds({site}, {d}, {t}, {extent}))")
        return t

    def _region(
        self,
        level: Level,
        buffer: str,
        exprs: tuple[Expr | None, ...],
        texts: list[str],
        scope: Scope,
        write: bool,
        updates: bool,
        site: int,
        checks: list[str],
    ) -> None:
        """Add the check that an access lies within what the block of `level` declares.

        `updates`: it or a block inside of it starts the buffer by an init, so that what it writes it may also read.
        """
        if not self.check:
            return
        block = level.block
        allowed = block.writes if write else (*block.reads, *(block.writes if updates else ()))
        own = level is scope.levels[-1]
        tests: list[str] = []
        for r in allowed:
            if r.buffer != buffer:
                continue
            parts = []
            for d, (e, text) in enumerate(zip(exprs, texts, strict=True)):
                whole = r.ranges[d].extent
                if own and e is not None and e == r.ranges[d].start and isinstance(whole, Const) and whole.value >= 1:
                    continue
                lo, hi = level.box(r, d)
                parts.append(f"{lo} <= {text} < {hi}")
            if not parts:
                return
            tests.append(" and ".join(parts))
        condition = " or ".join(tests) if tests else "False"
        checks.append(f"({condition} or _k.region({site}, {block.name!r}, ({''.join(x + ', ' for x in texts)})))")


def _starts(block: Block, buffer: str) -> bool:
    return block.init is not None and any(r.buffer == buffer for r in block.writes)


def _flat(texts: list[str], shape: tuple[int, ...]) -> str:
    parts, stride = [], 1
    for text, n in reversed(list(zip(texts, shape, strict=True))):
        parts.append(text if stride == 1 else f"{text} * {stride}")
        stride *= n
    return " + ".join(reversed(parts)) or "0"


def _arithmetic(text: str, e: Expr, wraps: bool) -> str:
    """The result of `+ - * // %` or a negation brought into its type, where it `wraps` around."""
    dtype = dtype_of(e)
    if is_float(dtype):
        return rounded(text, dtype)
    if dtype == "bool":
        raise unsupported("arithmetic on `bool`")
    if not wraps or (isinstance(e, Binary) and e.op == "%"):
        return text
    return wrapped(text, dtype)


def _cast(text: str, source: str, dtype: str) -> str:
    if source == dtype:
        return text
    if dtype == "bool":
        return f"({text} != 0)"
    if is_float(dtype):
        widens = is_float(source) and bits(source) < bits(dtype)
        # A double holds all integers but those of 64 bits.
        double = "to_odd" if not is_float(source) and bits(source) > 32 and dtype != "f64" else "float"
        return text if widens else rounded(f"{double}({text})", dtype)
    if is_float(source):
        lo, hi = limits(dtype)
        return f"to_int({text}, {lo}, {hi})"
    if source == "bool":
        return f"int({text})"
    (a, b), (lo, hi) = limits(source), limits(dtype)
    return text if lo <= a and b <= hi else wrapped(text, dtype)


def _call(name: str, args: tuple[str, ...], dtype: str) -> str:
    """Source of a function of arguments of type `dtype`."""
    found = FUNCTIONS.get(name)
    if found is None:
        raise unsupported(f"the external function `{name}`")
    if not found.takes(dtype):
        raise unsupported(f"`{name}` of `{dtype}`")
    if found.domain is Domain.INTEGER:
        return f"fn_{name}({bits(dtype)}, {', '.join(args)})"
    value = f"fn_{name}({', '.join(args)})"
    if found.truth:
        return value
    return rounded(value, dtype) if is_float(dtype) else wrapped(value, dtype)
