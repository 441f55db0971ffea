extern "C" __global__ void __launch_bounds__(256) histogram(
    const unsigned char* __restrict__ X, int* __restrict__ out
) {
    extern __shared__ __align__(128) unsigned char ms_shared[];
    const int bx = (int)blockIdx.x;
    const int tx = (int)threadIdx.x;
    int* const counts = (int*)(ms_shared + 0);
    counts[tx] = 0;
    __syncthreads();
    if (bx * 256 + tx < 100000) {
        const int value = (int)X[bx * 256 + tx];
        atomicAdd(&counts[value], 1);
    }
    __syncthreads();
    atomicAdd(&out[tx], counts[tx]);
}
