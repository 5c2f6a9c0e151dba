/* pli_lz.cuh - a warp decodes a unit of mode lz (format-pli.md 6) to pixels in scratch.
 *
 * The unit's 1 to 32 states, one per lane, decode tokens and samples. Tables lie in shared memory
 * and are made quickly: each symbol sets a bit where its places begin, and counting these bits
 * finds the symbol. Then sequences are executed in order. For 32 sequences at a time, each lane
 * takes the raw bits of one and computes its numbers; then all lanes together do each copy, up to
 * 512 bytes at once. Pixels take up to 2 MiB, so they lie in global memory. A source of a copy was
 * mostly written a moment ago and is still in the nearest cache. Literals are stored at the end of
 * the pixels' memory, where the output never overtakes them. */
#ifndef PST_GPU_PLI_LZ_CUH
#define PST_GPU_PLI_LZ_CUH

#include "gpu/kernels/pli_plain.cuh"

namespace psti
{

/* Limits of a unit, and the bits of its `form` byte (format-pli.md 6.1). */
static const uint32_t LZ_SEQUENCES_MAX = 16384, LZ_COLOURS_MAX = 255, LZ_LANES_LOG2_MAX = 5;
static const uint32_t LZ_FORM_MAX = 31, LZ_SUBTRACT_GREEN = 8, LZ_GRAPHICS = 16;
/* Number of symbols in the alphabets of runs, offsets and lengths (format-pli.md 6.3). */
static const uint32_t LZ_N_RUNS = 44, LZ_N_OFFSETS = 57, LZ_N_LENGTHS = 92;
/* The value of a state after its last symbol, and log2 of the sum of a table's frequencies
 * (6.2). */
static const uint32_t LZ_STATE_LOW = 65536;
static const uint32_t LZ_SEQUENCE_LOG2 = 10, LZ_PIXEL_LOG2 = 11;
static const uint32_t LZ_SEQUENCE_WORDS = PSTI_GPU_LZ_SEQUENCE_NBYTES / 4;
static const uint32_t LZ_PIXEL_WORDS = PSTI_GPU_LZ_PIXEL_NBYTES / 4;

struct lz_unit {
    const uint32_t *words; /* the unit's bytes, which begin with its mode */
    uint32_t nbytes;
    uint32_t width, n_pixels, pixel_nbytes, bits, channels;
    /* numbers read from the unit's head */
    uint32_t n_lanes, form;
    uint32_t n_sequences, n_literals, n_colours, n_escapes;
    /* byte offsets in the unit: of the tables, the raw bits, and the words that refill the
     * states */
    uint32_t tables, raw, text;
    /* addresses in scratch */
    uint8_t *samples;
    uint32_t *tokens;
    /* entropy coder states, one per lane */
    lane_u32 x;
    uint32_t next, n_text;   /* numbers of words: already taken, and in the unit */
    uint32_t bit;            /* number of the next bit in the descriptions of tables */
    shared<uint32_t> memory; /* memory for tables */
    shared<uint8_t> colours;
};

/* Head
 * ------------------------------------------------------------------------------------- */

/* The first 32 bytes of a unit, which hold its mode, form and all numbers of its head
 * (format-pli.md 6.1). */
struct lz_reader {
    lane_u32 bytes;
    uint32_t at;
    bool fine;
};

PSTI_LANES uint32_t lz_byte(lz_reader &in) { return lane_of(in.bytes, in.at++); }

/* Reads a number of at most four bytes, 7 bits each (format-pli.md 0). Zeros follow the unit's last
 * byte. If a number reads them, a later check finds that the next parts are missing. */
PSTI_LANES uint32_t lz_number(lz_reader &in)
{
    uint32_t v = 0, shift = 0, byte = 0x80;
    for (; shift < 28 && byte >= 0x80; shift += 7) {
        byte = lz_byte(in);
        v |= (byte & 0x7f) << shift;
    }
    in.fine = in.fine && byte < 0x80;
    return v;
}

PSTI_LANES bool lz_read_head(lz_unit &u, uint32_t n_sequences_max)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(u.words);
    lz_reader in = {load(bytes, lane_id(), lane_id() < lane_u32(u.nbytes)), 1, true};
    u.form = lz_byte(in);
    u.n_sequences = lz_number(in);
    u.n_literals = lz_number(in);
    u.n_colours = lz_number(in);
    u.n_escapes = u.n_colours > 0 ? lz_number(in) : u.n_literals;
    uint32_t raw_nbytes = lz_number(in), tables_nbytes = lz_number(in);
    if (u.form > LZ_FORM_MAX || (u.form & 7) > LZ_LANES_LOG2_MAX ||
        ((u.form & LZ_SUBTRACT_GREEN) != 0 && u.channels < 3) || !in.fine || in.at > u.nbytes)
        return false;
    if (u.n_sequences > LZ_SEQUENCES_MAX || u.n_sequences > n_sequences_max ||
        u.n_literals > u.n_pixels || u.n_colours > LZ_COLOURS_MAX || u.n_escapes > u.n_literals)
        return false;
    /* Indices of colours are stored at the start of the pixels' memory while decoded pixels are
     * written at its end, so both must fit (6.1: n_colours). */
    if (u.n_colours > 0 && u.n_literals * (u.pixel_nbytes + 1) > u.n_pixels * u.pixel_nbytes)
        return false;
    u.n_lanes = 1u << (u.form & 7);
    uint32_t fixed = 4 * u.n_lanes + raw_nbytes + tables_nbytes, left = u.nbytes - in.at;
    if (fixed > left || (left - fixed) % 2 != 0)
        return false;
    u.tables = in.at + 4 * u.n_lanes;
    u.raw = u.tables + tables_nbytes;
    u.text = u.raw + raw_nbytes;
    u.n_text = (u.nbytes - u.text) / 2;
    u.next = 0;
    u.bit = 8 * u.tables;
    lane_bool has = lane_id() < lane_u32(u.n_lanes);
    u.x = lane_u32(0);
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        u.x = u.x | load(bytes, lane_u32(in.at + k) + lane_id() * lane_u32(4), has)
                        << lane_u32(8 * k);
    return true;
}

