/* units_helper.c - implements units_helper.h. */
#include "units_helper.h"

#include "gpu/work/gpu_tables.h"
#include "kernels_check.h"

void psti_gpu_units_plain(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                          const void *args);
void psti_gpu_units_packed(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                           const void *args);
void psti_gpu_units_lz(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                       const void *args);
void psti_gpu_units_wave_u8(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                            const void *args);
void psti_gpu_units_wave_u16(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                             const void *args);

typedef void (*kernel)(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                       const void *args);

static const kernel kernels[PSTI_GPU_N_UNITS_LISTS] = {
    [PSTI_GPU_UNITS_LZ] = psti_gpu_units_lz,
    [PSTI_GPU_UNITS_PLAIN] = psti_gpu_units_plain,
    [PSTI_GPU_UNITS_PACKED] = psti_gpu_units_packed,
    [PSTI_GPU_UNITS_WAVE_U8] = psti_gpu_units_wave_u8,
    [PSTI_GPU_UNITS_WAVE_U16] = psti_gpu_units_wave_u16,
};

/* The memory of one launch. */
struct launch {
    struct guarded *uploads, *scratches;
    struct psti_gpu_image *images;
    struct psti_gpu_wave_tables *tables; /* tables of each image */
    struct guarded statuses;
    struct psti_gpu_unit *lists[PSTI_GPU_N_UNITS_LISTS];
    uint32_t counts[PSTI_GPU_N_UNITS_LISTS];
};

static size_t pixels_nbytes(const struct units_case *c)
{
    return (size_t)c->region.height * c->region.width * c->plan.header.channels *
           (c->plan.header.bits / 8u);
}

/* Fills up the last block of a list of units. */
static void end_block(struct launch *launch, uint32_t list, uint32_t channels)
{
    struct psti_gpu_units_shape shape = psti_gpu_units_shape(list, channels);
    while (launch->counts[list] % shape.n_warps != 0)
        launch->lists[list][launch->counts[list]++] =
            (struct psti_gpu_unit){.image = PSTI_GPU_NO_IMAGE};
}

/* If the file has wave tables, writes them for the GPU and returns their address; otherwise returns
 * 0. Units with different tables cannot share a block, so a new block begins. */
static uint64_t own_tables(struct launch *launch, uint32_t i, struct units_case *c)
{
    const struct psti_pli_header *h = &c->plan.header;
    if (!c->plan.tables)
        return 0;
    c->status = psti_gpu_wave_tables_write(c->plan.tables, c->plan.tables_nbytes, h->bits,
                                           &launch->tables[i], &c->err);
    for (uint32_t l = PSTI_GPU_UNITS_WAVE_U8; l <= PSTI_GPU_UNITS_WAVE_U16; l++)
        end_block(launch, l, h->channels);
    return (uint64_t)(uintptr_t)&launch->tables[i];
}

static void fill(struct units_case *cases, uint32_t n, struct launch *launch)
{
    for (uint32_t i = 0; i < n; i++) {
        struct units_case *c = &cases[i];
        struct psti_gpu_image *image = &launch->images[i];
        struct psti_gpu_units_place place = {.image = i};
        if (c->status != PST_OK)
            continue;
        image->tables = own_tables(launch, i, c);
        if (c->status != PST_OK)
            continue;
        launch->uploads[i] = guarded_make((size_t)c->plan.upload_nbytes, 64);
        launch->scratches[i] = guarded_make((size_t)c->plan.scratch_nbytes, 64);
        c->pixels = guarded_make(pixels_nbytes(c), 64);
        place.bytes = launch->uploads[i].data;
        for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS; l++) {
            place.lists[l] = launch->lists[l] + launch->counts[l];
            launch->counts[l] += c->plan.counts[l];
        }
        psti_gpu_units_fill(&c->plan, c->bytes, &place, image);
        image->bytes = (uint64_t)(uintptr_t)launch->uploads[i].data;
        image->scratch = (uint64_t)(uintptr_t)launch->scratches[i].data;
        image->status = i;
        image->sink = (struct psti_gpu_sink){
            .at = (uint64_t)(uintptr_t)c->pixels.data,
            .region_y = c->region.y,
            .region_x = c->region.x,
            .region_height = c->region.height,
            .region_width = c->region.width,
            .height = image->height,
            .width = image->width,
            .channels = image->channels,
            .bits = image->bits,
            .orientation = 1,
        };
        for (uint32_t l = PSTI_GPU_UNITS_WAVE_U8; l <= PSTI_GPU_UNITS_WAVE_U16 && image->tables;
             l++)
            end_block(launch, l, c->plan.header.channels);
    }
}

