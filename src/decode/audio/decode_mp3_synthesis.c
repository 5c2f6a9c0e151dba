/* decode_mp3_synthesis.c - MPEG audio layer III: computes the samples of a granule from its
 * quantised values.
 *
 * In: scale factors and quantised values. Out: 576 floats of each channel. The steps are those of
 * ISO 11172-3: powers and gains, stereo, alias reduction, the inverse MDCT with overlap, and the
 * polyphase filter bank. A granule leaves the second half of its MDCT output and 15 rows of the
 * filter bank for the next granule. After two granules nothing earlier has an effect. So a decoder
 * that starts two granules early gives the same bits as one that starts at the beginning of the
 * file. All sums are added in a fixed order, and loops suit vectors: they run over rows of 32
 * bands, or of the 18 time slots of a granule. A synthesis belongs to one thread. */
#include "decode/audio/decode_mp3.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum {
    BANDS = 32,
    TIMES = 18,
    ROW = 20,  /* the 18 time slots of a granule, rounded up to whole vectors */
    PAST = 16, /* earlier time slots that are kept; the filter bank needs 15 */
    SMALL_POWERS = 256,
    PLACES = 32, /* pan positions of intensity stereo */
    NO_PLACE = 7
};

/* The state that the synthesis keeps for one channel between granules. */
struct channel {
    float overlap[TIMES][BANDS];
    float bank[BANDS]
              [PAST + ROW]; /* cosine transforms of PAST earlier times, then of this granule */
};

struct psti_mp3_synthesis {
    struct channel channels[2];
    float powers[SMALL_POWERS]; /* v^(4/3), indexed by v */
    float roots[4];             /* 2^(i/4), indexed by i */
    /* factors, indexed by [MS stereo][0: MPEG 1; 1, 2: MPEG 2 by size of step][position][left,
     * right] */
    float pan[2][3][PLACES][2];
    float alias[8][2];            /* cosine and sine of each of the 8 butterflies */
    float long_cos[TIMES][TIMES]; /* 18 of the 36 rows; the others follow by symmetry */
    float short_cos[6][6];
    float windows[4][36]; /* by block type; the short window has 12 values */
    float halves[BANDS];  /* 1 / (2 cos), for the transform's steps of size 16, 8, 4, 2 and 1 */
    /* for each output sample of a time slot: the window's factors for earlier slots */
    float taps[BANDS][16];
    uint8_t tap_rows[BANDS][2];     /* rows of cosines for even and for odd earlier slots */
    float lines[2][PSTI_MP3_LINES]; /* frequency lines of each channel */
    float by_band[TIMES][BANDS];    /* lines of each band; after the MDCT its time slots */
    float rows[2][BANDS][ROW];      /* scratch memory of the cosine transform */
};

/* Returns v^(4/3). Newton's method gives the same bits with every C library; cbrt would not. */
static double power_4_3(uint32_t v)
{
    double x = v, root = v < 64 ? 2 : v < 1024 ? 8 : 16;
    for (int i = 0; v && i < 8; i++)
        root = (2 * root + x / (root * root)) / 3;
    return v ? x * root : 0;
}

/* Returns cos(pi m / 72). */
static double cos72(int m)
{
    m %= 144;
    m = m > 72 ? 144 - m : m;
    return m > 36 ? -psti_mp3_cos72[72 - m] : psti_mp3_cos72[m];
}

static void fill_transforms(struct psti_mp3_synthesis *self)
{
    for (int i = 0; i < TIMES; i++)
        for (int k = 0; k < TIMES; k++) /* i stands for the rows 0 to 8 and 18 to 26 */
            self->long_cos[i][k] = (float)cos72((2 * (i < 9 ? i : i + 9) + 19) * (2 * k + 1));
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) /* i stands for the rows 0 to 2 and 6 to 8 */
            self->short_cos[i][k] = (float)cos72(3 * (2 * (i < 3 ? i : i + 3) + 7) * (2 * k + 1));
    for (int i = 0; i < 36; i++) {
        float whole = (float)cos72(35 - 2 * i < 0 ? 2 * i - 35 : 35 - 2 * i);
        self->windows[0][i] = self->windows[1][i] = self->windows[3][i] = whole;
    }
    for (int i = 0; i < 12; i++)
        self->windows[2][i] = (float)cos72(33 - 6 * i < 0 ? 6 * i - 33 : 33 - 6 * i);
    for (int i = 0; i < TIMES; i++) {
        float half = i < 6 ? 1 : i < 12 ? self->windows[2][i] : 0;
        self->windows[1][18 + i] = half;
        self->windows[3][17 - i] = half;
    }
    for (int n = 16, at = 0; n; at += n, n /= 2)
        for (int k = 0; k < n; k++)
            self->halves[at + k] = (float)(0.5 / psti_mp3_cos64[(2 * k + 1) * 16 / n]);
}

