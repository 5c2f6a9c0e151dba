/* containers_tree_file.c - reads a small file of another program whole, as JSON or as YAML.
 *
 * In: a path. Out: a tree. The file is closed and its bytes are freed when the call returns. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "containers/list/containers_tree.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ROOM "containers"
enum { FILE_MAX_NBYTES = 256 << 20 };

static bool is_json_name(const char *path)
{
    size_t n = strlen(path);
    return n >= 5 && strcmp(path + n - 5, ".json") == 0;
}

enum pst_status psti_containers_tree_file(struct psti_tree *tree, const char *path,
                                          const char *what, struct pst_error *err)
{
    memset(tree, 0, sizeof *tree);
    int fd;
    struct stat st;
    char *bytes = NULL;
    enum pst_status status = psti_open_data(path, ROOM, what, &fd, &st, err);
    if (status != PST_OK)
        return status;
    size_t nbytes = (size_t)st.st_size;
    if (st.st_size > FILE_MAX_NBYTES) {
        status = psti_fail_at(err, PST_ERROR_LIMIT, ROOM, path, -1,
                              "%s has %lld bytes, %d are the limit", what, (long long)st.st_size,
                              FILE_MAX_NBYTES);
        goto out;
    }
    bytes = psti_alloc(nbytes + 1);
    if (bytes == NULL) {
        status = psti_fail_at(err, PST_ERROR_MEMORY, ROOM, path, -1,
                              "out of memory for a file of %zu bytes", nbytes);
        goto out;
    }
    ssize_t n = psti_read_at(fd, bytes, nbytes, 0);
    if (n < 0) {
        status = psti_fail_os(err, errno, ROOM, path, -1, "cannot read %s", what);
        goto out;
    }
    status = is_json_name(path) ? psti_containers_tree_json(tree, path, bytes, (size_t)n, err)
                                : psti_containers_tree_yaml(tree, path, bytes, (size_t)n, err);
out:
    psti_free(bytes);
    close(fd);
    return status;
}
