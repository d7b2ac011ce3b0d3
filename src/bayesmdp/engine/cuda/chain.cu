// The chains of draws, right-hand sides of their systems, and what follows from solutions.
// A warp works on a state of a draw: a multiprocessor has many at once, so that while some
// wait for memory others go on.

#define WARPS_OF_BLOCK (WARP > 1 ? 8 : 1)
#define ROOM 160  // slots of a state that a warp adds up together
#define AHEAD 4   // entries that a lane reads at once
#define NOWHERE ~0u
#define IS_DIAGONAL 1u
#define IS_PAID 2u

// Rows of the belief. Those of a state follow each other; entries with the same state
// and next state share a slot, and slots of a state follow each other, too.
struct Rows {
  const int *first_row, *first_slot;  // [n + 1]
  const i64* indptr;                  // [R + 1]
  const u32 *row, *mark;              // [E]; mark: slot within the state, and two bits
  const double* pi;                   // [R]
};

// Call `each(entry, row, flow)` for the entries of a state, those of all lanes together;
// row is NOWHERE for a lane that has none.
template <class Each>
DEVICE void for_entries(const Rows& rows, const double* theta, int s, Each each) {
  i64 first = rows.indptr[rows.first_row[s]], last = rows.indptr[rows.first_row[s + 1]];
  for (i64 chunk = first; chunk < last; chunk += AHEAD * WARP) {
    u32 row[AHEAD];
    double flow[AHEAD];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int k = 0; k < AHEAD; k++) {
      i64 e = chunk + k * WARP + LANE;
      row[k] = e < last ? rows.row[e] : NOWHERE;
      flow[k] = e < last ? theta[e] : 0.0;
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int k = 0; k < AHEAD; k++) {
      double share = row[k] == NOWHERE ? 0.0 : rows.pi[row[k]];
      flow[k] = share > 0.0 ? share * flow[k] : 0.0;  // others may not be sampled
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int k = 0; k < AHEAD; k++)
      if (chunk + k * WARP < last) each(chunk + k * WARP + LANE, row[k], flow[k]);
  }
}

DEVICE bool state_of(i64 n_draws, i64 n, i64* d, int* s) {
  i64 at = BLOCK_AT * WARPS + WARP_AT;
  *d = at / n;
  *s = (int)(at % n);
  return *d < n_draws;
}

// What is not finite would spoil other draws, which find it in places that they do not
// use; the sums of its row tell that its own draw has no solution.
DEVICE void keep(i64 at, double total, float* high, float* low) {
  if (!(fabs(total) < infinity())) total = 0.0;
  float top = (float)total;
  high[at] = top;
  low[at] = (float)(total - top);
}

// Chains, [draws, places] each, of live states and of the transpose (where wanted). The
// row of a state has `width` places side by side, and others `pitch` on. Besides,
// rows' sums off the diagonal, [draws, n], and expected rewards, [rewards, draws, n].
KERNEL fill_chains(i64 n_draws, i64 n, i64 n_entries, i64 n_rewards, i64 adjoint,
                   i64 places, i64 back_places, i64 reward_stride, const int* first_row,
                   const int* first_slot, const i64* indptr, const u32* row,
                   const u32* mark, i64 width, i64 pitch, const int* first_at,
                   const u32* slot_at, const int* place_at, const u32* back_place,
                   const double* pi, const double* theta, const double* reward,
                   const double* weights, float* high, float* low, float* back_high,
                   float* back_low, double* rest, double* expected) {
  SHARE(double, rooms, WARPS_OF_BLOCK * ROOM);
  double* sums = rooms + WARP_AT * ROOM;
  i64 d;
  int s;
  if (!state_of(n_draws, n, &d, &s) || weights[d] == 0.0) return;
  Rows rows = {first_row, first_slot, indptr, row, mark, pi};
  const double* own = theta + d * n_entries;
  const double* paid_for = reward + d * reward_stride;
  high += d * places, low += d * places;
  back_high += d * back_places, back_low += d * back_places;
  int slot = first_slot[s], n_slots = first_slot[s + 1] - slot;
  double off = 0.0, paid = 0.0;
  for (int begin = 0; begin < n_slots; begin += ROOM) {
    int end = n_slots < begin + ROOM ? n_slots : begin + ROOM;
    for (int k = begin + LANE; k < end; k += WARP) sums[k - begin] = 0.0;
    SYNC_WARP();
    for_entries(rows, own, s, [&](i64 e, u32 row_of, double flow) {
      bool there = row_of != NOWHERE;
      u32 bits = there ? rows.mark[e] : 0;
      int at = (int)(bits >> 2);
      if (begin == 0 && there) {
        if (bits & IS_PAID) paid += flow * paid_for[e];
        if (!(bits & IS_DIAGONAL)) off += flow;
      }
      bool mine = there && begin <= at && at < end;
#ifdef __CUDACC__
      // rows that meet in one slot take turns; their numbers follow each other
      u32 low_row = __reduce_min_sync(~0u, row_of);
      u32 top_row = __reduce_max_sync(~0u, row_of + 1) - 1;
      for (u32 turn = low_row; turn <= top_row; turn++) {
        if (mine && row_of == turn) sums[at - begin] += flow;
        SYNC_WARP();
      }
#else
      if (mine) sums[at - begin] += flow;
#endif
    });
    // in the order of places, so that what is written lies side by side
    for (int j = LANE; j < first_at[s + 1] - first_at[s]; j += WARP) {
      u32 k = slot_at[first_at[s] + j];
      i64 at = place_at[s] + j / width * pitch + j % width;
      if (k == NOWHERE && begin == 0) keep(at, 0.0, high, low);
      if ((u32)begin <= k && k < (u32)end) keep(at, sums[k - begin], high, low);
    }
    for (int k = begin + LANE; k < end && adjoint; k += WARP)
      if (back_place[slot + k] != NOWHERE)
        keep(back_place[slot + k], sums[k - begin], back_high, back_low);
    SYNC_WARP();
  }
  off = group_sum<WARP>(off);
  paid = group_sum<WARP>(paid);
  if (LANE == 0) {
    rest[d * n + s] = off;
    expected[d * n + s] = paid;
  }
  for (int k = 1; k < n_rewards; k++) {
    paid = 0.0;
    for_entries(rows, own, s, [&](i64 e, u32 row_of, double flow) {
      if (row_of != NOWHERE) paid += flow * paid_for[k * n_entries + e];
    });
    paid = group_sum<WARP>(paid);
    if (LANE == 0) expected[(k * n_draws + d) * n + s] = paid;
  }
}

