/* share_view.h - mappings through which a job reads and writes the extents of an arena. They are
 * kept for later batches.
 *
 * A view is a row of places, each of which shows one slot of the arena. A batch takes as many
 * neighbouring places as it has extents, so that the rows of each field follow one another in
 * memory. What the job writes there is private, and is dropped when no batch uses the place any
 * more. The place goes on showing its slot. So a batch whose slots have been neighbours before
 * needs no mapping and causes no page fault. */
#ifndef PST_SHARE_SHARE_VIEW_H
#define PST_SHARE_SHARE_VIEW_H

#include "share/share_stream_wire.h"

#include <stddef.h>

struct psti_share_view;

/* Neighbouring places that a batch uses. */
struct psti_share_view_run {
    struct psti_share_view *view;
    uint32_t first, n;     /* number of the first place, and how many */
    uint32_t skip, n_rows; /* rows of the first place that come before the batch; rows of the
                              batch */
};

/* True if views can show a field with rows of this length, that is, if the rows of an extent fill
 * whole pages. */
bool psti_share_view_shows(uint64_t row_nbytes, uint32_t extent_rows, size_t page);

/* Makes a view for an arena of that layout, for batches of at most `span` extents. Returns
 * NULL if no field's extents are whole pages, if such a field lies between pages, or if there is no
 * address space. */
struct psti_share_view *psti_share_view_open(const struct psti_stream_layout *layout,
                                             uint32_t span);
/* Releases the view, which is freed with its last run. NULL is allowed. */
void psti_share_view_release(struct psti_share_view *view);

/* Maps the slots of a batch to neighbouring places. skip: number of rows of the first slot that do
 * not belong to the batch. fd: descriptor of the arena, in which all given slots must have memory.
 * One thread at a time. False: no places are free, or mapping failed. */
bool psti_share_view_take(struct psti_share_view *view, int fd, const uint32_t *slots, uint32_t n,
                          uint32_t skip, uint32_t n_rows, struct psti_share_view_run *run);
/* Returns the batch's first row of a field that the view shows. It may be read and written. */
void *psti_share_view_rows(const struct psti_share_view_run *run, uint32_t i_field);
/* Ends the use of a run's places, and drops what the job wrote there. Any thread, once for each
 * run. */
void psti_share_view_leave(const struct psti_share_view_run *run);

/* Ways to find pages that were written, in order of preference: the kernel may lack the first ones.
 * Tests choose a way. */
enum psti_share_view_finds { PSTI_SHARE_VIEW_BY_PAGEMAP, PSTI_SHARE_VIEW_BY_NOTHING };
void psti_share_view_set_finds(struct psti_share_view *view, enum psti_share_view_finds finds);

#endif
