/* warp.cuh - 32 lanes in step: on a GPU the threads of a warp, on a CPU loops over arrays.
 *
 * Kernels are written once. A value that differs from lane to lane is a lanes<T>; a plain scalar is
 * the same in all lanes (uniform). On a GPU lanes<T> is T itself and every function here is an
 * instruction or two. On a CPU lanes<T> is an array of 32. A lanes<bool> is no condition, so a
 * branch on a lane's own value does not compile: branch on some(), every() or votes(), and choose
 * between values with select(). All 32 lanes are always there. A build of the kernels for a CPU, as
 * in the tests, has a <warp_host.cuh> on its include path.
 *
 * The CPU build also checks the synchronisation that a GPU needs: shared<T> remembers who touched
 * which byte since when. Code that only works because lanes happen to run in step, or warps one
 * after another, ends the process with a message. So does an access outside of a block's shared
 * memory. Global memory is plain pointers, which the sanitizers watch.
 *
 * A kernel is a class with `n_phases` and
 *     template <int phase> static PSTI_LANES void run(const block &b, const Args &args);
 * that each warp of a block runs. Between phases all warps of the block meet. Data that must
 * survive from phase to phase lies in shared memory. */
#ifndef PST_GPU_WARP_CUH
#define PST_GPU_WARP_CUH

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PSTI_LANES __device__ __forceinline__
#else /* not always_inline: C++ compilers are slow if a large kernel is a single function */
#define PSTI_LANES inline
#endif
#define PSTI_WARP 32u
#define PSTI_ALL_LANES 0xffffffffu

namespace psti
{

/* The type that a register holds for a value of type T in memory. */
template <class T> struct wide_of {
    typedef T type;
};
template <> struct wide_of<uint8_t> {
    typedef uint32_t type;
};
template <> struct wide_of<uint16_t> {
    typedef uint32_t type;
};
template <> struct wide_of<int8_t> {
    typedef int32_t type;
};
template <> struct wide_of<int16_t> {
    typedef int32_t type;
};
template <class T> using wide = typename wide_of<T>::type;

} // namespace psti

#ifdef __CUDACC__
#include "gpu/kernels/warp_device.cuh"
#else
#include <warp_host.cuh>
#endif

namespace psti
{

typedef lanes<uint32_t> lane_u32;
typedef lanes<int32_t> lane_i32;
typedef lanes<int64_t> lane_i64;
typedef lanes<float> lane_f32;
typedef lanes<double> lane_f64;
typedef lanes<bool> lane_bool;

/* The position of a warp in the launch, and the shared memory of its block. */
struct block {
    uint32_t index; /* number of the block in the grid */
    uint32_t n_blocks;
    uint32_t warp;          /* number of this warp in the block */
    uint32_t n_warps;       /* warps of the block */
    shared<uint8_t> memory; /* dynamic shared memory, aligned to 128 */
};

/* Returns a part of the block's shared memory as an array of n elements T. `offset` is in bytes and
 * a multiple of T's alignment. */
template <class T> PSTI_LANES shared<T> shared_at(const block &b, uint32_t offset)
{
    return shared_cast<T>(b.memory, offset);
}

/* Returns a bit mask of the lanes with lower numbers than this lane. */
PSTI_LANES lane_u32 mask_below() { return (lane_u32(1) << lane_id()) - lane_u32(1); }

/* These functions return sums over lanes: up to and including the own lane; below the own lane;
 * over all lanes (uniform). */
PSTI_LANES lane_u32 scan_add(lane_u32 v)
{
    for (uint32_t d = 1; d < PSTI_WARP; d *= 2)
        v = v + select(lane_id() >= lane_u32(d), shift_up(v, d), lane_u32(0));
    return v;
}
PSTI_LANES lane_u32 scan_add_below(lane_u32 v) { return scan_add(v) - v; }
PSTI_LANES uint32_t reduce_add(lane_u32 v) { return lane_of(scan_add(v), PSTI_WARP - 1); }
PSTI_LANES uint32_t reduce_max(lane_u32 v)
{
    for (uint32_t d = 1; d < PSTI_WARP; d *= 2) {
        lane_u32 other = shuffle(v, lane_id() ^ lane_u32(d));
        v = select(other > v, other, v);
    }
    return lane_of(v, 0);
}

} // namespace psti

#endif
