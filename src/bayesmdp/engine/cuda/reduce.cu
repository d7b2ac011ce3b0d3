// Sums over the draws of a block, in their order, as in `bayesmdp.engine._reduce`.

#ifdef __CUDACC__
#define GROUP 8  // lanes for a row
#else
#define GROUP 1
#endif

// Channels of states [B, C, S]; those that are not wanted have no place.
KERNEL reduce_states(i64 n_draws, i64 n_states, i64 n_live, i64 n_channels, i64 variances,
                     i64 occupancies, i64 controls, const double* value,
                     const double* variance, const double* occupancy, const double* y,
                     const double* z, const double* reference, i64 reference_stride,
                     const double* weights, const int* status, double* out) {
  i64 b = BLOCK_AT, first = b * BLOCK_OF_DRAWS;
  i64 last = first + BLOCK_OF_DRAWS < n_draws ? first + BLOCK_OF_DRAWS : n_draws;
  for (i64 s = THREAD; s < n_states; s += THREADS) {
    double sum[17];
    for (int c = 0; c < 17; c++) sum[c] = 0.0;
    double bar_v = reference[s], bar_r = reference[reference_stride + s];
    double bar_d = reference[2 * reference_stride + s];
    for (i64 d = first; d < last; d++) {
      if (status[d] != SOLVED) continue;
      double w = weights[d], v = value[d * n_states + s] - bar_v, square = v * v;
      sum[0] += w * v;
      sum[1] += w * square;
      sum[2] += w * square * v;
      sum[3] += w * square * square;
      if (variances) {
        double r = variance[d * n_states + s] - bar_r;
        sum[4] += w * r;
        sum[5] += w * r * r;
        sum[6] += w * v * r;
        sum[7] += w * v * v * r;
      }
      if (occupancies) {
        double visits = occupancy[d * n_states + s] - bar_d;
        sum[8] += w * visits;
        sum[9] += w * visits * visits;
      }
      if (controls && s < n_live) {
        double one = y[d * n_live + s], two = z[d * n_live + s];
        sum[10] += w * one;
        sum[11] += w * one * one;
        sum[12] += w * two;
        sum[13] += w * two * two;
        sum[14] += w * v * one;
        sum[15] += w * v * two;
        sum[16] += w * one * two;
      }
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int c = 0; c < 17; c++)
      if (c < n_channels) out[(b * n_channels + c) * n_states + s] = sum[c];
  }
}

// Sums of slopes d (Q - V) and of their squares [B, 2, R]. A row that was not sampled
// has its mean.
KERNEL add_slopes(i64 n_draws, i64 n_rows, i64 rows_each, i64 n_states, i64 n_entries,
                  const double* theta, const double* mean, const unsigned char* sampled,
                  const i64* indptr, const u32* target, const i64* source,
                  const double* reward, i64 reward_stride, double g, const double* value,
                  const double* occupancy, const double* weights, const int* status,
                  double* out) {
  i64 parts = (n_rows + rows_each - 1) / rows_each;
  i64 b = BLOCK_AT / parts, begin = BLOCK_AT % parts * rows_each;
  i64 first = b * BLOCK_OF_DRAWS;
  i64 last = first + BLOCK_OF_DRAWS < n_draws ? first + BLOCK_OF_DRAWS : n_draws;
  for (i64 k = THREAD / GROUP; k < rows_each; k += THREADS / GROUP) {
    i64 row = begin + k;
    bool there = row < n_rows;
    i64 from = there ? indptr[row] : 0, to = there ? indptr[row + 1] : 0;
    i64 s = there ? source[row] : 0;
    bool own = there && sampled[row];
    double sum = 0.0, square = 0.0;
    for (i64 d = first; d < last; d++) {
      if (status[d] != SOLVED) continue;
      const double* row_of = own ? theta + d * n_entries : mean;
      const double *paid = reward + d * reward_stride, *V = value + d * n_states;
      double q = 0.0;
      for (i64 e = from + THREAD % GROUP; e < to; e += GROUP)
        q += row_of[e] * (paid[e] + g * V[target[e]]);
      q = group_sum<GROUP>(q);
      double gain = weights[d] * occupancy[d * n_states + s] * (q - V[s]);
      sum += gain;
      square += gain * gain;
    }
    if (there && THREAD % GROUP == 0) {
      out[2 * b * n_rows + row] = sum;
      out[(2 * b + 1) * n_rows + row] = square;
    }
  }
}

// out[d, s] = sum_a pi sum_t (theta - theta_bar) (paid r + g x[t]) over live states;
// x is of all draws (stride 0) or of each, over the first `known` states.
KERNEL deviate(i64 n_draws, i64 n_live, i64 n_entries, const double* theta,
               const double* mean, const int* first_row, const i64* indptr,
               const u32* target, const double* pi, const double* reward,
               i64 reward_stride, double paid, double g, const double* x, i64 x_stride,
               i64 known, double* out) {
  i64 groups = n_draws * n_live;
  i64 at = (BLOCK_AT * THREADS + THREAD) / GROUP;
  bool there = at < groups;
  i64 d = there ? at / n_live : 0, s = there ? at % n_live : 0;
  double total = 0.0;
  if (there) {
    const double *own = theta + d * n_entries, *r = reward + d * reward_stride;
    const double* of = x + d * x_stride;
    for (int row = first_row[s]; row < first_row[s + 1]; row++) {
      double share = pi[row], sum = 0.0;
      if (!(share > 0.0)) continue;
      for (i64 e = indptr[row] + THREAD % GROUP; e < indptr[row + 1]; e += GROUP) {
        double ahead = target[e] < known ? of[target[e]] : 0.0;
        sum += (own[e] - mean[e]) * (paid * r[e] + g * ahead);
      }
      total += share * sum;
    }
  }
  total = group_sum<GROUP>(total);
  if (there && THREAD % GROUP == 0) out[at] = total;
}

// out[d] = sum_s weight[s] x[d, s], one warp per draw.
KERNEL weigh(i64 n_draws, i64 n, const double* weight, const double* x, double* out) {
  i64 d = BLOCK_AT * WARPS + WARP_AT;
  double total = 0.0;
  if (d < n_draws)
    for (i64 s = LANE; s < n; s += WARP) total += weight[s] * x[d * n + s];
  total = group_sum<WARP>(total);
  if (d < n_draws && LANE == 0) out[d] = total;
}

// Sum `n_blocks` neighbouring blocks, a power of two of them, as a binary tree:
// out[p, c] from in[p, first + b, c].
KERNEL add_tree(i64 n_out, i64 size, i64 n_of_all, i64 first, i64 n_blocks,
                const double* in, double* out) {
  i64 k = BLOCK_AT * THREADS + THREAD;
  if (k >= n_out) return;
  const double* of = in + (k / size * n_of_all + first) * size + k % size;
  double held[64];
  int height = 0;
  for (i64 b = 0; b < n_blocks; b++) {
    double x = of[b * size];
    for (i64 level = b; level & 1; level >>= 1) x = held[--height] + x;
    held[height++] = x;
  }
  out[k] = held[0];
}
