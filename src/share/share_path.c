/* share_path.c - finds the path of the host service's socket, and checks whether its directory can
 * be trusted. */
#include "share/share_link.h"

#include "base/fail.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Writes the path that is used when none is given. Returns its length as snprintf does. */
static int standard_path(char path[PSTI_SOCKET_PATH_CAP])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && runtime[0] == '/' && is_directory(runtime))
        return snprintf(path, PSTI_SOCKET_PATH_CAP, "%s/penstock/host.sock", runtime);
    return snprintf(path, PSTI_SOCKET_PATH_CAP, "/tmp/penstock-%u/host.sock", (unsigned)geteuid());
}

bool psti_share_is_standard_path(const char *path)
{
    char standard[PSTI_SOCKET_PATH_CAP];
    int n = standard_path(standard);
    return n > 0 && n < PSTI_SOCKET_PATH_CAP && strcmp(path, standard) == 0;
}

enum pst_status psti_share_socket_path(const char *given, char path[PSTI_SOCKET_PATH_CAP],
                                       struct pst_error *err)
{
    const char *variable = getenv("PENSTOCK_SOCKET");
    int n;
    if (!given && variable && variable[0])
        given = variable;
    char here[PATH_MAX];
    if (given && given[0] && given[0] != '/' && getcwd(here, sizeof here))
        n = snprintf(path, PSTI_SOCKET_PATH_CAP, "%s/%s", strcmp(here, "/") == 0 ? "" : here,
                     given);
    else if (given)
        n = snprintf(path, PSTI_SOCKET_PATH_CAP, "%s", given);
    else
        n = standard_path(path);
    if (n <= 0 || n >= PSTI_SOCKET_PATH_CAP)
        return psti_fail_at(err, PST_ERROR_ARGUMENT, "share", given ? given : path, -1,
                            "the absolute path of a socket has 1 to %d bytes",
                            PSTI_SOCKET_PATH_CAP - 1);
    return PST_OK;
}

/* Copies the directory part of the path. Returns its length; 0: there is none. */
static size_t directory_of(const char *path, char directory[PSTI_SOCKET_PATH_CAP])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    memcpy(directory, path, n);
    directory[n] = '\0';
    return n;
}

enum pst_status psti_share_check_directory(const char *path, bool given, bool make,
                                           struct pst_error *err)
{
    char directory[PSTI_SOCKET_PATH_CAP];
    struct stat st;
    if (given || directory_of(path, directory) == 0)
        return PST_OK;
    if (make && mkdir(directory, 0700) != 0 && errno != EEXIST)
        return psti_fail_os(err, errno, "share", directory, -1,
                            "cannot make the directory of the host service");
    if (lstat(directory, &st) != 0)
        return psti_fail_os(err, errno, "share", directory, -1, "no host service has run here");
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return psti_fail_at(err, PST_ERROR_ARGUMENT, "share", directory, -1,
                            "the directory of the host service must be a directory of user %u "
                            "that nobody else may write to, and no symbolic link; "
                            "PENSTOCK_SOCKET names another place",
                            (unsigned)geteuid());
    return PST_OK;
}
