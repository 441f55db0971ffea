"""The Python API: what `import mslang as ms` offers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mslang.backend.backend import BackEnd, Loaded, Options
from mslang.backend.registry import back_end, runnable_target, serving
from mslang.brevity import brief
from mslang.diagnostics import Diagnostic, MsError, Severity, bounded_depth, problem
from mslang.ide.findings import findings
from mslang.ir.access_bounds import require_inside
from mslang.ir.dtype import SCALARS
from mslang.ir.program import Program
from mslang.ir.unwritten import require_written
from mslang.notebook import page
from mslang.runtime import arrays
from mslang.runtime.arrays import ALIGNMENT
from mslang.runtime.signature import Signature
from mslang.schedule.interpret import World
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.rule import Rule
from mslang.schedule.schedule import Schedule
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.schedule.trace import Value
from mslang.sema.literals import limits
from mslang.sema.module import Module
from mslang.sema.modules import load as load_module
from mslang.sema.program import instantiate, parse_program
from mslang.suggestions import did_you_mean
from mslang.target.description import Target
from mslang.target.detect import host
from mslang.target.named import named_target
from mslang.transform.registries import REGISTRY, Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mslang.apply.passes import Applied, Pass
    from mslang.ir.buckets import Bucket
    from mslang.perf.result import KernelProfile
    from mslang.tune.builder import Builder
    from mslang.tune.callbacks import Callback
    from mslang.tune.instances import Instance
    from mslang.tune.progress import Event
    from mslang.tune.result import Tuned
    from mslang.tune.runner import Runner
    from mslang.tune.stores import Store
    from mslang.tune.task_scheduler import TaskScheduler

NO_SIZES: Mapping[str, int] = MappingProxyType({})
NO_PINS: Mapping[str, Value] = MappingProxyType({})
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})


class Source:
    """A `.ms` file or text: its programs and spaces by name, its diagnostics."""

    def __init__(self, module: Module, registry: Registry = REGISTRY) -> None:
        self.module = module
        self.registry = registry

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything found without running anything."""
        return findings(self.module, self.registry)

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of the programs."""
        return tuple(self.module.programs)

    @property
    def spaces(self) -> tuple[str, ...]:
        """The names of the schedules and spaces."""
        return (*self.module.schedules, *self.module.spaces)

    def program(self, name: str | None = None, **sizes: int) -> Program:
        """A program with its sizes; `name` may be left out if there is only one.

        Raises:
            MsError: MS704, there is none or several to choose from; or what is wrong with it.
        """
        if name is None and len(self.programs) != 1:
            there_are = "several programs" if self.programs else "no program"
            raise MsError(problem("MS704", f"{self.module.path} has {there_are}", why=", ".join(self.programs) or None))
        return instantiate(self.module, self.programs[0] if name is None else name, sizes)

    def space(
        self,
        name: str,
        *,
        target: Target | str | None = None,
        sizes: Mapping[str, int] = NO_SIZES,
        rules: Iterable[Rule] = (),
    ) -> Space:
        """The space that a schedule or space spans.

        Args:
            name: the schedule or space.
            target: the value of `machine`, or the name of a target (default: this machine).
            sizes: sizes of the program; the others take their defaults.
            rules: rules that its text may name, by `std.rules.named` or annotation.
        """
        machine = named_target(target) if isinstance(target, str) else target or host()
        world = World(machine=machine, registry=self.registry, rules=tuple(rules))
        return space_of(self.module, name, world=world, sizes=sizes)

    def __repr__(self) -> str:
        return f"<{self.module.path}: {', '.join((*self.programs, *self.spaces)) or 'empty'}>"

    def _repr_html_(self) -> str:
        return page(self.module.path, text=self.module.file.text)


def load(path: str | os.PathLike[str], *, registry: Registry = REGISTRY) -> Source:
    """The file's programs and schedules. Raises MsError with all its errors if there are any.

    `registry` says which primitives its schedules may use: `ms.REGISTRY.with_(mine)` adds one without installing it.

    >>> import mslang as ms
    >>> gemm = ms.load("gemm.ms").program(M=64)  # doctest: +SKIP
    """
    with bounded_depth(path):
        return _clean(load_module(os.fspath(path)), registry)


def parse(text: str, path: str = "text.ms", *, registry: Registry = REGISTRY) -> Source:
    """The same for a text; `use "./other.ms"` is looked up next to `path`."""
    with bounded_depth(path):
        return _clean(load_module(path, text), registry)


def _clean(module: Module, registry: Registry) -> Source:
    errors = [d for d in findings(module, registry) if d.severity is Severity.ERROR]
    if errors:
        raise MsError(*errors, sources={module.path: module.file.text})
    return Source(module, registry)


def program(source: Callable[[], Program | None]) -> Program:
    """`@ms.program`: a program from a function that returns one (made with `ms.ir.build` or `ms.te`), or whose
    docstring is its `.ms` text.

    >>> @program
    ... def double():
    ...     '''program double(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] * 2.0 } }'''
    >>> double.name
    'double'
    """
    made = source()
    return made if made is not None else parse_program(_docstring(source))


def schedule(source: Callable[[], None]) -> Source:
    """`@ms.schedule`: the `.ms` text in a function's docstring, programs and schedules alike."""
    return parse(_docstring(source), f"{source.__name__}.ms")


