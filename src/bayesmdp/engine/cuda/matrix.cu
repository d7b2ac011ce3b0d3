// The matrix of a chain as a block reads it, the memory that a block works with, and
// products of the two.
//
// A row of T is read by LANES neighbouring lanes, four entries at a time; a slice are as
// many rows as a warp has groups of lanes. A thread has a sequence of quads of entries,
// those of one slice of its warp after those of another. Where all fit (QUADS of them),
// values stay in shared memory and columns in registers while iterations run; otherwise
// they are streamed. Neither terminal states nor the diagonal have entries: column n,
// where vectors are 0, fills rows up.

#ifndef LANES
#define LANES 1
#endif
#ifndef COLUMN_BYTES
#define COLUMN_BYTES 4
#endif
#ifndef QUADS
#define QUADS 0
#endif
// Columns of the first quads stay in registers; more would spill.
#if QUADS * MAX_THREADS <= 13312
#define HELD QUADS
#else
#define HELD 6
#endif
#define AT_ONCE 4  // quads that a lane reads at once: more would spill
#ifndef DOUBLES_SHARED
#define DOUBLES_SHARED 1
#endif
#ifndef SINGLES_SHARED
#define SINGLES_SHARED 1
#endif
#ifndef SIZE
#define SIZE 1024  // of vectors: even, at least one more than there are live states
#endif

struct alignas(16) Quad { float x, y, z, w; };
struct alignas(16) Numbers { u32 x, y, z, w; };
#if COLUMN_BYTES == 2
struct alignas(8) Columns { u32 xy, zw; };  // two in a word
#else
struct alignas(16) Columns { u32 x, y, z, w; };
#endif

#ifndef POSITION
#define POSITION unsigned int
#endif
#define NOWHERE ((POSITION)~0u)
struct alignas(4 * sizeof(POSITION)) Positions { POSITION x, y, z, w; };

// How rows lie, the same for all draws.
struct Pattern {
  const int* first;       // [warps + 1], slices of each warp
  const int* quads;       // [slices, 2], those of a thread: first, and first of the next
  const int* order;       // [slices * rows], state of each row; or n
  const Columns* column;  // [quads, threads]
  int n_quads;            // of a thread
};

// A matrix whose entries are sums of two numbers in single precision, of nearly the
// digits of a double. Both are [quads, threads]; `high` stays in shared memory, if QUADS.
struct Matrix : Pattern {
  const Quad *high, *low;
};
#define ROWS (WARP / LANES)  // of a slice
#define ROW_OF(m, slice) (m).order[(slice) * ROWS + LANE / LANES]
#define LEADS (LANE % LANES == 0)
#define PLACE(q) ((q) * THREADS + THREAD)

struct Vectors {
  double *x, *w, *b, *inverse, *rest, *low, *residual;
  float *p, *s, *v, *t, *r, *shadow, *d, *single_inverse, *scale;
  int n;
};

#define DOUBLES 6
#define SINGLES 9

// What a block works with: vectors, values that stay, and the states of rows. Every
// function finds them for itself: what is passed on would no longer be known to lie in
// shared memory.
struct Memory {
  double *doubles, *singles;  // of this block, where they are not shared
  int n;
};

#define BEFORE_VALUES ((DOUBLES_SHARED ? DOUBLES * SIZE : 0) + SINGLES * SIZE / 2)

DEVICE Vectors vectors_of(const Memory& memory) {
  SHARED_MEMORY(shared);
  Vectors v;
  v.n = memory.n;
  v.x = DOUBLES_SHARED ? shared : memory.doubles;
  v.w = v.x + SIZE;
  v.b = v.w + SIZE;
  v.inverse = v.b + SIZE;
  v.rest = v.inverse + SIZE;
  v.low = v.rest + SIZE;
  double* after = shared + (DOUBLES_SHARED ? DOUBLES * SIZE : 0);
  v.p = (float*)(SINGLES_SHARED ? after : memory.singles);
  v.s = v.p + SIZE;
  v.v = v.s + SIZE;  // with t it holds residuals in double precision between rounds
  v.t = v.v + SIZE;
  v.residual = (double*)v.v;
  v.r = v.t + SIZE;
  v.shadow = v.r + SIZE;
  v.d = v.shadow + SIZE;
  v.single_inverse = v.d + SIZE;
  v.scale = v.single_inverse + SIZE;
  return v;
}

