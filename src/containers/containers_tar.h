/* containers_tar.h - walks over a tar file from member to member.
 *
 * Known are ustar and pax (IEEE 1003.1-2017, "pax", "ustar Interchange Format" and "pax Extended
 * Header"), GNU's long names (GNU tar manual, "Basic Tar Format") and the older headers without a
 * magic. Nothing is followed: links are told as links. Content is not read.
 *
 * A tar ends with two blocks of zeros, or with the file. Files that were joined have such blocks in
 * their middle: the walk goes on where a header follows them, and counts that. */
#ifndef PST_CONTAINERS_CONTAINERS_TAR_H
#define PST_CONTAINERS_CONTAINERS_TAR_H

#include "containers/containers_window.h"

enum {
    PSTI_TAR_BLOCK = 512,
    PSTI_TAR_NAME_CAP = 4096, /* with its NUL */
};

enum psti_tar_kind {
    PSTI_TAR_FILE = 0,
    PSTI_TAR_FOLDER = 1,
    PSTI_TAR_LINK = 2,  /* hard or symbolic */
    PSTI_TAR_OTHER = 3, /* a device, a pipe, a kind of some maker */
};

struct psti_tar_member {
    const char *name;  /* NUL-terminated; the walk's, until the next call */
    uint64_t header;   /* offset of the first block that belongs to the member */
    uint64_t offset;   /* of its content */
    uint64_t nbytes;   /* of its content; 0 unless it is a file */
    uint64_t next;     /* offset behind its last block */
    int64_t mtime;     /* seconds since 1970 */
    uint32_t checksum; /* of its header, as the header states it */
    enum psti_tar_kind kind;
};

/* What the headers before a member say of it. */
struct psti_tar_extra {
    bool has_name, has_nbytes, has_mtime;
    uint64_t nbytes;
    int64_t mtime;
    char name[PSTI_TAR_NAME_CAP];
};

struct psti_tar_walk {
    struct psti_window window;
    uint64_t at;        /* offset of the next header */
    uint64_t n_members; /* that were given */
    bool has_end;       /* after the last member: the blocks of zeros that end a tar are there */
    uint64_t n_joins;   /* ends of a tar with another one behind them */
    char name[PSTI_TAR_NAME_CAP];
    struct psti_tar_extra next, all; /* for the next member, and for all that follow */
};

/* Begins at the file's start. The source must outlive the walk.
 *
 * PST_ERROR_UNSUPPORTED: the file is compressed as a whole; the text says what to do. */
enum pst_status psti_containers_tar_open(struct psti_tar_walk *walk,
                                         const struct psti_walk_source *source,
                                         struct pst_error *err);
void psti_containers_tar_close(struct psti_tar_walk *walk);
/* Refuses a tar that the program `packer` compressed; `how` unpacks it. Returns
 * PST_ERROR_UNSUPPORTED. */
enum pst_status psti_containers_tar_is_packed(const char *path, const char *packer, const char *how,
                                              struct pst_error *err);

/* Gives the next member. *has: false at the end. After an error the walk is over.
 *
 * PST_ERROR_CORRUPT: no header is where one must be, or it contradicts itself.
 * PST_ERROR_TRUNCATED: the file ends within a member; the text names the last whole one.
 * PST_ERROR_UNSUPPORTED: a sparse file, or a part of a tar of several volumes.
 * PST_ERROR_LIMIT: a name has PSTI_TAR_NAME_CAP bytes or more. */
enum pst_status psti_containers_tar_next(struct psti_tar_walk *walk, struct psti_tar_member *member,
                                         bool *has, struct pst_error *err);

#endif
