/* root_helper.h - a folder of a test's own, in which the test works and writes files. */
#ifndef PST_TESTS_ROOT_HELPER_H
#define PST_TESTS_ROOT_HELPER_H

/* The folder, absolute; root_set_up makes it and its name. */
extern char root[];

/* For cmocka: makes the folder and goes there; leaves it and removes it with all that is in it. */
int root_set_up(void **state);
int root_tear_down(void **state);
/* Writes a file, and the folders above it. */
void put(const char *path, const char *text);

#endif
