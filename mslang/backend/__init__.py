"""From kernels to what runs: the checking interpreter, and code generation through LLVM."""
