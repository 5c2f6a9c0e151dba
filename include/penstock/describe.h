/* describe.h - the members of the structs with a loader's options, for programs that make such
 * structs from names: bindings of other languages, readers of configuration files. */
#ifndef PENSTOCK_DESCRIBE_H
#define PENSTOCK_DESCRIBE_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The structs that pst_describe knows. */
enum pst_struct {
    PST_STRUCT_LOADER_OPTIONS = 1, /* struct pst_loader_options */
    PST_STRUCT_FIELD_OUTPUT = 2,   /* struct pst_field_output */
    PST_STRUCT_OP = 3,             /* struct pst_op */
    PST_STRUCT_AUDIO_OP = 4        /* struct pst_audio_op */
};

/* The types of members. */
enum pst_member_kind {
    PST_MEMBER_BOOL = 1,
    PST_MEMBER_UNSIGNED = 2, /* an unsigned integer of `nbytes` bytes */
    PST_MEMBER_SIGNED = 3,   /* a signed integer of `nbytes` bytes */
    PST_MEMBER_FLOAT = 4,    /* float or double, by `nbytes` */
    PST_MEMBER_ENUM = 5,     /* an enumerator, `high` is the last one */
    PST_MEMBER_POINTER = 6,  /* a text, an array, a handle or a function */
    PST_MEMBER_COUNT = 7     /* an unsigned integer: n_NAME says how many elements NAME has */
};

/* Each member decides about one of these. */
enum pst_member_use {
    PST_USE_LAYOUT = 1,  /* sizes of structs, and reserved bytes: not an option */
    PST_USE_ORDER = 2,   /* which samples come, and in which order */
    /* The rows of a sample: pixels and values. Jobs can share rows (pst_loader_options.share) if
     * their members of ORDER and ROWS are equal. */
    PST_USE_ROWS = 3,
    PST_USE_READING = 4, /* how bytes are read; rows are the same */
    PST_USE_JOB = 5      /* the job alone: batches, ranks, threads, memory, errors, devices */
};

/* A member of a struct. */
struct pst_member {
    const char *name; /* as in the header; a static string */
    enum pst_member_kind kind;
    enum pst_member_use use;
    uint32_t offset; /* in the struct, in bytes */
    uint32_t nbytes; /* of one element */
    uint32_t count;  /* elements: 1, or more for an array inside the struct */
    uint32_t reserved;
    /* The values that are possible by themselves; pst_loader_open checks which go together. Where
     * the type's range is the only limit, they are that range. 0 for pointers. */
    double low, high;
    /* The value that 0 stands for; 0: itself. */
    double zero_means;
};

/* Says what the struct's member number i is, in the order of the header.
 *
 * which: one of enum pst_struct.
 * i: from 0.
 * member: the caller's struct, written as a whole if the call succeeds.
 * member_nbytes: sizeof *member.
 *
 * PST_END: the struct has i members or less. PST_ERROR_ARGUMENT: `which` is not known. Any
 * thread. */
PST_WARN_UNUSED enum pst_status pst_describe(enum pst_struct which, size_t i,
                                             struct pst_member *member, size_t member_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
