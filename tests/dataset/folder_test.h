/* folder_test.h - making folders to test with, under a directory of the test's own. */
#ifndef FOLDER_TEST_H
#define FOLDER_TEST_H

#include "test.h"

#include <penstock/dataset.h>

#include <stdbool.h>

/* A fresh, empty directory; state of each test (cmocka setup and teardown). */
int folder_setup(void **state);
int folder_teardown(void **state);
/* Path below the directory of this test; valid until 8 more calls. */
const char *folder_path(void **state, const char *relative);
/* Writes a file with directories above it as needed; returns its path. */
const char *folder_file(void **state, const char *relative, const void *bytes, size_t nbytes);
const char *folder_text(void **state, const char *relative, const char *text);
void folder_mkdir(void **state, const char *relative);

pst_dataset *folder_open(void **state, const char *relative, const char *labels);
/* Opens, expects `status`, returns the error line (static memory). */
const char *folder_open_fails(void **state, const char *relative, const char *labels,
                              enum pst_status status);
/* Valid until the next call but one. */
const char *folder_sample_name(const pst_dataset *dataset, uint64_t sample);

#endif
