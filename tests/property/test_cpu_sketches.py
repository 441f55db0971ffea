"""Automatic sketches of the library for CPUs: arrays equal single values, and numbers may be put in before or after
lowering."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

import pytest
from msgspec.structs import replace

import mslang
from mslang.resources import stdlib_folder
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.sketch import Sketch
from mslang.sema.modules import load
from mslang.target.description import AVX2, AVX512, Target
from tests.property.forms import agrees
from tests.property.test_batches import check_summary
from tests.unit.schedule.test_matrix_tiles import AMX

VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512vnni"))
TARGETS = (AVX512, VNNI, AVX2, AMX)
PROGRAMS = [
    pytest.param(str(path), name, id=f"{path.stem}.{name}")
    for path in sorted(stdlib_folder().rglob("*.ms"))
    for name in load(str(path)).programs
]
DRAWS, LONG = 4, 1000
MOST = 64
"""So many sketches of a space are compared."""


def sketches(path: str, name: str, target: Target) -> list[Sketch]:
    """The sketches of an automatic space, drawn evenly where there are more than `MOST`, then those of the quick one;
    each program once."""
    program = mslang.load(path).program(name)
    found = [
        *evenly(list(automatic_space(program, target).sketches()), MOST),
        *space_named(program, target, "quick").sketches(),
    ]
    return list({s.program: s for s in found}.values())


def evenly(whole: Sequence[Sketch], most: int) -> Sequence[Sketch]:
    """At most so many of them: the first, the last, and others at equal distances."""
    return whole if len(whole) <= most else [whole[k * (len(whole) - 1) // (most - 1)] for k in range(most)]


def only(path: str, name: str, target: Target) -> list[Sketch]:
    """The sketches for a target that none of the targets before it has: lowering does not look at the instructions that
    a processor has besides."""
    before = takewhile(lambda t: t is not target, TARGETS)
    elsewhere = {s.program for t in before for s in sketches(path, name, t)}
    return [s for s in sketches(path, name, target) if s.program not in elsewhere]


def test_many_sketches_are_drawn_evenly() -> None:
    whole = sketches(str(stdlib_folder() / "workloads" / "pool.ms"), "average_pool", AVX512)
    assert evenly(whole, len(whole)) == whole and len(whole) > 11
    some = evenly(whole, 11)
    places = [whole.index(s) for s in some]
    assert (places[0], places[-1], len({*places})) == (0, len(whole) - 1, 11)
    assert {b - a for a, b in pairwise(places)} <= {len(whole) // 11, len(whole) // 11 + 1}


@pytest.mark.parametrize(("path", "name"), PROGRAMS)
@pytest.mark.one_in(2)
def test_a_sketch_for_cpus_means_the_same_in_all_forms(path: str, name: str) -> None:
    target = VNNI if "gemm" in name else AVX512
    for sketch in sketches(path, name, target)[-2:]:
        agrees(sketch, target, DRAWS)


@pytest.mark.parametrize(
    ("file", "name", "target"),
    [
        ("workloads/gemm.ms", "gemm", AVX2),
        ("workloads/conv3d.ms", "conv3d_ndhwc", AVX2),
        ("cpu/gemm_bytes.ms", "gemm_u8s8", AMX),
    ],
    ids=lambda x: x.name if isinstance(x, Target) else x,
)
def test_a_sketch_for_another_cpu_means_the_same_in_all_forms(file: str, name: str, target: Target) -> None:
    agrees(only(str(stdlib_folder() / file), name, target)[-1], target, DRAWS)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("path", "name"), PROGRAMS)
def test_all_sketches_for_cpus_mean_the_same_in_all_forms(path: str, name: str, target: Target) -> None:
    for sketch in only(path, name, target):
        agrees(sketch, target, LONG, lowered=1)
        check_summary(sketch, LONG, target)
