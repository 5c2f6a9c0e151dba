/* share_options.c - converts a loader's options to bytes, and back, by the tables of their members
 * (options/).
 *
 * A struct is written member by member, each with the size that its table states; the head of the
 * bytes has a digest of the tables. Parsing allocates one block of memory for all arrays and texts,
 * whose size is bounded by the number of bytes. */
#include "share/share_options.h"

#include "share/share_wire.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "options/options_members.h"

#include <stddef.h>
#include <string.h>

#define MAGIC 0x4f545350u    /* "PSTO" */
#define HEAD_NBYTES 16       /* magic, psti_options_digest, length of the first part */
#define NO_CHANGES_NBYTES 16 /* length of what put_changes writes at the end of the first part if
                                there are no changes */
#define ORDER (1u << PST_USE_ORDER)
#define ROWS (1u << PST_USE_ROWS)
#define READING (1u << PST_USE_READING)

typedef struct pst_field_output field_t;
typedef struct pst_op op_t;
typedef struct pst_audio_op audio_t;

/* True if `put` writes the member. Pointers and their counts are written by other functions. */
static bool is_carried(const struct pst_member *member, unsigned uses)
{
    return (uses & 1u << member->use) != 0 && member->kind != PST_MEMBER_POINTER &&
           member->kind != PST_MEMBER_COUNT;
}

/* Writes the members of an options struct that affect one of `uses`: bits 1 << PST_USE_... */
static void put(struct psti_wire_out *out, enum pst_struct which, const void *from, unsigned uses)
{
    size_t n;
    const struct pst_member *members = psti_options_members(which, &n);
    for (size_t i = 0; i < n; i++)
        if (is_carried(&members[i], uses))
            psti_share_put_bytes(out, (const char *)from + members[i].offset,
                                 (size_t)members[i].nbytes * members[i].count);
}

static void get(struct psti_wire_in *in, enum pst_struct which, void *to, unsigned uses)
{
    size_t n;
    const struct pst_member *members = psti_options_members(which, &n);
    for (size_t i = 0; i < n; i++) {
        char *at = (char *)to + members[i].offset;
        if (!is_carried(&members[i], uses))
            continue;
        if (members[i].kind == PST_MEMBER_BOOL) {
            uint8_t byte;
            psti_share_get_bytes(in, &byte, 1);
            in->bad |= byte > 1;
            *(bool *)(void *)at = byte == 1;
        } else {
            psti_share_get_bytes(in, at, (size_t)members[i].nbytes * members[i].count);
        }
    }
}

static size_t count_ops(const struct pst_loader_options *options)
{
    size_t n = 0;
    for (size_t i = 0; i < options->n_fields; i++)
        n += options->fields[i].n_ops;
    return n;
}

static size_t count_audio(const struct pst_loader_options *options)
{
    size_t n = 0;
    for (size_t i = 0; i < options->n_fields; i++)
        n += options->fields[i].n_audio_ops;
    return n;
}

/* Returns the sum of n_labels over all operations, in elements. */
static size_t count_labels(const struct pst_loader_options *options)
{
    size_t n = 0;
    for (size_t i = 0; i < options->n_fields; i++)
        for (size_t k = 0; k < options->fields[i].n_ops; k++)
            n += options->fields[i].ops[k].n_labels;
    return n;
}

static size_t count_pairs(const struct pst_loader_options *options)
{
    size_t n = 0;
    for (size_t i = 0; i < options->n_fields; i++)
        n += options->fields[i].n_point_pairs;
    return n;
}

static void put_op(struct psti_wire_out *out, const struct pst_op *op)
{
    put(out, PST_STRUCT_OP, op, ROWS);
    psti_share_put_u32(out, op->n_labels);
    for (uint32_t i = 0; i < op->n_labels; i++)
        psti_share_put_bytes(out, &op->labels[i], sizeof op->labels[i]);
}

static void put_fields(struct psti_wire_out *out, const struct pst_loader_options *options)
{
    psti_share_put_u32(out, (uint32_t)options->n_fields);
    psti_share_put_u32(out, (uint32_t)count_ops(options));
    psti_share_put_u32(out, (uint32_t)count_audio(options));
    for (size_t i = 0; i < options->n_fields; i++) {
        const struct pst_field_output *field = &options->fields[i];
        psti_share_put_text(out, field->name);
        psti_share_put_text(out, field->per_box_of);
        psti_share_put_text(out, field->as);
        put(out, PST_STRUCT_FIELD_OUTPUT, field, ROWS);
        psti_share_put_u32(out, (uint32_t)field->n_point_pairs);
        if (field->n_point_pairs > 0)
            psti_share_put_bytes(out, field->point_pairs,
                                 field->n_point_pairs * 2 * sizeof *field->point_pairs);
        psti_share_put_u32(out, (uint32_t)field->n_ops);
        for (size_t k = 0; k < field->n_ops; k++)
            put_op(out, &field->ops[k]);
        psti_share_put_u32(out, (uint32_t)field->n_audio_ops);
        for (size_t k = 0; k < field->n_audio_ops; k++)
            put(out, PST_STRUCT_AUDIO_OP, &field->audio_ops[k], ROWS);
    }
}

