/* options_members.c - tables of the members of a loader's option structs: one row for each member,
 * in the order of the headers. options_others.c has the structs of other calls. Range checks, the
 * protocol of the host service, the Python binding and pst_describe read these tables.
 * tests/options compares them with the headers. */
#include "options/options_members.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/options.h"
#include "options/options_rows.h"

#include <penstock/loader.h>

#include <string.h>

#define OPTIONS struct pst_loader_options
#define FIELD struct pst_field_output
#define OP struct pst_op
#define AUDIO_OP struct pst_audio_op

static const struct pst_member options_members[] = {
    NUMBER(OPTIONS, struct_size, LAYOUT),
    LIMITED(OPTIONS, batch_size, JOB, 0, PSTI_BATCH_SIZE_MAX, 1),
    ENUM(OPTIONS, order, ORDER, PST_ORDER_PAGES),
    NUMBER(OPTIONS, seed, ORDER),
    NUMBER(OPTIONS, rank, JOB),
    LIMITED(OPTIONS, world_size, JOB, 0, UINT32_MAX, 1),
    NUMBER(OPTIONS, drop_last, JOB),
    LIMITED(OPTIONS, num_workers, JOB, 0, 1024, 0),
    LIMITED(OPTIONS, io_threads, READING, 0, 1024, 4),
    LIMITED(OPTIONS, prefetch, JOB, 0, 4096, 2),
    LIMITED(OPTIONS, host_memory, JOB, 0, 0x1p64, 0x1p32),
    ENUM(OPTIONS, on_error, JOB, PST_ON_ERROR_REPLACE),
    NUMBER(OPTIONS, max_errors, JOB),
    POINTER(OPTIONS, fields, ROWS),
    COUNT(OPTIONS, n_fields, ROWS),
    NUMBER(OPTIONS, only_listed, ORDER),
    POINTER(OPTIONS, indices, ORDER),
    COUNT(OPTIONS, n_indices, ORDER),
    POINTER(OPTIONS, weights, ORDER),
    NUMBER(OPTIONS, page_samples, ORDER),
    NUMBER(OPTIONS, window_pages, ORDER),
    ENUM(OPTIONS, storage, READING, PST_STORAGE_MEMORY),
    ENUM(OPTIONS, page_cache, READING, PST_PAGE_CACHE_DIRECT),
    LIMITED(OPTIONS, throttle_bytes_per_second, READING, 0, DBL_MAX, 0),
    LIMITED(OPTIONS, throttle_latency_seconds, READING, 0, DBL_MAX, 0),
    NUMBER(OPTIONS, no_verify, ORDER),
    NUMBER(OPTIONS, max_pixels, ORDER),
    ENUM(OPTIONS, placement, JOB, PST_PLACEMENT_DEVICE),
    NUMBER(OPTIONS, device, JOB),
    ENUM(OPTIONS, decode, JOB, PST_DECODE_GPU),
    LIMITED(OPTIONS, gpu_part, JOB, 0, 1, 0),
    NUMBER(OPTIONS, device_memory, JOB),
    ENUM(OPTIONS, on_empty, JOB, PST_ON_EMPTY_DELIVER),
    NUMBER(OPTIONS, no_epoch_padding, JOB),
    ENUM(OPTIONS, pin_memory, JOB, PST_PIN_ALWAYS),
    NUMBER(OPTIONS, field_nbytes, LAYOUT),
    NUMBER(OPTIONS, op_nbytes, LAYOUT),
    POINTER(OPTIONS, cache, JOB),
    ENUM(OPTIONS, cache_form, JOB, PST_CACHE_FORM_RAW),
    POINTER(OPTIONS, trace, JOB),
    POINTER(OPTIONS, cache_plan, JOB),
    COUNT(OPTIONS, n_cache_plan, JOB),
    POINTER(OPTIONS, share, JOB),
    POINTER(OPTIONS, socket, JOB),
    POINTER(OPTIONS, service, JOB),
    LIMITED(OPTIONS, share_wait_seconds, JOB, 0, 86400, 0),
    POINTER(OPTIONS, fleet, JOB),
    POINTER(OPTIONS, form_parts, JOB),
    COUNT(OPTIONS, n_form_parts, JOB),
    NUMBER(OPTIONS, form_part_nbytes, LAYOUT),
    POINTER(OPTIONS, form_field, JOB),
    ENUM(OPTIONS, form_choice, JOB, PST_FORM_CHOICE_MEASURED),
    ENUM(OPTIONS, cache_resolution, JOB, PST_CACHE_RESOLUTION_TRAINING),
    POINTER(OPTIONS, mixes, JOB),
    COUNT(OPTIONS, n_mixes, JOB),
    NUMBER(OPTIONS, mix_nbytes, LAYOUT),
    POINTER(OPTIONS, mix_field, JOB),
    NUMBER(OPTIONS, audio_op_nbytes, LAYOUT),
    LIMITED(OPTIONS, throttle_requests, READING, 0, 256, 0),
    NUMBER(OPTIONS, reserved, LAYOUT),
    NUMBER(OPTIONS, repeats, ORDER),
    POINTER(OPTIONS, interrupt, JOB),
    POINTER(OPTIONS, interrupt_ctx, JOB),
    POINTER(OPTIONS, source_weights, ORDER),
    POINTER(OPTIONS, source_firsts, ORDER),
    COUNT(OPTIONS, n_source_weights, ORDER),
    NUMBER(OPTIONS, source_quota, ORDER),
    ENUM(OPTIONS, source_stop, ORDER, PST_SOURCE_STOP_NEVER),
    ENUM(OPTIONS, cache_recode, JOB, PST_CACHE_RECODE_IDLE),
};

