/* test_cache_file.c - tests saving a cache to a file and loading it: which items come back, what is
 * refused, and that a failed call loses nothing and leaves no file. */
#include "cache/cache_fixture.h"

#include "base/fault.h"
#include "base/hash.h"
#include "base/thread.h"
#include "cache/cache.h"

#include <penstock/penstock.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static char directory[] = "/tmp/pst-cache-XXXXXX";
static char path[64], other_path[64]; /* paths of files in `directory` */

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/saved", directory);
    snprintf(other_path, sizeof other_path, "%s/other", directory);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(path);
    unlink(other_path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(directory);
}

/* Counts the files in the directory, so that a temporary file left behind is detected. */
static int n_files(void)
{
    DIR *dir = opendir(directory);
    int n = -2; /* not counting "." and ".." */
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static unsigned char *read_file(const char *from, size_t *nbytes)
{
    struct stat st;
    int fd = open(from, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    unsigned char *bytes = malloc((size_t)st.st_size + 1);
    assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    *nbytes = (size_t)st.st_size;
    return bytes;
}

static void write_file(const char *to, const void *bytes, size_t nbytes)
{
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, nbytes), nbytes);
    close(fd);
}

static struct psti_cache_set *open_set(pst_cache *cache, uint8_t identity, uint64_t n_samples,
                                       uint32_t n_items)
{
    const struct psti_cache_shape shape = {{identity}, n_samples, n_items, 0, false};
    struct psti_cache_set *set = NULL;
    struct pst_error err;
    assert_ok(psti_cache_set_open(cache, &shape, &set, &err));
    return set;
}

static struct pst_cache_file_report save(pst_cache *cache)
{
    struct pst_cache_file_report report;
    struct pst_error err;
    assert_ok(pst_cache_save(cache, path, &report, sizeof report, &err));
    return report;
}

static struct pst_cache_file_report load(pst_cache *cache)
{
    struct pst_cache_file_report report;
    struct pst_error err;
    assert_ok(pst_cache_load(cache, path, &report, sizeof report, &err));
    return report;
}

/* Looks up an item of nbytes equal bytes: stores it if it is admitted, checks it if it is a hit. */
static enum psti_cache_answer visit(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                    uint64_t nbytes, unsigned char byte)
{
    struct psti_cache_span span;
    unsigned char *bytes = malloc(nbytes ? nbytes : 1);
    assert_non_null(bytes);
    memset(bytes, byte, nbytes);
    enum psti_cache_answer answer = psti_cache_ask(set, sample, i_item, nbytes, &span);
    if (answer == PSTI_CACHE_ADMIT)
        assert_true(
            psti_cache_keep(set, sample, i_item, nbytes,
                            &(struct psti_cache_span){bytes, nbytes, PSTI_CACHE_AS_STORED}));
    if (answer == PSTI_CACHE_HIT) {
        assert_int_equal(span.nbytes, nbytes);
        assert_memory_equal(span.bytes, bytes, nbytes);
        assert_int_equal((uintptr_t)span.bytes % 16, 0);
    }
    free(bytes);
    return answer;
}

/* Makes a small cache of two data sets: items of samples 0 to 2 of the first, 1 and 3 of the
 * second. */
static pst_cache *small_cache(void)
{
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *a = open_set(cache, 1, 4, 2), *b = open_set(cache, 2, 4, 1);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(visit(a, i, 1, 10 + i, (unsigned char)i), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(b, 3, 0, 33, 3), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(b, 1, 0, 0, 1), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&b);
    psti_cache_set_close(&a);
    return cache;
}

/* Saves the small cache and returns the bytes of the file. */
static unsigned char *small_file(size_t *nbytes)
{
    pst_cache *cache = small_cache();
    save(cache);
    pst_cache_close(&cache);
    return read_file(path, nbytes);
}

/* Saves and loads more items than fit in a block, one longer than the buffer, one without bytes,
 * and two variants. */
