/* test_options_members.c - the tables of members have a row for each member of the structs, as
 * tests/headers/abi.txt lists them, which scripts/check_abi.py makes from the headers. Numbers are
 * checked and completed by the tables. What is a job's own is listed here, with the reason, so that
 * a member which decides about rows is not declared one by mistake.
 *
 * The argument is the path of abi.txt. */
#include "test.h"

#include "options/options_members.h"

#include <penstock/fleet.h>
#include <penstock/loader.h>
#include <penstock/writer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *abi_path;

static const struct {
    enum pst_struct which;
    const char *name;
} structs[] = {{PST_STRUCT_LOADER_OPTIONS, "pst_loader_options"},
               {PST_STRUCT_FIELD_OUTPUT, "pst_field_output"},
               {PST_STRUCT_OP, "pst_op"},
               {PST_STRUCT_AUDIO_OP, "pst_audio_op"},
               {PST_STRUCT_CACHE_OPTIONS, "pst_cache_options"},
               {PST_STRUCT_CACHE_HOST_OPTIONS, "pst_cache_host_options"},
               {PST_STRUCT_DATASET_OPTIONS, "pst_dataset_options"},
               {PST_STRUCT_FLEET_OPTIONS, "pst_fleet_options"},
               {PST_STRUCT_DECODE_OPTIONS, "pst_decode_options"},
               {PST_STRUCT_IMAGES_OPTIONS, "pst_images_options"},
               {PST_STRUCT_PLI_ENCODE_OPTIONS, "pst_pli_encode_options"},
               {PST_STRUCT_PLI_FROM_JPEG_OPTIONS, "pst_pli_from_jpeg_options"},
               {PST_STRUCT_SERVICE_OPTIONS, "pst_service_options"},
               {PST_STRUCT_WRITER_OPTIONS, "pst_writer_options"},
               {PST_STRUCT_PACK_OPTIONS, "pst_pack_options"},
               {PST_STRUCT_VERIFY_OPTIONS, "pst_verify_options"},
               {PST_STRUCT_INDEX_OPTIONS, "pst_index_options"},
               {PST_STRUCT_MIXTURE_OPTIONS, "pst_mixture_options"}};
/* The first N_OF_LOADER structs belong to a loader. */
enum { N_STRUCTS = sizeof structs / sizeof structs[0], N_OF_LOADER = 4 };

/* Returns the value of the last enumerator of the enum. */
static double last_of(const char *name)
{
    FILE *file = fopen(abi_path, "r");
    char line[512], got[128];
    long value;
    double last = -1;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "enumerator %127s %*s %ld", got, &value) == 2 && strcmp(got, name) == 0 &&
            (double)value > last)
            last = (double)value;
    fclose(file);
    return last;
}

static void check_kind(const struct pst_member *member, const char *type)
{
    if (strncmp(type, "enum ", 5) == 0) {
        assert_int_equal(member->kind, PST_MEMBER_ENUM);
        assert_true(member->high == last_of(type + 5));
    } else if (strchr(type, '*') || strstr(type, "_fn") == type + strlen(type) - 3) {
        assert_int_equal(member->kind, PST_MEMBER_POINTER);
    } else if (strncmp(type, "bool", 4) == 0) {
        assert_int_equal(member->kind, PST_MEMBER_BOOL);
    } else if (strncmp(type, "float", 5) == 0 || strncmp(type, "double", 6) == 0) {
        assert_int_equal(member->kind, PST_MEMBER_FLOAT);
    } else if (strncmp(type, "int", 3) == 0) {
        assert_int_equal(member->kind, PST_MEMBER_SIGNED);
    } else if (member->kind != PST_MEMBER_COUNT) {
        assert_int_equal(member->kind, PST_MEMBER_UNSIGNED);
    }
    const char *array = strchr(type, '[');
    assert_int_equal(member->count, array ? atoi(array + 1) : 1);
}

