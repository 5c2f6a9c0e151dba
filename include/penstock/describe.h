/* describe.h - lists the members of all structs of options, for programs that fill such structs by
 * name: bindings of other languages, readers of configuration files. */
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
 * on images and on sound), and the option structs of all other calls. Numbers are stable. */
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

/* The C types of members. */
enum pst_member_kind {
    PST_MEMBER_BOOL = 1,
    PST_MEMBER_UNSIGNED = 2, /* an unsigned integer of `nbytes` bytes */
    PST_MEMBER_SIGNED = 3,   /* a signed integer of `nbytes` bytes */
    PST_MEMBER_FLOAT = 4,    /* float or double, as `nbytes` says */
    PST_MEMBER_ENUM = 5,     /* an enumerator; pst_member.high is the largest */
    PST_MEMBER_POINTER = 6,  /* pointer to a text, array, handle or function */
    PST_MEMBER_COUNT = 7     /* an unsigned integer: n_NAME is the length of array NAME */
};

/* The results that a member affects. In structs that do not belong to a loader, ORDER means which
 * samples a call handles, ROWS how they are decoded or stored, and JOB everything else: where
 * results go, threads, memory, functions of the caller. */
enum pst_member_use {
    PST_USE_LAYOUT = 1, /* sizes of structs and reserved bytes: no option */
    PST_USE_ORDER = 2,  /* which samples are delivered, in which order */
    /* The contents of a sample's row: pixels and values, decoded or stored. Jobs can share prepared
     * rows (pst_loader_options.share) if the ORDER and ROWS members of their loaders are equal. */
    PST_USE_ROWS = 3,
    PST_USE_READING = 4, /* how bytes are read, which does not change the rows */
    PST_USE_JOB = 5      /* only this job: batches, ranks, threads, memory, errors, devices */
};

/* Describes one member of a struct of options. */
struct pst_member {
    const char *name; /* as in the header; a static string */
    enum pst_member_kind kind;
    enum pst_member_use use;
    uint32_t offset; /* in bytes from the start of the struct */
    uint32_t nbytes; /* bytes of one element */
    uint32_t count;  /* number of elements: 1, or the length of an array */
    uint32_t reserved;
    /* Range of values that are valid whatever the other members are. If `zero_means` is not 0, 0 is
     * valid too. The call itself checks combinations of members. A member that only its C type
     * limits has the range of that type. Both are 0 for pointers. */
    double low, high;
    /* The default that a value of 0 stands for; 0: the value 0 means itself. */
    double zero_means;
};

/* Describes member number i of a struct, counted in the order of the header.
 *
 * A binding calls this for i = 0, 1, ... until PST_END. Then it sets each member that the program
 * names: `count` elements of `nbytes` bytes each at `offset`, in the byte order of the machine. All
 * other members stay 0. An array has two members: a POINTER, and a COUNT whose name has n_ in
 * front. The binding must keep arrays and texts alive as long as the header says. It need not check
 * ranges, because the call that takes the struct gives PST_ERROR_ARGUMENT for values outside of
 * `low` and `high`; it may check them to name its own argument.
 *
 * which: one of enum pst_struct.
 * i: number of the member, from 0.
 * member: the caller's struct, written as a whole after success.
 * member_nbytes: sizeof *member.
 *
 * PST_END: the struct has no member number i. PST_ERROR_ARGUMENT: `which` is unknown. Any thread.
 */
PST_WARN_UNUSED enum pst_status pst_describe(enum pst_struct which, size_t i,
                                             struct pst_member *member, size_t member_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
