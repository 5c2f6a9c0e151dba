/* test_serve_session.c - tests connecting to the service: who may connect, and what happens to
 * clients that break the protocol, to stale sockets and to removed ones. After each fault the
 * service serves the next client. */
#include "serve/serve_fixture.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SECOND ((int64_t)1000 * 1000 * 1000)

static struct psti_message message;
static unsigned n_idle_fds; /* open descriptors of this process while the service has no sessions */

static unsigned count_fds(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int start(void **state)
{
    (void)state;
    serve_fixture_place(&fixture);
    serve_fixture_start(&fixture, NULL);
    n_idle_fds = count_fds();
    return 0;
}

static enum pst_status connect_to(const char *path, struct pst_error *err)
{
    int fd;
    enum pst_status status =
        psti_share_connect(path, PSTI_SESSION_CONTROL, 60 * SECOND, NULL, &fd, NULL, err);
    if (status == PST_OK)
        close(fd);
    return status;
}

static void assert_serves(void)
{
    struct pst_error err;
    assert_ok(connect_to(fixture.socket, &err));
}

static void a_client_is_welcome(void **state)
{
    struct psti_hello theirs;
    struct pst_error err;
    int fd;
    (void)state;
    assert_ok(psti_share_connect(fixture.socket, PSTI_SESSION_CONTROL, 60 * SECOND, NULL, &fd,
                                 &theirs, &err));
    assert_int_equal(theirs.protocol, PSTI_HOST_PROTOCOL);
    assert_string_equal(theirs.version, pst_version());
    assert_int_equal(theirs.session, getpid());
    close(fd);
    assert_int_equal(connect_to("/tmp/no-such-directory/host.sock", &err), PST_ERROR_NOT_FOUND);
    assert_non_null(strstr(err.text, "penstock serve"));
}

static void a_second_service_is_refused(void **state)
{
    const struct pst_service_options options = {
        .struct_size = sizeof options, .socket = fixture.socket, .cache_nbytes = 1 << 20};
    pst_service *second;
    struct pst_error err;
    (void)state;
    assert_int_equal(pst_service_open(&options, &second, &err), PST_ERROR_BUSY);
    assert_null(second);
    assert_serves();
}

/* Sends the bytes with descriptors. Returns the error with which the service answers. */
static enum pst_status provoke(const void *bytes, size_t nbytes, const int *fds, uint32_t n_fds,
                               struct pst_error *err)
{
    int fd = serve_fixture_connect(&fixture);
    assert_int_equal(
        psti_share_send(fd, bytes, nbytes, fds, n_fds, psti_clock_ns() + 60 * SECOND, err), PST_OK);
    enum pst_status status =
        psti_share_answer(fd, &message, PSTI_MESSAGE_WELCOME, 60 * SECOND, NULL, err);
    if (status != PST_OK) /* the service has ended the session */
        assert_int_equal(psti_share_receive(fd, &message, psti_clock_ns() + 60 * SECOND, NULL),
                         PST_END);
    psti_share_message_close(&message);
    close(fd);
    return status;
}

static size_t make_hello(uint8_t *bytes, uint32_t protocol, uint32_t session, uint32_t n_fds)
{
    struct psti_hello hello = {protocol, session, "1.2.3"};
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_hello(&out, &hello);
    return psti_share_finish(&out, PSTI_MESSAGE_HELLO, 0, n_fds);
}

static void another_version_is_refused(void **state)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct pst_error err;
    (void)state;
    size_t n = make_hello(bytes, PSTI_HOST_PROTOCOL + 1, PSTI_SESSION_CONTROL, 0);
    assert_int_equal(provoke(bytes, n, NULL, 0, &err), PST_ERROR_VERSION);
    assert_non_null(strstr(err.text, "1.2.3"));
    assert_non_null(strstr(err.text, pst_version()));
    n = make_hello(bytes, PSTI_HOST_PROTOCOL, 77, 0);
    assert_int_equal(provoke(bytes, n, NULL, 0, &err), PST_ERROR_UNSUPPORTED);
    n = make_hello(bytes, PSTI_HOST_PROTOCOL, PSTI_SESSION_CONTROL, 0);
    assert_int_equal(provoke(bytes, n, NULL, 0, &err), PST_OK);
    assert_serves();
}

