"""`mslang build`: libraries that C programs call, ahead of time."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.aot.header import header
from mslang.backend.reference.interpret import run as interpret
from mslang.ir.expr import Const
from mslang.runtime.signature import Parameter, Signature, symbol
from mslang.runtime.timing import Timing

Run = Callable[..., subprocess.CompletedProcess[str]]
EXAMPLES = Path(__file__).parents[2] / "examples"
CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler")

DYNAMIC = """program scale[N: dyn(2..64, multiple = 2)](A: f32[N, 8], out B: f32[N, 8]) {
    block b[i: N, j: 8] { B[i, j] = A[i, j] * 3.0 }
}
schedule rows for scale { b.i.parallel()
  b.j.vectorize() }
"""

PACKED = """program pair(A: f32[6, 4], W: f32[4, 10], inout C: f32[6, 10]) {
    block mm[i: 6, j: 10 | k: 4] { C[i, j] += A[i, k] * W[k, j] }
}
schedule packed for pair {
    mm.transform_layout(W, fn (k, j) -> [j // 4, k, j % 4], pad = 0.0)
    mm.transform_layout(C, fn (i, j) -> [j, i])
    let i0, i1 = mm.i.split([_, 3])
    i0.parallel()
}
"""


def build(run: Run, *words: str) -> None:
    done = run("build", *words)
    assert done.returncode == 0, done.stderr


def compiled(folder: Path, source: str, *objects: str) -> str:
    """What a C program prints."""
    (folder / "main.c").write_text(source)
    words = [str(CC), "-std=c11", "-Wall", "-Werror", "-O1", "-o", "main", "main.c", *objects, "-lm", "-pthread"]
    subprocess.run(words, cwd=folder, check=True, timeout=120)
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def function(folder: Path, library: str, name: str) -> Callable[..., int]:
    """A function of a shared library, over arrays and sizes."""
    found = getattr(ctypes.CDLL(str(folder / library)), name)

    def call(*arguments: np.ndarray | int | None) -> int:
        passed = [
            ctypes.c_void_p(a.ctypes.data)
            if isinstance(a, np.ndarray)
            else ctypes.c_int64(a)
            if a is not None
            else None
            for a in arguments
        ]
        return int(found(*passed))

    return call


@needs_cc
@pytest.mark.parametrize("targets", [(), ("avx512", "generic", "avx2")], ids=["host", "dispatched"])
def test_the_example_gives_what_the_interpreter_gives(run: Run, tmp_path: Path, targets: tuple[str, ...]) -> None:
    sizes = ("--set", "M=64", "--set", "N=64", "--set", "K=64")
    chosen = [word for t in targets for word in ("--target", t)]
    build(run, str(EXAMPLES / "gemm.ms:tiled"), *sizes, *chosen, "-o", "gemm.h", "-o", "gemm.o")
    printed = compiled(tmp_path, (EXAMPLES / "c" / "main.c").read_text(), "gemm.o")
    program = ms.load(EXAMPLES / "gemm.ms").program("gemm", M=64, N=64, K=64)
    k = np.arange(64 * 64)
    expected = [
        interpret(
            program,
            {
                "A": ((k * 7 + t) % 13 - 6).astype(np.float32).reshape(64, 64),
                "B": ((k * 5 + t) % 11 - 5).astype(np.float32).reshape(64, 64),
            },
            check=False,
        )["C"]
        for t in range(2)
    ]
    assert (np.array(printed.split(), np.float32).reshape(2, 64, 64) == expected).all()


@needs_cc
def test_dynamic_sizes_and_parallel_loops_and_the_checks_of_arguments(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scale.ms").write_text(DYNAMIC)
    build(run, "scale.ms:rows", "-o", "libscale.so", "-o", "scale.h")
    text = (tmp_path / "scale.h").read_text()
    assert "int scale(const float *A, float *B, int64_t N);" in text
    assert " * N: from 2 to 64, a multiple of 2" in text and "int scale_set_threads(int n);" in text
    scale = function(tmp_path, "libscale.so", "scale")
    for n in (2, 64, 30):
        a, b = np.arange(n * 8, dtype=np.float32), np.zeros(n * 8, np.float32)
        assert scale(a, b, n) == 0
        assert (b == 3 * a).all()
    wide, b = np.zeros(600, np.float32), np.zeros(8 * 64, np.float32)
    for bad in (0, 3, 66, -2):
        assert scale(wide, b, bad) == 2
    assert scale(None, b, 2) == 2 and scale(wide, None, 2) == 2
    assert scale(wide[8:], wide, 2) == 2, "they overlap"
    assert scale(wide[16:], wide, 2) == 0, "they touch"
    shifted = np.zeros(65, np.uint8)[1:]
    assert scale(shifted, b, 2) == 2, "not aligned to an element"
    limit = ctypes.CDLL(str(tmp_path / "libscale.so")).scale_set_threads
    assert (limit(0), limit(3)) == (2, 0)
    # The pool runs already: a number is that of the calls which follow, no more than were started.
    a = np.arange(64 * 8, dtype=np.float32)
    for threads in (1, 2, 50):
        assert limit(threads) == 0
        assert scale(a, b, 64) == 0 and (b == 3 * a).all()


TAKEN = (
    "asm",
    "nullptr",
    "typeid",
    "requires",
    "char8_t",
    "thread_local",
    "unix",
    "int64_t",
    "_Bool",
    "delete",
    "SIZE_MAX",
    "MSLANG_STATUS",
)


@needs_cc
@pytest.mark.parametrize("language", [("-x", "c"), ("-std=gnu++20", "-x", "c++")])
def test_no_parameter_of_a_header_is_a_word_of_c_or_cpp(language: tuple[str, ...]) -> None:
    parameters = tuple(Parameter(name, "f32", (Const(2),), "in") for name in TAKEN)
    text = header("k", Signature("k", parameters), (("generic", ()),), "k.ms", False)
    subprocess.run([str(CC), *language, "-fsyntax-only", "-Wall", "-Werror", "-"], input=text, text=True, check=True)


def test_a_header_says_what_alignment_is_declared() -> None:
    parameters = (
        Parameter("A", "f32", (Const(8),), "in", align=32),
        Parameter("B", "f32", (Const(8),), "out", align=4),
    )
    text = header("k", Signature("k", parameters), (("generic", ()),), "k.ms", False)
    assert " * A: f32[8], row-major, read, aligned to 32 bytes\n * B: f32[8], row-major, written\n" in text


@pytest.mark.parametrize("name", ["div", "select", "index", "bind", "remove", "sin"])
def test_no_function_takes_the_place_of_the_system_s(name: str) -> None:
    assert symbol(name) == f"{name}_"


@needs_cc
def test_strides_that_hold_a_size_are_checked_at_the_call(run: Run, tmp_path: Path) -> None:
    (tmp_path / "spread.ms").write_text("""program spread[M: dyn(1..9)](
    A: f32[M, 4], out C: f32[M, 4] @ global(strides = [M, 1])
) {
    block b[i: M, j: 4] { C[i, j] = A[i, j] }
}
""")
    build(run, "spread.ms:spread", "-o", "libspread.so", "-o", "spread.h")
    spread = function(tmp_path, "libspread.so", "spread")
    for m in range(1, 10):
        a, c = np.arange(4 * m, dtype=np.float32), np.zeros(m * m + 4, np.float32)
        assert spread(a, c, m) == (2 if m in (2, 3) else 0), m


@needs_cc
def test_packed_parameters_are_packed_inside(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pair.ms").write_text(PACKED)
    build(run, "pair.ms:packed", "-o", "pair.so", "--name", "multiply")
    generator = np.random.default_rng(1)
    a, w, c = (generator.integers(-4, 5, s).astype(np.float32) for s in ((6, 4), (4, 10), (6, 10)))
    expected = c + a @ w
    assert function(tmp_path, "pair.so", "multiply")(a, w, c) == 0
    assert (c == expected).all()


@needs_cc
def test_several_kernels_and_forks_share_a_program(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scale.ms").write_text(DYNAMIC)
    for name in ("one", "two"):
        build(run, "scale.ms:rows", "--name", name, "-o", f"{name}.o", "-o", f"{name}.h")
    source = """#include <stdio.h>
    #include <sys/wait.h>
    #include <unistd.h>
    #include "one.h"
    #include "two.h"
    static int wrong(void) {
        float a[128], b[128], c[128];
        for (int i = 0; i < 128; i++) a[i] = (float)i;
        if (one(a, b, 16) != MSLANG_OK || two(b, c, 16) != MSLANG_OK) return 1;
        for (int i = 0; i < 128; i++) if (c[i] != 9.0f * (float)i) return 1;
        return 0;
    }
    int main(void) {
        if (one_set_threads(3) != MSLANG_OK || wrong()) return 1;
        pid_t child = fork();
        if (child == 0) _exit(wrong());
        int status = 1;
        waitpid(child, &status, 0);
        printf("%d %d", wrong(), status);
        return 0;
    }
    """
    assert compiled(tmp_path, source, "one.o", "two.o") == "0 0"


@needs_cc
def test_a_large_workspace_is_allocated(run: Run, tmp_path: Path) -> None:
    text = """program f(A: f32[80, 80], out B: f32[80, 80]) {
        alloc T: f32[80, 80]
        block t[i: 80, j: 80] { T[i, j] = A[i, j] + 1.0 }
        block b[i: 80, j: 80] { B[i, j] = T[79 - i, j] }
    }"""
    (tmp_path / "f.ms").write_text(text)
    build(run, "f.ms", "-o", "f.so", "-o", "f.ll")
    assert "aligned_alloc" in (tmp_path / "f.ll").read_text()
    a, b = np.arange(6400, dtype=np.float32).reshape(80, 80), np.zeros((80, 80), np.float32)
    assert function(tmp_path, "f.so", "f")(a, b) == 0
    assert (b == a[::-1] + 1).all()


def test_forms_without_a_linker_and_the_same_bytes_each_time(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scale.ms").write_text(DYNAMIC)
    outputs = [word for s in ("h", "o", "s", "ll") for word in ("-o", f"scale.{s}")]
    found = []
    for _ in range(2):
        build(run, "scale.ms:rows", *outputs, "--target", "generic")
        found.append([(tmp_path / f"scale.{s}").read_bytes() for s in ("h", "o", "s", "ll")])
    assert found[0] == found[1]
    head, code, assembly, ir = found[0]
    assert head.startswith(b"/* Made by mslang") and code[:4] == b"\x7fELF"
    assert b"scale:" in assembly and re.search(rb"define .*i32 @scale\(", ir)
    assert str(tmp_path).encode() not in b"".join(found[0])


def test_code_for_a_processor_that_is_not_this_one_is_never_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scale.ms").write_text(DYNAMIC)
    build(run, "scale.ms:rows", "--target", "avx512", "--target", "avx2", "-o", "scale.h", "-o", "scale.ll")
    head = (tmp_path / "scale.h").read_text()
    assert re.findall(r"Code for (\w+)", head) == ["avx512", "avx2", "generic"]
    ir = (tmp_path / "scale.ll").read_text()
    cpus = set(re.findall(r'"target-cpu"="([^"]*)"', ir))
    assert cpus == {"x86-64"} and '"tune-cpu"="skylake-avx512"' in ir


def test_the_fallback_of_a_schedule_that_needs_an_instruction(run: Run, tmp_path: Path) -> None:
    text = """intrin four(a: f32[4], out b: f32[4]) on cpu(avx2) {
    desc { block d[i: 4] { b[i] = a[i] * 3.0 } }
    impl llvm \"\"\"
        %x = load <4 x float>, ptr {a}, align 4
        %y = fmul <4 x float> %x, splat (float 3.0)
        store <4 x float> %y, ptr {b}, align 4
    \"\"\"
}
program times(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] * 3.0 } }
schedule fast for times { b.i.tensorize(four) }
"""
    (tmp_path / "times.ms").write_text(text)
    done = run("build", "times.ms:fast", "--target", "avx2", "--target", "avx512", "-o", "times.ll")
    assert done.returncode == 0, done.stderr
    assert "the generic code is that of the program without its schedule" in done.stderr
    alone = run("build", "times.ms:fast", "--target", "generic", "-o", "times.ll")
    assert alone.returncode == 3 and "MS418" in alone.stderr


def test_the_fastest_record_of_the_schedule_counts(run: Run, gemm: Path, tmp_path: Path) -> None:
    done = run("tune", "gemm.ms:tiled", "--trials", "3", "--patience", "3")
    assert done.returncode == 0, done.stderr
    with ms.Database(tmp_path / ".mslang" / "records.db", read_only=True) as database:
        best = database.top(n=1)[0]
    done = run("build", "gemm.ms:tiled", "-o", "gemm.ll")
    assert f"tiled for host: record {best.id} (" in done.stderr
    again = run("build", "gemm.ms:tiled", "--record", str(best.id), "-o", "same.ll")
    assert again.returncode == 0 and again.stderr == ""
    assert (tmp_path / "same.ll").read_bytes() == (tmp_path / "gemm.ll").read_bytes()
    drawn = run("build", "gemm.ms:tiled", "--seed", "1", "-o", "gemm.ll")
    assert drawn.returncode == 0 and drawn.stderr == ""
    # A record by another compiler counts only where there is none by this one, however fast it was.
    with ms.Database(tmp_path / ".mslang" / "records.db") as database:
        faster = replace(best.result, timing=Timing((1e-12,), 1))
        other = database.add(replace(best, compiler="reference 0.1.0", result=faster, id=None))
    done = run("build", "gemm.ms:tiled", "-o", "gemm.ll")
    assert f"tiled for host: record {best.id} (" in done.stderr
    with ms.Database(tmp_path / ".mslang" / "records.db") as database:
        database.remove(range(1, other.id or 0))
    done = run("build", "gemm.ms:tiled", "-o", "gemm.ll")
    assert f"tiled for host: record {other.id} (" in done.stderr and "compiled by reference 0.1.0" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "parts"),
    [
        (("-o", "gemm.exe"), 2, ["MS701", "unknown file suffix `.exe`", ".h, .ll, .s, .o, .so"]),
        (("-o", "gemm"), 2, ["MS701", "the name has no suffix"]),
        ((), 2, ["-o/--output"]),
        (("-o", "none/gemm.h"), 1, ["MS702", "there is no folder none"]),
        (("-o", "folder.h"), 1, ["MS702", "it is a folder"]),
        (("-o", "gemm.h", "--name", "a b"), 2, ["MS701", "`a b` is not a name of a C function"]),
        (("-o", "gemm.h", "--name", "double"), 2, ["MS701", "`double` is a word of C", "--name"]),
        (("-o", "gemm.o", "--name", "int"), 2, ["MS701", "`int` is a word of C", "--name"]),
        (("-o", "gemm.h", "--name", "int32_t"), 2, ["MS701", "`int32_t` is declared in each header", "--name"]),
        (("-o", "gemm.o", "--name", "MSLANG_OK"), 2, ["MS701", "`MSLANG_OK` is declared in each header", "--name"]),
        (("-o", "gemm.h", "--target", "avx3"), 1, ["MS703", "unknown target `avx3`"]),
        (("-o", "gemm.h", "--backend", "reference"), 3, ["MS454", "the back end reference makes no libraries"]),
        (("--out", "gemm.h"), 2, ["MS701"]),
    ],
)
def test_wrong_use_is_one_message(
    run: Run, gemm: Path, tmp_path: Path, words: tuple[str, ...], status: int, parts: list[str]
) -> None:
    (tmp_path / "folder.h").mkdir()
    before = sorted(tmp_path.iterdir())
    done = run("build", "gemm.ms:tiled", *words)
    assert done.returncode == status, done.stderr
    assert done.stderr.count("error[") == 1
    for part in parts:
        assert part in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_without_a_linker_the_status_is_3(
    run: Run, gemm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    done = run("build", "gemm.ms:tiled", "--seed", "0", "-o", "gemm.so")
    assert done.returncode == 3
    assert "MS453" in done.stderr and "there is no linker" in done.stderr and ".o" in done.stderr
    assert run("build", "gemm.ms:tiled", "--seed", "0", "-o", "gemm.o").returncode == 0


def test_a_library_is_for_cpus_or_for_a_gpu(run: Run, tmp_path: Path) -> None:
    (
        tmp_path / "copy.ms"
    ).write_text("""program copy[N = 64](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] } }
