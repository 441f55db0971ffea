"""What installed packages add by entry points, and which packages are allowed to.

A package declares an extension in its metadata; nothing is loaded by installing it:

    [project.entry-points."mslang.rules"]
    interchange = "package.module:interchange"

Loading an extension runs the package's code. A primitive or a back end is loaded when its name is met, which is how a
user asks for it. Everything else is loaded only from packages that were allowed: by `--extension PACKAGE`, or in Python
by `allowing`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import msgspec

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.suggestions import did_you_mean

PRIMITIVES = "mslang.primitives"
"""The group of entry points that name primitives."""

BACK_ENDS = "mslang.backends"
"""The group of entry points that name back ends."""

REDUCERS = "mslang.reducers"
"""The group of entry points that name reducers."""


RULES = "mslang.rules"
"""The group of entry points that name rules of spaces."""

SPACES = "mslang.spaces"
"""The group of entry points that name space generators: functions of a program and a target that give a space."""

POSTPROCESSORS = "mslang.postprocessors"
"""The group of entry points that name postprocessors of spaces."""

LIBRARY_CALLS = "mslang.library_calls"
"""The group of entry points that name library calls: functions that serve programs of a pattern."""

ON_REQUEST = (
    REDUCERS,
    RULES,
    SPACES,
    "mslang.mutators",
    POSTPROCESSORS,
    "mslang.strategies",
    "mslang.cost_models",
    "mslang.features",
    "mslang.builders",
    "mslang.runners",
    "mslang.callbacks",
    "mslang.task_schedulers",
    "mslang.databases",
    LIBRARY_CALLS,
)
"""The groups of which extensions are loaded only from allowed packages."""


@runtime_checkable
class Function(Protocol):
    """The kind of an extension that is called to make something, such as a strategy: a function or a class."""

    def __call__(self, *args: Any, **named: Any) -> object:
        """What it makes."""


_ALLOWED: ContextVar[frozenset[str]] = ContextVar("allowed", default=frozenset())


def allowed() -> frozenset[str]:
    """The packages whose extensions may be loaded here."""
    return _ALLOWED.get()


@contextmanager
def allowing(*packages: str) -> Iterator[None]:
    """Allow the extensions of some installed packages, within a context.

    Args:
        packages: names of packages as `pip` knows them.

    Raises:
        MsError: MS270, a package is not installed or declares no extension.

    >>> with allowing():
    ...     sorted(allowed())
    []
    """
    for package in packages:
        if package not in packages_declaring():
            known = ", ".join(packages_declaring()) or "none"
            raise MsError(
                problem(
                    "MS270",
                    f"no installed package `{package}` declares extensions",
                    why=f"the packages that declare some are: {known}",
                    help=did_you_mean(package, packages_declaring()),
                )
            )
    token = _ALLOWED.set(_ALLOWED.get() | frozenset(packages))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def packages_declaring() -> tuple[str, ...]:
    """The installed packages that declare extensions of any group; none is loaded."""
    points = (p for group in entry_points().groups if group.startswith("mslang.") for p in declared_points(group))
    return tuple(sorted({package_of(p) for p in points}))


def declared_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group."""
    return tuple(p for points in declared(group).values() for p in points)


def load(group: str, name: str, allowed: Collection[str], kind: type) -> object:
    """An extension by name, from an allowed package.

    Args:
        group: the group of entry points (`mslang.rules`).
        name: the entry point's name.
        allowed: the packages that may be loaded (`allowed()`: those that the user named).
        kind: the type that it must have (`Function` of what is called to make something).

    Raises:
        MsError: MS271, no package declares the name; MS272, its package is not allowed, and was not imported; MS212 or
            MS213, it cannot be loaded.
    """
    points = declared(group).get(name, ())
    if not points:
        known = tuple(declared(group))
        why = f"the packages installed declare {', '.join(known)}" if known else "no package installed declares any"
        raise MsError(
            problem("MS271", f"there is no `{name}` among `{group}`", why=why, help=did_you_mean(name, known))
        )
    barred = [package_of(p) for p in points if package_of(p) not in allowed]
    if barred:
        raise MsError(
            problem(
                "MS272",
                f"`{name}` of the package {barred[0]} is not loaded",
                why="loading an extension runs the package's code, and this package was not allowed",
                help=f"`--extension {barred[0]}` on the command line, `ms.allowing({barred[0]!r})` in Python",
            )
        )
    found = extension(group, name, kind)
    assert found is not None
    if found.problem is not None:
        raise MsError(found.problem)
    return found.value


def loaded(group: str, kind: type, allowed: Collection[str]) -> tuple[Extension, ...]:
    """The extensions of a group that allowed packages declare, in the order of their names, broken ones too."""
    names = [n for n, points in declared(group).items() if all(package_of(p) in allowed for p in points)]
    found = (extension(group, name, kind) for name in names)
    return tuple(e for e in found if e is not None)


class Extension(msgspec.Struct, frozen=True):
    """What an entry point names: the object, or the diagnostic that says why it could not be loaded."""

    name: str
    package: str
    value: object = None
    problem: Diagnostic | None = None


@cache
def declared(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name, none of them loaded; a name that two packages declare has two."""
    found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for point in sorted(entry_points(group=group), key=lambda p: (p.name, package_of(p))):
        found.setdefault(point.name, {})[package_of(point), point.value] = point
    return MappingProxyType({name: tuple(points.values()) for name, points in found.items()})


def package_of(point: EntryPoint) -> str:
    """The name of the package that declares an entry point."""
    return point.dist.name if point.dist is not None else point.value.partition(".")[0]


@cache
def extension(group: str, name: str, kind: type) -> Extension | None:
    """The extension of a name, which must be a `kind`; None if no package declares one.

    A package that cannot be imported, an object of another kind, or a name that several packages claim give one
    diagnostic each, and harm nothing else. A class counts as a `Function` only: it has the methods of its values, but
    cannot stand for one.
    """
    points = declared(group).get(name, ())
    if not points:
        return None
    packages = ", ".join(package_of(p) for p in points)
    if len(points) > 1:
        return Extension(
            name,
            packages,
            problem=problem(
                "MS213",
                f"several packages declare `{name}`",
                why=f"they are {packages}",
                help="uninstall all but one of them",
            ),
        )
    point = points[0]
    try:
        value = point.load()
    except Exception as failure:  # noqa: BLE001 - whatever a package does when imported is its fault, reported as one diagnostic
        return Extension(name, packages, problem=_broken(point, f"{type(failure).__name__}: {failure}"))
    if not isinstance(value, kind) or (isinstance(value, type) and kind is not Function):
        expected = "a function or class" if kind is Function else _with_article(kind.__name__)
        found = f"the class `{value.__name__}`" if isinstance(value, type) else _with_article(type(value).__name__)
        return Extension(name, packages, problem=_broken(point, f"`{point.value}` is not {expected} but {found}"))
    return Extension(name, packages, value)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _broken(point: EntryPoint, why: str) -> Diagnostic:
    return problem(
        "MS212",
        f"`{point.name}` of the package {package_of(point)} cannot be loaded",
        why=why,
        help=f"fix or uninstall {package_of(point)}; its entry point is `{point.value}`",
    )


def extensions(group: str, kind: type) -> tuple[Extension, ...]:
    """Every extension of a group in the order of their names, broken ones too."""
    found = (extension(group, name, kind) for name in declared(group))
    return tuple(e for e in found if e is not None)
