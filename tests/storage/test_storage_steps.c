/* Tests the steps of a read with results that real file systems give only rarely: short reads,
 * interruptions, O_DIRECT accepted at open and refused later. The test makes no system calls for
 * them. */
#include "storage_test.h"

#include "storage/storage_int.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static struct psti_storage *storage;
static struct psti_file *file;
static _Alignas(4096) unsigned char buffer[16 * 4096];
static uint64_t n_fallback_before;

static uint64_t n_fallback(void)
{
    struct psti_storage_stats stats;
    psti_storage_stats(storage, &stats);
    return stats.n_fallback_direct;
}

static void begin(struct psti_read *read, bool direct, uint64_t offset, size_t nbytes)
{
    *read = (struct psti_read){.file = file, .offset = offset, .nbytes = nbytes, .buffer = buffer};
    atomic_store(&file->direct, direct);
    n_fallback_before = n_fallback();
    assert_true(psti_storage_step_begin(storage, read));
    assert_int_equal(read->engine.direct, direct);
}

static void short_reads_go_on(void **state)
{
    (void)state;
    struct psti_read read;
    begin(&read, false, 1000, 500);
    assert_int_equal(psti_storage_step_nbytes(&read), 500);
    assert_true(psti_storage_step_read(storage, &read, 1));
    assert_true(psti_storage_step_read(storage, &read, -EINTR));
    assert_int_equal(psti_storage_step_nbytes(&read), 499);
    assert_true(psti_storage_step_read(storage, &read, -EAGAIN));
    assert_true(read.engine.again);
    assert_true(psti_storage_step_read(storage, &read, 400));
    assert_false(read.engine.again);
    assert_int_equal(read.engine.base + read.engine.n_got, 1401);
    assert_false(psti_storage_step_read(storage, &read, 99));
    assert_int_equal(read.status, PST_OK);
    assert_ptr_equal(read.data, buffer);
}

static void end_of_file_is_told_from_a_short_read(void **state)
{
    (void)state;
    struct psti_read read;
    begin(&read, false, 1000, 500);
    assert_true(psti_storage_step_read(storage, &read, 120));
    assert_false(psti_storage_step_read(storage, &read, 0));
    assert_int_equal(read.status, PST_ERROR_TRUNCATED);
    assert_int_equal(read.error.offset, 1000);
    assert_non_null(strstr(read.error.text, "120 of the 500"));
}

static void direct_reads_whole_blocks(void **state)
{
    (void)state;
    struct psti_read read;
    begin(&read, true, 5000, 10000);
    assert_int_equal(read.engine.base, 4096);
    assert_int_equal(psti_storage_step_nbytes(&read), 3 * 4096);
    /* It has all bytes that it needs: the last block may be short, as at the end of a file. */
    assert_false(psti_storage_step_read(storage, &read, 904 + 10000));
    assert_int_equal(read.status, PST_OK);
    assert_ptr_equal(read.data, buffer + 904);
}

static void direct_goes_on_at_a_block(void **state)
{
    (void)state;
    struct psti_read read;
    begin(&read, true, 5000, 10000);
    assert_true(psti_storage_step_read(storage, &read, 4096 + 512));
    assert_int_equal(read.engine.n_got, 4096);
    assert_int_equal(psti_storage_step_nbytes(&read), 2 * 4096);
    assert_true(psti_storage_step_read(storage, &read, 4096));
    assert_false(psti_storage_step_read(storage, &read, 4096));
    assert_int_equal(read.status, PST_OK);
    assert_ptr_equal(read.data, buffer + 904);
}

static void direct_finds_the_end_of_the_file(void **state)
{
    (void)state;
    struct psti_read read;
    begin(&read, true, 5000, 10000);
    assert_true(psti_storage_step_read(storage, &read, 4096 + 512));
    /* a second read ends at the same place: the end of the file */
    assert_false(psti_storage_step_read(storage, &read, 512));
    assert_int_equal(read.status, PST_ERROR_TRUNCATED);
    assert_non_null(strstr(read.error.text, "3704 of the 10000"));
    begin(&read, true, 5000, 10000);
    /* the file ends before the requested range */
    assert_false(psti_storage_step_read(storage, &read, 100));
    assert_non_null(strstr(read.error.text, "0 of the 10000"));
}

static void direct_refused_at_the_read(void **state)
{
    (void)state;
    struct psti_read read;
    begin(&read, true, 5000, 10000);
    assert_true(psti_storage_step_read(storage, &read, 4096));
    assert_true(psti_storage_step_read(storage, &read, -EINVAL));
    assert_false(atomic_load(&file->direct));
    assert_int_equal(fcntl(file->fd, F_GETFL) & O_DIRECT, 0);
    assert_int_equal(n_fallback(), n_fallback_before + 1);
    assert_int_equal(read.engine.base, 5000);
    assert_int_equal(psti_storage_step_nbytes(&read), 10000);
    /* a second refusal is an error */
    assert_false(psti_storage_step_read(storage, &read, -EINVAL));
    assert_int_equal(read.status, PST_ERROR_IO);
    assert_int_equal(read.error.os_error, EINVAL);
    assert_int_equal(n_fallback(), n_fallback_before + 1);
}

