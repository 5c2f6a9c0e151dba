/* tar_helper.h - makes tars in memory, block by block, also wrong ones. */
#ifndef PST_TESTS_TAR_HELPER_H
#define PST_TESTS_TAR_HELPER_H

#include "containers/containers_tar.h"

struct tar {
    uint8_t *bytes;
    size_t nbytes, capacity;
};

/* What stands in one header. Zeros: an empty file of ustar without a name. */
struct tar_header {
    const char *name, *prefix;
    const char *magic; /* 8 bytes; NULL: "ustar\0" "00" */
    uint8_t kind;      /* 0: '0' */
    uint64_t nbytes;   /* of its content */
    int64_t mtime;
    bool is_binary;       /* size and time are binary numbers */
    bool has_signed_sum;  /* the checksum adds signed bytes */
    bool has_no_contents; /* only the header is added */
};

void tar_free(struct tar *tar);
void tar_add(struct tar *tar, const void *bytes, size_t nbytes);
void tar_zeros(struct tar *tar, size_t nbytes);
/* Adds a header and, after it, contents that count up from `first`, and padding. */
void tar_member(struct tar *tar, const struct tar_header *header, uint8_t first);
/* Adds a file with these contents, and padding. */
void tar_file(struct tar *tar, const char *name, const void *bytes, size_t nbytes);
/* Adds a member of that kind whose content is a text, with its NUL if `has_nul`. */
void tar_text(struct tar *tar, uint8_t kind, const char *text, bool has_nul);
/* Adds a pax record to a text of some. */
void tar_record(char *records, size_t capacity, const char *key, const char *value);
/* Makes a header state its own checksum again. */
void tar_seal(uint8_t header[PSTI_TAR_BLOCK], bool is_signed);

/* A source of these bytes, which may end earlier than it says: after `given` bytes. */
struct tar_memory {
    const uint8_t *bytes;
    size_t given;
    uint64_t n_reads;
    int error; /* errno of each read; 0: none */
};
struct psti_walk_source tar_source(struct tar_memory *memory, uint64_t nbytes);

#endif
