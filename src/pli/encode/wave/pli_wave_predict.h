/* pli_wave_predict.h - template: neighbours, predictions and estimated costs of 16 rows.
 *
 * A file includes it once per bit depth and CPU level. The file defines NAME(x), NEAR (the struct
 * of neighbours), LANE (16 bits for 8-bit samples, else 32), SAMPLE, SIGNED, BITS, PRODUCTS (the
 * type of a sum of 64 products), price_lane(m), and TARGET and INLINE for the level.
 * PSTI_WAVE_BY_HAND leaves out the functions that have a better form elsewhere; PSTI_WAVE_MOMENTS
 * keeps two of these. Rows have 64 samples whatever the unit's width, so that loops become vectors.
 * Values beyond the width mean nothing. */

static TARGET void NAME(gather)(const struct psti_pli_source *source, uint32_t p, uint32_t y0,
                                struct psti_wave_work *work)
{
    const SAMPLE *plane = source->planes[p];
    uint32_t width = source->width, height = source->height;
    NEAR *restrict n = &work->near.NAME(of);
    uint32_t n_rows = height - y0 < PSTI_WAVE_BLOCK ? height - y0 : PSTI_WAVE_BLOCK;
    for (uint32_t i = 0; i < n_rows; i++) {
        uint32_t y = y0 + i;
        const SAMPLE *s = plane + (size_t)y * PSTI_WAVE_EDGE;
        const SAMPLE *u = y > 0 ? s - PSTI_WAVE_EDGE : s, *uu = y > 1 ? u - PSTI_WAVE_EDGE : u;
        memcpy(n->s[i], s, sizeof n->s[i]);
        memcpy(n->l[i] + 1, s, sizeof n->l[i] - sizeof *s);
        memcpy(n->ll[i] + 2, s, sizeof n->ll[i] - 2 * sizeof *s);
        n->l[i][0] = n->ll[i][0] = u[0];
        n->ll[i][1] = s[0];
        if (y == 0) {
            memcpy(n->u[0], n->l[0], sizeof n->u[0]);
            memcpy(n->ul[0], n->l[0], sizeof n->ul[0]);
            memcpy(n->ur[0], n->l[0], sizeof n->ur[0]);
            memcpy(n->uu[0], n->l[0], sizeof n->uu[0]);
            continue;
        }
        memcpy(n->u[i], u, sizeof n->u[i]);
        memcpy(n->ul[i] + 1, u, sizeof n->ul[i] - sizeof *u);
        memcpy(n->ur[i], u + 1, sizeof n->ur[i] - sizeof *u);
        memcpy(n->uu[i], uu, sizeof n->uu[i]);
        n->ul[i][0] = u[0];
        n->ur[i][PSTI_WAVE_EDGE - 1] = u[PSTI_WAVE_EDGE - 1];
        n->ur[i][width - 1] = u[width - 1];
    }
}

INLINE LANE NAME(med)(LANE l, LANE u, LANE ul)
{
    LANE low = l < u ? l : u, high = l < u ? u : l;
    LANE middle = ul < low ? low : ul;
    middle = middle > high ? high : middle;
    return (LANE)(l + u - middle);
}

/* Computes the residuals of columns x0 .. x0 + n - 1 of row i. `g`, `r` and `out` begin at that
 * row. */
INLINE void NAME(simple)(const NEAR *near, const struct psti_wave_candidate *c, uint32_t i,
                         uint32_t x0, uint32_t n, const int16_t *g, const int16_t *r,
                         int16_t *restrict out)
{
    LANE p[PSTI_WAVE_EDGE];
    for (uint32_t x = x0; x < x0 + n; x++) {
        LANE l = near->l[i][x], u = near->u[i][x];
        if (c->predictor == PSTI_PLI_PREDICT_LEFT)
            p[x] = l;
        else if (c->predictor == PSTI_PLI_PREDICT_UP)
            p[x] = u;
        else if (c->predictor == PSTI_PLI_PREDICT_AVERAGE)
            p[x] = (LANE)((l + u) >> 1);
        else
            p[x] = NAME(med)(l, u, near->ul[i][x]);
    }
    for (uint32_t x = x0; x < x0 + n; x++) {
        LANE tap = (LANE)((LANE)(c->a * g[x]) + (LANE)(c->b * r[x]));
        LANE v = (LANE)(p[x] + ((LANE)(tap + 16) >> 5));
        out[x] = (SIGNED)(near->s[i][x] - v);
    }
}

