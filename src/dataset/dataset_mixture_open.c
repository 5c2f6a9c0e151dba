/* dataset_mixture_open.c - opens several data sets as one.
 *
 * In: open data sets, with names. Out: a handle that is an owner of each. A mixture among them is
 * replaced by its sources, with the fields that the mixture has. Then fields are merged
 * (dataset_mixture_fields.c), samples and files are numbered, and identities are computed. Runs on
 * the calling thread. */
#include "dataset/dataset_mixture.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/machine/cpu.h"
#include "base/options.h"
#include "format/format_dataset.h"

#include <penstock/index.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "dataset"
enum { NAME_CAP = 64, PATH_CAP = 1024, PATHS_SHOWN = 3 };

/* Writes the name of source i, as the caller gave it or by its number. */
static enum pst_status name_source(const struct pst_mixture_source *given, size_t i,
                                   char name[NAME_CAP], struct pst_error *err)
{
    if (given->name == NULL) {
        snprintf(name, NAME_CAP, "%zu", i);
        return PST_OK;
    }
    size_t n = strlen(given->name);
    const char *problem = psti_format_name_problem(given->name, n);
    if (problem == NULL && n >= NAME_CAP)
        problem = "is longer than 63 bytes";
    if (problem == NULL && strchr(given->name, '/') != NULL)
        problem = "has a \"/\"";
    if (problem != NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the name of source %zu, \"%.63s\", %s", i,
                         given->name, problem);
    memcpy(name, given->name, n + 1);
    return PST_OK;
}

struct name_place {
    char name[NAME_CAP];
    size_t i;
};

static int compare_places(const void *a, const void *b)
{
    return strcmp(((const struct name_place *)a)->name, ((const struct name_place *)b)->name);
}

static enum pst_status check_different(struct name_place *places, size_t n, struct pst_error *err)
{
    qsort(places, n, sizeof *places, compare_places);
    for (size_t i = 1; i < n; i++)
        if (compare_places(&places[i - 1], &places[i]) == 0) {
            size_t a = places[i - 1].i, b = places[i].i;
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                             "sources %zu and %zu have the same name \"%s\"", a < b ? a : b,
                             a < b ? b : a, places[i].name);
        }
    return PST_OK;
}

static enum pst_status check_sources(const struct pst_mixture_source *sources, size_t n,
                                     struct pst_error *err)
{
    enum pst_status status = PST_OK;
    struct name_place *places = psti_alloc_array(n, sizeof *places);
    if (places == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for %zu sources", n);
    for (size_t i = 0; status == PST_OK && i < n; i++) {
        places[i].i = i;
        if (sources[i].dataset == NULL)
            status =
                psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the data set of source %zu is NULL", i);
        else if (sources[i].n_renames > 0 && sources[i].renames == NULL)
            status = psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                               "renames of source %zu is NULL, n_renames is not", i);
        else
            status = name_source(&sources[i], i, places[i].name, err);
    }
    if (status == PST_OK)
        status = check_different(places, n, err);
    psti_free(places);
    return status;
}

/* Counts the sources after each mixture is replaced by its own sources. */
static uint64_t count_sources(const struct pst_mixture_source *sources, size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += sources[i].dataset->kind == PSTI_DATASET_MIXTURE
                     ? psti_dataset_mixture_of(sources[i].dataset)->n_sources
                     : 1;
    return count;
}

/* Sets the field names of source `to` to those of the given data set, which may be a mixture. */
static void name_fields(const pst_dataset *dataset, uint32_t i_inner, struct psti_mixture_names *to)
{
    bool is_mixture = dataset->kind == PSTI_DATASET_MIXTURE;
    to->n = dataset->n_fields;
    for (uint32_t i = 0; i < dataset->n_fields; i++) {
        to->fields[i] =
            is_mixture ? psti_dataset_mixture_of(dataset)->sources[i_inner].fields[i] : i;
        memcpy(to->names[i], dataset->fields[i].name, sizeof to->names[i]);
    }
}

/* Applies the renames of a source. All of them refer to the old names, so two fields can swap
 * theirs. */
static enum pst_status rename_fields(const struct pst_mixture_source *given, size_t i_given,
                                     struct psti_mixture_names *names, struct pst_error *err)
{
    const pst_dataset *dataset = given->dataset;
    for (size_t i = 0; i < given->n_renames; i++) {
        const char *from = given->renames[2 * i], *to = given->renames[2 * i + 1];
        if (from == NULL || to == NULL)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "a rename of source %zu is NULL",
                             i_given);
        int place = pst_dataset_find_field(dataset, from);
        const char *problem = psti_format_field_name_problem(to, sizeof names->names[0]);
        if (place < 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                             "source %zu (%.160s) has no field \"%.63s\" that could be renamed",
                             i_given, dataset->path, from);
        if (problem != NULL)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                             "the field \"%s\" of source %zu is to be renamed to \"%.63s\", which "
                             "%s",
                             from, i_given, to, problem);
        snprintf(names->names[place], sizeof names->names[place], "%s", to);
    }
    for (uint32_t i = 0; i < names->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(names->names[i], names->names[k]) == 0)
                return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                                 "two fields of source %zu (%.160s) would be called \"%s\"",
                                 i_given, dataset->path, names->names[i]);
    return PST_OK;
}

