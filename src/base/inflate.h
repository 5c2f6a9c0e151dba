/* inflate.h - raw deflate data (RFC 1951) and the CRC-32 of what it holds, as members of zips have
 * them.
 *
 * One thread uses an inflater at a time. Its memory (libdeflate's 11 KiB, and zlib's 40 KiB after
 * the first psti_inflate_head) is made once and used again. */
#ifndef PST_BASE_INFLATE_H
#define PST_BASE_INFLATE_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>

/* The most bytes that deflate makes from one byte: at most 258 from 2 bits. */
#define PSTI_INFLATE_FACTOR_MAX 1032

struct psti_inflater;

/* Makes an inflater. `room` is the room of its errors; the text must outlive the inflater. Returns
 * PST_OK or PST_ERROR_MEMORY. */
enum pst_status psti_inflate_open(struct psti_inflater **out, const char *room,
                                  struct pst_error *err);
/* Frees the inflater and sets *inflater to NULL. *inflater may be NULL. */
void psti_inflate_close(struct psti_inflater **inflater);

/* Inflates all of `in`, which must give exactly the n_out bytes of `out`. `out` is undefined after
 * failure; nothing after its end is written.
 *
 * Returns PST_ERROR_CORRUPT if the data are damaged or cut short, give fewer or more bytes, or do
 * not end with `in`. */
enum pst_status psti_inflate_raw(struct psti_inflater *inflater, const void *in, size_t n_in,
                                 void *out, size_t n_out, struct pst_error *err);

/* Inflates the first n_out bytes, or as many as the first n_in bytes of the data give. Sets *n to
 * their number.
 *
 * Returns PST_ERROR_CORRUPT if the data are damaged before the n_out bytes are full, or
 * PST_ERROR_MEMORY. */
enum pst_status psti_inflate_head(struct psti_inflater *inflater, const void *in, size_t n_in,
                                  void *out, size_t n_out, size_t *n, struct pst_error *err);

/* Returns the CRC-32 of zip and gzip, continued from `before`, that of the bytes before these (0 at
 * the start). */
uint32_t psti_crc32(uint32_t before, const void *bytes, size_t nbytes);

#endif
