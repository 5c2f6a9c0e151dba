/* loader_training.h - the door for caches that keep images at the training size.
 *
 * The operations at the beginning of a chain that are the same for every sample (Resize,
 * CenterCrop, Letterbox and Pad) make a picture that is a function of the image alone. Its pixels
 * have 8 or 16 bits, as the steps of a chain always hand them on, so a cache may keep that picture,
 * and a hit goes on behind these operations: with the same random numbers, and to the same bits.
 *
 * A rule says this of the fields of a data set. Whoever fills the set follows it: workers of a
 * loader, and those of the host service, to which the rule comes as bytes. What an item becomes
 * depends on its bytes, the rule and the limit of memory alone. A rule is constant; any thread. */
#ifndef PST_LOADER_LOADER_TRAINING_H
#define PST_LOADER_LOADER_TRAINING_H

#include "augment/augment.h"
#include "base/buffer.h"
#include "decode/decode_recode.h"

#include <penstock/loader.h>

/* Part of the rule, and so of the set's key. It rises when decoded or resized pixels change. */
#define PSTI_TRAINING_VERSION 1
#define PSTI_TRAINING_RULE_MAX 4096 /* bytes of a rule */
/* This bit of an item's form says that a head and a picture at the training size are kept. */
#define PSTI_TRAINING_FORM 0x40
/* This bit of the key of a cache's set says that its pictures have the training size. */
#define PSTI_TRAINING_KEY ((uint64_t)1 << 63)

struct psti_training_field {
    uint32_t i_field;
    /* The decoder's output, as in pst_decode_options. 0: as each image has it. */
    uint8_t channels, bits;
    bool ignore_orientation;
    bool is_mask;
    bool widens;   /* `fill` counts 0..255, also where the pixels have 16 bits */
    bool may_turn; /* a mask that may be turned with its image, which the service does not see */
    uint64_t max_pixels;
    uint32_t n_ops;
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    struct psti_chain *sizes; /* of a rule: the operations, for the sizes of pictures */
};

struct psti_training {
    uint64_t key;    /* of the set */
    uint64_t recode; /* psti_recode_key for images that are kept whole */
    enum pst_cache_form form;
    uint32_t n_fields;
    struct psti_training_field *fields; /* [n_fields] */
};

/* Finds the beginning of a chain that can be kept. Returns 0 if no operation of it can make an
 * image smaller; *i_op is the operation that is in the way then, or n_ops: there is none. */
size_t psti_loader_training_prefix(const struct pst_op *ops, size_t n_ops, size_t *i_op);

/* Compiles field->sizes, which the rule frees. Both functions below call it. */
enum pst_status psti_loader_training_compile(struct psti_training_field *field,
                                             struct pst_error *err);
/* Makes a rule of fields, which are copied. PST_ERROR_UNSUPPORTED: it has too many operations. */
enum pst_status psti_loader_training_open(enum pst_cache_form form, uint64_t recode,
                                          const struct psti_training_field *fields,
                                          uint32_t n_fields, struct psti_training **out,
                                          struct pst_error *err);
void psti_loader_training_close(struct psti_training **rule); /* *rule may be NULL */
/* Prints the rule. Returns how many bytes it has. */
size_t psti_loader_training_print(const struct psti_training *rule,
                                  uint8_t out[PSTI_TRAINING_RULE_MAX]);
/* Reads a printed rule, whose set has that key. PST_ERROR_CORRUPT: it is none. */
enum pst_status psti_loader_training_parse(const uint8_t *bytes, size_t nbytes, uint64_t key,
                                           struct psti_training **out, struct pst_error *err);
/* NULL: images of that field are kept whole. */
const struct psti_training_field *psti_loader_training_field_of(const struct psti_training *rule,
                                                                uint32_t i_field);

/* What the caller brings: tools to re-code by, and a run of theirs, which may be another one after
 * each call of recode.decoder. run may be NULL: one is opened for the item. */
struct psti_training_tools {
    struct psti_recode_tools recode;
    struct psti_run *(*run)(void *ctx);
    bool is_turned; /* the image is a mask that its row turns */
};

/* Makes the picture with the fewest pixels that some of the field's operations make of the image,
 * into `out`, as psti_decode_recode does. recoded->form is RAW or PLI, by `form`. NOT_FOR: the
 * image itself has the fewest, or it is a mask that is turned. */
enum psti_recode_result psti_loader_training_make(const struct psti_training_tools *tools,
                                                  const struct psti_training_field *field,
                                                  enum pst_cache_form form,
                                                  const struct psti_recode_source *source,
                                                  struct psti_buffer *out,
                                                  struct psti_recoded *recoded);

/* Encodes a picture that was made in form RAW, with its head, as the PLI that `form` asks for. The
 * picture counts in tools->nbytes_max. */
enum pst_status psti_loader_training_encode(const struct psti_recode_tools *tools,
                                            enum pst_cache_form form, void *picture,
                                            struct psti_buffer *out, struct psti_recoded *recoded);

/* Bytes of a picture in form RAW, with its head. */
uint64_t psti_loader_training_nbytes(const void *picture);

/* What the head of a kept picture says. */
struct psti_training_picture {
    uint32_t n_ops; /* operations that were applied; 0: none, this is no kept picture */
    uint32_t height, width;
    uint8_t channels, bits;
    /* Of the whole image, as a probe with the field's options tells it: */
    uint32_t whole_height, whole_width;
    uint8_t orientation;
};
/* Reads the head of an item. *pixels and *nbytes: what follows it, in form `form`. False: it cannot
 * be an item that psti_loader_training_make made for the field. */
bool psti_loader_training_take(const struct psti_training_field *field, enum pst_form form,
                               const void *bytes, uint64_t nbytes,
                               struct psti_training_picture *picture, const void **pixels,
                               uint64_t *pixels_nbytes);

#endif
