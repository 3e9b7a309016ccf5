// Around the generated functions, on a GPU: a row per thread, whose neighbours read and write the neighbouring numbers.
//
// Comes after scalar.h, the sizes, the generated functions and the lists of fields with the kernels' parameters
// (../cuda_source.py). A list calls what it is given for each of its fields.
#define THREADS 128
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)
IN F value(float x) { return x; }
IN D value(double x) { return x; }
IN L value(int64_t x) { return {x}; }
IN M value(uint8_t x) { return x != 0; }
IN float entry(F x) { return x; }
IN double entry(D x) { return x; }
IN int64_t entry(L x) { return x.x; }
IN uint8_t entry(M x) { return x; }

#define WIDTH(T) (int)(sizeof(T) / 8 + 1)
// number k of row i is entry k * rows + i
template <class T, int N, class E> IN void load(Slot *s, const E *p, int64_t rows, int64_t i) {
#pragma unroll
  for (int k = 0; k < N; k++) *(T *)(s + WIDTH(T) * k) = value(p[k * rows + i]);
}
template <class T, int N, class E> IN void save(const Slot *s, E *p, int64_t rows, int64_t i) {
#pragma unroll
  for (int k = 0; k < N; k++) p[k * rows + i] = entry(*(const T *)(s + WIDTH(T) * k));
}
template <class T, int N> IN void copy(Slot *to, const Slot *from) {
#pragma unroll
  for (int k = 0; k < N; k++) *(T *)(to + WIDTH(T) * k) = *(const T *)(from + WIDTH(T) * k);
}
#define LOAD_STATE(T, N, slot, p) load<T, N>(st + slot, p, rows, i);
#define SAVE_STATE(T, N, slot, p) save<T, N>(st + slot, p, rows, i);
#define COPY_STATE(T, N, slot, p) copy<T, N>(old + slot, st + slot);
#define SAVE(T, N, slot, p) save<T, N>(s + slot, p, rows, i);
// of step t, [T, ..., rows]
#define LOAD_STEP(T, N, slot, p) load<T, N>(s + slot, p + t * N * rows, rows, i);
#define SAVE_STEP(T, N, slot, p) save<T, N>(s + slot, p + t * N * rows, rows, i);
#define SAVE_WANTED(T, N, slot, p) if (p) SAVE_STEP(T, N, slot, p)
#define SAVE_NEXT(T, N, slot, p) save<T, N>(s + slot, p + (t + 1) * N * rows, rows, i);
#define COPY(T, N, slot, to) copy<T, N>(to, fresh + slot);
#define THIS_ROW \
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; \
  if (i >= rows) return;
#define MEMORY(st, s) \
  alignas(8) Slot st[NHELD], s[NSLOTS]; \
  *(M *)(s + CARE) = true;

// in memory of its own, so that what a step computes with stays in registers
PART renew(Slot *st, Slot *s) { reset(st, s); }

// the steps from `start` to `stop` of all rows, as driver.cpp plays them: with the actions that are there or, where there are
// keys, with random ones; rows that are done start anew before the next step, if they shall
KERNEL run(const int64_t rows, const int64_t start, const int64_t stop, const int64_t last, const int64_t most, const int64_t drawn,
           const int64_t restart, STATE_PARAMETERS, ACTS_PARAMETERS OUTS_PARAMETERS BEFORE_PARAMETERS, uint8_t *terminated,
           uint8_t *truncated, uint8_t *done, const int64_t *keys, uint8_t *ended) {
  THIS_ROW
  MEMORY(st, s)
  STATE(LOAD_STATE)
  for (int64_t t = start; t < stop; t++) {
    if (keys) {
      *(L *)(s + KEY) = cl(keys[i]);
      *(L *)(s + KEY + 2) = cl(drawn + (t - start) * DRAWS);
      act(st, s);
      ACTS(SAVE_STEP)
    } else {
      ACTS(LOAD_STEP)
    }
    step(st, s);
    settle(st, s);
    OUTS(SAVE_WANTED)
    const bool over = *(const M *)(st + OVER), late = most > 0 && (*(const L *)(st + STEPS)).x >= most, ends = over || late;
    terminated[t * rows + i] = over;
    truncated[t * rows + i] = late;
    done[t * rows + i] = ends;
    if (ends) ended[t] = 1;
    if (t == last) continue;
    if (ends && restart) {
      MEMORY(old, fresh)
      STREAMS(COPY_STATE)
      renew(old, fresh);
      RESTART(COPY)
    }
    SEEN(SAVE_NEXT)
  }
  if (restart) {
    STATE(SAVE_STATE)
  } else {
    CHANGED(SAVE_STATE)
  }
}

// new episodes in the rows asked for, or in all: their state, and what is seen and told; nothing but their streams is read
KERNEL begin(const int64_t rows, const uint8_t *where, STATE_PARAMETERS SEEN_PARAMETERS) {
  THIS_ROW
  if (where && !where[i]) return;
  MEMORY(st, s)
  STREAMS(LOAD_STATE)
  renew(st, s);
  FRESH(SAVE)
  FIRST(SAVE)
}
