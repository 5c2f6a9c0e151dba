/* augment_geometry.c - which operations move pixels, and whether two chains move them alike.
 *
 * In: operations as callers give them. Out: answers, and the chain of a field that follows another.
 * Pure, any thread. */
#include "augment/augment_inner.h"

bool psti_op_is_geometric(enum pst_op_kind kind)
{
    switch (kind) {
    case PST_OP_RESIZE:
    case PST_OP_CENTER_CROP:
    case PST_OP_RANDOM_CROP:
    case PST_OP_RANDOM_RESIZED_CROP:
    case PST_OP_HORIZONTAL_FLIP:
    case PST_OP_VERTICAL_FLIP:
    case PST_OP_PAD:
        return true;
    default:
        return false;
    }
}
