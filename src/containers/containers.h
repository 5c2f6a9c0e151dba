/* containers.h - what a walk over a container file reports for each sample, and who receives it.
 *
 * A container is a file that holds the members of many samples: a tar or a zip. A walk reads the
 * container's directory, or one header after the other, and groups the members by key into samples.
 * A walk reports where each member lies. It copies no content, except the first bytes of members
 * that need them. Sizes and offsets are 64 bits wide.
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

/* How the bytes of a member are stored in the file. */
enum psti_coding {
    PSTI_CODING_STORED = 0,  /* as they are, without compression */
    PSTI_CODING_DEFLATE = 1, /* RFC 1951 */
    PSTI_CODING_SNAPPY = 2,  /* raw Snappy, without frames */
    PSTI_CODING_ZSTD = 3,    /* one or several frames of RFC 8878 */
    PSTI_CODING_LZ4 = 4,     /* one or several LZ4 frames */
    PSTI_CODING_PIECES = 5,  /* the parts of a RecordIO record, each with its header; a reader joins
                              * them */
};

/* One member of a sample. */
struct psti_part {
    const char *suffix;      /* end of the member's name, in lower case, NUL-terminated: "jpg",
                              * "seg.png" */
    uint64_t header;         /* offset of the member's header, for messages */
    uint64_t offset;         /* offset of the member's content in the file */
    uint64_t nbytes;         /* bytes that the content takes in the file */
    uint64_t decoded_nbytes; /* bytes of the decoded content; nbytes if the content is not coded */
    enum psti_coding coding;
    int64_t mtime;  /* seconds since 1970 */
    uint32_t check; /* checksum of the header or the content, as the container states it */
    bool has_crc32; /* `check` is the CRC-32 of the decoded content */
    /* The first bytes of the decoded content: min(decoded_nbytes, n) bytes, where n is what the
     * taker's `wants` returned for this suffix. */
    const uint8_t *head;
    uint32_t n_head;
};

/* A sample of a container. All its pointers belong to the walk and are valid during the call
 * only. */
struct psti_sample {
    const char *key; /* NUL-terminated */
    const struct psti_part *parts;
    uint32_t n_parts; /* at least 1; no two parts have the same suffix */
};

/* Receives the samples of a walk, in the order of their first members. */
struct psti_sample_taker {
    /* Returns how many first bytes the taker needs of a member with this suffix: at most
     * PSTI_HEAD_MAX. */
    uint32_t (*wants)(void *context, const char *suffix, uint64_t decoded_nbytes);
    /* Takes one sample. An error ends the walk, which returns that error. */
    enum pst_status (*take)(void *context, const struct psti_sample *sample, struct pst_error *err);
    void *context;
};

enum { PSTI_HEAD_MAX = 4096 };

#endif
