/* pli_lz.c - units of mode lz: label maps, screenshots, graphics (docs/format-pli.md, section 6).
 *
 * Three phases. Tokens of all sequences, then the literals' pixels, come out of K interleaved rANS
 * states, each of which decodes its own run of sequences, so that lanes need nothing of each other.
 * Then the sequences are executed in order: literals and copies of earlier pixels. Literals wait at
 * the end of `samples`, where the output can never overtake them; tokens and tables lie in `work`.
 * Rows are written to where they go as they come, for a unit is larger than the near caches.
 * No memory, any thread. Hostile bytes: tokens are checked as they are executed, each sequence
 * against the room before the literals still to come, which bounds the output too; `samples` has 64
 * bytes more than the pixels need, for copies that run over. */
#include "decode/pli_int.h"
#include "format/format_pli_lz.h"

#include "base/bits.h"
#include "base/fail.h"
#include "decode/pli_lz_copy.h"
#include "decode/pli_lz_tokens.h"

#include <assert.h>

#define ROOM "decode"

enum {
    PIXEL_NBYTES_MAX = 8,
    COLOUR_TABLE = PSTI_PLI_LZ_N_SAMPLE_TABLES,
    N_PIXEL_TABLES = PSTI_PLI_LZ_N_SAMPLE_TABLES + 1
};
static_assert((int)PSTI_PLI_LZ_N_LENGTHS <= (int)PSTI_LZ_SEQUENCE_SYMBOLS, "symbols of a table");

struct work {
    union {
        uint8_t sequence[PSTI_PLI_LZ_N_SEQUENCE_TABLES][PSTI_LZ_SEQUENCE_TABLE_NBYTES];
        uint8_t pixel[N_PIXEL_TABLES][PSTI_LZ_PIXEL_TABLE_NBYTES];
    } tables;
    uint32_t tokens[PSTI_PLI_LZ_SEQUENCES_MAX + PSTI_LZ_LANES_MAX];
    uint8_t colours[(PSTI_PLI_LZ_COLOURS_MAX + 1) * PIXEL_NBYTES_MAX];
};
static_assert(sizeof(struct work) <= PSTI_PLI_WORK_NBYTES, "work of the lz mode");

struct decoder {
    const struct psti_pli_unit *unit;
    struct work *work;
    uint8_t *samples;
    uint32_t pixel_nbytes, n_pixels;
    /* head */
    uint32_t n_sequences, n_literals, n_colours, n_escapes, raw_nbytes, tables_nbytes;
    bool subtract_green;
    const struct psti_pli_lz_built_in *built_in;
    const uint8_t *raw, *end;
    struct psti_lz_bits tables; /* descriptions of tables not yet read */
    struct psti_lz_lanes states;
};

static enum pst_status corrupt(const struct decoder *d, struct pst_error *err, const uint8_t *at,
                               const char *what)
{
    psti_fail(err, PST_ERROR_CORRUPT, ROOM, "lz: %s", what);
    if (err && at)
        err->offset = at - d->unit->bytes;
    return PST_ERROR_CORRUPT;
}

static enum pst_status read_head(struct decoder *d, struct pst_error *err)
{
    const uint8_t *p = d->unit->bytes;
    if (d->unit->nbytes == 0)
        return corrupt(d, err, p, "no form");
    uint8_t form = *p++;
    uint32_t log2 = form & 7;
    d->states.n = 1u << log2;
    d->subtract_green = (form & PSTI_PLI_LZ_SUBTRACT_GREEN) != 0;
    d->built_in = psti_pli_lz_built_in + ((form & PSTI_PLI_LZ_GRAPHICS) != 0);
    if (form > PSTI_PLI_LZ_FORM_MAX || log2 > PSTI_PLI_LZ_LANES_LOG2_MAX ||
        (d->subtract_green && d->unit->channels < 3))
        return corrupt(d, err, p, "unknown form");
    if (!psti_pli_take_number(&p, d->end, &d->n_sequences) ||
        !psti_pli_take_number(&p, d->end, &d->n_literals) ||
        !psti_pli_take_number(&p, d->end, &d->n_colours))
        return corrupt(d, err, p, "counts cut off");
    d->n_escapes = d->n_literals;
    if ((d->n_colours > 0 && !psti_pli_take_number(&p, d->end, &d->n_escapes)) ||
        !psti_pli_take_number(&p, d->end, &d->raw_nbytes) ||
        !psti_pli_take_number(&p, d->end, &d->tables_nbytes))
        return corrupt(d, err, p, "counts cut off");
    if (d->n_sequences > PSTI_PLI_LZ_SEQUENCES_MAX || d->n_literals > d->n_pixels ||
        d->n_colours > PSTI_PLI_LZ_COLOURS_MAX || d->n_escapes > d->n_literals)
        return corrupt(d, err, p, "counts out of range");
    /* Indices of colours lie at the start of `samples` while pixels grow at its end. */
    if (d->n_colours > 0 &&
        (uint64_t)d->n_literals * (d->pixel_nbytes + 1) > (uint64_t)d->n_pixels * d->pixel_nbytes)
        return corrupt(d, err, p, "too many literals for colours");
    uint64_t fixed = 4ull * d->states.n + d->raw_nbytes + d->tables_nbytes;
    if (fixed > (uint64_t)(d->end - p) || ((uint64_t)(d->end - p) - fixed) % 2 != 0)
        return corrupt(d, err, p, "parts do not fit");
    for (uint32_t l = 0; l < d->states.n; l++)
        d->states.x[l] = psti_load_u32(p + 4 * l);
    p += 4 * (size_t)d->states.n;
    psti_lz_bits_begin(&d->tables, p, d->tables_nbytes);
    d->raw = p + d->tables_nbytes;
    d->states.words = d->raw + d->raw_nbytes;
    d->states.end = d->end;
    return PST_OK;
}

