/* pli_jpeg_pixels.c - decodes the scan of a sequential JPEG file to rows of pixels of a
 * region, without a PLI in between.
 *
 * The input is the frame, the codes and the data of a scan that has all components; a JPEG library
 * has read them from the file's headers. The output is bands of rows, exactly libjpeg-turbo's. It
 * works row of MCUs by row of MCUs: codes become planes of coefficients, some MCUs at a time, the
 * kernels of PLI's content 2 make samples of these, and rows of pixels of the samples. Blocks
 * outside of the region are skipped, and what follows the region is not read.
 *
 * It decodes regular data only. At anything else it gives up, and the JPEG library, which knows
 * what to do then, decodes the rows that are missing. So it never reports an error of the file. It
 * reads as much of the data as libjpeg-turbo does for the same rows, so that damage in them is
 * found, too. It has no state, works in the caller's scratch, and reads each byte of the file once.
 */
#include "pli/pli.h"

#include "base/machine/cpu.h"
#include "pli/decode/pli_kernels.h"
#include "pli/jpegfile/pli_jpeg_file_kernels.h"

#include <string.h>

enum {
    STAGE_NBYTES = 16 << 10,
    PLANES_NBYTES = 64 * PSTI_JPEG_LANES * (int)sizeof(int16_t),
    GROUP = 32, /* blocks that a kernel loads at once */
    N_RUNS = 2, /* luma and chroma */
};

struct psti_pli_jpeg_codes {
    struct known {
        bool made, skips;
        struct psti_jpeg_huffman huffman;
    } known[2][PSTI_JPEG_N_CODES];
    struct psti_jpeg_decoder_table tables[2][PSTI_JPEG_N_CODES]; /* [0]: DC, [1]: AC */
    struct psti_jpeg_pair_table pairs[PSTI_JPEG_N_CODES];
    struct psti_jpeg_skip_table skips[PSTI_JPEG_N_CODES];
};

/* The data of a restart interval, without stuffing, of which a part lies in the stage. */
struct stage {
    uint8_t *bytes, *end; /* the data in the stage; zeros follow */
    size_t at;            /* offset in the scan's data of the next byte to load */
    bool whole;           /* true if the interval's last byte is in the stage */
};

/* Blocks of some components whose coefficients lie in neighbouring lanes. */
struct lanes {
    struct psti_pli_coefs coefs;
    uint32_t first, from, to; /* the first lane; components from .. to - 1 */
    uint16_t quants[64];      /* the largest value of these components */
};

struct run {
    const struct psti_pli_jpeg_scan *scan;
    const struct psti_jpeg_frame *frame;
    const struct pst_pli_region *region;
    const struct pst_pixels *pixels;
    const struct psti_jpeg_file_kernels *reading;
    psti_pli_jpeg_idct *idct;
    psti_pli_band band;
    void *band_ctx;
    struct psti_jpeg_direct direct;
    struct stage stage;
    uint32_t interval_left; /* MCUs */
    uint8_t n_restarts;
    uint32_t row0, column0, column1; /* MCUs that the region needs */
    uint32_t mcu_columns, n_at_once;
    int16_t *planes;
    uint32_t cleared; /* planes from this one on are zeros */
    uint16_t order[PSTI_JPEG_LANES + GROUP];
    struct lanes runs[N_RUNS];
    uint32_t n_runs;
    struct psti_pli_jpeg_quants quants;
    struct psti_pli_jpeg_blocks blocks;
    struct psti_pli_jpeg_strip strip;
    void *idct_work;
    uint32_t y; /* next row of pixels to make */
};

/* -- Codes -- */

size_t psti_pli_jpeg_codes_nbytes(void) { return sizeof(struct psti_pli_jpeg_codes); }

