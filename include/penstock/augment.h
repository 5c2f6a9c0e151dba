/* augment.h - operations on the pixels of a sample, as the loader applies them.
 *
 * A chain is an array of `struct pst_op`. Random parameters of an operation are a pure function of
 * (seed, epoch, sample, draw, view, operation) by Philox-4x32-10 (Salmon et al., SC 2011), so they
 * do not depend on threads, ranks, placement or resume. Three of these need a definition:
 * - draw: 0, unless weights, repeats or repeated indices can give a sample several times in an
 * epoch. Then it is the position in the epoch, so each appearance is augmented differently.
 * - view: 0, or the number of the view where a sample has several views (pst_field_output.as).
 * - operation: a number within the chain. Geometric operations (Resize to Pad, RandomIoUCrop to
 * RandomResize, flips and warps) are counted separately from colour operations, so adding a colour
 * operation does not change the geometry.
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
    /* Resizes to height x width. width 0: the shorter side becomes `height`, and the aspect ratio
     * is kept. */
    PST_OP_RESIZE = 1,
    /* Cuts height x width from the middle. A smaller image is first padded with `fill`. */
    PST_OP_CENTER_CROP = 2,
    /* Cuts height x width at a random place, after padding by pad[4]. A smaller image is an error
     * unless pad_if_needed is set. */
    PST_OP_RANDOM_CROP = 3,
    /* Cuts a random rectangle by scale[2] (part of the area) and ratio[2] (width / height) and
     * resizes it to height x width. After ten failed tries it takes the largest centred rectangle
     * within `ratio`, as torchvision does. */
    PST_OP_RANDOM_RESIZED_CROP = 4,
    /* Mirrors left and right with probability p (1 = always). */
    PST_OP_HORIZONTAL_FLIP = 5,
    PST_OP_VERTICAL_FLIP = 6, /* Mirrors top and bottom with probability p. */
    /* Pads by pad[4] = left, top, right, bottom pixels; pad_mode and fill say with what. */
    PST_OP_PAD = 7,
    /* Changes brightness, contrast, saturation and hue, each drawn from its range, in random order.
     */
    PST_OP_COLOR_JITTER = 8,
    /* With probability p, all channels become the BT.601 luma. */
    PST_OP_GRAYSCALE = 9,
    /* Computes (v / 255 - mean[c]) / std[c] for u8 and (v / 65535 - mean[c]) / std[c] for u16.
     * Reads mean, std, n_channels. It must be the last operation, or the last before
     * PST_OP_ERASING. */
    PST_OP_NORMALIZE = 10,
    /* The operations from here to PST_OP_SANITIZE_BOXES are for training detection and
     * segmentation. Random side lengths are rounded down, to at least 1 pixel.
     *
     * The crop of SSD (Liu et al., ECCV 2016) by torchvision's rule. It needs the sample's boxes.
     * Reads scale[2] (parts of the sides), ratio[2] (width / height), overlaps, n_overlaps, trials.
     */
    PST_OP_RANDOM_IOU_CROP = 11,
    /* With probability p, places the image at random on a canvas that is larger by a factor drawn
     * from scale[2]. Reads fill, mask_fill. */
    PST_OP_RANDOM_ZOOM_OUT = 12,
    /* Resizes to fit into height x width, keeps the aspect ratio, and pads on both sides, as YOLO
     * does. An odd pixel of padding goes to the right or the bottom. Also reads no_scale_up,
     * interpolation, no_antialias, fill, mask_fill. */
    PST_OP_LETTERBOX = 13,
    /* Resizes to the largest size that fits into height x width, times a random factor from
     * scale[2]. If height and width are 0, multiplies the image's own size by the factor. Also
     * reads interpolation, no_antialias. */
    PST_OP_SCALE_JITTER = 14,
    /* Resizes the shorter side to a random one of `sizes`, or to less if the longer side would
     * exceed max_size pixels (0: no limit). Also reads n_sizes, interpolation, no_antialias. */
    PST_OP_RANDOM_SHORTEST_SIZE = 15,
    /* Resizes the shorter side to a random length of sizes[0] to sizes[1] - 1 pixels, as
     * PST_OP_RESIZE does. Also reads interpolation, no_antialias. */
    PST_OP_RANDOM_RESIZE = 16,
    /* Maps the classes of masks by a table: labels, n_labels, other_label, keep_others. Images stay
     * as they are. */
    PST_OP_MAP_LABELS = 17,
    /* Drops boxes whose sides or area, in the picture as it is at this operation, are below
     * min_size or min_area, with the rows of other fields that belong to them. No pixels change.
     * The boxes' pst_field_output.min_area must then be 0 or 1, and the loader drops only boxes
     * without any area at the end. */
    PST_OP_SANITIZE_BOXES = 18,
    /* Leaves the image as it is. Used as one of the choices of PST_OP_RANDOM_CHOICE. */
    PST_OP_IDENTITY = 20,
    /* With probability p runs the next n_inner operations, else skips all of them. They must keep
     * the size of the image. */
    PST_OP_RANDOM_APPLY = 21,
    /* Runs one of the next n_inner operations: operation i with probability weights[i] / sum of the
     * weights. They must keep the size of the image. */
    PST_OP_RANDOM_CHOICE = 22,
    /* The operations from here to PST_OP_SHARPNESS change colours with probability p and leave
     * alpha as it is. Results equal those of torchvision on integer images. */
    PST_OP_INVERT = 23,       /* Each sample becomes full scale minus the sample. */
    PST_OP_POSTERIZE = 24,    /* Keeps the `bits` highest bits of each sample. */
    PST_OP_SOLARIZE = 25,     /* Inverts samples of at least `threshold`. */
    PST_OP_AUTOCONTRAST = 26, /* Stretches each channel to the full range. */
    PST_OP_EQUALIZE = 27,     /* Makes each channel's histogram flat, in 256 bins. */
    PST_OP_SHARPNESS = 28,    /* factor: 0 blurs, 1 changes nothing, 2 sharpens. */
    /* Blurs with a kernel of height x width taps, both odd, and a standard deviation drawn from
     * sigma[2]. Edges are mirrored. */
    PST_OP_GAUSSIAN_BLUR = 29,
    /* Rotates, shifts, scales and shears at random: degrees[2] clockwise, translate[2] (x, y as
     * parts of width and height), scale[2], shear[4] (x from, to, y from, to, in degrees). Also
     * reads fill, mask_fill and interpolation (nearest or bilinear). */
    PST_OP_AFFINE = 30,
    /* With probability p, applies a random perspective. Reads distortion, interpolation, fill,
     * mask_fill. */
    PST_OP_PERSPECTIVE = 31,
    /* Applies a random elastic displacement: alpha[2] and sigma[2] (x, y), interpolation, fill,
     * mask_fill. */
    PST_OP_ELASTIC = 32,
    /* With probability p, writes `fill`, or normal noise if `noise`, over a random rectangle
     * (scale[2], ratio[2]) of the finished row. The numbers are in the units of the delivered
     * array. It must be the last operation. */
    PST_OP_ERASING = 33,
    /* One operation of RandAugment (Cubuk et al., 2020). Reads magnitude, n_magnitudes,
     * interpolation, fill. This policy and the three below are for images only. */
    PST_OP_RAND_AUGMENT = 34,
    PST_OP_TRIVIAL_AUGMENT = 35, /* TrivialAugment (Mueller and Hutter, 2021): n_magnitudes. */
    PST_OP_AUTO_AUGMENT = 36,    /* AutoAugment (Cubuk et al., 2019): `policy`. */
    /* AugMix (Hendrycks et al., 2020). Reads magnitude (severity, 1 to 10), mixture_width,
     * chain_depth (0: drawn from 1 to 3), alpha[0] (for the Beta and the Dirichlet distribution),
     * all_ops. */
    PST_OP_AUGMIX = 37
};

