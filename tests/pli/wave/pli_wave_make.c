/* pli_wave_make.c - a slow encoder that makes wave units from random residuals
 * (docs/format-pli.md, section 5).
 *
 * It draws tokens in the order of decoding, because their contexts depend on earlier tokens.
 * Then it runs the 32 rANS states backwards over them. Prediction does not matter here: decoders
 * only have to agree on the pixels that the residuals give. */
#include "pli/wave/pli_wave_make.h"

#include <string.h>

uint32_t pli_wave_random(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

struct bits {
    uint8_t *bytes;
    size_t n;
};
static void put(struct bits *b, uint32_t value, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, b->n++) {
        if ((b->n & 7) == 0)
            b->bytes[b->n >> 3] = 0;
        b->bytes[b->n >> 3] |= (uint8_t)(((value >> i) & 1) << (b->n & 7));
    }
}

enum { MAX_TOKENS = 4 * 64 * 64 };
struct event {
    uint8_t lane, context, token;
};
struct making {
    const struct pli_wave_recipe *recipe;
    const struct pli_wave_freqs *freqs;
    uint64_t *seed;
    int coded[4];         /* [plane]: index among the coded planes; -1: not coded */
    uint8_t g[4][64][64]; /* activities, [plane][y][x]; with 8 bits [plane][y][pair] */
    struct event events[MAX_TOKENS];
    size_t n_events;
    uint8_t sign_bytes[MAX_TOKENS / 8 + 1], raw_bytes[MAX_TOKENS * 2];
    struct bits signs, raw;
    uint8_t second_bytes[32];
    struct bits second; /* raw bits that the format calls suffix2, for all tokens of one step */
};

/* Returns the number of tokens in a row: one for each column with 16 bits, one for each pair of
 * columns with 8 bits. */
static int n_tokens(const struct making *m)
{
    return (int)(m->recipe->bits == 8 ? (m->recipe->width + 1) / 2 : m->recipe->width);
}

static uint32_t token_at(const struct making *m, int plane, int y, int x)
{
    if (plane < 0 || m->coded[plane] < 0 || y < 0 || x < 0 || x >= n_tokens(m))
        return 0;
    return m->g[plane][y][x];
}

/* Returns the energy of the neighbours with 16 bits (docs/format-pli.md, section 5.6). */
static uint32_t energy_u16(const struct making *m, int c, int y, int x, bool first)
{
    uint32_t l = token_at(m, c, y, x - 1), ll = token_at(m, c, y, x - 2);
    uint32_t u = token_at(m, c, y - 1, x), ul = token_at(m, c, y - 1, x - 1);
    uint32_t ur = token_at(m, c, y - 1, x + 1), uu = token_at(m, c, y - 2, x);
    uint32_t a = l + u + ur + uu, b = ul + ll;
    if (first || m->recipe->transform == 0 || c == 3)
        return (2 * a + b) >> 1;
    if (c == 1)
        return (a + (a + 1) / 2 + b + (token_at(m, 0, y, x) + 1) / 2) >> 1;
    return (a + (a + 1) / 2 + b + 2 * token_at(m, 1, y, x)) >> 1;
}
static uint32_t energy_u8(const struct making *m, int c, int y, int p, bool first)
{
    uint32_t l = token_at(m, c, y, p - 1), u = token_at(m, c, y - 1, p);
    uint32_t far = token_at(m, c, y - 1, p - 1) + token_at(m, c, y - 2, p + 1);
    uint32_t z = token_at(m, c, y, p - 2);
    if (!first && m->recipe->transform != 0 && c == 2)
        z = token_at(m, 1, y, p);
    return 2 * (l + u) + token_at(m, c, y - 2, p) + (far + 1) / 2 + z;
}
static uint32_t context_of(const struct making *m, int c, int y, int x)
{
    bool first = true;
    for (int k = 0; k < c; k++)
        first = first && m->coded[k] < 0;
    uint32_t e =
        m->recipe->bits == 16 ? energy_u16(m, c, y, x, first) : energy_u8(m, c, y, x, first);
    return psti_pli_wave_bucket[m->recipe->bits == 16][e < 255 ? e : 255];
}

