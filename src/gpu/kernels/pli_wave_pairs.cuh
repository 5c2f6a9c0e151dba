/* pli_wave_pairs.cuh - units of mode wave with 8 bits (see pli_wave.cuh): the passes that read
 * tokens and raw bits.
 *
 * A token stands for a pair of samples (format-pli.md 5.4). The two residuals of a pair are stored
 * in the rows of an even and an odd step. Until the raw bits are read, the first of these two rows
 * holds the pair's activity. */
#ifndef PST_GPU_PLI_WAVE_PAIRS_CUH
#define PST_GPU_PLI_WAVE_PAIRS_CUH

#include "gpu/kernels/pli_wave_words.cuh"

namespace psti
{

/* Bytes of the two rows that a step fills. */
static const uint32_t WAVE_PAIR_NBYTES = 2 * wave_layout<8>::row_nbytes;
static const uint32_t WAVE_BAND_NBYTES = PSTI_WARP * WAVE_PAIR_NBYTES;

/* Tokens
 * ------------------------------------------------------------------------------------- */

/* Weights of neighbouring activities in the sum `energy` (format-pli.md 5.6), as signed bytes,
 * times four: gL, gLL and g1 beside the pair; gU, gUL above it; gUUR, gUU two rows above. The
 * weighted sum is four times `energy`; its bit 1 is set where half() rounds up. */
static const uint32_t WAVE_BESIDE = 0x000408, WAVE_ABOVE = 0x0208, WAVE_FAR = 0x0402;
struct wave_pair_kind {
    uint32_t beside;
    /* distance in bytes to the row of plane 1, or to any row if plane 1 is not coded */
    uint32_t back_nbytes;
};

/* The state of the pass that decodes tokens. */
struct wave_pairs {
    wave_words words;
    lane_u32 x;           /* states of the entropy coder, with bit 16 set */
    lane_u32 past;        /* activities of the last steps, the latest in the lowest byte */
    lane_u32 beside;      /* weights of the activities gL, gLL and g1 */
    lane_u32 above, far;  /* weights of the two rows above; 0 if the row does not exist */
    lane_u32 far_at_end;  /* weights of that row at the last column, where the lane two above is
                           * already in its next row */
    lane_u32 back_nbytes; /* as in struct wave_pair_kind */
    lane_u32 buckets;     /* address of the entry that tells the context of energy 0 */
};

PSTI_LANES bool wave_looks_across(const wave_unit &u, uint32_t coded)
{
    return wave_record_of(u, coded, WAVE_R_KIND) == WAVE_THIRD;
}
PSTI_LANES wave_pair_kind wave_pair_kind_of(const wave_unit &u, uint32_t coded)
{
    const uint32_t other = wave_record_of(u, coded, WAVE_R_OTHER);
    if (!wave_looks_across(u, coded))
        return {WAVE_BESIDE, WAVE_BAND_NBYTES};
    if (other == WAVE_CONSTANT)
        return {WAVE_BESIDE & 0xff, WAVE_BAND_NBYTES};
    return {(WAVE_BESIDE & 0xff) | 4 << 16, (coded - other) * u.bands * WAVE_BAND_NBYTES};
}

/* Advances state x past its token, but does not refill it. `context` is the address of the
 * context's table. Returns the table's entry: its bytes are 0, the frequency, the number of the
 * slot, and the activity. */
PSTI_LANES lane_u32 wave_find_pair(const wave_unit &u, lane_u32 context, lane_u32 &x)
{
    const lane_u32 slot = dot4_unsigned(x, lane_u32(4), context);
    const lane_u32 entry = load_address<uint32_t>(u.tables, slot);
    /* Byte 2 of x is 1, and must be 1 again afterwards. */
    x = dot4_unsigned(entry, x, lane_u32(1u << 16));
    return entry;
}

/* Decodes the tokens of one step. Lanes in the mask `first` are at the first pair of their rows,
 * lanes in `last` at the last pair. `crossed`: contexts may depend on plane 1, whose activities are
 * at address other_at. `full`: all lanes are active, and all rows exist. `place` is the address
 * within the row. */
template <bool full, bool crossed>
PSTI_LANES void wave_pair_step(const wave_unit &u, wave_pairs &s, lane_bool first, lane_bool last,
                               lane_bool active, lane_bool exists, lane_u32 place,
                               lane_u32 other_at)
{
    /* Activities from the lane above (gU, gUL) and from the lane two above (gUUR, gUU). If this
     * lane is at the end of its row, the lane two above has already begun its next row, which has
     * moved gUU one byte up. */
    const lane_u32 up = shuffle(s.past, lane_id() + lane_u32(31));
    const lane_u32 far = shuffle(s.past, lane_id() + lane_u32(30));
    s.past = select(first, s.past << lane_u32(16), s.past);
    lane_u32 near = s.past;
    if (crossed)
        near = pick_bytes(near, load_address<uint8_t>(u.window, other_at), lane_u32(0x5410));
    lane_u32 e = as_u32(dot4(near, s.beside, as_i32(s.buckets)));
    e = as_u32(dot4(far, select(last, s.far_at_end, s.far), dot4(up, s.above, as_i32(e))));
    lane_u32 context = load_address<uint16_t>(u.tables, e), x = s.x;
    lane_u32 found = wave_find_pair(u, context, x);
    lane_bool takes = x < lane_u32((1u << 16) + (1u << 8));
    if (!full) {
        takes = takes & active;
        x = select(active, x, s.x);
        found = select(active, found, lane_u32(0));
    }
    lane_u32 word = wave_take_words<uint8_t>(u, s.words, takes);
    s.past = pick_bytes(found, s.past, lane_u32(0x6543));
    s.x = select(takes, pick_bytes(x, word, lane_u32(0x3204)), x);
    store_address<uint8_t>(u.window, place, s.past, exists);
}

/* Decodes steps 32 phase to 32 phase + 31. In these steps lanes begin band number `phase`. */
template <bool full, bool crossed>
PSTI_LANES void wave_pair_steps(const wave_unit &u, wave_pairs &s, uint32_t phase,
                                const wave_part &part, const wave_pair_kind &kind, bool is_top)
{
    const uint32_t samples = s.words.window + wave_layout<8>::samples_at;
    /* The last band wraps around to the memory of the first rows. */
    const uint32_t fold = phase == u.n_coded * u.bands ? phase * WAVE_BAND_NBYTES : 0;
    lane_u32 row = lane_u32(samples + phase * WAVE_BAND_NBYTES - fold);
    for (uint32_t i = 0; i < PSTI_WARP; i += 4) {
        const lane_u32 way = (lane_id() - lane_u32(i)) & lane_u32(31);
        const lane_u32 lane = lane_id() ^ lane_u32(2 * i & 28);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const lane_bool enters = way == lane_u32(k);
            const lane_u32 place =
                row + (lane ^ lane_u32(k / 2 * 4)) + lane_u32(k * WAVE_PAIR_NBYTES);
            if (crossed && is_top) {
                s.beside = select(enters, lane_u32(kind.beside), s.beside);
                s.back_nbytes = select(enters, lane_u32(kind.back_nbytes), s.back_nbytes);
            }
            lane_u32 other = place + lane_u32(fold) - s.back_nbytes;
            lane_bool active = lane_bool(true), exists = active;
            if (!full) {
                const lane_bool is_front = lane_id() <= lane_u32(i + k);
                const lane_u32 column = (lane_u32(i + k) - lane_id()) & lane_u32(31);
                active = column < select(is_front, part.front, part.rear);
                /* Rows after the last band are the rows of the first band, which already hold its
                 * tokens. */
                exists = select(is_front, lane_bool(part.has_front), exists);
                /* Lanes whose context does not depend on plane 1 read from any valid address. */
                other = select(s.beside < lane_u32(1u << 16), lane_u32(s.words.window), other);
            }
            wave_pair_step<full, crossed>(u, s, enters, way == lane_u32(k + 1), active, exists,
                                          place, other);
        }
        row = row + lane_u32(4 * WAVE_PAIR_NBYTES);
        /* Half a window of words is enough for four steps. */
        if (s.words.at - s.words.window >= 128)
            wave_refill(u, s.words);
    }
}

