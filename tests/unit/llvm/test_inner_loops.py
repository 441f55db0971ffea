"""The innermost loops of the library's tuned products: vectors and registers alone, no stack, no scalar remainders."""

import re

import msgspec
import pytest

from mslang.api.source import load
from mslang.backend.llvm.compile import compile
from mslang.ir.program import Program
from mslang.lower.passes import lower
from mslang.resources import stdlib_folder
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.rules.cpu.tiles import TENS, register_tiles
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, Target

SERVER = msgspec.structs.replace(AVX512, features=(*AVX512.features, "avx512vnni", "avx512bf16"), cpu="znver4")
BACK = re.compile(r"j\w+\s+(\.L\w+)")
VECTOR_PRODUCT = re.compile(r"v(fn?madd\d+p|pdpbusd|dpbf16p)")
VECTOR_STORE = re.compile(r"vmovup\w\s+%[xyz]mm\d+, [^%]*\(")
SCALAR_PRODUCT = re.compile(r"v(fn?madd\d+s|muls|pmulld)[sd]?\b")


def inner_loops(assembly: str) -> list[list[str]]:
    """The instructions of each loop that holds no other."""
    lines = [x.strip() for x in assembly.splitlines()]
    labels = {x[:-1]: k for k, x in enumerate(lines) if x.startswith(".L") and x.endswith(":")}
    back = [(labels[m[1]], k) for k, x in enumerate(lines) if (m := BACK.match(x)) and labels.get(m[1], k) < k]
    inner = [(a, b) for a, b in back if not any((c, d) != (a, b) and a <= c and d <= b for c, d in back)]
    return [[x for x in lines[a + 1 : b + 1] if x and not x.startswith((".", "#"))] for a, b in inner]


def test_the_innermost_loops_are_found():
    text = ".L1:\n a\n.L2:\n b\n jl .L2\n.L3:\n c\n jne .L3\n jl .L1\n jmp .L9\n.L9:"
    assert inner_loops(text) == [["b", "jl .L2"], ["c", "jne .L3"]]


CASES = {
    "gemm": ("workloads/gemm", "packed", {}),
    "gemm_odd": ("workloads/gemm", "packed", {"M": 509, "N": 1021, "K": 253}),
    "conv2d": ("workloads/conv2d", "direct", {}),
    "dense": ("workloads/dense", "fused", {}),
    "gemm_s8": ("cpu/gemm_bytes", "s8s8_on_vnni", {}),
    "gemm_bf16": ("cpu/gemm_bf16", "bf16_on_avx512", {}),
}


@pytest.mark.parametrize(
    ("case", "target"), [*((c, SERVER) for c in CASES), *((c, AVX2) for c in ("gemm", "conv2d", "dense"))]
)
def test_products_stay_in_registers(case: str, target: Target):
    file, schedule, sizes = CASES[case]
    space = load(stdlib_folder() / f"{file}.ms").space(schedule, sizes=sizes, target=target)
    made = compile(lower(space.sample(0).program, target), target)
    loops = inner_loops(made.assembly)
    products = [x for x in loops if any(map(VECTOR_PRODUCT.match, x))]
    assert products
    # Of 1021 columns the last vector has 13 lanes: it is loaded and stored under a mask, its sums are whole registers.
    for body in products:
        assert not [x for x in body if "(%rsp" in x], "no access to the stack"
        assert not [x for x in body if SCALAR_PRODUCT.match(x)], "no scalar remainder"
    assert made.signature.workspace % 64 == made.signature.worker_workspace % 64 == 0
    assert all(x.endswith("align 64") for x in made.llvm.splitlines() if " alloca " in x), "tiles are aligned"


@pytest.mark.parametrize("target", [SERVER, AVX2], ids=lambda t: t.name)
def test_the_largest_register_tiles_that_are_drawn_stay_in_registers(target: Target):
    program = load(stdlib_folder() / "workloads/gemm.ms").program("gemm", M=64, N=128, K=32)
    space = automatic_space(program, target)
    largest = {code % TENS: code for code in register_tiles(target.registers, 64, 8)}
    assert len(largest) == 4
    for code in largest.values():
        decisions = {"tile:mm": "columns_panel", "tile:mm/registers": code, "tile:mm/unroll": 0}
        made = compile(lower(space.replay(decisions, strict=False).program, target), target)
        products = [x for x in inner_loops(made.assembly) if any(map(VECTOR_PRODUCT.match, x))]
        rows, vectors = divmod(code, TENS)
        assert rows * vectors in {sum(bool(VECTOR_PRODUCT.match(i)) for i in x) for x in products}, code
        assert not [i for x in products for i in x if "(%rsp" in i], code


