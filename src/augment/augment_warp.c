/* augment_warp.c - warps: affine maps, perspective and elastic displacement, from picture to
 * picture of the same size.
 *
 * In: run->picture, and a struct psti_warp. Out: run->picture in the other image buffer. It runs on
 * the thread of the run. For each output pixel, a position in the source is computed. Positions are
 * integers with 32 bits of fraction, computed from doubles, so they are the same on every machine.
 * Definitions are torchvision's: the centre of pixel i is i + 0.5, and nearest takes the pixel
 * whose centre is nearest. In bilinear interpolation pixels outside count as 0, and the result is
 * blended with the fill by the share of weight outside. */
#include "augment/augment_edge.h"
#include "augment/augment_int.h"

#include "base/philox.h"

#include <assert.h>
#include <math.h>

#define ONE ((int64_t)1 << 32)
#define HALF (ONE / 2)
/* Coordinates further outside are clamped to this value, which is far from any pixel. */
#define FAR 0x1p29

void psti_augment_warp_affine(struct psti_warp *warp, const struct psti_affine *f)
{
    double sine, cosine, sine_y, cosine_y, turned_sine, turned_cosine;
    psti_augment_sincos(f->degrees, &sine, &cosine);
    psti_augment_sincos(f->degrees_y, &sine_y, &cosine_y);
    psti_augment_sincos(f->degrees - f->degrees_y, &turned_sine, &turned_cosine);
    /* The matrix of rotation and shears has determinant 1, so its inverse is (d, -b; -c, a). */
    double a = turned_cosine / cosine_y, b = -(a * f->tan_x + sine);
    double c = turned_sine / cosine_y, d = cosine - c * f->tan_x;
    double x = f->center_x + f->x, y = f->center_y + f->y;
    double *m = warp->m;
    m[0] = d / f->scale;
    m[1] = -b / f->scale;
    m[3] = -c / f->scale;
    m[4] = a / f->scale;
    m[2] = f->center_x - m[0] * x - m[1] * y;
    m[5] = f->center_y - m[3] * x - m[4] * y;
    m[6] = m[7] = 0;
    warp->is_elastic = false;
}

/* Solves the n linear equations a x = b by Gaussian elimination with pivoting. Row i holds its
 * coefficients in a[i][0..7] and b in a[i][8]. Returns false if there is no unique solution. */
static bool solve(double a[8][9])
{
    for (int k = 0; k < 8; k++) {
        int best = k;
        for (int i = k + 1; i < 8; i++)
            best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        if (!(fabs(a[best][k]) > 1e-9))
            return false;
        for (int j = 0; j < 9; j++) {
            double swapped = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = swapped;
        }
        for (int i = 0; i < 8; i++) {
            double factor = a[i][k] / a[k][k];
            for (int j = k; i != k && j < 9; j++)
                a[i][j] -= factor * a[k][j];
        }
    }
    for (int k = 0; k < 8; k++)
        a[k][8] /= a[k][k];
    return true;
}

/* Computes the perspective that maps each of the four points `from` to the point `to`. */
static bool perspective_of(const double from[4][2], const double to[4][2], double m[8])
{
    double a[8][9] = {{0}};
    for (int i = 0; i < 4; i++) {
        double x = from[i][0], y = from[i][1];
        for (int k = 0; k < 2; k++) {
            double *row = a[2 * i + k], v = to[i][k];
            row[3 * k] = x;
            row[3 * k + 1] = y;
            row[3 * k + 2] = 1;
            row[6] = -v * x;
            row[7] = -v * y;
            row[8] = v;
        }
    }
    if (!solve(a))
        return false;
    for (int k = 0; k < 8; k++)
        m[k] = a[k][8];
    return true;
}

/* words[k] holds the position of corner k (top left, top right, bottom right, bottom left) as x | y
 * << 32. As in torchvision, corners are given as pixel numbers, while the map is applied to the
 * centres of pixels. */
