/* test_dataset_large.c - tests ten million samples: the cost of opening, the cost of use, and
 * many threads at once.
 *
 * The test writes the index itself, as a sparse file: its columns are holes (absent items, zero
 * labels, all names at one place). So an index of 1.5 GB takes little disk space and less than
 * five seconds. */
#include "sanitizer.h"
#include "writer/writer_fixture.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "format/format_dataset.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_SAMPLES = 10 * 1000 * 1000, N_THREADS = 4 };

static long resident_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld kB", &kb) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kb;
}

/* Writes the checksums of all blocks of a mapped index. Blocks without data share the checksum of
 * zeros. */
static void seal_sparse(int fd, uint8_t *map, struct psti_index_header *header)
{
    static const uint8_t zeros[PSTI_INDEX_BLOCK_NBYTES];
    uint64_t zero_sum = psti_hash64(zeros, sizeof zeros);
    for (uint64_t i = 0; i < header->frame.n_blocks; i++) {
        uint64_t at = PSTI_INDEX_HEADER_NBYTES + i * PSTI_INDEX_BLOCK_NBYTES;
        uint64_t left = header->frame.blocks_offset - at;
        uint64_t n = left < PSTI_INDEX_BLOCK_NBYTES ? left : PSTI_INDEX_BLOCK_NBYTES;
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        bool hole = n == PSTI_INDEX_BLOCK_NBYTES && (data < 0 || (uint64_t)data >= at + n);
        psti_store_u64(map + header->frame.blocks_offset + 8 * i,
                       hole ? zero_sum : psti_hash64(map + at, (size_t)n));
    }
    header->frame.blocks_checksum =
        psti_hash64(map + header->frame.blocks_offset, (size_t)(8 * header->frame.n_blocks));
    psti_format_print_index_header(header, map);
}

/* Writes an index with the fields image (absent in all samples) and label (0 except for one sample
 * in a thousand), and the names "0000000" on. */
static uint64_t print_index(const char *path)
{
    struct psti_index_field fields[2] = {
        {.field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1}},
        {.field = {.name = "label", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = 1000}}};
    struct psti_index_header header = {
        .generation = 1, .n_samples = N_SAMPLES, .n_fields = 2, .names_nbytes = 8ull * N_SAMPLES};
    assert_true(psti_format_index_layout(&header, fields));
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)header.frame.file_nbytes), 0);
    uint8_t *map = mmap(NULL, header.frame.file_nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    for (int i = 0; i < 2; i++)
        psti_format_print_index_field(&fields[i], map + header.fields_offset +
                                                      (size_t)i * PSTI_INDEX_FIELD_NBYTES);
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        psti_store_u64(map + header.name_offsets_offset + 8 * i, 8 * i);
        uint8_t *name = map + header.names_offset + 8 * i;
        for (uint64_t d = 7, x = i; d-- > 0; x /= 10)
            name[d] = (uint8_t)('0' + x % 10);
        if (i % 1000 == 7)
            psti_store_u64(map + fields[1].column_offset + 8 * i, i / 1000 % 1000);
    }
    psti_store_u64(map + header.name_offsets_offset + 8ull * N_SAMPLES, 8ull * N_SAMPLES);
    seal_sparse(fd, map, &header);
    munmap(map, header.frame.file_nbytes);
    close(fd);
    return header.frame.file_nbytes;
}

static void check_sample(const pst_dataset *ds, uint64_t i)
{
    char want[16];
    char name[PST_NAME_CAP];
    int64_t label;
    struct pst_item item;
    struct pst_error err = {0};
    assert_ok(pst_dataset_sample_name(ds, i, name, &err));
    snprintf(want, sizeof want, "%07u", (unsigned)i);
    assert_string_equal(name, want);
    assert_ok(pst_dataset_int(ds, i, 1, &label, &err));
    assert_int_equal(label, i % 1000 == 7 ? i / 1000 % 1000 : 0);
    assert_ok(pst_dataset_item(ds, i, 0, 0, &item, sizeof item, &err));
    assert_int_equal(item.form, PST_FORM_NONE);
}

