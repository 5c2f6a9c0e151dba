/* cache.h - the interface of this folder for other rooms: stored items of data sets in memory;
 * nothing is evicted.
 *
 * A set holds the items of one version of one data set. A reader asks the set for an item before it
 * reads the item from storage. The set either gives the item's bytes; or reserves space, and the
 * reader reads the item and stores a copy here; or declines, and the reader reads the item without
 * storing it. Any thread may call any function. Asking takes no lock. */
#ifndef PST_CACHE_CACHE_H
#define PST_CACHE_CACHE_H

#include "format/format_cache.h"

#include <penstock/cache.h>

struct psti_cache_set;

#define PSTI_CACHE_AS_STORED 0 /* form of an item that has the data set's own bytes */

struct psti_cache_span {
    /* Valid until the set is closed. If the set's shape has forms: valid until the reader
     * leaves. */
    const void *bytes;
    uint64_t nbytes;
    uint8_t form; /* PSTI_CACHE_AS_STORED, or the form that was passed to psti_cache_keep */
};

enum psti_cache_answer {
    PSTI_CACHE_HIT, /* *span holds the item's bytes */
    /* space is reserved; the caller must call psti_cache_keep or psti_cache_give_up */
    PSTI_CACHE_ADMIT,
    /* there is no space; or another thread has reserved space for the item; or the cache has an
     * item of another length, which only a forged cache file can cause */
    PSTI_CACHE_PASS
};

/* Opens the set of that data set, and makes it if the cache has none. An open set keeps the cache
 * open. A closed set stays in memory until another set needs that memory; the set that has been
 * closed longest is freed first. A closed set without items is freed at once. PST_ERROR_LIMIT: the
 * set's table alone does not fit into the cache. */
enum pst_status psti_cache_set_open(pst_cache *cache, const struct psti_cache_shape *shape,
                                    struct psti_cache_set **out, struct pst_error *err);
/* Closes the set. No span of the set may be in use any more. *set may be NULL. */
void psti_cache_set_close(struct psti_cache_set **set);

/* Closes the set and opens the one with another shape in the same cache. After failure *set is the
 * old set, open again, or NULL if that failed, too. */
enum pst_status psti_cache_set_exchange(struct psti_cache_set **set,
                                        const struct psti_cache_shape *shape,
                                        struct pst_error *err);

/* Fills in pst_cache_stats for the whole cache, but n_items for this set only. */
void psti_cache_set_stats(struct psti_cache_set *set, struct pst_cache_stats *stats);

/* Asks for item `i_item` of a sample, which has nbytes bytes. Both numbers must be below n_samples
 * and n_items of the set's shape. */
enum psti_cache_answer psti_cache_ask(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                      uint64_t nbytes, struct psti_cache_span *span);
/* Looks for the item without reserving space. Returns HIT or PASS. It takes no lock and writes
 * nothing, so a forked child may call it. */
enum psti_cache_answer psti_cache_find(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                       uint64_t nbytes, struct psti_cache_span *span);
/* Enlarges a reservation of nbytes to more_nbytes, for an item that became longer in another form.
 * False: there is no space, and the reservation is unchanged. */
bool psti_cache_enlarge(struct psti_cache_set *set, uint64_t nbytes, uint64_t more_nbytes);
/* Copies the item's bytes into the space reserved for `nbytes` bytes. A re-coded item may be
 * shorter; the rest of the space is given back. False: the system has no more memory, or no gap is
 * large enough. Then the reservation is given up, and in a shared set the item counts as one that
 * found no space. */
bool psti_cache_keep(struct psti_cache_set *set, uint64_t sample, uint32_t i_item, uint64_t nbytes,
                     const struct psti_cache_span *item);
/* Gives reserved space back, because the item could not be read or is not valid. */
void psti_cache_give_up(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                        uint64_t nbytes);

