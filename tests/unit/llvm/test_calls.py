"""Calling compiled kernels: every wrong argument has its diagnostic; timing; checked accesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Const, Load
from mslang.ir.program import Block, For, Program, Store
from mslang.lower import lower
from mslang.runtime.arrays import empty, poison, sparse_integers
from mslang.runtime.kernel import LoadedKernel, load
from mslang.runtime.timing import Limits, measure
from mslang.target.detect import host
from tests.unit.llvm.support import executable, loaded


def matmul(m: int = 6, n: int = 8, k: int = 5, kind: str = "vectorized") -> Program:
    b = ProgramBuilder("mm")
    x, y, z = b.input("A", (m, k)), b.input("B", (k, n)), b.output("C", (m, n))
    with b.loop("i0", m) as i0, b.loop("k0", k) as k0, b.loop("j0", n, kind=kind) as j0:
        axes = (spatial("i", m, at=i0), spatial("j", n, at=j0), reduce("k", k, at=k0))
        with b.block("mm", *axes) as (i, j, r):
            z[i, j] += x[i, r] * y[r, j]
    return b.finish()


@pytest.fixture(scope="module")
def kernel() -> LoadedKernel:
    return loaded(matmul())


A, B = np.arange(30, dtype=np.float32).reshape(6, 5), np.ones((5, 8), np.float32)


def refused(kernel: LoadedKernel, *arrays: Any, **named: Any) -> str:
    with pytest.raises(MsError) as caught:
        kernel(*arrays, **named)
    assert caught.value.diagnostic.message
    return caught.value.diagnostic.code


def test_outputs_are_made_or_filled_in_place(kernel: LoadedKernel):
    out = np.empty((6, 8), np.float32)
    assert kernel(A, B, out) is out
    assert np.array_equal(out, A @ B)
    assert np.array_equal(kernel(A, B), out)
    assert np.array_equal(kernel(B=B, A=A), out)
    assert np.array_equal(kernel(A, B, C=out), out)


def test_wrong_arguments_are_refused(kernel: LoadedKernel):
    assert refused(kernel, A) == "MS410"
    assert refused(kernel, A, B, A, B) == "MS410"
    assert refused(kernel, A, B, D=A) == "MS410"
    assert refused(kernel, A, B, A=A) == "MS410"
    assert refused(kernel, A.astype(np.float64), B) == "MS411"
    assert refused(kernel, "A", B) == "MS411"
    assert refused(kernel, A.T, B) == "MS412"
    assert refused(kernel, np.asfortranarray(A), B) == "MS413"
    assert refused(kernel, np.repeat(A, 2, 1)[:, ::2], B) == "MS413"
    odd = np.zeros(30 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 5)
    assert refused(kernel, odd, B) == "MS413"
    constant = np.empty((6, 8), np.float32)
    constant.flags.writeable = False
    assert refused(kernel, A, B, constant) == "MS414"
    both = np.zeros(100, np.float32)
    assert refused(kernel, both[:30].reshape(6, 5), B, both[10:58].reshape(6, 8)) == "MS414"


def test_arrays_come_through_dlpack(kernel: LoadedKernel):
    class Foreign:
        """An array known by its protocol only."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    assert np.array_equal(kernel(Foreign(A), Foreign(B)), A @ B)


def test_dynamic_sizes_come_from_the_arrays():
    b = ProgramBuilder("scale")
    m = b.dynamic("M", 1, 64, multiple=2)
    x, y = b.input("X", (m, 4)), b.output("Y", (m, 4))
    with b.block("y", spatial("i", m), spatial("j", 4)) as (i, j):
        y[i, j] = x[i, j] * 2.0
    made = loaded(b.finish())
    for rows in (2, 10, 64):
        data = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        assert np.array_equal(made(data), data * 2)
    assert refused(made, np.zeros((3, 4), np.float32)) == "MS412"
    assert refused(made, np.zeros((66, 4), np.float32)) == "MS412"
    assert refused(made, np.zeros((2, 4), np.float32), np.zeros((4, 4), np.float32)) == "MS412"


# ------------------------------------------------------------------ checked accesses
def shifted(program: Program, by: int) -> Program:
    """A fault planted: what is read from B is `by` rows too far."""

    def block(s: Block) -> Block:
        (store,) = s.body
        assert isinstance(store, Store)
        far = replace_load(store.value, by)
        return replace(s, body=(replace(store, value=far),))

    def replace_load(e: Any, by: int) -> Any:
        from mslang.ir.expr import Binary
        from mslang.ir.visit import map_expr

        return map_expr(
            e,
            lambda x: (
                Load("B", (Binary("+", x.indices[0], Const(by)), x.indices[1]), x.dtype)
                if isinstance(x, Load) and x.buffer == "B"
                else None
            ),
        )

    def loop(s: Any) -> Any:
        return block(s) if isinstance(s, Block) else replace(s, body=tuple(loop(x) for x in s.body))

    return replace(program, body=tuple(loop(s) for s in program.body))


