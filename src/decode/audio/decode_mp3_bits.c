/* decode_mp3_bits.c - MPEG audio layer III: reads scale factors and quantised values from the bits
 * of a frame.
 *
 * In: untrusted bytes. Out: the side information, scale factors and 576 values of each granule and
 * channel. If the bits are invalid, the result is a text that says why: a size beyond the available
 * bits, a code table that does not exist, or values that take more bits than stated. Pure
 * functions, any thread. */
#include "decode/audio/decode_mp3.h"

#include "base/bits.h"

#include <string.h>

enum { PRIMARY_BITS = 8 };
#define LONG_CODE 0x80000000u

/* For each table of pairs: the number of its Huffman code (-1: no such table), and the number of
 * extra bits after a value of 15. */
static const int8_t code_of_table[32] = {-1, 0,  1,  2,  -1, 3,  4,  5,  6,  7,  8,
                                         9,  10, 11, -1, 12, 13, 13, 13, 13, 13, 13,
                                         13, 13, 14, 14, 14, 14, 14, 14, 14, 14};
static const uint8_t linbits_of_table[32] = {0, 0, 0, 0, 0, 0, 0,  0,  0, 0, 0, 0, 0, 0, 0,  0,
                                             1, 2, 3, 4, 6, 8, 10, 13, 4, 5, 6, 7, 8, 9, 11, 13};

static uint64_t load_big_u64(const uint8_t *p) { return __builtin_bswap64(psti_load_u64(p)); }

/* The bits of a frame, and the number of the bit to read next. */
struct bits {
    const uint8_t *bytes;
    size_t at;
};

/* Reads up to 25 bits. Accesses 8 bytes of memory. */
static uint32_t take(struct bits *bits, uint32_t n)
{
    if (n == 0)
        return 0;
    uint64_t word = load_big_u64(bits->bytes + (bits->at >> 3)) << (bits->at & 7);
    bits->at += n;
    return (uint32_t)(word >> (64 - n));
}

/* Fills the lookup entries of one Huffman code. Returns the number of entries. */
static uint32_t fill_code(uint32_t *entries, const uint16_t *leaves, uint32_t n_leaves)
{
    uint32_t used = 1 << PRIMARY_BITS;
    uint64_t code = 0; /* the codeword, left-justified in 32 bits */
    for (uint32_t i = 0; i < n_leaves;) {
        uint32_t prefix = (uint32_t)(code >> (32 - PRIMARY_BITS)), length = leaves[i] >> 8;
        if (length <= PRIMARY_BITS) {
            for (uint32_t n = 1u << (PRIMARY_BITS - length), k = 0; k < n; k++)
                entries[prefix + k] = leaves[i];
            code += (uint64_t)1 << (32 - length);
            i++;
            continue;
        }
        uint32_t end = i, longest = 0; /* leaves i to `end` have the same prefix */
        uint64_t last = code;
        for (; end < n_leaves && last >> (32 - PRIMARY_BITS) == prefix; end++) {
            longest = (uint32_t)leaves[end] >> 8 > longest ? (uint32_t)leaves[end] >> 8 : longest;
            last += (uint64_t)1 << (32 - (leaves[end] >> 8));
        }
        entries[prefix] = LONG_CODE | (longest - PRIMARY_BITS) << 16 | used;
        for (; i < end; i++) {
            uint32_t n = 1u << (longest - (leaves[i] >> 8));
            for (uint32_t k = 0; k < n; k++)
                entries[used++] = leaves[i];
        }
        code = last;
    }
    return used;
}

void psti_decode_mp3_codes_fill(struct psti_mp3_codes *codes)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < PSTI_MP3_CODES; i++) {
        codes->base[i] = at;
        at += fill_code(codes->entries + at, psti_mp3_leaves + psti_mp3_leaf_at[i],
                        (uint32_t)psti_mp3_leaf_at[i + 1] - psti_mp3_leaf_at[i]);
    }
}

