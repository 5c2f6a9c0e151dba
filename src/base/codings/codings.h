/* codings.h - decodes items that other software has stored in a coding (enum pst_coding).
 *
 * Deflate is decoded by libdeflate; Snappy and pieces are decoded here. libzstd and liblz4 are
 * opened when data first need them. One thread uses the codings at a time. */
#ifndef PST_BASE_CODINGS_H
#define PST_BASE_CODINGS_H

#include <penstock/dataset.h>

#include <stddef.h>
#include <stdint.h>

struct psti_codings;

/* Returns the set that has this coding alone. Sets are joined by "|". */
static inline uint32_t psti_codings_of(enum pst_coding coding) { return (uint32_t)1 << coding; }

/* Returns an upper bound of the memory that the decoders of these codings take. */
uint64_t psti_codings_nbytes(uint32_t codings);

/* Makes the decoders of a set of codings now, so that decoding allocates nothing. The others are
 * made when they are first used. `room` is the room of the errors; the text must outlive the
 * codings.
 *
 * Returns PST_ERROR_MEMORY, or PST_ERROR_UNSUPPORTED if a library is missing; the text says
 * which. */
enum pst_status psti_codings_open(struct psti_codings **out, uint32_t codings, const char *room,
                                  struct pst_error *err);
/* Frees the decoders and sets *codings to NULL. *codings may be NULL. */
void psti_codings_close(struct psti_codings **codings);

/* Decodes all of `in`, which must give exactly the n_out bytes of `out`. `out` is undefined after
 * failure; nothing after its end is written. Pieces may give more bytes: `out` gets the last n_out
 * bytes of the record, since the bytes before these are the record's own header.
 *
 * Returns PST_ERROR_CORRUPT if the bytes are damaged, cut short, or give fewer or more bytes;
 * PST_ERROR_MEMORY; or PST_ERROR_UNSUPPORTED if there is no such coding or its library is
 * missing. */
enum pst_status psti_codings_decode(struct psti_codings *codings, enum pst_coding coding,
                                    const void *in, size_t n_in, void *out, size_t n_out,
                                    struct pst_error *err);

/* The decoders that are our own. Each returns NULL, or a text that says what is wrong. Pure
 * functions. */
const char *psti_snappy_decode(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out);
const char *psti_pieces_join(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out);

/* Decodes one block of LZ4 to `out`. The n_before bytes before `out` are those that were decoded
 * last. Returns the number of decoded bytes, at most n_room, or a negative number if the block is
 * damaged. */
typedef int psti_lz4_block(const char *in, char *out, int n_in, int n_room, const char *before,
                           int n_before);
/* Decodes frames of LZ4; `decode_block` decodes each block. */
const char *psti_lz4_decode(psti_lz4_block *decode_block, const uint8_t *in, size_t n_in,
                            uint8_t *out, size_t n_out);

#endif
