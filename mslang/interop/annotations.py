"""Annotations of TVM's whose values are buffers; here they are the names of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from mslang.ir.program import AttrValue

T = TypeVar("T")

BUFFERS = "layout_free_placeholders"
"""The key of an annotation that is a list of buffers."""


def buffers_of(names: AttrValue, known: Mapping[str, T]) -> list[T]:
    """What is known for each name that such an annotation holds; buffers that are gone are left out."""
    listed = names if isinstance(names, tuple) else ()
    return [known[n] for n in listed if isinstance(n, str) and n in known]
