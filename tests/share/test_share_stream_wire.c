/* test_share_stream_wire.c - options of a loader and messages about shared batches are the same
 * after printing and parsing; invalid bytes are refused; the digest depends on everything that
 * decides about rows, and on nothing else. */
#include "base/test_input.h"

#include "base/alloc.h"
#include "options/options_members.h"
#include "share/share_options.h"
#include "share/share_stream_wire.h"

#include <stdlib.h>
#include <string.h>

static struct pst_op ops[3];
static struct pst_field_output fields[2];
static const uint64_t indices[4] = {9, 2, 2, 7};
static const double weights[4] = {1, 0.5, 0, 2};

static const uint32_t pairs[] = {1, 2, 4095, 3};

static struct pst_loader_options full_options(void)
{
    memset(ops, 0, sizeof ops);
    ops[0].kind = PST_OP_RANDOM_RESIZED_CROP;
    ops[0].height = ops[0].width = 224;
    ops[1].kind = PST_OP_HORIZONTAL_FLIP;
    ops[1].p = 0.5f;
    ops[2].kind = PST_OP_NORMALIZE;
    ops[2].mean[2] = 0.25f;
    fields[0] = (struct pst_field_output){
        .name = "image", .ops = ops, .n_ops = 3, .dtype = PST_DTYPE_F16, .layout = PST_LAYOUT_CHW};
    fields[1] = (struct pst_field_output){.name = "boxes",
                                          .per_box_of = "",
                                          .keep_boxes = true,
                                          .as = "x",
                                          .n_views = 6,
                                          .first_view = 2,
                                          .n_points = 17,
                                          .point_pairs = pairs,
                                          .n_point_pairs = 2,
                                          .says_pairs = true};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 123456789012345,
                                       .repeats = 3,
                                       .fields = fields,
                                       .n_fields = 2,
                                       .only_listed = true,
                                       .indices = indices,
                                       .n_indices = 4,
                                       .weights = weights,
                                       .throttle_latency_seconds = 0.125};
}

static uint64_t digests_of(const struct pst_loader_options *options, uint64_t *order)
{
    struct psti_share_options parsed;
    uint8_t *bytes;
    size_t nbytes;
    assert_int_equal(psti_share_options_print(options, 4, &bytes, &nbytes, NULL), PST_OK);
    assert_int_equal(psti_share_options_parse(bytes, nbytes, &parsed, NULL), PST_OK);
    uint64_t digest = parsed.digest;
    *order = parsed.order_digest;
    psti_share_options_clear(&parsed);
    psti_free(bytes);
    return digest;
}

static uint64_t digest_of(const struct pst_loader_options *options)
{
    uint64_t order;
    return digests_of(options, &order);
}

static void options_come_back(void **state)
{
    struct pst_loader_options options = full_options();
    struct psti_share_options parsed;
    uint8_t *bytes;
    size_t nbytes;
    (void)state;
    assert_int_equal(psti_share_options_print(&options, 4, &bytes, &nbytes, NULL), PST_OK);
    assert_int_equal(psti_share_options_parse(bytes, nbytes, &parsed, NULL), PST_OK);
    assert_int_equal(parsed.options.order, PST_ORDER_SHUFFLED);
    assert_true(parsed.options.seed == 123456789012345);
    assert_true(parsed.options.only_listed);
    assert_int_equal(parsed.options.n_fields, 2);
    const struct pst_field_output *field = parsed.options.fields;
    assert_string_equal(field[0].name, "image");
    assert_null(field[0].per_box_of);
    assert_null(field[0].as);
    assert_string_equal(field[1].as, "x");
    assert_int_equal(field[1].n_views, 6);
    assert_int_equal(field[1].first_view, 2);
    assert_int_equal(parsed.options.repeats, 3);
    assert_int_equal(field[0].dtype, PST_DTYPE_F16);
    assert_int_equal(field[0].layout, PST_LAYOUT_CHW);
    assert_int_equal(field[0].n_ops, 3);
    for (int i = 0; i < 3; i++) /* zeroed with their padding, as the parser does */
        assert_memory_equal(&field[0].ops[i], &ops[i], sizeof ops[i]);
    assert_string_equal(field[1].per_box_of, "");
    assert_true(field[1].keep_boxes);
    assert_int_equal(field[1].n_points, 17);
    assert_int_equal(field[1].n_point_pairs, 2);
    assert_memory_equal(field[1].point_pairs, pairs, sizeof pairs);
    assert_true(field[1].says_pairs && !field[0].says_pairs && !field[0].point_pairs);
    assert_int_equal(parsed.options.n_indices, 4);
    assert_memory_equal(parsed.options.indices, indices, sizeof indices);
    assert_int_equal(parsed.n_weights, 4);
    assert_memory_equal(parsed.options.weights, weights, sizeof weights);
    assert_true(parsed.options.throttle_latency_seconds == 0.125);
    psti_share_options_clear(&parsed);
    psti_free(bytes);
}

