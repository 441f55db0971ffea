"""Regions told from a block's body."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import Program, Range
from mslang.ir.region import infer_regions, range_between
from mslang.ir.text import region_text
from mslang.ir.verify import verify
from mslang.sema.program import parse_program


def regions(text: str, name: str = "b") -> tuple[str, str]:
    """What the block `name` reads and writes, as text, its declared regions not looked at."""
    p: Program = parse_program("program p(x: f32[20, 20], n: i32[20], inout y: f32[20, 20]) {" + text + "}")
    block = next(b for b in blocks_of(p.body) if b.name == name)
    reads, writes = infer_regions(replace(block, reads=(), writes=()), all_buffers(p))
    return ", ".join(map(region_text, reads)), ", ".join(map(region_text, writes))


@pytest.mark.parametrize(
    ("body", "reads", "writes"),
    [
        ("block b[i: 20, j: 20] { y[i, j] = x[j, i] }", "x[j, i]", "y[i, j]"),
        ("block b[i: 18, j: 20] { y[i, j] = x[i, j] + x[i + 2, j] }", "x[i .. i + 3, j]", "y[i, j]"),
        ("block b[i: 20 | k: 20] { init { y[i, 0] = 0.0 } y[i, 0] += x[i, k] }", "x[i, k]", "y[i, 0]"),
        ("block b[i: 20 | k: 20] { init {} y[i, 0] += x[i, k] }", "y[i, 0], x[i, k]", "y[i, 0]"),
        ("block b[i: 20] { for u in 4 { y[i, u * 2] = x[i, u + 3] } }", "x[i, 3..7]", "y[i, 0..7]"),
        ("block b[i: 20] { for u in 4 { for v in 3 { y[i, u * 3 + v] = 0.0 } } }", "", "y[i, 0..12]"),
        ("block b[i: 19] { let h = i + 1\n y[h, 0] = x[h, h] }", "x[i + 1, i + 1]", "y[i + 1, 0]"),
        ("block b[i: 20] { y[i, 0] = x[i, i64(n[i])] }", "x[i, 0..20], n[i]", "y[i, 0]"),
        ("block b[i: 20] { if x[i, 0] > 0.0 { y[i, 0] = 1.0 } else { y[i, 3] = 2.0 } }", "x[i, 0]", "y[i, 0..4]"),
        ("block b[i: 20] { alloc t: f32[1]\n t[0] = x[i, 0]\n y[i, 0] = t[0] }", "x[i, 0]", "y[i, 0]"),
        (
            "block b[i: 5] { view v: f32[4] = x[i, i * 4 .. i * 4 + 4]\n for u in 4 { y[i, u] = v[u] } }",
            "x[i, i * 4 .. i * 4 + 4]",
            "y[i, 0..4]",
        ),
        (
            "block b[i: 5] { for u in 4 { block c[j: 20 = i * 4 + u] { y[j, 0] = x[j, 1] } } }",
            "x[i * 4 .. i * 4 + 4, 1]",
            "y[i * 4 .. i * 4 + 4, 0]",
        ),
        (
            "block b[i: 5 | o: 5] { init { y[i, 0] = 0.0 } for u in 4 { block c[j: 5 = i | k: 20 = o * 4 + u] { init {}"
            " y[j, 0] += x[j, k] } } }",
            "x[i, o * 4 .. o * 4 + 4]",
            "y[i, 0]",
        ),
        (
            "block b[i: 5] { view v: f32[4] = x[i, i * 4 .. i * 4 + 4]\n for u in 4 { block c[p: 5 = i, j: 4 = u] {"
            " reads v[j - 1 .. j + 2]\n writes y[p, j]\n y[p, j] = v[j] } } }",
            "x[i, i * 4 .. i * 4 + 4]",
            "y[i, 0..4]",
        ),
        ("block b[i: 20] { while y[i, 0] < 3.0 { y[i, 0] = y[i, 0] + x[i, 0] } }", "y[i, 0], x[i, 0]", "y[i, 0]"),
        ("block b { y[1, 2] = 3.0 }", "", "y[1, 2]"),
        (
            "block b[i: 19] { for u in i64(n[i]) .. i64(n[i + 1]) { y[i, 0] = x[i, u] } }",
            "n[i .. i + 2], x[i, 0..20]",
            "y[i, 0]",
        ),
    ],
)
def test_inferred(body: str, reads: str, writes: str):
    assert regions(body) == (reads, writes)


I, M = Var("i"), Var("m")  # noqa: E741


@pytest.mark.parametrize(
    ("start", "extent"),
    [
        (Const(0), Const(4)),
        (Const(3), Const(4)),
        (I, Const(4)),
        (I, M),
        (Const(0), M),
        (Const(3), M),
        (Binary("+", I, M), Binary("*", I, M)),
        (Const(0), Binary("+", Const(0), M)),
        (I, Binary("+", I, M)),
    ],
)
def test_ranges_are_read_back_as_they_were_written(start: Expr, extent: Expr):
    r = Range(start, extent)
    assert range_between(start, r.stop) == r


def test_ranges_of_another_form_are_subtracted():
    assert range_between(I, Binary("+", Const(4), I)) == Range(I, Const(4))


@pytest.mark.parametrize(
    ("declared", "index", "accepted"), [("0..3", "i % 2", True), ("0..2", "i", True), ("0..3", "i + 1", False)]
)
def test_what_an_inner_block_declares_may_hold_more_than_it_accesses(declared: str, index: str, accepted: bool):
    """The regions of a block inside can be hulls; only an access proves that those of the outer block lack something.

    Pair 8663 of the generator `instances`, seed 17: a hull over a sampled tile held an element too many.
    """
    text = f"""program p(x: f32[3], out y: f32[2]) {{ for o in 1 {{ block outer[a: 1 = o] {{
        reads x[0..2]
        writes y[0..2]
        for k in 2 {{ block inner[i: 2 = a * 2 + k] {{
            reads x[{declared}]
            writes y[i]
            y[i] = x[{index}] }} }} }} }} }}"""
    found = verify(parse_program(text))
    assert [d.code for d in found] == ([] if accepted else ["MS157"]), found
