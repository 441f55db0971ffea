// C = A B with tiles in shared memory: A is M x K, B is K x N, tiles of 16.
extern "C" __global__ void __launch_bounds__(256) matmul(const float* __restrict__ A, const float* __restrict__ B,
                                                         float* __restrict__ C, int M, int N, int K) {
    __shared__ float a[16][17];
    __shared__ __align__(16) float b[16][16];
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[threadIdx.y][threadIdx.x] = i < M && k0 + threadIdx.x < K ? A[i * K + k0 + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] = j < N && k0 + threadIdx.y < K ? B[(k0 + threadIdx.y) * N + j] : 0.0f;
        __syncthreads();  // filled
#pragma unroll
        for (int k = 0; k < 16; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();  // used
    }
    if (i < M && j < N) C[i * N + j] = sum;
}
