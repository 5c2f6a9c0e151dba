/* containers_zip.h - walks over a zip's directory from member to member.
 *
 * Known is APPNOTE.TXT 6.3 (PKWARE): the directory at the file's end, zip64, names in UTF-8 or code
 * page 437, and the extra fields 0x0001 (zip64), 0x5455 (time) and 0x7075 (Info-ZIP's name in
 * UTF-8). Members must be stored or deflated. Other methods, encryption and split archives are
 * refused with an error that names them. The directory says what a member is, and the member's
 * local header must agree. Links are reported as links and not followed.
 *
 * Bytes before the zip, such as those of a self-extracting program, are skipped. */
#ifndef PST_CONTAINERS_CONTAINERS_ZIP_H
#define PST_CONTAINERS_CONTAINERS_ZIP_H

#include "containers/containers.h"

enum { PSTI_ZIP_NAME_CAP = 4096 }; /* longest name in UTF-8, with its NUL */

enum psti_zip_kind {
    PSTI_ZIP_FILE = 0,
    PSTI_ZIP_FOLDER = 1,
    PSTI_ZIP_LINK = 2,  /* symbolic link; its content, the path, is not read */
    PSTI_ZIP_OTHER = 3, /* a device, a pipe */
};

struct psti_zip_member {
    const char *name;        /* UTF-8, NUL-terminated; owned by the walk, valid until the next
                              * call */
    uint64_t header;         /* offset of the local header */
    uint64_t offset;         /* offset of the content */
    uint64_t nbytes;         /* bytes of the content in the file; 0 unless the member is a file */
    uint64_t decoded_nbytes; /* bytes of the decoded content; nbytes if it is stored */
    enum psti_coding coding;
    int64_t mtime;  /* seconds since 1970; zip's local time is taken as UTC; 0: not stated */
    uint32_t check; /* CRC-32 of the decoded content */
    enum psti_zip_kind kind;
};

/* A range of file bytes that members take with headers and contents. Members that lie close
 * together share one span. */
struct psti_zip_span {
    uint64_t begin, end;
};

struct psti_zip_spans {
    struct psti_zip_span *list; /* in the order in which they were added */
    uint64_t n, capacity;
};

struct psti_inflater;

struct psti_zip_walk {
    /* One window for the directory's entries, one for the local headers, which lie elsewhere. */
    struct psti_window entries, headers;
    uint64_t base;      /* bytes before the zip: offsets in the zip count from here */
    uint64_t first;     /* offset of the directory; all members lie before it */
    uint64_t at, end;   /* offset of the next entry in the central directory, and offset of the
                         * directory's end */
    uint64_t n_entries; /* number of entries that the zip states; without zip64 only the lowest 16
                         * bits of the number */
    bool is_zip64;
    uint64_t n_members; /* number of members that were returned so far */
    struct psti_zip_spans spans;
    char name[PSTI_ZIP_NAME_CAP];
    struct psti_inflater *inflater; /* NULL until the first bytes of a member are inflated */
    uint8_t head[PSTI_HEAD_MAX];
};

/* Finds the zip's directory and begins a walk. The source must outlive the walk.
 *
 * PST_ERROR_TRUNCATED: the file ends early.
 * PST_ERROR_CORRUPT: the file is no zip, contradicts itself, or could be read in two ways.
 * PST_ERROR_UNSUPPORTED: the file is a part of an archive of several volumes. */
enum pst_status psti_containers_zip_open(struct psti_zip_walk *walk,
                                         const struct psti_walk_source *source,
                                         struct pst_error *err);
/* Frees the walk's memory. A walk whose members are all zero is fine. */
void psti_containers_zip_close(struct psti_zip_walk *walk);

/* Returns the next member, in the order of the directory. *has: false at the end. No call may
 * follow an error. Members that share bytes may be detected only by the call that finds the end, so
 * callers must use nothing of the zip before that call.
 *
 * PST_ERROR_CORRUPT: an entry contradicts itself, its local header or the zip; or members share
 *     bytes.
 * PST_ERROR_TRUNCATED: the file became shorter.
 * PST_ERROR_UNSUPPORTED: a file is encrypted, or uses another method than stored and deflate.
 * PST_ERROR_LIMIT: a name has PSTI_ZIP_NAME_CAP bytes or more.
 * PST_ERROR_MEMORY: there is no memory. */
enum pst_status psti_containers_zip_next(struct psti_zip_walk *walk, struct psti_zip_member *member,
                                         bool *has, struct pst_error *err);

/* Returns the first n bytes of a member's decoded content, or all of it if it is shorter. They
 * belong to the walk until its next call. The CRC-32 is checked only if the whole content is
 * returned.
 *
 * n: at most PSTI_HEAD_MAX.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM: the content is damaged.
 * PST_ERROR_LIMIT: the first bytes need more than PSTI_WINDOW_NBYTES of the file.
 * PST_ERROR_MEMORY: there is no memory. */
enum pst_status psti_containers_zip_head(struct psti_zip_walk *walk,
                                         const struct psti_zip_member *member, size_t n,
                                         const uint8_t **bytes, struct pst_error *err);

#endif
