/* codings.h - decodes the bytes of items that files of others hold in a coding (enum pst_coding).
 *
 * Deflate is decoded by libdeflate, Snappy and pieces here. libzstd and liblz4 are opened when they
 * are first needed: no other data needs them. One thread uses the codings at a time. */
#ifndef PST_BASE_CODINGS_H
#define PST_BASE_CODINGS_H

#include <penstock/dataset.h>

#include <stddef.h>
#include <stdint.h>

struct psti_codings;

/* The set of one coding, to be joined by "|". */
static inline uint32_t psti_codings_of(enum pst_coding coding) { return (uint32_t)1 << coding; }

/* Memory that decoders of these codings take, at most. */
uint64_t psti_codings_nbytes(uint32_t codings);

/* Makes the decoders of a set of codings now, so that decoding allocates nothing. Others are made
 * when they are first used. room: that of the errors, which outlives the codings.
 *
 * PST_ERROR_MEMORY. PST_ERROR_UNSUPPORTED: a library is missing; the text says which. */
enum pst_status psti_codings_open(struct psti_codings **out, uint32_t codings, const char *room,
                                  struct pst_error *err);
/* *codings becomes NULL. A NULL is allowed. */
void psti_codings_close(struct psti_codings **codings);

/* Decodes all of `in`, which must give exactly the n_out bytes of `out`. `out` is undefined after
 * failure; nothing behind it is written. Pieces may give more: `out` gets the last n_out bytes of
 * the record, as what stands before them is its own header.
 *
 * PST_ERROR_CORRUPT: the bytes are damaged or cut short, or give fewer or more. PST_ERROR_MEMORY.
 * PST_ERROR_UNSUPPORTED: there is no such coding, or its library is missing. */
enum pst_status psti_codings_decode(struct psti_codings *codings, enum pst_coding coding,
                                    const void *in, size_t n_in, void *out, size_t n_out,
                                    struct pst_error *err);

/* The decoders of our own. Each returns NULL, or a text that says what is wrong. Pure functions. */
const char *psti_snappy_decode(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out);
const char *psti_pieces_join(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out);

/* Decodes one block of LZ4 to `out`, whose n_before bytes before it are the last ones decoded.
 * Returns the number of bytes, at most n_room; negative: it is damaged. */
typedef int psti_lz4_block(const char *in, char *out, int n_in, int n_room, const char *before,
                           int n_before);
/* Decodes frames of LZ4, block by block. */
const char *psti_lz4_decode(psti_lz4_block *decode_block, const uint8_t *in, size_t n_in,
                            uint8_t *out, size_t n_out);

#endif
