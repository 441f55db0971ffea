"""Vectors, jumps, returned numbers and macros in TVMScript: what programs make of them."""

from collections.abc import Callable
from textwrap import indent

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.interop import tvmscript
from mslang.ir.equal import alpha_equal
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.program import parse_program

HEAD = "from tvm.script import tirx as T\n\n"
Array = np.ndarray


def brought(text: str, before: str = "") -> Program:
    p = tvmscript.parse_one(f"{HEAD}{before}@T.prim_func(s_tir=True)\n{text}")
    assert alpha_equal(parse_program(print_program(p)), p)
    assert alpha_equal(tvmscript.parse_one(tvmscript.print(p)), p)
    return p


def refusal(text: str, before: str = "") -> tuple[str, str]:
    (d, *_) = tvmscript.read(f"{HEAD}{before}@T.prim_func(s_tir=True)\n{text}").diagnostics
    return d.code, f"{d.message}: {d.why}"


# ------------------------------------------------------------------ vectors
A = np.arange(16, dtype=np.float32)


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("B[T.Ramp(0, 1, 8)] = A[T.Ramp(8, 1, 8)]", lambda b: b.__setitem__(slice(0, 8), A[8:])),
        ("B[T.Ramp(1, 2, 4)] = T.Broadcast(A[3], 4)", lambda b: b.__setitem__(slice(1, 9, 2), 3)),
        ("B[0:4] = A[4:8] + T.Broadcast(T.float32(1), 4)", lambda b: b.__setitem__(slice(0, 4), A[5:9])),
        ("B[T.Ramp(7, -1, 8)] = A[0:8]", lambda b: b.__setitem__(slice(0, 8), A[7::-1])),
        (
            "B.vstore([T.Ramp(0, 1, 4)], A.vload([T.Ramp(4, 1, 4)], 'float32x4'))",
            lambda b: b.__setitem__(slice(0, 4), A[4:8]),
        ),
        ("B[0:4] = B[0:4] + A[0:4]", lambda b: b.__setitem__(slice(0, 4), A[:4] - 1)),
        ("B[0:4] = T.Cast('float32x4', T.Cast('int32x4', A[0:4]))", lambda b: b.__setitem__(slice(0, 4), A[:4])),
        (
            "B.vstore([T.Ramp(0, 1, 4)], T.Broadcast(0.0, 4), predicate=T.Ramp(0, 1, 4) < T.Broadcast(2, 4))",
            lambda b: b.__setitem__(slice(0, 2), 0),
        ),
        (
            "B.vstore([T.Ramp(0, 1, 4)], A[0:4], predicate=T.get_active_lane_mask('uint1x4', 2, 5))",
            lambda b: b.__setitem__(slice(0, 3), A[:3]),
        ),
        ("B[0] = A[1]\n    B[0:4] = T.undef()", lambda b: b.__setitem__(0, 1)),
        ("B[5:6] = A[2:3]", lambda b: b.__setitem__(5, 2)),
    ],
)  # fmt: skip
def test_stores_of_vectors(statement: str, wanted: Callable[[Array], None]) -> None:
    p = brought(f"def f(A: T.Buffer((16,)), B: T.Buffer((16,))):\n    {statement}\n")
    expected = np.full(16, -1, np.float32)
    wanted(expected)
    found = run(p, {"A": A, "B": np.full(16, -1, np.float32)})["B"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("B[0:4] = A[0:5]", "has not 4 elements"),
        ("B[0:4] = A[0]", "`A[0]` is a number"),
        ("B[0:4] = T.Broadcast(1.0, 8)", "has not 4 lanes"),
        ("B[0:4] = T.Cast('float32x8', A[0:4])", "has not 4 lanes"),
        ("B[1:5] = B[0:4]", "other elements of it"),
        ("B[T.Ramp(0, 1, T.vscale() * 4)] = T.Broadcast(1.0, 4)", "is a vector"),
        ("B[0] = A[T.Ramp(0, 1, 4)]", "is a vector"),
        ("B[0:4] = T.Shuffle([A[0], A[1]], [0])", "is a vector"),
        ("B[0:4] = A.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(2, 4))", "undefined"),
        ("B.vstore([0], 1.0, predicate=T.bool(False))", "stores of vectors"),
    ],
)
def test_vectors_that_are_refused(statement: str, message: str) -> None:
    code, said = refusal(f"def f(A: T.Buffer((16,)), B: T.Buffer((16,))):\n    {statement}\n")
    assert code == "MS731"
    assert message in said


