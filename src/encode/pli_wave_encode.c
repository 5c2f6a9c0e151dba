/* pli_wave_encode.c - writes a unit of PLI's wave mode from its plan and the image's tables
 * (docs/format-pli.md, section 5).
 *
 * Samples are packed in rows and put in the order of tokens once; signs and raw bits are written
 * along it, words backwards. The last 64 bytes of signs and raw bits become the states' first low
 * halves, so that 32 states cost next to nothing. Works in the caller's memory. */
#include "encode/pli_wave_encode_int.h"

#include "base/bits.h"
#include "base/cpu.h"

#include <string.h>

enum {
    LANES = PSTI_PLI_LANES,
    PAYLOAD_NBYTES = PSTI_PLI_WAVE_STATE_NBYTES,
    N_WORDS = sizeof((struct psti_wave_work *)0)->words / sizeof(uint16_t)
};

struct writer {
    uint8_t *bytes;
    size_t n; /* whole bytes written */
    uint64_t acc;
    uint32_t n_acc;
};

static inline void put_bits(struct writer *w, uint32_t v, uint32_t n)
{
    w->acc |= (uint64_t)v << w->n_acc;
    w->n_acc += n;
    while (w->n_acc >= 8) {
        w->bytes[w->n++] = (uint8_t)w->acc;
        w->acc >>= 8;
        w->n_acc -= 8;
    }
}

static void flush_bits(struct writer *w)
{
    if (w->n_acc > 0)
        w->bytes[w->n++] = (uint8_t)w->acc;
    w->acc = w->n_acc = 0;
}

/* One unit's coded planes. */
struct unit {
    const struct psti_pli_source *source;
    struct psti_wave_work *work;
    uint8_t coded[4];
    uint32_t n_coded, plane_rows, n;
};

/* A sample as its token is coded: its code's index, its lane, and its residual. */
enum { INDEX_BITS = 10, RESIDUAL_SHIFT = 16 };

/* work->packed, in rows: what will be put in the order of tokens. Bits 6..10 of a sample's place
 * are its lane, as planes and bands are multiples of 32 rows. */
static void pack_samples(const struct unit *u)
{
    struct psti_wave_work *work = u->work;
    for (uint32_t j = 0; j < u->n_coded; j++)
        for (uint32_t y = 0; y < u->source->height; y++) {
            size_t at = (size_t)y * PSTI_WAVE_EDGE;
            const int16_t *residuals = work->residuals[u->coded[j]] + at;
            const uint8_t *tokens = work->tokens[u->coded[j]] + at;
            const uint8_t *contexts = work->contexts[u->coded[j]] + at;
            uint32_t *packed = work->packed[u->coded[j]] + at, lane = (y % LANES) << INDEX_BITS;
            for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++)
                packed[x] = (uint32_t)(uint16_t)residuals[x] << RESIDUAL_SHIFT | lane |
                            (uint32_t)contexts[x] << PSTI_WAVE_TOKEN_BITS | tokens[x];
        }
}

/* Adds the samples of the lanes of `band` that are active in step t to the order; lane l is at
 * column `x0` - 2 l. */
static uint32_t order_band(const struct unit *u, uint32_t band, uint32_t x0, uint32_t begin,
                           uint32_t end, uint32_t *ordered)
{
    uint32_t bands = u->plane_rows / LANES, y0 = (band % bands) * LANES;
    uint32_t rows = u->source->height > y0 ? u->source->height - y0 : 0;
    uint32_t width = u->source->width;
    /* Columns are below the width from this lane on. */
    uint32_t first = x0 >= width ? (x0 - width) / 2 + 1 : 0;
    begin = first > begin ? first : begin;
    end = rows < end ? rows : end;
    const uint32_t *at = u->work->packed[u->coded[band / bands]] + y0 * PSTI_WAVE_EDGE + x0;
    uint32_t n = 0;
    for (uint32_t l = begin; l < end; l++)
        ordered[n++] = at[l * (PSTI_WAVE_EDGE - 2)];
    return n;
}

static void find_order(struct unit *u)
{
    uint32_t n_bands = u->n_coded * (u->plane_rows / LANES), n = 0;
    uint32_t *ordered = u->work->ordered;
    for (uint32_t t = 0; t < 64 * n_bands + 62; t++) {
        uint32_t band = t >> 6, x0 = t & 63, split = x0 / 2 + 1;
        if (band < n_bands)
            n += order_band(u, band, x0, 0, split, ordered + n);
        if (band > 0)
            n += order_band(u, band - 1, x0 + 64, split, LANES, ordered + n);
    }
    u->n = n;
}

