/* fuzz_dataset_sums.c - reads any bytes as a file of checksums, which a process keeps beside an
 * index: a header, and chunks of columns. The header's checksum is corrected first, so that the
 * code after that check is reached. */
#include "base/bits.h"
#include "base/hash.h"
#include "format/format_sums.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

/* Parses a chunk and prints it again, which must give the same bytes. Returns its size, or 0 if
 * there is none. */
static size_t walk_chunk(const uint8_t *bytes, size_t nbytes, size_t n)
{
    static uint64_t sums[PSTI_SUMS_CHUNK];
    static uint8_t printed[PSTI_SUMS_CHUNK_MAX];
    size_t n_bits = psti_format_sums_bits(n);
    if (n_bits > nbytes)
        return 0;
    size_t n_sums = psti_format_sums_in_chunk(bytes, n);
    if (n_sums == SIZE_MAX || n_sums * 8 > nbytes - n_bits ||
        !psti_format_parse_sums_chunk(bytes, bytes + n_bits, n, sums))
        return 0;
    size_t size = psti_format_print_sums_chunk(sums, n, printed);
    if (n_sums > n || size != n_bits + n_sums * 8 || memcmp(printed, bytes, size) != 0)
        abort();
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *given, size_t nbytes)
{
    struct psti_sums sums;
    struct pst_error err = {0};
    uint64_t size;
    uint8_t header[PSTI_SUMS_HEADER_NBYTES], printed[PSTI_SUMS_HEADER_NBYTES];
    if (nbytes < sizeof header)
        return 0;
    memcpy(header, given, sizeof header);
    psti_store_u64(header + 56, psti_hash64(header, 56));
    if (psti_format_parse_sums(header, &sums, &err) != PST_OK) {
        if (err.text[0] == '\0')
            abort();
        return 0;
    }
    psti_format_print_sums(&sums, printed);
    if (memcmp(printed + 16, header + 16, 40) != 0)
        abort();
    if (!psti_format_sums_nbytes(&sums, &size) || size != nbytes)
        return 0;
    size_t at = sizeof header, end = nbytes - PSTI_SUMS_END_NBYTES;
    for (uint64_t fields = sums.fields; fields != 0; fields &= fields - 1)
        for (uint64_t first = 0; first < sums.n_samples; first += PSTI_SUMS_CHUNK) {
            uint64_t left = sums.n_samples - first;
            size_t n = left < PSTI_SUMS_CHUNK ? (size_t)left : PSTI_SUMS_CHUNK;
            size_t chunk = walk_chunk(given + at, end - at, n);
            if (chunk == 0)
                return 0;
            at += chunk;
        }
    return 0;
}
