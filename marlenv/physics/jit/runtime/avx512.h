// Sixteen rows in one register: AVX-512.
#include <immintrin.h>
typedef float F __attribute__((vector_size(64), may_alias));
typedef int32_t I __attribute__((vector_size(64), may_alias));
typedef int64_t H __attribute__((vector_size(64), may_alias));
typedef double G __attribute__((vector_size(64), may_alias));
// copied as two whole vectors: a load of 64 bytes that were stored as halves has to wait for them
#define PAIR(T, X) struct alignas(64) T { \
  X a, b; \
  T() = default; \
  BOTH T(X x, X y) : a(x), b(y) {} \
  BOTH T(const T &o) : a(o.a), b(o.b) {} \
  BOTH T &operator=(const T &o) { a = o.a; b = o.b; return *this; } };
PAIR(L, H)
PAIR(D, G)
typedef __mmask16 M;
#define WIDE2(T, op) IN T operator op(T x, T y) { return {x.a op y.a, x.b op y.b}; }
WIDE2(L, +) WIDE2(L, -) WIDE2(L, *) WIDE2(L, &) WIDE2(L, |) WIDE2(L, ^) WIDE2(L, >>) WIDE2(L, <<)
WIDE2(D, +) WIDE2(D, -) WIDE2(D, *) WIDE2(D, /)
IN L operator-(L x) { return {-x.a, -x.b}; }
IN D operator-(D x) { return {-x.a, -x.b}; }
IN I bits(F x) { return (I)x; }
IN F real(I x) { return (F)x; }
IN I ints(F x) { return __builtin_convertvector(x, I); }
IN F floats(I x) { return __builtin_convertvector(x, F); }
IN D tod(L x) { return {__builtin_convertvector(x.a, G), __builtin_convertvector(x.b, G)}; }
IN L tol(D x) { return {__builtin_convertvector(x.a, H), __builtin_convertvector(x.b, H)}; }
IN M cb(bool x) { return x ? 0xffff : 0; }
IN bool any(M m) { return m != 0; }
IN bool all(M m) { return m == 0xffff; }
IN M valid(int n) { return (M)((1u << n) - 1u); }
IN M mand(M a, M b) { return a & b; }
IN M mor(M a, M b) { return a | b; }
IN M mxor(M a, M b) { return a ^ b; }
IN M mnot(M a) { return (M)~a; }
IN F sel(M m, F a, F b) { return _mm512_mask_blend_ps(m, b, a); }
IN I sel(M m, I a, I b) { return (I)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a); }
IN H sel8(__mmask8 m, H a, H b) { return (H)_mm512_mask_blend_epi64(m, (__m512i)b, (__m512i)a); }
IN L sel(M m, L a, L b) { return {sel8(m & 0xff, a.a, b.a), sel8(m >> 8, a.b, b.b)}; }
IN D sel(M m, D a, D b) {
  return {(G)_mm512_mask_blend_pd(m & 0xff, b.a, a.a), (G)_mm512_mask_blend_pd(m >> 8, b.b, a.b)};
}
// The instruction itself: GCC 12 keeps eight bits of a mask in memory and reads sixteen where it widens a spilled one.
IN M joined(__mmask8 low, __mmask8 high) {
  M m;
  asm("kunpckbw %1, %2, %0" : "=k"(m) : "k"(low), "k"(high));
  return m;
}
#define COMPARE(name, how, ints) \
  IN M name(F a, F b) { return _mm512_cmp_ps_mask(a, b, how); } \
  IN M name(D a, D b) { return joined(_mm512_cmp_pd_mask(a.a, b.a, how), _mm512_cmp_pd_mask(a.b, b.b, how)); } \
  IN M name(L a, L b) { return joined(_mm512_cmp_epi64_mask((__m512i)a.a, (__m512i)b.a, ints), \
                                      _mm512_cmp_epi64_mask((__m512i)a.b, (__m512i)b.b, ints)); }
COMPARE(lt, _CMP_LT_OQ, _MM_CMPINT_LT)
COMPARE(le, _CMP_LE_OQ, _MM_CMPINT_LE)
COMPARE(gt, _CMP_GT_OQ, _MM_CMPINT_NLE)
COMPARE(ge, _CMP_GE_OQ, _MM_CMPINT_NLT)
COMPARE(eq, _CMP_EQ_OQ, _MM_CMPINT_EQ)
COMPARE(ne, _CMP_NEQ_UQ, _MM_CMPINT_NE)
IN M eqi(I a, I b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
IN F vsqrt(F a) { return _mm512_sqrt_ps(a); }
IN F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
IN F vmin(F a, F b) { return _mm512_min_ps(a, b); }
IN F vmax(F a, F b) { return _mm512_max_ps(a, b); }
IN F vfloor(F a) { return _mm512_roundscale_ps(a, 9); }
IN F vceil(F a) { return _mm512_roundscale_ps(a, 10); }
IN F vtrunc(F a) { return _mm512_roundscale_ps(a, 11); }
IN F vround(F a) { return _mm512_roundscale_ps(a, 8); }
IN F tof(L x) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtepi64_ps((__m512i)x.a)), _mm512_cvtepi64_ps((__m512i)x.b), 1);
}
IN F tof(D x) { return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x.a)), _mm512_cvtpd_ps(x.b), 1); }
IN L tol(F x) {
  return {(H)_mm512_cvttps_epi64(_mm512_castps512_ps256(x)), (H)_mm512_cvttps_epi64(_mm512_extractf32x8_ps(x, 1))};
}
IN D tod(F x) { return {(G)_mm512_cvtps_pd(_mm512_castps512_ps256(x)), (G)_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))}; }
IN M loadb(const uint8_t *p, int n) {
  return n == 16 ? _mm_test_epi8_mask(_mm_loadu_si128((const __m128i *)p), _mm_loadu_si128((const __m128i *)p))
                 : _mm_test_epi8_mask(_mm_maskz_loadu_epi8(valid(n), p), _mm_maskz_loadu_epi8(valid(n), p));
}
IN void storeb(uint8_t *p, M m, int n) { _mm_mask_storeu_epi8(p, valid(n), _mm_maskz_set1_epi8(m, 1)); }
IN F loadf(const float *p, int n) { return n == 16 ? (F)_mm512_loadu_ps(p) : (F)_mm512_maskz_loadu_ps(valid(n), p); }
IN void storef(float *p, F x, int n) {
  if (n == 16) _mm512_storeu_ps(p, x); else _mm512_mask_storeu_ps(p, valid(n), x);
}
IN void streamf(float *p, F x) { _mm512_stream_ps(p, x); }
typedef int64_t H1 __attribute__((vector_size(64), may_alias, aligned(8)));
typedef double G1 __attribute__((vector_size(64), may_alias, aligned(8)));
#define MOVES(T, X, load, store, type) \
  IN T load(const type *p, int n) { \
    if (n == 16) return {*(const X *)p, *(const X *)(p + 8)}; \
    T r = {}; memcpy(&r, p, 8 * n); return r; } \
  IN void store(type *p, T x, int n) { \
    if (n == 16) { *(X *)p = x.a; *(X *)(p + 8) = x.b; } else memcpy(p, &x, 8 * n); }
MOVES(L, H1, loadl, storel, int64_t)
MOVES(D, G1, loadd, stored, double)
IN bool bit(M m, int i) { return m >> i & 1; }
IN void put(M &m, int i, bool x) { m = (M)((m & ~(1 << i)) | x << i); }
