/* share_cache.h - a loader's session with the host cache: looks up items, and asks the service for
 * those that are missing.
 *
 * A session has one set of the cache or several, such as those of a mixture's data sets. Calls name
 * a set by its number.
 *
 * A hit is found in shared memory, without a message. For a missing item the loader sends a wish,
 * which is a request for one item. The session answers it by calling its `done`, on a thread of its
 * own. Then the loader asks again, and finds the item or reads it itself. If the service is lost
 * (killed, stopped, removed), all wishes are answered at once or after the deadline, later wishes
 * are refused, and mapped memory stays readable. If the service was only stopped and goes on, it
 * waits for the readers of a lost session as for those of others, and no longer. */
#ifndef PST_SHARE_SHARE_CACHE_H
#define PST_SHARE_SHARE_CACHE_H

#include "share/share_cache_wire.h"
#include "share/share_link.h"

struct psti_share_cache;

/* A request for one item. The memory belongs to the caller again when `done` is called. */
struct psti_share_wish {
    uint64_t number;                            /* number of the item: sample * n_items + item */
    uint32_t i_set;                             /* number of the set in the session */
    void (*done)(struct psti_share_wish *wish); /* called with the answer, on a thread of the
                                                 * session; must not block */
    void *user;
    enum psti_cache_result result;
    enum psti_cache_recoding recoding; /* what re-coding the item gave; set if `result` is
                                        * PSTI_CACHE_RESULT_READ */
    uint64_t nbytes_saved;
    struct psti_share_wish *next; /* next wish in a list of the session */
};

/* Opens n_sets data sets, 1 to PSTI_CACHE_SETS_MAX, in the host cache of the service at `path`.
 * Waits greet_ns until the service greets. After that it waits as long as the service reports that
 * it works, otherwise wait_ns. `stop` (may be NULL) ends each wait. Starts one thread. The errors
 * are those of psti_share_connect and of the service. PST_ERROR_LIMIT: there is no space for a data
 * set; the text names the data sets that hold it. PST_ERROR_STATE: a data set has changed since it
 * was opened. */
enum pst_status psti_share_cache_open(const char *path, const struct psti_share_set *sets,
                                      uint32_t n_sets, int64_t greet_ns, int64_t wait_ns,
                                      const struct psti_share_stop *stop,
                                      struct psti_share_cache **out, struct pst_error *err);
/* Makes a session that counts as lost from the beginning. PST_ERROR_MEMORY. */
enum pst_status psti_share_cache_open_lost(struct psti_share_cache **out, struct pst_error *err);
/* Answers all wishes, and ends the session. No span of it may be in use. *cache may be NULL. */
void psti_share_cache_close(struct psti_share_cache **cache);

/* Any thread may call the functions below. */

/* Enter a set before asking for its items, and leave it when the spans are no longer needed.
 * Otherwise the service might re-code items and reuse their space while they are read. Both
 * functions return at once. reader: the value that psti_share_cache_enter returned. */
unsigned psti_share_cache_enter(struct psti_share_cache *cache, uint32_t i_set);
void psti_share_cache_leave(struct psti_share_cache *cache, uint32_t i_set, unsigned reader);
/* Asks for an item. PSTI_CACHE_ADMIT: the caller may send a wish for it. PSTI_CACHE_PASS: the cache
 * will not take it. */
enum psti_cache_answer psti_share_cache_ask(struct psti_share_cache *cache, uint32_t i_set,
                                            uint64_t sample, uint32_t i_item, uint64_t nbytes,
                                            struct psti_cache_span *span);
/* Asks for an item like psti_share_cache_ask, but counts nothing. For items whose wish was
 * answered. */
enum psti_cache_answer psti_share_cache_look(struct psti_share_cache *cache, uint32_t i_set,
                                             uint64_t sample, uint32_t i_item, uint64_t nbytes,
                                             struct psti_cache_span *span);
/* Returns the number of an item, which a wish (a request for one item) holds: sample * n_items +
 * i_item. */
uint64_t psti_share_cache_number(const struct psti_share_cache *cache, uint32_t i_set,
                                 uint64_t sample, uint32_t i_item);
void psti_share_cache_submit(struct psti_share_cache *cache, struct psti_share_wish **wishes,
                             size_t n);
/* Submits wishes, setting their `done`, and waits for all answers. False: `stop` (may be NULL) has
 * ended the wait. */
bool psti_share_cache_wait(struct psti_share_cache *cache, struct psti_share_wish **wishes,
                           size_t n, const struct psti_share_stop *stop);
/* Answers all wishes at once as PSTI_CACHE_RESULT_FAILED. */
void psti_share_cache_cancel(struct psti_share_cache *cache);
bool psti_share_cache_is_lost(const struct psti_share_cache *cache);
/* The functions below are for sets opened with `later`, whose items the service re-codes on
 * request. */

/* Sets the function that gets the answer to each request to re-code, on the session's thread. Call
 * it before the first request. */
void psti_share_cache_on_later(struct psti_share_cache *cache,
                               void (*done)(void *ctx, const struct psti_cache_ready *ready),
                               void *ctx);
/* Finds a set with items that wait to be re-coded. False: there is none. The service looks for such
 * items only at the first request, so a set without any request yet is always returned. */
bool psti_share_cache_has_later(struct psti_share_cache *cache, uint32_t *i_set);
/* Asks the service to re-code an item of the set. False: the request cannot be sent now. */
bool psti_share_cache_ask_later(struct psti_share_cache *cache, uint32_t i_set);
/* Returns the number of requests to re-code that are not answered yet. */
uint32_t psti_share_cache_n_later(const struct psti_share_cache *cache);
/* Returns the number of items that wait to be re-coded. */
uint64_t psti_share_cache_waiting(const struct psti_share_cache *cache);
/* Gives the host cache's limit, and the bytes that the session's data sets use. */
void psti_share_cache_stats(struct psti_share_cache *cache, struct pst_cache_stats *stats);

#endif
