"""From expressions of the tree to typed IR expressions."""

from __future__ import annotations

from mslang.diagnostics import Fix, MsError, Note
from mslang.ir.dtype import INDEX, SCALARS, is_float, is_integer, parts
from mslang.ir.expr import (
    COMPARISONS, FUNCTIONS, LOGICAL, Binary, Call, Cast, Const, Expr, Load, Select, Symbol, Unary,
)
from mslang.sema.literals import Value, accepts, constant, default_dtype, fits, folded, retyped, scalar_of
from mslang.sema.refer import dotted_name
from mslang.sema.report import fail, nearest, unknown
from mslang.sema.scope import Broken, BufferName, ConstName, Hidden, Scope, SizeName, TileName, Variable
from mslang.syntax import tree

OPERATORS = {
    "min": "min", "max": "max", "shift_left": "<<", "shift_right": ">>",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^",
}
"""Functions of the language that are binary operators of the IR."""

LITERAL_NAMES = {"inf": float("inf"), "nan": float("nan")}

BUILTINS = frozenset({*FUNCTIONS, *OPERATORS, "select", "extern"})


def typed(e: tree.Expr, scope: Scope, want: str | None = None) -> Expr:
    """The IR of `e`, of type `want` if one is asked for (a literal adapts, nothing else is converted).

    Raises `MsError` with one diagnostic at the faulty node.
    """
    value = infer(e, scope)
    if want is None:
        return _settled(value)
    return adapted(value, want, e)


def index(e: tree.Expr, scope: Scope) -> Expr:
    """The IR of an index, size or extent: an integer, converted to the index type when it has another."""
    value = infer(e, scope)
    expr = _settled(value) if value.literal != "float" else value.expr
    dtype = value.dtype
    if value.literal == "float" or not is_integer(dtype) or parts(dtype) != (scalar_of(dtype), 1):
        fail("MS106", e, f"an index or size must be an integer, not `{dtype}`",
             help="round and convert it: `i64(floor(x))`" if is_float(dtype) else None)
    return expr if dtype == INDEX else Cast(INDEX, expr)


def condition(e: tree.Expr, scope: Scope) -> Expr:
    """The IR of a condition, which must be a bool."""
    return typed(e, scope, "bool")


def adapted(value: Value, dtype: str, at: tree.Expr) -> Expr:
    """The value as an expression of type `dtype`; only literals adapt."""
    if value.literal:
        if not accepts(dtype, value.literal):
            what = "an integer" if value.literal == "int" else "a floating-point number"
            fail("MS104", at, f"{what} stands where `{dtype}` is needed")
        _check_fits(value.expr, dtype, at)
        return retyped(value.expr, dtype)
    if value.dtype != dtype:
        text = _text(at)
        why = None
        if value.size and is_float(scalar_of(dtype)):
            why = "sizes are integers (`i64`); only literals take the type that is needed"
        fail("MS104", at, f"`{value.dtype}` stands where `{dtype}` is needed", why=why,
             help=f"convert it: `{dtype}({text})`" if dtype != "bool" else "compare it with something")
    return value.expr


def _settled(value: Value) -> Expr:
    return retyped(value.expr, default_dtype(value.literal)) if value.literal else value.expr


def _check_fits(e: Expr, dtype: str, at: tree.Expr) -> None:
    if isinstance(e, Const) and not fits(e.value, dtype):
        fail("MS123", at, f"{e.value} does not fit into `{dtype}`")


# ------------------------------------------------------------------ by node
def infer(e: tree.Expr, scope: Scope) -> Value:
    """The value of an expression before anything around it has given its literals a type."""
    match e:
        case tree.Number(value=v):
            return _number(v)
        case tree.Size(bytes=n):
            return Value(Const(n), "int")
        case tree.Bool(value=b):
            return Value(Const(b, "bool"))
        case tree.Ref(name=name):
            return _name(name, scope)
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
            return _member(e, scope)
        case tree.Bad():
            raise MsError
        case tree.String():
            fail("MS104", e, "a string stands where a number is needed")
        case tree.Hole():
            fail("MS110", e, "`_` has no meaning in a program",
                 why="a hole stands for a factor that a `split` infers, in a schedule")
    what = {tree.List: "a list", tree.Group: "a tuple", tree.Comprehension: "a list", tree.IndexMap: "an index map"}
    fail("MS104", e, f"{what.get(type(e), 'this')} stands where a number is needed")


