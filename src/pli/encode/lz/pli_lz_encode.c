/* pli_lz_encode.c - writes one unit of mode lz: pixels become sequences, colours, tables, states
 * and bytes.
 *
 * Pixels are first replaced by ids, because the parser then need not know about channels. Frequent
 * literals become indices of colours; other literals keep their samples. If a unit does not fit the
 * given capacity, or this mode cannot hold it, the caller uses another mode. Deterministic; uses
 * only integers and the caller's memory. */
#include "pli/encode/pli_encode_int.h"
#include "pli/encode/lz/pli_lz_int.h"

#include "base/bits.h"

#include <string.h>

enum {
    TABLES_CAPACITY = 16 * 1024,
    RAW_CAPACITY = PSTI_PLI_LZ_SEQUENCES_MAX * 6,
    LANE_SYMBOLS = 192, /* a lane costs about 20 bits, so it should code at least this many
                         * symbols */
    INDEX_BITS = 7,     /* approximate cost in bits of an index of a colour */
    SAMPLE_BITS = 6,    /* approximate cost in bits of a byte of a sample */
    N_TABLES = PSTI_PLI_LZ_N_SEQUENCE_TABLES + 1 + PSTI_PLI_LZ_N_SAMPLE_TABLES
};

static const struct psti_lz_effort efforts[6] = {
    [1] = {.depth = 2, .nice = 12, .shorter = 0, .sparse = 8, .passes = 1},
    [2] = {.depth = 4, .nice = 24, .shorter = 0, .sparse = 4, .passes = 1},
    [3] = {.depth = 6, .nice = 32, .shorter = 1, .sparse = 4, .passes = 1},
    [4] = {.depth = 16, .nice = 64, .shorter = 8, .sparse = 1, .passes = 2},
    [5] = {.depth = 64, .nice = 256, .shorter = 32, .sparse = 1, .passes = 3},
};

struct encoder {
    const struct psti_pli_source *source;
    uint32_t P, n; /* bytes of a pixel; number of pixels of the unit */
    struct psti_lz_pixels pixels;
    struct psti_lz_sequence *sequences;
    uint32_t n_sequences;
    struct psti_lz_counts *counts;
    uint32_t *literals; /* positions of the literals */
    uint32_t n_literals;
    uint64_t *keys[2]; /* two arrays of n + 1 keys, for sorting */
    uint8_t *indices;  /* index of the colour of each literal; n_colours stands for an escaped
                        * pixel */
    uint8_t *coded;    /* pixels whose samples are coded: first colours, then escaped pixels */
    uint32_t n_colours, n_coded;
    bool subtract_green;
    bool graphics; /* true: built-in tables for graphics; false: for labels */
    const struct psti_pli_lz_built_in *built_in;
    struct psti_lz_symbol *symbols;
    size_t n_symbols;
    struct psti_lz_table *tables;
    struct psti_lz_writer table_bits, raw_bits;
};

/* Takes the next `nbytes` bytes of the memory, aligned to 64. */
static void *claim(uint8_t **memory, size_t nbytes)
{
    uint8_t *claimed = *memory;
    *memory += psti_round_up(nbytes, 64);
    return claimed;
}

static size_t symbols_max(size_t n, size_t P)
{
    return 3 * (size_t)PSTI_PLI_LZ_SEQUENCES_MAX + n + (n + PSTI_PLI_LZ_COLOURS_MAX) * P;
}

/* Places the arrays in `memory` and returns their total size. A caller that only wants the size
 * does not use the arrays. */
