"""Text and files: their programs, schedules and diagnostics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from mslang.diagnostics import Diagnostic, MsError, Severity, bounded_depth, problem
from mslang.ide.findings import findings
from mslang.ir.program import Program
from mslang.notebook import page
from mslang.schedule.interpret import World
from mslang.schedule.rules.rule import Rule
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.module import Module
from mslang.sema.modules import load as load_module
from mslang.sema.program import instantiate, parse_program
from mslang.target.description import Target
from mslang.target.named import target_of
from mslang.transform.registries import REGISTRY, Registry

NO_SIZES: Mapping[str, int] = MappingProxyType({})


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

    def program(self, name: str | None = None, /, **sizes: int) -> Program:
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
        machine = target_of(target)
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
        # As in a file, a byte order mark at the start is no part of the text.
        return _clean(load_module(path, text.removeprefix("\ufeff")), registry)


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
