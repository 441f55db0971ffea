"""Programs as TVM's object graphs: there and back, three generations of the format, and damaged ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.tvm.index_maps import MapText, read_map, write_map
from mslang.interop.tvm.program_in import programs
from mslang.interop.tvm.program_out import to_graph
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.print import print_program
from mslang.ir.program import For, Program
from mslang.resources import stdlib_folder
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program

DATA = Path(__file__).parents[3] / "data" / "tvm"

EVERYTHING = """program everything(A: f32[8, 16], I: i32[8], U: u8[8], out B: f32[8, 16], inout S: f32[8]) {
    alloc T: f32[8, 16] @ shared(strides = [32, 1], align = 32)
    for x in 8 @ parallel("pragma.x" = 1, "note" = "text") {
        for y in 2 @ unrolled {
            for z in 8 @ vectorized {
                block first[i: 8 = x, j: 16 = y * 8 + z] {
                    where y * 8 + z < 15
                    attr "list" = [1, 2]
                    let w = (i * 2 + j) % 7
                    if w < 3 { T[i, j] = f32(I[i]) * f32(w) } else { T[i, j] = -abs(A[i, j]) }
                }
            }
        }
    }
    block outer[i: 8] {
        view v: f32[16] = T[i, 0..16]
        alloc sum: f32[]
        block inner[ii: 8 = i | k: 16] {
            init { sum[] = 0.0 }
            sum[] += exp(v[k])
        }
        block tail[p: 8 = i, j: 16] {
            B[p, j] = select(j % 2 == 0 and not I[p] == 3, max(sum[], v[j]), A[i64(I[p]) % 8, j])
        }
    }
    for t in 8 @ threadIdx.x {
        block bits[i: 8 = t] { S[i] = S[i] + f32(shift_left(bit_and(U[i], 3), 1)) + pow(2.0, f32(U[i])) }
    }
}"""


def back(p: Program) -> Program:
    (found,) = programs(to_graph(p)).values()
    return replace(found, name=p.name)


def test_everything_comes_back() -> None:
    p = parse_program(EVERYTHING)
    assert alpha_equal(back(p), p)


def test_a_conversion_of_a_literal_is_kept() -> None:
    p = tvmscript.parse_one("""
@T.prim_func
def main(A: T.Buffer((4,), "int64"), B: T.Buffer((4,), "int64")):
    for i in T.serial(4):
        with T.sblock("b"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] * T.Cast("int64", 1408572815)