static const struct pst_member field_members[] = {
    POINTER(FIELD, name, ROWS),
    POINTER(FIELD, ops, ROWS),
    COUNT(FIELD, n_ops, ROWS),
    ENUM(FIELD, dtype, ROWS, PST_DTYPE_BOOL),
    ENUM(FIELD, layout, ROWS, PST_LAYOUT_CHW),
    NUMBER(FIELD, channels, ROWS),
    NUMBER(FIELD, bits, ROWS),
    NUMBER(FIELD, variant_mask, ROWS),
    NUMBER(FIELD, ignore_orientation, ROWS),
    NUMBER(FIELD, encoded, ROWS),
    NUMBER(FIELD, scaled_decode, ROWS),
    NUMBER(FIELD, own_geometry, ROWS),
    NUMBER(FIELD, form_mask, ROWS),
    ENUM(FIELD, made_for, ROWS, PST_MADE_FOR_STORED),
    NUMBER(FIELD, min_area, ROWS),
    NUMBER(FIELD, min_visibility, ROWS),
    NUMBER(FIELD, keep_boxes, ROWS),
    POINTER(FIELD, per_box_of, ROWS),
    NUMBER(FIELD, decode_audio, ROWS),
    POINTER(FIELD, audio_ops, ROWS),
    COUNT(FIELD, n_audio_ops, ROWS),
    POINTER(FIELD, as, ROWS),
    NUMBER(FIELD, n_views, ROWS),
    NUMBER(FIELD, first_view, ROWS),
    ENUM(FIELD, ragged, JOB, PST_RAGGED_OFFSETS),
    NUMBER(FIELD, pad_value, JOB),
    NUMBER(FIELD, pad_multiple, JOB),
    NUMBER(FIELD, n_points, ROWS),
    POINTER(FIELD, point_pairs, ROWS),
    COUNT(FIELD, n_point_pairs, ROWS),
    NUMBER(FIELD, says_pairs, ROWS),
    NUMBER(FIELD, gives_geometry, ROWS),
    NUMBER(FIELD, gives_tiles, ROWS),
};

