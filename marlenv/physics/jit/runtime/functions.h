// The functions of the generated code (../codegen.py), on whatever F, D, L, M and I are: sixteen rows (vectors.h) or one (scalar.h).
//
// Sums, products, quotients and square roots are those of IEEE 754, and so of eager mode; exp, log, sin, cos and atan2 are off by
// two units in the last place at most. Their polynomials are those of Cephes (Moshier 1989, https://www.netlib.org/cephes/).
IN F tof(M m) { return sel(m, cf(1), cf(0)); }
IN L tol(M m) { return sel(m, cl(1), cl(0)); }
IN D tod(M m) { return sel(m, cd(1), cd(0)); }
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
WHOLES(floordiv, fdiv) WHOLES(truncdiv, tdiv)
IN L mod(L x, L y) { return x - floordiv(x, y) * y; }
IN L rem(L x, L y) { return x - truncdiv(x, y) * y; }
IN L vsign(L x) { return sel(gt(x, cl(0)), cl(1), sel(lt(x, cl(0)), cl(-1), cl(0))); }
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
SINGLE2(hard_mod, modulo)
IN F mod(F x, F y) {
  F q = x / y, r = fma(-vfloor(q), y, x);
  r = sel(mand(ne(r, cf(0)), mxor(lt(r, cf(0)), lt(y, cf(0)))), r + y, r);
  M hard = mnot(mand(lt(vabs(q), cf(1e6f)), lt(vabs(y), cf(INFINITY))));  // NaN too
  if (any(hard)) r = sel(hard, hard_mod(x, y), r);
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
  p = p * real((ints(n) + 127) << 23);
  p = sel(gt(x, cf(88.72f)), cf(INFINITY), p);
  return sel(lt(x, cf(-103.0f)), cf(0), p);
}
IN F vlog(F x) {
  M tiny = lt(x, cf(1.17549435e-38f));
  I b = bits(sel(tiny, x * 33554432.0f, x));
  I e = ((b >> 23) & 0xff) - 126;
  F m = real((b & 0x807fffff) | 0x3f000000);
  M low = lt(m, cf(0.707106781186547524f));
  F k = floats(e);
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
IN float sin_of(double x) { return std::sin(x); }
IN float cos_of(double x) { return std::cos(x); }
SINGLE1(large_sin, sin_of) SINGLE1(large_cos, cos_of)
IN void sincos(F x, F *s, F *c) {
  F a = vabs(x);
  I j = ints(a * 1.27323954473516f);
  j = (j + 1) & ~1;
  F y = floats(j);
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
  if (any(large)) { *s = sel(large, large_sin(x), *s); *c = sel(large, large_cos(x), *c); }
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
