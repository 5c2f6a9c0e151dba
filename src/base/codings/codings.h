/* codings.h - decodes items that other software has stored in compressed form (enum pst_coding).
 *
 * Deflate is decoded by libdeflate. Snappy and the pieces of RecordIO are decoded here. libzstd and
 * liblz4 are loaded when data first need them. A struct psti_codings is used by one thread at a
 * time. */
#ifndef PST_BASE_CODINGS_H
#define PST_BASE_CODINGS_H

#include <penstock/dataset.h>

#include <stddef.h>
#include <stdint.h>

struct psti_codings;

/* Returns the bit of a coding. A set of codings is such bits joined by "|". */
static inline uint32_t psti_codings_of(enum pst_coding coding) { return (uint32_t)1 << coding; }

/* Returns an upper bound of the bytes of memory that the decoders of a set of codings allocate. */
uint64_t psti_codings_nbytes(uint32_t codings);

/* Creates the decoders of a set of codings now, so that decoding allocates nothing. Other decoders
 * are created when they are first used. `room` is the module that errors name; the text must
 * outlive the codings.
 *
 * Returns PST_ERROR_MEMORY, or PST_ERROR_UNSUPPORTED if a library is missing, which the error's
 * text names. */
enum pst_status psti_codings_open(struct psti_codings **out, uint32_t codings, const char *room,
                                  struct pst_error *err);
/* Frees the decoders and sets *codings to NULL. *codings may be NULL. */
void psti_codings_close(struct psti_codings **codings);

/* Decodes all of `in`, which must give exactly the n_out bytes of `out`. After a failure `out` is
 * undefined; nothing beyond its end is written. The coding "pieces" may give more bytes: the first
 * ones are the record's own header, and `out` gets the last n_out bytes.
 *
 * Returns PST_ERROR_CORRUPT if the bytes are damaged, cut short, or give fewer or more bytes;
 * PST_ERROR_MEMORY; or PST_ERROR_UNSUPPORTED if the coding is unknown or its library is missing. */
enum pst_status psti_codings_decode(struct psti_codings *codings, enum pst_coding coding,
                                    const void *in, size_t n_in, void *out, size_t n_out,
                                    struct pst_error *err);

/* Decoders that need no library. Each returns NULL, or a text that says what is wrong. Pure
 * functions. */
const char *psti_snappy_decode(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out);
const char *psti_pieces_join(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out);

/* The type of a function that decodes one LZ4 block to `out`. The n_before bytes from `before` on,
 * directly before `out`, are the bytes decoded last. Returns the number of decoded bytes, at most
 * n_room, or a negative number if the block is damaged. */
typedef int psti_lz4_block(const char *in, char *out, int n_in, int n_room, const char *before,
                           int n_before);
/* Decodes LZ4 frames. `decode_block` decodes each block. */
const char *psti_lz4_decode(psti_lz4_block *decode_block, const uint8_t *in, size_t n_in,
                            uint8_t *out, size_t n_out);

#endif
