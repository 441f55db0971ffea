"""The before and after in the documentation of layouts, strides and block axes are what the primitives do."""

from __future__ import annotations

import inspect
import re
from textwrap import dedent, indent
from typing import Any

import pytest

from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Const
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.registry import IMPLEMENTATIONS
from tests.unit.transform.layouts import fn
from tests.unit.transform.programs import block, buffer, loop

SQUARE, SMALL = "A: f32[64, 64], out B: f32[64, 64]", "A: f32[8, 4], out B: f32[8, 4]"
EXAMPLES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "transform_layout": (SQUARE, (block("a"), buffer("T"), fn(lambda i, j: [i // 16, j, i % 16]))),
    "storage_align": (SQUARE, (block("a"), -2, 32, 8)),
    "prefetch": ("A: f32[64], out B: f32[64]", (loop("i"), buffer("A"), Const(8))),
    "stream": ("A: f32[64], out B: f32[64]", (block("b"), buffer("B"))),
    "transform_block_layout": (SMALL, (block("b"), fn(lambda x, y: [x * 4 + y]))),
    "reorder_block_iter_var": (SMALL, (block("b"), (1, 0))),
}


def example(name: str, section: str) -> Program:
    doc = inspect.getdoc(IMPLEMENTATIONS[name]) or ""
    found = re.search(rf"{section}:\n((?:    .*\n|\n)+)", doc)
    assert found
    return parse_program(f"program p({EXAMPLES[name][0]}) {{\n{indent(dedent(found[1]), '    ')}\n}}\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of(name: str) -> None:
    found = IMPLEMENTATIONS[name](example(name, "Before"), *EXAMPLES[name][1]).program
    assert alpha_equal(found, example(name, "After")), print_program(found)
