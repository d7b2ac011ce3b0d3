// The chains of draws, right-hand sides of their systems, and what follows from solutions.
// A lane works on a draw.

#define AT_ONCE 8  // numbers that a lane reads at once
#ifdef __CUDACC__
#define WARPS_OF_BLOCK 4
#define MOST_WARPS 16  // of blocks that add up
#else
#define WARPS_OF_BLOCK 1
#define MOST_WARPS 1
#endif

// How likely an entry is; those that the policy does not take may not be sampled. It is
// read in any case: a condition would have reads wait for each other.
DEVICE double flow(double share, const double* theta, i64 at) {
  double likely = theta[at];
  return share > 0.0 ? share * likely : 0.0;
}

#define NUMBER (BLOCK_AT * WARPS + WARP_AT)  // of a warp

// Chains [draws, places]: a warp works on as many places as it has lanes, which it turns
// at the end, so that those of a draw are written side by side. What is not finite reaches
// the products that look for weights, which then bound no errors.
KERNEL fill_chains(i64 n_draws, i64 n_entries, i64 n_places, const u32* begin,
                   const u32* entry, const unsigned char* place, const double* share,
                   const double* theta, float* high, float* low) {
  SHARE(double, tiles, WARPS_OF_BLOCK * WARP * (WARP + 1));
  double* tile = tiles + WARP_AT * WARP * (WARP + 1);
  i64 n_parts = n_places / WARP, group = NUMBER / n_parts, part = NUMBER % n_parts;
  if (group * WARP >= n_draws) return;
  for (int k = 0; k < WARP; k++) tile[k * (WARP + 1) + LANE] = 0.0;
  u32 last = begin[part + 1];
  for (u32 first = begin[part]; first < last; first += WARP) {
    bool there = first + LANE < last;
    u32 own = there ? entry[first + LANE] : 0, own_place = there ? place[first + LANE] : 0;
    double own_share = there ? share[first + LANE] : 0.0;
    int n = last - first < WARP ? (int)(last - first) : WARP;
    for (int k = 0; k < n; k += AT_ONCE) {
      double x[AT_ONCE];
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int j = 0; j < AT_ONCE; j++) {
        int lane = (k + j) % WARP;
        i64 at = AT(group, n_entries, (i64)from_lane(own, lane));
        x[j] = flow(from_lane(own_share, lane), theta, at);
      }
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int j = 0; j < AT_ONCE; j++)
        if (k + j < n)
          tile[from_lane(own_place, (k + j) % WARP) * (WARP + 1) + LANE] += x[j];
    }
  }
  SYNC_WARP();
#ifdef __CUDACC__
#pragma unroll 4
#endif
  for (int k = 0; k < WARP; k++) {
    i64 d = group * WARP + k;
    if (d >= n_draws) break;
    double total = tile[LANE * (WARP + 1) + k];
    float top = (float)total;
    high[d * n_places + part * WARP + LANE] = top;
    low[d * n_places + part * WARP + LANE] = (float)(total - top);
  }
}

// Expected rewards [rewards, groups, n, lanes], from entries that are paid for; and sums
// of rows off the diagonal [groups, n, lanes], what entries on it leave. A warp works on
// a state.
KERNEL expect(i64 n_draws, i64 n, i64 n_entries, i64 n_rewards, i64 reward_stride,
              const u32* begin, const u32* entry, const double* share, const u32* target,
              const double* theta, const double* reward, double* rest, double* expected) {
  i64 groups = (n_draws + WARP - 1) / WARP, group = NUMBER / n, s = NUMBER % n;
  if (group >= groups) return;
  i64 d = group * WARP + LANE < n_draws ? group * WARP + LANE : 0;
  for (int r = 0; r < n_rewards; r++) {
    const double* paid = reward + d * reward_stride + r * n_entries;
    double stays = 0.0, total = 0.0;
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (u32 k = begin[s]; k < begin[s + 1]; k++) {
      u32 e = entry[k];
      double x = flow(share[k], theta, AT(group, n_entries, (i64)e));
      if (target[e] == s) stays += x;
      total += x * paid[e];
    }
    expected[AT(r * groups + group, n, s)] = total;
    if (r == 0) rest[AT(group, n, s)] = 1.0 - stays;
  }
}

