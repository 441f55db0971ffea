"""Substitution that folds: variables become values, and indices, comparisons and conditions their normal form.

An index is read as a linear form over variables, sizes and opaque scalars (`ir/arith/linear`). The number of the lane
is one more variable: a vector comes back as `Ramp(base, stride, lanes)`. Divisions, remainders, `min`, `max` and
comparisons are settled where the ranges of variables settle them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd

from mslang.ir.arith.data import may_overflow
from mslang.ir.arith.linear import Form, Interval, Linear, add, compare, divide, interval, scale
from mslang.ir.dtype import INDEX, is_float
from mslang.ir.expr import (
    COMPARISONS,
    FALSE,
    TRUE,
    Binary,
    Broadcast,
    Const,
    DynamicRange,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Symbol,
    Var,
    children,
    dtype_of,
    with_children,
)
from mslang.ir.visit import CACHED, free_vars, has_zero, zero_signs
from mslang.kernel.lanes import lanes_of
from mslang.kernel.nodes import For
from mslang.lower.fold import step

LANE = "%lane"
"""The variable of a form that is the number of the lane."""

_LINEAR = frozenset({"+", "-", "*"})
_INDEX = _LINEAR | {"//", "%", "min", "max"}


class Known:
    """What is known of variables where statements stand, and what was already found out with that.

    `ranges` are inclusive bounds of variables. Expressions are remembered with the values put into them.
    """

    def __init__(self, ranges: Mapping[str, Interval]) -> None:
        self.ranges = ranges
        self.opaque: dict[str, Expr] = {}
        self.bounds: dict[str, Interval] = dict(ranges)
        self.made: dict[tuple[object, ...], Expr] = {}
        self.forms: dict[Expr, tuple[Linear, int] | None] = {}
        self._inner: dict[tuple[str, Interval | None], Known] = {}

    def within(self, var: str, bounds: Interval | None) -> Known:
        """Inside of a loop or `let` of this variable."""
        key = (var, bounds)
        found = self._inner.get(key)
        if found is None:
            ranges = {n: r for n, r in self.ranges.items() if n != var}
            found = self._inner[key] = Known(ranges if bounds is None else {**ranges, var: bounds})
        return found

    # -------------------------------------------------------------- expressions
    def expr(self, e: Expr, values: Mapping[str, Expr]) -> Expr:
        """`e` with variables replaced by their values, in normal form."""
        if type(e) is Const:
            return e
        if type(e) is Var:
            return values.get(e.name, e)
        names = free_vars(e)
        put = [v for n, v in values.items() if n in names]
        key = (e, *zero_signs(e), *put) if has_zero(e) else (e, *put)
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = self._expr(e, values)
        return found

    def _expr(self, e: Expr, values: Mapping[str, Expr]) -> Expr:
        match e:
            case Var(name=n):
                return values.get(n, e)
            case Load(indices=xs):
                return with_children(e, tuple([self.index(x, values) for x in xs]))
            case MaskedLoad(indices=xs, mask=m):
                return unmasked(with_children(e, (*[self.index(x, values) for x in xs], self.expr(m, values))))
        xs = children(e)
        return self.settled(with_children(e, tuple([self.expr(x, values) for x in xs])) if xs else e)

    def settled(self, e: Expr) -> Expr:
        """A node whose operands are in normal form, in normal form."""
        match e:
            case Binary(op=op) if op in _INDEX and dtype_of(e) == INDEX:
                return _folded(e) if reads(e) else self._index(e)
            case Binary(op=op) if op in COMPARISONS:
                return self._comparison(e)
            case Ramp():
                return self._index(e)
        return _folded(e)

    def index(self, e: Expr, values: Mapping[str, Expr]) -> Expr:
        """An index of an access: as `expr`, and sums of what is loaded in normal form too."""
        made = self.expr(e, values)
        return self._index(made) if isinstance(made, Binary) and reads(made) else made

    def _index(self, e: Expr) -> Expr:
        form = self.form(e)
        if form is None:
            return _folded(e)
        return self._written(*form)

    def _comparison(self, e: Expr) -> Expr:
        if isinstance(e, Binary) and dtype_of(e.left) == INDEX and not reads(e) and not _may_wrap(e.left, e.right):
            a, b = self.form(e.left), self.form(e.right)
            if a is not None and b is not None:
                lanes = max(a[1], b[1])
                known = compare(e.op, a[0], b[0], self._bounds(lanes))
                if known is not None:
                    return TRUE if known else FALSE
        return _folded(e)

    # -------------------------------------------------------------- forms
    def form(self, e: Expr) -> tuple[Linear, int] | None:
        """The linear form of an index whose variables are replaced already, and its lanes; None for a vector that has
        none."""
        if e not in self.forms:
            self.forms[e] = self._form(e)
        return self.forms[e]

    def _form(self, e: Expr) -> tuple[Linear, int] | None:
        match e:
            case Const(value=v):
                return Form(int(v), {}), 1
            case Var(name=n, dtype=d, lanes=1) if d == INDEX:
                return Form(0, {n: 1}), 1
            case Symbol(domain=domain):
                name = f"%{e.text}"
                if isinstance(domain, DynamicRange):
                    self.bounds[name] = (domain.lo, domain.hi)
                self.opaque[name] = e
                return Form(0, {name: 1}), 1
            case Ramp(base=x, stride=k, lanes=n):
                base = self.form(x)
                return None if base is None else (add(base[0], Form(0, {LANE: k} if k else {})), n)
            case Broadcast(value=x, lanes=n):
                base = self.form(x)
                return None if base is None else (base[0], n)
            case Binary(op=op, left=left, right=right) if op in _LINEAR or (
                op in _INDEX and not _may_wrap(left, right)
            ):
                a, b = self.form(left), self.form(right)
                if a is not None and b is not None:
                    lanes = max(a[1], b[1])
                    made = self._combined(op, a[0], b[0], lanes)
                    if made is None and lanes > 1 and op in ("//", "%") and not b[0].terms:
                        made = self._within_row(op, a[0], b[0].constant, lanes)
                    if made is not None:
                        return made, lanes
        return None if lanes_of(e) > 1 else (self._atom(e), 1)

    def _combined(self, op: str, a: Linear, b: Linear, lanes: int) -> Linear | None:
        match op:
            case "+":
                return add(a, b)
            case "-":
                return add(a, b, -1)
            case "*":
                if not b.terms:
                    return scale(a, b.constant)
                return None if a.terms else scale(b, a.constant)
            case "//" | "%" if not b.terms and b.constant > 0:
                parts = divide(a, b.constant, self._bounds(lanes))
                return None if parts is None else parts[op == "%"]
            case "min" | "max":
                first = compare("<=", a, b, self._bounds(lanes))
                return None if first is None else a if first == (op == "min") else b
        return None

    def _within_row(self, op: str, a: Linear, by: int, lanes: int) -> Linear | None:
        """The quotient or remainder of a vector all of whose lanes have one quotient.

        In up to 32 lanes `(i * 32 + lane) // 256` is `i // 8`, and its remainder `i % 8 * 32 + lane`.
        """
        outer = {n: k for n, k in a.terms.items() if n != LANE}
        step = gcd(by, *outer.values())
        start = a.constant % step
        inner = Form(start, {n: k for n, k in a.terms.items() if n == LANE})
        bounds = interval(inner, self._bounds(lanes))
        if by <= 0 or bounds is None or not 0 <= bounds[0] <= bounds[1] < step:
            return None
        base = Form((a.constant - start) // step, {n: k // step for n, k in outer.items()})
        by //= step
        whole = self._combined(op, base, Form(by, {}), 1)
        if whole is None:
            whole = self._atom(Binary(op, self._scalar(base), Const(by)))
        return whole if op == "//" else add(scale(whole, step), inner)

    def _bounds(self, lanes: int) -> Mapping[str, Interval]:
        if lanes > 1:
            self.bounds[LANE] = (0, lanes - 1)
        return self.bounds

    def _atom(self, e: Expr) -> Linear:
        """An opaque scalar as a variable of its own."""
        e = with_children(e, tuple([self._normal(x) for x in children(e)]))
        name = f"%{len(self.opaque)}"
        name = next((n for n, x in self.opaque.items() if x == e), name)
        self.opaque[name] = e
        known = self._range(e)
        if known is not None:
            self.bounds[name] = known
        return Form(0, {name: 1})

    def _normal(self, e: Expr) -> Expr:
        if dtype_of(e) != INDEX or not isinstance(e, Binary):
            return e
        form = self.form(e)
        return e if form is None else self._written(*form)

    def _range(self, e: Expr) -> Interval | None:
        """Bounds of a quotient or remainder by a number, of `min` and `max`."""
        if not isinstance(e, Binary):
            return None
        match e.op, self.interval(e.left), e.right:
            case "%", _, Const(value=by) if by > 0:
                return 0, int(by) - 1
            case "//", (lo, hi), Const(value=by) if by > 0:
                return lo // int(by), hi // int(by)
            case "max" | "min" as op, (lo, hi), right if (other := self.interval(right)) is not None:
                f = max if op == "max" else min
                return f(lo, other[0]), f(hi, other[1])
        return None

    def interval(self, e: Expr) -> Interval | None:
        """Inclusive bounds of a scalar index, or None."""
        form = self.form(e)
        return None if form is None or form[1] > 1 else interval(form[0], self.bounds)

    def _written(self, form: Linear, lanes: int) -> Expr:
        lane = form.terms.get(LANE, 0)
        base = self._scalar(form)
        return Ramp(base, lane, lanes) if lane else base

    def _scalar(self, form: Linear) -> Expr:
        total: Expr | None = None
        for name, k in form.terms.items():
            if name == LANE:
                continue
            atom = self.opaque.get(name) or Var(name)
            term: Expr = atom if abs(k) == 1 else Binary("*", atom, Const(abs(k)))
            if total is None:
                total = term if k > 0 else Binary("*", atom, Const(k))
            else:
                total = Binary("+" if k > 0 else "-", total, term)
        if total is None:
            return Const(form.constant)
        if form.constant == 0:
            return total
        return Binary("+" if form.constant > 0 else "-", total, Const(abs(form.constant)))


def loop_bounds(s: For, known: Known) -> Interval | None:
    """The values of a loop's variable, where its bounds are known."""
    over, trips = known.interval(s.start), known.interval(s.extent)
    return None if over is None or trips is None else (over[0], over[1] + max(trips[1], 1) - 1)


def _folded(e: Expr) -> Expr:
    made = step(e)
    return e if made is None else made


def unmasked(e: Expr) -> Expr:
    """A masked load whose mask is a constant, as a load or as 0; other expressions as they are."""
    if not isinstance(e, MaskedLoad) or not isinstance(e.mask, Const):
        return e
    if e.mask.value:
        return Load(e.buffer, e.indices, e.dtype)
    return Const(False if e.dtype == "bool" else 0.0 if is_float(e.dtype) else 0, e.dtype)


@lru_cache(maxsize=CACHED)
def reads(e: Expr) -> bool:
    """Whether an expression loads anything."""
    return isinstance(e, Load | MaskedLoad) or any(reads(x) for x in children(e))


def _may_wrap(a: Expr, b: Expr) -> bool:
    """Whether data in two index expressions, or in their difference, may need more than 64 bits: no order is known."""
    return may_overflow(Binary("-", a, b))
