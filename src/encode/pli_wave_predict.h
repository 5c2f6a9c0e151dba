/* pli_wave_predict.h - template: neighbours, predictions and prices of 16 rows.
 *
 * Included once per bit depth and CPU level with NAME(x), NEAR (the struct of neighbours), LANE (16
 * bits for 8-bit samples, else 32), SAMPLE, SIGNED and BITS, price_lane(m), and TARGET and INLINE
 * for the level. Rows are 64 samples whatever the unit's width, so that loops become vectors; what
 * lies beyond the width means nothing. */

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
        for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++) {
            n->s[i][x] = s[x];
            n->u[i][x] = u[x];
            n->uu[i][x] = uu[x];
        }
        for (uint32_t x = 1; x < PSTI_WAVE_EDGE; x++) {
            n->l[i][x] = s[x - 1];
            n->ul[i][x] = u[x - 1];
            n->ur[i][x - 1] = u[x];
        }
        n->l[i][0] = u[0];
        for (uint32_t x = 2; x < PSTI_WAVE_EDGE; x++)
            n->ll[i][x] = s[x - 2];
        n->ll[i][0] = u[0];
        n->ll[i][1] = s[0];
        n->ul[i][0] = u[0];
        n->ur[i][PSTI_WAVE_EDGE - 1] = u[PSTI_WAVE_EDGE - 1];
        n->ur[i][width - 1] = u[width - 1];
        if (y > 0)
            continue;
        memcpy(n->u[0], n->l[0], sizeof n->u[0]);
        memcpy(n->ul[0], n->l[0], sizeof n->ul[0]);
        memcpy(n->ur[0], n->l[0], sizeof n->ur[0]);
        memcpy(n->uu[0], n->l[0], sizeof n->uu[0]);
    }
}

INLINE LANE NAME(med)(LANE l, LANE u, LANE ul)
{
    LANE low = l < u ? l : u, high = l < u ? u : l;
    LANE middle = ul < low ? low : ul;
    middle = middle > high ? high : middle;
    return (LANE)(l + u - middle);
}

/* Residuals of row i. */
INLINE void NAME(simple)(const NEAR *n, const struct psti_wave_candidate *c, uint32_t i,
                         const int16_t *g, const int16_t *r, int16_t *restrict out)
{
    LANE p[PSTI_WAVE_EDGE];
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++) {
        LANE l = n->l[i][x], u = n->u[i][x];
        if (c->predictor == PSTI_PLI_PREDICT_LEFT)
            p[x] = l;
        else if (c->predictor == PSTI_PLI_PREDICT_UP)
            p[x] = u;
        else if (c->predictor == PSTI_PLI_PREDICT_AVERAGE)
            p[x] = (LANE)((l + u) >> 1);
        else
            p[x] = NAME(med)(l, u, n->ul[i][x]);
    }
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++) {
        LANE tap = (LANE)((LANE)(c->a * g[x]) + (LANE)(c->b * r[x]));
        LANE v = (LANE)(p[x] + ((LANE)(tap + 16) >> 5));
        out[x] = (SIGNED)(n->s[i][x] - v);
    }
}

INLINE void NAME(filtered)(const NEAR *n, const struct psti_wave_candidate *c, uint32_t i,
                           const int16_t *g, const int16_t *r, int16_t *restrict out)
{
    LANE k1 = c->k[0], k2 = c->k[1], k3 = c->k[2], k4 = c->k[3], k5 = c->k[4], a = c->a, b = c->b;
    for (uint32_t j = 0; j < PSTI_WAVE_EDGE; j++) {
        LANE l = n->l[i][j], x = (LANE)(32 * l + 16);
        x = (LANE)(x + (LANE)(k1 * (LANE)(n->u[i][j] - l)));
        x = (LANE)(x + (LANE)(k2 * (LANE)(n->ul[i][j] - l)));
        x = (LANE)(x + (LANE)(k3 * (LANE)(n->ur[i][j] - l)));
        x = (LANE)(x + (LANE)(k4 * (LANE)(n->uu[i][j] - l)));
        x = (LANE)(x + (LANE)(k5 * (LANE)(n->ll[i][j] - l)));
        x = (LANE)(x + (LANE)(a * g[j]));
        x = (LANE)(x + (LANE)(b * r[j]));
        LANE v = (LANE)(x >> 5), most = (LANE)((1 << BITS) - 1);
        v = v < 0 ? 0 : v;
        v = v > most ? most : v;
        out[j] = (SIGNED)(n->s[i][j] - v);
    }
}

INLINE void NAME(row)(const NEAR *n, const struct psti_wave_candidate *c, uint32_t i,
                      const int16_t *g, const int16_t *r, int16_t *restrict out)
{
    if (c->predictor == PSTI_PLI_PREDICT_FILTERS)
        NAME(filtered)(n, c, i, g, r, out);
    else
        NAME(simple)(n, c, i, g, r, out);
}

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

static TARGET void NAME(add_prices)(const int16_t *residuals, uint32_t n_rows, uint16_t *sums)
{
    memset(sums, 0, PSTI_WAVE_EDGE * sizeof *sums);
    for (uint32_t i = 0; i < n_rows; i++)
        NAME(add_row)(residuals + i * PSTI_WAVE_EDGE, sums);
}

static TARGET void NAME(try_prices)(const struct psti_wave_work *work,
                                    const struct psti_wave_candidate *c, uint32_t n_rows,
                                    uint32_t step, const int16_t *g, const int16_t *r,
                                    uint16_t *sums)
{
    int16_t out[PSTI_WAVE_EDGE];
    memset(sums, 0, PSTI_WAVE_EDGE * sizeof *sums);
    for (uint32_t i = 0; i < n_rows; i += step) {
        NAME(row)(&work->near.NAME(of), c, i, g + i * PSTI_WAVE_EDGE, r + i * PSTI_WAVE_EDGE, out);
        NAME(add_row)(out, sums);
    }
}

static TARGET void NAME(add_taps)(const int16_t *from, uint32_t n_rows, int8_t a, int8_t b,
                                  const int16_t *g, const int16_t *r, int16_t *restrict to)
{
    for (uint32_t i = 0; i < n_rows * PSTI_WAVE_EDGE; i++) {
        LANE tap = (LANE)((LANE)(a * g[i]) + (LANE)(b * r[i]));
        to[i] = (SIGNED)(from[i] - ((LANE)(tap + 16) >> 5));
    }
}

#undef NAME
#undef NEAR
#undef LANE
#undef SAMPLE
#undef SIGNED
#undef BITS
#undef price_lane
