"""Calls in expressions of TVMScript: operators, functions, casts, literals with a type."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from mslang.interop.tvmscript.call_arguments import bound, dotted, needed
from mslang.interop.tvmscript.names import OUR_FUNCTIONS, our_type
from mslang.interop.tvmscript.quantized import by_constants, by_data
from mslang.interop.tvmscript.scope import Array, Pointer, Scope, Thread, Unnamed, Value
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import (
    Number,
    as_data,
    binary,
    complemented,
    condition,
    constant,
    data,
    index,
    literal,
    met,
    with_expr,
)
from mslang.interop.tvmscript.vectors import broadcast, element_of, lane_mask, loaded, ramp
from mslang.ir.arith import Verdict, decide, simplify
from mslang.ir.dtype import SCALARS, is_float, is_integer
from mslang.ir.expr import ZERO, Binary, Call, Cast, Const, Select, Unary, dtype_of
from mslang.ir.functions import FUNCTIONS, of_c_library
from mslang.ir.reduction import highest, lowest
from mslang.lower.layout import row_major

if TYPE_CHECKING:
    from mslang.interop.tvmscript.expressions import Expressions

Handler = Callable[["Expressions", ast.Call, Scope], Value]

_OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "min": "min",
        "max": "max",
        "Min": "min",
        "Max": "max",
        "Add": "+",
        "Sub": "-",
        "Mul": "*",
        "floordiv": "//",
        "FloorDiv": "//",
        "indexdiv": "//",
        "floormod": "%",
        "FloorMod": "%",
        "indexmod": "%",
        "shift_left": "<<",
        "shift_right": ">>",
        "bitwise_and": "&",
        "bitwise_or": "|",
        "bitwise_xor": "^",
        "EQ": "==",
        "NE": "!=",
        "LT": "<",
        "LE": "<=",
        "GT": ">",
        "GE": ">=",
        "And": "and",
        "Or": "or",
    }
)
_TRUNCATED: Mapping[str, str] = MappingProxyType({"truncdiv": "//", "Div": "//", "truncmod": "%", "Mod": "%"})
_PYTHON = frozenset({"min", "max", "int", "float", "bool", "abs", "len", "str"})
_LARGEST: Mapping[str, float] = MappingProxyType(
    {"f16": 65504.0, "bf16": 2.0**127 * (2 - 2**-7), "f32": 2.0**127 * (2 - 2**-23), "f64": 1.7976931348623157e308}
)


def arguments(read: Expressions, e: ast.Call, scope: Scope, *names: str) -> list[Number]:
    """The arguments of a call, all of which are required and numbers; `**` accepts further keywords."""
    found = bound(e, *names)
    return [read.number(needed(e, found, n), scope) for n in names if n != "**"]


def call(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """The value of a call in an expression."""
    name = dotted(e.func, read.aliases)
    if name is None:
        return _foreign(read, e, scope)
    if name in _OPERATORS:
        a, b = arguments(read, e, scope, "a", "b", "**")
        return binary(_OPERATORS[name], a, b, e)
    if name in _TRUNCATED:
        return _truncated(read, e, scope, _TRUNCATED[name])
    dtype = our_type({"boolean": "bool"}.get(name, name))
    if dtype is not None:
        return _typed(read, e, scope, dtype)
    if name == "round" and _older(read, e.func):
        raise refuse(
            "MS731",
            e,
            f"`{text_of(e.func)}` of versions before `tirx` has no counterpart here",
            "it rounds halves away from zero; `round` here rounds them to even",
            help="write `T.nearbyint` if halves may be rounded to even",
        )
    function = OUR_FUNCTIONS.get(name, name)
    if function in FUNCTIONS:
        return _function(read, e, scope, function)
    handler = _HANDLERS.get(name) or _quantized(name)
    if handler is None:
        raise refuse("MS731", e, f"`{text_of(e.func)}` has no counterpart here")
    return handler(read, e, scope)


def _older(read: Expressions, function: ast.expr) -> bool:
    """Whether a function of TVM's namespace is that of versions before `tirx`."""
    match function:
        case ast.Attribute(value=ast.Name(id=name)):
            return name in read.older
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="tvm"), attr="tir")):
            return True
    return False


