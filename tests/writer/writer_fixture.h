/* writer_fixture.h - makes and checks a data set with a field of every type. The values of sample i
 * are computed from i. */
#ifndef PST_TESTS_WRITER_FIXTURE_H
#define PST_TESTS_WRITER_FIXTURE_H

#include "test.h"

#include <penstock/writer.h>

enum {
    FIX_IMAGE,
    FIX_MASK,
    FIX_BOXES,
    FIX_KEYPOINTS,
    FIX_AUDIO,
    FIX_LABEL,
    FIX_WEIGHT,
    FIX_BLOB,
    FIX_CAPTION,
    FIX_META,
    FIX_FIXED,
    FIX_RAGGED,
    FIX_N_FIELDS
};
extern const struct pst_field fixture_fields[FIX_N_FIELDS];
extern const char *const fixture_classes[5];

/* Makes a directory for one test, in memory if /dev/shm exists. fixture_remove removes it. */
char *fixture_directory(void);
void fixture_remove(char *directory);
void fixture_empty(
    const char *directory); /* removes the files in it, one level of directories deep */

/* All values of sample i. */
struct fixture_sample {
    struct pst_sample sample;
    const struct pst_value *values[FIX_N_FIELDS];
    struct pst_value value[FIX_N_FIELDS][2];
    int64_t label;
    double weight;
    char name[64];
    uint8_t bytes[8192];
    size_t n_bytes;
};
void fixture_make(struct fixture_sample *sample, uint64_t i);
enum pst_status fixture_add(pst_writer *writer, uint64_t i, struct pst_error *err);

/* Returns writer options with small shards and commits, so that few samples make many of both. */
struct pst_writer_options fixture_options(enum pst_writer_mode mode);

/* Runs a writer that continues from the state on the disk up to `end` samples and finishes. */
enum pst_status fixture_live(const char *path, enum pst_writer_mode mode, uint64_t end,
                             struct pst_error *err);

/* Asserts that the data set at `path` is complete and holds exactly samples 0..n-1, byte for
 * byte. */
void fixture_check(const char *path, uint64_t n);
/* Does what fixture_check does, for an open data set. */
void fixture_check_open(const pst_dataset *dataset, uint64_t n);

/* Reads a whole file into malloc's memory. */
uint8_t *fixture_read_file(const char *path, size_t *nbytes);
void fixture_write_file(const char *path, const void *bytes, size_t nbytes);

#endif
