"""The Python API: what `import mslang as ms` offers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mslang.diagnostics import Diagnostic, MsError, Severity, problem
from mslang.ide.findings import findings
from mslang.ir.program import Program
from mslang.schedule.interpret import World
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.module import Module
from mslang.sema.modules import load as load_module
from mslang.sema.program import instantiate, parse_program
from mslang.target.description import Target
from mslang.target.detect import host
from mslang.transform.registries import REGISTRY, Registry

if TYPE_CHECKING:
    from mslang.runtime.kernel import LoadedKernel
    from mslang.tune.progress import Event
    from mslang.tune.result import Tuned

NO_SIZES: Mapping[str, int] = {}


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

    def space(self, name: str, *, target: Target | None = None, sizes: Mapping[str, int] = NO_SIZES) -> Space:
        """The space that a schedule or space spans; `machine` is `target` (default: this machine)."""
        world = World(machine=target or host(), registry=self.registry)
        return space_of(self.module, name, world=world, sizes=sizes)

    def __repr__(self) -> str:
        return f"<{self.module.path}: {', '.join((*self.programs, *self.spaces)) or 'empty'}>"


def load(path: str | os.PathLike[str], *, registry: Registry = REGISTRY) -> Source:
    """The file's programs and schedules. Raises MsError with all its errors if there are any.

    `registry` says which primitives its schedules may use: `ms.REGISTRY.with_(mine)` adds one without installing it.

    >>> import mslang as ms
    >>> gemm = ms.load("gemm.ms").program(M=64)  # doctest: +SKIP
    """
    return _clean(load_module(os.fspath(path)), registry)


def parse(text: str, path: str = "text.ms", *, registry: Registry = REGISTRY) -> Source:
    """The same for a text; `use "./other.ms"` is looked up beside `path`."""
    return _clean(load_module(path, text), registry)


def _clean(module: Module, registry: Registry) -> Source:
    errors = [d for d in findings(module, registry) if d.severity is Severity.ERROR]
    if errors:
        raise MsError(*errors)
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


def build(program: Program, target: Target | None = None, *, checked: bool = False) -> LoadedKernel:
    """Compile a program (scheduled or not) and load it: a callable over NumPy arrays and whatever speaks DLPack.

    It takes and gives the arrays of the unscheduled program. Parameters to which the schedule gave another layout are
    packed and unpacked at each call, which is not timed; `kernel.pack("W", array)` packs one once.

    Args:
        program: what to compile.
        target: the machine (default: this one).
        checked: compare every index with its buffer's shape while running; slow.

    Raises:
        MsError: the program cannot be compiled.
        TargetError: LLVM has no code generator for the target.

    >>> import numpy
    >>> kernel = build(parse_program("program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] + 1.0 } }"))
    >>> kernel(numpy.zeros(4, numpy.float32)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    from mslang.backend.llvm.compile import compile
    from mslang.lower.lower import lower
    from mslang.runtime.kernel import load as load_kernel

    target = target or host()
    executable = compile(lower(program, target), target, checked)
    return load_kernel(executable.object, executable.signature)


def tune(
    space: Space,
    *,
    trials: int | None = 64,
    seconds: float | None = None,
    patience: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    target: Target | None = None,
    database: str | os.PathLike[str] = ".mslang/records.db",
    listen: Callable[[Event], None] = lambda _: None,
) -> Tuned:
    """Search a space for its fastest schedule, measuring on this machine; see `mslang.tune.tune.tune`."""
    from mslang.tune.budget import Budget
    from mslang.tune.result import Tuned
    from mslang.tune.search import Settings, Task
    from mslang.tune.tune import tune as run

    task = Task(space.program, space, target or host(), "python")
    settings = Settings(seed, Budget(trials, seconds, patience))
    done = run(task, settings, database=Path(database), workers=workers, listen=listen)
    return Tuned(task, done)