""")
    graph = to_graph(p)
    assert graph.count('"prim.Cast"') == 1
    assert alpha_equal(programs(graph)["main"], p)


WORKLOADS = sorted(f.stem for f in (stdlib_folder() / "workloads").glob("*.ms"))


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_of_the_library_comes_back(name: str) -> None:
    module = load(str(stdlib_folder() / "workloads" / f"{name}.ms"))
    assert module.programs
    for program in module.programs:
        p = instantiate(module, program, {})
        assert alpha_equal(back(p), p)


# ------------------------------------------------------------------ generations
def test_what_tvm_0_25_wrote() -> None:
    (p,) = programs((DATA / "program_0.25.json").read_text()).values()
    expected = parse_program("""program main(A: f32[8, 16], out C: f32[8]) {
        alloc B: f32[8, 16]
        block b[vi: 8, vk: 16] { B[vi, vk] = select(vi < 3, A[vi, vk], 2.5) }
        block s[vi: 8 | vk: 16] {
            reads B[vi, vk]
            C[vi] += exp(B[vi, vk])
        }
    }""")
    assert alpha_equal(p, expected)


def test_names_before_the_block_was_an_sblock() -> None:
    text = (DATA / "program_0.25.json").read_text()
    older = text.replace("tirx.SBlock", "tir.Block").replace('"tirx.', '"tir.')
    assert older != text
    assert programs(older) == programs(text)


def oldest(text: str) -> str:
    """A graph of 0.25 in the format that was there before objects had a type and data: everything is a string."""
    data = json.loads(text)
    nodes: list[dict[str, Any]] = []
    for n in data["nodes"]:
        kind, value = n["type"], n.get("data")
        name = {"ffi.Array": "Array", "ffi.Map": "Map", "ffi.String": "runtime.String", "ir.Op": "Op"}.get(kind, kind)
        name = name.removeprefix("ir.").replace("tirx.SBlock", "tir.Block").replace("tirx.", "tir.")
        match value:
            case None:
                nodes.append({"type_key": ""})
            case dict():
                nodes.append({"type_key": name, "attrs": {k: _text(v) for k, v in value.items()}})
            case list():
                nodes.append({"type_key": name, "data": value})
            case str() if name in ("runtime.String", "Op"):
                nodes.append({"type_key": name, "repr_str": value})
            case _:
                nodes.append({"type_key": "IntImm", "attrs": {"dtype": "int32", "value": _text(value)}})
    return json.dumps({"root": data["root_index"], "nodes": nodes, "attrs": {"tvm_version": "0.12.0"}})


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def test_the_oldest_format() -> None:
    text = (DATA / "program_0.25.json").read_text()
    assert programs(oldest(text)) == programs(text)


# ------------------------------------------------------------------ names
def test_names_become_unique_and_parameters_and_buffers_keep_theirs() -> None:
    p = parse_program("""program p(A: f32[4], out C: f32[4]) {
        alloc T: f32[4]
        block T_1[i: 4] { T[i] = A[i] }
        block C_1[i: 4] { C[i] = T[i] }
    }""")
    # As TE makes them: a block is called as the buffer that it writes.
    text = to_graph(p).replace('"T_1"', '"T"').replace('"C_1"', '"C"')
    (q,) = programs(text).values()
    assert [x.buffer.name for x in q.params] == ["A", "C"]
    # Copies of a buffer are called after it, and found by that name.
    assert {b.name for b in q.allocs} == {"T"}
    assert [s.name for s in _blocks(q)] == ["T_block", "C_block"]
    assert dict(q.annotations)["mslang.blocks"] == (("T", "T_block"), ("C", "C_block"))


def test_an_annotation_may_hold_buffers() -> None:
    p = parse_program("""program p(A: f32[4], W: f32[4], out C: f32[4]) {
        block C_1[i: 4] {
            attr "layout_free_placeholders" = ["W", "gone"]
            C[i] = A[i] * W[i]
        }
    }""")
    text = to_graph(p)
    assert "gone" not in text
    (q,) = programs(text).values()
    assert _blocks(q)[0].annotations == (("layout_free_placeholders", ("W",)),)


def _blocks(p: Program) -> list[Any]:
    from mslang.ir.find import blocks_of

    return list(blocks_of(p.body))


# ------------------------------------------------------------------ what cannot be
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "MS741"),
        ("[]", "MS741"),
        ('{"nodes": []}', "MS741"),
        ('{"nodes": [{"type": "None"}], "root_index": 7}', "MS741"),
        ('{"nodes": [{"type": "None"}], "root_index": 0}', "MS741"),
        ('{"nodes": [3], "root_index": 0}', "MS741"),
        ('{"nodes": [{"type": "ir.IRModule", "data": {"functions": 0}}], "root_index": 0}', "MS741"),
    ],
)
def test_what_is_no_graph(text: str, code: str) -> None:
    with pytest.raises(MsError) as caught:
        programs(text)
    assert caught.value.diagnostic.code == code


def test_what_mslang_has_not_is_named() -> None:
    text = to_graph(parse_program("program p(A: f32[4], out C: f32[4]) { block b[i: 4] { C[i] = exp(A[i]) } }"))
    for broken, what in (
        (text.replace("tirx.exp", "tirx.lgamma"), "lgamma"),
        (text.replace("float32", "handle"), "handle"),
    ):
        with pytest.raises(MsError) as caught:
            programs(broken)
        assert caught.value.diagnostic.code == "MS745"
        assert what in caught.value.diagnostic.message


def test_damaged_graphs_never_end_in_a_traceback() -> None:
    text = (DATA / "program_0.25.json").read_text()
    data = json.loads(text)
    rng = random.Random(1)
    survived = 0
    for _ in range(300):
        broken = json.loads(text)
        node = rng.choice(broken["nodes"])
        match node.get("data"):
            case dict() as fields if fields:
                key = rng.choice(list(fields))
                if rng.random() < 0.3:
                    del fields[key]
                else:
                    fields[key] = rng.choice([0, -1, len(data["nodes"]) + 5, "x", None, 2.5, [], rng.randrange(200)])
            case list() as inside if inside:
                inside[rng.randrange(len(inside))] = rng.choice([0, -4, 10**6, "x", None, rng.randrange(200)])
            case _:
                node["type"] = rng.choice(["None", "ir.Nothing", "ffi.Array", "tirx.For"])
        try:
            programs(json.dumps(broken))
            survived += 1
        except MsError:
            pass
    assert survived < 250


@pytest.mark.parametrize("function", ["exp", "likely", "bitwise_not", "call_extern"])
def test_calls_without_arguments(function: str) -> None:
    p = parse_program("program p(A: f32[4], out C: f32[4]) { block b[i: 4] { C[i] = exp(A[i]) } }")
    data = json.loads(to_graph(p).replace("tirx.exp", f"tirx.{function}"))
    (call,) = (n for n in data["nodes"] if n["type"].endswith("Call"))
    data["nodes"].append({"type": "ffi.Array", "data": []})
    call["data"]["args"] = len(data["nodes"]) - 1
    with pytest.raises(MsError) as caught:
        programs(json.dumps(data))
    assert caught.value.diagnostic.code == "MS741"


def test_a_map_whose_keys_are_no_list() -> None:
    with pytest.raises(MsError) as caught:
        programs('{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Map", "keys": 5}]}')
    assert caught.value.diagnostic.code == "MS741"


# ------------------------------------------------------------------ index maps
def test_index_maps_come_back() -> None:
    i, j = Var("i"), Var("j")
    m = IndexMap(("i", "j"), (Binary("//", i, Const(4)), j, Binary("%", i, Const(4))))
    assert read_map(write_map(m, {}), {}) == m


def test_an_index_map_of_tvm() -> None:
    text = json.dumps(
        {
            "root_index": 9,
            "nodes": [
                {"type": "None"},
                {"type": "ffi.String", "data": "i"},
                {"type": "tir.Var", "data": {"dtype": "int32", "name": 1, "span": 0}},
                {"type": "ffi.Array", "data": [2]},
                {"type": "ffi.String", "data": "v7"},
                {"type": "tir.Var", "data": {"dtype": "int32", "name": 4, "span": 0}},
                {"type": "tir.FloorDiv", "data": {"dtype": "int32", "a": 2, "b": 5, "span": 0}},
                {"type": "tir.FloorMod", "data": {"dtype": "int32", "a": 2, "b": 5, "span": 0}},
                {"type": "ffi.Array", "data": [6, 7]},
                {
                    "type": "tir.IndexMap",
                    "data": {"initial_indices": 3, "final_indices": 8, "inverse_index_map": 0},
                },
            ],
        }
    )
    i = Var("i")
    assert read_map(MapText(text), {"v7": Const(8)}) == IndexMap(
        ("i",), (Binary("//", i, Const(8)), Binary("%", i, Const(8)))
    )
    with pytest.raises(MsError):
        read_map(MapText(text), {})


# ------------------------------------------------------------------ what TVM has written, by `data/tvm/graphs/make.py`
def written(name: str) -> Program:
    return programs((DATA / "graphs" / f"{name}.json").read_text())["main"]


def test_a_block_inside_of_an_init() -> None:
    p = written("block_in_init")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (16, 16)).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(run(p, {"A": a, "B": b})["C"], a @ b)
    # A block names its own axes only: what it uses of those around it is bound to axes of its own.
    assert "block mm_init[vi_o_1: 16 = vi_o, vj_o_1: 16 = vj_o]" in print_program(p)


def test_a_product_with_a_fixed_point_factor() -> None:
    p = written("q_multiply_shift")
    x = np.array([0, 1, -1, 3, 1000, -1000, 2**20, -(2**20), *range(8)], np.int32)
    expected = (x.astype(object) * 1098990753 + (1 << 29)) >> 30
    np.testing.assert_array_equal(run(p, {"A": x})["B"], expected.astype(np.int32))


def test_sizes_known_only_at_the_call() -> None:
    p = written("dynamic")
    assert [s.name for s in p.dynamic] == ["m", "n"]  # type: ignore[attr-defined]
    assert "A: f32[m * 2, m]" in print_program(p) or "A: f32[2 * m, m]" in print_program(p)
    assert parse_program(print_program(p)) == p


def test_a_buffer_without_elements_is_refused() -> None:
    p = parse_program("program p(A: f32[4, 7], out B: f32[4]) { block b[i: 4] { B[i] = A[i, 0] } }")
    (a, b) = p.params
    empty = replace(a.buffer, shape=(Const(4), Const(0)))
    with pytest.raises(MsError, match="`A`, which has no elements"):
        programs(to_graph(replace(p, params=(replace(a, buffer=empty), b))))


def test_a_loop_of_negative_extent_runs_no_iteration() -> None:
    p = parse_program("program p(out B: f32[4]) { for i in 0 { block b[x: 4 = i] { B[x] = 1.0 } } }")
    (loop,) = p.body
    assert isinstance(loop, For)
    (again,) = programs(to_graph(replace(p, body=(replace(loop, extent=Const(-2)),)))).values()
    assert alpha_equal(replace(again, name="p"), p)


# ------------------------------------------------------------------ what a function does not say
def undirected(body: str) -> Program:
    """A program that was written without the directions of its parameters, and read back."""
    head = "from tvm.script import tirx as T\n\n@T.prim_func\ndef f("
    params = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
    text = to_graph(tvmscript.parse_one(f"{head}{params}{body}"))
    (found,) = programs(text.replace("mslang.directions", "other.directions")).values()
    return found


@pytest.mark.parametrize(
    ("body", "directions"),
    [
        ("    for i in range(8):\n        A[i] = A[i] + B[i]\n", ["inout", "in"]),
        ("    for i in range(8):\n        B[i] = A[i]\n    A[0] = T.float32(0)\n", ["inout", "out"]),
        ("    for i in range(4):\n        B[i] = A[i]\n", ["in", "inout"]),
    ],
)
def test_directions_follow_from_statements_outside_of_blocks_too(body: str, directions: list[str]) -> None:
    assert [q.direction for q in undirected(body).params] == directions


def test_a_narrow_conversion_of_an_index_wraps_around() -> None:
    program = parse_program(
        "program p(out C: f32[8], out D: f32[8]) { block b[i: 8] {"
        " C[i] = f32(i8(i * 100)) D[i] = f32(i8(i * 100) // i8(3)) } }"
    )
    (back,) = programs(to_graph(program)).values()
    assert alpha_equal(replace(back, name="p"), program)


def test_a_let_of_64_bits_keeps_them() -> None:
    program = parse_program(
        "program p(A: i64[4], out B: i64[4], out C: f32[4]) { block b[i: 4] {"
        " let x = A[i] let y = i * 3000000000 B[i] = x * 2 + y C[i] = f32(i * 3000000000) } }"
    )
    text = to_graph(program)
    (back,) = programs(text).values()
    given = {"A": np.array([2**40, -(2**40), 3, 4])}
    assert all(np.array_equal(run(back, given)[n], run(program, given)[n]) for n in "BC")
    nodes = json.loads(text)["nodes"]
    narrow = [k for k, n in enumerate(nodes) if n["type"] == "ir.PrimType" and n["data"]["dtype"] == "int32"]
    wide = [n for n in nodes if n["type"] == "ir.IntImm" and nodes[n["data"]["value"]]["data"] == 3000000000]
    assert wide
    assert not any(n["data"]["ty"] in narrow for n in wide)


def test_an_index_beyond_32_bits_is_refused() -> None:
    with pytest.raises(MsError) as caught:
        to_graph(parse_program("program p(A: i8[3000000000], out B: i8[1]) { block b { B[0] = A[2999999999] } }"))
    assert caught.value.diagnostic.code == "MS745"


@pytest.mark.parametrize(("dtype", "numpy"), [("u8", "uint8"), ("u16", "uint16"), ("i8", "int8"), ("i32", "int32")])
def test_a_complement_has_the_type_of_its_operand(dtype: str, numpy: str) -> None:
    graph = to_graph(
        parse_program(f"program f(A: {dtype}[4], out B: {dtype}[4]) {{ block b[i: 4] {{ B[i] = popcount(A[i]) }} }}")
    )
    assert graph.count('"tirx.popcount"') == 1
    (p,) = programs(graph.replace('"tirx.popcount"', '"tirx.bitwise_not"')).values()
    given = np.array([0, 1, 100, 127], numpy)
    np.testing.assert_array_equal(run(p, {"A": given})["B"], ~given)


def test_round_is_that_of_tirx_and_not_that_of_older_versions() -> None:
    graph = to_graph(parse_program("program f(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = round(A[i]) } }"))
    assert graph.count('"tirx.nearbyint"') == 1
    (p,) = programs(graph.replace('"tirx.nearbyint"', '"tirx.round"')).values()
    assert run(p, {"A": np.array([0.5, 1.5, 2.5, -0.5], np.float32)})["B"].tolist() == [0, 2, 2, 0]
    with pytest.raises(MsError, match=r"`tir\.round`"):
        programs(graph.replace('"tirx.nearbyint"', '"tir.round"'))