/* Fills the factors of the synthesis window. The filter bank's cosines are symmetric, so 32 rows of
 * them are enough. */
static void fill_taps(struct psti_mp3_synthesis *self)
{
    for (int j = 0; j < BANDS; j++) {
        double sign[2] = {j < 16 ? 1 : j == 16 ? 0 : -1, -1};
        self->tap_rows[j][0] = (uint8_t)(j < 16 ? 16 + j : j == 16 ? 0 : 48 - j);
        self->tap_rows[j][1] = (uint8_t)(j <= 16 ? 16 - j : j - 16);
        for (int i = 0; i < 16; i++) {
            int at = 32 * i + j;
            double d = psti_mp3_window[at <= 256 ? at : 512 - at] * 0x1p-16;
            self->taps[j][i] = (float)((at / 64 % 2 ? -d : d) * sign[i % 2]);
        }
    }
}

static void fill_stereo(struct psti_mp3_synthesis *self)
{
    static const double tangents[6] = {0, 0.2679491924311227, 0.5773502691896257,
                                       1, 1.7320508075688772, 3.7320508075688776};
    for (int ms = 0; ms < 2; ms++) {
        float(*pan)[PLACES][2] = self->pan[ms];
        double scale = ms ? 1.4142135623730951 : 1;
        pan[0][6][0] = (float)scale; /* position 6: only the left channel sounds */
        for (int place = 0; place < 6; place++) {
            pan[0][place][0] = (float)(scale * tangents[place] / (1 + tangents[place]));
            pan[0][place][1] = (float)(scale / (1 + tangents[place]));
        }
        for (int place = 0; place < PLACES; place++)
            for (int wide = 0; wide < 2; wide++) { /* MPEG 2: steps of 2^(-1/4) or of 2^(-1/2) */
                int quarters = (place + 1) / 2 * (1 + wide);
                double less =
                    scale * ldexp((double)self->roots[-quarters & 3], -(quarters + 3) / 4);
                pan[1 + wide][place][0] = (float)(place % 2 ? less : scale);
                pan[1 + wide][place][1] = (float)(place % 2 ? scale : less);
            }
    }
}

struct psti_mp3_synthesis *psti_decode_mp3_synthesis_open(void)
{
    static const double roots[4] = {1, 1.189207115002721, 1.4142135623730951, 1.681792830507429};
    static const double aliases[8] = {-0.6,   -0.535, -0.33,   -0.185,
                                      -0.095, -0.041, -0.0142, -0.0037};
    struct psti_mp3_synthesis *self = psti_calloc(1, sizeof *self);
    if (!self)
        return NULL;
    for (uint32_t i = 0; i < SMALL_POWERS; i++)
        self->powers[i] = (float)power_4_3(i);
    for (int i = 0; i < 4; i++)
        self->roots[i] = (float)roots[i];
    for (int i = 0; i < 8; i++) {
        double root = sqrt(1 + aliases[i] * aliases[i]);
        self->alias[i][0] = (float)(1 / root);
        self->alias[i][1] = (float)(aliases[i] / root);
    }
    fill_stereo(self);
    fill_transforms(self);
    fill_taps(self);
    return self;
}

void psti_decode_mp3_synthesis_free(struct psti_mp3_synthesis *synthesis) { psti_free(synthesis); }

void psti_decode_mp3_synthesis_restart(struct psti_mp3_synthesis *synthesis)
{
    memset(synthesis->channels, 0, sizeof synthesis->channels);
}

static float gain_of(const struct psti_mp3_synthesis *self, int quarters)
{
    return ldexpf(self->roots[quarters & 3], quarters >> 2);
}