static void put_numbers(struct psti_wire_out *out, const void *numbers, uint64_t n)
{
    psti_share_put_u64(out, numbers ? n : UINT64_MAX);
    if (numbers)
        psti_share_put_bytes(out, numbers, n * sizeof(uint64_t));
}

/* Writes changes of the sources' weights: the places at which they apply, u64 (n,2), and the
 * weights, f64 (n,n_sources). */
static void put_changes(struct psti_wire_out *out, const uint64_t *places, const double *weights,
                        uint32_t n, uint32_t n_sources)
{
    put_numbers(out, n > 0 ? places : NULL, 2 * (uint64_t)n);
    put_numbers(out, n > 0 ? weights : NULL, (uint64_t)n * n_sources);
}

enum pst_status psti_share_options_print(const struct pst_loader_options *options,
                                         uint64_t n_weights, uint8_t **bytes, size_t *nbytes,
                                         struct pst_error *err)
{
    size_t n_ops = count_ops(options), n_audio = count_audio(options);
    uint64_t n_numbers = (options->indices ? options->n_indices : 0) +
                         (options->weights ? n_weights : 0) +
                         (options->source_weights ? 2 * (uint64_t)options->n_source_weights : 0);
    *bytes = NULL;
    if (options->n_fields > PSTI_SHARE_FIELDS_MAX || n_ops > PSTI_SHARE_OPS_MAX ||
        n_audio > PSTI_SHARE_OPS_MAX || n_numbers > SIZE_MAX / 64 ||
        count_pairs(options) > SIZE_MAX / 64)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "share",
                         "%zu fields and %zu operations are too many to share", options->n_fields,
                         n_ops + n_audio);
    struct psti_wire_out out = {.nbytes = HEAD_NBYTES};
    out.capacity = 1024 + options->n_fields * (3 * PSTI_TEXT_CAP + sizeof(field_t)) +
                   n_ops * sizeof(op_t) + count_labels(options) * sizeof(uint16_t) +
                   count_pairs(options) * 2 * sizeof(uint32_t) + n_audio * sizeof(audio_t) +
                   n_numbers * sizeof(uint64_t);
    out.bytes = psti_alloc(out.capacity);
    if (!out.bytes)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for options");
    put(&out, PST_STRUCT_LOADER_OPTIONS, options, ORDER);
    put_fields(&out, options);
    put_numbers(&out, options->indices, options->n_indices);
    put_numbers(&out, options->weights, n_weights);
    put_numbers(&out, options->source_weights, options->n_source_weights);
    if (options->source_weights)
        put_numbers(&out, options->source_firsts, options->n_source_weights);
    put_changes(&out, NULL, NULL, 0, 0);
    psti_store_u32(out.bytes, MAGIC);
    psti_store_u32(out.bytes + 4, psti_options_digest());
    psti_store_u64(out.bytes + 8, out.nbytes);
    put(&out, PST_STRUCT_LOADER_OPTIONS, options, READING);
    if (out.full) {
        psti_free(out.bytes);
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "share",
                         "a field's name is too long to share");
    }
    *bytes = out.bytes;
    *nbytes = out.nbytes;
    return PST_OK;
}

enum pst_status psti_share_options_change(const uint8_t *bytes, size_t nbytes,
                                          const uint64_t *places, const double *weights, uint32_t n,
                                          uint32_t n_sources, uint8_t **out_bytes,
                                          size_t *out_nbytes, struct pst_error *err)
{
    const size_t first = (size_t)psti_load_u64(bytes + 8), kept = first - NO_CHANGES_NBYTES;
    struct psti_wire_out out = {.nbytes = kept};
    out.capacity = nbytes + (size_t)n * (2 + (size_t)n_sources) * sizeof(uint64_t);
    *out_bytes = out.bytes = psti_alloc(out.capacity);
    if (!out.bytes)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for options");
    memcpy(out.bytes, bytes, kept);
    put_changes(&out, places, weights, n, n_sources);
    psti_store_u64(out.bytes + 8, out.nbytes);
    psti_share_put_bytes(&out, bytes + first, nbytes - first);
    *out_nbytes = out.nbytes;
    return PST_OK;
}

