/* gpu_prepare.c - turns recipes into passes.
 *
 * From a chain and a draw it makes the passes of one row, the bytes that are uploaded for them, and
 * the place where the decoder stores its pixels. The functions write only the caller's memory; any
 * thread may call them.
 *
 * Each resize, window, map or filter needs a whole picture and opens a new pass. The pass also does
 * the operations after it, as long as they work on one pixel at a time. Flips commute with such
 * operations, so they are done when the result is written. Pictures alternate between two places in
 * scratch, those of a branch of AugMix between two places of the branch. All branches begin in the
 * same turn. */
#include "gpu/work/gpu_prepare.h"

#include "base/bits.h"
#include "base/fail.h"

#include <assert.h>
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

/* Places of pictures and of planes of floats between passes. They lie in scratch, except
 * PLACE_GIVEN, where the decoder stored the picture. The sink stores pictures in PLACE_FIRST. */
enum place {
    PLACE_FIRST,
    PLACE_SECOND,
    PLACE_BRANCHES,                                                 /* two places for each branch */
    PLACE_FLOATS_X = PLACE_BRANCHES + 2 * PSTI_RECIPE_MAX_BRANCHES, /* of blurs */
    PLACE_FLOATS_Y,
    PLACE_SHIFTS_X, /* of elastic warps */
    PLACE_SHIFTS_Y,
    N_SCRATCH_PLACES,
    PLACE_GIVEN = N_SCRATCH_PLACES,
    N_PLACES
};
static_assert(N_SCRATCH_PLACES == PSTI_GPU_MAX_PLACES, "bytes of each place");
static_assert(PSTI_GPU_MIX_MAX == 1 + PSTI_RECIPE_MAX_BRANCHES, "the kept picture and branches");
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
    uint32_t turn;          /* of the next pass */
    /* Between SPLIT and MIX: the number of branches so far, the pictures so far, the kept one
     * first, its place, the turn in which branches begin, and the turn after all branches so far.
     */
    uint32_t n_branches;
    struct psti_gpu_mix mix;
    enum place kept;
    uint32_t split_turn, mix_turn;
    uint32_t n_sums, n_tables;
    bool overflows, is_too_large;
};

/* Opens a pass. Until addresses are known, the pass holds numbers instead: place + 1 for pictures
 * and planes, number + 1 for sums and tables, the offset for taps, and the offset + 1 for labels.
 */
