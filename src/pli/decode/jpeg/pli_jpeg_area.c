/* pli_jpeg_area.c - finds the samples, blocks and units of a JPEG's components that a region needs
 * (docs/format-pli.md, sections 7 to 9). The functions are pure; any thread may call them. */
#include "pli/pli.h"

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Sets the range of samples [*first, *end), out of n, that `count` pixels from pixel `from` on
 * need. With `margin` the range has one more sample on each side, if it exists. */
static void samples_of(uint32_t from, uint32_t count, uint32_t per_sample, bool margin, uint32_t n,
                       uint32_t *first, uint32_t *end)
{
    uint32_t a = from / per_sample, b = (from + count - 1) / per_sample + 1;
    *first = margin && a > 0 ? a - 1 : a;
    *end = margin && b < n ? b + 1 : b;
}

/* Sets the range of blocks, out of n, that hold these samples, out of `n_samples`. At the
 * component's end it includes the blocks that only fill up the last MCU, because the last units are
 * decoded whole. */
static void blocks_of(uint32_t first, uint32_t end, uint32_t block, uint32_t n_samples, uint32_t n,
                      uint32_t *from, uint32_t *to)
{
    *from = first / block;
    *to = end == n_samples ? n : (end - 1) / block + 1;
}

void psti_pli_jpeg_find_needs(const struct psti_jpeg_frame *frame, uint32_t block,
                              const struct pst_pli_region *region,
                              struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX])
{
    for (uint32_t i = 0; i < frame->n_components; i++) {
        const struct psti_jpeg_component *c = &frame->components[i];
        struct psti_pli_jpeg_need *need = &needs[i];
        uint32_t across = frame->h / c->h, down = frame->v / c->v;
        need->across_log2 = (uint8_t)__builtin_ctz(across);
        need->down_log2 = (uint8_t)__builtin_ctz(down);
        need->sideways = across == 2 && down <= 2 && c->width > 2;
        need->upright = down == 2 && (across == 1 || need->sideways);
        samples_of(region->x, region->width, across, need->sideways, c->width, &need->x0,
                   &need->x1);
        samples_of(region->y, region->height, down, need->upright, c->height, &need->y0, &need->y1);
        blocks_of(need->x0, need->x1, block, c->width, c->columns, &need->column0, &need->column1);
        blocks_of(need->y0, need->y1, block, c->height, c->rows, &need->row0, &need->row1);
    }
}

struct psti_pli_span psti_pli_jpeg_find_span(const struct psti_jpeg_frame *frame,
                                             uint32_t unit_log2,
                                             const struct psti_pli_jpeg_need *needs)
{
    struct psti_pli_span span = {UINT32_MAX, 0, UINT32_MAX, 0};
    for (uint32_t i = 0; i < frame->n_components; i++) {
        uint32_t columns =
            (1u << (unit_log2 - 3)) >> needs[i].across_log2; /* columns of blocks in a unit */
        uint32_t rows = (1u << (unit_log2 - 3)) >> needs[i].down_log2;
        span.column0 = least(span.column0, needs[i].column0 / columns);
        span.column1 = most(span.column1, (needs[i].column1 - 1) / columns + 1);
        span.row0 = least(span.row0, needs[i].row0 / rows);
        span.row1 = most(span.row1, (needs[i].row1 - 1) / rows + 1);
    }
    return span;
}
