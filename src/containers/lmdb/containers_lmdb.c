/* containers_lmdb.c - makes rows of the entries of an LMDB database.
 *
 * In: keys and locations of values, on one thread. Out: two columns, and a row for each entry.
 *
 * The first value decides the kind of all values. Entries that describe the database (its length,
 * its keys) and entries of named sub-databases are skipped. */
#include "containers/lmdb/containers_lmdb.h"

#include "containers/lmdb/containers_datum.h"
#include "containers/lmdb/containers_lmdb_tree.h"
#include "containers/table/containers_guess.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"

enum lmdb_kind {
    KIND_NONE = 0,
    KIND_IMAGE,
    KIND_DATUM_IMAGE,
    KIND_DATUM_PIXELS,
    KIND_DATUM_FLOATS,
    KIND_DATUM_APART,
    KIND_PICKLE,
    KIND_BYTES,
};

enum { HEAD_NBYTES = 24 }; /* maximum number of bytes at the start of a value that are read to find
                            * its kind */

struct lmdb_walk {
    struct psti_lmdb_tree tree;
    struct psti_containers_columns *columns;
    const char *path;
    enum lmdb_kind kind;       /* kind of the first value; NONE before it was read */
    uint32_t i_value, i_label; /* PSTI_COLUMN_LEFT_OUT */
    enum pst_field_type type;  /* field type of the column of values */
    uint64_t n_rows, n_about, n_names;
    char about[64], named[64]; /* first key of the skipped entries of each sort */
    char name[PST_NAME_CAP];   /* sample name of the current entry */
};

/* The value of an entry, and what it was found to be. */
struct lmdb_value {
    enum lmdb_kind kind;
    struct psti_datum datum;
};

static const char *kind_name(enum lmdb_kind kind)
{
    static const char *const names[] = {
        [KIND_NONE] = "nothing",
        [KIND_IMAGE] = "an image",
        [KIND_DATUM_IMAGE] = "a Caffe Datum with an image",
        [KIND_DATUM_PIXELS] = "a Caffe Datum with pixels",
        [KIND_DATUM_FLOATS] = "a Caffe Datum with floats",
        [KIND_DATUM_APART] = "a Caffe Datum with floats that lie apart",
        [KIND_PICKLE] = "a pickle of Python",
        [KIND_BYTES] = "bytes of no known kind",
    };
    return names[kind];
}

/* True for a Datum whose image or numbers become the value, besides a label. */
static bool is_datum(enum lmdb_kind kind)
{
    return kind == KIND_DATUM_IMAGE || kind == KIND_DATUM_PIXELS || kind == KIND_DATUM_FLOATS;
}

/* Reads the first bytes of a value. *n: their number, at most HEAD_NBYTES. */
static enum pst_status read_head(struct lmdb_walk *walk, const struct psti_lmdb_entry *entry,
                                 const uint8_t **head, size_t *n, struct pst_error *err)
{
    *n = entry->nbytes < HEAD_NBYTES ? (size_t)entry->nbytes : HEAD_NBYTES;
    return psti_containers_window_get(&walk->tree.window, entry->offset, *n, head, err);
}

static bool is_pickle(const uint8_t *head, size_t n)
{
    return n >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5; /* the opcode PROTO and a
                                                                       * protocol number: a Python
                                                                       * pickle */
}

static bool is_number(const uint8_t *head, size_t n)
{
    size_t i = 0;
    while (i < n && head[i] >= '0' && head[i] <= '9')
        i++;
    return n > 0 && n < HEAD_NBYTES && i == n;
}

/* True for a key that describes the database and names no sample, such as "length". */
static bool is_about(const struct psti_lmdb_entry *entry)
{
    static const char *const keys[] = {"length", "len",         "keys",       "nSamples",
                                       "size",   "num-samples", "num_samples"};
    const uint8_t *key = entry->key;
    size_t n = entry->key_nbytes;
    if (n > 4 && memcmp(key, "__", 2) == 0 && memcmp(key + n - 2, "__", 2) == 0)
        return true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (n == strlen(keys[i]) && memcmp(key, keys[i], n) == 0)
            return true;
    return false;
}

