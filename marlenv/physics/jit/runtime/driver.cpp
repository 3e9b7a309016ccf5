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
static inline char *place(void **p, const Piece &x, int64_t rows) { return (char *)p[x.entry] + SIZE[(int)x.field.kind] * x.first * rows; }
static inline void load(Slot *base, const Piece *some, void **p, int64_t rows, int64_t row, int count) {
  for (; some->field.count; some++) load(base, NHELD, some->field, place(p, *some, rows), rows, row, count);
}
static inline void store(Slot *base, const Piece *some, void **p, int64_t rows, int64_t row, int count) {
  for (; some->field.count; some++) store(base, NHELD, some->field, place(p, *some, rows), rows, row, count);
}
static inline int64_t bytes(const Field &f) { return SIZE[(int)f.kind] * f.count; }
static inline char *at(void *p, const Field &f, int64_t rows, int64_t t) { return (char *)p + bytes(f) * rows * t; }
static inline char *shown_at(void *p, const Field &f, int64_t rows, int64_t t) { return (char *)p + (bytes(f) * rows + 63) / 64 * 64 * t; }

// vectors whose results are written together, from scratch memory of their own each: past the caches 256 bytes in a row are
// faster than 64, as long as the scratch memory stays in the caches
static const int GROUP = NSLOTS <= 1000 ? 4 : 1, SPAN = 16 * GROUP;
static inline int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

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
static void scatter_asked(Slot *base, const Field &f, char *p, int64_t rows, const int64_t *row, int n, const uint8_t *asked) {
  Slot *s = base + f.slot;
#define TRANSFER(loads, stores) stores; for (int i = 0; i < n; i++) if (asked[i]) q[row[i]] = x[i];
  ALL_KINDS
#undef TRANSFER
}
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t Order __attribute__((vector_size(16)));
#ifdef __clang__
#define PICK(x, y, i, j, k, l) __builtin_shufflevector(x, y, i, j, k, l)
#else
#define PICK(x, y, i, j, k, l) __builtin_shuffle(x, y, Order{i, j, k, l})
#endif
// a square of four by four numbers, whose lines are sixteen apart, and `apart` where they become columns
IN void turn_four(const float *x, float *q, int64_t apart) {
  Four a = *(const Four *)x, b = *(const Four *)(x + 16), c = *(const Four *)(x + 32), d = *(const Four *)(x + 48);
  Four ab = PICK(a, b, 0, 4, 1, 5), cd = PICK(c, d, 0, 4, 1, 5);
  *(Four *)q = PICK(ab, cd, 0, 1, 4, 5), *(Four *)(q + apart) = PICK(ab, cd, 2, 3, 6, 7);
  ab = PICK(a, b, 2, 6, 3, 7), cd = PICK(c, d, 2, 6, 3, 7);
  *(Four *)(q + 2 * apart) = PICK(ab, cd, 0, 1, 4, 5), *(Four *)(q + 3 * apart) = PICK(ab, cd, 2, 3, 6, 7);
}
// the first `n` of sixteen rows of `count` numbers, from number after number to row after row
static inline void turn_sixteen(const float *x, float *q, int64_t count, int n) {
  int64_t k = 0;
  if (n == 16) for (; k + 4 <= count; k += 4) for (int i = 0; i < 16; i += 4) turn_four(x + 16 * k + i, q + i * count + k, count);
  for (; k < count; k++) for (int i = 0; i < n; i++) q[i * count + k] = x[16 * k + i];
}
// the places of sixteen rows, where memory holds row after row, and of each all numbers of an entry
struct Places { int64_t at[16]; };
static inline Places places(const int64_t *row, int n, const Field &f) {
  Places p;
  for (int i = 0; i < n; i++) p.at[i] = row[i] * f.count;
  return p;
}
static inline Places places(int64_t row, const Field &f) {
  Places p;
  for (int i = 0; i < 16; i++) p.at[i] = (row + i) * f.count;
  return p;
}
// of neighbouring rows
static void load_rows(Slot *scratch, const Field &f, const char *p, int64_t row, int count) {
  for (int v = 0; v < count; v += 16) gather(scratch + v / 16 * NSLOTS, f, p, 1, places(row + v, f).at, least(count - v, 16));
}
static void store_rows(Slot *scratch, const Field &f, char *p, int64_t row, int count, bool past = false) {
  const int most = 256;
  past = past && f.kind == 0 && f.count <= most && !(((uintptr_t)p | (uintptr_t)(4 * f.count * row)) & 63);
  for (int v = 0; v < count; v += 16) {
    Slot *s = scratch + v / 16 * NSLOTS;
    int n = least(count - v, 16);
    float *q = (float *)p + (row + v) * f.count;
    if (f.kind != 0) scatter(s, f, p, 1, places(row + v, f).at, n);
    else if (!past || n < 16) turn_sixteen((const float *)(s + f.slot), q, f.count, n);
    else {
      alignas(64) float turned[16 * most];
      turn_sixteen((const float *)(s + f.slot), turned, f.count, 16);
      for (int k = 0; k < f.count; k++) streamf(q + 16 * k, loadf(turned + 16 * k, 16));
    }
  }
}