/* Compares the table with the lines of abi.txt. Returns how many members the struct has. */
static size_t compare(enum pst_struct which, const char *name)
{
    FILE *file = fopen(abi_path, "r");
    char line[512], wanted[64], got[128], type[128];
    size_t i = 0;
    assert_non_null(file);
    snprintf(wanted, sizeof wanted, "%s.", name);
    while (fgets(line, sizeof line, file)) {
        unsigned offset, nbytes;
        struct pst_member member;
        if (sscanf(line, "member %127s at %u, %u bytes, %127[^\n]", got, &offset, &nbytes, type) !=
                4 ||
            strncmp(got, wanted, strlen(wanted)) != 0)
            continue;
        if (pst_describe(which, i, &member, sizeof member) != PST_OK ||
            strcmp(member.name, got + strlen(wanted)) != 0)
            fail_msg("%s has no row, or another place in the table", got);
        assert_int_equal(member.offset, offset);
        assert_int_equal(member.nbytes * member.count, nbytes);
        check_kind(&member, type);
        i++;
    }
    fclose(file);
    return i;
}

static void each_member_has_a_row(void **state)
{
    (void)state;
    for (int k = 0; k < N_STRUCTS; k++) {
        struct pst_member member;
        size_t n = compare(structs[k].which, structs[k].name), n_rows;
        assert_true(n > 1);
        assert_non_null(psti_options_members(structs[k].which, &n_rows));
        assert_int_equal(n_rows, n);
        assert_int_equal(pst_describe(structs[k].which, n, &member, sizeof member), PST_END);
    }
}

static bool is_listed(const char *name)
{
    for (int k = 0; k < N_STRUCTS; k++)
        if (strcmp(structs[k].name, name) == 0)
            return true;
    return false;
}

/* There is a table for each struct of options in the headers. */
static void each_struct_of_options_has_a_table(void **state)
{
    FILE *file = fopen(abi_path, "r");
    char line[512], name[128];
    unsigned n = 0;
    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "struct %127s %*u", name) != 1 || strlen(name) < 8 ||
            strcmp(name + strlen(name) - 8, "_options") != 0)
            continue;
        if (!is_listed(name))
            fail_msg("%s has no table", name);
        n++;
    }
    fclose(file);
    assert_true(n >= 14);
}

/* Each member that counts an array belongs to the pointer of that name. */
static void each_count_has_its_pointer(void **state)
{
    (void)state;
    for (int k = 0; k < N_STRUCTS; k++) {
        size_t n;
        const struct pst_member *members = psti_options_members(structs[k].which, &n);
        for (size_t i = 0; i < n; i++) {
            if (members[i].kind != PST_MEMBER_COUNT)
                continue;
            assert_int_equal(strncmp(members[i].name, "n_", 2), 0);
            bool found = false;
            for (size_t other = 0; other < n; other++)
                found |= members[other].kind == PST_MEMBER_POINTER &&
                         members[other].use == members[i].use &&
                         strcmp(members[other].name, members[i].name + 2) == 0;
            if (!found)
                fail_msg("%s: there is no such pointer", members[i].name);
        }
    }
}

