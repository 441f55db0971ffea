"""Which loops are written out: those that the schedule says, and those that index registers.

A loop stays a loop in the kernel: the compiler of the device writes it out. After this pass the kind of a loop says
whether it does, `unrolled` or `serial`. An array is in registers only where every index is a number once loops are
unrolled.
"""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.expr import Const
from mslang.ir.program import HOLDERS
from mslang.kernel import Allocate, Atomic, Body, For, Invoke, Module, Stmt, Store
from mslang.kernel.visit import bodies, map_functions, with_bodies
from mslang.lower.analysis import MAX_UNROLLED, indexes, max_steps
from mslang.target.description import Target

IN_REGISTERS = 512
"""Statements that a loop over registers, and those in it, may become."""


def unrolled(module: Module, target: Target) -> Module:
    """The module whose loops are `unrolled` exactly where they are to be written out."""
    return map_functions(module, lambda body: _body(body, frozenset()))


def _body(body: Body, registers: frozenset[str]) -> Body:
    return tuple(_statement(s, registers) for s in body)


def _statement(s: Stmt, registers: frozenset[str]) -> Stmt:
    inside = registers
    match s:
        case Invoke():
            return s
        case Allocate(buffer=b) if b.scope == "local" or b.scope in HOLDERS:
            inside = registers | {b.name}
        case For(kind="serial" | "unrolled" | "vectorized" as kind):
            wanted = "unrolled" if _is_written_out(s, registers) else "serial"
            s = s if kind == wanted else replace(s, kind=wanted)
    return with_bodies(s, tuple(_body(b, inside) for b in bodies(s)))


def _is_written_out(s: For, registers: frozenset[str]) -> bool:
    if not isinstance(s.extent, Const):
        return False
    trips = int(s.extent.value)
    if s.kind != "serial":
        return trips <= max_steps(s) and trips * _acting(s.body) <= MAX_UNROLLED
    return indexes(s, registers) and trips * _written_out(s.body, registers) <= IN_REGISTERS


def _acting(body: Body) -> int:
    """How many statements that do something a body has."""
    return sum(_acts(s) if isinstance(s, Invoke) else _acts(s) + sum(map(_acting, bodies(s))) for s in body)


def _written_out(body: Body, registers: frozenset[str]) -> int:
    """How many statements a body is once its loops over registers are unrolled, too."""
    total = 0
    for s in body:
        inner = 1 if isinstance(s, Invoke) else sum(_written_out(b, registers) for b in bodies(s))
        if isinstance(s, For) and isinstance(s.extent, Const) and indexes(s, registers):
            inner *= int(s.extent.value)
        total += max(inner, _acts(s))
    return total


def _acts(s: Stmt) -> bool:
    return isinstance(s, Store | Invoke | Atomic)
