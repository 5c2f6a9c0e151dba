/* pli_wave.c - PLI's wave mode (docs/format-pli.md, section 5): makes decoding tables, parses the
 * head of a unit, and calls the level.
 *
 * The head is checked completely here, so the levels may rely on valid sizes and filters. The
 * levels themselves check that words and raw bits suffice. The functions are pure.
 */
#include "pli/decode/pli_kernels.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

static void fill_slots(const uint16_t *freqs, uint32_t *slots)
{
    for (uint32_t token = 0; token < PSTI_PLI_N_TOKENS; token++)
        for (uint32_t i = 0; i < freqs[token]; i++)
            *slots++ = PSTI_PLI_WAVE_ENTRY(token, freqs[token], i);
}

static void fill_context(const uint16_t *freqs, uint32_t bits,
                         struct psti_pli_wave_context *context)
{
    uint32_t place = 0;
    for (uint32_t token = 0; token < psti_pli_wave_n_tokens(bits); token++) {
        uint32_t activity = bits == 8 ? psti_pli_wave_activities[token] : token;
        context->of[activity].freq = freqs[token];
        context->of[activity].first_place = (uint16_t)place;
        memset(context->activities + place, (int)activity, freqs[token]);
        place += freqs[token];
    }
}

const uint32_t *psti_pli_wave_slots(struct psti_pli_wave_tables *tables)
{
    static const uint16_t idle[PSTI_PLI_N_TOKENS] = {PSTI_PLI_PROB_SUM};
    if (!tables->has_slots) {
        for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++)
            fill_slots(tables->freqs.f[c], tables->slots[c]);
        fill_slots(idle, tables->slots[PSTI_PLI_WAVE_IDLE]);
        tables->has_slots = true;
    }
    return tables->slots[0];
}

static void fill_pairs(int16_t pairs[16][256][2])
{
    for (uint32_t low = 0; low < 16; low++)
        for (uint32_t i = 0; i < 1u << psti_pli_wave_first_bits_of[low]; i++) {
            struct psti_pli_wave_pair pair = psti_pli_wave_find_pair(
                (struct psti_pli_wave_coded_pair){psti_pli_wave_tokens_of[low], (uint8_t)i, 0});
            pairs[low][i][0] = (int8_t)pair.x;
            pairs[low][i][1] = (int8_t)pair.y;
        }
}

void psti_pli_wave_need_contexts(struct psti_pli_wave_tables *tables)
{
    if (tables->has_contexts)
        return;
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++)
        fill_context(tables->freqs.f[c], tables->bits, tables->contexts + c);
    if (tables->bits == 8)
        fill_pairs(tables->pairs);
    tables->has_contexts = true;
}

static void index_halves(const uint8_t *begins, uint32_t context, struct psti_pli_wave_indexed *x)
{
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t token = (i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1, at = context + 16 * i;
        x->halves[0][at & 15] = begins[8];
        x->halves[1][at & 31] = begins[(token & 8) + 4];
        x->halves[2][at & 63] = begins[(token & 12) + 2];
        for (uint32_t k = 0; k < 3; k++)
            x->around[k][at] = begins[token + k];
    }
}

const struct psti_pli_wave_indexed *psti_pli_wave_need_indexed(struct psti_pli_wave_tables *tables)
{
    struct psti_pli_wave_indexed *x = &tables->indexed;
    if (tables->has_indexed)
        return x;
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t e = i < 32 ? i : i < 34 ? 32 : i < 48 ? 16 * (i - 32) : 255;
        x->contexts[i] = psti_pli_wave_bucket[0][e];
    }
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
        uint8_t begins[PSTI_PLI_N_TOKENS_8 + 1] = {255};
        for (uint32_t token = 0; token < PSTI_PLI_N_TOKENS_8; token++)
            begins[token + 1] = (uint8_t)(begins[token] + tables->freqs.f[c][token]);
        index_halves(begins, c, x);
    }
    tables->has_indexed = true;
    return x;
}

