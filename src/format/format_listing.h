/* format_listing.h - the byte layout of the saved listing of a folder, as docs/format-listing.md
 * states it.
 *
 * Pure functions, like those of format_dataset.h: they convert bytes to values and back, and trust
 * no byte. */
#ifndef PST_FORMAT_FORMAT_LISTING_H
#define PST_FORMAT_FORMAT_LISTING_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSTI_LISTING_MAJOR 1
#define PSTI_LISTING_MINOR 0

enum {
    /* Version of the rules by which a scan takes files or leaves them out. A listing with another
     * version is not used. */
    PSTI_LISTING_RULES = 1,
    PSTI_LISTING_HEADER_NBYTES = 64,
    PSTI_LISTING_DIRECTORY_NBYTES = 128,
    PSTI_LISTING_CHUNK_NBYTES = 32,
    PSTI_LISTING_END_NBYTES = 96,
    PSTI_LISTING_ENTRY_NBYTES = 12,
    PSTI_LISTING_CHUNK_ENTRIES = 1024, /* maximum number of entries of a chunk */
    PSTI_LISTING_NAME_MAX = 256,       /* maximum number of bytes of an entry's name, with the slash
                                        * of a folder */
    PSTI_LISTING_TEXT_MAX = 32768,     /* maximum number of bytes of a directory's path and
                                        * notices */
    /* Maximum number of bytes of a chunk behind its head. */
    PSTI_LISTING_PAYLOAD_MAX =
        PSTI_LISTING_CHUNK_ENTRIES * (PSTI_LISTING_ENTRY_NBYTES + 8 + PSTI_LISTING_NAME_MAX + 1),
};

struct psti_listing_header {
    bool is_audio;     /* true: the files are audio files; false: images */
    int64_t skew_ns;   /* how much the file system's clock was ahead of the maker's clock,
                        * nanoseconds */
    int64_t margin_ns; /* a directory that changed less than this before it was listed must be
                        * listed again, nanoseconds */
};

struct psti_listing_directory {
    uint32_t text_nbytes; /* bytes of the directory's path and notices */
    uint32_t n_chunks, n_notices;
    uint64_t chunks_nbytes; /* bytes of all chunks with their heads */
    uint64_t n_entries;
    uint64_t inode;
    int64_t mtime_s, ctime_s;
    uint32_t mtime_ns, ctime_ns;
    int64_t listed_ns; /* time (CLOCK_REALTIME) of the maker right before it listed the directory */
    uint64_t stamps;   /* sum of a hash of path and stamp over the directory's files */
    uint64_t n_hidden, n_seen;
    bool list_again; /* true if the directory may change without a change of its times */
    uint64_t text_checksum;
};

struct psti_listing_chunk {
    uint32_t n_entries, payload_nbytes, n_longs;
    uint64_t checksum;
};

/* One entry of a directory, from a chunk. */
struct psti_listing_entry {
    uint64_t nbytes;
    uint32_t place, stamp;
};

struct psti_listing_end {
    uint64_t n_directories, n_files, file_nbytes;
    uint8_t id[16], files_identity[16];
};

void psti_format_print_listing_header(const struct psti_listing_header *header,
                                      uint8_t out[PSTI_LISTING_HEADER_NBYTES]);
/* Returns PST_ERROR_VERSION if the listing has another major version, or was made by other
 * rules. */
enum pst_status psti_format_parse_listing_header(const uint8_t bytes[PSTI_LISTING_HEADER_NBYTES],
                                                 struct psti_listing_header *header,
                                                 struct pst_error *err);
void psti_format_print_listing_directory(const struct psti_listing_directory *directory,
                                         uint8_t out[PSTI_LISTING_DIRECTORY_NBYTES]);
enum pst_status psti_format_parse_listing_directory(
    const uint8_t bytes[PSTI_LISTING_DIRECTORY_NBYTES], struct psti_listing_directory *directory,
    struct pst_error *err);
/* Returns whether the text has the form that the directory states: a path that is empty or ends
 * with a slash, then n_notices notices. */
bool psti_format_listing_text_fits(const struct psti_listing_directory *directory,
                                   const uint8_t *text);
/* Reads the next notice of a valid text, and moves *at behind it. At first, *at must point behind
 * the path's NUL. */
void psti_format_listing_notice(const uint8_t **at, uint64_t *count, const char **name,
                                const char **first);
void psti_format_print_listing_chunk(const struct psti_listing_chunk *chunk,
                                     uint8_t out[PSTI_LISTING_CHUNK_NBYTES]);
enum pst_status psti_format_parse_listing_chunk(const uint8_t bytes[PSTI_LISTING_CHUNK_NBYTES],
                                                struct psti_listing_chunk *chunk,
                                                struct pst_error *err);
/* Returns whether a chunk's payload is valid: its checksum is right and it has n_entries names.
 * Each name must be valid for an entry (not empty, no dot in front, no slash except at the end),
 * and the names must rise in byte order, all above `last` ("": no name before). */
bool psti_format_listing_payload_fits(const struct psti_listing_chunk *chunk,
                                      const uint8_t *payload, const char *last);
/* Returns the offset of the first name in a payload. */
size_t psti_format_listing_names(const struct psti_listing_chunk *chunk);
/* Returns entry i of a valid payload. *i_long: index of the next long size; 0 before the first
 * call. */
struct psti_listing_entry psti_format_listing_entry(const struct psti_listing_chunk *chunk,
                                                    const uint8_t *payload, uint32_t i,
                                                    uint32_t *i_long);
void psti_format_print_listing_end(const struct psti_listing_end *end,
                                   uint8_t out[PSTI_LISTING_END_NBYTES]);
enum pst_status psti_format_parse_listing_end(const uint8_t bytes[PSTI_LISTING_END_NBYTES],
                                              struct psti_listing_end *end, struct pst_error *err);

#endif
