/* images_int.h - a handle for the images of a data set, the tools of a call, and the memory of
 * pixels.
 *
 * Calls take no lock, so a child that was forked in the middle of a call can go on. Unused tools
 * and memory lie in arrays of atomic pointers: a call takes one by an atomic exchange, or makes a
 * new one, and afterwards puts it into a free entry. */
#ifndef PST_IMAGES_IMAGES_INT_H
#define PST_IMAGES_IMAGES_INT_H

#include "base/buffer.h"
#include "cache/cache.h"
#include "dataset/dataset.h"
#include "decode/decode_recode.h"
#include "images/images_colors.h"
#include "share/share.h"

#include <penstock/images.h>

#include <stdatomic.h>
#include <sys/types.h>

#define PSTI_IMAGES_TOOLS 64  /* tools that wait */
#define PSTI_IMAGES_BLOCKS 32 /* number of blocks of pixel memory that are kept for reuse */

/* Tools that one call uses at a time. */
struct psti_images_tools {
    struct psti_decoder *decoder;
    struct psti_buffer stored;  /* bytes of an item */
    struct psti_buffer scratch; /* scratch memory of the PLI decoder */
    struct psti_buffer band;    /* decoded rows whose colours are then swapped */
};

/* Returned pixel memory of one handle, kept for reuse. It lives until the handle is closed and all
 * pixels are released. */
struct psti_images_pool {
    atomic_uint_fast64_t n_owners; /* the handle, and pixels that are not released yet */
    _Atomic(struct psti_images_block *) blocks[PSTI_IMAGES_BLOCKS];
};

struct pst_images {
    pst_dataset *dataset;
    pid_t pid; /* process that opened the handle */
    uint32_t i_field, n_variants;
    uint32_t first_item; /* index in the cache of the field's first variant */
    struct pst_decode_options decode;
    enum pst_color color;
    psti_images_swap swap;
    uint8_t *plan; /* [n_samples] nonzero: cache the sample; NULL: all */
    bool no_verify;
    uint64_t cache_key;
    struct psti_cache_set *cache; /* NULL: no cache, or the host cache */
    char *host_path;              /* path of the service's socket; NULL: no host cache */
    struct psti_share_stop stop;  /* ends calls that wait for the service */
    char host_reason[256];        /* as of opening */
    struct psti_cache_shape shape;
    _Atomic(struct psti_images_host *) host; /* connection of one process; a fork makes a new one */
    atomic_int opening_pid;                  /* process that makes, or has made, the connection */
    struct psti_images_pool *pool;
    _Atomic(struct psti_images_tools *) tools[PSTI_IMAGES_TOOLS];
    atomic_uint_fast64_t n_hits, nbytes_hit, n_misses, nbytes_read;
    atomic_uint_fast64_t n_recoded, n_not_recoded, n_refused, n_fetched, n_lost, n_renewed;
};

/* images_host.c */
struct psti_images_session;
/* Parts of the host cache that a call holds: a session, and a reader number that keeps items
 * valid. */
struct psti_images_hold {
    struct psti_images_session *session; /* NULL: nothing */
    unsigned reader;
};
/* Opens a session with the service that the cache handle names. */
enum pst_status psti_images_host_open(pst_images *images, const pst_cache *cache,
                                      struct pst_error *err);
/* Waits for the end of a running search for the service. */
void psti_images_host_close(pst_images *images);
/* Looks for an item in the host cache. If it is missing and `wish` is set, waits until the service
 * has read it. *stopped: the caller's interrupt function ended the wait. *fetched: the service read
 * the item now. Result PASS: the caller must read the item; *is_lost: because there is no service.
 * The caller must give back *hold when it no longer uses the span. */
enum psti_cache_answer psti_images_host_ask(pst_images *images, uint64_t sample, uint32_t i_item,
                                            uint64_t nbytes, bool wish,
                                            struct psti_images_hold *hold, bool *fetched,
                                            bool *is_lost, bool *stopped,
                                            struct psti_cache_span *span);
void psti_images_host_give(pst_images *images, const struct psti_images_hold *hold);
/* Gives counters of the host cache. Returns false if this process has no session. */
bool psti_images_host_stats(pst_images *images, struct pst_cache_stats *stats);

/* images_memory.c */
struct psti_images_pool *psti_images_pool_open(void);
void psti_images_pool_close(struct psti_images_pool *pool); /* gives up the reference of one
                                                             * owner */
/* Returns nbytes of memory, aligned to 64, for pst_images_release. NULL: out of memory. */
void *psti_images_pool_take(struct psti_images_pool *pool, size_t nbytes);
struct psti_images_tools *psti_images_tools_take(pst_images *images, struct pst_error *err);
void psti_images_tools_give(pst_images *images, struct psti_images_tools *tools);
void psti_images_tools_free(struct psti_images_tools *tools); /* NULL is allowed */

#endif
