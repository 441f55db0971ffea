// What a CUDA C file may use, declared for g++: no standard library, so that a file compiles in a tenth of a second.
// The definitions are in the runtime, which is built once.
#pragma once
#define MSLANG_EMULATION 1

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// `__shared__` is defined for each file: blocks run one after the other, so that a variable in shared memory is a static
// one, in a section that finds all of them.
#define __builtin_assume(condition) ((void)0)

typedef unsigned long long emulated_u64;
typedef decltype(sizeof(0)) size_t;

// ---- vectors -------------------------------------------------------------------------------------------------------
#define EMULATED_VECTORS(name, T)                                                                                      \
    struct name##1 { T x; };                                                                                           \
    struct __align__(2 * sizeof(T)) name##2 { T x, y; };                                                               \
    struct name##3 { T x, y, z; };                                                                                     \
    struct __align__(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) name##4 { T x, y, z, w; };                               \
    inline name##1 make_##name##1(T x) { return {x}; }                                                                 \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                         \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                                 \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATED_VECTORS(char, signed char)
EMULATED_VECTORS(uchar, unsigned char)
EMULATED_VECTORS(short, short)
EMULATED_VECTORS(ushort, unsigned short)
EMULATED_VECTORS(int, int)
EMULATED_VECTORS(uint, unsigned int)
EMULATED_VECTORS(longlong, long long)
EMULATED_VECTORS(ulonglong, unsigned long long)
EMULATED_VECTORS(float, float)
EMULATED_VECTORS(double, double)
#undef EMULATED_VECTORS

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// ---- threads -------------------------------------------------------------------------------------------------------
// Given in registers: a variable in memory would be an access of the kernel.
extern "C" {
uint3 emulated_thread_index() __attribute__((const));
uint3 emulated_block_index() __attribute__((const));
uint3 emulated_block_size() __attribute__((const));
uint3 emulated_grid_size() __attribute__((const));
void* emulated_dynamic_shared() __attribute__((const));
void emulated_syncthreads(int line);
int emulated_syncthreads_vote(int kind, int predicate, int line);
void emulated_syncwarp(unsigned mask, int line);
emulated_u64 emulated_shuffle(int kind, unsigned mask, emulated_u64 value, int lane, int width, int line);
unsigned emulated_vote(int kind, unsigned mask, int predicate, int line);
unsigned emulated_reduce(int kind, unsigned mask, unsigned value, int line);
unsigned emulated_active_mask();
void emulated_atomic(void* address, int bytes);
void emulated_trap(int line);
int emulated_enter(int threads, int line);
int emulated_leave(int threads, int line);
void* emulated_fragment(size_t bytes, int threads, int line);
void emulated_copy_async(void* to, const void* from, unsigned bytes, unsigned filled);
void emulated_commit_async();
void emulated_wait_async(unsigned pending);
unsigned emulated_shared_address(const void* pointer);
void* emulated_shared_pointer(unsigned address);
}
#define threadIdx (emulated_thread_index())
#define blockIdx (emulated_block_index())
#define blockDim (emulated_block_size())
#define gridDim (emulated_grid_size())
#define warpSize 32

#define __syncthreads() emulated_syncthreads(__LINE__)
#define __syncthreads_count(p) emulated_syncthreads_vote(0, !!(p), __LINE__)
#define __syncthreads_and(p) emulated_syncthreads_vote(1, !!(p), __LINE__)
#define __syncthreads_or(p) emulated_syncthreads_vote(2, !!(p), __LINE__)
inline unsigned emulated_mask() { return 0xffffffffu; }
inline unsigned emulated_mask(unsigned mask) { return mask; }
#define __syncwarp(...) emulated_syncwarp(emulated_mask(__VA_ARGS__), __LINE__)
#define __activemask() emulated_active_mask()
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
#define __trap() emulated_trap(__LINE__)

