/* options_others.c - tables of the members of all option structs that do not belong to a loader, in
 * the order of the headers. pst_describe and the range checks of these calls read them. Here, ROWS
 * means what is decoded or stored, and ORDER which samples there are. */
#include "options/options_rows.h"

#include <penstock/cache.h>
#include <penstock/dataset.h>
#include <penstock/fleet.h>
#include <penstock/image.h>
#include <penstock/images.h>
#include <penstock/index.h>
#include <penstock/mixture.h>
#include <penstock/pli.h>
#include <penstock/service.h>
#include <penstock/writer.h>

#define CACHE struct pst_cache_options
#define HOST struct pst_cache_host_options
#define DATASET struct pst_dataset_options
#define FLEET struct pst_fleet_options
#define DECODE struct pst_decode_options
#define IMAGES struct pst_images_options
#define INDEX struct pst_index_options
#define MIXTURE struct pst_mixture_options
#define PLI struct pst_pli_encode_options
#define FROM_JPEG struct pst_pli_from_jpeg_options
#define SERVICE struct pst_service_options
#define WRITER struct pst_writer_options
#define PACK struct pst_pack_options
#define VERIFY struct pst_verify_options

static const struct pst_member cache_members[] = {
    NUMBER(CACHE, struct_size, LAYOUT),
    LIMITED(CACHE, nbytes, JOB, 1048576, 0x1p63, 0),
};

static const struct pst_member host_members[] = {
    NUMBER(HOST, struct_size, LAYOUT), POINTER(HOST, socket, JOB),
    POINTER(HOST, program, JOB),       POINTER(HOST, interrupt, JOB),
    POINTER(HOST, interrupt_ctx, JOB), NUMBER(HOST, strict, JOB),
    NUMBER(HOST, later, JOB),
};

static const struct pst_member dataset_members[] = {
    NUMBER(DATASET, struct_size, LAYOUT),
    POINTER(DATASET, labels, ROWS),
    NUMBER(DATASET, allow_unreadable, ORDER),
    NUMBER(DATASET, no_folder, JOB),
    POINTER(DATASET, masks, ROWS),
    COUNT(DATASET, n_masks, ROWS),
    POINTER(DATASET, files, ORDER),
    COUNT(DATASET, n_files, ORDER),
    NUMBER(DATASET, ignore_labels, ROWS),
    POINTER(DATASET, split, ORDER),
    POINTER(DATASET, members, ROWS),
    COUNT(DATASET, n_members, ROWS),
    NUMBER(DATASET, sums, JOB),
    NUMBER(DATASET, check_files, JOB),
    POINTER(DATASET, progress, JOB),
    POINTER(DATASET, progress_ctx, JOB),
};

static const struct pst_member fleet_members[] = {
    NUMBER(FLEET, struct_size, LAYOUT),
    POINTER(FLEET, servers, JOB),
    LIMITED(FLEET, timeout_seconds, JOB, 0.01, 60, 1),
    LIMITED(FLEET, max_item_nbytes, JOB, 4096, 0x1p30, 32768),
    POINTER(FLEET, auth_file, JOB),
    ENUM(FLEET, auth, JOB, PST_FLEET_AUTH_SASL),
};

static const struct pst_member decode_members[] = {
    NUMBER(DECODE, struct_size, LAYOUT),
    LIMITED(DECODE, channels, ROWS, 0, 4, 0),
    LIMITED(DECODE, bits, ROWS, 0, 16, 0),
    NUMBER(DECODE, ignore_orientation, ROWS),
    NUMBER(DECODE, palette_indices, ROWS),
    LIMITED(DECODE, max_pixels, JOB, 0, 0x1p64, 0x1p28),
    LIMITED(DECODE, orientation, ROWS, 0, 8, 0),
};

static const struct pst_member images_members[] = {
    NUMBER(IMAGES, struct_size, LAYOUT),
    POINTER(IMAGES, field, ROWS),
    POINTER(IMAGES, cache, JOB),
    ENUM(IMAGES, cache_form, JOB, PST_CACHE_FORM_RAW),
    LIMITED(IMAGES, channels, ROWS, 0, 4, 0),
    ENUM(IMAGES, color, ROWS, PST_COLOR_BGR),
    NUMBER(IMAGES, ignore_orientation, ROWS),
    NUMBER(IMAGES, keep_bits, ROWS),
    NUMBER(IMAGES, no_verify, READING),
    POINTER(IMAGES, cache_plan, JOB),
    COUNT(IMAGES, n_cache_plan, JOB),
    POINTER(IMAGES, interrupt, JOB),
    POINTER(IMAGES, interrupt_ctx, JOB),
};

static const struct pst_member index_members[] = {
    NUMBER(INDEX, struct_size, LAYOUT), POINTER(INDEX, source, ORDER), NUMBER(INDEX, check, JOB),
    NUMBER(INDEX, reserved, LAYOUT),    NUMBER(INDEX, part, JOB),      NUMBER(INDEX, n_parts, JOB),
    NUMBER(INDEX, merge, JOB),
};

static const struct pst_member mixture_members[] = {
    NUMBER(MIXTURE, struct_size, LAYOUT),
    POINTER(MIXTURE, fields, ROWS),
    COUNT(MIXTURE, n_fields, ROWS),
    ENUM(MIXTURE, lacking, ROWS, PST_LACKING_LEAVE_OUT),
};