static void ten_million_samples(void **state)
{
    (void)state;
    struct pst_error err = {0};
    char directory[] = "/tmp/pst-large-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/index.pst", directory);
    int64_t start = psti_clock_ns();
    uint64_t nbytes = print_index(path);
    print_message("index of %.2f GB printed in %.2f s\n", (double)nbytes / 1e9,
                  (double)(psti_clock_ns() - start) / 1e9);

    long before = resident_kb();
    pst_dataset *ds;
    start = psti_clock_ns();
    assert_ok(pst_dataset_open(directory, NULL, &ds, &err));
    double open_ms = (double)(psti_clock_ns() - start) / 1e6;
    assert_int_equal(pst_dataset_count(ds), N_SAMPLES);
    check_sample(ds, 0);
    check_sample(ds, N_SAMPLES / 2 + 7);
    check_sample(ds, N_SAMPLES - 1);
    long grown = resident_kb() - before;
    print_message("opened in %.2f ms, %ld KiB more resident\n", open_ms, grown);
    assert_true(grown < 64 * 1024);

    struct pst_item item;
    uint64_t sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        start = psti_clock_ns();
        for (uint64_t i = 0; i < 100000; i++) {
            assert_int_equal(pst_dataset_item(ds, i, 0, 0, &item, sizeof item, &err), PST_OK);
            sum += item.nbytes;
        }
        print_message("pst_dataset_item: %.1f ns a call (%s blocks)\n",
                      (double)(psti_clock_ns() - start) / 1e5, pass ? "verified" : "new");
    }
    /* Reads item and label of random samples, as in a shuffled epoch. */
    uint64_t x = 1;
    for (int pass = 0; pass < 3; pass++) {
        start = psti_clock_ns();
        for (uint64_t i = 0; i < 100000; i++) {
            int64_t label;
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint64_t sample = (x >> 33) % N_SAMPLES;
            assert_int_equal(pst_dataset_item(ds, sample, 0, 0, &item, sizeof item, &err), PST_OK);
            assert_int_equal(pst_dataset_int(ds, sample, 1, &label, &err), PST_OK);
            sum += item.nbytes;
        }
        print_message("item and label of a sample at random: %.1f ns (pass %d)\n",
                      (double)(psti_clock_ns() - start) / 1e5, pass);
    }
    grown = resident_kb() - before;
    print_message("%ld KiB more resident in the end\n", grown);
    /* ThreadSanitizer's shadow memory of the blocks is resident, too. */
    assert_true(grown < (TEST_TSAN ? 5 : 1) * 64 * 1024);
    assert_int_equal(sum, 0);
    pst_dataset_close(&ds);
    unlink(path);
    rmdir(directory);
}

struct walk {
    const pst_dataset *ds;
    uint64_t n;
    int i_thread;
    atomic_int *n_bad;
};

/* cmocka's asserts only work in the main thread, so this thread counts errors. */
static void walk_thread(void *arg)
{
    struct walk *walk = arg;
    for (uint64_t k = 0; k < walk->n; k++) {
        uint64_t i = walk->i_thread % 2 ? walk->n - 1 - k : k;
        struct fixture_sample s;
        struct pst_item item;
        uint8_t bytes[2048];
        char name[PST_NAME_CAP];
        int64_t label;
        fixture_make(&s, i);
        const struct pst_value *audio = &s.value[FIX_AUDIO][0];
        bool good =
            pst_dataset_sample_name(walk->ds, i, name, NULL) == PST_OK &&
            strcmp(name, s.name) == 0 &&
            pst_dataset_int(walk->ds, i, FIX_LABEL, &label, NULL) == PST_OK && label == s.label &&
            pst_dataset_item(walk->ds, i, FIX_AUDIO, 0, &item, sizeof item, NULL) == PST_OK &&
            item.nbytes == audio->nbytes &&
            pst_dataset_read(walk->ds, i, FIX_AUDIO, 0, 0, item.nbytes, bytes, NULL) == PST_OK &&
            memcmp(bytes, audio->bytes, audio->nbytes) == 0;
        if (!good)
            atomic_fetch_add(walk->n_bad, 1);
    }
}

static void many_threads_verify_at_once(void **state)
{
    (void)state;
    struct pst_error err = {0};
    char *directory = fixture_directory(), path[512];
    enum { N = 300 };
    snprintf(path, sizeof path, "%s/set", directory);
    struct pst_writer_options options = fixture_options(PST_WRITER_CREATE);
    options.commit_nbytes = 0;
    pst_writer *writer;
    assert_ok(pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    for (uint64_t i = 0; i < N; i++)
        assert_ok(fixture_add(writer, i, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *ds;
    atomic_int n_bad = 0;
    pthread_t threads[N_THREADS];
    struct walk walks[N_THREADS];
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    for (int i = 0; i < N_THREADS; i++) {
        walks[i] = (struct walk){ds, N, i, &n_bad};
        assert_ok(psti_thread_start(&threads[i], "walk", walk_thread, &walks[i], &err));
    }
    for (int i = 0; i < N_THREADS; i++)
        psti_thread_join(threads[i]);
    assert_int_equal(n_bad, 0);
    pst_dataset_close(&ds);
    fixture_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_million_samples),
        cmocka_unit_test(many_threads_verify_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
