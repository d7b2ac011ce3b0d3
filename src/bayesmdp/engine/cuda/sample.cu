// Rows of draws, as `bayesmdp.posterior.sampling` and `_shared_rows` sample them. A warp
// takes one row of as many draws as it has lanes: they meet the same shapes and take the
// same way. Variates wait in a tile of shared memory until a stretch of every draw's row
// can be written at once.

#ifndef TILE
#define TILE 32  // entries of a stretch
#endif
#define PITCH (WARP + (WARP > 1))  // lanes beside each other, without bank conflicts

struct Target {
  double* rows;  // [D, E]
  i64 n_entries, first;  // of the row
  int n_draws, draw;  // of this lane, n_draws and more where it has none
};

// Write `length` entries from `begin` of the row on, of all draws of the warp.
DEVICE void flush(const Target& to, const double* tile, int begin, int length) {
  SYNC_WARP();
  int base = to.draw - LANE;
  for (int k = LANE; k < length * WARP; k += WARP) {
    int lane = k / length, j = k - lane * length;
    if (base + lane < to.n_draws)
      to.rows[(base + lane) * to.n_entries + to.first + begin + j] = tile[j * PITCH + lane];
  }
  SYNC_WARP();
}

// A row too faint for floating point, made again in logarithms from its first words.
template <class Shapes>
RARELY void faint_row(const Tables& t, Shapes shapes, Words words, double* row) {
  double largest = -infinity(), total = 0.0;
  int n = shapes.length();
  for (int j = 0; j < n; j++) {
    double shape = shapes.next(j);
    row[j] = shape > 0.0 ? log_gamma_tiny(t, shape, words) : -infinity();
    largest = fmax(largest, row[j]);
  }
  for (int j = 0; j < n; j++) {
    row[j] = exp(row[j] - largest);
    total += row[j];
  }
  double scale = 1.0 / total;
  for (int j = 0; j < n; j++) row[j] *= scale;
}

// Sample the row of this lane's draw. `shapes.next(j)` is called for each entry in turn;
// 0 stands for an impossible one, which takes no random number. `shapes.fixed(j, x)`
// says that the entry is not random.
template <class Shapes>
DEVICE void sample_row(
    const Tables& t, Shapes shapes, Words words, const Target& to, double* tile) {
  bool there = to.draw < to.n_draws, alone = shapes.possible() == 1;
  Shapes again = shapes;
  Words begin = words;
  int length = shapes.length();
  double total = 0.0;
  double* column = tile + LANE;
  for (int first = 0; first < length; first += TILE) {
    int last = length - first < TILE ? length : first + TILE;
    if (there) {
      for (int j = first; j < last; j++) {
        double x = 0.0;
        if (shapes.random()) {
          double shape = shapes.next(j);
          if (alone) x = shape > 0.0 ? 1.0 : 0.0;
          else if (shape > 0.0) x = gamma_variate(t, shape, words);
        } else {
          x = shapes.fixed(j);
        }
        total += x;
        column[(j - first) * PITCH] = x;
      }
    }
    if (length <= TILE && there && shapes.random()) {
      double scale = 1.0 / total;
      for (int j = 0; j < length; j++) column[j * PITCH] *= scale;
    }
    flush(to, tile, first, last - first);
  }
  bool faint = there && shapes.random() && !alone && total < FAINT;
  if (length > TILE) {  // the whole row is written, and has to be scaled
    double scale = there && shapes.random() ? 1.0 / total : 1.0;
#ifdef __CUDACC__
    int base = to.draw - LANE;
    for (int lane = 0; lane < WARP; lane++) {
      double of_lane = __shfl_sync(~0u, scale, lane);
      if (base + lane < to.n_draws)
        for (int j = LANE; j < length; j += WARP)
          to.rows[(base + lane) * to.n_entries + to.first + j] *= of_lane;
    }
    SYNC_WARP();
#else
    for (int j = 0; j < length; j++) to.rows[to.draw * to.n_entries + to.first + j] *= scale;
#endif
  }
  if (faint) faint_row(t, again, begin, to.rows + to.draw * to.n_entries + to.first);
}

// Which row and draw a lane has: rows in the order given, long ones first.
struct Task {
  int row, draw;
};

