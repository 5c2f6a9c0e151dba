/* format_listing.c - prints and parses the saved listing of a folder (docs/format-listing.md). Pure
 * functions; any thread. */
#include "format/format_listing.h"

#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

static const uint8_t file_magic[8] = {0x89, 'P', 'S', 'T', 'L', 0x0D, 0x0A, 0x1A};
static const uint8_t directory_magic[4] = {'P', 'S', 'L', 'D'};
static const uint8_t chunk_magic[4] = {'P', 'S', 'L', 'C'};
static const uint8_t end_magic[4] = {'P', 'S', 'L', 'E'};

static enum pst_status fail(struct pst_error *err, enum pst_status status, const char *text)
{
    return psti_fail(err, status, "format", "%s", text);
}

/* Writes the checksum, which is the last number of each head (of file, directory or chunk). */
static void print_sum(uint8_t *out, size_t nbytes)
{
    psti_store_u64(out + nbytes - 8, psti_hash64(out, nbytes - 8));
}

static bool sum_fits(const uint8_t *bytes, size_t nbytes)
{
    return psti_load_u64(bytes + nbytes - 8) == psti_hash64(bytes, nbytes - 8);
}

/* Header and end
 * -------------------------------------------------------------------------------------------- */

void psti_format_print_listing_header(const struct psti_listing_header *header,
                                      uint8_t out[PSTI_LISTING_HEADER_NBYTES])
{
    memset(out, 0, PSTI_LISTING_HEADER_NBYTES);
    memcpy(out, file_magic, sizeof file_magic);
    psti_store_u16(out + 8, PSTI_LISTING_MAJOR);
    psti_store_u16(out + 10, PSTI_LISTING_MINOR);
    psti_store_u32(out + 12, PSTI_LISTING_HEADER_NBYTES);
    psti_store_u32(out + 16, PSTI_LISTING_RULES);
    psti_store_u32(out + 20, header->is_audio);
    psti_store_u64(out + 24, (uint64_t)header->skew_ns);
    psti_store_u64(out + 32, (uint64_t)header->margin_ns);
    print_sum(out, PSTI_LISTING_HEADER_NBYTES);
}

enum pst_status psti_format_parse_listing_header(const uint8_t bytes[PSTI_LISTING_HEADER_NBYTES],
                                                 struct psti_listing_header *header,
                                                 struct pst_error *err)
{
    if (memcmp(bytes, file_magic, sizeof file_magic) != 0)
        return fail(err, PST_ERROR_CORRUPT, "this is no saved listing");
    if (psti_load_u16(bytes + 8) != PSTI_LISTING_MAJOR)
        return fail(err, PST_ERROR_VERSION, "the saved listing has another major version");
    if (!sum_fits(bytes, PSTI_LISTING_HEADER_NBYTES))
        return fail(err, PST_ERROR_CHECKSUM, "the saved listing's header was altered");
    if (psti_load_u32(bytes + 12) != PSTI_LISTING_HEADER_NBYTES || psti_load_u32(bytes + 20) > 1)
        return fail(err, PST_ERROR_CORRUPT, "the saved listing's header has impossible values");
    if (psti_load_u32(bytes + 16) != PSTI_LISTING_RULES)
        return fail(err, PST_ERROR_VERSION, "the saved listing was made by other rules");
    header->is_audio = psti_load_u32(bytes + 20) == 1;
    header->skew_ns = (int64_t)psti_load_u64(bytes + 24);
    header->margin_ns = (int64_t)psti_load_u64(bytes + 32);
    return PST_OK;
}

void psti_format_print_listing_end(const struct psti_listing_end *end,
                                   uint8_t out[PSTI_LISTING_END_NBYTES])
{
    memset(out, 0, PSTI_LISTING_END_NBYTES);
    memcpy(out, end_magic, sizeof end_magic);
    psti_store_u64(out + 8, end->n_directories);
    psti_store_u64(out + 16, end->n_files);
    memcpy(out + 24, end->id, 16);
    memcpy(out + 40, end->files_identity, 16);
    psti_store_u64(out + 56, end->file_nbytes);
    print_sum(out, PSTI_LISTING_END_NBYTES);
}

