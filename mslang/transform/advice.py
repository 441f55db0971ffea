"""The nearest legal thing: what could be asked instead where a primitive refuses.

A refusal says which condition failed; what would be legal is found by trying, here, on the program as it is. So a
primitive itself stays quick to refuse, and what is advised really works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, pairwise, permutations
from types import MappingProxyType

from msgspec.structs import replace

from mslang.diagnostics import Diagnostic, MsError, ScheduleError
from mslang.ir import arith
from mslang.ir.expr import Const, Expr
from mslang.ir.find import path_to_block, path_to_loop
from mslang.ir.program import For, Program
from mslang.ir.visit import Path, walk
from mslang.transform.analysis.position import leaves, loops_above
from mslang.transform.outcome import BlockRef, LoopRef, Outcome
from mslang.transform.primitives.compute_inline import compute_inline
from mslang.transform.primitives.reverse_compute_inline import reverse_compute_inline

Apply = Callable[..., Outcome]
"""The primitive: takes the program, then arguments by name."""

Arguments = Mapping[str, object]

TRIES = 24
"""How many alternatives are tried at most."""

_OF_ARGUMENTS = frozenset({"MS301", "MS303", "MS316"})
"""Refusals for which nothing else needs to be tried: the message says all."""


def advised(primitive: str, apply: Apply, program: Program, args: Arguments, error: ScheduleError) -> ScheduleError:
    """The refusal of a primitive with what would be legal instead added to its help."""
    find = _ADVICE.get(primitive)
    found = error.diagnostic
    if find is None or found.code in _OF_ARGUMENTS:
        return error
    text = find(apply, program, args, found)
    if text is None:
        return error
    return ScheduleError(replace(found, help=f"{found.help}; {text}" if found.help else text))


def _works(apply: Apply, program: Program, args: Arguments) -> bool:
    try:
        apply(program, **args)
    except MsError:
        return False
    return True


def _changes(apply: Apply, program: Program, args: Arguments) -> bool:
    try:
        return apply(program, **args).program != program
    except MsError:
        return False


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


# ------------------------------------------------------------------ other loops
def _other_loop(which: str) -> Callable[[Apply, Program, Arguments, Diagnostic], str | None]:
    """Advice that names the loops of the same nest, or above the same block, of which the same could be asked."""

    def find(apply: Apply, program: Program, args: Arguments, found: Diagnostic) -> str | None:
        key = "loop" if "loop" in args else "target"
        asked = args[key]
        if not isinstance(asked, LoopRef):
            return None
        block = args.get("block")
        near = _above(program, block.name) if isinstance(block, BlockRef) else _nest(program, asked.name)
        others = [LoopRef(v) for v in near if v != asked.name]
        legal = [x.name for x in islice(others, TRIES) if _changes(apply, program, {**args, key: x})]
        what = f" of block `{block.name}`" if isinstance(block, BlockRef) else " of this nest"
        if not legal:
            return f"there is no other loop{what} {which} now" if others else None
        return f"loops{what} {which} now: {_listed(legal)}"

    return find


def _above(program: Program, block: str) -> tuple[str, ...]:
    return tuple(s.var for s in loops_above(path_to_block(program, block) or ()))


def _nest(program: Program, loop: str) -> tuple[str, ...]:
    """The loops around a loop, and those inside it, in the order of the program."""
    path = path_to_loop(program, loop)
    if path is None:
        return ()
    around = [s.var for s in loops_above((*path, path[-1])) if s.var != loop]
    inside = [s.var for s in walk((path[-1],)) if isinstance(s, For) and s.var != loop]
    return (*around, *inside)


# ------------------------------------------------------------------ orders and nests
def _orders(apply: Apply, program: Program, args: Arguments, found: Diagnostic) -> str | None:
    """The legal order that is nearest to the one asked for; for loops of no one nest, the nests there are."""
    loops = [x for x in _sequence(args.get("loops")) if isinstance(x, LoopRef)]
    if found.code == "MS304":
        return _chains(program, loops)
    depth = {x: len(path_to_loop(program, x.name) or ()) for x in loops}
    present = sorted(loops, key=lambda x: depth[x])
    others = list(permutations(range(len(loops)))) if len(loops) <= 5 else list(_swaps(len(loops)))
    others.sort(key=_distance)
    for order in islice(others, 1, TRIES):
        wanted = [loops[k] for k in order]
        if wanted == present:
            continue
        if _works(apply, program, {**args, "loops": tuple(wanted)}):
            return f"the nearest legal order is `reorder({', '.join(x.name for x in wanted)})`"
    return f"no near order is legal but the present one: {_listed(x.name for x in present)}"


def _swaps(n: int) -> Iterator[tuple[int, ...]]:
    yield tuple(range(n))
    for a, b in combinations(range(n), 2):
        order = list(range(n))
        order[a], order[b] = order[b], order[a]
        yield tuple(order)


def _distance(order: Sequence[int]) -> int:
    return sum(a > b for a, b in combinations(order, 2))


def _chains(program: Program, loops: Sequence[LoopRef]) -> str | None:
    """The loops directly nested in each other that each of some loops belongs to."""
    chains: dict[str, None] = {}
    for loop in loops:
        path = path_to_loop(program, loop.name)
        if path is not None:
            chains[_listed(_chain(path))] = None
    return f"directly nested in each other are: {' | '.join(chains)}" if chains else None


def _chain(path: Path) -> list[str]:
    """The loops that are directly nested in each other around and in the loop that a path ends in."""
    names: list[str] = []
    last = path[-1]
    for outer, inner in pairwise(path):
        if isinstance(outer, For) and isinstance(inner, For) and len(outer.body) == 1:
            names.append(outer.var)
        else:
            names.clear()
    assert isinstance(last, For)
    names.append(last.var)
    while len(last.body) == 1 and isinstance(last.body[0], For):
        last = last.body[0]
        names.append(last.var)
    return names


def _neighbours(apply: Apply, program: Program, args: Arguments, found: Diagnostic) -> str | None:
    """What stands between loops that are to be one, and which are directly nested."""
    loops = [x for x in _sequence(args.get("loops")) if isinstance(x, LoopRef)]
    return _chains(program, loops) if found.code == "MS304" else None


# ------------------------------------------------------------------ factors
def _factors(apply: Apply, program: Program, args: Arguments, found: Diagnostic) -> str | None:
    """The factors nearest to those given that cover the loop."""
    loop = args.get("loop")
    path = path_to_loop(program, loop.name) if isinstance(loop, LoopRef) else None
    given = list(_sequence(args.get("factors")))
    if path is None or found.code != "MS306" or not given:
        return None
    last = path[-1]
    assert isinstance(last, For)
    sizes = [x.value for x in given if isinstance(x, Const) and isinstance(x.value, int) and x.value > 0]
    if len(sizes) != len(given) or not isinstance(last.extent, Const):
        return None
    inner = 1
    for x in sizes[1:]:
        inner *= x
    first = -(-int(last.extent.value) // inner)
    factors: list[Expr] = [Const(first), *(Const(x) for x in sizes[1:])]
    if not _works(apply, program, {**args, "factors": tuple(factors)}):
        return None
    rest = "" if arith.equal(arith.size_product(factors), last.extent) else ", with a guard"
    return f"`[{', '.join(str(x) for x in (first, *sizes[1:]))}]` covers it{rest}"


# ------------------------------------------------------------------ the other way
def _inline_instead(other: str, apply_other: Apply) -> Callable[[Apply, Program, Arguments, Diagnostic], str | None]:
    """Advice that the opposite primitive would do."""

    def find(apply: Apply, program: Program, args: Arguments, found: Diagnostic) -> str | None:
        return f"`{other}` of this block is legal" if _works(apply_other, program, args) else None

    return find


def _blocks(apply: Apply, program: Program, args: Arguments, found: Diagnostic) -> str | None:
    """The blocks of the program of which the same could be asked."""
    asked = args.get("block")
    names = [b.name for b in leaves(*program.body)]
    others = (BlockRef(n) for n in names if not isinstance(asked, BlockRef) or n != asked.name)
    legal = [b.name for b in islice(others, TRIES) if _works(apply, program, {**args, "block": b})]
    return f"blocks of which the same can be asked: {_listed(legal)}" if legal else None


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, tuple | list) else ()


_ADVICE: Mapping[str, Callable[[Apply, Program, Arguments, Diagnostic], str | None]] = MappingProxyType(
    {
        "vectorize": _other_loop("that can be vectorized"),
        "parallel": _other_loop("that can run in parallel"),
        "bind": _other_loop("that can be bound so"),
        "decompose_reduction": _other_loop("at which it can be decomposed"),
        "rfactor": _other_loop("that can be factored"),
        "blockize": _other_loop("that can be blockized"),
        "decompose_padding": _other_loop("at which it can be decomposed"),
        "reorder": _orders,
        "fuse": _neighbours,
        "split": _factors,
        "compute_inline": _inline_instead("reverse_compute_inline", reverse_compute_inline),
        "reverse_compute_inline": _inline_instead("compute_inline", compute_inline),
        "set_scope": _blocks,
    }
)
"""What finds the nearest legal thing, by primitive."""
