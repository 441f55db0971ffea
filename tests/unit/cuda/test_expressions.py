"""Single expressions in CUDA C: their texts, and that nvcc takes every operator and function of every type."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from mslang.backend.cuda.prelude import prelude
from mslang.diagnostics import MsError
from mslang.ir.dtype import FLOATS, SCALARS, is_float
from mslang.ir.expr import BINARY_OPS, LOGICAL, Binary, Call, Cast, Const, Expr, Load, Select, Unary, dtype_of
from mslang.ir.functions import FUNCTIONS
from mslang.kernel.nodes import Function, Module, Store
from mslang.target.description import CUDA
from tests.unit.cuda.kernels import TX, buffer, cuda_source, launch, n, of_expression, over, plus, times

INTEGERS = tuple(t for t in SCALARS if not is_float(t) and t != "bool")


def inputs(dtype: str) -> tuple[Load, Load]:
    return Load("a", (TX,), dtype), Load("b", (TX,), dtype)


def text_of(e: Expr, dtype: str, nan_free: bool = False) -> str:
    made = of_expression(e, buffer("a", dtype, 64), buffer("b", dtype, 64))
    lines = cuda_source(made, replace(CUDA, nan_free=nan_free)).text.splitlines()
    (line,) = (x for x in lines if x.startswith("    out[tx] = "))
    return line.removeprefix("    out[tx] = ").removesuffix(";")


def binary(op: str, dtype: str) -> str:
    return text_of(Binary(op, *inputs(dtype)), dtype)


def test_signed_sums_wrap_in_the_unsigned_type() -> None:
    assert binary("+", "i32") == "(int)((unsigned int)a[tx] + (unsigned int)b[tx])"
    a, b = inputs("i32")
    assert text_of(Binary("+", Binary("*", a, b), a), "i32") == (
        "(int)(((unsigned int)a[tx] * (unsigned int)b[tx]) + (unsigned int)a[tx])"
    )


def test_sums_that_fit_do_not_wrap() -> None:
    a, b = inputs("i8")
    products = Binary("*", Cast("i32", a), Cast("i32", b))
    assert text_of(products, "i8") == "(int)a[tx] * (int)b[tx]"


def test_narrow_results_are_converted_back() -> None:
    assert binary("+", "i8") == "(signed char)(a[tx] + b[tx])"
    assert binary("*", "u16") == "(unsigned short)(a[tx] * b[tx])"


def test_division_floors() -> None:
    assert binary("//", "i32") == "ms_divide(a[tx], b[tx])"
    assert binary("%", "u32") == "ms_umodulo(a[tx], b[tx])"
    assert text_of(Binary("//", inputs("u32")[0], Const(3, "u32")), "u32") == "a[tx] / 3U"
    assert text_of(Binary("%", inputs("i32")[0], Const(3, "i32")), "i32") == "ms_modulo(a[tx], 3)"


def test_shifts_by_known_counts_are_plain() -> None:
    assert text_of(Binary("<<", inputs("i32")[0], Const(3, "i32")), "i32") == "(int)((unsigned int)a[tx] << 3)"
    assert text_of(Binary(">>", inputs("i64")[0], Const(3, "i64")), "i64") == "a[tx] >> 3"
    assert binary("<<", "i8") == "ms_shl(a[tx], b[tx], 8)"


def test_extremes_propagate_nan() -> None:
    assert binary("max", "f32") == "ms_maximum(a[tx], b[tx])"
    assert text_of(Binary("max", *inputs("f32")), "f32", nan_free=True) == "ms_max(a[tx], b[tx])"
    assert binary("min", "i32") == "ms_min(a[tx], b[tx])"


def test_halves_are_computed_in_single_precision() -> None:
    assert binary("+", "f16") == "__hadd(a[tx], b[tx])"
    assert binary("/", "f16") == "__float2half_rn(__half2float(a[tx]) / __half2float(b[tx]))"
    assert binary("+", "bf16") == "__float2bfloat16_rn(__bfloat162float(a[tx]) + __bfloat162float(b[tx]))"
    assert text_of(Cast("bf16", inputs("i32")[0]), "i32") == "__double2bfloat16((double)a[tx])"
    assert text_of(Cast("f16", inputs("f64")[0]), "f64") == "__double2half(a[tx])"
    assert text_of(Cast("bf16", inputs("i64")[0]), "i64") == "__double2bfloat16(ms_to_odd(a[tx]))"


def test_bools_in_memory_are_bytes() -> None:
    made = cuda_source(of_expression(Unary("not", inputs("bool")[0]), buffer("a", "bool", 64)), CUDA).text
    assert "const unsigned char* __restrict__ a, unsigned char* __restrict__ out" in made
    assert "out[tx] = !(a[tx] != 0);" in made


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "f32", "0.1f"),
        (1.0, "f32", "1.0f"),
        (-2.5, "f64", "-2.5"),
        (1e30, "f32", "1e+30f"),
        (float("inf"), "f32", "__int_as_float(0x7f800000)"),
        (float("nan"), "f64", "__longlong_as_double(0x7ff8000000000000LL)"),
        (1e39, "f32", "__int_as_float(0x7f800000)"),
        (-0.0, "f32", "-0.0f"),
        (1.5, "f16", "__float2half_rn(1.5f)"),
        (-(1 << 31), "i32", "(-2147483647 - 1)"),
        (-(1 << 63), "i64", "(-9223372036854775807LL - 1)"),
        ((1 << 64) - 1, "u64", "18446744073709551615ULL"),
        (-5, "i8", "(signed char)-5"),
        (True, "bool", "true"),
    ],
)
def test_literals(value: float, dtype: str, text: str) -> None:
    assert text_of(Const(value, dtype), dtype) == text


def test_parentheses_are_where_c_needs_them() -> None:
    a, b = inputs("f32")
    assert text_of(Binary("*", Binary("+", a, b), b), "f32") == "(a[tx] + b[tx]) * b[tx]"
    assert text_of(Binary("-", a, Binary("-", a, b)), "f32") == "a[tx] - (a[tx] - b[tx])"
    assert text_of(Unary("-", Unary("-", a)), "f32") == "-(-a[tx])"
    chosen = Select(Binary("<", a, b), a, Select(Binary("<", b, a), b, Const(0.0, "f32")))
    assert text_of(chosen, "f32") == "a[tx] < b[tx] ? a[tx] : b[tx] < a[tx] ? b[tx] : 0.0f"


def test_indices_simplify() -> None:
    e = Load("a", (Binary("%", plus(times(over(TX, 4), 4), Binary("%", TX, n(4))), n(64)),), "f32")
    assert text_of(e, "f32") == "a[tx]"


def test_function_of_integers_counts_bits_of_its_width() -> None:
    a = inputs("u8")[0]
    assert text_of(Call("clz", (a,), "u8"), "u8") == "(unsigned char)(__clz((unsigned int)(unsigned char)a[tx]) - 24)"


def test_bits_of_an_index_are_counted_in_64() -> None:
    assert text_of(Call("clz", (TX,), "i64"), "i64") == "(long long)(__clzll((unsigned long long)(long long)tx))"


def test_prelude_has_only_what_is_called() -> None:
    assert prelude([]) == ""
    assert "ms_minimum(float a, float b)" in prelude(["ms_smaller"])
    assert "ms_maximum" not in prelude(["ms_smaller"])


@pytest.mark.parametrize(("op", "dtype"), [("/", "i32"), ("+", "bool"), ("&", "f32"), ("<<", "f64")])
def test_operations_without_meaning_are_refused(op: str, dtype: str) -> None:
    with pytest.raises(MsError, match="is unknown to the CUDA back end"):
        binary(op, dtype)


def every_expression(dtype: str) -> list[Expr]:
    """Each operator, conversion, function and exchange that there is of a type."""
    a, b = inputs(dtype)
    three = Const(True if dtype == "bool" else 3, dtype)
    operators = BINARY_OPS if dtype == "bool" else BINARY_OPS - LOGICAL
    pairs = itertools.product(sorted(operators), ((a, b), (a, three), (three, b)))
    found: list[Expr] = [Binary(op, x, y) for op, (x, y) in pairs]
    found += [Unary("not" if dtype == "bool" else "-", a), Select(Binary("<", a, b), a, three)]
    found += [Cast(t, a) for t in SCALARS]
    found += [Call(f.name, (a, b)[: f.arity], f.result(dtype)) for f in FUNCTIONS.values()]
    return found + [Call(f"shuffle{way}", (a, n(1)), dtype) for way in ("", "_xor", "_down", "_up")]


def all_of(dtype: str) -> Module:
    """A kernel that computes every expression of a type that the back end does not refuse."""
    a, b = buffer("a", dtype, 64), buffer("b", dtype, 64)
    kept: list[Store] = []
    outs = []
    for k, e in enumerate(every_expression(dtype)):
        out = buffer(f"out_{k}", dtype_of(e), 64)
        try:
            cuda_source(of_expression(e, a, b), CUDA)
        except MsError as error:
            assert error.diagnostic.code == "MS440"
            continue
        outs.append(out)
        kept.append(Store(out.name, (TX,), e))
    return Module(dtype, (), (Function(f"all_{dtype}", (a, b, *outs), tuple(kept), launch((1,), (64,))),))


def test_operators_that_a_type_has_are_not_refused() -> None:
    count = {t: len(all_of(t).functions[0].body) for t in SCALARS}
    # Operators thrice, without `/` of integers; negation; a choice; 13 conversions; 4 exchanges; functions.
    assert all(count[t] == 18 * 3 + 2 + 13 + 4 + 7 for t in INTEGERS)
    assert all(count[t] == 14 * 3 + 2 + 13 + 4 + 30 for t in FLOATS)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvcc_takes_every_operation_of_every_type(arch: str, tmp_path: Path) -> None:
    functions = tuple(f for t in SCALARS for f in all_of(t).functions)
    file = tmp_path / "all.cu"
    file.write_text(cuda_source(Module("all", (), functions), CUDA).text)
    command = ["nvcc", "-ptx", f"-arch={arch}", "-Werror", "all-warnings", str(file), "-o", str(tmp_path / "all.ptx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
