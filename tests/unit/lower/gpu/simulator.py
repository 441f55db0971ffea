"""A simulator of lowered modules for GPUs: each thread of a block is a Python generator that yields where it waits.

Blocks run one after another, in an order that a seed shuffles, as do the threads between two barriers. What threads do
to one element between two barriers, one of them writing, is reported, as are barriers that not all threads reach, reads
of what was never written, and accesses out of bounds. Slow, and for small programs only.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from mslang.ir import functions
from mslang.ir.expr import (
    LOGICAL,
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Shuffle,
    Symbol,
    Unary,
    Var,
)
from mslang.ir.functions import maximum, minimum
from mslang.ir.program import Buffer
from mslang.ir.visit import walk_expr
from mslang.kernel import (
    Allocate,
    Atomic,
    Barrier,
    Body,
    Evaluate,
    For,
    Function,
    If,
    Invoke,
    Let,
    Module,
    Stmt,
    Store,
    While,
    Within,
)

Array = np.ndarray[Any, Any]

SHUFFLES = ("shuffle_xor", "shuffle_down", "shuffle")
SHARED = ("shared", "shared.dyn")
LANES = 32


class Wrong(AssertionError):
    """The module does what no launch may."""


class Unwritten(Wrong):
    """It reads what was never written."""


class Wait(msgspec.Struct, frozen=True):
    """Where a thread waits: the statement, and for lanes what they exchange."""

    at: int
    kind: str
    value: Any = None
    lane: int = 0


def run(module: Module, arrays: Mapping[str, Array], seed: int = 0) -> dict[str, Array]:
    """The parameters that the module writes, after all of its launches."""
    memory: dict[str, Array] = {}
    for p in module.params:
        given = arrays.get(p.buffer.name)
        memory[p.buffer.name] = _empty(p.buffer) if p.direction == "out" or given is None else np.array(given)
    for b in module.workspaces:
        memory[b.name] = _empty(b)
    written = {n: np.ones(a.shape, bool) for n, a in memory.items()}
    for b in (*module.workspaces, *(p.buffer for p in module.params if p.direction == "out")):
        written[b.name] = np.zeros(memory[b.name].shape, bool)
    for f in module.functions:
        _Launch(f, memory, written, random.Random(seed)).run()
    return {p.buffer.name: memory[p.buffer.name] for p in module.params if p.direction != "in"}


def _empty(b: Buffer) -> Array:
    shape = tuple(_number(n) for n in b.shape)
    dtype = np.dtype(_DTYPES.get(b.dtype, b.dtype))
    return np.full(shape, np.nan if dtype.kind == "f" else 77 if dtype != np.bool_ else True, dtype)


def _number(e: Expr) -> int:
    assert isinstance(e, Const), e
    return int(e.value)


_DTYPES = {
    "f16": "float16",
    "bf16": "float32",
    "f32": "float32",
    "f64": "float64",
    "bool": "bool",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}


class _Launch:
    def __init__(self, f: Function, memory: dict[str, Array], written: dict[str, Array], order: random.Random) -> None:
        assert f.launch is not None, f"{f.name} is not launched"
        self.f, self.memory, self.written, self.order = f, memory, written, order
        self.grid = [_number(n) for n in f.launch.grid]
        self.block = [_number(n) for n in f.launch.block]
        self.params = {b.name for b in f.params}
        self.owner: dict[tuple[str, tuple[int, ...]], tuple[tuple[int, ...], bool]] = {}

    def run(self) -> None:
        blocks = list(itertools.product(*(range(n) for n in reversed(self.grid))))
        self.order.shuffle(blocks)
        for z, y, x in blocks:
            _Block(self, (x, y, z)).run()

    def between_blocks(self, block: tuple[int, ...], buffer: str, at: tuple[int, ...], write: bool) -> None:
        known = self.owner.get((buffer, at))
        if known is not None and known[0] != block and (write or known[1]):
            raise Wrong(f"{buffer}{list(at)} is accessed by blocks {known[0]} and {block}")
        self.owner[buffer, at] = (block, write or (known is not None and known[1]))


class _Block:
    def __init__(self, launch: _Launch, index: tuple[int, int, int]) -> None:
        self.launch, self.index = launch, index
        self.shared: dict[str, tuple[Array, Array]] = {}
        self.epoch: dict[tuple[str, tuple[int, ...]], list[tuple[int, bool, int]]] = {}
        """Accesses since the last barrier: the thread, whether it writes, how often its warp had waited."""
        self.waited: dict[int, int] = {}

    def run(self) -> None:
        x, y, z = self.launch.block
        places = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
        threads: dict[int, Iterator[Wait]] = {
            n: _Thread(self, n, p).body(self.launch.f.body, {}) for n, p in enumerate(places)
        }
        waiting: dict[int, Wait | None] = dict.fromkeys(threads)
        running = list(threads)
        while running:
            self.launch.order.shuffle(running)
            for n in running:
                waiting[n] = next(threads[n], None)
            running = self._released(threads, waiting)

    def _released(self, threads: dict[int, Iterator[Wait]], waiting: dict[int, Wait | None]) -> list[int]:
        """Threads that go on: warps whose lanes have exchanged, or all after a barrier."""
        ready: list[int] = []
        for first in range(0, len(threads), LANES):
            lanes = [n for n in threads if first <= n < first + LANES]
            at = {None if (w := waiting[n]) is None else (w.at, w.kind) for n in lanes}
            if len(at) == 1 and (only := next(iter(at))) is not None and only[1] == "warp":
                self.waited[first] = self.waited.get(first, 0) + 1
                ready += lanes
                continue
            found = [(n, w) for n in lanes if (w := waiting[n]) is not None and w.kind in SHUFFLES]
            if not found:
                continue
            if len(found) < len(lanes) or len({w.at for _, w in found}) > 1:
                raise Wrong("not all lanes of a warp exchange values")
            given = {n - first: w.value for n, w in found}
            for n, w in found:
                source = {"shuffle_xor": (n - first) ^ w.lane, "shuffle_down": n - first + w.lane}.get(w.kind, w.lane)
                w.value.result = given[source].value if source in given else w.value.value
                ready.append(n)
        if ready:
            return ready
        stopped = {None if w is None else (w.at, w.kind) for w in waiting.values()}
        if stopped == {None}:
            return []
        if len(stopped) > 1:
            raise Wrong(f"threads wait at different places: {stopped}")
        self.epoch.clear()
        return list(threads)

    def touch(self, thread: int, buffer: str, at: tuple[int, ...], write: bool, atomic: bool = False) -> None:
        """Note an access of memory that threads share, and report those that meet another thread's."""
        if buffer in self.launch.params and not atomic:
            self.launch.between_blocks(self.index, buffer, at, write)
        known = self.epoch.setdefault((buffer, at), [])
        warp = thread - thread % LANES
        now = self.waited.get(warp, 0)
        for other, wrote, then in known:
            apart = other != thread and (other - other % LANES != warp or then == now)
            if apart and (write or wrote) and not atomic:
                raise Wrong(f"{buffer}{list(at)} is accessed by threads {other} and {thread} between two barriers")
        if (thread, write, now) not in known:
            known.append((thread, write, now))


