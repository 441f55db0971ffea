// Warp-level matrix instructions. What a lane holds is in the PTX manual: "Matrix fragments for mma.m16n8k*", "ldmatrix".
#include "runtime.h"

#include <string.h>

extern "C" {
float emulated_from_half(unsigned short);
unsigned short emulated_to_half(float);
void* emulated_shared_pointer(unsigned);
}

namespace {

enum Type { F16, BF16, TF32, S8, U8 };
enum Into { INTO_F32, INTO_F16, INTO_S32 };

float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

int bits_of(int type) { return type == TF32 ? 32 : type == S8 || type == U8 ? 8 : 16; }

// Element `i` of packed registers.
double element(int type, const void* data, int i) {
    switch (type) {
        case F16: return emulated_from_half(((const uint16_t*)data)[i]);
        case BF16: return float_of((uint32_t)((const uint16_t*)data)[i] << 16);
        // The tensor core ignores the low 13 bits.
        case TF32: return float_of(((const uint32_t*)data)[i] & ~0x1fffu);
        case S8: return ((const int8_t*)data)[i];
        default: return ((const uint8_t*)data)[i];
    }
}

struct Product {
    int type, into, k;
    void* d;
    const unsigned *a, *b;
    const void* c;
    int line;
};

// Row and column of a lane's element `i` of A (16 x k) and of B (k x 8); `per` elements in a register.
void place_a(int lane, int i, int per, int& row, int& column) {
    int r = i / per, group = lane / 4, in = lane % 4;
    row = group + 8 * (r % 2);
    column = in * per + i % per + 4 * per * (r / 2);
}
void place_b(int lane, int i, int per, int& row, int& column) {
    int r = i / per;
    row = lane % 4 * per + i % per + 4 * per * r;
    column = lane / 4;
}

template <typename T> T accumulate(T sum, double x, double y) { return (T)(sum + (T)x * (T)y); }

void multiply(void** all, unsigned, unsigned size) {
    static double a[16][32], b[32][8];
    const Product& p = *(const Product*)all[0];
    int per = 32 / bits_of(p.type);
    for (unsigned lane = 0; lane < size; ++lane) {
        const Product& q = *(const Product*)all[lane];
        for (int i = 0, row, column; i < 16 * p.k / 32; ++i) {
            place_a((int)lane, i, per, row, column);
            a[row][column] = element(p.type, q.a, i);
        }
        for (int i = 0, row, column; i < 8 * p.k / 32; ++i) {
            place_b((int)lane, i, per, row, column);
            b[row][column] = element(p.type, q.b, i);
        }
    }
    for (unsigned lane = 0; lane < size; ++lane) {
        const Product& q = *(const Product*)all[lane];
        for (int i = 0; i < 4; ++i) {
            int row = (int)lane / 4 + 8 * (i / 2), column = (int)lane % 4 * 2 + i % 2;
            if (p.into == INTO_S32) {
                int sum = ((const int*)q.c)[i];
                for (int k = 0; k < p.k; ++k) sum = (int)((uint32_t)sum + (uint32_t)((int)a[row][k] * (int)b[k][column]));
                ((int*)q.d)[i] = sum;
            } else {
                float sum = p.into == INTO_F32 ? ((const float*)q.c)[i] : emulated_from_half(((const uint16_t*)q.c)[i]);
                for (int k = 0; k < p.k; ++k) sum = accumulate(sum, a[row][k], b[k][column]);
                if (p.into == INTO_F32)
                    ((float*)q.d)[i] = sum;
                else
                    ((uint16_t*)q.d)[i] = emulated_to_half(sum);
            }
        }
    }
}

struct Rows {
    int count, transposed;
    unsigned* const* to;
    unsigned address;
    const void* code;
};

// Lane 8 j + i gives the address of row i of matrix j; a lane gets the elements 2 (lane % 4) and the next of row lane / 4.
void load_rows(void** all, unsigned first, unsigned size) {
    const Rows& p = *(const Rows*)all[0];
    for (int j = 0; j < p.count; ++j) {
        uint16_t matrix[8][8];
        for (int i = 0; i < 8; ++i) {
            const Rows& q = *(const Rows*)all[8 * j + i];
            const void* row = emulated_shared_pointer(q.address);
            shadow_access(first + 8 * j + i, row, 16, false, {q.code, 0});
            memcpy(matrix[i], row, 16);
        }
        for (unsigned lane = 0; lane < size; ++lane) {
            const Rows& q = *(const Rows*)all[lane];
            unsigned r = lane / 4, c = lane % 4 * 2;
            uint16_t x = q.transposed ? matrix[c][r] : matrix[r][c], y = q.transposed ? matrix[c + 1][r] : matrix[r][c + 1];
            *q.to[j] = (unsigned)y << 16 | x;
        }
    }
}

struct Fragments {
    int type, into, m, n, k;
    void* d;
    const void *a, *b, *c;
};

// Element e of a fragment is element e / 32 of lane e % 32, as in mma.h.
void multiply_fragments(void** all, unsigned, unsigned) {
    const Fragments& p = *(const Fragments*)all[0];
    auto of = [&](const void* Fragments::*part, int e) { return ((Fragments*)all[e % 32])->*part; };
    static double a[32 * 32], b[32 * 32];
    for (int e = 0; e < p.m * p.k; ++e) a[e] = element(p.type, of(&Fragments::a, e), e / 32);
    for (int e = 0; e < p.k * p.n; ++e) b[e] = element(p.type, of(&Fragments::b, e), e / 32);
    for (int e = 0; e < p.m * p.n; ++e) {
        int row = e / p.n, column = e % p.n, i = e / 32;
        void* d = ((Fragments*)all[e % 32])->d;
        const void* c = of(&Fragments::c, e);
        if (p.into == INTO_S32) {
            int sum = ((const int*)c)[i];
            for (int k = 0; k < p.k; ++k)
                sum = (int)((uint32_t)sum + (uint32_t)((int)a[row * p.k + k] * (int)b[k * p.n + column]));
            ((int*)d)[i] = sum;
            continue;
        }
        float sum = p.into == INTO_F32 ? ((const float*)c)[i] : emulated_from_half(((const uint16_t*)c)[i]);
        for (int k = 0; k < p.k; ++k) sum = accumulate(sum, a[row * p.k + k], b[k * p.n + column]);
        if (p.into == INTO_F32)
            ((float*)d)[i] = sum;
        else
            ((uint16_t*)d)[i] = emulated_to_half(sum);
    }
}

}  // namespace

extern "C" {

void emulated_mma(int type, int into, int k, void* d, const unsigned* a, const unsigned* b, const void* c, int line) {
    Product mine{type, into, k, d, a, b, c, line};
    arrive_warp(MMA + 16 * (type + 8 * into), ~0u, line, &mine, multiply);
}

void emulated_ldmatrix(unsigned* const* to, int count, int transposed, unsigned address, int line) {
    Rows mine{count, transposed, to, address, __builtin_return_address(0)};
    arrive_warp(LDMATRIX, ~0u, line, &mine, load_rows);
}

void emulated_wmma(int type, int into, int m, int n, int k, void* d, const void* a, const void* b, const void* c, int line) {
    Fragments mine{type, into, m, n, k, d, a, b, c};
    arrive_warp(WMMA, ~0u, line, &mine, multiply_fragments);
}
}