/* Members that are not sent to the host service, because each job acts on them itself. */
static const struct {
    enum pst_struct which;
    const char *name, *reason;
} own[] = {
    {PST_STRUCT_LOADER_OPTIONS, "batch_size", "a job cuts its batches out of extents"},
    {PST_STRUCT_LOADER_OPTIONS, "rank", "a job takes its part of the positions"},
    {PST_STRUCT_LOADER_OPTIONS, "world_size", "as rank"},
    {PST_STRUCT_LOADER_OPTIONS, "drop_last", "where an epoch ends"},
    {PST_STRUCT_LOADER_OPTIONS, "no_epoch_padding", "where an epoch ends"},
    {PST_STRUCT_LOADER_OPTIONS, "num_workers", "threads of a job that makes rows itself"},
    {PST_STRUCT_LOADER_OPTIONS, "prefetch", "how far a job is ahead"},
    {PST_STRUCT_LOADER_OPTIONS, "host_memory", "a job's own memory"},
    {PST_STRUCT_LOADER_OPTIONS, "on_error", "extents that lack a sample are not shared"},
    {PST_STRUCT_LOADER_OPTIONS, "max_errors", "as on_error"},
    {PST_STRUCT_LOADER_OPTIONS, "on_empty", "as on_error"},
    {PST_STRUCT_LOADER_OPTIONS, "placement", "a job uploads what CPUs made"},
    {PST_STRUCT_LOADER_OPTIONS, "device", "as placement"},
    {PST_STRUCT_LOADER_OPTIONS, "decode", "GPU is refused with share"},
    {PST_STRUCT_LOADER_OPTIONS, "gpu_part", "a GPU decodes nothing with share"},
    {PST_STRUCT_LOADER_OPTIONS, "device_memory", "as placement"},
    {PST_STRUCT_LOADER_OPTIONS, "pin_memory", "a job's own memory"},
    {PST_STRUCT_LOADER_OPTIONS, "cache", "pixels are the same with any cache"},
    {PST_STRUCT_LOADER_OPTIONS, "cache_form", "as cache"},
    {PST_STRUCT_LOADER_OPTIONS, "cache_resolution", "as cache"},
    {PST_STRUCT_LOADER_OPTIONS, "cache_recode", "as cache"},
    {PST_STRUCT_LOADER_OPTIONS, "cache_plan", "as cache"},
    {PST_STRUCT_LOADER_OPTIONS, "n_cache_plan", "as cache"},
    {PST_STRUCT_LOADER_OPTIONS, "fleet", "as cache"},
    {PST_STRUCT_LOADER_OPTIONS, "trace", "a file of the job"},
    {PST_STRUCT_LOADER_OPTIONS, "share", "it names the group"},
    {PST_STRUCT_LOADER_OPTIONS, "socket", "where the service is"},
    {PST_STRUCT_LOADER_OPTIONS, "service", "which program is started"},
    {PST_STRUCT_LOADER_OPTIONS, "share_wait_seconds", "a job's patience"},
    {PST_STRUCT_LOADER_OPTIONS, "form_parts", "refused with share"},
    {PST_STRUCT_LOADER_OPTIONS, "n_form_parts", "refused with share"},
    {PST_STRUCT_LOADER_OPTIONS, "form_field", "it belongs to form_parts"},
    {PST_STRUCT_LOADER_OPTIONS, "form_choice", "it belongs to form_parts"},
    {PST_STRUCT_LOADER_OPTIONS, "mixes", "a job mixes its own batches"},
    {PST_STRUCT_LOADER_OPTIONS, "n_mixes", "as mixes"},
    {PST_STRUCT_LOADER_OPTIONS, "mix_field", "as mixes"},
    {PST_STRUCT_LOADER_OPTIONS, "interrupt", "a function of the job's process"},
    {PST_STRUCT_LOADER_OPTIONS, "interrupt_ctx", "as interrupt"},
    {PST_STRUCT_FIELD_OUTPUT, "ragged", "a job collates its own batches"},
    {PST_STRUCT_FIELD_OUTPUT, "pad_value", "as ragged"},
    {PST_STRUCT_FIELD_OUTPUT, "pad_multiple", "as ragged"},
};
static const char *const layout[] = {"struct_size",     "field_nbytes", "op_nbytes",
                                     "audio_op_nbytes", "mix_nbytes",   "form_part_nbytes",
                                     "reserved"};

static bool is_own(enum pst_struct which, const char *name)
{
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (own[i].which == which && strcmp(own[i].name, name) == 0)
            return true;
    return false;
}

static bool is_layout(const char *name)
{
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++)
        if (strcmp(layout[i], name) == 0)
            return true;
    return false;
}