def _docstring(source: Callable[[], object]) -> str:
    import inspect

    return inspect.getdoc(source) or ""


def build(
    program: Program | Schedule | Candidate | Tuned | Applied | Space | Source,
    target: Target | str | None = None,
    *,
    seed: int = 0,
    pins: Mapping[str, Value] = NO_PINS,
    checked: bool = False,
    allow_native: bool = False,
    backend: BackEnd[Any] | str | None = None,
) -> Loaded:
    """Compile a program (scheduled or not) and load it: a callable over NumPy arrays and whatever speaks DLPack.

    It takes and gives the arrays of the unscheduled program. Parameters to which the schedule gave another layout are
    packed and unpacked at each call, which is not timed; `kernel.pack("W", array)` packs one once. Constant parameters
    (`const W`) are always packed so: a call takes what `pack` made, whatever the schedule.

    Args:
        program: a program, a `Schedule`, a candidate, a tuning result or what `apply` gave; a space, of which one
            candidate is drawn; or a source that holds one program and nothing else. Where `apply` found schedules
            for buckets of dynamic sizes, each call goes to the kernel of its sizes. Where it found a library call, the
            kernel runs that; with `checked` or `backend` the program itself is compiled.
        target: the machine or its name (`"avx2"`; default: this one).
        seed: a space's open decisions are drawn from it.
        pins: decisions of a space that are given, by address.
        checked: compare every index with its buffer's shape while running; slow.
        allow_native: let implementations in LLVM text call functions and hold assembly. They can then do whatever this
            process can: allow it only for files that you trust.
        backend: what compiles it, or its name (`"reference"` interprets; default: what serves the target).

    Raises:
        MsError: there is nothing to compile, or it cannot be compiled.
        TargetError: no code can be generated for the target, or this machine cannot run its code.

    >>> import numpy
    >>> kernel = build(parse_program("program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] + 1.0 } }"))
    >>> kernel(numpy.zeros(4, numpy.float32)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    from mslang.apply.passes import Applied
    from mslang.backend.dispatch import DispatchKernel, Serving
    from mslang.ir.buckets import dynamic_sizes

    wanted = _program_in(program, seed, pins)
    made_by, machine = _back_end(backend, target)

    def loaded(scheduled: Program, own: BackEnd[Any] | None = None) -> Loaded:
        with bounded_depth(f"program `{scheduled.name}`"):
            require_inside(scheduled)
            require_written(scheduled)
            used = made_by if own is None or backend is not None or checked else own
            return used.loaded(scheduled, machine, Options(checked, allow_native))

    whole = loaded(wanted, program.backend if isinstance(program, Applied) else None)
    if not isinstance(program, Applied) or not dynamic_sizes(program.source):
        return whole
    cases = [Serving(case.bucket, loaded(case.applied.program, case.applied.backend)) for case in program.cases]
    return DispatchKernel(Signature.of_program(program.source), cases, whole)


def empty(shape: int | Sequence[int], dtype: str, *, align: int = ALIGNMENT) -> NDArray[Any]:
    """A row-major array that begins on a cache line; what it holds is not defined.

    NumPy aligns its own arrays to 16 bytes, so that a vector of 64 bytes that is read from one spans two lines.

    Args:
        shape: its extents; of one dimension also a number.
        dtype: an element type of the language (`"f32"`); bf16 is its bits in `uint16`, as kernels take it.
        align: the bytes that its address is a multiple of, a power of two; 64 at least.

    Raises:
        MsError: MS117, there is no such element type; MS412, an extent is no size; MS413, no such alignment.

    >>> a = empty((3, 5), "f32")
    >>> a.shape, a.dtype.name, a.ctypes.data % 64
    ((3, 5), 'float32', 0)
    """
    extents = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)
    if any(isinstance(n, bool) or not hasattr(n, "__index__") or index(n) < 0 for n in extents):
        why = "an extent is a whole number from 0 on"
        raise MsError(problem("MS412", f"there is no array of shape {brief(repr(shape))}", why=why))
    if dtype not in SCALARS:
        near = did_you_mean(dtype, SCALARS) if isinstance(dtype, str) else None
        help = near or f"there are: {', '.join(SCALARS)}"
        raise MsError(problem("MS117", f"unknown element type `{dtype}`", help=help))
    if isinstance(align, bool) or not hasattr(align, "__index__") or align < 1 or align & (align - 1):
        raise MsError(problem("MS413", f"no array is aligned to {brief(repr(align))}", why="that is no power of two"))
    return arrays.empty(tuple(map(index, extents)), dtype, align=index(align))


def profile_kernel(
    program: Program | Schedule | Candidate | Tuned | Applied | Space | Source,
    target: Target | str | None = None,
    *,
    parts: Sequence[str] = (),
    seconds: float = 1.0,
    seed: int = 0,
    pins: Mapping[str, Value] = NO_PINS,
    allow_native: bool = False,
) -> KernelProfile:
    """Where the time of a kernel goes: its loops timed while it runs, with their operations and bytes (`print` it).

    Args:
        program: what `build` takes.
        target: the machine or its name (default: this one).
        parts: loops, or blocks for their loops, to be timed besides the outermost ones and long inner ones.
        seconds: how long to measure.
        seed, pins, allow_native: those of `build`.

    Raises:
        MsError: MS710, there is no such loop in the compiled kernel; MS711, the target's back end cannot time parts; or
            the program cannot be compiled or run.

    >>> p = parse_program("program p(A: f32[4096], out B: f32[4096]) { block b[i: 4096] { B[i] = A[i] + 1.0 } }")
    >>> [row.name for row in profile_kernel(p, seconds=0.05).rows]
    ['p', 'i']
    """
    from mslang.apply.passes import Applied
    from mslang.perf.profile import profile_kernel as run

    scheduled = _program_in(program, seed, pins)
    made_by, machine = _back_end(None, target)
    if isinstance(program, Applied) and program.backend is not None:
        made_by = program.backend
    prepared = made_by.scheduled(scheduled, machine)
    return run(prepared, scheduled, machine, names=parts, seconds=seconds, backend=made_by, allow_native=allow_native)


def _back_end(given: BackEnd[Any] | str | None, target: Target | str | None) -> tuple[BackEnd[Any], Target]:
    """What compiles, and for which machine."""
    if given is None:
        machine = runnable_target(target)
        return serving(machine), machine
    machine = named_target(target) if isinstance(target, str) else target or host()
    return (back_end(given) if isinstance(given, str) else given), machine


def _program_in(what: object, seed: int, pins: Mapping[str, Value]) -> Program:
    """The program to compile."""
    from mslang.apply.passes import Applied
    from mslang.tune.result import Tuned

    match what:
        case Program():
            return what
        case Schedule() | Candidate() | Tuned() | Applied():
            return what.program
        case Space():
            return what.sample(seed, pins, strict=True).program
        case Source():
            return _only_program(what, "build")
    raise _misused("build", what, "a program, a schedule, a space or a candidate")


def tune(
    space: Space | Program | Source,
    *,
    trials: int | None = 64,
    seconds: float | None = None,
    patience: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    target: Target | str | None = None,
    database: str | os.PathLike[str] = ".mslang/records.db",
    listen: Callable[[Event], None] = lambda _: None,
    allow_native: bool = False,
    backend: BackEnd[Any] | str | None = None,
    builder: Builder | None = None,
    runner: Runner | None = None,
) -> Tuned:
    """Search for the fastest schedule, measuring on this machine; see `mslang.tune.tune.tune`.

    Args:
        space: a space; or a program, or a source that holds one and nothing else, which is searched in the automatic
            space (tiling, parallel and vectorized loops). One with dynamic sizes is measured at sizes that stand for
            their whole range; `ms.tune_all` tunes parts of it apart.
        trials: stop after so many candidates.
        seconds: stop after so much wall time.
        patience: stop after so many candidates without a faster one.
        seed: the same seed draws the same candidates.
        workers: processes that compile.
        target: the machine or its name (default: this one).
        database: the record store's file.
        listen: called with each event.
        allow_native: that of `build`.
        backend: that of `build`; worker processes import its functions.
        builder: compiles candidates in worker processes (default: the back end; `mslang.tune.builder`).
        runner: verifies and times them there (default: wall time; `mslang.tune.runner`).

    Raises:
        MsError: there is nothing to tune, or the search cannot begin.

    >>> tune("gemm")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mslang.diagnostics.MsError: error[MS706]: `ms.tune` takes a space or a program, not 'gemm'...
    """
    from mslang.tune.budget import Budget
    from mslang.tune.result import Tuned
    from mslang.tune.task import Settings, Task
    from mslang.tune.tasks import default_of, over_whole_range
    from mslang.tune.tune import tune as run

    made_by, machine = _back_end(backend, target)
    _require_numbers("tune", trials=trials, patience=patience, workers=workers)
    _require_seed("tune", seed)
    searched = _space_in(space, machine)
    task = Task(
        searched.program,
        searched,
        machine,
        "python",
        allow_native=allow_native,
        backend=made_by,
        builder=builder,
        runner=runner,
    )
    task = over_whole_range(task)
    settings = Settings(seed, Budget(trials, seconds, patience))
    # What the program would get without tuning is timed along with the best, so that tuning gives nothing slower.
    beside = None if isinstance(space, Space) else default_of(task)
    done = run(task, settings, database=Path(database), workers=workers, incumbent=beside, listen=listen)
    return Tuned(task, done)


def tune_all(
    items: Mapping[str, Space | Program | Source],
    *,
    weights: Mapping[str, float] = NO_WEIGHTS,
    likely: Sequence[tuple[Mapping[str, int], int]] = (),
    scheduler: TaskScheduler | str = "gradient",
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    target: Target | str | None = None,
    database: str | os.PathLike[str] = ".mslang/records.db",
    resume: bool = False,
    listen: Callable[[Event], None] = lambda _: None,
    callbacks: Iterable[Callback] = (),
    log: str | os.PathLike[str] | None = None,
    allow_native: bool = False,
    backend: BackEnd[Any] | str | None = None,
) -> dict[str, Tuned]:
    """Tune several programs with one budget; see `mslang.tune.tune.tune_all`.

    Args:
        items: what to tune, by name: what `ms.tune` takes. A program with dynamic sizes is a task for each bucket of
            their range, called `name[M = 17..32]`.
        likely: values of dynamic sizes that calls are likely to have, each with how often, relative to the others:
            buckets without any are skipped (default: all buckets, at their least, middle and greatest sizes).
        weights: how much a second of each counts (default 1), for the task scheduler.
        scheduler: what shares the trials among the tasks, or its name: `"gradient"`, `"round-robin"`.
        trials: candidates to try in all (default: 64 for each).
        patience: a task is over after so many candidates without a faster one.
        resume: go on with the last run of each.
        callbacks: called with each event, after `listen`; an error in one is a warning (MS545).
        log: a folder in which a log of each search is kept.

    The other arguments are those of `ms.tune`. Returns what was found, by name.

    Raises:
        MsError: there is nothing to tune, or one of them cannot be tuned; the others were, and are on record.

    >>> tune_all({})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mslang.diagnostics.MsError: error[MS706]: `ms.tune_all` was given nothing to tune...
    """
    from mslang.tune.budget import Budget
    from mslang.tune.log_folder import LogFolder
    from mslang.tune.result import Tuned
    from mslang.tune.session import Item
    from mslang.tune.task import Settings, Task
    from mslang.tune.task_scheduler import scheduler_named
    from mslang.tune.tasks import by_bucket, default_of, over_whole_range
    from mslang.tune.tune import tune_all as run

    if not isinstance(items, Mapping):
        raise _misused("tune_all", items, "programs and spaces by name, as `{'a': program}`")
    if not items:
        raise MsError(problem("MS706", "`ms.tune_all` was given nothing to tune", help="name a program or a space"))
    _require_numbers("tune_all", trials=trials, patience=patience, workers=workers)
    _require_seed("tune_all", seed)
    instances = [_likely(x) for x in likely]
    for name in weights:
        if name not in items or not 0 < weights[name] < float("inf"):
            why = f"the items are {', '.join(items)}; a weight is a positive number"
            raise MsError(problem("MS706", f"`weights` of `ms.tune_all` has {name!r}: {weights[name]!r}", why=why))
    made_by, machine = _back_end(backend, target)
    made: list[Item] = []
    for name, what in items.items():
        space = _space_in(what, machine)
        whole = Task(space.program, space, machine, "python", allow_native=allow_native, backend=made_by)
        parts: Iterable[tuple[Task, Bucket | None]] = [(over_whole_range(whole), None)]
        if not isinstance(what, Space):
            parts = by_bucket(whole, instances, lambda p: automatic_space(p, machine))
        for task, bucket in parts:
            own = name if bucket is None else f"{name}[{bucket.text}]"
            weight = weights.get(name, 1.0) * (1 if bucket is None else sum(i.weight for i in task.instances))
            made.append(Item(own, task, weight=weight, incumbent=None if isinstance(what, Space) else default_of(task)))
    named = [(getattr(each, "__name__", type(each).__name__), each) for each in callbacks]
    found = run(
        made,
        Settings(seed, Budget(64 * len(made) if trials is None else trials, seconds, patience)),
        database=Path(database),
        scheduler=scheduler_named(scheduler) if isinstance(scheduler, str) else scheduler,
        workers=workers,
        resume=resume,
        listen=listen,
        callbacks=[*named, *([] if log is None else [("log folder", LogFolder(Path(log)))])],
    )
    for done in found:
        if isinstance(done, MsError):
            raise done
    return {item.name: Tuned(item.task, done) for item, done in zip(made, found) if not isinstance(done, MsError)}


def apply(
    programs: Source | Program | Iterable[Program],
    passes: Sequence[str | Pass] = ("db", "dispatch", "default"),
    *,
    target: Target | str | None = None,
    database: Store | str | os.PathLike[str] | None = ".mslang/records.db",
    machine: str | None = None,
    patterns: Sequence[Source] = (),
) -> tuple[Applied, ...]:
    """The best schedule known for each program, by passes in order; nothing is tuned or measured.

    Args:
        programs: a source, of which all programs are meant; a program, or several.
        passes: what is asked for a schedule, in order: `"db"` (records of this machine), `"dispatch"` (schedules of
            programs that match a pattern), `"default"` (a fixed choice), `"library"` (functions of other libraries
            for programs that match a pattern, of packages that were allowed; `"library:NAME"`: one of them), or
            objects with a `name` and a method `serve(program, target)` that gives `Served` or `Missed`, such as an
            `ms.LibraryCall`.
        target: the machine or its name (default: this one).
        database: the records: a `Database` or another store, or the name of one; a file that is not there has none.
        machine: the key of the machine whose records count (default: this one).
        patterns: sources whose programs with schedules are patterns, before the library's.

    Returns what came of each program: `.program` is the scheduled one, `.by` the pass that served it, `.explanation()`
    says why others missed. `ms.build` takes it.

    Raises:
        MsError: MS611, there is no pass of a name; MS601 to MS603, the store cannot be used; MS271, MS272, a library
            call is not there or its package not allowed; MS614, it is not usable.

    >>> p = parse_program("program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] + 1.0 } }")
    >>> (done,) = apply(p, ["default"], target="avx2")
    >>> print(done.explanation())
    p: default: fixed choices for avx2, 1 steps
    """
    from mslang.apply.apply import apply as run
    from mslang.apply.standard import Sources, standard_passes
    from mslang.tune.stores import open_store

    world = named_target(target) if isinstance(target, str) else target or host()
    module = programs.module if isinstance(programs, Source) else None
    wanted = _programs_in(programs)
    opened = open_store(database) if isinstance(database, str | os.PathLike) and _is_there(database) else None
    store = opened if opened is not None or isinstance(database, str | os.PathLike) else database
    try:
        sources = Sources(world, store, module, tuple(p.module for p in patterns), machine)
        return run(wanted, standard_passes(passes, sources), world)
    finally:
        if opened is not None:
            opened.close()


def _is_there(database: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a kind of store, or of a file that there is."""
    return ":" in os.fspath(database) or Path(database).exists()