static bool make_codes(struct psti_pli_jpeg_codes *codes, uint32_t is_ac, uint32_t i,
                       const struct psti_pli_jpeg_code *code, bool skips)
{
    struct known *known = &codes->known[is_ac][i];
    struct psti_jpeg_decoder_table *table = &codes->tables[is_ac][i];
    bool same = known->made &&
                memcmp(known->huffman.counts, code->counts, sizeof code->counts) == 0 &&
                memcmp(known->huffman.symbols, code->symbols, sizeof code->symbols) == 0;
    if (!same) {
        uint32_t n = 0;
        for (uint32_t length = 0; length < 16; length++)
            n += code->counts[length];
        known->made = known->skips = false;
        if (n > 256)
            return false;
        known->huffman = (struct psti_jpeg_huffman){.defined = true, .n = (uint16_t)n};
        memcpy(known->huffman.counts, code->counts, sizeof code->counts);
        memcpy(known->huffman.symbols, code->symbols, sizeof code->symbols);
        if (!psti_pli_jpeg_fill_table(&known->huffman, is_ac == 0, false, table))
            return false;
        if (is_ac)
            psti_pli_jpeg_fill_pair_table(table, &codes->pairs[i]);
        known->made = true;
    }
    if (is_ac && skips && !known->skips) {
        psti_pli_jpeg_fill_skip_table(table, &codes->skips[i]);
        known->skips = true;
    }
    return true;
}

/* Makes the tables of codes that are not those of the image before. */
static bool open_codes(struct run *run, bool skips)
{
    const struct psti_pli_jpeg_scan *scan = run->scan;
    struct psti_pli_jpeg_codes *codes = scan->codes;
    for (uint32_t c = 0; c < run->frame->n_components; c++) {
        uint32_t dc = scan->dc[c], ac = scan->ac[c];
        if (!make_codes(codes, 0, dc, &scan->code[0][dc], false) ||
            !make_codes(codes, 1, ac, &scan->code[1][ac], skips))
            return false;
        run->direct.dc[c] = &codes->tables[0][dc];
        run->direct.ac[c] = &codes->tables[1][ac];
        run->direct.pairs[c] = &codes->pairs[ac];
        run->direct.skip[c] = &codes->skips[ac];
    }
    return true;
}

/* -- Data -- */

/* Moves what is left in the stage to its beginning and loads more data behind it. */
static void load(struct run *run)
{
    struct stage *stage = &run->stage;
    struct psti_jpeg_bits *bits = &run->direct.bits;
    const uint8_t *bytes = run->scan->bytes;
    const size_t nbytes = run->scan->nbytes;
    const size_t left = (size_t)(stage->end - bits->at);
    uint8_t *to = stage->bytes + left, *const full = stage->bytes + STAGE_NBYTES;
    memmove(stage->bytes, bits->at, left);
    while (to < full && !stage->whole) {
        const size_t room = (size_t)(full - to), rest = nbytes - stage->at;
        const size_t wanted = rest < room ? rest : room;
        const uint8_t *found = wanted > 0 ? memchr(bytes + stage->at, 0xFF, wanted) : NULL;
        const size_t n = found ? (size_t)(found - (bytes + stage->at)) : wanted;
        memcpy(to, bytes + stage->at, n);
        to += n;
        stage->at += n;
        if (found && nbytes - stage->at >= 2 && bytes[stage->at + 1] == 0) {
            *to++ = 0xFF;
            stage->at += 2;
        } else {
            stage->whole = found || rest <= room;
        }
    }
    memset(to, 0, PSTI_JPEG_STAGE_PADDING);
    bits->at = stage->bytes;
    stage->end = to;
    bits->limit = to + 8;
    run->direct.low = stage->whole ? to + PSTI_JPEG_STAGE_PADDING : to - PSTI_JPEG_MCU_NBYTES_MAX;
}

/* Returns how many bits of the stage are left. It is negative if more bits were taken than there
 * are. */
static ptrdiff_t bits_left(const struct run *run)
{
    const struct psti_jpeg_bits *bits = &run->direct.bits;
    return 8 * (run->stage.end - bits->at) + (ptrdiff_t)bits->count;
}

static void begin_interval(struct run *run)
{
    run->stage.whole = false;
    run->stage.end = run->stage.bytes;
    run->direct.bits = (struct psti_jpeg_bits){.at = run->stage.bytes};
    memset(run->direct.predictions, 0, sizeof run->direct.predictions);
    run->interval_left = run->scan->restart_interval ? run->scan->restart_interval : UINT32_MAX;
    load(run);
}

/* Goes on to the next restart interval. Returns false if the right marker does not follow the data
 * at once. */
