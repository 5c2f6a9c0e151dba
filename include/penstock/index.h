/* index.h - what kind of thing a data set is, and the index of files that others made.
 *
 * pst_dataset_open opens tars, zips and tables as they are. The first time it walks over them and
 * saves an index: in the folder .penstock beside them, or below PENSTOCK_CACHE_DIR where that
 * cannot be written. Here is how to make that index ahead of time, and how to check it. Nothing is
 * written into the files themselves. */
#ifndef PENSTOCK_INDEX_H
#define PENSTOCK_INDEX_H

#include <penstock/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Kinds of data sets, by where their samples lie. */
enum pst_dataset_kind {
    PST_DATASET_PACKED = 1, /* in shards of Penstock */
    PST_DATASET_FOLDER = 2, /* each in files of its own, in a plain folder */
    PST_DATASET_TAR = 3,    /* in tars that others made */
    PST_DATASET_ZIP = 4,    /* in zips that others made */
    /* In tables that others made: */
    PST_DATASET_PARQUET = 5,
    PST_DATASET_ARROW = 6,    /* IPC files and streams */
    PST_DATASET_MDS = 7,      /* of MosaicML Streaming */
    PST_DATASET_TFRECORD = 8, /* with tf.train.Example */
    PST_DATASET_LMDB = 9,
    PST_DATASET_RECORDIO = 10, /* of MXNet */
    PST_DATASET_BETON = 11,    /* of FFCV */
    /* In several data sets: see <penstock/mixture.h>. */
    PST_DATASET_MIXTURE = 64
};

/* The kind of an open data set. Any thread. */
enum pst_dataset_kind pst_dataset_kind_of(const pst_dataset *dataset);

/* Name of a kind: "packed", "folder", "tar", "zip", "parquet", "arrow", "mds", "tfrecord", "lmdb",
 * "recordio", "beton" or "mixture".
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_dataset_kind_name(enum pst_dataset_kind kind);

/* The path of the saved index of files that others made.
 *
 * Returns a string that lives as long as the data set; NULL for other kinds. Any thread. */
const char *pst_dataset_index_path(const pst_dataset *dataset);

/* Options of pst_dataset_index_make. Zero-initialise, then set struct_size. */
struct pst_index_options {
    size_t struct_size;
    /* As for pst_dataset_open; its `progress` is told how far the work is. NULL: the defaults. Read
     * during the call only. */
    const struct pst_dataset_options *source;
    /* Reads all files again, also where an index fits their sizes and times, and compares what it
     * finds with that index. */
    bool check;
};

/* pst_dataset_index_make reports these. */
struct pst_index_report {
    bool was_made;  /* there was no index that fits sizes and times of the files */
    bool was_wrong; /* `check` found other samples than the index had; it was made anew */
    uint64_t index_nbytes;
    /* Zero: room for members of later versions. */
    uint64_t reserved[6];
};

/* Finds or makes the index of files that others made, and opens them. Data that was opened with the
 * old index is not touched.
 *
 * path, options->source: as for pst_dataset_open.
 * options: NULL for the defaults.
 * report: the caller's struct, written after success only; may be NULL.
 * report_nbytes: sizeof *report.
 * out: receives the handle, to be closed by pst_dataset_close; NULL after failure.
 *
 * A plain folder is opened only.
 *
 * PST_ERROR_ARGUMENT: a packed data set, which has its index.
 * PST_ERROR_CANCELLED: `progress` said so.
 * Others as for pst_dataset_open.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_index_make(const char *path,
                                                       const struct pst_index_options *options,
                                                       struct pst_index_report *report,
                                                       size_t report_nbytes, pst_dataset **out,
                                                       struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