def _programs_in(what: Source | Program | Iterable[Program]) -> list[Program]:
    match what:
        case Source():
            return [what.program(n) for n in what.programs]
        case Program():
            return [what]
    found = list(what)
    wrong = next((p for p in found if not isinstance(p, Program)), None)
    if wrong is not None:
        raise _misused("apply", wrong, "a source or programs")
    return found


def _space_in(what: object, machine: Target) -> Space:
    """The space to search."""
    match what:
        case Space():
            return what
        case Program():
            return automatic_space(what, machine)
        case Source():
            return automatic_space(_only_program(what, "tune"), machine)
    raise _misused("tune", what, "a space or a program")


def _only_program(source: Source, verb: str) -> Program:
    """The program of a source that holds nothing else."""
    if source.spaces or len(source.programs) != 1:
        calls = [f"source.space({n!r})" for n in source.spaces] + [f"source.program({n!r})" for n in source.programs]
        why = f"{source.module.path} has {', '.join((*source.programs, *source.spaces)) or 'no program'}"
        help = f"say which: `ms.{verb}({calls[0]})`" if calls else None
        raise MsError(problem("MS704", f"`ms.{verb}` takes one program or space", why=why, help=help))
    return source.program()


def _require_numbers(verb: str, **given: object) -> None:
    """Raise MsError MS706 unless each argument is a whole number from 1 on, or None; workers are not too many."""
    from mslang.workers.pool import most_workers

    for name, number in given.items():
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            why = "it is a whole number from 1 on"
            raise MsError(problem("MS706", f"`{name}` of `ms.{verb}` is {brief(repr(number))}", why=why))
        if name == "workers" and number is not None and number > most_workers():
            why = f"at most {most_workers()} are of use on this machine"
            raise MsError(problem("MS706", f"`workers` of `ms.{verb}` is {number}", why=why))