/* Adds a given data set: as one source, or a mixture as its sources. */
static enum pst_status add_given(struct psti_mixture *self, struct psti_mixture_names *names,
                                 const struct pst_mixture_source *given, size_t i_given,
                                 struct pst_error *err)
{
    bool is_mixture = given->dataset->kind == PSTI_DATASET_MIXTURE;
    const struct psti_mixture *inner = psti_dataset_mixture_of(given->dataset);
    uint32_t n = is_mixture ? inner->n_sources : 1;
    char outer[NAME_CAP], name[PST_SOURCE_NAME_CAP];
    enum pst_status status = name_source(given, i_given, outer, err);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        struct psti_mixture_source *source = &self->sources[self->n_sources];
        int length = is_mixture
                         ? snprintf(name, sizeof name, "%s/%s", outer, inner->sources[i].name)
                         : snprintf(name, sizeof name, "%s", outer);
        if (length < 0 || (size_t)length >= sizeof name)
            return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                             "the name of a source, \"%.80s...\", is longer than %d bytes", name,
                             PST_SOURCE_NAME_CAP - 1);
        source->name = psti_strdup(name);
        if (source->name == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a name");
        source->dataset = is_mixture ? inner->sources[i].dataset : given->dataset;
        pst_dataset_retain(source->dataset);
        name_fields(given->dataset, i, &names[self->n_sources]);
        self->n_sources++; /* from now on closing the mixture releases this source */
        status = rename_fields(given, i_given, &names[self->n_sources - 1], err);
    }
    return status;
}

/* Numbers samples and files. */
static enum pst_status number_all(struct psti_mixture *self, struct pst_error *err)
{
    uint64_t n_samples = 0, n_shared = 0, n_files = 0;
    self->is_packed = true;
    for (uint32_t i = 0; i < self->n_sources; i++) {
        struct psti_mixture_source *source = &self->sources[i];
        uint32_t n = psti_dataset_n_shared_files(source->dataset);
        source->first_sample = n_samples;
        source->first_shared = (uint32_t)n_shared;
        self->is_packed &= source->dataset->kind == PSTI_DATASET_PACKED;
        self->base.n_skipped += source->dataset->n_skipped;
        n_shared += n;
        n_files += source->dataset->n_files;
        if (!psti_add_u64(n_samples, source->dataset->n_samples, &n_samples) ||
            n_samples > INT64_MAX)
            return psti_fail(err, PST_ERROR_LIMIT, ROOM, "the sources have too many samples");
        if (n_files >= PST_FILE_NONE)
            return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                             "the sources have %" PRIu64 " files together, a mixture has at most "
                             "%" PRIu32,
                             n_files, PST_FILE_NONE - 1);
    }
    uint64_t first_lone = n_shared;
    for (uint32_t i = 0; i < self->n_sources; i++) {
        const pst_dataset *dataset = self->sources[i].dataset;
        self->sources[i].first_lone = (uint32_t)first_lone;
        first_lone += dataset->n_files - psti_dataset_n_shared_files(dataset);
    }
    self->base.n_samples = n_samples;
    self->base.n_files = (uint32_t)n_files;
    self->n_shared = (uint32_t)n_shared;
    return PST_OK;
}

/* Hashes an identity from those of the sources, in order, and from what decides the numbers of
 * items. False: a source has no identity of this kind. */
static bool join_identities(const struct psti_mixture *self, enum pst_identity kind,
                            uint8_t identity[16])
{
    struct psti_hash_pair hash;
    uint8_t own[PST_IDENTITY_NBYTES];
    const pst_dataset *base = &self->base;
    psti_hash_pair_begin(&hash);
    psti_hash_pair_update(&hash, "mixture", sizeof "mixture");
    for (uint32_t i = 0; i < self->n_sources; i++) {
        const struct psti_mixture_source *source = &self->sources[i];
        if (pst_dataset_identity(source->dataset, kind, own, NULL) != PST_OK)
            return false;
        psti_hash_pair_update(&hash, own, sizeof own);
        if (kind == PST_IDENTITY_FILES)
            continue;
        psti_hash_pair_update(&hash, source->fields, base->n_fields * sizeof *source->fields);
    }
    for (uint32_t i = 0; i < base->n_fields && kind != PST_IDENTITY_FILES; i++) {
        const char *name = base->fields[i].name;
        psti_hash_pair_update(&hash, name, strlen(name) + 1);
        psti_hash_pair_update(&hash, &base->fields[i].n_variants, 1);
    }
    psti_hash_pair_end(&hash, identity);
    return true;
}

