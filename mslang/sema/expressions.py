"""From expressions of the tree to typed IR expressions."""

from __future__ import annotations

import math

from mslang.diagnostics import MsError
from mslang.ir.dtype import INDEX, SCALARS, is_float, is_integer, parts
from mslang.ir.expr import (
    BINARY_OPS,
    COMPARISONS,
    LOGICAL,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Symbol,
    Unary,
)
from mslang.ir.fixed_point import q_multiply_shift
from mslang.ir.functions import FUNCTIONS, Domain, of_c_library
from mslang.ir.text import CALLED
from mslang.sema.adapt import adapted, check_fits, settled, text_of, unified
from mslang.sema.foreign import FUNCTIONS as FOREIGN_FUNCTIONS
from mslang.sema.literals import Value, constant, folded, scalar_of
from mslang.sema.names import buffer_names, called_buffer, member, value_of
from mslang.sema.report import failure, unknown
from mslang.sema.scope import Broken, BufferName, Scope, TileName
from mslang.suggestions import did_you_mean
from mslang.syntax import tree

OPERATORS = {function: op for op, function in CALLED.items()}
"""Functions of the language that are binary operators of the IR."""

BUILTINS = frozenset({*FUNCTIONS, *OPERATORS, "select", "q_multiply_shift"})


def typed(e: tree.Expr, scope: Scope, want: str | None = None) -> Expr:
    """The IR of `e`, of type `want` if one is given (a literal adapts, nothing else is converted).

    Raises `MsError` with one diagnostic at the faulty node.
    """
    value = infer(e, scope)
    if want is None:
        return settled(value)
    return adapted(value, want, e)


def index(e: tree.Expr, scope: Scope) -> Expr:
    """The IR of an index, size or extent: an integer, converted to the index type when it has another."""
    value = infer(e, scope)
    expr = settled(value) if value.literal != "float" else value.expr
    dtype = value.dtype
    if value.literal == "float" or not is_integer(dtype) or parts(dtype) != (scalar_of(dtype), 1):
        raise failure(
            "MS106",
            e,
            f"an index or size must be an integer, not `{dtype}`",
            help="round and convert it: `i64(floor(x))`" if is_float(dtype) else None,
        )
    return expr if dtype == INDEX else Cast(INDEX, expr)


def condition(e: tree.Expr, scope: Scope) -> Expr:
    """The IR of a condition, which must be a bool."""
    return typed(e, scope, "bool")


# ------------------------------------------------------------------ by node
def infer(e: tree.Expr, scope: Scope) -> Value:
    """The value of an expression before its context has given its literals a type."""
    match e:
        case tree.Number(value=float(v)) if math.isinf(v):
            raise failure("MS123", e, "this number does not fit into `f64`", help="infinity is written `inf`")
        case tree.Number(value=v):
            return _number(v)
        case tree.Size(bytes=n):
            return Value(Const(n), "int")
        case tree.Bool(value=b):
            return Value(Const(b, "bool"))
        case tree.Ref(name=name):
            return value_of(name, scope)
        case tree.Group(items=(inner,)):
            return infer(inner, scope)
        case tree.Unary():
            return _unary(e, scope)
        case tree.Binary():
            return _binary(e, scope)
        case tree.Index():
            return _index(e, scope)
        case tree.Call():
            return _call(e, scope)
        case tree.Member():
            return member(e, scope)
        case tree.Bad():
            raise MsError
        case tree.String():
            raise failure("MS104", e, "a string stands where a number is needed")
        case tree.Hole():
            raise failure(
                "MS110",
                e,
                "`_` has no meaning in a program",
                why="a hole stands for a factor that a `split` infers, in a schedule",
            )
    what = {tree.List: "a list", tree.Group: "a tuple", tree.Comprehension: "a list", tree.IndexMap: "an index map"}
    raise failure("MS104", e, f"{what.get(type(e), 'this')} stands where a number is needed")


def _number(v: int | float) -> Value:
    return Value(Const(v, INDEX), "int") if isinstance(v, int) else Value(Const(v, "f32"), "float")


def _unary(e: tree.Unary, scope: Scope) -> Value:
    value = infer(e.operand, scope)
    if e.op == "not":
        return _fold(Unary("not", adapted(value, "bool", e.operand)), value.size, e)
    if scalar_of(value.dtype) == "bool":
        raise failure("MS104", e.operand, f"`{e.op}` needs a number, not a bool")
    if e.op == "+":
        return value
    literal = isinstance(e.operand, tree.Number | tree.Size) or (isinstance(e.operand, tree.Ref) and value.literal)
    if literal and isinstance(value.expr, Const):
        return Value(Const(-value.expr.value, value.dtype), value.literal)
    return _fold(Unary("-", value.expr), value.size, e, value.literal)


def _fold(e: Expr, size: bool, at: tree.Expr, literal: str = "") -> Value:
    if not size:
        return Value(e, literal)
    try:
        return Value(folded(e), literal, size)
    except ZeroDivisionError:
        raise failure("MS113", at, "division by zero") from None