static struct psti_gpu_pass *open_pass(struct growth *g, enum psti_gpu_pass_kind kind,
                                       uint32_t height, uint32_t width)
{
    struct psti_gpu_prepare *prepare = g->prepare;
    if (prepare->n_passes == PSTI_GPU_MAX_PASSES || g->turn == PSTI_GPU_MAX_TURNS) {
        g->overflows = true; /* the row will be refused, so passes may be wrong */
        prepare->n_passes -= prepare->n_passes == PSTI_GPU_MAX_PASSES;
        g->turn = 0;
    }
    struct psti_gpu_pass *pass = &prepare->passes[prepare->n_passes++];
    memset(pass, 0, sizeof *pass);
    pass->kind = (uint8_t)kind;
    pass->turn = (uint8_t)g->turn++;
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

/* Reserves memory in a place for height x width pixels of pixel_nbytes. */
static void claim(struct growth *g, enum place place, uint32_t height, uint32_t width,
                  uint32_t pixel_nbytes)
{
    size_t *most = &g->prepare->place_nbytes[place];
    size_t nbytes = (size_t)height * width * pixel_nbytes + PSTI_GPU_SLACK;
    nbytes = psti_round_up(nbytes, 64);
    *most = nbytes > *most ? nbytes : *most;
}

static uint32_t pixel_nbytes(const struct growth *g) { return g->channels * (g->bits / 8); }

/* Closes the open pass, if there is one, which writes a picture. */
static void close_pass(struct growth *g)
{
    if (g->pass == NULL)
        return;
    uint32_t first = g->n_branches == 0 ? PLACE_FIRST : PLACE_BRANCHES + 2 * (g->n_branches - 1);
    enum place place = (enum place)(g->place == (enum place)first ? first + 1 : first);
    claim(g, place, g->pass->height, g->pass->width, pixel_nbytes(g));
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
        uint8_t turn = open_pass(g, PSTI_GPU_WINDOW, before.height, before.width)->turn;
        *g->pass = before;
        g->pass->turn = turn;
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

/* Adds MapLabels. A pass has one table for it. */
static void grow_labels(struct growth *g, const struct psti_recipe_step *step)
{
    if (any_pass(g)->labels != 0)
        close_pass(g);
    grow_color(g, PSTI_GPU_LABELS, 0);
    g->pass->labels = step->table + 1;
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
    claim(g, PLACE_FLOATS_X, g->height, g->width, g->channels * (uint32_t)sizeof(float));
    pass->to = (uint64_t)PLACE_FLOATS_X + 1;
    pass->taps = step->taps_x;
    pass->n_taps = step->n_taps_x;
    pass = open_pass(g, PSTI_GPU_BLUR_Y, g->height, g->width);
    pass->from = (uint64_t)PLACE_FLOATS_X + 1;
    pass->taps = step->taps_y;
    pass->n_taps = step->n_taps_y;
}

static struct psti_gpu_stream stream_of(const struct psti_recipe_stream *from)
{
    return (struct psti_gpu_stream){
        .sample = from->sample, .key = {from->key[0], from->key[1]}, .number = from->number};
}

/* Adds the passes that make the displacements along one axis of an elastic warp: noise, then,
 * unless they are not blurred, two passes of a blur. */
static void grow_shifts(struct growth *g, const struct psti_recipe_step *step, uint32_t axis)
{
    const struct psti_recipe_shifts *shifts = &step->shifts[axis];
    const uint64_t floats = PLACE_FLOATS_X + axis + 1, made = PLACE_SHIFTS_X + axis + 1;
    const uint64_t n_tries = ((uint64_t)g->height * g->width + 3) / 4;
    const uint32_t n_rows = (uint32_t)((n_tries + PSTI_GPU_TILE_WIDTH - 1) / PSTI_GPU_TILE_WIDTH);
    struct psti_gpu_pass *pass = open_pass(g, PSTI_GPU_SHIFTS, n_rows, PSTI_GPU_TILE_WIDTH);
    pass->stream = stream_of(&step->stream);
    pass->stream.axis = axis;
    pass->scale = shifts->n_taps == 0 ? shifts->scale : 1;
    pass->to = made;
    claim(g, (enum place)(made - 1), g->height, g->width, (uint32_t)sizeof(float));
    for (int k = 0; k < 2 && shifts->n_taps != 0; k++) {
        pass = open_pass(g, k == 0 ? PSTI_GPU_SHIFTS_X : PSTI_GPU_SHIFTS_Y, g->height, g->width);
        pass->taps = shifts->taps;
        pass->n_taps = shifts->n_taps;
        pass->scale = shifts->scale;
        pass->from = k == 0 ? made : floats;
        pass->to = k == 0 ? floats : made;
        claim(g, (enum place)(floats - 1), g->height, g->width, (uint32_t)sizeof(float));
    }
    g->pass = NULL;
}

/* Adds a map. Its displacements are made before it, those of both axes in the same turns. */
static void grow_map(struct growth *g, const struct psti_recipe_step *step)
{
    close_pass(g);
    const uint32_t turn = g->turn;
    uint32_t last = turn;
    for (uint32_t axis = 0; step->is_elastic && axis < 2; axis++) {
        g->turn = turn;
        grow_shifts(g, step, axis);
        last = g->turn > last ? g->turn : last;
    }
    g->turn = last;
    struct psti_gpu_pass *pass = open_over(g, PSTI_GPU_MAP);
    memcpy(pass->map.m, step->map, sizeof pass->map.m);
    for (uint32_t axis = 0; step->is_elastic && axis < 2; axis++)
        pass->map.shifts[axis] = PLACE_SHIFTS_X + axis + 1;
    memcpy(pass->fill, step->fill, sizeof pass->fill);
    pass->nearest = step->nearest;
    pass->blends = step->blends;
}

static void grow_split(struct growth *g, const struct psti_recipe_step *step)
{
    close_pass(g);
    g->kept = g->place;
    g->mix =
        (struct psti_gpu_mix){.from = {(uint64_t)g->kept + 1}, .shares = {step->share}, .n = 1};
    g->split_turn = g->mix_turn = g->turn;
}

/* Ends a branch, if there is one, and goes back to the kept picture. */
static void end_branch(struct growth *g)
{
    if (g->n_branches == 0)
        return;
    close_pass(g);
    g->mix.from[g->mix.n++] = (uint64_t)g->place + 1;
    g->mix_turn = g->turn > g->mix_turn ? g->turn : g->mix_turn;
    g->turn = g->split_turn;
    g->place = g->kept;
}

static void grow_branch(struct growth *g, const struct psti_recipe_step *step)
{
    end_branch(g);
    g->n_branches++;
    g->mix.shares[g->mix.n] = step->share;
}

static void grow_mix(struct growth *g)
{
    end_branch(g);
    g->n_branches = 0;
    g->turn = g->mix_turn;
    open_pass(g, PSTI_GPU_MIX, g->height, g->width)->mix = g->mix;
}

static void grow_erase(struct growth *g, const struct psti_recipe *recipe)
{
    const struct psti_recipe_erase *erase = &recipe->erase;
    if (erase->height == 0 || erase->width == 0)
        return;
    struct psti_gpu_pass *pass =
        open_pass(g, erase->noise ? PSTI_GPU_NOISE : PSTI_GPU_ERASE, erase->height, erase->width);
    pass->from = 0;
    pass->full_height = recipe->height;
    pass->full_width = recipe->width;
    pass->finished = 1;
    pass->y = (int32_t)erase->y;
    pass->x = (int32_t)erase->x;
    memcpy(pass->elements, erase->elements, sizeof pass->elements);
    if (!erase->noise)
        return;
    pass->stream = stream_of(&erase->stream);
    if ((uint64_t)erase->height * erase->width * g->channels >= MOST_SAMPLES)
        g->is_too_large = true; /* the noise is numbered in 32 bits */
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
    case PSTI_RECIPE_LABELS:
        grow_labels(g, step);
        break;
    case PSTI_RECIPE_SPLIT:
        grow_split(g, step);
        break;
    case PSTI_RECIPE_BRANCH:
        grow_branch(g, step);
        break;
    case PSTI_RECIPE_MIX:
        grow_mix(g);
        break;
    }
}

/* Returns whether a recipe has only a crop and flips, which the decoder's sink can do itself. */
static bool is_direct(const struct psti_recipe *recipe, bool is_picture)
{
    return !is_picture && (recipe->n_steps == 0 ||
                           (recipe->n_steps == 1 && recipe->steps[0].kind == PSTI_RECIPE_FLIP));
}

/* Puts passes in the order of their turns. Those of a turn keep their order. */
static void sort_passes(struct psti_gpu_prepare *prepare)
{
    struct psti_gpu_pass *passes = prepare->passes, moved;
    for (uint32_t i = 1; i < prepare->n_passes; i++) {
        uint32_t to = i;
        while (to > 0 && passes[to - 1].turn > passes[i].turn)
            to--;
        if (to == i)
            continue;
        moved = passes[i];
        memmove(&passes[to + 1], &passes[to], (i - to) * sizeof *passes);
        passes[to] = moved;
    }
}

static enum pst_status check_growth(const struct growth *g, struct pst_error *err)
{
    if (g->is_too_large)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "gpu",
                         "the picture is too large for its operations");
    if (g->overflows)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "gpu",
                         "the operations need more than %d passes over the picture, or more than "
                         "%d one after another",
                         PSTI_GPU_MAX_PASSES, PSTI_GPU_MAX_TURNS);
    return PST_OK;
}

