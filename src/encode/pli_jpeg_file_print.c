/* pli_jpeg_file_print.c - coefficients -> the entropy-coded data of one scan of a JPEG file, by the
 * rules of docs/format-pli.md, section 10, and by events where the file did otherwise.
 *
 * The rules are those of libjpeg's encoder. A run of ends of blocks is written when it is over: its
 * length comes first, then the bits that correct the blocks in it, for which they are gone through
 * once more. No memory, no threads. */
#include "encode/pli_jpeg_file_print.h"

#include <stdlib.h>
#include <string.h>

#define FAIL(offset, status, ...) psti_jpeg_file_fail(err, status, (int64_t)(offset), __VA_ARGS__)

void psti_jpeg_put_bytes(struct psti_jpeg_sink *s, uint64_t word, uint32_t n_bytes)
{
    for (; n_bytes > 0; n_bytes--, word <<= 8) {
        uint8_t byte = (uint8_t)(word >> 56);
        if (s->end - s->at < 1 + (byte == 0xFF)) {
            s->full = true;
            return;
        }
        *s->at++ = byte;
        if (byte == 0xFF)
            *s->at++ = 0;
    }
}

/* -- Blocks -- */

static const int16_t *block_of(const struct psti_jpeg_printer *p,
                               const struct psti_jpeg_place *place, uint32_t row, uint32_t column)
{
    return p->coefs[place->component] + psti_jpeg_block_index(p->frame, place, row, column);
}

/* The bits of v != 0 behind its size: those of v - 1 if it is negative. */
static inline void put_value(struct psti_jpeg_sink *s, const struct psti_jpeg_encoder_table *table,
                             uint32_t run, int32_t v)
{
    uint32_t size = 32u - (uint32_t)__builtin_clz((uint32_t)abs(v));
    uint32_t bits = (uint32_t)(v + (v >> 31)) & ((1u << size) - 1);
    if (size > 15) {
        s->lacks_code = true;
        return;
    }
    psti_jpeg_put_symbol(s, table, run << 4 | size, bits, size);
}

/* The same by tables, if it can be. */
static inline void put_quickly(struct psti_jpeg_sink *s,
                               const struct psti_jpeg_encoder_table *table, const uint16_t *values,
                               uint32_t run, int32_t v)
{
    uint32_t at = (uint32_t)v + PSTI_JPEG_QUICK_MAX;
    if (__builtin_expect(at < PSTI_JPEG_N_QUICK, 1))
        psti_jpeg_put_quick(s, table, run, values[at]);
    else
        put_value(s, table, run, v);
}

static inline void put_dc(struct psti_jpeg_sink *s, const struct psti_jpeg_encoder_table *table,
                          int32_t value, int32_t *prediction)
{
    int32_t difference = value - *prediction;
    *prediction = value;
    if (difference == 0)
        psti_jpeg_put_symbol(s, table, 0, 0, 0);
    else
        put_value(s, table, 0, difference);
}

/* Codes of 16 zeros at the end of this block that the file has for no need. */
static uint32_t zeros_at(struct psti_jpeg_printer *p, uint64_t position)
{
    if (p->event.position != position || p->event.code < PSTI_JPEG_EVENT_ZEROS ||
        p->event.code >= PSTI_JPEG_EVENT_ZEROS + PSTI_JPEG_ZEROS_MAX)
        return 0;
    uint32_t n = p->event.code - PSTI_JPEG_EVENT_ZEROS + 1u;
    psti_jpeg_next_event(p);
    return n;
}

static inline void put_ac(struct psti_jpeg_sink *s, const struct psti_jpeg_encoder_table *table,
                          const uint16_t *values, const int16_t *block, uint32_t zeros)
{
    uint32_t k = 0;
    for (uint64_t left = psti_jpeg_nonzeros(block) & ~(uint64_t)1; left; left &= left - 1) {
        uint32_t next = (uint32_t)__builtin_ctzll(left), run = next - k - 1;
        for (; run > 15; run -= 16)
            psti_jpeg_put_quick(s, table, 15, 0);
        put_quickly(s, table, values, run, block[next]);
        k = next;
    }
    k += 16 * zeros;
    for (; zeros > 0; zeros--)
        psti_jpeg_put_symbol(s, table, 0xF0, 0, 0);
    if (k < 63)
        psti_jpeg_put_quick(s, table, 0, 0);
}

