/* status.h - statuses and errors: the cause, its place, and the data concerned.
 *
 * Every fallible function returns an `enum pst_status` and takes, as its last argument, an optional
 * `struct pst_error *` (NULL when no detail is wanted). On success the error is left untouched. No
 * function of Penstock prints, exits or aborts. PST_ERROR_MEMORY is possible wherever a function
 * opens, encodes or adds something. PST_ERROR_INTERNAL is a fault of the library.
 *
 * Pointers are not NULL unless the function says so. Strings are UTF-8 and end with a NUL. Numbers
 * that are called nbytes count bytes.
 *
 * Structs that may grow. The program and the library may have different versions, so each struct is
 * passed with its size:
 *
 * - A struct that the program fills (options, pst_sample) begins with size_t struct_size. Zero the
 *   struct, then set struct_size to its sizeof. Zero in any other member takes the default.
 * - An array of structs that the program fills comes with the size of one element, in a member
 *     named after the element: field_nbytes, op_nbytes, value_nbytes. Set it to the element's
 *     sizeof.
 * - The size of a struct that the library fills is the next argument: `&item, sizeof item`. Members
 *   that the library does not know become zero.
 *
 * A size of 0 is PST_ERROR_ARGUMENT. Bytes after the members that the library knows must be zero;
 * otherwise the program asks for something that this library cannot do, and the status is
 * PST_ERROR_VERSION. New members are added at the end, where zero keeps the older behaviour.
 *
 * These structs never change their size: pst_error, pst_field and pst_progress, which have reserved
 * members (zero; pst_writer_open refuses other values); pst_loader_state, pst_allocator,
 * pst_pixels, pst_pli_region, pst_pli_range, pst_plan_lp and pst_plan_lp_solution, which are
 * complete.
 *
 * Devices are numbered in one way: -1 is host memory, k is the GPU with CUDA ordinal k. In options
 * another member says whether a GPU is used at all (pst_loader_options.placement), so an all-zero
 * struct means host memory. */
#ifndef PENSTOCK_STATUS_H
#define PENSTOCK_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Lets compilers that support it warn about ignored results and about wrong arguments of a format.
 */
#if defined(__GNUC__)
#define PST_WARN_UNUSED __attribute__((warn_unused_result))
#define PST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PST_WARN_UNUSED
#define PST_PRINTF(fmt, args)
#endif

/* The list that the enumeration, the names and the texts are generated from. A number never changes
 * and is never reused. */
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

/* Result of a call. PST_OK (0) and PST_END are no errors; all other values are. pst_status_text
 * gives the meaning in words. */
enum pst_status {
#define PST_STATUS_ENUM(name, number, text) PST_##name = number,
    PST_STATUS_LIST(PST_STATUS_ENUM)
#undef PST_STATUS_ENUM
};

/* Sizes in bytes of the paths and of the text in struct pst_error, with the NUL. */
#define PST_ERROR_PATH_CAP 256
#define PST_ERROR_TEXT_CAP 512

/* The error of a call and where it happened. Unknown members hold a value that says so, so a
 * message can be made from the known members. It has no pointers: copy it freely. It needs no
 * initialisation: a failing function fills all of it, and a successful one leaves it alone. */
struct pst_error {
    enum pst_status status;
    /* errno of the failed system call, 0 if there was none. */
    int os_error;
    /* Sample number in the data set, or in the opened mixture; -1 unknown. */
    int64_t sample;
    /* Byte offset in `file`, -1 unknown. */
    int64_t offset;
    /* Name of the part of Penstock that reports the error: "decode", ... */
    char room[12];
    /* Codec: "jpeg", "png", ...; "" unknown. */
    char codec[16];
    /* Path of the data set; "" unknown. A path that is too long is cut at its start. */
    char dataset[PST_ERROR_PATH_CAP];
    /* File that was read or written; "" unknown. A path that is too long is cut at its start. */
    char file[PST_ERROR_PATH_CAP];
    /* The cause as a sentence without a full stop. */
    char text[PST_ERROR_TEXT_CAP];
    /* In a mixture: 1 + the sample's number in `dataset`, the source that it belongs to (`sample`
     * is its number in the mixture). 0: no mixture. */
    uint64_t source_sample_plus_1;
    /* Zero. Reserved for later versions. */
    uint64_t reserved[7];
};

/* Resets an error to "nothing known": status PST_OK, numbers -1 (os_error 0), texts "".
 *
 * err: NULL is allowed.
 *
 * Any thread. */
void pst_error_clear(struct pst_error *err);

/* Writes one line with all that is known: data set, sample, file, offset, codec, cause, system
 * error.
 *
 * err: an error that a function filled, or a cleared one.
 * buffer: receives UTF-8 and a NUL, cut to fit. May be NULL if capacity is 0.
 * capacity: bytes of buffer.
 *
 * Returns the length of the whole line in bytes without its NUL, as snprintf does. Any thread. */
size_t pst_error_format(const struct pst_error *err, char *buffer, size_t capacity);

/* Name of a status as the headers spell it: "PST_ERROR_IO".
 *
 * Returns a static string, "PST_UNKNOWN" for numbers outside the list. Any thread. */
const char *pst_status_name(enum pst_status status);

/* Meaning of a status in words: "input/output error".
 *
 * Returns a static string, "unknown status" for numbers outside the list. Any thread. */
const char *pst_status_text(enum pst_status status);

/* A function of the caller that can end a long call. The thread that runs the call calls it from
 * time to time; a result other than 0 ends the call with PST_ERROR_CANCELLED. */
typedef int (*pst_interrupt_fn)(void *ctx);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