/* Returns the lookup entry of the codeword at the start of `word`. */
static uint32_t look_up(const uint32_t *entries, uint64_t word)
{
    uint32_t entry = entries[word >> (64 - PRIMARY_BITS)];
    if (entry & LONG_CODE)
        entry = entries[(entry & 0xFFFF) + (word << PRIMARY_BITS >> (64 - (entry >> 16 & 0x1F)))];
    return entry;
}

/* Reads the side information of a block with a window other than long, and sets where its regions
 * end. */
static const char *take_window(struct bits *bits, const struct psti_mp3_header *header,
                               struct psti_mp3_part *part)
{
    part->block = take(bits, 2);
    part->mixed = take(bits, 1);
    part->tables[0] = (uint8_t)take(bits, 5);
    part->tables[1] = (uint8_t)take(bits, 5);
    for (int i = 0; i < 3; i++)
        part->subgain[i] = (uint8_t)take(bits, 3);
    if (part->block == 0)
        return "its window is switched to the long one";
    part->region[1] = PSTI_MP3_LINES / 2;
    if (header->mpeg25)
        part->region[0] =
            psti_mp3_long_bands[header->i_rate][part->block == 2 && !part->mixed ? 6 : 8] / 2;
    else
        part->region[0] = !header->lsf || part->block == 2 ? 36 / 2 : 54 / 2;
    return NULL;
}

static void take_regions(struct bits *bits, const struct psti_mp3_header *header,
                         struct psti_mp3_part *part)
{
    for (int i = 0; i < 3; i++)
        part->tables[i] = (uint8_t)take(bits, 5);
    uint32_t first = take(bits, 4) + 1, second = first + take(bits, 3) + 1;
    const uint16_t *bands = psti_mp3_long_bands[header->i_rate];
    part->region[0] = bands[first] / 2;
    part->region[1] = bands[second > 22 ? 22 : second] / 2;
}

static const char *take_part(struct bits *bits, const struct psti_mp3_header *header,
                             struct psti_mp3_part *part)
{
    const char *wrong = NULL;
    part->nbits = take(bits, 12);
    part->n_pairs = take(bits, 9);
    part->gain = take(bits, 8);
    part->compress = take(bits, header->lsf ? 9 : 4);
    part->block = 0;
    part->mixed = part->preflag = false;
    memset(part->subgain, 0, sizeof part->subgain);
    if (take(bits, 1))
        wrong = take_window(bits, header, part);
    else
        take_regions(bits, header, part);
    if (!header->lsf)
        part->preflag = take(bits, 1);
    part->coarse = take(bits, 1);
    part->quad = take(bits, 1);
    if (part->nbits == 0)
        part->compress = 0;
    if (part->n_pairs > PSTI_MP3_LINES / 2)
        wrong = "it states more than 576 values";
    return wrong;
}

const char *psti_decode_mp3_side_read(const uint8_t *frame, const struct psti_mp3_header *header,
                                      struct psti_mp3_part parts[2][2], uint32_t *main_data_begin)
{
    uint8_t side[32 + 8] = {0};
    memcpy(side, frame + header->side, header->main - header->side);
    struct bits bits = {.bytes = side};
    const char *wrong = NULL;
    *main_data_begin = take(&bits, header->lsf ? 8 : 9);
    if (header->lsf)
        (void)take(&bits, header->channels); /* private bits: 1 or 2, which mean nothing */
    else
        (void)take(&bits, header->channels == 1 ? 5 : 3);
    for (uint32_t c = 0; c < header->channels; c++) {
        parts[0][c].reuse = 0;
        parts[1][c].reuse = header->lsf ? 0 : (uint8_t)take(&bits, 4);
    }
    for (uint32_t g = 0; g < header->n_granules && !wrong; g++)
        for (uint32_t c = 0; c < header->channels && !wrong; c++)
            wrong = take_part(&bits, header, &parts[g][c]);
    return wrong;
}

/* Reads the scale factors of MPEG 1. `before` is the part of the same channel in the first granule,
 * or NULL while that granule is read. */
