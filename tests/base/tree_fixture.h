/* tree_fixture.h - a folder that replaces the root of a machine's files (/proc, /sys). A failure in
 * a helper fails the test. */
#ifndef PST_TESTS_TREE_FIXTURE_H
#define PST_TESTS_TREE_FIXTURE_H

#include "test.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* Set-up and tear-down for cmocka: the first makes the folder, the second removes it. */
static inline int tree_set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/pst-tree-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static inline int tree_remove_one(const char *path, const struct stat *stat_, int kind,
                                  struct FTW *ftw)
{
    (void)stat_;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline int tree_tear_down(void **state)
{
    (void)state;
    return nftw(root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_set_up, tree_tear_down)

/* Writes the file root/path, and makes its folders. */
static inline void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#endif