/* Tables
 * ------------------------------------------------------------------------------------- */

/* Returns the 32 bits of the unit that begin at bit number `bit`. */
PSTI_LANES uint32_t lz_window(const lz_unit &u, uint32_t bit)
{
    return funnel_right(load_uniform(u.words, bit / 32), load_uniform(u.words, bit / 32 + 1),
                        bit % 32);
}

/* A table while it is made. Its entries are in memory; the bits that mark starts are in the
 * lanes. */
struct lz_table {
    shared<uint32_t> words, entries;
    lane_u32 starts[2]; /* lane l has the bits of places 32 l.. and of places 1024 + 32 l.. */
    uint32_t n, start;  /* numbers of entries and of places so far */
};

PSTI_LANES lz_table lz_table_begin(shared<uint32_t> memory, uint32_t log2)
{
    return lz_table{memory, memory + 2 * ((1u << log2) / 32), {lane_u32(0), lane_u32(0)}, 0, 0};
}

PSTI_LANES void lz_table_add(lz_table &t, uint32_t symbol, uint32_t freq)
{
    lane_u32 bit = lane_u32(1u << t.start % 32);
    PSTI_UNROLL
    for (uint32_t k = 0; k < 2; k++)
        t.starts[k] = select(lane_id() + lane_u32(32 * k) == lane_u32(t.start / 32),
                             t.starts[k] | bit, t.starts[k]);
    store_uniform(t.entries, t.n++, symbol | t.start << 8 | freq << 19);
    t.start += freq;
}

PSTI_LANES void lz_table_end(const lz_table &t, uint32_t log2)
{
    lane_u32 n0 = popc(t.starts[0]), before = scan_add_below(n0);
    store2(t.words, lane_id() * lane_u32(2), t.starts[0], before);
    if (log2 == LZ_PIXEL_LOG2) {
        lane_u32 first = lane_u32(reduce_add(n0));
        store2(t.words, (lane_id() + lane_u32(32)) * lane_u32(2), t.starts[1],
               first + scan_add_below(popc(t.starts[1])));
    }
    warp_sync();
}

/* Reads the description of a frequency table (format-pli.md 6.3) and builds the decoding table.
 * Returns false if the frequencies do not sum to 1 << log2. */
PSTI_LANES bool lz_read_table(lz_unit &u, shared<uint32_t> memory, uint32_t n, uint32_t log2)
{
    lz_table t = lz_table_begin(memory, log2);
    const uint32_t sum = 1u << log2;
    uint32_t i = 0;
    while (t.start < sum) {
        if (u.bit >= 8 * u.raw)
            return false;
        uint32_t v = lz_window(u, u.bit), width = v & 15;
        if (width == 0) {
            uint32_t zeros = 1 + (v >> 4 & 7);
            if (zeros > n - i)
                return false;
            i += zeros;
            u.bit += 7;
            continue;
        }
        uint32_t freq = 1u << (width - 1) | (v >> 4 & ((1u << (width - 1)) - 1));
        if (freq > sum - t.start || i == n)
            return false;
        lz_table_add(t, i++, freq);
        u.bit += 3 + width;
    }
    lz_table_end(t, log2);
    return true;
}

/* Makes the built-in table of n symbols with about equal frequencies (6.3). */
PSTI_LANES void lz_flat_table(shared<uint32_t> memory, uint32_t n)
{
    const uint32_t sum = 1u << LZ_PIXEL_LOG2;
    lz_table t = lz_table_begin(memory, LZ_PIXEL_LOG2);
    for (uint32_t i = 0; i < n; i++)
        lz_table_add(t, i, sum / n + (i < sum % n));
    lz_table_end(t, LZ_PIXEL_LOG2);
}

PSTI_LANES void lz_copy_table(shared<uint32_t> to, shared<uint32_t> from, uint32_t log2)
{
    const uint32_t last = 2 * ((1u << log2) / 32 - 1);
    const uint32_t n_words =
        last + 2 + popc(load_uniform(from, last)) + load_uniform(from, last + 1);
    for (uint32_t i = 0; i < n_words; i += PSTI_WARP) {
        lane_u32 word = lane_u32(i) + lane_id();
        lane_bool has = word < lane_u32(n_words);
        store(to, word, load(from, word, has), has);
    }
    warp_sync();
}

/* Reads the two bits that say how the unit stores the table of a context (format-pli.md 6.3). */
PSTI_LANES uint32_t lz_table_kind(lz_unit &u)
{
    uint32_t kind = u.bit < 8 * u.raw ? lz_window(u, u.bit) & 3 : 3;
    u.bit += 2;
    return kind;
}
enum { LZ_BUILT_IN = 0, LZ_OWN = 1, LZ_SAME = 2 };

