"""Calls of instructions in TVMScript: what they mean, and that they are calls again when they are printed."""

import re

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.intrin import intrin_of, recorded
from mslang.ir.print import print_program
from mslang.ir.program import For
from mslang.ir.verify import verify
from mslang.ir.visit import walk
from mslang.sema.program import parse_program
from mslang.transform.outcome import LoopRef
from mslang.transform.primitives.tensorize import tensorize

HEAD = "from tvm.script import tirx as T\n\n@T.prim_func(s_tir=True)\n"
FRAGMENTS = (
    HEAD
    + """def product(A: T.Buffer((32, 32), "float16"), B: T.Buffer((32, 32), "float16"),
            C: T.Buffer((32, 32), "float32")):
    a = T.sblock_alloc_buffer((16, 32), "float16", scope="wmma.matrix_a")
    b = T.sblock_alloc_buffer((32, 16), "float16", scope="wmma.matrix_b")
    c = T.sblock_alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
    for i, j in T.grid(2, 2):
        with T.sblock("fill"):
            T.reads()
            T.writes(c[0:16, 0:16])
            T.evaluate(T.tvm_fill_fragment(c.data, 16, 16, 16, 0, T.float32(0), dtype="handle"))
        for k in range(2):
            with T.sblock("load_a"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(A[vi * 16:vi * 16 + 16, vk * 16:vk * 16 + 16])
                T.writes(a[0:16, vk * 16:vk * 16 + 16])
                T.evaluate(T.tvm_load_matrix_sync(a.data, 16, 16, 16, vk, T.tvm_access_ptr(
                    T.type_annotation("float16"), A.data, vi * 512 + vk * 16, 512, 1, dtype="handle"),
                    32, "row_major", dtype="handle"))
            with T.sblock("load_b"):
                vk, vj = T.axis.remap("SS", [k, j])
                T.reads(B[READ])
                T.writes(b[vk * 16:vk * 16 + 16, 0:16])
                s0 = T.int32()
                s1 = T.int32()
                B0 = T.match_buffer(B[READ], (16, 16), "float16", strides=[s0, s1], offset_factor=16)
                T.evaluate(T.tvm_load_matrix_sync(b.data, 16, 16, 16, vk, T.tvm_access_ptr(
                    T.type_annotation("float16"), B0.data, B0.elem_offset, B0.strides[0] * 16, 1, dtype="handle"),
                    s0, LAYOUT, dtype="handle"))
            with T.sblock("multiply"):
                vk = T.axis.reduce(2, k)
                T.reads(c[0:16, 0:16], a[0:16, vk * 16:vk * 16 + 16], b[vk * 16:vk * 16 + 16, 0:16])
                T.writes(c[0:16, 0:16])
                T.evaluate(T.tvm_mma_sync(c.data, 0, a.data, vk, b.data, vk, c.data, 0, dtype="handle"))
        with T.sblock("store"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(c[0:16, 0:16])
            T.writes(C[vi * 16:vi * 16 + 16, vj * 16:vj * 16 + 16])
            T.evaluate(T.tvm_store_matrix_sync(c.data, 16, 16, 16, 0, T.tvm_access_ptr(
                T.type_annotation("float32"), C.data, vi * 512 + vj * 16, 512, 2, dtype="handle"),
                32, "row_major", dtype="handle"))
"""
)
PLAIN = FRAGMENTS.replace("READ", "vk * 16:vk * 16 + 16, vj * 16:vj * 16 + 16").replace("LAYOUT", '"row_major"')
TRANSPOSED = FRAGMENTS.replace("READ", "vj * 16:vj * 16 + 16, vk * 16:vk * 16 + 16").replace("LAYOUT", '"col_major"')

