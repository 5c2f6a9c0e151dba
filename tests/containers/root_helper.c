/* root_helper.c - makes a temporary folder for a test. */
#include "containers/root_helper.h"

#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char root[] = "/tmp/pst-containers-XXXXXX";

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

int root_set_up(void **state)
{
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    return mkdtemp(root) == NULL || chdir(root) != 0;
}

int root_tear_down(void **state)
{
    (void)state;
    return chdir("/") != 0 || nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0;
}

void put(const char *path, const char *text)
{
    char folder[256];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        assert_true(mkdir(folder, 0700) == 0 || errno == EEXIST);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}
