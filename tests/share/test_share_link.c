/* test_share_link.c - tests sockets between the host service and its clients: descriptors sent with
 * a message, peers that lie, stay silent or end, and sockets that belong to no host service. */
#include "test.h"

#include "base/clock.h"
#include "share/share_link.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MS ((int64_t)1000 * 1000)
#define LONG_NS (60000 * MS)
enum { MANY_FDS = PSTI_MESSAGE_FDS + 4 };

struct pair {
    int ours, theirs;
    unsigned n_open; /* open descriptors of this process */
    struct psti_message message;
};

static unsigned n_open_files(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int set_up(void **state)
{
    int ends[2];
    struct pair *pair = calloc(1, sizeof *pair);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
                     0);
    pair->ours = ends[0];
    pair->theirs = ends[1];
    pair->n_open = n_open_files();
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    close(pair->ours);
    close(pair->theirs);
    free(pair);
    return 0;
}

/* Sends bytes with n_fds descriptors, whatever the bytes say. */
static void send_raw(int fd, const void *bytes, size_t nbytes, uint32_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(MANY_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, nbytes};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds > 0) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        for (uint32_t i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
    assert_int_equal(sendmsg(fd, &packet, MSG_NOSIGNAL), nbytes);
}

/* Sends a message that states `says` descriptors, with `n_fds`. */
static void send_message(int fd, enum psti_message_kind kind, uint32_t says, uint32_t n_fds)
{
    uint8_t bytes[PSTI_MESSAGE_HEAD_NBYTES];
    struct psti_wire_out out = psti_share_begin(bytes);
    size_t nbytes = psti_share_finish(&out, kind, 1, says);
    assert_int_equal(nbytes, sizeof bytes);
    send_raw(fd, bytes, nbytes, n_fds);
}

static void send_error(int fd, enum pst_status status, const char *text)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct pst_error theirs = {.status = status, .sample = -1, .offset = -1};
    snprintf(theirs.text, sizeof theirs.text, "%s", text);
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_error(&out, &theirs);
    send_raw(fd, bytes, psti_share_finish(&out, PSTI_MESSAGE_ERROR, 1, 0), 0);
}

static enum pst_status receive(struct pair *pair, struct pst_error *err)
{
    pst_error_clear(err);
    return psti_share_receive(pair->ours, &pair->message, psti_clock_ns() + LONG_NS, err);
}

static void descriptors_come_and_are_taken(void **state)
{
    struct pair *pair = *state;
    struct pst_error err;
    for (uint32_t n = 0; n <= PSTI_MESSAGE_FDS; n++) {
        send_message(pair->theirs, PSTI_MESSAGE_DONE, n, n);
        assert_ok(receive(pair, &err));
        assert_int_equal(pair->message.n_fds, n);
        assert_int_equal(n_open_files(), pair->n_open + n);
        assert_int_equal(psti_share_message_take_fd(&pair->message, n), -1);
        if (n > 0) {
            int taken = psti_share_message_take_fd(&pair->message, n - 1);
            assert_true(taken >= 0 && (fcntl(taken, F_GETFD) & FD_CLOEXEC));
            assert_int_equal(psti_share_message_take_fd(&pair->message, n - 1), -1);
            close(taken);
        }
        psti_share_message_close(&pair->message);
        assert_int_equal(n_open_files(), pair->n_open);
    }
}

static void other_descriptors_than_said_are_refused(void **state)
{
    static const uint32_t wrong[][2] = {{0, 1},   {1, 0},   {2, 1},  {1, 2},
                                        {16, 15}, {16, 17}, {0, 16}, {15, 20}};
    struct pair *pair = *state;
    struct pst_error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        send_message(pair->theirs, PSTI_MESSAGE_DONE, wrong[i][0], wrong[i][1]);
        assert_int_equal(receive(pair, &err), PST_ERROR_CORRUPT);
        assert_int_equal(pair->message.n_fds, 0);
        assert_int_equal(n_open_files(), pair->n_open);
    }
}