static bool perspective_warp(const uint64_t words[4], uint32_t height, uint32_t width,
                             struct psti_warp *warp)
{
    double right = width - 1.0, bottom = height - 1.0;
    double start[4][2] = {{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}, end[4][2];
    double half_x = width * 0.5, half_y = height * 0.5;
    bool changes = false;
    for (int k = 0; k < 4; k++) {
        end[k][0] = psti_augment_draw_low(words[k]);
        end[k][1] = psti_augment_draw_high(words[k]);
        for (int i = 0; i < 2; i++) {
            changes = changes || end[k][i] != start[k][i];
            start[k][i] -= i == 0 ? half_x : half_y;
            end[k][i] -= i == 0 ? half_x : half_y;
        }
    }
    return changes && perspective_of(end, start, warp->m);
}

/* The values that an affine operation has stored in its words of the draw. */
struct affine_words {
    float degrees, scale, shear_x, shear_y;
    int32_t x, y;
    uint64_t ignored;
};
static_assert(sizeof(struct affine_words) == 4 * sizeof(uint64_t), "the words of one operation");

static bool affine_warp(const struct pst_op *op, const uint64_t words[4], uint32_t height,
                        uint32_t width, struct psti_warp *warp)
{
    struct affine_words drawn;
    memcpy(&drawn, words, sizeof drawn);
    double sine, cosine;
    psti_augment_sincos(drawn.shear_x, &sine, &cosine);
    const struct psti_affine affine = {
        .degrees = drawn.degrees,
        .x = drawn.x,
        .y = drawn.y,
        .scale = drawn.scale,
        .tan_x = sine / cosine,
        .degrees_y = drawn.shear_y,
        .center_x = op->has_center ? op->center[0] - width * 0.5 : 0,
        .center_y = op->has_center ? op->center[1] - height * 0.5 : 0,
    };
    psti_augment_warp_affine(warp, &affine);
    return drawn.degrees != 0 || drawn.scale != 1 || drawn.shear_x != 0 || drawn.shear_y != 0 ||
           drawn.x != 0 || drawn.y != 0;
}

bool psti_augment_warp_of(const struct pst_op *op, const uint64_t words[4], uint32_t height,
                          uint32_t width, struct psti_warp *warp)
{
    static const double nothing[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    memset(warp, 0, sizeof *warp);
    warp->interpolation = op->interpolation;
    if (op->kind == PST_OP_AFFINE)
        return affine_warp(op, words, height, width, warp);
    if (op->kind == PST_OP_PERSPECTIVE)
        return words[3] != 0 && perspective_warp(words, height, width, warp);
    memcpy(warp->m, nothing, sizeof nothing);
    warp->is_elastic = op->kind == PST_OP_ELASTIC;
    return warp->is_elastic && (op->alpha[0] != 0 || op->alpha[1] != 0);
}

static float between(const float range[2], uint32_t random)
{
    return (float)(range[0] + ((double)range[1] - range[0]) * psti_uniform01(random));
}

/* Returns a random shift by a whole number of pixels in -most..most, where most is `share` of the
 * side; a half is rounded to even. */
static int32_t shift_of(float share, uint32_t side, uint32_t random)
{
    double most = (double)share * side;
    return (int32_t)rint(-most + 2 * most * psti_uniform01(random));
}

static void affine_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                        uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t r[4], s[4];
    psti_augment_numbers(stream, 0, r);
    psti_augment_numbers(stream, 1, s);
    const struct affine_words drawn = {
        .degrees = between(op->degrees, r[0]),
        .x = shift_of(op->translate[0], width, r[1]),
        .y = shift_of(op->translate[1], height, r[2]),
        .scale = between(op->scale, r[3]),
        .shear_x = between(&op->shear[0], s[0]),
        .shear_y = between(&op->shear[2], s[1]),
    };
    memcpy(words, &drawn, sizeof drawn);
}

/* Draws the corners. Each moves inwards by less than `distortion` of half a side. If the last word
 * is 0, nothing is done. The bottom corner can be (0, 0) only in a picture of one row, and nothing
 * is done with that either. */
static void perspective_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                             uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t coin[4], x[4], y[4];
    psti_augment_numbers(stream, 0, coin);
    psti_augment_numbers(stream, 1, x);
    psti_augment_numbers(stream, 2, y);
    memset(words, 0, 4 * sizeof words[0]);
    if (!(psti_uniform01(coin[0]) < op->p))
        return;
    uint32_t n_x = (uint32_t)((double)op->distortion * (width / 2)) + 1;
    uint32_t n_y = (uint32_t)((double)op->distortion * (height / 2)) + 1;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t to_x = psti_uniform_below(x[k], n_x), to_y = psti_uniform_below(y[k], n_y);
        bool is_right = k == 1 || k == 2, is_bottom = k >= 2;
        words[k] = psti_augment_draw_pair(is_right ? width - n_x + to_x : to_x,
                                          is_bottom ? height - n_y + to_y : to_y);
    }
}

void psti_augment_warp_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                            uint32_t height, uint32_t width, uint64_t words[4])
{
    if (op->kind == PST_OP_AFFINE)
        affine_draw(op, stream, height, width, words);
    else if (op->kind == PST_OP_PERSPECTIVE)
        perspective_draw(op, stream, height, width, words);
}