static size_t lay_out(struct encoder *e, uint8_t *memory, size_t n, size_t P)
{
    uint8_t *m = memory;
    struct psti_lz_pixels *p = &e->pixels;
    p->ids = claim(&m, (n + 16) * sizeof *p->ids);
    p->edges = claim(&m, n * sizeof *p->edges);
    p->to_edge = claim(&m, n + 4);
    p->chain = claim(&m, n * sizeof *p->chain);
    p->heads = claim(&m, sizeof *p->heads << PSTI_LZ_HASH_BITS);
    p->nodes = claim(&m, PSTI_LZ_N_NODES * sizeof *p->nodes);
    e->sequences = claim(&m, PSTI_PLI_LZ_SEQUENCES_MAX * sizeof *e->sequences);
    e->counts = claim(&m, sizeof *e->counts);
    e->literals = claim(&m, n * sizeof *e->literals);
    e->keys[0] = claim(&m, (n + 1) * sizeof *e->keys[0]);
    e->keys[1] = claim(&m, (n + 1) * sizeof *e->keys[1]);
    e->indices = claim(&m, n);
    e->coded = claim(&m, (n + PSTI_PLI_LZ_COLOURS_MAX) * P);
    e->symbols = claim(&m, symbols_max(n, P) * sizeof *e->symbols);
    e->tables = claim(&m, N_TABLES * sizeof *e->tables);
    e->table_bits.out = claim(&m, TABLES_CAPACITY);
    e->table_bits.capacity = TABLES_CAPACITY;
    e->raw_bits.out = claim(&m, RAW_CAPACITY);
    e->raw_bits.capacity = RAW_CAPACITY;
    return (size_t)(m - memory);
}

size_t psti_pli_lz_work_nbytes(uint32_t edge, uint8_t channels, uint8_t bits)
{
    static uint8_t nowhere[1];
    struct encoder e;
    return lay_out(&e, nowhere, (size_t)edge * edge, (size_t)channels * (bits / 8u)) + 64;
}

/* Gives an id to each pixel of more than 4 bytes: the number of the first equal pixel. */
static void intern(struct encoder *e, uint32_t *slots, uint32_t log2)
{
    const uint8_t *pixel = e->source->pixels;
    memset(slots, 0xff, sizeof *slots << log2);
    for (uint32_t i = 0; i < e->n; i++, pixel += e->P) {
        uint64_t value = 0;
        memcpy(&value, pixel, e->P);
        uint64_t h = value * 0x9e3779b97f4a7c15ull >> (64 - log2);
        const uint8_t *first = e->source->pixels;
        while (slots[h] != UINT32_MAX && memcmp(first + (size_t)slots[h] * e->P, pixel, e->P) != 0)
            h = (h + 1) & ((1ull << log2) - 1);
        if (slots[h] == UINT32_MAX)
            slots[h] = i;
        e->pixels.ids[i] = slots[h];
    }
}

static void make_ids(struct encoder *e)
{
    const uint8_t *pixel = e->source->pixels;
    uint32_t *ids = e->pixels.ids;
    uint32_t n = e->n;
    memset(ids + n, 0, 16 * sizeof *ids);
    switch (e->P) {
    case 1:
        for (uint32_t i = 0; i < n; i++)
            ids[i] = pixel[i];
        break;
    case 2:
        for (uint32_t i = 0; i < n; i++)
            ids[i] = psti_load_u16(pixel + 2 * (size_t)i);
        break;
    case 3:
        for (uint32_t i = 0; i + 1 < n; i++, pixel += 3)
            ids[i] = psti_load_u32(pixel) & 0xffffff;
        ids[n - 1] = pixel[0] | (uint32_t)pixel[1] << 8 | (uint32_t)pixel[2] << 16;
        break;
    case 4:
        memcpy(ids, pixel, 4 * (size_t)n);
        break;
    default: {
        /* `slots` needs more entries than twice the number of pixels. keys[0] and keys[1] together
         * have space for four times that number. */
        uint32_t log2 = 1;
        while ((1u << log2) <= 2 * n)
            log2++;
        intern(e, (uint32_t *)(void *)e->keys[0], log2);
    }
    }
}

/* How `n` symbols or sequences are divided among the lanes: lane l has per_lane of them, from
 * number l * per_lane on. */
