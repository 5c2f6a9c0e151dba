/* writer_file.h - files that only grow, as the writer uses them: one large buffer, explicit flush
 * and sync. */
#ifndef PST_PACK_WRITER_FILE_H
#define PST_PACK_WRITER_FILE_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stdint.h>

struct psti_writer_file {
    int fd;          /* -1: closed */
    uint64_t offset; /* where the buffer's first byte goes */
    uint8_t *buffer;
    size_t n, capacity;
    char *path;
};

/* Opens `path` for writing from `offset` on; `create`: makes it anew, empty. */
enum pst_status psti_writer_file_open(struct psti_writer_file *file, const char *path, bool create,
                                      uint64_t offset, size_t capacity, struct pst_error *err);
enum pst_status psti_writer_file_append(struct psti_writer_file *file, const void *bytes,
                                        size_t nbytes, struct pst_error *err);
enum pst_status psti_writer_file_flush(struct psti_writer_file *file, struct pst_error *err);
/* Flush and fsync. */
enum pst_status psti_writer_file_sync(struct psti_writer_file *file, struct pst_error *err);
/* Overwrites bytes that were flushed already. */
enum pst_status psti_writer_file_patch(struct psti_writer_file *file, uint64_t offset,
                                       const void *bytes, size_t nbytes, struct pst_error *err);
/* Drops what is still buffered. The structure may be all zero but for fd -1. */
void psti_writer_file_close(struct psti_writer_file *file);

/* Changes of directories and lengths; each is one step at which a disk may be full or a process may
 * end. */
enum pst_status psti_writer_sync_directory(const char *path, struct pst_error *err);
enum pst_status psti_writer_make_directory(const char *path, struct pst_error *err);
enum pst_status psti_writer_rename(const char *from, const char *to, struct pst_error *err);
enum pst_status psti_writer_unlink(const char *path,
                                   struct pst_error *err); /* absent already: PST_OK */
enum pst_status psti_writer_truncate(const char *path, uint64_t nbytes, struct pst_error *err);

/* Takes the lock file at `path`: PST_ERROR_BUSY if another process or handle has it. The file is
 * removed by unlock. */
enum pst_status psti_writer_lock(const char *path, int *fd, struct pst_error *err);
void psti_writer_unlock(const char *path, int *fd);

#endif
