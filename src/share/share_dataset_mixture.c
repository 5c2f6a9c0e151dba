/* share_dataset_mixture.c - converts a mixture to descriptors, and back.
 *
 * In: an open mixture. Out: a blob that describes its fields and where they come from, and the
 * descriptors of its data sets, each of which is sent once. The service opens the data sets and
 * makes the same mixture. The identity tells whether it is the same. Names of sources are left out,
 * because nothing that is prepared depends on them. The blob has, with little-endian numbers:
 *
 *     n_sets u32, n_fields u32, n_sources u32
 *     for each field: its name
 *     for each data set: what psti_share_put_one writes
 *     for each source: its data set u32, and its number of each field u32
 *
 * Parsing trusts no byte. Any thread. */
#include "share/share_dataset_options.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/files/sealed.h"
#include "base/hash.h"
#include "dataset/dataset.h"

#include <penstock/mixture.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOB_NBYTES_MAX ((size_t)16 << 20)
/* Maximum number of bytes that psti_share_put_one writes. */
#define ONE_NBYTES ((size_t)PSTI_TEXT_CAP + PST_MAX_FIELDS * (PST_MAX_FIELDS + 4) + 64)
enum { NAME_CAP = PST_MAX_FIELDS }; /* bytes of a field's name, with its NUL */

/* A mixture, as parsed from its blob. */
struct described {
    uint32_t n_sets, n_fields, n_sources;
    char names[PST_MAX_FIELDS][NAME_CAP];
    struct psti_share_dataset *sets; /* [n_sets] */
    uint32_t *sources;               /* [n_sources][1 + n_fields] for each source: its data set,
                                        then its numbers of the fields */
};

static bool is_plain(const struct pst_dataset_options *options)
{
    return !options->labels && options->n_files == 0 && options->n_masks == 0;
}

/* True if sources a and b are the same data set with the same options, so that it need be sent only
 * once. */
static bool are_same(const pst_dataset *a, const pst_dataset *b)
{
    const struct pst_dataset_options *x = psti_dataset_options(a), *y = psti_dataset_options(b);
    return a == b || (is_plain(x) && is_plain(y) && x->allow_unreadable == y->allow_unreadable &&
                      x->ignore_labels == y->ignore_labels &&
                      strcmp(pst_dataset_path(a), pst_dataset_path(b)) == 0 &&
                      memcmp(psti_dataset_bytes_identity(a), psti_dataset_bytes_identity(b),
                             PST_IDENTITY_NBYTES) == 0);
}

/* Finds the distinct data sets of the sources. firsts: receives the first source with each data
 * set. of_source: receives for each source the number of its data set. Returns how many data sets
 * there are, or most + 1 if they are too many. */
static uint32_t find_sets(const pst_dataset *dataset, uint32_t *firsts, uint32_t *of_source,
                          uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < pst_dataset_n_sources(dataset) && n <= most; i++) {
        const pst_dataset *source = pst_dataset_source(dataset, i);
        uint32_t k = 0;
        while (k < n && !are_same(pst_dataset_source(dataset, firsts[k]), source))
            k++;
        of_source[i] = k;
        if (k == n && n++ < most)
            firsts[k] = i;
    }
    return n;
}

static enum pst_status fail_sets(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_LIMIT, "share",
                     "the host service takes mixtures of %d folders, label files and indexes",
                     PSTI_SHARE_DATASET_FDS - 1);
}

