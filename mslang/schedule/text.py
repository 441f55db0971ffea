"""Schedule values as `.ms` text: names, sizes, decisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from mslang.ir.expr import COMPARISONS, Binary, Const, Expr, Symbol, Unary, Var
from mslang.schedule.instruction import Value
from mslang.syntax.lexer import tokenize
from mslang.syntax.literals import quote

_COMPARISON = 4
_LEVELS = {"..": 0, "or": 1, "and": 2, "+": 5, "-": 5, "*": 6, "//": 6, "%": 6}
_LEVELS |= dict.fromkeys(COMPARISONS, _COMPARISON)


@lru_cache(maxsize=4096)
def name_text(name: str) -> str:
    """A name in text: in backticks if it is a keyword or no identifier."""
    tokens = tokenize(name)
    return name if len(tokens) == 1 and tokens[0].kind == "NAME" else f"`{name}`"


def number_text(value: float) -> str:
    """A number in text."""
    return repr(value)


def size_text(
    e: Expr, symbol: Callable[[Symbol], str], level: int = 0, *, variable: Callable[[str], str] = name_text
) -> str:
    """A size or condition in text; `symbol` names the symbols, `variable` the variables."""

    def part(x: Expr, above: int = 0) -> str:
        return size_text(x, symbol, above, variable=variable)

    match e:
        case Const(value=bool() as v):
            return "true" if v else "false"
        case Const(value=v):
            text = number_text(v)
            return f"({text})" if v < 0 and level else text
        case Symbol():
            return symbol(e)
        case Var(name=n):
            return variable(n)
        case Binary(op="min" | "max" as op, left=a, right=b):
            return f"{op}({part(a)}, {part(b)})"
        case Binary(op=op, left=a, right=b):
            mine = _LEVELS[op]
            text = f"{part(a, mine + (mine == _COMPARISON))} {op} {part(b, mine + 1)}"
            return f"({text})" if mine < level else text
        case Unary(op="not", operand=x):
            text = f"not {part(x, 3)}"
            return f"({text})" if level > 3 else text
        case Unary(op=op, operand=x):
            return f"{op}{part(x, 7)}"
    raise TypeError(f"no size: {e!r}")


def value_text(value: Value | None, *, quoted: bool = False) -> str:
    """A decision's value in a pin; `quoted` strings are literals, others names of cases and locations."""
    match value:
        case None:
            return "_"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
        case tuple():
            return "[" + ", ".join(value_text(x) for x in value) + "]"
        case str() if quoted:
            return quote(value)
        case str() if value.startswith("at(") and value.endswith(")"):
            return f"at({name_text(value[3:-1])})"
    bare = name_text(value)
    return bare if not bare.startswith("`") else quote(value)


def address_text(address: str) -> str:
    """An address in a pin: quoted unless it is a name."""
    bare = name_text(address)
    return bare if not bare.startswith("`") else quote(address)
