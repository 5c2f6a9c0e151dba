/* pli_lz.c - units of mode lz: label maps, screenshots, graphics (docs/format-pli.md, section 6).
 *
 * Decoding has three phases. K interleaved rANS states first decode the tokens of all sequences,
 * then the literals' pixels. Each state decodes its own share, so lanes do not depend on each
 * other. Then the sequences are executed in order: literals, and copies of earlier pixels. Literals
 * are stored at the end of `samples`, where the output can never overtake them. Tokens and tables
 * are in `work`. Rows of pixels are written to their place while the unit is executed, because a
 * unit is larger than the near caches. The functions allocate no memory; any thread may call them.
 * The
 * bytes are hostile: tokens are checked as they are executed, and each sequence is checked against
 * the space before the literals still to come, which also bounds the output. `samples` has 64 bytes
 * more than the pixels need, because copies may write past their end. */
#include "pli/decode/pli_decode_int.h"
#include "pli/format/pli_lz_format.h"

#include "base/bits.h"
#include "base/fail.h"
#include "pli/decode/pli_kernels.h"

#include <assert.h>

#define ROOM "decode"

enum {
    PIXEL_NBYTES_MAX = 8,
    COLOUR_TABLE = PSTI_PLI_LZ_N_SAMPLE_TABLES,
    N_PIXEL_TABLES = PSTI_PLI_LZ_N_SAMPLE_TABLES + 1
};

struct work {
    union {
        uint8_t sequence[PSTI_PLI_LZ_N_SEQUENCE_TABLES][PSTI_LZ_SEQUENCE_TABLE_NBYTES];
        uint8_t pixel[N_PIXEL_TABLES][PSTI_LZ_PIXEL_TABLE_NBYTES];
    } tables;
    uint32_t tokens[PSTI_PLI_LZ_SEQUENCES_MAX + PSTI_LZ_LANES_MAX];
    uint8_t colours[(PSTI_PLI_LZ_COLOURS_MAX + 1) * PIXEL_NBYTES_MAX];
};
static_assert(sizeof(struct work) <= PSTI_PLI_WORK_NBYTES, "work of the lz mode");

/* The built-in decoding tables that units have needed so far, of one set: labels or graphics. They
 * are kept because most units have few tables of their own, and making a table takes as long as
 * some hundred tokens. A unit that uses the other set discards them. */
struct psti_pli_lz_tables {
    const struct psti_pli_lz_built_in *of; /* the set that `tables` are made from; NULL: no table is
                                            * made yet */
    bool is_made[PSTI_PLI_LZ_N_SEQUENCE_TABLES];
    _Alignas(64) uint8_t tables[PSTI_PLI_LZ_N_SEQUENCE_TABLES][PSTI_LZ_SEQUENCE_TABLE_NBYTES];
};
static_assert(sizeof(struct psti_pli_lz_tables) <= PSTI_PLI_LZ_TABLES_NBYTES, "built-in tables");

void psti_pli_lz_begin(struct psti_pli_lz_tables *tables) { tables->of = NULL; }

struct decoder {
    const struct psti_pli_unit *unit;
    struct psti_pli_lz_tables *kept;
    struct work *work;
    uint8_t *samples;
    uint32_t pixel_nbytes, n_pixels;
    /* the members from here to `end` are read from the head of the unit */
    uint32_t n_sequences, n_literals, n_colours, n_escapes, raw_nbytes, tables_nbytes;
    bool subtract_green;
    const struct psti_pli_lz_built_in *built_in;
    const uint8_t *raw, *end;
    struct psti_lz_bits tables; /* descriptions of tables that are not read yet */
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
    /* Indices of colours are stored at the start of `samples` while pixels are written at its
     * end. */
    if (d->n_colours > 0 &&
        (uint64_t)d->n_literals * (d->pixel_nbytes + 1) > (uint64_t)d->n_pixels * d->pixel_nbytes)
        return corrupt(d, err, p, "too many literals for colours");
    uint64_t fixed = 4ull * d->states.n + d->raw_nbytes + d->tables_nbytes;
    if (fixed > (uint64_t)(d->end - p) || ((uint64_t)(d->end - p) - fixed) % 2 != 0)
        return corrupt(d, err, p, "parts do not fit");
    for (uint32_t l = 0; l < d->states.n; l++)
        d->states.x[l] = psti_load_u32(p + 4 * l);
    p += 4 * (size_t)d->states.n;
    psti_pli_lz_bits_begin(&d->tables, p, d->tables_nbytes);
    d->raw = p + d->tables_nbytes;
    d->states.words = d->raw + d->raw_nbytes;
    d->states.end = d->end;
    return PST_OK;
}

