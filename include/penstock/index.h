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
    uint32_t reserved; /* 0; was padding before */
    /* Several processes, on one machine or many, make the index of one set of files, each of some
     * of them: this is part `part` of `n_parts`, from 1. 0, 0: no part. What a part finds is kept
     * where the index will lie, a file for each of the data's files. So the number of parts may
     * differ from run to run, what is there already is not done again, and processes may be killed.
     * With source->sums the items are read, and their sums are kept, too. */
    uint32_t part, n_parts;
    /* Makes the index of what the parts have found, and removes that. The index is the one that a
     * single process makes. Where there is an index that fits, only the rest of the parts is
     * removed. */
    bool merge;
};

/* pst_dataset_index_make reports these. */
struct pst_index_report {
    bool was_made;  /* there was no index that fits sizes and times of the files */
    bool was_wrong; /* `check` found other samples than the index had; it was made anew */
    uint64_t index_nbytes;
    uint64_t n_files;       /* of a part: files of the data that belong to it */
    uint64_t n_made_before; /* of them, files that were done before */
    /* Zero: room for members of later versions. */
    uint64_t reserved[4];
};

/* Finds or makes the index of files that others made, and opens them. Data that was opened with the
 * old index is not touched.
 *
 * path, options->source: as for pst_dataset_open.
 * options: NULL for the defaults.
 * report: the caller's struct, written after success only; may be NULL.
 * report_nbytes: sizeof *report.
 * out: receives the handle, to be closed by pst_dataset_close; NULL after failure, and for a part.
 *
 * A plain folder is opened only.
 *
 * PST_ERROR_ARGUMENT: a packed data set, which has its index; a plain folder in parts, or several
 *     of a part, `merge` and `check`.
 * PST_ERROR_CANCELLED: `progress` said so.
 * PST_ERROR_INCOMPLETE: `merge`, and files of the data are in no part yet; the text has their
 *     number and the first of them.
 * PST_ERROR_STATE: `merge`, and a file changed since its part was made, or the part was made with
 *     other options, has no sums, or belongs to another user. PST_ERROR_CORRUPT, CHECKSUM: what a
 *     part has kept is damaged. The error names the file.
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
