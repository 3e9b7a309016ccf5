// Arithmetic on sixteen rows at once: what the generated code (../codegen.py) is made of.
//
// GCC's and Clang's vector extensions, with AVX-512 instructions where there are any. Sums, products, quotients and square
// roots are those of IEEE 754, and so of eager mode; exp, log, sin, cos and atan2 are off by two units in the last place at
// most. Their polynomials are those of Cephes (Moshier 1989, https://www.netlib.org/cephes/).
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define WIDE 1
#endif
typedef float F __attribute__((vector_size(64), may_alias));
typedef int32_t I __attribute__((vector_size(64), may_alias));
typedef int64_t H __attribute__((vector_size(64), may_alias));
typedef double G __attribute__((vector_size(64), may_alias));
#define BOTH __attribute__((always_inline))
// copied as two whole vectors: a load of 64 bytes that were stored as halves has to wait for them
#define PAIR(T, X) struct alignas(64) T { \
  X a, b; \
  T() = default; \
  BOTH T(X x, X y) : a(x), b(y) {} \
  BOTH T(const T &o) : a(o.a), b(o.b) {} \
  BOTH T &operator=(const T &o) { a = o.a; b = o.b; return *this; } };
PAIR(L, H)
PAIR(D, G)
struct alignas(64) Slot { float x[16]; };
#define IN static inline __attribute__((always_inline))
#define EACH for (int i = 0; i < 16; i++)
#define HALF for (int i = 0; i < 8; i++)
IN F cf(float x) { return F{} + x; }
IN L cl(int64_t x) { return {H{} + x, H{} + x}; }
IN D cd(double x) { return {G{} + x, G{} + x}; }
IN I bits(F x) { return (I)x; }
IN F real(I x) { return (F)x; }
#ifdef WIDE
typedef __mmask16 M;
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
#define COMPARE(name, how, ints) \
  IN M name(F a, F b) { return _mm512_cmp_ps_mask(a, b, how); } \
  IN M name(D a, D b) { return _mm512_cmp_pd_mask(a.a, b.a, how) | (M)_mm512_cmp_pd_mask(a.b, b.b, how) << 8; } \
  IN M name(L a, L b) { return _mm512_cmp_epi64_mask((__m512i)a.a, (__m512i)b.a, ints) | \
                               (M)_mm512_cmp_epi64_mask((__m512i)a.b, (__m512i)b.b, ints) << 8; }
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
#else
typedef I M;
IN M cb(bool x) { return I{} - (x ? 1 : 0); }
IN bool any(M m) { int r = 0; EACH r |= m[i]; return r != 0; }
IN bool all(M m) { int r = -1; EACH r &= m[i]; return r != 0; }
IN M valid(int n) { M r; EACH r[i] = -(i < n); return r; }
IN M mand(M a, M b) { return a & b; }
IN M mor(M a, M b) { return a | b; }
IN M mxor(M a, M b) { return a ^ b; }
IN M mnot(M a) { return ~a; }
IN I sel(M m, I a, I b) { return (a & m) | (b & ~m); }
IN F sel(M m, F a, F b) { return (F)sel(m, (I)a, (I)b); }
IN L sel(M m, L a, L b) { L r; HALF { r.a[i] = m[i] ? a.a[i] : b.a[i]; r.b[i] = m[i + 8] ? a.b[i] : b.b[i]; } return r; }
IN D sel(M m, D a, D b) { D r; HALF { r.a[i] = m[i] ? a.a[i] : b.a[i]; r.b[i] = m[i + 8] ? a.b[i] : b.b[i]; } return r; }
#define COMPARE(name, op) \
  IN M name(F a, F b) { return a op b; } \
  IN M name(D a, D b) { M r; HALF { r[i] = -(a.a[i] op b.a[i]); r[i + 8] = -(a.b[i] op b.b[i]); } return r; } \
  IN M name(L a, L b) { M r; HALF { r[i] = -(a.a[i] op b.a[i]); r[i + 8] = -(a.b[i] op b.b[i]); } return r; }