enum pst_status psti_format_parse_listing_end(const uint8_t bytes[PSTI_LISTING_END_NBYTES],
                                              struct psti_listing_end *end, struct pst_error *err)
{
    if (memcmp(bytes, end_magic, sizeof end_magic) != 0 ||
        !sum_fits(bytes, PSTI_LISTING_END_NBYTES))
        return fail(err, PST_ERROR_TRUNCATED, "the saved listing has no end");
    end->n_directories = psti_load_u64(bytes + 8);
    end->n_files = psti_load_u64(bytes + 16);
    memcpy(end->id, bytes + 24, 16);
    memcpy(end->files_identity, bytes + 40, 16);
    end->file_nbytes = psti_load_u64(bytes + 56);
    return PST_OK;
}

/* Directories
 * -------------------------------------------------------------------------------------------- */

void psti_format_print_listing_directory(const struct psti_listing_directory *directory,
                                         uint8_t out[PSTI_LISTING_DIRECTORY_NBYTES])
{
    memset(out, 0, PSTI_LISTING_DIRECTORY_NBYTES);
    memcpy(out, directory_magic, sizeof directory_magic);
    psti_store_u32(out + 4, directory->text_nbytes);
    psti_store_u32(out + 8, directory->n_chunks);
    psti_store_u32(out + 12, directory->n_notices);
    psti_store_u64(out + 16, directory->chunks_nbytes);
    psti_store_u64(out + 24, directory->n_entries);
    psti_store_u64(out + 32, directory->inode);
    psti_store_u64(out + 40, (uint64_t)directory->mtime_s);
    psti_store_u64(out + 48, (uint64_t)directory->ctime_s);
    psti_store_u32(out + 56, directory->mtime_ns);
    psti_store_u32(out + 60, directory->ctime_ns);
    psti_store_u64(out + 64, (uint64_t)directory->listed_ns);
    psti_store_u64(out + 72, directory->stamps);
    psti_store_u64(out + 80, directory->n_hidden);
    psti_store_u64(out + 88, directory->n_seen);
    psti_store_u32(out + 96, directory->list_again);
    psti_store_u64(out + 104, directory->text_checksum);
    print_sum(out, PSTI_LISTING_DIRECTORY_NBYTES);
}

enum pst_status psti_format_parse_listing_directory(
    const uint8_t bytes[PSTI_LISTING_DIRECTORY_NBYTES], struct psti_listing_directory *directory,
    struct pst_error *err)
{
    if (memcmp(bytes, directory_magic, sizeof directory_magic) != 0 ||
        !sum_fits(bytes, PSTI_LISTING_DIRECTORY_NBYTES))
        return fail(err, PST_ERROR_CHECKSUM, "a directory of the saved listing was altered");
    *directory = (struct psti_listing_directory){
        .text_nbytes = psti_load_u32(bytes + 4),
        .n_chunks = psti_load_u32(bytes + 8),
        .n_notices = psti_load_u32(bytes + 12),
        .chunks_nbytes = psti_load_u64(bytes + 16),
        .n_entries = psti_load_u64(bytes + 24),
        .inode = psti_load_u64(bytes + 32),
        .mtime_s = (int64_t)psti_load_u64(bytes + 40),
        .ctime_s = (int64_t)psti_load_u64(bytes + 48),
        .mtime_ns = psti_load_u32(bytes + 56),
        .ctime_ns = psti_load_u32(bytes + 60),
        .listed_ns = (int64_t)psti_load_u64(bytes + 64),
        .stamps = psti_load_u64(bytes + 72),
        .n_hidden = psti_load_u64(bytes + 80),
        .n_seen = psti_load_u64(bytes + 88),
        .list_again = psti_load_u32(bytes + 96) != 0,
        .text_checksum = psti_load_u64(bytes + 104),
    };
    if (directory->text_nbytes == 0 || directory->text_nbytes > PSTI_LISTING_TEXT_MAX)
        return fail(err, PST_ERROR_CORRUPT, "a directory of the saved listing has no path");
    return PST_OK;
}

/* Moves *at past the next NUL. Returns false if there is none before `end`. */
static bool skip_text(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *nul = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
    if (nul == NULL)
        return false;
    *at = nul + 1;
    return true;
}

bool psti_format_listing_text_fits(const struct psti_listing_directory *directory,
                                   const uint8_t *text)
{
    const uint8_t *at = text, *end = text + directory->text_nbytes;
    if (psti_hash64(text, directory->text_nbytes) != directory->text_checksum ||
        !skip_text(&at, end) || (at > text + 1 && at[-2] != '/'))
        return false;
    for (uint32_t i = 0; i < directory->n_notices; i++) {
        if (end - at < 8)
            return false;
        at += 8;
        if (!skip_text(&at, end) || !skip_text(&at, end))
            return false;
    }
    return at == end;
}