INLINE void NAME(filtered)(const NEAR *near, const struct psti_wave_candidate *c, uint32_t i,
                           uint32_t x0, uint32_t n, const int16_t *g, const int16_t *r,
                           int16_t *restrict out)
{
    LANE k1 = c->k[0], k2 = c->k[1], k3 = c->k[2], k4 = c->k[3], k5 = c->k[4], a = c->a, b = c->b;
    for (uint32_t j = x0; j < x0 + n; j++) {
        LANE l = near->l[i][j], x = (LANE)(32 * l + 16);
        x = (LANE)(x + (LANE)(k1 * (LANE)(near->u[i][j] - l)));
        x = (LANE)(x + (LANE)(k2 * (LANE)(near->ul[i][j] - l)));
        x = (LANE)(x + (LANE)(k3 * (LANE)(near->ur[i][j] - l)));
        x = (LANE)(x + (LANE)(k4 * (LANE)(near->uu[i][j] - l)));
        x = (LANE)(x + (LANE)(k5 * (LANE)(near->ll[i][j] - l)));
        x = (LANE)(x + (LANE)(a * g[j]));
        x = (LANE)(x + (LANE)(b * r[j]));
        LANE v = (LANE)(x >> 5), most = (LANE)((1 << BITS) - 1);
        v = v < 0 ? 0 : v;
        v = v > most ? most : v;
        out[j] = (SIGNED)(near->s[i][j] - v);
    }
}

INLINE void NAME(row)(const NEAR *n, const struct psti_wave_candidate *c, uint32_t i,
                      const int16_t *g, const int16_t *r, int16_t *restrict out)
{
    if (c->predictor == PSTI_PLI_PREDICT_FILTERS)
        NAME(filtered)(n, c, i, 0, PSTI_WAVE_EDGE, g, r, out);
    else
        NAME(simple)(n, c, i, 0, PSTI_WAVE_EDGE, g, r, out);
}

#ifndef PSTI_WAVE_BY_HAND
static TARGET void NAME(find_block)(const struct psti_wave_work *work,
                                    const struct psti_wave_candidate *c, uint32_t n_rows,
                                    uint32_t x0, const int16_t *g, const int16_t *r, int16_t *out)
{
    const NEAR *n = &work->near.NAME(of);
    bool filtered = c->predictor == PSTI_PLI_PREDICT_FILTERS;
    for (uint32_t i = 0; i < n_rows; i++) {
        size_t at = (size_t)i * PSTI_WAVE_EDGE;
        if (filtered)
            NAME(filtered)(n, c, i, x0, PSTI_WAVE_BLOCK, g + at, r + at, out + at);
        else
            NAME(simple)(n, c, i, x0, PSTI_WAVE_BLOCK, g + at, r + at, out + at);
    }
}
#endif

static TARGET void NAME(find_residuals)(const struct psti_wave_work *work,
                                        const struct psti_wave_candidate *c, uint32_t n_rows,
                                        const int16_t *g, const int16_t *r, int16_t *out)
{
    for (uint32_t i = 0; i < n_rows; i++)
        NAME(row)
    (&work->near.NAME(of), c, i, g + i * PSTI_WAVE_EDGE, r + i * PSTI_WAVE_EDGE,
     out + i * PSTI_WAVE_EDGE);
}

static TARGET void NAME(find_row)(const struct psti_wave_work *work,
                                  const struct psti_wave_candidate *c, uint32_t i, const int16_t *g,
                                  const int16_t *r, int16_t *out)
{
    NAME(row)(&work->near.NAME(of), c, i, g, r, out);
}

INLINE void NAME(add_row)(const int16_t *residuals, uint16_t *sums)
{
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++) {
        LANE m = residuals[x] < 0 ? (LANE)-residuals[x] : (LANE)residuals[x];
        sums[x] = (uint16_t)(sums[x] + price_lane(m));
    }
}

#ifndef PSTI_WAVE_BY_HAND
static TARGET uint64_t NAME(price)(const struct psti_pli_source *source, const int16_t *residuals)
{
    uint64_t sum = 0;
    for (uint32_t y0 = 0; y0 < source->height; y0 += PSTI_WAVE_BLOCK) {
        uint16_t sums[PSTI_WAVE_EDGE] = {0};
        for (uint32_t y = y0; y < y0 + PSTI_WAVE_BLOCK && y < source->height; y++)
            NAME(add_row)(residuals + (size_t)y * PSTI_WAVE_EDGE, sums);
        for (uint32_t x = 0; x < source->width; x++)
            sum += sums[x];
    }
    return sum;
}

