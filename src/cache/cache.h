/* cache.h - the door of cache: stored items of data sets in memory; nothing is evicted.
 *
 * A set holds the items of one version of one data set. A reader asks the set for an item before it
 * reads the item from storage. The set answers in one of three ways: it gives the item's bytes; or
 * it reserves space, and the reader reads the item and stores a copy here; or it declines, and the
 * reader reads the item without storing it. Any thread may call any function. Asking takes no lock.
 */
#ifndef PST_CACHE_CACHE_H
#define PST_CACHE_CACHE_H

#include "format/format_cache.h"

#include <penstock/cache.h>

struct psti_cache_set;

#define PSTI_CACHE_AS_STORED 0 /* form of an item that has the data set's own bytes */

struct psti_cache_span {
    /* Valid until the set is closed. If the set's shape has forms: until the reader leaves. */
    const void *bytes;
    uint64_t nbytes;
    uint8_t form; /* PSTI_CACHE_AS_STORED, or the number that was given to psti_cache_keep */
};

enum psti_cache_answer {
    PSTI_CACHE_HIT, /* *span holds the item's bytes */
    /* space is reserved; the caller must call psti_cache_keep or psti_cache_give_up */
    PSTI_CACHE_ADMIT,
    /* there is no space, or another thread has reserved space for the item, or the cache has an
     * item of another length, which only a forged file can have brought */
    PSTI_CACHE_PASS
};

/* Opens the set of that data set in the cache, and makes it if the cache has none. An open set
 * keeps the cache alive. A closed set stays in memory until another set needs that memory; the set
 * that has been closed for the longest time is freed first. A closed set without items is freed at
 * once. PST_ERROR_LIMIT: the set's table alone does not fit into the cache. */
enum pst_status psti_cache_set_open(pst_cache *cache, const struct psti_cache_shape *shape,
                                    struct psti_cache_set **out, struct pst_error *err);
/* Closes the set. No span of the set may be in use any more. *set may be NULL. */
void psti_cache_set_close(struct psti_cache_set **set);

/* Closes the set and opens that of another shape in the same cache. After failure the former one is
 * open again, or *set is NULL if that failed, too. */
enum pst_status psti_cache_set_exchange(struct psti_cache_set **set,
                                        const struct psti_cache_shape *shape,
                                        struct pst_error *err);

/* Gives the numbers of pst_cache_stats, but n_items counts the items of this set alone. */
void psti_cache_set_stats(struct psti_cache_set *set, struct pst_cache_stats *stats);

/* Asks for item `i_item` of a sample, which is nbytes long. The numbers are below n_samples and
 * n_items of the set's shape. */
enum psti_cache_answer psti_cache_ask(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                      uint64_t nbytes, struct psti_cache_span *span);
/* Looks for the item without reserving space: HIT or PASS. Takes no lock and writes nothing, so it
 * may be called in a child that was forked with the set. */
enum psti_cache_answer psti_cache_find(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                                       uint64_t nbytes, struct psti_cache_span *span);
/* Makes the space reserved for nbytes bytes enough for more_nbytes, for an item that became longer
 * in another form. Returns false if there is no space; the reservation stays as it was then. After
 * success it is one for more_nbytes. */
bool psti_cache_enlarge(struct psti_cache_set *set, uint64_t nbytes, uint64_t more_nbytes);
/* Copies the item's bytes into the space reserved for `nbytes` bytes. An item in another form may
 * be shorter; the rest of the space is given back. Returns false if the system has no more memory,
 * or there is no place that is large enough; the reservation is given up then, and in a shared set
 * the item counts as one that found no room. */
bool psti_cache_keep(struct psti_cache_set *set, uint64_t sample, uint32_t i_item, uint64_t nbytes,
                     const struct psti_cache_span *item);
/* Gives the reserved space back, because the item could not be read or is not good. */
void psti_cache_give_up(struct psti_cache_set *set, uint64_t sample, uint32_t i_item,
                        uint64_t nbytes);

/* Replacing items. A set whose shape has forms may hold an item as it is stored at first, and in
 * another form later. Readers enter the set, or their view of it, before they ask for items, and
 * leave when they need the bytes no more; until then these do not change.
 * ---------------------------------------------------------------------------------------------- */

/* Enters; a number for psti_cache_leave. No lock. A child that was forked need not enter. */
unsigned psti_cache_enter(struct psti_cache_set *set);
void psti_cache_leave(struct psti_cache_set *set, unsigned reader);

/* From now on the set has a queue of the items that it holds, in the order in which they were kept.
 * It keeps 1/32 of the cache, if that is free, as room for items that are being replaced; where n
 * sets of the cache have queues, the last of them 1/32 of an n-th. False: the set's items cannot be
 * replaced: it has no forms, or is frozen; or there is no memory for the queue. May be called
 * again. */
bool psti_cache_later_open(struct psti_cache_set *set);
/* Number of items in the queue. */
uint64_t psti_cache_later_count(struct psti_cache_set *set);

/* An item that was taken out of the queue. */
struct psti_cache_later {
    uint64_t number;             /* sample * n_items + i_item */
    struct psti_cache_span span; /* valid until psti_cache_later_put */
    uint64_t reserved;           /* for that function */
    bool is_again;               /* for that function, too */
};
/* Takes the next item out of the queue. The caller calls psti_cache_later_put. False: there is none
 * now; either the queue is empty, or there is no room until readers have left. */
bool psti_cache_later_take(struct psti_cache_set *set, struct psti_cache_later *later);