/* Policy tables of AutoAugment, named by the data set that they were learnt on. A table has 25
 * pairs of operations, each with a probability and a magnitude. */
enum pst_auto_policy {
    PST_AUTO_POLICY_IMAGENET = 0, /* photographs of objects */
    PST_AUTO_POLICY_CIFAR10 = 1,  /* small photographs of objects */
    PST_AUTO_POLICY_SVHN = 2      /* house numbers */
};

#define PST_MAX_INNER 14      /* operations within one RANDOM_APPLY or RANDOM_CHOICE */
#define PST_MAX_OVERLAPS 16   /* most overlaps of PST_OP_RANDOM_IOU_CROP */
#define PST_MAX_SIZES 16      /* most sizes of PST_OP_RANDOM_SHORTEST_SIZE */
#define PST_MAX_LABELS 65536u /* maximum number of classes in the table of PST_OP_MAP_LABELS */

/* How values between pixels are computed. Coordinates are those of pixel centres. */
enum pst_interpolation {
    /* Output pixel i takes input pixel floor(i * n_from / n_to), in float32: torch's "nearest",
     * torchvision's NEAREST. The result is shifted by up to half a pixel. */
    PST_INTERPOLATION_NEAREST = 1,
    PST_INTERPOLATION_BILINEAR = 2,
    /* With antialias a = -0.5, as in PIL and torch. Without antialias a = -0.75 and edge pixels are
     * repeated, as in torch. */
    PST_INTERPOLATION_BICUBIC = 3,
    /* Takes the input pixel that contains the centre of the output pixel: torch's "nearest-exact",
     * torchvision's NEAREST_EXACT, PIL's NEAREST. */
    PST_INTERPOLATION_NEAREST_EXACT = 4
};

