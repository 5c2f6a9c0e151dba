/* decode_ogg_walk.c - Ogg: parses pages, compares their checksums, and finds the streams that they
 * form.
 *
 * In: untrusted bytes. Out: the links of a file. For Opus and Vorbis also the length of each link
 * and the pages at which decoders can start. Pure functions, any thread. Each byte is read once,
 * for the checksums. The granule positions of Opus pages are compared with the durations of their
 * packets, so the length of a file is known without decoding it. */
#include "decode/audio/decode_ogg.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"
#define NO_POSITION UINT64_MAX

enum { PAGE_HEAD = 27, CONTINUED = 1, FIRST = 2, LAST = 4, CRC_AT = 22 };
enum { OPUS_HEAD_MIN = 19, OPUS_FAMILY_AT = 18, OPUS_CELT = 16 };

/* Tables that compute Ogg's checksum (a CRC-32) eight bytes at a time. */
struct crc {
    uint32_t table[8][256];
};

static void crc_fill(struct crc *crc)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i << 24;
        for (int bit = 0; bit < 8; bit++)
            v = v << 1 ^ (v >> 31 ? 0x04C11DB7u : 0);
        crc->table[0][i] = v;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t v = crc->table[k - 1][i];
            crc->table[k][i] = v << 8 ^ crc->table[0][v >> 24];
        }
}

static uint32_t crc_add(const struct crc *crc, uint32_t v, const uint8_t *bytes, size_t n)
{
    const uint32_t(*t)[256] = crc->table;
    for (; n >= 8; n -= 8, bytes += 8) {
        v ^= psti_load_u32_big(bytes);
        v = t[7][v >> 24] ^ t[6][v >> 16 & 255] ^ t[5][v >> 8 & 255] ^ t[4][v & 255] ^
            t[3][bytes[4]] ^ t[2][bytes[5]] ^ t[1][bytes[6]] ^ t[0][bytes[7]];
    }
    for (; n; n--, bytes++)
        v = v << 8 ^ t[0][v >> 24 ^ *bytes];
    return v;
}

/* Returns the checksum of a whole page. The bytes that hold the stored checksum count as zeros. */
static uint32_t page_crc(const struct crc *crc, const uint8_t *page, size_t nbytes)
{
    static const uint8_t zeros[4] = {0};
    uint32_t v = crc_add(crc, 0, page, CRC_AT);
    v = crc_add(crc, v, zeros, 4);
    return crc_add(crc, v, page + CRC_AT + 4, nbytes - CRC_AT - 4);
}

struct page {
    const uint8_t *bytes, *body;
    uint64_t at, nbytes, position;
    uint32_t serial, number, n_parts;
    uint8_t flags;
};

/* Parses the page at offset `at` and compares its checksum. */
static enum pst_status take_page(const uint8_t *bytes, uint64_t nbytes, uint64_t at,
                                 const struct crc *crc, struct page *page, struct pst_error *err)
{
    uint64_t left = nbytes - at, need = PAGE_HEAD;
    const uint8_t *head = bytes + at;
    if (left >= 4 && memcmp(head, "OggS", 4) != 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)at, "no Ogg page");
    if (left >= need)
        need += head[26];
    for (uint32_t i = 0, n = left >= need ? head[26] : 0; i < n; i++)
        need += head[PAGE_HEAD + i];
    if (left < PAGE_HEAD || left < PAGE_HEAD + (uint64_t)head[26] || left < need)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)nbytes,
                            "the file ends within an Ogg page");
    *page = (struct page){.bytes = head,
                          .body = head + PAGE_HEAD + head[26],
                          .at = at,
                          .nbytes = need,
                          .position = psti_load_u64(head + 6),
                          .serial = psti_load_u32(head + 14),
                          .number = psti_load_u32(head + 18),
                          .n_parts = head[26],
                          .flags = head[5]};
    if (head[4] != 0 || page_crc(crc, head, (size_t)need) != psti_load_u32(head + CRC_AT))
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)at,
                            "the checksum of an Ogg page is wrong");
    return PST_OK;
}

/* What is known about the stream whose pages are being read. */
struct state {
    struct psti_ogg_link *link; /* NULL between two streams */
    uint32_t next_number;
    uint32_t n_packets; /* packets of the stream that have ended so far */
    bool is_open;       /* true if the last packet continues in the next page */
    uint8_t toc[2];     /* the first bytes of the last packet */
    uint32_t n_toc;
    uint64_t position; /* Opus: granule position after the last page */
    bool has_position;
};

static enum pst_status damaged(const struct page *page, const char *text, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)page->at, "%s", text);
}

