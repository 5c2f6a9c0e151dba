/* serve_sets.c - the data sets of the host cache. A worker opens a set when a client asks for it,
 * because a large folder takes a while. A set is closed with its last client, but the cache keeps
 * its items until another set needs the space. Everything except the opening itself runs on the
 * loop's thread. */
#include "serve/serve_cache.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The work of opening a set. */
struct opening {
    struct psti_work work;
    struct serve_set *set;
    enum pst_status status;
    struct pst_error err;
};

static void close_parts(struct serve_set *set)
{
    psti_cache_set_close(&set->items_set);
    psti_loader_training_close(&set->training);
    psti_serve_data_close(set->cache->service, &set->data, set->shape.identity);
    set->state = SERVE_SET_CLOSED;
}

static void forget(struct serve_set *set)
{
    struct serve_set **at = &set->cache->sets;
    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    psti_free(set);
}

/* Tells waiting readers that there may be space now, because a closed set can be dropped for
 * others. */
static void readmit(struct serve_cache *cache)
{
    for (struct serve_set *set = cache->sets; set; set = set->next)
        if (set->state == SERVE_SET_READY && set->n_declined > 0) {
            psti_cache_set_readmit(set->items_set);
            set->n_declined = 0;
        }
}

void psti_serve_set_settle(struct serve_set *set)
{
    struct serve_cache *cache = set->cache;
    if (set->n_sessions > 0 || set->n_reads_now > 0 || set->state == SERVE_SET_OPENING)
        return;
    if (set->state == SERVE_SET_READY) {
        close_parts(set);
        readmit(cache);
    }
    if (!psti_cache_look(cache->cache, &set->shape, NULL))
        forget(set);
}

static void answer_opened(struct psti_session *session)
{
    struct serve_client *client = session->state;
    const struct serve_set *set = client->sets[client->n_sets - 1];
    struct psti_cache_export from = psti_cache_set_export(set->items_set);
    struct psti_wire_out out = psti_serve_session_answer(session);
    const struct psti_cache_opened opened = {from.table_nbytes, from.capacity,
                                             session->service->options.cache_nbytes};
    const int fds[2] = {from.table_fd, from.memory_fd};
    client->is_opening = false;
    client->is_reader |= !client->has_more;
    psti_share_put_cache_opened(&out, &opened);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_CACHE_OPENED, client->open_id, fds, 2);
}

/* Adds to an error about lack of memory which sets hold it. */
static void name_holders(const struct serve_cache *cache, struct pst_error *err)
{
    char text[sizeof err->text];
    struct psti_text out = {text, sizeof text, 0};
    psti_text_add(&out, "%s", err->text);
    for (const struct serve_set *set = cache->sets; set; set = set->next) {
        struct psti_cache_use use = {0};
        if (set->state != SERVE_SET_READY || !psti_cache_look(cache->cache, &set->shape, &use))
            continue;
        psti_text_add(&out, "; %s holds %" PRIu64 " MiB for %u loaders", set->wanted.dataset.path,
                      use.nbytes >> 20, set->n_sessions);
    }
    memcpy(err->text, text, sizeof text);
}

/* Returns the session's client if it waits for the set to open, else NULL. */
static struct serve_client *waits_for(const struct psti_session *session,
                                      const struct serve_set *set)
{
    struct serve_client *client =
        psti_serve_session_is(session, PSTI_SESSION_CACHE) ? session->state : NULL;
    return client && client->is_opening && client->sets[client->n_sets - 1] == set ? client : NULL;
}

/* Tells all clients that wait for the set that they must work without it. */
static void refuse(struct serve_set *set, const struct pst_error *err)
{
    for (struct psti_session *session = set->cache->service->sessions; session;
         session = session->next) {
        struct serve_client *client = waits_for(session, set);
        if (!client)
            continue;
        client->is_opening = false;
        client->n_sets--;
        client->laters &= ~((uint64_t)1 << client->n_sets);
        set->n_sessions--;
        psti_serve_session_send_error(session, client->open_id, err);
        session->ending = true;
    }
}

/* Called while the opening runs: marks the sessions that wait for it as served, unless it takes too
 * long. */
static void touch_opening(struct psti_work *work, int64_t age_ns)
{
    struct serve_set *set = ((struct opening *)(void *)work)->set;
    struct pst_error err;
    set->is_late = age_ns > PSTI_SERVE_OPENING_NS;
    if (set->is_late) {
        psti_serve_fail_opening(&err);
        refuse(set, &err);
        return;
    }
    for (struct psti_session *session = set->cache->service->sessions; session;
         session = session->next)
        session->served |= waits_for(session, set) != NULL;
}

/* Called on the loop's thread after an opening: answers all clients that wait for the set. */
static void opening_is_done(struct psti_post *post)
{
    struct opening *opening =
        (struct opening *)(void *)((char *)post - offsetof(struct opening, work.post));
    struct serve_set *set = opening->set;
    struct serve_cache *cache = set->cache;
    set->state = opening->status == PST_OK ? SERVE_SET_READY : SERVE_SET_CLOSED;
    set->is_late = false;
    if (opening->status == PST_ERROR_LIMIT)
        name_holders(cache, &opening->err);
    if (opening->status != PST_OK)
        refuse(set, &opening->err);
    for (struct psti_session *session = cache->service->sessions; session; session = session->next)
        if (waits_for(session, set))
            answer_opened(session);
    if (opening->status != PST_OK)
        close_parts(set);
    psti_free(opening);
    psti_serve_set_settle(set);
}

