"""stream: what it leaves on a block, what code it becomes, that results stay, what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mslang as ms
from mslang.backend.cuda.backend import passes
from mslang.backend.cuda.source import cuda_source
from mslang.backend.llvm.compile import compile
from mslang.ir.equal import workload_hash
from mslang.ir.print import print_program
from mslang.kernel.print import print_module
from mslang.lower.passes import lower
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, GENERIC, SM_80, Target
from mslang.target.detect import host
from mslang.transform.outcome import BufferRef
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.caching import cache_write
from mslang.transform.primitives.loop_kinds import parallel, vectorize
from mslang.transform.primitives.stream import stream
from tests.unit.transform.programs import block, buffer, loop, refused, sizes

COPY = parse_program("program p(A: f32[64], out B: f32[64]) { for i in 64 { block b[x: 64 = i] { B[x] = A[x] } } }")
ARM = Target("arm", triple="aarch64-linux-gnu", cpu="neoverse-n1", vector_bits=256)


def rows(m: int, n: int, dtype: str = "f32") -> ms.Program:
    """A matrix times 2, its rows in vectors."""
    return vectorize(
        parse_program(f"""program p(A: {dtype}[{m}, {n}], out B: {dtype}[{m}, {n}]) {{
            for i in {m} {{ for j in {n} {{ block b[x: {m} = i, y: {n} = j] {{ B[x, y] = A[x, y] + A[x, y] }} }} }}
        }}"""),
        loop("j"),
    ).program


def streaming(program: ms.Program, on: int | None = None, name: str = "B") -> ms.Program:
    return stream(program, block("b"), buffer(name), on=None if on is None else sizes(on)[0]).program


def code(program: ms.Program, target: Target) -> str:
    return compile(lower(program, target), target).assembly


def moved(n: int, offset: int, dtype: str = "float32") -> np.ndarray:
    """An array of `n` elements whose address is `offset` elements behind a multiple of 64 bytes."""
    size = np.dtype(dtype).itemsize
    raw = np.zeros(n + offset + 64 // size, dtype)
    start = -raw.ctypes.data % 64 // size + offset
    return raw[start : start + n]


def test_what_is_said_last_counts():
    on = streaming(COPY)
    assert 'attr "stream.B" = i64(1)' in print_program(on)
    assert streaming(streaming(COPY, 0), 1) == on
    assert "stream B[" in print_module(lower(streaming(rows(4, 64)), host()))
    assert "stream" not in print_module(lower(streaming(rows(4, 64), 0), host()))


@pytest.mark.parametrize("target", [GENERIC, AVX2, AVX512], ids=lambda t: t.name)
def test_the_machine_code_bypasses_the_caches_and_ends_with_a_fence(target: Target):
    found = code(streaming(rows(8, 256)), target)
    assert re.search(r"\tv?movnt(ps|dq|pd)\t%xmm", found), "in pieces that any multiple of 16 bytes allows"
    assert re.search(r"\tv?movups\t%[xyz]mm\d+, -?\d*\(", found), "other addresses are stored to as usual"
    core = found[found.index("p.core:") : found.index(".Lfunc_end0")]
    assert core.index("movnt") < core.index("sfence") < core.index("ret"), "before the caller goes on"
    assert "movnt" not in code(rows(8, 256), target)
    assert "sfence" not in code(rows(8, 256), target)


@pytest.mark.parametrize("dtype", ["bf16", "f64", "i8", "bool"])
@pytest.mark.parametrize("target", [GENERIC, AVX2, AVX512], ids=lambda t: t.name)
def test_every_element_type_is_streamed(dtype: str, target: Target):
    text = f"program p(A: {dtype}[8, 256], out B: {dtype}[8, 256]) {{ block b[i: 8, j: 256] {{ B[i, j] = A[i, j] }} }}"
    schedule = "schedule s for p { b.j.vectorize()\n b.stream(B) }"
    assert "movnt" in code(ms.parse(f"{text}\n{schedule}").space("s").sample(0).program, target)


def test_f16_is_stored_as_usual():
    assert not re.search("movnt|fence", code(streaming(rows(8, 256, "f16")), AVX512))


@pytest.mark.parametrize(
    ("triple", "fence"), [("amd64-unknown-freebsd", "sfence"), ("i686-linux-gnu", None), ("aarch64-linux-gnu", "dmb")]
)
def test_other_systems(triple: str, fence: str | None):
    found = code(streaming(rows(8, 256)), Target("other", triple=triple))
    assert ("movnt" in found) == (fence == "sfence")
    assert fence is None or fence in found


def test_what_was_streamed_is_seen_by_a_parallel_loop_after_it():
    program = parse_program("""program p(A: f32[4, 256], out B: f32[4, 256], out C: f32[4, 256]) {
        for i in 4 { for j in 256 @ vectorized { block b[x: 4 = i, y: 256 = j] { B[x, y] = A[x, y] } } }
        for i in 4 @ parallel {
            for j in 256 @ vectorized { block c[x: 4 = i, y: 256 = j] { C[x, y] = B[3 - x, y] } }
        }
    }""")
    found = code(streaming(program), AVX512)
    assert found.index("movnt") < found.index("sfence") < found.index("mslang.launch")


def test_each_task_of_a_parallel_loop_has_a_fence_of_its_own():
    found = code(streaming(parallel(rows(8, 256), loop("i")).program), AVX512)
    task = found[found.index("mslang.parallel0:") :]
    assert task.index("movnt") < task.index("sfence") < task.index("ret")


def test_processors_without_aligned_streams_need_no_test():
    found = code(streaming(rows(8, 256)), ARM)
    assert "stnp" in found
    assert "dmb" in found


def test_on_a_gpu_it_has_no_effect():
    text = "program p(A: f32[64], out B: f32[64]) { for i in 64 @ threadIdx.x { block b[x: 64 = i] { B[x] = A[x] } } }"
    plain = parse_program(text)
    with_it, without = (cuda_source(lower(p, SM_80, passes=passes()), SM_80).text for p in (streaming(plain), plain))
    assert with_it == without


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8"])
@pytest.mark.parametrize("offset", [0, 1, 2, 4, 15])
@pytest.mark.parametrize("n", [64, 67, 5])
@pytest.mark.one_in(2)
def test_results_stay_at_every_address(dtype: str, offset: int, n: int):
    kind = {"f32": "float32", "f64": "float64", "f16": "float16", "i8": "int8"}[dtype]
    a, b = moved(7 * n, 0, kind).reshape(7, n), moved(7 * n, offset, kind).reshape(7, n)
    a[:] = np.arange(7 * n).reshape(7, n) % 50
    b[:] = 99
    ms.build(streaming(rows(7, n, dtype)))(a, b)
    assert np.array_equal(b, a + a)


def test_threads_see_what_others_streamed():
    program = parse_program("""program p(A: f32[64, 1024], out C: f32[64, 1024]) {
        alloc B: f32[64, 1024]
        for i in 64 @ parallel { for j in 1024 @ vectorized { block b[x: 64 = i, y: 1024 = j] { B[x, y] = A[x, y] } } }
        for i in 64 @ parallel {
            for j in 1024 @ vectorized { block c[x: 64 = i, y: 1024 = j] { C[x, y] = B[63 - x, y] } }
        }
    }""")
    kernel = ms.build(streaming(program))
    a = np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024)
    for _ in range(50):
        assert np.array_equal(kernel(a, threads=2), a[::-1])


def test_a_drawn_choice_is_put_in_when_it_is_known():
    file = ms.parse("""program p(A: f32[64], out B: f32[64]) { block b[x: 64] { B[x] = A[x] } }
    schedule s for p { let t ~ choose([0, 1])
        b.x.vectorize()
        b.stream(B, on = t) }""")
    space = file.space("s")
    found = {t: code(space.replay({"t": t}).program, AVX512) for t in (0, 1)}
    assert "movnt" in found[1]
    assert "movnt" not in found[0]


def test_a_checked_build_stores_as_usual():
    program = streaming(rows(8, 64))
    a = np.arange(512, dtype=np.float32).reshape(8, 64)
    assert np.array_equal(ms.build(program, checked=True)(a), a + a)


def test_names_do_not_count_in_the_workload():
    other = parse_program(
        "program p(X: f32[64], out Y: f32[64]) { for i in 64 { block b[x: 64 = i] { Y[x] = X[x] } } }"
    )
    assert workload_hash(streaming(COPY)) == workload_hash(streaming(other, name="Y"))
    assert workload_hash(streaming(COPY)) != workload_hash(COPY)


def test_the_annotation_follows_the_buffer():
    from mslang.transform.rename import rename

    other = rename(streaming(chained(), name="T"), {BufferRef("T"): "between"}).program
    assert 'attr "stream.between"' in print_program(other)
    cached = cache_write(streaming(COPY), block("b"), buffer("B"), "local").program
    assert "stream" not in print_program(cached), "the block does not write it any more"


def chained() -> ms.Program:
    return parse_program("""program p(A: f32[64], out B: f32[64]) {
        alloc T: f32[64]
        block b[x: 64] { T[x] = A[x] }
        block c[x: 64] { B[x] = T[x] }
    }""")


@pytest.mark.parametrize(("value", "on"), [(0, False), (1, True), (2, True), (True, True), (-1, False), ("yes", False)])
def test_annotations_of_other_tools(value: object, on: bool):
    program = annotate(rows(4, 64), block("b"), "stream.B", value).program
    assert ("stream B[" in print_module(lower(program, AVX512))) == on
    assert ("movnt" in code(program, AVX512)) == on


def test_a_size_known_only_at_the_call_does_not_say_whether():
    program = parse_program("program p[M: dyn(1..8)](A: f32[M], out B: f32[M]) { block b[x: M] { B[x] = A[x] } }")
    (size,) = program.dynamic
    with refused("MS303", "`on` is not a number"):
        stream(program, block("b"), buffer("B"), on=size)


REDUCTION = parse_program("""program p(A: f32[8, 64], out B: f32[8]) {
    for i in 8 { for j in 64 { block b[x: 8 = i | y: 64 = j] { B[x] += A[x, y] } } }
}""")


@pytest.mark.parametrize(
    ("program", "name", "on", "code", "text"),
    [
        (COPY, "A", 1, "MS336", "block `b` does not write `A`"),
        (COPY, "B", -1, "MS303", "`on` is not a number that is provably 0 or more"),
        (REDUCTION, "B", 1, "MS336", "block `b` reads `B`, too"),
        (
            cache_write(COPY, block("b"), buffer("B"), "local").program,
            "B_local_1",
            1,
            "MS336",
            "`B_local_1` is in registers",
        ),
    ],
)
def test_what_is_refused(program: ms.Program, name: str, on: int, code: str, text: str):
    with refused(code, text):
        streaming(program, on, name)
