/* pli_wave_words.cuh - units of mode wave (see pli_wave.cuh): reads the words that refill the
 * states of the entropy coder, and the raw bits. */
#ifndef PST_GPU_PLI_WAVE_WORDS_CUH
#define PST_GPU_PLI_WAVE_WORDS_CUH

#include "gpu/kernels/pli_wave_head.cuh"

namespace psti
{

/* Words
 * ------------------------------------------------------------------------------------- */

/* The words that states take. The window in shared memory holds two times 128 bytes of them; `next`
 * also holds the second half. `low` and `high` are the 128 bytes after them, whose loads have been
 * started. */
struct wave_words {
    uint32_t at, window; /* addresses of the next word and of the window */
    uint32_t n_chunks;
    lane_u32 next, low, high;
};

PSTI_LANES void wave_fetch(const wave_unit &u, wave_words &s)
{
    lane_u32 at = lane_u32(u.words_at + 128 * s.n_chunks++) + lane_id() * lane_u32(4);
    lane_bool live = at < lane_u32(u.nbytes);
    s.low = load(u.words, at >> lane_u32(2), live);
    s.high = load(u.words, (at >> lane_u32(2)) + lane_u32(1), live);
}
PSTI_LANES lane_u32 wave_fetched(const wave_unit &u, const wave_words &s)
{
    return funnel_right(s.low, s.high, lane_u32(8 * (u.words_at & 3)));
}

/* Moves the window of words forward by one half. */
PSTI_LANES void wave_refill(const wave_unit &u, wave_words &s)
{
    lane_u32 place = lane_id() * lane_u32(4);
    warp_sync();
    store_at<uint32_t>(u.window, place, s.next);
    s.next = wave_fetched(u, s);
    store_at<uint32_t>(u.window, place + lane_u32(128), s.next);
    warp_sync();
    wave_fetch(u, s);
    s.at -= 128;
}

PSTI_LANES void wave_open_words(const wave_unit &u, wave_words &s)
{
    s.window = address_of(u.window);
    s.at = s.window + 128;
    s.n_chunks = 0;
    wave_fetch(u, s);
    s.next = wave_fetched(u, s);
    wave_fetch(u, s);
    wave_refill(u, s);
}

/* Gives the next words to the lanes of the mask `takes`, lowest lane first. The result of other
 * lanes is undefined. */
template <class T>
PSTI_LANES lane_u32 wave_take_words(const wave_unit &u, wave_words &s, lane_bool takes)
{
    const uint32_t takers = votes(takes), nbytes = sizeof(T);
    lane_u32 at = lane_u32(s.at) + popc(lane_u32(takers) & mask_below()) * lane_u32(nbytes);
    s.at += nbytes * popc(takers);
    return load_address<T>(u.window, at);
}

/* Returns whether all words are used and the upper parts of all states equal `end`, as the format
 * requires (format-pli.md 0). */
template <int bits>
PSTI_LANES bool wave_ends_well(const wave_unit &u, const wave_words &s, lane_u32 states,
                               uint32_t end)
{
    const uint32_t n_taken = (s.n_chunks - 3) * 128 + s.at - s.window;
    return n_taken == u.nbytes - u.words_at && every((states >> lane_u32(bits)) == lane_u32(end));
}

/* The active lanes of a phase. `front` and `rear`: columns (or pairs) of a lane's row, in the band
 * that begins and in the band before; 0 if the lane has no row there. `has_front`: a band begins.
 * `all_rows`: all lanes have rows in both bands. */
struct wave_part {
    bool has_front, all_rows;
    lane_u32 front, rear;
};
/* Returns which lanes are active in the steps in which band number `phase` begins. */
PSTI_LANES wave_part wave_part_of(const wave_unit &u, uint32_t phase, uint32_t n_columns)
{
    const uint32_t band = phase & (u.bands - 1), rear_band = (phase - 1) & (u.bands - 1);
    const bool has_front = phase < u.n_coded * u.bands;
    /* Every band of a plane has at least one row, so this does not underflow. */
    const uint32_t n_front = has_front ? u.height - 32 * band : 0;
    const uint32_t n_rear = phase > 0 ? u.height - 32 * rear_band : 0;
    const lane_u32 none = lane_u32(0), columns = lane_u32(n_columns);
    return {has_front, n_front >= 32 && n_rear >= 32,
            select(lane_id() < lane_u32(n_front), columns, none),
            select(lane_id() < lane_u32(n_rear), columns, none)};
}

/* Raw bits
 * ------------------------------------------------------------------------------------- */

/* Prepares reading the string of raw bits (format-pli.md 0): the bits from raw_at on, then the
 * payload. The window is loaded with the string's words, from the word that contains raw_end on. */
template <int bits> PSTI_LANES void wave_open_bits(const wave_unit &u)
{
    const uint32_t n_words = wave_layout<bits>::state_nbytes / 4, n = 32 / bits;
    lane_u32 carried = lane_u32(0);
    PSTI_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        lane_u32 low = shuffle(u.states, lane_id() * lane_u32(n) + lane_u32(i));
        carried = carried | (low & lane_u32((1u << bits) - 1)) << lane_u32(i * bits);
    }
    carried = select(lane_id() < lane_u32(n_words), carried, lane_u32(0));
    uint32_t shift = 8 * (u.raw_end & 3);
    lane_u32 before = shift_up(carried, 1), words = carried;
    before = select(lane_id() == lane_u32(0),
                    lane_u32(load_uniform(u.words, u.raw_end >> 2) << ((32 - shift) & 31)), before);
    if (shift > 0)
        words = carried << lane_u32(shift) | before >> lane_u32(32 - shift);
    warp_sync();
    store_at<uint32_t>(u.window, lane_id() * lane_u32(4), words);
    warp_sync();
}

