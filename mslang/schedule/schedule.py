"""`Schedule`: scheduling a program from Python, one method for each operation of the language."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from mslang.diagnostics import Diagnostic, ScheduleError, problem
from mslang.ir.expr import Expr, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Program
from mslang.ops.signature import Group
from mslang.schedule import values
from mslang.schedule.arguments import bind
from mslang.schedule.decisions import Alternatives, Drawing
from mslang.schedule.handles import Handle, Site
from mslang.schedule.session import Session
from mslang.schedule.sketch import Sketch, instantiate, sketch_of
from mslang.schedule.trace import Trace, Value
from mslang.schedule.values import HOLE, Location
from mslang.target.description import Target
from mslang.transform.registries import REGISTRY, Registry


class Size(msgspec.Struct, frozen=True):
    """A size, or a condition on sizes, that depends on decisions: arithmetic and comparisons give sizes again.

    `&`, `|` and `~` stand for the language's `and`, `or` and `not`.
    """

    expr: Expr

    def __add__(self, other: object) -> Size | int:
        return _combine("+", self, other)

    def __radd__(self, other: object) -> Size | int:
        return _combine("+", other, self)

    def __sub__(self, other: object) -> Size | int:
        return _combine("-", self, other)

    def __rsub__(self, other: object) -> Size | int:
        return _combine("-", other, self)

    def __mul__(self, other: object) -> Size | int:
        return _combine("*", self, other)

    def __rmul__(self, other: object) -> Size | int:
        return _combine("*", other, self)

    def __floordiv__(self, other: object) -> Size | int:
        return _combine("//", self, other)

    def __rfloordiv__(self, other: object) -> Size | int:
        return _combine("//", other, self)

    def __mod__(self, other: object) -> Size | int:
        return _combine("%", self, other)

    def __rmod__(self, other: object) -> Size | int:
        return _combine("%", other, self)

    def __le__(self, other: object) -> Size | bool:
        return _compare("<=", self, other)

    def __lt__(self, other: object) -> Size | bool:
        return _compare("<", self, other)

    def __ge__(self, other: object) -> Size | bool:
        return _compare(">=", self, other)

    def __gt__(self, other: object) -> Size | bool:
        return _compare(">", self, other)

    def __eq__(self, other: object) -> Size | bool:  # type: ignore[override]
        return _compare("==", self, other)

    def __ne__(self, other: object) -> Size | bool:  # type: ignore[override]
        return _compare("!=", self, other)

    def __and__(self, other: object) -> Size | bool:
        return _both("and", self, other)

    def __or__(self, other: object) -> Size | bool:
        return _both("or", self, other)

    def __invert__(self) -> Size | bool:
        return _condition(values.invert(self.expr))

    def __neg__(self) -> Size | int:
        return _combine("-", 0, self)

    def __hash__(self) -> int:
        return hash(self.expr)

    def __bool__(self) -> bool:
        raise ScheduleError(
            problem(
                "MS203",
                "this condition depends on decisions: it is neither true nor false yet",
                help="ask `schedule.branch(condition)`, which makes the answer part of the structure",
            )
        )


SizeLike = int | Size
Tile = tuple[Size | int | None, ...]


class Schedule:
    """A program being scheduled. Primitives change it; sampling draws decisions; all is recorded in a trace.

    Args:
        program: what to schedule.
        target: the target or its name, which pinned schedules write after `on`.
        seed: decisions are drawn from it and from their addresses.
        pins: decisions that are given, by address.
        registry: which primitives there are.
    """

    def __init__(
        self,
        program: Program,
        target: Target | str | None = None,
        seed: int = 0,
        pins: Mapping[str, Value] | None = None,
        registry: Registry = REGISTRY,
    ) -> None:
        self.target = target.name if isinstance(target, Target) else target
        self._drawing = Drawing(seed, pins=pins)
        self.session = Session(program, self._drawing, registry)

    # ------------------------------------------------------------------ state
    @property
    def parametric(self) -> Program:
        """The program so far, decisions as symbols."""
        return self.session.program

    @property
    def program(self) -> Program:
        """The program so far with the decisions drawn."""
        return instantiate(self.session.program, self.session.numbers)

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        return self.session.trace(target=self.target)

    @property
    def sketch(self) -> Sketch:
        """The sketch that the schedule so far stands for."""
        return sketch_of(self.session, target=self.target)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What was said about pins that had to be repaired."""
        return tuple(self._drawing.warnings.values())

    def violation(self) -> str | None:
        """The reason of the first requirement that the decisions drawn do not satisfy; None if they satisfy all."""
        return self.sketch.violation(self.session.numbers)

    # ------------------------------------------------------------------ access
    def get(self, name: str) -> Handle:
        """The block, buffer or bound result called `name`.

        Raises:
            ScheduleError: MS201, there is none.
        """
        found = self.session.named(name)
        if isinstance(found, Handle):
            return found
        raise ScheduleError(problem("MS201", f"there is no block or buffer `{name}`"))

    def axis(self, block: Handle | str, axis: str) -> Handle:
        """The one loop of a block's axis: `mm.i` is `axis("mm", "i")`."""
        return self.session.axis(self.get(block) if isinstance(block, str) else block, axis)

    def loops(self, block: Handle) -> tuple[Handle, ...]:
        """The loops around a block, outermost first."""
        return self._handles("loops", block)

    def children(self, of: Handle) -> tuple[Handle, ...]:
        """The blocks directly under a loop or in a block."""
        return self._handles("children", of)

    def producers(self, block: Handle) -> tuple[Handle, ...]:
        """The blocks whose results a block reads."""
        return self._handles("producers", block)

    def consumers(self, block: Handle) -> tuple[Handle, ...]:
        """The blocks that read a block's results."""
        return self._handles("consumers", block)

    def extent(self, loop: Handle) -> SizeLike:
        """The number of iterations of a loop."""
        found = _wrap(self.session.call("extent", (loop,), {}))
        assert isinstance(found, int | Size)
        return found

    def ask(self, getter: str, of: Handle) -> object:
        """The answer of any getter of the language."""
        return _wrap(self.session.call(getter, (of,), {}))

    def _handles(self, op: str, of: Handle) -> tuple[Handle, ...]:
        found = self.session.call(op, (of,), {})
        assert isinstance(found, tuple)
        return found

    # ------------------------------------------------------------------ sampling
    def perfect_tile(
        self,
        loop: Handle,
        n: int,
        max_inner: int | None = 64,
        *,
        name: str,
        address: str | None = None,
        decision: Sequence[int] | None = None,
    ) -> Tile:
        """Draw `n` factors of a loop's extent, the innermost at most `max_inner`."""
        return self._tile("perfect_tile", (loop, n, max_inner), name, address, decision)

    def tile(
        self,
        loop: Handle,
        n: int,
        max_inner: int | None = 64,
        *,
        name: str,
        address: str | None = None,
        decision: Sequence[int | None] | None = None,
    ) -> Tile:
        """Draw `n` sizes that cover a loop's extent, divisors or not."""
        return self._tile("tile", (loop, n, max_inner), name, address, decision)

    def partitioned_tile(
        self,
        loop: Handle,
        n: int,
        at: int,
        factor: int,
        *,
        name: str,
        address: str | None = None,
        decision: Sequence[int] | None = None,
    ) -> Tile:
        """Draw `n` factors of which those from `at` on multiply to a multiple of `factor`."""
        return self._tile("partitioned_tile", (loop, n, at, factor), name, address, decision)

    def choose(
        self,
        values: Sequence[object],
        weights: Sequence[float] | None = None,
        *,
        name: str,
        address: str | None = None,
        decision: Value | None = None,
    ) -> object:
        """Draw one of some values: an integer as a size, anything else as structure."""
        return self.sample("choose", values, weights, name=name, address=address, decision=decision)

    def uniform(
        self,
        lo: int,
        hi: int,
        *,
        name: str,
        address: str | None = None,
        decision: int | None = None,
    ) -> SizeLike:
        """Draw an integer, `lo <= value < hi`."""
        found = self.sample("uniform", lo, hi, name=name, address=address, decision=decision)
        assert isinstance(found, int | Size)
        return found

    def permute(
        self, values: Sequence[Handle], *, name: str, address: str | None = None, decision: Sequence[int] | None = None
    ) -> tuple[Handle, ...]:
        """Draw an order."""
        found = self.sample("permute", values, name=name, address=address, decision=decision)
        assert isinstance(found, tuple)
        return found

    def compute_location(
        self,
        block: Handle,
        *,
        name: str,
        address: str | None = None,
        decision: str | None = None,
    ) -> Location:
        """Draw where a block is computed: `inline`, `root` or `at(loop)`."""
        found = self.sample("compute_location", block, name=name, address=address, decision=decision)
        assert isinstance(found, Location)
        return found

    def sample(
        self, op: str, *args: object, name: str, address: str | None = None, decision: object = None, **kwargs: object
    ) -> object:
        """Draw by any distribution of the language; `name` is the binder, its address unless one is given."""
        bound = bind(
            self.session.registry.signature(op), [_unwrap(a) for a in args], {k: _unwrap(v) for k, v in kwargs.items()}
        )
        given = _unwrap(decision)
        return _wrap(self.session.sample(op, bound, address=address or name, name=name, given=given))  # type: ignore[arg-type]

    def _tile(self, op: str, args: tuple[object, ...], name: str, address: str | None, decision: object) -> Tile:
        found = self.sample(op, *args, name=name, address=address, decision=decision)
        assert isinstance(found, tuple)
        return found

    def fork(self, name: str, cases: Iterable[str], decision: str | None = None) -> str:
        """Draw which of some structures to build."""
        self.session.claim(name)
        found = self.session.choose(name, Alternatives(tuple(cases)), decision)
        assert isinstance(found, str)
        return found

    def branch(self, condition: Size | bool) -> bool:
        """Whether a condition on decisions holds; the answer is part of the structure."""
        return self.session.branch(condition.expr) if isinstance(condition, Size) else condition

    def require(self, condition: Size | bool, why: str | None = None) -> None:
        """Reject draws for which a condition does not hold."""
        self.session.require(_unwrap(condition), why)

    def enter_postproc(self) -> None:
        """Mark in the trace where postprocessing begins."""
        self.session.enter_postproc()

    def minimum(self, a: SizeLike, b: SizeLike) -> SizeLike:
        """The smaller of two sizes."""
        return _combine("min", a, b)

    def maximum(self, a: SizeLike, b: SizeLike) -> SizeLike:
        """The larger of two sizes."""
        return _combine("max", a, b)

    def index_map(self, f: Callable[..., Sequence[SizeLike]]) -> IndexMap:
        """An index map from a Python function over sizes."""
        params = tuple(inspect.signature(f).parameters)
        return values.index_map(params, [_unwrap(x) for x in f(*(Size(Var(p)) for p in params))])

    # ------------------------------------------------------------------ primitives
    def apply(self, op: str, *args: object, names: Sequence[str | None] = (), **kwargs: object) -> tuple[Handle, ...]:
        """Apply any primitive of the language by name.

        Args:
            op: the primitive.
            args: its arguments in order: handles, sizes, words.
            names: what to call the results.
            kwargs: its arguments by name.

        Raises:
            ScheduleError: the primitive refuses; the program is as it was.
        """
        signature = self.session.registry.signature(op)
        if signature.group is not Group.PRIMITIVE:
            raise ScheduleError(problem("MS201", f"there is no primitive `{op}`"))
        given = [_unwrap(a) for a in args]
        bound = bind(signature, given, {k: _unwrap(v) for k, v in kwargs.items()})
        return self.session.apply(op, bound, names=names, site=Site(f"{op}(…)"))

    def split(
        self, loop: Handle, factors: Sequence[SizeLike | None], *, tail: str = "guard", names: Sequence[str | None] = ()
    ) -> tuple[Handle, ...]:
        """Split a loop by factors, of which one may be None to be inferred."""
        return self.apply("split", loop, [HOLE if f is None else f for f in factors], tail=tail, names=names)

    def fuse(self, *loops: Handle, names: Sequence[str | None] = ()) -> tuple[Handle, ...]:
        """Fuse nested loops into one."""
        return self.apply("fuse", *loops, names=names)

    def reorder(self, *loops: Handle) -> None:
        """Put loops of one nest in this order."""
        self.apply("reorder", *loops)

    def add_unit_loop(self, target: Handle, *, names: Sequence[str | None] = ()) -> tuple[Handle, ...]:
        """Put a loop of one iteration around a loop or block."""
        return self.apply("add_unit_loop", target, names=names)

    def parallel(self, loop: Handle) -> None:
        """Run a loop's iterations in parallel."""
        self.apply("parallel", loop)

    def vectorize(self, loop: Handle) -> None:
        """Run a loop as vector instructions."""
        self.apply("vectorize", loop)

    def unroll(self, loop: Handle, *, max_steps: SizeLike | None = None) -> None:
        """Unroll a loop, of at most `max_steps` iterations."""
        self.apply("unroll", loop, max_steps=max_steps)

    def bind(self, loop: Handle, axis: str) -> None:
        """Run a loop's iterations as the blocks or threads of a GPU's thread axis."""
        self.apply("bind", loop, axis)

    def annotate(self, target: Handle, key: str, value: object = True) -> None:
        """Annotate a loop or block."""
        self.apply("annotate", target, key, value)

    def unannotate(self, target: Handle, key: str) -> None:
        """Take an annotation away."""
        self.apply("unannotate", target, key)

    def cache_read(
        self,
        block: Handle,
        buffer: Handle,
        scope: str = "global",
        *,
        consumers: Sequence[Handle] | None = None,
        names: Sequence[str | None] = (),
    ) -> tuple[Handle, ...]:
        """Read a buffer through a copy."""
        return self.apply("cache_read", block, buffer, scope, consumers=consumers, names=names)

    def cache_write(
        self,
        block: Handle,
        buffer: Handle,
        scope: str = "global",
        *,
        consumers: Sequence[Handle] | None = None,
        names: Sequence[str | None] = (),
    ) -> tuple[Handle, ...]:
        """Write a buffer through a copy."""
        return self.apply("cache_write", block, buffer, scope, consumers=consumers, names=names)

    def compute_at(self, block: Handle, loop: Handle | Location, *, index: int = -1) -> None:
        """Compute a block inside a loop of its consumers."""
        self.apply("compute_at", block, loop, index=index)

    def reverse_compute_at(self, block: Handle, loop: Handle | Location, *, index: int = -1) -> None:
        """Compute a block inside a loop of its producers."""
        self.apply("reverse_compute_at", block, loop, index=index)

    def compute_inline(self, block: Handle) -> None:
        """Compute a block's value where it is read."""
        self.apply("compute_inline", block)

    def reverse_compute_inline(self, block: Handle) -> None:
        """Compute a block where the value it reads is produced."""
        self.apply("reverse_compute_inline", block)

    def decompose_reduction(
        self,
        block: Handle,
        loop: Handle,
        *,
        names: Sequence[str | None] = (),
    ) -> tuple[Handle, ...]:
        """Split the initialisation of a reduction from its updates, before a loop."""
        return self.apply("decompose_reduction", block, loop, names=names)

    def set_scope(self, block: Handle, buffer: Handle, scope: str) -> None:
        """Move a buffer to another memory scope."""
        self.apply("set_scope", block, buffer, scope)


def _wrap(value: object) -> object:
    match value:
        case Expr():
            return Size(value)
        case tuple():
            return tuple(_wrap(x) for x in value)
    return value


def _unwrap(value: object) -> object:
    match value:
        case Size(expr=e):
            return e
        case IndexMap(params=params, results=results):
            return values.index_map(params, results)
        case tuple() | list():
            return tuple(_unwrap(x) for x in value)
    return value


def _combine(op: str, a: object, b: object) -> Size | int:
    found = _wrap(values.combine(op, _unwrap(a), _unwrap(b)))
    assert isinstance(found, Size | int)
    return found


def _compare(op: str, a: object, b: object) -> Size | bool:
    return _condition(values.combine(op, _unwrap(a), _unwrap(b)))


def _both(op: str, a: object, b: object) -> Size | bool:
    return _condition(values.both(op, _unwrap(a), _unwrap(b)))


def _condition(value: object) -> Size | bool:
    found = _wrap(value)
    assert isinstance(found, Size | bool)
    return found
