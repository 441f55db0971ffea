"""Rows that share what their last stage reads along them are computed together; how many is drawn."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mslang.ir.program import Program
from mslang.kernel.print import print_module
from mslang.lower.passes import lower
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.sketch import Sketch
from mslang.sema.program import parse_program
from mslang.target.description import AVX512, Target
from mslang.tune.equivalence import difference

SMALL = replace(AVX512, l1=2048)
"""A machine for which an array of 2 KiB is large."""
ADDRESS = "rows:scale/together"

NORM = """program norm(X: f32[{m}, {n}], gamma: f32[{n}], out Y: f32[{m}, {n}]) {{
    alloc total: f32[{m}]
    block sum[i: {m} | j: {n}] {{ total[i] += X[i, j] }}
    block scale[i: {m}, j: {n}] {{ Y[i, j] = X[i, j] * total[i] * gamma[{index}] }}
}}"""
OWN = NORM.format(m=16, n=80, index="i, j").replace("gamma: f32[80]", "gamma: f32[16, 80]")
"""Each row has a scale of its own."""
MATRICES = """program norm(X: f32[3, 8, 80], gamma: f32[8, 80], beta: f32[80], out Y: f32[3, 8, 80]) {
    alloc total: f32[3, 8]
    block sum[b: 3, i: 8 | j: 80] { total[b, i] += X[b, i, j] }
    block scale[b: 3, i: 8, j: 80] { Y[b, i, j] = X[b, i, j] * total[b, i] * gamma[i, j] + beta[j] }
}"""
LONG_RESULTS = """program norm(X: f32[8, 48], gamma: f32[5, 80], out Y: f32[8, 5, 80]) {
    alloc total: f32[8]
    block sum[i: 8 | j: 48] { total[i] += X[i, j] }
    block scale[i: 8, k: 5, j: 80] { Y[i, k, j] = total[i] * gamma[k, j] }
}"""


def norm(m: int | str = 8, n: int = 80, index: str = "j") -> Program:
    return parse_program(NORM.format(m=m, n=n, index=index))


def sketch(program: Program, machine: Target = SMALL) -> Sketch:
    return next(iter(automatic_space(program, machine).sketches()))


def counts(program: Program, machine: Target = SMALL) -> tuple[object, ...]:
    """The numbers of rows that are drawn from; none where they are not drawn."""
    found = [d.domain for d in sketch(program, machine).decisions if d.address == ADDRESS]
    return tuple(found[0].values) if found else ()


@pytest.mark.parametrize(
    ("program", "machine", "drawn"),
    [
        (norm(16), SMALL, (1, 2, 4)),
        (norm(8), SMALL, (1, 2)),
        (norm(16), replace(SMALL, cores=2), (1, 2)),
        (norm(16), replace(SMALL, registers=12), (1, 2)),
        (norm(18), SMALL, (1, 2)),
        (norm(17), SMALL, ()),
        (norm(4), SMALL, ()),
        (norm(16, index="0"), SMALL, ()),
        (parse_program(OWN), SMALL, ()),
    ],
    ids=[
        "many",
        "few",
        "cores",
        "registers",
        "no multiple of 4",
        "odd",
        "too few",
        "one element",
        "scales of their own",
    ],
)
def test_how_many_rows_are_drawn_from(program: Program, machine: Target, drawn: tuple[int, ...]) -> None:
    assert counts(program, machine) == drawn


def test_an_open_number_of_rows_is_not_drawn_from() -> None:
    text = NORM.format(m="M", n=80, index="j").replace("program norm(", "program norm[M: dyn(1..4096)](")
    assert counts(parse_program(text)) == ()


@pytest.mark.parametrize(
    "program",
    [norm(16), norm(16, 16), norm(16, 37), parse_program(MATRICES), parse_program(LONG_RESULTS)],
    ids=["vectors", "one vector", "a tail", "matrices", "long results"],
)
def test_rows_together_compute_the_same(program: Program) -> None:
    found, values = sketch(program), counts(program)
    assert len(values) > 1
    others = {d.address: 1 for d in found.decisions}
    for together in values:
        made = found.instantiate(others | {ADDRESS: together})
        assert difference(program, made, 1e-5, 1e-5, 0) is None


@pytest.mark.parametrize("together", [1, 2, 4])
def test_a_vector_of_all_rows_is_computed_before_the_next_one(together: int) -> None:
    found = sketch(norm(16, 128))
    others = {d.address: 1 for d in found.decisions}
    text = print_module(lower(found.instantiate(others | {ADDRESS: together}), SMALL))
    last = text[text.rindex("for ") :]
    assert last.count("Y[") == last.count("prefetch X[") == together
    assert f"* 16 + {128 * together}]" in last


def test_the_default_computes_single_rows() -> None:
    assert default_schedule(norm(16), SMALL).decisions[ADDRESS] == 1
