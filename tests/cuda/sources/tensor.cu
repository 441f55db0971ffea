// One warp, one tile: the same product by wmma and by mma with ldmatrix.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void by_wmma(const __half* __restrict__ A, const __half* __restrict__ B, float* __restrict__ C) {
    using namespace nvcuda;
    __shared__ __align__(32) __half a[256], b[256];
    for (int i = threadIdx.x; i < 256; i += 32) {
        a[i] = A[i];
        b[i] = B[i];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(C, fc, 16, wmma::mem_row_major);
}

// C[16, 8] = A[16, 16] B[16, 8]; B in memory as it is, so that its rows are loaded transposed.
extern "C" __global__ void by_mma(const __half* __restrict__ A, const __half* __restrict__ B, float* __restrict__ C) {
    __shared__ __align__(16) __half a[256], b[128];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) a[i] = A[i];
    for (int i = lane; i < 128; i += 32) b[i] = B[i];
    __syncwarp();
    unsigned ra[4], rb[2];
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    unsigned at = (unsigned)__cvta_generic_to_shared(a + lane % 16 * 16 + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                 : "r"(at));
    at = (unsigned)__cvta_generic_to_shared(b + lane % 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(at));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%10, %11, %12, %13};"
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
                   "f"(c[3]));
    for (int i = 0; i < 4; ++i) C[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}

// C[16, 8] = A[16, 32] B[32, 8] of bytes; a register holds four of a row of A, four of a column of B.
extern "C" __global__ void by_s8(const signed char* __restrict__ A, const signed char* __restrict__ B,
                                 int* __restrict__ C) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned a[4], b[2];
    for (int r = 0; r < 4; ++r) a[r] = *(const unsigned*)(A + (g + r % 2 * 8) * 32 + t * 4 + r / 2 * 16);
    for (int r = 0; r < 2; ++r) {
        b[r] = 0;
        for (int i = 0; i < 4; ++i) b[r] |= (unsigned)(unsigned char)B[(t * 4 + i + r * 16) * 8 + g] << 8 * i;
    }
    int c[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < 4; ++i) C[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = c[i];
}

// An instruction by its meaning: a tile that 128 threads own together.
extern "C" __global__ void by_meaning(const float* __restrict__ A, float* __restrict__ C) {
    EMULATED_FRAGMENT(float, tile, 64, 128);
    EMULATED(128) {
        for (int i = 0; i < 64; ++i) tile[i] = 2.0f * A[blockIdx.x * 64 + i];
    }
    EMULATED(128) {
        for (int i = 0; i < 64; ++i) C[blockIdx.x * 64 + i] = tile[63 - i];
    }
}
