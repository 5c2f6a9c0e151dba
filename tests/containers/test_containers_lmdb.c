/* test_containers_lmdb.c - does the walk over LMDB give what the library itself reads, and does it
 * refuse, with a named reason, what cannot be samples? */
#include "test.h"

#include "rows_helper.h"

#include "containers/lmdb/containers_lmdb.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

static const char *folder;
#define WALK psti_containers_lmdb_walk

/* Offsets in a meta page (liblmdb's MDB_meta follows 16 bytes of MDB_page). */
enum {
    PAGE = 4096,
    MAGIC = 16,
    VERSION = 20,
    PAGE_NBYTES = 40,
    DEPTH = 94,
    ROOT = 128,
    COMMIT = 144
};

static uint8_t *newest_meta(struct rows *rows)
{
    uint8_t *first = rows->bytes, *second = rows->bytes + PAGE;
    return psti_load_u64(second + COMMIT) > psti_load_u64(first + COMMIT) ? second : first;
}

static uint8_t *root_of(struct rows *rows)
{
    uint64_t root = psti_load_u64(newest_meta(rows) + ROOT);
    assert_true((root + 1) * PAGE <= rows->nbytes);
    return rows->bytes + root * PAGE;
}

static uint8_t *node_of(uint8_t *page, uint32_t i)
{
    return page + psti_load_u16(page + 16 + (size_t)2 * i);
}

static void walks_give_what_the_library_reads(void **state)
{
    (void)state;
    static const char *const names[] = {
        "images", "datum_pixels", "datum_ragged", "datum_images", "datum_floats", "keys",
        "deep",   "integer_keys", "reverse_keys", "names",        "commits",      "page_8192",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rows rows;
        char file[64], list[64];
        snprintf(file, sizeof file, "%s.mdb", names[i]);
        snprintf(list, sizeof list, "%s.txt", names[i]);
        rows_open(&rows, folder, file);
        rows_assert_list(&rows, WALK, folder, list);
        rows_close(&rows);
    }
}

static void what_tells_about_the_database_is_left_out_and_said(void **state)
{
    (void)state;
    struct rows rows;
    struct pst_error err;
    rows_keep_log();
    rows_open(&rows, folder, "images.mdb");
    assert_ok(rows_walk(&rows, WALK, NULL, NULL, 0, &err));
    assert_non_null(strstr(rows_log, "3 entries that tell about the database, such as '__keys__'"));
    rows_close(&rows);
    rows_keep_log();
    rows_open(&rows, folder, "names.mdb");
    assert_ok(rows_walk(&rows, WALK, NULL, NULL, 0, &err));
    assert_non_null(strstr(rows_log, "2 databases with names, such as 'train', are left out"));
    rows_close(&rows);
    /* A key "length" whose value is no number is a sample. */
    rows_keep_log();
    rows_open(&rows, folder, "keys.mdb");
    assert_ok(rows_walk(&rows, WALK, NULL, NULL, 0, &err));
    assert_non_null(strstr(rows.text, "length: value=12:"));
    assert_string_equal(rows_log, "");
    rows_close(&rows);
}

static void an_empty_database_has_no_rows(void **state)
{
    (void)state;
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "empty.mdb");
    assert_ok(rows_walk(&rows, WALK, NULL, NULL, 0, &err));
    assert_int_equal(rows.n_samples, 0);
    assert_int_equal(rows.n_fields, 0);
    rows_close(&rows);
}

static void pickles_are_refused_unless_they_are_to_be_bytes(void **state)
{
    (void)state;
    static const struct psti_field_rule bytes = {.suffix = "value", .type = PST_FIELD_BYTES},
                                        text = {.suffix = "value", .type = PST_FIELD_TEXT},
                                        none = {.suffix = "value", .is_left_out = true};
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "pickles.mdb");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED,
                      "the value of '0' is a pickle, which is code of Python and is not run");
    rows_assert_fails(&rows, WALK, &text, 1, PST_ERROR_UNSUPPORTED, "is a pickle");
    assert_ok(rows_walk(&rows, WALK, NULL, &none, 1, &err));
    assert_int_equal(rows.n_samples, 0);
    assert_ok(rows_walk(&rows, WALK, NULL, &bytes, 1, &err));
    assert_int_equal(rows.n_samples, 3);
    rows_close(&rows);
}