DESC = (
    HEAD
    + """def desc(A: T.Buffer((4,), offset_factor=1), B: T.Buffer((4,)), C: T.Buffer((), align=64)):
    with T.sblock("root"):
        T.reads(C[()], A[0:4], B[0:4])
        T.writes(C[()])
        for i in range(4):
            with T.sblock("update"):
                vi = T.axis.remap("R", [i])
                C[()] = C[()] + A[vi] * B[vi]
"""
)
IMPL = (
    HEAD
    + """def impl(x: T.handle, y: T.handle, z: T.handle):
    A = T.match_buffer(x, (4,), offset_factor=1)
    B = T.match_buffer(y, (4,), offset_factor=1)
    C = T.match_buffer(z, (), offset_factor=1)
    with T.sblock("root"):
        T.reads(C[()], A[0:4], B[0:4])
        T.writes(C[()])
        T.evaluate(T.call_extern("dot4", C.data, C.elem_offset // 4, A.data, B.data, dtype="int32"))
"""
)


def brought(text, intrinsics=()):
    p = tvmscript.parse_one(text, intrinsics=intrinsics)
    assert verify(p) == ()
    assert parse_program(print_program(p)) == p
    return p


def instructions(p):
    return {b.name: intrin_of(b) for b in blocks_of(p.body) if intrin_of(b)}


@pytest.mark.parametrize(("text", "transposed"), [(PLAIN, False), (TRANSPOSED, True)])
def test_fragments(text, transposed):
    p = brought(text)
    assert instructions(p) == {
        "fill": "tvm_fill_fragment",
        "load_a": "tvm_load_matrix_sync",
        "load_b": "tvm_load_matrix_sync_1" if transposed else "tvm_load_matrix_sync",
        "multiply": "tvm_mma_sync",
        "store": "tvm_store_matrix_sync",
    }
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (32, 32)).astype(np.float16) for _ in range(2))
    found = run(p, {"A": a, "B": b})["C"]
    np.testing.assert_array_equal(found, a.astype(np.float32) @ (b.T if transposed else b))


@pytest.mark.parametrize("text", [PLAIN, TRANSPOSED])
def test_calls_again(text):
    p = brought(text)
    printed = tvmscript.print(p)
    calls = [line.strip() for line in printed.splitlines() if "T.evaluate" in line]
    assert [c.split("(")[1] for c in calls] == [f"T.tvm_{n}" for n in CALLED]
    assert "T.tvm_mma_sync(c_view_1.data, c_view_1.elem_offset // (16 * 16) * (16 // 16)" in calls[3]
    assert tvmscript.parse_one(printed) == p


CALLED = ("fill_fragment", "load_matrix_sync", "load_matrix_sync", "mma_sync", "store_matrix_sync")


def test_a_fragment_is_filled_with_what_is_computed():
    p = brought(
        HEAD
        + """def f(B: T.Buffer((4, 8), "float32")):
    for i in range(2):
        with T.sblock("b"):
            vi = T.axis.spatial(2, i)
            T.writes(B[0:4, vi * 4:vi * 4 + 4])
            T.evaluate(T.tvm_fill_fragment(B.data, 4, 4, 4, vi, vi * 3, dtype="handle"))
"""
    )
    assert not instructions(p)
    wanted = np.repeat(np.array([[0, 3]], np.float32), 4, axis=1).repeat(4, axis=0)
    np.testing.assert_array_equal(run(p, {})["B"], wanted)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("a.data, 16, 16, 16, vk,", "a.data, 16, 16, 16, 0,", "`0` is not the tile of `a` that the block declares"),
        ("A.data, vi * 512 + vk * 16", "A.data, vi * 512", "the pointer is not at the tile of `A`"),
        ("T.writes(a[0:16, vk * 16:vk * 16 + 16])", "T.writes(a[0:8, 0:16])", ""),
        ('scope="wmma.matrix_a"', 'scope="shared"', "what this product means is not known"),
        ("c.data, 0, a.data", "a.data, 0, a.data", "what this product means is not known"),
        ("c.data, 16, 16, 16, 0, T.f", "c.data, 16, 16, i, 0, T.f", "the sizes of a fragment are numbers"),
        ("a.data, vk, b.data", "a.data, 0, b.data", "`0` is not the tile of `a` that the block declares"),
        ("b.data, vk, c.data", "b.data, vk + 1, c.data", "`vk + 1` is not the tile of `b` that the block declares"),
        ("B0.data, B0.elem_offset,", "B0.data, B0.elem_offset + 1,", "the pointer is not at the tile of `B0`"),
        ("s0, LAYOUT".replace("LAYOUT", '"row_major"'), '64, "row_major"', "the pointer is not at the tile of `B0`"),
        ('32, "row_major"', '32, "col_major"', "only the second factor of a product is loaded by columns here"),
        ('16, 512, 2, dtype="handle"),\n                32, "row_major"',
         '16, 512, 2, dtype="handle"),\n                32, "col_major"', "a fragment is not stored by columns here"),
        ('"row_major"', '"diagonal"', "there is no layout 'diagonal' here"),
    ],
)  # fmt: skip
def test_what_is_not_known(old, new, says):
    assert old in PLAIN
    with pytest.raises(MsError) as error:
        tvmscript.parse(PLAIN.replace(old, new, 1))
    assert error.value.diagnostic.code == "MS731"
    assert says in error.value.diagnostic.message


