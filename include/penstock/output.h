/* output.h - how one field of a data set is delivered in batches: its operations, dtype and views,
 * how rows of different shapes are combined, and what a batch says about the origin of its pixels.
 *
 * A loader's options (loader.h) have an array of these structs. */
#ifndef PENSTOCK_OUTPUT_H
#define PENSTOCK_OUTPUT_H

#include <penstock/audio.h>
#include <penstock/augment.h>
#include <penstock/collate.h>
#include <penstock/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Value of pst_field_output.channels: each image keeps the channels that it has stored, 1 to 4. */
#define PST_CHANNELS_STORED 255

/* How one field is delivered.
 *
 * A sample has one geometry, that of its leading image: the field `image`, else the first image
 * delivered as pixels, else the first such mask. Masks and further images without operations are
 * moved in the same way, whatever colour operations the leading image has. If they have operations,
 * the geometric operations must be the same (kind, order, and parameters except interpolation,
 * no_antialias and fill), else pst_loader_open returns PST_ERROR_ARGUMENT. Masks are interpolated
 * by nearest, or by nearest-exact if their operations say so. Boxes and keypoints are moved, too.
 *
 * A sample is bad if a mask (or a further image that operations move) has another size than the
 * leading image, or if boxes lie outside of the image, have no area or are not finite. Values that
 * refer to the stored picture (made_for) are rotated with it. If ignore_orientation is set, values
 * that refer to the upright picture are rotated back.
 *
 * Fields of the data set that are not listed are delivered by the defaults (images: u8, HWC, 3
 * channels, no operation). To leave fields out, set only_listed in the loader options.
 *
 * A member that is 0 has its default. The size of an array element is
 * pst_loader_options.field_nbytes. */