static void what_cannot_be_samples_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text;
    } refused[] = {
        {"only_names.mdb", "the main database has no samples, but databases with names, such as "
                           "'train'"},
        {"several_values.mdb", "may have several values (MDB_DUPSORT)"},
        {"datum_apart.mdb", "the floats of the Caffe Datum of '00000000_n00000000/0.JPEG' do not "
                            "lie in one piece"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct rows rows;
        rows_open(&rows, folder, refused[i].file);
        rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED, refused[i].text);
        rows_close(&rows);
    }
}

static void all_values_are_of_one_kind(void **state)
{
    (void)state;
    static const struct psti_field_rule bytes = {.suffix = "image", .type = PST_FIELD_BYTES};
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "scene_text.mdb");
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT,
                      "the value of 'label-000000001' is bytes of no known kind, and the first "
                      "value of the database is an image");
    assert_ok(rows_walk(&rows, WALK, NULL, &bytes, 1, &err));
    assert_int_equal(rows.n_samples, 2);
    assert_int_equal(rows.fields[0].type, PST_FIELD_BYTES);
    rows_close(&rows);
}

static void rules_name_and_type_the_columns(void **state)
{
    (void)state;
    static const struct psti_field_rule rules[] = {
        {.suffix = "image", .field = "photo", .type = PST_FIELD_BYTES},
        {.suffix = "label", .field = "class", .type = PST_FIELD_INT, .n_classes = 71},
    };
    static const struct psti_field_rule few = {
        .suffix = "label", .type = PST_FIELD_INT, .n_classes = 70};
    static const struct psti_field_rule text = {.suffix = "value", .type = PST_FIELD_TEXT};
    static const struct psti_field_rule no_label = {.suffix = "label", .is_left_out = true};
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "datum_images.mdb");
    assert_ok(rows_walk(&rows, WALK, NULL, rules, 2, &err));
    assert_string_equal(rows.fields[0].name, "photo");
    assert_string_equal(rows.fields[1].name, "class");
    /* The bytes are those of the image, not of the Datum that contains it. */
    char *with_label = rows_list(&rows);
    assert_non_null(strstr(with_label, "photo=729:"));
    free(with_label);
    assert_ok(
        rows_walk(&rows, WALK, NULL, (struct psti_field_rule[]){rules[0], no_label}, 2, &err));
    assert_non_null(strstr(rows.text, "photo=729:"));
    rows_assert_fails(&rows, WALK, &few, 1, PST_ERROR_CORRUPT, "there are the classes 0 to 69");
    rows_close(&rows);
    rows_open(&rows, folder, "integer_keys.mdb");
    assert_ok(rows_walk(&rows, WALK, NULL, &text, 1, &err));
    assert_int_equal(rows.fields[0].type, PST_FIELD_TEXT);
    rows_close(&rows);
}

/* A commit that was torn by a crash leaves the state of the commit before it. */
static void the_newest_whole_commit_counts(void **state)
{
    (void)state;
    struct rows rows;
    rows_open(&rows, folder, "commits.mdb");
    memset(newest_meta(&rows) + MAGIC, 0, 8);
    if (newest_meta(&rows) != rows.bytes)
        rows_assert_list(&rows, WALK, folder, "commits_before.txt");
    else /* the first meta page gives the page size: without it the file cannot be read */
        rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "no data file of LMDB");
    rows_close(&rows);
    rows_open(&rows, folder, "commits.mdb");
    psti_store_u64(newest_meta(&rows) + ROOT, 1 << 20);
    rows_assert_list(&rows, WALK, folder, "commits_before.txt");
    psti_store_u64(rows.bytes + ROOT, 1 << 20);
    psti_store_u64(rows.bytes + PAGE + ROOT, 1 << 20);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "both first pages");
    rows_close(&rows);
}

static uint64_t n_commits;

/* Imitates another program that commits while the walk runs. */
static void commit(struct rows *rows)
{
    if (rows->n_reads != 2)
        return;
    uint8_t *meta = newest_meta(rows),
            *other = meta == rows->bytes ? rows->bytes + PAGE : rows->bytes;
    uint64_t number = psti_load_u64(meta + COMMIT) + n_commits;
    memcpy(other + MAGIC, meta + MAGIC, COMMIT - MAGIC);
    psti_store_u64(other + COMMIT, number);
}