static enum pst_status begin_link(struct psti_ogg_walk *walk, const struct page *page,
                                  struct state *state, struct pst_error *err)
{
    if (walk->n_links == PSTI_OGG_LINKS_MAX)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "more than %d streams in a row",
                         PSTI_OGG_LINKS_MAX);
    if (walk->n_links == walk->links_capacity) {
        size_t capacity = walk->links_capacity ? 2 * walk->links_capacity : 4;
        struct psti_ogg_link *grown = psti_realloc(walk->links, capacity * sizeof *grown);
        if (!grown)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for the streams of a file");
        walk->links = grown;
        walk->links_capacity = capacity;
    }
    uint64_t n = page->nbytes - (uint64_t)(page->body - page->bytes);
    struct psti_ogg_link *link = &walk->links[walk->n_links++];
    *link = (struct psti_ogg_link){.begin = page->at, .serial = page->serial};
    *state = (struct state){.link = link, .next_number = page->number};
    if (n >= OPUS_HEAD_MIN && memcmp(page->body, "OpusHead", 8) == 0) {
        if (page->n_parts > 2 || n > PSTI_OPUS_HEAD_MAX || page->bytes[PAGE_HEAD] != n)
            return damaged(page, "a header of Opus is no packet of a page of its own", err);
        link->codec = PSTI_OGG_OPUS;
        link->pre_skip = psti_load_u16(page->body + 10);
        link->is_plain = page->body[OPUS_FAMILY_AT] == 0;
        link->head_at = page->at + (uint64_t)(page->body - page->bytes);
        link->head_nbytes = (uint32_t)n;
    } else if (n >= 7 && memcmp(page->body, "\1vorbis", 7) == 0)
        link->codec = PSTI_OGG_VORBIS;
    return PST_OK;
}

/* Returns the duration of an Opus packet from its first two bytes, or 0 if they are invalid. */
static uint32_t packet_duration(const uint8_t *toc, uint32_t n)
{
    static const uint16_t of_frame[32] = {
        480, 960, 1920, 2880, 480, 960, 1920, 2880, 480, 960, 1920, 2880, 480, 960, 480, 960,
        120, 240, 480,  960,  120, 240, 480,  960,  120, 240, 480,  960,  120, 240, 480, 960};
    uint32_t frames = n == 0              ? 0
                      : (toc[0] & 3) == 0 ? 1
                      : (toc[0] & 3) < 3  ? 2
                      : n > 1             ? toc[1] & 63
                                          : 0;
    uint32_t duration = n ? frames * of_frame[toc[0] >> 3] : 0;
    return duration <= 5760 ? duration : 0;
}

/* Goes through the packets of a page. Sets *duration to the total duration of the sound packets
 * that end in the page. */
static enum pst_status take_packets(const struct page *page, struct state *state,
                                    uint64_t *duration, struct pst_error *err)
{
    const uint8_t *part = page->body;
    if (!(page->flags & CONTINUED) == state->is_open)
        return damaged(page, "an Ogg page does not go on where the one before ended", err);
    *duration = 0;
    for (uint32_t i = 0; i < page->n_parts; i++) {
        uint32_t n = page->bytes[PAGE_HEAD + i];
        if (!state->is_open)
            state->n_toc = 0;
        for (uint32_t k = 0; k < n && state->n_toc < 2; k++)
            state->toc[state->n_toc++] = part[k];
        part += n;
        state->is_open = n == 255;
        if (state->is_open)
            continue;
        if (state->n_packets++ < 2 || state->link->codec != PSTI_OGG_OPUS)
            continue;
        uint32_t one = packet_duration(state->toc, state->n_toc);
        if (one == 0)
            return damaged(page, "a packet of Opus has no duration", err);
        *duration += one;
    }
    return PST_OK;
}

/* Makes a page the start page of the segments that begin far enough after it. */
static enum pst_status add_place(struct psti_ogg_link *link, const struct psti_ogg_place *place,
                                 struct pst_error *err)
{
    bool opus = link->codec == PSTI_OGG_OPUS;
    uint64_t segment = opus ? PSTI_OPUS_SEGMENT : PSTI_VORBIS_SEGMENT;
    uint64_t before = opus ? PSTI_OPUS_BEFORE : PSTI_VORBIS_BEFORE;
    uint64_t since = place->position - link->first_position;
    uint64_t i = link->n_places == 0 ? 0 : (since + before + segment - 1) / segment;
    if (i >= link->places_capacity) {
        size_t capacity = 2 * (size_t)i + 8;
        struct psti_ogg_place *grown = psti_realloc(link->places, capacity * sizeof *grown);
        if (!grown)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for places of pages");
        link->places = grown;
        link->places_capacity = capacity;
    }
    for (; link->n_places < i; link->n_places++)
        link->places[link->n_places] = link->places[link->n_places - 1];
    link->places[i] = *place;
    link->n_places = (size_t)i + 1;
    return PST_OK;
}