static inline int32_t residual_of(uint32_t sample) { return (int16_t)(sample >> RESIDUAL_SHIFT); }

/* Signs of samples from `begin` on, and those with raw bits; returns how many of these there are.
 */
static uint32_t scan(struct psti_wave_work *work, uint32_t begin, uint32_t n, uint32_t n_large)
{
    for (uint32_t i = begin; i < n;) {
        struct psti_wave_signs signs = {0};
        struct psti_wave_signs *to = &work->signs[i / 32];
        for (uint32_t end = n - i < 32 ? n : i + 32; i < end; i++) {
            uint32_t sample = work->ordered[i];
            signs.bits |= (sample >> 31) << signs.n;
            signs.n += sample >> RESIDUAL_SHIFT != 0;
            /* Most are small: stored, and overwritten. */
            work->large[n_large] = sample;
            n_large += sample % PSTI_WAVE_TOKEN_MAX >= PSTI_PLI_DIRECT;
        }
        *to = signs;
    }
    return n_large;
}

/* Signs, then raw bits; returns their bytes. */
static size_t write_bits(const struct unit *u)
{
    struct psti_wave_work *work = u->work;
    struct writer w = {.bytes = work->bits};
    uint32_t n_large = 0, done = 0;
#if defined(__x86_64__)
    if (psti_cpu_features() & PSTI_CPU_AVX2) {
        n_large = psti_wave_scan_avx2(work->ordered, u->n, work->signs, work->large);
        done = u->n & ~31u;
    }
#endif
    n_large = scan(work, done, u->n, n_large);
    for (uint32_t i = 0; i < (u->n + 31) / 32; i++)
        put_bits(&w, work->signs[i].bits, work->signs[i].n);
    for (uint32_t i = 0; i < n_large; i++) {
        int32_t r = residual_of(work->large[i]);
        uint32_t token = work->large[i] % PSTI_WAVE_TOKEN_MAX;
        put_bits(&w, (uint32_t)(r < 0 ? -r : r) - psti_pli_wave_base(token),
                 psti_pli_wave_raw_bits(token));
    }
    flush_bits(&w);
    return w.n;
}

/* Codes all tokens backwards; words go to the end of work->words. Returns how many. */
static size_t code_tokens(const struct unit *u, const struct psti_pli_wave_codes *codes,
                          uint32_t *states)
{
    const uint32_t *ordered = u->work->ordered;
    uint16_t *end = u->work->words + N_WORDS, *words = end;
    for (uint32_t i = u->n; i-- > 0;) {
        uint32_t sample = ordered[i], *state = &states[(sample >> INDEX_BITS) % LANES];
        const struct psti_wave_code *code = &codes->of[sample % (1u << INDEX_BITS)];
        uint64_t x = *state;
        /* A word goes out or not, as good as at random: no branch. */
        uint32_t full = x > code->last;
        words[-1] = (uint16_t)x;
        words -= full;
        x >>= 16 * full;
        /* x < freq * 2^22: the product fits, and the quotient is exact. x = quotient * freq +
         * rest becomes quotient * 2^10 + rest + first. */
        uint64_t quotient = (x * code->reciprocal) >> PSTI_WAVE_RECIPROCAL_SHIFT;
        *state = (uint32_t)x + (uint32_t)quotient * code->rest + code->first;
    }
    return (size_t)(end - words);
}

static void write_records(const struct unit *u, const struct psti_wave_plan *plan, struct writer *w)
{
    const struct psti_pli_source *s = u->source;
    uint32_t n_blocks = ((s->width + PSTI_WAVE_BLOCK - 1) / PSTI_WAVE_BLOCK) *
                        ((s->height + PSTI_WAVE_BLOCK - 1) / PSTI_WAVE_BLOCK);
    for (uint32_t p = 0; p < s->channels; p++) {
        const struct psti_wave_plane_plan *plane = &plan->planes[p];
        uint32_t n_taps = psti_pli_wave_n_taps(p, s->transform);
        put_bits(w, plane->predictor, 8);
        put_bits(w, plane->start, s->bits);
        if (plane->predictor == PSTI_PLI_PREDICT_CONSTANT)
            continue;
        if (plane->predictor == PSTI_PLI_PREDICT_FILTERS) {
            for (uint32_t i = 0; i < n_blocks; i++)
                put_bits(w, plane->filters[i], PSTI_PLI_FILTER_BITS);
            flush_bits(w);
            continue;
        }
        if (n_taps > 0)
            put_bits(w, (uint8_t)plane->a, 8);
        if (n_taps > 1)
            put_bits(w, (uint8_t)plane->b, 8);
    }
}