struct shares {
    uint32_t n, per_lane;
};
static struct shares share(uint32_t n, uint32_t lanes)
{
    return (struct shares){n, (n + lanes - 1) / lanes};
}
/* Returns how many lanes code something in step t; 0 after the last step. */
static uint32_t active(struct shares s, uint32_t t)
{
    return t < s.per_lane ? (s.n - t + s.per_lane - 1) / s.per_lane : 0;
}

/* Counts tokens in the contexts in which lanes code them. Each lane starts with the first
 * ending. */
static void count_tokens(struct encoder *e, uint32_t lanes)
{
    struct shares s = share(e->n_sequences, lanes);
    uint32_t ending = PSTI_PLI_LZ_ENDING_FIRST;
    memset(e->counts, 0, sizeof *e->counts);
    for (uint32_t i = 0; i < e->n_sequences; i++) {
        const struct psti_lz_sequence *q = e->sequences + i;
        if (i % s.per_lane == 0)
            ending = PSTI_PLI_LZ_ENDING_FIRST;
        e->counts->run[psti_pli_lz_run_context(ending)][q->run_token]++;
        e->counts->offset[q->run > 0 ? PSTI_PLI_LZ_OFFSET_AFTER_RUN : ending][q->offset_code]++;
        e->counts->length[psti_pli_lz_offset_class(q->offset_code)][q->length_token]++;
        ending = psti_pli_lz_ending(q->offset_code, q->length_token);
    }
}

static void list_literals(struct encoder *e)
{
    uint32_t at = 0;
    e->n_literals = 0;
    for (uint32_t i = 0; i < e->n_sequences; i++) {
        for (uint32_t k = 0; k < e->sequences[i].run; k++)
            e->literals[e->n_literals++] = at + k;
        at += e->sequences[i].run + e->sequences[i].length;
    }
    while (at < e->n)
        e->literals[e->n_literals++] = at++;
}

/* Sorts keys in ascending order, with the result in keys[0]. A byte in which all keys agree costs
 * only a counting pass. */
static void sort_keys(uint64_t *keys[2], uint32_t n)
{
    for (uint32_t shift = 0; shift < 64; shift += 8) {
        uint32_t places[256] = {0};
        for (uint32_t i = 0; i < n; i++)
            places[keys[0][i] >> shift & 255]++;
        if (n == 0 || places[keys[0][0] >> shift & 255] == n)
            continue;
        for (uint32_t b = 0, sum = 0; b < 256; b++) {
            uint32_t count = places[b];
            places[b] = sum;
            sum += count;
        }
        for (uint32_t i = 0; i < n; i++)
            keys[1][places[keys[0][i] >> shift & 255]++] = keys[0][i];
        uint64_t *sorted = keys[1];
        keys[1] = keys[0];
        keys[0] = sorted;
    }
}

static void code_pixel(struct encoder *e, uint32_t at)
{
    memcpy(e->coded + (size_t)e->n_coded++ * e->P,
           (const uint8_t *)e->source->pixels + (size_t)at * e->P, e->P);
}

/* Chooses as colours the literals that occur often enough, most frequent first. */
static void choose_colours(struct encoder *e)
{
    uint32_t n = e->n_literals, n_kinds = 0;
    uint64_t *keys[2] = {e->keys[0], e->keys[1]};
    e->n_colours = e->n_coded = 0;
    if (e->P == 1 || (uint64_t)n * (e->P + 1) > (uint64_t)e->n * e->P)
        return;
    /* Sorts literals by id; then sorts the different ids by frequency and by their first
     * position. */
    for (uint32_t i = 0; i < n; i++)
        keys[0][i] = (uint64_t)e->pixels.ids[e->literals[i]] << 32 | i;
    sort_keys(keys, n);
    for (uint32_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && keys[0][next] >> 32 == keys[0][i] >> 32;)
            next++;
        keys[0][n_kinds++] = (uint64_t)(UINT32_MAX - (next - i)) << 32 | (uint32_t)keys[0][i];
    }
    sort_keys(keys, n_kinds);
    uint32_t pixel_bits = e->P * SAMPLE_BITS;
    for (uint32_t k = 0; k < n_kinds && e->n_colours < PSTI_PLI_LZ_COLOURS_MAX; k++) {
        uint64_t count = UINT32_MAX - (keys[0][k] >> 32);
        if (count * (pixel_bits - INDEX_BITS) <= pixel_bits)
            break;
        code_pixel(e, e->literals[(uint32_t)keys[0][k]]);
        e->n_colours++;
    }
}