def _require_seed(verb: str, seed: object) -> None:
    """Raise MsError MS706 unless a seed is one that records can keep."""
    most = limits("i64")[1]
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= most:
        why = f"it is a whole number from 0 to {most}"
        raise MsError(problem("MS706", f"`seed` of `ms.{verb}` is {brief(repr(seed))}", why=why))


def _likely(given: object) -> Instance:
    """A size that calls are likely to have, with how often: `({"M": 100}, 3)`."""
    from mslang.tune.instances import Instance

    match given:
        case (Mapping() as sizes, int() as often) if often > 0 and all(isinstance(n, int) for n in sizes.values()):
            return Instance({str(name): n for name, n in sizes.items()}, often)
    why = 'it is a list of sizes, each with how often, as `({"M": 100}, 3)`'
    raise MsError(problem("MS706", f"`likely` of `ms.tune_all` has {brief(repr(given))}", why=why))


def _misused(verb: str, what: object, wanted: str) -> MsError:
    help = None
    if isinstance(what, str | os.PathLike):
        help = f"`ms.load(path)` reads a file, `ms.parse(text)` a text; `ms.{verb}` takes what they give"
    elif isinstance(what, Schedule):
        help = "write it as a `schedule` in `.ms` text, where `~` leaves decisions open, and take `source.space(name)`"
    return MsError(problem("MS706", f"`ms.{verb}` takes {wanted}, not {brief(repr(what))}", help=help))
