/* gpu_prepare.c - turns recipes into passes.
 *
 * From a chain and a draw it makes the passes of one row, the bytes that are uploaded for them, and
 * the place where the decoder stores its pixels. The functions write only the caller's memory; any
 * thread may call them.
 *
 * Each resize, window, map or filter needs a whole picture and opens a new pass. The pass also does
 * the operations after it, as long as they work on one pixel at a time. Flips commute with such
 * operations, so they are done when the result is written. Pictures alternate between two places in
 * scratch. */
#include "gpu/work/gpu_prepare.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

void psti_gpu_prepare_finish(const struct psti_chain *chain, uint32_t height, uint32_t width,
                             struct psti_gpu_finish *finish)
{
    struct psti_recipe_finish from;
    psti_augment_chain_finish(chain, &from);
    memset(finish, 0, sizeof *finish);
    finish->out_height = height;
    finish->out_width = width;
    finish->channels = from.channels;
    finish->bits = from.bits;
    finish->dtype = (uint8_t)from.dtype;
    finish->is_chw = from.layout == PST_LAYOUT_CHW && from.channels > 1;
    finish->is_mask = from.is_mask;
    memcpy(finish->scale, from.scale, sizeof finish->scale);
    memcpy(finish->offset, from.offset, sizeof finish->offset);
}

/* Where a picture lies between passes: in one of two places in scratch, or where the decoder stored
 * it. */
enum place { PLACE_FIRST, PLACE_SECOND, PLACE_GIVEN, PLACE_FLOATS, N_PLACES };
/* Most samples of a picture that maps and filters read; they count samples in 32 bits. */
#define MOST_SAMPLES ((uint64_t)1 << 31)

struct growth {
    struct psti_gpu_prepare *prepare;
    uint32_t channels, bits;
    struct psti_gpu_pass *pass; /* the pass to which operations are being added, or NULL */
    /* Place of the picture that the open pass reads or, if none is open, that the next pass will
     * read. */
    enum place place;
    uint32_t height, width; /* size of that picture */
    uint32_t n_sums, n_tables;
    uint64_t nbytes[N_PLACES]; /* bytes that are needed in each place in scratch */
    bool overflows, is_too_large;
};

/* Opens a pass. Until addresses are known, the pass holds numbers instead: place + 1 for `from` and
 * `to`, number + 1 for sums and tables, and the offset for taps. */
static struct psti_gpu_pass *open_pass(struct growth *g, enum psti_gpu_pass_kind kind,
                                       uint32_t height, uint32_t width)
{
    struct psti_gpu_prepare *prepare = g->prepare;
    if (prepare->n_passes == PSTI_GPU_MAX_PASSES) {
        g->overflows = true;
        prepare->n_passes--; /* the row will be refused, so this pass may overwrite the last one */
    }
    struct psti_gpu_pass *pass = &prepare->passes[prepare->n_passes++];
    memset(pass, 0, sizeof *pass);
    pass->kind = (uint8_t)kind;
    pass->from = (uint64_t)g->place + 1;
    pass->from_height = pass->full_height = g->height;
    pass->from_width = pass->full_width = g->width;
    pass->height = height;
    pass->width = width;
    g->pass = pass;
    return pass;
}

static struct psti_gpu_pass *any_pass(struct growth *g)
{
    return g->pass != NULL ? g->pass : open_pass(g, PSTI_GPU_WINDOW, g->height, g->width);
}

static void claim(struct growth *g, enum place place, uint32_t height, uint32_t width)
{
    uint64_t sample = place == PLACE_FLOATS ? sizeof(float) : g->bits / 8;
    uint64_t nbytes = (uint64_t)height * width * g->channels * sample + PSTI_GPU_SLACK;
    nbytes = psti_round_up(nbytes, 64);
    g->nbytes[place] = nbytes > g->nbytes[place] ? nbytes : g->nbytes[place];
}

