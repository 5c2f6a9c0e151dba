/* decode_ogg.h - inside the room: the walk over the pages of an Ogg file.
 *
 * An Ogg file is a row of streams, its links, each of which is one sound. The walk reads all pages:
 * their checksums, numbers and flags say whether the file is whole, which no decoder of a part can
 * tell. */
#ifndef PST_DECODE_DECODE_OGG_H
#define PST_DECODE_DECODE_OGG_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PSTI_OGG_LINKS_MAX = 4096, PSTI_OPUS_HEAD_MAX = 276 };

enum psti_ogg_codec { PSTI_OGG_OTHER, PSTI_OGG_VORBIS, PSTI_OGG_OPUS };

/* A page at which a decoder may begin, because no packet that ends in it began in an earlier
 * page. */
struct psti_ogg_place {
    uint64_t at;       /* offset of the page in the file */
    uint64_t position; /* granule position before the page */
    uint32_t number;   /* number of the page */
};

/* A link (one stream of a chain) is cut into segments. Each segment has a place where decoders
 * begin, early enough for them to have settled when the segment begins. Each segment of Opus is
 * decoded by a new decoder, so that a clip has the bits of the whole without decoding what precedes
 * it. A decoder of Vorbis settles after one block, so it may run on into the next segment. All
 * numbers are granule positions. */
enum {
    PSTI_OPUS_SEGMENT = 3 * 48000,
    PSTI_OPUS_BEFORE = 48000 / 2,
    PSTI_VORBIS_SEGMENT = 1 << 14,
    PSTI_VORBIS_BEFORE = 8192, /* the longest block */
    PSTI_VORBIS_PAGE_MAX = 256 * 8192
};

struct psti_ogg_link {
    uint64_t begin, end; /* offsets of the link's bytes */
    uint64_t sound_at;   /* where the pages of the headers end; 0: these have sound, too */
    uint32_t serial;
    enum psti_ogg_codec codec;
    /* For Opus and Vorbis: the granule positions of the link's first sample (with Vorbis, of the
     * first sample after the first page) and after its last one. `places` are the places of the
     * segments; segment 0 begins at first_position. */
    uint64_t first_position, last_position;
    uint32_t pre_skip; /* of Opus */
    bool is_plain;     /* Opus: true if the link has one stream of one or two channels */
    uint64_t head_at;  /* offset of the header packet */
    uint32_t head_nbytes;
    struct psti_ogg_place *places;
    size_t n_places, places_capacity;
};

/* The links of a file. Zero: none. */
struct psti_ogg_walk {
    struct psti_ogg_link *links;
    size_t n_links, links_capacity;
};

/* Walks over all pages of a file. Returns PST_ERROR_TRUNCATED if the file ends within a page, or a
 * stream ends without its last page; PST_ERROR_CORRUPT if a page is damaged, missing or not of its
 * stream; PST_ERROR_UNSUPPORTED if the file has several streams at once; or PST_ERROR_MEMORY. */
enum pst_status psti_decode_ogg_walk(const uint8_t *bytes, uint64_t nbytes,
                                     struct psti_ogg_walk *walk, struct pst_error *err);
void psti_decode_ogg_walk_free(struct psti_ogg_walk *walk);

/* Writes header pages for a stream that begins at a place: for Vorbis those of the link, for Opus
 * two pages that name no samples to skip and no comments. `out` has room for
 * psti_decode_ogg_head_nbytes. Returns the pages' size. */
uint64_t psti_decode_ogg_head_nbytes(const struct psti_ogg_link *link);
size_t psti_decode_ogg_head(const uint8_t *bytes, const struct psti_ogg_link *link,
                            const struct psti_ogg_place *place, uint8_t *out);

#endif
