/* index.h - kinds of data sets, and the index of data that other software made.
 *
 * pst_dataset_open opens tars, zips and tables without conversion. The first open scans them and
 * saves an index in the folder .penstock beside them, or below PENSTOCK_CACHE_DIR if that folder
 * cannot be written. The functions here make or check that index ahead of time. The data files
 * themselves are never written to. */
#ifndef PENSTOCK_INDEX_H
#define PENSTOCK_INDEX_H

#include <penstock/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Kinds of data sets, by the files that hold their samples. */
enum pst_dataset_kind {
    PST_DATASET_PACKED = 1, /* shards of Penstock */
    PST_DATASET_FOLDER = 2, /* a plain folder with a file for each value */
    PST_DATASET_TAR = 3,    /* tars of other software */
    PST_DATASET_ZIP = 4,    /* zips of other software */
    /* Tables of other software: */
    PST_DATASET_PARQUET = 5,
    PST_DATASET_ARROW = 6,    /* Arrow IPC files and streams */
    PST_DATASET_MDS = 7,      /* MDS of MosaicML Streaming */
    PST_DATASET_TFRECORD = 8, /* TFRecord with tf.train.Example */
    PST_DATASET_LMDB = 9,
    PST_DATASET_RECORDIO = 10, /* RecordIO of MXNet */
    PST_DATASET_BETON = 11,    /* beton of FFCV */
    /* Several data sets opened as one: see <penstock/mixture.h>. */
    PST_DATASET_MIXTURE = 64
};

/* Returns the kind of an open data set. Any thread. */
enum pst_dataset_kind pst_dataset_kind_of(const pst_dataset *dataset);

/* Name of a kind: "packed", "folder", "tar", "zip", "parquet", "arrow", "mds", "tfrecord", "lmdb",
 * "recordio", "beton" or "mixture".
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_dataset_kind_name(enum pst_dataset_kind kind);

/* Gives the path of the saved index of tars, zips or tables.
 *
 * Returns a string that lives as long as the data set; NULL for other kinds. Any thread. */
const char *pst_dataset_index_path(const pst_dataset *dataset);

/* Options of pst_dataset_index_make. Zero-initialise, then set struct_size. */
struct pst_index_options {
    size_t struct_size;
    /* Options of opening the data, as for pst_dataset_open. Their `progress` gets the progress of
     * the work. NULL: the defaults. Read during the call only. */
    const struct pst_dataset_options *source;
    /* True: reads all files again even if the index fits their sizes and times, and compares the
     * result with the index. */
    bool check;
    uint32_t reserved; /* must be 0; was struct padding before */
    /* Several processes, on one machine or many, can make the index of one set of files together;
     * each handles some of the files. This call does part number `part` of n_parts, counted from 1;
     * 0, 0: everything. Each part saves its results beside the place of the index, in one file for
     * each data file. So n_parts may change between runs, finished files are not done again, and
     * processes may be killed. With source->sums a part also reads the items and saves their
     * checksums. */
    uint32_t part, n_parts;
    /* True: makes the index from the saved results of all parts, and removes these results. The
     * index equals the one that a single process makes. If a valid index exists, only leftover
     * results are removed. */
    bool merge;
};

/* The results of pst_dataset_index_make. */
struct pst_index_report {
    bool was_made; /* there was no index that fits the files' sizes and times */
    /* `check` found samples that differ from the index, which was then made again. */
    bool was_wrong;
    uint64_t index_nbytes;
    uint64_t n_files;       /* in parts: data files that belong to this part */
    uint64_t n_made_before; /* data files of this part that were finished before */
    /* Zero. Reserved for later versions. */
    uint64_t reserved[4];
};

/* Finds or makes the index of tars, zips or tables, and opens them. Handles that are open with an
 * old index are not affected.
 *
 * path, options->source: as for pst_dataset_open.
 * options: NULL for the defaults.
 * report: the caller's struct, written after success only; may be NULL.
 * report_nbytes: sizeof *report.
 * out: receives the handle, to be closed by pst_dataset_close; NULL after failure, and for a part.
 *
 * A plain folder has no such index and is only opened.
 *
 * PST_ERROR_ARGUMENT: a packed data set, which has its own index; a plain folder in parts; or more
 *     than one of `part`, `merge` and `check`.
 * PST_ERROR_CANCELLED: the progress function cancelled the call.
 * PST_ERROR_INCOMPLETE: `merge`, but no part has handled some of the files yet; the text gives
 *     their number and the first of them.
 * PST_ERROR_STATE: `merge`, but a file changed since its part was made, or the part was made with
 *     other options, has no checksums, or belongs to another user. PST_ERROR_CORRUPT,
 *     PST_ERROR_CHECKSUM: the saved result of a part is damaged. The error names the file.
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