def test_a_fragment_is_loaded_in_one_order():
    load = PLAIN[
        PLAIN.index('            with T.sblock("load_b")') : PLAIN.index('            with T.sblock("multiply")')
    ]
    again = load.replace("load_b", "again").replace("row_major", "col_major")
    multiply = PLAIN[
        PLAIN.index('            with T.sblock("multiply")') : PLAIN.index('        with T.sblock("store")')
    ]
    for text in (PLAIN.replace(load, load + again), PLAIN.replace(load, "").replace(multiply, multiply + again)):
        with pytest.raises(MsError, match="by rows here and by columns there"):
            tvmscript.parse(text)


def test_the_places_of_operands():
    """A pointer says where by the offset of a view, by a shift, or by an element."""
    call = 'T.tvm_access_ptr(T.type_annotation("float16"), A.data, vi * 512 + vk * 16, 512, 1, dtype="handle")'
    text = re.sub(
        r"T\.tvm_access_ptr\(\s+T\.type_annotation\(\"float16\"\), A",
        'T.tvm_access_ptr(T.type_annotation("float16"), A',
        PLAIN,
    )
    assert call in text
    for pointer in ('A.access_ptr("r", offset=vi * 512 + vk * 16)', "T.address_of(A[vi * 16, vk * 16])"):
        assert brought(text.replace(call, pointer)) == brought(PLAIN)
    for pointer in ('A.access_ptr("r")', "T.address_of(A[vi, vk])", "A.data"):
        with pytest.raises(MsError, match="the pointer is not at the tile of `A`"):
            tvmscript.parse(text.replace(call, pointer))


def test_a_part_of_a_buffer_is_no_operand_of_a_given_intrinsic():
    dot = tvmscript.intrin("dot", DESC, IMPL)
    text = (
        HEAD
        + """def f(A: T.Buffer((8,)), B: T.Buffer((4,)), C: T.Buffer(())):
    with T.sblock("b"):
        T.reads(A[4:8], B[0:4], C[()])
        T.writes(C[()])
        T.evaluate(T.call_extern("dot4", C.data, C.elem_offset // 4, A.data, B.data, dtype="int32"))
    with T.sblock("c"):
        C[()] = 1.0
"""
    )
    with pytest.raises(MsError, match=r"C\.data"):
        tvmscript.parse(text, intrinsics=[dot])
    whole = text.replace("(8,)", "(4,)").replace("4:8", "0:4")
    assert instructions(brought(whole, [dot])) == {"b": "dot"}


def test_an_instruction_is_all_of_its_block():
    call = 'T.evaluate(T.tvm_fill_fragment(c.data, 16, 16, 16, 0, T.float32(0), dtype="handle"))'
    with pytest.raises(MsError, match="does more than its instruction"):
        tvmscript.parse(PLAIN.replace(call, f"{call}\n            c[0, 0] = 1.0", 1))
    with pytest.raises(MsError, match="an instruction is a block of its own here"):
        tvmscript.parse(PLAIN.replace(call, f"{call}\n            {call}", 1))


