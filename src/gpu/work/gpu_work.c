/* gpu_work.c - turns a block's rows into lists and launches.
 *
 * From the added rows and their destinations it makes the last part of the upload, and the launches
 * in the order in which they must run. Kernels without work are not launched. One thread, after all
 * rows were added.
 *
 * Units are sorted by length, the longest first. So the warps of a block end at about the same
 * time, and the last ones are short. Images with their own tables do not share blocks with other
 * images. */
#include "gpu/work/gpu_block.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

enum {
    N_BUCKETS = 256,
    PROCESSORS = 132,         /* number of processors if the GPU's properties are not known */
    SHARED_NBYTES = 64 << 10, /* shared memory of a block, also for that case; every GPU has it */
    COEFS_WARPS = 24,         /* warps that a processor runs */
    COEFS_SHARED = 48 << 10   /* shared memory of a block, which every GPU has */
};

/* Lists and launches that are being made, one field at a time. */
struct growth {
    struct psti_gpu_block *block;
    const struct psti_gpu_field *field;
    uint32_t i_field;
    const uint32_t *places;
    uint64_t out;
    size_t end; /* offset in the upload of the end of all lists so far */
};

/* A list that is being made. */
struct list {
    void *host;
    uint64_t gpu;
};

static struct list begin_list(struct growth *g, size_t align)
{
    g->end = psti_round_up(g->end, align);
    return (struct list){(char *)g->block->memory.pinned + g->end,
                         g->block->memory.upload + g->end};
}

/* Returns the row if it takes part in the work and is of that kind, else NULL. */
static struct psti_gpu_row *row_of(const struct growth *g, uint32_t i_row,
                                   enum psti_gpu_row_kind kind)
{
    struct psti_gpu_row *row = psti_gpu_row(g->block, g->i_field, i_row);
    bool is_in = row->kind == kind && (!g->places || g->places[i_row] != PSTI_GPU_NOWHERE);
    return is_in ? row : NULL;
}

static uint64_t slot_of(const struct growth *g, uint32_t i_row)
{
    uint64_t place = g->places ? g->places[i_row] : i_row;
    if (g->field->may_differ)
        return psti_gpu_row(g->block, g->i_field, i_row)->out;
    return g->out + place * g->field->row_step_nbytes;
}

static uint64_t at_upload(const struct growth *g, size_t offset)
{
    return g->block->memory.upload + offset;
}

static union psti_gpu_args *add_launch(const struct growth *g, enum psti_gpu_kernel kernel,
                                       uint64_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                                       size_t args_nbytes)
{
    struct psti_gpu_block *block = g->block;
    union psti_gpu_args *args = &block->args[block->n_launches];
    memset(args, 0, sizeof *args);
    block->launches[block->n_launches++] = (struct psti_gpu_launch){
        .kernel = (uint32_t)kernel,
        .n_blocks = n_blocks < UINT32_MAX ? (uint32_t)n_blocks : UINT32_MAX,
        .n_warps = n_warps,
        .shared_nbytes = shared_nbytes,
        .args = args,
        .args_nbytes = args_nbytes,
    };
    return args;
}

/* Returns the bucket for units of about that length. Longer units have lower numbers. Units that
 * differ by less than an eighth may share a bucket. */
static uint32_t bucket_of(uint32_t nbytes)
{
    uint32_t n = nbytes | 8, log2 = 31u - (uint32_t)__builtin_clz(n);
    return N_BUCKETS - 1 - (8 * log2 + (n >> (log2 - 3) & 7));
}

/* Replaces the counts by the first index of each bucket. Returns the sum of the counts. */
static uint32_t place_buckets(uint32_t buckets[N_BUCKETS])
{
    uint32_t total = 0;
    for (uint32_t b = 0; b < N_BUCKETS; b++) {
        uint32_t n = buckets[b];
        buckets[b] = total;
        total += n;
    }
    return total;
}

/* PLI with pixels
 * ------------------------------------------------------------------------------------------------
 */

/* Adds the images of rows that take part, in order, to the launches. */
static uint64_t add_images(struct growth *g)
{
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    struct psti_gpu_image *images = list.host;
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_UNITS);
        if (!row)
            continue;
        images[n] = row->units.image;
        if (images[n].sink.finished)
            images[n].sink.at = slot_of(g, r);
        row->index = n++;
    }
    g->end += n * sizeof *images;
    return list.gpu;
}

