/* pli_coefs.c - a unit of coefficients (docs/format-pli.md, section 8): its tables, its head, and
 * the sequence of its stages.
 *
 * The input bytes are hostile. The output is planes of coefficients, in the caller's memory.
 * Everything that a stage relies on is checked before it: the geometry comes from a checked frame,
 * and ends of blocks are at most 63. If a stage reads past the words or raw bits, it gets zeros. At
 * the end this file checks that no such zeros were used, and only then returns the planes. The
 * functions are pure; any thread may call them. */
#include "pli/decode/coefs/pli_coefs_int.h"

#include "base/fail.h"

#include <assert.h>
#include <string.h>

#define ROOM "decode"

enum {
    EXPONENT_NBYTES = PSTI_COEFS_LANES / 2,
    MANTISSA_MAX_NBYTES = PSTI_COEFS_LANES * 15 / 8,
    GROUP = PSTI_COEFS_SQUARE,
    UNIT_NBYTES = (sizeof(struct psti_coefs_unit) + 63) / 64 * 64
};

/* -- Tables -- */

size_t psti_pli_coefs_tables_nbytes(void) { return sizeof(struct psti_pli_coefs_tables); }

enum pst_status psti_pli_coefs_prepare(const struct psti_coefs_level *level, const uint8_t *block,
                                       size_t nbytes, struct psti_pli_coefs_tables *tables,
                                       struct pst_error *err)
{
    enum pst_status status = psti_pli_jpeg_parse_tables(block, nbytes, &tables->freqs, err);
    if (status != PST_OK)
        return status;
    tables->level = level;
    tables->level->prepare(tables);
    return PST_OK;
}

/* -- Memory -- */

static uint32_t max_squares(uint32_t unit_log2, uint32_t n_components)
{
    return n_components << (2 * (unit_log2 - 6));
}

/* Returns the number of entries from one plane to the next. It is not a power of two, because all
 * planes would then use the same sets of the cache. */
static size_t stride_of(uint32_t n) { return psti_round_up(n, GROUP) + GROUP; }

size_t psti_pli_coefs_work_nbytes(uint32_t unit_log2, uint32_t n_components)
{
    uint32_t n = max_squares(unit_log2, n_components) * PSTI_COEFS_SQUARE;
    size_t stride = stride_of(n);
    /* The four terms are: the unit; classes, ends and tokens of DC; order and sides; tokens and
     * coefficients of 64 planes. */
    return UNIT_NBYTES + 3 * (size_t)n + 3 * (size_t)(n + GROUP) + 3 * 64 * stride;
}

static void lay_out(struct psti_coefs_unit *unit)
{
    struct psti_pli_coefs *out = unit->out;
    size_t of_squares = (size_t)out->n_squares * PSTI_COEFS_SQUARE;
    uint8_t *work = (uint8_t *)unit + UNIT_NBYTES;
    unit->classes = (uint8_t(*)[PSTI_COEFS_SQUARE])work;
    unit->ends = unit->classes + out->n_squares;
    unit->dc_tokens = unit->ends + out->n_squares;
    work += 3 * of_squares;
    unit->order = (uint16_t *)(void *)work;
    work += sizeof(uint16_t) * (of_squares + GROUP);
    unit->sides = work;
    work += of_squares + GROUP;
    unit->planes = (int16_t *)(void *)work;
    work += sizeof(int16_t) * 64 * out->stride;
    unit->tokens = work;
    out->order = unit->order;
    out->planes = unit->planes;
}

/* -- The words and the raw bits of a unit -- */

static void open_words(struct psti_coefs_words *w, const uint8_t *at, const uint8_t *end)
{
    w->at = at;
    w->end = end;
    w->in_tail = w->failed = false;
    w->limit = at;
    if (end - at >= PSTI_COEFS_STEP_NBYTES)
        w->limit = end - PSTI_COEFS_STEP_NBYTES;
    else
        psti_pli_coefs_more_words(w);
}

void psti_pli_coefs_more_words(struct psti_coefs_words *w)
{
    if (w->in_tail) {
        w->failed = true;
        w->at = w->end;
        return;
    }
    size_t n = (size_t)(w->end - w->at);
    assert(n <= PSTI_COEFS_STEP_NBYTES);
    memset(w->tail, 0, sizeof w->tail);
    memcpy(w->tail, w->at, n);
    w->at = w->tail;
    w->limit = w->end = w->tail + n;
    w->in_tail = true;
}

static void open_bits(struct psti_coefs_bits *b, const uint8_t *raw, size_t nbytes)
{
    size_t n = nbytes < PSTI_COEFS_TAIL_NBYTES ? nbytes : PSTI_COEFS_TAIL_NBYTES;
    b->raw = raw;
    b->raw_nbytes = nbytes;
    b->tail_begin = nbytes - n;
    b->at = 0;
    b->end = 8 * (uint64_t)nbytes;
    memset(b->tail, 0, sizeof b->tail);
    memcpy(b->tail, raw + b->tail_begin, n);
}

