/* output.h - how one field of a data set is delivered in batches: operations, numbers, views, rows
 * that differ in shape, and what a batch says about where its pixels come from.
 *
 * A loader's options (loader.h) have an array of these. */
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

/* pst_field_output.channels may be this: as many as each image has stored, 1 to 4. */
#define PST_CHANNELS_STORED 255

/* Says how one field is delivered.
 *
 * A sample has one geometry, that of its leading image: the field `image`, else the first image
 * delivered as pixels, else the first such mask. Masks and further images without operations follow
 * it, whatever colour operations it has. If they have operations, these must have the same
 * geometric ones (kind, order and parameters but interpolation, no_antialias and fill), else
 * pst_loader_open returns PST_ERROR_ARGUMENT. Masks are interpolated by nearest, or by
 * nearest-exact if their operations say so. Boxes and keypoints follow, too.
 *
 * A sample is bad if a mask (or a further image, if operations move it) has another size than the
 * image, or if boxes lie outside of it, have no area or are not finite. Values made for the
 * stored picture (made_for) are rotated with it. If ignore_orientation is set, those made for the
 * upright picture are rotated back.
 *
 * Fields of the data set that are not listed are delivered by the defaults (images: u8, HWC, 3
 * channels, no operation). To leave fields out, set only_listed in the loader options.
 *
 * Zero in any member takes the default; the size of an element of an array of them is
 * pst_loader_options.field_nbytes. */
