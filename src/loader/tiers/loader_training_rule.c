/* loader_training_rule.c - rules for pictures at the training size: makes them, writes them as
 * bytes, and reads them.
 *
 * The bytes contain everything that affects the pictures. Their hash is the key of the cache's set,
 * so sets of different rules never mix, and the host service can check that the bytes it gets
 * belong to the key. The functions have no state besides the memory of a rule; any thread. */
#include "loader/tiers/loader_training.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "cache/cache.h"

#include <math.h>
#include <string.h>

enum {
    HEAD_NBYTES = 20,  /* version u32, form u32, recode u64, n_fields u32 */
    FIELD_NBYTES = 20, /* i_field u32, n_ops u32, channels, bits, flags, 0, max_pixels u64 */
    OP_NBYTES = 44,    /* kind, interpolation, flags, pad_mode; height, width; pad; fill */
    FORM_BITS = 56     /* number of bits in a key below the bits of the form, as in
                        * psti_recode_key */
};
#define HASH_MASK (((uint64_t)1 << FORM_BITS) - 1)
enum { IGNORES = 1, IS_MASK = 2, WIDENS = 4, MAY_TURN = 8, FLAGS = 15 };
enum { NO_ANTIALIAS = 1, NO_SCALE_UP = 2, OP_FLAGS = 3 };

static size_t nbytes_of(const struct psti_training *rule)
{
    size_t n = HEAD_NBYTES;
    for (uint32_t i = 0; i < rule->n_fields; i++)
        n += FIELD_NBYTES + (size_t)rule->fields[i].n_ops * OP_NBYTES;
    return n;
}

static uint8_t *print_op(uint8_t *at, const struct pst_op *op)
{
    at[0] = (uint8_t)op->kind;
    at[1] = (uint8_t)op->interpolation;
    at[2] = (uint8_t)((op->no_antialias ? NO_ANTIALIAS : 0) | (op->no_scale_up ? NO_SCALE_UP : 0));
    at[3] = (uint8_t)op->pad_mode;
    psti_store_u32(at + 4, op->height);
    psti_store_u32(at + 8, op->width);
    for (int i = 0; i < 4; i++) {
        uint32_t fill;
        memcpy(&fill, &op->fill[i], sizeof fill);
        psti_store_u32(at + 12 + 4 * i, op->pad[i]);
        psti_store_u32(at + 28 + 4 * i, fill);
    }
    return at + OP_NBYTES;
}

size_t psti_loader_training_print(const struct psti_training *rule,
                                  uint8_t out[PSTI_TRAINING_RULE_MAX])
{
    uint8_t *at = out + HEAD_NBYTES;
    psti_store_u32(out, PSTI_TRAINING_VERSION);
    psti_store_u32(out + 4, (uint32_t)rule->form);
    psti_store_u64(out + 8, rule->recode);
    psti_store_u32(out + 16, rule->n_fields);
    for (uint32_t i = 0; i < rule->n_fields; i++) {
        const struct psti_training_field *field = &rule->fields[i];
        psti_store_u32(at, field->i_field);
        psti_store_u32(at + 4, field->n_ops);
        at[8] = field->channels;
        at[9] = field->bits;
        at[10] =
            (uint8_t)((field->ignore_orientation ? IGNORES : 0) | (field->is_mask ? IS_MASK : 0) |
                      (field->widens ? WIDENS : 0) | (field->may_turn ? MAY_TURN : 0));
        at[11] = 0;
        psti_store_u64(at + 12, field->max_pixels);
        at += FIELD_NBYTES;
        for (uint32_t k = 0; k < field->n_ops; k++)
            at = print_op(at, &field->ops[k]);
    }
    return (size_t)(at - out);
}

static uint64_t key_of(enum pst_cache_form form, const uint8_t *bytes, size_t nbytes)
{
    uint64_t hash = psti_hash64(bytes, nbytes) & HASH_MASK;
    return PSTI_TRAINING_KEY | (uint64_t)form << FORM_BITS | hash;
}

enum pst_status psti_loader_training_open(enum pst_cache_form form, uint64_t recode,
                                          const struct psti_training_field *fields,
                                          uint32_t n_fields, struct psti_training **out,
                                          struct pst_error *err)
{
    uint8_t bytes[PSTI_TRAINING_RULE_MAX];
    struct psti_training *rule = *out = psti_calloc(1, sizeof *rule);
    if (rule)
        rule->fields = psti_calloc(n_fields + 1, sizeof *fields);
    if (!rule || !rule->fields) {
        psti_loader_training_close(out);
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a rule of the cache");
    }
    memcpy(rule->fields, fields, n_fields * sizeof *fields);
    rule->n_fields = n_fields;
    rule->form = form;
    rule->recode = recode;
    enum pst_status status = PST_OK;
    if (nbytes_of(rule) > sizeof bytes)
        status = psti_fail(err, PST_ERROR_UNSUPPORTED, "loader",
                           "cache_resolution TRAINING: the fields have too many operations");
    for (uint32_t i = 0; i < n_fields; i++)
        rule->fields[i].sizes = NULL;
    for (uint32_t i = 0; status == PST_OK && i < n_fields; i++)
        status = psti_loader_training_compile(&rule->fields[i], err);
    if (status == PST_OK)
        rule->key = key_of(form, bytes, psti_loader_training_print(rule, bytes));
    else
        psti_loader_training_close(out);
    return status;
}