/* Stores the payload after the raw bytes. The payload is the low halves of the states after their
 * last token. */
static void add_payload(struct psti_coefs_unit *unit)
{
    struct psti_coefs_bits *b = &unit->bits;
    uint8_t *to = b->tail + (b->raw_nbytes - b->tail_begin);
    for (uint32_t l = 0; l < PSTI_COEFS_LANES; l++)
        psti_store_u16(to + 2 * (size_t)l, (uint16_t)unit->states[l]);
    b->end += 8 * PSTI_COEFS_STATE_NBYTES;
}

/* -- The head of a unit -- */

static enum pst_status corrupt(struct pst_error *err, const char *what)
{
    return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "unit of coefficients %s", what);
}

/* Computes the states from their exponents, mantissas and low halves. Returns the number of raw
 * bytes that hold mantissas, or SIZE_MAX if there are too few raw bytes. */
static size_t read_states(struct psti_coefs_unit *unit, const uint8_t *exponents,
                          const uint8_t *low, const uint8_t *raw, size_t raw_nbytes)
{
    uint8_t mantissas[MANTISSA_MAX_NBYTES + 4] = {0};
    uint32_t bit = 0;
    memcpy(mantissas, raw, raw_nbytes < MANTISSA_MAX_NBYTES ? raw_nbytes : MANTISSA_MAX_NBYTES);
    for (uint32_t l = 0; l < PSTI_COEFS_LANES; l++) {
        uint32_t e = (exponents[l >> 1] >> (4 * (l & 1))) & 15;
        uint32_t mantissa = psti_load_u32(mantissas + (bit >> 3)) >> (bit & 7);
        uint32_t high = 1u << e | (mantissa & ((1u << e) - 1));
        unit->states[l] = high << 16 | psti_load_u16(low + 2 * (size_t)l);
        bit += e;
    }
    size_t n = (bit + 7) / 8;
    return n <= raw_nbytes ? n : SIZE_MAX;
}

static enum pst_status read_head(struct psti_coefs_unit *unit, const uint8_t *bytes, size_t nbytes,
                                 struct pst_error *err)
{
    const uint8_t *at = bytes, *end = bytes + nbytes;
    uint32_t raw_nbytes;
    if (!psti_pli_take_number(&at, end, &raw_nbytes))
        return corrupt(err, "has no number of raw bytes");
    if (end - at < EXPONENT_NBYTES + PSTI_COEFS_STATE_NBYTES ||
        (size_t)(end - at) - EXPONENT_NBYTES - PSTI_COEFS_STATE_NBYTES < raw_nbytes)
        return corrupt(err, "ends early");
    const uint8_t *low = at + EXPONENT_NBYTES, *raw = low + PSTI_COEFS_STATE_NBYTES;
    const uint8_t *words = raw + raw_nbytes;
    size_t mantissas = read_states(unit, at, low, raw, raw_nbytes);
    if (mantissas == SIZE_MAX)
        return corrupt(err, "has too few raw bytes for its states");
    if (((end - words) & 1) != 0)
        return corrupt(err, "has half a word");
    open_bits(&unit->bits, raw + mantissas, raw_nbytes - mantissas);
    open_words(&unit->words, words, end);
    return PST_OK;
}

/* -- The stages of decoding a unit -- */

static enum pst_status check_words(const struct psti_coefs_words *words, struct pst_error *err)
{
    if (words->failed || words->at > words->end)
        return corrupt(err, "has too few words");
    return PST_OK;
}

static enum pst_status check_bits(const struct psti_coefs_bits *bits, struct pst_error *err)
{
    return bits->at <= bits->end ? PST_OK : corrupt(err, "has too few raw bits");
}

/* Checks words and states after the last token. */
static enum pst_status check_states(const struct psti_coefs_unit *unit, struct pst_error *err)
{
    bool ends = !unit->words.failed && unit->words.at == unit->words.end;
    for (uint32_t l = 0; l < PSTI_COEFS_LANES; l++)
        ends = ends && unit->states[l] >> 16 == 1;
    return ends ? PST_OK : corrupt(err, "has words that do not end its states");
}

static enum pst_status find_ends(struct psti_coefs_unit *unit, struct pst_error *err)
{
    const struct psti_coefs_level *level = unit->tables->level;
    level->read_classes(unit);
    level->read_ends(unit);
    enum pst_status status = check_words(&unit->words, err);
    if (status == PST_OK)
        status = check_bits(&unit->bits, err);
    if (status != PST_OK)
        return status;
    /* The last class begins at end 52 and has 4 raw bits, so an end above 63 is 64..67 and has bit
     * 6 set.
     */
    uint64_t all = 0;
    for (uint32_t s = 0; s < unit->out->n_squares; s++)
        for (uint32_t p = 0; p < PSTI_COEFS_SQUARE; p += 8)
            all |= psti_load_u64(unit->ends[s] + p);
    if (all & 0x4040404040404040)
        return corrupt(err, "has a block that ends behind its last coefficient");
    return PST_OK;
}