/* Finds the kind of a value from its first bytes. */
static enum pst_status classify(struct lmdb_walk *walk, const struct psti_lmdb_entry *entry,
                                struct lmdb_value *value, struct pst_error *err)
{
    const uint8_t *head = NULL;
    size_t n = 0;
    enum pst_status status = read_head(walk, entry, &head, &n, err);
    if (status != PST_OK)
        return status;
    value->kind = psti_containers_guess(head, n) == PST_FIELD_IMAGE ? KIND_IMAGE
                  : is_pickle(head, n)                              ? KIND_PICKLE
                                                                    : KIND_BYTES;
    if (value->kind != KIND_BYTES)
        return PST_OK;
    status = psti_containers_datum_read(&walk->tree.window, entry->offset, entry->nbytes,
                                        &value->datum, err);
    static const enum lmdb_kind kinds[] = {
        [PSTI_DATUM_NONE] = KIND_BYTES,          [PSTI_DATUM_IMAGE] = KIND_DATUM_IMAGE,
        [PSTI_DATUM_PIXELS] = KIND_DATUM_PIXELS, [PSTI_DATUM_FLOATS] = KIND_DATUM_FLOATS,
        [PSTI_DATUM_APART] = KIND_DATUM_APART,
    };
    value->kind = kinds[value->datum.kind];
    return status;
}

/* Fills in the error for a first value of a kind that is not supported. */
static enum pst_status refuse(const struct lmdb_walk *walk, const struct psti_lmdb_entry *entry,
                              struct pst_error *err)
{
    if (walk->kind == KIND_PICKLE)
        return psti_fail_at(
            err, PST_ERROR_UNSUPPORTED, ROOM, walk->path, (int64_t)entry->offset,
            "the value of '%.150s' is a pickle, which is code of Python and is not "
            "run: take it as it is by fields={\"value\": (\"value\", \"bytes\")}, or pack the "
            "data set (penstock pack --from)",
            walk->name);
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, walk->path, (int64_t)entry->offset,
                        "the floats of the Caffe Datum of '%.150s' do not lie in one piece, so "
                        "that they are no array of the file: pack the data set (penstock pack "
                        "--from)",
                        walk->name);
}

/* Declares the columns, according to the kind of the first value. */
static enum pst_status declare(struct lmdb_walk *walk, const struct psti_lmdb_entry *entry,
                               const struct lmdb_value *first, struct pst_error *err)
{
    enum lmdb_kind kind = walk->kind = first->kind;
    bool is_image = kind == KIND_IMAGE || kind == KIND_DATUM_IMAGE;
    bool is_array = kind == KIND_DATUM_PIXELS || kind == KIND_DATUM_FLOATS;
    bool is_refused = kind == KIND_PICKLE || kind == KIND_DATUM_APART;
    /* A refused kind is declared as a text. It is admitted only if a user's rule makes it bytes. */
    struct psti_column column = {
        .name = is_image   ? "image"
                : is_array ? "data"
                           : "value",
        .type = is_image     ? PST_FIELD_IMAGE
                : is_array   ? PST_FIELD_ARRAY
                : is_refused ? PST_FIELD_TEXT
                             : PST_FIELD_BYTES,
        .is_guess = true,
    };
    if (is_array) {
        column.dtype = kind == KIND_DATUM_PIXELS ? PST_DTYPE_U8 : PST_DTYPE_F32;
        column.ndim = 3;
        memcpy(column.shape, first->datum.shape, sizeof first->datum.shape);
    }
    enum pst_status status =
        psti_containers_columns_add(walk->columns, &column, &walk->i_value, err);
    if (status == PST_OK && walk->i_value != PSTI_COLUMN_LEFT_OUT)
        walk->type = psti_containers_columns_type(walk->columns, walk->i_value);
    if (status == PST_OK && is_refused && walk->i_value != PSTI_COLUMN_LEFT_OUT &&
        walk->type != PST_FIELD_BYTES)
        return refuse(walk, entry, err);
    if (status != PST_OK || !is_datum(kind))
        return status;
    column = (struct psti_column){.name = "label", .type = PST_FIELD_INT};
    return psti_containers_columns_add(walk->columns, &column, &walk->i_label, err);
}

