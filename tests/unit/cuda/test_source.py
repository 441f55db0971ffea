"""The printed CUDA C: goldens in `tests/expect/cuda`, written again by `python -m tests.unit.cuda.test_source`."""

from pathlib import Path

import pytest

from mslang.backend.backend import Options
from mslang.backend.cuda.backend import CUDA as BACK_END
from mslang.diagnostics import MsError, TargetError
from mslang.ir.expr import Binary, Const, DynamicRange, Load, Ramp, Symbol, Var
from mslang.ir.intrin import Formal
from mslang.kernel.nodes import Allocate, Atomic, For, Function, Invoke, Let, Module, Store
from mslang.sema.program import parse_program
from mslang.target.description import CUDA
from tests.unit.cuda.kernels import BX, KERNELS, TX, buffer, cuda_source, launch, module, n, plus, printed, times

EXPECT = Path(__file__).parents[2] / "expect" / "cuda"


@pytest.mark.parametrize("name", KERNELS)
def test_source_is_as_expected(name: str) -> None:
    assert cuda_source(KERNELS[name](), CUDA).text == (EXPECT / f"{name}.cu").read_text()


def test_launches_are_in_order_with_their_arguments() -> None:
    x, y, out = buffer("X", "f32", 64), buffer("Y", "f32", 64), buffer("out", "f32", 64)
    first = Function("first", (x, y), (Store("Y", (TX,), Load("X", (TX,), "f32")),), launch((1,), (64,)))
    second = Function("second", (y, out), (Store("out", (TX,), Load("Y", (TX,), "f32")),), launch((2,), (32,)))
    source = cuda_source(Module("both", (), (first, second), (), (y,)), CUDA)
    assert [(k.function, k.params) for k in source.launches] == [("first", ("X", "Y")), ("second", ("Y", "out"))]
    assert source.launches[1].grid == (n(2), n(1), n(1))
    assert source.workspaces == (y,)
    assert source.text.index("first(") < source.text.index("second(")


def test_buffers_that_are_only_read_are_const() -> None:
    text = cuda_source(KERNELS["gemm"](), CUDA).text
    assert "const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ out" in text


def stored(index: object, align: int | None = None) -> str:
    """The source of a copy of four floats."""
    from msgspec.structs import replace

    x, out = buffer("X", "f32", 4096), replace(buffer("out", "f32", 4096), align=align)
    four = Ramp(index, 1, 4)  # type: ignore[arg-type]
    body = (Store("out", (four,), Load("X", (four,), "f32")),)
    return cuda_source(module("copy", body, (x, out), launch((4,), (64,))), CUDA).text


def test_aligned_neighbours_are_one_access() -> None:
    assert stored(times(TX, 4)).count("ms_vector<float, 4>*") == 2


def test_misaligned_neighbours_are_accessed_one_by_one() -> None:
    text = stored(plus(times(TX, 4), 1))
    assert "ms_vector" not in text
    assert text.count("out[") == 4


def test_neighbours_at_multiples_of_two_are_accessed_by_twos() -> None:
    assert stored(plus(times(TX, 4), 2)).count("ms_vector<float, 2>*") == 4


def test_declared_alignment_limits_the_width_of_an_access() -> None:
    text = stored(times(TX, 4), align=8)
    assert text.count("(ms_vector<float, 2>*)(out") == 2
    assert text.count("(const ms_vector<float, 4>*)(X") == 1
    assert "ms_vector<float, 2>{{X_vector.lane[2], X_vector.lane[3]}};" in text


def test_unaligned_multiples_of_a_dynamic_stride_are_not_widened() -> None:
    for multiple, width in ((4, "ms_vector<float, 4>*"), (1, "X[")):
        size = Symbol("N", DynamicRange(4, 1024, multiple))
        x, out = buffer("X", "f32", 64, size), buffer("out", "f32", 64, 4)
        body = (Store("out", (TX, Ramp(n(0), 1, 4)), Load("X", (TX, Ramp(n(0), 1, 4)), "f32")),)
        assert width in cuda_source(module("copy", body, (x, out), launch((1,), (64,)), (size,)), CUDA).text


def test_atomic_of_a_byte_is_refused() -> None:
    out = buffer("out", "u8", 64)
    body = (Atomic("+", "out", (TX,), Const(1, "u8")),)
    with pytest.raises(MsError, match=r"no atomic `\+` of u8 on GPUs"):
        cuda_source(module("bytes", body, (out,), launch((1,), (64,))), CUDA)