static void a_database_may_be_written_once_while_it_is_read(void **state)
{
    (void)state;
    struct rows rows;
    rows_keep_log();
    rows_open(&rows, folder, "deep.mdb");
    rows.before_read = commit;
    n_commits = 1;
    rows_assert_list(&rows, WALK, folder, "deep.txt");
    assert_non_null(strstr(rows_log, "the database was written while it was read"));
    n_commits = 2;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_BUSY, "was written while it was read");
    rows_close(&rows);
}

static void other_layouts_are_refused_by_name(void **state)
{
    (void)state;
    struct rows rows;
    rows_open(&rows, folder, "keys.mdb");
    rows.bytes[VERSION] = 2;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED, "the layout of LMDB 1.0");
    rows.bytes[VERSION] = 1;
    psti_store_u32(rows.bytes + MAGIC, 0xdec0efbe);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED, "big-endian");
    memset(rows.bytes, 0, 32);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "no data file of LMDB");
    psti_store_u32(rows.bytes + 12, 0xbeefc0de);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED, "32 bits");
    memset(rows.bytes, 0, 32);
    /* magic number of a format with page headers of 24 bytes */
    psti_store_u32(rows.bytes + 24, 0xbeefc0de);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_UNSUPPORTED, "the layout of LMDB 1.0");
    rows.nbytes = 100;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, "too short");
    rows_close(&rows);
}

/* Copies the file, applies the change, walks, and expects an error with `text`. */
static void assert_damage(void (*change)(struct rows *), const char *text)
{
    struct rows rows;
    rows_open(&rows, folder, "deep.mdb");
    change(&rows);
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_CORRUPT, text);
    rows_close(&rows);
}

static void set_child(struct rows *rows, uint64_t number)
{
    uint8_t *node = node_of(root_of(rows), 0);
    psti_store_u32(node, (uint32_t)number);
    psti_store_u16(node + 4, (uint16_t)(number >> 32));
}

static void point_to_itself(struct rows *rows)
{
    set_child(rows, psti_load_u64(newest_meta(rows) + ROOT));
}
static void point_far(struct rows *rows) { set_child(rows, UINT64_C(0xffffffffffff)); }
static void point_to_meta(struct rows *rows) { set_child(rows, 1); }
static void point_twice(struct rows *rows)
{
    uint8_t *page = root_of(rows);
    memcpy(node_of(page, 1), node_of(page, 0), 6);
}
static void make_flat(struct rows *rows) { psti_store_u16(newest_meta(rows) + DEPTH, 1); }
static void make_deeper(struct rows *rows) { psti_store_u16(newest_meta(rows) + DEPTH, 4); }
static void count_less(struct rows *rows) { psti_store_u64(newest_meta(rows) + 120, 63); }
static void move_node(struct rows *rows) { psti_store_u16(root_of(rows) + 16, PAGE - 4); }
static void move_node_up(struct rows *rows) { psti_store_u16(root_of(rows) + 16, 12); }
static void lengthen_key(struct rows *rows)
{
    psti_store_u16(node_of(root_of(rows), 1) + 6, 60000);
}
static void lower_bound(struct rows *rows) { psti_store_u16(root_of(rows) + 12, 5000); }
static void renumber(struct rows *rows) { root_of(rows)[0]++; }

/* Returns the leaf page with the first or the last entries. */
static uint8_t *leaf_of(struct rows *rows, bool is_last)
{
    uint8_t *page = root_of(rows);
    while ((page[10] & 1) != 0) {
        uint32_t n = (psti_load_u16(page + 12) - 16) / 2u;
        uint8_t *node = node_of(page, is_last ? n - 1 : 0);
        page = rows->bytes + (psti_load_u64(node) & 0xffffffffffff) * PAGE;
    }
    return page;
}
static uint8_t *first_leaf(struct rows *rows) { return leaf_of(rows, false); }
static void unsort(struct rows *rows) { node_of(first_leaf(rows), 2)[8] = '0' - 1; }
static void lengthen_value(struct rows *rows)
{
    psti_store_u32(node_of(first_leaf(rows), 1), 5000);
}
static void empty_key(struct rows *rows) { psti_store_u16(node_of(first_leaf(rows), 0) + 6, 0); }
static void make_big(struct rows *rows)
{
    uint8_t *node = node_of(leaf_of(rows, true), 0); /* the node's value has at least 8 bytes */
    psti_store_u16(node + 4, 1);
    psti_store_u64(node + 8 + psti_load_u16(node + 6), 2);
}