void psti_jpeg_print_sequential(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                uint32_t n)
{
    struct psti_jpeg_sink sink = p->sink;
    uint64_t position = p->position;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < p->layout.n_blocks; j++, position++) {
            const struct psti_jpeg_place *place = &p->layout.places[j];
            const int16_t *block = block_of(p, place, row, column + i);
            uint32_t zeros = position == p->event.position ? zeros_at(p, position) : 0;
            int32_t difference = block[0] - p->predictions[place->slot];
            p->predictions[place->slot] = block[0];
            put_quickly(&sink, p->dc[place->slot], p->values, 0, difference);
            put_ac(&sink, p->ac[place->slot], p->values, block, zeros);
        }
    p->sink = sink;
}

/* -- Progressive: DC -- */

void psti_jpeg_print_dc_first(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < p->layout.n_blocks; j++) {
            const struct psti_jpeg_place *place = &p->layout.places[j];
            int32_t dc = block_of(p, place, row, column + i)[0];
            put_dc(&p->sink, p->dc[place->slot], dc >> p->walk.scan.low,
                   &p->predictions[place->slot]);
        }
}

void psti_jpeg_print_dc_more(struct psti_jpeg_printer *p, uint32_t row, uint32_t column, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < p->layout.n_blocks; j++) {
            int32_t dc = block_of(p, &p->layout.places[j], row, column + i)[0];
            psti_jpeg_put(&p->sink, (uint32_t)(dc >> p->walk.scan.low) & 1, 1);
        }
}

/* -- Progressive: AC -- */

/* Magnitude without the bits that are still to come. */
static inline uint32_t magnitude(int16_t v, uint32_t low) { return (uint32_t)abs(v) >> low; }

/* Up to 63 bits, the first one highest. */
static void put_corrections(struct psti_jpeg_sink *s, uint64_t bits, uint32_t n)
{
    if (n > 32)
        psti_jpeg_put(s, (uint32_t)(bits >> 32), n - 32);
    if (n > 0)
        psti_jpeg_put(s, (uint32_t)bits, n > 32 ? 32 : n);
}

/* Coefficients of the scan that are not 0, if later bits count, from k on. */
static inline uint64_t nonzeros_from(const int16_t *block, uint32_t k,
                                     const struct psti_jpeg_scan *scan)
{
    return k > scan->last
               ? 0
               : psti_jpeg_nonzeros(block) & ~(uint64_t)0 << k & ~(uint64_t)0 >> (63 - scan->last);
}

/* The bits that correct what was not 0 before this scan, from k on. */
static uint32_t corrections_of(const int16_t *block, uint32_t k, const struct psti_jpeg_scan *scan,
                               uint64_t *bits)
{
    uint32_t n = 0;
    *bits = 0;
    for (uint64_t left = nonzeros_from(block, k, scan); left; left &= left - 1) {
        uint32_t m = magnitude(block[__builtin_ctzll(left)], scan->low);
        if (m > 1) {
            *bits = *bits << 1 | (m & 1);
            n++;
        }
    }
    return n;
}

void psti_jpeg_print_run(struct psti_jpeg_printer *p)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    if (p->run == 0)
        return;
    uint32_t size = 31u - (uint32_t)__builtin_clz(p->run);
    psti_jpeg_put_symbol(&p->sink, p->ac[0], size << 4, p->run - (1u << size), size);
    for (uint32_t i = 0; scan->high && i < p->run; i++) {
        uint32_t at = p->run_first + i, columns = p->layout.mcu_columns;
        const int16_t *block = block_of(p, p->layout.places, at / columns, at % columns);
        uint64_t bits;
        uint32_t n = corrections_of(block, i == 0 ? p->run_k : scan->first, scan, &bits);
        put_corrections(&p->sink, bits, n);
    }
    p->run = p->n_corrections = 0;
}

/* A run of ends begins in this block at k. */
static void begin_run(struct psti_jpeg_printer *p, uint64_t position, uint32_t k,
                      uint32_t n_corrections)
{
    p->run = 1;
    p->run_first = (uint32_t)(position - p->scan_begin);
    p->run_k = k;
    p->n_corrections = n_corrections;
}

/* A block that is nothing but an end joins the run, or begins the next one. */
static void join_run(struct psti_jpeg_printer *p, uint64_t position, uint32_t n_corrections)
{
    bool breaks = p->run == PSTI_JPEG_EOB_RUN_MAX;
    if (p->run > 0 && !breaks) {
        breaks = p->n_corrections > PSTI_JPEG_CORRECTIONS_MAX;
        if (p->event.position == position && p->event.code == PSTI_JPEG_EVENT_RUN) {
            breaks = !breaks;
            p->n_corrections = 0;
            psti_jpeg_next_event(p);
        }
    }
    if (breaks)
        psti_jpeg_print_run(p);
    if (p->run == 0) {
        begin_run(p, position, p->walk.scan.first, n_corrections);
    } else {
        p->run++;
        p->n_corrections += n_corrections;
    }
}

