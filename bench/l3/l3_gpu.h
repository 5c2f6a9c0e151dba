/* l3_gpu.h - what the kernel l3_decode_tiles gets. Addresses are those of the GPU. */
#ifndef PST_BENCH_L3_GPU_H
#define PST_BENCH_L3_GPU_H

#include <stdint.h>

/* Tiles of a block, a warp each. */
#define L3_GPU_WARPS 4

struct l3_gpu_image {
    uint64_t coded;    /* first byte of the image's L3 */
    uint64_t pixels;   /* u8 (H,W,3) without gaps, which the kernel writes */
    uint64_t is_wrong; /* u32; becomes 1 if the bytes are corrupt */
    uint32_t width, height, edge, n_across;
};

/* The places of a tile's three channels in the image's bytes: the prefix sum over the tables, which
 * L3 leaves to the CPU. */
struct l3_gpu_tile {
    uint32_t i_image, i_tile;
    uint32_t begin[3], nbytes[3];
};

struct l3_gpu_args {
    uint64_t images, tiles; /* arrays of the structs above */
    uint32_t first_tile, n_tiles;
};

#endif
