/* share_view.c - private mappings of an arena's slots, which last from batch to batch.
 *
 * Mapping the 9,400 pages of a batch of 64 float images, and unmapping them, takes milliseconds;
 * to look which of them were written takes a tenth of that. The usual place of a slot has its
 * number, which fits as long as the service fills slots in the order of their numbers. If a batch's
 * slots are no neighbours, the places behind its first one are mapped anew; if those are in use,
 * places of a spare lane are. */
#include "share/share_view.h"

#include "base/alloc.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POPULATE_READ 22 /* MADV_POPULATE_READ, Linux 5.14 */
#define LANES 4u         /* number of runs of places that belong to no slot */
#define NO_SLOT UINT32_MAX
#define LOOK_PAGES 1024u /* number of pages whose state one call reads */

/* Bits of /proc/self/pagemap. */
#define IS_THERE ((uint64_t)3 << 62) /* the page is in memory, or swapped out */
#define IS_FILE ((uint64_t)1 << 61)  /* the page is the arena's, which means that it was not
                                        written */

struct place {
    uint32_t slot;    /* slot that the place shows; NO_SLOT: the place must not be read */
    uint32_t n_users; /* number of runs that use the place */
    uint64_t rows;    /* a bit for each row that a run has used since n_users was 0 */
    bool cold;        /* true if pages of the place were dropped and must be mapped again */
    bool leaving;     /* true while written pages are being dropped, so no run may take the place */
};

struct psti_share_view {
    atomic_uint refs;
    size_t page, nbytes;
    char *memory;
    uint64_t stride;
    uint32_t extent_rows, n_slots, span, n_places, n_fields;
    int pagemap; /* descriptor of /proc/self/pagemap; -1: it cannot be read */
    struct {
        size_t nbytes; /* bytes of each place; 0: the field is not shown */
        size_t at;     /* offset of the first place in `memory` */
        uint64_t offset; /* offset of the field's array in a slot */
    } fields[PST_MAX_FIELDS];
    pthread_mutex_t lock; /* guards places; `slot` of a place in use does not change */
    struct place places[];
};

bool psti_share_view_shows(uint64_t row_nbytes, uint32_t extent_rows, size_t page)
{
    return row_nbytes >= page && row_nbytes <= SIZE_MAX / PSTI_EXTENT_ROWS_MAX &&
           row_nbytes * extent_rows % page == 0;
}

/* Decides where the fields' places lie in the view. Returns the length of all of them; 0: there are
 * none, or they are too long. */
static size_t lay_out(struct psti_share_view *view, const struct psti_stream_layout *layout)
{
    size_t total = 0;
    for (uint32_t i = 0; i < layout->n_fields; i++) {
        size_t nbytes = layout->fields[i].row_nbytes * layout->extent_rows;
        if (!psti_share_view_shows(layout->fields[i].row_nbytes, layout->extent_rows, view->page))
            continue;
        /* The caller takes each such field from the view. One that the service has put between
         * pages cannot be mapped, so all fields are copied then. */
        if (layout->fields[i].offset % view->page != 0 ||
            nbytes > (SIZE_MAX / 4 - total) / view->n_places)
            return 0;
        view->fields[i].nbytes = nbytes;
        view->fields[i].offset = layout->fields[i].offset;
        view->fields[i].at = total;
        total += nbytes * view->n_places;
    }
    return total;
}

