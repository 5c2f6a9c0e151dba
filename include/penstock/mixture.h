/* mixture.h - several data sets opened as one data set.
 *
 * A mixture has all samples of its sources, one source after the other. The functions of
 * <penstock/dataset.h> and <penstock/loader.h> treat it like any other data set. A loader may draw
 * from the sources by weights (pst_loader_options.source_weights). Caches file an item under the
 * data set that it comes from, not under the mixture. */
#ifndef PENSTOCK_MIXTURE_H
#define PENSTOCK_MIXTURE_H

#include <penstock/dataset.h>
#include <penstock/loader.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Largest number of sources, and largest size of a source's name in bytes, with its NUL. */
#define PST_MAX_SOURCES 4096
#define PST_SOURCE_NAME_CAP 256

/* One source of a mixture. Zero-initialise. */
struct pst_mixture_source {
    /* An open data set of any kind, even a mixture. A data set may be given several times. */
    pst_dataset *dataset;
    /* Name of the source: UTF-8, without "/", different from the others, at most 63 bytes. NULL:
     * the index of the source as text, "0" for the first. */
    const char *name;
    /* New names for fields: n_renames pairs of strings, the field's name in the data set and its
     * name in the mixture. NULL: none. */
    const char *const *renames;
    size_t n_renames;
    /* Zero. Reserved for later versions. */
    uint64_t reserved[4];
};

/* The ways to treat a field that only some of the sources have. */
enum pst_lacking {
    PST_LACKING_ERROR = 0,    /* PST_ERROR_ARGUMENT */
    PST_LACKING_LEAVE_OUT = 1 /* the mixture gets no such field */
};

/* Options of pst_dataset_open_many. Zero-initialise, then set struct_size. */
struct pst_mixture_options {
    size_t struct_size;
    /* Names of the fields that the mixture shall have, after renames; all sources must have them.
     * Other fields are left out. NULL: all fields. */
    const char *const *fields;
    size_t n_fields;
    /* Applies to fields that are not named in `fields`. */
    enum pst_lacking lacking;
};

/* Opens several data sets as one.
 *
 * Fields with the same name are combined. They must have the same type, dtype and made_for. Arrays
 * of different shapes become ragged. If all class tables of a label field are equal, labels (also
 * in arrays) keep their numbers. If they differ and all classes have names, classes with the same
 * name are combined: the new table has the names in the order of first appearance, and labels are
 * renumbered to it. Fields are in the order of first appearance.
 *
 * The name of a sample is its source's name, "/", and its name in the data set. A mixture within a
 * mixture is replaced by its sources, whose names become "outer/inner". Identities are derived from
 * those of the data sets in order, not from the names of sources.
 *
 * sources: n_sources elements, 1 to PST_MAX_SOURCES. Read during the call only; the mixture becomes
 *     an owner of each data set.
 * options: NULL for the defaults. Read during the call only, with all that it points to.
 * out: receives the handle, to be closed by pst_dataset_close; NULL after failure.
 *
 * PST_ERROR_ARGUMENT: fields cannot be combined, one is missing, or a name is invalid; the text
 * names the sources and a remedy. PST_ERROR_LIMIT: too many sources, fields, files or samples.
 * PST_ERROR_MEMORY. PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: an index cannot be read.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_open_many(const struct pst_mixture_source *sources,
                                                      size_t n_sources,
                                                      const struct pst_mixture_options *options,
                                                      pst_dataset **out, struct pst_error *err);

/* Number of sources of a mixture, where a mixture within it counts as its sources. 0 for any other
 * data set. Any thread. */
uint32_t pst_dataset_n_sources(const pst_dataset *dataset);

/* Gives the data set of a source, which is never a mixture.
 *
 * i_source: 0 to pst_dataset_n_sources() - 1.
 *
 * Returns a handle that lives as long as the mixture, NULL if there is no such source. Any thread.
 */
const pst_dataset *pst_dataset_source(const pst_dataset *dataset, uint32_t i_source);

/* Gives the name of a source, which is "outer/inner" in a mixture of mixtures.
 *
 * i_source: 0 to pst_dataset_n_sources() - 1.
 *
 * Returns a string that lives as long as the mixture, NULL if there is no such source. Any thread.
 */
const char *pst_dataset_source_name(const pst_dataset *dataset, uint32_t i_source);

/* Gives the number, within the mixture, of a source's first sample. A source's samples are
 * consecutive.
 *
 * i_source: 0 to pst_dataset_n_sources() - 1; n_sources gives the number of all samples.
 *
 * Any thread. */
uint64_t pst_dataset_source_first(const pst_dataset *dataset, uint32_t i_source);

/* Says which source a sample of a mixture belongs to.
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

/* Sets the places of the order at which the weights of sources change
 * (pst_loader_options.source_weights). It replaces all changes set before.
 *
 * A change takes effect with the first block of source_quota positions that begins at or after its
 * place. Within an epoch each source continues with samples that it has not delivered yet. The
 * length of an epoch does not change. Prepared batches are discarded. Ranks that train together
 * must make the same call after the same batch, with the place from pst_loader_step_place.
 *
 * Resume: the changes are part of the order, so a state's order_hash depends on them. The caller
 * must save them with the state, and pass them to this function before pst_loader_resume.
 *
 * places: u64 (n,2), epoch and position of each change, in ascending order (equal is allowed).
 * weights: f64 (n, n_source_weights), rounded to 1/65,536 of their sum where necessary.
 * n: 0 to 1024; 0 keeps the weights of the options.
 *
 * PST_ERROR_ARGUMENT: a weight is negative or not finite, all are 0, one is too small, or a source
 *     with a weight has no samples; a place lies before the previous one or beyond the epoch; the
 *     loader has no source_weights. PST_ERROR_LIMIT: too many changes, or host_memory is too small
 *     for their tables. PST_ERROR_MEMORY, PST_ERROR_FORKED. After an error nothing is changed.
 *
 * No other call of this loader may be in progress. */
PST_WARN_UNUSED enum pst_status pst_loader_set_source_weights(pst_loader *loader,
                                                              const uint64_t *places,
                                                              const double *weights, uint32_t n,
                                                              struct pst_error *err);

/* Gives the place at which the next step of all ranks begins, for a change of weights there. It
 * equals that of pst_loader_state except in one case: without padding (no_epoch_padding), a rank
 * may have had its last batch while others still have one. Then the place is that of the others'
 * batch. It stays the same after PST_END until another epoch begins; a rank that goes on with the
 * next epoch should use pst_loader_state.
 *
 * place: u64 (2), receives epoch and position.
 *
 * Cannot fail. One thread at a time for each loader. */
void pst_loader_step_place(const pst_loader *loader, uint64_t place[2]);

/* Counts the rows that a loader of a mixture has delivered from each source since it was opened.
 *
 * rows: u64 (n), the counts by source; elements beyond the last source become 0.
 * n: length of rows, usually pst_dataset_n_sources().
 *
 * Any thread. In a forked child all are 0. */
void pst_loader_source_rows(const pst_loader *loader, uint64_t *rows, uint32_t n);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
