/* containers_fields.c - turns the members of each sample into values of fields.
 *
 * In: samples of a walk, on one thread. Out: fields, as their first members appear, and one value
 * for each member.
 *
 * Each suffix gets a number when it first appears, and a decision: its members are left out, or
 * refused, or become values of a field. An array field has the shape of its first value. When a
 * later value has another shape, the field is declared again with "any shape". */
#include "containers/containers_fields.h"

#include "containers/containers_names.h"
#include "containers/containers_npy.h"
#include "containers/containers_rules.h"
#include "containers/containers_user_rules.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
enum { NONE = UINT8_MAX, INT_NBYTES_MAX = 64 };

/* What becomes of the members with one suffix: values of one field, or nothing. */
struct psti_suffix_use {
    uint32_t i_rule; /* 1 + the index of the user's rule for this suffix; 0: no rule */
    uint8_t type;    /* enum pst_field_type */
    uint8_t i_field; /* index in `fields`, or NONE */
    bool is_left_out, is_code;
};

struct psti_field_use {
    struct pst_field field;
    uint32_t i_sink;   /* number that the sink gave to this field */
    uint32_t suffix;   /* number of the suffix for which the field was added */
    bool is_made_up;   /* the name was made from a suffix that is no legal name, and no rule states
                        * it */
    uint64_t n_sample; /* number, counted from 1, of the last sample that has a value of this
                        * field */
    uint32_t by;       /* number of the suffix that gave the value of sample n_sample */
};

struct psti_containers_fields {
    const struct psti_field_rule *rules;
    uint32_t n_rules, n_fields;
    struct psti_field_sink sink;
    struct psti_walk_names suffixes;
    struct psti_suffix_use *uses; /* [n_uses], indexed by the number of a suffix */
    size_t n_uses, uses_capacity;
    struct psti_field_use fields[PST_MAX_FIELDS];
    uint64_t n_samples;
    struct pst_error failure; /* why a suffix was refused; its status is PST_OK while none was */
};

/* A member whose content becomes a value. */
struct psti_member_value {
    const char *key;
    const struct psti_part *part;
    struct psti_npy npy; /* header of the member, if it is an array */
    struct psti_container_value value;
};