void psti_loader_training_close(struct psti_training **rule)
{
    for (uint32_t i = 0; *rule && i < (*rule)->n_fields; i++)
        psti_augment_chain_free(&(*rule)->fields[i].sizes);
    if (*rule)
        psti_free((*rule)->fields);
    psti_free(*rule);
    *rule = NULL;
}

/* Reads an operation. Invalid ones are refused later, when a chain is compiled. */
static bool parse_op(const uint8_t *at, struct pst_op *op)
{
    pst_op_init(op, sizeof *op, (enum pst_op_kind)at[0]);
    op->interpolation = (enum pst_interpolation)at[1];
    op->no_antialias = at[2] & NO_ANTIALIAS;
    op->no_scale_up = at[2] & NO_SCALE_UP;
    op->pad_mode = (enum pst_pad_mode)at[3];
    op->height = psti_load_u32(at + 4);
    op->width = psti_load_u32(at + 8);
    for (int i = 0; i < 4; i++) {
        uint32_t fill = psti_load_u32(at + 28 + 4 * i);
        op->pad[i] = psti_load_u32(at + 12 + 4 * i);
        memcpy(&op->fill[i], &fill, sizeof fill);
    }
    return psti_augment_ops_fixed(op, 1) == 1 && at[2] <= OP_FLAGS;
}

/* Reads a field and its operations. Returns the byte after them, or NULL if they are invalid. */
static const uint8_t *parse_field(const uint8_t *at, const uint8_t *end,
                                  struct psti_training_field *field)
{
    if (end - at < FIELD_NBYTES)
        return NULL;
    *field = (struct psti_training_field){.i_field = psti_load_u32(at),
                                          .n_ops = psti_load_u32(at + 4),
                                          .channels = at[8],
                                          .bits = at[9],
                                          .ignore_orientation = at[10] & IGNORES,
                                          .is_mask = at[10] & IS_MASK,
                                          .widens = at[10] & WIDENS,
                                          .may_turn = at[10] & MAY_TURN,
                                          .max_pixels = psti_load_u64(at + 12)};
    bool good = field->n_ops >= 1 && field->n_ops <= PSTI_AUGMENT_MAX_OPS && at[10] <= FLAGS &&
                at[11] == 0 && field->i_field < PST_MAX_FIELDS;
    at += FIELD_NBYTES;
    if (!good || end - at < (ptrdiff_t)field->n_ops * OP_NBYTES)
        return NULL;
    for (uint32_t k = 0; k < field->n_ops; k++, at += OP_NBYTES)
        if (!parse_op(at, &field->ops[k]))
            return NULL;
    return at;
}

enum pst_status psti_loader_training_parse(const uint8_t *bytes, size_t nbytes, uint64_t key,
                                           struct psti_training **out, struct pst_error *err)
{
    const uint8_t *at = bytes + HEAD_NBYTES, *end = bytes + nbytes;
    uint32_t form = nbytes >= HEAD_NBYTES ? psti_load_u32(bytes + 4) : UINT32_MAX;
    uint32_t n = nbytes >= HEAD_NBYTES ? psti_load_u32(bytes + 16) : UINT32_MAX;
    *out = NULL;
    if (nbytes > PSTI_TRAINING_RULE_MAX || form > PST_CACHE_FORM_RAW || n > PST_MAX_FIELDS ||
        psti_load_u32(bytes) != PSTI_TRAINING_VERSION ||
        key_of((enum pst_cache_form)form, bytes, nbytes) != key)
        return psti_fail(err, PST_ERROR_CORRUPT, "loader", "this is no rule for such a set");
    struct psti_training *rule = psti_calloc(1, sizeof *rule);
    if (rule)
        rule->fields = psti_calloc(n + 1, sizeof *rule->fields);
    if (!rule || !rule->fields) {
        psti_loader_training_close(&rule);
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a rule of the cache");
    }
    rule->key = key;
    rule->form = (enum pst_cache_form)form;
    rule->recode = psti_load_u64(bytes + 8);
    for (; at && rule->n_fields < n; rule->n_fields++) {
        struct psti_training_field *field = &rule->fields[rule->n_fields];
        at = parse_field(at, end, field);
        if (at && psti_loader_training_compile(field, NULL) != PST_OK)
            at = NULL;
    }
    if (at != end) {
        psti_loader_training_close(&rule);
        return psti_fail(err, PST_ERROR_CORRUPT, "loader", "a rule of the cache is damaged");
    }
    *out = rule;
    return PST_OK;
}