enum psti_cache_replaced {
    PSTI_CACHE_REPLACED,
    PSTI_CACHE_STAYS,    /* as the caller wished */
    PSTI_CACHE_TOO_LONG, /* there is no room for it: the set keeps the item as it was */
    PSTI_CACHE_AGAIN     /* there is no place now: the item comes again, once, after all others */
};
/* Replaces the item by `item`, whose bytes are copied. NULL: it stays as it is. Who asks from then
 * on finds the new one. */
enum psti_cache_replaced psti_cache_later_put(struct psti_cache_set *set,
                                              const struct psti_cache_later *later,
                                              const struct psti_cache_span *item);

/* Shared sets: readers in other processes are asked in rounds if they have left. One thread calls
 * these, the service's loop. */

/* True: replaced items wait for a round. The caller asks each view of the set that is open now, and
 * then calls psti_cache_later_end_round. False: none is needed now, or one is under way. */
bool psti_cache_later_begin_round(struct psti_cache_set *set);
/* Each of these views has ended the round, or its process has ended or closed it. */
void psti_cache_later_end_round(struct psti_cache_set *set);
/* A process may go on reading the set, and cannot be asked any more. From now on no item is taken
 * out of the queue, and replaced items keep their places. */
void psti_cache_later_freeze(struct psti_cache_set *set);

/* Shared caches. One process, the host service, has the cache: its tables and items lie in stores
 * (base/files/sealed.h), which other processes can read, but nobody else can write.
 * ---------------------------------------------------------------------------------------------- */

/* As pst_cache_open, with sets that lie in stores. PST_ERROR_UNSUPPORTED comes with the first set,
 * if the kernel cannot seal memory so. */
enum pst_status psti_cache_open_shared(uint64_t nbytes, pst_cache **out, struct pst_error *err);

/* What a reader needs to open a view of the set. The descriptors stay the set's. */
struct psti_cache_export {
    int table_fd, memory_fd;
    uint64_t table_nbytes, capacity;
};
struct psti_cache_export psti_cache_set_export(struct psti_cache_set *set);
/* Items that found no room may be asked for again, because there may be room now. */
void psti_cache_set_readmit(struct psti_cache_set *set);
/* Bytes that further items of the set may take, though not of every size. */
uint64_t psti_cache_set_room(struct psti_cache_set *set);

/* True if the set holds the item with that number. */
bool psti_cache_holds(struct psti_cache_set *set, uint64_t number);

/* What a set takes. */
struct psti_cache_use {
    uint64_t n_items, nbytes;
    uint64_t n_waiting; /* items that wait to be replaced */
    bool is_open;
};
/* Looks for a set without opening it. False: the cache has none with that shape. `use` may be
 * NULL. */
bool psti_cache_look(pst_cache *cache, const struct psti_cache_shape *shape,
                     struct psti_cache_use *use);
/* Frees all sets that are not open. Returns the bytes that they took. */
uint64_t psti_cache_clear(pst_cache *cache);

/* The view of another process's set. All that it says is checked against what the kernel says about
 * the descriptors, so that a wrong table leads to a miss, never to a bad access. */
struct psti_cache_view;
/* The descriptors become the view's, also after failure. PST_ERROR_CORRUPT: they are no stores, or
 * too short. */
enum pst_status psti_cache_view_open(const struct psti_cache_shape *shape,
                                     const struct psti_cache_export *from,
                                     struct psti_cache_view **out, struct pst_error *err);
void psti_cache_view_close(struct psti_cache_view **view); /* *view may be NULL */
/* As psti_cache_ask. PSTI_CACHE_ADMIT: the item is not here, and the set's owner may read it.
 * PSTI_CACHE_PASS: it will not. Spans are valid until the reader leaves, and the view is open. Any
 * thread; no lock. */
enum psti_cache_answer psti_cache_view_ask(struct psti_cache_view *view, uint64_t sample,
                                           uint32_t i_item, uint64_t nbytes,
                                           struct psti_cache_span *span);

/* Enters; a number for psti_cache_view_leave. Any thread; no lock. */
unsigned psti_cache_view_enter(struct psti_cache_view *view);
/* True: psti_cache_view_go_on may go on with a round now. */
bool psti_cache_view_leave(struct psti_cache_view *view, unsigned reader);
/* The set's owner wants to know when all who are readers now have left. One thread calls these two.
 */
void psti_cache_view_begin_round(struct psti_cache_view *view);
/* True: they have, or there is no round. */
bool psti_cache_view_go_on(struct psti_cache_view *view);

/* Number of items that the set holds, and of those that wait to be replaced, as its owner says. */
uint64_t psti_cache_view_count(struct psti_cache_view *view);
uint64_t psti_cache_view_waiting(struct psti_cache_view *view);

/* Remote caches: handles of a cache that another process has. What the public functions do with one
 * is up to its maker.
 * ---------------------------------------------------------------------------------------------- */
struct psti_cache_remote_ops {
    void (*close)(void *ctx);
    void (*stats)(void *ctx, struct pst_cache_stats *stats);
    enum pst_status (*save)(void *ctx, const char *path, struct pst_cache_file_report *report,
                            struct pst_error *err);
    enum pst_status (*load)(void *ctx, const char *path, struct pst_cache_file_report *report,
                            struct pst_error *err);
};
/* `ctx` becomes the handle's, which calls ops->close with its last owner. */
enum pst_status psti_cache_open_remote(const struct psti_cache_remote_ops *ops, void *ctx,
                                       pst_cache **out, struct pst_error *err);
/* Returns the ctx of a remote cache, or NULL of one of this process. */
void *psti_cache_remote(const pst_cache *cache);

#endif
