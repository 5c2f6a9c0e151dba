/* containers_parquet_meta.c - reads the footer of a Parquet file.
 *
 * In: the end of an untrusted file. Out: the nodes of the schema with their levels, and the
 * locations of row groups and chunks.
 *
 * A file ends with the footer, the footer's length in 4 bytes, and "PAR1". The whole footer is
 * checked at once, so that damage in the last row group is found before the first row is given. */
#include "containers/parquet/containers_parquet_meta.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
enum { TAIL_NBYTES = 8, MAGIC_NBYTES = 4 };

enum pst_status psti_containers_parquet_read(const struct psti_walk_source *source, void *bytes,
                                             size_t nbytes, uint64_t offset, struct pst_error *err)
{
    if (!psti_range_fits(offset, nbytes, source->nbytes))
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, source->path, (int64_t)offset,
                            "the file ends within %zu bytes from here on", nbytes);
    size_t n = 0;
    while (n < nbytes) {
        ssize_t got = source->read(source->context, (uint8_t *)bytes + n, nbytes - n, offset + n);
        if (got < 0)
            return psti_fail_os(err, errno, ROOM, source->path, (int64_t)(offset + n),
                                "cannot read %zu bytes", nbytes - n);
        if (got == 0)
            return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, source->path, (int64_t)(offset + n),
                                "the file became shorter while it was read");
        n += (size_t)got;
    }
    return PST_OK;
}

static enum pst_status corrupt(const struct psti_parquet_meta *meta, size_t at, const char *what,
                               struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, meta->source->path,
                        (int64_t)(meta->offset + at), "the footer of the Parquet file is wrong: %s",
                        what);
}

/* Reads the footer into memory. */
static enum pst_status load(struct psti_parquet_meta *meta, struct pst_error *err)
{
    const struct psti_walk_source *source = meta->source;
    uint8_t head[MAGIC_NBYTES], tail[TAIL_NBYTES];
    uint64_t end = source->nbytes;
    if (end < MAGIC_NBYTES + TAIL_NBYTES)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, source->path, 0,
                            "the file has %" PRIu64 " bytes, which is too short for Parquet", end);
    enum pst_status status = psti_containers_parquet_read(source, head, sizeof head, 0, err);
    if (status == PST_OK)
        status = psti_containers_parquet_read(source, tail, sizeof tail, end - TAIL_NBYTES, err);
    if (status != PST_OK)
        return status;
    if (memcmp(head, "PARE", MAGIC_NBYTES) == 0 || memcmp(tail + 4, "PARE", MAGIC_NBYTES) == 0)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, source->path, 0,
                            "the Parquet file is encrypted: write it anew without encryption");
    if (memcmp(head, "PAR1", MAGIC_NBYTES) != 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, source->path, 0,
                            "this is no Parquet file: it does not begin with PAR1");
    if (memcmp(tail + 4, "PAR1", MAGIC_NBYTES) != 0)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, source->path, (int64_t)(end - 4),
                            "the Parquet file does not end with PAR1: it was not written to its "
                            "end, or was cut. Write or download it again");
    meta->nbytes = psti_load_u32(tail);
    if (meta->nbytes > end - MAGIC_NBYTES - TAIL_NBYTES)
        return psti_fail_at(
            err, PST_ERROR_CORRUPT, ROOM, source->path, (int64_t)(end - TAIL_NBYTES),
            "the footer is said to have %zu bytes, more than the file", meta->nbytes);
    meta->offset = end - TAIL_NBYTES - meta->nbytes;
    meta->footer = psti_alloc(meta->nbytes + 1);
    if (meta->footer == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the footer of %s",
                         source->path);
    return psti_containers_parquet_read(source, meta->footer, meta->nbytes, meta->offset, err);
}