/* Reads the frequencies of a table (6.3). Returns false if they do not sum up to 1 << log2. The CPU
 * could not predict whether a field is a frequency or a number of zeros, so the same instructions
 * read both, without a branch. */
static bool read_freqs(struct psti_lz_bits *bits, uint16_t *freqs, uint32_t n, uint32_t log2)
{
    uint32_t left = 1u << log2, i = 0;
    memset(freqs, 0, n * sizeof *freqs);
    while (left > 0) {
        psti_pli_lz_bits_fill(bits);
        uint32_t width = psti_pli_lz_bits_take(bits, 4), is_freq = width > 0;
        uint32_t field = psti_pli_lz_bits_take(bits, is_freq ? width - 1 : 3);
        uint32_t freq = is_freq ? 1u << (width - 1) | field : 0;
        i += is_freq ? 0 : field + 1;
        if (freq > left || i + is_freq > n)
            return false;
        /* i equals n only past the last symbol, where the field is a number of zeros. */
        freqs[i < n ? i : 0] |= (uint16_t)freq;
        i += is_freq;
        left -= freq;
    }
    return true;
}

static void build_table(const uint16_t *freqs, uint32_t n, uint8_t *table)
{
    for (uint32_t symbol = 0; symbol < n; symbol++) {
        uint32_t entry = symbol | (uint32_t)freqs[symbol] << PSTI_LZ_FREQ_SHIFT;
        /* May write past the symbol's entries, into those of the next symbols or into the spare
         * entries after the table. */
        for (uint32_t k = 0; k < freqs[symbol]; k += PSTI_LZ_TABLE_AT_ONCE)
            for (uint32_t i = 0; i < PSTI_LZ_TABLE_AT_ONCE; i++)
                psti_store_u32(table + 4 * (size_t)(k + i),
                               entry + ((k + i) << PSTI_LZ_PLACE_SHIFT));
        table += 4 * (size_t)freqs[symbol];
    }
}

/* The tables of one kind of symbol, such as runs. Built-in tables of sequences are kept, starting
 * at number `first`. */
struct kind {
    uint32_t n_contexts, n_symbols, log2, first;
    /* The built-in frequencies of context 0. Those of context c are c * `step` further. */
    const uint16_t *built_in;
    uint32_t step;
};

/* Returns the built-in table of context c. A table that is not kept is made at *memory, which then
 * moves past it. */
static const uint8_t *built_in_table(struct decoder *d, const struct kind *kind, uint32_t c,
                                     uint8_t **memory)
{
    const uint16_t *freqs = kind->built_in + (size_t)c * kind->step;
    uint8_t *table = *memory;
    if (kind->log2 == PSTI_PLI_LZ_SEQUENCE_BITS) {
        bool *is_made = d->kept->is_made + kind->first + c;
        table = d->kept->tables[kind->first + c];
        if (*is_made)
            return table;
        *is_made = true;
    } else {
        *memory += PSTI_LZ_PIXEL_TABLE_NBYTES;
    }
    build_table(freqs, kind->n_symbols, table);
    return table;
}

/* Finds or makes the tables of all contexts. Tables that are not kept are made one after another at
 * `memory`. Returns the memory after them, or NULL if the unit is corrupt. */
static uint8_t *read_tables(struct decoder *d, const struct kind *kind, uint8_t *memory,
                            const uint8_t **tables)
{
    uint16_t freqs[256];
    for (uint32_t c = 0; c < kind->n_contexts; c++) {
        psti_pli_lz_bits_fill(&d->tables);
        uint32_t told = psti_pli_lz_bits_take(&d->tables, 2);
        if (told == PSTI_PLI_LZ_TABLE_SAME && c > 0) {
            tables[c] = tables[c - 1];
        } else if (told == PSTI_PLI_LZ_TABLE_BUILT_IN) {
            tables[c] = built_in_table(d, kind, c, &memory);
        } else if (told == PSTI_PLI_LZ_TABLE_OWN &&
                   read_freqs(&d->tables, freqs, kind->n_symbols, kind->log2)) {
            build_table(freqs, kind->n_symbols, memory);
            tables[c] = memory;
            memory += kind->log2 == PSTI_PLI_LZ_SEQUENCE_BITS ? PSTI_LZ_SEQUENCE_TABLE_NBYTES
                                                              : PSTI_LZ_PIXEL_TABLE_NBYTES;
        } else {
            return NULL;
        }
    }
    return memory;
}

