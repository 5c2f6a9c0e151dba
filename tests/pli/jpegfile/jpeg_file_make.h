/* jpeg_file_make.h - makes JPEG files for the tests of the JPEG reader and writer: with libjpeg, or
 * code by code where libjpeg would not write such a file. All memory comes from malloc. */
#ifndef PST_TEST_JPEG_FILE_MAKE_H
#define PST_TEST_JPEG_FILE_MAKE_H

#include "test.h"

#include "pli/jpegfile/pli_jpeg_file.h"

#include <stdbool.h>
#include <string.h>

struct jpeg_file {
    uint8_t *bytes;
    size_t nbytes;
};

enum jpeg_file_kind { FILE_GRAY, FILE_YCC, FILE_RGB, FILE_CMYK };
enum jpeg_file_scans { SCANS_ONE, SCANS_EACH, SCANS_Y_THEN_CC, SCANS_PROGRESSIVE, SCANS_FINE };

struct jpeg_file_spec {
    uint32_t height, width;
    enum jpeg_file_kind kind;
    uint8_t factors[3]; /* h << 4 | v, sampling factors of each component; 0 means h = v = 1 */
    int quality;
    enum jpeg_file_scans scans;
    uint16_t restart; /* restart interval in MCUs */
    bool optimised, arithmetic, wide_quants, smooth;
};

struct jpeg_file make_jpeg_file(const struct jpeg_file_spec *spec, uint64_t seed);
struct jpeg_file copy_jpeg_file(const struct jpeg_file *file);
/* insert_bytes() inserts n bytes at an offset, remove_bytes() removes them. find_marker() returns
 * the offset of the first marker FF `code` at or after `from`. */
void insert_bytes(struct jpeg_file *file, size_t offset, const void *bytes, size_t n);
void remove_bytes(struct jpeg_file *file, size_t offset, size_t n);
size_t find_marker(const struct jpeg_file *file, uint8_t code, size_t from);
/* Returns the offset after the first SOS segment at or after `from`. */
size_t find_data(const struct jpeg_file *file, size_t from);

/* The result of reading a JPEG file. */
struct read_jpeg {
    struct psti_jpeg_frame frame;
    int16_t *coefs[PSTI_JPEG_COMPONENTS_MAX];
    uint8_t *restoration;
    void *work;
};
/* Reads a file. If it fails, there is nothing to free. */
enum pst_status read_jpeg_file(const struct jpeg_file *file, struct read_jpeg *out,
                               struct pst_error *err);
void free_read_jpeg(struct read_jpeg *r);
/* Fails the test, naming `what`, unless the file can be read, has libjpeg's tables and (if
 * `as_libjpeg`) coefficients, and is restored byte for byte. Returns the restoration's size. */
uint32_t check_round_trip(const struct jpeg_file *file, bool as_libjpeg, const char *what);

/* Writes a gray file code by code. Its Huffman tables have codes of eight bits for any symbols. */
struct code_writer {
    struct jpeg_file file;
    uint8_t dc_symbols[16], ac_symbols[256];
    int n_ac;
    uint32_t buffer, n_bits;
};
void begin_codes(struct code_writer *w, uint32_t height, uint32_t width, bool progressive,
                 const uint8_t *ac_symbols, int n_ac);
void begin_scan(struct code_writer *w, uint8_t first, uint8_t last, uint8_t high, uint8_t low);
void put_bits(struct code_writer *w, uint32_t value, uint32_t n);
void put_dc_code(struct code_writer *w, uint8_t symbol);
void put_ac_code(struct code_writer *w, uint8_t symbol);
/* Pads the last byte with the bits of `padding`. */
void end_data(struct code_writer *w, uint8_t padding);
void end_codes(struct code_writer *w);

#endif