struct pst_field_output {
    const char *name;
    const struct pst_op *ops; /* Images, masks. */
    size_t n_ops;
    /* Images: U8, U16, F16, BF16, F32. 0: F32 if the chain normalises, else by `bits`. Floats are
     * scaled to 0..1. Masks: U8 (of 8 bits only), U16, I32, I64, F32: the numbers that are stored.
     * 0: as the first mask of the data set is stored. */
    enum pst_dtype dtype;
    enum pst_layout layout;
    /* Images: 1, 3, 4, PST_CHANNELS_STORED (rows of a batch may then differ), or 0 = 3. Masks:
     * always 1. */
    uint8_t channels;
    /* Bits of the pixels between the operations: 8, 16, or 0. Images, 0: 16 for U16, 8 for U8. For
     * floats, 0: each image's own. 16-bit images keep their 16 bits (v / 65535), others have 8 (v /
     * 255), and `fill` counts 0..255 for all. Masks, 0: as stored. */
    uint8_t bits;
    /* Variants allowed, bit v = variant v; 0 = all. The first of them that a sample has is taken.
     */
    uint8_t variant_mask;
    bool ignore_orientation;
    /* Images, masks: deliver the stored bytes, not pixels. */
    bool encoded;
    /* Images stored as pli-jpeg: decode at a half, a quarter or an eighth of the size if the
     * operations make the image, or a crop of it, smaller by more than 2, 4 or 8 on both sides. The
     * operations resize the decoded image further. This is an approximation, the same on every CPU.
     * Crops of large photographs differ from exact ones by 43 dB (PSNR), 0.7 levels of 255 in the
     * mean, and take half the time; bench/loader/scaled_decode.py measures it. For batches in host
     * memory only. */
    bool scaled_decode;
    /* Images, masks: a geometry and draws of their own, apart from the sample's. */
    bool own_geometry;
    /* Forms allowed, bit f = enum pst_form f; 0 = all. It is decided for each sample, which may
     * have its forms in any variants. A sample that has none of them is bad. Not for plain folders,
     * where each image has one form. */
    uint32_t form_mask;
    /* Masks, boxes, keypoints: replaces the data set's own statement, pst_field.made_for, which
     * counts if this is 0. */
    enum pst_made_for made_for;
    /* Boxes: if operations crop or resize, a box is dropped that has less than min_area pixels^2
     * after them (0: 1) or less than min_visibility, 0..1, of the area that it would have without
     * being cut off (augment.h: PST_OP_SANITIZE_BOXES). keep_boxes: some have no area then. */
    float min_area, min_visibility;
    bool keep_boxes;
    /* Keypoints, ragged arrays: name of the boxes field to whose boxes the rows belong. A row is
     * dropped with its box, and all k rows where keypoints have k for each box. "": rows belong to
     * no boxes. NULL: the caller does not say. If boxes may be dropped, and the first 64 samples
     * all look as if rows belonged to boxes (JSON: are lists), this is PST_ERROR_ARGUMENT. */
    const char *per_box_of;
    /* Audio: deliver the sound, f32 or f16 (dtype) arrays of what `audio_ops` make of it, see
     * audio.h: (channels, samples) or (channels, bins, frames). False: the stored bytes. Rows have
     * one shape if the operations fix length and channels; else a batch whose rows differ is
     * ragged.
     */
    bool decode_audio;
    const struct pst_audio_op *audio_ops; /* With decode_audio. */
    size_t n_audio_ops;
    /* Images: delivers views of the image under this name, 1 to 63 bytes (augment.h, Views). */
    const char *as;
    uint32_t n_views, first_view; /* with `as` */
    /* Boxes, keypoints, arrays of any shape, and images, masks and sound of which rows may differ
     * in shape: how each batch puts them together, in host memory. No effect on fields whose rows
     * have one shape. PST_ERROR_ARGUMENT at open for other fields. */
    enum pst_ragged ragged;
    /* PST_RAGGED_PADDED: the value behind the end of shorter rows, a number that the field's
     * delivered dtype has. */
    double pad_value;
    /* PST_RAGGED_PADDED, images and masks: height and width become multiples of it; 0 = 1. */
    uint32_t pad_multiple;
    /* Keypoints: number of points of one instance; 0 = the data set's own statement,
     * pst_field.n_classes. */
    uint32_t n_points;
    /* Keypoints: the pairs of left and right points, u32 (n_point_pairs,2), numbers of points
     * within an instance, instead of the data set's own, if says_pairs. Where the operations mirror
     * the picture (a flip of one axis), the points of each pair are swapped after they were moved,
     * with their visibility. says_pairs and no pairs: there is no left and right. Pairs that nobody
     * states are counted as PST_FALLBACK_PAIRS. Read during open only. */
    const uint32_t *point_pairs;
    size_t n_point_pairs;
    bool says_pairs;
    /* Images, masks: the batch also says how the operations moved the pixels, in two arrays behind
     * this one. NAME_geometry, f64 (N,3,3), or (N,n_views,3,3): the matrix by which (x, y, 1) on
     * the original picture becomes, up to a factor, (x, y, 1) on the delivered one. Coordinates are
     * continuous: pixel i covers i..i+1. NAME_original_size, i64 (N,2): height and width of the
     * original picture, which is the one that the operations get: upright, or as it is stored if
     * ignore_orientation is set. PST_ERROR_ARGUMENT at open: operations move pixels in a way that
     * no matrix says (elastic transforms, policies), batches are mosaics and gives_tiles is not
     * set, or the bytes are encoded. */
    bool gives_geometry;
    /* The leading image, with gives_geometry: the batch says it of each of the PST_MOSAIC_TILES
     * tiles of a mosaic. NAME_geometry is f64 (N,4,3,3), NAME_original_size i64 (N,4,2). More
     * arrays: NAME_tiles, i64 (N,4,4), the rectangles x0, y0, x1, y1 of the mosaic that the tiles
     * fill; NAME_tile_index, i64 (N,4), the sample of each; NAME_mosaic_geometry, f64 (N,3,3), the
     * matrix from the mosaic to the delivered picture, which is that of the operations behind it
     * (pst_mix.ops) and part of NAME_geometry; and for each field BOXES of
     * boxes or keypoints BOXES_tile, i64 (n), the tile that each box or keypoint comes from, put
     * together as `ragged` of BOXES says, with -1 behind the end of shorter rows. Tiles are
     * numbered as in <penstock/augment.h>, Mosaics. A row that is no mosaic has tile 0 alone; the
     * others have the index -1, the size 0, an empty rectangle and the identity as matrix.
     * PST_ERROR_ARGUMENT at open: the field is not the leading image or mask. */
    bool gives_tiles;
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