/* Returns a pixel as a number. */
static uint64_t value_of(const uint8_t *pixel, uint32_t P)
{
    uint64_t value = 0;
    memcpy(&value, pixel, P);
    return value;
}

/* A hash table that finds colours by value. At most half of its entries are taken. */
enum { SLOTS_LOG2 = 9, N_SLOTS = 1 << SLOTS_LOG2 };
struct colour_slots {
    uint64_t values[N_SLOTS];
    uint16_t indices[N_SLOTS]; /* n_colours marks a free entry */
};

/* Returns the entry that holds `value`, or the free entry in which it belongs. */
static uint32_t find_slot(const struct colour_slots *slots, uint64_t value, uint32_t n_colours)
{
    uint32_t at = (uint32_t)(value * 0x9e3779b97f4a7c15ull >> (64 - SLOTS_LOG2));
    while (slots->indices[at] != n_colours && slots->values[at] != value)
        at = (at + 1) % N_SLOTS;
    return at;
}

/* Finds the indices of all literals. Literals without a colour are escaped. */
static void index_literals(struct encoder *e)
{
    struct colour_slots slots;
    uint32_t k = e->n_colours;
    for (uint32_t i = 0; i < N_SLOTS; i++)
        slots.indices[i] = (uint16_t)k;
    for (uint32_t c = 0; c < k; c++) {
        uint64_t value = value_of(e->coded + (size_t)c * e->P, e->P);
        uint32_t at = find_slot(&slots, value, k);
        slots.values[at] = value;
        slots.indices[at] = (uint16_t)c;
    }
    for (uint32_t i = 0; i < e->n_literals; i++) {
        uint32_t at = e->literals[i];
        const uint8_t *pixel = (const uint8_t *)e->source->pixels + (size_t)at * e->P;
        uint32_t c = slots.indices[find_slot(&slots, value_of(pixel, e->P), k)];
        e->indices[i] = (uint8_t)c;
        if (c == k)
            code_pixel(e, at);
    }
}

static void take_green(const struct encoder *e, uint8_t *pixel)
{
    if (e->source->bits == 8) {
        pixel[0] = (uint8_t)(pixel[0] - pixel[1]);
        pixel[2] = (uint8_t)(pixel[2] - pixel[1]);
        return;
    }
    uint16_t green = psti_load_u16(pixel + 2);
    psti_store_u16(pixel, (uint16_t)(psti_load_u16(pixel) - green));
    psti_store_u16(pixel + 4, (uint16_t)(psti_load_u16(pixel + 4) - green));
}

static void count_samples(const struct encoder *e, bool subtract_green, uint32_t counts[4][256])
{
    memset(counts, 0, 4 * sizeof counts[0]);
    for (uint32_t i = 0; i < e->n_coded; i++) {
        uint8_t pixel[8];
        memcpy(pixel, e->coded + (size_t)i * e->P, e->P);
        if (subtract_green)
            take_green(e, pixel);
        for (uint32_t b = 0; b < e->P; b++)
            counts[psti_pli_lz_sample_table(e->source->bits, b)][pixel[b]]++;
    }
}

/* Returns the sum of c log2 c over the counts c. It is larger if fewer different values occur, and
 * such samples cost less. */
static uint64_t spread(uint32_t counts[4][256])
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t i = 0; i < 256; i++)
            sum += psti_pli_lz_information(counts[t][i]);
    return sum;
}

