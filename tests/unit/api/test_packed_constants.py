"""Constants of a kernel: packed once by `kernel.pack`, whatever the schedule makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.ir.program import Program
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program

DENSE = """program dense(A: f32[4, 8], const W: f32[8, 6], out C: f32[4, 6]) {
    block mm[i: 4, j: 6 | k: 8] { C[i, j] += A[i, k] * W[k, j] }
}"""
BY_FOUR = "schedule s for p { mm.transform_layout(W, fn (k, j) -> [j // 4, k, j % 4], pad = 0) }"
BY_TWO = "schedule s for p { mm.transform_layout(W, fn (k, j) -> [j // 2, k, j % 2]) }"


def scheduled(schedule: str = "") -> Program:
    p = parse_program(DENSE)
    return space_of_text(schedule, p).sample(0).program if schedule else p


RNG = np.random.default_rng(0)
A = RNG.integers(-3, 4, (4, 8)).astype(np.float32)
W = RNG.integers(-3, 4, (8, 6)).astype(np.float32)


@pytest.mark.parametrize("schedule", ["", BY_FOUR], ids=["as it is", "packed"])
@pytest.mark.parametrize("backend", [None, "reference"])
def test_a_call_takes_what_pack_made(schedule: str, backend: str | None) -> None:
    kernel = ms.build(scheduled(schedule), backend=backend)
    w = kernel.pack("W", W)
    assert np.array_equal(kernel(A, w), A @ W)
    assert np.array_equal(kernel(W=w, A=A), A @ W)
    given = W.copy()
    kept = kernel.pack("W", given)
    given += 1
    assert np.array_equal(kernel(A, kept), A @ W), "what is packed is a copy, in every layout"


@pytest.mark.parametrize("schedule", ["", BY_FOUR], ids=["as it is", "packed"])
def test_what_is_not_packed_is_refused(schedule: str) -> None:
    kernel = ms.build(scheduled(schedule))
    with pytest.raises(ms.MsError) as caught:
        kernel(A, W)
    found = caught.value.diagnostic
    assert found.code == "MS413" and "W is constant, and is not packed" in found.message
    assert found.help is not None and 'kernel.pack("W", W)' in found.help


@pytest.mark.parametrize("schedule", ["", BY_FOUR], ids=["as it is", "packed"])
def test_calls_before_change_nothing(schedule: str) -> None:
    kernel = ms.build(scheduled(schedule))
    w = kernel.pack("W", W)
    for _ in range(3):
        assert np.array_equal(kernel(A, w), A @ W)
        with pytest.raises(ms.MsError, match="not packed"):
            kernel(A, W)


def test_what_another_kernel_packed_is_refused() -> None:
    fours, twos, plain = (ms.build(scheduled(s)) for s in (BY_FOUR, BY_TWO, ""))
    for kernel, other in ((fours, twos), (fours, plain), (plain, fours)):
        with pytest.raises(ms.MsError, match="another layout") as caught:
            kernel(A, other.pack("W", W))
        assert caught.value.diagnostic.code == "MS413"
    with pytest.raises(ms.MsError, match="packed already"):
        fours.pack("W", fours.pack("W", W))
    with pytest.raises(ms.MsError, match="shape"):
        fours.pack("W", W.T)
    with pytest.raises(ms.MsError, match="A is not packed"):
        fours.pack("A", A)


def test_bound_calls_pack_once() -> None:
    kernel = ms.build(scheduled(BY_FOUR))
    w, out = W.copy(), np.zeros((4, 6), np.float32)
    bound = kernel.bind(A, w, out)
    bound.run()
    assert np.array_equal(out, A @ W)
    w += 1
    bound.run()
    assert np.array_equal(out, A @ W), "constants are those of the time of binding"
    assert kernel.time(A, W, out).median > 0


def test_arrays_of_other_libraries_are_packed() -> None:
    torch = pytest.importorskip("torch")
    kernel = ms.build(scheduled(BY_FOUR))
    found = kernel(torch.from_numpy(A), kernel.pack("W", torch.from_numpy(W)))
    assert isinstance(found, torch.Tensor) and np.array_equal(found.numpy(), A @ W)


def test_ranges_are_checked_where_an_array_is_packed() -> None:
    p = parse_program(DENSE.replace("const W: f32[8, 6]", "const W: f32[8, 6] in 0.0..1.0"))
    kernel = ms.build(p, checked=True)
    with pytest.raises(ms.MsError) as caught:
        kernel.pack("W", W)
    assert caught.value.diagnostic.code == "MS162"


def test_kernels_of_several_sizes_take_one_packed_array() -> None:
    head = "program dense[M: dyn(1..64, buckets = [8])](A: f32[M, 8], const W: f32[8, 6], out C: f32[M, 6])"
    p = parse_program(f"""{head} {{
        block mm[i: M, j: 6 | k: 8] {{ C[i, j] += A[i, k] * W[k, j] }}
    }}""")
    (applied,) = ms.apply(p, ["default"])
    kernel = ms.build(applied)
    w = kernel.pack("W", W)
    for m in (1, 4, 20):
        a = np.ones((m, 8), np.float32)
        assert np.allclose(kernel(a, w), a @ W)