// the code of a step, a hundred kilobytes one after the other, which an actor with large networks has driven out of the caches.
// Where few rows are computed it costs more than it saves
static const int MANY = 128;
#ifdef __ELF__
extern const char __start_step_code[] __attribute__((visibility("hidden"))), __stop_step_code[] __attribute__((visibility("hidden")));
PART fetch_code() { for (const char *p = __start_step_code; p < __stop_step_code; p += 64) __builtin_prefetch(p, 0, 2); }
#else
PART fetch_code() {}
#endif

// what `run` is asked for, as CpuKernel lays it out (../cpu_kernel.py)
struct Call {
  int64_t rows, start, stop, last, most, drawn, tile, restart, streams, acting;
  void **p;
  uint8_t *ended;
};
static inline int64_t span(const Call &c) { return c.acting ? 16 : SPAN; }  // rows that are computed before their results are written

// where what is shown of rows so far ahead will be written is on its way from memory while others are computed
static const int SOON = 32;
PART show_soon(const Call &c, int64_t t, int64_t row, int64_t some) {
  void **shown = c.p + NSTATE + NACTS + NOUTS + NSEEN + 4;
  for (int k = 0; k < NSEEN; k++) {
    const int64_t size = bytes(OUTS[k]);
    const char *p = shown_at(shown[k], OUTS[k], c.rows, t) + row * size;
    for (int64_t i = 0; i < some * size; i += 64) __builtin_prefetch(p + i, 1);
  }
}

