/* root_helper.h - a temporary folder that a test makes its working directory and writes files
 * in. */
#ifndef PST_TESTS_ROOT_HELPER_H
#define PST_TESTS_ROOT_HELPER_H

/* Absolute path of the folder, which root_set_up makes. */
extern char root[];

/* Set-up and tear-down for cmocka: the first makes the folder and changes to it, the second leaves
 * it and removes it with its contents. */
int root_set_up(void **state);
int root_tear_down(void **state);
/* Writes a file, and makes the folders of its path. */
void put(const char *path, const char *text);

#endif