enum pst_status psti_containers_fields_open(const struct psti_field_rule *rules, uint32_t n_rules,
                                            const struct psti_field_sink *sink,
                                            struct psti_containers_fields **out,
                                            struct pst_error *err)
{
    *out = NULL;
    enum pst_status status =
        psti_containers_user_rules_check(rules, n_rules, PSTI_RULE_SUFFIXES, err);
    if (status != PST_OK)
        return status;
    *out = psti_calloc(1, sizeof **out);
    if (*out == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for fields");
    (*out)->rules = rules;
    (*out)->n_rules = n_rules;
    (*out)->sink = *sink;
    return PST_OK;
}

void psti_containers_fields_close(struct psti_containers_fields **fields)
{
    if (*fields == NULL)
        return;
    psti_containers_names_free(&(*fields)->suffixes);
    psti_free((*fields)->uses);
    psti_free(*fields);
    *fields = NULL;
}

/* Decides by rules and suffix what becomes of the members with a suffix. */
static struct psti_suffix_use decide(const struct psti_containers_fields *fields,
                                     const char *suffix)
{
    struct psti_suffix_rule rule;
    psti_containers_rule(suffix, &rule);
    struct psti_suffix_use use = {
        .type = (uint8_t)rule.type, .i_field = NONE, .is_code = rule.is_code};
    int64_t i =
        psti_containers_user_rules_find(fields->rules, fields->n_rules, PSTI_RULE_SUFFIXES, suffix);
    if (i < 0)
        return use;
    const struct psti_field_rule *user = &fields->rules[i];
    use.i_rule = (uint32_t)i + 1;
    use.is_left_out = user->is_left_out;
    if (user->type != 0) {
        use.type = (uint8_t)user->type;
        use.is_code = false;
    }
    return use;
}

/* Makes room in `uses` for one more suffix. */
static enum pst_status grow_uses(struct psti_containers_fields *fields, struct pst_error *err)
{
    if (fields->n_uses < fields->uses_capacity)
        return PST_OK;
    size_t capacity = 2 * fields->uses_capacity + 16;
    struct psti_suffix_use *uses = psti_realloc(fields->uses, capacity * sizeof *uses);
    if (uses == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for suffixes");
    fields->uses = uses;
    fields->uses_capacity = capacity;
    return PST_OK;
}

/* Finds the number of a suffix. If it is new, decides what becomes of its members. After the first
 * failure, each later call fails with the same error. */
static enum pst_status find_use(struct psti_containers_fields *fields, const char *suffix,
                                uint32_t *number, struct pst_error *err)
{
    bool is_new = false;
    enum pst_status status = fields->failure.status;
    if (status == PST_OK)
        status = grow_uses(fields, &fields->failure);
    if (status == PST_OK)
        status = psti_containers_names_add(&fields->suffixes, suffix, strlen(suffix), number,
                                           &is_new, &fields->failure);
    if (status == PST_OK && is_new)
        fields->uses[fields->n_uses++] = decide(fields, suffix);
    if (status != PST_OK && err != NULL)
        *err = fields->failure;
    return status;
}

static uint32_t head_nbytes(const struct psti_suffix_use *use, uint64_t decoded_nbytes)
{
    uint64_t n = 0;
    if (use->is_left_out || use->is_code)
        return 0;
    if (use->type == PST_FIELD_INT)
        n = INT_NBYTES_MAX;
    else if (use->type == PST_FIELD_ARRAY)
        n = PSTI_NPY_HEAD_NBYTES;
    else if (use->type == PST_FIELD_TEXT || use->type == PST_FIELD_JSON)
        n = decoded_nbytes <= PSTI_TEXT_IN_INDEX_NBYTES ? decoded_nbytes : 0;
    return (uint32_t)(n < decoded_nbytes ? n : decoded_nbytes);
}

static uint32_t wants(void *context, const char *suffix, uint64_t decoded_nbytes)
{
    struct psti_containers_fields *fields = context;
    uint32_t number = 0;
    /* A failure here is stored, and take() reports it for the same sample. */
    if (find_use(fields, suffix, &number, NULL) != PST_OK)
        return 0;
    return head_nbytes(&fields->uses[number], decoded_nbytes);
}

/* Fills in an error that names a member, its sample and its offset. */
static enum pst_status bad_member(const struct psti_member_value *member, enum pst_status status,
                                  const char *what, struct pst_error *err)
{
    return psti_fail_at(err, status, ROOM, NULL, (int64_t)member->part->header, "'%.150s.%.60s' %s",
                        member->key, member->part->suffix, what);
}

/* Parses a decimal integer with an optional sign and white space on both sides. */
static bool read_int(const uint8_t *text, uint32_t n, int64_t *out)
{
    const uint8_t *end = text + n;
    uint64_t value = 0;
    while (text < end && (*text == ' ' || (*text >= '\t' && *text <= '\r')))
        text++;
    bool is_negative = text < end && *text == '-';
    text += text < end && (*text == '-' || *text == '+');
    const uint8_t *first = text;
    uint64_t limit = (uint64_t)INT64_MAX + is_negative;
    for (; text < end && *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (text == first)
        return false;
    while (text < end && (*text == ' ' || (*text >= '\t' && *text <= '\r')))
        text++;
    *out = (int64_t)(is_negative ? -value : value);
    return text == end;
}

static enum pst_status take_int(struct psti_member_value *member, int64_t n_classes,
                                struct pst_error *err)
{
    const struct psti_part *part = member->part;
    int64_t *value = &member->value.int_value;
    if (part->decoded_nbytes > INT_NBYTES_MAX || part->n_head < part->decoded_nbytes ||
        !read_int(part->head, part->n_head, value))
        return bad_member(member, PST_ERROR_CORRUPT, "is no whole number of 64 bits", err);
    if (n_classes > 0 && (*value < 0 || *value >= n_classes))
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)part->header,
                            "'%.150s.%.60s' is %" PRId64
                            ", and there are the classes 0 to %" PRId64,
                            member->key, part->suffix, *value, n_classes - 1);
    return PST_OK;
}

static enum pst_status take_array(struct psti_member_value *member, struct pst_error *err)
{
    const struct psti_part *part = member->part;
    const char *problem = NULL;
    if (part->coding != PSTI_CODING_STORED)
        return bad_member(
            member, PST_ERROR_UNSUPPORTED,
            "is a compressed array; store it without compression, or give it as bytes", err);
    enum pst_status status = psti_containers_npy_parse(
        part->head, part->n_head, part->decoded_nbytes, &member->npy, &problem);
    if (status != PST_OK)
        return bad_member(member, status, problem, err);
    struct psti_container_value *value = &member->value;
    value->offset = part->offset + member->npy.offset;
    value->nbytes = value->decoded_nbytes = part->nbytes - member->npy.offset;
    value->ndim = member->npy.ndim;
    memcpy(value->shape, member->npy.shape, sizeof value->shape);
    return PST_OK;
}

/* Makes the value of a member, except the number of its field. */
static enum pst_status take_value(struct psti_member_value *member, enum pst_field_type type,
                                  int64_t n_classes, struct pst_error *err)
{
    const struct psti_part *part = member->part;
    uint8_t facts[20];
    psti_store_u64(facts, part->decoded_nbytes);
    psti_store_u64(facts + 8, (uint64_t)part->mtime);
    psti_store_u32(facts + 16, part->check);
    member->value = (struct psti_container_value){
        .offset = part->offset,
        .nbytes = part->nbytes,
        .decoded_nbytes = part->decoded_nbytes,
        .coding = part->coding,
        .facts = psti_hash64(facts, sizeof facts),
        .has_crc32 = part->has_crc32 && type != PST_FIELD_ARRAY, /* an array's header is left out,
                                                                  * so the CRC-32 of the whole
                                                                  * member does not fit */
        .crc32 = part->check,
    };
    if (type == PST_FIELD_INT)
        return take_int(member, n_classes, err);
    if (type == PST_FIELD_ARRAY)
        return take_array(member, err);
    bool is_text = type == PST_FIELD_TEXT || type == PST_FIELD_JSON;
    if (is_text && part->decoded_nbytes <= PSTI_TEXT_IN_INDEX_NBYTES) {
        member->value.bytes = part->n_head > 0 ? (const void *)part->head : "";
        member->value.nbytes = part->n_head;
        member->value.coding = PSTI_CODING_STORED;
    }
    return PST_OK;
}

/* Adds a field for a suffix. `member` is the first one with that suffix, and gives the shape. */
static enum pst_status add_field(struct psti_containers_fields *fields, uint32_t suffix,
                                 const struct psti_member_value *member, const char *name,
                                 bool is_made_up, int64_t n_classes, struct pst_error *err)
{
    if (fields->n_fields == PST_MAX_FIELDS)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, NULL, (int64_t)member->part->header,
                            "'%.60s' would be field %d, and %d are the most: leave suffixes out, "
                            "as in fields={\"%.60s\": None}",
                            member->part->suffix, PST_MAX_FIELDS + 1, PST_MAX_FIELDS,
                            member->part->suffix);
    struct psti_field_use *use = &fields->fields[fields->n_fields];
    *use = (struct psti_field_use){.suffix = suffix, .is_made_up = is_made_up};
    memcpy(use->field.name, name, strlen(name) + 1);
    use->field.type = (enum pst_field_type)fields->uses[suffix].type;
    use->field.n_variants = 1;
    use->field.n_classes = n_classes;
    if (use->field.type == PST_FIELD_ARRAY) {
        use->field.dtype = member->npy.dtype;
        use->field.ndim = member->npy.ndim;
        memcpy(use->field.shape, member->npy.shape, sizeof use->field.shape);
    }
    enum pst_status status =
        fields->sink.field(fields->sink.writer, &use->field, &use->i_sink, err);
    if (status == PST_OK)
        fields->uses[suffix].i_field = (uint8_t)fields->n_fields++;
    return status;
}

