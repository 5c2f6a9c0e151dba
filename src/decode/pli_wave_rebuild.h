/* pli_wave_rebuild.h - template: predictions of one step of the wave, all 32 lanes at once.
 *
 * Included by pli_wave_c.c for 16-bit samples with
 *   WAVE(name)  the name with the depth behind it
 *   LANE        signed lane type: 32 bits, as the law computes modulo 2^32
 *   SAMPLE, SIGNED, BITS of the planes
 * The loops have 32 rounds and no conditions, so that compilers turn them into vectors. */

#define CAST(v) ((LANE)(v))
#define SELECT(mask, a, b) CAST(((a) & (mask)) | ((b) & ~(mask)))

static LANE *WAVE(row)(struct WAVE(history) * h, uint32_t step)
{
    return h->rows[step % HISTORY] + HISTORY_PREFIX;
}

static void WAVE(gather)(struct WAVE(history) * h, uint32_t t, const struct edges *edges,
                         struct WAVE(near) *restrict n)
{
    const LANE *r1 = WAVE(row)(h, t - 1), *r2 = WAVE(row)(h, t - 2), *r3 = WAVE(row)(h, t - 3);
    const LANE *r4 = WAVE(row)(h, t - 4);
    const int16_t *column0 = edges->column0, *column1 = edges->column1, *last = edges->last;
    const int16_t *row0 = edges->row0, *row1 = edges->row1;
    for (uint32_t i = 0; i < LANES; i++) {
        LANE l = r1[i], u = r2[(int)i - 1], ul = r3[(int)i - 1], ur = r1[(int)i - 1];
        LANE uu = r4[(int)i - 2], ll = r2[i];
        LANE c0 = column0[i], c1 = column1[i], y0 = row0[i], y1 = row1[i], z = last[i];
        l = SELECT(c0, u, l);
        ul = SELECT(c0, u, ul);
        ll = SELECT(c0 | c1, l, ll);
        u = SELECT(y0, l, u);
        ul = SELECT(y0, l, ul);
        ur = SELECT(y0, l, ur);
        ur = SELECT(z, u, ur);
        uu = SELECT(y0 | y1, u, uu);
        n->l[i] = l;
        n->u[i] = u;
        n->ul[i] = ul;
        n->ur[i] = ur;
        n->uu[i] = uu;
        n->ll[i] = ll;
    }
}

static inline LANE WAVE(least)(LANE a, LANE b) { return a < b ? a : b; }
static inline LANE WAVE(most)(LANE a, LANE b) { return a > b ? a : b; }
static inline LANE WAVE(med)(LANE l, LANE u, LANE ul)
{
    LANE low = WAVE(least)(l, u), high = WAVE(most)(l, u);
    return CAST(l + u - WAVE(least)(WAVE(most)(ul, low), high));
}

/* Predictors 1..4 with taps; `g` and `r` are the residuals of planes 0 and 1. */
static void WAVE(simple)(const struct psti_pli_wave_plane *plane, const struct WAVE(near) * n,
                         const int16_t *g, const int16_t *r, LANE *restrict p)
{
    switch (plane->predictor) {
    case PSTI_PLI_PREDICT_LEFT:
        memcpy(p, n->l, sizeof n->l);
        break;
    case PSTI_PLI_PREDICT_UP:
        memcpy(p, n->u, sizeof n->u);
        break;
    case PSTI_PLI_PREDICT_AVERAGE:
        for (uint32_t i = 0; i < LANES; i++)
            p[i] = CAST(CAST(n->l[i] + n->u[i]) >> 1);
        break;
    default:
        for (uint32_t i = 0; i < LANES; i++)
            p[i] = WAVE(med)(n->l[i], n->u[i], n->ul[i]);
    }
    if (plane->a == 0 && plane->b == 0)
        return;
    for (uint32_t i = 0; i < LANES; i++) {
        LANE tap = CAST(CAST(plane->a * g[i]) + CAST(plane->b * r[i]));
        p[i] = CAST(p[i] + (CAST(tap + 16) >> 5));
    }
}

