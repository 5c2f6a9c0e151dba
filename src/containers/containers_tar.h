/* containers_tar.h - walks over a tar file from member to member.
 *
 * Known are ustar and pax (IEEE 1003.1-2017, "pax", "ustar Interchange Format" and "pax Extended
 * Header"), GNU's long names (GNU tar manual, "Basic Tar Format") and the older headers without a
 * magic. Links are reported as links and not followed. Content is not read.
 *
 * A tar ends with two blocks of zeros, or with the file. In a file made of several joined tars,
 * such blocks stand in the middle. If a header follows them, the walk goes on and counts a join. */
#ifndef PST_CONTAINERS_CONTAINERS_TAR_H
#define PST_CONTAINERS_CONTAINERS_TAR_H

#include "containers/containers_window.h"

enum {
    PSTI_TAR_BLOCK = 512,
    PSTI_TAR_NAME_CAP = 4096, /* length of the longest name, with its NUL */
};

enum psti_tar_kind {
    PSTI_TAR_FILE = 0,
    PSTI_TAR_FOLDER = 1,
    PSTI_TAR_LINK = 2,  /* hard or symbolic link */
    PSTI_TAR_OTHER = 3, /* a device, a pipe, or a vendor's own kind */
};

struct psti_tar_member {
    const char *name;  /* NUL-terminated; owned by the walk, valid until the next call */
    uint64_t header;   /* offset of the member's first block, which may be that of an extra
                        * header */
    uint64_t offset;   /* offset of the content */
    uint64_t nbytes;   /* bytes of the content; 0 unless the member is a file */
    uint64_t next;     /* offset behind the member's last block */
    int64_t mtime;     /* seconds since 1970 */
    uint32_t checksum; /* checksum that the member's header states */
    enum psti_tar_kind kind;
};

/* Properties of a member that extra headers before it say. */
struct psti_tar_extra {
    bool has_name, has_nbytes, has_mtime;
    uint64_t nbytes;
    int64_t mtime;
    char name[PSTI_TAR_NAME_CAP];
};

struct psti_tar_walk {
    struct psti_window window;
    uint64_t at;        /* offset of the next header */
    uint64_t n_members; /* number of members that were returned so far */
    bool has_end;       /* after the last member: true if the tar ends with its two blocks of
                         * zeros */
    uint64_t n_joins;   /* number of joins: ends of a tar that another tar follows */
    char name[PSTI_TAR_NAME_CAP];
    struct psti_tar_extra next, all; /* extra headers: for the next member, and for all later
                                      * members */
};

/* Begins a walk at the start of the file. The source must outlive the walk.
 *
 * PST_ERROR_UNSUPPORTED: the file is compressed as a whole; the message says what to do. */
enum pst_status psti_containers_tar_open(struct psti_tar_walk *walk,
                                         const struct psti_walk_source *source,
                                         struct pst_error *err);
void psti_containers_tar_close(struct psti_tar_walk *walk);
/* Fills in the error for a tar that the program `packer` compressed; `how` is the command that
 * unpacks it. Returns PST_ERROR_UNSUPPORTED. */
enum pst_status psti_containers_tar_is_packed(const char *path, const char *packer, const char *how,
                                              struct pst_error *err);

/* Returns the next member. *has: false at the end. No call may follow an error.
 *
 * PST_ERROR_CORRUPT: no header is where one must be, or it contradicts itself.
 * PST_ERROR_TRUNCATED: the file ends within a member; the message names the last whole one.
 * PST_ERROR_UNSUPPORTED: a sparse file, or a part of a tar of several volumes.
 * PST_ERROR_LIMIT: a name has PSTI_TAR_NAME_CAP bytes or more. */
enum pst_status psti_containers_tar_next(struct psti_tar_walk *walk, struct psti_tar_member *member,
                                         bool *has, struct pst_error *err);

#endif