/* The token table of docs/format-pli.md, section 5.4. */
static const struct {
    uint8_t n_first, n_second, base, activity;
} of_u8[16] = {{0, 0, 0, 0},   {2, 0, 0, 1},   {3, 0, 1, 2},   {4, 0, 3, 3},
               {4, 0, 7, 4},   {5, 0, 11, 6},  {5, 0, 19, 7},  {6, 0, 27, 8},
               {6, 0, 43, 10}, {7, 0, 59, 12}, {7, 0, 91, 15}, {6, 4, 7, 21},
               {5, 4, 15, 25}, {7, 5, 15, 43}, {6, 5, 31, 45}, {8, 8, 0, 46}};
struct coded {
    uint8_t token, first, second;
};

static void point_of(struct coded c, int *x, int *y)
{
    int i = c.first >> 2, a, b;
    if (c.token <= 10) {
        int q = of_u8[c.token].base + i, d = 1;
        while ((d + 1) * d / 2 <= q)
            d++;
        b = q - d * (d - 1) / 2;
        a = d - b;
    } else {
        int u = (c.token <= 12 ? 16 : 32) + c.second;
        b = (u >> 1) - of_u8[c.token].base + i;
        a = u - b;
    }
    for (int turns = c.first & 3; turns > 0; turns--) {
        int old = a;
        a = -b;
        b = old;
    }
    *x = a;
    *y = b;
}

/* Returns the token for the pair (x, y) and its raw bits: the highest token below the last that can
 * stand for the pair, otherwise the last token, 15. */
static const struct coded *find_coded(int x, int y)
{
    static struct coded of[256][256];
    if (of[0][0].token == 0) {
        for (int i = 0; i < 256 * 256; i++)
            of[i >> 8][i & 255] =
                (struct coded){15, (uint8_t)((i >> 8) - 128), (uint8_t)((i & 255) - 128)};
        of[128][128] = (struct coded){0, 0, 0};
        for (uint8_t t = 1; t < 15; t++)
            for (uint32_t i = 0; i < 1u << (of_u8[t].n_first + of_u8[t].n_second); i++) {
                struct coded c = {t, (uint8_t)(i & ((1u << of_u8[t].n_first) - 1)),
                                  (uint8_t)(i >> of_u8[t].n_first)};
                int a, b;
                point_of(c, &a, &b);
                of[a + 128][b + 128] = c;
            }
    }
    return &of[x + 128][y + 128];
}

static uint32_t token_of(uint32_t magnitude, uint32_t *n_raw, uint32_t *raw)
{
    *n_raw = *raw = 0;
    if (magnitude < 24)
        return magnitude;
    if (magnitude < 32) {
        *n_raw = 3;
        *raw = magnitude - 24;
        return 24;
    }
    uint32_t e = 5;
    while (magnitude >> (e + 1))
        e++;
    *n_raw = e - 1;
    *raw = magnitude & ((1u << (e - 1)) - 1);
    return 25 + 2 * (e - 5) + ((magnitude >> (e - 1)) & 1);
}

static uint32_t draw(struct making *m)
{
    const struct pli_wave_recipe *r = m->recipe;
    uint32_t v = pli_wave_random(m->seed), half = 1u << (r->bits - 1);
    if ((v & 255) < r->zeros)
        return 0;
    v >>= 8;
    if (r->extremes && (v & 15) == 0)
        return v & 16 ? half : v & 32 || r->bits == 8 ? half - 1 : 65535;
    v >>= 5;
    uint32_t limit = r->spread >> (v & 7);
    v = (v >> 3) % (limit + 1);
    return v < half ? v : half;
}

static void put_token(struct making *m, uint32_t lane, uint32_t context, uint32_t token)
{
    m->events[m->n_events++] = (struct event){(uint8_t)lane, (uint8_t)context, (uint8_t)token};
}