/* Frequencies as the unit tells them: false if they do not come to 1 << log2. */
static bool read_freqs(struct psti_lz_bits *bits, uint16_t *freqs, uint32_t n, uint32_t log2)
{
    uint32_t left = 1u << log2, i = 0;
    while (left > 0) {
        psti_lz_bits_fill(bits);
        uint32_t width = psti_lz_bits_take(bits, 4);
        uint32_t zeros = 0, freq = 0;
        if (width == 0)
            zeros = 1 + psti_lz_bits_take(bits, 3);
        else
            freq = (1u << (width - 1)) | psti_lz_bits_take(bits, width - 1);
        if (freq > left || zeros + (freq > 0) > n - i)
            return false;
        for (; zeros > 0; zeros--)
            freqs[i++] = 0;
        if (freq > 0)
            freqs[i++] = (uint16_t)freq;
        left -= freq;
    }
    for (; i < n; i++)
        freqs[i] = 0;
    return true;
}

static void build_table(const uint16_t *freqs, uint32_t n, uint32_t log2, uint8_t *table)
{
    uint8_t *symbols = table, *info = table + psti_lz_info_offset(log2);
    for (uint32_t symbol = 0; symbol < n; symbol++) {
        uint32_t start = (uint32_t)(symbols - table);
        for (uint32_t k = 0; k < freqs[symbol]; k += PSTI_LZ_TABLE_SLACK)
            memset(symbols + k, (int)symbol,
                   PSTI_LZ_TABLE_SLACK); /* into what follows, or the slack */
        psti_store_u32(info + 4 * (size_t)symbol, freqs[symbol] | start << 16);
        symbols += freqs[symbol];
    }
}

/* One kind of token: its contexts' tables, made one after another at `memory`. NULL if corrupt. */
static uint8_t *read_tables(struct decoder *d, uint32_t n_contexts, uint32_t n_symbols,
                            uint32_t log2, const uint16_t *built_in, uint32_t built_in_step,
                            uint8_t *memory, const uint8_t **tables)
{
    uint16_t freqs[256];
    for (uint32_t c = 0; c < n_contexts; c++) {
        psti_lz_bits_fill(&d->tables);
        uint32_t kind = psti_lz_bits_take(&d->tables, 2);
        if (kind == PSTI_PLI_LZ_TABLE_SAME && c > 0) {
            tables[c] = tables[c - 1];
            continue;
        }
        if (kind == PSTI_PLI_LZ_TABLE_OWN) {
            if (!read_freqs(&d->tables, freqs, n_symbols, log2))
                return NULL;
            build_table(freqs, n_symbols, log2, memory);
        } else if (kind == PSTI_PLI_LZ_TABLE_BUILT_IN) {
            build_table(built_in + (size_t)c * built_in_step, n_symbols, log2, memory);
        } else {
            return NULL;
        }
        tables[c] = memory;
        memory += log2 == PSTI_PLI_LZ_SEQUENCE_BITS ? PSTI_LZ_SEQUENCE_TABLE_NBYTES
                                                    : PSTI_LZ_PIXEL_TABLE_NBYTES;
    }
    return memory;
}

static const uint8_t *tables_at(const struct decoder *d)
{
    size_t used = psti_lz_bits_used(&d->tables);
    return d->tables.base + (used < d->tables_nbytes ? used : d->tables_nbytes);
}

