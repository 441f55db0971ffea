"""What installed packages add by entry points: primitives, reducers and the like, each loaded when first asked for.

A package declares an extension in its metadata; nothing is loaded by installing it:

    [project.entry-points."mslang.primitives"]
    interleave = "package.module:interleave"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Diagnostic, problem

PRIMITIVES = "mslang.primitives"
"""The group of entry points that name primitives."""

REDUCERS = "mslang.reducers"
"""The group of entry points that name reducers."""


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
    diagnostic each, and harm nothing else.
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
    except Exception as failure:  # noqa: BLE001 - whatever a package does when imported is its fault, told as one diagnostic
        return Extension(name, packages, problem=_broken(point, f"{type(failure).__name__}: {failure}"))
    if not isinstance(value, kind):
        why = f"`{point.value}` is no {kind.__name__} but {_described(value)}"
        return Extension(name, packages, problem=_broken(point, why))
    return Extension(name, packages, value)


def _described(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _broken(point: EntryPoint, why: str) -> Diagnostic:
    return problem(
        "MS212",
        f"`{point.name}` of the package {package_of(point)} cannot be loaded",
        why=why,
        help=f"mend or uninstall {package_of(point)}; its entry point is `{point.value}`",
    )


def extensions(group: str, kind: type) -> tuple[Extension, ...]:
    """Every extension of a group in the order of their names, broken ones too."""
    found = (extension(group, name, kind) for name in declared(group))
    return tuple(e for e in found if e is not None)
