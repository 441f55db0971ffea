// bfloat16: every operation is that of float, rounded once.
#pragma once
#include "cuda_fp16.h"

extern "C" {
unsigned short emulated_to_bf16(float) __attribute__((const));
unsigned short emulated_double_to_bf16(double) __attribute__((const));
unsigned short emulated_fma_bf16(unsigned short, unsigned short, unsigned short) __attribute__((const));
}

struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) : bits(emulated_to_bf16(x)) {}
    __nv_bfloat16(double x) : bits(emulated_double_to_bf16(x)) {}
    __nv_bfloat16(int x) : bits(emulated_double_to_bf16(x)) {}
    operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
typedef __nv_bfloat16 nv_bfloat16;
struct __align__(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __nv_bfloat162 nv_bfloat162;

inline __nv_bfloat16 emulated_bf16_of(unsigned short bits) {
    __nv_bfloat16 h;
    h.bits = bits;
    return h;
}
inline float __bfloat162float(__nv_bfloat16 h) { return (float)h; }
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return emulated_bf16_of(x); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
EMULATED_NARROW(__nv_bfloat16)
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return emulated_bf16_of(emulated_fma_bf16(a.bits, b.bits, c.bits));
}
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
