"""Assignments in TVMScript: to buffers of one element, with a type, of expressions themselves; complements."""

from __future__ import annotations

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.interop import tvmscript
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program

HEAD = "from tvm.script import tirx as T\n\n"


def brought(text: str, before: str = "") -> Program:
    p = tvmscript.parse_one(f"{HEAD}{before}@T.prim_func(s_tir=True)\n{text}")
    assert parse_program(print_program(p)) == p
    return p


def refusal(text: str, before: str = "") -> tuple[str, str]:
    (d,) = tvmscript.read(f"{HEAD}{before}@T.prim_func(s_tir=True)\n{text}").diagnostics
    return d.code, f"{d.message}: {d.why}"


# ------------------------------------------------------------------ buffers of one element
NUMBERS = np.arange(1, 9, dtype=np.float32)
ADD = "@T.inline\ndef add(acc, x):\n    acc = acc[0] + x\n\n"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("acc = T.alloc_local((1,))\n    acc[0] = 0.0\n    for k in range(8):\n        acc = acc[0] + A[k]", 36),
        ("acc = T.alloc_local((1,))\n    acc = 5\n    for k in range(8):\n        acc = acc[0] - 1", -3),
        ("acc = T.alloc_local((1,))\n    acc[0] = 0.0\n    for k in range(8):\n        add(acc, A[k])", 36),
        ("acc = T.decl_buffer((1,), data=C.data, elem_offset=2)\n    acc = A[6]\n    acc = acc[0] + C[2]", 14),
    ],
)  # fmt: skip
def test_a_buffer_of_one_element_takes_the_value(body: str, wanted: float) -> None:
    p = brought(
        f"def f(A: T.Buffer((8,)), C: T.Buffer((8,)), B: T.Buffer((1,))):\n    {body}\n    B[0] = acc[0]\n", ADD
    )
    assert run(p, {"A": NUMBERS, "C": np.zeros(8, np.float32)})["B"] == wanted


def test_a_parameter_of_one_element_takes_the_value() -> None:
    p = brought('def f(A: T.Buffer((8,)), B: T.Buffer((1,), "int32")):\n    B = A[3] * T.float32(2.6)\n')
    assert run(p, {"A": NUMBERS})["B"] == 10


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("B = A", "MS733"),
        ("add(B[0], A[0])", "MS731"),
        ("x = T.meta_var(B[0])\n    x = A[0]", "MS731"),
        ("B += A[0]", "MS731"),
    ],
)
def test_other_assignments_to_elements_are_refused(body: str, code: str) -> None:
    before = "@T.inline\ndef add(acc, x):\n    acc = acc + x\n\n"
    assert refusal(f"def f(A: T.Buffer((8,)), B: T.Buffer((1,))):\n    {body}\n", before)[0] == code


def test_other_names_are_bound_to_the_value() -> None:
    p = brought(
        "def f(s: T.float32, A: T.Buffer((8,)), B: T.Buffer((2,))):\n    s = s + 1.0\n    B[0] = s\n    B[1] = s\n"
    )
    assert run(p, {"s": np.float32(2), "A": NUMBERS})["B"].tolist() == [3, 3]


def test_a_meta_variable_is_the_expression_itself() -> None:
    p = brought(
        "def f(A: T.Buffer((8,)), B: T.Buffer((2,))):\n    n = T.meta_var(8)\n    C = T.alloc_buffer((n,))\n"
        "    C[0] = A[0]\n    x = T.meta_var(C[0])\n    y = C[0]\n    C[0] = A[1]\n    B[0] = x\n    B[1] = y\n"
    )
    assert run(p, {"A": NUMBERS})["B"].tolist() == [2, 1]


# ------------------------------------------------------------------ types
@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("T.int32", "F[0]", 2),
        ("T.int8", "A[1]", 44),
        ("T.float16", "F[2]", 2048),
        ("T.uint8", "A[2]", 255),
        ("T.float32", "A[0] // 2", 3),
        ("T.int8", "i + 300", 44),
        ("T.int32", "s", 2),
        ("T.float32", "F[0]", 2.75),
        ("T.int32", "i * 3 + 1", 1),
        ("T.let", "F[0]", 2.75),
        ("T.let[T.float32]", "F[0]", 2.75),
    ],
)
def test_a_type_converts_the_value(kind: str, value: str, wanted: float) -> None:
    p = brought(
        'def f(s: T.float32, F: T.Buffer((4,)), A: T.Buffer((4,), "int32"), B: T.Buffer((1,))):\n'
        f'    for i in range(1):\n        x: {kind} = {value}\n        B[i] = T.Cast("float32", x)\n'
    )
    floats, integers = np.array([2.75, 0, 2049, 0], np.float32), np.array([7, 300, -1, 0], np.int32)
    assert run(p, {"s": np.float32(2.75), "F": floats, "A": integers})["B"] == wanted


def test_a_value_of_the_same_type_is_not_converted() -> None:
    p = brought(
        'def f(A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "int8")):\n    for i in range(8):\n'
        "        j: T.int32 = i + 0\n        x: T.int8 = A[j]\n        B[i] = x\n"
    )
    assert "i8(" not in print_program(p) and "i32(" not in print_program(p)


def test_a_name_with_a_type_is_a_new_one() -> None:
    p = brought("def f(A: T.Buffer((8,)), B: T.Buffer((1,))):\n    B[0] = 1.0\n    B: T.float32 = A[7]\n")
    assert run(p, {"A": NUMBERS})["B"] == 1


def test_a_vector_as_a_type_is_refused() -> None:
    assert refusal("def f(A: T.Buffer((8,))):\n    x: T.int32[4]\n    A[0] = 1.0\n")[0] == "MS731"


# ------------------------------------------------------------------ complements
@pytest.mark.parametrize("of", ["~A[vi]", "T.bitwise_not(A[vi])"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int8", "int16", "int64"])
def test_a_complement_has_the_type_of_its_operand(of: str, dtype: str) -> None:
    p = brought(
        f'def f(A: T.Buffer((4,), "{dtype}"), B: T.Buffer((4,), "float64"), C: T.Buffer((4,), "bool")):\n'
        '    for i in range(4):\n        with T.sblock("b"):\n            vi = T.axis.spatial(4, i)\n'
        f'            B[vi] = T.Cast("float64", {of})\n            C[vi] = {of} > T.{dtype}(10)\n'
    )
    given = np.array([0, 1, 100, 127], dtype)
    found = run(p, {"A": given})
    np.testing.assert_array_equal(found["B"], (~given).astype(np.float64))
    np.testing.assert_array_equal(found["C"], ~given > 10)


def test_complements_of_indices_and_truth_values() -> None:
    p = brought(
        'def f(A: T.Buffer((8,)), F: T.Buffer((8,), "bool"), B: T.Buffer((8,)), G: T.Buffer((8,), "bool")):\n'
        "    for i in range(8):\n        B[i] = A[8 + ~i]\n        G[i] = ~F[i]\n"
    )
    flags = NUMBERS > 3
    found = run(p, {"A": NUMBERS, "F": flags})
    np.testing.assert_array_equal(found["B"], NUMBERS[::-1])
    np.testing.assert_array_equal(found["G"], ~flags)
    assert refusal("def f(A: T.Buffer((8,))):\n    A[0] = ~A[1]\n")[0] == "MS733"
