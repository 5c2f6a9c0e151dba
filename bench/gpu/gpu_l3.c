/* gpu_l3.c - encodes images as L3, and makes the upload and the launches of a batch.
 *
 * The upload holds marks of corrupt images, the kernel's images and tiles, then the images' bytes,
 * each from a multiple of 16. The CPU computes the offset of every tile by a prefix sum over the
 * tables. This is not timed; nor is the reading of PLI's tables. One thread. */
#include "gpu_l3.h"

#include "gpu_support.h"
#include "l3/l3.h"
#include "l3/l3_gpu.h"

#include <stdlib.h>
#include <string.h>

struct coded {
    uint8_t *bytes;
    size_t nbytes;
    struct l3_info info;
};

struct gpu_l3 {
    struct gpu_l3_options options;
    struct coded *files;
    uint32_t n_launches;              /* number of launches of a batch */
    struct psti_gpu_launch *launches; /* (n_slots, n_launches) */
    struct l3_gpu_args *args;         /* (n_slots, n_launches), too */
};

const char *const gpu_l3_kernel = "l3_decode_tiles";

struct gpu_l3 *gpu_l3_open(const struct gpu_l3_options *options)
{
    struct gpu_l3 *batch = claim(sizeof *batch);
    *batch =
        (struct gpu_l3){.options = *options, .n_launches = options->each ? options->n_rows : 1};
    const size_t n_launches = (size_t)batch->n_launches * options->n_slots;
    batch->files = claim(options->n_files * sizeof *batch->files);
    batch->launches = claim(n_launches * sizeof *batch->launches);
    batch->args = claim(n_launches * sizeof *batch->args);
    memset(batch->files, 0, options->n_files * sizeof *batch->files);
    return batch;
}

void gpu_l3_close(struct gpu_l3 **batch)
{
    if (!*batch)
        return;
    for (uint32_t i = 0; i < (*batch)->options.n_files; i++)
        free((*batch)->files[i].bytes);
    free((*batch)->files);
    free((*batch)->launches);
    free((*batch)->args);
    free(*batch);
    *batch = NULL;
}

void gpu_l3_file(struct gpu_l3 *batch, uint32_t i, const unsigned char *pixels)
{
    const struct gpu_l3_options *options = &batch->options;
    struct coded *coded = &batch->files[i];
    const size_t cap = l3_bound(options->height, options->width, options->edge);
    coded->bytes = claim(cap);
    if (!l3_encode(pixels, (size_t)options->width * L3_CHANNELS, options->height, options->width,
                   options->edge, coded->bytes, cap, &coded->nbytes) ||
        !l3_read(coded->bytes, coded->nbytes, &coded->info))
        fail("L3 does not take an image", NULL);
}

static const struct coded *row_of(const struct gpu_l3 *batch, uint32_t row)
{
    return &batch->files[row % batch->options.n_files];
}

static size_t aligned(size_t nbytes) { return (nbytes + 15) / 16 * 16; }

/* Offsets in bytes from the start of the upload. */
struct places {
    size_t images, tiles, coded;
    uint32_t n_tiles;
};

static struct places places_of(const struct gpu_l3 *batch)
{
    struct places places = {.images = aligned(batch->options.n_rows * sizeof(uint32_t))};
    places.n_tiles = batch->files[0].info.n_tiles * batch->options.n_rows;
    places.tiles = places.images + aligned(batch->options.n_rows * sizeof(struct l3_gpu_image));
    places.coded = places.tiles + aligned(places.n_tiles * sizeof(struct l3_gpu_tile));
    return places;
}

size_t gpu_l3_upload_nbytes(const struct gpu_l3 *batch)
{
    size_t nbytes = places_of(batch).coded;
    for (uint32_t row = 0; row < batch->options.n_rows; row++)
        nbytes += aligned(row_of(batch, row)->nbytes);
    return nbytes;
}

static void place_tiles(const struct coded *coded, uint32_t row, struct l3_gpu_tile *tiles)
{
    uint32_t at = (uint32_t)coded->info.streams;
    for (uint32_t i = 0; i < coded->info.n_tiles; i++) {
        tiles[i].i_image = row;
        tiles[i].i_tile = i;
    }
    for (uint32_t c = 0; c < L3_CHANNELS; c++)
        for (uint32_t i = 0; i < coded->info.n_tiles; i++) {
            tiles[i].begin[c] = at;
            tiles[i].nbytes[c] = l3_tile_nbytes(coded->bytes, &coded->info, c, i);
            at += tiles[i].nbytes[c];
        }
}

static void fill_launches(const struct gpu_l3 *batch, uint64_t upload, const struct places *places,
                          struct l3_gpu_args *args, struct psti_gpu_launch *launches)
{
    const uint32_t n_tiles = places->n_tiles / batch->n_launches;
    for (uint32_t i = 0; i < batch->n_launches; i++) {
        args[i] = (struct l3_gpu_args){.images = upload + places->images,
                                       .tiles = upload + places->tiles,
                                       .first_tile = i * n_tiles,
                                       .n_tiles = n_tiles};
        launches[i] =
            (struct psti_gpu_launch){.n_blocks = (n_tiles + L3_GPU_WARPS - 1) / L3_GPU_WARPS,
                                     .n_warps = L3_GPU_WARPS,
                                     .args = &args[i],
                                     .args_nbytes = sizeof args[i]};
    }
}

void gpu_l3_work(struct gpu_l3 *batch, uint32_t i_slot, void *pinned, uint64_t upload,
                 uint64_t rows, struct psti_gpu_work *work)
{
    const struct gpu_l3_options *options = &batch->options;
    const size_t row_nbytes = (size_t)options->height * options->width * L3_CHANNELS;
    const size_t first = (size_t)i_slot * batch->n_launches;
    const struct places places = places_of(batch);
    unsigned char *to = pinned;
    struct l3_gpu_image *images = (void *)(to + places.images);
    struct l3_gpu_tile *tiles = (void *)(to + places.tiles);
    size_t at = places.coded;
    memset(to, 0, places.images);
    for (uint32_t row = 0; row < batch->options.n_rows; row++) {
        const struct coded *coded = row_of(batch, row);
        images[row] = (struct l3_gpu_image){.coded = upload + at,
                                            .pixels = rows + row * row_nbytes,
                                            .is_wrong = upload + row * sizeof(uint32_t),
                                            .width = options->width,
                                            .height = options->height,
                                            .edge = options->edge,
                                            .n_across = coded->info.n_across};
        place_tiles(coded, row, tiles + (size_t)row * coded->info.n_tiles);
        memcpy(to + at, coded->bytes, coded->nbytes);
        at += aligned(coded->nbytes);
    }
    fill_launches(batch, upload, &places, batch->args + first, batch->launches + first);
    *work = (struct psti_gpu_work){.upload_nbytes = at,
                                   .cleared_nbytes = places.images,
                                   .launches = batch->launches + first,
                                   .n_launches = batch->n_launches};
}
