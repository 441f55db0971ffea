"""The smallest program and schedule that go wrong as a pair does.

python -m tests.property.minimise --generator instances --seed 0 --pair 17
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.expr import TRUE, Binary, Call, Cast, Const, Expr, Load, Select, Unary
from mslang.ir.find import all_buffers
from mslang.ir.print import print_program
from mslang.ir.program import Block, For, If, Let, Program, Store
from mslang.ir.region import infer_regions
from mslang.ir.verify import verify
from mslang.ir.visit import map_stmt_exprs, prune, replace_at, walk_expr, walk_paths
from mslang.schedule.replay import space_of_text
from mslang.schedule.schedule import Schedule
from mslang.sema.program import parse_program
from tests.property.campaign import GENERATORS
from tests.property.judge import FAULTS, Case, check_meaning, judged
from tests.property.tally import Tally

NAME = "fault"
CHECKED = 2
"""A pair number for which the compiled program checks its accesses."""


def kind_of(error: BaseException) -> str:
    """What sort of fault it is: a diagnostic's code, how results differ, or an exception."""
    if isinstance(error, MsError):
        return error.diagnostic.code
    if isinstance(error, AssertionError):
        return str(error).split(":")[0].split(",")[0].split(" (")[0][:60]
    return type(error).__name__


def outcome(program: Program, steps: Sequence[str], cases: Sequence[Case]) -> str | None:
    """How a schedule of a program goes wrong; None if it does not, is refused, or the program is faulty itself."""
    try:
        before = judged(program, cases, check=True)
    except MsError:
        return None
    text = "\n".join((f"schedule {NAME} for {program.name} {{", *steps, "}"))
    try:
        after = space_of_text(text, program).sample(0).program
    except ScheduleError:
        return None
    except FAULTS as error:
        return f"scheduling: {kind_of(error)}"
    try:
        assert not verify(after), "ill-formed"
        check_meaning(before, after, CHECKED, Counter())
        assert parse_program(print_program(after)) == after, "reads back as another"
    except FAULTS as error:
        return kind_of(error)
    return None


def statements(text: str) -> list[str]:
    """The statements of a printed schedule."""
    found: list[str] = []
    depth = 0
    for line in text.split("\n")[1:]:
        if depth == 0 and line.startswith("}"):
            break
        found = [*found[:-1], f"{found[-1]}\n{line}"] if depth else [*found, line]
        depth += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
    return found


# ------------------------------------------------------------------ smaller programs
def smaller(p: Program) -> Iterator[Program]:
    """Programs with one thing less."""
    for path in walk_paths(p.body):
        yield replace(p, body=prune(replace_at(p.body, path, ())))
        match path[-1]:
            case For() | Let() | If() as s:
                inner = s.then if isinstance(s, If) else s.body
                yield replace(p, body=replace_at(p.body, path, inner))
            case Block() as b:
                if b.predicate != TRUE:
                    yield replace(p, body=replace_at(p.body, path, (replace(b, predicate=TRUE),)))
                if b.init is not None:
                    yield replace(p, body=replace_at(p.body, path, (replace(b, init=None),)))
            case Store() as s:
                for value in _simpler(s.value):
                    yield replace(p, body=replace_at(p.body, path, (replace(s, value=value),)))
    used = {x.buffer for path in walk_paths(p.body) for x in _touches(path[-1])}
    for q in p.params:
        if q.buffer.name not in used:
            yield replace(p, params=tuple(x for x in p.params if x is not q))
    for b in p.allocs:
        if b.name not in used:
            yield replace(p, allocs=tuple(x for x in p.allocs if x is not b))


def _touches(s: object) -> Iterator[Store | Load]:
    if isinstance(s, Store):
        yield s
    found: list[Load] = []

    def note(e: Expr) -> Expr:
        found.extend(x for x in walk_expr(e) if isinstance(x, Load))
        return e

    map_stmt_exprs(s, note)  # type: ignore[arg-type]
    yield from found


def _simpler(e: Expr) -> Iterator[Expr]:
    match e:
        case Binary(left=a, right=b, op=op):
            if op not in ("<", "<=", ">", ">=", "==", "!="):
                yield from (a, b)
            yield from (replace(e, left=x) for x in _simpler(a))
            yield from (replace(e, right=x) for x in _simpler(b))
        case Select(then=a, otherwise=b):
            yield from (a, b)
            yield from (replace(e, then=x) for x in _simpler(a))
            yield from (replace(e, otherwise=x) for x in _simpler(b))
        case Unary(operand=a):
            yield from (replace(e, operand=x) for x in _simpler(a))
        case Call(args=args):
            yield from args
        case Load(dtype=dtype):
            yield Const(1.0, dtype) if dtype[0] in "fb" and dtype != "bool" else Const(dtype == "bool" or 1, dtype)
        case Cast(dtype=dtype) if dtype not in ("bool", "f32", "f64", "f16", "bf16"):
            yield Const(1, dtype)


def _declared_anew(p: Program) -> Program:
    """The program with the regions that blocks of stores access now."""
    buffers = all_buffers(p)
    for path in walk_paths(p.body):
        match path[-1]:
            case Block(body=body) as b if not any(isinstance(q[-1], Block) for q in walk_paths(body)):
                reads, writes = infer_regions(replace(b, reads=(), writes=()), buffers)
                if (reads, writes) != (b.reads, b.writes):
                    done = replace(p, body=replace_at(p.body, path, (replace(b, reads=reads, writes=writes),)))
                    return _declared_anew(done)
    return p


def minimised(program: Program, steps: Sequence[str], cases: Sequence[Case]) -> tuple[Program, list[str], str]:
    """The smallest program and steps found that go wrong in the same way, and how."""
    wanted = outcome(program, steps, cases)
    for k in range(len(steps)):
        # A step whose text does not read back may hide what goes wrong without it.
        if wanted is None and (wanted := outcome(program, fewer := [*steps[:k], *steps[k + 1 :]], cases)) is not None:
            steps = fewer
    assert wanted is not None, "the schedule's text does not go wrong as the pair did"
    steps, changed = list(steps), True
    while changed:
        changed = False
        for k in reversed(range(len(steps))):
            fewer = steps[:k] + steps[k + 1 :]
            if outcome(program, fewer, cases) == wanted:
                steps, changed = fewer, True
        for candidate in smaller(program):
            try:
                made = parse_program(print_program(_declared_anew(candidate)))
            except FAULTS:
                continue
            if made != program and outcome(made, steps, cases) == wanted:
                program, changed = made, True
                break
    for case in cases:
        if outcome(program, steps, [case]) == wanted:
            return program, steps, f"{wanted}, sizes {dict(case.sizes)}"
    return program, steps, wanted


def main() -> int:
    """Minimise the fault of one pair."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--generator", choices=list(GENERATORS), default="instances")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pair", type=int, nargs="+")
    options = parser.parse_args()
    for number in options.pair:
        generator = GENERATORS[options.generator]
        before, rng = generator.draw(options.seed, number)
        schedule = Schedule(before.program, seed=number)
        try:
            generator.schedule(schedule, number, rng, Tally(), generator.weights)
        except FAULTS as error:
            print(f"# pair {number}: scheduling ends in {type(error).__name__}: {error}")
        program, steps, how = before.program, statements(schedule.trace.as_ms(NAME)), ""
        try:
            program, steps, how = minimised(before.program, steps, before.cases)
        except FAULTS as error:
            how = f"not minimised: {error}"
        print(f"# pair {number}: {how}\n{print_program(program)}")
        print("\n".join((f"schedule {NAME} for {program.name} {{", *steps, "}\n")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
