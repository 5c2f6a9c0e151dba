/* test_loader_forms.c - tests rows that are read in a mix of forms: each form's share over any
 * run of positions, the same pixels and order as without a mix, counters, and options that are
 * refused. */
#include "loader/loader_fixture.h"
#include "test.h"

#include "loader/tiers/loader_forms.h"
#include "loader/loader_handle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static pst_dataset *stored;

static int set_up(void **state)
{
    (void)state;
    static const enum pst_form forms[] = {PST_FORM_NONE, PST_FORM_RAW};
    char source[96], path[96];
    struct pst_error err;
    make_directory(directory);
    snprintf(source, sizeof source, "%s/png", directory);
    snprintf(path, sizeof path, "%s/variants", directory);
    make_dataset(source, &(struct make_options){.n_samples = 60, .images = MAKE_PNG});
    const struct pst_pack_options pack = {
        .struct_size = sizeof pack, .forms = forms, .n_forms = 2, .num_workers = 1};
    assert_ok(pst_pack(source, path, &pack, NULL, 0, &err));
    assert_ok(pst_dataset_open(path, NULL, &stored, &err));
    return 0;
}

TEAR_DOWN(&stored)

static uint32_t next_random(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static void make_parts(struct psti_loader_forms *forms, uint64_t *random)
{
    double sum = 0;
    *forms = (struct psti_loader_forms){.n = 2 + next_random(random, 4)};
    for (uint32_t i = 0; i < forms->n; i++)
        sum += forms->parts[i] = 1 + next_random(random, 1000);
    for (uint32_t i = 0; i < forms->n; i++)
        forms->parts[i] /= sum;
    psti_loader_forms_set_fractions(forms);
}

/* In any run of positions, wherever it begins, the number of rows of a form differs from its share
 * by less than one row for each binary split that leads to the form. */
static void test_any_run_has_its_parts(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int turn = 0; turn < 300; turn++) {
        struct psti_loader_forms forms;
        uint64_t counts[PST_MAX_VARIANTS] = {0};
        make_parts(&forms, &random);
        uint64_t first = (uint64_t)next_random(&random, 1u << 30) << next_random(&random, 20);
        uint64_t n = 1 + next_random(&random, 700);
        for (uint64_t p = first; p < first + n; p++) {
            uint32_t i = psti_loader_forms_of_turn(&forms, p);
            assert_true(i < forms.n);
            counts[i]++;
        }
        for (uint32_t i = 0; i < forms.n; i++) {
            double off = fabs((double)counts[i] - forms.parts[i] * (double)n);
            uint32_t splits = i + 1 < forms.n ? i + 1 : i;
            if (off >= splits + 1e-3)
                print_error("form %u of %u: off by %g\n", i, forms.n, off);
            assert_true(off < splits + 1e-3);
        }
    }
}

static void test_extreme_parts(void **state)
{
    (void)state;
    struct psti_loader_forms forms = {.n = 2, .parts = {1 - 1e-12, 1e-12}};
    psti_loader_forms_set_fractions(&forms);
    for (uint64_t p = 0; p < 1000; p++)
        assert_int_equal(psti_loader_forms_of_turn(&forms, p), 0);
    assert_true(psti_loader_forms_of_turn(&forms, UINT64_MAX - 1) < 2);
    forms = (struct psti_loader_forms){.n = 1, .parts = {1}};
    psti_loader_forms_set_fractions(&forms);
    assert_int_equal(psti_loader_forms_of_turn(&forms, 5), 0);
}

/* Loaders
 * ------------------------------------------------------------------------------------------------
 */

static const struct pst_form_part half[] = {{.variant = 0, .part = 1},
                                            {.variant = 1, .part = 1}};

static struct pst_loader_options options_of(uint32_t workers)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 7,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = workers,
                                       .prefetch = 2,
                                       .storage = PST_STORAGE_THREADS};
}