static void what_is_a_jobs_own_is_listed(void **state)
{
    size_t n_own = 0;
    (void)state;
    for (int k = 0; k < N_OF_LOADER; k++) {
        size_t n;
        const struct pst_member *members = psti_options_members(structs[k].which, &n);
        for (size_t i = 0; i < n; i++) {
            bool is_jobs = members[i].use == PST_USE_JOB;
            if (is_jobs != is_own(structs[k].which, members[i].name) ||
                (members[i].use == PST_USE_LAYOUT) != is_layout(members[i].name))
                fail_msg("%s.%s: its use is not what this test lists", structs[k].name,
                         members[i].name);
            n_own += is_jobs;
        }
    }
    assert_int_equal(n_own, sizeof own / sizeof own[0]);
}

/* Members of other calls' options that decide about samples (ORDER), about pixels and stored bytes
 * (ROWS), or about reads. All other members concern only the call itself. */
static const struct {
    const char *name;
    enum pst_member_use use;
    const char *members;
} decides[] = {
    {"pst_dataset_options", PST_USE_ORDER, " allow_unreadable files n_files split "},
    {"pst_dataset_options", PST_USE_ROWS, " labels masks n_masks ignore_labels members n_members "},
    {"pst_decode_options", PST_USE_ROWS,
     " channels bits ignore_orientation palette_indices orientation "},
    {"pst_images_options", PST_USE_ROWS, " field channels color ignore_orientation keep_bits "},
    {"pst_images_options", PST_USE_READING, " no_verify "},
    {"pst_pli_encode_options", PST_USE_ROWS, " tier effort max_error no_checksum "},
    {"pst_pli_from_jpeg_options", PST_USE_ROWS, " unit_edge no_checksum "},
    {"pst_writer_options", PST_USE_ROWS, " shard_nbytes "},
    {"pst_pack_options", PST_USE_ORDER, " source "},
    {"pst_pack_options", PST_USE_ROWS,
     " forms n_forms verify_pixels mask_forms n_mask_forms pli_tier pli_effort pli_max_error "
     "pli_of_lossy made_for add_classes plan resize "},
    {"pst_verify_options", PST_USE_ORDER, " source "},
    {"pst_index_options", PST_USE_ORDER, " source "},
    {"pst_mixture_options", PST_USE_ROWS, " fields n_fields lacking "},
};

static enum pst_member_use use_of(const char *name, const char *member)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", member);
    for (size_t i = 0; i < sizeof decides / sizeof decides[0]; i++)
        if (strcmp(decides[i].name, name) == 0 && strstr(decides[i].members, word))
            return decides[i].use;
    return is_layout(member) ? PST_USE_LAYOUT : PST_USE_JOB;
}

static void what_decides_in_other_calls_is_listed(void **state)
{
    (void)state;
    for (int k = N_OF_LOADER; k < N_STRUCTS; k++) {
        size_t n;
        const struct pst_member *members = psti_options_members(structs[k].which, &n);
        for (size_t i = 0; i < n; i++)
            if (members[i].use != use_of(structs[k].name, members[i].name))
                fail_msg("%s.%s: its use is not what this test lists", structs[k].name,
                         members[i].name);
    }
}

static void zero_stands_for_a_default(void **state)
{
    struct pst_fleet_options fleet = {.struct_size = sizeof fleet};
    struct pst_writer_options writer = {.struct_size = sizeof writer};
    struct pst_error err;
    (void)state;
    assert_int_equal(psti_options_complete(PST_STRUCT_FLEET_OPTIONS, &fleet, "test", &err), PST_OK);
    assert_true(fleet.timeout_seconds == 1 && fleet.max_item_nbytes == 32 << 10);
    fleet.timeout_seconds = 0.001;
    assert_int_equal(psti_options_complete(PST_STRUCT_FLEET_OPTIONS, &fleet, "test", &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "timeout_seconds is 0.001: 0.01 to 60 are possible"));
    assert_int_equal(psti_options_complete(PST_STRUCT_WRITER_OPTIONS, &writer, "test", &err),
                     PST_OK);
    assert_true(writer.shard_nbytes == 1 << 30 && writer.commit_nbytes == 256 << 20);
}

