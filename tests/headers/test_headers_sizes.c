/* test_headers_sizes.c - what compiled programs rely on: sizes of public structs, public numbers.
 *
 * A struct whose size a caller states (struct_size, an element's size, an argument) may grow at its
 * end: change its number here, in the same commit. Any other change of a size, and any change of a
 * number, breaks programs and data sets. */
#include "test.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <string.h>

/* x86-64 and other LP64 machines, where pointers have 8 bytes. */
#define SIZES(X)                                                                                   \
    X(pst_allocator, 24) \
    X(pst_memory_stats, 16) \
    X(pst_error, 1144) \
    X(pst_image_info, 20) \
    X(pst_decode_options, 32) \
    X(pst_op, 472) \
    X(pst_mix, 48) \
    X(pst_batch_mix, 28) \
    X(pst_audio_op, 124) \
    X(pst_audio_info, 40) \
    X(pst_field, 192) \
    X(pst_item, 144) \
    X(pst_dataset_options, 112) \
    X(pst_field_output, 160) \
    X(pst_loader_options, 456) \
    X(pst_member, 56) \
    X(pst_cuda_info, 96) \
    X(pst_notice, 496) \
    X(pst_loader_state, 56) \
    X(pst_loader_settings, 24) \
    X(pst_tensor, 168) \
    X(pst_loader_stats, 1928) \
    X(pst_stage_clock, 64) \
    X(pst_step_times, 208) \
    X(pst_loader_meter, 1536) \
    X(pst_worker_clock, 72) \
    X(pst_index_options, 40) \
    X(pst_index_report, 64) \
    X(pst_member_rule, 56) \
    X(pst_mixture_source, 64) \
    X(pst_mixture_options, 32) \
    X(pst_cache_options, 16) \
    X(pst_cache_advice, 208) \
    X(pst_cache_stats, 40) \
    X(pst_cache_file_report, 56) \
    X(pst_cache_cost, 16) \
    X(pst_cache_plan_report, 32) \
    X(pst_cache_host_options, 48) \
    X(pst_images_options, 72) \
    X(pst_images_stats, 368) \
    X(pst_service_options, 48) \
    X(pst_service_status, 128) \
    X(pst_service_session, 1096) \
    X(pst_service_set, 1128) \
    X(pst_form_part, 16) \
    X(pst_tier_stats, 40) \
    X(pst_fleet_options, 48) \
    X(pst_fleet_stats, 136) \
    X(pst_fleet_server, 504) \
    X(pst_writer_options, 32) \
    X(pst_value, 88) \
    X(pst_sample, 32) \
    X(pst_progress, 64) \
    X(pst_pack_options, 152) \
    X(pst_pack_report, 160) \
    X(pst_verify_options, 64) \
    X(pst_verify_report, 72) \
    X(pst_pixels, 48) \
    X(pst_pli_encode_options, 40) \
    X(pst_pli_info, 160) \
    X(pst_pli_from_jpeg_options, 16) \
    X(pst_pli_region, 16) \
    X(pst_pli_range, 16)

#define ASSERT_SIZE(name, nbytes)                                                                  \
    _Static_assert(sizeof(struct name) == (nbytes), "the size of struct " #name " has changed");
#if UINTPTR_MAX == UINT64_MAX
SIZES(ASSERT_SIZE)
#endif

#define ASSERT_SIZE_FIRST(name)                                                                    \
    _Static_assert(offsetof(struct name, struct_size) == 0, #name " begins with struct_size");
ASSERT_SIZE_FIRST(pst_decode_options)
ASSERT_SIZE_FIRST(pst_sample)
ASSERT_SIZE_FIRST(pst_dataset_options)
ASSERT_SIZE_FIRST(pst_loader_options)
ASSERT_SIZE_FIRST(pst_index_options)
ASSERT_SIZE_FIRST(pst_mixture_options)
ASSERT_SIZE_FIRST(pst_cache_host_options)
ASSERT_SIZE_FIRST(pst_images_options)
ASSERT_SIZE_FIRST(pst_service_options)
ASSERT_SIZE_FIRST(pst_fleet_options)
ASSERT_SIZE_FIRST(pst_writer_options)
ASSERT_SIZE_FIRST(pst_pack_options)
ASSERT_SIZE_FIRST(pst_verify_options)
ASSERT_SIZE_FIRST(pst_pli_encode_options)
ASSERT_SIZE_FIRST(pst_pli_from_jpeg_options)

/* These numbers are written into data sets. */
_Static_assert(PST_FORM_RAW == 1 && PST_FORM_JPEG == 2 && PST_FORM_PNG == 3 && PST_FORM_WEBP == 4 &&
                   PST_FORM_PLI == 5 && PST_FORM_PLI_JPEG == 6 && PST_FORM_BYTES == 16,
               "forms are part of the format");
_Static_assert(PST_FIELD_IMAGE == 1 && PST_FIELD_MASK == 2 && PST_FIELD_BOXES == 3 &&
                   PST_FIELD_KEYPOINTS == 4 && PST_FIELD_AUDIO == 5 && PST_FIELD_INT == 6 &&
                   PST_FIELD_FLOAT == 7 && PST_FIELD_BYTES == 8 && PST_FIELD_TEXT == 9 &&
                   PST_FIELD_JSON == 10 && PST_FIELD_ARRAY == 11,
               "field types are part of the format");
_Static_assert(PST_DTYPE_U8 == 1 && PST_DTYPE_U16 == 2 && PST_DTYPE_I32 == 3 &&
                   PST_DTYPE_I64 == 4 && PST_DTYPE_F16 == 5 && PST_DTYPE_BF16 == 6 &&
                   PST_DTYPE_F32 == 7 && PST_DTYPE_F64 == 8 && PST_DTYPE_I8 == 9 &&
                   PST_DTYPE_I16 == 10 && PST_DTYPE_U32 == 11 && PST_DTYPE_U64 == 12 &&
                   PST_DTYPE_BOOL == 13,
               "dtypes are part of the format");

static void test_library_is_of_the_headers_version(void **state)
{
    char version[32];
    (void)state;
    snprintf(version, sizeof version, "%d.%d.%d", PST_VERSION_MAJOR, PST_VERSION_MINOR,
             PST_VERSION_PATCH);
    assert_string_equal(pst_version(), version);
}

/* The numbers that programs store must stand for the same names in the library. */
static void test_statuses_have_their_names(void **state)
{
    (void)state;
#define ASSERT_STATUS(name, number, text)                                                          \
    assert_int_equal(PST_##name, number);                                                          \
    assert_string_equal(pst_status_name((enum pst_status)(number)), "PST_" #name);
    PST_STATUS_LIST(ASSERT_STATUS)
    assert_string_equal(pst_status_name((enum pst_status)(-1)), "PST_UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library_is_of_the_headers_version),
        cmocka_unit_test(test_statuses_have_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
