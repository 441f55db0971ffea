"""Pointers in TVMScript: buffers over the memory of others, parameters that are pointers, addresses."""

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.interop import tvmscript
from mslang.ir.expr import Const
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program

HEAD = "from tvm.script import tirx as T\n\n@T.prim_func\n"


def brought(text: str) -> Program:
    p = tvmscript.parse_one(HEAD + text)
    assert parse_program(print_program(p)) == p
    assert tvmscript.parse(tvmscript.print(p)) == (p,)
    return p


def refusal(text: str) -> tuple[str, str]:
    (d,) = tvmscript.read(HEAD + text).diagnostics
    return d.code, f"{d.message}: {d.why}"


MATRIX = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("declaration", "element"),
    [
        ("F = T.decl_buffer((24,), data=A.data)", "F[i * 6 + j]"),
        ("F = T.Buffer((24,), data=A.data)", "F[i * 6 + j]"),
        ("F = T.decl_buffer((2, 12), data=A.data)", "F[(i * 6 + j) // 12, (i * 6 + j) % 12]"),
        ("F = T.decl_buffer((6, 4), data=A.data, strides=[1, 6])", "F[j, i]"),
        ("F = T.decl_buffer((4, 6), data=A.data)", "F[i, j]"),
        ("p = T.bind(A.data)\n    F = T.decl_buffer((24,), data=p)", "F[i * 6 + j]"),
        (
            "F = T.decl_buffer((4, 4), data=T.address_of(A[0, 2]), strides=[6, 1])",
            "T.if_then_else(j < 2, 0., F[i, j - 2])",
        ),
        ("F = T.decl_buffer((4,), data=A.data, elem_offset=20)", "T.if_then_else(i < 3 or j < 2, 0., F[j - 2])"),
        ("F = T.decl_buffer((4,), data=A.data, byte_offset=80)", "T.if_then_else(i < 3 or j < 2, 0., F[j - 2])"),
        ("F = T.Buffer((4,), data=A.data, byte_offset=83)", "T.if_then_else(i < 3 or j < 2, 0., F[j - 2])"),
        ('F = T.decl_buffer((4,), "float32", A.data, None, None, 80)', "T.if_then_else(i < 3 or j < 2, 0., F[j - 2])"),
        (
            'F = T.decl_buffer((4,), "float32", A.data, None, 20, "global")',
            "T.if_then_else(i < 3 or j < 2, 0., F[j - 2])",
        ),
        ('F = T.decl_buffer((24,), data=A.data, byte_offset=0, layout="default")', "F[i * 6 + j]"),
        ("F = T.decl_buffer((24,), data=A.data, byte_offset=None, layout=None)", "F[i * 6 + j]"),
    ],
)  # fmt: skip
def test_a_buffer_over_the_memory_of_another(declaration: str, element: str) -> None:
    p = brought(
        f'def f(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):\n    {declaration}\n'
        f"    for i, j in T.grid(4, 6):\n        B[i, j] = {element}\n"
    )
    got = run(p, {"A": MATRIX})["B"]
    wanted = MATRIX.copy()
    if "address_of" in declaration:
        wanted[:, :2] = 0
    if "if_then_else(i < 3" in element:
        wanted[:3] = wanted[:, :2] = 0
    np.testing.assert_array_equal(got, wanted)


def test_stores_and_declared_regions_of_such_a_buffer() -> None:
    p = brought(
        'def f(A: T.Buffer((4, 6), "float32")):\n'
        "    F = T.decl_buffer((24,), data=A.data)\n"
        "    for i in range(24):\n"
        '        with T.sblock("b"):\n'
        "            v = T.axis.spatial(24, i)\n"
        "            T.reads()\n"
        "            T.writes(F[v])\n"
        "            F[v] = T.Cast('float32', v)\n"
    )
    assert "{ A[v // 6, v % 6] = f32(v) }" in print_program(p)
    np.testing.assert_array_equal(run(p, {})["A"], MATRIX)


