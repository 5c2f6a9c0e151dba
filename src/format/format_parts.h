/* format_parts.h - the byte layout of a plan of shards, as docs/format-dataset.md states it, and
 * the names of the files and folders that a pack in parts keeps beside it.
 *
 * Pure functions, as those of format_dataset.h. Nothing in bytes that were read is trusted. */
#ifndef PST_FORMAT_FORMAT_PARTS_H
#define PST_FORMAT_FORMAT_PARTS_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSTI_PARTS_MAJOR 1
#define PSTI_PARTS_NAME "parts.pst"
/* Names of the folder with the shards packed so far, and of the temporary file that becomes the
 * plan. A token follows each prefix. */
#define PSTI_PARTS_FOLDER_PREFIX "parts-"
#define PSTI_PARTS_TMP_PREFIX "parts.pst."

enum {
    PSTI_PARTS_HEADER_NBYTES = 80,
    PSTI_PARTS_SHARDS_MAX = 1 << 24, /* so a plan has at most 128 MiB */
    PSTI_PARTS_NAME_CAP = 64, /* room for a name with its NUL */
};

/* Prints the prefix and the token. */
void psti_format_parts_name(const char *prefix, uint64_t token, char out[PSTI_PARTS_NAME_CAP]);
/* True if the name is the prefix and a token, as psti_format_parts_name prints them. A name that
 * only begins so is the user's. */
bool psti_format_parts_is_name(const char *prefix, const char *name);

/* The head of a plan of shards. */
struct psti_parts {
    uint64_t token;     /* differs for each plan, so that processes of an old plan find nothing */
    uint64_t mark;      /* a hash of the options and the version of the software */
    uint8_t source[16]; /* identity of the source's listing */
    uint64_t n_samples; /* of the source */
    uint32_t n_shards;  /* above 0 */
};

static inline size_t psti_format_parts_nbytes(uint32_t n_shards)
{
    return PSTI_PARTS_HEADER_NBYTES + 8 * (size_t)n_shards;
}
/* Prints psti_format_parts_nbytes bytes. first: [n_shards], the first sample of each shard. */
void psti_format_print_parts(const struct psti_parts *parts, const uint64_t *first, uint8_t *out);
/* Parses a whole plan. Checks that the first samples of shards begin with 0, rise, and are samples
 * of the source. A source without samples has one shard.
 * PST_ERROR_TRUNCATED, PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_VERSION. */
enum pst_status psti_format_parse_parts(const uint8_t *bytes, size_t nbytes,
                                        struct psti_parts *parts, struct pst_error *err);
/* Returns the first sample of a shard. bytes: parsed before. i_shard n_shards gives n_samples. */
uint64_t psti_format_parts_first(const uint8_t *bytes, const struct psti_parts *parts,
                                 uint32_t i_shard);

#endif