class _Exchanged:
    def __init__(self, value: Any) -> None:
        self.value, self.result = value, None


class _Thread:
    def __init__(self, block: _Block, number: int, place: tuple[int, int, int]) -> None:
        self.block, self.number = block, number
        self.own: dict[str, tuple[Array, Array]] = {}
        self.group: list[tuple[str, tuple[int, ...]]] = []
        self.groups: list[list[tuple[str, tuple[int, ...]]]] = []
        self.names: dict[str, Any] = {}
        for axis, values in (("blockIdx", block.index), ("threadIdx", place)):
            self.names |= {f"{axis}.{d}": v for d, v in zip("xyz", values, strict=True)}

    # ------------------------------------------------------------ memory
    def find(self, buffer: str) -> tuple[Array, Array, bool]:
        if buffer in self.own:
            return (*self.own[buffer], False)
        if buffer in self.block.shared:
            return (*self.block.shared[buffer], True)
        launch = self.block.launch
        if buffer not in launch.params:
            raise Wrong(f"{buffer} is not known here")
        return launch.memory[buffer], launch.written[buffer], True

    def load(self, buffer: str, at: tuple[int, ...]) -> Any:
        array, written, seen = self.find(buffer)
        self.check(buffer, array, at)
        if not written[at]:
            raise Unwritten(f"{buffer}{list(at)} is read before it is written")
        if seen:
            self.block.touch(self.number, buffer, at, False)
        return array[at]

    def store(self, buffer: str, at: tuple[int, ...], value: Any, atomic: bool = False) -> None:
        array, written, seen = self.find(buffer)
        self.check(buffer, array, at)
        if seen:
            self.block.touch(self.number, buffer, at, True, atomic)
        array[at] = value
        written[at] = True

    def check(self, buffer: str, array: Array, at: tuple[int, ...]) -> None:
        if len(at) != array.ndim or any(not 0 <= i < n for i, n in zip(at, array.shape, strict=True)):
            raise Wrong(f"{buffer}{list(at)} is out of bounds {array.shape}")

    # ------------------------------------------------------------ statements
    def body(self, body: Body, around: Mapping[str, Any]) -> Iterator[Wait]:
        for s in body:
            yield from self.statement(s)

    def statement(self, s: Stmt) -> Iterator[Wait]:
        match s:
            case Store(buffer=b, indices=xs, value=v, mask=None):
                value = yield from self.exchanged(s, v)
                for lane, at in self.lanes(xs, v):
                    self.store(b, at, self.lane(value, lane))
            case Let(name=n, value=v, body=body):
                self.names[n] = yield from self.exchanged(s, v)
                yield from self.body(body, {})
            case If(condition=c, then=then, otherwise=otherwise):
                yield from self.body(then if self.value(c) else otherwise, {})
            case For(var=v, start=start, extent=extent, body=body):
                first = int(self.value(start))
                for i in range(first, first + int(self.value(extent))):
                    self.names[v] = i
                    yield from self.body(body, {})
            case While(condition=c, body=body):
                while self.value(c):
                    yield from self.body(body, {})
            case Allocate(buffer=b, body=body):
                array = _empty(b)
                fresh = (array, np.zeros(array.shape, bool))
                if b.scope in SHARED:
                    self.block.shared.setdefault(b.name, fresh)
                else:
                    self.own[b.name] = fresh
                yield from self.body(body, {})
            case Within(body=body) | Invoke(meaning=body):
                yield from self.body(body, {})
            case Barrier(scope="block"):
                yield Wait(id(s), "barrier")
            case Barrier(scope="warp"):
                yield Wait(id(s), "warp")
            case Atomic(op=op, buffer=b, indices=xs, value=v):
                at = tuple(int(self.value(x)) for x in xs)
                old = self.find(b)[0][at]
                self.store(b, at, _BINARY[op](old, self.value(v)), atomic=True)
            case Evaluate(value=Call(name="cp_async", args=(Load() as to, Load() as source, Const(value=size)))):
                width = np.dtype(_DTYPES[to.dtype]).itemsize
                at, here = (tuple(int(self.value(x)) for x in e.indices) for e in (to, source))
                for k in range(int(size) // width):
                    moved = self.load(source.buffer, (*here[:-1], here[-1] + k))
                    place = (*at[:-1], at[-1] + k)
                    self.store(to.buffer, place, moved)
                    # until it is waited for, it is not there
                    self.find(to.buffer)[1][place] = False
                    self.group.append((to.buffer, place))
            case Evaluate(value=Call(name="cp_async_commit")):
                self.groups.append(self.group)
                self.group = []
            case Evaluate(value=Call(name="cp_async_wait", args=(Const(value=n),))):
                landed = self.groups[: len(self.groups) - int(n)]
                self.groups = self.groups[len(landed) :]
                for buffer, place in (x for g in landed for x in g):
                    self.find(buffer)[1][place] = True
                    self.block.touch(self.number, buffer, place, True)
            case _:
                raise TypeError(f"not simulated: {s!r}")

    def exchanged(self, s: Stmt, e: Expr) -> Any:
        """The value of an expression in which lanes may exchange values."""
        calls = [x for x in walk_expr(e) if isinstance(x, Call) and x.name in SHUFFLES]
        if not calls:
            return self.value(e)
        results: dict[Expr, Any] = {}
        for k, x in enumerate(reversed(calls)):
            given = _Exchanged(self.sent(x.args[0], results))
            yield Wait(id(s) + k, x.name, given, int(self.value(x.args[1])))
            results[x] = given.result
        return self.value(e, results)

    def sent(self, e: Expr, known: Mapping[Expr, Any]) -> Any:
        """What a lane sends: it may be a register that was never written, if no lane receives it."""
        try:
            return self.value(e, known)
        except Unwritten as error:
            return error

    # ------------------------------------------------------------ expressions
    def lanes(self, indices: Sequence[Expr], value: Expr) -> Iterator[tuple[int, tuple[int, ...]]]:
        found = [self.value(x) for x in indices]
        count = max((len(x) for x in found if isinstance(x, list)), default=1)
        for k in range(count):
            yield k, tuple(int(self.lane(x, k)) for x in found)

    @staticmethod
    def lane(value: Any, k: int) -> Any:
        return value[k] if isinstance(value, list) else value

    def value(self, e: Expr, known: Mapping[Expr, Any] | None = None) -> Any:
        if known and e in known:
            return known[e]
        match e:
            case Const(value=v, dtype=d):
                return int(v) if d == "i64" else np.dtype(_DTYPES[d]).type(v)
            case Var(name=n):
                if isinstance(self.names[n], Unwritten):
                    raise self.names[n]
                return self.names[n]
            case Symbol():
                return self.names[e.text]
            case Binary(op=op, left=a, right=b):
                x = self.value(a, known)
                if op in LOGICAL and not isinstance(x, list):
                    return (x and self.value(b, known)) if op == "and" else (x or self.value(b, known))
                return _each(_BINARY[op], x, self.value(b, known))
            case Unary(op="-", operand=x):
                return _each(lambda v: -v, self.value(x, known))
            case Unary(operand=x):
                return _each(lambda v: not v, self.value(x, known))
            case Select(condition=c, then=t, otherwise=o):
                return self.value(t if self.value(c, known) else o, known)
            case Cast(dtype=d, operand=x):
                return _each(lambda v: int(v) if d == "i64" else np.dtype(_DTYPES[d]).type(v), self.value(x, known))
            case Load(buffer=b, indices=xs):
                found = [self.value(x, known) for x in xs]
                count = max((len(x) for x in found if isinstance(x, list)), default=0)
                if not count:
                    return self.load(b, tuple(int(x) for x in found))
                return [self.load(b, tuple(int(self.lane(x, k)) for x in found)) for k in range(count)]
            case Ramp(base=x, stride=k, lanes=n):
                first = self.value(x, known)
                return [first + k * i for i in range(n)]
            case Broadcast(value=x, lanes=n):
                return [self.value(x, known)] * n
            case Shuffle(operands=xs, order=order):
                found = [self.value(x, known) for x in xs]
                joined = [y for x in found for y in (x if isinstance(x, list) else [x])]
                return joined[order[0]] if len(order) == 1 else [joined[k] for k in order]
            case Call(name=n, args=args, dtype=d):
                result = functions.evaluated(n, tuple(float(self.value(x, known)) for x in args), d)
                return np.dtype(_DTYPES[d]).type(result)
        raise TypeError(f"not simulated: {e!r}")


def _each(f: Callable[..., Any], *values: Any) -> Any:
    count = max((len(v) for v in values if isinstance(v, list)), default=0)
    if not count:
        return f(*values)
    return [f(*(v[k] if isinstance(v, list) else v for v in values)) for k in range(count)]


_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": minimum,
    "max": maximum,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}
