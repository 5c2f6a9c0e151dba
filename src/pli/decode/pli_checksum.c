/* pli_checksum.c - compares the checksum of decoded pixels with the one that the PLI's header
 * states.
 *
 * It reads rows of pixels in any layout and writes nothing. Its functions are pure; any thread may
 * call them. */
#include "pli/decode/pli_checksum.h"

#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

enum { PIECE_NBYTES = 4096 };

/* Hashes one row sample by sample, in the order (W, C). */
static void hash_scattered(const struct pst_pixels *p, const uint8_t *row,
                           struct psti_hash_state *state)
{
    uint8_t piece[PIECE_NBYTES];
    const size_t sample = p->bits / 8u;
    size_t n = 0;
    for (uint32_t x = 0; x < p->width; x++)
        for (uint32_t c = 0; c < p->channels; c++) {
            memcpy(piece + n, row + (int64_t)x * p->pixel_nbytes + (int64_t)c * p->channel_nbytes,
                   sample);
            n += sample;
            if (n == sizeof piece) {
                psti_hash_update(state, piece, n);
                n = 0;
            }
        }
    psti_hash_update(state, piece, n);
}

void psti_pli_hash_rows(const struct pst_pixels *p, uint32_t n_rows, struct psti_hash_state *state)
{
    const size_t sample = p->bits / 8u, pixel = sample * p->channels;
    const bool is_interleaved = p->pixel_nbytes == (int64_t)pixel &&
                                (p->channel_nbytes == (int64_t)sample || p->channels == 1);
    for (uint32_t y = 0; y < n_rows; y++) {
        const uint8_t *row = (const uint8_t *)p->data + (int64_t)y * p->row_nbytes;
        if (is_interleaved)
            psti_hash_update(state, row, pixel * p->width);
        else
            hash_scattered(p, row, state);
    }
}

enum pst_status psti_pli_compare_pixels(const struct psti_hash_state *state,
                                        const struct psti_pli_header *header, struct pst_error *err)
{
    if (psti_hash_end(state) == header->pixel_checksum)
        return PST_OK;
    return psti_pli_failed(psti_fail(err, PST_ERROR_CHECKSUM, ROOM,
                                     "the checksum of the decoded pixels does not match"),
                           err);
}

enum pst_status pst_pli_check_pixels(const void *bytes, size_t nbytes,
                                     const struct pst_pixels *pixels, struct pst_error *err)
{
    struct psti_pli_header header;
    struct psti_hash_state state;
    enum pst_status status = psti_pli_parse_header(bytes, nbytes, &header, err);
    if (status == PST_OK &&
        (!pixels->data || pixels->height != header.height || pixels->width != header.width ||
         pixels->channels != header.channels || pixels->bits != header.bits))
        status = psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the pixels are not those of the image");
    if (status != PST_OK)
        return psti_pli_failed(status, err);
    psti_hash_begin(&state);
    psti_pli_hash_rows(pixels, pixels->height, &state);
    return psti_pli_compare_pixels(&state, &header, err);
}
