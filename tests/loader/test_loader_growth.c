/* test_loader_growth.c - programs built against another version of the library call the loader:
 * their structs, alone and as array elements, are shorter or longer than the library's. */
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static pst_dataset *uniform;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    uniform = open_made(directory, "uniform",
                        &(struct make_options){.n_samples = 4, .images = MAKE_RAW_SAME});
    return 0;
}

TEAR_DOWN(&uniform)

/* Structs as a newer version of the library would declare them. */
struct newer_op {
    struct pst_op op;
    uint64_t strength;
};
struct newer_field {
    struct pst_field_output field;
    uint64_t extra[3];
};
struct newer_options {
    struct pst_loader_options options;
    uint64_t extra;
};

struct program {
    struct newer_options newer;
    struct newer_field fields[2];
    struct newer_op ops[2];
};

/* Fills in the options of a program with two fields in its array. The first field has two
 * operations. */
static void fill(struct program *program)
{
    memset(program, 0, sizeof *program);
    pst_op_init(&program->ops[0].op, sizeof program->ops[0], PST_OP_CENTER_CROP);
    program->ops[0].op.height = program->ops[0].op.width = 16;
    pst_op_init(&program->ops[1].op, sizeof program->ops[1], PST_OP_VERTICAL_FLIP);
    program->ops[1].op.p = 1;
    program->fields[0].field = (struct pst_field_output){
        .name = "image", .ops = &program->ops[0].op, .n_ops = 2, .layout = PST_LAYOUT_CHW};
    program->fields[1].field = (struct pst_field_output){.name = "label"};
    program->newer.options = (struct pst_loader_options){.struct_size = sizeof program->newer,
                                                         .batch_size = 4,
                                                         .fields = &program->fields[0].field,
                                                         .n_fields = 2,
                                                         .only_listed = true,
                                                         .field_nbytes = sizeof program->fields[0],
                                                         .op_nbytes = sizeof program->ops[0]};
}

/* Hashes the images of the first batch. */
static uint64_t images_of(const struct pst_loader_options *options)
{
    struct pst_error err;
    struct pst_tensor tensor;
    pst_loader *loader;
    pst_batch *batch;
    assert_ok(pst_loader_open(uniform, options, &loader, &err));
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    assert_int_equal(pst_batch_n_fields(batch), 2);
    uint32_t i_image = strcmp(pst_batch_field_name(batch, 0), "image") == 0 ? 0 : 1;
    assert_ok(pst_batch_tensor(batch, i_image, &tensor, sizeof tensor, &err));
    assert_int_equal(tensor.shape[2], 16);
    uint64_t hash = psti_hash64(tensor.data, (size_t)(tensor.shape[0] * tensor.strides[0]));
    pst_batch_release(batch);
    pst_loader_close(&loader);
    return hash;
}

static void assert_refused(const struct pst_loader_options *options, enum pst_status status,
                           const char *text)
{
    struct pst_error err;
    pst_loader *loader;
    assert_int_equal(pst_loader_open(uniform, options, &loader, &err), status);
    assert_null(loader);
    assert_non_null(strstr(err.text, text));
}

static void a_newer_program_is_served_as_one_of_this_version(void **state)
{
    (void)state;
    struct program program;
    fill(&program);
    struct pst_op ops[2] = {program.ops[0].op, program.ops[1].op};
    struct pst_field_output fields[2] = {program.fields[0].field, program.fields[1].field};
    struct pst_loader_options options = program.newer.options;
    fields[0].ops = ops;
    options.struct_size = sizeof options;
    options.fields = fields;
    options.field_nbytes = sizeof fields[0];
    options.op_nbytes = sizeof ops[0];
    assert_true(images_of(&options) == images_of(&program.newer.options));
}

static void what_only_the_newer_program_knows_is_refused(void **state)
{
    (void)state;
    struct program program;
    fill(&program);
    program.ops[1].strength = 1;
    assert_refused(&program.newer.options, PST_ERROR_VERSION, "op_nbytes");
    fill(&program);
    program.fields[1].extra[2] = 1;
    assert_refused(&program.newer.options, PST_ERROR_VERSION, "field_nbytes");
    fill(&program);
    program.newer.extra = (uint64_t)1 << 63;
    assert_refused(&program.newer.options, PST_ERROR_VERSION, "struct_size");
}

static void sizes_that_were_not_set_are_refused(void **state)
{
    (void)state;
    struct program program;
    fill(&program);
    program.newer.options.op_nbytes = 0;
    assert_refused(&program.newer.options, PST_ERROR_ARGUMENT, "op_nbytes is not set");
    fill(&program);
    program.newer.options.field_nbytes = 0;
    assert_refused(&program.newer.options, PST_ERROR_ARGUMENT, "field_nbytes is not set");
}

/* An older program's array elements end before members that were added later: here, before
 * pst_op.mask_fill and pst_field_output.min_area. These members get their defaults. */
static void an_older_program_has_defaults_for_what_came_later(void **state)
{
    (void)state;
    enum {
        OP_NBYTES = offsetof(struct pst_op, mask_fill),
        FIELD_NBYTES = offsetof(struct pst_field_output, min_area)
    };
    struct program program;
    unsigned char *ops = malloc(2 * OP_NBYTES), *fields = malloc(2 * FIELD_NBYTES);
    fill(&program);
    uint64_t expected = images_of(&program.newer.options);
    program.fields[0].field.ops = (const struct pst_op *)(const void *)ops;
    for (size_t i = 0; i < 2; i++) {
        memcpy(ops + i * OP_NBYTES, &program.ops[i].op, OP_NBYTES);
        memcpy(fields + i * FIELD_NBYTES, &program.fields[i].field, FIELD_NBYTES);
    }
    program.newer.options.fields = (const struct pst_field_output *)(const void *)fields;
    program.newer.options.field_nbytes = FIELD_NBYTES;
    program.newer.options.op_nbytes = OP_NBYTES;
    program.newer.options.struct_size = sizeof program.newer.options;
    assert_true(images_of(&program.newer.options) == expected);
    free(ops);
    free(fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_program_is_served_as_one_of_this_version),
        cmocka_unit_test(what_only_the_newer_program_knows_is_refused),
        cmocka_unit_test(sizes_that_were_not_set_are_refused),
        cmocka_unit_test(an_older_program_has_defaults_for_what_came_later),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
