/* pli_wave_encode.c - writes a unit of PLI's wave mode from its plan and the image's tables
 * (docs/format-pli.md, section 5).
 *
 * Records are sorted into the order of tokens once. Signs and raw bits are written in this order,
 * words in reverse order. rANS decodes in reverse, so the encoder's first states are what a decoder
 * ends with. Their low halves are the last bytes of signs and raw bits, so the 32 states take
 * hardly any space. Works in the caller's memory. */
#include "pli/encode/pli_encode_kernels.h"

#include "base/bits.h"

#include <string.h>

enum {
    LANES = PSTI_PLI_LANES,
    WORDS_NBYTES = sizeof((struct psti_wave_work *)0)->words,
    LANE_SHIFT = PSTI_WAVE_INDEX_BITS
};

/* Writes bits. Up to 8 bytes past the last bit are overwritten, so buffers have WRITER_SLACK more
 * bytes. */
struct writer {
    uint8_t *bytes;
    size_t n; /* number of whole bytes written so far */
    uint64_t acc;
    uint32_t n_acc; /* number of bits in `acc`, fewer than 8 */
};
enum { WRITER_SLACK = 8 };

/* Writes at most 32 bits. */
static inline void put_bits(struct writer *w, uint32_t v, uint32_t n)
{
    w->acc |= (uint64_t)v << w->n_acc;
    w->n_acc += n;
    psti_store_u64(w->bytes + w->n, w->acc);
    w->n += w->n_acc >> 3;
    w->acc >>= w->n_acc & ~7u;
    w->n_acc &= 7;
}

static void flush_bits(struct writer *w)
{
    if (w->n_acc > 0)
        w->bytes[w->n++] = (uint8_t)w->acc;
    w->acc = w->n_acc = 0;
}

/* A unit that is being written. */
struct unit {
    const struct psti_pli_source *source;
    const struct psti_wave_kernels *kernels;
    const struct psti_wave_plan *plan;
    const void *next; /* plan of another unit, which is prefetched while this unit is written */
    struct psti_wave_work *work;
    uint32_t n_bands, n_steps;
    uint32_t n; /* number of records in order.ordered */
};

/* Returns whether the level keeps records in slots, 32 for each step. Otherwise they are in
 * order.ordered. */
static bool in_slots(const struct unit *u) { return u->kernels->find_slots != NULL; }

/* Sorts records into the order of tokens. Step t takes record t - lag * l of lane l's stream. A
 * lane takes no record before its first one or after its last one. */
static inline __attribute__((always_inline)) void put_in_order(struct unit *u, uint32_t bits)
{
    const uint32_t lag = psti_pli_wave_lag(bits), none = psti_pli_wave_none(bits);
    uint32_t stride = psti_pli_wave_stride(bits, u->n_bands), n = 0;
    uint32_t length = psti_pli_wave_columns(bits) * u->n_bands;
    const uint16_t *indices = u->plan->streams + PSTI_WAVE_STREAM_PAD;
    const uint16_t *values = indices + psti_pli_wave_n_records(bits, u->n_bands);
    for (uint32_t t = 0; t < u->n_steps; t++) {
        uint32_t begin = t < length ? 0 : (t - length) / lag + 1, end = t / lag + 1;
        for (uint32_t l = begin; l < (end < LANES ? end : LANES); l++) {
            size_t at = (size_t)l * stride + t - lag * l;
            uint32_t value = (uint32_t)values[at] << PSTI_WAVE_VALUE_SHIFT;
            u->work->order.ordered[n] = indices[at] | l << LANE_SHIFT | value;
            n += indices[at] != none;
        }
        if (bits == 8)
            u->work->step_ends[t] = n;
    }
    u->n = n;
}

static void find_order(struct unit *u)
{
    uint32_t bits = u->source->bits;
    if (in_slots(u)) {
        const uint16_t *streams = u->plan->streams;
        u->kernels->find_slots(bits, streams, u->n_bands, psti_pli_wave_none(bits),
                               u->work->order.slots);
        u->kernels->find_slots(bits, streams + psti_pli_wave_n_records(bits, u->n_bands),
                               u->n_bands, 0, u->work->order.values);
        return;
    }
    if (bits == 8)
        put_in_order(u, 8);
    else
        put_in_order(u, 16);
}

/* Collects the signs of all samples, and the samples with raw bits. Returns the number of samples
 * with raw bits. */