/* Writes the description of the mixture, and adds the descriptors of its data sets. */
static enum pst_status describe(const pst_dataset *dataset, const uint32_t *firsts, uint32_t n_sets,
                                const uint32_t *of_source, struct psti_wire_out *out, int *fds,
                                uint32_t *n_fds, struct pst_error *err)
{
    uint32_t n_fields = pst_dataset_n_fields(dataset), n_sources = pst_dataset_n_sources(dataset);
    enum pst_status status = PST_OK;
    psti_share_put_u32(out, n_sets);
    psti_share_put_u32(out, n_fields);
    psti_share_put_u32(out, n_sources);
    for (uint32_t f = 0; f < n_fields; f++)
        psti_share_put_text(out, pst_dataset_field(dataset, f)->name);
    for (uint32_t i = 0; status == PST_OK && i < n_sets; i++) {
        int own[PSTI_SHARE_ONE_FDS];
        uint32_t n = 0;
        status = psti_share_put_one(out, pst_dataset_source(dataset, firsts[i]), own, &n, err);
        bool fits = status != PST_OK || *n_fds + n <= PSTI_SHARE_DATASET_FDS;
        for (uint32_t k = 0; k < n; k++)
            if (fits)
                fds[(*n_fds)++] = own[k];
            else
                close(own[k]);
        if (!fits)
            status = fail_sets(err);
    }
    for (uint32_t i = 0; i < n_sources; i++) {
        psti_share_put_u32(out, of_source[i]);
        for (uint32_t f = 0; f < n_fields; f++)
            psti_share_put_u32(out, psti_dataset_source_field(dataset, i, f));
    }
    if (status == PST_OK && (out->full || out->nbytes > BLOB_NBYTES_MAX))
        status = psti_fail(err, PST_ERROR_LIMIT, "share", "the mixture's description is too long");
    return status;
}

enum pst_status psti_share_put_mixture(const pst_dataset *dataset, int fds[PSTI_SHARE_DATASET_FDS],
                                       uint32_t *n_fds, struct pst_error *err)
{
    const uint32_t most = PSTI_SHARE_DATASET_FDS - 1, n_sources = pst_dataset_n_sources(dataset);
    uint32_t firsts[PSTI_SHARE_DATASET_FDS], n_sets = 0;
    uint32_t *of_source = psti_alloc_array(n_sources, sizeof *of_source);
    struct psti_wire_out out = {.nbytes = 0};
    enum pst_status status = PST_OK;
    *n_fds = 0;
    if (of_source)
        n_sets = find_sets(dataset, firsts, of_source, most);
    if (n_sets > most)
        status = fail_sets(err);
    out.capacity = 64 + PST_MAX_FIELDS * (NAME_CAP + 4) + n_sets * ONE_NBYTES +
                   (size_t)n_sources * (1 + pst_dataset_n_fields(dataset)) * 4;
    if (status == PST_OK)
        out.bytes = psti_alloc(out.capacity);
    if (status == PST_OK && (!of_source || !out.bytes))
        status = psti_fail(err, PST_ERROR_MEMORY, "share", "no memory to describe a mixture");
    fds[0] = -1;
    *n_fds = 1;
    if (status == PST_OK)
        status = describe(dataset, firsts, n_sets, of_source, &out, fds, n_fds, err);
    if (status == PST_OK)
        status = psti_sealed_blob_make("penstock-mixture", out.bytes, out.nbytes, &fds[0], err);
    while (status != PST_OK && *n_fds > 0)
        if (fds[--*n_fds] >= 0)
            close(fds[*n_fds]);
    psti_free(out.bytes);
    psti_free(of_source);
    return status;
}

static void clear(struct described *mixture)
{
    psti_free(mixture->sets);
    psti_free(mixture->sources);
    mixture->sets = NULL;
    mixture->sources = NULL;
}

static enum pst_status fail_blob(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_CORRUPT, "share", "the description of a mixture is damaged");
}