/* Memory that parsing fills: fields, operations, numbers, tables of classes, pairs of points, and
 * at its end texts. */
struct parts {
    struct pst_field_output *fields;
    struct pst_op *ops;
    struct pst_audio_op *audio;
    uint16_t *labels;
    uint32_t *pairs;
    char *texts;
    size_t texts_left;
};

/* Reads a text into `parts`. Returns NULL if NULL was written or `in` is bad. */
static const char *get_text(struct psti_wire_in *in, struct parts *parts)
{
    char *text = parts->texts;
    if (parts->texts_left == 0)
        in->bad = true;
    if (in->bad || !psti_share_get_text(in, text, parts->texts_left))
        return NULL;
    parts->texts += strlen(text) + 1;
    parts->texts_left -= strlen(text) + 1;
    return text;
}

static void get_op(struct psti_wire_in *in, struct parts *parts)
{
    struct pst_op *op = parts->ops++;
    get(in, PST_STRUCT_OP, op, ROWS);
    op->n_labels = psti_share_get_u32(in);
    if (in->bad || op->n_labels > PST_MAX_LABELS ||
        op->n_labels > (in->nbytes - in->at) / sizeof(uint16_t)) {
        in->bad = true;
        op->n_labels = 0;
        return;
    }
    op->labels = op->n_labels > 0 ? parts->labels : NULL;
    psti_share_get_bytes(in, parts->labels, op->n_labels * sizeof(uint16_t));
    parts->labels += op->n_labels;
}

static void get_pairs(struct psti_wire_in *in, struct pst_field_output *field, struct parts *parts)
{
    uint32_t n = psti_share_get_u32(in);
    size_t nbytes = 2 * sizeof *parts->pairs;
    in->bad |= n > PST_MAX_POINTS || n > (in->nbytes - in->at) / nbytes;
    field->n_point_pairs = in->bad ? 0 : n;
    if (field->n_point_pairs == 0)
        return;
    field->point_pairs = parts->pairs;
    psti_share_get_bytes(in, parts->pairs, n * nbytes);
    parts->pairs += 2 * (size_t)n;
}

static void get_fields(struct psti_wire_in *in, struct psti_share_options *out, uint32_t n_fields,
                       uint32_t n_ops, uint32_t n_audio, struct parts *parts)
{
    out->options.fields = parts->fields;
    out->options.n_fields = n_fields;
    for (uint32_t i = 0; i < n_fields && !in->bad; i++) {
        struct pst_field_output *field = &parts->fields[i];
        field->name = get_text(in, parts);
        field->per_box_of = get_text(in, parts);
        field->as = get_text(in, parts);
        in->bad |= !field->name;
        get(in, PST_STRUCT_FIELD_OUTPUT, field, ROWS);
        get_pairs(in, field, parts);
        uint32_t n = psti_share_get_u32(in);
        if (n > n_ops)
            in->bad = true;
        field->ops = parts->ops;
        field->n_ops = in->bad ? 0 : n;
        for (size_t k = 0; k < field->n_ops; k++)
            get_op(in, parts);
        n_ops -= (uint32_t)field->n_ops;
        n = psti_share_get_u32(in);
        if (n > n_audio)
            in->bad = true;
        field->audio_ops = parts->audio;
        field->n_audio_ops = in->bad ? 0 : n;
        for (size_t k = 0; k < field->n_audio_ops; k++)
            get(in, PST_STRUCT_AUDIO_OP, parts->audio++, ROWS);
        n_audio -= (uint32_t)field->n_audio_ops;
    }
    in->bad |= n_ops > 0 || n_audio > 0;
}

/* Reads an array of 64-bit numbers. Returns NULL if NULL was written or `in` is bad. */
static void *get_numbers(struct psti_wire_in *in, uint64_t **to, uint64_t *n)
{
    *n = psti_share_get_u64(in);
    void *numbers = *to;
    if (in->bad || *n == UINT64_MAX) {
        *n = 0;
        return NULL;
    }
    if (*n > (in->nbytes - in->at) / sizeof(uint64_t)) {
        in->bad = true;
        *n = 0;
        return NULL;
    }
    psti_share_get_bytes(in, numbers, *n * sizeof(uint64_t));
    *to += *n;
    return numbers;
}

static enum pst_status fail_bytes(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_CORRUPT, "share", "the options of a loader are damaged");
}

