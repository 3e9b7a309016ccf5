// Sixteen rows in two registers of 32 bytes (AVX2), or in four of 16 (any processor that GCC or Clang know).
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define BYTES 32
#else
#define BYTES 16
#endif
#define REGISTER(T, name) typedef T name __attribute__((vector_size(BYTES), may_alias));
REGISTER(float, F0) REGISTER(int32_t, I0) REGISTER(int64_t, H0) REGISTER(uint64_t, U0) REGISTER(double, G0)
// an arithmetic shift to the right, which AVX2 has not for int64
IN I0 shr(I0 x, I0 n) { return x >> n; }
IN H0 shr(H0 x, H0 n) { H0 sign = (H0)(x < H0{}); return (H0)((U0)(x ^ sign) >> (U0)n) ^ sign; }

// two of a kind that are calculated with as one; copied part by part: a load of a whole that was stored in parts has to wait
template <class X, class T> struct Two {
  X a, b;
  Two() = default;
  BOTH Two(T x) : a(x - X{}), b(x - X{}) {}
  BOTH Two(X x, X y) : a(x), b(y) {}
  BOTH Two(const Two &o) : a(o.a), b(o.b) {}
  BOTH Two &operator=(const Two &o) { a = o.a; b = o.b; return *this; }
  BOTH T operator[](int i) const { return ((const T *)this)[i]; }
  BOTH T &operator[](int i) { return ((T *)this)[i]; }
  BOTH Two operator-() const { return {-a, -b}; }
  BOTH Two operator~() const { return {~a, ~b}; }
#define INFIX(op) BOTH friend Two operator op(const Two &x, const Two &y) { return {x.a op y.a, x.b op y.b}; }
  INFIX(+) INFIX(-) INFIX(*) INFIX(/) INFIX(&) INFIX(|) INFIX(^) INFIX(<<)
  BOTH friend Two operator>>(const Two &x, const Two &y) { return {shr(x.a, y.a), shr(x.b, y.b)}; }
  BOTH friend Two shr(const Two &x, const Two &y) { return x >> y; }
};
typedef Two<H0, int64_t> H2;  // as many rows as an F0 has
typedef Two<G0, double> G2;
#if BYTES == 32
typedef Two<F0, float> F;
typedef Two<I0, int32_t> I;
typedef Two<H2, int64_t> L;
typedef Two<G2, double> D;
#else
typedef Two<Two<F0, float>, float> F;
typedef Two<Two<I0, int32_t>, int32_t> I;
typedef Two<Two<H2, int64_t>, int64_t> L;
typedef Two<Two<G2, double>, double> D;
#endif
typedef I M;  // all bits of a row, or none
typedef decltype(L::a) H;
typedef decltype(D::a) G;
#define NUMBERS(T, n) T r; for (int i = 0; i < n; i++) r[i]
#define OUT_OF_LINE static __attribute__((noinline))