/* Reads the union LogicalType: the number of its field is the type. */
static void read_logical(struct psti_thrift *thrift, struct psti_parquet_node *node)
{
    static const uint8_t meanings[] = {
        [1] = PSTI_MEANING_TEXT,  [2] = PSTI_MEANING_MAP,      [3] = PSTI_MEANING_LIST,
        [4] = PSTI_MEANING_TEXT,  [5] = PSTI_MEANING_DECIMAL,  [11] = PSTI_MEANING_NULL,
        [12] = PSTI_MEANING_JSON, [15] = PSTI_MEANING_FLOAT16,
    };
    struct psti_thrift_field field = {0};
    while (psti_containers_thrift_field(thrift, &field)) {
        int16_t kind = field.id;
        node->meaning = PSTI_MEANING_OTHER;
        if (kind < (int16_t)sizeof meanings && meanings[kind] != PSTI_MEANING_NONE)
            node->meaning = meanings[kind];
        if (field.type != PSTI_THRIFT_STRUCT || (kind != 5 && kind != 10)) {
            psti_containers_thrift_skip(thrift, field.type);
            continue;
        }
        struct psti_thrift_field part = {0};
        while (psti_containers_thrift_field(thrift, &part)) {
            if (kind == 5 && part.id == 1)
                node->scale = psti_containers_thrift_count(thrift, part.type);
            else if (kind == 10 && part.id == 2)
                node->meaning = psti_containers_thrift_bool(thrift, part.type)
                                    ? PSTI_MEANING_OTHER
                                    : PSTI_MEANING_UNSIGNED;
            else
                psti_containers_thrift_skip(thrift, part.type);
        }
    }
}

static enum psti_parquet_meaning meaning_of_converted(uint32_t converted)
{
    switch (converted) {
    case 0: /* UTF8 */
    case 4: /* ENUM */
        return PSTI_MEANING_TEXT;
    case 1: /* MAP */
    case 2: /* MAP_KEY_VALUE */
        return PSTI_MEANING_MAP;
    case 3:
        return PSTI_MEANING_LIST;
    case 5:
        return PSTI_MEANING_DECIMAL;
    case 11: /* UINT_8 */
    case 12:
    case 13:
    case 14: /* UINT_64 */
        return PSTI_MEANING_UNSIGNED;
    case 19:
        return PSTI_MEANING_JSON;
    default:
        return PSTI_MEANING_OTHER;
    }
}

static void read_node(struct psti_thrift *thrift, struct psti_parquet_node *node)
{
    struct psti_thrift_field field = {0};
    enum psti_parquet_meaning converted = PSTI_MEANING_NONE;
    uint32_t scale = 0;
    *node = (struct psti_parquet_node){.name = {.bytes = ""}, .type = PSTI_PARQUET_GROUP};
    while (psti_containers_thrift_field(thrift, &field)) {
        if (field.id == 1)
            node->type = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 2)
            node->width = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 3)
            node->repetition = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 4)
            node->name = psti_containers_thrift_text(thrift, field.type);
        else if (field.id == 5)
            node->n_children = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 6)
            converted = meaning_of_converted(psti_containers_thrift_count(thrift, field.type));
        else if (field.id == 7)
            scale = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 10 && field.type == PSTI_THRIFT_STRUCT)
            read_logical(thrift, node);
        else
            psti_containers_thrift_skip(thrift, field.type);
    }
    if (node->meaning == PSTI_MEANING_NONE) {
        node->meaning = converted;
        node->scale = scale;
    }
    /* Some writers state only the number of children for a group; others state 0 children for a
     * leaf. So a node is a group if it has children. */
    if (node->n_children > 0)
        node->type = PSTI_PARQUET_GROUP;
}

static enum pst_status read_nodes(struct psti_parquet_meta *meta, struct psti_thrift *thrift,
                                  uint8_t type, struct pst_error *err)
{
    uint32_t n = psti_containers_thrift_list(thrift, type, PSTI_THRIFT_STRUCT);
    if (meta->nodes != NULL)
        return corrupt(meta, thrift->at, "it has two schemas", err);
    if (n > PSTI_PARQUET_MAX_NODES)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, meta->source->path, (int64_t)meta->offset,
                            "the schema has %" PRIu32 " nodes; %d are the most", n,
                            PSTI_PARQUET_MAX_NODES);
    meta->nodes = psti_alloc_array((size_t)n + 1, sizeof *meta->nodes);
    meta->leaves = psti_alloc_array((size_t)n + 1, sizeof *meta->leaves);
    if (meta->nodes == NULL || meta->leaves == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the schema of %s",
                         meta->source->path);
    for (uint32_t i = 0; i < n && !thrift->is_bad; i++)
        read_node(thrift, &meta->nodes[i]);
    meta->n_nodes = n;
    return PST_OK;
}

