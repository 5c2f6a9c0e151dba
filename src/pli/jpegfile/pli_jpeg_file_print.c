/* pli_jpeg_file_print.c - writes coefficients as the entropy-coded data of one scan of a JPEG file:
 * makes its tables, calls the printers of blocks, and ends its restart intervals. Nothing is
 * allocated, and there are no threads. */
#include "pli/jpegfile/pli_jpeg_file_kernels.h"

#include "base/machine/cpu.h"

#include <string.h>

#define FAIL(offset, status, ...)                                                                  \
    psti_pli_jpeg_file_fail(err, status, (int64_t)(offset), __VA_ARGS__)

/* Fills the entries for the symbol's values, if these values are small. */
static void fill_small(struct psti_jpeg_encoder_table *table, uint32_t symbol, uint32_t code,
                       uint32_t length)
{
    uint32_t size = symbol & 15, ones = (1u << size) - 1;
    uint32_t *zero = table->small + (symbol >> 4) * PSTI_JPEG_RUN_STEP + PSTI_JPEG_SMALL_MAX;
    for (uint32_t m = (ones + 1) >> 1; size <= PSTI_JPEG_SMALL_SIZE && m <= ones; m++) {
        zero[m] = (code << size | m) << PSTI_JPEG_LENGTH_BITS | (length + size);
        zero[-(ptrdiff_t)m] =
            (code << size | (ones ^ m)) << PSTI_JPEG_LENGTH_BITS | (length + size);
    }
}

static const struct psti_jpeg_encoder_table *table_of(struct psti_jpeg_huffman *from,
                                                      struct psti_jpeg_encoder_table *table)
{
    uint16_t codes[256];
    uint8_t lengths[256];
    if (!from->defined)
        return NULL;
    if (from->fresh) {
        if (!psti_pli_jpeg_huffman_codes(from, codes, lengths))
            return NULL;
        for (uint32_t i = 0; i < 256; i++)
            table->codes[i] = PSTI_JPEG_NO_CODE;
        for (uint32_t i = 0; i < 16 * PSTI_JPEG_RUN_STEP; i++)
            table->small[i] = PSTI_JPEG_NO_CODE;
        for (uint32_t i = 0; i < from->n; i++) {
            uint32_t symbol = from->symbols[i];
            table->codes[symbol] = (uint32_t)codes[i] << PSTI_JPEG_LENGTH_BITS | lengths[i];
            fill_small(table, symbol, codes[i], lengths[i]);
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
        return psti_pli_jpeg_file_kernels_of(psti_cpu_features())->print_sequential;
    if (w->scan.first == 0)
        return w->scan.high ? psti_pli_jpeg_print_dc_more : psti_pli_jpeg_print_dc_first;
    return w->scan.high ? psti_pli_jpeg_print_ac_more : psti_pli_jpeg_print_ac_first;
}

/* Writes the last bits of an interval, and the bits that fill its last byte. */
static void end_interval(struct psti_jpeg_printer *p)
{
    struct psti_jpeg_sink *s = &p->sink;
    psti_pli_jpeg_print_run(p);
    uint32_t n = -s->count & 7, ones = (1u << n) - 1, value = p->pads_with_0 ? 0 : ones;
    if (p->event.position == p->position && p->event.code >= PSTI_JPEG_EVENT_PADDING) {
        value = p->event.code & ones;
        psti_pli_jpeg_next_event(p);
    }
    psti_pli_jpeg_make_room(p);
    psti_pli_jpeg_put(s, value, n);
    psti_pli_jpeg_drain(p);
}

static void begin_interval(struct psti_jpeg_printer *p)
{
    memset(p->predictions, 0, sizeof p->predictions);
    p->run = p->n_corrections = 0;
}

static void print_restart(struct psti_jpeg_printer *p, uint32_t number)
{
    size_t n = 1;
    if (p->event.position == p->position && p->event.code >= PSTI_JPEG_EVENT_FILL &&
        p->event.code < PSTI_JPEG_EVENT_PADDING) {
        n += p->event.code - PSTI_JPEG_EVENT_FILL;
        psti_pli_jpeg_next_event(p);
    }
    if ((size_t)(p->end - p->to) < n + 1) {
        p->full = true;
        return;
    }
    memset(p->to, 0xFF, n);
    p->to[n] = (uint8_t)(0xD0 + number);
    p->to += n + 1;
}

static enum pst_status check(const struct psti_jpeg_printer *p, struct pst_error *err)
{
    if (p->full)
        return FAIL(-1, PST_ERROR_CORRUPT, "the file would be longer than it was");
    if ((p->sink.entries & PSTI_JPEG_NO_CODE) != 0)
        return FAIL(-1, PST_ERROR_CORRUPT, "scan %u lacks a Huffman code", p->walk.n_scans);
    if (p->bad_event)
        return FAIL(-1, PST_ERROR_CORRUPT, "the restoration's events are cut short");
    return PST_OK;
}

enum pst_status psti_pli_jpeg_print_scan(struct psti_jpeg_printer *p, struct pst_error *err)
{
    const struct psti_jpeg_layout *layout = &p->layout;
    uint32_t interval = p->walk.restart_interval, n_restarts = 0;
    uint32_t n_left = interval ? interval : UINT32_MAX;
    psti_jpeg_mcus_printer *print = printer_for(&p->walk);
    enum pst_status status = make_tables(p, err);
    if (status != PST_OK)
        return status;
    if (!psti_pli_jpeg_layout_of(p->frame, &p->walk.scan, &p->layout))
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