/* Returns whether an Opus decoder may start at a page. It must not start at the stream's last page,
 * because then nothing tells how much of that page's sound is cut off. Pages that begin with a
 * packet of SILK or of SILK and CELT are excluded, because such a decoder can take seconds to
 * become exact during a held vowel. Links of several streams are excluded, because the streams
 * after the first one may use SILK. */
static bool can_begin(const struct page *page, const struct psti_ogg_link *link)
{
    return !(page->flags & CONTINUED) && link->is_plain && page->n_parts > 0 &&
           page->bytes[PAGE_HEAD] > 0 && page->body[0] >> 3 >= OPUS_CELT;
}

/* Records a page of Opus in which sound packets end. */
static enum pst_status take_sound(const struct page *page, struct state *state, uint64_t duration,
                                  struct pst_error *err)
{
    struct psti_ogg_link *link = state->link;
    bool last = page->flags & LAST, first = !state->has_position;
    uint64_t position = page->position;
    if (position > INT64_MAX || (first && !last && position < duration) ||
        (first && last && position > duration) ||
        (!first && !last && position != state->position + duration) ||
        (!first && last && (position < state->position || position > state->position + duration)))
        return damaged(page, "the position of a page of Opus is not that of its packets", err);
    if (first) {
        state->position = last ? 0 : position - duration;
        link->first_position = state->position;
        state->has_position = true;
    }
    const struct psti_ogg_place place = {page->at, state->position, page->number};
    enum pst_status status = PST_OK;
    if (first || (!last && can_begin(page, link)))
        status = add_place(link, &place, err);
    state->position = link->last_position = position;
    return status;
}

/* Records a page of Vorbis in which sound packets end. */
static enum pst_status take_vorbis(const struct page *page, struct state *state,
                                   struct pst_error *err)
{
    struct psti_ogg_link *link = state->link;
    bool last = page->flags & LAST, first = !state->has_position;
    uint64_t position = page->position, before = first ? position : state->position;
    if (position > INT64_MAX || (position < before && !last) ||
        (position > before && position - before > PSTI_VORBIS_PAGE_MAX))
        return damaged(page, "the position of a page of Vorbis is not that of its packets", err);
    if (first)
        link->first_position = position;
    state->has_position = true;
    const struct psti_ogg_place place = {page->at, before, page->number};
    enum pst_status status = PST_OK;
    if (link->sound_at && (first || (!last && !(page->flags & CONTINUED))))
        status = add_place(link, &place, err);
    state->position = link->last_position = position;
    return status;
}

static enum pst_status take_of_link(const struct page *page, struct state *state,
                                    struct pst_error *err)
{
    struct psti_ogg_link *link = state->link;
    uint64_t duration = 0;
    uint32_t before = state->n_packets, n_headers = link->codec == PSTI_OGG_OPUS ? 2 : 3;
    if (page->serial != link->serial)
        return page->flags & FIRST
                   ? psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, NULL, (int64_t)page->at,
                                  "several Ogg streams at once, which is not supported")
                   : damaged(page, "an Ogg page is not of its stream", err);
    if (page->number != state->next_number++)
        return damaged(page, "Ogg pages are missing", err);
    enum pst_status status = take_packets(page, state, &duration, err);
    if (status != PST_OK || link->codec == PSTI_OGG_OTHER)
        return status;
    if (before < n_headers && state->n_packets == n_headers && !state->is_open)
        link->sound_at = page->at + page->nbytes;
    if (link->codec == PSTI_OGG_VORBIS)
        return state->n_packets > (before > n_headers ? before : n_headers)
                   ? take_vorbis(page, state, err)
                   : PST_OK;
    if (before < n_headers && (state->n_packets > n_headers ||
                               (before == 1 && state->is_open && state->n_packets == n_headers)))
        return damaged(page, "a page of Opus has headers and sound", err);
    if (duration > 0)
        return take_sound(page, state, duration, err);
    if (!(page->flags & LAST) || !state->has_position || page->position == NO_POSITION)
        return PST_OK;
    if (page->position > state->position) /* a last page in which no packet ends */
        return damaged(page, "the position of a page of Opus is not that of its packets", err);
    link->last_position = page->position;
    return PST_OK;
}

