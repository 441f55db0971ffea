"""`library`: which programs a function of another library serves, that its kernel is as every other, and its errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang import extensions
from mslang.apply.library import LibraryCall
from mslang.apply.passes import Missed, Served
from mslang.apply.standard import ORDER
from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.sema.program import parse_program
from mslang.target.description import AVX2
from mslang.target.named import named_target
from tests.e2e.test_own_primitive import install

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_library_call"

PRODUCT = """program product(X: f32[24, 32], Y: f32[32, 40], out Z: f32[24, 40]) {
    block mm[i: 24, j: 40 | k: 32] { Z[i, j] += X[i, k] * Y[k, j] }
}"""

TWICE = "program twice[N = 4](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] + A[i] } }"
TWICE_8 = parse_program("program p(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] + A[i] } }")


@pytest.fixture
def numpy_matmul(monkeypatch: pytest.MonkeyPatch) -> LibraryCall:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from own_library_call.products import numpy_matmul

    return numpy_matmul


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example as an installed package, and its file of programs."""
    install(EXAMPLE, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()
    yield EXAMPLE / "two.ms"
    monkeypatch.undo()
    extensions.declared.cache_clear()
    extensions.extension.cache_clear()


# ------------------------------------------------------------------ the kernel
def test_a_call_serves_what_matches_and_its_kernel_is_as_every_other(numpy_matmul: LibraryCall) -> None:
    program = parse_program(PRODUCT)
    (done,) = ms.apply(program, [numpy_matmul, "default"], database=None)
    assert done.explanation() == "product: numpy_matmul: the library call numpy_matmul, M = 24, K = 32, N = 40"
    assert done.program == program and done.backend is not None and done.backend.name == "numpy_matmul"
    kernel, compiled = ms.build(done), ms.build(program)
    rng = np.random.default_rng(0)
    x, y = rng.random((24, 32), np.float32), rng.random((32, 40), np.float32)
    np.testing.assert_allclose(kernel(x, y), compiled(x, y), rtol=1e-5)
    given = np.zeros((24, 40), np.float32)
    assert kernel(x, Y=y, Z=given) is given
    bound = kernel.bind(x, y, np.zeros_like(given))
    bound.run(2)
    np.testing.assert_array_equal(bound.arguments.arrays["Z"], given)
    assert bound.time(ms_limits()).min > 0
    with pytest.raises(MsError) as wrong:
        kernel(x.astype("f8"), y)
    assert wrong.value.diagnostic.code == "MS411"
    # Worker processes are sent the back end and what it made.
    sent = pickle.loads(pickle.dumps((done.backend, done.backend.built(program, AVX2))))
    np.testing.assert_array_equal(sent[0].load(sent[1])(x, y), given)


def ms_limits() -> object:
    from mslang.runtime.timing import Limits

    return Limits(repeats=1, max_repeats=1, min_repeat=1e-6)


def test_the_program_itself_is_compiled_where_checks_or_a_back_end_are_asked_for() -> None:
    (done,) = ms.apply(TWICE_8, [LibraryCall("wrong", TWICE, lambda a: a * 7)], database=None)
    ones = np.ones(8, np.float32)
    assert ms.build(done)(ones).tolist() == [7.0] * 8
    assert ms.build(done, checked=True)(ones).tolist() == [2.0] * 8
    assert ms.build(done, backend="reference")(ones).tolist() == [2.0] * 8
    with pytest.raises(MsError) as refused:
        ms.profile_kernel(done)
    assert refused.value.diagnostic.code == "MS711"


def test_a_call_may_serve_a_bucket_of_dynamic_sizes_alone() -> None:
    text = "program p[N: dyn(1..64, buckets = [8])](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] + A[i] } }"
    program = ms.parse(text).program()
    small = text.replace("1..64, buckets = [8]", "1..8")
    calls: list[int] = []

    def function(a: np.ndarray) -> np.ndarray:
        calls.append(len(a))
        return a + a

    (done,) = ms.apply(program, [LibraryCall("small", small, function), "default"], database=None)
    assert done.by != "small" and [c.applied.by for c in done.cases] == ["small"]
    kernel = ms.build(done)
    for n in (5, 20):
        assert kernel(np.ones(n, np.float32)).tolist() == [2.0] * n
    assert calls == [5]


def test_several_outputs_and_scalars_are_stored() -> None:
    text = """program ends(A: f32[4], out S: f32[], inout T: f32[4]) {
        block s[| i: 4] { S[] += A[i] }
        block t[i: 4] { T[i] = T[i] + A[i] }
    }"""
    call = LibraryCall("ends", text, lambda a, t: (np.sum(a), t + a))
    (done,) = ms.apply(parse_program(text), [call], database=None)
    total, t = ms.build(done)(np.ones(4, np.float32), T=np.ones(4, np.float32))
    assert float(total) == 4.0 and t.tolist() == [2.0] * 4


def test_a_function_may_return_what_it_was_given_in_another_order() -> None:
    text = """program swap(inout A: f32[4], inout B: f32[4]) {
        block s[i: 4] {
            alloc t: f32[] @ local
            reads A[i], B[i]
            writes A[i], B[i]
            t[] = A[i]
            A[i] = B[i]
            B[i] = t[]
        }
    }"""
    (done,) = ms.apply(parse_program(text), [LibraryCall("swap", text, lambda a, b: (b, a))], database=None)
    a, b = ms.build(done)(np.zeros(4, np.float32), np.ones(4, np.float32))
    assert a.tolist() == [1.0] * 4
    assert b.tolist() == [0.0] * 4


# ------------------------------------------------------------------ what misses
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (("", ""), None),
        (("f32[", "f64["), "`X` is f64, in the pattern f32"),
        (("X: f32[24, 32]", "X: f32[32, 24]"), "the shapes give `K` of the pattern as 24 and as 32"),
        (
            ("X: f32[24, 32]", "X: f32[24, 32] @ global(strides = [64, 1])"),
            "`X` has another layout than in the pattern",
        ),
        (("Y: f32", "const Y: f32"), "`Y` is a constant, unlike in the pattern"),
        (("Z[i, j] += X[i, k] * Y[k, j]", "Z[i, j] += X[i, k] + Y[k, j]"), "it computes something else"),
        (("out Z", "inout Z"), "`Z` is inout, in the pattern out"),
    ],
)
def test_what_does_not_match_is_missed_with_the_reason(
    numpy_matmul: LibraryCall, changed: tuple[str, str], why: str | None
) -> None:
    text = PRODUCT.replace("mm[i: 24, j: 40 | k: 32]", "mm[i: 24, j: 40 | k: 24]") if "K" in (why or "") else PRODUCT
    found = numpy_matmul.serve(parse_program(text.replace(*changed)), AVX2)
    assert isinstance(found, Served) if why is None else found == Missed(why)