@pytest.mark.parametrize("rules", ["avx2", "cpu"])
def test_panels_of_a_narrower_set_are_not_gathered(rules: str):
    """A panel has the columns of a vector of the set: a vector of the target would span several of them."""
    program = load(stdlib_folder() / "workloads/gemm.ms").program("gemm", M=64, N=128, K=32)
    decisions = {"tile:mm": "columns_packed", "tile:mm/registers": 52, "tile:mm/unroll": 4}
    scheduled = space_named(program, SERVER, rules).replay(decisions, strict=False).program
    assembly = compile(lower(scheduled, SERVER), SERVER).assembly
    assert "gather" not in assembly
    products = [x for x in inner_loops(assembly) if any(map(VECTOR_PRODUCT.match, x))]
    assert products
    for body in products:
        assert not [x for x in body if "(%rsp" in x], "no access to the stack"


@pytest.mark.parametrize(
    ("layout", "registers", "tiles"),
    [("columns_panel", 83, {"j": 2, "i": 2}), ("rows_packed", 64, {"j": 16, "i": 4}), ("columns_direct", 54, {"i": 3})],
)
def test_remainders_of_tiles_stay_in_registers(layout: str, registers: int, tiles: dict[str, int]):
    """128 columns in tiles of 96, 1024 or 64, 64 rows in tiles of 16, 24 or 15: loops end where the matrix does."""
    program = load(stdlib_folder() / "workloads/gemm.ms").program("gemm", M=64, N=128, K=32)
    decisions = {"tile:mm": layout, "tile:mm/registers": registers, "tile:mm/unroll": 4}
    decisions |= {f"tile:mm/{axis}": count for axis, count in tiles.items()}
    scheduled = automatic_space(program, SERVER).replay(decisions, strict=False).program
    products = [
        x for x in inner_loops(compile(lower(scheduled, SERVER), SERVER).assembly) if any(map(VECTOR_PRODUCT.match, x))
    ]
    assert products
    for body in products:
        assert not [x for x in body if x.startswith("j")][1:], "no branch"
        assert not [x for x in body if VECTOR_STORE.match(x)], "sums stay in registers"


NARROW = """program p(A: f32[64, 64], B: f32[64, {n}], out C: f32[64, {n}]) {{
    block mm[i: 64, j: {n} | k: 64] {{ C[i, j] += A[i, k] * B[k, j] }}
}}"""


@pytest.mark.parametrize("target", [SERVER, AVX2], ids=lambda t: t.name)
@pytest.mark.parametrize("n", [3, 5, 6, 7])
def test_sums_narrower_than_half_a_vector_stay_in_registers(n: int, target: Target):
    program = parse_program(NARROW.format(n=n))
    made = compile(lower(default_schedule(program, target).program, target), target)
    products = [x for x in inner_loops(made.assembly) if any(map(VECTOR_PRODUCT.match, x))]
    assert products
    assert not [i for x in products for i in x if "(%rsp" in i]


ODD = {"tile:mm": "columns_panel", "tile:mm/j": 6, "tile:mm/i": 6, "tile:mm/unroll": 0, "tile:mm/prefetch": 0}


@pytest.mark.parametrize(("registers", "target"), [*((code, SERVER) for code in (64, 83, 73, 54)), (43, AVX2)])
def test_no_size_of_a_tile_leaves_a_branch_where_sizes_are_odd(registers: int, target: Target):
    """509 rows, 1021 columns: what is left of tiles, and of tiles of tiles, are nests of their own."""
    program = load(stdlib_folder() / "workloads/gemm.ms").program("gemm", M=509, N=1021, K=253)
    _check_whole(program, {**ODD, "tile:mm/registers": registers}, target, registers)


def test_no_branch_is_left_where_vectors_of_dot_products_do_not_divide():
    """64 vectors of columns in tiles of 3, 1024 rows in tiles of 7."""
    program = load(stdlib_folder() / "cpu/gemm_bytes.ms").program("gemm_s8s8", M=1024, N=1024, K=1024)
    _check_whole(program, {"dot:mm/registers": 73, "dot:mm/j": 8, "dot:mm/i": 8}, SERVER, 73)


def _check_whole(program: Program, decisions: dict[str, object], target: Target, code: int) -> None:
    """Checks that innermost loops with products have no branch and no access to the stack, and that one of a whole tile
    has no mask: the last vector of 1021 columns is loaded under one."""
    scheduled = automatic_space(program, target).replay(decisions, strict=False).program
    loops = inner_loops(compile(lower(scheduled, target), target).assembly)
    products = [x for x in loops if any(map(VECTOR_PRODUCT.match, x))]
    rows, vectors = divmod(code, TENS)
    whole = [x for x in products if sum(bool(VECTOR_PRODUCT.match(i)) for i in x) == rows * vectors]
    assert any(not [i for i in x if "{%k" in i] for x in whole), "no mask"
    for body in products:
        assert not [x for x in body if x.startswith("j")][1:], "no branch"
        assert not [x for x in body if "(%rsp" in x], "no access to the stack"