/* Parses the description. The caller clears *mixture also after failure. */
static enum pst_status parse(struct psti_wire_in *in, uint32_t n_fds, struct described *mixture,
                             struct pst_error *err)
{
    uint32_t wanted = 1;
    mixture->sets = NULL;
    mixture->sources = NULL;
    mixture->n_sets = psti_share_get_u32(in);
    mixture->n_fields = psti_share_get_u32(in);
    mixture->n_sources = psti_share_get_u32(in);
    if (in->bad || mixture->n_sets == 0 || mixture->n_sets >= n_fds || mixture->n_fields == 0 ||
        mixture->n_fields > PST_MAX_FIELDS || mixture->n_sources < mixture->n_sets ||
        mixture->n_sources > PST_MAX_SOURCES)
        return fail_blob(err);
    size_t n_numbers = (size_t)mixture->n_sources * (1 + mixture->n_fields);
    if (n_numbers > (in->nbytes - in->at) / 4)
        return fail_blob(err);
    mixture->sets = psti_calloc(mixture->n_sets, sizeof *mixture->sets);
    mixture->sources = psti_alloc_array(n_numbers, sizeof *mixture->sources);
    if (!mixture->sets || !mixture->sources)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a mixture");
    for (uint32_t f = 0; f < mixture->n_fields; f++)
        in->bad |= !psti_share_get_text(in, mixture->names[f], NAME_CAP);
    for (uint32_t i = 0; !in->bad && i < mixture->n_sets; i++) {
        psti_share_get_dataset(in, &mixture->sets[i]);
        in->bad |= mixture->sets[i].is_mixture;
        wanted += psti_share_one_fds(&mixture->sets[i]);
    }
    for (size_t k = 0; k < n_numbers; k++) {
        mixture->sources[k] = psti_share_get_u32(in);
        bool is_set = k % (1 + mixture->n_fields) == 0;
        in->bad |= mixture->sources[k] >= (is_set ? mixture->n_sets : PST_MAX_FIELDS);
    }
    return in->bad || in->at != in->nbytes || wanted != n_fds ? fail_blob(err) : PST_OK;
}

/* Maps the blob and parses the description in it. */
static enum pst_status read_blob(const int *fds, uint32_t n_fds, struct described **out,
                                 struct pst_error *err)
{
    const void *bytes = NULL;
    size_t nbytes = 0;
    *out = NULL;
    if (n_fds == 0)
        return fail_blob(err);
    enum pst_status status = psti_sealed_blob_map(fds[0], BLOB_NBYTES_MAX, &bytes, &nbytes, err);
    if (status != PST_OK)
        return status;
    struct described *mixture = *out = psti_calloc(1, sizeof *mixture);
    struct psti_wire_in in = {.bytes = bytes, .nbytes = nbytes};
    status = mixture ? parse(&in, n_fds, mixture, err)
                     : psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a mixture");
    psti_sealed_unmap(bytes, nbytes);
    return status;
}

static void free_described(struct described *mixture)
{
    if (mixture)
        clear(mixture);
    psti_free(mixture);
}

enum pst_status psti_share_mixture_digest(const int *fds, uint32_t n_fds, uint64_t *digest,
                                          uint32_t stamped[PSTI_SHARE_DATASET_FDS], uint32_t *n,
                                          struct pst_error *err)
{
    struct described *mixture;
    struct psti_hash_pair hash;
    uint8_t bytes[16];
    uint32_t at = 1;
    enum pst_status status = read_blob(fds, n_fds, &mixture, err);
    *n = 0;
    psti_hash_pair_begin(&hash);
    for (uint32_t i = 0; status == PST_OK && i < mixture->n_sets; i++) {
        const struct psti_share_dataset *set = &mixture->sets[i];
        const uint8_t flags[] = {set->allow_unreadable, set->ignore_labels, set->has_labels,
                                 set->has_files, set->is_container};
        psti_hash_pair_update(&hash, set->version, sizeof set->version);
        psti_hash_pair_update(&hash, flags, sizeof flags);
        psti_hash_pair_update(&hash, set->masks, sizeof set->masks);
        if (set->has_labels || set->is_container)
            stamped[(*n)++] = at + 1;
        at += psti_share_one_fds(set);
    }
    if (status == PST_OK) {
        size_t n_numbers = (size_t)mixture->n_sources * (1 + mixture->n_fields);
        psti_hash_pair_update(&hash, mixture->names, sizeof mixture->names);
        psti_hash_pair_update(&hash, mixture->sources, n_numbers * sizeof *mixture->sources);
    }
    psti_hash_pair_end(&hash, bytes);
    *digest = psti_load_u64(bytes);
    free_described(mixture);
    return status;
}