# ------------------------------------------------------------------ jumps
LOOPS = """\
for i in range(8):
    if A[i] > 2:
        continue
    A[i] = 7

for i in range(8):
    if A[i] > 2:
        break
    A[i] = 7

for i in range(8):
    if A[i] > 2:
        A[i] = 9
        if A[0] == 7:
            break
    A[i] = A[i] + 7

for i in range(8):
    if A[i] == 2:
        continue
    else:
        A[i] = 5
    A[i] = A[i] + 7

for i in range(2):
    for j in range(4):
        if A[i * 4 + j] == 1:
            break
        A[i * 4 + j] = 8
    A[i] = A[i] + 3

while A[0] < 9:
    A[0] = A[0] + 1
    if A[0] == 5:
        break
    if A[0] == 3:
        continue
    A[1] = A[1] + 1

for i in range(8):
    A[i] = 1
    continue
    A[i] = 2
"""
"""Bodies of a function, apart by empty lines."""


@pytest.mark.parametrize("body", LOOPS.split("\n\n"))
def test_continue_and_break(body: str) -> None:
    given = np.array([0, 1, 2, 3, 4, 1, 2, 0], np.int32)
    wanted = given.copy()
    exec(body, {"A": wanted})
    p = brought(f'def f(A: T.Buffer((8,), "int32")):\n{indent(body, "    ")}\n')
    np.testing.assert_array_equal(run(p, {"A": given})["A"], wanted)


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.parallel(8):\n        if A[i] > 2:\n            break",
        "for i, j in T.grid(2, 4):\n        if A[j] > 2:\n            break",
        "for i in range(8):\n        with T.sblock('b'):\n            v = T.axis.spatial(8, i)\n            break",
        "break",
    ],
)
def test_jumps_that_are_refused(body: str) -> None:
    assert refusal(f'def f(A: T.Buffer((8,), "int32")):\n    {body}\n')[0] == "MS731"


# ------------------------------------------------------------------ numbers
@pytest.mark.parametrize(
    ("text", "arguments", "wanted"),
    [
        ("def f(x: T.int32, y: T.int32) -> T.int32:\n    return x - y", {"x": 3, "y": 5}, -2),
        ("def f(x: T.uint8, y: T.uint8) -> T.uint8:\n    return x - y", {"x": 3, "y": 5}, 254),
        ("def f(x: T.float32) -> T.float32:\n    return x * 2.0", {"x": 3}, 6),
        (
            "def f(x: T.int32) -> T.int32:\n    if x > 0:\n        return 10\n    else:\n        return 20",
            {"x": -1},
            20,
        ),
        ("def f(x: T.int32) -> T.int32:\n    if x > 0:\n        return 10\n    return 20", {"x": 1}, 10),
        ("def f(x: T.int32, y: T.int32) -> T.int32:\n    return T.truncdiv(x, y)", {"x": -7, "y": 2}, -3),
        ("def f(x: T.int32, y: T.int32) -> T.int32:\n    return T.truncdiv(x, y)", {"x": -8, "y": 2}, -4),
        ("def f(x: T.int32, y: T.int32) -> T.int32:\n    return T.truncdiv(x, y)", {"x": 7, "y": -2}, -3),
        ("def f(x: T.int32, y: T.int32) -> T.int32:\n    return T.truncmod(x, y)", {"x": -7, "y": 2}, -1),
        ("def f(x: T.int32, y: T.int32) -> T.int32:\n    return T.truncmod(x, y)", {"x": 7, "y": -2}, 1),
        ("def f(x: T.int32, y: T.int32) -> T.int32:\n    return T.truncmod(x, y)", {"x": -7, "y": -2}, -1),
        ("def f() -> T.int64:\n    return T.int64(42)", {}, 42),
        ("def f(x: T.int32) -> T.bool:\n    return x < 10", {"x": -7}, True),
    ],
)
def test_returned_numbers(text: str, arguments: dict[str, float], wanted: float) -> None:
    p = brought(text + "\n")
    given = {q.buffer.name: q.buffer.dtype for q in p.params if q.direction == "in"}
    kinds = {"i32": np.int32, "u8": np.uint8, "f32": np.float32}
    found = run(p, {k: np.array(v, kinds[given[k]]) for k, v in arguments.items()})
    assert found["result"] == wanted