/* Reads or copies the tables of sequences, from table number `first` on. */
PSTI_LANES bool lz_sequence_tables(lz_unit &u, uint64_t constants, uint32_t first,
                                   uint32_t n_contexts, uint32_t n_symbols)
{
    const uint32_t *built_in =
        reinterpret_cast<const uint32_t *>(constants) +
        ((u.form & LZ_GRAPHICS) != 0 ? PSTI_GPU_LZ_N_TABLES : 0) * LZ_SEQUENCE_WORDS;
    for (uint32_t c = 0; c < n_contexts; c++) {
        const uint32_t at = (first + c) * LZ_SEQUENCE_WORDS;
        shared<uint32_t> memory = u.memory + at;
        uint32_t kind = lz_table_kind(u);
        if (kind == LZ_SAME && c > 0) {
            lz_copy_table(memory, u.memory + (at - LZ_SEQUENCE_WORDS), LZ_SEQUENCE_LOG2);
        } else if (kind == LZ_OWN) {
            if (!lz_read_table(u, memory, n_symbols, LZ_SEQUENCE_LOG2))
                return false;
        } else if (kind == LZ_BUILT_IN) {
            for (uint32_t i = 0; i < LZ_SEQUENCE_WORDS; i += PSTI_WARP)
                store(memory, lane_u32(i) + lane_id(),
                      load(built_in + at, lane_u32(i) + lane_id()));
            warp_sync();
        } else {
            return false;
        }
    }
    return true;
}

/* Reads the tables for colour indices or for samples. Each table has n_symbols symbols. */
PSTI_LANES bool lz_pixel_tables(lz_unit &u, uint32_t n_contexts, uint32_t n_symbols, uint32_t first)
{
    for (uint32_t c = 0; c < n_contexts; c++) {
        shared<uint32_t> memory = u.memory + (first + c) * LZ_PIXEL_WORDS;
        uint32_t kind = lz_table_kind(u);
        if (kind == LZ_SAME && c > 0)
            lz_copy_table(memory, u.memory + (first + c - 1) * LZ_PIXEL_WORDS, LZ_PIXEL_LOG2);
        else if (kind == LZ_OWN) {
            if (!lz_read_table(u, memory, n_symbols, LZ_PIXEL_LOG2))
                return false;
        } else if (kind == LZ_BUILT_IN)
            lz_flat_table(memory, n_symbols);
        else
            return false;
    }
    return true;
}

/* States
 * ------------------------------------------------------------------------------------- */

/* Decodes the next symbol of each lane in `has`. The lane's table begins at word `table` of the
 * memory. Words after the last one are 0, but u.next counts them, too. */
PSTI_LANES lane_u32 lz_symbol(lz_unit &u, lane_u32 table, uint32_t log2, lane_bool has)
{
    lane_u32 place = u.x & lane_u32((1u << log2) - 1);
    lane_u32 word = table + (place >> lane_u32(5)) * lane_u32(2);
    lane_u32 starts = load(u.memory, word, has), rank = load(u.memory, word + lane_u32(1), has);
    lane_u32 to_here = (lane_u32(2) << (place & lane_u32(31))) - lane_u32(1);
    lane_u32 entry =
        load(u.memory,
             table + lane_u32(2 * ((1u << log2) / 32) - 1) + rank + popc(starts & to_here), has);
    lane_u32 x = (entry >> lane_u32(19)) * (u.x >> lane_u32(log2)) + place -
                 (entry >> lane_u32(8) & lane_u32(0x7ff));
    lane_bool low = has & (x < lane_u32(LZ_STATE_LOW));
    const uint32_t lows = votes(low);
    lane_u32 i = lane_u32(u.next) + popc(lane_u32(lows) & mask_below());
    lane_u32 at = lane_u32(u.text) + i * lane_u32(2);
    lane_bool there = low & (i < lane_u32(u.n_text));
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(u.words);
    lane_u32 more = load(bytes, at, there) | load(bytes, at + lane_u32(1), there) << lane_u32(8);
    u.next += popc(lows);
    u.x = select(has, select(low, x << lane_u32(16) | more, x), u.x);
    return entry & lane_u32(255);
}

/* Returns the class of an offset's token, which is the context for decoding the length
 * (format-pli.md 6.4): 0 recent, 1 left, 2 above, 3 explicit. */
PSTI_LANES lane_u32 lz_offset_class(lane_u32 token)
{
    return as_u32(token >= lane_u32(3)) + as_u32(token >= lane_u32(7)) +
           as_u32(token >= lane_u32(22));
}

/* Returns how many of n symbols or sequences each lane decodes (format-pli.md 6.2). In step t lane
 * l decodes number l * per_lane + t. */
PSTI_LANES uint32_t lz_per_lane(const lz_unit &u, uint32_t n)
{
    return (n + u.n_lanes - 1) >> (u.form & 7);
}

/* Decodes the tokens of all sequences in order. Stores each as run | offset << 8 | length << 16. */
PSTI_LANES bool lz_decode_sequences(lz_unit &u, uint64_t constants)
{
    if (u.n_sequences == 0)
        return true;
    if (!lz_sequence_tables(u, constants, 0, 2, LZ_N_RUNS) ||
        !lz_sequence_tables(u, constants, 2, 7, LZ_N_OFFSETS) ||
        !lz_sequence_tables(u, constants, 9, 4, LZ_N_LENGTHS))
        return false;
    const uint32_t per_lane = lz_per_lane(u, u.n_sequences);
    lane_u32 ending = lane_u32(5), step = lane_u32(LZ_SEQUENCE_WORDS);
    lane_u32 i = lane_id() * lane_u32(per_lane);
    for (uint32_t t = 0; t < per_lane; t++, i = i + lane_u32(1)) {
        lane_bool has = (lane_id() < lane_u32(u.n_lanes)) & (i < lane_u32(u.n_sequences));
        lane_u32 run = lz_symbol(u, as_u32(ending >= lane_u32(4)) * step, LZ_SEQUENCE_LOG2, has);
        lane_u32 context = select(run != lane_u32(0), lane_u32(6), ending) + lane_u32(2);
        lane_u32 offset = lz_symbol(u, context * step, LZ_SEQUENCE_LOG2, has);
        lane_u32 kind = lz_offset_class(offset);
        lane_u32 length = lz_symbol(u, (kind + lane_u32(9)) * step, LZ_SEQUENCE_LOG2, has);
        store(u.tokens, i, run | offset << lane_u32(8) | length << lane_u32(16), has);
        lane_u32 edge = (length - lane_u32(LZ_N_RUNS)) * lane_u32(43) >> lane_u32(9); /* / 12 */
        ending = select(length >= lane_u32(LZ_N_RUNS), edge,
                        select(kind >= lane_u32(2), lane_u32(4), lane_u32(5)));
        if (u.next > u.n_text)
            return false;
    }
    return true;
}

