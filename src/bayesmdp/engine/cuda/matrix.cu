// The matrix of a chain as a block reads it, the memory that a block works with, and
// products of the two.
//
// A row of T is read by LANES neighbouring lanes, four entries at a time; a slice are as
// many rows as a warp has groups of lanes. A thread has a sequence of quads of entries,
// those of one slice of its warp after those of another. Where all fit (QUADS of them),
// values stay in shared memory and columns in registers while iterations run; otherwise
// they are streamed. Columns n and n + 1 are terminal states and the diagonal: vectors
// are 0 there.

#ifndef LANES
#define LANES 1
#endif
#ifndef COLUMN
#define COLUMN unsigned int
#endif
#ifndef QUADS
#define QUADS 0
#endif
#ifndef MAX_THREADS
#define MAX_THREADS 512
#define MIN_BLOCKS 1
#endif
// Columns of the first quads stay in registers; where there are more, the others are read
// six ahead. More than that would spill.
#define AHEAD 6
#if QUADS * MAX_THREADS <= 8192
#define HELD QUADS
#else
#define HELD AHEAD
#endif
#ifndef DOUBLES_SHARED
#define DOUBLES_SHARED 1
#endif
#ifndef SINGLES_SHARED
#define SINGLES_SHARED 1
#endif
#ifndef SIZE
#define SIZE 1024  // of vectors: even, at least two more than there are live states
#endif

struct alignas(16) Quad { float x, y, z, w; };
struct alignas(4 * sizeof(COLUMN)) Columns { COLUMN x, y, z, w; };

struct Matrix {
  const int* first;       // [warps + 1], slices of each warp
  const int* quads;       // [slices, 2], those of a thread: first, and first of the next
  const int* order;       // [slices * rows], state of each row; or -1
  const Columns* column;  // [quads, threads]
  const Quad *high, *low; // [quads, threads]: their sum has the digits of a double
};
#define ROWS (WARP / LANES)  // of a slice
#define ROW_OF(m, slice) (m).order[(slice) * ROWS + LANE / LANES]
#define LEADS (LANE % LANES == 0)
#define PLACE(q) ((i64)(q) * THREADS + THREAD)

struct Vectors {
  double *x, *w, *b, *inverse, *rest, *k, *residual;
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
  v.k = v.rest + SIZE;
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

DEVICE const Quad* high_of(const Matrix& m) {
#if QUADS
  SHARED_MEMORY(shared);
  return (const Quad*)(shared + BEFORE_VALUES);
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

DEVICE void add_quad(const Quad& q, const Columns& j, const float* in, Quad& sum) {
  sum.x += q.x * in[j.x];
  sum.y += q.y * in[j.y];
  sum.z += q.z * in[j.z];
  sum.w += q.w * in[j.w];
}

// out = K in, in single precision; adds its products with `other` and itself.
DEVICE void product(const Matrix& m, const Quad* values, const short* order,
                    const Columns* held, u32 ends, int n_quads, float g,
                    const float* inverse, const float* in, const float* other, float* out,
                    float* sums) {
  Quad sum = {0.0f, 0.0f, 0.0f, 0.0f};
#if QUADS
  order += LANE / LANES;
#if QUADS > HELD
  Columns ahead[2 * AHEAD];
#endif
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int q = 0; q < QUADS; q++) {
    if (q >= n_quads) break;
#if QUADS > HELD
    if (q % AHEAD == 0) {
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int k = q + AHEAD; k < q + 2 * AHEAD; k++)
        if (k < QUADS) ahead[k % (2 * AHEAD)] = m.column[PLACE(k)];
    }
    add_quad(values[PLACE(q)], q < HELD ? held[q] : ahead[q % (2 * AHEAD)], in, sum);
#else
    add_quad(values[PLACE(q)], held[q], in, sum);
#endif
    if (ends >> q & 1) {
#else
  EACH_SLICE(m, slice) {
    int i = ROW_OF(m, slice), end = m.quads[2 * slice + 1];
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (int q = m.quads[2 * slice]; q < end; q++)
      add_quad(streamed(values + PLACE(q)), m.column[PLACE(q)], in, sum);
    {
#endif
      float total = group_sum<LANES>((sum.x + sum.y) + (sum.z + sum.w));
#if QUADS
      int i = *order;
      order += ROWS;
#endif
      if (LEADS && i >= 0) {
        float found = in[i] - g * inverse[i] * total;
        out[i] = found;
        sums[0] += other[i] * found;
        sums[1] += found * found;
      }
      sum.x = sum.y = sum.z = sum.w = 0.0f;
    }
  }
}

// Sum entries of a row times x, and times w, in double precision.
DEVICE void gather(const Matrix& m, const Quad* high, int slice, const double* x,
                   const double* w, double* of_x, double* of_w) {
  double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
  int end = m.quads[2 * slice + 1];
#ifdef __CUDACC__
#pragma unroll 4
#endif
  for (int q = m.quads[2 * slice]; q < end; q++) {
    Quad top = high[PLACE(q)], low = streamed(m.low + PLACE(q));
    Columns j = m.column[PLACE(q)];
    double one = (double)top.x + low.x, two = (double)top.y + low.y;
    double three = (double)top.z + low.z, four = (double)top.w + low.w;
    a += one * x[j.x] + three * x[j.z];
    b += two * x[j.y] + four * x[j.w];
    if (w) {
      c += one * w[j.x] + three * w[j.z];
      d += two * w[j.y] + four * w[j.w];
    }
  }
  *of_x = group_sum<LANES>(a + b);
  if (w) *of_w = group_sum<LANES>(c + d);
}
