"""Parameters and temporaries with strides and offsets: run and verified like others; what has no place is refused."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.ir.buckets import at_sizes
from mslang.tune.equivalence import difference
from mslang.tune.verification import make_arguments, make_inputs

PRODUCT = """program p[L: dyn(4..9)](
    A: f32[L, 16] @ global(strides = [2 * L + 32, 2]), W: f32[16, 32],
    inout Z: f32[L] @ global(strides = [3]), out C: f32[L, 32] @ global(strides = [1, L])
) {
    block mm[i: L, j: 32 | k: 16] { C[i, j] += A[i, k] * W[k, j] }
    block z[i: L] { Z[i] = Z[i] + 1.0 }
}"""


def test_arguments_have_the_strides_of_their_parameters():
    whole = ms.parse(PRODUCT).program()
    p = at_sizes(whole, {"L": 5})
    inputs = make_inputs(p, "dense", 0)
    given = make_arguments(p, inputs)
    assert {n: x.strides for n, x in given.items()} == {"A": (168, 8), "W": (128, 4), "Z": (12,), "C": (4, 20)}
    ms.build(whole).bind(**given).run()
    wanted = run(p, inputs)
    assert np.allclose(given["C"], wanted["C"], atol=1e-5) and (given["Z"] == wanted["Z"]).all()
    assert difference(p, p, 1e-5, 1e-5, 0) is None


@pytest.mark.parametrize("where", ["alloc", "param"])
def test_an_offset_moves_nothing_out_of_its_array(where: str):
    """What is given, and what is allocated, begins with the first element."""
    own, out = ("@ global(offset = 5)", "") if where == "alloc" else ("", "@ global(offset = 5)")
    p = ms.parse(f"""program q(A: f32[8], out C: f32[8] {out}) {{
        alloc t: f32[8] {own}
        block a[i: 8] {{ t[i] = A[i] }}
        block b[i: 8] {{ C[i] = t[i] + 1.0 }}
    }}""").program()
    memory = np.zeros(24, np.float32)
    ms.build(p)(np.arange(8, dtype=np.float32), memory[8:16])
    assert memory.tolist() == [0.0] * 8 + [float(k) for k in range(1, 9)] + [0.0] * 8


@pytest.mark.parametrize(
    ("strides", "why"),
    [
        ("0, 1", "which is written, share memory.*the dimension of 8 elements steps by 0"),
        ("1, 1", "share memory"),
        ("3, 1", "share memory.*smaller strides reach 3"),
        ("4, -1", "negative stride, -1"),
        ("-4, 1", "negative stride, -4"),
        ("4, 1", None),
        ("1, 8", None),
        ("40, 3", None),
    ],
)
@pytest.mark.parametrize("where", ["out", "alloc"])
def test_elements_that_are_written_have_places_of_their_own(strides: str, why: str | None, where: str):
    place = f"@ global(strides = [{strides}])"
    out, own = (place, "") if where == "out" else ("", place)
    text = f"""program q(A: f32[8, 4], out C: f32[8, 4] {out}) {{
        alloc t: f32[8, 4] {own}
        block a[i: 8, j: 4] {{ t[i, j] = A[i, j] }}
        block b[i: 8, j: 4] {{ C[i, j] = t[i, j] }}
    }}"""
    if why is None:
        p = ms.parse(text).program()
        assert difference(p, p, 0.0, 0.0, 0) is None
        return
    with pytest.raises(MsError, match=f"(?s)MS154.*{why}"):
        ms.parse(text).program()


def test_elements_that_are_only_read_may_share_memory():
    text = """program windows(A: f32[6, 3] @ global(strides = [1, 1]), out C: f32[6, 3]) {
        block b[i: 6, j: 3] { C[i, j] = A[i, j] }
    }"""
    a = np.arange(8, dtype=np.float32)
    found = ms.build(ms.parse(text).program())(np.lib.stride_tricks.sliding_window_view(a, 3))
    assert (found == np.arange(6)[:, None] + np.arange(3)).all()


SIZED = """program q[M: dyn(1..9)](A: f32[M, 4], out C: f32[M, 4] @ global(strides = [M, 1])) {
    block b[i: M, j: 4] { C[i, j] = A[i, j] }
}"""


def _strided(m: int) -> np.ndarray:
    flat = np.zeros(m * m + 4, np.float32)
    return np.lib.stride_tricks.as_strided(flat, (m, 4), (4 * m, 4))


def test_strides_that_hold_a_size_are_checked_at_the_call():
    kernel = ms.build(ms.parse(SIZED).program())
    for m in (1, 4, 9):
        a, c = np.arange(4 * m, dtype=np.float32).reshape(m, 4), _strided(m)
        kernel(a, c)
        assert (c == a).all()
    for m in (2, 3):
        a = np.zeros((m, 4), np.float32)
        with pytest.raises(MsError, match=rf"(?s)MS413.*strides of C do not serve M = {m}.*smaller strides reach 3"):
            kernel(a, _strided(m))


def test_strides_of_a_size_may_not_lead_in_front_of_an_array():
    p = ms.parse("""program q[M: dyn(1..9)](A: f32[4, 2] @ global(strides = [M - 5, 1]), out C: f32[4, 2]) {
        block b[i: 4, j: 2] { C[i, j] = A[i, j] }
    }""").program()
    kernel, flat = ms.build(p), np.arange(32, dtype=np.float32)
    given = np.lib.stride_tricks.as_strided(flat, (4, 2), (8, 4))
    assert (kernel(given, M=7) == given).all()
    with pytest.raises(MsError, match=r"(?s)MS413.*do not serve M = 3.*steps by -2"):
        kernel(np.lib.stride_tricks.as_strided(flat[8:], (4, 2), (-8, 4)), M=3)


@pytest.mark.parametrize(
    ("strides", "fine"), [("M, 1", False), ("M + 3, 1", True), ("1, M", True), ("1, M - 1", False)]
)
def test_temporaries_of_a_size_provably_have_a_place_for_each_element(strides: str, fine: bool):
    text = f"""program q[M: dyn(1..9)](A: f32[M, 4], out C: f32[M, 4]) {{
        alloc t: f32[M, 4] @ global(strides = [{strides}])
        block a[i: M, j: 4] {{ t[i, j] = A[i, j] }}
        block b[i: M, j: 4] {{ C[i, j] = t[i, j] }}
    }}"""
    if not fine:
        with pytest.raises(MsError, match=r"(?s)MS154.*elements of `t`, which is written, may share memory"):
            ms.parse(text).program()
        return
    kernel = ms.build(ms.parse(text).program())
    for m in (1, 2, 3, 4, 9):
        a = np.arange(4 * m, dtype=np.float32).reshape(m, 4)
        assert (kernel(a) == a).all()
