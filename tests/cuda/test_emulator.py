"""The emulation of CUDA on hand-written kernels: right ones run, and each kind of fault is found where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from tests.cuda.emulator import CompileError, Emulated, Launch, Outcome, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SOURCES = Path(__file__).parent / "sources"
ORDERS = ("forward", "reversed", "shuffled")
MATMUL = Launch("matmul", ("A", "B", "C", 20, 33, 40), (3, 2, 1), (16, 16, 1))


@lru_cache(maxsize=1)
def source(name: str) -> str:
    return (SOURCES / f"{name}.cu").read_text()


def integers(shape: Sequence[int], seed: int = 0, dtype: str = "float32", most: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(dtype)


def run(text: str, launch: Launch, arrays: Mapping[str, np.ndarray], unset: Sequence[str], **options) -> Outcome:
    with Emulated(text) as file:
        return file.run([launch], arrays, unset=unset, orders=ORDERS, **options)


def matmul(text: str, **options) -> tuple[Outcome, np.ndarray]:
    arrays = {"A": integers((20, 40)), "B": integers((40, 33), 1), "C": np.empty((20, 33), "float32")}
    return run(text, MATMUL, arrays, ["C"], **options), arrays["A"] @ arrays["B"]


def kinds(outcome: Outcome) -> set[str]:
    return {f.kind for f in outcome.faults}


def line_of(text: str, words: str) -> int:
    return text[: text.index(words)].count("\n") + 1


def test_a_right_kernel_runs_in_every_order():
    outcome, wanted = matmul(source("matmul"))
    assert outcome.faults == () and outcome.harmless == ()
    assert np.array_equal(outcome.arrays["C"], wanted)


@pytest.mark.parametrize("barrier", ["filled", "used"])
def test_without_a_barrier_there_is_a_race(barrier: str):
    text = source("matmul")
    outcome, _ = matmul(text.replace(f"__syncthreads();  // {barrier}", ""))
    races = [f for f in outcome.faults if f.kind == "race"]
    lines = {
        line_of(text, words) for words in ("a[threadIdx.y][threadIdx.x] =", "b[threadIdx.y][threadIdx.x] =", "sum += a")
    }
    assert races and {f.line for f in races} | {f.other_line for f in races} <= lines


@pytest.mark.parametrize("barrier", ["filled", "used"])
def test_each_barrier_is_needed(barrier: str):
    """A barrier that orders nothing any more is missed, although all threads still meet at it."""
    text = source("matmul")
    outcome, wanted = matmul(text, ignored_lines=[line_of(text, f"// {barrier}")])
    assert kinds(outcome) == {"race"} and np.array_equal(outcome.arrays["C"], wanted)


def test_a_barrier_too_many_is_not_missed():
    text = source("matmul").replace("    float sum = 0.0f;", "    float sum = 0.0f; __syncthreads();  // idle")
    outcome, _ = matmul(text, ignored_lines=[line_of(text, "// idle")])
    assert outcome.faults == ()


def test_a_barrier_that_some_threads_pass_by():
    text = source("matmul").replace("__syncthreads();  // filled", "if (threadIdx.x < 8) __syncthreads();")
    outcome, _ = matmul(text)
    (fault,) = [f for f in outcome.faults if f.kind == "divergent"]
    assert fault.line == line_of(text, "if (threadIdx.x < 8)") and fault.other_line == line_of(text, "// used")


def test_a_barrier_after_some_threads_have_ended():
    text = source("matmul").replace("    if (i < M", "    if (i >= M) return; __syncthreads();\n    if (i < M")
    outcome, _ = matmul(text)
    (fault,) = outcome.faults
    assert fault.kind == "divergent" and "has ended" in fault.text and fault.line == line_of(text, "return;")


def test_an_access_outside_of_its_buffer():
    outcome, _ = matmul(source("matmul").replace("if (i < M && j < N) C", "if (i <= M && j < N) C"))
    assert "write of 4 bytes outside of every buffer" in outcome.faults[0].text


def test_an_index_outside_of_a_row_of_shared_memory():
    outcome, _ = matmul(source("matmul").replace("k < 16; ++k", "k < 17; ++k"))
    assert "index" in kinds(outcome)


def test_shared_memory_that_was_not_written():
    text = source("matmul").replace("a[threadIdx.y][threadIdx.x] = ", "if (threadIdx.y) a[threadIdx.y][threadIdx.x] = ")
    outcome, _ = matmul(text)
    assert "unset" in kinds(outcome)
    fault = next(f for f in outcome.faults if f.kind == "unset")
    assert fault.buffer == "shared memory" and fault.line == line_of(text, "sum += a")


def test_a_load_in_a_loop_stays_behind_the_store_before_it():
    """g++ would load before the loop what the loop first writes."""
    text = """extern "C" __global__ void f(signed char* __restrict__ y, const signed char* __restrict__ x) {
    __shared__ signed char s[1];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 6; ++i) {
            if (i / 2 == 0 && i % 2 == 0) {
                s[0] = (signed char)0;
            }
            s[0] = (signed char)(s[0] + x[i]);
        }
        y[0] = s[0];
    }
}
"""
    x = np.arange(6, dtype="int8")
    launch = Launch("f", ("y", "x"), (1, 1, 1), (64, 1, 1))
    outcome = run(text, launch, {"y": np.zeros(1, "int8"), "x": x}, ["y"])
    assert outcome.faults == () and outcome.arrays["y"][0] == 15


def test_blocks_that_write_one_element():
    text = source("matmul").replace("C[i * N + j] = sum", "C[threadIdx.y * N + j] = sum + i")
    outcome, _ = matmul(text)
    assert kinds(outcome) == {"race of blocks", "order"}


def test_threads_that_write_the_same_value_are_told_apart():
    text = source("matmul").replace("    if (i < M && j < N) C[i * N + j] = sum;", "    C[0] = 1.0f;")
    arrays = {"A": integers((20, 40)), "B": integers((40, 33), 1), "C": np.empty((20, 33), "float32")}
    outcome = run(text, Launch("matmul", MATMUL.arguments, (1, 1, 1), (16, 16, 1)), arrays, ["C"])
    assert outcome.faults == () and {f.kind for f in outcome.harmless} == {"same value"}


def test_a_misaligned_vector():
    text = source("matmul").replace("    float sum = 0.0f;", "    float sum = ((const float4*)(A + 1))->x;")
    outcome, _ = matmul(text)
    assert kinds(outcome) == {"misaligned"}


def test_what_g_plus_plus_refuses():
    with pytest.raises(CompileError, match="nothing_there"):
        Emulated('extern "C" __global__ void f() { nothing_there(); }')


def test_shuffles_sum_rows():
    arrays = {"A": integers((3, 100)), "sums": np.empty(3, "float32")}
    for threads in (32, 96):
        outcome = run(
            source("warps"), Launch("row_sums", ("A", "sums", 100), (3, 1, 1), (threads, 1, 1)), arrays, ["sums"]
        )
        assert outcome.faults == ()
        assert np.array_equal(outcome.arrays["sums"], arrays["A"].sum(1))


def test_a_missing_barrier_between_warps():
    arrays = {"A": integers((3, 100)), "sums": np.empty(3, "float32")}
    text = source("warps").replace("__syncthreads();  // parts", "__syncwarp();")
    outcome = run(text, Launch("row_sums", ("A", "sums", 100), (3, 1, 1), (96, 1, 1)), arrays, ["sums"])
    assert {"race", "unset"} & kinds(outcome)


def test_votes_and_shuffles():
    a = integers(32, dtype="int32", most=50)
    arrays = {"A": a, "out": np.empty(160, "uint32")}
    outcome = run(source("warps"), Launch("votes", ("A", "out"), (1, 1, 1), (32, 1, 1)), arrays, ["out"])
    assert outcome.faults == ()
    ballot, both, before, first, total = outcome.arrays["out"].reshape(5, 32)
    assert set(ballot) == {sum(1 << i for i in range(32) if a[i] > 0)}
    assert set(both) == {2}
    assert np.array_equal(before.astype("int32"), np.concatenate([a[:1], a[:-1]]))
    assert np.array_equal(first.astype("int32"), np.repeat(a[::8], 8))
    assert set(total.astype("int32")) == {a.sum()}


def test_a_warp_barrier_orders_its_warp_only():
    arrays = {"A": integers(64), "B": np.empty(64, "float32")}
    launch = Launch("rotate", ("A", "B"), (1, 1, 1), (64, 1, 1), 256)
    text = source("warps")
    outcome = run(text, launch, arrays, ["B"])
    assert outcome.faults == ()
    assert np.array_equal(outcome.arrays["B"].reshape(2, 32), np.roll(arrays["A"].reshape(2, 32), -1, 1))
    assert "race" in kinds(run(text.replace("__syncwarp();  // row", ""), launch, arrays, ["B"]))
    across = text.replace("threadIdx.x / 32 * 32 + (threadIdx.x + 1) % 32", "(threadIdx.x + 1) % 64")
    assert "race" in kinds(run(across, launch, arrays, ["B"]))


@pytest.mark.parametrize("barrier", ["__syncwarp();", ""])
def test_reads_before_a_warp_barrier_are_past_after_it(barrier: str):
    """Pair 1027 of seed 6: all lanes read, and after the barrier one of them reads and writes."""
    text = f"""extern "C" __global__ void turns(float* A, float* B) {{
        for (int i = 0; i < 3; ++i) {{
            if (threadIdx.x == 0) A[0] = A[0] + 1.0f;
            __syncwarp();
            B[threadIdx.x] = A[0];
            {barrier}
        }}
    }}"""
    arrays = {"A": np.zeros(1, "float32"), "B": np.empty(32, "float32")}
    outcome = run(text, Launch("turns", ("A", "B"), (1, 1, 1), (32, 1, 1)), arrays, ["B"])
    assert kinds(outcome) == (set() if barrier else {"race"} | (kinds(outcome) & {"order"}))


def test_dynamic_shared_memory_has_the_size_of_the_launch():
    arrays = {"A": integers(64), "B": np.empty(64, "float32")}
    outcome = run(source("warps"), Launch("rotate", ("A", "B"), (1, 1, 1), (64, 1, 1), 128), arrays, ["B"])
    assert kinds(outcome) == {"outside"}


def test_atomics_of_all_blocks():
    a = np.random.default_rng(0).integers(0, 5, 200).astype("int32")
    arrays = {"A": a, "counts": np.zeros(5, "int32")}
    launch = Launch("histogram", ("A", "counts", 200), (4, 1, 1), (64, 1, 1))
    outcome = run(source("warps"), launch, arrays, [])
    assert outcome.faults == () and np.array_equal(outcome.arrays["counts"], np.bincount(a, minlength=5))
    plain = source("warps").replace("atomicAdd(counts + A[i], 1)", "counts[A[i]] += 1")
    assert {"race", "race of blocks"} <= kinds(run(plain, launch, arrays, []))


def test_a_shuffle_without_half_of_the_warp():
    outcome = run(
        source("warps"), Launch("divergent_shuffle", ("B",), (1, 1, 1), (32, 1, 1)), {"B": np.empty(32, "f4")}, ["B"]
    )
    assert kinds(outcome) == {"divergent"}


@pytest.mark.parametrize("kernel", ["double_rows", "double_rows_ptx"])
def test_asynchronous_copies(kernel: str):
    arrays = {"A": integers((5, 128)), "B": np.empty((5, 128), "float32")}
    outcome = run(source("copies"), Launch(kernel, ("A", "B", 5), (1, 1, 1), (32, 1, 1), 1024), arrays, ["B"])
    assert outcome.faults == () and np.array_equal(outcome.arrays["B"], 2 * arrays["A"])


@pytest.mark.parametrize(
    ("words", "instead", "found"),
    [
        ("__pipeline_wait_prior(1);", "", "in flight"),
        ("__pipeline_wait_prior(1);", "__pipeline_wait_prior(2);", "in flight"),
        ("__syncthreads();  // filled", "", "race"),
        ("__syncthreads();  // used", "", "race"),
        ("A + 4 * t, 16", "A + 4 * t + 1, 16", "misaligned"),
        ("(r + 1) % 2 * 128 + 4 * t, A", "4 * t, A", "in flight"),
    ],
)
def test_faults_of_asynchronous_copies(words: str, instead: str, found: str):
    assert words in source("copies")
    arrays = {"A": integers((5, 128)), "B": np.empty((5, 128), "float32")}
    launch = Launch("double_rows", ("A", "B", 5), (1, 1, 1), (32, 1, 1), 1024)
    outcome = run(source("copies").replace(words, instead), launch, arrays, ["B"])
    assert found in kinds(outcome)


def test_products_of_a_warp():
    a, b = integers((16, 16), dtype="float16"), integers((16, 16), 1, "float16")
    arrays = {"A": a, "B": b, "C": np.empty((16, 16), "float32")}
    one = ((1, 1, 1), (32, 1, 1))
    with Emulated(source("tensor")) as file:
        outcome = file.run([Launch("by_wmma", ("A", "B", "C"), *one)], arrays, unset=["C"])
        assert outcome.faults == () and np.array_equal(outcome.arrays["C"], a.astype("f4") @ b.T.astype("f4"))
        arrays = {"A": a, "B": b[:, :8].copy(), "C": np.empty((16, 8), "float32")}
        outcome = file.run([Launch("by_mma", ("A", "B", "C"), *one)], arrays, unset=["C"])
        assert outcome.faults == () and np.array_equal(outcome.arrays["C"], a.astype("f4") @ b[:, :8].astype("f4"))
        x, y = integers((16, 32), dtype="int8", most=100), integers((32, 8), 1, "int8", most=100)
        arrays = {"A": x, "B": y, "C": np.empty((16, 8), "int32")}
        outcome = file.run([Launch("by_s8", ("A", "B", "C"), *one)], arrays, unset=["C"])
        start = np.tile([[1, 2]], (16, 4)) + np.repeat([[0], [2]], 8, 0)
        assert outcome.faults == () and np.array_equal(outcome.arrays["C"], start + x.astype("i4") @ y.astype("i4"))


def test_an_instruction_by_its_meaning():
    arrays = {"A": integers((2, 64)), "C": np.empty((2, 64), "float32")}
    outcome = run(source("tensor"), Launch("by_meaning", ("A", "C"), (2, 1, 1), (128, 1, 1)), arrays, ["C"])
    assert outcome.faults == () and np.array_equal(outcome.arrays["C"], 2 * arrays["A"][:, ::-1])


def test_a_fragment_read_without_a_barrier():
    text = source("tensor").replace("    __syncwarp();\n    wmma", "    wmma")
    arrays = {
        "A": integers((16, 16), dtype="float16"),
        "B": integers((16, 16), 1, "float16"),
        "C": np.empty((16, 16), "f4"),
    }
    assert "race" in kinds(run(text, Launch("by_wmma", ("A", "B", "C"), (1, 1, 1), (32, 1, 1)), arrays, ["C"]))


def extremes(count: int, seed: int) -> np.ndarray:
    """Numbers of all sizes that half precision has, its borders, and what is beyond them."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 16, count - 8, dtype=np.uint16).view(np.float16).astype(np.float32)
    special = np.float32([0.0, -0.0, 65504.0, 65520.0, 65519.99, 2.0**-24, 2.0**-25, 1.0 + 2.0**-11])
    return np.concatenate([np.where(np.isnan(bits), np.float32(1.5), bits), special])