/* The values that fill the area beyond the edges of an image. */
enum pst_pad_mode {
    /* The member `fill` of the operation. */
    PST_PAD_CONSTANT = 0,
    /* The nearest pixel of the edge. */
    PST_PAD_EDGE = 1,
    /* The image mirrored, without repeating the edge pixels. */
    PST_PAD_REFLECT = 2,
    /* The image mirrored, with the edge pixels repeated. */
    PST_PAD_SYMMETRIC = 3
};

/* Views and repeats: several augmentations of one sample.
 *
 * Views. pst_field_output.as delivers views of an image under another name. A field may be listed
 * once as itself, and any number of times with `as`. Each entry has its own operations, and each
 * view its own random parameters. View 0 has the random parameters of the image itself. With
 * n_views > 0 the array is (N, n_views, C, H, W), and its first view has the number first_view.
 * With n_views 0 the entry is one view, (N, C, H, W). The operations must end in a fixed size.
 *
 * An image is decoded once for all its views if that decodes fewer pixels than decoding each view's
 * region separately. Masks, boxes and keypoints have no views. All views of a field must agree in
 * channels, bits, orientation, variants and forms. Views need batches in host memory, and exclude
 * `encoded` and scaled_decode.
 *
 * Repeats (Hoffer et al., "Augment your batch", CVPR 2020). With pst_loader_options.repeats = r, r
 * neighbouring positions of the order hold the same sample, each with its own draw. An epoch keeps
 * its number of positions, so it holds 1 / r of the samples; the epochs r * k to r * k + r - 1
 * together hold each sample r times. Not allowed with PST_ORDER_PAGES. */
#define PST_MAX_VIEWS 64 /* most views of a sample, over all fields */

/* One operation. `kind` says which members are read (see enum pst_op_kind); the others are ignored.
 * Call pst_op_init first: it sets the defaults of the kind. The loader takes an array of
 * operations, whose element size is pst_loader_options.op_nbytes.
 *
 * Colour operations and those from PST_OP_INVERT to PST_OP_AUGMIX, except PST_OP_ERASING, need the
 * whole picture in a worker's scratch memory: width * height pixels, twice for most of them. Put
 * them after the crop or resize, where the picture is small.
 *
 * Warps (PST_OP_AFFINE to PST_OP_ELASTIC) keep the size of the picture. Their maps are
 * torchvision's: the centre of pixel i is at i + 0.5, and the origin is the middle of the picture
 * unless `center` is given. Masks take the nearest pixel, and `mask_fill` outside of the picture. A
 * box becomes the smallest upright box around its warped corners. A keypoint moves with the
 * picture.
 *
 * RandomApply and RandomChoice are followed in the array by their n_inner inner operations. An
 * inner operation cannot be another RandomApply or RandomChoice.
 *
 * Policies choose operations at random from torchvision's list: Identity, ShearX, ShearY,
 * TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize,
 * AutoContrast and Equalize (AutoAugment also has Invert). Strengths grow linearly with the
 * magnitude, from 0 to n_magnitudes - 1. The largest strengths are
 *
 *     RandAugment, AutoAugment   shear 0.3 (tangent), shift 150 / 331 of the side, 30 degrees,
 *                                factors 1 - 0.9 to 1 + 0.9, 8 to 4 bits
 *     TrivialAugment             shear 0.99, shift 32 pixels, 135 degrees, factors 1 - 0.99 to
 *                                1 + 0.99, 8 to 2 bits
 *     AugMix                     shear 0.3, shift a third of the side, 30 degrees,
 *                                factors 1 - 0.9 to 1 + 0.9, 4 to 0 bits; magnitudes 0 to
 *                                severity - 1 of 10
 *
 * Operations whose strength has a sign draw it with equal probability. AugMix mixes the image and
 * mixture_width chains of operations. Dirichlet distributions with the parameter alpha[0] give the
 * share of the image and the shares of the chains.
 *
 * RandomIoUCrop draws one of `overlaps`, then tries up to `trials` random crops. A crop is taken if
 * it holds the centre of a box and its overlap (intersection over union) with one of these boxes is
 * at least the drawn number. An overlap of 1 or more leaves the picture as it is. If no crop was
 * taken, the overlap and the crops are drawn again, at most 100 times; then the picture stays as it
 * is. It also stays if it has no boxes with an area. A box whose centre is outside of the crop gets
 * area 0, so the loader drops it (pst_field_output.keep_boxes).
 *
 * MapLabels runs on the rows after crops, resizes and flips. Padding that comes before it is mapped
 * with the mask; padding after it is not, so `mask_fill` there is one of the new classes.
 *
 * RandomErasing writes to the finished row. It draws its rectangle by torchvision's rule, smaller
 * than the image on both sides, in at most ten tries. If none fits, nothing is erased. */
