"""Types of values: a literal takes the type of its place, nothing else is converted."""

from __future__ import annotations

from mslang.brevity import brief
from mslang.diagnostics import MsError
from mslang.ir.dtype import is_float
from mslang.ir.expr import BITS, SHIFTS, Binary, Call, Const, Expr
from mslang.ir.functions import FUNCTIONS
from mslang.ir.text import CALLED, name_text
from mslang.sema.literals import Value, accepts, default_dtype, fits, parts_of_literal, retyped, scalar_of
from mslang.sema.report import failure
from mslang.syntax import tree


def adapted(value: Value, dtype: str, at: tree.Expr) -> Expr:
    """The value as an expression of type `dtype`; only literals adapt."""
    if value.literal:
        if not accepts(dtype, value.literal):
            what = "an integer" if value.literal == "int" else "a floating-point number"
            raise failure("MS104", at, f"{what} stands where `{dtype}` is needed")
        check_fits(value.expr, dtype, at)
        return retyped(value.expr, dtype)
    if value.dtype != dtype:
        text = text_of(at)
        why = None
        if value.size and is_float(scalar_of(dtype)):
            why = "sizes are integers (`i64`); only literals take the type that is needed"
        raise failure(
            "MS104",
            at,
            f"`{value.dtype}` stands where `{dtype}` is needed",
            why=why,
            help=f"convert it: `{dtype}({text})`" if dtype != "bool" else "compare it with something",
        )
    return value.expr


def settled(value: Value) -> Expr:
    """The value with its default type, if it is a literal."""
    return retyped(value.expr, default_dtype(value.literal)) if value.literal else value.expr


def check_fits(e: Expr, dtype: str, at: tree.Expr) -> None:
    """Refuse a literal outside of the range of `dtype`, or computed by what `dtype` does not have."""
    for part in parts_of_literal(e):
        match part:
            case Const(value=v) if not fits(v, dtype):
                raise failure("MS123", at, f"{brief(v)} does not fit into `{dtype}`")
            case Binary(op=op) if is_float(scalar_of(dtype)) and (op in SHIFTS | BITS or op in ("//", "%")):
                raise _needs_integers(CALLED.get(op, op), dtype, at)
            case Call(name=name) if not FUNCTIONS[name].takes(dtype):
                raise _needs_integers(name, dtype, at)


def _needs_integers(what: str, dtype: str, at: tree.Expr) -> MsError:
    return failure(
        "MS104",
        at,
        f"`{what}` needs integers, not `{dtype}`",
        why="literals take the type of their place",
        help=f"convert the result: `{dtype}({text_of(at)})`",
    )


def unified(left: Value, right: Value, at_left: tree.Expr, at_right: tree.Expr, op: str) -> tuple[Expr, Expr, str]:
    """Two operands of one type, and the sort of literal that both are ("" if one is typed).

    A literal takes the other side's type.
    """
    if left.literal and right.literal:
        if left.literal == right.literal:
            return left.expr, right.expr, left.literal
        return adapted(left, "f32", at_left), adapted(right, "f32", at_right), "float"
    if left.literal:
        return adapted(left, right.dtype, at_left), right.expr, ""
    if right.literal:
        return left.expr, adapted(right, left.dtype, at_right), ""
    if left.dtype != right.dtype:
        shown = CALLED.get(op, op)
        raise failure(
            "MS104",
            at_left.span.to(at_right.span),
            f"`{shown}` of `{left.dtype}` and `{right.dtype}`",
            why="there are no implicit conversions",
            help=f"convert one side: `{left.dtype}({text_of(at_right)})` or `{right.dtype}({text_of(at_left)})`",
        )
    return left.expr, right.expr, ""


def text_of(e: tree.Expr) -> str:
    """A short text of an expression for messages."""
    match e:
        case tree.Ref(name=n):
            return name_text(n.text)
        case tree.Number(value=v):
            return str(v)
        case tree.Member(base=b, name=n):
            return f"{text_of(b)}.{name_text(n.text)}"
        case tree.Index(base=b, items=xs):
            return f"{text_of(b)}[{', '.join(text_of(x) for x in xs)}]"
    return "…"