static void choose_green(struct encoder *e, uint32_t counts[4][256])
{
    count_samples(e, false, counts);
    e->subtract_green = false;
    if (e->source->channels < 3)
        return;
    uint32_t less[4][256];
    count_samples(e, true, less);
    /* Both codings have the same number of samples, so the one with the larger sum of c log2 c is
     * shorter. */
    if (spread(less) <= spread(counts))
        return;
    memcpy(counts, less, sizeof less);
    e->subtract_green = true;
    for (uint32_t i = 0; i < e->n_coded; i++)
        take_green(e, e->coded + (size_t)i * e->P);
}

static void add_symbol(struct encoder *e, const struct psti_lz_table *table, uint32_t symbol,
                       uint32_t lane, uint32_t log2)
{
    e->symbols[e->n_symbols++] = (struct psti_lz_symbol){
        .freq = table->freq[symbol],
        .start = table->start[symbol],
        .lane = (uint8_t)lane,
        .log2 = (uint8_t)log2,
    };
}

static void add_sequences(struct encoder *e, uint32_t lanes)
{
    enum { LOG2 = PSTI_PLI_LZ_SEQUENCE_BITS };
    const struct psti_lz_table *run = e->tables;
    const struct psti_lz_table *offset = run + PSTI_PLI_LZ_RUN_CONTEXTS;
    const struct psti_lz_table *length = offset + PSTI_PLI_LZ_OFFSET_CONTEXTS;
    uint8_t endings[1 << PSTI_PLI_LZ_LANES_LOG2_MAX];
    struct shares s = share(e->n_sequences, lanes);
    memset(endings, PSTI_PLI_LZ_ENDING_FIRST, sizeof endings);
    for (uint32_t t = 0, n; (n = active(s, t)) > 0; t++) {
        const struct psti_lz_sequence *q = e->sequences + t;
        for (uint32_t l = 0; l < n; l++)
            add_symbol(e, run + psti_pli_lz_run_context(endings[l]), q[l * s.per_lane].run_token, l,
                       LOG2);
        for (uint32_t l = 0; l < n; l++) {
            const struct psti_lz_sequence *p = q + (size_t)l * s.per_lane;
            uint32_t context = p->run > 0 ? PSTI_PLI_LZ_OFFSET_AFTER_RUN : endings[l];
            add_symbol(e, offset + context, p->offset_code, l, LOG2);
        }
        for (uint32_t l = 0; l < n; l++) {
            const struct psti_lz_sequence *p = q + (size_t)l * s.per_lane;
            uint32_t context = psti_pli_lz_offset_class(p->offset_code);
            add_symbol(e, length + context, p->length_token, l, LOG2);
            endings[l] = (uint8_t)psti_pli_lz_ending(p->offset_code, p->length_token);
        }
    }
}

static void add_pixels(struct encoder *e, uint32_t lanes)
{
    enum { LOG2 = PSTI_PLI_LZ_PIXEL_BITS };
    const struct psti_lz_table *colour = e->tables + PSTI_PLI_LZ_N_SEQUENCE_TABLES;
    const struct psti_lz_table *sample = colour + 1;
    struct shares s = share(e->n_colours > 0 ? e->n_literals : 0, lanes);
    for (uint32_t t = 0, n; (n = active(s, t)) > 0; t++)
        for (uint32_t l = 0; l < n; l++)
            add_symbol(e, colour, e->indices[l * s.per_lane + t], l, LOG2);
    s = share(e->n_coded, lanes);
    for (uint32_t t = 0, n; (n = active(s, t)) > 0; t++)
        for (uint32_t b = 0; b < e->P; b++) {
            const struct psti_lz_table *table =
                sample + psti_pli_lz_sample_table(e->source->bits, b);
            for (uint32_t l = 0; l < n; l++)
                add_symbol(e, table, e->coded[(size_t)(l * s.per_lane + t) * e->P + b], l, LOG2);
        }
}

static void put_count(struct psti_lz_writer *w, uint32_t token, uint32_t count)
{
    psti_pli_lz_put_bits(w, count - psti_pli_lz_count_base(token), psti_pli_lz_count_bits(token));
}

