/* pli_jpeg_file_scan.c - reads one scan of a JPEG file: unstuffs and checks its restart intervals
 * and calls the readers of blocks. Irregularities between the intervals and after them become
 * events.
 *
 * The input is a walk that stands at a scan. The output is coefficients and events, and the walk
 * then stands after the scan's data. The stage has space for the whole file and
 * PSTI_JPEG_STAGE_PADDING more bytes. Nothing is allocated, and there are no threads. */
#include "pli/jpegfile/pli_jpeg_file_kernels.h"

#include "base/machine/cpu.h"

#include <string.h>

#define FAIL(offset, status, ...)                                                                  \
    psti_pli_jpeg_file_fail(err, status, (int64_t)(offset), __VA_ARGS__)

/* -- Intervals -- */

/* Copies the data from r->begin up to the next marker, without stuffed zeros. */
static enum pst_status begin_interval(struct psti_jpeg_reader *r, struct pst_error *err)
{
    const uint8_t *bytes = r->walk.bytes;
    size_t nbytes = r->walk.nbytes, at = r->begin;
    uint8_t *to = r->stage;
    for (;;) {
        const uint8_t *found = memchr(bytes + at, 0xFF, nbytes - at);
        size_t end = found ? (size_t)(found - bytes) : nbytes;
        memcpy(to, bytes + at, end - at);
        to += end - at;
        at = end;
        if (nbytes - at < 2 || bytes[at + 1] != 0)
            break;
        *to++ = 0xFF;
        at += 2;
    }
    size_t next = at;
    while (next < nbytes && bytes[next] == 0xFF)
        next++;
    if (next < nbytes && next > at && bytes[next] == 0)
        return FAIL(at, PST_ERROR_UNSUPPORTED, "fill bytes within a scan's data");
    r->end = at;
    r->at_end_of_file = next >= nbytes;
    r->stage_nbytes = (size_t)(to - r->stage);
    memset(to, 0, PSTI_JPEG_STAGE_PADDING);
    r->bits = (struct psti_jpeg_bits){.at = r->stage, .limit = to + 8};
    psti_pli_jpeg_refill(&r->bits);
    memset(r->predictions, 0, sizeof r->predictions);
    r->run_left = r->run = r->n_corrections = 0;
    return PST_OK;
}

static enum pst_status fail_for(const struct psti_jpeg_reader *r, enum psti_jpeg_trouble trouble,
                                struct pst_error *err)
{
    uint32_t row = r->walk.n_scans;
    size_t taken = (size_t)(r->bits.at - r->stage) - r->bits.count / 8;
    /* If the data end in the middle of a code, the code only looks invalid: the error says that
     * data are missing. */
    taken += trouble == PSTI_JPEG_BAD_CODE || trouble == PSTI_JPEG_BAD_RUN ? 2 : 0;
    if (taken > r->stage_nbytes || trouble == PSTI_JPEG_NO_DATA)
        return r->at_end_of_file
                   ? FAIL(r->end, PST_ERROR_TRUNCATED, "the file ends in the data of scan %u", row)
                   : FAIL(r->end, PST_ERROR_CORRUPT, "a marker in the data of scan %u", row);
    switch (trouble) {
    case PSTI_JPEG_BAD_CODE:
        return FAIL(r->begin, PST_ERROR_CORRUPT, "a bad Huffman code in scan %u", row);
    case PSTI_JPEG_BAD_RUN:
        return FAIL(r->begin, PST_ERROR_CORRUPT, "a block of scan %u has too many coefficients",
                    row);
    case PSTI_JPEG_BAD_RANGE:
        return FAIL(r->begin, PST_ERROR_CORRUPT, "a coefficient of scan %u is too large", row);
    case PSTI_JPEG_ODD_CODE:
        return FAIL(r->begin, PST_ERROR_UNSUPPORTED, "unusual codes in scan %u", row);
    default:
        return FAIL(r->begin, PST_ERROR_UNSUPPORTED, "scan %u is irregular in too many places",
                    row);
    }
}