// out[d, s] = sum_a pi sum_t theta x y with x = r + g V[t] - V[s], and y its like.
KERNEL spread(i64 n_draws, i64 n, i64 n_states, i64 n_entries, i64 reward_stride,
              const int* first_row, const i64* indptr, const u32* row, const u32* target,
              const double* pi, const double* theta, const double* weights,
              const int* status, const double* reward_x, double g_x, const double* value_x,
              const double* reward_y, double g_y, const double* value_y, double* out) {
  i64 d;
  int s;
  if (!state_of(n_draws, n, &d, &s) || status[d] != SOLVED) return;
  Rows rows = {first_row, 0, indptr, row, 0, pi};
  const double *r_x = reward_x + d * reward_stride, *r_y = reward_y + d * reward_stride;
  const double *x = value_x + d * n_states, *y = value_y + d * n_states;
  double total = 0.0, here_x = x[s], here_y = y[s];
  for_entries(rows, theta + d * n_entries, s, [&](i64 e, u32 row_of, double flow) {
    if (row_of == NOWHERE) return;
    u32 t = target[e];
    double one = r_x[e] + g_x * x[t] - here_x;
    double two = r_y[e] + g_y * y[t] - here_y;
    total += flow * one * two;
  });
  total = group_sum<WARP>(total);
  if (LANE == 0) out[d * n + s] = total;
}

// Visits of terminal states: discounted arrivals, and starts there.
KERNEL arrive(i64 n_draws, i64 n, i64 n_states, i64 n_entries, double g, const u32* at,
              const u32* entry, const u32* row, const i64* source, const double* pi,
              const double* theta, const double* start, const int* status,
              double* visits) {
  i64 n_ends = n_states - n, warp = BLOCK_AT * WARPS + WARP_AT;
  i64 d = warp / n_ends, s = warp % n_ends;
  if (d >= n_draws || status[d] != SOLVED) return;
  const double* own = theta + d * n_entries;
  double* x = visits + d * n_states;
  double total = 0.0;
  for (u32 k = at[s] + LANE; k < at[s + 1]; k += WARP) {
    u32 e = entry[k];
    double share = pi[row[e]];
    if (share > 0.0) total += share * own[e] * x[source[row[e]]];
  }
  total = group_sum<WARP>(total);
  if (LANE == 0) x[n + s] = start[n + s] + g * total;
}

// Covariance from the start of two returns, whose covariance from each state is given;
// their means, where `out_mean` is wanted for the first.
KERNEL from_start(i64 n_draws, i64 n_states, i64 ends_stride, const double* start,
                  const double* x, const double* ends_x, const double* y,
                  const double* ends_y, i64 spreads, const double* covariance,
                  const int* status, double* out_mean, double* out) {
  i64 d = BLOCK_AT * WARPS + WARP_AT;
  if (d >= n_draws) return;
  bool good = status[d] == SOLVED;
  x += d * n_states, y += d * n_states, covariance += spreads ? d * n_states : 0;
  ends_x += d * ends_stride, ends_y += d * ends_stride;
  double mean_x = 0.0, mean_y = 0.0, total = 0.0;
  for (i64 s = LANE; s < n_states && good; s += WARP) {
    mean_x += start[s] * (x[s] + ends_x[s]);
    mean_y += start[s] * (y[s] + ends_y[s]);
  }
  mean_x = group_sum<WARP>(mean_x);
  mean_y = group_sum<WARP>(mean_y);
  for (i64 s = LANE; s < n_states && good && spreads; s += WARP)
    total += start[s] * (covariance[s] + (x[s] + ends_x[s] - mean_x) *
                                             (y[s] + ends_y[s] - mean_y));
  total = group_sum<WARP>(total);
  if (LANE == 0) {
    if (!spreads) out_mean[d] = mean_x;
    else out[d] = total;
  }
}