/* Opens the data set, on a worker. No other thread uses the set meanwhile. */
static void run_opening(struct psti_work *work, struct psti_worker *worker)
{
    struct opening *opening = (struct opening *)(void *)work;
    struct serve_set *set = opening->set;
    struct psti_cache_shape shape;
    (void)worker;
    pst_error_clear(&opening->err);
    struct psti_serve_data *data = set->data;
    enum pst_status status = psti_share_open_dataset(&set->wanted.dataset, data->fds, data->n_fds,
                                                     &data->dataset, &opening->err);
    if (status == PST_OK) {
        psti_share_cache_shape(data->dataset, &shape, set->items);
        shape.forms = set->shape.forms;
        if (shape.n_samples != set->shape.n_samples || shape.n_items != set->shape.n_items)
            status = psti_fail(&opening->err, PST_ERROR_CORRUPT, "serve",
                               "the client sees another number of items in this data set");
        set->shape.lacks_sums = shape.lacks_sums;
    }
    if (status == PST_OK && set->wanted.rule_nbytes > 0)
        status = psti_loader_training_parse(set->wanted.rule, set->wanted.rule_nbytes,
                                            set->shape.forms, &set->training, &opening->err);
    if (status == PST_OK)
        status =
            psti_cache_set_open(set->cache->cache, &set->shape, &set->items_set, &opening->err);
    opening->status = status;
}

static struct serve_set *find_set(struct serve_cache *cache, const struct psti_cache_shape *shape)
{
    struct serve_set *set = cache->sets;
    while (set && (memcmp(set->shape.identity, shape->identity, sizeof shape->identity) != 0 ||
                   set->shape.n_samples != shape->n_samples ||
                   set->shape.n_items != shape->n_items || set->shape.forms != shape->forms))
        set = set->next;
    return set;
}

static struct serve_set *make_set(struct serve_cache *cache, const struct psti_cache_shape *shape)
{
    struct serve_set *set = psti_calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->cache = cache;
    set->shape = *shape;
    psti_serve_lane_open(&set->lane);
    set->next = cache->sets;
    cache->sets = set;
    return set;
}

/* Allocates space for one more set of the client. */
static bool grow_sets(struct serve_client *client)
{
    uint32_t n = client->n_sets;
    if ((n & (n - 1)) != 0) /* the array's capacity is the next power of two, so it has space */
        return true;
    struct serve_set **sets = psti_alloc_array(n > 0 ? 2 * n : 1, sizeof(struct serve_set *));
    if (!sets)
        return false;
    if (n > 0)
        memcpy(sets, client->sets, n * sizeof *sets);
    psti_free(client->sets);
    client->sets = sets;
    return true;
}

/* Begins to open a closed set. The set takes over the message's descriptors. */
static enum pst_status begin_opening(struct serve_set *set, const struct psti_cache_open *open,
                                     struct psti_message *message, struct pst_error *err)
{
    struct opening *opening = psti_calloc(1, sizeof *opening);
    set->data = opening ? psti_serve_data_new(message, 0) : NULL;
    if (!set->data) {
        psti_free(opening);
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory to open a data set");
    }
    opening->set = set;
    opening->work.run = run_opening;
    opening->work.touch = touch_opening;
    opening->work.post.run = opening_is_done;
    set->wanted = *open;
    set->state = SERVE_SET_OPENING;
    (void)psti_serve_submit(set->cache->service, &set->lane, &opening->work); /* a closed set has an
                                                                                 empty lane */
    return PST_OK;
}

enum pst_status psti_serve_set_join(struct psti_session *session,
                                    const struct psti_cache_open *open,
                                    struct psti_message *message, struct pst_error *err)
{
    struct serve_cache *cache = session->service->parts[PSTI_SESSION_CACHE];
    struct serve_client *client = session->state;
    struct psti_cache_shape shape;
    enum pst_status status = PST_OK;
    uint64_t n;
    memcpy(shape.identity, open->dataset.version, sizeof shape.identity);
    shape.lacks_sums = false; /* not known before the data set is open */
    shape.n_samples = open->n_samples;
    shape.n_items = open->n_items;
    shape.forms = open->forms;
    if (shape.n_items == 0 || !psti_format_cache_numbers(&shape, &n))
        return psti_fail(err, PST_ERROR_CORRUPT, "serve", "a data set without items, or too many");
    struct serve_set *set = NULL;
    if (grow_sets(client)) {
        set = find_set(cache, &shape);
        set = set ? set : make_set(cache, &shape);
    }
    if (!set)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a data set");
    if (set->state == SERVE_SET_CLOSED)
        status = begin_opening(set, open, message, err);
    else if (set->is_late)
        status = psti_serve_fail_opening(err);
    if (status != PST_OK) {
        psti_serve_set_settle(set);
        return status;
    }
    if (open->later)
        client->laters |= (uint64_t)1 << client->n_sets;
    client->sets[client->n_sets++] = set;
    client->open_id = message->head.id;
    client->is_opening = true;
    client->has_more = open->n_more > 0;
    set->n_sessions++;
    if (set->state == SERVE_SET_READY)
        answer_opened(session);
    return PST_OK;
}

void psti_serve_sets_leave(struct psti_session *session)
{
    struct serve_client *client = session->state;
    client->is_opening = false;
    while (client->n_sets > 0) {
        struct serve_set *set = client->sets[--client->n_sets];
        set->n_sessions--;
        psti_serve_set_settle(set);
    }
}

void psti_serve_sets_sweep(struct serve_cache *cache)
{
    for (struct serve_set *set = cache->sets, *next; set; set = next) {
        next = set->next;
        psti_serve_set_settle(set);
    }
}

void psti_serve_sets_free(struct serve_cache *cache)
{
    while (cache->sets) {
        close_parts(cache->sets);
        forget(cache->sets);
    }
}
