/* pli_jpeg_file_blocks.c - reads the blocks of a scan: Huffman codes become coefficients in zigzag
 * order.
 *
 * The input is the bits of one restart interval with zeros after them. The output is coefficients,
 * and events where the file differs from the writer's rules (docs/format-pli.md, section 10). After
 * each block it checks whether bits past the end of the data were used. One block cannot read
 * farther past the end than the PSTI_JPEG_STAGE_PADDING bytes there. While several MCUs are read,
 * the state of the bits is in a local copy, which compilers can keep in registers. */
#include "pli/jpegfile/pli_jpeg_file_read_mcus.h"

enum psti_jpeg_trouble psti_pli_jpeg_read_sequential(struct psti_jpeg_reader *r, uint32_t row,
                                                     uint32_t column, uint32_t n)
{
    return psti_pli_jpeg_read_mcus(r, row, column, n);
}

/* -- DC of progressive scans -- */

/* Takes the difference of a DC and adds it to its prediction. */
static inline enum psti_jpeg_trouble take_dc(struct psti_jpeg_bits *b,
                                             const struct psti_jpeg_decoder_table *table,
                                             int32_t *prediction)
{
    psti_pli_jpeg_need(b);
    uint32_t size = psti_pli_jpeg_take_symbol(b, table);
    if (size == 0)
        return PSTI_JPEG_FINE;
    if (size > 15)
        return PSTI_JPEG_BAD_CODE;
    *prediction += psti_pli_jpeg_take_value(b, size);
    return psti_pli_jpeg_fits_16(*prediction) ? PSTI_JPEG_FINE : PSTI_JPEG_BAD_RANGE;
}

enum psti_jpeg_trouble psti_pli_jpeg_read_dc_first(struct psti_jpeg_reader *r, uint32_t row,
                                                   uint32_t column, uint32_t n)
{
    struct psti_jpeg_bits bits = r->bits;
    enum psti_jpeg_trouble trouble = PSTI_JPEG_FINE;
    for (uint32_t i = 0; i < n && trouble == PSTI_JPEG_FINE; i++)
        for (uint32_t j = 0; j < r->layout.n_blocks && trouble == PSTI_JPEG_FINE; j++) {
            const struct psti_jpeg_place *place = &r->layout.places[j];
            int32_t *prediction = &r->predictions[place->slot];
            trouble = take_dc(&bits, r->dc[place->slot], prediction);
            int32_t value = *prediction * (1 << r->walk.scan.low);
            if (trouble == PSTI_JPEG_FINE && !psti_pli_jpeg_fits_16(value))
                trouble = PSTI_JPEG_BAD_RANGE;
            if (trouble == PSTI_JPEG_FINE && bits.at > bits.limit)
                trouble = PSTI_JPEG_NO_DATA;
            psti_pli_jpeg_read_block(r, place, row, column + i)[0] = (int16_t)value;
        }
    r->bits = bits;
    return trouble;
}

enum psti_jpeg_trouble psti_pli_jpeg_read_dc_more(struct psti_jpeg_reader *r, uint32_t row,
                                                  uint32_t column, uint32_t n)
{
    struct psti_jpeg_bits bits = r->bits;
    enum psti_jpeg_trouble trouble = PSTI_JPEG_FINE;
    for (uint32_t i = 0; i < n && trouble == PSTI_JPEG_FINE; i++)
        for (uint32_t j = 0; j < r->layout.n_blocks; j++) {
            psti_pli_jpeg_need(&bits);
            uint32_t bit = psti_pli_jpeg_take(&bits, 1) << r->walk.scan.low;
            int16_t *dc = psti_pli_jpeg_read_block(r, &r->layout.places[j], row, column + i);
            *dc = (int16_t)(*dc | (int32_t)bit);
            if (bits.at > bits.limit)
                trouble = PSTI_JPEG_NO_DATA;
        }
    r->bits = bits;
    return trouble;
}

/* -- AC of progressive scans -- */