/* Decodes the colour indices of literals. They are written to the start of the memory for
 * pixels. */
PSTI_LANES bool lz_decode_indices(lz_unit &u)
{
    const uint32_t per_lane = lz_per_lane(u, u.n_literals);
    lane_u32 i = lane_id() * lane_u32(per_lane);
    for (uint32_t t = 0; t < per_lane; t++, i = i + lane_u32(1)) {
        lane_bool has = (lane_id() < lane_u32(u.n_lanes)) & (i < lane_u32(u.n_literals));
        lane_u32 symbol = lz_symbol(u, lane_u32(0), LZ_PIXEL_LOG2, has);
        store(u.samples, i, symbol, has);
        if (u.next > u.n_text)
            return false;
    }
    return true;
}

/* Adds sample 1 (green) to samples 0 and 2 of a pixel whose bytes are in low and high (6.5). */
PSTI_LANES void lz_add_green(const lz_unit &u, lane_u32 &low, lane_u32 &high)
{
    if ((u.form & LZ_SUBTRACT_GREEN) == 0)
        return;
    if (u.bits == 8) {
        lane_u32 green = low >> lane_u32(8) & lane_u32(0xff);
        lane_u32 sum = (low & lane_u32(0x00ff00ff)) + green * lane_u32(0x00010001);
        low = (sum & lane_u32(0x00ff00ff)) | (low & lane_u32(0xff00ff00));
    } else {
        lane_u32 green = low >> lane_u32(16);
        low = ((low + green) & lane_u32(0xffff)) | (low & lane_u32(0xffff0000));
        high = ((high + green) & lane_u32(0xffff)) | (high & lane_u32(0xffff0000));
    }
}

/* Stores the first nbytes bytes of a pixel at byte `at` of global memory. */
PSTI_LANES void lz_put_bytes(uint8_t *to, lane_u32 at, uint32_t nbytes, lane_u32 low, lane_u32 high,
                             lane_bool has)
{
    PSTI_UNROLL
    for (uint32_t b = 0; b < 8; b++)
        if (b < nbytes)
            store(to, at + lane_u32(b), (b < 4 ? low : high) >> lane_u32(8 * (b % 4)), has);
}

/* Decodes the samples of colours and of escaped pixels, or of all literals (format-pli.md 6.5).
 * They are written to the end of the memory for pixels. */
PSTI_LANES bool lz_decode_pixels(lz_unit &u, uint32_t first_table)
{
    const uint32_t P = u.pixel_nbytes, n = u.n_colours + u.n_escapes;
    const uint32_t per_lane = lz_per_lane(u, n);
    const uint32_t out = (u.n_pixels - u.n_escapes) * P;
    /* Bit b is set if byte b's table has only one symbol, which leaves states unchanged. */
    uint32_t singles = 0;
    for (uint32_t b = 0; b < P; b++) {
        uint32_t context = u.bits == 8 || b < 2 ? b : 2 + b % 2;
        uint32_t entry = load_uniform(u.memory, (first_table + context) * LZ_PIXEL_WORDS +
                                                    2 * ((1u << LZ_PIXEL_LOG2) / 32));
        singles |= (entry >> 19 >> LZ_PIXEL_LOG2) << b;
    }
    lane_u32 i = lane_id() * lane_u32(per_lane);
    for (uint32_t t = 0; t < per_lane; t++, i = i + lane_u32(1)) {
        lane_bool has = (lane_id() < lane_u32(u.n_lanes)) & (i < lane_u32(n));
        lane_u32 low = lane_u32(0), high = lane_u32(0);
        for (uint32_t b = 0; b < P; b++) {
            uint32_t context = u.bits == 8 || b < 2 ? b : 2 + b % 2;
            uint32_t table = (first_table + context) * LZ_PIXEL_WORDS;
            lane_u32 v;
            if ((singles >> b & 1) != 0)
                v = lane_u32(load_uniform(u.memory, table + 2 * ((1u << LZ_PIXEL_LOG2) / 32)) &
                             255);
            else
                v = lz_symbol(u, lane_u32(table), LZ_PIXEL_LOG2, has);
            if (b < 4)
                low = low | v << lane_u32(8 * b);
            else
                high = high | v << lane_u32(8 * (b - 4));
        }
        lz_add_green(u, low, high);
        lane_bool is_colour = has & (i < lane_u32(u.n_colours));
        PSTI_UNROLL
        for (uint32_t b = 0; b < 8; b++)
            if (b < P)
                store(u.colours, i * lane_u32(8) + lane_u32(b),
                      (b < 4 ? low : high) >> lane_u32(8 * (b % 4)), is_colour);
        lane_u32 at = lane_u32(out) + (i - lane_u32(u.n_colours)) * lane_u32(P);
        lz_put_bytes(u.samples, at, P, low, high, has & (i >= lane_u32(u.n_colours)));
        if (u.next > u.n_text)
            return false;
    }
    warp_sync();
    return true;
}

