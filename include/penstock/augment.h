/* augment.h - operations on the pixels of a sample, as the loader applies them.
 *
 * A chain is an array of `struct pst_op`. Random parameters of an operation are a pure function of
 * (seed, epoch, sample, draw, view, operation) by Philox-4x32-10 (Salmon et al., SC 2011), so they
 * do not depend on threads, ranks, placement or resume. `draw` is 0. If weights, repeats or
 * repeated indices may give a sample several times in an epoch, it is the position in the epoch, so
 * that each time is augmented differently. `view` is 0, or the number of the view where a sample is
 * delivered as several views (pst_field_output.as). Geometric operations (Resize to Pad,
 * RandomIoUCrop to RandomResize and warps below, flips included) are numbered among themselves, so
 * colour operations between them change nothing.
 * pst_loader_state.augment_version is the version of this rule. */
#ifndef PENSTOCK_AUGMENT_H
#define PENSTOCK_AUGMENT_H

#include <penstock/image.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The kinds of operations. Each kind names the members of struct pst_op that it reads. Sizes are in
 * pixels, height first. */
enum pst_op_kind {
    /* height, width; width 0: the shorter side becomes `height`. */
    PST_OP_RESIZE = 1,
    /* height, width; a smaller image is padded with `fill` first. */
    PST_OP_CENTER_CROP = 2,
    /* height, width, pad[4] applied first; a smaller image is an error unless pad_if_needed. */
    PST_OP_RANDOM_CROP = 3,
    /* height, width, scale[2], ratio[2]; ten tries, then the largest centred crop within
     * `ratio`: the rule of torchvision. */
    PST_OP_RANDOM_RESIZED_CROP = 4,
    /* With probability p (1 = always). */
    PST_OP_HORIZONTAL_FLIP = 5,
    PST_OP_VERTICAL_FLIP = 6, /* With probability p. */
    /* pad[4] = left, top, right, bottom, by pad_mode and fill. */
    PST_OP_PAD = 7,
    /* brightness, contrast, saturation, hue: ranges; random order. */
    PST_OP_COLOR_JITTER = 8,
    /* With probability p; BT.601 luma in all channels. */
    PST_OP_GRAYSCALE = 9,
    /* (v / 255 - mean[c]) / std[c], (v / 65535 - ...) for u16; last but for PST_OP_ERASING; mean,
     * std, n_channels. */
    PST_OP_NORMALIZE = 10,
    /* The operations up to PST_OP_SANITIZE_BOXES are those of recipes for detection and
     * segmentation. Sides that are drawn are rounded down, to at least 1 pixel.
     *
     * scale[2] (shares of the sides), ratio[2] (width / height), overlaps, n_overlaps, trials: the
     * crop of SSD (Liu et al., ECCV 2016) by torchvision's rule. It needs the sample's boxes. */
    PST_OP_RANDOM_IOU_CROP = 11,
    /* With probability p: pads to a canvas of scale[2] times the sides, at a random place; fill,
     * mask_fill. */
    PST_OP_RANDOM_ZOOM_OUT = 12,
    /* height, width, no_scale_up, interpolation, no_antialias, fill, mask_fill: resizes to fit,
     * keeps the aspect, and pads on both sides. An odd pixel is right or below. The rule of YOLO.
     */
    PST_OP_LETTERBOX = 13,
    /* height, width, scale[2], interpolation, no_antialias: resizes to the largest size that fits
     * in height x width, times a random factor. height and width 0: to the own size, times it. */
    PST_OP_SCALE_JITTER = 14,
    /* sizes, n_sizes, max_size, interpolation, no_antialias: the shorter side becomes one of
     * `sizes`, or shorter, so that the longer side has at most max_size pixels (0: any number). */
    PST_OP_RANDOM_SHORTEST_SIZE = 15,
    /* sizes[0], sizes[1], interpolation, no_antialias: as Resize, the shorter side becomes sizes[0]
     * to sizes[1] - 1 pixels. */
    PST_OP_RANDOM_RESIZE = 16,
    /* labels, n_labels, other_label, keep_others: maps the classes of masks. Images stay as they
     * are. */
    PST_OP_MAP_LABELS = 17,
    /* min_size, min_area: boxes that are smaller on the picture at that place are dropped, with the
     * rows of other fields that belong to them. No pixels change. pst_field_output.min_area of the
     * boxes is 0 or 1 then, and only boxes that have no area at all are dropped at the end. */
    PST_OP_SANITIZE_BOXES = 18,
    /* Changes nothing: a choice of PST_OP_RANDOM_CHOICE that leaves the image as it is. */
    PST_OP_IDENTITY = 20,
    /* With probability p the next n_inner operations are done, else none of them. They keep the
     * size of the image. */
    PST_OP_RANDOM_APPLY = 21,
    /* One of the next n_inner operations is done, operation i with probability weights[i] / sum.
     * They keep the size of the image. */
    PST_OP_RANDOM_CHOICE = 22,
    /* The operations up to PST_OP_SHARPNESS change colours, with probability p. Alpha stays as it
     * is. Their results are those of torchvision on integer images. */
    PST_OP_INVERT = 23,       /* Each sample becomes full scale minus the sample. */
    PST_OP_POSTERIZE = 24,    /* Keeps the `bits` highest bits of each sample. */
    PST_OP_SOLARIZE = 25,     /* Inverts samples of at least `threshold`. */
    PST_OP_AUTOCONTRAST = 26, /* Stretches each channel to the full range. */
    PST_OP_EQUALIZE = 27,     /* Makes each channel's histogram level, in 256 levels. */
    PST_OP_SHARPNESS = 28,    /* factor: 0 blurs, 1 leaves, 2 sharpens. */
    /* height, width: odd numbers of taps; sigma[2]. Edges are mirrored. */
    PST_OP_GAUSSIAN_BLUR = 29,
    /* degrees[2] clockwise, translate[2] (x, y: shares of width and height), scale[2], shear[4] (x
     * from, to, y from, to: degrees), interpolation nearest or bilinear, fill, mask_fill. */
    PST_OP_AFFINE = 30,
    /* With probability p; distortion, interpolation, fill, mask_fill. */
    PST_OP_PERSPECTIVE = 31,
    /* alpha[2], sigma[2] (x, y), interpolation, fill, mask_fill. */
    PST_OP_ELASTIC = 32,
    /* With probability p; scale[2], ratio[2]; writes `fill`, or normal noise if `noise`, in units
     * of the numbers that are delivered. The last operation. */
    PST_OP_ERASING = 33,
    /* One operation of RandAugment (Cubuk et al., 2020): magnitude of n_magnitudes; interpolation,
     * fill. Images only, as for the next three. */
    PST_OP_RAND_AUGMENT = 34,
    PST_OP_TRIVIAL_AUGMENT = 35, /* Mueller and Hutter, 2021: n_magnitudes. */
    PST_OP_AUTO_AUGMENT = 36,    /* Cubuk et al., 2019: `policy`. */
    /* Hendrycks et al., 2020: magnitude (severity, 1 to 10), mixture_width, chain_depth (0: 1 to
     * 3), alpha[0] of both distributions, all_ops. */
    PST_OP_AUGMIX = 37
};