/* Replacing items. A set whose shape has forms may hold an item as stored at first, and in another
 * form later. A reader enters the set, or its view of it, before it asks for items, and leaves when
 * it no longer needs the bytes. Until then they do not change.
 * ---------------------------------------------------------------------------------------------- */

/* Enters the set as a reader. Returns a number for psti_cache_leave. No lock. A forked child need
 * not enter. */
unsigned psti_cache_enter(struct psti_cache_set *set);
void psti_cache_leave(struct psti_cache_set *set, unsigned reader);

/* From now on the set has a queue of the items that it holds, in the order in which they were kept.
 * It keeps a part of the cache, if that is free, as room for items that are being replaced: 1/32 if
 * it is the only set with a queue; where n sets have queues, the last of them 1/32 of an n-th.
 * n_sets: the caller opens the queues of so many sets, at least 1, which share 1/32. False: the
 * set's items cannot be replaced: it has no forms, or is frozen; or there is no memory for the
 * queue. May be called again. */
bool psti_cache_later_open(struct psti_cache_set *set, uint32_t n_sets);
/* Number of items in the queue. */
uint64_t psti_cache_later_count(struct psti_cache_set *set);

/* An item that was taken out of the queue. */
struct psti_cache_later {
    uint64_t number;             /* sample * n_items + i_item */
    struct psti_cache_span span; /* valid until psti_cache_later_put */
    uint64_t reserved;           /* for psti_cache_later_put */
    bool is_again;               /* for psti_cache_later_put */
};
/* Takes the next item out of the queue. The caller must then call psti_cache_later_put. False:
 * there is none now, because the queue is empty, or there is no space until readers have left. */
bool psti_cache_later_take(struct psti_cache_set *set, struct psti_cache_later *later);

enum psti_cache_replaced {
    PSTI_CACHE_REPLACED,
    PSTI_CACHE_STAYS,    /* the item was not replaced, as the caller wished */
    PSTI_CACHE_TOO_LONG, /* there is no space for the new item, so the old one is kept */
    PSTI_CACHE_AGAIN     /* there is no gap for it now; the item is queued once more, after all
                            others */
};
/* Replaces the item by `item`, whose bytes are copied. NULL: the item is not replaced. Readers that
 * ask afterwards find the new item. */
enum psti_cache_replaced psti_cache_later_put(struct psti_cache_set *set,
                                              const struct psti_cache_later *later,
                                              const struct psti_cache_span *item);

/* Rounds for shared sets: readers in other processes are asked whether they have left. Only one
 * thread, the service's loop, calls these functions. */

/* True: replaced items wait for a round. The caller asks each view of the set that is open now, and
 * then calls psti_cache_later_end_round. False: no round is needed now, or one is under way. */
bool psti_cache_later_begin_round(struct psti_cache_set *set);
/* Ends the round. Called when each of these views has confirmed it, was closed, or its process has
 * ended. */
void psti_cache_later_end_round(struct psti_cache_set *set);
/* Stops replacing items, because a process may still read the set and cannot be asked any more.
 * From now on no item is taken out of the queue, and the space of replaced items is not reused. */
void psti_cache_later_freeze(struct psti_cache_set *set);

/* Shared caches. One process, the host service, owns the cache. Its tables and items lie in stores
 * (base/files/sealed.h), which other processes can read but not write.
 * ---------------------------------------------------------------------------------------------- */

/* Opens a cache like pst_cache_open, whose sets lie in stores. If the kernel cannot seal memory in
 * this way, opening the first set fails with PST_ERROR_UNSUPPORTED. */
enum pst_status psti_cache_open_shared(uint64_t nbytes, pst_cache **out, struct pst_error *err);

/* Everything a reader needs to open a view of the set. The set keeps the descriptors. */
struct psti_cache_export {
    int table_fd, memory_fd;
    uint64_t table_nbytes, capacity;
};
struct psti_cache_export psti_cache_set_export(struct psti_cache_set *set);
/* Lets readers ask again for items that found no space, because there may be space now. */
void psti_cache_set_readmit(struct psti_cache_set *set);
/* Returns the bytes that further items of the set may take. Not every item of that size will
 * fit. */