def _number(v: int | float) -> Value:
    return Value(Const(v, INDEX), "int") if isinstance(v, int) else Value(Const(v, "f32"), "float")


def _name(name: tree.Name, scope: Scope) -> Value:
    match scope.get(name.text):
        case Variable(var=var):
            return Value(var)
        case SizeName(value=v):
            return Value(v, size=True)
        case ConstName(value=v):
            return _const_value(v)
        case BufferName(buffer=b):
            dims = ", ".join("…" for _ in b.shape)
            fixes = () if b.shape else (Fix(f"write `{name.text}[]`", name.span, f"{name.text}[]"),)
            fail("MS125", name, f"`{name.text}` is a buffer, not a number", help=f"access it: `{name.text}[{dims}]`",
                 fixes=fixes)
        case TileName(n=n):
            fail("MS125", name, f"`{name.text}` is a tile of {n} factors", help=f"name one of them: `{name.text}[0]`")
        case Hidden(role=role, block=block):
            fail("MS115", name, f"`{name.text}` is a {role} outside of block `{block}`",
                 why="the body of a block names its own axes only, so that the block can be moved",
                 help=f"bind it to an axis: `block {block}[…, x: extent = {name.text}]`, and use `x`")
        case Broken():
            raise MsError
    if name.text in LITERAL_NAMES:
        return Value(Const(LITERAL_NAMES[name.text], "f32"), "float")
    raise MsError(unknown("MS101", name, "name", name.text, _number_names(scope)))


def _number_names(scope: Scope) -> list[str]:
    return [n for n, d in scope.names.items() if not isinstance(d.meaning, Hidden | Broken)]


def _const_value(v: int | float | bool) -> Value:
    if isinstance(v, bool):
        return Value(Const(v, "bool"), size=True)
    return Value(Const(v), size=True) if isinstance(v, int) else Value(Const(v, "f32"), "float")


def _member(e: tree.Member, scope: Scope) -> Value:
    dotted = dotted_name(e)
    match scope.get(dotted) if dotted is not None else None:
        case ConstName(value=v):
            return _const_value(v)
    fail("MS101", e, f"unknown name `{_text(e)}`" if dotted else "a program has no members to name with `.`",
         why="in a program, names with dots are consts of a module named by `use … as`")


def _unary(e: tree.Unary, scope: Scope) -> Value:
    if e.op == "not":
        return _fold(Unary("not", condition(e.operand, scope)), infer(e.operand, scope).size, e)
    value = infer(e.operand, scope)
    if scalar_of(value.dtype) == "bool":
        fail("MS104", e.operand, f"`{e.op}` needs a number, not a bool")
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
        fail("MS113", at, "division by zero")


def _binary(e: tree.Binary, scope: Scope) -> Value:
    if e.op == "..":
        fail("MS127", e, "a range stands where a number is needed",
             why="`a .. b` is the domain of a loop or a dimension of a region")
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
        middle = _text(inner.right)
        fail("MS109", e, "comparisons do not chain", why=f"`a {inner.op} b {e.op} c` would compare a bool with a number",
             help=f"write `… {inner.op} {middle} and {middle} {e.op} …`")


