/* share_cache.h - a loader's session with the host cache: looks up items, and asks the service for
 * those that are missing.
 *
 * A session has one set of the cache or several, such as those of a mixture's data sets. Calls name
 * a set by its number.
 *
 * Hits need no call. A wish is answered by a call of its `done`, on a thread of the session, after
 * which the item is found by asking again, or is not there and the loader reads it. If the service
 * is lost (killed, stopped, removed), all wishes are answered at once or after the deadline, later
 * ones are refused, and what was mapped stays readable. */
#ifndef PST_SHARE_SHARE_CACHE_H
#define PST_SHARE_SHARE_CACHE_H

#include "share/share_cache_wire.h"
#include "share/share_link.h"

struct psti_share_cache;

/* One item that is wished for. The caller's memory, until `done` is called. */
struct psti_share_wish {
    uint64_t number;                            /* sample * n_items + item */
    uint32_t i_set;                             /* of the session */
    void (*done)(struct psti_share_wish *wish); /* must not block */
    void *user;
    enum psti_cache_result result;
    enum psti_cache_recoding recoding; /* of PSTI_CACHE_RESULT_READ */
    uint64_t nbytes_saved;
    struct psti_share_wish *next; /* of the session */
};

/* Opens data sets in the host cache of the service at `path`, n_sets of them, 1 to
 * PSTI_CACHE_SETS_MAX. Waits for the service as long as it says that it works, else wait_ns, until
 * `stop` (may be NULL) ends it. Starts one thread. The errors are those of psti_share_connect and
 * of the service: PST_ERROR_LIMIT: there is no room for a data set, with the names of those that
 * hold it. PST_ERROR_STATE: a data set has changed since it was opened. */
enum pst_status psti_share_cache_open(const char *path, const struct psti_share_set *sets,
                                      uint32_t n_sets, int64_t wait_ns,
                                      const struct psti_share_stop *stop,
                                      struct psti_share_cache **out, struct pst_error *err);
/* Makes a session that is lost from the beginning. PST_ERROR_MEMORY. */
enum pst_status psti_share_cache_open_lost(struct psti_share_cache **out, struct pst_error *err);
/* Answers all wishes, and ends the session. No span may be in use. *cache may be NULL. */
void psti_share_cache_close(struct psti_share_cache **cache);

/* Any thread may call the rest. */

/* Items may be re-coded, and their places used anew. So who reads items of a set enters it before
 * it asks for them, and leaves it when it needs the spans no more. Each returns at once; `reader`
 * is what psti_share_cache_enter returned. */
unsigned psti_share_cache_enter(struct psti_share_cache *cache, uint32_t i_set);
void psti_share_cache_leave(struct psti_share_cache *cache, uint32_t i_set, unsigned reader);
/* Asks for an item. PSTI_CACHE_ADMIT: the caller may send a wish for it. PSTI_CACHE_PASS: the cache
 * will not have it. */
enum psti_cache_answer psti_share_cache_ask(struct psti_share_cache *cache, uint32_t i_set,
                                            uint64_t sample, uint32_t i_item, uint64_t nbytes,
                                            struct psti_cache_span *span);
/* The same for an item whose wish was answered: it is not counted. */
enum psti_cache_answer psti_share_cache_look(struct psti_share_cache *cache, uint32_t i_set,
                                             uint64_t sample, uint32_t i_item, uint64_t nbytes,
                                             struct psti_cache_span *span);
/* The number of an item, for a wish. */
uint64_t psti_share_cache_number(const struct psti_share_cache *cache, uint32_t i_set,
                                 uint64_t sample, uint32_t i_item);
void psti_share_cache_submit(struct psti_share_cache *cache, struct psti_share_wish **wishes,
                             size_t n);
/* Submits wishes, whose `done` it sets, and waits for their answers. False: `stop` (may be NULL)
 * has ended the wait. */
bool psti_share_cache_wait(struct psti_share_cache *cache, struct psti_share_wish **wishes,
                           size_t n, const struct psti_share_stop *stop);
/* Answers all wishes now, as PSTI_CACHE_RESULT_FAILED. */
void psti_share_cache_cancel(struct psti_share_cache *cache);
bool psti_share_cache_is_lost(const struct psti_share_cache *cache);
/* Items that the service re-codes when it is asked to, of sets that were opened with `later`. */

/* Says who is told what became of each request, on the session's thread. Called before the first
 * request. */
void psti_share_cache_on_later(struct psti_share_cache *cache,
                               void (*done)(void *ctx, const struct psti_cache_ready *ready),
                               void *ctx);
/* Finds a set that has items which wait. The service looks for them at the first request, which is
 * therefore due in any case. False: there is none. */
bool psti_share_cache_has_later(struct psti_share_cache *cache, uint32_t *i_set);
/* Asks the service to re-code an item of the set. False: that cannot be sent now. */
bool psti_share_cache_ask_later(struct psti_share_cache *cache, uint32_t i_set);
/* Number of requests that were not answered yet. */
uint32_t psti_share_cache_n_later(const struct psti_share_cache *cache);
/* Number of items that wait. */
uint64_t psti_share_cache_waiting(const struct psti_share_cache *cache);
/* The host cache's limit, and what the session's data sets take of it. */
void psti_share_cache_stats(struct psti_share_cache *cache, struct pst_cache_stats *stats);

#endif