#if BYTES == 32
typedef __m256 V;
typedef __m256i W;
IN I0 narrow(const H2 &m) { return (I0)_mm256_permute4x64_epi64((W)_mm256_shuffle_ps((V)m.a, (V)m.b, 0x88), 0xd8); }
IN __m128i low(I0 m) { return _mm256_castsi256_si128((W)m); }
IN __m128i high(I0 m) { return _mm256_extracti128_si256((W)m, 1); }
IN H2 widen(I0 m) { return {(H0)_mm256_cvtepi32_epi64(low(m)), (H0)_mm256_cvtepi32_epi64(high(m))}; }
IN G2 reals(I0 m) { return {(G0)_mm256_cvtepi32_pd(low(m)), (G0)_mm256_cvtepi32_pd(high(m))}; }
IN F0 sel(I0 m, F0 a, F0 b) { return (F0)_mm256_blendv_ps((V)b, (V)a, (V)m); }
IN bool any(I0 m) { return _mm256_movemask_ps((V)m) != 0; }
IN bool all(I0 m) { return _mm256_movemask_ps((V)m) == 0xff; }
IN F0 vsqrt(F0 a) { return (F0)_mm256_sqrt_ps((V)a); }
IN F0 fma(F0 a, F0 b, F0 c) { return (F0)_mm256_fmadd_ps((V)a, (V)b, (V)c); }
IN F0 vmin(F0 a, F0 b) { return (F0)_mm256_min_ps((V)a, (V)b); }
IN F0 vmax(F0 a, F0 b) { return (F0)_mm256_max_ps((V)a, (V)b); }
IN F0 vfloor(F0 a) { return (F0)_mm256_floor_ps((V)a); }
IN F0 vceil(F0 a) { return (F0)_mm256_ceil_ps((V)a); }
IN F0 vtrunc(F0 a) { return (F0)_mm256_round_ps((V)a, 11); }
IN F0 vround(F0 a) { return (F0)_mm256_round_ps((V)a, 8); }
IN F0 tof(const G2 &x) { return (F0)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)x.b), _mm256_cvtpd_ps((__m256d)x.a)); }
IN G2 tod(F0 x) { return {(G0)_mm256_cvtps_pd(_mm256_castps256_ps128((V)x)), (G0)_mm256_cvtps_pd(_mm256_extractf128_ps((V)x, 1))}; }
// int64s that int32s can hold are converted as these are, the others one by one
#define LEAST (I0{} + INT32_MIN)
OUT_OF_LINE void each_tof(const H2 &x, F0 &y) { NUMBERS(F0, 8) = (float)x[i]; y = r; }
OUT_OF_LINE void each_tod(const H2 &x, G2 &y) { NUMBERS(G2, 8) = (double)x[i]; y = r; }
OUT_OF_LINE void each_tol(const F0 &x, H2 &y) { NUMBERS(H2, 8) = (int64_t)x[i]; y = r; }
OUT_OF_LINE void each_tol(const G2 &x, H2 &y) { NUMBERS(H2, 8) = (int64_t)x[i]; y = r; }
IN bool fits(const H2 &x, I0 m) { H2 more = x ^ widen(m); W w = (W)(more.a | more.b); return _mm256_testz_si256(w, w); }
#define ONE_BY_ONE(name, T, x) T r; each_##name(x, r); return r
IN F0 tof(const H2 &x) { I0 m = narrow(x); if (fits(x, m)) return (F0)_mm256_cvtepi32_ps((W)m); ONE_BY_ONE(tof, F0, x); }
IN G2 tod(const H2 &x) { I0 m = narrow(x); if (fits(x, m)) return reals(m); ONE_BY_ONE(tod, G2, x); }
IN H2 tol(F0 x) {
  I0 m = (I0)_mm256_cvttps_epi32((V)x);
  if (!any((I0)(m == LEAST))) return widen(m);
  ONE_BY_ONE(tol, H2, x);
}
IN H2 tol(const G2 &x) {
  I0 m = (I0)_mm256_set_m128i(_mm256_cvttpd_epi32((__m256d)x.b), _mm256_cvttpd_epi32((__m256d)x.a));
  if (!any((I0)(m == LEAST))) return widen(m);
  ONE_BY_ONE(tol, H2, x);
}
#else
IN I0 narrow(const H2 &m) { return I0{(int)m.a[0], (int)m.a[1], (int)m.b[0], (int)m.b[1]}; }
IN H2 widen(I0 m) { return {H0{m[0], m[1]}, H0{m[2], m[3]}}; }
IN F0 sel(I0 m, F0 a, F0 b) { return (F0)(((I0)a & m) | ((I0)b & ~m)); }
IN bool any(I0 m) { H0 h = (H0)m; return (h[0] | h[1]) != 0; }
IN bool all(I0 m) { H0 h = (H0)m; return (h[0] & h[1]) == -1; }
IN F0 vmin(F0 a, F0 b) { return sel((I0)(a < b), a, b); }
IN F0 vmax(F0 a, F0 b) { return sel((I0)(a > b), a, b); }
#define EACH_F0(name, f) IN F0 name(F0 a) { return F0{f(a[0]), f(a[1]), f(a[2]), f(a[3])}; }
EACH_F0(vsqrt, __builtin_sqrtf) EACH_F0(vfloor, __builtin_floorf) EACH_F0(vceil, __builtin_ceilf)
EACH_F0(vtrunc, __builtin_truncf) EACH_F0(vround, __builtin_nearbyintf)
IN F0 tof(const G2 &x) { return F0{(float)x.a[0], (float)x.a[1], (float)x.b[0], (float)x.b[1]}; }
IN F0 tof(const H2 &x) { return F0{(float)x.a[0], (float)x.a[1], (float)x.b[0], (float)x.b[1]}; }
IN G2 tod(F0 x) { return {G0{x[0], x[1]}, G0{x[2], x[3]}}; }
IN G2 tod(const H2 &x) { return {__builtin_convertvector(x.a, G0), __builtin_convertvector(x.b, G0)}; }
IN H2 tol(F0 x) { return {H0{(int64_t)x[0], (int64_t)x[1]}, H0{(int64_t)x[2], (int64_t)x[3]}}; }
IN H2 tol(const G2 &x) { return {__builtin_convertvector(x.a, H0), __builtin_convertvector(x.b, H0)}; }
#if defined(__FP_FAST_FMAF) || defined(__aarch64__)
IN F0 fma(F0 a, F0 b, F0 c) {
  return F0{__builtin_fmaf(a[0], b[0], c[0]), __builtin_fmaf(a[1], b[1], c[1]), __builtin_fmaf(a[2], b[2], c[2]), __builtin_fmaf(a[3], b[3], c[3])};
}
#else
IN F0 fma(F0 a, F0 b, F0 c) { return tof(tod(a) * tod(b) + tod(c)); }  // the product is exact; rounded twice at worst
#endif
#endif
IN I0 bits(F0 x) { return (I0)x; }
IN F0 real(I0 x) { return (F0)x; }
IN I0 ints(F0 x) { return __builtin_convertvector(x, I0); }
IN F0 floats(I0 x) { return __builtin_convertvector(x, F0); }
IN I0 sel(I0 m, I0 a, I0 b) { return (I0)sel(m, (F0)a, (F0)b); }
IN H0 mix(H0 m, H0 a, H0 b) { return (H0)sel((I0)m, (F0)a, (F0)b); }
IN H2 sel(I0 m, const H2 &a, const H2 &b) { H2 w = widen(m); return {mix(w.a, a.a, b.a), mix(w.b, a.b, b.b)}; }
IN G2 sel(I0 m, const G2 &a, const G2 &b) {
  H2 w = widen(m);
  return {(G0)mix(w.a, (H0)a.a, (H0)b.a), (G0)mix(w.b, (H0)a.b, (H0)b.b)};
}
// what is known of the parts is known of the whole
#define OF_ONE(name, E) \
  template <class X, class T> IN auto name(const Two<X, T> &x) -> Two<decltype(name(x.a)), E> { return {name(x.a), name(x.b)}; }