def test_atomic_minimum_of_floats_goes_through_the_prelude() -> None:
    out = buffer("out", "f32", 64)
    text = cuda_source(
        module("least", (Atomic("min", "out", (n(0),), Const(1.0, "f32")),), (out,), launch((1,), (64,))), CUDA
    ).text
    assert "ms_atomic_float(&out[0], 1.0f, ms_smaller());" in text
    assert "float ms_minimum(float a, float b)" in text


def test_names_that_c_reserves_are_changed() -> None:
    x = buffer("float", "f32", 64)
    body = (For("int", n(4), (Store("float", (plus(times(TX, 4), Var("int")),), Const(0.0, "f32")),)),)
    text = cuda_source(module("main", body, (x,), launch((1,), (16,))), CUDA).text
    assert "main_1(" in text
    assert "for (int int_1 = 0; int_1 < 4; ++int_1) {" in text
    assert "float_1[" in text


@pytest.mark.parametrize("name", ["tanh", "norm", "fma", "free", "expf", "rsqrtf", "printf"])
def test_names_of_functions_of_cuda_are_changed(name: str) -> None:
    x = buffer(name, "f32", 64)
    text = cuda_source(module(name, (Store(name, (TX,), Const(0.0, "f32")),), (x,), launch((1,), (16,))), CUDA).text
    assert f" {name}_1(" in text and f" {name}_1[" in text


def test_accesses_are_not_checked_on_gpus() -> None:
    program = parse_program("program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] } }")
    with pytest.raises(TargetError, match="the back end cuda does not check accesses") as found:
        BACK_END.lowered(program, CUDA, Options(checked=True))
    assert found.value.diagnostic.code == "MS449"


def test_loops_over_registers_are_unrolled() -> None:
    local = buffer("acc", "f32", 8, scope="local")
    fill = For("i", n(8), (Store("acc", (Var("i"),), Const(0.0, "f32")),))
    out = buffer("out", "f32", 64)
    loop = For("k", n(8), (Store("out", (TX,), Load("out", (plus(TX, Var("k")),), "f32")),))
    text = cuda_source(module("fill", (Allocate(local, (fill, loop)),), (out,), launch((1,), (56,))), CUDA).text
    assert text.count("#pragma unroll") == 1
    assert text.index("#pragma unroll") < text.index("int i = 0")


def test_vectors_that_no_instruction_takes_are_refused() -> None:
    four, value = Ramp(times(TX, 4), 1, 4), Const(0.0, "f32")
    x, out = buffer("X", "f32", 64), buffer("out", "f32", 64)
    load = Load("X", (four,), "f32")
    masked = Store("out", (four,), value, mask=Binary("<", four, n(2)))
    of_a_sum = Let("v", Binary("+", load, load), (Store("out", (four,), Var("v", "f32", 4)),))
    for body, what in (
        (masked, "what is stored to `out`"),
        (Store("out", (n(0),), load), "what is stored to `out`"),
        (of_a_sum, "`v`"),
    ):
        with pytest.raises(MsError, match=f"{what} is a vector that no instruction loads or stores"):
            printed(module("vectors", (body,), (x, out), launch((1,), (16,))), CUDA)


# ------------------------------------------------------------------ instructions
def invoke(text: str, scope: str = "wmma.acc") -> Module:
    tile = buffer("tile", "f32", 32, 16, scope=scope)
    operand = Load("tile", (n(16), n(0)), "f32")
    out = buffer("out", "f32", 64, 32)
    to = Load("out", (times(BX, 16), n(0)), "f32")
    call = Invoke("put", text, (Formal("a", "f32"), Formal("d", "f32")), (2, 2), (operand, to), ())
    return module("instruction", (Allocate(tile, (call,)),), (out,), launch((2,), (32,)))


PUT = """#include <mma.h>
#fragment a[16, 16] nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>
nvcuda::wmma::store_matrix_sync({d}, {a}, {d.stride}, nvcuda::wmma::mem_row_major);"""


def test_text_of_an_instruction_is_put_in_place() -> None:
    text = cuda_source(invoke(PUT), CUDA).text
    assert text.startswith("#include <mma.h>\n")
    assert "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> tile[2];" in text
    assert "store_matrix_sync((out + bx * 512), tile[1], 32, nvcuda::wmma::mem_row_major);" in text


