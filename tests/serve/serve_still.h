/* serve_still.h - imitates storage that stops answering in one process: once begun, reading,
 * writing or closing a file whose path contains a certain text blocks until the test ends it. This
 * file replaces the C library's pread, preadv, pwrite and close in the program. */
#ifndef PST_TESTS_SERVE_STILL_H
#define PST_TESTS_SERVE_STILL_H

#include <stdbool.h>
#include <sys/types.h>

/* Sets up the shared state. Call it before forking the process whose storage will block. */
void serve_still_make(void);
/* Blocks calls in process `pid` on files whose path contains `part`, of less than 64 bytes. */
void serve_still_begin(pid_t pid, const char *part);
void serve_still_end(void);
/* Waits until n calls block. Returns false if that takes more than a minute. */
bool serve_still_await(unsigned n);

#endif
