/* test_containers_window.c - does a window give the right bytes with both ways of reading, and
 * choose the faster one? Storage and clock are imitated, so a test sets how long reads take. */
#include "test.h"

#include "containers/containers_window.h"

#include <errno.h>
#include <string.h>

/* Returns the byte of the file at this offset. */
static uint8_t byte_at(uint64_t offset) { return (uint8_t)(offset * 2654435761u >> 13); }

static int64_t now_ns;

static int64_t made_clock(void) { return now_ns; }

struct disk {
    uint64_t nbytes;    /* actual size of the file, which may be less than stated */
    int64_t seek_ns;    /* time for a read that does not follow the one before */
    double ns_for_byte; /* time for each byte */
    uint64_t last;      /* end offset of the last read */
    uint64_t n_reads, n_read;
    bool was_advised, reads_through;
    int error;
};

static ssize_t disk_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct disk *disk = context;
    if (disk->error != 0) {
        errno = disk->error;
        return -1;
    }
    int64_t ns = (int64_t)(disk->ns_for_byte * (double)nbytes);
    if (offset != disk->last)
        ns += disk->seek_ns;
    now_ns += ns;
    uint64_t end = offset > disk->nbytes            ? offset
                   : offset + nbytes > disk->nbytes ? disk->nbytes
                                                    : offset + nbytes;
    for (uint64_t at = offset; at < end; at++)
        ((uint8_t *)bytes)[at - offset] = byte_at(at);
    disk->last = end;
    disk->n_reads++;
    disk->n_read += end - offset;
    return (ssize_t)(end - offset);
}

static void disk_advise(void *context, bool reads_through)
{
    struct disk *disk = context;
    disk->was_advised = true;
    disk->reads_through = reads_through;
}

static struct psti_walk_source source_of(struct disk *disk, uint64_t nbytes)
{
    return (struct psti_walk_source){.read = disk_read,
                                     .advise = disk_advise,
                                     .context = disk,
                                     .nbytes = nbytes,
                                     .path = "a.tar"};
}

static void open_window(struct psti_window *window, const struct psti_walk_source *source)
{
    struct pst_error err;
    assert_ok(psti_containers_window_open(window, source, &err));
    window->clock_ns = made_clock;
    window->begun_ns = now_ns;
}

/* Reads pieces of 512 bytes at offsets `gap` apart, and checks their bytes. */
static void read_pieces(struct psti_window *window, uint64_t first, uint64_t gap, uint64_t n)
{
    struct pst_error err;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *bytes = NULL;
        uint64_t offset = first + i * gap;
        assert_ok(psti_containers_window_get(window, offset, 512, &bytes, &err));
        for (uint64_t k = 0; k < 512; k += 73)
            assert_int_equal(bytes[k], byte_at(offset + k));
    }
}

static void fast_storage_is_read_piece_by_piece(void **state)
{
    (void)state;
    struct disk disk = {.nbytes = (uint64_t)1 << 40};
    struct psti_walk_source source = source_of(&disk, disk.nbytes);
    struct psti_window window;
    open_window(&window, &source);
    assert_true(disk.was_advised && !disk.reads_through);
    read_pieces(&window, 0, 100000, 2000);
    assert_true(disk.n_read < 2000 * 1024 + (1 << 17));
    psti_containers_window_close(&window);
}

static void close_pieces_are_read_together(void **state)
{
    (void)state;
    struct disk disk = {.nbytes = 1 << 24};
    struct psti_walk_source source = source_of(&disk, disk.nbytes);
    struct psti_window window;
    open_window(&window, &source);
    read_pieces(&window, 0, 1024, 4000);
    assert_true(disk.n_reads < 400);
    psti_containers_window_close(&window);
}

