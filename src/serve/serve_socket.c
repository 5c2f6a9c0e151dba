/* serve_socket.c - the service's name in the file system: a lock file, which shows who serves, and
 * the socket.
 *
 * The lock is made by flock and ends with the process. So a lock file that is not locked, and the
 * socket next to it, were left by a killed service, and are taken over. */
#include "serve/serve.h"

#include "base/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128

static void lock_path(const pst_service *service, char path[PSTI_SOCKET_PATH_CAP + 8])
{
    snprintf(path, PSTI_SOCKET_PATH_CAP + 8, "%s.lock", service->path);
}

/* True if the locked file still has that name. A service that ends removes its file. */
static bool is_named(int fd, const char *path)
{
    struct stat mine, named;
    return fstat(fd, &mine) == 0 && lstat(path, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static enum pst_status take_lock(pst_service *service, struct pst_error *err)
{
    char path[PSTI_SOCKET_PATH_CAP + 8];
    lock_path(service, path);
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return psti_fail_os(err, errno, "serve", path, -1, "%s",
                                errno == ENOENT || errno == ENOTDIR
                                    ? "the directory for the socket does not exist"
                                    : "cannot make the lock file beside the socket");
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int os_error = errno;
            close(fd);
            if (os_error != EWOULDBLOCK)
                return psti_fail_os(err, os_error, "serve", path, -1, "cannot lock the lock file");
            return psti_fail_at(err, PST_ERROR_BUSY, "serve", service->path, -1,
                                "a host service runs here already");
        }
        service->lock_fd = fd;
        if (is_named(fd, path))
            return PST_OK;
        close(fd);
        service->lock_fd = -1;
    }
}

/* True if a program listens on the socket: another program, or a service whose lock file was
 * removed. */
static bool is_used(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool used = fd >= 0 && (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ||
                            (errno != ECONNREFUSED && errno != ENOENT));
    if (fd >= 0)
        close(fd);
    return used;
}

/* Makes the socket, and removes a stale one first. No file but a socket is ever removed. */
static enum pst_status listen_at_path(pst_service *service, struct pst_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", service->path);
    if (lstat(service->path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return psti_fail_at(err, PST_ERROR_EXISTS, "serve", service->path, -1,
                            "this is no socket: name another path");
    if (is_used(&address))
        return psti_fail_at(err, PST_ERROR_EXISTS, "serve", service->path, -1,
                            "another program listens on this socket: name another path");
    (void)unlink(service->path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return psti_fail_os(err, errno, "serve", service->path, -1, "no socket");
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(service->path, 0600) != 0 || listen(fd, BACKLOG) != 0 ||
        lstat(service->path, &st) != 0) {
        int os_error = errno;
        close(fd);
        return psti_fail_os(err, os_error, "serve", service->path, -1, "cannot make the socket");
    }
    service->listen_fd = fd;
    service->socket_inode = st.st_ino;
    service->socket_device = st.st_dev;
    return psti_serve_watch(service, fd, NULL, err);
}

enum pst_status psti_serve_bind(pst_service *service, struct pst_error *err)
{
    enum pst_status status =
        psti_share_check_directory(service->path, service->path_is_given, true, err);
    if (status == PST_OK)
        status = take_lock(service, err);
    return status == PST_OK ? listen_at_path(service, err) : status;
}

static bool socket_is_named(const pst_service *service)
{
    struct stat st;
    return lstat(service->path, &st) == 0 && st.st_ino == service->socket_inode &&
           st.st_dev == service->socket_device;
}

enum pst_status psti_serve_bind_again(pst_service *service, struct pst_error *err)
{
    char path[PSTI_SOCKET_PATH_CAP + 8];
    lock_path(service, path);
    if (socket_is_named(service) && is_named(service->lock_fd, path))
        return PST_OK;
    if (!is_named(service->lock_fd, path)) { /* another service may have taken over the name */
        close(service->lock_fd);
        service->lock_fd = -1;
        enum pst_status status =
            psti_share_check_directory(service->path, service->path_is_given, true, err);
        if (status == PST_OK)
            status = take_lock(service, err);
        if (status != PST_OK)
            return status;
    }
    if (service->listen_fd >= 0)
        close(service->listen_fd);
    service->listen_fd = -1;
    return listen_at_path(service, err);
}

void psti_serve_unbind(pst_service *service)
{
    char path[PSTI_SOCKET_PATH_CAP + 8];
    lock_path(service, path);
    if (service->listen_fd >= 0) {
        if (socket_is_named(service))
            unlink(service->path);
        close(service->listen_fd);
    }
    if (service->lock_fd >= 0) {
        if (is_named(service->lock_fd, path))
            unlink(path);
        close(service->lock_fd);
    }
}