def test_an_integer_that_counts_is_a_size() -> None:
    p = brought(
        'def f(n: T.int32, x: T.int32, A: T.Buffer((8,), "int32")):\n    for i in range(n):\n        A[i] = x + n\n'
    )
    assert [q.buffer.name for q in p.params] == ["x", "A"]
    assert len(p.dynamic) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: T.int32):\n    return x",
        "def f(x: T.int32) -> T.handle:\n    return x",
        "def f(x: T.int32) -> T.int32:\n    for i in range(4):\n        return x",
    ],
)
def test_results_that_are_refused(text: str) -> None:
    assert refusal(text + "\n")[0] == "MS731"


# ------------------------------------------------------------------ macros
ADD = "@T.inline\ndef add(to, *more, by=1, **others):\n    to[more[0]] = to[more[0]] + by * others['scale']\n\n"


def test_a_macro_stands_where_it_is_called() -> None:
    p = brought(
        'def f(A: T.Buffer((8,), "int32")):\n    for i in range(8):\n'
        "        add(A, i, scale=2)\n        add(A, i, by=i, scale=3)\n",
        ADD,
    )
    np.testing.assert_array_equal(run(p, {"A": np.zeros(8, np.int32)})["A"], 2 + 3 * np.arange(8))


def test_names_of_a_macro_are_those_where_it_is_defined() -> None:
    p = brought(
        'def f(A: T.Buffer((8,), "int32")):\n    for n in range(4):\n        put(A)\n',
        "n = 5\n@T.inline\ndef put(to):\n    to[n] = to[n] + 1\n\n",
    )
    assert run(p, {"A": np.zeros(8, np.int32)})["A"].tolist() == [0, 0, 0, 0, 0, 4, 0, 0]
    p = brought(
        'def f(A: T.Buffer((8,), "int32")):\n    for n in range(4):\n'
        "        @T.inline\n        def put(k):\n            A[n] = k\n        put(n + 1)\n"
    )
    assert run(p, {"A": np.zeros(8, np.int32)})["A"].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("add()", "MS733"),
        ("one(A, 1)", "MS733"),
        ("one(A, b=1)", "MS733"),
        ("one(A, a=A)", "MS733"),
        ("again(A)", "MS731"),
        ("wrong(A)", "MS731"),
    ],
)
def test_calls_of_macros_that_are_refused(call: str, code: str) -> None:
    before = (
        f"{ADD}@T.inline\ndef one(a):\n    a[0] = 1\n\n@T.inline\ndef again(a):\n    again(a)\n\n"
        "@T.inline\ndef wrong(a):\n    a[0] = T.lgamma(a[0])\n\n"
    )
    text = f'{HEAD}{before}@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((8,), "int32")):\n    {call}\n'
    (d,) = tvmscript.read(text).diagnostics
    assert d.code == code
    assert d.span is not None
    assert text[: d.span.start].count("\n") == text.count("\n") - 1


def capture(decorator: str) -> Program:
    return brought(
        'def f(A: T.Buffer((256,), "int32"), B: T.Buffer((16,), "int32")):\n'
        "    for n in range(10):\n        put(A, B, n)\n",
        f"n = 128\n@{decorator}\ndef put(a, b, at):\n    b[at] = a[n]\n\n",
    )


