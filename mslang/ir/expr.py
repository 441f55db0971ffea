"""Expressions: immutable values with a cached structural hash.

Index arithmetic has type `i64`. `//` and `%` are floor division and its remainder. A `Var` is a loop
variable, a block axis or a `let`; a `Symbol` is a size that is not a number yet: a dynamic shape or a
sampled decision, with all that is known of it in its `domain`. What is known of a decision comes from its
distribution only, never from a value drawn for it (`ARCHITECTURE.md`, "One replay path").
"""

from __future__ import annotations

from operator import is_

import msgspec

from mslang.ir.dtype import INDEX


# No node refers back to what holds it, so none needs the garbage collector (`gc=False`): a full collection would walk
# through all programs that are kept.
class Expr(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Any expression."""


class Const(Expr, frozen=True, cache_hash=True):
    """A literal: int, float (inf and nan too) or bool according to `dtype`."""

    value: int | float | bool
    dtype: str = INDEX


class Var(Expr, frozen=True, cache_hash=True):
    """A loop variable, block axis or let-bound name; of `lanes` elements in kernels only."""

    name: str
    dtype: str = INDEX
    lanes: int = 1


class Binary(Expr, frozen=True, cache_hash=True):
    """`left op right`; op is one of BINARY_OPS. Both sides have one type; comparisons and and/or give bool."""

    op: str
    left: Expr
    right: Expr


class Unary(Expr, frozen=True, cache_hash=True):
    """`-x` (op "-") or `not x` (op "not")."""

    op: str
    operand: Expr


class Select(Expr, frozen=True, cache_hash=True):
    """`select(condition, then, otherwise)`; only the side chosen is evaluated (guards out-of-bounds loads)."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Cast(Expr, frozen=True, cache_hash=True):
    """Conversion to `dtype`, by C's rules; float to int truncates."""

    dtype: str
    operand: Expr


class Call(Expr, frozen=True, cache_hash=True):
    """A function (of `ir.functions`) or an external one; `dtype` is the result's."""

    name: str
    args: tuple[Expr, ...]
    dtype: str


class Load(Expr, frozen=True, cache_hash=True):
    """`buffer[indices]`; `dtype` is the buffer's element type."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: str


# ------------------------------------------------------------------ vectors, made by lowering
class Ramp(Expr, frozen=True, cache_hash=True):
    """The vector `base, base + stride, …` of `lanes` indices. Kernels alone have it, as all vectors."""

    base: Expr
    stride: int
    lanes: int


class Broadcast(Expr, frozen=True, cache_hash=True):
    """The vector of `lanes` times the scalar `value`."""

    value: Expr
    lanes: int


class Shuffle(Expr, frozen=True, cache_hash=True):
    """The elements of `operands`, joined into one vector, at the positions `order`; a scalar if that is one."""

    operands: tuple[Expr, ...]
    order: tuple[int, ...]


class MaskedLoad(Expr, frozen=True, cache_hash=True):
    """`buffer[indices]` in the lanes in which `mask` holds; in the others no memory is read, and the value is 0."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: str
    mask: Expr


ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "min", "max"})
SHIFTS = frozenset({"<<", ">>"})
BITS = frozenset({"&", "|", "^"})
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
LOGICAL = frozenset({"and", "or"})
BINARY_OPS = ARITHMETIC | SHIFTS | BITS | COMPARISONS | LOGICAL