def test_a_pointer_is_a_view():
    p = brought(
        HEAD
        + """def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            T.reads(A[0:8])
            T.writes(B[vi])
            T.evaluate(A.access_ptr("r", extent=8))
            B[vi] = A[vi]
"""
    )
    (block,) = blocks_of(p.body)
    assert [(v.buffer.name, v.source) for v in block.views] == [("A_view", block.reads[0])]


# ------------------------------------------------------------------ intrinsics that are given
def test_an_intrinsic_from_a_pair():
    dot = tvmscript.intrin("dot", DESC, IMPL)
    assert (
        dict(dot.texts)["tvm"]
        == "T.call_extern('dot4', {C}.data, {C}.elem_offset // 4, {A}.data, {B}.data, dtype='int32')"
    )
    assert [q.buffer.align for q in dot.desc.params] == [None, None, None]


MATVEC = (
    HEAD
    + """def matvec(M: T.Buffer((8, 16)), x: T.Buffer((16,)), y: T.Buffer((8,))):
    for i, k0, k1 in T.grid(8, 4, 4):
        with T.sblock("mv"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            y[vi] = y[vi] + M[vi, vk] * x[vk]
"""
)


def test_what_is_tensorized_is_called_and_read_back():
    dot = tvmscript.intrin("dot", DESC, IMPL)
    before = brought(MATVEC)
    after = tensorize(before, LoopRef("k1"), dot).program
    printed = tvmscript.print(after)
    assert "T.evaluate(T.call_extern('dot4', C.data, C.elem_offset // 4, A.data, B.data, dtype='int32'))" in printed
    again = brought(printed, [dot])
    assert tvmscript.print(again) == printed
    assert recorded(again) == recorded(after)
    rng = np.random.default_rng(0)
    given = {n: rng.integers(-3, 4, s).astype(np.float32) for n, s in (("M", (8, 16)), ("x", (16,)), ("y", (8,)))}
    np.testing.assert_array_equal(run(again, given)["y"], run(before, given)["y"])
    with pytest.raises(MsError) as error:
        tvmscript.parse(printed)
    assert error.value.diagnostic.code == "MS731"


def test_other_spellings_of_a_call():
    dot = tvmscript.intrin("dot", DESC, IMPL)
    printed = tvmscript.print(tensorize(brought(MATVEC), LoopRef("k1"), dot).program)
    other = printed.replace("C.elem_offset // 4", "T.floordiv(C.elem_offset, T.int64(4))").replace(
        ", dtype='int32')", ")"
    )
    assert brought(other, [dot]).body == brought(printed, [dot]).body
    swapped = printed.replace("A.data, B.data", "B.data, A.data")
    block = path_to_block(brought(swapped, [dot]), "mv_o")[-1]
    assert [v.source.buffer for v in block.views] == ["x", "M", "y"]


def test_a_file_registers_intrinsics():
    text = (
        DESC
        + IMPL.removeprefix("from tvm.script import tirx as T\n")
        + '\nDOT = "dot"\ntvm.tirx.TensorIntrin.register(DOT, desc, impl)\n'
    )
    desc, impl = tvmscript.parse(text)
    assert instructions(impl) == {"dot": "dot"}
    rng = np.random.default_rng(0)
    given = {n: rng.integers(-3, 4, s).astype(np.float32) for n, s in (("A", (4,)), ("B", (4,)), ("C", ()))}
    np.testing.assert_array_equal(run(impl, given)["C"], run(desc, given)["C"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "        T.evaluate(",
            "        C[()] = 0.0\n        T.evaluate(",
            "an instruction must be a single call here",
        ),
        (
            "        T.evaluate(",
            "        T.evaluate(0)\n        T.evaluate(",
            "`impl` is not one call of an instruction",
        ),
        ("A.data, B.data", "A.data", "does not name all of its operands"),
        ("z: T.handle):", "z: T.handle, w: T.handle):", "`impl` has 4 operands, its description 3"),
    ],
)
def test_an_implementation_is_one_call(old, new, says):
    with pytest.raises(MsError) as error:
        tvmscript.intrin("dot", DESC, IMPL.replace(old, new, 1))
    assert says in error.value.diagnostic.message
    with pytest.raises(MsError) as error:
        tvmscript.intrin("dot", DESC, DESC + IMPL)
    assert error.value.diagnostic.code == "MS736"


