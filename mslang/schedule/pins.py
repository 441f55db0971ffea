"""Reading pins: the values of decisions in text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mslang.schedule.instruction import Value
from mslang.sema.consteval import NUMBERS
from mslang.sema.report import failure
from mslang.syntax import tree
from mslang.syntax.parse import parse_expression


def pin_value(e: tree.Expr, loop: Callable[[str], str] = str) -> Value:
    """The value of a pin: a number, a list of numbers, a case, a location, or a string.

    Args:
        e: the expression after `=`.
        loop: maps the name in `at(name)` to the name of a loop in the program.

    Raises:
        MsError: MS203, the expression is no such value.
    """
    match e:
        case tree.Number(value=v) | tree.Bool(value=v) | tree.String(value=v):
            return v
        case tree.Unary(op="-", operand=tree.Number(value=v)):
            return -v
        case tree.Unary(op="-", operand=tree.Ref(name=tree.Name(text="inf"))):
            return -NUMBERS["inf"]
        case tree.Ref(name=name):
            return NUMBERS.get(name.text, name.text)
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
        MsError: MS209, an address occurs twice; MS203, an expression is not a pin's value.
    """
    found: dict[str, Value] = {}
    for pin in pins:
        if pin.address in found:
            raise failure("MS209", pin, f"`{pin.address}` is pinned twice")
        found[pin.address] = pin_value(pin.value)
    return found


def parse_pin(text: str) -> tuple[str, Value]:
    """A pin `address = value` from the command line.

    Raises:
        MsError: the text is no such pin.
    """
    address, _, value = text.partition("=")
    return address.strip().strip('"'), pin_value(parse_expression(value))
