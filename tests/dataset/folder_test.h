/* folder_test.h - makes folders for tests, in a temporary directory of each test. */
#ifndef FOLDER_TEST_H
#define FOLDER_TEST_H

#include "test.h"

#include <penstock/dataset.h>

#include <stdbool.h>

/* cmocka setup and teardown: the state of each test is a new, empty directory. */
int folder_setup(void **state);
int folder_teardown(void **state);
/* Returns a path below the test's directory. It is valid until 8 more calls. */
const char *folder_path(void **state, const char *relative);
/* Writes a file and the directories above it. Returns its path. */
const char *folder_file(void **state, const char *relative, const void *bytes, size_t nbytes);
const char *folder_text(void **state, const char *relative, const char *text);
void folder_mkdir(void **state, const char *relative);

pst_dataset *folder_open(void **state, const char *relative, const char *labels);
/* Opens a folder, expects `status`, and returns the error line (static memory). */
const char *folder_open_fails(void **state, const char *relative, const char *labels,
                              enum pst_status status);
/* Returns the name of a sample, valid until the next call but one. */
const char *folder_sample_name(const pst_dataset *dataset, uint64_t sample);

#endif
