// Half precision: every operation is that of the wider type, rounded once (24 >= 2 * 11 + 2 bits, so no double rounding).
#pragma once
#include "cuda_emulation.h"

extern "C" {
unsigned short emulated_to_half(float) __attribute__((const));
unsigned short emulated_double_to_half(double) __attribute__((const));
float emulated_from_half(unsigned short) __attribute__((const));
unsigned short emulated_fma_half(unsigned short, unsigned short, unsigned short) __attribute__((const));
}

struct __half {
    unsigned short bits;
    __half() = default;
    __half(float x) : bits(emulated_to_half(x)) {}
    __half(double x) : bits(emulated_double_to_half(x)) {}
    __half(int x) : bits(emulated_double_to_half(x)) {}
    __half(unsigned x) : bits(emulated_double_to_half(x)) {}
    __half(long long x) : bits(emulated_double_to_half((double)x)) {}
    operator float() const { return emulated_from_half(bits); }
};
typedef __half half;
struct __half_raw { unsigned short x; };
struct __align__(4) __half2 { __half x, y; };
typedef __half2 half2;

inline __half emulated_half_of(unsigned short bits) {
    __half h;
    h.bits = bits;
    return h;
}
inline float __half2float(__half h) { return (float)h; }
inline __half __float2half(float x) { return __half(x); }
inline __half __float2half_rn(float x) { return __half(x); }
inline __half __double2half(double x) { return __half(x); }
inline __half __int2half_rn(int x) { return __half(x); }
inline __half __uint2half_rn(unsigned x) { return __half(x); }
inline __half __ll2half_rn(long long x) { return __half(x); }
inline __half __ushort_as_half(unsigned short x) { return emulated_half_of(x); }
inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline short __half_as_short(__half h) { return (short)h.bits; }
inline __half __short_as_half(short x) { return emulated_half_of((unsigned short)x); }
#define EMULATED_ARITHMETIC(H, operation, name)                                                                        \
    inline H operator operation(H a, H b) { return H((float)a operation (float)b); }                                   \
    inline H& operator operation##=(H& a, H b) { return a = a operation b; }                                           \
    inline H name(H a, H b) { return a operation b; }
#define EMULATED_COMPARISON(H, operation, name)                                                                        \
    inline bool operator operation(H a, H b) { return (float)a operation (float)b; }                                   \
    inline bool name(H a, H b) { return (float)a operation (float)b; }
#define EMULATED_NARROW(H)                                                                                             \
    EMULATED_ARITHMETIC(H, +, __hadd) EMULATED_ARITHMETIC(H, -, __hsub)                                                \
    EMULATED_ARITHMETIC(H, *, __hmul) EMULATED_ARITHMETIC(H, /, __hdiv)                                                \
    EMULATED_COMPARISON(H, <, __hlt) EMULATED_COMPARISON(H, <=, __hle) EMULATED_COMPARISON(H, >, __hgt)                \
    EMULATED_COMPARISON(H, >=, __hge) EMULATED_COMPARISON(H, ==, __heq) EMULATED_COMPARISON(H, !=, __hne)              \
    inline H __hadd_rn(H a, H b) { return a + b; }                                                                     \
    inline H __hsub_rn(H a, H b) { return a - b; }                                                                     \
    inline H __hmul_rn(H a, H b) { return a * b; }                                                                     \
    inline H operator-(H a) { a.bits ^= 0x8000; return a; }                                                            \
    inline H __hneg(H a) { return -a; }                                                                                \
    inline H __habs(H a) { a.bits &= 0x7fff; return a; }                                                               \
    inline bool __hisnan(H a) { return __builtin_isnan((float)a); }                                                    \
    inline H __hmax(H a, H b) { return H(fmaxf(a, b)); }                                                               \
    inline H __hmin(H a, H b) { return H(fminf(a, b)); }                                                               \
    inline H hsqrt(H a) { return H(sqrtf(a)); }                                                                        \
    inline H hrsqrt(H a) { return H((float)(1.0 / sqrt((double)(float)a))); }                                          \
    inline H hexp(H a) { return H(expf(a)); }                                                                          \
    inline H hexp2(H a) { return H(exp2f(a)); }                                                                        \
    inline H hlog(H a) { return H(logf(a)); }                                                                          \
    inline H hlog2(H a) { return H(log2f(a)); }                                                                        \
    inline H hsin(H a) { return H(sinf(a)); }                                                                          \
    inline H hcos(H a) { return H(cosf(a)); }                                                                          \
    inline H hfloor(H a) { return H(floorf(a)); }                                                                      \
    inline H hceil(H a) { return H(ceilf(a)); }                                                                        \
    inline H htrunc(H a) { return H(truncf(a)); }                                                                      \
    inline H hrint(H a) { return H(rintf(a)); }                                                                        \
    inline H hrcp(H a) { return H(1.0f / (float)a); }                                                                  \
    __attribute__((no_sanitize_thread, noinline)) static H atomicAdd(H* at, H value) {                                 \
        emulated_atomic(at, sizeof(H));                                                                                \
        H old = *at;                                                                                                   \
        *at = old + value;                                                                                             \
        return old;                                                                                                    \
    }
#define EMULATED_PAIRS(H, P, name)                                                                                     \
    inline P name(P a, P b) { return {name(a.x, b.x), name(a.y, b.y)}; }
EMULATED_NARROW(__half)
inline __half __hfma(__half a, __half b, __half c) { return emulated_half_of(emulated_fma_half(a.bits, b.bits, c.bits)); }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline float __low2float(__half2 p) { return p.x; }
inline float __high2float(__half2 p) { return p.y; }
inline __half __low2half(__half2 p) { return p.x; }
inline __half __high2half(__half2 p) { return p.y; }
inline float2 __half22float2(__half2 p) { return {p.x, p.y}; }
inline __half2 __hadd2(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
inline __half2 __hsub2(__half2 a, __half2 b) { return {a.x - b.x, a.y - b.y}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
