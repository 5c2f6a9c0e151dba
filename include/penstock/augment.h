/* augment.h - operations on the pixels of a sample, as the loader applies them.
 *
 * A chain is an array of `struct pst_op`. Random parameters of an operation are a pure function of
 * (seed, epoch, sample, draw, view, operation) by Philox-4x32-10 (Salmon et al., SC 2011), so they
 * do not depend on threads, ranks, placement or resume. `draw` is 0; where weights or repeated
 * indices may give a sample several times in an epoch it is the position in the epoch, so that each
 * time is augmented differently. `view` is 0: each sample is asked for once. Geometric operations
 * (Resize to Pad below, flips included) are numbered among themselves, so colour operations between
 * them change nothing. pst_loader_state.augment_version is the version of this rule. */
#ifndef PENSTOCK_AUGMENT_H
#define PENSTOCK_AUGMENT_H

#include <penstock/image.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum pst_op_kind {
    PST_OP_RESIZE = 1,      /* height, width; width 0: the shorter side becomes `height` */
    PST_OP_CENTER_CROP = 2, /* height, width; a smaller image is padded with `fill` first */
    PST_OP_RANDOM_CROP = 3, /* height, width, pad[4] applied first; a smaller image is an error
                               unless pad_if_needed */
    PST_OP_RANDOM_RESIZED_CROP = 4, /* height, width, scale[2], ratio[2]; ten tries, then the
                                    largest centred crop within `ratio`: the rule of torchvision */
    PST_OP_HORIZONTAL_FLIP = 5,     /* with probability p (1 = always) */
    PST_OP_VERTICAL_FLIP = 6,       /* with probability p */
    PST_OP_PAD = 7,                 /* pad[4] = left, top, right, bottom, by pad_mode and fill */
    PST_OP_COLOR_JITTER = 8, /* brightness, contrast, saturation, hue: ranges; random order */
    PST_OP_GRAYSCALE = 9,    /* with probability p; BT.601 luma in all channels */
    PST_OP_NORMALIZE = 10    /* (v / 255 - mean[c]) / std[c], (v / 65535 - ...) for u16; last;
                                mean, std, n_channels */
};

enum pst_interpolation {
    PST_INTERPOLATION_NEAREST = 1, /* pixel floor(i * n_from / n_to), in float32: torch's "nearest"
                                      and torchvision's NEAREST, half a pixel aside */
    PST_INTERPOLATION_BILINEAR = 2,
    PST_INTERPOLATION_BICUBIC = 3, /* a = -0.5, as PIL and torch have it with antialias; without
                                      antialias a = -0.75 and edges repeated, as torch has it */
    PST_INTERPOLATION_NEAREST_EXACT = 4 /* the pixel that holds the output's centre: torch's
                                           "nearest-exact", torchvision's NEAREST_EXACT, PIL's
                                           NEAREST */
};

enum pst_pad_mode {
    PST_PAD_CONSTANT = 0,
    PST_PAD_EDGE = 1,
    PST_PAD_REFLECT = 2, /* without repeating the edge */
    PST_PAD_SYMMETRIC = 3
};

/* One operation: `kind` and the members that it names above; the others are ignored. Prepare it
 * with pst_op_init, which fills in the defaults of that kind. */
struct pst_op {
    enum pst_op_kind kind;
    uint32_t height, width;               /* output size, pixels */
    enum pst_interpolation interpolation; /* default bilinear */
    bool no_antialias;                    /* default false: widen the filter when shrinking */
    bool pad_if_needed;                   /* PST_OP_RANDOM_CROP */
    enum pst_pad_mode pad_mode;
    uint32_t pad[4];          /* left, top, right, bottom, pixels */
    float fill[4];            /* per channel, in units of the pixels (0..255 or 0..65535) */
    float p;                  /* probability, 0..1; default 0.5 for flips */
    float scale[2], ratio[2]; /* default 0.08..1, 3/4..4/3 */
    float brightness[2], contrast[2], saturation[2]; /* factors drawn from [lo, hi]; 1,1 = leave */
    float hue[2];       /* shift in turns drawn from [lo, hi], within -0.5..0.5; 0,0 = leave */
    float mean[4];      /* per channel, of pixels scaled to 0..1; within 0..1 */
    float std[4];       /* the same; above 0, to 10 */
    float mask_fill;    /* `fill` of masks that follow the chain of their image; default 0 */
    uint8_t n_channels; /* PST_OP_NORMALIZE: so many channels mean and std are for, and the pixels
                           must have; 0 = as many as these have */
};

/* Fills `op` with the defaults of `kind`. An unknown kind is left for the loader to refuse. */
void pst_op_init(struct pst_op *op, size_t op_nbytes, enum pst_op_kind kind);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