struct psti_share_view *psti_share_view_open(const struct psti_stream_layout *layout, uint32_t span)
{
    uint32_t n_places = layout->n_slots + span + LANES * span;
    if (span > PSTI_STREAM_EXTENTS || layout->n_slots > UINT32_MAX / 2)
        return NULL;
    struct psti_share_view *view = psti_calloc(1, sizeof *view + n_places * sizeof view->places[0]);
    if (!view)
        return NULL;
    view->page = (size_t)sysconf(_SC_PAGESIZE);
    view->stride = layout->stride;
    view->extent_rows = layout->extent_rows;
    view->n_fields = layout->n_fields;
    view->n_slots = layout->n_slots;
    view->span = span;
    view->n_places = n_places;
    view->nbytes = lay_out(view, layout);
    void *memory = MAP_FAILED;
    if (view->nbytes)
        memory =
            mmap(NULL, view->nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        psti_free(view);
        return NULL;
    }
    view->memory = memory;
    for (uint32_t i = 0; i < n_places; i++)
        view->places[i].slot = NO_SLOT;
    atomic_init(&view->refs, 1);
    pthread_mutex_init(&view->lock, NULL);
    view->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    return view;
}

void psti_share_view_set_finds(struct psti_share_view *view, enum psti_share_view_finds finds)
{
    if (finds == PSTI_SHARE_VIEW_BY_NOTHING && view->pagemap >= 0) {
        close(view->pagemap);
        view->pagemap = -1;
    }
}

void psti_share_view_release(struct psti_share_view *view)
{
    if (!view || atomic_fetch_sub(&view->refs, 1) != 1)
        return;
    munmap(view->memory, view->nbytes);
    if (view->pagemap >= 0)
        close(view->pagemap);
    pthread_mutex_destroy(&view->lock);
    psti_free(view);
}

static char *field_at(const struct psti_share_view *view, uint32_t i_field, uint32_t place)
{
    return view->memory + view->fields[i_field].at + place * view->fields[i_field].nbytes;
}

/* Returns a mask of the rows that the run has in its extent i. */
static uint64_t rows_of(const struct psti_share_view *view, uint32_t i, uint32_t skip,
                        uint32_t n_rows)
{
    uint64_t first = (uint64_t)i * view->extent_rows, end = (uint64_t)skip + n_rows;
    uint32_t from = i == 0 ? skip : 0;
    uint32_t to = end - first < view->extent_rows ? (uint32_t)(end - first) : view->extent_rows;
    return from < to ? (UINT64_MAX >> (64 - (to - from))) << from : 0;
}

/* True if the run may take the places. If another run uses a place, the place must already show the
 * same slot, and the two runs must have different rows of it. */
static bool fits(const struct psti_share_view *view, uint32_t first, const uint32_t *slots,
                 const struct psti_share_view_run *run)
{
    for (uint32_t i = 0; i < run->n; i++) {
        const struct place *place = &view->places[first + i];
        if (place->leaving)
            return false;
        if (place->n_users > 0 &&
            (place->slot != slots[i] || (place->rows & rows_of(view, i, run->skip, run->n_rows))))
            return false;
    }
    return true;
}

/* Finds places for the run, and takes them. False: none are free. */
static bool find(struct psti_share_view *view, const uint32_t *slots,
                 struct psti_share_view_run *run)
{
    uint32_t lanes = view->n_slots + view->span;
    pthread_mutex_lock(&view->lock);
    bool found = fits(view, run->first, slots, run);
    for (uint32_t lane = 0; lane < LANES && !found; lane++) {
        run->first = lanes + lane * view->span;
        found = fits(view, run->first, slots, run);
    }
    for (uint32_t i = 0; i < run->n && found; i++) {
        view->places[run->first + i].n_users++;
        view->places[run->first + i].rows |= rows_of(view, i, run->skip, run->n_rows);
    }
    pthread_mutex_unlock(&view->lock);
    return found;
}

/* Lets the place show the slot, with all pages that are there. */
static bool show(struct psti_share_view *view, int fd, uint32_t i_place, uint32_t slot)
{
    struct place *place = &view->places[i_place];
    bool anew = place->slot != slot;
    for (uint32_t f = 0; f < view->n_fields && (anew || place->cold); f++) {
        size_t nbytes = view->fields[f].nbytes;
        char *at = field_at(view, f, i_place);
        if (nbytes == 0)
            continue;
        place->slot = NO_SLOT;
        if (anew &&
            mmap(at, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
                 (off_t)(slot * view->stride + view->fields[f].offset)) == MAP_FAILED)
            return false;
        (void)madvise(at, nbytes, POPULATE_READ); /* otherwise each page would fault when it is
                                                     first read */
    }
    place->slot = slot;
    place->cold = false;
    return true;
}

