/* containers_group.h - makes samples of the members of one container, whatever kind it is.
 *
 * The rules are those of WebDataset (webdataset/tariterators.py), but for neighbours: members of a
 * sample may lie anywhere in the file. docs/tar-fields.md states them.
 *
 * Samples are kept until the last member was added. A member takes 40 bytes, and its head with 8 to
 * 24 more. A sample takes 14 to 19 bytes and its key. Lists have up to a quarter in reserve. */
#ifndef PST_CONTAINERS_CONTAINERS_GROUP_H
#define PST_CONTAINERS_CONTAINERS_GROUP_H

#include "containers/containers.h"

enum psti_member_kind {
    PSTI_MEMBER_FILE = 0,
    PSTI_MEMBER_FOLDER = 1,
    PSTI_MEMBER_LINK = 2,
    PSTI_MEMBER_OTHER = 3,
};

/* A walk over a container says this of each member. */
struct psti_walk_member {
    const char *name; /* NUL-terminated, with its folders; read during the call only */
    enum psti_member_kind kind;
    uint64_t header;         /* offset of its header, for messages */
    uint64_t offset, nbytes; /* of its bytes in the file */
    uint64_t decoded_nbytes; /* nbytes where they are stored as they are */
    enum psti_coding coding;
    int64_t mtime;  /* seconds since 1970 */
    uint32_t check; /* a checksum that the container has of the header or the content */
};

/* Gives the first n bytes of the content of the member that is being added, as it is decoded. n is
 * 1 to min(member->decoded_nbytes, PSTI_HEAD_MAX). *bytes: valid until the next call. */
struct psti_head_reader {
    enum pst_status (*read)(void *context, const struct psti_walk_member *member, uint32_t n,
                            const uint8_t **bytes, struct pst_error *err);
    void *context;
    bool has_crc32; /* members' checks are the CRC-32 of their decoded content */
};

/* What was in a container. */
struct psti_walk_counts {
    uint64_t n_members; /* of all kinds */
    bool has_no_end; /* the file lacks what marks its end: it may have been cut between members */
    uint64_t n_samples;
    uint64_t n_passed; /* files that belong to no sample because of their names */
    uint64_t n_links;  /* hard and symbolic ones; they are not followed */
    uint64_t n_others; /* devices, pipes and what else is neither file, folder nor link */
};

struct psti_member_group;

/* Most members of one sample. */
enum { PSTI_SAMPLE_PARTS_MAX = 1024 };

/* path: of the container, for messages. It, the taker and the reader must outlive the group. */
enum pst_status psti_containers_group_open(const char *path, const struct psti_sample_taker *taker,
                                           const struct psti_head_reader *reader,
                                           struct psti_member_group **out, struct pst_error *err);

/* Adds a member, and reads its head if the taker wants it.
 *
 * PST_ERROR_CORRUPT: the sample has a member with that suffix; the text has both offsets.
 * PST_ERROR_LIMIT: the member has 1 TiB or more or lies behind 256 TiB, the sample has more than
 *     PSTI_SAMPLE_PARTS_MAX members, or the names take 4 GiB or the heads 32 GiB. */
enum pst_status psti_containers_group_add(struct psti_member_group *group,
                                          const struct psti_walk_member *member,
                                          struct pst_error *err);

/* Gives all samples to the taker, in the order of their first members, and tells the counts. An
 * error of the taker gets the path, if it names no file. */
enum pst_status psti_containers_group_finish(struct psti_member_group *group,
                                             struct psti_walk_counts *counts,
                                             struct pst_error *err);

/* Makes the error of a walk that ended early say which sample is the last one that is whole: the
 * one before the sample of the last member. Nothing is said before the first member. Returns the
 * error's status. */
enum pst_status psti_containers_group_blame(const struct psti_member_group *group,
                                            enum pst_status status, struct pst_error *err);

/* *group becomes NULL. NULL is fine. */
void psti_containers_group_close(struct psti_member_group **group);

#endif
