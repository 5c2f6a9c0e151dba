/* fuzz_decode_ogg.c - walks over any bytes as the pages of an Ogg file, unchanged and with
 * corrected checksums, without which hardly an input gets past them. No sound is decoded. */
#include "base/bits.h"
#include "decode/audio/decode_ogg.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* Computes the CRC bit by bit, independently of the code under test. */
static uint32_t slow_crc(const uint8_t *bytes, size_t n)
{
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        v ^= (uint32_t)bytes[i] << 24;
        for (int bit = 0; bit < 8; bit++)
            v = v << 1 ^ (v >> 31 ? 0x04C11DB7u : 0);
    }
    return v;
}

/* Returns the size of the page at the start of the bytes, or 0 if there is none. */
static size_t page_nbytes(const uint8_t *bytes, size_t n)
{
    if (n < 27 || n < 27 + (size_t)bytes[26])
        return 0;
    size_t size = 27 + bytes[26];
    for (size_t i = 0; i < bytes[26]; i++)
        size += bytes[27 + i];
    return size <= n ? size : 0;
}

static void mend(uint8_t *bytes, size_t n)
{
    for (size_t size; (size = page_nbytes(bytes, n)) > 0; bytes += size, n -= size) {
        memcpy(bytes, "OggS", 5);
        psti_store_u32(bytes + 22, 0);
        psti_store_u32(bytes + 22, slow_crc(bytes, size));
    }
}

static void check_heads(const uint8_t *data, const struct psti_ogg_link *link)
{
    for (size_t i = 0; i < link->n_places; i++) {
        const struct psti_ogg_place *place = &link->places[i];
        CHECK(place->at > link->begin && place->at < link->end);
        CHECK(memcmp(data + place->at, "OggS", 4) == 0);
        if (i > 3)
            continue;
        uint8_t *head = malloc((size_t)psti_decode_ogg_head_nbytes(link));
        size_t n = psti_decode_ogg_head(data, link, place, head), size;
        CHECK(n <= psti_decode_ogg_head_nbytes(link));
        uint32_t number = 0;
        for (size_t at = 0; at < n; at += size) {
            size = page_nbytes(head + at, n - at);
            CHECK(size > 0);
            number = psti_load_u32(head + at + 18) + 1;
            uint32_t crc = psti_load_u32(head + at + 22);
            psti_store_u32(head + at + 22, 0);
            CHECK(slow_crc(head + at, size) == crc);
        }
        CHECK(number == place->number);
        free(head);
    }
}

static void check_walk(const uint8_t *data, size_t nbytes)
{
    struct psti_ogg_walk walk;
    struct pst_error err;
    if (psti_decode_ogg_walk(data, nbytes, &walk, &err) != PST_OK) {
        CHECK(err.text[0] != '\0' && walk.links == NULL);
        return;
    }
    uint64_t end = 0;
    CHECK(walk.n_links > 0);
    for (size_t i = 0; i < walk.n_links; i++) {
        const struct psti_ogg_link *link = &walk.links[i];
        CHECK(link->begin == end && link->end > link->begin);
        end = link->end;
        check_heads(data, link);
    }
    CHECK(end == nbytes);
    psti_decode_ogg_walk_free(&walk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    uint8_t *mended = malloc(nbytes + 1);
    memcpy(mended, data, nbytes);
    check_walk(data, nbytes);
    mend(mended, nbytes);
    check_walk(mended, nbytes);
    free(mended);
    return 0;
}
