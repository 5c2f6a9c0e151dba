/* test_containers_parquet_parts.c - do the readers of Thrift, of RLE runs and of delta encoding
 * follow the format, and stop at bytes that break it? */
#include "test.h"

#include "containers/parquet/containers_parquet_runs.h"
#include "containers/parquet/containers_parquet_thrift.h"

#include <string.h>

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static struct psti_thrift thrift(const uint8_t *bytes, size_t nbytes)
{
    return (struct psti_thrift){.bytes = bytes, .nbytes = nbytes};
}

static void fields_have_their_values(void **state)
{
    (void)state;
    /* Fields: 1: i32 -2; 3: text "ab"; 4: true; 20: i64 2^63 - 1, with its id written out; end. */
    struct psti_thrift t =
        thrift(BYTES(0x15, 0x03, 0x28, 0x02, 'a', 'b', 0x11, 0x06, 0x28, 0xfe, 0xff, 0xff, 0xff,
                     0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00));
    struct psti_thrift_field field = {0};
    assert_true(psti_containers_thrift_field(&t, &field));
    assert_int_equal(field.id, 1);
    assert_int_equal(psti_containers_thrift_int(&t, field.type), -2);
    assert_true(psti_containers_thrift_field(&t, &field));
    assert_int_equal(field.id, 3);
    struct psti_thrift_text text = psti_containers_thrift_text(&t, field.type);
    assert_int_equal(text.nbytes, 2);
    assert_memory_equal(text.bytes, "ab", 2);
    assert_true(psti_containers_thrift_field(&t, &field));
    assert_int_equal(field.id, 4);
    assert_true(psti_containers_thrift_bool(&t, field.type));
    assert_true(psti_containers_thrift_field(&t, &field));
    assert_int_equal(field.id, 20);
    assert_int_equal(psti_containers_thrift_int(&t, field.type), INT64_MAX);
    assert_false(psti_containers_thrift_field(&t, &field));
    assert_false(t.is_bad);
    assert_int_equal(t.at, t.nbytes);
}

static void all_types_can_be_skipped(void **state)
{
    (void)state;
    /* One field of each type: bool, i8, i16, i32, i64, double, text, list of 2 bools, set of i8,
     * map of 1 text to i8, empty map, struct with a field, UUID. */
    struct psti_thrift t = thrift(BYTES(0x11, 0x13, 7, 0x14, 2, 0x15, 2, 0x16, 2, 0x17, 1, 2, 3, 4,
                                        5, 6, 7, 8, 0x18, 1, 'x', 0x19, 0x21, 1, 2, 0x1a, 0x13, 9,
                                        0x1b, 1, 0x83, 1, 'k', 5, 0x1b, 0, 0x1c, 0x15, 2, 0, 0x1d,
                                        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0));
    struct psti_thrift_field field = {0};
    int n = 0;
    while (psti_containers_thrift_field(&t, &field)) {
        psti_containers_thrift_skip(&t, field.type);
        n++;
    }
    assert_int_equal(n, 13);
    assert_false(t.is_bad);
    assert_int_equal(t.at, t.nbytes);
}

/* Skips a struct of these bytes. Returns the reader. */
static struct psti_thrift skipped(const uint8_t *bytes, size_t nbytes)
{
    struct psti_thrift t = thrift(bytes, nbytes);
    psti_containers_thrift_skip(&t, PSTI_THRIFT_STRUCT);
    return t;
}

static void what_is_no_thrift_is_bad(void **state)
{
    (void)state;
    uint8_t deep[100];
    memset(deep, 0x1c, sizeof deep); /* structs nested too deeply */
    struct psti_thrift t = skipped(deep, sizeof deep);
    assert_true(t.is_bad && !t.is_short);
    assert_true(skipped(BYTES(0x15)).is_short);
    assert_true(skipped(BYTES(0x18, 5, 'a')).is_short);
    assert_true(skipped(BYTES(0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f)).is_bad); /* 2^32 - 1 */
    assert_true(skipped(BYTES(0x1e, 0)).is_bad);                                  /* no such type */
    t = skipped(
        BYTES(0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0));
    assert_true(t.is_bad && !t.is_short); /* a varint of too many bytes */
    t = thrift(BYTES(0x05, 0x01, 0));     /* the field id -1 */
    struct psti_thrift_field field = {0};
    assert_false(psti_containers_thrift_field(&t, &field));
    assert_true(t.is_bad);
    t = thrift(BYTES(0x15, 0x01));
    assert_int_equal(psti_containers_thrift_text(&t, PSTI_THRIFT_I32).nbytes, 0);
    assert_true(t.is_bad);
    t = thrift(BYTES(0x03, 0)); /* the negative count -2 */
    assert_int_equal(psti_containers_thrift_count(&t, PSTI_THRIFT_I32), 0);
    assert_true(t.is_bad);
    t = thrift(BYTES(0x25, 2, 4)); /* a list of integers where texts are expected */
    assert_int_equal(psti_containers_thrift_list(&t, PSTI_THRIFT_LIST, PSTI_THRIFT_TEXT), 0);
    assert_true(t.is_bad);
}