static bool next_interval(struct run *run)
{
    const uint8_t *bytes = run->scan->bytes;
    struct stage *stage = &run->stage;
    if (!stage->whole)
        load(run);
    if (!stage->whole || bits_left(run) < 0 || bits_left(run) > 7 ||
        run->scan->nbytes - stage->at < 2 || bytes[stage->at] != 0xFF ||
        bytes[stage->at + 1] != 0xD0 + run->n_restarts)
        return false;
    stage->at += 2;
    run->n_restarts = (run->n_restarts + 1) & 7;
    begin_interval(run);
    return true;
}

/* Reads or skips n MCUs. */
static bool pass(struct run *run, psti_jpeg_direct_mcus *mcus, uint32_t n)
{
    struct psti_jpeg_direct *direct = &run->direct;
    while (n > 0) {
        if (run->interval_left == 0 && !next_interval(run))
            return false;
        if (direct->bits.at > direct->low)
            load(run);
        uint32_t done = mcus(direct, n < run->interval_left ? n : run->interval_left);
        if (direct->trouble != PSTI_JPEG_FINE || bits_left(run) < 0)
            return false;
        n -= done;
        run->interval_left -= run->scan->restart_interval ? done : 0;
    }
    return true;
}

/* -- Coefficients -- */

/* Lays out the lanes and the places of the samples of n MCUs from `column` on. */
static void lay_out(struct run *run, uint32_t column, uint32_t n)
{
    struct psti_jpeg_direct *direct = &run->direct;
    uint32_t lane = 0, s = 0, j = 0;
    for (uint32_t r = 0; r < run->n_runs; r++) {
        struct lanes *lanes = &run->runs[r];
        lanes->first = lane;
        for (uint32_t c = lanes->from; c < lanes->to; c++) {
            const struct psti_jpeg_component *component = &run->frame->components[c];
            const uint32_t h = component->h, v = component->v;
            for (uint32_t y = 0; y < v; y++)
                for (uint32_t x = 0; x < h; x++, j++) {
                    uint32_t at = lane + y * h + x;
                    direct->lanes[j] = run->planes + at;
                    direct->steps[j] = (uint8_t)(h * v);
                    for (uint32_t i = x; i < n * h; i += h, at += h * v)
                        run->order[at] = (uint16_t)(64 * (s + i / 8) + 8 * y + i % 8);
                }
            const ptrdiff_t first =
                8 * ((ptrdiff_t)column * h - (ptrdiff_t)run->strip.needs[c].column0);
            for (uint32_t i = 0; i < n * h; i += 8, s++) {
                run->blocks.at[s] = run->strip.tops[c] + first + 8 * (ptrdiff_t)i;
                for (uint32_t k = 0; k < run->n_runs; k++)
                    run->runs[k].coefs.squares[s].component = (uint8_t)c;
            }
            lane += n * h * v;
        }
        lanes->coefs.n = lane - lanes->first;
        lanes->coefs.order = run->order + lanes->first;
        lanes->coefs.planes = run->planes + lanes->first;
        lane = (lane + GROUP - 1) / GROUP * GROUP;
    }
    for (uint32_t r = 0; r < run->n_runs; r++)
        run->runs[r].coefs.n_squares = s;
}

static void set_last(struct psti_pli_coefs *coefs, uint32_t last)
{
    coefs->last = last;
    for (uint32_t k = 0; k <= 64; k++)
        coefs->n_k[k] = k <= last ? (uint16_t)coefs->n : 0;
}

/* Decodes n MCUs from `column` on to samples. */
static bool some_mcus(struct run *run, uint32_t column, uint32_t n)
{
    struct psti_jpeg_direct *direct = &run->direct;
    lay_out(run, column, n);
    memset(run->planes, 0, run->cleared * PSTI_JPEG_LANES * sizeof *run->planes);
    memset(direct->last, 0, sizeof direct->last);
    run->cleared = 64;
    if (!pass(run, run->reading->direct_read, n))
        return false;
    run->cleared = 0;
    for (uint32_t r = 0; r < run->n_runs; r++) {
        struct lanes *lanes = &run->runs[r];
        uint32_t last = 0;
        for (uint32_t c = lanes->from; c < lanes->to; c++)
            last = direct->last[c] > last ? direct->last[c] : last;
        run->cleared = last + 1 > run->cleared ? last + 1 : run->cleared;
        if (run->reading->is_beyond(lanes->coefs.planes, lanes->coefs.n, last, lanes->quants,
                                    run->scan->sum_max))
            return false;
        set_last(&lanes->coefs, last);
        run->blocks.coefs = &lanes->coefs;
        run->idct(&run->blocks, run->idct_work);
    }
    return true;
}