/* Tables of AutoAugment, by the data set that they were learnt on: 25 pairs of operations, each
 * with a probability and a magnitude. */
enum pst_auto_policy {
    PST_AUTO_POLICY_IMAGENET = 0, /* photographs of objects */
    PST_AUTO_POLICY_CIFAR10 = 1,  /* small photographs of objects */
    PST_AUTO_POLICY_SVHN = 2      /* house numbers */
};

#define PST_MAX_INNER 14      /* operations within PST_OP_RANDOM_APPLY and PST_OP_RANDOM_CHOICE */
#define PST_MAX_OVERLAPS 16   /* choices of PST_OP_RANDOM_IOU_CROP */
#define PST_MAX_SIZES 16      /* choices of PST_OP_RANDOM_SHORTEST_SIZE */
#define PST_MAX_LABELS 65536u /* classes of PST_OP_MAP_LABELS */

/* Rules for values between pixels. Coordinates are those of pixel centres. */
enum pst_interpolation {
    /* Pixel floor(i * n_from / n_to), in float32. It is torch's "nearest" and torchvision's
     * NEAREST, which is off by half a pixel. */
    PST_INTERPOLATION_NEAREST = 1,
    PST_INTERPOLATION_BILINEAR = 2,
    /* a = -0.5, as in PIL and in torch with antialias. Without antialias a = -0.75 and edges are
     * repeated, as in torch. */
    PST_INTERPOLATION_BICUBIC = 3,
    /* The pixel that holds the output's centre: torch's "nearest-exact", torchvision's
     * NEAREST_EXACT, PIL's NEAREST. */
    PST_INTERPOLATION_NEAREST_EXACT = 4
};