/* The kernel passes on no more descriptors than the process may open, which is reported. */
static void a_full_table_of_files_is_told(void **state)
{
    struct pair *pair = *state;
    struct pst_error err;
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int highest = dup(pair->ours);
    assert_true(highest >= 0);
    close(highest);
    low = before;
    low.rlim_cur = (rlim_t)highest + 1;
    send_message(pair->theirs, PSTI_MESSAGE_DONE, 3, 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    enum pst_status status = receive(pair, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, PST_ERROR_IO);
    assert_int_equal(err.os_error, EMFILE);
    assert_int_equal(n_open_files(), pair->n_open);
}

static void what_is_no_message(void **state)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES + 1];
    struct pair *pair = *state;
    struct pst_error err;
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_u32(&out, 7);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_DONE, 1, 0);
    static const int changes[] = {-1, 1}; /* changes of the stated length */
    for (size_t i = 0; i < 2; i++) {
        send_raw(pair->theirs, bytes, nbytes + (size_t)changes[i], 0);
        assert_int_equal(receive(pair, &err), PST_ERROR_CORRUPT);
    }
    send_raw(pair->theirs, bytes, 1, 1);
    assert_int_equal(receive(pair, &err), PST_ERROR_CORRUPT);
    send_raw(pair->theirs, bytes, sizeof bytes, 2);
    assert_int_equal(receive(pair, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "longer"));
    assert_int_equal(n_open_files(), pair->n_open);
    send_raw(pair->theirs, bytes, 0, 0);
    assert_int_equal(receive(pair, &err), PST_END);
    send_message(pair->theirs, PSTI_MESSAGE_DONE, 0, 0);
    assert_ok(receive(pair, &err)); /* the session still works after all of these */
}

static void a_peer_that_ends(void **state)
{
    struct pair *pair = *state;
    struct pst_error err;
    uint8_t bytes[PSTI_MESSAGE_HEAD_NBYTES];
    struct psti_wire_out out = psti_share_begin(bytes);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_DONE, 1, 0);
    assert_ok(psti_share_send(pair->ours, bytes, nbytes, NULL, 0, 0, &err));
    send_message(pair->theirs, PSTI_MESSAGE_DONE, 0, 0);
    /* A forked child's copy of the socket does not keep the session alive. */
    int copy = dup(pair->theirs);
    psti_share_disconnect(dup(pair->theirs), getpid() + 1); /* a child closes only its own copy */
    assert_ok(receive(pair, &err));
    assert_int_equal(psti_share_receive(pair->ours, &pair->message, psti_clock_ns(), &err),
                     PST_ERROR_IO);
    psti_share_disconnect(dup(pair->theirs), getpid());
    psti_share_disconnect(-1, getpid());
    assert_int_equal(receive(pair, &err), PST_END);
    assert_int_equal(psti_share_send(pair->ours, bytes, nbytes, NULL, 0, 0, &err), PST_END);
    close(copy);
}

static void silence_has_an_end(void **state)
{
    struct pair *pair = *state;
    struct pst_error err;
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    assert_int_equal(
        psti_share_receive(pair->ours, &pair->message, psti_clock_ns() + 20 * MS, &err),
        PST_ERROR_IO);
    assert_int_equal(err.os_error, ETIMEDOUT);
    enum pst_status status = PST_OK;
    unsigned n = 0;
    while (status == PST_OK && n++ < 10000) /* nobody reads */
        status = psti_share_send(pair->ours, bytes, sizeof bytes, NULL, 0,
                                 psti_clock_ns() + 20 * MS, &err);
    assert_int_equal(status, PST_ERROR_IO);
    assert_int_equal(err.os_error, ETIMEDOUT);
    assert_int_equal(psti_share_receive(-1, &pair->message, 0, &err), PST_ERROR_IO);
    assert_int_equal(err.os_error, EBADF);
    assert_int_equal(psti_share_send(-1, bytes, 24, NULL, 0, 0, &err), PST_ERROR_IO);
    assert_int_equal(err.os_error, EBADF);
}

static enum pst_status answer(struct pair *pair, struct pst_error *err)
{
    pst_error_clear(err);
    return psti_share_answer(pair->ours, &pair->message, PSTI_MESSAGE_DONE, LONG_NS, NULL, err);
}

