"""TVM's annotations whose values are buffers, and its attribute of functions that is about parameters; here the values
of such annotations are names of buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from mslang.ir.program import AttrValue, Program

T = TypeVar("T")

BUFFERS = "layout_free_placeholders"
"""The key of an annotation that is a list of buffers."""

CONSTANTS = "layout_free_buffers"
"""The attribute of a function that lists its constant parameters, by position."""


def with_constants(program: Program, said: AttrValue, places: Sequence[int]) -> Program:
    """The program with the constant parameters that `CONSTANTS` lists, but those that are written.

    Args:
        program: the program.
        said: the attribute's value.
        places: the position of each parameter in the function.
    """
    listed = said if isinstance(said, tuple) else ()
    pairs = zip(program.params, places, strict=True)
    return replace(program, params=tuple(replace(q, constant=q.direction == "in" and k in listed) for q, k in pairs))


def buffers_of(names: AttrValue, known: Mapping[str, T]) -> list[T]:
    """The known value for each name in such an annotation; buffers that no longer exist are omitted."""
    listed = names if isinstance(names, tuple) else ()
    return [known[n] for n in listed if isinstance(n, str) and n in known]
