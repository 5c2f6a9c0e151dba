/* containers_datum.h - parses Caffe's message Datum (caffe.proto) in a value of an LMDB: a label,
 * and a picture as an encoded file or as numbers by channel, row and column. */
#ifndef PST_CONTAINERS_LMDB_CONTAINERS_DATUM_H
#define PST_CONTAINERS_LMDB_CONTAINERS_DATUM_H

#include "containers/containers_window.h"

enum psti_datum_kind {
    PSTI_DATUM_NONE = 0,   /* the bytes are no Datum */
    PSTI_DATUM_IMAGE = 1,  /* `data` is an encoded image file */
    PSTI_DATUM_PIXELS = 2, /* u8 pixels (C,H,W); Caffe's own tools write blue, green, red */
    PSTI_DATUM_FLOATS = 3, /* f32 (C,H,W) */
    PSTI_DATUM_APART = 4,  /* f32 numbers that are unpacked, so they are not contiguous */
};

struct psti_datum {
    enum psti_datum_kind kind;
    uint32_t shape[3];       /* channels, height, width; not set for PSTI_DATUM_IMAGE */
    uint64_t offset, nbytes; /* location in the file of the image or the numbers */
    int64_t label;           /* 0 if the message does not state it, as protobuf requires */
};

/* Parses a value of `nbytes` bytes at `offset` of the window's file. Pixels and images are skipped,
 * not read. The value is a Datum only if all its bytes parse as one and its shape fits its
 * numbers. */
enum pst_status psti_containers_datum_read(struct psti_window *window, uint64_t offset,
                                           uint64_t nbytes, struct psti_datum *datum,
                                           struct pst_error *err);

#endif