/* Values beyond the edges of an image. */
enum pst_pad_mode {
    /* `fill` of the operation. */
    PST_PAD_CONSTANT = 0,
    /* The pixel at the edge, repeated. */
    PST_PAD_EDGE = 1,
    /* The image mirrored, without repeating the edge. */
    PST_PAD_REFLECT = 2,
    /* The image mirrored, its edge included. */
    PST_PAD_SYMMETRIC = 3
};

/* Views of a sample. pst_field_output.as delivers views of an image under a name of their own. So a
 * field may be listed several times: as itself, and any number of times with `as`. A view has the
 * operations of its entry and draws of its own: view v has the random parameters of view v, and
 * those of view 0 are those of the image itself. With n_views > 0 an axis of so many views, the
 * first of which is number first_view, comes before the others: (N, n_views, C, H, W). With
 * n_views 0 it is one view, (N, C, H, W). Operations must fix the size.
 *
 * An image is decoded once for all its views, where that decodes fewer pixels than each view's
 * region by itself. Masks, boxes and keypoints do not follow views. All views of a field take
 * pixels of the same channels, bits and orientation, and the same variants and forms. Views are
 * for batches in host memory, and not possible with `encoded` or scaled_decode.
 *
 * Repeats (Hoffer et al., "Augment your batch", CVPR 2020). pst_loader_options.repeats r: so many
 * neighbouring positions hold the same sample, each with a draw of its own. An epoch has as many
 * positions as without, and so 1 / r of the samples; the epochs r * k to r * k + r - 1 hold each
 * sample r times. Not with PST_ORDER_PAGES. */
#define PST_MAX_VIEWS 64 /* views of a sample, over all fields */

