// Put quads where their entries stand in the transpose.
DEVICE void scatter(const Quad* from, int n_quads, const Positions* position, Quad* to,
                    int n_to) {
  const Quad zero = {0.0f, 0.0f, 0.0f, 0.0f};
  float* out = (float*)to;
  for (int q = 0; q < n_to; q++) to[PLACE(q)] = zero;
  SYNC();
#ifdef __CUDACC__
#pragma unroll 4
#endif
  for (int q = 0; q < n_quads; q++) {
    Quad x = streamed(from + PLACE(q));
    Positions at = position[PLACE(q)];
    if (at.x != NOWHERE) out[at.x] = x.x;
    if (at.y != NOWHERE) out[at.y] = x.y;
    if (at.z != NOWHERE) out[at.z] = x.z;
    if (at.w != NOWHERE) out[at.w] = x.w;
  }
  SYNC();
}

// Fetch a chain, or make its transpose in `own`, the memory of this block.
DEVICE void fetch(Matrix& m, const Quad* high, const Quad* low, int n_quads,
                  const Positions* position, Quad* own) {
  m.high = high, m.low = low;
  Quad* own_high = own + m.n_quads * THREADS;
#if QUADS
  Quad* near = near_values();
  if (position) {
    scatter(low, n_quads, position, near, QUADS);
    for (int q = 0; q < m.n_quads; q++) own[PLACE(q)] = near[PLACE(q)];
    SYNC();
    scatter(high, n_quads, position, near, QUADS);
    m.low = own;
    return;
  }
  const Quad zero = {0.0f, 0.0f, 0.0f, 0.0f};
#ifdef __CUDACC__
#pragma unroll 8
#endif
  for (int q = 0; q < QUADS; q++)
    near[PLACE(q)] = q < n_quads ? streamed(high + PLACE(q)) : zero;
  SYNC();
#else
  if (!position) return;
  scatter(low, n_quads, position, own, m.n_quads);
  scatter(high, n_quads, position, own_high, m.n_quads);
  m.high = own_high, m.low = own;
#endif
}

// Solve systems of the chains that `fill_chains` made, [draws, places] each, or of their
// transposes, where the `position` of each place in it is given. Vectors are [systems,
// groups of draws, states, lanes]; but right-hand sides of transposes, guesses and lengths
// are the same for all draws. `rest` [groups, n, lanes] has sums of rows off the
// diagonal. Weights that bound errors are left in `own_length` [draws, n], if it is given.
// What `continues` looks at draws that were solved so far. Of the solutions the first
// `n_squares` are not below 0.
KERNEL LIMIT(MAX_THREADS, MIN_BLOCKS) solve_systems(
    i64 n_draws, i64 n_live, i64 n_states, i64 n_systems, i64 n_squares, i64 continues,
    double loose, const int* first, const int* quads, const int* order,
    const Columns* column, i64 n_quads, const Quad* high, const Quad* low, i64 n_from,
    const Positions* position, Quad* turned, const double* rest,
    const double* discounts, const double* rhs, const double* guess, const double* length,
    const double* weights, double* memory, double* own_length, double* out, int* status,
    int* products) {
  Scratch scratch = {0};
  int n = (int)n_live;
  double* doubles = memory + BLOCK_AT * (SIZE * DOUBLES + SIZE * SINGLES / 2);
  Memory own = {doubles, doubles + DOUBLES * SIZE, n};
  Vectors v = vectors_of(own);
  Matrix m = {{first, quads, order, column, (int)n_quads}, 0, 0};
  if (position) turned += BLOCK_AT * 2 * n_quads * THREADS;
  i64 groups = (n_draws + WARP - 1) / WARP;
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
    i64 places = d * n_from * THREADS, group = d / WARP, lane = d % WARP;
    fetch(m, high + places, low + places, (int)n_from, position, turned);
    EACH_STATE(i) {
      v.rest[i] = rest[(group * n + i) * WARP + lane];
      v.w[i] = own_length && continues && !position ? own_length[d * n + i] : length[i];
    }
    int used = 0;
    bool good = true;
    for (int k = 0; k < n_systems && good; k++) {
      i64 from = (k * groups + group) * n;
      EACH_STATE(i) {
        v.b[i] = position ? rhs[i] : rhs[(from + i) * WARP + lane];
        v.x[i] = guess[k * n_states + i];
      }
      good = solve_system(m, discounts[k], own, scratch, loose, &used);
      double* x = out + (k * groups + group) * n_states * WARP + lane;
      for (int s = THREAD; s < n_states; s += THREADS)
        x[s * WARP] = s < n ? k < n_squares ? fmax(v.x[s], 0.0) : v.x[s] : 0.0;
      SYNC();
    }
    if (own_length) EACH_STATE(i) own_length[d * n + i] = v.w[i];
    if (THREAD == 0) {
      status[d] = good ? SOLVED : UNSOLVED;
      products[d] = (continues ? products[d] : 0) + used;
    }
  }
}
