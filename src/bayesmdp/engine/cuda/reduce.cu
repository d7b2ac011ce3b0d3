// Sums over the draws of a block of the result, as in `bayesmdp.engine._reduce`. A lane
// works on a draw.

#define NUMBER (BLOCK_AT * WARPS + WARP_AT)  // of a warp
#define UNIT (WARP > BLOCK_OF_DRAWS ? WARP : BLOCK_OF_DRAWS)  // draws of a warp
#define LANES_OF_BLOCK (WARP < BLOCK_OF_DRAWS ? WARP : BLOCK_OF_DRAWS)

// Add the lanes of a block, and write down the sum; `out` is that of block 0.
DEVICE void write_sum(double x, i64 unit, i64 n_draws, i64 size, double* out) {
  x = group_sum<LANES_OF_BLOCK>(x);
  i64 d = unit * UNIT + LANE;
  if (LANE % LANES_OF_BLOCK == 0 && d < n_draws) out[d / BLOCK_OF_DRAWS * size] = x;
}

#define EACH_DRAW(unit, d)                                                           \
  for (i64 d = (unit) * UNIT + LANE; d < ((unit) + 1) * UNIT && d < n_draws; d += WARP)

// Channels of states [B, C, S]; those that are not wanted have no place. A warp works on
// a state.
KERNEL reduce_states(i64 n_draws, i64 n_states, i64 n_live, i64 n_channels, i64 variances,
                     i64 occupancies, i64 controls, const double* value,
                     const double* variance, const double* occupancy, const double* y,
                     const double* z, const double* reference, i64 reference_stride,
                     const double* weights, const int* status, double* out) {
  i64 unit = NUMBER / n_states, s = NUMBER % n_states;
  if (unit * UNIT >= n_draws) return;
  double sum[17];
  for (int c = 0; c < 17; c++) sum[c] = 0.0;
  double bar_v = reference[s], bar_r = reference[reference_stride + s];
  double bar_d = reference[2 * reference_stride + s];
  EACH_DRAW(unit, d) {
    if (status[d] != SOLVED) continue;
    i64 at = AT(d / WARP, n_states, s);
    double w = weights[d], v = value[at] - bar_v, square = v * v;
    sum[0] += w * v;
    sum[1] += w * square;
    sum[2] += w * square * v;
    sum[3] += w * square * square;
    if (variances) {
      double r = variance[at] - bar_r;
      sum[4] += w * r;
      sum[5] += w * r * r;
      sum[6] += w * v * r;
      sum[7] += w * v * v * r;
    }
    if (occupancies) {
      double visits = occupancy[at] - bar_d;
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
    if (c < n_channels)
      write_sum(sum[c], unit, n_draws, n_channels * n_states, out + c * n_states + s);
}

// Sums of slopes d (Q - V) and of their squares [B, 2, R]. A row that was not sampled
// has its mean. A warp works on a row.
KERNEL add_slopes(i64 n_draws, i64 n_rows, i64 n_states, i64 n_entries,
                  const double* theta, const double* mean, const unsigned char* sampled,
                  const i64* indptr, const u32* target, const i64* source,
                  const double* reward, i64 reward_stride, double g, const double* value,
                  const double* occupancy, const double* weights, const int* status,
                  double* out) {
  i64 unit = NUMBER / n_rows, row = NUMBER % n_rows, s = source[row];
  if (unit * UNIT >= n_draws) return;
  double sum = 0.0, squares = 0.0;
  EACH_DRAW(unit, d) {
    i64 group = d / WARP;
    const double* paid = reward + d * reward_stride;
    double q = 0.0;
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (i64 e = indptr[row]; e < indptr[row + 1]; e++) {
      double likely = sampled[row] ? theta[AT(group, n_entries, e)] : mean[e];
      q += likely * (paid[e] + g * value[AT(group, n_states, (i64)target[e])]);
    }
    if (status[d] != SOLVED) continue;
    i64 at = AT(group, n_states, s);
    double gain = weights[d] * occupancy[at] * (q - value[at]);
    sum += gain;
    squares += gain * gain;
  }
  write_sum(sum, unit, n_draws, 2 * n_rows, out + row);
  write_sum(squares, unit, n_draws, 2 * n_rows, out + n_rows + row);
}

// out[d, s] = sum_a pi sum_t (theta - theta_bar) (paid r + g x[t]) over live states;
// x is of all draws (stride 0) or of each, over the first `known` states. A warp works on
// a state.
KERNEL deviate(i64 n_draws, i64 n_live, i64 n_entries, const double* theta,
               const double* mean, const int* first_row, const i64* indptr,
               const u32* target, const double* pi, const double* reward,
               i64 reward_stride, double paid, double g, const double* x, i64 x_stride,
               i64 known, double* out) {
  i64 group = NUMBER / n_live, s = NUMBER % n_live, d = group * WARP + LANE;
  if (d >= n_draws) return;
  const double *r = reward + d * reward_stride, *of = x + d * x_stride;
  double total = 0.0;
  for (int row = first_row[s]; row < first_row[s + 1]; row++) {
    double share = pi[row], sum = 0.0;
    if (!(share > 0.0)) continue;
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (i64 e = indptr[row]; e < indptr[row + 1]; e++) {
      double ahead = target[e] < known ? of[target[e]] : 0.0;
      sum += (theta[AT(group, n_entries, e)] - mean[e]) * (paid * r[e] + g * ahead);
    }
    total += share * sum;
  }
  out[d * n_live + s] = total;
}

// out[d] = sum_s weight[s] x[d, s], one warp per draw.
KERNEL weigh(i64 n_draws, i64 n, const double* weight, const double* x, double* out) {
  i64 d = NUMBER;
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