static void code_sample(struct making *m, uint32_t lane, int c, int y, int x)
{
    uint32_t context = context_of(m, c, y, x), n_raw, raw, token, magnitude;
    do {
        magnitude = draw(m);
        token = token_of(magnitude, &n_raw, &raw);
        if (m->freqs->f[context][token] == 0) { /* some of the image's own tables lack tokens */
            token = pli_wave_random(m->seed) % 24;
            magnitude = token;
            n_raw = 0;
        }
    } while (m->freqs->f[context][token] == 0);
    m->g[c][y][x] = (uint8_t)token;
    put_token(m, lane, context, token);
    if (magnitude > 0) /* the largest magnitude always has a negative sign */
        put(&m->signs, magnitude >> 15 != 0 || (pli_wave_random(m->seed) & 1) != 0, 1);
    put(&m->raw, raw, n_raw);
}

static int draw_signed(struct making *m)
{
    int magnitude = (int)draw(m);
    return magnitude == 128 || (pli_wave_random(m->seed) & 1) != 0 ? -magnitude : magnitude;
}

/* Codes one pair. If its second sample lies beyond the unit's width, its value is random, because
 * decoders skip it. */
static void code_pair(struct making *m, uint32_t lane, int c, int y, int p)
{
    uint32_t context = context_of(m, c, y, p);
    const uint16_t *freqs = m->freqs->f[context];
    int first = draw_signed(m), second = draw_signed(m);
    struct coded coded = *find_coded(first, second);
    /* The last token may stand for every pair except (0, 0). The image's own tables may lack the
     * chosen token. */
    if (coded.token > 0 && (freqs[coded.token] == 0 || pli_wave_random(m->seed) % 32 == 0))
        coded = (struct coded){15, (uint8_t)first, (uint8_t)second};
    while (freqs[coded.token] == 0) {
        uint32_t token = pli_wave_random(m->seed) % 16, bits = pli_wave_random(m->seed);
        coded = (struct coded){(uint8_t)token, (uint8_t)(bits & ((1u << of_u8[token].n_first) - 1)),
                               (uint8_t)(bits >> 8 & ((1u << of_u8[token].n_second) - 1))};
    }
    m->g[c][y][p] = of_u8[coded.token].activity;
    put_token(m, lane, context, coded.token);
    put(&m->raw, coded.first, of_u8[coded.token].n_first);
    put(&m->second, coded.second, of_u8[coded.token].n_second);
}

/* Codes all samples in the order of docs/format-pli.md, section 5.5. */
static void code_samples(struct making *m)
{
    const struct pli_wave_recipe *r = m->recipe;
    int height = r->height <= 32 ? 32 : 64, n_coded = 0, plane_of[4] = {0};
    for (int c = 0; c < (int)r->channels; c++)
        if (m->coded[c] >= 0)
            plane_of[n_coded++] = c;
    const int lag = r->bits == 8 ? 1 : 2, band = 32 * lag;
    for (int t = 0; t < band * n_coded * height / 32 + 31 * lag; t++) {
        m->second.n = 0;
        for (int lane = 0; lane < 32; lane++)
            for (int row = lane; row < n_coded * height; row += 32) {
                int x = t - band * (row / 32) - lag * lane, y = row % height;
                if (x < 0 || x >= n_tokens(m) || y >= (int)r->height)
                    continue;
                (r->bits == 8 ? code_pair : code_sample)(m, (uint32_t)lane, plane_of[row / height],
                                                         y, x);
            }
        for (size_t i = 0; i < m->second.n; i++)
            put(&m->raw, m->second_bytes[i >> 3] >> (i & 7) & 1, 1);
    }
}

static size_t put_records(const struct making *m, uint8_t *out)
{
    const struct pli_wave_recipe *r = m->recipe;
    size_t at = 0;
    for (uint32_t c = 0; c < r->channels; c++) {
        out[at++] = r->planes[c].predictor;
        out[at++] = (uint8_t)r->planes[c].start;
        if (r->bits == 16)
            out[at++] = (uint8_t)(r->planes[c].start >> 8);
        if (r->planes[c].predictor == PSTI_PLI_PREDICT_CONSTANT)
            continue;
        if (r->planes[c].predictor == PSTI_PLI_PREDICT_FILTERS) {
            struct bits b = {out + at, 0};
            uint32_t n = ((r->width + 15) / 16) * ((r->height + 15) / 16);
            for (uint32_t i = 0; i < n; i++)
                put(&b, r->planes[c].filters[i], 6);
            at += (b.n + 7) / 8;
            continue;
        }
        if (r->transform != 0 && c >= 1 && c < 3)
            out[at++] = (uint8_t)r->planes[c].a;
        if (r->transform != 0 && c == 2)
            out[at++] = (uint8_t)r->planes[c].b;
    }
    return at;
}