static void test_round_trip(void **state)
{
    (void)state;
    enum { N_MANY = 9000, LARGE = 5000003 };
    pst_cache *cache = open_cache(64 * MIB);
    struct psti_cache_set *many = open_set(cache, 1, N_MANY, 1), *two = open_set(cache, 2, 3, 2);
    uint64_t nbytes = LARGE + 1;
    for (uint64_t i = N_MANY; i-- > 0; nbytes += i % 2 ? 0 : i % 50)
        if (i % 2 == 0)
            assert_int_equal(visit(many, i, 0, i % 50, (unsigned char)i), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(two, 2, 1, LARGE, 9), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(two, 0, 0, 1, 8), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&two);
    struct pst_cache_file_report saved = save(cache);
    struct pst_cache_stats before = use_of(cache);
    assert_int_equal(saved.n_items, N_MANY / 2 + 2);
    assert_int_equal(saved.nbytes, nbytes);
    assert_int_equal(saved.n_datasets, 2);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, saved.file_nbytes);
    assert_int_equal(n_files(), 1);
    psti_cache_set_close(&many);
    pst_cache_close(&cache);

    cache = open_cache(64 * MIB);
    struct pst_cache_file_report loaded = load(cache);
    assert_memory_equal(&loaded, &saved, sizeof saved);
    struct pst_cache_stats after = use_of(cache);
    assert_memory_equal(&after, &before, sizeof after);
    many = open_set(cache, 1, N_MANY, 1);
    two = open_set(cache, 2, 3, 2);
    for (uint64_t i = 0; i < N_MANY; i += 2)
        assert_int_equal(visit(many, i, 0, i % 50, (unsigned char)i), PSTI_CACHE_HIT);
    assert_int_equal(visit(many, 1, 0, 7, 1), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(two, 2, 1, LARGE, 9), PSTI_CACHE_HIT);
    assert_int_equal(visit(two, 0, 0, 1, 8), PSTI_CACHE_HIT);
    assert_int_equal(visit(two, 0, 1, 1, 8), PSTI_CACHE_ADMIT);
    /* Another version or number of samples makes it another data set, without items. */
    struct psti_cache_set *changed = open_set(cache, 3, 3, 2), *longer = open_set(cache, 2, 4, 2);
    assert_int_equal(visit(changed, 2, 1, LARGE, 1), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(longer, 0, 0, 1, 1), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&longer);
    psti_cache_set_close(&changed);
    psti_cache_set_close(&two);
    psti_cache_set_close(&many);
    save(cache); /* saves the loaded items again */
    assert_int_equal(n_files(), 1);
    pst_cache_close(&cache);
    cache = open_cache(64 * MIB);
    assert_int_equal(load(cache).n_items, N_MANY / 2 + 6);
    pst_cache_close(&cache);
    struct pst_memory_stats memory;
    pst_memory_stats(&memory, sizeof memory);
    assert_int_equal(memory.live_nbytes, 0);
}

static void test_empty(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *set = open_set(cache, 1, 4, 1);
    assert_int_equal(save(cache).n_datasets, 0);
    assert_int_equal(load(cache).n_items, 0);
    psti_cache_set_close(&set);
    assert_int_equal(use_of(cache).nbytes_used, 0); /* a closed set without items was freed */
    assert_int_equal(use_of(cache).n_datasets, 0);
    struct pst_error err;
    assert_ok(pst_cache_save(cache, path, NULL, 0, &err));
    assert_ok(pst_cache_load(cache, path, NULL, 0, &err));
    pst_cache_close(&cache);
}

/* An open set keeps its items and takes the others from the file. A second load adds nothing. */
static void test_items_that_are_there(void **state)
{
    (void)state;
    size_t nbytes;
    free(small_file(&nbytes));
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *a = open_set(cache, 1, 4, 2);
    /* the cached item differs from the file's */
    assert_int_equal(visit(a, 1, 1, 11, 77), PSTI_CACHE_ADMIT);
    struct psti_cache_span span;
    assert_int_equal(psti_cache_ask(a, 2, 1, 12, &span), PSTI_CACHE_ADMIT);
    struct pst_cache_file_report report = load(cache);
    assert_int_equal(report.n_items, 3);
    assert_int_equal(report.nbytes, 10 + 33);
    assert_int_equal(report.n_present, 2);
    assert_int_equal(report.n_refused, 0);
    assert_int_equal(report.n_datasets, 2);
    assert_int_equal(visit(a, 0, 1, 10, 0), PSTI_CACHE_HIT);
    assert_int_equal(visit(a, 1, 1, 11, 77), PSTI_CACHE_HIT);
    assert_int_equal(visit(a, 2, 1, 12, 2), PSTI_CACHE_PASS); /* still reserved */
    psti_cache_give_up(a, 2, 1, 12);
    report = load(cache);
    assert_int_equal(report.n_items, 1);
    assert_int_equal(report.n_present, 4);
    assert_int_equal(visit(a, 2, 1, 12, 2), PSTI_CACHE_HIT);
    uint64_t used = use_of(cache).nbytes_used;
    report = load(cache);
    assert_int_equal(report.n_items, 0);
    assert_int_equal(report.n_present, 5);
    assert_int_equal(report.n_datasets, 0);
    assert_int_equal(use_of(cache).nbytes_used, used);
    assert_int_equal(used, 8 * 8 + 4 * 8 + 3 * 32 + room_of(33) + room_of(0));
    psti_cache_set_close(&a);
    pst_cache_close(&cache);
}

/* Items are loaded in the order of the file until the cache is full. Nothing is evicted for
 * them. */