# ------------------------------------------------------------------ numbers, threads, inits
def test_a_number_that_is_no_size_is_an_array_without_dimensions():
    p = brought(
        HEAD
        + """def clip(A: T.Buffer((4,), "float32"), lower: T.float32, n: T.int32, B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.max(A[vi], lower)
"""
    )
    assert [(q.buffer.name, q.buffer.shape, q.direction) for q in p.params][1] == ("lower", (), "in")
    assert [s.name for s in p.dynamic] == ["n"]
    assert tvmscript.parse_one(tvmscript.print(p)) == p


def test_an_init_that_names_a_reduction_axis():
    p = brought(
        HEAD
        + """def f(A: T.Buffer((4, 3), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 3):
        with T.sblock("b"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi + vk] = A[vi, vk] * 2.0
            B[vi] = B[vi] + A[vi, vk]
"""
    )
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(run(p, {"A": a})["B"], a.sum(1) + 2 * a[:, 0])


@pytest.mark.parametrize("launch", ["with", "assigned"])
def test_launched_threads_are_loops(launch):
    body = (
        """    with T.launch_thread("blockIdx.x", 2) as b:
        with T.launch_thread("threadIdx.x", 4) as t:
            with T.sblock("b"):
                vi = T.axis.spatial(8, b * 4 + t)
                B[vi] = A[vi]
"""
        if launch == "with"
        else """    b = T.launch_thread("blockIdx.x", 2)
    t = T.launch_thread("threadIdx.x", 4)
    with T.sblock("b"):
        vi = T.axis.spatial(8, b * 4 + t)
        B[vi] = A[vi]
"""
    )
    p = brought(HEAD + 'def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n' + body)
    assert [s.kind for s in walk(p.body) if isinstance(s, For)] == ["blockIdx.x", "threadIdx.x"]
    a = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(run(p, {"A": a})["B"], a)


def test_fixed_point_products():
    p = brought(
        HEAD
        + """def f(X: T.Buffer((6,), "int32"), Y: T.Buffer((6,), "int32"), L: T.Buffer((6,), "int32"),
      R: T.Buffer((6,), "int32"), A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    for i in range(6):
        with T.sblock("b"):
            v = T.axis.spatial(6, i)
            A[v] = T.q_multiply_shift(X[v], 1457846997, 31, 2, dtype="int32")
            B[v] = T.q_multiply_shift_per_axis(X[v], Y[v], L[v], R[v], 31, True, True, dtype="int32")
            C[v] = T.q_multiply_shift_per_axis(X[v], Y[v], L[v], R[v], 31, T.bool(False), T.bool(True))
"""
    )
    x = np.array([-70000, -7, -1, 3, 5, 999999], np.int32)
    y = np.array([1457846997, 1 << 30, 2101000910, 1 << 30, 1457846997, 1500000000], np.int32)
    left, right = np.array([0, 1, 2, 0, 3, 0], np.int32), np.array([3, 0, 1, 2, 0, 5], np.int32)
    found = run(p, {"X": x, "Y": y, "L": left, "R": right})

    def nearest(value, factor, up, down):
        return [int((int(v) * 2 ** int(u) * int(f) + 2 ** (30 + int(d))) // 2 ** (31 + int(d)))
                for v, f, u, d in zip(value, factor, up, down, strict=True)]  # fmt: skip

    zero = np.zeros(6, int)
    np.testing.assert_array_equal(found["A"], nearest(x, zero + 1457846997, zero + 2, zero))
    np.testing.assert_array_equal(found["B"], nearest(x, y, left, right))
    np.testing.assert_array_equal(found["C"], nearest(x, y, zero, right))
