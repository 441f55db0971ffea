"""Device functions for what the language defines and CUDA C does not: printed before the kernels that call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

PREFIX = "ms_"
"""How the names of all of them begin; no name of a program is printed with it."""

_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "ms_vector": """
// Elements that one instruction loads or stores.
template <typename T, int N> struct __align__(N * sizeof(T)) ms_vector { T lane[N]; };
""",
        "ms_min": """
template <typename T> static __device__ __forceinline__ T ms_min(T a, T b) { return b < a ? b : a; }
""",
        "ms_max": """
template <typename T> static __device__ __forceinline__ T ms_max(T a, T b) { return a < b ? b : a; }
""",
        "ms_divide": """
// Floor division; 0 for a divisor of 0.
template <typename T> static __device__ __forceinline__ T ms_divide(T a, T b) {
    if (b == 0) return 0;
    if (b == (T)-1) return (T)(0 - (unsigned long long)a);
    T q = a / b;
    return a % b != 0 && (a ^ b) < 0 ? q - 1 : q;
}
""",
        "ms_modulo": """
// The remainder of floor division, of the divisor's sign; 0 for a divisor of 0.
template <typename T> static __device__ __forceinline__ T ms_modulo(T a, T b) {
    if (b == 0 || b == (T)-1) return 0;
    T r = a % b;
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}
""",
        "ms_udivide": """
template <typename T> static __device__ __forceinline__ T ms_udivide(T a, T b) { return b == 0 ? 0 : a / b; }
""",
        "ms_umodulo": """
template <typename T> static __device__ __forceinline__ T ms_umodulo(T a, T b) { return b == 0 ? 0 : a % b; }
""",
        "ms_shl": """
// `bits` is the width of the type; counts outside of it shift everything out.
template <typename T> static __device__ __forceinline__ T ms_shl(T a, T n, int bits) {
    return (unsigned long long)n < (unsigned long long)bits ? (T)((unsigned long long)a << n) : (T)0;
}
""",
        "ms_shr": """
template <typename T> static __device__ __forceinline__ T ms_shr(T a, T n, int bits) {
    if ((unsigned long long)n < (unsigned long long)bits) return (T)(a >> n);
    return a < 0 ? (T)-1 : (T)0;
}
""",
        "ms_ushr": """
template <typename T> static __device__ __forceinline__ T ms_ushr(T a, T n, int bits) {
    return n < (T)bits ? (T)(a >> n) : (T)0;
}
""",
        "ms_to_odd": """
// A 64-bit integer as a double that rounds to a narrower type as the integer does.
template <typename T> static __device__ __forceinline__ double ms_to_odd(T a) {
    double whole = (double)a;
    if (fabs(whole) < 9007199254740992.0) return whole;
    return (double)((a >> 16) | (T)((a & 0xFFFF) != 0)) * 65536.0;
}
""",
        "ms_maximum": """
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
""",
        "ms_minimum": """
// minimum of IEEE 754-2019.
static __device__ __forceinline__ float ms_minimum(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    if (a != a || b != b) return a + b;
    if (a == b) return __int_as_float(__float_as_int(a) | __float_as_int(b));
    return a < b ? a : b;
#endif
}
static __device__ __forceinline__ double ms_minimum(double a, double b) {
    if (a != a || b != b) return a + b;
    if (a == b) return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
    return a < b ? a : b;
}
""",
        "ms_sigmoid": """
static __device__ __forceinline__ float ms_sigmoid(float x) {
    float e = expf(-fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}
static __device__ __forceinline__ double ms_sigmoid(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}
""",
        "ms_copy_async": """
// Copies N bytes from global to shared memory, in the background.
template <int N> static __device__ __forceinline__ void ms_copy_async(void* to, const void* from) {
    unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" : : "r"(at), "l"(from), "n"(N) : "memory");
}
""",
        "ms_copy_async_wide": """
// 16 bytes, past the first-level cache.
static __device__ __forceinline__ void ms_copy_async_wide(void* to, const void* from) {
    unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(at), "l"(from) : "memory");
}
""",
        "ms_copy_commit": """
static __device__ __forceinline__ void ms_copy_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
""",
        "ms_copy_wait": """
// Until at most N groups of copies are under way.
template <int N> static __device__ __forceinline__ void ms_copy_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}
""",
        "ms_atomic_float": """
// `*p = f(*p, v)`, indivisibly. The first guess is 0: a plain read would race with the updates of other threads.
template <typename F> static __device__ __forceinline__ void ms_atomic_float(float* p, float v, F f) {
    int old = 0, seen;
    do {
        seen = old;
        old = atomicCAS((int*)p, seen, __float_as_int(f(__int_as_float(seen), v)));
    } while (old != seen);
}
template <typename F> static __device__ __forceinline__ void ms_atomic_float(double* p, double v, F f) {
    unsigned long long old = 0, seen;
    do {
        seen = old;
        double next = f(__longlong_as_double((long long)seen), v);
        old = atomicCAS((unsigned long long*)p, seen, (unsigned long long)__double_as_longlong(next));
    } while (old != seen);
}
""",
        "ms_larger": """
struct ms_larger {
    template <typename T> __device__ __forceinline__ T operator()(T a, T b) const { return ms_maximum(a, b); }
};
""",
        "ms_smaller": """
struct ms_smaller {
    template <typename T> __device__ __forceinline__ T operator()(T a, T b) const { return ms_minimum(a, b); }
};
""",
    }
)

_WORD = re.compile(r"\bms_\w+")


def prelude(used: Iterable[str]) -> str:
    """The functions of these names and those that they call, in the order of the table.

    >>> print(prelude(["ms_min"]).strip())
    template <typename T> static __device__ __forceinline__ T ms_min(T a, T b) { return b < a ? b : a; }
    """
    todo, found = list(used), set[str]()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [w for w in _WORD.findall(_TEXTS[name]) if w in _TEXTS]
    return "".join(text.lstrip("\n") for name, text in _TEXTS.items() if name in found)
