"""Programs as calls of NumPy and torch: what is called, that it computes the same, and what has no such call."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslang as ms
from mslang.ir.program import Program
from mslang.tune.libraries.array_operations import NotOnArrays, Operations, operations_of
from mslang.tune.libraries.contraction import contraction_of
from mslang.tune.libraries.library_function import LibraryFunction, library_function, prepared_call
from mslang.tune.python_function import PYTHON
from mslang.tune.verification import DENSE, SPARSE, Verification, compare, make_arguments, make_inputs

LIBRARY = Path(__file__).parents[3] / "stdlib" / "workloads"


def workload(file: str, name: str, **sizes: int) -> Program:
    return ms.load(LIBRARY / f"{file}.ms").program(name, **sizes)


WORKLOADS: dict[str, tuple[Program, str, str | None]] = {
    "gemm": (workload("gemm", "gemm", M=5, N=7, K=6), "torch", "numpy"),
    "dense": (workload("dense", "dense_bias_relu", M=5, N=7, K=6), "torch (3 operations)", "numpy (3 operations)"),
    "batch_gemm": (workload("batch_gemm", "batch_gemm", BATCH=2, M=4, N=5, K=6), "torch", "numpy"),
    "softmax": (workload("softmax", "softmax", M=3, N=8), "torch (softmax)", "numpy (4 operations)"),
    "layer_norm": (workload("layer_norm", "layer_norm", M=3, N=8), "torch (layer_norm)", "numpy (3 operations)"),
    "row_sum": (workload("reduce", "row_sum", M=3, N=8), "torch", "numpy"),
    "row_max": (workload("reduce", "row_max", M=3, N=8), "torch", "numpy"),
    "transpose": (workload("transpose", "transpose", M=3, N=8), "torch", "numpy"),
    "norm": (workload("norm", "matrix_norm", B=3, M=4, N=5), "torch (2 operations)", "numpy (2 operations)"),
    "batch_norm": (workload("batch_norm", "batch_norm", H=3, W=4, C=5), "torch (3 operations)", "numpy (3 operations)"),
    "attention": (
        workload("attention", "attention", B=2, L=4, T=5, D=6),
        "torch (scaled_dot_product_attention)",
        "numpy (6 operations)",
    ),
    "conv2d": (workload("conv2d", "conv2d_nhwc", N=2, H=9, W=8, CI=3, CO=7, S=2, STRIDE=2), "torch (conv2d)", None),
    "dilated": (
        workload("conv2d", "conv2d_nhwc", H=9, W=8, CI=3, CO=7, PAD=0, DILATION=2),
        "torch (conv2d)",
        None,
    ),
    "depthwise": (workload("depthwise", "depthwise_nhwc", H=6, W=7, C=4, STRIDE=2), "torch (conv2d)", None),
}
"""Programs of the library, and what is called for them."""

PROGRAMS = {
    "operands of fewer axes and in another order": """
        program p(A: f32[4, 6], row: f32[6], column: f32[4], one: f32[6, 4, 3], out Y: f32[4, 3, 6]) {
            block b[i: 4, k: 3, j: 6] { Y[i, k, j] = A[i, j] * row[j] + column[i] - one[j, i, k] * row[j] }
        }""",
    "a value of fewer axes than the output": """
        program p(row: f32[6], out Y: f32[4, 6], out Z: f32[4, 6]) {
            block b[i: 4, j: 6] { Y[i, j] = row[j] * 3.0 }
            block c[i: 4, j: 6] { Z[i, j] = 2.0 }
        }""",
    "comparisons, both sides of a select, and a value used several times": """
        program p(A: f32[5, 6], B: f32[5, 6], out Y: f32[5, 6]) {
            block b[i: 5, j: 6] {
                let d = A[i, j] - B[i, j]
                let r = select(d > 0.0 and not (d == 1.0), d * d, -d)
                Y[i, j] = select(r <= 2.0, r, select(d < r, d, r)) + min(d, 0.5) * max(r, 1.0)
            }
        }""",
    "functions": """
        program p(A: f32[5, 6], out Y: f32[5, 6]) {
            block b[i: 5, j: 6] {
                let a = abs(A[i, j]) + 1.0
                Y[i, j] = exp(-a) + tanh(a) * rsqrt(a) + sigmoid(a) - log(sqrt(a)) + pow(a, 0.5) + round(a) + atan(a)
            }
        }""",
    "casts and integers": """
        program p(A: f32[4, 6], K: i32[6], out Y: i32[4, 6], out Z: f32[4]) {
            alloc scaled: f32[4, 6]
            block b[i: 4, j: 6] { Y[i, j] = i32(A[i, j] * 4.0) + K[j] * 3 - max(K[j], 2) }
            block c[i: 4, j: 6] { scaled[i, j] = f32(Y[i, j]) * 0.5 }
            block s[i: 4 | j: 6] { Z[i] += scaled[i, j] }
        }""",
    "a maximum and a minimum of maps over several axes": """
        program p(A: f32[4, 5, 6], b: f32[5], out Y: f32[5], out Z: f32[6, 4]) {
            block m[j: 5 | i: 4, k: 6] { Y[j] = max(Y[j], A[i, j, k] * b[j] - 1.0) }
            block n[k: 6, i: 4 | j: 5] { Z[k, i] = min(Z[k, i], A[i, j, k]) }
        }""",
    "softmax with the exponentials written twice": """
        program p(X: f32[2, 3, 8], out Y: f32[2, 3, 8]) {
            alloc m: f32[2, 3]
            alloc t: f32[2, 3]
            block a[n: 2, i: 3 | j: 8] { m[n, i] = max(m[n, i], X[n, i, j]) }
            block b[n: 2, i: 3 | j: 8] { t[n, i] += exp(X[n, i, j] - m[n, i]) }
            block c[n: 2, i: 3, j: 8] { Y[n, i, j] = exp(X[n, i, j] - m[n, i]) / t[n, i] }
        }""",
    "attention with scaled scores and normalised weights": """
        program p(Q: f32[4, 6], K: f32[5, 6], V: f32[5, 3], out O: f32[4, 3]) {
            alloc s: f32[4, 5]
            alloc m: f32[4]
            alloc w: f32[4, 5]
            alloc t: f32[4]
            alloc n: f32[4, 5]
            block a[i: 4, j: 5 | k: 6] { s[i, j] += Q[i, k] * K[j, k] }
            block b[i: 4 | j: 5] { m[i] = max(m[i], s[i, j] * 0.5) }
            block c[i: 4, j: 5] { w[i, j] = exp(s[i, j] * 0.5 - m[i]) }
            block d[i: 4 | j: 5] { t[i] += w[i, j] }
            block e[i: 4, j: 5] { n[i, j] = w[i, j] / t[i] }
            block f[i: 4, d: 3 | j: 5] { O[i, d] += n[i, j] * V[j, d] }
        }""",
    "softmax along another axis": """
        program p(X: f32[3, 8], out Y: f32[3, 8]) {
            alloc m: f32[8]
            alloc t: f32[8]
            block a[j: 8 | i: 3] { m[j] = max(m[j], X[i, j]) }
            block b[j: 8 | i: 3] { t[j] += exp(X[i, j] - m[j]) }
            block c[i: 3, j: 8] { Y[i, j] = exp(X[i, j] - m[j]) / t[j] }
        }""",
}
"""Programs of operations on whole arrays."""


def require_same(program: Program, made: LibraryFunction) -> None:
    """Twice: what is left in temporaries by one call must not reach the next."""
    for kind in (SPARSE, DENSE):
        inputs = make_inputs(program, kind, 0)
        found: Any = ms.build(program, backend="reference")(**inputs)
        results = found if isinstance(found, tuple) else (found,)
        expected = dict(zip(made.written, results, strict=True))
        arrays = make_arguments(program, inputs)
        call = prepared_call(made)(**arrays)
        for _ in range(2):
            returned = call()
            actual = arrays if returned is None else {made.written[0]: np.asarray(returned)}
            same = compare(program, expected, actual, kind)
            assert isinstance(same, Verification), same


@pytest.mark.parametrize("name", [n for n, (_, _, numpy) in WORKLOADS.items() if numpy is not None])
def test_numpy_computes_programs_of_the_library(name: str):
    program, _, label = WORKLOADS[name]
    made = library_function("numpy", program)
    assert made.label == label
    require_same(program, made)


@pytest.mark.parametrize("name", WORKLOADS)
def test_torch_computes_programs_of_the_library(name: str):
    pytest.importorskip("torch")
    program, label, _ = WORKLOADS[name]
    made = library_function("torch", program)
    assert made.label == label
    require_same(program, made)


def test_outputs_hold_the_result_after_timing():
    """Copies into the outputs are no part of the time of a function that allocates its result."""
    pytest.importorskip("torch")
    program, _, _ = WORKLOADS["layer_norm"]
    inputs = make_inputs(program, DENSE, 0)
    arrays = make_arguments(program, inputs)
    bound = PYTHON.load(library_function("torch", program)).bind(**arrays)
    with bound.prepared() as (enter, _):
        enter(2)
        assert np.isnan(arrays["Y"]).all()
    expected = ms.build(program, backend="reference")(**inputs)
    assert np.allclose(arrays["Y"], expected)


@pytest.mark.parametrize("name", WORKLOADS)
def test_functions_of_torch_are_recognised_without_torch(name: str):
    program, label, _ = WORKLOADS[name]
    assert library_function("torch", program).label == label


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_maps_and_reductions(library: str, text: str):
    if library == "torch":
        pytest.importorskip("torch")
    program = ms.parse_program(text)
    require_same(program, library_function(library, program))


def test_temporaries_and_outputs_are_used_again():
    """A chain of operations as large as the output needs no other array."""
    array_calls = importlib.import_module("mslang.tune.libraries.array_calls")
    program = ms.parse_program(
        "program p(A: f32[9], B: f32[9], out Y: f32[9]) { block b[i: 9] { Y[i] = exp(A[i] * B[i]) * 2.0 + B[i] } }"
    )
    (stage,) = operations_of(program).stages
    y = np.empty(9, np.float32)
    made, calls = array_calls._elementwise(array_calls._numpy(), stage, {"A": y * 0, "B": y * 0, "Y": y}, y)
    assert made is y and len(calls) == 4 and all(call.keywords["out"] is y for call in calls)


def test_equal_subexpressions_are_computed_once():
    array_calls = importlib.import_module("mslang.tune.libraries.array_calls")
    program = workload("layer_norm", "layer_norm", M=3, N=8)
    squares = operations_of(program).stages[1]
    held = {"X": np.ones((3, 8), np.float32), "total": np.ones(3, np.float32)}
    _, calls = array_calls._elementwise(array_calls._numpy(), squares, held, None)
    assert [call.func.__name__ for call in calls] == ["divide", "subtract", "multiply"]


LABELS = {
    "softmax with the exponentials written twice": "torch (softmax)",
    "attention with scaled scores and normalised weights": "torch (scaled_dot_product_attention)",
    "softmax along another axis": "torch (3 operations)",
}


@pytest.mark.parametrize(("name", "label"), LABELS.items())
def test_functions_are_recognised_by_what_is_computed(name: str, label: str):
    assert library_function("torch", ms.parse_program(PROGRAMS[name])).label == label


def test_softmax_in_place_is_no_fused_function():
    text = (LIBRARY / "softmax.ms").read_text().replace("X: f32[M, N], out Y: f32[M, N]", "inout X: f32[M, N]")
    program = ms.parse(text.replace("Y[i, j] =", "X[i, j] =")).program("softmax", M=3, N=8)
    assert library_function("torch", program).label == "torch (4 operations)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exp(X[i, j] - largest[i])", "exp(X[i, j] + largest[i])"),
        ("shifted[i, j] / total[i]", "shifted[i, j] * total[i]"),
        ("total[i] += shifted[i, j]", "total[i] += X[i, j]"),
        ("largest[i] = max(largest[i], X[i, j])", "largest[i] = min(largest[i], X[i, j])"),
    ],
)
def test_what_is_almost_softmax_is_not_softmax(old: str, new: str):
    text = (LIBRARY / "softmax.ms").read_text()
    assert old in text
    program = ms.parse(text.replace(old, new)).program("softmax", M=3, N=8)
    assert library_function("torch", program).label == "torch (4 operations)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total[i] / f32(N)", "total[i] / 3.0"),
        ("squares[i] / f32(N)", "squares[i] / 3.0"),
        ("* gamma[j]", "/ gamma[j]"),
        ("rsqrt(squares", "sqrt(squares"),
    ],
)
def test_what_is_almost_layer_normalisation_is_not(old: str, new: str):
    text = (LIBRARY / "layer_norm.ms").read_text()
    assert old in text
    program = ms.parse(text.replace(old, new)).program("layer_norm", M=3, N=8)
    assert library_function("torch", program).label == "torch (3 operations)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rsqrt(f32(D))", "-0.5"),
        ("score[b, i, j] - largest[b, i]", "score[b, i, j] + largest[b, i]"),
        ("total[b, i] += weight[b, i, j]", "total[b, i] += score[b, i, j]"),
    ],
)
def test_what_is_almost_attention_is_not(old: str, new: str):
    text = (LIBRARY / "attention.ms").read_text()
    assert old in text
    program = ms.parse(text.replace(old, new)).program("attention", B=2, L=4, T=6, D=6)
    assert library_function("torch", program).label == "torch (6 operations)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.0\n", "1.0\n"),
        ("PAD <= h and", "PAD < h and"),
        ("w < W + PAD", "w < W"),
        ("* f[r, s, ci, co]", "* f[s, r, ci, co]"),
        ("x[n, h - PAD, w - PAD, c]", "x[n, h - PAD, w - PAD, c] * 2.0"),
    ],
)
def test_what_is_almost_a_convolution_is_not(old: str, new: str):
    text = (LIBRARY / "conv2d.ms").read_text()
    assert old in text
    program = ms.parse(text.replace(old, new)).program("conv2d_nhwc", H=6, W=6, CI=3, CO=5)
    with pytest.raises(NotOnArrays, match="block `pad`"):
        library_function("torch", program)


REFUSED = {
    "C[i, j] += A[k, k] * B[k, j]": "block `b`: `A` is not indexed by a different axis in each dimension",
    "C[i, j] += A[i, k] * B[k, 7 - j]": "block `b`: `B` is not indexed by a different axis in each dimension",
    "C[i, j] += A[i, j]": "block `b`: no array has all axes that it reduces",
    "C[i, j] = max(C[i, j], A[i, k] * B[k, j])": "block `b`: no array has all axes that it reduces",
    "C[i, j] *= A[i, k]": "block `b`: it is no sum, maximum or minimum",
}
"""Statements of reductions, and why they are none of arrays."""


@pytest.mark.parametrize(("statement", "why"), REFUSED.items())
def test_reductions_that_have_no_operation(statement: str, why: str):
    program = ms.parse_program(
        "program p(A: f32[8, 8], B: f32[8, 8], out C: f32[8, 8]) { block b[i: 8, j: 8 | k: 8] { " + statement + " } }"
    )
    with pytest.raises(NotOnArrays) as refused:
        operations_of(program)
    assert str(refused.value) == why


MAPS = {
    "block b[i: 4] { C[i] = A[i] + A[i + 1] }": "block `b`: it covers only a part of `A`",
    "block b[i: 4] { C[i] = f32(i) }": "block `b`: it computes with the axis `i`",
    "block b[i: 4] { C[i] = erf(D[i]) }": "block `b`: not both libraries have `erf`",
    "block b[i: 4] { C[i] = f32(K[i] // 2) }": "block `b`: the libraries have no `//` on i32 as programs do",
    "block b[i: 4] { C[i] = f32(H[i]) }": "block `b`: `H` has elements of type f16",
    "block b[i: 4] { C[i] = D[i]\n C[i] = D[i] }": "block `b`: it is more than one store",
    "block b[i: 3] { C[i] = D[i] }": "block `b`: it covers only a part of `C`",
    "block b[i: 4] { C[i] = E[i] }\nblock e[i: 4] { E[i] = D[i] }": "block `b`: it reads `E` before a block has "
    "written it",
    "block b[i: 4] { C[i] = D[i] }\nblock c[i: 4] { C[i] = D[i] }": "block `c`: `C` is written by another block, too",
}
"""Blocks, and why they are no maps of arrays."""


@pytest.mark.parametrize(("blocks", "why"), MAPS.items())
def test_maps_that_have_no_operation(blocks: str, why: str):
    program = ms.parse_program(
        "program p(A: f32[5], D: f32[4], K: i32[4], H: f16[4], out C: f32[4]) {\nalloc E: f32[4]\n" + blocks + "\n}"
    )
    with pytest.raises(NotOnArrays) as refused:
        operations_of(program)
    assert str(refused.value) == why


PRODUCTS = {
    "C[i, j] += A[i, k] * B[k, j]": "ac,cb->ab",
    "C[i, j] += A[i, k] * B[j, k]": "ac,bc->ab",
    "C[i, j] += B[k, j] * A[i, k]": "cb,ac->ab",
    "C[i, j] += A[k, i] * B[k, j] * A[i, j]": "ca,cb,ab->ab",
    "C[j, i] += A[i, k] * B[k, j]": "bc,ca->ab",
}
"""Statements, and what each is in Einstein's notation, with letters in the order of the output's dimensions."""


@pytest.mark.parametrize(("statement", "text"), PRODUCTS.items())
def test_sums_of_products_are_single_calls(statement: str, text: str):
    program = ms.parse_program(
        "program p(A: f32[8, 8], B: f32[8, 8], out C: f32[8, 8]) { block b[i: 8, j: 8 | k: 8] { " + statement + " } }"
    )
    made = library_function("numpy", program)
    assert isinstance(made.computes, Operations)
    (found,) = (contraction_of(s) for s in made.computes.stages)
    assert found is not None and found.text == text
    require_same(program, made)