static void print_ac_first(struct psti_jpeg_printer *p, const int16_t *block, uint64_t position)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    uint32_t zeros = position == p->event.position ? zeros_at(p, position) : 0;
    uint32_t run = 0, k = scan->first;
    bool is_end = zeros == 0;
    for (uint64_t left = nonzeros_from(block, k, scan); left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        int32_t m = (int32_t)magnitude(block[i], scan->low);
        if (m == 0)
            continue;
        psti_jpeg_print_run(p);
        for (run = i - k; run > 15; run -= 16)
            psti_jpeg_put_symbol(&p->sink, p->ac[0], 0xF0, 0, 0);
        put_value(&p->sink, p->ac[0], run, block[i] < 0 ? -m : m);
        k = i + 1;
        is_end = false;
    }
    if (is_end) {
        join_run(p, position, 0);
        return;
    }
    psti_jpeg_print_run(p);
    k += 16 * zeros;
    for (; zeros > 0; zeros--)
        psti_jpeg_put_symbol(&p->sink, p->ac[0], 0xF0, 0, 0);
    if (k <= scan->last)
        begin_run(p, position, k, 0);
}

void psti_jpeg_print_ac_first(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        print_ac_first(p, block_of(p, p->layout.places, row, column + i), p->position + i);
}

/* A block with coefficients that become 1 or -1 in this scan, the last of them at `end`; `left`:
 * those that are not 0 up to there. */
static void print_ac_more(struct psti_jpeg_printer *p, const int16_t *block, uint64_t position,
                          uint64_t left, uint32_t end)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    struct psti_jpeg_sink *s = &p->sink;
    uint64_t bits = 0; /* corrections since the last symbol */
    uint32_t run = 0, n_bits = 0, next = scan->first;
    psti_jpeg_print_run(p);
    for (; left; left &= left - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(left), m = magnitude(block[k], scan->low);
        if (m == 0) /* still */
            continue;
        run += k - next;
        next = k + 1;
        for (; run > 15; run -= 16, bits = n_bits = 0) {
            psti_jpeg_put_symbol(s, p->ac[0], 0xF0, 0, 0);
            put_corrections(s, bits, n_bits);
        }
        if (m > 1) {
            bits = bits << 1 | (m & 1);
            n_bits++;
            continue;
        }
        psti_jpeg_put_symbol(s, p->ac[0], run << 4 | 1, block[k] > 0, 1);
        put_corrections(s, bits, n_bits);
        run = n_bits = 0;
        bits = 0;
    }
    if (end < scan->last)
        begin_run(p, position, end + 1, corrections_of(block, end + 1, scan, &bits));
}

void psti_jpeg_print_ac_more(struct psti_jpeg_printer *p, uint32_t row, uint32_t column, uint32_t n)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    for (uint32_t i = 0; i < n; i++) {
        const int16_t *block = block_of(p, p->layout.places, row, column + i);
        uint64_t left = nonzeros_from(block, scan->first, scan), bits;
        uint32_t end = 0;
        while (left != 0) {
            end = 63u - (uint32_t)__builtin_clzll(left);
            if (magnitude(block[end], scan->low) == 1)
                break;
            left &= ~((uint64_t)1 << end);
        }
        if (left != 0)
            print_ac_more(p, block, p->position + i, left, end);
        else
            join_run(p, p->position + i, corrections_of(block, scan->first, scan, &bits));
    }
}

/* -- The scan -- */

static const struct psti_jpeg_encoder_table *table_of(struct psti_jpeg_huffman *from,
                                                      struct psti_jpeg_encoder_table *table)
{
    uint16_t codes[256];
    uint8_t lengths[256];
    if (!from->defined)
        return NULL;
    if (from->fresh) {
        if (!psti_jpeg_huffman_codes(from, codes, lengths))
            return NULL;
        memset(table, 0, sizeof *table);
        for (uint32_t i = 0; i < 256; i++)
            table->quick[i] = PSTI_JPEG_NO_CODE;
        for (uint32_t i = 0; i < from->n; i++) {
            uint32_t symbol = from->symbols[i], size = symbol & 15;
            table->codes[symbol] = (uint32_t)codes[i] << 8 | lengths[i];
            if (size <= PSTI_JPEG_QUICK_SIZE)
                table->quick[symbol] = (uint32_t)codes[i] << (size + 5) | (lengths[i] + size);
        }
        from->fresh = false;
    }
    return table;
}

