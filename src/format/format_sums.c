/* format_sums.c - prints and parses a file of item checksums.
 *
 * In: values, or any bytes. Out: bytes, or values. Pure functions; any thread. */
#include "format/format_sums.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

#define ROOM "format"

static const char magic[8] = {'P', 'S', 'T', 'S', 'U', 'M', 'S', '\n'};

void psti_format_print_sums(const struct psti_sums *sums, uint8_t out[PSTI_SUMS_HEADER_NBYTES])
{
    memset(out, 0, PSTI_SUMS_HEADER_NBYTES);
    memcpy(out, magic, sizeof magic);
    psti_store_u32(out + 8, PSTI_SUMS_MAJOR);
    memcpy(out + 16, sums->key, 16);
    psti_store_u64(out + 32, sums->n_samples);
    psti_store_u64(out + 40, sums->fields);
    psti_store_u64(out + 48, sums->n);
    psti_store_u64(out + 56, psti_hash64(out, 56));
}

enum pst_status psti_format_parse_sums(const uint8_t bytes[PSTI_SUMS_HEADER_NBYTES],
                                       struct psti_sums *sums, struct pst_error *err)
{
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "these are no sums of an index");
    if (psti_load_u32(bytes + 8) != PSTI_SUMS_MAJOR)
        return psti_fail(err, PST_ERROR_VERSION, ROOM, "another version made these sums");
    if (psti_load_u64(bytes + 56) != psti_hash64(bytes, 56))
        return psti_fail(err, PST_ERROR_CHECKSUM, ROOM, "the header of these sums is damaged");
    memcpy(sums->key, bytes + 16, 16);
    sums->n_samples = psti_load_u64(bytes + 32);
    sums->fields = psti_load_u64(bytes + 40);
    sums->n = psti_load_u64(bytes + 48);
    return PST_OK;
}

bool psti_format_sums_nbytes(const struct psti_sums *sums, uint64_t *nbytes)
{
    uint64_t n_fields = (uint64_t)__builtin_popcountll(sums->fields), bits, stored, all;
    return psti_mul_u64(sums->n_samples / 8 + (sums->n_samples % 8 != 0), n_fields, &bits) &&
           psti_mul_u64(sums->n_samples, n_fields, &all) && sums->n <= all &&
           psti_mul_u64(sums->n, 8, &stored) && psti_add_u64(bits, stored, nbytes) &&
           psti_add_u64(*nbytes, PSTI_SUMS_HEADER_NBYTES + PSTI_SUMS_END_NBYTES, nbytes);
}

size_t psti_format_print_sums_chunk(const uint64_t *sums, size_t n,
                                    uint8_t out[PSTI_SUMS_CHUNK_MAX])
{
    size_t at = psti_format_sums_bits(n);
    memset(out, 0, at);
    for (size_t i = 0; i < n; i++)
        if (sums[i] != 0) {
            out[i / 8] |= (uint8_t)(1u << i % 8);
            psti_store_u64(out + at, sums[i]);
            at += 8;
        }
    return at;
}

size_t psti_format_sums_in_chunk(const uint8_t *bits, size_t n)
{
    size_t count = 0, n_bytes = psti_format_sums_bits(n);
    for (size_t i = 0; i < n_bytes; i++)
        count += (size_t)__builtin_popcount(bits[i]);
    return n % 8 != 0 && bits[n_bytes - 1] >> n % 8 != 0 ? SIZE_MAX : count;
}

bool psti_format_parse_sums_chunk(const uint8_t *bits, const uint8_t *stored, size_t n,
                                  uint64_t *sums)
{
    for (size_t i = 0; i < n; i++) {
        sums[i] = 0;
        if ((bits[i / 8] >> i % 8 & 1) == 0)
            continue;
        sums[i] = psti_load_u64(stored);
        stored += 8;
        if (sums[i] == 0)
            return false;
    }
    return true;
}
