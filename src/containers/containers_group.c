/* containers_group.c - collects the members of each sample, and gives out the samples at the end.
 *
 * In: members in the order of the file, on one thread. Out: samples, to their taker.
 *
 * Keys and suffixes are stored once and referred to by number. The members of a sample are a linked
 * list from the last one to the first; the links are indices into one array. The first bytes (head)
 * of members lie in another array, of 8-byte words. Each entry is one word with the number of bytes
 * and the coding, then, for a coded member, one word with the decoded size, then the bytes. */
#include "containers/containers_group.h"

#include "containers/containers_names.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
#define NONE UINT32_MAX
#define OFFSET_END (UINT64_C(1) << 48)
#define NBYTES_END (UINT64_C(1) << 40)
#define BACK_MAX ((UINT64_C(1) << 24) - 1)

/* What the group stores for each member. */
struct psti_kept_member {
    uint64_t offset;
    uint64_t nbytes : 40;
    uint64_t back : 24; /* bytes from the header to the content; BACK_MAX if they are more */
    int64_t mtime;
    uint32_t check;
    uint32_t suffix; /* number of the suffix in `suffixes` */
    uint32_t before; /* index of the member of the same sample that came before, or NONE */
    uint32_t extra;  /* index of its entry in `extras`; 0: none */
};

struct psti_member_group {
    const char *path;
    const struct psti_sample_taker *taker;
    const struct psti_head_reader *reader;
    struct psti_walk_names keys, suffixes;
    uint32_t *last; /* indexed by key: index of the key's last member */
    struct psti_kept_member *members;
    uint64_t *extras;
    size_t last_capacity, n_members, members_capacity, n_extras, extras_capacity;
    uint32_t current; /* key of the last member that was added, or NONE */
    uint32_t whole;   /* key that came before `current`: its sample is complete; or NONE */
    struct psti_walk_counts counts;
};

enum pst_status psti_containers_group_open(const char *path, const struct psti_sample_taker *taker,
                                           const struct psti_head_reader *reader,
                                           struct psti_member_group **out, struct pst_error *err)
{
    *out = psti_calloc(1, sizeof **out);
    if (*out == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s", path);
    (*out)->path = path;
    (*out)->taker = taker;
    (*out)->reader = reader;
    (*out)->current = (*out)->whole = NONE;
    (*out)->n_extras = 1; /* 0 means "no entry", so the first entry begins at 1 */
    return PST_OK;
}

void psti_containers_group_close(struct psti_member_group **group)
{
    if (*group == NULL)
        return;
    psti_containers_names_free(&(*group)->keys);
    psti_containers_names_free(&(*group)->suffixes);
    psti_free((*group)->last);
    psti_free((*group)->members);
    psti_free((*group)->extras);
    psti_free(*group);
    *group = NULL;
}

/* Grows an array of *capacity elements so that it has room for n > 0. Returns the array, or NULL if
 * there is no memory; the old array then stays as it is. */
static void *reserve(void *array, size_t *capacity, size_t n, size_t size)
{
    if (n <= *capacity)
        return array;
    size_t wished = n + n / 4 + 64;
    void *memory = wished > SIZE_MAX / size ? NULL : psti_realloc(array, wished * size);
    if (memory != NULL)
        *capacity = wished;
    return memory;
}

static enum pst_status no_memory(const struct psti_member_group *group, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu members of %s",
                     group->n_members + 1, group->path);
}

/* True for a part of a path that begins and ends with two underscores, such as __meta__. */
static bool is_hidden(const char *component, size_t nbytes)
{
    return nbytes >= 4 && memcmp(component, "__", 2) == 0 &&
           memcmp(component + nbytes - 2, "__", 2) == 0;
}

/* Splits a member's name into key and suffix. False: the name belongs to no sample. */
static bool split_name(const char **name, size_t *key_nbytes, const char **suffix)
{
    while ((*name)[0] == '.' && (*name)[1] == '/')
        *name += 2;
    const char *base = *name;
    for (const char *slash; (slash = strchr(base, '/')) != NULL; base = slash + 1)
        if (is_hidden(base, (size_t)(slash - base)))
            return false;
    const char *dot = strchr(base, '.');
    if (dot == NULL || dot == base || dot[1] == '\0' || is_hidden(base, strlen(base)))
        return false;
    *key_nbytes = (size_t)(dot - *name);
    *suffix = dot + 1;
    return psti_format_name_problem(*name, *key_nbytes) == NULL;
}

/* Finds the number of a suffix, after turning ASCII letters to lower case. */
static enum pst_status find_suffix(struct psti_member_group *group, const char *suffix,
                                   uint32_t *number, struct pst_error *err)
{
    char lower[PSTI_NAME_LIMIT];
    size_t n = strlen(suffix);
    bool is_new = false;
    if (n >= sizeof lower)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, group->path, -1,
                            "a name ends with %zu bytes behind its first dot; %d are the most", n,
                            PSTI_NAME_LIMIT - 1);
    for (size_t i = 0; i < n; i++)
        lower[i] =
            (char)(suffix[i] >= 'A' && suffix[i] <= 'Z' ? suffix[i] + ('a' - 'A') : suffix[i]);
    return psti_containers_names_add(&group->suffixes, lower, n, number, &is_new, err);
}

