// Arithmetic on sixteen rows at once: what the generated code (../codegen.py) is made of.
//
// GCC's and Clang's vector extensions, in registers of 64 bytes where there is AVX-512, else of 32 or 16.
//
// F, D, L, M: sixteen floats, doubles, int64s, truth values. I: sixteen int32s, of one size with F.
#include <cmath>
#include <cstdint>
#include <cstring>
#define BOTH __attribute__((always_inline))
struct alignas(64) Slot { float x[16]; };
#define IN static inline __attribute__((always_inline))
#define PART static __attribute__((noinline)) void
#define WHOLE PART
// where linkers say where the code of a step begins and ends, it can be fetched before it is run; elsewhere it is not
#ifdef __ELF__
#define FETCHED __attribute__((section("step_code")))
#else
#define FETCHED
#endif
#define EACH for (int i = 0; i < 16; i++)
#define HALF for (int i = 0; i < 8; i++)
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "avx512.h"
#else
#include "parts.h"
#endif
IN F cf(float x) { return x - F{}; }
IN L cl(int64_t x) { return {x - H{}, x - H{}}; }
IN D cd(double x) { return {x - G{}, x - G{}}; }
// the entry of each row from arrays of values, by a number that is cut to the length
IN int64_t within(L at, int i, int64_t n) {
  int64_t k = i < 8 ? at.a[i] : at.b[i - 8];
  return k < 0 ? 0 : k < n ? k : n - 1;
}
IN F takef(const Slot *p, int n, L at) { F r; EACH r[i] = p[within(at, i, n)].x[i]; return r; }
#define TAKE(name, T) IN T name(const Slot *p, int n, L at) { \
  T r; HALF { r.a[i] = ((const T *)(p + 2 * within(at, i, n)))->a[i]; r.b[i] = ((const T *)(p + 2 * within(at, i + 8, n)))->b[i]; } \
  return r; }
TAKE(takel, L) TAKE(taked, D)
IN M takeb(const Slot *p, int n, L at) { M r = cb(false); EACH put(r, i, bit(*(const M *)(p + within(at, i, n)), i)); return r; }
// the same from a table that all rows share
IN F lookf(const float *p, int n, L at) { F r; EACH r[i] = p[within(at, i, n)]; return r; }
#define LOOK(name, T, E) IN T name(const E *p, int n, L at) { \
  T r; HALF { r.a[i] = p[within(at, i, n)]; r.b[i] = p[within(at, i + 8, n)]; } return r; }
LOOK(lookl, L, int64_t) LOOK(lookd, D, double)
// a function of numbers, of one row after the other: right, not fast
#define DOUBLE1(name, f) IN D name(D x) { D r; HALF { r.a[i] = f(x.a[i]); r.b[i] = f(x.b[i]); } return r; }
#define DOUBLE2(name, f) IN D name(D x, D y) { D r; HALF { r.a[i] = f(x.a[i], y.a[i]); r.b[i] = f(x.b[i], y.b[i]); } return r; }
#define SINGLE1(name, f) IN F name(F x) { F r; EACH r[i] = f((float)x[i]); return r; }
#define SINGLE2(name, f) IN F name(F x, F y) { F r; EACH r[i] = f((float)x[i], (float)y[i]); return r; }
#define WHOLES(name, f) IN L name(L x, L y) { L r; HALF { r.a[i] = f(x.a[i], y.a[i]); r.b[i] = f(x.b[i], y.b[i]); } return r; }
#include "functions.h"
// an entry of the data: kind (0 float, 1 double, 2 int64, 3 bool), first scratch slot, numbers per row
struct Field { char kind; int slot; int count; };
// some numbers of an entry of the state, side by side; lists of them end with none (../kernel.py)
struct Piece { int entry, first; Field field; };
