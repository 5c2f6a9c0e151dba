/* serve_still.h - storage that stands still, in one process: from now on reading, writing
 * or closing a file whose path has a certain part waits until the test lets it go. This file
 * replaces the C library's pread, preadv, pwrite and close in the program. */
#ifndef PST_TESTS_SERVE_STILL_H
#define PST_TESTS_SERVE_STILL_H

#include <stdbool.h>
#include <sys/types.h>

/* Called before the process is forked for which it is. */
void serve_still_make(void);
/* part: of paths, less than 64 bytes. */
void serve_still_begin(pid_t pid, const char *part);
void serve_still_end(void);
/* Waits until n calls wait. False: not within a minute. */
bool serve_still_await(unsigned n);

#endif
