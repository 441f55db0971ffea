"""Pairs of the second generator: a drawn program, valid for its inputs, under a sequence of moves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.schedule.instruction import ENTER_POSTPROC
from mslang.schedule.schedule import Schedule
from mslang.schedule.values import Location
from tests.property.instances.inputs import cases
from tests.property.instances.loop_moves import LOOP_MOVES
from tests.property.instances.memory_moves import MEMORY_MOVES
from tests.property.instances.moves import Board, Call, Proposal
from tests.property.instances.place_moves import PLACE_MOVES
from tests.property.instances.programs import draw
from tests.property.judge import Judged, judged
from tests.property.tally import Tally

MOVES: Mapping[str, Proposal] = MappingProxyType({**LOOP_MOVES, **PLACE_MOVES, **MEMORY_MOVES})

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        **dict.fromkeys(MOVES, 3),
        "split": 10,
        "reorder": 5,
        "fuse": 4,
        "annotate": 1,
        "prefetch": 1,
        "stream": 1,
        "add_unit_loop": 2,
        "compute_at": 4,
        "reverse_compute_at": 5,
        "cache_write": 5,
        "decompose_reduction": 5,
        "rfactor": 4,
        "reverse_compute_inline": 5,
        "rolling_buffer": 4,
        "fuse_reduction_epilogue": 4,
        "vectorize": 4,
        "rolling_update": 0.001,
    }
)
"""How often each primitive is tried."""

ATTEMPTS = 5
"""How often arguments are proposed, until they are accepted."""

FOCUS_ATTEMPTS = 12
"""How often they are for the primitive that a pair is about."""

POSTPROC = 0.03
"""How often, after a primitive, a schedule enters its postprocessing."""


FOCUSES = tuple(m for m in MOVES if m != "rolling_update")
"""What pairs are about: not what needs a program of its own."""


def focus_of(number: int) -> str:
    """The primitive that a pair is about: each has its turn."""
    return FOCUSES[number % len(FOCUSES)]


TURNS = ("change_signedness", "atomic") * 4 + ("rolling_buffer",) + ("rolling_update",) * 4 + ("",) * 7
"""What pairs are about besides, each in its turn: primitives that hardly any other program has a place for, or none."""


def also_of(number: int) -> str:
    """The primitive that a pair is about besides, if any."""
    return TURNS[random.Random(f"also/{number}").randrange(len(TURNS))]


def drawn_pair(seed: int, number: int) -> tuple[Judged, random.Random]:
    """The program of a pair with its results, and what its schedule is drawn from."""
    for attempt in range(100):
        rng = random.Random(f"instances/{seed}/{number}/{attempt}")
        drawn = draw(rng, focus_of(number) if rng.random() < 0.8 else "", also_of(number))
        try:
            # From a source of its own: pairs stay what they were before there were constants.
            marked = _some_constant(drawn.program, random.Random(f"instances/constant/{seed}/{number}"))
            return judged(marked, cases(drawn, seed * 1_000_003 + number), check=True), rng
        except MsError:
            continue
    raise AssertionError(f"no valid program for pair {number} of seed {seed}")


def _some_constant(program: Program, rng: random.Random) -> Program:
    """The program with one of its inputs as a constant, half of the time."""
    inputs = [k for k, q in enumerate(program.params) if q.direction == "in"]
    if not inputs or rng.random() < 0.5:
        return program
    chosen = rng.choice(inputs)
    params = [replace(q, constant=True) if k == chosen else q for k, q in enumerate(program.params)]
    return replace(program, params=tuple(params))


def schedule_pair(
    schedule: Schedule, number: int, rng: random.Random, tally: Tally, weights: Mapping[str, float]
) -> list[str]:
    """Apply one to eight moves, by the primitive that the pair is about among others; gives those not refused."""
    board = Board(rng, schedule)
    done: list[str] = []
    wanted = rng.choice([1, 2, 3, 3, 4, 5, 6, 8])
    turn = rng.randrange(wanted)
    asked = [op for op, weight in weights.items() if weight > WEIGHTS[op]]
    focus = rng.choice(asked) if asked else focus_of(number)
    also = {rng.randrange(min(wanted, 4)): also_of(number)} if also_of(number) else {}
    wanted += len(also)
    for k in range(3 * wanted):
        if len(done) >= wanted:
            break
        about = also.get(k) or (focus if k == turn + len(also) else "")
        op = about or rng.choices(list(weights), list(weights.values()))[0]
        made = _moved(board, op, FOCUS_ATTEMPTS if about else ATTEMPTS, tally)
        if made is None:
            continue
        tally.applied[made] += 1
        tally.late[made] += len(set(done) - {made}) >= 3
        done.append(made)
        assert not verify(schedule.parametric), (done, verify(schedule.parametric))
        entered = any(i.op == ENTER_POSTPROC for i in schedule.trace.instructions)
        if not entered and rng.random() < POSTPROC:
            schedule.enter_postproc()
    tally.drawn.update(i.op for i in schedule.trace.instructions if i.address is not None or i.op == ENTER_POSTPROC)
    return done


def _moved(board: Board, op: str, attempts: int, tally: Tally) -> str | None:
    """The primitive that was applied, with arguments proposed a few times; None if all were refused."""
    for _ in range(attempts):
        board.look()
        try:
            call = MOVES[op](board)
            if call is None:
                return None
            tally.tried[op] += 1
            _apply(board, op, call)
        except ScheduleError:
            continue
        tally.used.update(board.used)
        board.look()
        return _named(op, call)
    return None


def _apply(board: Board, op: str, call: Call) -> None:
    board.schedule.apply(op, *call.args, **call.named)


def _named(op: str, call: Call) -> str | None:
    """What was done: a place that was drawn may be inside of the consumers, or where the block is."""
    match call.args:
        case (_, Location(label="inline")):
            return "compute_inline"
        case (_, Location(label="root")):
            return None
    return op
