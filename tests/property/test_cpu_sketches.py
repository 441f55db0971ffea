"""Automatic sketches of the library for CPUs: arrays equal single values, and numbers may be put in before or after
lowering."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from msgspec.structs import replace

import mslang
from mslang.resources import stdlib_folder
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.sketch import Sketch
from mslang.sema.modules import load
from mslang.target.description import AVX512, Target
from tests.property.forms import agrees
from tests.property.test_batches import check_summary

VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512vnni"))
PROGRAMS = [
    pytest.param(str(path), name, id=f"{path.stem}.{name}")
    for path in sorted(stdlib_folder().rglob("*.ms"))
    for name in load(str(path)).programs
]
DRAWS, LONG = 4, 1000
MOST = 64
"""So many sketches of a space are compared."""


def sketches(path: str, name: str, target: Target) -> Iterator[Sketch]:
    """The first sketches of an automatic space, then those of the quick one."""
    program = mslang.load(path).program(name)
    yield from islice(automatic_space(program, target).sketches(), MOST)
    yield from space_named(program, target, "quick").sketches()


@pytest.mark.parametrize(("path", "name"), PROGRAMS)
def test_a_sketch_for_cpus_means_the_same_in_all_forms(path: str, name: str) -> None:
    target = VNNI if "gemm" in name else AVX512
    *_, last, quick = sketches(path, name, target)
    for sketch in (last, quick):
        agrees(sketch, target, DRAWS)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("target", [AVX512, VNNI], ids=lambda t: t.name)
@pytest.mark.parametrize(("path", "name"), PROGRAMS)
def test_all_sketches_for_cpus_mean_the_same_in_all_forms(path: str, name: str, target: Target) -> None:
    elsewhere = {s.program for s in sketches(path, name, AVX512)} if target is VNNI else set()
    for sketch in sketches(path, name, target):
        if sketch.program not in elsewhere:  # Lowering does not look at the instructions that VNNI adds.
            agrees(sketch, target, LONG)
            check_summary(sketch, LONG, target)
