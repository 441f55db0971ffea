"""TVM's annotations whose values are buffers; here the values are names of buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from mslang.ir.program import AttrValue

T = TypeVar("T")

BUFFERS = "layout_free_placeholders"
"""The key of an annotation that is a list of buffers."""


def buffers_of(names: AttrValue, known: Mapping[str, T]) -> list[T]:
    """The known value for each name in such an annotation; buffers that no longer exist are omitted."""
    listed = names if isinstance(names, tuple) else ()
    return [known[n] for n in listed if isinstance(n, str) and n in known]