/* Returns the row's entries in a list, if it takes part in the work and its image has these tables.
 * Sets *n to their number; 0 if the row has none. */
static const struct psti_gpu_unit *entries_of(const struct growth *g, uint32_t i_row,
                                              enum psti_gpu_units_list which, uint64_t tables,
                                              uint32_t *index, uint32_t *n)
{
    const struct psti_gpu_row *row = row_of(g, i_row, PSTI_GPU_ROW_UNITS);
    *n = 0;
    if (!row || row->units.image.tables != tables)
        return NULL;
    const struct psti_gpu_unit *at = row->units.entries;
    for (int i = 0; i < (int)which; i++)
        at += row->units.counts[i];
    *index = row->index;
    *n = row->units.counts[which];
    return at;
}

/* Adds the entries of the rows begin..end - 1 whose images have the given tables, longest units
 * first. */
static uint32_t add_sorted(const struct growth *g, enum psti_gpu_units_list which, uint32_t begin,
                           uint32_t end, uint64_t tables, struct psti_gpu_unit *to)
{
    uint32_t buckets[N_BUCKETS] = {0}, index = 0, n;
    for (uint32_t r = begin; r < end; r++) {
        const struct psti_gpu_unit *from = entries_of(g, r, which, tables, &index, &n);
        for (uint32_t i = 0; i < n; i++)
            buckets[bucket_of(from[i].nbytes)]++;
    }
    uint32_t total = place_buckets(buckets);
    for (uint32_t r = begin; r < end; r++) {
        const struct psti_gpu_unit *from = entries_of(g, r, which, tables, &index, &n);
        for (uint32_t i = 0; i < n; i++) {
            struct psti_gpu_unit *unit = &to[buckets[bucket_of(from[i].nbytes)]++];
            *unit = from[i];
            unit->image = index;
        }
    }
    return total;
}

/* Collects all entries of one of the lists. Returns their number. Images with tables of their own
 * get whole blocks, which are filled up with empty entries. */
static uint32_t gather(const struct growth *g, enum psti_gpu_units_list which, uint32_t n_warps,
                       struct psti_gpu_unit *to)
{
    uint32_t n_rows = g->block->n_rows_max, n = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        const struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_UNITS);
        if (!row || row->units.image.tables == 0)
            continue;
        n += add_sorted(g, which, r, r + 1, row->units.image.tables, to + n);
        for (; n % n_warps != 0; n++)
            to[n] = (struct psti_gpu_unit){.image = PSTI_GPU_NO_IMAGE};
    }
    return n + add_sorted(g, which, 0, n_rows, 0, to + n);
}

static uint32_t most_channels(const struct growth *g)
{
    uint32_t most = 1;
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        const struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_UNITS);
        if (row && row->units.image.channels > most)
            most = row->units.image.channels;
    }
    return most;
}

/* Adds one of the lists of units and its launch, unless it is empty. */
static void add_units_list(struct growth *g, enum psti_gpu_units_list which, uint64_t images)
{
    static const enum psti_gpu_kernel kernels[PSTI_GPU_N_UNITS_LISTS] = {
        [PSTI_GPU_UNITS_LZ] = PSTI_GPU_KERNEL_UNITS_LZ,
        [PSTI_GPU_UNITS_PLAIN] = PSTI_GPU_KERNEL_UNITS_PLAIN,
        [PSTI_GPU_UNITS_PACKED] = PSTI_GPU_KERNEL_UNITS_PACKED,
        [PSTI_GPU_UNITS_WAVE_U8] = PSTI_GPU_KERNEL_UNITS_WAVE_U8,
        [PSTI_GPU_UNITS_WAVE_U16] = PSTI_GPU_KERNEL_UNITS_WAVE_U16,
    };
    const struct psti_gpu_block *block = g->block;
    uint32_t shared_nbytes_max = block->memory.shared_nbytes_max;
    const struct psti_gpu_units_shape shape = psti_gpu_units_shape_within(
        which, most_channels(g), shared_nbytes_max ? shared_nbytes_max : (uint32_t)SHARED_NBYTES);
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    uint32_t n = gather(g, which, shape.n_warps, list.host);
    if (n == 0)
        return;
    g->end += n * sizeof(struct psti_gpu_unit);
    union psti_gpu_args *args =
        add_launch(g, kernels[which], (n + shape.n_warps - 1) / shape.n_warps, shape.n_warps,
                   shape.shared_nbytes, sizeof args->units);
    args->units = (struct psti_gpu_units_args){
        .images = images,
        .units = list.gpu,
        .statuses = at_upload(g, psti_gpu_block_status(block, g->i_field, 0)),
        .constants = psti_gpu_constants_wave(block),
        .lz_constants = psti_gpu_constants_lz(block),
        .n_units = n,
        .warp_nbytes = shape.warp_nbytes,
        .finish = g->field->finish,
    };
}