static void wrong_lengths_are_refused(void **state)
{
    static uint8_t bytes[2 * PSTI_MESSAGE_NBYTES];
    struct pst_error err;
    (void)state;
    size_t n = make_hello(bytes, PSTI_HOST_PROTOCOL, PSTI_SESSION_CONTROL, 0);
    for (size_t cut = 1; cut < n; cut += 7)
        assert_int_equal(provoke(bytes, cut, NULL, 0, &err), PST_ERROR_CORRUPT);
    assert_int_equal(provoke(bytes, n + 1, NULL, 0, &err), PST_ERROR_CORRUPT);
    assert_int_equal(provoke(bytes, sizeof bytes, NULL, 0, &err), PST_ERROR_CORRUPT);
    bytes[8]--; /* the message's head states a smaller length */
    assert_int_equal(provoke(bytes, n, NULL, 0, &err), PST_ERROR_CORRUPT);
    assert_serves();
}

static void unexpected_descriptors_are_closed(void **state)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    int fds[PSTI_MESSAGE_FDS];
    struct pst_error err;
    (void)state;
    for (uint32_t i = 0; i < PSTI_MESSAGE_FDS; i++)
        fds[i] = i % 2 ? open("/dev/null", O_RDONLY) : open("/", O_RDONLY);
    size_t n = make_hello(bytes, PSTI_HOST_PROTOCOL, PSTI_SESSION_CONTROL, 0);
    assert_int_equal(provoke(bytes, n, fds, PSTI_MESSAGE_FDS, &err), PST_ERROR_CORRUPT);
    assert_int_equal(provoke(bytes, n, fds, 1, &err), PST_ERROR_CORRUPT);
    n = make_hello(bytes, PSTI_HOST_PROTOCOL, PSTI_SESSION_CONTROL, 2);
    assert_int_equal(provoke(bytes, n, fds, 2, &err), PST_ERROR_CORRUPT);
    assert_int_equal(provoke(bytes, n, NULL, 0, &err), PST_ERROR_CORRUPT);
    for (uint32_t i = 0; i < PSTI_MESSAGE_FDS; i++)
        close(fds[i]);
    assert_serves();
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    while (count_fds() != n_idle_fds &&
           psti_clock_ns() < deadline) /* until the service closes its side */
        psti_clock_sleep_until(psti_clock_ns() + SECOND / 100);
    assert_int_equal(count_fds(), n_idle_fds);
}

static void messages_before_the_greeting_are_refused(void **state)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct pst_error err;
    (void)state;
    struct psti_wire_out out = psti_share_begin(bytes);
    size_t n = psti_share_finish(&out, PSTI_MESSAGE_STOP, 0, 0);
    assert_int_equal(provoke(bytes, n, NULL, 0, &err), PST_ERROR_CORRUPT);
    assert_serves();
}

static int try_as_user(void *ctx)
{
    struct pst_error err;
    (void)ctx;
    if (connect_to(fixture.socket, &err) != PST_ERROR_IO) /* the socket's mode keeps others out */
        return 1;
    return err.os_error == EACCES ? 0 : 2;
}

static int try_open_socket_as_user(void *ctx)
{
    struct pst_error err;
    (void)ctx;
    return connect_to(fixture.socket, &err) == PST_ERROR_ARGUMENT &&
                   strstr(err.text, "a service of their own")
               ? 0
               : 1;
}

static void other_users_are_refused(void **state)
{
    (void)state;
    int result = serve_fixture_as_user(try_as_user, NULL);
    if (result < 0)
        skip();
    assert_int_equal(result, 0);
    /* even if the socket's permissions allow all users */
    assert_int_equal(chmod(fixture.socket, 0666), 0);
    assert_int_equal(serve_fixture_as_user(try_open_socket_as_user, NULL), 0);
    assert_serves();
}

static int make_directory_as_user(void *ctx) { return mkdir(ctx, 0777) == 0 ? 0 : 1; }

