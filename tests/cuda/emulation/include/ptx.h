// PTX instructions that inline assembly may name; a mnemonic's dots are underscores. What each lane holds is in the PTX
// manual, section 9.7 (warp-level matrix instructions, asynchronous copies).
#pragma once
extern "C" {
void emulated_ldmatrix(unsigned* const* registers, int count, int transposed, unsigned address, int line);
void emulated_stmatrix(const unsigned* registers, int count, int transposed, unsigned address, int line);
void emulated_mma(int type, int accumulator, int k, void* d, const unsigned* a, const unsigned* b, const void* c, int line);
}
namespace ptx {
inline void* shared(size_t address) { return emulated_shared_pointer((unsigned)address); }
inline void global(size_t) {}

#define PTX_LDMATRIX(suffix, transposed)                                                                               \
    inline void ldmatrix_sync_aligned_m8n8_x1##suffix(int line, unsigned& a, size_t at) {                              \
        unsigned* r[] = {&a};                                                                                          \
        emulated_ldmatrix(r, 1, transposed, (unsigned)at, line);                                                       \
    }                                                                                                                  \
    inline void ldmatrix_sync_aligned_m8n8_x2##suffix(int line, unsigned& a, unsigned& b, size_t at) {                 \
        unsigned* r[] = {&a, &b};                                                                                      \
        emulated_ldmatrix(r, 2, transposed, (unsigned)at, line);                                                       \
    }                                                                                                                  \
    inline void ldmatrix_sync_aligned_m8n8_x4##suffix(int line, unsigned& a, unsigned& b, unsigned& c, unsigned& d,    \
                                                      size_t at) {                                                     \
        unsigned* r[] = {&a, &b, &c, &d};                                                                              \
        emulated_ldmatrix(r, 4, transposed, (unsigned)at, line);                                                       \
    }
PTX_LDMATRIX(_shared_b16, 0)
PTX_LDMATRIX(_trans_shared_b16, 1)
#undef PTX_LDMATRIX

inline void cp_async_ca_shared_global(int, size_t to, const void* from, size_t bytes) {
    emulated_copy_async(shared(to), from, (unsigned)bytes, (unsigned)bytes);
}
inline void cp_async_ca_shared_global(int, size_t to, const void* from, size_t bytes, size_t filled) {
    emulated_copy_async(shared(to), from, (unsigned)bytes, (unsigned)filled);
}
inline void cp_async_cg_shared_global(int line, size_t to, const void* from, size_t bytes) {
    cp_async_ca_shared_global(line, to, from, bytes);
}
inline void cp_async_cg_shared_global(int line, size_t to, const void* from, size_t bytes, size_t filled) {
    cp_async_ca_shared_global(line, to, from, bytes, filled);
}
template <typename... T> inline void cp_async_ca_shared_global_L2_128B(T... t) { cp_async_ca_shared_global(t...); }
template <typename... T> inline void cp_async_cg_shared_global_L2_128B(T... t) { cp_async_ca_shared_global(t...); }
inline void cp_async_commit_group(int) { emulated_commit_async(); }
inline void cp_async_wait_group(int, size_t pending) { emulated_wait_async((unsigned)pending); }
inline void cp_async_wait_all(int) { emulated_commit_async(); emulated_wait_async(0); }

// Bulk copies and the barriers that they arrive at. A barrier is its word: what marks one, its phase, the arrivals and the
// bytes that it waits for. Each operation reads or writes the word, so that threads that share one race. Here only the
// thread that issued a copy waits for it, so that the bytes move when it waits; a thread that would wait for more traps.
struct Unused {};
constexpr Unused unused{};
typedef emulated_u64 Word;
constexpr Word BARRIER = 0xbaULL << 56, PHASE = 1ULL << 48, ARRIVAL = 1ULL << 32;
inline Word& barrier(size_t at) { return *(Word*)shared(at); }
__attribute__((no_sanitize_thread, noinline)) static bool is_barrier(size_t at) {
    return *(const volatile Word*)shared(at) >> 56 == BARRIER >> 56;
}
inline void require(bool holds, int line) { if (!holds) emulated_trap(line); }
inline void mbarrier_init_shared_cta_b64(int line, size_t at, size_t arrivals) {
    require(at % 8 == 0 && !is_barrier(at), line);
    barrier(at) = BARRIER + arrivals * ARRIVAL;
}
inline void mbarrier_inval_shared_cta_b64(int line, size_t at) {
    require(is_barrier(at), line);
    barrier(at) = 0;
}
inline void mbarrier_arrive_expect_tx_shared_cta_b64(int line, Unused, size_t at, size_t bytes) {
    require(is_barrier(at), line);
    barrier(at) += bytes - ARRIVAL;
}
inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(int line, size_t to, const void* from,
                                                                          size_t bytes, size_t at) {
    require(is_barrier(at) && bytes % 16 == 0, line);
    for (size_t k = 0; k < bytes; k += 16) emulated_copy_async((char*)shared(to) + k, (const char*)from + k, 16, 16);
    barrier(at) -= bytes;
}
inline void mbarrier_try_wait_parity_shared_cta_b64(int line, bool& done, size_t at, size_t parity) {
    require(is_barrier(at), line);
    emulated_commit_async();
    emulated_wait_async(0);
    if (barrier(at) % PHASE == 0) barrier(at) += PHASE;
    done = (barrier(at) / PHASE & 1) != parity;
    require(done, line);
}
inline void selp_u32(int, unsigned& d, unsigned a, unsigned b, bool p) { d = p ? a : b; }
inline void fence_proxy_async(int) {}
#define PTX_DOT(name, A, B)                                                                                              \
    template <typename D> inline void name(int, D& d, unsigned a, unsigned b, D c) {                                     \
        for (int i = 0; i < 32; i += 8) c += (D)(A)(a >> i) * (D)(B)(b >> i);                                            \
        d = c;                                                                                                           \
    }