/* One operation. `kind` says which members count (see enum pst_op_kind); the others are ignored.
 * Prepare it with pst_op_init, which fills in the defaults of that kind. It goes in arrays: the
 * size of an element is pst_loader_options.op_nbytes.
 *
 * Operations that cannot be streamed (those from PST_OP_INVERT to PST_OP_AUGMIX but PST_OP_ERASING,
 * and colour operations) need the whole picture in scratch memory of a worker: width * height
 * pixels, twice for most of them. Put them after the crop or resize, where the picture is small.
 *
 * Warps (PST_OP_AFFINE to PST_OP_ELASTIC) keep the size of the picture. Their maps are
 * torchvision's: the centre of pixel i is i + 0.5, and the middle of the picture is the origin
 * unless `center` says otherwise. Masks take the nearest pixel and `mask_fill`. A box becomes the
 * smallest upright one around its warped corners, and a keypoint moves with the picture.
 *
 * RandomApply and RandomChoice are followed by their inner operations in the array. These are
 * skipped together or one by one; groups do not nest.
 *
 * Policies choose operations by the sample's random numbers, from the list of torchvision:
 * Identity, ShearX, ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, Sharpness,
 * Posterize, Solarize, AutoContrast and Equalize (AutoAugment has Invert, too). Strengths grow
 * evenly with the magnitude, 0 to n_magnitudes - 1, up to
 *
 *     RandAugment, AutoAugment   shear 0.3 (tangent), shift 150 / 331 of the side, 30 degrees,
 *                                factors 1 - 0.9 to 1 + 0.9, 8 to 4 bits
 *     TrivialAugment             shear 0.99, shift 32 pixels, 135 degrees, factors 1 - 0.99 to
 *                                1 + 0.99, 8 to 2 bits
 *     AugMix                     shear 0.3, shift a third of the side, 30 degrees,
 *                                factors 1 - 0.9 to 1 + 0.9, 4 to 0 bits; magnitudes 0 to
 *                                severity - 1 of 10
 *
 * Operations with a sign get it by a coin. AugMix mixes the image and mixture_width chains of
 * operations: the share of the image and the shares of the chains come from Dirichlet distributions
 * with the parameter alpha[0].
 *
 * RandomIoUCrop draws one of `overlaps`, then up to `trials` crops. A crop is taken if it holds the
 * centre of a box and its overlap (intersection over union) with one of these boxes is at least the
 * one drawn. An overlap of 1 or more leaves the picture as it is. If no crop was taken, all is
 * drawn again, at most 100 times; then the picture stays. It also stays if there are no boxes;
 * boxes without an area do not count. Boxes whose centre is outside of the crop are left without an
 * area, so that the loader drops them (pst_field_output.keep_boxes).
 *
 * MapLabels is done on the rows that come out of crops, resizes and flips. Padding before it is
 * mapped with the mask, and padding after it is not: `mask_fill` there is one of the new classes.
 *
 * RandomErasing writes to the finished row: its rectangle is drawn by torchvision's rule, smaller
 * than the image on both sides, in ten tries; if none fits, nothing is erased. */
