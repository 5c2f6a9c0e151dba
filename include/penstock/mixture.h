/* mixture.h - several data sets as one.
 *
 * The samples of a mixture are those of its sources, one source after the other, each once. A
 * mixture is a data set like any other for the functions of <penstock/dataset.h> and
 * <penstock/loader.h>. A loader may draw its sources by weights
 * (pst_loader_options.source_weights). Caches keep items under the data sets that they are of. */
#ifndef PENSTOCK_MIXTURE_H
#define PENSTOCK_MIXTURE_H

#include <penstock/dataset.h>
#include <penstock/loader.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Limit of the sources of a mixture, and bytes that the name of one takes at most, with its NUL. */
#define PST_MAX_SOURCES 4096
#define PST_SOURCE_NAME_CAP 256

/* One source of a mixture. Zero-initialise. */
struct pst_mixture_source {
    /* An open data set of any kind, also a mixture. The same one may be given several times. */
    pst_dataset *dataset;
    /* UTF-8, without "/", unlike those of the other sources, at most 63 bytes. NULL: the number of
     * the source, "0" for the first one. */
    const char *name;
    /* Other names for fields, by two: the field's name in the data set, and the one that it has in
     * the mixture. NULL: none. n_renames: the number of pairs. */
    const char *const *renames;
    size_t n_renames;
    /* Zero: room for members of later versions. */
    uint64_t reserved[4];
};

/* Says what becomes of a field that some sources have and others lack. */
enum pst_lacking {
    PST_LACKING_ERROR = 0,    /* PST_ERROR_ARGUMENT */
    PST_LACKING_LEAVE_OUT = 1 /* the mixture does not have the field */
};

/* Options of pst_dataset_open_many. Zero-initialise, then set struct_size. */
struct pst_mixture_options {
    size_t struct_size;
    /* Names of the fields that the mixture has, as they are after renames. The others are left out.
     * All sources must have them. NULL: all fields. */
    const char *const *fields;
    size_t n_fields;
    /* For fields that are not named in `fields`. */
    enum pst_lacking lacking;
};

/* Opens several data sets as one.
 *
 * Fields of one name are one field. They must have the same type, dtype and made_for. Arrays of
 * different shapes become ragged. Labels, also those in arrays, keep their numbers where all tables
 * of classes are equal. Where they differ and all classes have names, classes of one name are one:
 * the table has the names in the order in which they first come, and labels get its numbers. Fields
 * are in the order in which they first come.
 *
 * The name of a sample is that of its source, "/", and the name in its data set. A mixture within a
 * mixture counts as its own sources, whose names are "outer/inner". Identities are made of those of
 * the data sets in their order; names of sources do not enter.
 *
 * sources: n_sources of them, 1 to PST_MAX_SOURCES. Read during the call only; the mixture becomes
 *     an owner of each data set.
 * options: NULL for the defaults. Read during the call only, with all that it points to.
 * out: receives the handle, to be closed by pst_dataset_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: fields do not fit together, one is lacking, or a name cannot be used; the
 * text names the sources, and what can be done. PST_ERROR_LIMIT: too many sources, fields, files or
 * samples. PST_ERROR_MEMORY. PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: an index cannot
 * be read.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_open_many(const struct pst_mixture_source *sources,
                                                      size_t n_sources,
                                                      const struct pst_mixture_options *options,
                                                      pst_dataset **out, struct pst_error *err);

/* Number of sources of a mixture, those of mixtures within it counted one by one. 0 for any other
 * data set. Any thread. */
uint32_t pst_dataset_n_sources(const pst_dataset *dataset);

/* The data set of a source. It is no mixture.
 *
 * i_source: 0 to pst_dataset_n_sources() - 1.
 *
 * Returns a handle that lives as long as the mixture, NULL if there is no such source. Any thread.
 */
const pst_dataset *pst_dataset_source(const pst_dataset *dataset, uint32_t i_source);

/* The name of a source, "outer/inner" within a mixture of a mixture.
 *
 * i_source: 0 to pst_dataset_n_sources() - 1.
 *
 * Returns a string that lives as long as the mixture, NULL if there is no such source. Any thread.
 */
const char *pst_dataset_source_name(const pst_dataset *dataset, uint32_t i_source);

/* Number in the mixture of the first sample of a source. Its samples follow one another.
 *
 * i_source: 0 to pst_dataset_n_sources() - 1; n_sources gives the number of all samples.
 *
 * Any thread. */
uint64_t pst_dataset_source_first(const pst_dataset *dataset, uint32_t i_source);

/* Says of which source a sample of a mixture is.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * i_source: receives the number of the source after success.
 * own: receives the number of the sample in that data set. May be NULL.
 *
 * PST_ERROR_ARGUMENT: there is no such sample, or the data set is no mixture.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_source_of(const pst_dataset *dataset, uint64_t sample,
                                                      uint32_t *i_source, uint64_t *own,
                                                      struct pst_error *err);

/* Sets the places of the order from which on the sources have other weights
 * (pst_loader_options.source_weights). Replaces all changes that were set before.
 *
 * A change takes effect with the first block of source_quota positions that begins at its place or
 * behind it. Within an epoch each source goes on with the samples that it has not given yet. The
 * length of an epoch does not change. What was prepared ahead is thrown away. Ranks that train
 * together make the same call behind the same batch, with the place that pst_loader_step_place
 * gives.
 *
 * Resume: the changes are part of the order, so order_hash of a state depends on them. The caller
 * saves them beside the state, and gives them to this function before pst_loader_resume.
 *
 * places: u64 (n,2), epoch and position of each change, not falling.
 * weights: f64 (n, n_source_weights), rounded to 1/65,536 of their sum where that is needed.
 * n: 0 to 1024; 0 leaves the weights of the options.
 *
 * PST_ERROR_ARGUMENT: a weight is negative or not finite, all are 0, one is too small, or a source
 *     with a weight has no samples; a place is before the one in front of it, or beyond the epoch;
 *     the loader has no source_weights. PST_ERROR_LIMIT: too many changes, or host_memory is too
 *     small for their tables. PST_ERROR_MEMORY, PST_ERROR_FORKED. Nothing is changed then.
 *
 * No other call of this loader may be in progress. */
PST_WARN_UNUSED enum pst_status pst_loader_set_source_weights(pst_loader *loader,
                                                              const uint64_t *places,
                                                              const double *weights, uint32_t n,
                                                              struct pst_error *err);

/* Gives the place at which the next step of all ranks begins, for a change of weights that they
 * make there. It is that of pst_loader_state, but for one case: without padding (no_epoch_padding)
 * a rank may have had its last batch while others still have one. Then it is the place of theirs.
 * It stays so behind PST_END until another epoch begins; a rank that goes on with the next epoch
 * uses pst_loader_state.
 *
 * place: u64 (2), receives epoch and position.
 *
 * Cannot fail. One thread at a time for each loader. */
void pst_loader_step_place(const pst_loader *loader, uint64_t place[2]);

/* Rows that were delivered of each source of a loader's mixture since the loader was opened.
 *
 * rows: u64 (n); those of sources that do not exist become 0.
 * n: as a rule pst_dataset_n_sources().
 *
 * Any thread. In a forked child all are 0. */
void pst_loader_source_rows(const pst_loader *loader, uint64_t *rows, uint32_t n);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
