"""Reductions that threads share out: each thread combines its part, then the threads combine what they have.

A block whose reduction axis runs over a loop of threads is taken apart, as by `rfactor`: partial results, one for each
thread, in memory of its own; then the threads exchange them, by shuffles among the lanes of a warp and through shared
memory beyond; then the result is written, once if threads share the memory, by each thread if each has its own.

    for t @ threadIdx.x, k { block s[i | r = k * 32 + t] { B[i] += A[i, r] } }

becomes, with `P` of scope local,

    for t @ threadIdx.x { P[t] = 0 }
    for t @ threadIdx.x, k { P[t] += A[i, k * 32 + t] }
    for t @ threadIdx.x { let o = shuffle_xor(P[t], 16)  P[t] = P[t] + o … }
    if threadIdx.x == 0 { B[i] = P[0] }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir import arith
from mslang.ir.annotations import ATOMIC
from mslang.ir.arith.linear import condition
from mslang.ir.atomics import is_atomic
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Call, Const, Expr, Load, Var, dtype_of
from mslang.ir.find import all_buffers, loops_of, path_to_block, used_names
from mslang.ir.intrin import intrin_of
from mslang.ir.program import Axis, Block, Buffer, For, If, Let, Program, Stmt, Store
from mslang.ir.reducers import Extreme, Match, Reducer, at_once, combined, identity_of, match_reducer
from mslang.ir.region import infer_regions
from mslang.ir.visit import (
    Path,
    conjunction,
    conjuncts,
    free_vars,
    fresh,
    replace_at,
    substitute,
    walk_paths,
)
from mslang.lower.gpu.axes import BLOCK_SHARED, THREAD_AXES, WARP
from mslang.lower.gpu.cross_thread import by_one_warp, by_warps, cross_thread, cross_thread_at
from mslang.transform.analysis.carried_dependence import reaches
from mslang.transform.analysis.rfactor_legality import rises


def joined(program: Program) -> Program:
    """The program with the reductions that threads share out written with partial results and exchanges.

    Raises:
        TargetError: MS435, the threads cannot combine what they have.
    """
    for r in cross_thread(program):
        path = path_to_block(program, r.block.name)
        if path is None or not all(isinstance(n, Const) for n in r.launch.values()):
            continue  # `launches` refuses threads that are not a number
        try:
            program = _Reduction(program, path).taken_apart()
        except TargetError:
            if not is_atomic(r.block):  # where updates are atomic, each thread may do its own
                raise
    return program


class _Loop(msgspec.Struct, frozen=True):
    """A loop that the partial results are kept for: its new variable, its axis in the blocks, its extent."""

    old: For
    var: str
    axis: str
    extent: Expr

    @property
    def kind(self) -> str:
        """Lanes of vectors do not exchange values."""
        return "serial" if self.old.kind == "vectorized" else self.old.kind


class _Reduction:
    """One block that reduces over threads."""

    def __init__(self, program: Program, path: Path) -> None:
        self.program, self.path = program, path
        self.parts = parts = cross_thread_at(path)
        self.block, self.reduced, self.launch = parts.block, parts.reduced, parts.launch
        self.taken = set(used_names(program))
        self._require_form(loops_of(path), parts.threads)
        self.outside, self.outermost = path[: parts.first], path[: parts.first + 1]
        self.match = self._matched()
        self.threads = [self._loop(s) for s in parts.threads]
        self.kept = [self._loop(s) for s in parts.kept]
        self._require_whole_warps()
        self.buffers = self._partial()
        self.shared_buffers: list[Buffer] = []

    # -------------------------------------------------------------- what is supported
    def _axes(self, kind: str) -> list[Axis]:
        return [a for a in self.block.axes if a.kind == kind]

    def _require_form(self, loops: Sequence[For], threads: Sequence[For]) -> None:
        spatial = frozenset[str]().union(*(free_vars(a.binding) for a in self._axes("spatial")))
        outside = [
            s
            for s in self.path
            if isinstance(s, For)
            and s.kind in THREAD_AXES
            and not any(s is x for x in loops)
            and any(reaches(s.var, a.binding, self.path) for a in self._axes("reduce"))
        ]
        if outside:
            raise self._refused(f"loop `{outside[0].var}` is outside of the block around it")
        for s in self.reduced:
            if s.var in spatial:
                raise self._refused(f"loop `{s.var}` counts elements of the result, too", "`split` the loop by them")
            if free_vars(s.extent) | free_vars(s.start):
                raise self._refused(f"the bounds of loop `{s.var}` depend on another loop")
        if len({s.kind for s in threads}) < len(threads):
            raise self._refused("two of its loops are of one axis")
        if self.block.views or self.block.allocs or intrin_of(self.block) is not None:
            raise self._refused("its body is an instruction, or works on views")
        stray = next((s for s in self.path[:-1] if isinstance(s, If | Let) and self._inside(s)), None)
        if stray is not None:
            raise self._refused("a condition stands between it and its loops")

    def _inside(self, s: Stmt) -> bool:
        """Is a statement of the path inside of the outermost loop of the reduction?"""
        order = [id(x) for x in self.path]
        return order.index(id(s)) > order.index(id(self.reduced[0]))

    def _matched(self) -> Match:
        stores = at_once(self.block.body)
        found = match_reducer(stores)
        if found is None or (self.block.init is None and not is_atomic(self.block)):
            raise self._refused("how it combines values is not known", "`sum`, `min`, `max` and the like are")
        terms = {a.name for a in self._axes("reduce")}
        spread = next(
            (s.buffer for s in stores if not terms.isdisjoint(frozenset().union(*map(free_vars, s.indices)))), None
        )
        if spread is not None:
            raise self._refused(f"which element of `{spread}` a term is combined with depends on the term")
        reducer = found.reducer
        if reducer.ordered:
            reducing = frozenset(s.var for s in self.reduced)
            if not reducer.rising or not rises(self.path, found.values[0], reducing):
                raise self._refused(
                    f"its reducer ({reducer.name}) keeps the order of what it combines, and the positions "
                    "do not provably rise from 0 or above in the order of its loops",
                    "let the positions of equal values decide, as in `x > y or x == y and i < j`",
                )
            found = Match(replace(reducer, combine=reducer.rising, ordered=False), found.values)
        elif any(isinstance(x, Extreme) for x in reducer.identity[1:]):
            self._require_no_position(stores[0])
        self.stores, self.in_order = stores, reducer
        return found

    def _require_no_position(self, position: Store) -> None:
        """Of equal elements the index decides: against the -1 that every thread starts from no other start would."""
        starts = {s.buffer: s.value for s in at_once(self.block.init or ())}
        if starts.get(position.buffer) != Const(-1, dtype_of(position.value)):
            raise self._refused(
                f"`{position.buffer}` does not start from -1, the index of none",
                f"let its init store -1 to `{position.buffer}`",
            )

    def _require_whole_warps(self) -> None:
        if self._lanes() % WARP == 0:
            return
        for s in self.outside:
            if isinstance(s, For) and s.kind in THREAD_AXES and s.extent != self.launch[s.kind]:
                raise self._refused(
                    f"loop `{s.var}` has fewer threads than the launch, and lanes of one warp would be left out",
                    f"give {s.kind} one extent in this kernel",
                )

    def _refused(self, why: str, help: str | None = None) -> TargetError:
        return TargetError(
            problem(
                "MS435",
                f"the threads that share out the reduction of block `{self.block.name}` cannot combine its parts",
                why=why,
                help=help or "`rfactor` the reduction by hand, and combine the parts in a block of its own",
            )
        )

    # -------------------------------------------------------------- names
    def _name(self, wanted: str) -> str:
        name = fresh(wanted, self.taken)
        self.taken.add(name)
        return name

    def _loop(self, s: For) -> _Loop:
        extent = self.launch[s.kind] if s.kind in THREAD_AXES else s.extent
        return _Loop(s, self._name(s.var), self._name(f"{s.var}_at"), extent)

    def _lanes(self) -> int:
        lanes = self.launch.get("threadIdx.x", ONE)
        assert isinstance(lanes, Const)
        return int(lanes.value)

    def _partial(self) -> list[Buffer]:
        shape = tuple(x.extent for x in (*self.threads, *self.kept))
        return [Buffer(self._name(f"{s.buffer}_partial"), dtype_of(s.value), shape, "local") for s in self.stores]

    # -------------------------------------------------------------- the parts
    def taken_apart(self) -> Program:
        """The program with the block taken apart."""
        block = self._accumulating()
        body = replace_at(self.program.body, self.path, (block,))
        outermost = _found(body, self.outermost)
        statements = (self._started(), outermost[-1], *self._exchanged(), self._written())
        extra = tuple(self.buffers) + tuple(self.shared_buffers)
        return replace(
            self.program, body=replace_at(body, outermost, statements), allocs=(*self.program.allocs, *extra)
        )

    def _block(self, name: str, axes: Iterable[Axis], body: tuple[Stmt, ...], predicate: Expr = TRUE) -> Block:
        block = Block(self._name(name), tuple(axes), (), (), body, None, predicate)
        buffers = {**all_buffers(self.program), **{b.name: b for b in self.buffers}}
        buffers |= {b.name: b for b in self.shared_buffers}
        reads, writes = infer_regions(block, buffers)
        return replace(block, reads=reads, writes=writes)

    def _place(self) -> tuple[Expr, ...]:
        """Where the partial result of a thread lies, by the axes of the blocks."""
        return tuple(Var(x.axis) for x in (*self.threads, *self.kept))

    def _loads(self) -> tuple[Expr, ...]:
        return tuple(Load(b.name, self._place(), b.dtype) for b in self.buffers)

    def _over(
        self, loops: Sequence[_Loop], name: str, body: Callable[[], tuple[Stmt, ...]], predicate: Expr = TRUE
    ) -> Stmt:
        """A block with an axis for each loop, in these loops."""
        names = [self._name(x.old.var) for x in loops]
        axes = [Axis(x.axis, x.extent, "spatial", Var(n)) for x, n in zip(loops, names, strict=True)]
        made: tuple[Stmt, ...] = (self._block(name, axes, body(), predicate),)
        for x, n in zip(reversed(loops), reversed(names), strict=True):
            made = (For(n, x.extent, made, x.kind),)
        return made[0]

    def _started(self) -> Stmt:
        values = [identity_of(self.match.reducer, k, b.dtype) for k, b in enumerate(self.buffers)]

        def body() -> tuple[Stmt, ...]:
            return tuple(Store(b.name, self._place(), v) for b, v in zip(self.buffers, values, strict=True))

        return self._over((*self.threads, *self.kept), f"{self.block.name}_start", body)

    def _accumulating(self) -> Block:
        """The block with its updates made to the partial results."""
        more = [
            Axis(
                x.axis,
                x.extent,
                "spatial",
                Binary("-", Var(x.old.var), x.old.start) if x.old.start != ZERO else Var(x.old.var),
            )
            for x in (*self.threads, *self.kept)
        ]
        body = self._combining(self.match.values)
        notes = tuple(n for n in self.block.annotations if n[0] != ATOMIC)
        block = replace(self.block, axes=(*self.block.axes, *more), body=body, init=None, annotations=notes)
        buffers = {**all_buffers(self.program), **{b.name: b for b in self.buffers}}
        reads, writes = infer_regions(block, buffers)
        return replace(block, reads=reads, writes=writes)

    def _combining(self, values: Sequence[Expr]) -> tuple[Stmt, ...]:
        """Partial results with values combined in, all at once."""
        made = combined(self.match.reducer, self._loads(), values)
        if len(made) == 1:
            return (Store(self.buffers[0].name, self._place(), made[0]),)
        names = [self._name(b.name) for b in self.buffers]
        body: tuple[Stmt, ...] = tuple(
            Store(b.name, self._place(), Var(n, b.dtype)) for b, n in zip(self.buffers, names, strict=True)
        )
        for n, value in zip(reversed(names), reversed(made), strict=True):
            body = (Let(n, value, body),)
        return body

    # -------------------------------------------------------------- exchanging
    def _exchanged(self) -> list[Stmt]:
        """The statements after which every thread has the result in its partial one."""
        if by_one_warp(self.parts, all_buffers(self.program)) == TRUE:
            return [self._shuffled(self._lanes())]
        if by_warps(self.parts) == TRUE:
            return self._across_warps(self._lanes() // WARP)
        return self._through_shared_memory()

    def _shuffled(self, lanes: int) -> Stmt:
        """Shuffles in a butterfly: after each of the steps, twice as many lanes have combined what they have."""
        return self._over((*self.threads, *self.kept), f"{self.block.name}_warp", lambda: tuple(self._steps(lanes)))

    def _steps(self, lanes: int) -> list[Stmt]:
        steps: list[Stmt] = []
        while lanes > 1:
            lanes //= 2
            names = [self._name("other") for _ in self.buffers]
            others = [Var(n, b.dtype) for n, b in zip(names, self.buffers, strict=True)]
            body = self._combining(others)
            for n, load, b in zip(reversed(names), reversed(self._loads()), reversed(self.buffers), strict=True):
                body = (Let(n, Call("shuffle_xor", (load, Const(lanes)), b.dtype), body),)
            steps.extend(body)
        return steps

    def _across_warps(self, warps: int) -> list[Stmt]:
        """Shuffles in each warp; its first lane stores what it has; all warps combine what all have stored."""
        rest = [a for a in self.parts.around if a != "threadIdx.x"]
        own_loops = self._serial()
        shape = tuple(x.extent for x in own_loops) + tuple(self.launch[a] for a in rest) + (Const(warps),)
        self.shared_buffers = [Buffer(self._name(f"{b.name}_shared"), b.dtype, shape, "shared") for b in self.buffers]
        thread = Var(self.threads[0].axis)
        own = tuple(Var(x.axis) for x in own_loops) + tuple(Var(a) for a in rest)
        warp, lane = Binary("//", thread, Const(WARP)), Binary("%", thread, Const(WARP))
        loops = (*self.threads, *self.kept)

        def stored() -> tuple[Stmt, ...]:
            pairs = zip(self.shared_buffers, self._loads(), strict=True)
            return (If(Binary("==", lane, ZERO), tuple(Store(b.name, (*own, warp), v) for b, v in pairs)),)

        width = 1 << (warps - 1).bit_length()

        def read() -> tuple[Stmt, ...]:
            at = Binary("%", lane, Const(width)) if width < WARP else lane
            made: list[Stmt] = []
            for k, (b, s) in enumerate(zip(self.buffers, self.shared_buffers, strict=True)):
                load = Load(s.name, (*own, at), s.dtype)
                if width == warps:
                    made.append(Store(b.name, self._place(), load))
                    continue
                none = identity_of(self.match.reducer, k, b.dtype)
                made.append(Store(b.name, self._place(), none))
                made.append(If(Binary("<", at, Const(warps)), (Store(b.name, self._place(), load),)))
            return (*made, *self._steps(width))

        return [
            self._shuffled(WARP),
            self._over(loops, f"{self.block.name}_store", stored),
            self._over(loops, f"{self.block.name}_combine", read),
        ]

    def _through_shared_memory(self) -> list[Stmt]:
        """Every thread stores what it has, and combines what all of its group have stored."""
        axes = self.parts.around
        shape = tuple(x.extent for x in self._serial()) + tuple(self.launch[a] for a in axes)
        self.shared_buffers = [Buffer(self._name(f"{b.name}_shared"), b.dtype, shape, "shared") for b in self.buffers]
        ours = {x.old.kind: x for x in self.threads}
        spatial = {x.old.kind: x for x in self.kept}
        front = tuple(Var(x.axis) for x in self._serial())

        def index(replaced: Mapping[str, Expr]) -> tuple[Expr, ...]:
            return front + tuple(
                replaced.get(a) or Var(ours[a].axis if a in ours else spatial[a].axis if a in spatial else a)
                for a in axes
            )

        def stored() -> tuple[Stmt, ...]:
            pairs = zip(self.shared_buffers, self._loads(), strict=True)
            return tuple(Store(b.name, index({}), v) for b, v in pairs)

        def read() -> tuple[Stmt, ...]:
            names = {kind: self._name("from") for kind in ours}
            at = index({kind: Var(n) for kind, n in names.items()})
            body = self._combining([Load(b.name, at, b.dtype) for b in self.shared_buffers])
            for kind, n in reversed(names.items()):
                body = (For(n, self.launch[kind], body),)
            values = [identity_of(self.match.reducer, k, b.dtype) for k, b in enumerate(self.buffers)]
            started = tuple(Store(b.name, self._place(), v) for b, v in zip(self.buffers, values, strict=True))
            return (*started, *body)

        loops = (*self.threads, *self.kept)
        return [
            self._over(loops, f"{self.block.name}_store", stored),
            self._over(loops, f"{self.block.name}_combine", read),
        ]

    def _serial(self) -> list[_Loop]:
        """The loops that each thread runs itself, for several elements of the result."""
        return [x for x in self.kept if x.old.kind not in THREAD_AXES]

    # -------------------------------------------------------------- the result
    def _written(self) -> Stmt:
        """The result into the buffers of the block: by the threads of index 0, or by all to memory of their own."""
        names = {x.old.var: self._name(x.old.var) for x in self.kept}
        renamed: dict[str, Expr] = {
            x.old.var: Var(names[x.old.var]) if x.old.start == ZERO else Binary("+", Var(names[x.old.var]), x.old.start)
            for x in self.kept
        }
        own = [Axis(x.axis, x.extent, "spatial", Var(names[x.old.var])) for x in self.kept]
        axes = [replace(a, binding=substitute(a.binding, renamed)) for a in self._axes("spatial")]
        place = (*(Var(x.old.kind) for x in self.threads), *(Var(x.axis) for x in self.kept))
        loads = tuple(Load(b.name, place, b.dtype) for b in self.buffers)
        body = self._result(loads)
        predicate = substitute(self._spatial_predicate(), renamed)
        inside = [Binary("<", Var(names[x.old.var]), x.old.extent) for x in self.kept if x.extent != x.old.extent]
        first = tuple(Binary("==", Var(x.old.kind), ZERO) for x in self.threads)
        if is_atomic(self.block):
            inside += first
        else:
            body = self._by_those_who_share(body, conjunction(first))
        block = self._block(
            f"{self.block.name}_write", (*axes, *own), body, conjunction((*conjuncts(predicate), *inside))
        )
        if is_atomic(self.block):
            block = replace(block, annotations=((ATOMIC, True),))
        made: tuple[Stmt, ...] = (block,)
        for x in reversed(self.kept):
            made = (For(names[x.old.var], x.extent, made, x.kind),)
        return made[0]

    def _by_those_who_share(self, body: tuple[Stmt, ...], first: Expr) -> tuple[Stmt, ...]:
        """What stores the result, where `first` holds to memory that threads share."""
        buffers = all_buffers(self.program)
        shared = {s.buffer for s in self.stores if buffers[s.buffer].scope in BLOCK_SHARED}
        if not shared:
            return body
        if len(shared) == len(self.stores):
            return (If(first, body),)
        if not all(isinstance(s, Store) for s in body):
            own = next(s.buffer for s in self.stores if s.buffer not in shared)
            raise self._refused(
                f"each thread has a `{own}` of its own, they share `{min(shared)}`, and both are combined with what "
                "the init stores",
                f"set the scope of `{own}` to that of `{min(shared)}`",
            )
        return tuple(If(first, (s,)) if isinstance(s, Store) and s.buffer in shared else s for s in body)

    def _result(self, loads: tuple[Expr, ...]) -> tuple[Stmt, ...]:
        init = at_once(self.block.init or ())
        reducer: Reducer = self.in_order  # what the block starts from comes before all parts
        known = {(s.buffer, s.indices): s.value for s in init}
        stored = all(isinstance(s, Store | Let) for s in self.block.init or ())  # an `if` may store something else
        plain = stored and all(
            known.get((s.buffer, s.indices)) == identity_of(reducer, k, dtype_of(s.value))
            for k, s in enumerate(self.stores)
        )
        if plain:
            return tuple(Store(s.buffer, s.indices, v) for s, v in zip(self.stores, loads, strict=True))
        before = tuple(Load(s.buffer, s.indices, dtype_of(s.value)) for s in self.stores)
        made = combined(reducer, before, loads)
        names = [self._name("result") for _ in made]
        body: tuple[Stmt, ...] = tuple(
            Store(s.buffer, s.indices, Var(n, dtype_of(s.value))) for s, n in zip(self.stores, names, strict=True)
        )
        for n, value in zip(reversed(names), reversed(made), strict=True):
            body = (Let(n, value, body),)
        return (*(self.block.init or ()), *body)

    def _spatial_predicate(self) -> Expr:
        """Which elements are computed: the part of the predicate that decides it, and that there is any term.

        What is said of the terms holds for an element if it does for any of them: for the one at a corner of the loops,
        as all such conditions must have the same.
        """
        bindings = {a.name: a.binding for a in self.block.axes}
        reduced = {s.var for s in self.reduced} | {a.name for a in self._axes("reduce")}
        spatial = frozenset(bindings) | {x.old.var for x in self.kept}
        parts: list[Expr] = [Binary("<", ZERO, s.extent) for s in self.reduced if s.kind not in THREAD_AXES]
        corner: dict[str, Expr] = {}
        for part in conjuncts(self.block.predicate):
            bound = substitute(part, bindings)
            used = free_vars(bound) | free_vars(part)
            if used.isdisjoint(reduced):
                parts.append(part)
            elif not (used - reduced).isdisjoint(spatial):
                raise self._refused("its predicate decides by elements and by parts of the reduction at once")
            else:
                parts.append(substitute(bound, self._corner(bound, corner)))
        return conjunction(tuple(p for p in map(arith.simplify, parts) if p != TRUE))

    def _corner(self, part: Expr, known: dict[str, Expr]) -> dict[str, Expr]:
        """Where in the loops of the reduction a condition is most easily met, which it adds to what is `known`."""
        loops = {s.var: s for s in self.reduced}
        form = condition(part)
        if form is None or form.relation != "<":
            raise self._refused("which terms there are does not follow from the bounds of its loops alone")
        for name, k in form.form.terms.items():
            if name in loops:
                s = loops[name]
                end = s.start if k > 0 else arith.simplify(Binary("-", Binary("+", s.start, s.extent), Const(1)))
                if known.setdefault(name, end) != end:
                    raise self._refused("its predicate bounds a loop of the reduction on both sides")
        return known


def _found(body: tuple[Stmt, ...], path: Path) -> Path:
    """The path to the same loop after a rewrite inside of it."""
    wanted = path[-1]
    assert isinstance(wanted, For)
    return next(q for q in walk_paths(body) if isinstance(q[-1], For) and q[-1].var == wanted.var)
