"""Expressions of TVMScript, from Python's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mslang.interop.tvmscript.aliases import element, region
from mslang.interop.tvmscript.call_arguments import dotted
from mslang.interop.tvmscript.calls import call
from mslang.interop.tvmscript.names import their_type
from mslang.interop.tvmscript.patterns import TVM
from mslang.interop.tvmscript.scope import Array, Handle, Pointer, Reads, Scope, Value
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import (
    Number,
    as_index,
    binary,
    complemented,
    condition,
    constant,
    index,
    literal,
    met,
    with_expr,
)
from mslang.interop.tvmscript.vectors import sliced
from mslang.ir.arith import simplify
from mslang.ir.arith.operations import SCALAR
from mslang.ir.expr import ARITHMETIC, ZERO, Binary, Const, Expr, Load, Select, Unary
from mslang.ir.intrin import Intrin
from mslang.ir.program import Buffer, Range, Region
from mslang.ir.region import point, range_between

_BINARY: Mapping[type[ast.operator], str] = MappingProxyType(
    {
        ast.Add: "+",
        ast.Sub: "-",
        ast.Mult: "*",
        ast.Div: "/",
        ast.FloorDiv: "//",
        ast.Mod: "%",
        ast.LShift: "<<",
        ast.RShift: ">>",
        ast.BitAnd: "&",
        ast.BitOr: "|",
        ast.BitXor: "^",
    }
)
_COMPARISONS: Mapping[type[ast.cmpop], str] = MappingProxyType(
    {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
)


class Expressions:
    """Reads expressions; `aliases` are the names of TVM's namespace (`T`), `older` those of them that mean `tir`."""

    def __init__(
        self, aliases: frozenset[str], intrinsics: Sequence[Intrin] = (), older: frozenset[str] = frozenset()
    ) -> None:
        self.aliases = aliases
        self.older = older
        self.intrinsics = tuple(x for x in intrinsics if TVM in dict(x.texts))
        """The instructions that are recognised by their calls."""

    def value(self, e: ast.expr, scope: Scope) -> Value:
        """The value of an expression."""
        match e:
            case ast.Constant(value=bool() | int() | float() as v):
                return literal(v)
            case ast.Constant(value=str() as text):
                return text
            case ast.Constant(value=None):
                return None
            case ast.Name():
                return scope.look(e)
            case ast.Tuple(elts=xs) | ast.List(elts=xs):
                return self.values(xs, scope)
            case ast.Dict(keys=keys, values=values):
                return self.dictionary(e, keys, values, scope)
            case ast.UnaryOp(op=op, operand=x):
                return self.unary(op, x, scope)
            case ast.BinOp(op=ast.Pow(), left=a, right=b):
                return self.power(e, a, b, scope)
            case ast.BinOp(op=op, left=a, right=b) if type(op) in _BINARY:
                return self.operation(e, op, a, b, scope)
            case ast.BoolOp(op=op, values=[first, *others]):
                result = self.number(first, scope)
                for x in others:
                    result = binary("and" if isinstance(op, ast.And) else "or", result, self.number(x, scope), e)
                return result
            case ast.Compare():
                return self.comparison(e, scope)
            case ast.JoinedStr(values=parts):
                return "".join(self.text(x, scope) for x in parts)
            case ast.IfExp(test=c, body=a, orelse=b):
                when = self.number(c, scope)
                known = constant(when)
                if isinstance(known, bool):
                    return self.value(a if known else b, scope)
                return self.chosen(e, condition(when, c), a, b, scope)
            case ast.Subscript():
                return self.subscript(e, scope)
            case ast.Attribute():
                return self.attribute(e, scope)
            case ast.Call():
                return call(self, e, scope)
        raise refuse("MS731", e, f"`{text_of(e)}` has no counterpart here", f"it is a Python {type(e).__name__}")

    def operation(self, e: ast.expr, op: ast.operator, a: ast.expr, b: ast.expr, scope: Scope) -> Value:
        """`a + b` of numbers, or of texts. Python computes what its own floats are in: in double precision."""
        first = self.value(a, scope)
        if isinstance(op, ast.Add) and isinstance(first, str):
            return first + self.text(b, scope)
        left, right = self.as_number(first, a, scope), self.number(b, scope)
        known = _in_python(op, left, right)
        if known is not None and is_python(e):
            return literal(known)
        return _computed(binary(_BINARY[type(op)], left, right, e), e)

    def text(self, e: ast.expr, scope: Scope) -> str:
        """The text of a part of an f-string, or of a text."""
        value = self.value(e.value if isinstance(e, ast.FormattedValue) else e, scope)
        if isinstance(value, str):
            return value
        number = constant(_simple(value)) if isinstance(value, Number) else None
        if not isinstance(number, int):
            raise refuse("MS732", e, f"the text of `{text_of(e)}` is not known without running the file")
        return str(number)

    def power(self, e: ast.expr, a: ast.expr, b: ast.expr, scope: Scope) -> Number:
        """`2 ** 10` of Python's integers."""
        base, exponent = (constant(self.number(x, scope)) for x in (a, b))
        if not isinstance(base, int) or not isinstance(exponent, int) or not 0 <= exponent <= 64:
            raise refuse("MS731", e, f"`{text_of(e)}` has no counterpart here", help="write `T.pow(x, y)`")
        return literal(base**exponent)

    def values(self, xs: list[ast.expr], scope: Scope) -> tuple[Value, ...]:
        """The values of several expressions; `*xs` gives several."""
        found: list[Value] = []
        for x in xs:
            if isinstance(x, ast.Starred):
                several = self.value(x.value, scope)
                if not isinstance(several, tuple):
                    raise refuse("MS733", x, f"`{text_of(x.value)}` is not a list")
                found.extend(several)
            else:
                found.append(self.value(x, scope))
        return tuple(found)

    def dictionary(
        self, e: ast.Dict, keys: list[ast.expr | None], values: list[ast.expr], scope: Scope
    ) -> dict[str, Value]:
        """A dictionary of annotations."""
        found: dict[str, Value] = {}
        for k, v in zip(keys, values, strict=True):
            if not isinstance(k, ast.Constant) or not isinstance(k.value, str):
                raise refuse("MS733", k or e, "the key of an annotation is a text")
            found[k.value] = self.value(v, scope)
        return found

    def number(self, e: ast.expr, scope: Scope) -> Number:
        """An expression that must be a number."""
        return self.as_number(self.value(e, scope), e, scope)

    def as_number(self, value: Value, e: ast.expr, scope: Scope) -> Number:
        """A value that must be a number; `e` is its expression."""
        match value:
            case Number() as n:
                return n
            case Array(buffer=b) as of if not b.shape:
                return self.loaded(of, (), scope)
            case Reads():
                raise refuse("MS731", e, f"`{text_of(e)}` is a vector", "several elements are not a number here")
            case Pointer() | Handle():
                raise refuse("MS731", e, f"`{text_of(e)}` is a pointer", "programs have no pointers")
        raise refuse("MS733", e, f"`{text_of(e)}` is not a number")

    def index(self, e: ast.expr, scope: Scope) -> Expr:
        """An expression that must be an index."""
        return as_index(self.number(e, scope), e)

    def unary(self, op: ast.unaryop, x: ast.expr, scope: Scope) -> Number:
        """`-x`, `+x`, `not x`, `~x`."""
        match op, x:
            case ast.USub(), ast.Constant(value=int() | float() as v) if not isinstance(v, bool):
                return literal(-v)
            case ast.USub(), _:
                n = self.number(x, scope)
                known = constant(n)
                if isinstance(known, float) and is_python(x):
                    return literal(-known)
                return with_expr(n, Unary("-", n.expr))
            case ast.UAdd(), _:
                return self.number(x, scope)
            case ast.Not(), _:
                return Number(Unary("not", condition(self.number(x, scope), x)), "bool")
        return complemented(self.number(x, scope), x)

    def comparison(self, e: ast.Compare, scope: Scope) -> Number:
        """`a < b`, and `a < b < c` as Python means it."""
        result: Number | None = None
        values = [self.value(x, scope) for x in (e.left, *e.comparators)]
        match values, e.ops:
            case [str() as a, str() as b], [ast.Eq() | ast.NotEq() as equality]:
                return literal((a == b) is isinstance(equality, ast.Eq))
        left = self.as_number(values[0], e.left, scope)
        for op, x, value in zip(e.ops, e.comparators, values[1:], strict=True):
            if type(op) not in _COMPARISONS:
                raise refuse("MS731", e, f"`{text_of(e)}` is not a comparison of numbers")
            right = self.as_number(value, x, scope)
            found = binary(_COMPARISONS[type(op)], left, right, e)
            result = found if result is None else binary("and", result, found, e)
            left = right
        assert result is not None
        return result

    def choice(self, e: ast.expr, c: ast.expr, a: ast.expr, b: ast.expr, scope: Scope) -> Number:
        """`select(c, a, b)`."""
        return self.chosen(e, condition(self.number(c, scope), c), a, b, scope)

    def chosen(self, e: ast.expr, when: Expr, a: ast.expr, b: ast.expr, scope: Scope) -> Number:
        """`select(when, a, b)`."""
        then, otherwise, like = met(self.number(a, scope), self.number(b, scope), e)
        return with_expr(like, Select(when, then, otherwise))

    # ------------------------------------------------------------------ buffers
    def subscript(self, e: ast.Subscript, scope: Scope) -> Value:
        """An element or a region of a buffer, or an element of a list."""
        of = self.value(e.value, scope)
        if isinstance(of, tuple):
            k = constant(self.number(e.slice, scope))
            if not isinstance(k, int) or not -len(of) <= k < len(of):
                raise refuse("MS733", e, f"`{text_of(e)}` is not an element of the list")
            return of[k]
        if isinstance(of, dict) and isinstance(e.slice, ast.Constant) and e.slice.value in of:
            return of[str(e.slice.value)]
        if not isinstance(of, Array):
            raise refuse("MS731", e, f"`{text_of(e)}` has no counterpart here")
        slices = any(isinstance(x, ast.Slice) for x in _parts(e.slice))
        if (slices and scope.lane is None) or len(_parts(e.slice)) < len(of.buffer.shape):
            return Reads(self.region(e, scope))
        return self.loaded(of, self.indices(e, of.buffer, scope), scope)

    def loaded(self, of: Array, indices: tuple[Expr, ...], scope: Scope) -> Number:
        """An element of a buffer."""
        held, at = element(of, indices, scope.ranges())
        return Number(Load(held.name, at, held.dtype), held.dtype)

    def indices(self, e: ast.Subscript, b: Buffer, scope: Scope) -> tuple[Expr, ...]:
        """The indices of one element of a buffer."""
        found: list[Expr] = []
        for x in _parts(e.slice):
            if isinstance(x, ast.Slice) and (lane := sliced(self, x, scope)) is not None:
                found.append(lane)
            elif isinstance(x, ast.Slice):
                raise refuse("MS731", e, f"`{text_of(e)}` is a vector", "only single elements are read and written")
            elif isinstance(x, ast.Starred):
                found += [self._as_index(v, x) for v in self.values([x], scope)]
            else:
                found.append(self.index(x, scope))
        if len(found) != len(b.shape):
            raise refuse("MS733", e, f"`{b.name}` has {len(b.shape)} dimensions, but {len(found)} are indexed")
        return tuple(found)

    def _as_index(self, v: Value, at: ast.AST) -> Expr:
        if not isinstance(v, Number):
            raise refuse("MS733", at, f"`{text_of(at)}` is not an index")
        return as_index(v, at)

    def region(self, e: ast.expr, scope: Scope) -> Region:
        """A region of a buffer: `A[i, j:j + 4]`; omitted dimensions, and `A` itself, are covered in full."""
        subscript = isinstance(e, ast.Subscript)
        of = self.value(e.value if isinstance(e, ast.Subscript) else e, scope)
        if isinstance(of, Reads) and not subscript:
            return of.region
        if not isinstance(of, Array):
            raise refuse("MS733", e, f"`{text_of(e)}` is not a region of a buffer")
        shape = of.buffer.shape
        parts = _parts(e.slice) if isinstance(e, ast.Subscript) else []
        if len(parts) > len(shape):
            raise refuse("MS733", e, f"`{of.buffer.name}` has {len(shape)} dimensions, but {len(parts)} are indexed")
        said = [self._range(x, n, scope) for x, n in zip(parts, shape, strict=False)]
        ranges = (*said, *(Range(Const(0), n) for n in shape[len(said) :]))
        return region(of, ranges, scope.ranges())

    def regions(self, call: ast.Call, scope: Scope) -> tuple[Region, ...]:
        """The regions of `T.reads` and `T.writes`, in a list or not."""
        if call.keywords:
            raise refuse("MS733", call, f"`{text_of(call.func)}` takes regions only")
        match call.args:
            case [ast.List(elts=given) | ast.Tuple(elts=given)]:
                pass
            case given:
                pass
        return tuple(self.region(e, scope) for e in given)

    def _range(self, x: ast.expr, whole: Expr, scope: Scope) -> Range:
        match x:
            case ast.Slice(lower=a, upper=b, step=step):
                if step is not None and constant(self.number(step, scope)) != 1:
                    raise refuse("MS731", x, "a region has no step")
                start = Const(0) if a is None else scope.expanded(self.index(a, scope))
                found = range_between(start, whole if b is None else scope.expanded(self.index(b, scope)))
                if isinstance(found.extent, Const) and found.extent.value < 0:
                    why = "`a:b` runs from `a` up to, not including, `b`"
                    raise refuse("MS733", x, f"`{text_of(x)}` is a range of {found.extent.value} elements", why)
                return found
        return point(scope.expanded(self.index(x, scope)))

    def attribute(self, e: ast.Attribute, scope: Scope) -> Value:
        """`A.shape`, `A.dtype`, `A.strides`, `A.data`."""
        if dotted(e, self.aliases) is not None:
            raise refuse("MS731", e, f"`{text_of(e)}` has no counterpart here")
        of = self.value(e.value, scope)
        match of, e.attr:
            case Array(buffer=b), "shape":
                return tuple(index(n) for n in b.shape)
            case Array(buffer=b), "strides" if b.strides is not None:
                return tuple(index(n) for n in b.strides)
            case Array(), "data":
                return Pointer(of, ZERO)
            case Array(buffer=b), "dtype":
                return their_type(b.dtype)
            case Number(dtype=d), "dtype":
                return their_type(d)
        raise refuse("MS731", e, f"`{text_of(e)}` has no counterpart here", "programs have no pointers")


