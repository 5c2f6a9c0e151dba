/* containers_mds_int.h - the columns of an MDS shard; declarations shared by the files of this
 * folder. */
#ifndef PST_CONTAINERS_MDS_CONTAINERS_MDS_INT_H
#define PST_CONTAINERS_MDS_CONTAINERS_MDS_INT_H

#include "containers/list/containers_tree.h"
#include "containers/mds/containers_mds.h"

/* Groups of encodings; all encodings of a group are read in the same way. */
enum psti_mds_kind {
    PSTI_MDS_BYTES,   /* bytes */
    PSTI_MDS_TEXT,    /* str, str_decimal */
    PSTI_MDS_JSON,    /* json */
    PSTI_MDS_IMAGE,   /* jpeg, png */
    PSTI_MDS_INT,     /* int, int8, int16, int32, int64 */
    PSTI_MDS_UINT,    /* uint8, uint16, uint32, uint64 */
    PSTI_MDS_FLOAT,   /* float16, float32, float64 */
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
    uint32_t nbytes;            /* bytes of each value; 0: they vary, and each sample states them */
    enum pst_dtype dtype;       /* element type of an array; 0: each value states its own */
    enum pst_dtype first_dtype; /* element type of the array in the first sample */
    uint8_t ndim;               /* dimensions of an array; 0: each value states its own shape */
    uint32_t shape[PST_MAX_NDIM];
    uint32_t i_field; /* number of the field that psti_containers_columns_add returned */
    enum pst_field_type type;
    /* Location of the column's value in the current sample. */
    uint64_t offset, length;
    char text[PSTI_TEXT_IN_INDEX_NBYTES];
};

/* The columns that a shard's JSON states. All members zero means none. */
struct psti_mds_config {
    struct psti_tree tree;
    struct psti_mds_column *columns;
    uint32_t n, n_sized; /* number of columns; number of those whose sizes vary */
};

/* Parses the JSON of a shard. path: the shard's path, which must outlive the configuration. */
enum pst_status psti_containers_mds_config(struct psti_mds_config *config, const char *path,
                                           const char *json, size_t nbytes, struct pst_error *err);
void psti_containers_mds_config_free(struct psti_mds_config *config);
/* Compares a shard with its entry in index.json: samples, bytes and columns. It is no error if
 * there is no entry. */
enum pst_status psti_containers_mds_compare(const struct psti_mds_config *config,
                                            const struct psti_table_notes *notes, const char *path,
                                            uint64_t n_samples, uint64_t nbytes,
                                            struct pst_error *err);
/* Fills in the error for a shard that is compressed as a whole. Returns PST_ERROR_UNSUPPORTED. */
enum pst_status psti_containers_mds_is_packed(const char *path, const char *packer,
                                              struct pst_error *err);
/* Returns the program that compressed a shard, by its name: "zstd" for "a.mds.zstd"; NULL: none. */
const char *psti_containers_mds_packer(const char *path);

/* Parses the name of a column's encoding: sets kind, dtype, ndim and shape, and checks the size
 * that the shard's JSON states. */
enum pst_status psti_containers_mds_encoding(const char *path, struct psti_mds_column *column,
                                             struct pst_error *err);
/* Declares a column. Its offset and length must be set to the value in the first sample. */
enum pst_status psti_containers_mds_declare(struct psti_mds_column *column,
                                            struct psti_window *window,
                                            struct psti_containers_columns *columns,
                                            struct pst_error *err);
/* Makes the value of a column in the current sample. The column must not be left out. */
enum pst_status psti_containers_mds_value(struct psti_mds_column *column,
                                          struct psti_window *window, uint64_t i_sample,
                                          struct psti_container_value *value,
                                          struct pst_error *err);

#endif