static uint32_t scan(struct psti_wave_work *work, uint32_t n)
{
    uint32_t n_large = 0;
    for (uint32_t i = 0; i < n;) {
        struct psti_wave_signs signs = {0};
        struct psti_wave_signs *to = &work->signs[i / 32];
        for (uint32_t end = n - i < 32 ? n : i + 32; i < end; i++) {
            uint32_t sample = work->order.ordered[i];
            signs.bits |= (sample >> 31) << signs.n;
            signs.n += sample % PSTI_WAVE_TOKEN_MAX != 0;
            /* Each sample is stored, and the next one overwrites it if it has no raw bits, as most
             * samples have none. */
            work->large[n_large] = sample;
            n_large += sample % PSTI_WAVE_TOKEN_MAX >= PSTI_PLI_DIRECT;
        }
        *to = signs;
    }
    return n_large;
}

/* Writes, for each step, R of all tokens, then S. Returns the number of bytes. */
static size_t write_bits_u8(const struct unit *u)
{
    const uint32_t *ordered = u->work->order.ordered;
    struct writer w = {.bytes = u->work->bits};
    for (uint32_t t = 0, i = 0; t < u->n_steps; t++) {
        uint32_t squares[LANES], n = 0, end = u->work->step_ends[t];
        for (; i < end; i++) {
            uint32_t token = ordered[i] % PSTI_PLI_N_TOKENS_8;
            put_bits(&w, ordered[i] >> PSTI_WAVE_VALUE_SHIFT & UINT8_MAX,
                     psti_pli_wave_first_bits[token]);
            squares[n] = ordered[i];
            n += token >= PSTI_PLI_WAVE_FIRST_SQUARE;
        }
        for (uint32_t k = 0; k < n; k++)
            put_bits(&w, squares[k] >> (PSTI_WAVE_VALUE_SHIFT + 8),
                     psti_pli_wave_second_bits[squares[k] % PSTI_PLI_N_TOKENS_8]);
    }
    flush_bits(&w);
    return w.n;
}

/* Writes the signs, then the raw bits. Returns the number of bytes. */
static size_t write_bits_u16(const struct unit *u)
{
    struct psti_wave_work *work = u->work;
    struct writer w = {.bytes = work->bits};
    uint32_t n_large = scan(work, u->n);
    for (uint32_t i = 0; i < (u->n + 31) / 32; i++)
        put_bits(&w, work->signs[i].bits, work->signs[i].n);
    for (uint32_t i = 0; i < n_large; i++)
        put_bits(&w, work->large[i] >> PSTI_WAVE_VALUE_SHIFT & PSTI_WAVE_RAW_MASK,
                 psti_pli_wave_raw_bits(work->large[i] % PSTI_WAVE_TOKEN_MAX));
    flush_bits(&w);
    return w.n;
}

/* Writes signs and raw bits to work->bits. Returns the number of bytes. */
static size_t write_bits(const struct unit *u)
{
    struct psti_wave_work *work = u->work;
    if (in_slots(u))
        return u->kernels->write_slots(work->order.slots, work->order.values, u->n_steps,
                                       work->bits);
    return u->source->bits == 8 ? write_bits_u8(u) : write_bits_u16(u);
}

/* Codes all tokens, last token first. Words of `bits` bits are stored before `words`. Returns the
 * address of the first word. */
static inline __attribute__((always_inline)) uint8_t *code_backwards(
    const struct unit *u, const struct psti_pli_wave_codes *codes, uint32_t bits, uint32_t *states,
    uint8_t *words)
{
    const uint32_t *ordered = u->work->order.ordered;
    for (uint32_t i = u->n; i-- > 0;) {
        uint32_t sample = ordered[i], *state = &states[(sample >> LANE_SHIFT) % LANES];
        const struct psti_wave_code *code = &codes->of[sample % (1u << PSTI_WAVE_INDEX_BITS)];
        uint64_t x = *state;
        /* There is no branch on `full`, because the CPU could not predict it. */
        uint32_t full = x > code->last;
        if (bits == 8)
            words[-1] = (uint8_t)x;
        else
            psti_store_u16(words - 2, (uint16_t)x);
        words -= bits / 8 * full;
        x >>= bits * full;
        /* x < freq * 2^22, so the product fits and the quotient is exact. x = quotient * freq +
         * rest becomes quotient * 2^prob_bits + rest + first. */
        uint64_t quotient = (x * code->reciprocal) >> PSTI_WAVE_RECIPROCAL_SHIFT;
        *state = (uint32_t)x + (uint32_t)quotient * code->rest + code->first;
    }
    return words;
}

