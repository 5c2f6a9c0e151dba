/* pli_packed.c - units of mode packed (docs/format-pli.md, section 4): groups of 8 residuals share
 * a bit width, and predictors need only the row above and running sums.
 *
 * It decodes a unit's bytes, which are hostile, to planes in the caller's scratch. The
 * functions are pure; any thread may call them. The parser here checks everything that the kernels
 * rely on: predictors and taps are known ones, widths are 0..bits, and the sum of the widths is the
 * number of bytes of data, so that no group lies outside. The plain C kernels are the reference
 * implementation of the other kernels. */
#include "pli/decode/pli_kernels.h"

#include "base/fail.h"

#define ROOM "decode"

static enum pst_status corrupt(struct pst_error *err, size_t offset, const char *cause)
{
    psti_fail(err, PST_ERROR_CORRUPT, ROOM, "packed unit: %s", cause);
    if (err)
        err->offset = (int64_t)offset;
    return PST_ERROR_CORRUPT;
}

/* Parsing
 * ------------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *bytes;
    size_t nbytes, at;
    bool is_short;
};

/* Takes the next `n` bytes (1 or 2) as a number. If fewer bytes are left, it returns 0 and sets
 * is_short. */
static uint32_t take(struct reader *in, size_t n)
{
    if (in->nbytes - in->at < n) {
        in->is_short = true;
        return 0;
    }
    uint32_t v = n == 1 ? in->bytes[in->at] : psti_load_u16(in->bytes + in->at);
    in->at += n;
    return v;
}

/* Parses the predictors of a plane, one for each 16 rows. Returns false if rows that the unit has
 * have an unknown predictor, or if rows that it does not have have a predictor. */
static bool parse_predictors(uint32_t numbers, uint32_t height, struct psti_packed_plane *plane)
{
    for (uint32_t k = 0; k < 4; k++, numbers >>= 4) {
        uint32_t number = numbers & 15;
        bool exists = 16 * k < height;
        if (exists ? number < PSTI_PACKED_LEFT || number > PSTI_PACKED_SMOOTH_GRADIENT
                   : number != 0)
            return false;
        plane->predictor[k] = (uint8_t)number;
    }
    return true;
}

static enum pst_status parse_plane(const struct psti_pli_unit *unit, uint32_t p, struct reader *in,
                                   struct psti_packed_plane *plane, struct pst_error *err)
{
    size_t offset = in->at;
    uint32_t numbers = take(in, 2);
    *plane = (struct psti_packed_plane){.is_constant = numbers == 0};
    if (!plane->is_constant && !parse_predictors(numbers, unit->height, plane))
        return corrupt(err, offset, "no such predictor");
    plane->start = (uint16_t)take(in, unit->bits / 8u);
    if (!plane->is_constant) {
        for (uint32_t k = 0; k < psti_pli_packed_n_taps(unit->transform, p); k++) {
            plane->tap[k] = (int8_t)take(in, 1);
            if (plane->tap[k] < -PSTI_PACKED_MAX_TAP || plane->tap[k] > PSTI_PACKED_MAX_TAP)
                return corrupt(err, offset, "tap out of range");
        }
        plane->first_width = (uint8_t)take(in, 1);
        if (plane->first_width > unit->bits)
            return corrupt(err, offset, "first width out of range");
    }
    return in->is_short ? corrupt(err, in->nbytes, "ends within the plane records") : PST_OK;
}

static enum pst_status parse(const struct psti_pli_unit *unit, struct psti_packed *out,
                             struct pst_error *err)
{
    struct reader in = {.bytes = unit->bytes, .nbytes = unit->nbytes};
    *out = (struct psti_packed){.unit = unit,
                                .height = unit->height,
                                .row_groups = (unit->width + 7) / 8,
                                .n_planes = unit->channels,
                                .bits = unit->bits};
    for (uint32_t p = 0; p < unit->channels; p++) {
        enum pst_status status = parse_plane(unit, p, &in, &out->planes[p], err);
        if (status != PST_OK)
            return status;
        out->n_coded += !out->planes[p].is_constant;
    }
    out->strings = unit->bytes + in.at;
    out->strings_nbytes = unit->nbytes - in.at;
    return PST_OK;
}

/* Plain C
 * ------------------------------------------------------------------------------------- */

static uint32_t bit_at(const uint8_t *bytes, uint32_t i) { return bytes[i >> 3] >> (i & 7) & 1; }

/* Returns d_i (4.3) of a group that has a 1 in M1, from the group's sign and size. `at` has the
 * position in each run. */
static int width_step(const struct psti_packed *unit, const uint8_t *strings, uint32_t *at)
{
    bool is_negative = bit_at(strings, at[1]++);
    int size = 1;
    /* The last run is all zeros. It is not read, because the bytes may have changed since they were
     * checked. */
    for (uint32_t r = 2; r + 1 < unit->runs.n && bit_at(strings, at[r]++); r++)
        size++;
    return is_negative ? -size : size;
}

