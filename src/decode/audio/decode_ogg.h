/* decode_ogg.h - internal: reads all pages of an Ogg file.
 *
 * An Ogg file is a chain of streams, called links. Each link is one piece of sound.
 * psti_decode_ogg_walk reads all pages, because only the checksums, numbers and flags of all pages
 * together show whether the file is complete. */
#ifndef PST_DECODE_DECODE_OGG_H
#define PST_DECODE_DECODE_OGG_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PSTI_OGG_LINKS_MAX = 4096, PSTI_OPUS_HEAD_MAX = 276 };

enum psti_ogg_codec { PSTI_OGG_OTHER, PSTI_OGG_VORBIS, PSTI_OGG_OPUS };

/* A page at which a decoder can start: no packet that ends in it began in an earlier page. */
struct psti_ogg_place {
    uint64_t at;       /* offset of the page in the file */
    uint64_t position; /* granule position at the end of the page before */
    uint32_t number;   /* sequence number of the page */
};

/* A link (one stream of the chain) is divided into segments. Each segment has a start page.
 * Decoders start there, early enough before the segment for their output to become exact at its
 * beginning. Each Opus segment is decoded by a new decoder. So a clip has the same bits as in a
 * decode of the whole file, and nothing before the start page is decoded. A Vorbis decoder is exact
 * after one block, so it may continue into the next segment. All numbers are granule positions. */
enum {
    PSTI_OPUS_SEGMENT = 3 * 48000,
    PSTI_OPUS_BEFORE = 48000 / 2,
    PSTI_VORBIS_SEGMENT = 1 << 14,
    PSTI_VORBIS_BEFORE = 8192, /* the longest block */
    PSTI_VORBIS_PAGE_MAX = 256 * 8192
};

struct psti_ogg_link {
    uint64_t begin, end; /* offsets of the link's bytes */
    uint64_t sound_at;   /* offset of the first page of sound; 0: the header pages hold sound too */
    uint32_t serial;
    enum psti_ogg_codec codec;
    /* For Opus and Vorbis: the granule positions of the link's first sample and after its last one.
     * For Vorbis, first_position is that of the first sample after the first page of sound.
     * places[i] is the start page of segment i. Segment 0 begins at first_position. */
    uint64_t first_position, last_position;
    uint32_t pre_skip; /* Opus: samples to skip at the start */
    bool is_plain;     /* Opus: the link has one stream of one or two channels */
    uint64_t head_at;  /* offset of the packet with the codec's header */
    uint32_t head_nbytes;
    struct psti_ogg_place *places;
    size_t n_places, places_capacity;
};

/* The links of a file. All zero: no links. */
struct psti_ogg_walk {
    struct psti_ogg_link *links;
    size_t n_links, links_capacity;
};

/* Reads all pages of a file. Returns PST_ERROR_TRUNCATED if the file ends within a page, or a
 * stream has no last page; PST_ERROR_CORRUPT if a page is damaged, missing or from another stream;
 * PST_ERROR_UNSUPPORTED if the file has several streams at once; or PST_ERROR_MEMORY. */
enum pst_status psti_decode_ogg_walk(const uint8_t *bytes, uint64_t nbytes,
                                     struct psti_ogg_walk *walk, struct pst_error *err);
void psti_decode_ogg_walk_free(struct psti_ogg_walk *walk);

/* Writes header pages for a stream that starts at a place within a link. For Vorbis these are the
 * header pages of the link. For Opus they are two pages with no samples to skip and no comments.
 * `out` holds psti_decode_ogg_head_nbytes bytes. Returns the size of the pages. */
uint64_t psti_decode_ogg_head_nbytes(const struct psti_ogg_link *link);
size_t psti_decode_ogg_head(const uint8_t *bytes, const struct psti_ogg_link *link,
                            const struct psti_ogg_place *place, uint8_t *out);

#endif