/* Multiplies n values by a gain and writes them to every `step`-th line. */
static void scale_run(const struct psti_mp3_synthesis *self, const int16_t *values, uint32_t n,
                      int quarters, float *lines, uint32_t step)
{
    float gain = gain_of(self, quarters);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = (uint32_t)(values[i] < 0 ? -values[i] : values[i]);
        float power = v < SMALL_POWERS ? self->powers[v] : (float)power_4_3(v);
        lines[i * step] = (values[i] < 0 ? -power : power) * gain;
    }
}

/* Returns how many scale factor bands of a mixed block are long. */
static uint32_t n_mixed(const struct psti_mp3_header *header) { return header->lsf ? 6 : 8; }

static void to_lines(const struct psti_mp3_synthesis *self, const struct psti_mp3_header *header,
                     const struct psti_mp3_part *part, float *lines)
{
    static const uint8_t pretab[22] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                       1, 1, 1, 1, 2, 2, 3, 3, 3, 2, 0};
    const uint16_t *longs = psti_mp3_long_bands[header->i_rate];
    const uint16_t *shorts = psti_mp3_short_bands[header->i_rate];
    const uint8_t *scale = part->scale;
    int base = (int)part->gain - 210 - (header->ms ? 2 : 0), shift = part->coarse ? 2 : 1;
    uint32_t n_long = part->block != 2 ? 22 : part->mixed ? n_mixed(header) : 0;
    memset(lines, 0, PSTI_MP3_LINES * sizeof *lines);
    for (uint32_t i = 0; i < n_long && longs[i] < part->n_values; i++) {
        int steps = scale[i] + (part->preflag && part->block != 2 ? pretab[i] : 0);
        scale_run(self, part->values + longs[i], (uint32_t)(longs[i + 1] - longs[i]),
                  base - (steps << shift), lines + longs[i], 1);
    }
    if (part->block != 2)
        return;
    scale += n_long;
    for (uint32_t i = n_long ? 3 : 0; i < 13; i++) {
        uint32_t n = (uint32_t)(shorts[i + 1] - shorts[i]);
        for (uint32_t w = 0; w < 3; w++, scale++) {
            uint32_t at = 3u * shorts[i] + w * n;
            int steps = i < 12 ? *scale : 0;
            if (at < part->n_values)
                scale_run(self, part->values + at, n,
                          base - 8 * part->subgain[w] - (steps << shift),
                          lines + 3u * shorts[i] + w, 3);
        }
    }
}

/* Spreads n lines of the left channel over both channels, by the two factors of a pan position. */
static void pan_run(float *lines[2], const float pan[2], uint32_t at, uint32_t n, uint32_t step)
{
    for (; n; n--, at += step) {
        float v = lines[0][at];
        lines[0][at] = v * pan[0];
        lines[1][at] = v * pan[1];
    }
}

static bool any(const int16_t *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (values[i])
            return true;
    return false;
}

/* Returns whether a band has a pan position in intensity stereo. Position 7 means that the band has
 * two separate channels. As in mpg123, positions above 7 count for MPEG 2 only. */
static bool is_place(uint32_t place, bool lsf) { return place != NO_PLACE && (lsf || place < 7); }

/* Returns the first band that may have a pan position. As in mpg123, the lowest band is never
 * panned if the right channel has no bits at all. */
static uint32_t first_place(const struct psti_mp3_part *right) { return right->nbits == 0; }

/* Applies intensity stereo to the long bands above the last nonzero value of the right channel. */
static void pan_long(const struct psti_mp3_part *right, const struct psti_mp3_header *header,
                     uint32_t n, float (*pan)[2], float *lines[2])
{
    const uint16_t *bands = psti_mp3_long_bands[header->i_rate];
    uint32_t first = n, least = first_place(right);
    while (first > least &&
           !any(right->values + bands[first - 1], (uint32_t)(bands[first] - bands[first - 1])))
        first--;
    for (uint32_t i = first; i < n; i++) {
        uint32_t place = right->scale[i < 21 ? i : 20];
        if (is_place(place, header->lsf))
            pan_run(lines, pan[place], bands[i], (uint32_t)(bands[i + 1] - bands[i]), 1);
    }
}