@pytest.mark.parametrize(
    ("decorator", "wanted"),
    [
        ("T.macro", [128] * 10),
        ("T.macro()", [128] * 10),
        ("T.macro(hygienic=True)", [128] * 10),
        ("T.macro(hygienic=False)", list(range(10))),
        ("T.inline", [128] * 10),
    ],
)
def test_a_macro_that_is_not_hygienic_uses_the_names_at_its_call(decorator: str, wanted: list[int]) -> None:
    given = {"A": np.arange(256, dtype=np.int32), "B": np.zeros(16, np.int32)}
    assert run(capture(decorator), given)["B"].tolist() == [*wanted, *[0] * 6]


def test_whether_a_macro_is_hygienic_is_known() -> None:
    before = "@T.macro(hygienic=flag())\ndef put(a):\n    a[0] = 1\n\n"
    assert refusal('def f(A: T.Buffer((8,), "int32")):\n    put(A)\n', before)[0] == "MS732"


def test_the_defaults_of_a_macro_have_the_values_where_it_is_defined() -> None:
    p = brought(
        'def f(A: T.Buffer((8,), "int32")):\n    for n in range(4):\n        put(A)\n',
        "n = 5\n@T.inline\ndef put(to, at=n):\n    to[at] = to[at] + 1\n\n",
    )
    assert run(p, {"A": np.zeros(8, np.int32)})["A"].tolist() == [0, 0, 0, 0, 0, 4, 0, 0]


@pytest.mark.parametrize("nothing", ["return", "return None"])
@pytest.mark.parametrize(
    "body",
    [
        "for i in range(8):\n        if A[i] > 0:\n            {}\n        A[i] = 1",
        "if A[0] > 0:\n        {}\n    A[1] = 1",
        "A[0] = 1\n    {}\n    A[1] = 1",
        "with T.sblock('b'):\n        A[0] = 1\n        {}",
        "put(A)\n    A[1] = 1",
    ],
)
def test_a_return_of_nothing_before_the_end_is_refused(body: str, nothing: str) -> None:
    before = f"@T.inline\ndef put(a):\n    if a[0] > 0:\n        {nothing}\n    a[0] = 1\n\n"
    found = refusal(f'def f(A: T.Buffer((8,), "int32")):\n    {body.format(nothing)}\n', before)
    assert found[0] == "MS731" and "return" in found[1]


@pytest.mark.parametrize("jump", ["return x", "continue", "break"])
def test_jumps_out_of_a_macro_are_refused(jump: str) -> None:
    before = f"@T.inline\ndef put(x):\n    if x > 0:\n        {jump}\n\n"
    body = "for i in range(8):\n        put(x)\n        if i > x:\n            break\n    return x + 1"
    code, said = refusal(f"def f(x: T.int32) -> T.int32:\n    {body}\n", before)
    assert code == "MS731" and "leaves the macro `put`" in said


@pytest.mark.parametrize("nothing", ["return", "return None"])
def test_a_return_of_nothing_at_the_end_goes_without_saying(nothing: str) -> None:
    p = brought(f'def f(A: T.Buffer((8,), "int32")):\n    A[0] = 1\n    {nothing}\n')
    assert run(p, {"A": np.zeros(8, np.int32)})["A"][0] == 1
    assert refusal(f"def f(x: T.int32) -> T.int32:\n    if x > 0:\n        {nothing}\n    return x\n")[0] == "MS731"


def conditions(number: int) -> str:
    """A loop with conditions after each other, inside each of which there may be a jump."""
    each = "".join(
        f"        if A[i] > {k}:\n            if A[i] < {k + 1}:\n                continue\n" for k in range(number)
    )
    return f'def f(A: T.Buffer((8,), "int32")):\n    for i in range(8):\n{each}        A[i] = 7\n'


def test_what_follows_conditions_with_jumps_is_copied_a_limited_number_of_times() -> None:
    assert print_program(brought(conditions(6))).count("A[i] = 7") == 64
    for number in (7, 40):
        code, said = refusal(conditions(number))
        assert code == "MS731" and "copied more than 64 times" in said


def test_conditions_that_always_jump_copy_nothing() -> None:
    each = "".join(f"        if A[i] == {k}:\n            continue\n" for k in range(40))
    p = brought(f'def f(A: T.Buffer((8,), "int32")):\n    for i in range(8):\n{each}        A[i] = 7\n')
    assert print_program(p).count("A[i] = 7") == 1