static const struct pst_member pli_members[] = {
    NUMBER(PLI, struct_size, LAYOUT),    ENUM(PLI, tier, ROWS, PST_PLI_TIER_DENSE),
    LIMITED(PLI, effort, ROWS, 1, 5, 3), LIMITED(PLI, max_error, ROWS, 0, 127, 0),
    NUMBER(PLI, no_checksum, ROWS),      POINTER(PLI, run, JOB),
    POINTER(PLI, run_ctx, JOB),
};

static const struct pst_member from_jpeg_members[] = {
    NUMBER(FROM_JPEG, struct_size, LAYOUT),
    LIMITED(FROM_JPEG, unit_edge, ROWS, 0, 256, 0),
    NUMBER(FROM_JPEG, no_checksum, ROWS),
};

static const struct pst_member service_members[] = {
    NUMBER(SERVICE, struct_size, LAYOUT),
    POINTER(SERVICE, socket, JOB),
    LIMITED(SERVICE, cache_nbytes, JOB, 0, 0x1p63, 0),
    NUMBER(SERVICE, n_threads, JOB),
    LIMITED(SERVICE, linger_s, JOB, 0, UINT32_MAX, 600),
    NUMBER(SERVICE, keep, JOB),
    POINTER(SERVICE, numa, JOB),
};

static const struct pst_member writer_members[] = {
    NUMBER(WRITER, struct_size, LAYOUT),
    ENUM(WRITER, mode, JOB, PST_WRITER_APPEND),
    LIMITED(WRITER, shard_nbytes, ROWS, 0, 0x1p64, 0x1p30),
    LIMITED(WRITER, commit_nbytes, JOB, 0, 0x1p64, 0x1p28),
};

static const struct pst_member pack_members[] = {
    NUMBER(PACK, struct_size, LAYOUT),
    POINTER(PACK, writer, JOB),
    POINTER(PACK, source, ORDER),
    POINTER(PACK, forms, ROWS),
    COUNT(PACK, n_forms, ROWS),
    NUMBER(PACK, num_workers, JOB),
    NUMBER(PACK, verify_pixels, ROWS),
    POINTER(PACK, progress, JOB),
    POINTER(PACK, bad_sample, JOB),
    POINTER(PACK, ctx, JOB),
    POINTER(PACK, mask_forms, ROWS),
    COUNT(PACK, n_mask_forms, ROWS),
    ENUM(PACK, pli_tier, ROWS, PST_PLI_TIER_DENSE),
    LIMITED(PACK, pli_effort, ROWS, 0, 5, 0),
    LIMITED(PACK, pli_max_error, ROWS, 0, 127, 0),
    NUMBER(PACK, pli_of_lossy, ROWS),
    POINTER(PACK, kept_jpeg, JOB),
    POINTER(PACK, source_opened, JOB),
    ENUM(PACK, made_for, ROWS, PST_MADE_FOR_STORED),
    NUMBER(PACK, add_classes, ROWS),
    POINTER(PACK, plan, ROWS),
    NUMBER(PACK, resize, ROWS),
    NUMBER(PACK, part, JOB),
    NUMBER(PACK, n_parts, JOB),
    NUMBER(PACK, prepare, JOB),
};

static const struct pst_member verify_members[] = {
    NUMBER(VERIFY, struct_size, LAYOUT), NUMBER(VERIFY, decode, JOB),
    NUMBER(VERIFY, num_workers, JOB),    POINTER(VERIFY, progress, JOB),
    POINTER(VERIFY, bad_sample, JOB),    POINTER(VERIFY, ctx, JOB),
    NUMBER(VERIFY, restore, JOB),        POINTER(VERIFY, source, ORDER),
    NUMBER(VERIFY, part, JOB),           NUMBER(VERIFY, n_parts, JOB),
};

const struct pst_member *psti_options_others(enum pst_struct which, size_t *n)
{
    static const struct {
        enum pst_struct which;
        const struct pst_member *members;
        size_t n;
    } tables[] = {
        {PST_STRUCT_CACHE_OPTIONS, cache_members, N_OF(cache_members)},
        {PST_STRUCT_CACHE_HOST_OPTIONS, host_members, N_OF(host_members)},
        {PST_STRUCT_DATASET_OPTIONS, dataset_members, N_OF(dataset_members)},
        {PST_STRUCT_FLEET_OPTIONS, fleet_members, N_OF(fleet_members)},
        {PST_STRUCT_DECODE_OPTIONS, decode_members, N_OF(decode_members)},
        {PST_STRUCT_IMAGES_OPTIONS, images_members, N_OF(images_members)},
        {PST_STRUCT_PLI_ENCODE_OPTIONS, pli_members, N_OF(pli_members)},
        {PST_STRUCT_PLI_FROM_JPEG_OPTIONS, from_jpeg_members, N_OF(from_jpeg_members)},
        {PST_STRUCT_SERVICE_OPTIONS, service_members, N_OF(service_members)},
        {PST_STRUCT_WRITER_OPTIONS, writer_members, N_OF(writer_members)},
        {PST_STRUCT_PACK_OPTIONS, pack_members, N_OF(pack_members)},
        {PST_STRUCT_VERIFY_OPTIONS, verify_members, N_OF(verify_members)},
        {PST_STRUCT_INDEX_OPTIONS, index_members, N_OF(index_members)},
        {PST_STRUCT_MIXTURE_OPTIONS, mixture_members, N_OF(mixture_members)},
    };
    for (size_t i = 0; i < N_OF(tables); i++) {
        if (tables[i].which != which)
            continue;
        *n = tables[i].n;
        return tables[i].members;
    }
    *n = 0;
    return NULL;
}