static enum pst_status decode_sequences(struct decoder *d, struct pst_error *err)
{
    struct psti_lz_sequence_tables tables = {.memory = d->work->tables.sequence[0]};
    const uint8_t *run[PSTI_PLI_LZ_RUN_CONTEXTS];
    uint8_t *memory = d->work->tables.sequence[0];
    enum { LOG2 = PSTI_PLI_LZ_SEQUENCE_BITS };
    if (d->n_sequences == 0)
        return PST_OK;
    memory = read_tables(d, PSTI_PLI_LZ_RUN_CONTEXTS, PSTI_PLI_LZ_N_RUNS, LOG2, d->built_in->run[0],
                         PSTI_PLI_LZ_N_RUNS, memory, run);
    if (memory)
        memory = read_tables(d, PSTI_PLI_LZ_OFFSET_CONTEXTS, PSTI_PLI_LZ_N_OFFSETS, LOG2,
                             d->built_in->offset[0], PSTI_PLI_LZ_N_OFFSETS, memory, tables.offset);
    if (memory)
        memory = read_tables(d, PSTI_PLI_LZ_LENGTH_CONTEXTS, PSTI_PLI_LZ_N_LENGTHS, LOG2,
                             d->built_in->length[0], PSTI_PLI_LZ_N_LENGTHS, memory, tables.length);
    if (!memory)
        return corrupt(d, err, tables_at(d), "bad table of sequences");
    for (uint32_t ending = 0; ending < PSTI_LZ_N_ENDINGS; ending++)
        tables.run[ending] = run[psti_pli_lz_run_context(ending)];
    psti_lz_decode_sequences(&d->states, &tables, d->n_sequences, d->work->tokens, d->unit->cpu);
    return PST_OK;
}

/* Uniform frequencies over n symbols. */
static void flat_freqs(uint16_t *freqs, uint32_t n)
{
    uint32_t sum = 1u << PSTI_PLI_LZ_PIXEL_BITS;
    for (uint32_t i = 0; i < n; i++)
        freqs[i] = (uint16_t)(sum / n + (i < sum % n));
}

static void add_green(const struct decoder *d, uint8_t *pixel)
{
    if (d->unit->bits == 8) {
        pixel[0] = (uint8_t)(pixel[0] + pixel[1]);
        pixel[2] = (uint8_t)(pixel[2] + pixel[1]);
        return;
    }
    uint16_t green = psti_load_u16(pixel + 2);
    psti_store_u16(pixel, (uint16_t)(psti_load_u16(pixel) + green));
    psti_store_u16(pixel + 4, (uint16_t)(psti_load_u16(pixel + 4) + green));
}

/* Colours, then escapes to the end of `samples`. */
static void decode_pixels(struct decoder *d, const uint8_t *const *tables)
{
    uint32_t P = d->pixel_nbytes;
    struct psti_lz_pixels_to to = {
        .pixel_nbytes = P,
        .n = d->n_colours + d->n_escapes,
        .split = d->n_colours,
        .colours = d->work->colours,
        .out = d->samples + (size_t)(d->n_pixels - d->n_escapes) * P,
    };
    for (uint32_t b = 0; b < P; b++)
        to.tables[b] = tables[psti_pli_lz_sample_table(d->unit->bits, b)];
    psti_lz_decode_pixels(&d->states, &to, d->unit->cpu);
    for (uint32_t i = 0; i < to.n && d->subtract_green; i++)
        add_green(d, psti_lz_pixel_at(&to, i));
}

/* Literals to the end of `samples`: indices at its start become pixels there, between them escaped
 * pixels move down from the very end, which no write reaches before them. */
static bool place_literals(const struct decoder *d)
{
    uint32_t P = d->pixel_nbytes;
    uint8_t *out = d->samples + (size_t)(d->n_pixels - d->n_literals) * P;
    const uint8_t *escape = d->samples + (size_t)(d->n_pixels - d->n_escapes) * P;
    const uint8_t *end = d->samples + (size_t)d->n_pixels * P;
    for (uint32_t i = 0; i < d->n_literals; i++, out += P) {
        uint32_t index = d->samples[i], is_escape = index >= d->n_colours;
        /* Chosen by arithmetic, for which literals are escaped cannot be foreseen. */
        uintptr_t colour = (uintptr_t)(d->work->colours + (size_t)index * P);
        uintptr_t from = colour ^ ((colour ^ (uintptr_t)escape) & (0 - (uintptr_t)is_escape));
        if (is_escape & (escape == end))
            return false;
        psti_lz_move_pixel(out, (const uint8_t *)from, P);
        escape += P * is_escape;
    }
    return escape == end;
}