static void add_units(struct growth *g)
{
    uint64_t images = add_images(g);
    for (int which = 0; which < PSTI_GPU_N_UNITS_LISTS; which++)
        add_units_list(g, (enum psti_gpu_units_list)which, images);
}

/* JPEGs kept as PLI
 * ------------------------------------------------------------------------------------------------
 */

/* The largest n_places of the images with wide units, and of those with narrow units; 0: there are
 * none. */
struct coefs_places {
    uint32_t wide, narrow;
};

static uint64_t add_jpeg_images(struct growth *g, struct coefs_places *places)
{
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    struct psti_gpu_jpeg_image *images = list.host;
    uint32_t n = 0;
    *places = (struct coefs_places){0, 0};
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_JPEG);
        if (!row)
            continue;
        images[n] = row->jpeg.image;
        if (images[n].sink.finished)
            images[n].sink.at = slot_of(g, r);
        uint32_t n_places = row->jpeg.n_places;
        uint32_t *most = psti_gpu_coefs_wide(n_places) ? &places->wide : &places->narrow;
        *most = n_places > *most ? n_places : *most;
        row->index = n++;
    }
    g->end += n * sizeof *images;
    return list.gpu;
}

/* Returns the row if it has units of that kind, else NULL. */
static const struct psti_gpu_row *coefs_row(const struct growth *g, uint32_t i_row, bool wide)
{
    const struct psti_gpu_row *row = row_of(g, i_row, PSTI_GPU_ROW_JPEG);
    return row && psti_gpu_coefs_wide(row->jpeg.n_places) == wide ? row : NULL;
}

/* Adds the wide or the narrow units, longest first. Returns their number. */
static uint32_t sort_coefs(const struct growth *g, bool wide, struct psti_gpu_jpeg_unit *to)
{
    uint32_t buckets[N_BUCKETS] = {0};
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        const struct psti_gpu_row *row = coefs_row(g, r, wide);
        for (uint32_t i = 0; row && i < row->jpeg.n_units; i++)
            buckets[bucket_of(row->jpeg.units[i].nbytes)]++;
    }
    uint32_t n_units = place_buckets(buckets);
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        const struct psti_gpu_row *row = coefs_row(g, r, wide);
        for (uint32_t i = 0; row && i < row->jpeg.n_units; i++) {
            struct psti_gpu_jpeg_unit *unit = &to[buckets[bucket_of(row->jpeg.units[i].nbytes)]++];
            *unit = row->jpeg.units[i];
            unit->image = row->index;
        }
    }
    return n_units;
}

static uint64_t add_jpeg_units(struct growth *g, uint32_t *n_wide, uint32_t *n_units)
{
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    struct psti_gpu_jpeg_unit *to = list.host;
    *n_wide = sort_coefs(g, true, to);
    *n_units = *n_wide + sort_coefs(g, false, to + *n_wide);
    g->end += *n_units * sizeof *to;
    return list.gpu;
}

static uint64_t add_jpeg_tiles(struct growth *g, uint32_t *n_tiles)
{
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    struct psti_gpu_jpeg_tile *to = list.host;
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        const struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_JPEG);
        for (uint32_t i = 0; row && i < row->jpeg.n_tiles; i++) {
            to[n] = row->jpeg.tiles[i];
            to[n++].image = row->index;
        }
    }
    g->end += n * sizeof *to;
    *n_tiles = n;
    return list.gpu;
}

/* Returns how many warps with so much scratch each there may be, at most `most`. */
static uint32_t fit_warps(uint64_t left, uint32_t nbytes, uint32_t most)
{
    uint64_t n = most > 0 ? left / nbytes : 0;
    return n < most ? (uint32_t)n : most;
}

/* psti_gpu_coefs has as many warps as a GPU runs at a time, limited by the scratch; each warp takes
 * one unit after another. Wide units get at most half of the scratch if there are narrow ones,
 * too: a warp for them takes as much as several others. */
