// Asynchronous copies: the bytes move when their group is waited for.
#pragma once
#include "cuda_emulation.h"
inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    emulated_copy_async(to, from, (unsigned)bytes, (unsigned)(bytes - zeros));
}
inline void __pipeline_commit() { emulated_commit_async(); }
inline void __pipeline_wait_prior(size_t pending) { emulated_wait_async((unsigned)pending); }