static void test_budget(void **state)
{
    (void)state;
    enum { N = 40, NBYTES = 100000 };
    pst_cache *cache = open_cache(8 * MIB);
    struct psti_cache_set *set = open_set(cache, 1, N, 1);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(visit(set, i, 0, NBYTES, (unsigned char)i), PSTI_CACHE_ADMIT);
    save(cache);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);

    const uint64_t own = room_of(500000), n_fit = 10;
    cache = open_cache(8 + own + N * 8 + n_fit * room_of(NBYTES) + 5000);
    struct psti_cache_set *closed = open_set(cache, 9, 1, 1);
    assert_int_equal(visit(closed, 0, 0, 500000, 5), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&closed);
    struct pst_cache_file_report report = load(cache);
    assert_int_equal(report.n_items, n_fit);
    assert_int_equal(report.n_refused, N - n_fit);
    assert_int_equal(use_of(cache).nbytes_used, 8 + own + N * 8 + n_fit * room_of(NBYTES));
    assert_int_equal(use_of(cache).n_refused, 0);
    closed = open_set(cache, 9, 1, 1);
    assert_int_equal(visit(closed, 0, 0, 500000, 5), PSTI_CACHE_HIT);
    set = open_set(cache, 1, N, 1);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(visit(set, i, 0, NBYTES, (unsigned char)i),
                         i < n_fit ? PSTI_CACHE_HIT : PSTI_CACHE_PASS);
    psti_cache_set_close(&set);
    /* Loaded sets are evicted for an open data set, like any closed set. */
    assert_int_equal(visit(open_set(cache, 9, 1, 1), 0, 0, 500000, 5), PSTI_CACHE_HIT);
    set = open_set(cache, 10, 1, 1);
    assert_int_equal(visit(set, 0, 0, 900000, 1), PSTI_CACHE_ADMIT);
    psti_cache_set_close(&set);
    set = closed;
    psti_cache_set_close(&closed);
    psti_cache_set_close(&set); /* the second time that it was opened */
    pst_cache_close(&cache);
}

/* A data set whose table alone does not fit into the cache is not loaded. */
static void test_table_without_room(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(4 * MIB);
    struct psti_cache_set *set = open_set(cache, 1, 200000, 1);
    assert_int_equal(visit(set, 199999, 0, 100, 1), PSTI_CACHE_ADMIT);
    save(cache);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    cache = open_cache(MIB);
    struct pst_cache_file_report report = load(cache);
    assert_int_equal(report.n_items, 0);
    assert_int_equal(report.n_refused, 1);
    assert_int_equal(use_of(cache).nbytes_used, 0);
    pst_cache_close(&cache);
}

/* Loads an invalid file into a cache with items, which must not change. */
static enum pst_status load_bad(const unsigned char *bytes, size_t nbytes, struct pst_error *err)
{
    write_file(other_path, bytes, nbytes);
    pst_cache *cache = open_cache(MIB);
    struct psti_cache_set *a = open_set(cache, 1, 4, 2);
    assert_int_equal(visit(a, 3, 0, 10, 50), PSTI_CACHE_ADMIT);
    struct pst_cache_stats before = use_of(cache);
    enum pst_status status = pst_cache_load(cache, other_path, NULL, 0, err);
    if (status != PST_OK) {
        struct pst_cache_stats after = use_of(cache);
        assert_memory_equal(&after, &before, sizeof after);
        assert_string_equal(err->file, other_path);
        assert_true(err->offset >= 0 && (uint64_t)err->offset <= nbytes && err->text[0]);
        assert_int_equal(visit(a, 3, 0, 10, 50), PSTI_CACHE_HIT);
        /* the cache works, and has none of its old items */
        assert_int_equal(visit(a, 1, 1, 11, 50), PSTI_CACHE_ADMIT);
    }
    psti_cache_set_close(&a);
    pst_cache_close(&cache);
    return status;
}

static void test_truncated(void **state)
{
    (void)state;
    size_t nbytes;
    struct pst_error err;
    unsigned char *bytes = small_file(&nbytes);
    for (size_t n = 0; n < nbytes; n++)
        assert_int_equal(load_bad(bytes, n, &err), PST_ERROR_TRUNCATED);
    assert_int_equal(load_bad(bytes, nbytes, &err), PST_OK);
    assert_int_equal(load_bad(bytes, nbytes + 1, &err), PST_ERROR_CORRUPT);
    assert_int_equal(err.offset, nbytes);
    free(bytes);
}

/* One bit of each byte is flipped in turn: every flip is detected, also in bytes that are zero. */
static void test_flipped(void **state)
{
    (void)state;
    size_t nbytes;
    struct pst_error err;
    unsigned char *bytes = small_file(&nbytes);
    for (size_t i = 0; i < nbytes; i++) {
        bytes[i] ^= (unsigned char)(1 << i % 8);
        enum pst_status status = load_bad(bytes, nbytes, &err);
        bool is_version = i == 8 || i == 9;
        if (i < 8)
            assert_int_equal(status, PST_ERROR_CORRUPT);
        else
            assert_int_equal(status, is_version ? PST_ERROR_VERSION : PST_ERROR_CHECKSUM);
        if (is_version)
            assert_non_null(strstr(err.text, "format version"));
        bytes[i] ^= (unsigned char)(1 << i % 8);
    }
    free(bytes);
}