static void put_raw_bits(struct encoder *e)
{
    struct psti_lz_writer *w = &e->raw_bits;
    for (uint32_t i = 0; i < e->n_sequences; i++) {
        const struct psti_lz_sequence *s = e->sequences + i;
        put_count(w, s->run_token, s->run);
        if (s->offset_code >= PSTI_PLI_LZ_EXPLICIT)
            psti_pli_lz_put_bits(w, s->offset - psti_pli_lz_explicit_base(s->offset_code),
                                 psti_pli_lz_explicit_bits(s->offset_code));
        if (s->length_token < PSTI_PLI_LZ_N_RUNS)
            put_count(w, s->length_token, s->length - 1);
    }
    psti_pli_lz_flush_bits(w);
}

static void flat(uint16_t *freqs, uint32_t n)
{
    uint32_t sum = 1u << PSTI_PLI_LZ_PIXEL_BITS;
    for (uint32_t i = 0; i < n; i++)
        freqs[i] = (uint16_t)(sum / n + (i < sum % n));
}

static void choose_tables(struct encoder *e, uint32_t samples[4][256])
{
    struct psti_lz_writer *w = &e->table_bits;
    struct psti_lz_table *t = e->tables;
    uint16_t freqs[256];
    if (e->n_sequences > 0) {
        psti_pli_lz_choose_tables(e->counts->run[0], PSTI_PLI_LZ_RUN_CONTEXTS, PSTI_PLI_LZ_N_RUNS,
                                  PSTI_PLI_LZ_SEQUENCE_BITS, e->built_in->run[0],
                                  PSTI_PLI_LZ_N_RUNS, w, t);
        t += PSTI_PLI_LZ_RUN_CONTEXTS;
        psti_pli_lz_choose_tables(e->counts->offset[0], PSTI_PLI_LZ_OFFSET_CONTEXTS,
                                  PSTI_PLI_LZ_N_OFFSETS, PSTI_PLI_LZ_SEQUENCE_BITS,
                                  e->built_in->offset[0], PSTI_PLI_LZ_N_OFFSETS, w, t);
        t += PSTI_PLI_LZ_OFFSET_CONTEXTS;
        psti_pli_lz_choose_tables(e->counts->length[0], PSTI_PLI_LZ_LENGTH_CONTEXTS,
                                  PSTI_PLI_LZ_N_LENGTHS, PSTI_PLI_LZ_SEQUENCE_BITS,
                                  e->built_in->length[0], PSTI_PLI_LZ_N_LENGTHS, w, t);
    }
    t = e->tables + PSTI_PLI_LZ_N_SEQUENCE_TABLES;
    if (e->n_colours > 0) {
        uint32_t counts[256] = {0};
        for (uint32_t i = 0; i < e->n_literals; i++)
            counts[e->indices[i]]++;
        flat(freqs, e->n_colours + 1);
        psti_pli_lz_choose_tables(counts, 1, e->n_colours + 1, PSTI_PLI_LZ_PIXEL_BITS, freqs, 0, w,
                                  t);
    }
    if (e->n_literals > 0) {
        uint32_t n = e->source->bits == 8 ? e->source->channels : e->source->channels > 1 ? 4 : 2;
        flat(freqs, 256);
        psti_pli_lz_choose_tables(samples[0], n, 256, PSTI_PLI_LZ_PIXEL_BITS, freqs, 0, w, t + 1);
    }
    psti_pli_lz_flush_bits(w);
}

