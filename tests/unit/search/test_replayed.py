"""Candidates that a search draws for CPUs: nearly all can be replayed, lowered and compiled."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from benchmarks.workloads import TABLE
from mslang.backend.backend import Options
from mslang.backend.registry import serving
from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.ir.program import Program
from mslang.lower.summary import exceeded, summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule.rules.automatic import automatic_space
from mslang.search.leaves import Leaves
from mslang.search.strategy import Rejections
from mslang.target.description import AVX2, AVX512, Target
from tests.choice import Chosen
from tests.unit.schedule.test_matrix_tiles import AMX

VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512bf16", "avx512vnni"))
FLOATS = (AVX2, VNNI)
"""For products of f32 the targets with more instructions have the same spaces."""
PRODUCTS = (AVX2, AVX512, VNNI, AMX)
WORKLOADS = {
    **dict.fromkeys(("gemm_512", "gemm_1024", "dense_bias_relu", "bmm_128", "depthwise_112"), FLOATS),
    **dict.fromkeys(("conv2d_c64_3x3", "conv2d_1x1", "conv2d_stem_7x7"), FLOATS),
    **dict.fromkeys(("softmax", "layer_norm", "attention"), FLOATS),
    **dict.fromkeys(("gemm_s8", "gemm_bf16"), PRODUCTS),
}
FEW, MANY = 3, 24


def check(name: str, target: Target, draws: int, structures: int, compiled: bool = False) -> None:
    """At least 95 % of some candidates of a workload can be replayed, and built within the limits of the machine."""
    program = TABLE[name].bare()
    space = automatic_space(program, target)
    counts: Counter[str] = Counter()
    for leaf, batch in Leaves(space, target, 0, Rejections(), structures, structures).draw(draws):
        for k in range(len(batch)):
            candidate, hash = leaf.candidate(batch, k)
            again = space.replay(candidate.decisions).program
            assert structural_hash(again) == hash
            counts[refused(again, target, compiled)] += 1
    assert counts[""] >= 0.95 * counts.total() > 0, counts


def refused(program: Program, target: Target, compiled: bool) -> str:
    """Why a program is not built for a target; empty if it is."""
    found = exceeded(summarize(lower_symbolic(program, target), target), target, soft=True)
    if found is not None:
        return found.message
    backend = serving(target)
    try:
        kernel = backend.lowered(program, target, Options())
        if compiled:
            backend.compile(kernel, target, Options())
    except MsError as error:
        return error.diagnostic.message
    return ""


@pytest.mark.parametrize("name", WORKLOADS)
def test_nearly_all_that_is_drawn_can_be_lowered(name: str, chosen: Chosen) -> None:
    targets = WORKLOADS[name]
    for k, target in enumerate(targets):
        if chosen(k, len(targets)):
            check(name, target, FEW, structures=2)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "target"), [pytest.param(n, t, id=f"{n} {t.name}") for n, of in WORKLOADS.items() for t in of]
)
def test_nearly_all_that_is_drawn_can_be_compiled(name: str, target: Target) -> None:
    check(name, target, MANY, structures=16, compiled=True)
