/* test_share_view.c - views of an arena: does each batch see its rows, one after the other, and
 * nothing that was written by others or before?
 *
 * A writer's mapping stands for the service, one of this process's own views for a job. */
#include "test.h"

#include "base/files/sealed.h"
#include "share/share.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 12, ROWS = 8, SPAN = 4, FIELDS = 3, RUNS = 6 };

struct fixture {
    size_t page;
    struct psti_stream_layout layout;
    struct psti_share_view *view;
    int fd;
    uint8_t *bytes; /* the writer's */
    uint32_t generations[SLOTS];
};

/* Opens a fixture with two shown fields, the first with rows of a page and a half, and a small
 * field between them. */
static void open_fixture(struct fixture *f, enum psti_share_view_finds finds)
{
    struct pst_error err;
    void *bytes;
    memset(f, 0, sizeof *f);
    f->page = (size_t)sysconf(_SC_PAGESIZE);
    f->layout = (struct psti_stream_layout){
        .extent_rows = ROWS, .n_slots = SLOTS, .n_fields = FIELDS, .stride = 64 * f->page};
    f->layout.fields[0] = (struct psti_stream_field){f->page, f->page + f->page / 2};
    f->layout.fields[1] = (struct psti_stream_field){20 * f->page, 8};
    f->layout.fields[2] = (struct psti_stream_field){24 * f->page, 2 * f->page};
    f->layout.own = 48 * f->page;
    assert_int_equal(psti_sealed_store_make("test", SLOTS * f->layout.stride, &f->fd, &bytes, &err),
                     PST_OK);
    f->bytes = bytes;
    assert_true(psti_sealed_store_grow(f->fd, 0, SLOTS * f->layout.stride));
    f->view = psti_share_view_open(&f->layout, SPAN);
    assert_non_null(f->view);
    psti_share_view_set_finds(f->view, finds);
}

static void close_fixture(struct fixture *f)
{
    psti_share_view_release(f->view);
    psti_sealed_unmap(f->bytes, SLOTS * f->layout.stride);
    close(f->fd);
}

/* Returns the value of the row in this generation of the slot. */
static uint8_t value(uint32_t slot, uint32_t generation, uint32_t i_field, uint32_t row)
{
    return (uint8_t)(1 + slot * 31 + generation * 17 + i_field * 7 + row * 3);
}

static void write_slot(struct fixture *f, uint32_t slot)
{
    f->generations[slot]++;
    for (uint32_t i = 0; i < FIELDS; i++)
        for (uint32_t row = 0; row < ROWS; row++) {
            const struct psti_stream_field *field = &f->layout.fields[i];
            memset(f->bytes + slot * f->layout.stride + field->offset + row * field->row_nbytes,
                   value(slot, f->generations[slot], i, row), field->row_nbytes);
        }
}

struct batch {
    struct psti_share_view_run run;
    uint32_t slots[SPAN], n, skip, n_rows;
    bool written; /* the job has overwritten its rows with 0 */
};

static bool take(struct fixture *f, struct batch *batch)
{
    return psti_share_view_take(f->view, f->fd, batch->slots, batch->n, batch->skip, batch->n_rows,
                                &batch->run);
}

static void check(const struct fixture *f, const struct batch *batch)
{
    for (uint32_t i = 0; i < FIELDS; i += 2) {
        size_t nbytes = f->layout.fields[i].row_nbytes;
        const uint8_t *rows = psti_share_view_rows(&batch->run, i);
        for (uint32_t row = 0; row < batch->n_rows; row++) {
            uint32_t at = batch->skip + row, slot = batch->slots[at / ROWS];
            uint8_t want = batch->written ? 0 : value(slot, f->generations[slot], i, at % ROWS);
            for (size_t k = 0; k < nbytes; k += 64)
                assert_int_equal(rows[row * nbytes + k], want);
            assert_int_equal(rows[row * nbytes + nbytes - 1], want);
        }
    }
}

