"""TVMScript to programs: what every construct becomes."""

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Const
from mslang.ir.print import print_program
from mslang.ir.program import Block, For, Program
from mslang.ir.verify import verify
from mslang.ir.visit import walk
from mslang.sema.program import parse_program

HEAD = "from tvm.script import tirx as T\n\n@T.prim_func(s_tir=True)\n"


def brought(text: str) -> Program:
    """The program of a function (without imports and decorator), well-formed, and the same after printing."""
    p = tvmscript.parse_one(HEAD + text)
    assert verify(p) == ()
    assert alpha_equal(parse_program(print_program(p)), p)
    return p


def elementwise(statement: str, params: str = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")') -> str:
    """The body of a block over 8 elements, as it is printed."""
    p = brought(
        f"def f({params}):\n    for i in range(8):\n        with T.sblock('b'):\n"
        f"            vi = T.axis.spatial(8, i)\n            {statement}\n"
    )
    return print_program(p).split("= i] {", 1)[1].rsplit("}", 3)[0].strip()


def becomes(text: str, wanted: str) -> None:
    found = brought(text)
    assert alpha_equal(found, parse_program(wanted)), print_program(found)


GEMM = """program gemm(A: f32[8, 6], B: f32[6, 4], out C: f32[8, 4]) {
    for i in 8, j in 4, k in 6 {
        block mm[vi: 8 = i, vj: 4 = j | vk: 6 = k] {
            reads A[vi, vk], B[vk, vj]
            writes C[vi, vj]
            init { C[vi, vj] = 0.0 }
            C[vi, vj] += A[vi, vk] * B[vk, vj]
        }
    }
}"""


@pytest.mark.parametrize(("module", "block"), [("tir", "block"), ("tirx", "sblock")])
def test_both_spellings(module: str, block: str) -> None:
    text = f"""
import pytest
from tvm.script import {module} as X

@X.prim_func
def gemm(a: X.handle, b: X.handle, C: X.Buffer((8, 4), "float32")) -> None:
    A = X.match_buffer(a, [8, 6])
    B = X.match_buffer(b, (6, 4), dtype="float32")
    for i, j, k in X.grid(8, 4, 6):
        with X.{block}("mm"):
            vi, vj, vk = X.axis.remap("SSR", [i, j, k])
            with X.init():
                C[vi, vj] = X.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
    assert alpha_equal(tvmscript.parse_one(text), parse_program(GEMM))


def test_root_blocks_allocations_and_attributes() -> None:
    becomes(
        """def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "f", "tirx.noalias": True, "layers": 2})
    with T.sblock("root"):
        T.reads()
        T.writes()
        T.sblock_attr({"meta_schedule.parallel": 16, "nested": {"a": [0, -1.5], "b": "x"}})
        t = T.sblock_alloc_buffer((8, 1), "float16", scope="local", strides=[2, 1], align=32)
        for i in T.parallel(8, annotations={"pragma": T.int64(3)}):
            with T.sblock("copy"):
                vi = T.axis.S(8, i)
                t[vi, 0] = A[vi]
        for i in T.vectorized(0, 8):
            with T.sblock("back"):
                vi = T.axis.S(8, i)
                B[vi] = t[vi, 0]
""",
        """program f(A: f32[8], out B: f32[8]) {
    alloc t: f16[8, 1] @ local(strides = [2, 1], align = 32)
    attr "tvm.layers" = 2
    attr "meta_schedule.parallel" = 16
    attr "nested" = [["a", [0, -1.5]], ["b", "x"]]
    for i in 8 @ parallel("pragma" = i64(3)) { block copy[vi: 8 = i] { t[vi, 0] = f16(A[vi]) } }
    for j in 8 @ vectorized { block back[vi: 8 = j] { B[vi] = f32(t[vi, 0]) } }
}""",
    )


def test_names_are_made_unique() -> None:
    p = brought(
        """def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("C"):
            A_ = T.axis.spatial(8, i)
            C[A_] = A[A_]
    for i in range(8):
        with T.sblock("C"):
            A_ = T.axis.spatial(8, i)
            C[A_] = C[A_] + 1.0
    for i in range(8):
        with T.sblock("for the record"):
            C_block = T.axis.spatial(8, i)
            C[C_block] = C[C_block] * 2.0