enum pst_status psti_decode_ogg_walk(const uint8_t *bytes, uint64_t nbytes,
                                     struct psti_ogg_walk *walk, struct pst_error *err)
{
    struct crc crc;
    struct state state = {0};
    struct page page = {0};
    enum pst_status status = PST_OK;
    crc_fill(&crc);
    memset(walk, 0, sizeof *walk);
    for (uint64_t at = 0; status == PST_OK && at < nbytes; at += page.nbytes) {
        status = take_page(bytes, nbytes, at, &crc, &page, err);
        if (status == PST_OK && !state.link)
            status = page.flags & FIRST ? begin_link(walk, &page, &state, err)
                                        : damaged(&page, "an Ogg page of no stream", err);
        else if (status == PST_OK && page.flags & FIRST && page.serial == state.link->serial)
            status = damaged(&page, "an Ogg stream begins twice", err);
        if (status == PST_OK)
            status = take_of_link(&page, &state, err);
        if (status != PST_OK || !(page.flags & LAST))
            continue;
        if (state.is_open)
            status = damaged(&page, "the last packet of an Ogg stream has no end", err);
        state.link->end = at + page.nbytes;
        state.link = NULL;
    }
    if (status == PST_OK && (state.link || walk->n_links == 0))
        status = psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)nbytes,
                              "the file ends before the last page of its Ogg stream");
    if (status != PST_OK)
        psti_decode_ogg_walk_free(walk);
    return status;
}

void psti_decode_ogg_walk_free(struct psti_ogg_walk *walk)
{
    for (size_t i = 0; i < walk->n_links; i++)
        psti_free(walk->links[i].places);
    psti_free(walk->links);
    memset(walk, 0, sizeof *walk);
}

/* Writes a page that holds one packet of less than 510 bytes. Returns the size of the page. */
static size_t write_page(const struct crc *crc, uint8_t flags, uint32_t serial, uint32_t number,
                         const uint8_t *packet, size_t n, uint8_t *out)
{
    size_t n_parts = n / 255 + 1, head = PAGE_HEAD + n_parts;
    memset(out, 0, head);
    memcpy(out, "OggS", 4);
    out[5] = flags;
    psti_store_u32(out + 14, serial);
    psti_store_u32(out + 18, number);
    out[26] = (uint8_t)n_parts;
    memset(out + PAGE_HEAD, 255, n_parts - 1);
    out[head - 1] = (uint8_t)(n % 255);
    memcpy(out + head, packet, n);
    psti_store_u32(out + CRC_AT, page_crc(crc, out, head + n));
    return head + n;
}

uint64_t psti_decode_ogg_head_nbytes(const struct psti_ogg_link *link)
{
    return link->codec == PSTI_OGG_OPUS ? 2 * 32 + PSTI_OPUS_HEAD_MAX + 16
                                        : link->sound_at - link->begin;
}

static size_t opus_head(const uint8_t *bytes, const struct psti_ogg_link *link,
                        const struct psti_ogg_place *place, const struct crc *crc, uint8_t *out)
{
    static const uint8_t comments[16] = "OpusTags";
    uint8_t head[PSTI_OPUS_HEAD_MAX];
    memcpy(head, bytes + link->head_at, link->head_nbytes);
    psti_store_u16(head + 10, 0);
    size_t n =
        write_page(crc, FIRST, link->serial, place->number - 2, head, link->head_nbytes, out);
    return n +
           write_page(crc, 0, link->serial, place->number - 1, comments, sizeof comments, out + n);
}

size_t psti_decode_ogg_head(const uint8_t *bytes, const struct psti_ogg_link *link,
                            const struct psti_ogg_place *place, uint8_t *out)
{
    struct crc crc;
    crc_fill(&crc);
    if (link->codec == PSTI_OGG_OPUS)
        return opus_head(bytes, link, place, &crc, out);
    size_t n = (size_t)(link->sound_at - link->begin);
    uint32_t n_pages =
        psti_load_u32(bytes + link->places[0].at + 18) - psti_load_u32(bytes + link->begin + 18);
    memcpy(out, bytes + link->begin, n);
    for (size_t at = 0; at < n; n_pages--) { /* gives the headers the numbers before the place's */
        size_t nbytes = PAGE_HEAD + out[at + 26];
        for (uint32_t i = 0; i < out[at + 26]; i++)
            nbytes += out[at + PAGE_HEAD + i];
        psti_store_u32(out + at + 18, place->number - n_pages);
        psti_store_u32(out + at + CRC_AT, page_crc(&crc, out + at, nbytes));
        at += nbytes;
    }
    return n;
}