#if QUADS
DEVICE Quad* near_values() {
  SHARED_MEMORY(shared);
  return (Quad*)(shared + BEFORE_VALUES);
}
#endif

DEVICE const Quad* high_of(const Matrix& m) {
#if QUADS
  return near_values();
#else
  return m.high;
#endif
}

#if QUADS
DEVICE short* near_order() {
  SHARED_MEMORY(shared);
  return (short*)(shared + BEFORE_VALUES + 2 * QUADS * THREADS);
}
#endif

// What is read once must not drive out of the cache what is read again.
DEVICE Quad streamed(const Quad* x) {
#ifdef __CUDACC__
  float4 found = __ldcg((const float4*)x);
  Quad out = {found.x, found.y, found.z, found.w};
  return out;
#else
  return *x;
#endif
}

#define EACH_STATE(i) for (int i = THREAD; i < v.n; i += THREADS)
#define EACH_SLICE(m, slice) \
  for (int slice = (m).first[WARP_AT], last_slice = (m).first[WARP_AT + 1]; \
       slice < last_slice; slice++)

// The four columns of a quad. Two in a word are taken apart anew each time: the compiler
// would do it once, and have no registers for the result.
DEVICE Numbers unpacked(const Columns& j) {
#if COLUMN_BYTES == 2
  Numbers out;
#ifdef __CUDACC__
  asm volatile("and.b32 %0, %1, 65535;" : "=r"(out.x) : "r"(j.xy));
  asm volatile("shr.u32 %0, %1, 16;" : "=r"(out.y) : "r"(j.xy));
  asm volatile("and.b32 %0, %1, 65535;" : "=r"(out.z) : "r"(j.zw));
  asm volatile("shr.u32 %0, %1, 16;" : "=r"(out.w) : "r"(j.zw));
#else
  out.x = j.xy & 65535, out.y = j.xy >> 16, out.z = j.zw & 65535, out.w = j.zw >> 16;
#endif
  return out;
#else
  Numbers out = {j.x, j.y, j.z, j.w};
  return out;
#endif
}

// Columns of a quad, or those of one of zeros.
DEVICE Columns column_of(const Pattern& m, int q) {
  Columns first = {};  // times 0
  return q < m.n_quads ? m.column[PLACE(q)] : first;
}

// What a thread keeps of a pattern in registers: columns, where slices end, and quads.
struct Held {
  u32 ends;
  int own;
#if QUADS
  Columns column[HELD];
#endif
};

DEVICE Held hold(const Pattern& m) {
  Held out;
  out.ends = 0, out.own = 0;
#if QUADS
  EACH_SLICE(m, slice) {
    out.own = m.quads[2 * slice + 1];
    out.ends |= 1u << (out.own - 1);
  }
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int q = 0; q < HELD; q++) out.column[q] = column_of(m, q);
#endif
  return out;
}

// The code of a product is short: it is gone through so often that it has to stay in the
// multiprocessor's cache. So the ends of rows have little code, and what follows from
// their sums comes after all.

// out = K in, in single precision. Adds what its half of an iteration needs to sums.
DEVICE void product(const Matrix& m, const Held& held, float g, const Vectors& v, bool half,
                    const float* in, float* out, float* sums) {
  Quad sum = {0.0f, 0.0f, 0.0f, 0.0f};
  int begin = m.first[WARP_AT] * ROWS + LANE / LANES, end = m.first[WARP_AT + 1] * ROWS;
#if QUADS
  u32 ends = held.ends;
#ifdef __CUDACC__
  asm volatile("" : "+r"(ends));  // or each of its bits would take a register
#endif
  const Quad* values = near_values();
  const short* order = near_order();
  const short* row = order + begin;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int first = 0; first < QUADS; first += AT_ONCE) {
    if (first >= held.own) break;
    Quad value[AT_ONCE], x[AT_ONCE];  // all are asked for before the first is needed
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int k = 0; k < AT_ONCE; k++) {
      int q = first + k;
      if (q >= QUADS) break;
      value[k] = values[PLACE(q)];
      Numbers j = unpacked(q < HELD ? held.column[q] : column_of(m, q));
      x[k].x = in[j.x], x[k].y = in[j.y], x[k].z = in[j.z], x[k].w = in[j.w];
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int k = 0; k < AT_ONCE; k++) {
      if (first + k >= QUADS) break;
      sum.x += value[k].x * x[k].x;
      sum.y += value[k].y * x[k].y;
      sum.z += value[k].z * x[k].z;
      sum.w += value[k].w * x[k].w;
      if (ends >> (first + k) & 1) {
        out[*row] = group_sum<LANES>((sum.x + sum.y) + (sum.z + sum.w));
        row += ROWS;
        sum.x = sum.y = sum.z = sum.w = 0.0f;
      }
    }
  }