def test_parameters_that_are_pointers() -> None:
    p = brought(
        'def f(a: T.handle("float32"), unused: T.handle, b: T.handle("float32"), also: T.handle("int8")):\n'
        '    A = T.decl_buffer((24,), "float32", data=a)\n'
        '    B = T.decl_buffer((4, 6), "float32", data=b)\n'
        '    C = T.decl_buffer((24,), "float32", data=b)\n'
        "    for i, j in T.grid(4, 6):\n        B[i, j] = A[i * 6 + j]\n"
        "    for i in range(24):\n        C[i] = C[i] + 1.0\n"
    )
    assert [q.buffer.name for q in p.params] == ["A", "B"]
    assert dict(p.annotations)["tvm.unused_pointers"] == ((1, "unused"), (3, "also"))
    np.testing.assert_array_equal(run(p, {"A": MATRIX.reshape(24)})["B"], MATRIX + 1)


def test_a_parameter_is_matched_twice() -> None:
    p = brought(
        "def f(a: T.handle):\n"
        '    A = T.match_buffer(a, (4, 6), "float32")\n'
        '    F = T.match_buffer(a, (24,), "float32")\n'
        "    for i in range(24):\n        F[i] = T.Cast('float32', i)\n"
    )
    np.testing.assert_array_equal(run(p, {})["A"], MATRIX)


@pytest.mark.parametrize(
    ("params", "body", "message"),
    [
        ('A: T.Buffer((8,), "int8")', 'F = T.decl_buffer((2,), "float32", data=A.data)', "elements of type i8"),
        ("A: T.Buffer((8,))", "F = T.decl_buffer((9,), data=A.data)", "not provably inside"),
        ("A: T.Buffer((8,), strides=(2,))", "F = T.decl_buffer((8,), data=A.data)", "not adjacent"),
        ("A: T.Buffer((8,))", "F = T.decl_buffer((4,), data=A.data, elem_offset=-1)", "its start"),
        ("A: T.Buffer((8,))", "F = T.decl_buffer((4,), data=A.data, byte_offset=20)", "not provably inside"),
        ("n: T.int32, A: T.Buffer((8,))", "F = T.decl_buffer((4,), data=A.data, elem_offset=n)", "not provably inside"),
        (
            "n: T.int32, A: T.Buffer((8,))",
            "F = T.decl_buffer((4,), data=A.data, byte_offset=n * 4)",
            "not provably inside",
        ),
        ("A: T.Buffer((8,))", "F = T.decl_buffer((8,), data=A.data, layout=T.TileLayout(T.S[8:1]))", "has a layout"),
        ("A: T.Buffer((8,), layout=T.TileLayout(T.S[8:1]))", "A[0] = 1.0", "has a layout"),
        (
            "A: T.Buffer((8,))",
            "F = T.alloc_buffer((8,), layout=T.TileLayout(T.S[8:1]))\n    G = T.decl_buffer((8,), data=F.data)",
            "shares the memory of `F`",
        ),
        ("A: T.Buffer((8,))", "F = T.decl_buffer((4,), data=A)", "not a pointer to a buffer"),
        ("a: T.handle", "T.evaluate(T.call_extern('int32', 'f', a))", "is a pointer"),
        ("A: T.Buffer((8,))", "F = T.Buffer((8,))", "nothing gives the memory"),
        ("A: T.Buffer((8,))", "p = T.address_of(A)", "not an address of an element"),
        ("", "x = T.int32()\n    T.bind(1, var=x)\n    T.bind(2, var=x)", "not a variable without a value"),
    ],
)
def test_refused(params: str, body: str, message: str) -> None:
    code, said = refusal(f"def f({params}):\n    {body}\n")
    assert code == "MS731"
    assert message in said


@pytest.mark.parametrize("offset", ["elem_offset=4", "byte_offset=16", "byte_offset=19"])
def test_the_offset_of_a_parameter(offset: str) -> None:
    p = brought(f"def f(A: T.Buffer((8,), {offset})):\n    A[0] = 1.0\n")
    assert p.params[0].buffer.offset == Const(4)


