/* format_parts.c - prints and parses a plan of shards, which divides a packing run into parts.
 *
 * In: values, or any bytes. Out: bytes, or checked values. Pure functions; any thread. */
#include "format/format_parts.h"

#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = "PSTPARTS";

void psti_format_parts_name(const char *prefix, uint64_t token, char out[PSTI_PARTS_NAME_CAP])
{
    snprintf(out, PSTI_PARTS_NAME_CAP, "%s%016" PRIx64, prefix, token);
}

bool psti_format_parts_is_name(const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 && strlen(name + n) == 16 &&
           strspn(name + n, "0123456789abcdef") == 16;
}

void psti_format_print_parts(const struct psti_parts *parts, const uint64_t *first, uint8_t *out)
{
    uint8_t *table = out + PSTI_PARTS_HEADER_NBYTES;
    memset(out, 0, PSTI_PARTS_HEADER_NBYTES);
    for (uint32_t i = 0; i < parts->n_shards; i++)
        psti_store_u64(table + 8 * (size_t)i, first[i]);
    memcpy(out, magic, sizeof magic);
    psti_store_u16(out + 8, PSTI_PARTS_MAJOR);
    psti_store_u64(out + 16, parts->token);
    psti_store_u64(out + 24, parts->mark);
    memcpy(out + 32, parts->source, sizeof parts->source);
    psti_store_u64(out + 48, parts->n_samples);
    psti_store_u32(out + 56, parts->n_shards);
    psti_store_u64(out + 64, psti_hash64(table, 8 * (size_t)parts->n_shards));
    psti_store_u64(out + 72, psti_hash64(out, 72));
}

static enum pst_status fail(struct pst_error *err, enum pst_status status, const char *what)
{
    return psti_fail(err, status, "format", "the plan of shards %s", what);
}

uint64_t psti_format_parts_first(const uint8_t *bytes, const struct psti_parts *parts,
                                 uint32_t i_shard)
{
    return i_shard < parts->n_shards
               ? psti_load_u64(bytes + PSTI_PARTS_HEADER_NBYTES + 8 * (size_t)i_shard)
               : parts->n_samples;
}

/* Checks the table of a plan. The head and the length must have been checked before. */
static enum pst_status check_table(const uint8_t *bytes, const struct psti_parts *parts,
                                   struct pst_error *err)
{
    uint64_t before = 0;
    if (psti_load_u64(bytes + 64) !=
        psti_hash64(bytes + PSTI_PARTS_HEADER_NBYTES, 8 * (size_t)parts->n_shards))
        return fail(err, PST_ERROR_CHECKSUM, "was altered");
    for (uint32_t i = 0; i < parts->n_shards; i++) {
        uint64_t first = psti_format_parts_first(bytes, parts, i);
        bool rises = i == 0 ? first == 0 : first > before;
        if (!rises || (i > 0 && first >= parts->n_samples))
            return fail(err, PST_ERROR_CORRUPT, "has shards whose samples do not follow");
        before = first;
    }
    return PST_OK;
}

enum pst_status psti_format_parse_parts(const uint8_t *bytes, size_t nbytes,
                                        struct psti_parts *parts, struct pst_error *err)
{
    memset(parts, 0, sizeof *parts);
    if (nbytes >= sizeof magic && memcmp(bytes, magic, sizeof magic) != 0)
        return fail(err, PST_ERROR_CORRUPT, "is none: its first bytes are others");
    if (nbytes < PSTI_PARTS_HEADER_NBYTES)
        return fail(err, PST_ERROR_TRUNCATED, "ends within its header");
    if (psti_load_u64(bytes + 72) != psti_hash64(bytes, 72))
        return fail(err, PST_ERROR_CHECKSUM, "has a header that was altered");
    if (psti_load_u16(bytes + 8) != PSTI_PARTS_MAJOR || psti_load_u16(bytes + 10) != 0)
        return fail(err, PST_ERROR_VERSION, "was made by another version of Penstock");
    struct psti_parts read = {.token = psti_load_u64(bytes + 16),
                              .mark = psti_load_u64(bytes + 24),
                              .n_samples = psti_load_u64(bytes + 48),
                              .n_shards = psti_load_u32(bytes + 56)};
    memcpy(read.source, bytes + 32, sizeof read.source);
    if (read.n_shards == 0 || read.n_shards > PSTI_PARTS_SHARDS_MAX ||
        psti_load_u32(bytes + 12) != 0 || psti_load_u32(bytes + 60) != 0)
        return fail(err, PST_ERROR_CORRUPT, "has an impossible header");
    if (nbytes != psti_format_parts_nbytes(read.n_shards))
        return fail(err,
                    nbytes < psti_format_parts_nbytes(read.n_shards) ? PST_ERROR_TRUNCATED
                                                                     : PST_ERROR_CORRUPT,
                    "has another length than its shards take");
    enum pst_status status = check_table(bytes, &read, err);
    if (status == PST_OK)
        *parts = read;
    return status;
}