#else
  const int* order = m.order;
  EACH_SLICE(m, slice) {
    int last = m.quads[2 * slice + 1];
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (int q = m.quads[2 * slice]; q < last; q++) {
      Quad value = streamed(m.high + PLACE(q));
      Numbers j = unpacked(m.column[PLACE(q)]);
      sum.x += value.x * in[j.x];
      sum.y += value.y * in[j.y];
      sum.z += value.z * in[j.z];
      sum.w += value.w * in[j.w];
    }
    out[ROW_OF(m, slice)] = group_sum<LANES>((sum.x + sum.y) + (sum.z + sum.w));
    sum.x = sum.y = sum.z = sum.w = 0.0f;
  }
#endif
  for (int k = begin; k < end; k += ROWS) {
    int i = order[k];
    if (!LEADS || i >= v.n) continue;
    float here = in[i], shadow = v.shadow[i];
    float found = here - g * v.single_inverse[i] * out[i];
    out[i] = found;
    sums[0] += shadow * found;
    if (!half) continue;
    sums[1] += here * found;
    sums[2] += found * found;
    sums[3] += shadow * here;
    sums[4] += here * here;
  }
}

// Call `end(row, high, low)` for sums of rows times x in double precision: of entries in
// single precision, and, where it is wanted, of what is left of them.
template <class End>
DEVICE void gather(const Matrix& m, int n, const double* x, bool lows, End end) {
  const Quad* high = high_of(m);
  EACH_SLICE(m, slice) {
    double a = 0.0, b = 0.0, c = 0.0;
    int last = m.quads[2 * slice + 1];
    for (int first = m.quads[2 * slice]; first < last; first += AT_ONCE) {
      Columns column[AT_ONCE];
      Quad low[AT_ONCE];
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int k = 0; k < AT_ONCE; k++) {
        int q = first + k < last ? first + k : first;
        column[k] = m.column[PLACE(q)];
        if (lows) low[k] = streamed(m.low + PLACE(q));
      }
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int k = 0; k < AT_ONCE; k++) {
        if (first + k >= last) break;
        Quad top = high[PLACE(first + k)];
        Numbers j = unpacked(column[k]);
        double one = x[j.x], two = x[j.y], three = x[j.z], four = x[j.w];
        a += top.x * one + top.z * three;
        b += top.y * two + top.w * four;
        if (lows)
          c += (low[k].x * one + low[k].y * two) + (low[k].z * three + low[k].w * four);
      }
    }
    a = group_sum<LANES>(a + b);
    c = lows ? group_sum<LANES>(c) : 0.0;
    int i = ROW_OF(m, slice);
    if (LEADS && i < n) end(i, a, c);
  }
}

// Call `end(row, high, 0)` for sums of rows times x in double precision, without what
// entries in single precision lack.
template <class End>
DEVICE void gather_near(const Matrix& m, int n, const double* x, End end) {
#if QUADS
  Held held = hold(m);
  const Quad* values = near_values();
  const short* row = near_order() + m.first[WARP_AT] * ROWS + LANE / LANES;
  double a = 0.0, b = 0.0;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int q = 0; q < QUADS; q++) {
    if (q >= held.own) break;
    Quad value = values[PLACE(q)];
    Numbers j = unpacked(q < HELD ? held.column[q] : column_of(m, q));
    a += value.x * x[j.x] + value.z * x[j.z];
    b += value.y * x[j.y] + value.w * x[j.w];
    if (held.ends >> q & 1) {
      double total = group_sum<LANES>(a + b);
      int i = *row;
      row += ROWS;
      if (LEADS && i < n) end(i, total, 0.0);
      a = b = 0.0;
    }
  }
#else
  gather(m, n, x, false, end);
#endif
}