struct pst_op {
    enum pst_op_kind kind;
    uint32_t height, width;               /* output size, pixels */
    enum pst_interpolation interpolation; /* default bilinear */
    /* Default false: the filter is widened when shrinking. */
    bool no_antialias;
    bool pad_if_needed; /* PST_OP_RANDOM_CROP */
    enum pst_pad_mode pad_mode;
    /* Left, top, right, bottom, pixels. */
    uint32_t pad[4];
    /* per channel, in units of the pixels (0..255 or 0..65535). */
    float fill[4];
    /* Probability, 0..1; default 0.5 for flips. */
    float p;
    /* Default 0.08..1, 3/4..4/3. */
    float scale[2], ratio[2];
    /* Factors drawn from [lo, hi]; 1,1 = leave. */
    float brightness[2], contrast[2], saturation[2];
    /* Shift in turns drawn from [lo, hi], within -0.5..0.5; 0,0 = leave. */
    float hue[2];
    /* per channel, of pixels scaled to 0..1; within 0..1. */
    float mean[4];
    float std[4]; /* Per channel, as mean; above 0, at most 10. */
    /* Value of `fill` for masks that follow the chain of their image; default 0. */
    float mask_fill;
    /* PST_OP_NORMALIZE: number of channels of mean and std. The pixels must have as many. 0: as
     * many as the pixels have. */
    uint8_t n_channels;
    /* The members below belong to operations from PST_OP_IDENTITY on. */
    bool no_blend; /* AFFINE to ELASTIC, policies: pixels outside count as 0 and `fill` is unused */
    bool noise;    /* PST_OP_ERASING */
    bool all_ops;  /* PST_OP_AUGMIX: colours, too; default true */
    uint8_t bits;  /* PST_OP_POSTERIZE: 0..16 */
    uint32_t n_inner;             /* PST_OP_RANDOM_APPLY, PST_OP_RANDOM_CHOICE: 1..PST_MAX_INNER */
    float weights[PST_MAX_INNER]; /* PST_OP_RANDOM_CHOICE: at least 0, not all 0; default 1 */
    float threshold;              /* PST_OP_SOLARIZE: 0..255; of 16 bits: times 257 */
    float factor;                 /* PST_OP_SHARPNESS: 0 or more; default 1 */
    float sigma[2];         /* Standard deviations, pixels. GAUSSIAN_BLUR draws from the range. */
    float degrees[2];       /* AFFINE: drawn from [lo, hi]; default 0,0 */
    float translate[2];     /* AFFINE: drawn from [-t, t] of the side; 0..1 */
    float shear[4];         /* AFFINE: degrees, drawn from two ranges; within -89..89 */
    bool has_center;        /* AFFINE: `center` is given; else it is that of the image */
    float center[2];        /* AFFINE: x, y in pixels of the image at that place */
    float distortion;       /* PERSPECTIVE: 0..1, of half the sides */
    float alpha[2];         /* ELASTIC: strength for x, y; AUGMIX: of Beta and Dirichlet */
    uint32_t magnitude;     /* Policies: 0..n_magnitudes - 1 */
    uint32_t n_magnitudes;  /* Policies: 2 or more; default 31 */
    uint32_t mixture_width; /* PST_OP_AUGMIX: 1..8; default 3 */
    uint32_t chain_depth;   /* PST_OP_AUGMIX: 0..8; 0: 1 to 3, drawn */
    enum pst_auto_policy policy; /* PST_OP_AUTO_AUGMENT */
    /* The members below belong to operations from PST_OP_RANDOM_IOU_CROP to
     * PST_OP_SANITIZE_BOXES. */
    uint32_t trials;                  /* RANDOM_IOU_CROP: 1..1000; default 40 */
    uint32_t n_overlaps;              /* RANDOM_IOU_CROP: 1..PST_MAX_OVERLAPS; default 7 */
    float overlaps[PST_MAX_OVERLAPS]; /* 0 or more; default 0, 0.1, 0.3, 0.5, 0.7, 0.9, 1 */
    uint32_t n_sizes;                 /* RANDOM_SHORTEST_SIZE: 1..PST_MAX_SIZES */
    uint32_t sizes[PST_MAX_SIZES];    /* pixels */
    uint32_t max_size;                /* RANDOM_SHORTEST_SIZE: pixels; 0: no limit */
    /* LETTERBOX: a picture that is smaller on both sides keeps its size and is padded alone. */
    bool no_scale_up;
    /* MAP_LABELS: classes from n_labels on keep their number. Default false: they, too, become
     * other_label. */
    bool keep_others;
    uint16_t other_label; /* MAP_LABELS: class of what is not in the table; default 255 */
    float min_size;       /* SANITIZE_BOXES: pixels, of both sides; default 1 */
    float min_area;       /* SANITIZE_BOXES: pixels^2; default 1 */
    uint32_t n_labels;    /* MAP_LABELS: 0..PST_MAX_LABELS */
    /* MAP_LABELS: class i of a stored mask becomes labels[i]. Masks of 8 bits hold classes up to
     * 255. The caller's memory, n_labels numbers, which pst_loader_open copies. */
    const uint16_t *labels;
};

/* Fills an operation with the defaults of its kind. Set the members that the kind needs
 * afterwards.
 *
 * op: the caller's struct, overwritten as a whole.
 * op_nbytes: sizeof *op.
 * kind: what the operation does. A number outside the list is stored as it is, and pst_loader_open
 *     refuses it.
 *
 * Cannot fail. Any thread. */
void pst_op_init(struct pst_op *op, size_t op_nbytes, enum pst_op_kind kind);

