"""rolling_update: a maximum and the sums of exponentials that depend on it in one pass, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run
from mslang.diagnostics import Severity
from mslang.ide.findings import findings
from mslang.ir.find import blocks_of
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.rolling_update import rolling_update
from tests.unit.transform.programs import block, loop, refused, sizes

INF, NAN = np.inf, np.nan

ATTENTION = """program attention(Q: f32[2, 6, 5], K: f32[2, 13, 5], V: f32[2, 13, 5], out O: f32[2, 6, 5]) {
    alloc score: f32[2, 6, 13]
    alloc largest: f32[2, 6]
    alloc weight: f32[2, 6, 13]
    alloc total: f32[2, 6]
    alloc mixed: f32[2, 6, 5]
    block scores[b: 2, i: 6, j: 13 | k: 5] { score[b, i, j] += Q[b, i, k] * K[b, j, k] }
    block row_max[b: 2, i: 6 | j: 13] { largest[b, i] = max(largest[b, i], score[b, i, j]) }
    block weights[b: 2, i: 6, j: 13] { weight[b, i, j] = exp((score[b, i, j] - largest[b, i]) * rsqrt(f32(5))) }
    block row_sum[b: 2, i: 6 | j: 13] { total[b, i] += weight[b, i, j] }
    block mix[b: 2, i: 6, d: 5 | j: 13] { mixed[b, i, d] += weight[b, i, j] * V[b, j, d] }
    block divide[b: 2, i: 6, d: 5] { O[b, i, d] = mixed[b, i, d] / total[b, i] }
}"""

ROLLED = """
schedule online for attention {
    let b = row_max.b
    let i = row_max.i
    let j0, j1 = row_max.j.split([_, 4])
    let maxima, sums, mixes = row_max.rolling_update(j0, [row_sum, mix])
    MORE
}"""


def rows(term: str = "exp(A[i, k] - m[i])", maximum: str = "m[i] = max(m[i], A[i, k])", more: str = "") -> Program:
    return parse_program(f"""program rows(A: f32[6, 10], W: f32[10], B: f32[6, 10], out M: f32[6], out S: f32[6]) {{
        alloc m: f32[6]
        alloc other: f32[6]
        block top[i: 6 | k: 10] {{ {maximum} }}
        {more}
        block s[i: 6 | k: 10] {{ S[i] += {term} }}
        block e[i: 6] {{ M[i] = m[i] }}
    }}""")


def rolled(p: Program, *factors: int | None) -> Program:
    """The sum `s` in one pass with the maximum `top`."""
    if not factors:
        return rolling_update(p, block("top"), loop("k"), [block("s")]).program
    p = split(p, loop("k"), sizes(*factors)).program
    return rolling_update(p, block("top"), loop("k_0"), [block("s")]).program


def alike(before: Program, after: Program, arrays: dict[str, np.ndarray], rtol: float = 1e-5) -> None:
    """Interpreted and compiled, both give the same up to rounding, NaN and infinities included."""
    assert not verify(after)
    assert parse_program(print_program(after)) == after
    want = run(before, arrays)
    got = run(after, arrays)
    compiled = ms.build(after)(*arrays.values())
    for k, (name, expected) in enumerate(want.items()):
        np.testing.assert_allclose(got[name], expected, rtol=rtol)
        np.testing.assert_allclose(compiled[k] if isinstance(compiled, tuple) else compiled, expected, rtol=rtol)


def drawn(seed: int = 0, scale: float = 3.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"A": (6, 10), "W": (10,), "B": (6, 10)}
    return {n: (rng.standard_normal(s) * scale).astype(np.float32) for n, s in shapes.items()}


@pytest.mark.parametrize(
    "term",
    [
        "exp(A[i, k] - m[i])",
        "exp2(A[i, k] - m[i])",
        "exp((A[i, k] - m[i]) * rsqrt(f32(64)))",
        "exp(0.5 * (A[i, k] - m[i]) / 3.0)",
        "exp(A[i, k] - m[i]) * W[k]",
        "W[k] * (B[i, k] * exp(A[i, k] - m[i])) / 3.0",
        "-exp(A[i, k] - m[i]) * W[k] - exp(A[i, k] - m[i])",
    ],
)
@pytest.mark.parametrize("factors", [(), (None, 4), (5, 2), (None, 3, 2)])
@pytest.mark.one_in(2)
def test_terms_that_are_rescaled(term: str, factors: tuple[int | None, ...]) -> None:
    p = rows(term)
    alike(p, rolled(p, *factors), drawn(), rtol=1e-4)


def test_the_maximum_of_an_expression() -> None:
    p = rows("exp(A[i, k] * W[k] - m[i]) * B[i, k]", "m[i] = max(m[i], A[i, k] * W[k])")
    alike(p, rolled(p, None, 4), drawn(), rtol=1e-4)


def test_loops_and_blocks_of_attention() -> None:
    p = parse_program(ATTENTION)
    p = split(p, loop("j_1"), sizes(None, 4)).program
    out = rolling_update(p, block("row_max"), loop("j_1_0"), [block("row_sum"), block("mix")])
    assert out.handles == (block("row_max_rf"), block("row_sum_rf"), block("mix_rf"))
    inits = ["row_max_init", "row_sum_init", "mix_init"]
    parts = ["row_max_rf", "row_max", "weights", "row_sum_rf", "row_sum", "mix_rf", "mix"]
    assert [b.name for b in blocks_of(out.program.body)] == ["scores", *inits, *parts, "divide"]


@pytest.mark.parametrize(
    "more",
    [
        "",
        # FlashAttention: tiles of keys, whose scores stay in the cache, for tiles of queries in parallel.
        """scores.compute_at(j0)
        let i0, i1 = i.split([_, 4])
        let tiles = fuse(b, i0)
        tiles.parallel()
        mixes.d.vectorize()
        mixes.j_i.unroll()""",
        "scores.compute_at(j0) let zero = mixes.decompose_reduction(mixes.j_i) mixes.set_scope(mixed_rf, local)",
    ],
)
def test_attention_under_other_primitives(more: str) -> None:
    m = ms.parse(ATTENTION + ROLLED.replace("MORE", more))
    rng = np.random.default_rng(1)
    arrays = {
        n: rng.standard_normal(s).astype(np.float32)
        for n, s in {"Q": (2, 6, 5), "K": (2, 13, 5), "V": (2, 13, 5)}.items()
    }
    alike(m.program("attention"), m.space("online").sample(0).program, arrays, rtol=1e-4)


def test_the_statistics_of_softmax_in_one_pass() -> None:
    m = ms.parse("""program softmax(X: f32[6, 37], out Y: f32[6, 37]) {
        alloc largest: f32[6]
        alloc shifted: f32[6, 37]
        alloc total: f32[6]
        block row_max[i: 6 | j: 37] { largest[i] = max(largest[i], X[i, j]) }
        block exponent[i: 6, j: 37] { shifted[i, j] = exp(X[i, j] - largest[i]) }
        block row_sum[i: 6 | j: 37] { total[i] += shifted[i, j] }
        block divide[i: 6, j: 37] { Y[i, j] = shifted[i, j] / total[i] }
    }
    schedule online for softmax {
        exponent.compute_inline()
        let i = row_max.i
        let j0, j1 = row_max.j.split([_, 16])
        let maxima, sums = row_max.rolling_update(j0, [row_sum])
        i.parallel()
    }""")
    x = np.random.default_rng(0).standard_normal((6, 37)).astype(np.float32)
    alike(m.program("softmax"), m.space("online").sample(0).program, {"X": x})


SPECIAL = np.array(
    [
        [-INF, -INF, -INF, -INF, -INF, 1, 2, -INF, 3, 0],
        [-INF] * 10,
        [1, 2, INF, 4, 5, 6, INF, 8, 9, 10],
        [1, 2, 3, NAN, 5, 6, 7, 8, 9, 10],
        [-1000, -1001, -INF, -2000, -5, -6, -7, -8, -9, -1e30],
        [-INF, -1e30, -1e30, 1e30, 5, 6, 7, 3e38, -3e38, 3e38],
    ],
    np.float32,
)


@pytest.mark.parametrize("factors", [(), (None, 4), (5, 2), (1, 10)])
@pytest.mark.parametrize("term", ["exp(A[i, k] - m[i])", "exp(A[i, k] - m[i]) * W[k]"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.one_in(2)
def test_infinities_and_nan_are_kept(term: str, factors: tuple[int | None, ...]) -> None:
    p = rows(term)
    for w in (np.ones(10, np.float32), np.array([1, 2, 3, 4, NAN, 6, 7, 8, INF, 1], np.float32)):
        for a in (SPECIAL, SPECIAL[:, ::-1].copy()):
            alike(p, rolled(p, *factors), {**drawn(), "A": a, "W": w})


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("exp(A[i, k] - m[i]) + W[k]", "does not depend on the maximum"),
        ("exp(A[i, k] - m[i]) * exp(A[i, k] - m[i])", "not a multiple"),
        ("W[k] / exp(A[i, k] - m[i])", "not a multiple"),
        ("max(exp(A[i, k] - m[i]), W[k])", "not a multiple"),
        ("select(W[k] > 0.0, exp(A[i, k] - m[i]), 0.0)", "not a multiple"),
        ("exp(m[i] - A[i, k])", "holds no difference"),
        ("exp((A[i, k] - m[i]) * W[k])", "positive constants"),
        ("exp((A[i, k] - m[i]) * -1.0)", "positive constants"),
        ("exp((A[i, k] - m[i]) + 1.0)", "positive constants"),
        ("exp(A[i, k] - m[i]) + exp((A[i, k] - m[i]) * 2.0)", "another factor"),
        ("exp(B[i, k] - m[i])", "not relative to the maximum"),
        ("exp(A[i, k] + 1.0 - m[i])", "not relative to the maximum"),
        ("exp(A[i, k] - m[0])", "not an axis"),
        ("exp(A[i, k] - m[i]) * m[i]", "not a multiple"),
    ],
)
def test_terms_that_cannot_be_rescaled(term: str, words: str) -> None:
    with refused("MS367", words):
        rolled(rows(term))


@pytest.mark.parametrize(
    ("maximum", "code"),
    [
        ("m[i] = min(m[i], A[i, k])", "MS370"),
        ("init { m[i] = 0.0 } m[i] = max(m[i], A[i, k])", "MS370"),
        ("where k < 9 m[i] = max(m[i], A[i, k])", "MS367"),
    ],
)
def test_what_is_no_maximum_of_the_axis(maximum: str, code: str) -> None:
    with refused(code):
        rolled(rows(maximum=maximum))


def test_a_sum_that_starts_from_something_else() -> None:
    text = print_program(rows()).replace("init { S[i] = 0.0 }", "init { S[i] = 1.0 }")
    with refused("MS370", "start from 0"):
        rolled(parse_program(text))


def test_exponentials_that_others_read() -> None:
    p = parse_program("""program p(A: f32[6, 10], out S: f32[6], out E: f32[6, 10]) {
        alloc m: f32[6]
        alloc w: f32[6, 10]
        block top[i: 6 | k: 10] { m[i] = max(m[i], A[i, k]) }
        block x[i: 6, k: 10] { w[i, k] = exp(A[i, k] - m[i]) }
        block s[i: 6 | k: 10] { S[i] += w[i, k] }
        block e[i: 6, k: 10] { E[i, k] = w[i, k] / S[i] }
    }""")
    with refused("MS341", "compute_inline"):
        rolled(p)


def test_a_block_between_that_writes_what_a_sum_reads() -> None:
    p = rows("exp(A[i, k] - m[i]) * other[i]", more="block x[i: 6] { other[i] = m[i] * 0.0 + 1.0 }")
    with refused("MS367"):
        rolled(p)
    p = rows("exp(A[i, k] - m[i]) * other[i]", more="block x[i: 6] { other[i] = W[i] }")
    with refused("MS319", "`other`"):
        rolled(p)


def test_loops_that_do_not_fit() -> None:
    p = split(rows(), loop("k"), sizes(None, 4)).program
    with refused("MS368", "outermost"):
        rolling_update(p, block("top"), loop("k_1"), [block("s")])
    with refused("MS368", "outermost"):
        rolling_update(p, block("top"), loop("i"), [block("s")])
    with refused("MS303"):
        rolling_update(p, block("top"), loop("k_0"), [])
    with refused("MS305"):
        rolling_update(parallel(p, loop("i_1")).program, block("top"), loop("k_0"), [block("s")])
    with refused("MS368", "may be false"):
        rolling_update(beyond(), block("top"), loop("k0"), [block("s")])


def beyond() -> Program:
    return parse_program("""program p(A: f32[6, 10], out S: f32[6]) {
        alloc m: f32[6]
        for i in 6, k0 in 4, k1 in 4 {
            block top[x: 6 = i | y: 10 = k0 * 4 + k1] { where k0 * 4 + k1 < 10 m[x] = max(m[x], A[x, y]) }
        }
        block s[i: 6 | k: 10] { S[i] += exp(A[i, k] - m[i]) }
    }""")


def test_parallel_rows_stay_parallel() -> None:
    p = parallel(rows(), loop("i")).program
    alike(p, rolled(p, None, 4), drawn())


def test_the_checker_knows_the_new_axes() -> None:
    more = "let w0, w1 = weights.j_i.split([_, 2]) w1.vectorize()"
    found = findings(load("page.ms", ATTENTION + ROLLED.replace("MORE", more)))
    assert not [d for d in found if d.severity is Severity.ERROR]