struct pst_op {
    enum pst_op_kind kind;
    uint32_t height, width;               /* size of the output in pixels */
    enum pst_interpolation interpolation; /* default bilinear */
    /* False (default): the filter is widened when an image shrinks, which avoids aliasing. */
    bool no_antialias;
    bool pad_if_needed; /* PST_OP_RANDOM_CROP: pad smaller images */
    enum pst_pad_mode pad_mode;
    /* Padding at left, top, right and bottom, in pixels. */
    uint32_t pad[4];
    /* Colour of padding per channel, in pixel values (0..255 or 0..65535). */
    float fill[4];
    /* Probability of the operation, 0..1; default 0.5 for flips. */
    float p;
    /* Ranges of area (or side) and of aspect ratio; defaults 0.08..1 and 3/4..4/3. */
    float scale[2], ratio[2];
    /* Ranges [lo, hi] that the factors are drawn from; 1,1 changes nothing. */
    float brightness[2], contrast[2], saturation[2];
    /* Range [lo, hi] of the hue shift, in turns of the colour circle, within -0.5..0.5; 0,0 changes
     * nothing. */
    float hue[2];
    /* Mean per channel of pixels scaled to 0..1; within 0..1. */
    float mean[4];
    float std[4]; /* Standard deviation per channel, above 0, at most 10. */
    /* Value of padding in masks that follow their image's chain; default 0. */
    float mask_fill;
    /* PST_OP_NORMALIZE: number of channels in mean and std, which must equal that of the pixels. 0:
     * taken from the pixels. */
    uint8_t n_channels;
    /* The members from here on belong to operations from PST_OP_IDENTITY on. */
    /* AFFINE to ELASTIC and policies: pixels outside of the picture count as 0, instead of `fill`.
     */
    bool no_blend;
    bool noise; /* PST_OP_ERASING */
    /* PST_OP_AUGMIX: also draw colour operations; default true. */
    bool all_ops;
    uint8_t bits;     /* PST_OP_POSTERIZE: bits to keep, 0..16 */
    uint32_t n_inner; /* PST_OP_RANDOM_APPLY, _CHOICE: 1..PST_MAX_INNER */
    /* PST_OP_RANDOM_CHOICE: weights of the inner operations, at least 0, not all 0; default 1. */
    float weights[PST_MAX_INNER];
    /* PST_OP_SOLARIZE: samples from this value on are inverted, 0..255; it is multiplied by 257 for
     * 16 bits. */
    float threshold;
    /* PST_OP_SHARPNESS: strength, 0 or more (0 blurs, 1 changes nothing); default 1. */
    float factor;
    /* Standard deviation of a Gaussian in pixels. PST_OP_GAUSSIAN_BLUR draws it from the range
     * sigma[0] to sigma[1]; PST_OP_ELASTIC uses sigma[0] for x and sigma[1] for y. */
    float sigma[2];
    /* PST_OP_AFFINE: range [lo, hi] of the rotation in degrees; default 0,0. */
    float degrees[2];
    /* PST_OP_AFFINE: largest shift t in x and y as parts of width and height, 0..1; the shift is
     * drawn from [-t, t]. */
    float translate[2];
    /* PST_OP_AFFINE: ranges of the shear in x (lo, hi) and y (lo, hi), degrees, within -89..89. */
    float shear[4];
    /* PST_OP_AFFINE: true if `center` is given; false: the origin is the middle of the image. */
    bool has_center;
    /* PST_OP_AFFINE: origin of the map, x and y in pixels of the image as it is at this operation.
     */
    float center[2];
    /* PST_OP_PERSPECTIVE: how far corners may move, as a part of half the sides, 0..1. */
    float distortion;
    /* PST_OP_ELASTIC: strength of the displacement in x and y. PST_OP_AUGMIX: alpha[0] is the
     * parameter of the Beta and the Dirichlet distribution. */
    float alpha[2];
    /* Policies: strength of the operations, 0..n_magnitudes - 1. */
    uint32_t magnitude;
    /* Policies: number of steps that strengths are divided into, 2 or more; default 31. */
    uint32_t n_magnitudes;
    /* PST_OP_AUGMIX: number of chains that are mixed, 1..8; default 3. */
    uint32_t mixture_width;
    /* PST_OP_AUGMIX: operations in a chain, 0..8; 0: drawn from 1 to 3. */
    uint32_t chain_depth;
    enum pst_auto_policy policy; /* PST_OP_AUTO_AUGMENT: which table */
    /* The members from here on belong to operations from PST_OP_RANDOM_IOU_CROP to
     * PST_OP_SANITIZE_BOXES. */
    /* RANDOM_IOU_CROP: number of crops that are tried for each overlap, 1..1000; default 40. */
    uint32_t trials;
    /* RANDOM_IOU_CROP: length of `overlaps`, 1..PST_MAX_OVERLAPS; default 7. */
    uint32_t n_overlaps;
    /* RANDOM_IOU_CROP: smallest overlaps to draw from, 0 or more; default 0, 0.1, 0.3, 0.5, 0.7,
     * 0.9, 1. */
    float overlaps[PST_MAX_OVERLAPS];
    /* RANDOM_SHORTEST_SIZE: length of `sizes`, 1..PST_MAX_SIZES. */
    uint32_t n_sizes;
    /* RANDOM_SHORTEST_SIZE, RANDOM_RESIZE: lengths of the shorter side, in pixels. */
    uint32_t sizes[PST_MAX_SIZES];
    /* RANDOM_SHORTEST_SIZE: most pixels of the longer side; 0: no limit. */
    uint32_t max_size;
    /* LETTERBOX: true pads a picture that is smaller on both sides without enlarging it. */
    bool no_scale_up;
    /* MAP_LABELS: true leaves classes from n_labels on as they are. False (default) maps them to
     * other_label. */
    bool keep_others;
    /* MAP_LABELS: the class that replaces classes outside of the table; default 255. */
    uint16_t other_label;
    /* SANITIZE_BOXES: shortest side that a box may have, in pixels; default 1. */
    float min_size;
    /* SANITIZE_BOXES: smallest area that a box may have, in square pixels; default 1. */
    float min_area;
    uint32_t n_labels; /* MAP_LABELS: 0..PST_MAX_LABELS */
    /* MAP_LABELS: table in which class i of a stored mask becomes labels[i]. Masks of 8 bits hold
     * classes up to 255. The caller's array of n_labels numbers; pst_loader_open copies it. */
    const uint16_t *labels;
};

