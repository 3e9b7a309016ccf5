// Around the generated functions: loads and stores of sixteen rows, and the loop over time.
//
// A tile of rows lives through all steps before the next one begins, so that its state stays in the cache.
// Comes after vectors.h, the sizes, the generated functions and the tables of fields (../kernel.py).
#include <cstdlib>
static const int SIZE[] = {4, 8, 8, 1};
static Slot *room(int64_t slots) {
  static thread_local Slot *buffer = nullptr;
  static thread_local int64_t have = 0;
  if (have < slots) { free(buffer); buffer = (Slot *)aligned_alloc(64, slots * 64); memset(buffer, 0, slots * 64); have = slots; }
  return buffer;
}
// of `count` rows in a row, whose slots are `apart` from one vector of sixteen to the next: number by number, so that memory is
// walked through in long pieces
#define EVERY_NUMBER(width, what) EVERY_NUMBER_OF(Slot, width, what)
#define EVERY_NUMBER_OF(slot_type, width, what) \
  for (int k = 0; k < f.count; k++) for (int v = 0, n; v < count; v += 16) { \
    n = count - v < 16 ? count - v : 16; \
    slot_type *s = base + v / 16 * apart + f.slot + width * k; \
    int64_t i = k * rows + row + v; \
    what; \
  }
