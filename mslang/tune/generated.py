"""Generated tests: candidates of every space, schedule and rule compute what the unscheduled program computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mslang.diagnostics import Diagnostic, MsError, Span, TargetError, problem
from mslang.ir.program import Program
from mslang.ir.work import operations
from mslang.schedule.space import Candidate, Rejection, Space
from mslang.schedule.strategies import space_of
from mslang.schedule.testing import Equivalence, TestResult
from mslang.sema.module import Module
from mslang.syntax import tree
from mslang.tune.equivalence import ProgramFault, TooLong, difference
from mslang.tune.reference import small_program

LARGE = 2_000_000_000
"""Programs of up to this many operations are run at their declared sizes if no draw is valid at small ones."""

ATTEMPTS = 64
"""Draws tried per requested candidate: some are rejected by a `require`."""


def generated_tests(
    module: Module, samples: int, seed: int = 0, wanted: str | None = None, compare: Equivalence = difference
) -> Iterator[TestResult]:
    """For each item, `samples` draws on its program with small sizes, each compared with the unscheduled program.

    A rule is applied to every program of the file. A failing draw is shrunk: decisions are made as small as possible
    while it still fails, and the message is a pinned schedule that reproduces the failure. `wanted`: only tests whose
    title contains it.
    """
    for placed in module.file.items:
        item = placed.item
        match item:
            case tree.Schedule(program=path, name=name) | tree.Space(program=path, name=name) if path is not None:
                programs = [".".join(n.text for n in path)]
            case tree.Rule(name=name, params=params) if len(params) == 1:
                programs = list(module.programs)
            case _:
                continue
        for program in programs:
            title = f"{type(item).__name__.lower()} {name.text} keeps what {program} computes"
            small = small_program(module, program, {}) if wanted is None or wanted in title else None
            if small is None:
                continue
            span = name.span.shifted(placed.start)
            whole = partial(space_of, module, name.text) if isinstance(item, tree.Schedule | tree.Space) else None
            try:
                yield _test(module, title, span, space_of(module, name.text, small), samples, seed, whole, compare)
            except ProgramFault as error:
                yield TestResult(
                    title, module.path, span, tuple(_placed(d.at(span), module.path) for d in error.diagnostics)
                )


def _test(
    module: Module,
    title: str,
    span: Span,
    space: Space,
    samples: int,
    seed: int,
    whole: Callable[[], Space] | None,
    compare: Equivalence,
) -> TestResult:
    found = _drawn(module, title, span, space, samples, seed, compare)
    if found is not None:
        return found
    try:
        if whole is None:
            space.sample(seed)
            return TestResult(title, module.path, span)
        # Requirements, pins and divisibility may hold for the declared sizes only.
        real = whole()
        real.sample(seed)
    except MsError as error:
        return TestResult(title, module.path, span, error.diagnostics)
    work = None if real.program.dynamic else operations(real.program)
    found = _drawn(module, title, span, real, 1, seed, compare) if work is not None and work <= LARGE else None
    return found or TestResult(title, module.path, span)


def _drawn(
    module: Module, title: str, span: Span, space: Space, samples: int, seed: int, compare: Equivalence
) -> TestResult | None:
    """The result of a number of draws of a space; None if none is valid."""
    done, skipped = 0, list[str]()
    for attempt in range(samples * ATTEMPTS):
        if done + len(skipped) >= samples:
            break
        drawn = space.attempt(seed, attempt)
        if isinstance(drawn, Rejection):
            continue
        try:
            wrong = fault_of(space.program, drawn, compare)
        except (TooLong, TargetError) as error:
            skipped.append(error.diagnostic.message)
            continue
        done += 1
        if wrong is not None:
            smallest, wrong = shrink(space, space.program, drawn, wrong, compare)
            found = problem(
                "MS506",
                f"{title.partition(' keeps')[0]} changes what {space.program.name} computes",
                span=span,
                why=wrong,
                help=f"this draw shows it:\n{smallest.trace.as_ms('wrong')}",
            )
            return TestResult(title, module.path, span, (_placed(found, module.path),), done)
    reasons = tuple(dict.fromkeys(skipped))
    return TestResult(title, module.path, span, (), done, skipped=reasons) if done or reasons else None


def _placed(d: Diagnostic, path: str) -> Diagnostic:
    return d.placed(path, 0)


def fault_of(program: Program, candidate: Candidate, compare: Equivalence) -> str | None:
    """The failure of a candidate, or None.

    Raises:
        ProgramFault: the unscheduled program is wrong.
        TooLong: the candidate has too many iterations.
        TargetError: this machine lacks an instruction of the candidate.
    """
    try:
        return compare(program, candidate.program, 1e-4, 1e-5, 0)
    except (ProgramFault, TooLong, TargetError):
        raise
    except MsError as error:
        d = error.diagnostic
        return f"{d.message}: {d.why}" if d.why else d.message


def shrink(
    space: Space, program: Program, candidate: Candidate, wrong: str, compare: Equivalence
) -> tuple[Candidate, str]:
    """The candidate with numeric decisions as small as possible while it still fails."""
    better = True
    while better:
        better = False
        for address, value in candidate.decisions.items():
            for smaller in _smaller(value):
                try:
                    tried = space.replay({**candidate.decisions, address: smaller})
                except MsError:
                    continue
                try:
                    found = fault_of(program, tried, compare)
                except (TooLong, TargetError):
                    continue
                if found is not None:
                    candidate, wrong, better = tried, found, True
                    break
    return candidate, wrong


def _smaller(value: object) -> Iterator[int | tuple[int, ...]]:
    match value:
        case bool():
            return
        case int() if value > 1:
            yield from (1, value // 2)
        case tuple():
            # Factors move outward: [4, 8] becomes [32, 1], [16, 2], …
            for k in range(len(value) - 1, 0, -1):
                for prime in (2, 3, 5, 7):
                    if isinstance(value[k], int) and isinstance(value[0], int) and value[k] % prime == 0:
                        yield (value[0] * prime, *value[1:k], value[k] // prime, *value[k + 1 :])