def _to_half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def to_bf16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded)


@pytest.mark.parametrize("operation", range(7))
def test_half_precision_is_that_of_numpy(operation: int):
    a, b, d = (extremes(1024, s) for s in range(3))
    arrays = {"A": a, "B": b, "D": d, "C": np.empty(1024, "float32")}
    x, y, z = (_to_half(v) for v in (a, b, d))
    with np.errstate(all="ignore"), Emulated(source("numbers")) as file:
        launch = Launch("halves", ("A", "B", "D", "C", operation), (8, 1, 1), (128, 1, 1))
        got = file.run([launch], arrays, unset=["C"]).arrays["C"]
        exact = x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)
        wanted = [x + y, x - y, x * y, x / y, np.sqrt(np.abs(x)), exact.astype(np.float16), x][operation].astype(
            np.float32
        )
        assert np.array_equal(got, wanted, equal_nan=True)
        launch = Launch("bfloats", ("A", "B", "D", "C", operation), (8, 1, 1), (128, 1, 1))
        got = file.run([launch], arrays, unset=["C"]).arrays["C"]
        p, q, r = (to_bf16(v).astype(np.float64) for v in (a, b, d))
        values = [p + q, p - q, p * q, p / q, np.sqrt(np.abs(p)), p * q + r, p][operation]
        assert np.array_equal(got, to_bf16(to_bf16_exactly(values)), equal_nan=True)