static void find_bounds(const struct psti_pli_wave_freqs *freqs,
                        struct psti_pli_wave_bounds *bounds)
{
    static const uint8_t order[PSTI_PLI_N_TOKENS_8 - 1] = {8, 4, 12, 2, 10, 6, 14, 1,
                                                           9, 5, 13, 3, 11, 7, 15}; /* tokens */
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
        uint32_t sums[PSTI_PLI_N_TOKENS_8 + 1] = {0};
        for (uint32_t token = 0; token < PSTI_PLI_N_TOKENS_8; token++)
            sums[token + 1] = sums[token] + freqs->f[c][token];
        for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS_8 - 1; i++)
            bounds->of[i][c] = (uint8_t)(sums[order[i]] - 1);
    }
    /* i holds the bits of a token in reverse order: bit 0 of i is the token's highest bit. */
    for (uint32_t i = 0; i < 16; i++)
        bounds->activities[i] =
            psti_pli_wave_activities[(i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | i >> 3];
}

enum pst_status psti_pli_wave_prepare(const uint8_t *block, size_t nbytes, uint32_t bits,
                                      struct psti_pli_wave_tables *tables, struct pst_error *err)
{
    enum pst_status status = psti_pli_wave_parse_model(block, nbytes, bits, &tables->freqs, err);
    if (status != PST_OK)
        return status;
    tables->bits = bits;
    tables->has_sure_tokens = tables->has_slots = tables->has_contexts = tables->has_indexed =
        false;
    if (bits == 8)
        find_bounds(&tables->freqs, &tables->bounds);
    for (uint32_t c = 0; bits == 16 && c < PSTI_PLI_N_CONTEXTS; c++)
        for (uint32_t token = 0; token < PSTI_PLI_N_TOKENS; token++)
            tables->has_sure_tokens |= tables->freqs.f[c][token] == PSTI_PLI_PROB_SUM;
    return PST_OK;
}

static enum pst_status truncated(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit ends early");
}

/* Reads n neighbouring fields of `size` bits, which is at most 8. Eight fields take `size`
 * bytes. */
static void take_fields(const uint8_t *bytes, uint32_t size, uint32_t n, uint8_t *fields)
{
    uint32_t nbytes = (size * n + 7) / 8;
    for (uint32_t i = 0; i < n; i += 8, bytes += size, nbytes -= size) {
        uint64_t v = 0;
        for (uint32_t k = 0; k < size && k < nbytes; k++)
            v |= (uint64_t)bytes[k] << (8 * k);
        for (uint32_t k = i; k < i + 8 && k < n; k++, v >>= size)
            fields[k] = (uint8_t)(v & ((1u << size) - 1));
    }
}

/* Reads the 6-bit filter numbers of the unit's blocks of 16x16 pixels (5.2). */
static enum pst_status parse_filters(struct psti_pli_cursor *c, uint32_t n_blocks,
                                     struct psti_pli_wave_plane *plane, struct pst_error *err)
{
    const uint8_t *bytes = psti_pli_take(c, (n_blocks * PSTI_PLI_FILTER_BITS + 7) / 8);
    if (!bytes)
        return truncated(err);
    take_fields(bytes, PSTI_PLI_FILTER_BITS, n_blocks, plane->filters);
    return PST_OK;
}

static enum pst_status parse_plane(const struct psti_pli_unit *unit, uint32_t index,
                                   struct psti_pli_cursor *c, struct psti_pli_wave_head *head,
                                   struct pst_error *err)
{
    uint32_t sample_nbytes = unit->bits / 8u;
    uint32_t n_taps = psti_pli_wave_n_taps(index, unit->transform);
    const uint8_t *record = psti_pli_take(c, 1 + sample_nbytes);
    if (!record)
        return truncated(err);
    uint16_t sample = sample_nbytes == 1 ? record[1] : psti_load_u16(record + 1);
    uint8_t predictor = record[0];
    if (predictor == PSTI_PLI_PREDICT_CONSTANT) {
        head->constants[head->n_constant] = sample;
        head->constant_planes[head->n_constant++] = (uint8_t)index;
        return PST_OK;
    }
    struct psti_pli_wave_plane *plane = &head->planes[head->n_coded];
    *plane = (struct psti_pli_wave_plane){
        .plane = (uint8_t)index,
        .predictor = predictor,
        .energy = (uint8_t)psti_pli_wave_energy_kind(index, unit->transform, head->n_coded == 0),
        .list = (uint8_t)psti_pli_wave_filter_list(index, unit->transform),
        .index0 = -1,
        .index1 = -1,
        .start = sample};
    for (uint32_t j = 0; unit->transform != 0 && j < head->n_coded; j++) {
        if (head->planes[j].plane == 0)
            plane->index0 = (int8_t)j;
        if (head->planes[j].plane == 1)
            plane->index1 = (int8_t)j;
    }
    head->n_coded++;
    if (predictor == PSTI_PLI_PREDICT_FILTERS) {
        uint32_t columns = (unit->width + PSTI_PLI_WAVE_BLOCK - 1) / PSTI_PLI_WAVE_BLOCK;
        uint32_t rows = (unit->height + PSTI_PLI_WAVE_BLOCK - 1) / PSTI_PLI_WAVE_BLOCK;
        return parse_filters(c, rows * columns, plane, err);
    }
    if (predictor > PSTI_PLI_PREDICT_MED)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit names predictor %u", predictor);
    const uint8_t *taps = psti_pli_take(c, n_taps);
    if (!taps)
        return truncated(err);
    plane->a = n_taps > 0 ? (int8_t)taps[0] : 0;
    plane->b = n_taps > 1 ? (int8_t)taps[1] : 0;
    return PST_OK;
}

