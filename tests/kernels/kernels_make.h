/* kernels_make.h - makes images, chains and the CPU's rows for tests of whole batches. */
#ifndef PST_TEST_KERNELS_MAKE_H
#define PST_TEST_KERNELS_MAKE_H

#include "base/test_input.h"

#include "augment/augment.h"
#include "decode/decode.h"

/* A stored image. `bytes` is malloc'd with its exact length, so that AddressSanitizer detects reads
 * after it. */
struct source {
    enum pst_form form;
    uint8_t *bytes;
    size_t nbytes;
    struct pst_image_info raw; /* for form raw: info from the index */
};
void source_free(struct source *source);

enum source_kind { SOURCE_PLI, SOURCE_PLI_JPEG, SOURCE_RAW, SOURCE_JPEG, SOURCE_KINDS };
/* Makes an image of up to `most` pixels on a side. For masks: one channel of labels. */
struct source source_make(struct test_random *random, enum source_kind kind, uint32_t most,
                          bool is_mask);
/* Reads a golden file, given as a path like "pli/dense-rgb8.pli" below the folder. */
struct source source_read(const char *folder, const char *name);
/* Returns a copy with a few bytes changed, or truncated. */
struct source source_damage(struct test_random *random, const struct source *source);

/* A field as a loader plans it: rows of height x width pixels from any image. */
struct field {
    struct psti_chain *chain;
    struct pst_decode_options decode;
    struct psti_chain_output output; /* output of the chain, with the dtype filled in */
    uint32_t height, width;
};
/* Makes a random field. For masks: nearest interpolation, no colour operations. */
void field_make(struct test_random *random, bool is_mask, struct field *field);
/* Makes a field without resize and other steps, whose finished rows the decoders write
 * themselves. */
void field_make_plain(struct test_random *random, bool is_mask, struct field *field);
/* Makes a field of three channels of 8 bits with some of the operations that need the most passes
 * and scratch, before or after its crop. */
void field_make_heavy(struct test_random *random, struct field *field);
void field_free(struct field *field);

/* Probes the source for the field. Returns the status that a loader would get: the source may be
 * corrupt, or have other channels than the field. */
enum pst_status source_probe(const struct source *source, const struct field *field,
                             struct pst_image_info *info, struct pst_error *err);
/* Computes the finished row on the CPU. `row` has the field's size. */
enum pst_status cpu_row(const struct source *source, const struct field *field,
                        const struct pst_image_info *info, const struct psti_draw *draw, void *row,
                        struct pst_error *err);

#endif
