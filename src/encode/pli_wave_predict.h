/* pli_wave_predict.h - template: neighbours and predictions of 16 rows.
 *
 * Included by pli_wave_predict.c once per bit depth with NAME(x), LANE (16 bits for 8-bit samples,
 * else 32), SAMPLE, SIGNED and BITS. Rows are 64 samples whatever the unit's width, so that loops
 * are vectors; what lies beyond the width means nothing. */

static void NAME(gather)(const SAMPLE *plane, uint32_t width, uint32_t height, uint32_t y0,
                         struct NAME(psti_wave_near) * n)
{
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

static inline LANE NAME(med)(LANE l, LANE u, LANE ul)
{
    LANE low = l < u ? l : u, high = l < u ? u : l;
    LANE middle = ul < low ? low : ul;
    middle = middle > high ? high : middle;
    return (LANE)(l + u - middle);
}

static void NAME(simple)(const struct NAME(psti_wave_near) * n, const struct psti_wave_candidate *c,
                         uint32_t i, const int16_t *g, const int16_t *r, int16_t *restrict out)
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

static void NAME(filtered)(const struct NAME(psti_wave_near) * n,
                           const struct psti_wave_candidate *c, uint32_t i, const int16_t *g,
                           const int16_t *r, int16_t *restrict out)
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

static void NAME(try)(const struct NAME(psti_wave_near) * n, const struct psti_wave_candidate *c,
                      uint32_t n_rows, const int16_t *g, const int16_t *r, int16_t *out)
{
    for (uint32_t i = 0; i < n_rows; i++, g += PSTI_WAVE_EDGE, r += PSTI_WAVE_EDGE) {
        if (c->predictor == PSTI_PLI_PREDICT_FILTERS)
            NAME(filtered)(n, c, i, g, r, out + (size_t)i * PSTI_WAVE_EDGE);
        else
            NAME(simple)(n, c, i, g, r, out + (size_t)i * PSTI_WAVE_EDGE);
    }
}
