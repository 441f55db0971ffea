"""Atomic updates in CUDA C."""

from __future__ import annotations

from mslang.backend.cuda.expression import ExpressionPrinter
from mslang.backend.cuda.scope import Scope
from mslang.backend.cuda.types import NAMES, Level
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import is_float
from mslang.kernel.nodes import Atomic

_FUNCTIONS = {
    "+": "atomicAdd",
    "min": "atomicMin",
    "max": "atomicMax",
    "&": "atomicAnd",
    "|": "atomicOr",
    "^": "atomicXor",
}
_BITWISE = frozenset("&|^")


def atomic(printer: ExpressionPrinter, s: Atomic, scope: Scope) -> str:
    """`buffer[indices] = buffer[indices] op value`, indivisibly, as a statement.

    Raises:
        MsError: MS442, CUDA has no such operation on the type.
    """
    dtype = printer.place(s.buffer, scope).buffer.dtype
    value = printer.value(s.value, scope)
    at = f"&{printer.element(s.buffer, s.indices, scope)}"
    if is_float(dtype):
        if s.op == "+":
            return f"atomicAdd({at}, {value.text});"
        if s.op in ("min", "max") and dtype in ("f32", "f64"):
            name = "ms_smaller" if s.op == "min" else "ms_larger"
            printer.used.functions.add(name)
            return f"{printer.used.call('ms_atomic_float', at, value.text, f'{name}()')};"
    elif dtype in ("i32", "u32", "i64", "u64") and s.op in _FUNCTIONS:
        # A sum and bits are the same signed and unsigned; CUDA has those of 64 bits unsigned only.
        kind = "u64" if dtype == "i64" and (s.op == "+" or s.op in _BITWISE) else dtype
        if kind == dtype:
            return f"{_FUNCTIONS[s.op]}({at}, {value.text});"
        name = NAMES[kind]
        return f"{_FUNCTIONS[s.op]}(({name}*){at}, ({name}){value.at(Level.UNARY)});"
    raise MsError(
        problem(
            "MS442",
            f"there is no atomic `{s.op}` of {dtype} on GPUs",
            why="there are sums of floats, minima and maxima of f32 and f64, and all of integers of 32 and 64 bits",
            help="sum up in a wider type, or let one thread own each element",
        )
    )