# ------------------------------------------------------------------ symbols and their domains
class Domain(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What is known of a symbol."""


class DynamicRange(Domain, frozen=True, cache_hash=True):
    """A shape known only when the kernel is called: `lo <= value <= hi`, a multiple of `multiple`.

    `buckets` are the largest sizes of the parts of the range that are tuned separately, without the last; where none is
    given they are powers of two (`ir/buckets.py`).
    """

    lo: int
    hi: int
    multiple: int = 1
    buckets: tuple[int, ...] = ()


class PerfectTile(Domain, frozen=True, cache_hash=True):
    """All `n` factors of one decision multiply to `extent`; the innermost is at most `max_inner` (None: no cap)."""

    extent: Expr
    n: int
    max_inner: int | None = None


class PartitionedTile(Domain, frozen=True, cache_hash=True):
    """A perfect tile whose factors from position `at` on multiply to a multiple of `factor`."""

    extent: Expr
    n: int
    at: int
    factor: int


class FreeTile(Domain, frozen=True, cache_hash=True):
    """Any sizes: factor 0 is `ceildiv(extent, product of the others)`; the innermost is at most `max_inner`."""

    extent: Expr
    n: int
    max_inner: int | None = None


class Choice(Domain, frozen=True, cache_hash=True):
    """One of finitely many integers."""

    values: tuple[int, ...]
    weights: tuple[float, ...] | None = None

    @property
    def drawn(self) -> tuple[int, ...]:
        """The values that a search tries, each once, in order: those whose weight is not 0. A pin may be any."""
        if self.weights is None:
            return tuple(dict.fromkeys(self.values))
        return tuple(dict.fromkeys(x for x, w in zip(self.values, self.weights, strict=True) if w > 0))


class Uniform(Domain, frozen=True, cache_hash=True):
    """An integer, `lo <= value < hi`."""

    lo: int
    hi: int


class Symbol(Expr, frozen=True, cache_hash=True):
    """A size that is not a number yet. `name` is the decision's address or the size's name; `position` counts
    the factors of a tile (None for a scalar decision). All factors of one tile share one `domain`."""

    name: str
    domain: Domain
    position: int | None = None

    @property
    def text(self) -> str:
        """How it is written: `M`, `ti[2]`."""
        return self.name if self.position is None else f"{self.name}[{self.position}]"


TRUE = Const(True, "bool")
FALSE = Const(False, "bool")
ZERO = Const(0)
ONE = Const(1)


def dtype_of(e: Expr) -> str:
    """The type of an expression's value, of an element if it is a vector."""
    # As in `children`: tests of the exact type, the most frequent first.
    if type(e) is Binary:
        return "bool" if e.op in COMPARISONS or e.op in LOGICAL else dtype_of(e.left)
    match e:
        case Var(dtype=d) | Const(dtype=d) | Load(dtype=d) | Call(dtype=d) | Cast(dtype=d) | MaskedLoad(dtype=d):
            return d
        case Symbol() | Ramp():
            return INDEX
        case Broadcast(value=x) | Shuffle(operands=(x, *_)):
            return dtype_of(x)
        case Unary(op=op, operand=x):
            return "bool" if op == "not" else dtype_of(x)
        case Select(then=t):
            return dtype_of(t)
    raise TypeError(f"not an expression: {e!r}")


LEAVES = frozenset({Const, Var, Symbol})
"""The kinds of expressions without operands."""


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression (a symbol's domain is not one).

    Raises:
        TypeError: it is not an expression that stands here.
    """
    # Every traversal comes here: tests of the exact type, the most frequent first, are faster than a `match`.
    if type(e) is Binary:
        return (e.left, e.right)
    if type(e) in LEAVES:
        return ()
    if type(e) is Load:
        return e.indices
    match e:
        case Unary(operand=x) | Cast(operand=x):
            return (x,)
        case Select(condition=c, then=t, otherwise=o):
            return (c, t, o)
        case Call(args=xs) | Shuffle(operands=xs) | Load(indices=xs):
            return xs
        case Ramp(base=x) | Broadcast(value=x):
            return (x,)
        case MaskedLoad(indices=xs, mask=m):
            return (*xs, m)
    raise TypeError(f"not an expression: {e!r}")


def with_children(e: Expr, xs: tuple[Expr, ...]) -> Expr:
    """The same node over other operands; the node itself if they are the same objects."""
    old = children(e)
    if len(old) != len(xs):
        raise ValueError(f"{len(xs)} operands for {e!r}")
    if all(map(is_, old, xs)):
        return e
    if type(e) is Binary:
        return Binary(e.op, xs[0], xs[1])
    match e:
        case Unary(op=op):
            return Unary(op, xs[0])
        case Cast(dtype=d):
            return Cast(d, xs[0])
        case Select():
            return Select(xs[0], xs[1], xs[2])
        case Call(name=n, dtype=d):
            return Call(n, xs, d)
        case Load(buffer=b, dtype=d):
            return Load(b, xs, d)
        case Shuffle(order=order):
            return Shuffle(xs, order)
        case Ramp(stride=k, lanes=n):
            return Ramp(xs[0], k, n)
        case Broadcast(lanes=n):
            return Broadcast(xs[0], n)
        case MaskedLoad(buffer=b, dtype=d):
            return MaskedLoad(b, xs[:-1], d, xs[-1])
    raise TypeError(f"not an expression: {e!r}")