def _check_operator(e: tree.Binary, dtype: str, literal: str) -> None:
    if dtype == "bool":
        if e.op not in ("==", "!="):
            fail("MS104", e, f"`{e.op}` needs numbers, not bools")
        return
    if e.op == "/" and (is_integer(dtype) or literal == "int"):
        fail("MS108", e, "`/` on integers", why="it would not say how to round",
             help="write `//` (floor division), or convert both sides: `f32(a) / f32(b)`")
    if e.op in ("//", "%") and is_float(dtype):
        fail("MS104", e, f"`{e.op}` needs integers, not `{dtype}`",
             help="write `floor(a / b)`" if e.op == "//" else None)


def unified(left: Value, right: Value, at_left: tree.Expr, at_right: tree.Expr, op: str) -> tuple[Expr, Expr, str]:
    """Two operands of one type, and the sort of literal that both are ("" if one is typed).

    A literal takes the other side's type.
    """
    if left.literal and right.literal:
        if left.literal == right.literal:
            return left.expr, right.expr, left.literal
        return retyped(left.expr, "f32"), retyped(right.expr, "f32"), "float"
    if left.literal:
        return adapted(left, right.dtype, at_left), right.expr, ""
    if right.literal:
        return left.expr, adapted(right, left.dtype, at_right), ""
    if left.dtype != right.dtype:
        shown = {"<<": "shift_left", ">>": "shift_right", "&": "bit_and", "|": "bit_or", "^": "bit_xor"}.get(op, op)
        fail("MS104", at_left.span.to(at_right.span), f"`{shown}` of `{left.dtype}` and `{right.dtype}`",
             why="nothing is converted without being asked for",
             help=f"convert one side: `{left.dtype}({_text(at_right)})` or `{right.dtype}({_text(at_left)})`")
    return left.expr, right.expr, ""


# ------------------------------------------------------------------ accesses
def _index(e: tree.Index, scope: Scope) -> Value:
    if not isinstance(e.base, tree.Ref):
        fail("MS125", e.base, "only a buffer can be indexed")
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
    fail("MS125", name, f"`{name.text}` is a number, not a buffer")


def buffer_names(scope: Scope) -> list[str]:
    """The names of the buffers in scope."""
    return [n for n, d in scope.names.items() if isinstance(d.meaning, BufferName)]


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
        fail("MS105", e, f"`{meaning.buffer.name}` has {rank} {dims}, but {len(e.items)} are indexed")


def _factor(e: tree.Index, n: int) -> int:
    match e.items:
        case (tree.Number(value=k),) if isinstance(k, int) and 0 <= k < n:
            return k
    fail("MS105", e, f"a tile of {n} factors is read by a literal from 0 to {n - 1}")


# ------------------------------------------------------------------ calls
def _call(e: tree.Call, scope: Scope) -> Value:
    if not isinstance(e.callee, tree.Ref):
        fail("MS107", e.callee, "only functions of the language can be called in a program")
    name = e.callee.name
    if parts(name.text) is not None:
        return _cast(e, name.text, scope)
    if name.text == "extern":
        return _extern(e, scope)
    args = _positional(e)
    if name.text == "select":
        return _select(e, args, scope)
    if name.text in OPERATORS:
        return _operator(e, OPERATORS[name.text], args, scope)
    if name.text in FUNCTIONS:
        return _function(e, name.text, args, scope)
    raise MsError(unknown("MS107", name, "function", name.text, [*BUILTINS, *SCALARS],
                          why="a program calls functions of the language only" if nearest(name.text, BUILTINS) is None
                          else None))


def _positional(e: tree.Call) -> tuple[tree.Expr, ...]:
    for a in e.args:
        if a.name is not None or a.splat:
            fail("MS107", a, "functions in programs take positional arguments only")
    return tuple(a.value for a in e.args)


def _arity(e: tree.Call, given: int, wanted: int) -> None:
    if given != wanted:
        plural = "argument" if wanted == 1 else "arguments"
        fail("MS107", e, f"`{_text(e.callee)}` takes {wanted} {plural}, not {given}")