bool psti_share_view_take(struct psti_share_view *view, int fd, const uint32_t *slots, uint32_t n,
                          uint32_t skip, uint32_t n_rows, struct psti_share_view_run *run)
{
    *run = (struct psti_share_view_run){
        .view = view, .first = slots[0], .n = n, .skip = skip, .n_rows = n_rows};
    for (uint32_t i = 0; i < n; i++)
        if (n > view->span || slots[i] >= view->n_slots)
            return false;
    if (!find(view, slots, run))
        return false;
    atomic_fetch_add(&view->refs, 1);
    for (uint32_t i = 0; i < n; i++)
        if (!show(view, fd, run->first + i, slots[i])) {
            psti_share_view_leave(run);
            return false;
        }
    return true;
}

void *psti_share_view_rows(const struct psti_share_view_run *run, uint32_t i_field)
{
    const struct psti_share_view *view = run->view;
    return field_at(view, i_field, run->first) +
           view->fields[i_field].nbytes / view->extent_rows * run->skip;
}

/* Drops the pages that were written. Returns false if that is not possible. */
static bool drop_written(const struct psti_share_view *view, char *at, size_t nbytes, bool *dropped)
{
    uint64_t pages[LOOK_PAGES];
    size_t n = nbytes / view->page;
    for (size_t done = 0; done < n;) {
        size_t look = n - done < LOOK_PAGES ? n - done : LOOK_PAGES;
        char *from = at + done * view->page;
        off_t where = (off_t)((uintptr_t)from / view->page * sizeof pages[0]);
        ssize_t wanted = (ssize_t)(look * sizeof pages[0]);
        if (view->pagemap < 0 || pread(view->pagemap, pages, (size_t)wanted, where) != wanted) {
            *dropped = true;
            return madvise(from, (n - done) * view->page, MADV_DONTNEED) == 0;
        }
        for (size_t i = 0; i < look;) {
            size_t end = i;
            while (end < look && (pages[end] & IS_THERE) && !(pages[end] & IS_FILE))
                end++;
            if (end > i) {
                *dropped = true;
                if (madvise(from + i * view->page, (end - i) * view->page, MADV_DONTNEED) != 0)
                    return false;
            }
            i = end > i ? end : i + 1;
        }
        done += look;
    }
    return true;
}

/* Drops what was written to the place. No run may use or take the place meanwhile. */
static void forget(struct psti_share_view *view, uint32_t i_place)
{
    struct place *place = &view->places[i_place];
    bool good = true, dropped = false;
    for (uint32_t f = 0; f < view->n_fields && place->slot != NO_SLOT; f++)
        if (view->fields[f].nbytes)
            good &=
                drop_written(view, field_at(view, f, i_place), view->fields[f].nbytes, &dropped);
    if (!good)
        place->slot = NO_SLOT; /* dropping failed, for instance for locked memory, so the place will
                                  be mapped anew */
    place->cold |= dropped;
}

void psti_share_view_leave(const struct psti_share_view_run *run)
{
    struct psti_share_view *view = run->view;
    for (uint32_t i = 0; i < run->n; i++) {
        struct place *place = &view->places[run->first + i];
        pthread_mutex_lock(&view->lock);
        bool last = --place->n_users == 0;
        place->leaving = last;
        pthread_mutex_unlock(&view->lock);
        if (!last)
            continue;
        forget(view, run->first + i);
        pthread_mutex_lock(&view->lock);
        place->leaving = false;
        place->rows = 0;
        pthread_mutex_unlock(&view->lock);
    }
    psti_share_view_release(view);
}