// the rows from `low` to `high`: state, actions, what is seen next, earned and told next, what is seen before, flags
// (terminated, truncated, done), keys, and what is shown before the next step to who acts, each step at the next multiple of 64
// bytes. Where somebody is `acting`, actions (those of one step) and all that follows lie row after row in each step, what is
// seen before a step is only what is shown, and what is seen next is written for groups of rows of which any is done (`fill` does
// the rest): where none is, it is what is shown
static void play(const Call &c, int64_t low, int64_t high) {
  int64_t rows = c.rows, start = c.start, last = c.last, drawn = c.drawn, tile = c.tile, wide = span(c);
  void **p = c.p, **acts = p + NSTATE, **next = acts + NACTS, **root = next + NOUTS, **flags = root + NSEEN;
  void **shown = flags + 4;
  const int64_t *keys = (const int64_t *)flags[3];
  Slot *scratch = room(GROUP * NSLOTS + tile * NHELD), *held = scratch + GROUP * NSLOTS;
  const bool past = c.streams;  // only where all vectors are whole
  for (int64_t first = low; first < high; first += 16 * tile) {
    int count = least(high - first, 16 * tile);
    load(held, READ, p, rows, first, count);
    if (c.acting && count >= MANY) fetch_code();
    for (int64_t t = start; t < c.stop; t++) for (int from = 0; from < count; from += wide) {
      int64_t row = first + from;
      int some = least(count - from, wide);
      if (c.acting && t != last && row + SOON < high) show_soon(c, t, row + SOON, some);
      if (c.acting) for (int k = 0; k < NACTS; k++) load_rows(scratch, ACTS[k], (const char *)acts[k], row, some);
      else if (!keys) for (int k = 0; k < NACTS; k++) load(scratch, NSLOTS, ACTS[k], at(acts[k], ACTS[k], rows, t), rows, row, some);
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
      bool ends = false, began = false;
      M ended[GROUP];
      for (int v = 0; v < some; v += 16) {
        Slot *st = held + (from + v) / 16 * NHELD;
        int n = least(some - v, 16);
        int64_t here = t * rows + row + v;
        M over = *(M *)(st + OVER), late = c.most > 0 ? ge(*(L *)(st + STEPS), cl(c.most)) : cb(false), done = mor(over, late);
        storeb((uint8_t *)flags[0] + here, over, n);
        storeb((uint8_t *)flags[1] + here, late, n);
        storeb((uint8_t *)flags[2] + here, done, n);
        ended[v / 16] = mand(done, valid(n));
        ends = ends || any(ended[v / 16]);
      }
      if (ends) __atomic_store_n(c.ended + t, 1, __ATOMIC_RELAXED);
      for (int k = 0; k < NOUTS; k++) if (next[k]) {
        if (!c.acting) store(scratch, NSLOTS, OUTS[k], at(next[k], OUTS[k], rows, t), rows, row, some, past);
        else if (k >= NSEEN || ends || t == last) store_rows(scratch, OUTS[k], at(next[k], OUTS[k], rows, t), row, some, past);
      }
      for (int v = 0; ends && t != last && c.restart && v < some; v += 16) {
        M done = ended[v / 16];
        if (!any(done)) continue;
        Slot *st = held + (from + v) / 16 * NHELD, *s = scratch + v / 16 * NSLOTS;
        began = true;
        int n = least(some - v, 16);
        *(M *)(s + CARE) = done;
        load(st, OTHER, p, rows, row + v, n);
        reset(st, s);
        for (int k = 0; k < NSTATE; k++) take(st, STATE[k], s, FRESH[k], done);
        store(st, LEFT, p, rows, row + v, n);
        for (int k = 0; k < NSEEN; k++) take(s, OUTS[k], s, FIRST[k], done);
      }
      if (t != last) for (int k = 0; k < NSEEN; k++) {
        const Field &f = OUTS[k];
        if (!c.acting) store(scratch, NSLOTS, f, at(root[k], f, rows, t + 1), rows, row, some, past);
        else {
          char *seen = shown_at(shown[k], f, rows, t);
          const int64_t size = bytes(f);
          if (next[k] && ends && !began) memcpy(seen + row * size, at(next[k], f, rows, t) + row * size, some * size);
          else store_rows(scratch, f, seen, row, some);
        }
      }
    }
    store(held, CHANGED, p, rows, first, count);
  }
}

// after a step in which somebody acted, and any row ended: what is seen next by groups of rows of which none is done
static void fill(const Call &c, int64_t t) {
  void **next = c.p + NSTATE + NACTS, **flags = next + NOUTS + NSEEN, **shown = flags + 4;
  const uint8_t *done = (const uint8_t *)flags[2] + t * c.rows;
  for (int64_t row = 0; row < c.rows; row += span(c)) {
    const int some = least(c.rows - row, span(c));
    if (memchr(done + row, 1, some)) continue;
    for (int k = 0; k < NSEEN; k++) if (next[k]) {
      const int64_t size = bytes(OUTS[k]);
      memcpy(at(next[k], OUTS[k], c.rows, t) + row * size, shown_at(shown[k], OUTS[k], c.rows, t) + row * size, some * size);
    }
  }
}

// OpenMP's functions, of the library that PyTorch has loaded: what runs a function in many threads, and which thread of
// how many it is
struct Pool {
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
  int (*thread)();
  int (*threads)();
};
struct Shared {
  const Call *call;
  const Pool *pool;
};