static enum pst_status make_tables(struct psti_jpeg_printer *p, struct pst_error *err)
{
    struct psti_jpeg_walk *w = &p->walk;
    const struct psti_jpeg_scan *s = &w->scan;
    for (uint32_t i = 0; i < s->n_components; i++) {
        bool needs_dc = s->first == 0 && s->high == 0, needs_ac = s->last > 0;
        p->dc[i] = needs_dc ? table_of(&w->dc[s->dc[i]], &p->dc_tables[s->dc[i]]) : NULL;
        p->ac[i] = needs_ac ? table_of(&w->ac[s->ac[i]], &p->ac_tables[s->ac[i]]) : NULL;
        if ((needs_dc && !p->dc[i]) || (needs_ac && !p->ac[i]))
            return FAIL(-1, PST_ERROR_CORRUPT, "scan %u has no sound Huffman table", w->n_scans);
    }
    return PST_OK;
}

static psti_jpeg_mcus_printer *printer_for(const struct psti_jpeg_walk *w)
{
    if (!w->progressive)
        return psti_jpeg_print_sequential;
    if (w->scan.first == 0)
        return w->scan.high ? psti_jpeg_print_dc_more : psti_jpeg_print_dc_first;
    return w->scan.high ? psti_jpeg_print_ac_more : psti_jpeg_print_ac_first;
}

/* The last bits of an interval and those that fill its last byte. */
static void end_interval(struct psti_jpeg_printer *p)
{
    struct psti_jpeg_sink *s = &p->sink;
    psti_jpeg_print_run(p);
    uint32_t n = -s->count & 7, ones = (1u << n) - 1, value = p->pads_with_0 ? 0 : ones;
    if (p->event.position == p->position && p->event.code >= PSTI_JPEG_EVENT_PADDING) {
        value = p->event.code & ones;
        psti_jpeg_next_event(p);
    }
    psti_jpeg_put(s, value, n);
    if (s->count > 0)
        psti_jpeg_put_bytes(s, s->buffer << (64 - s->count), s->count / 8);
}

static void begin_interval(struct psti_jpeg_printer *p)
{
    memset(p->predictions, 0, sizeof p->predictions);
    p->run = p->n_corrections = 0;
    p->sink.count = 0;
}

static void print_restart(struct psti_jpeg_printer *p, uint32_t number)
{
    struct psti_jpeg_sink *s = &p->sink;
    size_t n = 1;
    if (p->event.position == p->position && p->event.code >= PSTI_JPEG_EVENT_FILL &&
        p->event.code < PSTI_JPEG_EVENT_PADDING) {
        n += p->event.code - PSTI_JPEG_EVENT_FILL;
        psti_jpeg_next_event(p);
    }
    if ((size_t)(s->end - s->at) < n + 1) {
        s->full = true;
        return;
    }
    memset(s->at, 0xFF, n);
    s->at[n] = (uint8_t)(0xD0 + number);
    s->at += n + 1;
}

static enum pst_status check(const struct psti_jpeg_printer *p, struct pst_error *err)
{
    if (p->sink.full)
        return FAIL(-1, PST_ERROR_CORRUPT, "the file would be longer than it was");
    if (p->sink.lacks_code || (p->sink.codes & PSTI_JPEG_NO_CODE) != 0)
        return FAIL(-1, PST_ERROR_CORRUPT, "scan %u lacks a Huffman code", p->walk.n_scans);
    if (p->bad_event)
        return FAIL(-1, PST_ERROR_CORRUPT, "the restoration's events are cut short");
    return PST_OK;
}

enum pst_status psti_jpeg_print_scan(struct psti_jpeg_printer *p, struct pst_error *err)
{
    const struct psti_jpeg_layout *layout = &p->layout;
    uint32_t interval = p->walk.restart_interval, n_restarts = 0;
    uint32_t n_left = interval ? interval : UINT32_MAX;
    psti_jpeg_mcus_printer *print = printer_for(&p->walk);
    enum pst_status status = make_tables(p, err);
    if (status != PST_OK)
        return status;
    if (!psti_jpeg_layout_of(p->frame, &p->walk.scan, &p->layout))
        return FAIL(-1, PST_ERROR_CORRUPT, "an MCU of more than %d blocks",
                    PSTI_JPEG_MCU_BLOCKS_MAX);
    p->scan_begin = p->position;
    begin_interval(p);
    for (uint32_t row = 0; row < layout->mcu_rows; row++)
        for (uint32_t column = 0, n; column < layout->mcu_columns; column += n) {
            if (n_left == 0) {
                end_interval(p);
                print_restart(p, n_restarts++ & 7);
                begin_interval(p);
                n_left = interval;
            }
            n = layout->mcu_columns - column;
            n = n < n_left ? n : n_left;
            print(p, row, column, n);
            p->position += (uint64_t)n * layout->n_blocks;
            n_left -= interval ? n : 0;
            status = check(p, err);
            if (status != PST_OK)
                return status;
        }
    end_interval(p);
    return check(p, err);
}