static const struct pst_member op_members[] = {
    ENUM(OP, kind, ROWS, PST_OP_AUGMIX),
    NUMBER(OP, height, ROWS),
    NUMBER(OP, width, ROWS),
    ENUM(OP, interpolation, ROWS, PST_INTERPOLATION_NEAREST_EXACT),
    NUMBER(OP, no_antialias, ROWS),
    NUMBER(OP, pad_if_needed, ROWS),
    ENUM(OP, pad_mode, ROWS, PST_PAD_SYMMETRIC),
    ARRAY(OP, pad, ROWS),
    ARRAY(OP, fill, ROWS),
    NUMBER(OP, p, ROWS),
    ARRAY(OP, scale, ROWS),
    ARRAY(OP, ratio, ROWS),
    ARRAY(OP, brightness, ROWS),
    ARRAY(OP, contrast, ROWS),
    ARRAY(OP, saturation, ROWS),
    ARRAY(OP, hue, ROWS),
    ARRAY(OP, mean, ROWS),
    ARRAY(OP, std, ROWS),
    NUMBER(OP, mask_fill, ROWS),
    NUMBER(OP, n_channels, ROWS),
    NUMBER(OP, no_blend, ROWS),
    NUMBER(OP, noise, ROWS),
    NUMBER(OP, all_ops, ROWS),
    NUMBER(OP, bits, ROWS),
    NUMBER(OP, n_inner, ROWS),
    ARRAY(OP, weights, ROWS),
    NUMBER(OP, threshold, ROWS),
    NUMBER(OP, factor, ROWS),
    ARRAY(OP, sigma, ROWS),
    ARRAY(OP, degrees, ROWS),
    ARRAY(OP, translate, ROWS),
    ARRAY(OP, shear, ROWS),
    NUMBER(OP, has_center, ROWS),
    ARRAY(OP, center, ROWS),
    NUMBER(OP, distortion, ROWS),
    ARRAY(OP, alpha, ROWS),
    NUMBER(OP, magnitude, ROWS),
    NUMBER(OP, n_magnitudes, ROWS),
    NUMBER(OP, mixture_width, ROWS),
    NUMBER(OP, chain_depth, ROWS),
    ENUM(OP, policy, ROWS, PST_AUTO_POLICY_SVHN),
    NUMBER(OP, trials, ROWS),
    NUMBER(OP, n_overlaps, ROWS),
    ARRAY(OP, overlaps, ROWS),
    NUMBER(OP, n_sizes, ROWS),
    ARRAY(OP, sizes, ROWS),
    NUMBER(OP, max_size, ROWS),
    NUMBER(OP, no_scale_up, ROWS),
    NUMBER(OP, keep_others, ROWS),
    NUMBER(OP, other_label, ROWS),
    NUMBER(OP, min_size, ROWS),
    NUMBER(OP, min_area, ROWS),
    COUNT(OP, n_labels, ROWS),
    POINTER(OP, labels, ROWS),
};

static const struct pst_member audio_op_members[] = {
    ENUM(AUDIO_OP, kind, ROWS, PST_AUDIO_OP_DCT),
    NUMBER(AUDIO_OP, rate, ROWS),
    NUMBER(AUDIO_OP, n_samples, ROWS),
    ENUM(AUDIO_OP, if_short, ROWS, PST_AUDIO_SHORT_REPEAT),
    ARRAY(AUDIO_OP, range, ROWS),
    NUMBER(AUDIO_OP, p, ROWS),
    NUMBER(AUDIO_OP, mask_max, ROWS),
    NUMBER(AUDIO_OP, value, ROWS),
    NUMBER(AUDIO_OP, n_fft, ROWS),
    NUMBER(AUDIO_OP, win_length, ROWS),
    NUMBER(AUDIO_OP, hop_length, ROWS),
    NUMBER(AUDIO_OP, pad, ROWS),
    ENUM(AUDIO_OP, window, ROWS, PST_AUDIO_WINDOW_ONES),
    ENUM(AUDIO_OP, pad_mode, ROWS, PST_AUDIO_PAD_REPLICATE),
    NUMBER(AUDIO_OP, no_center, ROWS),
    NUMBER(AUDIO_OP, no_ortho, ROWS),
    NUMBER(AUDIO_OP, power, ROWS),
    ENUM(AUDIO_OP, normalized, ROWS, PST_AUDIO_NORMALIZED_FRAME_LENGTH),
    NUMBER(AUDIO_OP, n_mels, ROWS),
    NUMBER(AUDIO_OP, f_min, ROWS),
    NUMBER(AUDIO_OP, f_max, ROWS),
    ENUM(AUDIO_OP, mel_scale, ROWS, PST_AUDIO_MEL_SLANEY),
    ENUM(AUDIO_OP, mel_norm, ROWS, PST_AUDIO_MEL_NORM_SLANEY),
    NUMBER(AUDIO_OP, n_mfcc, ROWS),
    NUMBER(AUDIO_OP, multiplier, ROWS),
    NUMBER(AUDIO_OP, amin, ROWS),
    NUMBER(AUDIO_OP, ref, ROWS),
    NUMBER(AUDIO_OP, top_db, ROWS),
    NUMBER(AUDIO_OP, offset, ROWS),
    NUMBER(AUDIO_OP, filter_width, ROWS),
    NUMBER(AUDIO_OP, rolloff, ROWS),
};

