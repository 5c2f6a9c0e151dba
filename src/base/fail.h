/* fail.h - fills struct pst_error. */
#ifndef PST_BASE_FAIL_H
#define PST_BASE_FAIL_H

#include <penstock/status.h>

#include <stdarg.h>
#include <stddef.h>

/* Fills `err` (if not NULL) with status, room and a formatted cause. Earlier contents are lost.
 * Returns `status`, so that a failing function can end with `return psti_fail(...)`. */
enum pst_status psti_fail(struct pst_error *err, enum pst_status status, const char *room,
                          const char *format, ...) PST_PRINTF(4, 5);

/* Does as psti_fail, and names a place in a file. `file` may be NULL, `offset` -1. */
enum pst_status psti_fail_at(struct pst_error *err, enum pst_status status, const char *room,
                             const char *file, int64_t offset, const char *format, ...)
    PST_PRINTF(6, 7);
/* Does the same; the arguments of the format come as a va_list. */
enum pst_status psti_fail_args(struct pst_error *err, enum pst_status status, const char *room,
                               const char *file, int64_t offset, const char *format, va_list args);

/* Does as psti_fail_at for a failed system call; `os_error` is its errno. The status follows from
 * it: ENOSPC, EDQUOT -> NO_SPACE; ENOMEM -> MEMORY; ENOENT, ENOTDIR -> NOT_FOUND; EEXIST -> EXISTS;
 * other -> IO. */
enum pst_status psti_fail_os(struct pst_error *err, int os_error, const char *room,
                             const char *file, int64_t offset, const char *format, ...)
    PST_PRINTF(6, 7);

/* These functions set one member of an error. `err` may be NULL. Of a text that is too long, the
 * end is kept. */
void psti_error_set_file(struct pst_error *err, const char *file);
void psti_error_set_dataset(struct pst_error *err, const char *dataset);
void psti_error_set_codec(struct pst_error *err, const char *codec);

/* A text of bounded length. It also counts the length that it would have without the bound, as
 * snprintf does. */
struct psti_text {
    char *buffer;
    size_t capacity, length;
};
void psti_text_add(struct psti_text *text, const char *format, ...) PST_PRINTF(2, 3);

#ifdef __clang_analyzer__
/* clang's analyser reads one file at a time. These macros tell it what the functions return. */
#define psti_fail(err, status, ...) (psti_fail(err, status, __VA_ARGS__), (status))
#define psti_fail_at(err, status, ...) (psti_fail_at(err, status, __VA_ARGS__), (status))
#define psti_fail_os(err, ...) (psti_fail_os(err, __VA_ARGS__), PST_ERROR_IO)
#endif

#endif
