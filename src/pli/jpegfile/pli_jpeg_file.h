/* pli_jpeg_file.h - converts JPEG files to their quantised coefficients and the rest of their
 * bytes, and back (docs/format-pli.md, section 10).
 *
 * This is our own reader and writer of ITU-T T.81's Huffman-coded scans, sequential and
 * progressive. A decoding library does not report how the bytes were coded, but the file must be
 * restored to the bit. The functions are pure and use the caller's memory; any thread may call
 * them. */
#ifndef PST_PLI_JPEG_FILE_H
#define PST_PLI_JPEG_FILE_H

#include "pli/format/pli_jpeg_format.h"

/* Reads the markers up to the first scan. Fills `frame`, except the quantisation tables (later ones
 * may follow) and the members about the restoration. Fails with PST_ERROR_UNSUPPORTED and the
 * reason if content 2 does not allow the file: 12 bits, arithmetic coding, lossless, 2 or 4
 * components, odd sampling factors, more than 65500 pixels along a side, ... */
enum pst_status psti_pli_jpeg_probe(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                    struct pst_error *err);

/* Reads the file. `frame` must have been probed and gets the quantisation tables. `coefs[c]` gets
 * the coefficients, psti_pli_jpeg_n_coefs values each; this function clears them first.
 * `restoration` gets all data that are not coefficients: at most `capacity` bytes, for which
 * psti_pli_jpeg_restoration_bound(nbytes) is enough. Sets jpeg_nbytes, jpeg_checksum,
 * restoration_nbytes and restoration_checksum. PST_ERROR_UNSUPPORTED means that the file is valid,
 * or nearly so, but cannot be kept. `work` has psti_pli_jpeg_work_nbytes() and is aligned to 64. */
size_t psti_pli_jpeg_work_nbytes(void);
size_t psti_pli_jpeg_restoration_bound(size_t nbytes);
enum pst_status psti_pli_jpeg_read(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                   int16_t *const coefs[], uint8_t *restoration, size_t capacity,
                                   void *work, struct pst_error *err);
/* Reads the file like psti_pli_jpeg_read, if its bytes need not be restored: `stage` is memory of
 * the size of a restoration, and the frame says that there is no restoration. *is_regular: the file
 * is one sequential scan of all components, in which nothing is unusual. */
enum pst_status psti_pli_jpeg_read_coefs(const void *bytes, size_t nbytes,
                                         struct psti_jpeg_frame *frame, int16_t *const coefs[],
                                         uint8_t *stage, size_t capacity, void *work,
                                         bool *is_regular, struct pst_error *err);

/* Writes the JPEG file, frame->jpeg_nbytes bytes, to `bytes`. The result is compared with
 * jpeg_checksum (PST_ERROR_CHECKSUM). The restoration is not trusted. */
enum pst_status psti_pli_jpeg_write(const struct psti_jpeg_frame *frame,
                                    const int16_t *const coefs[], const uint8_t *restoration,
                                    void *bytes, size_t capacity, void *work,
                                    struct pst_error *err);
/* Writes the JPEG file up to the data of the first scan and sets *nbytes to the length. Only the
 * restoration's own checksum covers these bytes. `bytes` is overwritten after them, too. */
enum pst_status psti_pli_jpeg_write_head(const struct psti_jpeg_frame *frame,
                                         const uint8_t *restoration, void *bytes, size_t capacity,
                                         size_t *nbytes, void *work, struct pst_error *err);

#endif
