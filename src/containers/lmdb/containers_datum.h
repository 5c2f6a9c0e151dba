/* containers_datum.h - the message Datum of Caffe (caffe.proto) in a value of LMDB: a picture as
 * numbers of channels, rows and columns, or as a file, and a label. */
#ifndef PST_CONTAINERS_LMDB_CONTAINERS_DATUM_H
#define PST_CONTAINERS_LMDB_CONTAINERS_DATUM_H

#include "containers/containers_window.h"

enum psti_datum_kind {
    PSTI_DATUM_NONE = 0,   /* the bytes are no Datum */
    PSTI_DATUM_IMAGE = 1,  /* `data` is a file of an image */
    PSTI_DATUM_PIXELS = 2, /* u8 (C,H,W); Caffe's own tools write blue, green, red */
    PSTI_DATUM_FLOATS = 3, /* f32 (C,H,W) */
    PSTI_DATUM_APART = 4,  /* f32 that do not lie in one piece */
};

struct psti_datum {
    enum psti_datum_kind kind;
    uint32_t shape[3];       /* channels, height, width; not of an image */
    uint64_t offset, nbytes; /* of the image or the numbers, in the file */
    int64_t label;           /* 0 if it is not stated, as protobuf says */
};

/* Parses a value of `nbytes` at `offset`, which lies in the window's file. Content is passed over.
 * A value is a Datum if it is one to its last byte, and if its shape fits its numbers. */
enum pst_status psti_containers_datum_read(struct psti_window *window, uint64_t offset,
                                           uint64_t nbytes, struct psti_datum *datum,
                                           struct pst_error *err);

#endif