/* Closes the open pass, if there is one, which writes a picture. */
static void close_pass(struct growth *g)
{
    if (g->pass == NULL)
        return;
    enum place place = g->place == PLACE_FIRST ? PLACE_SECOND : PLACE_FIRST;
    claim(g, place, g->pass->height, g->pass->width);
    g->pass->to = (uint64_t)place + 1;
    g->place = place;
    g->height = g->pass->height;
    g->width = g->pass->width;
    g->pass = NULL;
}

static void grow_color(struct growth *g, enum psti_gpu_color color, float factor)
{
    struct psti_gpu_pass *pass = any_pass(g);
    if (pass->n_colors == PSTI_GPU_MAX_COLORS) {
        close_pass(g);
        pass = any_pass(g);
    }
    pass->colors[pass->n_colors] = (uint8_t)color;
    pass->factors[pass->n_colors++] = factor;
}

/* Adds a contrast, which needs the sum over the picture before it. The pass before computes this
 * sum of its result. If that pass only moves pixels, this pass moves them again itself, because
 * then the other pass need not write a picture. */
static void grow_contrast(struct growth *g, float factor)
{
    struct psti_gpu_pass before = *any_pass(g);
    uint64_t sum = ++g->n_sums, n_pixels = (uint64_t)before.height * before.width;
    g->pass->sum_to = sum;
    if (before.kind != PSTI_GPU_WINDOW || before.n_colors > 0) {
        close_pass(g);
        any_pass(g);
    } else {
        open_pass(g, PSTI_GPU_WINDOW, before.height, before.width);
        *g->pass = before;
    }
    g->pass->sum_from = sum;
    g->pass->sum_pixels = n_pixels;
    grow_color(g, PSTI_GPU_CONTRAST, factor);
}

static void grow_jitter(struct growth *g, const struct psti_recipe_step *step)
{
    static const enum psti_gpu_color colors[] = {PSTI_GPU_BRIGHTNESS, PSTI_GPU_CONTRAST,
                                                 PSTI_GPU_SATURATION, PSTI_GPU_HUE};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t turn = step->turns[i];
        float factor = step->factors[turn];
        bool needs_color = turn >= 2; /* a gray picture has no saturation and no hue */
        if (factor == (turn == 3 ? 0.0f : 1.0f) || (needs_color && g->channels < 3))
            continue;
        if (turn == 1)
            grow_contrast(g, factor);
        else
            grow_color(g, colors[turn], factor);
    }
}

static void grow_window(struct growth *g, const struct psti_recipe_step *step)
{
    close_pass(g);
    struct psti_gpu_pass *pass = open_pass(g, PSTI_GPU_WINDOW, step->height, step->width);
    pass->y = step->y;
    pass->x = step->x;
    pass->full_height = step->full_height;
    pass->full_width = step->full_width;
    pass->base_y = step->base_y;
    pass->base_x = step->base_x;
    pass->pad_mode = (uint8_t)step->pad_mode;
    memcpy(pass->fill, step->fill, sizeof pass->fill);
}

/* Opens a pass of that kind. It reads the current picture and keeps its size. */
static struct psti_gpu_pass *open_over(struct growth *g, enum psti_gpu_pass_kind kind)
{
    close_pass(g);
    if ((uint64_t)g->height * g->width * g->channels >= MOST_SAMPLES)
        g->is_too_large = true;
    return open_pass(g, kind, g->height, g->width);
}

static void grow_change(struct growth *g, const struct psti_recipe_step *step)
{
    uint32_t all = g->bits == 16 ? 0xffff : 0xff;
    if (step->flip != 0)
        grow_color(g, PSTI_GPU_INVERT, step->least);
    else if (step->mask != all)
        grow_color(g, PSTI_GPU_POSTERIZE, (float)step->mask);
}

/* Adds Equalize or AutoContrast: one pass builds a table from the picture, and the next pass
 * applies it. */