/* A file that the test makes piece by piece, with correct checksums. */
struct forged {
    unsigned char bytes[1 << 12];
    size_t n;
    uint64_t n_sets, n_items;
};

static void forge_begin(struct forged *forged)
{
    *forged = (struct forged){.n = PSTI_CACHE_HEADER_NBYTES};
    psti_format_print_cache_header(forged->bytes);
}

static void forge_record(struct forged *forged, const struct psti_cache_record *record)
{
    psti_format_print_cache_record(record, forged->bytes + forged->n);
    forged->n += PSTI_CACHE_RECORD_NBYTES;
}

static void forge_set(struct forged *forged, uint64_t n_samples, uint32_t n_items)
{
    const struct psti_cache_record record = {PSTI_CACHE_RECORD_SET,
                                             .set = {{1}, n_samples, n_items, 0, false}};
    forge_record(forged, &record);
    forged->n_sets++;
}

/* Appends a block of items of 3 bytes. `table_nbytes` and `head_number` are what the table and the
 * items' headers state; `more` is added to the block's length. */
static void forge_block(struct forged *forged, const uint64_t *numbers, uint64_t n,
                        uint64_t table_nbytes, uint64_t head_number, uint64_t more)
{
    unsigned char table[16 * PSTI_CACHE_ENTRY_NBYTES], items[16 * 32] = {0};
    for (uint64_t i = 0; i < n; i++) {
        psti_store_u64(items + 32 * i, 3);
        psti_store_u64(items + 32 * i + 8, numbers[i] + head_number);
        const struct psti_cache_entry entry = {numbers[i], table_nbytes,
                                               psti_hash64(items + 32 * i, 32)};
        psti_format_print_cache_entry(&entry, table + PSTI_CACHE_ENTRY_NBYTES * i);
    }
    const struct psti_cache_record record = {
        PSTI_CACHE_RECORD_BLOCK,
        .block = {n, 32 * n + more, psti_hash64(table, n * PSTI_CACHE_ENTRY_NBYTES)}};
    forge_record(forged, &record);
    memcpy(forged->bytes + forged->n, table, n * PSTI_CACHE_ENTRY_NBYTES);
    forged->n += n * PSTI_CACHE_ENTRY_NBYTES;
    memcpy(forged->bytes + forged->n, items, 32 * n);
    forged->n += 32 * n;
    forged->n_items += n;
}

static enum pst_status forge_end(struct forged *forged, uint64_t more_sets, uint64_t more_items,
                                 uint64_t more_nbytes)
{
    struct pst_error err;
    const struct psti_cache_record record = {
        PSTI_CACHE_RECORD_END, .end = {forged->n_sets + more_sets, forged->n_items + more_items,
                                       forged->n + PSTI_CACHE_RECORD_NBYTES + more_nbytes}};
    forge_record(forged, &record);
    return load_bad(forged->bytes, forged->n, &err);
}