def test_a_size_is_any_offset_of_a_parameter_and_the_offset_from_a_pointer() -> None:
    p = tvmscript.parse_one(
        HEAD + 'def f(n: T.int32, a: T.handle, b: T.handle("float32")):\n'
        '    A = T.match_buffer(a, (8,), "float32", elem_offset=n)\n'
        '    B = T.decl_buffer((8,), "float32", data=b, elem_offset=n)\n'
        "    B[0] = A[0] + T.Cast('float32', n)\n"
    )
    n = p.dynamic[0]
    assert [q.buffer.offset for q in p.params] == [None, n]


@pytest.mark.parametrize(
    "declaration",
    [
        "F = T.decl_buffer((4,), data=A.data, elem_offset=1, byte_offset=4)",
        "F = T.sblock_alloc_buffer((4,), byte_offset=4)",
        "F = T.match_buffer(A[0:4], (4,), byte_offset=4)",
    ],
)
def test_offsets_that_tvm_does_not_take(declaration: str) -> None:
    code, _ = refusal(f"def f(A: T.Buffer((8,))):\n    {declaration}\n    A[0] = 1.0\n")
    assert code == "MS733"


# ------------------------------------------------------------------ attributes and threads
@pytest.mark.parametrize(
    "launch",
    [
        'with T.launch_thread("threadIdx.x", 8) as t:\n        B[t] = A[t]',
        't = T.launch_thread("threadIdx.x", 8)\n    B[t] = A[t]',
        't = T.env_thread("threadIdx.x")\n    T.launch_thread(t, 8)\n    B[t] = A[t]',
        't = T.env_thread("threadIdx.x")\n    with T.launch_thread(t, 8):\n        B[t] = A[t]',
        't = T.env_thread("threadIdx.x")\n    T.attr(t, "thread_extent", 8)\n    B[t] = A[t]',
        'v = T.int32()\n    t = T.iter_var(v, (0, 8), "ThreadIndex", "threadIdx.x")\n'
        '    T.attr(t, "thread_extent", 8)\n    B[v] = A[v]',
        't = T.iter_var(v, (0, 8), "ThreadIndex", "threadIdx.x")\n'
        '    with T.attr(t, "thread_extent", 8):\n        B[t] = A[t]',
    ],
)  # fmt: skip
def test_threads_are_launched(launch: str) -> None:
    p = brought(f"def f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    {launch}\n")
    assert "for t in 8 @ threadIdx.x" in print_program(p)
    got = run(p, {"A": MATRIX[0].repeat(2)[:8]})
    np.testing.assert_array_equal(got["B"], MATRIX[0].repeat(2)[:8])


def test_attributes_that_do_not_change_the_result_are_annotations() -> None:
    p = brought(
        "def f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n"
        "    C = T.alloc_buffer((8,))\n"
        "    for i in range(8):\n"
        '        with T.attr(0, "async_scope", 1):\n'
        "            C[i] = A[i]\n"
        '        T.attr(C.data, "double_buffer_scope", 1)\n'
        "        B[i] = C[i]\n"
    )
    text = print_program(p)
    assert 'attr "async_scope" = 1' in text
    assert 'attr "double_buffer_scope" = ["C", 1]' in text
    np.testing.assert_array_equal(run(p, {"A": np.arange(8, dtype=np.float32)})["B"], np.arange(8))


@pytest.mark.parametrize(
    "attribute",
    [
        'T.attr(0, "reduce_scope", 0)',
        'T.attr(0, "async_wait_inflight_count", i)',
        'T.attr(i + 1, "async_scope", 1)',
        'T.attr(0, "unheard_of", 1)',
    ],
)
def test_other_attributes_are_refused(attribute: str) -> None:
    code, _ = refusal(
        f"def f(A: T.Buffer((8,))):\n    for i in range(8):\n        with {attribute}:\n            A[i] = 0."
    )
    assert code == "MS731"