/* Assigns a field to a new suffix: the existing field of the same name, or else a new field. */
static enum pst_status settle(struct psti_containers_fields *fields, uint32_t suffix,
                              const struct psti_member_value *member, int64_t n_classes,
                              struct pst_error *err)
{
    const struct psti_suffix_use *use = &fields->uses[suffix];
    const struct psti_field_rule *user = use->i_rule > 0 ? &fields->rules[use->i_rule - 1] : NULL;
    struct psti_suffix_rule rule;
    psti_containers_rule(member->part->suffix, &rule);
    bool is_named = user != NULL && user->field != NULL, is_made_up = rule.is_changed && !is_named;
    const char *name = is_named ? user->field : rule.name;
    for (uint32_t i = 0; i < fields->n_fields; i++) {
        const struct psti_field_use *other = &fields->fields[i];
        if (strcmp(other->field.name, name) != 0)
            continue;
        if ((uint32_t)other->field.type != use->type || other->field.n_classes != n_classes ||
            is_made_up || other->is_made_up)
            return psti_fail_at(
                err, PST_ERROR_ARGUMENT, ROOM, NULL, (int64_t)member->part->header,
                "'%.60s' and '%.60s' both make the field \"%s\", and are not the same: name one, "
                "as in fields={\"%.60s\": \"other\"}, or leave it out by None",
                psti_containers_names_text(&fields->suffixes, other->suffix), member->part->suffix,
                name, member->part->suffix);
        fields->uses[suffix].i_field = (uint8_t)i;
        return PST_OK;
    }
    return add_field(fields, suffix, member, name, is_made_up, n_classes, err);
}

/* Compares the shape of an array with that of its field. If they differ, declares the field as one
 * of any shape. */
