"""Calls in a form that was accepted before: not checked again, and yet refused for what the form does not say."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import MsError
from mslang.runtime.forms import MOST
from mslang.runtime.kernel import LoadedKernel
from tests.unit.llvm.test_dlpack import Tensor, library  # noqa: F401 - a fixture

ADD = """program add[N = 8](A: f32[N], B: f32[N], out C: f32[N]) {
    block add[i: N] { C[i] = A[i] + B[i] }
}
"""
BOTH = """program both[N: dyn(1..64)](A: i32[N], out S: i32[N], out D: i32[N], inout T: i32[N]) {
    block s[i: N] { S[i] = A[i] + 1 }
    block d[i: N] { D[i] = 2 * A[i] }
    block t[i: N] { T[i] = T[i] + A[i] }
}
"""


def built(text: str) -> Any:
    return ms.build(ms.parse_program(text))


@pytest.fixture
def kernel() -> Any:
    """A kernel that has accepted three arrays, and two."""
    made = built(ADD)
    a, b, c = arrays()
    made(a, b, c)
    made(a, b)
    return made


def arrays(n: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.full(n, 10, np.float32), np.zeros(n, np.float32)


def known(kernel: LoadedKernel) -> int:
    return len(kernel._forms._known)


def refusal(kernel: Any, *given: Any) -> str:
    with pytest.raises(MsError) as caught:
        kernel(*given)
    return caught.value.diagnostic.code


def test_a_second_call_is_not_checked_and_gives_the_same(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadedKernel, "bind", lambda *_: pytest.fail("checked again"))
    a, b, c = (x + 1 for x in arrays())
    assert kernel(a, b, c) is c and np.array_equal(c, a + b)
    first, second = kernel(a, b), kernel(b, b)
    assert np.array_equal(first, a + b) and np.array_equal(second, b + b) and not np.shares_memory(first, second)
    assert first.ctypes.data % 64 == 0


def test_what_another_form_may_not_have_is_refused(kernel: Any) -> None:
    a, b, c = arrays()
    wide = np.zeros(16, np.float32)
    fixed = c.copy()
    fixed.flags.writeable = False
    odd = np.zeros(33, np.uint8)[1:].view(np.float32)
    assert refusal(kernel, a, b.astype(np.float64), c) == "MS411"
    assert refusal(kernel, a, b.astype(np.int32), c) == "MS411"
    assert refusal(kernel, a, b.astype(">f4"), c) == "MS413"
    assert refusal(kernel, a, b[:7], c) == "MS412"
    assert refusal(kernel, a, b.reshape(2, 4), c) == "MS412"
    assert refusal(kernel, a, wide[::2], c) == "MS413"
    assert refusal(kernel, a, b[::-1], c) == "MS413"
    assert refusal(kernel, a, odd, c) == "MS413"
    assert refusal(kernel, a, b, fixed) == "MS414"
    assert refusal(kernel, a) == refusal(kernel, a, b, c, c) == "MS410"
    assert refusal(kernel, a, [1.0] * 8, c) == "MS411"
    assert known(kernel) == 2


def test_overlaps_are_seen_at_each_call(kernel: Any) -> None:
    a, b, _ = arrays()
    memory = np.zeros(24, np.float32)
    kernel(memory[:8], memory[8:16], memory[16:])
    assert refusal(kernel, a, b, a) == "MS414"
    assert refusal(kernel, memory[:8], b, memory[7:15]) == "MS414"
    assert refusal(kernel, a, memory[9:17], memory[2:10]) == "MS414"
    inputs = kernel(memory[:8], memory[4:12], memory[12:20])
    assert inputs.ctypes.data == memory[12:].ctypes.data


def test_several_outputs_and_sizes_of_the_call() -> None:
    kernel = built(BOTH)
    for n in (5, 5, 64, 5, 64):
        a, t = np.arange(n, dtype=np.int32), np.ones(n, np.int32)
        s, d, returned = kernel(a, t)
        assert np.array_equal(s, a + 1) and np.array_equal(d, 2 * a)
        assert returned is t and np.array_equal(t, a + 1)
    assert known(kernel) == 2
    assert refusal(kernel, np.zeros(65, np.int32), np.zeros(65, np.int32)) == "MS412"
    assert refusal(kernel, np.zeros(5, np.int32), np.zeros(6, np.int32)) == "MS412"


def test_no_more_forms_are_kept_than_stated() -> None:
    kernel = built(BOTH.replace("64", "1024"))
    for n in range(1, MOST + 10):
        kernel(np.zeros(n, np.int32), np.zeros(n, np.int32))
    assert 0 < known(kernel) <= MOST


def test_checking_kernels_check_each_call() -> None:
    text = "program g(A: f32[8], I: i32[8], out C: f32[8]) { block c[i: 8] { C[i] = A[I[i]] } }"
    checked = ms.build(ms.parse_program(text), checked=True)
    a, right = np.ones(8, np.float32), np.zeros(8, np.int32)
    checked(a, right)
    assert refusal(checked, a, right + 8) == "MS415" and known(checked) == 0


@pytest.mark.usefixtures("library")
def test_tensors_of_a_library_come_back_as_tensors() -> None:
    kernel = built(ADD)
    a, b, c = arrays()
    for _ in range(3):
        out = kernel(Tensor(a), Tensor(b))
        assert isinstance(out, Tensor) and np.array_equal(out.array, a + b)
        given = Tensor(c)
        assert kernel(a, Tensor(b), given) is given and np.array_equal(c, a + b)
    assert known(kernel) == 2


def test_packed_arrays_are_known_by_their_packing() -> None:
    def taking(layout: str, element: str) -> Any:
        packed = f"A: f32[{layout}] = packed([4, 6], fn (i, j) -> [{element}])"
        text = f"program t({packed}, out C: f32[4, 6]) {{ block c[i: 4, j: 6] {{ C[i, j] = A[{element}] }} }}"
        return built(text)

    kernels = [taking("3, 4, 2", "j // 2, i, j % 2"), taking("3, 4, 2", "j % 3, i, j // 3")]
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    for kernel in kernels:
        packed = kernel.pack("A", a)
        for _ in range(2):
            assert np.array_equal(kernel(packed), a) and np.array_equal(kernel(a), a)
        assert known(kernel) == 1
    assert refusal(kernels[0], kernels[1].pack("A", a)) == "MS413"


def test_threads_call_in_known_and_new_forms() -> None:
    kernel = built(BOTH)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for k in range(200):
            n = (seed * 7 + k) % 64 + 1
            a = np.full(n, seed, np.int32)
            s, d, _ = kernel(a, np.zeros(n, np.int32))
            if not (np.all(s == seed + 1) and np.all(d == 2 * seed)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