void psti_format_listing_notice(const uint8_t **at, uint64_t *count, const char **name,
                                const char **first)
{
    *count = psti_load_u64(*at);
    *name = (const char *)*at + 8;
    *first = *name + strlen(*name) + 1;
    *at = (const uint8_t *)*first + strlen(*first) + 1;
}

/* Chunks
 * -------------------------------------------------------------------------------------------- */

void psti_format_print_listing_chunk(const struct psti_listing_chunk *chunk,
                                     uint8_t out[PSTI_LISTING_CHUNK_NBYTES])
{
    memset(out, 0, PSTI_LISTING_CHUNK_NBYTES);
    memcpy(out, chunk_magic, sizeof chunk_magic);
    psti_store_u32(out + 4, chunk->n_entries);
    psti_store_u32(out + 8, chunk->payload_nbytes);
    psti_store_u32(out + 12, chunk->n_longs);
    psti_store_u64(out + 16, chunk->checksum);
    print_sum(out, PSTI_LISTING_CHUNK_NBYTES);
}

enum pst_status psti_format_parse_listing_chunk(const uint8_t bytes[PSTI_LISTING_CHUNK_NBYTES],
                                                struct psti_listing_chunk *chunk,
                                                struct pst_error *err)
{
    if (memcmp(bytes, chunk_magic, sizeof chunk_magic) != 0 ||
        !sum_fits(bytes, PSTI_LISTING_CHUNK_NBYTES))
        return fail(err, PST_ERROR_CHECKSUM, "a chunk of the saved listing was altered");
    *chunk = (struct psti_listing_chunk){.n_entries = psti_load_u32(bytes + 4),
                                         .payload_nbytes = psti_load_u32(bytes + 8),
                                         .n_longs = psti_load_u32(bytes + 12),
                                         .checksum = psti_load_u64(bytes + 16)};
    if (chunk->n_entries == 0 || chunk->n_entries > PSTI_LISTING_CHUNK_ENTRIES ||
        chunk->n_longs > chunk->n_entries || chunk->payload_nbytes > PSTI_LISTING_PAYLOAD_MAX ||
        chunk->payload_nbytes < psti_format_listing_names(chunk))
        return fail(err, PST_ERROR_CORRUPT, "a chunk of the saved listing has impossible values");
    return PST_OK;
}

size_t psti_format_listing_names(const struct psti_listing_chunk *chunk)
{
    return (size_t)chunk->n_entries * PSTI_LISTING_ENTRY_NBYTES + (size_t)chunk->n_longs * 8;
}

/* Returns whether an entry may have this name of n bytes, which a NUL follows. */
static bool name_fits(const uint8_t *name, size_t n)
{
    if (n == 0 || n > PSTI_LISTING_NAME_MAX || name[0] == '.' || name[0] == '/')
        return false;
    return memchr(name, '/', n - 1) == NULL;
}

bool psti_format_listing_payload_fits(const struct psti_listing_chunk *chunk,
                                      const uint8_t *payload, const char *last)
{
    const uint8_t *at = payload + psti_format_listing_names(chunk);
    const uint8_t *end = payload + chunk->payload_nbytes;
    uint32_t n_longs = 0;
    if (psti_hash64(payload, chunk->payload_nbytes) != chunk->checksum)
        return false;
    for (uint32_t i = 0; i < chunk->n_entries; i++) {
        const uint8_t *name = at;
        n_longs += psti_load_u32(payload + (size_t)i * PSTI_LISTING_ENTRY_NBYTES) == UINT32_MAX;
        if (!skip_text(&at, end) || !name_fits(name, (size_t)(at - name) - 1) ||
            strcmp(last, (const char *)name) >= 0)
            return false;
        last = (const char *)name;
    }
    return at == end && n_longs == chunk->n_longs;
}

struct psti_listing_entry psti_format_listing_entry(const struct psti_listing_chunk *chunk,
                                                    const uint8_t *payload, uint32_t i,
                                                    uint32_t *i_long)
{
    const uint8_t *brief = payload + (size_t)i * PSTI_LISTING_ENTRY_NBYTES;
    const uint8_t *longs = payload + (size_t)chunk->n_entries * PSTI_LISTING_ENTRY_NBYTES;
    struct psti_listing_entry entry = {.nbytes = psti_load_u32(brief),
                                       .place = psti_load_u32(brief + 4),
                                       .stamp = psti_load_u32(brief + 8)};
    if (entry.nbytes == UINT32_MAX)
        entry.nbytes = psti_load_u64(longs + 8 * (size_t)(*i_long)++);
    return entry;
}
