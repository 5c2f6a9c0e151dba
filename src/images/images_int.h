/* images_int.h - a handle for the images of a data set, the tools of a call, and the memory of
 * pixels.
 *
 * Calls take no lock, so that a child that was forked in the middle of one can go on. Tools and
 * memory wait in arrays of atomic pointers: a call takes one out by an exchange, or makes another,
 * and puts it back where there is room. */
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
#define PSTI_IMAGES_BLOCKS 32 /* blocks of pixels that wait */

/* What one call uses at a time. */
struct psti_images_tools {
    struct psti_decoder *decoder;
    struct psti_buffer stored;  /* bytes of an item */
    struct psti_buffer scratch; /* of the PLI decoder */
    struct psti_buffer band;    /* rows on their way to another order of colours */
};

/* Memory of pixels that was given back, of one handle. It outlives the handle while pixels are out.
 */
struct psti_images_pool {
    atomic_uint_fast64_t n_owners; /* the handle and the pixels that are out */
    _Atomic(struct psti_images_block *) blocks[PSTI_IMAGES_BLOCKS];
};

struct pst_images {
    pst_dataset *dataset;
    pid_t pid; /* of the process that opened it */
    uint32_t i_field, n_variants;
    uint32_t first_item; /* number in the cache of the field's first variant */
    struct pst_decode_options decode;
    enum pst_color color;
    psti_images_swap swap;
    uint8_t *plan; /* [n_samples] not 0: the cache admits the sample; NULL: all */
    bool no_verify;
    uint64_t cache_key;
    struct psti_cache_set *cache; /* NULL: none, or the host cache */
    char *host_path;              /* of the service's socket; NULL: no host cache */
    struct psti_share_stop stop;  /* of calls that wait for the service */
    char host_reason[256];        /* as of opening */
    struct psti_cache_shape shape;
    _Atomic(struct psti_images_host *) host; /* connection of one process; a fork makes its own */
    atomic_int opening_pid;                  /* of the process that makes it, or has made it */
    struct psti_images_pool *pool;
    _Atomic(struct psti_images_tools *) tools[PSTI_IMAGES_TOOLS];
    atomic_uint_fast64_t n_hits, nbytes_hit, n_misses, nbytes_read;
    atomic_uint_fast64_t n_recoded, n_not_recoded, n_refused, n_fetched, n_lost, n_renewed;
};

/* images_host.c */
struct psti_images_session;
/* What a call has of the host cache: a session, and being a reader of its items. */
struct psti_images_hold {
    struct psti_images_session *session; /* NULL: nothing */
    unsigned reader;
};
/* Opens a session with the service of the cache's handle. */
enum pst_status psti_images_host_open(pst_images *images, const pst_cache *cache,
                                      struct pst_error *err);
/* Waits for the end of a search for the service that is under way. */
void psti_images_host_close(pst_images *images);
/* Looks for an item, and waits until the service has brought it if it is missing and `wish` is set.
 * *stopped: the caller's interrupt function ended the wait.
 * *fetched: it was brought now. PASS: it is not there, and the caller reads it. *is_lost: that is
 * because there is no service. *hold is to be given back when the span is not used any more. */
enum psti_cache_answer psti_images_host_ask(pst_images *images, uint64_t sample, uint32_t i_item,
                                            uint64_t nbytes, bool wish,
                                            struct psti_images_hold *hold, bool *fetched,
                                            bool *is_lost, bool *stopped,
                                            struct psti_cache_span *span);
void psti_images_host_give(pst_images *images, const struct psti_images_hold *hold);
/* False: this process has no session. */
bool psti_images_host_stats(pst_images *images, struct pst_cache_stats *stats);

/* images_memory.c */
struct psti_images_pool *psti_images_pool_open(void);
void psti_images_pool_close(struct psti_images_pool *pool); /* gives up one owner's share */
/* Memory of nbytes, aligned to 64, for pst_images_release. NULL: there is none. */
void *psti_images_pool_take(struct psti_images_pool *pool, size_t nbytes);
struct psti_images_tools *psti_images_tools_take(pst_images *images, struct pst_error *err);
void psti_images_tools_give(pst_images *images, struct psti_images_tools *tools);
void psti_images_tools_free(struct psti_images_tools *tools); /* NULL is allowed */

#endif
