/* jpeg_helper.c - implements jpeg_helper.h. */
#include "jpeg_helper.h"

#include "kernels_check.h"

void psti_gpu_coefs(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
void psti_gpu_jpeg(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);

/* The memory of one launch. */
struct launch {
    struct guarded *uploads, *samples, *tables;
    struct guarded images, statuses, units, tiles, constants, counters;
    uint32_t n_units, n_tiles, n_wide;
    uint32_t wide_places, narrow_places; /* most list positions of a unit of each kind */
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
    enum { N_BLOCKS = 2, N_WARPS = PSTI_GPU_COEFS_WARPS_MAX, N_ALL = N_BLOCKS * N_WARPS };
    uint32_t n_narrow = launch->n_units - launch->n_wide;
    uint32_t n_wide_warps = launch->n_wide == 0 ? 0 : n_narrow == 0 ? N_ALL : 3;
    uint32_t wide_nbytes = psti_gpu_coefs_scratch(launch->wide_places);
    uint32_t narrow_nbytes = psti_gpu_coefs_scratch(launch->narrow_places);
    uint32_t warp_nbytes = psti_gpu_coefs_shared(launch->wide_places > 0 ? launch->wide_places
                                                                         : launch->narrow_places);
    struct guarded scratch = guarded_make(
        (size_t)wide_nbytes * n_wide_warps + (size_t)narrow_nbytes * (N_ALL - n_wide_warps), 64);
    const struct psti_gpu_jpeg_args args = {
        .images = address(launch->images.data),
        .units = address(launch->units.data),
        .tiles = address(launch->tiles.data),
        .statuses = address(launch->statuses.data),
        .counters = address(launch->counters.data),
        .constants = address(launch->constants.data),
        .scratch = address(scratch.data),
        .n_units = launch->n_units,
        .n_tiles = launch->n_tiles,
        .n_wide = launch->n_wide,
        .n_wide_warps = n_wide_warps,
        .warp_nbytes = warp_nbytes,
        .wide_nbytes = wide_nbytes,
        .narrow_nbytes = narrow_nbytes,
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
        bool wide = psti_gpu_coefs_wide(c->plan.n_places);
        uint32_t *most = wide ? &launch->wide_places : &launch->narrow_places;
        if (*most < c->plan.n_places)
            *most = c->plan.n_places;
    }
    launch->units = guarded_make(n_units * sizeof(struct psti_gpu_jpeg_unit), 64);
    launch->tiles = guarded_make(n_tiles * sizeof(struct psti_gpu_jpeg_tile), 64);
}

/* Fills the cases whose units are wide, or those whose units are narrow. */
static void fill_all(struct launch *launch, struct jpeg_case *cases, uint32_t n, bool wide)
{
    for (uint32_t i = 0; i < n; i++)
        if (cases[i].status == PST_OK && psti_gpu_coefs_wide(cases[i].plan.n_places) == wide)
            fill_one(launch, &cases[i], i);
}

static uint8_t channels_of(const struct jpeg_case *cases, uint32_t n)
{
    uint8_t channels = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (cases[i].status != PST_OK)
            continue;
        assert_true(channels == 0 || channels == cases[i].plan.header.channels);
        channels = cases[i].plan.header.channels;
    }
    return channels;
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
        .counters = guarded_make(8, 64),
    };
    memset(launch.statuses.data, 0, 4 * (size_t)n);
    memset(launch.counters.data, 0, 8);
    psti_gpu_jpeg_constants_write((void *)launch.constants.data);
    plan(cases, n, &launch);
    fill_all(&launch, cases, n, true);
    launch.n_wide = launch.n_units;
    fill_all(&launch, cases, n, false);
    if (launch.n_units > 0)
        start(&launch, channels_of(cases, n));
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
    guarded_free(&launch.counters);
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
