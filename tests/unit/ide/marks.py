"""Texts with a cursor: `<|>` marks it."""

from mslang.ide.snapshot import Snapshot

PATH = "/project/sample.ms"

PROGRAM = """\
use std.cpu.{host}

## C = A B.
program mm_p[M = 64, N = 32](A: f32[M, M], B: f32[M, N], out C: f32[M, N]) {
    alloc T: f32[M, N]
    block mm[i: M, j: N | k: M] {
        T[i, j] += A[i, k] * B[k, j]
    }
    block copy[i: M, j: N] { C[i, j] = max(T[i, j], 0.0) }
}
"""


def at(text: str) -> tuple[Snapshot, str, int]:
    """The snapshot, path and offset that a marked text means."""
    offset = text.index("<|>")
    return Snapshot({PATH: text.replace("<|>", "", 1)}), PATH, offset


def in_schedule(body: str, head: str = "schedule s for mm_p on host") -> tuple[Snapshot, str, int]:
    """The cursor in the body of a schedule for `mm_p`."""
    return at(f"{PROGRAM}\n{head} {{\n{body}\n}}\n")


def after(body: str) -> tuple[Snapshot, str, int]:
    """The cursor in text after the program."""
    return at(f"{PROGRAM}\n{body}")