def to_bf16_exactly(x: np.ndarray) -> np.ndarray:
    """Doubles as floats such that rounding these to bf16 rounds once: an inexact float gets an odd last bit."""
    near = x.astype(np.float32)
    low = np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float32(0)), near)
    inexact = low.astype(np.float64) != x
    odd = (low.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
    return np.where(np.isfinite(near), odd, near)


def test_products_of_bytes():
    a, b = (np.random.default_rng(s).integers(-(2**31), 2**31, 32).astype("int32") for s in range(2))
    arrays = {"A": a, "B": b, "C": np.empty(96, "int32")}
    outcome = run(source("numbers"), Launch("bytes", ("A", "B", "C"), (1, 1, 1), (32, 1, 1)), arrays, ["C"])
    signed, unsigned, mixed = outcome.arrays["C"].reshape(3, 32)
    x, y = a.view(np.int8).reshape(32, 4).astype(int), b.view(np.int8).reshape(32, 4).astype(int)
    u, v = a.view(np.uint8).reshape(32, 4).astype(int), b.view(np.uint8).reshape(32, 4).astype(int)
    assert np.array_equal(signed, (x * y).sum(1) + np.arange(32))
    assert np.array_equal(unsigned, (u * v).sum(1) + np.arange(32))
    both = np.concatenate([u, v], 1)[:, [5, 1, 7, 3]].astype(np.uint8)
    assert np.array_equal(mixed.view(np.uint8).reshape(32, 4), both)