COMPARE(lt, <) COMPARE(le, <=) COMPARE(gt, >) COMPARE(ge, >=) COMPARE(eq, ==) COMPARE(ne, !=)
IN M eqi(I a, I b) { return a == b; }
IN F vsqrt(F a) { F r; EACH r[i] = __builtin_sqrtf(a[i]); return r; }
IN F fma(F a, F b, F c) { F r; EACH r[i] = __builtin_fmaf(a[i], b[i], c[i]); return r; }
IN F vmin(F a, F b) { return sel(a < b, a, b); }
IN F vmax(F a, F b) { return sel(a > b, a, b); }
IN F vfloor(F a) { F r; EACH r[i] = __builtin_floorf(a[i]); return r; }
IN F vceil(F a) { F r; EACH r[i] = __builtin_ceilf(a[i]); return r; }
IN F vtrunc(F a) { F r; EACH r[i] = __builtin_truncf(a[i]); return r; }
IN F vround(F a) { F r; EACH r[i] = __builtin_nearbyintf(a[i]); return r; }
IN F tof(L x) { F r; HALF { r[i] = (float)x.a[i]; r[i + 8] = (float)x.b[i]; } return r; }
IN F tof(D x) { F r; HALF { r[i] = (float)x.a[i]; r[i + 8] = (float)x.b[i]; } return r; }
IN L tol(F x) { L r; HALF { r.a[i] = (int64_t)x[i]; r.b[i] = (int64_t)x[i + 8]; } return r; }
IN D tod(F x) { D r; HALF { r.a[i] = x[i]; r.b[i] = x[i + 8]; } return r; }
IN M loadb(const uint8_t *p, int n) { M r; EACH r[i] = i < n && p[i] ? -1 : 0; return r; }
IN void storeb(uint8_t *p, M m, int n) { for (int i = 0; i < n; i++) p[i] = m[i] != 0; }
IN F loadf(const float *p, int n) { F r = F{}; memcpy(&r, p, 4 * n); return r; }
IN void storef(float *p, F x, int n) { memcpy(p, &x, 4 * n); }
IN void streamf(float *p, F x) { storef(p, x, 16); }
#endif
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
// the entry of each row from arrays of values, by a number that is cut to the length
IN int64_t within(L at, int i, int64_t n) {
  int64_t k = i < 8 ? at.a[i] : at.b[i - 8];
  return k < 0 ? 0 : k < n ? k : n - 1;
}
IN F takef(const Slot *p, int n, L at) { F r; EACH r[i] = p[within(at, i, n)].x[i]; return r; }
#ifdef WIDE
IN M takeb(const Slot *p, int n, L at) { M r = 0; EACH r |= *(const M *)(p + within(at, i, n)) & 1 << i; return r; }
#else
IN M takeb(const Slot *p, int n, L at) { M r; EACH r[i] = (*(const M *)(p + within(at, i, n)))[i]; return r; }
#endif
#define TAKE(name, T) IN T name(const Slot *p, int n, L at) { \
  T r; HALF { r.a[i] = ((const T *)(p + 2 * within(at, i, n)))->a[i]; r.b[i] = ((const T *)(p + 2 * within(at, i + 8, n)))->b[i]; } \
  return r; }
TAKE(takel, L) TAKE(taked, D)
IN F tof(M m) { return sel(m, cf(1), cf(0)); }
IN L tol(M m) { return sel(m, cl(1), cl(0)); }
IN D tod(M m) { return sel(m, cd(1), cd(0)); }
IN D tod(L x) { return {__builtin_convertvector(x.a, G), __builtin_convertvector(x.b, G)}; }
IN L tol(D x) { return {__builtin_convertvector(x.a, H), __builtin_convertvector(x.b, H)}; }
#define WIDE2(T, op) IN T operator op(T x, T y) { return {x.a op y.a, x.b op y.b}; }
WIDE2(L, +) WIDE2(L, -) WIDE2(L, *) WIDE2(L, &) WIDE2(L, |) WIDE2(L, ^) WIDE2(L, >>) WIDE2(L, <<)
WIDE2(D, +) WIDE2(D, -) WIDE2(D, *) WIDE2(D, /)
IN L operator-(L x) { return {-x.a, -x.b}; }
IN D operator-(D x) { return {-x.a, -x.b}; }
IN L vmin(L a, L b) { return sel(lt(a, b), a, b); }
IN L vmax(L a, L b) { return sel(gt(a, b), a, b); }
IN D vmin(D a, D b) { return sel(lt(a, b), a, b); }
IN D vmax(D a, D b) { return sel(gt(a, b), a, b); }
// the same where either may not be a number: NaN goes through (vmin and vmax let it through from their second argument only)
#define THROUGH(T) \
  IN T nmin(T a, T b) { return sel(ne(a, a), a, vmin(a, b)); } \
  IN T nmax(T a, T b) { return sel(ne(a, a), a, vmax(a, b)); }
