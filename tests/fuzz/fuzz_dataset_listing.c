/* fuzz_dataset_listing.c - reads any bytes as the saved listing of a folder, and as the text of
 * a lock.
 *
 * The input is read as a listing is, directory by directory and chunk by chunk. Checksums are
 * corrected on the way, so that the code after those checks is reached. */
#include "base/bits.h"
#include "base/hash.h"
#include "format/format_listing.h"
#include "format/format_lock.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

/* Reads each byte of a text, so that a sanitizer detects one outside of its memory. */
static volatile size_t n_read;
static void read_text(const char *text) { n_read += strlen(text); }

static void fix_sum(uint8_t *head, size_t nbytes)
{
    psti_store_u64(head + nbytes - 8, psti_hash64(head, nbytes - 8));
}

/* Reads a chunk. Returns the offset behind it, or 0 if there is none. */
static size_t walk_chunk(uint8_t *bytes, size_t nbytes, size_t at, char last[])
{
    struct psti_listing_chunk chunk;
    if (nbytes - at < PSTI_LISTING_CHUNK_NBYTES)
        return 0;
    uint8_t *payload = bytes + at + PSTI_LISTING_CHUNK_NBYTES;
    size_t left = nbytes - at - PSTI_LISTING_CHUNK_NBYTES;
    if (psti_load_u32(bytes + at + 8) <= left)
        psti_store_u64(bytes + at + 16, psti_hash64(payload, psti_load_u32(bytes + at + 8)));
    fix_sum(bytes + at, PSTI_LISTING_CHUNK_NBYTES);
    if (psti_format_parse_listing_chunk(bytes + at, &chunk, NULL) != PST_OK ||
        chunk.payload_nbytes > left || !psti_format_listing_payload_fits(&chunk, payload, last))
        return 0;
    const char *name = (const char *)payload + psti_format_listing_names(&chunk);
    uint32_t i_long = 0;
    for (uint32_t i = 0; i < chunk.n_entries; i++) {
        n_read += (size_t)psti_format_listing_entry(&chunk, payload, i, &i_long).nbytes;
        if (strlen(name) > PSTI_LISTING_NAME_MAX || strcmp(last, name) >= 0)
            abort();
        memcpy(last, name, strlen(name) + 1);
        name += strlen(name) + 1;
    }
    if (name != (const char *)payload + chunk.payload_nbytes || i_long != chunk.n_longs)
        abort();
    return at + PSTI_LISTING_CHUNK_NBYTES + chunk.payload_nbytes;
}

/* Reads a directory. Returns the offset behind it, or 0 if there is none. */
static size_t walk_directory(uint8_t *bytes, size_t nbytes, size_t at)
{
    struct psti_listing_directory directory;
    char last[PSTI_LISTING_NAME_MAX + 1] = "";
    if (nbytes - at < PSTI_LISTING_DIRECTORY_NBYTES)
        return 0;
    uint8_t *text = bytes + at + PSTI_LISTING_DIRECTORY_NBYTES;
    size_t left = nbytes - at - PSTI_LISTING_DIRECTORY_NBYTES;
    if (psti_load_u32(bytes + at + 4) <= left)
        psti_store_u64(bytes + at + 104, psti_hash64(text, psti_load_u32(bytes + at + 4)));
    fix_sum(bytes + at, PSTI_LISTING_DIRECTORY_NBYTES);
    if (psti_format_parse_listing_directory(bytes + at, &directory, NULL) != PST_OK ||
        directory.text_nbytes > left || !psti_format_listing_text_fits(&directory, text))
        return 0;
    read_text((const char *)text);
    const uint8_t *notice = text + strlen((const char *)text) + 1;
    for (uint32_t i = 0; i < directory.n_notices; i++) {
        const char *name, *first;
        uint64_t count;
        psti_format_listing_notice(&notice, &count, &name, &first);
        read_text(name);
        read_text(first);
    }
    at += PSTI_LISTING_DIRECTORY_NBYTES + directory.text_nbytes;
    for (uint32_t i = 0; i < directory.n_chunks && at > 0; i++)
        at = walk_chunk(bytes, nbytes, at, last);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *given, size_t nbytes)
{
    struct psti_listing_header header;
    struct psti_listing_end end;
    struct psti_lock_note note;
    uint8_t *bytes = malloc(nbytes + 1);
    if (bytes == NULL)
        return 0;
    memcpy(bytes, given, nbytes);
    psti_format_parse_lock((const char *)bytes, nbytes, &note);
    size_t at = 0;
    if (nbytes >= PSTI_LISTING_HEADER_NBYTES) {
        fix_sum(bytes, PSTI_LISTING_HEADER_NBYTES);
        if (psti_format_parse_listing_header(bytes, &header, NULL) == PST_OK)
            at = PSTI_LISTING_HEADER_NBYTES;
    }
    while (at > 0 && at < nbytes) {
        if (nbytes - at >= PSTI_LISTING_END_NBYTES)
            psti_format_parse_listing_end(bytes + at, &end, NULL);
        at = walk_directory(bytes, nbytes, at);
    }
    free(bytes);
    return 0;
}
