"""Reading pins: the values of decisions as text says them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mslang.schedule.trace import Value
from mslang.sema.report import failure
from mslang.syntax import tree
from mslang.syntax.parse import parse_expression


def pin_value(e: tree.Expr, loop: Callable[[str], str] = str) -> Value:
    """The value that a pin gives: a number, a list of numbers, a case, a place, a text.

    Args:
        e: the expression after `=`.
        loop: gives the name of a loop in the program for the name in `at(name)`.

    Raises:
        MsError: MS203, it is no such value.
    """
    match e:
        case tree.Number(value=v) | tree.Bool(value=v) | tree.String(value=v):
            return v
        case tree.Unary(op="-", operand=tree.Number(value=v)):
            return -v
        case tree.Ref(name=name):
            return name.text
        case tree.List(items=items):
            return tuple(_element(x) for x in items)
        case tree.Call(callee=tree.Ref(name=tree.Name(text="at")), args=(tree.Arg(value=tree.Ref(name=name)),)):
            return f"at({loop(name.text)})"
    raise failure(
        "MS203",
        e,
        "this is not a value of a decision",
        help="a pin is a number, a list of numbers, the name of a case, `at(loop)`, or a text in quotes",
    )


def _element(e: tree.Expr) -> int:
    match e:
        case tree.Number(value=int() as v):
            return v
        case tree.Hole():
            return None  # type: ignore[return-value]
    raise failure("MS203", e, "a list of decisions holds whole numbers")


def pin_values(pins: Sequence[tree.Pin]) -> dict[str, Value]:
    """The pins of a `with { … }` by address.

    Raises:
        MsError: MS209, one address stands twice; MS203, a value is none.
    """
    found: dict[str, Value] = {}
    for pin in pins:
        if pin.address in found:
            raise failure("MS209", pin, f"`{pin.address}` is pinned twice")
        found[pin.address] = pin_value(pin.value)
    return found


def parse_pin(text: str) -> tuple[str, Value]:
    """`address = value` as a command line gives it.

    Raises:
        MsError: it is no such pin.
    """
    address, _, value = text.partition("=")
    return address.strip().strip('"'), pin_value(parse_expression(value))
