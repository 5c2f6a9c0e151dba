/* loader_pages.c - the tier of decompressed pages, for tables whose items are compressed together
 * in pages.
 *
 * Reading one item of a page means reading and decompressing all of the page. This tier keeps the
 * last pages that workers decompressed, so that other items of them are used in place, without a
 * read. They take at most a part of host_memory, and are charged to it. A page stays while a row
 * points into it. If there is no space for another page, that page is not kept. Batches have
 * priority: a loader that lacks memory for a batch frees the pages before it fails.
 *
 * One lock guards the table of pages; no other lock is taken while it is held. Pages are copied
 * without the lock. */
#include "loader/tiers/loader_tier.h"

#include "loader/loader_handle.h"
#include "loader/tiers/loader_pages.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <string.h>

#define PAGES_PART 4 /* pages may take 1 / PAGES_PART of host_memory */
enum { PAGES_MAX = 256, STEP_NBYTES = 1 << 16 };

/* The codings that compress many items together in pages. */
#define PAGE_CODINGS                                                                               \
    (UINT32_C(1) << PST_CODING_SNAPPY | UINT32_C(1) << PST_CODING_ZSTD |                           \
     UINT32_C(1) << PST_CODING_LZ4)

struct psti_loader_page {
    uint32_t i_file;
    uint64_t offset, nbytes; /* offset of the page in its file; length of the decompressed page */
    void *bytes;             /* the decompressed page; NULL: the entry has no memory */
    uint64_t capacity;
    uint64_t used_at;
    uint32_t n_users; /* number of rows that point into the page; 1 while a worker fills it */
    bool is_there;
};

struct psti_loader_pages {
    pthread_mutex_t lock;
    struct psti_loader_page list[PAGES_MAX];
    uint32_t n;
    uint64_t clock, nbytes, nbytes_max;
    atomic_uint_fast64_t n_hits, n_decoded;
};

static enum pst_status open_pages(pst_loader *loader, const struct psti_loader_slots *slots,
                                  bool *in_use, struct pst_error *err)
{
    (void)slots;
    if (!(loader->plan.codings & PAGE_CODINGS))
        return PST_OK;
    struct psti_loader_pages *pages = psti_calloc(1, sizeof *pages);
    if (!pages)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a table of pages");
    pthread_mutex_init(&pages->lock, NULL);
    pages->nbytes_max = loader->options.host_memory / PAGES_PART;
    loader->tiers.pages = pages;
    *in_use = true;
    return PST_OK;
}

static void close_pages(pst_loader *loader)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    loader->tiers.pages = NULL;
    if (!pages)
        return;
    for (uint32_t i = 0; i < pages->n; i++)
        psti_free(pages->list[i].bytes);
    psti_batch_pool_uncharge(loader->pool, pages->nbytes);
    pthread_mutex_destroy(&pages->lock);
    psti_free(pages);
}

/* Finds the entry of the item's page, or returns NULL. The lock is held. */
static struct psti_loader_page *find(struct psti_loader_pages *pages, const struct pst_item *item)
{
    for (uint32_t i = 0; i < pages->n; i++) {
        struct psti_loader_page *page = &pages->list[i];
        if (page->i_file == item->i_file && page->offset == item->offset &&
            page->nbytes == item->page_nbytes && page->bytes)
            return page;
    }
    return NULL;
}

static enum pst_status look_up(pst_loader *loader, struct psti_loader_source *source,
                               struct pst_error *err)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    struct pst_item *item = &source->item;
    (void)err; /* an item that lies outside of its page is reported by the code that decompresses
                  it */
    if (!psti_dataset_item_is_paged(item) || source->asked || source->reads_shelf ||
        source->waits_shelf || item->page_offset > item->page_nbytes ||
        item->decoded_nbytes > item->page_nbytes - item->page_offset)
        return PST_OK;
    pthread_mutex_lock(&pages->lock);
    struct psti_loader_page *page = find(pages, item);
    bool is_there = page && page->is_there;
    if (is_there) {
        page->n_users++;
        page->used_at = ++pages->clock;
    }
    pthread_mutex_unlock(&pages->lock);
    if (!is_there)
        return PST_OK;
    source->page = page;
    source->data = (const char *)page->bytes + item->page_offset;
    psti_dataset_item_decoded(item);
    atomic_fetch_add_explicit(&pages->n_hits, 1, memory_order_relaxed);
    return PST_OK;
}

static void release(pst_loader *loader, struct psti_loader_items *items)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (!source->page)
            continue;
        pthread_mutex_lock(&pages->lock);
        source->page->n_users--;
        pthread_mutex_unlock(&pages->lock);
        source->page = NULL;
    }
}

