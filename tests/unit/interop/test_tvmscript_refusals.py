"""What TVMScript cannot be brought over: the code, and the place."""

import pytest

from mslang.diagnostics import MsError
from mslang.interop import tvmscript

HEAD = """from tvm.script import tir as T

@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            """


def refused(text: str) -> list[tuple[str, str]]:
    """The codes found and the text that each points at."""
    found = tvmscript.read(text, "kernel.py")
    assert found.functions == ()
    assert all(d.path == "kernel.py" for d in found.diagnostics)
    return [(d.code, "" if d.span is None else text[d.span.start : d.span.end]) for d in found.diagnostics]


@pytest.mark.parametrize(
    ("statement", "code", "place"),
    [
        ("B[vi] = T.lgamma(A[vi])", "MS731", "T.lgamma(A[vi])"),
        ("B[vi] = T.round(A[vi])", "MS731", "T.round(A[vi])"),
        ("B[vi] = tvm.tir.round(A[vi])", "MS731", "tvm.tir.round(A[vi])"),
        ("T.evaluate(T.tvm_mma_sync(A.data, 0))", "MS733", "T.tvm_mma_sync(A.data, 0)"),
        ("B[vi] = T.q_multiply_shift(vi, 3, 0, 0)", "MS731", "T.q_multiply_shift(vi, 3, 0, 0)"),
        ("x = T.launch_thread('lane', 4)", "MS731", "T.launch_thread('lane', 4)"),
        ("T.evaluate(T.call_extern('int32', 'f', A.data))", "MS731", "A.data"),
        ("T.evaluate(T.call_extern('int32', 'f', A.access_ptr('r')))", "MS731", "A.access_ptr('r')"),
        ("B[vi] = A[0:4]", "MS731", "A[0:4]"),
        ("T.reads(A[600:8])", "MS733", "600:8"),
        ("B[vi] = T.ramp(0, 1, 4)", "MS731", "T.ramp(0, 1, 4)"),
        ("B[0:8] = A[vi]", "MS731", "B[0:8]"),
        ("assert vi < 3", "MS731", "assert vi < 3"),
        ("B[vi] = [x for x in A]", "MS731", "[x for x in A]"),
        ("p = lambda x: x", "MS731", "lambda x: x"),
        ("x = A[vi]\n            if vi > 1:\n                x = 1.0", "MS731", "x"),
        ("B[vi] = unknown(A[vi])", "MS732", "unknown(A[vi])"),
        ("B[vi] = A[N]", "MS732", "N"),
        ("B[vi] = A[1.5]", "MS733", "1.5"),
        ("B[vi] = A[vi, 0]", "MS733", "A[vi, 0]"),
        ("B[vi] = T.exp(A[vi], A[vi])", "MS733", "T.exp(A[vi], A[vi])"),
        ("B[vi] = A[vi / 2]", "MS733", "vi / 2"),
        ("vj = T.axis.remap('S', [3])", "MS733", "T.axis.remap('S', [3])"),
        ("vj = T.axis.remap('SR', [i])", "MS733", "T.axis.remap('SR', [i])"),
        ("T.block_attr({1: 2})", "MS733", "1"),
        ("B[vi] = T.Cast('float8_e4m3fn', A[vi])", "MS734", "'float8_e4m3fn'"),
        ("x = T.alloc_buffer((4,), 'float32', scope='texture')", "MS734", "'texture'"),
        ("B[vi] = A[T.truncdiv(vi - 3, 2)]", "MS735", "T.truncdiv(vi - 3, 2)"),
        ("B[vi] = A[T.Mod(vi, -2)]", "MS735", "T.Mod(vi, -2)"),
    ],
)  # fmt: skip
def test_in_a_block(statement: str, code: str, place: str) -> None:
    assert (code, place) in refused(HEAD + statement + "\n")


