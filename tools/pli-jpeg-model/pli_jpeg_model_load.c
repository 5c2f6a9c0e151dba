/* pli_jpeg_model_load.c - JPEG files -> blocks of tokens, as section 8 of the format defines
 * them for units of 128 pixels. The program ends if libjpeg cannot read a file. */
#include "pli_jpeg_model.h"

#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { UNIT_BLOCKS = 16, SQUARE_BLOCKS = 8, DC_MAX = 4096, AC_MAX = 2048 };

/* Zigzag number -> 8 * row + column. */
static const uint8_t zigzag[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                   12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                   35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                   58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
const uint8_t end_lowest[N_CLASSES] = {0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 36, 44, 52};
static const uint8_t end_bits[N_CLASSES] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4};

int end_class(int end)
{
    int t = N_CLASSES - 1;
    while (end_lowest[t] > end)
        t--;
    return t;
}

static int zigzag_number(int row, int column)
{
    int k = 0;
    while (row >= 0 && column >= 0 && zigzag[k] != 8 * row + column)
        k++;
    return row < 0 || column < 0 ? 0 : k;
}

void features_of(int k, uint8_t positions[N_FEATURES])
{
    int row = zigzag[k] / 8, column = zigzag[k] % 8;
    positions[0] = (uint8_t)(k > 1 ? k - 1 : 0);
    positions[1] = (uint8_t)(k > 2 ? k - 2 : 0);
    positions[2] = (uint8_t)zigzag_number(row, column - 1);
    positions[3] = (uint8_t)zigzag_number(row - 1, column);
    positions[4] = (uint8_t)zigzag_number(row, column - 2);
    positions[5] = (uint8_t)zigzag_number(row - 2, column);
}

/* Returns the token of a magnitude of DC, and its number of raw bits. Magnitudes from 3 on are
 * grouped by powers of two. */
static int dc_token(int m, int *raw_bits)
{
    int t = m < 3 ? m : 33 - __builtin_clz((unsigned)m - 1);
    *raw_bits = (m > 0) + (t < 3 ? 0 : t - 2); /* with the sign */
    return t;
}

static int ac_token(int m, int *raw_bits)
{
    int t = dc_token(m, raw_bits);
    if (t < N_AC_TOKENS - 1)
        return t;
    *raw_bits += t == 12 ? 5 : t - 6; /* the class in unary */
    return N_AC_TOKENS - 1;
}

/* The component's blocks, row by row. */
struct grid {
    int columns, rows;
    int square_columns, square_rows;
    struct block *blocks;
    int16_t *dc;
};

/* Returns the index of the block at distance (dy, dx) from (y, x) if both are in one square,
 * else -1. */
static long neighbour(const struct grid *grid, int y, int x, int dy, int dx)
{
    int to_y = y + dy, to_x = x + dx;
    if (to_y < 0 || to_x < 0 || to_y >= grid->rows || to_x >= grid->columns ||
        to_y / grid->square_rows != y / grid->square_rows ||
        to_x / grid->square_columns != x / grid->square_columns)
        return -1;
    return (long)to_y * grid->columns + to_x;
}

static int end_context(const struct grid *grid, int y, int x)
{
    long left = neighbour(grid, y, x, 0, -1), right = neighbour(grid, y, x, 0, 1);
    long up = neighbour(grid, y, x, -1, 0), down = neighbour(grid, y, x, 1, 0);
    if ((y % grid->square_rows + x % grid->square_columns) % 2 == 0)
        return N_CLASSES - 1;
    left = left < 0 ? right : left;
    right = right < 0 ? left : right;
    up = up < 0 ? down : up;
    down = down < 0 ? up : down;
    if (left < 0) {
        left = up;
        right = down;
    } else if (up < 0) {
        up = left;
        down = right;
    }
    int sum = end_class(grid->blocks[left].end) + end_class(grid->blocks[right].end) +
              end_class(grid->blocks[up].end) + end_class(grid->blocks[down].end);
    int context = (sum + 2) >> 2;
    return context < N_CLASSES - 2 ? context : N_CLASSES - 2;
}

static int dc_difference(const struct grid *grid, int y, int x)
{
    long from = neighbour(grid, y, x, 0, -1);
    if (from < 0)
        from = neighbour(grid, y, x, -1, 0);
    return grid->dc[(size_t)y * (size_t)grid->columns + (size_t)x] -
           (from < 0 ? 0 : grid->dc[from]);
}

/* Sets the parts of a block that need no other block. False if a magnitude is out of range. */
static bool read_block(const JCOEF *from, struct block *block, int16_t *dc, double *raw_bits)
{
    int n_bits = 0;
    memset(block, 0, sizeof *block);
    *dc = from[0];
    for (int k = 1; k < 64; k++) {
        int m = abs(from[zigzag[k]]);
        if (m > AC_MAX)
            return false;
        block->tokens[k] = (uint8_t)ac_token(m, &n_bits);
        *raw_bits += n_bits;
        if (m > 0)
            block->end = (uint8_t)k;
    }
    *raw_bits += end_bits[end_class(block->end)];
    return true;
}

/* Sets the parts of blocks that need their neighbours, which are all known now. */
static bool read_neighbours(const struct grid *grid, int side, double *raw_bits)
{
    for (int y = 0; y < grid->rows; y++)
        for (int x = 0; x < grid->columns; x++) {
            struct block *block = &grid->blocks[(size_t)y * (size_t)grid->columns + (size_t)x];
            int n_bits = 0, d = abs(dc_difference(grid, y, x));
            if (d > DC_MAX)
                return false;
            block->dc_token = (uint8_t)dc_token(d, &n_bits);
            block->end_context = (uint8_t)end_context(grid, y, x);
            block->side = (uint8_t)side;
            *raw_bits += n_bits;
        }
    return true;
}

