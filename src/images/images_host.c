/* images_host.c - images in the host cache, which the host service has for all processes of the
 * user.
 *
 * A hit lies in memory that the service shares. A missing item is read and re-coded by the service,
 * once for all, while the caller waits. If the service is lost, callers read for themselves. A
 * session is of one process: the first call in a forked child opens another one, while other
 * threads read for themselves. Takes no lock of its own. */
#include "images/images_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"

#include <unistd.h>

static enum pst_status open_session(pst_images *images, struct pst_error *err)
{
    enum pst_status status = psti_share_cache_open(
        images->host_path, images->dataset, &images->shape, PSTI_LINK_WAIT_NS, &images->host, err);
    if (status != PST_OK)
        images->host = NULL;
    atomic_store_explicit(&images->host_pid, (int)getpid(), memory_order_release);
    return status;
}

enum pst_status psti_images_host_open(pst_images *images, const pst_cache *cache,
                                      struct pst_error *err)
{
    images->host_path = psti_strdup(psti_share_host_path(cache));
    if (!images->host_path)
        return psti_fail(err, PST_ERROR_MEMORY, "images", "no memory for a path");
    atomic_init(&images->opening_pid, (int)getpid());
    return open_session(images, err);
}

void psti_images_host_close(pst_images *images)
{
    if (images->host_path && atomic_load(&images->host_pid) == (int)getpid())
        psti_share_cache_close(&images->host);
    psti_free(images->host_path);
}

/* The session of this process, or NULL. */
static struct psti_share_cache *find_session(pst_images *images)
{
    struct pst_error err;
    int pid = (int)getpid(), opening = atomic_load(&images->opening_pid);
    if (atomic_load_explicit(&images->host_pid, memory_order_acquire) == pid)
        return images->host;
    if (opening == pid || !atomic_compare_exchange_strong(&images->opening_pid, &opening, pid))
        return NULL; /* another thread opens it */
    if (open_session(images, &err) != PST_OK)
        psti_log(PST_LOG_WARNING, "images", "this process goes without the host service: %s",
                 err.text);
    return images->host;
}

static bool is_here(const struct psti_share_wish *wish)
{
    return wish->result == PSTI_CACHE_RESULT_HERE || wish->result == PSTI_CACHE_RESULT_READ;
}

enum psti_cache_answer psti_images_host_ask(pst_images *images, uint64_t sample, uint32_t i_item,
                                            uint64_t nbytes, bool wish, bool *fetched,
                                            struct psti_cache_span *span)
{
    struct psti_share_cache *host = find_session(images);
    *fetched = false;
    if (!host)
        return PSTI_CACHE_PASS;
    enum psti_cache_answer answer = wish
                                        ? psti_share_cache_ask(host, sample, i_item, nbytes, span)
                                        : psti_share_cache_look(host, sample, i_item, nbytes, span);
    if (answer == PSTI_CACHE_HIT)
        return answer;
    if (!wish || answer != PSTI_CACHE_ADMIT)
        return PSTI_CACHE_PASS;
    struct psti_share_wish item = {.number = psti_share_cache_number(host, sample, i_item)};
    struct psti_share_wish *items[] = {&item};
    psti_share_cache_wait(host, items, 1);
    *fetched = is_here(&item) &&
               psti_share_cache_look(host, sample, i_item, nbytes, span) == PSTI_CACHE_HIT;
    return *fetched ? PSTI_CACHE_HIT : PSTI_CACHE_PASS;
}

bool psti_images_host_stats(pst_images *images, struct pst_cache_stats *stats)
{
    struct psti_share_cache *host = find_session(images);
    if (host)
        psti_share_cache_stats(host, stats);
    return host != NULL;
}