/* Sets offset and size of a value. */
static enum pst_status set_place(struct lmdb_walk *walk, const struct psti_lmdb_entry *entry,
                                 const struct lmdb_value *from, struct psti_container_value *value,
                                 struct pst_error *err)
{
    bool is_part = is_datum(walk->kind);
    value->i_field = walk->i_value;
    value->offset = is_part ? from->datum.offset : entry->offset;
    value->nbytes = is_part ? from->datum.nbytes : entry->nbytes;
    value->decoded_nbytes = value->nbytes;
    if (walk->type == PST_FIELD_ARRAY) {
        value->ndim = 3;
        memcpy(value->shape, from->datum.shape, sizeof from->datum.shape);
    }
    bool is_text = walk->type == PST_FIELD_TEXT || walk->type == PST_FIELD_JSON;
    if (!is_text || value->nbytes > PSTI_TEXT_IN_INDEX_NBYTES)
        return PST_OK;
    const uint8_t *bytes = NULL;
    enum pst_status status = psti_containers_window_get(&walk->tree.window, value->offset,
                                                        (size_t)value->nbytes, &bytes, err);
    value->bytes = bytes;
    return status;
}

/* Gives the row of an entry. */
static enum pst_status give(struct lmdb_walk *walk, const struct psti_lmdb_entry *entry,
                            struct pst_error *err)
{
    struct lmdb_value from = {.kind = walk->kind};
    struct psti_container_value values[2] = {{0}, {0}};
    uint32_t n = 0;
    /* A column of bytes admits every kind of value but Datums: also images and pickles that a
     * user's rule makes bytes. */
    bool is_any =
        walk->kind == KIND_BYTES || (walk->type == PST_FIELD_BYTES && !is_datum(walk->kind));
    if (!is_any) {
        enum pst_status status = classify(walk, entry, &from, err);
        if (status == PST_OK && walk->kind == KIND_NONE)
            status = declare(walk, entry, &from, err);
        if (status != PST_OK)
            return status;
        if (from.kind != walk->kind)
            return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, walk->path, (int64_t)entry->offset,
                                "the value of '%.150s' is %s, and the first value of the database "
                                "is %s: all must be of one kind, or be packed (penstock pack "
                                "--from)",
                                walk->name, kind_name(from.kind), kind_name(walk->kind));
    }
    if (walk->i_value != PSTI_COLUMN_LEFT_OUT) {
        enum pst_status status = set_place(walk, entry, &from, &values[n++], err);
        if (status != PST_OK)
            return status;
    }
    if (walk->i_label != PSTI_COLUMN_LEFT_OUT)
        values[n++] =
            (struct psti_container_value){.i_field = walk->i_label, .int_value = from.datum.label};
    if (n == 0)
        return PST_OK;
    walk->n_rows++;
    return psti_containers_columns_row(walk->columns, walk->name, values, n, err);
}

/* Counts a skipped entry in *n, and keeps the key of the first one. */
static void pass(struct lmdb_walk *walk, uint64_t *n, char name[64])
{
    struct psti_text text = {name, 64, 0};
    if ((*n)++ == 0)
        psti_text_add(&text, "%.63s", walk->name);
}