uint64_t psti_cache_set_room(struct psti_cache_set *set);

/* True if the set holds the item with that number. */
bool psti_cache_holds(struct psti_cache_set *set, uint64_t number);

/* How much a set of the cache uses. */
struct psti_cache_use {
    uint64_t n_items, nbytes;
    uint64_t n_waiting; /* number of items that wait to be replaced */
    bool is_open;
};
/* Looks for a set without opening it. False: the cache has none with that shape. `use` may be
 * NULL. */
bool psti_cache_look(pst_cache *cache, const struct psti_cache_shape *shape,
                     struct psti_cache_use *use);
/* Frees all sets that are not open. Returns the bytes that were freed. */
uint64_t psti_cache_clear(pst_cache *cache);

/* A view of another process's set. Everything in the shared table is checked against the sizes that
 * the kernel reports for the descriptors, so a wrong table leads to a miss, never to a bad
 * access. */
struct psti_cache_view;
/* Opens a view. It owns the descriptors, also after failure. PST_ERROR_CORRUPT: they are no stores,
 * or too short. */
enum pst_status psti_cache_view_open(const struct psti_cache_shape *shape,
                                     const struct psti_cache_export *from,
                                     struct psti_cache_view **out, struct pst_error *err);
void psti_cache_view_close(struct psti_cache_view **view); /* *view may be NULL */
/* Asks like psti_cache_ask. PSTI_CACHE_ADMIT: the item is not here, and the set's owner may read
 * it. PSTI_CACHE_PASS: the owner will not read it. Spans are valid until the reader leaves, while
 * the view is open. Any thread; no lock. */
enum psti_cache_answer psti_cache_view_ask(struct psti_cache_view *view, uint64_t sample,
                                           uint32_t i_item, uint64_t nbytes,
                                           struct psti_cache_span *span);

/* Enters the view as a reader. Returns a number for psti_cache_view_leave. Any thread; no lock. */
unsigned psti_cache_view_enter(struct psti_cache_view *view);
/* Leaves the view. True: the caller should call psti_cache_view_go_on, because a round may end
 * now. */
bool psti_cache_view_leave(struct psti_cache_view *view, unsigned reader);
/* Begins a round: the set's owner wants to know when all present readers have left. Only one thread
 * calls this and psti_cache_view_go_on. */
void psti_cache_view_begin_round(struct psti_cache_view *view);
/* True: all those readers have left, or there is no round. */
bool psti_cache_view_go_on(struct psti_cache_view *view);

/* Return the number of items that the set holds, and of items that wait to be replaced, as its
 * owner reports them. */
uint64_t psti_cache_view_count(struct psti_cache_view *view);
uint64_t psti_cache_view_waiting(struct psti_cache_view *view);

/* Remote caches: handles of a cache that another process owns. The public functions call the
 * functions in the handle's table.
 * ---------------------------------------------------------------------------------------------- */
struct psti_cache_remote_ops {
    void (*close)(void *ctx);
    void (*stats)(void *ctx, struct pst_cache_stats *stats);
    enum pst_status (*save)(void *ctx, const char *path, struct pst_cache_file_report *report,
                            struct pst_error *err);
    enum pst_status (*load)(void *ctx, const char *path, struct pst_cache_file_report *report,
                            struct pst_error *err);
};
/* Opens a handle of a remote cache. It owns `ctx`: its last owner calls ops->close. */
enum pst_status psti_cache_open_remote(const struct psti_cache_remote_ops *ops, void *ctx,
                                       pst_cache **out, struct pst_error *err);
/* Returns the ctx of a remote cache, or NULL for a cache of this process. */
void *psti_cache_remote(const pst_cache *cache);

#endif