static inline void load(Slot *base, int64_t apart, const Field &f, const char *p, int64_t rows, int64_t row, int count) {
  if (f.kind == 0) EVERY_NUMBER(1, *(F *)s = loadf((const float *)p + i, n))
  else if (f.kind == 1) EVERY_NUMBER(2, *(D *)s = loadd((const double *)p + i, n))
  else if (f.kind == 2) EVERY_NUMBER(2, *(L *)s = loadl((const int64_t *)p + i, n))
  else EVERY_NUMBER(1, *(M *)s = loadb((const uint8_t *)p + i, n))
}
static inline void store(Slot *base, int64_t apart, const Field &f, char *p, int64_t rows, int64_t row, int count, bool past = false) {
  if (f.kind == 0 && past && !(count & 15) && !(((uintptr_t)p | (uintptr_t)(4 * row) | (uintptr_t)(4 * rows)) & 63))
    EVERY_NUMBER(1, (void)n; streamf((float *)p + i, *(const F *)s))
  else if (f.kind == 0) EVERY_NUMBER(1, storef((float *)p + i, *(const F *)s, n))
  else if (f.kind == 1) EVERY_NUMBER(2, stored((double *)p + i, *(const D *)s, n))
  else if (f.kind == 2) EVERY_NUMBER(2, storel((int64_t *)p + i, *(const L *)s, n))
  else EVERY_NUMBER(1, storeb((uint8_t *)p + i, *(const M *)s, n))
}
// the same, of the rows asked for
static inline void blend(const Slot *base, int64_t apart, const Field &f, char *p, int64_t rows, int64_t row, int count, const M *asked) {
#define MIXED(type, number, loads, stores) \
  { number *q = (number *)p + i; stores(q, sel(asked[v / 16], *(const type *)s, loads(q, n)), n); }
  if (f.kind == 0) EVERY_NUMBER_OF(const Slot, 1, MIXED(F, float, loadf, storef))
  else if (f.kind == 1) EVERY_NUMBER_OF(const Slot, 2, MIXED(D, double, loadd, stored))
  else if (f.kind == 2) EVERY_NUMBER_OF(const Slot, 2, MIXED(L, int64_t, loadl, storel))
  else EVERY_NUMBER_OF(const Slot, 1, { uint8_t *q = (uint8_t *)p + i; M m = asked[v / 16]; storeb(q, mor(mand(m, *(const M *)s), mand(mnot(m), loadb(q, n))), n); })
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
static inline char *at(void *p, const Field &f, int64_t rows, int64_t t) { return (char *)p + SIZE[(int)f.kind] * f.count * rows * t; }

// vectors whose results are written together, from scratch memory of their own each: past the caches 256 bytes in a row are
// faster than 64, as long as the scratch memory stays in the caches
static const int GROUP = NSLOTS <= 1000 ? 4 : 1, SPAN = 16 * GROUP;
static inline int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

// state, actions, what is seen next, earned and told next, what is seen before, flags (terminated, truncated, done), keys
extern "C" void run(int64_t rows, int64_t start, int64_t stop, int64_t last, int64_t most, int64_t drawn, int64_t tile, int64_t restart, int64_t streams, void **p,
                    uint8_t *ended) {
  void **acts = p + NSTATE, **next = acts + NACTS, **root = next + NOUTS, **flags = root + NSEEN;
  const int64_t *keys = (const int64_t *)flags[3];
  Slot *scratch = room(GROUP * NSLOTS + tile * NHELD), *held = scratch + GROUP * NSLOTS;
  const bool past = streams;  // only where all vectors are whole
  for (int64_t first = 0; first < rows; first += 16 * tile) {
    int count = least(rows - first, 16 * tile);
    for (int k = 0; k < NSTATE; k++) load(held, NHELD, STATE[k], (const char *)p[k], rows, first, count);
    for (int64_t t = start; t < stop; t++) for (int from = 0; from < count; from += 16 * GROUP) {
      int64_t row = first + from;
      int some = least(count - from, 16 * GROUP);
      if (!keys) for (int k = 0; k < NACTS; k++) load(scratch, NSLOTS, ACTS[k], at(acts[k], ACTS[k], rows, t), rows, row, some);
      for (int v = 0; v < some; v += 16) {
        Slot *st = held + (from + v) / 16 * NHELD, *s = scratch + v / 16 * NSLOTS;
        int n = least(some - v, 16);
        *(M *)(s + CARE) = valid(n);
        if (keys) {
          *(L *)(s + KEY) = loadl(keys + row + v, n);
          *(L *)(s + KEY + 2) = cl(drawn + (t - start) * DRAWS);
          act(st, s);
        }
        step(st, s);
        settle(st, s);
      }
      if (keys) for (int k = 0; k < NACTS; k++) store(scratch, NSLOTS, ACTS[k], at(acts[k], ACTS[k], rows, t), rows, row, some, past);
      for (int k = 0; k < NOUTS; k++) if (next[k]) store(scratch, NSLOTS, OUTS[k], at(next[k], OUTS[k], rows, t), rows, row, some, past);
      for (int v = 0; v < some; v += 16) {
        Slot *st = held + (from + v) / 16 * NHELD, *s = scratch + v / 16 * NSLOTS;
        int n = least(some - v, 16);
        int64_t here = t * rows + row + v;
        M over = *(M *)(st + OVER), late = most > 0 ? ge(*(L *)(st + STEPS), cl(most)) : cb(false), done = mor(over, late);
        storeb((uint8_t *)flags[0] + here, over, n);
        storeb((uint8_t *)flags[1] + here, late, n);
        storeb((uint8_t *)flags[2] + here, done, n);
        done = mand(done, valid(n));
        if (!any(done)) continue;
        ended[t] = 1;
        if (t == last || !restart) continue;
        *(M *)(s + CARE) = done;
        reset(st, s);
        for (int k = 0; k < NSTATE; k++) take(st, STATE[k], s, FRESH[k], done);
        for (int k = 0; k < NSEEN; k++) take(s, OUTS[k], s, FIRST[k], done);
      }
      if (t != last) for (int k = 0; k < NSEEN; k++) store(scratch, NSLOTS, OUTS[k], at(root[k], OUTS[k], rows, t + 1), rows, row, some, past);
    }
    for (int k = 0; k < NSTATE; k++) store(held, NHELD, STATE[k], (char *)p[k], rows, first, count);
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

// new episodes in rows side by side, written where they are asked for: a third at least, else nothing happens
static bool begin_here(int64_t rows, int64_t row, const uint8_t *where, void **p, Slot *scratch, Slot *st) {
  int many = 0;
  for (int i = 0; i < SPAN; i++) many += where[row + i];
  if (3 * many < SPAN) return false;
  M asked[GROUP];
  for (int v = 0; v < GROUP; v++) {
    Slot *s = scratch + v * NSLOTS;
    load(st, NHELD, STATE[RNG], (const char *)p[RNG], rows, row + 16 * v, 16);  // nothing else of the state is read
    *(M *)(s + CARE) = asked[v] = loadb(where + row + 16 * v, 16);
    reset(st, s);
  }
  for (int k = 0; k < NSTATE + NSEEN; k++)
    blend(scratch, NSLOTS, k < NSTATE ? FRESH[k] : FIRST[k - NSTATE], (char *)p[k], rows, row, SPAN, asked);
  return true;
}

// state, what is seen; of the rows asked for sixteen in a vector, wherever they are, unless they are many and easily computed
extern "C" void begin(int64_t rows, int64_t streams, const uint8_t *where, void **p) {
  Slot *scratch = room(GROUP * NSLOTS + NHELD), *st = scratch + GROUP * NSLOTS;
  for (int64_t next = 0; next < rows;) {
    int64_t row[SPAN];
    int some = 0;
    while (some < SPAN && next < rows) {
      if (BLENDS && where && next % SPAN == 0 && rows - next >= SPAN && begin_here(rows, next, where, p, scratch, st)) {
        next += SPAN;
        continue;
      }
      row[some] = next;
      some += !where || where[next];
      next++;
    }
    if (!some) break;
    for (int v = 0; v < some; v += 16) {
      Slot *s = scratch + v / 16 * NSLOTS;
      gather(st, STATE[RNG], (const char *)p[RNG], rows, row + v, least(some - v, 16));
      *(M *)(s + CARE) = valid(least(some - v, 16));
      reset(st, s);
    }
    bool straight = row[some - 1] - row[0] == some - 1;
    for (int k = 0; k < NSTATE + NSEEN; k++) {
      const Field &f = k < NSTATE ? FRESH[k] : FIRST[k - NSTATE];
      if (straight) store(scratch, NSLOTS, f, (char *)p[k], rows, row[0], some, streams);
      else for (int v = 0; v < some; v += 16) scatter(scratch + v / 16 * NSLOTS, f, (char *)p[k], rows, row + v, least(some - v, 16));
    }
  }
}