static void grow_all(struct growth *g)
{
    struct psti_gpu_prepare *prepare = g->prepare;
    const struct psti_recipe *recipe = &prepare->recipe;
    if (!prepare->sink_finishes) {
        if (g->place == PLACE_FIRST)
            claim(g, PLACE_FIRST, g->height, g->width, pixel_nbytes(g));
        for (uint32_t i = 0; i < recipe->n_steps; i++)
            grow(g, &recipe->steps[i]);
        any_pass(g)->finished = 1;
    }
    grow_erase(g, recipe);
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
    memset(prepare->place_nbytes, 0, sizeof prepare->place_nbytes);
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
    grow_all(&g);
    enum pst_status status = check_growth(&g, err);
    if (status != PST_OK)
        return status;
    sort_passes(prepare);
    /* Sums of luma lie after the tables. */
    prepare->tables_nbytes = recipe->tables_nbytes + psti_round_up((size_t)g.n_sums * 8, 64);
    prepare->scratch_nbytes = (size_t)g.n_tables * PSTI_GPU_TABLE_NBYTES;
    for (int i = 0; i < N_SCRATCH_PLACES; i++)
        prepare->scratch_nbytes += prepare->place_nbytes[i];
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

/* Replaces the numbers of places by their addresses. places[0] is 0, for no picture. */
static void set_places(struct psti_gpu_pass *pass, const uint64_t places[N_PLACES + 1])
{
    pass->from = places[pass->from];
    pass->to = places[pass->to];
    for (uint32_t i = 0; pass->kind == PSTI_GPU_MIX && i < pass->mix.n; i++)
        pass->mix.from[i] = places[pass->mix.from[i]];
    for (int axis = 0; pass->kind == PSTI_GPU_MAP && axis < 2; axis++)
        pass->map.shifts[axis] = places[pass->map.shifts[axis]];
}

void psti_gpu_prepare_write(const struct psti_chain *chain, const struct psti_draw *draw,
                            struct psti_gpu_prepare *prepare, void *tables, uint64_t tables_at,
                            uint64_t scratch_at, uint64_t picture_at)
{
    struct psti_recipe *recipe = &prepare->recipe;
    if (prepare->n_passes == 0)
        return;
    uint64_t places[N_PLACES + 1] = {0}, made_at = scratch_at; /* made_at: of passes' tables */
    for (int i = 0; i < N_SCRATCH_PLACES; i++) {
        places[i + 1] = made_at;
        made_at += prepare->place_nbytes[i];
    }
    places[PLACE_GIVEN + 1] = picture_at;
    uint64_t sums_at = tables_at + recipe->tables_nbytes;
    psti_augment_chain_recipe_tables(chain, draw, recipe, tables);
    memset((char *)tables + recipe->tables_nbytes, 0,
           prepare->tables_nbytes - recipe->tables_nbytes);
    const struct psti_recipe_step *step = recipe->steps;
    for (uint32_t i = 0; i < prepare->n_passes; i++) {
        struct psti_gpu_pass *pass = &prepare->passes[i];
        set_places(pass, places);
        pass->sum_from = pass->sum_from == 0 ? 0 : sums_at + 8 * (pass->sum_from - 1);
        pass->sum_to = pass->sum_to == 0 ? 0 : sums_at + 8 * (pass->sum_to - 1);
        pass->table = pass->table == 0 ? 0 : made_at + PSTI_GPU_TABLE_NBYTES * (pass->table - 1);
        pass->taps = pass->n_taps == 0 ? 0 : tables_at + pass->taps;
        pass->labels = pass->labels == 0 ? 0 : tables_at + pass->labels - 1;
        if (pass->kind != PSTI_GPU_RESIZES)
            continue;
        while (step->kind != PSTI_RECIPE_RESIZE)
            step++;
        pass->axes.y = axis_at(&step->axis_y, tables_at);
        pass->axes.x = axis_at(&step->axis_x, tables_at);
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

void psti_gpu_prepare_estimate(const struct psti_chain *chain, uint32_t height, uint32_t width,
                               const struct psti_gpu_finish *finish,
                               struct psti_gpu_prepare_more *more)
{
    struct psti_recipe_bound bound;
    const size_t pixel = finish->channels * (finish->bits / 8u), rest = PSTI_GPU_SLACK + 64;
    psti_augment_chain_recipe_bound(chain, height, width, &bound);
    *more = (struct psti_gpu_prepare_more){0};
    if (bound.blurs)
        more->scratch_nbytes +=
            (size_t)finish->out_height * finish->out_width * finish->channels * sizeof(float);
    if (bound.shifts_pixels > 0) {
        more->scratch_nbytes += 4 * ((size_t)bound.shifts_pixels * sizeof(float) + rest);
        more->n_passes += 6; /* and the map, which other warps have, too */
    }
    if (bound.split_pixels > 0) {
        more->scratch_nbytes += 2 * bound.n_branches * ((size_t)bound.split_pixels * pixel + rest);
        more->n_passes += 2 * bound.n_branches * bound.depth + 1;
    }
}

static uint32_t count(uint32_t n, uint32_t step) { return (n + step - 1) / step; }

enum psti_gpu_pass_kernel psti_gpu_pass_kernel(const struct psti_gpu_pass *pass)
{
    static const uint8_t kernels[] = {
        [PSTI_GPU_WINDOW] = PSTI_GPU_PASS_POINT,  [PSTI_GPU_RESIZES] = PSTI_GPU_PASS_RESIZE,
        [PSTI_GPU_MAP] = PSTI_GPU_PASS_MAP,       [PSTI_GPU_SHARPEN] = PSTI_GPU_PASS_FILTER,
        [PSTI_GPU_BLUR_X] = PSTI_GPU_PASS_FILTER, [PSTI_GPU_BLUR_Y] = PSTI_GPU_PASS_FILTER,
        [PSTI_GPU_ERASE] = PSTI_GPU_PASS_FILTER,  [PSTI_GPU_LEVEL] = PSTI_GPU_PASS_TONES,
        [PSTI_GPU_STRETCH] = PSTI_GPU_PASS_TONES, [PSTI_GPU_MIX] = PSTI_GPU_PASS_FILTER,
        [PSTI_GPU_SHIFTS] = PSTI_GPU_PASS_NOISE,  [PSTI_GPU_SHIFTS_X] = PSTI_GPU_PASS_FILTER,
        [PSTI_GPU_NOISE] = PSTI_GPU_PASS_NOISE,   [PSTI_GPU_SHIFTS_Y] = PSTI_GPU_PASS_FILTER,
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