static enum pst_status check_array(struct psti_containers_fields *fields,
                                   struct psti_field_use *use,
                                   const struct psti_member_value *member, struct pst_error *err)
{
    const struct psti_npy *npy = &member->npy;
    if (npy->dtype != use->field.dtype)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)member->part->header,
                            "'%.150s.%.60s' has elements of the type %s, and those of samples "
                            "before it have %s",
                            member->key, member->part->suffix, pst_dtype_name(npy->dtype),
                            pst_dtype_name(use->field.dtype));
    bool is_same = npy->ndim == use->field.ndim;
    for (int i = 0; is_same && i < npy->ndim; i++)
        is_same = npy->shape[i] == use->field.shape[i];
    if (!is_same && use->field.ndim > 0) {
        use->field.ndim = 0;
        memset(use->field.shape, 0, sizeof use->field.shape);
        fields->sink.restate(fields->sink.writer, use->i_sink, &use->field);
    }
    return PST_OK;
}

/* Makes the value of one member. *has: false if the member is left out. */
static enum pst_status take_part(struct psti_containers_fields *fields,
                                 struct psti_member_value *member, bool *has, struct pst_error *err)
{
    uint32_t suffix = 0;
    *has = false;
    enum pst_status status = find_use(fields, member->part->suffix, &suffix, err);
    if (status != PST_OK || fields->uses[suffix].is_left_out)
        return status;
    const struct psti_suffix_use *use = &fields->uses[suffix];
    if (use->is_code)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, NULL, (int64_t)member->part->header,
                            "'%.150s.%.60s' is code of Python, which is not run: take it as it is "
                            "by fields={\"%.60s\": (\"%.60s\", \"bytes\")}, or leave it out by "
                            "None",
                            member->key, member->part->suffix, member->part->suffix,
                            member->part->suffix);
    enum pst_field_type type = (enum pst_field_type)use->type;
    int64_t n_classes =
        use->i_rule > 0 && type == PST_FIELD_INT ? fields->rules[use->i_rule - 1].n_classes : 0;
    status = take_value(member, type, n_classes, err);
    if (status == PST_OK && use->i_field == NONE)
        status = settle(fields, suffix, member, n_classes, err);
    if (status != PST_OK)
        return status;
    struct psti_field_use *field = &fields->fields[fields->uses[suffix].i_field];
    if (field->n_sample == fields->n_samples)
        return psti_fail_at(
            err, PST_ERROR_ARGUMENT, ROOM, NULL, (int64_t)member->part->header,
            "the sample '%.100s' has '%.60s' and '%.60s', which both make the field "
            "\"%s\": name one, as in fields={\"%.60s\": \"other\"}, or leave it out "
            "by None",
            member->key, psti_containers_names_text(&fields->suffixes, field->by),
            member->part->suffix, field->field.name, member->part->suffix);
    field->n_sample = fields->n_samples;
    field->by = suffix;
    member->value.i_field = field->i_sink;
    *has = true;
    return type == PST_FIELD_ARRAY ? check_array(fields, field, member, err) : PST_OK;
}

static enum pst_status take(void *context, const struct psti_sample *sample, struct pst_error *err)
{
    struct psti_containers_fields *fields = context;
    struct psti_container_value values[PST_MAX_FIELDS];
    uint32_t n = 0;
    fields->n_samples++;
    for (uint32_t i = 0; i < sample->n_parts; i++) {
        struct psti_member_value member = {.key = sample->key, .part = &sample->parts[i]};
        bool has = false;
        enum pst_status status = take_part(fields, &member, &has, err);
        if (status != PST_OK)
            return status;
        if (has)
            values[n++] = member.value; /* each field comes at most once in a sample, so `values` is
                                         * long enough */
    }
    if (n == 0)
        return PST_OK;
    return fields->sink.sample(fields->sink.writer, sample->key, values, n, err);
}

struct psti_sample_taker psti_containers_fields_taker(struct psti_containers_fields *fields)
{
    return (struct psti_sample_taker){.wants = wants, .take = take, .context = fields};
}

enum pst_status psti_containers_fields_finish(const struct psti_containers_fields *fields,
                                              struct pst_error *err)
{
    for (uint32_t i = 0; i < fields->n_rules; i++) {
        bool is_used = fields->rules[i].is_left_out;
        for (size_t k = 0; !is_used && k < fields->n_uses; k++)
            is_used = fields->uses[k].i_rule == i + 1;
        if (!is_used)
            return psti_containers_user_rules_unused(&fields->rules[i], PSTI_RULE_SUFFIXES,
                                                     &fields->suffixes, err);
    }
    return PST_OK;
}
