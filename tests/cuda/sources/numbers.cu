// Conversions and arithmetic of narrow floats, one operation a kernel argument.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename H> __device__ float narrow(H x, H y, H z, int operation) {
    switch (operation) {
        case 0: return (float)(x + y);
        case 1: return (float)(x - y);
        case 2: return (float)(x * y);
        case 3: return (float)(x / y);
        case 4: return (float)hsqrt(__habs(x));
        case 5: return (float)__hfma(x, y, z);
        default: return (float)x;
    }
}

extern "C" __global__ void halves(const float* A, const float* B, const float* D, float* C, int operation) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    C[i] = narrow(__float2half_rn(A[i]), __float2half_rn(B[i]), __float2half_rn(D[i]), operation);
}

extern "C" __global__ void bfloats(const float* A, const float* B, const float* D, float* C, int operation) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    C[i] = narrow(__float2bfloat16_rn(A[i]), __float2bfloat16_rn(B[i]), __float2bfloat16_rn(D[i]), operation);
}

extern "C" __global__ void bytes(const int* __restrict__ A, const int* __restrict__ B, int* __restrict__ C) {
    int i = threadIdx.x;
    C[i] = __dp4a(A[i], B[i], i);
    C[32 + i] = (int)__dp4a((unsigned)A[i], (unsigned)B[i], (unsigned)i);
    C[64 + i] = (int)__byte_perm((unsigned)A[i], (unsigned)B[i], 0x3715);
}