static void shape_coefs(const struct growth *g, struct psti_gpu_jpeg_args *args, uint32_t *n_blocks,
                        uint32_t *n_warps)
{
    const struct psti_gpu_block *block = g->block;
    uint64_t left = block->memory.scratch_nbytes - block->scratch_used;
    uint32_t n_processors =
        block->memory.n_processors ? block->memory.n_processors : (uint32_t)PROCESSORS;
    uint32_t most = n_processors * COEFS_WARPS, n_narrow = args->n_units - args->n_wide;
    uint32_t n_wide_warps = fit_warps(n_narrow > 0 ? left / 2 : left, args->wide_nbytes,
                                      most < args->n_wide ? most : args->n_wide);
    /* At least one warp fits, because claims have reserved its scratch. */
    if (args->n_wide > 0 && n_wide_warps == 0)
        n_wide_warps = 1;
    left -= (uint64_t)n_wide_warps * args->wide_nbytes;
    most -= n_wide_warps;
    uint32_t n =
        n_wide_warps + fit_warps(left, args->narrow_nbytes, most < n_narrow ? most : n_narrow);
    *n_warps = PSTI_GPU_COEFS_WARPS_MAX;
    while (*n_warps > 1 && (*n_warps * args->warp_nbytes > COEFS_SHARED || *n_warps > n))
        *n_warps /= 2;
    *n_blocks = n / *n_warps;
    n = *n_blocks * *n_warps;
    args->n_wide_warps = n_wide_warps < n ? n_wide_warps : n;
}

static void add_jpeg(struct growth *g)
{
    const struct psti_gpu_block *block = g->block;
    struct coefs_places places;
    uint32_t n_wide, n_units, n_tiles, n_blocks, n_warps;
    uint64_t images = add_jpeg_images(g, &places);
    uint32_t n_places = places.wide > 0 ? places.wide : places.narrow;
    if (n_places == 0)
        return;
    uint64_t units = add_jpeg_units(g, &n_wide, &n_units);
    uint64_t tiles = add_jpeg_tiles(g, &n_tiles);
    struct psti_gpu_jpeg_args args = {
        .images = images,
        .units = units,
        .tiles = tiles,
        .statuses = at_upload(g, psti_gpu_block_status(block, g->i_field, 0)),
        .counters = at_upload(g, psti_gpu_block_counters(block, g->i_field)),
        .constants = psti_gpu_constants_jpeg(block),
        .scratch = block->memory.scratch + block->scratch_used,
        .n_units = n_units,
        .n_tiles = n_tiles,
        .n_wide = n_wide,
        .warp_nbytes = psti_gpu_coefs_shared(n_places),
        .wide_nbytes = psti_gpu_coefs_scratch(places.wide),
        .narrow_nbytes = psti_gpu_coefs_scratch(places.narrow),
        .finish = g->field->finish,
    };
    shape_coefs(g, &args, &n_blocks, &n_warps);
    add_launch(g, PSTI_GPU_KERNEL_COEFS, n_blocks, n_warps, n_warps * args.warp_nbytes, sizeof args)
        ->jpeg = args;
    n_warps = PSTI_GPU_JPEG_WARPS_MAX;
    add_launch(g, PSTI_GPU_KERNEL_JPEG, (n_tiles + n_warps - 1) / n_warps, n_warps,
               n_warps * PSTI_GPU_JPEG_WARP_NBYTES, sizeof args)
        ->jpeg = args;
}

/* Preparation, and finished rows
 * ------------------------------------------------------------------------------------------------
 */

/* Returns the row if it takes part in the work and its pixels are prepared on the GPU, else
 * NULL. */
static struct psti_gpu_row *prepared_row(const struct growth *g, uint32_t i_row)
{
    static const enum psti_gpu_row_kind kinds[] = {PSTI_GPU_ROW_UNITS, PSTI_GPU_ROW_JPEG,
                                                   PSTI_GPU_ROW_PICTURE};
    struct psti_gpu_row *row = NULL;
    for (int i = 0; i < 3 && !row; i++)
        row = row_of(g, i_row, kinds[i]);
    return row;
}

/* Writes the passes of a row that belong to this turn and run on this kernel to `to`, in the form
 * that the GPU runs. Returns their number. *n_tiles becomes at least the number of tiles of each
 * pass. */
