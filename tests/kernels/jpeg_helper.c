/* jpeg_helper.c - implements jpeg_helper.h. */
#include "jpeg_helper.h"

#include "kernels_check.h"

void psti_gpu_coefs(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
void psti_gpu_jpeg(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);

/* The memory of one launch. */
struct launch {
    struct guarded *uploads, *samples, *tables;
    struct guarded images, statuses, units, tiles, constants, next;
    uint32_t n_units, n_tiles, n_places;
};

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

static void show(const struct jpeg_case *c, struct psti_gpu_jpeg_image *image)
{
    image->sink = (struct psti_gpu_sink){
        .at = address(c->pixels.data),
        .region_y = c->region.y,
        .region_x = c->region.x,
        .region_height = c->region.height,
        .region_width = c->region.width,
        .height = image->height,
        .width = image->width,
        .channels = image->n_components,
        .bits = 8,
        .orientation = c->orientation ? c->orientation : 1,
    };
    if (c->orientation > 4) {
        image->sink.region_y = c->region.x;
        image->sink.region_x = c->region.y;
        image->sink.region_height = c->region.width;
        image->sink.region_width = c->region.height;
    }
}

static void fill_one(struct launch *launch, struct jpeg_case *c, uint32_t i)
{
    struct psti_gpu_jpeg_image *image = (struct psti_gpu_jpeg_image *)launch->images.data + i;
    struct psti_gpu_jpeg_unit *units = (struct psti_gpu_jpeg_unit *)launch->units.data;
    struct psti_gpu_jpeg_tile *tiles = (struct psti_gpu_jpeg_tile *)launch->tiles.data;
    launch->uploads[i] = guarded_make((size_t)c->plan.upload_nbytes, 64);
    launch->samples[i] = guarded_make((size_t)c->plan.samples_nbytes, 64);
    c->pixels =
        guarded_make((size_t)c->region.height * c->region.width * c->plan.header.channels, 64);
    const struct psti_gpu_jpeg_place place = {
        .image = i,
        .bytes = launch->uploads[i].data,
        .samples = address(launch->samples[i].data),
        .units = units + launch->n_units,
        .tiles = tiles + launch->n_tiles,
    };
    psti_gpu_jpeg_fill(&c->plan, c->bytes, &place, image);
    launch->n_units += c->plan.n_units;
    launch->n_tiles += c->plan.n_tiles;
    image->bytes = address(launch->uploads[i].data);
    image->status = i;
    image->tables = 0;
    if (c->plan.has_tables) {
        launch->tables[i] = guarded_make(sizeof(struct psti_gpu_jpeg_tables), 0);
        psti_gpu_jpeg_tables_write(&c->plan.tables, (void *)launch->tables[i].data);
        image->tables = address(launch->tables[i].data);
    }
    show(c, image);
}

static void start(const struct launch *launch, uint8_t channels)
{
    enum { N_BLOCKS = 2, N_WARPS = PSTI_GPU_COEFS_WARPS_MAX };
    uint32_t warp_nbytes = psti_gpu_coefs_shared(launch->n_places);
    uint32_t scratch_nbytes = psti_gpu_coefs_scratch(launch->n_places);
    struct guarded scratch = guarded_make((size_t)scratch_nbytes * N_BLOCKS * N_WARPS, 64);
    const struct psti_gpu_jpeg_args args = {
        .images = address(launch->images.data),
        .units = address(launch->units.data),
        .tiles = address(launch->tiles.data),
        .statuses = address(launch->statuses.data),
        .next_unit = address(launch->next.data),
        .constants = address(launch->constants.data),
        .scratch = address(scratch.data),
        .n_units = launch->n_units,
        .n_tiles = launch->n_tiles,
        .warp_nbytes = warp_nbytes,
        .scratch_nbytes = scratch_nbytes,
        .finish = {.channels = channels, .bits = 8},
    };
    psti_gpu_coefs(N_BLOCKS, N_WARPS, N_WARPS * warp_nbytes, &args);
    psti_gpu_jpeg((launch->n_tiles + N_WARPS - 1) / N_WARPS, N_WARPS,
                  N_WARPS * PSTI_GPU_JPEG_WARP_NBYTES, &args);
    guarded_free(&scratch);
}

static void plan(struct jpeg_case *cases, uint32_t n, struct launch *launch)
{
    uint32_t n_units = 0, n_tiles = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct jpeg_case *c = &cases[i];
        pst_error_clear(&c->err);
        c->pixels = (struct guarded){0};
        c->code = 0;
        c->status =
            psti_gpu_jpeg_plan(c->bytes, c->nbytes, NULL, &c->region, true, &c->plan, &c->err);
        if (c->status != PST_OK)
            continue;
        n_units += c->plan.n_units;
        n_tiles += c->plan.n_tiles;
        if (launch->n_places < c->plan.n_places)
            launch->n_places = c->plan.n_places;
    }
    launch->units = guarded_make(n_units * sizeof(struct psti_gpu_jpeg_unit), 64);
    launch->tiles = guarded_make(n_tiles * sizeof(struct psti_gpu_jpeg_tile), 64);
}

void jpeg_decode(struct jpeg_case *cases, uint32_t n)
{
    struct launch launch = {
        .uploads = calloc(n, sizeof *launch.uploads),
        .samples = calloc(n, sizeof *launch.samples),
        .tables = calloc(n, sizeof *launch.tables),
        .images = guarded_make(n * sizeof(struct psti_gpu_jpeg_image), 64),
        .statuses = guarded_make(4 * (size_t)n, 64),
        .constants = guarded_make(sizeof(struct psti_gpu_jpeg_constants), 64),
        .next = guarded_make(4, 64),
    };
    uint8_t channels = 0;
    memset(launch.statuses.data, 0, 4 * (size_t)n);
    memset(launch.next.data, 0, 4);
    psti_gpu_jpeg_constants_write((void *)launch.constants.data);
    plan(cases, n, &launch);
    for (uint32_t i = 0; i < n; i++) {
        if (cases[i].status != PST_OK)
            continue;
        assert_true(channels == 0 || channels == cases[i].plan.header.channels);
        channels = cases[i].plan.header.channels;
        fill_one(&launch, &cases[i], i);
    }
    if (channels > 0)
        start(&launch, channels);
    for (uint32_t i = 0; i < n; i++) {
        if (cases[i].status != PST_OK)
            continue;
        memcpy(&cases[i].code, launch.statuses.data + 4 * (size_t)i, 4);
        guarded_free(&launch.uploads[i]);
        guarded_free(&launch.samples[i]);
        if (launch.tables[i].map)
            guarded_free(&launch.tables[i]);
    }
    guarded_free(&launch.images);
    guarded_free(&launch.statuses);
    guarded_free(&launch.units);
    guarded_free(&launch.tiles);
    guarded_free(&launch.constants);
    guarded_free(&launch.next);
    free(launch.uploads);
    free(launch.samples);
    free(launch.tables);
}

void jpeg_free(struct jpeg_case *cases, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (cases[i].pixels.map)
            guarded_free(&cases[i].pixels);
}

uint32_t jpeg_check(struct jpeg_case *cases, uint32_t n)
{
    uint32_t n_fine = 0;
    jpeg_decode(cases, n);
    for (uint32_t i = 0; i < n; i++) {
        struct jpeg_case *c = &cases[i];
        const void *pixels = c->orientation <= 1 ? c->pixels.data : NULL;
        n_fine += cuda_check(&(struct cuda_outcome){c->bytes, c->nbytes, c->region, c->status,
                                                    &c->err, c->code, pixels});
    }
    jpeg_free(cases, n);
    return n_fine;
}