PTX_DOT(dp4a_s32_s32, signed char, signed char)
PTX_DOT(dp4a_u32_s32, unsigned char, signed char)
PTX_DOT(dp4a_s32_u32, signed char, unsigned char)
PTX_DOT(dp4a_u32_u32, unsigned char, unsigned char)
#undef PTX_DOT

// The element types of the products, and their accumulators.
enum { F16, BF16, TF32, S8, U8 };
enum { INTO_F32, INTO_F16, INTO_S32 };
#define PTX_LIST(...) __VA_ARGS__
#define PTX_MMA_4(name, type, into, k, D, NA, A, NB, B)                                                                \
    inline void name(int line, D& d0, D& d1, D& d2, D& d3, PTX_LIST A, PTX_LIST B, D c0, D c1, D c2, D c3) {           \
        const unsigned a[] = {PTX_LIST NA}, b[] = {PTX_LIST NB};                                                       \
        const D c[] = {c0, c1, c2, c3};                                                                                \
        D d[4];                                                                                                        \
        emulated_mma(type, into, k, d, a, b, c, line);                                                                 \
        d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];                                                                    \
    }
#define PTX_MMA_2(name, type, k, NA, A, NB, B)                                                                         \
    inline void name(int line, unsigned& d0, unsigned& d1, PTX_LIST A, PTX_LIST B, unsigned c0, unsigned c1) {         \
        const unsigned a[] = {PTX_LIST NA}, b[] = {PTX_LIST NB}, c[] = {c0, c1};                                       \
        unsigned d[2];                                                                                                 \
        emulated_mma(type, INTO_F16, k, d, a, b, c, line);                                                             \
        d0 = d[0], d1 = d[1];                                                                                          \
    }
#define PTX_EXPANDED(macro, ...) macro(__VA_ARGS__)
#define PTX_A4 (a0, a1, a2, a3), (unsigned a0, unsigned a1, unsigned a2, unsigned a3)
#define PTX_A2 (a0, a1), (unsigned a0, unsigned a1)
#define PTX_B2 (b0, b1), (unsigned b0, unsigned b1)
#define PTX_B1 (b0), (unsigned b0)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, F16, INTO_F32, 16, float, PTX_A4, PTX_B2)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32, F16, INTO_F32, 8, float, PTX_A2, PTX_B1)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, BF16, INTO_F32, 16, float, PTX_A4, PTX_B2)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k8_row_col_f32_bf16_bf16_f32, BF16, INTO_F32, 8, float, PTX_A2, PTX_B1)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32, TF32, INTO_F32, 8, float, PTX_A4, PTX_B2)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k4_row_col_f32_tf32_tf32_f32, TF32, INTO_F32, 4, float, PTX_A2, PTX_B1)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32, S8, INTO_S32, 32, int, PTX_A4, PTX_B2)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k16_row_col_s32_s8_s8_s32, S8, INTO_S32, 16, int, PTX_A2, PTX_B1)
PTX_EXPANDED(PTX_MMA_4, mma_sync_aligned_m16n8k32_row_col_s32_u8_u8_s32, U8, INTO_S32, 32, int, PTX_A4, PTX_B2)
PTX_EXPANDED(PTX_MMA_2, mma_sync_aligned_m16n8k16_row_col_f16_f16_f16_f16, F16, 16, PTX_A4, PTX_B2)
PTX_EXPANDED(PTX_MMA_2, mma_sync_aligned_m16n8k8_row_col_f16_f16_f16_f16, F16, 8, PTX_A2, PTX_B1)

#define PTX_DP4A(name, A, B)                                                                                           \
    template <typename D, typename T> inline void name(int, D& d, T a, T b, D c) {                                     \
        unsigned sum = c;                                                                                               \
        for (int i = 0; i < 4; ++i) sum += (unsigned)((int)(A)(a >> 8 * i) * (int)(B)(b >> 8 * i));                    \
        d = (D)sum;                                                                                                    \
    }
PTX_DP4A(dp4a_s32_s32, signed char, signed char)
PTX_DP4A(dp4a_u32_s32, unsigned char, signed char)
PTX_DP4A(dp4a_s32_u32, signed char, unsigned char)
PTX_DP4A(dp4a_u32_u32, unsigned char, unsigned char)
#undef PTX_DP4A
}  // namespace ptx