static void grow_tones(struct growth *g, enum psti_gpu_pass_kind kind)
{
    uint64_t table = ++g->n_tables;
    open_over(g, kind)->table = table;
    g->pass = NULL;
    any_pass(g)->table = table;
    grow_color(g, kind == PSTI_GPU_STRETCH && g->bits == 16 ? PSTI_GPU_STRETCHED : PSTI_GPU_TABLE,
               0);
}

/* Adds a sharpening. Border pixels do not change, so a picture of border pixels only needs no
 * pass. */
static void grow_sharpen(struct growth *g, const struct psti_recipe_step *step)
{
    if (step->height > 2 && step->width > 2)
        open_over(g, PSTI_GPU_SHARPEN)->sharpness = step->factors[0];
}

static void grow_blur(struct growth *g, const struct psti_recipe_step *step)
{
    struct psti_gpu_pass *pass = open_over(g, PSTI_GPU_BLUR_X);
    claim(g, PLACE_FLOATS, g->height, g->width);
    pass->to = (uint64_t)PLACE_FLOATS + 1;
    pass->taps = step->taps_x;
    pass->n_taps = step->n_taps_x;
    pass = open_pass(g, PSTI_GPU_BLUR_Y, g->height, g->width);
    pass->from = (uint64_t)PLACE_FLOATS + 1;
    pass->taps = step->taps_y;
    pass->n_taps = step->n_taps_y;
}

static void grow_map(struct growth *g, const struct psti_recipe_step *step)
{
    struct psti_gpu_pass *pass = open_over(g, PSTI_GPU_MAP);
    memcpy(pass->map, step->map, sizeof pass->map);
    memcpy(pass->fill, step->fill, sizeof pass->fill);
    pass->nearest = step->nearest;
    pass->blends = step->blends;
}

static void grow_erase(struct growth *g, const struct psti_recipe *recipe)
{
    const struct psti_recipe_erase *erase = &recipe->erase;
    if (erase->height == 0 || erase->width == 0)
        return;
    struct psti_gpu_pass *pass = open_pass(g, PSTI_GPU_ERASE, erase->height, erase->width);
    pass->from = 0;
    pass->full_height = recipe->height;
    pass->full_width = recipe->width;
    pass->finished = 1;
    pass->y = (int32_t)erase->y;
    pass->x = (int32_t)erase->x;
    memcpy(pass->elements, erase->elements, sizeof pass->elements);
}

static void grow(struct growth *g, const struct psti_recipe_step *step)
{
    switch (step->kind) {
    case PSTI_RECIPE_RESIZE:
        close_pass(g);
        open_pass(g, PSTI_GPU_RESIZES, step->height, step->width)->flip_y = step->flip_y;
        break;
    case PSTI_RECIPE_WINDOW:
        grow_window(g, step);
        break;
    case PSTI_RECIPE_FLIP:
        any_pass(g);
        g->pass->flip_y ^= step->flip_y;
        g->pass->flip_x ^= step->flip_x;
        break;
    case PSTI_RECIPE_JITTER:
        grow_jitter(g, step);
        break;
    case PSTI_RECIPE_GRAY:
        if (g->channels >= 3)
            grow_color(g, PSTI_GPU_GRAY, 0);
        break;
    case PSTI_RECIPE_CHANGE:
        grow_change(g, step);
        break;
    case PSTI_RECIPE_AUTOCONTRAST:
        grow_tones(g, PSTI_GPU_STRETCH);
        break;
    case PSTI_RECIPE_EQUALIZE:
        grow_tones(g, PSTI_GPU_LEVEL);
        break;
    case PSTI_RECIPE_SHARPEN:
        grow_sharpen(g, step);
        break;
    case PSTI_RECIPE_BLUR:
        grow_blur(g, step);
        break;
    case PSTI_RECIPE_MAP:
        grow_map(g, step);
        break;
    }
}

/* Returns whether a recipe has only a crop and flips, which the decoder's sink can do itself. */
static bool is_direct(const struct psti_recipe *recipe, bool is_picture)
{
    return !is_picture && (recipe->n_steps == 0 ||
                           (recipe->n_steps == 1 && recipe->steps[0].kind == PSTI_RECIPE_FLIP));
}

