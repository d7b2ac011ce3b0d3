// Value, return variance and visits of each draw of a policy, a block for a draw.
//
// The equations stand in `bayesmdp.engine._kernel`, the bound on errors in `_krylov`.
// Here the preconditioner M is the diagonal, K = M^-1 (I - g T): a Gauss-Seidel sweep
// would have states wait for each other. BiCGSTAB runs in single precision on what is
// left of the right-hand side; its corrections are added in double precision, in which
// residuals are found, too: some digits a round, until the bound is below the tolerance.
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
#ifndef DOUBLES_SHARED
#define DOUBLES_SHARED 1
#endif
#ifndef SINGLES_SHARED
#define SINGLES_SHARED 1
#endif
#ifndef MAX_THREADS
#define MAX_THREADS 512
#define MIN_BLOCKS 1
#endif

#define TOLERANCE 1e-10  // as in `_krylov`
#define ACCEPTED 1e-8
#define ROUNDING 1e-15
#define ENDLESS 1e-13
#define GAIN 1e-5     // of one round in single precision
#define POSITIVE 0.7  // residual with which a length of episodes still bounds errors
#define MOST 1000     // products of one system
#define STALLS 4      // rounds that gain nothing, after which it gives up
enum { VARIANCE = 1, OCCUPANCY = 2, GRADIENT = 4, CROSS = 64 };

struct alignas(16) Quad { float x, y, z, w; };
struct alignas(4 * sizeof(COLUMN)) Columns { COLUMN x, y, z, w; };