// a thread's part of the rows, whole pieces of `size` rows; all of them where there is no pool. What is computed of a row is
// the same wherever the cuts are
struct Part { int64_t low, high; };
static Part part(const Pool *pool, int64_t rows, int64_t size) {
  int64_t pieces = (rows + size - 1) / size, k = pool ? pool->thread() : 0, n = pool ? pool->threads() : 1;
  int64_t low = size * (pieces * k / n), high = size * (pieces * (k + 1) / n);
  return {low, high < rows ? high : rows};
}
static void share(void *p) {
  const Shared &s = *(const Shared *)p;
  Part mine = part(s.pool, s.call->rows, span(*s.call));
  play(*s.call, mine.low, mine.high);
}

// whether any action of one step is no finite number
static bool odd(const Call &c) {
  for (int k = 0; k < NACTS; k++) {
    const uint32_t *x = (const uint32_t *)c.p[NSTATE + k], high = 0x7f800000;
    uint32_t found = 0;
    if (ACTS[k].kind == 0) for (int64_t i = 0; i < c.rows * ACTS[k].count; i++) found |= (x[i] & high) == high;
    if (found) return true;
  }
  return false;
}

// where somebody is acting with what is no number, and this looks for it, nothing happens, and 1 is returned
static const int64_t LOOKS = 2;
extern "C" int64_t run(const Call *call, int64_t threads, const Pool *pool) {
  const Call &c = *call;
  Shared shared = {call, pool};
  if (c.acting == LOOKS && odd(c)) return 1;
  if (threads > 1) pool->parallel(share, &shared, (unsigned)threads, 0);
  else play(c, 0, c.rows);
  if (c.acting) for (int64_t t = c.start; t < c.stop; t++) if (c.ended[t] && t != c.last) fill(c, t);
  return 0;
}

// bytes side by side, past the caches but for the ends
static inline void stream(char *to, const char *from, int64_t size) {
  int64_t head = least(-(uintptr_t)to & 63, size), k = head;
  memcpy(to, from, head);
  for (; k + 64 <= size; k += 64) streamf((float *)(to + k), loadf((const float *)(from + k), 16));
  memcpy(to + k, from + k, size - k);
}

// an entry of `steps` steps as one that has the steps of a row side by side, the rows `apart` bytes from one another. In a step
// they are `pitch` bytes from one another, each of `pieces` of `size` bytes, `gap` bytes apart. Likewise what was `seen` after as
// many of the steps as `moved`, which often is the same. As CpuKernel lays it out
struct Turn {
  int64_t size, pieces, gap, pitch, apart, steps, moved;
  const char *const *from, *const *seen;
  char *to, *before;
};
struct Turning {
  const Turn *entries;
  int64_t count, rows, streams;
  const Pool *pool;
};
static const int64_t AHEAD = 256;  // bytes; there are more streams than processors follow
template <int SIZE> static inline void pick(const Turn &c, char *to, const char *from) {
  const int64_t size = SIZE ? SIZE : c.size;
  memcpy(to, from, size);
  for (int64_t k = 1; k < c.pieces; k++) memcpy(to + k * size, from + k * c.gap, size);
}
template <int SIZE> static void turn_rows(const Turn &c, bool streams, int64_t low, int64_t high) {
  const int64_t pitch = c.pitch, size = c.size * c.pieces, reach = pitch < 64 ? 64 : pitch;
  char *line = (char *)room(c.steps * size / 64 + 1);
  void (*copy)(char *, const char *, int64_t) = streams ? stream : [](char *to, const char *from, int64_t n) { memcpy(to, from, n); };
  bool others = false;
  for (int64_t t = 0; t < c.moved; t++) others = others || c.seen[t] != c.from[t];
  for (int64_t row = low; row < high; row++) {
    const int64_t at = row * pitch, next = (at & 63) < pitch ? reach : 0;  // of each line once
    for (int64_t t = 0; t < c.steps; t++) {
      for (int64_t k = 0; k < next; k += 64) __builtin_prefetch(c.from[t] + at + AHEAD + k);
      pick<SIZE>(c, line + t * size, c.from[t] + at);
    }
    copy(c.to + row * c.apart, line, c.steps * size);
    if (others) for (int64_t t = 0; t < c.moved; t++)
      if (c.seen[t] != c.from[t]) pick<SIZE>(c, line + t * size, c.seen[t] + at);
    if (c.moved) copy(c.before + row * c.apart, line, c.moved * size);
  }
}
static void turn_share(void *p) {
  const Turning &all = *(const Turning *)p;
  Part mine = part(all.pool, all.rows, 1);
  for (const Turn *c = all.entries; c < all.entries + all.count; c++) {
    if (!c->steps) continue;
    if (c->size == 4) turn_rows<4>(*c, all.streams, mine.low, mine.high);
    else if (c->size == 8) turn_rows<8>(*c, all.streams, mine.low, mine.high);
    else if (c->size == 16) turn_rows<16>(*c, all.streams, mine.low, mine.high);
    else if (c->size == 32) turn_rows<32>(*c, all.streams, mine.low, mine.high);
    else turn_rows<0>(*c, all.streams, mine.low, mine.high);
  }
}
extern "C" void turn(const Turn *entries, int64_t count, int64_t rows, int64_t streams, int64_t threads, const Pool *pool) {
  Turning all = {entries, count, rows, streams, threads > 1 ? pool : nullptr};
  if (threads > 1) pool->parallel(turn_share, &all, (unsigned)threads, 0);
  else turn_share(&all);
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
  for (int k = 0; k < NSTATE; k++) blend(scratch, NSLOTS, FRESH[k], (char *)p[k], rows, row, SPAN, asked);
  for (int k = 0; k < NSEEN; k++) for (int v = 0; v < SPAN; v += 16)
    scatter_asked(scratch + v / 16 * NSLOTS, FIRST[k], (char *)p[NSTATE + k], 1, places(row + v, FIRST[k]).at, 16, where + row + v);
  return true;
}