@pytest.mark.parametrize(
    ("imported", "older"),
    [
        ("from tvm.script import tir as T", True),
        ("# from tvm.script import tir as T", True),
        ("from tvm.script import tirx as T", False),
        ("# from tvm.script import tirx as T", False),
        ("", False),
    ],
)
def test_round_of_older_versions_rounds_halves_away_from_zero(imported: str, older: bool) -> None:
    text = HEAD.replace("from tvm.script import tir as T", imported) + "B[vi] = T.round(A[vi])\n"
    assert (not tvmscript.read(text).functions) == older


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = (", "MS730"),
        ("def f(:\n  pass", "MS730"),
        ("\0", "MS730"),
        ("  x = 1\n y = 2", "MS730"),
        ("", "MS736"),
        ("def f(): pass", "MS736"),
        ("@T.prim_func\ndef f(a): pass", "MS733"),
        ("@T.prim_func\ndef f(A: T.Buffer): pass", "MS733"),
        ("@T.prim_func\ndef f(A: T.Buffer((4, 4), strides=[4])): pass", "MS733"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,), 'handle')): pass", "MS734"),
        ("def g(n):\n  @T.prim_func\n  def f(A: T.Buffer((n,))): pass", "MS732"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n  for i in A: pass", "MS731"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n  for i in T.thread_binding(4, thread='x'): pass", "MS731"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n  for i, j in T.grid(4): pass", "MS733"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n  with open('x'): pass", "MS731"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n  n = T.int32()\n  for i in range(n): A[i] = 1.0", "MS731"),
        ("@T.prim_func\ndef f(A: T.Buffer(('4 +',))): pass", "MS733"),
        ("@T.prim_func\ndef f(A: 'T.Buffer((4,)'): pass", "MS733"),
        ("@T.prim_func\ndef f(A: T.Buffer((-4,))): pass", "MS154"),
        ("@T.prim_func\ndef f(A: T.Buffer((0, 4))):\n  A[0, 0] = 1.0", "MS731"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n  B = T.alloc_buffer((4, 0))\n  A[0] = 1.0", "MS731"),
    ],
)
def test_in_a_file(text: str, code: str) -> None:
    assert code in [c for c, _ in refused(text)]


PLAIN = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
"""
BRANCHES = "    if A[0] > 0.0:\n        B[0] = 0.0\n" + "    elif A[0] > 1.0:\n        B[0] = 1.0\n" * 600


@pytest.mark.parametrize(
    "body",
    [
        "    B[0] = " + " + ".join(["A[0]"] * 900) + "\n",
        "    B[0] = A" + ".x" * 900 + "\n",
        "    B[0] = " + "-" * 900 + "A[0]\n",
        BRANCHES,
        "".join(f"    x{k} = A[0] + {k}.0\n" for k in range(600)) + "    B[0] = x0\n",
    ],
    ids=["sum", "attributes", "signs", "branches", "assignments"],
)
def test_a_function_that_is_nested_too_deeply_does_not_keep_others_from_being_read(body: str) -> None:
    found = tvmscript.read(PLAIN + body + PLAIN.replace("def f", "def g") + "    B[0] = A[0]\n")
    assert [f.program.name for f in found.functions] == ["g"]
    (d,) = found.diagnostics
    assert d.code == "MS731" and d.message == "`f` is nested too deeply" and d.span is not None


@pytest.mark.parametrize(
    "text",
    [
        PLAIN + "    B[0] = " + " + ".join(["A[0]"] * 20000) + "\n",
        PLAIN + "    B[0] = A" + ".x" * 20000 + "\n",
        PLAIN + "    B[0] = A[0]\nZ = " + " + ".join(["1"] * 3000) + "\n",
    ],
    ids=["sum", "attributes", "constant"],
)
def test_a_text_that_is_nested_too_deeply(text: str) -> None:
    assert [code for code, _ in refused(text)] == ["MS731"]


def test_an_implementation_that_is_not_python() -> None:
    with pytest.raises(MsError) as caught:
        tvmscript.intrin("x", PLAIN + "    B[0] = A[0]\n", "def f(:")
    assert caught.value.diagnostic.code == "MS730"


def test_everything_that_can_be_told_is_told() -> None:
    text = HEAD + "B[vi] = T.lgamma(A[vi])\n            B[vi] = T.erfinv(A[vi])\n"
    assert [place for _, place in refused(text)] == ["T.lgamma(A[vi])", "T.erfinv(A[vi])"]


def test_columns_count_characters() -> None:
    text = HEAD.replace("i in", "ä in").replace(", i)", ", ä)") + 'B[vi] = T.lgamma("ünïcode")\n'
    assert refused(text) == [("MS731", 'T.lgamma("ünïcode")')]


def test_an_error_is_raised_with_all_it_found() -> None:
    with pytest.raises(MsError) as caught:
        tvmscript.parse(HEAD + "B[vi] = T.lgamma(A[vi])\n")
    assert [d.code for d in caught.value.diagnostics] == ["MS731"]


@pytest.mark.filterwarnings("error")
def test_warnings_of_python_about_the_text_are_not_shown() -> None:
    text = (
        f"same = 1 is 1\npath = '\\d'\n{PLAIN}    B[0] = A[0]\n"
        + "@T.prim_func\ndef g(C: 'T.Buffer((1 is 1,))'): pass\n"
    )
    assert [f.program.name for f in tvmscript.read(text).functions] == ["f"]