static uint32_t add_row_passes(const struct growth *g, uint32_t i_row, uint32_t turn,
                               enum psti_gpu_pass_kernel kernel, struct psti_gpu_pass *to,
                               uint32_t *n_tiles)
{
    const struct psti_gpu_row *row = prepared_row(g, i_row);
    uint32_t n = 0;
    for (uint32_t i = row ? row->i_pass : 0;
         row && i < row->n_passes && row->passes[i].turn == turn; i++) {
        const struct psti_gpu_pass *pass = &row->passes[i];
        if (psti_gpu_pass_kernel(pass) != kernel)
            continue;
        uint32_t tiles = psti_gpu_pass_tiles(pass);
        *n_tiles = tiles > *n_tiles ? tiles : *n_tiles;
        to[n] = *pass;
        if (pass->finished)
            to[n].to = slot_of(g, i_row);
        n++;
    }
    return n;
}

/* Adds the passes of that turn that run on this kernel. Returns their number. */
static uint32_t add_passes(struct growth *g, uint32_t turn, enum psti_gpu_pass_kernel kernel)
{
    static const enum psti_gpu_kernel kernels[PSTI_GPU_N_PASS_KERNELS] = {
        [PSTI_GPU_PASS_RESIZE] = PSTI_GPU_KERNEL_RESIZE,
        [PSTI_GPU_PASS_POINT] = PSTI_GPU_KERNEL_POINT,
        [PSTI_GPU_PASS_MAP] = PSTI_GPU_KERNEL_MAP,
        [PSTI_GPU_PASS_FILTER] = PSTI_GPU_KERNEL_FILTER,
        [PSTI_GPU_PASS_TONES] = PSTI_GPU_KERNEL_TONES,
        [PSTI_GPU_PASS_NOISE] = PSTI_GPU_KERNEL_NOISE,
    };
    struct list list = begin_list(g, PSTI_GPU_PASS_ALIGN);
    struct psti_gpu_pass *to = list.host;
    uint32_t n = 0, n_tiles = 0;
    for (uint32_t r = 0; r < g->block->n_rows_max; r++)
        n += add_row_passes(g, r, turn, kernel, to + n, &n_tiles);
    if (n == 0)
        return 0;
    g->end += n * sizeof *to;
    const struct psti_gpu_prepare_args args = {
        .passes = list.gpu, .n_passes = n, .n_tiles = n_tiles, .finish = g->field->finish};
    uint32_t n_blocks, n_warps, shared_nbytes;
    psti_gpu_prepare_shape(&args, kernel, &n_blocks, &n_warps, &shared_nbytes);
    add_launch(g, kernels[kernel], n_blocks, n_warps, shared_nbytes, sizeof args)->prepare = args;
    return n;
}

static void begin_passes(const struct growth *g)
{
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        struct psti_gpu_row *row = prepared_row(g, r);
        if (row)
            row->i_pass = 0;
    }
}

static void end_turn(const struct growth *g, uint32_t turn)
{
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        struct psti_gpu_row *row = prepared_row(g, r);
        while (row && row->i_pass < row->n_passes && row->passes[row->i_pass].turn == turn)
            row->i_pass++;
    }
}

static void add_prepare(struct growth *g)
{
    uint32_t n = 1;
    begin_passes(g);
    for (uint32_t turn = 0; n > 0; turn++) {
        n = 0;
        for (int k = 0; k < PSTI_GPU_N_PASS_KERNELS; k++)
            n += add_passes(g, turn, (enum psti_gpu_pass_kernel)k);
        end_turn(g, turn);
    }
}

/* Features of sound
 * ------------------------------------------------------------------------------------------------
 */

/* Adds the rows of sound that take part. Returns their number. */
static uint32_t add_sound_rows(struct growth *g, uint64_t *rows)
{
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    struct psti_gpu_sound_row *to = list.host;
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        const struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_WAVES);
        if (!row)
            continue;
        to[n] = *row->waves;
        to[n++].to = slot_of(g, r);
    }
    g->end += n * sizeof *to;
    *rows = list.gpu;
    return n;
}