/* -- Rows -- */

/* Makes the rows of pixels up to `end`, a band at a time. */
static enum pst_status put_rows(struct run *run, uint32_t end)
{
    const struct pst_pli_region *region = run->region;
    enum pst_status status = PST_OK;
    while (run->y < end && status == PST_OK) {
        uint32_t left = end - run->y, y = run->y - region->y;
        uint32_t n = left < PSTI_PLI_JPEG_BAND_ROWS ? left : PSTI_PLI_JPEG_BAND_ROWS;
        for (uint32_t i = 0; i < n; i++)
            psti_pli_jpeg_strip_row(&run->strip, run->y + i, region->x, region->width,
                                    (uint8_t *)run->pixels->data +
                                        (int64_t)i * run->pixels->row_nbytes);
        run->y += n;
        status = run->band(run->band_ctx, y, n);
    }
    return status;
}

/* Decodes the MCUs of a row that the region needs, and skips the others. */
static bool mcu_row(struct run *run, uint32_t row)
{
    psti_jpeg_direct_mcus *skip = run->reading->direct_skip;
    const uint32_t n = run->column1 - run->column0;
    const uint32_t n_parts = (n + run->n_at_once - 1) / run->n_at_once;
    if (row < run->row0)
        return pass(run, skip, run->mcu_columns);
    psti_pli_jpeg_strip_next(&run->strip, row * run->strip.edge);
    if (!pass(run, skip, run->column0))
        return false;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t from = i * n / n_parts, to = (i + 1) * n / n_parts;
        if (!some_mcus(run, run->column0 + from, to - from))
            return false;
    }
    return pass(run, skip, run->mcu_columns - run->column1);
}

/* Returns whether libjpeg-turbo reads one row of MCUs more than is needed. It does if it
 * interpolates chroma downwards and the region ends between the last two rows of an MCU. */
static bool reads_ahead(const struct run *run, uint32_t row)
{
    const uint32_t bottom = run->region->y + run->region->height, edge = run->strip.edge;
    return run->frame->n_components > 1 && run->strip.needs[1].upright &&
           bottom % edge == edge - 1 && row + 1 < run->frame->components[1].rows;
}

static enum pst_status all_rows(struct run *run)
{
    const uint32_t bottom = run->region->y + run->region->height;
    psti_jpeg_direct_mcus *skip = run->reading->direct_skip;
    enum pst_status status = PST_OK;
    begin_interval(run);
    for (uint32_t row = 0; run->y < bottom && status == PST_OK; row++) {
        if (!mcu_row(run, row))
            return PST_OK;
        if (row < run->row0)
            continue;
        uint32_t end = psti_pli_jpeg_strip_fill(&run->strip);
        if (end >= bottom && reads_ahead(run, row) && !pass(run, skip, run->mcu_columns))
            return PST_OK;
        status = put_rows(run, end < bottom ? end : bottom);
    }
    return status;
}

/* -- The call -- */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Finds the MCUs that have the blocks of the strip's needs. */
static void find_mcus(struct run *run)
{
    const struct psti_jpeg_frame *frame = run->frame;
    run->row0 = run->column0 = UINT32_MAX;
    run->mcu_columns = frame->components[0].columns / frame->components[0].h;
    for (uint32_t c = 0; c < frame->n_components; c++) {
        const struct psti_pli_jpeg_need *need = &run->strip.needs[c];
        const uint32_t h = frame->components[c].h, v = frame->components[c].v;
        run->row0 = least(run->row0, need->row0 / v);
        run->column0 = least(run->column0, need->column0 / h);
        run->column1 = most(run->column1, (need->column1 - 1) / h + 1);
    }
}

