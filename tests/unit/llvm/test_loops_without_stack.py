"""The innermost loops of what is no plain product, too, have no access to the stack, and no scalar remainder: rows,
attention, convolutions.

Each in the library's schedule, in the default one, and in one of the automatic space with the decisions pinned.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from mslang.api.source import load
from mslang.backend.llvm.compile import compile
from mslang.ir.program import Program
from mslang.lower.passes import lower
from mslang.resources import stdlib_folder
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.target.description import AVX2, Target
from tests.unit.llvm.test_inner_loops import SERVER, inner_loops

ARITHMETIC = re.compile(r"v(fn?m(add|sub)\d+|add|sub|mul|div|max|min)p[sd]\b")
SCALAR = re.compile(r"v(fn?m(add|sub)\d+|add|sub|mul|div|max|min)s[sd]\b")
STACK = re.compile(r"\(%rsp")
STACK_STORE = re.compile(r", -?\d*\(%rsp[^)]*\)(\s*\{%k\d\})?$")


class _Case(NamedTuple):
    """A program of a file, its schedule in the library, and automatic decisions, on AVX-512 and on AVX2."""

    file: str
    program: str
    schedule: str
    sizes: dict[str, int]
    decisions: dict[str, tuple[object, object]]
    constants: int = 0
    """How many constants of `exp` 16 registers have no room for."""


def _both(value: object) -> tuple[object, object]:
    return value, value


CASES = {
    "softmax": _Case("softmax", "softmax", "rows_vectorized", {}, {"rows:divide/prefetch": _both(1)}, constants=2),
    "layer_norm": _Case(
        "layer_norm",
        "layer_norm",
        "rows_vectorized",
        {},
        {"rows:normalise/together": (4, 2), "rows:normalise/prefetch": _both(1)},
    ),
    "attention": _Case(
        "attention",
        "attention",
        "by_tile",
        {},
        {"rows:divide/registers": (442, 422), "rows:divide/tiles": _both(2)},
        constants=2,
    ),
    "depthwise": _Case(
        "depthwise",
        "depthwise_nhwc",
        "direct",
        {"H": 28, "W": 28, "C": 64},
        {"tile:conv": _both("rows_direct_beside"), "tile:conv/registers": (42, 22), "tile:conv/unroll": _both(8)},
    ),
    "batch_gemm": _Case(
        "batch_gemm",
        "batch_gemm",
        "packed",
        {},
        {"tile:mm": _both("rows_direct"), "tile:mm/registers": (64, 43), "tile:mm/unroll": _both(4)},
    ),
    "conv2d_stem_7x7": _Case(
        "conv2d",
        "conv2d_nhwc",
        "direct",
        {"H": 56, "W": 56, "CI": 3, "CO": 64, "R": 7, "S": 7, "STRIDE": 2, "PAD": 3},
        {"tile:conv": _both("rows_packed"), "tile:conv/registers": (64, 43), "tile:conv/unroll": _both(0)},
    ),
    "conv2d_1x1": _Case(
        "conv2d",
        "conv2d_nhwc",
        "direct",
        {"H": 14, "W": 14, "CI": 256, "CO": 128, "R": 1, "S": 1, "PAD": 0},
        {"tile:conv": _both("columns_panel"), "tile:conv/registers": (64, 43), "tile:conv/unroll": _both(0)},
    ),
}


def _scheduled(case: _Case, how: str, target: Target) -> Program:
    source = load(stdlib_folder() / f"workloads/{case.file}.ms")
    program = source.program(case.program, **case.sizes)
    match how:
        case "library":
            return source.space(case.schedule, sizes=case.sizes, target=target).sample(0).program
        case "default":
            return default_schedule(program, target).program
    decisions = {address: values[target is AVX2] for address, values in case.decisions.items()}
    return automatic_space(program, target).sample(0, decisions, strict=True).program  # type: ignore[arg-type]


def _scalar(loops: list[list[str]]) -> list[list[str]]:
    """Loops that compute single elements, and no vectors: where a vector is combined, the last step is one of two."""
    return [x for x in loops if any(map(SCALAR.match, x)) and not any(map(ARITHMETIC.match, x))]


def test_loops_over_single_elements_are_told_from_others() -> None:
    one, several = ["vaddss\t%xmm1, %xmm2, %xmm3"], ["vaddps\t%zmm1, %zmm2, %zmm3"]
    assert _scalar([one, several, one + several, ["incq %r8"]]) == [one]


def test_stores_to_the_stack_are_told_from_loads() -> None:
    stores = ("vmovups\t%ymm15, 128(%rsp)", "vmovaps %zmm1, (%rsp)", "vmovups %zmm2, -64(%rsp,%rax) {%k1}")
    loads = ("vaddps\t-64(%rsp), %ymm3, %ymm2", "vmovups (%rsp), %ymm2", "vmovups 8(%rsp), %zmm2 {%k1} {z}")
    assert all(STACK.search(x) and STACK_STORE.search(x) for x in stores)
    assert all(STACK.search(x) and not STACK_STORE.search(x) for x in loads)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", ["library", "default", "automatic"])
@pytest.mark.parametrize("target", [SERVER, AVX2], ids=lambda t: t.name)
@pytest.mark.parametrize("name", CASES)
def test_no_access_to_the_stack(name: str, target: Target, how: str) -> None:
    case = CASES[name]
    loops = inner_loops(compile(lower(_scheduled(case, how, target), target), target).assembly)
    arithmetic = [x for x in loops if any(map(ARITHMETIC.match, x))]
    assert arithmetic and not _scalar(loops)
    for body in arithmetic:
        assert not [x for x in body if STACK_STORE.search(x)], "nothing is spilled"
        assert len([x for x in body if STACK.search(x)]) <= (case.constants if target is AVX2 else 0)


@pytest.mark.parametrize("how", ["library", "default", "automatic"])
@pytest.mark.parametrize(("name", "columns"), [("softmax", 1003), ("layer_norm", 1000)])
def test_rows_that_vectors_do_not_divide_have_no_scalar_loop(name: str, columns: int, how: str) -> None:
    case = CASES[name]._replace(sizes={"M": 8, "N": columns}, decisions={})
    loops = inner_loops(compile(lower(_scheduled(case, how, SERVER), SERVER), SERVER).assembly)
    assert any(ARITHMETIC.match(x) for body in loops for x in body) and not _scalar(loops)