static TARGET void NAME(try_simple)(const struct psti_pli_source *source, uint32_t plane,
                                    uint32_t from, struct psti_wave_work *work, uint64_t prices[4])
{
    for (uint32_t y0 = 0; y0 < source->height; y0 += PSTI_WAVE_BLOCK) {
        uint32_t left = source->height - y0,
                 n_rows = left < PSTI_WAVE_BLOCK ? left : PSTI_WAVE_BLOCK;
        NAME(gather)(source, plane, y0, work);
        for (uint32_t i = from; i < 4; i++) {
            struct psti_wave_candidate candidate = {.predictor = (uint8_t)(i + 1)};
            NAME(find_residuals)
            (work, &candidate, n_rows, work->zeros, work->zeros,
             work->trial[i] + (size_t)y0 * PSTI_WAVE_EDGE);
        }
    }
    for (uint32_t i = from; i < 4; i++)
        prices[i] = NAME(price)(source, work->trial[i]);
}
#endif

#if !defined(PSTI_WAVE_BY_HAND) || defined(PSTI_WAVE_MOMENTS)
static TARGET void NAME(add_moments)(const struct psti_pli_source *source, const int16_t *g,
                                     const int16_t *r, const int16_t *s,
                                     struct psti_wave_moments *m)
{
    for (uint32_t y = 0; y < source->height; y++) {
        PRODUCTS gg = 0, gr = 0, rr = 0, gs = 0, rs = 0; /* with 8 bits: 64 products of 15 bits */
        for (uint32_t x = 0; x < source->width; x++) {
            gg += (PRODUCTS)g[x] * g[x];
            gr += (PRODUCTS)g[x] * r[x];
            rr += (PRODUCTS)r[x] * r[x];
            gs += (PRODUCTS)g[x] * s[x];
            rs += (PRODUCTS)r[x] * s[x];
        }
        *m = (struct psti_wave_moments){m->gg + gg, m->gr + gr, m->rr + rr, m->gs + gs, m->rs + rs};
        g += PSTI_WAVE_EDGE;
        r += PSTI_WAVE_EDGE;
        s += PSTI_WAVE_EDGE;
    }
}
#endif

INLINE void NAME(add_taps_to)(const int16_t *from, uint32_t n, int8_t a, int8_t b, const int16_t *g,
                              const int16_t *r, int16_t *restrict to)
{
    for (uint32_t i = 0; i < n; i++) {
        LANE tap = (LANE)((LANE)(a * g[i]) + (LANE)(b * r[i]));
        to[i] = (SIGNED)(from[i] - ((LANE)(tap + 16) >> 5));
    }
}

static TARGET void NAME(add_taps)(const int16_t *from, uint32_t n_rows, int8_t a, int8_t b,
                                  const int16_t *g, const int16_t *r, int16_t *restrict to)
{
    NAME(add_taps_to)(from, n_rows * PSTI_WAVE_EDGE, a, b, g, r, to);
}

#if !defined(PSTI_WAVE_BY_HAND) || defined(PSTI_WAVE_MOMENTS)
static TARGET uint64_t NAME(price_taps)(const struct psti_pli_source *source, const int16_t *from,
                                        int8_t a, int8_t b, const int16_t *g, const int16_t *r)
{
    uint64_t sum = 0;
    for (uint32_t y0 = 0; y0 < source->height; y0 += PSTI_WAVE_BLOCK) {
        uint16_t sums[PSTI_WAVE_EDGE] = {0};
        for (uint32_t y = y0; y < y0 + PSTI_WAVE_BLOCK && y < source->height; y++) {
            size_t at = (size_t)y * PSTI_WAVE_EDGE;
            int16_t row[PSTI_WAVE_EDGE];
            NAME(add_taps_to)(from + at, PSTI_WAVE_EDGE, a, b, g + at, r + at, row);
            NAME(add_row)(row, sums);
        }
        for (uint32_t x = 0; x < source->width; x++)
            sum += sums[x];
    }
    return sum;
}
#endif

#undef NAME
#undef NEAR
#undef LANE
#undef SAMPLE
#undef SIGNED
#undef BITS
#undef PRODUCTS
#undef price_lane
