"""Programs inside of Python functions with parameters: which values a file gives them."""

import pytest

from mslang.interop import tvmscript
from mslang.interop.tvmscript.instances import MOST
from mslang.ir.expr import Const

IMPORTS = "import pytest\nimport tvm\nfrom tvm.script import tirx as T\n"
PROGRAM = """
{indent}@T.prim_func(s_tir=True)
{indent}def f(A: T.Buffer({shape}, {dtype})):
{indent}    T.evaluate(0)
"""


def program(indent: int, shape: str = "(n,)", dtype: str = '"float32"') -> str:
    return PROGRAM.format(indent=" " * indent, shape=shape, dtype=dtype)


def read(text: str) -> list[tuple[str, list[int]]]:
    """The element type and the shape of the parameter of each program."""
    found = tvmscript.read(IMPORTS + text)
    assert found.diagnostics == ()
    buffers = [f.program.params[0].buffer for f in found.functions]
    return [(b.dtype, [n.value for n in b.shape if isinstance(n, Const)]) for b in buffers]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (f"def make(n):\n{program(4)}\nmake(4)\nmake(n=8)\n", [4, 8]),
        (f"def make(n=4):\n{program(4)}\nmake()\nmake(16)\n", [4, 16]),
        (f"def make(n=4):\n{program(4)}\n", [4]),
        (f"def make(m, n=4):\n{program(4)}\nmake(1)\nmake(2)\n", [4]),
        (f"def make(m):\n    n = m * 2\n{program(4)}\nmake(3)\nmake(2 ** 3)\n", [6, 16]),
        (f"def make(n):\n{program(4)}\ndef test():\n    size = 4\n    make(size + 1)\n", [5]),
        (f"def make(n):\n{program(4)}\ndef outer(k):\n    make(k)\ndef test():\n    outer(3)\n    outer(5)\n", [3, 5]),
        (f"@pytest.mark.parametrize('n', [2, 3])\ndef test(n):\n{program(4)}", [2, 3]),
        (f"@pytest.mark.parametrize('n', [pytest.param(2, id='two'), 3])\ndef test(n):\n{program(4)}", [2, 3]),
        (f"@pytest.mark.parametrize(('m', 'n'), [(1, 2), (3, 4)])\ndef test(m, n):\n{program(4)}", [2, 4]),
        (f"n = tvm.testing.parameter(2, 3)\ndef test(n):\n{program(4)}", [2, 3]),
        (f"class Test:\n    n = tvm.testing.parameter(2, 3)\n    def test(self, n):\n{program(8)}", [2, 3]),
        (
            f"def test():\n    def make(n):\n{program(8)}\n    make(7)\n"
            "def other():\n    def make(m):\n        pass\n    make(8)\n",
            [7],
        ),
    ],
)  # fmt: skip
def test_sizes(text: str, sizes: list[int]) -> None:
    assert [shape for _, shape in read(text)] == [[n] for n in sizes]


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("kind", ["f32", "i8"]),
        ('kind + "x" + str(4)', ["f32x4", "i8x4"]),
        ("f'{kind}x{2 * 2}'", ["f32x4", "i8x4"]),
        ('"float16" if kind == "int8" else kind', ["f32", "f16"]),
        ('"float"', ["f32"]),
    ],
)
def test_element_types(dtype: str, wanted: list[str]) -> None:
    inner = program(4, "(4,)", "dtype")
    text = f"@pytest.mark.parametrize('kind', ['float32', 'int8'])\ndef test(kind):\n    dtype = {dtype}\n{inner}"
    assert [d for d, _ in read(text)] == wanted


def test_constants_made_by_tvm() -> None:
    text = (
        'one = tvm.tirx.const(1, "int64")\nname = T.StringImm("x")\ntarget = tvm.target.Target("llvm")\n'
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((4,))):\n"
        '    T.func_attr({"key": name, "target": target})\n    A[one] = T.Cast("float32", one)\n'
    )
    (p,) = tvmscript.parse(IMPORTS + text)
    assert dict(p.annotations) == {"tvm.key": "x", "tvm.target": "llvm"}


def test_not_every_set_of_values_is_read() -> None:
    calls = "\n".join(f"make({n + 1})" for n in range(MOST + 5))
    assert len(read(f"def make(n):\n{program(4)}\n{calls}\n")) == MOST


@pytest.mark.parametrize(
    "text",
    [
        f"def make(n):\n{program(4)}\n",
        f"def make(n):\n{program(4)}\nmake(open('x').read())\n",
        f"def make(n):\n    make(n)\n{program(4)}\n",
        f"def make(n):\n{program(4)}\nfor k in [1, 2]:\n    make(k)\n",
        f"n = tvm.testing.parameter(2, 3)\n{program(0)}",
    ],
)
def test_values_that_the_file_does_not_give(text: str) -> None:
    (d,) = tvmscript.read(IMPORTS + text).diagnostics
    assert d.code == "MS732"
