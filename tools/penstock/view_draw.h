/* view_draw.h - a canvas of RGB pixels, and what a contact sheet draws on it. Everything is clipped
 * to the canvas. */
#ifndef PENSTOCK_VIEW_DRAW_H
#define PENSTOCK_VIEW_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct view_color {
    uint8_t r, g, b;
};
struct view_canvas {
    uint8_t *rgb; /* u8 (height,width,3), no padding */
    int height, width;
};
/* A rectangle of the canvas, pixels. */
struct view_area {
    int y, x, height, width;
};

/* A colour for a class, an instance or a box; neighbours are told apart. 0 is the first colour. */
struct view_color view_palette(uint64_t i);

void view_fill(struct view_canvas *canvas, struct view_area area, struct view_color color);
/* Draws u8 (height,width,3) pixels, rows of row_nbytes, into the area: repeated where the area is
 * larger, means of the pixels that a target pixel covers where it is smaller. */
void view_image(struct view_canvas *canvas, struct view_area area, const uint8_t *rgb, int height,
                int width, size_t row_nbytes);
/* Tints the area by labels, i32 (height,width): each label has its colour, with a dark line where
 * labels meet. 0 is not tinted. `alone`: the labels are all there is, and colours cover the area.
 */
void view_mask(struct view_canvas *canvas, struct view_area area, const int32_t *labels, int height,
               int width, bool alone);
/* Draws the outline of a box within `clip`. Corners are in pixels of the canvas. */
void view_box(struct view_canvas *canvas, struct view_area clip, const float corners[4],
              struct view_color color);
/* Draws a point with a dark rim; hollow if it is not visible. */
void view_point(struct view_canvas *canvas, struct view_area clip, float y, float x, int radius,
                bool visible, struct view_color color);

/* Text is ASCII in a font of 5 x 9 pixels in cells of VIEW_CELL_WIDTH x VIEW_CELL_HEIGHT, times
 * `scale`. Other characters of UTF-8 are drawn as a frame. */
enum { VIEW_CELL_WIDTH = 6, VIEW_CELL_HEIGHT = 10 };
/* Cells that the text takes. */
int view_text_cells(const char *text);
/* Draws as many characters as fit into `width`. If some do not, ".." stands for the beginning
 * (`keep_end`) or the end. */
void view_text(struct view_canvas *canvas, int y, int x, int width, int scale, const char *text,
               bool keep_end, struct view_color color);

/* The rows of a character of ASCII, 5 bits each, the highest on the left; 9 of them. */
const uint8_t *view_glyph(unsigned character);

#endif