/* Stores all literals as pixels at the end of the pixels' memory. Indices at the start are replaced
 * by their colours there, and escaped pixels move down from the very end. No write overtakes a
 * read. */
PSTI_LANES bool lz_place_literals(const lz_unit &u)
{
    const uint32_t P = u.pixel_nbytes, out = (u.n_pixels - u.n_literals) * P;
    const uint32_t escapes = (u.n_pixels - u.n_escapes) * P;
    uint32_t n_used = 0;
    for (uint32_t first = 0; first < u.n_literals; first += PSTI_WARP) {
        lane_u32 i = lane_u32(first) + lane_id(), low = lane_u32(0), high = lane_u32(0);
        lane_bool has = i < lane_u32(u.n_literals);
        lane_u32 index = load(u.samples, i, has);
        lane_bool is_escape = has & (index >= lane_u32(u.n_colours));
        const uint32_t marks = votes(is_escape);
        lane_u32 number = lane_u32(n_used) + popc(lane_u32(marks) & mask_below());
        n_used += popc(marks);
        if (n_used > u.n_escapes)
            return false;
        PSTI_UNROLL
        for (uint32_t b = 0; b < 8; b++) {
            if (b >= P)
                continue;
            lane_u32 v = load(u.samples, lane_u32(escapes + b) + number * lane_u32(P), is_escape) |
                         load(u.colours, index * lane_u32(8) + lane_u32(b), has & !is_escape);
            if (b < 4)
                low = low | v << lane_u32(8 * b);
            else
                high = high | v << lane_u32(8 * (b - 4));
        }
        warp_sync();
        lz_put_bytes(u.samples, lane_u32(out) + i * lane_u32(P), P, low, high, has);
        warp_sync();
    }
    return n_used == u.n_escapes;
}

PSTI_LANES bool lz_decode_literals(lz_unit &u)
{
    const uint32_t n_tables = u.bits == 8 ? u.channels : u.channels > 1 ? 4 : 2;
    if (u.n_literals == 0)
        return true;
    warp_sync(); /* the tables of sequences are overwritten, so no lane may still read them */
    if (u.n_colours > 0 && (!lz_pixel_tables(u, 1, u.n_colours + 1, 0) || !lz_decode_indices(u)))
        return false;
    return lz_pixel_tables(u, n_tables, 256, 1) && lz_decode_pixels(u, 1) &&
           (u.n_colours == 0 || lz_place_literals(u));
}

/* Returns whether states, words and tables end where the format says (6.1, 6.2). */
PSTI_LANES bool lz_ends_well(const lz_unit &u)
{
    lane_bool even = (u.x == lane_u32(LZ_STATE_LOW)) | (lane_id() >= lane_u32(u.n_lanes));
    return every(even) && u.next == u.n_text && (u.bit + 7) / 8 == u.raw;
}

/* Copies
 * ------------------------------------------------------------------------------------- */

/* A pixel of P bytes, held in one or two registers. */
struct lz_pixel {
    lane_u32 low, high;
};

template <uint32_t P> PSTI_LANES lz_pixel lz_load(const uint8_t *samples, lane_u32 i, lane_bool has)
{
    lz_pixel v = {lane_u32(0), lane_u32(0)};
    if constexpr (P == 1) {
        v.low = load(samples, i, has);
    } else if constexpr (P == 3) {
        lane_u32 at = i * lane_u32(3);
        v.low = load(samples, at, has) | load(samples, at + lane_u32(1), has) << lane_u32(8) |
                load(samples, at + lane_u32(2), has) << lane_u32(16);
    } else if constexpr (P == 2 || P == 6) {
        const uint16_t *halves = reinterpret_cast<const uint16_t *>(samples);
        lane_u32 at = i * lane_u32(P / 2);
        v.low = load(halves, at, has);
        if constexpr (P == 6) {
            v.low = v.low | load(halves, at + lane_u32(1), has) << lane_u32(16);
            v.high = load(halves, at + lane_u32(2), has);
        }
    } else {
        const uint32_t *words = reinterpret_cast<const uint32_t *>(samples);
        lane_u32 at = i * lane_u32(P / 4);
        v.low = load(words, at, has);
        if constexpr (P == 8)
            v.high = load(words, at + lane_u32(1), has);
    }
    return v;
}

template <uint32_t P>
PSTI_LANES void lz_store(uint8_t *samples, lane_u32 i, const lz_pixel &v, lane_bool has)
{
    if constexpr (P == 1) {
        store(samples, i, v.low, has);
    } else if constexpr (P == 3) {
        PSTI_UNROLL
        for (uint32_t b = 0; b < 3; b++)
            store(samples, i * lane_u32(3) + lane_u32(b), v.low >> lane_u32(8 * b), has);
    } else if constexpr (P == 2 || P == 6) {
        uint16_t *halves = reinterpret_cast<uint16_t *>(samples);
        lane_u32 at = i * lane_u32(P / 2);
        store(halves, at, v.low, has);
        if constexpr (P == 6) {
            store(halves, at + lane_u32(1), v.low >> lane_u32(16), has);
            store(halves, at + lane_u32(2), v.high, has);
        }
    } else {
        uint32_t *words = reinterpret_cast<uint32_t *>(samples);
        lane_u32 at = i * lane_u32(P / 4);
        store(words, at, v.low, has);
        if constexpr (P == 8)
            store(words, at + lane_u32(1), v.high, has);
    }
}

/* Copies nbytes >= 8 from `from` to `to`. `from` must be at least 128 * n bytes before `to`, or not
 * before it at all. Each lane copies n words at a time. */
