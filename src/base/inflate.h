/* inflate.h - inflates raw deflate data (RFC 1951), and computes the CRC-32 of the result, as used
 * in zip files.
 *
 * An inflater is used by one thread at a time. Its memory (libdeflate's 11 KiB, and zlib's 40 KiB
 * after the first psti_inflate_head) is allocated once and reused. */
#ifndef PST_BASE_INFLATE_H
#define PST_BASE_INFLATE_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>

/* The most bytes that deflate can expand one byte to: 258 bytes are coded in 2 bits at least. */
#define PSTI_INFLATE_FACTOR_MAX 1032

struct psti_inflater;

/* Creates an inflater. `room` is the module that its errors name; the text must outlive the
 * inflater. Returns PST_OK or PST_ERROR_MEMORY. */
enum pst_status psti_inflate_open(struct psti_inflater **out, const char *room,
                                  struct pst_error *err);
/* Frees the inflater and sets *inflater to NULL. *inflater may be NULL. */
void psti_inflate_close(struct psti_inflater **inflater);

/* Inflates all of `in`, which must give exactly the n_out bytes of `out`. After a failure `out` is
 * undefined; nothing beyond its end is written.
 *
 * Returns PST_ERROR_CORRUPT if the data are damaged or cut short, give fewer or more bytes, or end
 * before `in` does. */
enum pst_status psti_inflate_raw(struct psti_inflater *inflater, const void *in, size_t n_in,
                                 void *out, size_t n_out, struct pst_error *err);

/* Inflates the beginning of a stream: n_out bytes, or fewer if the first n_in bytes of the stream
 * give fewer. Sets *n to the number of bytes written.
 *
 * Returns PST_ERROR_CORRUPT if the data are damaged before n_out bytes were written, or
 * PST_ERROR_MEMORY. */
enum pst_status psti_inflate_head(struct psti_inflater *inflater, const void *in, size_t n_in,
                                  void *out, size_t n_out, size_t *n, struct pst_error *err);

/* Returns the CRC-32 of zip and gzip. `before` is the CRC of the bytes before these (0 at the
 * start), so data may come in pieces. */
uint32_t psti_crc32(uint32_t before, const void *bytes, size_t nbytes);

#endif