static void assert_runs(const uint8_t *bytes, size_t nbytes, uint32_t width,
                        const uint32_t *expected, size_t n)
{
    struct psti_parquet_runs runs;
    uint32_t number = 0;
    psti_containers_runs_begin(&runs, bytes, nbytes, width);
    for (size_t i = 0; i < n; i++) {
        assert_true(psti_containers_runs_next(&runs, &number));
        assert_int_equal(number, expected[i]);
    }
    assert_false(psti_containers_runs_next(&runs, &number));
}

static void runs_have_their_numbers(void **state)
{
    (void)state;
    /* Example of the format's specification: 0 to 7 in 3 bits, in one bit-packed group. */
    assert_runs(BYTES(0x03, 0x88, 0xc6, 0xfa), 3, (const uint32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    /* A run of three times 4, then a bit-packed group. */
    assert_runs(BYTES(0x06, 0x04, 0x03, 0x88, 0xc6, 0xfa), 3,
                (const uint32_t[]){4, 4, 4, 0, 1, 2, 3, 4, 5, 6, 7}, 11);
    /* With 32 bits, a run's value and each number of a group have 4 bytes. */
    assert_runs(BYTES(0x02, 1, 2, 3, 0xff), 32, (const uint32_t[]){0xff030201}, 1);
    /* With 0 bits all numbers are 0 and take no bytes. */
    assert_runs(BYTES(0x06, 0x03), 0, (const uint32_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 11);
    /* The unused end of a group may be missing: 3 bits, and the bytes of five numbers. */
    assert_runs(BYTES(0x03, 0x88, 0x46), 3, (const uint32_t[]){0, 1, 2, 3, 4}, 5);
    /* Runs of length 0 are skipped. */
    assert_runs(BYTES(0x00, 0x01, 0x02, 0x01), 1, (const uint32_t[]){1}, 1);
    assert_runs(BYTES(0x80), 1, NULL, 0);
    assert_runs(BYTES(0x04), 1, NULL, 0);
    assert_runs(BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1), 1, NULL, 0);
}

static void differences_have_their_numbers(void **state)
{
    (void)state;
    /* Examples of the format's specification: 1 2 3 4 5, and 7 5 3 1 2 3 4 5, in blocks of 128 with
     * 4 mini blocks. */
    uint8_t second[64] = {0x80, 0x01, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f};
    static const struct {
        uint8_t bytes[64];
        size_t nbytes, n, end;
        int64_t expected[8];
    } cases[] = {
        {{0x80, 0x01, 4, 5, 2, 2, 0, 0, 0, 0}, 10, 5, 10, {1, 2, 3, 4, 5}},
        {{0x80, 0x01, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0, 9},
         19,
         8,
         18,
         {7, 5, 3, 1, 2, 3, 4, 5}},
        {{0x80, 0x01, 4, 1, 9}, 5, 1, 5, {-5}},
    };
    struct psti_parquet_deltas deltas;
    int64_t number = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(psti_containers_deltas_begin(&deltas, cases[i].bytes, cases[i].nbytes));
        assert_int_equal(deltas.n_left, cases[i].n);
        for (size_t k = 0; k < cases[i].n; k++) {
            assert_true(psti_containers_deltas_next(&deltas, &number));
            assert_int_equal(number, cases[i].expected[k]);
        }
        assert_int_equal(deltas.at - cases[i].bytes, cases[i].end);
        assert_false(psti_containers_deltas_next(&deltas, &number));
    }
    /* The mini block is truncated: only the first number can be read. */
    assert_true(psti_containers_deltas_begin(&deltas, second, 17));
    assert_true(psti_containers_deltas_next(&deltas, &number));
    assert_false(psti_containers_deltas_next(&deltas, &number));
    /* Refused: no mini blocks; a block size that the number of mini blocks does not divide;
     * differences of 65 bits. */
    assert_false(psti_containers_deltas_begin(&deltas, BYTES(0x80, 0x01, 0, 5, 2)));
    assert_false(psti_containers_deltas_begin(&deltas, BYTES(0x81, 0x01, 4, 5, 2)));
    assert_false(psti_containers_deltas_begin(&deltas, BYTES(0x80, 0x01)));
    second[6] = 65;
    assert_true(psti_containers_deltas_begin(&deltas, second, sizeof second));
    assert_true(psti_containers_deltas_next(&deltas, &number));
    assert_false(psti_containers_deltas_next(&deltas, &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_their_values),
        cmocka_unit_test(all_types_can_be_skipped),
        cmocka_unit_test(what_is_no_thrift_is_bad),
        cmocka_unit_test(runs_have_their_numbers),
        cmocka_unit_test(differences_have_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
