"""Every primitive beside TVM's: random programs, random steps, each step decided by both from the very same program.

Before each step the program is printed for TVM, so that handles cannot drift apart and one disagreement does not bring
others with it. After a step that both take, what TVM made is read back and interpreted beside what was made here; the
sequence goes on from one of the two.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.tvm import to_graph
from mslang.ir.expr import Const, Expr
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.transform.outcome import Outcome
from mslang.transform.registry import IMPLEMENTATIONS
from tests.property import families
from tests.property.arrays import difference, outputs_equal
from tests.property.judge import FAULTS, sparse_inputs
from tests.property.stages import WEIGHTS, drawn_pair
from tests.property.steps import Step, Steps
from tests.property.tvm_calls import CALLS, call
from tests.property.tvm_starts import finite_starts

REFUSALS = (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError)
"""What TVM raises where it refuses: its errors derive from these."""

CRASHED = "TVM crashed"

UNBOUND = re.compile(r"^ +\w+ = T\.Buffer\(", re.MULTILINE)
"""How TVM prints a buffer that its program names, but nothing allocates."""

LONGEST, TRIES = 4, 12


class NotTaken(Exception):
    """The program itself is not one that TVM takes."""


class Verdict(msgspec.Struct, frozen=True):
    """What one side said to a step: the program that it made, or why it refused."""

    program: Program | None
    reason: str = ""


class Case(msgspec.Struct, frozen=True):
    """A step that the two did not take alike."""

    pair: int
    op: str
    reason: str
    program: str
    step: str


class Tally(msgspec.Struct):
    """Counts by primitive, and the classes of disagreement with an example of each. `not_taken` are steps on
    programs that TVM does not take as they are."""

    pairs: int = 0
    both: Counter[str] = msgspec.field(default_factory=Counter)
    neither: Counter[str] = msgspec.field(default_factory=Counter)
    ours: Counter[str] = msgspec.field(default_factory=Counter)
    theirs: Counter[str] = msgspec.field(default_factory=Counter)
    compared: Counter[str] = msgspec.field(default_factory=Counter)
    unread: Counter[str] = msgspec.field(default_factory=Counter)
    not_taken: list[Case] = msgspec.field(default_factory=list)
    theirs_wrong: list[Case] = msgspec.field(default_factory=list)
    ours_wrong: list[Case] = msgspec.field(default_factory=list)
    classes: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    broken: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    examples: dict[tuple[str, str, str], Case] = msgspec.field(default_factory=dict)

    def tried(self, op: str) -> int:
        """Steps of a primitive that both were asked."""
        return self.both[op] + self.neither[op] + self.ours[op] + self.theirs[op]

    def add(self, other: Tally) -> None:
        """Take in the counts of other pairs."""
        self.pairs += other.pairs
        for name in ("both", "neither", "ours", "theirs", "compared", "unread", "classes", "broken"):
            getattr(self, name).update(getattr(other, name))
        for name in ("not_taken", "theirs_wrong", "ours_wrong"):
            getattr(self, name).extend(getattr(other, name))
        self.examples = {**other.examples, **self.examples}

    def disagree(self, side: str, case: Case, broken: bool = False) -> None:
        """Count a step that one side alone took; `broken` says that what it made is wrong."""
        key = (case.op, side, pattern(case.reason))
        self.classes[key] += 1
        self.broken[key] += broken
        self.examples.setdefault(key, case)


def pattern(reason: str) -> str:
    """A message without the names and numbers that are of one program alone."""
    return re.sub(r"`[^`]*`", "`_`", re.sub(r"\b(0x[0-9a-f]+|\d+)\b", "N", reason))[:160]


# ------------------------------------------------------------------ the two sides
class _Numbers:
    """Stands for the schedule that a maker asks for decisions: here sizes are numbers."""

    def choose(self, values: Sequence[int], name: str) -> Expr:
        return Const(values[0])


class _Plain(Steps):
    """Steps whose sizes are all numbers."""

    scopes = ("global", "local")

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, symbolic=False, families=families.STEPS)
        self.schedule = _Numbers()

    def address(self) -> str:
        return "d"


def draw(steps: Steps, program: Program, op: str) -> Step | None:
    """A step that both sides have: tails other than the guard, limits of unrolling and joined lanes are ours alone."""
    step = steps.step(program, op)
    if step is None:
        return None
    name, args, named = step
    return name, args, {k: v for k, v in named.items() if k not in ("tail", "max_steps", "reduction")}


def ours(program: Program, step: Step) -> Verdict:
    """What this project says."""
    name, args, named = step
    try:
        made: Outcome = IMPLEMENTATIONS[name](program, *args, **named)
    except MsError as error:
        found = error.diagnostic
        return Verdict(None, f"{found.code} {found.message.partition(': ')[2]}")
    return Verdict(made.program)


def theirs(tvm: Any, program: Program, step: Step) -> tuple[bool, str]:
    """What TVM says: the script of what it made, or why it refused. It is asked in a process of its own: some steps
    crash it."""
    try:
        graph = to_graph(program)
    except MsError as error:
        raise NotTaken(str(error)) from error
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            os.write(write, json.dumps(_asked(tvm, graph, program, step)).encode())
        except FAULTS as error:
            os.write(write, json.dumps((None, repr(error))).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        return False, CRASHED
    taken, said = json.loads(text)
    if taken is None:
        raise NotTaken(f"{step}: {said}")
    return bool(taken), str(said)


def _asked(tvm: Any, graph: str, program: Program, step: Step) -> tuple[bool, str]:
    schedule = tvm.s_tir.Schedule(tvm.ir.load_json(graph), debug_mask="none", error_render_level="detail")
    try:
        call(schedule, program, step)
        return True, str(schedule.mod["main"].script())
    except (*REFUSALS, tvm.error.InternalError) as error:
        return False, _first_line(str(error))
    except AssertionError as error:
        if "Invalid buffer_index" not in str(error):
            raise
        return False, _first_line(str(error))


def _first_line(text: str) -> str:
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    for mark in ("Error message:", "ScheduleError:", "InternalError:", "Check failed"):
        for k, line in enumerate(lines):
            if mark in line:
                rest = line.partition(mark)[2].strip(" :(") or (lines[k + 1] if k + 1 < len(lines) else "")
                if rest and not rest.startswith("An error occurred"):
                    return rest
    return lines[0] if lines else ""


# ------------------------------------------------------------------ a pair
def check_pair(tvm: Any, seed: int, number: int, tally: Tally, weights: Mapping[str, int]) -> None:
    """Draw a program and steps, and count what the two say to each."""
    program, rng = drawn_pair(seed, number)
    program = finite_starts(program) if number % 4 else program  # TVM knows no reducer that starts from an infinity.
    tally.pairs += 1
    steps = _Plain(rng)
    ops = [op for op in weights if op in CALLS]
    taken = 0
    for _ in range(TRIES):
        if taken == LONGEST:
            break
        op = rng.choices(ops, [weights[o] for o in ops])[0]
        step = draw(steps, program, op)
        if step is None:
            continue
        after = _one(tvm, program, step, number, tally, rng)
        taken += after is not None
        program = after or program


def _one(tvm: Any, program: Program, step: Step, number: int, tally: Tally, rng: random.Random) -> Program | None:
    op = step[0]
    try:
        taken, text = theirs(tvm, program, step)
    except NotTaken as error:
        tally.not_taken.append(Case(number, op, str(error), print_program(program), str(step)))
        return None
    here = ours(program, step)
    if here.program is not None and taken:
        tally.both[op] += 1
        return _meaning(
            program, here.program, text, Case(number, op, "", print_program(program), str(step)), tally, rng
        )
    if here.program is None and not taken:
        tally.neither[op] += 1
    elif here.program is None:
        tally.theirs[op] += 1
        case = Case(number, op, here.reason, print_program(program), str(step))
        tally.disagree("TVM", case, broken(program, text, number))
    else:
        tally.ours[op] += 1
        case = Case(number, op, text, print_program(program), str(step))
        tally.disagree("ours", case)
        problem = _fault(program, here.program, number)
        if problem:
            tally.ours_wrong.append(msgspec.structs.replace(case, reason=problem))
    return None


def _packed_as(here: Program, theirs: Program) -> Program:
    """What TVM made, taking what the caller of the one made here has: TVM's own takes packed arrays."""
    params = tuple(
        msgspec.structs.replace(q, packing=p.packing if p.buffer.shape == q.buffer.shape else None)
        for p, q in zip(here.params, theirs.params, strict=True)
    )
    return msgspec.structs.replace(theirs, params=params)


