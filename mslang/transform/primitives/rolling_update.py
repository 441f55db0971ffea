"""The primitive that fuses a maximum and the sums of exponentials that depend on it: rolling_update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Cast, Const, Expr, Load, Select, Var, dtype_of
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Axis, Block, Buffer, For, Let, Program, Range, Stmt, Store
from mslang.ir.reduction import identity
from mslang.ir.region import infer_regions
from mslang.ir.visit import conjunction, free_vars, fresh, map_expr, substitute
from mslang.transform.analysis.formula import tidy_value
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import bindings, loop_path, loops_above
from mslang.transform.analysis.rolling import PRIMITIVE, Job, Part, job_of
from mslang.transform.outcome import BlockRef, LoopRef, Outcome
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.loop_nest import nested
from mslang.transform.rewriting.nest import vanished, without
from mslang.transform.rewriting.rewrite import put, tidy
from mslang.transform.rewriting.staging import with_alloc


@primitive(family="reductions", gives=(BlockRef,), many=True)
def rolling_update(program: Program, block: BlockRef, loop: LoopRef, sums: Sequence[BlockRef]) -> Outcome:
    """Compute a maximum and sums of exponentials relative to it in one pass, along a loop of the maximum.

    This is online softmax, and with tiles of keys FlashAttention. Each iteration of the loop reduces its part into
    buffers of its own (`M_rf`, `S_rf`), in blocks named `m_rf` and `s_rf`, which are returned: that of the maximum,
    then those of the sums. The block of the maximum keeps its name; it updates the running maximum and stores the
    factor by which the sums decrease (`M_scale`). The block of a sum keeps its name, too: it multiplies the running sum
    by this factor, and adds the part. Blocks between the maximum and the sums, which compute the exponentials, move
    under the loop. All of them get new serial loops.

    The terms of a sum must be linear in `exp(f(x - M))` or `exp2(f(x - M))`: `M` is the maximum of the same `x`, and
    `f` multiplies or divides by positive constants. The maximum stays as it is; the sums are rounded in another order,
    and partial sums may overflow where they are large relative to the running maximum. Infinite and NaN elements, rows
    and terms give the same results as before: parts in which all elements are -inf add 0, and a row in which all are
    gives NaN.

    Before:
        for i in 0..8, k0 in 0..4, k1 in 0..4 {
            block m[x: 8 = i | y: 16 = k0 * 4 + k1] {
                init { M[x] = -inf }
                M[x] = max(M[x], A[x, y])
            }
        }
        block s[x: 8 | y: 16] {
            init { S[x] = 0.0 }
            S[x] = S[x] + exp(A[x, y] - M[x])
        }

    After:
        # m.rolling_update(k0, [s])
        for i in 0..8 {
            block m_init[x: 8 = i] { M[x] = -inf }
            block s_init[x: 8 = i] { S[x] = 0.0 }
            for k0 in 0..4 {
                for k1 in 0..4 {
                    block m_rf[x: 8 = i, y_o: 4 = k0 | y_i: 4 = k1] {
                        init { M_rf[y_o, x] = -inf }
                        M_rf[y_o, x] = max(M_rf[y_o, x], A[x, y_o * 4 + y_i])
                    }
                }
                block m[x: 8 = i, y_o: 4 @ scan = k0] {
                    let largest = max(M[x], M_rf[y_o, x])
                    let shift = select(largest == -inf and y_o < 3, 0.0, largest)
                    M_scale[y_o, x] = exp(M[x] - shift)
                    M_shift[y_o, x] = shift
                    M[x] = largest
                }
                for k1_1 in 0..4 {
                    block s_rf[x: 8 = i, y_o: 4 = k0 | y_i: 4 = k1_1] {
                        init { S_rf[y_o, x] = 0.0 }
                        S_rf[y_o, x] = S_rf[y_o, x] + exp(A[x, y_o * 4 + y_i] - M_shift[y_o, x])
                    }
                }
                block s[x: 8 = i, y_o: 4 @ scan = k0] {
                    S[x] = S[x] * M_scale[y_o, x] + S_rf[y_o, x]
                }
            }
        }

    Rejects:
        - a block that is not a maximum of floating-point numbers over one axis, or starts from anything but -inf
        - a loop that is not the outermost of those that reduce, or loops from it on that are not plain and serial
        - a sum that is not a sum over one axis, or does not start from 0
        - terms that are not known to be linear in an exponential of a difference to the maximum, or are relative to
          the maximum of something else
        - sums whose terms need different factors, such as `exp(x - M)` and `exp((x - M) * 2.0)`
        - exponentials that blocks other than the sums read
        - maximum, exponentials and sums that share loops with other blocks, or do not run once for all values of their
          axes
        - a block between the maximum and a sum that writes what the sum reads, or reads what it writes
        - a tile that may begin beyond the end of the axis

    Source: online softmax; FlashAttention; the rolling update of Neptune
    """
    job = job_of(program, block, loop, tuple(sums))
    made = _Made(program, job)
    done = program
    for part in job.parts:
        done = without(done, path_to_block(done, part.block.name) or ())
    above = loop_path(done, loop, PRIMITIVE)
    done = put(done, above, *made.before, replace(job.loop, body=tuple(made.under)))
    for buffer in made.buffers:
        done = with_alloc(done, job.path, buffer)
    require_kinds(done, [s.var for s in loops_above(job.path) if s.kind != "serial"], PRIMITIVE)
    into = tuple(BlockRef(n) for n in made.names)
    return Outcome(done, into, vanished(program, done, PRIMITIVE, into))


class _Made:
    """What stands before the loop and under it, in the order in which it is made."""

    def __init__(self, program: Program, job: Job) -> None:
        self.job, self.taken = job, set(job.taken)
        self.known = all_buffers(program)
        self.before: list[Stmt] = []
        self.under: list[Stmt] = []
        self.buffers: list[Buffer] = []
        self.names: list[str] = []
        self.outer = self.name(f"{job.axis}_o")
        self.inner = {s.var: self.name(f"{job.axis}_i") for s in job.inner if s.var in job.reducing}
        self.scale, self.shift = self.maximum()
        for part in job.parts:
            if part.sum:
                self.sum(part)
            else:
                self.exponential(part)

    def name(self, wanted: str) -> str:
        """A new name."""
        found = fresh(wanted, self.taken)
        self.taken.add(found)
        return found

    def maximum(self) -> tuple[Buffer, Buffer]:
        """The running maximum; gives the buffers of the factors, and of what exponents are relative to."""
        job, m = self.job, self.job.part
        dtype = self.known[m.store.buffer].dtype
        part = self.parts_of(m)
        scale, shift = self.buffer(m.store.buffer, "scale"), self.buffer(m.store.buffer, "shift")
        self.start(m)
        self.partial(m, part, m.value, "max", same_loops=True)
        at = (Var(self.outer), *m.store.indices)
        old = Load(m.store.buffer, m.store.indices, dtype)
        names = {"largest": self.name("largest"), "shift": self.name("shift")}
        largest, relative = Var(names["largest"], dtype), Var(names["shift"], dtype)
        empty = Binary("==", largest, identity("max", dtype))
        more = Binary("<", Var(self.outer), arith.sub(job.loop.extent, ONE))
        chosen = Select(Binary("and", empty, more), Const(0.0, dtype), largest)
        stores = (
            Store(scale.name, at, job.factor.of(Binary("-", old, relative))),
            Store(shift.name, at, relative),
            Store(m.store.buffer, m.store.indices, largest),
        )
        body = Let(names["shift"], chosen, stores)
        combined = Binary("max", old, Load(part.name, at, dtype))
        self.place(m, m.block.name, (Let(names["largest"], combined, (body,)),), outer="scan")
        return scale, shift

    def sum(self, part: Part) -> None:
        """A running sum."""
        made = self.parts_of(part)
        self.start(part)
        self.partial(part, made, self.relative(part.value), "+")
        dtype = made.dtype
        at = tuple(Var(n) for n in self.job.of_maximum(part))
        factor: Expr = Load(self.scale.name, (Var(self.outer), *at), self.scale.dtype)
        factor = factor if dtype_of(factor) == dtype else Cast(dtype, factor)
        old = Load(part.store.buffer, part.store.indices, dtype)
        new = Load(made.name, (Var(self.outer), *part.store.indices), dtype)
        value = Binary("+", Binary("*", old, factor), new)
        self.place(part, part.block.name, (Store(part.store.buffer, part.store.indices, value),), outer="scan")

    def exponential(self, part: Part) -> None:
        """A block between the maximum and the sums."""
        store = Store(part.store.buffer, part.store.indices, self.relative(part.value))
        self.place(part, part.block.name, (store,), outer="spatial", inner="spatial")

    def relative(self, value: Expr) -> Expr:
        """A value with what exponents are relative to in place of the maximum."""
        maximum = self.job.part.store.buffer

        def moved(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.buffer == maximum:
                return Load(self.shift.name, (Var(self.outer), *e.indices), e.dtype)
            return None

        return map_expr(value, moved)

    def parts_of(self, part: Part) -> Buffer:
        """The buffer of the parts of a reduction."""
        return self.buffer(part.store.buffer, "rf")

    def buffer(self, of: str, suffix: str) -> Buffer:
        """A new buffer like another, with one element for each iteration of the loop."""
        old = self.known[of]
        made = Buffer(self.name(f"{of}_{suffix}"), old.dtype, (self.job.loop.extent, *old.shape), old.scope)
        self.buffers.append(made)
        return made

    def start(self, part: Part) -> None:
        """What a reduction starts from, in front of the loop."""
        start = Store(part.store.buffer, part.store.indices, part.start)
        self.place(part, self.name(f"{part.block.name}_init"), (start,))

    def partial(self, part: Part, into: Buffer, value: Expr, op: str, same_loops: bool = False) -> None:
        """The part of a reduction that one iteration of the loop adds."""
        at = (Var(self.outer), *part.store.indices)
        name = self.name(f"{part.block.name}_rf")
        self.names.append(name)
        if not self.inner:
            self.place(part, name, (Store(into.name, at, value),), outer="spatial", same_loops=same_loops)
            return
        update = Store(into.name, at, Binary(op, Load(into.name, at, into.dtype), value))
        init = (Store(into.name, at, part.start),)
        self.place(part, name, (update,), init, outer="spatial", inner="reduce", same_loops=same_loops)

    def place(
        self,
        part: Part,
        name: str,
        body: tuple[Stmt, ...],
        init: tuple[Stmt, ...] | None = None,
        outer: str = "",
        inner: str = "",
        same_loops: bool = False,
    ) -> None:
        """A block in loops of its own, under the loop or, without `outer`, in front of it.

        Args:
            part: the block that it is made of.
            name: the new block's.
            body: in terms of the axes of the old block.
            init: so, too.
            outer: the kind of the axis that the loop serves.
            inner: that of the axes that the loops inside serve.
            same_loops: the loops of the maximum themselves, not copies.
        """
        job = self.job
        within = [s for s in job.inner if (inner or not outer or s.var not in job.reducing)]
        within = within if inner else [s for s in within if s.var not in job.reducing]
        loops = [s if same_loops else replace(s, var=self.name(s.var)) for s in within]
        renamed: dict[str, Expr] = {s.var: Var(new.var) for s, new in zip(within, loops, strict=True)}
        values = bindings(job.part.block)
        axes: list[Axis] = []
        for a in part.block.axes:
            role = part.roles.get(a.name)
            if role is None:
                loops.append(For(self.name(a.name), a.extent, ()))
                axes.append(replace(a, binding=Var(loops[-1].var)))
            elif role != job.axis:
                axes.append(replace(a, binding=substitute(values[role], renamed)))
            elif outer:
                axes.append(Axis(self.outer, job.loop.extent, outer, arith.sub(Var(job.loop.var), job.loop.start)))
                axes.extend(
                    Axis(self.inner[s.var], s.extent, inner, arith.sub(renamed[s.var], s.start))
                    for s in within
                    if inner and s.var in job.reducing
                )
        conditions = [c for c in job.conditions if inner or not free_vars(c) & job.reducing]
        made = Block(
            name,
            tuple(axes),
            (),
            (),
            self.in_tiles(part, body, axes),
            init=init,
            predicate=conjunction(tuple(substitute(c, renamed) for c in conditions)),
            annotations=part.block.annotations,
        )
        reads, writes = infer_regions(made, self.known | {b.name: b for b in self.buffers})
        nest = nested([replace(s, body=()) for s in loops], (replace(made, reads=reads, writes=writes),))
        (self.under if outer else self.before).extend(nest)

    def in_tiles(self, part: Part, body: tuple[Stmt, ...], axes: Sequence[Axis]) -> tuple[Stmt, ...]:
        """Stores with the axis that the maximum reduces in terms of tiles."""
        job = self.job
        old = next((a for a, role in part.roles.items() if role == job.axis), None)
        if old is None:
            return body
        names = {job.loop.var: self.outer, **self.inner}
        starts = {s.var: s.start for s in (job.loop, *job.inner)}
        digits = {v: arith.add(Var(n), starts[v]) for v, n in names.items()}
        ranges = {a.name: Range(ZERO, a.extent) for a in axes}
        whole: Mapping[str, Expr] = {old: tidy(substitute(bindings(job.part.block)[job.axis], digits), ranges)}

        def moved(e: Expr) -> Expr:
            return tidy_value(substitute(e, whole), ranges) if old in free_vars(e) else e

        def stmt(s: Stmt) -> Stmt:
            match s:
                case Store(buffer=b, indices=xs, value=v):
                    return Store(b, tuple(tidy(moved(x), ranges) if old in free_vars(x) else x for x in xs), moved(v))
            return s

        return tuple(map(stmt, body))


__all__ = ["rolling_update"]
