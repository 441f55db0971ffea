"""Which kernel serves a call, seen by kernels that write different numbers: in Python, and in a library for C."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang.backend.backend import LibraryPart
from mslang.backend.dispatch import DispatchKernel, Serving
from mslang.backend.llvm.backend import LLVM
from mslang.diagnostics import MsError
from mslang.ir.buckets import Bucket, buckets_of, restricted
from mslang.ir.program import Program
from mslang.runtime.signature import Signature
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC

RANGES = ("M: dyn(1..9, buckets = [3, 6])", "N: dyn(2..8, multiple = 2, buckets = [4])")


def writing(number: int) -> Program:
    """A program that writes a number."""
    header = f"program p[{', '.join(RANGES)}](A: f32[M, N], out C: f32[M, N])"
    return parse_program(f"{header} {{ block b[i: M, j: N] {{ C[i, j] = A[i, j] + {number}.0 }} }}")


PROGRAM = writing(0)
BUCKETS = buckets_of(PROGRAM)
SERVED = {number: bucket for number, bucket in enumerate(BUCKETS, 1) if number != 4}
"""The number that the kernel of each bucket writes; one bucket has none."""


def wanted(m: int, n: int) -> int:
    """What a call writes."""
    return next((k for k, b in SERVED.items() if b.holds({"M": m, "N": n})), 0)


def test_a_call_goes_to_the_kernel_of_its_sizes():
    cases = [Serving(b, ms.build(restricted(writing(k), b))) for k, b in SERVED.items()]
    kernel = DispatchKernel(Signature.of_program(PROGRAM), cases, ms.build(PROGRAM))
    for m in range(1, 10):
        for n in range(2, 9, 2):
            a = np.zeros((m, n), np.float32)
            assert (kernel(a) == wanted(m, n)).all()
            assert (kernel(A=a, threads=1) == wanted(m, n)).all()
            assert kernel.at(M=m, N=n).signature.name == "p"
    assert kernel.time(a).min > 0
    for m, n, why in ((10, 2, "M = 10 is outside"), (1, 3, r"N = 3 is outside.*multiple = 2"), (0, 2, "M = 0")):
        with pytest.raises(MsError, match=f"(?s)MS412.*{why}"):
            kernel(np.zeros((m, n), np.float32))


def test_the_kernel_of_a_size_is_asked_for_whether_or_not_there_are_cases():
    text = "program t[M: dyn(1..9)](A: f32[M], out B: f32[M]) { block b[i: M] { B[i] = A[i] } }"
    (applied,) = ms.apply(ms.parse(text))
    kernel = ms.build(applied)
    assert not applied.cases and (kernel.at(M=np.int64(3))(np.ones(3, np.float32)) == 1).all()
    for sizes, why in (
        ({}, "the size M is missing"),
        ({"M": 10}, "outside of its range"),
        ({"M": "3"}, "M = '3' is not a whole number"),
        ({"M": 3.0}, "M = 3.0 is not a whole number"),
        ({"M": True}, "M = True is not a whole number"),
        ({"M": 3, "K": 4}, "t has no size K.*it has M"),
    ):
        with pytest.raises(MsError, match=f"(?s)MS412.*{why}"):
            kernel.at(**sizes)


def test_a_constant_is_packed_in_each_layout_of_the_kernels():
    p = parse_program("""program p[M: dyn(1..20, buckets = [4, 8])](
        A: f32[M, 8], const W: f32[8, 6], out C: f32[M, 6]
    ) {
        block mm[i: M, j: 6 | k: 8] { C[i, j] += A[i, k] * W[k, j] }
    }""")
    maps = ("fn (k, j) -> [j // 2, k, j % 2]", "fn (k, j) -> [j // 3, k, j % 3]")
    one, two = (space_of_text(f"schedule s for p {{ mm.transform_layout(W, {m}) }}", p).sample(0).program for m in maps)
    first, second, _ = buckets_of(p)
    cases = [Serving(first, ms.build(restricted(one, first))), Serving(second, ms.build(restricted(two, second)))]
    kernel = DispatchKernel(Signature.of_program(p), cases, ms.build(p))
    w = np.arange(48, dtype=np.float32).reshape(8, 6)
    packed = kernel.pack("W", w)
    for m in (3, 8, 20):
        a = np.ones((m, 8), np.float32)
        out = np.zeros((m, 6), np.float32)
        kernel.bind(a, W=packed, C=out).run()
        assert (kernel(a, packed) == a @ w).all() and (out == a @ w).all()
        with pytest.raises(MsError, match="MS413"):
            kernel(a, w)
    with pytest.raises(MsError, match="another layout"):
        kernel(np.ones((3, 8), np.float32), kernel.at(M=20).pack("W", w))


def test_a_layout_that_differs_among_kernels_is_packed_for_sizes():
    header = "program p[M: dyn(1..8)](W: f32[{}, out C: f32[M, 4])"
    body = "{{ block b[i: M, j: 4] {{ C[i, j] = W[j] }} }}"
    plain, packed = (
        parse_program((header + body).format(text).replace("W[j]", at))
        for text, at in (("4]", "W[j]"), ("8] = packed([4], fn (i) -> [i * 2])", "W[j * 2]"))
    )
    low = Bucket((("M", buckets_of(plain)[0].ranges[0][1]),))
    case = Serving(low, ms.build(restricted(packed, low)))
    kernel = DispatchKernel(Signature.of_program(plain), [case], ms.build(plain))
    w = np.arange(4, dtype=np.float32)
    for m in (1, 2):
        c = np.zeros((m, 4), np.float32)
        assert (kernel(w, c) == w).all()
    with pytest.raises(MsError, match=r"(?s)MS410.*no layout that serves all sizes.*kernel\.at\(M=…\)\.pack"):
        kernel.pack("W", w)
    assert (kernel(kernel.at(M=1).pack("W", w), np.zeros((1, 4), np.float32)) == w).all()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("targets", [("host",), ("avx2", "generic")])
def test_a_library_dispatches_by_size_and_processor(targets: tuple[str, ...], tmp_path: Path):
    from mslang.target.named import named_target

    parts = []
    for name in targets:
        target = GENERIC if name == "generic" else named_target(name)
        parts.append(LibraryPart(PROGRAM, target))
        parts += [LibraryPart(restricted(writing(k), b), target, b) for k, b in SERVED.items()]
    assert LLVM.library is not None
    forms = LLVM.library(parts, "p", "a test", False).forms
    file = tmp_path / "p.so"
    file.write_bytes(forms[".so"]())
    assert forms[".h"]().decode().count("Code for") == len(targets)
    function = ctypes.CDLL(str(file)).p
    for m in range(11):
        for n in range(1, 10):
            a, c = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
            sizes = ctypes.c_int64(m), ctypes.c_int64(n)
            status = function(ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(c.ctypes.data), *sizes)
            allowed = 1 <= m <= 9 and n in (2, 4, 6, 8)
            assert status == (0 if allowed else 2)
            assert (c == (wanted(m, n) if allowed else 0)).all()