/* Returns the least recently used page that no row points into, or NULL. The lock is held. */
static struct psti_loader_page *find_oldest(struct psti_loader_pages *pages)
{
    struct psti_loader_page *oldest = NULL;
    for (uint32_t i = 0; i < pages->n; i++) {
        struct psti_loader_page *page = &pages->list[i];
        if (page->n_users == 0 && (!oldest || page->used_at < oldest->used_at))
            oldest = page;
    }
    return oldest;
}

/* Frees the memory of a page that no row points into. The lock is held. */
static void free_memory(pst_loader *loader, struct psti_loader_page *page)
{
    psti_free(page->bytes);
    psti_batch_pool_uncharge(loader->pool, page->capacity);
    loader->tiers.pages->nbytes -= page->capacity;
    page->bytes = NULL;
    page->capacity = 0;
    page->is_there = false;
}

/* Gives the entry at least nbytes of memory, within the limit. False: that is not possible. The
 * lock is held. */
static bool give_memory(pst_loader *loader, struct psti_loader_page *page, uint64_t nbytes)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    if (page->bytes && page->capacity >= nbytes)
        return true;
    uint64_t capacity = psti_round_up((size_t)nbytes, STEP_NBYTES);
    free_memory(loader, page);
    if (capacity + pages->nbytes > pages->nbytes_max ||
        !psti_batch_pool_charge(loader->pool, capacity, false))
        return false;
    page->bytes = psti_alloc((size_t)capacity);
    if (!page->bytes) {
        psti_batch_pool_uncharge(loader->pool, capacity);
        return false;
    }
    page->capacity = capacity;
    pages->nbytes += capacity;
    return true;
}

/* Finds an entry for a page that is not in the table: a new one if there is memory for it, else the
 * least recently used one. The lock is held. */
static struct psti_loader_page *make_room(pst_loader *loader, const struct pst_item *item)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    if (item->page_nbytes > pages->nbytes_max || find(pages, item))
        return NULL; /* the page is too large, or another worker has added it */
    struct psti_loader_page *page = NULL;
    if (pages->n < PAGES_MAX && give_memory(loader, &pages->list[pages->n], item->page_nbytes))
        page = &pages->list[pages->n++];
    if (!page) {
        page = find_oldest(pages);
        if (page)
            page->is_there = false;
        if (!page || !give_memory(loader, page, item->page_nbytes))
            return NULL;
    }
    page->i_file = item->i_file;
    page->offset = item->offset;
    page->nbytes = item->page_nbytes;
    page->used_at = ++pages->clock;
    page->is_there = false;
    page->n_users = 1;
    return page;
}

void psti_loader_pages_keep(pst_loader *loader, const struct pst_item *item, const void *decoded)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    if (!pages || !psti_dataset_item_is_paged(item))
        return;
    atomic_fetch_add_explicit(&pages->n_decoded, 1, memory_order_relaxed);
    pthread_mutex_lock(&pages->lock);
    struct psti_loader_page *page = make_room(loader, item);
    pthread_mutex_unlock(&pages->lock);
    if (!page)
        return;
    memcpy(page->bytes, decoded, (size_t)item->page_nbytes);
    pthread_mutex_lock(&pages->lock);
    page->is_there = true;
    page->n_users--;
    pthread_mutex_unlock(&pages->lock);
}

bool psti_loader_pages_shrink(pst_loader *loader)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    if (!pages)
        return false;
    pthread_mutex_lock(&pages->lock);
    uint64_t before = pages->nbytes;
    for (uint32_t i = 0; i < pages->n; i++)
        if (pages->list[i].n_users == 0)
            free_memory(loader, &pages->list[i]);
    bool freed = pages->nbytes < before;
    if (freed)
        pages->nbytes_max /= 2;
    pthread_mutex_unlock(&pages->lock);
    return freed;
}

bool psti_loader_pages_are_used(pst_loader *loader)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    bool used = false;
    if (!pages)
        return false;
    pthread_mutex_lock(&pages->lock);
    for (uint32_t i = 0; i < pages->n && !used; i++)
        used = pages->list[i].n_users > 0;
    pthread_mutex_unlock(&pages->lock);
    return used;
}

static void add_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    struct psti_loader_pages *pages = loader->tiers.pages;
    stats->n_page_hits = atomic_load(&pages->n_hits);
    stats->n_pages_decoded = atomic_load(&pages->n_decoded);
    pthread_mutex_lock(&pages->lock);
    stats->pages_nbytes = pages->nbytes;
    pthread_mutex_unlock(&pages->lock);
}

const struct psti_loader_tier_ops psti_loader_tier_pages = {.open = open_pages,
                                                            .close = close_pages,
                                                            .look_up = look_up,
                                                            .release = release,
                                                            .stats = add_stats};