/* Sets an operation to the defaults of its kind. Set the members that the kind reads afterwards.
 *
 * op: the caller's struct; all of it is overwritten.
 * op_nbytes: sizeof *op.
 * kind: which operation it is. An unknown number is stored as it is; pst_loader_open refuses it.
 *
 * Cannot fail. Any thread. */
void pst_op_init(struct pst_op *op, size_t op_nbytes, enum pst_op_kind kind);

/* Mixing the images of a batch (pst_loader_options.mixes)
 *
 * The thread that finishes a batch mixes its images when all rows are there, so the caller waits no
 * longer for the mixing. Each batch draws one of the ways, all with equal probability, and its
 * numbers. The draw is a function of seed, epoch and the position of the batch's first row.
 * Partners come from the same batch, so another number of ranks gives other pairs.
 *
 * A mosaic of a row is made of the row and of three rows of the batch, drawn with replacement. The
 * row lies top left, with its lower right corner at the centre point; the others lie right, below
 * and diagonally. Each row draws whether it becomes a mosaic, its point and its three partners, as
 * a function of seed, epoch, the position of the batch's first row and its own number in the batch.
 * Images and masks must have one size. A box is cut to its tile, and is dropped by min_area and
 * min_visibility (pst_field_output) unless keep_boxes is set; the rows of other fields that belong
 * to boxes go with them. Keypoints outside of their tile get visibility 0. Other fields keep the
 * row's own values. Batches must lie in host memory. A mosaic needs memory for a copy of a batch's
 * images and masks, which counts as host_memory. The four tiles of a mosaic are 0 top left, 1 top
 * right, 2 bottom left, 3 bottom right. For each tile the batch gives its rectangle and its source
 * (pst_field_output.gives_tiles).
 *
 * Operations may follow a mosaic (pst_mix.ops). They move the finished picture with its masks,
 * boxes and keypoints, keep its size, and also run on rows that become no mosaic. Their draws
 * depend on the same numbers as those of the mosaic. min_area and min_visibility are compared with
 * what is left of a box at the end.
 *
 * Labels are not mixed; the caller does that: row i counts with the share `lambda` as its own class
 * and with 1 - lambda as its partner's. Integer pixels are rounded.
 *
 * MixUp: Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018. CutMix: Yun et al.,
 * "CutMix: Regularization Strategy to Train Strong Classifiers", ICCV 2019. */