static void take_scale_1(struct bits *bits, struct psti_mp3_part *part,
                         const struct psti_mp3_part *before)
{
    static const uint8_t sizes[2][16] = {{0, 0, 0, 0, 3, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4},
                                         {0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 2, 3}};
    uint32_t size[2] = {sizes[0][part->compress], sizes[1][part->compress]};
    memset(part->scale, 0, sizeof part->scale);
    if (part->block == 2) {
        uint32_t n = part->mixed ? 17 : 18;
        for (uint32_t i = 0; i < n + 18; i++)
            part->scale[i] = (uint8_t)take(bits, size[i >= n]);
        return;
    }
    static const uint8_t ends[4] = {6, 11, 16, 21};
    for (uint32_t group = 0, i = 0; group < 4; group++)
        for (; i < ends[group]; i++)
            part->scale[i] = before && part->reuse >> (3 - group) & 1
                                 ? before->scale[i]
                                 : (uint8_t)take(bits, size[group >= 2]);
}

/* MPEG 2: finds how many bits the scale factors of each of the four groups have. Returns the row of
 * the table that holds how many scale factors each group has. */
static uint32_t sizes_2(struct psti_mp3_part *part, bool intensity, uint32_t size[4])
{
    uint32_t v = intensity ? part->compress >> 1 : part->compress;
    memset(size, 0, 4 * sizeof *size);
    if (intensity) {
        uint32_t row = v < 180 ? 3 : v < 244 ? 4 : 5;
        v -= row == 4 ? 180 : row == 5 ? 244 : 0;
        size[0] = row == 3 ? v / 36 : row == 4 ? v >> 4 : v / 3;
        size[1] = row == 3 ? v % 36 / 6 : row == 4 ? v >> 2 & 3 : v % 3;
        size[2] = row == 3 ? v % 6 : row == 4 ? v & 3 : 0;
        return row;
    }
    uint32_t row = v < 400 ? 0 : v < 500 ? 1 : 2;
    v -= row == 1 ? 400 : row == 2 ? 500 : 0;
    part->preflag = row == 2;
    size[0] = row == 0 ? (v >> 4) / 5 : row == 1 ? (v >> 2) / 5 : v / 3;
    size[1] = row == 0 ? (v >> 4) % 5 : row == 1 ? (v >> 2) % 5 : v % 3;
    size[2] = row == 0 ? v >> 2 & 3 : row == 1 ? v & 3 : 0;
    size[3] = row == 0 ? v & 3 : 0;
    return row;
}

static void take_scale_2(struct bits *bits, struct psti_mp3_part *part, bool intensity)
{
    static const uint8_t counts[3][6][4] = {
        {{6, 5, 5, 5}, {6, 5, 7, 3}, {11, 10, 0, 0}, {7, 7, 7, 0}, {6, 6, 6, 3}, {8, 8, 5, 0}},
        {{9, 9, 9, 9},
         {9, 9, 12, 6},
         {18, 18, 0, 0},
         {12, 12, 12, 0},
         {12, 9, 9, 6},
         {15, 12, 9, 0}},
        {{6, 9, 9, 9},
         {6, 9, 12, 6},
         {15, 18, 0, 0},
         {6, 15, 12, 0},
         {6, 12, 9, 6},
         {6, 18, 9, 0}}};
    uint32_t size[4], row = sizes_2(part, intensity, size), n = 0;
    const uint8_t *count = counts[part->block != 2 ? 0 : part->mixed ? 2 : 1][row];
    memset(part->scale, 0, sizeof part->scale);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < count[i]; k++)
            part->scale[n++] = (uint8_t)take(bits, size[i]);
}

/* Reads pairs of values up to index `end` by one Huffman table. Returns false if they take more
 * bits than `limit` allows. */