/* Returns at least 57 bits, from bit number `bit` on. Bits after the last byte are 0. */
static uint64_t bits_at(const uint8_t *bytes, size_t nbytes, uint32_t bit)
{
    size_t at = bit >> 3;
    uint64_t v = 0;
    if (at + 8 <= nbytes)
        return psti_load_u64(bytes + at) >> (bit & 7);
    for (uint32_t i = 0; at + i < nbytes; i++)
        v |= (uint64_t)bytes[at + i] << (8 * i);
    return v >> (bit & 7);
}

/* Makes the states of n lanes, whose mantissas begin at bit number `bit`. Returns the number of the
 * bit after the mantissas. */
static uint32_t take_states(const uint8_t *exponents, uint64_t mantissas, uint32_t bit,
                            uint32_t bits, const uint8_t *low, uint32_t n, uint32_t *states)
{
    for (uint32_t l = 0; l < n; l++) {
        uint32_t one = 1u << exponents[l], high = one | ((uint32_t)mantissas & (one - 1));
        mantissas >>= exponents[l];
        bit += exponents[l];
        states[l] = high << bits | (bits == 8 ? low[l] : psti_load_u16(low + 2 * (size_t)l));
    }
    return bit;
}

/* Reads the states, the raw bytes and the words. Exponents and mantissas give the high halves of
 * the states (section 0). */