/* Returns a data set's options with the operations of a detection recipe. */
static struct pst_loader_options labelled_options(const uint16_t *labels, uint32_t n)
{
    struct pst_loader_options options = full_options();
    memset(ops, 0, sizeof ops);
    ops[0].kind = PST_OP_RANDOM_IOU_CROP;
    ops[0].n_overlaps = 2;
    ops[0].overlaps[1] = 0.75f;
    ops[0].trials = 17;
    ops[1].kind = PST_OP_MAP_LABELS;
    ops[1].labels = labels;
    ops[1].n_labels = n;
    ops[1].other_label = 65535;
    ops[2].kind = PST_OP_SANITIZE_BOXES;
    ops[2].min_size = 3;
    return options;
}

static void tables_of_classes_come_back(void **state)
{
    static const uint16_t labels[5] = {7, 65535, 0, 19, 300}, others[5] = {7, 65535, 0, 19, 301};
    struct pst_loader_options options = labelled_options(labels, 5);
    struct psti_share_options parsed;
    uint8_t *bytes;
    size_t nbytes;
    (void)state;
    assert_int_equal(psti_share_options_print(&options, 4, &bytes, &nbytes, NULL), PST_OK);
    assert_int_equal(psti_share_options_parse(bytes, nbytes, &parsed, NULL), PST_OK);
    const struct pst_op *got = parsed.options.fields[0].ops;
    assert_memory_equal(&got[0], &ops[0], sizeof ops[0]);
    assert_int_equal(got[1].n_labels, 5);
    assert_memory_equal(got[1].labels, labels, sizeof labels);
    assert_int_equal(got[1].other_label, 65535);
    assert_true(got[2].min_size == 3);
    assert_string_equal(parsed.options.fields[1].name, "boxes");
    assert_memory_equal(parsed.options.weights, weights, sizeof weights);
    psti_share_options_clear(&parsed);
    for (size_t cut = 0; cut < nbytes; cut++) {
        struct guarded part = guarded_make(cut, 0);
        memcpy(part.data, bytes, cut);
        assert_int_equal(psti_share_options_parse(part.data, cut, &parsed, NULL),
                         PST_ERROR_CORRUPT);
        psti_share_options_clear(&parsed);
        guarded_free(&part);
    }
    for (size_t i = 0; i < nbytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            (void)!psti_share_options_parse(bytes, nbytes, &parsed, NULL);
            psti_share_options_clear(&parsed);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    psti_free(bytes);
    uint64_t digest = digest_of(&options);
    ops[1].labels = others;
    assert_true(digest_of(&options) != digest);
}

static void damaged_options_are_refused(void **state)
{
    struct pst_loader_options options = full_options();
    struct psti_share_options parsed;
    uint8_t *bytes;
    size_t nbytes;
    (void)state;
    assert_int_equal(psti_share_options_print(&options, 4, &bytes, &nbytes, NULL), PST_OK);
    for (size_t cut = 0; cut < nbytes; cut++) {
        struct guarded part = guarded_make(cut, 0); /* exact size, so reads beyond the end crash */
        memcpy(part.data, bytes, cut);
        assert_int_equal(psti_share_options_parse(part.data, cut, &parsed, NULL),
                         PST_ERROR_CORRUPT);
        psti_share_options_clear(&parsed);
        guarded_free(&part);
    }
    for (size_t i = 0; i < nbytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            /* changed bytes may still be valid options */
            (void)!psti_share_options_parse(bytes, nbytes, &parsed, NULL);
            psti_share_options_clear(&parsed);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    psti_free(bytes);
}

static void the_digest_sees_what_decides_about_rows(void **state)
{
    const struct pst_loader_options same = full_options();
    uint64_t digest = digest_of(&same);
    static const uint64_t others[4] = {9, 2, 2, 8};
    static const double heavier[4] = {1, 0.5, 0, 3};
    struct pst_loader_options changed[9];
    (void)state;
    for (int i = 0; i < 9; i++)
        changed[i] = same;
    changed[0].seed++;
    changed[1].order = PST_ORDER_SEQUENTIAL;
    changed[2].indices = others;
    changed[3].weights = heavier;
    changed[4].n_fields = 1;
    changed[5].only_listed = false;
    changed[6].no_verify = true;
    changed[7].max_pixels = 77;
    changed[8].window_pages = 3;
    for (int i = 0; i < 9; i++)
        assert_true(digest_of(&changed[i]) != digest);
    ops[1].p = 0.25f;
    assert_true(digest_of(&same) != digest);
    ops[1].p = 0.5f;
    struct pst_loader_options other = same;
    other.batch_size = 77;
    other.rank = 1;
    other.world_size = 2;
    other.drop_last = true;
    other.num_workers = 9;
    other.prefetch = 5;
    other.on_error = PST_ON_ERROR_SKIP;
    other.max_errors = 4;
    other.host_memory = 1 << 30;
    other.storage = PST_STORAGE_THREADS;
    other.throttle_bytes_per_second = 1e6;
    other.pin_memory = PST_PIN_AUTO;
    assert_true(digest_of(&other) == digest);
}

/* Options with one struct of each kind whose members the test changes. */
struct whole {
    struct pst_loader_options options;
    struct pst_field_output field;
    struct pst_op op;
    struct pst_audio_op audio;
};

static void make_whole(struct whole *whole)
{
    memset(whole, 0, sizeof *whole);
    whole->op.kind = PST_OP_RESIZE;
    whole->audio.kind = PST_AUDIO_OP_GAIN;
    whole->field.name = "image";
    whole->field.ops = &whole->op;
    whole->field.n_ops = 1;
    whole->field.audio_ops = &whole->audio;
    whole->field.n_audio_ops = 1;
    whole->options.struct_size = sizeof whole->options;
    whole->options.fields = &whole->field;
    whole->options.n_fields = 1;
}

static const struct {
    enum pst_struct which;
    size_t offset; /* offset within struct whole */
} tried[] = {{PST_STRUCT_LOADER_OPTIONS, offsetof(struct whole, options)},
             {PST_STRUCT_FIELD_OUTPUT, offsetof(struct whole, field)},
             {PST_STRUCT_OP, offsetof(struct whole, op)},
             {PST_STRUCT_AUDIO_OP, offsetof(struct whole, audio)}};

/* Returns the struct of the parsed options that corresponds to tried[k]. */
static const void *struct_of(const struct psti_share_options *parsed, int k)
{
    const struct pst_field_output *field = parsed->options.fields;
    const void *const all[] = {&parsed->options, field, field->ops, field->audio_ops};
    return all[k];
}

/* Changes one element of a member, and checks the effect on the parsed options and the digest. */
static void check_change(int k, const struct pst_member *member, uint32_t i, uint64_t same)
{
    static const unsigned char zeros[8];
    struct whole whole;
    struct psti_share_options parsed;
    uint8_t *bytes;
    size_t nbytes, at = member->offset + (size_t)i * member->nbytes;
    make_whole(&whole);
    unsigned char *place = (unsigned char *)&whole + tried[k].offset + at;
    *place ^= 1;
    assert_int_equal(psti_share_options_print(&whole.options, 0, &bytes, &nbytes, NULL), PST_OK);
    assert_int_equal(psti_share_options_parse(bytes, nbytes, &parsed, NULL), PST_OK);
    const char *got = (const char *)struct_of(&parsed, k) + at;
    bool decides = member->use == PST_USE_ORDER || member->use == PST_USE_ROWS;
    if (decides == (parsed.digest == same))
        fail_msg("%s: the digest of a share %s", member->name,
                 decides ? "does not see it" : "depends on it");
    if (member->use == PST_USE_JOB ? memcmp(got, zeros, member->nbytes) != 0
                                   : memcmp(got, place, member->nbytes) != 0)
        fail_msg("%s: it comes as another value", member->name);
    psti_share_options_clear(&parsed);
    psti_free(bytes);
}

/* The table row of a member says one of three things: the service gets the member and the digest
 * depends on it; the service gets it, but the digest ignores it; or neither. The test changes the
 * member to see which is true. tests/options compares the tables with the headers. */
static void the_digest_sees_each_member(void **state)
{
    struct whole whole;
    size_t n_decide = 0;
    (void)state;
    make_whole(&whole);
    uint64_t same = digest_of(&whole.options);
    for (int k = 0; k < 4; k++) {
        size_t n;
        const struct pst_member *members = psti_options_members(tried[k].which, &n);
        for (size_t m = 0; m < n; m++) {
            if (members[m].kind == PST_MEMBER_POINTER || members[m].kind == PST_MEMBER_COUNT ||
                members[m].use == PST_USE_LAYOUT)
                continue;
            for (uint32_t i = 0; i < members[m].count; i++)
                check_change(k, &members[m], i, same);
            n_decide += members[m].use == PST_USE_ORDER || members[m].use == PST_USE_ROWS;
        }
    }
    assert_true(n_decide > 100);
}

/* The contents of a text or an array decide about rows, too. The list must name all pointers of the
 * tables. */
static void the_digest_sees_what_pointers_lead_to(void **state)
{
    static const uint64_t one[1] = {1};
    static const double half[1] = {0.5};
    static const uint32_t pair[2] = {1, 2};
    static const uint16_t label[1] = {3};
    static const char *const names[] = {"fields", "indices",     "weights",        "name",
                                        "ops",    "as",          "per_box_of",     "audio_ops",
                                        "labels", "point_pairs", "source_weights", "source_firsts"};
    enum { N = sizeof names / sizeof names[0] };
    struct whole whole[N];
    uint64_t digests[N];
    size_t n_pointers = 0;
    (void)state;
    for (int i = 0; i < N; i++)
        make_whole(&whole[i]);
    uint64_t same = digest_of(&whole[0].options);
    whole[0].options.n_fields = 0;
    whole[1].options.indices = one;
    whole[1].options.n_indices = 1;
    whole[2].options.weights = half;
    whole[3].field.name = "mask";
    whole[4].field.n_ops = 0;
    whole[5].field.as = "small";
    whole[6].field.per_box_of = "boxes";
    whole[7].field.n_audio_ops = 0;
    whole[8].op.labels = label;
    whole[8].op.n_labels = 1;
    whole[9].field.point_pairs = pair;
    whole[9].field.n_point_pairs = 1;
    whole[10].options.source_weights = whole[11].options.source_weights = half;
    whole[10].options.n_source_weights = whole[11].options.n_source_weights = 1;
    whole[11].options.source_firsts = one;
    for (int i = 0; i < N; i++) {
        struct psti_share_options parsed;
        uint8_t *bytes;
        size_t nbytes;
        assert_int_equal(psti_share_options_print(&whole[i].options, i == 2, &bytes, &nbytes, NULL),
                         PST_OK);
        assert_int_equal(psti_share_options_parse(bytes, nbytes, &parsed, NULL), PST_OK);
        if (parsed.digest == same)
            fail_msg("the digest does not see %s", names[i]);
        digests[i] = parsed.digest;
        assert_int_equal(parsed.options.n_source_weights, i >= 10);
        assert_true(i < 10 || parsed.options.source_weights[0] == 0.5);
        assert_true(i == 11 ? parsed.options.source_firsts[0] == 1 : !parsed.options.source_firsts);
        psti_share_options_clear(&parsed);
        psti_free(bytes);
    }
    assert_true(digests[10] != digests[11]);
    for (int k = 0; k < 4; k++) {
        size_t n;
        const struct pst_member *members = psti_options_members(tried[k].which, &n);
        for (size_t m = 0; m < n; m++) {
            bool listed = false;
            if (members[m].kind != PST_MEMBER_POINTER || members[m].use == PST_USE_JOB)
                continue;
            for (int i = 0; i < N; i++)
                listed |= strcmp(names[i], members[m].name) == 0;
            if (!listed)
                fail_msg("%s: nothing here changes it", members[m].name);
            n_pointers++;
        }
    }
    assert_int_equal(n_pointers, N);
}

/* Options that were written by a library with other tables of options are refused, because the same
 * bytes would be read as other values. */
static void options_of_other_tables_are_refused(void **state)
{
    const struct pst_loader_options options = full_options();
    struct psti_share_options parsed;
    uint8_t *bytes;
    size_t nbytes;
    (void)state;
    assert_int_equal(psti_share_options_print(&options, 4, &bytes, &nbytes, NULL), PST_OK);
    bytes[5] ^= 4;
    assert_int_equal(psti_share_options_parse(bytes, nbytes, &parsed, NULL), PST_ERROR_CORRUPT);
    psti_share_options_clear(&parsed);
    psti_free(bytes);
}

/* The digest of the order depends on all of these options except the fields. */
static void the_order_has_a_digest(void **state)
{
    (void)state;
    const struct pst_loader_options same = full_options();
    static const uint64_t others[4] = {9, 2, 2, 8};
    static const double heavier[4] = {1, 0.5, 0, 3};
    struct pst_loader_options changed[5];
    uint64_t order, other;
    for (int i = 0; i < 5; i++)
        changed[i] = same;
    changed[0].seed++;
    changed[1].order = PST_ORDER_SEQUENTIAL;
    changed[2].indices = others;
    changed[3].weights = heavier;
    changed[4].window_pages = 3;
    uint64_t digest = digests_of(&same, &order);
    for (int i = 0; i < 5; i++) {
        digests_of(&changed[i], &other);
        assert_true(other != order);
    }
    ops[1].p = 0.25f;
    assert_true(digests_of(&same, &other) != digest);
    assert_true(other == order);
    changed[0] = same;
    changed[0].n_fields = 1;
    assert_true(digests_of(&changed[0], &other) != digest);
    assert_true(other == order);
}

static void extents_are_whole_pages(void **state)
{
    const size_t f32[1] = {3 * 224 * 224 * 4}, u8[2] = {3 * 224 * 224, 8},
                 f16[1] = {3 * 224 * 224 * 2};
    const size_t odd[1] = {3 * 225 * 225}, small[2] = {8, 12};
    const size_t frame[1] = {3 * 1024 * 2048 * 4}, odd_frame[1] = {3 * 1025 * 2049};
    (void)state;
    assert_int_equal(psti_share_extent_rows(frame, 1, 4096), 1);
    assert_int_equal(psti_share_extent_rows(odd_frame, 1, 4096), 8);
    assert_int_equal(psti_share_extent_rows(f32, 1, 4096), 8);
    assert_int_equal(psti_share_extent_rows(u8, 2, 4096), 8);
    assert_int_equal(psti_share_extent_rows(f16, 1, 4096), 8);
    assert_int_equal(psti_share_extent_rows(u8, 2, 16384), 16);
    /* odd rows do not fill pages, so they are copied */
    assert_int_equal(psti_share_extent_rows(odd, 1, 4096), 8);
    assert_int_equal(psti_share_extent_rows(small, 2, 4096), 8);
}

static void impossible_messages_are_refused(void **state)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    static struct psti_stream_ready ready, theirs;
    const struct psti_stream_layout layout = {
        .extent_rows = 8, .n_slots = 4, .stride = 1 << 20, .own = 1 << 16, .n_positions = 100};
    (void)state;
    for (int fault = 0; fault < 6; fault++) {
        ready = (struct psti_stream_ready){.n_extents = 1};
        ready.extents[0] = (struct psti_stream_extent){
            .number = 5, .arena = 3, .slot = 3, .n_rows = 8, .own_nbytes = 77};
        ready.extents[0].arena += fault == 1;
        ready.extents[0].slot += fault == 2;
        ready.extents[0].n_rows += fault == 3;
        ready.extents[0].n_rows *= fault != 4;
        ready.extents[0].own_nbytes += fault == 5 ? (1 << 20) : 0;
        struct psti_wire_out out = psti_share_begin(bytes);
        psti_share_put_ready(&out, &ready);
        struct psti_wire_in in = psti_share_body(bytes, out.nbytes);
        assert_int_equal(psti_share_get_ready(&in, &layout, &theirs, NULL),
                         fault ? PST_ERROR_CORRUPT : PST_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_come_back),
        cmocka_unit_test(tables_of_classes_come_back),
        cmocka_unit_test(damaged_options_are_refused),
        cmocka_unit_test(the_digest_sees_what_decides_about_rows),
        cmocka_unit_test(the_digest_sees_each_member),
        cmocka_unit_test(the_digest_sees_what_pointers_lead_to),
        cmocka_unit_test(options_of_other_tables_are_refused),
        cmocka_unit_test(the_order_has_a_digest),
        cmocka_unit_test(extents_are_whole_pages),
        cmocka_unit_test(impossible_messages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
