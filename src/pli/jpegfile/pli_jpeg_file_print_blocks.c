/* pli_jpeg_file_print_blocks.c - writes the blocks of a scan as Huffman codes, by the rules of
 * docs/format-pli.md, section 10, and by events where the file differs from these.
 *
 * The rules are those of libjpeg's encoder. An EOB run (series of blocks without new coefficients)
 * is written when it is over: first its length, then the correction bits of its blocks, which are
 * read once more for that. Nothing is allocated, and there are no threads. */
#include "pli/jpegfile/pli_jpeg_file_print_mcus.h"

#include <stdlib.h>
#include <string.h>

void psti_pli_jpeg_drain(struct psti_jpeg_printer *p)
{
    const uint8_t *at = p->stage;
    size_t left = (size_t)(p->sink.at - p->stage);
    p->sink.at = p->stage;
    while (left > 0) {
        const uint8_t *found = memchr(at, 0xFF, left);
        size_t n = found ? (size_t)(found + 1 - at) : left, n_zeros = found ? 1 : 0;
        if ((size_t)(p->end - p->to) < n + n_zeros) {
            p->full = true;
            return;
        }
        memcpy(p->to, at, n);
        p->to += n;
        if (found)
            *p->to++ = 0;
        at += n;
        left -= n;
    }
}

static inline const int16_t *block_of(const struct psti_jpeg_printer *p,
                                      const struct psti_jpeg_place *place, uint32_t row,
                                      uint32_t column)
{
    return p->coefs[place->component] + psti_pli_jpeg_block_index(p->frame, place, row, column);
}

static inline void put_dc(struct psti_jpeg_sink *s, const struct psti_jpeg_encoder_table *table,
                          int32_t value, int32_t *prediction)
{
    int32_t difference = value - *prediction;
    *prediction = value;
    psti_pli_jpeg_add_any(s, table, 0, difference);
    psti_pli_jpeg_flush(s);
}

uint32_t psti_pli_jpeg_zeros_at(struct psti_jpeg_printer *p, uint64_t position)
{
    if (p->event.position != position || p->event.code < PSTI_JPEG_EVENT_ZEROS ||
        p->event.code >= PSTI_JPEG_EVENT_ZEROS + PSTI_JPEG_ZEROS_MAX)
        return 0;
    uint32_t n = p->event.code - PSTI_JPEG_EVENT_ZEROS + 1u;
    psti_pli_jpeg_next_event(p);
    return n;
}

void psti_pli_jpeg_print_sequential(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                    uint32_t n)
{
    psti_pli_jpeg_print_mcus(p, row, column, n, psti_pli_jpeg_nonzeros);
}

/* -- DC of progressive scans -- */

void psti_pli_jpeg_print_dc_first(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                  uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        psti_pli_jpeg_make_room(p);
        for (uint32_t j = 0; j < p->layout.n_blocks; j++) {
            const struct psti_jpeg_place *place = &p->layout.places[j];
            int32_t dc = block_of(p, place, row, column + i)[0];
            put_dc(&p->sink, p->dc[place->slot], dc >> p->walk.scan.low,
                   &p->predictions[place->slot]);
        }
    }
}

void psti_pli_jpeg_print_dc_more(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                 uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        psti_pli_jpeg_make_room(p);
        for (uint32_t j = 0; j < p->layout.n_blocks; j++) {
            int32_t dc = block_of(p, &p->layout.places[j], row, column + i)[0];
            psti_pli_jpeg_put(&p->sink, (uint32_t)(dc >> p->walk.scan.low) & 1, 1);
        }
    }
}

/* -- AC of progressive scans -- */

/* Returns the magnitude without the bits that later scans code. */
static inline uint32_t magnitude(int16_t v, uint32_t low) { return (uint32_t)abs(v) >> low; }

/* Writes up to 63 bits, the highest of them first. */
static void put_corrections(struct psti_jpeg_sink *s, uint64_t bits, uint32_t n)
{
    if (n > 32)
        psti_pli_jpeg_put(s, (uint32_t)(bits >> 32), n - 32);
    if (n > 0)
        psti_pli_jpeg_put(s, (uint32_t)bits, n > 32 ? 32 : n);
}

/* Returns a mask of the scan's coefficients from k on whose magnitude, with all bits up to this
 * scan, is not 0. */
static inline uint64_t nonzeros_from(const int16_t *block, uint32_t k,
                                     const struct psti_jpeg_scan *scan)
{
    return k > scan->last ? 0
                          : psti_pli_jpeg_nonzeros(block) & ~(uint64_t)0 << k &
                                ~(uint64_t)0 >> (63 - scan->last);
}

/* Collects the bits that correct the coefficients from k on that were nonzero before this scan.
 * Returns their number. */
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

void psti_pli_jpeg_print_run(struct psti_jpeg_printer *p)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    if (p->run == 0)
        return;
    uint32_t size = 31u - (uint32_t)__builtin_clz(p->run);
    psti_pli_jpeg_put_symbol(&p->sink, p->ac[0], size << 4, p->run - (1u << size), size);
    for (uint32_t i = 0; scan->high && i < p->run; i++) {
        uint32_t at = p->run_first + i, columns = p->layout.mcu_columns;
        const int16_t *block = block_of(p, p->layout.places, at / columns, at % columns);
        uint64_t bits;
        uint32_t n = corrections_of(block, i == 0 ? p->run_k : scan->first, scan, &bits);
        psti_pli_jpeg_make_room(p);
        put_corrections(&p->sink, bits, n);
    }
    p->run = p->n_corrections = 0;
}

