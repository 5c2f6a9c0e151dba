/* kernels_make.h - images, chains and the CPU's rows for tests of whole batches. */
#ifndef PST_TEST_KERNELS_MAKE_H
#define PST_TEST_KERNELS_MAKE_H

#include "base/test_input.h"

#include "augment/augment.h"
#include "decode/decode.h"

/* A stored image. `bytes` is malloc'd to its exact length, so that ASan detects reads after it. */
struct source {
    enum pst_form form;
    uint8_t *bytes;
    size_t nbytes;
    struct pst_image_info raw; /* form raw: info from the index */
};
void source_free(struct source *source);

enum source_kind { SOURCE_PLI, SOURCE_PLI_JPEG, SOURCE_RAW, SOURCE_JPEG, SOURCE_KINDS };
/* Up to `most` pixels on a side. masks: one channel, labels. */
struct source source_make(struct test_random *random, enum source_kind kind, uint32_t most,
                          bool is_mask);
/* Reads a golden file of a folder, named as in "pli/dense-rgb8.pli". */
struct source source_read(const char *folder, const char *name);
/* A copy with a few bytes changed, or cut short. */
struct source source_damage(struct test_random *random, const struct source *source);

/* A field as a loader would plan it: height x width pixels for any image. */
struct field {
    struct psti_chain *chain;
    struct pst_decode_options decode;
    struct psti_chain_output output; /* dtype filled in */
    uint32_t height, width;
};
/* Makes a random field. masks: nearest, no colours. */
void field_make(struct test_random *random, bool is_mask, struct field *field);
/* Makes a field without resize and steps, whose finished rows decoders write themselves. */
void field_make_plain(struct test_random *random, bool is_mask, struct field *field);
void field_free(struct field *field);

/* Probes the source for the field. The status is a loader's: the source may be bad, or have other
 * channels than the field. */
enum pst_status source_probe(const struct source *source, const struct field *field,
                             struct pst_image_info *info, struct pst_error *err);
/* The finished row as the CPU makes it, `row` of the field's size. */
enum pst_status cpu_row(const struct source *source, const struct field *field,
                        const struct pst_image_info *info, const struct psti_draw *draw, void *row,
                        struct pst_error *err);

#endif
