/* fuzz_pli.h - shared by the fuzz targets of PLI: correct checksums for heads, and decoding on
 * every CPU level, which must all agree. */
#ifndef PST_FUZZ_PLI_H
#define PST_FUZZ_PLI_H

#include "base/bits.h"
#include "base/checked.h"
#include "base/machine/cpu.h"
#include "base/hash.h"
#include "pli/decode/pli_decode_int.h"

#include <stdlib.h>
#include <string.h>

enum { FUZZ_PLI_MAX_PIXELS = 1 << 20 };

static inline struct pst_pixels fuzz_pli_pixels(const struct pst_pli_info *info, uint32_t height,
                                                uint32_t width, uint8_t channels, void *data)
{
    int64_t sample = info->bits / 8;
    return (struct pst_pixels){data,
                               height,
                               width,
                               channels,
                               info->bits,
                               (int64_t)width * channels * sample,
                               channels * sample,
                               sample};
}

/* Sets the head's checksum as the format defines it. */
static inline void fuzz_pli_set_checksum(uint8_t *bytes, size_t nbytes)
{
    struct psti_pli_header header;
    struct psti_hash_state state;
    if (psti_pli_parse_header(bytes, nbytes, &header, NULL) != PST_OK ||
        psti_pli_head_nbytes(&header) > nbytes)
        return;
    psti_hash_begin(&state);
    psti_hash_update(&state, bytes, 32);
    psti_hash_update(&state, bytes + PSTI_PLI_HEADER_NBYTES,
                     psti_pli_head_nbytes(&header) - PSTI_PLI_HEADER_NBYTES);
    psti_store_u64(bytes + 32, psti_hash_end(&state));
}

/* Corrects the checksums of the units, if they have some, and of the head, so that changed bytes
 * are decoded. */
static inline void fuzz_pli_mend(uint8_t *bytes, size_t nbytes)
{
    struct psti_pli_header header;
    if (psti_pli_parse_header(bytes, nbytes, &header, NULL) != PST_OK ||
        psti_pli_head_nbytes(&header) > nbytes)
        return;
    uint32_t n_units = psti_pli_unit_rows(&header) * psti_pli_unit_columns(&header);
    uint64_t offset = psti_pli_head_nbytes(&header);
    for (uint32_t u = 0; u < n_units; u++) {
        struct psti_pli_entry entry = psti_pli_parse_entry(bytes, &header, u);
        if (!psti_range_fits(offset, entry.nbytes, nbytes))
            break;
        entry.checksum = (uint32_t)psti_hash64(bytes + offset, entry.nbytes);
        psti_pli_print_entry(bytes, &header, u, entry);
        offset += entry.nbytes;
    }
    fuzz_pli_set_checksum(bytes, nbytes);
}

/* Decodes with plain C and with the machine's CPU level, and traps if they differ. Memory is first
 * filled with different bytes, which exposes samples that are never written. */
static inline enum pst_status fuzz_pli_decode(const uint8_t *bytes, size_t nbytes,
                                              const struct pst_pli_info *info,
                                              const struct pst_pli_region *region, int channel)
{
    uint32_t height = region ? region->height : info->height;
    uint32_t width = region ? region->width : info->width;
    uint8_t channels = channel < 0 ? info->channels : 1;
    size_t total = (size_t)height * width * channels * (info->bits / 8u);
    size_t scratch_nbytes = psti_round_up(pst_pli_scratch_nbytes(info, sizeof *info), 64);
    uint8_t *scratch = aligned_alloc(64, scratch_nbytes);
    uint8_t *out[2] = {malloc(total), malloc(total)};
    const uint32_t levels[2] = {0, psti_cpu_detected()};
    enum pst_status status[2];
    for (int i = 0; i < 2; i++) {
        struct pst_error err;
        struct pst_pixels pixels = fuzz_pli_pixels(info, height, width, channels, out[i]);
        memset(out[i], 0x55 << i, total);
        memset(scratch, 0x33 << i, scratch_nbytes);
        status[i] = psti_pli_decode_on(levels[i], bytes, nbytes, region, channel, &pixels, scratch,
                                       scratch_nbytes, &err);
    }
    if (status[0] != status[1] || (status[0] == PST_OK && memcmp(out[0], out[1], total) != 0))
        __builtin_trap();
    free(out[0]);
    free(out[1]);
    free(scratch);
    return status[0];
}

#endif