static void identify(struct psti_mixture *self)
{
    pst_dataset *base = &self->base;
    join_identities(self, PST_IDENTITY_BYTES, base->bytes_identity);
    join_identities(self, PST_IDENTITY_LISTED, base->listed_identity);
    memcpy(base->id, base->listed_identity, sizeof base->id);
    base->has_files_identity = join_identities(self, PST_IDENTITY_FILES, base->files_identity);
}

/* Makes the mixture's name for messages: the paths of its sources. */
static void call_mixture(const struct psti_mixture *self, char path[PATH_CAP])
{
    struct psti_text text = {path, PATH_CAP, 0};
    uint32_t n = self->n_sources, shown = n <= PATHS_SHOWN + 1 ? n : PATHS_SHOWN;
    for (uint32_t i = 0; i < shown; i++)
        psti_text_add(&text, "%s%.200s", i > 0 ? " + " : "", self->sources[i].dataset->path);
    if (shown < n)
        psti_text_add(&text, " + %" PRIu32 " more", n - shown);
}

static enum pst_status join(struct psti_mixture *self, const struct pst_mixture_source *sources,
                            size_t n_sources, const struct pst_mixture_options *options,
                            struct pst_error *err)
{
    size_t n = (size_t)count_sources(sources, n_sources);
    struct psti_mixture_names *names = psti_calloc(n, sizeof *names);
    enum pst_status status = PST_OK;
    char path[PATH_CAP];
    self->sources = psti_calloc(n, sizeof *self->sources);
    if (names == NULL || self->sources == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for %zu sources", n);
    for (size_t i = 0; status == PST_OK && i < n_sources; i++)
        status = add_given(self, names, &sources[i], i, err);
    if (status == PST_OK)
        status = number_all(self, err);
    if (status == PST_OK)
        status = psti_dataset_mixture_join_fields(self, names, options, err);
    psti_free(names);
    if (status != PST_OK)
        return status;
    identify(self);
    call_mixture(self, path);
    psti_free(self->base.path);
    self->base.path = psti_strdup(path);
    return self->base.path != NULL ? PST_OK
                                   : psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a path");
}

static enum pst_status check_options(const struct pst_mixture_options *options,
                                     const struct pst_mixture_source *sources, size_t n_sources,
                                     struct pst_error *err)
{
    if (n_sources == 0 || sources == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "a mixture has one source or more");
    if (options->n_fields > 0 && options->fields == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "fields is NULL, n_fields is not");
    for (size_t i = 0; i < options->n_fields; i++)
        if (options->fields[i] == NULL)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "a name in fields is NULL");
    if ((unsigned)options->lacking > PST_LACKING_LEAVE_OUT)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "lacking is no enum pst_lacking: %d",
                         (int)options->lacking);
    return PST_OK;
}

enum pst_status pst_dataset_open_many(const struct pst_mixture_source *sources, size_t n_sources,
                                      const struct pst_mixture_options *options, pst_dataset **out,
                                      struct pst_error *err)
{
    struct pst_mixture_options full;
    *out = NULL;
    enum pst_status status = psti_cpu_check_mask(err);
    if (status == PST_OK)
        status = psti_options_copy(&full, sizeof full, options, ROOM, err);
    if (status == PST_OK)
        status = check_options(&full, sources, n_sources, err);
    if (status == PST_OK && n_sources > PST_MAX_SOURCES)
        status = psti_fail(err, PST_ERROR_LIMIT, ROOM, "a mixture has at most %d sources, not %zu",
                           PST_MAX_SOURCES, n_sources);
    if (status == PST_OK)
        status = check_sources(sources, n_sources, err);
    if (status == PST_OK && count_sources(sources, n_sources) > PST_MAX_SOURCES)
        status = psti_fail(err, PST_ERROR_LIMIT, ROOM,
                           "a mixture has at most %d sources, those of mixtures within it counted",
                           PST_MAX_SOURCES);
    if (status == PST_OK)
        status = psti_dataset_new("mixture", sizeof(struct psti_mixture), &psti_dataset_mixture_ops,
                                  out, err);
    if (status != PST_OK)
        return status;
    (*out)->kind = PSTI_DATASET_MIXTURE;
    status = join((struct psti_mixture *)(void *)*out, sources, n_sources, &full, err);
    if (status != PST_OK)
        pst_dataset_close(out);
    return status;
}