/* Files with correct checksums whose numbers contradict each other. */
static void test_forged(void **state)
{
    (void)state;
    static const struct {
        uint64_t numbers[2], table_nbytes, head_number, more;
        enum pst_status status;
    } blocks[] = {
        {{0, 7}, 3, 0, 0, PST_OK},
        {{0, 8}, 3, 0, 0, PST_ERROR_CORRUPT}, /* number of an item beyond the data set */
        {{3, 3}, 3, 0, 0, PST_ERROR_CORRUPT}, /* twice */
        {{4, 3}, 3, 0, 0, PST_ERROR_CORRUPT}, /* items whose numbers are out of order */
        {{0, UINT64_MAX}, 3, 0, 0, PST_ERROR_CORRUPT},
        {{2, 7}, 4, 0, 0, PST_ERROR_CORRUPT},  /* the item's header says 3 bytes */
        {{2, 7}, 3, 1, 0, PST_ERROR_CORRUPT},  /* the item's header has another number */
        {{2, 7}, 16, 0, 0, PST_ERROR_CORRUPT}, /* takes as much space, but the header says 3 */
        {{2, 7}, 17, 0, 0, PST_ERROR_CORRUPT}, /* an item that reaches beyond the block */
        {{2, 7}, UINT64_MAX, 0, 0, PST_ERROR_CORRUPT},
        {{2, 7}, SIZE_MAX / 2, 0, 0, PST_ERROR_CORRUPT},
        {{2, 7}, 3, 0, 8, PST_ERROR_CORRUPT},                 /* bytes that belong to no item */
        {{2, 7}, 3, 0, 4096, PST_ERROR_TRUNCATED},            /* more than the file has */
        {{2, 7}, 3, 0, UINT64_MAX - 64, PST_ERROR_TRUNCATED}, /* a length whose sum overflows */
    };
    struct forged forged;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        forge_begin(&forged);
        forge_set(&forged, 4, 2);
        forge_block(&forged, blocks[i].numbers, 2, blocks[i].table_nbytes, blocks[i].head_number,
                    blocks[i].more);
        assert_int_equal(forge_end(&forged, 0, 0, 0), blocks[i].status);
    }
    static const uint64_t zero[] = {0}, one[] = {1};
    forge_begin(&forged); /* numbers that fall from block to block */
    forge_set(&forged, 4, 2);
    forge_block(&forged, one, 1, 3, 0, 0);
    forge_block(&forged, zero, 1, 3, 0, 0);
    assert_int_equal(forge_end(&forged, 0, 0, 0), PST_ERROR_CORRUPT);
    forge_begin(&forged); /* a block that belongs to no data set */
    forge_block(&forged, zero, 1, 3, 0, 0);
    assert_int_equal(forge_end(&forged, 0, 0, 0), PST_ERROR_CORRUPT);
    forge_begin(&forged); /* the same data set twice */
    forge_set(&forged, 4, 2);
    forge_block(&forged, zero, 1, 3, 0, 0);
    forge_set(&forged, 4, 2);
    assert_int_equal(forge_end(&forged, 0, 0, 0), PST_ERROR_CORRUPT);
    for (unsigned i = 0; i < 3; i++) { /* an end record with false numbers */
        forge_begin(&forged);
        forge_set(&forged, 4, 2);
        assert_int_equal(forge_end(&forged, i == 0, i == 1, i == 2), PST_ERROR_CORRUPT);
    }
    forge_begin(&forged);
    forge_set(&forged, UINT64_MAX / 8, 2);
    assert_int_equal(forge_end(&forged, 0, 0, 0), PST_ERROR_CORRUPT);
    for (uint64_t n = 0; n <= PSTI_CACHE_BLOCK_ITEMS + 1; n += PSTI_CACHE_BLOCK_ITEMS + 1) {
        const struct psti_cache_record record = {PSTI_CACHE_RECORD_BLOCK, .block = {.n_items = n}};
        forge_begin(&forged);
        forge_set(&forged, 4, 2);
        forge_record(&forged, &record);
        assert_int_equal(forge_end(&forged, 0, 0, 0), PST_ERROR_CORRUPT);
    }
    const struct psti_cache_record unknown = {(enum psti_cache_record_kind)4,
                                              .set = {{0}, 0, 0, 0, false}};
    forge_begin(&forged);
    forge_record(&forged, &unknown);
    assert_int_equal(forge_end(&forged, 0, 0, 0), PST_ERROR_CORRUPT);
}

/* An item whose length differs from the data set's is never returned. */
static void test_item_of_another_length(void **state)
{
    (void)state;
    size_t nbytes;
    free(small_file(&nbytes));
    pst_cache *cache = open_cache(MIB);
    load(cache);
    struct psti_cache_set *a = open_set(cache, 1, 4, 2);
    struct psti_cache_span span;
    assert_int_equal(psti_cache_ask(a, 0, 1, 11, &span), PSTI_CACHE_PASS);
    assert_int_equal(psti_cache_ask(a, 0, 1, 9, &span), PSTI_CACHE_PASS);
    assert_int_equal(psti_cache_ask(a, 0, 1, 10, &span), PSTI_CACHE_HIT);
    psti_cache_set_close(&a);
    pst_cache_close(&cache);
}

/* Each call that changes the disk fails once. The old file stays, without any other file. Only if
 * the final sync of the directory failed, the new file is there. */
static void test_full_disk(void **state)
{
    (void)state;
    size_t old_nbytes, nbytes;
    struct pst_error err;
    unsigned char *old = small_file(&old_nbytes);
    pst_cache *cache = open_cache(16 * MIB);
    struct psti_cache_set *set = open_set(cache, 1, 4, 2);
    assert_int_equal(visit(set, 0, 0, 6 * MIB, 1), PSTI_CACHE_ADMIT);
    assert_int_equal(visit(set, 1, 0, 6, 1), PSTI_CACHE_ADMIT);
    bool replaced = false;
    uint64_t n = 1;
    for (enum pst_status status = PST_ERROR_IO; status != PST_OK; n++) {
        psti_fault_arm(PSTI_FAULT_WRITE, n, false);
        status = pst_cache_save(cache, path, NULL, 0, &err);
        psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
        assert_int_equal(n_files(), 1);
        unsigned char *now = read_file(path, &nbytes);
        if (status == PST_OK) {
            free(now);
            break;
        }
        assert_int_equal(status, PST_ERROR_NO_SPACE);
        assert_string_equal(err.file, path);
        assert_false(replaced); /* syncing the directory is the last call */
        replaced = strstr(err.text, "directory") != NULL;
        if (!replaced) {
            assert_int_equal(nbytes, old_nbytes);
            assert_memory_equal(now, old, nbytes);
        }
        free(now);
    }
    assert_true(replaced && n >= 6); /* open, two writes or more, fsync, rename, directory */
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    cache = open_cache(16 * MIB);
    assert_int_equal(load(cache).n_items, 2);
    pst_cache_close(&cache);
    free(old);
}

