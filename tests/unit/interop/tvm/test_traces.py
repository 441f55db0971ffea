"""TVM's traces, on data that TVM has written (`tests/data/tvm/make.py`)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.interop.tvm import records
from mslang.interop.tvm.index_maps import write_map
from mslang.interop.tvm.instructions import BY_KIND, BY_OP, MAPPED, SAMPLERS
from mslang.interop.tvm.records import Tuned
from mslang.interop.tvm.trace_in import Imported, import_trace
from mslang.interop.tvm.trace_json import TvmTrace, from_data, parse, to_data, to_json
from mslang.interop.tvm.trace_out import export_trace
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.find import blocks_of
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Program
from mslang.schedule import Schedule
from mslang.schedule.replay import replay, space_of_text
from mslang.sema.program import parse_program
from mslang.transform.registry import OPERATIONS

DATA = Path(__file__).parents[3] / "data" / "tvm"

GEMM = """program gemm(A: f32[32, 24], B: f32[24, 32], out C: f32[32, 32]) {
    alloc D: f32[32, 32]
    block mm[i: 32, j: 32 | k: 24] { D[i, j] += A[i, k] * B[k, j] }
    block relu[i: 32, j: 32] { C[i, j] = max(D[i, j], 0.0) }
}"""


def tuned() -> list[Tuned]:
    return records.read_database(DATA).tuned()


def cases() -> list[tuple[Program, TvmTrace]]:
    return [(w.program, r.trace) for w, rs in tuned() for r in rs]


def trace(*insts: list[object], decisions: list[list[object]] | None = None) -> TvmTrace:
    return from_data([list(insts), decisions or []])


def imported(*insts: list[object], decisions: list[list[object]] | None = None) -> Imported:
    return import_trace(parse_program(GEMM), trace(*insts, decisions=decisions))


def refused(*insts: list[object]) -> str:
    with pytest.raises(MsError) as caught:
        imported(*insts)
    d = caught.value.diagnostic
    return f"{d.code}: {d.message} / {d.why}"


def same_meaning(a: Program, b: Program) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        p.buffer.name: rng.integers(-4, 5, [n.value for n in p.buffer.shape]).astype(np.float32)  # type: ignore[attr-defined]
        for p in a.params
        if p.direction != "out"
    }
    one, two = (run(p, {k: v.copy() for k, v in arrays.items()}) for p in (a, b))
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name])


MM = ["GetSBlock", [], ["mm", "main"], ["b0"]]
LOOPS = ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]


# ------------------------------------------------------------------ whole traces
@pytest.mark.parametrize("k", range(6))
def test_what_metaschedule_made_replays_and_means_the_same(k: int) -> None:
    program, theirs = cases()[k]
    done = import_trace(program, theirs)
    assert alpha_equal(replay(program, done.trace).program, done.program)
    assert len(done.trace.instructions) > 3
    same_meaning(program, done.program)


@pytest.mark.parametrize("k", range(6))
def test_the_flat_text_is_the_same_schedule(k: int) -> None:
    program, theirs = cases()[k]
    done = import_trace(program, theirs)
    again = space_of_text(done.trace.as_ms("x"), program).sample(1)
    assert alpha_equal(again.program, done.program)


@pytest.mark.parametrize("k", range(6))
def test_there_and_back(k: int) -> None:
    program, theirs = cases()[k]
    done = import_trace(program, theirs)
    exported = export_trace(program, done.trace)
    assert exported.notes == ()
    again = import_trace(program, parse(to_json(exported.trace)))
    assert alpha_equal(again.program, done.program)
    assert list(again.trace.decisions.values()) == list(done.trace.decisions.values())


def test_json_is_read_and_written_without_loss() -> None:
    line = json.loads((DATA / records.RECORDS).read_text().splitlines()[1])
    assert to_data(from_data(line[1][0])) == line[1][0]


def test_names_that_older_versions_used() -> None:
    for program, theirs in cases():
        old = parse(to_json(theirs).replace('"GetSBlock"', '"GetBlock"'))
        assert old != theirs
        assert import_trace(program, old).trace == import_trace(program, theirs).trace


def test_blocks_of_a_program_from_tvmscript_are_found_by_their_names_there() -> None:
    # A block is called as the buffer that it writes, which it cannot be here.
    program = parse_program(GEMM.replace("block mm[", "block D_block[").replace("block relu[", "block C_block["))
    done = import_trace(
        program,
        trace(
            ["GetSBlock", [], ["D", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
            ["RFactor", ["l3", 0], [], ["b4"]],
            ["GetSBlock", [], ["D_rf", "main"], ["b5"]],
            ["GetLoops", ["b5"], [], ["l6", "l7", "l8"]],
            ["Parallel", ["l7"], [], []],
        ),
    )
    assert [b.name for b in blocks_of(done.program.body)] == ["D_block_rf", "D_block", "C_block"]
    assert [i.op for i in done.trace.instructions] == ["rfactor", "parallel"]


PRIMITIVES = json.loads((DATA / "primitives.json").read_text())


@pytest.mark.parametrize("entry", PRIMITIVES, ids=[e["name"] for e in PRIMITIVES])
def test_each_primitive_of_tvm(entry: dict[str, object]) -> None:
    program = parse_program(str(entry["program"]))
    done = import_trace(program, from_data(entry["trace"]))
    assert done.notes == ()
    same_meaning(program, done.program)
    exported = export_trace(program, done.trace)
    assert exported.notes == ()
    again = import_trace(program, parse(to_json(exported.trace)))
    assert alpha_equal(again.program, done.program)


def test_each_primitive_of_tvm_is_among_them() -> None:
    seen = {str(i[0]) for e in PRIMITIVES for i in e["trace"][0]}
    assert set(BY_KIND) - seen == {"Tensorize"}


# ------------------------------------------------------------------ instructions
def test_the_table_names_parameters_that_there_are() -> None:
    for m in MAPPED:
        params = {p.name for p in OPERATIONS[m.op].params}
        said = {s.param for s in (*m.inputs, *m.attrs) if s.param}
        assert said <= params, m.kind
        missing = {p.name for p in OPERATIONS[m.op].params if type(p.default).__name__ == "Required"} - said
        assert not missing, m.kind
    assert len(BY_KIND) == len(BY_OP) == len(MAPPED) == 41
    assert set(SAMPLERS.values()) <= set(OPERATIONS)


def test_a_tile_is_mended_as_tvm_mends_it() -> None:
    done = imported(
        MM,
        LOOPS,
        ["SamplePerfectTile", ["l1"], [3, 16], ["v4", "v5", "v6"]],
        ["Split", ["l1", "v4", "v5", "v6"], [1, 0], ["l7", "l8", "l9"]],
        decisions=[[2, [2, 3, 8]]],
    )
    # 32 is 8 · 4, and 3 does not divide 4
    assert done.trace.decisions == {"i_tile": (1, 4, 8)}
    assert [n.code for n in done.notes] == ["MS744"]


def test_decisions_that_are_not_there_are_drawn() -> None:
    done = imported(MM, LOOPS, ["SamplePerfectTile", ["l1"], [2, -1], ["v4", "v5"]])
    a, b = done.trace.decisions["i_tile"]  # type: ignore[misc]
    assert a * b == 32  # type: ignore[operator]


def test_none_text_lists_and_constants() -> None:
    done = imported(
        MM,
        LOOPS,
        ["Split", ["l1", "None", 8], [1, 0], ["l4", "l5"]],
        ["Annotate", ["l4", '"some text"'], ["key"], []],
        ["Annotate", ["b0", [1, 2]], ["list"], []],
        ["CacheRead", ["b0", ["b0"]], [1, "local"], ["b6"]],
        ["ComputeAt", ["b6", "l5"], [1, -1], []],
    )
    text = done.trace.as_ms("x")
    assert "mm.i.split([_, 8])" in text
    assert '"some text"' in text and "[1, 2]" in text
    assert "mm.cache_read(B, local, consumers = [mm])" in text


def test_blocks_that_tvm_makes_are_found_by_its_names() -> None:
    done = imported(
        MM,
        LOOPS,
        ["CacheWrite", ["b0", []], [0, "local"], ["b4"]],
        ["GetSBlock", [], ["D_local", "main"], ["b5"]],
        ["CacheRead", ["b5", []], [0, "shared"], ["b6"]],
        ["GetSBlock", [], ["D_local_shared", "main"], ["b7"]],
        ["DecomposeReduction", ["b0", "l3"], [], ["b8"]],
        ["GetSBlock", [], ["mm_init", "main"], ["b9"]],
        ["GetSBlock", [], ["mm_update", "main"], ["b10"]],
        ["Annotate", ["b10", 1], ["here"], []],
    )
    assert len(done.trace.instructions) == 4


def test_loops_of_one_iteration_are_not_counted_where_tvm_leaves_them_out() -> None:
    done = imported(
        MM,
        LOOPS,
        ["GetSBlock", [], ["relu", "main"], ["b4"]],
        ["ReverseComputeAt", ["b4", "l1"], [0, -1], []],
        ["GetLoops", ["b4"], [], ["l5", "l6"]],
        ["Vectorize", ["l6"], [], []],
    )
    assert "relu.j.vectorize()" in done.trace.as_ms("x")
    same_meaning(parse_program(GEMM), done.program)


def test_remarks_on_the_root_block() -> None:
    root = ["GetSBlock", [], ["root", "main"], ["b0"]]
    remark = ["Annotate", ["b0", 64], ["meta_schedule.parallel"], []]
    kept = imported(root, remark)
    assert [n.message for n in kept.notes] == ["the remark 'meta_schedule.parallel' on the root block is left out"]
    assert imported(root, remark, ["Unannotate", ["b0"], ["meta_schedule.parallel"], []]).notes == ()


def test_getters_of_the_root_block() -> None:
    done = imported(
        ["GetSBlock", [], ["root", "main"], ["b0"]],
        ["GetChildBlocks", ["b0"], [], ["b1", "b2"]],
        ["GetOutputBlocks", ["b0"], [], ["b3"]],
        ["GetConsumers", ["b1"], [], ["b4"]],
        ["GetProducers", ["b4"], [], ["b5"]],
        ["Annotate", ["b3", 1], ["last"], []],
    )
    assert [i.op for i in done.trace.instructions] == ["annotate"]
    assert 'relu.annotate("last", 1)' in done.trace.as_ms("x")


def test_compute_locations() -> None:
    there = imported(
        MM,
        ["SampleComputeLocation", ["b0"], [], ["l1"]],
        ["ComputeAt", ["b0", "l1"], [1, -1], []],
        decisions=[[1, 0]],
    )
    assert next(iter(there.trace.decisions.values())).startswith("at(")  # type: ignore[union-attr]
    root = imported(
        MM,
        ["SampleComputeLocation", ["b0"], [], ["l1"]],
        ["ComputeAt", ["b0", "l1"], [1, -1], []],
        decisions=[[1, -1]],
    )
    assert list(root.trace.decisions.values()) == ["root"]


def test_a_remark_that_a_decomposition_copied_is_removed() -> None:
    program = parse_program("program s(A: f32[8, 4], out S: f32[8]) { block s[i: 8 | k: 4] { S[i] += A[i, k] } }")
    done = import_trace(
        program,
        trace(
            ["GetSBlock", [], ["s", "main"], ["b0"]],
            ["Annotate", ["b0", '"meta_schedule.auto_tensorize"'], ["mine"], []],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["DecomposeReduction", ["b0", "l2"], [], ["b3"]],
            ["Unannotate", ["b3"], ["mine"], []],
            ["Unannotate", ["b0"], ["mine"], []],
        ),
    )
    assert done.notes == ()
    assert [b.annotations for b in blocks_of(done.program.body)] == [(), ()]
    assert [i.kind for i in export_trace(program, done.trace).trace.insts].count("Unannotate") == 2


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("dot_16x4_vnni", "std.cpu.dot.u8s8_vnni"), ("dot_16x4_avx512", "std.cpu.dot.u8s8_16x4_avx512bw")],
)
def test_tensorize_by_the_library(theirs: str, ours: str) -> None:
    program = parse_program("""program q(A: u8[8, 24], B: i8[2, 6, 16, 4], out C: i32[8, 32]) {
        block mm[i: 8, j: 32 | k: 24] { C[i, j] += i32(A[i, k]) * i32(B[j // 16, k // 4, j % 16, k % 4]) }
    }""")
    insts: list[list[object]] = [
        MM,
        LOOPS,
        ["Split", ["l2", "None", 16], [1, 0], ["l4", "l5"]],
        ["Split", ["l3", "None", 4], [1, 0], ["l6", "l7"]],
        ["Reorder", ["l1", "l4", "l6", "l5", "l7"], [], []],
        ["DecomposeReduction", ["b0", "l6"], [], ["b8"]],
        ["Tensorize", ["l5"], [theirs, 1], []],
    ]
    done = import_trace(program, trace(*insts))
    assert f"tensorize({ours})" in done.trace.as_ms("x")
    exported = export_trace(program, done.trace).trace.insts[-1]
    assert (exported.kind, exported.attrs) == ("Tensorize", (theirs, 1))
    with pytest.raises(MsError) as caught:
        import_trace(program, trace(*insts[:-1], ["Tensorize", ["l5"], ["my_own", 1], []]))
    assert caught.value.diagnostic.code == "MS742"


# ------------------------------------------------------------------ what is refused
def test_refusals_name_the_instruction() -> None:
    unknown = refused(["MyOwn", [], [], []])
    assert unknown.startswith("MS742: mslang has no instruction `MyOwn`") and "instruction 0" in unknown
    assert refused(["GetSBlock", [], ["conv", "main"], ["b0"]]).startswith("MS743: there is no block `conv`")
    assert refused(MM, ["GetLoops", ["b0"], [], ["l1", "l2"]]).startswith("MS743: `GetLoops` gives 3 things here")
    assert refused(["GetLoops", ["b7"], [], ["l1"]]).startswith("MS743: nothing is called `b7`")
    assert refused(MM, ["CacheRead", ["b0", []], [5, "local"], ["b1"]]).startswith("MS743: block `mm` reads 2 buffers")
    assert refused(MM, ["Split", ["b0"], [1, 0], []]).startswith("MS")
    assert "instruction 2 of TVM's trace, `Fuse`" in refused(MM, LOOPS, ["Fuse", ["l3", "l1"], [1], ["l9"]])


@pytest.mark.parametrize(
    "text",
    ["", "[", "{}", "[1, 2]", "[[], [[0, 1]]]", '[[["Split"]], []]', '[[["Split", [], [], [1]]], []]', "[[0], []]"],
)
def test_what_is_no_trace(text: str) -> None:
    with pytest.raises(MsError) as caught:
        parse(text)
    assert caught.value.diagnostic.code == "MS740"


def test_a_list_where_a_buffer_is_named_by_a_number_is_refused() -> None:
    insts = [["GetSBlock", [], ["mm", "main"], ["b0"]], ["ReIndex", ["b0"], [[0], 0], ["b1"]]]
    with pytest.raises(MsError) as caught:
        import_trace(parse_program(GEMM), trace(*insts))
    assert caught.value.diagnostic.code == "MS743"


CYCLE = {
    "root_index": 4,
    "nodes": [
        {"type": "None"},
        {"type": "ffi.Array", "data": []},
        {"type": "ffi.Array", "data": [3]},
        {"type": "prim.Add", "data": {"a": 3, "b": 3}},
        {"type": "tirx.IndexMap", "data": {"initial_indices": 1, "final_indices": 2, "inverse_index_map": 0}},
    ],
}
NO_MAP = {"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Map", "keys": 5}]}


@pytest.mark.parametrize(
    ("inst", "said"),
    [
        (["SampleCategorical", [], [[1, 2], [{"a": 1}, {}]], ["v4"]], "MS743: candidates and their weights"),
        (["SampleComputeLocation", ["l1"], [], ["l9"]], "MS743: a block is needed, not the loop `i`"),
        (["TransformLayout", ["b0", json.dumps(NO_MAP)], [0, 1, 0], []], "MS741: this is not a program"),
        (["TransformLayout", ["b0", json.dumps(CYCLE)], [0, 1, 0], []], "MS741: this is not a program"),
    ],
)
def test_instructions_that_cannot_be_read_are_named(inst: list[object], said: str) -> None:
    found = refused(MM, LOOPS, inst)
    assert found.startswith(said) and f"instruction 2 of TVM's trace, `{inst[0]}`" in found


def test_the_root_of_a_program_without_blocks_has_no_outputs() -> None:
    flat = parse_program("program flat(out C: f32[32]) { for i in 32 { C[i] = 0.0 } }")
    root = ["GetSBlock", [], ["root", "main"], ["b0"]]
    assert import_trace(flat, trace(root, ["GetOutputBlocks", ["b0"], [], []])).program == flat
    with pytest.raises(MsError, match="gives 0 things here"):
        import_trace(flat, trace(root, ["GetOutputBlocks", ["b0"], [], ["b1"]]))


def test_a_remark_on_the_root_block_has_a_value() -> None:
    root = ["GetSBlock", [], ["root", "main"], ["b0"]]
    assert refused(root, ["Annotate", ["b0", "None"], ["key"], []]).startswith("MS743: 'key' is not a key")


def test_a_trace_that_is_nested_too_deeply() -> None:
    deep: object = 0
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(MsError) as caught:
        from_data([[["Split", [deep], [], []]], []])
    assert caught.value.diagnostic.code == "MS740"


JUNK = [None, 0, -1, 99, 1.5, "x", '"q"', "None", [], [0], ["b0"], {}, "{}", True, "b0", "l1", "l2"]


def test_damaged_traces_never_end_in_a_traceback() -> None:
    rng = random.Random(1)
    refusals = 0
    for _ in range(400):
        entry = rng.choice(PRIMITIVES)
        data = json.loads(json.dumps(entry["trace"]))
        inst = rng.choice(data[0])
        part = inst[rng.choice([1, 2, 3])]
        match rng.randrange(4):
            case 0:
                inst[0] = rng.choice(data[0])[0]
            case 1 if part:
                part.pop()
            case 2 if data[1]:
                rng.choice(data[1])[1] = rng.choice(JUNK)
            case _:
                part.insert(rng.randrange(len(part) + 1), rng.choice(JUNK))
        try:
            import_trace(parse_program(str(entry["program"])), from_data(data))
        except MsError:
            refusals += 1
    assert refusals > 100


# ------------------------------------------------------------------ out
def test_sizes_that_tvm_cannot_say_are_numbers() -> None:
    program = parse_program(GEMM)
    s = Schedule(program, seed=3)
    tile = s.perfect_tile(s.axis("mm", "i"), 2, 8, name="ti", decision=[4, 8])
    s.split(s.axis("mm", "i"), [None, tile[1] * 2])  # type: ignore[operator]
    done = export_trace(program, s.trace)
    split = next(i for i in done.trace.insts if i.kind == "Split")
    assert split.inputs[1:] == (None, 16)
    assert [n.code for n in done.notes] == ["MS744"]


def test_samplers_that_tvm_has_not_are_numbers() -> None:
    program = parse_program(GEMM)
    s = Schedule(program, seed=3)
    tile = s.tile(s.axis("mm", "j"), 2, 8, name="tj", decision=[7, 5])
    s.split(s.axis("mm", "j"), tile)
    done = export_trace(program, s.trace)
    split = next(i for i in done.trace.insts if i.kind == "Split")
    assert split.inputs[1:] == (7, 5)
    assert not done.trace.decisions
    assert import_trace(program, done.trace).program == s.program


def test_what_tvm_has_not_is_refused() -> None:
    program = parse_program(GEMM)
    s = Schedule(program, seed=3)
    s.split(s.axis("mm", "i"), [4, 8], tail="guard")
    assert export_trace(program, s.trace).notes == ()
    peeled = Schedule(program, seed=3)
    peeled.split(peeled.axis("relu", "i"), [None, 5], tail="peel")
    with pytest.raises(MsError) as caught:
        export_trace(program, peeled.trace)
    assert caught.value.diagnostic.code == "MS746"


def test_an_unroll_with_a_limit() -> None:
    program = parse_program(GEMM)
    for limit, kinds in ((64, ["GetSBlock", "GetLoops", "Unroll"]), (4, [])):
        s = Schedule(program)
        s.unroll(s.axis("mm", "k"), max_steps=limit)
        done = export_trace(program, s.trace)
        assert [i.kind for i in done.trace.insts] == kinds
        assert [n.code for n in done.notes] == ["MS744"]


def test_blocks_have_the_names_that_the_module_there_gives_them() -> None:
    program = parse_program(GEMM)
    s = Schedule(program)
    s.decompose_reduction(s.get("mm"), s.axis("mm", "k"))
    s.unroll(s.loops(s.get("mm_init"))[-1])
    asked = [
        i.attrs[0] for i in export_trace(program, s.trace, blocks={"C": "mm"}).trace.insts if i.kind == "GetSBlock"
    ]
    assert asked == ["C"]


# ------------------------------------------------------------------ layouts
@pytest.mark.parametrize("name", ["A", "T", "B"])
def test_layouts_of_parameters_and_padding_by_the_index_come_back(name: str) -> None:
    p = parse_program("""program p(A: i32[14], out B: i32[14]) {
        alloc T: i32[14]
        block a[i: 14] { T[i] = A[i] }
        block b[i: 14] { B[i] = T[i] }
    }""")
    made = Schedule(p)
    block = made.get("b" if name == "B" else "a")
    pad = 3 if name == "A" else made.index_map(lambda i, j: [i + j])
    made.transform_layout(block, made.get(name), made.index_map(lambda i: [i // 4, i % 4]), pad=pad)
    found = import_trace(p, parse(to_json(export_trace(p, made.trace).trace)))
    assert alpha_equal(found.program, made.program)


# ------------------------------------------------------------------ reindex
POINTWISE = """program conv(A: f32[16, 8], W: f32[1, 8, 4], out C: f32[16, 4]) {
    block conv[h: 16, co: 4 | rh: 1, rc: 8] { C[h, co] += A[h + rh, rc] * W[rh, rc, co] }
}"""


FLAT = IndexMap(("h", "c"), (Binary("+", Binary("*", Var("h"), Const(8)), Var("c")),))


def test_reindex_leaves_out_the_unit_axes_that_tvm_leaves_out() -> None:
    program = parse_program(POINTWISE)
    steps = trace(
        ["GetSBlock", [], ["conv", "main"], ["b0"]],
        ["ReIndex", ["b0"], [0, 0], ["b1"]],
        ["TransformLayout", ["b0", write_map(FLAT, {}).text], [0, 0, None, 1], []],
    )
    done = import_trace(program, steps)
    assert "fold_units = true" in done.trace.as_ms("s")
    same_meaning(program, done.program)
    assert [i.kind for i in export_trace(program, done.trace).trace.insts][:2] == ["GetSBlock", "ReIndex"]


def test_reindex_that_keeps_them_is_not_exported() -> None:
    program = parse_program(POINTWISE)
    s = Schedule(program)
    s.reindex(s.get("conv"), s.get("A"), access="read")
    with pytest.raises(MsError) as caught:
        export_trace(program, s.trace)
    assert caught.value.diagnostic.code == "MS746" and "fold_units = true" in caught.value.diagnostic.message


def test_reindex_of_plain_axes_is_as_before() -> None:
    program = parse_program(GEMM)
    done = import_trace(program, trace(MM, ["ReIndex", ["b0"], [0, 0], ["b1"]]))
    assert "fold_units" not in done.trace.as_ms("s")


ODD = """program gemm(A: f32[30, 29], B: f32[29, 31], out C: f32[30, 31]) {
    block mm[i: 30, j: 31 | k: 29] { C[i, j] += A[i, k] * B[k, j] }
}"""


def test_copies_that_pad_have_the_names_that_tvm_gives_them() -> None:
    program = parse_program(ODD)
    s = Schedule(program)
    mm = s.get("mm")
    s.reindex(mm, s.get("A"), access="read")
    s.pad_einsum(mm, [16, 16, 16])
    for name in ("A_reindex_1_pad", "B_pad", "C_pad"):
        s.annotate(s.get(name), "seen", 1)
    copy = s.cache_read(mm, s.get("A_reindex_1_pad_1"), "local")
    s.annotate(copy, "seen", 2)
    s.annotate(s.get("A_reindex_1_pad_1_local"), "seen_again", 2)
    done = export_trace(program, s.trace)
    named = [i.attrs[0] for i in done.trace.insts if i.kind == "GetSBlock"]
    assert named == ["mm", "A_reindex_pad", "B_pad", "C_pad"]
    assert import_trace(program, done.trace).program == s.program


def test_a_block_that_fills_padding_has_the_name_that_tvm_gives_it() -> None:
    program = parse_program(
        "program p(A: f32[14], out C: f32[14]) { alloc B: f32[14]\n"
        "block b[i: 14] { B[i] = A[i] }\n block e[i: 2] { B[i] = 0.0 }\n block c[i: 14] { C[i] = B[i] } }"
    )
    s = Schedule(program)
    s.transform_layout(s.get("e"), s.get("B"), s.index_map(lambda i: (i // 4, i % 4)), pad=1.0)
    made = [b.name for b in blocks_of(s.program.body) if b.name not in ("b", "e", "c")]
    assert made == ["B_pad"]
    s.annotate(s.get("B_pad"), "seen", 1)
    done = export_trace(program, s.trace)
    assert "buffer_B_padding" in [i.attrs[0] for i in done.trace.insts if i.kind == "GetSBlock"]


@pytest.mark.parametrize("where, access, name", [(0, "0", "A_reindex_reindex"), (0, "1", "C_reindex")])
def test_reindexing_copies_are_found_by_the_names_that_tvm_gives_them(where: int, access: str, name: str) -> None:
    steps = parse(
        f"""[[["GetSBlock", [], ["mm", "main"], ["b0"]],
             ["ReIndex", ["b0"], [{where}, {access}], ["b1"]],
             ["GetSBlock", [], ["{name}", "main"], ["b2"]],
             ["Annotate", ["b2", 1], ["seen"], []]], []]"""
    )
    program = parse_program(ODD)
    done = import_trace(program, steps)
    noted = [b for b in blocks_of(done.program.body) if dict(b.annotations).get("seen") == 1]
    assert len(noted) == 1 and noted[0].name != "mm"
    kept = [i.attrs[0] for i in export_trace(program, done.trace).trace.insts if i.kind == "GetSBlock"]
    assert kept == ["mm"]


@pytest.mark.parametrize(
    "a, b, c", [("i8", "i8", "i32"), ("u8", "i8", "i32"), ("i8", "u8", "i32"), ("u8", "u8", "u32")]
)
def test_dot_products_of_four_bytes_are_known_by_tvms_names(a: str, b: str, c: str) -> None:
    name = f"dp4a_{a}{b}{c}".replace("i", "s")
    program = parse_program(
        f"program dot(A: {a}[3, 8], B: {b}[3, 8], out C: {c}[3]) {{ alloc x: {a}[3, 8] @ shared\n"
        f"alloc y: {b}[3, 8] @ shared\n alloc z: {c}[3] @ local\n"
        "block load_a[i: 3, k: 8] { x[i, k] = A[i, k] }\n block load_b[i: 3, k: 8] { y[i, k] = B[i, k] }\n"
        f"block sum[i: 3 | k: 8] {{ z[i] += {c}(x[i, k]) * {c}(y[i, k]) }}\n block store[i: 3] {{ C[i] = z[i] }} }}"
    )
    steps = parse(
        f"""[[["GetSBlock", [], ["sum", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]],
             ["Split", ["l2", null, 4], [1, 0], ["l3", "l4"]], ["DecomposeReduction", ["b0", "l1"], [], ["b5"]],
             ["Tensorize", ["l4"], ["{name}", 1], []]], []]"""
    )
    done = import_trace(program, steps)
    assert f"std.cuda.dot.{name}" in done.trace.as_ms("s")
    assert ("Tensorize", (name, 1)) in [(i.kind, i.attrs) for i in export_trace(program, done.trace).trace.insts]
    types = {"i8": np.int8, "u8": np.uint8, "i32": np.int32, "u32": np.uint32}
    rng = np.random.default_rng(2)
    left, right = (rng.integers(np.iinfo(types[t]).min, np.iinfo(types[t]).max + 1, (3, 8)) for t in (a, b))
    out = run(done.program, {"A": left.astype(types[a]), "B": right.astype(types[b])})["C"]
    assert out.tolist() == (left * right).sum(axis=1).tolist()


def test_tiles_of_dynamic_shared_memory_are_known_by_tvms_names() -> None:
    program = parse_program(
        "program copies(A: f16[16, 16], out C: f16[16, 16]) { alloc x: f16[16, 16] @ shared.dyn\n"
        "alloc f: f16[16, 16] @ wmma.a\n block load[i: 16, j: 16] { x[i, j] = A[i, j] }\n"
        "block tile[i: 16, j: 16] { f[i, j] = x[i, j] }\n block store[i: 16, j: 16] { C[i, j] = f[i, j] } }"
    )
    name = "wmma_load_16x16x16_f16_a_shared_dyn"
    steps = parse(
        f"""[[["GetSBlock", [], ["tile", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]],
             ["Tensorize", ["l1"], ["{name}", 1], []]], []]"""
    )
    done = import_trace(program, steps)
    assert "std.cuda.wmma.load_a_dyn" in done.trace.as_ms("s")
    assert [i.attrs[0] for i in export_trace(program, done.trace).trace.insts if i.kind == "Tensorize"] == [name]