PSTI_LANES void wave_pair_phase(const wave_unit &u, wave_pairs &s, uint32_t phase)
{
    const wave_part part = wave_part_of(u, phase, (u.width + 1) / 2);
    const uint32_t coded = phase / u.bands;
    const bool is_top = (phase & (u.bands - 1)) == 0;
    const lane_u32 none = lane_u32(0);
    wave_pair_kind kind = {0, 0};
    bool crossed = phase > 0 && wave_looks_across(u, (phase - 1) / u.bands);
    if (part.has_front) {
        kind = wave_pair_kind_of(u, coded);
        crossed = crossed || wave_looks_across(u, coded);
    }
    /* Row 0 of a plane has no row above it; rows 0 and 1 have no row two above. In the first step
     * of a phase, lane 1 is still at the end of a row of the previous band. In the last step, lane
     * 0 is at the end of a row of this band. */
    const lane_u32 far = s.far;
    s.above = lane_u32(WAVE_ABOVE);
    s.far = lane_u32(WAVE_FAR);
    if (is_top) {
        s.above = select(lane_id() == none, none, s.above);
        s.far = select(lane_id() < lane_u32(2), none, s.far);
    }
    s.far_at_end = select(lane_id() == lane_u32(1), far, s.far) << lane_u32(16);
    if (u.width < WAVE_EDGE - 1 || !part.all_rows)
        wave_pair_steps<false, true>(u, s, phase, part, kind, is_top);
    else if (crossed)
        wave_pair_steps<true, true>(u, s, phase, part, kind, is_top);
    else
        wave_pair_steps<true, false>(u, s, phase, part, kind, is_top);
}