static const char *problem_of_node(const struct psti_parquet_node *node, bool is_root)
{
    if (memchr(node->name.bytes, '\0', node->name.nbytes) != NULL)
        return "a column's name has a NUL";
    if (is_root)
        return node->n_children == 0 ? "the schema has no columns" : NULL;
    if (node->type > PSTI_PARQUET_GROUP || (node->type == PSTI_PARQUET_FIXED && node->width == 0))
        return "a column has a type that there is not";
    if (node->repetition > PSTI_PARQUET_REPEATED)
        return "a column repeats in a way that is newer than this reader";
    return NULL;
}

/* Sets the parent, the end and the levels of each node. */
static enum pst_status connect(struct psti_parquet_meta *meta, struct pst_error *err)
{
    uint32_t above[PSTI_PARQUET_MAX_DEPTH], left[PSTI_PARQUET_MAX_DEPTH], depth = 0;
    for (uint32_t i = 0; i < meta->n_nodes; i++) {
        struct psti_parquet_node *node = &meta->nodes[i];
        const char *problem = problem_of_node(node, i == 0);
        if (problem == NULL && i > 0 && depth == 0)
            problem = "the schema has nodes that are no part of it";
        if (problem == NULL && node->n_children > 0 && depth == PSTI_PARQUET_MAX_DEPTH)
            problem = "its columns are too deep in each other";
        if (problem != NULL)
            return corrupt(meta, 0, problem, err);
        node->i_leaf = meta->n_leaves;
        node->end = i + 1;
        if (i > 0) {
            const struct psti_parquet_node *parent = &meta->nodes[above[depth - 1]];
            node->parent = above[depth - 1];
            node->n_def = (uint8_t)(parent->n_def + (node->repetition != PSTI_PARQUET_REQUIRED));
            node->n_rep = (uint8_t)(parent->n_rep + (node->repetition == PSTI_PARQUET_REPEATED));
            left[depth - 1]--;
        }
        if (node->n_children > 0) {
            above[depth] = i;
            left[depth++] = node->n_children;
            continue;
        }
        if (node->type != PSTI_PARQUET_GROUP) /* a group without children is no leaf either */
            meta->leaves[meta->n_leaves++] = i;
        while (depth > 0 && left[depth - 1] == 0)
            meta->nodes[above[--depth]].end = i + 1;
    }
    return depth == 0 ? PST_OK : corrupt(meta, 0, "the schema ends too early", err);
}

static void read_key_values(struct psti_parquet_meta *meta, struct psti_thrift *thrift,
                            uint8_t type)
{
    uint32_t n = psti_containers_thrift_list(thrift, type, PSTI_THRIFT_STRUCT);
    for (uint32_t i = 0; i < n && !thrift->is_bad; i++) {
        struct psti_thrift_text key = {0}, value = {0};
        struct psti_thrift_field field = {0};
        while (psti_containers_thrift_field(thrift, &field)) {
            if (field.id == 1)
                key = psti_containers_thrift_text(thrift, field.type);
            else if (field.id == 2)
                value = psti_containers_thrift_text(thrift, field.type);
            else
                psti_containers_thrift_skip(thrift, field.type);
        }
        if (key.nbytes == 11 && memcmp(key.bytes, "huggingface", 11) == 0)
            meta->hub = value;
    }
}