/* Computes the inverse of a warp's map. The map takes an output point to the source; the inverse
 * takes a source point to the output. The inverse of a map (A b; g 1) has the same form, up to a
 * factor. */
void psti_augment_warp_inverse(const struct psti_warp *warp, double inverse[9])
{
    const double *m = warp->m;
    inverse[0] = m[4] - m[5] * m[7];
    inverse[1] = m[2] * m[7] - m[1];
    inverse[2] = m[1] * m[5] - m[2] * m[4];
    inverse[3] = m[5] * m[6] - m[3];
    inverse[4] = m[0] - m[2] * m[6];
    inverse[5] = m[2] * m[3] - m[0] * m[5];
    inverse[6] = m[3] * m[7] - m[4] * m[6];
    inverse[7] = m[1] * m[6] - m[0] * m[7];
    inverse[8] = m[0] * m[4] - m[1] * m[3];
}

void psti_augment_warp_point(const struct psti_warp *warp, uint32_t height, uint32_t width,
                             double *x, double *y)
{
    double i[9], px = *x - width * 0.5, py = *y - height * 0.5;
    psti_augment_warp_inverse(warp, i);
    double below = i[6] * px + i[7] * py + i[8];
    *x = (i[0] * px + i[1] * py + i[2]) / below + width * 0.5;
    *y = (i[3] * px + i[4] * py + i[5]) / below + height * 0.5;
}

/* Positions in the source of the pixels of one output row, as pixel numbers with 32 bits of
 * fraction. */
struct places {
    int64_t *x, *y;
};

static int64_t fixed(double place)
{
    place = place < -FAR ? -FAR : place > FAR ? FAR : place;
    return (int64_t)(place * 0x1p32);
}

static void locate_affine(const struct psti_warp *warp, const struct psti_picture *to, double y,
                          const struct places *places)
{
    const double *m = warp->m;
    double half_x = to->width * 0.5, half_y = to->height * 0.5, x = 0.5 - half_x;
    double at_x = m[0] * x + m[1] * y + m[2] + half_x - 0.5;
    double at_y = m[3] * x + m[4] * y + m[5] + half_y - 0.5;
    double end_x = at_x + m[0] * to->width, end_y = at_y + m[3] * to->width;
    bool near = fabs(at_x) < FAR && fabs(at_y) < FAR && fabs(end_x) < FAR && fabs(end_y) < FAR;
    for (uint32_t i = 0; near && i < to->width; i++) { /* no clamping is needed */
        places->x[i] = (int64_t)((at_x + m[0] * i) * 0x1p32);
        places->y[i] = (int64_t)((at_y + m[3] * i) * 0x1p32);
    }
    for (uint32_t i = 0; !near && i < to->width; i++) {
        places->x[i] = fixed(at_x + m[0] * i);
        places->y[i] = fixed(at_y + m[3] * i);
    }
}

static void locate_perspective(const struct psti_warp *warp, const struct psti_picture *to,
                               double y, const struct places *places)
{
    const double *m = warp->m;
    double half_x = to->width * 0.5, half_y = to->height * 0.5;
    for (uint32_t i = 0; i < to->width; i++) {
        double x = i + 0.5 - half_x, below = m[6] * x + m[7] * y + 1;
        bool behind = !(below > 1e-9);
        places->x[i] = fixed(behind ? FAR : (m[0] * x + m[1] * y + m[2]) / below + half_x - 0.5);
        places->y[i] = fixed(behind ? FAR : (m[3] * x + m[4] * y + m[5]) / below + half_y - 0.5);
    }
}

/* Adds the displacements of an elastic warp to the positions of one row. */
static void add_shifts(const struct psti_run *run, const struct psti_picture *to, uint32_t row,
                       const struct places *places)
{
    const float *shifts = (const float *)(const void *)run->buffers[PSTI_BUFFER_SHIFTS].data;
    size_t n = (size_t)to->width * to->height, first = (size_t)row * to->width;
    for (uint32_t i = 0; i < to->width; i++) {
        places->x[i] += fixed(shifts[first + i]);
        places->y[i] += fixed(shifts[n + first + i]);
    }
}

/* The source picture of a warp, and the fill that is shown outside of it. */
struct view {
    const struct psti_picture *from;
    uint32_t channels, pixel_nbytes;
    bool wide, blends;
    uint16_t fill[4];
    unsigned char fill_pixel[8];
};

