/* test_share_wire.c - values and messages are the same after printing and parsing, invalid bytes
 * are refused, and sealed memory is verified. */
#include "base/test_input.h"

#include "base/files/sealed.h"
#include "share/share_link.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t bytes[PSTI_MESSAGE_NBYTES];

static void values_come_back(void **state)
{
    char text[16];
    struct pst_error err, mine = {.status = PST_ERROR_LIMIT, .sample = -1, .offset = 77};
    (void)state;
    snprintf(mine.text, sizeof mine.text, "no room");
    snprintf(mine.dataset, sizeof mine.dataset, "photos");
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_u32(&out, 7);
    psti_share_put_u64(&out, UINT64_MAX - 1);
    psti_share_put_f64(&out, -0.25);
    psti_share_put_text(&out, "name");
    psti_share_put_text(&out, NULL);
    psti_share_put_text(&out, "");
    psti_share_put_error(&out, &mine);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_SAVE, 42, 3);
    assert_true(nbytes > PSTI_MESSAGE_HEAD_NBYTES);
    struct psti_message_head head;
    assert_int_equal(psti_share_parse_head(bytes, nbytes, &head, NULL), PST_OK);
    assert_int_equal(head.kind, PSTI_MESSAGE_SAVE);
    assert_int_equal(head.id, 42);
    assert_int_equal(head.n_fds, 3);
    struct psti_wire_in in = psti_share_body(bytes, nbytes);
    assert_int_equal(psti_share_get_u32(&in), 7);
    assert_true(psti_share_get_u64(&in) == UINT64_MAX - 1);
    assert_true(psti_share_get_f64(&in) == -0.25);
    assert_true(psti_share_get_text(&in, text, sizeof text));
    assert_string_equal(text, "name");
    assert_false(psti_share_get_text(&in, text, sizeof text));
    assert_true(psti_share_get_text(&in, text, sizeof text));
    assert_string_equal(text, "");
    psti_share_get_error(&in, &err);
    assert_int_equal(psti_share_end(&in, "test", NULL), PST_OK);
    assert_int_equal(err.status, PST_ERROR_LIMIT);
    assert_string_equal(err.text, "no room");
    assert_string_equal(err.dataset, "photos");
    assert_true(err.sample == -1 && err.offset == 77);
}

static void short_and_long_bodies_are_refused(void **state)
{
    struct pst_error err;
    (void)state;
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_u32(&out, 1);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_STOP, 0, 0);
    struct psti_wire_in in = psti_share_body(bytes, nbytes);
    assert_int_equal(psti_share_end(&in, "stop", &err), PST_ERROR_CORRUPT);
    assert_true(psti_share_get_u64(&in) == 0);
    assert_true(in.bad);
    assert_int_equal(psti_share_end(&in, "stop", &err), PST_ERROR_CORRUPT);
    /* a text longer than the message, or with a NUL in it */
    char text[16];
    out = psti_share_begin(bytes);
    psti_share_put_u32(&out, 9);
    psti_share_put_bytes(&out, "abcd", 4);
    in = psti_share_body(bytes, psti_share_finish(&out, PSTI_MESSAGE_STOP, 0, 0));
    assert_false(psti_share_get_text(&in, text, sizeof text));
    assert_true(in.bad);
    out = psti_share_begin(bytes);
    psti_share_put_u32(&out, 4);
    psti_share_put_bytes(&out, "a\0cd", 4);
    in = psti_share_body(bytes, psti_share_finish(&out, PSTI_MESSAGE_STOP, 0, 0));
    assert_false(psti_share_get_text(&in, text, sizeof text));
    assert_true(in.bad);
    out = psti_share_begin(bytes);
    psti_share_put_text(&out, "sixteen bytes xx");
    in = psti_share_body(bytes, psti_share_finish(&out, PSTI_MESSAGE_STOP, 0, 0));
    assert_false(psti_share_get_text(&in, text, sizeof text));
    assert_true(in.bad);
}

static void what_does_not_fit_is_not_sent(void **state)
{
    (void)state;
    static const char big[PSTI_MESSAGE_NBYTES];
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_bytes(&out, big, sizeof big - PSTI_MESSAGE_HEAD_NBYTES);
    assert_int_equal(psti_share_finish(&out, PSTI_MESSAGE_STOP, 0, 0), PSTI_MESSAGE_NBYTES);
    psti_share_put_u32(&out, 1);
    assert_int_equal(psti_share_finish(&out, PSTI_MESSAGE_STOP, 0, 0), 0);
}

static void heads_are_checked(void **state)
{
    struct psti_message_head head;
    (void)state;
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_u32(&out, 1);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_STOP, 5, 0);
    assert_int_equal(psti_share_parse_head(bytes, nbytes, &head, NULL), PST_OK);
    assert_int_equal(psti_share_parse_head(bytes, nbytes - 1, &head, NULL), PST_ERROR_CORRUPT);
    assert_int_equal(psti_share_parse_head(bytes, 3, &head, NULL), PST_ERROR_CORRUPT);
    for (size_t i = 0; i < 16; i++) {        /* the kind may have any value */
        uint8_t flip = i == 6 ? 0xff : 0x80; /* 128 descriptors are allowed */
        bytes[i] ^= flip;
        bool is_kind = i == 4 || i == 5;
        assert_int_equal(psti_share_parse_head(bytes, nbytes, &head, NULL),
                         is_kind ? PST_OK : PST_ERROR_CORRUPT);
        bytes[i] ^= flip;
    }
}

