/* zip_helper.h - makes zips in memory byte by byte, valid or not. */
#ifndef PST_TESTS_ZIP_HELPER_H
#define PST_TESTS_ZIP_HELPER_H

#include "containers/containers_zip.h"

enum { ZIP_MEMBERS_MAX = 16 };

struct zip_bytes {
    uint8_t *bytes;
    size_t nbytes, capacity;
};

/* A zip, and the offsets of its parts, for tests that change it. */
struct zip {
    struct zip_bytes file, directory;
    size_t base;                                             /* number of bytes before the zip */
    size_t headers[ZIP_MEMBERS_MAX], entries[ZIP_MEMBERS_MAX]; /* offsets in the file */
    size_t first, end; /* offsets of the directory and of the end record */
    uint32_t n;
};

/* A member. All zeros: an empty file, stored without compression. */
struct zip_member {
    const char *name;
    const void *content; /* the content before compression */
    size_t nbytes;
    bool is_deflated;
    uint16_t method; /* written into the headers if not 0, while the content is stored */
    uint16_t flags;
    uint8_t host;
    uint32_t attributes;
    uint16_t date, time;
    /* extra fields of the directory entry and of the local header */
    const void *extra, *local_extra;
    uint16_t n_extra, n_local_extra;
    bool has_descriptor; /* a data descriptor with the sizes follows the content */
    bool is_zip64;       /* both headers have all numbers in zip64 fields */
};

/* The end of a zip. All zeros: no comment, no zip64. */
struct zip_end {
    const char *comment;
    bool is_zip64;
    bool counts_prefix; /* offsets count from the file's start, not from the zip's */
};

void zip_free(struct zip *zip);
void zip_add(struct zip_bytes *to, const void *bytes, size_t nbytes);
void zip_add_u16(struct zip_bytes *to, uint32_t number);
void zip_add_u32(struct zip_bytes *to, uint64_t number);
void zip_add_u64(struct zip_bytes *to, uint64_t number);
/* Deflates bytes into memory that the caller frees. */
uint8_t *zip_deflate(const void *bytes, size_t nbytes, int level, size_t *n);
void zip_member(struct zip *zip, const struct zip_member *member);
/* Adds the directory and the records that follow it. */
void zip_end(struct zip *zip, const struct zip_end *end);

/* A source of the zip's bytes. Reads get only the first `given` bytes, so the zip can end earlier
 * than its size says. */
struct zip_memory {
    const uint8_t *bytes;
    size_t given;
};
struct psti_walk_source zip_source(struct zip_memory *memory, uint64_t nbytes);

#endif