static const uint8_t *tables_at(const struct decoder *d)
{
    size_t used = psti_pli_lz_bits_used(&d->tables);
    return d->tables.base + (used < d->tables_nbytes ? used : d->tables_nbytes);
}

static enum pst_status decode_sequences(struct decoder *d, struct pst_error *err)
{
    enum {
        LOG2 = PSTI_PLI_LZ_SEQUENCE_BITS,
        N_RUN = PSTI_PLI_LZ_RUN_CONTEXTS,
        N_OFFSET = PSTI_PLI_LZ_OFFSET_CONTEXTS,
        N_LENGTH = PSTI_PLI_LZ_LENGTH_CONTEXTS
    };
    const struct psti_pli_lz_built_in *of = d->built_in;
    const struct kind runs = {N_RUN, PSTI_PLI_LZ_N_RUNS, LOG2, 0, of->run[0], PSTI_PLI_LZ_N_RUNS};
    const struct kind offsets = {N_OFFSET, PSTI_PLI_LZ_N_OFFSETS, LOG2,
                                 N_RUN,    of->offset[0],         PSTI_PLI_LZ_N_OFFSETS};
    const struct kind lengths = {N_LENGTH,         PSTI_PLI_LZ_N_LENGTHS, LOG2,
                                 N_RUN + N_OFFSET, of->length[0],         PSTI_PLI_LZ_N_LENGTHS};
    uint8_t *memory = d->work->tables.sequence[0];
    struct psti_lz_sequence_tables tables = {.memory = memory};
    const uint8_t *run[N_RUN];
    if (d->n_sequences == 0)
        return PST_OK;
    if (d->kept->of != of) {
        memset(d->kept->is_made, 0, sizeof d->kept->is_made);
        d->kept->of = of;
    }
    memory = read_tables(d, &runs, memory, run);
    if (memory)
        memory = read_tables(d, &offsets, memory, tables.offset);
    if (memory)
        memory = read_tables(d, &lengths, memory, tables.length);
    if (!memory)
        return corrupt(d, err, tables_at(d), "bad table of sequences");
    for (uint32_t ending = 0; ending < PSTI_LZ_N_ENDINGS; ending++)
        tables.run[ending] = run[psti_pli_lz_run_context(ending)];
    psti_pli_lz_decode_sequences(d->unit->kernels->lz, &d->states, &tables, d->n_sequences,
                                 d->work->tokens);
    return PST_OK;
}

/* Sets uniform frequencies of n symbols. */
static void flat_freqs(uint16_t *freqs, uint32_t n)
{
    uint32_t sum = 1u << PSTI_PLI_LZ_PIXEL_BITS;
    for (uint32_t i = 0; i < n; i++)
        freqs[i] = (uint16_t)(sum / n + (i < sum % n));
}

/* Adds green to the other channels like psti_pli_lz_add_green, for samples of 16 bits. */
static void add_green_u16(uint8_t *pixel)
{
    uint16_t green = psti_load_u16(pixel + 2);
    psti_store_u16(pixel, (uint16_t)(psti_load_u16(pixel) + green));
    psti_store_u16(pixel + 4, (uint16_t)(psti_load_u16(pixel + 4) + green));
}

/* Decodes the colours, and then the escaped pixels, to the end of `samples`. */
static void decode_pixels(struct decoder *d, const uint8_t *const *tables)
{
    uint32_t P = d->pixel_nbytes;
    struct psti_lz_pixels_to to = {
        .pixel_nbytes = P,
        .n = d->n_colours + d->n_escapes,
        .split = d->n_colours,
        .add_green = d->subtract_green && d->unit->bits == 8,
        .colours = d->work->colours,
        .out = d->samples + (size_t)(d->n_pixels - d->n_escapes) * P,
    };
    for (uint32_t b = 0; b < P; b++)
        to.tables[b] = tables[psti_pli_lz_sample_table(d->unit->bits, b)];
    psti_pli_lz_decode_pixels(d->unit->kernels->lz, &d->states, &to);
    for (uint32_t i = 0; i < to.n && d->subtract_green && d->unit->bits == 16; i++)
        add_green_u16(psti_pli_lz_pixel_at(&to, i));
}

/* Positions in `samples` while literals become pixels: the next index and the next escaped pixel to
 * read, the end, and the next pixel to write. The pixels written never overlap the escaped pixels
 * that are still to be read. */
struct placing {
    const uint8_t *index, *escape, *end;
    uint8_t *out;
};

/* Writes literals of 3 or 4 bytes as pixels, four bytes at a time, as long as these writes do not
 * reach the escaped pixels. */