/* Finds the number of a key. Looks first at the last member's key, which is nearly always the
 * same. */
static enum pst_status find_key(struct psti_member_group *group, const char *key, size_t nbytes,
                                uint32_t *number, struct pst_error *err)
{
    if (group->current != NONE) {
        const char *last = psti_containers_names_text(&group->keys, group->current);
        *number = group->current;
        if (strncmp(last, key, nbytes) == 0 && last[nbytes] == '\0')
            return PST_OK;
    }
    bool is_new = false;
    uint32_t *last =
        reserve(group->last, &group->last_capacity, (size_t)group->keys.n + 1, sizeof *last);
    if (last == NULL)
        return no_memory(group, err);
    group->last = last;
    enum pst_status status =
        psti_containers_names_add(&group->keys, key, nbytes, number, &is_new, err);
    if (status == PST_OK && is_new)
        group->last[*number] = NONE;
    return status;
}

static uint64_t header_of(const struct psti_kept_member *member)
{
    return member->offset - member->back;
}

/* Refuses a member if its sample has that suffix already, or has too many members. */
static enum pst_status check_sample(const struct psti_member_group *group, uint32_t key,
                                    uint32_t suffix, uint64_t header, struct pst_error *err)
{
    int n = 0;
    const char *text = psti_containers_names_text(&group->keys, key);
    for (uint32_t i = group->last[key]; i != NONE; i = group->members[i].before, n++) {
        const struct psti_kept_member *other = &group->members[i];
        if (other->suffix == suffix)
            return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, group->path, (int64_t)header,
                                "the sample '%.150s' has '%.100s' twice: at the offsets %" PRIu64
                                " and %" PRIu64 "; each suffix of a sample may come once in a file",
                                text, psti_containers_names_text(&group->suffixes, suffix),
                                header_of(other), header);
    }
    if (n < PSTI_SAMPLE_PARTS_MAX)
        return PST_OK;
    return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, group->path, (int64_t)header,
                        "the sample '%.150s' has more than %d members", text,
                        PSTI_SAMPLE_PARTS_MAX);
}

/* Stores the first bytes of a member, and its coding and decoded size if it is coded. *extra: index
 * of the entry; 0 if there is nothing to store. */
static enum pst_status keep_extra(struct psti_member_group *group,
                                  const struct psti_walk_member *member, const char *suffix,
                                  uint32_t *extra, struct pst_error *err)
{
    const struct psti_sample_taker *taker = group->taker;
    bool is_coded = member->coding != PSTI_CODING_STORED;
    uint32_t n = taker->wants(taker->context, suffix, member->decoded_nbytes);
    if (n > PSTI_HEAD_MAX)
        n = PSTI_HEAD_MAX;
    if (n > member->decoded_nbytes)
        n = (uint32_t)member->decoded_nbytes;
    *extra = 0;
    if (n == 0 && !is_coded)
        return PST_OK;
    size_t n_words = 1 + (size_t)is_coded + ((size_t)n + 7) / 8;
    if (group->n_extras + n_words > UINT32_MAX)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, group->path, (int64_t)member->header,
                            "the first bytes of the file's members take more than 32 GiB");
    const uint8_t *bytes = NULL;
    enum pst_status status = PST_OK;
    if (n > 0)
        status = group->reader->read(group->reader->context, member, n, &bytes, err);
    if (status != PST_OK)
        return status;
    uint64_t *words =
        reserve(group->extras, &group->extras_capacity, group->n_extras + n_words, sizeof *words);
    if (words == NULL)
        return no_memory(group, err);
    group->extras = words;
    words += group->n_extras;
    *words++ = n | (uint64_t)member->coding << 32;
    if (is_coded)
        *words++ = member->decoded_nbytes;
    if (n > 0)
        memcpy(words, bytes, n);
    *extra = (uint32_t)group->n_extras;
    group->n_extras += n_words;
    return PST_OK;
}

