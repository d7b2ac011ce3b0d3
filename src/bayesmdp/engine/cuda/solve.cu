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
#define ENDLESS 1e-5  // below, rounding of probabilities would count
#define GAIN 1e-5     // of one round in single precision
#define SAFE 0.25     // part of the tolerance that a round aims at
#define SURE 1e-3     // weights that lose no more in a step are looked at more exactly;
                      // and what the bound is raised by for the rounding of its scale
#define LOWER 6e-8    // what entries in single precision lack, at most
#define MOST 1000     // products of one system
#define STALLS 4      // rounds that gain nothing, after which it gives up

// Copy a vector to where two in single precision are not needed, near all threads.
DEVICE double* staged(const Vectors& v, float* to, const double* from) {
  double* out = (double*)to;
  EACH_STATE(i) out[i] = from[i];
  if (THREAD == 0) out[v.n] = 0.0;
  return out;
}

struct Bound {
  double norm, bound, size;  // largest residual, bound on the error, largest solution
};

// residual = M^-1 b - K x in double precision, with a bound on the error of x. What entries
// in single precision lack, times x, is left out, found and kept, or taken as it was kept.
DEVICE Bound look(const Matrix& m, double g, Vectors& v, Scratch& scratch, bool find,
                  bool kept) {
  double most[3] = {0.0, 0.0, 0.0};
  double* x = staged(v, v.p, v.x);
  SYNC();
  auto end = [&](int i, double total, double low) {
    if (find) v.low[i] = low;
    if (kept) low = v.low[i];
    double found = v.inverse[i] * (v.b[i] + g * (total + low)) - v.x[i];
    v.residual[i] = found;
    most[0] = larger(fabs(found), most[0]);
    most[1] = larger(fabs(found) * v.scale[i], most[1]);
    most[2] = larger(fabs(v.x[i]), most[2]);
  };
  if (find) gather(m, v.n, x, true, end);
  else gather_near(m, v.n, x, end);
  reduce_block<0, 3>(scratch, (double*)0, most);
  Bound found = {most[0], most[1], most[2]};
  return found;
}

// Add to x what BiCGSTAB finds for the residual, whose largest entry is `norm`, until it
// is `enough` times as large. False where it diverged.
DEVICE bool correct(const Matrix& m, double g, Vectors& v, Scratch& scratch, double* x,
                    double norm, float enough, int stalls, int* products) {
  Held held = hold(m);
  int used = *products;
  float sums[5] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  double scale = 1.0 / norm;
  EACH_STATE(i) {
    float r = (float)(v.residual[i] * scale);
    u64 sign = (u64)(i + 1) * 6364136223846793005ULL * (u64)(stalls + 1);
    // what led nowhere with the residual as shadow is repeated with signs
    float shadow = stalls == 0 ? r : (sign >> 40) & 1 ? 1.0f : -1.0f;
    sums[0] += shadow * r;
    sums[1] += r * r;
    v.p[i] = r;
    v.d[i] = 0.0f;
    v.shadow[i] = shadow;
    v.r[i] = r;
  }
  if (THREAD == 0) v.p[v.n] = v.s[v.n] = 0.0f;
  reduce_block<2, 0>(scratch, sums, (float*)0);
  float rho = sums[0], first = sums[1], square = first;
  enough *= enough * first;
  float alpha = 0.0f;
  for (int half = 0; used < MOST && rho != 0.0f; half ^= 1) {
    for (int k = 0; k < 5; k++) sums[k] = 0.0f;
    product(m, held, (float)g, v, half, half ? v.s : v.p, half ? v.t : v.v, sums);
    used++;
    if (!half) {
      reduce_block<1, 0>(scratch, sums, (float*)0);
      if (!(fabs(sums[0]) > 1e-30f)) break;
      alpha = rho / sums[0];
      EACH_STATE(i) v.s[i] = v.r[i] - alpha * v.v[i];
      SYNC();
      continue;
    }
    reduce_block<5, 0>(scratch, sums, (float*)0);
    float omega = sums[2] > 0.0f ? sums[1] / sums[2] : 0.0f;
    square = sums[4] - omega * (2.0f * sums[1] - omega * sums[2]);
    float next = sums[3] - omega * sums[0], beta = (next / rho) * (alpha / omega);
    rho = next;
    EACH_STATE(i) {
      float p = v.p[i], s = v.s[i], r = s - omega * v.t[i];
      v.d[i] += alpha * p + omega * s;
      v.r[i] = r;
      v.p[i] = r + beta * (p - omega * v.v[i]);
    }
    SYNC();
    if (!(square > enough) || !(square < 1e12f * first) || omega == 0.0f) break;
  }
  *products = used;
  if (!(square < first)) return false;
  EACH_STATE(i) x[i] += norm * v.d[i];
  SYNC();
  return true;
}

// Let weights that were tried bound errors, where single precision is enough to tell.
// `scale` turns a residual into a bound, `reach` is its largest.
DEVICE bool bound_quickly(const Matrix& m, double g, Vectors& v, Scratch& scratch,
                          double* reach) {
  Held held = hold(m);
  double most[3] = {0.0, 0.0, -infinity()};
  EACH_STATE(i) v.p[i] = (float)v.w[i];
  if (THREAD == 0) v.p[v.n] = 0.0f;
  SYNC();
  float unused[5] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};  // of a shadow that is not set yet
  product(m, held, (float)g, v, false, v.p, v.s, unused);
  SYNC();
  double rounding = LOWER * (m.n_quads + 16);  // of a row: its terms, and what follows
  EACH_STATE(i) {
    double w = v.w[i], k = v.s[i] - rounding * w;
    if (!(w > 0.0 && w < infinity() && k > SURE * w)) most[0] = 1.0;
    most[1] = larger(w, most[1]);
    most[2] = larger(-k, most[2]);
  }
  reduce_block<0, 3>(scratch, (double*)0, most);
  if (most[0] != 0.0 || !(ROUNDING * most[1] <= -ACCEPTED * most[2])) return false;
  EACH_STATE(i)
    v.scale[i] = (float)((1.0 + SURE) * most[1] / (v.s[i] - rounding * v.w[i]));
  *reach = -most[1] / most[2];
  SYNC();
  return true;
}

