/* containers_parquet_meta.h - the footer of a Parquet file: its schema, and where the pieces of its
 * columns lie.
 *
 * A row group is a run of rows. It has one chunk of each leaf of the schema. Row groups stay in the
 * footer's bytes, and are read from there one at a time, because a file may have 100,000 of them.
 */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_META_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_META_H

#include "containers/containers_window.h"
#include "containers/parquet/containers_parquet_thrift.h"

/* Types of values as Parquet numbers them. */
enum psti_parquet_type {
    PSTI_PARQUET_BOOLEAN = 0,
    PSTI_PARQUET_INT32 = 1,
    PSTI_PARQUET_INT64 = 2,
    PSTI_PARQUET_INT96 = 3,
    PSTI_PARQUET_FLOAT = 4,
    PSTI_PARQUET_DOUBLE = 5,
    PSTI_PARQUET_BYTE_ARRAY = 6,
    PSTI_PARQUET_FIXED = 7, /* byte arrays that all have one length */
    PSTI_PARQUET_GROUP = 8, /* not a leaf; ours */
};

enum psti_parquet_repetition {
    PSTI_PARQUET_REQUIRED = 0,
    PSTI_PARQUET_OPTIONAL = 1,
    PSTI_PARQUET_REPEATED = 2,
};

/* What the values mean: the logical types, and the older converted types that say the same. */
enum psti_parquet_meaning {
    PSTI_MEANING_NONE = 0,
    PSTI_MEANING_TEXT,
    PSTI_MEANING_JSON,
    PSTI_MEANING_LIST,
    PSTI_MEANING_MAP,
    PSTI_MEANING_DECIMAL,
    PSTI_MEANING_UNSIGNED, /* whole numbers without a sign */
    PSTI_MEANING_FLOAT16,
    PSTI_MEANING_NULL,  /* there are no values */
    PSTI_MEANING_OTHER, /* nothing that changes a field: dates, signed numbers, UUIDs */
};

/* How a chunk is compressed, as Parquet numbers it. */
enum psti_parquet_codec {
    PSTI_PARQUET_UNCOMPRESSED = 0,
    PSTI_PARQUET_SNAPPY = 1,
    PSTI_PARQUET_ZSTD = 6,
};

/* A node of the schema, which is a list in the order of a walk: first the node, then its parts. */
struct psti_parquet_node {
    struct psti_thrift_text name;
    enum psti_parquet_type type;
    enum psti_parquet_repetition repetition;
    enum psti_parquet_meaning meaning;
    uint32_t width;      /* bytes of a value of PSTI_PARQUET_FIXED */
    uint32_t scale;      /* of a decimal: digits behind the point */
    uint32_t n_children; /* 0: a leaf */
    uint32_t parent;     /* its number */
    uint32_t end;        /* number of the first node behind its parts */
    uint32_t i_leaf;     /* of a leaf: its number among the leaves; else that of the next leaf */
    uint8_t n_def;       /* the definition level of a value that is there */
    uint8_t n_rep;       /* nodes from the root to here that repeat */
};

enum {
    PSTI_PARQUET_MAX_DEPTH = 32,
    PSTI_PARQUET_MAX_NODES = 1 << 16,
};

struct psti_parquet_meta {
    const struct psti_walk_source *source;
    uint8_t *footer;
    size_t nbytes;   /* of the footer */
    uint64_t offset; /* of the footer in the file: pages end before it */
    struct psti_parquet_node *nodes;
    uint32_t n_nodes, n_leaves;
    uint32_t *leaves; /* numbers of their nodes */
    uint64_t n_rows;
    size_t *groups; /* where each row group begins in the footer */
    uint32_t n_groups;
    struct psti_thrift_text hub; /* value of the key "huggingface"; no bytes: there is none */
};

/* The piece of one leaf in one row group. */
struct psti_parquet_chunk {
    uint64_t offset;   /* of its first page */
    uint64_t n_values; /* with those that are null */
    uint32_t codec;    /* enum psti_parquet_codec, or another one */
    bool is_encrypted;
    bool is_elsewhere; /* in another file */
};

/* Reads the footer. `source` must outlive the meta.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: this is no whole Parquet file. PST_ERROR_UNSUPPORTED: the
 * footer is encrypted. PST_ERROR_LIMIT: there are too many nodes. */
enum pst_status psti_containers_parquet_meta_open(struct psti_parquet_meta *meta,
                                                  const struct psti_walk_source *source,
                                                  struct pst_error *err);
/* A meta of zeros may be closed. */
void psti_containers_parquet_meta_close(struct psti_parquet_meta *meta);

/* Reads row group i: chunks has room for n_leaves of them. */
enum pst_status psti_containers_parquet_group(const struct psti_parquet_meta *meta, uint32_t i,
                                              struct psti_parquet_chunk *chunks, uint64_t *n_rows,
                                              struct pst_error *err);

/* Reads `nbytes` at `offset`. PST_ERROR_TRUNCATED, PST_ERROR_IO. */
enum pst_status psti_containers_parquet_read(const struct psti_walk_source *source, void *bytes,
                                             size_t nbytes, uint64_t offset, struct pst_error *err);

#endif
