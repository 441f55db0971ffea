"""Matrix products by NumPy, which calls the BLAS that it is built with."""

import numpy

import mslang as ms

PRODUCT = """
program product[M = 64, N = 64, K = 64](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
"""

numpy_matmul = ms.LibraryCall("numpy_matmul", PRODUCT, numpy.matmul, out=True)
"""What the entry point names."""
