"""The before and after of the documentation of the primitives on loops are what they do."""

import inspect
import re
from textwrap import dedent, indent

import pytest

from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Binary, Const, DynamicRange, Symbol
from mslang.ir.print import print_program
from mslang.sema.program import parse_program
from mslang.transform.registry import IMPLEMENTATIONS
from tests.unit.transform.programs import block, loop, loops, sizes

N = Symbol("n", DynamicRange(1, 4096))
MULTIPLE = Binary("==", Binary("%", N, Const(16)), Const(0))

EXAMPLES = {
    "split": ("(A: f32[100], out B: f32[100])", "", (loop("i"), sizes(None, 8)), {}),
    "loop_partition": ("(A: f32[100], out B: f32[100])", "", (loop("i"), sizes(64, None)), {}),
    "merge": ("(A: f32[64], out B: f32[64])", "alloc T: f32[64]", (loops("i j"),), {}),
    "fission": ("(A: f32[64], out B: f32[64])", "alloc T: f32[64]", (loop("i"), block("a")), {}),
    "specialize": ("[n: dyn(1..4096)](A: f32[n], out B: f32[n])", "", (loop("i"), MULTIPLE), {}),
    "pipeline": ("(A: f32[128], out B: f32[128])", "alloc T: f32[128]", (loop("k"),), {"stages": 2}),
}


def example(name, section):
    head, buffers, *_ = EXAMPLES[name]
    doc = inspect.getdoc(IMPLEMENTATIONS[name])
    text = dedent(re.search(rf"{section}:\n((?:    .*\n|\n)+)", doc)[1])
    return parse_program(f"program p{head} {{\n{buffers}\n{indent(text, '    ')}\n}}\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of(name):
    _, _, arguments, named = EXAMPLES[name]
    found = IMPLEMENTATIONS[name](example(name, "Before"), *arguments, **named).program
    assert alpha_equal(found, example(name, "After")), print_program(found)