"""
    )
    assert print_program(p) == (
        "program f(A: f32[8], out C: f32[8]) {\n"
        "    for i in 8 {\n        block C_block[A_: 8 = i] { C[A_] = A[A_] }\n    }\n"
        "    for i_1 in 8 {\n        block C_block_1[A_: 8 = i_1] { C[A_] += 1.0 }\n    }\n"
        "    for i_2 in 8 {\n        block `for the record`[C_block_2: 8 = i_2] { C[C_block_2] *= 2.0 }\n    }\n}\n"
    )


def test_the_blocks_names_there_are_told() -> None:
    text = """def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1.0
"""
    (function,) = tvmscript.read(HEAD + text).functions
    assert function.blocks == {"A": "A_block"}


def test_a_block_inside_gets_axes_for_what_it_sees() -> None:
    becomes(
        """def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for io, ko in T.grid(2, 4):
        with T.sblock("outer"):
            vio, vko = T.axis.remap("SR", [io, ko])
            T.reads(A[vio * 4:vio * 4 + 4, vko * 2:vko * 2 + 2])
            T.writes(B[vio * 4:vio * 4 + 4])
            with T.init():
                for i in range(4):
                    with T.sblock("start"):
                        vi = T.axis.spatial(4, i)
                        B[vio * 4 + vi] = 0.0
            for i, k in T.grid(4, 2):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    B[vio * 4 + vi] = B[vio * 4 + vi] + A[vio * 4 + vi, vko * 2 + vk]
""",
        """program f(A: f32[8, 8], out B: f32[8]) {
    for io in 2, ko in 4 {
        block outer[vio: 2 = io | vko: 4 = ko] {
            reads A[vio * 4 .. vio * 4 + 4, vko * 2 .. vko * 2 + 2]
            writes B[vio * 4 .. vio * 4 + 4]
            init {
                for i in 4 {
                    block start[vi: 4 = i, v: 2 = vio] {
                        reads []
                        writes B[v * 4 + vi]
                        B[v * 4 + vi] = 0.0
                    }
                }
            }
            for i_1 in 4, k in 2 {
                block update[vi: 4 = i_1, vk: 2 @ reduce = k, v: 2 = vio, w: 4 @ reduce = vko] {
                    reads B[v * 4 + vi], A[v * 4 + vi, w * 2 + vk]
                    writes B[v * 4 + vi]
                    init {}
                    B[v * 4 + vi] += A[v * 4 + vi, w * 2 + vk]
                }
            }
        }
    }
}""",
    )


def test_an_opaque_block_gets_axes_for_its_loops() -> None:
    becomes(
        """def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in T.serial(4, 12):
        with T.sblock("opaque"):
            T.where(i < 10)
            B[i] = A[i - 1]
""",
        """program f(A: f32[16], inout B: f32[16]) {
    for i in 4..12 {
        block opaque[v: 8 @ opaque = i - 4] {
            where i < 10
            B[v + 4] = A[v + 4 - 1]
        }
    }
}""",
    )


def test_axes_and_loops_of_every_kind() -> None:
    becomes(
        """def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(0, 8, thread="threadIdx.x", annotations={"n": 1}):
            for v in T.thread_binding(1, thread="vthread"):
                for u in T.unroll(3, 5):
                    for s in range(0, 9, 3):
                        with T.sblock("b"):
                            x = T.axis.spatial((2, 18), b * 8 + t + 2)
                            y = T.axis.scan(9, s)
                            z = T.axis.opaque(T.Range(0, 6), u)
                            w = T.axis.reduce(1, v)
                            B[x - 2, y] = A[x - 2, z]
