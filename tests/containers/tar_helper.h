/* tar_helper.h - makes tars in memory block by block, valid or not. */
#ifndef PST_TESTS_TAR_HELPER_H
#define PST_TESTS_TAR_HELPER_H

#include "containers/containers_tar.h"

struct tar {
    uint8_t *bytes;
    size_t nbytes, capacity;
};

/* The contents of a tar header. All zeros: an empty ustar file without a name. */
struct tar_header {
    const char *name, *prefix;
    const char *magic; /* magic and version, 8 bytes; NULL: "ustar\0" "00" */
    uint8_t kind;      /* 0: '0' */
    uint64_t nbytes;   /* size of the member's content */
    int64_t mtime;
    bool is_binary;       /* size and time are stored as binary numbers */
    bool has_signed_sum;  /* the checksum is a sum of signed bytes */
    bool has_no_contents; /* only the header is added, without contents */
};

void tar_free(struct tar *tar);
void tar_add(struct tar *tar, const void *bytes, size_t nbytes);
void tar_zeros(struct tar *tar, size_t nbytes);
/* Adds a header, then the contents, which are bytes that count up from `first`, and padding. */
void tar_member(struct tar *tar, const struct tar_header *header, uint8_t first);
/* Adds a file with these contents, and padding. */
void tar_file(struct tar *tar, const char *name, const void *bytes, size_t nbytes);
/* Adds a member of that kind whose content is a text, followed by a NUL if `has_nul`. */
void tar_text(struct tar *tar, uint8_t kind, const char *text, bool has_nul);
/* Appends a pax record to a text of records. */
void tar_record(char *records, size_t capacity, const char *key, const char *value);
/* Computes the checksum of a header and stores it in the header. */
void tar_seal(uint8_t header[PSTI_TAR_BLOCK], bool is_signed);

/* A source of the tar's bytes. Reads get only the first `given` bytes, so the tar can end earlier
 * than its size says. */
struct tar_memory {
    const uint8_t *bytes;
    size_t given;
    uint64_t n_reads;
    int error; /* errno that each read fails with; 0: none */
};
struct psti_walk_source tar_source(struct tar_memory *memory, uint64_t nbytes);

#endif
