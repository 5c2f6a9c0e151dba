/* containers_record_int.h - the layout of a walk's record, for its writer and its reader. */
#ifndef PST_CONTAINERS_RECORD_CONTAINERS_RECORD_INT_H
#define PST_CONTAINERS_RECORD_CONTAINERS_RECORD_INT_H

#include "containers/record/containers_record.h"

enum {
    PSTI_RECORD_VERSION = 1,
    PSTI_RECORD_HEADER_NBYTES = 128,
    /* Maximum number of bytes of an event: a sample of PSTI_SAMPLE_PARTS_MAX members with their
     * first bytes, or a column with its class names. */
    PSTI_RECORD_EVENT_MAX = 1 << 28,
};
#define PSTI_RECORD_MAGIC "PSTWALK\n"

/* Kinds of events. An event begins with a u32, the number of bytes behind the kind, and the kind as
 * u8. */
enum psti_walk_record_event {
    PSTI_RECORD_SAMPLE = 1,
    PSTI_RECORD_FILE = 2,
    PSTI_RECORD_COLUMN = 3,
    PSTI_RECORD_EMPTY = 4,
    PSTI_RECORD_LEFT_OUT = 5,
    PSTI_RECORD_NOTE_ROWS = 6,
    PSTI_RECORD_PAGE = 7,
    PSTI_RECORD_ROW = 8,
    PSTI_RECORD_SUMS = 9, /* an event with the checksums of the sample or row that follows */
};
enum { PSTI_RECORD_EVENT_NBYTES = 5, PSTI_RECORD_SUM_NBYTES = 33 };

/* Flags of the header. */
enum { PSTI_RECORD_HAS_SUMS = 1, PSTI_RECORD_HAS_NO_END = 2 };

/* Offsets in the header. */
enum {
    PSTI_RECORD_AT_VERSION = 8,
    PSTI_RECORD_AT_KIND = 12,
    PSTI_RECORD_AT_KEY = 16,
    PSTI_RECORD_AT_PATH = 32,
    PSTI_RECORD_AT_FILE = 40,
    PSTI_RECORD_AT_STAMP = 48,
    PSTI_RECORD_AT_SAMPLED = 56,
    PSTI_RECORD_AT_SAMPLES = 64,
    PSTI_RECORD_AT_NBYTES = 72,   /* bytes of all events */
    PSTI_RECORD_AT_CHECKSUM = 80, /* checksum of all events */
    PSTI_RECORD_AT_FLAGS = 88,
    PSTI_RECORD_AT_GIVEN = 96, /* number of samples or rows in the events */
    PSTI_RECORD_AT_SUM = 120,  /* XXH3 of the header's bytes before this one */
};

#endif
