// Reductions over a row by the threads of a block: by shuffles, and what the votes and warp barriers give.
#define FULL 0xffffffffu

extern "C" __global__ void row_sums(const float* __restrict__ A, float* __restrict__ sums, int n) {
    __shared__ float parts[32];
    float sum = 0.0f;
    for (int k = threadIdx.x; k < n; k += blockDim.x) sum += A[blockIdx.x * n + k];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(FULL, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();  // parts
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(FULL, sum, step);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}

extern "C" __global__ void votes(const int* __restrict__ A, unsigned* __restrict__ out) {
    int lane = threadIdx.x;
    unsigned ballot = __ballot_sync(FULL, A[lane] > 0);
    int all = __all_sync(FULL, A[lane] > -100), any = __any_sync(FULL, A[lane] > 100);
    int before = __shfl_up_sync(FULL, A[lane], 1), first = __shfl_sync(FULL, A[lane], 0, 8);
    out[lane] = ballot;
    out[32 + lane] = (unsigned)(all * 2 + any);
    out[64 + lane] = (unsigned)before;
    out[96 + lane] = (unsigned)first;
    out[128 + lane] = __reduce_add_sync(FULL, (unsigned)A[lane]);
}

// Neighbours through shared memory: within a warp, a warp's barrier is enough.
extern "C" __global__ void rotate(const float* __restrict__ A, float* __restrict__ B) {
    extern __shared__ float row[];
    row[threadIdx.x] = A[threadIdx.x];
    __syncwarp();  // row
    B[threadIdx.x] = row[threadIdx.x / 32 * 32 + (threadIdx.x + 1) % 32];
}

// A histogram: threads of all blocks add to one place.
extern "C" __global__ void histogram(const int* __restrict__ A, int* __restrict__ counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(counts + A[i], 1);
}

// Half of a warp asks the other half, which does not take part.
extern "C" __global__ void divergent_shuffle(float* __restrict__ B) {
    float x = threadIdx.x;
    if (threadIdx.x < 16) x = __shfl_xor_sync(FULL, x, 1);
    B[threadIdx.x] = x;
}
