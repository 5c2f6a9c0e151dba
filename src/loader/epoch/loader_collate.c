/* loader_collate.c - decides which fields of a batch are collated by batch_collate.c, and when.
 *
 * In: the options of a field, at open; later a job whose rows are all there. Out: how the slot
 * collates the field; the batch with its final arrays. The worker that finished the last row does
 * this after mixing, so the caller need not wait for it. If the host service made the batch, the
 * caller's thread does it. The rows of batches on a GPU are collated by their placement, with the
 * batch's other work there. No lock is held. */
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_mix.h"
#include "loader/loader_plan.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

/* Converts to IEEE half precision, rounding to nearest even. The caller passes |value| < 65520 or
 * an infinity. */
static uint16_t half_of(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    int exponent;
    if (isnan(value))
        return 0x7e00;
    if (isinf(value))
        return sign | 0x7c00;
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)nearbyintf(size * 0x1p24f));
    float fraction = frexpf(size, &exponent); /* 0.5 <= fraction < 1 */
    uint16_t digits = (uint16_t)nearbyintf(fraction * 2048);
    return (uint16_t)(sign | (uint16_t)(((exponent + 14) << 10) + digits - 1024));
}

static uint16_t bfloat_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* True if the value is a whole number from low to high. */
static bool is_whole(double value, double low, double high)
{
    return value >= low && value <= high && value == floor(value);
}

/* Writes one element with that value. False: the dtype cannot represent it. Works on little-endian
 * machines only, like the whole batch. */
static bool set_fill(enum pst_dtype dtype, double value, unsigned char fill[8])
{
    union {
        float f32;
        double f64;
        uint16_t half;
        int64_t number;
        uint64_t natural;
    } element = {0};
    bool has = true;
    switch (dtype) {
    case PST_DTYPE_F64:
        element.f64 = value;
        break;
    case PST_DTYPE_F32:
        has = !isfinite(value) || fabs(value) <= 0x1.fffffep127;
        element.f32 = has ? (float)value : 0;
        break;
    case PST_DTYPE_F16:
        has = !isfinite(value) || fabs(value) < 65520;
        element.half = has ? half_of((float)value) : 0;
        break;
    case PST_DTYPE_BF16:
        has = !isfinite(value) || fabs(value) <= 0x1.fep127;
        element.half = has ? bfloat_of((float)value) : 0;
        break;
    case PST_DTYPE_U64:
        has = is_whole(value, 0, 0x1.fffffffffffffp63);
        element.natural = has ? (uint64_t)value : 0;
        break;
    case PST_DTYPE_I8:
    case PST_DTYPE_I16:
    case PST_DTYPE_I32:
    case PST_DTYPE_I64: {
        double half = ldexp(1, (int)(8 * pst_dtype_nbytes(dtype)) - 1);
        has = is_whole(value, -half, half) && value < half;
        element.number = has ? (int64_t)value : 0;
        break;
    }
    default: {
        double end = dtype == PST_DTYPE_BOOL ? 2 : ldexp(1, (int)(8 * pst_dtype_nbytes(dtype)));
        has = is_whole(value, 0, end - 1);
        element.natural = has ? (uint64_t)value : 0;
        break;
    }
    }
    memcpy(fill, &element, 8);
    return has;
}

static bool can_collate(const struct psti_loader_plan_field *plan)
{
    return plan->fill == PSTI_LOADER_FILL_PIXELS || plan->fill == PSTI_LOADER_FILL_POINTS ||
           plan->fill == PSTI_LOADER_FILL_ARRAY || plan->fill == PSTI_LOADER_FILL_SOUND;
}

/* Sets the shape of a batch in which every row is empty. */
static void set_empty_shape(const struct psti_loader_plan_field *plan, struct psti_slot_field *slot)
{
    struct psti_slot_ragged *ragged = &slot->ragged;
    ragged->ndim = 1;
    if (plan->fill == PSTI_LOADER_FILL_POINTS) {
        ragged->ndim = 2;
        ragged->shape[1] = slot->type == PST_FIELD_BOXES ? 4 : 3;
    } else if (plan->fill == PSTI_LOADER_FILL_PIXELS) {
        ragged->ndim = 3;
        ragged->shape[ragged->planar ? 0 : 2] = plan->channels;
    } else if (plan->fill == PSTI_LOADER_FILL_SOUND) {
        ragged->ndim = 2;
        ragged->shape[0] = 1;
    }
}

enum pst_status psti_loader_collate_plan(const struct pst_field_output *wish,
                                         const struct psti_loader_plan_field *plan,
                                         struct psti_slot_field *slot, struct pst_error *err)
{
    struct psti_slot_ragged *ragged = &slot->ragged;
    const char *name = plan->field->name;
    bool pixels = plan->fill == PSTI_LOADER_FILL_PIXELS;
    if ((int)wish->ragged < 0 || wish->ragged > PST_RAGGED_OFFSETS)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "field '%s': ragged %d is unknown",
                         name, (int)wish->ragged);
    if (wish->ragged != PST_RAGGED_LIST && !can_collate(plan))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': rows of this type cannot be put together (ragged)", name);
    bool pads = wish->ragged == PST_RAGGED_PADDED;
    if ((wish->pad_multiple > 1 && !(pads && pixels)) || wish->pad_multiple > 1u << 16)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': pad_multiple is 1 to 65536, for images and masks that are "
                         "padded, not %u",
                         name, wish->pad_multiple);
    if (wish->pad_value != 0 && !pads)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': pad_value is for rows that are padded (ragged)", name);
    if (pads && !set_fill(slot->dtype, wish->pad_value, ragged->fill))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': pad_value %g is no value of dtype %s", name, wish->pad_value,
                         pst_dtype_name(slot->dtype));
    if (!slot->may_differ)
        return PST_OK;
    ragged->kind = wish->ragged;
    ragged->planar = pixels && plan->layout == PST_LAYOUT_CHW;
    ragged->multiple = wish->pad_multiple ? wish->pad_multiple : 1;
    slot->note_nbytes = pixels && pads ? PSTI_LOADER_NOTE_NBYTES : 0;
    set_empty_shape(plan, slot);
    slot->carried = can_collate(plan) && !pixels;
    return PST_OK;
}

enum pst_status psti_loader_collate(pst_loader *loader, pst_batch *batch, struct pst_error *err)
{
    const struct psti_placement_ops *ops = loader->placement.ops;
    return ops->carry ? ops->carry(loader, batch, err) : psti_batch_collate(batch, err);
}

void psti_loader_complete_job(pst_loader *loader, struct psti_loader_job *job)
{
    struct pst_error err;
    psti_loader_mix_job(loader, job);
    if (job->failed || job->starved)
        return;
    enum pst_status status = loader->plan.mosaics ? psti_loader_mosaic(loader, job, &err) : PST_OK;
    if (status == PST_OK)
        status = psti_loader_collate(loader, job->batch, &err);
    if (status == PST_OK)
        return;
    job->failure = err;
    job->starved = status == PST_ERROR_LIMIT;
    job->failed = !job->starved;
    job->failed_row = job->n_rows;
}
