/* pli_jpeg_file.h - JPEG files <-> their quantised coefficients and the rest of their bytes
 * (docs/format-pli.md, section 10).
 *
 * Our own reader and writer of ITU-T T.81's Huffman-coded scans, sequential and progressive: a
 * library that decodes does not say how the bytes were made, and the file must come back to the
 * bit. Pure functions of the caller's memory; any thread. */
#ifndef PST_PLI_JPEG_FILE_H
#define PST_PLI_JPEG_FILE_H

#include "pli/format/pli_jpeg_format.h"

/* Reads the markers up to the first scan: all of `frame` but the quantisation tables (a later one
 * may come) and what is said of restoration. PST_ERROR_UNSUPPORTED, with the reason, for what
 * content 2 does not take: 12 bits, arithmetic coding, lossless, 2 or 4 components, odd sampling
 * factors, more than 65535 pixels, ... */
enum pst_status psti_pli_jpeg_probe(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                    struct pst_error *err);

/* Reads the file: quantisation tables into `frame`, which was probed, coefficients into `coefs[c]`
 * (psti_pli_jpeg_n_coefs values each, cleared by the callee), and what is not coefficients into
 * `restoration` (at most `capacity` bytes; psti_pli_jpeg_restoration_bound(nbytes) are enough).
 * Sets jpeg_nbytes, jpeg_checksum, restoration_nbytes and restoration_checksum.
 * PST_ERROR_UNSUPPORTED: valid, or nearly so, but cannot be kept. `work`:
 * psti_pli_jpeg_work_nbytes(), aligned to 64. */
size_t psti_pli_jpeg_work_nbytes(void);
size_t psti_pli_jpeg_restoration_bound(size_t nbytes);
enum pst_status psti_pli_jpeg_read(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                   int16_t *const coefs[], uint8_t *restoration, size_t capacity,
                                   void *work, struct pst_error *err);

/* The other way: writes frame->jpeg_nbytes bytes to `bytes`. The result is checked against
 * jpeg_checksum (PST_ERROR_CHECKSUM); the restoration is hostile. */
enum pst_status psti_pli_jpeg_write(const struct psti_jpeg_frame *frame,
                                    const int16_t *const coefs[], const uint8_t *restoration,
                                    void *bytes, size_t capacity, void *work,
                                    struct pst_error *err);
/* The same up to the data of the first scan: `*nbytes`, of which no checksum tells but the
 * restoration's own. What lies behind them in `bytes` is overwritten. */
enum pst_status psti_pli_jpeg_write_head(const struct psti_jpeg_frame *frame,
                                         const uint8_t *restoration, void *bytes, size_t capacity,
                                         size_t *nbytes, void *work, struct pst_error *err);

#endif