static void pan_short(const struct psti_mp3_part *right, const struct psti_mp3_header *header,
                      float (*pan)[2], float *lines[2])
{
    const uint16_t *bands = psti_mp3_short_bands[header->i_rate];
    uint32_t from = right->mixed ? 3 : 0, least = right->mixed ? 3 : first_place(right);
    uint32_t n_long = right->mixed ? n_mixed(header) : 0;
    bool silent = true; /* true while all values in all windows are zero */
    for (uint32_t w = 0; w < 3; w++) {
        uint32_t first = 13;
        for (; first > least; first--) {
            uint32_t n = (uint32_t)(bands[first] - bands[first - 1]);
            if (any(right->values + 3u * bands[first - 1] + w * n, n))
                break;
        }
        silent = silent && first == least;
        /* As in mpg123, the last band has a pan position even if the right channel has values
         * there. */
        for (uint32_t i = first < 12 ? first : 12; i < 13; i++) {
            uint32_t place = right->scale[n_long + ((i < 12 ? i : 11) - from) * 3 + w];
            if (is_place(place, header->lsf))
                pan_run(lines, pan[place], 3u * bands[i] + w, (uint32_t)(bands[i + 1] - bands[i]),
                        3);
        }
    }
    if (right->mixed && silent)
        pan_long(right, header, n_long, pan, lines);
}

static void stereo(struct psti_mp3_synthesis *self, const struct psti_mp3_header *header,
                   const struct psti_mp3_part parts[2])
{
    float *lines[2] = {self->lines[0], self->lines[1]};
    if (header->ms)
        for (uint32_t i = 0; i < PSTI_MP3_LINES; i++) {
            float middle = lines[0][i], side = lines[1][i];
            lines[0][i] = middle + side;
            lines[1][i] = middle - side;
        }
    if (!header->intensity)
        return;
    const struct psti_mp3_part *right = &parts[1];
    float(*pan)[2] = self->pan[header->ms][!header->lsf ? 0 : 1 + (right->compress & 1)];
    if (right->block == 2)
        pan_short(right, header, pan, lines);
    else
        pan_long(right, header, 22, pan, lines);
}

/* Copies frequency lines into rows of bands. Applies the alias butterflies between neighbouring
 * bands up to band `end`. */
static void alias(struct psti_mp3_synthesis *self, const float *lines, int end)
{
    for (int k = 0; k < TIMES; k++)
        for (int band = 0; band < BANDS; band++)
            self->by_band[k][band] = lines[TIMES * band + k];
    for (int i = 0; i < 8; i++) {
        float *below = self->by_band[17 - i], *above = self->by_band[i] + 1;
        float c = self->alias[i][0], s = self->alias[i][1];
        for (int band = 0; band + 1 < end; band++) {
            float up = below[band], down = above[band];
            below[band] = up * c - down * s;
            above[band] = down * c + up * s;
        }
    }
}

/* Computes sum[band] as the sum over k of factors[k] * in[k * step][band]. */
static void sum_rows(float in[][BANDS], int n, int step, const float *factors, float sum[BANDS])
{
    memset(sum, 0, BANDS * sizeof *sum);
    for (int k = 0; k < n; k++) {
        const float *row = in[k * step];
        float factor = factors[k];
        for (int band = 0; band < BANDS; band++)
            sum[band] += factor * row[band];
    }
}

static void transform_long(const struct psti_mp3_synthesis *self, float in[TIMES][BANDS],
                           uint32_t window, float out[36][BANDS])
{
    const float *w = self->windows[window];
    float sum[BANDS];
    for (int i = 0; i < TIMES; i++) {
        int at = i < 9 ? i : i + 9, twin = i < 9 ? 17 - at : 53 - at;
        float sign = i < 9 ? -1 : 1;
        sum_rows(in, TIMES, 1, self->long_cos[i], sum);
        for (int band = 0; band < BANDS; band++) {
            out[at][band] = w[at] * sum[band];
            out[twin][band] = sign * w[twin] * sum[band];
        }
    }
}

static void transform_short(const struct psti_mp3_synthesis *self, float in[TIMES][BANDS],
                            float out[36][BANDS])
{
    const float *w = self->windows[2];
    float sum[BANDS];
    memset(out, 0, 36 * sizeof *out);
    for (int short_window = 0; short_window < 3; short_window++)
        for (int i = 0; i < 6; i++) {
            int at = i < 3 ? i : i + 3, twin = i < 3 ? 5 - at : 17 - at;
            float sign = i < 3 ? -1 : 1, *one = out[6 + 6 * short_window + at];
            float *other = out[6 + 6 * short_window + twin];
            sum_rows(in + short_window, 6, 3, self->short_cos[i], sum);
            for (int band = 0; band < BANDS; band++) {
                one[band] += w[at] * sum[band];
                other[band] += sign * w[twin] * sum[band];
            }
        }
}

