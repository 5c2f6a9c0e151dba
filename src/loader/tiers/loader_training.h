/* loader_training.h - for caches that keep images at the training size; also used outside of the
 * loader.
 *
 * The operations at the beginning of a chain that are the same for every sample (Resize,
 * CenterCrop, Letterbox and Pad) make a picture that depends on the image alone. Its pixels have 8
 * or 16 bits, like all pixels between the steps of a chain. So a cache may keep that picture, and
 * after a hit the chain continues after these operations, with the same random numbers and the same
 * bits as result.
 *
 * A rule lists these operations for the fields of a data set. All workers that fill the cache's set
 * follow it: those of a loader, and those of the host service, which gets the rule as bytes. What
 * is kept of an item depends only on its bytes, the rule and the limit of memory. A rule is
 * constant; any thread may use it. */
#ifndef PST_LOADER_LOADER_TRAINING_H
#define PST_LOADER_LOADER_TRAINING_H

#include "augment/augment.h"
#include "base/buffer.h"
#include "decode/decode_recode.h"

#include <penstock/loader.h>

/* Version of the rule, which is part of the set's key. Increase it when decoded or resized pixels
 * change. */
#define PSTI_TRAINING_VERSION 1
#define PSTI_TRAINING_RULE_MAX 4096 /* largest number of bytes of a rule */
/* Bit in an item's form: a header and a picture at the training size are kept. */
#define PSTI_TRAINING_FORM 0x40
/* Bit in the key of a cache's set: its pictures have the training size. */
#define PSTI_TRAINING_KEY ((uint64_t)1 << 63)

struct psti_training_field {
    uint32_t i_field;
    /* The decoder's output, as in pst_decode_options. 0: the image's own channels or bits. */
    uint8_t channels, bits;
    bool ignore_orientation;
    bool is_mask;
    bool widens;   /* true if `fill` is a value of 0..255 even for pixels of 16 bits */
    bool may_turn; /* a mask that may have to be rotated with its image, which the host service
                      does not know */
    uint64_t max_pixels;
    uint32_t n_ops;
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    struct psti_chain *sizes; /* compiled operations, which compute the picture's size; set when a
                                 rule is made */
};

struct psti_training {
    uint64_t key;    /* key of the cache's set */
    uint64_t recode; /* psti_recode_key of the images that are kept whole */
    enum pst_cache_form form;
    uint32_t n_fields;
    struct psti_training_field *fields; /* [n_fields] */
};

/* Returns how many operations at the start of a chain can be applied before keeping a picture. 0:
 * none of them makes an image smaller. *i_op: then the operation that prevents it, or n_ops if
 * there is none. */
size_t psti_loader_training_prefix(const struct pst_op *ops, size_t n_ops, size_t *i_op);

/* Compiles field->sizes, which the rule frees. psti_loader_training_open and _parse call it. */
enum pst_status psti_loader_training_compile(struct psti_training_field *field,
                                             struct pst_error *err);
/* Makes a rule from fields, which are copied. PST_ERROR_UNSUPPORTED: it has too many operations. */
enum pst_status psti_loader_training_open(enum pst_cache_form form, uint64_t recode,
                                          const struct psti_training_field *fields,
                                          uint32_t n_fields, struct psti_training **out,
                                          struct pst_error *err);
void psti_loader_training_close(struct psti_training **rule); /* *rule may be NULL */
/* Writes the rule as bytes. Returns their number. */
size_t psti_loader_training_print(const struct psti_training *rule,
                                  uint8_t out[PSTI_TRAINING_RULE_MAX]);
/* Reads a rule from bytes. key: key of the rule's set. PST_ERROR_CORRUPT: the bytes are no rule, or
 * not the key's. */
enum pst_status psti_loader_training_parse(const uint8_t *bytes, size_t nbytes, uint64_t key,
                                           struct psti_training **out, struct pst_error *err);
/* Returns the rule's entry for a field; NULL: the field's images are kept whole. */
const struct psti_training_field *psti_loader_training_field_of(const struct psti_training *rule,
                                                                uint32_t i_field);

/* Tools of the caller: for re-coding, and a function that returns a run. Each call of
 * recode.decoder may replace that run. run may be NULL: then a run is opened for the item. */
struct psti_training_tools {
    struct psti_recode_tools recode;
    struct psti_run *(*run)(void *ctx);
    bool is_turned; /* the image is a mask that its row rotates */
};

/* Applies as many of the field's operations to the image as give the fewest pixels, and writes
 * header and picture to `out`, as psti_decode_recode does. recoded->form is RAW or PLI, by `form`.
 * NOT_FOR: the image itself has the fewest pixels, or it is a mask that is rotated. */
enum psti_recode_result psti_loader_training_make(const struct psti_training_tools *tools,
                                                  const struct psti_training_field *field,
                                                  enum pst_cache_form form,
                                                  const struct psti_recode_source *source,
                                                  struct psti_buffer *out,
                                                  struct psti_recoded *recoded);

/* Encodes a picture in form RAW, with its header, as the PLI that `form` asks for. The picture's
 * bytes count in tools->nbytes_max. */
enum pst_status psti_loader_training_encode(const struct psti_recode_tools *tools,
                                            enum pst_cache_form form, void *picture,
                                            struct psti_buffer *out, struct psti_recoded *recoded);

/* Returns the bytes of a picture in form RAW, including its header. */
uint64_t psti_loader_training_nbytes(const void *picture);

/* The header of a kept picture. */
struct psti_training_picture {
    uint32_t n_ops; /* number of operations that were applied; 0: this is no kept picture */
    uint32_t height, width;
    uint8_t channels, bits;
    /* Properties of the whole image, as probing with the field's options gives them: */
    uint32_t whole_height, whole_width;
    uint8_t orientation;
};
/* Reads the header of a kept item. *pixels and *pixels_nbytes: the bytes after it, in form `form`.
 * False: psti_loader_training_make cannot have made this item for the field. */
bool psti_loader_training_take(const struct psti_training_field *field, enum pst_form form,
                               const void *bytes, uint64_t nbytes,
                               struct psti_training_picture *picture, const void **pixels,
                               uint64_t *pixels_nbytes);

#endif