enum pst_status psti_gpu_prepare_plan(const struct psti_chain *chain, const struct psti_draw *draw,
                                      bool is_picture, struct psti_gpu_prepare *prepare,
                                      struct pst_error *err)
{
    struct psti_recipe *recipe = &prepare->recipe;
    struct psti_recipe_finish finish;
    psti_augment_chain_finish(chain, &finish);
    psti_augment_chain_recipe(chain, draw, recipe);
    if (recipe->other != NULL)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "gpu", "%s is done on the CPU", recipe->other);
    prepare->region_y = draw->region_y;
    prepare->region_x = draw->region_x;
    prepare->tables_nbytes = prepare->scratch_nbytes = 0;
    prepare->n_passes = 0;
    prepare->flip_y = recipe->n_steps == 1 && recipe->steps[0].flip_y;
    prepare->flip_x = recipe->n_steps == 1 && recipe->steps[0].flip_x;
    prepare->sink_finishes = is_direct(recipe, is_picture);
    struct growth g = {
        .prepare = prepare,
        .channels = finish.channels,
        .bits = finish.bits,
        .place = is_picture ? PLACE_GIVEN : PLACE_FIRST,
        .height = recipe->region_height,
        .width = recipe->region_width,
    };
    if (!is_picture && !prepare->sink_finishes)
        claim(&g, PLACE_FIRST, g.height, g.width);
    for (uint32_t i = 0; !prepare->sink_finishes && i < recipe->n_steps; i++)
        grow(&g, &recipe->steps[i]);
    if (!prepare->sink_finishes)
        any_pass(&g)->finished = 1;
    grow_erase(&g, recipe);
    if (g.is_too_large)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "gpu",
                         "the picture is too large for its operations");
    if (g.overflows)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "gpu",
                         "the operations need more than %d passes over the picture",
                         PSTI_GPU_MAX_PASSES);
    /* Sums of luma lie after the tables. */
    prepare->tables_nbytes = recipe->tables_nbytes + psti_round_up((size_t)g.n_sums * 8, 64);
    prepare->first_nbytes = g.nbytes[PLACE_FIRST];
    prepare->second_nbytes = g.nbytes[PLACE_SECOND];
    prepare->floats_nbytes = g.nbytes[PLACE_FLOATS];
    prepare->scratch_nbytes = prepare->first_nbytes + prepare->second_nbytes +
                              prepare->floats_nbytes + (size_t)g.n_tables * PSTI_GPU_TABLE_NBYTES;
    return PST_OK;
}

static struct psti_gpu_axis axis_at(const struct psti_recipe_axis *axis, uint64_t tables_at)
{
    struct psti_gpu_axis on_gpu = {
        .start = tables_at + axis->start,
        .taps = tables_at + axis->taps,
        .weights = tables_at + axis->weights,
        .stride = axis->stride,
        .precision = axis->precision,
    };
    return on_gpu;
}

void psti_gpu_prepare_write(const struct psti_chain *chain, const struct psti_draw *draw,
                            struct psti_gpu_prepare *prepare, void *tables, uint64_t tables_at,
                            uint64_t scratch_at, uint64_t picture_at)
{
    struct psti_recipe *recipe = &prepare->recipe;
    if (prepare->n_passes == 0)
        return;
    const uint64_t second_at = scratch_at + prepare->first_nbytes;
    const uint64_t floats_at = second_at + prepare->second_nbytes;
    const uint64_t made_at = floats_at + prepare->floats_nbytes; /* passes' tables */
    const uint64_t places[] = {0, scratch_at, second_at, picture_at, floats_at};
    uint64_t sums_at = tables_at + recipe->tables_nbytes;
    psti_augment_chain_recipe_tables(chain, draw, recipe, tables);
    memset((char *)tables + recipe->tables_nbytes, 0,
           prepare->tables_nbytes - recipe->tables_nbytes);
    const struct psti_recipe_step *step = recipe->steps;
    for (uint32_t i = 0; i < prepare->n_passes; i++) {
        struct psti_gpu_pass *pass = &prepare->passes[i];
        pass->from = places[pass->from];
        pass->to = places[pass->to];
        pass->sum_from = pass->sum_from == 0 ? 0 : sums_at + 8 * (pass->sum_from - 1);
        pass->sum_to = pass->sum_to == 0 ? 0 : sums_at + 8 * (pass->sum_to - 1);
        pass->table = pass->table == 0 ? 0 : made_at + PSTI_GPU_TABLE_NBYTES * (pass->table - 1);
        pass->taps = pass->n_taps == 0 ? 0 : tables_at + pass->taps;
        if (pass->kind != PSTI_GPU_RESIZES)
            continue;
        while (step->kind != PSTI_RECIPE_RESIZE)
            step++;
        pass->axis_y = axis_at(&step->axis_y, tables_at);
        pass->axis_x = axis_at(&step->axis_x, tables_at);
        step++;
    }
}

