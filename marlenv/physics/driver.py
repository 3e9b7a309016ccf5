"""The C++ around the generated functions: loads and stores of sixteen rows, and the loop over time.

A tile of rows lives through all steps before the next one begins, so that its state stays in the cache.
"""

from __future__ import annotations

DRIVER = r"""
#include <cstdlib>
struct Field { char kind; int slot; int count; };
static const int SIZE[] = {4, 8, 8, 1};
static Slot *room(int64_t slots) {
  static thread_local Slot *buffer = nullptr;
  static thread_local int64_t have = 0;
  if (have < slots) { free(buffer); buffer = (Slot *)aligned_alloc(64, slots * 64); memset(buffer, 0, slots * 64); have = slots; }
  return buffer;
}
static inline void load(Slot *base, const Field &f, const char *p, int64_t rows, int64_t row, int n) {
  Slot *s = base + f.slot;
  if (f.kind == 0) for (int k = 0; k < f.count; k++) *(F *)(s + k) = loadf((const float *)p + k * rows + row, n);
  else if (f.kind == 1) for (int k = 0; k < f.count; k++) *(D *)(s + 2 * k) = loadd((const double *)p + k * rows + row, n);
  else if (f.kind == 2) for (int k = 0; k < f.count; k++) *(L *)(s + 2 * k) = loadl((const int64_t *)p + k * rows + row, n);
  else for (int k = 0; k < f.count; k++) *(M *)(s + k) = loadb((const uint8_t *)p + k * rows + row, n);
}
static inline void store(const Slot *base, const Field &f, char *p, int64_t rows, int64_t row, int n, bool past = false) {
  const Slot *s = base + f.slot;
  if (f.kind == 0) {
    float *q = (float *)p + row;
    if (past && n == 16 && !(((uintptr_t)q | (uintptr_t)(4 * rows)) & 63)) for (int k = 0; k < f.count; k++) streamf(q + k * rows, *(const F *)(s + k));
    else for (int k = 0; k < f.count; k++) storef(q + k * rows, *(const F *)(s + k), n);
  }
  else if (f.kind == 1) for (int k = 0; k < f.count; k++) stored((double *)p + k * rows + row, *(const D *)(s + 2 * k), n);
  else if (f.kind == 2) for (int k = 0; k < f.count; k++) storel((int64_t *)p + k * rows + row, *(const L *)(s + 2 * k), n);
  else for (int k = 0; k < f.count; k++) storeb((uint8_t *)p + k * rows + row, *(const M *)(s + k), n);
}
static inline void take(Slot *to, const Field &t, const Slot *from, const Field &f, M where) {
  Slot *a = to + t.slot;
  const Slot *b = from + f.slot;
  if (t.kind == 0) for (int k = 0; k < t.count; k++) *(F *)(a + k) = sel(where, *(const F *)(b + k), *(F *)(a + k));
  else if (t.kind == 1) for (int k = 0; k < t.count; k++) *(D *)(a + 2 * k) = sel(where, *(const D *)(b + 2 * k), *(D *)(a + 2 * k));
  else if (t.kind == 2) for (int k = 0; k < t.count; k++) *(L *)(a + 2 * k) = sel(where, *(const L *)(b + 2 * k), *(L *)(a + 2 * k));
  else for (int k = 0; k < t.count; k++) {
    M old = *(M *)(a + k), fresh = *(const M *)(b + k);
    *(M *)(a + k) = mor(mand(where, fresh), mand(mnot(where), old));
  }
}
static const M EVERY = cb(true);
static inline char *at(void *p, const Field &f, int64_t rows, int64_t t) { return (char *)p + SIZE[(int)f.kind] * f.count * rows * t; }

// state, actions, what is seen next, earned and told next, what is seen before, flags (terminated, truncated, done), keys
extern "C" void run(int64_t rows, int64_t start, int64_t stop, int64_t last, int64_t most, int64_t drawn, int64_t tile, int64_t restart, int64_t streams, void **p,
                    uint8_t *ended) {
  void **acts = p + NSTATE, **next = acts + NACTS, **root = next + NOUTS, **flags = root + NSEEN;
  const int64_t *keys = (const int64_t *)flags[3];
  Slot *s = room(NSLOTS + tile * NHELD), *held = s + NSLOTS;
  const bool past = streams;
  for (int64_t first = 0; first < rows; first += 16 * tile) {
    int count = (int)((rows - first + 15) / 16 < tile ? (rows - first + 15) / 16 : tile);
    for (int v = 0; v < count; v++) {
      int64_t row = first + 16 * v;
      int n = rows - row < 16 ? (int)(rows - row) : 16;
      for (int k = 0; k < NSTATE; k++) load(held + v * NHELD, STATE[k], (const char *)p[k], rows, row, n);
    }
    for (int64_t t = start; t < stop; t++) for (int v = 0; v < count; v++) {
      Slot *st = held + v * NHELD;
      int64_t row = first + 16 * v;
      int n = rows - row < 16 ? (int)(rows - row) : 16;
      if (keys) {
        *(L *)(s + KEY) = loadl(keys + row, n);
        *(L *)(s + KEY + 2) = cl(drawn + (t - start) * DRAWS);
        act(st, s);
        for (int k = 0; k < NACTS; k++) store(s, ACTS[k], at(acts[k], ACTS[k], rows, t), rows, row, n, past);
      } else for (int k = 0; k < NACTS; k++) load(s, ACTS[k], at(acts[k], ACTS[k], rows, t), rows, row, n);
      step(st, s);
      settle(st, s);
      for (int k = 0; k < NOUTS; k++) if (next[k]) store(s, OUTS[k], at(next[k], OUTS[k], rows, t), rows, row, n, past);
      M over = *(M *)(st + OVER), late = most > 0 ? ge(*(L *)(st + STEPS), cl(most)) : cb(false), done = mor(over, late);
      storeb((uint8_t *)flags[0] + t * rows + row, over, n);
      storeb((uint8_t *)flags[1] + t * rows + row, late, n);
      storeb((uint8_t *)flags[2] + t * rows + row, done, n);
      done = mand(done, valid(n));
      bool some = any(done);
      if (some) ended[t] = 1;
      if (t == last) continue;
      if (restart && some) {
        *(M *)(s + CARE) = done;
        reset(st, s);
        for (int k = 0; k < NSTATE; k++) take(st, STATE[k], s, FRESH[k], done);
        for (int k = 0; k < NSEEN; k++) take(s, OUTS[k], s, FIRST[k], done);
      }
      for (int k = 0; k < NSEEN; k++) store(s, OUTS[k], at(root[k], OUTS[k], rows, t + 1), rows, row, n, past);
    }
    for (int v = 0; v < count; v++) {
      int64_t row = first + 16 * v;
      int n = rows - row < 16 ? (int)(rows - row) : 16;
      for (int k = 0; k < NSTATE; k++) store(held + v * NHELD, STATE[k], (char *)p[k], rows, row, n);
    }
  }
}

// rows at any places: their numbers go through a buffer
#define EVERY_KIND(type, width, loads, stores) \
  for (int k = 0; k < f.count; k++) { type *q = (type *)p + k * rows, x[16]; Slot *v = s + width * k; TRANSFER(loads, stores) }
#define ALL_KINDS \
  if (f.kind == 0) EVERY_KIND(float, 1, *(F *)v = loadf(x, n), storef(x, *(F *)v, n)) \
  else if (f.kind == 1) EVERY_KIND(double, 2, *(D *)v = loadd(x, n), stored(x, *(D *)v, n)) \
  else if (f.kind == 2) EVERY_KIND(int64_t, 2, *(L *)v = loadl(x, n), storel(x, *(L *)v, n)) \
  else EVERY_KIND(uint8_t, 1, *(M *)v = loadb(x, n), storeb(x, *(M *)v, n))
static void gather(Slot *base, const Field &f, const char *p, int64_t rows, const int64_t *row, int n) {
  Slot *s = base + f.slot;
#define TRANSFER(loads, stores) for (int i = 0; i < n; i++) x[i] = q[row[i]]; loads;
  ALL_KINDS
#undef TRANSFER
}
static void scatter(Slot *base, const Field &f, char *p, int64_t rows, const int64_t *row, int n) {
  Slot *s = base + f.slot;
#define TRANSFER(loads, stores) stores; for (int i = 0; i < n; i++) q[row[i]] = x[i];
  ALL_KINDS
#undef TRANSFER
}

// state, what is seen; sixteen of the rows asked for at a time, wherever they are
extern "C" void begin(int64_t rows, const uint8_t *where, void **p) {
  Slot *s = room(NSLOTS + NHELD), *st = s + NSLOTS;
  for (int64_t next = 0; next < rows;) {
    int64_t row[16];
    int n = 0;
    for (; n < 16 && next < rows; next++) { row[n] = next; n += !where || where[next]; }
    if (!n) break;
    gather(st, STATE[RNG], (const char *)p[RNG], rows, row, n);  // nothing else of the state is read
    *(M *)(s + CARE) = valid(n);
    reset(st, s);
    bool straight = row[n - 1] - row[0] == n - 1;
    for (int k = 0; k < NSTATE; k++)
      if (straight) store(s, FRESH[k], (char *)p[k], rows, row[0], n); else scatter(s, FRESH[k], (char *)p[k], rows, row, n);
    for (int k = 0; k < NSEEN; k++)
      if (straight) store(s, FIRST[k], (char *)p[NSTATE + k], rows, row[0], n); else scatter(s, FIRST[k], (char *)p[NSTATE + k], rows, row, n);
  }
}
"""
