#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32) row_sums(
    const __half* __restrict__ X, float* __restrict__ out, int M
) {
    const int bx = (int)blockIdx.x;
    const int tx = (int)threadIdx.x;
    __align__(16) float total[1];
    total[0] = 0.0f;
    for (int step = 0; step < 8; ++step) {
        total[0] = total[0] + __half2float(X[bx * 256 + step * 32 + tx]);
    }
    total[0] = total[0] + __shfl_xor_sync(0xffffffff, total[0], 16);
    total[0] = total[0] + __shfl_xor_sync(0xffffffff, total[0], 8);
    total[0] = total[0] + __shfl_xor_sync(0xffffffff, total[0], 4);
    total[0] = total[0] + __shfl_xor_sync(0xffffffff, total[0], 2);
    total[0] = total[0] + __shfl_xor_sync(0xffffffff, total[0], 1);
    if (tx == 0) {
        out[bx] = total[0];
    }
}
