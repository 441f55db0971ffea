"""`Schedule`: scheduling a program from Python, one method for each operation of the language."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from mslang.brevity import brief
from mslang.diagnostics import Diagnostic, MsError, ScheduleError, problem
from mslang.ir.expr import Symbol, Var
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.notebook import page
from mslang.ops.signature import Group
from mslang.schedule import methods, values
from mslang.schedule.arguments import bind
from mslang.schedule.decisions import Alternatives, Drawing
from mslang.schedule.handles import Handle, Site
from mslang.schedule.instruction import Value
from mslang.schedule.methods import Methods
from mslang.schedule.session import Session
from mslang.schedule.sketch import Sketch, instantiate, sketch_of
from mslang.schedule.trace import Trace
from mslang.schedule.values import Location, Size, SizeLike, Tile, loops_in, sized, unwrap, wrap
from mslang.suggestions import did_you_mean
from mslang.target.description import Target
from mslang.transform.registries import REGISTRY, Registry


class Schedule(Methods):
    """A program being scheduled. Primitives transform it, sampling draws decisions, and a trace records both.

    Args:
        program: what to schedule.
        target: the target or its name, which pinned schedules write after `on`.
        seed: each decision depends on it and on its address.
        pins: fixed decisions, by address.
        registry: the available primitives.
    """

    def __init__(
        self,
        program: Program,
        target: Target | str | None = None,
        seed: int = 0,
        pins: Mapping[str, Value] | None = None,
        registry: Registry = REGISTRY,
    ) -> None:
        if not isinstance(program, Program):
            help = "`ms.parse(text).program()` gives one; `space.sample(seed)` runs a schedule that is written"
            raise MsError(problem("MS706", f"`ms.Schedule` takes a program, not {brief(repr(program))}", help=help))
        self.target = target.name if isinstance(target, Target) else target
        self._drawing = Drawing(seed, pins=pins)
        self.session = Session(program, self._drawing, registry)
        self._prefix = ""

    @classmethod
    def running(cls, session: Session, target: Target, prefix: str) -> Schedule:
        """The schedule that a session runs, as a rule sees it: decisions have addresses that begin with `prefix`."""
        made = cls(session.origin, target, registry=session.registry)
        made.session = session
        made._prefix = prefix
        return made

    def __repr__(self) -> str:
        return f"<schedule of {self.session.origin.name}: {len(self.session.instructions)} instructions>"

    def _repr_html_(self) -> str:
        return page(
            f"schedule of {self.session.origin.name}", text=f"{self.trace.as_ms()}\n{print_program(self.program)}"
        )

    # ------------------------------------------------------------------ state
    @property
    def parametric(self) -> Program:
        """The program so far, with decisions as symbols."""
        return self.session.program

    @property
    def program(self) -> Program:
        """The program so far, with the drawn values."""
        return instantiate(self.session.program, self.session.draws.numbers)

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        return self.session.trace(target=self.target)

    @property
    def sketch(self) -> Sketch:
        """The sketch of the schedule so far."""
        return sketch_of(self.session, target=self.target)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings about repaired pins."""
        return tuple(self._drawing.warnings.values())

    def violation(self) -> str | None:
        """The reason of the first requirement that the drawn decisions violate; None if they satisfy all."""
        return self.sketch.violation(self.session.draws.numbers)

    # ------------------------------------------------------------------ access
    def get(self, name: str) -> Handle:
        """The block, buffer or bound result called `name`.

        Raises:
            ScheduleError: MS201, the name is unknown.
        """
        found = self.session.named(name) if isinstance(name, str) else None
        if isinstance(found, Handle):
            return found
        known = (*(b.name for b in blocks_of(self.program.body)), *all_buffers(self.program))
        listed = f"there are: {', '.join(known)}"
        help = did_you_mean(str(name), known)
        raise ScheduleError(problem("MS201", f"there is no block or buffer `{name}`", why=listed, help=help))

    def axis(self, block: Handle | str, axis: str) -> Handle:
        """The loop of a block's axis: `mm.i` is `axis("mm", "i")`."""
        return self.session.axis(self.get(block) if isinstance(block, str) else block, axis)

    def ask(self, getter: str, of: Handle) -> object:
        """The result of any getter of the language."""
        return wrap(self.session.call(getter, (of,), {}))

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
        """Draw `n` factors that multiply to a loop's extent, outermost first, the innermost at most `max_inner`.

        Args:
            loop: the loop to be tiled.
            n: the number of factors.
            max_inner: the maximum of the innermost (None: unbounded).
            name: the name of the result: the binder of a `let`.
            address: the decision's address (default: the name).
            decision: the value that it is pinned to (default: drawn from the seed).
        """
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
        """Draw `n` sizes that cover a loop's extent, divisors or not; the outermost is derived from the others.

        Args:
            loop: the loop to be tiled.
            n: the number of sizes.
            max_inner: the maximum of the innermost (None: unbounded).
            name: the name of the result: the binder of a `let`.
            address: the decision's address (default: the name).
            decision: the value that it is pinned to (default: drawn from the seed).
        """
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
        """Draw `n` factors of a loop's extent of which those from `at` on multiply to a multiple of `factor`.

        Args:
            loop: the loop to be tiled.
            n: the number of factors.
            at: the first of the inner factors, counted from 0.
            factor: a divisor of the product of the inner factors.
            name: the name of the result: the binder of a `let`.
            address: the decision's address (default: the name).
            decision: the value that it is pinned to (default: drawn from the seed).
        """
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
        """Draw one of some values: integers give a size, anything else is structure.

        Args:
            values: the values to draw from.
            weights: relative probabilities (default: uniform); what has 0 is never tried, but may be pinned.
            name: the name of the result: the binder of a `let`.
            address: the decision's address (default: the name).
            decision: the value that it is pinned to (default: drawn from the seed).
        """
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
        """Draw an integer, `lo <= value < hi`.

        Args:
            lo: the lower bound.
            hi: the exclusive upper bound.
            name: the name of the result: the binder of a `let`.
            address: the decision's address (default: the name).
            decision: the value that it is pinned to (default: drawn from the seed).
        """
        found = self.sample("uniform", lo, hi, name=name, address=address, decision=decision)
        assert isinstance(found, int | Size)
        return found

    def permute(
        self, values: Sequence[Handle], *, name: str, address: str | None = None, decision: Sequence[int] | None = None
    ) -> tuple[Handle, ...]:
        """Draw a permutation of some values; the order is structure.

        Args:
            values: the values to order: loops, for `reorder`.
            name: the name of the result: the binder of a `let`.
            address: the decision's address (default: the name).
            decision: the value that it is pinned to (default: drawn from the seed).
        """
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
        """Draw where a block is computed: `inline`, `root` or `at(loop)`, among the legal locations. It is structure.

        Args:
            block: the block; `compute_at` and `reverse_compute_at` take the drawn location.
            name: the name of the result: the binder of a `let`.
            address: the decision's address (default: the name).
            decision: the value that it is pinned to (default: drawn from the seed).
        """
        found = self.sample("compute_location", block, name=name, address=address, decision=decision)
        assert isinstance(found, Location)
        return found

    def sample(
        self, op: str, *args: object, name: str, address: str | None = None, decision: object = None, **kwargs: object
    ) -> object:
        """Draw from any distribution of the language; `name` is the binder and the default of the address."""
        name, address = _name(name), self._prefix + _name(address or name)
        bound = bind(
            self.session.registry.signature(op), [unwrap(a) for a in args], {k: unwrap(v) for k, v in kwargs.items()}
        )
        given = unwrap(decision)
        return wrap(self.session.sample(op, bound, address=address, name=name, given=given))  # type: ignore[arg-type]

    def _tile(self, op: str, args: tuple[object, ...], name: str, address: str | None, decision: object) -> Tile:
        found = self.sample(op, *args, name=name, address=address, decision=decision)
        assert isinstance(found, tuple)
        return found

    def fork(self, name: str, cases: Iterable[str], decision: str | None = None) -> str:
        """Draw one of several cases; the outcome is structure."""
        address = self._prefix + _name(name)
        self.session.draws.claim(address)
        found = self.session.draws.choose(address, Alternatives(tuple(cases)), decision)
        assert isinstance(found, str)
        return found

    def branch(self, condition: Size | bool) -> bool:
        """Whether a condition on decisions holds; the answer is part of the structure."""
        if isinstance(condition, Size) and loops_in(condition.expr):
            raise ScheduleError(problem("MS203", "`branch` takes a condition on decisions, not on loops"))
        return self.session.draws.branch(condition.expr) if isinstance(condition, Size) else condition

    def require(self, condition: Size | bool, why: str | None = None) -> None:
        """Reject draws that violate a condition."""
        self.session.require(unwrap(condition), why)

    def enter_postproc(self) -> None:
        """Mark in the trace where postprocessing begins."""
        self.session.enter_postproc()

    def size(self, name: str) -> Size:
        """The size `name` of the program, known only at the call.

        Raises:
            ScheduleError: MS201, the program has no size of that name.
        """
        found = next((x for x in self.session.origin.dynamic if isinstance(x, Symbol) and x.name == name), None)
        if found is None:
            raise ScheduleError(problem("MS201", f"the program has no size `{name}` that is known only at the call"))
        return Size(found)

    def minimum(self, a: SizeLike, b: SizeLike) -> SizeLike:
        """The smaller of two sizes."""
        return sized("min", a, b)

    def maximum(self, a: SizeLike, b: SizeLike) -> SizeLike:
        """The larger of two sizes."""
        return sized("max", a, b)

    def index_map(self, f: Callable[..., Sequence[SizeLike]]) -> IndexMap:
        """An index map from a Python function over sizes."""
        params = tuple(inspect.signature(f).parameters)
        return values.index_map(params, [unwrap(x) for x in f(*(Size(Var(p)) for p in params))])

    def tensorize_mapping(self, block: Handle, intrin: str | Intrin) -> Handle:
        """Split off the loops of a block that match an intrinsic's, and move them innermost; pad where needed.

        The trace holds the primitives applied.

        Args:
            block: the block.
            intrin: the intrinsic, its name in the library (`std.cpu.dot.u8s8_vnni`), or the text of its item.

        Returns:
            The outermost loop of the tile, to tensorize.

        Raises:
            ScheduleError: MS382, no loops of the block match.
        """
        from mslang.schedule.rules.mapping import map_loops

        return map_loops(self.session, block, intrin)

    # ------------------------------------------------------------------ primitives
    def apply(self, op: str, *args: object, names: Sequence[str | None] = (), **kwargs: object) -> tuple[Handle, ...]:
        """Apply any primitive of the language by name.

        Args:
            op: the primitive.
            args: its arguments in order: handles, sizes, words.
            names: names for the results.
            kwargs: its arguments by name.

        Raises:
            ScheduleError: the primitive refuses; the program is unchanged.
        """
        signature = self.session.registry.signature(op)
        if signature.group is not Group.PRIMITIVE:
            raise ScheduleError(problem("MS201", f"there is no primitive `{op}`"))
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise ScheduleError(problem("MS203", f"`names` is a list of names, not {names!r}"))
        names = [None if n is None else _name(n) for n in names]
        given = [unwrap(a) for a in args]
        bound = bind(signature, given, {k: unwrap(v) for k, v in kwargs.items()})
        return self.session.apply(op, bound, names=names, site=_site(op))


def _name(name: object) -> str:
    """A name that the text form of a trace can express, in backticks if needed."""
    if isinstance(name, str) and name and "`" not in name and name.isprintable():
        return name
    raise ScheduleError(problem("MS203", f"{name!r} is not a name", why="a name is one line without backquotes"))


_OWN = frozenset({__file__, methods.__file__})


def _site(op: str) -> Site:
    """The caller's statement, outside of this package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _OWN and frame.f_back is not None:
        frame = frame.f_back
    return Site(f"{op}(…)", frame.f_code.co_filename, line=frame.f_lineno)