static inline __attribute__((always_inline)) void place_many(struct placing *p,
                                                             const struct decoder *d,
                                                             const uint32_t P)
{
    uint32_t colours[PSTI_PLI_LZ_COLOURS_MAX + 1];
    for (uint32_t i = 0; i <= d->n_colours; i++)
        colours[i] = psti_load_u32(d->work->colours + (size_t)i * P);
    struct placing now = *p;
    while (now.escape - now.out >= 2 * (ptrdiff_t)P && now.escape < now.end) {
        uint32_t index = *now.index++, is_escape = index >= d->n_colours;
        /* Arithmetic selects the colour or the escaped pixel, because the CPU could not predict
         * which literals are escaped. */
        uint32_t colour = colours[index];
        psti_store_u32(now.out, colour ^ ((colour ^ psti_load_u32(now.escape)) & (0 - is_escape)));
        now.out += P;
        now.escape += P & (0 - is_escape);
    }
    *p = now;
}

/* Stores all literals as pixels, which end at the end of `samples`. The indices at its start
 * become pixels, and the escaped pixels at its very end move down. Returns false if indices and
 * escaped pixels do not match in number. */
static bool place_literals(const struct decoder *d)
{
    uint32_t P = d->pixel_nbytes;
    struct placing p = {
        .index = d->samples,
        .out = d->samples + (size_t)(d->n_pixels - d->n_literals) * P,
        .escape = d->samples + (size_t)(d->n_pixels - d->n_escapes) * P,
        .end = d->samples + (size_t)d->n_pixels * P,
    };
    if (P == 3)
        place_many(&p, d, 3);
    else if (P == 4)
        place_many(&p, d, 4);
    for (; p.out < p.end; p.out += P) {
        uint32_t index = *p.index++;
        if (index < d->n_colours) {
            psti_pli_lz_move_pixel(p.out, d->work->colours + (size_t)index * P, P);
            continue;
        }
        if (p.escape == p.end)
            return false;
        psti_pli_lz_move_pixel(p.out, p.escape, P);
        p.escape += P;
    }
    return p.escape == p.end;
}

static enum pst_status decode_literals(struct decoder *d, struct pst_error *err)
{
    const uint8_t *tables[N_PIXEL_TABLES];
    uint16_t flat[256];
    uint32_t n_tables = d->unit->bits == 8 ? d->unit->channels : d->unit->channels > 1 ? 4u : 2u;
    uint8_t *memory = d->work->tables.pixel[0];
    enum { LOG2 = PSTI_PLI_LZ_PIXEL_BITS };
    const struct kind colours = {1, d->n_colours + 1, LOG2, 0, flat, 0};
    const struct kind samples = {n_tables, 256, LOG2, 0, flat, 0};
    if (d->n_literals == 0)
        return PST_OK;
    if (d->n_colours > 0) {
        flat_freqs(flat, d->n_colours + 1);
        memory = read_tables(d, &colours, memory, tables + COLOUR_TABLE);
        if (!memory)
            return corrupt(d, err, tables_at(d), "bad table of colours");
        psti_pli_lz_decode_symbols(d->unit->kernels->lz, &d->states, tables[COLOUR_TABLE],
                                   d->n_literals, d->samples);
    }
    flat_freqs(flat, 256);
    if (!read_tables(d, &samples, memory, tables))
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
    if (psti_pli_lz_bits_used(&d->tables) != d->tables_nbytes)
        return corrupt(d, err, d->raw, "tables do not come out even");
    return PST_OK;
}

/* A unit whose rows of pixels are written to their place as soon as they are complete. */
struct rows {
    const struct psti_pli_unit *unit;
    const uint8_t *samples;
    const struct psti_pli_part *part;
    uint32_t n; /* number of rows of the part that are already written */
};

/* Writes the rows that are complete now to their place, while they are in a near cache. */
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

enum pst_status psti_pli_lz_decode(const struct psti_pli_unit *unit,
                                   struct psti_pli_lz_tables *tables, void *samples, void *work,
                                   const struct psti_pli_part *part, struct pst_error *err)
{
    struct decoder d = {
        .unit = unit,
        .kept = tables,
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
    psti_pli_lz_bits_begin(&run.raw, d.raw, d.raw_nbytes);
    const char *what = unit->kernels->lz->execute(&run, d.pixel_nbytes);
    if (!what && psti_pli_lz_bits_used(&run.raw) != d.raw_nbytes)
        what = "raw bits do not come out even";
    return what ? corrupt(&d, err, d.raw, what) : PST_OK;
}