template <uint32_t n>
PSTI_LANES void lz_copy_wide(uint8_t *samples, uint32_t to, uint32_t from, uint32_t nbytes)
{
    uint32_t *words = reinterpret_cast<uint32_t *>(samples);
    const uint32_t delta = from - to, first = (to + 3) / 4, last = (to + nbytes) / 4;
    lane_u32 byte = lane_u32(to) + lane_id();
    lane_bool has = byte < lane_u32(4 * first);
    lane_u32 v = load(samples, byte + lane_u32(delta), has);
    warp_sync();
    store(samples, byte, v, has);
    for (uint32_t w = first; w < last; w += PSTI_WARP * n) {
        lane_u32 low[n], high[n];
        warp_sync();
        PSTI_UNROLL
        for (uint32_t k = 0; k < n; k++) {
            lane_u32 i = lane_u32(w + PSTI_WARP * k) + lane_id();
            lane_u32 source = (i * lane_u32(4) + lane_u32(delta)) >> lane_u32(2);
            low[k] = load(words, source, i < lane_u32(last));
            high[k] = load(words, source + lane_u32(1), i < lane_u32(last));
        }
        warp_sync();
        PSTI_UNROLL
        for (uint32_t k = 0; k < n; k++) {
            lane_u32 i = lane_u32(w + PSTI_WARP * k) + lane_id();
            store(words, i, funnel_right(low[k], high[k], lane_u32(8 * (delta % 4))),
                  i < lane_u32(last));
        }
    }
    byte = lane_u32(4 * last) + lane_id();
    has = byte < lane_u32(to + nbytes);
    warp_sync();
    v = load(samples, byte + lane_u32(delta), has);
    warp_sync();
    store(samples, byte, v, has);
}

/* Repeats the `period` <= 31 bytes before `to` until nbytes >= 8 are written. `inverse` is 65536 /
 * period + 1; a product with it divides numbers below 256 by the period. */
PSTI_LANES void lz_repeat(uint8_t *samples, uint32_t to, uint32_t period, uint32_t nbytes,
                          uint32_t inverse)
{
    uint32_t *words = reinterpret_cast<uint32_t *>(samples);
    const uint32_t first = (to + 3) / 4, last = (to + nbytes) / 4;
    const uint8_t *pattern = samples + (to - period);
    const uint32_t step = 128 - (128 * inverse >> 16) * period;
    lane_u32 k = lane_id(), v = lane_u32(0), phase[4];
    lane_bool has = lane_u32(to) + k < lane_u32(4 * first);
    k = k - (k * lane_u32(inverse) >> lane_u32(16)) * lane_u32(period);
    store(samples, lane_u32(to) + lane_id(), load(pattern, k), has);
    PSTI_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        k = lane_u32(4 * first - to + j) + lane_id() * lane_u32(4);
        phase[j] = k - (k * lane_u32(inverse) >> lane_u32(16)) * lane_u32(period);
        v = v | load(pattern, phase[j]) << lane_u32(8 * j);
    }
    for (uint32_t w = first; w < last; w += PSTI_WARP) {
        lane_u32 i = lane_u32(w) + lane_id();
        store(words, i, v, i < lane_u32(last));
        if (step == 0)
            continue;
        v = lane_u32(0);
        PSTI_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            phase[j] = phase[j] + lane_u32(step);
            phase[j] = select(phase[j] >= lane_u32(period), phase[j] - lane_u32(period), phase[j]);
            v = v | load(pattern, phase[j]) << lane_u32(8 * j);
        }
    }
    k = lane_u32((4 * last - to) % period) + lane_id();
    k = k - (k * lane_u32(inverse) >> lane_u32(16)) * lane_u32(period);
    has = lane_u32(4 * last) + lane_id() < lane_u32(to + nbytes);
    store(samples, lane_u32(4 * last) + lane_id(), load(pattern, k), has);
}

/* Copies n pixels to `at` from the place `offset` pixels before. Source and destination may
 * overlap. */
template <uint32_t P>
PSTI_LANES void lz_copy(uint8_t *samples, uint32_t at, uint32_t offset, uint32_t n,
                        lane_u32 inverses)
{
    const uint32_t to = at * P, distance = offset * P, nbytes = n * P;
    if (n <= PSTI_WARP) {
        lane_u32 i = lane_id();
        if (offset < n)
            i = i - (i * lane_u32(lane_of(inverses, offset)) >> lane_u32(16)) * lane_u32(offset);
        lane_bool has = lane_id() < lane_u32(n);
        lz_pixel v = lz_load<P>(samples, lane_u32(at - offset) + i, has);
        lz_store<P>(samples, lane_u32(at) + lane_id(), v, has);
    } else if (distance >= 512) {
        lz_copy_wide<4>(samples, to, to - distance, nbytes);
    } else if (distance >= 128) {
        lz_copy_wide<1>(samples, to, to - distance, nbytes);
    } else if (distance < PSTI_WARP) {
        lz_repeat(samples, to, distance, nbytes, lane_of(inverses, distance));
    } else {
        for (uint32_t first = 0; first < nbytes; first += PSTI_WARP) {
            lane_u32 byte = lane_u32(to + first) + lane_id();
            lane_bool has = byte < lane_u32(to + nbytes);
            store(samples, byte, load(samples, byte - lane_u32(distance), has), has);
            warp_sync();
        }
    }
    warp_sync();
}

