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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"@pytest.mark.parametrize('n', [8, size()])\ndef test(n):\n{program(4)}", 1),
        (f"@pytest.mark.parametrize('n', [8, 16, size(), 2])\ndef test(n):\n{program(4)}", 3),
        (f"def make(n):\n{program(4)}\nmake(4)\nmake(open('x').read())\n", 1),
        (f"n = tvm.testing.parameter(8, size())\ndef test(n):\n{program(4)}", 1),
        (f"def make(n):\n{program(4)}\ndef outer(k):\n    make(k)\nouter(3)\nouter(size())\n", 1),
    ],
)
def test_values_that_the_file_does_not_give_beside_others_that_it_gives(text: str, wanted: int) -> None:
    found = tvmscript.read(IMPORTS + text)
    assert len(found.functions) == wanted
    assert [d.code for d in found.diagnostics] == ["MS732"]


def test_unknown_values_that_no_program_uses_do_not_matter() -> None:
    text = f"@pytest.mark.parametrize('m', [1, size()])\ndef test(m, n=4):\n    print(m)\n    m = m\n{program(4)}"
    assert read(text) == [("f32", [4])]


@pytest.mark.parametrize(
    "change",
    [
        "from sizes import N",
        "from sizes import M as N",
        "import sizes as N",
        "import N.sizes",
        "from sizes import *",
        "try:\n    from sizes import N\nexcept ImportError:\n    pass",
        "def N():\n    pass",
        "class N:\n    pass",
    ],
)
def test_a_name_that_is_bound_again_is_unknown(change: str) -> None:
    for text in (f"N = 4\n{change}\n", f"{change}\nN = 4\n"):
        if "*" in change and text.startswith("from"):
            continue
        (d,) = tvmscript.read(IMPORTS + text + program(0, "(N,)")).diagnostics
        assert d.code == "MS732"


def test_other_imports_leave_names_known() -> None:
    assert read("import N.M as x\nfrom sizes import N as y\nN = 4\n" + program(0, "(N,)")) == [("f32", [4])]


def test_a_macro_that_is_defined_twice_is_unknown() -> None:
    twice = "".join(f"@T.inline\ndef put(a):\n    a[0] = {k}.0\n" for k in range(2))
    (d,) = tvmscript.read(f"{IMPORTS}{twice}@T.prim_func\ndef f(A: T.Buffer((4,))):\n    put(A)\n").diagnostics
    assert d.code == "MS732"