static void another_protocol_is_named(void **state)
{
    struct pst_error err;
    const struct psti_hello theirs = {PSTI_HOST_PROTOCOL + 1, 1, "9.9.9"};
    (void)state;
    assert_int_equal(psti_share_check_protocol(&theirs, "client", &err), PST_ERROR_VERSION);
    assert_non_null(strstr(err.text, "9.9.9"));
}

static void blobs_cannot_be_changed(void **state)
{
    int fd;
    const void *seen;
    size_t nbytes;
    struct pst_error err;
    (void)state;
    assert_int_equal(psti_sealed_blob_make("test", "twelve bytes", 12, &fd, &err), PST_OK);
    assert_int_equal(psti_sealed_blob_map(fd, 100, &seen, &nbytes, &err), PST_OK);
    assert_int_equal(nbytes, 12);
    assert_memory_equal(seen, "twelve bytes", 12);
    assert_true(pwrite(fd, "x", 1, 0) < 0);
    assert_true(ftruncate(fd, 4) < 0 && ftruncate(fd, 40) < 0);
    assert_true(mmap(NULL, 12, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    psti_sealed_unmap(seen, nbytes);
    assert_int_equal(psti_sealed_blob_map(fd, 11, &seen, &nbytes, &err), PST_ERROR_CORRUPT);
    close(fd);
}

static void stores_grow_and_are_read(void **state)
{
    enum { CAPACITY = 1 << 20 };
    int fd;
    void *mine;
    const void *theirs;
    struct pst_error err;
    (void)state;
    enum pst_status status = psti_sealed_store_make("test", CAPACITY, &fd, &mine, &err);
    if (status == PST_ERROR_UNSUPPORTED)
        skip();
    assert_int_equal(status, PST_OK);
    assert_int_equal(psti_sealed_store_map(fd, CAPACITY, &theirs, &err), PST_OK);
    assert_int_equal(psti_sealed_nbytes(fd), 0);
    assert_true(psti_sealed_store_grow(fd, 0, 8192));
    ((char *)mine)[8191] = 'x';
    assert_int_equal(psti_sealed_nbytes(fd), 8192);
    assert_int_equal(((const char *)theirs)[8191], 'x');
    assert_true(psti_sealed_store_grow(fd, 8192, 16384));
    ((char *)mine)[16383] = 'y';
    assert_int_equal(((const char *)theirs)[16383], 'y');
    assert_true(ftruncate(fd, 0) < 0);
    assert_true(pwrite(fd, "z", 1, 0) < 0);
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_true(mprotect((void *)(uintptr_t)theirs, 4096, PROT_READ | PROT_WRITE) != 0);
    psti_sealed_unmap(theirs, CAPACITY);
    psti_sealed_unmap(mine, CAPACITY);
    close(fd);
}

static void other_files_are_no_sealed_memory(void **state)
{
    const void *seen;
    size_t nbytes;
    struct pst_error err;
    (void)state;
    int open_memfd = memfd_create("open", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    assert_int_equal(ftruncate(open_memfd, 4096), 0);
    const int fds[] = {open("/dev/zero", O_RDWR), open("/dev/null", O_RDWR), open("/", O_RDONLY),
                       open_memfd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        assert_int_equal(psti_sealed_blob_map(fds[i], 1 << 20, &seen, &nbytes, &err),
                         PST_ERROR_CORRUPT);
        assert_int_equal(psti_sealed_store_map(fds[i], 1 << 20, &seen, &err), PST_ERROR_CORRUPT);
        assert_null(seen);
        close(fds[i]);
    }
    assert_int_equal(psti_sealed_blob_map(-1, 100, &seen, &nbytes, &err), PST_ERROR_CORRUPT);
}

static void the_path_follows_the_environment(void **state)
{
    char path[PSTI_SOCKET_PATH_CAP], want[64], long_path[200];
    struct pst_error err;
    (void)state;
    unsetenv("PENSTOCK_SOCKET");
    setenv("XDG_RUNTIME_DIR", "/no/such/directory", 1);
    snprintf(want, sizeof want, "/tmp/penstock-%u/host.sock", (unsigned)geteuid());
    assert_int_equal(psti_share_socket_path(NULL, path, &err), PST_OK);
    assert_string_equal(path, want);
    setenv("XDG_RUNTIME_DIR", "/tmp", 1);
    assert_int_equal(psti_share_socket_path(NULL, path, &err), PST_OK);
    assert_string_equal(path, "/tmp/penstock/host.sock");
    setenv("PENSTOCK_SOCKET", "/a/b.sock", 1);
    assert_int_equal(psti_share_socket_path(NULL, path, &err), PST_OK);
    assert_string_equal(path, "/a/b.sock");
    assert_int_equal(psti_share_socket_path("/c.sock", path, &err), PST_OK);
    assert_string_equal(path, "/c.sock");
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(psti_share_socket_path(long_path, path, &err), PST_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(short_and_long_bodies_are_refused),
        cmocka_unit_test(what_does_not_fit_is_not_sent),
        cmocka_unit_test(heads_are_checked),
        cmocka_unit_test(another_protocol_is_named),
        cmocka_unit_test(blobs_cannot_be_changed),
        cmocka_unit_test(stores_grow_and_are_read),
        cmocka_unit_test(other_files_are_no_sealed_memory),
        cmocka_unit_test(the_path_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