/* Returns the offset in the file of the byte that follows the stage's first `n` bytes. */
static size_t end_in_file(const struct psti_jpeg_reader *r, size_t n)
{
    const uint8_t *bytes = r->walk.bytes;
    size_t at = r->begin;
    for (; n > 0; n--)
        at += bytes[at] == 0xFF ? 2 : 1;
    return at;
}

static bool note_padding(struct psti_jpeg_reader *r, uint32_t n, uint32_t value)
{
    uint32_t ones = (1u << n) - 1;
    if (n > 0 && !r->pads_known && (value == 0 || value == ones)) {
        r->pads_known = true;
        r->pads_with_0 = value == 0;
    }
    if (n == 0 || value == (r->pads_with_0 ? 0 : ones))
        return true;
    return psti_pli_jpeg_add_event(&r->events, r->position,
                                   (uint8_t)(PSTI_JPEG_EVENT_PADDING | value));
}

/* Ends an interval after all of its blocks were read: notes its padding, and sets r->end to the
 * place in the file where its data end. */
static enum pst_status end_interval(struct psti_jpeg_reader *r, struct pst_error *err)
{
    struct psti_jpeg_bits *b = &r->bits;
    uint64_t taken = 8 * (uint64_t)(b->at - r->stage) - b->count;
    size_t n = (size_t)((taken + 7) / 8);
    if (n > r->stage_nbytes)
        return fail_for(r, PSTI_JPEG_NO_DATA, err);
    if (r->run_left > 0)
        return FAIL(r->begin, PST_ERROR_CORRUPT, "a run beyond the end of scan %u",
                    r->walk.n_scans);
    uint32_t n_padding = (uint32_t)(8 * n - taken);
    uint32_t value = n_padding ? r->stage[n - 1] & ((1u << n_padding) - 1) : 0;
    if (!note_padding(r, n_padding, value))
        return fail_for(r, PSTI_JPEG_ODD_DATA, err);
    if (n < r->stage_nbytes)
        r->end = end_in_file(r, n);
    return PST_OK;
}

/* Reads the restart marker after an interval and begins the next interval. */
static enum pst_status next_interval(struct psti_jpeg_reader *r, struct pst_error *err)
{
    const uint8_t *bytes = r->walk.bytes;
    size_t nbytes = r->walk.nbytes, data_end = r->end;
    enum pst_status status = end_interval(r, err);
    if (status != PST_OK)
        return status;
    if (r->end != data_end)
        return FAIL(r->end, PST_ERROR_UNSUPPORTED, "stray bytes before a restart marker");
    size_t at = r->end + 1, n_fill = 0;
    for (; at < nbytes && bytes[at] == 0xFF; at++)
        n_fill++;
    if (at >= nbytes)
        return FAIL(nbytes, PST_ERROR_TRUNCATED, "the file ends in the data of scan %u",
                    r->walk.n_scans);
    if (bytes[at] != 0xD0 + r->n_restarts)
        return FAIL(at, PST_ERROR_CORRUPT, "marker %02X instead of restart marker %u", bytes[at],
                    r->n_restarts);
    if (n_fill > PSTI_JPEG_FILL_MAX ||
        (n_fill > 0 && !psti_pli_jpeg_add_event(&r->events, r->position,
                                                (uint8_t)(PSTI_JPEG_EVENT_FILL + n_fill))))
        return fail_for(r, PSTI_JPEG_ODD_DATA, err);
    r->n_restarts = (r->n_restarts + 1) & 7;
    r->begin = at + 1;
    return begin_interval(r, err);
}

/* -- A whole scan -- */