static enum pst_status parse_states(struct psti_pli_cursor *c, uint32_t bits,
                                    struct psti_pli_wave_head *head, struct pst_error *err)
{
    uint32_t word_nbytes = bits / 8u, exponent_bits = psti_pli_wave_exponent_bits(bits);
    const uint8_t *sizes = psti_pli_take(c, 2);
    const uint8_t *packed = psti_pli_take(c, PSTI_PLI_LANES * exponent_bits / 8);
    const uint8_t *low = psti_pli_take(c, psti_pli_wave_state_nbytes(bits));
    uint8_t exponents[PSTI_PLI_LANES];
    if (!sizes || !packed || !low)
        return truncated(err);
    size_t raw_nbytes = psti_load_u16(sizes);
    const uint8_t *raw = psti_pli_take(c, raw_nbytes);
    if (!raw)
        return truncated(err);
    take_fields(packed, exponent_bits, PSTI_PLI_LANES, exponents);
    /* The number of lanes whose mantissas together take fewer than 57 bits. */
    const uint32_t n = bits == 8 ? 8 : 2;
    uint32_t bit = 0;
    for (uint32_t l = 0; l < PSTI_PLI_LANES; l += n)
        bit = take_states(exponents + l, bits_at(raw, raw_nbytes, bit), bit, bits,
                          low + (size_t)word_nbytes * l, n, head->states + l);
    if ((bit + 7) / 8 > raw_nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit has too few raw bytes");
    head->raw = raw + (bit + 7) / 8;
    head->raw_nbytes = raw_nbytes - (bit + 7) / 8;
    if ((size_t)(c->end - c->at) % word_nbytes != 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit has half a word");
    head->words = c->at;
    head->n_words = (size_t)(c->end - c->at) / word_nbytes;
    return PST_OK;
}

enum pst_status psti_pli_wave_parse(const struct psti_pli_unit *unit,
                                    struct psti_pli_wave_head *head, struct pst_error *err)
{
    struct psti_pli_cursor c = {unit->bytes, unit->bytes + unit->nbytes};
    head->n_coded = head->n_constant = 0;
    for (uint32_t plane = 0; plane < unit->channels; plane++) {
        enum pst_status status = parse_plane(unit, plane, &c, head, err);
        if (status != PST_OK)
            return status;
    }
    head->bands_per_plane = unit->height <= PSTI_PLI_LANES ? 1 : 2;
    head->n_bands = head->bands_per_plane * head->n_coded;
    head->n_steps = 64 * head->n_bands + 62;
    head->n_token_steps = unit->bits == 8 ? 32 * head->n_bands + 31 : head->n_steps;
    if (head->n_coded > 0)
        return parse_states(&c, unit->bits, head, err);
    if (c.at != c.end)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "bytes follow a constant wave unit");
    return PST_OK;
}

static bool same_shape(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                       const struct psti_pli_unit *unit_b, const struct psti_pli_wave_head *head_b)
{
    if (unit->height != unit_b->height || unit->channels != unit_b->channels ||
        unit->transform != unit_b->transform || head->n_coded != head_b->n_coded)
        return false;
    for (uint32_t j = 0; j < head->n_coded; j++)
        if (head->planes[j].plane != head_b->planes[j].plane)
            return false;
    return true;
}

bool psti_pli_wave_same_shape(const struct psti_pli_unit *units,
                              const struct psti_pli_wave_head *heads, uint32_t n_units)
{
    for (uint32_t u = 1; u < n_units; u++)
        if (!same_shape(units, heads, units + u, heads + u))
            return false;
    return true;
}

/* Moves the coded planes of one line to their places. Each plane takes `nbytes` of the line. */
static void place_coded(const struct psti_pli_wave_head *head, uint8_t *line, size_t nbytes)
{
    for (uint32_t j = head->n_coded; j-- > 0;)
        if (head->planes[j].plane != j)
            memmove(line + head->planes[j].plane * nbytes, line + j * nbytes, nbytes);
}

void psti_pli_wave_place_planes(const struct psti_pli_wave_head *head, uint8_t *lines,
                                size_t line_nbytes)
{
    size_t plane_nbytes = 64 * (size_t)head->bands_per_plane;
    for (uint32_t l = 0; l < PSTI_PLI_LANES; l++) {
        uint8_t *line = lines + l * line_nbytes;
        place_coded(head, line, plane_nbytes);
        for (uint32_t i = 0; i < head->n_constant; i++)
            memset(line + head->constant_planes[i] * plane_nbytes, head->constants[i],
                   plane_nbytes);
    }
}

void psti_pli_wave_place_planes_u16(const struct psti_pli_wave_head *head, uint16_t *lines,
                                    size_t line_samples)
{
    size_t n = 64 * (size_t)head->bands_per_plane;
    for (uint32_t l = 0; l < PSTI_PLI_LANES; l++) {
        uint16_t *line = lines + l * line_samples;
        place_coded(head, (uint8_t *)line, n * sizeof *line);
        for (uint32_t i = 0; i < head->n_constant; i++)
            for (size_t x = 0; x < n; x++)
                line[head->constant_planes[i] * n + x] = head->constants[i];
    }
}

enum pst_status psti_pli_wave_decode(const struct psti_pli_unit *unit,
                                     struct psti_pli_wave_tables *tables, void *work,
                                     struct psti_pli_planes *planes, struct pst_error *err)
{
    struct psti_pli_wave_head head;
    enum pst_status status = psti_pli_wave_parse(unit, &head, err);
    if (status != PST_OK)
        return status;
    return unit->kernels->wave(unit, &head, tables, work, planes, err);
}

uint32_t psti_pli_wave_most_units(const struct psti_pli_kernels *kernels, uint32_t bits)
{
    return bits == 8 ? kernels->n_wave_units_u8 : kernels->n_wave_units_u16;
}

bool psti_pli_wave_decode_some(const struct psti_pli_unit *units, uint32_t n_units,
                               struct psti_pli_wave_tables *tables, void *work,
                               struct psti_pli_planes *planes, enum pst_status *statuses,
                               struct pst_error *err)
{
    const struct psti_pli_kernels *k = units[0].kernels;
    struct psti_pli_wave_head heads[PSTI_PLI_WAVE_MOST_UNITS];
    if (n_units > psti_pli_wave_most_units(k, units[0].bits))
        return false;
    for (uint32_t u = 0; u < n_units; u++)
        if (psti_pli_wave_parse(units + u, heads + u, NULL) != PST_OK)
            return false;
    return (units[0].bits == 8 ? k->wave_some_u8 : k->wave_some_u16)(units, heads, n_units, tables,
                                                                     work, planes, statuses, err);
}
