// Elements that one instruction loads or stores.
template <typename T, int N> struct __align__(N * sizeof(T)) ms_vector { T lane[N]; };

extern "C" __global__ void __launch_bounds__(64) gemm(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ out
) {
    const int bx = (int)blockIdx.x;
    const int by = (int)blockIdx.y;
    const int tx = (int)threadIdx.x;
    __align__(16) float out_local[64];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            out_local[i * 8 + j] = 0.0f;
        }
    }
    __shared__ __align__(16) float A_shared[1276];
    __shared__ __align__(16) float B_shared[1024];
    for (int k0 = 0; k0 < 64; ++k0) {
        __syncthreads();
        for (int r = 0; r < 4; ++r) {
            const ms_vector<float, 4> A_vector = *(const ms_vector<float, 4>*)(A + (by * 65536 + r * 16384 + tx / 4 * 1024 + k0 * 16 + tx % 4 * 4));
            *(ms_vector<float, 4>*)(A_shared + (r * 320 + tx / 4 * 20 + tx % 4 * 4)) = A_vector;
        }
        for (int r_1 = 0; r_1 < 4; ++r_1) {
            const ms_vector<float, 4> B_vector = *(const ms_vector<float, 4>*)(B + (k0 * 16384 + r_1 * 4096 + tx / 16 * 1024 + bx * 64 + tx % 16 * 4));
            *(ms_vector<float, 4>*)(B_shared + (r_1 * 256 + tx * 4)) = B_vector;
        }
        __syncthreads();
        for (int k1 = 0; k1 < 16; ++k1) {
            #pragma unroll
            for (int i_1 = 0; i_1 < 8; ++i_1) {
                #pragma unroll
                for (int j_1 = 0; j_1 < 8; ++j_1) {
                    out_local[i_1 * 8 + j_1] = out_local[i_1 * 8 + j_1] + A_shared[tx / 8 * 160 + i_1 * 20 + k1] * B_shared[k1 * 64 + tx % 8 * 8 + j_1];
                }
            }
        }
    }
    #pragma unroll
    for (int i_2 = 0; i_2 < 8; ++i_2) {
        #pragma unroll
        for (int j_2 = 0; j_2 < 2; ++j_2) {
            const ms_vector<float, 4> out_local_vector = *(const ms_vector<float, 4>*)(out_local + (i_2 * 8 + j_2 * 4));
            *(ms_vector<float, 4>*)(out + (by * 65536 + tx / 8 * 8192 + i_2 * 1024 + bx * 64 + tx % 8 * 8 + j_2 * 4)) = out_local_vector;
        }
    }
}