static void damaged_trees_are_told(void **state)
{
    (void)state;
    assert_damage(point_to_itself, "is no leaf page");
    assert_damage(point_far, "is none that the database has");
    assert_damage(point_to_meta, "is none that the database has");
    assert_damage(point_twice, "has keys that are not in order");
    assert_damage(make_flat, "is no leaf page");
    assert_damage(make_deeper, "is no branch page");
    assert_damage(count_less, "it has 64 entries, and its first pages say 63");
    assert_damage(move_node, "has a node that lies outside of it");
    assert_damage(move_node_up, "has a node that lies outside of it");
    assert_damage(lengthen_key, "has a node that lies outside of it");
    assert_damage(lower_bound, "has a wrong list of nodes");
    assert_damage(renumber, "has another number");
    assert_damage(unsort, "has keys that are not in order");
    assert_damage(lengthen_value, "has a value that lies outside of it");
    assert_damage(empty_key, "has an entry without a key");
    assert_damage(make_big, "is no overflow page");
}

/* Copies the last leaf to a new page behind all others. */
static void append_leaf(struct rows *rows)
{
    enum { LAST_PAGE = 136 };
    uint64_t number = rows->nbytes / PAGE;
    uint8_t *parent = root_of(rows), *node = NULL, *child = parent;
    rows->bytes = realloc(rows->bytes, rows->nbytes + PAGE);
    assert_non_null(rows->bytes);
    rows->nbytes += PAGE;
    for (child = parent = root_of(rows); (child[10] & 1) != 0;) {
        parent = child;
        node = node_of(parent, (psti_load_u16(parent + 12) - 16) / 2u - 1);
        child = rows->bytes + (psti_load_u64(node) & 0xffffffffffff) * PAGE;
    }
    memcpy(rows->bytes + number * PAGE, child, PAGE);
    psti_store_u64(rows->bytes + number * PAGE, number);
    psti_store_u32(node, (uint32_t)number);
    psti_store_u64(newest_meta(rows) + LAST_PAGE, number);
}

static void a_cut_file_names_its_last_whole_entry(void **state)
{
    (void)state;
    struct rows rows;
    struct pst_error err;
    rows_open(&rows, folder, "deep.mdb");
    append_leaf(&rows);
    rows_assert_list(&rows, WALK, folder, "deep.txt");
    rows.nbytes -= 1;
    assert_int_equal(rows_walk(&rows, WALK, NULL, NULL, 0, &err), PST_ERROR_TRUNCATED);
    assert_non_null(strstr(err.text, "so it was cut; the last whole entry is '0"));
    rows.nbytes = 2 * PAGE;
    rows_assert_fails(&rows, WALK, NULL, 0, PST_ERROR_TRUNCATED, "before its first entry");
    rows_close(&rows);
}

static void damage_is_borne(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t step;
    } files[] = {
        {"images.mdb", 97}, {"datum_images.mdb", 211}, {"deep.mdb", 509}, {"keys.mdb", 61}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct rows rows;
        rows_open(&rows, folder, files[i].name);
        rows_damage(&rows, WALK, files[i].step);
        rows_close(&rows);
    }
}

static void memory_may_be_lacking_anywhere(void **state)
{
    (void)state;
    struct rows rows;
    rows_open(&rows, folder, "deep.mdb");
    rows_lack_memory(&rows, WALK, NULL);
    rows_close(&rows);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_give_what_the_library_reads),
        cmocka_unit_test(what_tells_about_the_database_is_left_out_and_said),
        cmocka_unit_test(an_empty_database_has_no_rows),
        cmocka_unit_test(pickles_are_refused_unless_they_are_to_be_bytes),
        cmocka_unit_test(what_cannot_be_samples_is_refused_by_name),
        cmocka_unit_test(all_values_are_of_one_kind),
        cmocka_unit_test(rules_name_and_type_the_columns),
        cmocka_unit_test(the_newest_whole_commit_counts),
        cmocka_unit_test(a_database_may_be_written_once_while_it_is_read),
        cmocka_unit_test(other_layouts_are_refused_by_name),
        cmocka_unit_test(a_cut_file_names_its_last_whole_entry),
        cmocka_unit_test(damaged_trees_are_told),
        cmocka_unit_test(damage_is_borne),
        cmocka_unit_test(memory_may_be_lacking_anywhere),
    };
    if (argc < 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
