/* containers.h - what the walks over other people's files give, and to whom.
 *
 * A container is a file that holds the members of many samples: a tar, a zip. A walk reads its
 * directory, or header by header, and groups the members by key into samples. Members are told by
 * their places: content is not copied, but for small values. Sizes and offsets are 64 bits wide.
 *
 * Walks trust no byte of the file. They follow no link and open no other file. */
#ifndef PST_CONTAINERS_CONTAINERS_H
#define PST_CONTAINERS_CONTAINERS_H

#include "containers/containers_window.h"

enum psti_container_kind {
    PSTI_CONTAINER_NONE = 0,
    PSTI_CONTAINER_TAR = 1,
    PSTI_CONTAINER_ZIP = 2,
    PSTI_CONTAINER_PARQUET = 3,
    PSTI_CONTAINER_ARROW = 4,
    PSTI_CONTAINER_MDS = 5,
    PSTI_CONTAINER_TFRECORD = 6,
    PSTI_CONTAINER_LMDB = 7,
    PSTI_CONTAINER_RECORDIO = 8,
    PSTI_CONTAINER_BETON = 9,
};

/* How the bytes of a member lie in the file. */
enum psti_coding {
    PSTI_CODING_STORED = 0,  /* as they are */
    PSTI_CODING_DEFLATE = 1, /* RFC 1951 */
    PSTI_CODING_SNAPPY = 2,  /* raw Snappy, without frames */
    PSTI_CODING_ZSTD = 3,    /* one or several frames of RFC 8878 */
    PSTI_CODING_LZ4 = 4,     /* one or several LZ4 frames */
    PSTI_CODING_PIECES = 5,  /* parts of a RecordIO record with their headers, to be joined */
};

/* A member of a sample. */
struct psti_part {
    const char *suffix;      /* of its name, in lower case, NUL-terminated: "jpg", "seg.png" */
    uint64_t header;         /* offset of its header, for messages */
    uint64_t offset;         /* of its bytes in the file */
    uint64_t nbytes;         /* of them in the file */
    uint64_t decoded_nbytes; /* nbytes where they are stored as they are */
    enum psti_coding coding;
    int64_t mtime;  /* seconds since 1970 */
    uint32_t check; /* a checksum that the container has of the header or the content */
    bool has_crc32; /* `check` is the CRC-32 of the decoded content */
    /* The first bytes of the content, as it is decoded: min(decoded_nbytes, n) of them, where n is
     * what the taker of the samples wants of this suffix. */
    const uint8_t *head;
    uint32_t n_head;
};

/* All pointers are the walk's, until the call returns. */
struct psti_sample {
    const char *key; /* NUL-terminated */
    const struct psti_part *parts;
    uint32_t n_parts; /* at least 1; no suffix comes twice */
};

/* Takes the samples of a walk, in the order of their first members. */
struct psti_sample_taker {
    /* How many first bytes of a member with this suffix are needed; at most PSTI_HEAD_MAX. */
    uint32_t (*wants)(void *context, const char *suffix, uint64_t decoded_nbytes);
    /* An error ends the walk, which returns it. */
    enum pst_status (*take)(void *context, const struct psti_sample *sample, struct pst_error *err);
    void *context;
};

enum { PSTI_HEAD_MAX = 4096 };

#endif
