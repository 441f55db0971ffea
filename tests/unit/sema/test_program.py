"""Programs from items: sizes, inference, names of loops, and the long form read back."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from mslang.diagnostics import MsError
from mslang.ir.expr import (
    Binary,
    Choice,
    Const,
    DynamicRange,
    FreeTile,
    Load,
    PartitionedTile,
    PerfectTile,
    Symbol,
    Uniform,
    Var,
)
from mslang.ir.find import blocks_of
from mslang.ir.print import print_program
from mslang.ir.program import Block, For, Let, Program, Store
from mslang.ir.symbols import symbols_of
from mslang.ir.visit import walk
from mslang.resources import stdlib_folder
from mslang.sema.modules import load
from mslang.sema.program import find_program, instantiate, instantiate_with_source, parse_program, sizes_by_position
from mslang.syntax import tree
from tests.property.strategies import programs

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "fixtures" / "samples"
EXPECT = ROOT / "tests" / "expect" / "sema"

GEMM = """
program gemm[M = 8, N: dyn(8..64, multiple = 8), K = M * 2](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
"""


def module(text: str):
    return load("test.ms", text)


def only(text: str, **sizes: int | Symbol) -> Program:
    found = module(text)
    (name,) = found.programs
    return instantiate(found, name, sizes)


def code(text: str, **sizes: int) -> str:
    with pytest.raises(MsError) as caught:
        only(text, **sizes)
    return caught.value.diagnostic.code


def block(p: Program, name: str) -> Block:
    return next(b for b in blocks_of(p.body) if b.name == name)


# ------------------------------------------------------------------ sizes
def test_sizes_default_fold_and_stay_dynamic() -> None:
    p = only(GEMM)
    n = Symbol("N", DynamicRange(8, 64, 8))
    assert [q.buffer.shape for q in p.params] == [(Const(8), Const(16)), (Const(16), n), (Const(8), n)]
    assert p.dynamic == (n,)
    fixed = only(GEMM, M=4, N=16)
    assert [q.buffer.shape for q in fixed.params] == [
        (Const(4), Const(8)),
        (Const(8), Const(16)),
        (Const(4), Const(16)),
    ]
    assert fixed.dynamic == ()


def test_a_symbol_may_be_given_for_a_size() -> None:
    m = Symbol("M", DynamicRange(1, 100))
    p = only(GEMM, M=m, N=8)
    assert p.params[0].buffer.shape == (m, Binary("*", m, Const(2)))
    assert p.dynamic == (m,)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"M": 0}, "at least 1"),
        ({"M": -1}, "at least 0"),
        ({"N": 12}, "multiple of 8"),
        ({"N": 128}, "from 8 to 64"),
        ({"Q": 1}, "its sizes are"),
    ],
)
def test_unfit_sizes_are_refused(sizes: dict[str, int], why: str) -> None:
    with pytest.raises(MsError) as caught:
        only(GEMM, **sizes)
    found = caught.value.diagnostic
    assert found.code == "MS112"
    assert why in (found.why or "")


def test_a_size_without_value_is_missing_only_when_instantiated() -> None:
    text = "program p[N](x: f32[N], out y: f32[N]) { block b[i: N] { y[i] = x[i] } }"
    assert module(text).diagnostics == ()
    assert code(text) == "MS112"


def test_sizes_by_position() -> None:
    item = find_program(module(GEMM), "gemm").item
    assert isinstance(item, tree.Program)
    assert sizes_by_position(item, (4, 8)) == {"M": 4, "N": 8}
    with pytest.raises(MsError):
        sizes_by_position(item, (1, 2, 3, 4))


def test_an_unknown_program_has_a_suggestion() -> None:
    with pytest.raises(MsError) as caught:
        instantiate(module(GEMM), "gem")
    assert caught.value.diagnostic.help == "did you mean `gemm`?"


# ------------------------------------------------------------------ blocks
def test_blocks_get_loops_of_their_own_with_unique_names() -> None:
    p = only("""program p[N = 4](x: f32[N], out y: f32[N], out z: f32[N]) {
        block a[i: N] { y[i] = x[i] }
        block b[i: N] { z[i] = x[i] }
        for o in 2 { block c[i: N = o * 2, j: 2] { z[i] = x[j] } }
    }""")
    assert [s.var for s in walk(p.body) if isinstance(s, For)] == ["i", "i_1", "o", "j"]
    assert block(p, "b").axes[0].binding == Var("i_1")
    assert block(p, "c").axes[0].binding == Binary("*", Var("o"), Const(2))


@pytest.mark.parametrize(
    ("update", "start"),
    [
        ("y[i] += x[i, k]", 0.0),
        ("y[i] *= x[i, k]", 1.0),
        ("y[i] = max(y[i], x[i, k])", -math.inf),
        ("y[i] = min(x[i, k], y[i])", math.inf),
    ],
)
def test_init_is_the_identity_of_the_update(update: str, start: float) -> None:
    text = f"program p[N = 4](x: f32[N, N], out y: f32[N]) {{ block b[i: N | k: N] {{ {update} }} }}"
    assert block(only(text), "b").init == (Store("y", (Var("i"),), Const(start, "f32")),)


def test_an_inout_is_never_initialised() -> None:
    text = "program p[N = 4](x: f32[N, N], inout y: f32[N]) { block b[i: N | k: N] { y[i] += x[i, k] } }"
    assert block(only(text), "b").init is None


def test_reads_leave_out_what_the_reduction_updates() -> None:
    b = block(only(GEMM, N=8), "mm")
    assert [r.buffer for r in b.reads] == ["A", "B"]
    assert [r.buffer for r in b.writes] == ["C"]


def test_where_of_a_loop_becomes_the_predicate_of_its_blocks() -> None:
    p = only("""program p[N = 6](x: f32[N], out y: f32[N]) {
        for o in 2, m in 4 where o * 4 + m < N { block b[i: N = o * 4 + m] { y[i] = x[i] } }
    }""")
    assert block(p, "b").predicate == Binary("<", Binary("+", Binary("*", Var("o"), Const(4)), Var("m")), Const(6))


def test_lets_of_a_block_become_lets_and_those_of_the_program_sizes() -> None:
    p = only("""program p[N = 8](x: f32[N], inout y: f32[N]) {
        let half = N // 2
        block b[i: half] {
            let t = x[i]
            y[i] = t * t
        }
    }""")
    b = block(p, "b")
    assert b.axes[0].extent == Const(4)
    assert b.body == (
        Let(
            "t",
            Load("x", (Var("i"),), "f32"),
            (Store("y", (Var("i"),), Binary("*", Var("t", "f32"), Var("t", "f32"))),),
        ),
    )


def test_sizes_choose_a_branch_of_the_program() -> None:
    text = """program p[N = 8](x: f32[N], out y: f32[N]) {
        if N > 4 { block b[i: N] { y[i] = x[i] } } else { block b[i: N] { y[i] = 0.0 } }
    }"""
    assert block(only(text), "b").reads != ()
    assert block(only(text, N=3), "b").reads == ()


def test_literals_take_the_type_of_what_they_meet() -> None:
    p = only("""program p[N = 8](x: f16[N], n: u8[N], out y: f16[N], out m: u8[N]) {
        block a[i: N] { y[i] = max(x[i], 0) + 2 }
        block b[i: N] { m[i] = n[i] + 255 }
    }""")
    x = Load("x", (Var("i"),), "f16")
    assert block(p, "a").body == (
        Store("y", (Var("i"),), Binary("+", Binary("max", x, Const(0.0, "f16")), Const(2.0, "f16"))),
    )
    assert block(p, "b").body == (Store("m", (Var("i"),), Binary("+", Load("n", (Var("i"),), "u8"), Const(255, "u8"))),)


@pytest.mark.parametrize("value", ["{}", "-{}", "2.0 * ({} + 1)", "exp({})", "f32({})", "x[i] * ({} - {})"])
def test_integers_that_no_float_holds_are_refused(value: str) -> None:
    with pytest.raises(MsError) as error:
        value = value.replace("{}", "9" * 400)
        parse_program(f"program p(x: f32[8], out y: f32[8]) {{ block b[i: 8] {{ y[i] = {value} }} }}")
    assert [d.code for d in error.value.diagnostics] == ["MS123"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [("choose([1, 1e400])", "MS123"), ("choose([1.5])", "MS113"), (f"choose([1], weights = [{'9' * 400}])", "MS123")],
)
def test_decisions_of_numbers_that_are_none(kind: str, code: str) -> None:
    with pytest.raises(MsError) as error:
        parse_program(f"program p[M: {kind}](out y: f32[8]) {{ block b[i: 8] {{ y[i] = 1.0 }} }}")
    assert error.value.diagnostic.code == code


def test_consts_of_the_module_and_of_others_are_known() -> None:
    texts = {
        "lib.ms": "const tile = 4\nconst scale = 0.5",
        "main.ms": """use "./lib.ms".{tile}
        use "./lib.ms" as lib
        const twice = 2 * tile
        program p(x: f32[twice], out y: f32[twice]) { block b[i: twice] { y[i] = x[i] * lib.scale } }""",
    }
    found = load("main.ms", reader=texts.get)
    assert found.diagnostics == ()
    p = instantiate(found, "p")
    assert p.params[0].buffer.shape == (Const(8),)


def test_the_source_map_points_at_the_names() -> None:
    found = instantiate_with_source(module(GEMM), "gemm")
    text = find_program(module(GEMM), "gemm").placed.parsed.text
    shown = {
        name: text[s.start : s.end]
        for name, s in {**found.source.blocks, **found.source.loops, **found.source.buffers}.items()
    }
    assert shown == {"mm": "mm", "i": "i", "j": "j", "k": "k", "A": "A", "B": "B", "C": "C"}
    assert {k: text[s.start : s.end] for k, s in found.source.axes.items()} == {
        ("mm", "i"): "i",
        ("mm", "j"): "j",
        ("mm", "k"): "k",
    }


def test_a_program_with_syntax_errors_is_not_instantiated() -> None:
    with pytest.raises(MsError) as caught:
        only("program p[N = 4](out y: f32[N]) { block b[i: N] { y[i] = } }")
    assert caught.value.diagnostic.code.startswith("MS0")
    assert caught.value.diagnostic.path == "test.ms"


def test_a_program_that_names_what_a_faulty_use_lost_is_not_instantiated() -> None:
    text = 'use "./absent.ms".{n}\nprogram p(out y: f32[8]) { block b[i: n] { y[i] = 0.0 } }'
    assert [d.code for d in module(text).diagnostics] == ["MS120"]
    assert code(text) == "MS120"


# ------------------------------------------------------------------ the long form
FEATURES = """program everything[M: dyn(1..64, multiple = 4), `sa/ti`: perfect_tile(64, n = 3, max_inner = 16), \
t: tile(M, n = 2), pt: partitioned_tile(64, n = 2, at = 1, factor = 4), c: choose([1, -2, 4], [0.5, 0.25, 0.25]), \
u: uniform(0, 4)](
    A: f32[M, 64] @ global(strides = [64, 1], offset = 4, align = 64), n: i32[M], s: f64[],
    out C: f32[M, 64], inout D: bool[M]
) {
    alloc acc: f32[64, 16] @ shared.dyn
    attr "pragma" = [1, "a", true, [-2.5, `sa/ti`[1] * 2]]
    for i in M @ parallel("grain" = 4), j in 2..16 @ vectorized {
        for o in `sa/ti`[0] .. `sa/ti`[0] + pt[1] {
            block outer[x: M = i, y: 16 = j, z: 4 @ opaque = o, w: 2 @ scan = 0 | k: 1 = 0] {
                alloc tmp: f32[4] @ local(align = 16)
                view v: f32[4, 4] = acc[y .. y + 4, 0 .. 4]
                reads A[x, 0 .. 64], n[x]
                writes C[x, y], acc[0 .. 64, 2 .. 4]
                where i < M - 3 and (x < 4 or y == c)
                attr "auto" = u
                init { C[x, y] = -inf }
                for q in 4 @ unrolled {
                    block inner[a: 4 = q] {
                        where q < 3
                        tmp[a] = 0.5
                        let f = f32(n[a]) * -1.5
                        let g = shift_left(n[a], i32(2))
                        if f < 1.5 and not g == 3 {
                            tmp[a] = max(f, 0.0)
                        } else if D[a] {
                            tmp[a] = select(f < 0.0, atan2(f, 3.0), -(1.5))
                        } else {
                            tmp[a] = tmp[a] * pow(f, 2.0)
                        }
                        while tmp[a] < f32(s[]) {
                            tmp[a] += f32(f16(0.25))
                        }
                        D[a] = (1 < 2) == true
                        v[a, 0] = f32(i64(3)) + f32(t[0] // 2 % 3) - (f - 1.0)
                    }
                }
            }
        }
    }
}
"""


def test_the_long_form_of_everything_is_read_back() -> None:
    p = parse_program(FEATURES)
    text = print_program(p)
    assert parse_program(text) == p
    m = Symbol("M", DynamicRange(1, 64, 4))
    assert p.dynamic == (m,)
    assert {s.name: s.domain for s in symbols_of(p)} == {
        "M": m.domain,
        "sa/ti": PerfectTile(Const(64), 3, 16),
        "t": FreeTile(m, 2),
        "u": Uniform(0, 4),
        "pt": PartitionedTile(Const(64), 2, 1, 4),
        "c": Choice((1, -2, 4), (0.5, 0.25, 0.25)),
    }


def test_extents_and_starts_are_kept_as_they_are_written() -> None:
    p = parse_program(FEATURES)
    loops = {s.var: s for s in walk(p.body) if isinstance(s, For)}
    ti = PerfectTile(Const(64), 3, 16)
    assert (loops["j"].start, loops["j"].extent) == (Const(2), Const(14))
    assert loops["o"].start == Symbol("sa/ti", ti, 0)
    assert loops["o"].extent == Symbol("pt", PartitionedTile(Const(64), 2, 1, 4), 1)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_printed_programs_are_read_back(p: Program) -> None:
    assert parse_program(print_program(p)) == p


@pytest.mark.parametrize("text", ["", "const a = 3", "program p() {} program q() {}", "program p( {}"])
def test_what_is_not_one_program_is_refused(text: str) -> None:
    with pytest.raises(MsError):
        parse_program(text)


@pytest.mark.parametrize(
    ("name", "program"),
    [("matmul", "matmul"), ("conv2d", "conv2d_bias_relu"), ("wmma", "matmul_f16"), ("long_form", "matmul")],
)
def test_samples_expand_to_the_golden_long_form(name: str, program: str) -> None:
    found = load(str(SAMPLES / f"{name}.ms"))
    assert found.diagnostics == ()
    p = instantiate(found, program)
    text = print_program(p)
    assert text == (EXPECT / f"{name}.ms").read_text(encoding="utf-8")
    assert parse_program(text) == p


@pytest.mark.parametrize(
    ("size", "says"),
    [({"M": 1.5}, "size `M` is 1.5"), ({"M": [4]}, "size `M` is [4]"), ({"sizes": {"M": 4}}, "by its name: `M = …`")],
)
def test_sizes_are_whole_numbers(size, says):
    module = load(stdlib_folder() / "workloads" / "gemm.ms")
    with pytest.raises(MsError, match="MS112") as error:
        instantiate(module, "gemm", size)
    assert says in str(error.value)
    assert instantiate(module, "gemm", {"M": np.int64(8)}) == instantiate(module, "gemm", {"M": 8})
