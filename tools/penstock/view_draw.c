/* view_draw.c - draws on the pixels of a contact sheet: images, labels, boxes, points, letters.
 * Integers and clipping only; the caller owns the canvas, and nothing is allocated. */
#include "view_draw.h"

#include <math.h>
#include <string.h>

static struct view_area clip_to(const struct view_canvas *canvas, struct view_area area)
{
    int y1 = area.y + area.height, x1 = area.x + area.width;
    area.y = area.y < 0 ? 0 : area.y;
    area.x = area.x < 0 ? 0 : area.x;
    y1 = y1 > canvas->height ? canvas->height : y1;
    x1 = x1 > canvas->width ? canvas->width : x1;
    area.height = y1 > area.y ? y1 - area.y : 0;
    area.width = x1 > area.x ? x1 - area.x : 0;
    return area;
}

static struct view_area common(struct view_area a, struct view_area b)
{
    int y0 = a.y > b.y ? a.y : b.y, x0 = a.x > b.x ? a.x : b.x;
    int y1 = a.y + a.height < b.y + b.height ? a.y + a.height : b.y + b.height;
    int x1 = a.x + a.width < b.x + b.width ? a.x + a.width : b.x + b.width;
    return (struct view_area){y0, x0, y1 > y0 ? y1 - y0 : 0, x1 > x0 ? x1 - x0 : 0};
}

static uint8_t *pixel(const struct view_canvas *canvas, int y, int x)
{
    return canvas->rgb + 3 * ((size_t)y * (size_t)canvas->width + (size_t)x);
}

static void set(uint8_t *rgb, struct view_color color)
{
    rgb[0] = color.r;
    rgb[1] = color.g;
    rgb[2] = color.b;
}

struct view_color view_palette(uint64_t i)
{
    /* Ten hues far from each other in an order that keeps neighbours apart. */
    static const struct view_color hues[10] = {
        {255, 86, 64}, {64, 156, 255},  {92, 214, 92}, {255, 196, 0},  {196, 92, 255},
        {0, 214, 214}, {255, 128, 192}, {168, 224, 0}, {255, 144, 32}, {128, 128, 255},
    };
    /* Later rounds are lighter or darker than the first. */
    static const int shades[5] = {256, 176, 320, 128, 216};
    struct view_color c = hues[i % 10];
    int shade = shades[i / 10 % 5];
    int r = c.r * shade / 256, g = c.g * shade / 256, b = c.b * shade / 256;
    if (shade > 256) { /* towards white, as a bright channel is full already */
        r = c.r + (255 - c.r) / 2;
        g = c.g + (255 - c.g) / 2;
        b = c.b + (255 - c.b) / 2;
    }
    return (struct view_color){(uint8_t)r, (uint8_t)g, (uint8_t)b};
}

void view_fill(struct view_canvas *canvas, struct view_area area, struct view_color color)
{
    area = clip_to(canvas, area);
    for (int y = area.y; y < area.y + area.height; y++)
        for (int x = area.x; x < area.x + area.width; x++)
            set(pixel(canvas, y, x), color);
}

/* The pixels from..to-1 of a side of n that pixel i of m covers; at least one. */
static void covered(int i, int m, int n, int *from, int *to)
{
    *from = (int)((int64_t)i * n / m);
    *to = (int)(((int64_t)i + 1) * n / m);
    *to = *to > *from ? *to : *from + 1;
}

static void mean_of(const uint8_t *rgb, size_t row_nbytes, int y0, int y1, int x0, int x1,
                    uint8_t out[3])
{
    uint64_t sum[3] = {0, 0, 0}, n = (uint64_t)(y1 - y0) * (uint64_t)(x1 - x0);
    for (int y = y0; y < y1; y++) {
        const uint8_t *row = rgb + (size_t)y * row_nbytes;
        for (int x = x0; x < x1; x++)
            for (int c = 0; c < 3; c++)
                sum[c] += row[3 * x + c];
    }
    for (int c = 0; c < 3; c++)
        out[c] = (uint8_t)((sum[c] + n / 2) / n);
}

void view_image(struct view_canvas *canvas, struct view_area area, const uint8_t *rgb, int height,
                int width, size_t row_nbytes)
{
    struct view_area seen = clip_to(canvas, area);
    for (int y = seen.y; y < seen.y + seen.height; y++) {
        int y0, y1;
        covered(y - area.y, area.height, height, &y0, &y1);
        for (int x = seen.x; x < seen.x + seen.width; x++) {
            int x0, x1;
            covered(x - area.x, area.width, width, &x0, &x1);
            mean_of(rgb, row_nbytes, y0, y1, x0, x1, pixel(canvas, y, x));
        }
    }
}

static struct view_color label_color(int32_t label)
{
    if (label == 255 || label < 0) /* mostly the class to ignore */
        return (struct view_color){150, 150, 150};
    return view_palette((uint64_t)label - 1);
}

static void blend(uint8_t *rgb, struct view_color color, int share)
{
    rgb[0] = (uint8_t)((rgb[0] * (256 - share) + color.r * share) >> 8);
    rgb[1] = (uint8_t)((rgb[1] * (256 - share) + color.g * share) >> 8);
    rgb[2] = (uint8_t)((rgb[2] * (256 - share) + color.b * share) >> 8);
}

/* The label in the middle of what a pixel of the canvas covers. */
static int32_t label_at(const int32_t *labels, int height, int width, struct view_area area, int y,
                        int x)
{
    int i = (int)((2 * (int64_t)(y - area.y) + 1) * height / (2 * (int64_t)area.height));
    int k = (int)((2 * (int64_t)(x - area.x) + 1) * width / (2 * (int64_t)area.width));
    return labels[(size_t)i * (size_t)width + (size_t)k];
}

