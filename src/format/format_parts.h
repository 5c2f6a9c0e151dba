/* format_parts.h - the byte layout of a plan of shards (docs/format-dataset.md), and the names of
 * the files and folders beside it while several processes pack parts of a data set.
 *
 * Pure functions, like those of format_dataset.h. Parsers trust no byte. */
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
    PSTI_PARTS_SHARDS_MAX = 1 << 24, /* limits the size of a plan to 128 MiB */
    PSTI_PARTS_NAME_CAP = 64, /* bytes for a name with its NUL */
};

/* Writes a name: the prefix, then the token in hexadecimal digits. */
void psti_format_parts_name(const char *prefix, uint64_t token, char out[PSTI_PARTS_NAME_CAP]);
/* Returns whether a name is the prefix and a token, as psti_format_parts_name writes it. Other
 * names with that prefix belong to the user. */
bool psti_format_parts_is_name(const char *prefix, const char *name);

/* The head of a plan of shards (see the top of this file). */
struct psti_parts {
    uint64_t token;     /* differs for each plan, so processes of an old plan find no files of the
                         * new one */
    uint64_t mark;      /* hash of the options and of the software's version */
    uint8_t source[16]; /* identity of the source's listing */
    uint64_t n_samples; /* number of samples of the source */
    uint32_t n_shards;  /* number of shards, above 0 */
};

static inline size_t psti_format_parts_nbytes(uint32_t n_shards)
{
    return PSTI_PARTS_HEADER_NBYTES + 8 * (size_t)n_shards;
}
/* Prints a plan of psti_format_parts_nbytes bytes. first[n_shards]: number of the first sample of
 * each shard. */
void psti_format_print_parts(const struct psti_parts *parts, const uint64_t *first, uint8_t *out);
/* Parses a whole plan. The first samples of the shards must begin with 0, rise, and exist in the
 * source. A source without samples has one shard. May return PST_ERROR_TRUNCATED,
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM or PST_ERROR_VERSION. */
enum pst_status psti_format_parse_parts(const uint8_t *bytes, size_t nbytes,
                                        struct psti_parts *parts, struct pst_error *err);
/* Returns the number of the first sample of shard i_shard; n_samples if i_shard is n_shards.
 * psti_format_parse_parts must have accepted `bytes`. */
uint64_t psti_format_parts_first(const uint8_t *bytes, const struct psti_parts *parts,
                                 uint32_t i_shard);

#endif
