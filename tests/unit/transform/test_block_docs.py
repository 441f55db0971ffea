"""The before and after of the documentation are what the primitives do."""

import inspect
import re
from textwrap import dedent, indent

import pytest

from mslang.ir.equal import alpha_equal
from mslang.ir.print import print_program
from mslang.sema.intrin import parse_intrin
from mslang.sema.program import parse_program
from mslang.transform.registry import IMPLEMENTATIONS
from tests.unit.transform.programs import block, buffer, index_map, loop

MATMUL = "A: f32[64, 64], B: f32[64, 64], out C: f32[64, 64]"

COPY_16 = parse_intrin(
    "intrin copy_16(src: f32[16], out dst: f32[16]) {\n"
    "    desc { block copy[x: 16] { dst[x] = src[x] } }\n"
    "    impl { block copy[x: 16] { dst[x] = src[x] } }\n}\n"
)

EXAMPLES = {
    "cache_read": (MATMUL, ["A_shared_1: f32[64, 64] @ shared"], (block("mm"), buffer("A"), "shared")),
    "cache_write": (MATMUL, ["C_local_1: f32[64, 64] @ local"], (block("mm"), buffer("C"), "local")),
    "blockize": ("A: f32[64, 64], out B: f32[64, 64]", [], (loop("it"),)),
    "tensorize": ("A: f32[64], out B: f32[64]", [], (block("b_o"), COPY_16)),
    "compute_at": ("A: f32[64], out B: f32[62]", ["T: f32[64]"], (block("a"), loop("j0"))),
    "reverse_compute_at": ("A: f32[64], out B: f32[64]", ["T: f32[64]"], (block("b"), loop("i0"))),
    "compute_inline": ("A: f32[64, 64], bias: f32[64], out B: f32[64, 64]", ["T: f32[64, 64]"], (block("add"),)),
    "reverse_compute_inline": (
        "A: f32[64, 64], bias: f32[64], out B: f32[64, 32]",
        ["T: f32[64, 64]"],
        (block("relu"),),
    ),
    "cache_inplace": (
        "inout A: f32[64], B: f32[64]",
        ["A_local_1: f32[64] @ local"],
        (block("add"), buffer("A"), "local"),
    ),
    "cache_index": ("A: f32[64], out B: f32[64]", ["index_var_0: i64[64] @ local"], (block("up"), "local")),
    "reindex": ("A: f32[18], W: f32[3], out C: f32[16]", ["A_reindex_1: f32[16, 3]"], (block("conv"), buffer("A"))),
    "reindex_cache_read": (
        MATMUL,
        ["A_shared_1: f32[16, 64, 4] @ shared"],
        (block("mm"), buffer("A"), "shared", index_map("ijk", lambda i, j, k: (k // 4, i, k % 4))),
    ),
    "reindex_cache_write": (
        MATMUL,
        ["C_local_1: f32[64, 64] @ local"],
        (block("mm"), buffer("C"), "local", index_map("ijk", lambda i, j, k: (j, i))),
    ),
    "read_at": (
        "A: f32[64], out B: f32[64]",
        ["A_shared_1: f32[64] @ shared"],
        (block("b"), loop("i0"), buffer("A"), "shared"),
    ),
    "write_at": (
        "A: f32[64], out B: f32[64]",
        ["B_local_1: f32[64] @ local"],
        (block("b"), loop("i0"), buffer("B"), "local"),
    ),
    "annotate_buffer_access": (
        "A: f32[64], out B: f32[62]",
        [],
        (block("b"), buffer("A"), "read", index_map("i", lambda i: ((i, i + 3),))),
    ),
    "unsafe_hide_buffer_access": (
        "A: f32[64], C: f32[64], out B: f32[64]",
        [],
        (block("b"), "read", [buffer("C")]),
    ),
    "rolling_buffer": ("A: f32[18], out B: f32[16]", [], (block("a"), buffer("T"))),
    "unsafe_set_dtype": ("A: f32[64], out B: f32[64]", [], (block("b"), buffer("t"), "f16")),
    "rfactor": ("A: f32[8, 16], out S: f32[8]", ["S_rf: f32[8, 4]"], (loop("k1"), 1)),
    "rolling_update": (
        "A: f32[8, 16], out S: f32[8]",
        [
            "M: f32[8]",
            "M_rf: f32[4, 8]",
            "M_scale: f32[4, 8]",
            "M_shift: f32[4, 8]",
            "S_rf: f32[4, 8]",
        ],
        (block("m"), loop("k0"), [block("s")]),
    ),
    "fuse_reduction_epilogue": (
        "A: f32[64, 64], B: f32[64, 64], b: f32[64], out C: f32[64, 64]",
        ["T: f32[64, 64]"],
        (block("mm"), block("bias")),
    ),
    "pad_einsum": (
        "A: f32[6, 10], B: f32[10, 8], out C: f32[6, 8]",
        ["A_pad_1: f32[6, 12]", "B_pad_1: f32[12, 8]"],
        (block("mm"), (1, 1, 4)),
    ),
    "decompose_padding": ("A: f32[8], out P: f32[10]", [], (block("pad"), loop("i"))),
}


def example(name, section, buffers):
    doc = inspect.getdoc(IMPLEMENTATIONS[name])
    text = dedent(re.search(rf"{section}:\n((?:    .*\n|\n)+)", doc)[1])
    used = [f"alloc {b}" for b in buffers if re.search(rf"\b{b.split(':')[0]}\b", text)]
    lines = "\n".join((*used, text))
    return parse_program(f"program p({EXAMPLES[name][0]}) {{\n{indent(lines, '    ')}\n}}\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of(name):
    _, buffers, arguments = EXAMPLES[name]
    before, after = example(name, "Before", buffers), example(name, "After", buffers)
    found = IMPLEMENTATIONS[name](before, *arguments).program
    assert alpha_equal(found, after), print_program(found)