/* Writes the states by running section 5.7 of docs/format-pli.md backwards. */
static size_t put_states(struct making *m, uint8_t *out)
{
    static uint8_t raw[MAX_TOKENS * 3], words[MAX_TOKENS * 2];
    const uint32_t k = m->recipe->bits, word_nbytes = k / 8, n_low = 32 * word_nbytes;
    const uint32_t prob_bits = k == 8 ? 8 : 10, exponent_bits = k == 8 ? 3 : 4;
    struct bits b = {raw, 0};
    for (size_t i = 0; i < m->signs.n; i++)
        put(&b, m->sign_bytes[i >> 3] >> (i & 7) & 1, 1);
    for (size_t i = 0; i < m->raw.n; i++)
        put(&b, m->raw_bytes[i >> 3] >> (i & 7) & 1, 1);
    while (b.n < 8 * (size_t)n_low || b.n % 8 != 0)
        put(&b, 0, 1);
    size_t n_raw = b.n / 8 - n_low, n_words = 0;
    uint32_t x[32];
    for (uint32_t l = 0; l < 32; l++)
        x[l] = k == 8 ? 256u | raw[n_raw + l]
                      : 65536u | raw[n_raw + 2 * l] | (uint32_t)raw[n_raw + 2 * l + 1] << 8;
    for (size_t i = m->n_events; i-- > 0;) {
        const struct event *e = m->events + i;
        const uint16_t *f = m->freqs->f[e->context];
        uint32_t freq = f[e->token], before = 0, *state = x + e->lane;
        for (uint32_t j = 0; j < e->token; j++)
            before += f[j];
        if ((uint64_t)*state >= (uint64_t)freq << (2 * k - prob_bits)) {
            for (uint32_t j = 0; j < word_nbytes; j++)
                words[word_nbytes * n_words + j] = (uint8_t)(*state >> 8 * j);
            n_words++;
            *state >>= k;
        }
        *state = (*state / freq << prob_bits) + *state % freq + before;
    }
    uint8_t mantissas[64];
    struct bits exponents = {out + 2, 0}, mb = {mantissas, 0};
    uint8_t *low = out + 2 + 32 * exponent_bits / 8;
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t h = x[l] >> k, e = 0;
        while (h >> (e + 1))
            e++;
        put(&exponents, e, exponent_bits);
        put(&mb, h, e);
        for (uint32_t j = 0; j < word_nbytes; j++)
            *low++ = (uint8_t)(x[l] >> 8 * j);
    }
    size_t n_mantissas = (mb.n + 7) / 8, at = (size_t)(low - out);
    out[0] = (uint8_t)(n_mantissas + n_raw);
    out[1] = (uint8_t)((n_mantissas + n_raw) >> 8);
    memcpy(out + at, mantissas, n_mantissas);
    memcpy(out + at + n_mantissas, raw, n_raw);
    at += n_mantissas + n_raw;
    for (size_t i = n_words; i-- > 0; at += word_nbytes)
        memcpy(out + at, words + word_nbytes * i, word_nbytes);
    return at;
}

size_t pli_wave_make(const struct pli_wave_recipe *recipe, const struct pli_wave_freqs *freqs,
                     uint64_t *seed, uint8_t *out)
{
    static struct making m;
    memset(&m, 0, sizeof m);
    m.recipe = recipe;
    m.freqs = freqs;
    m.seed = seed;
    m.signs.bytes = m.sign_bytes;
    m.raw.bytes = m.raw_bytes;
    m.second.bytes = m.second_bytes;
    int n_coded = 0;
    for (uint32_t c = 0; c < 4; c++)
        m.coded[c] = c < recipe->channels && recipe->planes[c].predictor != 0 ? n_coded++ : -1;
    code_samples(&m);
    size_t at = put_records(&m, out);
    return n_coded > 0 ? at + put_states(&m, out + at) : at;
}