/* Computes by_band[time][band] of this granule from its frequency lines, and adds the second half
 * of the previous granule (overlap-add). */
static void transform(struct psti_mp3_synthesis *self, struct channel *channel,
                      const struct psti_mp3_part *part)
{
    float out[36][BANDS], mixed[36][BANDS];
    if (part->block == 2)
        transform_short(self, self->by_band, out);
    else
        transform_long(self, self->by_band, part->block, out);
    if (part->mixed) { /* the two lowest bands use the long window */
        transform_long(self, self->by_band, 0, mixed);
        for (int i = 0; i < 36; i++)
            memcpy(out[i], mixed[i], 2 * sizeof *mixed[i]);
    }
    for (int time = 0; time < TIMES; time++) {
        for (int band = 0; band < BANDS; band++)
            self->by_band[time][band] = out[time][band] + channel->overlap[time][band];
        memcpy(channel->overlap[time], out[TIMES + time], sizeof out[0]);
        for (int band = 1; band < BANDS && time % 2; band += 2)
            self->by_band[time][band] = -self->by_band[time][band];
    }
}

/* Computes the cosine transform of the n rows in x by halving it recursively. y is scratch for n
 * rows. */
static void cosines(float (*x)[ROW], float (*y)[ROW], int n, const float *halves)
{
    int half = n / 2;
    if (n == 1)
        return;
    for (int k = 0; k < half; k++)
        for (int t = 0; t < ROW; t++) {
            float a = x[k][t], b = x[n - 1 - k][t];
            y[k][t] = a + b;
            y[half + k][t] = (a - b) * halves[k];
        }
    cosines(y, x, half, halves + half);
    cosines(y + half, x, half, halves + half);
    memset(x[n - 1], 0, sizeof x[0]);
    for (int k = 0; k < half; k++) {
        memcpy(x[2 * k], y[k], sizeof x[0]);
        memcpy(x[2 * k + 1], y[half + k], sizeof x[0]);
        for (int t = 0; k + 1 < half && t < ROW; t++)
            x[2 * k + 1][t] += y[half + k + 1][t];
    }
}

/* Turns by_band into samples and writes them to every `step`-th element of out. */
static void filter_bank(struct psti_mp3_synthesis *self, struct channel *channel, float *out,
                        uint32_t step)
{
    float(*rows)[ROW] = self->rows[0];
    for (int band = 0; band < BANDS; band++)
        for (int time = 0; time < TIMES; time++)
            rows[band][time] = self->by_band[time][band];
    cosines(rows, self->rows[1], BANDS, self->halves);
    for (int band = 0; band < BANDS; band++)
        memcpy(channel->bank[band] + PAST, rows[band], sizeof rows[band]);
    for (int j = 0; j < BANDS; j++) {
        float sum[ROW] = {0};
        for (int i = 0; i < 16; i++) {
            const float *row = channel->bank[self->tap_rows[j][i % 2]] + PAST - i;
            float tap = self->taps[j][i];
            for (int t = 0; t < ROW; t++)
                sum[t] += tap * row[t];
        }
        for (int t = 0; t < TIMES; t++)
            out[(uint32_t)(t * BANDS + j) * step] = sum[t];
    }
    for (int band = 0; band < BANDS; band++)
        memmove(channel->bank[band], channel->bank[band] + TIMES, PAST * sizeof(float));
}

void psti_decode_mp3_synthesis_run(struct psti_mp3_synthesis *synthesis,
                                   const struct psti_mp3_header *header,
                                   const struct psti_mp3_part parts[2], float *out)
{
    for (uint32_t c = 0; c < header->channels; c++)
        to_lines(synthesis, header, &parts[c], synthesis->lines[c]);
    if (header->channels == 2)
        stereo(synthesis, header, parts);
    for (uint32_t c = 0; c < header->channels; c++) {
        int end = parts[c].block != 2 ? BANDS : parts[c].mixed ? 2 : 0;
        alias(synthesis, synthesis->lines[c], end);
        transform(synthesis, &synthesis->channels[c], &parts[c]);
        filter_bank(synthesis, &synthesis->channels[c], out + c, header->channels);
    }
}