#define OF_TWO(name, E) \
  template <class X, class T> IN auto name(const Two<X, T> &x, const Two<X, T> &y) -> Two<decltype(name(x.a, y.a)), E> { \
    return {name(x.a, y.a), name(x.b, y.b)}; }
#define COMPARE(name, op) \
  IN I0 name(F0 a, F0 b) { return (I0)(a op b); } \
  IN I0 name(I0 a, I0 b) { return (I0)(a op b); } \
  IN I0 name(const G2 &a, const G2 &b) { return narrow({(H0)(a.a op b.a), (H0)(a.b op b.b)}); } \
  IN I0 name(const H2 &a, const H2 &b) { return narrow({(H0)(a.a op b.a), (H0)(a.b op b.b)}); } \
  OF_TWO(name, int32_t)
COMPARE(lt, <) COMPARE(le, <=) COMPARE(gt, >) COMPARE(ge, >=) COMPARE(eq, ==) COMPARE(ne, !=)
OF_TWO(vmin, float) OF_TWO(vmax, float)
OF_ONE(vsqrt, float) OF_ONE(vfloor, float) OF_ONE(vceil, float) OF_ONE(vtrunc, float) OF_ONE(vround, float)
OF_ONE(bits, int32_t) OF_ONE(real, float) OF_ONE(ints, int32_t) OF_ONE(floats, float)
OF_ONE(tof, float) OF_ONE(tod, double) OF_ONE(tol, int64_t)
template <class X> IN Two<X, float> fma(const Two<X, float> &x, const Two<X, float> &y, const Two<X, float> &z) {
  return {fma(x.a, y.a, z.a), fma(x.b, y.b, z.b)};
}
template <class X, class Y, class T> IN auto sel(const Two<X, int32_t> &m, const Two<Y, T> &x, const Two<Y, T> &y)
  -> Two<decltype(sel(m.a, x.a, y.a)), T> { return {sel(m.a, x.a, y.a), sel(m.b, x.b, y.b)}; }