static enum pst_status read_groups(struct psti_parquet_meta *meta, struct psti_thrift *thrift,
                                   uint8_t type, struct pst_error *err)
{
    uint32_t n = psti_containers_thrift_list(thrift, type, PSTI_THRIFT_STRUCT);
    if (meta->groups != NULL)
        return corrupt(meta, thrift->at, "it has two lists of row groups", err);
    meta->groups = psti_alloc_array((size_t)n + 1, sizeof *meta->groups);
    if (meta->groups == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the row groups of %s",
                         meta->source->path);
    for (uint32_t i = 0; i < n && !thrift->is_bad; i++) {
        meta->groups[i] = thrift->at;
        psti_containers_thrift_skip(thrift, PSTI_THRIFT_STRUCT);
    }
    meta->n_groups = n;
    return PST_OK;
}

static enum pst_status read_meta(struct psti_parquet_meta *meta, struct pst_error *err)
{
    struct psti_thrift thrift = {.bytes = meta->footer, .nbytes = meta->nbytes};
    struct psti_thrift_field field = {0};
    int64_t n_rows = -1;
    enum pst_status status = PST_OK;
    while (status == PST_OK && psti_containers_thrift_field(&thrift, &field)) {
        if (field.id == 2)
            status = read_nodes(meta, &thrift, field.type, err);
        else if (field.id == 3)
            n_rows = psti_containers_thrift_int(&thrift, field.type);
        else if (field.id == 4)
            status = read_groups(meta, &thrift, field.type, err);
        else if (field.id == 5)
            read_key_values(meta, &thrift, field.type);
        else
            psti_containers_thrift_skip(&thrift, field.type);
    }
    if (status != PST_OK)
        return status;
    if (thrift.is_bad)
        return corrupt(meta, 0, "it is damaged", err);
    if (meta->n_nodes == 0 || meta->groups == NULL || n_rows < 0)
        return corrupt(meta, 0, "it lacks the schema, the rows or the row groups", err);
    meta->n_rows = (uint64_t)n_rows;
    return connect(meta, err);
}

/* Checks each row group once. */
static enum pst_status check_groups(const struct psti_parquet_meta *meta, struct pst_error *err)
{
    uint64_t n_rows = 0;
    enum pst_status status = PST_OK;
    struct psti_parquet_chunk *chunks =
        psti_alloc_array((size_t)meta->n_leaves + 1, sizeof *chunks);
    if (chunks == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the columns of %s",
                         meta->source->path);
    for (uint32_t i = 0; status == PST_OK && i < meta->n_groups; i++) {
        uint64_t n = 0;
        status = psti_containers_parquet_group(meta, i, chunks, &n, err);
        if (status == PST_OK && !psti_add_u64(n_rows, n, &n_rows))
            status = corrupt(meta, meta->groups[i], "it has too many rows", err);
    }
    if (status == PST_OK && n_rows != meta->n_rows)
        status = corrupt(meta, 0, "its row groups have not as many rows as the file", err);
    psti_free(chunks);
    return status;
}

enum pst_status psti_containers_parquet_meta_open(struct psti_parquet_meta *meta,
                                                  const struct psti_walk_source *source,
                                                  struct pst_error *err)
{
    *meta = (struct psti_parquet_meta){.source = source};
    enum pst_status status = load(meta, err);
    if (status == PST_OK)
        status = read_meta(meta, err);
    if (status == PST_OK)
        status = check_groups(meta, err);
    if (status != PST_OK)
        psti_containers_parquet_meta_close(meta);
    return status;
}

void psti_containers_parquet_meta_close(struct psti_parquet_meta *meta)
{
    psti_free(meta->groups);
    psti_free(meta->leaves);
    psti_free(meta->nodes);
    psti_free(meta->footer);
    *meta = (struct psti_parquet_meta){0};
}

/* Fields of a chunk's metadata in the footer. */
struct chunk_facts {
    int64_t type, n_values, data_offset, dictionary_offset, codec;
};