""",
        """program f(A: f32[16, 16], inout B: f32[16, 16]) {
    for q in 2 @ blockIdx.x {
        for t in 8 @ threadIdx.x("n" = 1) {
            for v in 1 @ vthread.x {
                for u in 3..5 @ unrolled {
                    for s in 3 {
                        block b[x: 16 = q * 8 + t, y: 9 @ scan = 0 + s * 3, z: 6 @ opaque = u, w: 1 @ reduce = v] {
                            B[x + 2 - 2, y] = A[x + 2 - 2, z]
                        }
                    }
                }
            }
        }
    }
}""",
    )


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        # Python's numbers are 32 bits wide there, and types are promoted as TVM does it.
        ("B[vi] = A[vi] * 2", "B[vi] = A[vi] * 2.0"),
        ("B[vi] = A[vi] + vi", "B[vi] = A[vi] + f32(vi)"),
        ("B[vi] = H[vi] * 2.0", "B[vi] = f32(H[vi]) * 2.0"),
        ("H[vi] = H[vi] * T.float16(2)", "H[vi] *= 2.0"),
        ("I[vi] = I[vi] + 1", "I[vi] = i8(i32(I[vi]) + 1)"),
        ("I[vi] = I[vi] + U[vi]", "I[vi] = i8(u8(I[vi]) + U[vi])"),
        ("N[vi] = vi * 3 - N[vi]", "N[vi] = i32(vi * 3) - N[vi]"),
        ("N[vi] = T.int64(3) + N[vi]", "N[vi] = i32(3 + i64(N[vi]))"),
        ("B[vi] = A[N[vi] % 8]", "B[vi] = A[i64(N[vi] % 8)]"),
        ("B[vi] = A[T.Cast('int64', vi)]", "B[vi] = A[vi]"),
        ("B[vi] = T.Cast('float32', T.Cast('int32', A[vi]))", "B[vi] = f32(i32(A[vi]))"),
        ("B[vi] = T.cast(A[vi], 'float16') + H[vi]", "B[vi] = f32(f16(A[vi]) + H[vi])"),
        ("B[vi] = A[vi].astype('float16')", "B[vi] = f32(f16(A[vi]))"),
        # Operators and functions.
        ("B[vi] = T.max(-A[vi], T.min(A[vi], 3.0))", "B[vi] = max(-A[vi], min(A[vi], 3.0))"),
        ("B[vi] = T.if_then_else(1 <= vi and vi < 7, A[vi - 1], 0)",
         "B[vi] = select(1 <= vi and vi < 7, A[vi - 1], 0.0)"),
        ("B[vi] = T.Select(0 < vi < 5 or not vi == 6, A[vi], B[vi])",
         "B[vi] = select(0 < vi and vi < 5 or not vi == 6, A[vi], B[vi])"),
        ("B[vi] = A[vi] if vi > 2 else T.float32('-inf')", "B[vi] = select(vi > 2, A[vi], -inf)"),
        ("B[vi] = T.exp(A[vi]) + T.power(A[vi], 2.0) + T.nearbyint(A[vi])",
         "B[vi] = exp(A[vi]) + pow(A[vi], 2.0) + round(A[vi])"),
        ("N[vi] = T.shift_right(N[vi], 2) & ~N[vi] | 1 ^ N[vi] << 1",
         "N[vi] = bit_or(bit_and(shift_right(N[vi], 2), bit_xor(N[vi], -1)), bit_xor(1, shift_left(N[vi], 1)))"),
        ("B[vi] = A[T.floordiv(vi, 2) + T.floormod(vi, 2)]", "B[vi] = A[vi // 2 + vi % 2]"),
        ("B[vi] = A[T.truncdiv(vi, 2) + T.truncmod(vi, 2)]", "B[vi] = A[vi // 2 + vi % 2]"),
        ("B[vi] = T.min_value('float32') + T.max_value('float16')",
         "B[vi] = -3.4028234663852886e+38 + 65504.0"),
        ("I[vi] = T.min_value('int8')", "I[vi] = -128"),
        ("B[vi] = T.call_extern('float32', 'erff', A[vi])", 'B[vi] = erf(A[vi])'),
        ("B[vi] = T.Let(x + x, where={x: A[vi]})", "B[vi] = A[vi] + A[vi]"),
        ("B[vi] = T.likely(A[vi])", "B[vi] = A[vi]"),
        ("T.buffer_store(B, A[vi], [vi])", "B[vi] = A[vi]"),
        ("B[vi] += A[vi]; B[vi] *= 2", "B[vi] += A[vi]\nB[vi] *= 2.0"),
        # Lets in every spelling.
        ("x: T.let = A[vi]; B[vi] = x * x", "let x = A[vi]\nB[vi] = x * x"),
        ("x: T.let[T.float32] = A[vi]; B[vi] = x", "let x = A[vi]\nB[vi] = x"),
        ("x: T.float32 = A[vi]; B[vi] = x", "let x = A[vi]\nB[vi] = x"),
        ("x = A[vi]; x = x + 1.0; B[vi] = x", "let x = A[vi]\nlet x_1 = x + 1.0\nB[vi] = x_1"),
    ],
)  # fmt: skip
def test_expressions(statement: str, wanted: str) -> None:
    params = ", ".join(
        f'{name}: T.Buffer((8,), "{dtype}")'
        for name, dtype in {
            "A": "float32",
            "B": "float32",
            "H": "float16",
            "I": "int8",
            "U": "uint8",
            "N": "int32",
        }.items()
    )
    found = elementwise(statement, params)
    lines = [line.strip() for line in found.splitlines()]
    assert lines[-len(wanted.splitlines()) :] == wanted.splitlines()
    assert all(line.startswith(("reads", "writes")) for line in lines[: -len(wanted.splitlines())])


def test_argmax() -> None:
    p = brought(
        """def f(v: T.Buffer((4, 8), "float32"), at: T.Buffer((4,), "int32"), best: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.sblock("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(v[vi, vk])
            T.writes(at[vi], best[vi])
            with T.init():
                at[vi] = -1
                best[vi] = T.min_value("float32")
            a: T.let[T.int32] = T.Select(best[vi] >= v[vi, vk], at[vi], vk)
            b: T.let[T.float32] = T.Select(best[vi] >= v[vi, vk], best[vi], v[vi, vk])
            at[vi] = a
            best[vi] = b
"""
    )
    v = np.random.default_rng(1).random((4, 8), np.float32)
    found = run(p, {"v": v})
    assert found["at"].tolist() == v.argmax(1).tolist()
    assert found["best"].tolist() == v.max(1).tolist()


def test_views() -> None:
    becomes(
        """def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 4):
        with T.sblock("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            s0, s1 = T.int32(), T.int32()
            a = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32", strides=[s0, 1],
                               offset_factor=16)
            b = T.match_buffer(B[vi * 4, vj * 4:vj * 4 + 4], (4,), strides=["s1"], elem_offset=s1)
            b[0] = a[1, 2]
""",
        """program f(A: f32[16, 16], inout B: f32[16, 16]) {
    for i in 4, j in 4 {
        block tile[vi: 4 = i, vj: 4 = j] {
            view a: f32[4, 4] = A[vi * 4 .. vi * 4 + 4, vj * 4 .. vj * 4 + 4]
            view b: f32[4] = B[vi * 4, vj * 4 .. vj * 4 + 4]
            b[0] = a[1, 2]
        }
    }
}""",
    )


DYNAMIC = """program f[n: dyn(1..2147483647)](A: f32[n, 4], out B: f32[n, 4]) {
    for i in n, j in 4 { block b[vi: n = i, vj: 4 = j] { B[vi, vj] = A[vi, vj] } }
}"""
COPY = """
    for i, j in T.grid(n, 4):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize(
    "head",
    [
        "def f(a: T.handle, b: T.handle):\n    n = T.int32()\n    A = T.match_buffer(a, (n, 4))\n"
        "    B = T.match_buffer(b, (n, 4))",
        "def f(a: T.handle, b: T.handle):\n    n = T.var('int64')\n    A = T.match_buffer(a, (n, T.int64(4)))\n"
        "    B = T.match_buffer(b, (n, T.int64(4)))",
        "def f(a: T.handle, b: T.handle, n: T.int32):\n    A = T.match_buffer(a, (n, 4))\n"
        "    B = T.match_buffer(b, (n, 4))",
        "def f(A: T.Buffer(('n', 4)), B: T.Buffer((n, 4))):\n    n = T.int64()",
        "def f(A: T.Buffer((n, 4)), B: T.Buffer((n, 4))):",
    ],
)
def test_dynamic_sizes(head: str) -> None:
    p = tvmscript.parse_one(f"n = TypeVar('n')\n{HEAD}{head}{COPY}" if head.endswith(":") else HEAD + head + COPY)
    assert alpha_equal(p, parse_program(DYNAMIC))


def test_regions_are_inferred_and_completed() -> None:
    p = brought(
        """def f(A: T.Buffer((8, 4), "float32"), k: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("inferred"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi, 0] + A[vi, 3]
    for i in range(8):
        with T.sblock("completed"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes([B[vi]])
            B[vi] = A[vi, 2] + B[7 - vi]
    for i in range(8):
        with T.sblock("data"):
            vi = T.axis.spatial(8, i)
            T.reads(A[k[vi], 0:2], k)
            B[vi] = A[k[vi], 1]
"""
    )
    text = print_program(p)
    assert "block inferred[vi: 8 = i] { B[vi] = A[vi, 0] + A[vi, 3] }" in text
    assert "reads A[vi, 0..4], B[7 - vi]" in text
    assert "reads A[0..8, 0..2], k[0..8]" in text


def test_what_a_block_says_it_reads_keeps_its_place() -> None:
    text = """
from tvm.script import tir as T

@T.prim_func
def f(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi], A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    program = tvmscript.parse_one(text)
    (block,) = (s for s in walk(program.body) if isinstance(s, Block))
    assert [r.buffer for r in block.reads] == ["C", "A"]  # Traces name buffers by their places.


def test_directions_are_derived() -> None:
    p = brought(
        """def f(a: T.Buffer(4), b: T.Buffer(4), c: T.Buffer([4], "float32"), d: T.Buffer((), "int32")):
    for i in range(4):
        with T.sblock("x"):
            vi = T.axis.spatial(4, i)
            b[vi] = a[vi] + c[vi]
            c[vi] = b[vi]
"""
    )
    assert [q.direction for q in p.params] == ["in", "out", "inout", "in"]


def test_a_parameter_of_which_elements_stay_is_inout() -> None:
    p = brought(
        """def f(a: T.Buffer(4), b: T.Buffer(8), c: T.Buffer(4)):
    for i in range(4):
        with T.sblock("x"):
            vi = T.axis.spatial(4, i)
            b[vi * 2] = a[vi]
            c[vi] = a[vi]
"""
    )
    assert [q.direction for q in p.params] == ["in", "inout", "out"]


def test_statements() -> None:
    becomes(
        """def f(A: T.Buffer((8,), "float32"), s: T.Buffer((), "float32")):
    'What it does.'
    T.evaluate(0)
    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            pass
            T.evaluate(T.exp(1.0))
            if A[vi] > 0.0:
                A[vi] = 0.0
            elif vi == 3:
                A[vi] = 1.0
            else:
                while A[vi] < s[()]:
                    A[vi] = A[vi] + 1.0
""",
        """program f(inout A: f32[8], s: f32[]) {
    for i in 8 {
        block b[vi: 8 = i] {
            if A[vi] > 0.0 { A[vi] = 0.0 }
            else if vi == 3 { A[vi] = 1.0 }
            else { while A[vi] < s[] { A[vi] += 1.0 } }
        }
    }
}""",
    )


def test_a_file_is_read_not_run() -> None:
    text = """
raise SystemExit("never run")
from tvm.script import ir as I, tirx as T
N, M = 8, 2
SHAPE = (N * M, 4)
DTYPE = "float16"

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def first(A: T.Buffer(SHAPE, DTYPE)):
        for i, j in T.grid(*SHAPE):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float16(N)

    @T.prim_func(private=True, s_tir=True)
    def second(A: T.Buffer((M,), "float32")):
        for i in range(A.shape[0]):
            with T.sblock("b"):
                vi = T.axis.spatial(M, i)
                A[vi] = 1.0

def test():
    K = 3
    @T.prim_func(s_tir=True)
    def first(A: T.Buffer((K,), "float32")):
        for i in range(K):
            with T.sblock("b"):
                vi = T.axis.spatial(K, i)
                A[vi] = 1.0
"""
    found = tvmscript.read(text)
    assert [f.program.name for f in found.functions] == ["first", "second", "first_1"]
    assert print_program(found.functions[0].program).startswith("program first(out A: f16[16, 4])")
    assert found.diagnostics == ()
    with pytest.raises(MsError, match="3 programs"):
        tvmscript.parse_one(text)


@pytest.mark.parametrize(
    "head, inner",
    [
        ("if x:\n    pass\nelse:", ""),
        ("if x:\n    pass\nelif y:", ""),
        ("for x in y:\n    pass\nelse:", ""),
        ("while x:\n    pass\nelse:", ""),
        ("try:\n    pass\nexcept E:", ""),
        ("try:\n    pass\nfinally:", ""),
        ("try:\n    pass\nexcept E:\n    pass\nelse:", ""),
        ("with x:", ""),
        ("match x:\n    case 1:", "    "),
        ("async def f():", ""),
    ],
)
def test_programs_in_every_branch_are_read(head, inner):
    body = (
        '@T.prim_func\ndef b(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
        '    for i in range(8):\n        with T.block("b"):\n            B[i] = A[i]\n'
    )
    text = f"{head}\n" + "".join(f"{inner}    {line}\n" for line in body.splitlines())
    assert [p.name for p in tvmscript.parse(text)] == ["b"]


@pytest.mark.parametrize("change", ["if x:\n    N = 4", "for N in y: pass", "with y as N: pass", "del N", "N += 1"])
def test_a_number_that_may_change_is_not_known(change):
    text = (
        f'N = 8\n{change}\n@T.prim_func\ndef b(A: T.Buffer((N,), "float32")):\n'
        '    for i in range(8):\n        with T.block("b"):\n            A[i] = 1.0\n'
    )
    (found,) = tvmscript.read(text).diagnostics
    assert found.code == "MS732"


@pytest.mark.parametrize("over", ["range(0, -1)", "T.serial(3, 1)", "T.grid(-2)", "T.serial(0, -7, step=2)"])
def test_a_range_that_runs_down_is_empty(over):
    text = f'@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    for j in {over}:\n        A[j] = A[j] + 1.0\n'
    p = tvmscript.parse_one(text)
    assert [s.extent for s in walk(p.body) if isinstance(s, For)] == [Const(0)]
    assert alpha_equal(parse_program(print_program(p)), p)


def test_an_expression_is_read_once_however_many_terms_it_has() -> None:
    terms = " + ".join("A[vi]" for _ in range(120))
    assert elementwise(f"B[vi] = {terms}").count("A[vi]") == 120
    nested = "A[vi]"
    for _ in range(30):
        nested = f"abs(T.float32(A[vi] if {nested} < A[vi] else B[vi]))"
    assert elementwise(f"B[vi] = {nested}").count("select") == 30


def test_python_computes_with_its_floats_in_double_precision() -> None:
    params = 'A: T.Buffer((8,), "float64"), B: T.Buffer((8,), "float64")'
    assert elementwise("B[vi] = A[vi] * (1.0 / 3.0)", params) == f"B[vi] = A[vi] * {1 / 3!r}"
    assert elementwise("B[vi] = A[vi] * (1 / 3)", params) == f"B[vi] = A[vi] * {1 / 3!r}"
    assert elementwise("B[vi] = A[vi] * (T.float64(1.0) / T.float64(3.0))", params) == "B[vi] = A[vi] * (1.0 / 3.0)"
    p = tvmscript.parse_one(
        f"from tvm.script import tirx as T\nEPS = 0.1\n\n@T.prim_func\ndef f({params}):\n    B[0] = A[0] + -EPS\n"
    )
    assert "B[0] = A[0] + -0.1" in print_program(p)


def test_a_quotient_of_python_s_integers_is_not_that_of_what_wraps_around() -> None:
    p = tvmscript.parse_one(HEAD + 'def f(A: T.Buffer((1,), "uint8")):\n    A[0] = 300 // 7\n')
    assert run(p, {})["A"].tolist() == [42]