static enum psti_packed_verdict widths_c(struct psti_packed *unit, struct psti_packed_work *work,
                                         uint64_t *sum)
{
    uint32_t at[PSTI_PACKED_MAX_RUNS + 1];
    const uint8_t *strings = psti_pli_packed_open_runs(unit, work);
    if (!strings)
        return PSTI_PACKED_NO_END;
    memcpy(at, unit->runs.begin, sizeof at);
    *sum = 0;
    for (uint32_t p = 0; p < unit->n_planes; p++) {
        if (unit->planes[p].is_constant)
            continue;
        int above[PSTI_PACKED_ROW_GROUPS];
        for (uint32_t g = 0; g < PSTI_PACKED_ROW_GROUPS; g++)
            above[g] = unit->planes[p].first_width;
        for (uint32_t row = 64 * p; row < 64 * p + unit->height; row++) {
            work->offsets[row] = *sum;
            for (uint32_t g = 0; g < unit->row_groups; g++) {
                if (bit_at(strings, at[0]++))
                    above[g] += width_step(unit, strings, at);
                if (above[g] < 0 || above[g] > unit->bits)
                    return PSTI_PACKED_TOO_WIDE;
                work->widths[row][g] = (uint8_t)above[g];
                *sum += (uint32_t)above[g];
            }
        }
    }
    return PSTI_PACKED_FINE;
}

/* Unpacks the 8 residuals of a group, which is `width` bytes at byte `at`. Each half of the group
 * has four residuals, which fit 64 bits. */
static void unpack_group(const struct psti_packed *unit, uint32_t at, uint32_t width, int16_t *out)
{
    uint32_t sign = width ? 1u << (width - 1) : 0, mask = (sign << 1) - (width ? 1 : 0);
    for (uint32_t half = 0; half < 2; half++) {
        uint64_t v =
            psti_pli_packed_bits_at(unit->data, unit->data_nbytes, 8 * at + 4 * half * width);
        for (uint32_t k = 0; k < 4; k++, v >>= width)
            *out++ = (int16_t)((int)(((uint32_t)v & mask) ^ sign) - (int)sign);
    }
}

static void unpack_plane(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work)
{
    int16_t *out = (int16_t *)(void *)work->residuals[p];
    for (uint32_t y = 0; y < unit->height; y++, out += PSTI_PACKED_EDGE) {
        uint32_t row = 64 * p + y, at = (uint32_t)work->offsets[row];
        for (uint32_t g = 0; g < unit->row_groups; g++) {
            unpack_group(unit, at, work->widths[row][g], out + (size_t)8 * g);
            at += work->widths[row][g];
        }
    }
}

/* A row of samples of 8 or 16 bits, while it is made. Loops over the row have fixed counts and no
 * conditions, so compilers vectorise all of them except the running sum. In a narrow unit the
 * columns without groups are computed from arbitrary values and never read. */
struct row {
    /* The row above, with its first and last sample repeated beyond its ends. */
    uint16_t up[1 + PSTI_PACKED_EDGE + 1];
    uint16_t base[PSTI_PACKED_EDGE], add[PSTI_PACKED_EDGE];
};

/* Sets `add` to the plane's residuals plus the terms that its taps add. */
static void find_additions(const struct psti_packed_plane *plane,
                           const struct psti_packed_work *work, uint32_t p, uint32_t y,
                           uint16_t *restrict add)
{
    const int16_t *own = (const int16_t *)(const void *)work->residuals[p] + (size_t)64 * y;
    const int16_t *r0 = (const int16_t *)(const void *)work->residuals[0] + (size_t)64 * y;
    const int16_t *r1 = (const int16_t *)(const void *)work->residuals[1] + (size_t)64 * y;
    int a = plane->tap[0], b = plane->tap[1];
    memcpy(add, own, PSTI_PACKED_EDGE * sizeof *add);
    if (a != 0 || b != 0)
        for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
            add[x] = (uint16_t)(add[x] + ((a * r0[x] + b * r1[x] + 16) >> 5));
}

/* Sets `base` to the part of the prediction that comes from the row above (4.5, third column of the
 * table). */
static void predict_base(enum psti_packed_predictor predictor, const uint16_t *up,
                         uint16_t *restrict base)
{
    if (predictor == PSTI_PACKED_LEFT)
        for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
            base[x] = up[0];
    else if (predictor == PSTI_PACKED_UP || predictor == PSTI_PACKED_GRADIENT)
        memcpy(base, up, PSTI_PACKED_EDGE * sizeof *base);
    else
        for (int x = 0; x < PSTI_PACKED_EDGE; x++)
            base[x] = (uint16_t)((((up[x - 1] + up[x + 1]) >> 1) + up[x] + 1) >> 1);
}