/* Copies n literals, starting with pixel `from`, to pixel `at`, which must not be after `from`. */
template <uint32_t P>
PSTI_LANES void lz_put_literals(uint8_t *samples, uint32_t at, uint32_t from, uint32_t n)
{
    if (at == from)
        return;
    if (n > PSTI_WARP) {
        lz_copy_wide<2>(samples, at * P, from * P, n * P);
    } else {
        lane_bool has = lane_id() < lane_u32(n);
        lz_pixel v = lz_load<P>(samples, lane_u32(from) + lane_id(), has);
        warp_sync();
        lz_store<P>(samples, lane_u32(at) + lane_id(), v, has);
    }
    warp_sync();
}

/* Returns the index of the n-th edge after pixel `from` (format-pli.md 6.4). An edge is a pixel
 * that differs from the one before it. Returns 0 if there is no such edge before `end`. */
template <uint32_t P>
PSTI_LANES uint32_t lz_find_edge(const uint8_t *samples, uint32_t from, uint32_t end, uint32_t n)
{
    for (uint32_t i = from + 1; i < end; i += PSTI_WARP) {
        lane_u32 pixel = lane_u32(i) + lane_id();
        lane_bool has = pixel < lane_u32(end);
        lz_pixel a = lz_load<P>(samples, pixel - lane_u32(1), has);
        lz_pixel b = lz_load<P>(samples, pixel, has);
        uint32_t edges = votes(has & ((a.low != b.low) | (a.high != b.high)));
        uint32_t found = popc(edges);
        if (found >= n) {
            for (; n > 1; n--)
                edges &= edges - 1;
            return i + ctz(edges);
        }
        n -= found;
    }
    return 0;
}

/* Execution
 * ------------------------------------------------------------------------------------- */

/* The decoded numbers of 32 sequences, one sequence per lane. */
struct lz_numbers {
    lane_u32 run;    /* number of literals | (1 + number of the recent offset, or 0 if there is
                      * none) << 24 */
    lane_u32 offset; /* the offset, unless it is a recent one */
    lane_u32 length; /* length in pixels, or EDGE + the code of an edge */
};
static const uint32_t LZ_EDGE = 1u << 24, LZ_EDGE_N = 12;

/* Returns the offsets of tokens 3..21 (6.4), one in each lane, starting at lane 0. */
PSTI_LANES lane_u32 lz_near_offsets(uint32_t width)
{
    /* The format's list of near offsets (format-pli.md 6.4): 4 bits of dx + 4 and 2 bits of dy for
     * each token. */
    lane_u32 k = lane_id(), shift = (k & lane_u32(7)) * lane_u32(4);
    lane_u32 dx = select(k < lane_u32(8), lane_u32(0x25340123),
                         select(k < lane_u32(16), lane_u32(0x53480716), lane_u32(0x462)));
    dx = (dx >> shift & lane_u32(15)) - lane_u32(4);
    lane_u32 dy = select(k < lane_u32(16), lane_u32(0xa9555500), lane_u32(0x3a));
    dy = dy >> ((k & lane_u32(15)) * lane_u32(2)) & lane_u32(3);
    return dy * lane_u32(width) - dx;
}

/* Returns how many raw bits follow the token of a count, and the base number that they are added to
 * (format-pli.md 6.4). */
PSTI_LANES lane_u32 lz_count_bits(lane_u32 token)
{
    return select(token < lane_u32(16), lane_u32(0),
                  (token - lane_u32(16)) / lane_u32(2) + lane_u32(3));
}
PSTI_LANES lane_u32 lz_count_base(lane_u32 token, lane_u32 bits)
{
    return select(token < lane_u32(16), token, ((token & lane_u32(1)) | lane_u32(2)) << bits);
}

/* Reads the numbers of n sequences, starting with number `first`. Their raw bits begin at bit
 * number `bit`. */
PSTI_LANES lz_numbers lz_take_numbers(const lz_unit &u, uint32_t first, uint32_t n, uint32_t &bit,
                                      lane_u32 near_offsets)
{
    lz_numbers out;
    lane_u32 token = load(u.tokens, lane_u32(first) + lane_id(), lane_id() < lane_u32(n));
    lane_u32 run = token & lane_u32(255), offset = token >> lane_u32(8) & lane_u32(255);
    lane_u32 length = token >> lane_u32(16);
    lane_bool is_edge = length >= lane_u32(LZ_N_RUNS), is_far = offset >= lane_u32(23);
    lane_u32 k = offset - lane_u32(23);
    lane_u32 run_bits = lz_count_bits(run);
    lane_u32 offset_bits = select(is_far, k / lane_u32(2), lane_u32(0));
    lane_u32 length_bits = select(is_edge, lane_u32(0), lz_count_bits(length));
    lane_u32 all = run_bits + offset_bits + length_bits;
    lane_u32 end = scan_add(all), at = lane_u32(bit) + end - all;
    bit += lane_of(end, PSTI_WARP - 1);
    /* A lane needs at most 48 bits. Bits after the raw bits may have any value: a unit that reads
     * them is corrupt. */
    lane_u32 limit = lane_u32((8 * u.text) / 32);
    lane_u32 word = at >> lane_u32(5);
    word = select(word < limit, word, limit);
    lane_u32 w0 = load(u.words, word), w1 = load(u.words, word + lane_u32(1));
    lane_u32 w2 = load(u.words, word + lane_u32(2)), shift = at & lane_u32(31);
    lane_u32 low = funnel_right(w0, w1, shift), high = funnel_right(w1, w2, shift);
    lane_u32 run_raw = low & ((lane_u32(1) << run_bits) - lane_u32(1));
    low = funnel_right(low, high, run_bits);
    high = high >> run_bits;
    lane_u32 offset_raw = low & ((lane_u32(1) << offset_bits) - lane_u32(1));
    low = funnel_right(low, high, offset_bits);
    lane_u32 length_raw = low & ((lane_u32(1) << length_bits) - lane_u32(1));
    out.run = lz_count_base(run, run_bits) + run_raw;
    out.run = out.run | select(offset < lane_u32(3), offset + lane_u32(1), lane_u32(0))
                            << lane_u32(24);
    out.offset = select(
        is_far, (((k & lane_u32(1)) | lane_u32(2)) << offset_bits) + offset_raw,
        select(offset == lane_u32(22), lane_u32(1), shuffle(near_offsets, offset - lane_u32(3))));
    out.length = select(is_edge, length + lane_u32(LZ_EDGE - LZ_N_RUNS),
                        lz_count_base(length, length_bits) + length_raw + lane_u32(1));
    return out;
}