static bool take_pairs(struct bits *bits, size_t limit, const uint32_t *entries, uint32_t linbits,
                       int16_t *out, const int16_t *end)
{
    while (out < end) {
        uint64_t word = load_big_u64(bits->bytes + (bits->at >> 3)) << (bits->at & 7);
        uint32_t entry = look_up(entries, word), n = entry >> 8;
        uint32_t pair[2] = {entry >> 4 & 15, entry & 15};
        word <<= n;
        for (int i = 0; i < 2; i++) {
            if (pair[i] == 15 && linbits) {
                pair[i] += (uint32_t)(word >> (64 - linbits));
                word <<= linbits;
                n += linbits;
            }
            int32_t value = (int32_t)pair[i];
            if (value) {
                value = word >> 63 ? -value : value;
                word <<= 1;
                n++;
            }
            *out++ = (int16_t)value;
        }
        bits->at += n;
        if (bits->at > limit)
            return false;
    }
    return true;
}

/* Reads quadruples of -1, 0 and 1 until the bits end. Some encoders write an incomplete last
 * quadruple; it is ignored. */
static void take_quads(struct bits *bits, size_t limit, const uint32_t *entries,
                       struct psti_mp3_part *part, uint32_t n)
{
    while (n + 4 <= PSTI_MP3_LINES && bits->at < limit) {
        uint64_t word = load_big_u64(bits->bytes + (bits->at >> 3)) << (bits->at & 7);
        uint32_t entry = look_up(entries, word);
        bits->at += entry >> 8;
        word <<= entry >> 8;
        if (bits->at >= limit)
            break;
        memset(part->values + n, 0, 4 * sizeof *part->values);
        for (uint32_t i = 0; i < 4; i++) {
            if (!(entry & 8u >> i))
                continue;
            if (bits->at >= limit)
                break;
            part->values[n + i] = word >> 63 ? -1 : 1;
            word <<= 1;
            bits->at++;
        }
        n += 4;
    }
    part->n_values = (uint16_t)n;
}

static const char *take_values(const struct psti_mp3_codes *codes, struct bits *bits, size_t limit,
                               struct psti_mp3_part *part)
{
    uint32_t ends[3] = {part->region[0], part->region[1], part->n_pairs}, at = 0;
    for (int i = 0; i < 3; i++) {
        uint32_t end = ends[i] < part->n_pairs ? ends[i] : part->n_pairs;
        uint32_t table = part->tables[i];
        if (end <= at)
            continue;
        if (code_of_table[table] < 0) {
            if (table != 0)
                return "it names a code table that does not exist";
            memset(part->values + 2 * at, 0, 2 * (end - at) * sizeof *part->values);
        } else if (!take_pairs(bits, limit, codes->entries + codes->base[code_of_table[table]],
                               linbits_of_table[table], part->values + 2 * at,
                               part->values + 2 * end))
            return "its values take more bits than it has";
        at = end;
    }
    take_quads(bits, limit, codes->entries + codes->base[PSTI_MP3_PAIR_CODES + part->quad], part,
               2 * at);
    return NULL;
}

const char *psti_decode_mp3_main_read(const struct psti_mp3_codes *codes, const uint8_t *main,
                                      size_t nbytes, const struct psti_mp3_header *header,
                                      struct psti_mp3_part parts[2][2])
{
    struct bits bits = {.bytes = main};
    for (uint32_t g = 0; g < header->n_granules; g++)
        for (uint32_t c = 0; c < header->channels; c++) {
            struct psti_mp3_part *part = &parts[g][c];
            size_t limit = bits.at + part->nbits;
            if (limit > 8 * nbytes)
                return "it needs more bits than it has";
            if (header->lsf)
                take_scale_2(&bits, part, header->intensity && c == 1);
            else
                take_scale_1(&bits, part, g ? &parts[0][c] : NULL);
            part->n_values = 0;
            if (bits.at > limit)
                return "its scale factors take more bits than it has";
            const char *wrong = part->nbits ? take_values(codes, &bits, limit, part) : NULL;
            if (wrong)
                return wrong;
            memset(part->values + part->n_values, 0,
                   (PSTI_MP3_LINES - part->n_values) * sizeof *part->values);
            bits.at = limit;
        }
    return NULL;
}