static void answers(void **state)
{
    struct pair *pair = *state;
    struct pst_error err;
    send_message(pair->theirs, PSTI_MESSAGE_ALIVE, 0, 0);
    send_message(pair->theirs, PSTI_MESSAGE_ALIVE, 0, 0);
    send_message(pair->theirs, PSTI_MESSAGE_DONE, 1, 1);
    assert_ok(answer(pair, &err));
    assert_int_equal(pair->message.n_fds, 1);
    psti_share_message_close(&pair->message);
    send_error(pair->theirs, PST_ERROR_NO_SPACE, "the disk is full");
    assert_int_equal(answer(pair, &err), PST_ERROR_NO_SPACE);
    assert_string_equal(err.text, "the disk is full");
    send_error(pair->theirs, PST_OK, "all is well"); /* an error message whose status is PST_OK */
    assert_int_equal(answer(pair, &err), PST_ERROR_CORRUPT);
    send_error(pair->theirs, PST_END, "the end");
    assert_int_equal(answer(pair, &err), PST_ERROR_CORRUPT);
    send_message(pair->theirs, PSTI_MESSAGE_ERROR, 0, 0); /* an error message without a body */
    assert_int_equal(answer(pair, &err), PST_ERROR_CORRUPT);
    send_message(pair->theirs, PSTI_MESSAGE_STATUS_IS, 2, 2);
    assert_int_equal(answer(pair, &err), PST_ERROR_CORRUPT);
    /* an "alive" message carries no descriptors */
    send_message(pair->theirs, PSTI_MESSAGE_ALIVE, 1, 1);
    assert_int_equal(answer(pair, &err), PST_ERROR_CORRUPT);
    assert_int_equal(n_open_files(), pair->n_open);
    assert_int_equal(shutdown(pair->theirs, SHUT_RDWR), 0);
    assert_int_equal(answer(pair, &err), PST_ERROR_IO);
    assert_non_null(strstr(err.text, "ended the session"));
}

static int third_time(void *ctx) { return ++*(int *)ctx >= 3; }

static void a_caller_may_end_the_wait(void **state)
{
    struct pair *pair = *state;
    struct pst_error err;
    int n = 0;
    const struct psti_share_stop stop = {third_time, &n};
    assert_int_equal(
        psti_share_answer(pair->ours, &pair->message, PSTI_MESSAGE_DONE, LONG_NS, &stop, &err),
        PST_ERROR_CANCELLED);
    assert_int_equal(n, 3);
    n = -1000;
    send_message(pair->theirs, PSTI_MESSAGE_DONE, 0, 0);
    assert_ok(
        psti_share_answer(pair->ours, &pair->message, PSTI_MESSAGE_DONE, LONG_NS, &stop, &err));
}

/* A directory for sockets. */
static char directory[64], place[PSTI_SOCKET_PATH_CAP];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/pst-link-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(place, sizeof place, "%s/host.sock", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    (void)unlink(place);
    return rmdir(directory);
}