const struct pst_member *psti_options_members(enum pst_struct which, size_t *n)
{
    switch (which) {
    case PST_STRUCT_LOADER_OPTIONS:
        *n = N_OF(options_members);
        return options_members;
    case PST_STRUCT_FIELD_OUTPUT:
        *n = N_OF(field_members);
        return field_members;
    case PST_STRUCT_OP:
        *n = N_OF(op_members);
        return op_members;
    case PST_STRUCT_AUDIO_OP:
        *n = N_OF(audio_op_members);
        return audio_op_members;
    default:
        return psti_options_others(which, n);
    }
}

enum pst_status pst_describe(enum pst_struct which, size_t i, struct pst_member *member,
                             size_t member_nbytes)
{
    size_t n;
    const struct pst_member *members = psti_options_members(which, &n);
    if (!members || !member)
        return PST_ERROR_ARGUMENT;
    if (i >= n)
        return PST_END;
    psti_struct_write(member, member_nbytes, &members[i], sizeof members[i]);
    return PST_OK;
}

/* Returns the element as a double; large 64-bit integers are rounded. */
static double number_of(const struct pst_member *member, const void *at)
{
    uint64_t bits = 0;
    float narrow;
    double wide;
    memcpy(&bits, at, member->nbytes); /* little-endian */
    if (member->kind == PST_MEMBER_FLOAT && member->nbytes == sizeof narrow) {
        memcpy(&narrow, at, sizeof narrow);
        return (double)narrow;
    }
    if (member->kind == PST_MEMBER_FLOAT) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (member->kind == PST_MEMBER_SIGNED || member->kind == PST_MEMBER_ENUM) {
        unsigned shift = 64 - 8 * member->nbytes;
        return (double)((int64_t)(bits << shift) >> shift);
    }
    return (double)bits;
}

static void set_number(const struct pst_member *member, void *at, double value)
{
    uint64_t bits = (uint64_t)value;
    float narrow = (float)value;
    if (member->kind != PST_MEMBER_FLOAT)
        memcpy(at, &bits, member->nbytes);
    else if (member->nbytes == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
}

enum pst_status psti_options_complete(enum pst_struct which, void *options, const char *room,
                                      struct pst_error *err)
{
    size_t n;
    const struct pst_member *members = psti_options_members(which, &n);
    for (const struct pst_member *at = members; at < members + n; at++) {
        char *place = (char *)options + at->offset;
        if (at->kind == PST_MEMBER_POINTER || at->use == PST_USE_LAYOUT)
            continue;
        for (uint32_t i = 0; i < at->count; i++) {
            double value = number_of(at, place + i * at->nbytes);
            if (value == 0 && at->zero_means != 0)
                set_number(at, place + i * at->nbytes, at->zero_means);
            else if (!(value >= at->low && value <= at->high))
                return psti_fail(err, PST_ERROR_ARGUMENT, room,
                                 "%s is %.15g: %.15g to %.15g are possible", at->name, value,
                                 at->low, at->high);
        }
    }
    return PST_OK;
}

uint32_t psti_options_digest(void)
{
    static const enum pst_struct all[] = {PST_STRUCT_LOADER_OPTIONS, PST_STRUCT_FIELD_OUTPUT,
                                          PST_STRUCT_OP, PST_STRUCT_AUDIO_OP};
    uint64_t digest = 0;
    for (size_t k = 0; k < N_OF(all); k++) {
        size_t n;
        const struct pst_member *members = psti_options_members(all[k], &n);
        for (size_t i = 0; i < n; i++) {
            const struct pst_member *at = &members[i];
            const uint64_t facts[] = {digest,     psti_hash64(at->name, strlen(at->name)),
                                      at->kind,   at->use,
                                      at->nbytes, at->count};
            digest = psti_hash64(facts, sizeof facts);
        }
    }
    return (uint32_t)digest;
}
