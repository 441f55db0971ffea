"""atomic: updates of the same elements by iterations that run at once."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.find import all_buffers
from mslang.ir.print import print_program
from mslang.ir.program import For, Program
from mslang.kernel import Atomic
from mslang.kernel.visit import walk
from mslang.lower import lower as lower_cpu
from mslang.lower.gpu import lower
from mslang.sema.program import parse_program
from mslang.target.description import CUDA, GENERIC
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.primitives.annotate import annotate, unannotate
from mslang.transform.primitives.atomic import atomic
from mslang.transform.primitives.loop_kinds import bind, parallel, vectorize
from mslang.transform.primitives.unsafe_set_dtype import unsafe_set_dtype

SUM = """program p(A: f32[8, 4], out S: f32[8]) {
    for i0 in 8 { block zero[x: 8 = i0] { S[x] = 0.0 } }
    for i in 8, j in 4 { block s[x: 8 = i | y: 4 = j] { init {} S[x] += A[x, y] } }
}"""
COUNTS = """program p(A: i32[64], inout C: i32[8]) {
    for i in 64 { block s[| y: 64 = i] { init {} C[A[y]] += 1 } }
}"""
ALIKE = """program p(inout C: i32[1]) {
    for i in 64 { block s[| y: 64 = i] { init {} C[0] += 1 } }
}"""


def made(text: str, *axes: tuple[str, str]) -> Program:
    program = atomic(parse_program(text), BlockRef("s")).program
    for loop, axis in axes:
        program = bind(program, LoopRef(loop), axis).program
    return program


def test_blocks_reduce_by_atomic_updates() -> None:
    program = made(SUM, ("i0", "blockIdx.x"), ("i", "blockIdx.y"), ("j", "blockIdx.x"))
    a = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert np.array_equal(run(program, {"A": a})["S"], a.sum(axis=1))
    first, second = lower(program, CUDA).functions
    assert not any(isinstance(s, Atomic) for s in walk(first.body))
    assert [(s.op, s.buffer) for s in walk(second.body) if isinstance(s, Atomic)] == [("+", "S")]


def test_threads_combine_and_one_of_them_updates() -> None:
    text = SUM.replace("j in 4", "k in 2, j in 2").replace("= j]", "= k * 2 + j]")
    _, f = lower(made(text, ("i", "blockIdx.y"), ("k", "blockIdx.x"), ("j", "threadIdx.x")), CUDA).functions
    assert f.launch is not None
    text = str(f)
    assert text.count("Atomic(") == 1 and "shuffle_xor" in text


@pytest.mark.parametrize("text", [COUNTS, ALIKE])
@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.x"])
def test_updates_of_elements_that_only_the_data_decides(text: str, axis: str) -> None:
    program = made(text, ("i", axis))
    a = np.arange(64, dtype=np.int32) % 3
    given = {"A": a, "C": np.zeros(8, np.int32)} if text is COUNTS else {"C": np.zeros(1, np.int32)}
    found = run(program, given)["C"]
    assert found.tolist() == (np.bincount(a, minlength=8).tolist() if text is COUNTS else [64])


def test_a_cpu_updates_by_loads_and_stores() -> None:
    (f,) = lower_cpu(made(SUM), GENERIC).functions
    assert not any(isinstance(s, Atomic) for s in walk(f.body))


def test_cores_of_a_cpu_do_not_update_atomically() -> None:
    shared = made(ALIKE).body
    program = replace(made(ALIKE), body=tuple(replace(s, kind="parallel") for s in shared if isinstance(s, For)))
    with pytest.raises(MsError, match="iterations of `i` are concurrent") as found:
        run(program, {"C": np.zeros(1, np.int32)})
    assert "`C[0]`" in str(found.value)


@pytest.mark.parametrize("primitive", [parallel, vectorize])
@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.x"])
def test_a_loop_of_threads_that_update_becomes_none_of_cores_or_lanes(primitive: object, axis: str) -> None:
    """Pair 5003 of the campaign with seed 24, second generator."""
    bound = made(ALIKE, ("i", axis))
    with pytest.raises(ScheduleError, match="cannot be concurrent") as found:
        primitive(bound, LoopRef("i"))  # type: ignore[operator]
    assert found.value.diagnostic.code == "MS309"


def test_asked_for_twice_is_asked_for_once() -> None:
    program = made(SUM)
    assert atomic(program, BlockRef("s")).program == program


@pytest.mark.parametrize(
    "block",
    [
        "block s[x: 8 = i | y: 4 = j] { init { S[x] = 0.0 } S[x] += A[x, y] }",
        "block s[x: 8 = i | y: 4 = j] { init {} S[x] = S[x] * A[x, y] }",
        "block s[x: 8 = i | y: 4 = j] { init {} S[x] = A[x, y] }",
        "block s[x: 8 = i | y: 4 = j] { init {} S[x] += S[x] }",
        "block s[x: 8 = i | y: 4 = j] { where S[y] > 1.0 init {} S[x] += A[x, y] }",
        "block s[x: 8 = i | y: 4 = j] { init {} S[x] += A[x, y] T[x] += A[x, y] }",
        "block s[x: 8 = i | y: 4 = j] { init {} if A[x, y] > 0.0 { S[x] += A[x, y] } }",
    ],
)
def test_what_is_no_update_is_refused(block: str) -> None:
    program = parse_program(
        f"program p(A: f32[8, 4], inout S: f32[8], inout T: f32[8]) {{ for i in 8, j in 4 {{ {block} }} }}"
    )
    with pytest.raises(ScheduleError, match="MS322"):
        atomic(program, BlockRef("s"))


def test_memory_of_one_thread_is_refused() -> None:
    program = parse_program("""program p(A: f32[8], out B: f32[1]) {
        alloc t: f32[1] @ local
        block zero[i: 1] { t[i] = 0.0 }
        block s[| k: 8] { init {} t[0] += A[k] }
        block b[i: 1] { B[i] = t[i] }
    }""")
    with pytest.raises(ScheduleError, match="MS322"):
        atomic(program, BlockRef("s"))


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (lambda p: bind(p, LoopRef("j"), "vthread.x"), "MS309"),
        (lambda p: parallel(p, LoopRef("j")), "MS309"),
        (lambda p: vectorize(p, LoopRef("j")), "MS309"),
    ],
)
def test_only_blocks_and_threads_update_at_once(what: object, code: str) -> None:
    with pytest.raises(ScheduleError, match=code):
        what(made(SUM))  # type: ignore[operator]


def test_without_being_asked_for_blocks_do_not_share_a_reduction() -> None:
    with pytest.raises(ScheduleError, match="MS309"):
        bind(parse_program(SUM), LoopRef("j"), "blockIdx.x")


@pytest.mark.parametrize(
    "other",
    [
        "block o[x: 8 = i, y: 4 = j] { T[x, y] = S[x] }",
        "block o[x: 8 = i, y: 4 = j] { S[x] = 1.0 }",
        'block o[x: 8 = i | y: 4 = j] { init {} attr "atomic" = true S[x] = max(S[x], A[x, y]) }',
    ],
)
def test_another_access_in_the_same_loop_is_refused(other: str) -> None:
    program = parse_program(f"""program p(A: f32[8, 4], inout S: f32[8], out T: f32[8, 4]) {{
        for i in 8, j in 4 {{
            block s[x: 8 = i | y: 4 = j] {{ init {{}} attr "atomic" = true S[x] += A[x, y] }}
            {other}
        }}
    }}""")
    with pytest.raises(ScheduleError, match=r"MS309|MS310"):
        bind(program, LoopRef("j"), "blockIdx.x")


def test_an_init_in_the_same_launch_is_refused() -> None:
    program = parse_program("""program p(A: f32[8, 4], out S: f32[8]) {
        for i in 8 {
            block zero[x: 8 = i] { S[x] = 0.0 }
            for j in 4 { block s[x: 8 = i | y: 4 = j] { init {} attr "atomic" = true S[x] += A[x, y] } }
        }
    }""")
    program = bind(bind(program, LoopRef("j"), "blockIdx.x").program, LoopRef("i"), "blockIdx.y").program
    assert "S" in all_buffers(program)
    with pytest.raises(MsError, match="MS434"):
        lower(program, CUDA)


def test_the_mark_stays_while_updates_meet() -> None:
    program = atomic(parse_program(SUM), BlockRef("s")).program
    bound = bind(program, LoopRef("j"), "blockIdx.x").program
    with pytest.raises(ScheduleError) as refused:
        unannotate(bound, BlockRef("s"), "atomic")
    assert refused.value.diagnostic.code == "MS310"
    assert unannotate(program, BlockRef("s"), "atomic").program == parse_program(SUM)


def test_what_would_no_longer_be_an_update_is_refused() -> None:
    # Pair 38005 of `instances`, seed 21: `T[0] = i32(i16(min(i16(T[0]), 1)))` is no update that a machine has.
    program = parse_program("""program p(A: i16[4], out B: i16[1]) {
        alloc T: i16[1]
        block zero[x: 1] { T[x] = 0 }
        for i in 4 { block s[| y: 4 = i] { init {} T[0] = min(T[0], A[y]) } }
        block copy[x: 1] { B[x] = T[x] }
    }""")
    wide = unsafe_set_dtype(program, BlockRef("zero"), BufferRef("T"), "i32").program
    with pytest.raises(ScheduleError, match="cannot be atomic"):
        atomic(wide, BlockRef("s"))
    updating = bind(atomic(program, BlockRef("s")).program, LoopRef("i"), "blockIdx.x").program
    with pytest.raises(ScheduleError, match="could not be atomic any more") as refused:
        unsafe_set_dtype(updating, BlockRef("zero"), BufferRef("T"), "i32")
    assert refused.value.diagnostic.code == "MS322"
    a = np.array([3, -2, 5, 0], np.int16)
    assert run(updating, {"A": a})["B"] == [-2]


def test_the_mark_alone_makes_nothing_atomic() -> None:
    plain = parse_program("""program p(A: f32[4], inout S: f32[1]) {
        for i in 4 { block s[| y: 4 = i] { init {} S[0] = S[0] * 0.5 + A[y] } }
    }""")
    with pytest.raises(ScheduleError, match="could not be atomic"):
        annotate(plain, BlockRef("s"), "atomic", True)
    written = parse_program(print_program(plain).replace("S[0] =", 'attr "atomic" = true\nS[0] ='))
    with pytest.raises(ScheduleError) as refused:
        bind(written, LoopRef("i"), "blockIdx.x")
    assert refused.value.diagnostic.code == "MS309"