/* Decodes all tokens of the unit. Leaves the payload in u.states. Returns false if, when the words
 * end, the states are not as the format requires (format-pli.md 0). */
PSTI_LANES bool wave_decode_tokens8(wave_unit &u)
{
    wave_pairs s;
    s.x = u.states + lane_u32(1u << 16);
    s.past = s.beside = s.back_nbytes = s.above = s.far = s.far_at_end = lane_u32(0);
    s.buckets = lane_u32(address_of(u.tables) + wave_layout<8>::buckets_at + 2);
    wave_open_words(u, s.words);
    for (uint32_t phase = 0; phase <= u.n_coded * u.bands; phase++)
        wave_pair_phase(u, s, phase);
    u.states = s.x;
    return wave_ends_well<8>(u, s.words, s.x, (1u << 8) + 1);
}

/* Raw bits
 * ------------------------------------------------------------------------------------- */

typedef struct psti_gpu_wave_pairs wave_pair_tables;
static_assert(wave_layout<8>::tables_nbytes % 16 == 0 && wave_layout<8>::samples_at % 16 == 0 &&
                  wave_layout<8>::warp_nbytes % 16 == 0,
              "where samples are");

/* The pass over raw bits handles 16 steps at a time. Each lane holds 16 consecutive tokens in four
 * words. */
static const uint32_t WAVE_CHUNK = 16, WAVE_ONES = 0x01010101;

/* A look-up table of 16 bytes, all below 128, in four words. The index is the lower four bits of an
 * activity. */
struct wave_sixteen {
    uint32_t words[4];
};
PSTI_LANES wave_sixteen wave_load_sixteen(const wave_unit &u, uint32_t offset)
{
    wave_sixteen of;
    PSTI_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        of.words[i] =
            load_uniform(shared_cast<uint32_t>(u.tables, wave_layout<8>::pairs_at + offset), i);
    return of;
}

/* Indices of four tokens in a 16-byte table, in nibbles. `flipped` has bit 3 of each index
 * inverted, to read the upper half of the table. */
struct wave_numbers {
    lane_u32 own, flipped;
};
PSTI_LANES wave_numbers wave_numbers_of(lane_u32 activities)
{
    lane_u32 numbers = activities & lane_u32(0x0f0f0f0f);
    numbers = numbers + (numbers >> lane_u32(4));
    numbers = pick_bytes(numbers, numbers, lane_u32(0x0020));
    return {numbers, numbers ^ lane_u32(0x8888)};
}
/* pick_bytes() returns 0 for an index with bit 3 set, because all bytes of the table are below
 * 128. */
PSTI_LANES lane_u32 wave_look_up(const wave_sixteen &of, const wave_numbers &numbers)
{
    return pick_bytes(lane_u32(of.words[0]), lane_u32(of.words[1]), numbers.own) |
           pick_bytes(lane_u32(of.words[2]), lane_u32(of.words[3]), numbers.flipped);
}