static void run_sums(uint16_t *add)
{
    uint16_t sum = 0;
    for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
        add[x] = sum = (uint16_t)(sum + add[x]);
}

/* Makes the samples of the row from `base` and `add`. The row has n valid samples. */
static void finish_row(struct row *row, uint32_t n, uint8_t bits, uint8_t *restrict out)
{
    uint16_t mask = bits == 8 ? UINT8_MAX : UINT16_MAX, *up = row->up + 1;
    for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
        up[x] = (row->base[x] + row->add[x]) & mask;
    if (bits == 8)
        for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
            out[x] = (uint8_t)up[x];
    else
        for (uint32_t x = 0; x < PSTI_PACKED_EDGE; x++)
            psti_store_u16(out + (size_t)2 * x, up[x]);
    up[-1] = up[0];
    up[n] = up[n - 1];
}

static void rebuild_c(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work)
{
    const struct psti_packed_plane *plane = &unit->planes[p];
    uint32_t n = 8 * unit->row_groups;
    struct row row;
    unpack_plane(unit, p, work);
    for (uint32_t x = 0; x < PSTI_PACKED_EDGE + 2; x++)
        row.up[x] = plane->start; /* the row above row 0 consists of the start sample */
    for (uint32_t y = 0; y < unit->height; y++) {
        enum psti_packed_predictor predictor = y ? plane->predictor[y >> 4] : PSTI_PACKED_LEFT;
        find_additions(plane, work, p, y, row.add);
        predict_base(predictor, row.up + 1, row.base);
        if (predictor != PSTI_PACKED_UP && predictor != PSTI_PACKED_SMOOTH)
            run_sums(row.add);
        finish_row(&row, n, unit->bits, work->planes[p] + (size_t)y * 64 * (unit->bits / 8u));
    }
}

const struct psti_packed_kernels psti_packed_kernels_c = {.widths = widths_c, .rebuild = rebuild_c};

/* A whole unit
 * ------------------------------------------------------------------------------------- */

static void fill_constant(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work)
{
    size_t n = (size_t)unit->height * PSTI_PACKED_EDGE;
    memset(work->residuals[p], 0, sizeof work->residuals[p]);
    if (unit->bits == 8)
        memset(work->planes[p], unit->planes[p].start, n);
    for (size_t i = 0; i < n && unit->bits == 16; i++)
        psti_store_u16(work->planes[p] + 2 * i, unit->planes[p].start);
}

enum pst_status psti_pli_packed_decode_with(const struct psti_packed_kernels *kernels,
                                            const struct psti_pli_unit *unit, void *work_memory,
                                            const struct psti_pli_part *part,
                                            struct psti_pli_planes *planes, struct pst_error *err)
{
    struct psti_packed_work *work = work_memory;
    struct psti_packed packed;
    uint64_t sum = 0;
    enum pst_status status = parse(unit, &packed, err);
    if (status != PST_OK)
        return status;
    size_t offset = (size_t)(packed.strings - unit->bytes);
    enum psti_packed_verdict verdict = kernels->widths(&packed, work, &sum);
    if (verdict != PSTI_PACKED_FINE)
        return corrupt(err, offset,
                       verdict == PSTI_PACKED_NO_END ? "the widths do not end"
                                                     : "a width is out of range");
    if (sum != packed.data_nbytes)
        return corrupt(err, offset, "the widths are not those of the data");
    for (uint32_t p = 0; p < packed.n_planes; p++) {
        if (packed.planes[p].is_constant)
            fill_constant(&packed, p, work);
        else
            kernels->rebuild(&packed, p, work);
    }
    if (part && kernels->finish_rgb && packed.n_coded == 3 && psti_pli_is_green_rgb(unit, part)) {
        kernels->finish_rgb(&packed, work, part);
        *planes = (struct psti_pli_planes){.base = NULL};
        return PST_OK;
    }
    if (kernels->finish)
        kernels->finish(&packed, work);
    *planes = (struct psti_pli_planes){.base = work->planes[0],
                                       .plane_step = sizeof work->planes[0],
                                       .band_step = (size_t)32 * 64 * (unit->bits / 8u),
                                       .row_step = (size_t)64 * (unit->bits / 8u)};
    return PST_OK;
}

enum pst_status psti_pli_packed_decode(const struct psti_pli_unit *unit, void *work,
                                       const struct psti_pli_part *part,
                                       struct psti_pli_planes *planes, struct pst_error *err)
{
    const struct psti_pli_kernels *k = unit->kernels;
    return psti_pli_packed_decode_with(unit->bits == 8 ? k->packed_u8 : k->packed_u16, unit, work,
                                       part, planes, err);
}