def test_a_call_serves_its_kinds_of_targets_and_fixed_sizes_alone() -> None:
    found = LibraryCall("twice", TWICE, lambda a: a).serve(TWICE_8, named_target("sm_80"))
    assert isinstance(found, Missed) and found.why.startswith("it serves targets of the kind cpu")
    fixed = TWICE.replace("[N = 4]", "").replace("N", "4")
    assert LibraryCall("twice", fixed, lambda a: a).serve(TWICE_8, AVX2) == Missed(
        "`A` has the shape [8], the pattern [4]"
    )


# ------------------------------------------------------------------ packages
def test_a_package_is_loaded_only_if_it_was_allowed(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "library" not in ORDER, "it serves only where it is asked for"
    words = ["apply", str(installed), "--explain", "--passes"]
    assert main([*words, "library,default"]) == 0
    out = capsys.readouterr().out
    assert "square: default" in out
    assert "library missed: `numpy_matmul` is not loaded: `--extension own-library-call` allows its package" in out
    assert main([*words, "library:numpy_matmul"]) == 1
    assert "MS272" in capsys.readouterr().err
    assert main([*words, "library,default", "--extension", "own-library-call"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "square: library: the library call numpy_matmul, M = 256, K = 256, N = 256"
    assert rest[-1] == "  library missed: `numpy_matmul`: it has 4 parameters, the pattern 3"
    assert main([*words, "library:matmul", "--extension", "own-library-call"]) == 1
    assert "MS271" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "code"), [(["show", "--stage", "asm"], "MS701"), (["build", "-o", "made.so"], "MS454")]
)
def test_a_call_has_no_code_to_show_or_export(
    installed: Path, capsys: pytest.CaptureFixture[str], verb: list[str], code: str
) -> None:
    words = [verb[0], f"{installed}:square", *verb[1:], "--apply", "library", "--extension", "own-library-call"]
    assert main(words) != 0
    assert code in capsys.readouterr().err


# ------------------------------------------------------------------ faults
@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        (lambda a: 1 / 0, "MS612", "raised ZeroDivisionError: division by zero"),
        (lambda a: a.astype("f8"), "MS613", "returned float64[8] for B, expected float32[8]"),
        (lambda a: a[:4], "MS613", "returned float32[4] for B, expected float32[8]"),
        (lambda a: None, "MS613", "returned None for B, expected float32[8]"),
        (lambda a: (a, a), "MS613", "returned an object of the type tuple for B, expected float32[8]"),
    ],
)
def test_a_function_that_fails_is_one_diagnostic(function: Callable[..., object], code: str, said: str) -> None:
    (done,) = ms.apply(TWICE_8, [LibraryCall("faulty", TWICE, function)], database=None)
    with pytest.raises(MsError) as error:
        ms.build(done)(np.ones(8, np.float32))
    assert (error.value.diagnostic.code, error.value.diagnostic.message) == (code, f"the library call faulty {said}")


@pytest.mark.parametrize(
    ("pattern", "function", "why"),
    [
        (TWICE, 3, "its function is 3"),
        (5, len, "its pattern is 5"),
        ("program p(", len, "its pattern is faulty: "),
        ("", len, "its pattern has 0 programs"),
        (TWICE + TWICE.replace("twice", "again"), len, "its pattern has 2 programs"),
    ],
)
def test_a_call_that_is_not_usable_is_one_diagnostic(pattern: object, function: object, why: str) -> None:
    with pytest.raises(MsError) as error:
        ms.apply(TWICE_8, [LibraryCall("faulty", pattern, function)])  # type: ignore[arg-type]
    assert error.value.diagnostic.code == "MS614" and (error.value.diagnostic.why or "").startswith(why)


def test_a_function_that_workers_cannot_import_is_one_diagnostic() -> None:
    with pytest.raises(MsError) as error:
        pickle.dumps(LibraryCall("faulty", TWICE, lambda a: a).backend())
    assert error.value.diagnostic.code == "MS614" and "import" in (error.value.diagnostic.why or "")