def _binary(e: tree.Binary, scope: Scope) -> Value:
    if e.op == "..":
        raise failure(
            "MS127",
            e,
            "a range stands where a number is needed",
            why="`a .. b` is the domain of a loop or a dimension of a region",
        )
    if e.op not in BINARY_OPS:
        raise MsError
    if e.op in LOGICAL:
        left, right = infer(e.left, scope), infer(e.right, scope)
        both = Binary(e.op, adapted(left, "bool", e.left), adapted(right, "bool", e.right))
        return _fold(both, left.size and right.size, e)
    if e.op in COMPARISONS:
        _refuse_chain(e)
    left, right = infer(e.left, scope), infer(e.right, scope)
    a, b, literal = unified(left, right, e.left, e.right, e.op)
    dtype = scalar_of(Value(a).dtype)
    _check_operator(e, dtype, literal)
    size = left.size or right.size
    if e.op in COMPARISONS:
        return _fold(Binary(e.op, a, b), size, e)
    return _fold(Binary(e.op, a, b), size, e, literal)


def _refuse_chain(e: tree.Binary) -> None:
    inner = e.left
    if isinstance(inner, tree.Binary) and inner.op in COMPARISONS:
        middle = text_of(inner.right)
        raise failure(
            "MS109",
            e,
            "comparisons do not chain",
            why=f"`a {inner.op} b {e.op} c` would compare a bool with a number",
            help=f"write `… {inner.op} {middle} and {middle} {e.op} …`",
        )


def _check_operator(e: tree.Binary, dtype: str, literal: str) -> None:
    if dtype == "bool":
        if e.op not in ("==", "!="):
            raise failure("MS104", e, f"`{e.op}` needs numbers, not bools")
        return
    if e.op == "/" and (is_integer(dtype) or literal == "int"):
        raise failure(
            "MS108",
            e,
            "`/` on integers",
            why="it does not say how to round",
            help="write `//` (floor division), or convert both sides: `f32(a) / f32(b)`",
        )
    if e.op in ("//", "%") and is_float(dtype):
        raise failure(
            "MS104", e, f"`{e.op}` needs integers, not `{dtype}`", help="write `floor(a / b)`" if e.op == "//" else None
        )


# ------------------------------------------------------------------ accesses
def _index(e: tree.Index, scope: Scope) -> Value:
    if not isinstance(e.base, tree.Ref):
        raise failure("MS125", e.base, "only a buffer can be indexed")
    name = e.base.name
    match scope.get(name.text):
        case BufferName(buffer=b):
            return Value(Load(b.name, access(e, scope), b.dtype))
        case TileName(domain=d, n=n):
            return Value(Symbol(name.text, d, _factor(e, n)), size=True)
        case Broken():
            raise MsError
        case None:
            raise MsError(unknown("MS101", name, "buffer", name.text, buffer_names(scope)))
    raise failure("MS125", name, f"`{name.text}` is a number, not a buffer")


def access(e: tree.Index, scope: Scope) -> tuple[Expr, ...]:
    """The indices of an access to a buffer, as many as it has dimensions."""
    meaning = scope.get(e.base.name.text) if isinstance(e.base, tree.Ref) else None
    if isinstance(meaning, BufferName):
        check_rank(e, meaning)
    return tuple(index(x, scope) for x in e.items)


def check_rank(e: tree.Index, meaning: BufferName) -> None:
    """Refuse an access with another number of indices than the buffer has dimensions."""
    rank = len(meaning.buffer.shape)
    if len(e.items) != rank:
        dims = "dimension" if rank == 1 else "dimensions"
        name = meaning.buffer.name
        help = f"write one index for each dimension: `{name}[{', '.join('…' * rank)}]`"
        raise failure("MS105", e, f"`{name}` has {rank} {dims}, but {len(e.items)} are indexed", help=help)


def _factor(e: tree.Index, n: int) -> int:
    match e.items:
        case (tree.Number(value=k),) if isinstance(k, int) and 0 <= k < n:
            return k
    raise failure("MS105", e, f"a tile of {n} factors is read by a literal from 0 to {n - 1}")


# ------------------------------------------------------------------ calls
def _call(e: tree.Call, scope: Scope) -> Value:
    if not isinstance(e.callee, tree.Ref):
        raise failure("MS107", e.callee, "only functions of the language can be called in a program")
    name = e.callee.name
    if parts(name.text) is not None:
        return _cast(e, name.text, scope)
    if name.text == "extern":
        raise _refuse_library(e)
    called = called_buffer(e, scope)
    if called is not None:
        raise called
    args = _positional(e)
    if name.text == "select":
        return _select(e, args, scope)
    if name.text == "q_multiply_shift":
        return _q_multiply_shift(e, args, scope)
    if name.text in OPERATORS:
        return _operator(e, OPERATORS[name.text], args, scope)
    if name.text in FUNCTIONS:
        return _function(e, name.text, args, scope)
    why = "a program calls functions of the language only" if did_you_mean(name.text, BUILTINS) is None else None
    if name.text in FOREIGN_FUNCTIONS:
        raise failure("MS107", name, f"unknown function `{name.text}`", why=why, help=FOREIGN_FUNCTIONS[name.text])
    help = "`mslang explain MS107` lists the functions of programs"
    raise MsError(unknown("MS107", name, "function", name.text, [*BUILTINS, *SCALARS], why=why, help=help))