static int listen_at(int type, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", place);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

static enum pst_status connect_for(int64_t wait_ns, const struct psti_share_stop *stop,
                                   struct pst_error *err)
{
    int fd = 7;
    pst_error_clear(err);
    enum pst_status status =
        psti_share_connect(place, PSTI_SESSION_CONTROL, wait_ns, stop, &fd, NULL, err);
    assert_int_not_equal(status, PST_OK);
    assert_int_equal(fd, -1);
    assert_string_equal(err->file, place);
    return status;
}

static void what_is_no_host_service(void **state)
{
    struct pst_error err;
    (void)state;
    unsigned before = n_open_files();
    assert_int_equal(connect_for(LONG_NS, NULL, &err), PST_ERROR_NOT_FOUND);
    close(open(place, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(connect_for(LONG_NS, NULL, &err), PST_ERROR_NOT_FOUND);
    unlink(place);
    int other = listen_at(SOCK_STREAM, 1);
    assert_int_equal(connect_for(LONG_NS, NULL, &err), PST_ERROR_IO);
    assert_non_null(strstr(err.text, "another program"));
    close(other);
    unlink(place);
    assert_int_equal(n_open_files(), before);
}

/* The service never accepts a session, first with space in its queue, then without. */
static void a_service_that_hangs(void **state)
{
    struct pst_error err;
    int n = 0;
    const struct psti_share_stop stop = {third_time, &n};
    (void)state;
    unsigned before = n_open_files();
    int service = listen_at(SOCK_SEQPACKET, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(connect_for(30 * MS, NULL, &err), PST_ERROR_IO);
        assert_int_equal(err.os_error, ETIMEDOUT);
    }
    assert_int_equal(connect_for(LONG_NS, &stop, &err), PST_ERROR_CANCELLED);
    close(service);
    assert_int_equal(n_open_files(), before);
}

struct service {
    int fd;
    uint32_t protocol;
    bool answers; /* answers a request; otherwise ends the session */
};

/* Serves one session: hello, welcome, and a request. */
static void *serve(void *ctx)
{
    const struct service *service = ctx;
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    int fd = accept(service->fd, NULL, NULL);
    if (fd < 0 || recv(fd, bytes, sizeof bytes, 0) <= 0)
        return NULL;
    struct psti_hello hello = {.protocol = service->protocol, .session = 1, .version = "9.9"};
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_hello(&out, &hello);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_WELCOME, 0, 0);
    (void)!send(fd, bytes, nbytes, MSG_NOSIGNAL);
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n > 0 && service->answers) {
        out = psti_share_begin(bytes);
        nbytes = psti_share_finish(&out, PSTI_MESSAGE_DONE, 1, 0);
        (void)!send(fd, bytes, nbytes, MSG_NOSIGNAL);
    }
    close(fd);
    return NULL;
}

static void put_text(struct psti_wire_out *out, const void *ctx)
{
    for (int i = 0; i < 20; i++)
        psti_share_put_text(out, ctx);
}

static enum pst_status request(struct service *service, const char *text, struct pst_error *err)
{
    pthread_t thread;
    struct psti_message *message = malloc(sizeof *message);
    service->fd = listen_at(SOCK_SEQPACKET, 4);
    assert_int_equal(pthread_create(&thread, NULL, serve, service), 0);
    pst_error_clear(err);
    enum pst_status status = psti_share_request(place, PSTI_MESSAGE_CLEAR, put_text, text,
                                                PSTI_MESSAGE_DONE, NULL, message, err);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(service->fd);
    unlink(place);
    free(message);
    return status;
}

static void requests(void **state)
{
    struct pst_error err;
    static char longest[PSTI_TEXT_CAP];
    struct service service = {.protocol = PSTI_HOST_PROTOCOL, .answers = true};
    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    unsigned before = n_open_files();
    assert_ok(request(&service, "text", &err));
    assert_int_equal(request(&service, longest, &err), PST_ERROR_ARGUMENT); /* twenty of them */
    assert_non_null(strstr(err.text, "too long"));
    service.answers = false;
    assert_int_equal(request(&service, "text", &err), PST_ERROR_IO);
    assert_non_null(strstr(err.text, "ended the session"));
    service.protocol++;
    assert_int_equal(request(&service, "text", &err), PST_ERROR_VERSION);
    assert_non_null(strstr(err.text, "9.9"));
    assert_int_equal(n_open_files(), before);
}

static void directories_that_others_may_change(void **state)
{
    struct pst_error err;
    char inner[80], socket_path[PSTI_SOCKET_PATH_CAP];
    (void)state;
    snprintf(inner, sizeof inner, "%s/inner", directory);
    snprintf(socket_path, sizeof socket_path, "%s/host.sock", inner);
    assert_int_equal(psti_share_check_directory(socket_path, false, false, &err),
                     PST_ERROR_NOT_FOUND);
    /* no error, because the caller named the path */
    assert_ok(psti_share_check_directory(socket_path, true, false, &err));
    assert_ok(psti_share_check_directory(socket_path, false, true, &err));
    struct stat st;
    assert_int_equal(stat(inner, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    /* the directory exists already */
    assert_ok(psti_share_check_directory(socket_path, false, true, &err));
    assert_int_equal(chmod(inner, 0770), 0);
    assert_int_equal(psti_share_check_directory(socket_path, false, true, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(chmod(inner, 0702), 0);
    assert_int_equal(psti_share_check_directory(socket_path, false, false, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(symlink("/tmp", inner), 0);
    assert_int_equal(psti_share_check_directory(socket_path, false, true, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(unlink(inner), 0);
    snprintf(socket_path, sizeof socket_path, "%s/no/inner/host.sock", directory);
    assert_int_equal(psti_share_check_directory(socket_path, false, true, &err),
                     PST_ERROR_NOT_FOUND);
}

#define PAIR(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define PLACE(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)
int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR(descriptors_come_and_are_taken),
        PAIR(other_descriptors_than_said_are_refused),
        PAIR(a_full_table_of_files_is_told),
        PAIR(what_is_no_message),
        PAIR(a_peer_that_ends),
        PAIR(silence_has_an_end),
        PAIR(answers),
        PAIR(a_caller_may_end_the_wait),
        PLACE(what_is_no_host_service),
        PLACE(a_service_that_hangs),
        PLACE(requests),
        PLACE(directories_that_others_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