static void direct_refused_at_open(void **state)
{
    (void)state;
    struct psti_read read = {.path = test_path("data"), .nbytes = 20000, .buffer = buffer};
    n_fallback_before = n_fallback();
    assert_true(psti_storage_step_begin(storage, &read));
    assert_true(read.engine.opening && read.engine.direct);
    assert_true(psti_storage_step_opened(storage, &read, -EINTR));
    assert_true(read.engine.opening && read.engine.direct);
    assert_true(psti_storage_step_opened(storage, &read, -EINVAL));
    assert_true(read.engine.opening && !read.engine.direct);
    assert_int_equal(n_fallback(), n_fallback_before + 1);
    assert_int_equal(psti_storage_open_flags(read.engine.direct) & O_DIRECT, 0);
    assert_false(psti_storage_step_opened(storage, &read, -EACCES));
    assert_int_equal(read.status, PST_ERROR_IO);
    assert_int_equal(read.error.os_error, EACCES);
    assert_string_equal(read.error.file, test_path("data"));
}

static void huge_reads_are_split(void **state)
{
    (void)state;
    struct psti_read read;
    size_t nbytes = (size_t)5 << 30; /* invented size: no bytes are read in this test */
    begin(&read, true, 0, nbytes);
    size_t total = 0;
    for (bool more = true; more;) {
        size_t n = psti_storage_step_nbytes(&read);
        assert_true(n <= INT32_MAX && n % 4096 == 0);
        total += n;
        more = psti_storage_step_read(storage, &read, (int64_t)n);
    }
    assert_int_equal(total, nbytes);
    assert_int_equal(read.status, PST_OK);
}

/* Uses a file system without O_DIRECT: procfs. */
static void real_fallback(void **state)
{
    (void)state;
    const char *path = "/proc/config.gz"; /* a regular file in procfs with a real size */
    struct psti_file *proc = NULL;
    struct pst_error err;
    n_fallback_before = n_fallback();
    if (psti_storage_file_open(storage, path, &proc, &err) != PST_OK)
        skip();
    assert_int_equal(n_fallback(), n_fallback_before + 1);
    size_t nbytes =
        psti_storage_file_nbytes(proc) < 5000 ? (size_t)psti_storage_file_nbytes(proc) : 5000;
    struct psti_read part = {.file = proc, .nbytes = nbytes, .buffer = buffer};
    assert_ok(psti_storage_read(storage, &part));
    static unsigned char expected[5000];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, expected, nbytes), nbytes);
    close(fd);
    assert_memory_equal(part.data, expected, nbytes);
    psti_storage_file_close(&proc);
}

static void buffers_have_room(void **state)
{
    (void)state;
    assert_int_equal(psti_storage_buffer_alignment(storage), 4096);
    assert_int_equal(psti_storage_buffer_nbytes(storage, UINT64_MAX), SIZE_MAX);
    for (uint64_t nbytes = 1; nbytes < 20000; nbytes += 97)
        for (uint64_t offset = 0; offset < 8192; offset += 1365) {
            struct psti_read read;
            begin(&read, true, offset, (size_t)nbytes);
            assert_true(read.engine.length <= psti_storage_buffer_nbytes(storage, nbytes));
            assert_true(read.engine.need <= read.engine.length);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_reads_go_on),
        cmocka_unit_test(end_of_file_is_told_from_a_short_read),
        cmocka_unit_test(direct_reads_whole_blocks),
        cmocka_unit_test(direct_goes_on_at_a_block),
        cmocka_unit_test(direct_finds_the_end_of_the_file),
        cmocka_unit_test(direct_refused_at_the_read),
        cmocka_unit_test(direct_refused_at_open),
        cmocka_unit_test(huge_reads_are_split),
        cmocka_unit_test(real_fallback),
        cmocka_unit_test(buffers_have_room),
    };
    test_directory_make();
    unsigned char *data = random_bytes(4, 20000);
    write_file(test_path("data"), data, 20000);
    free(data);
    struct psti_storage_options options = {
        .kind = PST_STORAGE_THREADS, .page_cache = PST_PAGE_CACHE_DIRECT, .depth = 1};
    if (psti_storage_open(&options, &storage, NULL) != PST_OK ||
        psti_storage_file_open(storage, test_path("data"), &file, NULL) != PST_OK)
        return 1;
    int n_failed = cmocka_run_group_tests_name("steps", tests, NULL, NULL);
    psti_storage_file_close(&file);
    psti_storage_close(&storage);
    test_directory_remove();
    return n_failed;
}