DEVICE Task task_of(const int* order, int n_draws) {
  int groups = (n_draws + WARP - 1) / WARP;
  i64 at = BLOCK_AT * WARPS + WARP_AT;
  Task task = {order[at / groups], (int)(at % groups) * WARP + LANE};
  return task;
}

// Warps beyond the last task have nothing to do.
DEVICE bool is_task(int n_rows, int n_draws) {
  i64 groups = (n_draws + WARP - 1) / WARP;
  return BLOCK_AT * WARPS + WARP_AT < n_rows * groups;
}

struct FixedShapes {  // Dirichlet
  const double* alpha;
  int n;
  MEMBER int length() const { return n; }
  MEMBER int possible() const { return n; }
  MEMBER bool random() const { return true; }
  MEMBER double next(int j) { return alpha[j]; }
  MEMBER double fixed(int j) { return 0.0; }
};

KERNEL sample_dirichlet(
    u64 k0, u64 k1, i64 n_draws, i64 n_rows, i64 n_entries, const i64* draws,
    const int* order, const i64* state, const i64* action, const i64* indptr,
    const double* alpha, const double* edge, const double* density, const double* sides,
    const double* height, double* theta) {
  SHARE(double, tiles, (WARP > 1 ? 4 : 1) * TILE * PITCH);
  if (!is_task((int)n_rows, (int)n_draws)) return;
  Task task = task_of(order, (int)n_draws);
  Tables t = {edge, density, sides, height};
  i64 first = indptr[task.row];
  FixedShapes shapes = {alpha + first, (int)(indptr[task.row + 1] - first)};
  i64 draw = task.draw < n_draws ? draws[task.draw] : 0;
  Words words = open_stream(k0, k1, draw, state[task.row], action[task.row]);
  Target to = {theta, n_entries, first, (int)n_draws, task.draw};
  sample_row(t, shapes, words, to, tiles + WARP_AT * TILE * PITCH);
}

// A random set of next states: those that are not sure are gone through once, each taken
// with probability wanted / left. The words that decide run beside those of variates.
struct SetShapes {
  const double *alpha, *shape;
  double concentration;
  int n, lump, n_possible;
  double lumped;
  Words words;
  i64 wanted, left;
  MEMBER int length() const { return n; }
  MEMBER int possible() const { return n_possible; }
  MEMBER bool random() const { return true; }
  MEMBER double fixed(int j) { return 0.0; }
  MEMBER double next(int j) {
    double x = shape[j];
    if (j == lump) return x + lumped;
    if (wanted > 0 && x == 0.0 && alpha[j] > 0.0) {
      if (unit(advance(words)) * left < wanted) {
        x = concentration;
        wanted--;
      }
      left--;
    }
    return x;
  }
};

KERNEL sample_random_support(
    u64 k0, u64 k1, i64 n_draws, i64 n_rows, i64 n_entries, const i64* draws,
    const int* order, const i64* state, const i64* action, const i64* indptr,
    const double* alpha, const double* shape, const i64* group, const i64* start,
    const double* cumulative, const i64* lump, double concentration, const double* edge,
    const double* density, const double* sides, const double* height, double* theta) {
  SHARE(double, tiles, (WARP > 1 ? 4 : 1) * TILE * PITCH);
  if (!is_task((int)n_rows, (int)n_draws)) return;
  Task task = task_of(order, (int)n_draws);
  Tables t = {edge, density, sides, height};
  i64 first = indptr[task.row];
  int n = (int)(indptr[task.row + 1] - first);
  i64 draw = task.draw < n_draws ? draws[task.draw] : 0;
  Words words = open_stream(k0, k1, draw, state[task.row], action[task.row]);
  const double* weights = cumulative + start[group[task.row]];
  i64 n_weights = start[group[task.row] + 1] - start[group[task.row]];
  double u = unit(advance(words)) * weights[n_weights - 1];
  i64 wanted = 0;
  while (wanted < n_weights - 1 && !(u < weights[wanted])) wanted++;
  SetShapes shapes = {alpha + first, shape + first, concentration, n, (int)lump[task.row],
                      0, 0.0, words, wanted, n_weights - 1};
  if (shapes.lump >= 0) {
    shapes.lumped = wanted * concentration;
    shapes.wanted = 0;
  }
  SetShapes rehearsed = shapes;  // where the words of variates begin
  for (int j = 0; j < n; j++) shapes.n_possible += rehearsed.next(j) > 0.0;
  Target to = {theta, n_entries, first, (int)n_draws, task.draw};
  sample_row(t, shapes, rehearsed.words, to, tiles + WARP_AT * TILE * PITCH);
}