PSTI_LANES lane_u32 wave_tail_word(const wave_unit &u, lane_u32 i)
{
    lane_u32 first = lane_u32(u.raw_end >> 2), last = lane_u32(WAVE_TAIL - 1);
    lane_bool is_tail = i >= first;
    lane_u32 k = select(is_tail, i - first, lane_u32(0));
    k = select(k < last, k, last);
    return select(is_tail, load_at<uint32_t>(u.window, k * lane_u32(4)),
                  load(u.words, i, !is_tail));
}

/* Returns, in each lane of the mask m, the 32 bits of the raw string from bit number `at` on. */
PSTI_LANES lane_u32 wave_bits(const wave_unit &u, lane_u32 at, lane_bool m)
{
    lane_u32 i = at >> lane_u32(5);
    if (some(m & (i + lane_u32(1) >= lane_u32(u.raw_end >> 2))))
        return funnel_right(wave_tail_word(u, i), wave_tail_word(u, i + lane_u32(1)),
                            at & lane_u32(31));
    return funnel_right(load(u.words, i, m), load(u.words, i + lane_u32(1), m), at & lane_u32(31));
}

/* Returns whether 128 bits from any bit up to `end` on lie in the unit, so that none of them
 * belongs to the payload. */
PSTI_LANES bool wave_is_within(const wave_unit &u, uint32_t end)
{
    return (end >> 5) + 4 < u.raw_end >> 2;
}

/* Returns 128 bits of the raw string in each lane, from bit number `at` on, which must not be after
 * `end`. */
PSTI_LANES void wave_string(const wave_unit &u, lane_u32 at, uint32_t end, lane_u32 string[4])
{
    const lane_u32 first = at >> lane_u32(5);
    lane_u32 words[5];
    if (wave_is_within(u, end)) {
        PSTI_UNROLL
        for (uint32_t k = 0; k < 5; k++)
            words[k] = load(u.words, first + lane_u32(k));
    } else {
        PSTI_UNROLL
        for (uint32_t k = 0; k < 5; k++)
            words[k] = wave_tail_word(u, first + lane_u32(k));
    }
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        string[k] = funnel_right(words[k], words[k + 1], at & lane_u32(31));
}

} // namespace psti

#endif
