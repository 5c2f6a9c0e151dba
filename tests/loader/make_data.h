/* make_data.h - small data sets and folders, made with the writer, libpng and libjpeg, for tests.
 */
#ifndef PST_TESTS_MAKE_DATA_H
#define PST_TESTS_MAKE_DATA_H

#include <penstock/penstock.h>

#include <stdbool.h>
#include <stdlib.h>

/* Says if a test tries all combinations of its settings. `make check` sets PENSTOCK_TEST_FEW, and a
 * test with many combinations then tries only some of them. */
static inline bool all_combinations(void) { return getenv("PENSTOCK_TEST_FEW") == NULL; }

enum make_images { MAKE_RAW_SAME, MAKE_MIXED, MAKE_JPEG, MAKE_PNG };

struct make_options {
    uint32_t n_samples;
    enum make_images images; /* RAW_SAME: 32x48x3, raw; MIXED: raw, PNG and JPEG of several sizes */
    /* adds mask, boxes, points, text, score and arrays to image and label */
    bool all_fields;
    uint64_t shard_nbytes;
    uint32_t edition; /* part of the samples' names, so data sets of two editions differ */
};

/* Makes a directory under /tmp. The test calls remove_tree() on it at its end. */
void make_directory(char path[64]);
void remove_tree(const char *path);

/* Adds a sample to the writer, which must accept it. */
void add_sample(pst_writer *writer, const char *name, const struct pst_value *const *values);

/* Writes a data set at `path`. Fields: image, label (int), and with all_fields mask, boxes, points,
 * text, score (float), vector (array f32 (3)), table (array, ragged). */
void make_dataset(const char *path, const struct make_options *options);
/* Makes a folder with one subdirectory of JPEG files for each class. */
void make_folder(const char *path, uint32_t n_classes, uint32_t n_each);

/* Computes the pixels of sample i, u8 (H,W,3). Raw and PNG images store them exactly. */
void make_pixels(uint32_t i, uint32_t height, uint32_t width, uint8_t *pixels);
void make_size(uint32_t i, enum make_images images, uint32_t *height, uint32_t *width);

/* Encodes an image. The caller frees the result with free(). */
uint8_t *encode_png(const uint8_t *pixels, uint32_t height, uint32_t width, uint32_t channels,
                    size_t *nbytes);
uint8_t *encode_jpeg(const uint8_t *pixels, uint32_t height, uint32_t width, size_t *nbytes);
uint8_t *encode_progressive_jpeg(const uint8_t *pixels, uint32_t height, uint32_t width,
                                 size_t *nbytes);

/* Flips one byte in the middle of the stored image of `sample`. */
void spoil_sample(const pst_dataset *dataset, uint64_t sample, const char *field);

/* Returns the XXH3 hash of what a batch shows its user: sample indices, and shape, dtype and bytes
 * of each row of each field, and of the arrays in which rows are put together. */
uint64_t hash_batch(const pst_batch *batch);

#endif
