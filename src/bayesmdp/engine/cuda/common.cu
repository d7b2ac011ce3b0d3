// What device and host code share. The same source is compiled for a GPU, where a block
// of threads works on a draw, and for a CPU, where that block has a single thread: its
// arithmetic is then tested without a GPU.

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
#define DEVICE __device__ __forceinline__
#define MEMBER __device__ __forceinline__
#define RARELY __device__ __noinline__  // once in the code: it compiles in a third of the time
#define WARP 32
#define THREAD ((int)threadIdx.x)
#ifdef MAX_THREADS
#define THREADS MAX_THREADS  // a constant: places are then known
#else
#define THREADS ((int)blockDim.x)
#endif
#define BLOCK_AT ((i64)blockIdx.x)
#define BLOCKS ((i64)gridDim.x)
#define SYNC() __syncthreads()
#define SYNC_WARP() __syncwarp()
#define SHARED_MEMORY(name) extern __shared__ double name[]
#define SHARE(type, name, size) __shared__ type name[size]
#define LIMIT(threads, blocks) __launch_bounds__(threads, blocks)
#else
#include <cmath>
#include <limits>
using std::fabs; using ::fabsf; using std::exp; using std::log; using std::log1p; using std::sqrt;
using std::copysign; using std::fmax; using std::fmin;
#define KERNEL extern "C" void
#define DEVICE static inline
#define MEMBER inline
#define RARELY static
#define WARP 1
#define THREAD 0
#define THREADS 1
static i64 host_block, host_blocks;
extern "C" void set_block(i64 block, i64 blocks) { host_block = block; host_blocks = blocks; }
static double host_shared[1 << 22];
#define BLOCK_AT host_block
#define BLOCKS host_blocks
#define SYNC()
#define SYNC_WARP()
#define SHARED_MEMORY(name) double* name = host_shared
#define SHARE(type, name, size) static type name[size]
#define LIMIT(threads, blocks)
#endif

enum { LEFT_OUT, SOLVED, ENDLESS_CHAIN, UNSOLVED };  // as in `_solve`

#define LANE (THREAD % WARP)
#define WARP_AT (THREAD / WARP)
#define WARPS ((THREADS + WARP - 1) / WARP)

DEVICE double infinity() {
#ifdef __CUDACC__
  return __longlong_as_double(0x7ff0000000000000LL);
#else
  return std::numeric_limits<double>::infinity();
#endif
}

// Rows of draws, and vectors over states, lie in groups of as many draws as a warp has
// lanes, [groups, length, lanes]: each lane works on a draw of its own, all take the same
// way, and what they read lies side by side.
#define AT(group, length, i) (((group) * (length) + (i)) * WARP + LANE)

template <class T>
DEVICE T from_lane(T x, int lane) {
#ifdef __CUDACC__
  return __shfl_sync(~0u, x, lane);
#else
  return x;
#endif
}

// Sum over a group of neighbouring lanes, the same bits in each of them.
template <int N, class T>
DEVICE T group_sum(T x) {
#ifdef __CUDACC__
#pragma unroll
  for (int gap = N / 2; gap > 0; gap /= 2) x += __shfl_xor_sync(~0u, x, gap);
#endif
  return x;
}

// The larger of two; what is not a number stays.
template <class T>
DEVICE T larger(T x, T most) {
  return x > most || x != x ? x : most;
}

// Sums and largest values over a block, in a fixed order. Two buffers take turns, so
// that one barrier is enough.
struct Scratch {
  int turn;
};
#define MOST_SUMS 5  // at once
SHARE(double, reduced, 2 * 32 * MOST_SUMS);

template <int SUMS, int MOST, class T>
DEVICE void reduce_block(Scratch& scratch, T* sums, T* most) {
#ifdef __CUDACC__
  T* at = (T*)(reduced + 32 * MOST_SUMS * scratch.turn);
  scratch.turn ^= 1;
#pragma unroll
  for (int gap = 16; gap > 0; gap /= 2) {
#pragma unroll
    for (int k = 0; k < SUMS; k++) sums[k] += __shfl_xor_sync(~0u, sums[k], gap);
#pragma unroll
    for (int k = 0; k < MOST; k++)
      most[k] = larger(__shfl_xor_sync(~0u, most[k], gap), most[k]);
  }
  if (LANE == 0) {
#pragma unroll
    for (int k = 0; k < SUMS; k++) at[32 * k + WARP_AT] = sums[k];
#pragma unroll
    for (int k = 0; k < MOST; k++) at[32 * (SUMS + k) + WARP_AT] = most[k];
  }
  SYNC();
  if (THREADS <= 32) return;
  int from = WARPS > 16 ? LANE : LANE % 16;  // half a warp is enough for 16
  bool there = from < WARPS;
#pragma unroll
  for (int k = 0; k < SUMS; k++) sums[k] = there ? at[32 * k + from] : (T)0;
#pragma unroll
  for (int k = 0; k < MOST; k++) most[k] = at[32 * (SUMS + k) + (there ? from : 0)];
#pragma unroll
  for (int gap = WARPS > 16 ? 16 : 8; gap > 0; gap /= 2) {
#pragma unroll
    for (int k = 0; k < SUMS; k++) sums[k] += __shfl_xor_sync(~0u, sums[k], gap);
#pragma unroll
    for (int k = 0; k < MOST; k++)
      most[k] = larger(__shfl_xor_sync(~0u, most[k], gap), most[k]);
  }
#endif
}
