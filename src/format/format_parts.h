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
/* Prefixes of two names: of the folder with the shards packed so far, and of the temporary file
 * that becomes the plan. A token follows each prefix. */
#define PSTI_PARTS_FOLDER_PREFIX "parts-"
#define PSTI_PARTS_TMP_PREFIX "parts.pst."

enum {
    PSTI_PARTS_HEADER_NBYTES = 80,
    PSTI_PARTS_SHARDS_MAX = 1 << 24, /* with so many shards a plan has at most 128 MiB */
    PSTI_PARTS_NAME_CAP = 64, /* bytes for a name with its NUL */
};

/* Prints a name: the prefix and the token. */
void psti_format_parts_name(const char *prefix, uint64_t token, char out[PSTI_PARTS_NAME_CAP]);
/* Returns whether the name is the prefix and a token, as psti_format_parts_name prints them. Other
 * names that begin with the prefix are the user's. */
bool psti_format_parts_is_name(const char *prefix, const char *name);

/* The head of a plan of shards. */
struct psti_parts {
    uint64_t token;     /* differs for each plan, so that processes of an old plan find nothing */
    uint64_t mark;      /* a hash of the options and the version of the software */
    uint8_t source[16]; /* identity of the source's listing */
    uint64_t n_samples; /* number of samples of the source */
    uint32_t n_shards;  /* number of shards, above 0 */
};

static inline size_t psti_format_parts_nbytes(uint32_t n_shards)
{
    return PSTI_PARTS_HEADER_NBYTES + 8 * (size_t)n_shards;
}
/* Prints a plan of psti_format_parts_nbytes bytes. first[n_shards] has the first sample of each
 * shard. */
void psti_format_print_parts(const struct psti_parts *parts, const uint64_t *first, uint8_t *out);
/* Parses a whole plan. Checks that the first samples of shards begin with 0, rise, and are samples
 * of the source. A source without samples has one shard. May return PST_ERROR_TRUNCATED,
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM or PST_ERROR_VERSION. */
enum pst_status psti_format_parse_parts(const uint8_t *bytes, size_t nbytes,
                                        struct psti_parts *parts, struct pst_error *err);
/* Returns the first sample of shard i_shard, or n_samples if i_shard is n_shards. `bytes` must have
 * been parsed. */
uint64_t psti_format_parts_first(const uint8_t *bytes, const struct psti_parts *parts,
                                 uint32_t i_shard);

#endif