/* Returns whether a symbol has two codes. A writer could not know which of them was used. */
static bool has_symbol_twice(const struct psti_jpeg_huffman *table)
{
    bool seen[256] = {false};
    for (uint32_t i = 0; i < table->n; i++) {
        if (seen[table->symbols[i]])
            return true;
        seen[table->symbols[i]] = true;
    }
    return false;
}

static enum pst_status make_table(struct psti_jpeg_reader *r, struct psti_jpeg_huffman *from,
                                  bool is_dc, struct psti_jpeg_decoder_table *table,
                                  struct pst_error *err)
{
    const struct psti_jpeg_walk *w = &r->walk;
    if (!from->defined ||
        (from->fresh && !psti_pli_jpeg_fill_table(from, is_dc, w->progressive, table)))
        return FAIL(w->at, PST_ERROR_CORRUPT, "scan %u has no sound Huffman table", w->n_scans);
    if (from->fresh && has_symbol_twice(from))
        return FAIL(w->at, PST_ERROR_UNSUPPORTED, "a Huffman table has a symbol twice");
    from->fresh = false;
    return PST_OK;
}

static enum pst_status make_tables(struct psti_jpeg_reader *r, struct pst_error *err)
{
    struct psti_jpeg_walk *w = &r->walk;
    const struct psti_jpeg_scan *s = &w->scan;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < s->n_components && status == PST_OK; i++) {
        r->dc[i] = &r->dc_tables[s->dc[i]];
        r->ac[i] = &r->ac_tables[s->ac[i]];
        if (s->first == 0 && s->high == 0)
            status = make_table(r, &w->dc[s->dc[i]], true, &r->dc_tables[s->dc[i]], err);
        if (s->last > 0 && status == PST_OK)
            status = make_table(r, &w->ac[s->ac[i]], false, &r->ac_tables[s->ac[i]], err);
    }
    return status;
}

static psti_jpeg_mcus_reader *reader_for(const struct psti_jpeg_walk *w)
{
    if (!w->progressive)
        return psti_pli_jpeg_file_kernels_of(psti_cpu_features())->read_sequential;
    if (w->scan.first == 0)
        return w->scan.high ? psti_pli_jpeg_read_dc_more : psti_pli_jpeg_read_dc_first;
    return w->scan.high ? psti_pli_jpeg_read_ac_more : psti_pli_jpeg_read_ac_first;
}

enum pst_status psti_pli_jpeg_read_scan(struct psti_jpeg_reader *r, struct pst_error *err)
{
    struct psti_jpeg_walk *w = &r->walk;
    psti_jpeg_mcus_reader *read = reader_for(w);
    enum pst_status status = make_tables(r, err);
    if (status != PST_OK)
        return status;
    if (!psti_pli_jpeg_layout_of(r->frame, &w->scan, &r->layout))
        return FAIL(w->at, PST_ERROR_CORRUPT, "an MCU of more than %d blocks",
                    PSTI_JPEG_MCU_BLOCKS_MAX);
    r->begin = w->at;
    r->n_restarts = 0;
    status = begin_interval(r, err);
    uint32_t n_left = w->restart_interval ? w->restart_interval : UINT32_MAX;
    const struct psti_jpeg_layout *layout = &r->layout;
    for (uint32_t row = 0; row < layout->mcu_rows; row++)
        for (uint32_t column = 0, n; column < layout->mcu_columns; column += n) {
            if (status == PST_OK && n_left == 0) {
                status = next_interval(r, err);
                n_left = w->restart_interval;
            }
            if (status != PST_OK)
                return status;
            n = layout->mcu_columns - column;
            n = n < n_left ? n : n_left;
            enum psti_jpeg_trouble trouble = read(r, row, column, n);
            if (trouble != PSTI_JPEG_FINE)
                return fail_for(r, trouble, err);
            r->position += (uint64_t)n * layout->n_blocks;
            n_left -= w->restart_interval ? n : 0;
        }
    status = end_interval(r, err);
    w->at = r->end;
    return status;
}
