/* containers_parquet_meta.h - the footer of a Parquet file: its schema, and the locations of its
 * columns' chunks.
 *
 * A row group is a run of rows. It has one chunk for each leaf of the schema. The footer's bytes
 * are kept, and row groups are parsed from them one at a time, because a file may have 100,000 of
 * them. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_META_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_META_H

#include "containers/containers_window.h"
#include "containers/parquet/containers_parquet_thrift.h"

/* Physical types of values, with Parquet's numbers. */
enum psti_parquet_type {
    PSTI_PARQUET_BOOLEAN = 0,
    PSTI_PARQUET_INT32 = 1,
    PSTI_PARQUET_INT64 = 2,
    PSTI_PARQUET_INT96 = 3,
    PSTI_PARQUET_FLOAT = 4,
    PSTI_PARQUET_DOUBLE = 5,
    PSTI_PARQUET_BYTE_ARRAY = 6,
    PSTI_PARQUET_FIXED = 7, /* byte arrays that all have the same length */
    PSTI_PARQUET_GROUP = 8, /* a group, not a leaf; this number is not Parquet's */
};

enum psti_parquet_repetition {
    PSTI_PARQUET_REQUIRED = 0,
    PSTI_PARQUET_OPTIONAL = 1,
    PSTI_PARQUET_REPEATED = 2,
};

/* Meanings of values. Logical types and older converted types are mapped to the same meanings. */
enum psti_parquet_meaning {
    PSTI_MEANING_NONE = 0,
    PSTI_MEANING_TEXT,
    PSTI_MEANING_JSON,
    PSTI_MEANING_LIST,
    PSTI_MEANING_MAP,
    PSTI_MEANING_DECIMAL,
    PSTI_MEANING_UNSIGNED, /* unsigned integers */
    PSTI_MEANING_FLOAT16,
    PSTI_MEANING_NULL,  /* the column has only nulls */
    PSTI_MEANING_OTHER, /* all that does not change the field: dates, signed integers, UUIDs */
};

/* How a chunk is compressed, with Parquet's numbers. */
enum psti_parquet_codec {
    PSTI_PARQUET_UNCOMPRESSED = 0,
    PSTI_PARQUET_SNAPPY = 1,
    PSTI_PARQUET_ZSTD = 6,
};

/* A node of the schema. Nodes are in pre-order: each node comes before its children. */
struct psti_parquet_node {
    struct psti_thrift_text name;
    enum psti_parquet_type type;
    enum psti_parquet_repetition repetition;
    enum psti_parquet_meaning meaning;
    uint32_t width;      /* bytes of a value of PSTI_PARQUET_FIXED */
    uint32_t scale;      /* digits after the decimal point of a decimal */
    uint32_t n_children; /* 0: a leaf */
    uint32_t parent;     /* index of the parent node */
    uint32_t end;        /* index of the first node behind this node and its descendants */
    uint32_t i_leaf;     /* index of a leaf among all leaves; for other nodes the index of the next
                          * leaf */
    uint8_t n_def;       /* definition level of an entry in which this node is not null */
    uint8_t n_rep;       /* number of repeated nodes from the root to this node */
};

enum {
    PSTI_PARQUET_MAX_DEPTH = 32,
    PSTI_PARQUET_MAX_NODES = 1 << 16,
};

struct psti_parquet_meta {
    const struct psti_walk_source *source;
    uint8_t *footer;
    size_t nbytes;   /* bytes of the footer */
    uint64_t offset; /* offset of the footer in the file: all pages end before it */
    struct psti_parquet_node *nodes;
    uint32_t n_nodes, n_leaves;
    uint32_t *leaves; /* node indices of the leaves */
    uint64_t n_rows;
    size_t *groups; /* [i]: offset in the footer at which row group i begins */
    uint32_t n_groups;
    struct psti_thrift_text hub; /* value of the key "huggingface"; empty if there is none */
};

/* The data of one leaf in one row group. */
struct psti_parquet_chunk {
    uint64_t offset;   /* offset of the chunk's first page */
    uint64_t n_values; /* number of values, including nulls */
    uint32_t codec;    /* enum psti_parquet_codec, or an unknown number */
    bool is_encrypted;
    bool is_elsewhere; /* the data lies in another file */
};

/* Reads the footer. `source` must outlive the meta.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the file is no complete Parquet file.
 * PST_ERROR_UNSUPPORTED: the footer is encrypted.
 * PST_ERROR_LIMIT: the schema has too many nodes. */
enum pst_status psti_containers_parquet_meta_open(struct psti_parquet_meta *meta,
                                                  const struct psti_walk_source *source,
                                                  struct pst_error *err);
/* Frees the meta's memory. A meta whose members are all zero is fine. */
void psti_containers_parquet_meta_close(struct psti_parquet_meta *meta);

/* Parses row group i: fills n_leaves chunks and *n_rows. */
enum pst_status psti_containers_parquet_group(const struct psti_parquet_meta *meta, uint32_t i,
                                              struct psti_parquet_chunk *chunks, uint64_t *n_rows,
                                              struct pst_error *err);

/* Reads `nbytes` bytes at `offset`. PST_ERROR_TRUNCATED: the file ends early. PST_ERROR_IO. */
enum pst_status psti_containers_parquet_read(const struct psti_walk_source *source, void *bytes,
                                             size_t nbytes, uint64_t offset, struct pst_error *err);

#endif