def _positional(e: tree.Call) -> tuple[tree.Expr, ...]:
    for a in e.args:
        if a.name is not None or a.splat:
            raise failure("MS107", a, "functions in programs take positional arguments only")
    return tuple(a.value for a in e.args)


def _arity(e: tree.Call, given: int, wanted: int) -> None:
    if given != wanted:
        plural = "argument" if wanted == 1 else "arguments"
        raise failure("MS107", e, f"`{text_of(e.callee)}` takes {wanted} {plural}, not {given}")


def _cast(e: tree.Call, dtype: str, scope: Scope) -> Value:
    args = _positional(e)
    _arity(e, len(args), 1)
    value = infer(args[0], scope)
    if value.literal and isinstance(value.expr, Const):
        return Value(_literal_of(value.expr, dtype, args[0]))
    if value.dtype == "bool" and isinstance(args[0], tree.Bool):
        return Value(constant(bool(args[0].value), dtype))
    return _fold(Cast(dtype, settled(value)), value.size, e)


def _literal_of(c: Const, dtype: str, at: tree.Expr) -> Const:
    if isinstance(c.value, float) and not is_float(scalar_of(dtype)):
        raise failure("MS104", at, f"a floating-point number stands where `{dtype}` is needed")
    check_fits(c, dtype, at)
    return constant(c.value, dtype)


def _select(e: tree.Call, args: tuple[tree.Expr, ...], scope: Scope) -> Value:
    _arity(e, len(args), 3)
    chosen = condition(args[0], scope)
    left, right = infer(args[1], scope), infer(args[2], scope)
    a, b, literal = unified(left, right, args[1], args[2], "select")
    size = left.size and right.size and isinstance(chosen, Const)
    return _fold(Select(chosen, a, b), size, e, literal)


def _q_multiply_shift(e: tree.Call, args: tuple[tree.Expr, ...], scope: Scope) -> Value:
    _arity(e, len(args), 4)
    x, factor = typed(args[0], scope, "i32"), typed(args[1], scope, "i32")
    match index(args[2], scope), index(args[3], scope):
        case Const(value=int() as q), Const(value=int() as shift) if 1 <= q + shift <= 62:
            return Value(q_multiply_shift(x, factor, q, shift))
    raise failure(
        "MS107", e, "`q_multiply_shift` takes numbers of bits that add up to 1 to 62", why="it shifts 64 bits"
    )


def _operator(e: tree.Call, op: str, args: tuple[tree.Expr, ...], scope: Scope) -> Value:
    if op in ("min", "max"):
        if len(args) < 2:
            raise failure("MS107", e, f"`{op}` takes at least 2 arguments, not {len(args)}")
    else:
        _arity(e, len(args), 2)
    result, at = infer(args[0], scope), args[0]
    for x in args[1:]:
        other = infer(x, scope)
        a, b, literal = unified(result, other, at, x, op)
        dtype = scalar_of(Value(a).dtype)
        if op not in ("min", "max") and not (is_integer(dtype) or (dtype == "bool" and op in "&|^")):
            raise failure("MS104", e, f"`{text_of(e.callee)}` needs integers, not `{dtype}`")
        if dtype == "bool" and op in ("min", "max"):
            raise failure("MS104", e, f"`{op}` needs numbers, not bools")
        result = _fold(Binary(op, a, b), result.size or other.size, e, literal)
    return result


def _function(e: tree.Call, name: str, args: tuple[tree.Expr, ...], scope: Scope) -> Value:
    function = FUNCTIONS[name]
    _arity(e, len(args), function.arity)
    values = [infer(x, scope) for x in args]
    exprs = [v.expr for v in values]
    literal = values[0].literal
    if len(values) == 2:
        a, b, literal = unified(values[0], values[1], args[0], args[1], name)
        exprs = [a, b]
    if literal == "int" and function.domain is Domain.FLOAT:
        exprs, literal = [adapted(Value(x, "int"), "f32", at) for x, at in zip(exprs, args, strict=True)], "float"
    dtype = Value(exprs[0]).dtype
    if not function.takes(dtype):
        raise failure(
            "MS104",
            args[0],
            f"`{name}` needs {function.domain}, not `{dtype}`",
            help=f"convert it: `f32({text_of(args[0])})`"
            if is_integer(scalar_of(dtype)) and function.domain is Domain.FLOAT
            else None,
        )
    return Value(Call(name, tuple(exprs), function.result(dtype)), "" if function.truth else literal)


def _refuse_library(e: tree.Call) -> MsError:
    """The refusal of `extern`: kernels run in any process, so they call no functions that it would have to bring."""
    match e.args:
        case (tree.Arg(value=tree.String(value=name)), _, *rest) if (ours := of_c_library(name)) is not None:
            help = f"write `{ours}({', '.join(text_of(a.value) for a in rest)})`"
        case _:
            help = "`mslang explain MS107` lists the functions of programs"
    return failure("MS107", e, "a program calls no functions of other libraries", help=help)