static void a_disk_that_seeks_slowly_is_read_through(void **state)
{
    (void)state;
    struct disk disk = {.nbytes = (uint64_t)1 << 40, .seek_ns = 2000000, .ns_for_byte = 0.1};
    struct psti_walk_source source = source_of(&disk, disk.nbytes);
    struct psti_window window;
    open_window(&window, &source);
    read_pieces(&window, 0, 100000, 400); /* enough pieces for the window to try both ways */
    uint64_t before = disk.n_reads;
    read_pieces(&window, 400 * 100000, 100000, 400);
    assert_true(window.reads_through && disk.reads_through);
    assert_true(disk.n_reads - before < 60); /* gaps are read through in reads of 1 MiB */
    /* A gap that takes longer to read than a seek is skipped. */
    uint64_t read = disk.n_read;
    read_pieces(&window, (uint64_t)1 << 38, 100000, 3);
    assert_true(disk.n_read - read < (8 << 20));
    psti_containers_window_close(&window);
}

static void slow_bytes_are_not_read_through(void **state)
{
    (void)state;
    struct disk disk = {.nbytes = (uint64_t)1 << 40, .seek_ns = 200000, .ns_for_byte = 20};
    struct psti_walk_source source = source_of(&disk, disk.nbytes);
    struct psti_window window;
    open_window(&window, &source);
    read_pieces(&window, 0, 100000, 500);
    assert_false(window.reads_through);
    psti_containers_window_close(&window);
}

static void pieces_may_lie_anywhere(void **state)
{
    (void)state;
    struct disk disk = {.nbytes = 3 << 20};
    struct psti_walk_source source = source_of(&disk, disk.nbytes);
    struct psti_window window;
    struct pst_error err;
    open_window(&window, &source);
    uint64_t offset = 1;
    for (int i = 0; i < 2000; i++) {
        window.reads_through = i % 3 == 0;
        offset = (offset * 6364136223846793005u + 1442695040888963407u);
        uint64_t at = (offset >> 20) % disk.nbytes;
        size_t n = (size_t)((offset >> 5) % PSTI_WINDOW_NBYTES);
        n = n > disk.nbytes - at ? (size_t)(disk.nbytes - at) : n;
        const uint8_t *bytes = NULL;
        assert_ok(psti_containers_window_get(&window, at, n, &bytes, &err));
        for (size_t k = 0; k < n; k += 1009)
            assert_int_equal(bytes[k], byte_at(at + k));
    }
    psti_containers_window_close(&window);
}

static void what_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct disk disk = {.nbytes = 5000};
    struct psti_walk_source source = source_of(&disk, 6000);
    struct psti_window window;
    struct pst_error err;
    const uint8_t *bytes = NULL;
    open_window(&window, &source);
    assert_int_equal(psti_containers_window_get(&window, 5900, 101, &bytes, &err),
                     PST_ERROR_TRUNCATED);
    assert_int_equal(psti_containers_window_get(&window, UINT64_MAX - 10, 100, &bytes, &err),
                     PST_ERROR_TRUNCATED);
    /* The file became shorter. */
    assert_int_equal(psti_containers_window_get(&window, 4900, 200, &bytes, &err),
                     PST_ERROR_TRUNCATED);
    assert_non_null(strstr(err.text, "became shorter"));
    disk.error = EIO;
    assert_int_equal(psti_containers_window_get(&window, 0, 100, &bytes, &err), PST_ERROR_IO);
    assert_string_equal(err.file, "a.tar");
    disk.error = 0;
    assert_ok(
        psti_containers_window_get(&window, 0, 100, &bytes, &err)); /* another call is allowed */
    assert_int_equal(bytes[99], byte_at(99));
    psti_containers_window_close(&window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_storage_is_read_piece_by_piece),
        cmocka_unit_test(close_pieces_are_read_together),
        cmocka_unit_test(a_disk_that_seeks_slowly_is_read_through),
        cmocka_unit_test(slow_bytes_are_not_read_through),
        cmocka_unit_test(pieces_may_lie_anywhere),
        cmocka_unit_test(what_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