// out[s] = sum_a pi sum_t theta x y with x = r + g V[t] - V[s], and y its like. A warp
// works on a state.
KERNEL spread(i64 n_draws, i64 n, i64 n_states, i64 n_entries, i64 reward_stride,
              const int* first_row, const i64* indptr, const u32* target,
              const double* pi, const double* theta, const double* reward_x, double g_x,
              const double* value_x, const double* reward_y, double g_y,
              const double* value_y, double* out) {
  i64 group = NUMBER / n, s = NUMBER % n;
  if (group * WARP >= n_draws) return;
  i64 d = group * WARP + LANE < n_draws ? group * WARP + LANE : 0;
  const double *paid_x = reward_x + d * reward_stride, *paid_y = reward_y + d * reward_stride;
  double here_x = value_x[AT(group, n_states, s)], here_y = value_y[AT(group, n_states, s)];
  double total = 0.0;
  for (int row = first_row[s]; row < first_row[s + 1]; row++) {
    double share = pi[row], sum = 0.0;
    if (!(share > 0.0)) continue;
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (i64 e = indptr[row]; e < indptr[row + 1]; e++) {
      i64 t = target[e];
      double one = paid_x[e] + g_x * value_x[AT(group, n_states, t)] - here_x;
      double two = paid_y[e] + g_y * value_y[AT(group, n_states, t)] - here_y;
      sum += theta[AT(group, n_entries, e)] * one * two;
    }
    total += share * sum;
  }
  out[AT(group, n, s)] = total;
}

// Sum over the warps of a block, in their order; the first has it.
DEVICE double over_warps(double x, double* sums) {
  SYNC();
  sums[THREAD] = x;
  SYNC();
  for (int k = 1; k < WARPS; k++) x += sums[k * WARP + LANE];
  return x;
}

// Visits of terminal states: discounted arrivals, and starts there. A block works on one.
KERNEL arrive(i64 n_draws, i64 n, i64 n_states, i64 n_entries, double g, const u32* begin,
              const u32* entry, const double* share, const u32* source,
              const double* theta, const double* start, double* visits) {
  SHARE(double, sums, MOST_WARPS * WARP);
  i64 n_ends = n_states - n, group = BLOCK_AT / n_ends, s = BLOCK_AT % n_ends;
  u32 last = begin[s + 1];
  double total = 0.0;
  for (u32 first = begin[s] + WARP_AT; first < last; first += AT_ONCE * WARPS) {
    double x[AT_ONCE], of[AT_ONCE];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int j = 0; j < AT_ONCE; j++) {
      bool there = first + j * WARPS < last;
      u32 k = there ? first + j * WARPS : first;
      x[j] = flow(there ? share[k] : 0.0, theta, AT(group, n_entries, (i64)entry[k]));
      of[j] = visits[AT(group, n_states, (i64)source[k])];
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int j = 0; j < AT_ONCE; j++) total += x[j] * of[j];
  }
  total = over_warps(total, sums);
  if (WARP_AT == 0) visits[AT(group, n_states, n + s)] = start[n + s] + g * total;
}

// Covariance from the start of two returns, whose covariance from each state is given;
// or, where it is not, the mean of the first. A block works on a group.
KERNEL from_start(i64 n_draws, i64 n_states, i64 ends_stride, const double* start,
                  const double* x, const double* ends_x, const double* y,
                  const double* ends_y, i64 spreads, const double* covariance,
                  const int* status, double* out) {
  SHARE(double, sums, MOST_WARPS * WARP);
  SHARE(double, means, 2 * WARP);
  i64 group = BLOCK_AT, d = group * WARP + LANE;
  bool there = d < n_draws;
  ends_x += there ? d * ends_stride : 0, ends_y += there ? d * ends_stride : 0;
  double mean_x = 0.0, mean_y = 0.0, total = 0.0;
#ifdef __CUDACC__
#pragma unroll 8
#endif
  for (i64 s = WARP_AT; s < n_states; s += WARPS) {
    mean_x += start[s] * (x[AT(group, n_states, s)] + ends_x[s]);
    if (spreads) mean_y += start[s] * (y[AT(group, n_states, s)] + ends_y[s]);
  }
  mean_x = over_warps(mean_x, sums);
  if (spreads) {
    mean_y = over_warps(mean_y, sums);
    if (WARP_AT == 0) means[LANE] = mean_x, means[WARP + LANE] = mean_y;
    SYNC();
    mean_x = means[LANE], mean_y = means[WARP + LANE];
#ifdef __CUDACC__
#pragma unroll 8
#endif
    for (i64 s = WARP_AT; s < n_states; s += WARPS) {
      i64 at = AT(group, n_states, s);
      total += start[s] * (covariance[at] + (x[at] + ends_x[s] - mean_x) *
                                                (y[at] + ends_y[s] - mean_y));
    }
    total = over_warps(total, sums);
  }
  if (WARP_AT == 0 && there)
    out[d] = status[d] != SOLVED ? 0.0 : spreads ? total : mean_x;
}
