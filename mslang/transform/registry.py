"""The built-in primitives, all that `primitives/` declares; with samplers and getters they are the operations.

The decorator is the only declaration: a file in that folder makes a primitive built-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import Any

from mslang.ops.signature import Signature
from mslang.ops.table import GETTERS, SAMPLERS
from mslang.transform import primitives
from mslang.transform.outcome import Outcome
from mslang.transform.primitive import Primitive

FAMILIES = (
    "loops",
    "loop kinds",
    "annotations",
    "caching",
    "compute location",
    "inlining",
    "reductions",
    "blocks",
    "memory",
    "layout",
)
"""The families in the order of the reference; any others follow by name."""


def declared_in(package: ModuleType) -> tuple[Primitive[Any], ...]:
    """The primitives that the modules of a package declare, in the order of the reference: by family, of which the
    module of its name comes first, then by module."""
    return tuple(sorted(_declared(package), key=_place))


def _place(p: Primitive[Any]) -> tuple[int, str, bool]:
    family = p.signature.family
    known = FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)
    return known, family, not p.function.__module__.endswith("." + family.replace(" ", "_"))


def _declared(package: ModuleType) -> Iterator[Primitive[Any]]:
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(found.name)).values():
            # Primitives that a module imports are declared elsewhere.
            if isinstance(value, Primitive) and value.function.__module__ == found.name:
                yield value


BUILT_IN: tuple[Primitive[Any], ...] = declared_in(primitives)
"""The primitives, those of a family together."""

PRIMITIVES: tuple[Signature, ...] = tuple(p.signature for p in BUILT_IN)
"""The signatures of the built-in primitives."""

OPERATIONS: Mapping[str, Signature] = MappingProxyType({s.name: s for s in (*PRIMITIVES, *SAMPLERS, *GETTERS)})
"""Every built-in operation by name; a name stands for one operation only."""

IMPLEMENTATIONS: Mapping[str, Callable[..., Outcome]] = MappingProxyType({p.name: p.function for p in BUILT_IN})
"""Each takes the program first, then the arguments of its signature by name; a variadic one its handles as one
sequence."""