static enum pst_status decode_literals(struct decoder *d, struct pst_error *err)
{
    const uint8_t *tables[N_PIXEL_TABLES];
    uint16_t flat[256];
    uint32_t n_tables = d->unit->bits == 8 ? d->unit->channels : d->unit->channels > 1 ? 4u : 2u;
    uint8_t *memory = d->work->tables.pixel[0];
    enum { LOG2 = PSTI_PLI_LZ_PIXEL_BITS };
    if (d->n_literals == 0)
        return PST_OK;
    if (d->n_colours > 0) {
        flat_freqs(flat, d->n_colours + 1);
        memory = read_tables(d, 1, d->n_colours + 1, LOG2, flat, 0, memory, tables + COLOUR_TABLE);
        if (!memory)
            return corrupt(d, err, tables_at(d), "bad table of colours");
        psti_lz_decode_symbols(&d->states, tables[COLOUR_TABLE], d->n_literals, d->samples,
                               d->unit->cpu);
    }
    flat_freqs(flat, 256);
    if (!read_tables(d, n_tables, 256, LOG2, flat, 0, memory, tables))
        return corrupt(d, err, tables_at(d), "bad table of samples");
    decode_pixels(d, tables);
    if (d->n_colours > 0 && !place_literals(d))
        return corrupt(d, err, d->states.words, "escapes do not come out even");
    return PST_OK;
}

static enum pst_status check_end(const struct decoder *d, struct pst_error *err)
{
    for (uint32_t l = 0; l < d->states.n; l++)
        if (d->states.x[l] != PSTI_LZ_STATE_LOW)
            return corrupt(d, err, d->states.words, "a state does not come out even");
    if (d->states.words != d->end)
        return corrupt(d, err, d->states.words, "words left over");
    if (psti_lz_bits_used(&d->tables) != d->tables_nbytes)
        return corrupt(d, err, d->raw, "tables do not come out even");
    return PST_OK;
}

/* Rows of pixels that are there and not yet written to where they go. */
struct rows {
    const struct psti_pli_unit *unit;
    const uint8_t *samples;
    const struct psti_pli_part *part;
    uint32_t n; /* of the part, written */
};

/* Writes the rows that are whole by now, while they are in a near cache. */
static void write_rows(void *ctx, size_t nbytes)
{
    struct rows *rows = ctx;
    const struct psti_pli_part *part = rows->part;
    size_t row_nbytes = (size_t)rows->unit->width * rows->unit->channels * (rows->unit->bits / 8u);
    size_t whole = nbytes / row_nbytes, end = part->y + part->height;
    end = (whole < end ? whole : end);
    if (end <= (size_t)part->y + rows->n)
        return;
    struct pst_pixels pixels = *part->pixels;
    struct psti_pli_part now = *part;
    pixels.data = (uint8_t *)pixels.data + (int64_t)rows->n * pixels.row_nbytes;
    now.pixels = &pixels;
    now.y += rows->n;
    now.height = (uint32_t)end - now.y;
    psti_pli_emit_pixels(rows->unit, rows->samples, &now);
    rows->n += now.height;
}

enum pst_status psti_pli_lz_decode(const struct psti_pli_unit *unit, void *samples, void *work,
                                   const struct psti_pli_part *part, struct pst_error *err)
{
    struct decoder d = {
        .unit = unit,
        .work = work,
        .samples = samples,
        .pixel_nbytes = (uint32_t)unit->channels * (unit->bits / 8u),
        .n_pixels = unit->height * unit->width,
        .end = unit->bytes + unit->nbytes,
    };
    enum pst_status status = read_head(&d, err);
    if (status == PST_OK)
        status = decode_sequences(&d, err);
    if (status == PST_OK)
        status = decode_literals(&d, err);
    if (status == PST_OK)
        status = check_end(&d, err);
    if (status != PST_OK)
        return status;
    struct rows rows = {unit, samples, part, 0};
    struct psti_lz_execution run = {
        .tokens = d.work->tokens,
        .n_sequences = d.n_sequences,
        .n_lanes = d.states.n,
        .width = unit->width,
        .samples = samples,
        .literals = d.samples + (size_t)(d.n_pixels - d.n_literals) * d.pixel_nbytes,
        .n_literals = d.n_literals,
        .n_pixels = d.n_pixels,
        .done = part ? write_rows : NULL,
        .done_ctx = &rows,
    };
    psti_lz_bits_begin(&run.raw, d.raw, d.raw_nbytes);
    const char *what = psti_lz_execute(&run, d.pixel_nbytes, unit->cpu);
    if (!what && psti_lz_bits_used(&run.raw) != d.raw_nbytes)
        what = "raw bits do not come out even";
    return what ? corrupt(&d, err, d.raw, what) : PST_OK;
}