/* Allocations or reads fail at each place in turn. */
static void test_faults(void **state)
{
    (void)state;
    struct pst_error err;
    size_t nbytes;
    free(small_file(&nbytes));
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_READ};
    for (size_t k = 0; k < 2; k++) {
        uint64_t n = 1;
        for (enum pst_status status = PST_ERROR_IO; status != PST_OK; n++) {
            pst_cache *cache = open_cache(MIB);
            psti_fault_arm(kinds[k], n, false);
            status = pst_cache_load(cache, path, NULL, 0, &err);
            psti_fault_arm(kinds[k], 0, false);
            if (status != PST_OK) {
                assert_int_equal(status, k ? PST_ERROR_IO : PST_ERROR_MEMORY);
                assert_int_equal(use_of(cache).nbytes_used, 0);
                assert_int_equal(use_of(cache).n_datasets, 0);
                assert_int_equal(load(cache).n_items, 5); /* usable */
            }
            pst_cache_close(&cache);
        }
        assert_true(n > 6);
    }
    pst_cache *cache = small_cache();
    uint64_t n = 1;
    for (enum pst_status status = PST_ERROR_IO; status != PST_OK; n++) {
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        status = pst_cache_save(cache, path, NULL, 0, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
        assert_int_equal(n_files(), 1);
    }
    assert_true(n > 3);
    pst_cache_close(&cache);
    struct pst_memory_stats memory;
    pst_memory_stats(&memory, sizeof memory);
    assert_int_equal(memory.live_nbytes, 0);
}

/* The kernel is advised to drop what was written and read from the page cache. If that advice
 * fails, saving and loading still work. */
static void test_advice(void **state)
{
    (void)state;
    pst_cache *cache = small_cache();
    psti_fault_arm(PSTI_FAULT_ADVICE, 1, true);
    save(cache);
    uint64_t n_saving = psti_fault_count(PSTI_FAULT_ADVICE);
    assert_int_equal(load(cache).n_present, 5);
    assert_true(n_saving > 0 && psti_fault_count(PSTI_FAULT_ADVICE) > n_saving);
    psti_fault_arm(PSTI_FAULT_ADVICE, 0, false);
    pst_cache_close(&cache);
}

static void test_targets(void **state)
{
    (void)state;
    pst_cache *cache = small_cache();
    struct pst_error err;
    char deep[128];
    static const char *const no_files[] = {"", ".", "..", "/", "/tmp/", "/tmp/."};
    for (size_t i = 0; i < sizeof no_files / sizeof *no_files; i++)
        assert_int_equal(pst_cache_save(cache, no_files[i], NULL, 0, &err), PST_ERROR_ARGUMENT);
    snprintf(deep, sizeof deep, "%s/no/such", directory);
    assert_int_equal(pst_cache_save(cache, deep, NULL, 0, &err), PST_ERROR_NOT_FOUND);
    assert_int_equal(pst_cache_load(cache, deep, NULL, 0, &err), PST_ERROR_NOT_FOUND);
    assert_string_equal(err.file, deep);
    /* a directory */
    assert_int_equal(pst_cache_save(cache, directory, NULL, 0, &err), PST_ERROR_IO);
    assert_non_null(strstr(err.text, "no plain file"));
    assert_int_equal(pst_cache_load(cache, directory, NULL, 0, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "the saved cache is a folder, not a regular file"));
    /* neither a link nor its target is changed */
    write_file(other_path, "old", 3);
    assert_int_equal(symlink(other_path, path), 0);
    assert_int_equal(pst_cache_save(cache, path, NULL, 0, &err), PST_ERROR_IO);
    assert_non_null(strstr(err.text, "symbolic link"));
    size_t nbytes;
    free(read_file(other_path, &nbytes));
    assert_int_equal(nbytes, 3);
    unlink(path);
    /* a pipe would block its reader */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pst_cache_save(cache, path, NULL, 0, &err), PST_ERROR_IO);
    assert_int_equal(pst_cache_load(cache, path, NULL, 0, &err), PST_ERROR_UNSUPPORTED);
    unlink(path);
    /* a directory that this user may not write to */
    bool root = geteuid() == 0;
    assert_int_equal(chmod(directory, 0555), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    assert_int_equal(pst_cache_save(cache, path, NULL, 0, &err), PST_ERROR_IO);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(directory, 0700), 0);
    assert_int_equal(n_files(), 1); /* other_path */
    /* a relative path */
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    assert_ok(pst_cache_save(cache, "saved", NULL, 0, &err));
    assert_ok(pst_cache_load(cache, "saved", NULL, 0, &err));
    assert_int_equal(chdir(before), 0);
    assert_int_equal(n_files(), 2);
    pst_cache_close(&cache);
}

