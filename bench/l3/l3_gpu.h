/* l3_gpu.h - the arguments of the kernel l3_decode_tiles. Addresses are addresses on the GPU. */
#ifndef PST_BENCH_L3_GPU_H
#define PST_BENCH_L3_GPU_H

#include <stdint.h>

/* Tiles that a block decodes: one for each of its warps. */
#define L3_GPU_WARPS 4

struct l3_gpu_image {
    uint64_t coded;    /* first byte of the image's L3 */
    uint64_t pixels;   /* u8 (H,W,3) without gaps, which the kernel writes */
    uint64_t is_wrong; /* u32; becomes 1 if the bytes are corrupt */
    uint32_t width, height, edge, n_across;
};

/* Offsets of a tile's three channels in the image's bytes. They are a prefix sum over L3's tables,
 * which the CPU computes. */
struct l3_gpu_tile {
    uint32_t i_image, i_tile;
    uint32_t begin[3], nbytes[3];
};

struct l3_gpu_args {
    uint64_t images, tiles; /* addresses of arrays of l3_gpu_image and l3_gpu_tile */
    uint32_t first_tile, n_tiles;
};

#endif
