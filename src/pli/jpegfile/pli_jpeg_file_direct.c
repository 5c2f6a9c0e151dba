/* pli_jpeg_file_direct.c - reads MCUs of a sequential scan into planes of coefficients, or skips
 * them, in plain C; makes the table for skipping; finds blocks with large coefficients.
 *
 * pli_jpeg_file_direct.h says what goes in and out. Pure; any thread. */
#include "pli/jpegfile/pli_jpeg_file_direct_mcus.h"

uint32_t psti_pli_jpeg_direct_read(struct psti_jpeg_direct *r, uint32_t n)
{
    return psti_pli_jpeg_direct_mcus(r, n, false);
}

uint32_t psti_pli_jpeg_direct_skip(struct psti_jpeg_direct *r, uint32_t n)
{
    return psti_pli_jpeg_direct_mcus(r, n, true);
}

/* Returns the entry for these bits. */
static uint32_t skip_entry(const struct psti_jpeg_decoder_table *from, uint32_t bits)
{
    uint32_t length = 0, count = 0;
    while (length < PSTI_JPEG_QUICK_BITS) {
        uint32_t entry = from->quick[bits << length & (PSTI_JPEG_QUICK - 1)];
        uint32_t own = entry & 63, more = entry >> 8 & 255;
        bool slow = (entry & PSTI_JPEG_SLOW) != 0, ends = slow && entry >> 16 == 0 && own != 0;
        if (length + own > PSTI_JPEG_QUICK_BITS || (slow && !ends))
            break;
        if (ends && count < 64)
            return (count + PSTI_JPEG_SKIP_ENDS) << 8 | (length + own);
        if (ends || count + more > 64)
            break;
        length += own;
        count += more;
    }
    return length > 0 ? count << 8 | length : PSTI_JPEG_SKIP_NONE;
}

void psti_pli_jpeg_fill_skip_table(const struct psti_jpeg_decoder_table *from,
                                   struct psti_jpeg_skip_table *table)
{
    for (uint32_t i = 0; i < PSTI_JPEG_QUICK; i++)
        table->entries[i] = skip_entry(from, i);
}

void psti_pli_jpeg_fill_pair_table(const struct psti_jpeg_decoder_table *from,
                                   struct psti_jpeg_pair_table *table)
{
    for (uint32_t i = 0; i < PSTI_JPEG_QUICK; i++) {
        const uint32_t first = from->quick[i], length = first & 63, step = first >> 8 & 255;
        const uint64_t value = first >> 16;
        if ((first & PSTI_JPEG_SLOW) != 0) {
            table->entries[i] = first;
            continue;
        }
        const uint32_t second = from->quick[i << length & (PSTI_JPEG_QUICK - 1)];
        const uint32_t both = length + (second & 63);
        const bool one = (second & PSTI_JPEG_SLOW) != 0 || both > PSTI_JPEG_QUICK_BITS;
        table->entries[i] = one ? value << 48 | value << 32 | step << 16 | step << 8 | length
                                : (uint64_t)(second >> 16) << 48 | value << 32 | step << 16 |
                                      (step + (second >> 8 & 255)) << 8 | both;
    }
}

bool psti_pli_jpeg_is_beyond_c(const int16_t *planes, uint32_t n, uint32_t last,
                               const uint16_t quants[64], uint32_t most)
{
    enum { LANES = 16 };
    for (uint32_t i = 0; i < n; i += LANES) {
        uint64_t sums[LANES] = {0};
        for (uint32_t k = 0; k <= last; k++)
            for (uint32_t l = 0; l < LANES; l++) {
                int32_t value = planes[(size_t)k * PSTI_JPEG_LANES + i + l];
                sums[l] += (uint64_t)(uint32_t)(value < 0 ? -value : value) * quants[k];
            }
        for (uint32_t l = 0; l < LANES; l++)
            if (sums[l] > most)
                return true;
    }
    return false;
}
