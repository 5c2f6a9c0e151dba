/* share_stream_wire.h - messages of sessions that share prepared batches (PSTI_SESSION_STREAM), and
 * the layout of the memory in which extents lie.
 *
 * An extent is the rows of `extent_rows` neighbouring positions, the first of which is a multiple
 * of it; the last extent of an epoch may be short. It lies in a slot of an arena, a sealed store
 * with slots of `stride` bytes: index and arrays first, as in a batch of extent_rows rows, with
 * each array at a page; at `own` a table of the rows that may differ in shape, then their values.
 * Pure functions that trust no byte. */
#ifndef PST_SHARE_SHARE_STREAM_WIRE_H
#define PST_SHARE_SHARE_STREAM_WIRE_H

#include "share/share_dataset_options.h"
#include "share/share_wire.h"

#include <penstock/loader.h>

enum psti_stream_message {
    PSTI_STREAM_OPEN = PSTI_MESSAGE_STREAM_FIRST, /* C: joins a group; fds: options, data set */
    PSTI_STREAM_OPENED,                           /* S: the answer */
    PSTI_STREAM_WANT,                             /* C: asks for a batch; gives extents back */
    PSTI_STREAM_READY,                            /* S: its extents; fds: arenas new to the job */
    PSTI_STREAM_ALONE,                            /* S: the job must prepare the batch itself */
    PSTI_STREAM_GIVE                              /* C: gives extents back; no answer */
};

enum {
    PSTI_GROUP_NAME_CAP = 128,
    PSTI_STREAM_ARENAS = 4,     /* streams of a group */
    PSTI_STREAM_EXTENTS = 1024, /* most extents of a message */
    PSTI_EXTENT_ROWS_MAX = 64
};

struct psti_stream_open {
    char name[PSTI_GROUP_NAME_CAP];
    uint32_t extent_rows; /* 1..PSTI_EXTENT_ROWS_MAX */
    uint32_t batch_size, world_size;
    uint32_t n_lent; /* cores that the job does not need while it shares */
};

struct psti_stream_field {
    uint64_t offset, row_nbytes; /* of the array in a slot; row_nbytes 0: there is none */
};
/* What the service has done for the group and its siblings (struct psti_shelf_counts). */
struct psti_stream_counts {
    uint64_t n_decoded, n_decoded_shared, n_apart;
    uint64_t n_read, nbytes_read, n_read_shared, nbytes_read_shared;
    uint64_t n_cached, n_given_up;
};
struct psti_stream_layout {
    uint32_t extent_rows;
    uint32_t n_slots; /* of each arena */
    uint32_t n_fields;
    uint32_t hold_max;      /* most extents that this job may keep */
    uint64_t stride, own;   /* bytes of a slot; offset of its table of own rows */
    uint64_t n_positions;   /* of an epoch */
    uint64_t group_epoch;   /* newest begun by a job of the group or a sibling; UINT64_MAX: none */
    uint64_t group_samples; /* samples that the service has prepared for the group so far */
    struct psti_stream_counts counts;
    struct psti_stream_field fields[PST_MAX_FIELDS];
};

/* An entry of the table of own rows: [fields that may differ][extent_rows]. */
struct psti_extent_row {
    uint64_t offset; /* of the row's value in the slot */
    uint32_t ndim, zero;
    int64_t shape[PST_MAX_NDIM];
};

/* WANT and GIVE. */
struct psti_stream_want {
    uint64_t epoch, first, end; /* positions of the batch, and where the job's epoch ends */
    uint32_t n_rows, step_rows; /* of the batch, and of all ranks' batches of a step */
    uint32_t leaves;            /* GIVE: 1: the job is between two epochs */
    uint32_t n_given;
    uint64_t given[PSTI_STREAM_EXTENTS]; /* numbers of extents */
};

struct psti_stream_extent {
    uint64_t number;      /* never used again in a group */
    uint32_t arena, slot; /* arena: below PSTI_STREAM_ARENAS */
    uint32_t n_rows;
    uint64_t own_nbytes; /* bytes of rows of own shape, with their table */
};
struct psti_stream_ready {
    uint64_t group_epoch, group_samples;
    struct psti_stream_counts counts;
    uint32_t n_arenas; /* new ones; the message has a descriptor for each */
    uint32_t arenas[PSTI_STREAM_ARENAS];
    uint32_t n_extents;
    struct psti_stream_extent extents[PSTI_STREAM_EXTENTS];
};

/* Reasons of PSTI_STREAM_ALONE. */
enum psti_stream_alone {
    PSTI_ALONE_SAMPLE = 1, /* this batch alone: an extent has a bad sample or values too large */
    PSTI_ALONE_BEHIND = 2, /* till the end of the epoch: the other jobs are far ahead */
    PSTI_ALONE_FULL = 3,   /* till the end of the epoch: no stream is free, or no memory */
    PSTI_ALONE_FAILED = 4  /* till the end of the epoch: preparing failed */
};

/* The data set follows (psti_share_put_dataset). */
void psti_share_put_open(struct psti_wire_out *out, const struct psti_stream_open *open);
enum pst_status psti_share_get_open(struct psti_wire_in *in, struct psti_stream_open *open,
                                    struct psti_share_dataset *dataset, struct pst_error *err);
void psti_share_put_layout(struct psti_wire_out *out, const struct psti_stream_layout *layout);
enum pst_status psti_share_get_layout(struct psti_wire_in *in, struct psti_stream_layout *layout,
                                      struct pst_error *err);
void psti_share_put_want(struct psti_wire_out *out, const struct psti_stream_want *want);
enum pst_status psti_share_get_want(struct psti_wire_in *in, struct psti_stream_want *want,
                                    struct pst_error *err);
void psti_share_put_ready(struct psti_wire_out *out, const struct psti_stream_ready *ready);
/* Checks the numbers of arenas and slots, and n_rows, against the layout. */
enum pst_status psti_share_get_ready(struct psti_wire_in *in,
                                     const struct psti_stream_layout *layout,
                                     struct psti_stream_ready *ready, struct pst_error *err);
void psti_share_put_alone(struct psti_wire_out *out, enum psti_stream_alone reason);
enum pst_status psti_share_get_alone(struct psti_wire_in *in, enum psti_stream_alone *reason,
                                     struct pst_error *err);

/* Rows of an extent, for rows of these sizes: the smallest power of two from 8 to
 * PSTI_EXTENT_ROWS_MAX that makes each array of a page and more whole pages; fewer if that is more
 * than 16 MiB. Arrays for which there is none are copied by jobs. */
uint32_t psti_share_extent_rows(const size_t *row_nbytes, uint32_t n_fields, size_t page);

#endif