def broken(before: Program, text: str, number: int) -> bool:
    """Does what TVM alone made give another result, or race, or read what nobody wrote or even allocated?"""
    if UNBOUND.search(text):
        return True
    try:
        other = _packed_as(before, tvmscript.parse_one(text))
    except MsError as error:
        return _has_unknowns(error)
    return bool(_fault(before, other, number))


def _fault(before: Program, after: Program, number: int) -> str:
    """How a program gives another result, races or reads what nobody wrote, if it does and the one before does not."""
    arrays = sparse_inputs(before, number)
    want = interpret.run(before, arrays, check=False)
    sound = not _differs(before, before, arrays, want, check=True)
    return _differs(before, after, arrays, want, check=sound)


def _has_unknowns(error: MsError) -> bool:
    """Is a program not read since it uses a variable that nothing gives a value? So it is where TVM puts the copies of
    `cache_inplace` beside the block with indices by the axes of the block."""
    return error.diagnostic.code == "MS731" and error.diagnostic.message.endswith(
        "cannot be inferred when the kernel is called"
    )


def _meaning(before: Program, mine: Program, text: str, case: Case, tally: Tally, rng: random.Random) -> Program:
    """Interpret what each made beside the program before; gives the one to go on from."""
    try:
        other = _packed_as(mine, tvmscript.parse_one(text))
    except MsError as error:
        if _has_unknowns(error):
            tally.theirs_wrong.append(msgspec.structs.replace(case, reason=error.diagnostic.message))
        else:
            tally.unread[case.op] += 1
        return mine
    arrays = sparse_inputs(before, case.pair)
    want = interpret.run(before, arrays, check=False)
    tally.compared[case.op] += 1
    problem = _differs(before, mine, arrays, want)
    if problem:
        tally.ours_wrong.append(msgspec.structs.replace(case, reason=problem))
    problem = _differs(before, other, arrays, want)
    if problem:
        tally.theirs_wrong.append(msgspec.structs.replace(case, reason=problem))
        return mine
    return other if rng.random() < 0.3 else mine


def _differs(
    before: Program,
    after: Program,
    arrays: Mapping[str, np.ndarray],
    want: Mapping[str, np.ndarray],
    check: bool = False,
) -> str:
    """How the results of a program differ, if they do; its parameters are told by their places."""
    names = {q.buffer.name: p.buffer.name for p, q in zip(before.params, after.params, strict=True)}
    given = {
        name: arrays[was].copy() if was in arrays else np.zeros_like(want[was])
        for name, was in names.items()
        if any(q.buffer.name == name and q.direction != "out" for q in after.params)
    }
    try:
        got = {names[n]: a for n, a in interpret.run(after, given, check=check).items() if names[n] in want}
    except (MsError, IndexError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    for name in want.keys() - got.keys():
        got[name] = arrays.get(name, np.zeros_like(want[name]))  # What is never written stays as it was.
    return "" if outputs_equal(dict(want), got) else difference(want, got)


def campaign(seed: int, numbers: Iterable[int], weights: Mapping[str, int] = WEIGHTS) -> Tally:
    """Count what the two say on the pairs of these numbers."""
    import tvm
    import tvm.s_tir
    import tvm.script

    tally = Tally()
    for number in numbers:
        check_pair(tvm, seed, number, tally, weights)
    return tally