/* If a temporary name is taken, the file of that name is left alone. */
static void test_temporary_name_taken(void **state)
{
    (void)state;
    char taken[128];
    pst_cache *cache = small_cache();
    snprintf(taken, sizeof taken, "%s.tmp-%ld-0", path, (long)getpid());
    write_file(taken, "mine", 4);
    save(cache);
    size_t nbytes;
    free(read_file(taken, &nbytes));
    assert_int_equal(nbytes, 4);
    assert_int_equal(n_files(), 2);
    unlink(taken);
    pst_cache_close(&cache);
}

/* Saving does not count as a use: the order in which closed sets are evicted stays the same. */
static void test_save_is_no_use(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(4 * MIB);
    struct psti_cache_set *sets[3];
    for (uint8_t i = 0; i < 3; i++) {
        sets[i] = open_set(cache, i, 4, 1);
        assert_int_equal(visit(sets[i], 0, 0, MIB, i), PSTI_CACHE_ADMIT);
    }
    psti_cache_set_close(&sets[1]); /* this set will be evicted first */
    psti_cache_set_close(&sets[0]);
    psti_cache_set_close(&sets[2]);
    assert_int_equal(save(cache).n_datasets, 3);
    struct psti_cache_set *more = open_set(cache, 7, 4, 1);
    assert_int_equal(visit(more, 0, 0, MIB, 7), PSTI_CACHE_ADMIT);
    sets[0] = open_set(cache, 0, 4, 1);
    assert_int_equal(visit(sets[0], 0, 0, MIB, 0), PSTI_CACHE_HIT);
    sets[2] = open_set(cache, 2, 4, 1);
    assert_int_equal(visit(sets[2], 0, 0, MIB, 2), PSTI_CACHE_HIT);
    psti_cache_set_close(&sets[0]);
    psti_cache_set_close(&sets[2]);
    psti_cache_set_close(&more);
    pst_cache_close(&cache);
}

enum { N_SAMPLES = 3000, N_ADDERS = 3 };

struct adder {
    pst_cache *cache;
    struct psti_cache_set *set;
    atomic_uint *n_left; /* number of threads that still add items */
    unsigned number;
};

static void add_items(void *arg)
{
    struct adder *adder = arg;
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        uint64_t sample = (i * 7 + adder->number * 1000) % N_SAMPLES;
        visit(adder->set, sample, 0, 200 + sample % 100, (unsigned char)sample);
        if (i % 100 == 0) { /* opens and closes sets that are evicted later */
            struct psti_cache_set *other = open_set(adder->cache, (uint8_t)(i % 7 + 10), 4, 1);
            visit(other, 0, 0, 300000, 5);
            psti_cache_set_close(&other);
        }
    }
    atomic_fetch_sub(adder->n_left, 1);
}

static void load_items(void *arg)
{
    struct adder *adder = arg;
    load(adder->cache);
    atomic_fetch_sub(adder->n_left, 1);
}

static void run_adders(pst_cache *cache, struct psti_cache_set *set, void (*run)(void *),
                       void (*meanwhile)(pst_cache *))
{
    struct adder adders[N_ADDERS];
    pthread_t threads[N_ADDERS];
    struct pst_error err;
    atomic_uint n_left = N_ADDERS;
    for (unsigned i = 0; i < N_ADDERS; i++) {
        adders[i] = (struct adder){cache, set, &n_left, i};
        assert_ok(psti_thread_start(&threads[i], "adder", run, &adders[i], &err));
    }
    while (atomic_load(&n_left) > 0)
        meanwhile(cache);
    for (unsigned i = 0; i < N_ADDERS; i++)
        psti_thread_join(threads[i]);
}

/* Saves while other threads add items. The file must be valid, and its items complete. */
static void save_and_check(pst_cache *cache)
{
    struct pst_cache_file_report saved = save(cache);
    pst_cache *copy = open_cache(4 * MIB);
    assert_int_equal(load(copy).n_items, saved.n_items);
    struct psti_cache_set *set = open_set(copy, 1, N_SAMPLES, 1);
    for (uint64_t i = 0; i < N_SAMPLES; i += 13)
        visit(set, i, 0, 200 + i % 100, (unsigned char)i);
    psti_cache_set_close(&set);
    pst_cache_close(&copy);
}

