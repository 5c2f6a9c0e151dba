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
    PSTI_STREAM_READY,                            /* S: extents of the batch; fds: arenas that
                                                     the job does not have */
    PSTI_STREAM_ALONE,                            /* S: the job must prepare the batch itself */
    PSTI_STREAM_GIVE                              /* C: gives extents back; no answer */
};

enum {
    PSTI_GROUP_NAME_CAP = 128,
    PSTI_STREAM_ARENAS = 4,     /* maximum number of streams (series of extents of one epoch) of a
                                   group */
    PSTI_STREAM_EXTENTS = 1024, /* maximum number of extents in a message */
    PSTI_EXTENT_ROWS_MAX = 64
};

struct psti_stream_open {
    char name[PSTI_GROUP_NAME_CAP];
    uint32_t extent_rows; /* 1..PSTI_EXTENT_ROWS_MAX */
    uint32_t batch_size, world_size;
    uint32_t n_lent; /* cores that the job lends the service while it shares */
};

struct psti_stream_field {
    uint64_t offset, row_nbytes; /* offset of the field's array in a slot, and length of its rows;
                                    row_nbytes 0: there is no array */
};
/* Work that the service has done for the group and its siblings (struct psti_shelf_counts). */
struct psti_stream_counts {
    uint64_t n_decoded, n_decoded_shared, n_apart;
    uint64_t n_read, nbytes_read, n_read_shared, nbytes_read_shared;
    uint64_t n_cached, n_given_up;
};
struct psti_stream_layout {
    uint32_t extent_rows;
    uint32_t n_slots; /* number of slots of each arena */
    uint32_t n_fields;
    uint32_t hold_max;      /* maximum number of extents that this job may keep */
    uint64_t stride, own;   /* length of a slot, and offset in it of the table of own rows (rows
                               that may differ in shape) */
    uint64_t n_positions;   /* number of positions in an epoch */
    uint64_t group_epoch;   /* newest epoch that a job of the group or a sibling has begun;
                               UINT64_MAX: none */
    uint64_t group_samples; /* samples that the service has prepared for the group so far */
    struct psti_stream_counts counts;
    struct psti_stream_field fields[PST_MAX_FIELDS];
};

/* An entry of the table of own rows, which has the shape [fields that may differ][extent_rows]. */
struct psti_extent_row {
    uint64_t offset; /* offset of the row's value in the slot */
    uint32_t ndim, zero;
    int64_t shape[PST_MAX_NDIM];
};

/* The body of WANT and GIVE. */
struct psti_stream_want {
    uint64_t epoch, first, end; /* `first`: first position of the batch; `end`: where the job's
                                   epoch ends */
    uint32_t n_rows, step_rows; /* rows of the batch, and rows of all ranks' batches in a step */
    uint32_t leaves;            /* in GIVE: 1 if the job has left its epoch and not begun another */
    uint32_t n_given;
    uint64_t given[PSTI_STREAM_EXTENTS]; /* numbers of the extents given back */
};

struct psti_stream_extent {
    uint64_t number;      /* number of the extent, unique in the group */
    uint32_t arena, slot; /* the slot of this arena holds the extent; arena: below
                             PSTI_STREAM_ARENAS */
    uint32_t n_rows;
    uint64_t own_nbytes; /* length of the own rows (rows that may differ in shape), with their
                            table */
};
struct psti_stream_ready {
    uint64_t group_epoch, group_samples;
    struct psti_stream_counts counts;
    uint32_t n_arenas; /* number of new arenas; the message has a descriptor for each */
    uint32_t arenas[PSTI_STREAM_ARENAS];
    uint32_t n_extents;
    struct psti_stream_extent extents[PSTI_STREAM_EXTENTS];
};

/* The reason why a job must prepare batches itself. */
enum psti_stream_alone {
    PSTI_ALONE_SAMPLE = 1, /* this batch only: an extent has a bad sample or too large values */
    PSTI_ALONE_BEHIND = 2, /* until the end of the epoch: the other jobs are far ahead */
    PSTI_ALONE_FULL = 3,   /* until the end of the epoch: no stream or no memory is free */
    PSTI_ALONE_FAILED = 4  /* until the end of the epoch: preparing failed */
};

/* Writes the message. The data set must be written after it (psti_share_put_dataset). */
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
/* Reads the message, and checks the numbers of arenas and slots, and n_rows, against the layout. */
enum pst_status psti_share_get_ready(struct psti_wire_in *in,
                                     const struct psti_stream_layout *layout,
                                     struct psti_stream_ready *ready, struct pst_error *err);
void psti_share_put_alone(struct psti_wire_out *out, enum psti_stream_alone reason);
enum pst_status psti_share_get_alone(struct psti_wire_in *in, enum psti_stream_alone *reason,
                                     struct pst_error *err);

/* Returns how many rows an extent has, for fields with rows of these sizes: the smallest power of
 * two from 8 to PSTI_EXTENT_ROWS_MAX with which each array, if its rows have at least a page, fills
 * whole pages; fewer if that takes more than 16 MiB. Jobs copy arrays that fill no whole pages. */
uint32_t psti_share_extent_rows(const size_t *row_nbytes, uint32_t n_fields, size_t page);

#endif
