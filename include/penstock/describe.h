/* describe.h - the members of all structs with options, for programs that make such structs from
 * names: bindings of other languages, readers of configuration files. */
#ifndef PENSTOCK_DESCRIBE_H
#define PENSTOCK_DESCRIBE_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The structs that pst_describe knows: those of a loader (its options, an output field, operations
 * on images and on sound), and the options of every other call that takes some. Numbers are
 * stable. */
enum pst_struct {
    PST_STRUCT_LOADER_OPTIONS = 1,         /* struct pst_loader_options */
    PST_STRUCT_FIELD_OUTPUT = 2,           /* struct pst_field_output */
    PST_STRUCT_OP = 3,                     /* struct pst_op */
    PST_STRUCT_AUDIO_OP = 4,               /* struct pst_audio_op */
    PST_STRUCT_CACHE_OPTIONS = 5,          /* struct pst_cache_options */
    PST_STRUCT_CACHE_HOST_OPTIONS = 6,     /* struct pst_cache_host_options */
    PST_STRUCT_DATASET_OPTIONS = 7,        /* struct pst_dataset_options */
    PST_STRUCT_FLEET_OPTIONS = 8,          /* struct pst_fleet_options */
    PST_STRUCT_DECODE_OPTIONS = 9,         /* struct pst_decode_options */
    PST_STRUCT_IMAGES_OPTIONS = 10,        /* struct pst_images_options */
    PST_STRUCT_PLI_ENCODE_OPTIONS = 11,    /* struct pst_pli_encode_options */
    PST_STRUCT_PLI_FROM_JPEG_OPTIONS = 12, /* struct pst_pli_from_jpeg_options */
    PST_STRUCT_SERVICE_OPTIONS = 13,       /* struct pst_service_options */
    PST_STRUCT_WRITER_OPTIONS = 14,        /* struct pst_writer_options */
    PST_STRUCT_PACK_OPTIONS = 15,          /* struct pst_pack_options */
    PST_STRUCT_VERIFY_OPTIONS = 16,        /* struct pst_verify_options */
    PST_STRUCT_INDEX_OPTIONS = 17,         /* struct pst_index_options */
    PST_STRUCT_MIXTURE_OPTIONS = 18        /* struct pst_mixture_options */
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

/* Each member decides about one of these. In structs that are no loader's, ORDER says which samples
 * a call has, ROWS how they are decoded or stored, and JOB all else: where results go, threads,
 * memory, functions of the caller. */
enum pst_member_use {
    PST_USE_LAYOUT = 1, /* sizes of structs, and reserved bytes: not an option */
    PST_USE_ORDER = 2,  /* which samples come, and in which order */
    /* The rows of a sample: pixels and values, decoded or stored. Jobs can share rows
     * (pst_loader_options.share) if their loaders' members of ORDER and ROWS are equal. */
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
    /* The range of values that are valid whatever other members say. 0 is valid, too, where
     * `zero_means` is not 0. The call checks which values go together. Where the type is the only
     * limit, the range is that of the type. Both are 0 for pointers. */
    double low, high;
    /* The value that 0 stands for; 0: itself. */
    double zero_means;
};

/* Says what the struct's member number i is, in the order of the header.
 *
 * A binding asks for i = 0, 1, ... until PST_END, and then sets the members that a program names:
 * the bytes at `offset`, of `count` elements of `nbytes` bytes each, in the byte order of the
 * machine. Members that are not named stay 0. An array has two members: a POINTER, and a COUNT of
 * the same name with n_ in front of it. The binding keeps the array, and every text, as long as the
 * header says for the member. Values outside of `low` and `high` are PST_ERROR_ARGUMENT in the call
 * that takes the struct, so a binding need not check them; it may do so to name its own argument.
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
