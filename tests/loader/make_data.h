/* make_data.h - small data sets and folders, made with the writer, libpng and libjpeg, for tests.
 */
#ifndef PST_TESTS_MAKE_DATA_H
#define PST_TESTS_MAKE_DATA_H

#include <penstock/penstock.h>

#include <stdbool.h>
#include <stdlib.h>

/* Says if a test tries all of its combinations. `make check` sets PENSTOCK_TEST_FEW: a test with
 * many combinations then tries some of them. */
static inline bool all_combinations(void)
{
    return getenv("PENSTOCK_TEST_FEW") == NULL;
}

enum make_images { MAKE_RAW_SAME, MAKE_MIXED, MAKE_JPEG, MAKE_PNG };

struct make_options {
    uint32_t n_samples;
    enum make_images images; /* RAW_SAME: 32x48x3 raw; MIXED: raw, PNG, JPEG of differing sizes */
    bool all_fields;         /* beside image and label: mask, boxes, points, text, score, arrays */
    uint64_t shard_nbytes;
    uint32_t edition; /* part of the samples' names: two editions are two data sets */
};

/* Makes a directory under /tmp; call remove_tree() at the end. */
void make_directory(char path[64]);
void remove_tree(const char *path);

/* Adds a sample, which must be good. */
void add_sample(pst_writer *writer, const char *name, const struct pst_value *const *values);

/* Writes a data set at `path`. Fields: image, label (int), and with all_fields mask, boxes, points,
 * text, score (float), vector (array f32 (3)), table (array, ragged). */
void make_dataset(const char *path, const struct make_options *options);
/* Makes a folder of class folders with JPEG files. */
void make_folder(const char *path, uint32_t n_classes, uint32_t n_each);

/* Pixels of sample i, u8 (H,W,3), as raw and PNG images hold them exactly. */
void make_pixels(uint32_t i, uint32_t height, uint32_t width, uint8_t *pixels);
void make_size(uint32_t i, enum make_images images, uint32_t *height, uint32_t *width);

/* Encoded images; freed with free(). */
uint8_t *encode_png(const uint8_t *pixels, uint32_t height, uint32_t width, uint32_t channels,
                    size_t *nbytes);
uint8_t *encode_jpeg(const uint8_t *pixels, uint32_t height, uint32_t width, size_t *nbytes);
uint8_t *encode_progressive_jpeg(const uint8_t *pixels, uint32_t height, uint32_t width,
                                 size_t *nbytes);

/* Flips one byte in the middle of the stored image of `sample`. */
void spoil_sample(const pst_dataset *dataset, uint64_t sample, const char *field);

/* XXH3 over the visible parts of a batch: index, shapes, dtypes, bytes of each row of each field.
 */
uint64_t hash_batch(const pst_batch *batch);

#endif
