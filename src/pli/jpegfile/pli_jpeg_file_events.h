/* pli_jpeg_file_events.h - inside the reader and writer of JPEG files: events, which record what a
 * writer cannot know from the coefficients (docs/format-pli.md, section 10.2). */
#ifndef PST_PLI_JPEG_FILE_EVENTS_H
#define PST_PLI_JPEG_FILE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psti_jpeg_unpacker;

/* Codes of events. */
enum {
    PSTI_JPEG_EVENT_RUN = 0,   /* at this block the run of blocks without coefficients (EOB run)
                                * ends or continues against the rule */
    PSTI_JPEG_EVENT_ZEROS = 1, /* codes 1..4: this many codes of 16 zeros end the block */
    PSTI_JPEG_ZEROS_MAX = 4,
    /* FILL + n, n = 1..63: n bytes 0xFF precede the restart marker */
    PSTI_JPEG_EVENT_FILL = 0x40,
    PSTI_JPEG_FILL_MAX = 63,
    PSTI_JPEG_EVENT_PADDING = 0x80 /* PADDING + n, n = 0..127: n is the padding bits, if these are
                                    * not the usual ones */
};

/* The events of a file as `extra` holds them: positions and codes PSTI_JPEG_EVENT_... */
struct psti_jpeg_events {
    uint8_t *bytes;
    size_t nbytes, capacity;
    uint64_t position; /* position of the last event that was added */
};

/* Adds an event. Returns false if there is no space for it, or if its position is too far from the
 * last one. */
bool psti_pli_jpeg_add_event(struct psti_jpeg_events *events, uint64_t position, uint8_t code);

/* The next event of the restoration. `position` is UINT64_MAX after the last event. */
struct psti_jpeg_event {
    uint64_t position;
    uint8_t code;
};

/* Reads the event after *event and adds its distance to the position. Returns false if the
 * restoration ends within the event. */
bool psti_pli_jpeg_read_event(struct psti_jpeg_unpacker *unpacker, struct psti_jpeg_event *event);

#endif
