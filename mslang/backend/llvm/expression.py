"""Expressions to instructions: indices as affine forms, everything else as values."""

from __future__ import annotations

from mslang.backend.llvm import arithmetic, math, memory
from mslang.backend.llvm.affine import Affine, Interval, add, compare, divide, interval, scale
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.guard import BoundsGuard
from mslang.backend.llvm.scope import Mask, Memory, Scope
from mslang.backend.llvm.types import Value, constant, type_of, vector
from mslang.ir.arith.linear import Linear, linear
from mslang.ir.dtype import INDEX
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
from mslang.ir.visit import walk_expr


class ExpressionWriter:
    """Emits expressions into one function. `ranges` holds what is known of its i64 scalars."""

    def __init__(self, fn: FunctionWriter, guard: BoundsGuard | None = None) -> None:
        self.fn = fn
        self.guard = guard
        self.ranges: dict[str, Interval] = {}
        self._flat: dict[tuple[tuple[Expr, ...], Expr | None, tuple[Expr, ...]], Linear | None] = {}

    # -------------------------------------------------------------- indices
    def flat(self, place: Memory, indices: tuple[Expr, ...], scope: Scope) -> Affine | None:
        """The element number where all indices are linear and all strides known: the common case, done once."""
        key = (place.strides, place.buffer.offset, indices)
        if key not in self._flat:
            self._flat[key] = _flattened(place, indices)
        form = self._flat[key]
        if form is None:
            return None
        constant, lane, terms = form.constant, 0, dict[str, int]()
        for name, k in form.terms.items():
            v = scope.variables[name]
            if not isinstance(v, Affine):
                return None
            constant += k * v.constant
            lane += k * v.lane
            for atom, c in v.terms:
                terms[atom] = terms.get(atom, 0) + k * c
        return Affine(constant, tuple((atom, c) for atom, c in terms.items() if c), lane)

    def affine(self, e: Expr, scope: Scope) -> Affine | None:
        """An index as an affine form; None if it is not one in the lanes."""
        match e:
            case Const(value=n):
                return Affine(int(n))
            case Var() | Symbol():
                found = scope.variables[e.name if isinstance(e, Var) else e.text]
                return found if isinstance(found, Affine) else self._atom(found)
            case Binary(op=op, left=left, right=right) if op in _INDEX_OPS:
                a = self.affine(left, scope)
                b = self.affine(right, scope)
                known = None if a is None or b is None else self._combine(op, a, b, scope.lanes)
                if known is not None:
                    return known
        v = self._computed(e, scope)
        return self._atom(v)

    def _atom(self, v: Value) -> Affine | None:
        if v.lanes > 1 or v.dtype != INDEX:
            return None
        return Affine(0, ((v.ref, 1),)) if v.ref.startswith("%") else Affine(int(v.ref))

    def _combine(self, op: str, a: Affine, b: Affine, lanes: int) -> Affine | None:
        match op:
            case "+":
                return add(a, b)
            case "-":
                return add(a, b, -1)
            case "*":
                if b.is_constant:
                    return scale(a, b.constant)
                return scale(b, a.constant) if a.is_constant else None
            case "//" | "%" if b.is_constant and b.constant > 0:
                parts = divide(a, b.constant, self.ranges, lanes)
                return None if parts is None else parts[op == "%"]
            case "min" | "max":
                first = compare("<=", a, b, self.ranges, lanes)
                return None if first is None else a if first == (op == "min") else b
        return None

    def scalar(self, a: Affine) -> Value:
        """The lane-free part of a form as an i64."""
        total = ""
        for atom, k in a.terms:
            term = atom if k == 1 else self.fn.pure(f"mul i64 {atom}, {k}")
            total = term if not total else self.fn.pure(f"add i64 {total}, {term}")
        if not total:
            return constant(a.constant, INDEX)
        return Value(total if a.constant == 0 else self.fn.pure(f"add i64 {total}, {a.constant}"), INDEX)

    def materialise(self, a: Affine, lanes: int) -> Value:
        """A form as a value: a scalar, or a vector where it differs between lanes."""
        base = self.scalar(a)
        if a.lane == 0 or lanes == 1:
            return base
        steps = vector([a.lane * k for k in range(lanes)])
        if base.ref == "0":
            return steps
        wide = arithmetic.widen(self.fn, base, lanes)
        return Value(self.fn.pure(f"add {wide.typed}, {steps.ref}"), INDEX, lanes)

    # -------------------------------------------------------------- values
    def value(self, e: Expr, scope: Scope) -> Value:
        """Any expression as a value; it has one lane where it is the same in all."""
        match e:
            case Const(value=v, dtype=d):
                return constant(v, d)
            case Var() | Symbol():
                found = scope.variables[e.name if isinstance(e, Var) else e.text]
                return self.materialise(found, scope.lanes) if isinstance(found, Affine) else found
            case Binary(op=op) if op in _INDEX_OPS and dtype_of(e) == INDEX and not _reads(e):
                form = self.affine(e, scope)
                return self._computed(e, scope) if form is None else self.materialise(form, scope.lanes)
        return self._computed(e, scope)

    def _computed(self, e: Expr, scope: Scope) -> Value:
        fn = self.fn
        match e:
            case Binary(op=op, left=left, right=right):
                if op in COMPARISONS:
                    return self._comparison(op, left, right, scope)
                if op in ("and", "or"):
                    return self._logical(op, left, right, scope)
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
            case Call(name=name, args=args):
                return math.call(fn, name, arithmetic.level(fn, *(self.value(x, scope) for x in args)))
            case Load():
                return memory.load(self, e, scope)
        return self.value(e, scope)

    def affine_known(self, e: Expr, scope: Scope) -> Affine | None:
        """The affine form of an index that reads nothing and needs no instruction to find out."""
        if dtype_of(e) != INDEX or any(not isinstance(x, Const | Var | Symbol | Binary) for x in walk_expr(e)):
            return None
        match e:
            case Const() | Var() | Symbol():
                return self.affine(e, scope)
            case Binary(op="+" | "-" | "*" as op, left=left, right=right):
                a, b = self.affine_known(left, scope), self.affine_known(right, scope)
                return None if a is None or b is None else self._combine(op, a, b, scope.lanes)
        return None

    def _plain_division(self, op: str, e: Binary, a: Value, b: Value, scope: Scope) -> Value | None:
        """The machine's own division, which floors where neither side is negative."""
        fn = self.fn
        left, right = self.affine_known(e.left, scope), self.affine_known(e.right, scope)
        over = None if left is None else interval(left, self.ranges, scope.lanes)
        under = None if right is None else interval(right, self.ranges, scope.lanes)
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
        if dtype_of(left) == INDEX and not _reads(left) and not _reads(right):
            a, b = self.affine(left, scope), self.affine(right, scope)
            if a is not None and b is not None:
                known = compare(op, a, b, self.ranges, scope.lanes)
                if known is not None:
                    return constant(known, "bool")
                difference = add(a, b, -1)
                if scope.lanes > 1 and abs(difference.lane) == 1:
                    return self._lane_comparison(op, difference, scope.lanes)
                # Terms on both sides would cancel only here: compare the difference with 0.
                shared = {t for t, _ in a.terms} & {t for t, _ in b.terms}
                if shared:
                    a, b = difference, Affine(0)
                return arithmetic.binary(
                    self.fn, op, self.materialise(a, scope.lanes), self.materialise(b, scope.lanes)
                )
        return arithmetic.binary(self.fn, op, self.value(left, scope), self.value(right, scope))

    def _lane_comparison(self, op: str, difference: Affine, lanes: int) -> Value:
        """`base ± lane op 0` in narrow lanes: the base is clamped to what can matter."""
        fn = self.fn
        base = self.scalar(difference._replace(lane=0))
        bound = constant(lanes + 1, INDEX)
        low = fn.pure(f"icmp slt {base.typed}, {-lanes - 1}")
        clamped = fn.pure(f"select i1 {low}, i64 {-lanes - 1}, {base.typed}")
        high = fn.pure(f"icmp sgt i64 {clamped}, {bound.ref}")
        clamped = fn.pure(f"select i1 {high}, {bound.typed}, i64 {clamped}")
        narrow = arithmetic.widen(fn, Value(fn.pure(f"trunc i64 {clamped} to i32"), "i32"), lanes)
        steps = vector([difference.lane * k for k in range(lanes)], "i32")
        return arithmetic.compare(fn, op, arithmetic.binary(fn, "+", narrow, steps), constant(0, "i32", lanes))

    def _logical(self, op: str, left: Expr, right: Expr, scope: Scope) -> Value:
        a = self.value(left, scope)
        if a.ref in ("true", "false"):
            return self.value(right, scope) if (a.ref == "true") == (op == "and") else a
        if _reads(right):
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
        if not _reads(then) and not _reads(otherwise):
            return arithmetic.choose(self.fn, condition, self.value(then, scope), self.value(otherwise, scope))
        if condition.lanes == 1:
            return self._branching(condition, then, otherwise, scope)
        inverse = arithmetic.invert(self.fn, condition)
        a = self.value(then, self.masked(scope, condition))
        b = self.value(otherwise, self.masked(scope, inverse))
        return arithmetic.choose(self.fn, condition, a, b)

    def _varies(self, e: Expr, scope: Scope) -> bool:
        """Whether an expression may differ between lanes."""
        if scope.lanes == 1:
            return False
        if scope.mask is not None:
            return True
        found = (scope.variables.get(x.name) for x in walk_expr(e) if isinstance(x, Var))
        return any(v is not None and (v.lane != 0 if isinstance(v, Affine) else v.lanes > 1) for v in found)

    def masked(self, scope: Scope, condition: Value) -> Scope:
        """The scope in which only lanes that satisfy a vector condition act."""
        if scope.mask is not None:
            condition = arithmetic.binary(self.fn, "and", scope.mask.value, condition)
        return scope._replace(mask=Mask(condition))

    def _branching(self, condition: Value, then: Expr, otherwise: Expr, scope: Scope) -> Value:
        fn = self.fn
        yes, no, done = fn.fresh("then"), fn.fresh("else"), fn.fresh("chosen")
        lanes = scope.lanes if self._varies(then, scope) or self._varies(otherwise, scope) else 1
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


def _flattened(place: Memory, indices: tuple[Expr, ...]) -> Linear | None:
    total: Expr = Const(0) if place.buffer.offset is None else place.buffer.offset
    for e, stride in zip(indices, place.strides, strict=True):
        total = Binary("+", total, Binary("*", e, stride))
    return linear(total)


_INDEX_OPS = frozenset({"+", "-", "*", "//", "%", "min", "max"})


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in walk_expr(e))