def is_python(e: ast.expr) -> bool:
    """Whether an expression is arithmetic of Python's numbers, in which nothing of TVM occurs by name."""
    return not any(isinstance(x, ast.Call | ast.Attribute | ast.Subscript) for x in ast.walk(e))


def _in_python(op: ast.operator, a: Number, b: Number) -> float | None:
    """The float that Python makes of two numbers; None if it makes an integer, or none."""
    x, y = constant(a), constant(b)
    if x is None or y is None or (isinstance(x, int) and isinstance(y, int) and not isinstance(op, ast.Div)):
        return None
    word = _BINARY.get(type(op))
    if word is None or word not in ARITHMETIC:
        return None
    try:
        return float(SCALAR[word](float(x), float(y)))
    except ArithmeticError:
        return None


def _computed(n: Number, e: ast.expr) -> Number:
    """A number made of Python's own (`N // 4`), which Python computes; plain literals are kept."""
    simple = _simple(n)
    return simple if simple is n or any(isinstance(x, ast.Name) for x in ast.walk(e)) else n


def _simple(n: Number) -> Number:
    match n.expr:
        case Binary(op=op, left=Const(), right=Const(value=b)) if n.index and (b != 0 or op not in ("//", "%")):
            return index(simplify(n.expr), n.dtype)
    return n


def _parts(e: ast.expr) -> list[ast.expr]:
    return e.elts if isinstance(e, ast.Tuple) else [e]