static bool reserve(struct corpus *corpus, size_t n)
{
    if (corpus->n_blocks + n <= corpus->n_blocks_max)
        return true;
    size_t most = 2 * corpus->n_blocks_max + n;
    struct block *blocks = realloc(corpus->blocks, most * sizeof *blocks);
    if (blocks == NULL)
        return false;
    corpus->blocks = blocks;
    corpus->n_blocks_max = most;
    return true;
}

static int round_up(int n, int step) { return (n + step - 1) / step * step; }

/* Appends component c's blocks to the corpus. False if there is no memory or a magnitude is out
 * of range. */
static bool add_component(struct corpus *corpus, struct jpeg_decompress_struct *jpeg,
                          jvirt_barray_ptr coefs, int c, double *raw_bits)
{
    const jpeg_component_info *info = &jpeg->comp_info[c];
    bool one = jpeg->num_components == 1, good = false;
    int h = one ? 1 : info->h_samp_factor, v = one ? 1 : info->v_samp_factor;
    int unit_columns = UNIT_BLOCKS * h / (one ? 1 : jpeg->max_h_samp_factor);
    int unit_rows = UNIT_BLOCKS * v / (one ? 1 : jpeg->max_v_samp_factor);
    struct grid grid = {.columns = round_up((int)info->width_in_blocks, h),
                        .rows = round_up((int)info->height_in_blocks, v),
                        .square_columns =
                            unit_columns < SQUARE_BLOCKS ? unit_columns : SQUARE_BLOCKS,
                        .square_rows = unit_rows < SQUARE_BLOCKS ? unit_rows : SQUARE_BLOCKS};
    size_t n = (size_t)grid.columns * (size_t)grid.rows;
    grid.dc = malloc(n * sizeof *grid.dc);
    if (grid.dc == NULL || !reserve(corpus, n))
        goto out;
    grid.blocks = &corpus->blocks[corpus->n_blocks];
    for (int y = 0; y < grid.rows; y++) {
        JBLOCKARRAY row =
            jpeg->mem->access_virt_barray((j_common_ptr)jpeg, coefs, (JDIMENSION)y, 1, FALSE);
        for (int x = 0; x < grid.columns; x++) {
            size_t i = (size_t)y * (size_t)grid.columns + (size_t)x;
            if (!read_block(row[0][x], &grid.blocks[i], &grid.dc[i], raw_bits))
                goto out;
        }
    }
    good = read_neighbours(&grid, jpeg->jpeg_color_space == JCS_YCbCr && c > 0, raw_bits);
    corpus->n_blocks += n;
out:
    free(grid.dc);
    return good;
}

/* True if content 2 holds the sampling factors: 1, 2 and 4 that divide the largest. */
static bool suits(const struct jpeg_decompress_struct *jpeg)
{
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        return false;
    for (int c = 0; c < jpeg->num_components && jpeg->num_components > 1; c++) {
        int h = jpeg->comp_info[c].h_samp_factor, v = jpeg->comp_info[c].v_samp_factor;
        if (h == 3 || v == 3 || jpeg->max_h_samp_factor % h || jpeg->max_v_samp_factor % v)
            return false;
    }
    return true;
}

static bool load_file(struct corpus *corpus, const char *path, struct image *image)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        return false;
    image->nbytes = (double)ftell(file);
    image->first = corpus->n_blocks;
    rewind(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_stdio_src(&jpeg, file);
    jpeg_read_header(&jpeg, TRUE);
    bool good = suits(&jpeg);
    if (good) {
        jvirt_barray_ptr *coefs = jpeg_read_coefficients(&jpeg);
        for (int c = 0; good && c < jpeg.num_components; c++)
            good = add_component(corpus, &jpeg, coefs[c], c, &image->raw_bits);
    }
    image->n = corpus->n_blocks - image->first;
    jpeg_destroy_decompress(&jpeg);
    fclose(file);
    return good;
}

bool corpus_load(struct corpus *corpus, const char *list, int leave)
{
    char line[4096];
    FILE *file = fopen(list, "r");
    const char **groups = realloc(corpus->groups, (corpus->n_groups + 1) * sizeof *corpus->groups);
    if (file == NULL || groups == NULL) {
        fprintf(stderr, "pli-jpeg-model: %s: cannot be read\n", list);
        return false;
    }
    corpus->groups = groups;
    for (int i = 0; fgets(line, sizeof line, file) != NULL; i++) {
        struct image *images =
            realloc(corpus->images, (corpus->n_images + 1) * sizeof *corpus->images);
        if (images == NULL)
            return false;
        corpus->images = images;
        line[strcspn(line, "\n")] = 0;
        struct image image = {.group = (uint32_t)corpus->n_groups,
                              .trains = leave < 0 || i % 2 != leave};
        if (load_file(corpus, line, &image)) {
            image.name = strdup(line);
            corpus->images[corpus->n_images++] = image;
        } else {
            fprintf(stderr, "pli-jpeg-model: %s: left aside\n", line);
            corpus->n_blocks = image.first;
        }
    }
    corpus->groups[corpus->n_groups++] = list;
    fclose(file);
    return true;
}