// The same in double precision. Where weights do not bound errors, the residual is what
// K w lacks to one step, so that they become this chain's own length of episodes.
enum Weights { GOOD, WANTING, HOPELESS };

DEVICE Weights bound_slowly(const Matrix& m, double g, Vectors& v, Scratch& scratch,
                            double* reach, double* norm) {
  double most[3] = {0.0, 0.0, -infinity()};
  double* w = staged(v, v.p, v.w);
  SYNC();
  gather(m, v.n, w, true, [&](int i, double total, double low) {
    double here = v.w[i], k = here - g * v.inverse[i] * (total + low);
    if (!(here > 0.0 && here < infinity() && k > 1e-14 * here)) most[0] = 1.0;
    most[1] = larger(here, most[1]);
    most[2] = larger(-k, most[2]);
    v.residual[i] = v.inverse[i] - k;
    v.low[i] = k;
  });
  reduce_block<0, 3>(scratch, (double*)0, most);
  if (most[0] == 0.0) {
    if (!(ROUNDING * most[1] <= -ACCEPTED * most[2])) return HOPELESS;
    EACH_STATE(i) v.scale[i] = (float)(most[1] / v.low[i]);
    *reach = -most[1] / most[2];
    SYNC();
    return GOOD;
  }
  bool known = most[1] > 0.0 && most[1] < infinity();
  most[0] = 0.0;
  EACH_STATE(i) {
    if (!known) {
      v.w[i] = 0.0;
      v.residual[i] = v.inverse[i];
    }
    most[0] = larger(fabs(v.residual[i]), most[0]);
  }
  reduce_block<0, 1>(scratch, (double*)0, most);
  *norm = most[0];
  return most[0] > 0.0 && most[0] < infinity() ? WANTING : HOPELESS;
}

// Solve (I - g T) x = b from the guess in x, with trial weights in w. Counts products;
// false where the bound on the error stays above what is accepted.
RARELY bool solve_system(Matrix m, double g, Memory memory, Scratch& shared_scratch,
                         double loose, int* products) {
  Scratch scratch = shared_scratch;  // a copy stays in registers
  Vectors v = vectors_of(memory);
  double most[2] = {0.0, 0.0};
  SYNC();
  EACH_STATE(i) {
    double diagonal = (1.0 - g) + g * v.rest[i];
    if (!(diagonal > ENDLESS)) most[0] = 1.0;
    v.inverse[i] = 1.0 / diagonal;
    v.single_inverse[i] = (float)v.inverse[i];
    most[1] = larger(fabs(v.b[i]), most[1]);
  }
  reduce_block<0, 2>(scratch, (double*)0, most);
  shared_scratch = scratch;
  if (most[0] != 0.0) return false;
  if (most[1] == 0.0) {  // no tolerance is small enough for a solution of 0
    EACH_STATE(i) v.x[i] = 0.0;
    SYNC();
    ++*products;
    return true;
  }
  int used = 1, stalls = 0, rounds = 0;
  double best = infinity(), reach = 0.0, norm = 1.0, enough = 0.0;
  double told = 0.0;  // the bound where low digits were found
  bool good = true, known = false;
  bool weights = !bound_quickly(m, g, v, scratch, &reach);
  Bound at = {infinity(), infinity(), 1.0};
  for (;;) {
    if (weights) {
      Weights found = bound_slowly(m, g, v, scratch, &reach, &norm);
      used++;
      weights = found == WANTING;
      good = found == GOOD || (weights && rounds++ < 3);
      enough = loose / norm;
    }
    if (!good) break;
    if (!weights) {
      // what entries lack does not change where a correction moves no low digits
      bool kept = known && LOWER * reach * at.bound <= 0.05 * TOLERANCE * at.size;
      bool find = !kept && at.norm < infinity();
      at = look(m, g, v, scratch, find, kept);
      known = known || find;
      if (find) told = at.bound;
      if (kept) at.bound += LOWER * reach * (told + at.bound);  // as far as it moved
      used++;
      if (!known && at.bound <= 10.0 * LOWER * reach * at.size) continue;
      if (known && at.bound <= TOLERANCE * at.size) break;
      if (!(at.bound < 0.5 * best)) {
        stalls++;
        if (known && at.bound <= ACCEPTED * at.size) break;
      }
      best = fmin(best, at.bound);
      good = stalls < STALLS && used < MOST && at.bound < infinity() && at.norm > 0.0;
      if (!good) break;
      norm = at.norm, enough = SAFE * TOLERANCE * at.size / at.bound;
    }
    if (!correct(m, g, v, scratch, weights ? v.w : v.x, norm,
                 (float)fmax(GAIN, enough), weights ? rounds - 1 : stalls, &used)) {
      good = !weights;
      stalls++;
      if (!good) break;
    }
  }
  SYNC();
  shared_scratch = scratch;
  *products += used;
  return good;
}
