"""The tuning tasks of a file: each program with the spaces declared for it, or with the automatic space.

A program with dynamic sizes is a task for each bucket of their range, measured at sizes that stand for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.backend.registry import compiling, require_runnable, serving
from mslang.diagnostics import MsError, problem
from mslang.ir.buckets import Bucket, buckets_of, dynamic_sizes, require_sizes, restricted
from mslang.ir.expr import DynamicRange
from mslang.ir.program import Program
from mslang.schedule.interpret import World
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import machine_of, space_of
from mslang.sema.module import Found, Module
from mslang.sema.program import instantiate
from mslang.syntax import tree
from mslang.target.description import Target
from mslang.tune.instances import Instance, fits, instances_for
from mslang.tune.origin import space_hash
from mslang.tune.record import Sources
from mslang.tune.reference import small_program
from mslang.tune.task import Task


class Named(msgspec.Struct, frozen=True):
    """A task with the names of its program, its space, and the best schedule to be written.

    `bucket` says which sizes it is for, where the program has dynamic ones.
    """

    task: Task
    program: str
    space: str
    best: str
    small: Program | None
    bucket: Bucket | None = None

    @property
    def weight(self) -> float:
        """How much a second counts where nothing else is said: how often the sizes of a bucket are called."""
        return float(sum(i.weight for i in self.task.instances)) if self.task.instances else 1.0


def tasks_of(
    module: Module,
    name: str | None,
    sizes: Mapping[str, int],
    target: Target,
    backend: str | None = None,
    rules: str | None = None,
    likely: Sequence[Instance] = (),
) -> Iterator[Named]:
    """The tasks that a file, or one item of it, stands for.

    A program is tuned in the spaces written for it: its `space` items, else each of its schedules; a program that has
    neither in the automatic space. Of a whole file that has any, programs without one are passed over. A space or
    schedule is tuned alone. `backend` names what compiles (default: what serves the target), `rules` the set that makes
    automatic spaces (default: that of the target); where it is given, spaces written for the programs are passed over.
    `likely` are dynamic sizes that calls are likely to have: buckets without any are passed over (default: all buckets,
    at their least, middle and greatest sizes).

    Raises:
        MsError: MS504 if there is no program, or nothing of it can be measured; MS273 if there are no such rules.
    """
    if name is not None and name not in module.programs:
        item = module.spaces.get(name) or module.schedules.get(name)
        assert item is not None
        program = _program_name(item)
        yield from _tasks(module, program, name, sizes, target, backend, likely)
        return
    programs = [name] if name is not None else list(module.programs)
    written = [(program, space) for program in programs for space in spaces_for(module, program)]
    found = written if rules is None else []
    if not programs:
        raise MsError(problem("MS504", f"{module.path} has no program to tune", help="name a file that has one"))
    if not found:
        for program in programs:
            yield from _automatic(module, program, sizes, target, backend, rules, likely)
    for program, space in found:
        yield from _tasks(module, program, space, sizes, target, backend, likely)


def spaces_for(module: Module, program: str) -> list[str]:
    """The spaces written for a program, else the schedules for it that are neither pinned nor what tuning found."""
    spaces = [n for n, s in module.spaces.items() if _is_for(s, program)]
    return spaces or [
        n
        for n, s in module.schedules.items()
        if _is_for(s, program) and s.body is not None and not (n == _best(program) and _is_flat(s.body))
    ]


def _best(program: str) -> str:
    """What the best schedule of a program is called."""
    return f"{program}_best"


def _is_flat(body: tree.Body) -> bool:
    """Does a body leave nothing open, like a trace printed flat?"""
    plain = (tree.Let, tree.CallStmt, tree.Require)
    return all(s.value is not None if isinstance(s, tree.Sample) else isinstance(s, plain) for s in body.statements)


def _is_for(item: tree.Space | tree.Schedule, program: str) -> bool:
    return item.program is not None and item.program[-1].text == program


def _program_name(item: tree.Space | tree.Schedule) -> str:
    if item.program is None:
        raise MsError(
            problem("MS504", f"`{item.name.text}` does not say which program it is for", help="write `for program`")
        )
    return item.program[-1].text


def _tasks(
    module: Module,
    program: str,
    space: str,
    sizes: Mapping[str, int],
    target: Target,
    backend: str | None,
    likely: Sequence[Instance],
) -> Iterator[Named]:
    """The tasks of a space that was written: one, or one for each bucket."""
    found = module.find(space)
    wanted = machine_of(found, target) if isinstance(found, Found) else target
    made_by, machine = compiling(wanted, target, backend)
    require_runnable(made_by, machine)
    world = World(machine=target)
    whole = space_of(module, space, world=world, sizes=sizes)
    small, sources = small_program(module, program, sizes), Sources(space_hash(module.file.text))
    task = Task(whole.program, whole, machine, module.path, sources, backend=made_by)
    for own, bucket in by_bucket(task, likely, lambda p: space_of(module, space, p, world=world, sizes=sizes)):
        yield Named(own, program, space, _best(program), small, bucket)


def _automatic(
    module: Module,
    name: str,
    sizes: Mapping[str, int],
    target: Target,
    backend: str | None,
    rules: str | None,
    likely: Sequence[Instance],
) -> Iterator[Named]:
    made_by, _ = compiling(target, target, backend)

    def space(program: Program) -> Space:
        if rules is None:
            return automatic_space(program, target, module=module)
        return space_named(program, target, rules, module=module)

    program = instantiate(module, name, sizes)
    small = small_program(module, name, sizes)
    task = Task(program, space(program), target, module.path, backend=made_by)
    for own, bucket in by_bucket(task, likely, space):
        yield Named(own, name, name, _best(name), small, bucket)


def over_whole_range(task: Task) -> Task:
    """The task, measured at sizes that stand for the whole range of its dynamic sizes, if it has any."""
    sizes = dynamic_sizes(task.program)
    if not sizes:
        return task
    whole = Bucket(tuple((s.text, s.domain) for s in sizes if isinstance(s.domain, DynamicRange)))
    instances = instances_for(whole, ())
    return replace(task, instances=instances if task.compiler.time is None else instances[-1:])


def by_bucket(
    task: Task, likely: Sequence[Instance], space: Callable[[Program], Space]
) -> Iterator[tuple[Task, Bucket | None]]:
    """The task, or that of each bucket of its program: those that hold likely sizes, and whose arrays can be made.

    Args:
        task: for the whole range of the program's dynamic sizes.
        likely: sizes that calls are likely to have.
        space: the space of the program of a bucket.

    Raises:
        MsError: MS504, there is none; MS112, a likely size is unknown, or outside of its range.
    """
    whole = buckets_of(task.program)
    if not whole:
        yield task, None
        return
    for each in likely:
        require_sizes(task.program, each.sizes)
    count = 0
    for bucket in whole:
        instances = instances_for(bucket, likely)
        if task.compiler.time is not None:
            # What times by itself takes one call.
            instances = instances[-1:]
        if instances and fits(task.program, instances):
            program = restricted(task.program, bucket)
            yield replace(task, program=program, space=space(program), instances=instances), bucket
            count += 1
    if not count:
        why = "the arrays of all its dynamic sizes are too large to be measured on"
        raise MsError(problem("MS504", f"nothing of {task.program.name} can be tuned", why=why, help="`--likely M=…`"))


def default_candidate(named: Named) -> Candidate | None:
    """The schedule that a program in the automatic space has without tuning, so that tuning never gives a slower one.

    None where the space was written for the program.
    """
    return None if named.space != named.program else default_of(named.task)


def default_of(task: Task) -> Candidate | None:
    """The schedule that the program of a task has without tuning: that of its back end, if it has one of its own."""
    own = (task.backend or serving(task.target)).default
    try:
        found = (own or default_schedule)(task.program, task.target)
    except MsError:
        return None
    return found if found.trace.instructions else None