/* Adds an event if the file treats the run of ends otherwise than libjpeg's encoder at this block:
 * if the run ends or continues here against the encoder's rule. The block has only an end. `broke`
 * says that the file codes this end anew instead of counting it in the run. Returns false if there
 * is no space for the event. */
static bool note_run(struct psti_jpeg_reader *r, uint64_t position, bool broke)
{
    if (r->run == 0 || r->run == PSTI_JPEG_EOB_RUN_MAX)
        return true;
    bool would_break = r->n_corrections > PSTI_JPEG_CORRECTIONS_MAX;
    if (broke == would_break)
        return true;
    r->n_corrections = 0;
    return psti_pli_jpeg_add_event(&r->events, position, PSTI_JPEG_EVENT_RUN);
}

/* Begins an EOB run (series of blocks without new coefficients) with this block. `size`, the upper
 * half of the symbol, is the number of bits after the symbol that state the run's length. */
static inline void begin_run(struct psti_jpeg_reader *r, struct psti_jpeg_bits *b, uint32_t size)
{
    uint32_t length = 1u << size;
    if (size > 0)
        length += psti_pli_jpeg_take(b, size);
    r->run_left = length - 1;
    r->run = 1;
    r->n_corrections = 0;
}

static enum psti_jpeg_trouble take_ac_first(struct psti_jpeg_reader *r, struct psti_jpeg_bits *b,
                                            int16_t *block, uint64_t position)
{
    const struct psti_jpeg_scan *s = &r->walk.scan;
    const struct psti_jpeg_decoder_table *table = r->ac[0];
    uint32_t k = s->first, zeros = 0;
    bool was_run = r->run > 0;
    while (k <= s->last) {
        psti_pli_jpeg_need(b);
        uint32_t symbol = psti_pli_jpeg_take_symbol(b, table), size = symbol & 15;
        if (symbol == PSTI_JPEG_NO_SYMBOL)
            return PSTI_JPEG_BAD_CODE;
        if (size == 0 && symbol != 0xF0) {
            if (k == s->first && was_run && !note_run(r, position, true))
                return PSTI_JPEG_ODD_DATA;
            begin_run(r, b, symbol >> 4);
            break;
        }
        r->run = 0;
        if (size == 0) {
            k += 16;
            zeros++;
            continue;
        }
        k += symbol >> 4;
        if (k > s->last)
            return PSTI_JPEG_BAD_RUN;
        int32_t value = psti_pli_jpeg_take_value(b, size) * (1 << s->low);
        if (!psti_pli_jpeg_fits_16(value))
            return PSTI_JPEG_BAD_RANGE;
        block[k++] = (int16_t)value;
        zeros = 0;
    }
    if (zeros > 0 && !psti_pli_jpeg_add_event(&r->events, position,
                                              (uint8_t)(PSTI_JPEG_EVENT_ZEROS + zeros - 1)))
        return PSTI_JPEG_ODD_DATA;
    return b->at > b->limit ? PSTI_JPEG_NO_DATA : PSTI_JPEG_FINE;
}

enum psti_jpeg_trouble psti_pli_jpeg_read_ac_first(struct psti_jpeg_reader *r, uint32_t row,
                                                   uint32_t column, uint32_t n)
{
    struct psti_jpeg_bits bits = r->bits;
    enum psti_jpeg_trouble trouble = PSTI_JPEG_FINE;
    for (uint32_t i = 0; i < n && trouble == PSTI_JPEG_FINE; i++) {
        if (r->run_left > 0) {
            uint32_t skip = r->run_left < n - i ? r->run_left : n - i;
            r->run_left -= skip;
            r->run += skip;
            i += skip - 1;
            continue;
        }
        trouble =
            take_ac_first(r, &bits, psti_pli_jpeg_read_block(r, r->layout.places, row, column + i),
                          r->position + i);
    }
    r->bits = bits;
    return trouble;
}

/* Takes the correction bit of a coefficient that is not 0, and corrects the coefficient. */
static inline void correct(struct psti_jpeg_bits *b, int16_t *coef, uint32_t low)
{
    psti_pli_jpeg_need(b);
    int32_t bit = (int32_t)(psti_pli_jpeg_take(b, 1) << low);
    *coef = (int16_t)(*coef + (*coef < 0 ? -bit : bit));
}