/* Unused names, for those fields of sources that the mixture leaves out. */
struct unused {
    char names[PST_MAX_FIELDS][16];
};

static void name_unused(const struct described *mixture, struct unused *unused)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++) {
        bool is_taken = true;
        while (is_taken) {
            is_taken = false;
            snprintf(unused->names[i], sizeof unused->names[i], "unused%u", number++);
            for (uint32_t f = 0; f < mixture->n_fields; f++)
                is_taken |= strcmp(unused->names[i], mixture->names[f]) == 0;
        }
    }
}

/* Sets for each field of a source the name that it has in the mixture, or an unused one. renames:
 * [2 * PST_MAX_FIELDS] */
static enum pst_status rename_fields(const struct described *mixture, const uint32_t *source,
                                     const struct unused *unused, const char **renames,
                                     struct pst_mixture_source *out, struct pst_error *err)
{
    uint32_t n = pst_dataset_n_fields(out->dataset);
    for (uint32_t i = 0; i < n; i++) {
        renames[2 * i] = pst_dataset_field(out->dataset, i)->name;
        renames[2 * i + 1] = unused->names[i];
    }
    for (uint32_t f = 0; f < mixture->n_fields; f++) {
        if (source[1 + f] >= n)
            return fail_blob(err);
        renames[2 * source[1 + f] + 1] = mixture->names[f];
    }
    out->renames = renames;
    out->n_renames = n;
    return PST_OK;
}

/* Makes the mixture from its open data sets. */
static enum pst_status join(const struct described *mixture, pst_dataset *const *sets,
                            pst_dataset **out, struct pst_error *err)
{
    const char *fields[PST_MAX_FIELDS];
    struct unused unused;
    enum pst_status status = PST_OK;
    struct pst_mixture_source *sources = psti_calloc(mixture->n_sources, sizeof *sources);
    const char **renames =
        psti_alloc_array((size_t)mixture->n_sources * 2 * PST_MAX_FIELDS, sizeof *renames);
    if (!sources || !renames)
        status = psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a mixture");
    name_unused(mixture, &unused);
    for (uint32_t f = 0; f < mixture->n_fields; f++)
        fields[f] = mixture->names[f];
    for (uint32_t i = 0; status == PST_OK && i < mixture->n_sources; i++) {
        const uint32_t *source = mixture->sources + (size_t)i * (1 + mixture->n_fields);
        sources[i].dataset = sets[source[0]];
        status = rename_fields(mixture, source, &unused, renames + (size_t)i * 2 * PST_MAX_FIELDS,
                               &sources[i], err);
    }
    const struct pst_mixture_options options = {
        .struct_size = sizeof options, .fields = fields, .n_fields = mixture->n_fields};
    if (status == PST_OK)
        status = pst_dataset_open_many(sources, mixture->n_sources, &options, out, err);
    psti_free(renames);
    psti_free(sources);
    return status;
}

enum pst_status psti_share_open_mixture(const int *fds, uint32_t n_fds, pst_dataset **out,
                                        struct pst_error *err)
{
    struct described *mixture;
    pst_dataset *sets[PSTI_SHARE_DATASET_FDS] = {NULL};
    uint32_t n_open = 0, at = 1;
    *out = NULL;
    enum pst_status status = read_blob(fds, n_fds, &mixture, err);
    for (; status == PST_OK && n_open < mixture->n_sets; n_open++) {
        const struct psti_share_dataset *set = &mixture->sets[n_open];
        uint32_t n = psti_share_one_fds(set);
        status = psti_share_open_one(set, fds + at, n, &sets[n_open], err);
        at += n;
    }
    if (status == PST_OK)
        status = join(mixture, sets, out, err);
    while (n_open > 0)
        pst_dataset_close(&sets[--n_open]); /* the mixture keeps its own reference to each data
                                               set */
    free_described(mixture);
    return status;
}
