/* output.h - a file that only grows, with one large buffer, and explicit flush and sync.
 *
 * One thread. Every call that changes the disk first asks psti_fault. After a failed write or
 * fsync, no call on the file may be repeated, because the kernel may have dropped the pages. The
 * caller must give the file up. */
#ifndef PST_BASE_OUTPUT_H
#define PST_BASE_OUTPUT_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>

struct psti_output {
    int fd;           /* file descriptor; -1: the file is closed */
    const char *room; /* the module that errors name */
    uint64_t offset;  /* offset in the file of the buffer's first byte */
    uint8_t *buffer;
    size_t n, capacity;
    char *path; /* path of the file, for error messages */
};

/* Allocates the buffer and copies the path. The caller then opens the file and sets `fd`. In this
 * order no file is created if memory is short. After a failure there is nothing to close. */
enum pst_status psti_output_prepare(struct psti_output *output, const char *room, const char *path,
                                    uint64_t offset, size_t capacity, struct pst_error *err);
enum pst_status psti_output_append(struct psti_output *output, const void *bytes, size_t nbytes,
                                   struct pst_error *err);
enum pst_status psti_output_flush(struct psti_output *output, struct pst_error *err);
/* Flushes the buffer and calls fsync. */
enum pst_status psti_output_sync(struct psti_output *output, struct pst_error *err);
/* Overwrites bytes of the file that were flushed before. */
enum pst_status psti_output_patch(struct psti_output *output, uint64_t offset, const void *bytes,
                                  size_t nbytes, struct pst_error *err);
/* Closes the file and drops what is in the buffer. The struct may be all zero except for fd -1. */
void psti_output_close(struct psti_output *output);

/* Calls fsync for a directory, so that the names in it survive a crash. `name` is "." or "..",
 * relative to the open directory `fd`. Returns 0 or errno. */
int psti_sync_directory(int fd, const char *name);

#endif
