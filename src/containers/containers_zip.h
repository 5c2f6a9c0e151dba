/* containers_zip.h - walks over a zip's directory from member to member.
 *
 * Known is APPNOTE.TXT 6.3 (PKWARE): the directory at the file's end, zip64, names in UTF-8 or in
 * code page 437, and of the extra fields 0x0001 (zip64), 0x5455 (time) and 0x7075 (Info-ZIP's name
 * in UTF-8). Members that are stored or deflated are taken; all other methods, encryption and split
 * archives are refused by name. The directory says what a member is. Its local header must agree.
 * Nothing is followed: links are told as links.
 *
 * Bytes before the zip, as of a program that unpacks it, are passed over. */
#ifndef PST_CONTAINERS_CONTAINERS_ZIP_H
#define PST_CONTAINERS_CONTAINERS_ZIP_H

#include "containers/containers.h"

enum { PSTI_ZIP_NAME_CAP = 4096 }; /* with its NUL, in UTF-8 */

enum psti_zip_kind {
    PSTI_ZIP_FILE = 0,
    PSTI_ZIP_FOLDER = 1,
    PSTI_ZIP_LINK = 2,  /* symbolic; its content, a path, is not looked at */
    PSTI_ZIP_OTHER = 3, /* a device, a pipe */
};

struct psti_zip_member {
    const char *name;        /* UTF-8, NUL-terminated; the walk's, until the next call */
    uint64_t header;         /* offset of its local header */
    uint64_t offset;         /* of its content */
    uint64_t nbytes;         /* of its content in the file; 0 unless it is a file */
    uint64_t decoded_nbytes; /* of its content; nbytes where it is stored as it is */
    enum psti_coding coding;
    int64_t mtime;  /* seconds since 1970; local time is taken for UTC; 0: not stated */
    uint32_t check; /* CRC-32 of the decoded content */
    enum psti_zip_kind kind;
};

/* Bytes of the file that members take, header and content: those that follow each other closely are
 * one span. */
struct psti_zip_span {
    uint64_t begin, end;
};

struct psti_zip_spans {
    struct psti_zip_span *list; /* in the order in which they came */
    uint64_t n, capacity;
};

struct psti_inflater;

struct psti_zip_walk {
    /* Entries of the directory, and the local headers, which lie elsewhere. */
    struct psti_window entries, headers;
    uint64_t base;      /* bytes before the zip: its offsets count from there */
    uint64_t first;     /* offset of the directory: members lie before it */
    uint64_t at, end;   /* offsets of its next entry, and behind its last one */
    uint64_t n_entries; /* that the zip states; without zip64 only the lowest 16 bits */
    bool is_zip64;
    uint64_t n_members; /* that were given */
    struct psti_zip_spans spans;
    char name[PSTI_ZIP_NAME_CAP];
    struct psti_inflater *inflater; /* NULL until a head is inflated */
    uint8_t head[PSTI_HEAD_MAX];
};

/* Finds the directory. The source must outlive the walk.
 *
 * PST_ERROR_TRUNCATED: the file ends early.
 * PST_ERROR_CORRUPT: it is no zip, contradicts itself, or could be read in two ways.
 * PST_ERROR_UNSUPPORTED: a part of an archive of several volumes. */
enum pst_status psti_containers_zip_open(struct psti_zip_walk *walk,
                                         const struct psti_walk_source *source,
                                         struct pst_error *err);
/* A walk of zeros may be closed. */
void psti_containers_zip_close(struct psti_zip_walk *walk);

/* Gives the next member, in the order of the directory. *has: false at the end. After an error the
 * walk is over. Members that share bytes are found at the latest by the call that finds the end, so
 * nothing of the zip may be used before that.
 *
 * PST_ERROR_CORRUPT: an entry contradicts itself, its local header or the zip; members share bytes.
 * PST_ERROR_TRUNCATED: the file became shorter.
 * PST_ERROR_UNSUPPORTED: a file has another method than stored and deflate, or is encrypted.
 * PST_ERROR_LIMIT: a name has PSTI_ZIP_NAME_CAP bytes or more. PST_ERROR_MEMORY. */
enum pst_status psti_containers_zip_next(struct psti_zip_walk *walk, struct psti_zip_member *member,
                                         bool *has, struct pst_error *err);

/* Gives the first bytes of a file's content: n, or all if it has fewer. They are the walk's until
 * the next call for this walk. All of a content is checked by its CRC-32.
 *
 * n: at most PSTI_HEAD_MAX.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM: the content is damaged. PST_ERROR_LIMIT: its first bytes
 * need more than PSTI_WINDOW_NBYTES of the file. PST_ERROR_MEMORY. */
enum pst_status psti_containers_zip_head(struct psti_zip_walk *walk,
                                         const struct psti_zip_member *member, size_t n,
                                         const uint8_t **bytes, struct pst_error *err);

#endif
