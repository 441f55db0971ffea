"""The domains of samplers: the domain of a numeric decision, the alternatives of a structural one.

Both are derived from the program and the arguments alone, never from previously drawn values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from mslang.diagnostics import ScheduleError, problem
from mslang.ir import arith
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import (
    ONE,
    Binary,
    Choice,
    Domain,
    Expr,
    FreeTile,
    PartitionedTile,
    PerfectTile,
    Symbol,
    Uniform,
)
from mslang.ir.program import Program
from mslang.ir.visit import free_vars
from mslang.schedule import memo
from mslang.transform import getters
from mslang.transform.compute_locations import Place, legal_locations
from mslang.transform.outcome import BlockRef, LoopRef

PARTS = 16
"""The maximal number of factors of a tile."""

BITS = 62
"""The maximal number of bits of a number that is drawn."""


def domain_of(op: str, args: Mapping[str, object], program: Program) -> Domain | None:
    """The domain of a numeric decision; None if the decision is structural.

    Args:
        op: the sampler.
        args: its arguments by parameter, handles as references.
        program: the program so far.

    Raises:
        ScheduleError: MS203, an argument is invalid.
    """
    match op:
        case "perfect_tile" | "tile" | "partitioned_tile":
            loop = args["loop"]
            assert isinstance(loop, LoopRef)
            return _tile_domain(op, arith.simplify(getters.extent(program, loop)), args)
        case "uniform":
            lo, hi = args["lo"], args["hi"]
            assert isinstance(lo, int) and isinstance(hi, int)
            _require_indices(op, (lo, hi))
            if lo >= hi:
                raise ScheduleError(problem("MS203", f"`uniform({lo}, {hi})` holds no number"))
            return Uniform(lo, hi)
        case "choose":
            things = listed(args["values"], op)
            numbers = tuple(x for x in things if isinstance(x, int) and not isinstance(x, bool))
            if len(numbers) == len(things):
                _require_indices(op, numbers)
                return Choice(numbers, weights_of(args["weights"], len(things)))
    return None


def locations(program: Program, block: BlockRef) -> tuple[str, ...]:
    """The legal locations of a block: "inline", "root", "at(loop)" (see `transform.analysis.compute_locations`)."""
    found = memo.answer(legal_locations, program, {"block": block})
    return tuple(x.value if isinstance(x, Place) else f"at({x.name})" for x in found)


def symbols(address: str, domain: Domain) -> object:
    """The symbols of a numeric decision: one, or one for each factor of a tile."""
    match domain:
        case FreeTile(n=n, extent=extent) if is_dynamic(extent):
            return (None, *(Symbol(address, domain, k) for k in range(1, n)))
        case PerfectTile(n=n) | PartitionedTile(n=n) | FreeTile(n=n):
            return tuple(Symbol(address, domain, k) for k in range(n))
    return Symbol(address, domain)


def _tile_domain(op: str, extent: Expr, args: Mapping[str, object]) -> Domain:
    n = args["n"]
    assert isinstance(n, int)
    if not 1 <= n <= PARTS:
        raise ScheduleError(problem("MS203", f"`{op}` takes 1 to {PARTS} parts, not {n}"))
    moving = sorted(free_vars(extent))
    if moving:
        raise ScheduleError(
            problem(
                "MS203",
                f"`{op}` of a loop whose extent depends on loop `{moving[0]}`",
                why="one set of sizes would have to divide each of its extents",
                help="split by a size that does not depend on the extent: `split([_, 8])`",
            )
        )
    if not is_dynamic(extent) and not arith.proved(Binary("<=", ONE, extent)):
        raise ScheduleError(
            problem("MS203", f"`{op}` of a loop that may have no iterations", why="then no sizes make its extent")
        )
    if op == "partitioned_tile":
        at, factor = args["at"], args["factor"]
        assert isinstance(at, int) and isinstance(factor, int)
        if not (0 <= at < n and factor >= 1):
            raise ScheduleError(problem("MS203", f"`partitioned_tile` takes `at` in 0..{n} and a factor of at least 1"))
        return PartitionedTile(extent, n, at, factor)
    cap = args["max_inner"]
    assert cap is None or isinstance(cap, int)
    if cap is not None and cap < 1:
        raise ScheduleError(problem("MS203", f"`{op}` takes a `max_inner` of at least 1, not {cap}"))
    return PerfectTile(extent, n, cap) if op == "perfect_tile" else FreeTile(extent, n, cap)


def _require_indices(op: str, numbers: Iterable[int]) -> None:
    """Require that numbers, and their differences, are of 64 bits, as those are that kernels and arrays of decisions
    compute with."""
    bits = max(x.bit_length() for x in numbers)
    if bits > BITS:
        raise ScheduleError(problem("MS203", f"`{op}` takes numbers of at most {BITS} bits, not of {bits}"))


def listed(value: object, op: str) -> tuple[object, ...]:
    """The list that a sampler draws from.

    Raises:
        ScheduleError: MS203, the argument is not a list, or is empty.
    """
    if not isinstance(value, tuple) or not value:
        raise ScheduleError(problem("MS203", f"`{op}` takes a list with something in it"))
    return value


def weights_of(value: object, n: int) -> tuple[float, ...] | None:
    """The weights of `n` values, if given.

    Raises:
        ScheduleError: MS203, they are not `n` numbers with at least one above 0.
    """
    if value is None:
        return None
    most = sys.float_info.max / max(n, 1)  # Their sum is finite, too.
    if (
        not isinstance(value, tuple)
        or len(value) != n
        or not all(isinstance(x, int | float) and 0 <= x <= most for x in value)
    ):
        message = f"`choose` takes one finite weight, of 0 or more, for each of its {n} values"
        raise ScheduleError(problem("MS203", message))
    if not any(value):
        raise ScheduleError(problem("MS203", "`choose` takes weights of which one is above 0"))
    return tuple(float(x) for x in value)
