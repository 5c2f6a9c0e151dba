/* containers_mds_int.h - the columns of a shard, between the files of this folder. */
#ifndef PST_CONTAINERS_MDS_CONTAINERS_MDS_INT_H
#define PST_CONTAINERS_MDS_CONTAINERS_MDS_INT_H

#include "containers/list/containers_tree.h"
#include "containers/mds/containers_mds.h"

/* Groups of encodings that are read in one way. */
enum psti_mds_kind {
    PSTI_MDS_BYTES,   /* bytes */
    PSTI_MDS_TEXT,    /* str, str_decimal */
    PSTI_MDS_JSON,    /* json */
    PSTI_MDS_IMAGE,   /* jpeg, png */
    PSTI_MDS_INT,     /* int, int8 to int64 */
    PSTI_MDS_UINT,    /* uint8 to uint64 */
    PSTI_MDS_FLOAT,   /* float16 to float64 */
    PSTI_MDS_STR_INT, /* str_int */
    PSTI_MDS_STR_FLOAT,
    PSTI_MDS_NDARRAY,
    PSTI_MDS_PIL,
    PSTI_MDS_CODE,   /* pkl */
    PSTI_MDS_IMAGES, /* jpeg_array, list[jpeg], list[png], list[pil] */
};

struct psti_mds_column {
    const char *name, *encoding; /* the configuration's */
    enum psti_mds_kind kind;
    uint32_t nbytes;            /* of each value; 0: they differ, and are stated with each sample */
    enum pst_dtype dtype;       /* of an array; 0: stated with each value */
    enum pst_dtype first_dtype; /* of the array of the first sample */
    uint8_t ndim;               /* of an array; 0: its shape is stated with each value */
    uint32_t shape[PST_MAX_NDIM];
    uint32_t i_field; /* as psti_containers_columns_add gave it */
    enum pst_field_type type;
    /* Of the sample that is being read. */
    uint64_t offset, length;
    char text[PSTI_TEXT_IN_INDEX_NBYTES];
};

/* The configuration of a shard. All zero is empty. */
struct psti_mds_config {
    struct psti_tree tree;
    struct psti_mds_column *columns;
    uint32_t n, n_sized; /* n_sized: of those whose sizes differ */
};

/* Reads the JSON of a shard. path: the shard's, which outlives the configuration. */
enum pst_status psti_containers_mds_config(struct psti_mds_config *config, const char *path,
                                           const char *json, size_t nbytes, struct pst_error *err);
void psti_containers_mds_config_free(struct psti_mds_config *config);
/* Compares what a shard has with its entry in index.json: samples, bytes and columns. A shard
 * without an entry is fine. */
enum pst_status psti_containers_mds_compare(const struct psti_mds_config *config,
                                            const struct psti_table_notes *notes, const char *path,
                                            uint64_t n_samples, uint64_t nbytes,
                                            struct pst_error *err);
/* Makes the error for a shard that is compressed as a whole. Returns PST_ERROR_UNSUPPORTED. */
enum pst_status psti_containers_mds_is_packed(const char *path, const char *packer,
                                              struct pst_error *err);
/* The program that packed a shard of this name: "zstd" of "a.mds.zstd"; NULL: none. */
const char *psti_containers_mds_packer(const char *path);

/* Reads the name of an encoding: fills kind, dtype, ndim and shape, and checks the size that the
 * configuration states. */
enum pst_status psti_containers_mds_encoding(const char *path, struct psti_mds_column *column,
                                             struct pst_error *err);
/* Declares a column, of which offset and length are those of the first sample. */
enum pst_status psti_containers_mds_declare(struct psti_mds_column *column,
                                            struct psti_window *window,
                                            struct psti_containers_columns *columns,
                                            struct pst_error *err);
/* Makes the value of a column that is not left out, of the sample that is being read. */
enum pst_status psti_containers_mds_value(struct psti_mds_column *column,
                                          struct psti_window *window, uint64_t i_sample,
                                          struct psti_container_value *value,
                                          struct pst_error *err);

#endif