def _foreign(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """Python's own functions, and methods of values."""
    match e.func:
        case ast.Name(id=name) if name in _PYTHON and not e.keywords:
            return _python(read, e, scope, name)
        case ast.Attribute(attr="Target") if ast.unparse(e.func) in ("tvm.target.Target", "target.Target"):
            return _text(read, e, scope)
        case ast.Attribute(value=of, attr="astype"):
            dtype = needed(e, bound(e, "dtype"), "dtype")
            return cast(read.number(of, scope), element_of(element_type(read, dtype, scope), e, scope), folded=True)
        case ast.Attribute(value=of, attr="replace") if isinstance(text := read.value(of, scope), str):
            match read.values(e.args, scope):
                case (str() as old, str() as new):
                    return text.replace(old, new)
        case ast.Attribute(value=of, attr="vload") if isinstance(array := read.value(of, scope), Array):
            return loaded(read, e, of, array, scope)
        case ast.Attribute(value=ast.Name() as of) if isinstance(read.value(of, scope), Array):
            raise refuse("MS731", e, f"`{text_of(e)}` has no counterpart here", "programs have no pointers")
    raise refuse(
        "MS732",
        e,
        f"what `{text_of(e.func)}` does is not known without running the file",
        help="import the text that `.script()` prints",
    )


def _python(read: Expressions, e: ast.Call, scope: Scope, name: str) -> Value:
    match name, read.values(e.args, scope):
        case "min" | "max", (Number() as a, Number() as b):
            return binary(name, a, b, e)
        case "abs", (Number() as n,):
            return _called(e, "abs", [n])
        case "str", (str() as text,):
            return text
        case "str", (Number() as n,) if isinstance(v := constant(n), int):
            return str(v)
        case "len", (tuple() as xs,):
            return literal(len(xs))
        case "float", (str() as text,) if text.lstrip("+-") in ("inf", "nan"):
            return literal(float(text))
        case "int" | "float" | "bool", (Number() as n,) if (v := constant(n)) is not None:
            return literal({"int": int, "float": float, "bool": bool}[name](v))
    raise refuse("MS731", e, f"`{text_of(e)}` has no counterpart here")


def element_type(read: Expressions, e: ast.expr, scope: Scope) -> str:
    """The element type with a name."""
    name = dotted(e, read.aliases) or read.value(e, scope)
    dtype = our_type(name) if isinstance(name, str) else None
    if dtype is None:
        raise refuse("MS734", e, f"there is no element type {text_of(e)} here")
    return dtype


# ------------------------------------------------------------------ casts and literals
def cast(n: Number, dtype: str, *, folded: bool) -> Number:
    """A conversion. `folded`: a literal is converted, and a conversion to the same type is dropped, as in TVM."""
    if n.index and dtype in ("i32", "i64") and folded:
        return index(n.expr, dtype)
    if folded and (n.dtype == dtype or constant(n) is not None):
        return Number(as_data(n, dtype), dtype)
    return Number(Cast(dtype, n.expr if n.index else data(n)), dtype)


def _cast(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`T.cast(x, "float32")`, and `T.Cast("float32", x)`, which is kept whatever `x` is."""
    folded = dotted(e.func, read.aliases) != "Cast"
    found = bound(e, *(("value", "dtype") if folded else ("dtype", "value")), "**")
    dtype = element_of(element_type(read, needed(e, found, "dtype"), scope), e, scope)
    value = read.number(needed(e, found, "value"), scope)
    match value.expr:
        case Cast(operand=Call(name="clz") as counted) if counted.dtype == dtype and not folded:
            # TVM's `clz` returns an `int32`, so ours is written with a cast.
            return Number(counted, dtype)
    return cast(value, dtype, folded=folded)


def _typed(read: Expressions, e: ast.Call, scope: Scope, dtype: str) -> Value:
    """`T.float32(1.5)`, `T.int32()`, `T.float32("inf")`."""
    found = bound(e, "expr", "**")
    if "expr" not in found:
        return Unnamed(dtype)
    value = read.value(found["expr"], scope)
    if isinstance(value, str):
        if not is_float(dtype) or value.lstrip("+-") not in ("inf", "nan", "infinity"):
            raise refuse("MS733", e, f"`{text_of(e)}` is not a number")
        return Number(Const(float(value), dtype), dtype)
    n = read.as_number(value, found["expr"], scope)
    match n.expr:
        case Const(value=v) if dtype == "bool":
            return Number(Const(bool(v), dtype), dtype)
        case Const() if dtype == "i32":
            return Number(as_data(n, dtype), dtype)
    return cast(n, dtype, folded=True)


def _variable(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    return Unnamed(element_type(read, needed(e, bound(e, "dtype", "name"), "dtype"), scope))


def _named_variable(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`N = T.Var("N", "int32")`: a variable, which here has the name that it is bound to."""
    return Unnamed(element_type(read, needed(e, bound(e, "name", "dtype", "**"), "dtype"), scope))


def _constant(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`T.const(4, "int64")`: a literal; without a type, one of Python's."""
    found = bound(e, "value", "dtype", "**")
    value = read.number(needed(e, found, "value"), scope)
    if constant(value) is None:
        raise refuse("MS733", e, f"`{text_of(e)}` is not a constant")
    return cast(value, element_type(read, found["dtype"], scope), folded=True) if "dtype" in found else value


def _text(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`T.StringImm("text")`, `T.target("llvm")`: the text, or what else stands for a target."""
    return read.value(needed(e, bound(e, "value", "**"), "value"), scope)


def _limit(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`T.min_value(dtype)`, `T.max_value(dtype)`: for floating types the finite ones; `T.infinity(dtype)`."""
    dtype = element_type(read, needed(e, bound(e, "dtype", "**"), "dtype"), scope)
    name = dotted(e.func, read.aliases)
    if name == "infinity":
        return Number(Const(math.inf, dtype), dtype)
    if dtype in _LARGEST:
        return Number(Const(_LARGEST[dtype] * (1 if name == "max_value" else -1), dtype), dtype)
    if dtype not in SCALARS:
        raise refuse("MS731", e, f"`{text_of(e)}` is a vector")
    value = (highest if name == "max_value" else lowest)(dtype)
    return index(Const(value.value), dtype) if dtype in ("i32", "i64") else Number(value, dtype)


# ------------------------------------------------------------------ operators that are calls
def _truncated(read: Expressions, e: ast.Call, scope: Scope, op: str) -> Number:
    """Division towards zero, if it is provably floor division."""
    a, b = arguments(read, e, scope, "a", "b", "**")
    found = binary(op, a, b, e)
    assert isinstance(found.expr, Binary)
    ranges = scope.ranges()
    natural = found.dtype.startswith("u") or (
        found.index
        and decide(Binary(">=", found.expr.left, ZERO), ranges) is Verdict.PROVED
        and decide(Binary(">", found.expr.right, ZERO), ranges) is Verdict.PROVED
    )
    if not natural and not found.index and is_integer(found.dtype):
        return _towards_zero(found, found.expr, op)
    if not natural and not all(isinstance(x, Const) and x.value >= 0 for x in (found.expr.left, found.expr.right)):
        raise refuse(
            "MS735",
            e,
            f"`{text_of(e)}` rounds towards zero, and nothing proves that its operands are not negative",
            "division here rounds down, which is the same for operands that are not negative only",
            "write `//` or `%` if they never are",
        )
    return found


def _towards_zero(like: Number, floored: Binary, op: str) -> Number:
    """Division of data towards zero: one more than rounded down, where there is a remainder and the signs differ; the
    remainder has the sign of the dividend."""
    a, b = floored.left, floored.right
    zero = Const(0, like.dtype)
    rest = Binary("%", a, b)
    differ = Binary("!=", Binary("<", a, zero), Binary("<", b, zero))
    one_up = Binary("and", Binary("!=", rest, zero), differ)
    if op == "//":
        return with_expr(like, Select(one_up, Binary("+", floored, Const(1, like.dtype)), floored))
    return with_expr(like, Select(one_up, Binary("-", rest, b), rest))


def _ceildiv(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    a, b = arguments(read, e, scope, "a", "b", "**")
    return binary("//", binary("-", binary("+", a, b, e), literal(1), e), b, e)


def _choice(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    names = ("cond", "t", "f") if dotted(e.func, read.aliases) == "if_then_else" else _SELECT
    found = bound(e, *names, "dtype", "**")
    if any(n not in found for n in names):
        raise refuse("MS733", e, f"`{text_of(e.func)}` needs {', '.join(names)}")
    c, t, f = (found[n] for n in names)
    return read.choice(e, c, t, f, scope)


_SELECT = ("condition", "true_value", "false_value")


def _not(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    (a,) = arguments(read, e, scope, "a", "**")
    return Number(Unary("not", condition(a, e)), "bool")


def _complement(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    (a,) = arguments(read, e, scope, "x", "**")
    return complemented(a, e)


def _same(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    found = bound(e, "value", "**")
    return read.number(needed(e, found, "value"), scope)


def _thread(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`tx = T.env_thread("threadIdx.x")`."""
    tag = read.value(needed(e, bound(e, "thread_tag", "dtype"), "thread_tag"), scope)
    if not isinstance(tag, str):
        raise refuse("MS733", e, f"`{text_of(e)}` names no thread")
    return Thread(tag)


def _iterated(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`tx = T.iter_var(v, (0, 32), "ThreadIndex", "threadIdx.x")`: a thread, whose extent its launch says."""
    first = ("var", "dom") if dotted(e.func, read.aliases) == "iter_var" else ("dom", "var")
    found = bound(e, *first, "iter_type", "thread_tag")
    tag = read.value(found["thread_tag"], scope) if "thread_tag" in found else None
    if not isinstance(tag, str) or not tag:
        raise refuse("MS731", e, f"`{text_of(e)}` is not a thread")
    var = found.get("var")
    return Thread(tag, var.id if isinstance(var, ast.Name) else None)


def _bind(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`x = T.bind(value)`: the value."""
    return read.value(needed(e, bound(e, "value", "type_annotation", "**"), "value"), scope)


def _address(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`T.address_of(A[i, j])`: a pointer to an element."""
    match needed(e, bound(e, "obj", "**"), "obj"):
        case ast.Subscript(value=of) as target if isinstance(array := read.value(of, scope), Array):
            b = array.buffer
            indices = read.indices(target, b, scope)
            offset = b.offset or ZERO
            for x, step in zip(indices, b.strides or row_major(b.shape), strict=True):
                offset = Binary("+", offset, Binary("*", x, step))
            return Pointer(array, simplify(offset))
    raise refuse("MS731", e, f"`{text_of(e)}` is not an address of an element")


def _let(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`T.Let(expr, where={x: value})`: the expression after substitution of the values."""
    found = bound(e, "expr", "where", "**")
    where = found.get("where")
    if "expr" not in found or not isinstance(where, ast.Dict):
        raise refuse("MS733", e, "`Let` needs an expression and what its names stand for")
    inner = scope.inner()
    for k, v in zip(where.keys, where.values, strict=True):
        if not isinstance(k, ast.Name):
            raise refuse("MS733", k or e, "only a name can stand for a value")
        inner.bind(k.id, read.value(v, scope))
    return read.number(found["expr"], inner)


# ------------------------------------------------------------------ functions
def _function(read: Expressions, e: ast.Call, scope: Scope, name: str) -> Number:
    arity = FUNCTIONS[name].arity
    if len(e.args) != arity:
        raise refuse("MS733", e, f"`{text_of(e.func)}` takes {arity} arguments, not {len(e.args)}")
    return _called(e, name, [read.number(x, scope) for x in e.args])


def _called(e: ast.Call, name: str, args: list[Number]) -> Number:
    function = FUNCTIONS[name]
    like = args[0]
    for other in args[1:]:
        like = met(like, other, e)[2]
    if not function.takes(like.dtype):
        raise refuse("MS733", e, f"`{text_of(e.func)}` does not work on `{like.dtype}`")
    given = tuple(x.expr if like.index else as_data(x, like.dtype) for x in args)
    if function.truth:
        return Number(Call(name, given, "bool"), "bool")
    if name == "clz":
        # In TVM the result is an `int32` for every operand type.
        called = Call(name, given, _of(like))
        return Number(called if called.dtype == "i32" else Cast("i32", called), "i32")
    return with_expr(like, Call(name, given, _of(like)))


def _of(n: Number) -> str:
    return dtype_of(n.expr) if n.index else n.dtype


def _power(base: float) -> Handler:
    def made(read: Expressions, e: ast.Call, scope: Scope) -> Value:
        (x,) = arguments(read, e, scope, "x", "**")
        return Number(Call("pow", (Const(base, x.dtype), data(x)), x.dtype), x.dtype)

    return made


def _extern(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    """`T.call_extern("float32", "erff", x)`: an external function of numbers."""
    found = bound(ast.copy_location(ast.Call(e.func, [], e.keywords), e), "dtype")
    typed = e.args if "dtype" in found else e.args[1:]
    if not typed or not e.args:
        raise refuse("MS733", e, f"`{text_of(e.func)}` needs a type and a name")
    args = tuple(data(read.number(x, scope)) for x in typed[1:])
    dtype = element_type(read, found.get("dtype", e.args[0]), scope)
    name = read.value(typed[0], scope)
    if not isinstance(name, str):
        raise refuse("MS733", typed[0], "the function's name is a text")
    function = of_c_library(name)
    if function is None or FUNCTIONS[function].arity != len(args):
        raise refuse("MS731", e, f"`{name}` is a function of another library", "kernels call none")
    return Number(Call(function, args, dtype), dtype)


def _quantized(name: str) -> Handler | None:
    return {"q_multiply_shift": by_constants, "q_multiply_shift_per_axis": by_data}.get(name)


def _shuffle(read: Expressions, e: ast.Call, scope: Scope) -> Value:
    raise refuse("MS731", e, f"`{text_of(e)}` is a vector", "a loop is vectorized here, not an expression")


_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **dict.fromkeys(("if_then_else", "Select"), _choice),
        **dict.fromkeys(("cast", "astype", "Cast"), _cast),
        **dict.fromkeys(("min_value", "max_value", "infinity"), _limit),
        **dict.fromkeys(("likely", "meta_var", "tvm_thread_invariant"), _same),
        **dict.fromkeys(("call_extern", "call_pure_extern"), _extern),
        **dict.fromkeys(("Ramp", "ramp"), ramp),
        **dict.fromkeys(("Broadcast", "broadcast"), broadcast),
        **dict.fromkeys(("Shuffle", "vscale"), _shuffle),
        **dict.fromkeys(("Not",), _not),
        "address_of": _address,
        "bind": _bind,
        "env_thread": _thread,
        "const": _constant,
        "StringImm": _text,
        "target": _text,
        "iter_var": _iterated,
        "IterVar": _iterated,
        "get_active_lane_mask": lane_mask,
        "var": _variable,
        "Var": _named_variable,
        "ceildiv": _ceildiv,
        "bitwise_not": _complement,
        "Let": _let,
        "exp10": _power(10.0),
    }
)
