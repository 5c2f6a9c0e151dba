/* containers_group.h - groups the members of one container of any kind into samples.
 *
 * The rules are those of WebDataset (webdataset/tariterators.py), with one difference: the members
 * of a sample may lie anywhere in the file, not only next to each other. docs/tar-fields.md states
 * the rules.
 *
 * Samples are kept in memory until the last member was added. Each member takes 40 bytes, plus its
 * first bytes and 8 to 24 bytes if those are kept. Each sample takes 14 to 19 bytes and its key.
 * Arrays may be up to a quarter larger than needed. */
#ifndef PST_CONTAINERS_CONTAINERS_GROUP_H
#define PST_CONTAINERS_CONTAINERS_GROUP_H

#include "containers/containers.h"

enum psti_member_kind {
    PSTI_MEMBER_FILE = 0,
    PSTI_MEMBER_FOLDER = 1,
    PSTI_MEMBER_LINK = 2,
    PSTI_MEMBER_OTHER = 3,
};

/* A member, as a walk over a container describes it. */
struct psti_walk_member {
    const char *name; /* NUL-terminated, with its folders; read during the call only */
    enum psti_member_kind kind;
    uint64_t header;         /* offset of the member's header, for messages */
    uint64_t offset, nbytes; /* offset in the file and length of the stored content */
    uint64_t decoded_nbytes; /* bytes of the decoded content; nbytes if the content is not coded */
    enum psti_coding coding;
    int64_t mtime;  /* seconds since 1970 */
    uint32_t check; /* checksum of the header or the content, as the container states it */
};

/* Reads the first n bytes of the decoded content of the member that is being added. n is 1 to
 * min(member->decoded_nbytes, PSTI_HEAD_MAX). *bytes is valid until the next call. */
struct psti_head_reader {
    enum pst_status (*read)(void *context, const struct psti_walk_member *member, uint32_t n,
                            const uint8_t **bytes, struct pst_error *err);
    void *context;
    bool has_crc32; /* `check` of each member is the CRC-32 of its decoded content */
};

/* Counts of a walk over a container. */
struct psti_walk_counts {
    uint64_t n_members; /* number of members of all kinds */
    bool has_no_end; /* the file lacks the mark of its end, so it may have been cut between two
                      * members */
    uint64_t n_samples;
    uint64_t n_passed; /* number of files that belong to no sample because of their names */
    uint64_t n_links;  /* hard and symbolic links; they are not followed */
    uint64_t n_others; /* devices, pipes, and other members that are neither file, folder nor
                        * link */
};

struct psti_member_group;

/* The most members that one sample may have. */
enum { PSTI_SAMPLE_PARTS_MAX = 1024 };

/* Makes an empty group. `path` names the container in messages. `path`, the taker and the reader
 * must outlive the group. */
enum pst_status psti_containers_group_open(const char *path, const struct psti_sample_taker *taker,
                                           const struct psti_head_reader *reader,
                                           struct psti_member_group **out, struct pst_error *err);

/* Adds a member. Reads its first bytes if the taker wants them.
 *
 * PST_ERROR_CORRUPT: the sample already has a member with that suffix; the message states both
 *     offsets.
 * PST_ERROR_LIMIT: the member has 1 TiB or more or lies behind 256 TiB, the sample has more than
 *     PSTI_SAMPLE_PARTS_MAX members, or all names together take 4 GiB or all first bytes 32 GiB. */
enum pst_status psti_containers_group_add(struct psti_member_group *group,
                                          const struct psti_walk_member *member,
                                          struct pst_error *err);

/* Gives all samples to the taker, in the order of their first members, and sets *counts. An error
 * of the taker that names no file gets the container's path. */
enum pst_status psti_containers_group_finish(struct psti_member_group *group,
                                             struct psti_walk_counts *counts,
                                             struct pst_error *err);

/* For a walk that ended early: adds to its error the name of the last complete sample, which is the
 * one before the sample of the last member. Adds nothing if no member was read. Returns the error's
 * status. */
enum pst_status psti_containers_group_blame(const struct psti_member_group *group,
                                            enum pst_status status, struct pst_error *err);

/* Frees the group and sets *group to NULL. *group may be NULL already. */
void psti_containers_group_close(struct psti_member_group **group);

#endif
