"""Expressions to instructions: indices as linear forms, everything else as values.

The variables of a form are references to i64 scalars of the function, and the number of the lane (`LANE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeGuard

from mslang.backend.llvm import arithmetic, math, memory, ranks
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.guard import BoundsGuard
from mslang.backend.llvm.scope import Memory, Scope
from mslang.backend.llvm.types import Value, constant, type_of, vector
from mslang.ir.arith.data import may_overflow
from mslang.ir.arith.linear import Form, Interval, Linear, add, compare, divide, interval, linear, scale
from mslang.ir.arith.operations import SCALAR
from mslang.ir.dtype import INDEX
from mslang.ir.expr import (
    COMPARISONS,
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Select,
    Shuffle,
    Symbol,
    Unary,
    Var,
    dtype_of,
)
from mslang.ir.visit import CACHED, walk_expr
from mslang.kernel.lanes import lanes_of
from mslang.kernel.names import key_of
from mslang.lower.substitute import LANE, reads


class ExpressionWriter:
    """Emits expressions into one function. `ranges` holds what is known of its i64 scalars."""

    def __init__(self, fn: FunctionWriter, guard: BoundsGuard | None = None) -> None:
        self.fn = fn
        self.guard = guard
        self.ranges: dict[str, Interval] = {}
        self._flat: dict[tuple[tuple[Expr, ...], Expr | None, tuple[Expr, ...]], Linear | None] = {}

    # -------------------------------------------------------------- indices
    def flat(self, place: Memory, indices: tuple[Expr, ...], scope: Scope) -> Linear | None:
        """The element number where all indices are linear and all strides numbers: the common case, done once."""
        key = (place.strides, place.buffer.offset, indices)
        if key not in self._flat:
            self._flat[key] = _flattened(place, indices)
        form = self._flat[key]
        if form is None:
            return None
        constant, terms = form.constant, dict[str, int]()
        for name, k in form.terms.items():
            if name == LANE:
                terms[LANE] = terms.get(LANE, 0) + k
                continue
            v = scope.variables[name]
            if isinstance(v, Value):
                return None
            constant += k * v.constant
            for atom, c in v.terms.items():
                terms[atom] = terms.get(atom, 0) + k * c
        return Form(constant, {atom: c for atom, c in terms.items() if c})

    def affine(self, e: Expr, scope: Scope) -> Linear | None:
        """An index as a form; None if it is a vector that has none."""
        match e:
            case Const(value=n):
                return Form(int(n), {})
            case Var() | Symbol():
                found = scope.variables[key_of(e)]
                return self._atom(found) if isinstance(found, Value) else found
            case Ramp(base=x, stride=k):
                base = self.affine(x, scope)
                return None if base is None else add(base, Form(0, {LANE: k}))
            case Broadcast(value=x):
                return self.affine(x, scope)
            case Binary(op=op, left=left, right=right) if op in _INDEX_OPS:
                a = self.affine(left, scope)
                b = self.affine(right, scope)
                known = None if a is None or b is None else self._combine(op, a, b, e)
                if known is not None:
                    return known
        return self._atom(self._computed(e, scope))

    def _atom(self, v: Value) -> Linear | None:
        if v.lanes > 1 or v.dtype != INDEX:
            return None
        return Form(0, {v.ref: 1}) if v.ref.startswith("%") else Form(int(v.ref), {})

    def _combine(self, op: str, a: Linear, b: Linear, e: Binary) -> Linear | None:
        match op:
            case "+":
                return add(a, b)
            case "-":
                return add(a, b, -1)
            case "*":
                if not b.terms:
                    return scale(a, b.constant)
                return None if a.terms else scale(b, a.constant)
            case "//" | "%" if not b.terms and b.constant > 0 and not may_overflow(e):
                parts = divide(a, b.constant, self.known(lanes_of(e)))
                return None if parts is None else parts[op == "%"]
        return None

    def known(self, lanes: int) -> Mapping[str, Interval]:
        """What is known of the scalars, and of the number of the lane."""
        self.ranges[LANE] = (0, lanes - 1)
        return self.ranges

    def scalar(self, a: Linear) -> Value:
        """The lane-free part of a form as an i64."""
        total = ""
        for atom, k in a.terms.items():
            if atom == LANE:
                continue
            term = atom if k == 1 else self.fn.pure(f"mul i64 {atom}, {k}")
            total = term if not total else self.fn.pure(f"add i64 {total}, {term}")
        if not total:
            return constant(a.constant, INDEX)
        return Value(total if a.constant == 0 else self.fn.pure(f"add i64 {total}, {a.constant}"), INDEX)

    def materialise(self, a: Linear, lanes: int) -> Value:
        """A form as a value: a scalar, or a vector where it differs between lanes."""
        base = self.scalar(a)
        lane = a.terms.get(LANE, 0)
        if lane == 0 or lanes == 1:
            return base
        steps = vector([lane * k for k in range(lanes)])
        if base.ref == "0":
            return steps
        wide = arithmetic.widen(self.fn, base, lanes)
        return Value(self.fn.pure(f"add {wide.typed}, {steps.ref}"), INDEX, lanes)

    # -------------------------------------------------------------- values
    def value(self, e: Expr, scope: Scope) -> Value:
        """Any expression as a value."""
        match e:
            case Const(value=v, dtype=d):
                return constant(v, d)
            case Var() | Symbol():
                found = scope.variables[key_of(e)]
                return found if isinstance(found, Value) else self.materialise(found, lanes_of(e))
            case Ramp(base=x, stride=k, lanes=n):
                base = self.affine(x, scope)
                assert base is not None
                return self.materialise(add(base, Form(0, {LANE: k})), n)
            case Broadcast(value=x, lanes=n):
                return arithmetic.widen(self.fn, self.value(x, scope), n)
            case Shuffle(operands=xs, order=order):
                operands = [arithmetic.widen(self.fn, self.value(x, scope), lanes_of(x)) for x in xs]
                return arithmetic.shuffle(self.fn, operands, order)
            case Binary(op=op) if op in _INDEX_OPS and dtype_of(e) == INDEX and not reads(e):
                form = self.affine(e, scope)
                return self._computed(e, scope) if form is None else self.materialise(form, lanes_of(e))
        return self._computed(e, scope)

    def _computed(self, e: Expr, scope: Scope) -> Value:
        fn = self.fn
        match e:
            case Binary(op=op, left=left, right=right):
                if op in COMPARISONS:
                    return self._comparison(op, left, right, scope)
                if op in ("and", "or"):
                    return self._logical(op, left, right, scope)
                if op == "+" and fn.fused and dtype_of(e) in arithmetic.FUSED:
                    factors, term = (left, right) if _is_product(left) else (right, left)
                    if _is_product(factors):
                        x, y = self.value(factors.left, scope), self.value(factors.right, scope)
                        return arithmetic.multiply_add(fn, x, y, self.value(term, scope))
                a, b = self.value(left, scope), self.value(right, scope)
                if op in ("//", "%") and a.dtype == INDEX:
                    plain = self._plain_division(op, e, a, b, scope)
                    if plain is not None:
                        return plain
                return arithmetic.binary(fn, op, a, b)
            case Unary(op=op, operand=x):
                v = self.value(x, scope)
                return arithmetic.invert(fn, v) if op == "not" else arithmetic.negate(fn, v)
            case Select(condition=c, then=t, otherwise=o):
                return self._select(c, t, o, scope)
            case Cast(dtype=d, operand=x):
                return arithmetic.cast(fn, self.value(x, scope), d)
            case Call(name=name, args=(x,), dtype=d) if ranks.is_conversion(name):
                return ranks.converted(fn, name, self.value(x, scope), d)
            case Call(name=name, args=args):
                return math.call(fn, name, arithmetic.level(fn, *(self.value(x, scope) for x in args)))
            case Load() | MaskedLoad():
                return memory.load(self, e, scope)
        return self.value(e, scope)

    def affine_known(self, e: Expr, scope: Scope) -> Linear | None:
        """The affine form of an index that reads nothing and needs no instruction to find out."""
        if dtype_of(e) != INDEX or any(not isinstance(x, Const | Var | Symbol | Binary | Ramp) for x in walk_expr(e)):
            return None
        match e:
            case Const() | Var() | Symbol() | Ramp():
                return self.affine(e, scope)
            case Binary(op="+" | "-" | "*" as op, left=left, right=right):
                a, b = self.affine_known(left, scope), self.affine_known(right, scope)
                return None if a is None or b is None else self._combine(op, a, b, e)
        return None

    def _plain_division(self, op: str, e: Binary, a: Value, b: Value, scope: Scope) -> Value | None:
        """The machine's own division, which floors where neither side is negative."""
        fn = self.fn
        left, right = self.affine_known(e.left, scope), self.affine_known(e.right, scope)
        ranges = self.known(lanes_of(e))
        over = None if left is None else interval(left, ranges)
        under = None if right is None else interval(right, ranges)
        if over is None or under is None or over[0] < 0 or under[0] <= 0:
            return None
        a, b = arithmetic.level(fn, a, b)
        # Vectors have no 64-bit high product, by which constants are divided.
        narrow = a.lanes > 1 and max(over[1], under[1]) < 1 << 31
        if narrow:
            a, b = arithmetic.cast(fn, a, "u32"), arithmetic.cast(fn, b, "u32")
        quotient = Value(fn.pure(f"u{'div' if op == '//' else 'rem'} {a.typed}, {b.ref}"), a.dtype, a.lanes)
        if narrow:
            return arithmetic.cast(fn, quotient, INDEX)
        if a.lanes == 1:
            known = (over[0] // under[1], over[1] // under[0]) if op == "//" else (0, under[1] - 1)
            self.ranges.setdefault(quotient.ref, known)
        return quotient

    def _comparison(self, op: str, left: Expr, right: Expr, scope: Scope) -> Value:
        exact = dtype_of(left) == INDEX and not reads(left) and not reads(right)
        if exact and not may_overflow(Binary("-", left, right)):
            lanes = max(lanes_of(left), lanes_of(right))
            a, b = self.affine(left, scope), self.affine(right, scope)
            if a is not None and b is not None:
                known = compare(op, a, b, self.known(lanes))
                if known is not None:
                    return constant(known, "bool")
                difference = add(a, b, -1)
                if difference.terms.keys() == {LANE}:
                    step = difference.terms[LANE]
                    return vector([SCALAR[op](difference.constant + step * k, 0) for k in range(lanes)], "bool")
                if lanes > 1 and abs(difference.terms.get(LANE, 0)) == 1:
                    return self._lane_comparison(op, difference, lanes)
                # Terms on both sides would cancel only here: compare the difference with 0.
                if not a.terms.keys().isdisjoint(b.terms):
                    a, b = difference, Form(0, {})
                return arithmetic.binary(self.fn, op, self.materialise(a, lanes), self.materialise(b, lanes))
        return arithmetic.binary(self.fn, op, self.value(left, scope), self.value(right, scope))

    def _lane_comparison(self, op: str, difference: Linear, lanes: int) -> Value:
        """`base ± lane op 0` in narrow lanes: the base is clamped to what can matter."""
        fn = self.fn
        base = self.scalar(difference)
        bound = constant(lanes + 1, INDEX)
        low = fn.pure(f"icmp slt {base.typed}, {-lanes - 1}")
        clamped = fn.pure(f"select i1 {low}, i64 {-lanes - 1}, {base.typed}")
        high = fn.pure(f"icmp sgt i64 {clamped}, {bound.ref}")
        clamped = fn.pure(f"select i1 {high}, {bound.typed}, i64 {clamped}")
        narrow = arithmetic.widen(fn, Value(fn.pure(f"trunc i64 {clamped} to i32"), "i32"), lanes)
        steps = vector([difference.terms[LANE] * k for k in range(lanes)], "i32")
        return arithmetic.compare(fn, op, arithmetic.binary(fn, "+", narrow, steps), constant(0, "i32", lanes))

    def _logical(self, op: str, left: Expr, right: Expr, scope: Scope) -> Value:
        a = self.value(left, scope)
        if a.ref in ("true", "false"):
            return self.value(right, scope) if (a.ref == "true") == (op == "and") else a
        if a.lanes == 1 and reads(right):
            # The right side may only be read where the left one lets it.
            other = Const(op == "or", "bool")
            then, otherwise = (right, other) if op == "and" else (other, right)
            return self._chosen(a, then, otherwise, scope)
        b = self.value(right, scope)
        if b.ref in ("true", "false"):
            return a if (b.ref == "true") == (op == "and") else b
        return arithmetic.binary(self.fn, op, a, b)

    def _select(self, c: Expr, then: Expr, otherwise: Expr, scope: Scope) -> Value:
        condition = self.value(c, scope)
        if condition.ref in ("true", "false"):
            return self.value(then if condition.ref == "true" else otherwise, scope)
        return self._chosen(condition, then, otherwise, scope)

    def _chosen(self, condition: Value, then: Expr, otherwise: Expr, scope: Scope) -> Value:
        """One of two values; of a scalar condition, only what is chosen is loaded. Loads in lanes have masks."""
        if condition.lanes == 1 and (reads(then) or reads(otherwise)):
            return self._branching(condition, then, otherwise, scope)
        return arithmetic.choose(self.fn, condition, self.value(then, scope), self.value(otherwise, scope))

    def _branching(self, condition: Value, then: Expr, otherwise: Expr, scope: Scope) -> Value:
        fn = self.fn
        yes, no, done = fn.fresh("then"), fn.fresh("else"), fn.fresh("chosen")
        lanes = max(lanes_of(then), lanes_of(otherwise))
        fn.branch(condition.ref, yes, no)
        arms: list[tuple[Value, str]] = []
        for label, e in ((yes, then), (no, otherwise)):
            fn.start(label)
            with fn.nested():
                v = arithmetic.widen(fn, self.value(e, scope), lanes)
                arms.append((v, fn.block))
                fn.jump(done)
        fn.start(done)
        (a, a_from), (b, b_from) = arms
        ref = fn.op(f"phi {type_of(a.dtype, lanes)} [ {a.ref}, %{a_from} ], [ {b.ref}, %{b_from} ]")
        return Value(ref, a.dtype, lanes)


def _is_product(e: Expr) -> TypeGuard[Binary]:
    return isinstance(e, Binary) and e.op == "*"


def _flattened(place: Memory, indices: tuple[Expr, ...]) -> Linear | None:
    total = _form(Const(0) if place.buffer.offset is None else place.buffer.offset)
    for e, stride in zip(indices, place.strides, strict=True):
        part = _form(e)
        if total is None or part is None or not isinstance(stride, Const):
            return None
        total = add(total, scale(part, int(stride.value)))
    return total


@lru_cache(maxsize=CACHED)
def _form(e: Expr) -> Linear | None:
    match e:
        case Ramp(base=x, stride=k):
            base = linear(x)
            return None if base is None else add(base, Form(0, {LANE: k}))
        case Broadcast(value=x):
            return linear(x)
    return linear(e)


_INDEX_OPS = frozenset({"+", "-", "*", "//", "%", "min", "max"})