static void add_sound(struct growth *g)
{
    const struct psti_gpu_sound *sound = g->field->sound;
    uint64_t rows, tables = psti_gpu_block_tables(g->block, g->i_field);
    uint32_t n_rows = sound ? add_sound_rows(g, &rows) : 0;
    for (uint32_t i = 0; n_rows > 0 && i < sound->n_steps; i++) {
        struct psti_gpu_sound_args args = sound->steps[i];
        uint32_t n_warps, shared_nbytes;
        psti_gpu_sound_shape(&args, &args.n_blocks, &n_warps, &shared_nbytes);
        args.rows = rows;
        uint64_t *const at[] = {&args.order, &args.twiddles, &args.last,   &args.window,
                                &args.bands, &args.weights,  &args.matrix, &args.points};
        for (size_t k = 0; k < sizeof at / sizeof *at; k++)
            *at[k] += tables;
        add_launch(g, i == 0 ? PSTI_GPU_KERNEL_SOUND_FRAMES : PSTI_GPU_KERNEL_SOUND_VALUES,
                   (uint64_t)n_rows * args.n_blocks, n_warps, shared_nbytes, sizeof args)
            ->sound = args;
    }
}

static void add_copies(struct growth *g)
{
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    struct psti_gpu_copy *to = list.host;
    size_t nbytes = g->field->row_nbytes;
    uint32_t n = 0;
    uint32_t n_parts = (uint32_t)((nbytes - 1) / PSTI_GPU_COPY_PART_NBYTES + 1);
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        const struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_FINISHED);
        if (row)
            to[n++] = (struct psti_gpu_copy){.from = row->at, .to = slot_of(g, r)};
    }
    if (n == 0)
        return;
    g->end += n * sizeof *to;
    const struct psti_gpu_copy_args args = {
        .copies = list.gpu, .nbytes = nbytes, .n_copies = n, .n_parts = n_parts};
    add_launch(g, PSTI_GPU_KERNEL_COPY, (uint64_t)n * n_parts, PSTI_GPU_COPY_WARPS, 0, sizeof args)
        ->copy = args;
}

/* Adds the finished rows of a field whose rows differ in size: they are padded to their own
 * size. */
static void add_copies_that_differ(struct growth *g)
{
    static const unsigned char nothing[8];
    struct list list = begin_list(g, PSTI_GPU_ALIGN);
    struct psti_gpu_pad *to = list.host;
    struct psti_gpu_launch launch;
    union psti_gpu_args args;
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->block->n_rows_max; r++) {
        const struct psti_gpu_row *row = row_of(g, r, PSTI_GPU_ROW_FINISHED);
        if (row)
            psti_gpu_pad_set(g->field, row->size, row->at, row->size, slot_of(g, r), &to[n++]);
    }
    if (n == 0)
        return;
    g->end += n * sizeof *to;
    (void)psti_gpu_pad_launch(g->field, to, n, list.gpu, nothing, &args.pad, &launch);
    add_launch(g, PSTI_GPU_KERNEL_PAD, (uint64_t)n * args.pad.n_parts, launch.n_warps, 0,
               launch.args_nbytes)
        ->pad = args.pad;
}

enum pst_status psti_gpu_block_work(struct psti_gpu_block *block, const uint64_t *outs,
                                    const uint32_t *places, struct psti_gpu_work *work,
                                    struct pst_error *err)
{
    size_t end = block->upload_used;
    bool may_fail = false;
    block->n_launches = 0;
    for (uint32_t i = 0; i < block->n_fields; i++) {
        struct growth g = {.block = block,
                           .field = block->fields[i],
                           .i_field = i,
                           .places = places,
                           .out = outs[i],
                           .end = end};
        add_units(&g);
        add_jpeg(&g);
        add_prepare(&g);
        add_sound(&g);
        if (g.field->may_differ)
            add_copies_that_differ(&g);
        else
            add_copies(&g);
        end = g.end;
    }
    for (uint32_t i = 0; i < block->n_launches; i++) {
        may_fail |= block->launches[i].kernel < PSTI_GPU_KERNEL_RESIZE;
        if (block->launches[i].n_blocks > INT32_MAX)
            return psti_fail(err, PST_ERROR_LIMIT, PSTI_GPU_ROOM,
                             "a batch of %u rows is too large for a launch", block->n_rows_max);
    }
    *work = (struct psti_gpu_work){
        .upload_nbytes = block->n_launches > 0 ? psti_round_up(end, 16) : 0,
        .cleared_nbytes = block->n_launches > 0 ? block->fixed_nbytes : 0,
        .statuses_nbytes = may_fail ? psti_gpu_block_status(block, block->n_fields, 0) : 0,
        .launches = block->launches,
        .n_launches = block->n_launches,
    };
    return PST_OK;
}