static void with_forms(struct pst_loader_options *options, const struct pst_form_part *parts,
                       uint32_t n, enum pst_form_choice choice)
{
    options->form_parts = parts;
    options->n_form_parts = n;
    options->form_part_nbytes = sizeof *parts;
    options->form_choice = choice;
}

/* Hashes the batches of an epoch, and returns the statistics after it. */
static size_t epoch_by(const struct pst_loader_options *options, uint64_t *hashes,
                        struct pst_loader_stats *stats)
{
    pst_loader *loader = open_loader(stored, options);
    struct pst_error err;
    assert_ok(pst_loader_begin(loader, 0, &err));
    size_t n = drain_epoch(loader, NULL, hashes);
    *stats = stats_of(loader);
    pst_loader_close(&loader);
    return n;
}

static void test_pixels_and_order_stay(void **state)
{
    (void)state;
    static const enum pst_form_choice choices[] = {PST_FORM_CHOICE_ROWS, PST_FORM_CHOICE_SAMPLES,
                                                   PST_FORM_CHOICE_MEASURED};
    struct pst_loader_stats stats;
    struct pst_loader_options plain = options_of(2);
    uint64_t wanted[16], found[16];
    size_t n = epoch_by(&plain, wanted, &stats);
    assert_int_equal(n, 9);
    assert_true(stats.form_rows[0] == 0 && stats.n_form_rows_other == 0);
    for (uint32_t workers = 0; workers < 4; workers += 3)
        for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
            struct pst_loader_options options = options_of(workers);
            with_forms(&options, half, 2, choices[i]);
            assert_int_equal(epoch_by(&options, found, &stats), n);
            assert_memory_equal(found, wanted, n * sizeof *found);
            assert_int_equal(stats.form_rows[0] + stats.form_rows[1] + stats.n_form_rows_other, 60);
            assert_int_equal(stats.n_form_rows_other, 0);
            if (choices[i] == PST_FORM_CHOICE_ROWS)
                assert_int_equal(stats.form_rows[0], 30);
            else
                assert_in_range(stats.form_rows[0], 10, 50);
        }
}

static void assert_refused(struct pst_loader_options *options, const char *text)
{
    pst_loader *loader = NULL;
    struct pst_error err;
    assert_int_equal(pst_loader_open(stored, options, &loader, &err), PST_ERROR_ARGUMENT);
    if (strstr(err.text, text) == NULL)
        print_error("\"%s\" does not say \"%s\"\n", err.text, text);
    assert_non_null(strstr(err.text, text));
    assert_null(loader);
}

static void test_refused(void **state)
{
    (void)state;
    struct pst_loader_options options = options_of(1);
    struct pst_form_part wrong[2] = {half[0], half[1]};
    with_forms(&options, wrong, 2, PST_FORM_CHOICE_ROWS);
    wrong[1].part = 0;
    assert_refused(&options, "part of a form is 0");
    wrong[1].part = NAN;
    assert_refused(&options, "part of a form is nan");
    wrong[1] = (struct pst_form_part){.variant = 7, .part = 1};
    assert_refused(&options, "there is no number 7");
    wrong[1] = (struct pst_form_part){.form = (enum pst_form)77, .part = 1};
    assert_refused(&options, "no form 77");
    wrong[1] = half[1];
    options.form_field = "label";
    assert_refused(&options, "label is not");
    options.form_field = NULL;
    options.form_choice = (enum pst_form_choice)3;
    assert_refused(&options, "form_choice");
    options.form_choice = PST_FORM_CHOICE_ROWS;
    options.form_part_nbytes = 0;
    assert_refused(&options, "form_part_nbytes");
    options.form_part_nbytes = sizeof *wrong;
    options.share = "group";
    assert_refused(&options, "share is not possible with form_parts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_run_has_its_parts),
        cmocka_unit_test(test_extreme_parts),
        cmocka_unit_test(test_pixels_and_order_stay),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
