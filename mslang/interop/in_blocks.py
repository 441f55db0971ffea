"""Programs with assignments outside of blocks, which TVM allows: each gets a block, which a `.ms` file requires."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir import arith
from mslang.ir.arith import Verdict
from mslang.ir.expr import ZERO, Binary, Const, Expr, Load, Var
from mslang.ir.find import all_buffers, blocks_of, used_names
from mslang.ir.program import Axis, Block, Evaluate, For, If, Let, Program, Range, Stmt, Store, While
from mslang.ir.region import infer_regions
from mslang.ir.symbols import all_exprs
from mslang.ir.visit import conjunction, free_vars, fresh, loads_of, stmt_exprs, walk
from mslang.transform.rewriting.rewrite import substitute_loops

_REDUCING = frozenset({"+", "*", "min", "max"})


def in_blocks(program: Program) -> Program:
    """The program with a block around each assignment, `let`, `while` and call outside of blocks.

    A block gets an axis for each loop that it uses: spatial, if the loop selects the written element; reduction,
    if the element is updated; otherwise opaque. An enclosing `let` that it uses is replaced by its value.

    Raises:
        MsError: MS731, the bound of such a loop depends on another loop, or such a value reads a buffer that may be
            written in between.
    """
    return replace(program, body=_Wrapping(program).body(program.body, _NONE))


class _Around(NamedTuple):
    """The loops and the `let`s that enclose a statement, by name."""

    loops: Mapping[str, For] = MappingProxyType({})
    lets: Mapping[str, Let] = MappingProxyType({})


_NONE = _Around()


class _Wrapping:
    def __init__(self, program: Program) -> None:
        self.buffers = all_buffers(program)
        self.taken = set(used_names(program))

    def body(self, body: tuple[Stmt, ...], around: _Around) -> tuple[Stmt, ...]:
        return tuple(x for s in body for x in self.statement(s, around))

    def statement(self, s: Stmt, around: _Around) -> tuple[Stmt, ...]:
        match s:
            case For():
                return (replace(s, body=self.body(s.body, around._replace(loops={**around.loops, s.var: s}))),)
            case If():
                return (replace(s, then=self.body(s.then, around), otherwise=self.body(s.otherwise, around)),)
            case Let() if blocks_of(s.body):
                body = self.body(s.body, around._replace(lets={**around.lets, s.name: s}))
                replaced = s.name in _named(s.body) and s.name not in _named(body)
                return body if replaced else (replace(s, body=body),)
            case Store() | Let() | While() | Evaluate():
                return (self.block(_without_lets(s, around.lets), around.loops),)
        return (s,)

    def block(self, s: Stmt, loops: Mapping[str, For]) -> Block:
        named = _named((s,))
        ranges = {v: Range(f.start, f.extent) for v, f in loops.items()}
        axes: list[Axis] = []
        moved: dict[str, Expr] = {}
        for v, f in loops.items():
            if v not in named:
                continue
            axis, low = _axis(f, s, ranges)
            if low < 0:
                # An axis begins at 0.
                axis = replace(axis, name=fresh(f"{v}_axis", self.taken), binding=Binary("+", Var(v), Const(-low)))
                self.taken.add(axis.name)
                moved[v] = Binary("-", Var(axis.name), Const(-low))
            axes.append(axis)
        (s,) = substitute_loops((s,), moved, {a.name: Range(ZERO, a.extent) for a in axes})
        name = fresh(f"{s.buffer}_block" if isinstance(s, Store) else "step", self.taken)
        self.taken.add(name)
        begin = (f for f in loops.values() if f.var in named and not _is_at_most_0(f.start))
        where = conjunction(tuple(Binary("<=", f.start, Var(f.var)) for f in begin))
        made = Block(name, tuple(axes), (), (), (s,), predicate=where)
        reads, writes = infer_regions(made, self.buffers)
        return replace(made, reads=reads, writes=writes)


def _named(body: tuple[Stmt, ...]) -> set[str]:
    """The variables that statements use."""
    return {v for x in walk(body) for e in all_exprs(x) for v in free_vars(e)}


def _without_lets(s: Stmt, lets: Mapping[str, Let]) -> Stmt:
    """A statement with the enclosing `let`s that it uses replaced by their values."""
    while used := _named((s,)) & lets.keys():
        for n in sorted(used):
            _check_constant(lets[n])
        (s,) = substitute_loops((s,), {n: lets[n].value for n in used}, None)
    return s


def _check_constant(let: Let) -> None:
    """Check that the value of a `let` is the same wherever its name is visible."""
    read = {x.buffer for x in loads_of(let.value)}
    written = {x.buffer for x in walk(let.body) if isinstance(x, Store)}
    written |= {v.source.buffer for x in walk(let.body) if isinstance(x, Block) for v in x.views}
    if not read.isdisjoint(written):
        raise MsError(
            problem(
                "MS731",
                f"an assignment uses `{let.name}`, is in no block, and cannot be put into one",
                why=f"a block names its own axes only, and `{min(read & written)}`, which `{let.name}` is read from, "
                "may be written in between",
                help=f"make `{let.name}` a buffer of one element",
            )
        )


def _is_at_most_0(start: Expr) -> bool:
    """Whether a loop begins where its axis begins."""
    return isinstance(start, Const) and start.value <= 0


def _axis(loop: For, s: Stmt, ranges: Mapping[str, Range]) -> tuple[Axis, int]:
    """The axis for a loop, and the least value of the loop if it may be negative, otherwise 0."""
    stop = arith.simplify(arith.add(loop.start, loop.extent))
    least = arith.bounds(loop.start, ranges)
    low = least[0] if least is not None else None
    if arith.decide(Binary(">=", loop.start, ZERO), ranges) is Verdict.PROVED:
        low = ZERO
    if free_vars(stop) or not isinstance(low, Const) or not isinstance(low.value, int):
        raise MsError(
            problem(
                "MS731",
                f"what stands under loop `{loop.var}` is in no block, and cannot be put into one",
                why="the loop's bounds depend on another loop",
                help="write `with T.sblock(…)` around it",
            )
        )
    first = min(low.value, 0)
    return Axis(loop.var, arith.add(stop, Const(-first)), _kind(loop.var, s), Var(loop.var)), first


def _kind(var: str, s: Stmt) -> str:
    if not isinstance(s, Store):
        return "opaque"
    plain = {i.name for i in s.indices if isinstance(i, Var)}
    again = [x for e in stmt_exprs(s) for x in loads_of(e) if x.buffer == s.buffer]
    if not all(x.indices == s.indices for x in again) or any(free_vars(i) - plain for i in s.indices):
        return "opaque"
    if var in plain:
        return "spatial"
    return "reduce" if _updates(s) else "opaque"


def _updates(s: Store) -> bool:
    """Whether the stored value is the old value combined with another, in either order."""
    match s.value:
        case Binary(op=op, left=Load(buffer=s.buffer, indices=s.indices), right=right) if op in _REDUCING:
            return all(x.buffer != s.buffer for x in loads_of(right))
    return False
