"""Kernels are linked wherever the system has memory for them: also where the next free memory is far away."""

import subprocess
import sys
import textwrap

import pytest

SCRIPT = textwrap.dedent(
    """
    import ctypes

    import numpy as np

    import mslang as ms
    from mslang.backend.llvm.compile import compile
    from mslang.lower.passes import lower
    from mslang.runtime.kernel import load
    from mslang.target.detect import host

    PAGE = 4096
    PRIVATE_ANONYMOUS_NORESERVE = 0x4022
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


    def reserve(count):
        return libc.mmap(None, count, 0, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)


    def program(n):
        return ms.parse_program(
            f"program p(A: f32[{n}], out B: f32[{n}]) {{ block b[i: {n}] {{ B[i] = exp(A[i]) * 1.25 }} }}"
        )


    made = [compile(lower(program(64 * k), host()), host()) for k in range(1, 6)]
    ms.build(program(16))(np.zeros(16, np.float32))
    # Above 3 GiB that are in use only those pages are free that are given back below: one more for each kernel.
    pages = reserve(64 * PAGE)
    far = reserve(3 << 30)
    while reserve(PAGE) > far:
        pass
    for k, code in enumerate(made, 1):
        libc.munmap(pages, k * PAGE)
        pages += (k + 1) * PAGE
        a = np.linspace(-1, 1, 64 * k).astype(np.float32)
        assert np.allclose(load(code.object, code.signature)(a), np.exp(a) * 1.25, rtol=1e-5)
    print("linked", len(made))
    """
)


@pytest.mark.skipif(sys.platform != "linux", reason="the addresses that the system gives are Linux's")
def test_code_and_constants_of_a_kernel_are_near_each_other():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.stdout == "linked 5\n", done.stderr