static void WAVE(filtered)(const struct coefficients *c, const struct WAVE(near) * n,
                           const int16_t *g, const int16_t *r, LANE *restrict p)
{
    for (uint32_t i = 0; i < LANES; i++) {
        LANE l = n->l[i], x = CAST(32 * l + 16);
        x = CAST(x + CAST(c->k[0][i] * CAST(n->u[i] - l)));
        x = CAST(x + CAST(c->k[1][i] * CAST(n->ul[i] - l)));
        x = CAST(x + CAST(c->k[2][i] * CAST(n->ur[i] - l)));
        x = CAST(x + CAST(c->k[3][i] * CAST(n->uu[i] - l)));
        x = CAST(x + CAST(c->k[4][i] * CAST(n->ll[i] - l)));
        x = CAST(x + CAST(c->k[5][i] * g[i]));
        x = CAST(x + CAST(c->k[6][i] * r[i]));
        LANE v = CAST(x >> 5);
        v = WAVE(least)(WAVE(most)(v, 0), CAST((1 << BITS) - 1));
        LANE med = WAVE(med)(n->l[i], n->u[i], n->ul[i]), is_med = c->med[i];
        p[i] = SELECT(is_med, med, v);
    }
}

static void WAVE(predict)(const struct psti_pli_wave_plane *plane, const struct wave *w, uint32_t t,
                          const struct WAVE(near) * n, LANE *restrict p)
{
    const int16_t *g = residuals_of(w, t, plane, plane->index0);
    const int16_t *r = residuals_of(w, t, plane, plane->index1);
    if (plane->predictor == PSTI_PLI_PREDICT_FILTERS)
        WAVE(filtered)(&w->coefficients, n, g, r, p);
    else
        WAVE(simple)(plane, n, g, r, p);
}

/* Lanes to the rows of their planes: lane l is 2 columns behind lane l - 1, one row below. */
static void WAVE(scatter)(const struct wave *w, uint32_t t, const LANE *from)
{
    SAMPLE *samples = (SAMPLE *)(void *)w->samples;
    uint32_t band = t >> 6, n = front_lane(t) + 1;
    if (band < w->head->n_bands) {
        SAMPLE *to = samples + band_sample(w, band) + (t & 63);
        for (uint32_t l = 0; l < n; l++)
            to[l * (EDGE - 2)] = (SAMPLE)from[l];
    }
    if (band > 0) {
        SAMPLE *to = samples + band_sample(w, band - 1) + (t & 63) + EDGE;
        for (uint32_t l = n; l < LANES; l++)
            to[l * (EDGE - 2)] = (SAMPLE)from[l];
    }
}

/* Samples of step t of all lanes, from their residuals; they go to the history and to `out`. */
static void WAVE(step)(struct wave *w, struct WAVE(history) * h, uint32_t t)
{
    struct WAVE(near) n;
    _Alignas(64) LANE p[LANES], q[LANES];
    struct edges edges;
    find_edges(w, t, &edges);
    if (edges.start >= 0)
        WAVE(row)(h, t - 2)[-1] = (LANE)edges.start;
    WAVE(gather)(h, t, &edges, &n);
    const struct psti_pli_wave_plane *front = plane_of(w, t >> 6);
    const struct psti_pli_wave_plane *rear = plane_of(w, (t >> 6) - 1);
    if (front)
        WAVE(predict)(front, w, t, &n, p);
    if (rear && rear != front) {
        WAVE(predict)(rear, w, t, &n, q);
        if (!front)
            memcpy(p, q, sizeof p);
        else
            for (uint32_t i = 0; i < LANES; i++)
                p[i] = SELECT((LANE)edges.front[i], p[i], q[i]);
    }
    LANE *to = WAVE(row)(h, t);
    int16_t *residuals = w->residuals + (size_t)t * LANES;
    /* A magnitude beyond the law's range wraps, for the taps of later planes too. */
    for (uint32_t i = 0; i < LANES; i++)
        residuals[i] = (SIGNED)residuals[i];
    for (uint32_t i = 0; i < LANES; i++)
        to[i] = CAST((p[i] + residuals[i]) & ((1 << BITS) - 1));
    to[-1] = to[LANES - 1];
    to[-2] = to[LANES - 2];
    WAVE(scatter)(w, t, to);
}

static void WAVE(rebuild)(struct wave *w)
{
    struct WAVE(history) history;
    memset(&history, 0, sizeof history);
    for (uint32_t t = 0; t < w->head->n_steps; t++) {
        update_coefficients(w, t);
        find_residuals(w, t);
        WAVE(step)(w, &history, t);
    }
}

#undef CAST
#undef SELECT