/* What stands before the raw bits: states. Returns the mantissas' bytes. */
static size_t write_mantissas(const uint32_t *states, uint8_t *exponents, uint8_t *mantissas)
{
    struct writer e = {.bytes = exponents}, m = {.bytes = mantissas};
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t high = states[l] >> 16, exponent = 31u - (uint32_t)__builtin_clz(high);
        put_bits(&e, exponent, 4);
        put_bits(&m, high - (1u << exponent), exponent);
    }
    flush_bits(&m);
    return m.n;
}

static size_t write_coded(const struct unit *u, const struct psti_pli_wave_codes *codes,
                          uint8_t *out, size_t capacity)
{
    uint32_t states[LANES];
    uint8_t exponents[PSTI_PLI_WAVE_EXPONENT_NBYTES], mantissas[2 * LANES];
    uint8_t *bits = u->work->bits;
    size_t n_bits_bytes = write_bits(u);
    /* The payload is the end of the bits, or all of them and zeros. */
    memset(bits + n_bits_bytes, 0, PAYLOAD_NBYTES);
    size_t n_raw = n_bits_bytes > PAYLOAD_NBYTES ? n_bits_bytes - PAYLOAD_NBYTES : 0;
    for (uint32_t l = 0; l < LANES; l++)
        states[l] = 65536u + psti_load_u16(bits + n_raw + 2 * (size_t)l);
    size_t n_words = code_tokens(u, codes, states);
    size_t n_mantissas = write_mantissas(states, exponents, mantissas);
    size_t total = 2 + sizeof exponents + PSTI_PLI_WAVE_STATE_NBYTES + n_mantissas + n_raw;
    if (n_mantissas + n_raw > UINT16_MAX || total + 2 * n_words > capacity)
        return 0;
    psti_store_u16(out, (uint16_t)(n_mantissas + n_raw));
    out += 2;
    memcpy(out, exponents, sizeof exponents);
    out += sizeof exponents;
    for (uint32_t l = 0; l < LANES; l++, out += 2)
        psti_store_u16(out, (uint16_t)states[l]);
    memcpy(out, mantissas, n_mantissas);
    memcpy(out + n_mantissas, bits, n_raw);
    out += n_mantissas + n_raw;
    memcpy(out, u->work->words + N_WORDS - n_words, 2 * n_words);
    return total + 2 * n_words;
}

static void take_residuals(const struct psti_pli_source *source, const struct psti_wave_plan *plan,
                           struct psti_wave_work *work)
{
    for (uint32_t p = 0; p < source->channels; p++)
        for (uint32_t i = 0; i < PSTI_WAVE_SAMPLES; i++)
            work->residuals[p][i] = plan->residuals[p][i];
}

size_t psti_pli_wave_encode(const struct psti_pli_source *source, const void *plan,
                            const struct psti_pli_wave_codes *codes, void *work_, uint8_t *out,
                            size_t capacity)
{
    struct psti_wave_work *work = work_;
    const struct psti_wave_plan *p = plan;
    struct unit u = {.source = source, .work = work};
    uint8_t head[1 + 4 * PSTI_WAVE_RECORD_MAX_NBYTES];
    struct writer w = {.bytes = head};
    put_bits(&w, PSTI_PLI_WAVE, 8);
    for (uint32_t i = 0; i < source->channels; i++)
        if (p->planes[i].predictor != PSTI_PLI_PREDICT_CONSTANT)
            u.coded[u.n_coded++] = (uint8_t)i;
    u.plane_rows = source->height <= LANES ? LANES : 2 * LANES;
    write_records(&u, p, &w);
    if (w.n > capacity)
        return 0;
    memcpy(out, head, w.n);
    if (u.n_coded == 0)
        return w.n;
    if (p->has_residuals)
        take_residuals(source, p, work);
    else
        psti_wave_apply(source, p, work);
    psti_wave_tokenise(source, p, work);
    pack_samples(&u);
    find_order(&u);
    size_t n = write_coded(&u, codes, out + w.n, capacity - w.n);
    return n > 0 ? w.n + n : 0;
}