struct Matrix {
  const int* first;      // [warps + 1], slices of each warp
  const int* quads;      // [slices, 2], those of a thread: first, and first of the next
  const int* order;      // [slices * rows], state of each row; or -1
  const Columns* column; // [quads, threads]
  Quad *high, *low;      // [quads, threads]: their sum has the digits of a double
  const u32* stream;     // [slices, 2], contributions: first, and fours of a lane
  const u32 *place, *entry;  // [contributions], position and two bits; entry of the rows
  const double* share;   // [contributions], probability of the row
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

// What a block works with: vectors, and values that stay. Every function takes it apart
// for itself: what is passed on would no longer be known to lie in shared memory.
struct Memory {
  double *doubles, *singles;  // of this block, where they are not shared
  int n;
};

DEVICE int padded(int n) { return (n + 3) & ~1; }  // two places more, and even

DEVICE Vectors vectors_of(const Memory& memory) {
  SHARED_MEMORY(shared);
  Vectors v;
  int n = memory.n, size = padded(n);
  v.n = n;
  v.x = DOUBLES_SHARED ? shared : memory.doubles;
  v.w = v.x + size;
  v.b = v.w + size;
  v.inverse = v.b + size;
  v.rest = v.inverse + size;
  v.k = v.rest + size;
  double* after = shared + (DOUBLES_SHARED ? DOUBLES * size : 0);
  v.p = (float*)(SINGLES_SHARED ? after : memory.singles);
  v.s = v.p + size;
  v.v = v.s + size;  // with t it holds residuals in double precision between rounds
  v.t = v.v + size;
  v.residual = (double*)v.v;
  v.r = v.t + size;
  v.shadow = v.r + size;
  v.d = v.shadow + size;
  v.single_inverse = v.d + size;
  v.scale = v.single_inverse + size;
  return v;
}

DEVICE Quad* high_of(const Matrix& m, const Memory& memory) {
#if QUADS
  SHARED_MEMORY(shared);
  int size = padded(memory.n);
  int before = (DOUBLES_SHARED ? DOUBLES * size : 0) + SINGLES * size / 2;
  return (Quad*)(shared + ((before + 1) & ~1));
#else
  return m.high;
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
DEVICE void product(const Matrix& m, const Quad* values, const Columns* held, u32 ends,
                    int n_quads, float g, const float* inverse, const float* in,
                    const float* other, float* out, float* sums) {
  Quad sum = {0.0f, 0.0f, 0.0f, 0.0f};
  int slice = m.first[WARP_AT];
#if QUADS
  int i = n_quads ? ROW_OF(m, slice) : -1;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int q = 0; q < QUADS; q++) {
    if (q >= n_quads) break;
    add_quad(values[PLACE(q)], held[q], in, sum);
    if (ends >> q & 1) {
#else
  for (int last = m.first[WARP_AT + 1]; slice < last; slice++) {
    int i = ROW_OF(m, slice), end = m.quads[2 * slice + 1];
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (int q = m.quads[2 * slice]; q < end; q++)
      add_quad(values[PLACE(q)], m.column[PLACE(q)], in, sum);
    {
#endif
      float total = group_sum<LANES>((sum.x + sum.y) + (sum.z + sum.w));
      if (LEADS && i >= 0) {
        float found = in[i] - g * inverse[i] * total;
        out[i] = found;
        sums[0] += other[i] * found;
        sums[1] += found * found;
      }
      sum.x = sum.y = sum.z = sum.w = 0.0f;
#if QUADS
      slice++;
      i = q + 1 < n_quads ? ROW_OF(m, slice) : -1;
#endif
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
    Quad top = high[PLACE(q)], low = m.low[PLACE(q)];
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

struct Bound {
  double norm, bound, size;  // largest residual, bound on the error, largest solution
  double most_w, least_k;    // where weights were looked at
  bool positive;
};

// residual = M^-1 b - K x in double precision, with a bound on the error of x. With
// `weights` also k = K w; there is no bound then.
DEVICE Bound look(const Matrix& m, const Quad* high, double g, Vectors& v,
                  Scratch& scratch, bool weights) {
  double most[4] = {0.0, 0.0, 0.0, 0.0}, more[3] = {0.0, 0.0, -infinity()};
  EACH_SLICE(m, slice) {
    double of_x, of_w = 0.0;
    gather(m, high, slice, v.x, weights ? v.w : 0, &of_x, &of_w);
    int i = ROW_OF(m, slice);
    if (LEADS && i >= 0) {
      double found = v.inverse[i] * (v.b[i] + g * of_x) - v.x[i];
      v.residual[i] = found;
      most[0] = larger(fabs(found), most[0]);
      most[2] = larger(fabs(v.x[i]), most[2]);
      if (weights) {
        double w = v.w[i], k = w - g * v.inverse[i] * of_w;
        v.k[i] = k;
        if (!(w > 0.0 && w < infinity() && k > 1e-14 * w)) more[0] = 1.0;
        more[1] = larger(w, more[1]);
        more[2] = larger(-k, more[2]);
      } else {
        most[1] = larger(fabs(found) * v.scale[i], most[1]);
      }
    }
  }
  reduce_block<0, 3>(scratch, (double*)0, most);
  if (weights) reduce_block<0, 3>(scratch, (double*)0, more);
  Bound found = {most[0], most[1], most[2], more[1], -more[2], more[0] == 0.0};
  return found;
}

// Add to x, or to w, what BiCGSTAB finds for the residual, whose largest entry is
// `norm`, until the bound is at most `enough`, or a part GAIN of what it was. False
// where it diverged.
RARELY bool correct(Matrix m, double g, Memory memory, Scratch& scratch, double norm,
                   double enough, int stalls, bool weights, int* products) {
  Vectors v = vectors_of(memory);
  const Quad* values = high_of(m, memory);
  double* x = weights ? v.w : v.x;
  u32 ends = 0;
  int n_quads = 0;
#if QUADS
  Columns held[QUADS];
  EACH_SLICE(m, slice) {
    n_quads = m.quads[2 * slice + 1];
    ends |= 1u << (n_quads - 1);
  }
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int q = 0; q < QUADS; q++)
    if (q < n_quads) held[q] = m.column[PLACE(q)];
#else
  const Columns* held = 0;
#endif
  float most[1] = {0.0f}, sums[2] = {0.0f, 0.0f};
  EACH_STATE(i) {
    float r = (float)(v.residual[i] / norm);
    u64 sign = (u64)(i + 1) * 6364136223846793005ULL * (u64)(stalls + 1);
    // what led nowhere with the residual as shadow is repeated with signs
    float shadow = stalls == 0 ? r : (sign >> 40) & 1 ? 1.0f : -1.0f;
    sums[0] += shadow * r;
    most[0] = larger(fabsf(r) * v.scale[i], most[0]);
    v.p[i] = r;
    v.d[i] = 0.0f;
    v.shadow[i] = shadow;
    v.r[i] = r;
  }
  if (THREAD == 0) v.p[v.n] = v.p[v.n + 1] = v.s[v.n] = v.s[v.n + 1] = 0.0f;
  reduce_block<1, 1>(scratch, sums, most);
  float rho = sums[0], first = most[0], bound = first, single_g = (float)g;
  enough = fmax(GAIN * first, enough / norm);
  while (*products < MOST && rho != 0.0f) {
    sums[0] = sums[1] = 0.0f;
    product(m, values, held, ends, n_quads, single_g, v.single_inverse, v.p, v.shadow, v.v,
            sums);
    reduce_block<1, 0>(scratch, sums, (float*)0);
    ++*products;
    if (!(fabs(sums[0]) > 1e-30)) break;
    float alpha = rho / sums[0];
    EACH_STATE(i) v.s[i] = v.r[i] - alpha * v.v[i];
    SYNC();
    sums[0] = sums[1] = 0.0f;
    product(m, values, held, ends, n_quads, single_g, v.single_inverse, v.s, v.s, v.t, sums);
    reduce_block<2, 0>(scratch, sums, (float*)0);
    ++*products;
    float omega = sums[1] > 0.0f ? sums[0] / sums[1] : 0.0f;
    sums[0] = most[0] = 0.0f;
    EACH_STATE(i) {
      v.d[i] += alpha * v.p[i] + omega * v.s[i];
      float r = v.s[i] - omega * v.t[i];
      v.r[i] = r;
      sums[0] += v.shadow[i] * r;
      most[0] = larger(fabsf(r) * v.scale[i], most[0]);
    }
    reduce_block<1, 1>(scratch, sums, most);
    bound = most[0];
    if (!(bound > enough) || !(bound < 1e6f * first) || sums[0] == 0.0f || omega == 0.0f)
      break;
    float beta = (sums[0] / rho) * (alpha / omega);
    rho = sums[0];
    EACH_STATE(i) v.p[i] = v.r[i] + beta * (v.p[i] - omega * v.v[i]);
    SYNC();
  }
  if (!(bound < first)) return false;
  EACH_STATE(i) x[i] += norm * v.d[i];
  SYNC();
  return true;
}

// Find weights that bound errors: those given, or else this chain's own length of
// episodes, up to a share POSITIVE of one step. `scale` turns a residual into a bound.
DEVICE bool find_bounds(const Matrix& m, double g, const Memory& memory, Vectors& v,
                        Scratch& scratch, double loose, Bound& at, int* products) {
  const Quad* high = high_of(m, memory);
  at = look(m, high, g, v, scratch, true);
  ++*products;
  for (int round = 0; round < 3 && !at.positive; round++) {
    bool known = at.most_w > 0.0 && at.most_w < infinity();
    double most[1] = {0.0};
    SYNC();
    EACH_STATE(i) {
      double k = known ? v.k[i] : 0.0;
      if (!known) v.w[i] = 0.0;
      double r = v.inverse[i] - k;
      v.residual[i] = r;
      v.scale[i] = (float)(1.0 / v.inverse[i]);
      most[0] = larger(fabs(r), most[0]);
    }
    reduce_block<0, 1>(scratch, (double*)0, most);
    if (!(most[0] > 0.0 && most[0] < infinity())) return false;
    if (!correct(m, g, memory, scratch, most[0], loose, round, true, products))
      return false;
    at = look(m, high, g, v, scratch, true);
    ++*products;
  }
  if (!at.positive || !(ROUNDING * at.most_w <= ACCEPTED * at.least_k)) return false;
  double most[1] = {0.0};
  SYNC();
  EACH_STATE(i) {
    v.scale[i] = (float)(at.most_w / v.k[i]);
    most[0] = larger(fabs(v.residual[i]) * v.scale[i], most[0]);
  }
  reduce_block<0, 1>(scratch, (double*)0, most);
  at.bound = most[0];
  return true;
}

// Solve (I - g T) x = b from the guess in x, with trial weights in w. Counts products;
// false where the bound on the error stays above what is accepted.
RARELY bool solve_system(Matrix m, double g, Memory memory, Scratch& scratch, double loose,
                         int* products) {
  Vectors v = vectors_of(memory);
  double most[2] = {0.0, 0.0};
  SYNC();
  EACH_STATE(i) {
    double diagonal = (1.0 - g) + g * v.rest[i];
    if (!(diagonal > ENDLESS)) most[0] = 1.0;
    v.inverse[i] = 1.0 / diagonal;
    v.single_inverse[i] = (float)(1.0 / diagonal);
    most[1] = larger(fabs(v.b[i]), most[1]);
  }
  if (THREAD == 0) v.x[v.n] = v.x[v.n + 1] = v.w[v.n] = v.w[v.n + 1] = 0.0;
  reduce_block<0, 2>(scratch, (double*)0, most);
  if (most[0] != 0.0) return false;
  if (most[1] == 0.0) {  // no tolerance is small enough for a solution of 0
    EACH_STATE(i) v.x[i] = 0.0;
    SYNC();
    ++*products;
    return true;
  }
  int used = 0, stalls = 0;
  double best = infinity();
  Bound at;
  bool good = find_bounds(m, g, memory, v, scratch, loose, at, &used);
  while (good) {
    SYNC();
    if (at.bound <= TOLERANCE * at.size) break;
    if (!(at.bound < 0.5 * best)) {
      stalls++;
      if (at.bound <= ACCEPTED * at.size) break;
    }
    best = fmin(best, at.bound);
    good = stalls < STALLS && used < MOST && at.bound < infinity() && at.norm > 0.0;
    double enough = 0.25 * TOLERANCE * at.size;
    if (good && !correct(m, g, memory, scratch, at.norm, enough, stalls, false, &used))
      stalls++;
    if (good) at = look(m, high_of(m, memory), g, v, scratch, false);
    ++used;
  }
  SYNC();
  *products += used;
  return good;
}

// Positions that a lane has in a slice follow each other in its stream of contributions,
// four of which are read at once: those of one position, then those of the next. What
// fills a stream up to whole fours has no share. The first bit of a place says that the
// position is the diagonal, the second that the entry is paid for.
#define IS_DIAGONAL 1u
#define IS_PAID 2u

struct alignas(16) Four { u32 x, y, z, w; };
struct alignas(16) Pair { double x, y; };

// Call `each(place, entry, share)` for the contributions of this lane.
template <class Each>
DEVICE void for_each(const Matrix& m, int slice, Each each) {
  const u32* of_slice = m.stream + slice * 2;  // first of the slice, and fours of a lane
  for (u32 k = 0; k < of_slice[1]; k++) {
    i64 c = of_slice[0] + (i64)k * WARP + LANE;
    Four place = ((const Four*)m.place)[c], entry = ((const Four*)m.entry)[c];
    Pair one = ((const Pair*)m.share)[2 * c], two = ((const Pair*)m.share)[2 * c + 1];
    each(place, entry, one, two);
  }
}

DEVICE double flow_of(double share, const double* theta, u32 entry) {
  return share > 0.0 ? share * theta[entry] : 0.0;
}

// Fill the chain, its rows' sums off the diagonal, and expected rewards; or those alone.
DEVICE void fill(const Matrix& m, Quad* high, const double* theta, Vectors& v,
                 const double* reward, bool chain) {
  float *of_high = (float*)high, *of_low = (float*)m.low;
  if (chain) {
    Quad zero = {0.0f, 0.0f, 0.0f, 0.0f};
    EACH_SLICE(m, slice)
      for (int q = m.quads[2 * slice]; q < m.quads[2 * slice + 1]; q++)
        high[PLACE(q)] = m.low[PLACE(q)] = zero;
  }
  EACH_SLICE(m, slice) {
    double paid = 0.0, rest = 0.0, total = 0.0;
    u32 at = ~0u;
    auto add = [&](u32 place, u32 entry, double flow) {
      if (reward && place & IS_PAID) paid += flow * reward[entry];
      if (!chain) return;
      if (place >> 2 != at >> 2) total = 0.0;
      at = place;
      total += flow;
      float top = (float)total;
      of_high[place >> 2] = top;
      of_low[place >> 2] = (float)(total - top);
      if (!(place & IS_DIAGONAL)) rest += flow;
    };
    for_each(m, slice, [&](const Four& place, const Four& entry, const Pair& one,
                           const Pair& two) {
      double a = flow_of(one.x, theta, entry.x), b = flow_of(one.y, theta, entry.y);
      double c = flow_of(two.x, theta, entry.z), d = flow_of(two.y, theta, entry.w);
      add(place.x, entry.x, a);
      add(place.y, entry.y, b);
      add(place.z, entry.z, c);
      add(place.w, entry.w, d);
    });
    paid = group_sum<LANES>(paid);
    rest = group_sum<LANES>(rest);
    int i = ROW_OF(m, slice);
    if (LEADS && i >= 0) {
      if (reward) v.b[i] = paid;
      if (chain && reward) v.rest[i] = rest;
    }
  }
}

struct Side {  // one of two rewards whose covariance is wanted
  const double *reward, *value;
  double g;
};

// b = sum_a pi sum_t theta x y with x = r + g V[t] - V[s], and y its like.
DEVICE void spread(const Matrix& m, const double* theta, const u32* target, Vectors& v,
                   const Side& one, const Side& two) {
  EACH_SLICE(m, slice) {
    double total = 0.0;
    int i = ROW_OF(m, slice);
    double here_one = i >= 0 ? one.value[i] : 0.0, here_two = i >= 0 ? two.value[i] : 0.0;
    auto add = [&](u32 entry, double flow) {
      u32 t = target[entry];  // values of terminal states are 0
      double x = one.reward[entry] + one.g * one.value[t] - here_one;
      double y = two.reward[entry] + two.g * two.value[t] - here_two;
      total += flow * x * y;
    };
    for_each(m, slice, [&](const Four& place, const Four& entry, const Pair& x,
                           const Pair& y) {
      add(entry.x, flow_of(x.x, theta, entry.x));
      add(entry.y, flow_of(x.y, theta, entry.y));
      add(entry.z, flow_of(y.x, theta, entry.z));
      add(entry.w, flow_of(y.y, theta, entry.w));
    });
    total = group_sum<LANES>(total);
    if (LEADS && i >= 0) v.b[i] = total;
  }
}

// sum_s start[s] (x[s] + ends[s]) over all states
DEVICE double from_start(Scratch& scratch, int n_states, const double* start,
                         const double* x, const double* ends) {
  double sums[1] = {0.0};
  for (int s = THREAD; s < n_states; s += THREADS) sums[0] += start[s] * (x[s] + ends[s]);
  reduce_block<1, 0>(scratch, sums, (double*)0);
  return sums[0];
}

DEVICE double covariance_from_start(Scratch& scratch, int n_states, const double* start,
                                    const double* c, const double* x, const double* ends_x,
                                    double mean_x, const double* y, const double* ends_y,
                                    double mean_y) {
  double sums[1] = {0.0};
  for (int s = THREAD; s < n_states; s += THREADS)
    sums[0] += start[s] * (c[s] + (x[s] + ends_x[s] - mean_x) * (y[s] + ends_y[s] - mean_y));
  reduce_block<1, 0>(scratch, sums, (double*)0);
  return sums[0];
}

KERNEL LIMIT(MAX_THREADS, MIN_BLOCKS) solve_draws(
    i64 n_draws, i64 n_live, i64 n_of_all, i64 n_entries, i64 n_of_rewards, i64 want,
    i64 n_quads, i64 n_back_quads, i64 reward_stride, i64 ends_stride, double loose,
    const int* first, const int* quads, const int* order, const Columns* column,
    const u32* stream, const u32* place, const u32* entry, const double* share,
    const int* back_first, const int* back_quads, const int* back_order,
    const Columns* back_column, const u32* back_stream, const u32* back_place,
    const u32* back_entry, const double* back_share, const u32* arrival_at,
    const u32* arrival_entry, const u32* arrival_source, const double* arrival_share,
    const double* theta, const u32* target, const double* reward, const double* ends, const double* discounts,
    const double* start, const double* weights, const double* reference,
    const double* length, Quad* scratch_values, double* memory, double* value,
    double* variance, double* occupancy, double* results, double* cross,
    double* own_length, i64 keeps_length, int* status, int* products) {
  // A stride is that between draws, 0 where they share one. n_quads: of a thread.
  SHARE(double, buffer, 256);
  Scratch scratch = {buffer, 0};
  int n = (int)n_live, n_states = (int)n_of_all, n_rewards = (int)n_of_rewards;
  i64 size = padded(n), most = n_quads > n_back_quads ? n_quads : n_back_quads;
  Quad* low = scratch_values + BLOCK_AT * most * THREADS * (QUADS ? 1 : 2);
  Quad* high = low + (QUADS ? 0 : most * THREADS);
  double* doubles = memory + BLOCK_AT * (size * DOUBLES + size * SINGLES / 2);
  Memory own = {doubles, doubles + DOUBLES * size, n};
  Vectors v = vectors_of(own);
  Matrix m = {first, quads, order, column, high, low, stream, place, entry, share};
  Matrix back = {back_first, back_quads, back_order, back_column, high, low,
                 back_stream, back_place, back_entry, back_share};
  bool adjoint = want & (OCCUPANCY | GRADIENT);
  i64 pairs = want & CROSS ? n_of_rewards * (n_of_rewards - 1) / 2 : 0;
  for (i64 d = BLOCK_AT; d < n_draws; d += BLOCKS) {
    SYNC();
    if (weights[d] == 0.0) {
      if (THREAD == 0) status[d] = LEFT_OUT, products[d] = 0;
      continue;
    }
    const double* own_theta = theta + d * n_entries;
    const double* paid = reward + d * reward_stride;
    const double* final = ends + d * ends_stride;
    int used = 0;
    bool good = true;
    for (int k = 0; k < n_rewards && good; k++) {
      double* V = value + (k * n_draws + d) * n_states;
      fill(m, high_of(m, own), own_theta, v, paid + k * n_entries, k == 0);
      EACH_STATE(i) {
        v.x[i] = reference[k * n_states + i];
        if (k == 0) v.w[i] = length[i];
      }
      good = solve_system(m, discounts[k], own, scratch, loose, &used);
      for (int s = THREAD; s < n_states; s += THREADS) V[s] = s < n ? v.x[s] : 0.0;
      SYNC();
    }
    if (keeps_length) EACH_STATE(i) own_length[i] = v.w[i];
    for (int k = 0; k < n_rewards && good; k++) {
      double* V = value + (k * n_draws + d) * n_states;
      double mean = from_start(scratch, n_states, start, V, final + k * n_states);
      if (THREAD == 0) results[4 * k * n_draws + d] = mean;
      if (!(want & VARIANCE)) continue;
      i64 pair = n_rewards;
      for (int l = 0; l < k; l++) pair += n_rewards - 1 - l;
      for (int j = k; j < (pairs ? n_rewards : k + 1) && good; j++) {
        bool alone = j == k;
        i64 place = alone ? k : pair + j - k - 1;
        double* U = value + (j * n_draws + d) * n_states;
        double* C = variance + (place * n_draws + d) * n_states;
        Side one = {paid + k * n_entries, V, discounts[k]};
        Side two = {paid + j * n_entries, U, discounts[j]};
        spread(m, own_theta, target, v, one, two);
        EACH_STATE(i) v.x[i] = alone ? reference[(n_rewards + k) * n_states + i] : 0.0;
        good = solve_system(m, discounts[k] * discounts[j], own, scratch, loose, &used);
        for (int s = THREAD; s < n_states; s += THREADS)
          C[s] = s < n ? alone ? fmax(v.x[s], 0.0) : v.x[s] : 0.0;
        SYNC();
        const double* end_j = final + j * n_states;
        double other = alone ? mean : from_start(scratch, n_states, start, U, end_j);
        double found = covariance_from_start(scratch, n_states, start, C, V,
                                             final + k * n_states, mean, U, end_j, other);
        if (THREAD == 0) {
          if (alone) results[(4 * k + 1) * n_draws + d] = found;
          else cross[(place - n_rewards) * n_draws + d] = found;
        }
      }
    }
    if (adjoint && good) {
      SYNC();
      fill(back, high_of(back, own), own_theta, v, 0, true);
      for (int k = 0; k < n_rewards && good; k++) {
        double* visits = occupancy + (k * n_draws + d) * n_states;
        if (k > 0 && discounts[k] == discounts[k - 1]) {
          const double* before = visits - n_draws * n_states;
          for (int s = THREAD; s < n_states; s += THREADS) visits[s] = before[s];
          SYNC();
          continue;
        }
        SYNC();
        EACH_STATE(i) {
          v.b[i] = start[i];
          v.x[i] = reference[(2 * n_rewards + k) * n_states + i];
          if (k == 0) v.w[i] = length[n_states + i];
        }
        good = solve_system(back, discounts[k], own, scratch, loose, &used);
        if (k == 0 && keeps_length) EACH_STATE(i) own_length[n_states + i] = v.w[i];
        EACH_STATE(i) visits[i] = v.x[i];
        for (int t = n + WARP_AT; t < n_states; t += WARPS) {  // arrivals
          double total = 0.0;
          for (u32 e = arrival_at[t - n] + LANE; e < arrival_at[t - n + 1]; e += WARP)
            total += flow_of(arrival_share[e], own_theta, arrival_entry[e]) *
                     v.x[arrival_source[e]];
          total = group_sum<WARP>(total);
          if (LANE == 0) visits[t] = start[t] + discounts[k] * total;
        }
        SYNC();
      }
    }
    if (THREAD == 0) {
      status[d] = good ? SOLVED : UNSOLVED;
      products[d] = used;
    }
  }
}