THROUGH(F) THROUGH(D)
IN F vabs(F x) { return real(bits(x) & 0x7fffffff); }
IN L vabs(L x) { return sel(lt(x, cl(0)), -x, x); }
IN D vabs(D x) { return sel(lt(x, cd(0)), -x, x); }
// no division of integers traps: what nobody may see, such as rows beyond the last, may be divided by zero
IN int64_t tdiv(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
IN int64_t fdiv(int64_t a, int64_t b) { int64_t q = tdiv(a, b); return q - ((a - q * b != 0) && ((a < 0) != (b < 0))); }
#define WHOLES(name, f) IN L name(L x, L y) { L r; HALF { r.a[i] = f(x.a[i], y.a[i]); r.b[i] = f(x.b[i], y.b[i]); } return r; }
WHOLES(floordiv, fdiv) WHOLES(truncdiv, tdiv)
IN L mod(L x, L y) { return x - floordiv(x, y) * y; }
IN L rem(L x, L y) { return x - truncdiv(x, y) * y; }
IN L vsign(L x) { return sel(gt(x, cl(0)), cl(1), sel(lt(x, cl(0)), cl(-1), cl(0))); }
// one number at a time: right, not fast
#define DOUBLE1(name, f) IN D name(D x) { D r; HALF { r.a[i] = f(x.a[i]); r.b[i] = f(x.b[i]); } return r; }
#define DOUBLE2(name, f) IN D name(D x, D y) { D r; HALF { r.a[i] = f(x.a[i], y.a[i]); r.b[i] = f(x.b[i], y.b[i]); } return r; }
#define SINGLE1(name, f) IN F name(F x) { F r; EACH r[i] = f((float)x[i]); return r; }
#define SINGLE2(name, f) IN F name(F x, F y) { F r; EACH r[i] = f((float)x[i], (float)y[i]); return r; }
#define BOTH1(name, f) DOUBLE1(name, f) SINGLE1(name, f)
#define BOTH2(name, f) DOUBLE2(name, f) SINGLE2(name, f)
template <class T> IN T modulo(T x, T y) { T r = std::fmod(x, y); return r != 0 && (y < 0) != (r < 0) ? r + y : r; }
template <class T> IN T quotient(T x, T y) {
  if (y == 0) return x / y;
  T r = std::fmod(x, y), q = (x - r) / y;
  if (r != 0 && (y < 0) != (r < 0)) q -= 1;
  return q == 0 ? std::copysign((T)0, x / y) : std::floor(q) + (q - std::floor(q) > (T)0.5);
}
template <class T> IN T logistic(T x) { return 1 / (1 + std::exp(-x)); }
template <class T> IN T sign(T x) { return (x > 0) - (x < 0); }
template <class T> IN T logsum(T x, T y) { return x == y ? x + (T)M_LN2 : std::isnan(x) || std::isnan(y) ? x + y : (x > y ? x : y) + std::log1p(std::exp(-std::fabs(x - y))); }
DOUBLE1(vsqrt, std::sqrt) DOUBLE1(vsin, std::sin) DOUBLE1(vcos, std::cos) DOUBLE1(vtan, std::tan) DOUBLE1(vexp, std::exp)
DOUBLE1(vlog, std::log) DOUBLE1(vlog1p, std::log1p) DOUBLE1(vfloor, std::floor) DOUBLE1(vceil, std::ceil) DOUBLE1(vtrunc, std::trunc)
DOUBLE1(vround, std::nearbyint) DOUBLE1(vatan, std::atan) DOUBLE1(vtanh, std::tanh) DOUBLE1(vsigmoid, logistic<double>)
DOUBLE1(vsign, sign<double>) DOUBLE2(vatan2, std::atan2) DOUBLE2(vlogaddexp, logsum<double>) DOUBLE2(mod, modulo<double>)
BOTH1(vasin, std::asin) BOTH1(vacos, std::acos) BOTH1(vsinh, std::sinh) BOTH1(vcosh, std::cosh) BOTH1(vexp2, std::exp2)
BOTH1(vexpm1, std::expm1) BOTH1(vlog2, std::log2) BOTH1(vlog10, std::log10) BOTH1(verf, std::erf)
BOTH2(vpow, std::pow) BOTH2(vhypot, std::hypot) BOTH2(rem, std::fmod) BOTH2(floordiv, quotient)
IN D softplus(D x) { return vlogaddexp(x, cd(0)); }
IN F mod(F x, F y) {
  F q = x / y, r = fma(-vfloor(q), y, x);
  r = sel(mand(ne(r, cf(0)), mxor(lt(r, cf(0)), lt(y, cf(0)))), r + y, r);
  M hard = mnot(mand(lt(vabs(q), cf(1e6f)), lt(vabs(y), cf(INFINITY))));  // NaN too
  if (any(hard)) EACH if (!(__builtin_fabsf(q[i]) < 1e6f && __builtin_fabsf(y[i]) < INFINITY)) r[i] = modulo((float)x[i], (float)y[i]);
  return r;
}
IN F vsign(F x) { return sel(gt(x, cf(0)), cf(1), sel(lt(x, cf(0)), cf(-1), cf(0))); }
IN F vexp(F x) {
  F y = vmin(cf(88.7f), vmax(cf(-87.3f), x));  // NaN goes through
  F n = vround(y * 1.44269504088896341f);
  F r = fma(n, cf(-0.693359375f), y);
  r = fma(n, cf(2.12194440e-4f), r);
  F p = cf(1.9875691500e-4f);
  p = fma(p, r, cf(1.3981999507e-3f));
  p = fma(p, r, cf(8.3334519073e-3f));
  p = fma(p, r, cf(4.1665795894e-2f));
  p = fma(p, r, cf(1.6666665459e-1f));
  p = fma(p, r, cf(5.0000001201e-1f));
  p = fma(p * r, r, r) + 1.0f;
  p = p * real((__builtin_convertvector(n, I) + 127) << 23);
  p = sel(gt(x, cf(88.72f)), cf(INFINITY), p);
  return sel(lt(x, cf(-103.0f)), cf(0), p);
}
IN F vlog(F x) {
  M tiny = lt(x, cf(1.17549435e-38f));
  I b = bits(sel(tiny, x * 33554432.0f, x));
  I e = ((b >> 23) & 0xff) - 126;
  F m = real((b & 0x807fffff) | 0x3f000000);
  M low = lt(m, cf(0.707106781186547524f));
  F k = __builtin_convertvector(e, F);
  k = sel(tiny, k - 25.0f, k);
  k = sel(low, k - 1.0f, k);
  m = sel(low, m + m, m) - 1.0f;
  F z = m * m;
  F p = cf(7.0376836292e-2f);
  p = fma(p, m, cf(-1.1514610310e-1f));
  p = fma(p, m, cf(1.1676998740e-1f));
  p = fma(p, m, cf(-1.2420140846e-1f));
  p = fma(p, m, cf(1.4249322787e-1f));
  p = fma(p, m, cf(-1.6668057665e-1f));
  p = fma(p, m, cf(2.0000714765e-1f));
  p = fma(p, m, cf(-2.4999993993e-1f));
  p = fma(p, m, cf(3.3333331174e-1f));
  p = p * m * z;
  p = fma(k, cf(-2.12194440e-4f), p);
  p = fma(cf(-0.5f), z, p);
  F r = fma(k, cf(0.693359375f), m + p);
  r = sel(eq(x, cf(0)), cf(-INFINITY), r);
  return sel(ge(x, cf(0)), sel(eq(x, cf(INFINITY)), x, r), cf(NAN));
}
IN F vlog1p(F x) {
  F u = x + 1.0f;
  F r = vlog(u), lost = ((u - 1.0f) - x) / u;
  r = sel(mor(eq(u, cf(0)), eq(u, cf(INFINITY))), r, r - lost);
  return sel(eq(u, cf(1)), x, r);
}
// max(a, b) + log1p(t) with t = exp(-|a - b|): log1p(t) = 2 artanh(t / (2 + t)), whose series ends below half a unit for t <= 1
IN F summed(F a, F b, F t) {
  F y = t / (t + 2.0f), z = y * y;
  F p = cf(6.66666667e-2f);
  p = fma(p, z, cf(7.69230769e-2f));
  p = fma(p, z, cf(9.09090909e-2f));
  p = fma(p, z, cf(1.11111111e-1f));
  p = fma(p, z, cf(1.42857143e-1f));
  p = fma(p, z, cf(2.0e-1f));
  p = fma(p, z, cf(3.33333333e-1f));
  y = y + y;
  return vmax(a, b) + fma(p * z, y, y);
}
IN F softplus(F x) { return summed(x, cf(0), vexp(-vabs(x))); }
IN F vlogaddexp(F a, F b) { return summed(a, b, sel(eq(a, b), cf(1), vexp(-vabs(a - b)))); }  // infinities may be equal
IN void sincos(F x, F *s, F *c) {
  F a = vabs(x);
  I j = __builtin_convertvector(a * 1.27323954473516f, I);
  j = (j + 1) & ~1;
  F y = __builtin_convertvector(j, F);
  F r = fma(y, cf(-0.78515625f), a);
  r = fma(y, cf(-2.4187564849853515625e-4f), r);
  r = fma(y, cf(-3.77489497744594108e-8f), r);
  F z = r * r;
  F p = fma(cf(2.443315711809948e-5f), z, cf(-1.388731625493765e-3f));
  p = fma(p, z, cf(4.166664568298827e-2f));
  F co = fma(p * z, z, fma(cf(-0.5f), z, cf(1)));
  F q = fma(cf(-1.9515295891e-4f), z, cf(8.3321608736e-3f));
  q = fma(q, z, cf(-1.6666654611e-1f));
  F si = fma(q * z, r, r);
  M swap = eqi(j & 2, I{} + 2);
  I turn = (j & 4) << 29, back = ((j + 2) & 4) << 29;
  *s = real(bits(sel(swap, co, si)) ^ turn ^ (bits(x) & (int)0x80000000));
  *c = real(bits(sel(swap, si, co)) ^ back);
  M large = gt(a, cf(8192.0f));
  if (any(large)) EACH if (a[i] > 8192.0f) { (*s)[i] = std::sin((double)x[i]); (*c)[i] = std::cos((double)x[i]); }
}
IN F vsin(F x) { F s, c; sincos(x, &s, &c); return s; }
IN F vcos(F x) { F s, c; sincos(x, &s, &c); return c; }
IN F vtan(F x) { F s, c; sincos(x, &s, &c); return s / c; }
IN F vatan(F x) {
  F a = vabs(x);
  M high = gt(a, cf(2.414213562373095f)), middle = mand(mnot(high), gt(a, cf(0.4142135623730950f)));
  F y = sel(high, cf(1.5707963267948966f), sel(middle, cf(0.7853981633974483f), cf(0)));
  F t = sel(high, -1.0f / a, sel(middle, (a - 1.0f) / (a + 1.0f), a));
  F z = t * t;
  F p = cf(8.05374449538e-2f);
  p = fma(p, z, cf(-1.38776856032e-1f));
  p = fma(p, z, cf(1.99777106478e-1f));
  p = fma(p, z, cf(-3.33329491539e-1f));
  F r = y + fma(p * z, t, t);
  return real(bits(r) | (bits(x) & (int)0x80000000));
}
IN F vatan2(F y, F x) {
  F ay = vabs(y), ax = vabs(x);
  M steep = gt(ay, ax);
  F ratio = sel(steep, ax, ay) / vmax(vmax(ax, ay), cf(1e-45f));
  F r = vatan(sel(mand(eq(ax, cf(INFINITY)), eq(ay, ax)), cf(1), ratio));
  r = sel(steep, 1.5707963267948966f - r, r);
  r = sel(mor(lt(x, cf(0)), eqi(bits(x), I{} + (int)0x80000000)), 3.14159265358979f - r, r);
  r = real(bits(r) ^ (bits(y) & (int)0x80000000));
  return sel(eq(x, x), sel(eq(y, y), r, y), x);
}
IN F vtanh(F x) { F e = vexp(-2.0f * vabs(x)); F r = (1.0f - e) / (1.0f + e); return sel(lt(x, cf(0)), -r, r); }
IN F vsigmoid(F x) { return 1.0f / (1.0f + vexp(-x)); }
// an entry of the data: kind (0 float, 1 double, 2 int64, 3 bool), first scratch slot, numbers per row
struct Field { char kind; int slot; int count; };
