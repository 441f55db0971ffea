"""An evaluator of lowered modules for CPUs, statement by statement: what a module means after any pass.

A vector is a list of its lanes. All lanes of a vector are evaluated, whatever selects among them later: a load that a
mask does not guard is out of bounds, if it is. Integers and f32, f64 only; slow, for small programs.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mslang.ir import functions
from mslang.ir.arith.operations import DIVIDING, SCALAR
from mslang.ir.dtype import bits, is_float, is_unsigned
from mslang.ir.expr import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Select,
    Shuffle,
    Symbol,
    Unary,
    Var,
    dtype_of,
)
from mslang.kernel.nodes import (
    Allocate,
    Atomic,
    Body,
    Evaluate,
    For,
    If,
    Invoke,
    Let,
    Module,
    Prefetch,
    Stmt,
    Store,
    While,
    Within,
)
from mslang.lower.ranks import RANKS, UNRANKS

Array = np.ndarray[Any, Any]

NUMPY = {
    "bool": "bool",
    "f32": "float32",
    "f64": "float64",
    **{f"{s}{b}": f"{'u' if s == 'u' else ''}int{b}" for s in "iu" for b in (8, 16, 32, 64)},
}
"""The element types that can be evaluated."""


class OutOfBounds(AssertionError):
    """An access that no loop or mask keeps inside of its buffer."""


def run(module: Module, arrays: Mapping[str, Array], sizes: Mapping[str, int] | None = None) -> dict[str, Array]:
    """The parameters that the module writes."""
    memory: dict[str, Array] = {}
    machine = _Machine(memory, dict(sizes or {}))
    for p in module.params:
        given = None if p.direction == "out" else arrays[p.buffer.name]
        memory[p.buffer.name] = machine.empty(p.buffer.shape, p.buffer.dtype) if given is None else np.array(given)
    for f in module.functions:
        machine.body(f.body)
    return {p.buffer.name: memory[p.buffer.name] for p in module.params if p.direction != "in"}


def rounded(value: Any, dtype: str) -> Any:
    """A number as its type holds it."""
    if dtype == "bool":
        return bool(value)
    if is_float(dtype):
        with np.errstate(over="ignore"):
            return float(np.float32(value)) if dtype == "f32" else float(value)
    wrapped = int(value) % (1 << bits(dtype))
    return wrapped if is_unsigned(dtype) or wrapped < 1 << (bits(dtype) - 1) else wrapped - (1 << bits(dtype))


class _Machine:
    def __init__(self, memory: dict[str, Array], names: dict[str, Any]) -> None:
        self.memory, self.names = memory, names

    def empty(self, shape: Sequence[Expr], dtype: str) -> Array:
        made = np.empty([int(self.value(n)) for n in shape], NUMPY[dtype])
        made.fill(math.nan if is_float(dtype) else 77)
        return made

    # -------------------------------------------------------------- statements
    def body(self, body: Body) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        match s:
            case Store():
                self.store(s)
            case Let(name=n, value=v, body=body):
                self.names[n] = self.value(v)
                self.body(body)
            case If(condition=c, then=then, otherwise=otherwise):
                self.body(then if self.value(c) else otherwise)
            case For(var=v, start=start, extent=extent, body=body):
                first = self.value(start)
                for k in range(first, first + max(0, self.value(extent))):
                    self.names[v] = k
                    self.body(body)
            case Prefetch():
                pass
            case While(condition=c, body=body):
                while self.value(c):
                    self.body(body)
            case Allocate(buffer=b, body=body):
                self.memory[b.name] = self.empty(b.shape, b.dtype)
                self.body(body)
            case Within(body=body) | Invoke(meaning=body):
                self.body(body)
            case Evaluate(value=v):
                self.value(v)
            case Atomic():
                before = Load(s.buffer, s.indices, dtype_of(s.value))
                self.store(Store(s.buffer, s.indices, Binary(s.op, before, s.value)))
            case _:
                raise TypeError(f"not evaluated: {s!r}")

    def store(self, s: Store) -> None:
        value, indices = self.value(s.value), [self.value(x) for x in s.indices]
        mask = True if s.mask is None else self.value(s.mask)
        for k in range(_count(*indices)):
            if _lane(mask, k):
                self.memory[s.buffer][self.place(s.buffer, indices, k)] = _lane(value, k)

    # -------------------------------------------------------------- expressions
    def value(self, e: Expr) -> Any:
        match e:
            case Const(value=v, dtype=d):
                return rounded(v, d)
            case Var(name=n):
                return self.names[n]
            case Symbol():
                return self.names[e.text]
            case Ramp(base=x, stride=k, lanes=n):
                first = self.value(x)
                return [first + k * i for i in range(n)]
            case Broadcast(value=x, lanes=n):
                return [self.value(x)] * n
            case Shuffle(operands=xs, order=order):
                joined = [v for x in xs for v in self.value(x)]
                return joined[order[0]] if len(order) == 1 else [joined[k] for k in order]
            case Binary(op="and" | "or" as op, left=left, right=right):
                a = self.value(left)
                if not isinstance(a, list):
                    return self.value(right) if a == (op == "and") else a
                return _each(lambda x, y: x and y if op == "and" else x or y, a, self.value(right))
            case Binary(op=op, left=left, right=right):
                dtype = dtype_of(e)
                return _each(lambda x, y: _operation(op, x, y, dtype), self.value(left), self.value(right))
            case Unary(op="not", operand=x):
                return _each(lambda v: not v, self.value(x))
            case Unary(operand=x):
                return _each(lambda v: rounded(-v, dtype_of(e)), self.value(x))
            case Select(condition=c, then=t, otherwise=o):
                chosen = self.value(c)
                if not isinstance(chosen, list):
                    return self.value(t if chosen else o)
                return _each(lambda c, x, y: x if c else y, chosen, self.value(t), self.value(o))
            case Cast(dtype=d, operand=x):
                return _each(lambda v: rounded(v, d), self.value(x))
            case Call(name=n, args=(x,), dtype=d) if n in RANKS.values() or n in UNRANKS.values():
                return _each(lambda v: _converted(n, v, d), self.value(x))
            case Call(name=n, args=xs, dtype=d):
                return _each(lambda *v: rounded(functions.evaluated(n, v, d), d), *(self.value(x) for x in xs))
            case Load(buffer=b, indices=xs):
                return self.loaded(b, [self.value(x) for x in xs], True)
            case MaskedLoad(buffer=b, indices=xs, mask=m):
                return self.loaded(b, [self.value(x) for x in xs], self.value(m))
        raise TypeError(f"not evaluated: {e!r}")

    def loaded(self, buffer: str, indices: Sequence[Any], mask: Any) -> Any:
        array = self.memory[buffer]
        found = [
            array[self.place(buffer, indices, k)].item() if _lane(mask, k) else 0 for k in range(_count(*indices, mask))
        ]
        return found if isinstance(mask, list) or any(isinstance(x, list) for x in indices) else found[0]

    def place(self, buffer: str, indices: Sequence[Any], k: int) -> tuple[int, ...]:
        at, shape = tuple(int(_lane(x, k)) for x in indices), self.memory[buffer].shape
        if len(at) != len(shape) or any(not 0 <= i < n for i, n in zip(at, shape, strict=True)):
            raise OutOfBounds(f"{buffer}{list(at)} is outside of {list(shape)}")
        return at


def _operation(op: str, a: Any, b: Any, dtype: str) -> Any:
    if op in DIVIDING and b == 0 and not isinstance(b, float):
        return 0
    if op == "/":
        with np.errstate(all="ignore"):
            return rounded(np.float64(a) / np.float64(b), dtype)
    return rounded(SCALAR[op](a, b), dtype)


def _converted(name: str, v: Any, dtype: str) -> Any:
    """A number's rank or a rank's number: counted from the infinity of which NaN does not stand."""
    width = bits(dtype)
    code, word = ("<f", "<i") if width == 32 else ("<d", "<q")
    half = 2 ** (width - 1)
    op = "max" if name in (RANKS["max"], UNRANKS["max"]) else "min"
    (infinity,) = struct.unpack(word, struct.pack(code, math.inf))
    # The infinity that a running extreme starts with has the first rank of all, or the last.
    away = half - 1 - infinity if op == "min" else infinity + 1 - half
    if name in UNRANKS.values():
        place = _wrapped(v - away, width)
        (number,) = struct.unpack(code, struct.pack(word, place if place >= 0 else -half + (-1 - place)))
        return number
    (found,) = struct.unpack(word, struct.pack(code, v))
    return _wrapped((found if found >= 0 else -1 - (found + half)) + away, width)


def _wrapped(v: int, width: int) -> int:
    half = 2 ** (width - 1)
    return (v + half) % (2 * half) - half


def _lane(value: Any, k: int) -> Any:
    return value[k] if isinstance(value, list) else value


def _count(*values: Any) -> int:
    return max((len(v) for v in values if isinstance(v, list)), default=1)


def _each(f: Callable[..., Any], *values: Any) -> Any:
    if not any(isinstance(v, list) for v in values):
        return f(*values)
    return [f(*(_lane(v, k) for v in values)) for k in range(_count(*values))]
