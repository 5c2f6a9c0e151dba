/* augment_kinds.c - answers that depend only on the kind of an operation: its name, whether it is a
 * policy, and whether it moves pixels.
 *
 * Pure functions, any thread. They are declared in augment.h. */
#include "augment/augment.h"

static const struct {
    enum pst_op_kind kind;
    const char *name;
} op_names[] = {
    {PST_OP_RESIZE, "Resize"},
    {PST_OP_CENTER_CROP, "CenterCrop"},
    {PST_OP_RANDOM_CROP, "RandomCrop"},
    {PST_OP_RANDOM_RESIZED_CROP, "RandomResizedCrop"},
    {PST_OP_HORIZONTAL_FLIP, "HorizontalFlip"},
    {PST_OP_VERTICAL_FLIP, "VerticalFlip"},
    {PST_OP_PAD, "Pad"},
    {PST_OP_COLOR_JITTER, "ColorJitter"},
    {PST_OP_GRAYSCALE, "Grayscale"},
    {PST_OP_NORMALIZE, "Normalize"},
    {PST_OP_RANDOM_IOU_CROP, "RandomIoUCrop"},
    {PST_OP_RANDOM_ZOOM_OUT, "RandomZoomOut"},
    {PST_OP_LETTERBOX, "Letterbox"},
    {PST_OP_SCALE_JITTER, "ScaleJitter"},
    {PST_OP_RANDOM_SHORTEST_SIZE, "RandomShortestSize"},
    {PST_OP_RANDOM_RESIZE, "RandomResize"},
    {PST_OP_MAP_LABELS, "MapLabels"},
    {PST_OP_SANITIZE_BOXES, "SanitizeBoxes"},
    {PST_OP_IDENTITY, "Identity"},
    {PST_OP_RANDOM_APPLY, "RandomApply"},
    {PST_OP_RANDOM_CHOICE, "RandomChoice"},
    {PST_OP_INVERT, "RandomInvert"},
    {PST_OP_POSTERIZE, "RandomPosterize"},
    {PST_OP_SOLARIZE, "RandomSolarize"},
    {PST_OP_AUTOCONTRAST, "RandomAutocontrast"},
    {PST_OP_EQUALIZE, "RandomEqualize"},
    {PST_OP_SHARPNESS, "RandomAdjustSharpness"},
    {PST_OP_GAUSSIAN_BLUR, "GaussianBlur"},
    {PST_OP_AFFINE, "RandomAffine"},
    {PST_OP_PERSPECTIVE, "RandomPerspective"},
    {PST_OP_ELASTIC, "ElasticTransform"},
    {PST_OP_ERASING, "RandomErasing"},
    {PST_OP_RAND_AUGMENT, "RandAugment"},
    {PST_OP_TRIVIAL_AUGMENT, "TrivialAugmentWide"},
    {PST_OP_AUTO_AUGMENT, "AutoAugment"},
    {PST_OP_AUGMIX, "AugMix"},
};

const char *psti_augment_op_name(enum pst_op_kind kind)
{
    for (size_t i = 0; i < sizeof op_names / sizeof op_names[0]; i++) {
        if (op_names[i].kind == kind)
            return op_names[i].name;
    }
    return "unknown operation";
}

bool psti_augment_op_is_policy(enum pst_op_kind kind)
{
    return kind >= PST_OP_RAND_AUGMENT && kind <= PST_OP_AUGMIX;
}

bool psti_augment_op_is_geometric(enum pst_op_kind kind)
{
    switch (kind) {
    case PST_OP_RESIZE:
    case PST_OP_CENTER_CROP:
    case PST_OP_RANDOM_CROP:
    case PST_OP_RANDOM_RESIZED_CROP:
    case PST_OP_HORIZONTAL_FLIP:
    case PST_OP_VERTICAL_FLIP:
    case PST_OP_PAD:
    case PST_OP_RANDOM_IOU_CROP:
    case PST_OP_RANDOM_ZOOM_OUT:
    case PST_OP_LETTERBOX:
    case PST_OP_SCALE_JITTER:
    case PST_OP_RANDOM_SHORTEST_SIZE:
    case PST_OP_RANDOM_RESIZE:
    case PST_OP_AFFINE:
    case PST_OP_PERSPECTIVE:
    case PST_OP_ELASTIC:
        return true;
    default:
        return false;
    }
}

bool psti_augment_op_loses_boxes(enum pst_op_kind kind)
{
    bool only_moves = kind == PST_OP_HORIZONTAL_FLIP || kind == PST_OP_VERTICAL_FLIP ||
                      kind == PST_OP_PAD || kind == PST_OP_RANDOM_ZOOM_OUT ||
                      kind == PST_OP_ELASTIC;
    return kind == PST_OP_SANITIZE_BOXES || (psti_augment_op_is_geometric(kind) && !only_moves);
}
