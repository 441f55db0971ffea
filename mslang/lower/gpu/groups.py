"""Instructions that threads run together: a whole group runs them, on the same operands, or the kernel is refused.

Threads count by `threadIdx.x` first. Those that hold a fragment are so many in order of their numbers, a warp or four;
a text that declares `#barrier` is run by all threads of the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from mslang.diagnostics import TargetError, problem
from mslang.ir.arith import evaluate
from mslang.ir.expr import ZERO, Binary, Expr, Load, MaskedLoad, Symbol, Var, children
from mslang.ir.intrin import has_barrier, scratch_of
from mslang.ir.print import print_expr
from mslang.ir.program import HOLDERS
from mslang.ir.visit import free_vars, substitute, walk_expr
from mslang.kernel import Body, For, Function, If, Invoke, Let, While
from mslang.kernel.visit import bodies
from mslang.lower.gpu.accesses import touched
from mslang.lower.gpu.axes import BLOCK_SHARED, THREAD_AXES, thread_extents

Scopes = Mapping[str, str]


def require_whole_groups(f: Function, scopes: Scopes) -> None:
    """Check that whole groups of threads run the instructions of a launch that threads run together.

    Args:
        f: the launch, its predicates resolved.
        scopes: those of its buffers.

    Raises:
        TargetError: MS456, some threads of a group do not, or have other operands.
    """
    sizes = thread_extents(f)
    for s, around in _instructions(f.body, _Around({}, ())):
        held = max((HOLDERS.get(scopes.get(b, ""), 1) for b in touched((s,))), default=1)
        if held > 1:
            _require_together(s, around, _Group(sizes, held, scopes))
            _require_same_operands(s, around, _Group(sizes, held, scopes))
        if has_barrier(s.text):
            _require_together(s, around, _Group(sizes, _threads(sizes), scopes))


class _Around(NamedTuple):
    """What `let`s stand for, and what decides whether and how often a statement runs."""

    values: Mapping[str, Expr]
    deciding: tuple[Expr, ...]


def _instructions(body: Body, around: _Around) -> Iterator[tuple[Invoke, _Around]]:
    for s in body:
        values = around.values
        match s:
            case Invoke():
                yield s, around
                continue
            case If(condition=e) | While(condition=e):
                inner = around._replace(deciding=(*around.deciding, substitute(e, values)))
            case For(var=v, start=start, extent=extent):
                first: Mapping[str, Expr] = {} if start == ZERO else {v: Binary("+", substitute(start, values), Var(v))}
                inner = _Around({**values, **first}, (*around.deciding, substitute(extent, values)))
            case Let(name=n, value=e):
                inner = around._replace(values={**values, n: substitute(e, values)})
            case _:
                inner = around
        for b in bodies(s):
            yield from _instructions(b, inner)


def _threads(sizes: Mapping[str, int]) -> int:
    x, y, z = (sizes.get(a, 1) for a in THREAD_AXES)
    return x * y * z


class _Group:
    """So many threads of a block, in order of their numbers."""

    def __init__(self, sizes: Mapping[str, int], together: int, scopes: Scopes) -> None:
        self.sizes, self.together, self.scopes = sizes, together, scopes
        self.threads = _threads(sizes)

    def same(self, e: Expr) -> bool:
        """Has an expression provably one value in the threads of each group?"""
        match e:
            case Var(name=n):
                return n not in THREAD_AXES or self._of_threads(e)
            case Load(buffer=b) | MaskedLoad(buffer=b) if self.scopes.get(b) not in BLOCK_SHARED:
                return False
        return all(map(self.same, children(e))) or self._of_threads(e)

    def _of_threads(self, e: Expr) -> bool:
        """As `same`, of an expression over the numbers of threads alone, which has a value in each of them."""
        if not free_vars(e) <= set(THREAD_AXES) or any(isinstance(x, Load | MaskedLoad | Symbol) for x in walk_expr(e)):
            return False
        ranges = [range(self.sizes.get(a, 1)) for a in reversed(THREAD_AXES)]
        values = [evaluate(e, {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z}) for z, y, x in product(*ranges)]
        return all(len(set(values[k : k + self.together])) == 1 for k in range(0, self.threads, self.together))


def _require_together(s: Invoke, around: _Around, group: _Group) -> None:
    n = group.together
    if group.threads % n:
        raise _refused(
            f"`{s.name}` is an instruction of {n} threads, and a block has {group.threads}",
            "what it works on is in the registers of these threads together",
            f"`bind` a loop whose length is a multiple of {n} to threadIdx.x",
        )
    for e in around.deciding:
        if not group.same(e):
            raise _refused(
                f"not all of the {n} threads that run `{s.name}` together are known to reach it",
                f"`{print_expr(e)}` decides whether they do, and may differ among them",
                "tile the loops by numbers that divide their lengths, or bind them to other axes",
            )


def _require_same_operands(s: Invoke, around: _Around, group: _Group) -> None:
    own = {x.name for x in scratch_of(s.text)}
    for formal, e in zip(s.params, s.operands, strict=True):
        if not isinstance(e, Load) or formal.name in own:
            continue
        for i in (substitute(x, around.values) for x in e.indices):
            if not group.same(i):
                raise _refused(
                    f"the {group.together} threads that run `{s.name}` together are not known to have the same "
                    f"`{formal.name}`",
                    f"`{print_expr(i)}` is an index of it, and may differ among them",
                    "bind the loops of tiles to threadIdx.y, or split them so that each group has one tile",
                )


def _refused(message: str, why: str, help_: str) -> TargetError:
    return TargetError(problem("MS456", message, why=why, help=help_))