/* Handles an entry: skips it, or gives its row. */
static enum pst_status take(struct lmdb_walk *walk, const struct psti_lmdb_entry *entry,
                            struct pst_error *err)
{
    if (!psti_containers_lmdb_name(entry->key, entry->key_nbytes, walk->name))
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, walk->path, (int64_t)entry->offset,
                            "a key is no text and has %" PRIu32 " bytes, which is too long for "
                            "the name of a sample",
                            entry->key_nbytes);
    if (entry->is_database) {
        pass(walk, &walk->n_names, walk->named);
        return PST_OK;
    }
    if (is_about(entry)) {
        const uint8_t *head = NULL;
        size_t n = 0;
        enum pst_status status = read_head(walk, entry, &head, &n, err);
        if (status != PST_OK)
            return status;
        if (is_pickle(head, n) || is_number(head, n)) {
            pass(walk, &walk->n_about, walk->about);
            return PST_OK;
        }
    }
    return give(walk, entry, err);
}

/* Reports what was skipped. Fails if the database had two or more commits during the walk, and
 * warns if it had one. */
static enum pst_status end(struct lmdb_walk *walk, struct pst_error *err)
{
    uint64_t n_commits = 0;
    if (walk->n_rows == 0 && walk->n_names > 0)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, walk->path, -1,
                            "the main database has no samples, but databases with names, such as "
                            "'%s': copy the one that is meant into a main database of its own, or "
                            "pack it (penstock pack --from)",
                            walk->named);
    if (walk->n_names > 0)
        psti_log(PST_LOG_WARNING, ROOM,
                 "%s: %" PRIu64 " databases with names, such as '%s', are left out; the main "
                 "database is read",
                 walk->path, walk->n_names, walk->named);
    if (walk->n_about > 0)
        psti_log(PST_LOG_INFO, ROOM,
                 "%s: %" PRIu64 " entries that tell about the database, such as '%s', are left out",
                 walk->path, walk->n_about, walk->about);
    psti_containers_columns_note_rows(walk->columns, "databases with names", walk->n_names,
                                      walk->named);
    psti_containers_columns_note_rows(walk->columns, "entries about the database", walk->n_about,
                                      walk->about);
    enum pst_status status = psti_containers_lmdb_moved(&walk->tree, &n_commits, err);
    if (status == PST_OK && n_commits >= 2)
        return psti_fail_at(err, PST_ERROR_BUSY, ROOM, walk->path, -1,
                            "the database was written while it was read, so that values may lie "
                            "elsewhere: end the program that writes it, and open it again");
    if (status == PST_OK && n_commits > 0)
        psti_log(PST_LOG_WARNING, ROOM,
                 "%s: the database was written while it was read; what was there before is read",
                 walk->path);
    return status;
}

enum pst_status psti_containers_lmdb_walk(const struct psti_walk_source *source,
                                          const struct psti_table_notes *notes,
                                          struct psti_containers_columns *columns,
                                          struct psti_walk_counts *counts, struct pst_error *err)
{
    (void)notes;
    struct lmdb_walk *walk = psti_calloc(1, sizeof *walk);
    if (walk == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s", source->path);
    walk->columns = columns;
    walk->path = source->path;
    walk->i_value = walk->i_label = PSTI_COLUMN_LEFT_OUT;
    enum pst_status status = psti_containers_columns_file(columns, source->path, err);
    if (status == PST_OK)
        status = psti_containers_lmdb_open(&walk->tree, source, err);
    bool has = status == PST_OK;
    while (has) {
        struct psti_lmdb_entry entry;
        status = psti_containers_lmdb_next(&walk->tree, &entry, &has, err);
        if (has)
            status = take(walk, &entry, err);
        has = has && status == PST_OK;
    }
    if (status == PST_OK)
        status = end(walk, err);
    if (status == PST_OK)
        *counts = (struct psti_walk_counts){.n_members = walk->n_rows, .n_samples = walk->n_rows};
    psti_containers_lmdb_close(&walk->tree);
    psti_free(walk);
    return status;
}