// Latent rows of states, k g + m; and the rows around them, c mu + n.
struct LatentShapes {
  const double* base;
  const int* tables;
  double k;
  int n;
  MEMBER int length() const { return n; }
  MEMBER int possible() const { return n; }
  MEMBER bool random() const { return true; }
  MEMBER double next(int j) { return k * base[j] + tables[j]; }
  MEMBER double fixed(int j) { return 0.0; }
};

KERNEL sample_latent(
    u64 k0, u64 k1, i64 n_draws, i64 n_latent, i64 n_cells, i64 n_states, i64 n_kept,
    i64 n_actions, const i64* draws, const i64* members, const int* order,
    const i64* state, const i64* indptr, const i64* cell, const double* base,
    const int* tables, const double* k, const double* edge, const double* density,
    const double* sides, const double* height, double* mu) {
  // one task for each state; its cells in `mu` [D, n_kept] begin at `indptr`
  SHARE(double, tiles, (WARP > 1 ? 4 : 1) * TILE * PITCH);
  if (!is_task((int)n_latent, (int)n_draws)) return;
  Task task = task_of(order, (int)n_draws);
  Tables t = {edge, density, sides, height};
  i64 s = state[task.row], at = cell[task.row];
  i64 draw = task.draw < n_draws ? draws[task.draw] : 0;
  i64 member = task.draw < n_draws ? members[task.draw] : 0;
  LatentShapes shapes = {base + at, tables + member * n_cells + at,
                         k[member * n_states + s],
                         (int)(indptr[task.row + 1] - indptr[task.row])};
  Words words = open_stream(k0, k1, draw, s, n_actions);
  Target to = {mu, n_kept, indptr[task.row], (int)n_draws, task.draw};
  sample_row(t, shapes, words, to, tiles + WARP_AT * TILE * PITCH);
}

struct SharedShapes {
  const double *mu, *count;
  double c, total;  // total: of c and visits, where the row is its mean; else 0
  int n;
  MEMBER int length() const { return n; }
  MEMBER int possible() const { return n; }
  MEMBER bool random() const { return c < infinity() && total == 0.0; }
  MEMBER double next(int j) { return fmax(c * mu[j] + count[j], 1e-300); }
  MEMBER double fixed(int j) {
    return total == 0.0 ? mu[j] : (c * mu[j] + count[j]) / total;
  }
};

KERNEL sample_shared(
    u64 k0, u64 k1, i64 n_draws, i64 n_rows, i64 n_entries, i64 n_states, i64 n_kept,
    const i64* draws, const i64* members, const int* order, const i64* state,
    const i64* action, const i64* indptr, const i64* latent, const double* count,
    const double* visits, const double* strength, const unsigned char* used,
    const double* mu, const double* edge, const double* density, const double* sides,
    const double* height, double* theta) {
  // `latent`: where a row's state has its cells in `mu` [D, n_kept]
  SHARE(double, tiles, (WARP > 1 ? 4 : 1) * TILE * PITCH);
  if (!is_task((int)n_rows, (int)n_draws)) return;
  Task task = task_of(order, (int)n_draws);
  Tables t = {edge, density, sides, height};
  i64 s = state[task.row], first = indptr[task.row];
  i64 lane = task.draw < n_draws ? task.draw : 0;
  double c = strength[members[lane] * n_states + s];
  SharedShapes shapes = {mu + lane * n_kept + latent[task.row], count + first, c,
                         used[task.row] || !(c < infinity()) ? 0.0 : c + visits[task.row],
                         (int)(indptr[task.row + 1] - first)};
  Words words = open_stream(k0, k1, draws[lane], s, action[task.row]);
  Target to = {theta, n_entries, first, (int)n_draws, task.draw};
  sample_row(t, shapes, words, to, tiles + WARP_AT * TILE * PITCH);
}