static void another_users_directory_is_refused(void **state)
{
    char directory[96], path[PSTI_SOCKET_PATH_CAP];
    struct pst_error err;
    (void)state;
    snprintf(directory, sizeof directory, "%s/run", fixture.directory);
    snprintf(path, sizeof path, "%s/host.sock", directory);
    assert_int_equal(chmod(fixture.directory, 0777), 0);
    int result = serve_fixture_as_user(make_directory_as_user, directory);
    if (result < 0)
        skip();
    assert_int_equal(result, 0);
    assert_int_equal(psti_share_check_directory(path, false, true, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(psti_share_check_directory(path, true, false, &err), PST_OK);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(symlink("/tmp", directory), 0);
    assert_int_equal(psti_share_check_directory(path, false, true, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(unlink(directory), 0);
    assert_int_equal(psti_share_check_directory(path, false, true, &err), PST_OK);
    struct stat st;
    assert_int_equal(stat(directory, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(chmod(fixture.directory, 0755), 0);
}

/* A killed service leaves a socket that nobody listens on, and an unlocked lock file. A new service
 * replaces both. */
static void a_stale_socket_is_replaced(void **state)
{
    struct serve_fixture other;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char lock[128];
    struct pst_error err;
    (void)state;
    serve_fixture_place(&other);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", other.socket);
    snprintf(lock, sizeof lock, "%s.lock", other.socket);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    close(open(lock, O_RDWR | O_CREAT, 0600));
    assert_int_equal(connect_to(other.socket, &err), PST_ERROR_NOT_FOUND);
    serve_fixture_start(&other, NULL);
    assert_ok(connect_to(other.socket, &err));
    serve_fixture_stop(&other);
    assert_true(access(lock, F_OK) != 0);
    /* a file that is no socket is not replaced */
    close(open(other.socket, O_RDWR | O_CREAT, 0600));
    const struct pst_service_options options = {
        .struct_size = sizeof options, .socket = other.socket, .cache_nbytes = 1 << 20};
    assert_int_equal(pst_service_open(&options, &other.service, &err), PST_ERROR_EXISTS);
    serve_fixture_clear(&other);
}

static void a_removed_socket_is_made_again(void **state)
{
    char lock[128];
    struct pst_error err;
    (void)state;
    snprintf(lock, sizeof lock, "%s.lock", fixture.socket);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(unlink(fixture.socket), 0);
        if (round == 1)
            assert_int_equal(unlink(lock), 0);
        int64_t deadline = psti_clock_ns() + 60 * SECOND;
        while (connect_to(fixture.socket, &err) != PST_OK && psti_clock_ns() < deadline)
            psti_clock_sleep_until(psti_clock_ns() + SECOND / 50);
        assert_serves();
    }
}

static void a_service_ends_when_it_is_told(void **state)
{
    struct serve_fixture other;
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct pst_error err;
    int fd;
    (void)state;
    serve_fixture_place(&other);
    serve_fixture_start(&other, NULL);
    assert_ok(
        psti_share_connect(other.socket, PSTI_SESSION_CONTROL, 60 * SECOND, NULL, &fd, NULL, &err));
    struct psti_wire_out out = psti_share_begin(bytes);
    size_t n = psti_share_finish(&out, PSTI_MESSAGE_STOP, 1, 0);
    assert_ok(psti_share_send(fd, bytes, n, NULL, 0, psti_clock_ns() + 60 * SECOND, &err));
    assert_ok(psti_share_answer(fd, &message, PSTI_MESSAGE_DONE, 60 * SECOND, NULL, &err));
    pthread_join(other.thread, NULL);
    pst_service_close(&other.service);
    assert_int_equal(other.ended, PST_OK);
    close(fd);
    serve_fixture_clear(&other);
}

static void a_service_without_clients_ends(void **state)
{
    struct serve_fixture other;
    const struct pst_service_options options = {
        .struct_size = sizeof options, .cache_nbytes = 1 << 20, .linger_s = 1};
    (void)state;
    serve_fixture_place(&other);
    serve_fixture_start(&other, &options);
    pthread_join(other.thread, NULL); /* hangs if the service does not end */
    assert_string_equal(pst_service_socket(other.service), other.socket);
    pst_service_close(&other.service);
    assert_int_equal(other.ended, PST_OK);
    serve_fixture_clear(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_is_welcome),
        cmocka_unit_test(a_second_service_is_refused),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(unexpected_descriptors_are_closed),
        cmocka_unit_test(messages_before_the_greeting_are_refused),
        cmocka_unit_test(other_users_are_refused),
        cmocka_unit_test(another_users_directory_is_refused),
        cmocka_unit_test(a_stale_socket_is_replaced),
        cmocka_unit_test(a_removed_socket_is_made_again),
        cmocka_unit_test(a_service_ends_when_it_is_told),
        cmocka_unit_test(a_service_without_clients_ends),
    };
    return cmocka_run_group_tests(tests, start, serve_fixture_close);
}