/* Codes the tokens. The words end at the end of work->words. Returns the words' number of bytes. */
static size_t code_tokens(const struct unit *u, const struct psti_pli_wave_codes *codes,
                          uint32_t *states)
{
    uint8_t *end = u->work->words + WORDS_NBYTES;
    if (in_slots(u))
        return (size_t)(end - u->kernels->code_slots(u->work->order.slots, u->n_steps,
                                                     codes->of_slots, u->next, states, end));
    return (size_t)(end - (u->source->bits == 8 ? code_backwards(u, codes, 8, states, end)
                                                : code_backwards(u, codes, 16, states, end)));
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

/* Writes the high halves of the states as exponents and mantissas. Returns the number of bytes of
 * the mantissas. */
static size_t write_mantissas(uint32_t bits, const uint32_t *states, uint8_t *exponents,
                              uint8_t *mantissas)
{
    struct writer e = {.bytes = exponents}, m = {.bytes = mantissas};
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t high = states[l] >> bits, exponent = 31u - (uint32_t)__builtin_clz(high);
        put_bits(&e, exponent, psti_pli_wave_exponent_bits(bits));
        put_bits(&m, high - (1u << exponent), exponent);
    }
    flush_bits(&m);
    return m.n;
}

static size_t write_coded(const struct unit *u, const struct psti_pli_wave_codes *codes,
                          uint8_t *out, size_t capacity)
{
    uint32_t states[LANES];
    uint8_t exponents[LANES / 2 + WRITER_SLACK];
    uint8_t mantissas[2 * LANES + WRITER_SLACK];
    uint8_t *bits = u->work->bits;
    const uint32_t k = u->source->bits;
    const size_t n_low = psti_pli_wave_state_nbytes(k);
    const size_t n_exponents = LANES * psti_pli_wave_exponent_bits(k) / 8;
    size_t n_bits_bytes = write_bits(u);
    /* The payload is the last bytes of signs and raw bits. If there are too few bytes, zeros follow
     * them. */
    memset(bits + n_bits_bytes, 0, n_low);
    size_t n_raw = n_bits_bytes > n_low ? n_bits_bytes - n_low : 0;
    for (uint32_t l = 0; l < LANES; l++)
        states[l] =
            k == 8 ? 256u + bits[n_raw + l] : 65536u + psti_load_u16(bits + n_raw + 2 * (size_t)l);
    size_t n_words = code_tokens(u, codes, states);
    size_t n_mantissas = write_mantissas(k, states, exponents, mantissas);
    size_t total = 2 + n_exponents + n_low + n_mantissas + n_raw + n_words;
    if (n_mantissas + n_raw > UINT16_MAX || total > capacity)
        return 0;
    psti_store_u16(out, (uint16_t)(n_mantissas + n_raw));
    out += 2;
    memcpy(out, exponents, n_exponents);
    out += n_exponents;
    for (uint32_t l = 0; l < LANES; l++, out += k / 8) {
        if (k == 8)
            *out = (uint8_t)states[l];
        else
            psti_store_u16(out, (uint16_t)states[l]);
    }
    memcpy(out, mantissas, n_mantissas);
    memcpy(out + n_mantissas, bits, n_raw);
    out += n_mantissas + n_raw;
    memcpy(out, u->work->words + WORDS_NBYTES - n_words, n_words);
    return total;
}

size_t psti_pli_wave_encode(const struct psti_pli_source *source, const void *plan,
                            const void *next, const struct psti_pli_wave_codes *codes, void *work,
                            uint8_t *out, size_t capacity)
{
    struct unit u = {.source = source,
                     .kernels = psti_pli_wave_kernels_of(source),
                     .plan = plan,
                     .next = next,
                     .work = work};
    uint8_t head[1 + 4 * PSTI_WAVE_RECORD_MAX_NBYTES + WRITER_SLACK];
    struct writer w = {.bytes = head};
    put_bits(&w, PSTI_PLI_WAVE, 8);
    for (uint32_t i = 0; i < source->channels; i++)
        if (u.plan->planes[i].predictor != PSTI_PLI_PREDICT_CONSTANT)
            u.n_bands += psti_pli_wave_plane_bands(source->height);
    write_records(&u, u.plan, &w);
    if (w.n > capacity)
        return 0;
    memcpy(out, head, w.n);
    if (u.n_bands == 0)
        return w.n;
    u.n_steps = psti_pli_wave_n_steps(source->bits, u.n_bands);
    find_order(&u);
    size_t n = write_coded(&u, codes, out + w.n, capacity - w.n);
    return n > 0 ? w.n + n : 0;
}