static void sample_nearest(const struct view *v, const struct places *places, unsigned char *to,
                           uint32_t width)
{
    size_t size = v->pixel_nbytes;
    for (uint32_t i = 0; i < width; i++, to += size) {
        uint64_t x = (uint64_t)((places->x[i] + HALF) >> 32),
                 y = (uint64_t)((places->y[i] + HALF) >> 32);
        bool inside = x < v->from->width && y < v->from->height;
        const unsigned char *pixel =
            inside ? v->from->data + y * v->from->row_nbytes + x * size : v->fill_pixel;
        if (size == 3) {
            to[0] = pixel[0];
            to[1] = pixel[1];
            to[2] = pixel[2];
        } else {
            memcpy(to, pixel, size);
        }
    }
}

static float sample_at(const struct view *v, const unsigned char *pixel, uint32_t c)
{
    return v->wide ? (float)psti_load_u16(pixel + 2 * (size_t)c) : (float)pixel[c];
}

/* The four pixels around a position, their weights (0 for a pixel outside), and the sum of the
 * weights. */
struct corners {
    const unsigned char *pixels[4];
    float weights[4], inside;
};

static void find_corners(const struct view *v, int64_t x, int64_t y, struct corners *out)
{
    int64_t left = x >> 32, top = y >> 32;
    float part_x = (float)((uint64_t)x >> 8 & 0xffffff) * 0x1p-24f;
    float part_y = (float)((uint64_t)y >> 8 & 0xffffff) * 0x1p-24f;
    const float along_x[2] = {1 - part_x, part_x}, along_y[2] = {1 - part_y, part_y};
    out->inside = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t at_x = (uint64_t)(left + (k & 1)), at_y = (uint64_t)(top + (k >> 1));
        bool inside = at_x < v->from->width && at_y < v->from->height;
        out->pixels[k] = inside
                             ? v->from->data + at_y * v->from->row_nbytes + at_x * v->pixel_nbytes
                             : v->fill_pixel;
        out->weights[k] = inside ? along_x[k & 1] * along_y[k >> 1] : 0;
        out->inside += out->weights[k];
    }
}

/* Interpolates 8-bit RGB at a position whose four pixels all lie inside the picture. Returns false
 * for other positions. */
static bool sample_inner_rgb(const struct view *v, int64_t x, int64_t y, unsigned char *to)
{
    uint64_t left = (uint64_t)(x >> 32), top = (uint64_t)(y >> 32);
    if (left + 1 >= v->from->width || top + 1 >= v->from->height || left >= v->from->width ||
        top >= v->from->height)
        return false;
    float part_x = (float)(uint32_t)((uint64_t)x >> 8 & 0xffffff) * 0x1p-24f;
    float part_y = (float)(uint32_t)((uint64_t)y >> 8 & 0xffffff) * 0x1p-24f;
    const float w[4] = {(1 - part_x) * (1 - part_y), part_x * (1 - part_y), (1 - part_x) * part_y,
                        part_x * part_y};
    const float inside = w[0] + w[1] + w[2] + w[3];
    const unsigned char *above = v->from->data + top * v->from->row_nbytes + left * 3;
    const unsigned char *below = above + v->from->row_nbytes;
    for (int c = 0; c < 3; c++) {
        float value = w[0] * (float)above[c] + w[1] * (float)above[c + 3];
        value = value + w[2] * (float)below[c] + w[3] * (float)below[c + 3];
        if (v->blends)
            value = (value - (float)v->fill[c]) * inside + (float)v->fill[c];
        value = psti_augment_round(value);
        to[c] = (unsigned char)(int)(value < 0 ? 0 : value > 255.0f ? 255.0f : value);
    }
    return true;
}

static void sample_bilinear(const struct view *v, const struct places *places, unsigned char *to,
                            uint32_t width)
{
    bool is_rgb = !v->wide && v->channels == 3;
    for (uint32_t i = 0; i < width; i++, to += v->pixel_nbytes) {
        struct corners at;
        if (is_rgb && sample_inner_rgb(v, places->x[i], places->y[i], to))
            continue;
        find_corners(v, places->x[i], places->y[i], &at);
        for (uint32_t c = 0; c < v->channels; c++) {
            float value = 0;
            for (int k = 0; k < 4; k++)
                value += at.weights[k] * sample_at(v, at.pixels[k], c);
            if (v->blends)
                value = (value - (float)v->fill[c]) * at.inside + (float)v->fill[c];
            value = psti_augment_round(value);
            float most = v->wide ? 65535.0f : 255.0f;
            value = value < 0 ? 0 : value > most ? most : value;
            if (v->wide)
                psti_store_u16(to + 2 * (size_t)c, (uint16_t)value);
            else
                to[c] = (unsigned char)value;
        }
    }
}

