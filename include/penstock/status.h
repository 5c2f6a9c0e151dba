/* status.h - what went wrong, where, and in whose data.
 *
 * Every fallible function returns an `enum pst_status` and takes, as its last argument, an optional
 * `struct pst_error *` (NULL when no detail is wanted). On success the error is left untouched. No
 * function of Penstock prints, exits or aborts. */
#ifndef PENSTOCK_STATUS_H
#define PENSTOCK_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#if defined(__GNUC__)
#define PST_WARN_UNUSED __attribute__((warn_unused_result))
#define PST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PST_WARN_UNUSED
#define PST_PRINTF(fmt, args)
#endif

/* The one list from which the enumeration, the names and the texts are made. Numbers are pinned:
 * they never change and are never used again for something else. */
#define PST_STATUS_LIST(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(END, 1, "no more items")                                                                     \
    X(ERROR_ARGUMENT, 2, "invalid argument")                                                       \
    X(ERROR_MEMORY, 3, "out of memory")                                                            \
    X(ERROR_LIMIT, 4, "a stated limit would be exceeded")                                          \
    X(ERROR_STATE, 5, "not possible in this state")                                                \
    X(ERROR_NOT_FOUND, 6, "not found")                                                             \
    X(ERROR_EXISTS, 7, "exists already")                                                           \
    X(ERROR_BUSY, 8, "in use by another writer")                                                   \
    X(ERROR_IO, 9, "input/output error")                                                           \
    X(ERROR_NO_SPACE, 10, "no space left on the device")                                           \
    X(ERROR_CORRUPT, 11, "data is corrupt")                                                        \
    X(ERROR_TRUNCATED, 12, "data ends too early")                                                  \
    X(ERROR_CHECKSUM, 13, "checksum does not match")                                               \
    X(ERROR_VERSION, 14, "written by a newer version")                                             \
    X(ERROR_UNSUPPORTED, 15, "not supported")                                                      \
    X(ERROR_INCOMPLETE, 16, "the data set is unfinished and can be resumed")                       \
    X(ERROR_CANCELLED, 17, "cancelled")                                                            \
    X(ERROR_FORKED, 18, "used in a forked child of the process that made it")                      \
    X(ERROR_INTERNAL, 19, "internal error")                                                        \
    X(ERROR_DEVICE, 20, "the accelerator or its driver failed")

enum pst_status {
#define PST_STATUS_ENUM(name, number, text) PST_##name = number,
    PST_STATUS_LIST(PST_STATUS_ENUM)
#undef PST_STATUS_ENUM
};

#define PST_ERROR_PATH_CAP 256
#define PST_ERROR_TEXT_CAP 512

/* Where something went wrong. Fields that are not known hold their "unknown" value, so that a
 * message can be put together from the known ones alone. Plain data: copy it freely. */
struct pst_error {
    enum pst_status status;
    int os_error;                     /* errno of the failed system call, 0 if there was none */
    int64_t sample;                   /* sample number in the data set, -1 unknown */
    int64_t offset;                   /* byte offset in `file`, -1 unknown */
    char room[12];                    /* the part of Penstock that noticed: "decode", ... */
    char codec[16];                   /* "jpeg", "png", ...; "" unknown */
    char dataset[PST_ERROR_PATH_CAP]; /* path of the data set; "" unknown; a long one keeps its end
                                       */
    char file[PST_ERROR_PATH_CAP]; /* file read or written; "" unknown; a long one keeps its end */
    char text[PST_ERROR_TEXT_CAP]; /* the cause, in a sentence without a full stop */
    uint64_t reserved[8];          /* zero: room for members of later versions */
};

/* Resets `err` to "nothing known" (status PST_OK, numbers -1, texts empty). NULL is allowed. */
void pst_error_clear(struct pst_error *err);

/* Writes one line that names everything known (data set, sample, file, offset, codec, cause, system
 * error) into `buffer` of `capacity` bytes, always terminated when capacity > 0. Returns the length
 * the whole line has, as snprintf does. Thread-safe. */
size_t pst_error_format(const struct pst_error *err, char *buffer, size_t capacity);

/* "PST_ERROR_IO" and "input/output error" for PST_ERROR_IO; "PST_UNKNOWN", "unknown status" for
 * numbers outside the list. The strings are static. */
const char *pst_status_name(enum pst_status status);
const char *pst_status_text(enum pst_status status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