static void write_batch(const struct fixture *f, struct batch *batch)
{
    for (uint32_t i = 0; i < FIELDS; i += 2)
        memset(psti_share_view_rows(&batch->run, i), 0,
               batch->n_rows * f->layout.fields[i].row_nbytes);
    batch->written = true;
}

static void only_whole_pages_are_shown(void **state)
{
    (void)state;
    assert_true(psti_share_view_shows(4096, 1, 4096));
    assert_true(psti_share_view_shows(6144, 8, 4096));
    assert_false(psti_share_view_shows(6144, 1, 4096));
    assert_false(psti_share_view_shows(2048, 8, 4096));
    assert_false(psti_share_view_shows(0, 8, 4096));
    struct psti_stream_layout layout = {.extent_rows = 8, .n_slots = 4, .n_fields = 1};
    layout.fields[0].row_nbytes = 8;
    assert_null(psti_share_view_open(&layout, 4));
}

/* A service that lies puts the second field between pages: there is no view, and the job copies. */
static void fields_between_pages_are_not_shown(void **state)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct psti_stream_layout layout = {
        .extent_rows = 8, .n_slots = 4, .n_fields = 2, .stride = 32 * page, .own = 32 * page};
    (void)state;
    for (uint64_t off = 0; off < 2; off++) {
        layout.fields[0] = (struct psti_stream_field){page, page};
        layout.fields[1] = (struct psti_stream_field){10 * page + 64 * off, page};
        struct psti_share_view *view = psti_share_view_open(&layout, 4);
        assert_true((view != NULL) == (off == 0));
        psti_share_view_release(view);
    }
}

/* Rows of neighbouring, distant and wrapped slots appear one after another. */
static void rows_follow_one_another(void **state)
{
    static const uint32_t slots[4][3] = {
        {0, 1, 2}, {7, 3, 9}, {SLOTS - 2, SLOTS - 1, 0}, {4, 6, 5}};
    struct fixture f;
    (void)state;
    open_fixture(&f, PSTI_SHARE_VIEW_BY_PAGEMAP);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        write_slot(&f, slot);
    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t skip = 0; skip < ROWS; skip++) {
            struct batch batch = {.n = 3, .skip = skip, .n_rows = 3 * ROWS - skip - (k % 5)};
            memcpy(batch.slots, slots[k % 4], sizeof slots[0]);
            assert_true(take(&f, &batch));
            check(&f, &batch);
            psti_share_view_leave(&batch.run);
        }
    struct batch wrong = {.slots = {0, SLOTS}, .n = 2, .n_rows = 2 * ROWS};
    assert_false(take(&f, &wrong));
    close_fixture(&f);
}

/* Two batches that share an extent use the same place in the view. Two batches of the same rows use
 * two places. */
static void batches_meet_in_an_extent(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, PSTI_SHARE_VIEW_BY_PAGEMAP);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        write_slot(&f, slot);
    struct batch a = {.slots = {0, 1}, .n = 2, .n_rows = 11};
    struct batch b = {.slots = {1, 2}, .n = 2, .skip = 3, .n_rows = 9};
    struct batch again[RUNS];
    assert_true(take(&f, &a));
    assert_true(take(&f, &b));
    assert_int_equal(b.run.first, a.run.first + 1);
    write_batch(&f, &a);
    check(&f, &b);
    write_batch(&f, &b);
    check(&f, &a);
    int n = 0;
    for (; n < RUNS; n++) {
        again[n] = (struct batch){.slots = {0, 1}, .n = 2, .n_rows = 11};
        if (!take(&f, &again[n]))
            break;
        check(&f, &again[n]);
        write_batch(&f, &again[n]);
    }
    assert_true(n > 0 && n < RUNS); /* the number of spare places */
    psti_share_view_leave(&a.run);
    struct batch c = {.slots = {1}, .n = 1, .n_rows = 3}; /* rows that batch `a` has overwritten */
    while (n > 0)
        psti_share_view_leave(&again[--n].run);
    assert_true(take(&f, &c));
    check(&f, &c);
    check(&f, &b);
    psti_share_view_leave(&b.run);
    psti_share_view_leave(&c.run);
    close_fixture(&f);
}