/* Returns whether the raw bits of DC and of planes 1..last may reach into the payload. The bits are
 * counted from the tokens. Token 7 is counted with the most bits that it can have. */
static bool needs_payload(const struct psti_coefs_unit *unit, uint32_t last)
{
    static const uint8_t most[PSTI_JPEG_N_AC_TOKENS] = {0, 1, 1, 2, 3, 4, 5, 16};
    const struct psti_pli_coefs *out = unit->out;
    uint64_t n = unit->bits.at;
    for (uint32_t s = 0; s < out->n_squares; s++)
        for (uint32_t p = 0; p < PSTI_COEFS_SQUARE; p++) {
            uint32_t token = unit->dc_tokens[s][p];
            n += (token > 0) + psti_pli_jpeg_dc_bits(token);
        }
    for (uint32_t k = 1; k <= last; k++)
        for (uint32_t i = 0; i < out->n_k[k]; i++)
            n += most[unit->tokens[k * out->stride + i]];
    return n > unit->bits.end;
}

/* Checks the end of the tokens. If planes after the wanted ones are left, their tokens are decoded
 * only if raw bits may reach into the payload, which is known after the last token. */
static enum pst_status end_tokens(struct psti_coefs_unit *unit, struct pst_error *err)
{
    uint32_t last = unit->out->last;
    enum pst_status status;
    if (unit->last < last) {
        status = check_words(&unit->words, err);
        if (status != PST_OK || !needs_payload(unit, unit->last))
            return status;
        unit->tables->level->read_ac(unit, unit->last + 1, last);
    }
    status = check_states(unit, err);
    if (status == PST_OK)
        add_payload(unit);
    return status;
}

void psti_pli_coefs_open(const struct psti_jpeg_frame *frame, uint32_t unit_log2, uint32_t row,
                         uint32_t column, struct psti_pli_coefs *out)
{
    out->n_squares = psti_pli_jpeg_squares(frame, unit_log2, row, column, out->squares);
    out->n = 0;
    for (uint32_t s = 0; s < out->n_squares; s++)
        out->n += (uint32_t)out->squares[s].columns * out->squares[s].rows;
    out->stride = stride_of(out->n);
    out->kept = false;
}

/* Shortens the list of *out to the blocks that were kept. */
static void take_kept(const struct psti_coefs_kept *kept, struct psti_pli_coefs *out)
{
    memcpy(out->n_k, kept->n_k, sizeof out->n_k);
    out->n = out->n_k[0];
    while (out->last > 0 && out->n_k[out->last] == 0)
        out->last--;
    out->kept = true;
}

enum pst_status psti_pli_coefs_begin(const struct psti_pli_coefs_tables *tables,
                                     const uint8_t *bytes, size_t nbytes, uint32_t k_last,
                                     void *work, struct psti_pli_coefs *out, struct pst_error *err)
{
    struct psti_coefs_unit *unit = work;
    const struct psti_coefs_level *level = tables->level;
    unit->tables = tables;
    unit->out = out;
    unit->next = (uintptr_t)bytes + nbytes;
    unit->kept = NULL;
    lay_out(unit);
    enum pst_status status = read_head(unit, bytes, nbytes, err);
    if (status == PST_OK)
        status = find_ends(unit, err);
    if (status != PST_OK)
        return status;
    level->sort(unit);
    out->last = 0;
    for (uint32_t k = 1; k < 64 && out->n_k[k] > 0; k++)
        out->last = k;
    unit->last = k_last < out->last ? k_last : out->last;
    level->read_dc(unit);
    return PST_OK;
}

void psti_pli_coefs_read(void *const works[], uint32_t n_units)
{
    struct psti_coefs_unit *units[2] = {NULL};
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_units; i++) {
        struct psti_coefs_unit *unit = works[i];
        if (unit->last > 0)
            units[n++] = unit;
    }
    if (n == 0)
        return;
    const struct psti_coefs_level *level = units[0]->tables->level;
    if (n == 2 && level->read_two) {
        /* Both prefetch what comes after the second unit, the first the first half of it. */
        units[0]->next = units[1]->next;
        units[1]->next += PSTI_COEFS_ASKED_NBYTES;
        level->read_two(units, (const uint32_t[]){units[0]->last, units[1]->last});
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        level->read_ac(units[i], 1, units[i]->last);
}

enum pst_status psti_pli_coefs_finish(void *work, const uint64_t *wanted, struct pst_error *err)
{
    struct psti_coefs_unit *unit = work;
    struct psti_coefs_kept kept;
    const struct psti_coefs_level *level = unit->tables->level;
    enum pst_status status = end_tokens(unit, err);
    if (status != PST_OK)
        return status;
    if (wanted != NULL && level->keep != NULL) {
        level->keep(unit, wanted, &kept);
        unit->kept = &kept;
    }
    level->place_dc(unit);
    level->place_ac(unit, unit->last);
    if (unit->kept != NULL)
        take_kept(&kept, unit->out);
    unit->kept = NULL;
    return check_bits(&unit->bits, err);
}
