/* containers_walk.c - passes the members of a container to the group that makes samples of them.
 *
 * In: the bytes of a file, on one thread. Out: samples. Each kind of container has one function
 * that adds all its members to the group. A member's first bytes are read when it is added. */
#include "containers/containers_walk.h"

#include "containers/containers_tar.h"
#include "containers/containers_zip.h"

#include "base/alloc.h"
#include "base/fail.h"

static enum pst_status read_stored_head(void *context, const struct psti_walk_member *member,
                                        uint32_t n, const uint8_t **bytes, struct pst_error *err)
{
    return psti_containers_window_get(context, member->offset, n, bytes, err);
}

static enum psti_member_kind kind_of_tar(enum psti_tar_kind kind)
{
    return kind == PSTI_TAR_FILE     ? PSTI_MEMBER_FILE
           : kind == PSTI_TAR_FOLDER ? PSTI_MEMBER_FOLDER
           : kind == PSTI_TAR_LINK   ? PSTI_MEMBER_LINK
                                     : PSTI_MEMBER_OTHER;
}

/* Adds all members of an opened tar to the group. */
static enum pst_status add_tar(struct psti_tar_walk *walk, struct psti_member_group *group,
                               struct pst_error *err)
{
    for (;;) {
        struct psti_tar_member from;
        bool has = false;
        enum pst_status status = psti_containers_tar_next(walk, &from, &has, err);
        if (status == PST_ERROR_TRUNCATED || status == PST_ERROR_CORRUPT)
            return psti_containers_group_blame(group, status, err);
        if (status != PST_OK || !has)
            return status;
        struct psti_walk_member member = {
            .name = from.name,
            .kind = kind_of_tar(from.kind),
            .header = from.header,
            .offset = from.offset,
            .nbytes = from.nbytes,
            .decoded_nbytes = from.nbytes,
            .coding = PSTI_CODING_STORED,
            .mtime = from.mtime,
            .check = from.checksum,
        };
        status = psti_containers_group_add(group, &member, err);
        if (status != PST_OK)
            return status;
    }
}

static enum pst_status walk_tar(const struct psti_walk_source *source,
                                const struct psti_sample_taker *taker,
                                struct psti_walk_counts *counts, struct pst_error *err)
{
    struct psti_tar_walk *walk = psti_alloc(sizeof *walk); /* too large for the stack: it holds
                                                            * names of several kilobytes */
    if (walk == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "containers", "out of memory to read %s",
                         source->path);
    struct psti_head_reader reader = {.read = read_stored_head, .context = &walk->window};
    struct psti_member_group *group = NULL;
    enum pst_status status = psti_containers_tar_open(walk, source, err);
    if (status != PST_OK)
        goto out;
    status = psti_containers_group_open(source->path, taker, &reader, &group, err);
    if (status == PST_OK)
        status = add_tar(walk, group, err);
    if (status == PST_OK)
        status = psti_containers_group_finish(group, counts, err);
    if (status == PST_OK)
        counts->has_no_end = !walk->has_end;
    psti_containers_group_close(&group);
    psti_containers_tar_close(walk);
out:
    psti_free(walk);
    return status;
}

/* A zip's walk, and the member whose first bytes the group may ask for. */
struct zip_reader {
    struct psti_zip_walk walk;
    struct psti_zip_member member;
};

static enum pst_status read_zip_head(void *context, const struct psti_walk_member *member,
                                     uint32_t n, const uint8_t **bytes, struct pst_error *err)
{
    struct zip_reader *reader = context;
    (void)member; /* not used, because the argument equals reader->member */
    return psti_containers_zip_head(&reader->walk, &reader->member, n, bytes, err);
}

static enum psti_member_kind kind_of_zip(enum psti_zip_kind kind)
{
    return kind == PSTI_ZIP_FILE     ? PSTI_MEMBER_FILE
           : kind == PSTI_ZIP_FOLDER ? PSTI_MEMBER_FOLDER
           : kind == PSTI_ZIP_LINK   ? PSTI_MEMBER_LINK
                                     : PSTI_MEMBER_OTHER;
}

static enum pst_status add_zip(struct zip_reader *reader, struct psti_member_group *group,
                               struct pst_error *err)
{
    for (;;) {
        struct psti_zip_member *from = &reader->member;
        bool has = false;
        enum pst_status status = psti_containers_zip_next(&reader->walk, from, &has, err);
        if (status != PST_OK || !has)
            return status;
        struct psti_walk_member member = {
            .name = from->name,
            .kind = kind_of_zip(from->kind),
            .header = from->header,
            .offset = from->offset,
            .nbytes = from->nbytes,
            .decoded_nbytes = from->decoded_nbytes,
            .coding = from->coding,
            .mtime = from->mtime,
            .check = from->check,
        };
        status = psti_containers_group_add(group, &member, err);
        if (status != PST_OK)
            return status;
    }
}

static enum pst_status walk_zip(const struct psti_walk_source *source,
                                const struct psti_sample_taker *taker,
                                struct psti_walk_counts *counts, struct pst_error *err)
{
    struct zip_reader *zip = psti_alloc(sizeof *zip);
    if (zip == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "containers", "out of memory to read %s",
                         source->path);
    struct psti_head_reader reader = {.read = read_zip_head, .context = zip, .has_crc32 = true};
    struct psti_member_group *group = NULL;
    enum pst_status status = psti_containers_zip_open(&zip->walk, source, err);
    if (status != PST_OK)
        goto out;
    status = psti_containers_group_open(source->path, taker, &reader, &group, err);
    if (status == PST_OK)
        status = add_zip(zip, group, err);
    if (status == PST_OK)
        status = psti_containers_group_finish(group, counts, err);
    psti_containers_group_close(&group);
    psti_containers_zip_close(&zip->walk);
out:
    psti_free(zip);
    return status;
}

enum pst_status psti_containers_walk(const struct psti_walk_source *source,
                                     enum psti_container_kind kind,
                                     const struct psti_sample_taker *taker,
                                     struct psti_walk_counts *counts, struct pst_error *err)
{
    if (kind == PSTI_CONTAINER_TAR)
        return walk_tar(source, taker, counts, err);
    if (kind == PSTI_CONTAINER_ZIP)
        return walk_zip(source, taker, counts, err);
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, "containers", source->path, -1,
                        "files of this kind cannot be read in place");
}
