/* test_fleet_answers.c - the client of memcached gets right answers, and mutated ones: no request
 * has wrong bytes, ends twice or never, and nothing is written outside of a buffer (which ASan
 * watches).
 *
 *     test_fleet_answers [N [SEED]]     N mutated answers instead of 20,000; prints what became of
 * them
 */
#include "test.h"

#include "fleet/fleet_answers.h"

#include <stdlib.h>
#include <string.h>

static unsigned long n_mutated = 20000;
static uint64_t state_of_random = 1;

static uint32_t random_below(uint32_t n)
{
    uint64_t *s = &state_of_random;
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return (uint32_t)((*s >> 32) * n >> 32);
}

struct stream {
    uint8_t bytes[4 * ANSWERS_CAP];
    size_t n;
};

/* Replaces n bytes at `at` by others. Does nothing if they do not fit. */
static void splice(struct stream *s, size_t at, size_t n, const void *bytes, size_t nbytes)
{
    if (at + n > s->n || s->n - n + nbytes > sizeof s->bytes)
        return;
    memmove(s->bytes + at + nbytes, s->bytes + at + n, s->n - at - n);
    memcpy(s->bytes + at, bytes, nbytes);
    s->n = s->n - n + nbytes;
}

/* Puts the whole answer b, or only its value, in place of answer a or before it. */
static void mix_answers(struct stream *s, const struct answers *right, bool value_only)
{
    uint32_t a = random_below((uint32_t)right->n), b = random_below((uint32_t)right->n);
    size_t from = right->starts[b], end = right->starts[b + 1];
    size_t at = right->starts[a], old = right->starts[a + 1] - at;
    if (value_only) {
        const uint8_t *line_b = memchr(right->bytes + from, '\n', end - from);
        const uint8_t *line_a = memchr(right->bytes + at, '\n', old);
        from = (size_t)(line_b - right->bytes) + 1;
        old -= (size_t)(line_a - right->bytes) + 1 - at;
        at = (size_t)(line_a - right->bytes) + 1;
    } else if (random_below(2)) {
        old = 0;
    }
    splice(s, at, old, right->bytes + from, end - from);
}

/* Changes a length or a request's number to another number. */
static void change_number(struct stream *s)
{
    static const char *const numbers[] = {"0",
                                          "47",
                                          "48",
                                          "147",
                                          "149",
                                          "18446744073709551615",
                                          "-1",
                                          "9223372036854775807",
                                          "4294967295",
                                          "1e9",
                                          "0x30",
                                          "",
                                          "00000000000108",
                                          "f",
                                          "ffffffffffffffff",
                                          "2000000000"};
    size_t at = random_below((uint32_t)s->n), n = 0;
    while (at < s->n && !(s->bytes[at] >= '0' && s->bytes[at] <= '9'))
        at++;
    while (at + n < s->n && s->bytes[at + n] >= '0' && s->bytes[at + n] <= '9')
        n++;
    const char *other = numbers[random_below(sizeof numbers / sizeof numbers[0])];
    splice(s, at, n, other, strlen(other));
}

static void insert_line(struct stream *s)
{
    static const char *const lines[] = {"EN\r\n",
                                        "END\r\n",
                                        "HD\r\n",
                                        "STORED\r\n",
                                        "VA\r\n",
                                        "VA 5\r\nhello\r\n",
                                        "\r\n",
                                        "\n",
                                        "SERVER_ERROR out of memory\r\n",
                                        "CLIENT_ERROR bad\r\n",
                                        "ERROR\r\n",
                                        "MN\r\n",
                                        "NS O1\r\n",
                                        "VA 18446744073709551615 O1\r\n",
                                        "VALUE x 0 5\r\nhello\r\nEND\r\n",
                                        "EN kx O2\r\n"};
    const char *line = lines[random_below(sizeof lines / sizeof lines[0])];
    size_t at = random_below((uint32_t)s->n + 1);
    while (at > 0 && at < s->n && s->bytes[at - 1] != '\n')
        at++;
    splice(s, at, 0, line, strlen(line));
}

static void mutate_once(struct stream *s, const struct answers *right)
{
    size_t at = s->n ? random_below((uint32_t)s->n) : 0, left = s->n - at;
    size_t n = left ? 1 + random_below(left < 300 ? (uint32_t)left : 300) : 0;
    uint8_t some[600];
    if (s->n == 0)
        return;
    switch (random_below(9)) {
    case 0:
        s->bytes[at] ^= (uint8_t)(1 << random_below(8));
        break;
    case 1:
        splice(s, at, n, "", 0);
        break;
    case 2: /* twice */
        memcpy(some, s->bytes + at, n);
        splice(s, at, 0, some, n);
        break;
    case 3:
        for (size_t i = 0; i < n; i++)
            some[i] = (uint8_t)random_below(256);
        splice(s, at, random_below(2) ? n : 0, some, n);
        break;
    case 4:
        s->n = at;
        break;
    case 5:
        change_number(s);
        break;
    case 6:
        insert_line(s);
        break;
    default:
        mix_answers(s, right, random_below(2));
        break;
    }
}

static void test_right(void **state)
{
    (void)state;
    struct answers right;
    make_answers(&right);
    size_t nbytes = right.starts[right.n];
    for (size_t chunk = 0; chunk < 260; chunk++)
        assert_int_equal(feed_answers(right.bytes, nbytes, chunk, true), ANSWERS_HITS);
    for (size_t n = 0; n < nbytes; n++) /* the server closes after each byte */
        assert_true(feed_answers(right.bytes, n, 0, true) <= ANSWERS_HITS);
    assert_int_equal(feed_answers(right.bytes, 0, 0, true), 0);
}

static void test_long_item(void **state)
{
    (void)state;
    feed_long_item();
}

static void test_mutated(void **state)
{
    (void)state;
    struct answers right;
    static struct stream stream;
    unsigned long n_hits[ANSWERS_HITS + 1] = {0};
    make_answers(&right);
    for (unsigned long i = 0; i < n_mutated; i++) {
        memcpy(stream.bytes, right.bytes, stream.n = right.starts[right.n]);
        for (uint32_t k = random_below(3) + 1; k > 0; k--)
            mutate_once(&stream, &right);
        size_t chunk = random_below(4) ? 0 : 1 + random_below(400);
        n_hits[feed_answers(stream.bytes, stream.n, chunk, true)]++;
    }
    print_message("%lu mutated answers; hits of %d items: none %lu, 1 %lu, 2 %lu, 3 %lu, all %lu\n",
                  n_mutated, ANSWERS_HITS, n_hits[0], n_hits[1], n_hits[2], n_hits[3], n_hits[4]);
    assert_true(n_hits[0] > 0 && n_hits[1] > 0 && n_hits[4] > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right),
                                       cmocka_unit_test(test_long_item),
                                       cmocka_unit_test(test_mutated)};
    if (argc > 1)
        n_mutated = strtoul(argv[1], NULL, 10);
    if (argc > 2)
        state_of_random = strtoull(argv[2], NULL, 10) | 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