#define PST_MAX_MIXES 4    /* most ways in pst_loader_options.mixes */
#define PST_MOSAIC_TILES 4 /* number of samples in a mosaic */

/* Ways of mixing the images of a batch. */
enum pst_mix_kind {
    /* MixUp (Zhang et al., 2018): each image becomes lambda * image + (1 - lambda) * partner. */
    PST_MIX_MIXUP = 1,
    /* CutMix (Yun et al., 2019): a rectangle of the image is replaced by the partner's. */
    PST_MIX_CUTMIX = 2,
    /* Mosaic (Bochkovskiy et al., YOLOv4, 2020): four rows meet at a point. Boxes, keypoints and
     * masks move with the pixels. A loader with this way can have no other way of mixing. */
    PST_MIX_MOSAIC = 3
};

/* One way of mixing. The loader takes an array of ways, whose element size is
 * pst_loader_options.mix_nbytes. */
struct pst_mix {
    enum pst_mix_kind kind;
    /* Both parameters of the beta distribution from which lambda is drawn; above 0. */
    float alpha;
    /* PST_MIX_MOSAIC: probability that a row becomes a mosaic, above 0, up to 1; 0 = 1. */
    float p;
    /* PST_MIX_MOSAIC: range of the point where the tiles meet, on both axes, as a part of a canvas
     * with twice the sides of the picture: 0 <= centre[0] <= centre[1] <= 1; both 0 = 0.25 to 0.75.
     * The result is the middle of the canvas. */
    float centre[2];
    /* PST_MIX_MOSAIC: n_ops operations that follow the mosaic, of op_nbytes = sizeof(struct pst_op)
     * each; NULL, 0: none. The caller's array, which pst_loader_open copies. They need images of 8
     * or 16 bits. pst_loader_open gives PST_ERROR_ARGUMENT if one changes the size, normalises, or
     * needs the sample's boxes (PST_OP_RANDOM_IOU_CROP). It takes from host_memory what a copy of
     * a batch and the largest scratch of any draw need. */
    const struct pst_op *ops;
    size_t n_ops, op_nbytes;
};

/* How the images of a batch were mixed, as pst_batch_mix gives it. The partner of row i is row i -
 * 1, and that of row 0 is the last row, as in torchvision. */
struct pst_batch_mix {
    enum pst_mix_kind kind;
    /* Share of its own image that each row keeps, 0..1; labels should be mixed with it. With
     * PST_MIX_CUTMIX it is the part of the area outside of the rectangle. */
    float lambda;
    /* PST_MIX_CUTMIX: the replaced rectangle, in pixels. */
    uint32_t y, x, height, width;
    /* False: the batch lies on a GPU, and the caller must still mix its images. */
    bool is_applied;
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