// state, what is seen, which lies row after row; of the rows asked for sixteen in a vector, wherever they are, unless they are many and easily computed
struct Beginning {
  int64_t rows, streams;
  const uint8_t *where;
  void **p;
  const Pool *pool;
};
static void begin_rows(const Beginning &c, int64_t low, int64_t high) {
  int64_t rows = c.rows, streams = c.streams;
  const uint8_t *where = c.where;
  void **p = c.p;
  Slot *scratch = room(GROUP * NSLOTS + NHELD), *st = scratch + GROUP * NSLOTS;
  for (int64_t next = low; next < high;) {
    int64_t row[SPAN];
    int some = 0;
    while (some < SPAN && next < high) {
      if (BLENDS && where && next % SPAN == 0 && high - next >= SPAN && begin_here(rows, next, where, p, scratch, st)) {
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
    for (int k = 0; k < NSTATE; k++) {
      if (straight) store(scratch, NSLOTS, FRESH[k], (char *)p[k], rows, row[0], some, streams);
      else for (int v = 0; v < some; v += 16) scatter(scratch + v / 16 * NSLOTS, FRESH[k], (char *)p[k], rows, row + v, least(some - v, 16));
    }
    for (int k = 0; k < NSEEN; k++) {
      char *seen = (char *)p[NSTATE + k];
      if (straight) store_rows(scratch, FIRST[k], seen, row[0], some, streams);
      else for (int v = 0, n; v < some; v += 16)
        n = least(some - v, 16), scatter(scratch + v / 16 * NSLOTS, FIRST[k], seen, 1, places(row + v, n, FIRST[k]).at, n);
    }
  }
}
static void begin_share(void *p) {
  const Beginning &c = *(const Beginning *)p;
  Part mine = part(c.pool, c.rows, SPAN);
  begin_rows(c, mine.low, mine.high);
}
extern "C" void begin(int64_t rows, int64_t streams, const uint8_t *where, void **p, int64_t threads, const Pool *pool) {
  Beginning call = {rows, streams, where, p, pool};
  if (threads > 1) pool->parallel(begin_share, &call, (unsigned)threads, 0);
  else begin_rows(call, 0, rows);
}
