/* fail.h - functions that fill struct pst_error. */
#ifndef PST_BASE_FAIL_H
#define PST_BASE_FAIL_H

#include <penstock/status.h>

#include <stdarg.h>
#include <stddef.h>

/* Fills `err`, if it is not NULL, with a status, the name of the module (`room`) and a formatted
 * cause. Earlier contents are lost. Returns `status`, so a failing function can end with `return
 * psti_fail(...)`. */
enum pst_status psti_fail(struct pst_error *err, enum pst_status status, const char *room,
                          const char *format, ...) PST_PRINTF(4, 5);

/* Does what psti_fail does, and also names a file and a byte offset in it. `file` may be NULL;
 * `offset` is -1 if unknown. */
enum pst_status psti_fail_at(struct pst_error *err, enum pst_status status, const char *room,
                             const char *file, int64_t offset, const char *format, ...)
    PST_PRINTF(6, 7);
/* Does what psti_fail_at does. The arguments of the format are a va_list. */
enum pst_status psti_fail_args(struct pst_error *err, enum pst_status status, const char *room,
                               const char *file, int64_t offset, const char *format, va_list args);

/* Does what psti_fail_at does, for a failed system call with the errno `os_error`. The status is
 * derived from it: ENOSPC, EDQUOT -> NO_SPACE; ENOMEM -> MEMORY; ENOENT, ENOTDIR -> NOT_FOUND;
 * EEXIST -> EXISTS; other -> IO. */
enum pst_status psti_fail_os(struct pst_error *err, int os_error, const char *room,
                             const char *file, int64_t offset, const char *format, ...)
    PST_PRINTF(6, 7);

/* Each function sets one member of an error. `err` may be NULL. If a text is too long, its end is
 * kept. */
void psti_error_set_file(struct pst_error *err, const char *file);
void psti_error_set_dataset(struct pst_error *err, const char *dataset);
void psti_error_set_codec(struct pst_error *err, const char *codec);

/* A text buffer of fixed size. Like snprintf, it also counts the length that the text would have
 * without the limit. */
struct psti_text {
    char *buffer;
    size_t capacity, length;
};
void psti_text_add(struct psti_text *text, const char *format, ...) PST_PRINTF(2, 3);

#ifdef __clang_analyzer__
/* clang's analyser reads one file at a time and cannot see what these functions return. These
 * macros tell it. */
#define psti_fail(err, status, ...) (psti_fail(err, status, __VA_ARGS__), (status))
#define psti_fail_at(err, status, ...) (psti_fail_at(err, status, __VA_ARGS__), (status))
#define psti_fail_os(err, ...) (psti_fail_os(err, __VA_ARGS__), PST_ERROR_IO)
#endif

#endif
