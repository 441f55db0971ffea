#include <cuda_fp16.h>

// Elements that one instruction loads or stores.
template <typename T, int N> struct __align__(N * sizeof(T)) ms_vector { T lane[N]; };
// maximum of IEEE 754-2019: NaN propagates, -0 is less than +0.
static __device__ __forceinline__ float ms_maximum(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    if (a != a || b != b) return a + b;
    if (a == b) return __int_as_float(__float_as_int(a) & __float_as_int(b));
    return a > b ? a : b;
#endif
}
static __device__ __forceinline__ double ms_maximum(double a, double b) {
    if (a != a || b != b) return a + b;
    if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
    return a > b ? a : b;
}

extern "C" __global__ void __launch_bounds__(256) halves(
    const __half* __restrict__ X, const __half* __restrict__ Y, __half* __restrict__ out
) {
    const int bx = (int)blockIdx.x;
    const int by = (int)blockIdx.y;
    const int tx = (int)threadIdx.x;
    const ms_vector<__half, 8> X_vector = *(const ms_vector<__half, 8>*)(X + ((long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8)));
    *(ms_vector<__half, 8>*)(out + ((long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8))) = ms_vector<__half, 8>{{__half2float(X_vector.lane[0]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[0]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8)]))) : __hneg(X_vector.lane[0]), __half2float(X_vector.lane[1]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[1]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8) + 1LL]))) : __hneg(X_vector.lane[1]), __half2float(X_vector.lane[2]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[2]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8) + 2LL]))) : __hneg(X_vector.lane[2]), __half2float(X_vector.lane[3]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[3]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8) + 3LL]))) : __hneg(X_vector.lane[3]), __half2float(X_vector.lane[4]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[4]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8) + 4LL]))) : __hneg(X_vector.lane[4]), __half2float(X_vector.lane[5]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[5]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8) + 5LL]))) : __hneg(X_vector.lane[5]), __half2float(X_vector.lane[6]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[6]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8) + 6LL]))) : __hneg(X_vector.lane[6]), __half2float(X_vector.lane[7]) < __half2float(__float2half_rn(0.5f)) ? __float2half_rn(ms_maximum(__half2float(X_vector.lane[7]), __half2float(Y[(long long)by * 4294967296LL + (long long)bx * 65536LL + (long long)(tx * 8) + 7LL]))) : __hneg(X_vector.lane[7])}};
}