schedule any for copy { b.i.split([_, 8]) }
schedule cpu for copy on std.cpu.host { b.i.vectorize() }
schedule gpu for copy on cuda { b.i.bind(threadIdx.x) }
""")
    for schedule in ("any", "gpu"):
        done = run("build", f"copy.ms:{schedule}", "-o", "copy.h", "--target", "cuda", "--target", "avx2")
        assert done.returncode == 3 and "error[MS452]" in done.stderr, done.stderr
        assert "different back ends: llvm, cuda" in done.stderr
    for schedule, target in (("cpu", "cuda"), ("gpu", "avx2")):
        done = run("build", f"copy.ms:{schedule}", "-o", "copy.h", "--target", target)
        assert done.returncode == 2 and "another kind of target" in done.stderr, done.stderr
    assert not (tmp_path / "copy.h").exists()


GPU = """program twice[N: dyn(1..100000)](error: f32[N], out stream: f32[N]) {
    alloc T: f32[N] @ global(strides = [2])
    block t[i: N] { T[i] = error[i] * 2.0 }
    block b[i: N] { stream[i] = T[N - 1 - i] }
}
schedule gpu for twice on cuda {
    let t0, t1 = t.i.split([_, 128])
    t0.bind(blockIdx.x)
    t1.bind(threadIdx.x)
    let b0, b1 = b.i.split([_, 64])
    b0.bind(blockIdx.x)
    b1.bind(threadIdx.x)
}
schedule packed for twice on cuda {
    t.transform_layout(error, fn (i) -> [i // 4, i % 4], pad = 0.0)
}
"""

RUNTIME = """
#pragma once
#include <cstdio>
#include <cstdlib>
typedef int cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
struct dim3 { unsigned x, y, z; dim3(unsigned a, unsigned b, unsigned c) : x(a), y(b), z(c) {} };
static int cudaMallocAsync(void **p, long long n, cudaStream_t) {
    printf("malloc %lld\\n", n);
    *p = malloc(n);
    return 0;
}
static int cudaFreeAsync(void *p, cudaStream_t) { printf("free\\n"); free(p); return 0; }
static int cudaLaunchKernel(const void *, dim3 g, dim3 b, void **a, int shared, cudaStream_t) {
    printf("%u %u, %d, %d\\n", g.x, b.x, *(int *)a[2], shared);
    return 0;
}
"""
"""A CUDA runtime that says what is asked of it."""


def test_the_host_side_of_a_library_for_a_gpu(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gpu.ms").write_text(GPU)
    build(run, "gpu.ms:gpu", "-o", "twice.cu", "-o", "twice.h")
    head, source = (tmp_path / "twice.h").read_text(), (tmp_path / "twice.cu").read_text()
    declared = "int twice_launch(const float *error, float *stream, int64_t N, void *mslang_stream)"
    assert f"{declared};" in head and f'extern "C" {declared} {{' in source
    assert "<<<((N + 127) // 128, 1, 1), (128, 1, 1), 0>>>" in head
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    kernels = re.findall(r'extern "C" __global__ void \S+ (\w+)\(', source)
    assert len(kernels) == 2
    host = source[source.index("#include <cuda_runtime.h>") :]
    (tmp_path / "cuda_runtime.h").write_text(RUNTIME + "".join(f"static void {k}() {{}}\n" for k in kernels))
    calls = "int main() { float a[300], b[300]; int s = twice_launch(a, b, 300, 0);"
    calls += ' printf("%d %d\\n", s, twice_launch(a, b, 0, 0)); }'
    (tmp_path / "host.cpp").write_text(f'{host}\n#include "twice.h"\n{calls}\n')
    words = [compiler, "-I.", "-o", "host", "host.cpp"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=120)
    done = subprocess.run(["./host"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["malloc 2396", "3 128, 300, 0", "5 64, 300, 0", "free", "0 1"]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_library_for_a_gpu_compiles(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gpu.ms").write_text(GPU)
    build(run, "gpu.ms:gpu", "-o", "twice.cu", "-o", "twice.ptx", "-o", "twice.cubin")
    subprocess.run(["nvcc", "-arch=sm_80", "-c", "twice.cu", "-o", "twice.o"], cwd=tmp_path, check=True, timeout=300)
    assert ".entry" in (tmp_path / "twice.ptx").read_text()
    assert (tmp_path / "twice.cubin").read_bytes()[:4] == b"\x7fELF"


def test_a_library_for_a_gpu_packs_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gpu.ms").write_text(GPU)
    done = run("build", "gpu.ms:packed", "-o", "twice.h")
    assert done.returncode == 3 and "MS455" in done.stderr and "`error`" in done.stderr
    done = run("build", "gpu.ms:gpu", "-o", "twice.o")
    assert done.returncode == 2 and ".cu" in done.stderr
