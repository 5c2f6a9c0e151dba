/* share_view.h - where a job sees the extents of an arena: mappings of its own that stay.
 *
 * A view is a row of places, each of which shows one slot of the arena. A batch takes as many
 * neighbouring places as it has extents, so that the rows of each field follow one another. What
 * the job writes there stays its own, and is forgotten when no batch uses the place any more. A
 * place keeps showing its slot: a batch whose slots have been neighbours before costs no mapping
 * and no page fault. */
#ifndef PST_SHARE_SHARE_VIEW_H
#define PST_SHARE_SHARE_VIEW_H

#include "share/share_stream_wire.h"

#include <stddef.h>

struct psti_share_view;

/* Neighbouring places that a batch uses. */
struct psti_share_view_run {
    struct psti_share_view *view;
    uint32_t first, n;     /* places */
    uint32_t skip, n_rows; /* rows before those of the batch; rows of the batch */
};

/* True if the rows of a field are seen in views: if extents of them are whole pages. */
bool psti_share_view_shows(uint64_t row_nbytes, uint32_t extent_rows, size_t page);

/* Makes a view for an arena of that layout, for batches of at most `span` extents. Returns
 * NULL if no field's extents are whole pages, or if there is no address space. */
struct psti_share_view *psti_share_view_open(const struct psti_stream_layout *layout,
                                             uint32_t span);
/* NULL is allowed. It lasts as long as its runs. */
void psti_share_view_release(struct psti_share_view *view);

/* Shows the slots of a batch: `skip` rows of the first one are not the batch's. One thread at a
 * time. False: there are no places, or no mapping. `fd` is the arena's, all of whose slots here
 * have their memory. */
bool psti_share_view_take(struct psti_share_view *view, int fd, const uint32_t *slots, uint32_t n,
                          uint32_t skip, uint32_t n_rows, struct psti_share_view_run *run);
/* The batch's first row of a field that is shown, which may be read and written. */
void *psti_share_view_rows(const struct psti_share_view_run *run, uint32_t i_field);
/* The batch is done with: forgets what was written. Any thread, once for each run. */
void psti_share_view_leave(const struct psti_share_view_run *run);

/* Ways to find pages that were written, each of which is used if the one before is not there.
 * Tests choose one. */
enum psti_share_view_finds { PSTI_SHARE_VIEW_BY_PAGEMAP, PSTI_SHARE_VIEW_BY_NOTHING };
void psti_share_view_set_finds(struct psti_share_view *view, enum psti_share_view_finds finds);

#endif
