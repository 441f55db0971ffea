"""The LLVM back end: kernels to machine code."""