static void nothing(pst_cache *cache) { (void)use_of(cache); }

static void test_threads(void **state)
{
    (void)state;
    pst_cache *cache = open_cache(5 * MIB / 2);
    struct psti_cache_set *set = open_set(cache, 1, N_SAMPLES, 1);
    run_adders(cache, set, add_items, save_and_check);
    assert_true(save(cache).n_items >= N_SAMPLES);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    /* Several threads load the same file at once: each item counts once. */
    cache = open_cache(64 * MIB);
    set = open_set(cache, 1, N_SAMPLES, 1);
    run_adders(cache, set, load_items, nothing);
    struct pst_cache_stats own;
    psti_cache_set_stats(set, &own);
    assert_int_equal(own.n_items, N_SAMPLES);
    for (uint64_t i = 0; i < N_SAMPLES; i++)
        assert_int_equal(visit(set, i, 0, 200 + i % 100, (unsigned char)i), PSTI_CACHE_HIT);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

/* An item is returned in the form in which it was stored, whether shorter or longer than the
 * original bytes, to callers that use the same forms. A reservation can grow if the cache has
 * space. */
static void test_forms(void **state)
{
    (void)state;
    const struct psti_cache_shape shape = {{9}, 4, 1, 77, false};
    static const unsigned char bytes[100] = {1, 2, 3};
    const struct psti_cache_span recoded = {bytes, 60, 6};
    struct psti_cache_set *set = NULL;
    struct psti_cache_span span;
    struct pst_error err;
    pst_cache *cache = open_cache(MIB);
    assert_ok(psti_cache_set_open(cache, &shape, &set, &err));
    assert_int_equal(psti_cache_ask(set, 2, 0, 100, &span), PSTI_CACHE_ADMIT);
    assert_true(psti_cache_keep(set, 2, 0, 100, &recoded));
    psti_cache_set_close(&set);
    assert_ok(pst_cache_save(cache, path, NULL, 0, &err));
    pst_cache_close(&cache);
    cache = open_cache(MIB);
    assert_ok(pst_cache_load(cache, path, NULL, 0, &err));
    assert_ok(psti_cache_set_open(cache, &shape, &set, &err));
    assert_int_equal(psti_cache_ask(set, 2, 0, 100, &span), PSTI_CACHE_HIT);
    assert_int_equal(span.nbytes, 60);
    assert_int_equal(span.form, 6);
    assert_memory_equal(span.bytes, bytes, 60);
    assert_int_equal(psti_cache_ask(set, 2, 0, 50, &span), PSTI_CACHE_HIT);
    assert_int_equal(span.nbytes, 60);
    struct pst_cache_stats before, after;
    pst_cache_stats(cache, &before, sizeof before);
    assert_int_equal(psti_cache_ask(set, 1, 0, 20, &span), PSTI_CACHE_ADMIT);
    assert_false(psti_cache_enlarge(set, 20, MIB));
    assert_true(psti_cache_enlarge(set, 20, 60));
    assert_true(psti_cache_keep(set, 1, 0, 60, &recoded));
    pst_cache_stats(cache, &after, sizeof after);
    assert_int_equal(after.nbytes_used - before.nbytes_used, 80);
    assert_int_equal(psti_cache_ask(set, 1, 0, 20, &span), PSTI_CACHE_HIT);
    assert_memory_equal(span.bytes, bytes, 60);
    psti_cache_set_close(&set);
    set = open_set(cache, 9, 4, 1);
    assert_int_equal(psti_cache_ask(set, 2, 0, 100, &span), PSTI_CACHE_ADMIT);
    psti_cache_give_up(set, 2, 0, 100);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_round_trip, remove_files),
        cmocka_unit_test_teardown(test_empty, remove_files),
        cmocka_unit_test_teardown(test_items_that_are_there, remove_files),
        cmocka_unit_test_teardown(test_budget, remove_files),
        cmocka_unit_test_teardown(test_table_without_room, remove_files),
        cmocka_unit_test_teardown(test_truncated, remove_files),
        cmocka_unit_test_teardown(test_flipped, remove_files),
        cmocka_unit_test_teardown(test_forged, remove_files),
        cmocka_unit_test_teardown(test_item_of_another_length, remove_files),
        cmocka_unit_test_teardown(test_full_disk, remove_files),
        cmocka_unit_test_teardown(test_faults, remove_files),
        cmocka_unit_test_teardown(test_advice, remove_files),
        cmocka_unit_test_teardown(test_targets, remove_files),
        cmocka_unit_test_teardown(test_temporary_name_taken, remove_files),
        cmocka_unit_test_teardown(test_save_is_no_use, remove_files),
        cmocka_unit_test_teardown(test_threads, remove_files),
        cmocka_unit_test_teardown(test_forms, remove_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