/* Sets what is the same for all MCUs. Returns false if an MCU has too many blocks. */
static bool find_runs(struct run *run)
{
    const struct psti_jpeg_frame *frame = run->frame;
    uint32_t n_lanes[N_RUNS] = {0};
    run->n_runs = frame->n_components > 1 ? 2 : 1;
    for (uint32_t c = 0; c < frame->n_components; c++) {
        const struct psti_jpeg_component *component = &frame->components[c];
        const uint32_t n = (uint32_t)component->h * component->v;
        const uint16_t *quants = frame->quants[component->quant];
        struct lanes *lanes = &run->runs[c > 0];
        lanes->from = c > 0 ? 1 : 0;
        lanes->to = c + 1;
        lanes->coefs.stride = PSTI_JPEG_LANES;
        n_lanes[c > 0] += n;
        if (run->direct.n_blocks + n > PSTI_JPEG_MCU_BLOCKS_MAX)
            return false;
        for (uint32_t i = 0; i < n; i++)
            run->direct.component[run->direct.n_blocks++] = (uint8_t)c;
        for (uint32_t k = 0; k < 64; k++)
            lanes->quants[k] = (uint16_t)most(lanes->quants[k], quants[k]);
    }
    run->n_at_once = PSTI_JPEG_LANES / (n_lanes[0] + n_lanes[1]);
    while (psti_round_up((size_t)run->n_at_once * n_lanes[0], GROUP) +
               psti_round_up((size_t)run->n_at_once * n_lanes[1], GROUP) >
           PSTI_JPEG_LANES)
        run->n_at_once--;
    return true;
}

static size_t planes_nbytes(void)
{
    return psti_round_up(PLANES_NBYTES + GROUP * sizeof(int16_t), 64);
}
static size_t stage_nbytes(void) { return STAGE_NBYTES + PSTI_JPEG_STAGE_PADDING; }
static size_t run_nbytes(void) { return psti_round_up(sizeof(struct run), 64); }

static uint32_t edge_of(const struct psti_jpeg_frame *frame) { return 8u * frame->v; }

size_t psti_pli_jpeg_scan_scratch_nbytes(const struct psti_jpeg_frame *frame, uint32_t width)
{
    return run_nbytes() + planes_nbytes() + stage_nbytes() + PSTI_PLI_JPEG_IDCT_NBYTES +
           psti_pli_jpeg_strip_nbytes(frame->n_components, edge_of(frame), width);
}

enum pst_status psti_pli_jpeg_decode_scan(const struct psti_pli_jpeg_scan *scan,
                                          const struct pst_pli_region *region,
                                          const struct pst_pixels *pixels, void *scratch,
                                          psti_pli_band band, void *ctx, uint32_t *n_rows)
{
    const struct psti_pli_kernels *kernels = psti_pli_kernels_of(scan->cpu);
    struct run *run = scratch;
    uint8_t *memory = (uint8_t *)scratch + run_nbytes();
    *n_rows = 0;
    *run = (struct run){.scan = scan,
                        .frame = scan->frame,
                        .region = region,
                        .pixels = pixels,
                        .reading = psti_pli_jpeg_file_kernels_of(scan->cpu),
                        .idct = kernels->jpeg_idct,
                        .band = band,
                        .band_ctx = ctx,
                        .planes = (int16_t *)(void *)memory,
                        .cleared = 64,
                        .y = region->y};
    memset(memory + PLANES_NBYTES, 0, planes_nbytes() - PLANES_NBYTES);
    run->stage.bytes = memory + planes_nbytes();
    run->idct_work = run->stage.bytes + stage_nbytes();
    psti_pli_jpeg_find_quants(run->frame, &run->quants);
    psti_pli_jpeg_strip_begin(&run->strip, run->frame, 8, edge_of(run->frame), region,
                              kernels->jpeg_rows,
                              (uint8_t *)run->idct_work + PSTI_PLI_JPEG_IDCT_NBYTES);
    run->blocks.quants = &run->quants;
    run->blocks.samples = run->strip.samples;
    run->blocks.stride = run->strip.stride;
    run->blocks.edge = 8;
    run->blocks.all = true;
    find_mcus(run);
    bool skips =
        run->row0 > 0 || run->column1 - run->column0 < run->mcu_columns || reads_ahead(run, 0);
    if (!find_runs(run) || !open_codes(run, skips))
        return PST_OK;
    enum pst_status status = all_rows(run);
    *n_rows = run->y - region->y;
    return status;
}