@pytest.mark.parametrize("kind", ["serial", "vectorized", "unrolled", "parallel"])
def test_checked_mode_names_the_access_out_of_bounds(kind: str):
    fine = loaded(matmul(kind=kind), checked=True)
    assert np.array_equal(fine(A, B), A @ B)
    broken = loaded(shifted(matmul(kind=kind), 2), checked=True)
    with pytest.raises(MsError) as caught:
        broken(A, B)
    found = caught.value.diagnostic
    assert found.code == "MS415"
    assert found.message == "B is accessed at 5 in dimension 0, which has 5 elements"
    # The failure is not remembered.
    assert refused(broken, A, B) == "MS415"


def test_an_undecided_program_is_refused():
    from mslang.ir.expr import PerfectTile, Symbol

    program = matmul()
    (outer,) = program.body
    assert isinstance(outer, For)
    open_one = replace(outer, extent=Symbol("ti", PerfectTile(Const(6), 1), 0))
    with pytest.raises(MsError) as caught:
        lower(replace(program, body=(open_one,)), host())
    assert caught.value.diagnostic.code == "MS406"


def test_an_object_that_is_none_is_refused():
    made = executable(matmul())
    with pytest.raises(MsError) as caught:
        load(b"not an object", made.signature)
    assert caught.value.diagnostic.code == "MS416"


# ------------------------------------------------------------------ timing and arrays
class Clock:
    """A clock that jobs move."""

    def __init__(self, seconds: list[float]) -> None:
        self.now = 0
        self.seconds = seconds
        self.calls: list[int] = []

    def run(self, times: int) -> None:
        each = self.seconds[min(len(self.calls), len(self.seconds) - 1)]
        self.calls.append(times)
        self.now += round(each * times * 1e9)

    def __call__(self) -> int:
        return self.now


def test_timing_takes_many_runs_a_sample_and_stops_when_steady():
    clock = Clock([1e-5])
    timing = measure(clock.run, Limits(repeats=5, min_repeat=0.001), clock)
    assert len(timing.samples) == 5
    assert timing.runs == 100
    assert timing.min == timing.median == pytest.approx(1e-5)
    assert timing.mad == 0
    assert not timing.censored


def test_timing_goes_on_while_samples_spread():
    clock = Clock([0.01, 0.01, 0.01, 0.02, 0.03, 0.01, 0.02, 0.04, 0.01, 0.02])
    timing = measure(clock.run, Limits(repeats=3, max_repeats=7, spread=0.01, max_total=10), clock)
    assert len(timing.samples) == 7


def test_a_hopeless_candidate_is_cut_off_with_a_lower_bound():
    clock = Clock([0.5])
    timing = measure(clock.run, Limits(cutoff=0.1), clock)
    assert timing.censored
    assert timing.median == pytest.approx(0.5)
    assert len(clock.calls) == 2


def test_a_cold_first_run_does_not_cut_off():
    clock = Clock([0.5, 0.01])
    assert not measure(clock.run, Limits(cutoff=0.1), clock).censored


def test_a_kernel_is_timed(kernel: LoadedKernel):
    timing = kernel.time(A, B, limits=Limits(repeats=3, min_repeat=1e-4, max_total=0.05))
    assert 0 < timing.min <= timing.median


def test_arrays_are_aligned_sparse_and_poisoned():
    array = sparse_integers((33, 7), "f32", seed=1)
    assert array.ctypes.data % 64 == 0
    assert set(np.unique(array)) <= set(range(-3, 4))
    assert 0 < np.count_nonzero(array) < array.size / 2
    assert sparse_integers((9,), "u8", seed=1).min() >= 0
    for dtype in ("f32", "f16", "i32", "u8"):
        out = empty((5,), dtype)
        poison(out, dtype)
        assert not np.isin(out, np.arange(-3, 4)).any()


@pytest.mark.parametrize("name", ["erf", "main", "pow", "launch", "a.b-c", "1st", "größe", "mm"])
def test_any_name_of_a_program_can_be_linked(name: str):
    assert np.array_equal(loaded(replace(matmul(kind="parallel"), name=name))(A, B), A @ B)
