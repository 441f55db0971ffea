"""What compiled kernels need at run time: linking, calling, timing, the pool of parallel loops. No compiler."""