def test_registers_of_a_fragment_are_an_array() -> None:
    text = cuda_source(invoke("#fragment a[16, 8] float[4]\n{d}[{lane}] = {a}[3];", "mma.acc"), CUDA).text
    assert "float tile[4][4];" in text
    assert "= tile[2][3];" in text
    assert "threadIdx.x" in text


def test_meaning_is_printed_beside_the_text_for_emulation() -> None:
    from msgspec.structs import replace

    made = invoke(PUT)
    (allocate,) = made.functions[0].body
    assert isinstance(allocate, Allocate)
    (call,) = allocate.body
    meaning = (Store("out", (times(BX, 16), n(0)), Load("tile", (n(16), n(0)), "f32")),)
    body = (replace(allocate, body=(replace(call, meaning=meaning),)),)
    text = cuda_source(replace(made, functions=(replace(made.functions[0], body=body),)), CUDA, lambda _: True).text
    assert "    #ifdef MSLANG_EMULATION\n    EMULATED_FRAGMENT(float, tile, 512, 32);\n    #else" in text
    assert "EMULATED(32) {\n        out[bx * 512] = tile[256];\n    }" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#define X\n{a}", "has the line `#define X`"),
        ("#fragment a[16, 16] float[8]\n{b} = 0;", "names the operand `b`"),
        ("#fragment a[16, 16] float[8]\n{a.stride2}", "dimension 2 of `a`"),
        ("#fragment a[16, 16] float[8]\n{a.stride}", "the stride of `a`, a fragment"),
        ("f({a});", "no instruction says how the fragment `tile` is held"),
        ("#fragment a[24, 16] float[8]\nf({a});", "is not made of tiles of 24 x 16"),
    ],
)
def test_faulty_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(MsError, match=message):
        cuda_source(invoke(text), CUDA)


def test_elements_of_a_fragment_have_no_address() -> None:
    tile = buffer("tile", "f32", 16, 16, scope="wmma.acc")
    held = Invoke("put", PUT, (Formal("a", "f32"),), (2,), (Load("tile", (n(0), n(0)), "f32"),), ())
    body = (Allocate(tile, (Store("tile", (n(0), n(0)), Const(0.0, "f32")),)),)
    with pytest.raises(MsError, match="no instruction says how"):
        cuda_source(module("bare", body, (), launch((1,), (32,))), CUDA)
    body = (Allocate(tile, (Store("tile", (n(0), n(0)), Const(0.0, "f32")), held)),)
    with pytest.raises(MsError, match="element of the fragment `tile` is accessed outside of an instruction"):
        cuda_source(module("bare", body, (), launch((1,), (32,))), CUDA)


def test_one_fragment_is_held_in_one_way() -> None:
    tile = buffer("tile", "f32", 16, 16, scope="wmma.acc")
    operand = (Load("tile", (n(0), n(0)), "f32"),)
    calls = tuple(
        Invoke(name, f"#fragment a[16, {k}] float[8]\nf({{a}});", (Formal("a", "f32"),), (2,), operand, ())
        for name, k in (("one", 16), ("other", 8))
    )
    with pytest.raises(MsError, match="`one` and `other` hold the fragment `tile` differently"):
        cuda_source(module("bare", (Allocate(tile, calls),), (), launch((1,), (32,))), CUDA)


def test_unknown_functions_are_refused() -> None:
    from mslang.ir.expr import Call

    body = (Store("out", (TX,), Call("gamma", (Const(1.0, "f32"),), "f32")),)
    with pytest.raises(MsError, match="`gamma` of f32 is unknown to the CUDA back end"):
        cuda_source(module("f", body, (buffer("out", "f32", 64),), launch((1,), (64,))), CUDA)


def test_index_arithmetic_beyond_32_bits_is_wide() -> None:
    out = buffer("out", "f32", 1 << 40)
    body = (Store("out", (Binary("*", Binary("*", BX, n(1 << 20)), n(16)),), Const(0.0, "f32")),)
    text = cuda_source(module("wide", body, (out,), launch((1 << 16,), (1,))), CUDA).text
    assert "out[(long long)bx * 16777216LL]" in text


if __name__ == "__main__":
    EXPECT.mkdir(exist_ok=True)
    for name, made in KERNELS.items():
        (EXPECT / f"{name}.cu").write_text(cuda_source(made(), CUDA).text)
