"""Constants of libraries for C: their callers pack them once, by a function beside the kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang.backend.aot.library import library
from mslang.backend.backend import LibraryPart
from mslang.backend.llvm.backend import LLVM
from mslang.ir.buckets import buckets_of
from mslang.schedule.replay import space_of_text
from mslang.target.description import GENERIC
from mslang.target.named import named_target
from tests.e2e.test_build import Run, build, compiled, function, needs_cc

CONSTANT = """program dense(A: f32[6, 4], const W: f32[4, 10], const b: f32[10], out C: f32[6, 10]) {
    alloc T: f32[6, 10]
    block mm[i: 6, j: 10 | k: 4] { T[i, j] += A[i, k] * W[k, j] }
    block add[i: 6, j: 10] { C[i, j] = T[i, j] + b[j] }
}
schedule ahead for dense {
    mm.transform_layout(W, fn (k, j) -> [j // 4, k, j % 4], pad = 0.0)
}
schedule wide for dense on avx512 {
    mm.transform_layout(W, fn (k, j) -> [j // machine.vector_lanes, k, j % machine.vector_lanes], pad = 0.0)
}
"""


def check_constants(folder: Path, library: str, size: int) -> None:
    """A kernel on constants that were packed once computes what it should."""
    generator = np.random.default_rng(2)
    a, w, b = (generator.integers(-4, 5, s).astype(np.float32) for s in ((6, 4), (4, 10), (10,)))
    expected = a @ w + b
    packed, kept, c = np.full(size, 7, np.float32), np.zeros(10, np.float32), np.zeros((6, 10), np.float32)
    assert function(folder, library, "dense_pack_W")(w, packed) == 0
    assert function(folder, library, "dense_pack_b")(b, kept) == 0
    assert (kept == b).all()
    w[:] = 0
    for _ in range(2):
        assert function(folder, library, "dense")(a, packed, kept, c) == 0
    assert (c == expected).all()


@needs_cc
def test_constants_are_packed_by_the_caller(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dense.ms").write_text(CONSTANT)
    build(run, "dense.ms:ahead", "-o", "dense.so", "-o", "dense.h", "-o", "dense.ll")
    header = (tmp_path / "dense.h").read_text()
    assert "#define DENSE_PACKED_W 192 /* bytes */" in header and "#define DENSE_PACKED_b 40 /* bytes */" in header
    assert "int dense_pack_W(const float *W, float *packed);" in header
    assert " * W: constant, as dense_pack_W packed it, DENSE_PACKED_W bytes, read" in header
    check_constants(tmp_path, "dense.so", 48)
    dense = function(tmp_path, "dense.so", "dense")
    a, b, c = (np.zeros(n, np.float32) for n in (24, 10, 60))
    assert dense(a, None, b, c) == 2 and function(tmp_path, "dense.so", "dense_pack_W")(a, None) == 2
    memory = np.zeros(120, np.float32)
    assert dense(a, memory[59:107], b, memory[:60]) == 2, "what is written overlaps the packed array"
    assert dense(a, memory[60:108], b, memory[:60]) == 0


@needs_cc
def test_a_program_in_c_packs_its_weights(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dense.ms").write_text(CONSTANT)
    build(run, "dense.ms:ahead", "-o", "dense.o", "-o", "dense.h", "--name", "layer")
    source = """#include <stdio.h>
    #include "dense.h"
    int main(void) {
        static float a[24], w[40], b[10], c[60], kept[10];
        static _Alignas(64) char packed[LAYER_PACKED_W];
        for (int i = 0; i < 24; i++) a[i] = (float)i;
        for (int i = 0; i < 40; i++) w[i] = (float)(i % 7);
        for (int i = 0; i < 10; i++) b[i] = 100.0f * (float)i;
        if (layer_pack_W(w, (float *)packed) != MSLANG_OK || layer_pack_b(b, kept) != MSLANG_OK) return 1;
        if (layer(a, (float *)packed, kept, c) != MSLANG_OK) return 1;
        for (int i = 0; i < 60; i++) {
            float sum = b[i % 10];
            for (int k = 0; k < 4; k++) sum += a[i / 10 * 4 + k] * w[k * 10 + i % 10];
            if (c[i] != sum) return 1;
        }
        printf("%d", LAYER_PACKED_W);
        return 0;
    }
    """
    assert compiled(tmp_path, source, "dense.o") == "192"


@needs_cc
def test_packed_constants_fit_the_code_that_is_chosen(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dense.ms").write_text(CONSTANT.replace("on avx512", ""))
    build(run, "dense.ms:wide", "--target", "avx512", "--target", "avx2", "-o", "dense.so", "-o", "dense.h")
    header = (tmp_path / "dense.h").read_text()
    # One panel of 16 lanes, or two of 8: 64 elements; the fallback's panels are narrower.
    assert "#define DENSE_PACKED_W 256 /* bytes */" in header
    check_constants(tmp_path, "dense.so", 64)


def test_buckets_must_agree_on_the_layout_of_a_constant() -> None:
    p = ms.parse_program("""program p[M: dyn(1..64, buckets = [8])](
        A: f32[M, 4], const W: f32[4, 8], out C: f32[M, 8]
    ) {
        block mm[i: M, j: 8 | k: 4] { C[i, j] += A[i, k] * W[k, j] }
    }""")
    layouts = ("fn (k, j) -> [j // 4, k, j % 4]", "fn (k, j) -> [j // 2, k, j % 2]")
    texts = (f"schedule s for p {{ mm.transform_layout(W, {m}) }}" for m in layouts)
    one, two = (space_of_text(text, p).sample(0).program for text in texts)
    (bucket, *_) = buckets_of(p)
    for other, same in ((one, True), (two, False)):
        parts = [LibraryPart(one, GENERIC), LibraryPart(other, GENERIC, bucket)]
        if same:
            assert library(parts, "p", "p", False, LLVM.lowered).forms[".h"]()
            continue
        with pytest.raises(ms.MsError) as caught:
            library(parts, "p", "p", False, LLVM.lowered)
        assert caught.value.diagnostic.code == "MS455"


@needs_cc
def test_a_parameter_may_be_called_as_the_caller_s_array_of_another(run: Run, tmp_path: Path) -> None:
    """The library wrote the packed array of `X` to the input `X_given`; and sizes are divided as the language says."""
    (tmp_path / "named.ms").write_text("""program named[M: dyn(2..64)](
        inout X: f32[5] = packed([4], fn (i) -> [3 - i], pad = 9.0),
        X_given: f32[4],
        A: f32[(M - 10) // 4 + 3],
        out C: f32[M],
    ) {
        block a[i: 4] { X[i] = X[i] + X_given[i] * 10.0 }
        block c[i: M] { C[i] = A[0] }
    }
    schedule s for named { }
    """)
    build(run, "named.ms:s", "-o", "named.so")
    x, g = np.arange(1, 5, dtype=np.float32), np.arange(10, 50, 10, dtype=np.float32)
    kernel = ms.build(ms.load(tmp_path / "named.ms").program("named"))
    memory = np.arange(9, dtype=np.float32)
    own, c = x.copy(), np.zeros(4, np.float32)
    kernel(own, g, memory[:1].copy(), c)
    given = g.copy()
    # (4 - 10) // 4 + 3 is 1: what follows A is C's.
    assert function(tmp_path, "named.so", "named")(x, given, memory[:1], memory[1:5], 4) == 0
    assert (x == own).all() and (given == g).all() and (memory[1:5] == c).all()


def test_a_workspace_that_no_machine_has_is_refused() -> None:
    """The bytes of the largest call wrapped round at 64 bits."""
    program = ms.parse_program("""program p[M: dyn(1..2147483648)](A: f32[M], out C: f32[M]) {
        alloc t: f32[M, M]
        block b[i: M] { t[i, i] = A[i] }
        block c[i: M] { C[i] = t[i, i] }
    }""")
    with pytest.raises(ms.MsError, match="MS141"):
        ms.build(program)


def test_programs_may_be_called_like_a_librarys_own_functions() -> None:
    """The library's functions took these names for themselves: LLVM refused the module."""
    called = ("processors", "word", "take_part", "wake", "cpuid", "choose", "chosen", "mslang_pool_state")
    for name in (*called, "sched_getcpu", "pthread_sigmask"):
        text = "(A: f32[8], out C: f32[8]) { for i in 8 @ parallel { block b[v: 8 = i] { C[v] = A[v] } } }"
        program = ms.parse_program(f"program {name}{text}")
        parts = [LibraryPart(program, t) for t in (GENERIC, named_target("avx2"))]
        assert library(parts, name, f"{name}.ms", False, LLVM.lowered).forms[".o"]()