def _cast(e: tree.Call, dtype: str, scope: Scope) -> Value:
    args = _positional(e)
    _arity(e, len(args), 1)
    value = infer(args[0], scope)
    if value.literal and isinstance(value.expr, Const):
        return Value(_literal_of(value.expr, dtype, args[0]))
    if value.dtype == "bool" and isinstance(args[0], tree.Bool):
        return Value(constant(bool(args[0].value), dtype))
    return _fold(Cast(dtype, _settled(value)), value.size, e)


def _literal_of(c: Const, dtype: str, at: tree.Expr) -> Const:
    if isinstance(c.value, float) and not is_float(scalar_of(dtype)):
        fail("MS104", at, f"a floating-point number stands where `{dtype}` is needed")
    _check_fits(c, dtype, at)
    return constant(c.value, dtype)


def _select(e: tree.Call, args: tuple[tree.Expr, ...], scope: Scope) -> Value:
    _arity(e, len(args), 3)
    chosen = condition(args[0], scope)
    left, right = infer(args[1], scope), infer(args[2], scope)
    a, b, literal = unified(left, right, args[1], args[2], "select")
    size = left.size and right.size and isinstance(chosen, Const)
    return _fold(Select(chosen, a, b), size, e, literal)


def _operator(e: tree.Call, op: str, args: tuple[tree.Expr, ...], scope: Scope) -> Value:
    if op in ("min", "max"):
        if len(args) < 2:
            fail("MS107", e, f"`{op}` takes at least 2 arguments, not {len(args)}")
    else:
        _arity(e, len(args), 2)
    result, at = infer(args[0], scope), args[0]
    for x in args[1:]:
        other = infer(x, scope)
        a, b, literal = unified(result, other, at, x, op)
        dtype = scalar_of(Value(a).dtype)
        if op not in ("min", "max") and not (is_integer(dtype) or (dtype == "bool" and op in "&|^")):
            fail("MS104", e, f"`{_text(e.callee)}` needs integers, not `{dtype}`")
        if dtype == "bool" and op in ("min", "max"):
            fail("MS104", e, f"`{op}` needs numbers, not bools")
        result = _fold(Binary(op, a, b), result.size or other.size, e, literal)
    return result


def _function(e: tree.Call, name: str, args: tuple[tree.Expr, ...], scope: Scope) -> Value:
    _arity(e, len(args), FUNCTIONS[name])
    values = [infer(x, scope) for x in args]
    exprs = [v.expr for v in values]
    literal = values[0].literal
    if len(values) == 2:
        a, b, literal = unified(values[0], values[1], args[0], args[1], name)
        exprs = [a, b]
    if literal == "int" and name != "abs":
        exprs, literal = [retyped(x, "f32") for x in exprs], "float"
    dtype = Value(exprs[0]).dtype
    scalar = scalar_of(dtype)
    if not (is_float(scalar) or (name == "abs" and is_integer(scalar))):
        fail("MS104", args[0], f"`{name}` needs a floating-point number, not `{dtype}`",
             help=f"convert it: `f32({_text(args[0])})`" if is_integer(scalar) else None)
    return Value(Call(name, tuple(exprs), dtype), literal)


def _extern(e: tree.Call, scope: Scope) -> Value:
    match e.args:
        case (tree.Arg(value=tree.String(value=name), name=None), tree.Arg(value=tree.Ref(name=dtype), name=None), *rest) \
                if parts(dtype.text) is not None:
            return Value(Call(name, tuple(typed(a.value, scope) for a in rest), dtype.text))
    fail("MS107", e, "`extern` takes the function's name and its result type first",
         help='write `extern("erff", f32, x)`', notes=(Note("the further arguments are passed as they are"),))


def _text(e: tree.Expr) -> str:
    """A short text of an expression for messages."""
    match e:
        case tree.Ref(name=n):
            return n.text
        case tree.Number(value=v):
            return str(v)
        case tree.Member(base=b, name=n):
            return f"{_text(b)}.{n.text}"
        case tree.Index(base=b, items=xs):
            return f"{_text(b)}[{', '.join(_text(x) for x in xs)}]"
    return "…"
