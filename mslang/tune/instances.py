"""The sizes at which a program with dynamic sizes is measured: those that stand for its range, with weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path

import msgspec

from mslang.ir import arith
from mslang.ir.buckets import Bucket, at_sizes
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.find import blocks_of
from mslang.ir.program import Program

FILE = "instances.json"
"""Where a folder of references says which sizes it holds, each in a folder of its own."""

LARGEST = 2 << 30
"""Bytes of arrays and temporaries that a program is measured on at most."""


class Instance(msgspec.Struct, frozen=True):
    """A value of each dynamic size, and how often it is called, relative to the others."""

    sizes: dict[str, int]
    weight: int = 1


def instances_for(bucket: Bucket, likely: Sequence[Instance]) -> tuple[Instance, ...]:
    """The sizes at which a bucket is measured: the likely ones in it; typical ones if nothing is said to be likely.

    >>> from mslang.ir.expr import DynamicRange
    >>> [i.sizes for i in instances_for(Bucket((("M", DynamicRange(17, 32)),)), ())]
    [{'M': 17}, {'M': 25}, {'M': 32}]
    """
    if likely:
        return tuple(i for i in likely if bucket.holds(i.sizes))
    return tuple(Instance(sizes) for sizes in bucket.typical)


def instances_text(instances: Iterable[Instance]) -> str:
    """The sizes and their weights as `--likely` takes them, in a fixed order; empty where all sizes are fixed.

    >>> instances_text([Instance({"M": 16, "K": 8}), Instance({"K": 8, "M": 100}, 3)])
    'K=8,M=100:3 K=8,M=16:1'
    """
    return " ".join(
        sorted(f"{','.join(f'{name}={n}' for name, n in sorted(i.sizes.items()))}:{i.weight}" for i in instances)
    )


def fits(program: Program, instances: Iterable[Instance]) -> bool:
    """Whether the arrays of a program, and what it allocates, are small enough to be measured at its sizes."""
    return all(_bytes(at_sizes(program, i.sizes)) <= LARGEST for i in instances)


def _bytes(program: Program) -> int:
    total = 0
    inner = (b for block in blocks_of(program.body) for b in block.allocs)
    for b in (*(p.given for p in program.params), *program.allocs, *inner):
        shape = [int(e.value) if isinstance(e, Const) else 1 for e in b.shape]
        count = prod(shape)
        if b.strides is not None:
            steps = (int(arith.evaluate(e, {}, {})) for e in b.strides)
            count = 1 + sum(s * (n - 1) for s, n in zip(steps, shape, strict=True))
        total += count * size_of(b.dtype)
    return total


def write_instances(folder: Path, instances: Sequence[Instance]) -> None:
    """Say which sizes a folder of references holds."""
    (folder / FILE).write_bytes(msgspec.json.encode(list(instances)))


def read_instances(folder: Path) -> tuple[Instance, ...]:
    """The sizes of a folder of references; none if its program has no dynamic sizes."""
    file = folder / FILE
    return tuple(msgspec.json.decode(file.read_bytes(), type=list[Instance])) if file.exists() else ()