/* The progress of the output. */
struct lz_output {
    uint32_t at;       /* number of pixels written so far */
    uint32_t literals; /* index of the first literal that is not used yet */
    uint32_t recent[3];
};

/* Runs one sequence: copies its literals, then its match. Returns false if it is corrupt. */
template <uint32_t P>
PSTI_LANES bool lz_execute_one(const lz_unit &u, lz_output &o, uint32_t run, uint32_t offset,
                               uint32_t length, lane_u32 inverses)
{
    const uint32_t n_literals = run & 0xffffff, which = run >> 24;
    if (n_literals > 0) {
        if (n_literals > u.n_pixels - o.literals)
            return false;
        lz_put_literals<P>(u.samples, o.at, o.literals, n_literals);
        o.at += n_literals;
        o.literals += n_literals;
    }
    const uint32_t r0 = o.recent[0], r1 = o.recent[1];
    offset = which == 0 ? offset : which == 1 ? r0 : which == 2 ? r1 : o.recent[2];
    o.recent[2] = offset == r0 || offset == r1 ? o.recent[2] : r1;
    o.recent[1] = offset == r0 ? r1 : r0;
    o.recent[0] = offset;
    if (offset - 1 >= o.at)
        return false;
    if (length >= LZ_EDGE) {
        const uint32_t code = length - LZ_EDGE, d = code / LZ_EDGE_N, from = o.at - offset;
        const uint32_t edge = lz_find_edge<P>(u.samples, from, o.at, code % LZ_EDGE_N + 1);
        if (edge <= from + d)
            return false;
        length = edge - d - from;
    }
    if (length > o.literals - o.at)
        return false;
    lz_copy<P>(u.samples, o.at, offset, length, inverses);
    o.at += length;
    return true;
}

template <uint32_t P> PSTI_LANES bool lz_execute(const lz_unit &u)
{
    lz_output o = {0, u.n_pixels - u.n_literals, {1, u.width, 2 * u.width}};
    const lane_u32 near_offsets = lz_near_offsets(u.width);
    /* The inverses of periods 1..31; entry 0 is not used. */
    const lane_u32 divisor = select(lane_id() == lane_u32(0), lane_u32(1), lane_id());
    const lane_u32 inverses = lane_u32(65536) / divisor + lane_u32(1);
    uint32_t bit = 8 * u.raw;
    for (uint32_t first = 0; first < u.n_sequences; first += PSTI_WARP) {
        uint32_t n = u.n_sequences - first < PSTI_WARP ? u.n_sequences - first : PSTI_WARP;
        lz_numbers numbers = lz_take_numbers(u, first, n, bit, near_offsets);
        if (bit > 8 * u.text)
            return false;
        for (uint32_t i = 0; i < n; i++)
            if (!lz_execute_one<P>(u, o, lane_of(numbers.run, i), lane_of(numbers.offset, i),
                                   lane_of(numbers.length, i), inverses))
                return false;
    }
    return o.at == o.literals && (bit + 7) / 8 == u.text;
}

/* Decodes a unit of mode lz. `memory` is this warp's shared memory, which begins with the tables.
 * Returns false if the unit is corrupt. */
PSTI_LANES bool lz_decode(shared<uint8_t> memory, const struct psti_gpu_image &image,
                          const struct psti_gpu_unit &unit, uint64_t constants)
{
    lz_unit u;
    const unit_span rows = unit_along(unit.unit_y, image.unit_log2, image.height);
    u.width = unit_along(unit.unit_x, image.unit_log2, image.width).n;
    u.words = reinterpret_cast<const uint32_t *>(image.bytes + unit.offset);
    u.nbytes = unit.nbytes;
    u.n_pixels = rows.n * u.width;
    u.bits = image.bits;
    u.channels = image.channels;
    u.pixel_nbytes = u.channels * (u.bits / 8);
    u.samples =
        reinterpret_cast<uint8_t *>(image.scratch + (uint64_t)unit.scratch * PSTI_GPU_SCRATCH_STEP);
    u.tokens = reinterpret_cast<uint32_t *>(u.samples + (u.n_pixels * u.pixel_nbytes + 3) / 4 * 4);
    u.memory = shared_cast<uint32_t>(memory, 0);
    u.colours = memory + PSTI_GPU_LZ_TABLES_NBYTES;
    if (!lz_read_head(u, unit.n_rows) || !lz_decode_sequences(u, constants) ||
        !lz_decode_literals(u) || !lz_ends_well(u))
        return false;
    warp_sync();
    switch (u.pixel_nbytes) {
    case 1:
        return lz_execute<1>(u);
    case 2:
        return lz_execute<2>(u);
    case 3:
        return lz_execute<3>(u);
    case 4:
        return lz_execute<4>(u);
    case 6:
        return lz_execute<6>(u);
    default:
        return lz_execute<8>(u);
    }
}

} // namespace psti

#endif
