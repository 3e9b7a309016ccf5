// Arithmetic on one row: what the generated code (../codegen.py) is made of in a thread of a GPU.
//
// The same names as vectors.h has, on single numbers; a compiler for CPUs takes it too.
#ifdef __CUDACC_RTC__  // NVRTC, which brings the functions of <cmath> without the header, as functions of the device
typedef signed int int32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned char uint8_t;
#define INT64_MIN (-9223372036854775807LL - 1)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define M_LN2 0.69314718055994530942
namespace std {
using ::sqrt; using ::sin; using ::cos; using ::tan; using ::exp; using ::log; using ::log1p; using ::floor; using ::ceil; using ::trunc;
using ::nearbyint; using ::atan; using ::tanh; using ::atan2; using ::asin; using ::acos; using ::sinh; using ::cosh; using ::exp2;
using ::expm1; using ::log2; using ::log10; using ::erf; using ::pow; using ::hypot; using ::fmod; using ::copysign; using ::fabs; using ::isnan;
}
#define IN static __forceinline__
#define PART static __noinline__ void
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#define IN static inline __attribute__((always_inline))
#define PART static __attribute__((noinline)) void
#endif
#define WHOLE IN void  // so that slots become registers
struct Slot { unsigned char x[4]; };  // int64s and doubles take two, the first with an even number
typedef float F;
typedef double D;
typedef int32_t I;
typedef bool M;
// int64s wrap around, as they do in PyTorch
struct L { int64_t x; };
#define WRAPS(op) IN L operator op(L a, L b) { return {(int64_t)((uint64_t)a.x op (uint64_t)b.x)}; }
WRAPS(+) WRAPS(-) WRAPS(*) WRAPS(&) WRAPS(|) WRAPS(^) WRAPS(<<)
IN L operator>>(L a, L b) { return {a.x >> b.x}; }
IN L operator-(L a) { return {(int64_t)(0 - (uint64_t)a.x)}; }
#define COMPARE(name, op) \
  IN M name(F a, F b) { return a op b; } \
  IN M name(D a, D b) { return a op b; } \
  IN M name(L a, L b) { return a.x op b.x; }
COMPARE(lt, <) COMPARE(le, <=) COMPARE(gt, >) COMPARE(ge, >=) COMPARE(eq, ==) COMPARE(ne, !=)
IN M eqi(I a, I b) { return a == b; }
IN F cf(float x) { return x; }
IN D cd(double x) { return x; }
IN L cl(int64_t x) { return {x}; }
IN M cb(bool x) { return x; }
IN bool any(M m) { return m; }
IN M mand(M a, M b) { return a & b; }
IN M mor(M a, M b) { return a | b; }
IN M mxor(M a, M b) { return a != b; }
IN M mnot(M a) { return !a; }
template <class T> IN T sel(M m, T a, T b) { return m ? a : b; }
IN I bits(F x) { I r; memcpy(&r, &x, 4); return r; }
IN F real(I x) { F r; memcpy(&r, &x, 4); return r; }
IN I ints(F x) { return (I)x; }
IN F floats(I x) { return (F)x; }
IN F tof(D x) { return (F)x; }
IN F tof(L x) { return (F)x.x; }
IN D tod(F x) { return (D)x; }
IN D tod(L x) { return (D)x.x; }
IN L tol(F x) { return {(int64_t)x}; }
IN L tol(D x) { return {(int64_t)x}; }
IN F vsqrt(F x) { return sqrtf(x); }
IN F vfloor(F x) { return floorf(x); }
IN F vceil(F x) { return ceilf(x); }
IN F vtrunc(F x) { return truncf(x); }
IN F vround(F x) { return nearbyintf(x); }
IN F fma(F a, F b, F c) { return fmaf(a, b, c); }
IN F vmin(F a, F b) { return a < b ? a : b; }
IN F vmax(F a, F b) { return a > b ? a : b; }
// the entry of an array of values, by a number that is cut to the length
IN int64_t within(L at, int64_t n) { return at.x < 0 ? 0 : at.x < n ? at.x : n - 1; }
#define TAKE(name, T, width) IN T name(const Slot *p, int n, L at) { return *(const T *)(p + width * within(at, n)); }
TAKE(takef, F, 1) TAKE(takel, L, 2) TAKE(taked, D, 2) TAKE(takeb, M, 1)
IN F lookf(const float *p, int n, L at) { return p[within(at, n)]; }
IN L lookl(const int64_t *p, int n, L at) { return {p[within(at, n)]}; }
IN D lookd(const double *p, int n, L at) { return p[within(at, n)]; }
#define DOUBLE1(name, f) IN D name(D x) { return f(x); }
#define DOUBLE2(name, f) IN D name(D x, D y) { return f(x, y); }
#define SINGLE1(name, f) IN F name(F x) { return f(x); }
#define SINGLE2(name, f) IN F name(F x, F y) { return f(x, y); }
#define WHOLES(name, f) IN L name(L x, L y) { return {f(x.x, y.x)}; }
#include "functions.h"
