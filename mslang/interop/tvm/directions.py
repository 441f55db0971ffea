"""Directions of parameters, which TVM's functions do not have."""

from __future__ import annotations

from mslang.ir.program import Block, Stmt, Store
from mslang.ir.visit import walk

DIRECTIONS = "mslang.directions"
"""The attribute of a function with its parameters' directions, where its body does not imply them."""


def direction(buffer: str, body: tuple[Stmt, ...]) -> str:
    """The direction of a parameter: only read; written before it is read; or both."""
    written = False
    for s in walk(body, into_blocks=False):
        match s:
            case Block(reads=reads, writes=writes):
                if any(r.buffer == buffer for r in reads):
                    return "inout" if written or _writes(buffer, body) else "in"
                written = any(r.buffer == buffer for r in writes)
            case Store(buffer=b):
                written = b == buffer
        if written:
            return "out"
    return "in"


def _writes(buffer: str, body: tuple[Stmt, ...]) -> bool:
    return any(
        (isinstance(s, Block) and any(r.buffer == buffer for r in s.writes))
        or (isinstance(s, Store) and s.buffer == buffer)
        for s in walk(body)
    )
