// nvcuda::wmma. How a fragment's elements lie on the lanes is not specified; here element e is on lane e % 32.
#pragma once
#include "cuda_bf16.h"
extern "C" {
void emulated_wmma(int type, int accumulator, int m, int n, int k, void* d, const void* a, const void* b, const void* c,
                   int line);
void emulated_arrive(int line);
}
namespace nvcuda {
namespace wmma {
struct matrix_a; struct matrix_b; struct accumulator;
struct row_major; struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; }
template <typename T> struct emulated_element { typedef T type; };
template <> struct emulated_element<precision::tf32> { typedef float type; };
template <typename T> struct emulated_type { enum { value = -1 }; };
template <> struct emulated_type<__half> { enum { value = ptx::F16 }; };
template <> struct emulated_type<__nv_bfloat16> { enum { value = ptx::BF16 }; };
template <> struct emulated_type<precision::tf32> { enum { value = ptx::TF32 }; };
template <> struct emulated_type<signed char> { enum { value = ptx::S8 }; };
template <> struct emulated_type<unsigned char> { enum { value = ptx::U8 }; };
template <typename T> struct emulated_into { enum { value = ptx::INTO_F32 }; };
template <> struct emulated_into<__half> { enum { value = ptx::INTO_F16 }; };
template <> struct emulated_into<int> { enum { value = ptx::INTO_S32 }; };
template <typename Use, int M, int N, int K> struct emulated_shape;
template <int M, int N, int K> struct emulated_shape<matrix_a, M, N, K> { enum { rows = M, columns = K }; };
template <int M, int N, int K> struct emulated_shape<matrix_b, M, N, K> { enum { rows = K, columns = N }; };
template <int M, int N, int K> struct emulated_shape<accumulator, M, N, K> { enum { rows = M, columns = N }; };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
    enum { rows = emulated_shape<Use, M, N, K>::rows, columns = emulated_shape<Use, M, N, K>::columns };
    enum { num_elements = rows * columns / 32 };
    typedef typename emulated_element<T>::type element;
    element x[num_elements];
};
template <typename L> struct emulated_order { enum { columns_first = 0 }; };
template <> struct emulated_order<col_major> { enum { columns_first = 1 }; };
inline int emulated_lane() {
    uint3 t = threadIdx, n = blockDim;
    return (t.x + n.x * (t.y + n.y * t.z)) % 32;
}
template <typename F, typename S> inline void emulated_load(F& f, const S* p, unsigned ld, bool columns_first) {
    emulated_arrive(0);
    for (int i = 0; i < F::num_elements; ++i) {
        int e = i * 32 + emulated_lane(), r = e / F::columns, c = e % F::columns;
        f.x[i] = columns_first ? p[c * ld + r] : p[r * ld + c];
    }
}
template <typename U, int M, int N, int K, typename T, typename L, typename S>
inline void load_matrix_sync(fragment<U, M, N, K, T, L>& f, const S* p, unsigned ld) {
    emulated_load(f, p, ld, emulated_order<L>::columns_first);
}
template <int M, int N, int K, typename T, typename S>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const S* p, unsigned ld, layout_t layout) {
    emulated_load(f, p, ld, layout == mem_col_major);
}
template <int M, int N, int K, typename T, typename S>
inline void store_matrix_sync(S* p, const fragment<accumulator, M, N, K, T>& f, unsigned ld, layout_t layout) {
    emulated_arrive(1);
    for (int i = 0; i < f.num_elements; ++i) {
        int e = i * 32 + emulated_lane(), r = e / N, c = e % N;
        p[layout == mem_col_major ? c * ld + r : r * ld + c] = f.x[i];
    }
}
template <typename F, typename V> inline void fill_fragment(F& f, V value) {
    emulated_arrive(2);
    for (int i = 0; i < F::num_elements; ++i) f.x[i] = (typename F::element)value;
}
template <int M, int N, int K, typename T, typename TA, typename LA, typename LB, typename TC>
inline void mma_sync(fragment<accumulator, M, N, K, T>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                     const fragment<matrix_b, M, N, K, TA, LB>& b, const fragment<accumulator, M, N, K, TC>& c,
                     bool = false) {
    emulated_wmma(emulated_type<TA>::value, emulated_into<T>::value, M, N, K, d.x, a.x, b.x, c.x, 3);
}
inline float __float_to_tf32(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000) & ~0x1fffu); }
}  // namespace wmma
}  // namespace nvcuda