static size_t put_number(uint8_t *out, uint32_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

static size_t put_head(const struct encoder *e, uint32_t lanes, uint8_t *out)
{
    uint8_t *p = out;
    *p++ = PSTI_PLI_LZ;
    *p++ =
        (uint8_t)(31 - __builtin_clz(lanes) + (e->subtract_green ? PSTI_PLI_LZ_SUBTRACT_GREEN : 0) +
                  (e->graphics ? PSTI_PLI_LZ_GRAPHICS : 0));
    p += put_number(p, e->n_sequences);
    p += put_number(p, e->n_literals);
    p += put_number(p, e->n_colours);
    if (e->n_colours > 0)
        p += put_number(p, e->n_coded - e->n_colours);
    p += put_number(p, (uint32_t)e->raw_bits.nbytes);
    p += put_number(p, (uint32_t)e->table_bits.nbytes);
    return (size_t)(p - out);
}

static size_t put_unit(struct encoder *e, uint32_t lanes, uint8_t *out, size_t capacity)
{
    uint8_t head[32];
    size_t head_nbytes = put_head(e, lanes, head);
    size_t fixed = head_nbytes + 4 * (size_t)lanes + e->raw_bits.nbytes + e->table_bits.nbytes;
    if (e->table_bits.nbytes > e->table_bits.capacity || fixed > capacity)
        return 0;
    memcpy(out, head, head_nbytes);
    uint8_t *states = out + head_nbytes, *p = states + 4 * (size_t)lanes;
    memcpy(p, e->table_bits.out, e->table_bits.nbytes);
    p += e->table_bits.nbytes;
    memcpy(p, e->raw_bits.out, e->raw_bits.nbytes);
    p += e->raw_bits.nbytes;
    size_t words =
        psti_pli_lz_put_states(e->symbols, e->n_symbols, lanes, states, p, capacity - fixed);
    return words == SIZE_MAX ? 0 : fixed + words;
}

static void parse(struct encoder *e, uint32_t effort)
{
    struct psti_lz_prices prices;
    const struct psti_lz_effort *how = efforts + (effort < 1 ? 1 : effort > 5 ? 5 : effort);
    static const uint16_t literal_bits[9] = {0, 7, 9, 12, 12, 0, 24, 0, 30};
    psti_pli_lz_prepare(&e->pixels);
    psti_pli_lz_price_built_in(e->built_in, &prices);
    prices.literal = literal_bits[e->P] * PSTI_LZ_BIT;
    for (uint32_t pass = 0; pass < how->passes; pass++) {
        if (pass > 0) {
            count_tokens(e, 1);
            psti_pli_lz_price_counts(e->counts, &prices);
        }
        e->n_sequences = psti_pli_lz_parse(&e->pixels, how, &prices, e->sequences);
    }
}

size_t psti_pli_lz_encode(const struct psti_pli_source *source, uint32_t effort, void *work,
                          uint8_t *out, size_t capacity)
{
    struct encoder e = {
        .source = source,
        .P = (uint32_t)source->channels * (source->bits / 8u),
        .n = source->height * source->width,
    };
    uint32_t samples[4][256];
    e.graphics = source->channels > 1;
    e.built_in = psti_pli_lz_built_in + e.graphics;
    lay_out(&e, work, e.n, e.P);
    e.pixels.n = e.n;
    e.pixels.width = source->width;
    make_ids(&e);
    parse(&e, effort);
    list_literals(&e);
    choose_colours(&e);
    if (e.n_colours > 0)
        index_literals(&e);
    else
        for (uint32_t i = 0; i < e.n_literals; i++)
            code_pixel(&e, e.literals[i]);
    choose_green(&e, samples);
    size_t n_symbols =
        3 * (size_t)e.n_sequences + (size_t)e.n_coded * e.P + (e.n_colours > 0 ? e.n_literals : 0);
    uint32_t lanes = 1;
    while (lanes < 1u << PSTI_PLI_LZ_LANES_LOG2_MAX && n_symbols / lanes >= 2 * LANE_SYMBOLS)
        lanes *= 2;
    if (e.n_sequences > 0)
        count_tokens(&e, lanes);
    choose_tables(&e, samples);
    if (e.n_sequences > 0)
        add_sequences(&e, lanes);
    add_pixels(&e, lanes);
    put_raw_bits(&e);
    return put_unit(&e, lanes, out, capacity);
}
