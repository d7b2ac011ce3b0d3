// Rows of draws, as `bayesmdp.posterior.sampling` samples them. A warp takes one row of
// as many draws as it has lanes: they meet the same shapes, take the same way, and write
// side by side.

#ifndef SAMPLING
#define SAMPLING 6  // blocks of a multiprocessor
#endif

// A row too faint for floating point, made again in logarithms from its first words.
template <class Shapes>
RARELY void faint_row(const Tables& t, Shapes shapes, Words words, double* row) {
  double largest = -infinity(), total = 0.0;
  int n = shapes.length();
  for (int j = 0; j < n; j++) {
    double shape = shapes.next(j);
    double x = shape > 0.0 ? log_gamma_tiny(t, shape, words) : -infinity();
    row[j * WARP] = x;
    largest = fmax(largest, x);
  }
  for (int j = 0; j < n; j++) {
    row[j * WARP] = exp(row[j * WARP] - largest);
    total += row[j * WARP];
  }
  double scale = 1.0 / total;
  for (int j = 0; j < n; j++) row[j * WARP] *= scale;
}

// Sample the row of this lane's draw. `shapes.next(j)` is called for each entry in turn;
// 0 stands for an impossible one, which takes no random number. `shapes.fixed(j, x)`
// says that the entry is not random.
template <class Shapes>
DEVICE void sample_row(const Tables& t, Shapes shapes, Words words, double* row) {
  bool alone = shapes.possible() == 1, random = shapes.random();
  Shapes again = shapes;
  Words begin = words;
  int length = shapes.length();
  double total = 0.0;
  for (int j = 0; j < length; j++) {
    double x = 0.0;
    if (random) {
      double shape = shapes.next(j);
      if (alone) x = shape > 0.0 ? 1.0 : 0.0;
      else if (shape > 0.0) x = gamma_variate(t, shape, words);
    } else {
      x = shapes.fixed(j);
    }
    total += x;
    row[j * WARP] = x;
  }
  if (!random || alone) return;
  double scale = 1.0 / total;
#ifdef __CUDACC__
#pragma unroll 8
#endif
  for (int j = 0; j < length; j++) row[j * WARP] *= scale;
  if (total < FAINT) faint_row(t, again, begin, row);
}

// Which row, in the order given, long ones first, and group of draws a warp has.
struct Task {
  int row, group, draw;
};

// False for warps and lanes that have nothing to do.
DEVICE bool has_task(const int* order, i64 n_rows, i64 n_draws, Task* task) {
  i64 groups = (n_draws + WARP - 1) / WARP, at = BLOCK_AT * WARPS + WARP_AT;
  if (at >= n_rows * groups) return false;
  task->row = order[at / groups];
  task->group = (int)(at % groups);
  task->draw = task->group * WARP + LANE;
  return task->draw < n_draws;
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

KERNEL LIMIT(128, SAMPLING) sample_dirichlet(
    u64 k0, u64 k1, i64 n_draws, i64 n_rows, i64 n_entries, const i64* draws,
    const int* order, const i64* state, const i64* action, const i64* indptr,
    const double* alpha, const double* edge, const double* density, const double* sides,
    const double* height, double* theta) {
  Task task;
  if (!has_task(order, n_rows, n_draws, &task)) return;
  Tables t = {edge, density, sides, height};
  i64 first = indptr[task.row];
  FixedShapes shapes = {alpha + first, (int)(indptr[task.row + 1] - first)};
  i64 draw = draws[task.draw];
  Words words = open_stream(k0, k1, draw, state[task.row], action[task.row]);
  sample_row(t, shapes, words, theta + AT(task.group, n_entries, first));
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

KERNEL LIMIT(128, SAMPLING) sample_random_support(
    u64 k0, u64 k1, i64 n_draws, i64 n_rows, i64 n_entries, const i64* draws,
    const int* order, const i64* state, const i64* action, const i64* indptr,
    const double* alpha, const double* shape, const i64* group, const i64* start,
    const double* cumulative, const i64* lump, double concentration, const double* edge,
    const double* density, const double* sides, const double* height, double* theta) {
  Task task;
  if (!has_task(order, n_rows, n_draws, &task)) return;
  Tables t = {edge, density, sides, height};
  i64 first = indptr[task.row];
  int n = (int)(indptr[task.row + 1] - first);
  i64 draw = draws[task.draw];
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
  sample_row(t, shapes, rehearsed.words, theta + AT(task.group, n_entries, first));
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

KERNEL LIMIT(128, SAMPLING) sample_latent(
    u64 k0, u64 k1, i64 n_draws, i64 n_latent, i64 n_cells, i64 n_states, i64 n_kept,
    i64 n_actions, const i64* draws, const i64* members, const int* order,
    const i64* state, const i64* indptr, const i64* cell, const double* base,
    const int* tables, const double* k, const double* edge, const double* density,
    const double* sides, const double* height, double* mu) {
  // one task for each state; its cells in `mu` begin at `indptr`
  Task task;
  if (!has_task(order, n_latent, n_draws, &task)) return;
  Tables t = {edge, density, sides, height};
  i64 s = state[task.row], at = cell[task.row];
  i64 draw = draws[task.draw];
  i64 member = members[task.draw];
  LatentShapes shapes = {base + at, tables + member * n_cells + at,
                         k[member * n_states + s],
                         (int)(indptr[task.row + 1] - indptr[task.row])};
  Words words = open_stream(k0, k1, draw, s, n_actions);
  sample_row(t, shapes, words, mu + AT(task.group, n_kept, indptr[task.row]));
}

struct SharedShapes {
  const double *mu, *count;
  double c, total;  // total: of c and visits, where the row is its mean; else 0
  int n;
  MEMBER int length() const { return n; }
  MEMBER int possible() const { return n; }
  MEMBER bool random() const { return c < infinity() && total == 0.0; }
  MEMBER double next(int j) { return fmax(c * mu[j * WARP] + count[j], 1e-300); }
  MEMBER double fixed(int j) {
    double x = mu[j * WARP];
    return total == 0.0 ? x : (c * x + count[j]) / total;
  }
};

KERNEL LIMIT(128, SAMPLING) sample_shared(
    u64 k0, u64 k1, i64 n_draws, i64 n_rows, i64 n_entries, i64 n_states, i64 n_kept,
    const i64* draws, const i64* members, const int* order, const i64* state,
    const i64* action, const i64* indptr, const i64* latent, const double* count,
    const double* visits, const double* strength, const unsigned char* used,
    const double* mu, const double* edge, const double* density, const double* sides,
    const double* height, double* theta) {
  // `latent`: where a row's state has its cells in `mu`
  Task task;
  if (!has_task(order, n_rows, n_draws, &task)) return;
  Tables t = {edge, density, sides, height};
  i64 s = state[task.row], first = indptr[task.row];
  double c = strength[members[task.draw] * n_states + s];
  SharedShapes shapes = {mu + AT(task.group, n_kept, latent[task.row]), count + first, c,
                         used[task.row] || !(c < infinity()) ? 0.0 : c + visits[task.row],
                         (int)(indptr[task.row + 1] - first)};
  Words words = open_stream(k0, k1, draws[task.draw], s, action[task.row]);
  sample_row(t, shapes, words, theta + AT(task.group, n_entries, first));
}