template <typename T> inline T emulated_shuffled(int kind, int line, unsigned mask, T value, int lane, int width = 32) {
    emulated_u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = emulated_shuffle(kind, mask, bits, lane, width, line);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
#define __shfl_sync(...) emulated_shuffled(0, __LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) emulated_shuffled(1, __LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) emulated_shuffled(2, __LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) emulated_shuffled(3, __LINE__, __VA_ARGS__)
#define __ballot_sync(mask, p) emulated_vote(0, mask, !!(p), __LINE__)
#define __all_sync(mask, p) ((int)emulated_vote(1, mask, !!(p), __LINE__))
#define __any_sync(mask, p) ((int)emulated_vote(2, mask, !!(p), __LINE__))
#define __reduce_add_sync(mask, v) emulated_reduce(0, mask, v, __LINE__)
#define __reduce_and_sync(mask, v) emulated_reduce(1, mask, v, __LINE__)
#define __reduce_or_sync(mask, v) emulated_reduce(2, mask, v, __LINE__)
#define __reduce_xor_sync(mask, v) emulated_reduce(3, mask, v, __LINE__)

// A statement of a group of `threads`: all arrive, the first runs it, then all go on.
#define EMULATED(threads)                                                                                              \
    for (int emulated_phase = emulated_enter(threads, __LINE__); emulated_phase;                                       \
         emulated_phase = emulated_leave(threads, __LINE__))                                                           \
        if (emulated_phase == 1)
#define EMULATED_FRAGMENT(type, name, elements, threads)                                                               \
    type* const name = (type*)emulated_fragment(sizeof(type) * (elements), threads, __LINE__)

// ---- atomics: each is one step, because threads change places only where they wait ------------------------------------
#define EMULATED_ATOMIC(name, T, result)                                                                               \
    __attribute__((no_sanitize_thread, noinline)) static T name(T* at, T value) {                                      \
        emulated_atomic(at, sizeof(T));                                                                                \
        T old = *at;                                                                                                   \
        *at = result;                                                                                                  \
        return old;                                                                                                    \
    }
#define EMULATED_ATOMICS(T)                                                                                            \
    EMULATED_ATOMIC(atomicAdd, T, old + value)                                                                         \
    EMULATED_ATOMIC(atomicSub, T, old - value)                                                                         \
    EMULATED_ATOMIC(atomicExch, T, value)                                                                              \
    EMULATED_ATOMIC(atomicMin, T, value < old ? value : old)                                                           \
    EMULATED_ATOMIC(atomicMax, T, value > old ? value : old)
#define EMULATED_BITS(T)                                                                                               \
    EMULATED_ATOMICS(T)                                                                                                \
    EMULATED_ATOMIC(atomicAnd, T, old & value)                                                                         \
    EMULATED_ATOMIC(atomicOr, T, old | value)                                                                          \
    EMULATED_ATOMIC(atomicXor, T, old ^ value)                                                                         \
    __attribute__((no_sanitize_thread, noinline)) static T atomicCAS(T* at, T compare, T value) {                      \
        emulated_atomic(at, sizeof(T));                                                                                \
        T old = *at;                                                                                                   \
        if (old == compare) *at = value;                                                                               \
        return old;                                                                                                    \
    }
EMULATED_BITS(int)
EMULATED_BITS(unsigned)
EMULATED_BITS(long long)
EMULATED_BITS(unsigned long long)
EMULATED_BITS(unsigned short)
EMULATED_ATOMIC(atomicAdd, float, old + value)
EMULATED_ATOMIC(atomicExch, float, value)
EMULATED_ATOMIC(atomicAdd, double, old + value)

// ---- functions -----------------------------------------------------------------------------------------------------
extern "C" {
#define EMULATED_MATH(name)                                                                                            \
    double name(double);                                                                                               \
    float name##f(float);
EMULATED_MATH(exp) EMULATED_MATH(exp2) EMULATED_MATH(exp10) EMULATED_MATH(expm1) EMULATED_MATH(log) EMULATED_MATH(log2)
EMULATED_MATH(log10) EMULATED_MATH(log1p) EMULATED_MATH(sqrt) EMULATED_MATH(cbrt) EMULATED_MATH(sin) EMULATED_MATH(cos)
EMULATED_MATH(tan) EMULATED_MATH(asin) EMULATED_MATH(acos) EMULATED_MATH(atan) EMULATED_MATH(sinh) EMULATED_MATH(cosh)
EMULATED_MATH(tanh) EMULATED_MATH(asinh) EMULATED_MATH(acosh) EMULATED_MATH(atanh) EMULATED_MATH(erf) EMULATED_MATH(erfc)
EMULATED_MATH(floor) EMULATED_MATH(ceil) EMULATED_MATH(trunc) EMULATED_MATH(round) EMULATED_MATH(rint) EMULATED_MATH(fabs)
EMULATED_MATH(nearbyint) EMULATED_MATH(lgamma) EMULATED_MATH(tgamma)
#undef EMULATED_MATH
double pow(double, double); float powf(float, float); double fmod(double, double); float fmodf(float, float);
double atan2(double, double); float atan2f(float, float); double hypot(double, double); float hypotf(float, float);
double fmax(double, double); float fmaxf(float, float); double fmin(double, double); float fminf(float, float);
double fma(double, double, double); float fmaf(float, float, float); double copysign(double, double);
float copysignf(float, float); double ldexp(double, int); float ldexpf(float, int);
double remainder(double, double); float remainderf(float, float); double nextafter(double, double);
float nextafterf(float, float);
int abs(int); long long llabs(long long);
}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __exp2f(float x) { return exp2f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
#undef isnan
#undef isinf
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
#define EMULATED_EXTREMES(T)                                                                                           \
    inline T min(T a, T b) { return b < a ? b : a; }                                                                   \
    inline T max(T a, T b) { return a < b ? b : a; }
EMULATED_EXTREMES(int) EMULATED_EXTREMES(unsigned) EMULATED_EXTREMES(long) EMULATED_EXTREMES(unsigned long)
EMULATED_EXTREMES(long long) EMULATED_EXTREMES(unsigned long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#define EMULATED_CAST(name, From, To)                                                                                  \
    inline To name(From from) {                                                                                        \
        To to;                                                                                                         \
        __builtin_memcpy(&to, &from, sizeof to);                                                                       \
        return to;                                                                                                     \
    }
EMULATED_CAST(__float_as_int, float, int) EMULATED_CAST(__int_as_float, int, float)
EMULATED_CAST(__float_as_uint, float, unsigned) EMULATED_CAST(__uint_as_float, unsigned, float)
EMULATED_CAST(__double_as_longlong, double, long long) EMULATED_CAST(__longlong_as_double, long long, double)

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
    return r;
}
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (unsigned char)(a >> 8 * i) * (unsigned char)(b >> 8 * i);
    return c;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned s = selector >> 4 * i;
        unsigned char byte = (unsigned char)(both >> 8 * (s & 7));
        r |= (unsigned)(s & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
    }
    return r;
}
template <typename T> inline T __ldg(const T* p) { return *p; }
template <typename T> inline T __ldcg(const T* p) { return *p; }
template <typename T> inline T __ldcs(const T* p) { return *p; }
template <typename T> inline void __stcs(T* p, T v) { *p = v; }
inline size_t __cvta_generic_to_shared(const void* p) { return emulated_shared_address(p); }

#include "ptx.h"

// ---- how the harness calls a kernel: arguments by address, as in cudaLaunchKernel -------------------------------------
template <int... I> struct emulated_pack {};
template <typename... P, int... I> __attribute__((no_sanitize_thread)) inline void emulated_apply(void (*f)(P...), void** a, emulated_pack<I...>) {
    f(*(P*)a[I]...);
}
template <typename... P> __attribute__((no_sanitize_thread)) inline void emulated_call(void (*f)(P...), void** a) {
    emulated_apply(f, a, emulated_pack<__integer_pack(sizeof...(P))...>());
}