void view_mask(struct view_canvas *canvas, struct view_area area, const int32_t *labels, int height,
               int width, bool alone)
{
    struct view_area seen = clip_to(canvas, area);
    for (int y = seen.y; y < seen.y + seen.height; y++)
        for (int x = seen.x; x < seen.x + seen.width; x++) {
            int32_t label = label_at(labels, height, width, area, y, x);
            bool edge = (x + 1 < area.x + area.width &&
                         label_at(labels, height, width, area, y, x + 1) != label) ||
                        (y + 1 < area.y + area.height &&
                         label_at(labels, height, width, area, y + 1, x) != label);
            uint8_t *rgb = pixel(canvas, y, x);
            if (alone)
                set(rgb, label == 0 ? (struct view_color){0, 0, 0} : label_color(label));
            else if (edge)
                blend(rgb, (struct view_color){0, 0, 0}, 160);
            else if (label != 0)
                blend(rgb, label_color(label), 128);
        }
}

static void frame(struct view_canvas *canvas, struct view_area clip, struct view_area box,
                  struct view_color color)
{
    struct view_area sides[4] = {
        {box.y, box.x, 1, box.width},
        {box.y + box.height - 1, box.x, 1, box.width},
        {box.y, box.x, box.height, 1},
        {box.y, box.x + box.width - 1, box.height, 1},
    };
    for (int i = 0; i < 4; i++)
        view_fill(canvas, common(sides[i], clip), color);
}

/* Numbers of boxes may be anything: they are held to what an int and a canvas can do. */
static int to_pixel(float v)
{
    return v > -100000.0f && v < 100000.0f ? (int)floorf(v + 0.5f) : v > 0 ? 100000 : -100000;
}

void view_box(struct view_canvas *canvas, struct view_area clip, const float corners[4],
              struct view_color color)
{
    int x0 = to_pixel(corners[0]), y0 = to_pixel(corners[1]);
    int x1 = to_pixel(corners[2]), y1 = to_pixel(corners[3]);
    struct view_area box = {y0, x0, y1 - y0, x1 - x0};
    struct view_area inner = {y0 + 1, x0 + 1, box.height - 2, box.width - 2};
    struct view_area shadow = {y0 + 2, x0 + 2, box.height - 4, box.width - 4};
    if (box.height < 1 || box.width < 1)
        return;
    frame(canvas, clip, box, color);
    if (inner.height > 0 && inner.width > 0)
        frame(canvas, clip, inner, color);
    if (shadow.height > 0 && shadow.width > 0)
        frame(canvas, clip, shadow, (struct view_color){0, 0, 0});
}

void view_point(struct view_canvas *canvas, struct view_area clip, float y, float x, int radius,
                bool visible, struct view_color color)
{
    int cy = to_pixel(y), cx = to_pixel(x), outer = (radius + 1) * (radius + 1);
    struct view_area area = {cy - radius - 1, cx - radius - 1, 2 * radius + 3, 2 * radius + 3};
    area = clip_to(canvas, common(area, clip));
    for (int i = area.y; i < area.y + area.height; i++)
        for (int k = area.x; k < area.x + area.width; k++) {
            int d = (i - cy) * (i - cy) + (k - cx) * (k - cx);
            bool rim = d > radius * radius;
            if (d > outer || (!visible && !rim && d < (radius - 1) * (radius - 1)))
                continue;
            set(pixel(canvas, i, k), rim ? (struct view_color){0, 0, 0} : color);
        }
}

/* Steps over one character of UTF-8 and returns it if it is ASCII, else 127. */
static unsigned next_character(const char **text)
{
    unsigned char c = (unsigned char)*(*text)++;
    if (c < 0x80)
        return c;
    while (((unsigned char)**text & 0xC0) == 0x80)
        (*text)++;
    return 127;
}

int view_text_cells(const char *text)
{
    int n = 0;
    while (*text != '\0' && n < 1 << 20) {
        (void)next_character(&text);
        n++;
    }
    return n;
}

static void draw_glyph(struct view_canvas *canvas, int y, int x, int scale, unsigned character,
                       struct view_color color)
{
    const uint8_t *rows = view_glyph(character);
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 5; k++)
            if (rows[i] >> (4 - k) & 1)
                view_fill(canvas, (struct view_area){y + i * scale, x + k * scale, scale, scale},
                          color);
}

void view_text(struct view_canvas *canvas, int y, int x, int width, int scale, const char *text,
               bool keep_end, struct view_color color)
{
    int n = view_text_cells(text), room = width / (VIEW_CELL_WIDTH * scale);
    bool cut = n > room;
    if (cut && room < 4) /* no room for ".." and something */
        return;
    int first = cut && keep_end ? n - room + 2 : 0, last = cut && !keep_end ? room - 2 : n;
    if (cut && keep_end)
        for (int i = 0; i < 2; i++, x += VIEW_CELL_WIDTH * scale)
            draw_glyph(canvas, y, x, scale, '.', color);
    for (int i = 0; i < last; i++) {
        unsigned c = next_character(&text);
        if (i < first)
            continue;
        draw_glyph(canvas, y, x, scale, c, color);
        x += VIEW_CELL_WIDTH * scale;
    }
    if (cut && !keep_end)
        for (int i = 0; i < 2; i++, x += VIEW_CELL_WIDTH * scale)
            draw_glyph(canvas, y, x, scale, '.', color);
}