struct pst_field_output {
    const char *name;
    const struct pst_op *ops; /* Images, masks. */
    size_t n_ops;
    /* dtype of the array. Images: U8, U16, F16, BF16, F32; 0: F32 if the chain normalises, else by
     * `bits`. Floats are scaled to 0..1. Masks: U8 (8-bit masks only), U16, I32, I64, F32, with the
     * stored numbers; 0: as the first mask of the data set is stored. */
    enum pst_dtype dtype;
    enum pst_layout layout;
    /* Channels. Images: 1, 3, 4, PST_CHANNELS_STORED (then rows of a batch may differ), or 0 = 3.
     * Masks: always 1. */
    uint8_t channels;
    /* Bits of the pixels that operations work on: 8, 16, or 0. Images with 0: 16 for dtype U16, 8
     * for U8; for floats each image's own bits: 16-bit images keep 16 bits (v / 65535), others have
     * 8 (v / 255), and `fill` is 0..255 for all. Masks with 0: as stored. */
    uint8_t bits;
    /* Allowed variants, bit v = variant v; 0 = all. The first allowed variant that a sample has is
     * used. */
    uint8_t variant_mask;
    bool ignore_orientation;
    /* Images, masks: true delivers the stored bytes instead of pixels. */
    bool encoded;
    /* Images stored as pli-jpeg: true decodes at a half, a quarter or an eighth of the size if the
     * operations shrink the image, or a crop of it, by more than 2, 4 or 8 on both sides. The
     * operations then resize the decoded image further. The result is an approximation, the same on
     * every CPU: crops of large photographs differ from exact ones by 43 dB (PSNR) or 0.7 levels of
     * 255 on average, and take half the time (measured by bench/loader/scaled_decode.py). For
     * batches in host memory only. */
    bool scaled_decode;
    /* Images, masks: true gives the field its own geometry and draws, separate from the sample's.
     */
    bool own_geometry;
    /* Allowed forms, bit f = enum pst_form f; 0 = all. This is decided per sample, whichever
     * variants hold its forms. A sample with none of these forms is bad. Not for plain folders,
     * where each image has one form. */
    uint32_t form_mask;
    /* Masks, boxes, keypoints: which picture they refer to; replaces pst_field.made_for of the data
     * set. 0: use that. */
    enum pst_made_for made_for;
    /* Boxes: after crops or resizes, a box is dropped if its area is below min_area pixels^2 (0:
     * 1), or below the part min_visibility, 0..1, of the area that it would have without being cut
     * off (augment.h: PST_OP_SANITIZE_BOXES). keep_boxes keeps all boxes, even those without area.
     */
    float min_area, min_visibility;
    bool keep_boxes;
    /* Keypoints, ragged arrays: name of the boxes field whose boxes the rows belong to. A row is
     * dropped with its box; keypoints with k rows for each box lose all k. "": rows belong to no
     * boxes. NULL: not stated; then it is PST_ERROR_ARGUMENT if boxes may be dropped and the first
     * 64 samples all look as if rows belonged to boxes (JSON: if they are lists). */
    const char *per_box_of;
    /* Audio: true delivers f32 or f16 (dtype) arrays that `audio_ops` make of the sound (audio.h):
     * (channels, samples) or (channels, bins, frames). False: the stored bytes. Rows have one shape
     * if the operations fix length and channels; otherwise a batch whose rows differ is ragged. */
    bool decode_audio;
    const struct pst_audio_op *audio_ops; /* With decode_audio. */
    size_t n_audio_ops;
    /* Images: deliver views of the image under this name, 1 to 63 bytes (augment.h, Views). */
    const char *as;
    uint32_t n_views, first_view; /* with `as` */
    /* How the rows of a batch are combined if they differ in shape: boxes, keypoints, arrays of
     * any shape, images, masks and sound. No effect if all rows of the field have one shape.
     * PST_ERROR_ARGUMENT at open for other fields. */
    enum pst_ragged ragged;
    /* PST_RAGGED_PADDED: value that fills the end of shorter rows; the delivered dtype must be able
     * to hold it. */
    double pad_value;
    /* PST_RAGGED_PADDED, images and masks: height and width are padded to multiples of it; 0 = 1.
     */
    uint32_t pad_multiple;
    /* Keypoints: number of points of one instance; 0 = that of the data set (pst_field.n_classes).
     */
    uint32_t n_points;
    /* Keypoints: the pairs of left and right points, u32 (n_point_pairs,2), as indices of points
     * within an instance. With says_pairs they replace those of the data set. If operations mirror
     * the picture (a flip of one axis), the points of each pair are swapped after they were moved,
     * with their visibility. says_pairs without pairs means that there is no left and right. If
     * pairs are stated nowhere, PST_FALLBACK_PAIRS counts the samples. Read during open only. */
    const uint32_t *point_pairs;
    size_t n_point_pairs;
    bool says_pairs;
    /* Images, masks: true adds two arrays that say how the operations moved the pixels.
     * NAME_geometry, f64 (N,3,3) or (N,n_views,3,3): the matrix that maps (x, y, 1) on the original
     * picture, up to a factor, to (x, y, 1) on the delivered picture. Coordinates are continuous:
     * pixel i covers i..i+1. NAME_original_size, i64 (N,2): height and width of the original
     * picture, which is the input of the operations: upright, or as stored with ignore_orientation.
     * PST_ERROR_ARGUMENT at open if no matrix can describe an operation (elastic transforms,
     * policies), if batches are mosaics without gives_tiles, or if the field is delivered as stored
     * bytes. */
    bool gives_geometry;
    /* The leading image, with gives_geometry: true describes each of the PST_MOSAIC_TILES tiles of
     * a mosaic. NAME_geometry is then f64 (N,4,3,3), NAME_original_size i64 (N,4,2). More arrays:
     * NAME_tiles, i64 (N,4,4): rectangles x0, y0, x1, y1 of the tiles in the mosaic.
     * NAME_tile_index, i64 (N,4): sample number of each tile. NAME_mosaic_geometry, f64 (N,3,3):
     * matrix from the mosaic to the delivered picture, that is, of the operations after the mosaic
     * (pst_mix.ops); NAME_geometry includes it. For each field BOXES of boxes or keypoints:
     * BOXES_tile, i64 (n), the tile that each box or keypoint comes from, combined as `ragged` of
     * BOXES says, with -1 after the end of shorter rows. Tiles are numbered as in
     * <penstock/augment.h>, "Mixing the images of a batch". A row that is no mosaic has tile 0
     * only; its other tiles have the index -1, the size 0, an empty rectangle and an identity
     * matrix. PST_ERROR_ARGUMENT at open: the field is not the leading image or mask. */
    bool gives_tiles;
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