/* Stores a member of a sample. */
static enum pst_status keep(struct psti_member_group *group, const struct psti_walk_member *member,
                            uint32_t key, uint32_t suffix, struct pst_error *err)
{
    if (member->offset >= OFFSET_END || member->nbytes >= NBYTES_END)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, group->path, (int64_t)member->header,
                            "a member has 1 TiB or more, or it lies behind the first 256 TiB");
    uint32_t extra = 0;
    enum pst_status status = check_sample(group, key, suffix, member->header, err);
    if (status == PST_OK && group->n_members >= NONE)
        status = psti_fail_at(err, PST_ERROR_LIMIT, ROOM, group->path, (int64_t)member->header,
                              "the file has more than %u members", NONE);
    if (status == PST_OK)
        status = keep_extra(group, member, psti_containers_names_text(&group->suffixes, suffix),
                            &extra, err);
    if (status != PST_OK)
        return status;
    struct psti_kept_member *members =
        reserve(group->members, &group->members_capacity, group->n_members + 1, sizeof *members);
    if (members == NULL)
        return no_memory(group, err);
    group->members = members;
    uint64_t back = member->offset - member->header;
    members[group->n_members] = (struct psti_kept_member){
        .offset = member->offset,
        .nbytes = member->nbytes,
        .back = back < BACK_MAX ? back : BACK_MAX,
        .mtime = member->mtime,
        .check = member->check,
        .suffix = suffix,
        .before = group->last[key],
        .extra = extra,
    };
    group->last[key] = (uint32_t)group->n_members++;
    if (key != group->current)
        group->whole = group->current;
    group->current = key;
    return PST_OK;
}

enum pst_status psti_containers_group_add(struct psti_member_group *group,
                                          const struct psti_walk_member *member,
                                          struct pst_error *err)
{
    group->counts.n_members++;
    if (member->kind != PSTI_MEMBER_FILE) {
        group->counts.n_links += member->kind == PSTI_MEMBER_LINK;
        group->counts.n_others += member->kind == PSTI_MEMBER_OTHER;
        return PST_OK;
    }
    const char *name = member->name, *suffix = NULL;
    size_t nbytes = 0;
    uint32_t i_key = 0, i_suffix = 0;
    if (!split_name(&name, &nbytes, &suffix)) {
        group->counts.n_passed++;
        return PST_OK;
    }
    enum pst_status status = find_suffix(group, suffix, &i_suffix, err);
    if (status == PST_OK)
        status = find_key(group, name, nbytes, &i_key, err);
    if (status == PST_OK)
        status = keep(group, member, i_key, i_suffix, err);
    return status;
}

/* Fills in the struct psti_part that the taker receives for a member. */
static void tell(const struct psti_member_group *group, const struct psti_kept_member *member,
                 struct psti_part *part)
{
    *part = (struct psti_part){
        .suffix = psti_containers_names_text(&group->suffixes, member->suffix),
        .header = header_of(member),
        .offset = member->offset,
        .nbytes = member->nbytes,
        .decoded_nbytes = member->nbytes,
        .mtime = member->mtime,
        .check = member->check,
        .has_crc32 = group->reader->has_crc32,
    };
    if (member->extra == 0)
        return;
    const uint64_t *words = group->extras + member->extra;
    part->n_head = (uint32_t)*words;
    part->coding = (enum psti_coding)(*words++ >> 32);
    if (part->coding != PSTI_CODING_STORED)
        part->decoded_nbytes = *words++;
    part->head = (const uint8_t *)words;
}

enum pst_status psti_containers_group_finish(struct psti_member_group *group,
                                             struct psti_walk_counts *counts, struct pst_error *err)
{
    const struct psti_sample_taker *taker = group->taker;
    struct psti_part *parts = psti_alloc_array(PSTI_SAMPLE_PARTS_MAX, sizeof *parts);
    enum pst_status status = PST_OK;
    if (parts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a sample's members");
    for (uint32_t key = 0; status == PST_OK && key < group->keys.n; key++) {
        uint32_t first = PSTI_SAMPLE_PARTS_MAX;
        for (uint32_t i = group->last[key]; i != NONE; i = group->members[i].before)
            tell(group, &group->members[i], &parts[--first]);
        struct psti_sample sample = {
            .key = psti_containers_names_text(&group->keys, key),
            .parts = parts + first,
            .n_parts = PSTI_SAMPLE_PARTS_MAX - first,
        };
        status = taker->take(taker->context, &sample, err);
    }
    if (status != PST_OK && err != NULL && err->file[0] == '\0')
        psti_error_set_file(err, group->path);
    group->counts.n_samples = group->keys.n;
    *counts = group->counts;
    psti_free(parts);
    return status;
}

enum pst_status psti_containers_group_blame(const struct psti_member_group *group,
                                            enum pst_status status, struct pst_error *err)
{
    if (err == NULL || group->counts.n_members == 0)
        return status;
    char cause[PST_ERROR_TEXT_CAP];
    memcpy(cause, err->text, sizeof cause);
    cause[sizeof cause - 1] = '\0';
    int64_t offset = err->offset;
    if (group->whole == NONE)
        return psti_fail_at(err, status, ROOM, group->path, offset,
                            "%.380s; no sample before is whole for certain", cause);
    return psti_fail_at(err, status, ROOM, group->path, offset,
                        "%.300s; the last sample that is whole for certain is '%.120s'", cause,
                        psti_containers_names_text(&group->keys, group->whole));
}
