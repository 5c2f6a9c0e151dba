/* pli_jpeg_idct_some_template.h - transforms the blocks of a unit that are wanted, if not all are.
 * The wanted blocks are moved together and then go through pli_jpeg_idct_template.h.
 *
 * A level includes this file once, after that one, store() and definitions of these:
 *
 *     INDICES                   indices that move some of eight 16-bit values together
 *     moving_together(mask)     the indices for those of eight values whose bit is set
 *     move(to, from, indices)   writes eight values; only the first are right; `from` is aligned */
enum {
    CHUNK = 64, /* blocks that are moved together at a time */
    /* Entries of a plane: those left from before, new ones, and what a store writes beyond its end.
     */
    ROOM = CHUNK + 2 * LANES
};

/* The blocks that have been moved together. They are lanes 0..n-1 of the planes. */
struct gathered {
    struct work work;
    int16_t planes[64][ROOM];
    uint16_t order[ROOM];
    uint32_t n, last; /* planes above `last` are not set */
};
_Static_assert(sizeof(struct gathered) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

/* Adds the wanted blocks among the 64 blocks from list position i on. Their ends are at most
 * `last`. */
TARGET static void gather(const struct psti_pli_jpeg_blocks *blocks, uint32_t i, uint32_t last,
                          struct gathered *g)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    uint64_t mask = psti_pli_jpeg_wanted_of(blocks, i, g->order + g->n);
    INDICES indices[8];
    uint32_t offsets[8], n = g->n;
    for (int j = 0; j < 8; j++) {
        uint32_t eight = (uint32_t)(mask >> (8 * j)) & 255;
        indices[j] = moving_together(eight);
        offsets[j] = n;
        n += (uint32_t)__builtin_popcount(eight);
    }
    if (g->n == 0)
        g->last = last;
    for (uint32_t k = 0; k <= last && n > g->n; k++) {
        const int16_t *from = coefs->planes + k * coefs->stride + i;
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            move(g->planes[k] + offsets[j], from + (ptrdiff_t)8 * j, indices[j]);
    }
    for (uint32_t k = last + 1; k <= g->last; k++) /* earlier blocks have larger ends */
        memset(g->planes[k] + g->n, 0, CHUNK * sizeof g->planes[0][0]);
    g->n = n;
}

/* Transforms whole groups of the gathered blocks and moves the rest to the front. */
TARGET static void do_gathered(const struct unit *unit, uint32_t last, struct gathered *g)
{
    uint32_t done = 0;
    for (; g->n - done >= LANES; done += LANES) {
        struct group group = {g->planes[0] + done, ROOM, g->order + done, LANES, g->last};
        do_group(unit, &group, &g->work);
        g->last = last;
    }
    if (done == 0)
        return;
    g->n -= done;
    memmove(g->order, g->order + done, g->n * sizeof g->order[0]);
    for (uint32_t k = 0; k <= last && g->n > 0; k++)
        store(g->planes[k], load(g->planes[k] + done));
}

TARGET static void some_blocks(const struct unit *unit, struct gathered *g)
{
    const struct psti_pli_coefs *coefs = unit->blocks->coefs;
    uint32_t last = unit->last;
    g->n = 0;
    g->last = last;
    for (uint32_t i = 0; i < coefs->n; i += CHUNK) {
        last = psti_pli_jpeg_end_at(coefs, i, last);
        gather(unit->blocks, i, last, g);
        do_gathered(unit, last, g);
    }
    if (g->n > 0) {
        struct group group = {g->planes[0], ROOM, g->order, g->n, g->last};
        do_group(unit, &group, &g->work);
    }
}
