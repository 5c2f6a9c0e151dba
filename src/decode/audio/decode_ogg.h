/* decode_ogg.h - the walk over the pages of an Ogg file. Inside the room.
 *
 * An Ogg file is a row of streams, its links, each of which is one sound. All pages are looked at:
 * their checksums, numbers and flags say if the file is whole, which no decoder of a part can. */
#ifndef PST_DECODE_DECODE_OGG_H
#define PST_DECODE_DECODE_OGG_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PSTI_OGG_LINKS_MAX = 4096, PSTI_OPUS_HEAD_MAX = 276 };

enum psti_ogg_codec { PSTI_OGG_OTHER, PSTI_OGG_VORBIS, PSTI_OGG_OPUS };

/* A page at which a decoder may begin: no packet that ends in it began before. */
struct psti_ogg_place {
    uint64_t at;       /* offset in the file */
    uint64_t position; /* granule position before it */
    uint32_t number;   /* of the page */
};

/* A link (one stream of a chain) is cut into segments. Each segment has a starting place: a decoder
 * that begins there has settled when the segment begins. Opus: a new decoder decodes each segment,
 * so that a clip has the bits of the whole without decoding what precedes it. Vorbis: settles after
 * one block, so a decoder may run on into the next segment. Numbers are granule positions. */
enum {
    PSTI_OPUS_SEGMENT = 3 * 48000,
    PSTI_OPUS_BEFORE = 48000 / 2,
    PSTI_VORBIS_SEGMENT = 1 << 14,
    PSTI_VORBIS_BEFORE = 8192, /* the longest block */
    PSTI_VORBIS_PAGE_MAX = 256 * 8192
};

struct psti_ogg_link {
    uint64_t begin, end; /* its bytes */
    uint64_t sound_at;   /* where the pages of its headers end; 0: they have sound, too */
    uint32_t serial;
    enum psti_ogg_codec codec;
    /* Of Opus and Vorbis: positions of its first sample (of Vorbis behind its first page) and
     * behind its last one, and the places of its segments, which begin at the former. */
    uint64_t first_position, last_position;
    uint32_t pre_skip; /* of Opus */
    bool is_plain;     /* of Opus: one stream of one or two channels */
    uint64_t head_at;  /* its header packet */
    uint32_t head_nbytes;
    struct psti_ogg_place *places;
    size_t n_places, places_capacity;
};

/* Zero: nothing. */
struct psti_ogg_walk {
    struct psti_ogg_link *links;
    size_t n_links, links_capacity;
};

/* Walks over all pages. PST_ERROR_TRUNCATED: it ends within a page, or a stream ends without its
 * last page. PST_ERROR_CORRUPT: a page is damaged, missing or not of its stream.
 * PST_ERROR_UNSUPPORTED: several streams at once. PST_ERROR_MEMORY. */
enum pst_status psti_decode_ogg_walk(const uint8_t *bytes, uint64_t nbytes,
                                     struct psti_ogg_walk *walk, struct pst_error *err);
void psti_decode_ogg_walk_free(struct psti_ogg_walk *walk);

/* Writes header pages for a stream that begins at a place: of Vorbis those of the link; of Opus two
 * that name no samples to skip and no comments. `out` has room for psti_decode_ogg_head_nbytes.
 * Returns their size. */
uint64_t psti_decode_ogg_head_nbytes(const struct psti_ogg_link *link);
size_t psti_decode_ogg_head(const uint8_t *bytes, const struct psti_ogg_link *link,
                            const struct psti_ogg_place *place, uint8_t *out);

#endif