/* Corrects all nonzero coefficients from k on. Returns their number. */
static uint32_t correct_rest(struct psti_jpeg_bits *b, int16_t *block, uint32_t k, uint32_t last,
                             uint32_t low)
{
    uint64_t left = k > last ? 0 : psti_pli_jpeg_nonzeros(block) & ~(uint64_t)0 << k;
    left &= ~(uint64_t)0 >> (63 - last);
    for (uint64_t i = left; i; i &= i - 1)
        correct(b, &block[__builtin_ctzll(i)], low);
    return (uint32_t)__builtin_popcountll(left);
}

/* Skips `n_zeros` coefficients that are 0 and corrects the nonzero ones between them. Returns the
 * number of the next coefficient that is 0, or last + 1. */
static uint32_t pass_zeros(struct psti_jpeg_bits *b, int16_t *block, uint32_t k, uint32_t last,
                           uint32_t low, uint32_t n_zeros)
{
    for (; k <= last; k++) {
        if (block[k] != 0)
            correct(b, &block[k], low);
        else if (n_zeros-- == 0)
            break;
    }
    return k;
}

static enum psti_jpeg_trouble take_ac_more(struct psti_jpeg_reader *r, struct psti_jpeg_bits *b,
                                           int16_t *block, uint64_t position)
{
    const struct psti_jpeg_scan *s = &r->walk.scan;
    uint32_t k = s->first;
    bool was_run = r->run > 0, after_zeros = false;
    while (k <= s->last) {
        psti_pli_jpeg_need(b);
        uint32_t symbol = psti_pli_jpeg_take_symbol(b, r->ac[0]), size = symbol & 15;
        if (symbol == PSTI_JPEG_NO_SYMBOL || size > 1)
            return PSTI_JPEG_BAD_CODE;
        if (size == 0 && symbol != 0xF0) {
            if (k == s->first && was_run && !note_run(r, position, true))
                return PSTI_JPEG_ODD_DATA;
            begin_run(r, b, symbol >> 4);
            r->n_corrections = correct_rest(b, block, k, s->last, s->low);
            break;
        }
        r->run = 0;
        int32_t value = 0;
        if (size == 1)
            value = psti_pli_jpeg_take(b, 1) ? 1 << s->low : -(1 << s->low);
        k = pass_zeros(b, block, k, s->last, s->low, symbol >> 4);
        if (k > s->last)
            return size ? PSTI_JPEG_BAD_RUN : PSTI_JPEG_ODD_CODE;
        block[k++] = (int16_t)value;
        after_zeros = size == 0;
    }
    if (after_zeros) /* true if codes of 16 zeros are the last of the block, with no coefficient
                      * after them */
        return PSTI_JPEG_ODD_CODE;
    return b->at > b->limit ? PSTI_JPEG_NO_DATA : PSTI_JPEG_FINE;
}

enum psti_jpeg_trouble psti_pli_jpeg_read_ac_more(struct psti_jpeg_reader *r, uint32_t row,
                                                  uint32_t column, uint32_t n)
{
    struct psti_jpeg_bits bits = r->bits;
    const struct psti_jpeg_scan *s = &r->walk.scan;
    enum psti_jpeg_trouble trouble = PSTI_JPEG_FINE;
    for (uint32_t i = 0; i < n && trouble == PSTI_JPEG_FINE; i++) {
        int16_t *block = psti_pli_jpeg_read_block(r, r->layout.places, row, column + i);
        if (r->run_left == 0) {
            trouble = take_ac_more(r, &bits, block, r->position + i);
            continue;
        }
        if (!note_run(r, r->position + i, false))
            trouble = PSTI_JPEG_ODD_DATA;
        r->run_left--;
        r->run++;
        r->n_corrections += correct_rest(&bits, block, s->first, s->last, s->low);
        if (bits.at > bits.limit)
            trouble = PSTI_JPEG_NO_DATA;
    }
    r->bits = bits;
    return trouble;
}