/* A run (the rows of a batch in the view) lives longer than the view and everything else. */
static void a_run_outlives_the_view(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, PSTI_SHARE_VIEW_BY_PAGEMAP);
    write_slot(&f, 5);
    struct batch batch = {.slots = {5}, .n = 1, .n_rows = ROWS};
    assert_true(take(&f, &batch));
    close_fixture(&f);
    check(&f, &batch);
    psti_share_view_leave(&batch.run);
}

/* Pages that cannot be dropped because they are locked are mapped again. */
static void locked_pages_are_forgotten(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, PSTI_SHARE_VIEW_BY_PAGEMAP);
    write_slot(&f, 0);
    for (int i = 0; i < 3; i++) {
        struct batch batch = {.slots = {0}, .n = 1, .n_rows = ROWS};
        assert_true(take(&f, &batch));
        check(&f, &batch);
        if (mlock(psti_share_view_rows(&batch.run, 2), ROWS * f.layout.fields[2].row_nbytes) != 0)
            print_message("memory cannot be locked here\n");
        write_batch(&f, &batch);
        psti_share_view_leave(&batch.run);
    }
    close_fixture(&f);
}

/* Batches come and go in any order, some are overwritten, and slots without an owner get new
 * rows. */
static void any_order_is_right(enum psti_share_view_finds finds)
{
    struct fixture f;
    struct batch batches[RUNS];
    bool held[RUNS] = {false};
    uint32_t n_users[SLOTS] = {0}, n_taken = 0;
    open_fixture(&f, finds);
    srand(7);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        write_slot(&f, slot);
    for (int step = 0; step < 3000; step++) {
        uint32_t i = (uint32_t)rand() % RUNS;
        struct batch *batch = &batches[i];
        if (held[i]) {
            check(&f, batch);
            if (rand() % 2)
                write_batch(&f, batch);
            check(&f, batch);
            psti_share_view_leave(&batch->run);
        } else {
            uint32_t n = 1 + (uint32_t)rand() % SPAN, at = (uint32_t)rand() % SLOTS;
            *batch = (struct batch){.n = n, .skip = (uint32_t)rand() % ROWS};
            batch->n_rows = (n - 1) * ROWS + 1;
            batch->n_rows += (uint32_t)rand() % (n * ROWS - batch->skip - batch->n_rows + 1);
            if (n == 1 || batch->skip + batch->n_rows <= (n - 1) * ROWS)
                batch->n_rows = n * ROWS - batch->skip;
            for (uint32_t k = 0; k < n; k++)
                batch->slots[k] = rand() % 8 ? (at + k) % SLOTS : (uint32_t)rand() % SLOTS;
            if (!take(&f, batch))
                continue;
            n_taken++;
            check(&f, batch);
        }
        held[i] = !held[i];
        for (uint32_t k = 0; k < batch->n; k++)
            n_users[batch->slots[k]] += held[i] ? 1 : UINT32_MAX;
        uint32_t slot = (uint32_t)rand() % SLOTS;
        if (n_users[slot] == 0)
            write_slot(&f, slot);
    }
    assert_true(n_taken > 500);
    for (uint32_t i = 0; i < RUNS; i++)
        if (held[i])
            psti_share_view_leave(&batches[i].run);
    close_fixture(&f);
}

static void any_order_is_right_with_the_page_map(void **state)
{
    (void)state;
    any_order_is_right(PSTI_SHARE_VIEW_BY_PAGEMAP);
}

static void any_order_is_right_without_it(void **state)
{
    (void)state;
    any_order_is_right(PSTI_SHARE_VIEW_BY_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_whole_pages_are_shown),
        cmocka_unit_test(fields_between_pages_are_not_shown),
        cmocka_unit_test(rows_follow_one_another),
        cmocka_unit_test(batches_meet_in_an_extent),
        cmocka_unit_test(a_run_outlives_the_view),
        cmocka_unit_test(locked_pages_are_forgotten),
        cmocka_unit_test(any_order_is_right_with_the_page_map),
        cmocka_unit_test(any_order_is_right_without_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