/* The place of a lane's 16 tokens of a chunk. */
struct wave_chunk {
    uint32_t first; /* step of the row that lanes 0 and 1 are in */
    bool is_whole;  /* true if all tokens of these rows belong to the steps of the chunk */
    bool is_second; /* true for the second visit to these rows, at the end of the unit */
    /* Address of the first token. The addresses of the others follow by ^, because addresses of
     * samples are multiples of 16. */
    lane_u32 place;
};
PSTI_LANES wave_chunk wave_chunk_of(const wave_unit &u, uint32_t t)
{
    const uint32_t n_steps = u.n_rows / 2;
    wave_chunk chunk;
    chunk.is_second = t >= n_steps;
    chunk.first = chunk.is_second ? t - n_steps : t;
    chunk.is_whole = t >= PSTI_WARP && !chunk.is_second;
    const lane_u32 row = wave_rows<8>(lane_u32(2 * chunk.first) + (lane_id() & lane_u32(30)));
    chunk.place =
        lane_u32(address_of(u.samples)) + (row ^ (lane_id() & lane_u32(1)) * lane_u32(16));
    return chunk;
}

/* Returns a mask of tokens 4 k .. 4 k + 3 of a chunk that is not whole: 255 in the bytes of tokens
 * that belong to the chunk's steps. */
PSTI_LANES lane_u32 wave_live(const wave_chunk &chunk, uint32_t k)
{
    const lane_u32 n_front = lane_u32(chunk.first + 1) + (lane_id() >> lane_u32(1));
    const lane_u32 at = (lane_id() & lane_u32(1)) * lane_u32(16) + lane_u32(4 * k);
    lane_i32 n = as_i32(n_front - at);
    n = wave_least(wave_most(n, lane_i32(0)), lane_i32(4));
    lane_u32 live = select(n == lane_i32(4), lane_u32(~0u),
                           (lane_u32(1) << (as_u32(n) * lane_u32(8) & lane_u32(31))) - lane_u32(1));
    return chunk.is_second ? ~live : live;
}

/* Splits `bits`, which has the bits of four consecutive tokens, into bytes: the first 8 bits of
 * each token. `ends` has the end of each token's bits, a byte each. */
PSTI_LANES lane_u32 wave_spread(lane_u32 bits, lane_u32 ends)
{
    const lane_u32 none = lane_u32(0);
    lane_u32 second = funnel_right(bits, none, ends);
    lane_u32 third = funnel_right(bits, none, ends >> lane_u32(8));
    lane_u32 fourth = funnel_right(bits, none, ends >> lane_u32(16));
    return pick_bytes(pick_bytes(bits, second, lane_u32(0x0040)),
                      pick_bytes(third, fourth, lane_u32(0x0040)), lane_u32(0x5410));
}

/* Looks up the points of four tokens (format-pli.md 5.4) and rotates them. Returns a word of x and
 * a word of y coordinates. */
PSTI_LANES void wave_points(const wave_unit &u, lane_u32 first, lane_u32 bases, lane_u32 &x,
                            lane_u32 &y)
{
    const lane_u32 points = lane_u32(address_of(u.tables) + wave_layout<8>::pairs_at);
    lane_u32 both[4];
    PSTI_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const lane_u32 one = pick_bytes(first, bases, lane_u32(i < 2 ? 0x5140 : 0x7362));
        const lane_u32 at = dot4_unsigned(one, lane_u32(0x0802u << i % 2 * 16), points);
        both[i] = load_address<uint16_t>(u.tables, at);
    }
    const lane_u32 low = pick_bytes(both[0], both[1], lane_u32(0x5140));
    const lane_u32 high = pick_bytes(both[2], both[3], lane_u32(0x5140));
    x = pick_bytes(low, high, lane_u32(0x5410));
    y = pick_bytes(low, high, lane_u32(0x7632));
}

/* Decodes tokens with two suffixes, which have activities above 15 (format-pli.md 5.4). Each lane
 * decodes its own, one after another. On entry, x of such a token holds suffix1 and y holds the
 * token's index. `left` has a bit for each of these tokens. `at` is the bit at which the second
 * suffixes of the lane begin. is_tail: these bits may lie beyond the unit, in the payload. */