static void make_view(const struct psti_run *run, const struct pst_op *op,
                      const struct psti_picture *from, struct view *v)
{
    *v = (struct view){.from = from,
                       .channels = run->chain->output.channels,
                       .pixel_nbytes = run->pixel_nbytes,
                       .wide = run->chain->output.bits == 16,
                       .blends = !op->no_blend};
    if (op->no_blend)
        return;
    psti_augment_fill(run->chain, op, v->fill);
    for (uint32_t c = 0; c < v->channels; c++) {
        if (v->wide)
            psti_store_u16(v->fill_pixel + 2 * (size_t)c, v->fill[c]);
        else
            v->fill_pixel[c] = (unsigned char)v->fill[c];
    }
}

uint32_t psti_augment_elastic_taps(const struct pst_op *op, int axis)
{
    uint32_t taps = (uint32_t)(8 * op->sigma[axis] + 1) | 1;
    return taps > PSTI_BLUR_MAX_TAPS ? PSTI_BLUR_MAX_TAPS : taps;
}

/* Computes the displacements of an elastic warp in pixels, first all of x and then all of y: noise
 * from -1 to 1, blurred, times half of alpha, as in torchvision 0.28. (Older versions divide x by
 * the height and y by the width, so alpha does not mean the same number of pixels on both axes
 * there.) */
static enum pst_status make_shifts(struct psti_run *run, const struct psti_step *step,
                                   struct pst_error *err)
{
    const struct pst_op *op = &run->chain->ops[step->i_op];
    uint32_t height = run->picture.height, width = run->picture.width;
    size_t n = (size_t)height * width;
    enum pst_status status =
        psti_augment_run_reserve(run, PSTI_BUFFER_SHIFTS, 2 * n * sizeof(float), err);
    float *shifts = (float *)(void *)run->buffers[PSTI_BUFFER_SHIFTS].data;
    for (uint32_t axis = 0; status == PST_OK && axis < 2; axis++) {
        float *plane = shifts + axis * n;
        for (size_t i = 0; i < n; i += 4) {
            uint32_t r[4];
            psti_augment_numbers(&step->stream, (uint32_t)(1 + i / 4) | axis << 31, r);
            for (size_t k = 0; k < 4 && i + k < n; k++)
                plane[i + k] = psti_uniform01(r[k]) * 2 - 1;
        }
        uint32_t taps = psti_augment_elastic_taps(op, (int)axis);
        const uint32_t both_taps[2] = {taps, taps};
        const float both_sigma[2] = {op->sigma[axis], op->sigma[axis]};
        if (op->sigma[axis] > 0)
            status = psti_augment_blur_plane(run, plane, height, width, both_taps, both_sigma, err);
        float scale = op->alpha[axis] * 0.5f;
        for (size_t i = 0; i < n; i++)
            plane[i] *= scale;
    }
    return status;
}

enum pst_status psti_augment_warp_run(struct psti_run *run, const struct psti_step *step,
                                      struct pst_error *err)
{
    const struct psti_warp *warp = &step->warp;
    const struct pst_op *op = &run->chain->ops[step->i_op];
    struct psti_picture from = run->picture, to;
    enum pst_status status = psti_augment_picture_make(run, psti_augment_other_buffer(run),
                                                       from.height, from.width, &to, err);
    if (status == PST_OK)
        status = psti_augment_run_reserve(run, PSTI_BUFFER_MAP,
                                          2 * (size_t)from.width * sizeof(int64_t), err);
    if (status == PST_OK && warp->is_elastic)
        status = make_shifts(run, step, err);
    if (status != PST_OK)
        return status;
    struct places places = {.x = (int64_t *)(void *)run->buffers[PSTI_BUFFER_MAP].data};
    places.y = places.x + from.width;
    struct view view;
    make_view(run, op, &from, &view);
    bool is_perspective = warp->m[6] != 0 || warp->m[7] != 0;
    for (uint32_t y = 0; y < to.height; y++) {
        double center = y + 0.5 - to.height * 0.5;
        (is_perspective ? locate_perspective : locate_affine)(warp, &to, center, &places);
        if (warp->is_elastic)
            add_shifts(run, &to, y, &places);
        unsigned char *row = to.data + y * to.row_nbytes;
        if (psti_augment_is_nearest(warp->interpolation))
            sample_nearest(&view, &places, row, to.width);
        else
            sample_bilinear(&view, &places, row, to.width);
    }
    run->picture = to;
    return PST_OK;
}