void psti_gpu_prepare_sink(const struct psti_gpu_prepare *prepare, uint64_t scratch_at,
                           struct psti_gpu_sink *sink)
{
    bool finishes = prepare->sink_finishes;
    sink->at = finishes ? 0 : scratch_at;
    sink->region_y = prepare->region_y;
    sink->region_x = prepare->region_x;
    sink->region_height = prepare->recipe.region_height;
    sink->region_width = prepare->recipe.region_width;
    sink->finished = finishes;
    sink->flip_y = finishes && prepare->flip_y;
    sink->flip_x = finishes && prepare->flip_x;
}

static uint32_t count(uint32_t n, uint32_t step) { return (n + step - 1) / step; }

enum psti_gpu_pass_kernel psti_gpu_pass_kernel(const struct psti_gpu_pass *pass)
{
    static const uint8_t kernels[] = {
        [PSTI_GPU_WINDOW] = PSTI_GPU_PASS_POINT,  [PSTI_GPU_RESIZES] = PSTI_GPU_PASS_RESIZE,
        [PSTI_GPU_MAP] = PSTI_GPU_PASS_MAP,       [PSTI_GPU_SHARPEN] = PSTI_GPU_PASS_FILTER,
        [PSTI_GPU_BLUR_X] = PSTI_GPU_PASS_FILTER, [PSTI_GPU_BLUR_Y] = PSTI_GPU_PASS_FILTER,
        [PSTI_GPU_ERASE] = PSTI_GPU_PASS_FILTER,  [PSTI_GPU_LEVEL] = PSTI_GPU_PASS_TONES,
        [PSTI_GPU_STRETCH] = PSTI_GPU_PASS_TONES,
    };
    return (enum psti_gpu_pass_kernel)kernels[pass->kind];
}

uint32_t psti_gpu_pass_tiles(const struct psti_gpu_pass *pass)
{
    uint32_t rows = pass->kind == PSTI_GPU_RESIZES ? PSTI_GPU_RESIZE_ROWS : PSTI_GPU_POINT_ROWS;
    return count(pass->width, PSTI_GPU_TILE_WIDTH) * count(pass->height, rows);
}

void psti_gpu_prepare_shape(const struct psti_gpu_prepare_args *args,
                            enum psti_gpu_pass_kernel kernel, uint32_t *n_blocks, uint32_t *n_warps,
                            uint32_t *shared_nbytes)
{
    *n_warps = PSTI_GPU_PREPARE_WARPS;
    *n_blocks = args->n_passes * count(args->n_tiles, *n_warps);
    *shared_nbytes = 0;
    if (kernel == PSTI_GPU_PASS_RESIZE)
        *shared_nbytes = *n_warps * PSTI_GPU_RING_NBYTES(args->finish.bits);
    if (kernel == PSTI_GPU_PASS_TONES) { /* psti_gpu_tones has a block for each pass */
        *n_blocks = args->n_passes;
        *shared_nbytes = PSTI_GPU_TONES_NBYTES;
    }
}
