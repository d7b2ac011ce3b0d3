// Solve the systems of each draw's chain, one block per draw.
//
// The equations stand in `bayesmdp.engine._kernel`, the bound on errors in `_krylov`.
// Here the preconditioner M is the diagonal, K = M^-1 (I - g T): a Gauss-Seidel sweep
// would have states wait for each other. BiCGSTAB runs in single precision on what is
// left of the right-hand side; its corrections are added in double precision, in which
// residuals are found, too: some digits per round, until the bound is below the tolerance.

#define TOLERANCE 1e-10  // as in `_krylov`
#define ACCEPTED 1e-8
#define ROUNDING 1e-15
#define ENDLESS 1e-13
#define GAIN 1e-5     // of one round in single precision
#define POSITIVE 0.7  // residual with which a length of episodes still bounds errors
#define MOST 1000     // products of one system
#define STALLS 4      // rounds that gain nothing, after which it gives up

// Copy a vector to where two in single precision are not needed, near all threads.
DEVICE double* staged(const Vectors& v, float* to, const double* from) {
  double* out = (double*)to;
  EACH_STATE(i) out[i] = from[i];
  if (THREAD == 0) out[v.n] = out[v.n + 1] = 0.0;
  return out;
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
  double* x = staged(v, v.p, v.x);
  double* w = weights ? staged(v, v.r, v.w) : 0;
  SYNC();
  EACH_SLICE(m, slice) {
    double of_x, of_w = 0.0;
    gather(m, high, slice, x, w, &of_x, &of_w);
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
RARELY bool correct(Matrix m, double g, Memory memory, Scratch& shared_scratch,
                   double norm, double enough, int stalls, bool weights, int* products) {
  Scratch scratch = shared_scratch;  // a copy stays in registers
  int used = *products;
  Vectors v = vectors_of(memory);
  const Quad* values = high_of(m);
  double* x = weights ? v.w : v.x;
  u32 ends = 0;
  int n_quads = 0;
#if QUADS
  Columns held[HELD];
  EACH_SLICE(m, slice) {
    n_quads = m.quads[2 * slice + 1];
    ends |= 1u << (n_quads - 1);
  }
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int q = 0; q < HELD; q++)
    if (q < n_quads) held[q] = m.column[PLACE(q)];
  const short* order = near_order() + m.first[WARP_AT] * ROWS;
#else
  const Columns* held = 0;
  const short* order = 0;
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
  while (used < MOST && rho != 0.0f) {
    sums[0] = sums[1] = 0.0f;
    product(m, values, order, held, ends, n_quads, single_g, v.single_inverse, v.p,
            v.shadow, v.v, sums);
    reduce_block<1, 0>(scratch, sums, (float*)0);
    used++;
    if (!(fabs(sums[0]) > 1e-30)) break;
    float alpha = rho / sums[0];
    EACH_STATE(i) v.s[i] = v.r[i] - alpha * v.v[i];
    SYNC();
    sums[0] = sums[1] = 0.0f;
    product(m, values, order, held, ends, n_quads, single_g, v.single_inverse, v.s, v.s,
            v.t, sums);
    reduce_block<2, 0>(scratch, sums, (float*)0);
    used++;
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
  shared_scratch = scratch;
  *products = used;
  if (!(bound < first)) return false;
  EACH_STATE(i) x[i] += norm * v.d[i];
  SYNC();
  return true;
}

// Find weights that bound errors: those given, or else this chain's own length of
// episodes, up to a share POSITIVE of one step. `scale` turns a residual into a bound.
DEVICE bool find_bounds(const Matrix& m, double g, const Memory& memory, Vectors& v,
                        Scratch& scratch, double loose, Bound& at, int* products) {
  const Quad* high = high_of(m);
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
    if (good) at = look(m, high_of(m), g, v, scratch, false);
    ++used;
  }
  SYNC();
  *products += used;
  return good;
}

// Solve systems of the chains that `fill_chains` made. Vectors are [systems, draws,
// states]; guesses and lengths are the same for all draws. Weights that bound errors are
// left in `own_length` [draws, n], if it is given, and read from there, if that is wanted.
// What `continues` looks at draws that were solved so far. Of the solutions the first
// `n_squares` are not below 0.
KERNEL LIMIT(MAX_THREADS, MIN_BLOCKS) solve_systems(
    i64 n_draws, i64 n_live, i64 n_states, i64 n_systems, i64 n_quads, i64 n_squares,
    i64 continues, i64 reads_length, double loose, const int* first, const int* quads,
    const int* order, const Columns* column, const Quad* high, const Quad* low,
    const double* rest, const double* discounts, const double* rhs, i64 rhs_stride,
    const double* guess, const double* length, const double* weights, double* memory,
    double* own_length, double* out, int* status, int* products) {
  SHARE(double, buffer, 256);
  Scratch scratch = {buffer, 0};
  int n = (int)n_live;
  double* doubles = memory + BLOCK_AT * (SIZE * DOUBLES + SIZE * SINGLES / 2);
  Memory own = {doubles, doubles + DOUBLES * SIZE, n};
  Vectors v = vectors_of(own);
#if QUADS
  short* near = near_order();
  for (int k = THREAD; k < first[WARPS] * ROWS; k += THREADS) near[k] = (short)order[k];
#endif
  for (i64 d = BLOCK_AT; d < n_draws; d += BLOCKS) {
    SYNC();
    if (weights[d] == 0.0 || (continues && status[d] != SOLVED)) {
      if (THREAD == 0 && !continues) status[d] = LEFT_OUT, products[d] = 0;
      continue;
    }
    i64 places = d * n_quads * THREADS;
    Matrix m = {first, quads, order, column, high + places, low + places};
#if QUADS
    Quad* values = (Quad*)high_of(m);
#ifdef __CUDACC__
#pragma unroll 8
#endif
    for (int q = 0; q < n_quads; q++) values[PLACE(q)] = streamed(m.high + PLACE(q));
#endif
    EACH_STATE(i) {
      v.rest[i] = rest[d * n + i];
      v.w[i] = reads_length ? own_length[d * n + i] : length[i];
    }
    int used = 0;
    bool good = true;
    for (int k = 0; k < n_systems && good; k++) {
      EACH_STATE(i) {
        v.b[i] = rhs[(k * n_draws + d) * rhs_stride + i];
        v.x[i] = guess[k * n_states + i];
      }
      good = solve_system(m, discounts[k], own, scratch, loose, &used);
      double* x = out + (k * n_draws + d) * n_states;
      for (int s = THREAD; s < n_states; s += THREADS)
        x[s] = s < n ? k < n_squares ? fmax(v.x[s], 0.0) : v.x[s] : 0.0;
      SYNC();
    }
    if (own_length) EACH_STATE(i) own_length[d * n + i] = v.w[i];
    if (THREAD == 0) {
      status[d] = good ? SOLVED : UNSOLVED;
      products[d] = (continues ? products[d] : 0) + used;
    }
  }
}
