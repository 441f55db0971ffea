"""Loops that nothing was said of, so that a primitive may replace or copy them; handles given once."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir.program import For
from mslang.transform.analysis.position import shown
from mslang.transform.outcome import Handle, refuse


def require_plain(loop: For, primitive: str) -> None:
    """The loop is serial and carries no annotation (MS305)."""
    if loop.kind != "serial":
        raise refuse(
            "MS305",
            primitive,
            f"loop `{loop.var}` is {loop.kind}",
            why="the loop's kind or annotation would be lost",
            help=f"{primitive} first, then mark the new loops",
        )
    if loop.annotations:
        raise refuse(
            "MS305",
            primitive,
            f"loop `{loop.var}` carries the annotation {loop.annotations[0][0]!r}",
            why="the loop's kind or annotation would be lost",
            help=f"`unannotate` it, or {primitive} first",
        )


def require_distinct(handles: Sequence[Handle], primitive: str) -> None:
    """No handle is given twice (MS303)."""
    seen: set[Handle] = set()
    for h in handles:
        if h in seen:
            raise refuse("MS303", primitive, f"{shown(h)} is named twice", help="name each once")
        seen.add(h)
