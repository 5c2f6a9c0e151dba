/* pli_jpeg_file_codes.c - makes the tables in which the reader of JPEG files looks up Huffman
 * codes, and finds the codes that are too long for them. Pure; any thread. */
#include "pli/jpegfile/pli_jpeg_file_codes.h"

#include <string.h>

/* Returns the entry of the table's `codes` for a code of this length. */
static uint32_t code_of(uint32_t length, uint32_t symbol)
{
    return length << 16 | symbol << 8 | (length + (symbol & 15));
}

static void fill(uint32_t *entries, uint32_t n, uint32_t entry)
{
    for (uint32_t i = 0; i < n; i++)
        entries[i] = entry;
}

/* Fills all entries whose index begins with the code. */
static void fill_quick(struct psti_jpeg_decoder_table *table, bool is_dc, uint32_t symbol,
                       uint32_t code, uint32_t length)
{
    uint32_t size = symbol & 15, run = symbol >> 4, n_values = 1u << size;
    uint32_t n = 1u << (PSTI_JPEG_QUICK_BITS - length), *entries = table->quick + code * n;
    bool is_slow = length + size > PSTI_JPEG_QUICK_BITS || (size == 0 && run < 15 && !is_dc);
    if (is_slow) {
        fill(entries, n, symbol << 16 | PSTI_JPEG_SLOW | length);
        return;
    }
    n >>= size;
    for (uint32_t i = 0; i < n_values; i++, entries += n) {
        int32_t value = i < n_values / 2 ? (int32_t)(i + 1 - n_values) : (int32_t)i;
        fill(entries, n, (uint32_t)value << 16 | (run + 1) << 8 | (length + size));
    }
}

static void fill_codes(struct psti_jpeg_decoder_table *table, uint32_t symbol, uint32_t code,
                       uint32_t length)
{
    uint32_t n = 1u << (PSTI_JPEG_LOOK_BITS - length);
    fill(table->codes + code * n, n, code_of(length, symbol));
}

bool psti_pli_jpeg_fill_table(const struct psti_jpeg_huffman *from, bool is_dc, bool is_progressive,
                              struct psti_jpeg_decoder_table *table)
{
    uint16_t codes[256];
    uint8_t lengths[256];
    if (!from->defined || !psti_pli_jpeg_huffman_codes(from, codes, lengths))
        return false;
    memset(table->ends, 0, sizeof table->ends);
    memset(table->offsets, 0, sizeof table->offsets);
    memcpy(table->symbols, from->symbols, sizeof table->symbols);
    if (is_progressive)
        fill(table->codes, PSTI_JPEG_LOOK, 0);
    else
        fill(table->quick, PSTI_JPEG_QUICK, PSTI_JPEG_SLOW);
    for (uint32_t i = 0; i < from->n; i++) {
        uint32_t length = lengths[i], symbol = from->symbols[i];
        if (is_dc && symbol > 15)
            return false;
        if (is_progressive && length <= PSTI_JPEG_LOOK_BITS)
            fill_codes(table, symbol, codes[i], length);
        if (!is_progressive && length <= PSTI_JPEG_QUICK_BITS)
            fill_quick(table, is_dc, symbol, codes[i], length);
        if (table->ends[length] == 0)
            table->offsets[length] = (int32_t)i - codes[i];
        table->ends[length] = (codes[i] + 1u) << (16 - length);
    }
    return true;
}

uint32_t psti_pli_jpeg_find_long_code(uint64_t buffer, const struct psti_jpeg_decoder_table *table)
{
    uint32_t bits = (uint32_t)(buffer >> 48);
    for (uint32_t length = PSTI_JPEG_LOOK_BITS + 1; length <= 16; length++)
        if (bits < table->ends[length])
            return code_of(
                length, table->symbols[(int32_t)(bits >> (16 - length)) + table->offsets[length]]);
    return 0;
}
