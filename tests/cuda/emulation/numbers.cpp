// Conversions between formats, to the nearest, ties to even.
#include <math.h>
#include <stdint.h>
#include <string.h>

namespace {

uint64_t bits_of(double x) {
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
}

// A double as a number of `exponent` and `mantissa` bits.
uint16_t narrowed(double x, int exponent, int mantissa) {
    uint64_t b = bits_of(x);
    uint16_t sign = (uint16_t)(b >> 63 << 15);
    int bias = (1 << (exponent - 1)) - 1, top = (1 << exponent) - 1;
    if (isnan(x)) return (uint16_t)(0x7fff);
    if (isinf(x)) return (uint16_t)(sign | top << mantissa);
    if (x == 0) return sign;
    int e;
    double f = frexp(fabs(x), &e);  // f in [0.5, 1)
    e -= 1;
    int bits = mantissa;  // of the fraction after the leading 1
    if (e < 1 - bias) bits -= 1 - bias - e;
    if (bits < -1) return sign;
    double scaled = ldexp(f * 2, bits), whole = floor(scaled), rest = scaled - whole;
    uint64_t n = (uint64_t)whole;
    if (rest > 0.5 || (rest == 0.5 && n & 1)) ++n;
    // A carry out of the fraction is a carry into the exponent.
    uint64_t r = e < 1 - bias ? n : n + ((uint64_t)(e + bias - 1) << mantissa);
    if (r >= (uint64_t)top << mantissa) r = (uint64_t)top << mantissa;
    return (uint16_t)(sign | r);
}

// a * b + c where a * b is exact in a double: rounded to odd, so that a second rounding does no harm.
double sum_to_odd(double p, double c) {
    double s = p + c, t = s - p, error = (p - (s - t)) + (c - t);
    if (error == 0 || isinf(s) || isnan(s)) return s;
    uint64_t b = bits_of(s);
    if (b & 1) return s;
    return nextafter(s, error > 0 ? INFINITY : -INFINITY);
}

}  // namespace

extern "C" {
unsigned short emulated_double_to_half(double x) { return narrowed(x, 5, 10); }
unsigned short emulated_to_half(float x) { return narrowed(x, 5, 10); }
unsigned short emulated_double_to_bf16(double x) { return narrowed(x, 8, 7); }
unsigned short emulated_to_bf16(float x) { return narrowed(x, 8, 7); }
float emulated_from_half(unsigned short h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                      : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                     : ldexpf((float)fraction, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}
static float from_bf16(unsigned short h) {
    uint32_t b = (uint32_t)h << 16;
    float f;
    memcpy(&f, &b, 4);
    return f;
}
unsigned short emulated_fma_half(unsigned short a, unsigned short b, unsigned short c) {
    return narrowed(sum_to_odd((double)emulated_from_half(a) * emulated_from_half(b), emulated_from_half(c)), 5, 10);
}
unsigned short emulated_fma_bf16(unsigned short a, unsigned short b, unsigned short c) {
    return narrowed(sum_to_odd((double)from_bf16(a) * from_bf16(b), from_bf16(c)), 8, 7);
}
}