static void start(const struct launch *launch, const struct psti_pli_header *h)
{
    struct psti_gpu_lz_constants *lz = malloc(sizeof *lz);
    struct psti_gpu_wave_constants *constants = malloc(sizeof *constants);
    psti_gpu_lz_constants_write(lz);
    psti_gpu_wave_constants_write(constants);
    for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS; l++) {
        struct psti_gpu_units_shape shape = psti_gpu_units_shape(l, h->channels);
        struct psti_gpu_units_args args = {
            .images = (uint64_t)(uintptr_t)launch->images,
            .units = (uint64_t)(uintptr_t)launch->lists[l],
            .statuses = (uint64_t)(uintptr_t)launch->statuses.data,
            .constants = (uint64_t)(uintptr_t)constants,
            .lz_constants = (uint64_t)(uintptr_t)lz,
            .n_units = launch->counts[l],
            .warp_nbytes = shape.warp_nbytes,
            .finish = {.channels = h->channels, .bits = h->bits},
        };
        if (launch->counts[l] == 0)
            continue;
        assert_non_null(kernels[l]);
        kernels[l]((launch->counts[l] + shape.n_warps - 1) / shape.n_warps, shape.n_warps,
                   shape.shared_nbytes, &args);
    }
    free(constants);
    free(lz);
}

void units_decode(struct units_case *cases, uint32_t n)
{
    struct launch launch = {.uploads = calloc(n, sizeof *launch.uploads),
                            .scratches = calloc(n, sizeof *launch.scratches),
                            .images = calloc(n, sizeof *launch.images),
                            .tables = calloc(n, sizeof *launch.tables),
                            .statuses = guarded_make(4 * (size_t)n, 64)};
    uint32_t totals[PSTI_GPU_N_UNITS_LISTS] = {0};
    const struct psti_pli_header *header = NULL;
    memset(launch.statuses.data, 0, 4 * (size_t)n);
    for (uint32_t i = 0; i < n; i++) {
        struct units_case *c = &cases[i];
        pst_error_clear(&c->err);
        c->pixels = (struct guarded){0};
        c->code = 0;
        c->status =
            psti_gpu_units_plan(c->bytes, c->nbytes, NULL, &c->region, true, &c->plan, &c->err);
        if (c->status != PST_OK)
            continue;
        assert_true(!header || (header->channels == c->plan.header.channels &&
                                header->bits == c->plan.header.bits));
        header = &c->plan.header;
        for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS; l++)
            totals[l] += c->plan.counts[l] + (c->plan.tables ? 2 * PSTI_GPU_WAVE_WARPS : 0);
    }
    for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS;
         l++) /* exact size, so a sanitizer detects over-runs */
        launch.lists[l] = calloc(totals[l] + 1, sizeof *launch.lists[l]);
    fill(cases, n, &launch);
    if (header)
        start(&launch, header);
    for (uint32_t i = 0; i < n; i++) {
        if (cases[i].status != PST_OK)
            continue;
        memcpy(&cases[i].code, launch.statuses.data + 4 * (size_t)i, 4);
        guarded_free(&launch.uploads[i]);
        guarded_free(&launch.scratches[i]);
    }
    for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS; l++)
        free(launch.lists[l]);
    guarded_free(&launch.statuses);
    free(launch.tables);
    free(launch.images);
    free(launch.scratches);
    free(launch.uploads);
}

void units_free(struct units_case *cases, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (cases[i].pixels.map)
            guarded_free(&cases[i].pixels);
}

uint32_t units_check(struct units_case *cases, uint32_t n)
{
    uint32_t n_fine = 0;
    units_decode(cases, n);
    for (uint32_t i = 0; i < n; i++) {
        struct units_case *c = &cases[i];
        n_fine += cuda_check(&(struct cuda_outcome){c->bytes, c->nbytes, c->region, c->status,
                                                    &c->err, c->code, c->pixels.data});
    }
    units_free(cases, n);
    return n_fine;
}