static void read_chunk_meta(struct psti_thrift *thrift, struct chunk_facts *facts)
{
    struct psti_thrift_field field = {0};
    while (psti_containers_thrift_field(thrift, &field)) {
        if (field.id == 1)
            facts->type = psti_containers_thrift_int(thrift, field.type);
        else if (field.id == 4)
            facts->codec = psti_containers_thrift_int(thrift, field.type);
        else if (field.id == 5)
            facts->n_values = psti_containers_thrift_int(thrift, field.type);
        else if (field.id == 9)
            facts->data_offset = psti_containers_thrift_int(thrift, field.type);
        else if (field.id == 11)
            facts->dictionary_offset = psti_containers_thrift_int(thrift, field.type);
        else
            psti_containers_thrift_skip(thrift, field.type);
    }
}

static enum pst_status read_chunk(const struct psti_parquet_meta *meta, struct psti_thrift *thrift,
                                  uint32_t i_leaf, struct psti_parquet_chunk *chunk,
                                  struct pst_error *err)
{
    size_t at = thrift->at;
    struct chunk_facts facts = {.type = -1, .n_values = -1, .codec = -1};
    struct psti_thrift_field field = {0};
    *chunk = (struct psti_parquet_chunk){0};
    while (psti_containers_thrift_field(thrift, &field)) {
        if (field.id == 1)
            chunk->is_elsewhere = psti_containers_thrift_text(thrift, field.type).nbytes > 0;
        else if (field.id == 3 && field.type == PSTI_THRIFT_STRUCT)
            read_chunk_meta(thrift, &facts);
        else
            psti_containers_thrift_skip(thrift, field.type);
        chunk->is_encrypted |= field.id == 8 || field.id == 9;
    }
    if (thrift->is_bad || chunk->is_encrypted || chunk->is_elsewhere)
        return PST_OK; /* not checked further: the chunk is refused if its column becomes a field */
    const struct psti_parquet_node *leaf = &meta->nodes[meta->leaves[i_leaf]];
    if (facts.type != (int64_t)leaf->type)
        return corrupt(meta, at, "a row group has a column of another type than the schema", err);
    if (facts.n_values < 0 || facts.codec < 0 || facts.codec > UINT8_MAX)
        return corrupt(meta, at, "what a row group says of a column is not possible", err);
    /* Some writers have a dictionary without stating its offset, or state 0 without having one. */
    bool has_dictionary =
        facts.dictionary_offset >= MAGIC_NBYTES && facts.dictionary_offset < facts.data_offset;
    int64_t offset = has_dictionary ? facts.dictionary_offset : facts.data_offset;
    if (facts.n_values > 0 && (offset < MAGIC_NBYTES || (uint64_t)offset >= meta->offset))
        return corrupt(meta, at, "a column lies outside of the file", err);
    chunk->offset = (uint64_t)offset;
    chunk->n_values = (uint64_t)facts.n_values;
    chunk->codec = (uint32_t)facts.codec;
    return PST_OK;
}

enum pst_status psti_containers_parquet_group(const struct psti_parquet_meta *meta, uint32_t i,
                                              struct psti_parquet_chunk *chunks, uint64_t *n_rows,
                                              struct pst_error *err)
{
    struct psti_thrift thrift = {
        .bytes = meta->footer, .nbytes = meta->nbytes, .at = meta->groups[i]};
    struct psti_thrift_field field = {0};
    int64_t rows = -1;
    uint32_t n = UINT32_MAX;
    enum pst_status status = PST_OK;
    while (status == PST_OK && psti_containers_thrift_field(&thrift, &field)) {
        if (field.id == 1 && n == UINT32_MAX) {
            n = psti_containers_thrift_list(&thrift, field.type, PSTI_THRIFT_STRUCT);
            if (n != meta->n_leaves)
                return corrupt(meta, meta->groups[i], "a row group has not all columns", err);
            for (uint32_t k = 0; status == PST_OK && k < n; k++)
                status = read_chunk(meta, &thrift, k, &chunks[k], err);
        } else if (field.id == 3) {
            rows = psti_containers_thrift_int(&thrift, field.type);
        } else {
            psti_containers_thrift_skip(&thrift, field.type);
        }
    }
    if (status == PST_OK && (thrift.is_bad || n == UINT32_MAX || rows < 0))
        status = corrupt(meta, meta->groups[i], "a row group is damaged", err);
    *n_rows = (uint64_t)rows;
    return status;
}