/* Mixing of batches
 *
 * The loader mixes the images of a batch after all of its rows are there
 * (pst_loader_options.mixes). The thread that finishes a batch does it, so the caller waits no
 * longer for it. Each batch draws one of the ways, all alike, and its numbers: a function of seed,
 * epoch and the position of its first row. Partners come from the batch itself, so another number
 * of ranks pairs others.
 *
 * A mosaic of a row is made of itself and of three rows of the batch, drawn with replacement. It
 * lies top left, its lower right corner at the point, the others right, below and diagonally. Each
 * row draws whether it becomes one, the point and the three by seed, epoch, the position of the
 * batch's first row and its own number in the batch. Images and masks must have one size. A box is
 * cut down to its tile, and dropped by min_area and min_visibility (pst_field_output) unless
 * keep_boxes; fields of which rows belong to boxes follow. Keypoints outside of their tile get
 * visibility 0. Other fields stay the row's own. Batches lie in host memory. It takes memory for a
 * copy of a batch's images and masks, which counts as host_memory. The four parts of a mosaic are
 * its tiles: 0 is top left, 1 top right, 2 bottom left, 3 bottom right. The batch says of each
 * where it is and what it comes from (pst_field_output.gives_tiles).
 *
 * Operations may follow a mosaic (pst_mix.ops). They move the finished picture with its masks,
 * boxes and keypoints, also of rows that become no mosaic, and keep its size. Their draws are a
 * function of what the mosaic's own are. A box is dropped by min_area and min_visibility of what is
 * left at the end.
 *
 * Labels are left as they are, and mixing them is up to the caller: row i has its own class with
 * the share `lambda`, and its partner's with the rest. Integers are rounded.
 *
 * MixUp after Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018; CutMix after
 * Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers", ICCV 2019. */
#define PST_MAX_MIXES 4    /* ways among which batches draw */
#define PST_MOSAIC_TILES 4 /* samples of a mosaic */

/* Ways of mixing the images of a batch. */
enum pst_mix_kind {
    /* MixUp (Zhang et al., 2018): lambda * image + (1 - lambda) * partner. */
    PST_MIX_MIXUP = 1,
    /* CutMix (Yun et al., 2019): a rectangle is that of the partner. */
    PST_MIX_CUTMIX = 2,
    /* Mosaic (Bochkovskiy et al., YOLOv4, 2020): four rows that meet in a point. It cannot stand
     * beside other ways in one mix. Boxes, keypoints and masks move with the pixels. */
    PST_MIX_MOSAIC = 3
};

/* One way of mixing. It goes in arrays: the size of an element is pst_loader_options.mix_nbytes. */
struct pst_mix {
    enum pst_mix_kind kind;
    /* Both parameters of the beta distribution that lambda is drawn from; above 0. */
    float alpha;
    /* PST_MIX_MOSAIC: the part of the rows that become mosaics, above 0 to 1; 0 = 1. */
    float p;
    /* PST_MIX_MOSAIC: where the point may lie, as a part of a canvas of twice the size, in both
     * axes: 0 <= centre[0] <= centre[1] <= 1; both 0 = 0.25 to 0.75. The picture is the middle of
     * the canvas. */
    float centre[2];
    /* PST_MIX_MOSAIC: n_ops operations behind the mosaic, of op_nbytes = sizeof(struct pst_op)
     * each; NULL, 0: none. The caller's memory, which pst_loader_open copies. They are for images
     * of 8 or 16 bits, and keep the size. PST_ERROR_ARGUMENT at open: they change it, need the
     * boxes of a sample (PST_OP_RANDOM_IOU_CROP), or normalise. */
    const struct pst_op *ops;
    size_t n_ops, op_nbytes;
};

/* How the images of a batch were mixed; pst_batch_mix gives it. The partner of row i is row i - 1,
 * that of row 0 the last row: torchvision's rule. */
struct pst_batch_mix {
    enum pst_mix_kind kind;
    /* The share that each row keeps of itself, 0..1: labels mix by it. With PST_MIX_CUTMIX it is
     * the share of the area outside of the rectangle. */
    float lambda;
    /* PST_MIX_CUTMIX: the rectangle, pixels. */
    uint32_t y, x, height, width;
    /* False: the batch lies on a GPU, and its images are still to be mixed so. */
    bool is_applied;
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