/* Begins an EOB run (series of blocks without new coefficients) in this block at coefficient k. */
static void begin_run(struct psti_jpeg_printer *p, uint64_t position, uint32_t k,
                      uint32_t n_corrections)
{
    p->run = 1;
    p->run_first = (uint32_t)(position - p->scan_begin);
    p->run_k = k;
    p->n_corrections = n_corrections;
}

/* Adds a block without new coefficients to the EOB run. If the run must end before this block, it
 * is written, and the block begins the next run. */
static void join_run(struct psti_jpeg_printer *p, uint64_t position, uint32_t n_corrections)
{
    bool breaks = p->run == PSTI_JPEG_EOB_RUN_MAX;
    if (p->run > 0 && !breaks) {
        breaks = p->n_corrections > PSTI_JPEG_CORRECTIONS_MAX;
        if (p->event.position == position && p->event.code == PSTI_JPEG_EVENT_RUN) {
            breaks = !breaks;
            p->n_corrections = 0;
            psti_pli_jpeg_next_event(p);
        }
    }
    if (breaks)
        psti_pli_jpeg_print_run(p);
    if (p->run == 0) {
        begin_run(p, position, p->walk.scan.first, n_corrections);
    } else {
        p->run++;
        p->n_corrections += n_corrections;
    }
}

static void add_ac_first(struct psti_jpeg_printer *p, const int16_t *block, uint64_t position)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    uint32_t zeros = position == p->event.position ? psti_pli_jpeg_zeros_at(p, position) : 0;
    uint32_t run = 0, k = scan->first;
    bool is_end = zeros == 0;
    for (uint64_t left = nonzeros_from(block, k, scan); left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        int32_t m = (int32_t)magnitude(block[i], scan->low);
        if (m == 0)
            continue;
        psti_pli_jpeg_print_run(p);
        for (run = i - k; run > 15; run -= 16)
            psti_pli_jpeg_put_symbol(&p->sink, p->ac[0], 0xF0, 0, 0);
        psti_pli_jpeg_add_any(&p->sink, p->ac[0], run, block[i] < 0 ? -m : m);
        psti_pli_jpeg_flush(&p->sink);
        k = i + 1;
        is_end = false;
    }
    if (is_end) {
        join_run(p, position, 0);
        return;
    }
    psti_pli_jpeg_print_run(p);
    k += 16 * zeros;
    for (; zeros > 0; zeros--)
        psti_pli_jpeg_put_symbol(&p->sink, p->ac[0], 0xF0, 0, 0);
    if (k <= scan->last)
        begin_run(p, position, k, 0);
}

void psti_pli_jpeg_print_ac_first(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                  uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        psti_pli_jpeg_make_room(p);
        add_ac_first(p, block_of(p, p->layout.places, row, column + i), p->position + i);
    }
}

/* Writes a block in which coefficients become 1 or -1 in this scan; the last of these is number
 * `end`. `left` is a mask of the nonzero coefficients up to there. */
static void add_ac_more(struct psti_jpeg_printer *p, const int16_t *block, uint64_t position,
                        uint64_t left, uint32_t end)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    struct psti_jpeg_sink *s = &p->sink;
    uint64_t bits = 0; /* correction bits since the last symbol */
    uint32_t run = 0, n_bits = 0, next = scan->first;
    psti_pli_jpeg_print_run(p);
    for (; left; left &= left - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(left), m = magnitude(block[k], scan->low);
        if (m == 0) /* true if the coefficient is still 0 after this scan */
            continue;
        run += k - next;
        next = k + 1;
        for (; run > 15; run -= 16, bits = n_bits = 0) {
            psti_pli_jpeg_put_symbol(s, p->ac[0], 0xF0, 0, 0);
            put_corrections(s, bits, n_bits);
        }
        if (m > 1) {
            bits = bits << 1 | (m & 1);
            n_bits++;
            continue;
        }
        psti_pli_jpeg_put_symbol(s, p->ac[0], run << 4 | 1, block[k] > 0, 1);
        put_corrections(s, bits, n_bits);
        run = n_bits = 0;
        bits = 0;
    }
    if (end < scan->last)
        begin_run(p, position, end + 1, corrections_of(block, end + 1, scan, &bits));
}

void psti_pli_jpeg_print_ac_more(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                 uint32_t n)
{
    const struct psti_jpeg_scan *scan = &p->walk.scan;
    for (uint32_t i = 0; i < n; i++) {
        const int16_t *block = block_of(p, p->layout.places, row, column + i);
        uint64_t left = nonzeros_from(block, scan->first, scan), bits;
        uint32_t end = 0;
        psti_pli_jpeg_make_room(p);
        while (left != 0) {
            end = 63u - (uint32_t)__builtin_clzll(left);
            if (magnitude(block[end], scan->low) == 1)
                break;
            left &= ~((uint64_t)1 << end);
        }
        if (left != 0)
            add_ac_more(p, block, p->position + i, left, end);
        else
            join_run(p, p->position + i, corrections_of(block, scan->first, scan, &bits));
    }
}