template <class X> IN bool any(const Two<X, int32_t> &m) { return any(m.a | m.b); }
template <class X> IN bool all(const Two<X, int32_t> &m) { return all(m.a & m.b); }
IN M cb(bool x) { return M(-(int)x); }
IN M mand(M a, M b) { return a & b; }
IN M mor(M a, M b) { return a | b; }
IN M mxor(M a, M b) { return a ^ b; }
IN M mnot(M a) { return ~a; }
IN M eqi(I a, I b) { return eq(a, b); }
static const int32_t COUNT[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
IN M valid(int n) { M r; memcpy(&r, COUNT, 64); return lt(r, M(n)); }
#define MOVES(T, load, store, type, size) \
  IN T load(const type *p, int n) { T r = {}; if (n == 16) memcpy(&r, p, 16 * size); else memcpy(&r, p, n * size); return r; } \
  IN void store(type *p, T x, int n) { if (n == 16) memcpy(p, &x, 16 * size); else memcpy(p, &x, n * size); }
MOVES(F, loadf, storef, float, 4) MOVES(L, loadl, storel, int64_t, 8) MOVES(D, loadd, stored, double, 8)
#if BYTES == 32
IN M loadb(const uint8_t *p, int n) {
  __m128i x = {};
  if (n == 16) memcpy(&x, p, 16); else memcpy(&x, p, n);
  x = _mm_cmpeq_epi8(x, __m128i{});
  return ~M((I0)_mm256_cvtepi8_epi32(x), (I0)_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
}
IN void storeb(uint8_t *p, M m, int n) {
  __m128i x = _mm_packs_epi16(_mm_packs_epi32(low(m.a), high(m.a)), _mm_packs_epi32(low(m.b), high(m.b)));
  x = _mm_and_si128(x, _mm_set1_epi8(1));
  if (n == 16) memcpy(p, &x, 16); else memcpy(p, &x, n);
}
IN void streamf(float *p, F x) { _mm256_stream_ps(p, (V)x.a); _mm256_stream_ps(p + 8, (V)x.b); }
#else
IN M loadb(const uint8_t *p, int n) { M r; EACH r[i] = i < n && p[i] ? -1 : 0; return r; }
IN void storeb(uint8_t *p, M m, int n) { for (int i = 0; i < n; i++) p[i] = m[i] != 0; }
IN void streamf(float *p, F x) { storef(p, x, 16); }
#endif
IN bool bit(const M &m, int i) { return m[i] != 0; }
IN void put(M &m, int i, bool x) { m[i] = -(int)x; }
