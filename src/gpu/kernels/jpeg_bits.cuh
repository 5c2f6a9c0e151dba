/* jpeg_bits.cuh - reads the bytes of a unit of coefficients (format-pli.md 8.1): its first parts,
 * the entropy coder's states with the words that refill them, and the string of raw bits.
 *
 * Reads beyond the last word or the last raw bit return zeros. The caller compares how many were
 * taken with how many exist. Raw bits go through a window of 1024 bits, with one word in each lane,
 * so a lane gets its bit by a shuffle. */
#ifndef PST_GPU_JPEG_BITS_CUH
#define PST_GPU_JPEG_BITS_CUH

#include "gpu/kernels/warp.cuh"

namespace psti
{

/* The states of all lanes, and the words that refill them. */
struct coefs_states {
    lane_u32 x;
    const uint16_t *words;
    uint32_t at, n; /* numbers of words: already taken, and in the unit; later words are zeros */
};

/* Advances the states of the lanes in `live` after the token of `entry`, and refills states that
 * need a word. */
PSTI_LANES void advance(coefs_states &s, lane_u32 entry, lane_bool live)
{
    lane_u32 slot = s.x & lane_u32(4095);
    lane_u32 next = (entry >> lane_u32(16)) * (s.x >> lane_u32(12)) + slot;
    next = select(live, next - (entry & lane_u32(0xffff)), s.x);
    lane_bool low = next < lane_u32(65536);
    uint32_t takers = votes(low);
    lane_u32 i = lane_u32(s.at) + popc(lane_u32(takers) & mask_below());
    lane_u32 word = load(s.words, i, low & (i < lane_u32(s.n)), 0u);
    s.x = select(low, next << lane_u32(16) | word, next);
    s.at += popc(takers);
}

/* The raw string, 1024 bits at a time. Lane l holds word `first` + ((l - first) & 31) of the
 * string. The string may begin at any bit of its word 0. */
struct coefs_bits {
    const uint32_t *words;
    uint32_t n_words; /* number of words of raw bits in memory; then `tail` follows, then zeros */
    uint32_t first;
    lane_u32 window, tail;
    uint32_t at, end; /* numbers of bits, counted from word 0: of the next bit, and of the end */
};

/* Moves the window of 1024 bits forward to the next raw bits. */
PSTI_LANES void fill_window(coefs_bits &b)
{
    b.first = b.at >> 5;
    lane_u32 word = lane_u32(b.first) + ((lane_id() - lane_u32(b.first)) & lane_u32(31));
    lane_u32 in_tail = word - lane_u32(b.n_words);
    lane_u32 of_tail = select(in_tail < lane_u32(32), shuffle(b.tail, in_tail), lane_u32(0));
    lane_bool in_memory = word < lane_u32(b.n_words);
    b.window = select(in_memory, load(b.words, word, in_memory), of_tail);
}

/* Makes sure that n <= 992 raw bits are in the window. Must be called before they are taken. */
PSTI_LANES void need_bits(coefs_bits &b, uint32_t n)
{
    if (b.at + n > 32 * b.first + 1024)
        fill_window(b);
}

/* Gives each lane of the mask `takers` the next raw bit, lowest lane first. The result of other
 * lanes is undefined. */
PSTI_LANES lane_u32 take_bits(coefs_bits &b, uint32_t takers)
{
    lane_u32 at = lane_u32(b.at) + popc(lane_u32(takers) & mask_below());
    b.at += popc(takers);
    lane_u32 word = shuffle(b.window, at >> lane_u32(5));
    return word >> (at & lane_u32(31)) & lane_u32(1);
}

/* Takes bit `n` of the values that have more than n bits. The values belong to positions 0..31 and
 * 32..63 of a square or group. Returns whether any value has so many bits. */
PSTI_LANES bool take_bit(coefs_bits &b, uint32_t n, lane_u32 n_bits0, lane_u32 n_bits1,
                         lane_u32 &value0, lane_u32 &value1)
{
    lane_bool has0 = n_bits0 > lane_u32(n), has1 = n_bits1 > lane_u32(n);
    uint32_t takers0 = votes(has0), takers1 = votes(has1);
    if ((takers0 | takers1) == 0)
        return false;
    need_bits(b, 64);
    value0 += select(has0, take_bits(b, takers0) << lane_u32(n), lane_u32(0));
    value1 += select(has1, take_bits(b, takers1) << lane_u32(n), lane_u32(0));
    return true;
}

/* Appends the low halves of the final states, which hold payload, to the raw bits. */
PSTI_LANES void add_payload(coefs_bits &b, lane_u32 states)
{
    lane_u32 low = states & lane_u32(0xffff);
    lane_u32 two = shuffle(low, lane_id() << lane_u32(1)) |
                   shuffle(low, (lane_id() << lane_u32(1)) + lane_u32(1)) << lane_u32(16);
    two = select(lane_id() < lane_u32(16), two, lane_u32(0));
    lane_u32 before = select(lane_id() > lane_u32(0), shift_up(two, 1), lane_u32(0));
    /* The last word in memory may hold raw bits only in its lower part. Then the tail begins with
     * these bits. */
    uint32_t n_bits = b.end & 31;
    uint32_t last = n_bits > 0 ? load_uniform(b.words, b.end >> 5) & ((1u << n_bits) - 1) : 0;
    lane_u32 shifted = funnel_right(before, two, lane_u32(32 - n_bits));
    b.tail = n_bits > 0 ? shifted : two;
    b.tail = b.tail | select(lane_id() == lane_u32(0), lane_u32(last), lane_u32(0));
    b.n_words = b.end >> 5;
    b.end += 512;
    fill_window(b);
}

/* Reads a number of at most 28 bits that is stored with 7 bits per byte (format-pli.md 0). Returns
 * false if the number is longer. */
PSTI_LANES bool read_number(const uint8_t *bytes, uint32_t n, uint32_t &at, uint32_t &value)
{
    value = 0;
    for (uint32_t shift = 0; shift < 28 && at < n; shift += 7) {
        uint32_t byte = load_uniform(bytes, at++);
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Reads the mantissas at the start of `raw`, which has n bytes. Lane i's mantissa has e bits. Sets
 * *used to the number of bits read. */
PSTI_LANES lane_u32 read_mantissas(const uint8_t *raw, uint32_t n, lane_u32 e, uint32_t &used)
{
    lane_u32 ends = scan_add(e), bit = ends - e, byte = bit >> lane_u32(3);
    used = lane_of(ends, 31);
    lane_u32 three = load(raw, byte, byte < lane_u32(n), 0u);
    byte += lane_u32(1);
    three |= load(raw, byte, byte < lane_u32(n), 0u) << lane_u32(8);
    byte += lane_u32(1);
    three |= load(raw, byte, byte < lane_u32(n), 0u) << lane_u32(16);
    return three >> (bit & lane_u32(7)) & ((lane_u32(1) << e) - lane_u32(1));
}

/* Reads and checks the first parts of a unit of n bytes (format-pli.md 8.1). Returns false if they
 * are corrupt. */
PSTI_LANES bool read_head(const uint8_t *bytes, uint32_t n, coefs_states &s, coefs_bits &b)
{
    uint32_t at = 1, raw_nbytes, used;
    if (!read_number(bytes, n, at, raw_nbytes) || n - at < 80 || n - at - 80 < raw_nbytes)
        return false;
    lane_u32 l = lane_id();
    lane_u32 e = load(bytes, lane_u32(at) + (l >> lane_u32(1))) >> ((l & lane_u32(1)) << 2u);
    e &= lane_u32(15);
    const uint8_t *low = bytes + at + 16, *raw = low + 64, *words = raw + raw_nbytes;
    lane_u32 high = (lane_u32(1) << e) | read_mantissas(raw, raw_nbytes, e, used);
    lane_u32 l2 = l << lane_u32(1);
    s.x = high << lane_u32(16) | load(low, l2 + lane_u32(1)) << lane_u32(8) | load(low, l2);
    s.n = n - at - 80 - raw_nbytes;
    if ((used + 7) / 8 > raw_nbytes || (s.n & 1) != 0)
        return false;
    s.n /= 2;
    s.at = 0;
    s.words = reinterpret_cast<const uint16_t *>(words);
    uintptr_t start = reinterpret_cast<uintptr_t>(raw) + (used + 7) / 8;
    uint32_t in_word = (uint32_t)(start & 3) * 8;
    b.words = reinterpret_cast<const uint32_t *>(start - (start & 3));
    b.at = in_word;
    b.end = in_word + 8 * (raw_nbytes - (used + 7) / 8);
    b.n_words = (b.end + 31) >> 5;
    b.tail = lane_u32(0);
    fill_window(b);
    return true;
}

} // namespace psti

#endif