/* Reads the sources' weights, and the first sample of each source. */
static void get_sources(struct psti_wire_in *in, uint64_t **numbers,
                        struct pst_loader_options *options)
{
    uint64_t n, n_firsts;
    options->source_weights = get_numbers(in, numbers, &n);
    if (!options->source_weights)
        return;
    options->source_firsts = get_numbers(in, numbers, &n_firsts);
    in->bad |= n > UINT32_MAX || (options->source_firsts && n_firsts != n);
    options->n_source_weights = (uint32_t)n;
}

/* Reads the changes of the sources' weights. */
static void get_changes(struct psti_wire_in *in, uint64_t **numbers, struct psti_share_options *out)
{
    uint64_t n_places, n_weights;
    out->change_places = get_numbers(in, numbers, &n_places);
    out->change_weights = get_numbers(in, numbers, &n_weights);
    uint64_t n = n_places / 2;
    in->bad |=
        n_places % 2 != 0 || n > UINT32_MAX || n * out->options.n_source_weights != n_weights;
    out->n_changes = in->bad ? 0 : (uint32_t)n;
}

enum pst_status psti_share_options_parse(const uint8_t *bytes, size_t nbytes,
                                         struct psti_share_options *out, struct pst_error *err)
{
    memset(out, 0, sizeof *out);
    out->options.struct_size = sizeof out->options;
    out->options.field_nbytes = sizeof(struct pst_field_output);
    out->options.op_nbytes = sizeof(struct pst_op);
    out->options.audio_op_nbytes = sizeof(struct pst_audio_op);
    if (nbytes < HEAD_NBYTES || psti_load_u32(bytes) != MAGIC ||
        psti_load_u32(bytes + 4) != psti_options_digest() || psti_load_u64(bytes + 8) > nbytes ||
        psti_load_u64(bytes + 8) < HEAD_NBYTES)
        return fail_bytes(err);
    size_t first_nbytes = (size_t)psti_load_u64(bytes + 8);
    struct psti_wire_in in = {.bytes = bytes, .nbytes = first_nbytes, .at = HEAD_NBYTES};
    get(&in, PST_STRUCT_LOADER_OPTIONS, &out->options, ORDER);
    uint64_t order[2] = {psti_hash64(bytes + HEAD_NBYTES, in.bad ? 0 : in.at - HEAD_NBYTES)};
    uint32_t n_fields = psti_share_get_u32(&in), n_ops = psti_share_get_u32(&in);
    uint32_t n_audio = psti_share_get_u32(&in);
    if (in.bad || n_fields > PSTI_SHARE_FIELDS_MAX || n_ops > PSTI_SHARE_OPS_MAX ||
        n_audio > PSTI_SHARE_OPS_MAX)
        return fail_bytes(err);
    /* Texts, numbers and tables take no more bytes in memory than in the message. */
    size_t structs = n_fields * sizeof(struct pst_field_output) + n_ops * sizeof(struct pst_op) +
                     n_audio * sizeof(struct pst_audio_op);
    structs = psti_round_up(structs, sizeof(uint64_t));
    const size_t part = psti_round_up(first_nbytes, sizeof(uint64_t));
    out->memory = psti_calloc(1, structs + 4 * part);
    if (!out->memory)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for options");
    struct parts parts = {.fields = out->memory};
    parts.ops = (struct pst_op *)(void *)(parts.fields + n_fields);
    parts.audio = (struct pst_audio_op *)(void *)(parts.ops + n_ops);
    uint64_t *numbers = (uint64_t *)(void *)((char *)out->memory + structs);
    parts.labels = (uint16_t *)(void *)((char *)numbers + part);
    parts.pairs = (uint32_t *)(void *)((char *)numbers + 2 * part);
    parts.texts = (char *)numbers + 3 * part;
    parts.texts_left = first_nbytes;
    get_fields(&in, out, n_fields, n_ops, n_audio, &parts);
    order[1] = psti_hash64(bytes + in.at, first_nbytes - in.at);
    out->order_digest = psti_hash64(order, sizeof order);
    out->options.indices = get_numbers(&in, &numbers, &out->options.n_indices);
    out->options.weights = get_numbers(&in, &numbers, &out->n_weights);
    get_sources(&in, &numbers, &out->options);
    get_changes(&in, &numbers, out);
    if (in.bad || in.at != in.nbytes)
        return fail_bytes(err);
    in.nbytes = nbytes;
    get(&in, PST_STRUCT_LOADER_OPTIONS, &out->options, READING);
    if (in.bad || in.at != in.nbytes)
        return fail_bytes(err);
    out->digest = psti_hash64(bytes, first_nbytes);
    return PST_OK;
}

void psti_share_options_clear(struct psti_share_options *options)
{
    psti_free(options->memory);
    memset(options, 0, sizeof *options);
}
