"""Nodes of programs and kernels are trees: the garbage collector has nothing to do with them."""

from __future__ import annotations

import gc
from types import ModuleType

import msgspec
import pytest

from mslang.ir import expr, program
from mslang.kernel import nodes
from mslang.sema.program import parse_program


@pytest.mark.parametrize("module", [expr, program, nodes], ids=lambda m: m.__name__)
def test_nodes_are_not_tracked(module: ModuleType):
    own = (c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__)
    nodes_of = [c for c in own if issubclass(c, msgspec.Struct)]
    assert nodes_of and [c.__name__ for c in nodes_of if c.__struct_config__.gc] == []


def test_a_program_is_not_tracked():
    made = parse_program("program p(x: f32[4], out y: f32[4]) { block b[i: 4] { y[i] = x[i] } }")
    assert not gc.is_tracked(made) and not gc.is_tracked(made.body[0])