template <bool is_tail>
PSTI_LANES void wave_find_squares(const wave_unit &u, const wave_chunk &chunk, lane_u32 left,
                                  lane_u32 at)
{
    const shared<uint8_t> tables = u.tables + wave_layout<8>::pairs_at;
    const uint32_t first_masks_at = offsetof(wave_pair_tables, first_masks);
    const uint32_t second_masks_at = offsetof(wave_pair_tables, second_masks);
    const uint32_t second_bits_at = offsetof(wave_pair_tables, second_bits);
    const uint32_t bases_at = offsetof(wave_pair_tables, square_bases);
    while (some(left != lane_u32(0))) {
        const lane_bool m = left != lane_u32(0);
        const lane_u32 even = select(m, chunk.place ^ ctz(left), chunk.place);
        const lane_u32 odd = even + lane_u32(wave_layout<8>::row_nbytes);
        const lane_u32 number = select(m, load_address<uint8_t>(u.samples, odd), lane_u32(0));
        const lane_u32 mask = load_at<uint8_t>(tables, lane_u32(second_masks_at) + number);
        const lane_u32 base = load_at<uint8_t>(tables, lane_u32(bases_at) + number);
        const lane_u32 r = load_address<uint8_t>(u.samples, even) &
                           load_at<uint8_t>(tables, lane_u32(first_masks_at) + number);
        const lane_u32 i = at >> lane_u32(5);
        lane_u32 low, high;
        if (is_tail) {
            low = wave_tail_word(u, i);
            high = wave_tail_word(u, i + lane_u32(1));
        } else {
            low = load(u.words, i);
            high = load(u.words, i + lane_u32(1));
        }
        const lane_u32 second = funnel_right(low, high, at & lane_u32(31)) & mask;
        /* suffix2 has n bits and stands for ring number 2^n + suffix2 */
        const lane_u32 sum = second + mask + lane_u32(1);
        const lane_u32 b = (sum >> lane_u32(1)) - base + (r >> lane_u32(2)), a = sum - b;
        const lane_u32 none = lane_u32(0), two = lane_u32(0x0040);
        lane_u32 pair = pick_bytes(pick_bytes(a, b, two), pick_bytes(none - a, none - b, two),
                                   lane_u32(0x5410));
        /* Rotates the point by (suffix1 mod 4) right angles. */
        pair = funnel_right(pair, pair, r * lane_u32(24));
        pair = select(base == none, pick_bytes(r, second, two), pair);
        store_address<uint8_t>(u.samples, even, pair, m);
        store_address<uint8_t>(u.samples, odd, pair >> lane_u32(8), m);
        at = at + load_at<uint8_t>(tables, lane_u32(second_bits_at) + number);
        left = left & (left - lane_u32(1));
    }
}

/* The results of a chunk, while they are computed. */
struct wave_made {
    lane_u32 activities[4], first[4]; /* first: suffix1 and the bits after it */
    lane_u32 x[4], y[4];
};

/* For tokens with activities above 15, stores suffix1 in x and the token's index in y. Returns a
 * bit for each of these tokens. */
PSTI_LANES lane_u32 wave_mark_squares(wave_made &made)
{
    lane_u32 left[2] = {lane_u32(0), lane_u32(0)};
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        const lane_u32 is_large =
            (made.activities[k] + lane_u32(0x70 * WAVE_ONES)) >> lane_u32(7) & lane_u32(WAVE_ONES);
        made.x[k] = made.x[k] | (made.first[k] & is_large * lane_u32(255));
        made.y[k] = made.y[k] | (made.activities[k] & is_large * lane_u32(15));
        left[k / 2] =
            dot4_unsigned(is_large, lane_u32(k % 2 == 0 ? 0x08040201 : 0x80402010), left[k / 2]);
    }
    return left[0] | left[1] << lane_u32(8);
}