static void numbers_are_checked(void **state)
{
    struct pst_loader_options options = {.struct_size = sizeof options};
    struct pst_error err;
    (void)state;
    assert_int_equal(psti_options_complete(PST_STRUCT_LOADER_OPTIONS, &options, "test", &err),
                     PST_OK);
    assert_int_equal(options.batch_size, 1);
    assert_int_equal(options.world_size, 1);
    assert_int_equal(options.io_threads, 4);
    assert_int_equal(options.prefetch, 2);
    assert_true(options.host_memory == (uint64_t)4 << 30);
    assert_int_equal(options.num_workers, 0);
    options.io_threads = 1024;
    options.seed = UINT64_MAX;
    options.max_pixels = UINT64_MAX;
    options.device = -1;
    options.gpu_part = 1;
    assert_int_equal(psti_options_complete(PST_STRUCT_LOADER_OPTIONS, &options, "test", &err),
                     PST_OK);
    assert_int_equal(options.io_threads, 1024);
    const struct pst_loader_options good = options;
    struct {
        const char *text;
        struct pst_loader_options options;
    } bad[] = {{"io_threads is 1025: 0 to 1024 are possible", good},
               {"on_error is 3: 0 to 2 are possible", good},
               {"storage is -1: 0 to 3 are possible", good},
               {"gpu_part is 1.5: 0 to 1 are possible", good},
               {"throttle_latency_seconds is inf: ", good},
               {"throttle_bytes_per_second is nan: ", good},
               {"share_wait_seconds is -2: 0 to 86400 are possible", good},
               {"batch_size is 16777217: 0 to 16777216 are possible", good}};
    bad[0].options.io_threads = 1025;
    bad[1].options.on_error = (enum pst_on_error)3;
    memset(&bad[2].options.storage, 0xff, sizeof bad[2].options.storage);
    bad[3].options.gpu_part = 1.5;
    bad[4].options.throttle_latency_seconds = (double)INFINITY;
    bad[5].options.throttle_bytes_per_second = (double)NAN;
    bad[6].options.share_wait_seconds = -2;
    bad[7].options.batch_size = (1 << 24) + 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(
            psti_options_complete(PST_STRUCT_LOADER_OPTIONS, &bad[i].options, "test", &err),
            PST_ERROR_ARGUMENT);
        if (!strstr(err.text, bad[i].text))
            fail_msg("%s: %s is wanted", err.text, bad[i].text);
    }
}

static void descriptions_have_the_callers_size(void **state)
{
    struct pst_member member;
    const char *name;
    (void)state;
    memset(&member, 0x55, sizeof member);
    assert_int_equal(pst_describe(PST_STRUCT_OP, 1, &member, sizeof name), PST_OK);
    assert_string_equal(member.name, "height");
    /* beyond the end of the caller's struct, so it is not written */
    assert_int_equal(member.count, 0x55555555);
    assert_int_equal(pst_describe((enum pst_struct)0, 0, &member, sizeof member),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_describe((enum pst_struct)19, 0, &member, sizeof member),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_describe(PST_STRUCT_OP, 0, NULL, 0), PST_ERROR_ARGUMENT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_has_a_row),
        cmocka_unit_test(each_struct_of_options_has_a_table),
        cmocka_unit_test(each_count_has_its_pointer),
        cmocka_unit_test(what_is_a_jobs_own_is_listed),
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(descriptions_have_the_callers_size),
        cmocka_unit_test(what_decides_in_other_calls_is_listed),
        cmocka_unit_test(zero_stands_for_a_default),
    };
    if (argc != 2)
        return 2;
    abi_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
