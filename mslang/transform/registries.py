"""Registries: which primitives there are. The built-in ones are in each, a user's own come on top."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mslang.diagnostics import Diagnostic, MsError, ScheduleError, problem
from mslang.extensions import PRIMITIVES, Extension, declared, extension, package_of
from mslang.ops.signature import Signature
from mslang.sema.module import Module
from mslang.suggestions import did_you_mean
from mslang.transform.outcome import Outcome
from mslang.transform.primitive import Primitive
from mslang.transform.registry import IMPLEMENTATIONS, OPERATIONS


class Registry(msgspec.Struct, frozen=True):
    """A set of operations. It never changes: `with_` gives another.

    `own` are primitives given to it from Python. `packages` are the installed packages whose primitives count
    (None: all); they are found by entry points and loaded when their name is first met. A built-in name means the
    built-in operation, always; a name of `own` comes before an installed one.
    """

    own: tuple[Primitive[Any], ...] = ()
    packages: frozenset[str] | None = None

    def with_(self, *primitives: Primitive[Any]) -> Registry:
        """The registry that has these primitives, too.

        Raises:
            MsError: MS213, one has the name of another or of a built-in operation.

        >>> from mslang.transform.primitive import primitive
        >>> from mslang.transform.outcome import LoopRef, Outcome
        >>> from mslang.ir.program import Program
        >>> @primitive()
        ... def same(program: Program, loop: LoopRef) -> Outcome:
        ...     return Outcome(program)
        >>> REGISTRY.with_(same).find("same").text
        'loop.same()'
        """
        taken = {*OPERATIONS, *(p.name for p in self.own)}
        for p in primitives:
            if p.name in taken:
                raise MsError(taken_name(p.name))
            taken.add(p.name)
        return Registry((*self.own, *primitives), self.packages)

    def find(self, name: str) -> Signature | None:
        """The operation of a name; None if there is none that can be used (`problem` may say why)."""
        built_in = OPERATIONS.get(name)
        if built_in is not None:
            return built_in
        found = self._primitive(name)
        return None if found is None else found.signature

    def own_named(self, name: str) -> Signature | None:
        """The operation of a name that is not built in."""
        return None if name in OPERATIONS else self.find(name)

    def signature(self, name: str) -> Signature:
        """The operation of a name.

        Raises:
            ScheduleError: there is none, or why it cannot be used.
        """
        if not isinstance(name, str):
            raise ScheduleError(problem("MS203", f"{name!r} is not a name of an operation"))
        found = self.find(name)
        if found is None:
            help = did_you_mean(name, self.operations)
            raise ScheduleError(self.problem(name) or problem("MS201", f"there is no operation `{name}`", help=help))
        return found

    def implementation(self, name: str) -> Callable[..., Outcome]:
        """What applies a primitive: takes the program, then the arguments by name.

        Raises:
            ScheduleError: there is none, or why it cannot be used.
        """
        if name in IMPLEMENTATIONS:
            return IMPLEMENTATIONS[name]
        self.signature(name)
        found = self._primitive(name)
        assert found is not None
        return found.run

    def doc(self, name: str) -> str:
        """The documentation of a primitive, as written where it is implemented ("" if it has none)."""
        if name in IMPLEMENTATIONS:
            return inspect.getdoc(IMPLEMENTATIONS[name]) or ""
        found = self._primitive(name)
        return "" if found is None else found.doc

    def problem(self, name: str) -> Diagnostic | None:
        """Why a name that a package declares cannot be used; None if no package declares it, or it can be."""
        found = self._extension(name)
        if found is not None and not self._admits(found):
            return problem(
                "MS215",
                f"`{name}` of the package {found.package} is not allowed here",
                why="the editor loads only packages that the workspace's owner allows",
                help=f'add "{found.package}" to the setting `mslang.primitives.allowed`',
            )
        return None if found is None else found.problem

    @property
    def operations(self) -> Mapping[str, Signature]:
        """Every operation by name; loads all packages that count."""
        installed = (e.value for e in self.installed() if isinstance(e.value, Primitive))
        return {**{p.name: p.signature for p in (*installed, *self.own)}, **OPERATIONS}

    def installed(self) -> tuple[Extension, ...]:
        """What packages declare and count, with what is wrong with them."""
        names = declared(PRIMITIVES)
        found = (self._extension(n) for n in names)
        return tuple(e for e in found if e is not None and self._admits(e))

    def _primitive(self, name: str) -> Primitive[Any] | None:
        own = next((p for p in self.own if p.name == name), None)
        if own is not None:
            return own
        found = self._extension(name)
        if found is None or not self._admits(found) or not isinstance(found.value, Primitive):
            return None
        return found.value

    def _extension(self, name: str) -> Extension | None:
        points = declared(PRIMITIVES).get(name, ())
        if not points:
            return None
        packages = [package_of(p) for p in points]
        if self.packages is not None and not self.packages.issuperset(packages):
            # What is not allowed is not even imported.
            return Extension(name, ", ".join(packages))
        found = extension(PRIMITIVES, name, Primitive)
        if found is None or found.problem is not None:
            return found
        if name in OPERATIONS:
            return Extension(name, found.package, problem=taken_name(name))
        if isinstance(found.value, Primitive) and found.value.name != name:
            return Extension(
                name,
                found.package,
                problem=problem(
                    "MS212",
                    f"`{name}` of the package {found.package} cannot be loaded",
                    why=f"the primitive calls itself `{found.value.name}`",
                    help="give entry point and primitive the same name",
                ),
            )
        return found

    def _admits(self, found: Extension) -> bool:
        return self.packages is None or self.packages.issuperset(found.package.split(", "))


def taken_name(name: str) -> Diagnostic:
    """The diagnostic of a primitive whose name another operation has."""
    what = "a built-in operation" if name in OPERATIONS else "another primitive"
    return problem(
        "MS213",
        f"there is {what} called `{name}`",
        why="a name stands for one operation, so that a text means the same everywhere",
        help="call the primitive something else: `@primitive(name=…)`",
    )


REGISTRY = Registry()
"""The built-in operations and those of all installed packages."""

BUILT_IN = Registry(packages=frozenset())
"""The built-in operations alone."""


def registry_of(module: Module) -> Registry:
    """The operations that the schedules of a module may use."""
    return REGISTRY if module.packages is None else Registry(packages=module.packages)