/* Stores the residuals of a chunk. Tokens that belong to other steps are not changed. */
PSTI_LANES void wave_store_chunk(const wave_unit &u, const wave_chunk &chunk, wave_made &made)
{
    const lane_u32 row = lane_u32(wave_layout<8>::row_nbytes);
    PSTI_UNROLL
    for (uint32_t k = 0; !chunk.is_whole && k < 4; k++) {
        const lane_u32 others = ~wave_live(chunk, k), even = chunk.place ^ lane_u32(4 * k);
        made.x[k] = made.x[k] | (load_address<uint32_t>(u.samples, even) & others);
        if (chunk.is_second)
            made.y[k] = made.y[k] | (load_address<uint32_t>(u.samples, even + row) & others);
    }
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        const lane_u32 even = chunk.place ^ lane_u32(4 * k);
        store_address<uint32_t>(u.samples, even, made.x[k]);
        store_address<uint32_t>(u.samples, even + row, made.y[k]);
    }
}

/* Turns the activities of all tokens into residuals. Returns the number of the first unused bit. */
PSTI_LANES uint32_t wave_find_residuals8(const wave_unit &u)
{
    const wave_sixteen first_bits = wave_load_sixteen(u, offsetof(wave_pair_tables, first_bits));
    const wave_sixteen second_bits = wave_load_sixteen(u, offsetof(wave_pair_tables, second_bits));
    const wave_sixteen masks = wave_load_sixteen(u, offsetof(wave_pair_tables, point_masks));
    const wave_sixteen bases = wave_load_sixteen(u, offsetof(wave_pair_tables, point_bases));
    const lane_u32 none = lane_u32(0);
    uint32_t at = 8 * u.raw_at;
    for (uint32_t t = 0; t < u.n_rows / 2 + PSTI_WARP; t += WAVE_CHUNK) {
        const wave_chunk chunk = wave_chunk_of(u, t);
        wave_made made;
        lane_u32 ends[4], string[4], first_sum = none, second_sum = none, large = none;
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            made.activities[k] = load_address<uint32_t>(u.samples, chunk.place ^ lane_u32(4 * k));
        PSTI_UNROLL
        for (uint32_t k = 0; !chunk.is_whole && k < 4; k++)
            made.activities[k] = made.activities[k] & wave_live(chunk, k);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const lane_u32 sizes = wave_look_up(first_bits, wave_numbers_of(made.activities[k]));
            ends[k] = sizes * lane_u32(WAVE_ONES);
            first_sum = first_sum + (ends[k] >> lane_u32(24));
            large = large | made.activities[k];
        }
        const bool has_second = some((large & lane_u32(0x30303030)) != none);
        PSTI_UNROLL
        for (uint32_t k = 0; has_second && k < 4; k++) {
            const lane_u32 sizes = wave_look_up(second_bits, wave_numbers_of(made.activities[k]));
            second_sum = dot4_unsigned(sizes, lane_u32(WAVE_ONES), second_sum);
        }
        const lane_u32 sum = first_sum + second_sum, end = scan_add(sum);
        lane_u32 first_at = lane_u32(at) + end - sum, second_at = none;
        at += lane_of(end, PSTI_WARP - 1);
        /* all suffix1 of a step come before its suffix2 (format-pli.md 5.7) */
        if (has_second) {
            const lane_u32 both = first_sum | second_sum << lane_u32(16);
            const lane_u32 other = shuffle(both, lane_id() ^ lane_u32(1));
            const lane_bool is_low = (lane_id() & lane_u32(1)) == none;
            second_at = first_at + first_sum + select(is_low, other & lane_u32(0xffff), none);
            first_at = first_at - select(is_low, none, other >> lane_u32(16));
        }
        wave_string(u, first_at, at, string);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const wave_numbers numbers = wave_numbers_of(made.activities[k]);
            made.first[k] = wave_spread(string[0], ends[k]);
            wave_points(u, made.first[k] & wave_look_up(masks, numbers),
                        wave_look_up(bases, numbers), made.x[k], made.y[k]);
            for (uint32_t i = 0; i < 3 - k; i++)
                string[i] = funnel_right_most(string[i], string[i + 1], ends[k] >> lane_u32(24));
        }
        lane_u32 left = none;
        if (has_second)
            left = wave_mark_squares(made);
        wave_store_chunk(u, chunk, made);
        if (has_second && wave_is_within(u, at))
            wave_find_squares<false>(u, chunk, left, second_at);
        else if (has_second)
            wave_find_squares<true>(u, chunk, left, second_at);
    }
    return at;
}

} // namespace psti

#endif
